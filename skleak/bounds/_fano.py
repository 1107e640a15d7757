"""Bounds on guesses from information: Fano's, of priors, and the information they need.

Divergences between two coins, and the largest success they allow.

A guess is right or wrong: a coin. By data processing, the divergence between the coin of an
attack and the coin of guessing without the release is at most the divergence between release
and no release. Everything here is written in terms of the advantage ``a``, with

    success = q + a (1 - q),    failure = (1 - q) (1 - a),

so that nothing cancels when ``a`` is close to 0, or ``q`` as small as 1e-10.

Renyi divergence of secret and release from a reference: the release of the likeliest value.

With Q the release P_* of the likeliest value, no divergence is paid where the secret has it:

    D_order(P_XY || p x Q) = log sum_m p_m exp((order - 1) D_order(P_m || P_*)) / (order - 1)
                          <= log(p* + (1 - p*) exp((order - 1) epsilon)) / (order - 1).

Arimoto's information of an order, which [FANO23] bounds, is the least such divergence over Q for
the escort prior, proportional to ``p_m^order`` (Verdu 2015): there p* is that of the escort.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.special import logsumexp

from skleak.bounds.priors import Prior, is_likeliest, parse_prior
from skleak.utils._arguments import as_result, broadcast_shape, check_real
from skleak.utils._typing import FloatArray

# Below this |x|, power series replace differences of nearly equal numbers.
SERIES_RADIUS = 0.05
SERIES_TERMS = 16
# Orders closer to 1 than this are treated as 1: divergences grow with the order, so the bound
# can only become larger by it.
ORDER_ONE = 1e-7
# log of a power that stays away from overflow
LARGE_EXPONENT = 200.0


def root_above(
    f: Callable[..., FloatArray], low: FloatArray, high: FloatArray, *args: FloatArray
) -> FloatArray:
    """Root of an increasing function in each bracket: the upper end of the last, as exact as it is.

    A bracket stays wide where its other end is a root of the rounded function.
    """
    exact = {"xatol": 0.0, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0}
    found = elementwise.find_root(f, (low, high), args=args, tolerances=exact, maxiter=2000)
    return np.where(found.f_x >= 0.0, found.x, found.bracket[1])


def log_remainder(x: FloatArray) -> FloatArray:
    """``x - log(1 + x)`` for ``x > -1``: non-negative, to full relative precision."""
    small = np.abs(x) < SERIES_RADIUS
    y = np.where(small, x, 0.0)
    series = np.zeros_like(y)
    for k in range(SERIES_TERMS, 1, -1):
        series = series * -y + 1.0 / k
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(small, 0.0, x) - np.log1p(np.where(small, 0.0, x))
    return np.where(small, series * y * y, exact)


def _entropy_term(x: FloatArray) -> FloatArray:
    """``(1 + x) log(1 + x) - x`` for ``x >= -1``: non-negative likewise."""
    inside = x > -1.0
    y = np.where(inside, x, 0.0)
    log = np.log1p(y)
    exact = np.where(inside, (1.0 + y) * log - y, 1.0)
    return np.where(np.abs(x) < SERIES_RADIUS, y * log - log_remainder(y), exact)


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


def _renyi_divergence(excess: FloatArray, q: FloatArray, order: FloatArray) -> FloatArray:
    """Renyi divergence of ``q (1 + excess)`` from ``q``, in nats: 0 to round-off squared at 0.

    Shapes: ``excess`` (..., K), at least -1; ``q`` (..., K), positive probabilities, or 0 with an
    excess of 0; ``order`` (...); returns (...).
    """
    order = np.asarray(order)
    first = (order - 1.0 < ORDER_ONE) | np.isinf(order)
    alpha = np.where(first, 2.0, order)[..., np.newaxis]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        exponents = alpha * np.log1p(excess)
        total = np.where(
            exponents.max(axis=-1) > LARGE_EXPONENT,
            np.logaddexp.reduce(np.log(q) + exponents, axis=-1),
            np.log1p((q * _power_term(excess, alpha)).sum(axis=-1)),
        )
    finite = total / (alpha[..., 0] - 1.0)
    relative_entropy = (q * _entropy_term(excess)).sum(axis=-1)
    largest = np.log1p(excess.max(axis=-1))
    return np.where(np.isinf(order), largest, np.where(first, relative_entropy, finite))


def bernoulli_divergence(
    advantage: FloatArray, q: FloatArray, rest: FloatArray, order: FloatArray
) -> FloatArray:
    """Renyi divergence between the coins ``q + a (1 - q)`` and ``q``.

    Shapes: ``advantage`` (...); ``q``, ``rest`` (...), success and failure probability without the
    release; they sum to 1; ``order`` (...); returns (...): in nats; increasing in ``advantage``
    from 0 to ``log(1 / q)``.
    """
    advantage, q, rest, order = np.broadcast_arrays(advantage, q, rest, order)
    excess = np.stack([advantage * rest / q, -advantage], axis=-1)
    return _renyi_divergence(excess, np.stack([q, rest], axis=-1), order)


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
        coin = q[inside], rest[inside], order[inside]
        result[inside] = root_above(
            lambda a, b, *coin: bernoulli_divergence(a, *coin) - b,
            np.zeros(inside.sum()),
            np.ones(inside.sum()),
            budget[inside],
            *coin,
        )
    return result


def divergence_from_uniform(probabilities: FloatArray, order: FloatArray) -> FloatArray:
    """Renyi divergence of a prior from the uniform law on its support, ``log M - H_order``.

    Shapes: ``probabilities`` (..., M); ``order`` (...); returns (...): in nats, at least 0, and 0
    to round-off squared for a uniform prior.
    """
    support = probabilities > 0.0
    size = np.count_nonzero(support, axis=-1)[..., np.newaxis].astype(float)
    gain = np.where(support, size * probabilities - 1.0, 0.0)
    return _renyi_divergence(gain, np.where(support, 1.0 / size, 0.0), order)


# Beyond this exponent the sum of exponentials is far from 1 and its logarithm needs no care.
LARGE_SUM = 30.0


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
        near = np.log1p(np.exp(log_rest) * np.expm1(np.minimum(exponent, LARGE_SUM)))
    total = np.where(exponent <= LARGE_SUM, near, np.logaddexp(log_top, log_rest + exponent))
    first = np.exp(log_rest) * epsilon
    last = np.maximum(epsilon + limit, 0.0)
    result = np.where(order == 1.0, first, np.where(np.isinf(order), last, total / excess))
    return np.minimum(result, epsilon)


# Of epsilon or information, prior and order, (...).
Measure = Callable[[FloatArray, Prior, FloatArray], FloatArray]


def fano_advantage(information: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Upper bound on the advantage from mutual information ([FANO23] algorithm 1).

    Fano's inequality says that any guess with error probability ``e`` satisfies
    ``h(e) + e log(M - 1) >= H(prior) - I``, with ``h`` the binary entropy. This returns the
    advantage at the smallest such ``e``, solved as the equivalent
    ``KL(Bern(1 - e) || Bern(1 / M)) <= I + log M - H(prior)``.

    Parameters
    ----------
    information : array-like of shape (...)
        Mutual information of secret and release in nats, or an upper bound on it; at least 0,
        infinity is allowed.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values along the last axis (values of probability zero do
        not count), or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; never below that of the Bayes-optimal attack.

    Raises
    ------
    ValueError
        For negative information, an invalid prior, or shapes that do not broadcast.

    See Also
    --------
    information_projection_advantage : Tighter where the prior is uneven and information is small.

    Notes
    -----
    Assumptions: the secret is drawn from `prior`, and the information is that of the very channel
    and prior attacked. With an uneven prior the bound does not reach 0 as the information
    vanishes. For randomized response with a uniform prior it is attained.

    Examples
    --------
    >>> round(fano_advantage(0.5, 10), 4)
    0.4389
    >>> fano_advantage([0.0, 1.0], 10**10).round(4)
    array([0.    , 0.0523])
    """
    information = check_real("information", information)
    parsed = parse_prior(prior)
    broadcast_shape(information=information.shape, prior=parsed.batch_shape)
    return as_result(_fano(information, parsed, np.ones(())))


