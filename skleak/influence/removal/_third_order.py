"""Corrections of a removal by the third derivatives of the losses, and bounds on what is left."""

import numpy as np

from skleak.influence.refit import contraction_form, second_order, third_derivatives
from skleak.influence.removal._neighbors import Neighbors
from skleak.solvers import Objective
from skleak.utils._typing import FloatArray

# Entries of one block of a table of products of columns: 32 MB.
_TABLE_ELEMENTS = 1 << 22


def tensor_pays(objective: Objective, n_removals: int) -> bool:
    """Return True if the tensor fits in memory and costs less than a pass over the data."""
    p, n = objective.n_parameters, len(objective.y)
    return p**3 <= 2 * _TABLE_ELEMENTS and (n + n_removals) * p * p < 4 * n * n_removals


def second_order_change(removal: Neighbors, steps: FloatArray) -> FloatArray:
    """Compute the second-order change of steps by the third derivatives of the losses, (b, p)."""
    rest = removal.rest
    second = second_order(steps, third_derivatives(rest, rest.third_derivatives(removal.w)))
    along = np.einsum("ij,ij->i", removal.x, steps)
    own = -removal.weight * rest.loss.third_derivative(removal.x @ removal.w)
    second -= (0.5 * own * along**2)[:, None] * removal.x
    return removal.hessian.solve(second)


def contraction(removal: Neighbors, steps: FloatArray) -> FloatArray:
    """Bound on the factor by which the error of a step falls from one order to the next, (b,).

    See `contraction_form`, from which the removed record is missing.
    """
    rest = removal.rest
    form = contraction_form(rest, rest.curvatures(removal.w), removal.inverse)
    own = np.einsum("ij,ij->i", removal.x, removal.images)
    along = np.einsum("ij,ij->i", removal.x, steps)
    total = np.einsum("ij,ij->i", steps @ form, steps)
    total += removal.curvature * own * along**2  # which is negative: the record is not there
    return np.sqrt(np.maximum(total, 0.0) / removal.remaining)


def error_bound(
    removal: Neighbors, steps: FloatArray, correction: FloatArray, factor: FloatArray
) -> FloatArray:
    """Bound on the error after the correction by third derivatives, in Euclidean norm, (b,).

    Left are the correction of the correction and the fourth derivatives, a sixth of ``f^2`` of the
    step in the norm of the Hessian (a quarter, as derivatives change on the way).
    """
    size, change = removal.energy(steps), removal.energy(correction)
    error = factor * (np.sqrt(change) + 0.25 * factor * np.sqrt(size))
    widest = np.sqrt(np.linalg.eigvalsh(removal.inverse)[-1] / removal.remaining)
    return widest * np.where(factor < 0.5, error, np.sqrt(size))
