"""Leakage under noise whose covariance is a function of the training records, and leaks too.

Both terms of the information (`_data_shape`) become losses here. A row of weight s moves ``w`` and
``C`` s omega times as far as one of unit weight: both terms take its square.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skleak.influence.jacobian import Columns, Norm, feature_norms
from skleak.influence.noise._data_shape import DataShape
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import Blocks
from skleak.utils._typing import FloatArray

# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21


@dataclass(frozen=True)
class LossTerms:
    """Fisher information losses by what carries the information. Confidential."""

    # loss through the mean of the release, as if the covariance were fixed, (n, n_blocks)
    mean: FloatArray
    # loss through the covariance alone; the noise scale does not lower it, (n, n_blocks)
    covariance: FloatArray
    # the leakage: square root of the largest eigenvalue of the sum of both matrices, (n, n_blocks)
    total: FloatArray


def covariance_losses(
    state: FitState,
    batch: RecordBatch,
    blocks: Sequence[Columns],
    norm: Norm = "spectral",
    *,
    noise: DataShape,
) -> LossTerms:
    """Fisher information losses of records, through mean and covariance.

    Reweighting factors are held fixed: under a reweighting the losses are conditional on its
    weights. The noise scale is that of the state, and ``noise`` the shape of its noise.

    Of the whole weight of each record.

    Time O(n p^3), and the eigenvalues of a matrix of the size of the block for each record.
    """
    d, sigma, factors = state.n_features, state.noise_scale, batch.factors
    X, y, noise = batch.X, batch.y, noise.alone()
    mean = feature_norms(noise.mean_factor, X, y, blocks, norm) * factors[:, None]
    single = [k for k, block in enumerate(blocks) if block.is_single]
    others = [k for k in range(len(blocks)) if k not in single]
    frames = {k: noise.frame(blocks[k]) for k in others}
    if single:
        indices = [blocks[k].indices[0] for k in single]  # type: ignore[index]
        together = noise.frame(Columns(np.array(indices)))

    def both(X: FloatArray, y: FloatArray, factors: FloatArray) -> FloatArray:
        """Squares of the second loss and of the total one, of shape (b, 2, n_blocks)."""
        records, squares = noise.records(X, y, factors), factors[:, None, None] ** 2
        result = np.empty((len(y), 2, len(blocks)))
        if single:
            terms = (squares * term for term in records.information(together))
            first, second = (np.diagonal(term, 0, 1, 2) for term in terms)
            result[:, 0, single] = np.maximum(second, 0.0)
            result[:, 1, single] = np.maximum(_over_noise(first, sigma) + second, 0.0)
        for k in others:
            pair = records.information(frames[k])
            first, second = (squares * _in_units(term, blocks[k]) for term in pair)
            count = blocks[k].count(d)
            result[:, 0, k] = _squares(second, norm, count)
            result[:, 1, k] = _squares(_over_noise(first, sigma) + second, norm, count)
        return result

    walk = Blocks.of(X, y, factors, width=noise.width, elements=_ELEMENTS)
    covariance, total = np.moveaxis(walk.map(both), 1, 0)
    return LossTerms(np.sqrt(_over_noise(mean**2, sigma)), np.sqrt(covariance), np.sqrt(total))


def information_terms(
    batch: RecordBatch, columns: Columns, *, noise: DataShape
) -> tuple[FloatArray, FloatArray]:
    """Both terms of the information of each record at unit noise, (n, k, k) each. Confidential."""
    noise = noise.alone()
    frame = noise.frame(columns)

    def terms(X: FloatArray, y: FloatArray, factors: FloatArray) -> FloatArray:
        squares = factors[:, None, None] ** 2
        pair = noise.records(X, y, factors).information(frame)
        return np.stack([squares * term for term in pair], axis=1)

    blocks = Blocks.of(batch.X, batch.y, batch.factors, width=noise.width, elements=_ELEMENTS)
    first, second = np.moveaxis(blocks.map(terms), 1, 0)
    return first, second


def noise_scales(
    batch: RecordBatch, columns: Columns, eta: float, *, noise: DataShape
) -> FloatArray:
    """Noise scale at which each record's total loss is eta.

    ``F1 / sigma^2 + F2 <= eta^2`` holds, as matrices, from the largest eigenvalue of
    ``(eta^2 - F2)^-1 F1`` on.

    Returns (n,): infinite where the covariance alone tells that much.
    """
    noise = noise.alone()
    frame = noise.frame(columns)

    def scales(X: FloatArray, y: FloatArray, factors: FloatArray) -> FloatArray:
        terms = noise.records(X, y, factors).information(frame)
        first, second = (factors[:, None, None] ** 2 * term for term in terms)
        values, vectors = np.linalg.eigh(second)
        left, largest = eta**2 - values, np.full(len(values), np.inf)
        some = np.flatnonzero(np.all(left > 0.0, axis=1))
        # In the eigenvectors of what the covariance tells, scaled by what is left.
        root = vectors[some] / np.sqrt(left[some])[:, None, :]
        shaped = root.transpose(0, 2, 1) @ first[some] @ root
        largest[some] = np.linalg.eigvalsh(shaped)[:, -1]
        # From the private side, by this margin.
        return np.sqrt(np.maximum(largest, 0.0)) * (1.0 + 1e-12)

    walk = Blocks.of(batch.X, batch.y, batch.factors, width=noise.width, elements=_ELEMENTS)
    return walk.map(scales)


def _in_units(information: FloatArray, columns: Columns) -> FloatArray:
    """Information about a block, of which the directions are in units, the target last, but it."""
    lengths = np.ones(information.shape[-1])
    if columns.target:
        lengths[-1] = columns.target_unit
    return np.asarray(information * lengths * lengths[:, None])


def _over_noise(information: FloatArray, noise_scale: float) -> FloatArray:
    """Information over the variance of the noise; infinite without noise."""
    if noise_scale > 0.0:
        return information / noise_scale / noise_scale  # its square may overflow
    return np.where(information != 0.0, np.copysign(np.inf, information), 0.0)


def _squares(information: FloatArray, norm: Norm, count: int) -> FloatArray:
    """Largest eigenvalue of every matrix, or the mean of its diagonal; never negative."""
    trace = np.trace(information, axis1=1, axis2=2)
    if norm == "trace" or information.shape[-1] == 1:
        return np.maximum(trace / count, 0.0)
    squares = np.where(np.isinf(trace), np.inf, 0.0)
    finite = np.isfinite(trace)
    squares[finite] = np.linalg.eigvalsh(information[finite])[:, -1]
    return np.maximum(squares, 0.0)
