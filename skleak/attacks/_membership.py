"""Membership: what its attacks share, shadow models, and the attack by the loss."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import roc_curve
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from skleak.adversary.hypotheses import check_private, check_weights_known, weight_argument
from skleak.adversary.knowledge import remember_columns
from skleak.adversary.membership import (
    GradientNorm,
    RecordScores,
    Statistic,
    as_membership,
    calibrated_threshold,
    check_rate,
    finite,
    is_probabilistic,
    record_scores,
    reference_rank,
    released_models,
)
from skleak.adversary.records import Records, check_apart, known_records
from skleak.attacks._base import Attack, guarded
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._arguments import seeded, spawn_generators
from skleak.utils._confidential import without_ledger
from skleak.utils._sklearn_compat import Interval, RawTableMixin, StrOptions
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray, RandomState

_LARGEST_SEED = 2**31 - 1
# Keeps a rate of k of n non-members from counting as more than k / n.
_ROUND_OFF = 1e-12


class MembershipAttack(RawTableMixin, Attack):
    """An attack that scores raw records, and calls those above a threshold members."""

    @guarded
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
        """Learn what is known of the candidates, and of the population.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix of shape (n, n_columns)
            Raw candidates, each of which may or may not be a member. For the exact test the
            training records, the targets among them.
        y : array-like of shape (n,)
            Their true targets or labels.
        X_reference, y_reference : array-like of shape (m, n_columns) and (m,), default=None
            Raw records of the population other than the candidates, and their targets. A
            calibrated threshold needs some that the model was not trained on; for shadow models
            they may or may not be members. Offline needs them, and the exact test takes none.
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
            For an invalid parameter, missing targets, no record, reference records that are
            missing, of other columns or labels, or the candidates, too few records of the
            population for `prior`, where a model cannot be trained, for invalid weights, and for
            an estimator that was fitted with weights where none are given.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:  # of an earlier fit
            delattr(self, name)
        weights = sample_weight, reference_sample_weight
        candidates, reference = known_records(X, y, X_reference, y_reference, weights)
        self._learn(candidates, reference)
        remember_columns(self, candidates.X)
        return self

    @abstractmethod
    def _learn(self, candidates: Records, reference: Records | None) -> None:
        """Learn from candidates and, where there are any, reference records."""

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
        check_rate(false_positive_rate)
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


