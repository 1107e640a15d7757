"""Releases in any form: estimators, pipelines, lists of them, arrays of parameters."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from skleak.adversary.hypotheses._consistency import check_weights_known, encoding_error
from skleak.adversary.hypotheses._encodings import PublicModel, last_step
from skleak.adversary.knowledge import column_names
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._typing import FloatArray


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
    """Class, columns and parameters that a model must have to be attacked."""

    classes: tuple[type, ...]  # The class of the attacked model, and that of what it releases
    columns: list[str] | None  # Names of the raw columns, in their order, or None
    # Attributes that a model must share where it has them: its columns and classes
    labels: dict[str, Any]

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
        return cls(classes, None if raw is None else raw.tolist(), labels)

    def check(self, released: Any) -> None:
        """Refuse a model of another class, columns or classes."""
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


def count_releases(released: Any) -> int | None:
    """Return the number of releases, None for a single one or none at all."""
    if released is None or is_model(released):
        return None
    if len(released) and is_model(released[0]):
        return len(released)
    return None if np.ndim(released) == 1 else len(released)


def read_releases(
    released: Any,
    n_parameters: int,
    noise_scale: Any,
    default_noise: float,
    noise_covariance: str = "isotropic",
    kind: ReleaseKind | None = None,
    *,
    weighted: bool = False,
) -> Releases:
    """Read parameters and noise from releases in any form.

    Shapes: ``noise_scale`` (n_releases,).
    """
    single = count_releases(released) is None
    if is_model(released) or (len(released) and is_model(released[0])):
        models = [released] if is_model(released) else list(released)
        for model in models:
            if kind is not None:
                kind.check(model)
            check_weights_known(last_step(model), weighted=weighted)
            _check_covariance(last_step(model), noise_covariance)
        parameters = np.stack([_parameters(last_step(m), n_parameters) for m in models])
        stated = np.array([float(getattr(last_step(m), "noise_scale_", 0.0)) for m in models])
    else:
        parameters = _check_parameters(released, n_parameters)
        stated = np.full(len(parameters), default_noise)
    if noise_scale is not None:
        stated = _check_noise(noise_scale, len(parameters))
    return Releases(parameters, _check_known(stated), single)


def read_each(
    released: Any, n_targets: int, n_parameters: int, noise_scale: Any, default_noise: float
) -> Releases:
    """Read releases of which every target has its own.

    Shapes: ``released`` (n_releases, n_targets, n_parameters); ``noise_scale`` (n_releases,).
    """
    array = check_each(np.asarray(released, dtype=np.float64), n_targets)
    if array.shape[2] != n_parameters:
        raise ValueError(
            f"`released` must have {n_parameters} parameters a release, the coefficients and then "
            f"the intercept where there is one; got shape {array.shape}. Pass releases of "
            "the model and preprocessing the attack was fitted on."
        )
    # One release at a time: a mask of all of them would be large.
    if not all(np.isfinite(one).all() for one in array):
        raise ValueError("`released` must be finite; got NaN or infinity. Drop those releases.")
    if noise_scale is None:
        stated = np.full(len(array), default_noise)
    else:
        stated = _check_noise(noise_scale, len(array))
    return Releases(array, _check_known(stated), False)


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


def _check_known(noise_scale: FloatArray) -> FloatArray:
    if np.any(np.isnan(noise_scale)):
        raise ValueError(
            "The noise scale of these releases is not known: `estimator` calibrates it to data. "
            "Pass `noise_scale`, or released models instead of an array."
        )
    return noise_scale


def _check_covariance(model: Any, expected: str) -> None:
    made = getattr(model, "provenance_", getattr(model, "_made_as", {}))
    stated = made.get("noise_covariance", "isotropic")
    if stated != expected:
        raise AttackNotApplicableError(
            f"The noise of a released {type(model).__name__} has the covariance {stated!r}; this "
            f"attack was fitted for {expected!r}. Fit it on an estimator with the "
            "`noise_covariance` of the release."
        )


def _parameters(model: Any, n_parameters: int) -> FloatArray:
    if not hasattr(model, "coef_"):
        raise AttackNotApplicableError(
            f"A released {type(model).__name__} has no `coef_`: this attack reads the parameters "
            "of a linear model. Pass a fitted linear model or an array of its parameters."
        )
    coef = np.ravel(model.coef_)
    intercept = np.ravel(getattr(model, "intercept_", []))
    # A model without an intercept still says that it is zero.
    with_intercept = coef.size + intercept.size == n_parameters
    parameters = np.concatenate([coef, intercept]) if with_intercept else coef
    return _check_parameters(parameters.astype(np.float64), n_parameters)[0]


def _check_parameters(released: Any, n_parameters: int) -> FloatArray:
    array = np.atleast_2d(np.asarray(released, dtype=np.float64))
    if array.ndim != 2 or array.shape[1] != n_parameters or not len(array):
        raise ValueError(
            f"`released` must have {n_parameters} parameters a release, the coefficients and then "
            f"the intercept where there is one; got shape {np.shape(released)}. Pass releases of "
            "the model and preprocessing the attack was fitted on."
        )
    if not np.isfinite(array).all():
        raise ValueError("`released` must be finite; got NaN or infinity. Drop those releases.")
    return array


def _check_noise(noise_scale: Any, n_releases: int) -> FloatArray:
    scale = np.asarray(noise_scale, dtype=np.float64)
    if scale.ndim > 1 or (scale.ndim == 1 and len(scale) != n_releases):
        raise ValueError(
            f"`noise_scale` must be a number or have one entry for each of the {n_releases} "
            f"releases; got shape {scale.shape}."
        )
    if not np.all(scale >= 0.0) or not np.all(np.isfinite(scale)):
        raise ValueError(f"`noise_scale` must be finite and not negative; got {scale.min()}.")
    return np.array(np.broadcast_to(scale, (n_releases,)))
