"""Leakage of raw columns through the whole pipeline, what its transformers learn included.

The pipeline is trained anew, without noise, for every number or value tried: what is differentiated
and told apart are the final parameters.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import refit_tables
from skleak.adversary.knowledge import raw_column, with_attribute
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import FitState
from skleak.inspection._cells import Cells, describe
from skleak.inspection._columns import STEP, RawColumn, lent
from skleak.inspection._derivatives import Slopes, slopes
from skleak.inspection._directions import Worst, worst_of
from skleak.inspection._held import JUMP, KINK, MISSING, one_deviation
from skleak.inspection._pipeline import Inspected
from skleak.inspection._selection import RawBlock, Target, Unknown
from skleak.inspection._separation import separations
from skleak.inspection._target import OUTSIDE, candidate_targets
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

SHOWN = "another value changes the number of parameters, which the release shows"
# Largest relative difference of a refit from the fit itself, from where the solver stopped.
_SAME_FIT = 1e-6
_ROUNDS = 2


@dataclass(frozen=True)
class Refits:
    """Some training records, and the pipeline to train anew."""

    data: Inspected  # The pipeline with its training data
    rows: IntArray  # Positions of the records, (b,)

    def check(self) -> None:
        """Raise unless the pipeline, trained anew, is the one that was given."""
        refitted = self._parameters([(self.data.table, self.data.y)])[0]
        fitted = self.data.state.factor.coefficients
        same = refitted.shape == fitted.shape
        limit = _SAME_FIT * float(np.linalg.norm(fitted))
        if not same or np.linalg.norm(refitted - fitted) > limit:
            raise ValueError(
                "The pipeline, trained anew on `X` and `y`, is another one than was given: these "
                "are not its training data, or a step is random (give it a `random_state`) or was "
                "fitted with weights of its own, or stopped short (raise `max_iter`)."
            )

    def cells(self, unknown: Unknown) -> Cells:
        """Leakage of a column, a block of columns or the target of these records."""
        if isinstance(unknown, Target):
            return self._target(unknown)
        return self._numbers(unknown) if unknown.is_number else self._values(unknown)

    def _values(self, unknown: RawColumn | RawBlock) -> Cells:
        data, everyone = self.data, np.arange(len(self.data.y))

        def with_value(row: int, carrier: int) -> tuple[Any, Array]:
            carriers = np.where(everyone == row, carrier, everyone)
            return lent(data, unknown.parts, data.table, carriers), data.y

        pair, from_own = np.full((2, len(self.rows)), np.inf)
        shown = np.ones(len(self.rows), dtype=bool)
        for i, row in enumerate(self.rows.tolist()):
            with suppress(AttackNotApplicableError):
                points = self._parameters(with_value(row, one) for one in unknown.carriers.tolist())
                pair[[i]], from_own[[i]] = separations(data.state, points[None])
                shown[i] = False
        notes = describe(len(self.rows), (True, unknown.note), (shown, SHOWN))
        return Cells(np.full(len(self.rows), np.nan), pair, from_own, notes)

    def _numbers(self, unknown: RawColumn | RawBlock) -> Cells:
        b, parts, state = len(self.rows), unknown.parts, self.data.state
        known = all_known(parts, self.rows)
        loss, pair, from_own = np.full((3, b), np.nan)
        kinks, jumps = np.zeros((2, b), dtype=bool)
        if np.any(known):
            some = Refits(self.data, self.rows[known])
            worst, kinks[known], jumps[known] = worst_along(
                state, parts, [some._along(column) for column in parts]
            )
            loss[known] = worst.loss
            pair[known], from_own[known] = some.distances(parts, worst.direction)
        notes = describe(b, (~known, MISSING), (kinks, KINK), (jumps, JUMP))
        return Cells(loss, pair, from_own, notes)

    def distances(
        self, parts: Sequence[RawColumn], direction: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Distances to one deviation off and to the means, of numbers that are known, (b,) each."""
        away = one_deviation(parts, self.rows, direction)
        points = np.stack([self._with_numbers(parts, wanted) for wanted in away], axis=1)
        return separations(self.data.state, points)

    def _along(self, column: RawColumn) -> Slopes:
        """Differentiate the final parameters along one number of these records."""

        def parameters(numbers: FloatArray, which: IntArray) -> FloatArray:
            return Refits(self.data, self.rows[which])._with_numbers([column], [numbers])

        x = column.floats[self.rows]
        return slopes(parameters, x, STEP * column.sd, _ROUNDS, noisy=True)

    def _with_numbers(
        self, parts: Sequence[RawColumn], numbers: Sequence[FloatArray]
    ) -> FloatArray:
        """Parameters with each record's numbers (b,) in some columns replaced, of shape (b, p)."""
        data = self.data

        def changed(position: int) -> tuple[Any, Array]:
            table = data.table
            for column, own in zip(parts, numbers, strict=True):
                old = raw_column(table, column.index)
                new = old.astype(np.result_type(old.dtype, own.dtype))
                new[self.rows[position]] = own[position]
                table = with_attribute(table, column.index, new)
            return table, data.y

        return self._parameters(map(changed, range(len(self.rows))))

    def _target(self, target: Target) -> Cells:
        """Leakage of the target, at which transformers may look."""
        b, state = len(self.rows), self.data.state
        candidates, outside = candidate_targets(state, target, self.rows)
        points = np.stack([self._with_targets(each) for each in candidates.T], axis=1)
        loss, (kinks, jumps) = np.full(b, np.nan), np.zeros((2, b), dtype=bool)
        if target.is_number:

            def parameters(numbers: FloatArray, which: IntArray) -> FloatArray:
                return Refits(self.data, self.rows[which])._with_targets(numbers)

            limits = (-np.inf if state.objective.loss.quadratic else 0.0, np.inf)
            step = STEP * target.sd
            y = target.y[self.rows]
            found = slopes(parameters, y, step, _ROUNDS, limits, noisy=True)
            sides = (worst_of(state, side[:, :, None]).loss for side in (found.right, found.left))
            loss = np.where(found.jumps, np.inf, np.fmax(*sides))
            kinks, jumps = found.kinks & ~found.jumps, found.jumps
        notes = describe(b, (kinks, KINK), (jumps, JUMP), (outside, OUTSIDE))
        return Cells(loss, *separations(state, points), notes)

    def _with_targets(self, targets: FloatArray) -> FloatArray:
        """Parameters with each record's target (b,) replaced, of shape (b, p)."""
        data, classes = self.data, getattr(self.data.model, "classes_", None)
        own = targets if classes is None else classes[targets.astype(np.intp)]

        def changed(position: int) -> tuple[Any, Array]:
            y = data.y.astype(np.result_type(data.y.dtype, own.dtype))
            y[self.rows[position]] = own[position]
            return data.table, y

        return self._parameters(map(changed, range(len(self.rows))))

    def _parameters(self, tables: Iterable[tuple[Any, Array]]) -> FloatArray:
        """Parameters of the pipeline trained on each of some tables and targets, (n_tables, p)."""
        weights = self.data.state.objective.sample_weight
        given: Any = None if np.all(weights == 1.0) else weights
        return refit_tables(self.data.whole, tables, given)


def all_known(parts: Sequence[RawColumn], rows: IntArray) -> BoolArray:
    """Mask of the records of which all of some numbers are known, of shape (b,)."""
    return np.all([np.isfinite(column.floats[rows]) for column in parts], axis=0)


def worst_along(
    state: FitState, parts: Sequence[RawColumn], found: Sequence[Slopes]
) -> tuple[Worst, BoolArray, BoolArray]:
    """Loss about some numbers from the slopes of the final parameters; kinks and jumps, (b,) each.

    One number counts in its own unit, and several in their standard deviations.
    """
    units = np.array([column.sd for column in parts]) if len(parts) > 1 else np.ones(1)
    right, left = (
        worst_of(state, units * np.stack([getattr(one, side) for one in found], axis=2))
        for side in ("right", "left")
    )
    jumps = np.any([one.jumps for one in found], axis=0)
    kinks = np.any([one.kinks for one in found], axis=0) & ~jumps
    loss = np.fmax(right.loss, left.loss)
    if state.converged:
        loss = np.where(jumps, np.inf, loss)
    return Worst(loss, right.direction), kinks, jumps
