"""From an objective to the state of a fit, with or without reweighting."""

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skleak.exceptions import UnevenLeakageWarning
from skleak.influence.jacobian import Columns, FitFactor, MultinomialFactor
from skleak.influence.leakage import leakage_model
from skleak.influence.reweighting import (
    Equalized,
    equalize,
    follow_bound,
    newton_direction,
    relative_spread,
)
from skleak.influence.state import FitState, WeightRule
from skleak.mechanisms import EvenTotal, Reweighting
from skleak.solvers import Minimum, MultinomialObjective, Objective, SingularHessianError, minimize
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

# Refits in which a search for weights should halve the spread, or is given up for another one; a
# search that may not take more never is.
_PATIENCE = 30
# Relative spread from which Newton's method goes on by itself, if there is anywhere to go.
_NEARLY = 1e-3
# Relative spread of the total leakage up to which it counts as equal.
_EVEN = 1e-6


def solve(estimator: Any, objective: Objective) -> tuple[FitState, int]:
    """Minimise the objective of an estimator.

    Returns ``state``: confidential state of the fit; ``n_iter``: Newton steps.
    """
    minimum = minimize(objective, max_iter=estimator.max_iter, tol=estimator.tol)
    if not minimum.converged:
        _warn_not_converged(estimator, minimum)
    return _state(estimator, objective, minimum), minimum.n_iter


def solve_reweighted(
    estimator: Any, objective: Objective, rule: WeightRule, reweighting: Reweighting
) -> tuple[FitState, int, list[float]]:
    """Find the weights that a rule makes of the leakage, and the fit under them.

    Returns ``state``: confidential state of the fit under the weights found; ``n_iter``: Newton
    steps of the refit that was kept; ``history``: relative spread of what the rule balances at
    each refit.
    """
    search = _Search(estimator, objective, rule, reweighting)
    with (
        tqdm(total=reweighting.max_iter + 1, desc="reweighting", unit="fit")
        if estimator.verbose
        else nullcontext()
    ) as search.progress:
        search.run()
    best, history = search.best, search.history
    assert best is not None
    if not best.minimum.converged:
        _warn_not_converged(estimator, best.minimum)
    if best.spread > reweighting.tol:
        _warn_not_equalized(reweighting, best.spread, len(history))
    final = objective.reweighted(best.reweights)
    leaks = (objective.sample_weight > 0.0) & (best.losses > 0.0)
    level = float(best.losses[leaks].mean()) if leaks.any() else 0.0
    state = _state(estimator, final, best.minimum, rule, level)
    return state, best.minimum.n_iter, history


@dataclass(frozen=True)
class _Fit:
    """One fit of a search for weights, judged by the rule whose weights are wanted."""

    spread: float
    reweights: FloatArray
    losses: FloatArray
    minimum: Minimum


@dataclass
class _Search:
    """The search for the weights of a rule, with all its fits."""

    estimator: Any
    objective: Objective
    rule: WeightRule
    reweighting: Reweighting
    progress: Any = None
    best: _Fit | None = None
    history: list[float] = field(default_factory=list)
    start: FloatArray | None = None  # coefficients of the last fit

    def run(self) -> None:
        """First directly; where that is stuck and fits are left, by way of bounded weights."""
        method, limit = self.reweighting.method, self.reweighting.max_iter
        ones, tol = np.ones(len(self.objective.y)), self.reweighting.tol
        if method == "plain":
            self._equalize(self.rule, max_iter=limit, tol=tol, memory=0)
            return
        direct = self._equalize(
            self.rule,
            max_iter=limit,
            tol=tol,
            newton=partial(self._newton, self.rule),
            eager=method == "newton",
            patience=_PATIENCE if limit > _PATIENCE else None,
        )
        if direct.spread > max(tol, _NEARLY):
            left = limit + 1 - len(self.history)
            follow_bound(self._solve_from, self.rule, ones, tol, left)

    def _solve_from(
        self, rule: WeightRule, start: FloatArray, tol: float, max_fits: int
    ) -> Equalized[Minimum]:
        newton = partial(self._newton, rule)
        return self._equalize(
            rule, start=start, max_iter=max_fits - 1, tol=tol, newton=newton, eager=True
        )

    def _equalize(self, rule: WeightRule, **options: Any) -> Equalized[Minimum]:
        return equalize(partial(self._measure, rule), self.objective.sample_weight, **options)

    def _measure(self, rule: WeightRule, reweights: FloatArray) -> tuple[FloatArray, Minimum]:
        """Measure what a rule balances, after a refit; note what the wanted rule says of it."""
        objective, copies = self.objective, self.objective.sample_weight
        try:
            minimum = minimize(
                objective.reweighted(reweights),
                start=self.start,
                max_iter=self.estimator.max_iter,
                tol=self.estimator.tol,
            )
        except SingularHessianError:
            if not self._may_turn_back:
                raise
            return self._no_improvement()
        if not minimum.converged and self._may_turn_back:
            return self._no_improvement()
        self.start = minimum.coefficients
        kappa = rule.norms(_factor(objective, minimum), objective.X, objective.y)
        losses = self.rule.losses(reweights, kappa, copies)
        fit = _Fit(relative_spread(losses, copies), reweights, losses, minimum)
        if self.best is None or fit.spread < self.best.spread:
            self.best = fit
        self._note(fit.spread)
        return losses if rule is self.rule else rule.losses(reweights, kappa, copies), minimum

    @property
    def _may_turn_back(self) -> bool:
        """True if there is a fit to go back to, and a method that does."""
        plain = self.reweighting.method == "plain"
        return not plain and self.best is not None and self.best.minimum.converged

    def _no_improvement(self) -> tuple[FloatArray, Minimum]:
        """Return the losses of weights whose fit has no unique minimiser, or did not find it."""
        assert self.best is not None
        self._note(np.inf)
        return np.full(len(self.objective.y), np.inf), self.best.minimum

    def _note(self, spread: float) -> None:
        self.history.append(spread)
        if self.progress is not None:
            self.progress.set_postfix(spread=f"{spread:.1e}")
            self.progress.update()

    def _newton(
        self,
        rule: WeightRule,
        reweights: FloatArray,
        minimum: Minimum,
        residual: FloatArray,
        rtol: float,
    ) -> FloatArray:
        factor, objective = _factor(self.objective, minimum), self.objective.reweighted(reweights)
        return newton_direction(objective, factor, rule, residual, rtol=rtol).change


