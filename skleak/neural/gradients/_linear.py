"""Gradients of a generalised linear model, and what they reveal, in closed form.

With predictors ``a = W x + b``, the gradient of a record's loss is ``r x~^T`` with the residual r,
(K,), and ``x~ = [x, 1]``. Its norm is ``N = R m`` with ``R = |r|``, ``m = |x~|``, its direction e
that of ``r^ x~^T``, ``r^ = r / R``. Clipping, ``g / h(N)``, divides changes across e by h, and
those along e by ``h^2 / (h - N h')``. With H the curvature, T the derivative of r with respect to
the target, ``U = [H W, T]`` and P the projection on the columns (not the target), the projections
of its derivative along e and across it give

    G^T M G = B [R^2 (P - x x^T / m^2) + m^2 U^T (I - r^ r^^T) U] + A v v^T,
    v = R x / m + m U^T r^,    A = along (1 - N h' / h)^2 / h^2,    B = across / h^2.

Where r vanishes so does ``r^``, e is any direction, and A = B.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse

from skleak.losses import PointwiseLoss, SoftmaxLoss
from skleak.neural.gradients._base import Gradients, Part, Weigh, add_parts
from skleak.neural.gradients._clipping import Clipping, check_smooth
from skleak.neural.gradients._exact import IntegerRows, SumGrid
from skleak.neural.gradients._rank_one import largest_root
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import Array, Data, FloatArray

# Entries of the table of predictors at many parameters: 32 MB.
_ELEMENTS = 1 << 22


class LinearGradients(Gradients):
    """Gradients of a model with one linear predictor, or one for each of more than two classes.

    Parameters
    ----------
    loss : PointwiseLoss or SoftmaxLoss
        Logistic or squared loss of one predictor, or the loss of ``n_outputs`` of them.
    clipping : Clipping
        How gradients are clipped.
    n_features : int
        Number of columns d.
    n_outputs : int, default=1
        Number of predictors K.
    fit_intercept : bool, default=True
        Whether predictors have an intercept, which is clipped with the rest.
    """

    closed_form: ClassVar[bool] = True

    def __init__(
        self,
        loss: "PointwiseLoss | SoftmaxLoss",
        clipping: Clipping,
        n_features: int,
        n_outputs: int = 1,
        fit_intercept: bool = True,
    ) -> None:
        super().__init__(clipping)
        self.loss, self.fit_intercept = loss, fit_intercept
        self._weights = np.zeros((n_outputs, n_features))
        self._intercept = np.zeros(n_outputs)
        # Directions of the target: a number, or the simplex of class probabilities.
        self._directions = -np.ones((1, 1))
        if n_outputs > 1:
            self._directions = -linalg.null_space(np.ones((1, n_outputs)))

    @property
    def has_cheap_norm(self) -> bool:
        """Of one predictor it is the root of a secular equation."""
        return len(self._weights) == 1

    @property
    def n_parameters(self) -> int:
        """K times d, and K more with an intercept."""
        return int(self._weights.size + self.fit_intercept * len(self._weights))

    @property
    def parameters(self) -> FloatArray:
        """Weights class by class, then the intercepts, of shape (p,)."""
        kept = self._intercept if self.fit_intercept else self._intercept[:0]
        return np.concatenate([self._weights.ravel(), kept])

    @parameters.setter
    def parameters(self, values: FloatArray) -> None:
        self._weights, self._intercept = self.split(values)

    def split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (K, d) and intercepts (K,) of parameters (p,); zeros without an intercept."""
        size, k = self._weights.size, len(self._weights)
        kept = parameters[size:] if self.fit_intercept else np.zeros(k)
        return np.array(parameters[:size]).reshape(self._weights.shape), np.array(kept)

    def n_unknowns(self, X: Data, private_target: bool) -> int:
        """Return the number of columns, and of directions of the target where it is private."""
        return int(X.shape[1] + private_target * self._directions.shape[1])

    def predict_raw(self, X: Data) -> FloatArray:
        """Predictors, (n, K)."""
        return np.asarray(X @ self._weights.T) + self._intercept

    def clipped_sum(self, X: Data, y: Array) -> tuple[FloatArray, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,)."""
        point = self._point(y, self.predict_raw(X), squared_norms(X))
        scaled = point.residual / self.clipping.divisor(point.norms)[:, None]
        parts = [np.ravel(np.asarray(X.T @ scaled).T)]
        if self.fit_intercept:
            parts.append(scaled.sum(axis=0))
        losses = self._of_loss("value", point.predictors, y)
        total = np.concatenate(parts)
        _check_finite(total, losses)
        return total, losses

    def grid_sum(self, X: Data, y: Array, grid: SumGrid) -> tuple[Array, FloatArray]:
        """Sum of the clipped gradients in units of a grid, (p,) of int64, and the losses, (n,)."""
        k, d = self._weights.shape
        total, losses = np.zeros((k, d + 1), dtype=np.int64), np.empty(len(y))
        for rows in row_blocks(len(y), d + 1):
            records = IntegerRows(X[rows], self.fit_intercept)
            predictors = records.predictors(self._weights) + self._intercept
            residual = self.residual(predictors, y[rows])
            losses[rows] = self._of_loss("value", predictors, y[rows])
            _check_finite(residual, losses[rows])
            norms = np.linalg.norm(residual, axis=1) * np.ldexp(records.norms, -records.shift)
            factors = residual / self.clipping.divisor(norms)[:, None]
            total += records.weighted_sum(factors, grid)
        kept = total[:, d] if self.fit_intercept else total[:0, d]
        return np.concatenate([total[:, :d].ravel(), kept]), losses

    def norms(self, X: Data, y: Array) -> FloatArray:
        """Norms of the clipped gradients, (n,)."""
        norms = self._point(y, self.predict_raw(X), squared_norms(X)).norms
        return norms / self.clipping.divisor(norms)

    def information(
        self,
        X: Data,
        y: Array,
        weigh: Weigh,
        *,
        parts: Collection[Part],
        n_probes: int | None = None,
        rng: np.random.Generator | None = None,
        private_target: bool = True,
    ) -> dict[str, FloatArray]:
        """Parts of the information of every record; exact, whatever the number of probes."""
        point = self._point(y, self.predict_raw(X), squared_norms(X))
        return self._parts_at(X, point, weigh, parts, private_target)

    def summed_information(
        self, X: Data, y: Array, path: FloatArray, weigh: Weigh, **options: Any
    ) -> dict[str, FloatArray]:
        """Sum of the parts over parameters, (T, p), with the predictors of many in one product."""
        parts, private_target = options["parts"], options.get("private_target", True)
        before, squares = self.parameters, squared_norms(X)
        total: dict[str, FloatArray] = {}
        try:
            for steps in row_blocks(len(path), max(1, X.shape[0] * len(self._weights)), _ELEMENTS):
                stacked = [self.split(parameters) for parameters in path[steps]]
                table = np.asarray(X @ np.concatenate([w for w, _ in stacked]).T)
                for k, (weights, intercept) in enumerate(stacked):
                    self._weights, self._intercept = weights, intercept
                    columns = slice(k * len(weights), (k + 1) * len(weights))
                    point = self._point(y, table[:, columns] + intercept, squares)
                    found = self._parts_at(X, point, weigh, parts, private_target)
                    add_parts(total, found)
        finally:
            self.parameters = before
        return total

    def _of_loss(self, name: str, a: FloatArray, y: Array | None = None) -> FloatArray:
        """Ask the loss at predictors (n, K); one predictor comes without its axis."""
        softmax = isinstance(self.loss, SoftmaxLoss)
        known = () if y is None else (np.asarray(y, dtype=np.float64),)
        return np.asarray(getattr(self.loss, name)(a if softmax else a[:, 0], *known))

    def residual(self, predictors: FloatArray, y: Array) -> FloatArray:
        """Residuals at predictors (n, K), of the same shape."""
        return self._of_loss("residual", predictors, y).reshape(predictors.shape)

    def curvature(self, predictors: FloatArray) -> FloatArray:
        """Second derivatives of the losses at predictors (n, K), of shape (n, K, K)."""
        found = self._of_loss("curvature", predictors)
        return found if found.ndim == 3 else found[:, None, None]

    def _point(self, y: Array, predictors: FloatArray, squares: FloatArray) -> "_Point":
        residual = self.residual(predictors, y)
        return _Point(predictors, residual, squares, np.sqrt(squares + self.fit_intercept))

    def _parts_at(
        self,
        X: Data,
        point: "_Point",
        weigh: Weigh,
        parts: Collection[Part],
        private_target: bool,
    ) -> dict[str, FloatArray]:
        check_smooth(self.clipping)
        norms, h = point.norms, self.clipping.divisor(point.norms)
        along, across = weigh(norms / h)
        radial = (1.0 - norms * self.clipping.slope(norms) / h) / h
        directions = self._directions if private_target else self._directions[:, :0]
        record = _Records(
            X,
            point,
            np.asarray(along * radial**2),
            np.asarray(across / h**2),
            radial**2,
            1.0 / h**2,
            self.curvature(point.predictors),
            point.predictors - self._intercept,
            self._weights,
            directions,
        )
        return {part: getattr(record, part)() for part in parts}


@dataclass(frozen=True)
class _Point:
    """Records at some parameters."""

    predictors: FloatArray  # a, (n, K)
    residual: FloatArray  # r, (n, K)
    squares: FloatArray  # |x|^2, (n,)
    lengths: FloatArray  # m, (n,)

    @property
    def norms(self) -> FloatArray:
        """N, norms of the gradients before they are clipped, (n,)."""
        return self.sizes * self.lengths

    @property
    def sizes(self) -> FloatArray:
        """R, (n,)."""
        single = self.residual.shape[1] == 1
        return np.abs(self.residual[:, 0]) if single else np.linalg.norm(self.residual, axis=1)

    @property
    def directions(self) -> FloatArray:
        """``r^``, (n, K); zero where the residual is, but for a single predictor."""
        if self.residual.shape[1] == 1:
            return np.where(self.residual < 0.0, -1.0, 1.0)
        size = self.sizes[:, None]
        return np.divide(self.residual, size, out=np.zeros_like(self.residual), where=size > 0.0)


@dataclass(frozen=True)
class _Records:
    """The parts of ``G^T M G`` of a block of records."""

    X: Data  # (n, d)
    point: _Point
    along: FloatArray  # A, (n,)
    across: FloatArray  # B, (n,)
    plain_along: FloatArray  # A without the factor of M, (n,)
    plain_across: FloatArray  # B without it, (n,)
    curvature: FloatArray  # H, (n, K, K)
    linear: FloatArray  # W x, (n, K)
    weights: FloatArray  # W, (K, d)
    targets: FloatArray  # T, (K, number of directions of the target)

    def trace(self) -> FloatArray:
        """``tr G^T M G``, (n,)."""
        across, along = self._traces
        return self.across * across + self.along * along

    def plain(self) -> FloatArray:
        """``tr G^T G``, (n,)."""
        across, along = self._traces
        return self.plain_across * across + self.plain_along * along

    @cached_property
    def _traces(self) -> tuple[FloatArray, FloatArray]:
        """Traces across and along the gradient, (n,) each, from sums over classes only."""
        point, r = self.point, self.point.directions
        size, m, d = point.sizes, point.lengths, self.X.shape[1]
        shares = _divided(point.squares, m**2)
        weighted = np.einsum("nkl,nl->nk", self.curvature, r)  # H r^
        gram, labels = self.weights @ self.weights.T, r @ self.targets
        # |W^T H r^|^2 and, where there are several predictors, tr W^T H^2 W.
        own = np.einsum("nk,kl,nl->n", weighted, gram, weighted) + np.sum(labels**2, axis=1)
        rest = np.zeros(len(own))
        if r.shape[1] > 1:
            product = self.curvature @ gram
            whole = np.einsum("nkl,nlk->n", product, self.curvature) + np.sum(self.targets**2)
            rest = np.maximum(whole - own, 0.0)
        crossed = np.sum(self.linear * weighted, axis=1)
        squared = size**2 * shares + 2.0 * size * crossed + m**2 * own
        across = size**2 * (d - shares) + m**2 * rest
        return across, np.maximum(squared, 0.0)

    def norm(self) -> FloatArray:
        """Largest eigenvalue, (n,)."""
        return self._norm_of_one() if self.weights.shape[0] == 1 else self._norm_of_many()

    def _norm_of_one(self) -> FloatArray:
        """Return a diagonal and one rank, in the plane of x and w, and the target's axis."""
        point, length = self.point, linalg.norm(self.weights)
        size, m, x = point.sizes, point.lengths, np.sqrt(point.squares)
        weighted = self.curvature[:, 0, 0] * point.directions[:, 0]
        flat = self.across * size**2
        # Where there is no angle, the first axis is that of the weights.
        reach = x * length
        cosine = np.divide(self.linear[:, 0], reach, out=np.ones_like(x), where=reach > 0.0)
        cosine = np.clip(cosine, -1.0, 1.0)
        shares = _divided(point.squares, m**2)
        sine = np.sqrt(np.maximum(1.0 - cosine**2, 0.0)) if self.X.shape[1] > 1 else 0.0 * cosine
        v = np.stack(
            [
                size * np.sqrt(shares) + m * weighted * length * cosine,
                m * weighted * length * sine,
                np.broadcast_to(m * float(linalg.norm(self.targets)), m.shape),
            ]
        )
        poles = np.stack([flat * (1.0 - shares), flat, np.zeros_like(flat)])
        if self.X.shape[1] == 1:
            poles[1] = 0.0  # there is no direction across x
        return largest_root(poles, self.along * v**2)

    def _norm_of_many(self) -> FloatArray:
        """Solve a small eigenproblem in the span of x, the weights, and the target's directions."""
        basis, upper = linalg.qr(self.weights.T, mode="economic")
        n, d = self.X.shape
        width = basis.shape[1]
        spare = 1 if d > width else 0
        inside = np.asarray(self.X @ basis)
        left = np.sqrt(np.maximum(self.point.squares - np.sum(inside**2, axis=1), 0.0))
        x = np.column_stack([inside, left[:, None][:, :spare]])
        weights = np.column_stack([upper.T, np.zeros((len(self.weights), spare))])
        result = np.empty(n)
        for rows in row_blocks(n, (width + spare + self.targets.shape[1]) ** 2):
            small = self._dense(x, weights, rows)
            result[rows] = np.linalg.eigvalsh(small)[:, -1]
        if d > width + 1:
            result = np.maximum(result, self.across * self.point.sizes**2)
        return result

    def diagonal(self) -> FloatArray:
        """Diagonal, (n, u)."""
        point, r, X = self.point, self.point.directions, dense(self.X)
        size, m = point.sizes[:, None], point.lengths[:, None]
        weighted = np.einsum("nkl,nl->nk", self.curvature, r)
        slopes = _divided(size * X, m) + m * (weighted @ self.weights)
        v = np.column_stack([slopes, m * (r @ self.targets)])
        across = np.zeros_like(v)
        across[:, : X.shape[1]] = size**2 * (1.0 - _divided(X**2, m**2))
        if r.shape[1] > 1:
            rest = self.curvature - weighted[:, :, None] * r[:, None, :]  # H (I - r^ r^^T)
            pairs = np.einsum("nkj,nlj->nkl", rest, rest).reshape(len(X), -1)
            products = (self.weights[:, None] * self.weights[None]).reshape(-1, X.shape[1])
            across[:, : X.shape[1]] += m**2 * (pairs @ products)
            labels = np.sum(self.targets**2, axis=0) - (r @ self.targets) ** 2
            across[:, X.shape[1] :] = m**2 * labels
        return self.across[:, None] * np.maximum(across, 0.0) + self.along[:, None] * v**2

    def matrix(self) -> FloatArray:
        """All of it, (n, u, u)."""
        return self._dense(dense(self.X), self.weights, slice(None))

    def _dense(self, X: FloatArray, weights: FloatArray, rows: slice) -> FloatArray:
        """``G^T M G`` in coordinates in which records are X (n, d) and weights (K, d)."""
        point, x = self.point, X[rows]
        size, m = point.sizes[rows], point.lengths[rows]
        r, d = point.directions[rows], X.shape[1]
        spread = (len(x), *self.targets.shape)
        U = np.concatenate(
            [self.curvature[rows] @ weights, np.broadcast_to(self.targets, spread)], axis=2
        )
        own = np.einsum("nk,nku->nu", r, U)
        v = m[:, None] * own
        v[:, :d] += _divided(size[:, None] * x, m[:, None])
        U = m[:, None, None] * (U - r[:, :, None] * own[:, None, :])
        across = np.swapaxes(U, 1, 2) @ U
        scaled = _divided(size[:, None] * x, m[:, None])
        across[:, :d, :d] -= scaled[:, :, None] * scaled[:, None, :]
        k = np.arange(d)
        across[:, k, k] += (size**2)[:, None]
        outer = v[:, :, None] * v[:, None, :]
        B, A = self.across[rows], self.along[rows]
        return np.asarray(B[:, None, None] * across + A[:, None, None] * outer)


def _check_finite(gradients: FloatArray, losses: FloatArray) -> None:
    if not (np.isfinite(gradients).all() and np.isfinite(losses).all()):
        raise FloatingPointError("the loss or the gradient of a record is not finite")


def squared_norms(X: Data) -> FloatArray:
    """Squared norms of records (n, d), dense or CSR, (n,)."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.ravel(squares)


def _divided(a: FloatArray, b: FloatArray) -> FloatArray:
    """Quotient, zero where the divisor is: of a record whose entries vanish."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0.0)
