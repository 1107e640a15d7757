"""Channels of finitely many outputs."""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from skleak.bounds import dp_advantage
from skleak.channels._base import Bound, Channel, relative_entropy, renyi_divergence, repeat_secrets
from skleak.utils._arguments import (
    SUM_TOLERANCE,
    as_result,
    check_count,
    check_integers,
    check_numbers,
    check_prior,
    check_scalar,
    is_uniform,
    make_generator,
)
from skleak.utils._typing import Array, FloatArray, IntArray, RandomState


class DiscreteChannel(Channel):
    """Any channel with finitely many releases; everything about it is exact.

    Parameters
    ----------
    table : array of shape (M, K)
        ``table[x, y]``, the probability of release y when the secret is x. Rows sum to 1, M >= 2.

    Attributes
    ----------
    table : ndarray of shape (M, K)
        Read-only copy.
    n_values : int
        M, the number of values of the secret.
    n_outcomes : int
        K, the number of possible releases.

    Raises
    ------
    ValueError
        For M < 2, a negative entry or a row that does not sum to 1.

    Examples
    --------
    >>> channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
    >>> round(channel.bayes_success(), 6)  # (0.9 + 0.7) / 2
    0.8
    >>> round(channel.bayes_success([0.2, 0.8]), 6)  # 0.2 * 0.1 against 0.8 * 0.7, and so on
    0.8
    >>> round(channel.mutual_information(), 6)
    0.205038
    """

    def __init__(self, table: npt.ArrayLike) -> None:
        array = check_numbers("table", table, finite=True)
        if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
            raise ValueError(
                "`table` must have shape (M, K), a row of probabilities for each of M >= 2 values "
                f"of the secret; got shape {array.shape}."
            )
        if array.min() < 0:
            raise ValueError(f"`table` must not be negative; got an entry of {array.min():.4g}.")
        total = array.sum(axis=1, keepdims=True)
        if np.abs(total - 1).max() > SUM_TOLERANCE:
            row = int(np.abs(total - 1).argmax())
            raise ValueError(
                f"Each row of `table` must sum to 1; row {row} sums to {total[row, 0]:.6g}. Rows "
                "are values of the secret, columns are releases; pass counts through "
                "`table / table.sum(axis=1, keepdims=True)`."
            )
        self.table = array / total
        self.table.flags.writeable = False
        self.n_values, self.n_outcomes = self.table.shape

    def __repr__(self) -> str:
        return f"DiscreteChannel(table of shape {self.table.shape})"

    def sample(
        self,
        secret: npt.ArrayLike,
        n_releases: int | None = None,
        random_state: RandomState = None,
    ) -> IntArray:
        """Draw releases given the secret.

        Parameters
        ----------
        secret : int or array of int
            Index of the secret's value.
        n_releases : int or None, default=None
            Number of releases of each secret, along a new last axis; None draws one without it.
        random_state : None, int, RandomState or Generator, default=None
            Source of randomness; None takes fresh entropy.

        Returns
        -------
        ndarray of int of shape secret.shape or (*secret.shape, n_releases)
            Columns of the table.

        Examples
        --------
        >>> DiscreteChannel([[1.0, 0.0], [0.0, 1.0]]).sample([0, 1, 1], random_state=0)
        array([0, 1, 1])
        """
        array = repeat_secrets(secret, self.n_values, n_releases)
        uniform = make_generator(random_state).random(array.shape)
        # Exactly 1 at the end, so that no draw falls behind the last possible release.
        cumulative = self.table.cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        releases = np.empty(array.shape, dtype=np.intp)
        for value in np.unique(array):
            chosen = array == value
            releases[chosen] = np.searchsorted(cumulative[value], uniform[chosen], side="right")
        return releases

    def log_likelihood(self, releases: npt.ArrayLike) -> FloatArray:
        """Logarithm of the probability of releases under each value of the secret.

        Parameters
        ----------
        releases : int or array of int
            Columns of the table.

        Returns
        -------
        ndarray of shape (*releases.shape, M)

        Examples
        --------
        >>> DiscreteChannel([[0.9, 0.1], [0.3, 0.7]]).log_likelihood(0).round(4)
        array([-0.1054, -1.204 ])
        """
        y = check_integers("releases", releases, self.n_outcomes)
        with np.errstate(divide="ignore"):
            return np.log(self.table.T[y])

    def _success(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        p = check_prior(prior, self.n_values)
        best = np.zeros((*p.shape[:-1], self.n_outcomes))
        for secret in range(self.n_values):
            np.maximum(best, p[..., secret, None] * self.table[secret], out=best)
        success = np.clip(best.sum(axis=-1), p.max(axis=-1), 1.0)
        return success, np.zeros_like(success)

    def _information(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        p = check_prior(prior, self.n_values)
        marginal = p @ self.table
        information = np.zeros(p.shape[:-1])
        for secret in range(self.n_values):
            # A secret that is never drawn says nothing of the marginal.
            reference = np.where(p[..., secret, None] > 0, marginal, self.table[secret])
            terms = relative_entropy(self.table[secret] - reference, reference)
            information = information + p[..., secret] * terms.sum(axis=-1)
        information = np.maximum(information, 0.0)
        return information, np.zeros_like(information)

    def _divergences_from(self, secret: int, order: float) -> FloatArray:
        return renyi_divergence(self.table[secret], self.table, order)

    def _own_bounds(self, prior: FloatArray | int) -> list[Bound]:
        return differential_privacy_bounds(float(self._worst_divergence(np.inf)), prior)


def differential_privacy_bounds(epsilon: float, prior: FloatArray | int) -> list[Bound]:
    """Bound from the max divergence, where it is finite: the channel is then epsilon-DP."""
    if np.isinf(epsilon):
        return []
    return [Bound("differential privacy", dp_advantage(epsilon, 0.0, prior))]


class RandomizedResponse(Channel):
    """Release the secret with probability 1 - q, and a uniform draw from all M values otherwise.

    [FANO23] eq. 8. Everything is exact, and under a uniform prior nothing of size M is built.

    Parameters
    ----------
    flip_probability : float
        q in [0, 1]. The uniform draw may return the secret: the truth has probability
        ``1 - q + q / M``.
    n_values : int
        M, at least 2.

    Attributes
    ----------
    flip_probability : float
        q.
    n_values : int
        M.
    table : ndarray of shape (M, M)
        Probability of each release given each secret, as `DiscreteChannel` takes it.

    Raises
    ------
    ValueError
        For a probability outside [0, 1] or M < 2.

    Examples
    --------
    >>> channel = RandomizedResponse(flip_probability=0.25, n_values=4)
    >>> channel.bayes_success()  # 1 - q + q / M
    0.8125
    >>> channel.bayes_advantage()  # 1 - q
    0.75
    """

    def __init__(self, flip_probability: float, n_values: int) -> None:
        if not isinstance(n_values, int | np.integer) or isinstance(n_values, bool):
            raise TypeError(f"`n_values` must be an integer; got {type(n_values).__name__}.")
        if n_values < 2:
            raise ValueError(f"`n_values` must be at least 2; got {n_values}.")
        self.flip_probability = check_scalar("flip_probability", flip_probability, high=1.0)
        self.n_values = int(n_values)

    def __repr__(self) -> str:
        return f"RandomizedResponse({self.flip_probability}, {self.n_values})"

    @property
    def _truth(self) -> float:
        return 1 - self.flip_probability + self._other

    @property
    def _other(self) -> float:
        """Probability of each value but the truth."""
        return self.flip_probability / self.n_values

    @cached_property
    def table(self) -> FloatArray:
        """Probability of each release given each secret, shape (M, M)."""
        table = np.full((self.n_values, self.n_values), self._other)
        np.fill_diagonal(table, self._truth)
        return table

    def sample(
        self,
        secret: npt.ArrayLike,
        n_releases: int | None = None,
        random_state: RandomState = None,
    ) -> IntArray:
        """Draw releases given the secret.

        Parameters
        ----------
        secret : int or array of int
            Index of the secret's value.
        n_releases : int or None, default=None
            Number of releases of each secret, along a new last axis; None draws one without it.
        random_state : None, int, RandomState or Generator, default=None
            Source of randomness; None takes fresh entropy.

        Returns
        -------
        ndarray of int of shape secret.shape or (*secret.shape, n_releases)

        Examples
        --------
        >>> RandomizedResponse(0.0, 3).sample([2, 0], n_releases=2, random_state=0)
        array([[2, 2],
               [0, 0]])
        """
        array = repeat_secrets(secret, self.n_values, n_releases)
        generator = make_generator(random_state)
        flipped = generator.random(array.shape) < self.flip_probability
        return np.where(flipped, generator.integers(self.n_values, size=array.shape), array)

    def log_likelihood(self, releases: npt.ArrayLike) -> FloatArray:
        """Logarithm of the probability of releases under each value of the secret.

        Parameters
        ----------
        releases : int or array of int
            Released values.

        Returns
        -------
        ndarray of shape (*releases.shape, M)

        Examples
        --------
        >>> RandomizedResponse(0.5, 2).log_likelihood(0).round(4)
        array([-0.2877, -1.3863])
        """
        y = check_integers("releases", releases, self.n_values)
        with np.errstate(divide="ignore"):
            truth, other = np.log([self._truth, self._other])
        return np.where(y[..., None] == np.arange(self.n_values), truth, other)

    def mutual_information_bound(
        self, prior: npt.ArrayLike | None = None, *, pairwise: bool = True
    ) -> float | FloatArray:
        """Upper bound on the mutual information from pairwise divergences alone.

        As for any channel, `Channel.mutual_information_bound`; all pairs being alike, both forms
        are the same.

        Parameters
        ----------
        prior : array of shape (M,) or (n, M), int or None, default=None
            Prior of the secret; None is uniform.
        pairwise : bool, default=True
            Makes no difference here.

        Returns
        -------
        float or ndarray of shape (n,)
            In nats.
        """
        # All secrets are equally far apart, so both bounds are the same.
        if not is_uniform(prior):
            return super().mutual_information_bound(prior, pairwise=False)
        share = 1 / check_count(prior, self.n_values)
        return as_result(-np.log1p((1 - share) * np.expm1(-self._worst_divergence(1.0))))

    def _success(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        if is_uniform(prior):
            check_count(prior, self.n_values)
            return np.asarray(self._truth), np.zeros(())
        p = check_prior(prior, self.n_values)
        top = p.max(axis=-1, keepdims=True)
        # A release y speaks for y, or is outweighed by the likeliest value.
        success = np.maximum(p * self._truth, top * self._other).sum(axis=-1)
        return np.clip(success, top[..., 0], 1.0), np.zeros_like(success)

    def _information(self, prior: npt.ArrayLike | None) -> tuple[Array, Array]:
        kept = 1 - self.flip_probability
        if is_uniform(prior):
            share, count = np.asarray(1 / check_count(prior, self.n_values)), self.n_values
        else:
            share, count = check_prior(prior, self.n_values), 1
        marginal = self._other + kept * share
        # A value that is never drawn says nothing: any reference does.
        true = relative_entropy(kept * (1 - share), np.where(share > 0, marginal, 1.0))
        false = relative_entropy(-kept * share, marginal)
        terms = share * true + (1 - share) * false
        information = np.asarray(terms * count if count > 1 else terms.sum(axis=-1))
        return np.maximum(information, 0.0), np.zeros_like(information)

    def _divergences_from(self, secret: int, order: float) -> FloatArray:
        divergences = np.full(self.n_values, self._worst_divergence(order))
        divergences[secret] = 0.0
        return divergences

    def _worst_divergence(self, order: float) -> FloatArray:
        """All pairs of secrets are alike: truth and other change places, the rest stays."""
        if self._other == 0:
            return np.asarray(np.inf)
        truth, other = self._truth, self._other
        ratio = np.log1p((1 - self.flip_probability) / other)
        if np.isinf(order):
            return np.asarray(ratio)
        excess = order - 1
        if excess == 0:
            return np.asarray((truth - other) * ratio)
        exponent = excess * ratio
        if exponent > 30:
            # The same sum as below, scaled against overflow.
            rest = other * np.exp(-exponent) + (1 - truth - other)
            log_sum = exponent + np.log(truth + rest * np.exp(-exponent))
        else:
            log_sum = np.log1p(truth * np.expm1(exponent) + other * np.expm1(-exponent))
        return np.asarray(log_sum / excess)

    def _own_bounds(self, prior: FloatArray | int) -> list[Bound]:
        return differential_privacy_bounds(float(self._worst_divergence(np.inf)), prior)
