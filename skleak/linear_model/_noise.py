"""The covariance of the noise that a private linear model adds."""

from typing import Any

import numpy as np

from skleak.influence.noise import noise_covariance, noise_root
from skleak.influence.state import FitState, NoiseShape
from skleak.mechanisms import GridRelease, release_on_grid
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._typing import FloatArray

# Parameters beyond which the third derivatives of the objective, p^3 numbers, take over 500 MB;
# "minimax" needs four tables of that size.
_MOST_PARAMETERS = 400


def noise_shape(estimator: Any, objective: Objective) -> NoiseShape:
    """Shape of the noise of an estimator, before anything is solved."""
    value = estimator.noise_covariance
    n_parameters = objective.X.shape[1] + objective.fit_intercept
    try:
        shape = NoiseShape.of(value, n_parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Invalid `noise_covariance`. {error}") from error
    if shape.name == "isotropic":
        return shape
    if isinstance(objective, MultinomialObjective):
        raise ValueError(
            "Only binary classification is supported with a `noise_covariance` other than "
            f"'isotropic'; got {objective.n_classes} classes. Make the target binary (one class "
            "against the others), or use isotropic noise."
        )
    if estimator.reweighting is not None:
        raise ValueError(
            "What a reweighted fit leaks in total is known for isotropic noise only: got "
            f"`reweighting={estimator.reweighting!r}` with a `noise_covariance` of its own. Drop "
            "one of the two."
        )
    # The curvature of the squared loss does not move with the minimiser; its residuals do.
    third = shape.name == "minimax" or (shape.reads_data and not objective.loss.quadratic)
    if third and n_parameters > _MOST_PARAMETERS:
        raise ValueError(
            f"`noise_covariance={shape.name!r}` needs third derivatives, the cube of "
            f"{n_parameters} numbers, for what the covariance leaks; at most {_MOST_PARAMETERS} "
            "parameters are supported. Reduce the columns, or use isotropic noise."
        )
    return shape


def draw_release(state: FitState, random_state: Any) -> GridRelease:
    """Draw the release: the minimiser plus ``sigma L z`` with ``L L^T = S``, on the public grid."""
    root = None if state.noise.is_identity else noise_root(state)
    return release_on_grid(state.factor.coefficients, state.noise_scale, random_state, root)


def noise_standard_errors(state: FitState) -> FloatArray | None:
    """Return the standard error by the noise of each parameter; None where data set its shape.

    Returns (p,).
    """
    if state.noise.reads_data:
        return None
    return np.asarray(state.noise_scale * np.sqrt(np.diag(noise_covariance(state))))
