"""What raw columns of a table outside memory hold, found in one pass."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import MAX_VALUES, is_quantity
from skleak.inspection._columns import real_numbers
from skleak.utils._optional import dask_module
from skleak.utils._typing import Array, IntArray
from skleak.utils.blocks._passes import computed
from skleak.utils.summaries._moments import Moments

_SPLIT_EVERY = 8


@dataclass(frozen=True)
class ColumnFacts:
    """Values of a column, if they are few, and its moments, if it holds numbers."""

    n: int  # records
    # Distinct values, a missing one among them, in the order of their first records; None for many
    values: Array | None
    counts: IntArray  # how many records have each
    first: IntArray  # position of the first record with each
    moments: Moments | None  # of numbers that are known; None for a column of other things

    @classmethod
    def of(cls, column: pd.Series, start: int) -> Self:
        """Look at a block, whose first record has the position ``start``."""
        array = column.to_numpy(dtype=None if column.dtype.kind in "iufb" else object)
        numbers = real_numbers(array)
        moments = None if numbers is None else Moments.of(numbers[np.isfinite(numbers), None])
        codes, values = pd.factorize(array, use_na_sentinel=False)
        if len(values) > MAX_VALUES:
            none = np.zeros(0, dtype=np.intp)
            return cls(len(array), None, none, none, moments)
        first = np.unique(codes, return_index=True)[1]
        found = np.empty(len(values), dtype=object)
        found[:] = list(values)
        counts = np.bincount(codes, minlength=len(values))
        return cls(len(array), found, counts, start + first.astype(np.intp), moments)

    def merged(self, other: "ColumnFacts") -> "ColumnFacts":
        """Look at the records of both."""
        n = self.n + other.n
        moments = None
        if self.moments is not None and other.moments is not None:
            moments = self.moments.merged(other.moments)
        none = np.zeros(0, dtype=np.intp)
        if self.values is None or other.values is None:
            return ColumnFacts(n, None, none, none, moments)
        both = np.concatenate([self.values, other.values])
        first = np.concatenate([self.first, other.first])
        order = np.argsort(first, kind="stable")
        codes, values = pd.factorize(both[order], use_na_sentinel=False)
        if len(values) > MAX_VALUES:
            return ColumnFacts(n, None, none, none, moments)
        counts = np.zeros(len(values), dtype=np.intp)
        np.add.at(counts, codes, np.concatenate([self.counts, other.counts])[order])
        start = first[order][np.unique(codes, return_index=True)[1]]
        return ColumnFacts(n, np.asarray(values, dtype=object), counts, start, moments)

    @property
    def is_quantity(self) -> bool:
        """True for a quantity, as opposed to one of a few values."""
        if self.moments is None or not self.moments.n:
            return False
        if self.values is None:
            return True
        known = np.array([v for v in self.values if not pd.isna(v)], dtype=np.float64)
        return is_quantity(known[np.isfinite(known)], self.n)


def table_facts(frame: Any, starts: IntArray) -> list[ColumnFacts]:
    """Facts of every column of a Dask data frame, whose partitions start at some positions."""
    delayed = dask_module("dask").delayed
    parts = [
        delayed(_of_block)(part, int(start))
        for part, start in zip(frame.to_delayed(), starts, strict=True)
    ]
    while len(parts) > 1:
        groups = [parts[k : k + _SPLIT_EVERY] for k in range(0, len(parts), _SPLIT_EVERY)]
        parts = [delayed(_merged)(group) for group in groups]
    found: list[ColumnFacts] = computed(parts)[0]
    return found


def _of_block(part: pd.DataFrame, start: int) -> list[ColumnFacts]:
    return [ColumnFacts.of(part.iloc[:, j], start) for j in range(part.shape[1])]


def _merged(blocks: list[list[ColumnFacts]]) -> list[ColumnFacts]:
    found = blocks[0]
    for block in blocks[1:]:
        found = [one.merged(other) for one, other in zip(found, block, strict=True)]
    return found
