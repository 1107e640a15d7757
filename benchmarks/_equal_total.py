"""The search for weights that equalize a leakage, and differences of the whole of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from _common import Array

from skleak.influence.jacobian import FitFactor
from skleak.influence.jacobian._factor import Norm
from skleak.influence.reweighting import relative_spread
from skleak.influence.reweighting._total import total_derivative, total_feature_norms
from skleak.influence.state import FitState, WeightRule
from skleak.solvers import minimize

GOAL = 1e-6  # relative spread of the total leakage for fixed multipliers
TOL, DIFFERENCE_TOL = 1e-11, 1e-9  # at which a search stops, and one that starts next to its goal
MOST_FITS = 100
STEPS_AGREE = 1e-2  # largest relative difference between a step and twice that step
STEP = 2.5e-4  # change of an entry, relative to a column's standard deviation (root mean square)


@dataclass(frozen=True)
class Problem:
    """What a search for weights needs, with the records as they are or changed."""

    state: FitState  # of any fit to these records
    rule: WeightRule  # what is balanced; weights are a multiplier times those of it
    norm: Norm  # in which the total leakage is equalized

    def changed(self, row: int, change: Array) -> "Problem":
        """The same with another record, ``change`` of shape (d + 1,) away; the target is last."""
        X, y = self.state.objective.X.copy(), self.state.objective.y.copy()
        X[row] += change[:-1]
        y[row] += change[-1]
        objective = replace(self.state.objective, X=X, y=y)
        return replace(self, state=replace(self.state, objective=objective))

    @property
    def step(self) -> float:
        """Change of an entry of which differences are taken."""
        return STEP * float(np.sqrt(np.mean(np.var(self.state.objective.X, axis=0))))

    def directions(self) -> Array:
        """Directions in which a record is unknown, of shape (k, d + 1)."""
        d = self.state.n_features
        columns = self.rule.columns
        basis = columns.basis(d).T
        unknown = np.column_stack([basis, np.zeros(len(basis))])
        return np.vstack([unknown, np.eye(d + 1)[d:]]) if columns.target else unknown

    def fit(self, log_weights: Array) -> FitState:
        """The fit under weights, at unit noise."""
        objective = self.state.objective.reweighted(np.exp(log_weights))
        minimum = minimize(objective, start=self.state.factor.coefficients, tol=1e-13)
        solution = minimum.coefficients, minimum.inverse_hessian
        factor = FitFactor(*solution, objective.loss, objective.fit_intercept)
        return replace(
            self.state, objective=objective, factor=factor, noise_scale=1.0, balanced=self.rule
        )

    def conditional(self, state: FitState) -> Array:
        """``omega kappa``: what is leaked with the weights held fixed, in the balanced norm."""
        objective = state.objective
        kappa = self.rule.norms(state.factor, objective.X, objective.y)
        return np.asarray(objective.reweights * kappa)

    def total(self, state: FitState) -> Array:
        """Total leakage, were the multipliers ``omega kappa`` that the weights imply fixed."""
        derivative = total_derivative(state)  # what it doubts is that the multipliers are one
        columns = self.rule.columns
        batch, norm = state.training, self.norm
        return total_feature_norms(state, batch, [columns], norm, derivative=derivative)[:, 0]


@dataclass(frozen=True)
class Secants:
    """What Anderson acceleration has learned: changes of residuals (unit vectors), and steps."""

    steps: tuple[Array, ...] = ()
    changes: tuple[Array, ...] = ()
    memory: int = 60

    def with_pair(self, step: Array, change: Array) -> "Secants":
        length = float(np.linalg.norm(change))
        if length == 0.0:
            return self
        steps, changes = (*self.steps, step / length), (*self.changes, change / length)
        return Secants(steps[-self.memory :], changes[-self.memory :], self.memory)

    def step(self, residual: Array) -> Array:
        if not self.changes:
            return residual
        changes = np.column_stack(self.changes)
        mix = np.linalg.lstsq(changes, residual, rcond=1e-8)[0]
        return residual - (np.column_stack(self.steps) + changes) @ mix


@dataclass(frozen=True)
class Found:
    """The best weights of a search, and what it learned."""

    log_weights: Array
    losses: Array
    residual: Array
    state: FitState
    spread: float
    n_fits: int
    secants: Secants


def search(
    problem: Problem,
    losses_of: Callable[[FitState], Array],
    start: Array,
    secants: Secants | None = None,
    tol: float = TOL,
) -> Found:
    """Weights under which some losses are the same: Anderson's method, damped where it fails.

    Damped, it is ``omega <- omega (level / losses)^gamma`` from the best weights so far.
    """
    learned = Secants() if secants is None else secants
    x, gamma, ones = start, 1.0, np.ones(len(start))
    best: Found | None = None
    last: Found | None = None
    for n_fits in range(1, MOST_FITS + 1):
        x = x - np.log(np.mean(np.exp(x)))
        state = problem.fit(x)
        losses = losses_of(state)
        residual = np.mean(np.log(losses)) - np.log(losses)
        if last is not None:
            learned = learned.with_pair(x - last.log_weights, residual - last.residual)
        spread = relative_spread(losses, ones)
        last = Found(x, losses, residual, state, spread, n_fits, learned)
        if best is None or spread < best.spread:
            best, gamma = last, 1.0
        else:
            gamma *= 0.5
            learned = Secants() if secants is None else secants
            last = best
        rounding = best.spread <= GOAL / 100.0 and gamma < 0.2
        if best.spread <= tol or rounding or gamma < 1.0 / 256.0:
            break
        step = learned.step(best.residual)
        x = best.log_weights + (step if gamma == 1.0 else gamma * best.residual)
    assert best is not None
    return replace(best, n_fits=n_fits)


def difference(
    problem: Problem,
    found: Found,
    losses_of: Callable[[Problem, FitState], Array],
    row: int,
    change: Array,
    secants: Secants | None = None,
) -> tuple[Array, Secants]:
    """Central difference of the coefficients of the whole algorithm, and what it learned.

    ``change`` has shape (d + 1,), the difference shape (p,) and is not divided by its length. The
    secants of earlier searches next to the same weights save most of the refits; where they
    mislead, the search begins with none.
    """
    ends, start, tol = [], found.log_weights, DIFFERENCE_TOL
    for sign in (1.0, -1.0):
        moved = problem.changed(row, sign * change)
        end = search(moved, partial(losses_of, moved), start, secants, tol)
        if not end.spread <= tol:
            end = search(moved, partial(losses_of, moved), start, None, tol)
        if not end.spread <= 10.0 * tol:
            raise RuntimeError(f"differences: the spread stops at {end.spread:.1e}")
        ends.append(end.state.factor.coefficients)
        start, secants = 2.0 * found.log_weights - end.log_weights, end.secants
    return 0.5 * (ends[0] - ends[1]), end.secants


def norm_of(jacobian: Array, norm: Norm) -> float:
    if norm == "spectral":
        return float(np.linalg.norm(jacobian, 2))
    return float(np.sqrt(np.sum(jacobian**2) / jacobian.shape[1]))


def true_ratio(
    problem: Problem, found: Found, row: int, secants: Secants
) -> tuple[float, float, float, Secants]:
    """True over stated leakage of a record; by twice the step in its worst direction; the step.

    It is shortened where the two differ: some records are nearly where the norm has a kink.
    """
    directions, level = problem.directions(), float(np.mean(found.losses))
    for step in problem.step / np.array([1.0, 8.0, 64.0]):
        columns = []
        for unit in directions:
            column, secants = difference(problem, found, Problem.total, row, step * unit, secants)
            columns.append(column / step)
        jacobian = np.column_stack(columns)
        _, values, right = np.linalg.svd(jacobian, full_matrices=False)
        change = 2.0 * step * right[0] @ directions
        again, secants = difference(problem, found, Problem.total, row, change, secants)
        ratio = norm_of(jacobian, problem.norm) / level
        twice = ratio * float(np.linalg.norm(again) / (2.0 * step * values[0]))
        if abs(twice / ratio - 1.0) <= STEPS_AGREE:
            break
    return ratio, twice, float(step), secants


def fixed_ratio(problem: Problem, found: Found, row: int, step: float) -> float:
    """The same with the multipliers held fixed, which should be one."""
    multipliers, secants = problem.conditional(found.state), None

    def losses_of(moved: Problem, state: FitState) -> Array:
        return np.asarray(moved.conditional(state) / multipliers)

    columns = []
    for unit in problem.directions():
        column, secants = difference(problem, found, losses_of, row, step * unit, secants)
        columns.append(column / step)
    return norm_of(np.column_stack(columns), problem.norm) / float(np.mean(found.losses))
