"""The inverse Hessian had a record been different: the shape that noise would then have had."""

from typing import Any

import numpy as np

from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.influence.refit._candidates import (
    _check_values,
    _resolve,
    _training_rows,
    candidate_encodings,
)
from skleak.influence.refit._changes import Change
from skleak.influence.state._state import FitState
from skleak.utils._blocks import dense
from skleak.utils._features import resolve_features
from skleak.utils._typing import Data, FloatArray, IntArray

__all__ = ["candidate_inverse_hessians"]


def candidate_inverse_hessians(
    estimator_state: Any,
    X: Data,
    y: FloatArray,
    attribute: Any,
    values: Any,
    *,
    encodings: FloatArray | None = None,
    rows: IntArray | None = None,
) -> FloatArray:
    """Inverse Hessians of the fits with one record's attribute set to each value.

    Matrix ``[i, m]`` is the inverse of the unnormalised Hessian that the fit would have had with
    record i carrying ``values[m]``: together with the encodings it makes the hypotheses of an
    attacker on noise that is shaped by the curvature. All copies of a weighted record change
    together. Under a reweighting the weights are held fixed.

    Parameters
    ----------
    estimator_state : FitState or fitted private estimator
        State of the fit.
    X : ndarray or CSR of shape (n, d)
        Training records, all or, as the result is large, some of them.
    y : ndarray of shape (n,)
        Their targets.
    attribute : str, int, slice, mask or list
        Column of the attribute, or the block of its columns (one-hot).
    values : array-like of shape (n_values,), or (n_values, k) for a block of k columns
        Candidate values.
    encodings : ndarray of shape (n, n_values, p), default=None
        What `candidate_encodings` returns for the same arguments, where it is known already.
    rows : ndarray of int of shape (n,), default=None
        Their positions in the training data. By default they are found by value, and of equal
        rows the one of the largest weight is taken.

    Returns
    -------
    ndarray of shape (n, n_values, p, p)
        Confidential.

    Raises
    ------
    ValueError
        For records that are not in the training data, values of the wrong shape, or a model with
        several predictors.

    Notes
    -----
    Squared loss: O(p^2) per candidate, exact. Other losses: one pass over the data per candidate,
    O(N p^2) for N training records, because the curvature of all of them changes.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> X[:, 0] = X[:, 0] > 0
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=50)
    >>> model = PrivateLinearRegression().fit(X, y)
    >>> candidate_inverse_hessians(model, X[:5], y[:5], 0, [0.0, 1.0]).shape
    (5, 2, 4, 4)
    """
    given = (estimator_state, X, y, attribute, values)
    state, X, y = _resolve(estimator_state, X, y)
    check_one_predictor(state.factor)
    columns = resolve_features(attribute, state.feature_names, state.n_features, "attribute")
    values = _check_values(values, len(columns))
    rows = _training_rows(state, X, y) if rows is None else rows
    change = Change.of(state, dense(X), y, rows, columns, values)
    p = len(state.factor.coefficients)
    if state.objective.loss.quadratic:
        result = _woodbury(change)
    else:
        encodings = candidate_encodings(*given, rows=rows) if encodings is None else encodings
        result = _refactorized(state, change, np.asarray(encodings).reshape(-1, p))
    return result.reshape(X.shape[0], len(values), p, p)


def _woodbury(change: Change) -> FloatArray:
    """``A - A U core U^T A`` of every candidate."""
    hessian = change.hessian()
    correction = np.einsum("bpk,bkl,bql->bpq", hessian.basis, hessian.core, hessian.basis)
    inverse = hessian.inverse - correction
    return 0.5 * (inverse + inverse.transpose(0, 2, 1))


def _refactorized(state: FitState, change: Change, encodings: FloatArray) -> FloatArray:
    """The Hessian of every changed objective at its own minimiser, factorised anew."""
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
