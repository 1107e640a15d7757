"""Release a fitted pipeline."""

import copy
import functools
import math
import types
import warnings
from collections.abc import Callable
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skleak._release._document import (
    children,
    final_estimator,
    is_skipped,
    of_several,
    pipeline_from_json,
    rebuilt,
    received,
    walk,
    with_output,
    written_pipeline,
)
from skleak._released import TABLE, ReleasedModel, TrainedMixin, warn_of_release
from skleak.accounting import gaussian_epsilon
from skleak.exceptions import NoGuaranteeError, PrivacyLeakWarning
from skleak.mechanisms import GaussianDP
from skleak.mechanisms.goals import RESERVED_DELTA
from skleak.preprocessing import (
    PrivateOneHotEncoder,
    PrivateScaler,
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)
from skleak.utils._blocks import is_large, is_large_source
from skleak.utils._confidential import global_names
from skleak.utils._files import read_document, write_document
from skleak.utils._sklearn_compat import BaseSearchCV, output_container, with_columns_of
from skleak.utils.sources import Table


class ReleasedPipeline(TrainedMixin, Pipeline):
    """A pipeline as it may be published: public steps, and a released model.

    Objects of this kind come from `skleak.release`. Their steps are made anew from public
    parameters and the names of the columns; the last one holds what `ReleasedModel` lists. They are
    already trained: ``fit`` returns the pipeline unchanged, and ``clone`` the pipeline itself.

    Parameters
    ----------
    steps : list of (str, estimator)
        The steps, each fitted. They may be known: steps before the last are functions of public
        parameters and the names of the columns (with ``allow_fitted=True`` of the records too),
        and the last one is a released model.
    transform_input : None
        As of scikit-learn's ``Pipeline``; a release has none.
    memory : None
        Likewise.
    verbose : bool, default=False
        Likewise.

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
    >>> released.to_sklearn()
    Pipeline(steps=[('publicscaler', MinMaxScaler(clip=True, feature_range=(-1.0, 1.0))),
                    ('privatelinearregression', LinearRegression())])
    """

    _is_released_pipeline: ClassVar[bool] = True

    def to_sklearn(self) -> Pipeline:
        """Return a pipeline of scikit-learn's own classes that predicts alike.

        For finite numbers, of a floating-point type where they are imputed, and NaN (not None)
        for what is missing.

        Returns
        -------
        Pipeline
            Fitted.

        Raises
        ------
        NotImplementedError
            For a `RowNormClipper`, which has no counterpart.
        """
        return rebuilt(self, lambda _, step: getattr(step, "to_sklearn", lambda: step)())

    def to_json(self) -> str:
        """Write the pipeline as JSON, to be read by ``from_json`` without pickle.

        Returns
        -------
        str
            Every double reads back as the same double.

        Raises
        ------
        TypeError
            For steps other than those of `skleak.preprocessing`, a ColumnTransformer, a Pipeline
            and a TransformedTargetRegressor of them, and the released model.
        """
        return write_document(type(self).__name__, written_pipeline(self))

    @classmethod
    def from_json(cls, text: "str | bytes") -> Self:
        """Read a pipeline that ``to_json`` wrote.

        Parameters
        ----------
        text : str or bytes
            The document. It is data only: nothing in it is run.

        Returns
        -------
        ReleasedPipeline

        Raises
        ------
        ValueError
            For a document of another kind or version, or a damaged one.
        """
        steps, container = pipeline_from_json(text)
        made: Self = with_output(cls(steps), container)
        return made


# What they learned is published, as noisy numbers with a guarantee.
_PRIVATE = (PrivateOneHotEncoder, PrivateScaler)
_PUBLIC = (PublicImputer, PublicOneHotEncoder, PublicScaler, PublicTargetScaler, RowNormClipper)
_OURS = (*_PRIVATE, *_PUBLIC)
# Of scikit-learn, those that transform each row by itself once they are fitted.
_ROW_BY_ROW = (
    AdditiveChi2Sampler,
    Binarizer,
    FeatureHasher,
    HashingVectorizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SimpleImputer,
)
# Values of a parameter that cannot hold records. Subclasses of the first may carry attributes.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), types.EllipsisType)
_PLAIN_KINDS = (type, np.generic, np.dtype)
# What a function may refer to in its module.
_REFERENCES = (types.ModuleType, type(np.sum))


