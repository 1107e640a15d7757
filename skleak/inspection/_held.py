"""Leakage of raw columns with the fitted transformers held fixed."""

from dataclasses import dataclass

import numpy as np

from skleak.inspection._cells import Cells, describe
from skleak.inspection._columns import STEP, RawColumn, with_numbers, with_value_of
from skleak.inspection._derivatives import slopes
from skleak.inspection._directions import Directions, directions
from skleak.inspection._pipeline import Inspected
from skleak.inspection._separation import encodings, separations
from skleak.utils._typing import BoolArray, FloatArray, IntArray

KINK = "the preprocessing has a kink at this value: the larger of both slopes is taken"
JUMP = "the preprocessing jumps, or is infinitely steep, at this value"
MISSING = "no number: nothing to differentiate"
OUTSIDE = "one standard deviation away the preprocessing is undefined: the end of the column counts"


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

    def cells(self, column: RawColumn) -> Cells:
        """Leakage of a column of these records."""
        return self._number(column) if column.is_number else self._values(column)

    def _values(self, column: RawColumn) -> Cells:
        carriers = column.carriers.tolist()
        candidates = [with_value_of(self.data, column, self.rows, one) for one in carriers]
        points = encodings(self.data.state, self.rows, self.own, candidates)
        return Cells.of_values(*separations(self.data.state, points), column.note)

    def _number(self, column: RawColumn) -> Cells:
        assert column.numbers is not None
        b, x = len(self.rows), column.numbers[self.rows]
        there = np.flatnonzero(np.isfinite(x))
        kinks, jumps = np.zeros(b, dtype=bool), np.zeros(b, dtype=bool)
        columns = self._moving(column, there)
        right, left = np.zeros((2, b, len(columns)))

        def encoded(numbers: FloatArray, which: IntArray) -> FloatArray:
            some = self.rows[there[which]]
            return with_numbers(self.data, column, some, numbers)[:, columns]

        if len(columns):
            found = slopes(encoded, x[there], STEP * column.sd, limits=column.limits)
            right[there], left[there] = found.right, found.left
            kinks[there], jumps[there] = found.kinks & ~found.jumps, found.jumps
        loss = self.prepared.loss(columns, right)
        if np.any(kinks):
            loss = np.fmax(loss, self.prepared.loss(columns, left))
        present = self.data.state.objective.sample_weight[self.rows] > 0.0
        loss = np.where(jumps & present, np.inf, loss)
        loss[~np.isfinite(x)] = np.nan
        pair, from_own, outside = self._one_deviation(column, there)
        notes = describe(
            b,
            (~np.isfinite(x), MISSING),
            (kinks, KINK),
            (jumps, JUMP),
            (outside, OUTSIDE),
            (True, self.unequal),
        )
        return Cells(loss, pair, from_own, notes)

    def _moving(self, column: RawColumn, there: IntArray) -> IntArray:
        """Encoded columns that some number moves, of shape (k,)."""
        assert column.numbers is not None
        rows, own = self.rows[there], self.own[there]
        steps = STEP * column.sd * np.array([1.0, -1.0, 2.0**-9, -(2.0**-9)])
        numbers = (column.numbers[rows] + steps[:, None]).ravel()
        table = with_numbers(self.data, column, np.tile(rows, len(steps)), numbers)
        return np.flatnonzero(np.any(table.reshape(len(steps), *own.shape) != own, axis=(0, 1)))

    def _one_deviation(
        self, column: RawColumn, there: IntArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Distances to one deviation off and to the mean, and where one lies outside."""
        b, state = len(self.rows), self.data.state
        distances, outside = np.full((2, b), np.nan), np.zeros(b, dtype=bool)
        if self.unequal or not len(there):
            return distances[0], distances[1], outside
        assert column.numbers is not None
        rows, candidates = self.rows[there], []
        x = column.numbers[rows]
        # Beyond where numbers are clipped, one deviation changes nothing, but the mean does.
        for wanted in (x - column.sd, x + column.sd, np.full_like(x, column.mean)):
            encoded = with_numbers(self.data, column, rows, wanted)
            undefined = ~np.all(np.isfinite(encoded), axis=1)
            if np.any(undefined):
                other = np.where(undefined, np.clip(wanted, *column.range), wanted)
                encoded = with_numbers(self.data, column, rows, other)
                defined = np.all(np.isfinite(encoded), axis=1, keepdims=True)
                encoded = np.where(defined, encoded, self.own[there])
            outside[there] |= undefined | (np.clip(wanted, *column.limits) != wanted)
            candidates.append(encoded)
        points = encodings(state, rows, self.own[there], candidates)
        distances[:, there] = separations(state, points)
        return distances[0], distances[1], outside
