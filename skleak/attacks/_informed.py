"""Attributes and whole records from the gradient that is missing at a release."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import (
    PublicModel,
    changed_columns,
    check_weights,
    dense_table,
    plain_table,
)
from skleak.adversary.knowledge import (
    Population,
    as_column,
    as_table,
    range_of_others,
    remember_columns,
    resolve_records,
    take_rows,
    widened,
)
from skleak.adversary.models import ReleaseKind, Releases, read_releases
from skleak.adversary.records import reference_table
from skleak.attacks._attribute import AttributeAttack, SomeTargets
from skleak.attacks._base import Attack, guarded
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.state import NoiseShape
from skleak.losses import PointwiseLoss
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import row_blocks
from skleak.utils._linalg import augment
from skleak.utils._predictions import label_positions
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import RawTableMixin
from skleak.utils._typing import Array, FloatArray, IntArray


def objective_of(
    model: PublicModel, X: Any, y: Any, sample_weight: FloatArray | None = None
) -> Objective:
    """Training objective on all records, of which the adversary knows all but one.

    Shapes: ``X`` (n, d); ``y`` (n,); ``sample_weight`` (n,).
    """
    if not model.has_closed_form:
        raise AttackNotApplicableError(
            f"The training objective of {type(model.template).__name__} is not known: its "
            "gradient at other records cannot be formed. Pass a private estimator of "
            "skleak.linear_model."
        )
    fitted = clone(model.template).fit(X, y, sample_weight=sample_weight)
    objective: Objective = fitted._confidential_state().objective
    if isinstance(objective, MultinomialObjective):
        raise AttackNotApplicableError(
            f"The model has {objective.n_classes} classes, and a prediction for each: "
            "records are reconstructed from models of one prediction. Use "
            "WhiteBoxAttributeInference or BlackBoxAttributeInference for an attribute, or train "
            "on two classes (one against the others)."
        )
    return objective


@dataclass(frozen=True)
class MissingGradient:
    """The gradient that is missing at a release, for every target."""

    loss: PointwiseLoss  # The loss
    w: FloatArray  # Released parameters, the intercept last where there is one, (n_targets, p)
    y: FloatArray  # Targets, (n_targets,)
    gradient: FloatArray  # ``r x~`` of the target, but for the noise, (n_targets, p)
    # ``H S H [w_pen, 0]`` and ``H S H [0, 1]``, with H the Hessian of the others and S the shape of
    # the noise, over the square of the target's weight; with no column where there is no
    # intercept, (n_targets, p)
    image_w: FloatArray
    image_e: FloatArray
    # Range of the predictions of the others, wider by half its width on both sides, (n_targets,)
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(
        cls, objective: Objective, w: FloatArray, targets: IntArray, shape: FloatArray | None = None
    ) -> "MissingGradient":
        """Of all targets at one release, or of each at its own; (n, n_releases) tables are formed.

        Shapes: ``w`` (p,) or (n_targets, p); ``targets`` (n_targets,); ``shape`` (p, p), S of noise
        that is not isotropic.
        """
        loss, weights, penalty = objective.loss, objective.weights, objective.penalty
        releases, y = np.atleast_2d(w), objective.y[targets]
        own = targets, np.arange(len(targets)) if w.ndim == 2 else 0
        a = objective.predictor(releases.T)

        def sums(values: FloatArray, v: FloatArray) -> FloatArray:
            """``sum_i values_ik x~_i`` and the penalty's part in the direction v, (k, p)."""
            product = np.asarray(objective.X.T @ values)
            if objective.fit_intercept:
                product = np.vstack([product, values.sum(axis=0)])
            return product.T + objective.total * penalty * v

        x = augment(dense_table(take_rows(objective.X, targets)), objective.fit_intercept)
        # Records that are not in the fit leave no trace, and nothing is known of their gradients.
        weight = np.where(weights > 0.0, weights, np.nan)[targets, None]
        residuals = weights[:, None] * loss.residual(a, objective.y[:, None])
        curvature = weights[:, None] * loss.curvature(a)
        if w.ndim == 2:  # the target's own is left out, else taken off the sum of all
            residuals[own] = curvature[own] = 0.0
        # What all others leave over.
        gradient = (residuals[own][:, None] * x - sums(residuals, releases)) / weight
        image_w = image_e = np.empty((len(targets), 0))
        if objective.fit_intercept:
            if w.ndim == 1:  # one Hessian for all targets
                table = augment(dense_table(objective.X), True)
                hessian = table.T @ (curvature * table)
                hessian[np.diag_indices_from(hessian)] += objective.total * penalty

            def image(v: FloatArray) -> FloatArray:
                """``(H - k x x^T) S (H - k x x^T) v / weight^2`` for every target."""
                for step in range(2):
                    along = curvature[own][:, None] * _along(x, v)[:, None] * x
                    if w.ndim == 1:
                        whole = v @ hessian
                    else:
                        whole = sums(curvature * objective.predictor(v.T), v)
                    v = (whole - along) / weight
                    v = v if step or shape is None else v @ shape
                return v

            w_pen, e = (np.broadcast_to(v, x.shape) for v in (releases, np.eye(x.shape[1])[-1]))
            image_w, image_e = image(np.where(e, 0.0, w_pen)), image(e)
        # Only the range of the others counts.
        low, high = (end[own] for end in range_of_others(a))
        every = np.broadcast_to(releases, gradient.shape)
        return cls(loss, every, y, gradient, image_w, image_e, low, high)