def what_was_learned(step: Any) -> str | None:
    """Say what a fitted step learned from the records; None where that is nothing."""
    if is_skipped(step) or type(step) in _PUBLIC or type(step) is PolynomialFeatures:
        return None
    if type(step) in _PRIVATE:
        return "it has released noisy numbers of the records"
    if type(step) is ColumnTransformer:
        chosen = [
            name
            for name, _, columns in step.transformers
            if callable(columns) and type(columns) is not make_column_selector
        ]
        return (
            f"the columns of {chosen} are chosen by a function of the records" if chosen else None
        )
    if isinstance(step, BaseSearchCV):
        return "its parameters are chosen by scores of the records"
    if children(step):
        return None
    if type(step) in (OneHotEncoder, OrdinalEncoder):
        return _learned_by_encoder(step)
    if type(step) is SimpleImputer:
        return _learned_by_imputer(step)
    return _learned_by_stateless(step)


def what_mixes_rows(step: Any) -> str | None:
    """Say why a row that a step makes may depend on other records; None where it does not.

    A function without memory may still subtract the mean of the table it is given: nothing of
    that is published with it, but one raw record then moves all rows that the model is fitted on.
    """
    if is_skipped(step) or children(step) or type(step) in (*_OURS, *_ROW_BY_ROW):
        return None
    if type(step) is FunctionTransformer:
        elementwise = _is_ufunc(step.func) and step.func.signature is None
        if step.func is None or elementwise:
            return None
    return "it is not known to transform each row by itself"


def public_copy(step: Any) -> Any:
    """Copy a step that learned nothing, from its parameters and the schema of the table alone."""
    if is_skipped(step):
        return step
    if get_tags(step).requires_fit:
        check_is_fitted(step)
    if type(step) in _OURS:
        return step.public_copy()
    made = clone(step)
    if type(step) in (OneHotEncoder, OrdinalEncoder):
        made.fit(_table_of(step.categories))
    elif type(step) is SimpleImputer:
        kind = np.float64 if isinstance(step.fill_value, Real) else object
        made.fit(np.full((1, step.n_features_in_), step.fill_value, dtype=kind))
    elif type(step) is PolynomialFeatures:
        made.fit(np.zeros((1, step.n_features_in_)))
    return with_columns_of(step, made)


def _learned_by_encoder(step: Any) -> str | None:
    if isinstance(step.categories, str):
        return "its categories are those of the records (`categories='auto'`)"
    if step.min_frequency is not None or step.max_categories is not None:
        return "it counted which categories are infrequent among the records"
    opaque = _opaque_parameters(step, besides=("categories", "drop"))
    if opaque:
        return opaque
    check_is_fitted(step)
    again = public_copy(step)
    names = [list(fitted.get_feature_names_out()) for fitted in (step, again)]
    if names[0] != names[1]:
        return (
            f"its columns are named {names[0]}, and not {names[1]}, by the type that the records "
            "gave to a column"
        )
    return None


def _learned_by_imputer(step: Any) -> str | None:
    if step.strategy != "constant":
        return f"it imputes a function of the records (`strategy={step.strategy!r}`)"
    if step.fill_value is None:
        return "it imputes what suits the type of the records (`fill_value=None`)"
    if not step.keep_empty_features:
        return "it drops columns that are empty in all records (`keep_empty_features=False`)"
    if step.add_indicator:
        return "it indicates columns in which a record lacked a value (`add_indicator=True`)"
    return _opaque_parameters(step)


