"""What may leave: a model that predicts like the private estimator and knows nothing else."""

import warnings
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skleak import __version__
from skleak.exceptions import PrivacyLeakWarning
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array, FloatArray

__all__ = [
    "ClassificationMixin",
    "CountRegressionMixin",
    "LinearPredictionMixin",
    "LinearRegressionMixin",
    "ReleasedLinearRegression",
    "ReleasedLogisticRegression",
    "ReleasedModel",
    "ReleasedPoissonRegressor",
    "warn_if_replayable",
]


class LinearPredictionMixin:
    """Linear predictor of a model with ``coef_`` and ``intercept_``."""

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

    def _linear_predictor(self, X: Any) -> FloatArray:
        X = self._validated(X)
        return X @ np.ravel(self.coef_) + np.ravel(self.intercept_)  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what data the model takes."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


class LinearRegressionMixin(RegressorMixin, LinearPredictionMixin):
    """Predict the conditional mean as the linear predictor itself."""

    def predict(self, X: Any) -> FloatArray:
        """Predict the target.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._linear_predictor(X)


class CountRegressionMixin(RegressorMixin, LinearPredictionMixin):
    """Predict the conditional mean as the exponential of the linear predictor."""

    def predict(self, X: Any) -> FloatArray:
        """Predict the expected count.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive.
        """
        return np.exp(self._linear_predictor(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the Poisson deviance explained, as scikit-learn's ``PoissonRegressor`` has it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,)
            Counts.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each record counts.

        Returns
        -------
        float
            At most 1; zero for a constant prediction of the mean.
        """
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that targets are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class ClassificationMixin(ClassifierMixin, LinearPredictionMixin):
    """Predict one of two classes by the sign of the predictor, or of more by the largest one."""

    classes_: Array
    coef_: FloatArray
    intercept_: "float | FloatArray"

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second of two classes, or the predictor of each of more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Predictors of more than two classes mean something by their differences only, which
            are log-odds.
        """
        if self._is_binary:
            return self._linear_predictor(X)
        X = self._validated(X)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def predict(self, X: Any) -> Array:
        """Predict the class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        decision = self.decision_function(X)
        if self._is_binary:
            return self.classes_[(decision > 0.0).astype(int)]
        return self.classes_[decision.argmax(axis=1)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if self._is_binary:
            return np.column_stack([expit(-decision), expit(decision)])
        return np.asarray(softmax(decision, axis=1))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if self._is_binary:
            return np.column_stack([log_expit(-decision), log_expit(decision)])
        return np.asarray(log_softmax(decision, axis=1))

    @property
    def _is_binary(self) -> bool:
        check_is_fitted(self)
        return len(self.classes_) == 2


class ReleasedModel(BaseEstimator):
    """A private model as it may be published: it predicts, and that is all it can do.

    It holds the noisy coefficients, the class labels, the column names, the noise scale and how
    the model was made: no noiseless coefficient, no Hessian, no training record, no seed, no
    leakage of any record. Objects of this kind come from the ``release()`` method of a private
    estimator. Like scikit-learn's ``FrozenEstimator`` they are already trained: ``fit`` returns
    the model unchanged and ``clone`` returns the model itself.

    Attributes
    ----------
    coef_ : ndarray
        Noisy coefficients.
    intercept_ : float or ndarray
        Noisy intercept.
    noise_scale_ : float
        Standard deviation of the noise on each coefficient, its root mean square where they
        differ.
    provenance_ : dict
        Name of the estimator, loss, penalty and reweighting, the kind of covariance of the noise
        (but not the covariance, which may depend on the data), and the version of skleak.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Column names, where the training data had them.
    classes_ : ndarray of shape (n_classes,)
        Class labels, for a classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> released = PrivateLinearRegression().fit(X, y).release()
    >>> released.predict(X).shape
    (442,)
    """

    coef_: FloatArray
    intercept_: "float | FloatArray"
    noise_scale_: float
    provenance_: dict[str, Any]

    # Everything that is copied from the estimator. What is not in this list does not leave.
    _published = (
        "coef_",
        "intercept_",
        "noise_scale_",
        "n_features_in_",
        "feature_names_in_",
        "classes_",
    )

    @classmethod
    def of(cls, estimator: Any, provenance: dict[str, Any]) -> "ReleasedModel":
        """Copy what may leave from a fitted private estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted private estimator.
        provenance : dict
            How it was made, in words and public parameters.

        Returns
        -------
        ReleasedModel
        """
        released = cls()
        for name in cls._published:
            if hasattr(estimator, name):
                value = getattr(estimator, name)
                setattr(released, name, value.copy() if isinstance(value, np.ndarray) else value)
        released.provenance_ = {**provenance, "skleak": __version__}
        return released

    def fit(self, X: Any, y: Any = None, **params: Any) -> "ReleasedModel":
        """Return the model unchanged: it is already trained.

        Parameters
        ----------
        X : object
            Ignored.
        y : object, default=None
            Ignored.
        **params : dict
            Ignored.

        Returns
        -------
        ReleasedModel
        """
        check_is_fitted(self, "coef_")
        return self

    def __sklearn_clone__(self) -> "ReleasedModel":
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        made = getattr(self, "provenance_", {})
        noise = getattr(self, "noise_scale_", float("nan"))
        return f"<{type(self).__name__} of {made.get('estimator', '?')}, noise_scale={noise:g}>"


class ReleasedLinearRegression(LinearRegressionMixin, ReleasedModel):
    """A released `PrivateLinearRegression`; see `ReleasedModel`."""


class ReleasedPoissonRegressor(CountRegressionMixin, ReleasedModel):
    """A released `PrivatePoissonRegressor`; see `ReleasedModel`."""


class ReleasedLogisticRegression(ClassificationMixin, ReleasedModel):
    """A released `PrivateLogisticRegression`; see `ReleasedModel`."""


def warn_if_replayable(random_state: Any, noise_scale: float) -> None:
    """Warn where the noise of a release protects nobody.

    Parameters
    ----------
    random_state : None, int, RandomState or Generator
        Seed of the noise. An integer can be guessed, and the noise drawn again.
    noise_scale : float
        Standard deviation of the noise.

    Warns
    -----
    PrivacyLeakWarning
        Where the noise is zero or came from an integer seed.

    Examples
    --------
    >>> warn_if_replayable(None, 0.1)
    """
    if noise_scale == 0.0:
        warnings.warn(
            "Releasing a model without noise (`noise_scale=0`): its coefficients are an exact "
            "function of the training records and leakage is infinite. Fit with "
            "`noise_scale > 0` before you publish it.",
            PrivacyLeakWarning,
            stacklevel=3,
        )
    elif random_state is not None and not hasattr(random_state, "normal"):
        warnings.warn(
            f"Releasing a model whose noise came from the integer seed {random_state}: whoever "
            "guesses the seed can draw the noise again and subtract it. Fit with "
            "`random_state=None`, which takes entropy from the operating system.",
            PrivacyLeakWarning,
            stacklevel=3,
        )
