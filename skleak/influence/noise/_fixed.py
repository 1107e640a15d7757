"""Leakage where neither the weights nor the covariance of the noise follow the data.

Norms of Jacobians, times the weights of the records, over the noise.
"""

from collections.abc import Sequence

import numpy as np

from skleak.influence.jacobian import Columns, Norm, feature_norms, joint_norm
from skleak.influence.noise._fitted import mean_factor
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._typing import FloatArray


def fixed_losses(
    state: FitState, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm = "spectral"
) -> FloatArray:
    """Fisher information loss of each record over several blocks, weights held fixed ([FIL21]).

    Returns (n, n_blocks): zero for a record of weight zero, which is not in the fit at all.
    """
    _check_fixed(state)
    norms = feature_norms(mean_factor(state), batch.X, batch.y, blocks, norm)
    return per_noise(norms * batch.factors[:, None], state.noise_scale)


def fixed_joint_loss(
    state: FitState, batch: RecordBatch, columns: Columns, norm: Norm = "spectral"
) -> float:
    """Fisher information loss of all given records together, weights held fixed.

    The trace norm is over all unknowns, records times columns.
    """
    _check_fixed(state)
    batch = batch.participants()
    n = batch.n_present()
    if not n:
        return 0.0
    value = joint_norm(mean_factor(state), batch.X, batch.y, batch.factors**2, columns, norm)
    if norm == "trace":
        directions = columns.count(state.n_features, state.factor.n_target_directions)
        value /= np.sqrt(n * directions)
    return float(per_noise(np.array(value), state.noise_scale))


def per_noise(norms: FloatArray, noise_scale: float) -> FloatArray:
    """Norm over noise: infinite without noise, but zero where nothing depends on the record."""
    if noise_scale == 0.0:
        return np.where(norms > 0.0, np.inf, 0.0)
    return norms / noise_scale


def _check_fixed(state: FitState) -> None:
    if state.noise.reads_data:
        raise ValueError(
            f"Noise that is {state.noise.name!r} leaks through its covariance as well as through "
            "its mean: what it leaks is no norm of a Jacobian alone."
        )
