"""Attribute inference from released parameters, by an adversary who knows all but one value."""

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from skleak.adversary.hypotheses import (
    PublicModel,
    ReleaseKind,
    Releases,
    ShapedHypotheses,
    candidate_rows,
    check_size,
    check_smooth,
    check_weights,
    closed_form_encodings,
    closed_form_shapes,
    encoding_error,
    fit_public_model,
    read_each,
    read_releases,
    refit_encodings,
    refit_pipelines,
    warn_of_mismatch,
)
from skleak.adversary.knowledge import TARGET_INDEX, Secret, read_secret
from skleak.attacks.attribute._base import AttributeAttack
from skleak.attacks.attribute._target import encode_targets
from skleak.channels import GaussianChannel, UnequalGaussianChannel
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.state import NoiseShape
from skleak.utils._blocks import row_blocks
from skleak.utils._confidential import leaves_whole
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import HasMethods, fit_context
from skleak.utils._typing import Array, FloatArray
from skleak.utils.geometry._pairs import true_positives


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AttributeAttack._parameter_constraints,
        "estimator": [HasMethods(["fit", "get_params"])],
        "refit_preprocessing": ["boolean"],
        "n_jobs": [int, None],
    }

    def __init__(
        self,
        estimator: Any,
        attribute: Any,
        *,
        values: Any = None,
        prior: "Literal['marginal', 'uniform', 'conditional'] | Array" = "marginal",
        records: Any = None,
        refit_preprocessing: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.attribute = attribute
        self.values = values
        self.prior = prior
        self.records = records
        self.refit_preprocessing = refit_preprocessing
        self.n_jobs = n_jobs

    # Nested parameters are validated by the estimator itself.
    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Compute what would have been released, without noise, under every candidate value.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records. The attribute of a target is replaced, not read.
        y : array-like of shape (n,)
            Targets the model was trained on.
        sample_weight : array-like of shape (n,), default=None
            Weights of the records in the fit under attack, which the adversary knows; in a
            pipeline they go to its last step. A target changes with all of its weight.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown or single-valued attribute, missing values in it, more than 64
            categories, or a wrong prior; for invalid weights, and for an estimator that was
            fitted with weights where none are given.
        AttackNotApplicableError
            For a model without coefficients, or a numeric attribute that the preprocessing bins;
            and for noise whose shape depends on the data where the preprocessing is refitted, or
            the candidates are too many.
        """
        table, y, secret = self._know(X, y)
        self._weights = weights = check_weights(sample_weight, table)
        model = fit_public_model(
            self.estimator, table, y, any_covariance=True, weighted=weights is not None
        )
        self.noise_scale_ = model.noise_scale
        self._kind = ReleaseKind.of(model, table, y)
        self._shaped: ShapedHypotheses | None = None
        self.encodings_ = self._encode(model, table, y, secret.index)
        self._noise = NoiseShape.of(model.noise_covariance, self.encodings_.shape[-1])
        # Where noise of a given covariance is isotropic; the encodings themselves elsewhere.
        self._points = self._noise.whitened(self.encodings_)
        return self

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
        attack._noise, attack._points = noise, noise.whitened(encodings)
        return attack

    def _secret(self, table: Any, y: Array) -> Secret:
        return read_secret(table, y, self.attribute, self.values)[0]

    def _encode(self, model: PublicModel, table: Any, y: Array, index: int) -> FloatArray:
        covariance = model.noise_covariance
        isotropic = isinstance(covariance, str) and covariance == "isotropic"
        fitted = isinstance(covariance, str) and covariance in ("curvature", "minimax")
        if fitted and self.refit_preprocessing:
            raise AttackNotApplicableError(
                f"The covariance of `noise_covariance={covariance!r}` is not known where the "
                "preprocessing is refitted for every candidate. Pass `refit_preprocessing=False`."
            )
        candidates, targets = self._candidates, self.records_
        if index == TARGET_INDEX:
            given = model, table, y, targets, candidates, self._weights
            return encode_targets(*given, refit_preprocessing=self.refit_preprocessing)
        if self.numeric_:
            check_smooth(model, table, targets, index, candidates)
        if self.refit_preprocessing:
            return refit_pipelines(
                self.estimator, table, y, targets, index, candidates, self.n_jobs, self._weights
            )
        rows = candidate_rows(model, table, targets, index, candidates)
        X = model.transform(table)
        if not model.has_closed_form:
            rest = targets, rows, self.n_jobs, self._weights
            return refit_encodings(model.template, X, y, *rest)
        state = model.template.fit(X, y, sample_weight=self._weights)._confidential_state()
        encodings = closed_form_encodings(state, targets, rows)
        if isotropic:
            return encodings
        known = leakage_model(state).takes_shaped_noise
        if not known:
            raise AttackNotApplicableError(
                "`estimator` cannot be fitted with a `noise_covariance` of its own: "
                f"{known.missing}. Use isotropic noise."
            )
        if fitted:
            check_size(*encodings.shape)
            shapes = closed_form_shapes(state, targets, rows, encodings, covariance)
            self._shaped = ShapedHypotheses.of(encodings, shapes)
        return encodings

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
            second kind where its shape depends on the data ("curvature" and "minimax").

        Raises
        ------
        ValueError
            For a numeric attribute, which is not one of a few values.
        """
        if self._fitted_numeric():
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
        if not 0.0 <= false_positive_rate <= 1.0:
            raise ValueError(
                f"`false_positive_rate` must lie in [0, 1]; got {false_positive_rate!r}."
            )
        distance = np.linalg.norm(self._points[:, 1] - self._points[:, 0], axis=1)
        scale = self.noise_scale_ if noise_scale is None else noise_scale
        with np.errstate(divide="ignore"):
            return true_positives(distance / scale, false_positive_rate)

    def _read(self, released: Any, noise_scale: Any) -> tuple[Releases, int, bool]:
        p = self.encodings_.shape[-1]
        noise = noise_scale, self.noise_scale_, self._noise.name
        weighted = self._weights is not None
        releases = read_releases(released, p, *noise, self._kind, weighted=weighted)
        releases = self._whitened(releases)
        if self._shaped is None and not self.numeric_:
            error = encoding_error(self._points.mean(axis=(0, 1)))
            warn_of_mismatch(releases.parameters, self._points, releases.noise_scale, error)
        return releases, len(releases.parameters), releases.single

    def _read_each(self, released: Any, noise_scale: Any) -> tuple[Releases, int]:
        n_targets, _, p = self.encodings_.shape
        releases = read_each(released, n_targets, p, noise_scale, self.noise_scale_)
        return self._whitened(releases), len(releases.parameters)

    def _whitened(self, releases: Releases) -> Releases:
        """Releases in the coordinates of the points."""
        return replace(releases, parameters=self._noise.whitened(releases.parameters))

    def _scores(self, releases: Releases, rows: slice) -> FloatArray:
        if self._shaped is not None:
            return self._shaped.scores(releases, rows)
        # Everything is measured from the middle of the encodings, close to which the release
        # lies: the difference of two squared norms of the parameters would lose all digits.
        center = self._points.mean(axis=(0, 1))
        points = (self._points - center).reshape(-1, len(center))
        scores = (releases.parameters[rows] - center) @ points.T
        scores -= 0.5 * np.einsum("ij,ij->i", points, points)
        scores /= releases.variance(rows, center)[:, None]
        return scores.reshape(-1, *self.encodings_.shape[:2])

    def _scores_each(self, releases: Releases, rows: slice) -> FloatArray:
        if self._shaped is not None:
            return self._shaped.scores(releases, rows)
        n_targets, n_values, p = self.encodings_.shape
        n_rows = rows.stop - rows.start
        released = releases.parameters[rows]
        scores = np.empty((n_rows, n_targets, n_values))
        # The centered copies of a block stay in the cache: time goes into one pass over memory.
        for part in row_blocks(n_targets, (n_rows + n_values) * p):
            encodings = self._points[part]
            center = encodings.mean(axis=1)
            points = (encodings - center[:, None]).swapaxes(1, 2)
            lengths = 0.5 * np.einsum("ijm,ijm->im", points, points)
            for some in row_blocks(n_rows, len(center) * p):
                gaps = (released[some, part] - center).swapaxes(0, 1)
                scores[some, part] = np.matmul(gaps, points).swapaxes(0, 1) - lengths
        center = self._points.mean(axis=(0, 1))
        scores /= releases.variance(rows, center)[:, None, None]
        return scores
