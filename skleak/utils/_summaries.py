"""Summaries of columns outside memory.

Quantiles of numbers that come in blocks: exact for few, of a stated relative error for many.

The bits of a double, read as a whole number with a sign, are in the order of the doubles. Dropping
the last s bits puts neighbors into one bin, whose ends are a factor of at most ``1 + 2^(s - 52)``
apart; bins are counted. With s as small as it can be for at most ``CAPACITY`` bins, the summary is
a function of the numbers alone: that of a part has no larger s than that of the whole, since a part
cannot have more bins. So summaries combine to the same one in any order and any grouping. As many
different numbers as there may be bins are kept whole, with s = 0.

Order statistics of numbers that come in blocks, exact: where a sketch is coarse, by more passes.

The first pass counts the numbers in few bins, and each further one those within the bin that holds
the wanted rank, until that bin is a single number. The largest few are found in one pass.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, dense, is_large
from skleak.utils._predictions import joined
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray


def as_one_block(values: Any) -> Any:
    """Return an array in memory as a Dask array of one block."""
    return values if is_large(values) else dask_module("dask.array").from_array(values, chunks=-1)


def fetched(rows: IntArray, *arrays: Any) -> list[Any]:
    """Return some rows of arrays, in memory; of a sparse matrix as a dense one."""
    parts = [values[rows] for values in arrays]
    if any(map(is_large, parts)):
        parts = list(dask_module("dask").compute(*parts))
    return [dense(values) for values in parts]


Part = TypeVar("Part", bound="Mergeable")
# More labels than this name records, and not groups.
MOST_GROUPS = 10_000


class Mergeable(Protocol):
    """Something that combines with another one of its kind."""

    def merged(self: Part, other: Part) -> Part:
        """Combine two."""
        ...


@dataclass(frozen=True)
class Groups:
    """One summary for each label."""

    parts: Mapping[Hashable, Mergeable]

    @classmethod
    def of(cls, labels: Array, summarize: Callable[[IntArray], Mergeable]) -> Self:
        """Summarize the rows of each label, (n,); ``summarize`` takes their positions."""
        rows = pd.Series(range(len(labels))).groupby(labels, sort=True).indices
        _check(len(rows))
        return cls({label: summarize(members) for label, members in rows.items()})

    def merged(self, other: "Groups") -> "Groups":
        """Summarize the rows of both."""
        parts = dict(self.parts)
        for label, part in other.parts.items():
            parts[label] = parts[label].merged(part) if label in parts else part
        _check(len(parts))
        return Groups(parts)


def _check(n: int) -> None:
    if n > MOST_GROUPS:
        raise ValueError(
            f"`groups` has more than {MOST_GROUPS} labels; expected few groups of many records. "
            "Pass a coarser column, for instance a region in place of an address."
        )


@dataclass(frozen=True)
class Largest:
    """At most k rows, those of the largest score first; of equal scores the first row comes first.

    Scores that are NaN come last. The rows are the same in any order and grouping of the blocks,
    as each has a position of its own.
    """

    k: int
    score: FloatArray  # (m,), m <= k
    position: IntArray  # of the rows in the whole table, (m,)
    columns: Mapping[str, Array]  # what else is known of each, (m, ...)

    @classmethod
    def of(
        cls,
        k: int,
        score: FloatArray,
        position: IntArray,
        columns: Mapping[str, Array],
        where: BoolArray | None = None,
    ) -> Self:
        """Choose rows of a block, of those in a mask ``where``; all shapes are (n, ...)."""
        if where is None or where.all():
            rows = _first(k, score, position)
        else:
            rows = np.flatnonzero(where)
            rows = rows[_first(k, score[rows], position[rows])]
        chosen = {name: np.asarray(values)[rows] for name, values in columns.items()}
        return cls(k, score[rows], position[rows], chosen)

    def merged(self, other: "Largest") -> "Largest":
        """Choose rows of both."""
        score = np.concatenate([self.score, other.score])
        position = np.concatenate([self.position, other.position])
        rows = _first(self.k, score, position)
        columns = {
            name: joined(values, other.columns[name])[rows] for name, values in self.columns.items()
        }
        return Largest(self.k, score[rows], position[rows], columns)

    def __len__(self) -> int:
        return len(self.score)


def _first(k: int, score: FloatArray, position: IntArray) -> IntArray:
    """Rows of the k largest scores, (m,)."""
    if len(score) > 4 * k + 64:
        # Few are sorted: those that reach the k-th largest score.
        known = np.where(np.isnan(score), -np.inf, score)
        # As many reach the k-th largest of the maxima of parts, or more.
        width = max(1, len(known) // (16 * k)) if k else 1
        tops = np.maximum.reduceat(known, np.arange(0, len(known), width))
        least = np.partition(tops, len(tops) - k)[len(tops) - k] if k else np.inf
        some = np.flatnonzero(known >= least)
        return np.asarray(some[np.lexsort((position[some], -score[some]))[:k]])
    return np.asarray(np.lexsort((position, -score))[:k])


@dataclass(frozen=True)
class Moments:
    """Statistics of k columns, each by itself; of no row the mean is NaN.

    Two summaries are combined by Chan, Golub and LeVeque's update, which loses no digits to the
    mean. In another order or grouping of the blocks the mean is the same to rounding.
    """

    n: int
    mean: FloatArray  # infinite where a number is, (k,)
    deviation: FloatArray  # roots of the sums of squared deviations from the mean, (k,)
    smallest: FloatArray  # (k,)
    largest: FloatArray  # (k,)

    @classmethod
    def of(cls, table: Array) -> Self:
        """Summarize a table of shape (n, k)."""
        n, k = table.shape
        if not n:
            none = np.full(k, np.nan)
            return cls(0, none, np.zeros(k), np.full(k, np.inf), np.full(k, -np.inf))
        with np.errstate(invalid="ignore"):
            mean = table.mean(axis=0)
            gaps = table - mean
            unit = np.abs(gaps).max(axis=0)  # squares of large numbers overflow
            gaps = gaps / np.where(unit > 0.0, unit, 1.0)
            # What rounding left in the mean.
            squares = np.sum(gaps**2, axis=0) - np.sum(gaps, axis=0) ** 2 / n
            deviation = unit * np.sqrt(np.maximum(squares, 0.0))
        return cls(n, mean, deviation, table.min(axis=0), table.max(axis=0))

    def merged(self, other: "Moments") -> "Moments":
        """Summarize the rows of both."""
        if not (self.n and other.n):
            return self if self.n else other
        n = self.n + other.n
        with np.errstate(invalid="ignore"):
            gap = other.mean - self.mean
            mean = self.mean + gap * (other.n / n)
            mean = np.where(np.isinf(self.mean), self.mean, mean)
            apart = np.abs(gap) * np.sqrt(self.n * (other.n / n))
            deviation = np.hypot(np.hypot(self.deviation, other.deviation), apart)
        smallest = np.minimum(self.smallest, other.smallest)
        return Moments(n, mean, deviation, smallest, np.maximum(self.largest, other.largest))

    @property
    def std(self) -> FloatArray:
        """Standard deviations, (k,); NaN where a number is infinite."""
        if not self.n:
            return np.full(len(self.mean), np.nan)
        return np.asarray(self.deviation / np.sqrt(self.n))

    @property
    def spread(self) -> FloatArray:
        """Standard deviations over means, (k,); 0 where all is zero, infinite with a number."""
        std = self.std
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.where(self.mean == 0.0, 0.0, std / self.mean)
        return np.where(np.isinf(self.mean), np.inf, spread)


def counted_quantiles(values: FloatArray, counts: IntArray, q: npt.ArrayLike) -> Any:
    """Quantiles of values that occur so often each, interpolated as `numpy.quantile` does.

    Shapes: ``values``, ``counts`` (n,); returns the shape of ``q``.
    """
    order = np.argsort(values, kind="stable")
    last = np.cumsum(counts[order]) - 1
    # Ranks of the first and the last of each value.
    ranks = np.column_stack([last - counts[order] + 1, last]).ravel()
    return np.interp(np.asarray(q) * last[-1], ranks, np.repeat(values[order], 2))


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
        return counted_quantiles(self.values, self.counts, levels)

    def _fitting(self) -> Self:
        """Drop as few more bits as fit into the capacity."""
        if len(self.bins) <= self.capacity:
            return self

        def fits(bits: int) -> bool:
            kept = np.right_shift(self.bins, bits)
            return bool(1 + np.count_nonzero(kept[1:] != kept[:-1]) <= self.capacity)

        bits = bisect_left(range(62 - self.dropped), True, key=fits)
        bins, counts = _summed(np.right_shift(self.bins, bits), self.counts)
        return type(self)(bins, counts, self.dropped + bits, self.capacity, self.n_missing)


def _summed(
    bins: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct bins, ascending, and the sums of their counts."""
    distinct, place = np.unique(bins, return_inverse=True)
    return distinct, np.bincount(place, counts, len(distinct)).astype(np.int64)


