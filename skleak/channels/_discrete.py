"""Channels with finitely many releases, given as a table of probabilities."""

import numpy as np
import numpy.typing as npt

from skleak.bounds import dp_advantage
from skleak.channels._base import Channel, repeat_secrets
from skleak.channels._bounds_table import Bound
from skleak.channels._divergence import relative_entropy, renyi_divergence
from skleak.utils._arguments import SUM_TOLERANCE, check_finite, check_integers, check_prior
from skleak.utils._random import make_generator
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
        array = check_finite("table", table)
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
    return [
        Bound(
            "differential privacy",
            dp_advantage(epsilon, 0.0, prior),
            "max divergence between two secrets",
            "[HMB23]",
        )
    ]
