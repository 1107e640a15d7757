"""Membership inference from released parameters: the exact test between with and without."""

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr, ndtri
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skleak.attacks._encodings import PublicModel, fit_public_model
from skleak.attacks._knowledge import as_table, column_names, resolve_targets
from skleak.attacks._releases import read_releases
from skleak.attacks._removals import removal_steps
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import FitState
from skleak.solvers import MultinomialObjective
from skleak.utils._sklearn_compat import HasMethods, Interval, fit_context
from skleak.utils._typing import FloatArray, IntArray

__all__ = ["LikelihoodRatioMembership"]

# Encodings are known to about this, relative to the parameters: what they differ by less is not
# told apart, even by a release without noise.
_ROUND_OFF = 1e-10


class LikelihoodRatioMembership(BaseEstimator):
    """Tell whether a record was trained on: the most powerful test on released parameters.

    The adversary knows every other record, the record in question, how the model is trained and
    the noise. The model is trained without noise with the record and without it, and a release is
    drawn from ``N(with, noise_scale^2 I)`` or from ``N(without, noise_scale^2 I)``. The guess is
    the likelier of the two, given the prior: no test does better (Neyman and Pearson).

    Parameters
    ----------
    estimator : private estimator or Pipeline
        How the model is trained, without reweighting; fitted or not. It is never changed.
        Preprocessing that is already fitted is used as it is.
    prior : float, default=0.5
        Probability that the record was trained on, in (0, 1), ends excluded.
    targets : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    encodings_ : ndarray of shape (n_targets, 2, n_parameters)
        Noiseless coefficients, then the intercept where there is one: without the record, then
        with it (the same for all). Confidential.
    distances_ : ndarray of shape (n_targets,)
        Euclidean distance between the two, in units of the parameters. Confidential.
    classes_ : ndarray of shape (2,)
        0 for non-members and 1 for members, the order of ``encodings_``.
    targets_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    noise_scale_ : float
        Noise taken for arrays of parameters; NaN where the estimator calibrates it to data.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    Notes
    -----
    Without the record the data have N - 1 records: the mean loss is over those, so that the penalty
    weighs a little less beside the sum of the losses. For the squared loss the encodings are
    exact after one product of the data with the inverse Hessian. For the others the third
    derivatives of the losses suffice for most records, and the rest takes passes over the data,
    until a bound on the error is below a millionth of the distance between the two.

    With D the distance over the noise scale, everything is known in closed form: the power of the
    test at false positive rate ``a`` is ``Phi(Phi^-1(a) + D)``, and its success at even odds is
    ``Phi(D / 2)``. `success` tells every record's, without drawing a release.

    Where the estimator has a differential-privacy guarantee (`data_norm`), it is stated for the
    replacement of a record: mu = ``2 L R / (n alpha noise_scale)``. Removal moves the minimiser by
    at most as much: without the record the gradient of the objective on all n is
    ``(alpha w + l'(x)) / n``, and ``alpha ||w||`` is at most L R as ``alpha w`` is minus a mean of
    gradients. So ``D <= mu``, and no membership test beats the guarantee, with n the number of
    records with the target.

    Fitted preprocessing counts as public. It is the same with and without the record, and so is
    the noise, even where it was calibrated to the data.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> model = PrivateLinearRegression(noise_scale=1e-6, random_state=0).fit(X, y)
    >>> attack = LikelihoodRatioMembership(model).fit(X, y)
    >>> bool(attack.predict(model).all())
    True
    >>> bool(attack.success(noise_scale=10.0).max() < 0.51)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "prior": [Interval(Real, 0, 1, closed="neither")],
        "targets": ["array-like", slice, None],
    }

    def __init__(self, estimator: Any, *, prior: float = 0.5, targets: Any = None) -> None:
        self.estimator = estimator
        self.prior = prior
        self.targets = targets

    # Nested parameters are validated by the estimator itself.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Compute what would have been released, without noise, with and without each target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records, the targets among them.
        y : array-like of shape (n,)
            Targets the model was trained on.

        Returns
        -------
        self

        Raises
        ------
        AttackNotApplicableError
            For an estimator whose training objective is not known, with a reweighting, of more
            than two classes, or without a unique minimiser once a target is removed.
        """
        table = as_table(X)
        y = column_or_1d(y)
        check_consistent_length(table, y)
        self.__dict__.pop("feature_names_in_", None)
        names = column_names(table)
        self.n_features_in_ = table.shape[1]
        if names is not None:
            self.feature_names_in_ = names
        self.targets_ = resolve_targets(self.targets, table.shape[0])
        model = fit_public_model(self.estimator, table, y)
        state = _training_state(model, table, y)
        own = state.factor.coefficients
        self._steps = removal_steps(state.objective, own, self.targets_)
        self.encodings_ = np.stack([own + self._steps, np.broadcast_to(own, self._steps.shape)], 1)
        self.distances_ = np.linalg.norm(self._steps, axis=1)
        self.classes_ = np.arange(2)
        self.noise_scale_ = model.noise_scale
        self._log_odds = float(np.log(self.prior) - np.log1p(-self.prior))
        return self

    def decision_function(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Log posterior odds that each target was trained on.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            What was released: a fitted or released model, or parameters of shape
            (n_parameters,) or (n_releases, n_parameters), coefficients then intercept.
        noise_scale : float or array-like of shape (n_releases,), default=None
            Standard deviation of the noise on every parameter. None takes what each released
            model states, and for arrays that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_releases, n_targets)
            Positive for members.

        Raises
        ------
        ValueError
            For a wrong width, values that are not finite, or a noise scale that is negative, of
            the wrong shape or not known.
        """
        check_is_fitted(self, "encodings_")
        own = self.encodings_[0, 1]
        releases = read_releases(released, len(own), noise_scale, self.noise_scale_)
        # Measured from the minimiser: the difference of two squared norms would lose all digits.
        scores = (own - releases.parameters) @ self._steps.T + 0.5 * self.distances_**2
        floor = _ROUND_OFF * max(1.0, float(np.linalg.norm(own)))
        odds = scores / np.maximum(releases.noise_scale, floor)[:, None] ** 2 + self._log_odds
        return np.asarray(odds[0] if releases.single else odds)

    def predict(self, released: Any, noise_scale: Any = None) -> IntArray:
        """Guess which targets were trained on.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `decision_function`.
        noise_scale : float or array-like of shape (n_releases,), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of int of shape (n_targets,) or (n_releases, n_targets)
            1 for members, 0 for non-members.
        """
        return (self.decision_function(released, noise_scale) > 0.0).astype(np.intp)

    def predict_proba(self, released: Any, noise_scale: Any = None) -> FloatArray:
        """Posterior probability of being no member, and of being one.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `decision_function`.
        noise_scale : float or array-like of shape (n_releases,), default=None
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_targets, 2) or (n_releases, n_targets, 2)
            In the order of ``classes_``; sums to 1.
        """
        odds = self.decision_function(released, noise_scale)
        return np.stack([expit(-odds), expit(odds)], axis=-1)

    def success(self, noise_scale: float | None = None) -> FloatArray:
        """Exact probability that `predict` is right, for every target.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,)
            In [max(prior, 1 - prior), 1]: ``Phi(D / 2)`` at even odds.
        """
        gap = self._separations(noise_scale)
        prior = float(self.prior)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(gap > 0.0, self._log_odds / gap, 0.0)
            right = prior * ndtr(0.5 * gap + shift) + (1.0 - prior) * ndtr(0.5 * gap - shift)
        return np.where(gap > 0.0, right, max(prior, 1.0 - prior))

    def true_positive_rate(
        self, false_positive_rate: npt.ArrayLike, noise_scale: float | None = None
    ) -> FloatArray:
        """Receiver operating characteristic of the test on every target: exact.

        Parameters
        ----------
        false_positive_rate : float or array-like of shape (k,)
            Share of the releases without the record that are called with it, in [0, 1].
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_targets,) or (n_targets, k)
            Largest share of the releases with the record that any test of that false positive
            rate finds, ``Phi(Phi^-1(a) + D)``.

        Raises
        ------
        ValueError
            For a rate outside [0, 1].
        """
        rate = np.asarray(false_positive_rate, dtype=np.float64)
        if rate.ndim > 1 or not np.all((rate >= 0.0) & (rate <= 1.0)):
            raise ValueError(
                "`false_positive_rate` must be a number or a list of numbers in [0, 1]; got "
                f"{false_positive_rate!r}."
            )
        gap = self._separations(noise_scale)
        gap = gap[:, None] if rate.ndim else gap
        with np.errstate(invalid="ignore"):
            power = ndtr(ndtri(rate) + gap)
        # Without noise a record that moves the model is found at any rate, even at none.
        return np.where(np.isinf(gap), 1.0, power)

    def _separations(self, noise_scale: float | None) -> FloatArray:
        """``D``: distance of the encodings over the noise, of shape (n_targets,)."""
        check_is_fitted(self, "encodings_")
        own = self.encodings_[0, 1]
        stated = read_releases(own, len(own), noise_scale, self.noise_scale_).noise_scale[0]
        if stated > 0.0:
            return np.asarray(self.distances_ / stated)
        floor = _ROUND_OFF * max(1.0, float(np.linalg.norm(own)))
        return np.where(self.distances_ > floor, np.inf, 0.0)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that raw records are taken, and that targets are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags


def _training_state(model: PublicModel, table: Any, y: Any) -> FitState:
    """The noiseless fit on all records, of a model from which a record can be removed."""
    name = type(model.template).__name__
    if not model.has_closed_form:
        raise AttackNotApplicableError(
            f"The training objective and the noise of {name} are not known: there is no exact test "
            "on its parameters. Pass a private estimator of skleak.linear_model, or a pipeline "
            "that ends in one."
        )
    if model.template.reweighting is not None:
        raise AttackNotApplicableError(
            "Under a reweighting the weights of all records change when one is removed: what "
            f"{name} would have released without it takes a fit of the whole algorithm for each "
            "record. Pass an estimator with `reweighting=None`."
        )
    state: FitState = clone(model.template).fit(model.transform(table), y)._confidential_state()
    if isinstance(state.objective, MultinomialObjective):
        raise AttackNotApplicableError(
            f"The model tells {state.objective.n_classes} classes apart; this test is for models "
            "of one prediction. Train on two classes (one against the others)."
        )
    return state
