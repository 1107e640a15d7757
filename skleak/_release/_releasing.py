"""Release a fitted pipeline: what may be published of it, or why nothing may."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

from sklearn.pipeline import Pipeline

from skleak._release._pipeline import ReleasedPipeline
from skleak._release._public import public_copy, what_mixes_rows, what_was_learned
from skleak._release._tree import final_estimator, rebuilt, walk, with_output
from skleak._released import ReleasedModel
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.utils._sklearn_compat import output_container


def release(
    pipeline: Any,
    *,
    allow_fitted: bool = False,
    require_guarantee: bool = False,
    real_arithmetic: bool = False,
) -> "ReleasedModel | ReleasedPipeline":
    """Return what may be published of a fitted pipeline that ends in a private estimator.

    Steps that learned nothing from the records are made anew from their parameters and the names
    of the columns: those of `skleak.preprocessing`, stateless ones (their ``requires_fit`` tag is
    False, and no parameter can hold records), ``PolynomialFeatures``, encoders with explicit
    ``categories``, and ``SimpleImputer(strategy="constant", fill_value=..., keep_empty_features=
    True)``; alone, or in a ``Pipeline``, ``ColumnTransformer``, ``FeatureUnion`` or
    ``TransformedTargetRegressor``. Any other step learned from the records, and what it learned
    is no part of what the leakage and the guarantee of the estimator speak of.

    Parameters
    ----------
    pipeline : estimator
        A fitted private estimator, or a fitted Pipeline or TransformedTargetRegressor that ends in
        one.
    allow_fitted : bool, default=False
        Publish steps that learned from the records too, as they are, with a warning.
    require_guarantee : bool, default=False
        Raise unless a differential-privacy guarantee holds from the raw table to the release. It
        is about one row of that table, not about one person with many. Steps must then be known
        to transform each row by itself: a function of a ``FunctionTransformer`` may subtract the
        mean of the table it is given, which it keeps no trace of.
    real_arithmetic : bool, default=False
        With `require_guarantee`, accept the guarantee of a module of torch trained by private SGD,
        which holds in real arithmetic only. The other estimators take no notice.

    Returns
    -------
    ReleasedModel or ReleasedPipeline
        ``estimator.release()`` for an estimator alone. The provenance of a model in a pipeline
        lists ``fitted_steps``, those that learned from the records: what the model states of
        leakage and guarantees is about rows as they came out of these.

    Raises
    ------
    TypeError
        Where there is no private estimator at the end.
    NoGuaranteeError
        For steps that learned from the records, unless ``allow_fitted=True``, and for want of a
        guarantee with ``require_guarantee=True``.

    Warns
    -----
    PrivacyLeakWarning
        For steps that learned from the records, with ``allow_fitted=True``; and as
        ``estimator.release()`` does.

    Notes
    -----
    Names, order and types of the columns count as public. So do the parameters of the steps: that
    they came from outside knowledge is for you to see to.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> import skleak
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.preprocessing import PublicScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> pipeline = make_pipeline(PublicScaler(bounds=(-0.2, 0.2)), PrivateLinearRegression())
    >>> released = skleak.release(pipeline.fit(X, y))
    >>> released.predict(X).shape
    (442,)
    """
    model = final_estimator(pipeline)
    if not (isinstance(model, ReleasedModel) or hasattr(model, "release")):
        raise TypeError(
            f"`pipeline` must be a private estimator, or end in one; got {type(model).__name__} at "
            "its end. Estimators of skleak.linear_model can be released."
        )
    steps = [(path, step) for path, step in walk(pipeline) if step is not model]
    learned, mixed = _found(steps, what_was_learned), _found(steps, what_mixes_rows)
    _judge(learned, mixed, allow_fitted, require_guarantee)
    alone = pipeline is model or isinstance(pipeline, ReleasedPipeline)
    released_model = _released(model, require_guarantee, real_arithmetic, alone)
    if pipeline is model:
        return released_model
    released_model = copy.copy(released_model)
    if not isinstance(model, ReleasedModel):
        released_model.provenance_ = _stated(released_model.provenance_, learned, mixed)
    elif not alone:
        released_model.provenance_ = _stated_by_itself(released_model.provenance_, learned)

    def leaf(path: str, step: Any) -> Any:
        if step is model:
            return released_model
        return copy.deepcopy(step) if path in learned else public_copy(step)

    made = rebuilt(pipeline, leaf)
    steps = made.steps if isinstance(made, Pipeline) else [("model", made)]
    released: ReleasedPipeline = with_output(ReleasedPipeline(steps), output_container(pipeline))
    return released


def _released(model: Any, require_guarantee: bool, real_arithmetic: bool, alone: bool) -> Any:
    if not isinstance(model, ReleasedModel):
        accepted = {"real_arithmetic": True} if real_arithmetic and hasattr(model, "module") else {}
        return model.release(require_guarantee=require_guarantee, **accepted)
    if require_guarantee and not alone:
        raise NoGuaranteeError(
            "The pipeline ends in a model that was released before: through which steps its "
            "training records went is not known, and no guarantee reaches the raw table. Release "
            "the pipeline in which the private estimator was fitted."
        )
    if require_guarantee and not model.provenance_.get("differential_privacy"):
        raise NoGuaranteeError(
            "No differential-privacy guarantee is stated by this released model. Release a private "
            "estimator that has one."
        )
    return model


def _found(
    steps: list[tuple[str, Any]], ask: Callable[[Any], str | None]
) -> dict[str, tuple[str, str]]:
    """Return name of the class and reason, by path, of the steps for which there is a reason."""
    reasons = {path: (type(step).__name__, ask(step)) for path, step in steps}
    return {path: (name, reason) for path, (name, reason) in reasons.items() if reason is not None}


def _stated(
    provenance: dict[str, Any], learned: dict[str, Any], mixed: dict[str, Any]
) -> dict[str, Any]:
    """State which steps were fitted, and of which table a guarantee speaks."""
    stated = {**provenance, "fitted_steps": list(learned)}
    guarantee = provenance.get("differential_privacy")
    if isinstance(guarantee, dict) and not (learned or mixed):
        about = "replacement of one row of the table that the pipeline received"
        stated["differential_privacy"] = {**guarantee, "about": about}
    return stated


def _stated_by_itself(provenance: dict[str, Any], learned: dict[str, Any]) -> dict[str, Any]:
    """State of a model that was released before what holds whatever its training records were."""
    before = provenance.get("fitted_steps", [])
    stated = {**provenance, "fitted_steps": [*before, *(set(learned) - {*before})]}
    guarantee = provenance.get("differential_privacy")
    if isinstance(guarantee, dict):
        about = "replacement of one row of the table that the model received when it was fitted"
        stated["differential_privacy"] = {**guarantee, "about": about}
    return stated


def _judge(
    learned: dict[str, tuple[str, str]],
    mixed: dict[str, tuple[str, str]],
    allow_fitted: bool,
    require_guarantee: bool,
) -> None:
    """Raise for, or warn of, steps that carry records into other rows."""
    judged = {**mixed, **learned} if require_guarantee else learned
    if not judged:
        return
    found = "; ".join(f"{path!r} ({name}): {reason}" for path, (name, reason) in judged.items())
    if require_guarantee or not allow_fitted:
        raise NoGuaranteeError(
            f"Steps of the pipeline learned from the records, or may mix them, which no guarantee "
            f"covers: {found}. Use the transformers of skleak.preprocessing, whose parameters are "
            "public knowledge; or pass `allow_fitted=True`, without `require_guarantee`, to "
            "publish what was learned all the same."
        )
    warnings.warn(
        f"Releasing steps that learned from the records: {found}. They are published as they are, "
        "carry functions of the records without noise, and are covered by no guarantee and no "
        "leakage reported.",
        PrivacyLeakWarning,
        stacklevel=3,
    )
