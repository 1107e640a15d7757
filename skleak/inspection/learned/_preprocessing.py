"""How the final parameters move with a number of each record, what was learned included."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import plain_table
from skleak.inspection._columns import STEP, RawColumn, with_numbers
from skleak.inspection._derivatives import Slopes, slopes
from skleak.inspection._directions import movements
from skleak.inspection._held import HeldBlock
from skleak.inspection._pipeline import Inspected, other_rows
from skleak.inspection.learned._leaf import NothingLearned
from skleak.inspection.learned._rowwise import encoded
from skleak.inspection.learned._tree import Chain, Grown, Learned, grow
from skleak.utils._typing import FloatArray, IntArray

# Relative difference of both sides that is taken for rounding.
_SAME = 1e-6


@dataclass(frozen=True)
class Preprocessing:
    """Parameters that transformers learned, and their effect on the model."""

    data: Inspected
    columns: frozenset[int]  # Positions of the raw columns for which all of it is known
    learned: tuple[Learned, ...]

    @classmethod
    def of(cls, data: Inspected, columns: Sequence[RawColumn]) -> "Preprocessing":
        """Differentiate the preprocessing for those columns of numbers for which it is possible."""
        known = {column.index for column in columns}
        if data.preprocessing is None:
            return cls(data, frozenset(known), ())
        grown = _grown(data, known, values=False)
        if grown is None:
            known = {j for j in known if _grown(data, {j}, values=False) is not None}
            grown = _grown(data, known, values=False)
        if grown is None:
            return cls(data, frozenset(), ())
        found: list[Learned] = []
        state = data.state

        def outer(rows: IntArray, columns: IntArray) -> FloatArray:
            return movements(state, rows).jacobian(columns)

        grown.tree.back(outer, len(state.factor.coefficients), found)
        return cls(data, frozenset(known), tuple(found))

    def covers(self, columns: Sequence[RawColumn]) -> bool:
        """Return True if all that was learned from some columns is known."""
        return self.columns.issuperset(column.index for column in columns)

    def slopes(self, column: RawColumn, held: HeldBlock) -> Slopes:
        """Return the derivatives of the final parameters in a number of some records, (b, p) each.

        Zero for records of which the number is not known.
        """
        rows, direct = held.rows, held.tangents(column)
        model = movements(self.data.state, rows)
        right, left = (
            model.moved(direct.columns, side)[:, :, 0] for side in (direct.right, direct.left)
        )
        there = np.flatnonzero(direct.known)
        for learned in self.learned if len(there) else ():
            given = self._given(column, rows[there], learned)
            for total, side, tangents in ((right, 1.0, given.right), (left, -1.0, given.left)):
                if np.any(tangents):
                    total[there] += learned.leaf.along(learned.G, rows[there], tangents, side)
        gap = np.linalg.norm(right - left, axis=1)
        size = np.maximum(np.linalg.norm(right, axis=1), np.linalg.norm(left, axis=1))
        kinks = (direct.kinks | (gap > _SAME * size)) & ~direct.jumps
        return Slopes(right, left, kinks, direct.jumps)

    def _given(self, column: RawColumn, rows: IntArray, learned: Learned) -> Slopes:
        """Return the derivatives of what a transformer is given, (b, w_in) each."""

        def inputs(raw: Any) -> FloatArray:
            # What is missing elsewhere does not move.
            return np.nan_to_num(encoded(learned.inputs, raw))

        def changed(numbers: FloatArray, which: IntArray) -> FloatArray:
            return with_numbers(self.data, [column], rows[which], [numbers], inputs)

        return slopes(changed, column.floats[rows], STEP * column.sd, limits=column.limits)


def learns_nothing_of(data: Inspected, columns: Sequence[RawColumn]) -> bool:
    """Tell that no transformer learns from which of its values a record has in some columns."""
    if data.preprocessing is None:
        return True
    return _grown(data, {column.index for column in columns}, values=True) is not None


def _grown(data: Inspected, columns: set[int], *, values: bool) -> Grown | None:
    """Return the preprocessing as a tree, as far as it is reached; None where it is not known."""
    reached = np.isin(np.arange(data.table.shape[1]), sorted(columns))
    start = Grown(Chain(()), data.table, reached, lambda raw: raw, values)
    try:
        grown = grow(data.preprocessing, start)
    except NothingLearned:
        return None
    table = plain_table(grown.table)
    seen = np.flatnonzero(grown.reached)
    # An encoder that looks at the targets makes others of the training records.
    return None if len(other_rows(table[:, seen], data.state.objective.X[:, seen])) else grown
