"""How the leakage that a reweighting balances changes with the record and with the fit.

The balanced norm of a record is ``kappa = ||A Q||`` with ``Q = [c x~ w_S^T + f r E_S, q x~]`` (the
last column only where the target is balanced, and f the factor of `WeightRule`). Its logarithm
changes by

    d log kappa = - <S, dH> + h . dw + o . dx + o_y dy ,

with ``S`` symmetric: for the spectral norm, whose singular vectors are u and v, ``S`` is the
symmetric part of ``(A u) u^T``; for the trace norm that of ``Q Q^T`` framed by ``A``.

All is done in coordinates that make the Hessian the identity, ``A = F F^T``: records become
``F^T x~``, and the units of the columns drop out.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.influence.jacobian import FitFactor, JacobianParts, largest_eigenvalue
from skleak.influence.state import WeightRule
from skleak.utils._typing import FloatArray

# Relative residual above which an eigenvector is computed anew by a dense method.
_EIGENVECTOR_RESIDUAL = 1e-11

# x, r, c, third and q of `Gradients`.
_Losses = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Gradients:
    """Derivatives of ``log kappa`` for a block of records, in coordinates where ``H = I``."""

    x: FloatArray  # ``F^T x~``, (b, p)
    r: FloatArray  # derivatives of the loss: r, c, c' and q, (b,)
    c: FloatArray
    third: FloatArray
    q: FloatArray
    # The norm itself, (b,). Where it is zero, all derivatives are zero: the weight of a record that
    # cannot leak is not determined by its leakage.
    kappa: FloatArray
    # By how much the logarithm of the weight follows minus that of kappa, between 0 and 1, (b,).
    follows: FloatArray
    predictor: FloatArray  # derivative through the predictor ``a``, all of it, (b,)
    # ``F direct`` is the derivative with respect to x other than through the predictor, (b, p)
    direct: FloatArray
    target: FloatArray  # derivative with respect to y, ``o_y``, (b,)
    coefficients: FloatArray  # ``F^T h``, (b, p)
    # ``S`` is the symmetric part of the sum of ``left right^T``, plus ``common`` times the matrix
    # `Balance.common`. Each factor has shape (b, p), or (1, p) if all records share it.
    pairs: list[tuple[FloatArray, FloatArray]]
    common: FloatArray  # (b,)

    def effect(self, dw: FloatArray, dh: FloatArray, by_common: float) -> FloatArray:
        """Change of minus the log weights with the minimiser and the Hessian, at one level, (b,).

        ``by_common`` is the inner product of ``dh`` with the matrix `Balance.common`.
        """
        change = self.coefficients @ dw - self.common * by_common
        for left, right in self.pairs:
            if len(left) == 1:  # shared by all records
                change -= right @ (dh @ left[0])
            else:
                change -= np.einsum("ij,ij->i", left @ dh, right)
        # Weights move against it.
        return np.asarray(change * self.follows)


@dataclass(frozen=True)
class Balance:
    """Norm that a reweighting balances, with the matrices that all records share."""

    factor: FitFactor
    rule: WeightRule  # what is balanced, and the weights that follow from it
    # To which it is balanced, at unit noise. Plays no part where weights are unbounded.
    level: float
    root: FloatArray  # ``F`` with ``A = F F^T``, (p, p)
    gram: FloatArray  # ``F^T F``, (p, p)
    block: FloatArray  # ``F^T E_S E_S^T F``, (p, p)
    weights: FloatArray  # ``F^T E_S w_S``, (p,)
    length: float  # ``|w_S|``
    common: FloatArray  # symmetric part of ``block gram``, (p, p)

    @classmethod
    def of(cls, factor: FitFactor, rule: WeightRule, level: float = 1.0) -> "Balance":
        """Prepare the shared matrices."""
        columns = rule.columns
        root = hessian_root(factor.inverse_hessian)
        basis = columns.basis(factor.n_features)
        w = basis.T @ factor.weights
        half = root[: factor.n_features].T @ basis
        gram, block = root.T @ root, half @ half.T
        common = block @ gram
        return cls(
            factor,
            rule,
            level,
            root,
            gram,
            block,
            half @ w,
            float(np.linalg.norm(w)),
            0.5 * (common + common.T),
        )

    def gradients(self, X: FloatArray, y: FloatArray) -> Gradients:
        """Differentiate for a dense block of records, X of shape (b, d) and y of shape (b,)."""
        x, r, c, q = self.factor.derivatives(X, y)
        third = self.factor.loss.third_derivative(x @ self.factor.coefficients)
        losses = (x @ self.root, r, c, third, q)
        if self.rule.norm == "spectral":
            kappa, vectors = self._top_vectors(X, y)
            return self._spectral(losses, kappa, vectors @ self.root)
        return self._trace(losses)

    def _spectral(self, losses: _Losses, kappa: FloatArray, g: FloatArray) -> Gradients:
        """From ``u`` as ``g = F^T u``: then ``A u = F g``."""
        x, r, c, third, q = losses
        f = self.rule.residual_factor
        damped = f * r
        inverse = _reciprocal(kappa)
        qt = q * self.rule.columns.target
        gx = np.einsum("ij,ij->i", g, x)
        g_block = g @ self.block
        # v = Q^T A u / kappa, in its three parts: along w_S, all of v_S embedded, and v_y.
        v_w = (c * self.length**2 * gx + damped * (g @ self.weights)) * inverse
        v_s = ((c * gx)[:, None] * self.weights + damped[:, None] * g_block) * inverse[:, None]
        v_y = qt * gx * inverse
        g_v = np.einsum("ij,ij->i", g, v_s)
        predictor = (third * gx * v_w + f * c * g_v) * inverse
        direct = (c * v_w + qt * v_y) * inverse
        u = direct[:, None] * x + (damped * inverse)[:, None] * v_s  # F^-1 u = F^T Q v / kappa
        return Gradients(
            *losses,
            kappa=kappa,
            follows=self.rule.follows(kappa, self.level),
            predictor=predictor,
            direct=direct[:, None] * g,
            target=f * q * g_v * inverse,
            coefficients=predictor[:, None] * x + (c * gx * inverse)[:, None] * v_s,
            pairs=[(g, u)],
            common=np.zeros(len(x)),
        )

    def _trace(self, losses: _Losses) -> Gradients:
        x, r, c, third, q = losses
        f = self.rule.residual_factor
        damped = f * r
        columns = self.rule.columns
        count = columns.count(self.factor.n_features)
        gram_x = x @ self.gram
        xx, xw = np.einsum("ij,ij->i", x, gram_x), gram_x @ self.weights
        size = (c * self.length) ** 2 + (q * columns.target) ** 2
        trace = float(np.trace(self.common))
        squares = damped**2 * trace + 2.0 * damped * c * xw + size * xx
        norms = np.sqrt(np.maximum(squares, 0.0) / count)
        inverse = _reciprocal(norms) ** 2 / count
        by_c = (c * self.length**2 * xx + damped * xw) * inverse
        by_r = f * (c * xw + damped * trace) * inverse
        predictor = third * by_c + c * by_r
        gram_w = self.gram @ self.weights
        direct = (size * inverse)[:, None] * gram_x + (damped * c * inverse)[:, None] * gram_w
        coefficients = (
            predictor[:, None] * x
            + (c**2 * xx * inverse)[:, None] * self.weights
            + (c * damped * inverse)[:, None] * (gram_x @ self.block)
        )
        return Gradients(
            *losses,
            kappa=norms,
            follows=self.rule.follows(norms, self.level),
            predictor=predictor,
            direct=direct,
            target=q * by_r,
            coefficients=coefficients,
            pairs=[(x, direct), (self.weights[None, :], (damped * c * inverse)[:, None] * gram_x)],
            common=damped**2 * inverse,
        )

    @cached_property
    def _axes(self) -> tuple[JacobianParts, FloatArray, FloatArray]:
        """Coordinates, and the diagonal, of the part of ``A Q Q^T A`` that records share."""
        parts = JacobianParts.of(self.rule.damped(self.factor), self.rule.columns)
        return parts, *parts.axes()

    def _top_vectors(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Largest singular value of ``A Q`` and its left vector, of shapes (b,) and (b, p)."""
        parts, axes, diagonal = self._axes
        along = parts.along @ axes
        r, p, h = parts.of_records(X, y, self.factor.inverse_hessian @ axes, along)
        rho = r**2
        z = largest_eigenvalue(diagonal, rho, p, h, along)
        leaks = z > 0.0
        vectors = _eigenvectors(diagonal, rho, p, h, along, z)
        vectors[~leaks] = 0.0
        image = rho[:, None] * diagonal * vectors
        image += np.einsum("ij,ij->i", p, vectors)[:, None] * p
        image += (h * (vectors @ along))[:, None] * along
        residual = np.linalg.norm(image - z[:, None] * vectors, axis=1)
        for i in np.flatnonzero(leaks & ~(residual <= _EIGENVECTOR_RESIDUAL * z)):
            dense = np.diag(rho[i] * diagonal)
            dense += np.outer(p[i], p[i]) + h[i] * np.outer(along, along)
            vectors[i] = np.linalg.eigh(dense)[1][:, -1]
        return np.sqrt(z), vectors @ axes.T


