"""Third derivatives of an objective, as a tensor that is made once for many steps from a fit."""

import numpy as np

from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray

# Entries of one block of a table of products of columns: 32 MB.
_TABLE_ELEMENTS = 1 << 22


def third_derivatives(objective: Objective, third: FloatArray) -> FloatArray:
    """Half the third derivatives of the losses of all records, (p (p + 1) / 2, p).

    Shapes: ``third`` (n,), third derivatives in predictor space, times the weights.
    """
    upper = np.triu_indices(objective.n_parameters)

    fit_intercept = objective.fit_intercept  # no records may travel with the function

    def tensors(X: FloatArray, third: FloatArray) -> FloatArray:
        x = augment(X, fit_intercept)
        return (x[:, upper[0]] * x[:, upper[1]]).T @ (third[:, None] * x)

    blocks = Blocks.of(objective.X, third, width=len(upper[0]), elements=_TABLE_ELEMENTS)
    tensor: FloatArray = blocks.map_reduce(tensors, add)
    tensor *= np.where(upper[0] == upper[1], 0.5, 1.0)[:, None]
    return tensor


def second_order(steps: FloatArray, tensor: FloatArray) -> FloatArray:
    """Second-order part of the gradient after steps (b, p) from a minimum, (b, p)."""
    upper = np.triu_indices(steps.shape[1])
    blocks = Blocks.of(steps, width=len(tensor), elements=_TABLE_ELEMENTS)
    return blocks.map(lambda steps: (steps[:, upper[0]] * steps[:, upper[1]]) @ tensor)


def contraction_form(
    objective: Objective, curvature: FloatArray, inverse: FloatArray
) -> FloatArray:
    """Quadratic form (p, p) of a step that bounds how its error falls from order to order, squared.

    Third and fourth derivatives of the losses are at most the curvature. In the norm of the
    Hessian the change of a prediction is ``|x.step| <= sqrt(x.A x) |step|``, so that the terms of
    the next two orders, ``sum c (x.step)^2 x`` and ``sum c |x.step|^3 x``, are at most ``f |step|``
    and ``f^2 |step|`` with ``f^2 = sum c (x.A x) (x.step)^2``.

    Shapes: ``curvature`` (n,), in predictor space, times the weights; ``inverse`` (p, p), A.
    """
    fit_intercept = objective.fit_intercept

    def forms(X: FloatArray, curvature: FloatArray) -> FloatArray:
        x = augment(X, fit_intercept)
        reach = np.einsum("ij,ij->i", x @ inverse, x)
        return x.T @ ((curvature * reach)[:, None] * x)

    blocks = Blocks.of(objective.X, curvature, width=objective.n_parameters)
    form: FloatArray = blocks.map_reduce(forms, add)
    return form
