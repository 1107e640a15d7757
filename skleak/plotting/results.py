"""What displays derive from the numbers that they are given, once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.utils._summaries import counted_quantiles
from skleak.utils._typing import Array, FloatArray, IntArray

# Losses this close are tied: equal in theory, computed in another order.
_SAME = 1e-9
# Where the largest loss is this many times the median, equal bins would hold all in the first.
_HEAVY_TAIL = 30.0
# Decades below the largest loss that a logarithmic axis shows.
_N_DECADES = 6
# Losses closer than this, relative to the largest, are equal for the eye.
_EQUAL = 1e-3


def counts_success(audit: Any) -> bool:
    """Return True if guesses are right or wrong, rather than numbers off by an error."""
    return audit.kind in ("categorical", "membership")


def middle_noise(audit: Any) -> float:
    """Return the noise scale in the middle of those with records, preferring noise above zero.

    Returns: NaN where there are no records.
    """
    scales = np.unique(audit.records["noise_scale"].to_numpy(dtype=float))
    if np.any(scales > 0.0):
        scales = scales[scales > 0.0]
    return float(scales[(len(scales) - 1) // 2]) if len(scales) else np.nan


def grouped(audit: Any, noise: float, risk: str, n_groups: int) -> pd.DataFrame:
    """Return records in groups of rising risk, a column of the records ([FIL21] figure 7).

    Returns: as of `group_records`: means of ``bayes`` and every ``success_<attack>``, or medians of
    ``cramer_rao`` and every ``mse_<attack>`` over the error of the prior guess about the same
    record; of a number over the variance of its prior. Without columns that are known of no record.
    """
    at = audit.records[audit.records["noise_scale"] == noise]
    known, guesses = at.dropna(axis=1, how="all"), counts_success(audit)
    start, best = ("success_", "bayes") if guesses else ("mse_", "cramer_rao")
    names = [name for name in known if name == best or str(name).startswith(start)]
    values = known[names].astype(float)
    if not guesses:
        prior = at["prior_variance" if "share_at_most" in known else "prior"].astype(float)
        values = values.div(prior.where(prior > 0.0), axis=0)
    return group_records(at[risk], values, n_groups, "mean" if guesses else "median")


def group_records(
    eta: npt.ArrayLike,
    values: Mapping[str, npt.ArrayLike] | pd.DataFrame,
    n_groups: int,
    statistic: Literal["mean", "median"] = "mean",
) -> pd.DataFrame:
    """Means or medians of groups of equal size by the rank of a loss.

    Shapes: ``eta`` (n_records,); ``values`` (n_records,); returns (n_groups, 2 + n_values): index
    ``group`` from 1, the least exposed first: ``n_records``, ``eta`` (mean) and the values, NaN
    where they are known of no record of a group.

    Groups differ in size by one record at most. Tied records are shared out equally among the
    groups they span, so that the order of the records never shows.
    """
    loss = np.asarray(eta, dtype=float)
    if loss.ndim != 1:
        raise ValueError(f"`eta` must hold one number per record; got shape {loss.shape}.")
    known = ~np.isnan(loss)
    if isinstance(n_groups, bool) or int(n_groups) != n_groups or not 1 <= n_groups <= known.sum():
        raise ValueError(
            f"`n_groups` must be a whole number from 1 to the {known.sum()} records whose Fisher "
            f"information loss is known; got {n_groups!r}."
        )
    if np.any(loss[known] < 0.0):
        raise ValueError(f"`eta` must not be negative; got {loss[known].min():g}.")
    order = np.flatnonzero(known)[np.argsort(loss[known], kind="stable")]
    ordered = loss[order]
    groups = np.array_split(np.arange(len(order)), int(n_groups))
    shares = _shares(ordered, groups)
    columns: dict[str, Any] = {
        "n_records": [len(group) for group in groups],
        "eta": [np.mean(ordered[group]) for group in groups],
    }
    typical = _median if statistic == "median" else _mean
    for name, each in values.items():
        value = np.asarray(each, dtype=float)
        if value.shape != loss.shape:
            raise ValueError(
                f"The values of {name!r} must have one number per record, shape {loss.shape}; got "
                f"shape {value.shape}."
            )
        columns[str(name)] = [typical(value[order], share) for share in shares]
    return pd.DataFrame(columns, index=pd.RangeIndex(1, int(n_groups) + 1, name="group"))


def _shares(ordered: FloatArray, groups: Sequence[Array]) -> FloatArray:
    """Share of each record in each group over random orders of ties, (n_groups, n_records)."""
    with np.errstate(invalid="ignore"):
        apart = np.diff(ordered) > _SAME * ordered[1:]
    # An infinite loss is apart from a finite one, and tied with an infinite one.
    apart = np.where(np.isinf(ordered[1:]), np.isfinite(ordered[:-1]), apart)
    ties = np.concatenate([[0], np.cumsum(apart)])
    sizes = np.bincount(ties)
    inside = [np.bincount(ties[group], minlength=len(sizes)) / sizes for group in groups]
    return np.stack(inside)[:, ties]


def _mean(values: FloatArray, shares: FloatArray) -> float:
    used = (shares > 0.0) & ~np.isnan(values)
    return float(np.average(values[used], weights=shares[used])) if used.any() else np.nan


def _median(values: FloatArray, shares: FloatArray) -> float:
    """Value with half of the weight on either side: the middle of all that have."""
    used = (shares > 0.0) & ~np.isnan(values)
    if not used.any():
        return np.nan
    order = np.argsort(values[used])
    ordered, weights = values[used][order], shares[used][order]
    below = np.cumsum(weights) / weights.sum()
    lower, upper = (ordered[np.argmax(below >= 0.5 + end)] for end in (-_SAME, _SAME))
    return float(upper if lower == upper else 0.5 * (lower + upper))


@dataclass(frozen=True)
class Histogram:
    """Counts of records in bins of leakage.

    Examples
    --------
    >>> leakage_histogram(np.array([0.0, 1.0, 1.5, 4.0]), max_bins=4).counts
    array([1, 2, 0, 1])
    """

    edges: FloatArray  # Edges of the bins, in units of the loss, increasing, (n_bins + 1,)
    counts: IntArray  # Records in each bin, (n_bins,)
    ticks: FloatArray  # Round values along the axis, within the edges, (n_ticks,)
    logarithmic: bool  # True if the axis is logarithmic
    constant: bool  # True if all losses are (nearly) the same, in one bin
    # Records in the first bin whose loss lies below it: on a logarithmic axis zeros, and losses
    # more than six decades below the largest
    n_below: int
    n_omitted: int  # Records of infinite or undefined loss, which are in no bin


def leakage_histogram(
    loss: FloatArray, max_bins: int | None = None, counts: IntArray | None = None
) -> Histogram | None:
    """Count records in bins with round edges.

    Shapes: ``loss`` (n,); ``counts`` (n,), records of each loss where that is not one; returns None
    where no loss is finite.
    """
    loss = np.asarray(loss, dtype=np.float64)
    each = np.ones(len(loss), dtype=np.intp) if counts is None else counts
    there = np.isfinite(loss)
    finite, each, n_omitted = loss[there], each[there], int(each[~there].sum())
    n = int(each.sum())
    if not n:
        return None
    if max_bins is None:
        max_bins = int(np.clip(2.0 * np.cbrt(n), 6, 30))
    low, high = float(finite.min()), float(finite.max())
    constant = bool(high - low <= max(_EQUAL * high, np.finfo(np.float64).tiny))
    heavy = not constant and high > _HEAVY_TAIL * float(counted_quantiles(finite, each, 0.5))
    n_below = 0
    if constant:
        finite, each, ticks = np.array([high]), np.array([n]), np.array([high])
        edges = high + (0.1 * high if high > 0.0 else 1.0) * np.arange(-5.5, 6.0)
        edges = edges - min(edges[0], 0.0)
    elif heavy:
        floor = np.log10(high) - _N_DECADES
        low = max(np.log10(low), floor) if low > 0.0 else floor
        edges = 10.0 ** _round_edges(low, np.log10(high), max_bins)
        ticks = log_ticks(edges[0], edges[-1])
        n_below = int(each[finite < edges[0] * (1.0 - 1e-9)].sum())
    else:
        edges = _round_edges(0.0 if low < high / 2.0 else low, high, max_bins)
        ticks = round_ticks(edges[0], edges[-1])
    # Rounding may leave an extreme an ulp outside, and small losses lie below a logarithmic axis.
    inside = np.clip(finite, edges[0], edges[-1])
    heights = np.histogram(inside, bins=edges, weights=each)[0].astype(np.intp)
    return Histogram(edges, heights, ticks, heavy, constant, n_below, n_omitted)


def round_ticks(low: float, high: float) -> FloatArray:
    """Return about seven multiples of 1, 2 or 5 times a power of ten between two numbers."""
    step = _round_up((high - low) / 6.0)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return np.arange(first, last + 1.0) * step + 0.0  # no minus zero


def log_ticks(low: float, high: float) -> FloatArray:
    """Round values on a logarithmic axis.

    Returns: powers of ten, and twice and five times them where there would be few.
    """
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1.0)
    digits = [1.0, 2.0, 5.0] if high < 300.0 * low else [1.0]
    ticks = np.outer(powers, digits).ravel()
    return ticks[(ticks >= low * (1.0 - 1e-9)) & (ticks <= high * (1.0 + 1e-9))]


def _round_edges(low: float, high: float, max_bins: int) -> FloatArray:
    step = _round_up((high - low) / max_bins)
    return np.arange(np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9) + 1.0) * step + 0.0


def _round_up(step: float) -> float:
    """Return the smallest of 1, 2, 5, 10 times a power of ten that is not below ``step``."""
    power = 10.0 ** np.floor(np.log10(step))
    return next(float(m * power) for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * (1 - 1e-12))
