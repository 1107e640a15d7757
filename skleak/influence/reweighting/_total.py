"""Total leakage of a reweighted fit: the weights, too, are functions of the data.

With weights that balance the leakage, [FIL21] eq. 29 differentiates the minimiser with the
weights held fixed, and understates what is leaked. At the fixed point of the reweighting a record
moves the minimiser in three ways: through its own terms, through its own weight, and through the
weights of all others. The first is the conditional Jacobian; all three are the total one,

    J = s {- omega [(c P x~ - c' xi) w^T + r P E - 2 c Xi E,  q P x~] + tau [o^T, o_y]} ,

with the adjoint ``(P, second_k, third_k)`` of the closed system (`_total_system`), which replaces
``A`` by ``P``; ``xi_k = x~^T second_k x~``; ``Xi_k = x~^T second_k``;
``tau_k = omega (r (P x~)_k - c xi_k + third_k)``; and the derivative ``[o, o_y]`` of the logarithm
of the balanced norm with respect to the record. A record costs O(p^3).

The total leakage of a record can be larger or smaller than the conditional one. A weight is about
proportional to ``1 / |r|`` where the part ``r A E`` prevails, so that ``omega r`` stays what it is
as the target or the prediction of the record changes: then its own weight cancels the part
``c x~ w^T``, and that of the target. On IWPC
(alpha=1e-2, whole record) the ratio runs from 0.65 to 3.6 with the median at 1.05.

Where the fixed point has no derivative the total leakage is infinite.
"""

from collections.abc import Sequence

import numpy as np

from skleak.influence.jacobian import Columns, Norm
from skleak.influence.noise import fixed_joint_loss, fixed_losses, per_noise
from skleak.influence.reweighting._total_derivative import TotalDerivative, total_derivative
from skleak.influence.reweighting._total_system import Adjoint
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import Blocks, add, dense
from skleak.utils._typing import FloatArray, IntArray

# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21
# Matrices up to that size are left to a dense method, as are those of which the largest
# eigenvalue has not this relative error after that many steps.
_SMALL = 16
_POWER_TOLERANCE, _POWER_STEPS = 1e-13, 30


def total_feature_norms(
    state: FitState,
    batch: RecordBatch,
    blocks: Sequence[Columns],
    norm: Norm = "spectral",
    *,
    derivative: TotalDerivative | None = None,
) -> FloatArray:
    """Total Fisher information loss of each record over several blocks of columns.

    Here and below ``derivative`` is that of the state, where it is known already.

    Of the whole weight of each, at the noise scale of the fit; returns (n, n_blocks). Of records
    that are not training records: as if one took part in this fit.
    """
    derivative = total_derivative(state) if derivative is None else derivative
    if derivative.unbounded:
        return np.tile(np.where(batch.present, np.inf, 0.0)[:, None], len(blocks))
    if derivative.adjoint is None:
        return fixed_losses(state, batch, blocks, norm)
    d = state.n_features

    def norms(jacobians: FloatArray) -> FloatArray:
        parts = ((_restricted(jacobians, block, d), block.count(d)) for block in blocks)
        return np.column_stack([_norms(part, norm, count) for part, count in parts])

    walk, jacobians = _walk(derivative.adjoint, batch, show=state.verbose), derivative.jacobians
    return per_noise(walk.map(lambda *block: norms(jacobians(*block))), state.noise_scale)


def total_joint_norm(
    state: FitState,
    batch: RecordBatch,
    columns: Columns | None = None,
    norm: Norm = "spectral",
    *,
    derivative: TotalDerivative | None = None,
) -> float:
    """Total Fisher information loss of all given records together."""
    columns = state.whole_record if columns is None else columns
    derivative = total_derivative(state) if derivative is None else derivative
    if derivative.unbounded:
        return np.inf if np.any(batch.present) else 0.0
    if derivative.adjoint is None:
        return fixed_joint_loss(state, batch, columns, norm)
    p, d = len(state.factor.coefficients), state.n_features

    def gram(*block: FloatArray) -> FloatArray:
        jacobians = _restricted(derivative.jacobians(*block), columns, d)
        flat = jacobians.transpose(1, 0, 2).reshape(p, -1)
        return flat @ flat.T

    joint = _walk(derivative.adjoint, batch, show=state.verbose).map_reduce(gram, add)
    if norm == "trace":
        unknowns = np.sum(batch.present) * columns.count(d)
        square = np.trace(joint) / unknowns if unknowns > 0 else 0.0
    else:
        square = np.linalg.eigvalsh(joint)[-1]
    return float(per_noise(np.sqrt(np.array([max(square, 0.0)])), state.noise_scale)[0])