def renyi_fano_advantage(
    epsilon: npt.ArrayLike,
    order: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    refine: bool = True,
) -> Any:
    """Upper bound on the advantage from Renyi differential privacy ([FANO23] algorithm 2).

    An (order, epsilon)-RDP mechanism has Arimoto information of that order at most ``epsilon``
    ([FANO23] theorem 1). The generalized Fano inequality then bounds the error probability ``e``:
    ``H_order(prior) - epsilon <= log((1 - e)^order + (M - 1)^(1 - order) e^order) / (1 - order)``.
    Several orders give the minimum of their bounds.

    With ``refine=True`` that information is bounded more tightly, from the release under the
    likeliest value: by ``log(q + (1 - q) exp((order - 1) epsilon)) / (order - 1)``, with
    ``q = p*^order / sum_m p_m^order``; at order 1 by ``(1 - p*) epsilon``.

    Parameters
    ----------
    epsilon : array-like of shape (...) or (..., n_orders)
        Renyi divergence in nats between releases under any two values of the secret; at least 0.
        Where `order` is an array, the last axis of `epsilon` runs over the orders.
    order : float or array-like of shape (n_orders,)
        Orders, at least 1. Order 1 takes `epsilon` for a bound on the Kullback-Leibler divergence,
        infinity for pure differential privacy.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    refine : bool, default=True
        Take the tighter bound on the information. False takes `epsilon` for a bound on Arimoto's
        information itself, as the algorithm was published.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; the axis of the orders is gone.

    Raises
    ------
    ValueError
        For negative `epsilon`, an order below 1, an invalid prior, or shapes that do not match.

    See Also
    --------
    renyi_projection_advantage : The same guarantee measured against the prior's likeliest value.

    Notes
    -----
    Assumptions: adjacency is replacement, so that the data sets that differ in the secret's value
    are neighbors; every other record may be known. With an uneven prior the bound does not reach 0
    as `epsilon` vanishes, except at infinite order with ``refine=True``.

    Examples
    --------
    Gaussian noise with ``epsilon = order``, as in [FANO23] figure 3 at noise 1:

    >>> round(renyi_fano_advantage(1.0, 1.0, 10, refine=False), 4)
    0.6547
    >>> round(renyi_fano_advantage(1.0, 1.0, 10), 4)
    0.6166
    >>> orders = [1.0, 1.5, 2.0]
    >>> round(renyi_fano_advantage(orders, orders, 10), 4)
    0.6166
    """
    tighter = arimoto_information if refine else None
    return minimum_over_orders(_fano, tighter, epsilon, order, prior)


