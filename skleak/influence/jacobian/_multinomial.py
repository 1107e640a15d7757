"""Jacobians of multinomial fits.

Leakage of records under one linear predictor per class.

The counterparts of `_factor`, which they register with. A record's Jacobian has d + K - 1 columns
and only ``J^T J`` is ever built, from the root R of ``A^2`` (see `Root`). With one row per class
but the reference, ``V = C W``, and ``Y = R (I (x) x~)`` of shape (m, K - 1),

    J = -[Y V + R (r (x) E),  -Y T] ,
    J^T J = [[V^T S V + V^T F + F^T V + sum_kl r_k r_l Q_kl,  -(V^T S + F^T) T],  [.,  T^T S T]] ,
    S = Y^T Y,   F = Y^T R (r (x) E),   Q_kl = E^T R_k^T R_l E .

A record costs about 3 (K - 1)^2 d^2 multiplications, all in products with many records: that of
Y, of F and of the pairs of residuals with Q. Then the ``d + K - 1`` eigenvalues of ``J^T J``,
which are what takes longest for more columns than K^2.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian._factor import (
    Columns,
    FitFactor,
    JointParts,
    Norm,
    feature_norms,
    joint_parts,
    norms_by_block,
    record_norms,
)
from skleak.losses import SoftmaxLoss
from skleak.solvers import Minimum, MultinomialObjective, Objective, by_class
from skleak.utils._blocks import Blocks, row_blocks
from skleak.utils._linalg import ScaledCholesky, SingularMatrixError, augment
from skleak.utils._typing import Data, FloatArray, IntArray


@dataclass(frozen=True)
class Root:
    """A square root of ``A^2`` on changes of the parameters that sum to zero over the classes.

    The gradient of a record is such a change: its parts of all classes but one, the reference,
    say everything. ``A`` times it is ``root`` times these parts, but for a rotation that no norm
    of a Jacobian feels.
    """

    root: FloatArray  # with m = (K - 1) d~, (m, K - 1, d~)
    others: IntArray  # all classes but the reference, (K - 1,)


@dataclass(frozen=True)
class MultinomialFactor(FitFactor):
    """Minimizer and pseudo-inverse Hessian of a multinomial fit. Confidential.

    With residuals ``r = p - e_y``, ``C = diag(p) - p p^T`` and ``x~ = [x, 1]`` (or ``x`` without
    intercept), the influence of one copy of a record on the minimizer is

        J = -omega A [(C W) (x) x~ + r (x) E,  -T (x) x~] ,      shape (p, d + K - 1).

    ``(u (x) v)`` has the entry ``u_k v_j`` for column j of class k. The last K - 1 columns are
    those of the target: the label is a vertex of the simplex of class probabilities, and the
    columns of T are orthonormal directions ``t`` in it, ``sum t = 0``. For two classes that is
    one direction, along which the vertices lie ``sqrt(2)`` apart, where a label of 0 or 1 has
    them one apart: its column is ``1 / sqrt(2)`` times that of the same model with such a label.

    The Hessian is singular, as the same change of the parameters of all classes changes nothing;
    ``A`` is its inverse on the changes that sum to zero, where every J lies. Noise on all
    parameters covers more than that: what it adds along the rest is independent of the records
    and of the noise in the range of J, so ``J^T J / sigma^2`` is exact.
    """

    loss: SoftmaxLoss  # type: ignore[assignment]
    n_classes: int  # number of classes, K

    def check_one_predictor(self) -> None:
        """Refuse a fit with one predictor for each class."""
        raise ValueError(
            "Noise of a shape of its own is for models with one predictor; got one with a "
            f"predictor for each of {self.n_classes} classes. Use isotropic noise."
        )

    @classmethod
    def of(cls, objective: Objective, minimum: Minimum) -> "MultinomialFactor":
        """Of a minimization."""
        assert isinstance(objective, MultinomialObjective)
        solution = minimum.coefficients, minimum.inverse_hessian
        return cls(*solution, objective.loss, objective.fit_intercept, objective.n_classes)

    @property
    def n_features(self) -> int:
        """Number of columns of a record, ``d``."""
        return len(self.coefficients) // self.n_classes - self.fit_intercept

    @property
    def weights(self) -> FloatArray:
        """Coefficients without the intercepts, ``W``, of shape (K, d)."""
        d = self.n_features
        return self.coefficients[: self.n_classes * d].reshape(self.n_classes, d)

    @property
    def n_target_directions(self) -> int:
        """Directions in which a label can move: ``K - 1``."""
        return self.n_classes - 1

    def with_response(self, response: FloatArray) -> Self:
        """Refuse noise of a shape of its own, which is not known for several predictors."""
        self.check_one_predictor()
        return super().with_response(response)

    def derivatives(
        self, X: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return ``x~`` (n, d~), residuals (n, K), curvatures (n, K, K) and q (n,), of a block."""
        x = augment(X, self.fit_intercept)
        a = x @ self.coefficients[self.by_class].T
        return x, self.loss.residual(a, y), self.loss.curvature(a), np.full(len(x), -1.0)

    def jacobian(self, X: FloatArray, y: FloatArray, columns: IntArray | None = None) -> FloatArray:
        """Dense Jacobians of a few records, for checks and for ill-conditioned ones.

        Returns (n, p, d + K - 1): derivative of the minimizer with respect to ``[x, y]``, at omega
        = 1. Of k ``columns`` of x alone (n, p, k).
        """
        x, r, c, _ = self.derivatives(X, y)
        inverse = self.response[:, self.by_class]  # (p, K, d~)
        u = np.einsum("pkj,nj->npk", inverse, x)
        some = np.arange(self.n_features) if columns is None else columns
        features = u @ (c @ self.weights[:, some])
        features += np.einsum("nk,pkj->npj", r, inverse[:, :, some])
        if columns is not None:
            return -features
        return np.concatenate([-features, u @ label_directions(self.n_classes)], axis=2)

    @cached_property
    def by_class(self) -> IntArray:
        """Positions of the parameters of each class, of shape (K, d~)."""
        return by_class(self.n_classes, self.n_features, self.fit_intercept)

    @cached_property
    def root(self) -> Root:
        """Square root of ``A^2``; see `Root`."""
        inverse = self.response[:, self.by_class]
        # The best known class. Differences to it are taken before anything is squared: a rare
        # class has large entries, which are in those of all classes, and cancel in them.
        reference = int(np.argmin(np.diag(self.inverse_hessian)[self.by_class].sum(axis=1)))
        others = np.delete(np.arange(self.n_classes), reference)
        apart = inverse[:, others] - inverse[:, [reference]]
        if self.shaped is None:  # its rows sum to zero over the classes
            directions = label_directions(self.n_classes)
            apart = np.tensordot(directions, apart[self.by_class], axes=(0, 0))
        return Root(apart.reshape(-1, *apart.shape[-2:]), others)


