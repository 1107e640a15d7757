"""Noise goals that read records which lie outside memory.

A table that is small enough is one block: what is done of records in memory is done where it lies,
and a number comes back.
"""

import warnings
from dataclasses import replace
from typing import Any

from skleak.influence.state import FitState, without_records
from skleak.solvers import Objective
from skleak.utils._warnings import outer_stacklevel

# Entries of a table that is one block, 64 MB; and the work on it, in pairs of records times
# parameters.
_MOST_ENTRIES = 1 << 23
_MOST_WORK = 1e10

Told = list[tuple[type[Warning], str]]


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
    objective: Any = state.objective
    noise_scale, told = objective.together(_calibrated, twin, without_records(state))
    for kind, message in told:
        warnings.warn(message, kind, stacklevel=outer_stacklevel())
    return state.at_noise(noise_scale)


def _calibrated(objective: Objective, twin: Any, state: FitState) -> tuple[float, Told]:
    """Noise scale, and the warnings on the way to it, which the caller is to give."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        noise_scale = twin._calibrated(replace(state, objective=objective)).noise_scale
    return noise_scale, [(one.category, str(one.message)) for one in found]
