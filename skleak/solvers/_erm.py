"""Damped Newton: one step for the squared loss, a handful for the others."""

import numpy as np

from skleak.solvers._hessian import FactorizedHessian
from skleak.solvers._objective import Minimum, Objective
from skleak.utils._linalg import SingularMatrixError
from skleak.utils._typing import FloatArray

# At a minimiser one more Newton step hardly moves any prediction. Where the infimum lies at
# infinity (separable classes without a penalty) the gradient vanishes too, but each step still
# moves predictions by about one.
_LARGEST_LAST_STEP = 1e-2
# The inverse Hessian is that before the last step: it has an error of about that step's move.
# Columns of tiny values have tiny gradients, so that `tol` alone would stop far too early.
_SETTLED = 1e-10
_EXTRA_STEPS = 3


class SingularHessianError(ValueError):
    """The objective has no unique minimiser."""


def minimize(
    objective: Objective,
    *,
    start: FloatArray | None = None,
    max_iter: int = 100,
    tol: float = 1e-10,
) -> Minimum:
    """Minimise to a gradient norm of ``tol``, or to rounding noise where that is larger.

    Parameters
    ----------
    objective : Objective
        What to minimise.
    start : ndarray of shape (p,), default=None
        Where to start; by default the best lone intercept.
    max_iter : int, default=100
        Largest number of Newton steps.
    tol : float, default=1e-10
        Gradient norm of the normalised objective at which to stop.

    Returns
    -------
    Minimum
        ``converged`` is True if it is one.

    Raises
    ------
    SingularHessianError
        Where the Hessian is singular; the message names the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.losses import SquaredLoss
    >>> one = np.ones(2)
    >>> X, y = np.array([[1.0], [2.0]]), np.array([2.0, 4.0])
    >>> minimize(Objective(X, y, SquaredLoss(), 0.0, False, one, one)).coefficients
    array([2.])
    """
    w = objective.initial() if start is None else np.array(start)
    a = objective.predictor(w)
    value, gradient = objective.value(w, a), objective.gradient(w, a)
    hessian = _factorize(objective, a)
    norm = float(np.linalg.norm(gradient))
    floor, n_iter, extra, converged = 0.0, 0, 0, False
    while True:
        step = -hessian.solve(gradient) * objective.total
        move = float(np.max(np.abs(objective.predictor(step)), initial=0.0))
        size = float(np.max(np.abs(a), initial=0.0))
        stationary = move <= _LARGEST_LAST_STEP + 1e-6 * size
        converged = stationary and norm <= max(tol, floor)
        settled = objective.loss.quadratic or move <= _SETTLED * (1.0 + size)
        if n_iter >= max_iter or (converged and (settled or extra == _EXTRA_STEPS)):
            break
        n_iter += 1
        extra += converged
        trial = _line_search(objective, w, a, value, gradient, step)
        if trial is None or np.linalg.norm(trial[3]) > 0.5 * norm:
            # Little or no descent is left: a gradient made of rounding noise is as good as zero.
            floor = objective.gradient_round_off(w, a)
        if trial is None:
            converged = stationary and norm <= max(tol, floor)
            break
        w, a, value, gradient = trial
        norm = float(np.linalg.norm(gradient))
        if not objective.loss.quadratic:
            hessian = _factorize(objective, a)
    if converged:
        w = w + step  # known already, and it squares what error is left
    return Minimum(w, hessian.inverse(), norm, max(1, n_iter), converged)


def _factorize(objective: Objective, a: FloatArray) -> FactorizedHessian:
    try:
        return objective.hessian(a)
    except SingularMatrixError as error:
        raise SingularHessianError(
            f"The Hessian of the training objective is singular at alpha={objective.alpha:g} "
            f"({error}): the minimiser is not unique and leakage is not defined. Expected a "
            "positive definite Hessian; pass a larger `alpha`, or drop constant and collinear "
            "columns and set `fit_intercept=False` if a column is constant."
        ) from error


def _line_search(
    objective: Objective,
    w: FloatArray,
    a: FloatArray,
    value: float,
    gradient: FloatArray,
    step: FloatArray,
) -> tuple[FloatArray, FloatArray, float, FloatArray] | None:
    """Halve the step until it descends; near round-off, take it if the gradient shrinks."""
    slope = float(gradient @ step)
    norm = np.linalg.norm(gradient)
    noise = objective.value_round_off(w, a)
    # A descent below the noise of the objective cannot be told from a rise.
    visible = -slope > noise
    for halving in range(60 if visible else 1):
        t = 0.5**halving
        trial = w + t * step
        a = objective.predictor(trial)
        new_value = objective.value(trial, a)
        if not np.isfinite(new_value) or new_value > value + noise:
            continue
        new_gradient = objective.gradient(trial, a)
        sufficient = visible and new_value <= value + 1e-4 * t * slope
        if sufficient or np.linalg.norm(new_gradient) < norm:
            return trial, a, new_value, new_gradient
    return None