def _fano(budget: FloatArray, prior: Prior, order: FloatArray) -> FloatArray:
    """Solve Fano's inequality of any order, as a divergence from the uniform prior."""
    q = 1.0 / prior.n_values
    if prior.probabilities is not None:
        shape = np.broadcast_shapes(np.shape(order), prior.batch_shape)
        budget = budget + divergence_from_uniform(
            np.broadcast_to(prior.probabilities, (*shape, prior.probabilities.shape[-1])),
            np.broadcast_to(order, shape),
        )
    uniform = largest_advantage(budget, q, 1.0 - q, np.asarray(order, dtype=float))
    if prior.probabilities is None:
        return uniform
    return np.clip(1.0 - (1.0 - q) * (1.0 - uniform) / prior.rest, 0.0, 1.0)


def minimum_over_orders(
    bound: Measure,
    tighter: Measure | None,
    epsilon: npt.ArrayLike,
    order: npt.ArrayLike,
    prior: npt.ArrayLike,
) -> Any:
    """Validate an RDP curve, bound the advantage at every order, and take the best.

    ``tighter`` takes the place of epsilon, where it is given. Returns (...).
    """
    epsilon = check_real("epsilon", epsilon)
    order = check_real("order", order, low=1.0)
    parsed = parse_prior(prior)
    if order.ndim == 0:
        broadcast_shape(epsilon=epsilon.shape, prior=parsed.batch_shape)
        budget = epsilon if tighter is None else tighter(epsilon, parsed, order)
        return as_result(bound(budget, parsed, order))
    if order.size == 0:
        raise ValueError("`order` must hold at least one order; got an empty array.")
    shape = broadcast_shape(epsilon=epsilon.shape, order=order.shape)
    broadcast_shape(epsilon=shape[:-1], prior=parsed.batch_shape)
    probabilities = parsed.probabilities
    by_order = Prior(
        parsed.n_values[..., np.newaxis],
        parsed.largest[..., np.newaxis],
        parsed.rest[..., np.newaxis],
        None if probabilities is None else probabilities[..., np.newaxis, :],
    )
    budget = epsilon if tighter is None else tighter(epsilon, by_order, order)
    return as_result(bound(budget, by_order, order).min(axis=-1))


