"""Attributes from released parameters, by an adversary who knows all but one value."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import (
    PublicModel,
    changed_rows,
    changed_values,
    closed_form_encodings,
    closed_form_shapes,
    encoding_error,
    noiseless,
    refit_encodings,
    warn_of_mismatch,
)
from skleak.adversary.knowledge import Population, Secret, read_secret
from skleak.adversary.membership import check_rate
from skleak.adversary.models import ReleaseKind, Releases, ShapedHypotheses, read_releases
from skleak.adversary.numbers import NumberEncodings, number_prior
from skleak.attacks._attribute import AttributeAttack
from skleak.channels import GaussianChannel, UnequalGaussianChannel
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import check_reached, target_encodings
from skleak.influence.state import FITTED_SHAPES, NoiseShape
from skleak.utils._arguments import make_generator
from skleak.utils._geometry import true_positives
from skleak.utils._predictions import label_positions
from skleak.utils._typing import Array, FloatArray, RandomState


@dataclass(eq=False, repr=False)
class WhiteBoxAttributeInference(AttributeAttack):
    """Guess an attribute from released parameters: the Bayes-optimal informed attack.

    The adversary knows every other record, all else about the target, the preprocessing, how the
    model is trained and the noise. For every candidate value of the attribute the model is
    trained without noise (the *encoding* of the value), and the guess is

        argmax_m  log p_m - ||release - encoding_m||^2 / (2 noise_scale^2) ,

    the decision of largest posterior ([BIL23] theorem 1; the white-box attack of [FIL21] 6.4 and
    [FANO23] 6.2). Nothing beats it under Gaussian noise and the prior it is given. Under a
    ``noise_covariance`` C_m of the estimator, which may depend on the value, it is

        argmax_m  log p_m - (r - e_m)^T C_m^-1 (r - e_m) / 2 - log det(C_m) / 2 .

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained: a private estimator, a pipeline that ends in one, or any linear
        model of scikit-learn with ``coef_``. Fitted or not; it is never changed. Preprocessing
        that is already fitted is used as it is.
    attribute : str or int
        Sensitive column of the raw data, by name or position; "(target)" is the target itself.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values. None takes those that occur. A column of numbers is then a quantity where
        it has more than 10 distinct whole values, or other values and more of them than 64 or than
        the square root of the number of records.
    prior : {"marginal", "uniform", "conditional"} or array, default="marginal"
        Prior of a categorical attribute: relative frequencies among the *other* records; equal;
        probabilities given all else about the record (its target included) by a cross-fitted
        logistic regression; or an array of shape (n_values,) or (n_targets, n_values) in
        ascending order of the values.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.
    refit_preprocessing : bool, default=False
        Refit everything for every candidate, the preprocessing included, which otherwise counts
        as public (categories, means, and scales of the training data).
    n_jobs : int or None, default=None
        Parallel jobs where candidates are refitted.

    Attributes
    ----------
    encodings_ : ndarray of shape (n_targets, n_values, n_parameters)
        Noiseless coefficients, then the intercept where there is one. Confidential.
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending. For a numeric attribute of shape (n_targets, n_values): the
        nodes between which the likelihood is interpolated.
    prior_ : ndarray of shape (n_targets, n_values)
        Prior of every target; only for a categorical attribute.
    records_, numeric_ : ndarray of int of shape (n_targets,), bool
        Positions of the records under attack; True if the attribute is a quantity.
    noise_scale_ : float
        Noise taken for arrays of parameters, its root mean square where they differ; NaN where
        the estimator calibrates it to data.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    Notes
    -----
    A target's true value never enters its own guess: encodings replace it, and priors are those of
    other records. The set of values, and fitted preprocessing, count as public. Under a reweighting
    the weights are those of each candidate. Private estimators have closed forms; any other one is
    fitted ``n_targets * n_values`` times.
    A numeric attribute is guessed by maximum likelihood within the range of the other records,
    widened by half on both sides, from 33 Chebyshev points; the prior is not used.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60)])
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> model = PrivateLinearRegression(noise_scale=1e-5, random_state=0).fit(X, y)
    >>> attack = WhiteBoxAttributeInference(model, 0).fit(X, y)
    >>> attack.encodings_.shape
    (60, 2, 3)
    >>> attack.score(model, X[:, 0])
    1.0
    """

    _games = "each"

    estimator: Any
    attribute: Any
    _: KW_ONLY
    prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal"
    refit_preprocessing: bool = False
    n_jobs: int | None = None

    def _learn(self, table: Any, y: Array, everyone: Population, weights: Any) -> None:
        self._weights, secret = weights, everyone.secret
        model = PublicModel.of(self.estimator, table, y, weights=weights, any_covariance=True)
        self.noise_scale_ = model.noise_scale
        self._kind: ReleaseKind | None = ReleaseKind.of(model, table, y)
        if self.numeric_ and not secret.is_target:
            model.check_smooth(table, self.records_, secret.index, self._candidates)
        known = model, table, y, secret
        self.encodings_, self._shaped = self._encode(*known, self._candidates)
        self._noise = NoiseShape.of(model.noise_covariance, self.encodings_.shape[-1])
        # Where noise of a given covariance is isotropic; the encodings themselves elsewhere.
        self._points = self._noise.whitened(self.encodings_)

    @classmethod
    def _of_encodings(
        cls, encodings: FloatArray, values: Array, prior: FloatArray, noise: NoiseShape
    ) -> Self:
        """Return a fitted attack that guesses from given encodings, in `predict_each`.

        Shapes: ``encodings`` (n_targets, n_values, p); ``prior`` (n_targets, n_values).
        """
        attack = cls(None, None)
        attack.records_, attack.numeric_ = np.arange(len(encodings)), False
        attack.values_, attack.prior_, attack.encodings_ = values, prior, encodings
        attack.noise_scale_, attack._weights, attack._shaped = float("nan"), None, None
        attack._kind = None
        attack._noise, attack._points = noise, noise.whitened(encodings)
        return attack

    def _secret(self, table: Any, y: Array) -> Secret:
        return read_secret(table, y, self.attribute, self.values)

    def _encode(
        self, model: PublicModel, table: Any, y: Array, secret: Secret, candidates: Array
    ) -> tuple[FloatArray, ShapedHypotheses | None]:
        """Encode every candidate, (n_values,) or (n_values, n_targets), of every target."""
        covariance, targets, weights = model.noise_covariance, self._units, self._weights
        isotropic = isinstance(covariance, str) and covariance == "isotropic"
        fitted = isinstance(covariance, str) and covariance in FITTED_SHAPES
        self._check_encoded(covariance, fitted, isotropic, secret.is_target)
        shape = len(targets), len(candidates)
        if self.refit_preprocessing:
            change = changed_values(table, y, targets, secret.index, candidates)
            return refit_encodings(
                noiseless(self.estimator), change, shape, self.n_jobs, weights
            ), None
        X = model.transform(table)
        if secret.is_target:
            if model.has_closed_form and getattr(model.template, "reweighting", None) is None:
                return self._encode_targets(model, X, y, candidates), None
            change = changed_values(X, y, targets, secret.index, candidates)
            return refit_encodings(model.template, change, shape, self.n_jobs, weights), None
        rows = model.candidate_rows(table, targets.rows, secret.index, candidates)
        if not model.has_closed_form:
            change = changed_rows(X, y, targets, rows)
            return refit_encodings(model.template, change, shape, self.n_jobs, weights), None
        state = model.template.fit(X, y, sample_weight=weights)._confidential_state()
        encodings = closed_form_encodings(state, targets, rows)
        if isotropic:
            return encodings, None
        known = leakage_model(state).takes_shaped_noise
        if not known:
            raise AttackNotApplicableError(
                "`estimator` cannot be fitted with a `noise_covariance` of its own: "
                f"{known.missing}. Use isotropic noise."
            )
        if fitted:
            ShapedHypotheses.check_size(*encodings.shape)
            shapes = closed_form_shapes(state, targets.rows, rows, encodings, covariance)
            return encodings, ShapedHypotheses.of(encodings, shapes)
        return encodings, None

    def _check_encoded(
        self, covariance: Any, fitted: bool, isotropic: bool, is_target: bool
    ) -> None:
        """Refuse noise and preprocessing of which candidates change what is not known."""
        if is_target and isinstance(covariance, str) and not isotropic:
            raise AttackNotApplicableError(
                f"What another target does to noise of `noise_covariance={covariance!r}` is not "
                "known. Use isotropic noise, or a covariance from public knowledge."
            )
        if is_target and self.refit_preprocessing:
            raise AttackNotApplicableError(
                "What preprocessing learns of another target is not known. Pass "
                "`refit_preprocessing=False`."
            )
        if fitted and self.refit_preprocessing:
            raise AttackNotApplicableError(
                f"The covariance of `noise_covariance={covariance!r}` is not known where the "
                "preprocessing is refitted for every candidate. Pass `refit_preprocessing=False`."
            )
        if fitted and not self._units.is_single:
            raise AttackNotApplicableError(
                f"The covariance of `noise_covariance={covariance!r}` is not known where several "
                "rows of a person change together. Use isotropic noise, or leave `persons` out."
            )

    def _encode_targets(
        self, model: PublicModel, X: Any, y: Array, candidates: Array
    ) -> FloatArray:
        """Encode each candidate as the target of each record, in closed form."""
        fitted = model.template.fit(X, y, sample_weight=self._weights)
        classes = getattr(fitted, "classes_", None)
        numbers = candidates.T if classes is None else label_positions(candidates, classes)
        if np.any(numbers < 0) and classes is not None:
            unknown = candidates[numbers < 0].tolist()[0]
            raise ValueError(
                f"`values` holds {unknown!r}, which is no class of the model; expected some of "
                f"{np.asarray(classes).tolist()[:10]}."
            )
        state = fitted._confidential_state()
        found = target_encodings(state, self._units, numbers.astype(np.float64))
        check_reached(found, "What this attack compares a release with", AttackNotApplicableError)
        return found

    def channel(self, noise_scale: float | None = None) -> GaussianChannel | UnequalGaussianChannel:
        """Channel from the attribute of every target to the release.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release, positive; None takes that of `estimator`.

        Returns
        -------
        GaussianChannel or UnequalGaussianChannel
            With one record for each target: Bayes success, information and bounds of this very
            attack. Under a given covariance, in coordinates in which the noise is isotropic; the
            second kind where its shape depends on the data ("curvature", "minimax", "least_mean").

        Raises
        ------
        ValueError
            For a numeric attribute, which is not one of a few values.
        """
        check_is_fitted(self, "values_")
        if self.numeric_:
            raise ValueError(
                "A numeric attribute has no channel with finitely many values. Pass `values` to "
                "treat it as one of a few."
            )
        scale = self.noise_scale_ if noise_scale is None else noise_scale
        if self._shaped is None:
            return GaussianChannel(self._points, scale)
        if not scale > 0.0:
            raise ValueError(
                f"`noise_scale` must be positive; got {scale:.4g}. Without noise the release is "
                "the encoding itself."
            )
        return UnequalGaussianChannel(self.encodings_, scale**2 * self._shaped.shapes)

    def expected_score(self, noise_scale: float | None = None) -> FloatArray:
        """Chance that this attack is right about each record, for secrets drawn from its prior.

        It is the Bayes-optimal attack on its channel ([BIL23] theorem 1): no attack does better.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release, positive; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_records,)
            In [0, 1].

        Raises
        ------
        ValueError
            For a numeric attribute, which is not one of a few values.
        """
        return np.asarray(self.channel(noise_scale).bayes_success(self.prior_))

    def expected_true_positive_rate(
        self, false_positive_rate: float, noise_scale: float | None = None
    ) -> FloatArray:
        """Share of the second of two values found where so many of the first are taken for it.

        That of the likelihood-ratio test between the two encodings (Neyman and Pearson):
        ``Phi(Phi^-1(false_positive_rate) + D)`` with D their distance over the noise.

        Parameters
        ----------
        false_positive_rate : float in [0, 1]
            Share of records of the first value that are taken for the second.
        noise_scale : float or None, default=None
            Noise of the release, positive; None takes that of `estimator`.

        Returns
        -------
        ndarray of shape (n_records,)

        Raises
        ------
        ValueError
            For an attribute that has not exactly two values, or whose value changes the shape of
            the noise; or a rate out of range.
        """
        self.channel(noise_scale)  # raises where there is none
        if self._points.shape[1] != 2 or self._shaped is not None:
            raise ValueError(
                "True positives are known in closed form for two values under noise of one "
                f"covariance; got {self._points.shape[1]} values"
                + ("." if self._shaped is None else " that change the shape of the noise.")
                + " Take `expected_score`."
            )
        rate = check_rate(float(false_positive_rate))
        distance = np.linalg.norm(self._points[:, 1] - self._points[:, 0], axis=1)
        scale = self.noise_scale_ if noise_scale is None else noise_scale
        with np.errstate(divide="ignore"):
            return true_positives(distance / scale, rate)

    def _read(
        self, released: Any, noise_scale: Any, each: int | None
    ) -> tuple[Releases, int, bool]:
        own = self.encodings_.shape[2], noise_scale, self.noise_scale_, self._kind
        releases = read_releases(released, *own, each=each)
        # In the coordinates of the points.
        releases = replace(releases, parameters=self._noise.whitened(releases.parameters))
        if each is None and self._shaped is None and not self.numeric_:
            error = encoding_error(self._points.mean(axis=(0, 1)))
            warn_of_mismatch(releases.parameters, self._points, releases.noise_scale, error)
        return releases, len(releases.parameters), releases.single

    def _scores(self, releases: Releases, rows: slice) -> FloatArray:
        if self._shaped is not None:
            return self._shaped.scores(releases, rows)
        # Everything is measured from the middle of the encodings, close to which the release
        # lies: the difference of two squared norms of the parameters would lose all digits.
        center = self._points.mean(axis=(0, 1))
        points, gaps = self._points - center, releases.parameters[rows] - center
        if gaps.ndim == 3:
            scores = np.matmul(gaps.swapaxes(0, 1), points.swapaxes(1, 2)).swapaxes(0, 1)
        else:
            scores = (gaps @ points.reshape(-1, len(center)).T).reshape(-1, *points.shape[:2])
        scores = scores - 0.5 * np.einsum("ijk,ijk->ij", points, points)
        scores /= releases.variance(rows, center)[:, None, None]
        return scores


@dataclass(eq=False, repr=False)
class PosteriorMeanReconstruction(WhiteBoxAttributeInference):
    """Estimate a number from released parameters by the mean of its posterior.

    The adversary knows what that of `WhiteBoxAttributeInference` knows, and a prior density f of
    the number z. With the noiseless parameters e(z) had it been z, the guess is

        E[z | release],   p(z | release) ~ f(z) exp(-||release - e(z)||^2 / (2 noise_scale^2)) ,

    which errs least in the mean square: its error is the Bayes risk. Unlike the likeliest value it
    is never worse than the mean of the prior, on average over the prior.

    Parameters
    ----------
    estimator : estimator or Pipeline
        How the model is trained, as in `WhiteBoxAttributeInference`.
    attribute : str or int
        Sensitive column of the raw data, of numbers, by name or position.
    prior : {"marginal", "uniform", "conditional"}, distribution or pair, default="marginal"
        Density of the number: of the *other* records, by normal kernels; equal; normal about the
        value that a cross-fitted ridge regression on all else about the record imputes, as wide as
        its residuals; a frozen distribution of `scipy.stats`; or a pair of ascending values and
        their probabilities, between which the density is linear. All of them fall to zero at the
        ends of the range of the other records, widened by half on both sides.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.
    refit_preprocessing : bool, default=False
        As in `WhiteBoxAttributeInference`.
    n_jobs : int or None, default=None
        Parallel jobs where candidates are refitted.

    Attributes
    ----------
    prior_mean_, prior_variance_ : ndarray of shape (n_targets,)
        Best guess before the release, and its expected squared error. A target's own value does
        not enter.
    encodings_, values_ : ndarray of shape (n_targets, 33, n_parameters) and (n_targets, 33)
        Noiseless parameters at the nodes between which they are interpolated. Confidential.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    noise_scale_ : float
        Noise taken for arrays of parameters.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of raw columns, and their names where they have any.

    See Also
    --------
    skleak.bounds.bayes_mse : The error of this attack, by itself.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = X @ [1.0, 2.0] + rng.normal(size=80)
    >>> model = PrivateLinearRegression(noise_scale=1e-4, random_state=0).fit(X, y)
    >>> attack = PosteriorMeanReconstruction(model, 0).fit(X, y)
    >>> attack.score(model, X[:, 0]) > 0.99
    True
    >>> mse, error = attack.expected_mse(1000.0)
    >>> bool(np.allclose(mse, attack.prior_variance_, rtol=1e-3))
    True
    """

    _games = "each"

    values: ClassVar[None] = None  # type: ignore[misc]  # a number has no candidate values

    def _secret(self, table: Any, y: Array) -> Secret:
        secret = read_secret(table, y, self.attribute)
        if secret.numeric:
            return secret
        column = np.asarray(secret.column)
        if column.dtype.kind not in "iuf":
            raise AttackNotApplicableError(
                f"The attribute {self.attribute!r} is no number: its values have no mean. Use "
                "WhiteBoxAttributeInference."
            )
        # A number of few values is one nevertheless, whose error is squared.
        return Secret(secret.index, column.astype(np.float64), None, secret.codes[:0])

    def _learn_prior(self, everyone: Population) -> None:
        self._density = number_prior(self.prior, everyone)
        self.prior_mean_, self.prior_variance_ = self._density.mean, self._density.variance

    @classmethod
    def _sharing(cls, white_box: WhiteBoxAttributeInference, prior: Any, X: Any, y: Any) -> Self:
        """Fitted attack with the encodings of a fitted white box, on the same records."""
        parameters = white_box.get_params(deep=False)
        own = {name: value for name, value in parameters.items() if name != "values"}
        attack = cls(**own | {"prior": prior})
        fitted = vars(white_box).items()
        attack.__dict__.update({name: v for name, v in fitted if name not in parameters})
        attack._know(X, y)
        return attack

    def expected_mse(
        self, noise_scale: float | None = None, *, random_state: RandomState = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Squared error of this attack about each record, for numbers drawn from its prior.

        It is the Bayes risk: no attack that knows the prior errs less on average.

        Parameters
        ----------
        noise_scale : float or None, default=None
            Noise of the release; None takes that of `estimator`.
        random_state : None, int, RandomState or Generator, default=0
            Seed, where a risk is simulated.

        Returns
        -------
        mse, error : ndarray of shape (n_records,)
            As of `skleak.bounds.bayes_mse`; NaN where the encodings are not smooth in the number.

        Raises
        ------
        AttackNotApplicableError
            For noise whose covariance depends on the number.
        """
        check_is_fitted(self, "values_")
        if self._shaped is not None:
            raise AttackNotApplicableError(
                "The Bayes risk is not known where the covariance of the noise depends on the "
                "number. Take the bound of van Trees, `skleak.bounds.van_trees_mse`."
            )
        scale = self.noise_scale_ if noise_scale is None else noise_scale
        return self._encodings_of_numbers().bayes(scale, make_generator(random_state))

    def _encodings_of_numbers(self) -> NumberEncodings:
        assert self._density is not None
        low, high = self._ends
        return NumberEncodings(self._points, low, high, self._density)
