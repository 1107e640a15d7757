"""Renyi divergence of subsampled Gaussian noise, by quadrature.

With L the likelihood ratio of a pair (P, Q), ``exp((order - 1) D) - 1`` is the mean under Q of
``L^order - 1 - order (L - 1)``, which is not negative. Of batches of a fixed size only the profile
``h(gamma)`` is known: the divergence is at most the integral of ``order (order - 1)
(gamma^(order - 2) + gamma^(-order - 1)) h(gamma)`` over ``gamma >= 1``. With Q = N(0) and
``L = 1 - q + q exp(t D - D^2/2)`` that is the mean of ``L^order + L^(1 - order) - L - 1`` where
``L >= 1``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from skleak.accounting._subsampled import check_steps
from skleak.utils._arguments import as_result, check_real
from skleak.utils._typing import FloatArray

# The divergence is raised by this much, more than quadrature and round-off are wrong by.
_ROUND_UP = 1e-9
# Standard deviations beyond which integrands have vanished.
_TAIL = 13.0
# Divergence of a step, in nats, from which on sampling is not counted: it hardly lowers it.
_LARGE = 500.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_N_TERMS = 12


def subsampled_gaussian_rdp(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    order: npt.ArrayLike = 2.0,
    *,
    relation: str = "replace",
    sampling: str = "poisson",
) -> Any:
    """Renyi differential privacy of many steps of Gaussian noise on random batches.

    Order 2 is what [DRA22] theorem 1 takes (`bounds.hammersley_chapman_robbins_mse`). Under Poisson
    sampling this is the divergence of the worst pair of data sets: one step is the mixture of N(0)
    and N(1) against that of N(0) and N(-1) under replacement, against N(0) or from it where a
    record is added or removed. For batches of a fixed size it is an upper bound, from the privacy
    profile of `subsampled_gaussian_epsilon`.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch; of batches of a fixed size, that over the number
        of records.
    n_steps : int, at least 1
        Number of batches, each drawn afresh.
    order : array-like of shape (...), default=2
        Orders of the divergence, above 1.
    relation : {"replace", "add-or-remove"}, default="replace"
        What neighbouring data sets are. [DRA22] theorem 1 compares two values of a record, which is
        replacement, and is fed that of adding and removing there.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn; "fixed" is known under replacement alone.

    Returns
    -------
    float or ndarray of shape (...)
        Divergence in nats, rounded upward by a billionth of itself.

    Raises
    ------
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range, an unknown relation or sampling, or batches of a fixed size
        when a record is added or removed.

    See Also
    --------
    rdp : Without sampling.

    Examples
    --------
    >>> round(subsampled_gaussian_rdp(1.0, 0.01, 500), 4)
    0.2288
    >>> round(subsampled_gaussian_rdp(1.0, 0.01, 500, relation="add-or-remove"), 4)
    0.0859
    """
    described = (noise_multiplier, sampling_rate, n_steps, relation, sampling)
    sigma, rate, number = check_steps(*described)
    orders = check_real("order", order, low=1.0, low_open=True, finite=True)
    reach, kind = 1.0 / sigma, relation if sampling == "poisson" else "fixed"
    found = [_one_step(reach, rate, each, kind) for each in orders.ravel().tolist()]
    total = number * np.array(found).reshape(orders.shape) * (1.0 + _ROUND_UP)
    return as_result(total)


def _one_step(reach: float, rate: float, order: float, kind: str) -> float:
    """Divergence of one step, of gradients that are ``reach`` long in units of the noise."""
    whole = 0.5 * order * (reach if kind == "add-or-remove" else 2.0 * reach) ** 2
    if whole * max(1.0, order - 1.0) > _LARGE or rate == 1.0:
        return whole
    if kind == "fixed":
        found = [_fixed(2.0 * reach, rate, order)]
    elif kind == "replace":
        found = [_divergence(reach, -reach, rate, order)]
    else:
        found = [_divergence(reach, 0.0, rate, order), _divergence(0.0, reach, rate, order)]
    return float(min(np.logaddexp(0.0, max(found)) / (order - 1.0), whole))


def _divergence(own: float, other: float, rate: float, order: float) -> float:
    """Logarithm of ``E_Q [L^order - 1 - order (L - 1)]`` for means of the two mixtures."""
    reach = max(abs(own), abs(other))
    end = 2.0 * order * reach + _TAIL
    t, log_weight = _panels(-end, end, reach)
    log_p, log_q = (_log_mixture(t, mean, rate) for mean in (own, other))
    log_phi = -0.5 * t**2 - _HALF_LOG_2PI
    terms = _log_excess(log_p - log_q, (1.0, -order), (order, 1.0))
    return float(logsumexp(log_weight + log_phi + log_q + terms))


def _fixed(distance: float, rate: float, order: float) -> float:
    """Logarithm of ``E_N(0) [L^order + L^(1 - order) - L - 1; L >= 1]``."""
    start = 0.5 * distance
    t, log_weight = _panels(start, start + order * distance + 2.0 * _TAIL, distance)
    log_ratio = _log_mixture(t, distance, rate)
    log_phi = -0.5 * t**2 - _HALF_LOG_2PI
    terms = _log_excess(log_ratio, (1.0, 1.0, -1.0), (order, 1.0 - order, 1.0))
    return float(logsumexp(log_weight + log_phi + terms))


def _panels(low: float, high: float, reach: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and logarithms of weights of Gauss and Legendre's rule on many panels."""
    n = int(np.ceil((high - low) * max(2.0, 2.0 * reach)))
    edges = np.linspace(low, high, n + 1)
    half = 0.5 * (high - low) / n
    t = (edges[:-1, None] + half * (_NODES + 1.0)).ravel()
    return t, np.tile(np.log(half * _WEIGHTS), n)


def _log_mixture(t: FloatArray, mean: float, rate: float) -> FloatArray:
    """Logarithm of ``(1 - q) N(0) + q N(mean)`` over N(0) at t (n,)."""
    exponent = t * mean - 0.5 * mean**2
    # Near zero without cancellation; elsewhere without overflow.
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 1.0)))
    large = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    return np.where(exponent < 1.0, small, large)


def _log_excess(u: FloatArray, shares: Sequence[float], powers: Sequence[float]) -> FloatArray:
    """Logarithm of ``sum_j shares_j expm1(powers_j u)``, not negative, flat at u = 0; u (n,)."""
    c, p = np.array(shares), np.array(powers)
    largest = np.abs(p).max()
    near = np.abs(u) * largest < 0.05
    log_value = np.full(len(u), -np.inf)
    if near.any():
        factor, total = np.ones(int(near.sum())), np.zeros(int(near.sum()))
        for k in range(1, _N_TERMS):
            factor = factor * u[near] / k
            # The first moment is zero, but for rounding.
            total += factor * (0.0 if k == 1 else float(c @ p**k))
        with np.errstate(divide="ignore"):
            log_value[near] = np.log(np.maximum(total, 0.0))
    far = u[~near]
    exponents = p[:, None] * far
    top = np.maximum(exponents.max(axis=0), 0.0)
    scaled = c @ np.exp(exponents - top) - c.sum() * np.exp(-top)
    moderate = top < 30.0
    scaled[moderate] = (c @ np.expm1(exponents[:, moderate])) * np.exp(-top[moderate])
    with np.errstate(divide="ignore"):
        log_value[~near] = np.log(np.maximum(scaled, 0.0)) + top
    return log_value
