"""Encodings that lie so far apart that no noise bridges the gap."""

import numpy as np

from skleak.utils._typing import FloatArray
from skleak.utils.geometry._half_spaces import FAR


def without_wide_gaps(points: FloatArray, scale: FloatArray) -> FloatArray:
    """Narrow gaps that no release crosses, so that near points keep their digits beside far ones.

    Where the points leave a gap of more than ``2 FAR`` standard deviations in one coordinate, no
    noise carries a release to the other side, before or after: guesses succeed as often. Points
    on one side of it keep their differences, which a common mean or scale of all would round off.

    Shapes: ``points`` (n, M, d); ``scale`` (n, 1, 1), the noise; returns (n, M, d): rows without
    such a gap as they are, others up to a translation.
    """
    order = np.argsort(points, axis=1)
    with np.errstate(over="ignore"):
        gaps = np.diff(np.take_along_axis(points, order, axis=1), axis=1)
    widest = 2.0 * FAR * scale
    wide = np.any(gaps > widest, axis=(1, 2), keepdims=True)
    if not np.any(wide):
        return points
    steps = np.cumsum(np.minimum(gaps, widest), axis=1)
    near = np.empty_like(points)
    steps = np.concatenate([np.zeros_like(points[:, :1]), steps], axis=1)
    np.put_along_axis(near, order, steps, axis=1)
    return np.where(wide, near, points)