_LIKELIEST_GRID = 64
_NEWTON_STEPS = 20
# From a few widths of a range down to round-off.
_BISECTIONS = 60
# A residual below this, relative to the gradient, would be of a record longer than any.
_SHORTEST = 1e-9


def reconstruct_unknown(missing: MissingGradient) -> FloatArray:
    """Record and target where neither is known: as many equations as unknowns.

    Returns (n_targets, d + 1): the target last.
    """
    r = missing.gradient[:, -1:]
    x = missing.gradient[:, :-1] / r
    a = _along(x, missing.w[:, :-1]) + missing.w[:, -1]
    y = missing.loss.inverse_link(a) - r[:, 0]
    return np.column_stack([x, y])


def reconstruct_known(missing: MissingGradient) -> FloatArray:
    """Likeliest record given the target; see the notes of `InformedReconstruction`.

    Returns (n_targets, d).
    """
    w_pen = missing.w[:, :-1]
    seen = np.column_stack([_along(missing.gradient[:, :-1], w_pen), missing.gradient[:, -1]])
    cross = missing.image_w[:, -1]
    metric = np.stack(
        [
            np.stack([_along(missing.image_w[:, :-1], w_pen), cross], axis=1),
            np.stack([cross, missing.image_e[:, -1]], axis=1),
        ],
        axis=1,
    )
    # Kept finite where one is singular (w = 0).
    floor = 1e-13 * np.trace(metric, axis1=1, axis2=2)
    metric = np.linalg.inv(metric + np.maximum(floor, 1e-300)[:, None, None] * np.eye(2))
    a = _likeliest_prediction(missing, seen, metric)
    gap = np.einsum("nij,nj->ni", metric, seen - _on_curve(missing, a)[0])
    gradient = missing.gradient - gap[:, :1] * missing.image_w - gap[:, 1:] * missing.image_e
    r = missing.loss.residual(a, missing.y)
    return gradient[:, :-1] / r[:, None]


def reconstruct_roots(missing: MissingGradient) -> FloatArray:
    """Return the records that a gradient without an intercept allows, given the target.

    Returns (2, n_targets, d): one for each solution ``a`` of ``r(a) a = g.w``; equal where there
    is but one.

    The gradient ``g = r x`` has the direction of the record, and ``g.w = r(a) a`` tells the
    prediction ``a = x.w``. The left side falls and then rises in ``a``, for each of the losses,
    so that each arm holds at most one solution. Where noise leaves an arm without one,
    its end is closest: the turning point, or the widened range of the predictions of the others.
    """
    loss, y = missing.loss, missing.y
    seen = _along(missing.gradient, missing.w)
    width = 2.0 * (missing.high - missing.low)
    low, high = missing.low - width, missing.high + width

    def product(a: FloatArray) -> FloatArray:
        return loss.residual(a, y) * a

    turn = _crossing(lambda a: loss.residual(a, y) + loss.curvature(a) * a, low, high)
    left = _crossing(lambda a: seen - product(a), low, turn)
    right = _crossing(lambda a: product(a) - seen, turn, high)
    # The turning point of a count of one has no residual: the record is then as long as can be,
    # in either direction. The residual rises, so that the left arm is the negative side.
    floor = np.maximum(_SHORTEST * np.linalg.norm(missing.gradient, axis=1), np.finfo(float).tiny)
    residuals = np.stack([loss.residual(left, y), loss.residual(right, y)])
    ends = np.stack([-floor, floor])
    residuals = np.where(np.abs(residuals) < floor, ends, residuals)
    return np.asarray(missing.gradient / residuals[:, :, None])


