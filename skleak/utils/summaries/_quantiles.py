"""Quantiles of numbers that come in blocks: exact for few, of a stated relative error for many.

The bits of a double, read as a whole number with a sign, are in the order of the doubles. Dropping
the last s bits puts neighbors into one bin, whose ends are a factor of at most ``1 + 2^(s - 52)``
apart; bins are counted. With s as small as it can be for at most ``CAPACITY`` bins, the summary is
a function of the numbers alone: that of a part has no larger s than that of the whole, since a part
cannot have more bins. So summaries combine to the same one in any order and any grouping. As many
different numbers as there may be bins are kept whole, with s = 0.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from skleak.utils._typing import FloatArray

# Bins of a summary: half a megabyte. 2^12 bins are enough for one per power of two and sign.
CAPACITY = 1 << 15
_DIGITS = np.iinfo(np.int64).max
_MANTISSA = 52


@dataclass(frozen=True)
class Quantiles:
    """Numbers of values by size; NaN are left out, and counted."""

    bins: npt.NDArray[np.int64]  # ascending, (k,)
    counts: npt.NDArray[np.int64]  # numbers in each, (k,)
    dropped: int  # bits of a number that its bin does not tell
    capacity: int  # most bins
    n_missing: int  # NaN among the numbers

    @classmethod
    def of(cls, values: FloatArray, capacity: int = CAPACITY) -> Self:
        """Summarize numbers of shape (n,)."""
        known = values[~np.isnan(values)]
        bins, counts = np.unique(_ordered(known), return_counts=True)
        return cls(bins, counts, 0, capacity, len(values) - len(known))._fitting()

    def merged(self, other: "Quantiles") -> "Quantiles":
        """Summarize the numbers of both."""
        dropped = max(self.dropped, other.dropped)
        parts = [np.right_shift(one.bins, dropped - one.dropped) for one in (self, other)]
        bins, counts = _summed(np.concatenate(parts), np.concatenate([self.counts, other.counts]))
        n_missing = self.n_missing + other.n_missing
        return Quantiles(bins, counts, dropped, self.capacity, n_missing)._fitting()

    @property
    def n(self) -> int:
        """Return how many numbers there are, without NaN."""
        return int(self.counts.sum())

    @property
    def relative_error(self) -> float:
        """Largest error of a finite quantile, over its size; 0.0 where all numbers are kept.

        For numbers that doubles hold with all digits, of at least 2e-308.
        """
        return 0.0 if self.dropped == 0 else 2.0 ** (self.dropped - _MANTISSA - 1)

    @property
    def values(self) -> FloatArray:
        """Middles of the bins, ascending, (k,): the numbers themselves where they are kept."""
        low, high = self._ends(self.bins)
        return np.where(low == high, low, 0.5 * low + 0.5 * high)

    def bin_of(self, rank: int) -> tuple[float, float, int]:
        """Least and largest number of the bin of a rank, and how many numbers are below it."""
        counted = np.cumsum(self.counts)
        place = int(np.searchsorted(counted, rank, side="right"))
        low, high = self._ends(self.bins[[place]])
        return float(low[0]), float(high[0]), int(counted[place] - self.counts[place])

    def _ends(self, bins: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        first = np.left_shift(bins, self.dropped)
        low, high = _numbers(first), _numbers(first | np.int64((1 << self.dropped) - 1))
        # The bin of an infinity has no number at its other end.
        return np.where(np.isnan(low), high, low), np.where(np.isnan(high), low, high)

    def quantile(self, q: npt.ArrayLike) -> Any:
        """Quantiles as `numpy.quantile` interpolates them, of the shape of ``q``; NaN of nothing.

        Within `relative_error` of the exact one where all numbers have one sign.
        """
        levels = np.asarray(q, dtype=float)
        if not self.n:
            return np.full(levels.shape, np.nan)[()]
        place = levels * (self.n - 1)
        below = np.floor(place).astype(np.int64)
        low, high = (self._at(np.minimum(below + k, self.n - 1)) for k in (0, 1))
        part = place - below
        with np.errstate(invalid="ignore"):  # of infinities
            gap = high - low
            between = np.where(part < 0.5, low + gap * part, high - gap * (1.0 - part))
            between = np.where(np.isinf(gap), low + gap, between)
        return np.where((part == 0.0) | (low == high), low, between)[()]

    def _at(self, rank: npt.NDArray[np.int64]) -> FloatArray:
        """Numbers of some ranks, counted from 0 at the least."""
        place = np.searchsorted(np.cumsum(self.counts), rank, side="right")
        return self.values[place]

    def _fitting(self) -> Self:
        """Drop as few more bits as fit into the capacity."""
        if len(self.bins) <= self.capacity:
            return self
        low, high = 0, 62 - self.dropped  # bits that are too few, and enough
        while high - low > 1:
            middle = (low + high) // 2
            fits = _n_different(np.right_shift(self.bins, middle)) <= self.capacity
            low, high = (low, middle) if fits else (middle, high)
        bins, counts = _summed(np.right_shift(self.bins, high), self.counts)
        return type(self)(bins, counts, self.dropped + high, self.capacity, self.n_missing)


def _n_different(ascending: npt.NDArray[np.int64]) -> int:
    return 1 + int(np.count_nonzero(ascending[1:] != ascending[:-1]))


def _summed(
    bins: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct bins, ascending, and the sums of their counts."""
    order = np.argsort(bins, kind="stable")
    bins, counts = bins[order], counts[order]
    first = np.flatnonzero(np.append(True, bins[1:] != bins[:-1])[: len(bins)])
    if not len(first):
        return bins, counts
    return bins[first], np.add.reduceat(counts, first)


def _ordered(values: FloatArray) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of some doubles, of which both zeros are one."""
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ _DIGITS, bits)


def _numbers(ordered: npt.NDArray[np.int64]) -> FloatArray:
    """Invert `_ordered`."""
    bits = np.where(ordered < 0, ordered ^ _DIGITS, ordered)
    return np.ascontiguousarray(bits).view(np.float64)
