"""Values that occur in columns of records outside memory, with their counts, by one pass."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.influence.state import FitState
from skleak.mechanisms import MOST_VALUES
from skleak.utils._blocks import Blocks, dense
from skleak.utils._typing import Data, FloatArray

# Values that are listed of a block of columns; of all columns together no more of each than show
# that they are not few.
MOST_LISTED = 1000
_MOST_OF_EACH = MOST_VALUES + 2


@dataclass(frozen=True)
class Distinct:
    """Distinct values of a block of columns: all of them, or one more than may be listed.

    The first and the last are those of all records in any case.
    """

    values: FloatArray  # ascending, (n_values, k)
    counts: FloatArray  # records of each; of no use where there are more than ``most``, (n_values,)
    n: int  # records
    most: int

    @classmethod
    def of(cls, entries: FloatArray, most: int) -> Self:
        """List those of entries (n, k)."""
        values, counts = np.unique(entries, axis=0, return_counts=True)
        return cls(values, counts.astype(float), len(entries), most)._cut()

    def merged(self, other: "Distinct") -> "Distinct":
        """List those of both."""
        both = np.concatenate([self.values, other.values])
        values, codes = np.unique(both, axis=0, return_inverse=True)
        counts = np.bincount(np.ravel(codes), np.concatenate([self.counts, other.counts]))
        return Distinct(values, counts.astype(float), self.n + other.n, self.most)._cut()

    @property
    def is_complete(self) -> bool:
        """True if all values are listed."""
        return len(self.values) <= self.most

    def counts_of(self, values: FloatArray) -> FloatArray:
        """Count records that have each of some values (m, k), which hold all that are listed."""
        both = np.concatenate([values, self.values])
        _, codes = np.unique(both, axis=0, return_inverse=True)
        codes = np.ravel(codes)
        counts = np.bincount(codes[len(values) :], self.counts, codes.max() + 1)
        return counts[codes[: len(values)]].astype(float)

    def _cut(self) -> Self:
        if self.is_complete:
            return self
        kept = np.append(np.arange(self.most), len(self.values) - 1)
        return type(self)(self.values[kept], self.counts[kept], self.n, self.most)


@dataclass(frozen=True)
class Listed:
    """Values of a block of columns, or of the target, found once a fit."""

    columns: tuple[int, ...] | None

    def __call__(self, state: FitState) -> Distinct:
        """List them in one pass."""
        objective = state.objective
        records = objective.X, objective.y, objective.sample_weight
        return Blocks.of(*records, keep_sparse=True).map_reduce(
            _listed, Distinct.merged, self.columns
        )


def each_listed(state: FitState) -> tuple[Distinct, ...]:
    """List the values of every column, and of the target last, in one pass."""
    objective = state.objective
    records = objective.X, objective.y, objective.sample_weight
    return Blocks.of(*records).map_reduce(_each, _each_merged)


def _listed(X: Data, y: FloatArray, s: FloatArray, columns: tuple[int, ...] | None) -> Distinct:
    entries = y[:, None] if columns is None else dense(X[:, list(columns)])
    return Distinct.of(entries[s > 0.0], MOST_LISTED)


def _each(X: FloatArray, y: FloatArray, s: FloatArray) -> tuple[Distinct, ...]:
    table = np.column_stack([X, y])[s > 0.0]
    return tuple(Distinct.of(column[:, None], _MOST_OF_EACH) for column in table.T)


def _each_merged(one: tuple[Distinct, ...], other: tuple[Distinct, ...]) -> tuple[Distinct, ...]:
    return tuple(mine.merged(theirs) for mine, theirs in zip(one, other, strict=True))
