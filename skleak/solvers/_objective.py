"""Objectives of generalized linear models with one predictor.

Records outside memory are walked through block by block: one pass gives, at one vector of
parameters, all that Newton's method asks for. Each block computes it with the objective of records
in memory, and the sums are combined as a tree where the blocks are. What reaches this process is as
large as a Hessian.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from scipy import sparse

from skleak.losses import PointwiseLoss
from skleak.solvers._implicit import FactorizedHessian, hessian_of
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, add, computed, dense, positions_of
from skleak.utils._linalg import (
    ScaledCholesky,
    SingularMatrixError,
    centered_gram,
    clear_constants,
    largest_entries,
    product,
    transpose_product,
    weighted_gram,
)
from skleak.utils._typing import Data, FloatArray, IntArray


class HessianSums(Protocol):
    """Sums over records of which a Hessian is made."""

    def plus(self, other: Any) -> Self:
        """Return those of these records and others."""

    def factor(self, ridge: float) -> FactorizedHessian:
        """Factorize the Hessian, whose penalty is ``ridge``."""


@dataclass(frozen=True)
class CurvatureSums:
    """Sums over records of which a Hessian is made: ``sum_i v_i (x_i - m)(x_i - m)^T``."""

    gram: FloatArray  # of the (centred) columns, (d, d)
    mean: FloatArray | None  # ``m`` under the weights ``v``; None without an intercept, (d,)
    total: float  # sum of the weights ``v``

    @classmethod
    def of(cls, X: Data, weights: FloatArray, fit_intercept: bool) -> "CurvatureSums":
        """Of some records.

        Shapes: ``X`` (n, d); ``weights`` (n,).
        """
        total = float(weights.sum())
        if fit_intercept:
            return cls(*centered_gram(X, weights), total)
        return cls(weighted_gram(X, weights), None, total)

    def plus(self, other: "CurvatureSums") -> "CurvatureSums":
        """Of these records and others (Chan, Golub, LeVeque, Technical Report 222, Yale 1983)."""
        total = self.total + other.total
        gram = self.gram + other.gram
        if self.mean is None or other.mean is None:
            return CurvatureSums(gram, None, total)
        if not total > 0.0:
            return self
        share, apart = other.total / total, other.mean - self.mean
        mean = self.mean + share * apart
        gram += self.total * share * np.outer(apart, apart)
        clear_constants(gram, mean, total)
        return CurvatureSums(gram, mean, total)

    def factor(self, ridge: float) -> "HessianFactor":
        """Factorize the Hessian, whose penalty is ``ridge``."""
        if self.mean is not None and not self.total > 0.0:
            raise SingularMatrixError("no record has curvature")
        gram = self.gram.copy()
        gram.flat[:: len(gram) + 1] += ridge  # the diagonal
        return HessianFactor(ScaledCholesky.of(gram), self.mean, self.total)


@dataclass(frozen=True)
class HessianFactor:
    """Factor of ``H = sum_i v_i x~_i x~_i^T + ridge P``, where P leaves out the intercept.

    With an intercept, centring the columns at their mean ``m`` under the weights ``v`` makes
    ``H`` block-diagonal: the centred matrix and the sum of the weights.
    """

    columns: ScaledCholesky  # factor of the (centred) matrix of the columns, of shape (d, d)
    mean: FloatArray | None  # ``m``; None without an intercept, (d,)
    total: float  # sum of the weights ``v``

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""
        if self.mean is None:
            return self.columns.solve(b)
        columns = self.columns.solve(b[:-1] - self.mean * b[-1])
        return np.append(columns, b[-1] / self.total - self.mean @ columns)

    def inverse(self) -> FloatArray:
        """Inverse matrix ``A``, exactly symmetric, of shape (p, p)."""
        columns = self.columns.inverse()
        if self.mean is None:
            return columns
        edge = -columns @ self.mean
        corner = 1.0 / self.total - self.mean @ edge
        return np.block([[columns, edge[:, None]], [edge[None, :], np.array([[corner]])]])


@dataclass(frozen=True)
class Moments:
    """Sums over records outside memory, found once, when they are checked.

    Examples
    --------
    >>> some = Moments.of(np.array([[1.0], [3.0]]), np.array([2.0, 4.0]), np.ones(2))
    >>> both = some.plus(some)
    >>> both.total, both.mean, both.spread, both.target_sums
    (4.0, array([2.]), array([4.]), array([12.]))
    """

    n: int
    total: float  # sum of the sample weights
    smallest_weight: float
    largest_weight: float
    largest: FloatArray  # largest absolute entry of every column, (d,)
    mean: FloatArray  # weighted, of every column, (d,)
    spread: FloatArray  # weighted sum of the squares around it, (d,)
    # Weighted sum of the targets, (1,), or weights of the classes, (K,): where fits start, also
    # once a record is another one.
    target_sums: FloatArray

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, s: FloatArray) -> Self:
        """Of a block, whose targets are numbers.

        Shapes: ``X`` (n, d); ``y``, ``s`` (n,), weights.
        """
        total = float(s.sum())
        mean = s @ X / total if total > 0.0 else np.zeros(X.shape[1])
        spread = s @ (X - mean) ** 2
        weights = total, float(s.min()), float(s.max())
        return cls(len(s), *weights, largest_entries(X), mean, spread, np.array([s @ y]))

    def plus(self, other: "Moments") -> "Moments":
        """Of these records and others."""
        total = self.total + other.total
        share = other.total / total if total > 0.0 else 0.0
        apart = other.mean - self.mean
        return Moments(
            self.n + other.n,
            total,
            min(self.smallest_weight, other.smallest_weight),
            max(self.largest_weight, other.largest_weight),
            np.maximum(self.largest, other.largest),
            self.mean + share * apart,
            self.spread + other.spread + self.total * share * apart**2,
            self.target_sums + other.target_sums,
        )


@dataclass(frozen=True)
class Point:
    """An objective at one vector of parameters."""

    objective: "Objective"
    w: FloatArray  # (p,)
    sums: "MemorySums | LargeSums"  # over the records, wherever they lie

    @cached_property
    def value(self) -> float:
        """Objective; infinite where the loss overflows."""
        return self.objective.penalized(self.w, self.sums.loss)

    @cached_property
    def gradient(self) -> FloatArray:
        """Gradient, of shape (p,)."""
        return self.sums.gradient / self.objective.total + self.objective.penalty * self.w

    @property
    def hessian(self) -> FactorizedHessian:
        """Factor of the unnormalized Hessian, or what multiplies with it for many columns."""
        return hessian_of(self.objective, self.sums)

    @property
    def value_round_off(self) -> float:
        """Difference of objectives below which it is only rounding noise."""
        reach = self.objective.reach(self.w)
        noise = (1.0 + reach) * self.sums.value_noise / self.objective.total + abs(self.value)
        return float(16.0 * np.finfo(float).eps * noise)

    @property
    def gradient_round_off(self) -> float:
        """Norm below which a computed gradient is only rounding noise."""
        floor = self.sums.gradient_noise / self.objective.total
        floor = floor + self.objective.penalty * np.abs(self.w)
        return float(16.0 * np.finfo(float).eps * np.linalg.norm(floor))


Result = TypeVar("Result")
# Of an objective, a row for each record.
_VECTORS = ("X", "y", "sample_weight", "reweights")
# Entries of one block of a table of predictors: 512 KB, as there are a few such tables.
_TABLE_ELEMENTS = 1 << 16
# Variance of a column, relative to its squared mean, below which the mean is subtracted first.
_FAR_FROM_ZERO = 1e-2


@dataclass(frozen=True)
class Objective:
    """``F(w) = sum_i s_i omega_i loss(x~_i.w, y_i) / N + alpha / 2 |w_pen|^2``.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Records.
    y : ndarray of shape (n,)
        Targets in the range of the loss.
    loss : PointwiseLoss
        The loss.
    alpha : float
        Strength of the penalty; the intercept is not penalized.
    fit_intercept : bool
        Whether the last parameter is an intercept.
    sample_weight : ndarray of shape (n,)
        ``s``: how many times each record counts.
    reweights : ndarray of shape (n,)
        ``omega``: reweighting factors with ``sum s omega = sum s``.
    moments : Moments, default=None
        What is known of records outside memory, which are Dask arrays.
    start : tuple, default=None
        The four arrays of these, and sums over them at parameters of zero, where they are known.

    Examples
    --------
    >>> from skleak.losses import SquaredLoss
    >>> X, y, one = np.array([[1.0], [2.0]]), np.array([0.0, 4.0]), np.ones(2)
    >>> objective = Objective(X, y, SquaredLoss(), 0.5, False, one, one)
    >>> objective.at(np.array([1.0])).value
    1.5
    """

    X: Data
    y: FloatArray
    loss: PointwiseLoss
    alpha: float
    fit_intercept: bool
    sample_weight: FloatArray
    reweights: FloatArray
    moments: Moments | None = field(default=None, kw_only=True)
    start: "tuple[tuple[Any, ...], LargeSums] | None" = field(default=None, kw_only=True)

    @cached_property
    def total(self) -> float:
        """``N``, the sum of the sample weights."""
        known = self.moments
        return float(self.sample_weight.sum()) if known is None else known.total

    @property
    def n_records(self) -> int:
        """``n``, the number of records."""
        return int(self.X.shape[0])

    @property
    def weight_range(self) -> tuple[float, float]:
        """Smallest and largest sample weight."""
        if self.moments is not None:
            return self.moments.smallest_weight, self.moments.largest_weight
        return float(self.sample_weight.min()), float(self.sample_weight.max())

    @cached_property
    def weights(self) -> FloatArray:
        """``s omega``, of shape (n,)."""
        return self.sample_weight * self.reweights

    @cached_property
    def layout(self) -> IntArray:
        """Positions of the parameters by column, the intercept last; a row for each column."""
        return np.arange(int(self.X.shape[1]) + self.fit_intercept)

    @property
    def n_parameters(self) -> int:
        """Number of coefficients, the intercepts included."""
        return self.layout.size

    @cached_property
    def penalty(self) -> FloatArray:
        """Diagonal of ``alpha P``: ``alpha`` on the coefficients, zero on the intercept."""
        penalty = np.full(self.n_parameters, self.alpha)
        if self.fit_intercept:
            penalty[self.layout[-1]] = 0.0
        return penalty

    def reweighted(self, reweights: FloatArray) -> Self:
        """Return the same objective with other factors ``omega``, of shape (n,)."""
        return replace(self, reweights=reweights)

    def take(self, rows: IntArray) -> Self:
        """Return the same objective on some of the records."""
        return self.on(*(values[rows] for values in self._records))

    def parts(self, rows: IntArray) -> Self:
        """Return the same objective on a few of the records, held in memory."""
        if self.moments is None:
            return self.take(rows)
        return self.bare.on(*computed([v[np.asarray(rows)] for v in self._records]))

    def without(self, row: int | IntArray) -> Self:
        """Return the same objective without one of the records, or some."""
        if self.moments is None:
            return self.take(np.delete(np.arange(len(self.y)), row))
        own, weights = computed([self.sample_weight[row]]), self.sample_weight.copy()
        weights[row] = 0.0
        return self._with(-float(own[0]), sample_weight=weights)

    def with_entries(
        self, row: int | IntArray, columns: IntArray | None, values: FloatArray
    ) -> Self:
        """Return the same objective, all weights one, with other entries, (k,), in a row, or some.

        A row of records outside memory stays where it is; ``columns`` (k,) are None for the target.
        """
        if self.moments is None:
            rows = np.atleast_1d(row)
            x, y = dense(self.X[rows]).copy(), self.y[rows]
            if columns is None:
                y = np.full(len(y), values[0])
            else:
                x[:, columns] = values
            return self.with_record(rows, x, y).reweighted(np.ones(len(self.y)))
        array, at = dask_module("dask.array"), positions_of(self.X)
        ones = array.ones_like(self.sample_weight)
        if columns is None:
            return self._with(0.0, y=array.where(at == row, values[0], self.y), reweights=ones)
        given = self.X, at[:, None], row, columns, values
        X = array.map_blocks(_with_entries, *given, dtype=self.X.dtype, meta=self.X._meta)
        return self._with(0.0, X=X, reweights=ones)

    def with_record(
        self, row: int | IntArray, x: FloatArray, y: float | FloatArray | None = None
    ) -> Self:
        """Return the same objective with other entries, (d,) or (k, d), in one row, or some."""
        if sparse.issparse(self.X):
            order = np.arange(len(self.y))
            order[np.atleast_1d(row)] = len(order) + np.arange(np.size(row))
            X = sparse.vstack([self.X, sparse.csr_array(np.atleast_2d(x))], format="csr")[order]
        else:
            X = self.X.copy()
            X[row] = x
        if y is None:
            return replace(self, X=X)
        targets = self.y.copy()
        targets[row] = y
        return replace(self, X=X, y=targets)

    def with_more(self, x: FloatArray, y: float | FloatArray, weight: float | FloatArray) -> Self:
        """Return the same objective with one record more, of entries (d,), or some, (k, d)."""
        if self.moments is not None:
            array, each = dask_module("dask.array"), (np.float64(y), np.float64(weight), 1.0)
            new = array.from_array(x[None], chunks=-1), *(array.full(1, v, chunks=1) for v in each)
            pairs = zip(_VECTORS, self._records, new, strict=True)
            return self._with(float(weight), **{n: array.concatenate(both) for n, *both in pairs})
        if sparse.issparse(self.X):
            X = sparse.vstack([self.X, sparse.csr_array(np.atleast_2d(x))], format="csr")
        else:
            X = np.vstack([self.X, x])
        return replace(
            self,
            X=X,
            y=np.append(self.y, y),
            sample_weight=np.append(self.sample_weight, weight),
            reweights=np.append(self.reweights, np.ones(np.size(y))),
        )

    def initial(self) -> FloatArray:
        """Return the start of a fit: where sums are known, or the best lone intercept, (p,)."""
        w = np.zeros(self.n_parameters)
        if self.fit_intercept and not self._is_started:
            w[-1] = self.loss.initial_intercept(self._mean_target())
        return w

    @property
    def _is_started(self) -> bool:
        return self.start is not None and all(map(operator.is_, self._records, self.start[0]))

    def _mean_target(self) -> float:
        if self.moments is not None:
            return float(self.moments.target_sums[0]) / self.total
        return float(self.weights @ self.y / self.weights.sum())

    def predictor(self, w: FloatArray) -> FloatArray:
        """``x~_i . w`` for every record, of shape (n,)."""
        by_column, d = w[self.layout], self.X.shape[1]
        linear = product(self.X, by_column[:d])
        return linear + by_column[d] if self.fit_intercept else linear

    def transpose_product(self, values: FloatArray) -> FloatArray:
        """``sum_i values_i x~_i``, of shape (p,)."""
        return self._parameters(transpose_product(self.X, values), values)

    def at(self, w: FloatArray, step: FloatArray | None = None) -> "Point":
        """Return the objective at ``w``, to which ``step`` led; both of shape (p,).

        One pass over records outside memory, where that is needed.
        """
        if self.moments is None:
            return Point(self, w, MemorySums(self, w, step))
        if self.start is not None and self._is_started and step is None and not np.any(w):
            return Point(self, w, self.start[1])
        # The curvature of the squared loss is the same everywhere: it is summed at the start.
        given = self.bare, w, step, step is None or not self.loss.quadratic
        # A block is computed with as a whole: what it is cut into is for the objective to say.
        blocks = Blocks.of(*self._records, width=0, keep_sparse=True)
        return Point(self, w, blocks.map_reduce(block_sums, LargeSums.plus, *given))

    def penalized(self, w: FloatArray, loss: float) -> float:
        """Objective at ``w``, where the losses have such a sum; infinite where they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = loss / self.total + 0.5 * float(self.penalty @ w**2)
        return value if np.isfinite(value) else np.inf

    def gradient_changes(
        self, w: FloatArray, steps: FloatArray, without: IntArray | None = None
    ) -> FloatArray:
        """Compute changes of the unnormalized gradient over steps from ``w``, (b, p).

        Where ``w`` is the minimizer, it is the gradient after the step. Rounding is relative to the
        steps, and not to the parameters, as in a difference of two gradients.

        Parameters
        ----------
        w : ndarray of shape (p,)
            Parameters.
        steps : ndarray of shape (b, p)
            Steps from there.
        without : ndarray of int of shape (b,) or (b, k), default=None
            Records to leave out for each, -1 for none. Their part is never added, and not
            subtracted again: far from the fit it may be larger than all else by far.
        """
        by_column = np.moveaxis(steps[:, self.layout], 1, 0)  # (d~, b, ...)
        blocks = Blocks.of(
            self.X,
            self.weights,
            positions_of(self.X),
            width=by_column[0].size,
            elements=_TABLE_ELEMENTS,
            keep_sparse=True,
        )
        given = self.bare._gradient_changes, add, w[self.layout], by_column, without
        change = self.total * self.penalty * steps
        change[:, self.layout] += np.moveaxis(blocks.map_reduce(*given), 0, 1)
        return change

    def far_means(self) -> FloatArray | None:
        """Return what to subtract from columns far from zero, (d,); None where none is.

        With an intercept it changes no fit, but keeps the digits that the differences between
        records have: two years are the same number but for one part in a thousand.
        """
        if not self.fit_intercept or not self.n_records or self.moments is not None:
            return None  # or the records are elsewhere
        mean = transpose_product(self.X, self.weights) / self.weights.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            blocks = Blocks.of(self.X, self.weights, keep_sparse=True)
            second = blocks.map_reduce(_squares, add)
            spread = second / self.weights.sum() - mean**2
            far = spread < _FAR_FROM_ZERO * mean**2
        return np.where(far, mean, 0.0) if np.any(far) else None

    def shifted(self, shift: FloatArray) -> Self:
        """Return the same objective with ``shift``, of shape (d,), subtracted from the columns."""
        if not sparse.issparse(self.X):
            return replace(self, X=self.X - shift)
        columns = np.flatnonzero(shift)
        X = self.X.tolil(copy=True)
        X[:, columns] = self.X[:, columns].toarray() - shift[columns]
        return replace(self, X=X.tocsr())

    def moved(self, w: FloatArray, shift: FloatArray) -> FloatArray:
        """Parameters (..., p) that predict the same once ``shift`` is subtracted from columns."""
        w, d = np.array(w), len(shift)
        w[..., self.layout[d]] += np.tensordot(w[..., self.layout[:d]], shift, axes=(w.ndim - 1, 0))
        return w

    @property
    def bare(self) -> Self:
        """The objective as it may go to where its records are: elsewhere without them."""
        if self.moments is None:
            return self
        none, X = np.zeros(0), np.zeros((0, self.X.shape[1]))
        return replace(self.on(X, none, none, none), moments=None, start=None)

    @property
    def _records(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _VECTORS)

    def together(self, f: Callable[["Objective"], Result]) -> Result:
        """Return ``f(objective)`` of all records outside memory in one block, where they lie."""
        one = Blocks.of(*(v.rechunk(-1) for v in self._records), width=0, keep_sparse=True)
        return one.map_reduce(_of_block, _only, self.bare, f)

    def _pointwise(self, name: str, w: FloatArray) -> Any:
        """Return what the objective of each block has for its records, lazily, (n,)."""
        blocks = Blocks.of(*self._records, width=0, keep_sparse=True)
        return blocks.map(_of_block, self.bare, operator.methodcaller(name, w))

    def _with(self, weight: float, **vectors: Any) -> Self:
        """Return the objective on other records outside memory, with ``weight`` more in all."""
        assert self.moments is not None
        moments = replace(self.moments, total=self.moments.total + weight)
        return replace(self, moments=moments, **vectors)

    def on(self, X: Data, y: FloatArray, sample_weight: FloatArray, reweights: FloatArray) -> Self:
        """Return the same objective on other records."""
        return replace(self, X=X, y=y, sample_weight=sample_weight, reweights=reweights)

    def curvatures(self, w: FloatArray) -> FloatArray:
        """Second derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        if self.moments is not None:
            return self._pointwise("curvatures", w)
        return self.weights * self.loss.curvature(self.predictor(w))

    def hessian_diagonal(self, w: FloatArray) -> FloatArray:
        """Diagonal of the unnormalized Hessian at ``w``, of shape (p,)."""
        values = self._own_curvatures(w)
        blocks = Blocks.of(self.X, values, keep_sparse=True)
        diagonal = self._parameters(blocks.map_reduce(_squares, add), values)
        return np.asarray(diagonal + self.total * self.penalty)

    def _own_curvatures(self, w: FloatArray) -> FloatArray:
        """Return the weighted curvatures of each record, in each of its predictors, (n, ...)."""
        return self.curvatures(w)

    def third_derivatives(self, w: FloatArray) -> FloatArray:
        """Third derivatives of the losses in predictor space at ``w``, times the weights, (n,)."""
        if self.moments is not None:
            return self._pointwise("third_derivatives", w)
        return self.weights * self.loss.third_derivative(self.predictor(w))

    def _gradient_changes(
        self,
        X: Data,
        weights: FloatArray,
        position: IntArray,
        w: FloatArray,
        steps: FloatArray,
        without: IntArray | None,
    ) -> FloatArray:
        """Return the sums of the changed means of a block times its columns, (d~, b, ...).

        Shapes: ``w`` (d~, ...); ``steps`` (d~, b, ...).
        """
        d, shape = X.shape[1], steps.shape[1:]
        a = X @ w[:d]
        table = (X @ steps[:d].reshape(d, -1)).reshape(len(weights), *shape)
        if self.fit_intercept:
            a, table = a + w[d], table + steps[d]
        table = self.loss.mean_change(a[:, None], table)
        table *= weights.reshape(-1, *[1] * len(shape))
        if without is not None and len(position):
            without = without.reshape(table.shape[1], -1)
            here = np.nonzero((without >= position[0]) & (without <= position[-1]))
            table[without[here] - position[0], here[0]] = 0.0
        sums = np.empty_like(steps)
        sums[:d] = (X.T @ table.reshape(len(weights), -1)).reshape(d, *shape)
        if self.fit_intercept:
            sums[d] = table.sum(axis=0)
        return sums

    def curvature_sums(self, a: FloatArray) -> HessianSums:
        """Return the sums of which the Hessian at predictor ``a`` is made."""
        return CurvatureSums.of(self.X, self.weights * self.loss.curvature(a), self.fit_intercept)

    def reach(self, w: FloatArray) -> float:
        """Bound what any record's predictor is at parameters ``w``, or moves by such a step."""
        by_column, d = np.abs(w[self.layout]), self.X.shape[1]
        reach = by_column[:d].T @ self.largest + (by_column[d] if self.fit_intercept else 0.0)
        return float(np.max(reach))

    def gradient_noise(self, w: FloatArray, a: FloatArray) -> FloatArray:
        """Weighted sum of the sizes of what gradients are computed from, of shape (p,)."""
        by_column, d = np.abs(w[self.layout]), self.X.shape[1]
        # Terms of the predictor may cancel: its error is that of their sizes, not of the sum.
        terms = Blocks.of(self.X, keep_sparse=True).map(lambda X, w: abs(X) @ w, by_column[:d])
        if self.fit_intercept:
            terms = terms + by_column[d]
        values = _scaled(self._residual_sizes(a, terms), self.weights)
        blocks = Blocks.of(self.X, values, keep_sparse=True)
        return self._parameters(blocks.map_reduce(lambda X, v: abs(X).T @ v, add), values)

    @property
    def _target_sizes(self) -> FloatArray:
        """Size of every target, of shape (n,)."""
        return np.abs(self.y)

    def _residual_sizes(self, a: FloatArray, terms: FloatArray) -> FloatArray:
        """Sizes of what a residual is computed from, where ``a`` is a sum of such terms."""
        return (
            np.abs(self.loss.residual(a, self.y)) + self.loss.curvature(a) * terms + np.abs(self.y)
        )

    @cached_property
    def largest(self) -> FloatArray:
        """Largest absolute entry of every column, of shape (d,)."""
        return largest_entries(self.X) if self.moments is None else self.moments.largest

    def _parameters(self, sums: FloatArray, values: FloatArray) -> FloatArray:
        """Order sums by column, and of the values for the intercept, as parameters are, (p,)."""
        result = np.empty(self.n_parameters)
        d = len(sums)
        result[self.layout[:d]] = sums
        if self.fit_intercept:
            result[self.layout[d]] = values.sum(axis=0)
        return result