@dataclass(eq=False, repr=False, kw_only=True)
class MembershipInference(MembershipAttack):
    """Guess which candidate records a model was trained on, from how well it fits each of them.

    Models fit what they were trained on better than fresh records. The attack asks the model
    about every candidate, turns the answer into a score that is larger for members, and calls
    those above a threshold members.

    Parameters
    ----------
    statistic : {"loss", "likelihood", "modified_entropy", "gradient_norm"}, default="loss"
        Score that ``decision_function`` returns, larger for members:

        - "loss": minus the cross entropy of the label in nats, or squared error (Yeom et al. 2018)
        - "likelihood": probability ``p_y`` of the label; of a regressor the Gaussian density of the
          target, with the spread of the reference residuals (or of the candidates' without)
        - "modified_entropy": ``(1 - p_y) log p_y + sum_(k != y) p_k log(1 - p_k)``, of classifiers
          (Song and Mittal 2021)
        - "gradient_norm": minus the norm of the loss gradient, by a white box (Nasr et al. 2019)
    threshold : "calibrated" or float, default="calibrated"
        Score from which on a candidate is called a member, in units of ``decision_function``.
        "calibrated" takes it from reference records: a non-member is called a member with
        probability at most `prior`.
    prior : float, default=0.5
        Share of members that the adversary expects among the candidates, in (0, 1). Not used
        with a threshold given as a float.
    gradient_norm : callable or None, default=None
        Function of ``model, X, y`` that returns norms of shape (n_records,), for
        ``statistic="gradient_norm"``. None takes the closed form of linear models (squared,
        logistic, softmax and Poisson losses) and of scikit-learn's multi-layer perceptrons, also
        at the end of a pipeline.

    Attributes
    ----------
    n_candidates_, n_reference_ : int
        Number of candidate records, and of reference records (0 without).
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, where records are rows of a table, and their names if any.

    See Also
    --------
    skleak.bounds.dp_advantage : Bound by differential privacy on any attack.
    skleak.bounds.membership_lower_bound_bounded : Success of some attack on an overfitted model.
    skleak.metrics.generalization_gap : Measure of overfitting.

    Notes
    -----
    Calibration assumes reference records from the population of non-members that the model has
    never seen: exchangeable with a non-member, they bound its false alarm by ``k / (m + 1)``, k =
    ``floor(prior (m + 1))`` of m references. It does not maximize the accuracy. The advantage over
    guessing is ``(score - best) / (1 - best)`` with ``best = max(prior, 1 - prior)``. An average
    hides the few records that are exposed: look at `true_positive_rate` at a small false positive
    rate, too.
    A failed attack shows nothing; only bounds do. See the user guide, docs/theory/membership.md.

    Only ``predict_proba`` of a classifier and ``predict`` of a regressor are called. Labels are
    compared by value; one that the model has never seen has probability 0, whose logarithm counts
    as -708.4, and no gradient, which raises. Several models give one row each, and rates pool them.

    References
    ----------
    S. Yeom et al. Privacy risk in machine learning. CSF 2018.

    M. Nasr et al. Comprehensive privacy analysis of deep learning. IEEE S&P 2019.

    L. Song and P. Mittal. Systematic evaluation of privacy risks of machine learning models.
    USENIX Security 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(600, 4)), rng.choice(["no", "yes"], size=600)
    >>> model = KNeighborsClassifier(3).fit(X[:200], y[:200])
    >>> attack = MembershipInference().fit(X[:400], y[:400], X[400:], y[400:])
    >>> member = np.arange(400) < 200
    >>> attack.predict(model).shape, round(attack.score(model, member), 2)
    ((400,), 0.59)
    >>> fpr, tpr, thresholds = attack.roc_curve(model, member)
    >>> round(float(np.trapezoid(tpr, fpr)), 2)
    0.63
    """

    _parameter_constraints = Attack._parameter_constraints | {
        "statistic": [StrOptions(set(get_args(Statistic)))],
        "threshold": [StrOptions({"calibrated"}), Interval(Real, None, None, closed="neither")],
    }

    statistic: Statistic = "loss"
    threshold: "Literal['calibrated'] | float" = "calibrated"
    prior: float = 0.5
    gradient_norm: GradientNorm | None = None

    def _learn(self, candidates: Records, reference: Records | None) -> None:
        self._candidates, self._reference = candidates, reference
        self.n_candidates_ = len(candidates.y)
        self.n_reference_ = 0 if reference is None else len(reference.y)
        if self.threshold == "calibrated" and reference is not None:
            reference_rank(self.prior, self.n_reference_)

    def _scores(self, model: Any, records: Records) -> FloatArray:
        """Scores of some records under one model, of shape (n_records,)."""
        scores = record_scores(
            model,
            records.X,
            records.y,
            self.statistic,
            reference=self._reference,
            gradient_norm=self.gradient_norm,
        )
        return finite(scores)

    def decision_function(self, released: Any) -> FloatArray:
        """Score of every candidate: the larger, the more likely it is a member.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack.

        Returns
        -------
        ndarray of shape (n_candidates,) or (n_models, n_candidates)
            In the units of `statistic`; finite.

        Raises
        ------
        TypeError
            For anything but fitted models.
        AttackNotApplicableError
            For a statistic that the model does not have.
        ValueError
            For labels of which the model knows none.
        """
        check_is_fitted(self, "n_candidates_")
        models, single = released_models(released)
        scores = np.stack([self._scores(model, self._candidates) for model in models])
        return scores[0] if single else scores

    def decision_threshold(self, released: Any) -> "float | FloatArray":
        """Least score of those called members.

        Parameters
        ----------
        released : estimator, pipeline, or list of them
            Fitted or released models under attack.

        Returns
        -------
        float or ndarray of shape (n_models,)

        Raises
        ------
        ValueError
            Where it is to be calibrated and there are no reference records.
        """
        check_is_fitted(self, "n_candidates_")
        models, single = released_models(released)
        if self.threshold != "calibrated":
            thresholds = np.full(len(models), float(self.threshold))
        elif self._reference is None:
            raise ValueError(
                "A calibrated threshold needs records that the model was not trained on. Pass "
                "`fit(X, y, X_reference, y_reference)`, or a float as `threshold`."
            )
        else:
            scores = [self._scores(model, self._reference) for model in models]
            thresholds = np.array([calibrated_threshold(each, self.prior) for each in scores])
        return float(thresholds[0]) if single else thresholds

    def _compared(self, released: Any) -> tuple[FloatArray, FloatArray, bool]:
        thresholds = self.decision_threshold(released)
        scores = np.atleast_2d(self.decision_function(released))
        return scores, np.atleast_1d(thresholds), np.ndim(thresholds) == 0


