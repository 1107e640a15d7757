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
from skleak.neural.gradients._base import (
    Clipping,
    Gradients,
    IntegerRows,
    Part,
    Pullback,
    StepGradients,
    SumGrid,
    Weigh,
    add_parts,
    check_smooth,
    clipped_steps,
    largest_root,
)
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
        self._weights, self._intercept = self.split(np.array(values))

    def split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (..., K, d) and intercepts (..., K), zeros without, of parameters (..., p)."""
        (k, d), lead = self._weights.shape, parameters.shape[:-1]
        weights, kept = parameters[..., : k * d], parameters[..., k * d :]
        intercept = kept if self.fit_intercept else np.zeros((*lead, k))
        return weights.reshape(*lead, k, d), intercept

    def n_unknowns(self, X: Data, private_target: bool) -> int:
        """Return the number of columns, and of directions of the target where it is private."""
        return int(X.shape[1] + private_target * self._directions.shape[1])

    def predict_raw(self, X: Data) -> FloatArray:
        """Predictors, (n, K)."""
        return np.asarray(X @ self._weights.T) + self._intercept

    def clipped_sum(self, X: Data, y: Array) -> tuple[FloatArray, FloatArray]:
        """Sum of the clipped gradients, (p,), and the losses of the records, (n,)."""
        predictors = self.predict_raw(X)
        residual = self.residual(predictors, y)
        norms = _sizes(residual) * self._lengths(squared_norms(X))
        scaled = residual / self.clipping.divisor(norms)[:, None]
        parts = [np.ravel(np.asarray(X.T @ scaled).T)]
        if self.fit_intercept:
            parts.append(scaled.sum(axis=0))
        losses = self._of_loss("value", predictors, y)
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
        norms = _sizes(self.residual(self.predict_raw(X), y)) * self._lengths(squared_norms(X))
        return norms / self.clipping.divisor(norms)

    def information(
        self, X: Data, y: Array, weigh: Weigh, *, parts: Collection[Part], **options: Any
    ) -> dict[str, FloatArray]:
        """Parts of the information of every record; exact, whatever the number of probes."""
        return self.summed_information(X, y, self.parameters[None], weigh, parts=parts, **options)

    def summed_information(
        self, X: Data, y: Array, path: FloatArray, weigh: Weigh, **options: Any
    ) -> dict[str, FloatArray]:
        """Sum of the parts over parameters, (T, p), with the predictors of many in one product."""
        check_smooth(self.clipping)
        squares, k = squared_norms(X), len(self._weights)
        directions = self._directions[:, : None if options.get("private_target", True) else 0]
        total: dict[str, FloatArray] = {}
        for steps in row_blocks(len(path), max(1, X.shape[0] * k), _ELEMENTS):
            weights, intercepts = self.split(path[steps])
            linear = np.asarray(X @ weights.reshape(-1, X.shape[1]).T)
            for step, (own, intercept) in enumerate(zip(weights, intercepts, strict=True)):
                inside = linear[:, step * k : (step + 1) * k]
                residual = self.residual(inside + intercept, y)
                curvature = self.curvature(inside + intercept)
                record = _Records(
                    X, own, directions, inside, residual, curvature, squares, self._lengths(squares)
                )
                add_parts(total, self._parts_of(record, weigh, options["parts"]))
        return total

    def _parts_of(
        self, record: "_Records", weigh: Weigh, parts: Collection[Part]
    ) -> dict[str, FloatArray]:
        norms = record.sizes * record.lengths
        h = self.clipping.divisor(norms)
        radial = (1.0 - norms * self.clipping.slope(norms) / h) / h
        along, across = weigh(norms / h)
        # A and B, and both without the factors of M.
        factors = np.asarray(along * radial**2), np.asarray(across / h**2)
        found = {}
        if "trace" in parts or "plain" in parts:
            traces = record.traces()
            found["trace"] = factors[0] * traces[0] + factors[1] * traces[1]
            found["plain"] = radial**2 * traces[0] + 1.0 / h**2 * traces[1]
        if "norm" in parts and self.has_cheap_norm:
            found["norm"] = record.norm(*factors)
        if "matrix" in parts:
            found["matrix"] = record.matrix(*factors)
        return {part: found[part] for part in parts}

    def at_steps(self, path: FloatArray) -> StepGradients:
        """Return clipped gradients ``r x~^T / h`` of a record at parameters (T, p)."""
        weights, intercepts = self.split(path)

        def at(x: FloatArray, target: float) -> tuple[FloatArray, Pullback]:
            a = weights @ x + intercepts
            r, curvature = self.residual(a, np.full(len(a), target)), self.curvature(a)
            gradients = np.empty_like(path)
            along_x, along_one = self.split(gradients)
            along_x[...], along_one[...] = r[:, :, None] * x, r

            def pullback(u: FloatArray) -> FloatArray:
                along_x, along_one = self.split(u)
                through_a = curvature @ (along_x @ x + along_one)[:, :, None]
                both = weights * through_a + along_x * r[:, :, None]
                return np.asarray(both.sum(axis=(0, 1)))

            return gradients, pullback

        return clipped_steps(self.clipping, at)

    def guess_record(self, signals: FloatArray) -> FloatArray | None:
        """Gradient of the weights over that of the intercept, all steps taken together."""
        along_x, along_one = self.split(signals)
        total = np.sum(along_one**2)
        return np.einsum("tkd,tk->d", along_x, along_one) / total if total > 0.0 else None

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

    def _lengths(self, squares: FloatArray) -> FloatArray:
        """m, from squared norms of records, (n,)."""
        return np.sqrt(squares + self.fit_intercept)


@dataclass(frozen=True)
class _Records:
    """Records at some parameters; ``G^T M G`` is ``A v v^T`` and B times what lies across."""

    X: Data  # (n, d)
    weights: FloatArray  # W, (K, d)
    targets: FloatArray  # T, (K, number of directions of the target)
    linear: FloatArray  # W x, (n, K)
    residual: FloatArray  # r, (n, K)
    curvature: FloatArray  # H, (n, K, K)
    squares: FloatArray  # |x|^2, (n,)
    lengths: FloatArray  # m, (n,)

    @cached_property
    def sizes(self) -> FloatArray:
        """R, (n,)."""
        return _sizes(self.residual)

    @cached_property
    def directions(self) -> FloatArray:
        """``r^``, (n, K); zero where the residual is, but for a single predictor."""
        if self.residual.shape[1] == 1:
            return np.where(self.residual < 0.0, -1.0, 1.0)
        return _divided(self.residual, self.sizes[:, None])

    @cached_property
    def bends(self) -> FloatArray:
        """``H r^``, (n, K)."""
        return np.einsum("nkl,nl->nk", self.curvature, self.directions)

    def traces(self) -> tuple[FloatArray, FloatArray]:
        """Traces along and across the gradient, (n,) each, from sums over classes only."""
        size, m, r, bends = self.sizes, self.lengths, self.directions, self.bends
        shares = _divided(self.squares, m**2)
        gram, labels = self.weights @ self.weights.T, r @ self.targets
        # |U^T r^|^2 and, where there are several predictors, |U|^2 less that.
        own = np.einsum("nk,kl,nl->n", bends, gram, bends) + np.sum(labels**2, axis=1)
        across = size**2 * (self.X.shape[1] - shares)
        if r.shape[1] > 1:
            whole = np.einsum("nkl,nlk->n", self.curvature @ gram, self.curvature)
            across += m**2 * np.maximum(whole + np.sum(self.targets**2) - own, 0.0)
        crossed = np.sum(self.linear * bends, axis=1)
        along = size**2 * shares + 2.0 * size * crossed + m**2 * own
        return np.maximum(along, 0.0), across

    def norm(self, along: FloatArray, across: FloatArray) -> FloatArray:
        """Largest eigenvalue for one predictor, (n,).

        That of a diagonal and one rank, in the plane of x and w, and the target's axis.
        """
        length, m, x = linalg.norm(self.weights), self.lengths, np.sqrt(self.squares)
        flat, bend = across * self.sizes**2, m * self.bends[:, 0]
        # Where there is no angle, the first axis is that of the weights.
        reach = x * length
        cosine = np.divide(self.linear[:, 0], reach, out=np.ones_like(x), where=reach > 0.0)
        cosine = np.clip(cosine, -1.0, 1.0)
        sine = np.sqrt(1.0 - cosine**2) if self.X.shape[1] > 1 else 0.0 * cosine
        shares = _divided(self.squares, m**2)
        v = np.stack(
            [
                self.sizes * np.sqrt(shares) + bend * length * cosine,
                bend * length * sine,
                m * linalg.norm(self.targets),
            ]
        )
        beside = flat if self.X.shape[1] > 1 else 0.0 * flat  # is there a direction across x?
        poles = np.stack([flat * (1.0 - shares), beside, 0.0 * flat])
        return largest_root(poles, along * v**2)

    def matrix(self, along: FloatArray, across: FloatArray) -> FloatArray:
        """All of ``G^T M G``, (n, u, u)."""
        m, r, X = self.lengths, self.directions, dense(self.X)
        n, d = X.shape
        labels = np.broadcast_to(self.targets, (n, *self.targets.shape))
        U = np.concatenate([self.curvature @ self.weights, labels], axis=2)
        own = np.einsum("nk,nku->nu", r, U)
        scaled = np.zeros_like(own)  # R x / m
        scaled[:, :d] = _divided(self.sizes[:, None] * X, m[:, None])
        v = scaled + m[:, None] * own
        U = m[:, None, None] * (U - r[:, :, None] * own[:, None, :])
        whole = np.swapaxes(U, 1, 2) @ U - scaled[:, :, None] * scaled[:, None, :]
        k = np.arange(d)
        whole[:, k, k] += (self.sizes**2)[:, None]
        whole *= across[:, None, None]
        whole += along[:, None, None] * v[:, :, None] * v[:, None, :]
        return np.asarray(whole)


def _sizes(residual: FloatArray) -> FloatArray:
    """Norms of residuals (n, K), (n,)."""
    single = residual.shape[1] == 1
    return np.abs(residual[:, 0]) if single else np.linalg.norm(residual, axis=1)


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
