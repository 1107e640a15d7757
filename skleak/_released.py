"""What may leave: a model that predicts like the private estimator and knows nothing else."""

import copy
import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skleak._released_export import ExportMixin
from skleak._version import __version__
from skleak.accounting import gaussian_delta
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.mechanisms.grids import Grid
from skleak.utils._arguments import as_result, check_real, import_optional
from skleak.utils._blocks import Blocks, is_large_source
from skleak.utils._records import values_withheld, withholding
from skleak.utils._sklearn_compat import copy_attributes, outer_stacklevel, validate_data
from skleak.utils._typing import Array, Data, FloatArray
from skleak.utils.sources import only_finite, opened, refuse_path

# What a guarantee of a model alone is about; of a pipeline it is the table that came in.
TABLE = "the table that the model received"
F = TypeVar("F", bound=Callable[..., Any])


def lazily(method: F) -> F:
    """Wrap a method that answers about records to answer lazily where these lie outside memory.

    What travels to where the records are is a released model, of which nothing is confidential.
    A path is refused.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any) -> Any:
        kind: Any = getattr(self, "_released", type(self))
        refuse_path(X, method.__name__)
        if not is_large_source(X) or "coef_" not in getattr(kind, "_published", ()):
            return method(self, X)
        check_is_fitted(self)
        table = opened(self, X)
        records = only_finite(table.X, "X", table.names)
        released = kind.__new__(kind)  # which answers about columns by their position
        copy_attributes(self, released, {*kind._published} - {"feature_names_in_"})
        blocks = Blocks.of(records, width=0, keep_sparse=True)
        return blocks.map(_answered, released, method.__name__)

    return wrapped  # type: ignore[return-value]


def _answered(X: Data, model: Any, name: str) -> Array:
    """Answer about a block; scikit-learn refuses one of no records."""
    answer: Array = getattr(model, name)(X if X.shape[0] else np.zeros((1, X.shape[1])))
    return answer[: X.shape[0]]


class TrainedMixin:
    """Stay as it was made: it is already trained."""

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Return the model unchanged: it is already trained.

        Parameters
        ----------
        X, y : object
            Ignored.
        **params : object
            Ignored.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        return self

    def __sklearn_clone__(self) -> Self:
        return self


class LinearPredictionMixin:
    """Linear predictor of a model with ``coef_`` and ``intercept_``."""

    def _validated(self, X: Any) -> Any:
        check_is_fitted(self)
        with values_withheld(X, None):
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

    score = withholding(RegressorMixin.score)

    @lazily
    def predict(self, X: Any) -> FloatArray:
        """Predict the target.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Records; about those outside memory the answer is a lazy Dask array.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._linear_predictor(X)


class CountRegressionMixin(RegressorMixin, LinearPredictionMixin):
    """Predict the conditional mean as the exponential of the linear predictor."""

    @lazily
    def predict(self, X: Any) -> FloatArray:
        """Predict the expected count.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Records; about those outside memory the answer is a lazy Dask array.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive.
        """
        return np.exp(self._linear_predictor(X))

    @withholding
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
            At most 1; zero for a constant prediction of the mean, NaN where all counts are equal:
            there is no deviance to explain.
        """
        counted = np.asarray(y)
        if sample_weight is not None:
            counted = counted[np.asarray(sample_weight) > 0.0]
        if len(counted) > 1 and np.ptp(counted) == 0:
            return np.nan
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that targets are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class ClassDecisionMixin(ClassifierMixin):
    """Predict one of two classes by the sign of the decision function, or the largest of more."""

    classes_: Array
    score = withholding(ClassifierMixin.score)

    @lazily
    def predict(self, X: Any) -> Array:
        """Predict the class.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Records; about those outside memory the answer is a lazy Dask array.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        positions = self._positions(X)  # an error where it is not fitted
        return self.classes_[positions]

    def _positions(self, X: Any) -> Array:
        """Positions of the predicted classes, (n_samples,)."""
        decision = self.decision_function(X)
        return (decision > 0.0).astype(int) if self._is_binary else decision.argmax(axis=1)

    @lazily
    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Records; about those outside memory the answer is a lazy Dask array.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if self._is_binary:
            return np.column_stack([expit(-decision), expit(decision)])
        return np.asarray(softmax(decision, axis=1))

    @lazily
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Records; about those outside memory the answer is a lazy Dask array.

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


class ClassificationMixin(ClassDecisionMixin, LinearPredictionMixin):
    """Predict classes by linear predictors: one of two classes, or one for each of more."""

    coef_: FloatArray
    intercept_: "float | FloatArray"

    @lazily
    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second of two classes, or the predictor of each of more.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Records; about those outside memory the answer is a lazy Dask array.

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


def _has(name: str) -> Any:
    """Check for a method of the model that predicts, as `available_if` wants it."""
    return available_if(lambda self: hasattr(getattr(self, self._made, self.estimator), name))