@dataclass(eq=False, repr=False)
class ShadowAttack(MembershipAttack):
    """An attack that trains models of its own like the one under attack."""

    estimator: Any
    _: KW_ONLY
    prior: float = 0.5
    records: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    random_state: RandomState = None

    def _train(
        self, candidates: Records, reference: Records | None, rows: IntArray, *, offline: bool
    ) -> tuple[FloatArray, BoolArray]:
        """Train shadow models, offline on reference records alone, and ask them about some records.

        Shapes: ``rows`` (n_asked,), positions among candidates and reference records in this
        order; returns scores, and True where a model was trained on a record, (n_models, n_asked).
        """
        check_private(self.estimator)
        check_weights_known(self.estimator, weighted=candidates.weights is not None)
        # Charges no ledger: a shadow model is never released.
        template, n = without_ledger(self.estimator), len(candidates.y)
        weight_argument(template, candidates.weights)  # raises where none are taken
        self._probabilistic = hasattr(template, "predict_proba")
        known = everyone = candidates
        if reference is not None:
            everyone = candidates.and_others(reference)
            known = reference if offline else everyone
            if self._probabilistic and set(candidates.y.tolist()).isdisjoint(reference.y.tolist()):
                raise ValueError(
                    "`y` and `y_reference` have no label in common. Pass labels in one coding, and "
                    "reference records of the classes of the candidates."
                )
            check_apart(everyone, rows[rows < n], np.arange(n, len(everyone.y)))
        elif offline:
            raise ValueError(
                "Offline shadow models are trained on reference records alone. Pass "
                "`fit(X, y, X_reference, y_reference)`, or use method='online'."
            )
        first, *generators = spawn_generators(self.random_state, self.n_shadow_models + 1)
        strata = known.y if self._probabilistic else None
        halves = balanced_halves(strata, len(known.y), self.n_shadow_models, first)
        self._asked, self._statistic = everyone.at(rows), getattr(self, "statistic", None)
        trained = template, known, self._asked, self._statistic, halves, generators
        scores = shadow_scores(*trained, n_jobs=self.n_jobs, verbose=self.verbose)
        if offline:  # no candidate was trained on
            halves = np.hstack([np.zeros((len(halves), n), dtype=bool), halves])
        return scores, halves[:, rows]

    def _scores_of(self, released: Any) -> tuple[FloatArray, bool]:
        """Scores under models under attack, (n_models, n_asked), and whether there is one."""
        models, single = released_models(released)
        for model in models:
            check_weights_known(model, weighted=self._asked.weights is not None)
        return np.stack([self._score(model) for model in models]), single

    def _score(self, model: Any) -> FloatArray:
        X, y, _ = self._asked
        if self._statistic is None and is_probabilistic(model) != self._probabilistic:
            kinds = ["a regressor", "a classifier"]
            raise ValueError(
                f"The model under attack is {kinds[not self._probabilistic]} and the shadow models "
                f"are not: `estimator` is {kinds[self._probabilistic]}. Pass the estimator that "
                "the model was trained with."
            )
        names = getattr(model, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            extra = [name for name in X.columns if name not in set(names)]
            if extra:
                raise ValueError(
                    f"Shadow models were trained on columns that the {type(model).__name__} under "
                    f"attack has not seen: {extra[:5]}. Fit the attack without them."
                )
        return record_scores(model, X, y, self._statistic)


def balanced_halves(
    strata: Array | None, n_records: int, n_models: int, generator: np.random.Generator
) -> BoolArray:
    """Random halves of the records, every record in half of the halves.

    Records are paired at random within their class, and of each pair a coin decides which one is
    trained on; the next model is trained on the others. So every record is in exactly half of an
    even number of training sets, and a class of two or more records is in all of them.

    Shapes: ``strata`` (n_records,); returns (n_models, n_records).
    """
    codes = np.zeros(n_records, dtype=np.intp) if strata is None else pd.factorize(strata)[0]
    halves = np.empty((n_models, n_records), dtype=bool)
    for k in range(0, n_models, 2):
        order = np.lexsort((generator.random(n_records), codes))
        coins = generator.random((n_records + 1) // 2) < 0.5
        sides = np.column_stack([coins, ~coins]).ravel()[:n_records]
        halves[k, order] = sides
        halves[k + 1 : k + 2] = ~halves[k]
    return halves


def shadow_scores(
    template: Any,
    records: Records,
    asked: Records,
    statistic: RecordScores | None,
    halves: BoolArray,
    generators: Sequence[np.random.Generator],
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> FloatArray:
    """Train a model on each half of some records, and keep its scores of those asked about.

    Shapes: ``halves`` (n_models, n); returns (n_models, n_asked): the same for every `n_jobs`.
    """

    def scores_of_one(half: BoolArray, generator: np.random.Generator) -> FloatArray:
        own = records.at(np.flatnonzero(half))
        model = seeded(template, lambda n: generator.integers(_LARGEST_SEED, size=n))
        try:
            model.fit(own.X, own.y, **weight_argument(model, own.weights))
            return record_scores(model, asked.X, asked.y, statistic, strict=False)
        except AttackNotApplicableError:
            raise
        except ValueError as error:
            raise ValueError(
                f"A shadow model trained on {len(own.y)} of the {len(records.y)} records "
                f"failed: {error} Shadow models see half of the records: pass more of them "
                "(`X_reference`), and preprocessing that takes categories it has not seen."
            ) from error

    found = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(scores_of_one)(*pair) for pair in zip(halves, generators, strict=True)
    )
    with tqdm(found, total=len(halves), desc="shadow models", disable=verbose <= 0) as bar:
        return np.stack(list(bar))
