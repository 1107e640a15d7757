"""Jacobians of fits to many sparse columns, whose inverse Hessian is never formed.

The counterparts of `_factor`, which they register with. With ``S`` the (centered) Hessian of the
columns, ``m`` their mean under its weights, ``L = [1; -m^T]``, ``u = A x~``, and ``sigma`` the
length of the target times q, ``J = -[r L S^-1 + c u w^T,  sigma u]``. Along ``n = w / |w|`` and
``a = S^-1 n`` every h is ``S (y + tau a)`` with y orthogonal to ``S n``, and ``|h|^2 = |S y|^2 +
tau^2``, so that ``|J|^2 <= z`` where, for all these y, all tau and t,

    |r L y + tau g + t g'|^2 <= z (|S y|^2 + tau^2 + t^2) ,    g = r L a + c |w| u,  g' = sigma u :

``r^2 |y|^2`` and a form N in ``[G^T y, tau, t]``, ``G = [m, L^T g, L^T g']``, against the right.
That holds if and only if ``z S^2 - r^2`` is positive definite on these y, and the largest
eigenvalue of ``N diag(Phi, 1/z, 1/z)`` at most 1, ``Phi = G^T (z S^2 - r^2)^-1 G`` on them.

The first is known from the least of ``|S y|^2 / |y|^2``. For any Y, of residual R, Phi is at most
``G^T Y + Y^T R + R^T R / (z least - r^2)``, so that a number z is certified by vectors in hand,
wherever it and they come from: from the same problem confined to a Krylov space of some records.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import linalg
from tqdm import tqdm

from skleak.exceptions import CostWarning
from skleak.influence.jacobian._factor import (
    Columns,
    FitFactor,
    Norm,
    feature_norms,
    norms_of_jacobians,
    record_norms,
)
from skleak.solvers import (
    HessianFactor,
    ImplicitHessian,
    ImplicitInverse,
    SlowConvergenceError,
    least_eigenvalue,
)
from skleak.utils._blocks import dense, is_large, row_blocks
from skleak.utils._linalg import (
    ScaledCholesky,
    dense_seconds,
    sparse_seconds,
    takes_long,
    warn_if_costly,
)
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import BoolArray, Data, FloatArray, IntArray

# Records that share a Krylov space, its blocks at each look, and most directions.
_RECORDS, _LOOKS, _MOST_DIRECTIONS = 50, (4, 8, 16, 32, 64, 128, 256), 1500
# Relative margins of what is certified; the larger ones where the smaller do not hold.
_MARGINS = np.geomspace(1e-9, 1.0, 10)
# Relative distance from the estimate up to which an end is as good as the loss.
_TIGHT = 2e-6
# Relative size of a direction that is none.
_NO_DIRECTION = 1e-12
# Columns of products that records take, in such a space and for one system each; entries of
# Jacobians: 32 MB.
_COLUMNS_WHOLE, _COLUMNS_SINGLE, _ELEMENTS = 3000, 30, 1 << 22


@dataclass(frozen=True)
class WideFactor(FitFactor):
    """Minimizer of a fit to many sparse columns, and products with its Hessian. Confidential."""

    @property
    def hessian(self) -> ImplicitHessian | None:
        """Return what is multiplied with; None under noise of a shape of its own."""
        response: object = self.response
        return response.hessian if isinstance(response, ImplicitInverse) else None

    def seconds_of_all(self, n: int) -> float:
        """Estimate what the losses of n whole records take by A, which may have to be formed."""
        known = self.hessian is None or "matrix" in vars(self.hessian)
        forming = 0.0 if known else dense_seconds(len(self.coefficients))
        return super().seconds_of_all(n) + forming

    def seconds(self, n: int, block: Columns, norm: Norm) -> float:
        """Estimate what n records take without A; infinite where that does not do."""
        k, p = block.count(self.n_features), len(self.coefficients)
        if self.hessian is None or (4 * k > p and not (block.is_whole and norm == "spectral")):
            return np.inf
        if not block.is_whole:
            return sparse_seconds(self.hessian.X.nnz, _COLUMNS_SINGLE * (n + k))
        products = sparse_seconds(self.hessian.X.nnz, _COLUMNS_WHOLE)
        return -(-n // _RECORDS) * (products + dense_seconds(10 * _RECORDS, p, 30.0))

    @property
    def implicit(self) -> ImplicitHessian:
        """Return what is multiplied with, where there is such a thing."""
        assert self.hessian is not None
        return self.hessian

    @cached_property
    def along(self) -> "_Along":
        """Return what the norms of all whole records have in common."""
        return _Along.of(self.implicit, self.weights)


@record_norms.register
def _record_norms(
    factor: WideFactor, X: Data, y: FloatArray, columns: Columns, norm: Norm = "spectral"
) -> FloatArray:
    return feature_norms(factor, X, y, [columns], norm)[:, 0]


@feature_norms.register
def _feature_norms(
    factor: WideFactor, X: Data, y: FloatArray, blocks: Sequence[Columns], norm: Norm = "spectral"
) -> FloatArray:
    n = int(X.shape[0])
    seconds = sum(factor.seconds(n, block, norm) for block in blocks)
    if seconds <= factor.seconds_of_all(n) and not is_large(X):
        warn_if_costly(
            f"The loss of {n} records by products with sparse columns",
            seconds,
            0.0,
            "Ask for fewer records, or for few columns by `features`.",
        )
        try:
            found = [_norms(factor, X, y, b, norm, takes_long(seconds)) for b in blocks]
            return np.stack(found, axis=1)
        except SlowConvergenceError:
            pass  # the dense way does not depend on the condition
    given = factor.coefficients, np.asarray(factor.inverse_hessian), factor.loss
    formed = FitFactor(*given, factor.fit_intercept, shaped=factor.shaped)
    return feature_norms(formed, X, y, blocks, norm)


def _norms(
    factor: WideFactor, X: Data, y: FloatArray, block: Columns, norm: Norm, long: bool
) -> FloatArray:
    """Upper ends of the norms over one block, (n,)."""
    find: Callable[[_Records], FloatArray] = _Records.norms
    rows = _RECORDS
    if not block.is_whole:
        basis, p = block.basis(factor.n_features), len(factor.coefficients)
        solved = factor.implicit.times_inverse(np.pad(basis, ((0, p - len(basis)), (0, 0))))
        find = partial(_Records.norms_over, basis=basis, embedded=solved, norm=norm)
        rows = max(1, _ELEMENTS // (p * (basis.shape[1] + 1)))
    parts = tqdm(list(row_blocks(len(y), 1, rows)), "leakage", leave=False, disable=not long)
    found = [find(_Records(factor, X[part], y[part], block)) for part in parts]
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
        size, a, normal, off = float(np.linalg.norm(w)), np.zeros_like(w), np.zeros_like(w), 0.0
        if size > 0.0:
            a = hessian.columns(w[:, None] / size)[0][:, 0]
            n = hessian.product(a)
            a, n = a / np.linalg.norm(n), n / np.linalg.norm(n)
            normal, off = hessian.product(n), float(np.linalg.norm(n - w / size))
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


def _spaces(
    hessian: ImplicitHessian, start: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray, bool]]:
    """Yield larger and larger Krylov spaces of S, ``Q`` (d, K) and ``Q^T S Q``; True at the end."""
    lengths = np.linalg.norm(start, axis=0)
    new = _directions(start[:, lengths > 0.0] / lengths[lengths > 0.0], 1.0)
    Q, T = new[:, :0], np.empty((0, 0))
    for n_blocks in range(1, _LOOKS[-1] + 1):
        image, before = hessian.product(new), Q.shape[1]
        Q = np.hstack([Q, new])
        own = Q.T @ image
        T = np.pad(T, (0, new.shape[1]))
        T[:, before:], T[before:] = own, own.T
        scale = float(np.linalg.norm(image, axis=0).max(initial=0.0))
        for _ in range(2):
            image = image - Q @ (Q.T @ image)
        new = _directions(image, scale)
        new = _directions(new - Q @ (Q.T @ new), 1.0)
        last = not new.shape[1] or Q.shape[1] > _MOST_DIRECTIONS or n_blocks == _LOOKS[-1]
        if last or n_blocks in _LOOKS:
            yield Q, 0.5 * (T + T.T), last
        if last:
            return


def _directions(table: FloatArray, scale: float) -> FloatArray:
    """Orthonormal basis of the columns of a table but for what is tiny against ``scale``."""
    if not table.shape[1]:
        return table
    basis, triangle, _ = linalg.qr(table, mode="economic", pivoting=True)
    return np.asarray(basis[:, np.abs(np.diag(triangle)) > _NO_DIRECTION * scale])


class _Records:
    """Some records of a wide fit, (b,), with ``u`` (p, b), and bounds on the errors of that."""

    def __init__(self, factor: WideFactor, X: Data, y: FloatArray, columns: Columns) -> None:
        self.factor, self.columns, self.y = factor, columns, y
        tilde, self.r, self.c, q = factor.derivatives(dense(X), y)
        self.x, self.sigma = tilde[:, : factor.n_features], q * columns.target_length
        self.u, self.errors = factor.implicit.times_inverse(tilde.T)

    def norms_over(
        self, basis: FloatArray, embedded: tuple[FloatArray, FloatArray], norm: Norm
    ) -> FloatArray:
        """Upper ends over few columns, of which ``A E`` (p, k) is known but for some errors."""
        w, (inverse, unsure) = basis.T @ self.factor.weights, embedded
        jacobians = self.r[:, None, None] * inverse + (self.c * self.u).T[:, :, None] * w
        if self.columns.target:
            jacobians = np.concatenate([jacobians, (self.sigma * self.u).T[:, :, None]], axis=2)
        slack = self.errors * np.hypot(self.c * np.linalg.norm(w), self.sigma)
        slack += np.abs(self.r) * np.linalg.norm(unsure)
        return norms_of_jacobians(jacobians, norm) * (1.0 + _MARGINS[0]) + slack

    def norms(self) -> FloatArray:
        """Upper ends over whole records, to the least margin where a space of some steps has it."""
        factor, hessian, along = self.factor, self.factor.implicit, self.factor.along
        w, mean, size = factor.weights, hessian.mean, np.linalg.norm(self.u, axis=0)
        reach = np.hypot(self.c * np.linalg.norm(w), self.sigma)
        found = np.full(len(self.y), np.nan)
        start = np.column_stack([w, mean, (self.x - mean).T])
        for Q, T, last in _spaces(hessian, start):
            estimate = np.maximum(self._inside(Q, T), np.abs(self.r) / np.sqrt(along.least))
            found[estimate == 0.0] = 0.0
            values, turned = linalg.eigh(T)
            for margin in _MARGINS if last else _MARGINS[:1]:
                i = np.flatnonzero(np.isnan(found))
                if len(i):
                    upper = estimate[i] * (1.0 + margin)
                    held = self._holds(i, upper**2, values, Q @ turned)
                    found[i[held]] = upper[held]
            if not np.any(np.isnan(found)):
                break
        # What holds without any space.
        widest = np.abs(self.r) * np.sqrt(1.0 + mean @ mean) / hessian.ridge + size * reach
        slack = self.errors * reach + along.off * size * reach
        found = np.where(np.isnan(found), widest, found)
        self._check_tight(float(np.max(found[found > 0.0] / estimate[found > 0.0], initial=1.0)))
        return found + slack

    def _check_tight(self, excess: float) -> None:
        """Leave ends far above the estimates to the dense matrix, or warn where that takes long."""
        p = len(self.factor.coefficients)
        if excess > 1.0 + _TIGHT:
            if not takes_long(dense_seconds(p), 32.0 * p**2):
                raise SlowConvergenceError("upper ends of whole records are far from the losses")
            warnings.warn(
                f"Upper ends of what whole records leak are up to {excess:.3g} times the "
                "estimates: columns differ by much in scale. Scale the columns, or ask for few "
                "columns by `features`.",
                CostWarning,
                stacklevel=outer_stacklevel(),
            )

    def _inside(self, Q: FloatArray, T: FloatArray) -> FloatArray:
        """Norms of the same problem confined to directions; about those, where they suffice."""
        factor, hessian = self.factor, self.factor.implicit
        mean = Q.T @ hessian.mean if factor.fit_intercept else None
        inverse = HessianFactor(ScaledCholesky.of(T), mean, hessian.total).inverse()
        w = np.append(Q.T @ factor.weights, factor.coefficients[factor.n_features :])
        small = FitFactor(w, inverse, factor.loss, factor.fit_intercept)
        return record_norms(small, self.x @ Q, self.y, Columns(target=self.columns.target))

    def _holds(
        self, i: IntArray, z: FloatArray, values: FloatArray, vectors: FloatArray
    ) -> BoolArray:
        """Return True where ``|J|^2 <= z``, for the records ``i``, by eigenvectors in a space."""
        factor, hessian, along = self.factor, self.factor.implicit, self.factor.along
        r, mean, d, b = self.r[i], hessian.mean, factor.n_features, len(i)
        g = np.stack([self.c[i] * np.linalg.norm(factor.weights), self.sigma[i]], axis=1)
        g = self.u[:, i, None] * g
        lifted = np.append(along.a, -(mean @ along.a))[: len(g)]
        g[:, :, 0] += np.outer(lifted, r)
        lower = g[:d] - np.multiply.outer(mean, g[-1]) if factor.fit_intercept else g
        G = np.concatenate([np.broadcast_to(mean[:, None, None], (d, b, 1)), lower], axis=2)
        G = along.rest(G.reshape(d, -1))
        scale, shift = np.repeat(z, 3), np.repeat(r**2, 3)
        # Orthogonal to the normal: the solution less what a multiple of that adds.
        forms = np.multiply.outer(values**2, scale) - shift
        forms = np.where(forms == 0.0, np.finfo(float).tiny, forms)
        own, off = vectors.T @ G, (vectors.T @ along.normal)[:, None]
        pull = np.sum(off**2 / forms, axis=0)
        pull = np.sum(off * own / forms, axis=0) / np.where(pull == 0.0, 1.0, pull)
        Y = along.rest(vectors @ ((own - off * pull) / forms))
        R = G - scale * along.rest(hessian.product(hessian.product(Y))) + shift * Y
        G, Y, R = (table.reshape(d, b, 3).transpose(1, 2, 0) for table in (G, Y, R))
        room = z * along.least - r**2
        phi = (G + R) @ Y.transpose(0, 2, 1)
        phi += R @ R.transpose(0, 2, 1) / np.where(room > 0.0, room, 1.0)[:, None, None]
        whole, N = np.zeros((2, b, 5, 5))
        whole[:, :3, :3] = 0.5 * (phi + phi.transpose(0, 2, 1))
        whole[:, 3, 3] = whole[:, 4, 4] = 1.0 / z
        N[:, 0, 0] = r**2
        N[:, 1, 3] = N[:, 3, 1] = N[:, 2, 4] = N[:, 4, 2] = r
        N[:, 3:, 3:] = np.einsum("pia,pib->iab", g, g)
        known = np.all(np.isfinite(whole), axis=(1, 2)) & np.all(np.isfinite(N), axis=(1, 2))
        ends = np.full(b, np.inf)
        ends[known] = _largest(N[known], whole[known])
        return np.asarray((room > 0.0) & (ends <= 1.0))


def _largest(form: FloatArray, phi: FloatArray) -> FloatArray:
    """Largest eigenvalue of each ``N Phi``, Phi positive semi-definite, (b,) of (b, k, k)."""
    scale = np.sqrt(np.maximum(np.diagonal(phi, axis1=1, axis2=2), 0.0))
    scale = np.where(scale > 0.0, scale, 1.0)
    both = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(phi / both)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(np.linalg.eigvalsh(root.transpose(0, 2, 1) @ (form * both) @ root)[:, -1])
