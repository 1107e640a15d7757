"""The inverse Hessian had a record been different: the shape that noise would then have had."""

import numpy as np

from skleak.influence.refit._candidates import Candidates
from skleak.influence.refit._changes import Change
from skleak.influence.state import FitState
from skleak.utils._typing import FloatArray

# Relative error by rounding of an inverse Hessian, from which on it is found anew.
_ROUNDED = 1e-8


def inverse_hessians(candidates: Candidates, encodings: FloatArray | None = None) -> FloatArray:
    """Inverse Hessians of the fits with one record's attribute set to each value.

    Matrix ``[i, m]`` is the inverse of the unnormalised Hessian that the fit would have had with
    record i carrying ``values[m]``: together with the encodings, found if they are not given, it
    makes the hypotheses of an attacker on noise that is shaped by the curvature. Under a
    reweighting the weights are held fixed.

    Squared loss: O(p^2) per candidate, exact. Other losses: one pass over the data per candidate,
    O(N p^2) for N training records, because the curvature of all of them changes.
    """
    state, change = candidates.state, candidates.changes()
    p = len(state.factor.coefficients)
    if state.objective.loss.quadratic:
        result = _woodbury(change)
        still = np.zeros_like(change.old)
        rounded = np.flatnonzero(change.rounding_error(still, still) > _ROUNDED)
        if len(rounded):
            result[rounded] = _refactorized(state, change.take(rounded), still[rounded])
    else:
        encodings = candidates.encodings() if encodings is None else encodings
        result = _refactorized(state, change, np.asarray(encodings).reshape(-1, p))
    return result.reshape(*candidates.shape, p, p)


def _woodbury(change: Change) -> FloatArray:
    """Return ``A - A U core U^T A`` of every candidate."""
    hessian = change.hessian()
    correction = np.einsum("bpk,bkl,bql->bpq", hessian.basis, hessian.core, hessian.basis)
    inverse = hessian.inverse - correction
    return 0.5 * (inverse + inverse.transpose(0, 2, 1))


def _refactorized(state: FitState, change: Change, encodings: FloatArray) -> FloatArray:
    """Return the Hessian of every changed objective at its own minimiser, factorised anew."""
    p = encodings.shape[1]
    result = np.empty((len(change.y), p, p))
    same = np.all(change.old == change.new, axis=1) | (change.weight == 0.0)
    for k in range(len(result)):
        if same[k]:
            result[k] = state.factor.inverse_hessian
            continue
        record = change.new[k, : state.n_features]
        objective = state.objective.with_record(int(change.row[k]), record)
        result[k] = objective.hessian(objective.predictor(encodings[k])).inverse()
    return result
