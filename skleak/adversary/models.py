"""Models under attack: how they are trained, what they release, and others in their place."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import Pipeline

from skleak._released import (
    ReleasedLinearRegression,
    ReleasedLogisticRegression,
    ReleasedPoissonRegressor,
)
from skleak.adversary.hypotheses import (
    PublicModel,
    adds_noise,
    check_weights_known,
    encoding_error,
    last_step,
    model_parameters,
    plain_table,
    weight_argument,
)
from skleak.adversary.knowledge import column_names
from skleak.exceptions import AttackNotApplicableError, PrivacyLeakWarning
from skleak.utils._arguments import check_numbers, check_real, seeded, unseeded
from skleak.utils._sklearn_compat import BaseSearchCV
from skleak.utils._typing import Array, FloatArray, IntArray

# Models that are known to see nothing of a record but its linear predictors. A subclass may.
_LINEAR = (
    ReleasedLinearRegression,
    ReleasedPoissonRegressor,
    ReleasedLogisticRegression,
    LinearRegression,
    Ridge,
    PoissonRegressor,
    LogisticRegression,
)


@dataclass(frozen=True)
class Shell:
    """A fitted model whose parameters are to be replaced. Confidential: its own have no noise."""

    model: Any  # Released where it can be, so that copies are cheap and know no record
    n_parameters: int  # Number of coefficients, and the intercept where there is one

    @classmethod
    def fit(
        cls, model: PublicModel, X: Any, y: Array, sample_weight: FloatArray | None = None
    ) -> Self:
        """Fit once what many releases are put into.

        Shapes: ``X`` (n, d); ``y`` (n,); ``sample_weight`` (n,).
        """
        weights = weight_argument(model.template, sample_weight)
        return cls.of(clone(model.template).fit(X, y, **weights))

    @classmethod
    def of(cls, fitted: Any) -> Self:
        """Return what many releases are put into, of a fitted model."""
        width = len(model_parameters(fitted))
        if hasattr(fitted, "release"):
            with warnings.catch_warnings():
                # Its noiseless parameters are replaced before anything leaves.
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                fitted = fitted.release()
        return cls(fitted, width)

    def models_with(self, parameters: FloatArray) -> Iterator[Any]:
        """Models that predict with given parameters, one after the other.

        Shapes: ``parameters`` (n_releases, n_parameters); yields: with ``predict`` and ``score`` on
        preprocessed records.
        """
        coef, intercept = self.model.coef_, getattr(self.model, "intercept_", 0.0)
        size = np.size(coef)
        for row in parameters:
            one = copy.copy(self.model)
            one.coef_ = row[:size].reshape(np.shape(coef))
            if self.n_parameters > size:
                own = row[size:].reshape(np.shape(intercept))
                one.intercept_ = own if own.ndim else float(own)
            yield one

    def models_on(self, X: Any, parameters: FloatArray) -> Iterator[tuple[Any, Any]]:
        """Models that answer about records as those with given parameters, and records for them.

        For a linear model the records are converted once, and not for each release.

        Shapes: ``X`` (n, d), preprocessed; ``parameters`` (n_releases, n_parameters); yields a
        model and a table (n, d) for each release.
        """
        linear = type(self.model) in _LINEAR
        table = plain_table(X) if linear else X
        for model in self.models_with(parameters):
            if linear:  # an array has no names of columns to compare
                vars(model).pop("feature_names_in_", None)
            yield model, table

    def rows_for(
        self, X: Any, places: IntArray, parameters: FloatArray
    ) -> tuple[Any, FloatArray] | None:
        """One model, and rows for it: its answers are those of many, each about rows of its own.

        Shapes: ``X`` (n, d), preprocessed; ``places`` (n_models, k); ``parameters`` (n_models,
        n_parameters); the rows (n_models * k, ...). None unless the model is known to be linear,
        and its predictors are finite.
        """
        if type(self.model) not in _LINEAR:
            return None
        size, shape = np.size(self.model.coef_), np.shape(self.model.coef_)
        table, k = plain_table(X), 1 if len(shape) == 1 else shape[0]
        slopes = parameters[:, :size].reshape(len(parameters), k, -1)
        intercepts = np.reshape(getattr(self.model, "intercept_", 0.0), (1, -1))
        if self.n_parameters > size:
            intercepts = parameters[:, size:]
        with np.errstate(over="ignore", invalid="ignore"):
            each = [table[at] @ own.T for at, own in zip(places, slopes, strict=True)]
            rows = (np.stack(each) + intercepts[:, None, :]).reshape(-1, k)
        # The model whose coefficients are the identity takes linear predictors for records.
        identity = copy.copy(self.model)
        vars(identity).pop("feature_names_in_", None)
        identity.coef_ = np.ones(1) if len(shape) == 1 else np.eye(k)
        identity.intercept_, identity.n_features_in_ = np.zeros(k), k
        return (identity, rows) if np.isfinite(rows).all() else None


Draw = Callable[[int], Array]


@dataclass(frozen=True)
class Learner:
    """A learner to train, and how it was unwrapped and seeded. Confidential."""

    estimator: Any  # unfitted: no search, and no transformer of its target
    y: Array  # what it is trained on, (n,)
    y_test: Array | None = None
    wrappers: tuple[str, ...] = ()  # classes around it that were taken off, the outermost first
    chosen: dict[str, Any] = field(default_factory=dict)  # parameters that searches chose
    transformed: bool = False  # whether `y` is a function of the targets that were given
    seeds: tuple[str, ...] = ()  # parameters of it that leave its training to chance

    def seeded(self, draw: Draw) -> Any:
        """Unfitted copy of which nothing is left to chance but its own noise."""
        return seeded(self.estimator, draw, self.seeds)


def find_learner(
    estimator: Any, X: Any, y: Array, y_test: Any, sample_weight: FloatArray | None, draw: Draw
) -> Learner:
    """Take a model out of what is around it; a search runs once, on all records.

    Its own noise stays secret: a seed of the last step is none to fix where that adds noise.

    Shapes: ``X`` (n, n_columns); ``y`` (n,); ``sample_weight`` (n,).
    """
    known = None if y_test is None else np.asarray(y_test)
    learner = Learner(clone(estimator, safe=False), y, known)
    while (found := _without_wrapper(learner, X, sample_weight, draw)) is not None:
        learner = found
    estimator = learner.estimator
    names = unseeded(estimator)
    if adds_noise(estimator):
        own = "random_state"
        if isinstance(estimator, Pipeline):
            own = f"{estimator.steps[-1][0]}__random_state"
        names = tuple(name for name in names if name != own)
    return replace(learner, seeds=names)


def _without_wrapper(
    learner: Learner, X: Any, sample_weight: FloatArray | None, draw: Draw
) -> Learner | None:
    """Take off the outermost wrapper of the last step; None where there is none."""
    model = last_step(learner.estimator)
    if isinstance(model, Pipeline) and isinstance(learner.estimator, Pipeline):
        return replace(learner, estimator=_joined(learner.estimator, model))
    name = type(model).__name__
    if isinstance(model, BaseSearchCV):
        chosen = _search(learner, X, sample_weight, draw)
        best = clone(model.estimator).set_params(**clone(chosen, safe=False))
        learner = replace(learner, chosen=learner.chosen | chosen)
    elif isinstance(model, TransformedTargetRegressor):
        y, y_test = _transformed_targets(model, learner.y, learner.y_test)
        learner = replace(learner, y=y, y_test=y_test, transformed=True)
        best = LinearRegression() if model.regressor is None else clone(model.regressor)
    else:
        return None
    inner = best
    if isinstance(learner.estimator, Pipeline):
        inner = clone(learner.estimator)
        inner.steps[-1] = (inner.steps[-1][0], best)
    return replace(learner, estimator=inner, wrappers=(*learner.wrappers, name))


def _search(
    learner: Learner, X: Any, sample_weight: FloatArray | None, draw: Draw
) -> dict[str, Any]:
    """Parameters that a search chooses from all records."""
    search = last_step(learner.estimator)
    if not search.refit:
        raise ValueError(
            f"{type(search).__name__} with refit=False trains no model with what it chose: there "
            "is none to audit. Set refit=True, or pass the estimator with the parameters chosen."
        )
    whole = seeded(learner.estimator, draw, unseeded(learner.estimator))
    weights = {}
    if sample_weight is not None:
        # A search passes on what its own `fit` does not name.
        names = weight_argument(search.estimator, sample_weight)
        start = f"{whole.steps[-1][0]}__" if isinstance(whole, Pipeline) else ""
        weights = {f"{start}{name}": value for name, value in names.items()}
    return dict(last_step(whole.fit(X, learner.y, **weights)).best_params_)


def _transformed_targets(
    model: TransformedTargetRegressor, y: Array, y_test: Array | None
) -> tuple[FloatArray, FloatArray | None]:
    """Targets as the regressor inside is trained on, both (n,)."""
    # It checks targets, and fits the transformer: the regressor does not matter.
    cheap = clone(model).set_params(regressor=DummyRegressor())
    fitted = cheap.fit(np.zeros((len(y), 1)), y)

    def of(targets: Array) -> FloatArray:
        column = np.asarray(targets, dtype=np.float64).reshape(-1, 1)
        values = np.asarray(fitted.transformer_.transform(column))
        return check_numbers("transformed y", values.ravel(), finite=True)

    return of(y), None if y_test is None else of(y_test)


def _joined(outer: Pipeline, inner: Pipeline) -> Pipeline:
    """One pipeline of the steps of both, whose names differ."""
    taken = {name for name, _ in outer.steps[:-1]}
    steps = list(outer.steps[:-1])
    for name, step in inner.steps:
        while name in taken:
            name = f"{name}-inner"
        taken.add(name)
        steps.append((name, step))
    joined: Pipeline = clone(Pipeline(steps))
    return joined


@dataclass(frozen=True)
class Releases:
    """Released parameters and their noise."""

    # Coefficients, then the intercept where there is one; of shape (n_releases, n_targets,
    # n_parameters) where every target has releases of its own, (n_releases, n_parameters)
    parameters: FloatArray
    noise_scale: FloatArray  # Standard deviation of the noise on each parameter, (n_releases,)
    single: bool  # True if one release was given rather than several

    def variance(self, rows: slice, center: FloatArray) -> FloatArray:
        """Variance of the noise of some releases near a point, (n_rows,), not below round-off."""
        return np.maximum(self.noise_scale[rows], encoding_error(center)) ** 2


@dataclass(frozen=True)
class ReleaseKind:
    """Class, columns, parameters and noise that a model must have to be attacked."""

    classes: tuple[type, ...]  # The class of the attacked model, and that of what it releases
    columns: list[str] | None  # Names of the raw columns, in their order, or None
    # Attributes that a model must share where it has them: its columns and classes
    labels: dict[str, Any]
    weighted: bool  # As of the model
    noise_covariance: str  # As provenance has it

    @classmethod
    def of(cls, model: PublicModel, table: Any, y: Any) -> Self:
        """Read the kind off the training data, preprocessed as the adversary knows."""
        encoded, template = model.transform(table), model.template
        names = column_names(encoded)
        labels: dict[str, Any] = {"n_features_in_": encoded.shape[1]}
        if names is not None:
            labels["feature_names_in_"] = names.tolist()
        if is_classifier(template):
            labels["classes_"] = np.unique(y).tolist()
        released = getattr(template, "_released", None)
        classes = (type(template),) if released is None else (type(template), released)
        raw = column_names(table)
        covariance = model.noise_covariance
        noise = covariance if isinstance(covariance, str) else "given"
        return cls(classes, None if raw is None else raw.tolist(), labels, model.weighted, noise)

    def check(self, released: Any) -> None:
        """Refuse a model of another class, columns, classes or noise, or of unknown weights."""
        model = last_step(released)
        if not isinstance(model, self.classes):
            known = " or ".join(one.__name__ for one in self.classes)
            raise AttackNotApplicableError(
                f"The attack was fitted for {known}; got a released {type(model).__name__}, whose "
                "parameters mean something else. Fit the attack on the estimator that the model "
                "was trained with."
            )
        for name, expected in self.labels.items():
            _check_label(model, name, expected)
        if model is not released and self.columns is not None:
            _check_label(released, "feature_names_in_", self.columns)
        check_weights_known(model, weighted=self.weighted)
        made = getattr(model, "provenance_", getattr(model, "_made_as", {}))
        stated = made.get("noise_covariance", "isotropic")
        if stated != self.noise_covariance:
            raise AttackNotApplicableError(
                f"The noise of a released {type(model).__name__} has the covariance {stated!r}; "
                f"this attack was fitted for {self.noise_covariance!r}. Fit it on an estimator "
                "with the `noise_covariance` of the release."
            )


def _check_label(model: Any, name: str, expected: Any) -> None:
    stated = getattr(model, name, None)
    if stated is None or np.asarray(stated).tolist() == expected:
        return
    what = {"n_features_in_": "number of columns", "classes_": "classes"}.get(
        name, "columns, in their order,"
    )
    first = [np.ravel(np.asarray(one, dtype=object))[:5].tolist() for one in (expected, stated)]
    raise ValueError(
        f"The released {type(model).__name__} must have the {what} that the attack was fitted on, "
        f"{first[0]}; got {first[1]}: its parameters stand for others. Fit the attack on the data "
        "of the model."
    )


def is_model(released: Any) -> bool:
    """Return True if an object is an estimator or a pipeline rather than numbers."""
    return hasattr(released, "predict") or hasattr(released, "coef_")


def given_releases(released: Any) -> tuple[list[Any] | None, bool]:
    """Models that were released, None where parameters are given, and whether there is only one."""
    if is_model(released):
        return [released], True
    if not hasattr(released, "__len__"):
        raise TypeError(
            "`released` must be a fitted model, several of them, or parameters; got "
            f"{type(released).__name__}. Of sums pass what `regress()` returns."
        )
    if len(released) and is_model(released[0]):
        return list(released), False
    return None, np.ndim(released) == 1


def count_releases(released: Any) -> int | None:
    """Return the number of releases, None for a single one or none at all."""
    single = released is None or given_releases(released)[1]
    return None if single else len(released)


def read_releases(
    released: Any,
    n_parameters: int,
    noise_scale: Any = None,
    default_noise: float = 0.0,
    kind: ReleaseKind | None = None,
    *,
    each: int | None = None,
) -> Releases:
    """Read parameters and noise from releases in any form.

    With ``each`` every one of so many targets has releases of its own, an array of shape
    (n_releases, n_targets, n_parameters). Shapes: ``noise_scale`` (n_releases,).
    """
    if each is not None:
        parameters = _check_parameters(check_each(released, each), n_parameters, 3)
        stated = np.full(len(parameters), default_noise)
        return Releases(parameters, _stated_noise(noise_scale, stated), False)
    models, single = given_releases(released)
    if models is not None:
        if kind is not None:
            for model in models:
                kind.check(model)
        parameters = np.stack([_parameters(last_step(m), n_parameters) for m in models])
        stated = np.array([float(getattr(last_step(m), "noise_scale_", 0.0)) for m in models])
    else:
        parameters = _check_parameters(released, n_parameters)
        stated = np.full(len(parameters), default_noise)
    return Releases(parameters, _stated_noise(noise_scale, stated), single)


def check_each(released: Any, n_targets: int) -> Any:
    """Check that every target has releases of its own; return them."""
    shape = np.shape(released)
    if len(shape) != 3 or shape[1] != n_targets or not shape[0]:
        raise ValueError(
            f"`released` must have shape (n_releases, {n_targets}, n_parameters), a release for "
            f"each of the {n_targets} targets; got shape {shape}. Pass releases that are about "
            "all targets at once to `predict`."
        )
    return released


def _parameters(model: Any, n_parameters: int) -> FloatArray:
    if not hasattr(model, "coef_"):
        raise AttackNotApplicableError(
            f"A released {type(model).__name__} has no `coef_`: this attack reads the parameters "
            "of a linear model. Pass a fitted linear model or an array of its parameters."
        )
    own = getattr(getattr(model, "_mechanism", None), "name", "output")  # of a private estimator
    mechanism = getattr(model, "provenance_", {}).get("mechanism", own)
    if mechanism != "output":
        where = "in the objective" if mechanism == "objective" else "on sums"
        raise AttackNotApplicableError(
            f"The released model has its noise {where} (`mechanism={mechanism!r}`), and this "
            "attack knows noise on the coefficients alone. Its guarantee bounds every attack; to "
            "attack coefficients, release a model of `mechanism='output'`."
        )
    coef = np.ravel(model.coef_)
    intercept = np.ravel(getattr(model, "intercept_", []))
    # A model without an intercept still says that it is zero.
    with_intercept = coef.size + intercept.size == n_parameters
    parameters = np.concatenate([coef, intercept]) if with_intercept else coef
    return _check_parameters(parameters.astype(np.float64), n_parameters)[0]


def _check_parameters(released: Any, n_parameters: int, ndim: int = 2) -> FloatArray:
    array = np.atleast_2d(np.asarray(released, dtype=np.float64))
    if array.ndim != ndim or array.shape[-1] != n_parameters or not len(array):
        raise ValueError(
            f"`released` must have {n_parameters} parameters a release, the coefficients and then "
            f"the intercept where there is one; got shape {np.shape(released)}. Pass releases of "
            "the model and preprocessing the attack was fitted on."
        )
    # One release at a time: a mask of all of them would be large.
    if not all(np.isfinite(one).all() for one in array):
        raise ValueError("`released` must be finite; got NaN or infinity. Drop those releases.")
    return array


def _stated_noise(noise_scale: Any, stated: FloatArray) -> FloatArray:
    """Noise of every release, (n_releases,): what is passed, else what is stated."""
    if noise_scale is not None:
        scale = check_real("noise_scale", noise_scale, finite=True)
        if scale.shape not in ((), stated.shape):
            raise ValueError(
                f"`noise_scale` must be a number or have one entry for each of the {len(stated)} "
                f"releases; got shape {scale.shape}."
            )
        return np.array(np.broadcast_to(scale, stated.shape))
    if np.any(np.isnan(stated)):
        raise ValueError(
            "The noise scale of these releases is not known: `estimator` calibrates it to data. "
            "Pass `noise_scale`, or released models instead of an array."
        )
    return stated


# Entries of the covariances of all candidates: 1 GB.
_MOST_ENTRIES = 1 << 27


@dataclass(frozen=True)
class ShapedHypotheses:
    """Gaussians that releases may come from, at unit noise scale. Confidential."""

    encodings: FloatArray  # Their means, (n_targets, n_values, p)
    shapes: FloatArray  # Their covariances ``S``, with trace p, (n_targets, n_values, p, p)
    # Lower triangular ``R^-1`` with ``R R^T = S``, (n_targets, n_values, p, p)
    whiteners: FloatArray
    log_scales: FloatArray  # ``log det R``, (n_targets, n_values)

    @classmethod
    def of(cls, encodings: FloatArray, shapes: FloatArray) -> "ShapedHypotheses":
        """From the encodings and the shape of the noise of every candidate."""
        # Scaled to a unit diagonal, so that the units of the columns do not matter.
        sizes = np.sqrt(np.einsum("imkk->imk", shapes))
        roots = np.linalg.cholesky(shapes / (sizes[..., :, None] * sizes[..., None, :]))
        whiteners = np.tril(np.linalg.inv(roots)) / sizes[..., None, :]
        diagonals = np.einsum("imkk->imk", roots) * sizes
        return cls(encodings, shapes, whiteners, np.log(diagonals).sum(axis=2))

    @staticmethod
    def check_size(n_targets: int, n_values: int, n_parameters: int) -> None:
        """Check that the covariances of all candidates fit into memory."""
        entries = n_targets * n_values * n_parameters**2
        if entries > _MOST_ENTRIES:
            raise AttackNotApplicableError(
                "Under noise whose shape depends on the data every candidate of every target has a "
                f"covariance of its own: {n_targets} x {n_values} matrices of {n_parameters} "
                f"parameters do not fit into memory. Attack at most "
                f"{max(1, n_targets * _MOST_ENTRIES // entries)} `records` at a time."
            )

    def scores(self, releases: Releases, rows: slice) -> FloatArray:
        """Log-likelihoods of some releases, but for a constant of each.

        Returns shape (n_rows, n_targets, n_values).
        """
        released = releases.parameters[rows]
        variance = releases.variance(rows, self.encodings.mean(axis=(0, 1)))
        n_targets, n_values, _ = self.encodings.shape
        scores = np.empty((len(released), n_targets, n_values))
        for i in range(n_targets):
            own = released[:, i] if released.ndim == 3 else released
            gaps = own - self.encodings[i][:, None]
            white = gaps @ self.whiteners[i].transpose(0, 2, 1)
            squares = np.einsum("mrk,mrk->rm", white, white)
            scores[:, i] = -0.5 * squares / variance[:, None] - self.log_scales[i]
        return scores
