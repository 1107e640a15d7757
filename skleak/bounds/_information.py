"""The information projection: divergence from guessing without the release."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.bounds._binary import largest_advantage
from skleak.bounds._fano import minimum_over_orders
from skleak.bounds._prior import Prior, broadcast_shape, parse_prior
from skleak.bounds._reference import reference_divergence
from skleak.utils._arguments import as_result, check_at_least
from skleak.utils._typing import FloatArray


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
    information = check_at_least("information", information, 0.0)
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