def weight_rule(
    reweighting: Reweighting, indices: IntArray | None, private_target: bool
) -> WeightRule:
    """State what a reweighting balances, and how."""
    columns = Columns(target=private_target) if indices is None else Columns(indices)
    if isinstance(reweighting, EvenTotal):
        return WeightRule.total(columns, reweighting.norm)
    return WeightRule(columns, reweighting.norm)


def warn_if_uneven(state: FitState, losses: FloatArray) -> None:
    """Say how far the total leakage is from equal, where a reweighting was to even it.

    Shapes: ``losses`` (n,).
    """
    rule, objective = state.balanced, state.objective
    if rule is None or rule.name != "total" or state.noise_scale == 0.0:
        return
    columns = rule.columns
    is_whole = columns.indices is None and columns.target == state.private_target
    if rule.norm != "spectral" or not is_whole:
        losses = leakage_model(state).record_loss(state.training, columns, rule.norm)
    s = objective.sample_weight
    spread = relative_spread(np.divide(losses, s, out=np.zeros_like(s), where=s > 0.0), s)
    if spread > _EVEN:
        warnings.warn(
            "`reweighting='total'` evens what records leak with everything counted, but it is not "
            f"equal: its relative spread (standard deviation over mean) is {spread:.2g}. Weights "
            "that make it equal are not known: any correction of them is a function of the data in "
            "turn, and leaks by itself. `fisher_information_loss_` counts it all.",
            UnevenLeakageWarning,
            stacklevel=outer_stacklevel(),
        )


def _factor(objective: Objective, minimum: Minimum) -> FitFactor:
    kind = MultinomialFactor if isinstance(objective, MultinomialObjective) else FitFactor
    return kind.of(objective, minimum)


def _state(
    estimator: Any,
    objective: Objective,
    minimum: Minimum,
    rule: WeightRule | None = None,
    level: float = float("nan"),
) -> FitState:
    return FitState(
        objective,
        _factor(objective, minimum),
        # A noise goal is resolved from this very state: until then it is at unit noise.
        float(estimator.noise_scale) if isinstance(estimator.noise_scale, Real) else 1.0,
        bool(estimator.private_target),
        rule,
        level,
        getattr(estimator, "feature_names_in_", None),
        minimum.converged,
        bool(estimator.verbose),
    )


def _warn_not_converged(estimator: Any, minimum: Minimum) -> None:
    warnings.warn(
        f"{type(estimator).__name__} did not converge after {minimum.n_iter} steps (gradient norm "
        f"{minimum.gradient_norm:.1e}, tol={estimator.tol:g}): the leakage reported is "
        "unreliable. Raise `max_iter`, scale the columns, or raise `alpha`; without a penalty, "
        "separable data have no finite minimiser.",
        ConvergenceWarning,
        stacklevel=outer_stacklevel(),
    )


def _warn_not_equalized(reweighting: Reweighting, spread: float, n_fits: int) -> None:
    advice = "Raise its `max_iter` or `alpha`, or accept"
    if n_fits <= reweighting.max_iter:
        advice = "There may be no weights under which they do. Raise `alpha`, or accept"
    warnings.warn(
        f"The reweighting stopped after {n_fits} fits with a relative spread of {spread:.1e}, "
        f"above tol={reweighting.tol:g}: records do not leak the same. "
        f"{advice} the spread by a larger `tol`, as in {type(reweighting).__name__}(tol=...).",
        ConvergenceWarning,
        stacklevel=outer_stacklevel(),
    )
