"""Hessians of objectives on many sparse columns, which are only multiplied with.

Systems are solved by conjugate gradients, and refined on their true residuals. As the matrix is at
least ``ridge`` times the identity, the length of a residual bounds the error of a solution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, sparse

from skleak.utils._costs import dense_seconds, sparse_seconds, warn_if_costly
from skleak.utils._typing import FloatArray

# Columns below which the inverse matrix is always formed; steps that a solution may take before it
# is not worth it; columns of a product at once.
_FEWEST_COLUMNS, _STEPS, _TOGETHER = 1000, 200, 64
# Relative residual of one round of conjugate gradients, and rounds on what is left.
_TOLERANCE, _ROUNDS = 1e-8, 4
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
    if not sparse.issparse(X) or objective.moments is not None or objective.layout.ndim > 1:
        return False
    if d < _FEWEST_COLUMNS or not objective.alpha > 0.0:
        return False
    return sparse_seconds(X.nnz, _STEPS) < dense_seconds(d)


def hessian_of(objective: Any, sums: Any) -> FactorizedHessian:
    """Return the factor of the unnormalized Hessian, or what multiplies with it, at some sums."""
    ridge = objective.total * objective.alpha
    if not is_implicit(objective):
        return _factor(sums, ridge)
    v = objective.weights * objective.loss.curvature(sums.predictor)
    if not v.sum() > 0.0:
        return _factor(sums, ridge)  # which says what is wrong
    dense = partial(_factor, sums, ridge)
    return ImplicitHessian(objective.X, v, ridge, objective.fit_intercept, dense)


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
    make_dense: Callable[
        [], FactorizedHessian
    ]  # the same, factorized, for what takes all of the inverse

    @cached_property
    def total(self) -> float:
        """Sum of the weights ``v``."""
        return float(self.weights.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """``m``; zeros without an intercept, (d,)."""
        if not self.fit_intercept:
            return np.zeros(self.X.shape[1])
        return np.asarray(self.X.T @ self.weights) / self.total

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal of S, (d,)."""
        squares = self.X.multiply(self.X).T @ self.weights - self.total * self.mean**2
        return np.asarray(np.maximum(squares, 0.0) + self.ridge)

    @cached_property
    def dense(self) -> FactorizedHessian:
        """Return the factorized Hessian, at the cost of the dense matrix."""
        n, p = self.X.shape[0], self.X.shape[1] + self.fit_intercept
        warn_if_costly(
            f"The dense Hessian of {p} parameters, which this needs,",
            dense_seconds(p, int(self.X.nnz * (self.X.nnz / max(n, 1)) / p**2)),
            32.0 * p**2,
            "Ask for the loss of chosen records over all columns, or over few columns: that needs "
            "no such matrix. Or fit fewer columns.",
        )
        return self.make_dense()

    @cached_property
    def matrix(self) -> FloatArray:
        """``A = H^-1``, of shape (p, p)."""
        inverse: FloatArray = self.dense.inverse()
        return inverse

    def product(self, V: FloatArray) -> FloatArray:
        """``S V`` for V of shape (d,) or (d, k)."""
        if V.ndim == 1:
            return self.product(V[:, None])[:, 0]
        result = np.empty_like(V)
        for start in range(0, V.shape[1], _TOGETHER):
            some = V[:, start : start + _TOGETHER]
            images = self.X @ np.ascontiguousarray(some)
            images -= self.mean @ some
            images *= self.weights[:, None]
            own = self.X.T @ images - np.outer(self.mean, images.sum(axis=0))
            result[:, start : start + _TOGETHER] = own + self.ridge * some
        return result

    def columns(self, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve ``S Z = B`` for columns of shape (d, k), and give the lengths of residuals, (k,).

        A solution is no further from the exact one than its residual over ``ridge``.
        """
        Z, left = np.zeros_like(B), B
        lengths = np.linalg.norm(B, axis=0)
        for _ in range(_ROUNDS):
            better = Z + self._conjugate_gradients(left)
            residual = B - self.product(better)
            now = np.linalg.norm(residual, axis=0)
            if not np.any(now < lengths):
                break
            improved = now < lengths
            Z = np.where(improved, better, Z)
            left, done = np.where(improved, residual, left), np.all(now >= 0.1 * lengths)
            lengths = np.minimum(now, lengths)
            if done or not np.any(lengths > 0.0):
                break
        return Z, lengths

    def _conjugate_gradients(self, B: FloatArray) -> FloatArray:
        """Solve for each column alone, with the diagonal of S as preconditioner."""
        Z, scale = np.zeros_like(B), self.diagonal[:, None]
        goal = _TOLERANCE * np.linalg.norm(B, axis=0)
        i = np.flatnonzero(goal > 0.0)
        R = B[:, i]
        D = R / scale
        rho = np.einsum("ij,ij->j", R, D)
        each = max(sparse_seconds(self.X.nnz, len(i)), 1e-5)
        patience = max(10 * _STEPS, int(dense_seconds(len(B)) / each))
        for _ in range(patience):
            if not len(i):
                return Z
            image = self.product(D)
            step = rho / np.einsum("ij,ij->j", D, image)
            Z[:, i] += step * D
            R = R - step * image
            open_ = np.linalg.norm(R, axis=0) > goal[i]
            i, R, D, rho = i[open_], R[:, open_], D[:, open_], rho[open_]
            Y = R / scale
            new = np.einsum("ij,ij->j", R, Y)
            D, rho = Y + (new / rho) * D, new
        raise SlowConvergenceError(f"no solution in {patience} steps")

    def times_inverse(self, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve ``H Z = B`` for columns of shape (p, k), and bound the errors of each, (k,)."""
        if not self.fit_intercept:
            Z, lengths = self.columns(B)
            return Z, lengths / self.ridge
        Z, lengths = self.columns(B[:-1] - np.outer(self.mean, B[-1]))
        edge = B[-1] / self.total - self.mean @ Z
        error = lengths / self.ridge * np.sqrt(1.0 + self.mean @ self.mean)
        return np.vstack([Z, edge]), error

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""
        mean = self.mean
        own = b[:-1] - mean * b[-1] if self.fit_intercept else b
        try:
            z = self.columns(own[:, None])[0][:, 0]
        except SlowConvergenceError:
            return np.asarray(self.dense.solve(b))
        return np.append(z, b[-1] / self.total - mean @ z) if self.fit_intercept else z

    def inverse(self) -> Any:
        """``A``, of which no entry is computed before it is asked for."""
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
    """``A = H^-1`` as a matrix, of which products with few vectors solve for these alone.

    All else, as NumPy's functions ask for, computes the dense matrix, and warns where that is
    costly.
    """

    hessian: ImplicitHessian
    # Arrays leave products with it to it.
    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of parameters, twice."""
        p = int(self.hessian.X.shape[1]) + self.hessian.fit_intercept
        return p, p

    @property
    def T(self) -> "ImplicitInverse":
        """The matrix is symmetric."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def is_known_by(self, k: int) -> bool:
        """Return True where k vectors cost less than the whole matrix, which is not known yet."""
        return "matrix" not in vars(self.hessian) and 4 * k < len(self)

    def __matmul__(self, vectors: FloatArray) -> FloatArray:
        V = np.asarray(vectors).reshape(len(self), -1)
        if self.is_known_by(V.shape[1]):
            try:
                return self.hessian.times_inverse(V)[0].reshape(np.shape(vectors))
            except SlowConvergenceError:
                pass
        return np.asarray(self) @ vectors

    def __rmatmul__(self, vectors: FloatArray) -> FloatArray:
        return np.asarray((self @ np.asarray(vectors).T).T)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and isinstance(key[0], slice) and key[0] == slice(None):
            p = len(self)
            chosen = np.arange(p)[key[1]]
            if self.is_known_by(chosen.size):
                units = np.zeros((p, chosen.size))
                units[chosen.ravel(), np.arange(chosen.size)] = 1.0
                return (self @ units).reshape(p, *chosen.shape)
        return np.asarray(self)[key]

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.hessian.matrix, dtype, copy=copy)
