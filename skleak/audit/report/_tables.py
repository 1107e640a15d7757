"""What the forms of an audit report derive from its tables; nothing here is measured anew."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skleak.utils._typing import IntArray

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = [
    "BASELINES",
    "WORTH_A_WORD",
    "best_rows",
    "bound_advantages",
    "counts_success",
    "exposure_column",
    "floor_advantages",
    "imputation_error",
    "levels",
    "middle_noise",
    "most_exposed",
    "prior_error",
    "record_advantages",
    "relative_errors",
    "tightest",
    "vulnerability",
]

# Attacks that do not look at the released model.
BASELINES = ("prior", "imputation")
# An advantage that some attack surely reaches is mentioned from here.
WORTH_A_WORD = 0.01
# Attacks and bounds closer than this are equal.
_SAME = 1e-9


def counts_success(report: "AuditReport") -> bool:
    """Whether guesses are right or wrong, rather than numbers off by an error.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    bool
    """
    return report.kind in ("categorical", "membership")


def levels(report: "AuditReport") -> pd.DataFrame:
    """The first row of each noise scale, for what all attacks share: bounds, baseline, utility.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    DataFrame
        Index ``noise_scale``, ascending.
    """
    first = report.results.drop_duplicates("noise_scale").set_index("noise_scale")
    return first.sort_index()


def prior_error(report: "AuditReport") -> pd.Series:
    """Mean squared error of guessing the mean of the others, of a numeric attribute or of records.

    Parameters
    ----------
    report : AuditReport
        Of kind "numeric" or "record".

    Returns
    -------
    Series
        Squared units of the attribute, by noise scale.
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

    Parameters
    ----------
    report : AuditReport
        Of kind "numeric" or "record".

    Returns
    -------
    Series
        Squared units of the attribute, by noise scale; nan where it was not computed.
    """
    first = levels(report)
    rest = (1.0 - first["baseline"].astype(float)).where(lambda share: share > 0.0)
    return prior_error(report) * (1.0 - first["imputation"].astype(float)) / rest


def bound_advantages(report: "AuditReport") -> pd.DataFrame:
    """Every bound as an advantage over the prior.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    DataFrame
        A column for each bound, index ``noise_scale``. For errors it is 1 minus the bound over the
        error of the prior guess; -inf where no unbiased attack has a finite error.
    """
    first, bounds = levels(report), list(report.settings["bounds"])
    table = first[bounds].astype(float)
    if counts_success(report):
        rest = (1.0 - first["baseline"].astype(float)).where(lambda share: share > 0.0)
        return table.sub(first["baseline"].astype(float), axis=0).div(rest, axis=0)
    return 1.0 - table.div(prior_error(report).where(lambda error: error > 0.0), axis=0)


def floor_advantages(report: "AuditReport") -> pd.Series | None:
    """What some attack surely reaches at every noise scale, as an advantage over the prior.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    Series or None
        Index ``noise_scale``; None where it is nowhere worth a word, or the audit is not about
        membership.
    """
    if report.kind != "membership":
        return None
    first = levels(report)
    baseline = first["baseline"].astype(float)
    floor = (first["lower_bound"].astype(float) - baseline) / (1.0 - baseline)
    return floor if (floor >= WORTH_A_WORD).any() else None


def tightest(report: "AuditReport") -> pd.DataFrame:
    """The smallest upper bound at every noise scale.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    DataFrame
        Index ``noise_scale``; ``bound`` (its column, None without any), ``value`` (success, or
        mean squared error) and ``advantage``.
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

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    DataFrame
        ``mean`` and ``largest`` advantage, index ``noise_scale``; nan where no bound is known.
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


def best_rows(report: "AuditReport") -> pd.DataFrame:
    """The most successful attack at every noise scale, among those that look at the model.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    DataFrame
        Rows of the results, index ``noise_scale``. Where only baselines were played, the best of
        those.
    """
    results = report.results
    seeing = results[~results["attack"].isin(BASELINES)]
    played = seeing if len(seeing) else results
    order = played.sort_values("success", ascending=False, kind="stable", na_position="last")
    return order.drop_duplicates("noise_scale").set_index("noise_scale").sort_index()


def relative_errors(report: "AuditReport") -> pd.DataFrame:
    """Mean squared errors relative to that of guessing the mean, with their intervals.

    Parameters
    ----------
    report : AuditReport
        Of kind "numeric" or "record".

    Returns
    -------
    DataFrame
        ``error``, ``error_low`` and ``error_high``, in the order of the results.
    """
    results = report.results
    parts = {"error": "advantage", "error_low": "advantage_high", "error_high": "advantage_low"}
    # Rounding may leave an error of zero an ulp below it.
    return pd.DataFrame(
        {new: (1.0 - results[old].astype(float)).clip(lower=0.0) for new, old in parts.items()}
    )


