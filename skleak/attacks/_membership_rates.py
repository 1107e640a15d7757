"""Guesses of membership against the truth: curves, rates, share of right ones."""

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from skleak.attacks._membership_records import as_membership
from skleak.utils._typing import FloatArray, IntArray

__all__ = ["MembershipRates"]

# Keeps a rate of k of n non-members from counting as more than k / n.
_ROUND_OFF = 1e-12


class MembershipRates:
    """Success of an attack that scores candidates and guesses which are members."""

    @abstractmethod
    def decision_function(self, model: Any) -> FloatArray:
        """Score of every candidate."""

    @abstractmethod
    def predict(self, model: Any) -> IntArray:
        """Guess of every candidate's membership."""

    def roc_curve(
        self, model: Any, membership: Any, *, drop_intermediate: bool = True
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rates of true and false positives at every threshold.

        Parameters
        ----------
        model : estimator, pipeline, or list of them
            Fitted or released models under attack; of several all pairs are pooled.
        membership : array-like of shape (n_candidates,) or (n_models, n_candidates)
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
        scores = self.decision_function(model)
        truth = as_membership(membership, scores.shape)
        if not 0 < truth.sum() < truth.size:
            raise ValueError(
                f"A curve needs members and non-members; got {truth.sum()} members among "
                f"{truth.size}."
            )
        return roc_curve(truth.ravel(), scores.ravel(), drop_intermediate=drop_intermediate)

    def true_positive_rate(
        self, model: Any, membership: Any, false_positive_rate: float = 0.01
    ) -> float:
        """Share of members found at the best threshold with few false positives.

        Parameters
        ----------
        model : estimator, pipeline, or list of them
            Fitted or released models under attack; of several all pairs are pooled.
        membership : array-like of shape (n_candidates,) or (n_models, n_candidates)
            1 or True for members, 0 or False for others.
        false_positive_rate : float, default=0.01
            Largest share of non-members called members, in [0, 1]. Below one over the number of
            non-members it allows none.

        Returns
        -------
        float
            In [0, 1]. The threshold is chosen with knowledge of the truth: what the score could
            do, not what `predict` does.

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
        fpr, tpr, _ = self.roc_curve(model, membership, drop_intermediate=False)
        return float(tpr[fpr <= false_positive_rate * (1.0 + _ROUND_OFF)].max())

    def accuracy(self, model: Any, membership: Any) -> float:
        """Share of right guesses, over candidates and models.

        Parameters
        ----------
        model : estimator, pipeline, or list of them
            Fitted or released models under attack.
        membership : array-like of shape (n_candidates,) or (n_models, n_candidates)
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
        guesses = self.predict(model)
        return float(np.mean(guesses == as_membership(membership, guesses.shape)))
