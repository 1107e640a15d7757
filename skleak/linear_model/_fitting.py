"""Fit, and the parameters of private estimators."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skleak._released import ReleasedModel
from skleak.accounting import LeakageLedger
from skleak.exceptions import UnevenLeakageWarning
from skleak.influence.leakage import leakage_model
from skleak.influence.noise import noise_root
from skleak.influence.reweighting import (
    FitSearch,
    RecordSearch,
    factor_of,
    reaches_fixed_point,
    relative_spread,
)
from skleak.influence.state import FitState, NoiseShape, WeightRule
from skleak.mechanisms import NoiseGoal, NoiseKind, Reweighting, release_on_grid
from skleak.mechanisms.grids import GridRelease
from skleak.solvers import Minimum, MultinomialObjective, Objective, minimize
from skleak.utils._blocks import is_large
from skleak.utils._sklearn_compat import (
    CallbackSupportMixin,
    Interval,
    ShownAttributesMixin,
    StrOptions,
    Task,
    no_task,
    outer_stacklevel,
)
from skleak.utils._typing import RandomState

# Relative spread of the total leakage up to which it counts as equal.
_EVEN = 1e-6


@contextmanager
def refusing_overflow() -> Iterator[None]:
    """Raise an error that says what to do where numbers overflow."""
    try:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            yield
    except FloatingPointError as error:
        raise ValueError(
            f"Numbers overflow in the fit, or in what it leaks ({error}). Scale columns, target "
            "and sample weights, or raise `alpha`."
        ) from error


def solve(estimator: Any, objective: Objective) -> tuple[FitState, int]:
    """Minimize the objective of an estimator.

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
    bar = {"desc": "reweighting", "unit": "fit", "disable": not estimator.verbose}
    with tqdm(total=reweighting.max_iter + 1, **bar) as progress:

        def note(spread: float) -> None:
            history.append(spread)
            (task or no_task()).done("refit")
            progress.set_postfix(spread=f"{spread:.1e}")
            progress.update()

        effort = reweighting.method == "plain", reweighting.max_iter, reweighting.tol
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
    if best.spread > reweighting.tol or not state.at_fixed_point:
        _warn_not_equalized(reweighting, best.spread, len(history), state)
    return state, best.minimum.n_iter, history


def warn_if_uneven(state: FitState) -> None:
    """Say how far the total leakage is from equal, where a reweighting was to even it."""
    rule, objective = state.balanced, state.objective
    if not state.converged:
        return  # what it leaks is not known
    if rule is None or rule.name != "total" or state.noise_scale == 0.0 or is_large(objective.X):
        return  # outside memory nothing is computed before somebody asks for a number
    losses = leakage_model(state).record_loss(state.training, rule.columns, rule.norm)
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
        "separable data have no finite minimizer.",
        ConvergenceWarning,
        stacklevel=outer_stacklevel(),
    )


def _warn_not_equalized(
    reweighting: Reweighting, spread: float, n_fits: int, state: FitState
) -> None:
    if spread <= reweighting.tol:
        message = (
            f"The reweighting reached a spread of {spread:.1e}, but its weights differ by so much "
            "that rounding, or the spread left, hides how they depend on the data. Raise `alpha`, "
            "lower `tol`, or clip records that are far from all others."
        )
    else:
        advice = "Raise its `max_iter` or `alpha`, or accept"
        if n_fits <= reweighting.max_iter:
            advice = "There may be no weights under which they do. Raise `alpha`, or accept"
        message = (
            f"The reweighting stopped after {n_fits} fits with a relative spread of {spread:.1e}, "
            f"above tol={reweighting.tol:g}: records do not leak the same. "
            f"{advice} the spread by a larger `tol`, as in {type(reweighting).__name__}(tol=...)."
        )
    if not state.at_fixed_point:
        message += (
            " What the fit leaks is not known, and stated as NaN: what such weights give away has "
            "no known derivative. No goal, ledger, or guarantee takes it."
        )
    warnings.warn(message, ConvergenceWarning, stacklevel=outer_stacklevel())


NoiseCovariance: TypeAlias = (
    Literal["isotropic", "curvature", "minimax"] | npt.ArrayLike | NoiseKind
)


@dataclass(eq=False, repr=False)
class LinearModelParameters(ShownAttributesMixin, CallbackSupportMixin, BaseEstimator):
    """Parameters and their constraints, as scikit-learn wants them."""

    # The leakage of records is no more for the screen than for a release.
    _shown_attributes: ClassVar[tuple[str, ...]] = ReleasedModel._published

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise_scale": [Interval(Real, 0, None, closed="left"), NoiseGoal],
        "noise_covariance": [str, "array-like", NoiseKind],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "private_target": ["boolean"],
        "reweighting": [StrOptions({"irfil", "total"}), Reweighting, None],
        "data_norm": [Interval(Real, 0, None, closed="neither"), None],
        "public": ["array-like", str],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "ledger": [str, PathLike, LeakageLedger, None],
        "ledger_dataset": [str],
        "verbose": ["verbose"],
    }

    noise_scale: float | NoiseGoal = 0.01
    _: KW_ONLY
    noise_covariance: NoiseCovariance = "isotropic"
    alpha: float = 1e-2
    fit_intercept: bool = True
    private_target: bool = True
    reweighting: Literal["irfil", "total"] | Reweighting | None = None
    data_norm: float | None = None
    public: "str | Sequence[str]" = ()
    max_iter: int = 100
    tol: float = 1e-10
    random_state: RandomState = None
    ledger: "str | PathLike[str] | LeakageLedger | None" = None
    ledger_dataset: str = "default"
    verbose: int = 0

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Inspect the signature once, and not in every fit."""
        names: list[str] = super()._get_param_names()
        return names


# Parameters beyond which the third derivatives of the objective, p^3 numbers, take over 500 MB;
# "minimax" needs four tables of that size.
_MOST_SHAPED = 400


def noise_shape(estimator: Any, objective: Objective) -> NoiseShape:
    """Shape of the noise of an estimator, before anything is solved."""
    value = estimator.noise_covariance
    n_parameters = objective.X.shape[1] + objective.fit_intercept
    try:
        shape = NoiseShape.of(value, n_parameters)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Invalid `noise_covariance`. {error}") from error
    if shape.name == "isotropic":
        return shape
    if isinstance(objective, MultinomialObjective):
        raise ValueError(
            "Only binary classification is supported with a `noise_covariance` other than "
            f"'isotropic'; got {objective.n_classes} classes. Make the target binary (one class "
            "against the others), or use isotropic noise."
        )
    if estimator.reweighting is not None:
        raise ValueError(
            "What a reweighted fit leaks in total is known for isotropic noise only: got "
            f"`reweighting={estimator.reweighting!r}` with a `noise_covariance` of its own. Drop "
            "one of the two."
        )
    # The curvature of the squared loss does not move with the minimizer; its residuals do.
    third = shape.name == "minimax" or (shape.reads_data and not objective.loss.quadratic)
    if third and n_parameters > _MOST_SHAPED:
        raise ValueError(
            f"`noise_covariance={shape.name!r}` needs third derivatives, the cube of "
            f"{n_parameters} numbers, for what the covariance leaks; at most {_MOST_SHAPED} "
            "parameters are supported. Reduce the columns, or use isotropic noise."
        )
    return shape


def draw_release(state: FitState, random_state: Any) -> GridRelease:
    """Draw the release: the minimizer plus ``sigma L z`` with ``L L^T = S``, on the public grid."""
    root = None if state.noise.is_identity else noise_root(state)
    return release_on_grid(state.factor.coefficients, state.noise_scale, random_state, root)
