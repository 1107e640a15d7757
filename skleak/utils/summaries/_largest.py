"""The few rows of a table of largest score, where the table comes in blocks of rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.utils._predictions import joined
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray


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
        rows = np.arange(len(score)) if where is None else np.flatnonzero(where)
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
        known = np.nan_to_num(score, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        least = np.partition(known, len(known) - k)[len(known) - k] if k else np.inf
        some = np.flatnonzero(known >= least)
        return np.asarray(some[np.lexsort((position[some], -score[some]))[:k]])
    return np.asarray(np.lexsort((position, -score))[:k])
