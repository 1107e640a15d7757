"""Renyi divergence of secret and release from a reference: the release of the likeliest value.

With Q the release P_* of the likeliest value, no divergence is paid where the secret has it:

    D_order(P_XY || p x Q) = log sum_m p_m exp((order - 1) D_order(P_m || P_*)) / (order - 1)
                          <= log(p* + (1 - p*) exp((order - 1) epsilon)) / (order - 1).

Arimoto's information of an order, which [FANO23] bounds, is the least such divergence over Q for
the escort prior, proportional to ``p_m^order`` (Verdu 2015): there p* is that of the escort.
"""

import numpy as np
from scipy.special import logsumexp

from skleak.bounds._prior import Prior, is_likeliest
from skleak.utils._typing import FloatArray

# Beyond this exponent the sum of exponentials is far from 1 and its logarithm needs no care.
LARGE_EXPONENT = 30.0


def reference_divergence(epsilon: FloatArray, prior: Prior, order: FloatArray) -> FloatArray:
    """Bound the divergence of secret and release from independence (...), at most epsilon."""
    return _mixed(epsilon, np.log(prior.largest), np.log(prior.rest), np.asarray(order), 0.0)


def arimoto_information(epsilon: FloatArray, prior: Prior, order: FloatArray) -> FloatArray:
    """Bound Arimoto's information of an order in nats, shape (...); at most epsilon."""
    order = np.asarray(order)
    if prior.probabilities is None:
        return reference_divergence(epsilon, prior, order)
    p = prior.probabilities
    with np.errstate(divide="ignore"):
        odds = np.where(is_likeliest(p), -np.inf, np.log(p / prior.largest[..., np.newaxis]))
    runner_up = odds.max(axis=-1)
    finite = np.where(np.isinf(order), 1.0, order)
    others = logsumexp(finite[..., np.newaxis] * odds, axis=-1)
    everything = np.logaddexp(0.0, others)
    return _mixed(epsilon, -everything, others - everything, order, runner_up)


def _mixed(
    epsilon: FloatArray,
    log_top: FloatArray,
    log_rest: FloatArray,
    order: FloatArray,
    limit: FloatArray | float,
) -> FloatArray:
    """``log(top + rest exp((order - 1) epsilon)) / (order - 1)``; order inf adds ``limit``."""
    special = (order == 1.0) | np.isinf(order)
    excess = np.where(special, 1.0, order - 1.0)
    with np.errstate(over="ignore"):
        exponent = excess * epsilon
        near = np.log1p(np.exp(log_rest) * np.expm1(np.minimum(exponent, LARGE_EXPONENT)))
    total = np.where(exponent <= LARGE_EXPONENT, near, np.logaddexp(log_top, log_rest + exponent))
    first = np.exp(log_rest) * epsilon
    last = np.maximum(epsilon + limit, 0.0)
    result = np.where(order == 1.0, first, np.where(np.isinf(order), last, total / excess))
    return np.minimum(result, epsilon)
