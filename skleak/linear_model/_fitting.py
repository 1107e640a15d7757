"""From an objective to the state of a fit, with or without reweighting."""

import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skleak.exceptions import UnevenLeakageWarning
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.reweighting import (
    FitSearch,
    RecordSearch,
    factor_of,
    reaches_fixed_point,
    relative_spread,
)
from skleak.influence.state import FitState, WeightRule
from skleak.mechanisms import EvenTotal, Reweighting
from skleak.solvers import Minimum, Objective, minimize
from skleak.utils._sklearn_compat import Task, no_task
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel
from skleak.utils.blocks._dask import is_large

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
    estimator: Any,
    objective: Objective,
    rule: WeightRule,
    reweighting: Reweighting,
    task: Task | None = None,
) -> tuple[FitState, int, list[float]]:
    """Find the weights that a rule makes of the leakage, and the fit under them; tell of refits.

    Returns ``state``: confidential state of the fit under the weights found; ``n_iter``: Newton
    steps of the refit that was kept; ``history``: relative spread of what the rule balances at
    each refit.
    """
    fit_it = partial(minimize, max_iter=estimator.max_iter, tol=estimator.tol)
    kind = FitSearch if is_large(objective.X) else RecordSearch
    history: list[float] = []
    with (
        tqdm(total=reweighting.max_iter + 1, desc="reweighting", unit="fit")
        if estimator.verbose
        else nullcontext()
    ) as progress:
        note = partial(_note, history, progress, task or no_task())
        effort = reweighting.method, reweighting.max_iter, reweighting.tol
        search = kind(objective, rule, *effort, fit_it, note)
        search.run()
    best = search.best
    assert best is not None
    if not best.minimum.converged:
        _warn_not_converged(estimator, best.minimum)
    final = objective.reweighted(best.reweights)
    state = _state(estimator, final, best.minimum, rule, best.level)
    if state.converged and not reaches_fixed_point(rule, state.factor, final, best.spread):
        state = replace(state, converged=False, at_fixed_point=False)
    if best.spread > reweighting.tol:
        _warn_not_equalized(reweighting, best.spread, len(history), state)
    return state, best.minimum.n_iter, history


def _note(history: list[float], progress: Any, task: Task, spread: float) -> None:
    history.append(spread)
    task.done("refit")
    if progress is not None:
        progress.set_postfix(spread=f"{spread:.1e}")
        progress.update()


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
    if not state.converged:
        return  # what it leaks is not known
    if rule is None or rule.name != "total" or state.noise_scale == 0.0 or is_large(losses):
        return  # outside memory nothing is computed before somebody asks for a number
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


def _state(
    estimator: Any,
    objective: Objective,
    minimum: Minimum,
    rule: WeightRule | None = None,
    level: float = float("nan"),
) -> FitState:
    return FitState(
        objective,
        factor_of(objective, minimum),
        # A noise goal is resolved from this very state: until then it is at unit noise.
        float(estimator.noise_scale) if isinstance(estimator.noise_scale, Real) else 1.0,
        bool(estimator.private_target),
        rule,
        level,
        getattr(estimator, "feature_names_in_", None),
        minimum.converged,
        bool(estimator.verbose),
        reads_classes=not estimator._declares_classes,
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


def _warn_not_equalized(
    reweighting: Reweighting, spread: float, n_fits: int, state: FitState
) -> None:
    advice = "Raise its `max_iter` or `alpha`, or accept"
    if n_fits <= reweighting.max_iter:
        advice = "There may be no weights under which they do. Raise `alpha`, or accept"
    unknown = ""
    if not state.at_fixed_point:
        unknown = (
            " What the fit leaks is not known, and stated as NaN: weights that are not those of "
            "the fixed point have no known derivative. No goal, ledger, or guarantee takes it."
        )
    warnings.warn(
        f"The reweighting stopped after {n_fits} fits with a relative spread of {spread:.1e}, "
        f"above tol={reweighting.tol:g}: records do not leak the same. "
        f"{advice} the spread by a larger `tol`, as in {type(reweighting).__name__}(tol=...)."
        f"{unknown}",
        ConvergenceWarning,
        stacklevel=outer_stacklevel(),
    )
