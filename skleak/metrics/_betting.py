"""Proven confidence limit of the mean of a bounded variable: betting against a claimed mean.

Whoever believes that the mean of x_1, x_2, ... in [0, 1] is at most m accepts bets that multiply a
capital of 1 by ``1 + b_i (x_i - m)``, with any stake ``0 <= b_i <= 1 / m`` that depends on earlier
observations only. Under the claim the capital is a supermartingale of mean at most 1, whatever the
distribution and the number of observations, so that by Markov's inequality it reaches ``1 / tail``
with probability at most ``tail``. The limit is the smallest m that is not rejected so; the capital
falls in m, as every factor does. The average capital over fixed orders of the observations has a
mean of at most 1 as well, and hardly depends on the order in which they came.

The stakes are the predictable plug-in of Waudby-Smith and Ramdas, ``sqrt(2 log(1 / tail) /
(n v_i))`` with v_i the variance of the observations before, cut off at ``3 / (4 m)``.
"""

from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Orders of the observations whose capitals are averaged, the given one among them. They are fixed:
# an order chosen by the data would break the proof.
N_ORDERS = 16
LARGEST_SHARE = 0.75
BISECTIONS = 45


def lower_limit(values: FloatArray, tail: float) -> FloatArray:
    """Lower confidence limit, at level ``1 - tail``, of the mean of variables in [0, 1].

    Shapes: ``values`` (..., n); returns (...): in [0, 1], at most the mean of the values.

    I. Waudby-Smith and A. Ramdas. Estimating means of bounded random variables by betting. Journal
    of the Royal Statistical Society Series B 86, 2024.
    """
    flat = values.reshape(-1, values.shape[-1])
    limits = np.zeros(len(flat))
    for rows in row_blocks(len(flat), N_ORDERS * flat.shape[1]):
        ordered, bets = stakes(flat[rows], tail)
        low, high = np.zeros(len(ordered)), flat[rows].mean(axis=1)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            rejected = log_capital(ordered, bets, middle) >= -np.log(tail)
            low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
        limits[rows] = low
    return limits.reshape(values.shape[:-1])


def stakes(values: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Values in every order, and the stakes before each, of shape (rows, orders, n)."""
    n = values.shape[-1]
    ordered = values[:, _orders(n)]
    counts = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(ordered, axis=-1)) / (counts + 1)
    variances = (0.25 + np.cumsum((ordered - means) ** 2, axis=-1)) / (counts + 1)
    before = np.concatenate([np.full((*ordered.shape[:2], 1), 0.25), variances[..., :-1]], axis=-1)
    return ordered, np.sqrt(-2.0 * np.log(tail) / (n * before))


def log_capital(ordered: FloatArray, bets: FloatArray, mean: FloatArray) -> FloatArray:
    """Logarithm of the capital against means of shape (rows,), averaged over the orders."""
    m = np.maximum(mean, np.finfo(float).tiny)[:, np.newaxis, np.newaxis]
    gains = np.minimum(bets, LARGEST_SHARE / m) * (ordered - m)
    capital = np.log1p(gains).sum(axis=-1)
    return np.asarray(logsumexp(capital, axis=-1) - np.log(N_ORDERS))


@lru_cache(maxsize=8)
def _orders(n: int) -> IntArray:
    """Return the fixed permutations of shape (orders, n), the identity first."""
    generator = np.random.default_rng(0)
    shuffled = [generator.permutation(n) for _ in range(N_ORDERS - 1)]
    return np.stack([np.arange(n), *shuffled])
