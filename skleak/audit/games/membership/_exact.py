"""The exact test of membership in a random training set: with and without each candidate.

Of a record that was trained on, what the model would be without it is known in closed form; of
one that was not, what it would be with it. Both are a Newton step with a Hessian that differs by a
matrix of rank one; where the loss is not quadratic, further steps on the exact gradient follow.
"""

from dataclasses import dataclass, replace

import numpy as np

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.removal import addition_steps, removal_steps
from skleak.solvers import Objective, SingularHessianError, minimize
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# What is not told apart even without noise, relative to the parameters.
_SAME = 1e-10


@dataclass(frozen=True)
class PairTest:
    """Models with and without each candidate, given all other memberships. Confidential."""

    own: FloatArray  # parameters without noise on the members, (p,)
    # Parameters without the candidate, minus those with it, (n_targets, p). One of the two is
    # `own`; infinite where the other does not exist, and the release itself tells.
    steps: FloatArray
    member: BoolArray  # whether `own` is the one with the candidate, (n_targets,)

    def told_apart(self, certain: BoolArray) -> "PairTest":
        """Return the test of who tells some candidates, (n_targets,), by the scale of the noise."""
        return replace(self, steps=np.where(certain[:, None], np.inf, self.steps))

    @property
    def distances(self) -> FloatArray:
        """Euclidean distances of the two, of shape (n_targets,)."""
        return np.asarray(np.linalg.norm(self.steps, axis=1))

    def separations(self, noise_scale: float) -> FloatArray:
        """Distances over the noise, of shape (n_targets,)."""
        if noise_scale > 0.0:
            return self.distances / noise_scale
        return np.where(self.distances > self._floor, np.inf, 0.0)

    def log_odds(self, released: FloatArray, noise_scale: float, prior: float) -> FloatArray:
        """Log posterior odds of membership from released parameters, of shape (n_targets,)."""
        defined = np.isfinite(self.distances)
        steps = np.where(defined[:, None], self.steps, 0.0)
        half = np.where(self.member, 0.5, -0.5) * (steps**2).sum(axis=1)
        noise = max(noise_scale, self._floor)
        odds = (steps @ (self.own - released) + half) / noise / noise  # its square may overflow
        odds += np.log(prior) - np.log1p(-prior)
        return np.where(defined, odds, np.where(self.member, np.inf, -np.inf))

    @property
    def _floor(self) -> float:
        return _SAME * max(1.0, float(np.linalg.norm(self.own)))


def pair_test(objective: Objective, rows: IntArray, targets: IntArray) -> PairTest:
    """Models with and without each of the targets (n_targets,), of the members (n_members,)."""
    held = objective.take(rows)
    own = _minimizer(held)
    place = np.full(len(objective.y), -1)
    place[rows] = np.arange(len(rows))
    member = place[targets] >= 0
    steps = np.empty((len(targets), len(own)))
    inside, outside = targets[member], targets[~member]
    if len(inside):
        # Without the last record of a class, for instance, nothing could have been trained.
        found = removal_steps(held, own, place[inside])
        steps[member] = np.where(np.isnan(found), np.inf, found)
    if len(outside):
        added = objective.X[outside], objective.y[outside], objective.sample_weight[outside]
        steps[~member] = -addition_steps(held, own, *added)
        if np.any(np.isnan(steps[~member])):
            raise AttackNotApplicableError(_UNDEFINED)
    return PairTest(own, steps, member)


def _minimizer(objective: Objective) -> FloatArray:
    try:
        minimum = minimize(objective)
    except SingularHessianError as error:
        raise AttackNotApplicableError(_UNDEFINED) from error
    if not minimum.converged:
        raise AttackNotApplicableError(_UNDEFINED)
    return np.asarray(minimum.coefficients)


_UNDEFINED = (
    "The training objective on the members of a release has no unique minimiser that could be "
    "reached: the exact test is not defined. Pass an estimator with a larger `alpha`, or leave "
    "'exact' out of `attacks`."
)
