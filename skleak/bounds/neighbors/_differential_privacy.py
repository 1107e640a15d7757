"""Upper bounds on guessing a secret from Gaussian and from approximate differential privacy."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from skleak.bounds._prior import Prior, broadcast_shape, parse_prior
from skleak.bounds._tradeoff import gaussian_tradeoff_advantage
from skleak.bounds.neighbors._pairwise import pairwise_advantage, uniform_pairwise_advantage
from skleak.utils._arguments import as_result, check_at_least, check_in_range
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray


def gdp_advantage(
    mu: npt.ArrayLike, prior: npt.ArrayLike, reference_mu: npt.ArrayLike | None = None
) -> Any:
    """Upper bound on the advantage from mu-Gaussian differential privacy alone.

    Let ``s_m`` be the probability of a right guess where the secret has value m. Any two values
    being mu-GDP neighbors, and the decision regions filling the space,

        success <= max { sum_m p_m s_m : s_m + sum_{k != m} Phi(Phi^-1(s_k) - mu) <= 1 for all m },

    a convex program that is evaluated through its dual, an upper bound at any multipliers. For M
    equally likely values it is the root of ``s + (M - 1) Phi(Phi^-1(s) - mu) = 1``, for two values
    exact: ``2 Phi(mu / 2) - 1``.

    Parameters
    ----------
    mu : array-like of shape (...)
        Parameter of Gaussian differential privacy between any two values of the secret, at least
        0; infinity is allowed.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    reference_mu : array-like of shape (...), default=None
        Parameter between every value and one common reference, for instance a run without the
        secret; half of `mu` for clipped sums of gradients. It adds the trade-off bound
        ``max { sum_m p_m Phi(Phi^-1(kappa_m) + reference_mu) : sum_m kappa_m = 1 }`` ([HMB23]), and
        the smaller of the two is returned. None where no such run is known.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; 0 at ``mu = 0``.

    Raises
    ------
    ValueError
        For negative `mu` or `reference_mu`, an invalid prior, or shapes that do not broadcast.

    See Also
    --------
    tradeoff_advantage : Tighter where the encodings are known.
    membership_advantage_gdp : Two values, with the prior given as one number.

    Notes
    -----
    Assumptions: distinguishing the releases under two values of the secret is no easier than
    distinguishing N(0, 1) from N(mu, 1); replacement adjacency. Best possible from the pairs alone,
    although no Gaussian mechanism reaches it for three values or more.

    Examples
    --------
    >>> round(gdp_advantage(1.0, 2), 4)
    0.3829
    >>> gdp_advantage([0.0, 0.5], [0.7, 0.2, 0.1]).round(4)
    array([0.    , 0.0012])

    Ten values, each half as far from a run without the secret:

    >>> round(gdp_advantage(1.0, 10), 4), round(gdp_advantage(1.0, 10, reference_mu=0.5), 4)
    (0.2544, 0.1303)
    """
    mu = check_at_least("mu", mu, 0.0)
    parsed = parse_prior(prior)
    shape = broadcast_shape(mu=mu.shape, prior=parsed.batch_shape)
    if parsed.probabilities is None:
        bound = uniform_pairwise_advantage(mu, parsed.n_values)
    else:
        table = np.broadcast_to(parsed.probabilities, (*shape, parsed.probabilities.shape[-1]))
        flat = np.broadcast_to(mu, shape).reshape(-1), table.reshape(-1, table.shape[-1])
        bound = np.empty(len(flat[0]))
        for rows in row_blocks(*flat[1].shape):
            bound[rows] = pairwise_advantage(flat[0][rows], flat[1][rows])
        bound = bound.reshape(shape)
    if reference_mu is not None:
        reference = check_at_least("reference_mu", reference_mu, 0.0)
        broadcast_shape(mu=mu.shape, prior=parsed.batch_shape, reference_mu=reference.shape)
        bound = np.minimum(bound, _reference_advantage(reference, parsed))
    return as_result(bound)


def _reference_advantage(mu: FloatArray, prior: Prior) -> FloatArray:
    """Trade-off bound with every value at the distance ``mu`` from one reference."""
    if prior.probabilities is not None:
        shape = np.broadcast_shapes(mu.shape, prior.batch_shape)
        distances = np.broadcast_to(mu[..., np.newaxis], (*shape, prior.probabilities.shape[-1]))
        return np.asarray(gaussian_tradeoff_advantage(distances, prior.probabilities))
    start = ndtri(prior.largest)
    with np.errstate(invalid="ignore"):
        # Small gains as a ratio, small failures directly: each keeps its digits.
        growth = np.expm1(log_ndtr(start + mu) - log_ndtr(start))
    gain = prior.largest * growth / prior.rest
    loss = ndtr(-(start + mu)) / prior.rest
    return np.clip(np.where(gain < 0.5, gain, 1.0 - loss), 0.0, 1.0)


def dp_advantage(epsilon: npt.ArrayLike, delta: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Largest advantage of guessing a secret under (epsilon, delta)-differential privacy: exact.

    With ``P_k`` the sum of the k largest prior probabilities, the best success probability over
    all (epsilon, delta)-DP mechanisms and all attacks is

        delta + (1 - delta) max_k P_k / (1 + (k - 1) exp(-epsilon)).

    Parameters
    ----------
    epsilon : array-like of shape (...)
        At least 0; infinity is allowed.
    delta : array-like of shape (...)
        In [0, 1].
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; 0 at ``epsilon = delta = 0``.

    Raises
    ------
    ValueError
        For negative `epsilon`, `delta` outside [0, 1], an invalid prior, or shapes that do not
        broadcast.

    Notes
    -----
    Assumptions: replacement adjacency, so that data sets that differ in the secret's value are
    neighbours; the adversary may know everything else.

    *It is a bound.* Let A_m be the decision regions, ``s_m = P_m(A_m)``, ``w = exp(-epsilon)``.
    Since ``P_m(A_m) <= exp(epsilon) P_l(A_m) + delta``, the regions' masses under P_l give, with
    ``x_m = max(s_m - delta, 0)``, that ``s_l + w sum_{m != l} x_m <= 1`` for every l. Where
    ``x_l > 0`` this says ``(1 - w) x_l + w X <= 1 - delta`` with ``X = sum_m x_m``; where
    ``x_l = 0`` it follows from that of any positive one. The success is at most
    ``delta + sum_m p_m x_m``, a linear programme whose vertices have k equal entries
    ``(1 - delta) / (1 - w + w k)``, best placed on the k likeliest values.

    *It is attained* by releasing the secret itself with probability delta, and else answering at
    random among the k likeliest values, the true one ``exp(epsilon)`` times as often as any other
    (uniformly if the truth is not among them).

    Examples
    --------
    >>> round(dp_advantage(1.0, 0.0, 10), 4)
    0.1466
    >>> round(dp_advantage(1.0, 1e-5, [0.7, 0.2, 0.1]), 5)
    1e-05
    """
    epsilon = check_at_least("epsilon", epsilon, 0.0)
    delta = check_in_range("delta", delta, 0.0, 1.0)
    parsed = parse_prior(prior)
    broadcast_shape(epsilon=epsilon.shape, delta=delta.shape, prior=parsed.batch_shape)
    w = np.exp(-epsilon)
    if parsed.probabilities is None:
        # 1 - w written so that a small epsilon keeps its digits.
        pure = -np.expm1(-epsilon) / (1.0 + (parsed.n_values - 1.0) * w)
    else:
        ordered = -np.sort(-parsed.probabilities, axis=-1)
        others, first = ordered[..., 1:], ordered[..., :1]
        terms = others - first - first * np.expm1(-epsilon)[..., np.newaxis]
        size = 1.0 + np.arange(1, ordered.shape[-1]) * w[..., np.newaxis]
        best = (np.cumsum(terms, axis=-1) / size).max(axis=-1)
        pure = np.maximum(best, 0.0) / parsed.rest
    return as_result(np.clip(delta + (1.0 - delta) * pure, 0.0, 1.0))
