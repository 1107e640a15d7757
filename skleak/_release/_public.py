"""Which steps of a pipeline are public, and copies of them that hold nothing of the records."""

import functools
import types
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
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

from skleak._release._tree import children, is_skipped
from skleak.preprocessing import (
    PublicImputer,
    PublicOneHotEncoder,
    PublicScaler,
    PublicTargetScaler,
    RowNormClipper,
)
from skleak.utils._confidential import global_names
from skleak.utils._sklearn_compat import with_columns_of

_OURS = (PublicImputer, PublicOneHotEncoder, PublicScaler, PublicTargetScaler, RowNormClipper)
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
    if is_skipped(step) or type(step) in _OURS or type(step) is PolynomialFeatures:
        return None
    if type(step) is ColumnTransformer:
        chosen = [
            name
            for name, _, columns in step.transformers
            if callable(columns) and type(columns) is not make_column_selector
        ]
        return (
            f"the columns of {chosen} are chosen by a function of the records" if chosen else None
        )
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
    if type(step) is FunctionTransformer and (step.func is None or _is_elementwise(step.func)):
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


def _is_elementwise(function: Any) -> bool:
    return _is_ufunc(function) and function.signature is None


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
