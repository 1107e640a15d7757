"""Success of the Bayes-optimal attack in three dimensions: plane slices, integrated across."""

from functools import lru_cache

import numpy as np

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import FAR, half_spaces, log_prior, signed
from skleak.utils.geometry._polygons import polygon_measure

# Distance of neighbouring slices and the reach on both sides of an encoding, in standard
# deviations of the noise.
STEP, REACH = 1 / 6, 7.0
LEAST_ERROR = 1e-8
# Candidates for the axis across the slices.
N_AXES = 32
# Sine below which a boundary is a slice itself: it keeps or drops the whole slice.
PARALLEL = 1e-12


def spatial_success(points: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Success where all encodings lie in three dimensions, as for M = 4.

    Across parallel planes the best guess is worth ``int max_m p_m f_m`` on each: a smooth function
    of the plane but for third-order kinks where corners of the cells are passed, so that the
    trapezoidal rule over exact polygons (:func:`polygon_measure`) converges like ``step^4``. A
    boundary parallel to the planes would spoil that, so that the axis across is chosen away from
    all differences of encodings. All secrets share the planes.

    Shapes: ``points`` (n, M, 3), encodings in standard deviations of the noise; ``prior`` (n, M),
    prior of the secret; zero entries allowed; returns ``value`` (n,): error below 1e-6; ``error``
    (n,): how far the rule with half as many planes is off, commonly several times the error of the
    value, and 1e-8 in case the two agree by chance.
    """
    n, n_values, _ = points.shape
    turned, logs = _turn(points), log_prior(prior)
    count = round(REACH / STEP)
    planes = np.arange(-count, count + 1)
    fine, coarse = np.zeros(n), np.zeros(n)
    for rows in row_blocks(n, len(planes) * n_values**2):
        for secret in range(n_values):
            # Planes are whole multiples of the step, the same for every secret of a record.
            place = turned[rows, secret, :1] / STEP
            nearest = np.round(place)
            offset = STEP * (planes + (nearest - place))
            normals, distances = half_spaces(turned[rows], logs[rows], secret)
            measure = _slice_measures(normals, distances, offset)
            terms = STEP * np.exp(-(offset**2) / 2) / np.sqrt(2 * np.pi) * measure
            fine[rows] += prior[rows, secret] * terms.sum(axis=1)
            even = (nearest % 2 + planes) % 2 == 0
            coarse[rows] += prior[rows, secret] * 2 * np.where(even, terms, 0.0).sum(axis=1)
    return fine, np.abs(fine - coarse) + LEAST_ERROR


def _slice_measures(normals: FloatArray, distances: FloatArray, offset: FloatArray) -> FloatArray:
    """Measure of the polygons in which planes at some offsets (n, K) cut each cell, (n, K)."""
    sine = np.linalg.norm(normals[..., 1:], axis=2)
    steep = sine > PARALLEL
    safe = np.where(steep, sine, 1.0)
    flat = np.where(steep[..., None], normals[..., 1:] / safe[..., None], [1.0, 0.0])
    room = distances[:, None] - normals[:, None, :, 0] * offset[..., None]
    inside = np.where(steep[:, None], room / safe[:, None], np.where(room >= 0, FAR, -FAR))
    shape = (*offset.shape, normals.shape[1])
    measure = polygon_measure(
        np.broadcast_to(flat[:, None], (*shape, 2)).reshape(-1, shape[2], 2),
        signed(inside).reshape(-1, shape[2]),
    )
    return measure.reshape(offset.shape)


def _turn(points: FloatArray) -> FloatArray:
    """Turn each record so that no two encodings differ nearly along the first axis alone."""
    axes, frames = _candidate_axes()
    cosine = np.zeros((len(points), N_AXES))
    for secret in range(points.shape[1]):
        gaps = points - points[:, [secret]]
        lengths = np.linalg.norm(gaps, axis=2, keepdims=True)
        along = np.abs(gaps / np.where(lengths > 0, lengths, 1.0) @ axes.T)
        cosine = np.maximum(cosine, along.max(axis=1))
    return points @ frames[cosine.argmin(axis=1)]


@lru_cache(maxsize=1)
def _candidate_axes() -> tuple[FloatArray, FloatArray]:
    """Spread unit vectors over half a sphere (a Fibonacci lattice), with a frame for each."""
    index = np.arange(N_AXES)
    height = (index + 0.5) / N_AXES
    angle = np.pi * (1 + np.sqrt(5.0)) * index
    radius = np.sqrt(1 - height**2)
    axes = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)
    second = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], axis=1)
    return axes, np.stack([axes, second, np.cross(axes, second)], axis=2)
