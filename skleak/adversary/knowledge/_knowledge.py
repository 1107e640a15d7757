"""What the adversary knows: the attribute, its candidate values, all other records."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import check_consistent_length, column_or_1d

from skleak.utils._features import TARGET, is_single_feature, is_target, resolve_features
from skleak.utils._records import check_table
from skleak.utils._typing import Array, FloatArray, IntArray

# More distinct values than this are not categories: almost every guess would be a bare guess.
MAX_VALUES = 64
# More whole numbers than this are a quantity, such as an age, and no codes of categories.
MAX_CODES = 10
# Position of the target where it is the secret.
TARGET_INDEX = -1
_SQUARE_ROOT_OF_ROUND_OFF = 1e-8


@dataclass(frozen=True)
class Secret:
    """The sensitive column and what an adversary considers possible. Confidential.

    Parameters
    ----------
    index : int
        Position of the column in the raw data; -1 for the target.
    column : ndarray of shape (n,)
        True value of every record.
    values : ndarray of shape (n_values,) or None
        Candidate values in ascending order; None for a numeric attribute.
    codes : ndarray of int of shape (n,)
        Position of every record's value among the candidates; empty for a numeric attribute.
    """

    index: int
    column: Array
    values: Array | None
    codes: IntArray

    @property
    def numeric(self) -> bool:
        """True if the attribute is a quantity rather than one of a few values."""
        return self.values is None

    @property
    def is_target(self) -> bool:
        """True if the target is the secret."""
        return self.index == TARGET_INDEX


def as_table(X: Any) -> Any:
    """Return raw data as a DataFrame or a two-dimensional array, never a copy of the former.

    Shapes: ``X`` (n, n_columns); returns (n, n_columns).
    """
    if sparse.issparse(X):
        raise TypeError(
            "`X` must be a dense array or a DataFrame of raw records; got a sparse matrix. Pass "
            "`X.toarray()`, or put the sparse encoding into the pipeline."
        )
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    table = X if isinstance(X, pd.DataFrame) else np.asarray(X)
    if table.ndim != 2:
        raise ValueError(
            f"`X` must have two dimensions, records by columns; got shape {table.shape}. Reshape "
            "a single column with `X.reshape(-1, 1)`."
        )
    if table.shape[0] < 2 or table.shape[1] == 0:
        raise ValueError(
            f"`X` must hold at least 2 records and 1 column; got shape {table.shape}. An adversary "
            "who knows all other records needs other records."
        )
    check_table(table)
    return table


def as_column(y: Any, table: Any) -> Array:
    """Return targets as one column, one for each record of a table."""
    y = column_or_1d(y)
    check_consistent_length(table, y)
    return y


def column_names(table: Any) -> Array | None:
    """Names of the columns, or None where the data have none (or not only strings)."""
    if isinstance(table, pd.DataFrame) and all(isinstance(name, str) for name in table.columns):
        return np.asarray(table.columns, dtype=object)
    return None


def remember_columns(fitted: Any, table: Any) -> None:
    """Set what an estimator keeps of the columns of raw records, and forget an earlier fit."""
    for name in ("n_features_in_", "feature_names_in_"):
        fitted.__dict__.pop(name, None)
    if len(table.shape) == 2:
        fitted.n_features_in_ = table.shape[1]
    names = column_names(table)
    if names is not None:
        fitted.feature_names_in_ = names


def take_rows(table: Any, rows: IntArray) -> Any:
    """Return some rows of a DataFrame, an array or a sparse matrix, by position."""
    return table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]


def raw_column(table: Any, index: int) -> Array:
    """One column as an array, of objects for strings and categories of strings."""
    return np.asarray(table.iloc[:, index] if isinstance(table, pd.DataFrame) else table[:, index])


def with_attribute(table: Any, index: int, values: Any) -> Any:
    """Return the records with one column replaced; the input is not changed.

    Shapes: ``table`` (n, n_columns); ``values`` (n,); returns (n, n_columns): A column of pandas
    categories stays one; an integer column becomes one of floats where the new values are not
    whole.
    """
    column = np.broadcast_to(np.asarray(values), table.shape[:1])
    if not isinstance(table, pd.DataFrame):
        changed = table.astype(np.result_type(table.dtype, column.dtype), copy=True)
        changed[:, index] = column
        return changed
    old = table.dtypes.iloc[index]
    new: Any = pd.Series(column, index=table.index)
    whole = column.dtype.kind != "f" or not pd.api.types.is_numeric_dtype(old)
    if whole or isinstance(old, pd.CategoricalDtype):
        new = new.astype(old)
    changed = table.copy(deep=False)
    changed.isetitem(index, new)
    return changed


def without_attribute(table: Any, index: int) -> Any:
    """Return the records without one column."""
    others = np.delete(np.arange(table.shape[1]), index)
    return table.iloc[:, others] if isinstance(table, pd.DataFrame) else table[:, others]


def resolve_records(records: Any, n: int) -> IntArray:
    """Positions of the records under attack.

    Returns (n_targets,).
    """
    if records is None:
        return np.arange(n)
    if isinstance(records, slice):
        rows = np.arange(n)[records]
    else:
        array = np.atleast_1d(np.asarray(records))
        if array.dtype == bool:
            if array.shape != (n,):
                raise ValueError(
                    f"`records` as a mask must have one entry for each of the {n} records; got "
                    f"shape {array.shape}."
                )
            rows = np.flatnonzero(array)
        elif array.size and array.dtype.kind not in "ui":
            raise TypeError(
                "`records` must be None, a slice, a boolean mask or positions of records; got "
                f"dtype {array.dtype}."
            )
        else:
            rows = array.astype(np.intp).ravel()
    if not len(rows):
        raise ValueError("`records` selects no record. Pass None to attack all of them.")
    if rows.min() < -n or rows.max() >= n:
        raise ValueError(
            f"`records` must lie in {-n}, ..., {n - 1}, the positions of {n} records; got "
            f"{rows[(rows < -n) | (rows >= n)][0]}."
        )
    return rows % n


def find_secret(table: Any, attribute: Any, values: Any = None) -> Secret:
    """Read the sensitive column and decide which values an adversary considers.

    Shapes: ``table`` (n, n_columns); ``values`` (n_values,).
    """
    if not is_single_feature(attribute):
        raise TypeError(
            "`attribute` must be the name or the position of one column of the raw data; got "
            f"{attribute!r}. Attack the column before it is encoded, through a pipeline."
        )
    index = int(resolve_features(attribute, column_names(table), table.shape[1], "attribute")[0])
    column = raw_column(table, index)
    missing = int(np.sum(pd.isna(column)))
    if missing:
        raise ValueError(
            f"The attribute {attribute!r} has {missing} missing values of {len(column)}. Drop "
            "those records, impute numbers, or give missing text a name of its own, such as "
            "'unknown'."
        )
    return secret_of(column, index, attribute, values)


def read_secret(table: Any, y: Any, attribute: Any, values: Any = None) -> tuple[Secret, Any, Any]:
    """Read the secret of all records, which may be the target, and what else is known of them.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); ``values`` (n_values,); returns the secret, the
    other columns, and the targets; None in their place where they are the secret.
    """
    if is_target(attribute, column_names(table)):
        return secret_of(y, TARGET_INDEX, TARGET, values), table, None
    secret = find_secret(table, attribute, values)
    return secret, without_attribute(table, secret.index), y


def secret_of(column: Array, index: int, attribute: Any, values: Any) -> Secret:
    """Candidate values of a column without missing values; see `find_secret`."""
    distinct = _ascending(column, attribute)
    if values is None:
        if len(distinct) < 2:
            raise ValueError(
                f"The attribute {attribute!r} has a single value: there is "
                "nothing to infer. Pass the values it may take in `values`."
            )
        if is_quantity(distinct, len(column)):
            return Secret(index, column.astype(np.float64), None, np.zeros(0, dtype=np.intp))
        if len(distinct) > MAX_VALUES:
            raise ValueError(
                f"The attribute {attribute!r} has too many values: expected at most {MAX_VALUES} "
                f"categories, got {len(distinct)}. Group rare ones, or convert numbers stored as "
                "text to a numeric column."
            )
        candidates = distinct
    else:
        candidates = _ascending(np.asarray(values).ravel(), attribute)
        if len(candidates) < 2:
            raise ValueError(
                f"`values` must hold at least 2 distinct values; got {candidates.tolist()}."
            )
    codes = pd.Index(candidates).get_indexer(pd.Index(column))
    if np.any(codes < 0):
        raise ValueError(
            f"`values` does not contain {int(np.sum(codes < 0))} records' values of {attribute!r}, "
            f"the first of them in row {int(np.argmax(codes < 0))} (by position). Add it, or drop "
            "those records."
        )
    return Secret(index, column, candidates, codes)


def _ascending(column: Array, attribute: Any) -> Array:
    try:
        return np.unique(column)
    except TypeError as error:
        raise TypeError(
            f"The attribute {attribute!r} mixes types that cannot be ordered ({error}). Convert "
            "the column to strings with `astype(str)`."
        ) from error


def is_quantity(distinct: Array, n: int) -> bool:
    """Tell a quantity from codes, by the distinct values of a column of n records."""
    if distinct.dtype.kind == "O" and all(isinstance(v, int | float) for v in distinct):
        distinct = distinct.astype(np.float64)
    if distinct.dtype.kind not in "iuf":
        return False
    if len(distinct) > MAX_VALUES:
        return True
    if np.all(np.mod(distinct, 1) == 0):
        return len(distinct) > MAX_CODES
    return len(distinct) > np.sqrt(n)


def range_of_others(column: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Range of a quantity among the *other* records, wider by half its width on both sides.

    The largest value would be told by a range that it sets itself.
    """
    order = np.argsort(column, kind="stable")
    low, high = np.full(len(column), column[order[0]]), np.full(len(column), column[order[-1]])
    low[order[0]], high[order[-1]] = column[order[1]], column[order[-2]]
    return widened(low, high)


def ranges_of_others(X: Any, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Range of every column among the records other than each of some, widened likewise.

    Shapes: ``X`` (n, d); ``rows`` (n_targets,); returns ``low``, ``high`` (n_targets, d).
    """
    low, high = np.empty((2, len(rows), X.shape[1]))
    by_column = X.tocsc() if sparse.issparse(X) else X
    for j in range(X.shape[1]):
        column = by_column[:, [j]]
        column = column.toarray() if sparse.issparse(column) else column
        ends = range_of_others(np.asarray(column, dtype=np.float64).ravel())
        low[:, j], high[:, j] = ends[0][rows], ends[1][rows]
    return low, high


def widened(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a range, wider by half its width on both sides, and never empty."""
    width = np.maximum(high - low, _SQUARE_ROOT_OF_ROUND_OFF * (1.0 + np.abs(high)))
    return low - 0.5 * width, high + 0.5 * width
