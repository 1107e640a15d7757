"""Tables of a game about a secret of every record, from the outcomes of its cells."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from skleak.audit.tables._design import Outcome, SecretDesign, cell_key
from skleak.audit.tables._numbers import (
    number_columns,
    number_record_columns,
    number_verdict,
)
from skleak.audit.tables._rows import (
    Played,
    bounded_columns,
    gains,
    judged_columns,
    record_table,
    success_columns,
)
from skleak.audit.tables._sampled import mean_bound, sample_bound
from skleak.audit.tables._verdicts import error_verdict
from skleak.metrics import INCOMPARABLE, Interval, mean_interval
from skleak.utils._typing import FloatArray


def success_results(design: SecretDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and attack whose cell is finished, of guessed values."""
    return _results(design, cells, _success_row)


def error_results(design: SecretDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and attack whose cell is finished, of estimated numbers."""
    return _results(design, cells, _error_row)


def _results(
    design: SecretDesign, cells: Mapping[str, Outcome], row: Callable[..., dict[str, Any]]
) -> pd.DataFrame:
    rows = []
    for noise in design.noise_scales:
        bounds = cells.get(cell_key(noise, "bounds"))
        utility = cells.get(cell_key(noise, "utility"), {}).get("utility", np.array(np.nan))
        for name in design.attacks:
            outcome = cells.get(cell_key(noise, name))
            if outcome is not None:
                start = {"noise_scale": noise, "attack": name}
                found = row(design, outcome, bounds, float(utility.mean()))
                rows.append(start | found | _unjudged(design, name, found))
    return pd.DataFrame(rows)


def _unjudged(design: SecretDesign, name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the verdict where there is none: the attack uses what the prior leaves out."""
    if name not in design.incomparable:
        return {}
    excess = {"detectable_excess": np.nan} if "detectable_excess" in found else {}
    return {"verdict": INCOMPARABLE, **excess}


def _success_row(
    design: SecretDesign, outcome: Outcome, bounds: Outcome | None, utility: float
) -> dict[str, Any]:
    means = dict.fromkeys(design.bounds, np.nan)
    limits, sampled = dict(means), {}
    if bounds is not None:
        found = {name: mean_bound(bounds, name, design.prior_score) for name in design.bounds}
        means |= {name: mean.value for name, mean in found.items()}
        limits |= {name: mean.limit for name, mean in found.items()}
        if "n_all" in bounds and found:
            # Verdicts are about the sample; what is shown for all records allows for the others.
            found = {name: sample_bound(bounds, name) for name in design.bounds}
        if ("computed" in bounds or "n_all" in bounds) and found:
            tightest = min(found.values(), key=lambda mean: np.nan_to_num(mean.value, nan=np.inf))
            sampled = {
                "bound_error": tightest.standard_error,
                "bound_limit": tightest.limit,
                "n_bounded": int(np.sum(bounds.get("computed", len(design.targets)))),
            }
    played = Played.of(design, outcome)
    n_secrets = 0 if design.drawn else len(design.targets)
    judged = judged_columns(design, played, means, limits, utility, n_secrets)
    return _scores(design, played.shown) | judged | sampled


def _scores(design: SecretDesign, success: Interval) -> dict[str, Any]:
    return {
        **success_columns(success, design.baseline),
        "imputation": design.imputation,
        **gains("advantage_over_imputation", success, design.imputation),
    }


def _error_row(
    design: SecretDesign, outcome: Outcome, bounds: Outcome | None, utility: float
) -> dict[str, Any]:
    level = design.confidence_level
    mse = _error_interval(outcome, "mse_by_release", level)
    # More error is less success.
    success = Interval(*(1.0 - value / design.spread for value in (mse[0], mse[2], mse[1])))
    success = Interval(success[0], success[1], min(success[2], 1.0))
    ratio = judged = Interval(np.nan, np.nan, np.nan)
    if not np.isnan(outcome["ratio"]):
        ratio = _ratio_interval(outcome, level)
        judged = _ratio_interval(outcome, design.verdict_level)
    unbiased = error_verdict(judged.low, judged.high, _is_biased(design, outcome))
    return {
        **_scores(design, success),
        "verdict": number_verdict(design, outcome, bounds, unbiased),
        "utility": utility,
        "n_games": int(outcome["games"]),
        "mse": mse.estimate,
        "mse_low": mse.low,
        "mse_high": mse.high,
        "variance": float(outcome["variance"].mean()),
        "squared_bias": float(outcome["squared_bias"].mean()),
        "mse_over_bound": ratio.estimate,
        "mse_over_bound_low": ratio.low,
        "mse_over_bound_high": ratio.high,
        **_bounds_on_errors(outcome["bound"], design.prior_score),
        **number_columns(design, outcome, mse.estimate, bounds),
    }


def _bounds_on_errors(bounds: FloatArray, prior_score: FloatArray) -> dict[str, float]:
    """Median and mean of lower bounds, where one that is not known is none: 0.

    Whoever cannot learn about a record guesses it: in the mean it counts with no more than that.
    """
    if np.isnan(bounds).all():
        return {"cramer_rao": np.nan, "cramer_rao_mean": np.nan}
    known = np.nan_to_num(bounds, nan=0.0, posinf=np.inf)
    return {
        "cramer_rao": float(np.median(known)),
        "cramer_rao_mean": float(np.minimum(known, prior_score).mean()),
    }


def _error_interval(outcome: Outcome, name: str, level: float) -> Interval:
    """Student's interval over releases, not below zero."""
    values = outcome[name]
    if outcome["exact"]:
        return Interval(*[float(values[0])] * 3)
    estimate, low, high = mean_interval(values, confidence_level=level)
    return Interval(estimate, max(low, 0.0), high)


def _ratio_interval(outcome: Outcome, level: float) -> Interval:
    """Interval of the median over the records of the error over its bound.

    All records may share one noise: their mean errors are then as skewed as a chi-squared variable
    over its degrees of freedom, one a release. A median lies beyond a value only if half of the
    records do, which is at most twice as likely as that one does (Markov). Student's interval of
    the mean ratio allows for errors that are spread wider than those of a linear attack.
    """
    median = float(outcome["ratio"])
    if outcome["exact"]:
        return Interval(median, median, median)
    n, tail = len(outcome["ratio_by_release"]), 0.25 * (1.0 - level)
    mean, *ends = _error_interval(outcome, "ratio_by_release", level)
    low, high = (n / float(quantile(tail, n)) for quantile in (stats.chi2.isf, stats.chi2.ppf))
    if mean > 0.0:
        low, high = min(low, ends[0] / mean), max(high, ends[1] / mean)
    return Interval(median, median * low, median * high)


def _is_biased(design: SecretDesign, outcome: Outcome) -> bool:
    """Return True if the mean errors are larger than the noise of so many releases explains.

    Were there no bias, the mean square of a record over the variance of a mean would be a weighted
    mean of chi-squared variables, of which a single one has the heaviest tail. A median lies in it
    at most twice as likely as one record does (Markov).
    """
    n = design.n_releases
    if outcome["exact"]:
        return True
    if n < 2 or np.isnan(outcome["bias_over_noise"]):
        return False
    return bool(
        outcome["bias_over_noise"] > stats.f.isf(0.5 * (1.0 - design.verdict_level), 1, n - 1)
    )


def success_records(design: SecretDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and target, of guessed values."""
    others = [name for name in design.bounds if name != "bayes"]

    def columns(k: int) -> dict[str, FloatArray]:
        noise = design.noise_scales[k]
        return {"eta": design.etas[noise], **bounded_columns(design, cells, noise, others)}

    return record_table(design, columns, design.prior_score)


def error_records(design: SecretDesign, cells: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row for each noise level and target, of estimated numbers."""

    def columns(k: int) -> dict[str, FloatArray]:
        noise = design.noise_scales[k]
        outcomes = {name: cells[cell_key(noise, name)] for name in design.attacks}
        first = next(iter(outcomes.values()))
        parts = ("mse", "variance", "squared_bias")
        errors = {f"{p}_{name}": found[p] for name, found in outcomes.items() for p in parts}
        own = {"eta": design.etas[noise], "cramer_rao": first["bound"], **errors}
        return own | number_record_columns(design, cells.get(cell_key(noise, "bounds")))

    return record_table(design, columns, design.prior_score)
