"""Membership inference: was this record in the training data?"""

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import check_weights
from skleak.adversary.knowledge import remember_columns
from skleak.adversary.membership import (
    Statistic,
    as_records,
    as_reference,
    as_targets,
    calibrated_threshold,
    classification_scores,
    finite,
    is_probabilistic,
    norms_by,
    reference_rank,
    regression_scores,
    released_models,
)
from skleak.attacks.membership._base import MembershipAttack
from skleak.utils._confidential import leaves_whole
from skleak.utils._predictions import residuals
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import Interval, StrOptions, fit_context
from skleak.utils._typing import Array, FloatArray


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
    skleak.bounds.membership_advantage_dp : Bound by differential privacy on any attack.
    skleak.bounds.membership_lower_bound_bounded : Success of some attack on an overfitted model.
    skleak.metrics.generalization_gap : Measure of overfitting.

    Notes
    -----
    Calibration assumes reference records from the population of non-members that the model has
    never seen: exchangeable with a non-member, they bound its false alarm by ``k / (m + 1)``, k =
    ``floor(prior (m + 1))`` of m references. It does not maximise the accuracy. The advantage over
    guessing is ``metrics.attack_advantage(score, max(prior, 1 - prior))``. An average hides the
    few records that are exposed: look at `true_positive_rate` at a small false positive rate, too.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "statistic": [StrOptions({"loss", "likelihood", "modified_entropy", "gradient_norm"})],
        "threshold": [StrOptions({"calibrated"}), Interval(Real, None, None, closed="neither")],
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "gradient_norm": [callable, None],
    }

    def __init__(
        self,
        *,
        statistic: Statistic = "loss",
        threshold: "Literal['calibrated'] | float" = "calibrated",
        prior: float = 0.5,
        gradient_norm: Callable[[Any, Any, Any], Any] | None = None,
    ) -> None:
        self.statistic = statistic
        self.threshold = threshold
        self.prior = prior
        self.gradient_norm = gradient_norm

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(
        self,
        X_candidates: Any,
        y_candidates: Any,
        X_reference: Any = None,
        y_reference: Any = None,
        *,
        sample_weight: Any = None,
        reference_sample_weight: Any = None,
    ) -> Self:
        """Take what the adversary knows.

        Parameters
        ----------
        X_candidates : array-like, DataFrame or sparse matrix of shape (n_candidates, n_columns)
            Raw records, each of which may or may not be a member. They are kept, not copied.
        y_candidates : array-like of shape (n_candidates,)
            Their true targets or labels.
        X_reference : array-like, DataFrame or sparse matrix of shape (n_reference, n_columns)
            Raw records of the population that the model was not trained on; default None. Only
            a calibrated threshold needs them.
        y_reference : array-like of shape (n_reference,), default=None
            Their true targets or labels; a single class will do.
        sample_weight : array-like of shape (n_candidates,), default=None
            Weights of the candidates in the fit under attack. A row is one person whatever it
            weighs: they are checked, and scores and thresholds count rows.
        reference_sample_weight : array-like of shape (n_reference,), default=None
            Likewise, of the reference records.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an invalid parameter, missing targets, no record, references of other columns, one
            of the two reference arguments alone, or too few references for `prior`; for invalid
            weights, and weights of reference records that there are none of.
        """
        X = as_records(X_candidates, "X_candidates")
        y = as_targets(y_candidates, X, "y_candidates")
        self._candidates = X, y
        self._reference = as_reference(X, X_reference, y_reference)
        check_weights(sample_weight, X)
        if reference_sample_weight is not None:
            if self._reference is None:
                raise ValueError(
                    "`reference_sample_weight` is for reference records; got none. Pass "
                    "`X_reference` and `y_reference` too."
                )
            check_weights(reference_sample_weight, self._reference[0])
        self.n_candidates_ = len(y)
        self.n_reference_ = 0 if self._reference is None else len(self._reference[1])
        if self.threshold == "calibrated" and self._reference is not None:
            reference_rank(self.prior, self.n_reference_)
        remember_columns(self, X)
        return self

    def _scores(self, model: Any, records: tuple[Any, Array]) -> FloatArray:
        """Scores of some records under one model, of shape (n_records,)."""
        X, y = records
        if self.statistic == "gradient_norm":
            scores = -norms_by(self.gradient_norm, model, X, y)
        elif is_probabilistic(model):
            scores = classification_scores(model, X, y, self.statistic)
        else:
            scale = None
            if self.statistic == "likelihood" and self._reference is not None:
                scale = float(np.sqrt(np.mean(residuals(model, *self._reference) ** 2)))
            scores = regression_scores(model, X, y, self.statistic, scale)
        if scores.shape != y.shape:
            raise ValueError(
                f"{type(model).__name__} must answer for each of the {len(y)} records; got shape "
                f"{scores.shape}."
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
        thresholds = np.array([self._threshold(model) for model in models])
        return float(thresholds[0]) if single else thresholds

    def _threshold(self, model: Any) -> float:
        if self.threshold != "calibrated":
            return float(self.threshold)
        if self._reference is None:
            raise ValueError(
                "A calibrated threshold needs records that the model was not trained on. Pass "
                "`fit(X_candidates, y_candidates, X_reference, y_reference)`, or a float as "
                "`threshold`."
            )
        return calibrated_threshold(self._scores(model, self._reference), self.prior)

    def _compared(self, released: Any) -> tuple[FloatArray, FloatArray, bool]:
        thresholds = self.decision_threshold(released)
        scores = np.atleast_2d(self.decision_function(released))
        return scores, np.atleast_1d(thresholds), np.ndim(thresholds) == 0
