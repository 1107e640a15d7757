"""What the columns of records outside memory are: values of few, or numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.adversary.knowledge import MAX_VALUES
from skleak.influence.jacobian import Columns
from skleak.influence.state import FitState
from skleak.report.measures import (
    Unknown,
    classes_of,
    column_unknown,
    distinct,
    target_unknown,
)
from skleak.utils._blocks import Blocks
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.summaries._moments import Moments


@dataclass(frozen=True)
class ColumnFacts:
    """Means, spreads and few values of the columns of the records that take part in a fit."""

    moments: Moments  # of the columns, then of the target, (d + 1,)
    # Distinct values of each block (m, k), ascending, and how many records have each; None for many
    values: tuple[tuple[FloatArray, IntArray] | None, ...]
    labels: FloatArray  # how many records have each label; empty for a number

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        weights: FloatArray,
        blocks: Sequence[IntArray],
        n_classes: int,
    ) -> Self:
        """Look at a block of records."""
        present = weights > 0.0
        X, y = X[present], y[present]
        labels = np.bincount(y.astype(np.intp), minlength=n_classes) if n_classes else np.zeros(0)
        values = tuple(distinct(X[:, columns]) for columns in blocks)
        return cls(Moments.of(np.column_stack([X, y])), values, labels.astype(float))

    def merged(self, other: "ColumnFacts") -> "ColumnFacts":
        """Look at the records of both."""
        values = tuple(map(_together, self.values, other.values))
        moments = self.moments.merged(other.moments)
        return ColumnFacts(moments, values, self.labels + other.labels)


def _together(
    one: tuple[FloatArray, IntArray] | None, other: tuple[FloatArray, IntArray] | None
) -> tuple[FloatArray, IntArray] | None:
    """Values of two blocks of records, and how many have each."""
    if one is None or other is None:
        return None
    rows = np.concatenate([one[0], other[0]])
    values, place = np.unique(rows, axis=0, return_inverse=True)
    if len(values) > MAX_VALUES:
        return None
    counts = np.zeros(len(values), dtype=np.intp)
    np.add.at(counts, np.ravel(place), np.concatenate([one[1], other[1]]))
    return values, counts


def blockwise_unknowns(
    state: FitState, blocks: Sequence[Columns], names: Sequence[str]
) -> tuple[list[Unknown], FloatArray]:
    """Columns and blocks of columns of the training records, and a private target.

    Returns their standard deviations, too, (m,): NaN for blocks and for labels of several classes.
    """
    objective, d = state.objective, state.n_features
    chosen = [np.arange(d) if one.indices is None else one.indices for one in blocks]
    n_classes = classes_of(objective)
    records = Blocks.of(objective.X, objective.y, objective.sample_weight)
    facts: ColumnFacts = records.map_reduce(ColumnFacts.of, ColumnFacts.merged, chosen, n_classes)
    n, mean, sd = facts.moments.n, facts.moments.mean, facts.moments.std
    found = [
        column_unknown(name, columns, values, n, mean[columns], sd[columns])
        for name, columns, values in zip(names, chosen, facts.values, strict=True)
    ]
    scale = [sd[columns[0]] if len(columns) == 1 else np.nan for columns in chosen]
    if state.private_target:
        found.append(target_unknown(objective, facts.labels, mean[d:], sd[d:]))
        scale.append(sd[d] if state.factor.n_target_directions == 1 else np.nan)
    return found, np.array(scale)
