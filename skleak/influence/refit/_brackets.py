"""Proven bounds on what one changed entry of one record does to the leakage of all records.

With ``M = c x w_S^T + r E_S`` the Jacobian of a record over the columns S is ``A M``. A candidate
changes A to A' and M to M', for every record by a little:

    | ||A' M'|| - ||A M|| |  <=  ||I - A1 H|| ||A M|| + ||(A' - A1) M|| + ||A' (M' - M)|| ,

with ``A1 = (H + E)^-1``, E the change of rank two at the old minimiser. The curvature of the losses
here changes by a factor of at most ``exp(|t|)`` over a step t of the predictor, so that
``A1^-1`` and ``A'^-1`` differ by at most ``k = exp(max |x.D|) - 1`` relative to either.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.noise import fixed_losses, measuring_state
from skleak.influence.refit._reach import Reach, leverages
from skleak.influence.state import FitState, RecordBatch, partial_state
from skleak.utils._blocks import Blocks, dense, row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large
from skleak.utils.summaries._selection import around_quantile

# Relative error of losses and distances that were computed.
_ROUNDING = 1e-9


def loss_brackets(
    state: FitState,
    rows: IntArray,
    columns: IntArray | None,
    values: FloatArray,
    measured: Columns,
    quantile: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Bound a quantile of the losses of all records, had one of them another value of a secret.

    For one predictor, noise of a fixed covariance and no reweighting. ``rows`` are the training
    rows that take part, ``columns`` None for the target, and ``quantile`` is the share of records
    that stay below; the higher of two neighbours. Of records outside memory all have a row, lazily;
    how far a candidate moves their predictors is bounded, and not measured.

    Shapes: ``rows`` (n,); ``columns`` (k,); ``values`` (n_values, k); returns (n, n_values) twice,
    at unit noise: entry ``[i, m]`` is for the data in which record i carries ``values[m]``.
    """
    asked = (columns, values, measured)
    objective, large = state.objective, is_large(state.objective.X)
    unit = state.at_noise(1.0)
    batch = state.training if large else state.training.take(rows)
    losses: Any = fixed_losses(unit, batch, [measured])[:, 0]
    known = np.where(batch.present, losses, np.nan) if large else losses
    around = around_quantile(known, quantile, 1)
    maxima = TableMaxima.of(state, None if large else rows, measured)
    if not large:
        return _Bounds(unit, *asked, around, maxima, None).of_rows(rows, batch, losses)
    bounds = _Bounds(measuring_state(unit), *asked, around, maxima, maxima.leverage)
    width = len(values) * 8 * objective.n_parameters
    vectors = objective.y, objective.sample_weight, objective.reweights, losses
    found = Blocks.of(objective.X, *vectors, width=width).map(_of_block, bounds)
    return found[:, 0], found[:, 1]


def _of_block(
    X: FloatArray,
    y: FloatArray,
    s: FloatArray,
    omega: FloatArray,
    losses: FloatArray,
    bounds: "_Bounds",
) -> FloatArray:
    """Brackets of the records of a block far from all others, (b, 2, n_values)."""
    batch, rows = RecordBatch(X, y, s, omega), np.arange(len(y))
    near = replace(bounds, state=partial_state(bounds.state, rows, batch))
    return np.stack(near.of_rows(rows, batch, losses), axis=1)


