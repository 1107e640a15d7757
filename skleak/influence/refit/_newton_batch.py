"""Newton steps on many changed objectives at once, each with a Hessian of its own.

One matrix product over the records gives the Hessians of all of them: it weighs the outer products
of the records by the curvatures of each objective. They are taken in coordinates in which the
Hessian of the fit is the identity, so that nothing depends on the units of the columns.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skleak.influence.noise import inverse_hessian_root
from skleak.influence.state import FitState
from skleak.solvers import is_minimum, is_settled
from skleak.utils._blocks import Blocks, add, row_blocks
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.blocks._dask import is_large

# Entries of the tables of a block of records, or of objectives: 32 MB.
_ELEMENTS = 1 << 22
# Points at which a gradient is taken. Whatever takes longer is left to a minimisation of its own.
_MOST_POINTS = 40
_EXTRA_STEPS = 3
_TOLERANCE = 1e-10  # of a minimisation alone
# Condition of a Hessian up to which a Newton step tells how far a minimiser is. Where classes are
# separable there is none: the Hessian fades, and what rounding leaves of it says that all is well.
_LARGEST_CONDITION = 1e10


@dataclass(frozen=True)
class NewtonBatch:
    """Objectives of one predictor in which a record is replaced, about a fit."""

    state: FitState
    row: IntArray  # of the record that is replaced, (b,)
    new: FloatArray  # what replaces it, with the constant of an intercept, (b, p)
    weight: FloatArray  # its weight, (b,)
    # Unnormalised gradients of some objectives at steps from the fit, (k, p).
    gradient: Callable[[IntArray, FloatArray], FloatArray]

    def steps(self) -> FloatArray:
        """Return the steps from the fit to the minimisers, (b, p); NaN where none was reached."""
        found = np.full(self.new.shape, np.nan)
        n, p = self.state.objective.X.shape[0], self.new.shape[1]
        if is_large(self.state.objective.X) or 2 * max(n, p * p) > _ELEMENTS:
            return found
        root = inverse_hessian_root(self.state)
        for block in row_blocks(len(found), max(n, p * p), _ELEMENTS):
            self._solve(np.arange(len(found))[block], root, found)
        return found

    def _solve(self, pending: IntArray, root: FloatArray, found: FloatArray) -> None:
        """Put in the steps of a block of objectives."""
        total = self.state.objective.total
        at, direction, gradient = (np.zeros_like(found) for _ in range(3))
        length, extra = np.ones(len(found)), np.zeros(len(found), dtype=int)
        gradient[pending] = self.gradient(pending, at[pending])
        direction[pending] = self._directions(pending, at[pending], gradient[pending], root)
        for _ in range(_MOST_POINTS):
            pending = pending[np.isfinite(direction[pending]).all(axis=1)]
            if not len(pending):
                return
            trial = at[pending] + length[pending, None] * direction[pending]
            there = self.gradient(pending, trial)
            norm = np.linalg.norm(there, axis=1) / total
            # Along a line the slope of a convex function rises: where it is not far above zero,
            # the step went down, or not far past the lowest point.
            slope = np.einsum("ij,ij->i", gradient[pending], direction[pending])
            after = np.einsum("ij,ij->i", there, direction[pending])
            good = (after <= 0.5 * np.abs(slope)) | (norm <= _TOLERANCE)
            length[pending] *= 0.5
            some, norm = pending[good], norm[good]
            if not len(some):
                continue
            at[some], gradient[some], length[some] = trial[good], there[good], 1.0
            direction[some] = self._directions(some, at[some], gradient[some], root)
            low = norm <= _TOLERANCE
            move, size = self._moves(some[low], at[some[low]], direction[some[low]])
            reached = is_minimum(norm[low], move, size, _TOLERANCE)
            done = reached & (is_settled(move, size) | (extra[some[low]] == _EXTRA_STEPS))
            extra[some[low]] += reached
            over = some[low][done]
            found[over] = at[over] + direction[over]
            pending = np.setdiff1d(pending, over)

    def _directions(
        self, which: IntArray, at: FloatArray, gradient: FloatArray, root: FloatArray
    ) -> FloatArray:
        """Newton steps of some objectives, (k, p); NaN where a Hessian is nearly singular."""
        objective, p = self.state.objective, len(root)
        loss, points = objective.loss, self.state.factor.coefficients + at
        upper = np.triu_indices(p)

        def sums(X: FloatArray, weights: FloatArray, position: IntArray) -> FloatArray:
            x = augment(X, objective.fit_intercept)
            c = weights[:, None] * loss.curvature(x @ points.T)
            c[self._replaced(which, position)] = 0.0
            white = x @ root
            return c.T @ (white[:, upper[0]] * white[:, upper[1]])

        records = objective.X, objective.weights, np.arange(len(objective.y))
        width = max(len(upper[0]), len(which))
        blocks = Blocks.of(*records, width=width, elements=_ELEMENTS)
        entries = blocks.map_reduce(sums, add)
        white, own = self.new[which] @ root, np.einsum("ij,ij->i", self.new[which], points)
        own = self.weight[which] * loss.curvature(own)
        entries += own[:, None] * white[:, upper[0]] * white[:, upper[1]]
        hessian = np.empty((len(which), p, p))
        hessian[:, upper[0], upper[1]] = hessian[:, upper[1], upper[0]] = entries
        hessian += objective.total * (root.T * objective.penalty) @ root
        try:
            inverse = np.linalg.inv(hessian)
        except np.linalg.LinAlgError:  # of any of them
            return np.full_like(at, np.nan)
        condition = np.linalg.norm(hessian, axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
        found = -np.einsum("kij,kj->ki", inverse, gradient @ root) @ root.T
        return np.where((condition <= _LARGEST_CONDITION)[:, None], found, np.nan)

    def _moves(
        self, which: IntArray, at: FloatArray, step: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Largest change of a predictor by steps, and largest predictor, (k,) each."""
        objective, k = self.state.objective, len(which)
        both = np.concatenate([step, self.state.factor.coefficients + at])

        def largest(X: FloatArray, position: IntArray) -> FloatArray:
            table = np.abs(augment(X, objective.fit_intercept) @ both.T)
            rows, columns = self._replaced(which, position)
            table[rows, columns] = table[rows, columns + k] = 0.0
            return table.max(axis=0, initial=0.0)

        records = objective.X, np.arange(len(objective.y))
        blocks = Blocks.of(*records, width=2 * k, elements=_ELEMENTS)
        own = np.abs(np.einsum("ij,ij->i", np.tile(self.new[which], (2, 1)), both))
        found = np.maximum(blocks.map_reduce(largest, np.maximum), own)
        return found[:k], found[k:]

    def _replaced(self, which: IntArray, position: IntArray) -> tuple[IntArray, IntArray]:
        """Positions, in a block of records by objectives, of the records that are replaced."""
        row = self.row[which]
        inside = np.flatnonzero((row >= position[0]) & (row <= position[-1]))
        return row[inside] - position[0], inside
