"""How far a minimizer can be at most that no iteration reached, by strong convexity.

With the intercept b at its minimum for given coefficients v, the objective is a function of v alone
that is strongly convex with the constant ``m = N alpha``, as the least of a jointly convex function
is convex. Its minimizer is within ``|g| / m`` of any v, g the gradient in v at ``(v, b(v))``. As v
moves by at most ``delta``, no predictor moves by more than ``R delta``, R the length of the longest
record, and b by no more than that, or the sum of the residuals would change its sign.
"""

import numpy as np
from scipy import optimize

from skleak.influence.state import FitState
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import Blocks
from skleak.utils._typing import Data, FloatArray
from skleak.utils.blocks._dask import is_large

# Largest change of an intercept that is looked for.
_FAR = 1e3


def farthest_without(state: FitState, row: int) -> float:
    """Bound the distance from a fit to the minimizer without a record, over the noise at scale 1.

    Infinite without a penalty, or where there is no minimizer.
    """
    objective, w = state.objective, state.factor.coefficients
    if len(objective.y) < 2 or is_large(objective.X):
        return np.inf
    widest = np.linalg.norm(state.noise.whitened(np.eye(len(w))), 2)
    return float(_bound(objective.without(row), w) * widest)


def _bound(objective: Objective, w: FloatArray) -> float:
    """Bound on the distance of the minimizer from ``w``, (p,)."""
    strength = objective.total * objective.alpha
    if not strength > 0.0:
        return np.inf
    shift = 0.0
    if objective.fit_intercept:
        if isinstance(objective, MultinomialObjective):
            return np.inf
        shift = _intercept_shift(objective, objective.predictor(w))
        if not np.isfinite(shift):
            return np.inf  # counts that are all zero, or labels that are all equal
    there = w.copy()
    if objective.fit_intercept:
        there[-1] += shift
    at = objective.at(there)
    gradient = at.gradient[: objective.X.shape[1]] if objective.fit_intercept else at.gradient
    size = objective.total * (float(np.linalg.norm(gradient)) + at.gradient_round_off)
    delta = size / strength
    if not objective.fit_intercept:
        return delta
    longest = Blocks.of(objective.X).map_reduce(_longest, max)
    return float(np.hypot(delta, abs(shift) + longest * delta))


def _intercept_shift(objective: Objective, a: FloatArray) -> float:
    """Change of the intercept that minimizes at predictors ``a``, (n,); infinite if none does."""
    weights, y, loss = objective.weights, objective.y, objective.loss

    def slope(shift: float) -> float:
        with np.errstate(over="ignore"):
            return float(weights @ loss.residual(a + shift, y))

    span = 1.0
    while span < _FAR and slope(-span) * slope(span) > 0.0:
        span *= 2.0
    if not slope(-span) < 0.0 < slope(span):
        return np.inf
    return float(optimize.brentq(slope, -span, span, xtol=1e-14 * span))


def _longest(X: Data) -> float:
    return float(np.linalg.norm(X, axis=1).max(initial=0.0))
