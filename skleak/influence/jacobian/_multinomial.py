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
from skleak.utils._linalg import augment
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
        check_one_predictor(self)
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
        own, inverse = (a[:, self.by_class] for a in (self.inverse_hessian, self.response))
        # The best known class. Differences to it are taken before anything is squared: a rare
        # class has large entries, which are in those of all classes, and cancel in them.
        reference = int(np.argmin(np.einsum("kjkj->k", own[self.by_class])))
        others = np.delete(np.arange(self.n_classes), reference)
        apart = inverse[:, others] - inverse[:, [reference]]
        width = apart[0].size
        root = linalg.qr(apart.reshape(-1, width), mode="r", check_finite=False)[0][:width]
        return Root(root.reshape(width, len(others), -1), others)


def check_one_predictor(factor: FitFactor) -> None:
    """Refuse a fit with one predictor for each class."""
    if isinstance(factor, MultinomialFactor):
        raise ValueError(
            "Noise of a shape of its own is for models with one predictor; got one with a "
            f"predictor for each of {factor.n_classes} classes. Use isotropic noise."
        )


def label_directions(n_classes: int) -> FloatArray:
    """Orthonormal directions in the simplex of class probabilities.

    Returns (K, K - 1): every column sums to zero.
    """
    return linalg.null_space(np.ones((1, n_classes)))