def total_jacobian(
    state: FitState, rows: IntArray, *, derivative: TotalDerivative | None = None
) -> FloatArray:
    """Dense total Jacobians of a few training records.

    Returns (k, p, d + 1): derivative of the noiseless minimiser of the whole algorithm with respect
    to ``[x, y]`` of the record, all of its weight; zero for a record of weight zero.
    """
    batch = state.training.take(rows)
    derivative = total_derivative(state) if derivative is None else derivative
    if derivative.unbounded:
        raise ValueError(
            "The fixed point of the reweighting has no derivative, so there is no Jacobian: "
            + " ".join(derivative.doubts)
        )
    if derivative.adjoint is None:
        conditional = state.factor.jacobian(dense(batch.X), batch.y)
        return conditional * batch.factors[:, None, None]
    return _walk(derivative.adjoint, batch).map(derivative.jacobians)


def _walk(adjoint: Adjoint, batch: RecordBatch, *, show: bool = False) -> Blocks:
    """Return the records with their weights, in blocks of which the Jacobians fit."""
    p = adjoint.first.shape[1]
    return Blocks.of(
        batch.X,
        batch.y,
        batch.factors,
        width=p * (p + 1),
        elements=_ELEMENTS,
        task="total leakage" if show else "",
    )


def _restricted(jacobians: FloatArray, columns: Columns, n_features: int) -> FloatArray:
    """Jacobians with respect to a block of columns alone."""
    features = jacobians[:, :, :n_features]
    if columns.constrained or columns.units is not None:
        features = features @ columns.basis(n_features)
    elif columns.indices is not None:
        features = features[:, :, columns.indices]
    elif columns.target:
        return jacobians
    if not columns.target:
        return features
    return np.concatenate([features, columns.target_unit * jacobians[:, :, n_features:]], axis=2)


def _norms(jacobians: FloatArray, norm: Norm, count: int) -> FloatArray:
    """Largest singular value of each, or the root mean square of its columns."""
    if norm == "trace":
        return np.sqrt(np.einsum("ijk,ijk->i", jacobians, jacobians) / count)
    turned = jacobians.transpose(0, 2, 1)
    gram = turned @ jacobians if jacobians.shape[2] <= jacobians.shape[1] else jacobians @ turned
    return np.sqrt(np.maximum(_largest_eigenvalues(gram), 0.0))


def _largest_eigenvalues(matrices: FloatArray) -> FloatArray:
    """Largest eigenvalue of each of many positive semidefinite matrices.

    By power iteration where the result is proven: an approximate eigenvalue whose square is above
    half of the sum of all squared eigenvalues, which is the squared Frobenius norm, is the largest
    one. No other exceeds the root of what it leaves of that sum, so that its error is at most the
    squared residual over the distance to it. The rest, and small matrices, by a dense method.
    """
    if matrices.shape[1] <= _SMALL:
        return np.asarray(np.linalg.eigvalsh(matrices)[:, -1])
    b = len(matrices)
    squares = np.einsum("ijk,ijk->i", matrices, matrices)
    vectors = matrices[np.arange(b), np.einsum("ijj->ij", matrices).argmax(axis=1)]
    result = np.where(squares == 0.0, 0.0, np.nan)
    pending = np.flatnonzero((squares > 0.0) & np.isfinite(squares))
    for _ in range(_POWER_STEPS):
        unit = vectors[pending]
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        # Where all are pending, no copy is made.
        some = matrices if len(pending) == b else matrices[pending]
        vectors[pending] = image = (some @ unit[:, :, None])[:, :, 0]
        values = np.einsum("ij,ij->i", unit, image)
        residual = np.linalg.norm(image - values[:, None] * unit, axis=1)
        gap = values - np.sqrt(np.maximum(squares[pending] - values**2, 0.0))
        settled = (gap > 0.0) & (residual**2 <= _POWER_TOLERANCE * values * gap)
        result[pending[settled]] = values[settled]
        pending = pending[~settled]
    if len(pending):
        result[pending] = np.linalg.eigvalsh(matrices[pending])[:, -1]
    return result
