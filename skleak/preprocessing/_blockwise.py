"""Transform records outside memory."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from skleak.utils._arguments import values_by_name
from skleak.utils._blocks import is_large, is_large_source
from skleak.utils._predictions import select_columns
from skleak.utils._records import withholding
from skleak.utils._sklearn_compat import (
    clone_parametrized,
    copy_attributes,
    fit_context,
    output_container,
    validate_data,
)
from skleak.utils._typing import Array
from skleak.utils.sources import Table, check_columns, head_of, refuse_path


def takes_large(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let `fit` or `transform` of a transformer take tables outside memory."""

    @wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if method.__name__ != "fit":
            check_is_fitted(self)
        if method.__name__ == "inverse_transform" or not is_large_source(X):
            return method(self, X, *args, **kwargs)
        if method.__name__ == "transform":
            refuse_path(X, "transform")
            return transform_large(self, X)
        if self._needs_memory:
            raise ValueError(
                f"{type(self).__name__} reads all records, in memory; got X of type "
                f"{type(X).__name__}. Load the table."
            )
        y = args[0] if args else kwargs.get("y")
        fitted = method(self, first_rows(X, [*self.keep, *named(y)]), None)
        if not is_large(X) and output_container(self) is None:
            # Columns of tables outside memory keep their names, and so do others from then on.
            self.set_output(transform="pandas")
        return fitted

    return wrapped


def transform_large(transformer: Any, X: Any, keep: Sequence[str] = ()) -> Any:
    """Transform a table outside memory, lazily; columns to keep follow as they are."""
    transformer = copy.deepcopy(transformer)  # what is changed later does not change these rows
    if is_large(X):
        return _transformed_array(transformer, X)
    frame = Table.of(X).frame
    rows = head_of(X, 2)
    meta = _transformed(rows, transformer, tuple(keep)).iloc[:0]
    return frame.map_partitions(_transformed, transformer, tuple(keep), meta=meta)


def _transformed_array(transformer: Any, X: Any) -> Any:
    X = X.rechunk({1: -1})
    own = dense_of(transformer.transform(X[:2].compute()))
    chunks = (X.chunks[0], (own.shape[1],))
    return X.map_blocks(
        _transformed_block, transformer, own.shape[1], chunks=chunks, dtype=own.dtype, meta=own[:0]
    )


def _transformed_block(block: Any, transformer: Any, width: int) -> Array:
    return dense_of(transformer.transform(block)) if len(block) else np.empty((0, width))


def _transformed(part: pd.DataFrame, transformer: Any, keep: tuple[str, ...]) -> pd.DataFrame:
    """Encode the rows of a partition, and append columns to keep."""
    if not len(part):
        # Few transformers take no rows.
        width = len(transformer.get_feature_names_out())
        encoded: Any = np.empty((0, width))
    else:
        encoded = transformer.transform(select_columns(transformer, part.drop(columns=list(keep))))
    names = [str(name) for name in transformer.get_feature_names_out()]
    clashing = [name for name in names if name in keep]
    if clashing:
        raise ValueError(
            f"The transformer makes columns of the names {clashing}, which columns that are handed "
            "on have, too. Rename the columns of the target or the weights."
        )
    found = pd.DataFrame(dense_of(encoded), columns=names, index=part.index)
    return found.assign(**{name: part[name] for name in keep})


def first_rows(X: Any, without: Sequence[str]) -> Any:
    """Return a few rows in memory, without some columns."""
    if is_large(X):
        return X[:64].compute()
    rows = head_of(X)
    check_columns(rows, without, what="`y` names")
    return rows.drop(columns=list(without))


def named(y: Any) -> list[str]:
    """Return the name of the target's column, in a list; none where the target comes on its own."""
    return [y] if isinstance(y, str) else []


def dense_of(encoded: Any) -> Array:
    """Return the encoded rows as an array."""
    if sparse.issparse(encoded):
        return np.asarray(encoded.toarray())
    return encoded.to_numpy() if hasattr(encoded, "to_numpy") else np.asarray(encoded)