def _crossing(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Find where increasing functions cross zero; an end where they do not.

    Bisection needs no sign change, nor finite values.
    """
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        above = function(middle) > 0.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))


def _along(vectors: FloatArray, w: FloatArray) -> FloatArray:
    """Products of rows, of shape (n,)."""
    return np.asarray(np.einsum("ij,ij->i", vectors, w))


def _on_curve(missing: MissingGradient, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points ``r(a) (a - b, 1)`` that the target allows, and their derivative, (n, 2) each."""
    r, c = missing.loss.residual(a, missing.y), missing.loss.curvature(a)
    height = a - missing.w[:, -1]
    return np.stack([r * height, r], axis=-1), np.stack([c * height + r, c], axis=-1)


def _likeliest_prediction(
    missing: MissingGradient, seen: FloatArray, metric: FloatArray
) -> FloatArray:
    """Prediction whose point on the curve is closest to what was seen, of shape (n,)."""

    def distance(a: FloatArray) -> FloatArray:
        gap = _on_curve(missing, a)[0] - seen
        return np.nan_to_num(np.einsum("ni,nij,nj->n", gap, metric, gap), nan=np.inf)

    # Without noise the quotient of the two entries is the answer.
    best = seen[:, 0] / seen[:, 1] + missing.w[:, -1]
    value = distance(best)
    for share in np.linspace(0.0, 1.0, _LIKELIEST_GRID):
        start = missing.low + share * (missing.high - missing.low)
        best, value = _better(best, value, start, distance)
    step_size = np.ones(len(best))
    # Wide enough to leave the guess unbiased; beyond, the residual underflows.
    width = 2.0 * (missing.high - missing.low)
    for _ in range(_NEWTON_STEPS):
        point, slope = _on_curve(missing, best)
        toward = np.einsum("ni,nij->nj", slope, metric)
        curvature = np.einsum("nj,nj->n", toward, slope)
        step = np.einsum("nj,nj->n", toward, seen - point) / np.maximum(curvature, 1e-300)
        before = value
        trial = np.clip(best + step_size * step, missing.low - width, missing.high + width)
        best, value = _better(best, value, trial, distance)
        step_size = np.where(value < before, np.minimum(1.0, 2 * step_size), 0.25 * step_size)
    return best


def _better(
    best: FloatArray, value: FloatArray, trial: FloatArray, distance: Any
) -> tuple[FloatArray, FloatArray]:
    there = distance(trial)
    closer = there < value
    return np.where(closer, trial, best), np.where(closer, there, value)


# Entries of a table of predictions, records x releases: 16 MB.
_PREDICTIONS = 1 << 21
# A range of candidates below this, relative to the column, is rounding in the preprocessing.
_ROUND_OFF = 1e-9


@dataclass(eq=False, repr=False)
class InformedAttributeInference(SomeTargets, AttributeAttack):
    """Guess an attribute from a reconstructed record: the attack of [BCH22] on one column.

    The adversary knows every other record, the target `y` and how the model is trained, but
    neither the noise nor a prior. The gradients of all records sum to zero at the minimizer: what
    the others leave over at the released parameters is the target's own, and gives its record as
    in `InformedReconstruction`. The guess is the candidate value whose preprocessed row is closest
    to it ([FANO23] 6.2).

    Parameters
    ----------
    estimator : private estimator or Pipeline
        How the model is trained, fitted or not; it is never changed. Preprocessing that is
        already fitted is used as it is.
    attribute : str or int
        Sensitive column of the raw data, by name or position. It must be categorical.
    values : array-like of shape (n_values,) or None, default=None
        Candidate values, as in `WhiteBoxAttributeInference`.
    records : array-like of int, boolean mask, slice or None, default=None
        Records under attack; all by default.

    Attributes
    ----------
    values_ : ndarray of shape (n_values,)
        Candidate values, ascending.
    records_ : ndarray of int of shape (n_targets,)
        Positions of the records under attack.
    numeric_ : bool
        False.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of str
        Their names, where there are any.

    Notes
    -----
    Closest is meant over the encoded columns that depend on the attribute, each in units of its
    range over the candidates of that target: the guess does not change where the preprocessing
    scales a column.

    With an intercept the record is the likeliest one given the target. Without one the missing
    gradient ``g = r x`` tells the direction of the record only, and ``g.w = r(a) a`` its length,
    through the prediction ``a = x.w``. Two predictions may solve this (for the squared loss ``a``
    and ``y - a``). The adversary keeps that of the record closest to a candidate over *all*
    columns, of which it knows the others; these count in units of their root mean square. Where
    noise leaves no solution, the prediction that comes closest to one is taken.

    The guess is exact without noise, but for records that the model predicts (almost) exactly,
    whose gradient is zero. With noise it lies below `WhiteBoxAttributeInference`, which weighs
    every direction by what it tells and adds the prior: that one is the attack to judge a model by.

    Fitted preprocessing counts as public, and so do the weights of a reweighting:
    who knows them knows more than the leakage of a reweighted model supposes.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.integers(0, 2, 60), rng.normal(size=60)])
    >>> y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> model = PrivateLinearRegression(noise_scale=1e-6, random_state=0).fit(X, y)
    >>> attack = InformedAttributeInference(model, 0).fit(X, y)
    >>> attack.score(model, X[:, 0])
    1.0
    """

    _of_targets = ("records_", "_points", "_unit", "_known")

    _games = "some"
    _takes_persons = False

    estimator: Any
    attribute: Any

    def _learn(self, table: Any, y: Array, everyone: Population, weights: Any) -> None:
        if everyone.teachers is not None:
            raise AttackNotApplicableError(
                "InformedAttributeInference knows no prior, and learns nothing from reference "
                "records; got `X_reference`. Leave it out, or use WhiteBoxAttributeInference."
            )
        if self.numeric_:
            raise AttackNotApplicableError(
                f"The attribute {self.attribute!r} is a quantity, and has no candidate values to "
                "be closest to. Use InformedReconstruction for the whole record as the model sees "
                "it, WhiteBoxAttributeInference for the quantity, or pass `values`."
            )
        model = PublicModel.of(self.estimator, table, y, weights=weights)
        encoded = model.transform(table)
        self._objective = objective_of(model, encoded, y, weights)
        self._kind = ReleaseKind.of(model, table, y)
        rows = model.candidate_rows(table, self.records_, everyone.secret.index, self._candidates)
        self._measure(encoded, rows)

    def _measure(self, encoded: Any, rows: list[Any]) -> None:
        """Set the candidates and the units of all columns."""
        X = plain_table(encoded)
        tables = [plain_table(one) for one in rows]
        columns = changed_columns(take_rows(X, self.records_), tables)
        if not len(columns):
            raise AttackNotApplicableError(
                "The preprocessing drops the attribute: every candidate value gives the same input "
                "to the model, whose release does not depend on it. Keep the column in the "
                "pipeline."
            )
        candidates = np.stack([dense_table(one[:, columns]) for one in tables], axis=1)
        self._columns, self._points = columns, candidates
        size = np.abs(candidates).max(axis=1)
        spread = np.ptp(candidates, axis=1)
        apart = spread > _ROUND_OFF * size
        self._unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=apart)
        # The columns that are known, of the targets and in the units of all records.
        self._others = np.delete(np.arange(X.shape[1]), columns)
        known = X[:, self._others]
        squares = np.ravel((known * known).mean(axis=0))
        scale = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        self._known_units = 1.0 / scale
        self._known = dense_table(take_rows(known, self.records_)) / scale

    def _learn_prior(self, everyone: Population) -> None:
        """No prior enters."""

    def _read(
        self, released: Any, noise_scale: Any, each: int | None
    ) -> tuple[Releases, int, bool]:
        p = self._objective.n_parameters
        releases = read_releases(released, p, kind=self._kind, each=each)
        return releases, len(releases.parameters), releases.single

    def _scores(self, releases: Releases, rows: slice) -> FloatArray:
        parameters = releases.parameters[rows]
        everyone = np.arange(len(self.records_))
        # A record that hardly takes part has a gradient near zero, and a guess far off.
        with np.errstate(all="ignore"):
            if parameters.ndim == 2:
                found = (MissingGradient.of(self._objective, w, self.records_) for w in parameters)
                return np.stack([self._closeness(one, everyone) for one in found])
            n_rows, n_targets, p = parameters.shape
            pairs = parameters.reshape(-1, p)
            scores = np.empty((len(pairs), len(self.values_)))
            for some in row_blocks(len(pairs), len(self._objective.y), _PREDICTIONS):
                who = np.arange(some.start, some.stop) % n_targets
                missing = MissingGradient.of(self._objective, pairs[some], self.records_[who])
                scores[some] = self._closeness(missing, who)
        return scores.reshape(n_rows, n_targets, -1)

    def _closeness(self, missing: MissingGradient, who: Any) -> FloatArray:
        """Negative squared distance of every candidate, of shape (len(who), n_values)."""
        if self._objective.fit_intercept:
            return -self._distances(reconstruct_known(missing), who)
        roots = reconstruct_roots(missing)
        distances = np.stack([self._distances(records, who) for records in roots])
        known = np.stack(
            [
                ((records[:, self._others] * self._known_units - self._known[who]) ** 2).sum(axis=1)
                for records in roots
            ]
        )
        # Where a residual is zero, a record is infinite or undefined, and the other one counts.
        misfit = np.nan_to_num(known + distances.min(axis=2), nan=np.inf)
        return -np.asarray(distances[misfit.argmin(axis=0), np.arange(len(who))])

    def _distances(self, records: FloatArray, who: Any) -> FloatArray:
        """Squared distances over the columns of the attribute, of shape (len(who), n_values)."""
        gaps = (records[:, self._columns][:, None] - self._points[who]) * self._unit[who][:, None]
        return np.nan_to_num((gaps**2).sum(axis=2), nan=np.inf)

    def _log_posterior(self, scores: FloatArray) -> FloatArray:
        return scores

    @property
    def _no_posterior(self) -> str:
        return (
            f"{type(self).__name__} takes the closest candidate, which has no probabilities: it "
            "knows neither the prior nor the noise. Use WhiteBoxAttributeInference."
        )