def closed_form_fano_advantage(information: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Upper bound on the advantage from Fano's inequality solved by hand: the loose baseline.

    With ``h(e) <= log 2`` and ``log(M - 1) < log M``, Fano's inequality gives
    ``e >= (H(prior) - I - log 2) / log M`` (Salamatian et al. 2020, the baseline of [FANO23]
    figure 3). It needs no root, and is far from tight for few values.

    Parameters
    ----------
    information : array-like of shape (...)
        Mutual information of secret and release in nats, or an upper bound on it; at least 0.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; never below `fano_advantage`.

    Raises
    ------
    ValueError
        For negative information, an invalid prior, or shapes that do not broadcast.

    Notes
    -----
    Assumptions are those of `fano_advantage`. For two values the bound is always 1.

    Examples
    --------
    >>> round(closed_form_fano_advantage(0.5, 10), 4)
    0.4646
    """
    information = check_real("information", information)
    parsed = parse_prior(prior)
    broadcast_shape(information=information.shape, prior=parsed.batch_shape)
    log_size = np.log(parsed.n_values)
    gap = np.zeros(())
    if parsed.probabilities is not None:
        gap = divergence_from_uniform(parsed.probabilities, np.ones(parsed.batch_shape))
    error = (log_size - gap - information - np.log(2.0)) / log_size
    return as_result(np.clip(1.0 - error / parsed.rest, 0.0, 1.0))


def information_projection_advantage(information: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Upper bound on the advantage from mutual information ([BIL23] theorem 5, eq. 25).

    The success probability is at most the largest ``s`` with
    ``KL(Bern(s) || Bern(p*)) <= I``, ``p* = max(prior)``: the guess succeeds with probability
    ``s`` on the true pair of secret and release, with at most ``p*`` on an independent pair, and
    the divergence between the two laws of the pair is the mutual information.

    Parameters
    ----------
    information : array-like of shape (...)
        Mutual information of secret and release in nats, or an upper bound on it; at least 0,
        infinity is allowed.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values along the last axis, or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1], 0 without information; never below the Bayes-optimal attack's.

    Raises
    ------
    ValueError
        For negative information, an invalid prior, or shapes that do not broadcast.

    See Also
    --------
    fano_advantage : Equal for a uniform prior. For an uneven one the projection is the tighter of
        the two while information is small; Fano is as it approaches the prior's entropy.

    Notes
    -----
    Assumptions: the secret is drawn from `prior`, and the information is that of the very channel
    and prior attacked.

    Examples
    --------
    >>> round(information_projection_advantage(0.5, 10), 4)
    0.4389
    >>> information_projection_advantage([0.0, 0.1], [0.7, 0.2, 0.1]).round(4)
    array([0.    , 0.6242])
    """
    information = check_real("information", information)
    parsed = parse_prior(prior)
    broadcast_shape(information=information.shape, prior=parsed.batch_shape)
    return as_result(_projection(information, parsed, np.ones(())))


def renyi_projection_advantage(
    epsilon: npt.ArrayLike,
    order: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    refine: bool = True,
) -> Any:
    """Upper bound on the advantage from Renyi DP, by projection onto the likeliest value.

    The success probability is at most the largest ``s`` with
    ``D_order(Bern(s) || Bern(p*)) <= log(p* + (1 - p*) exp((order - 1) epsilon)) / (order - 1)``.
    The proof is that of `information_projection_advantage` with another divergence: let Q be the
    release under the likeliest value. The pair of secret and release diverges from secret and
    independent draw of Q by at most the right side, on the latter no guess is right more often than
    ``p*``, and processing the pair into "right or wrong" cannot raise the divergence. Dropping the
    "wrong" term gives `reconstruction_robustness_advantage` ([BCH22]), which is therefore never
    smaller.

    Parameters
    ----------
    epsilon : array-like of shape (...) or (..., n_orders)
        Renyi divergence in nats between releases under any two values of the secret; at least 0.
        Where `order` is an array, the last axis of `epsilon` runs over the orders.
    order : float or array-like of shape (n_orders,)
        Orders, at least 1, infinity allowed.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    refine : bool, default=True
        Take the right side above, at order 1 ``(1 - p*) epsilon``; False takes `epsilon`, as for a
        reference that is none of the values.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1], 0 at ``epsilon = 0``; the minimum over the orders.

    Raises
    ------
    ValueError
        For negative `epsilon`, an order below 1, an invalid prior, or shapes that do not match.

    Notes
    -----
    Assumptions: replacement adjacency, as in `renyi_fano_advantage`, which it equals for a uniform
    prior.

    Examples
    --------
    >>> round(renyi_projection_advantage(1.0, 1.0, 10), 4)
    0.6166
    >>> renyi_projection_advantage(0.0, [1.5, 2.0], [0.7, 0.2, 0.1])
    0.0
    """
    tighter = reference_divergence if refine else None
    return minimum_over_orders(_projection, tighter, epsilon, order, prior)


def _projection(budget: FloatArray, prior: Prior, order: FloatArray) -> FloatArray:
    return largest_advantage(budget, prior.largest, prior.rest, order)


def reconstruction_robustness_advantage(
    epsilon: npt.ArrayLike,
    order: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    refine: bool = True,
) -> Any:
    """Upper bound on the advantage from Renyi DP by reconstruction robustness ([BCH22]).

    Under (order, epsilon)-RDP the success probability of guessing the secret exactly is at most
    ``(exp(epsilon) p*)^((order - 1) / order)`` with ``p* = max(prior)`` ([BCH22]; a proof is in
    `renyi_projection_advantage`). Several orders give the minimum of their bounds. With
    ``refine=True``, ``log(p* + (1 - p*) exp((order - 1) epsilon)) / (order - 1)`` takes the place
    of epsilon: the reference of the proof is then the release under the likeliest value.

    Parameters
    ----------
    epsilon : array-like of shape (...) or (..., n_orders)
        Renyi divergence in nats between releases under any two values of the secret; at least 0.
        Where `order` is an array, the last axis of `epsilon` runs over the orders.
    order : float or array-like of shape (n_orders,)
        Orders above 1; infinity stands for pure differential privacy.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    refine : bool, default=True
        Place the reference on the likeliest value; False takes the formula as published.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; the axis of the orders is gone.

    Raises
    ------
    ValueError
        For negative `epsilon`, an order of 1 or less, an invalid prior, or shapes that do not
        match.

    Notes
    -----
    Assumptions: replacement adjacency; the informed adversary may know every other record. At a
    finite order the bound does not reach 0 as `epsilon` vanishes.

    Examples
    --------
    >>> import numpy as np
    >>> orders = np.linspace(1.1, 4.0, 2901)
    >>> round(reconstruction_robustness_advantage(orders, orders, 10, refine=False), 4)
    0.739
    >>> round(reconstruction_robustness_advantage(orders, orders, 10), 4)
    0.7078
    """
    if np.any(np.asarray(order) == 1.0):
        raise ValueError(
            "`order` must exceed 1 for this bound, which is vacuous at order 1; got 1. "
            "Use `renyi_fano_advantage` there."
        )
    tighter = reference_divergence if refine else None
    return minimum_over_orders(_robustness, tighter, epsilon, order, prior)


def _robustness(epsilon: FloatArray, prior: Prior, order: FloatArray) -> FloatArray:
    # log(success / p*) = ((order - 1) epsilon + log(1 / p*)) / order, split for infinite orders.
    excess = (1.0 - 1.0 / order) * epsilon - np.log(prior.largest) / order
    with np.errstate(over="ignore"):
        return np.minimum(prior.largest * np.expm1(excess) / prior.rest, 1.0)
