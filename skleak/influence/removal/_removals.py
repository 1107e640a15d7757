"""The minimiser had a record not been there, or one more, without refitting.

Without a record of weight s the sum of the losses has one term less, and the penalty, which is per
unit of weight, shrinks to that of N - s; with one more it is the other way round. The penalty is
the same for all records of one weight, and the term changes the Hessian by a matrix of rank one.
For the squared loss one Newton step with the changed Hessian is exact. For other losses chord steps
on the exact gradient follow; a removal is corrected to third order in the loss before, which takes
one tensor for all records of a weight and mostly suffices.
"""

import numpy as np

from skleak.influence.refit import ChordSolver
from skleak.influence.removal._multinomial_neighbors import MultinomialNeighbors
from skleak.influence.removal._neighbors import Neighbors
from skleak.influence.removal._third_order import (
    contraction,
    error_bound,
    second_order_change,
    tensor_pays,
)
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import dense
from skleak.utils._linalg import augment
from skleak.utils._typing import Data, FloatArray, IntArray

# Error, relative to how far a record moves the minimiser, at which it is settled.
_TOLERANCE = 1e-6
# The same where it is estimated from the last moves, and not proven.
_ESTIMATED = 1e-7


def removal_steps(objective: Objective, w: FloatArray, rows: IntArray) -> FloatArray:
    """Compute the steps of the minimiser when each of many records is removed.

    Shapes: ``w`` (p,); ``rows`` (b,); returns (b, p): minimiser without the record minus ``w``;
    zero for a record of weight zero, and NaN for one without which no minimiser is reached.
    """
    shift = objective.far_means()
    if shift is not None:
        steps = removal_steps(objective.shifted(shift), objective.moved(w, shift), rows)
        return objective.moved(steps, -shift)
    weights = objective.parts(rows).sample_weight
    steps = np.zeros((len(rows), len(w)))
    for weight in np.unique(weights[weights > 0.0]):
        members = np.flatnonzero(weights == weight)
        if weight >= objective.total:
            steps[members] = np.nan
            continue
        steps[members] = _steps_without(_kind(objective).without(objective, w, rows[members]))
    return steps


def addition_steps(
    objective: Objective, w: FloatArray, X: Data, y: FloatArray, sample_weight: FloatArray
) -> FloatArray:
    """Compute the steps of the minimiser when each of many records is added.

    Shapes: ``w`` (p,); ``X`` (b, d); ``y``, ``sample_weight`` (b,); returns (b, p): minimiser with
    the record minus ``w``; zero for a record of weight zero, and NaN where none is reached.
    """
    shift, X = objective.far_means(), dense(X)
    if shift is not None:
        there = objective.shifted(shift), objective.moved(w, shift)
        return objective.moved(addition_steps(*there, X - shift, y, sample_weight), -shift)
    x = augment(X, objective.fit_intercept)
    steps = np.zeros((len(y), len(w)))
    for weight in np.unique(sample_weight[sample_weight > 0.0]):
        some = np.flatnonzero(sample_weight == weight)
        addition = _kind(objective).with_more(objective, w, x[some], y[some], float(weight))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            steps[some] = _found(addition, addition.first_steps(), _TOLERANCE)
    return steps


def _kind(objective: Objective) -> type[Neighbors]:
    return MultinomialNeighbors if isinstance(objective, MultinomialObjective) else Neighbors


def _steps_without(removal: Neighbors) -> FloatArray:
    """Return steps without records of one weight, of shape (b, p)."""
    # A step that overflows is not settled, and its record is left to a refit.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        steps = removal.first_steps()
        if removal.rest.loss.quadratic or isinstance(removal, MultinomialNeighbors):
            return _found(removal, steps, _ESTIMATED)
        error, factor = np.linalg.norm(steps, axis=1), contraction(removal, steps)
        if tensor_pays(removal.rest, len(steps)):
            correction = second_order_change(removal, steps)
            error = error_bound(removal, steps, correction, factor)
            steps = steps - correction
        return _found(removal, steps, _TOLERANCE, error, factor)


def _found(
    neighbors: Neighbors,
    steps: FloatArray,
    tolerance: float,
    error: FloatArray | None = None,
    factor: FloatArray | None = None,
) -> FloatArray:
    """Return steps (b, p) of known error, (b,), improved until they are found."""
    if error is None and not neighbors.rest.loss.quadratic:
        error = np.linalg.norm(steps, axis=1)
    solver = ChordSolver(neighbors.hessian, neighbors.gradient, neighbors.refit)
    rounding = neighbors.rounding_error(steps)
    solver.settle_rounded(steps, rounding, tolerance, error, factor)
    return steps
