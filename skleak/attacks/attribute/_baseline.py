"""What is guessed without the model: from frequencies, and from all else about the record."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import check_each, check_weights, count_releases
from skleak.adversary.knowledge import (
    Secret,
    as_table,
    attribute_prior,
    column_names,
    conditional_prior,
    default_classifier,
    imputed,
    number_prior,
    read_secret,
    secret_of,
)
from skleak.attacks.attribute._base import AttributeAttack, categorical_only
from skleak.utils._confidential import leaves_whole
from skleak.utils._features import is_target
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import HasMethods, fit_context
from skleak.utils._typing import Array, FloatArray


class _Baseline(AttributeAttack):
    """An attack that does not look at the release."""

    @withholding
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from the records alone.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw records; with ``attribute=None``, what is known of them.
        y : array-like of shape (n,), default=None
            Targets of the model, known to the adversary; with ``attribute=None`` the secret.
        sample_weight : array-like of shape (n,), default=None
            Weights of the records in the fit under attack. A row is one person whatever it weighs:
            they are checked, and frequencies and imputations count rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it, or more than 64
            categories, and for invalid weights.
        """
        table = as_table(X)
        check_weights(sample_weight, table)
        y = self._check_target(y, table)
        if self.attribute is None:
            secret, known = secret_of(y, -1, "y", self.values), table
            y = None
        else:
            secret, known, y = read_secret(table, y, self.attribute, self.values)
        self._remember(table, secret)
        if secret.numeric:
            self.estimates_ = self._estimate(known, y, secret.column)[self.records_]
        else:
            self.prior_ = self._probabilities(known, y, secret)
        return self

    @classmethod
    def _of_prior(cls, values: Array, prior: FloatArray) -> Self:
        """Return a fitted attack that guesses by given probabilities, (n_targets, n_values)."""
        attack = cls()
        attack.records_, attack.numeric_ = np.arange(len(prior)), False
        attack.values_, attack.prior_ = values, prior
        return attack

    @abstractmethod
    def _probabilities(self, known: Any, y: Any, secret: Secret) -> FloatArray:
        """Probabilities of the values for every target, of shape (n_targets, n_values)."""

    @abstractmethod
    def _estimate(self, known: Any, y: Any, column: FloatArray) -> FloatArray:
        """Return a guess of a quantity for every record, of shape (n,), from the others."""

    def _check_target(self, y: Any, table: Any) -> Any:
        secret = self.attribute is None or is_target(self.attribute, column_names(table))
        if y is None and not secret:
            return None
        return super()._check_target(y, table)

    def predict(self, released: Any = None, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target, without looking at the release.

        Parameters
        ----------
        released : estimator, pipeline, list of them, array or None, default=None
            Only the number of releases is looked at.
        noise_scale : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_releases, n_targets)
        """
        check_is_fitted(self, "values_")
        if not self.numeric_:
            return super().predict(released, noise_scale)
        count = count_releases(released)
        shape = self.estimates_.shape if count is None else (count, *self.estimates_.shape)
        return np.array(np.broadcast_to(self.estimates_, shape))

    def predict_each(self, released: Any, noise_scale: Any = None) -> Array:
        """Guess the attribute of every target, without looking at the releases.

        Parameters
        ----------
        released : array-like of shape (n_releases, n_targets, n_parameters)
            Only the number of releases is looked at.
        noise_scale : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_releases, n_targets)
        """
        check_is_fitted(self, "values_")
        if not self.numeric_:
            return super().predict_each(released, noise_scale)
        count = len(check_each(released, len(self.records_)))
        return np.array(np.broadcast_to(self.estimates_, (count, len(self.estimates_))))

    @available_if(categorical_only)
    def predict_proba(self, released: Any = None, noise_scale: Any = None) -> FloatArray:
        """Return the probability of every candidate value, without looking at the release.

        Parameters
        ----------
        released : estimator, pipeline, list of them, array or None, default=None
            Only the number of releases is looked at.
        noise_scale : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_targets, n_values) or (n_releases, n_targets, n_values)
        """
        return super().predict_proba(released, noise_scale)

    def _read(self, released: Any, noise_scale: Any) -> tuple[None, int, bool]:
        count = count_releases(released)
        return None, 1 if count is None else count, count is None

    def _read_each(self, released: Any, noise_scale: Any) -> tuple[None, int]:
        return None, len(check_each(released, len(self.records_)))

    def _scores(self, releases: None, rows: slice) -> FloatArray:
        return np.zeros((rows.stop - rows.start, len(self.records_), len(self.values_)))

    def _scores_each(self, releases: None, rows: slice) -> FloatArray:
        return self._scores(releases, rows)


class PriorAttack(_Baseline):
    """Guess the likeliest value of the prior: the first baseline, without the model.

    Parameters
    ----------
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position. None and "(target)" take `y` as the
        secret.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur.
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        As in `WhiteBoxAttributeInference`; for a number as in `PosteriorMeanReconstruction`.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending.
    prior_ : ndarray of shape (n_targets, n_values)
        Prior of every target, which its own value does not enter.
    estimates_ : ndarray of shape (n_targets,)
        For a numeric attribute the mean of its prior: of the other records by default.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([[0, 0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> attack = PriorAttack(0).fit(X)
    >>> attack.predict()
    array([0., 0., 0., 0., 0.])
    >>> attack.prior_[0]
    array([0.5, 0.5])
    """

    def __init__(
        self,
        attribute: Any = None,
        *,
        values: Any = None,
        prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal",
        records: Any = None,
    ) -> None:
        self.attribute = attribute
        self.values = values
        self.prior = prior
        self.records = records

    @fit_context(prefer_skip_nested_validation=True)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Count the values of the other records; see the class."""
        return super().fit(X, y, sample_weight=sample_weight)

    def _probabilities(self, known: Any, y: Any, secret: Secret) -> FloatArray:
        return attribute_prior(self.prior, known, y, secret, self.records_)

    def _estimate(self, known: Any, y: Any, column: FloatArray) -> FloatArray:
        if isinstance(self.prior, str) and self.prior == "marginal":
            return (column.sum() - column) / (len(column) - 1)
        return number_prior(self.prior, known, y, column, np.arange(len(column))).mean


class ImputationAttack(_Baseline):
    """Guess from all else about the record, without the model: the second baseline.

    A classifier learns the attribute from the other columns and the target of the model, and
    guesses it for records of other folds. What it gets right is known of the population, and
    is no leakage of the model: an attack leaks only what it gains over it.

    Parameters
    ----------
    attribute : str, int or None, default=None
        Sensitive column of the raw data, by name or position. None and "(target)" take `y` as the
        secret.
    classifier : classifier or None, default=None
        Unfitted, with ``predict_proba``; it is cloned for every fold, and takes the other columns
        (and the target, last) as a DataFrame. None takes logistic regression on imputed and
        scaled numbers and one-hot encoded categories. For a numeric attribute a regressor;
        None takes ridge regression.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values; None takes those that occur.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending.
    prior_ : ndarray of shape (n_targets, n_values)
        Probabilities given all else about the target, from classifiers that did not see it: the
        conditional prior of the game of [FANO23].
    estimates_ : ndarray of shape (n_targets,)
        For a numeric attribute: the guess itself.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=100)
    >>> X = np.column_stack([known > 0, known])
    >>> attack = ImputationAttack(0).fit(X)
    >>> attack.score(None, X[:, 0]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{k: v for k, v in AttributeAttack._parameter_constraints.items() if k != "prior"},
        "classifier": [HasMethods(["fit", "predict"]), None],
    }

    def __init__(
        self,
        attribute: Any = None,
        *,
        classifier: Any = None,
        values: Any = None,
        records: Any = None,
    ) -> None:
        self.attribute = attribute
        self.classifier = classifier
        self.values = values
        self.records = records

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Fit the classifier on every fold; see the class."""
        return super().fit(X, y, sample_weight=sample_weight)

    def _probabilities(self, known: Any, y: Any, secret: Secret) -> FloatArray:
        classifier = self.classifier
        if classifier is None:
            classifier = default_classifier()
        n_values = len(self.values_)
        prior = conditional_prior(classifier, known, y, secret.codes, n_values)
        return prior[self.records_]

    def _estimate(self, known: Any, y: Any, column: FloatArray) -> FloatArray:
        return imputed(self.classifier, known, y, column)
