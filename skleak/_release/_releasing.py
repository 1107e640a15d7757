"""Release a fitted pipeline: what may be published of it, or why nothing may."""

import copy
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any

from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from skleak._release._pipeline import ReleasedPipeline
from skleak._release._public import public_copy, what_mixes_rows, what_was_learned
from skleak._release._tree import final_estimator, rebuilt, received, walk, with_output
from skleak._released import TABLE, ReleasedModel
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.utils._sklearn_compat import output_container
from skleak.utils.blocks._dask import is_large
from skleak.utils.sources import is_large_source
from skleak.utils.sources._raw import raw_frame

_RAW_TABLE = "the table that the pipeline received"
_THEN = " when it was fitted"


def release(
    pipeline: Any,
    *,
    X: Any = None,
    y: Any = None,
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
    X : array-like, sparse matrix, DataFrame or table of shape (n_samples, n_columns), default=None
        The raw training records, of any kind that ``fit`` takes, in their order. Steps may have
        been changed or fitted again since: they are run, and what they make of these records is
        compared with those that the model was trained on. Only then is a guarantee said to be
        about the table that the pipeline received; without, it is about that of the model.
    y : array-like of shape (n_samples,), default=None
        The raw targets. With ``X`` they are compared, too, and a guarantee behind a
        TransformedTargetRegressor needs them to reach the raw table.
    allow_fitted : bool, default=False
        Publish steps that learned from the records too, as they are, with a warning.
    require_guarantee : bool, default=False
        Raise unless a differential-privacy guarantee holds, with ``X`` from the raw table to the
        release. It is about one row of a table, not about one person with many. Steps must then be
        known to transform each row by itself: a function of a ``FunctionTransformer`` may subtract
        the mean of the table it is given, which it keeps no trace of.
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
        For steps that learned from the records, unless ``allow_fitted=True``; for want of a
        guarantee with ``require_guarantee=True``; and where the steps do not make of ``X`` and
        ``y`` what the model was trained on.
    NotFittedError
        With ``X``, for a model that was unpickled or copied: it holds no training records.

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
    >>> released = skleak.release(pipeline.fit(X, y), X=X)
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
    if X is not None:
        _check_received(pipeline, model, X, y)
    elif y is not None:
        raise ValueError("`y` is compared together with `X`: pass the raw records, too.")
    alone = pipeline is model or isinstance(pipeline, ReleasedPipeline)
    released_model = _released(model, require_guarantee, real_arithmetic, alone)
    if pipeline is model:
        return released_model
    released_model = copy.copy(released_model)
    if not isinstance(model, ReleasedModel):
        targets = any(type(step) is TransformedTargetRegressor for _, step in steps)
        is_raw = X is not None and not (learned or mixed) and (y is not None or not targets)
        released_model.provenance_ = _stated(released_model.provenance_, learned, is_raw)
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


def _check_received(pipeline: Any, model: Any, X: Any, y: Any) -> None:
    """Refuse a pipeline that does not make of its raw table what its model was trained on."""
    if not hasattr(model, "_trained_on"):
        raise NoGuaranteeError(
            "`X` cannot be compared with the training records: the model was released before, and "
            "holds none. Release the pipeline that was fitted, or leave out `X`."
        )
    opens = isinstance(X, str | PathLike) or is_large_source(X)
    raw = raw_frame(X) if opens and pipeline is not model and not is_large(X) else X
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of names that a changed step lacks
            same = model._trained_on(*received(pipeline, model, raw, y))
    except NotFittedError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        RuntimeError,
    ):  # other columns, or values of another kind
        same = False
    if not same:
        raise NoGuaranteeError(
            "The steps do not make of `X` (and `y`) what the model was trained on: the pipeline "
            "was changed after it was fitted, or these are other records. Fit the pipeline again, "
            "or pass the raw records of the fit in their order. Without `X` a guarantee is about "
            "the table that the model received."
        )


def _stated(provenance: dict[str, Any], learned: dict[str, Any], is_raw: bool) -> dict[str, Any]:
    """State which steps were fitted, and of which table a guarantee speaks."""
    stated = {**provenance, "fitted_steps": list(learned)}
    return _about(stated, _RAW_TABLE) if is_raw else stated


def _about(provenance: dict[str, Any], table: str) -> dict[str, Any]:
    """Name the table that a guarantee is about, and leave what it rests on."""
    guarantee = provenance.get("differential_privacy")
    if not isinstance(guarantee, dict):
        return provenance
    about = guarantee["about"]
    named = next((each for each in (f"{TABLE}{_THEN}", TABLE, _RAW_TABLE) if each in about), table)
    about = about.replace(named, table, 1)
    return {**provenance, "differential_privacy": {**guarantee, "about": about}}


def _stated_by_itself(provenance: dict[str, Any], learned: dict[str, Any]) -> dict[str, Any]:
    """State of a model that was released before what holds whatever its training records were."""
    before = provenance.get("fitted_steps", [])
    steps = [*before, *(set(learned) - {*before})]
    return _about({**provenance, "fitted_steps": steps}, f"{TABLE}{_THEN}")


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
