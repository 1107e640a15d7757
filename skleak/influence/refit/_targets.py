"""The minimiser had the target of a record been another, without refitting."""

from dataclasses import dataclass

import numpy as np

from skleak.influence.jacobian import MultinomialFactor
from skleak.influence.refit._candidates import TABLE_ELEMENTS, centered_state, encoded
from skleak.influence.refit._changes import TargetChange
from skleak.influence.refit._chord import warn_of_unreached
from skleak.influence.refit._multinomial_changes import MultinomialChange
from skleak.influence.state import FitState, alone_in_class
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import FloatArray, IntArray


@dataclass(frozen=True)
class MultinomialTargetChange(TargetChange, MultinomialChange):
    """Candidates in which the label of a record changes, with one predictor per class."""


def target_encodings(state: FitState, rows: IntArray, targets: FloatArray) -> FloatArray:
    """Minimisers with the target of each record set to each of its values, without a reweighting.

    Shapes: ``rows`` (n,), positions in the training data; ``targets`` (n_values,), or (n, n_values)
    for values of each record's own; returns (n, n_values, p): NaN, with a warning, where no
    minimiser is reached, or where a class that was read off the labels would be gone.
    """
    if state.balanced is not None:
        raise ValueError("Under a reweighting, what another target does is not known in this form.")
    centered, shift = state.once(centered_state)
    if shift is not None:
        return state.objective.moved(target_encodings(centered, rows, targets), -shift)
    several = isinstance(state.factor, MultinomialFactor)
    kind = MultinomialTargetChange if several else TargetChange
    targets = np.broadcast_to(targets, (len(rows), np.shape(targets)[-1]))
    n_values, p = targets.shape[1], len(state.factor.coefficients)
    result = np.empty((len(rows), n_values, p))
    for block in row_blocks(len(rows), n_values * kind.width(state), TABLE_ELEMENTS):
        some = rows[block]
        records = dense(state.objective.X[some]), state.objective.y[some]
        change = kind.to(state, *records, some, targets[block])
        result[block] = encoded(change).reshape(len(some), n_values, p)
    alone = np.flatnonzero(alone_in_class(state, rows))
    if len(alone):
        result[alone] = np.where(
            (targets[alone] == state.objective.parts(rows[alone]).y[:, None])[..., None],
            result[alone],
            np.nan,
        )
    warn_of_unreached(result)
    return result
