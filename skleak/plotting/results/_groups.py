"""Records in groups of rising exposure, and what is typical of each."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.utils._typing import Array, FloatArray, IntArray

# Losses this close are tied: equal in theory, computed in another order.
_SAME = 1e-9


def group_records(
    eta: npt.ArrayLike,
    values: Mapping[str, npt.ArrayLike] | pd.DataFrame,
    n_groups: int,
    statistic: Literal["mean", "median"] = "mean",
) -> pd.DataFrame:
    """Means or medians of groups of equal size by the rank of a loss.

    Shapes: ``eta`` (n_records,); ``values`` (n_records,); returns (n_groups, 4 + n_values): index
    ``group`` from 1, the least exposed first: ``n_records``, ``eta`` (mean), ``eta_low``,
    ``eta_high`` and the values, NaN where they are known of no record of a group.

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
        "eta_low": [ordered[group[0]] for group in groups],
        "eta_high": [ordered[group[-1]] for group in groups],
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
    ties = _ties(ordered)
    sizes = np.bincount(ties)
    inside = [np.bincount(ties[group], minlength=len(sizes)) / sizes for group in groups]
    return np.stack(inside)[:, ties]


def _ties(ordered: FloatArray) -> IntArray:
    """Return the number of the block of tied losses that each record belongs to."""
    with np.errstate(invalid="ignore"):
        apart = np.diff(ordered) > _SAME * ordered[1:]
    # An infinite loss is apart from a finite one, and tied with an infinite one.
    apart = np.where(np.isinf(ordered[1:]), np.isfinite(ordered[:-1]), apart)
    return np.concatenate([[0], np.cumsum(apart)])


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