def label_directions(n_classes: int) -> FloatArray:
    """Orthonormal directions in the simplex of class probabilities.

    Returns (K, K - 1): every column sums to zero.
    """
    return linalg.null_space(np.ones((1, n_classes)))


# Entries of the largest table of one block of records: 16 MB; and of those of the residuals' parts,
# which are walked through several times: 2 MB.
_ELEMENTS, _FAST_ELEMENTS = 1 << 21, 1 << 18
# Sums this small against their terms have lost half their digits: they are computed directly.
_CANCELLATION = 1e-5
# Columns for each class from which on upper ends cost less than all eigenvalues; what they may
# exceed the eigenvalue by, relative; pairs of terms of their series and vectors to find the root
# on, and for those records that need more; steps on each vector; and squarings to find vectors.
_WIDE, _EXCESS, _EFFORTS, _NEWTON, _SQUARINGS = 4, 1e-9, (1, 2, 5), 2, (5, 10)


def _near_top(matrices: FloatArray, squarings: int) -> FloatArray:
    """Return unit vectors near first eigenvectors of semidefinite matrices, or zeros, (n, k)."""
    for _ in range(squarings):  # to powers that are nearly of rank one
        sizes = np.einsum("nkk->n", matrices)[:, None, None]
        matrices = matrices / np.where(sizes > 0.0, sizes, 1.0)
        matrices = matrices @ matrices
    found = matrices[np.arange(len(matrices)), np.einsum("nkk->nk", matrices).argmax(axis=1)]
    return np.asarray(
        found / np.maximum(np.linalg.norm(found, axis=1), np.finfo(float).tiny)[:, None]
    )


