"""Whether the noise of a fit protects the values of every column of few values."""

import warnings
from contextlib import suppress

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.state import FitState
from skleak.report.measures._gain import UNPROTECTED
from skleak.report.measures._separation import Separator
from skleak.report.measures._unknown import Unknown, unknowns
from skleak.utils._features import feature_labels

# Columns that are solved for, and records of each: the rest is one Newton step away.
_N_COLUMNS, _N_RECORDS = 3, 3
# What values without a minimiser, or beyond the reach of doubles, end in.
_NOT_COMPUTABLE = (ValueError, ArithmeticError)


def unprotected_column(state: FitState) -> tuple[str, float] | None:
    """Column of few values of which some record has two that lie too far apart, and how far.

    In noise units. None where there is none, without noise, and where no distance is known: a
    release does not fail for what cannot be computed.
    """
    if not (state.converged and state.noise_scale > 0.0):
        return None
    found = None
    with suppress(*_NOT_COMPUTABLE), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = state.once(_farthest)
    if found is None or not found[1] > UNPROTECTED * state.noise_scale:
        return None
    return found[0], found[1] / state.noise_scale


def _farthest(state: FitState) -> tuple[str, float] | None:
    """Column of few values whose values lie furthest apart, and how far at unit noise."""
    n, d = state.objective.X.shape
    separator = Separator(state.at_noise(1.0), state.training, np.arange(n), 0.0, "", _N_RECORDS)
    blocks = [Columns(np.array([j])) for j in range(d)]
    every = unknowns(state, blocks, feature_labels(state.feature_names, d))
    few = [one for one in every if one.values is not None and len(one.values) > 1]
    if not few:
        return None
    first = separator.estimates(few)

    def measured(one: Unknown) -> float:
        with suppress(*_NOT_COMPUTABLE):
            found = separator.measure(one)
            distance = np.nan_to_num(found.distance, nan=0.0, posinf=np.inf)
            return float(np.max(distance, where=found.exact | ~np.any(found.exact), initial=0.0))
        return 0.0

    some = np.argsort(-first, kind="stable")[:_N_COLUMNS]
    distances = [measured(few[k]) for k in some.tolist()]
    place = int(np.argmax(distances))
    return few[int(some[place])].name, distances[place]
