"""Records that take part in a fit, and which rows of the training data they are."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._rows import row_keys, same_rows
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large
from skleak.utils.summaries._groups import Groups, Once


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

    def participants(self) -> "RecordBatch":
        """Return those that take part, or all of records outside memory: the others count zero."""
        return self if is_large(self.X) else self.take(np.flatnonzero(self.present))

    def n_present(self) -> int:
        """Return how many take part."""
        if not is_large(self.X):
            return int(np.count_nonzero(self.present))
        return Blocks.of(self.sample_weight, width=1).map_reduce(_count_positive, add)

    def take(self, rows: "IntArray | BoolArray | slice") -> "RecordBatch":
        """Return some of the records."""
        return RecordBatch(
            self.X[rows], self.y[rows], self.sample_weight[rows], self.reweights[rows]
        )


def batches_by_group(batch: RecordBatch, groups: Any) -> Iterator[tuple[Any, RecordBatch]]:
    """Yield each label of some groups (n,), ascending, and the records of its group.

    Of records outside memory all, the others with a weight of zero.
    """
    if not is_large(batch.X):
        for label, members in (
            pd.Series(range(len(batch))).groupby(groups, sort=True).indices.items()
        ):
            yield label, batch.take(members)
        return
    found: Groups = Blocks.of(groups, width=1).map_reduce(_labels, Groups.merged)
    labels = pd.Series(0, index=pd.Index(list(found.parts))).sort_index().index
    for label in labels:
        weights = np.where(groups == label, batch.sample_weight, 0.0)
        yield label, replace(batch, sample_weight=weights)


def _labels(groups: Array) -> Groups:
    return Groups.of(groups, Once)


def _count_positive(weights: FloatArray) -> int:
    return int(np.count_nonzero(weights > 0.0))


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
