"""Bins and ticks of a histogram of leakage, whatever the leakage looks like."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.utils._typing import FloatArray, IntArray

# Where the largest loss is this many times the median, equal bins would hold all in the first.
_HEAVY_TAIL = 30.0
# Decades below the largest loss that a logarithmic axis shows.
_N_DECADES = 6
# Losses closer than this, relative to the largest, are equal for the eye.
_EQUAL = 1e-3


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
    if high - low <= max(_EQUAL * high, np.finfo(np.float64).tiny):
        return _single_bin(high, n, n_omitted)
    if high <= _HEAVY_TAIL * float(counted_quantiles(finite, each, 0.5)):
        low = 0.0 if low < high / 2.0 else low
        edges = _round_edges(low, high, max_bins)
        ticks = round_ticks(edges[0], edges[-1])
        return Histogram(edges, _counts(finite, edges, each), ticks, False, False, 0, n_omitted)
    floor = np.log10(high) - _N_DECADES
    low = max(np.log10(low), floor) if low > 0.0 else floor
    exponents = _round_edges(low, np.log10(high), max_bins)
    edges = 10.0**exponents
    n_below = int(each[finite < edges[0] * (1.0 - 1e-9)].sum())
    heights = _counts(finite, edges, each)
    return Histogram(
        edges, heights, log_ticks(edges[0], edges[-1]), True, False, n_below, n_omitted
    )


def counted_quantiles(values: FloatArray, counts: IntArray, q: Any) -> Any:
    """Quantiles of values that occur so often each, interpolated as `numpy.quantile` does.

    Shapes: ``values``, ``counts`` (n,); returns the shape of ``q``.
    """
    order = np.argsort(values, kind="stable")
    last = np.cumsum(counts[order])
    place = np.asarray(q) * (last[-1] - 1)
    low, high = (
        values[order][np.searchsorted(last, end(place), side="right")]
        for end in (np.floor, np.ceil)
    )
    return low + (place - np.floor(place)) * (high - low)


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


def _single_bin(value: float, n: int, n_omitted: int) -> Histogram:
    width = 0.1 * value if value > 0.0 else 1.0
    edges = value + width * np.arange(-5.5, 6.0)
    edges = edges - min(edges[0], 0.0)
    counts = _counts(np.array([value]), edges, np.array([n]))
    return Histogram(edges, counts, np.array([value]), False, True, 0, n_omitted)


def _counts(finite: FloatArray, edges: FloatArray, each: IntArray) -> IntArray:
    # Rounding may leave an extreme an ulp outside, and small losses lie below a logarithmic axis.
    inside = np.clip(finite, edges[0], edges[-1])
    return np.histogram(inside, bins=edges, weights=each)[0].astype(np.intp)


def _round_edges(low: float, high: float, max_bins: int) -> FloatArray:
    step = _round_up((high - low) / max_bins)
    return np.arange(np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9) + 1.0) * step + 0.0


def _round_up(step: float) -> float:
    """Return the smallest of 1, 2, 5, 10 times a power of ten that is not below ``step``."""
    power = 10.0 ** np.floor(np.log10(step))
    return next(float(m * power) for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * (1 - 1e-12))
