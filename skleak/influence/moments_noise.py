"""What a record leaks through sums of ``x x^T``, ``x y`` and the like that have noise.

A record moves the release by phi(z), in units of the noise, whatever the others are
(`skleak.mechanisms.moments`, whose a, b, c, e and f these are). Along a direction r of the scaled
row and t of the target the information is

    a |x r^T + r x^T|^2 + b |y r + t x|^2 + 4 c (y t)^2 + e |r|^2 + f t^2 ,

and that of all records together the same of the sums of these. A row that is clipped moves across
itself alone, and by no more than it would: what is stated of it is an upper bound.
"""

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from skleak.influence.jacobian import Columns, Norm
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import dense
from skleak.utils._typing import FloatArray, IntArray


def moments_losses(state: FitState, batch: RecordBatch, columns: Columns, norm: Norm) -> FloatArray:
    """Loss of each record over a block, (n,), whose directions are of one length."""
    noise, basis = state.noise_elsewhere, columns.basis(state.n_features)
    X, y = noise.scaled(dense(batch.X), batch.y)
    t, unit, k = np.sum(X**2, axis=1), columns.target_length / noise.target_bound, basis.shape[1]
    size = float(np.max(np.sum(basis**2, axis=0), initial=0.0)) / noise.unit**2
    along = np.sum((X @ basis) ** 2, axis=1) / noise.unit**2
    row = (2.0 * noise.a * t + noise.b * y**2 + noise.e) * size
    target = unit**2 * (noise.b * t + 4.0 * noise.c * y**2 + noise.f)
    if norm == "trace":
        whole = (k * row + 2.0 * noise.a * along + target) / max(1, k + (unit > 0.0))
        return np.asarray(batch.present * np.sqrt(whole))
    row = np.where(k > 0, row + 2.0 * noise.a * along, 0.0)
    apart = np.hypot(row - target, 2.0 * noise.b * unit * np.abs(y) * np.sqrt(along))
    return np.asarray(batch.present * np.sqrt(0.5 * (row + target + apart)))


def moments_joint_loss(state: FitState, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
    """Loss of all records together."""
    if norm == "trace":
        return float(np.sqrt(np.mean(moments_losses(state, batch, columns, norm) ** 2)))
    noise, basis = (
        state.noise_elsewhere,
        columns.basis(state.n_features) / state.noise_elsewhere.unit,
    )
    batch = batch.take(np.flatnonzero(batch.present))
    X, y = noise.scaled(dense(batch.X), batch.y)
    unit, k = columns.target_length / noise.target_bound, basis.shape[1]

    def applied(flat: FloatArray) -> FloatArray:
        moved = np.column_stack([flat.reshape(len(X), -1), np.zeros(len(X))])
        r, t = moved[:, :k] @ basis.T, unit * moved[:, k]
        half, cross = X.T @ r, noise.b * (y @ r + t @ X)
        rows = 2.0 * noise.a * X @ (half + half.T) + np.outer(y, cross) + noise.e * r.sum(axis=0)
        targets = X @ cross + 4.0 * noise.c * (y @ t) * y + noise.f * t.sum()
        return np.column_stack([rows @ basis, unit * targets])[:, : k + (unit > 0.0)].ravel()

    size = len(X) * (k + (unit > 0.0))
    operator = LinearOperator((size, size), matvec=applied, dtype=float)
    if size <= 2:
        return float(np.sqrt(np.linalg.eigvalsh(operator @ np.eye(size)).max(initial=0.0)))
    start = np.random.default_rng(0).standard_normal(size)
    return float(np.sqrt(eigsh(operator, 1, v0=start, return_eigenvectors=False)[0]))


def moments_distances(
    state: FitState, batch: RecordBatch, columns: IntArray | None, values: FloatArray
) -> FloatArray:
    """Largest distance of two of some values, and of one from the own, in noise units, (2, n)."""
    squares = _kernels(state, batch, columns, values)
    own = np.einsum("nii->ni", squares)
    gaps = np.sqrt(np.maximum(own[:, :, None] + own[:, None] - 2.0 * squares, 0.0))
    return np.asarray(batch.present * [gaps[:, 1:, 1:].max(axis=(1, 2)), gaps[:, 0].max(axis=1)])


def moments_leaving(
    state: FitState,
    rows: IntArray,
    columns: IntArray | None = None,
    values: FloatArray | None = None,
) -> FloatArray:
    """Distance of the releases with and without records, times the noise scale of the state, (n,).

    With values of some columns, the largest over these.
    """
    batch = state.training.take(rows)
    given = batch.y[:, None, None] if values is None else values
    squares = _kernels(state, batch, None if values is None else columns, given)
    largest = np.einsum("nii->ni", squares).max(axis=1)
    return np.asarray(state.noise_scale * batch.present * np.sqrt(largest))


def _kernels(
    state: FitState, batch: RecordBatch, columns: IntArray | None, values: FloatArray
) -> FloatArray:
    """Inner products of what a record adds, as it is and with values of some columns, (n, m, m)."""
    noise, own = state.noise_elsewhere, np.column_stack([dense(batch.X), batch.y])
    values = np.broadcast_to(values, (len(own), *values.shape[-2:]))
    rows = np.repeat(own[:, None], values.shape[1] + 1, axis=1)
    rows[:, 1:, [-1] if columns is None else columns] = values
    X, y = noise.scaled(rows.reshape(-1, own.shape[1])[:, :-1], rows[:, :, -1].ravel())
    X, y = X.reshape(*rows.shape[:2], -1), y.reshape(rows.shape[:2])
    t, yy = X @ X.transpose(0, 2, 1), y[:, :, None] * y[:, None]
    return np.asarray(t * (noise.a * t + noise.b * yy + noise.e) + yy * (noise.c * yy + noise.f))
