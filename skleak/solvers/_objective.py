"""The regularised empirical risk of a linear predictor and its derivatives."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from skleak.losses import PointwiseLoss
from skleak.solvers._hessian import FactorizedHessian, HessianFactor
from skleak.utils._typing import Data, FloatArray

__all__ = ["Minimum", "Objective"]


@dataclass(frozen=True)
class Objective:
    """``F(w) = sum_i s_i omega_i loss(x~_i.w, y_i) / N + alpha / 2 |w_pen|^2``.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Records.
    y : ndarray of shape (n,)
        Targets in the range of the loss.
    loss : PointwiseLoss
        The loss.
    alpha : float
        Strength of the penalty; the intercept is not penalised.
    fit_intercept : bool
        Whether the last parameter is an intercept.
    sample_weight : ndarray of shape (n,)
        ``s``: how many times each record counts.
    reweights : ndarray of shape (n,)
        ``omega``: reweighting factors with ``sum s omega = sum s``.

    Examples
    --------
    >>> from skleak.losses import SquaredLoss
    >>> X, y, one = np.array([[1.0], [2.0]]), np.array([0.0, 4.0]), np.ones(2)
    >>> objective = Objective(X, y, SquaredLoss(), 0.5, False, one, one)
    >>> w = np.array([1.0])
    >>> objective.value(w, objective.predictor(w))
    1.5
    """

    X: Data
    y: FloatArray
    loss: PointwiseLoss
    alpha: float
    fit_intercept: bool
    sample_weight: FloatArray
    reweights: FloatArray

    @property
    def total(self) -> float:
        """``N``, the sum of the sample weights."""
        return float(self.sample_weight.sum())

    @property
    def weights(self) -> FloatArray:
        """``s omega``, of shape (n,)."""
        return self.sample_weight * self.reweights

    @property
    def n_parameters(self) -> int:
        """Number of coefficients, the intercept included."""
        return int(self.X.shape[1]) + self.fit_intercept

    @property
    def penalty(self) -> FloatArray:
        """Diagonal of ``alpha P``: ``alpha`` on the coefficients, zero on the intercept."""
        penalty = np.full(self.n_parameters, self.alpha)
        if self.fit_intercept:
            penalty[-1] = 0.0
        return penalty

    def reweighted(self, reweights: FloatArray) -> "Objective":
        """Return the same objective with other factors ``omega``, of shape (n,)."""
        return replace(self, reweights=reweights)

    def initial(self) -> FloatArray:
        """Return the start of a fit: the best lone intercept, of shape (p,)."""
        w = np.zeros(self.n_parameters)
        if self.fit_intercept:
            mean = float(self.weights @ self.y / self.weights.sum())
            w[-1] = self.loss.initial_intercept(mean)
        return w

    def predictor(self, w: FloatArray) -> FloatArray:
        """``x~_i . w`` for every record, of shape (n,)."""
        d = self.X.shape[1]
        linear = self.X @ w[:d]
        return linear + w[d] if self.fit_intercept else linear

    def transpose_product(self, values: FloatArray) -> FloatArray:
        """``sum_i values_i x~_i``, of shape (p,)."""
        product = self.X.T @ values
        return np.append(product, values.sum()) if self.fit_intercept else product

    def value(self, w: FloatArray, a: FloatArray) -> float:
        """Objective at ``w``, whose predictor is ``a``; infinite where the loss overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = float(self.weights @ self.loss.value(a, self.y)) / self.total
            value = losses + 0.5 * float(self.penalty @ w**2)
        return value if np.isfinite(value) else np.inf

    def gradient(self, w: FloatArray, a: FloatArray) -> FloatArray:
        """Gradient at ``w``, whose predictor is ``a``, of shape (p,)."""
        residual = self.loss.residual(a, self.y)
        return self.transpose_product(self.weights * residual) / self.total + self.penalty * w

    def hessian(self, a: FloatArray) -> FactorizedHessian:
        """Factor of the unnormalised Hessian ``H = N F''`` at predictor ``a``."""
        weights = self.weights * self.loss.curvature(a)
        ridge = self.total * self.alpha
        return HessianFactor.of(self.X, weights, ridge, self.fit_intercept)

    def value_round_off(self, w: FloatArray, a: FloatArray) -> float:
        """Difference of objectives below which it is only rounding noise."""
        reach = 1.0 + self._largest @ np.abs(w[: self.X.shape[1]])
        if self.fit_intercept:
            reach += abs(w[-1])
        sizes = np.abs(self.loss.residual(a, self.y)) + np.abs(self.y)
        noise = reach * float(self.weights @ sizes) / self.total + abs(self.value(w, a))
        return float(16.0 * np.finfo(float).eps * noise)

    @cached_property
    def _largest(self) -> FloatArray:
        """Largest absolute entry of each column, of shape (d,)."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        if sparse.issparse(self.X):
            low, high = np.ravel(low.toarray()), np.ravel(high.toarray())
        return np.maximum(np.abs(low), np.abs(high))

    def gradient_round_off(self, w: FloatArray, a: FloatArray) -> float:
        """Norm below which a computed gradient is only rounding noise."""
        # Terms of the predictor may cancel: its error is that of their sizes, not of the sum.
        terms = abs(self.X) @ np.abs(w[: self.X.shape[1]])
        if self.fit_intercept:
            terms = terms + abs(w[-1])
        size = np.abs(self.loss.residual(a, self.y)) + self.loss.curvature(a) * terms
        values = self.weights * (size + np.abs(self.y)) / self.total
        per_column = np.abs(self.X).T @ values
        if self.fit_intercept:
            per_column = np.append(per_column, values.sum())
        floor = per_column + self.penalty * np.abs(w)
        return float(16.0 * np.finfo(float).eps * np.linalg.norm(floor))


@dataclass(frozen=True)
class Minimum:
    """Result of a minimisation.

    Parameters
    ----------
    coefficients : ndarray of shape (p,)
        The minimiser, the intercept last.
    inverse_hessian : ndarray of shape (p, p)
        ``A = H^-1`` of the unnormalised Hessian there.
    gradient_norm : float
        Norm of the gradient of the normalised objective.
    n_iter : int
        Newton steps taken.
    converged : bool
        Whether the gradient norm passed the tolerance (or rounding noise) at a finite minimiser.

    Examples
    --------
    >>> Minimum(np.array([2.0]), np.eye(1), 0.0, 1, True).converged
    True
    """

    coefficients: FloatArray
    inverse_hessian: FloatArray
    gradient_norm: float
    n_iter: int
    converged: bool
