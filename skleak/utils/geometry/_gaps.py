"""Encodings that lie so far apart that no noise bridges the gap."""

import numpy as np

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.geometry._half_spaces import FAR


def without_wide_gaps(points: FloatArray, scale: FloatArray) -> FloatArray:
    """Narrow gaps that no release crosses, so that near points keep their digits beside far ones.

    Between groups of points more than ``2 FAR`` standard deviations apart no noise carries a
    release, before or after: guesses succeed as often. A group keeps its differences, which a
    common mean or scale of all would round off. The groups are moved onto one line along a
    difference of two points, so that points of a line, a plane or a space stay in it.

    Shapes: ``points`` (n, M, d); ``scale`` (n, 1, 1), the noise; returns (n, M, d): rows without
    such a gap as they are, others up to a translation.
    """
    widest = 2.0 * FAR * scale[:, 0, 0]
    with np.errstate(over="ignore"):
        extent = _lengths(np.ptp(points, axis=1))
    rows = np.flatnonzero(extent > widest)
    near = points if not rows.size else points.copy()
    for some in row_blocks(len(rows), points.shape[1] * (points.shape[1] + points.shape[2])):
        chosen = rows[some]
        near[chosen] = _together(points[chosen], widest[chosen])
    return near


def _together(points: FloatArray, widest: FloatArray) -> FloatArray:
    """Move groups of points together, where there are several.

    Shapes: ``points`` (n, M, d); ``widest`` (n,), the gap that is left between them.
    """
    n, n_values, _ = points.shape
    first = _groups(points, widest)
    everyone = np.arange(n)
    other = np.argmax(first > 0, axis=1)
    # Halves: the difference of two huge numbers is no float.
    along = 0.5 * points[everyone, other] - 0.5 * points[:, 0]
    size = np.abs(along).max(axis=1, keepdims=True)
    along /= np.where(size > 0.0, size, 1.0)
    along /= np.where(size > 0.0, np.linalg.norm(along, axis=1, keepdims=True), 1.0)
    own = points - np.take_along_axis(points, first[:, :, None], axis=1)
    place = np.einsum("nmd,nd->nm", own, along)
    moved, end = own.copy(), np.zeros(n)
    for m in range(n_values):
        group = (first == m) & (first[:, [m]] == m)
        starts = group.any(axis=1)
        low = np.where(group, place, np.inf).min(axis=1, initial=np.inf)
        high = np.where(group, place, -np.inf).max(axis=1, initial=-np.inf)
        shift = np.where(starts, end + widest - low, 0.0) if m else np.zeros(n)
        moved += np.where(group, shift[:, None], 0.0)[:, :, None] * along[:, None, :]
        end = np.where(starts, shift + high, end)
    return np.where((other > 0)[:, None, None], moved, points)


def _groups(points: FloatArray, widest: FloatArray) -> IntArray:
    """First point of the group of every point, (n, M): chains of gaps that are not wide."""
    n, n_values, _ = points.shape
    linked = np.empty((n, n_values, n_values), dtype=np.float32)
    with np.errstate(over="ignore"):
        for m in range(n_values):
            linked[:, m] = _lengths(points - points[:, [m]]) <= widest[:, None]
    for _ in range(int(np.ceil(np.log2(n_values)))):
        linked = np.minimum(linked @ linked, 1.0)
    return np.argmax(linked > 0.0, axis=2)


def _lengths(vectors: FloatArray) -> FloatArray:
    """Euclidean lengths (...), of vectors (..., d) whose squares may overflow."""
    size = np.abs(vectors).max(axis=-1)
    known = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = known * np.linalg.norm(vectors / known[..., None], axis=-1)
    return np.where(np.isinf(size), np.inf, lengths)
