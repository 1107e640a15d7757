"""Whether it shows in a release that a record was trained on."""

import numpy as np

from skleak.influence.jacobian import MultinomialFactor
from skleak.influence.refit import removal_steps, whitened
from skleak.influence.state import FitState
from skleak.utils._typing import FloatArray, IntArray

# Entries of the predictors of all models without a record.
_MOST_WORK = 2e9


def membership_obstacle(state: FitState, n_records: int) -> str:
    """Say why it is not known what a fit would release without each record; empty where it is."""
    n, p = state.objective.X.shape[0], len(state.factor.coefficients)
    if not state.converged:
        return "the fit did not converge"
    if state.balanced is not None:
        return "a reweighting makes the weights of all records change with each"
    if isinstance(state.factor, MultinomialFactor):
        return "the model has a predictor for each of several classes"
    if state.noise.reads_data:
        return "the covariance of the noise is a function of the records"
    if not state.objective.loss.quadratic and n_records * n * p > _MOST_WORK:
        return "too many records to solve for each; ask for a report on some of them"
    return ""


def removal_distances(state: FitState, rows: IntArray) -> FloatArray:
    """Distance over the noise between the fits with and without each record, of shape (n,).

    NaN for records that were not trained on, and where it is not known. Shapes: ``rows`` (n,).
    """
    distances = np.full(len(rows), np.nan)
    if membership_obstacle(state, len(rows)):
        return distances
    known = np.flatnonzero(rows >= 0)
    steps = removal_steps(state.objective, state.factor.coefficients, rows[known])
    size = np.linalg.norm(whitened(state, steps), axis=1)
    if state.noise_scale > 0.0:
        distances[known] = size / state.noise_scale
    else:
        distances[known] = np.where(size > 0.0, np.inf, 0.0)
    return distances