@dataclass(frozen=True)
class _Bounds:
    """Bounds of every candidate: what is asked, and what all records give."""

    state: FitState  # at unit noise
    columns: IntArray | None
    values: FloatArray
    measured: Columns
    around: FloatArray  # the losses at the rank that counts and at those next to it, (3,)
    maxima: "TableMaxima"
    longest: float | None  # largest leverage, where predictors of other records are not at hand

    def of_rows(
        self, rows: IntArray, batch: RecordBatch, losses: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Brackets of some training records, (n, n_values) twice, from their losses (n,)."""
        given = self.columns, self.values
        own, same = _own_losses(self.state, batch, *given, self.measured)
        indices = _indices(self.state, self.measured)
        reach = Reach.of(self.state, rows, *given, indices, longest=self.longest)
        start, error = _with_one_replaced(losses, own, self.around), self._error(reach, indices)
        with np.errstate(invalid="ignore", over="ignore"):
            relative = reach.operator + _ROUNDING
            low, high = start * (1.0 - relative) - error, start * (1.0 + relative) + error
        actual = self.around[1]
        return (
            np.where(same, actual, np.maximum(np.nan_to_num(low, nan=0.0), 0.0)),
            np.where(same, actual, np.nan_to_num(high, nan=np.inf, posinf=np.inf)),
        )

    def _error(self, reach: Reach, indices: IntArray) -> FloatArray:
        """Largest change of a norm that does not scale with it, of shape (n, n_values)."""
        state, inverse = self.state, self.state.factor.inverse_hessian
        slope, root = _slope_and_root(state, self.measured)
        block = float(np.linalg.norm(state.noise.whitened(inverse[indices]), 2))  # ||A E_S||
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inverse_least = np.where(reach.least > 0.0, 1.0 / reach.least, np.inf)
            change = 0.0 if state.objective.loss.quadratic else np.expm1(reach.predictor)
            left = np.where(change < 1.0, change / (1.0 - change), np.inf)
            tail = inverse_least * np.sqrt(_largest_variance(state)) * left
            tail = np.where(left == 0.0, 0.0, tail)
            own = _sizes(reach, slope, root, self.measured.target)
            first, images, roots, weights = (
                np.maximum(one, most) for one, most in zip(own, self.maxima.sizes, strict=True)
            )
            grown = 1.0 + reach.operator
            moved = change * slope + (1.0 + change) * reach.watched
            through_slope = moved * (grown * images + tail * roots)
            through_residual = (1.0 + change) * reach.predictor * weights
            through_residual = through_residual * (grown * block + tail * root)
            return np.asarray(tail * first + through_slope + through_residual)


@dataclass(frozen=True)
class _Norms:
    """Norms of some training records, each of shape (n,)."""

    weight: FloatArray
    curvature: FloatArray
    residual: FloatArray
    leverage: FloatArray
    image: FloatArray


def _sizes(t: "_Norms | Reach", slope: float, root: float, target: bool) -> list[FloatArray]:
    """Sizes of records, before or after a change, by which errors of norms are bounded."""
    curved = t.weight * t.curvature
    first = (slope * t.curvature + target) * np.sqrt(t.leverage) + t.residual * root
    return [t.weight * first, curved * t.image, curved * np.sqrt(t.leverage), curved]


@dataclass(frozen=True)
class TableMaxima:
    """Largest numbers of the training records that take part."""

    sizes: FloatArray  # see `_sizes`, (4,)
    leverage: float  # largest ``x^T A x``

    @classmethod
    def of(cls, state: FitState, rows: IntArray | None, measured: Columns) -> Self:
        """Find them in one pass; in all records for ``rows`` None."""
        objective, alone = state.objective, measuring_state(state)
        records = objective.X, objective.y, objective.weights
        blocks = Blocks.of(*records, width=objective.n_parameters, rows=rows)
        found = blocks.map_reduce(_maxima, np.maximum, alone, measured)
        return cls(found[:-1], float(found[-1]))


def _maxima(
    X: FloatArray, y: FloatArray, weight: FloatArray, state: FitState, measured: Columns
) -> FloatArray:
    """Maxima of a block, (5,)."""
    some = weight > 0.0
    X, y, weight = X[some], y[some], weight[some]
    _, r, c, _ = state.factor.derivatives(X, y)
    leverage, images = leverages(state.factor, X)
    image = np.linalg.norm(state.noise.whitened(images), axis=1)
    norms = _Norms(weight, c, np.abs(r), leverage, image)
    sizes = _sizes(norms, *_slope_and_root(state, measured), measured.target)
    return np.array([one.max(initial=0.0) for one in (*sizes, leverage)])


def _slope_and_root(state: FitState, measured: Columns) -> tuple[float, float]:
    """``|w_S|`` and ``||A^1/2 E_S||`` of the columns that are measured."""
    indices, inverse = _indices(state, measured), state.factor.inverse_hessian
    slope = float(np.linalg.norm(state.factor.weights[indices]))
    return slope, float(np.sqrt(np.linalg.norm(inverse[np.ix_(indices, indices)], 2)))


def _indices(state: FitState, measured: Columns) -> IntArray:
    return np.arange(state.n_features) if measured.indices is None else measured.indices


def _own_losses(
    state: FitState,
    batch: RecordBatch,
    columns: IntArray | None,
    values: FloatArray,
    measured: Columns,
) -> tuple[FloatArray, BoolArray]:
    """Loss of each record at each value, at the old minimiser, and which value is its own."""
    losses = np.empty((len(batch), len(values)))
    for block in row_blocks(len(batch), len(state.factor.coefficients)):
        own = batch.take(block)
        X, y = dense(own.X).copy(), own.y
        for m, value in enumerate(values):
            if columns is None:
                y = np.full(len(own), value[0])
            else:
                X[:, columns] = value
            moved = replace(own, X=X, y=y)
            losses[block, m] = fixed_losses(state, moved, [measured])[:, 0]
    return losses, is_own(batch, columns, values)


def is_own(batch: RecordBatch, columns: IntArray | None, values: FloatArray) -> BoolArray:
    """Mask of the value that each record has, of shape (n, n_values)."""
    if columns is None:
        return np.asarray(batch.y[:, None] == values[:, 0])
    block = dense(batch.X[:, columns])
    return np.all(block[:, None, :] == values, axis=2)


def _with_one_replaced(losses: FloatArray, own: FloatArray, around: FloatArray) -> FloatArray:
    """Return the loss of a rank, had each record another loss, of shape (n, n_values).

    ``around`` are the losses of the rank before, of the rank, and of the rank after, (3,).
    """
    before, at, after = around
    # Without a record, those above it move down by one. Of equal losses any may be the one at the
    # rank: the neighbors of that are then as good as equal to it.
    slack = 1e-12 * abs(at)
    below = np.where(losses < at - slack, at, before)
    above = np.where(losses <= at + slack, after, at)
    return np.clip(own, below[:, None], above[:, None])


def _largest_variance(state: FitState) -> float:
    """Largest eigenvalue of A, in coordinates in which the noise is isotropic."""
    noise = state.noise
    return float(np.linalg.norm(noise.whitened(noise.whitened(state.factor.inverse_hessian).T), 2))
