"""From an objective to the state of a fit, with or without reweighting."""

import warnings
from contextlib import nullcontext
from numbers import Real
from typing import Any, Literal

from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skleak.influence import (
    Columns,
    FitFactor,
    FitState,
    MultinomialFactor,
    equalize,
    newton_direction,
    record_norms,
)
from skleak.solvers import Minimum, MultinomialObjective, Objective, minimize
from skleak.utils._features import resolve_features
from skleak.utils._typing import Array, FloatArray

__all__ = ["balanced_columns", "solve", "solve_reweighted"]

Norm = Literal["spectral", "trace"]


def solve(estimator: Any, objective: Objective) -> tuple[FitState, int]:
    """Minimise the objective of an estimator.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Holds ``max_iter``, ``tol``, ``noise_scale`` and ``target``.
    objective : Objective
        Validated training data and penalty.

    Returns
    -------
    state : FitState
        Confidential state of the fit.
    n_iter : int
        Newton steps.
    """
    minimum = minimize(objective, max_iter=estimator.max_iter, tol=estimator.tol)
    if not minimum.converged:
        _warn_not_converged(estimator, minimum)
    return _state(estimator, objective, minimum), minimum.n_iter


def solve_reweighted(
    estimator: Any, objective: Objective, columns: Columns, norm: Norm
) -> tuple[FitState, int, list[float]]:
    """Find the weights under which all records leak the same, and the fit under them.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Holds the limits of the solver and of the iteration.
    objective : Objective
        Validated training data and penalty, with factors of one.
    columns : Columns
        What is balanced.
    norm : {"spectral", "trace"}
        In which norm.

    Returns
    -------
    state : FitState
        Confidential state of the fit under the weights found.
    n_iter : int
        Newton steps of the refit that was kept.
    history : list of float
        Relative spread of the balanced leakage at each refit.
    """
    start: FloatArray | None = None
    method = estimator.reweighting_method

    def measure(reweights: FloatArray) -> tuple[FloatArray, Minimum]:
        nonlocal start
        minimum = minimize(
            objective.reweighted(reweights),
            start=start,
            max_iter=estimator.max_iter,
            tol=estimator.tol,
        )
        start = minimum.coefficients
        factor = _factor(objective, minimum)
        losses = reweights * record_norms(factor, objective.X, objective.y, columns, norm)
        return losses, minimum

    def newton(
        reweights: FloatArray, minimum: Minimum, residual: FloatArray, rtol: float
    ) -> FloatArray:
        factor, reweighted = _factor(objective, minimum), objective.reweighted(reweights)
        return newton_direction(reweighted, factor, columns, norm, residual, rtol=rtol).change

    # There are no derivatives of the norms of a fit with one predictor per class.
    differentiable = not isinstance(objective, MultinomialObjective)
    bar = (
        tqdm(total=estimator.max_reweighting_iter + 1, desc="reweighting", unit="fit")
        if estimator.verbose
        else nullcontext()
    )
    with bar as progress:

        def show(spread: float) -> None:
            if progress is not None:
                progress.set_postfix(spread=f"{spread:.1e}")
                progress.update()

        result = equalize(
            measure,
            objective.sample_weight,
            max_iter=estimator.max_reweighting_iter,
            tol=estimator.reweighting_tol,
            memory=0 if method == "plain" else 10,
            newton=newton if differentiable and method != "plain" else None,
            eager=method == "newton",
            callback=show,
        )
    minimum = result.state
    if not minimum.converged:
        _warn_not_converged(estimator, minimum)
    if result.spread > estimator.reweighting_tol:
        _warn_not_equalized(estimator, result.spread, len(result.history))
    final = objective.reweighted(result.reweights)
    present = objective.sample_weight > 0.0
    level = float(result.losses[present].mean())
    state = _state(estimator, final, minimum, columns, norm, level)
    return state, minimum.n_iter, result.history


def balanced_columns(estimator: Any, names: Array | None, n_features: int) -> tuple[Columns, Norm]:
    """What an estimator's reweighting balances.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Holds ``reweighting_features``, ``reweighting_target`` and ``target``.
    names : ndarray of str or None
        Column names.
    n_features : int
        Number of columns.

    Returns
    -------
    columns : Columns
        The block.
    norm : {"spectral", "trace"}
        The norm.

    Raises
    ------
    ValueError
        Where the parameters contradict each other.
    """
    features, balance = estimator.reweighting_features, estimator.reweighting_target
    if features is None:
        if balance == "features":
            raise ValueError(
                "`reweighting_target='features'` balances the leakage of chosen columns, but "
                "`reweighting_features` is None. Name the columns in `reweighting_features`."
            )
        columns = Columns(target=estimator.target == "private")
    else:
        if balance == "record":
            raise ValueError(
                "`reweighting_target='record'` balances the leakage of the whole record, but "
                f"`reweighting_features={features!r}` chooses columns. Drop one of the two."
            )
        columns = Columns(resolve_features(features, names, n_features, "reweighting_features"))
    return columns, "trace" if balance == "trace" else "spectral"


def _factor(objective: Objective, minimum: Minimum) -> FitFactor:
    solution = minimum.coefficients, minimum.inverse_hessian
    if isinstance(objective, MultinomialObjective):
        return MultinomialFactor(
            *solution, objective.loss, objective.fit_intercept, objective.n_classes
        )
    return FitFactor(*solution, objective.loss, objective.fit_intercept)


def _state(
    estimator: Any,
    objective: Objective,
    minimum: Minimum,
    columns: Columns | None = None,
    norm: Norm = "spectral",
    level: float = float("nan"),
) -> FitState:
    return FitState(
        objective,
        _factor(objective, minimum),
        # A noise target is resolved from this very state: until then it is at unit noise.
        float(estimator.noise_scale) if isinstance(estimator.noise_scale, Real) else 1.0,
        estimator.target == "private",
        columns,
        norm,
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
        stacklevel=6,  # over the wrapper of scikit-learn to the line that calls `fit`
    )


def _warn_not_equalized(estimator: Any, spread: float, n_fits: int) -> None:
    warnings.warn(
        f"The reweighting stopped after {n_fits} fits with a relative spread of {spread:.1e}, "
        f"above reweighting_tol={estimator.reweighting_tol:g}: records do not leak the same. "
        "Raise `max_reweighting_iter` or `alpha`, or accept the spread by a larger "
        "`reweighting_tol`.",
        ConvergenceWarning,
        stacklevel=6,  # over the wrapper of scikit-learn to the line that calls `fit`
    )
