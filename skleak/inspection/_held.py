"""Leakage of raw columns, with the fitted transformers held fixed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import check_persons
from skleak.inspection._columns import (
    Cells,
    Unknown,
    describe,
    target_cells,
    with_numbers,
    with_value_of,
)
from skleak.inspection._pipeline import Inspected, encodings, separations
from skleak.inspection._slopes import STEP, Movements, Worst, person_blocks, slopes
from skleak.utils._records import Persons
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
    """Training records of some persons, encoded by the fitted transformers."""

    data: Inspected  # The pipeline with its training data
    persons: Persons  # whose rows they are: a number moves by as much in all rows of one
    own: FloatArray  # The records as the transformers encode them, (b, d)
    movements: Movements  # The model at these records
    unequal: str  # Why encodings cannot be held against each other; empty where they can

    @classmethod
    def of(cls, data: Inspected, persons: Persons, unequal: str) -> "HeldBlock":
        """Encode some records."""
        if not persons.is_single:
            check_persons(data.state)
        own = data.encode(data.rows(persons.rows))
        return cls(data, persons, own, Movements(data.state, persons), unequal)

    @property
    def rows(self) -> IntArray:
        """Positions of the records, (b,)."""
        return self.persons.rows

    def cells(self, unknown: Unknown) -> Cells:
        """Leakage of a column, a block of columns or the target of these persons."""
        if unknown.is_target:
            return target_cells(self.data.state, unknown, self.persons, self.unequal)
        if unknown.is_number:
            return self._numbers(unknown)
        apart = separations(self.data.state, self.encodings(unknown))
        return Cells.of_values(*apart, unknown.note)

    def encodings(self, unknown: Unknown) -> FloatArray:
        """Minimizers with each of the values of few, of shape (n_persons, n_values, p)."""
        carriers = unknown.carriers.tolist()
        candidates = [with_value_of(self.data, unknown.parts, self.rows, one) for one in carriers]
        return encodings(self.data.state, self.persons, self.own, candidates)

    def _numbers(self, unknown: Unknown) -> Cells:
        if unknown.columns and not self.persons.is_single:
            raise AttackNotApplicableError(
                "Blocks of numbers are not measured for persons with several rows: name the "
                "columns one by one."
            )
        found = self.tangents(unknown)
        worst = self.movements.worst(found.columns, found.right)
        loss = worst.loss
        if np.any(found.kinks):
            loss = np.fmax(loss, self.movements.worst(found.columns, found.left).loss)
        present = self.data.state.objective.sample_weight[self.rows] > 0.0
        loss = np.where(self._any(found.jumps & present), np.inf, loss)
        missing = self._any(~found.known)
        loss[missing] = np.nan
        pair, from_own, outside = self._one_deviation(unknown, worst, np.flatnonzero(~missing))
        notes = describe(
            len(self.persons),
            (missing, MISSING),
            (self._any(found.kinks & found.known), KINK),
            (self._any(found.jumps & found.known), JUMP),
            (outside, OUTSIDE),
            (True, self.unequal),
        )
        return Cells(loss, pair, from_own, notes)

    def _any(self, mask: BoolArray) -> BoolArray:
        """Mask of the persons with some of the records of a mask (b,), (n_persons,)."""
        return np.asarray(np.logical_or.reduceat(mask, self.persons.starts[:-1]))

    def tangents(self, unknown: Unknown) -> Tangents:
        """Differentiate the encoding of these records: a block of columns per deviation of each."""
        parts = [self._along(column) for column in unknown.parts]
        if not unknown.columns:
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

    def _along(self, column: Unknown) -> Tangents:
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

    def _moving(self, column: Unknown, there: IntArray) -> IntArray:
        """Return the encoded columns that some number moves, of shape (k,)."""
        rows, own = self.rows[there], self.own[there]
        steps = STEP * column.sd * np.array([1.0, -1.0, 2.0**-9, -(2.0**-9)])
        numbers = (column.floats[rows] + steps[:, None]).ravel()
        table = with_numbers(self.data, [column], np.tile(rows, len(steps)), [numbers])
        return np.flatnonzero(np.any(table.reshape(len(steps), *own.shape) != own, axis=(0, 1)))

    def _one_deviation(
        self, unknown: Unknown, worst: Worst, there: IntArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Distances to a step off, and where one lies outside, (n_persons,) each.

        Shapes: ``there`` (m,), the persons of whom all numbers are known.
        """
        distances = np.full((2, len(self.persons)), np.nan)
        outside = np.zeros(len(self.persons), dtype=bool)
        if self.unequal or not len(there):
            return distances[0], distances[1], outside
        some, parts = self.persons.take(there), unknown.parts
        rows, own = some.rows, self.own[np.isin(self.persons.codes, there)]
        limited, candidates = np.zeros(len(rows), dtype=bool), []
        for wanted in one_deviation(parts, rows, worst.direction[there][some.codes]):
            encoded = with_numbers(self.data, parts, rows, wanted)
            undefined = ~np.all(np.isfinite(encoded), axis=1)
            limited |= undefined
            if np.any(undefined):
                other = [
                    np.where(undefined, np.clip(x, *column.range), x)
                    for x, column in zip(wanted, parts, strict=True)
                ]
                encoded = with_numbers(self.data, parts, rows, other)
                defined = np.all(np.isfinite(encoded), axis=1, keepdims=True)
                encoded = np.where(defined, encoded, own)
            for x, column in zip(wanted, parts, strict=True):
                limited |= np.clip(x, *column.limits) != x
            candidates.append(encoded)
        points = encodings(self.data.state, some, own, candidates)
        distances[:, there] = separations(self.data.state, points, number=True)
        outside[there] = np.logical_or.reduceat(limited, some.starts[:-1])
        return distances[0], distances[1], outside


def one_deviation(
    parts: Sequence[Unknown], rows: IntArray, direction: FloatArray
) -> list[list[FloatArray]]:
    """Numbers of some records a step below and above, for each column.

    Shapes: ``rows`` (b,); ``direction`` (b, m): of several columns, along it, each in its standard
    deviation.
    """
    own = [column.floats[rows] for column in parts]
    if len(parts) == 1:
        steps = [np.full(len(rows), parts[0].step)]
    else:
        steps = [column.sd * direction[:, m] for m, column in enumerate(parts)]
    return [[x + sign * step for x, step in zip(own, steps, strict=True)] for sign in (-1.0, 1.0)]


def held(
    data: Inspected, unknown: Sequence[Unknown], persons: Persons, unequal: str
) -> list[Cells]:
    """Measure everything that is asked about with the transformers held fixed."""
    most = np.nanmax([2.0, *(one.n_values for one in unknown)])
    cells, order = [], []
    for which in person_blocks(data.state, persons, most):
        block = HeldBlock.of(data, persons.take(which), unequal)
        cells.append([block.cells(one) for one in unknown])
        order.append(which)
    place = np.argsort(np.concatenate(order))
    return [Cells.of_all(parts, place) for parts in zip(*cells, strict=True)]
