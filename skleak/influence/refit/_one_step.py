"""How far one changed entry of a record moves the minimiser, by one Newton step, for all records.

With ``x' = x + t e_j`` the change of the gradient, ``k (r' x' - r x)``, and that of the Hessian,
``k (c' x' x'^T - c x x^T)``, lie in the span of ``V = [x~, e_j]``, so that the step is

    delta = -A V q,    q = (I + M V^T A V)^-1 g ,
    g = k [r' - r, r' t],    M = k [[c' - c, c' t], [c' t, c' t^2]] ,

and all distances follow from the 2 x 2 products of ``A x~`` and ``A e_j``. Exact for the squared
loss; for others it says which records to solve for.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import check_one_predictor
from skleak.influence.noise import mean_factor, noise_root
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import Blocks, dense
from skleak.utils._typing import Data, FloatArray

# Pairs of values, over all records, that are compared; and entries of the tables that are kept.
_MOST_PAIRS = 2e7
_MOST_KEPT = 1 << 23


@dataclass(frozen=True)
class OneStep:
    """Records of a fit with one predictor, prepared for changes of single entries. Confidential.

    Lengths are those over the noise at scale 1.
    """

    state: FitState
    X: Data
    y: FloatArray
    weight: FloatArray  # ``k``, (n,)
    predictor: FloatArray  # ``x~ . w``, (n,)
    leverage: FloatArray  # ``x~^T A x~``, (n,)
    length: FloatArray  # ``|A x~|^2``, (n,)
    response: FloatArray  # ``A S^-1 A``, (p, p)

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch) -> Self:
        """Prepare records, with the part that they take in the fit."""
        factor = state.factor
        check_one_predictor(factor)
        shaped = mean_factor(state).response
        response = shaped.T @ shaped

        def measured(X: FloatArray, y: FloatArray) -> FloatArray:
            x = factor.derivatives(X, y)[0]
            leverage = np.einsum("ij,ij->i", x @ factor.inverse_hessian, x)
            length = np.einsum("ij,ij->i", x @ response, x)
            return np.stack([x @ factor.coefficients, leverage, length], axis=1)

        found = Blocks.of(batch.X, batch.y).map(measured)
        predictor, leverage, length = found.T
        return cls(state, batch.X, batch.y, batch.factors, predictor, leverage, length, response)

    def targets(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Largest distance of two targets, and of one from the record's own, (n,) each.

        Shapes: ``targets`` (n_values,), or (n, n_values) for those of each record's own.
        """
        loss, a = self.state.objective.loss, self.predictor[:, None]
        own = loss.residual(self.predictor, self.y)[:, None]
        moved = loss.residual(a, np.broadcast_to(targets, (len(self.y), targets.shape[-1]))) - own
        size = self.weight * np.sqrt(self.length)
        both = np.concatenate([moved, np.zeros_like(own)], axis=1)
        return size * np.ptp(both, axis=1), size * np.abs(moved).max(axis=1)

    def column(self, j: int, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Largest distance of two values of a column, and of one from the record's own, (n,) each.

        Shapes: ``values`` (n_values,), or (n, n_values) for those of each record's own.
        """
        q = self._solved(j, values)
        products = self.length, self._times(self.response, j), self.response[j, j]
        own = np.sqrt(np.max([_squares(each, *products) for each in q], axis=0))
        largest, last = own, len(q) - 1
        ends = range(last) if self.compares_all(len(q)) else (0, last)
        for one in ends:
            for other in range(one + 1, len(q)):
                largest = np.maximum(largest, np.sqrt(_squares(q[other] - q[one], *products)))
        return largest, own

    def compares_all(self, n_values: int) -> bool:
        """Return True if all pairs of values are compared, not just those with first and last."""
        return n_values**2 * len(self.y) <= 2.0 * _MOST_PAIRS

    def information(self, j: int, nodes: FloatArray, step: float) -> FloatArray:
        """Squared speed of the minimiser in a column, with it at each of some nodes, (n, n_nodes).

        By central differences; each node counts for all records.
        """
        products = self.length, self._times(self.response, j), self.response[j, j]
        below, above = self._solved(j, nodes - step), self._solved(j, nodes + step)
        speeds = (above - below) / (2.0 * step)
        return np.stack([_squares(speed, *products) for speed in speeds], axis=1)

    def _solved(self, j: int, values: FloatArray) -> FloatArray:
        """``q`` of every value, of shape (n_values, n, 2)."""
        factor, loss, k = self.state.factor, self.state.objective.loss, self.weight
        x = np.ravel(dense(self.X[:, [j]]))
        u, inverse = self._times(factor.inverse_hessian, j), factor.inverse_hessian[j, j]
        a, h = self.predictor, self.leverage
        r, c = loss.residual(a, self.y), loss.curvature(a)
        found = []
        for value in np.broadcast_to(values, (len(x), values.shape[-1])).T:
            t = value - x
            moved = a + t * factor.coefficients[j]
            r_new, c_new = loss.residual(moved, self.y), loss.curvature(moved)
            g0, g1 = k * (r_new - r), k * r_new * t
            m00, m01, m11 = k * (c_new - c), k * c_new * t, k * c_new * t * t
            b00, b01 = 1.0 + m00 * h + m01 * u, m00 * u + m01 * inverse
            b10, b11 = m01 * h + m11 * u, 1.0 + m01 * u + m11 * inverse
            determinant = b00 * b11 - b01 * b10
            q = np.stack([b11 * g0 - b01 * g1, b00 * g1 - b10 * g0], axis=1)
            found.append(q / determinant[:, None])
        return np.array(found)

    @cached_property
    def _images(self) -> FloatArray:
        """``A x~`` of all records, of shape (p, n)."""
        return self._all_times(self.state.factor.inverse_hessian)

    @cached_property
    def _echoes(self) -> FloatArray:
        """``A S^-1 A x~`` of all records, of shape (p, n)."""
        return self._all_times(self.response)

    def _all_times(self, rows: FloatArray) -> FloatArray:
        """``rows x~`` of all records, (m, n) for ``rows`` of shape (m, p)."""
        d = self.state.n_features
        found = np.asarray((self.X @ rows[:, :d].T).T)
        return found + rows[:, d:] if self.state.factor.fit_intercept else found

    def _times(self, matrix: FloatArray, j: int) -> FloatArray:
        """``x~ . matrix[j]`` of all records, of shape (n,)."""
        if self.X.shape[0] * len(matrix) <= _MOST_KEPT:
            return (self._echoes if matrix is self.response else self._images)[j]
        return self._all_times(matrix[[j]])[0]


def whitened(state: FitState, points: FloatArray) -> FloatArray:
    """Parameters of shape (..., p) in coordinates in which the noise is isotropic.

    At the covariance of this fit, where that is a function of the records.
    """
    if not state.noise.reads_data:
        return state.noise.whitened(points)
    root = noise_root(state)
    flat = linalg.solve_triangular(
        root, points.reshape(-1, len(root)).T, lower=True, check_finite=False
    )
    return np.asarray(flat.T.reshape(points.shape))


def _squares(q: FloatArray, length: FloatArray, cross: FloatArray, own: float) -> FloatArray:
    """Return ``|A V q|^2``, of shape (n,)."""
    squares = q[:, 0] ** 2 * length + 2.0 * q[:, 0] * q[:, 1] * cross + q[:, 1] ** 2 * own
    return np.maximum(squares, 0.0)
