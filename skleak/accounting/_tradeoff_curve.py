"""Trade-off curves from privacy loss distributions and privacy profiles."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from skleak.utils._typing import FloatArray

# Epsilons at which the curve is supported: finely where most tests lie, out to exp(-40), and near
# zero, where those of releases that tell little lie.
_EPSILONS = np.unique(
    np.r_[np.geomspace(1e-5, 0.5, 400), np.arange(0.0, 10.0, 0.01), np.arange(10.0, 40.0, 0.05)]
)
# Deltas are raised by more than the rounding of transforms and sums takes from them.
ROUND_UP = 1e-11


def tradeoff_curve(guarantee: Any) -> tuple[FloatArray, FloatArray]:
    """Bound the trade-off curve of a release from its privacy profile or privacy loss distribution.

    A profile ``delta(epsilon)`` supports the curve f by the lines ``1 - delta - exp(epsilon)
    alpha`` and their mirror images ``exp(-epsilon) (1 - delta - alpha)`` (Dong, Roth, Su 2022,
    proposition 6). What is returned are the corners of the polygon that these lines bound. It is
    nowhere above f, in either order of the two data sets, wherever delta is nowhere below the
    truth, as it is for the pessimistic estimates of dp-accounting.

    Parameters
    ----------
    guarantee : object
        A ``PrivacyLossDistribution`` of dp-accounting; an accountant of dp-accounting, or anything
        else with ``get_delta(epsilon)``; a ``CTDAccountant`` of riskcal, or anything else with
        ``get_pld()``; or a function of epsilon, at least 0, that returns delta. It has to hold for
        both orders of two data sets: one that is made of two laws needs ``symmetric=False``. Its
        relation and its unit of privacy are those of the curve.

    Returns
    -------
    alpha : ndarray of shape (n_corners,)
        False-positive rates, ascending from 0 to 1 at most.
    beta : ndarray of shape (n_corners,)
        Least false-negative rates, descending to 0. Straight lines between the corners hold:
        `bounds.curve_advantage(alpha, beta, prior, between="linear")`.

    Raises
    ------
    TypeError
        For any other object.
    ValueError
        For a negative delta, or NaN.

    See Also
    --------
    subsampled_gaussian_tradeoff : The curve of private stochastic gradient descent.
    skleak.bounds.curve_advantage : What an attacker can guess at most, from a curve.

    Examples
    --------
    The curve of (1, 0)-differential privacy has a corner, where both rates are 0.269:

    >>> import math
    >>> def delta(epsilon):
    ...     return max(0.0, (math.e - math.exp(epsilon)) / (math.e + 1.0))
    >>> alpha, beta = tradeoff_curve(delta)
    >>> round(float(alpha[1]), 3), round(float(beta[1]), 3)
    (0.269, 0.269)
    """
    delta = _profile(guarantee)
    bad = ~(delta > -ROUND_UP)
    if bad.any():
        raise ValueError(
            "`guarantee` must give a delta of at least 0 at every epsilon; got "
            f"{delta[bad][0]:g} at epsilon {_EPSILONS[bad][0]:g}."
        )
    # The masses of a pessimistic distribution may sum up to a little more than one.
    height = np.maximum(1.0 - np.maximum(delta, 0.0) - ROUND_UP, 0.0)
    # A line of slope exp(epsilon), and its mirror image.
    slopes = np.exp(np.r_[_EPSILONS, -_EPSILONS])
    heights = np.r_[height, height * np.exp(-_EPSILONS)]
    order = np.lexsort((heights, slopes))
    return _corners(slopes[order], heights[order])


def _profile(guarantee: Any) -> FloatArray:
    """Deltas at the epsilons, (n,)."""
    if hasattr(guarantee, "get_pld"):
        guarantee = guarantee.get_pld()
    if hasattr(guarantee, "get_delta_for_epsilon"):
        return np.asarray(guarantee.get_delta_for_epsilon(_EPSILONS), dtype=np.float64)
    delta: Callable[[Any], Any] = getattr(guarantee, "get_delta", guarantee)
    if not callable(delta) or isinstance(delta, type):
        raise TypeError(
            "`guarantee` must be a privacy loss distribution or an accountant of dp-accounting, an "
            "accountant of riskcal, or a function of epsilon that returns delta; got "
            f"{type(guarantee).__name__}."
        )
    if hasattr(guarantee, "get_delta"):
        # Some accountants take many epsilons at once, and are slow about them one by one.
        with suppress(TypeError, ValueError):
            found = np.asarray(delta(_EPSILONS), dtype=np.float64)
            if found.shape == _EPSILONS.shape:
                return found
    return np.array([float(delta(epsilon)) for epsilon in _EPSILONS.tolist()])


def _corners(slopes: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of ``max(0, max_k heights_k - slopes_k alpha)``, slopes (n,) ascending, in [0, 1]."""
    lines: list[tuple[float, float]] = [(0.0, 0.0)]
    for slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
        while lines and (
            (lines[-1][0] == slope and lines[-1][1] <= height)
            or (len(lines) > 1 and _is_hidden(lines[-2], lines[-1], (slope, height)))
        ):
            lines.pop()
        if height > lines[-1][1]:  # steeper and lower is hidden wherever alpha is positive
            lines.append((slope, height))
    m, h = np.array(lines).T
    alpha = np.diff(h) / np.diff(m)  # descending: steep lines are the highest on the left
    beta = h[1:] - m[1:] * alpha
    return np.r_[0.0, alpha[::-1]], np.maximum(np.r_[h[-1], beta[::-1]], 0.0)


def _is_hidden(
    flat: tuple[float, float], middle: tuple[float, float], steep: tuple[float, float]
) -> bool:
    """Tell whether the middle line lies below the highest of a flatter and a steeper one."""
    left = (steep[1] - middle[1]) * (middle[0] - flat[0])
    return left >= (middle[1] - flat[1]) * (steep[0] - middle[0])