class TableTransformer(  # type: ignore[call-arg]
    TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """A transformer of tables in memory and outside."""

    keep: Sequence[str] = ()  # columns that `fit_transform` of a table outside memory hands on
    _needs_memory: ClassVar[bool] = False  # to be fitted
    # What scikit-learn is told of the tables that it takes, beside its defaults.
    _input_tags: ClassVar[dict[str, bool]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `fit` and `transform` take tables outside memory, around what scikit-learn adds."""
        super().__init_subclass__(**kwargs)
        for name in {"fit", "transform", "inverse_transform"} & cls.__dict__.keys():
            method = withholding(cls.__dict__[name])
            if name == "fit":
                method = fit_context(prefer_skip_nested_validation=True)(method)
            setattr(cls, name, takes_large(method))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn which tables are taken."""
        tags = super().__sklearn_tags__()
        for name, value in self._input_tags.items():
            setattr(tags.input_tags, name, value)
        return tags

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and transform; of a table outside memory, hand on the columns of the target.

        Parameters
        ----------
        X : path, Polars lazy frame, Dask data frame or array, DataFrame or array-like
            Records of shape (n_samples, n_features).
        y : str or object, default=None
            The column of the target, where it is in the table; else ignored.
        **fit_params : dict
            None are taken.

        Returns
        -------
        Dask data frame, Dask array, or what the transformer returns
            Of shape (n_samples, n_encoded), and the columns that are handed on.
        """
        fitted = self.fit(X, y, **fit_params)
        if is_large_source(X):
            return transform_large(self, X, () if is_large(X) else [*self.keep, *named(y)])
        return fitted.transform(X)


class PublicTransformer(TableTransformer):
    """A transformer that is made from its parameters and the names of the columns alone."""

    n_features_in_: int

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
        return values_by_name(parameter, value, getattr(estimator, "feature_names_in_", None))
    if shared:
        return [value] * n_features
    if len(value) != n_features:
        raise ValueError(
            f"`{parameter}` must hold one entry for each of the {n_features} columns of X; got "
            f"{len(value)}. Give them in the order of the columns, or as a mapping from names."
        )
    return list(value)


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
    decide on the rounding of every row. Nor must the kind of what is missing.
    """
    if isinstance(X, pd.DataFrame) and "O" in {dtype.kind for dtype in X.dtypes}:
        table = np.where(X.isna(), np.nan, X.to_numpy(object))
        X = pd.DataFrame(table, index=X.index, columns=X.columns)
    with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums them to find infinity
        return validate_data(estimator, X, dtype=np.float64, reset=reset, **checks)


# Relative to the largest entry, rows that differ by less are encoded alike.
_ROUNDING = 1e-8


class BlockwiseTransformer(TableTransformer):
    """Apply a transformer to tables outside memory, block by block.

    For the steps of a pipeline before a private model. The transformer is fitted already, on public
    data or on a sample, or it learns nothing from records: a transformer of
    `skleak.preprocessing`, one of scikit-learn without state, or a ColumnTransformer, Pipeline or
    FeatureUnion of such. It has to transform each row by itself.

    Parameters
    ----------
    transformer : estimator
        Fitted, or one that learns nothing. A fitted one is used as it is: `fit` does not touch it,
        and neither does `sklearn.base.clone`.
    keep : sequence of str, default=()
        Columns that `fit_transform` hands on as they are, beside those of the transformer: of
        sample weights, for instance. The column of the target is handed on whenever `y` names it.

    Attributes
    ----------
    transformer_ : estimator
        The fitted transformer.
    n_features_in_ : int
        Number of columns it takes.
    feature_names_in_ : ndarray of str
        Their names.

    See Also
    --------
    PublicScaler, PublicOneHotEncoder : Transformers that take tables outside memory themselves.

    Notes
    -----
    Parquet files, Polars lazy frames and Dask data frames become Dask data frames, Dask arrays
    become Dask arrays; nothing is loaded but a few rows, for the names and types of the columns.
    Columns go by name: those the transformer was fitted with are taken, in their order.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> from skleak.preprocessing import BlockwiseTransformer
    >>> public = pd.DataFrame({"age": [20.0, 50.0, 80.0], "ward": ["A", "B", "A"]})
    >>> encoder = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"]))
    >>> blockwise = BlockwiseTransformer(encoder.fit(public))
    >>> blockwise.fit_transform(public).shape
    (3, 3)
    >>> pipeline = make_pipeline(blockwise, PrivateLinearRegression())
    >>> # pipeline.fit("rows.parquet", y="dose")
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "transformer": [BaseEstimator],
        "keep": ["array-like"],
    }

    transformer_: Any
    feature_names_in_: Array

    def __init__(self, transformer: Any, *, keep: Sequence[str] = ()) -> None:
        self.transformer = transformer
        self.keep = keep

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the names of the columns from a few rows.

        Parameters
        ----------
        X : path, Polars lazy frame, Dask data frame or array, DataFrame or array-like
            Records of shape (n_samples, n_features).
        y : str or object, default=None
            The column of the target, where it is in the table; else ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a transformer that is not fitted and learns from records, one that mixes rows, and
            columns that the table lacks.
        """
        if _is_fitted(self.transformer):
            self.transformer_ = self.transformer
        else:
            _check_learns_nothing(self.transformer)
            self.transformer_ = clone(self.transformer).fit(X)
        copy_attributes(self.transformer_, self, ("n_features_in_", "feature_names_in_"))
        _check_by_rows(self.transformer_, select_columns(self.transformer_, X))
        return self

    def transform(self, X: Any) -> Any:
        """Transform each row; lazily where the table is outside memory.

        Parameters
        ----------
        X : Polars lazy frame, Dask data frame or array, DataFrame or array-like
            Records of shape (n_samples, n_features). Only `fit` opens paths.

        Returns
        -------
        Dask data frame, Dask array, or what the transformer returns
            Of shape (n_samples, n_encoded).

        Raises
        ------
        TypeError
            For a path.
        """
        encoded = self.transformer_.transform(select_columns(self.transformer_, X))
        named_output = output_container(self) not in (None, "default")
        return dense_of(encoded) if named_output and sparse.issparse(encoded) else encoded

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Name the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; by default those of the table.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_clone__(self) -> Self:
        """Keep what is fitted already."""
        if not _is_fitted(self.transformer):
            return clone_parametrized(self)
        made = type(self)(self.transformer, keep=self.keep)
        return made.set_output(transform=output_container(self))

    def __sklearn_is_fitted__(self) -> bool:
        """Return True after `fit`, and where the transformer came fitted."""
        if not hasattr(self, "transformer_") and _is_fitted(self.transformer):
            self.transformer_ = self.transformer
        return hasattr(self, "transformer_")


def _is_fitted(transformer: Any) -> bool:
    if not get_tags(transformer).requires_fit:
        return hasattr(transformer, "n_features_in_")
    try:
        check_is_fitted(transformer)
    except (NotFittedError, TypeError):
        return False
    return True


def _check_learns_nothing(transformer: Any) -> None:
    learning = [
        type(one).__name__
        for one in _leaves(transformer)
        if get_tags(one).requires_fit and not isinstance(one, PublicTransformer)
    ]
    if learning:
        raise ValueError(
            f"The transformer is not fitted, and {learning} would learn from the records: that "
            "takes all of them, and is not covered by a guarantee. Fit it on public data or a "
            "sample, and pass it fitted; or use the transformers of `skleak.preprocessing`."
        )


def _leaves(transformer: Any) -> list[Any]:
    """Return the transformers that are not made of others."""
    if isinstance(transformer, str) or transformer is None:  # "drop", "passthrough"
        return []
    for name in ("transformers", "transformer_list", "steps"):
        parts = getattr(transformer, name, None)
        if parts is not None:
            rest = getattr(transformer, "remainder", None)
            return [leaf for part in (*(p[1] for p in parts), rest) for leaf in _leaves(part)]
    return [transformer]


def _check_by_rows(transformer: Any, rows: Any) -> None:
    """Refuse a transformer whose output for a row depends on the rows beside it."""
    n = len(rows)
    if n < 2:
        return
    take = rows.iloc if isinstance(rows, pd.DataFrame) else np.asarray(rows)
    whole = dense_of(transformer.transform(rows))
    halves = [dense_of(transformer.transform(take[some])) for some in (slice(1), slice(1, n))]
    apart = np.vstack(halves)
    if whole.dtype.kind != "f" or apart.shape != whole.shape:
        same = apart.shape == whole.shape and bool(np.all(apart == whole))
    else:
        size = np.nanmax(np.abs(whole), axis=0, initial=0.0)
        same = np.allclose(apart, whole, rtol=0.0, atol=_ROUNDING * size.max(), equal_nan=True)
    if not same:
        raise ValueError(
            f"{type(transformer).__name__} transforms a row otherwise beside other rows: block by "
            "block it would depend on how the table is cut. Pass one that takes each row by itself."
        )
