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

# Error, relative to how far a record moves the minimiser, at which it is settled, and the distance,
# relative to the parameters, that is only rounding.
_TOLERANCE = 1e-6
# The same where it is estimated from the last moves, and not proven.
_ESTIMATED = 1e-7
_ROUND_OFF = 1e-14


def removal_steps(objective: Objective, w: FloatArray, rows: IntArray) -> FloatArray:
    """Compute the steps of the minimiser when each of many records is removed.

    Shapes: ``w`` (p,); ``rows`` (b,); returns (b, p): minimiser without the record minus ``w``;
    zero for a record of weight zero.
    """
    weights = objective.parts(rows).sample_weight
    steps = np.zeros((len(rows), len(w)))
    for weight in np.unique(weights[weights > 0.0]):
        members = np.flatnonzero(weights == weight)
        steps[members] = _steps_without(_kind(objective).without(objective, w, rows[members]))
    return steps


def addition_steps(
    objective: Objective, w: FloatArray, X: Data, y: FloatArray, sample_weight: FloatArray
) -> FloatArray:
    """Compute the steps of the minimiser when each of many records is added.

    Shapes: ``w`` (p,); ``X`` (b, d); ``y``, ``sample_weight`` (b,); returns (b, p): minimiser with
    the record minus ``w``; zero for a record of weight zero.
    """
    x = augment(dense(X), objective.fit_intercept)
    steps = np.zeros((len(y), len(w)))
    for weight in np.unique(sample_weight[sample_weight > 0.0]):
        some = np.flatnonzero(sample_weight == weight)
        addition = _kind(objective).with_more(objective, w, x[some], y[some], float(weight))
        found = addition.first_steps()
        if not objective.loss.quadratic:
            _settle(addition, found, np.linalg.norm(found, axis=1))
        steps[some] = found
    return steps


def _kind(objective: Objective) -> type[Neighbors]:
    return MultinomialNeighbors if isinstance(objective, MultinomialObjective) else Neighbors


def _steps_without(removal: Neighbors) -> FloatArray:
    """Return steps without records of one weight, of shape (b, p)."""
    steps = removal.first_steps()
    if removal.rest.loss.quadratic:
        solver = ChordSolver(removal.hessian, removal.gradient, removal.refit)
        solver.settle_rounded(steps, removal.rounding_error(steps), _ESTIMATED)
        return steps
    if isinstance(removal, MultinomialNeighbors):
        _settle(removal, steps, np.linalg.norm(steps, axis=1), tolerance=_ESTIMATED)
        return steps
    # A step that overflows is not settled, and its record is left to a refit.
    with np.errstate(over="ignore", invalid="ignore"):
        error, factor = np.linalg.norm(steps, axis=1), contraction(removal, steps)
        if tensor_pays(removal.rest, len(steps)):
            correction = second_order_change(removal, steps)
            error = error_bound(removal, steps, correction, factor)
            steps -= correction
    _settle(removal, steps, error, factor)
    return steps


def _settle(
    neighbors: Neighbors,
    steps: FloatArray,
    error: FloatArray,
    factor: FloatArray | None = None,
    tolerance: float | None = None,
) -> None:
    """Improve steps of known error in place until they are found."""
    floor = _ROUND_OFF * max(1.0, float(np.linalg.norm(neighbors.w)))
    tolerance = _TOLERANCE if tolerance is None else tolerance
    limit = tolerance * np.linalg.norm(steps, axis=1) + floor
    solver = ChordSolver(neighbors.hessian, neighbors.gradient, neighbors.refit)
    with np.errstate(over="ignore", invalid="ignore"):
        solver.settle(steps, error, limit, factor)
