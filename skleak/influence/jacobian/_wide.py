"""Jacobians of fits to many sparse columns, whose inverse Hessian is never formed.

The counterparts of `_factor`, which they register with. With ``S`` the (centered) Hessian of the
columns, ``m`` their mean under its weights, ``L = [1; -m^T]``, ``u = A x~ = [s; u_0]``, and
``sigma`` the length of the target times q, ``J = -[r L S^-1 + c u w^T,  sigma u]``. Along
``n = w / |w|`` and ``a = S^-1 n`` every h is ``S (y + tau a)`` with y orthogonal to ``S n``, and
``|h|^2 = |S y|^2 + tau^2``, so that ``|J|^2 <= z`` where, for all these y, all tau and t,

    |r L y + tau (r L a + c |w| u) + t sigma u|^2 <= z (|S y|^2 + tau^2 + t^2) :

``r^2 |y|^2`` and a form N in ``[G^T y, tau, t]``, ``G = [m, a, s]``, against the right-hand side.
That holds if and only if ``z S^2 - r^2`` is positive definite on these y, and the largest
eigenvalue of ``N diag(Phi, 1/z, 1/z)`` at most 1, ``Phi = G^T (z S^2 - r^2)^-1 G`` on them.

The first is known from the least of ``|S y|^2 / |y|^2``. For any Y, of residual R, Phi is at most
``G^T Y + Y^T R + R^T R / (z least - r^2)``, so that a number z is certified by vectors in hand,
wherever it and they come from: from the same problem confined to a Krylov space of some records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
from skleak.solvers import (
    ImplicitHessian,
    ImplicitInverse,
    SlowConvergenceError,
    least_eigenvalue,
)
from skleak.utils._blocks import dense, is_large, row_blocks
from skleak.utils._costs import dense_seconds, sparse_seconds, takes_long, warn_if_costly
from skleak.utils._typing import BoolArray, Data, FloatArray, IntArray

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

    @cached_property
    def along(self) -> "_Along":
        """What the norms of all whole records have in common."""
        assert self.hessian is not None
        return _Along.of(self.hessian, self.weights)

    def formed(self) -> FitFactor:
        """Return the same with the dense inverse, at its cost."""
        inverse, shaped = np.asarray(self.inverse_hessian), self.shaped
        given = self.coefficients, inverse, self.loss, self.fit_intercept
        return FitFactor(*given, shaped=None if shaped is None else np.asarray(shaped))

    def seconds_of_all(self, n: int) -> float:
        """Estimate what the losses of n whole records take by A, which may have to be formed."""
        known = self.hessian is None or "matrix" in vars(self.hessian)
        forming = 0.0 if known else dense_seconds(len(self.coefficients))
        return super().seconds_of_all(n) + forming

    def seconds(self, n: int, blocks: Sequence[Columns], norm: Norm) -> tuple[float, float]:
        """Estimate what n records take by products, infinite where they do not do, and by A."""
        p, hessian, formed = len(self.coefficients), self.hessian, self.seconds_of_all(n)
        several = [block for block in blocks if not block.is_whole]
        k = sum(block.count(self.n_features) for block in several)
        if hessian is None or 4 * k > p or (len(several) < len(blocks) and norm == "trace"):
            return np.inf, formed
        groups = -(-n // _RECORDS) * (len(blocks) - len(several))
        columns = _COLUMNS_WHOLE * groups + _COLUMNS_SINGLE * (n + k) * bool(several)
        products = sparse_seconds(hessian.X.nnz, columns)
        return products + groups * dense_seconds(10 * _RECORDS, p, 30.0), formed


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
        whole = [k for k, block in enumerate(blocks) if block.is_whole]
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
    found = [_Records.of(factor, hessian, factor.along, X[p], y[p], block).norms() for p in bar]
    return np.concatenate([np.empty(0), *found])


@dataclass(frozen=True)
class _Along:
    """The direction of the coefficients, and the rest of a fit; both of all records."""

    a: FloatArray  # ``S^-1 n``; zeros without coefficients, (d,)
    normal: FloatArray  # ``S n`` over its length, (d,)
    off: float  # by how much the n of this a, which is meant here, differs from ``w / |w|``
    least: float  # lower bound on ``|S y|^2 / |y|^2`` over y orthogonal to the normal

    @classmethod
    def of(cls, hessian: ImplicitHessian, w: FloatArray) -> "_Along":
        """Solve for the direction of ``w`` (d,), and bound the rest."""
        size = float(np.linalg.norm(w))
        a = normal = np.zeros_like(w)
        off = 0.0
        if size > 0.0:
            a = hessian.columns(w[:, None] / size)[0][:, 0]
            n = hessian.product(a)
            a, n = a / np.linalg.norm(n), n / np.linalg.norm(n)
            off, normal = float(np.linalg.norm(n - w / size)), hessian.product(n)
            normal = normal / np.linalg.norm(normal)

        aside = 4.0 * float(hessian.diagonal.max()) ** 2  # no less than the least

        def squared(y: FloatArray) -> FloatArray:
            share = normal @ y
            image = hessian.product(hessian.product(y - normal * share))
            return np.asarray(image + normal * (aside * share - normal @ image))

        start = np.random.default_rng(0).normal(size=len(w))
        start -= normal * (normal @ start)
        return cls(a, normal, off, least_eigenvalue(squared, start, hessian.ridge**2))

    def rest(self, table: FloatArray) -> FloatArray:
        """Return what is orthogonal to the normal of columns, (d, k)."""
        return np.asarray(table - np.outer(self.normal, self.normal @ table))


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
    """Some records of a wide fit, (b,), with ``u = [s; edge]``."""

    factor: WideFactor
    hessian: ImplicitHessian
    along: _Along
    x: FloatArray  # (b, d)
    y: FloatArray
    r: FloatArray
    c: FloatArray  # times ``|w|``
    sigma: FloatArray
    target: bool
    u: FloatArray  # (p, b)
    slack: FloatArray  # by how much |J| may be off, as u and n are

    @classmethod
    def of(
        cls,
        factor: WideFactor,
        hessian: ImplicitHessian,
        along: _Along,
        X: Data,
        y: FloatArray,
        block: Columns,
    ) -> "_Records":
        """Solve for u."""
        tilde, r, c, q = factor.derivatives(dense(X), y)
        c, sigma = c * np.linalg.norm(factor.weights), q * block.target_length
        u, errors = hessian.times_inverse(tilde.T)
        slack = errors * np.hypot(c, sigma) + c * np.linalg.norm(u, axis=0) * along.off
        x = tilde[:, : factor.n_features]
        return cls(factor, hessian, along, x, y, r, c, sigma, block.target, u, slack)

    def norms(self) -> FloatArray:
        """Upper ends of the norms, to the margin where the space of some steps has it."""
        centered = (self.x - self.hessian.mean).T
        shared = self.factor.weights, self.hessian.mean
        space = _Krylov(self.hessian, np.column_stack([*shared, centered]))
        found = np.full(len(self.y), np.nan)
        for n_blocks in _LOOKS:
            more = space.grow(n_blocks)
            values, turned = linalg.eigh(space.T)
            vectors = space.Q @ turned
            estimate = self._estimate(values, vectors)
            found[estimate == 0.0] = 0.0
            for margin in _RAISES[:1] if more and n_blocks != _LOOKS[-1] else _RAISES:
                i = np.flatnonzero(np.isnan(found))
                if not len(i):
                    return found + self.slack
                upper = estimate[i] * (1.0 + _MARGIN * margin)
                held = self._holds(i, upper**2, values, vectors)
                found[i[held]] = upper[held]
        longest = np.sqrt(1.0 + self.hessian.mean @ self.hessian.mean) / self.hessian.ridge
        widest = np.abs(self.r) * longest
        widest += np.linalg.norm(self.u, axis=0) * np.hypot(self.c, self.sigma)
        return np.where(np.isnan(found), widest, found) + self.slack

    def _estimate(self, values: FloatArray, vectors: FloatArray) -> FloatArray:
        """Solve the same problem on directions alone: eigenvectors (d, K) of S confined to them."""
        factor, hessian = self.factor, self.hessian
        inverse = np.diag(1.0 / values)
        if hessian.fit_intercept:
            own = vectors.T @ hessian.mean
            side = -own / values
            corner = np.array([[1.0 / hessian.total - own @ side]])
            inverse = np.block([[inverse, side[:, None]], [side[None], corner]])
        w = np.append(vectors.T @ factor.weights, factor.coefficients[factor.n_features :])
        small = FitFactor(w, inverse, factor.loss, factor.fit_intercept)
        inside = record_norms(small, self.x @ vectors, self.y, Columns(target=self.target))
        # Outside of them J is r times the inverse.
        return np.maximum(inside, np.abs(self.r) / np.sqrt(self.along.least))

    def _holds(
        self, i: IntArray, z: FloatArray, values: FloatArray, vectors: FloatArray
    ) -> BoolArray:
        """Return True where ``|J|^2 <= z``, for the records ``i``."""
        hessian, along, d, b = self.hessian, self.along, self.factor.n_features, len(i)
        G = np.empty((d, b, 3))
        shared = hessian.mean[:, None], along.a[:, None]
        G[:, :, 0], G[:, :, 1], G[:, :, 2] = *shared, self.u[:d, i]
        flat = along.rest(G.reshape(d, -1))
        scale, shift = np.repeat(z, 3), np.repeat(self.r[i] ** 2, 3)
        Y = along.rest(_confined(flat, scale, shift, values, vectors, along.normal))
        image = along.rest(hessian.product(hessian.product(Y)))
        R = (flat - scale * image + shift * Y).reshape(G.shape)
        G, Y = flat.reshape(G.shape), Y.reshape(G.shape)
        room = z * along.least - self.r[i] ** 2
        possible = room > 0.0
        phi = np.einsum("dia,dib->iab", G, Y) + np.einsum("dia,dib->iab", Y, R)
        phi += np.einsum("dia,dib->iab", R, R) / np.where(possible, room, 1.0)[:, None, None]
        whole = np.zeros((b, 5, 5))
        whole[:, :3, :3] = 0.5 * (phi + phi.transpose(0, 2, 1))
        whole[:, 3, 3] = whole[:, 4, 4] = 1.0 / z
        return np.asarray(possible & (_largest(self._form(i), whole) <= 1.0))

    def _form(self, i: IntArray) -> FloatArray:
        """``N`` of the records ``i``, in ``m.y``, ``a.y``, ``s.y``, tau and t, (b, 5, 5)."""
        r, c, sigma, a = self.r[i], self.c[i], self.sigma[i], self.along.a
        u, d = self.u[:, i], self.factor.n_features
        edge = u[d] if self.hessian.fit_intercept else np.zeros(len(i))
        across = self.hessian.mean @ a  # L a = [a; -across]
        both, length = a @ u[:d] - across * edge, np.einsum("ij,ij->j", u, u)
        N = np.zeros((len(i), 5, 5))
        N[:, 0, 0] = r**2
        N[:, 0, 3], N[:, 1, 3], N[:, 2, 3] = r * (r * across - c * edge), r**2, r * c
        N[:, 0, 4], N[:, 2, 4] = -r * sigma * edge, r * sigma
        N[:, 3, 4] = sigma * (r * both + c * length)
        N += np.triu(N, 1).transpose(0, 2, 1)
        N[:, 3, 3] = r**2 * (a @ a + across**2) + 2.0 * r * c * both + c**2 * length
        N[:, 4, 4] = sigma**2 * length
        return N


def _confined(
    G: FloatArray,
    scale: FloatArray,
    shift: FloatArray,
    values: FloatArray,
    vectors: FloatArray,
    normal: FloatArray,
) -> FloatArray:
    """About the solution of ``(scale S^2 - shift) Y = G`` orthogonal to the normal, (d, k)."""
    forms = np.multiply.outer(values**2, scale) - shift
    forms = np.where(forms == 0.0, np.finfo(float).tiny, forms)
    own, off = vectors.T @ G, (vectors.T @ normal)[:, None]
    pull = np.sum(off**2 / forms, axis=0)
    pull = np.sum(off * own / forms, axis=0) / np.where(pull == 0.0, 1.0, pull)
    return np.asarray(vectors @ ((own - off * pull) / forms))


def _largest(form: FloatArray, phi: FloatArray) -> FloatArray:
    """Largest eigenvalue of each ``N Phi``, Phi positive semi-definite, (b,) of (b, k, k)."""
    scale = np.sqrt(np.maximum(np.diagonal(phi, axis1=1, axis2=2), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    both = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(phi / both)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(np.linalg.eigvalsh(root.transpose(0, 2, 1) @ (form * both) @ root)[:, -1])
