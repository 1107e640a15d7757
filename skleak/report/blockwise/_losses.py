"""Losses of whole records, summarized in one pass: moments, quantiles, the largest, groups."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.report.blockwise._merging import Merged
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.summaries._groups import Groups
from skleak.utils.summaries._largest import Largest
from skleak.utils.summaries._moments import Moments
from skleak.utils.summaries._quantiles import Quantiles

# Bins for the quantiles of one of several groups or columns.
FEW_BINS = 1 << 12


@dataclass(frozen=True)
class LossSummary(Merged):
    """Losses of the records that take part in a fit."""

    moments: Moments  # of the loss, then of what it is made of
    quantiles: Quantiles  # of the loss
    weights: Moments  # of the sample weights of all records, those of zero among them
    groups: Groups | None  # a `GroupSummary` for each label

    @classmethod
    def of(
        cls,
        losses: FloatArray,
        weights: FloatArray,
        position: IntArray,
        labels: Array,
        groups: Array | None,
    ) -> Self:
        """Summarize a block: ``losses`` (n, k) of which the first column is the loss itself."""
        present = np.flatnonzero(weights > 0.0)
        inside = losses[present]
        parts = None
        if groups is not None:
            loss, where, names = inside[:, 0], position[present], labels[present]

            def one(rows: IntArray) -> GroupSummary:
                return GroupSummary.of(loss[rows], where[rows], names[rows])

            parts = Groups.of(groups[present], one)
        return cls(
            Moments.of(inside), Quantiles.of(inside[:, 0]), Moments.of(weights[:, None]), parts
        )


@dataclass(frozen=True)
class GroupSummary(Merged):
    """Losses of the records of one group."""

    moments: Moments
    quantiles: Quantiles
    worst: Largest  # the one record of the largest loss, by its ``label``

    @classmethod
    def of(cls, loss: FloatArray, position: IntArray, labels: Array) -> Self:
        """Summarize some records of a group, (n,) each."""
        worst = Largest.of(1, loss, position, {"label": labels})
        return cls(Moments.of(loss[:, None]), Quantiles.of(loss, FEW_BINS), worst)
