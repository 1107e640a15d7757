"""Hessians of objectives on many sparse columns, which are only multiplied with.

Systems are solved by conjugate gradients, and refined on their true residuals. As the matrix is at
least ``ridge`` times the identity, the length of a residual bounds the error of a solution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy import linalg, optimize, sparse

from skleak.utils._linalg import dense_seconds, sparse_seconds, warn_if_costly
from skleak.utils._typing import FloatArray

# Columns below which the inverse matrix is always formed, and steps that a solution usually takes.
_FEWEST_COLUMNS, _STEPS = 1000, 200
# What a step takes however few entries there are, in seconds.
_STEP_SECONDS = 1e-4
# Relative residual of one round of conjugate gradients, and rounds on what is left: to rounding.
_TOLERANCE, _ROUNDS = 1e-8, 2
# Probability that the least eigenvalue is overestimated; relative width at which its search ends,
# most of its steps, and steps between two looks.
_MISSED, _WIDTH, _MOST_STEPS, _LOOK = 1e-12, 3e-10, 1000, 25


class FactorizedHessian(Protocol):
    """Factorized Hessian, for Newton steps."""

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""

    def inverse(self) -> FloatArray:
        """Inverse matrix ``A``, exactly symmetric, of shape (p, p)."""


def is_implicit(objective: Any) -> bool:
    """Return True where Hessians of an objective cost less if they are never formed.

    With a penalty, one predictor, and many sparse columns of records in memory.
    """
    X, d = objective.X, objective.X.shape[1]
    known = sparse.issparse(X) and objective.moments is None and objective.layout.ndim == 1
    if not known or d < _FEWEST_COLUMNS or not objective.alpha > 0.0:
        return False
    return sparse_seconds(X.nnz, _STEPS) < dense_seconds(d)


def hessian_of(objective: Any, sums: Any) -> FactorizedHessian:
    """Return the factor of the unnormalized Hessian, or what multiplies with it, at some sums."""
    ridge = objective.total * objective.alpha
    factor = partial(_factor, sums, ridge)
    if not is_implicit(objective):
        return factor()
    v = objective.weights * objective.loss.curvature(sums.predictor)
    if not v.sum() > 0.0:
        return factor()  # which says what is wrong
    return ImplicitHessian(objective.X, v, ridge, objective.fit_intercept, factor)


def _factor(sums: Any, ridge: float) -> FactorizedHessian:
    factor: FactorizedHessian = sums.curvature.factor(ridge)
    return factor


class SlowConvergenceError(ArithmeticError):
    """Conjugate gradients would take longer than the dense factor."""


@dataclass(frozen=True, eq=False)
class ImplicitHessian:
    """``H = sum_i v_i x~_i x~_i^T + ridge P`` of CSR records, where P leaves out the intercept.

    With an intercept the columns are centered at their mean ``m`` under the weights ``v``, in every
    product: ``S = sum_i v_i (x_i - m)(x_i - m)^T + ridge`` is what is solved with.
    """

    X: Any  # CSR of shape (n, d)
    weights: FloatArray  # ``v``, (n,)
    ridge: float
    fit_intercept: bool
    make_dense: Callable[[], FactorizedHessian]  # for what takes all of the inverse

    @cached_property
    def total(self) -> float:
        """Sum of the weights ``v``."""
        return float(self.weights.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """``m``; zeros without an intercept, (d,)."""
        return self.fit_intercept / self.total * np.asarray(self.X.T @ self.weights)

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S, (d,)."""
        squares = self.X.multiply(self.X).T @ self.weights - self.total * self.mean**2
        return np.asarray(np.maximum(squares, 0.0) + self.ridge)

    @cached_property
    def matrix(self) -> FloatArray:
        """``A = H^-1``, at the cost of a dense matrix, of shape (p, p)."""
        p = self.X.shape[1] + self.fit_intercept
        warn_if_costly(
            f"The dense inverse of a Hessian of {p} parameters, which this needs,",
            dense_seconds(p),
            32.0 * p**2,
            "Ask for the loss of chosen records, over all columns or over few: that needs no such "
            "matrix. Or fit fewer columns.",
        )
        return self.make_dense().inverse()

    def product(self, V: FloatArray) -> FloatArray:
        """``S V`` for V of shape (d,) or (d, k)."""
        images = self.X @ np.ascontiguousarray(V) - self.mean @ V
        images = (images.T * self.weights).T
        shift = np.multiply.outer(self.mean, images.sum(axis=0))
        return np.asarray(self.X.T @ images - shift + self.ridge * V)

    def columns(self, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve ``S Z = B`` for columns of shape (d, k), and give the lengths of residuals, (k,).

        A solution is no further from the exact one than its residual over ``ridge``.
        """
        Z, R = np.zeros_like(B), B
        for _ in range(_ROUNDS):
            Z = Z + self._conjugate_gradients(R)
            R = B - self.product(Z)
        return Z, np.linalg.norm(R, axis=0)

    def _conjugate_gradients(self, B: FloatArray) -> FloatArray:
        """Solve for all columns at once, each alone, with the diagonal of S as preconditioner."""
        Z, R, D, rho = np.zeros_like(B), B, np.zeros_like(B), np.ones(B.shape[1])
        goal = _TOLERANCE * np.linalg.norm(B, axis=0)
        each = sparse_seconds(self.X.nnz, B.shape[1]) + _STEP_SECONDS
        for _ in range(max(10 * _STEPS, int(dense_seconds(len(B)) / each))):
            if np.all(np.linalg.norm(R, axis=0) <= goal):
                return Z
            Y = R / self.diagonal[:, None]
            rho, before = np.einsum("ij,ij->j", R, Y), rho
            D = Y + np.divide(rho, before, out=np.zeros_like(rho), where=before > 0.0) * D
            image = self.product(D)
            energy = np.einsum("ij,ij->j", D, image)
            step = np.divide(rho, energy, out=np.zeros_like(rho), where=energy > 0.0)
            Z, R = Z + step * D, R - step * image
        raise SlowConvergenceError("conjugate gradients take longer than the dense matrix")

    def times_inverse(self, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve ``H Z = B`` for columns of shape (p, k), and bound the errors of each, (k,)."""
        if not self.fit_intercept:
            Z, lengths = self.columns(B)
            return Z, lengths / self.ridge
        Z, lengths = self.columns(B[:-1] - np.outer(self.mean, B[-1]))
        error = lengths / self.ridge * np.sqrt(1.0 + self.mean @ self.mean)
        return np.vstack([Z, B[-1] / self.total - self.mean @ Z]), error

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""
        try:
            return self.times_inverse(b[:, None])[0][:, 0]
        except SlowConvergenceError:
            return np.asarray(self.matrix @ b)

    def inverse(self) -> Any:
        """Return ``A``, of which no entry is computed before it is asked for."""
        return ImplicitInverse(self)


def least_eigenvalue(
    product: Callable[[FloatArray], FloatArray], start: FloatArray, floor: float
) -> float:
    """Lower bound on the eigenvalues of a symmetric matrix, at least ``floor``; mostly tight.

    After k steps of Lanczos' iteration from a random vector, (d,), with the orthonormal polynomials
    ``p_j`` of its measure, an eigenvalue ``x`` below all that were found has at most the mass
    ``1 / sum_j p_j(x)^2`` in it, which falls as x does. Below the x where that is too little for a
    random direction there is none, but for one such vector in 10^12.
    """
    d = len(start)
    basis = np.empty((min(_MOST_STEPS, d), d))
    basis[0] = start / np.linalg.norm(start)
    # The square of a coordinate of a random direction is below s with probability ~ sqrt(s d).
    mass = _MISSED**2 / d
    alphas: list[float] = []
    betas: list[float] = []
    for k in range(len(basis)):
        image = product(basis[k])
        alphas.append(float(basis[k] @ image))
        for _ in range(2):  # twice is enough to keep rounding that of the products
            image = image - basis[: k + 1].T @ (basis[: k + 1] @ image)
        beta, last = float(np.linalg.norm(image)), k + 1 == len(basis)
        exhausted = beta <= 1e-13 * max(alphas) or k + 1 == d
        if exhausted or last or (k + 1) % _LOOK == 0:
            found = linalg.eigvalsh_tridiagonal(np.array(alphas), np.array(betas))
            rounding = (k + 1) * np.finfo(float).eps * found[-1]
            low = found[0] if exhausted else _below(alphas, betas, found[0], floor, mass)
            bound = max(floor, float(low - rounding))
            if exhausted or last or found[0] - bound <= _WIDTH * found[0] + rounding:
                break
        betas.append(beta)
        basis[k + 1] = image / beta
    return bound


def _below(
    alphas: list[float], betas: list[float], top: float, bottom: float, mass: float
) -> float:
    """Return where the mass that a measure may have falls to a limit, below its first node."""

    def excess(x: float) -> float:
        before, now, total = 0.0, 1.0, 1.0
        for k, beta in enumerate(betas[: len(alphas) - 1]):
            last = betas[k - 1] if k else 0.0
            before, now = now, ((x - alphas[k]) * now - last * before) / beta
            total += now * now
            if total * mass > 1e6:
                break
        return float(np.log(total * mass))

    if top <= bottom or excess(bottom) < 0.0 or excess(top) >= 0.0:
        return bottom
    # The end of the bracket that is too low, and not the one that is too high.
    width = 1e-11 * top
    return float(optimize.brentq(excess, bottom, top, xtol=width)) - width


@dataclass(frozen=True, eq=False)
class ImplicitInverse:
    """``A = H^-1`` as a matrix that is computed when an entry, or a product, is asked for."""

    hessian: ImplicitHessian
    # Arrays leave products with it to it.
    __array_ufunc__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.hessian.matrix, dtype, copy=copy)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # as copying asks for, before there is a Hessian
            raise AttributeError(name)
        return getattr(self.hessian.matrix, name)

    def __len__(self) -> int:
        return len(self.hessian.matrix)

    def __getitem__(self, key: Any) -> Any:
        return self.hessian.matrix[key]

    def __matmul__(self, other: FloatArray) -> FloatArray:
        return self.hessian.matrix @ other

    def __rmatmul__(self, other: FloatArray) -> FloatArray:
        return other @ self.hessian.matrix
