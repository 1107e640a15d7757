"""Joint leakage of many records under noise whose covariance depends on them.

The information about the entries of all records together is ``F F^T``, with a row ``f_a`` for every
entry: the whitened change of the mean over sigma, and the whitened change ``U_a`` of the covariance
over ``sqrt(2)``. Its largest eigenvalue is that of ``F^T F``, an operator on p + p (p + 1) / 2
coordinates however many records there are. It is never built: with ``M`` a symmetric matrix,
``<M, U_a>`` and ``sum t_a U_a`` of all records are matrix products, O(n p^2) for both and O(p^3)
for the tensor.
"""

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from skleak.influence.jacobian import Columns, Norm
from skleak.influence.noise._terms import DataShape, covariance_losses
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import FloatArray

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
    joint = noise.joint(batch, columns, state.noise_scale)
    p = len(state.factor.coefficients)
    size = p + p * p
    # Scaled by the trace, so that nothing over- or underflows.
    unit = squares * columns.count(state.n_features)

    def product(vector: FloatArray) -> FloatArray:
        return joint.product(np.ravel(vector)) / unit

    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=size)
    start[p:] = (start[p:].reshape(p, p) + start[p:].reshape(p, p).T).ravel()
    largest = eigsh(operator, 1, which="LA", v0=start, tol=_TOLERANCE, return_eigenvectors=False)[0]
    return float(np.sqrt(unit * max(largest, 0.0)))


def _squares(losses: FloatArray) -> float:
    return float(np.sum(losses**2))
