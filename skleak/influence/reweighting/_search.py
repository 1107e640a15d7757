"""The search for the weights of a rule, with all its fits: record by record, or fit by fit."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from skleak.influence.jacobian import FitFactor, MultinomialFactor
from skleak.influence.reweighting._acceleration import Equalized, accelerated
from skleak.influence.reweighting._bound_path import follow_bound
from skleak.influence.reweighting._fit_equation import Coordinates, FitEquation
from skleak.influence.reweighting._fixed_point import equalize, relative_spread
from skleak.influence.reweighting._newton import newton_direction
from skleak.influence.reweighting._newton_search import Step
from skleak.influence.reweighting._record_sums import losses_under
from skleak.influence.state import WeightRule
from skleak.solvers import Minimum, MultinomialObjective, Objective, SingularHessianError
from skleak.utils._typing import Array, FloatArray

# Refits in which a search for weights should halve the spread, or is given up for another one; a
# search that may not take more never is.
_PATIENCE = 30
# Relative spread from which Newton's method goes on by itself, if there is anywhere to go.
_NEARLY = 1e-3


@dataclass(frozen=True)
class WeightedFit:
    """One fit of a search, judged by the rule whose weights are wanted."""

    spread: float
    reweights: Array  # factors ``omega`` of all records, or what stands for an array of them, (n,)
    minimum: Minimum
    level: float  # of what the rule makes equal


@dataclass
class WeightSearch(ABC):
    """The search for the weights of a rule, and the best fit that it found."""

    objective: Objective  # with factors of one
    rule: WeightRule
    method: Literal["accelerated", "newton", "plain"]
    max_iter: int  # refits after the first
    tol: float  # relative spread to reach
    minimize: Callable[..., Minimum]  # fits an objective, from a start or from none
    note: Callable[[float], None]  # told of the spread of every fit
    best: WeightedFit | None = None
    n_fits: int = 0

    def run(self) -> None:
        """First directly; where that is stuck and fits are left, by way of bounded weights."""
        method, tol, limit = self.method, self.tol, self.max_iter
        start = self._start()
        left = limit + 1 - self.n_fits
        if not left or (self.best is not None and self.best.spread <= tol):
            return
        if method == "plain":
            self._solve(self.rule, start, tol, left, memory=0)
            return
        patience = _PATIENCE if limit > _PATIENCE else None
        eager = method == "newton"
        direct = self._solve(
            self.rule, start, tol, left, newton=True, eager=eager, patience=patience
        )
        if direct.spread > max(tol, _NEARLY):
            solve = partial(self._solve, newton=True, eager=True)
            follow_bound(solve, self.rule, start, tol, limit + 1 - self.n_fits)

    @abstractmethod
    def _start(self) -> FloatArray:
        """Return where every search begins: at, or after, the fit without weights."""

    def _solve(
        self,
        rule: WeightRule,
        start: FloatArray,
        tol: float,
        max_fits: int,
        *,
        newton: bool = False,
        **options: Any,
    ) -> Equalized[Any]:
        """Solve for the weights of a rule."""
        options |= {"start": start, "max_iter": max_fits - 1, "tol": tol}
        return self._iterate(rule, newton, options)

    @abstractmethod
    def _iterate(self, rule: WeightRule, newton: bool, options: dict[str, Any]) -> Equalized[Any]:
        """Iterate to the weights of a rule, with or without Newton's steps."""

    def _refit(self, reweights: Array, start: FloatArray | None) -> Minimum | None:
        """Fit with such weights; None where there is no minimum, but a fit to go back to."""
        try:
            minimum = self.minimize(self.objective.reweighted(reweights), start=start)
        except SingularHessianError:
            if not self._may_turn_back:
                raise
            minimum = None
        if minimum is None or (not minimum.converged and self._may_turn_back):
            self._count(np.inf)
            return None
        return minimum

    @property
    def _may_turn_back(self) -> bool:
        """True if there is a fit to go back to, and a method that does."""
        plain = self.method == "plain"
        return not plain and self.best is not None and self.best.minimum.converged

    def _keep(self, fit: WeightedFit) -> None:
        if self.best is None or fit.spread < self.best.spread:
            self.best = fit
        self._count(fit.spread)

    def _count(self, spread: float) -> None:
        self.n_fits += 1
        self.note(spread)