class DelegatedPredictionMixin:
    """Predict by a model that ``fit`` has made, and keeps as the attribute named in ``_made``."""

    estimator: Any
    _made: ClassVar[str]

    @property
    def _predicting(self) -> Any:
        check_is_fitted(self, self._made)
        return getattr(self, self._made)

    def _take_columns_of(self, model: Any) -> None:
        """Learn columns and classes from a model."""
        names = ("n_features_in_", "feature_names_in_", "classes_")
        for name in names:
            self.__dict__.pop(name, None)
        copy_attributes(model, self, names)

    def predict(self, X: Any) -> Array:
        """Predict by the released model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.asarray(self._predicting.predict(X))

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class by the released model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.asarray(self._predicting.predict_proba(X))

    @_has("decision_function")
    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds, or predictors of more than two classes, by the released model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return np.asarray(self._predicting.decision_function(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy or R squared of the released model on other records.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; None for equal ones.

        Returns
        -------
        float
        """
        return float(self._predicting.score(X, y, sample_weight))


class ReleasedModel(TrainedMixin, ExportMixin, BaseEstimator):
    """A private model as it may be published: it predicts, and that is all it can do.

    Objects of this kind come from the ``release()`` method of a private estimator. They hold no
    noiseless coefficient, no Hessian, no training record, no seed and no leakage of any record.
    Like scikit-learn's ``FrozenEstimator`` they are already trained: ``fit`` returns the model
    unchanged and ``clone`` returns the model itself.

    Attributes
    ----------
    coef_ : ndarray
        Noisy coefficients, multiples of ``noise_step_``. May be known: what they reveal is the
        leakage that the estimator states.
    intercept_ : float or ndarray
        Noisy intercept, likewise; exactly 0 without an intercept, which is a parameter.
    noise_scale_ : float
        Standard deviation of the noise on each parameter, its root mean square where they differ.
        May be known: a number that was passed; or, under a goal that reads the records, a rung of
        a public ladder, about which the leakage report says what it may reveal. Of noise in the
        objective only what is added to its minimizer, from public numbers; of noise on sums what
        is added to each entry of ``X^T y``.
    noise_step_ : float
        All parameters are multiples of this power of two, but for an intercept with noise in the
        objective; 0 without noise, and where they are functions of noisy sums. May be known: a
        function of the noise scale, or of the released parameters where doubles cannot hold
        multiples of that.
    noise_sampler_ : str
        How the noise was drawn. May be known: a function of the parameters.
    coef_noise_scale_, intercept_noise_scale_ : ndarray or float, or None
        Standard error that the noise adds to each coefficient and to the intercept. May be known:
        functions of the noise scale and of a covariance that was passed. None where the noise has
        a shape that depends on the records, which must not be published, or is not on these.
    n_features_in_ : int
        Number of columns. May be known: it is the size of ``coef_``, and part of the schema.
    feature_names_in_ : ndarray of str
        Column names, where the training data had them. May be known if the schema is public;
        names made from values, such as those of a fitted encoder, are functions of the records.
    classes_ : ndarray of shape (n_classes,)
        Class labels, for a classifier. May be known where they were passed as ``classes``; else
        they are read off the labels, and no guarantee holds.
    provenance_ : dict
        Name of the estimator, loss, penalty, reweighting, the kind of covariance of the noise (but
        not the covariance), promises such as ``data_norm``, the guarantee of differential privacy
        and the version of skleak. May be known: parameters that were passed, and functions of
        them and of what was declared public.

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
    noise_step_: float
    noise_sampler_: str
    coef_noise_scale_: "FloatArray | None"
    intercept_noise_scale_: "float | FloatArray | None"
    provenance_: dict[str, Any]

    # Everything that is copied from the estimator. What is not in this list does not leave.
    _published = (
        "coef_",
        "intercept_",
        "noise_scale_",
        "noise_step_",
        "noise_sampler_",
        "coef_noise_scale_",
        "intercept_noise_scale_",
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
        copy_attributes(estimator, released, cls._published)
        released.provenance_ = {**copy.deepcopy(provenance), "skleak": __version__}
        return released

    def profile(self, epsilon: npt.ArrayLike) -> Any:
        """Bound delta at any epsilon, from what the release states.

        Parameters
        ----------
        epsilon : float or array-like, at least 0
            Bound on the log-likelihood ratio, in nats.

        Returns
        -------
        float or ndarray
            That of ``composed_mu``, plus ``mu_delta`` where one is stated, and the stated delta
            from the stated epsilon on. `skleak.accounting.tradeoff_curve` makes a curve of it.

        Raises
        ------
        NoGuaranteeError
            Where no guarantee is stated.
        """
        stated, loss = self._stated_guarantee(), check_real("epsilon", epsilon)
        delta = np.where(loss >= stated["epsilon"], stated["delta"], 1.0)
        gaussian = gaussian_delta(stated.get("composed_mu", np.inf), loss)
        return as_result(np.minimum(delta, gaussian + stated.get("mu_delta", 0.0)))

    def __dir__(self) -> Iterable[str]:
        """Leave out the event: whoever lists attributes, as diagrams do, does not ask for it."""
        return [name for name in object.__dir__(self) if name != "dp_event"]

    @property
    def dp_event(self) -> Any:
        """Event of dp-accounting that is no more private than the release: Gaussian noise.

        Its noise multiplier is ``1 / composed_mu``, so that replacing a row moves the release by
        one; there is none for a release that holds up to a ``mu_delta``. Accountants state that
        under ``ADD_OR_REMOVE_ONE``. Under ``REPLACE_ONE`` the one of
        privacy loss distributions doubles the distance: that holds, too, but is far from tight.
        """
        stated = self._stated_guarantee()
        if "composed_mu" not in stated or stated.get("mu_delta"):
            raise NoGuaranteeError(
                "The release states no mu of Gaussian noise that is no more private, or one up to "
                "a delta, for which dp-accounting has no event. Take `profile`."
            )
        return gaussian_event(stated["composed_mu"])

    def _stated_guarantee(self) -> dict[str, Any]:
        stated: dict[str, Any] | None = self.provenance_.get("differential_privacy")
        if not stated:
            raise NoGuaranteeError("No differential-privacy guarantee is stated by this release.")
        return stated

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        made = getattr(self, "provenance_", {})
        name = "noise_scale" if hasattr(self, "noise_scale_") else "noise_multiplier"
        noise = getattr(self, "noise_scale_", made.get(name, float("nan")))
        if "gradient_noise_scale" in made:
            name, noise = "gradient_noise_scale", made["gradient_noise_scale"]
        return f"<{type(self).__name__} of {made.get('estimator', '?')}, {name}={noise:g}>"


class ReleasedLinearRegression(LinearRegressionMixin, ReleasedModel):
    """A released `PrivateLinearRegression`; see `ReleasedModel`."""

    _counterpart = LinearRegression


class ReleasedPoissonRegressor(CountRegressionMixin, ReleasedModel):
    """A released `PrivatePoissonRegressor`; see `ReleasedModel`."""

    _counterpart = PoissonRegressor


class ReleasedLogisticRegression(ClassificationMixin, ReleasedModel):
    """A released `PrivateLogisticRegression`; see `ReleasedModel`."""

    _counterpart = LogisticRegression


def gaussian_event(mu: float) -> Any:
    """Return the event of dp-accounting for Gaussian noise of a mu.

    Parameters
    ----------
    mu : float, positive
        Distance of two releases over the noise.

    Returns
    -------
    dp_accounting.GaussianDpEvent
        Needs the extra ``accounting``.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> gaussian_event(0.5).noise_multiplier
    2.0
    """
    dp = import_optional("dp_accounting", "accounting", "An event of privacy accounting")
    return dp.GaussianDpEvent(1.0 / mu)


def refuse_without_guarantee(guarantee: Any, required: bool) -> None:
    """Raise where a release needs a `DifferentialPrivacy` that holds, and this one does not.

    Parameters
    ----------
    guarantee : DifferentialPrivacy
        Guarantee of the release.
    required : bool
        A release without one is refused.

    Raises
    ------
    NoGuaranteeError
        With all the reasons.
    """
    if required and not guarantee.holds:
        raise NoGuaranteeError(
            "No differential-privacy guarantee holds for this release: "
            f"{'; '.join(guarantee.reasons)}."
        )


def warn_of_release(
    *, seeded: bool, noise_scale: float = 1.0, step: float = 0.0, name: str = "noise_scale"
) -> None:
    """Warn where the noise of a release protects nobody, or its grid had to grow.

    Parameters
    ----------
    seeded : bool
        The noise came from a seed or a generator, from which it can be drawn again.
    noise_scale : float, default=1.0
        Standard deviation of the noise.
    step : float, default=0.0
        What the released parameters are multiples of.
    name : str, default="noise_scale"
        Name of the parameter that sets the noise.

    Warns
    -----
    PrivacyLeakWarning
        Where the noise is zero or can be replayed.
    UserWarning
        Where doubles cannot hold the parameters on the grid of the noise.

    Examples
    --------
    >>> warn_of_release(seeded=False, noise_scale=0.1, step=2.0**-34)
    """
    if noise_scale == 0.0:
        warnings.warn(
            f"Releasing a model without noise (`{name}=0`): its parameters are an exact function "
            f"of the training records and leakage is infinite. Fit with `{name} > 0` before you "
            "publish it.",
            PrivacyLeakWarning,
            stacklevel=outer_stacklevel(),
        )
        return
    if seeded:
        warnings.warn(
            "Releasing a model whose noise came from a seed or a generator: whoever guesses or "
            "copies it (as `clone` and cross-validation do) can draw all that was random again and "
            "subtract it. Fit with `random_state=None`, which takes entropy from the operating "
            "system.",
            PrivacyLeakWarning,
            stacklevel=outer_stacklevel(),
        )
    if step > Grid.for_noise(noise_scale).step:
        warnings.warn(
            f"The released parameters are multiples of {step:.3g}, not of "
            f"{Grid.for_noise(noise_scale).step:.3g}: they are more than 2**22 times as large as "
            "the noise, and doubles hold no finer ones. The rounding costs no privacy; so little "
            "noise gives next to none.",
            UserWarning,
            stacklevel=outer_stacklevel(),
        )
