"""Records that take part in a fit, and which rows of the training data they are."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.solvers import Objective
from skleak.utils._rows import row_keys, same_rows
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray


@dataclass(frozen=True)
class RecordBatch:
    """Records, and how they take part in a fit.

    A row is one person. For the fit a weight of 2 is the record twice; the person behind it has
    one unknown value all the same, which moves both.
    """

    X: Data  # records, (n, d)
    y: FloatArray  # targets, (n,)
    sample_weight: FloatArray  # ``s``: how many times each record counts in the fit, (n,)
    reweights: FloatArray  # ``omega``: its reweighting factor, (n,)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def present(self) -> BoolArray:
        """Mask of the records that take part: those of positive weight."""
        return self.sample_weight > 0.0

    @property
    def factors(self) -> FloatArray:
        """``s omega``: the Jacobian of a row over that of a unit record; 0 where absent."""
        return np.where(self.present, self.sample_weight * self.reweights, 0.0)

    def take(self, rows: "IntArray | BoolArray | slice") -> "RecordBatch":
        """Return some of the records."""
        return RecordBatch(
            self.X[rows], self.y[rows], self.sample_weight[rows], self.reweights[rows]
        )


@dataclass(frozen=True)
class TrainingLookup:
    """Finds records in the training data."""

    objective: Objective  # training records. Confidential

    def rows(self, X: Data, y: FloatArray) -> IntArray:
        """Position of each record in the training data, -1 where it is not there.

        The training data as a whole are themselves, row by row. Other records are found by
        value; a training row of weight zero took no part, so that one like it is new.

        Returns (n,).
        """
        if same_rows(X, self.objective.X) and np.array_equal(y, self.objective.y):
            return np.arange(X.shape[0])
        keys = row_keys(X, y)
        order, known = self._keys
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        found = (known[at] == keys) & (self.objective.sample_weight[order[at]] > 0.0)
        return np.where(found, order[at], -1)

    @cached_property
    def _keys(self) -> tuple[Array, Array]:
        """Training rows by ascending key; of equal rows, the one that counts most first."""
        keys = row_keys(self.objective.X, self.objective.y)
        order = np.lexsort((-self.objective.weights, keys))
        return order, keys[order]
