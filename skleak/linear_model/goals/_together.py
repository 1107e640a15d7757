"""Noise goals that read records which lie outside memory.

A table that is small enough is one block: what is done of records in memory is done where it lies,
and a number comes back.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from skleak.influence.state import FitState, without_records
from skleak.linear_model.goals._large_problem import problem_of
from skleak.linear_model.goals._problem import LinearModelProblem
from skleak.report import Promises
from skleak.solvers import Objective
from skleak.utils._warnings import outer_stacklevel
from skleak.utils.blocks._dask import is_large

# Entries of a table that is one block, 64 MB; and the work on it, in pairs of records times
# parameters.
_MOST_ENTRIES = 1 << 23
_MOST_WORK = 1e10

Found = TypeVar("Found")


def is_one_block(objective: Any) -> bool:
    """Return True for records that may be brought together on the machine of one block."""
    n, p = objective.n_records, objective.n_parameters
    return bool(n * p <= _MOST_ENTRIES and float(n) * n * p <= _MOST_WORK)


def calibrated_together(estimator: Any, state: FitState) -> FitState:
    """Resolve the goal of an estimator, and check its rung, with all records in one block."""
    twin = object.__new__(type(estimator))  # neither an earlier fit nor a ledger travels
    twin.__dict__.update(estimator.get_params(deep=False), ledger=None, verbose=0)
    for name in ("n_features_in_", "feature_names_in_", "classes_", "_weighted"):
        if name in vars(estimator):
            setattr(twin, name, getattr(estimator, name))
    twin.random_state = None if estimator.random_state is None else 0
    return state.at_noise(_together(state, _calibrated, twin))


def asked(f: Callable[..., Found], state: FitState, promises: Promises, *small: Any) -> Found:
    """Return ``f(problem, *small)`` for the problem of a fit, wherever its records lie."""
    if is_large(state.objective.X) and is_one_block(state.objective):
        return _together(state, _asked, f, promises, small)
    return f(problem_of(state, promises), *small)


def _calibrated(state: FitState, twin: Any) -> float:
    return float(twin._calibrated(state).noise_scale)


def _asked(
    state: FitState, f: Callable[..., Found], promises: Promises, small: tuple[Any, ...]
) -> Found:
    return f(LinearModelProblem.of(state, promises), *small)


def _together(state: FitState, f: Callable[..., Found], *small: Any) -> Found:
    """Call ``f(state, *small)`` with all records in one block, and give the warnings of it."""
    objective: Any = state.objective
    found: Found
    found, told = objective.together(_told, f, without_records(state), small)
    for kind, message in told:
        warnings.warn(message, kind, stacklevel=outer_stacklevel())
    return found


def _told(
    objective: Objective, f: Callable[..., Found], state: FitState, small: tuple[Any, ...]
) -> tuple[Found, list[tuple[type[Warning], str]]]:
    """Return what is found, and the warnings on the way to it, which the caller is to give."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = f(replace(state, objective=objective), *small)
    return found, [(one.category, str(one.message)) for one in warned]
