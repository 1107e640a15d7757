"""Guessing where every two releases are mu-GDP neighbours and no common reference is known.

With decision regions A_m, ``s_m = P_m(A_m)`` and ``g(s) = Phi(Phi^-1(s) - mu)``, the trade-off
between the values k and m says ``P_m(A_k) >= g(s_k)``, and the regions fill the space:

    success = sum_m p_m s_m,    s_m + sum_{k != m} g(s_k) <= 1  for every m.

g is convex, so this is a convex program. Its Lagrangian separates: for any ``w_m >= 0`` with sum W

    success <= W + sum_m max_s [ (p_m - w_m) s - (W - w_m) g(s) ]
             = W + sum_m (p_m - w_m)_+ Phi(u_m) - (W - w_m) Phi(u_m - mu),
    u_m = mu / 2 + log((p_m - w_m)_+ / (W - w_m)) / mu.

What is returned is this expression, an upper bound for *any* w: solving badly only enlarges it.

The best w. At W the best weights equalize ``s_m - g(s_m)`` over the values that have one. That
function of s is the same at the likelihood ratios r < 1 and 1 / r, so that one number r decides
all: ``w_m = (min(p_m, W) - r max(p_m, W))_+ / (1 - r)``, with r such that their sum is W. The dual
is convex in W, with slope ``1 - sum_m g(s_m) - c``, c being the common ``s - g(s)``.
"""

import numpy as np
from scipy.optimize import elementwise
from scipy.special import log_ndtr, ndtr, ndtri

from skleak.bounds._prior import is_likeliest
from skleak.bounds._water_filling import MAX_DISTANCE, TINY
from skleak.utils._typing import FloatArray

# Bisections of log W, whose optimum lies within the first factor of the likeliest value.
LOWEST_LOG_TOTAL = -30.0
BISECTIONS = 60


def pairwise_advantage(mu: FloatArray, prior: FloatArray) -> FloatArray:
    """Bound the advantage for mu of shape (n,) and priors of shape (n, M), from the dual."""
    mu = np.clip(mu, TINY, MAX_DISTANCE)[:, np.newaxis]
    largest = prior.max(axis=1, keepdims=True)
    # Relative to the likeliest value: only its weight is 1 where the prior decides alone.
    p = prior / largest
    low, high = np.full(len(p), LOWEST_LOG_TOTAL), -np.log(largest[:, 0])
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        rising = _slope(mu, p, np.exp(middle)[:, np.newaxis]) >= 0.0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    total = np.exp(0.5 * (low + high))[:, np.newaxis]
    star = is_likeliest(p)
    rest = np.where(star, 0.0, p).sum(axis=1)
    solved = _dual_gain(mu, p, _weights(p, total)[0])
    prior_alone = _dual_gain(mu, p, np.where(star, 1.0, 0.0))
    return np.clip(np.minimum(solved, prior_alone) / rest, 0.0, 1.0)


def _weights(p: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Best weights of shape (n, M) with that sum, and the likelihood ratio r of shape (n, 1).

    ``sum_m (low_m - r high_m)_+ = (1 - r) W`` is solved exactly: its left side is a maximum of
    lines, each the sum over the values above some ratio ``low_m / high_m``.
    """
    low, high = np.minimum(p, total), np.maximum(p, total)
    order = np.argsort(-low / high, axis=1)
    lows = np.cumsum(np.take_along_axis(low, order, axis=1), axis=1) - total
    highs = np.cumsum(np.take_along_axis(high, order, axis=1), axis=1) - total
    roots = np.where((lows > 0.0) & (highs > 0.0), lows / np.where(highs > 0.0, highs, 1.0), 0.0)
    ratio = np.minimum(roots.max(axis=1, keepdims=True), 1.0 - 1e-15)
    return np.maximum(low - ratio * high, 0.0) / (1.0 - ratio), ratio


def _slope(mu: FloatArray, p: FloatArray, total: FloatArray) -> FloatArray:
    """Return the derivative of the dual in W, of shape (n,)."""
    weights, ratio = _weights(p, total)
    thresholds = _thresholds(mu, p, weights, total)
    with np.errstate(divide="ignore", over="ignore"):
        common = 0.5 * mu + np.log(ratio) / mu
    level = (ndtr(common) - ndtr(common - mu))[:, 0]
    return 1.0 - ndtr(thresholds - mu).sum(axis=1) - level


def _thresholds(
    mu: FloatArray, p: FloatArray, weights: FloatArray, total: FloatArray
) -> FloatArray:
    """``u_m = Phi^-1(s_m)`` of shape (n, M)."""
    gain, loss = np.maximum(p - weights, 0.0), np.maximum(total - weights, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        thresholds = 0.5 * mu + (np.log(gain) - np.log(loss)) / mu
    return np.where(gain > 0.0, thresholds, -np.inf)


def _dual_gain(mu: FloatArray, p: FloatArray, weights: FloatArray) -> FloatArray:
    """Dual function at any weights, less the prior's best guess, over p*; shape (n,)."""
    total = weights.sum(axis=1, keepdims=True)
    u = _thresholds(mu, p, weights, total)
    gain, loss = np.maximum(p - weights, 0.0), np.maximum(total - weights, 0.0)
    return (total[:, 0] - 1.0) + (gain * ndtr(u) - loss * ndtr(u - mu)).sum(axis=1)


def uniform_pairwise_advantage(mu: FloatArray, n_values: FloatArray) -> FloatArray:
    """Bound the advantage for M equally likely values, however many: a root in one dimension.

    All ``s_m`` are equal by symmetry and convexity, so ``s + (M - 1) g(s) = 1``, which is solved
    for ``Phi^-1(s)`` above that of 1 / M as ``Phi(-u) = (M - 1) Phi(u - mu)``.
    """
    mu, n_values = np.broadcast_arrays(np.clip(mu, 0.0, MAX_DISTANCE), n_values)
    start = ndtri(1.0 / n_values)
    log_others = np.log(n_values - 1.0)

    def excess(step: FloatArray, mu: FloatArray, *rest: FloatArray) -> FloatArray:
        start, log_others = rest
        return log_others + log_ndtr(start + step - mu) - log_ndtr(-(start + step))

    # s lies between 1 / M and what a reference among the values would allow.
    found = elementwise.find_root(
        excess,
        (np.full(mu.shape, -1e-9), mu + 1e-9),
        args=(mu, start, log_others),
        tolerances={"xatol": 0.0, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0},
        maxiter=2000,
    )
    # The upper end of the last bracket errs upwards.
    step = np.clip(np.where(found.f_x >= 0.0, found.x, found.bracket[1]), 0.0, mu)
    growth = np.expm1(log_ndtr(start + step) - log_ndtr(start))
    gain = growth / (n_values - 1.0)
    loss = ndtr(-(start + step)) * (n_values / (n_values - 1.0))
    # Small gains as a ratio, small failures directly: each keeps its digits.
    return np.clip(np.where(gain < 0.5, gain, 1.0 - loss), 0.0, 1.0)