@dataclass
class RecordSearch(WeightSearch):
    """The search among a number for each record, which are held in memory."""

    last: FloatArray | None = None  # coefficients of the last fit

    def _start(self) -> FloatArray:
        return np.ones(len(self.objective.y))

    def _iterate(self, rule: WeightRule, newton: bool, options: dict[str, Any]) -> Equalized[Any]:
        turn = partial(self._newton, rule) if newton else None
        measure, copies = partial(self._measure, rule), self.objective.sample_weight
        return equalize(measure, copies, newton=turn, **options)

    def _measure(self, rule: WeightRule, reweights: FloatArray) -> tuple[FloatArray, Minimum]:
        """Measure what a rule balances, after a refit; note what the wanted rule says of it."""
        objective, copies = self.objective, self.objective.sample_weight
        minimum = self._refit(reweights, self.last)
        if minimum is None:
            assert self.best is not None
            return np.full(len(objective.y), np.inf), self.best.minimum
        self.last = minimum.coefficients
        kappa = rule.norms(factor_of(objective, minimum), objective.X, objective.y)
        losses = self.rule.losses(reweights, kappa, copies)
        leaks = (copies > 0.0) & (losses > 0.0)
        level = float(losses[leaks].mean()) if leaks.any() else 0.0
        self._keep(WeightedFit(relative_spread(losses, copies), reweights, minimum, level))
        return losses if rule is self.rule else rule.losses(reweights, kappa, copies), minimum

    def _newton(
        self,
        rule: WeightRule,
        reweights: FloatArray,
        minimum: Minimum,
        residual: FloatArray,
        rtol: float,
    ) -> FloatArray:
        factor = factor_of(self.objective, minimum)
        objective = self.objective.reweighted(reweights)
        return newton_direction(objective, factor, rule, residual, rtol=rtol).change


@dataclass
class FitSearch(WeightSearch):
    """The search among weights that are functions of a fit: all it needs of records are sums."""

    coordinates: Coordinates | None = None

    def _start(self) -> FloatArray:
        minimum = self.minimize(self.objective)
        factor = FitFactor.of(self.objective, minimum)
        self._judge(self.objective.reweights, minimum, factor)
        self.coordinates = Coordinates.of(factor)
        return self.coordinates.start

    def _iterate(self, rule: WeightRule, newton: bool, options: dict[str, Any]) -> Equalized[Any]:
        assert self.coordinates is not None
        equation = FitEquation(self.objective, rule, self.coordinates, self._refit, self._noted)
        return accelerated(equation, newton=equation.turn if newton else None, **options)

    def _noted(self, rule: WeightRule, step: Step[Any]) -> None:
        """Judge a fit by the rule whose weights are wanted."""
        fit = step.state
        if rule is self.rule:
            self._keep(WeightedFit(step.spread, fit.reweights, fit.minimum, fit.level))
        else:
            self._judge(fit.reweights, fit.minimum, fit.factor)

    def _judge(self, reweights: Array, minimum: Minimum, factor: FitFactor) -> None:
        losses, level = losses_under(self.rule, factor, self.objective, reweights)
        self._keep(WeightedFit(losses.spread, reweights, minimum, level))


def factor_of(objective: Objective, minimum: Minimum) -> FitFactor:
    """Return what a fit leaves behind, of the kind of its objective."""
    kind = MultinomialFactor if isinstance(objective, MultinomialObjective) else FitFactor
    return kind.of(objective, minimum)
