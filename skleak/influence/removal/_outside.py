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
from skleak.influence.refit import TableMaxima
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
    none = np.zeros(0)
    given = objective.loss, objective.alpha, objective.fit_intercept, none, none
    rest = _Rest(np.zeros((0, objective.X.shape[1])), none, *given, weight=objective.total)
    records = objective.X, objective.y, objective.sample_weight
    blocks = Blocks.of(*records, width=4 * objective.n_parameters)
    alone = state.once(lone_classes)
    return blocks.map(_distances, measuring_state(state), rest, sums, longest, alone)


@dataclass(frozen=True)
class _Rest(Objective):
    """An objective without its records, of which the sum of the weights is left."""

    weight: float = field(kw_only=True)

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
        less, w = replace(rest, alpha=rest.alpha * left / rest.total), state.factor.coefficients
        removal = Neighbors(less, w, None, x[some], y[some], -weight, inverse)
        some = some[removal.remaining >= SINGULAR]
        removal = Neighbors(less, w, None, x[some], y[some], -weight, inverse)
        found[some] = _bounded(state, removal, longest * rest.total / left)
    found[np.isin(y, alone) & (s > 0.0)] = np.inf  # a release tells its label
    return found


def _bounded(state: FitState, removal: Neighbors, longest: float) -> FloatArray:
    """Upper bounds for some records of one weight, (b,); ``longest`` bounds all leverages."""
    steps = removal.first_steps()
    lengths = np.linalg.norm(state.noise.whitened(steps), axis=1)
    if removal.rest.loss.quadratic:
        return np.where(removal.rounding_error(steps) > _ROUNDING, np.inf, lengths)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        energy = np.sqrt(removal.energy(steps)) * (1.0 + _ROUNDING)
        rho = np.sqrt(longest / removal.remaining) * (1.0 + _ROUNDING)
        t = rho * energy
        inner = rho * 0.5 * t * np.exp(2.0 * t) * energy
        rest = np.where(inner < 1.0, -np.log1p(-np.minimum(inner, 1.0)) / rho, np.inf)
        white = state.noise.whitened(state.noise.whitened(removal.inverse).T)
        rest *= np.sqrt(np.linalg.norm(white, 2) / removal.remaining)
        return np.nan_to_num(lengths + np.where(t == 0.0, 0.0, rest), nan=np.inf, posinf=np.inf)