@dataclass(eq=False, repr=False)
class InformedReconstruction(RawTableMixin, Attack):
    """Reconstruct whole records from one release: the generalized-linear attack of [BCH22].

    At the minimizer all gradients sum to zero. The adversary knows all other records, hence the
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

    estimator: Any
    _: KW_ONLY
    known_target: bool = True
    bounds: Any = "others"
    records: Any = None

    @guarded
    def fit(
        self,
        X: Any,
        y: Any,
        X_reference: Any = None,
        y_reference: Any = None,
        *,
        sample_weight: Any = None,
    ) -> Self:
        """Learn the other records.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, n_columns)
            Raw training records.
        y : array-like of shape (n,)
            Targets the model was trained on.
        X_reference, y_reference : array-like of shape (m, n_columns) and (m,), default=None
            Raw records of the population, and their targets, which tell the range of every value
            in place of the other training records. For ``bounds="others"`` only.
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
            fitted with weights where none are given; for reference records of other columns, or
            beside `bounds` that are given.
        """
        table = as_table(X)
        y = as_column(y, table)
        remember_columns(self, table)
        self.records_ = resolve_records(self.records, table.shape[0])
        weights = check_weights(sample_weight, table)
        model = PublicModel.of(self.estimator, table, y, weights=weights, any_covariance=True)
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
        X_others, y_others = self._objective.X, self._objective.y
        reference = reference_table(table, X_reference, y_reference)
        if reference is not None:
            if not isinstance(self.bounds, str):
                raise ValueError(
                    "`X_reference` tells the range of bounds='others'; got it beside "
                    f"bounds={self.bounds!r:.100}. Leave `X_reference` and `y_reference` out, or "
                    "pass bounds='others'."
                )
            X_others, y_others = model.transform(reference.X), reference.y
            if is_classifier(model.template):  # a class that is in no record counts as the first
                y_others = np.maximum(label_positions(y_others, np.unique(y)), 0)
        self._range = self._clipping_range(X_others, y_others, of_reference=reference is not None)
        return self

    def _clipping_range(
        self, X: Any, y: Array, *, of_reference: bool
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return the ends of the range, (n_targets, n_reconstructed) or broadcast to it.

        "others" are the other records of these, or all of them if they are reference records.
        """
        if self.bounds is None:
            return None
        if isinstance(self.bounds, str):
            values = dense_table(plain_table(X))
            if not self._known_target:
                values = np.column_stack([values, y])
            if of_reference:
                return widened(values.min(axis=0), values.max(axis=0))
            low, high = (end[self.records_] for end in range_of_others(values))
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
        releases = read_releases(released, self._objective.n_parameters, kind=self._kind)
        # No metric enters where the target is not known.
        shape = self._noise.matrix if self._known_target else None
        reconstruct = reconstruct_known if self._known_target else reconstruct_unknown
        # A record that hardly takes part has a gradient near zero, and a guess far off.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            missing = (
                MissingGradient.of(self._objective, w, self.records_, shape)
                for w in releases.parameters
            )
            records = np.stack([reconstruct(one) for one in missing])
        if self._range is not None:
            low, high = self._range
            # Of a record without a gradient nothing is known: the middle errs least at worst.
            records = np.where(np.isnan(records), 0.5 * (low + high), np.clip(records, low, high))
        return records[0] if releases.single else records

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
