"""Gaffke's upper confidence limit of the mean of a bounded variable, without simulation.

Give the sorted sample and the upper end of the range random weights that are uniform on the
simplex; the limit is a quantile of the weighted mean. With numbers in {0, 1} the weighted mean has
a Beta distribution and the limit is the one of Clopper and Pearson.

Up to a positive factor the weights are independent exponential variables, so the distribution
function is the probability that a combination of exponentials is positive: a contour integral of
its moment generating function, taken through the saddlepoint, where nothing oscillates.
"""

import numpy as np
from scipy.optimize import elementwise

from skleak.utils._typing import FloatArray, IntArray

# The integrand decays at least like exp(-u).
LARGEST_U = 40.0
NEGLIGIBLE = 1e-15
FIRST_STEP = 0.25
MAX_HALVINGS = 8
ACCURACY = 1e-9
# Of the saddlepoint, whose place hardly matters.
NEAR = 1e-6
MOST_STEPS = 60
# Points of the contour that are looked at together, and what they may hold in memory.
MOST_AT_ONCE = 8
ELEMENTS = 2**15
# Brackets are exact; this keeps round-off at their ends from hiding the change of sign.
MARGIN = 1e-9


def upper_limit(values: FloatArray, tail: float) -> FloatArray:
    """Upper confidence limit, at level ``1 - tail``, of the mean of variables in [0, 1].

    Shapes: ``values`` (..., n); returns (...): in [0, 1].

    N. Gaffke. Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable. Mathematical Methods of Statistics 14, 2005.
    """
    n = values.shape[-1]
    deficits = 1.0 - values.reshape(-1, n)
    largest = deficits.max(axis=-1)
    # In units of the largest deficit the limit depends on the shape of the sample only.
    open_rows = np.flatnonzero(largest > 0.0)
    shapes = deficits[open_rows] / largest[open_rows, np.newaxis]

    def excess(y: FloatArray, row: IntArray) -> FloatArray:
        return _log_distribution(y, shapes[row]) - np.log(tail)

    limit = np.ones(len(deficits))
    if len(open_rows):
        # The two extreme shapes: a single deficit, and equal deficits.
        least = -np.expm1(np.log1p(-tail) / n) * (1.0 - MARGIN)
        most = tail ** (1.0 / n) * (1.0 + MARGIN)
        ends = np.full(len(open_rows), least), np.full(len(open_rows), most)
        root = elementwise.find_root(
            excess, ends, args=(np.arange(len(open_rows)),), tolerances={"xrtol": 1e-12}
        )
        # Should a root not be found, the lower end of its bracket is valid, only wider.
        limit[open_rows] -= largest[open_rows] * np.where(root.success, root.x, least)
    return limit.reshape(values.shape[:-1])


def _log_distribution(y: FloatArray, deficits: FloatArray) -> FloatArray:
    """Log-probability that the weighted mean of the deficits and one zero is at most ``y``.

    ``y`` has shape (m,), `deficits` has shape (m, n) and row maxima 1. With independent
    exponential ``E`` it is the event ``E_0 + sum_i (1 - deficits_i / y) E_i >= 0``.
    """
    slopes = np.concatenate([np.ones((len(y), 1)), 1.0 - deficits / y[:, np.newaxis]], axis=1)
    s = _saddlepoint(slopes)
    room = 1.0 - slopes * s[:, np.newaxis]
    ratios = slopes / room
    width = 1.0 / np.sqrt((ratios**2).sum(axis=-1) + s**-2.0)
    area = _contour_integral(ratios * width[:, np.newaxis], width / s)
    return -np.log(room).sum(axis=-1) - np.log(s) + np.log(width * area / np.pi)


def _saddlepoint(slopes: FloatArray) -> FloatArray:
    """Zero s of ``sum_j slopes_j / (1 - slopes_j s) - 1 / s`` in (0, 1), per row.

    Any other s in (0, 1) would give the same integral, with more oscillation. What is increasing
    has one zero: Newton's steps, and halves of the bracket where one leaves it.

    Shapes: ``slopes`` (m, n + 1), the first column 1 and none above; returns (m,).
    """
    n = slopes.shape[1] - 1
    low, high = np.full(len(slopes), 1.0 / (n + 2.0)), np.full(len(slopes), (n + 1.0) / (n + 2.0))
    s = 0.5 * (low + high)
    for _ in range(MOST_STEPS):
        ratios = slopes / (1.0 - slopes * s[:, np.newaxis])
        value = ratios.sum(axis=1) - 1.0 / s
        low, high = np.where(value <= 0.0, s, low), np.where(value >= 0.0, s, high)
        # Times s (1 - s), as the poles at both ends would shorten the steps.
        weight = s * (1.0 - s)
        slope = weight * ((ratios**2).sum(axis=1) + s**-2.0) + (1.0 - 2.0 * s) * value
        with np.errstate(divide="ignore", invalid="ignore"):
            step = weight * value / slope
        inside = (s - step > low) & (s - step < high)
        previous, s = s, np.where(inside, s - step, 0.5 * (low + high))
        if np.all(np.abs(s - previous) <= NEAR * weight):
            break
    return s


def _contour_integral(ratios: FloatArray, pole: FloatArray) -> FloatArray:
    """Integrate ``Re prod_j 1 / (1 - i r_j t) / (1 + i pole t)`` over t > 0, per row.

    Trapezoidal rule after ``t = sinh(u)``, with steps halved until nothing changes: all
    singularities lie at ``|Im u| >= pi / 2``, so the number of right digits doubles each time.
    """
    step = FIRST_STEP
    area = step * (0.5 + _sum_along_contour(ratios, pole, step, step))
    for _ in range(MAX_HALVINGS):
        previous = area
        area = 0.5 * (area + step * _sum_along_contour(ratios, pole, 0.5 * step, step))
        if np.all(np.abs(area - previous) <= ACCURACY * area):
            break
        step *= 0.5
    return area


def _sum_along_contour(
    ratios: FloatArray, pole: FloatArray, start: float, step: float
) -> FloatArray:
    total = np.zeros(len(pole))
    points = np.arange(start, LARGEST_U, step)
    at_once = int(np.clip(ELEMENTS // ratios.size, 1, MOST_AT_ONCE))
    for u in np.split(points, range(at_once, len(points), at_once)):
        t = np.sinh(u)
        scaled = ratios[:, np.newaxis] * t[:, np.newaxis]  # (m, len(u), n + 1)
        turned = pole[:, np.newaxis] * t
        log_size = -0.5 * (np.log1p(scaled**2).sum(axis=-1) + np.log1p(turned**2))
        size = np.exp(log_size) * np.cosh(u)
        total += (size * np.cos(np.arctan(scaled).sum(axis=-1) - np.arctan(turned))).sum(axis=1)
        if np.all(size[:, -1] < NEGLIGIBLE):
            break
    return total
