"""The two passes of a report over its records: find the few that matter, then measure all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skleak.influence.state import RecordBatch
from skleak.report.blockwise._losses import FEW_BINS, LossSummary
from skleak.report.blockwise._merging import Merged
from skleak.report.blockwise._separator import Asked, BlockSeparator, Leads, Solved
from skleak.report.measures import RARE, Unknown
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray
from skleak.utils.geometry._pairs import gained, true_positives
from skleak.utils.summaries._largest import Largest
from skleak.utils.summaries._moments import Moments
from skleak.utils.summaries._quantiles import Quantiles

# Carriers of a rare value of one column that a report names.
MOST_CARRIERS = 1000


@dataclass(frozen=True)
class BlockRecords:
    """A block of records with what is known of each."""

    batch: RecordBatch
    position: IntArray  # among all records of the report, (n,)
    labels: Array  # (n,)
    # Loss of the whole record, that by the trace, and what it is made of, (n, k).
    losses: FloatArray
    columns: FloatArray  # loss about each column, at unit noise and at that of the fit, (n, 2 m)
    groups: Array | None  # (n,)

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        weights: FloatArray,
        reweights: FloatArray,
        position: IntArray,
        labels: Array,
        losses: FloatArray,
        columns: FloatArray,
        *groups: Array,
    ) -> Self:
        """Put together what comes as arrays."""
        batch = RecordBatch(X, y, weights, reweights)
        return cls(batch, position, labels, losses, columns, groups[0] if groups else None)

    def separator(self, asked: Asked) -> BlockSeparator:
        """Return the records, to be measured."""
        return asked.separator(self.batch, self.columns[:, : len(asked.unknowns)])


@dataclass(frozen=True)
class Survey(Merged):
    """Findings of the first pass."""

    losses: LossSummary
    columns: Moments  # of the losses about each column, at the noise of the fit
    leads: tuple[Leads, ...]


def survey(*arrays: Any) -> Survey:
    """Look for what matters in a block of records; the last argument is what is `Asked`."""
    *given, n_arrays, asked = arrays
    block = BlockRecords.of(*given[:n_arrays])
    weights, present = block.batch.sample_weight, block.batch.present
    losses = LossSummary.of(block.losses, weights, block.position, block.labels, block.groups)
    columns = Moments.of(block.columns[present, len(asked.unknowns) :])
    leads: tuple[Leads, ...] = ()
    if asked.state.converged:
        separator = block.separator(asked)
        leads = tuple(Leads.of(separator, one, block.position) for one in asked.unknowns)
    return Survey(losses, columns, leads)


@dataclass(frozen=True)
class ColumnSummary(Merged):
    """Distances between the values of a column, over records that take part in a fit."""

    worst: Largest  # the one record of the largest distance
    gains: Quantiles
    n_inexact: int  # records whose distances are estimates
    carriers: Largest  # records with a rare value, by how far it is from others
    rare: Moments  # of how surely such a value is found
    n_found: int  # records with a rare value that is found more often than not
    n_unknown: int  # records with a rare value of which it is not known how surely

    @classmethod
    def of(
        cls,
        block: BlockRecords,
        distances: FloatArray,
        exact: BoolArray,
        share: FloatArray,
    ) -> Self:
        """Summarize a block, of distances (2, n) over the noise."""
        distance, from_own = distances
        present = block.batch.present
        told = {"label": block.labels, "distance": distance, "from_own": from_own}
        told |= {"share": share, "exact": exact}
        known = np.nan_to_num(distance, nan=-1.0, posinf=np.inf)
        carrying = present & (share <= RARE)
        surely = true_positives(from_own[carrying])
        sure = ~np.isnan(surely)
        return cls(
            Largest.of(1, known, block.position, told, present),
            Quantiles.of(gained(distance[present]), FEW_BINS),
            int(np.sum(~exact[present])),
            Largest.of(MOST_CARRIERS, from_own, block.position, told, carrying),
            Moments.of(surely[sure][:, None]),
            int(np.sum(surely[sure] > 0.5)),
            int(np.sum(~sure)),
        )


@dataclass(frozen=True)
class Measured(Merged):
    """Findings of the second pass."""

    columns: tuple[ColumnSummary, ...]
    people: Largest  # the records of the largest loss, with what is told of each


def measure(*arrays: Any) -> Measured:
    """Measure a block of records; what is `Asked`, what was solved and how many count come last."""
    *given, n_arrays, asked, solved, n_people = arrays
    block = BlockRecords.of(*given[:n_arrays])
    n = len(block.position)
    largest, telling = np.full(n, -np.inf), np.full(n, None, dtype=object)
    columns, separator = [], block.separator(asked)
    for unknown, found in zip(asked.unknowns, solved, strict=True):
        distances, exact, share = _distances(separator, unknown, found, block.position)
        columns.append(ColumnSummary.of(block, distances, exact, share))
        better = np.nan_to_num(distances[0], nan=-np.inf, posinf=np.inf) > largest
        largest[better], telling[better] = distances[0, better], unknown.name
    known = np.isfinite(largest) | (largest > 0.0)
    told: Mapping[str, Array] = {
        "label": block.labels,
        "sample_weight": block.batch.sample_weight,
        "diagonal": block.losses[:, 1],
        "gain": gained(np.where(known, largest, np.nan)),
        "most_telling": telling,
    }
    if block.groups is not None:
        told = {**told, "group": block.groups}
    loss = block.losses[:, 0]
    people = Largest.of(n_people, loss, block.position, told, block.batch.present)
    return Measured(tuple(columns), people)


def _distances(
    separator: BlockSeparator, unknown: Unknown, found: Solved | None, position: IntArray
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Distances over the noise (2, n), which are exact (n,), and shares of the values (n,)."""
    batch = separator.batch
    own = unknown.entries(batch.X, batch.y)
    share, n = unknown.shares(own), len(own)
    if found is None:
        return np.full((2, n), np.nan), np.zeros(n, dtype=bool), share
    distances, exact = separator.estimated(unknown, own, unknown.candidates(own))
    distances, exact = found.put(position, distances, exact)
    return separator.over_noise(np.where(batch.present, distances, 0.0)), exact, share
