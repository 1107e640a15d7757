"""Leakage of raw columns with the fitted transformers held fixed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skleak.inspection._cells import Cells, describe
from skleak.inspection._columns import STEP, RawColumn, with_numbers, with_value_of
from skleak.inspection._derivatives import slopes
from skleak.inspection._directions import Directions, Worst, directions
from skleak.inspection._pipeline import Inspected
from skleak.inspection._selection import RawBlock, Target, Unknown
from skleak.inspection._separation import encodings, separations
from skleak.inspection._target import target_cells
from skleak.utils._typing import BoolArray, FloatArray, IntArray

KINK = "the preprocessing has a kink at this value: the larger of both slopes is taken"
JUMP = "the preprocessing jumps, or is infinitely steep, at this value"
MISSING = "no number: nothing to differentiate"
OUTSIDE = "one standard deviation away the preprocessing is undefined: the end of the column counts"


@dataclass(frozen=True)
class Tangents:
    """Derivatives of encoded records in m numbers, to both sides, in a unit for each."""

    columns: IntArray  # Encoded columns that some number moves, (k,)
    right: FloatArray  # (b, k, m)
    left: FloatArray
    known: BoolArray  # Records of which all numbers are known, (b,)
    kinks: BoolArray  # Where the sides differ, (b,)
    jumps: BoolArray  # Where the encoding jumps, (b,)


@dataclass(frozen=True)
class HeldBlock:
    """A block of training records, encoded by the fitted transformers."""

    data: Inspected  # The pipeline with its training data
    rows: IntArray  # Positions of the records, (b,)
    own: FloatArray  # The records as the transformers encode them, (b, d)
    prepared: Directions  # The records, prepared for directions
    unequal: str  # Why encodings cannot be held against each other; empty where they can

    @classmethod
    def of(cls, data: Inspected, rows: IntArray, unequal: str) -> "HeldBlock":
        """Encode some records and differentiate the model at them."""
        own = data.encode(data.rows(rows))
        return cls(data, rows, own, directions(data.state, rows), unequal)

    def cells(self, unknown: Unknown) -> Cells:
        """Leakage of a column, a block of columns or the target of these records."""
        if isinstance(unknown, Target):
            return target_cells(self.data.state, unknown, self.rows, self.unequal)
        return self._numbers(unknown) if unknown.is_number else self._values(unknown)

    def encodings(self, unknown: RawColumn | RawBlock) -> FloatArray:
        """Minimisers with each of the values of few in these records, of shape (b, n_values, p)."""
        candidates = [
            with_value_of(self.data, unknown.parts, self.rows, one)
            for one in unknown.carriers.tolist()
        ]
        return encodings(self.data.state, self.rows, self.own, candidates)

    def _values(self, unknown: RawColumn | RawBlock) -> Cells:
        apart = separations(self.data.state, self.encodings(unknown))
        return Cells.of_values(*apart, unknown.note)

    def _numbers(self, unknown: RawColumn | RawBlock) -> Cells:
        found = self.tangents(unknown)
        worst = self.prepared.worst(found.columns, found.right)
        loss = worst.loss
        if np.any(found.kinks):
            loss = np.fmax(loss, self.prepared.worst(found.columns, found.left).loss)
        present = self.data.state.objective.sample_weight[self.rows] > 0.0
        loss = np.where(found.jumps & present, np.inf, loss)
        loss[~found.known] = np.nan
        pair, from_own, outside = self._one_deviation(unknown, worst, found.known)
        notes = describe(
            len(self.rows),
            (~found.known, MISSING),
            (found.kinks & found.known, KINK),
            (found.jumps & found.known, JUMP),
            (outside, OUTSIDE),
            (True, self.unequal),
        )
        return Cells(loss, pair, from_own, notes)

    def tangents(self, unknown: RawColumn | RawBlock) -> Tangents:
        """Differentiate the encoding of these records: a block of columns per deviation of each."""
        parts = [self._along(column) for column in unknown.parts]
        if len(parts) == 1 and isinstance(unknown, RawColumn):
            return parts[0]
        columns = np.unique(np.concatenate([part.columns for part in parts]))
        sides = np.zeros((2, len(self.rows), len(columns), len(parts)))
        for m, (part, column) in enumerate(zip(parts, unknown.parts, strict=True)):
            at = np.searchsorted(columns, part.columns)
            sides[0][:, at, m] = column.sd * part.right[:, :, 0]
            sides[1][:, at, m] = column.sd * part.left[:, :, 0]
        known = np.all([part.known for part in parts], axis=0)
        kinks, jumps = (
            np.any([getattr(part, name) for part in parts], axis=0) for name in ("kinks", "jumps")
        )
        return Tangents(columns, sides[0], sides[1], known, kinks & ~jumps, jumps)

    def _along(self, column: RawColumn) -> Tangents:
        """Differentiate the encoding of these records along one number."""
        b, x = len(self.rows), column.floats[self.rows]
        there = np.flatnonzero(np.isfinite(x))
        kinks, jumps = np.zeros((2, b), dtype=bool)
        columns = self._moving(column, there) if len(there) else there
        sides = np.zeros((2, b, len(columns), 1))

        def encoded(numbers: FloatArray, which: IntArray) -> FloatArray:
            some = self.rows[there[which]]
            return with_numbers(self.data, [column], some, [numbers])[:, columns]

        if len(columns):
            found = slopes(encoded, x[there], STEP * column.sd, limits=column.limits)
            sides[0, there, :, 0], sides[1, there, :, 0] = found.right, found.left
            kinks[there], jumps[there] = found.kinks & ~found.jumps, found.jumps
        return Tangents(columns, sides[0], sides[1], np.isfinite(x), kinks, jumps)

    def _moving(self, column: RawColumn, there: IntArray) -> IntArray:
        """Return the encoded columns that some number moves, of shape (k,)."""
        rows, own = self.rows[there], self.own[there]
        steps = STEP * column.sd * np.array([1.0, -1.0, 2.0**-9, -(2.0**-9)])
        numbers = (column.floats[rows] + steps[:, None]).ravel()
        table = with_numbers(self.data, [column], np.tile(rows, len(steps)), [numbers])
        return np.flatnonzero(np.any(table.reshape(len(steps), *own.shape) != own, axis=(0, 1)))

    def _one_deviation(
        self, unknown: RawColumn | RawBlock, worst: Worst, known: BoolArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Distances to one deviation off and to the mean, and where one lies outside."""
        b, state = len(self.rows), self.data.state
        distances, outside = np.full((2, b), np.nan), np.zeros(b, dtype=bool)
        there = np.flatnonzero(known)
        if self.unequal or not len(there):
            return distances[0], distances[1], outside
        rows, candidates, parts = self.rows[there], [], unknown.parts
        # Beyond where numbers are clipped, one deviation changes nothing, but the mean does.
        for wanted in one_deviation(parts, rows, worst.direction[there]):
            encoded = with_numbers(self.data, parts, rows, wanted)
            undefined = ~np.all(np.isfinite(encoded), axis=1)
            limited = undefined.copy()
            if np.any(undefined):
                other = [
                    np.where(undefined, np.clip(x, *column.range), x)
                    for x, column in zip(wanted, parts, strict=True)
                ]
                encoded = with_numbers(self.data, parts, rows, other)
                defined = np.all(np.isfinite(encoded), axis=1, keepdims=True)
                encoded = np.where(defined, encoded, self.own[there])
            for x, column in zip(wanted, parts, strict=True):
                limited |= np.clip(x, *column.limits) != x
            outside[there] |= limited
            candidates.append(encoded)
        points = encodings(state, rows, self.own[there], candidates)
        distances[:, there] = separations(state, points)
        return distances[0], distances[1], outside


def one_deviation(
    parts: Sequence[RawColumn], rows: IntArray, direction: FloatArray
) -> list[list[FloatArray]]:
    """Numbers of some records one deviation below and above, and the means, for each column.

    Shapes: ``rows`` (b,); ``direction`` (b, m): of several columns, along it.
    """
    below, above, middle = [], [], []
    for m, column in enumerate(parts):
        x, step = column.floats[rows], column.sd * np.abs(direction[:, m])
        step = np.copysign(step, direction[:, m]) if len(parts) > 1 else step
        below.append(x - step)
        above.append(x + step)
        middle.append(np.full_like(x, column.mean))
    return [below, above, middle]
