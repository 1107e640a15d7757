"""Divergences between discrete distributions, precise where they nearly coincide."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp, xlog1py

from skleak.utils._typing import FloatArray


def relative_entropy(difference: FloatArray, reference: FloatArray) -> FloatArray:
    """Terms of ``KL(P || Q) = sum_y Q (1 + r) log(1 + r) - Q r`` with ``r = (P - Q) / Q``.

    Subtracting ``Q r``, which sums to 0, leaves terms that are squares of r near 0: the sum then
    vanishes as exactly as r does.

    Returns: terms in nats, to be summed over y.
    """
    positive = reference > 0
    ratio = difference / np.where(positive, reference, 1.0)
    terms = reference * (xlog1py(1 + ratio, ratio) - ratio)
    return np.where(positive, terms, np.where(difference > 0, np.inf, 0.0))


def renyi_divergence(p: FloatArray, q: FloatArray, order: float) -> FloatArray:
    """Rényi divergence D_order(P || Q) in nats, along the last axis.

    Shapes: ``p``, ``q`` (..., K); returns (...).
    """
    p, q = np.broadcast_arrays(p, q)
    if order == 1:
        return np.maximum(relative_entropy(p - q, q).sum(axis=-1), 0.0)
    with np.errstate(divide="ignore"):
        log_ratio = np.where(p > 0, np.log(np.where(p > 0, p, 1.0)) - np.log(q), 0.0)
    largest = np.where(p > 0, log_ratio, -np.inf).max(axis=-1)
    if np.isinf(order):
        return np.maximum(largest, 0.0)
    # log sum_y p exp(exponent): by expm1, which keeps its distance from 0, unless that overflows.
    exponent = (order - 1) * log_ratio
    with np.errstate(divide="ignore", over="ignore"):
        moment = np.maximum((p * np.expm1(exponent)).sum(axis=-1), -1.0)
        log_moment = np.log1p(moment)
    overflows = np.isinf(moment) & np.isfinite(largest)
    if overflows.any():
        log_moment = np.where(overflows, logsumexp(exponent, b=p, axis=-1), log_moment)
    return np.maximum(log_moment / (order - 1), 0.0)


def pairwise_information(
    prior: FloatArray, divergences_from: Callable[[int], FloatArray]
) -> FloatArray:
    """``-sum_m p_m log sum_l p_l exp(-KL(P_m || P_l))``, (...), for a prior (..., M).

    The Kullback-Leibler divergences of one secret's releases from those of all are asked for, (M,)
    or (n, M).
    """
    total = np.zeros(())
    for secret in range(prior.shape[-1]):
        own = prior[..., secret]
        overlap = (prior * np.expm1(-divergences_from(secret))).sum(axis=-1)
        # A secret that is never drawn adds nothing, even if no other resembles it.
        total = total - xlog1py(own, np.where(own > 0, overlap, 0.0))
    return total
