"""The bound of Cramer and Rao on whole records, exactly and for all records at once.

With ``Q = H C H``, H the Hessian and C the covariance of unit noise, the information about a record
is ``F = M^T Q^-1 M``, ``M = [c x~ w^T + r E, q x~]`` ([FIL21] eq. 29). In ``Q = Y^T Y``,
``Y = C^(1/2) H``, the QR decomposition of Y with the intercept first yields

    rho^2 = Q_bb,   v = Q_xb / rho^2,   P = R^T R = Q_xx - rho^2 v v^T,

and with ``x' = x - v``, ``p = P w``, ``k = w.P w`` and ``t = r + c x'.w``, completing the square in
``c x~ w^T + r E`` and Sherman and Morrison's formula give

    r^2 tr F^-1 = tr P - |p|^2 / k + |t p - c k x'|^2 / (k (t^2 + c^2 k / rho^2))    target public
    r^2 tr F^-1 = tr P + rho^2 |x'|^2 + (c^2 k + rho^2 t^2) / q^2                    target private

Without an intercept v is 0 and rho is infinite: the coefficients then have fewer coordinates than
a record with its target, about some direction of which a release tells nothing. Where r = 0, it
tells of a record along one direction only.
"""

from dataclasses import dataclass

import numpy as np

from skleak.adversary.knowledge import take_rows
from skleak.influence.noise import noise_root
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._linalg import weighted_gram
from skleak.utils._typing import FloatArray, IntArray


def record_mse(state: FitState, targets: IntArray, *, private_target: bool) -> FloatArray:
    """Bound the mean squared error of unbiased attacks on records, per number: tr(F^-1) / d.

    Shapes: ``targets`` (n_targets,); returns (n_targets,): [DRA22] theorem 2, at the noise scale
    of the state. Infinite where the information about a record is singular, which leaves no
    unbiased attack a finite error.
    """
    n_numbers = state.n_features + private_target
    if state.balanced is not None:
        return _reweighted(state, targets, private_target) / n_numbers
    geometry = _Geometry.of(state)
    traces = np.empty(len(targets))
    objective = state.objective
    for some in row_blocks(len(targets), state.n_features):
        x = dense(take_rows(objective.X, targets[some]))
        _, r, c, q = state.factor.derivatives(x, objective.y[targets[some]])
        if private_target:
            traces[some] = geometry.with_target(x, r, c, q)
        else:
            traces[some] = geometry.columns_only(x, r, c)
    with np.errstate(divide="ignore"):
        scale = state.noise_scale / objective.weights[targets]
    return traces * scale**2 / n_numbers


@dataclass(frozen=True)
class _Geometry:
    """Parts that the bounds of all records of a fit share, in the notation of this file."""

    weights: FloatArray  # w, (d,)
    root: FloatArray  # R, (d, d)
    center: FloatArray  # v, (d,)
    edge: float  # rho; infinite without an intercept

    @classmethod
    def of(cls, state: FitState) -> "_Geometry":
        """Decompose the fit."""
        objective, w = state.objective, state.factor.coefficients
        v = objective.weights * objective.loss.curvature(objective.predictor(w))
        hessian = np.diag(objective.total * objective.penalty)
        d = state.n_features
        hessian[:d, :d] += weighted_gram(objective.X, v)
        if objective.fit_intercept:
            hessian[-1] += objective.transpose_product(v)
            hessian[:-1, -1] = hessian[-1, :-1]
        y = noise_root(state).T @ hessian
        if not objective.fit_intercept:
            return cls(w, _triangle(y), np.zeros(d), np.inf)
        r = _triangle(np.roll(y, 1, axis=1))
        return cls(w[:-1], r[1:, 1:], r[0, 1:] / r[0, 0], float(abs(r[0, 0])))

    def columns_only(self, x: FloatArray, r: FloatArray, c: FloatArray) -> FloatArray:
        """Trace of the inverse information about ``x`` (n, d) where its target is known, (n,)."""
        image = self.root @ self.weights
        k = float(image @ image)
        x = x - self.center
        along = x @ self.weights
        rest = (r + c * along) ** 2 + (c / self.edge) ** 2 * k
        with np.errstate(divide="ignore", invalid="ignore"):
            if len(self.weights) == 1:
                return np.asarray(self.root[0, 0] ** 2 / rest)
            if k == 0.0:
                return np.asarray((self.root**2).sum() / r**2)
            other = self.root - np.outer(image / k, image @ self.root)
            p = image @ self.root
            # t p - c k x', without what cancels in it.
            moved = r[:, None] * p + c[:, None] * (along[:, None] * p - k * x)
            traces = ((other**2).sum() + (moved**2).sum(axis=1) / (k * rest)) / r**2
        return np.where((r == 0.0) | (rest == 0.0), np.inf, traces)

    def with_target(self, x: FloatArray, r: FloatArray, c: FloatArray, q: FloatArray) -> FloatArray:
        """Trace of the inverse information about ``x`` (n, d) and its target together, (n,)."""
        if not np.isfinite(self.edge):
            return np.full(len(x), np.inf)
        image = self.root @ self.weights
        x = x - self.center
        t = r + c * (x @ self.weights)
        by_target = (c**2 * (image @ image) + self.edge**2 * t**2) / q**2
        by_columns = (self.root**2).sum() + self.edge**2 * (x**2).sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray((by_columns + by_target) / r**2)


def _triangle(matrix: FloatArray) -> FloatArray:
    """Upper triangular factor R of ``matrix = Q R``, of the same square shape."""
    return np.asarray(np.linalg.qr(matrix)[1])


def _reweighted(state: FitState, targets: IntArray, private_target: bool) -> FloatArray:
    """Trace of the inverse information where the weights, too, follow the data, (n_targets,).

    No closed form is known: singular values of the total Jacobians, at a cost of d^3 a record.
    """
    derivative = fitted_derivative(state)
    if derivative.unbounded:
        return np.zeros(len(targets))
    n, p = state.n_features + private_target, len(state.factor.coefficients)
    if p < n:
        return np.full(len(targets), np.inf)
    traces = np.empty(len(targets))
    for some in row_blocks(len(targets), p * (state.n_features + 1)):
        jacobians = total_jacobian(state, targets[some], derivative=derivative)
        values = np.linalg.svd(jacobians[:, :, :n], compute_uv=False)
        singular = values[:, -1] <= p * np.finfo(float).eps * values[:, 0]
        with np.errstate(divide="ignore"):
            traces[some] = np.where(singular, np.inf, (1.0 / values**2).sum(axis=1))
    return traces * state.noise_scale**2
