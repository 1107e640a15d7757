"""The regularised empirical risk of a linear predictor and its derivatives."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from skleak.losses import PointwiseLoss
from skleak.solvers._hessian import FactorizedHessian, HessianFactor
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import largest_entries, product, transpose_product
from skleak.utils._typing import Data, FloatArray, IntArray

# Entries of one block of a table of predictors: 32 MB.
_TABLE_ELEMENTS = 1 << 22


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

    @cached_property
    def layout(self) -> IntArray:
        """Positions of the parameters by column, the intercept last; a row for each column."""
        return np.arange(int(self.X.shape[1]) + self.fit_intercept)

    @property
    def n_parameters(self) -> int:
        """Number of coefficients, the intercepts included."""
        return self.layout.size

    @property
    def penalty(self) -> FloatArray:
        """Diagonal of ``alpha P``: ``alpha`` on the coefficients, zero on the intercept."""
        penalty = np.full(self.n_parameters, self.alpha)
        if self.fit_intercept:
            penalty[self.layout[-1]] = 0.0
        return penalty

    def reweighted(self, reweights: FloatArray) -> Self:
        """Return the same objective with other factors ``omega``, of shape (n,)."""
        return replace(self, reweights=reweights)

    def take(self, rows: IntArray) -> Self:
        """Return the same objective on some of the records."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            sample_weight=self.sample_weight[rows],
            reweights=self.reweights[rows],
        )

    def with_record(self, row: int, x: FloatArray, y: float | None = None) -> Self:
        """Return the same objective with other entries, of shape (d,), in one row."""
        if sparse.issparse(self.X):
            X = sparse.vstack([self.X[:row], _row(x), self.X[row + 1 :]], format="csr")
        else:
            X = self.X.copy()
            X[row] = x
        if y is None:
            return replace(self, X=X)
        targets = self.y.copy()
        targets[row] = y
        return replace(self, X=X, y=targets)

    def with_more(self, x: FloatArray, y: float, weight: float) -> Self:
        """Return the same objective with one record more, of entries (d,) and of this weight."""
        if sparse.issparse(self.X):
            X = sparse.vstack([self.X, _row(x)], format="csr")
        else:
            X = np.vstack([self.X, x])
        return replace(
            self,
            X=X,
            y=np.append(self.y, y),
            sample_weight=np.append(self.sample_weight, weight),
            reweights=np.append(self.reweights, 1.0),
        )

    def initial(self) -> FloatArray:
        """Return the start of a fit: the best lone intercept, of shape (p,)."""
        w = np.zeros(self.n_parameters)
        if self.fit_intercept:
            mean = float(self.weights @ self.y / self.weights.sum())
            w[-1] = self.loss.initial_intercept(mean)
        return w

    def predictor(self, w: FloatArray) -> FloatArray:
        """``x~_i . w`` for every record, of shape (n,)."""
        by_column, d = w[self.layout], self.X.shape[1]
        linear = product(self.X, by_column[:d])
        return linear + by_column[d] if self.fit_intercept else linear

    def transpose_product(self, values: FloatArray) -> FloatArray:
        """``sum_i values_i x~_i``, of shape (p,)."""
        return self._parameters(transpose_product(self.X, values), values)

    def value(self, w: FloatArray, a: FloatArray) -> float:
        """Objective at ``w``, whose predictor is ``a``; infinite where the loss overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = float(self.weights @ self.loss.value(a, self.y)) / self.total
            value = losses + 0.5 * float(self.penalty @ w**2)
        return value if np.isfinite(value) else np.inf

    def gradient(self, w: FloatArray, a: FloatArray) -> FloatArray:
        """Gradient at ``w``, whose predictor is ``a``, of shape (p,)."""
        residual = _scaled(self.loss.residual(a, self.y), self.weights)
        return self.transpose_product(residual) / self.total + self.penalty * w

    def gradients(self, at: FloatArray, without: IntArray | None = None) -> FloatArray:
        """Unnormalised gradients at many parameters, each perhaps without one record, (b, p).

        Parameters
        ----------
        at : ndarray of shape (b, p)
            Parameters.
        without : ndarray of int of shape (b,), default=None
            Record to leave out for each. Its part is never added, and not subtracted again: far
            from the fit it may be larger than all else by far.
        """
        by_column = np.moveaxis(at[:, self.layout], 1, 0)  # (d~, b, ...)
        blocks = Blocks.of(
            self.X,
            self.y,
            self.weights,
            np.arange(len(self.y)),
            width=by_column[0].size,
            elements=_TABLE_ELEMENTS,
            keep_sparse=True,
        )
        gradient = self.total * self.penalty * at
        sums = blocks.map_reduce(self._gradient_sums, add, by_column, without)
        gradient[:, self.layout] += np.moveaxis(sums, 0, 1)
        return gradient

    def _gradient_sums(
        self,
        X: Data,
        y: FloatArray,
        weights: FloatArray,
        position: IntArray,
        by_column: FloatArray,
        without: IntArray | None,
    ) -> FloatArray:
        """Sums of the residuals of a block times its columns, of shape (d~, b, ...)."""
        d, shape = X.shape[1], by_column.shape[1:]
        table = (X @ by_column[:d].reshape(d, -1)).reshape(len(y), *shape)
        if self.fit_intercept:
            table += by_column[d]
        table = self._minus_targets(self.loss.inverse_link(table), y)
        table *= weights.reshape(-1, *[1] * len(shape))
        if without is not None:
            here = np.flatnonzero(np.isin(without, position))
            table[np.searchsorted(position, without[here]), here] = 0.0
        sums = np.empty_like(by_column)
        sums[:d] = (X.T @ table.reshape(len(y), -1)).reshape(d, *shape)
        if self.fit_intercept:
            sums[d] = table.sum(axis=0)
        return sums

    def _minus_targets(self, means: FloatArray, y: FloatArray) -> FloatArray:
        """Turn predicted means of shape (n, b) into residuals, in place."""
        means -= y[:, None]
        return means

    def hessian(self, a: FloatArray) -> FactorizedHessian:
        """Factor of the unnormalised Hessian ``H = N F''`` at predictor ``a``."""
        weights = self.weights * self.loss.curvature(a)
        ridge = self.total * self.alpha
        return HessianFactor.of(self.X, weights, ridge, self.fit_intercept)

    def value_round_off(self, w: FloatArray, a: FloatArray) -> float:
        """Difference of objectives below which it is only rounding noise."""
        sizes, d = np.abs(w[self.layout]), self.X.shape[1]
        reach = sizes[:d].T @ self._largest + (sizes[d] if self.fit_intercept else 0.0)
        residuals = np.abs(self.loss.residual(a, self.y)).reshape(len(a), -1).sum(axis=1)
        noise = float(self.weights @ (residuals + self._target_sizes)) / self.total
        noise = (1.0 + float(np.max(reach))) * noise + abs(self.value(w, a))
        return float(16.0 * np.finfo(float).eps * noise)

    def gradient_round_off(self, w: FloatArray, a: FloatArray) -> float:
        """Norm below which a computed gradient is only rounding noise."""
        by_column, d = np.abs(w[self.layout]), self.X.shape[1]
        # Terms of the predictor may cancel: its error is that of their sizes, not of the sum.
        terms = Blocks.of(self.X, keep_sparse=True).map(lambda X, w: abs(X) @ w, by_column[:d])
        if self.fit_intercept:
            terms = terms + by_column[d]
        values = _scaled(self._residual_sizes(a, terms), self.weights / self.total)
        blocks = Blocks.of(self.X, values, keep_sparse=True)
        sums = blocks.map_reduce(lambda X, values: abs(X).T @ values, add)
        floor = self._parameters(sums, values) + self.penalty * np.abs(w)
        return float(16.0 * np.finfo(float).eps * np.linalg.norm(floor))

    @property
    def _target_sizes(self) -> FloatArray:
        """Size of every target, of shape (n,)."""
        return np.abs(self.y)

    def _residual_sizes(self, a: FloatArray, terms: FloatArray) -> FloatArray:
        """Sizes of what a residual is computed from, where ``a`` is a sum of such terms."""
        return (
            np.abs(self.loss.residual(a, self.y)) + self.loss.curvature(a) * terms + np.abs(self.y)
        )

    @cached_property
    def _largest(self) -> FloatArray:
        return largest_entries(self.X)

    def _parameters(self, sums: FloatArray, values: FloatArray) -> FloatArray:
        """Order sums by column, and of the values for the intercept, as parameters are, (p,)."""
        result = np.empty(self.n_parameters)
        d = len(sums)
        result[self.layout[:d]] = sums
        if self.fit_intercept:
            result[self.layout[d]] = values.sum(axis=0)
        return result


def _row(x: FloatArray) -> Data:
    return sparse.csr_array(x[None])


def _scaled(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Multiply the values of every record, (n,) or (n, K), by its weight."""
    return (values.T * weights).T


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
