"""Noise of a fit: its covariance, fixed or from the data, and what is leaked under it.

Leakage where neither the weights nor the covariance of the noise follow the data: norms of
Jacobians, times the weights of the records, over the noise.

Joint leakage of many records under noise whose covariance depends on them: the information about
the entries of all records together is ``F F^T``, with a row ``f_a`` for every entry: the whitened
change of the mean over sigma, and the whitened change ``U_a`` of the covariance over ``sqrt(2)``.
Its largest eigenvalue is that of ``F^T F``, an operator on p + p (p + 1) / 2 coordinates however
many records there are (`ShapedJoint`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.linalg import LinearOperator, eigsh

from skleak.influence.jacobian import (
    Columns,
    FitFactor,
    JointParts,
    Norm,
    feature_norms,
    joint_norm,
    joint_parts,
    norm_of_joint,
)
from skleak.influence.noise._data_shape import (
    DataShape,
    ShapedJoint,
    curvature_noise,
    least_mean_noise,
    minimax_noise,
)
from skleak.influence.noise._terms import covariance_losses
from skleak.influence.state import FitState, RecordBatch, group_names, without_records
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import Array, FloatArray

_SHAPES: dict[str, Callable[[FitState], DataShape]] = {
    "curvature": curvature_noise,
    "minimax": minimax_noise,
    "least_mean": least_mean_noise,
}


def fitted_noise(state: FitState) -> DataShape:
    """Return the shape of noise that is a function of the training records. Confidential."""
    return state.once(_find_shape)


def _find_shape(state: FitState) -> DataShape:
    if not state.noise.reads_data:
        raise ValueError(f"Noise that is {state.noise.name!r} is no function of the data.")
    state.factor.check_one_predictor()
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


# Entries of the sums of all groups of one pass: 256 MB.
_GROUP_ELEMENTS = 1 << 25
Sums = dict[Any, tuple[int, Any]]  # by label: number of records, and sums of their Jacobians


def fixed_group_losses(
    state: FitState, batch: RecordBatch, groups: Any, columns: Columns, norm: Norm = "spectral"
) -> dict[Any, float]:
    """Fisher information loss of each group of records, weights held fixed, by label.

    One pass finds the labels; the next one, or several where the sums of all groups would be
    large, add up the Jacobians. ``groups`` (n,) is aligned with the records.
    """
    parts = joint_parts(mean_factor(state), columns)
    labels = group_names(groups)
    count = max(1, _GROUP_ELEMENTS // len(state.factor.coefficients) ** 2)
    width = max(1, parts.joint_width)
    aligned = batch.y, batch.sample_weight, batch.factors**2, groups
    blocks = Blocks.of(batch.X, *aligned, width=width)
    directions = columns.count(state.n_features, state.factor.n_target_directions)
    losses = {}
    for start in range(0, len(labels), count):
        chosen = frozenset(labels[start : start + count])
        found = blocks.map_reduce(_group_sums, _merged, parts, chosen)
        for label in labels[start : start + count]:
            n, sums = found.get(label, (0, None))
            value = 0.0
            if n:
                value = norm_of_joint(parts.joint(sums), norm)
            if n and norm == "trace":
                value /= np.sqrt(n * directions)
            losses[label] = float(per_noise(np.array(value), state.noise_scale))
    return losses


def _group_sums(
    X: FloatArray,
    y: FloatArray,
    s: FloatArray,
    weights: FloatArray,
    groups: Array,
    parts: JointParts,
    chosen: frozenset[Any],
) -> Sums:
    """Return the sums of the groups of a block that are among the chosen ones."""
    found: Sums = {}
    for label, rows in pd.Series(np.arange(len(y))).groupby(groups).indices.items():
        some = rows[s[rows] > 0.0]
        if len(some) and label in chosen:
            found[label] = len(some), parts.joint_sums(X[some], y[some], weights[some])
    return found


def _merged(total: Sums, part: Sums) -> Sums:
    for label, (n, sums) in part.items():
        if label in total:
            before, mine = total[label]
            total[label] = before + n, add(mine, sums)
        else:
            total[label] = n, sums
    return total


# Relative residual at which the iteration stops; the eigenvalue is known to about its square.
_TOLERANCE = 1e-10


def covariance_joint_loss(
    state: FitState,
    batch: RecordBatch,
    columns: Columns,
    norm: Norm = "spectral",
    *,
    noise: DataShape,
) -> float:
    """Fisher information loss of all given records together, through mean and covariance.

    See `covariance_losses`; the trace norm is over all unknowns, records times columns.
    """
    batch, noise = batch.participants(), noise.alone()
    n = batch.n_present()
    if not n:
        return 0.0
    diagonal = covariance_losses(state, batch, [columns], "trace", noise=noise)
    squares = Blocks.of(diagonal.total, width=1).map_reduce(_squares, add)
    if norm == "trace":
        return float(np.sqrt(squares / n))
    if squares == 0.0 or np.isinf(squares):
        return float(np.sqrt(squares))
    joint = ShapedJoint(noise.frame(columns), state.noise_scale)
    p = len(state.factor.coefficients)
    size = p + p * p
    # Scaled by the trace, so that nothing over- or underflows.
    unit = squares * columns.count(state.n_features)

    def product(vector: FloatArray) -> FloatArray:
        return joint.product(np.ravel(vector), batch) / unit

    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=size)
    start[p:] = (start[p:].reshape(p, p) + start[p:].reshape(p, p).T).ravel()
    largest = eigsh(operator, 1, which="LA", v0=start, tol=_TOLERANCE, return_eigenvectors=False)[0]
    return float(np.sqrt(unit * max(largest, 0.0)))


def _squares(losses: FloatArray) -> float:
    return float(np.sum(losses**2))
