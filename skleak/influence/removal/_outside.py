"""How far the model of each record is from the one without it, for records outside memory.

The fit without a record is a function of that record, of sums over all, and of the minimiser, up to
what the losses are not quadratic. With ``D_1`` the first Newton step, exact for the squared loss,
``H'`` the Hessian without the record, and rho the largest ``|x.v|`` of a record for a v of length 1
in the norm of ``H'``, no predictor moves by more than ``t = rho |D_1|``. Curvatures change by at
most ``exp(|t|)``, so that the gradient at ``D_1`` is at most ``Q = t exp(t) |D_1| / 2``, and the
minimiser within ``-log(1 - rho Q exp(t)) / rho`` of it: that is added, for an upper bound.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.jacobian import Columns
from skleak.influence.noise import measuring_state
from skleak.influence.refit import TableMaxima, factor_rounding
from skleak.influence.removal._neighbors import SINGULAR, Neighbors
from skleak.influence.state import FitState, lone_classes
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import Blocks, dense
from skleak.utils._linalg import SingularMatrixError, augment
from skleak.utils._typing import Data, FloatArray

# What rounding may take from a length that is the root of a difference of squares.
_ROUNDING = 1e-7


def removal_bounds(state: FitState) -> Any:
    """Upper bounds on the distances of the fits with and without each record, (n,), lazily.

    Over the noise at scale 1; exact for the squared loss. Otherwise as `removal_distances`.
    """
    objective: Any = state.objective
    if isinstance(objective, MultinomialObjective):
        raise AttackNotApplicableError(
            "The privacy of all records outside memory is bounded for models with one predictor; "
            f"this one has {objective.n_classes} classes. Name some of them by `records`."
        )
    sums = objective.at(state.factor.coefficients).sums.curvature
    longest = TableMaxima.of(state, None, Columns()).leverage
    rounding = factor_rounding(objective, state.factor.coefficients, state.factor.inverse_hessian)
    none = np.zeros(0)
    given = objective.loss, objective.alpha, objective.fit_intercept, none, none
    empty = np.zeros((0, objective.X.shape[1]))
    rest = _Rest(empty, none, *given, weight=objective.total, rounding=rounding)
    records = objective.X, objective.y, objective.sample_weight
    blocks = Blocks.of(*records, width=4 * objective.n_parameters)
    alone = state.once(lone_classes)
    return blocks.map(_distances, measuring_state(state), rest, sums, longest, alone)


@dataclass(frozen=True)
class _Rest(Objective):
    """An objective without its records, of which the sum of the weights is left."""

    weight: float = field(kw_only=True)
    rounding: float = field(kw_only=True)  # relative error of its inverse Hessian

    @property
    def total(self) -> float:
        """``N``, the sum of the sample weights."""
        return self.weight


def _distances(
    X: Data,
    y: FloatArray,
    s: FloatArray,
    state: FitState,
    rest: _Rest,
    sums: Any,
    longest: float,
    alone: FloatArray,
) -> FloatArray:
    """Upper bounds of a block, (b,)."""
    x = augment(dense(X), rest.fit_intercept)
    found = np.zeros(len(y))
    for weight in np.unique(s[s > 0.0]).tolist():
        some, left = np.flatnonzero(s == weight), rest.total - weight
        found[some] = np.inf
        if not left > 0.0:
            continue
        try:
            inverse = sums.factor(rest.alpha * left).inverse()
        except SingularMatrixError:
            continue
        # The penalty is per unit of weight: with less of it, it weighs less.
        found[some] = _farthest(state, rest, x[some], y[some], weight, sums.mean)
        less, w = replace(rest, alpha=rest.alpha * left / rest.total), state.factor.coefficients
        removal = Neighbors(less, w, None, x[some], y[some], -weight, inverse)
        some = some[removal.remaining >= SINGULAR]
        removal = Neighbors(less, w, None, x[some], y[some], -weight, inverse)
        near = _bounded(state, removal, longest * rest.total / left)
        found[some] = np.minimum(found[some], near)
    found[np.isin(y, alone) & (s > 0.0)] = np.inf  # a release tells its label
    return found


def _bounded(state: FitState, removal: Neighbors, longest: float) -> FloatArray:
    """Upper bounds for some records of one weight, (b,); ``longest`` bounds all leverages."""
    steps = removal.first_steps()
    lengths = np.linalg.norm(state.noise.whitened(steps), axis=1)
    rest: Any = removal.rest
    error = np.maximum(removal.rounding_error(steps), rest.rounding)
    # An estimate with a margin: up to a half, it is added.
    lengths = lengths / (1.0 - np.where(error > _ROUNDING, np.minimum(error, 0.5), 0.0))
    lengths = np.where(error > 0.5, np.inf, lengths)
    if removal.rest.loss.quadratic:
        return lengths
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        energy = np.sqrt(removal.energy(steps)) * (1.0 + _ROUNDING)
        rho = np.sqrt(longest / removal.remaining) * (1.0 + _ROUNDING)
        t = rho * energy
        inner = rho * 0.5 * t * np.exp(2.0 * t) * energy
        more = np.where(inner < 1.0, -np.log1p(-np.minimum(inner, 1.0)) / rho, np.inf)
        white = state.noise.whitened(state.noise.whitened(removal.inverse).T)
        more *= np.sqrt(np.linalg.norm(white, 2) / removal.remaining)
        return np.nan_to_num(lengths + np.where(t == 0.0, 0.0, more), nan=np.inf, posinf=np.inf)


def _farthest(
    state: FitState,
    rest: _Rest,
    x: FloatArray,
    y: FloatArray,
    weight: float,
    mean: FloatArray | None,
) -> FloatArray:
    """Bounds by strong convexity in the coefficients, whatever rounding leaves of a Hessian, (b,).

    Infinite without a penalty, and with an intercept for losses that are not squared: where their
    intercepts would be without a record is not known here. ``mean`` (d,) is that of the columns.
    """
    w, left = state.factor.coefficients, rest.total - weight
    strength, penalty = rest.alpha * left, rest.alpha * weight * state.factor.weights
    if not strength > 0.0 or (rest.fit_intercept and not rest.loss.quadratic):
        return np.full(len(y), np.inf)
    pull = weight * rest.loss.residual(x @ w, y)
    widest = np.linalg.norm(state.noise.whitened(np.eye(len(w))), 2)
    if mean is None:
        return np.asarray(widest * np.linalg.norm(pull[:, None] * x + penalty, axis=1) / strength)
    x = x[:, :-1]
    others = (rest.total * mean - weight * x) / left
    gradient = pull[:, None] * (x - others) + penalty
    delta = np.linalg.norm(gradient, axis=1) / strength
    intercept = np.abs(pull) / left + np.linalg.norm(others, axis=1) * delta
    return np.asarray(widest * np.hypot(delta, intercept))
