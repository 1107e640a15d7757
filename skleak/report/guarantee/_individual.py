"""What a release lets others find out about one person, in the units of differential privacy.

With D the distance of the noiseless parameters with and without a record over the noise, telling
the two apart is exactly as hard as telling N(0, 1) from N(D, 1): for the record that there is, and
the other records that there are.
"""

import numpy as np
import pandas as pd

from skleak.accounting import discrete_gaussian_epsilon
from skleak.influence.leakage import leakage_model
from skleak.influence.removal import removal_distances
from skleak.influence.state import FitState, PartialState
from skleak.mechanisms import Grid
from skleak.report.guarantee._output_perturbation import Promises
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.geometry._pairs import true_positives

# What is stated where nothing else is asked for.
DELTA, BASELINE = 1e-6, 1e-3
# Work that a report takes on, in pairs of records times parameters: a second or a few.
_MOST_WORK = 2e10
OUTSIDE = "the records are outside memory"
# Distance from which on nothing is private, and squares would overflow.
_LARGEST = 1e100


def individual_obstacle(state: FitState, promises: Promises) -> str:
    """Say why the privacy of one record has no exact answer; empty where it has one.

    Parameters
    ----------
    state : FitState
        State of the fit.
    promises : Promises
        Where its noise came from.

    Returns
    -------
    str
    """
    if not state.converged:
        return "the solver did not converge"
    if promises.noise_goal is not None:
        return "the scale of the noise is a function of the records"
    if state.balanced is not None:
        return "a reweighting makes the weights of all records change with each"
    return leakage_model(state).has_equal_noise.missing


def individual_privacy(
    distances: FloatArray,
    state: FitState,
    *,
    delta: float = DELTA,
    baseline: float = BASELINE,
) -> pd.DataFrame:
    """State distances from the fit without a record as privacy of that record.

    Parameters
    ----------
    distances : ndarray of shape (n,)
        Distances of noiseless parameters, over the noise at scale 1.
    state : FitState
        State of the fit.
    delta : float in [0, 1], default=1e-6
        Delta at which epsilon is stated.
    baseline : float in (0, 1), default=1e-3
        How often an attack is right on the model without the record.

    Returns
    -------
    DataFrame
        One row per distance: ``mu``, ``epsilon``, ``true_positives_at_1pct``,
        ``success_at_baseline`` and ``once_in``.
    """
    still = distances == 0.0
    mu = np.where(still, 0.0, np.where(np.isnan(distances), np.nan, np.inf))
    if state.noise_scale > 0.0:
        with np.errstate(over="ignore"):
            mu = distances / state.noise_scale
    success = true_positives(mu, baseline)
    return pd.DataFrame(
        {
            "mu": mu,
            "epsilon": _epsilon(mu, state, delta),
            "true_positives_at_1pct": true_positives(mu),
            "success_at_baseline": np.where(still, baseline, success),
            "once_in": np.where(still, 1.0 / baseline, 1.0 / success),
        }
    )


def takes_long(state: FitState) -> bool:
    """Return True if a report does not take on the fits without each training record."""
    n, p = len(state.objective.y), len(state.factor.coefficients)
    return not state.objective.loss.quadratic and float(n) * n * p > _MOST_WORK


def reported_privacy(
    state: FitState, promises: Promises, rows: IntArray
) -> tuple[pd.DataFrame, dict[str, object]]:
    """Privacy of some training records for a report; at the position -1 is one that was not used.

    Shapes: ``rows`` (n,); returns as `stated_privacy`.
    """
    missing = individual_obstacle(state, promises)
    if isinstance(state, PartialState):
        return stated_privacy(np.full(len(rows), np.nan), state, missing or OUTSIDE)
    if not missing and takes_long(state):
        missing = "so many records take long: ask for `individual_privacy_`"
    distances = np.full(len(rows), np.nan)
    if not missing:
        distances = np.where(rows < 0, np.nan, state.once(removal_distances)[rows])
    return stated_privacy(distances, state, missing)


def stated_privacy(
    distances: FloatArray, state: FitState, missing: str
) -> tuple[pd.DataFrame, dict[str, object]]:
    """Privacy as a report has it, and how it is to be read; `missing` says why all are NaN."""
    facts: dict[str, object] = {"delta": DELTA, "baseline": BASELINE, "missing": missing}
    return individual_privacy(distances, state), facts


def _epsilon(mu: FloatArray, state: FitState, delta: float) -> FloatArray:
    """Epsilon at some delta, the rounding to the grid of the noise counted, (n,)."""
    epsilon = np.where(mu > 0.0, np.inf, mu)
    known = np.flatnonzero((mu > 0.0) & (mu < _LARGEST))
    if len(known):
        least = state.noise_scale * np.sqrt(state.noise.smallest_variance)
        step = min(Grid.for_noise(state.noise_scale).step / least, 1.0)
        sizes = {"n_parameters": state.factor.coefficients.size, "relative_step": step}
        epsilon[known] = discrete_gaussian_epsilon(mu[known], delta, **sizes)
    return epsilon