def _learned_by_stateless(step: Any) -> str | None:
    if get_tags(step).requires_fit:
        return "its `fit` reads the records"
    own = getattr(type(step), "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
    if own is not BaseEstimator.__sklearn_clone__:
        return "its `__sklearn_clone__` is its own, and may carry what `fit` has read"
    return _opaque_parameters(step)


def _opaque_parameters(step: Any, besides: tuple[str, ...] = ()) -> str | None:
    """Say which parameters, but for some, are objects that can hold records."""
    parameters = step.get_params(deep=False).items()
    kept = [name for name, value in parameters if name not in besides and not _is_plain(value)]
    return f"its parameters {kept} are objects that can hold records" if kept else None


def _is_plain(value: Any) -> bool:
    """Return True for values that cannot hold records, and functions that carry no other ones."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, [*value.keys(), *value.values()]))
    if type(value) is functools.partial:
        return _is_plain([value.func, value.args, value.keywords]) and not vars(value)
    if isinstance(value, types.FunctionType):
        return _is_plain_function(value, set())
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    return _is_ufunc(value) or type(value) in _PLAIN or isinstance(value, _PLAIN_KINDS)


def _is_plain_function(function: types.FunctionType, seen: set[int]) -> bool:
    """Return True for a function that refers to no value that can hold records.

    Variables of its module count: a function of a notebook travels with them. Functions of other
    modules are imported by name, and are not followed.
    """
    if id(function) in seen:
        return True
    seen.add(id(function))
    defaults = [function.__defaults__, function.__kwdefaults__]
    if function.__closure__ is not None or vars(function) or not _is_plain(defaults):
        return False
    module = function.__globals__
    for value in [module[name] for name in global_names(function.__code__) if name in module]:
        if isinstance(value, types.FunctionType):
            same = value.__globals__ is module
            if same and not _is_plain_function(value, seen):
                return False
        elif not (isinstance(value, _REFERENCES) or _is_plain(value)):
            return False
    return True


def _is_ufunc(value: Any) -> bool:
    """Return True for NumPy's and SciPy's own; one of `numpy.frompyfunc` holds any function."""
    if not isinstance(value, np.ufunc):
        return False
    return any(getattr(module, value.__name__, None) is value for module in (np, special))


def _table_of(categories: Any) -> pd.DataFrame:
    """Make a table that holds each category, each column filled up with its last one."""
    columns = []
    longest = max(map(len, categories))
    for given in categories:
        values = list(given)
        is_number = all(isinstance(value, Real) for value in values)
        column = np.array(values, dtype=None if is_number else object)
        filled = column[np.minimum(np.arange(longest), len(column) - 1)]
        columns.append(pd.Series(filled, dtype=column.dtype))
    return pd.concat(columns, axis=1)


_RAW_TABLE = "the table that the pipeline received"
_THEN = " when it was fitted"
# More than rounding adds to a mu: a few times 2^-30 sqrt(20,000), of the most parameters there are.
_OF_ROUNDING = 1e-6


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
    ``TransformedTargetRegressor``. Those with noise, `PrivateScaler` and `PrivateOneHotEncoder`,
    become public ones, and one guarantee is stated of them and the model together. Any other step
    learned from the records, and what it learned is no part of what the leakage and the guarantee
    of the estimator speak of.

    Parameters
    ----------
    pipeline : estimator
        A fitted private estimator, or a fitted Pipeline, TransformedTargetRegressor,
        FrozenEstimator or search that ends in one. What a search has chosen it has learned from the
        records: it takes ``allow_fitted=True``.
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
        leakage and guarantees is about rows as they came out of these. With private steps its
        guarantee is that of all releases together, about a raw row, and is None with the reason as
        ``no_guarantee`` where a part has none.

    Raises
    ------
    TypeError
        Where there is no private estimator at the end, or another step has trained private ones.
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
    while type(pipeline) is FrozenEstimator:
        pipeline = pipeline.estimator
    model = final_estimator(pipeline)
    every = list(walk(pipeline))
    is_known = any(step is model for _, step in every)
    why = of_several(*(step for _, step in every if not children(step)))
    if why or not (is_known and (isinstance(model, ReleasedModel) or hasattr(model, "release"))):
        last = model if is_known else every[-1][1]
        raise TypeError(
            f"`pipeline` must be a private estimator, or end in one; got {type(last).__name__} at "
            f"its end. {why or 'Estimators of skleak.linear_model can be released.'}"
        )
    steps = [(path, step) for path, step in every if step is not model]
    private = {path: step for path, step in steps if type(step) in _PRIVATE}
    others = [(path, step) for path, step in steps if path not in private]
    learned, mixed = _found(others, what_was_learned), _found(steps, what_mixes_rows)
    _judge(learned, mixed, allow_fitted, require_guarantee)
    if X is not None:
        _check_received(pipeline, model, X, y)
    elif y is not None:
        raise ValueError("`y` is compared together with `X`: pass the raw records, too.")
    alone = pipeline is model or isinstance(pipeline, ReleasedPipeline)
    released_model = _released(model, require_guarantee, real_arithmetic, alone)
    if pipeline is model:
        return released_model
    if not hasattr(released_model, "provenance_"):
        raise TypeError(
            f"{type(model).__name__} releases no model that predicts. Release the last step alone, "
            "of a pipeline whose other steps learned nothing from the records."
        )
    released_model = copy.copy(released_model)
    if not isinstance(model, ReleasedModel):
        targets = any(type(step) is TransformedTargetRegressor for _, step in steps)
        is_raw = X is not None and not (learned or mixed) and (y is not None or not targets)
        stated = {**released_model.provenance_, "fitted_steps": list(learned)}
        released_model.provenance_ = _about(stated, _RAW_TABLE) if is_raw else stated
    elif not alone:
        # Of a model that was released before: what holds whatever its training records were.
        before = released_model.provenance_.get("fitted_steps", [])
        stated = {"fitted_steps": [*before, *(set(learned) - {*before})]}
        released_model.provenance_ = _about(
            {**released_model.provenance_, **stated}, f"{TABLE}{_THEN}"
        )

    def leaf(path: str, step: Any) -> Any:
        if step is model:
            return released_model
        return copy.deepcopy(step) if path in learned else public_copy(step)

    made = rebuilt(pipeline, leaf)
    if private:
        total = _composed(model, private, {**mixed, **learned}, require_guarantee)
        released_model.provenance_ = {**released_model.provenance_, **total}
        if any(step._seeded for step in private.values()):
            warn_of_release(seeded=True)
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


def _composed(
    model: Any, private: dict[str, Any], blocked: dict[str, Any], require_guarantee: bool
) -> dict[str, Any]:
    """State one guarantee of private steps and a model: squares of mu add up, and so do deltas."""
    guarantee: Any = getattr(model, "_guarantee", None)
    said = {path: step.no_guarantee_because_ for path, step in private.items()}
    said |= dict.fromkeys(blocked, "it learned from the records without noise, or may mix rows")
    reasons = [f"{path!r}: {why}" for path, why in said.items() if why]
    if isinstance(model, ReleasedModel):
        reasons.append("the model was released before, and its training records are not known")
    elif not hasattr(guarantee, "composed_mu"):
        reasons.append("the guarantee of the model, if any, is not of a mu that adds up")
    elif not guarantee.holds:
        reasons.append(f"the model: {'; '.join(guarantee.reasons)}")
    why = "; ".join(reasons)
    if why and require_guarantee:
        raise NoGuaranteeError(
            f"No differential-privacy guarantee holds for the steps and the model together: {why}."
        )
    if why:
        return {"differential_privacy": None, "no_guarantee": why}
    # Parts of an `EpsilonDelta` tell its delta; and a goal bounds a mu whatever came before.
    goals = [
        *(step.goal for step in private.values()),
        getattr(model, "noise_scale", getattr(model, "goal", None)),
    ]
    mus = [*(step.composed_mu_ for step in private.values()), guarantee.composed_mu]
    mu = math.hypot(*map(_whatever_came_before, mus, goals)) * (1.0 + 1e-12)
    mu_delta = math.fsum(step.mu_delta_ for step in private.values()) * (1.0 + 1e-12)
    parts = [goal.delta if isinstance(goal, GaussianDP) else 0.0 for goal in goals]
    whole = float(f"{math.fsum(parts) / RESERVED_DELTA:.12g}") if all(parts) else guarantee.delta
    delta = max(whole, 2.0 * mu_delta)
    stated = {
        "mechanism": f"noisy preprocessing and {guarantee.mechanism}",
        "epsilon": float(gaussian_epsilon(mu, delta - mu_delta)),
        "delta": delta,
        "composed_mu": mu,
        "mu_delta": mu_delta,
        "exact": guarantee.exact,
        "steps": {path: step.composed_mu_ for path, step in private.items()},
        "assumptions": [
            *guarantee.assumptions,
            "each private step was fitted once on these records, as every fit is a release",
            "no step was fitted or changed after the model was",
        ],
        "about": f"replacement of one row of {_RAW_TABLE}",
    }
    return {"differential_privacy": stated, "no_guarantee": None}


def _whatever_came_before(mu: float, goal: Any) -> float:
    """Bound a mu over all numbers of columns, which noise decides on and rounding depends on."""
    return max(mu, goal.mu) if isinstance(goal, GaussianDP) else mu + _OF_ROUNDING


def _found(
    steps: list[tuple[str, Any]], ask: Callable[[Any], str | None]
) -> dict[str, tuple[str, str]]:
    """Return name of the class and reason, by path, of the steps for which there is a reason."""
    reasons = {path or "search": (type(step).__name__, ask(step)) for path, step in steps}
    return {path: (name, reason) for path, (name, reason) in reasons.items() if reason is not None}


def _check_received(pipeline: Any, model: Any, X: Any, y: Any) -> None:
    """Refuse a pipeline that does not make of its raw table what its model was trained on."""
    if not hasattr(model, "_trained_on"):
        raise NoGuaranteeError(
            f"`X` cannot be compared with the training records: a {type(model).__name__} keeps "
            "none, as does any model that was released before. Release the pipeline that was "
            "fitted, or leave out `X`."
        )
    opens = isinstance(X, str | PathLike) or is_large_source(X)
    raw = Table.of(X).frame if opens and pipeline is not model and not is_large(X) else X
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of names that a changed step lacks
            same = model._trained_on(*received(pipeline, raw, y))
    except NotFittedError:
        raise
    # Of other columns, or values of another kind.
    except (ValueError, TypeError, LookupError, RuntimeError):
        same = False
    if not same:
        raise NoGuaranteeError(
            "The steps do not make of `X` (and `y`) what the model was trained on: the pipeline "
            "was changed after it was fitted, or these are other records. Fit the pipeline again, "
            "or pass the raw records of the fit in their order. Without `X` a guarantee is about "
            "the table that the model received."
        )


def _about(provenance: dict[str, Any], table: str) -> dict[str, Any]:
    """Name the table that a guarantee is about, and leave what it rests on."""
    guarantee = provenance.get("differential_privacy")
    if not isinstance(guarantee, dict):
        return provenance
    about = guarantee["about"]
    named = next((each for each in (f"{TABLE}{_THEN}", TABLE, _RAW_TABLE) if each in about), table)
    about = about.replace(named, table, 1)
    return {**provenance, "differential_privacy": {**guarantee, "about": about}}


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


def from_json(text: "str | bytes") -> "ReleasedModel | ReleasedPipeline":
    """Read a release that ``to_json`` wrote, of a model or of a pipeline.

    Parameters
    ----------
    text : str or bytes
        The document. It is data only: nothing in it is run.

    Returns
    -------
    ReleasedModel or ReleasedPipeline
        Predicts like the release that was written, to the last bit.

    Raises
    ------
    ValueError
        For a document of another kind or version, or a damaged one.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import skleak
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> released = PrivateLinearRegression().fit(X, y).release()
    >>> again = skleak.from_json(released.to_json())
    >>> bool((again.predict(X) == released.predict(X)).all())
    True
    """
    kind, _ = read_document(text)
    reader = ReleasedPipeline if kind == ReleasedPipeline.__name__ else ReleasedModel
    return reader.from_json(text)