# Entries of the largest table of one block of records: 4 MB, of which most stay in the cache.
_ELEMENTS = 1 << 19
# Sums this small against their terms have lost half their digits: they are computed directly.
_CANCELLATION = 1e-5
# Columns for each class from which on upper ends cost less than all eigenvalues; what they may
# exceed the eigenvalue by, relative; pairs of terms of their series, and steps to their root.
_WIDE, _EXCESS, _TERMS, _NEWTON = 4, 1e-9, 3, 3


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

    The block has k directions, the columns of ``basis``, and ``directions`` for the label.
    """

    factor: MultinomialFactor
    others: IntArray  # all classes but the reference, (K - 1,)
    basis: FloatArray  # (d, k)
    directions: FloatArray  # T, (K - 1, 0) or (K - 1, K - 1)
    root: FloatArray  # R, (m, K - 1, d~)
    weights: FloatArray  # W basis, (K, k)
    first: IntArray  # pairs of classes
    second: IntArray
    squares: FloatArray  # Q_kl for every pair: diagonals (pairs, k), else (pairs, k, k)
    cross: FloatArray  # from r (x) x~ to F, ((K - 1) d~, (K - 1) k)

    @classmethod
    def of(cls, factor: MultinomialFactor, columns: Columns, *, separate: bool = False) -> "_Parts":
        """With ``separate`` directions, of which only the single norms are wanted."""
        root, others = factor.root.root, factor.root.others
        basis = columns.basis(factor.n_features)
        embedded = root[:, :, : factor.n_features] @ basis  # (m, K - 1, k)
        n, size, k = len(others), root.shape[2], basis.shape[1]
        first, second = np.triu_indices(n)
        if separate:
            squares = np.stack(
                [
                    np.einsum("mk,mk->k", embedded[:, i], embedded[:, j])
                    for i, j in zip(first, second, strict=True)
                ]
            )
        else:
            whole = embedded.reshape(len(root), n * k)
            table = (whole.T @ whole).reshape(n, k, n, k).swapaxes(1, 2)
            squares = 0.5 * (table[first, second] + table[second, first])
        squares[first != second] *= 2.0
        flat = root.reshape(len(root), -1)
        # [(l, m), (k, j)] to [(k, m), (l, j)]: x~ meets R_l, and the residual R_k.
        mixed = (flat.T @ embedded.reshape(len(root), n * k)).reshape(n, size, n, k)
        cross = mixed.transpose(2, 1, 0, 3).reshape(n * size, n * k)
        directions = label_directions(factor.n_classes)[others]
        directions = directions * columns.target_unit if columns.target else directions[:, :0]
        own = factor.weights @ basis
        return cls(factor, others, basis, directions, root, own, first, second, squares, cross)

    @cached_property
    def bound(self) -> FloatArray:
        """``D`` with ``M <= r^T D r`` for the part ``M = sum_kl r_k r_l Q_kl`` of a record."""
        n, k = len(self.others), self.basis.shape[1]
        table = np.zeros((n, n, k, k))
        halves = self.squares / np.where(self.first == self.second, 1.0, 2.0)[:, None, None]
        table[self.first, self.second] = table[self.second, self.first] = halves
        means = np.trace(table, axis1=2, axis2=3) / k
        root = np.linalg.inv(np.linalg.cholesky(means))
        white = np.einsum("ak,klij,bl->aibj", root, table, root, optimize=True)
        last = n * k - 1
        most = linalg.eigvalsh(white.reshape(n * k, n * k), subset_by_index=[last, last])
        return means * most

    def map(self, measure: "Callable[[_Block], FloatArray]", X: Data, y: FloatArray) -> FloatArray:
        """Measure all records, in blocks of which all tables fit."""
        m, n, size = self.root.shape
        k = self.basis.shape[1] + self.directions.shape[1]
        blocks = Blocks.of(X, y, width=max(n * m, k**2, n * n * size), elements=_ELEMENTS)
        return blocks.map(lambda X, y: measure(self.of_records(X, y)))

    def of_records(self, X: FloatArray, y: FloatArray) -> "_Block":
        """Compute the products of a dense block of records."""
        x, r, c, _ = self.factor.derivatives(X, y)
        m, n, _ = self.root.shape
        r, v = r[:, self.others], c[:, self.others] @ self.weights
        images = (x @ self.root.reshape(m * n, -1).T).reshape(len(x), m, n)
        s = images.swapaxes(1, 2) @ images
        outer = (r[:, :, None] * x[:, None, :]).reshape(len(x), len(self.cross))
        f = (outer @ self.cross).reshape(v.shape)
        return _Block(self, r, v, s, f, images)

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
        left = ((v @ self.basis.T) * weight[:, None, None]).transpose(0, 2, 1)
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
    r: FloatArray  # (n, K - 1)
    v: FloatArray  # V, (n, K - 1, k)
    s: FloatArray  # S, (n, K - 1, K - 1)
    f: FloatArray  # F, (n, K - 1, k)
    images: FloatArray  # Y, (n, m, K - 1)

    def gram(self) -> FloatArray:
        """``J^T J``, of shape (n, k, k), or larger by the label's directions."""
        t, k = self.parts.directions, self.v.shape[2]
        gram = np.empty((len(self.r), k + t.shape[1], k + t.shape[1]))
        half = self.f + 0.5 * (self.s @ self.v)
        inside = self.v.swapaxes(1, 2) @ half
        residuals = self._pairs() @ self.parts.squares.reshape(len(self.parts.first), k * k)
        gram[:, :k, :k] = inside + inside.swapaxes(1, 2) + residuals.reshape(inside.shape)
        edge = -(self.s @ self.v + self.f).swapaxes(1, 2) @ t
        gram[:, :k, k:] = edge
        gram[:, k:, :k] = edge.swapaxes(1, 2)
        gram[:, k:, k:] = t.T @ self.s @ t
        return gram

    def largest(self) -> FloatArray:
        """Squared spectral norms, of shape (n,)."""
        t, rest = self.parts.directions, np.arange(len(self.r))
        largest = np.zeros(len(rest))
        if t.size and self.v.shape[2] >= _WIDE * len(t):
            largest, excess = self._upper_ends()
            rest = np.flatnonzero(excess > _EXCESS)
        if len(rest):
            largest[rest] = np.linalg.eigvalsh(self.take(rest).gram())[:, -1]
        pairs, label = self._pairs(), t @ t.T
        sizes = pairs @ np.trace(self.parts.squares, axis1=1, axis2=2)
        sizes += np.einsum("nkl,nkl->n", self.s, self.v @ self.v.swapaxes(1, 2) + label)
        for rows in self._few(np.flatnonzero(largest < _CANCELLATION * sizes)):
            largest[rows] = np.linalg.norm(self.dense(rows), 2, axis=(1, 2)) ** 2
        return np.maximum(largest, 0.0)

    def _upper_ends(self) -> tuple[FloatArray, FloatArray]:
        """Upper ends of the squared spectral norms, and what they exceed them by at most, relative.

        With ``B = R (r (x) E)``, ``M = B^T B``, ``L L^T = V V^T + T T^T`` and ``G = L^-1 V``,

            J J^T = Z Z^T + B P B^T ,      Z = Y L + B G^T ,      P = I - G^T G ,

        and z is the largest eigenvalue where that of ``Z^T (1 - B P B^T / z)^-1 Z``, of size K - 1,
        is z. It falls as z rises: of z and it the larger is never too small. Nor is it with the
        first terms of the series ``Z^T Z + Z^T B P B^T Z / z + ...`` alone, the last of them times
        ``z / (z - b)``, where ``b >= |M|``. Newton's method finds the root.
        """
        r, v, t = self.r, self.v, self.parts.directions
        k = v.shape[2]
        m = (self._pairs() @ self.parts.squares.reshape(-1, k * k)).reshape(-1, k, k)
        root = np.linalg.cholesky(v @ v.swapaxes(1, 2) + t @ t.T)
        turned, g = root.swapaxes(1, 2), np.linalg.solve(root, v)
        across, lf, gm = g.swapaxes(1, 2), turned @ self.f, g @ m
        mixed = (lf + 0.5 * gm) @ across
        first = turned @ self.s @ root + mixed + mixed.swapaxes(1, 2)
        z = start = np.linalg.eigvalsh(first)[:, -1]
        b = np.einsum("nk,kl,nl->n", r, self.parts.bound, r)
        small = 2.0 * b < z
        b = np.where(small, b, 0.0)
        terms, scale = [first], np.where(z > 0.0, z, 1.0)[:, None, None]
        h = (lf + gm) / np.sqrt(scale)
        for _ in range(_TERMS):
            inner = h - (h @ across) @ g
            after = (inner @ m) / scale
            terms += [inner @ h.swapaxes(1, 2), inner @ after.swapaxes(1, 2)]
            h = after
        series, order = np.stack(terms), np.arange(len(terms))[:, None]
        for _ in range(_NEWTON):
            weights = (start / z) ** order
            weights[-1] *= z / (z - b)
            values, vectors = np.linalg.eigh(np.einsum("jn,jnkl->nkl", weights, series))
            top = vectors[:, :, -1]
            shares = weights * np.einsum("jnkl,nk,nl->jn", series, top, top) / z
            end = np.maximum(z, values[:, -1])
            z = z + (values[:, -1] - z) / (1.0 + (order * shares).sum(axis=0))
        return end, np.where(small, shares[-1] * b / z, np.inf)

    def trace(self) -> FloatArray:
        """Squared Frobenius norms, of shape (n,)."""
        t = self.parts.directions
        return self.diagonal().sum(axis=1) + np.einsum("nkl,kl->n", self.s, t @ t.T)

    def diagonal(self) -> FloatArray:
        """Squared norms of the single directions of the block, of shape (n, k)."""
        squares = self._terms()[:, : self.v.shape[2]]
        total = squares + 2.0 * np.einsum("nkj,nkj->nj", self.v, self.f)
        doubtful = np.flatnonzero(np.any(total < _CANCELLATION * squares, axis=1))
        for rows in self._few(doubtful):
            dense = self.dense(rows)[:, :, : self.v.shape[2]]
            total[rows] = np.einsum("nmj,nmj->nj", dense, dense)
        return np.maximum(total, 0.0)

    def dense(self, rows: IntArray) -> FloatArray:
        """Jacobians of some records, times a rotation, of shape (n, m, k) or with the label's."""
        embedded = self.parts.root[:, :, : len(self.parts.basis)] @ self.parts.basis
        label = -self.images[rows] @ self.parts.directions
        columns = self.images[rows] @ self.v[rows]
        columns += np.tensordot(self.r[rows], embedded, axes=(1, 1))
        return -np.concatenate([columns, label], axis=2)

    def _terms(self) -> FloatArray:
        """Squares of the two terms of every direction, (n, k), or with the label's last."""
        parts = self.parts
        squares = parts.squares
        if squares.ndim == 3:
            squares = np.diagonal(squares, axis1=1, axis2=2)
        own = np.einsum("nkj,nkj->nj", self.v, self.s @ self.v) + self._pairs() @ squares
        label = np.einsum("kj,nkj->nj", parts.directions, self.s @ parts.directions)
        return np.concatenate([own, label], axis=1)

    def take(self, rows: IntArray) -> "_Block":
        """Return the products of some of the records."""
        names = "r", "v", "s", "f", "images"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def _pairs(self) -> FloatArray:
        """``r_k r_l`` of every pair of classes, of shape (n, pairs)."""
        return self.r[:, self.parts.first] * self.r[:, self.parts.second]

    def _few(self, rows: IntArray) -> Iterator[IntArray]:
        """Return the records in blocks of which the dense Jacobians fit."""
        width = self.images.shape[1] * (self.v.shape[2] + self.parts.directions.shape[1])
        for some in row_blocks(len(rows), width, _ELEMENTS):
            yield rows[some]
