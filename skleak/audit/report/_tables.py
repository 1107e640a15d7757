"""What the forms of an audit report derive from its tables; nothing here is measured anew."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = [
    "BASELINES",
    "WORTH_A_WORD",
    "best_rows",
    "bound_advantages",
    "counts_success",
    "drawn_bounds",
    "failed_rows",
    "floor_advantages",
    "imputation_error",
    "levels",
    "median",
    "prior_error",
    "record_advantages",
    "relative_errors",
    "tightest",
]

# Attacks that do not look at the released model.
BASELINES = ("prior", "imputation")
# An advantage that some attack surely reaches is mentioned from here.
WORTH_A_WORD = 0.01
# Attacks and bounds closer than this are equal.
_SAME = 1e-9


def counts_success(report: "AuditReport") -> bool:
    """Return True if guesses are right or wrong, rather than numbers off by an error."""
    return report.kind in ("categorical", "membership")


def levels(report: "AuditReport") -> pd.DataFrame:
    """The first row of each noise scale, for what all attacks share: bounds, baseline, utility.

    Returns: index ``noise_scale``, ascending.
    """
    first = report.results.drop_duplicates("noise_scale").set_index("noise_scale")
    return first.sort_index()


def prior_error(report: "AuditReport") -> pd.Series:
    """Mean squared error of guessing the mean of the others, of a numeric attribute or of records.

    Returns: squared units of the attribute, by noise scale.
    """
    results = report.results
    # 1 - advantage is the error relative to that of the prior, whichever the attack.
    relative = 1.0 - results["advantage"].astype(float)
    known = np.isfinite(relative) & (relative > 0.0) & np.isfinite(results["mse"].astype(float))
    implied = (results["mse"] / relative)[known].groupby(results["noise_scale"]).mean()
    stated = report.records.groupby("noise_scale")["prior"].mean()
    return implied.combine_first(stated).reindex(levels(report).index).astype(float)


def imputation_error(report: "AuditReport") -> pd.Series:
    """Mean squared error of imputation without the model, from its success.

    Returns: squared units of the attribute, by noise scale; nan where it was not computed.
    """
    first = levels(report)
    rest = (1.0 - first["baseline"].astype(float)).where(lambda share: share > 0.0)
    return prior_error(report) * (1.0 - first["imputation"].astype(float)) / rest


def bound_advantages(report: "AuditReport") -> pd.DataFrame:
    """Every bound as an advantage over the prior.

    Returns: A column for each bound, index ``noise_scale``. For errors it is 1 minus the bound
    over the error of the prior guess; -inf where no unbiased attack has a finite error.
    """
    first, bounds = levels(report), list(report.settings["bounds"])
    table = first[bounds].astype(float)
    if counts_success(report):
        rest = (1.0 - first["baseline"].astype(float)).where(lambda share: share > 0.0)
        return table.sub(first["baseline"].astype(float), axis=0).div(rest, axis=0)
    return 1.0 - table.div(prior_error(report).where(lambda error: error > 0.0), axis=0)


def drawn_bounds(report: "AuditReport") -> list[str]:
    """Columns of the bounds that figures set beside attacks.

    Returns: means of bounds on errors, since the errors are means, too.
    """
    names = [str(name) for name in report.settings["bounds"]]
    if counts_success(report):
        return names
    return [f"{name}_mean" if f"{name}_mean" in report.results else name for name in names]


def floor_advantages(report: "AuditReport") -> pd.Series | None:
    """What some attack surely reaches at every noise scale, as an advantage over the prior.

    Returns: index ``noise_scale``; None where it is nowhere worth a word, or the audit is not
    about membership.
    """
    if report.kind != "membership":
        return None
    first = levels(report)
    baseline = first["baseline"].astype(float)
    floor = (first["lower_bound"].astype(float) - baseline) / (1.0 - baseline)
    return floor if (floor >= WORTH_A_WORD).any() else None


def tightest(report: "AuditReport") -> pd.DataFrame:
    """The smallest upper bound at every noise scale.

    Returns: index ``noise_scale``; ``bound`` (its column, None without any), ``value`` (success,
    or mean squared error) and ``advantage``.
    """
    first, advantages = levels(report), bound_advantages(report)
    names = list(report.settings["bounds"])
    bounds, gains = first[names].to_numpy(dtype=float), advantages.to_numpy(dtype=float)
    # Errors are bounded from below.
    loose = bounds if counts_success(report) else -bounds
    rows: list[tuple[str | None, float, float]] = []
    for k in range(len(first)):
        if np.isnan(loose[k]).all():
            rows.append((None, np.nan, np.nan))
            continue
        best = np.nanmin(loose[k])
        # The first of those that are equal but for round-off: the Bayes value, where it is there.
        j = int(np.argmax(loose[k] <= best + (_SAME if np.isfinite(best) else 0.0)))
        rows.append((names[j], float(bounds[k, j]), float(gains[k, j])))
    return pd.DataFrame(rows, columns=["bound", "value", "advantage"], index=first.index)


def record_advantages(report: "AuditReport") -> pd.DataFrame:
    """Upper bounds on what an attack gains over the prior, on average and for single records.

    For errors a record counts with the smaller of its bound and the error of guessing the mean:
    else records about which nothing can be learnt would hide the others in the mean.

    Returns ``mean`` and ``largest`` advantage, index ``noise_scale``; nan where no bound is known.
    """
    records = report.records
    prior = records["prior"].astype(float)
    if counts_success(report):
        known = [name for name in ("bayes", "tightest_bound") if name in records]
        bound = records[known].astype(float).min(axis=1)
        advantage = (bound - prior) / (1.0 - prior).where(lambda rest: rest > 0.0)
        mean = tightest(report)["advantage"].astype(float)
    else:
        known = [name for name in ("cramer_rao",) if name in records]
        bound = records[known].astype(float).min(axis=1).clip(upper=prior)
        advantage = 1.0 - bound / prior.where(prior > 0.0)
        groups = [values.groupby(records["noise_scale"]).sum() for values in (bound, prior)]
        # Where the bound of any record is unknown, so is the mean.
        missing = bound.isna().groupby(records["noise_scale"]).any()
        mean = (1.0 - groups[0] / groups[1].where(groups[1] > 0.0)).mask(missing)
    largest = advantage.groupby(records["noise_scale"]).max()
    return pd.DataFrame({"mean": mean, "largest": largest}, dtype=float).reindex(
        levels(report).index
    )


def failed_rows(report: "AuditReport") -> pd.DataFrame:
    """Rows of attacks on the model that do worse than guessing, beyond what chance explains.

    A few hopeless records can ruin a mean error: an attack that comes closer than a guess to half
    of the records has not failed.

    Returns: rows of the results.
    """
    results = report.results
    worse = (results["advantage_high"].astype(float) < 0.0) & ~results["attack"].isin(BASELINES)
    if not counts_success(report):
        typical = [
            _median_over_guess(report, noise, attack)
            for noise, attack in zip(results["noise_scale"], results["attack"], strict=True)
        ]
        worse &= ~(np.array(typical) < 1.0)
    return results[worse]


def _median_over_guess(report: "AuditReport", noise: float, attack: str) -> float:
    """Median over the records of the error over that of the prior guess; NaN if not known."""
    records, column = report.records, f"mse_{attack}"
    if column not in records:
        return np.nan
    at = records[records["noise_scale"] == noise]
    prior = at["prior"].astype(float)
    return median(at[column].astype(float) / prior.where(prior > 0.0))


def median(values: pd.Series) -> float:
    """Median of what is known; NaN, and no warning of an older pandas, where nothing is."""
    known = values.dropna()
    return float(known.median()) if len(known) else np.nan


def best_rows(report: "AuditReport") -> pd.DataFrame:
    """The most successful attack at every noise scale, among those that look at the model.

    Returns: rows of the results, index ``noise_scale``, with ``failed``: whether even the best
    has, see `failed_rows`. Where only baselines were played, the best of those.
    """
    results = report.results.assign(failed=False)
    results.loc[failed_rows(report).index, "failed"] = True
    seeing = results[~results["attack"].isin(BASELINES)]
    played = seeing if len(seeing) else results
    order = played.assign(loss=-played["success"]).sort_values(
        ["failed", "loss"], kind="stable", na_position="last"
    )
    best = order.drop(columns="loss").drop_duplicates("noise_scale")
    return best.set_index("noise_scale").sort_index()


def relative_errors(report: "AuditReport") -> pd.DataFrame:
    """Mean squared errors relative to that of guessing the mean, with their intervals.

    Returns ``error``, ``error_low`` and ``error_high``, in the order of the results.
    """
    results = report.results
    parts = {"error": "advantage", "error_low": "advantage_high", "error_high": "advantage_low"}
    # Rounding may leave an error of zero an ulp below it.
    return pd.DataFrame(
        {new: (1.0 - results[old].astype(float)).clip(lower=0.0) for new, old in parts.items()}
    )