def _eigenvectors(
    diagonal: FloatArray,
    rho: FloatArray,
    p: FloatArray,
    h: FloatArray,
    g: FloatArray,
    z: FloatArray,
) -> FloatArray:
    """Eigenvectors of ``rho diag(D) + p p^T + h g g^T`` to its eigenvalues z, of shape (b, p).

    ``(z - rho D)^-1 (y_1 p + y_2 sqrt(h) g)``, where y is the null vector of a 2 x 2 matrix. Where
    z is too close to ``rho max(D)`` for that, what is returned is not an eigenvector.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        resolvent = 1.0 / (z[:, None] - rho[:, None] * diagonal)
        root = np.sqrt(h)
        a = np.einsum("ij,ij,ij->i", p, p, resolvent)
        b = root * np.einsum("ij,j,ij->i", p, g, resolvent)
        c = h * (resolvent @ g**2)
        angle = 0.5 * np.arctan2(2.0 * b, a - c)  # of the larger eigenvalue's vector
        vectors = np.cos(angle)[:, None] * p + (np.sin(angle) * root)[:, None] * g
        vectors *= resolvent
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def packed(vector: FloatArray, symmetric: FloatArray) -> FloatArray:
    """Pack a vector, (p,), and a symmetric matrix, (p, p), so that inner products stay."""
    i, j = np.triu_indices(len(vector))
    return np.append(vector, symmetric[i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def unpacked(values: FloatArray, p: int) -> tuple[FloatArray, FloatArray]:
    """Return the vector, (p,), and the symmetric matrix, (p, p), that were packed."""
    i, j = np.triu_indices(p)
    symmetric = np.zeros((p, p))
    symmetric[i, j] = symmetric[j, i] = values[p:] / np.where(i == j, 1.0, np.sqrt(2.0))
    return values[:p], symmetric


def hessian_root(matrix: FloatArray) -> FloatArray:
    """``F`` with ``F F^T`` equal to a positive definite matrix, whatever the units of its rows."""
    scale = np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    values = np.maximum(values, np.finfo(float).eps * values[-1])
    return scale[:, None] * vectors * np.sqrt(values)


def _reciprocal(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0.0)
