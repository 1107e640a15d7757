"""Jacobians of fits to many sparse columns, whose inverse Hessian is never formed.

The counterparts of `_factor`, which they register with. With ``S`` the (centered) Hessian of the
columns, ``m`` their mean under its weights, ``L = [1; -m^T]``, ``x`` a centered record,
``u = A x~ = [s; u_0]`` with ``s = S^-1 x`` and ``sigma`` the length of the target times q,

    J = -[r L S^-1 + c u w^T,  sigma u] ,     and   |J|^2 <= z   where, for all y and t,
    |r L y + u (c (S w).y + sigma t)|^2 <= z (|S y|^2 + t^2) :

for the best t a form in y, ``r^2 |y|^2`` and one of rank three, in ``G = [m, S w, s]``, against
``z |S y|^2``. It holds if and only if ``z S^2 - r^2`` is positive definite and the largest
eigenvalue of ``K Phi`` at most 1, ``Phi = G^T (z S^2 - r^2)^-1 G`` (`_largest`).

The first is known from the least eigenvalue of S. For any Y, of residual R, Phi is at most
``G^T Y + Y^T R + R^T R / (z least^2 - r^2)``, so that a number z is certified by vectors in hand,
wherever it and they come from: from the same problem confined to a Krylov space of some records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from tqdm import tqdm

from skleak.influence.jacobian._factor import (
    Columns,
    FitFactor,
    Norm,
    feature_norms,
    norms_of_jacobians,
    record_norms,
)
from skleak.solvers import ImplicitHessian, ImplicitInverse, SlowConvergenceError
from skleak.utils._blocks import dense, is_large, row_blocks
from skleak.utils._costs import dense_seconds, sparse_seconds, takes_long, warn_if_costly
from skleak.utils._typing import BoolArray, Data, FloatArray

# Records that share a Krylov space; its blocks at each look, and most directions.
_RECORDS, _LOOKS, _MOST_DIRECTIONS = 50, (4, 8, 16, 32), 1500
# Relative margin of what is certified, and factors by which it is raised where that fails.
_MARGIN, _RAISES = 1e-9, (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
# Relative size of a direction that is none.
_NO_DIRECTION = 1e-12
# Columns of a product that whole records and single systems take, and entries of Jacobians: 32 MB.
_COLUMNS_WHOLE, _COLUMNS_SINGLE, _ELEMENTS = 2000, 30, 1 << 22


@dataclass(frozen=True)
class WideFactor(FitFactor):
    """Minimizer of a fit to many sparse columns, and products with its Hessian. Confidential."""

    @property
    def hessian(self) -> ImplicitHessian | None:
        """What is multiplied with; None under noise of a shape of its own."""
        response: object = self.response
        return response.hessian if isinstance(response, ImplicitInverse) else None

    def formed(self) -> FitFactor:
        """Return the same with the dense inverse, at its cost."""
        inverse, shaped = np.asarray(self.inverse_hessian), self.shaped
        given = self.coefficients, inverse, self.loss, self.fit_intercept
        return FitFactor(*given, shaped=None if shaped is None else np.asarray(shaped))

    def seconds(self, n: int, blocks: Sequence[Columns], norm: Norm) -> tuple[float, float]:
        """Estimate what n records take by products, infinite where they do not do, and by A."""
        p, hessian = len(self.coefficients), self.hessian
        known = hessian is None or "matrix" in vars(hessian)
        formed = dense_seconds(p, 2 * n, 20.0) + (0.0 if known else dense_seconds(p))
        several = [block for block in blocks if not _is_whole(block)]
        k = sum(block.count(self.n_features) for block in several)
        if hessian is None or 4 * k > p or (len(several) < len(blocks) and norm == "trace"):
            return np.inf, formed
        groups = -(-n // _RECORDS) * (len(blocks) - len(several))
        columns = _COLUMNS_WHOLE * groups + _COLUMNS_SINGLE * (n + k) * bool(several)
        products = sparse_seconds(hessian.X.nnz, columns)
        return products + groups * dense_seconds(10 * _RECORDS, p, 30.0), formed


def _is_whole(block: Columns) -> bool:
    """Return True for all columns of a record in units of the data."""
    return block.indices is None and not block.constrained and block.units is None


@record_norms.register
def _record_norms(
    factor: WideFactor, X: Data, y: FloatArray, columns: Columns, norm: Norm = "spectral"
) -> FloatArray:
    return feature_norms(factor, X, y, [columns], norm)[:, 0]


@feature_norms.register
def _feature_norms(
    factor: WideFactor, X: Data, y: FloatArray, blocks: Sequence[Columns], norm: Norm = "spectral"
) -> FloatArray:
    n, hessian = int(X.shape[0]), factor.hessian
    products, formed = factor.seconds(n, blocks, norm)
    if hessian is not None and products <= formed and not is_large(X):
        warn_if_costly(
            f"The loss of {n} records by products with sparse columns",
            products,
            0.0,
            "Ask for fewer records, or for few columns by `features`.",
        )
        found = np.empty((n, len(blocks)))
        whole = [k for k, block in enumerate(blocks) if _is_whole(block)]
        rest = [k for k in range(len(blocks)) if k not in whole]
        try:
            for k in whole:
                found[:, k] = _whole_norms(factor, hessian, X, y, blocks[k], takes_long(products))
            if rest:
                found[:, rest] = _block_norms(
                    factor, hessian, X, y, [blocks[k] for k in rest], norm
                )
            return found
        except SlowConvergenceError:
            pass  # the dense way does not depend on the condition
    p = len(factor.coefficients)
    warn_if_costly(
        f"The loss of {n} records by the dense inverse of a Hessian of {p} parameters",
        formed,
        48.0 * p**2,
        'Ask for chosen records over all columns with `norm="spectral"`, or over few columns.',
    )
    return feature_norms(factor.formed(), X, y, blocks, norm)


def _block_norms(
    factor: WideFactor,
    hessian: ImplicitHessian,
    X: Data,
    y: FloatArray,
    blocks: Sequence[Columns],
    norm: Norm,
) -> FloatArray:
    """Norms over blocks of few columns, from their columns of A, (n, n_blocks)."""
    d, p = factor.n_features, len(factor.coefficients)
    bases = [block.basis(d) for block in blocks]
    edges = np.cumsum([0, *(basis.shape[1] for basis in bases)])
    units = np.zeros((p, edges[-1]))
    units[:d] = np.hstack(bases)
    embedded, unsure = hessian.times_inverse(units)
    found = np.empty((len(y), len(blocks)))
    widest = 1 + max(basis.shape[1] for basis in bases)
    for part in row_blocks(len(y), p * widest, _ELEMENTS):
        x, r, c, q = factor.derivatives(dense(X[part]), y[part])
        u, errors = hessian.times_inverse(x.T)
        for k, (block, basis) in enumerate(zip(blocks, bases, strict=True)):
            own, w = slice(edges[k], edges[k + 1]), basis.T @ factor.weights
            jacobians = r[:, None, None] * embedded[:, own]
            jacobians += (c * u).T[:, :, None] * w
            sigma = q * block.target_length
            if block.target:
                jacobians = np.concatenate([jacobians, (sigma * u).T[:, :, None]], axis=2)
            # What the solutions may be off, from the private side.
            slack = np.abs(r) * np.linalg.norm(unsure[own])
            slack += errors * np.hypot(c * np.linalg.norm(w), sigma)
            found[part, k] = norms_of_jacobians(jacobians, norm) + slack
    return found


def _whole_norms(
    factor: WideFactor, hessian: ImplicitHessian, X: Data, y: FloatArray, block: Columns, long: bool
) -> FloatArray:
    """Upper ends of the norms over whole records, (n,)."""
    parts = list(row_blocks(len(y), 1, _RECORDS))
    bar = tqdm(parts, desc="leakage", unit=f"{_RECORDS} records", leave=False, disable=not long)
    found = [_Records.of(factor, hessian, X[part], y[part], block).norms() for part in bar]
    return np.concatenate([np.empty(0), *found])


class _Krylov:
    """Orthonormal directions ``Q`` of a block Krylov space of S, and ``T = Q^T S Q``."""

    def __init__(self, hessian: ImplicitHessian, start: FloatArray) -> None:
        self.hessian, self.n_blocks = hessian, 0
        self.Q, self.T = np.empty((len(start), 0)), np.empty((0, 0))
        lengths = np.linalg.norm(start, axis=0)
        self.next = _directions(start[:, lengths > 0.0] / lengths[lengths > 0.0], 1.0)

    def grow(self, n_blocks: int) -> bool:
        """Take more blocks; return False where there are no more, or too many."""
        while self.n_blocks < n_blocks and self.next.shape[1]:
            if self.Q.shape[1] > _MOST_DIRECTIONS:
                return False
            image = self.hessian.product(self.next)
            before = self.Q.shape[1]
            self.Q = np.hstack([self.Q, self.next])
            own = self.Q.T @ image
            T = np.zeros((len(own), len(own)))
            T[:before, :before], T[:, before:], T[before:] = self.T, own, own.T
            T[before:, before:] = 0.5 * (own[before:] + own[before:].T)
            scale = float(np.linalg.norm(image, axis=0).max())
            for _ in range(2):
                image = image - self.Q @ (self.Q.T @ image)
            self.T, self.n_blocks = T, self.n_blocks + 1
            new = _directions(image, scale)
            self.next = _directions(new - self.Q @ (self.Q.T @ new), 1.0)
        return bool(self.next.shape[1])


def _directions(table: FloatArray, scale: float) -> FloatArray:
    """Orthonormal basis of the columns of a table but for what is tiny against ``scale``."""
    if not table.shape[1]:
        return table
    basis, triangle, _ = linalg.qr(table, mode="economic", pivoting=True)
    return np.asarray(basis[:, np.abs(np.diag(triangle)) > _NO_DIRECTION * scale])


@dataclass(frozen=True)
class _Records:
    """Some records of a wide fit, (b,)."""

    factor: WideFactor
    hessian: ImplicitHessian
    x: FloatArray  # (b, d)
    y: FloatArray
    r: FloatArray
    c: FloatArray
    sigma: FloatArray
    target: bool

    @classmethod
    def of(
        cls, factor: WideFactor, hessian: ImplicitHessian, X: Data, y: FloatArray, block: Columns
    ) -> "_Records":
        x = dense(X)
        _, r, c, q = factor.derivatives(x, y)
        return cls(factor, hessian, x, y, r, c, q * block.target_length, block.target)

    def norms(self) -> FloatArray:
        """Upper ends of the norms, to the margin where the space of some steps has it."""
        centered = (self.x - self.hessian.mean).T
        start = np.column_stack([self.factor.weights, self.hessian.mean, centered])
        space = _Krylov(self.hessian, start)
        for n_blocks in _LOOKS:
            more = space.grow(n_blocks)
            confined = _Confined.of(self, space)
            found = np.full(len(self.y), np.nan)
            for margin in _RAISES[:1] if more and n_blocks != _LOOKS[-1] else _RAISES:
                self._certify(confined, found, _MARGIN * margin)
                if not np.any(np.isnan(found)):
                    return found
        return np.where(np.isnan(found), confined.widest, found)

    def _certify(self, confined: "_Confined", found: FloatArray, margin: float) -> None:
        """Put certified norms, by that margin above what was estimated, into ``found``."""
        found[(confined.estimate == 0.0)] = confined.slack[confined.estimate == 0.0]
        i = np.flatnonzero(np.isnan(found))
        if not len(i):
            return
        upper = confined.estimate[i] * (1.0 + margin)
        held = confined.holds(i, upper**2)
        found[i[held]] = upper[held] + confined.slack[i[held]]


@dataclass(frozen=True)
class _Confined:
    """Records and what is found of them in a Krylov space: nothing here need be exact."""

    records: _Records
    values: FloatArray  # eigenvalues of T, (K,)
    vectors: FloatArray  # in the coordinates of records, (d, K)
    s: FloatArray  # about S^-1 x, (d, b)
    edge: FloatArray  # u_0 of that, (b,)
    slack: FloatArray  # by how much |J| may be off for it, (b,)
    estimate: FloatArray  # of |J|, (b,)
    widest: FloatArray  # bound of |J| without any space, (b,)

    @classmethod
    def of(cls, records: _Records, space: _Krylov) -> "_Confined":
        """Solve the same problem on directions alone."""
        factor, hessian, r = records.factor, records.hessian, records.r
        mean, values, turned = hessian.mean, *linalg.eigh(space.T)
        vectors = space.Q @ turned
        centered = (records.x - mean).T
        s = vectors @ ((vectors.T @ centered) / values[:, None])
        left = np.linalg.norm(centered - hessian.product(s), axis=0)
        edge = np.zeros(len(r))
        inverse = np.diag(1.0 / values)
        if hessian.fit_intercept:
            edge = 1.0 / hessian.total - mean @ s
            own = vectors.T @ mean
            side = -own / values
            inverse = np.block(
                [[inverse, side[:, None]], [side[None], 1.0 / hessian.total - own @ side]]
            )
        w = np.append(vectors.T @ factor.weights, factor.coefficients[factor.n_features :])
        small = FitFactor(w, inverse, factor.loss, factor.fit_intercept)
        target = Columns(target=records.target)
        estimate = record_norms(small, records.x @ vectors, records.y, target)
        # Outside the space J is r times the inverse.
        estimate = np.maximum(estimate, np.abs(r) / hessian.least)
        longest = np.sqrt(1.0 + mean @ mean) / hessian.least
        reach = np.hypot(records.c * np.linalg.norm(factor.weights), records.sigma)
        slack = longest * left * reach
        widest = np.abs(r) * longest + np.hypot(np.linalg.norm(s, axis=0), edge) * reach + slack
        return cls(records, values, vectors, s, edge, slack, estimate, widest)

    def holds(self, i: FloatArray, z: FloatArray) -> BoolArray:
        """Return True where ``|J|^2 <= z``, for the records ``i`` and the solutions ``s``."""
        hessian, r, sigma = self.records.hessian, self.records.r[i], self.records.sigma[i]
        s, b = self.s[:, i], len(i)
        image = hessian.product(self.records.factor.weights)
        G = np.empty((len(s), b, 3))
        G[:, :, 0], G[:, :, 1], G[:, :, 2] = hessian.mean[:, None], image[:, None], s
        flat = G.reshape(len(s), -1)
        squares = np.repeat(z, 3), np.repeat(r**2, 3)
        shifted = np.multiply.outer(self.values**2, squares[0]) - squares[1]
        room = z * hessian.least**2 - r**2
        length = np.einsum("ij,ij->j", s, s) + self.edge[i] ** 2
        possible = (room > 0.0) & (z > sigma**2 * length)
        # Where it is not, numbers stay finite and are not looked at.
        coordinates = (self.vectors.T @ flat) / np.where(shifted > 0.0, shifted, np.inf)
        Y = self.vectors @ coordinates
        R = flat - squares[0] * hessian.product(hessian.product(Y)) + squares[1] * Y
        Y, R = Y.reshape(G.shape), R.reshape(G.shape)
        phi = np.einsum("dia,dib->iab", G, Y) + np.einsum("dia,dib->iab", Y, R)
        phi += np.einsum("dia,dib->iab", R, R) / np.where(possible, room, 1.0)[:, None, None]
        rest = np.where(possible, z - sigma**2 * length, 1.0)
        form = self._form(i, length, sigma**2 / rest)
        return possible & (_largest(form, 0.5 * (phi + phi.transpose(0, 2, 1))) <= 1.0)

    def _form(self, i: FloatArray, length: FloatArray, share: FloatArray) -> FloatArray:
        """``K`` of the records ``i``, in ``m.y``, ``(S w).y`` and ``s.y``, (b, 3, 3)."""
        r, c = self.records.r[i], self.records.c[i]
        first, second, third = np.eye(3)
        h = third - self.edge[i, None] * first
        along = r[:, None] * h + (c * length)[:, None] * second
        K = r[:, None, None] ** 2 * np.outer(first, first)
        cross = (r * c)[:, None, None] * (second[:, None] * h[:, None, :])
        K = K + cross + cross.transpose(0, 2, 1)
        K += (c**2 * length)[:, None, None] * np.outer(second, second)
        return K + share[:, None, None] * along[:, :, None] * along[:, None, :]


def _largest(form: FloatArray, phi: FloatArray) -> FloatArray:
    """Largest eigenvalue of each ``K Phi``, Phi positive semi-definite, (b,) of (b, 3, 3)."""
    scale = np.sqrt(np.maximum(np.diagonal(phi, axis1=1, axis2=2), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    both = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(phi / both)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(np.linalg.eigvalsh(root.transpose(0, 2, 1) @ (form * both) @ root)[:, -1])
