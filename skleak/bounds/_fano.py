"""Fano's inequality and its generalisation: success from mutual information or Renyi DP."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.bounds._binary import divergence_from_uniform, largest_advantage
from skleak.bounds._prior import Prior, broadcast_shape, parse_prior
from skleak.bounds._reference import arimoto_information
from skleak.utils._arguments import as_result, check_at_least
from skleak.utils._typing import FloatArray

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
    vanishes. For randomised response with a uniform prior it is attained.

    Examples
    --------
    >>> round(fano_advantage(0.5, 10), 4)
    0.4389
    >>> fano_advantage([0.0, 1.0], 10**10).round(4)
    array([0.    , 0.0523])
    """
    information = check_at_least("information", information, 0.0)
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
    ([FANO23] theorem 1). The generalised Fano inequality then bounds the error probability ``e``:
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
    are neighbours; every other record may be known. With an uneven prior the bound does not reach 0
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
    epsilon = check_at_least("epsilon", epsilon, 0.0)
    order = check_at_least("order", order, 1.0)
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
    information = check_at_least("information", information, 0.0)
    parsed = parse_prior(prior)
    broadcast_shape(information=information.shape, prior=parsed.batch_shape)
    log_size = np.log(parsed.n_values)
    gap = np.zeros(())
    if parsed.probabilities is not None:
        gap = divergence_from_uniform(parsed.probabilities, np.ones(parsed.batch_shape))
    error = (log_size - gap - information - np.log(2.0)) / log_size
    return as_result(np.clip(1.0 - error / parsed.rest, 0.0, 1.0))
