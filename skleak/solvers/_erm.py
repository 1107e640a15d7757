"""Minimize an objective."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from skleak.solvers._implicit import FactorizedHessian, is_implicit
from skleak.solvers._multinomial import MultinomialObjective
from skleak.solvers._objective import Objective, Point
from skleak.utils._linalg import SingularMatrixError, dense_seconds, warn_if_costly
from skleak.utils._typing import BoolArray, FloatArray

# At a minimizer one more Newton step hardly moves any prediction. Where the infimum lies at
# infinity (separable classes without a penalty) the gradient vanishes too, but each step still
# moves predictions by about one.
_LARGEST_LAST_STEP = 1e-2
# The inverse Hessian is that before the last step: it has an error of about that step's move.
# Columns of tiny values have tiny gradients, so that `tol` alone would stop far too early.
_SETTLED = 1e-10
_EXTRA_STEPS = 3
# Hessians that a fit takes, but for the squared loss, which takes one.
_USUAL_STEPS = 8


@dataclass(frozen=True)
class Minimum:
    """Result of a minimization.

    Parameters
    ----------
    coefficients : ndarray of shape (p,)
        The minimizer, the intercept last.
    inverse_hessian : ndarray of shape (p, p)
        ``A = H^-1`` of the unnormalized Hessian there.
    gradient_norm : float
        Norm of the gradient of the normalized objective.
    n_iter : int
        Newton steps taken.
    converged : bool
        Whether the gradient norm passed the tolerance (or rounding noise) at a finite minimizer.

    Examples
    --------
    >>> import numpy as np
    >>> Minimum(np.array([2.0]), np.eye(1), 0.0, 1, True).converged
    True
    """

    coefficients: FloatArray
    inverse_hessian: FloatArray
    gradient_norm: float
    n_iter: int
    converged: bool


class SingularHessianError(ValueError):
    """The objective has no unique minimizer.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.solvers import SingularHessianError
    >>> try:
    ...     PrivateLinearRegression(alpha=0.0).fit(np.ones((5, 2)), np.arange(5.0))
    ... except SingularHessianError:
    ...     print("two columns are the same: raise alpha")
    two columns are the same: raise alpha
    """


def minimize(
    objective: Objective,
    *,
    start: FloatArray | None = None,
    max_iter: int = 100,
    tol: float = 1e-10,
) -> Minimum:
    """Minimize to a gradient norm of ``tol``, or to rounding noise where that is larger.

    Parameters
    ----------
    objective : Objective
        What to minimize.
    start : ndarray of shape (p,), default=None
        Where to start; by default the best lone intercept.
    max_iter : int, default=100
        Largest number of Newton steps.
    tol : float, default=1e-10
        Gradient norm of the normalized objective at which to stop.

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
    _announce(objective)
    w = objective.initial() if start is None else np.array(start)
    n_iter = 0
    if isinstance(objective, MultinomialObjective):
        w, n_iter = objective.approach(w, max_iter)
    here = objective.at(w)
    hessian = _factorize(objective, here)
    norm = float(np.linalg.norm(here.gradient))
    floor, extra, converged = 0.0, 0, False
    while True:
        step = _newton_step(objective, hessian, here.gradient)
        size, reach = here.sums.size, objective.reach(step)
        still = objective.loss.quadratic or bool(is_settled(reach, size))
        if still and is_minimum(norm, reach, size, max(tol, floor)):
            converged = True  # whatever the move is: no record need be looked at for it
            break
        there = objective.at(here.w + step, step)
        # Elsewhere nothing hangs on the move.
        move = there.sums.move if norm <= max(tol, floor) else np.inf
        converged = bool(is_minimum(norm, move, size, max(tol, floor)))
        settled = objective.loss.quadratic or bool(is_settled(move, size))
        if n_iter >= max_iter or (converged and (settled or extra == _EXTRA_STEPS)):
            break
        n_iter += 1
        extra += converged
        trial = _line_search(objective, here, there, step)
        if trial is None or np.linalg.norm(trial.gradient) > 0.5 * norm:
            # Little or no descent is left: a gradient made of rounding noise is as good as zero.
            floor = here.gradient_round_off
        if trial is None:
            converged = bool(is_minimum(norm, there.sums.move, size, max(tol, floor)))
            break
        here = trial
        norm = float(np.linalg.norm(here.gradient))
        if not objective.loss.quadratic:
            hessian = _factorize(objective, here)
    # The last step is known already, and it squares what error is left.
    w = here.w + step if converged else here.w
    return Minimum(w, hessian.inverse(), norm, max(1, n_iter), converged)


