"""How far apart the values of columns are, in a block of records far from all others."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from skleak.influence.state import FitState, RecordBatch
from skleak.report.blockwise._merging import Merged
from skleak.report.measures import RARE, Separator, Unknown
from skleak.utils._typing import BoolArray, FloatArray, IntArray
from skleak.utils.summaries._largest import Largest

_ROUNDS = 3


@dataclass(frozen=True)
class BlockSeparator(Separator):
    """Records of a block; the state has none."""

    n_all: int = field(default=0, kw_only=True)  # training records
    # Losses of each record about each column at unit noise, (n, n_columns), by the names of these
    unit: FloatArray = field(kw_only=True)
    names: tuple[str, ...] = field(kw_only=True)

    @property
    def n_training(self) -> int:
        """Return how many records the fit has."""
        return self.n_all

    def solvable(self, unknown: Unknown) -> bool:
        """Return True if distances of a column have an exact answer: without a reweighting."""
        return self.state.balanced is None

    def unit_losses(self, unknown: Unknown, which: IntArray) -> FloatArray:
        """Fisher information loss of some records about a column, at unit noise, (b,)."""
        return self.unit[which, self.names.index(unknown.name)]


@dataclass(frozen=True)
class Asked:
    """Questions to every block of records. It holds no record."""

    state: FitState  # without records
    unknowns: tuple[Unknown, ...]
    scale: FloatArray  # standard deviation of each, NaN for blocks, (m,)
    n: int  # training records
    work: float
    note: str
    trained: bool  # whether the records are those of the fit

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return tuple(one.name for one in self.unknowns)

    def separator(self, batch: RecordBatch, unit: FloatArray) -> BlockSeparator:
        """Return a block of records, to be measured; ``unit`` are its losses at unit noise."""
        rows = np.full(len(batch), 0 if self.trained else -1)
        given = self.state, batch, rows, self.work, self.note
        return BlockSeparator(*given, n_all=self.n, unit=unit, names=self.names)

    @property
    def limits(self) -> Separator:
        """Return what says how many records are looked at."""
        none = RecordBatch(np.empty((0, self.state.n_features)), *np.empty((3, 0)))
        return self.separator(none, np.empty((0, len(self.unknowns))))


@dataclass(frozen=True)
class Leads(Merged):
    """Records of which a column may be told best, to be solved for."""

    far: Largest  # by estimated distance; ``distances`` (m, 2) of two values, and from the own one
    rare: Largest  # the first ones of a rare value
    exposed: Largest  # by how well a number may be known

    @classmethod
    def of(cls, separator: BlockSeparator, unknown: Unknown, position: IntArray) -> Self:
        """Find them in a block of records."""
        batch = separator.batch
        own = unknown.entries(batch.X, batch.y)
        candidates, share = unknown.candidates(own), unknown.shares(own)
        distances, exact = separator.estimated(unknown, own, candidates)
        solvable = separator.solvable(unknown) & (separator.rows >= 0) & batch.present
        most = separator.most_solved(candidates.shape[-2])
        told = {"distances": distances.T}
        open_ = solvable & ~exact
        far = Largest.of(_ROUNDS * most + 1, distances[0], position, told, open_)
        rare = Largest.of(most, np.zeros(len(own)), position, told, open_ & (share <= RARE))
        known, some = np.zeros(len(own)), np.zeros(len(own), dtype=bool)
        if unknown.kind == "number" and float(unknown.sd[0]) > 0.0:
            known, some = separator.exposure(unknown), batch.present
        return cls(far, rare, Largest.of(separator.n_exposed, known, position, {}, some))

    @property
    def positions(self) -> IntArray:
        """Positions of all of them among the training records."""
        parts = (self.far.position, self.rare.position, self.exposed.position)
        return np.unique(np.concatenate(parts)).astype(np.intp)


@dataclass(frozen=True)
class Solved:
    """Exact distances of some records at unit noise."""

    position: IntArray  # ascending, (m,)
    distances: FloatArray  # of two values, and from the own one, (2, m)
    exact: BoolArray  # (m,)
    information: float  # about a number, averaged over its prior; NaN for values

    def put(
        self, position: IntArray, distances: FloatArray, exact: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """Replace the estimates of a block of records, (2, n) and (n,)."""
        if not len(self.position):
            return distances, exact
        place = np.minimum(np.searchsorted(self.position, position), len(self.position) - 1)
        here = self.position[place] == position
        return (
            np.where(here, self.distances[:, place], distances),
            np.where(here, self.exact[place], exact),
        )


def solve(separator: Separator, unknown: Unknown, leads: Leads, positions: IntArray) -> Solved:
    """Solve for the records whose estimates are largest, as is done of records in memory.

    Shapes: ``positions`` (m,), ascending, of the records of the separator.
    """
    some = np.union1d(leads.far.position, leads.rare.position).astype(np.intp)
    where = np.searchsorted(positions, some)
    batch = separator.batch
    own = unknown.entries(batch.X[where], batch.y[where])
    candidates = unknown.candidates(own)
    distances, exact = np.empty((2, len(some))), np.zeros(len(some), dtype=bool)
    for found in (leads.far, leads.rare):
        distances[:, np.searchsorted(some, found.position)] = found.columns["distances"].T
    rare = np.searchsorted(some, leads.rare.position)
    solved, most = np.zeros(len(some), dtype=bool), separator.most_solved(candidates.shape[-2])
    for _ in range(_ROUNDS):
        open_ = np.flatnonzero(~exact)
        order = open_[np.argsort(-distances[0, open_], kind="stable")]
        which = np.union1d(order[:most], rare[~exact[rare]])
        if not len(which):
            break
        values = candidates if candidates.ndim == 2 else candidates[which]
        distances[:, which] = separator.solved(unknown, where[which], values)
        known = np.isfinite(distances[0, which])
        exact[which], solved[which] = known & (not separator.state.noise.reads_data), True
        if exact[distances[0].argmax()]:
            break
    information = np.nan
    if unknown.kind == "number":
        exposed = np.searchsorted(positions, leads.exposed.position)
        information = separator.information(unknown, exposed)
    return Solved(some[solved], distances[:, solved], exact[solved], information)
