"""Reconstruction of whole records by an adversary who knows all others."""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import (
    ReleaseKind,
    check_weights,
    dense_table,
    fit_public_model,
    plain_table,
    read_releases,
)
from skleak.adversary.knowledge import (
    as_column,
    as_table,
    ranges_of_others,
    remember_columns,
    resolve_records,
    take_rows,
)
from skleak.adversary.reconstruction import (
    MissingGradient,
    hessian_of,
    objective_of,
    reconstruct_known,
    reconstruct_unknown,
    weights_of,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import NoiseShape
from skleak.utils._confidential import ConfidentialMixin, leaves_whole
from skleak.utils._linalg import augment
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import (
    HasMethods,
    NoMetadataRequests,
    RawTableMixin,
    StrOptions,
    fit_context,
)
from skleak.utils._typing import FloatArray


class InformedReconstruction(ConfidentialMixin, NoMetadataRequests, RawTableMixin, BaseEstimator):
    """Reconstruct whole records from one release: the generalised-linear attack of [BCH22].

    At the minimiser all gradients sum to zero. The adversary knows all other records, hence the
    sum of their gradients at the released parameters, and what is missing is the target's own:
    ``r x~`` with ``x~ = [x, 1]`` and ``r`` the derivative of its loss. The last entry, of the
    intercept, is ``r`` itself, and the others divided by it are the record.

    Parameters
    ----------
    estimator : private estimator or Pipeline
        How the model is trained, with an intercept; fitted or not. It is never changed.
    known_target : bool, default=True
        The adversary knows the target `y`. That is one equation more than unknowns, which
        separates noise from signal.
    bounds : "others", pair (low, high) or None, default="others"
        Range to which every reconstructed value is clipped, each end a number or an array of shape
        (n_reconstructed,). "others" is that of the other records, as the model sees them, wider by
        half on both sides. None clips nothing.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    n_reconstructed_ : int
        Number of values reconstructed of each record: the columns that the model sees, and the
        target where it is not known.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    Notes
    -----
    With a known target the guess is the likeliest record under Gaussian noise on the parameters,
    which the Hessian H of the *other* records carries over to the gradient: among all
    gradients ``r(a) [x, 1]`` consistent with the target, ``a`` the prediction, the one
    closest to what is missing in the metric ``H^-2``, or ``(H S H)^-1`` where the estimator adds
    noise of a given covariance S (`noise_covariance`). The metric only enters through two
    directions, so that this is a problem in ``a`` alone for every record, solved on a grid and by
    Newton steps. All records are done at once; the cost is that of one product of the data with
    H for each release.

    Where it is not clipped, the guess is exact without noise, and for little noise unbiased with
    the variance of the Cramer-Rao bound ([DRA22] theorem 2). That bounds the mean over releases:
    all records share the noise of one release, and in a lucky one most errors lie below it. Where
    the noise drowns the gradient of a record the guess diverges; clipped, it errs by no more
    than the range, at the price of a bias, so that its error may lie below that bound. A record
    beyond the range of the others is reached with ``bounds=None`` or a range of your own only.

    Fitted preprocessing counts as public: records are reconstructed as the model sees them. So do
    the weights of a reweighting: who knows them knows more than the leakage of a
    reweighted model supposes, and may err less than its Cramer-Rao bound.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> y = X @ [1.0, 2.0, 3.0] + rng.normal(size=50)
    >>> model = PrivateLinearRegression(noise_scale=0).fit(X, y)
    >>> attack = InformedReconstruction(model).fit(X, y)
    >>> bool(np.allclose(attack.predict(model), X, atol=1e-6))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "get_params"])],
        "known_target": ["boolean"],
        "bounds": [StrOptions({"others"}), "array-like", None],
        "records": ["array-like", slice, None],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        known_target: bool = True,
        bounds: Any = "others",
        records: Any = None,
    ) -> None:
        self.estimator = estimator
        self.known_target = known_target
        self.bounds = bounds
        self.records = records

    @fit_context(prefer_skip_nested_validation=False)
    @leaves_whole
    @withholding
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn the other records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records.
        y : array-like of shape (n,)
            Targets the model was trained on.
        sample_weight : array-like of shape (n,), default=None
            Weights of the records in the fit under attack, which the adversary knows; in a
            pipeline they go to its last step. The
            gradient of a target counts with all of its weight; one of weight zero leaves no trace.

        Returns
        -------
        self

        Raises
        ------
        AttackNotApplicableError
            For an estimator whose training objective is not known, without an intercept, of
            more than two classes, or with noise whose covariance follows the data.
        ValueError
            For `bounds` that are no range; for invalid weights, and for an estimator that was
            fitted with weights where none are given.
        """
        table = as_table(X)
        y = as_column(y, table)
        remember_columns(self, table)
        self.records_ = resolve_records(self.records, table.shape[0])
        self._weights = weights = check_weights(sample_weight, table)
        weighted = weights is not None
        model = fit_public_model(self.estimator, table, y, any_covariance=True, weighted=weighted)
        if not getattr(model.template, "fit_intercept", True):
            raise AttackNotApplicableError(
                "Without an intercept the record's gradient gives its direction but not its "
                "length. Pass an estimator with `fit_intercept=True`."
            )
        self._objective = objective_of(model, model.transform(table), y, weights)
        self._noise = NoiseShape.of(model.noise_covariance, self._objective.n_parameters)
        if self._noise.reads_data:
            raise AttackNotApplicableError(
                "This attack weighs directions by the covariance of the noise; that of "
                f"`noise_covariance={self._noise.name!r}` depends on the very record that is not "
                "known. Give a covariance as a matrix, or use WhiteBoxAttributeInference for an "
                "attribute."
            )
        self._transform = model.transform
        self._kind = ReleaseKind.of(model, table, y)
        self._known_target = bool(self.known_target)
        self.n_reconstructed_ = self._objective.X.shape[1] + (not self._known_target)
        self._range = self._clipping_range()
        return self

    def _clipping_range(self) -> tuple[FloatArray, FloatArray] | None:
        """Return the ends of the range, (n_targets, n_reconstructed) or broadcast to it."""
        if self.bounds is None:
            return None
        if isinstance(self.bounds, str):
            low, high = ranges_of_others(self._objective.X, self.records_)
            if not self._known_target:
                own = ranges_of_others(self._objective.y[:, None], self.records_)
                low, high = np.hstack([low, own[0]]), np.hstack([high, own[1]])
            return low, high
        ends = [np.asarray(end, dtype=np.float64) for end in self.bounds]
        shapes = {(), (self.n_reconstructed_,)}
        valid = len(ends) == 2 and {end.shape for end in ends} <= shapes
        if not valid or not np.all(ends[0] < ends[1]):
            raise ValueError(
                "`bounds` must be 'others', None or a pair (low, high), low below high, each a "
                f"number or one for each of the {self.n_reconstructed_} values of a record as the "
                f"model sees it; got {self.bounds!r}."
            )
        return ends[0], ends[1]

    def predict(self, released: Any) -> FloatArray:
        """Reconstruct every target.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            What was released: a fitted or released model, or parameters of shape
            (n_parameters,) or (n_releases, n_parameters), coefficients then intercept.

        Returns
        -------
        ndarray of shape (n_targets, n_reconstructed) or (n_releases, n_targets, n_reconstructed)
            Records as the model sees them, after the preprocessing; the target last where it is
            not known (a class as 0 or 1, and a guess between or beyond).
        """
        check_is_fitted(self, "records_")
        p, noise = self._objective.n_parameters, self._noise.name
        releases = read_releases(
            released, p, None, 0.0, noise, self._kind, weighted=self._weights is not None
        )
        reconstruct = reconstruct_known if self._known_target else reconstruct_unknown
        # A record that hardly takes part has a gradient near zero, and a guess far off.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            records = np.stack([reconstruct(self._missing(w)) for w in releases.parameters])
        if self._range is not None:
            low, high = self._range
            # Of a record without a gradient nothing is known: the middle errs least at worst.
            records = np.where(np.isnan(records), 0.5 * (low + high), np.clip(records, low, high))
        return records[0] if releases.single else records

    def _missing(self, w: FloatArray) -> MissingGradient:
        """Return the gradients that are missing at a release, in the metric of its noise."""
        missing = MissingGradient.of(self._objective, w, self.records_)
        shape = self._noise.matrix
        if shape is None or not self._known_target:  # isotropic, or no metric enters
            return missing
        objective, targets = self._objective, self.records_
        a = objective.predictor(w)
        hessian = hessian_of(objective, a)
        x = augment(dense_table(take_rows(objective.X, targets)), True)
        weight = weights_of(objective, targets)
        own = (weight * objective.loss.curvature(a)[targets])[:, None]

        def image(v: FloatArray) -> FloatArray:
            """``H S H v`` over the squared weight, with H the Hessian of the others."""
            middle = (hessian @ v - own * (x @ v)[:, None] * x) @ shape
            along = np.einsum("ij,ij->i", x, middle)[:, None]
            return (middle @ hessian - own * along * x) / weight[:, None] ** 2

        image_w, image_e = image(np.append(w[:-1], 0.0)), image(np.eye(len(w))[-1])
        return replace(missing, image_w=image_w, image_e=image_e)

    @withholding
    def score(self, released: Any, truth: Any) -> float:
        """Negative mean squared error per value, over targets and releases.

        Parameters
        ----------
        released : estimator, pipeline, list of them, or array
            As in `predict`.
        truth : array-like or DataFrame of shape (n_targets, n_columns), or tuple
            True raw records of the targets. Where `y` is reconstructed too
            (``known_target=False``), the pair of them and of its values, as numbers, of shape
            (n_targets,).

        Returns
        -------
        float
            At most 0.

        Raises
        ------
        ValueError
            Where the records are not those of the targets, or `y` is missing.
        """
        guesses = self.predict(released)
        if not self._known_target and not (isinstance(truth, tuple) and len(truth) == 2):
            raise ValueError(
                "The target is reconstructed too (`known_target=False`): pass the pair of true "
                "records and true targets, `truth=(X, y)`."
            )
        X, y = (truth, None) if self._known_target else truth
        X = as_table(X) if len(self.records_) > 1 else X
        values = dense_table(plain_table(self._transform(X)))
        if y is not None:
            values = np.column_stack([values, np.asarray(y, dtype=np.float64)])
        if values.shape != guesses.shape[-2:]:
            raise ValueError(
                f"`truth` must hold the raw records of the {len(self.records_)} targets; got "
                f"{len(values)}. Select them with `records_`."
            )
        return -float(np.mean((guesses - values) ** 2))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that raw records may not have missing values."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags
