"""What all channels share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logsumexp, xlog1py

from skleak.bounds import (
    closed_form_fano_advantage,
    fano_advantage,
    information_projection_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    renyi_projection_advantage,
)
from skleak.utils._arguments import as_result, check_count, check_integers, check_prior, is_uniform
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState

# Orders over which the Rényi bounds are minimized.
RENYI_ORDERS = np.concatenate([[1.0], 1 + np.geomspace(0.01, 255.0, 28)])
# Of a success probability.
ROUND_OFF = 1e-14
KNOWN = "channel and prior known"
PAIRS = "Kullback-Leibler divergence of every two secrets"
INFORMATION = "mutual information of this channel and prior"
KULLBACK_LEIBLER = "largest Kullback-Leibler divergence between two secrets"
DIVERGENCE = "largest Rényi divergence between two secrets"


class Bound(NamedTuple):
    """One upper bound on the advantage; `standard_error` as that of the Bayes value."""

    name: str
    advantage: Any
    standard_error: Any = 0.0


# What each bound assumes, and where it is from.
SOURCES = {
    "Bayes": (KNOWN, "[BIL23] theorem 1"),
    "Fano, exact information": (INFORMATION, "[FANO23] algorithm 1"),
    "information projection": (INFORMATION, "[BIL23] theorem 5"),
    "closed-form Fano": (INFORMATION, "Salamatian et al. 2020"),
    "Fano, pairwise information bound": (PAIRS, "[FANO23] theorem 2, pairwise form"),
    "Fano, information bound": (KULLBACK_LEIBLER, "[FANO23] theorem 2"),
    "Fano, order 1": (KULLBACK_LEIBLER, "[FANO23] theorem 1"),
    "generalized Fano": (DIVERGENCE, "[FANO23] algorithm 2"),
    "Rényi projection": (DIVERGENCE, "[BIL23] theorem 5, for Rényi divergences"),
    "reconstruction robustness": (DIVERGENCE, "[BCH22]"),
    "trade-off": ("distances of the encodings from one center", "[HMB23]"),
    "Gaussian differential privacy": ("largest distance of two encodings", "[HMB23]"),
    "differential privacy": ("max divergence between two secrets", "[HMB23]"),
}


def common_bounds(
    information: tuple[Any, Any], pairwise: Any, worst: Any, renyi: Any, prior: FloatArray | int
) -> list[Bound]:
    """Bounds that every channel has.

    From the mutual information, given with its standard error, two upper bounds on it, and the
    largest Rényi divergences, `RENYI_ORDERS` being their last axis.
    """
    value, error = information
    exact = {
        "Fano, exact information": fano_advantage,
        "information projection": information_projection_advantage,
        "closed-form Fano": closed_form_fano_advantage,
    }
    bounds = []
    for name, function in exact.items():
        advantage = function(value, prior)
        spread = np.abs(function(value + error, prior) - advantage) if np.any(error) else 0.0
        bounds.append(Bound(name, advantage, spread))
    inner = renyi[..., 1:], RENYI_ORDERS[1:], prior
    return [
        *bounds,
        Bound("Fano, pairwise information bound", fano_advantage(pairwise, prior)),
        Bound("Fano, information bound", fano_advantage(worst, prior)),
        Bound("Fano, order 1", renyi_fano_advantage(renyi[..., 0], 1.0, prior)),
        Bound("generalized Fano", renyi_fano_advantage(renyi, RENYI_ORDERS, prior)),
        Bound("Rényi projection", renyi_projection_advantage(renyi, RENYI_ORDERS, prior)),
        Bound("reconstruction robustness", reconstruction_robustness_advantage(*inner)),
    ]


def bounds_table(bounds: list[Bound], top: FloatArray) -> pd.DataFrame:
    """Put the Bayes value, which is the first, and its bounds in one table, sorted by record.

    Shapes: ``top`` () or (n,); returns: columns as `Channel.advantage_bounds` documents them.
    """
    shape = np.broadcast_shapes(*(np.shape(row.advantage) for row in bounds))
    advantage, error = (
        np.stack([np.broadcast_to(value, shape) for value in values], axis=-1)
        for values in ([row.advantage for row in bounds], [row.standard_error for row in bounds])
    )
    rest = 1 - top[..., None]
    # A bound that equals Bayes up to round-off, as some do by theorem, is told as equal, and a
    # stable sort puts it behind.
    equal = np.abs(advantage - advantage[..., :1]) * rest < ROUND_OFF
    advantage = np.where(equal, advantage[..., :1], advantage)
    order = np.argsort(advantage, axis=-1, kind="stable")
    texts = np.array([[row.name, *SOURCES[row.name]] for row in bounds], dtype=object)
    values = {
        "bound": texts[order, 0],
        "advantage": np.take_along_axis(advantage, order, axis=-1),
        "success": np.take_along_axis(1 - rest + advantage * rest, order, axis=-1),
        "standard_error": np.take_along_axis(error, order, axis=-1),
        "assumption": texts[order, 1],
        "source": texts[order, 2],
    }
    table = pd.DataFrame({name: value.ravel() for name, value in values.items()})
    if shape:
        table.insert(0, "record", np.repeat(np.arange(shape[0]), len(bounds)))
    return table


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


def check_order(order: npt.ArrayLike) -> FloatArray:
    """Validate the order of a Rényi divergence: positive, a number or a vector, or infinite."""
    array = np.asarray(order, dtype=np.float64)
    if array.ndim > 1:
        raise ValueError(f"`order` must be a number or a vector; got shape {array.shape}.")
    if not (array > 0).all():
        raise ValueError(
            f"`order` must be positive; got {order!r}. Order 1 is the Kullback-Leibler divergence, "
            "order infinity the max divergence."
        )
    return array


def likeliest(prior: npt.ArrayLike | None, n_values: int) -> FloatArray:
    """Largest prior probability p*, shape () or (n,); nothing of size M for a uniform prior."""
    if is_uniform(prior):
        return np.asarray(1.0 / check_count(prior, n_values))
    return check_prior(prior, n_values).max(axis=-1)


def advantage_from_success(success: Array, top: FloatArray) -> FloatArray:
    """Turn a success probability into an advantage over always guessing the likeliest value.

    ``(success - p*) / (1 - p*)`` with ``p* = max(prior)``, [FANO23] eq. 1. A certain prior leaves
    nothing to gain: its advantage is 0.
    """
    gain = np.asarray(success - top)
    left = np.broadcast_to(1 - top, gain.shape)
    return np.divide(gain, left, out=np.zeros_like(gain), where=left > 0)


def record_priors(
    prior: npt.ArrayLike | None, n_values: int, n_records: int | None
) -> tuple[FloatArray, int]:
    """Validate the prior of a channel of n records, or of one; return it and n.

    Shapes: ``prior`` (M,) or (n, M); returns (M,) or (n, M), and n.
    """
    p = check_prior(prior, n_values)
    n = len(np.atleast_2d(p)) if n_records is None else n_records
    if p.ndim == 2 and len(p) != n:
        raise ValueError(
            f"`prior` must have one row for each of the {n} records, or be shared; got "
            f"shape {p.shape}."
        )
    return p, n


class Channel(ABC):
    """Distribution of a release given a secret with finitely many values.

    The secret X takes the values 0, ..., M - 1 with a prior probability each, and the release Y is
    drawn from a distribution that depends on X. Whoever sees Y can guess X no better than the
    Bayes-optimal attack, whose success is computed here rather than simulated. Information is in
    nats. `prior` is everywhere an array of shape (M,), an array of shape (n, M) with one row for
    each of n records, or None (or the integer M) for the uniform prior; results have a leading
    axis n where the prior, or the channel, is one of n records.

    Attributes
    ----------
    n_values : int
        M, the number of values of the secret, at least 2.

    Examples
    --------
    >>> from skleak.channels import GaussianChannel
    >>> channel = GaussianChannel([[0.0], [2.0]], 1.0)
    >>> isinstance(channel, Channel), channel.n_values
    (True, 2)
    """

    n_values: int

    # What a kind of channel provides -------------------------------------------------------------

    @abstractmethod
    def sample(
        self,
        secret: npt.ArrayLike,
        n_releases: int | None = None,
        random_state: RandomState = None,
    ) -> Array:
        """Draw releases given the secret."""

    @abstractmethod
    def log_likelihood(self, releases: npt.ArrayLike) -> FloatArray:
        """Logarithm of the density or probability of releases under each value of the secret."""

    @abstractmethod
    def _success(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Bayes success probability and its standard error, each of shape () or (n,)."""

    def _advantage(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Bayes advantage and its standard error, each of shape () or (n,)."""
        top = likeliest(prior, self.n_values)
        success, error = self._success(prior)
        return advantage_from_success(success, top), advantage_from_success(error + top, top)

    @abstractmethod
    def _information(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Mutual information and its standard error, each of shape () or (n,)."""

    @abstractmethod
    def _divergences_from(self, secret: int, order: float) -> FloatArray:
        """Rényi divergences of one secret's releases from those of all, (M,) or (n, M)."""

    def _worst_divergence(self, order: float) -> FloatArray:
        """Largest Rényi divergence between two secrets, shape () or (n,)."""
        return np.max(
            [self._divergences_from(m, order).max(axis=-1) for m in range(self.n_values)], axis=0
        )

    # What follows from it ------------------------------------------------------------------------

    def posterior(self, releases: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> FloatArray:
        """Probability of each value of the secret given a release.

        Parameters
        ----------
        releases : array
            As `log_likelihood` takes them.
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret. With n rows, the first axis of `releases` has length n.

        Returns
        -------
        ndarray of shape (..., M)
            Sums to 1 along the last axis.

        Raises
        ------
        ValueError
            For a release that no value of positive prior probability can produce.

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> channel.posterior([0, 1]).round(3)
        array([[0.75 , 0.25 ],
               [0.125, 0.875]])
        """
        likelihood = self.log_likelihood(releases)
        p = check_prior(prior, self.n_values)
        if p.ndim == 2:
            if likelihood.ndim < 2 or likelihood.shape[0] != len(p):
                raise ValueError(
                    f"`prior` has {len(p)} rows, one a record, so `releases` must have a first "
                    f"axis of that length; got releases for shape {likelihood.shape[:-1]}."
                )
            p = p.reshape(len(p), *[1] * (likelihood.ndim - 2), self.n_values)
        with np.errstate(divide="ignore"):
            joint = likelihood + np.log(p)
        top = joint.max(axis=-1, keepdims=True)
        if np.isneginf(top).any():
            raise ValueError(
                "`releases` hold one of probability zero under every secret of positive prior "
                "probability: it cannot come from this channel."
            )
        weights = np.exp(joint - top)
        return weights / weights.sum(axis=-1, keepdims=True)

    def bayes_decision(
        self, releases: npt.ArrayLike, prior: npt.ArrayLike | None = None
    ) -> IntArray:
        """Guess of the Bayes-optimal attack: the value of largest posterior ([BIL23] theorem 1).

        Parameters
        ----------
        releases : array
            As `log_likelihood` takes them.
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret, as in `posterior`.

        Returns
        -------
        ndarray of int of shape (...)
            Index of the guessed value; the first of equally likely ones.

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> channel.bayes_decision([0, 1], prior=[0.2, 0.8])
        array([1, 1])
        """
        return as_result(self.posterior(releases, prior).argmax(axis=-1))

    def bayes_success(
        self, prior: npt.ArrayLike | None = None, *, return_standard_error: bool = False
    ) -> Any:
        """Success probability of the Bayes-optimal attack: no attack does better.

        Parameters
        ----------
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret; None is uniform.
        return_standard_error : bool, default=False
            Also return the standard error, 0 where the value is exact.

        Returns
        -------
        float or ndarray of shape (n,), or a pair of them

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> round(channel.bayes_success([0.4, 0.6]), 6)  # 0.4 * 0.9 + 0.6 * 0.7
        0.78
        """
        return _value_or_pair(self._success(prior), return_standard_error)

    def bayes_advantage(
        self, prior: npt.ArrayLike | None = None, *, return_standard_error: bool = False
    ) -> Any:
        """Advantage of the Bayes-optimal attack over guessing the likeliest value.

        ``(success - p*) / (1 - p*)`` with ``p* = max(prior)`` ([FANO23] eq. 1), and 0 where the
        prior is certain.

        Parameters
        ----------
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret; None is uniform.
        return_standard_error : bool, default=False
            Also return the standard error, 0 where the value is exact.

        Returns
        -------
        float or ndarray of shape (n,), or a pair of them

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> round(channel.bayes_advantage([0.4, 0.6]), 6)  # (0.78 - 0.6) / 0.4
        0.45
        """
        return _value_or_pair(self._advantage(prior), return_standard_error)

    def mutual_information(
        self, prior: npt.ArrayLike | None = None, *, return_standard_error: bool = False
    ) -> Any:
        """Mutual information of secret and release, ``sum_x p_x KL(P_x || P_Y)``, in nats.

        Parameters
        ----------
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret; None is uniform.
        return_standard_error : bool, default=False
            Also return the standard error, 0 where the value is exact.

        Returns
        -------
        float or ndarray of shape (n,), or a pair of them

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> round(channel.mutual_information(), 6)
        0.205038
        """
        return _value_or_pair(self._information(prior), return_standard_error)

    def mutual_information_bound(
        self, prior: npt.ArrayLike | None = None, *, pairwise: bool = True
    ) -> Any:
        """Upper bound on the mutual information from pairwise divergences alone.

        ``-sum_m p_m log sum_l p_l exp(-KL(P_m || P_l))``: the logarithm of a sum of exponentials
        is convex, so Jensen's inequality takes the expectation inside, for any channel. With
        ``pairwise=False`` every divergence is replaced by the largest, which for Gaussian noise is
        [FANO23] theorem 2.

        Parameters
        ----------
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret; None is uniform.
        pairwise : bool, default=True
            Whether to use each divergence or the largest; the former is tighter.

        Returns
        -------
        float or ndarray of shape (n,)
            In nats, at least `mutual_information`.

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> round(channel.mutual_information_bound(), 6)
        0.354385
        """
        p = check_prior(prior, self.n_values)
        if pairwise:
            return as_result(pairwise_information(p, lambda m: self._divergences_from(m, 1.0)))
        overlap = (1 - p) * np.expm1(-self._worst_divergence(1.0))[..., None]
        return as_result(-xlog1py(p, np.where(p > 0, overlap, 0.0)).sum(axis=-1))

    def renyi_divergence(self, order: npt.ArrayLike, *, pairwise: bool = False) -> Any:
        """Rényi divergence between the releases of two secrets, in nats.

        The largest one is the epsilon of (order, epsilon) Rényi differential privacy with respect
        to replacing the secret.

        Parameters
        ----------
        order : float or array of shape (k,)
            Positive. 1 is the Kullback-Leibler divergence and infinity the max divergence.
        pairwise : bool, default=False
            Return all pairs, entry (x, l) being D(P_x || P_l), and not the largest.

        Returns
        -------
        float or ndarray
            Of shape (n,) for n records, followed by (k,) for k orders, and by (M, M) if pairwise.

        Raises
        ------
        ValueError
            For an order that is not positive.

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> channel.renyi_divergence([1.0, 2.0]).round(4)
        array([1.0326, 1.6094])
        >>> channel.renyi_divergence(1.0, pairwise=True).round(4)
        array([[0.    , 0.7942],
               [1.0326, 0.    ]])
        """
        orders = check_order(order)
        values = [self._divergence(float(value), pairwise) for value in orders.ravel()]
        axis = -3 if pairwise else -1
        return as_result(np.stack(values, axis=axis) if orders.ndim else values[0])

    def _divergence(self, order: float, pairwise: bool) -> FloatArray:
        if not pairwise:
            return np.asarray(self._worst_divergence(order))
        rows = [self._divergences_from(secret, order) for secret in range(self.n_values)]
        return np.stack(rows, axis=-2)

    def advantage_bounds(self, prior: npt.ArrayLike | None = None) -> pd.DataFrame:
        """Every upper bound that applies to this channel, beside the Bayes value they bound.

        Parameters
        ----------
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret; None is uniform. A prior that is certain has no advantage to
            bound and is refused.

        Returns
        -------
        DataFrame
            A row for each bound, sorted by ascending advantage, with columns `bound`, `advantage`,
            `success` (probability of a right guess), `standard_error` (of the advantage, 0 where
            it is exact), `assumption` and `source`. For n records a column `record` comes first,
            and the rows are sorted within each record.

        Examples
        --------
        >>> from skleak.channels import DiscreteChannel
        >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
        >>> table = channel.advantage_bounds()
        >>> table["bound"].tolist()[:3]
        ['Bayes', 'Fano, exact information', 'information projection']
        >>> table["advantage"][:4].round(4).tolist()
        [0.6, 0.6174, 0.6174, 0.75]
        """
        # Bounds take a uniform prior as its number of values, and then build nothing of that size.
        p = self.n_values if is_uniform(prior) else check_prior(prior, self.n_values)
        own = self._own_bounds(p)
        bayes, error = self.bayes_advantage(prior, return_standard_error=True)
        # These are known without error: what bounds the best attack bounds an estimate of it too.
        for bound in own:
            bayes = np.minimum(bayes, bound.advantage)
        bounds = common_bounds(
            self.mutual_information(prior, return_standard_error=True),
            self.mutual_information_bound(prior),
            self.mutual_information_bound(prior, pairwise=False),
            self.renyi_divergence(RENYI_ORDERS),
            p,
        )
        rows = [Bound("Bayes", bayes, error), *bounds, *own]
        return bounds_table(rows, likeliest(prior, self.n_values))

    @abstractmethod
    def _own_bounds(self, prior: "FloatArray | int") -> list[Bound]:
        """Bounds that only this kind of channel has."""


def _value_or_pair(pair: tuple[Array, Array], return_standard_error: bool) -> Any:
    value, error = map(as_result, pair)
    return (value, error) if return_standard_error else value


def repeat_secrets(secret: npt.ArrayLike, n_values: int, n_releases: int | None) -> IntArray:
    """Validate secrets and repeat each along a new last axis if several releases are asked."""
    array = check_integers("secret", secret, n_values)
    if n_releases is None:
        return array
    if n_releases < 0:
        raise ValueError(f"`n_releases` must not be negative; got {n_releases}.")
    return np.repeat(array[..., None], n_releases, axis=-1)
