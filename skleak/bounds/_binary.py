"""Divergences between two coins, and the largest success they allow.

A guess is right or wrong: a coin. By data processing, the divergence between the coin of an
attack and the coin of guessing without the release is at most the divergence between release
and no release. Everything here is written in terms of the advantage ``a``, with

    success = q + a (1 - q),    failure = (1 - q) (1 - a),

so that nothing cancels when ``a`` is close to 0, or ``q`` as small as 1e-10.
"""

import numpy as np
from scipy.optimize import elementwise

from skleak.utils._typing import FloatArray

# Below this |x|, power series replace differences of nearly equal numbers.
SERIES_RADIUS = 0.05
SERIES_TERMS = 16
# Orders closer to 1 than this are treated as 1: divergences grow with the order, so the bound
# can only become larger by it.
ORDER_ONE = 1e-7
# log of a power that stays away from overflow
LARGE_EXPONENT = 200.0


def _entropy_term(x: FloatArray) -> FloatArray:
    """``(1 + x) log(1 + x) - x`` for ``x >= -1``: non-negative, to full relative precision."""
    small = np.abs(x) < SERIES_RADIUS
    y = np.where(small, x, 0.0)
    series = np.zeros_like(y)
    for k in range(SERIES_TERMS, 1, -1):
        series = series * -y + 1.0 / (k * (k - 1))
    big = np.where(small, 0.0, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(big == -1.0, 1.0, (1.0 + big) * np.log1p(big) - big)
    return np.where(small, series * y * y, exact)


def _power_term(x: FloatArray, order: FloatArray) -> FloatArray:
    """``(1 + x)^order - 1 - order x`` for ``x >= -1``, ``order > 1``: non-negative likewise."""
    small = np.maximum(order, 1.0) * np.abs(x) < SERIES_RADIUS
    y = np.where(small, x, 0.0)
    alpha = np.where(small, order, 2.0)
    term = 0.5 * alpha * (alpha - 1.0) * y * y
    series = np.zeros_like(term)
    for k in range(3, SERIES_TERMS + 2):
        series = series + term
        term = term * (alpha - k + 1.0) / k * y
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exponent = order * np.log1p(np.where(small, 0.0, x))
        exact = np.expm1(exponent) - order * np.where(small, 0.0, x)
    return np.where(small, series, exact)


def bernoulli_divergence(
    advantage: FloatArray, q: FloatArray, rest: FloatArray, order: FloatArray
) -> FloatArray:
    """Renyi divergence between the coins ``q + a (1 - q)`` and ``q``.

    Shapes: ``advantage`` (...); ``q``, ``rest`` (...), success and failure probability without the
    release; they sum to 1; ``order`` (...); returns (...): in nats; increasing in ``advantage``
    from 0 to ``log(1 / q)``.
    """
    advantage, q, rest, order = np.broadcast_arrays(advantage, q, rest, order)
    gain = advantage * rest / q
    first = (order - 1.0 < ORDER_ONE) | np.isinf(order)
    alpha = np.where(first, 2.0, order)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        right = np.log(q) + alpha * np.log1p(gain)
        wrong = np.log(rest) + alpha * np.log1p(-advantage)
        large = alpha * np.log1p(gain) > LARGE_EXPONENT
        terms = q * _power_term(gain, alpha) + rest * _power_term(-advantage, alpha)
        total = np.where(large, np.logaddexp(right, wrong), np.log1p(terms))
    finite = total / (alpha - 1.0)
    relative_entropy = q * _entropy_term(gain) + rest * _entropy_term(-advantage)
    return np.where(np.isinf(order), np.log1p(gain), np.where(first, relative_entropy, finite))


def largest_advantage(
    budget: FloatArray, q: FloatArray, rest: FloatArray, order: FloatArray
) -> FloatArray:
    """Largest advantage over ``q`` whose divergence from it stays within ``budget``.

    Shapes: ``budget`` (...), divergence allowed, in nats, at least 0; infinity is allowed; ``q``,
    ``rest`` (...), success and failure probability without the release; they sum to 1; ``order``
    (...); returns (...): in [0, 1]. The upper end of the last bracket of the root: it errs
    upwards.
    """
    budget, q, rest, order = np.broadcast_arrays(budget, q, rest, order)
    certain = budget >= -np.log(q)
    inside = ~certain & (budget > 0.0)
    result = np.where(certain, 1.0, np.zeros(budget.shape))
    if np.any(inside):
        result[inside] = _invert(budget[inside], q[inside], rest[inside], order[inside])
    return result


def _invert(budget: FloatArray, q: FloatArray, rest: FloatArray, order: FloatArray) -> FloatArray:
    """Solve ``bernoulli_divergence(a, q, rest, order) = budget`` for flat arrays."""

    def excess(a: FloatArray, b: FloatArray, *coin: FloatArray) -> FloatArray:
        return bernoulli_divergence(a, *coin) - b

    found = elementwise.find_root(
        excess,
        (np.zeros_like(budget), np.ones_like(budget)),
        args=(budget, q, rest, order),
        tolerances={"xatol": 0.0, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0},
        maxiter=2000,
    )
    return np.where(found.f_x >= 0.0, found.x, found.bracket[1])


def divergence_from_uniform(probabilities: FloatArray, order: FloatArray) -> FloatArray:
    """Renyi divergence of a prior from the uniform law on its support, ``log M - H_order``.

    Shapes: ``probabilities`` (..., M); ``order`` (...); returns (...): in nats, at least 0, and 0
    to round-off squared for a uniform prior.
    """
    support = probabilities > 0.0
    size = np.count_nonzero(support, axis=-1)[..., np.newaxis].astype(float)
    gain = np.where(support, size * probabilities - 1.0, 0.0)
    order = np.asarray(order)[..., np.newaxis]
    first = (order - 1.0 < ORDER_ONE) | np.isinf(order)
    alpha = np.where(first, 2.0, order)
    relative_entropy = (_entropy_term(gain) / size).sum(axis=-1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exponents = np.where(support, alpha * np.log1p(gain), -np.inf)
        top = exponents.max(axis=-1)
        shifted = np.exp(exponents - top[..., np.newaxis]).sum(axis=-1)
        logs = top + np.log(shifted) - np.log(size[..., 0])
        terms = (np.where(support, _power_term(gain, alpha), 0.0) / size).sum(axis=-1)
        finite = np.where(top > LARGE_EXPONENT, logs, np.log1p(terms)) / (alpha[..., 0] - 1.0)
    largest = np.log1p(gain.max(axis=-1))
    result = np.where(first[..., 0], relative_entropy, finite)
    return np.where(np.isinf(order[..., 0]), largest, result)
