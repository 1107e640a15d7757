"""Guesses of membership against the truth: curves, rates, share of right ones."""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_curve

from skleak.adversary.membership import as_membership
from skleak.utils._typing import FloatArray, IntArray

# Keeps a rate of k of n non-members from counting as more than k / n.
_ROUND_OFF = 1e-12


def check_rate(false_positive_rate: npt.ArrayLike) -> FloatArray:
    """One rate, of shape (), or several, of shape (k,), in [0, 1]."""
    rate = np.asarray(false_positive_rate, dtype=np.float64)
    if rate.ndim > 1 or not np.all((rate >= 0.0) & (rate <= 1.0)):
        raise ValueError(
            "`false_positive_rate` must be a number or a list of numbers in [0, 1]; got "
            f"{false_positive_rate!r}."
        )
    return rate


def check_positions(rows: Any, n: int) -> IntArray:
    """Positions in a design of n rows, as an array of integers."""
    array = np.asarray(rows)
    if array.dtype.kind not in "iu" or array.ndim > 1 or not np.all((array >= 0) & (array < n)):
        raise ValueError(
            f"`rows` must be positions in the design, whole numbers from 0 to {n - 1}; got "
            f"{rows!r}."
        )
    return array.astype(np.intp)


def check_responses(s: Any) -> FloatArray:
    """Finite numbers, in at most one dimension."""
    array = np.asarray(s, dtype=np.float64)
    if array.ndim > 1 or not np.all(np.isfinite(array)):
        raise ValueError(f"`s` must be one finite number or one for each test; got {s!r}.")
    return array


class MembershipRates:
    """Success of an attack that scores candidates and guesses which are members."""

    @abstractmethod
    def decision_function(self, released: Any) -> FloatArray:
        """Score of every candidate."""

    @abstractmethod
    def predict(self, released: Any) -> IntArray:
        """Guess of every candidate's membership."""

    def roc_curve(
        self, released: Any, truth: Any, *, drop_intermediate: bool = True
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rates of true and false positives at every threshold.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack; of several all pairs are pooled.
        truth : array-like of shape (n_candidates,) or (n_models, n_candidates)
            1 or True for members, 0 or False for others.
        drop_intermediate : bool, default=True
            Whether to leave out points on a straight line between others.

        Returns
        -------
        fpr, tpr : ndarray of shape (n_thresholds,)
            Shares of non-members and of members called members, ascending.
        thresholds : ndarray of shape (n_thresholds,)
            Least score of those called members, descending from infinity.

        Raises
        ------
        ValueError
            Where members or non-members are missing, or there is not one entry for each.
        """
        scores = self.decision_function(released)
        members = as_membership(truth, scores.shape)
        if not 0 < members.sum() < members.size:
            raise ValueError(
                f"A curve needs members and non-members; got {members.sum()} members among "
                f"{members.size}."
            )
        return roc_curve(members.ravel(), scores.ravel(), drop_intermediate=drop_intermediate)

    def true_positive_rate(
        self, released: Any, truth: Any, false_positive_rate: float = 0.01
    ) -> float:
        """Share of members found at the best threshold with few false positives.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack; of several all pairs are pooled.
        truth : array-like of shape (n_candidates,) or (n_models, n_candidates)
            1 or True for members, 0 or False for others.
        false_positive_rate : float, default=0.01
            Largest share of non-members called members, in [0, 1]. Below one over the number of
            non-members it allows none.

        Returns
        -------
        float
            In [0, 1]. The threshold is chosen with knowledge of the truth: what the statistic
            could do, not what `predict` does.

        Raises
        ------
        ValueError
            For a rate outside [0, 1], and as of `roc_curve`.
        """
        if not 0.0 <= false_positive_rate <= 1.0:
            raise ValueError(
                f"`false_positive_rate` must lie in [0, 1]; got {false_positive_rate}."
            )
        # Points on straight lines matter: the rate asked for may lie between two corners.
        fpr, tpr, _ = self.roc_curve(released, truth, drop_intermediate=False)
        return float(tpr[fpr <= false_positive_rate * (1.0 + _ROUND_OFF)].max())

    def score(self, released: Any, truth: Any) -> float:
        """Share of right guesses, over candidates and models.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack.
        truth : array-like of shape (n_candidates,) or (n_models, n_candidates)
            1 or True for members, 0 or False for others.

        Returns
        -------
        float
            In [0, 1]; compare it with ``max(share, 1 - share)``, the share being of members.

        Raises
        ------
        ValueError
            As of `predict`, and where there is not one entry for each candidate.
        """
        guesses = self.predict(released)
        return float(np.mean(guesses == as_membership(truth, guesses.shape)))