def exposure_column(report: "AuditReport") -> str:
    """Column of the records by which they are ordered and grouped.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    str
        ``eta``, or ``distance`` for membership.
    """
    return "distance" if report.kind == "membership" else "eta"


def _at_middle(report: "AuditReport") -> pd.DataFrame:
    """Records at the middle noise scale, what orders them in ``eta``."""
    at = report.records[report.records["noise_scale"] == middle_noise(report)]
    return at.rename(columns={exposure_column(report): "eta"})


def middle_noise(report: "AuditReport") -> float:
    """The noise scale in the middle of those with records, preferring noise above zero.

    Parameters
    ----------
    report : AuditReport
        The report.

    Returns
    -------
    float
        NaN where there are no records.
    """
    scales = np.unique(report.records["noise_scale"].to_numpy(dtype=float))
    if np.any(scales > 0.0):
        scales = scales[scales > 0.0]
    return float(scales[(len(scales) - 1) // 2]) if len(scales) else np.nan


def most_exposed(report: "AuditReport", n_records: int = 10) -> pd.DataFrame:
    """The records about which a model at the middle noise scale tells most.

    Parameters
    ----------
    report : AuditReport
        The report.
    n_records : int, default=10
        Largest number of rows.

    Returns
    -------
    DataFrame
        ``record``, ``eta`` (see `exposure_column`), ``prior``, ``value`` (the best attack's
        success, or the smallest error of an unbiased attack) and ``exposure``: value minus prior,
        or 1 minus value over prior; most exposed first. ``attrs["source"]`` is the column
        ``value`` was taken from.
    """
    at = _at_middle(report)
    source = _source(report, at)
    value = at[source].astype(float) if source else pd.Series(np.nan, index=at.index)
    prior = at["prior"].astype(float)
    relative = 1.0 - value / prior.where(prior > 0.0)
    exposure = value - prior if counts_success(report) else relative
    table = at[["record", "eta"]].assign(prior=prior, value=value, exposure=exposure)
    # Rounded, so that records that differ by round-off are ordered by their information loss.
    order = table.assign(rounded=exposure.round(9)).sort_values(
        ["rounded", "eta"], ascending=False, kind="stable", na_position="last"
    )
    known = table.loc[order.index, ["eta", "exposure"]].notna().any(axis=1)
    shown = table.loc[order.index][known].head(n_records).reset_index(drop=True)
    shown.attrs["source"] = source
    return shown


def vulnerability(report: "AuditReport", n_groups: int = 10) -> pd.DataFrame | None:
    """Mean success, or median error, in groups of records of rising Fisher information loss.

    Groups are made by rank and hold the same number of records, so that equal losses do no harm
    ([FIL21] figure 7).

    Parameters
    ----------
    report : AuditReport
        The report.
    n_groups : int, default=10
        Number of groups; fewer where there are fewer records.

    Returns
    -------
    DataFrame or None
        A row for each group, index from 1: ``n_records``, ``eta_low``, ``eta_high``, ``prior``,
        and the means of ``bayes`` and of every ``success_<attack>``, or the medians of
        ``cramer_rao`` and of every ``mse_<attack>``, at the middle noise scale. None where no loss
        is known.
    """
    at = _at_middle(report)
    at = at[at["eta"].notna()].sort_values("eta", kind="stable")
    if at.empty:
        return None
    group = _groups(len(at), n_groups)
    best = "bayes" if counts_success(report) else "cramer_rao"
    start = "success_" if counts_success(report) else "mse_"
    losses = at["eta"].astype(float).groupby(group)
    table = pd.DataFrame(
        {"n_records": losses.size(), "eta_low": losses.min(), "eta_high": losses.max()}
    )
    for name in ("prior", best, *(start + str(attack) for attack in report.settings["attacks"])):
        if name in at and at[name].notna().any():
            values = at[name].astype(float).groupby(group)
            # Errors have no mean to speak of where a bound grows without limit.
            table[name] = values.mean() if counts_success(report) else values.median()
    return table


def _groups(n: int, n_groups: int) -> IntArray:
    n_groups = min(n, n_groups)
    return np.arange(n) * n_groups // n + 1


def _source(report: "AuditReport", at: pd.DataFrame) -> str | None:
    """The column of the records that says best how exposed they are."""
    if counts_success(report):
        start, names = "success_", ["bayes", "tightest_bound"]
    else:
        start, names = "mse_", ["cramer_rao"]
    names += [start + str(name) for name in best_rows(report)["attack"]]
    return next((name for name in names if name in at and at[name].notna().any()), None)
