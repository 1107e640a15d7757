"""The noise of a fit: its covariance, which may be a function of the training records."""

from collections.abc import Callable

import numpy as np

from skleak.influence.jacobian import FitFactor, check_one_predictor
from skleak.influence.noise._curvature import CurvatureNoise
from skleak.influence.noise._minimax import MinimaxNoise
from skleak.influence.noise._terms import DataShape
from skleak.influence.state import FitState, without_records
from skleak.utils._typing import FloatArray

_SHAPES: dict[str, Callable[[FitState], DataShape]] = {
    "curvature": CurvatureNoise.of,
    "minimax": MinimaxNoise.of,
}


def fitted_noise(state: FitState) -> DataShape:
    """Return the shape of noise that is a function of the training records. Confidential."""
    return state.once(_find_shape)


def _find_shape(state: FitState) -> DataShape:
    if not state.noise.reads_data:
        raise ValueError(f"Noise that is {state.noise.name!r} is no function of the data.")
    check_one_predictor(state.factor)
    return _SHAPES[state.noise.name](state)


def noise_root(state: FitState) -> FloatArray:
    """Return the lower triangular ``L`` with ``L L^T = S``, of shape (p, p). Confidential."""
    if state.noise.reads_data:
        return fitted_noise(state).noise_root
    if state.noise.matrix is None or state.noise.is_identity:
        return np.eye(len(state.factor.coefficients))
    return state.noise.matrix_root


def noise_covariance(state: FitState) -> FloatArray:
    """Return ``S``, of shape (p, p). Confidential where it depends on the data."""
    if state.noise.reads_data:
        return fitted_noise(state).shape
    if state.noise.matrix is None:
        return np.eye(len(state.factor.coefficients))
    return state.noise.matrix


def mean_factor(state: FitState) -> FitFactor:
    """Return what measures the leakage through the mean of the release. Confidential."""
    return state.once(_find_mean_factor)


def measuring_state(state: FitState) -> FitState:
    """Return the same fit without records, but with what measures the leakage through the mean."""
    alone = without_records(state)
    alone.remember(_find_mean_factor, mean_factor(state))
    if state.noise.reads_data:
        alone.remember(_find_shape, fitted_noise(state).alone())
    return alone


def _find_mean_factor(state: FitState) -> FitFactor:
    if state.noise.reads_data:
        return fitted_noise(state).mean_factor
    factor, noise = state.factor, state.noise
    if noise.matrix is not None and not noise.is_identity:
        factor = factor.under_noise(noise.matrix)
    return factor if noise.seen is None else factor.confined(noise.seen)
