"""Leakage of raw columns through the whole pipeline, what its transformers learn included.

The pipeline is trained anew, without noise, for every number or value tried: what is differentiated
and told apart are the final parameters.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import refit_pipelines
from skleak.adversary.knowledge import raw_column
from skleak.inspection._cells import Cells, describe
from skleak.inspection._columns import STEP, RawColumn
from skleak.inspection._derivatives import slopes
from skleak.inspection._held import JUMP, KINK, MISSING
from skleak.inspection._pipeline import Inspected
from skleak.inspection._separation import separations
from skleak.utils._typing import Array, FloatArray, IntArray

# Records of which all columns are refitted where none are named.
MOST_RECORDS = 20
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
        column = raw_column(self.data.table, 0)
        one = Refits(self.data, np.zeros(1, dtype=np.intp))
        refitted = one._parameters(0, column[:1][None])[0, 0]
        fitted = self.data.state.factor.coefficients
        same = refitted.shape == fitted.shape
        limit = _SAME_FIT * float(np.linalg.norm(fitted))
        if not same or np.linalg.norm(refitted - fitted) > limit:
            raise ValueError(
                "The pipeline, trained anew on `X` and `y`, is another one than was given: these "
                "are not its training data, or a step is random (give it a `random_state`) or was "
                "fitted with weights of its own, or stopped short (raise `max_iter`)."
            )

    def cells(self, column: RawColumn) -> Cells:
        """Leakage of a column of these records."""
        if column.is_number:
            return self._number(column)
        values = raw_column(self.data.table, column.index)[column.carriers]
        points = self._parameters(column.index, values)
        return Cells.of_values(*separations(self.data.state, points), column.note)

    def _number(self, column: RawColumn) -> Cells:
        assert column.numbers is not None
        b, x = len(self.rows), column.numbers[self.rows]
        there = np.flatnonzero(np.isfinite(x))
        state = self.data.state
        some = Refits(self.data, self.rows[there])

        def parameters(numbers: FloatArray, which: IntArray) -> FloatArray:
            own = Refits(self.data, some.rows[which])
            return own._parameters(column.index, numbers[None])[:, 0]

        found = slopes(parameters, x[there], STEP * column.sd, _ROUNDS)
        right, left = (
            np.linalg.norm(state.noise.whitened(side), axis=1) for side in (found.right, found.left)
        )
        size = np.where(found.jumps, np.inf, np.fmax(right, left))
        loss, pair, from_own = np.full((3, b), np.nan)
        noise = state.noise_scale
        loss[there] = size / noise if noise > 0.0 else np.where(size > 0.0, np.inf, 0.0)
        if not state.converged:
            loss[:] = np.nan
        away = np.stack([x - column.sd, x + column.sd, np.full_like(x, column.mean)])[:, there]
        points = some._parameters(column.index, away)
        pair[there], from_own[there] = separations(state, points)
        kinks, jumps = np.zeros((2, b), dtype=bool)
        kinks[there], jumps[there] = found.kinks & ~found.jumps, found.jumps
        notes = describe(b, (~np.isfinite(x), MISSING), (kinks, KINK), (jumps, JUMP))
        return Cells(loss, pair, from_own, notes)

    def _parameters(self, index: int, candidates: Array) -> FloatArray:
        """Parameters with each record's value replaced, of shape (b, n_values, p).

        Shapes: ``candidates`` (n_values,) or (n_values, b).
        """
        data, weights = self.data, self.data.state.objective.sample_weight
        given: Any = None if np.all(weights == 1.0) else weights
        if not len(self.rows):
            return np.empty((0, len(candidates), len(data.state.factor.coefficients)))
        return refit_pipelines(
            data.whole, data.table, data.y, self.rows, index, candidates, None, given
        )
