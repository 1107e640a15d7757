"""Which records are exposed, at one noise scale of an audit."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.plotting.results._groups import group_records
from skleak.plotting.results._results import SHARE, best_rows, counts_success, guess_success


def exposure_column(audit: Any) -> str:
    """Return the column of the records by which they are ordered and grouped.

    Returns ``eta``, or ``distance`` for membership.
    """
    return "distance" if audit.kind == "membership" else "eta"


def _at_middle(audit: Any) -> pd.DataFrame:
    """Return records at the middle noise scale, what orders them in ``eta``."""
    at = audit.records[audit.records["noise_scale"] == middle_noise(audit)]
    return at.rename(columns={exposure_column(audit): "eta"})


def middle_noise(audit: Any) -> float:
    """Return the noise scale in the middle of those with records, preferring noise above zero.

    Returns: NaN where there are no records.
    """
    scales = np.unique(audit.records["noise_scale"].to_numpy(dtype=float))
    if np.any(scales > 0.0):
        scales = scales[scales > 0.0]
    return float(scales[(len(scales) - 1) // 2]) if len(scales) else np.nan


def most_exposed(audit: Any, n_records: int = 10) -> pd.DataFrame:
    """Return the records about which a model at the middle noise scale tells most.

    Returns ``record``, its ``label``, ``eta`` (see `exposure_column`), ``prior``, ``value`` (the
    best attack's success, or the smallest error of an attacker with the prior of a number, else of
    an unbiased attack) and ``exposure``: value minus prior, or 1 minus value over prior, which is
    the share of the squared error that is removed; most exposed first. ``attrs["source"]`` is the
    column ``value`` was taken from.
    """
    at = _at_middle(audit)
    source = _source(audit, at)
    value = at[source].astype(float) if source else pd.Series(np.nan, index=at.index)
    prior, played = at["prior"].astype(float), str(source).startswith("success_")
    if played:
        prior = guess_success(audit, at)
    if source == SHARE:
        # Both errors are means over what the number may be, rather than about the true one.
        prior = at["prior_variance"].astype(float)
        value = (1.0 - value) * prior
    relative = 1.0 - value / prior.where(prior > 0.0)
    exposure = value - prior if counts_success(audit) else relative
    table = at[["record", "label", "eta"]].assign(prior=prior, value=value, exposure=exposure)
    # Rounded, so that records that differ by round-off are ordered by their information loss.
    order = table.assign(rounded=exposure.round(9)).sort_values(
        ["rounded", "eta"], ascending=False, kind="stable", na_position="last"
    )
    known = table.loc[order.index, ["eta", "exposure"]].notna().any(axis=1)
    if played and audit.kind == "categorical":
        known &= ~(table.loc[order.index, "exposure"] <= 0.0)  # no more than without the model
    shown = table.loc[order.index][known].head(n_records).reset_index(drop=True)
    shown.attrs["source"] = source
    return shown


def grouped(audit: Any, noise: float, n_groups: int) -> pd.DataFrame:
    """Return records in groups of rising Fisher information loss ([FIL21] figure 7).

    Returns: as of `group_records`: means of ``prior``, ``bayes`` and every ``success_<attack>``,
    or medians of ``cramer_rao`` and every ``mse_<attack>`` over the error of the prior guess about
    the same record; of a number over the variance of its prior, and ``share_at_most`` as it is.
    Without columns that are known of no record.
    """
    at = audit.records[audit.records["noise_scale"] == noise]
    guesses = counts_success(audit)
    start, best = ("success_", "bayes") if guesses else ("mse_", "cramer_rao")
    names = [SHARE, best, *(str(name) for name in at if str(name).startswith(start))]
    values = at[[name for name in names if name in at and at[name].notna().any()]].astype(float)
    prior = at["prior_variance" if SHARE in values else "prior"].astype(float)
    if guesses:
        values.insert(0, "prior", prior)
    else:
        errors = [name for name in values if name != SHARE]
        values[errors] = values[errors].div(prior.where(prior > 0.0), axis=0)
    eta = at[exposure_column(audit)]
    return group_records(eta, values, n_groups, "mean" if guesses else "median")


def vulnerability(audit: Any, n_groups: int = 10) -> pd.DataFrame | None:
    """Return records in groups of rising Fisher information loss, at the middle noise scale.

    Returns: as of `grouped`; None where no loss is known.
    """
    middle = middle_noise(audit)
    at = audit.records[audit.records["noise_scale"] == middle]
    n_known = int(at[exposure_column(audit)].notna().sum())
    return grouped(audit, middle, min(n_groups, n_known)) if n_known else None


def _source(audit: Any, at: pd.DataFrame) -> str | None:
    """Return the column of the records that says best how exposed they are."""
    if counts_success(audit):
        start, names = "success_", ["bayes", "tightest_bound"]
    else:
        start, names = "mse_", [SHARE, "cramer_rao"]
    best = best_rows(audit)
    names += [start + str(name) for name in best["attack"][~best["failed"]]]
    return next((name for name in names if name in at and at[name].notna().any()), None)
