"""The exact test of membership in a random training set: with and without each candidate.

Of a record that was trained on, what the model would be without it is known in closed form; of
one that was not, what it would be with it. Both are a Newton step with a Hessian that differs by a
matrix of rank one; where the loss is not quadratic, further steps on the exact gradient follow.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skleak.adversary._removals import removal_steps
from skleak.exceptions import AttackNotApplicableError
from skleak.solvers import Objective, SingularHessianError, minimize
from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray, IntArray

__all__ = ["PairTest", "addition_steps", "pair_test"]

_TABLE_ELEMENTS = 1 << 22
# Change of a step, relative to the step, at which it is settled.
_TOLERANCE = 1e-6
_ROUND_OFF = 1e-14
_MAX_STEPS = 25
# What is not told apart even without noise, relative to the parameters.
_SAME = 1e-10


@dataclass(frozen=True)
class PairTest:
    """Models with and without each candidate, given all other memberships. Confidential."""

    own: FloatArray  # parameters without noise on the members, (p,)
    # Parameters without the candidate, minus those with it, (n_targets, p). One of the two is
    # `own`; infinite where the other does not exist, and the release itself tells.
    steps: FloatArray
    member: Any  # whether `own` is the one with the candidate, (n_targets,)

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
        odds = (steps @ (self.own - released) + half) / max(noise_scale, self._floor) ** 2
        odds += np.log(prior) - np.log1p(-prior)
        return np.where(defined, odds, np.where(self.member, np.inf, -np.inf))

    @property
    def _floor(self) -> float:
        return _SAME * max(1.0, float(np.linalg.norm(self.own)))


def pair_test(objective: Objective, rows: IntArray, targets: IntArray) -> PairTest:
    """Models with and without each candidate, of a training set.

    Shapes: ``rows`` (n_members,); ``targets`` (n_targets,).
    """
    held = replace(
        objective,
        X=objective.X[rows],
        y=objective.y[rows],
        sample_weight=objective.sample_weight[rows],
        reweights=objective.reweights[rows],
    )
    own = _minimizer(held)
    place = np.full(len(objective.y), -1)
    place[rows] = np.arange(len(rows))
    member = place[targets] >= 0
    steps = np.empty((len(targets), len(own)))
    inside, outside = targets[member], targets[~member]
    if len(inside):
        steps[member] = _removals(held, own, place[inside])
    if len(outside):
        added = objective.X[outside], objective.y[outside], objective.sample_weight[outside]
        steps[~member] = -addition_steps(held, own, *added)
    return PairTest(own, steps, member)


def _removals(objective: Objective, own: FloatArray, rows: IntArray) -> FloatArray:
    """Steps without each record; infinite where there is no model without it.

    Without the last record of a class, for instance, nothing could have been trained.
    """
    try:
        return removal_steps(objective, own, rows)
    except AttackNotApplicableError:
        if len(rows) == 1:
            return np.full((1, len(own)), np.inf)
    middle = len(rows) // 2
    return np.vstack([_removals(objective, own, part) for part in (rows[:middle], rows[middle:])])


def addition_steps(
    objective: Objective, w: FloatArray, X: Any, y: FloatArray, sample_weight: FloatArray
) -> FloatArray:
    """Move the minimiser by adding a record, for each of many records.

    Shapes: ``w`` (p,); ``X``, ``y`` (b, d); ``sample_weight`` (b,); returns (b, p): minimiser with
    the record minus ``w``; zero for a record of weight zero.
    """
    x = augment(dense_rows(X, slice(None)), objective.fit_intercept)
    steps = np.zeros((len(y), len(w)))
    for weight in np.unique(sample_weight[sample_weight > 0.0]):
        members = np.flatnonzero(sample_weight == weight)
        steps[members] = _equal_additions(objective, w, x[members], y[members], float(weight))
    return steps


def _equal_additions(
    objective: Objective, w: FloatArray, x: FloatArray, y: FloatArray, weight: float
) -> FloatArray:
    """Steps with records of one weight, of shape (b, p); their rows have the intercept."""
    total = objective.total
    # The penalty is per unit of weight: with more of it, it weighs more beside the same losses.
    grown = replace(objective, alpha=objective.alpha * (total + weight) / total)
    inverse = grown.hessian(objective.predictor(w)).inverse()
    steps = np.empty((len(y), len(w)))
    for rows in row_blocks(len(y), len(objective.y), _TABLE_ELEMENTS):
        block = _Additions(grown, w, inverse, x[rows], y[rows], weight)
        steps[rows] = block.steps()
        for k in block.unsettled:
            one = slice(rows.start + int(k), rows.start + int(k) + 1)
            steps[one] = _refit(objective, w, x[one, : objective.X.shape[1]], y[one], weight)
    return steps


class _Additions:
    """Chord steps towards minimisers with one record more each, all of one weight."""

    def __init__(
        self,
        grown: Objective,
        w: FloatArray,
        inverse: FloatArray,
        x: FloatArray,
        y: FloatArray,
        weight: float,
    ) -> None:
        self.grown, self.w, self.inverse, self.x, self.y = grown, w, inverse, x, y
        self.weight = weight
        self.images = x @ inverse
        curvature = weight * grown.loss.curvature(x @ w)
        reach = np.einsum("ij,ij->i", x, self.images)
        self.factors = curvature / (1.0 + curvature * reach)
        self.unsettled = np.arange(0)

    def solve(self, gradient: FloatArray, which: Any) -> FloatArray:
        """Solve with the Hessian of each record's own objective at ``w``."""
        images = self.images[which]
        along = self.factors[which] * np.einsum("ij,ij->i", images, gradient)
        return gradient @ self.inverse - along[:, None] * images

    def steps(self) -> FloatArray:
        """Steps; those that do not settle are named in ``unsettled``."""
        everyone = np.arange(len(self.y))
        total = self.grown.total
        # On the records so far the gradients and the penalty of that many sum to zero.
        gradient = (self.grown.penalty / (total + self.weight) * total) * self.w
        residual = self.grown.loss.residual(self.x @ self.w, self.y)
        first = self.weight * (gradient + residual[:, None] * self.x)
        steps = -self.solve(first, everyone)
        if self.grown.loss.quadratic:
            return steps
        floor = _ROUND_OFF * max(1.0, float(np.linalg.norm(self.w)))
        pending, left = everyone, np.linalg.norm(steps, axis=1)
        for _ in range(_MAX_STEPS):
            with np.errstate(over="ignore", invalid="ignore"):
                change = self.solve(self._gradient(steps[pending], pending), pending)
            steps[pending] -= change
            size = np.linalg.norm(change, axis=1)
            ratio = size / np.maximum(left[pending], floor)
            left[pending] = size
            limit = _TOLERANCE * np.linalg.norm(steps[pending], axis=1) + floor
            pending = pending[~((size <= limit) & (ratio < 0.5) | (size <= floor))]
            if not len(pending):
                break
        self.unsettled = pending
        return steps

    def _gradient(self, steps: FloatArray, which: IntArray) -> FloatArray:
        """Unnormalised gradient with each record at ``w`` plus its step."""
        grown, d = self.grown, self.grown.X.shape[1]
        at = self.w + steps
        table = grown.X @ at[:, :d].T
        if grown.fit_intercept:
            table = table + at[:, d]
        residual = grown.weights[:, None] * (grown.loss.inverse_link(table) - grown.y[:, None])
        gradient = grown.total * grown.penalty * at
        gradient[:, :d] += (grown.X.T @ residual).T
        if grown.fit_intercept:
            gradient[:, d] += residual.sum(axis=0)
        x = self.x[which]
        own = self.weight * grown.loss.residual(np.einsum("ij,ij->i", x, at), self.y[which])
        return gradient + own[:, None] * x


def _refit(
    objective: Objective, w: FloatArray, rows: FloatArray, y: FloatArray, weight: float
) -> FloatArray:
    """Step with one record (1, d) more, by a fit."""
    grown = replace(
        objective,
        X=np.vstack([dense_rows(objective.X, slice(None)), rows]),
        y=np.append(objective.y, y),
        sample_weight=np.append(objective.sample_weight, weight),
        reweights=np.append(objective.reweights, 1.0),
    )
    # From the usual start: what does not settle may be too far to go on from here.
    return _minimizer(grown) - w


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
