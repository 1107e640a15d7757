"""What every channel shares: guesses, advantages and bounds from a few numbers of its own."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import xlog1py

from skleak.channels._bounds_table import (
    RENYI_ORDERS,
    Bound,
    bounds_table,
    divergence_bounds,
    information_bound_bounds,
    information_bounds,
)
from skleak.channels._divergence import pairwise_information
from skleak.channels._validation import advantage_from_success, check_order, likeliest
from skleak.utils._arguments import as_result, check_integers, check_prior, is_uniform
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState


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
        information = self.mutual_information(prior, return_standard_error=True)
        bounds = [
            *information_bounds(information, p),
            *information_bound_bounds(
                self.mutual_information_bound(prior),
                self.mutual_information_bound(prior, pairwise=False),
                p,
            ),
            *divergence_bounds(self.renyi_divergence(RENYI_ORDERS), p),
            *own,
        ]
        return bounds_table((bayes, error), bounds, likeliest(prior, self.n_values))

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
