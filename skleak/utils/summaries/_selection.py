"""Order statistics of numbers that come in blocks, exact: where a sketch is coarse, by more passes.

The first pass counts the numbers in few bins, and each further one those within the bin that holds
the wanted rank, until that bin is a single number. The largest few are found in one pass.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skleak.utils._blocks import Blocks
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.blocks._dask import is_large
from skleak.utils.summaries._quantiles import Quantiles

# Bins of a summary, 64 KB: a pass settles about this factor.
_BINS = 1 << 12


def around_quantile(values: Any, quantile: float, reach: int = 0) -> FloatArray:
    """Higher of two neighbors at a quantile, and as many numbers to either side of it.

    Shapes: ``values`` (n,), NaN for those that do not count, of which one must; returns
    (2 reach + 1,), ascending: infinite beyond the least and the largest.
    """
    if not is_large(values):
        known = values[~np.isnan(values)]
        ranks = _ranks(len(known), quantile, reach)
        padded = np.concatenate([[-np.inf], np.sort(known), [np.inf]])
        return np.asarray(padded[np.clip(ranks, -1, len(known)) + 1])
    blocks = Blocks.of(values, width=1)
    least = 1 + reach + int(np.ceil((1.0 - quantile) * values.shape[0]))
    if least <= _BINS:  # as for the largest number of all, which one pass finds
        found = blocks.map_reduce(_Top.of, _Top.merged, least)
        ranks = _ranks(found.n, quantile, reach)
        return np.array([found.at(int(rank)) for rank in ranks])
    all_ = blocks.map_reduce(_within, Quantiles.merged, -np.inf, np.inf)
    ranks = _ranks(all_.n, quantile, reach)
    return np.array([_selected(blocks, int(rank), all_) for rank in ranks])


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


@dataclass(frozen=True)
class _Top:
    """The largest numbers, and how many there are in all."""

    n: int
    largest: FloatArray  # ascending, at most ``least``
    least: int

    @classmethod
    def of(cls, values: FloatArray, least: int) -> Self:
        known = np.sort(values[~np.isnan(values)])
        return cls(len(known), known[-least:], least)

    def merged(self, other: "_Top") -> "_Top":
        largest = np.sort(np.concatenate([self.largest, other.largest]))[-self.least :]
        return _Top(self.n + other.n, largest, self.least)

    def at(self, rank: int) -> float:
        if rank < 0 or rank >= self.n:
            return -np.inf if rank < 0 else np.inf
        return float(self.largest[rank - self.n + len(self.largest)])