def _ordered(values: FloatArray) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of some doubles, of which both zeros are one."""
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ _DIGITS, bits)


def _numbers(ordered: npt.NDArray[np.int64]) -> FloatArray:
    """Invert `_ordered`."""
    bits = np.where(ordered < 0, ordered ^ _DIGITS, ordered)
    return np.ascontiguousarray(bits).view(np.float64)


# Bins of a summary, 64 KB: a pass settles about this factor.
_BINS = 1 << 12


def around_quantile(values: Any, quantile: float, reach: int = 0) -> FloatArray:
    """Higher of two neighbors at a quantile, and as many numbers to either side of it.

    Shapes: ``values`` (n,), NaN for those that do not count, of which one must; returns
    (2 reach + 1,), ascending: infinite beyond the least and the largest.
    """
    blocks = Blocks.of(values, width=1)
    least = 1 + reach + int(np.ceil((1.0 - quantile) * values.shape[0]))
    if not is_large(values):
        n, largest = _top(values, len(values))
    elif least <= _BINS:  # as for the largest number of all, which one pass finds
        n, largest = blocks.map_reduce(
            _top,
            lambda one, other: (one[0] + other[0], np.sort(np.append(one[1], other[1]))[-least:]),
            least,
        )
    else:
        all_ = blocks.map_reduce(_within, Quantiles.merged, -np.inf, np.inf)
        ranks = _ranks(all_.n, quantile, reach)
        return np.array([_selected(blocks, int(rank), all_) for rank in ranks])
    ranks = _ranks(n, quantile, reach) - n + len(largest)
    padded = np.concatenate([[-np.inf], largest, [np.inf]])
    return np.asarray(padded[np.clip(ranks, -1, len(largest)) + 1])


def _top(values: FloatArray, least: int) -> tuple[int, FloatArray]:
    """Count numbers, and return the largest ones, ascending, (m,)."""
    known = np.sort(values[~np.isnan(values)])
    return len(known), known[max(0, len(known) - least) :]


def _ranks(n: int, quantile: float, reach: int) -> IntArray:
    """Ranks that are wanted of n numbers, from 0 at the least."""
    rank = int(np.ceil(quantile * (n - 1)))
    return np.arange(rank - reach, rank + reach + 1)


def _selected(blocks: Blocks, rank: int, counts: Quantiles) -> float:
    """Find the number of a rank, from the counts of all and as many more as it takes."""
    if rank < 0 or rank >= counts.n:
        return -np.inf if rank < 0 else np.inf
    while True:
        low, high, below = counts.bin_of(rank)
        if counts.dropped == 0:
            return low
        rank -= below
        counts = blocks.map_reduce(_within, Quantiles.merged, low, high)


def _within(values: FloatArray, low: float, high: float) -> Quantiles:
    """Count numbers within bounds."""
    return Quantiles.of(values[(values >= low) & (values <= high)], _BINS)


class Merged:
    """A dataclass of summaries of blocks, of counts and of remarks, merged field by field."""

    def merged(self, other: Self) -> Self:
        """Summarize the records of both."""
        pairs = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))  # type: ignore[arg-type]
        return type(self)(*(together(*pair) for pair in pairs))


def together(one: Any, other: Any) -> Any:
    """Merge two counts, remarks or summaries, or tuples of them; None where one is missing."""
    if one is None or other is None:
        return None
    if isinstance(one, int | np.ndarray):
        return one + other
    if isinstance(one, str):  # remarks
        return "; ".join(filter(None, dict.fromkeys([*one.split("; "), *other.split("; ")])))
    if isinstance(one, tuple):
        return tuple(together(*pair) for pair in zip(one, other, strict=True))
    return one.merged(other)