def _squares(X: Data, values: FloatArray) -> FloatArray:
    """Return the sums of the squares of columns times values, (d,) or (d, K)."""
    squares: FloatArray = (X.multiply(X) if sparse.issparse(X) else X**2).T @ values
    return squares


def _scaled(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Multiply the values of every record, (n,) or (n, K), by its weight."""
    return (values.T * weights).T


@dataclass(frozen=True)
class MemorySums:
    """Sums over records in memory, each found when it is asked for."""

    objective: Objective
    w: FloatArray  # (p,)
    step: FloatArray | None  # that led here, (p,)

    @cached_property
    def predictor(self) -> FloatArray:
        """Predictors of all records, of shape (n,) or (n, K)."""
        return self.objective.predictor(self.w)

    @cached_property
    def loss(self) -> float:
        """Weighted sum of the losses; infinite where they overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            objective = self.objective
            loss = float(objective.weights @ objective.loss.value(self.predictor, objective.y))
        return loss if np.isfinite(loss) else np.inf

    @property
    def size(self) -> float:
        """Largest absolute predictor."""
        return float(np.max(np.abs(self.predictor), initial=0.0))

    @cached_property
    def move(self) -> float:
        """Largest absolute change of a predictor by the step that led here."""
        if self.step is None:
            return 0.0
        return float(np.max(np.abs(self.objective.predictor(self.step)), initial=0.0))

    @property
    def value_noise(self) -> float:
        """Weighted sum of the sizes of residuals and targets."""
        sizes = np.abs(self._residuals).reshape(len(self._residuals), -1).sum(axis=1)
        return float(self.objective.weights @ (sizes + self.objective._target_sizes))

    @cached_property
    def _residuals(self) -> FloatArray:
        return self.objective.loss.residual(self.predictor, self.objective.y)

    @property
    def gradient(self) -> FloatArray:
        """Weighted sum of the gradients, of shape (p,)."""
        scaled = _scaled(self._residuals, self.objective.weights)
        return self.objective.transpose_product(scaled)

    @property
    def gradient_noise(self) -> FloatArray:
        """Weighted sum of the sizes of what gradients are computed from, of shape (p,)."""
        return self.objective.gradient_noise(self.w, self.predictor)

    @property
    def curvature(self) -> HessianSums:
        """Sums of which the Hessian is made."""
        return self.objective.curvature_sums(self.predictor)


@dataclass(frozen=True)
class LargeSums:
    """Sums over the records of some blocks, found together."""

    loss: float
    size: float
    move: float
    value_noise: float
    # Gradient, its noise, and curvature (None where it is not asked for); or why there are none,
    # as the losses overflow, or their derivatives do.
    derivatives: tuple[FloatArray, FloatArray, HessianSums | None] | str

    def plus(self, other: "LargeSums") -> "LargeSums":
        """Of these records and others."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.loss + other.loss
            noise = self.value_noise + other.value_noise
        mine, theirs = self.derivatives, other.derivatives
        found: Any = mine if isinstance(mine, str) else theirs
        if not (isinstance(mine, str) or isinstance(theirs, str)):
            curvature = mine[2] if mine[2] is None else mine[2].plus(theirs[2])
            found = mine[0] + theirs[0], mine[1] + theirs[1], curvature
        size, move = max(self.size, other.size), max(self.move, other.move)
        return LargeSums(loss, size, move, noise, found)

    @property
    def gradient(self) -> FloatArray:
        """Weighted sum of the gradients, of shape (p,)."""
        return self._derivatives[0]

    @property
    def gradient_noise(self) -> FloatArray:
        """Weighted sum of the sizes of what gradients are computed from, of shape (p,)."""
        return self._derivatives[1]

    @property
    def curvature(self) -> HessianSums:
        """Sums of which the Hessian is made."""
        found = self._derivatives[2]
        assert found is not None
        return found

    @property
    def _derivatives(self) -> tuple[FloatArray, FloatArray, HessianSums | None]:
        if isinstance(self.derivatives, str):
            raise FloatingPointError(self.derivatives)
        return self.derivatives


def block_sums(
    X: Any,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    bare: Objective,
    w: FloatArray,
    step: FloatArray | None,
    with_curvature: bool,
) -> LargeSums:
    """Compute the sums of one block at parameters ``w``, to which a step led; both (p,)."""
    found = MemorySums(bare.on(X, y, s, omega), w, step)
    if not np.isfinite(found.loss):
        return LargeSums(np.inf, found.size, found.move, np.inf, "the loss is not finite")
    try:
        noise = found.value_noise
        gradient, sizes = found.gradient, found.gradient_noise
        curvature = found.curvature if with_curvature else None
    except FloatingPointError as error:
        # Whoever goes there is told; from a trial that is too far there may be a way back.
        return LargeSums(found.loss, found.size, found.move, np.inf, str(error))
    return LargeSums(found.loss, found.size, found.move, noise, (gradient, sizes, curvature))


def _with_entries(
    X: Any, position: IntArray, row: int, columns: IntArray, values: FloatArray
) -> Any:
    """Put other entries into a row of a block, if it is there."""
    (found,) = np.nonzero(position[:, 0] == row)
    if not len(found):
        return X
    changed = X.tolil(copy=True) if sparse.issparse(X) else X.copy()
    changed[found[0], columns] = values
    return sparse.csr_array(changed) if sparse.issparse(X) else changed


def _of_block(
    X: Any,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    bare: Objective,
    f: Callable[[Objective], Result],
) -> Result:
    return f(bare.on(X, y, s, omega))


def _only(one: Result, other: Result) -> Result:
    raise AssertionError("all records are one block")
