"""What the public transformers share: parameters by column, tables, copies."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skleak.preprocessing._large import keeps_target, takes_large
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array


class PublicTransformer(TransformerMixin, BaseEstimator):
    """A transformer that is made from its parameters and the names of the columns alone."""

    # What scikit-learn is told of the tables that it takes, beside its defaults.
    _input_tags: ClassVar[dict[str, bool]] = {}
    n_features_in_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `fit` and `transform` take tables outside memory, around what scikit-learn adds."""
        super().__init_subclass__(**kwargs)
        for name in ("fit", "transform", "inverse_transform"):
            if name in cls.__dict__:
                method = withholding(cls.__dict__[name])
                setattr(cls, name, method if name[0] == "i" else takes_large(method))
        cls.fit_transform = keeps_target(TransformerMixin.fit_transform)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn which tables are taken."""
        tags = super().__sklearn_tags__()
        for name, value in self._input_tags.items():
            setattr(tags.input_tags, name, value)
        return tags

    def _prepare(self) -> Self:
        """Make what `transform` needs, from the parameters and the columns."""
        return self

    @abstractmethod
    def _used_parameters(self) -> dict[str, Any]:
        """Parameters as `transform` uses them, column by column in plain values."""

    @abstractmethod
    def to_sklearn(self) -> BaseEstimator:
        """Return scikit-learn's own transformer, fitted."""

    def on_columns(self, n_features: int, names: Array | None = None) -> Self:
        """Make a transformer for a table of these columns, without seeing any record.

        Parameters
        ----------
        n_features : int
            Number of columns.
        names : ndarray of str, default=None
            Their names.

        Returns
        -------
        PublicTransformer
            A copy, fitted.
        """
        made = clone(self)
        made.n_features_in_ = int(n_features)
        if names is not None:
            made.feature_names_in_ = np.array(names, dtype=object)
        return made._prepare()

    def public_copy(self) -> Self:
        """Copy a fitted transformer, from its parameters and the names of its columns alone.

        Returns
        -------
        PublicTransformer
            Transforms alike, with its parameters column by column.
        """
        check_is_fitted(self)
        made = clone(self).set_params(**self._used_parameters())
        return made.on_columns(self.n_features_in_, getattr(self, "feature_names_in_", None))


def by_column(estimator: Any, parameter: str, shared: bool) -> Sequence[Any]:
    """Return the value of a parameter for each column that a transformer was fitted with."""
    value, n_features = getattr(estimator, parameter), estimator.n_features_in_
    if isinstance(value, Mapping):
        return _by_name(parameter, value, getattr(estimator, "feature_names_in_", None))
    if shared:
        return [value] * n_features
    if len(value) != n_features:
        raise ValueError(
            f"`{parameter}` must hold one entry for each of the {n_features} columns of X; got "
            f"{len(value)}. Give them in the order of the columns, or as a mapping from names."
        )
    return list(value)


def _by_name(parameter: str, value: Mapping[Any, Any], names: Array | None) -> list[Any]:
    if names is None:
        raise ValueError(
            f"`{parameter}` is a mapping from column names, but X has none. Pass a DataFrame with "
            "names that are strings (steps of a pipeline that come before hand over names after "
            "`pipeline.set_output(transform='pandas')`), or a list in the order of the columns."
        )
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in set(names)]
    if missing or unknown:
        raise ValueError(
            f"`{parameter}` must name the columns of X; it lacks {missing}, and names {unknown}, "
            "which X does not have. Choose columns with a ColumnTransformer where a transformer is "
            "for some of them only."
        )
    return [value[name] for name in names]


def column_label(estimator: Any, index: int) -> str:
    """Name a column in a message."""
    names = getattr(estimator, "feature_names_in_", None)
    return f"column {index}" if names is None else f"column {names[index]!r}"


def read_table(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Validate a table of anything, shape (n, d); what is missing is NaN."""
    if isinstance(X, pd.DataFrame):
        X = X.astype(object)  # in one array with floats, large integers would be rounded
    elif isinstance(X, list | tuple):
        # An array of its own choice would make text of numbers next to text.
        validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=reset)
        X = np.asarray(X, dtype=object)
    table = validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=reset)
    if table.dtype != object:
        return table
    return np.where(pd.isna(table), np.nan, table)


def read_records(estimator: Any, X: Any, *, reset: bool, **checks: Any) -> Any:
    """Validate a table of numbers, shape (n, d), as doubles whatever type they come in.

    A type is often a function of the records (a whole number among fractions), and must not
    decide on the rounding of every row.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums them to find infinity
        return validate_data(estimator, X, dtype=np.float64, reset=reset, **checks)
