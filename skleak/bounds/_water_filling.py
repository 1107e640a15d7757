"""Success against a reference Gaussian: maximise over how the reference's mass is split.

For a reference Q = N(c, sigma^2 I) the decision regions A_m partition the space, so their masses
kappa_m = Q(A_m) sum to 1, and by Neyman and Pearson region m catches at most
``Phi(Phi^-1(kappa_m) + d_m)`` of N(e_m, sigma^2 I), ``d_m = |e_m - c| / sigma``. Hence

    success <= max { sum_m p_m Phi(Phi^-1(kappa_m) + d_m) : sum_m kappa_m = 1 }.

Its Lagrange dual is a convex function of one multiplier nu, and *any* nu > 0 gives an upper bound:

    g(nu) = nu + sum_m [ p_m Phi(u_m) - nu Phi(t_m) ],
    t_m = log(p_m / nu) / d_m - d_m / 2,   u_m = t_m + d_m.

So what is returned is always a bound, however well the multiplier is solved for.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from skleak.bounds._prior import is_likeliest
from skleak.utils._typing import FloatArray

# Beyond this distance a normal tail is zero in float64, whatever mass the region has.
MAX_DISTANCE = 1e3
# Stands for a distance of zero where one divides by it.
TINY = np.finfo(float).tiny
MAX_ITERATIONS = 200
MASS_TOLERANCE = 1e-13


class WaterFilling(NamedTuple):
    """The bound for a batch of channels, and what its gradient needs.

    ``advantage`` (n,): upper bound on the advantage, in [0, 1].
    ``sensitivity`` (n, M): ``p_m phi(u_m)``, the derivative of the bound on the success with
        respect to ``d_m``.
    """

    advantage: FloatArray
    sensitivity: FloatArray


def water_filling(distances: FloatArray, prior: FloatArray) -> WaterFilling:
    """Bound the advantage of guessing from distances to a reference.

    Shapes: ``distances`` (n, M); ``prior`` (n, M), rows sum to 1, at least two entries of each are
    positive.
    """
    d = np.clip(distances, TINY, MAX_DISTANCE)
    # Everything is relative to the likeliest value, so that ties are exact.
    weights = prior / prior.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    level = _solve_level(d, weights, log_weights)
    gain, error, sensitivity = _dual(d, weights, log_weights, level)
    # At nu = p* the bound is exact where the prior decides alone.
    flat_gain, flat_error, flat_sensitivity = _dual(d, weights, log_weights, np.zeros_like(level))
    flat = flat_gain <= gain
    gain, error = np.where(flat, flat_gain, gain), np.where(flat, flat_error, error)
    sensitivity = np.where(flat[:, np.newaxis], flat_sensitivity, sensitivity)
    rest = np.where(is_likeliest(weights), 0.0, weights).sum(axis=1)
    # Both forms are the same number; each keeps its digits on its own side of 1/2.
    advantage = np.where(gain < 0.5 * rest, gain / rest, 1.0 - error / rest)
    return WaterFilling(
        np.clip(advantage, 0.0, 1.0), sensitivity * prior.max(axis=1, keepdims=True)
    )


def _thresholds(d: FloatArray, log_weights: FloatArray, level: FloatArray) -> FloatArray:
    """``t_m`` of the regions at the multiplier ``exp(level)``."""
    with np.errstate(over="ignore"):
        return (log_weights - level[:, np.newaxis]) / d - 0.5 * d


def _dual(
    d: FloatArray, weights: FloatArray, log_weights: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Dual function minus 1, 1 + rest minus it, and its derivative in ``d``, over ``p*``."""
    t = _thresholds(d, log_weights, level)
    u = t + d
    nu = np.exp(level)[:, np.newaxis]
    star = is_likeliest(weights)
    others = np.where(star, 0.0, weights * ndtr(u) - nu * ndtr(t)).sum(axis=1)
    own = np.where(star, nu * ndtr(-t) - weights * ndtr(-u), 0.0).sum(axis=1)
    spare = np.where(star, ndtr(-t), -ndtr(t)).sum(axis=1)
    error = (weights * ndtr(-u)).sum(axis=1) - nu[:, 0] * spare
    with np.errstate(over="ignore"):
        density = np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
    return others + own, error, weights * density


def _solve_level(d: FloatArray, weights: FloatArray, log_weights: FloatArray) -> FloatArray:
    """``log nu`` at which the regions' masses sum to one: Newton's method inside a bracket."""
    positive = weights > 0.0
    share = ndtri(1.0 / np.count_nonzero(positive, axis=1))[:, np.newaxis]
    # Where every region has mass 1 / M or less (or more), so does their sum.
    even = log_weights - d * (share + 0.5 * d)
    high = np.where(positive, even, -np.inf).max(axis=1)
    low = np.where(positive, even, np.inf).min(axis=1)
    level = 0.5 * (low + high)
    active = np.arange(len(level))
    for _ in range(MAX_ITERATIONS):
        here, below, above = level[active], low[active], high[active]
        t = _thresholds(d[active], log_weights[active], here)
        mass = ndtr(t).sum(axis=1)
        below, above = np.where(mass >= 1.0, here, below), np.where(mass <= 1.0, here, above)
        with np.errstate(all="ignore"):
            slope = (np.exp(-0.5 * t * t) / d[active]).sum(axis=1) / np.sqrt(2.0 * np.pi)
            newton = here + np.log(mass) * mass / slope
        inside = (newton > below) & (newton < above)
        done = (np.abs(mass - 1.0) <= MASS_TOLERANCE) | (above - below <= 1e-15 * (1.0 - below))
        level[active] = np.where(done, here, np.where(inside, newton, 0.5 * (below + above)))
        low[active], high[active] = below, above
        active = active[~done]
        if active.size == 0:
            break
    return level
