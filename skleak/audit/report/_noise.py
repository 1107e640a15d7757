"""Sentences: whether the estimator that was audited adds the noise that it states."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.report._facts import AuditFacts
from skleak.plotting.labels import count, number, plural

# What is said of a check that failed, with its statistic.
_FOUND = {
    "mean": "releases are not centered on the parameters of this fit (off by {} standard errors)",
    "spread": "the standard deviation of a parameter is {} of the one stated",
    "directions": "the standard deviation along a direction between two values is {} of the one "
    "stated",
    "missing": "{} of the parameters without any noise",
    "replayed": "{} pairs of releases with the same noise",
    "covariance": "the noise of different parameters is not independent as stated (largest "
    "correlation {})",
    "shape": "the noise is not normal (a mean of x^2 / 2 - sqrt(2) |x| of {}, normal is -0.63)",
    "shape_by_parameter": "the noise on a parameter or along a direction is not normal (odds of "
    "10^{} against it)",
}
# The smallest fault that a check finds.
_FINDS = {
    "mean": "a shift of {} standard deviations",
    "spread": "{} of the noise on one parameter",
    "directions": "{} of the noise along a direction between two values",
    "covariance": "a correlation of {} between two parameters",
    "shape_by_parameter": "a tenth of the noise on one parameter in {} of the releases",
}
# What games are played with where a check failed.
_PLAYED = {
    "simulated": "Gaussian noise of the covariance measured",
    "fitted": "real fits and what they released",
}
# The check that is no fault of the noise.
_OFF = "hypotheses"
# Noise scales named one by one; more are counted.
_N_NAMED = 3


def noise_findings(report: AuditFacts) -> list[str]:
    """Say what the checks of the noise found, in one sentence where all is well, and what none did.

    Returns: empty where there was nothing to check.
    """
    unchecked = report.settings.get("unchecked", "")
    lines = [f"Not checked: {unchecked}."] if unchecked else []
    checks = report.checks
    if checks.empty:
        return lines
    failed = checks[~checks["passed"].astype(bool)]
    off, wrong = (failed[is_it] for is_it in (failed["check"] == _OFF, failed["check"] != _OFF))
    if failed.empty:
        lines.insert(0, _all_well(checks))
    if len(wrong):
        lines.insert(0, _faults(report, wrong))
    if len(off):
        lines.insert(0, _mismatch(off))
    return lines


def _all_well(checks: pd.DataFrame) -> str:
    own = checks[checks["check"] != _OFF]
    n_levels = checks["noise_scale"].nunique()
    at = "" if own.empty else f", as far as {plural(int(own['n_releases'].iloc[0]), 'release')}"
    at += f" at each of {plural(n_levels, 'noise scale')}" if at and n_levels > 1 else ""
    at += " tell" if at else ""
    names = ", ".join(checks["check"].unique())
    well = (
        f"The estimator adds the noise that it states{at}: all of "
        f"{plural(len(checks), 'check')} were passed ({names}; the chance of any false alarm is "
        f"{_chance(checks)})."
    )
    faults = [
        said.format(number(fault))
        for check, said in _FINDS.items()
        if np.isfinite(fault := float(own["smallest_fault"][own["check"] == check].min()))
    ]
    found = f" Found 99 times in 100, and larger faults more often: {'; '.join(faults)}."
    return well + found if faults else well


def _chance(checks: pd.DataFrame) -> str:
    """Say how likely any of the checks of the noise accuses a sound one, rounded upward."""
    odds = 1.0 / float(checks["level"][checks["check"] != _OFF].sum())
    unit = 10.0 ** np.floor(np.log10(odds * (1.0 + 1e-9)))
    return f"at most 1 in {count(int(odds / unit * (1.0 + 1e-9)) * int(unit))}"


def _mismatch(off: pd.DataFrame) -> str:
    places = [
        f"{number(statistic)} times as far at noise scale {number(noise)}"
        for noise, statistic in zip(off["noise_scale"], off["statistic"], strict=True)
    ]
    more = len(places) - _N_NAMED
    return (
        "The releases are not around what the attacks take for the parameters without noise, by "
        f"the check of hypotheses: {', '.join(places[:_N_NAMED])}"
        + (f", and so at {plural(more, 'more noise scale')}" if more > 0 else "")
        + " as the noise explains. The attacks suppose another training than the estimator's, and "
        "a better attack may exist; the bounds are not about this estimator."
    )


def _faults(facts: AuditFacts, failed: pd.DataFrame) -> str:
    checks = facts.checks
    levels = list(failed.groupby("noise_scale"))
    parts = [_level(noise, rows) for noise, rows in levels[:_N_NAMED]]
    more = len(levels) - _N_NAMED
    return (
        f"The estimator does not add the noise that it states. {' '.join(parts)}"
        + (f" So it is at {plural(more, 'more noise scale')}." if more > 0 else "")
        + f" Failed were {count(len(failed))} of {plural(len(checks), 'check')}; the chance that "
        f"any of them accuses sound noise is {_chance(checks)}. The games were played with "
        + _PLAYED[facts.settings.get("releases", "simulated")]
        + ", against bounds for the noise stated: the bounds do not hold for this estimator."
    )


def _level(noise: Any, rows: Any) -> str:
    found = "; ".join(
        _FOUND[check].format(number(statistic))
        for check, statistic in zip(rows["check"], rows["statistic"], strict=True)
    )
    return (
        f"At noise scale {number(float(noise))}, in "
        f"{plural(int(rows['n_releases'].iloc[0]), 'release')}: {found}."
    )
