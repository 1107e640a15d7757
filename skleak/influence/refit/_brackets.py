"""Proven bounds on what one changed entry of one record does to the leakage of all records.

With ``M = c x w_S^T + r E_S`` the Jacobian of a record over the columns S is ``A M``. A candidate
changes A to A' and M to M', for every record by a little:

    | ||A' M'|| - ||A M|| |  <=  ||I - A1 H|| ||A M|| + ||(A' - A1) M|| + ||A' (M' - M)|| ,

with ``A1 = (H + E)^-1``, E the change of rank two at the old minimiser. The curvature of the losses
here changes by a factor of at most ``exp(|t|)`` over a step t of the predictor, so that
``A1^-1`` and ``A'^-1`` differ by at most ``k = exp(max |x.D|) - 1`` relative to either.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.noise import fixed_losses
from skleak.influence.refit._reach import Reach, leverages
from skleak.influence.state import FitState
from skleak.utils._blocks import Blocks, dense, row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray

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
    that stay below; the higher of two neighbours.

    Shapes: ``rows`` (n,); ``columns`` (k,); ``values`` (n_values, k); returns (n, n_values) twice,
    at unit noise: entry ``[i, m]`` is for the data in which record i carries ``values[m]``.
    """
    indices = np.arange(state.n_features) if measured.indices is None else measured.indices
    reach = Reach.of(state, rows, columns, values, indices)
    own, same = _own_losses(state, rows, columns, values, measured)
    batch = state.training.take(rows)
    losses = fixed_losses(state.at_noise(1.0), batch, [measured])[:, 0]
    rank = int(np.ceil(quantile * (len(rows) - 1)))
    start = _with_one_replaced(losses, own, rank)
    error = _additive_error(state, rows, reach, indices, measured.target)
    with np.errstate(invalid="ignore", over="ignore"):
        relative = reach.operator + _ROUNDING
        low, high = start * (1.0 - relative) - error, start * (1.0 + relative) + error
    actual = float(np.sort(losses)[rank])
    return (
        np.where(same, actual, np.maximum(np.nan_to_num(low, nan=0.0), 0.0)),
        np.where(same, actual, np.nan_to_num(high, nan=np.inf, posinf=np.inf)),
    )


@dataclass(frozen=True)
class _TableNorms:
    """Norms of the training records, each of shape (n,)."""

    weight: FloatArray
    curvature: FloatArray
    residual: FloatArray
    leverage: FloatArray
    image: FloatArray


def _table_norms(state: FitState, rows: IntArray) -> _TableNorms:
    objective, noise = state.objective, state.noise

    def norms(X: FloatArray, y: FloatArray) -> FloatArray:
        _, r, c, _ = state.factor.derivatives(X, y)
        leverage, images = leverages(state.factor, X)
        image = np.linalg.norm(noise.whitened(images), axis=1)
        return np.column_stack([c, np.abs(r), leverage, image])

    width = objective.n_parameters
    numbers = Blocks.of(objective.X, objective.y, width=width, rows=rows).map(norms)
    return _TableNorms(objective.weights[rows], *numbers.T)


def _additive_error(
    state: FitState, rows: IntArray, reach: Reach, indices: IntArray, target: bool
) -> FloatArray:
    """Largest change of a norm that does not scale with it, of shape (n, n_values)."""
    inverse, noise = state.factor.inverse_hessian, state.noise
    slope = float(np.linalg.norm(state.factor.weights[indices]))  # |w_S|
    block = float(np.linalg.norm(noise.whitened(inverse[indices]), 2))  # ||A E_S||
    root = float(np.sqrt(np.linalg.norm(inverse[np.ix_(indices, indices)], 2)))  # ||A^1/2 E_S||
    table = _table_norms(state, rows)

    def largest(term: "Callable[[_TableNorms | Reach], FloatArray]") -> FloatArray:
        return np.maximum(term(table).max(), term(reach))

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inverse_least = np.where(reach.least > 0.0, 1.0 / reach.least, np.inf)
        change = 0.0 if state.objective.loss.quadratic else np.expm1(reach.predictor)
        left = np.where(change < 1.0, change / (1.0 - change), np.inf)
        tail = inverse_least * np.sqrt(_largest_variance(state)) * left
        tail = np.where(left == 0.0, 0.0, tail)
        first = largest(
            lambda t: (
                t.weight
                * ((slope * t.curvature + target) * np.sqrt(t.leverage) + t.residual * root)
            )
        )
        images = largest(lambda t: t.weight * t.curvature * t.image)
        roots = largest(lambda t: t.weight * t.curvature * np.sqrt(t.leverage))
        weights = largest(lambda t: t.weight * t.curvature)
        grown = 1.0 + reach.operator
        moved = change * slope + (1.0 + change) * reach.watched
        through_slope = moved * (grown * images + tail * roots)
        through_residual = (1.0 + change) * reach.predictor * weights
        through_residual = through_residual * (grown * block + tail * root)
        return np.asarray(tail * first + through_slope + through_residual)


def _own_losses(
    state: FitState,
    rows: IntArray,
    columns: IntArray | None,
    values: FloatArray,
    measured: Columns,
) -> tuple[FloatArray, BoolArray]:
    """Loss of each record at each value, at the old minimiser, and which value is its own."""
    objective, unit = state.objective, state.at_noise(1.0)
    losses = np.empty((len(rows), len(values)))
    for block in row_blocks(len(rows), objective.n_parameters):
        own = state.training.take(rows[block])
        X, y = dense(own.X).copy(), own.y
        for m, value in enumerate(values):
            if columns is None:
                y = np.full(len(own), value[0])
            else:
                X[:, columns] = value
            moved = replace(own, X=X, y=y)
            losses[block, m] = fixed_losses(unit, moved, [measured])[:, 0]
    return losses, _is_own(state, rows, columns, values)


def _is_own(
    state: FitState, rows: IntArray, columns: IntArray | None, values: FloatArray
) -> BoolArray:
    """Mask of the value that each record has, of shape (n, n_values)."""
    objective = state.objective
    if columns is None:
        return np.asarray(objective.y[rows, None] == values[:, 0])
    block = dense(objective.X[rows][:, columns])
    return np.all(block[:, None, :] == values, axis=2)


def _with_one_replaced(losses: FloatArray, own: FloatArray, rank: int) -> FloatArray:
    """The loss of a rank, from 0, had each record another loss, of shape (n, n_values)."""
    order = np.argsort(losses, kind="stable")
    position = np.empty(len(order), dtype=np.intp)
    position[order] = np.arange(len(order))
    padded = np.concatenate([[-np.inf], losses[order], [np.inf]])  # one to the right
    # Without a record, those above it move down by one.
    below = np.where(position <= rank - 1, padded[rank + 1], padded[rank])
    above = np.where(position <= rank, padded[rank + 2], padded[rank + 1])
    return np.clip(own, below[:, None], above[:, None])


def _largest_variance(state: FitState) -> float:
    """Largest eigenvalue of A, in coordinates in which the noise is isotropic."""
    noise = state.noise
    return float(np.linalg.norm(noise.whitened(noise.whitened(state.factor.inverse_hessian).T), 2))
