"""What attacks on membership share: fit arguments, thresholds, guesses, and rates of success."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_curve
from sklearn.utils import Tags

from skleak.adversary.hypotheses import check_weights_known
from skleak.adversary.knowledge import remember_columns, resolve_records
from skleak.adversary.membership import as_membership
from skleak.attacks.membership.shadow import Records, known_records
from skleak.utils._confidential import ConfidentialMixin, leaves_whole
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import NoMetadataRequests, RawTableMixin, fit_context
from skleak.utils._typing import FloatArray, IntArray, RandomState

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


class MembershipAttack(ConfidentialMixin, NoMetadataRequests, RawTableMixin, BaseEstimator):
    """An attack that scores raw records, and calls those above a threshold members."""

    def _forget(self) -> None:
        """Remove what an earlier fit has set."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that records may be sparse, too."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def decision_function(self, released: Any) -> FloatArray:
        """Score of every candidate."""

    @abstractmethod
    def _compared(self, released: Any) -> tuple[FloatArray, FloatArray, bool]:
        """Return evidence (n_models, n_targets), thresholds (n_models,), and whether one model."""

    def predict(self, released: Any) -> IntArray:
        """Guess which records under attack the model was trained on.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack.

        Returns
        -------
        ndarray of int of shape (n_targets,) or (n_models, n_targets)
            1 for members, 0 for non-members. A threshold that is calibrated on a population calls a
            record like those of it a member with probability at most `prior`.

        Raises
        ------
        ValueError
            As of `decision_function`, and where there is nothing to calibrate a threshold on.
        """
        return self._guesses(*self._compared(released))

    @staticmethod
    def _guesses(evidence: FloatArray, thresholds: FloatArray, single: bool) -> IntArray:
        guesses = (evidence >= thresholds[:, None]).astype(np.intp)
        return guesses[0] if single else guesses

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


class ReferenceAttack(MembershipAttack):
    """An attack that trains models of its own like the one under attack."""

    estimator: Any
    prior: float
    records: Any
    n_jobs: int | None
    verbose: int
    random_state: RandomState

    # Nested parameters are validated by the estimator itself.
    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(
        self,
        X: Any,
        y: Any,
        X_reference: Any = None,
        y_reference: Any = None,
        *,
        sample_weight: Any = None,
        reference_sample_weight: Any = None,
    ) -> Self:
        """Learn what models with and without each target answer.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n, n_columns)
            Raw candidates, each of which may or may not be a member. For the exact test the
            training records, the targets among them.
        y : array-like of shape (n,)
            Their true targets or labels.
        X_reference, y_reference : array-like of shape (m, n_columns) and (m,), default=None
            Raw records of the population other than the candidates, and their targets. They may or
            may not be members. Offline needs them, and the exact test takes none.
        sample_weight, reference_sample_weight : array-like of shape (n,) and (m,), default=None
            Weights of the records in the fit under attack, which the adversary knows; in a
            pipeline they go to its last step. A record takes part with all of its weight, or not
            at all: one of weight 2 counts twice in a fit, and is one person. Reference records
            have weights of one where only the candidates' are passed.

        Returns
        -------
        self

        Raises
        ------
        AttackNotApplicableError
            For a classifier without probabilities, and for weights and an estimator that takes
            none. For the exact test where the training objective is not known, with a reweighting,
            of more than two classes, or without a unique minimizer once a target is removed.
        ValueError
            For an invalid parameter, missing targets, reference records that are missing, of other
            columns or labels, or the candidates, too few records of the population for `prior`,
            where a model cannot be trained, for invalid weights, and for an estimator that was
            fitted with weights where none are given.
        """
        self._forget()
        known = (X, y, X_reference, y_reference)
        remember_columns(self, self._learn(known, (sample_weight, reference_sample_weight)))
        return self

    @abstractmethod
    def _learn(self, known: tuple[Any, Any, Any, Any], weights: tuple[Any, Any]) -> Any:
        """Learn from the arguments of `fit`, and return the table of candidates."""

    def _candidates(
        self, known: tuple[Any, Any, Any, Any], weights: tuple[Any, Any], *, offline: bool
    ) -> tuple[Records, Records | None]:
        """Return candidates and reference records, and keep who is under attack."""
        check_weights_known(self.estimator, weighted=weights[0] is not None)
        candidates, reference = known_records(*known, weights, offline=offline)
        self.records_ = resolve_records(self.records, len(candidates.y))
        return candidates, reference

    @property
    def _run(self) -> tuple[RandomState, int | None, int]:
        """Seed, jobs and verbosity of the models that are trained."""
        return self.random_state, self.n_jobs, self.verbose
