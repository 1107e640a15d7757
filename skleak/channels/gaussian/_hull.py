"""Rotate the encodings of each record into the space that they span."""

import numpy as np

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Extents, in standard deviations of the noise, below which a direction of the hull cannot matter:
# removing one of extent t moves every Gaussian by at most t, hence any success probability by
# less than t / 2. The larger applies only where the encodings' own round-off is that large.
NEGLIGIBLE_EXTENT, LARGEST_ROUNDING_EXTENT = 1e-12, 1e-9


def hull_coordinates(encodings: FloatArray, noise_scale: FloatArray) -> tuple[FloatArray, IntArray]:
    """Coordinates of the encodings in their affine hull, along its principal axes.

    M points lie in an affine space of at most M - 1 dimensions, and isotropic Gaussian noise looks
    the same in every rotated frame: all that follows costs O(M) for each release and not O(d). A
    thin QR of the differences (O(M^2 d)) and an SVD of its small factor do it.

    Shapes: ``encodings`` (n, M, d); ``noise_scale`` (n,); returns ``coordinates`` (n, M, min(M -
    1, d)): in standard deviations of the noise, the widest direction first; centred; ``rank``
    (n,): number of leading coordinates that differ between the encodings; the others are
    round-off.
    """
    n, n_values, dimension = encodings.shape
    width = min(n_values - 1, dimension)
    coordinates = np.empty((n, n_values, width))
    rank = np.empty(n, dtype=np.intp)
    for rows in row_blocks(n, n_values * dimension):
        block, scale = encodings[rows], noise_scale[rows]
        # Differences first: centring by the mean itself would round at the size of the encodings.
        centered = block - block[:, :1]
        centered -= centered.mean(axis=1, keepdims=True)
        factor = np.asarray(np.linalg.qr(centered.transpose(0, 2, 1), mode="r"))
        left, extents, _ = np.linalg.svd(factor.transpose(0, 2, 1), full_matrices=False)
        extents = extents[:, :width] / scale[:, None]
        coordinates[rows] = left[:, :, :width] * extents[:, None, :]
        rounding = np.finfo(float).eps * max(n_values, dimension) * np.abs(block).max(axis=(1, 2))
        tolerance = np.clip(rounding / scale, NEGLIGIBLE_EXTENT, LARGEST_ROUNDING_EXTENT)
        rank[rows] = (extents > tolerance[:, None]).sum(axis=1)
    return coordinates, rank


def squared_distances_from(points: FloatArray, secret: int) -> FloatArray:
    """Squared distances of all points of a record from one of them, shape (n, M)."""
    gaps = points - points[:, secret : secret + 1]
    return np.einsum("nmk,nmk->nm", gaps, gaps)


def equal_distance(points: FloatArray) -> FloatArray:
    """Return the distance between every two points of a record, NaN where the pairs differ.

    Shapes: ``points`` (n, M, k), coordinates in standard deviations of the noise; returns (n,).
    """
    n, n_values, _ = points.shape
    smallest, largest = np.full(n, np.inf), np.zeros(n)
    for secret in range(n_values):
        distances = np.sqrt(squared_distances_from(points, secret))
        largest = np.maximum(largest, distances.max(axis=1))
        distances[:, secret] = np.inf
        smallest = np.minimum(smallest, distances.min(axis=1))
    equal = largest - smallest <= 1e-10 * np.maximum(largest, 1.0)
    return np.where(equal, (largest + smallest) / 2, np.nan)