def _announce(objective: Objective) -> None:
    """Warn of a fit to records in memory whose dense Hessians cost much."""
    if objective.moments is not None or is_implicit(objective):
        return
    p, steps = objective.n_parameters, 1 if objective.loss.quadratic else _USUAL_STEPS
    warn_if_costly(
        f"A fit of {p} parameters by a dense Hessian",
        steps * dense_seconds(p, objective.n_records, 1.0) + dense_seconds(p, cubes=2.0),
        32.0 * p**2,
        "Fit fewer columns; or pass them as a sparse matrix, with `alpha > 0`, where most entries "
        "are zero.",
    )


def is_minimum(
    norm: float | FloatArray, move: float | FloatArray, size: float | FloatArray, tol: float
) -> bool | BoolArray:
    """Return True at a minimizer: no gradient, and no Newton step that moves a prediction.

    Of one objective, or of many, of shape (b,).

    Parameters
    ----------
    norm : float or ndarray of shape (b,)
        Norm of the gradient of the normalized objective.
    move, size : float or ndarray of shape (b,)
        Largest change of a predictor by one more Newton step, and largest predictor.
    tol : float
        Largest norm of a gradient that counts as zero.

    Returns
    -------
    bool or ndarray of shape (b,)

    Examples
    --------
    >>> is_minimum(1e-12, 1e-6, 3.0, tol=1e-10), is_minimum(1e-12, 1.0, 30.0, tol=1e-10)
    (True, False)
    """
    return (norm <= tol) & (move <= _LARGEST_LAST_STEP + 1e-6 * size)


def is_settled(move: float | FloatArray, size: float | FloatArray) -> bool | BoolArray:
    """Return True where even the Hessian before the last step is that of the minimizer.

    Parameters
    ----------
    move, size : float or ndarray of shape (b,)
        Largest change of a predictor by one more Newton step, and largest predictor.

    Returns
    -------
    bool or ndarray of shape (b,)

    Examples
    --------
    >>> is_settled(1e-12, 3.0), is_settled(1e-6, 3.0)
    (True, False)
    """
    return move <= _SETTLED * (1.0 + size)


def _factorize(objective: Objective, point: Point) -> FactorizedHessian:
    with _refusing_singular(objective):
        return point.hessian


def _newton_step(
    objective: Objective, hessian: FactorizedHessian, gradient: FloatArray
) -> FloatArray:
    with _refusing_singular(objective):  # what only multiplies may have to be factorized after all
        return -hessian.solve(gradient) * objective.total


@contextmanager
def _refusing_singular(objective: Objective) -> Iterator[None]:
    try:
        yield
    except SingularMatrixError as error:
        raise SingularHessianError(
            f"The Hessian of the training objective is singular at alpha={objective.alpha:g} "
            f"({error}): the minimizer is not unique and leakage is not defined. Expected a "
            "positive definite Hessian; pass a larger `alpha`, or drop constant and collinear "
            "columns and set `fit_intercept=False` if a column is constant."
        ) from error


def _line_search(objective: Objective, here: Point, there: Point, step: FloatArray) -> Point | None:
    """Halve the step until it descends; near round-off, take it if the gradient shrinks."""
    slope = float(here.gradient @ step)
    norm = np.linalg.norm(here.gradient)
    noise = here.value_round_off
    # A descent below the noise of the objective cannot be told from a rise.
    visible = -slope > noise
    for halving in range(60 if visible else 1):
        t = 0.5**halving
        trial = objective.at(here.w + t * step) if halving else there
        if not np.isfinite(trial.value) or trial.value > here.value + noise:
            continue
        sufficient = visible and trial.value <= here.value + 1e-4 * t * slope
        if sufficient or np.linalg.norm(trial.gradient) < norm:
            return trial
    return None
