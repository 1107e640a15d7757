"""Gaussian measure of polygons, and the best guess among Gaussians in a plane."""

import numpy as np
from scipy.special import owens_t

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import FAR, half_spaces, log_prior

# Boundary lines at a smaller angle that do not part by more than FAR times it are one: round-off
# cannot order them, and what lies between has a measure below 1e-10.
SAME_ANGLE = 1e-12


def planar_success(points: FloatArray, prior: FloatArray) -> FloatArray:
    """Success where all encodings lie in a plane: the cells are convex polygons.

    The measure of a cell that holds its own encoding is 1 less, for every edge, the measure of the
    sector behind it, ``T(h, t_2) - T(h, t_1)`` with Owen's T function, h the edge's distance and
    t the slopes towards its ends. Distances are signed, so this stays exact where a prior pushes
    the cell off its encoding. Cost O(M^3) for each record.

    Shapes: ``points`` (n, M, 2), encodings in the plane, in standard deviations of the noise;
    ``prior`` (n, M), prior of the secret; zero entries allowed; returns (n,).
    """
    n, n_values, _ = points.shape
    logs = log_prior(prior)
    success = np.zeros(n)
    for rows in row_blocks(n, n_values**2):
        for secret in range(n_values):
            normals, distances = half_spaces(points[rows], logs[rows], secret)
            success[rows] += prior[rows, secret] * polygon_measure(normals, distances)
    return success


def polygon_measure(normals: FloatArray, distances: FloatArray) -> FloatArray:
    """Return the standard normal measure of an intersection of half-planes.

    Shapes: ``normals`` (n, M, 2); ``distances`` (n, M); returns (n,).
    """
    lower, upper = _edges(normals, distances)
    heights = np.abs(distances)
    sector = owens_t(heights, upper / heights) - owens_t(heights, lower / heights)
    behind = np.where(upper > lower, np.sign(distances) * sector, 0.0).sum(axis=1)
    return np.clip((distances > 0).all(axis=1) - behind, 0.0, 1.0)


def _edges(normals: FloatArray, distances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the segment that the half-planes leave of each boundary line, (n, M) each.

    Line i is ``h_i n_i + s t_i``; half-plane j keeps ``s sin_ij <= h_j - cos_ij h_i``. The right
    side is expanded around parallel lines, where two lines must cut each other in the same point.
    """
    x, y = normals[..., 0], normals[..., 1]
    cosine = x[:, :, None] * x[:, None] + y[:, :, None] * y[:, None]
    sine = x[:, :, None] * y[:, None] - y[:, :, None] * x[:, None]
    side = np.where(cosine >= 0, 1.0, -1.0)
    own, other = distances[:, :, None], distances[:, None]
    room = other - side * own
    cut = room / np.where(sine == 0, 1.0, sine) + side * sine * own / (1 + np.abs(cosine))
    index = np.arange(distances.shape[1])
    # Of lines that coincide the first is kept; opposite ones bound a strip together.
    same = (side > 0) & (np.abs(sine) < SAME_ANGLE) & (np.abs(room) < FAR * SAME_ANGLE)
    repeated = np.any(same & (index[:, None] > index), axis=2, keepdims=True)
    cuts = ~np.swapaxes(repeated, 1, 2)
    beyond = (cuts & ~same & (sine == 0) & (room < 0)).any(axis=2)
    upper = np.where(cuts & (sine > 0), cut, np.inf).min(axis=2)
    lower = np.where(cuts & (sine < 0), cut, -np.inf).max(axis=2)
    return np.where(repeated[..., 0] | beyond, np.inf, lower), upper