@record_norms.register
def _record_norms(
    factor: MultinomialFactor, X: Data, y: FloatArray, columns: Columns, norm: Norm = "spectral"
) -> FloatArray:
    parts = _Parts.of(factor, columns)
    if norm == "spectral":
        return np.sqrt(parts.map(_Block.largest, X, y))
    count = columns.count(factor.n_features, factor.n_target_directions)
    return np.sqrt(parts.map(_Block.trace, X, y) / count)


@feature_norms.register
def _feature_norms(
    factor: MultinomialFactor,
    X: Data,
    y: FloatArray,
    blocks: Sequence[Columns],
    norm: Norm = "spectral",
) -> FloatArray:

    def squares(indices: IntArray) -> FloatArray:
        return _Parts.of(factor, Columns(indices), separate=True).map(_Block.diagonal, X, y)

    return norms_by_block(blocks, squares, lambda block: _record_norms(factor, X, y, block, norm))


@joint_parts.register
def _joint_parts(factor: MultinomialFactor, columns: Columns) -> JointParts:
    return _Parts.of(factor, columns)


@dataclass(frozen=True)
class _Parts:
    """Parts that the Jacobians of all records over a block of columns have in common.

    The block has k directions, the columns of ``basis``, and ``directions`` for the label. Where
    columns need not be told apart, the first of them span what the predictors differ in: V is zero
    beyond these w.
    """

    factor: MultinomialFactor
    others: IntArray  # all classes but the reference, (K - 1,)
    basis: FloatArray  # (d, k)
    directions: FloatArray  # T, (K - 1, 0) or (K - 1, K - 1)
    root: FloatArray  # R, (m, K - 1, d~)
    weights: FloatArray  # W times the first directions, less those of one class, (K, w)
    first: IntArray  # pairs of classes
    second: IntArray
    squares: FloatArray  # Q_kl for every pair: diagonals (pairs, k), else (pairs, k, k)
    # from x~ to u, in which the products of R with records are as large as u, (d~, d~)
    turned: FloatArray
    table: FloatArray  # from u to x~^T R_k^T R_l in these coordinates, (d~, (K - 1)^2 d~)

    @classmethod
    def of(cls, factor: MultinomialFactor, columns: Columns, *, separate: bool = False) -> "_Parts":
        """With ``separate`` directions, of which only the single norms are wanted."""
        root, others = factor.root.root, factor.root.others
        basis, (_, n, size) = columns.basis(factor.n_features), root.shape
        weights = factor.weights @ basis
        weights -= weights[np.delete(np.arange(len(weights)), others)]
        if not separate:
            axes = linalg.qr(weights[others].T)[0]
            basis, weights = basis @ axes, (weights @ axes)[:, :n]
        # An orthonormal basis is as good for all records, however much they differ in length.
        flat = root.reshape(-1, size)
        try:
            square = ScaledCholesky.of(flat.T @ flat)
            turned = square.factor.T * square.scale
            # Whatever is lost of the squares: what this says of the root is true to rounding.
            white = linalg.blas.dtrsm(1.0, turned, flat.T, trans_a=True).T
        except SingularMatrixError:
            white, turned = linalg.qr(flat, mode="economic", check_finite=False)
        white = white.reshape(len(root), -1)
        gram = (white.T @ white).reshape(n, size, n, size).swapaxes(1, 2)
        embedded = turned[:, : len(basis)] @ basis
        first, second = np.triu_indices(n)
        images = gram[first, second] @ embedded
        if separate:
            squares = np.einsum("jk,pjk->pk", embedded, images)
        else:
            squares = embedded.T @ images
            squares = 0.5 * (squares + squares.swapaxes(1, 2))
        squares[first != second] *= 2.0
        # [k, l, i, j] to [i, (l, k, j)]: x~ meets R_k, and the residual R_l.
        table = gram.transpose(2, 1, 0, 3).reshape(size, -1)
        directions = label_directions(factor.n_classes)[others]
        directions = directions * columns.target_unit if columns.target else directions[:, :0]
        known = factor, others, basis, directions, root, weights, first, second, squares
        return cls(*known, turned, table)

    @cached_property
    def _spread(self) -> tuple[float, FloatArray, FloatArray, float]:
        """Unit of the Q; their inner products in it, (pairs, pairs); a mean of them, and its norm.

        The mean is given by its weights, (pairs,).
        """
        unit = float(np.max(np.abs(self.squares))) or 1.0
        scaled, mean = self.squares / unit, np.where(self.first == self.second, 1.0, 0.0)
        flat = scaled.reshape(len(scaled), -1)
        top = np.linalg.eigvalsh(np.tensordot(mean, scaled, axes=1))[-1]
        return unit, flat @ flat.T, mean, float(top)

    def most(self, pairs: FloatArray) -> FloatArray:
        """Bound the norm of the part ``M = sum_kl r_k r_l Q_kl`` of records, (n,), from above.

        It is at most that of its share of a mean of the Q, and the Frobenius norm of the rest.

        Shapes: ``pairs`` (n, pairs), ``r_k r_l``.
        """
        unit, inner, mean, top = self._spread
        along = inner @ mean
        share = np.maximum(pairs @ along / (mean @ along or 1.0), 0.0)
        rest = pairs - share[:, None] * mean
        rounding = 1e-6 * (np.abs(pairs) + share[:, None] * mean) @ np.sqrt(np.diag(inner))
        squares = np.einsum("np,np->n", rest @ inner, rest)
        return (share * top + np.sqrt(np.maximum(squares, 0.0)) + rounding) * unit

    def map(self, measure: "Callable[[_Block], FloatArray]", X: Data, y: FloatArray) -> FloatArray:
        """Measure all records, in blocks of which all tables fit."""
        width = max(self.table.shape[1], self.basis.shape[1] * len(self.others))
        blocks = Blocks.of(X, y, width=width, elements=_ELEMENTS)
        return blocks.map(lambda X, y: measure(self.of_records(X, y)))

    def of_records(self, X: FloatArray, y: FloatArray) -> "_Block":
        """Compute the products of a dense block of records."""
        x, r, c, _ = self.factor.derivatives(X, y)
        n, size = len(self.others), len(self.table)
        r, v, u = r[:, self.others], c[:, self.others] @ self.weights, x @ self.turned.T
        products = (u @ self.table).reshape(len(x), n * n, size)
        s = (products @ u[:, :, None]).reshape(len(x), n, n)
        mixed = (r[:, None] @ products.reshape(len(x), n, n * size)).reshape(len(x) * n, size)
        f = mixed @ (self.turned[:, : len(self.basis)] @ self.basis)
        f = f.reshape(len(x), n, self.basis.shape[1])
        return _Block(self, x, r, v, 0.5 * (s + s.swapaxes(1, 2)), f)

    @property
    def joint_width(self) -> int:
        """Entries of the largest table that joint sums make of one record."""
        _, n, size = self.root.shape
        return max(size * (size + 1) // 2, n * size)

    def joint_sums(
        self, X: FloatArray, y: FloatArray, weight: FloatArray
    ) -> tuple[FloatArray, ...]:
        """Return the sums over a dense block of which the matrix of `joint` is made."""
        _, n, size = self.root.shape
        d, row, column = self.factor.n_features, *np.triu_indices(size)
        label = self.directions @ self.directions.T
        x, r, c, _ = self.factor.derivatives(X, y)
        r, v = r[:, self.others], c[:, self.others] @ self.weights
        inner = (v @ v.swapaxes(1, 2) + label) * weight[:, None, None]
        pairs = inner[:, self.first, self.second].T @ (x[:, row] * x[:, column])
        # [(k, i), (l, j)]: x~_i V_kj meets r_l E_j.
        left = v @ self.basis[:, : v.shape[2]].T * weight[:, None, None]
        left = left.transpose(0, 2, 1)
        some = np.einsum("ai,aq->aiq", x, r).reshape(len(x), size * n)
        return pairs, (r * weight[:, None]).T @ r, some.T @ left.reshape(len(x), d * n)

    def joint(self, sums: tuple[FloatArray, ...]) -> FloatArray:
        """Sum of ``weights_i J_i J_i^T`` in the coordinates of the root, of shape (m, m)."""
        m, n, size = self.root.shape
        d, row, column = self.factor.n_features, *np.triu_indices(size)
        pairs, rr, mixed = sums
        mixed = mixed.reshape(size, n, d, n).transpose(3, 0, 1, 2)
        inside = np.zeros((n, size, n, size))
        for pair, i, j in zip(pairs, self.first, self.second, strict=True):
            square = np.empty((size, size))
            square[row, column] = square[column, row] = pair
            inside[i, :, j] = inside[j, :, i] = square
        inside[:, :, :, :d] += mixed
        inside[:, :d] += mixed.transpose(2, 3, 0, 1)
        inside[:, :d, :, :d] += np.einsum("kl,ij->kilj", rr, self.basis @ self.basis.T)
        flat = self.root.reshape(m, -1)
        joint = flat @ inside.reshape(n * size, n * size) @ flat.T
        return 0.5 * (joint + joint.T)


@dataclass(frozen=True)
class _Block:
    """Products of a block of records, from which ``J^T J`` is put together."""

    parts: _Parts
    x: FloatArray  # x~, (n, d~)
    r: FloatArray  # (n, K - 1)
    v: FloatArray  # V, (n, K - 1, w)
    s: FloatArray  # S, (n, K - 1, K - 1)
    f: FloatArray  # F, (n, K - 1, k)

    def gram(self) -> FloatArray:
        """``J^T J``, of shape (n, k, k), or larger by the label's directions."""
        t, (_, k), w = self.parts.directions, self.parts.basis.shape, self.v.shape[2]
        gram = np.empty((len(self.r), k + t.shape[1], k + t.shape[1]))
        gram[:, :k, :k] = self._residuals()
        turned = self.v.swapaxes(1, 2)
        inside, sv = turned @ self.f, self.s @ self.v
        inside[:, :, :w] += 0.5 * (turned @ sv)
        gram[:, :w, :k] += inside
        gram[:, :k, :w] += inside.swapaxes(1, 2)
        edge = -self.f.swapaxes(1, 2) @ t
        edge[:, :w] -= sv.swapaxes(1, 2) @ t
        gram[:, :k, k:] = edge
        gram[:, k:, :k] = edge.swapaxes(1, 2)
        gram[:, k:, k:] = t.T @ self.s @ t
        return gram

    def _residuals(self) -> FloatArray:
        """M, of shape (n, k, k)."""
        return np.tensordot(self._pairs(), self.parts.squares, axes=1)

    def largest(self) -> FloatArray:
        """Squared spectral norms, of shape (n,)."""
        t, rest = self.parts.directions, np.arange(len(self.r))
        largest = np.zeros(len(rest))
        for effort in _EFFORTS if t.size and self.f.shape[2] >= _WIDE * len(t) else ():
            if len(rest):
                largest[rest], excess = self.take(rest)._upper_ends(effort)
                rest = rest[~(excess <= _EXCESS)]
        for rows in self._few(rest):
            largest[rows] = np.linalg.eigvalsh(self.take(rows).gram())[:, -1]
        pairs, label = self._pairs(), t @ t.T
        sizes = pairs @ np.trace(self.parts.squares, axis1=1, axis2=2)
        sizes += np.einsum("nkl,nkl->n", self.s, self.v @ self.v.swapaxes(1, 2) + label)
        for rows in self._few(np.flatnonzero(largest < _CANCELLATION * sizes)):
            largest[rows] = np.linalg.norm(self.dense(rows), 2, axis=(1, 2)) ** 2
        return np.maximum(largest, 0.0)

    def _upper_ends(self, effort: int = 2) -> tuple[FloatArray, FloatArray]:
        """Upper ends of the squared spectral norms, and what they exceed them by at most, relative.

        With ``B = R (r (x) E)``, ``M = B^T B``, ``L L^T = V V^T + T T^T`` and ``G = L^-1 V``,

            J J^T = Z Z^T + B P B^T ,      Z = Y L + B G^T ,      P = I - G^T G ,

        and z is the largest eigenvalue where that of ``Z^T (1 - B P B^T / z)^-1 Z``, of size K - 1,
        is z. It falls as z rises: of z and it the larger is never too small. With ``H = Z^T B``, a
        bound ``b >= |M|`` and a c of at most b, its series in ``N = P^1/2 M P^1/2 - c`` is

            Z^T Z + H P^1/2 (1 + N / (z - c) + N^2 / (z - c)^2 + ...) P^1/2 H^T / (z - c) ,

        and as ``c + N <= b`` it is no smaller if it ends with an even power times ``(z - c) /
        (z - b)``. Newton's method finds z on a vector near an eigenvector, and then on better ones;
        whatever they are, z is not below its start, and that not above the eigenvalue.
        """
        v, t, pairs, squares = self.v, self.parts.directions, self._pairs(), self.parts.squares
        n, k = v.shape[2], self.f.shape[2]
        m = (pairs @ squares[:, :n].reshape(-1, n * k)).reshape(-1, n, k)  # its first rows
        root = np.linalg.cholesky(v @ v.swapaxes(1, 2) + t @ t.T)
        turned, g = root.swapaxes(1, 2), np.linalg.solve(root, v)
        across, lf, gm = g.swapaxes(1, 2), turned @ self.f, g @ m
        mixed = (lf[:, :, :n] + 0.5 * gm[:, :, :n]) @ across
        first = turned @ self.s @ root + mixed + mixed.swapaxes(1, 2)
        top, b = _near_top(first, _SQUARINGS[0]), self.parts.most(pairs)
        z = np.einsum("nk,nkl,nl->n", top, first, top)
        small = 2.0 * b < z
        # Of others nothing is known, but nothing may overflow.
        z = start = scale = np.where(small, z, np.where(b > 0.0, b, 1.0))
        b, unit = np.where(small, b, 0.0), scale[:, None, None]
        h, order, inside = lf, np.arange(2 * effort + 2), np.eye(n) - across @ g[:, :, :n]
        h += gm
        h /= np.sqrt(unit)
        series, flat = np.empty((len(z), len(order), n, n)), squares.reshape(-1, k * k)
        series[:, 0] = first
        for rows in row_blocks(len(z), k * k, _FAST_ELEMENTS):
            m = (pairs[rows] / scale[rows, None] @ flat).reshape(-1, k, k)
            after = h[rows]
            for j in order[1:]:
                if j % 2:
                    inner = after.copy()
                    inner[:, :, :n] = after[:, :, :n] @ inside[rows]
                else:
                    after = inner @ m
                series[rows, j] = inner @ after.swapaxes(1, 2)
        # N is to vanish where it counts, in the mean.
        size, mean = np.einsum("njkl,nk,nl->jn", series[:, 1:3], top, top)
        some = small & (size > 0.0)
        shift = np.clip(np.where(some, mean, 0.0) / np.where(some, size, 1.0), 0.0, b / scale)
        for j in order[2:]:
            series[:, j:] = series[:, j:] - shift[:, None, None, None] * series[:, j - 1 : -1]
        c = shift * scale

        def weights(z: FloatArray) -> FloatArray:
            found = (scale / (z - c))[:, None] ** order
            found[:, -1] *= (z - c) / (z - b)
            return found

        for k in range(effort + 1):
            if k:
                total = np.einsum("nj,njkl->nkl", weights(z), series) / unit
                top = (
                    np.linalg.eigh(total)[1][:, :, -1] if k > 1 else _near_top(total, _SQUARINGS[1])
                )
            along = np.einsum("njkl,nk,nl->nj", series, top, top)
            for _ in range(_NEWTON):
                shares = along * weights(z)
                slope = (order * shares).sum(axis=1) / (z - c)
                step = (shares.sum(axis=1) - z) / (1.0 + slope)
                z = np.where(small, np.maximum(z + step, start), z)
        last = np.linalg.eigvalsh(np.einsum("nj,njkl->nkl", weights(z), series))[:, -1]
        excess = np.abs(last - z) + shares[:, -1] * (b / z)
        return np.maximum(z, last), np.where(small, excess / scale, np.inf)

    def trace(self) -> FloatArray:
        """Squared Frobenius norms, of shape (n,)."""
        t = self.parts.directions
        return self.diagonal().sum(axis=1) + np.einsum("nkl,kl->n", self.s, t @ t.T)

    def diagonal(self) -> FloatArray:
        """Squared norms of the single directions of the block, of shape (n, k)."""
        squares, w = self._terms()[:, : self.f.shape[2]], self.v.shape[2]
        total = squares.copy()
        total[:, :w] += 2.0 * np.einsum("nkj,nkj->nj", self.v, self.f[:, :, :w])
        doubtful = np.flatnonzero(np.any(total < _CANCELLATION * squares, axis=1))
        for rows in self._few(doubtful):
            dense = self.dense(rows)[:, :, : self.f.shape[2]]
            total[rows] = np.einsum("nmj,nmj->nj", dense, dense)
        return np.maximum(total, 0.0)

    def dense(self, rows: IntArray) -> FloatArray:
        """Jacobians of some records, times a rotation, of shape (n, m, k) or with the label's."""
        root, basis = self.parts.root, self.parts.basis
        images = np.tensordot(self.x[rows], root, axes=(1, 2))  # Y, (n, m, K - 1)
        columns = np.tensordot(self.r[rows], root[:, :, : len(basis)] @ basis, axes=(1, 1))
        columns[:, :, : self.v.shape[2]] += images @ self.v[rows]
        return np.concatenate([-columns, images @ self.parts.directions], axis=2)

    def _terms(self) -> FloatArray:
        """Squares of the two terms of every direction, (n, k), or with the label's last."""
        parts = self.parts
        squares = parts.squares
        if squares.ndim == 3:
            squares = np.diagonal(squares, axis1=1, axis2=2)
        own = self._pairs() @ squares
        own[:, : self.v.shape[2]] += np.einsum("nkj,nkj->nj", self.v, self.s @ self.v)
        label = np.einsum("kj,nkj->nj", parts.directions, self.s @ parts.directions)
        return np.concatenate([own, label], axis=1)

    def take(self, rows: IntArray) -> "_Block":
        """Return the products of some of the records."""
        if len(rows) == len(self.r):
            return self
        names = "x", "r", "v", "s", "f"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def _pairs(self) -> FloatArray:
        """``r_k r_l`` of every pair of classes, of shape (n, pairs)."""
        return self.r[:, self.parts.first] * self.r[:, self.parts.second]

    def _few(self, rows: IntArray) -> Iterator[IntArray]:
        """Return the records in blocks of which the dense Jacobians fit."""
        width = len(self.parts.root) * (self.f.shape[2] + self.parts.directions.shape[1])
        for some in row_blocks(len(rows), width, _ELEMENTS):
            yield rows[some]
