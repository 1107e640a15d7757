"""Open tables of all kinds."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_numeric_dtype, is_object_dtype
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, aligned_chunks, computed, is_frame, is_large
from skleak.utils._records import row_label, row_labels, values_withheld
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array, Data, FloatArray, IntArray
from skleak.utils.sources._stored import (
    Opening,
    Table,
    check_columns,
    lengths_of,
    settled,
)
from skleak.utils.sources._tables import as_floats, only_finite


def index_labels(records: Any) -> Any:
    """Labels of the rows, (n,): of a Dask frame as an array, whose rows one cheap pass counts.

    None where the records have no index of their own.
    """
    if not is_frame(records):
        return row_labels(records)
    frame = settled(records)
    return _labels_of(frame, lengths_of(frame)[0])


def _labels_of(frame: Any, lengths: tuple[int, ...]) -> Any:
    return _array_of(frame.index.to_series(), "the index", lengths, Opening())


def series_array(series: Any, name: str) -> Any:
    """Return a Dask series as an array (n,); one cheap pass counts the rows of its partitions."""
    series = settled(series)
    return _array_of(series, name, lengths_of(series)[0], Opening())


def _array_of(series: Any, name: str, lengths: tuple[int, ...], opening: Opening) -> Any:
    kind = _value_type(series._meta)
    plain = np.float64 if not isinstance(kind, np.dtype) else kind
    meta = pd.Series(np.empty(0, plain if is_numeric_dtype(kind) else object))
    given = series._meta, name, opening
    return series.map_partitions(_plain, *given, meta=meta).to_dask_array(lengths=lengths)


def _shown(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, sizes[:5]))
    return f"{shown}, ..." if len(sizes) > 5 else shown


def _numbers(frame: Any, lengths: tuple[int, ...], opening: Opening) -> Any:
    """Return a frame of numbers as an array, each block of which is checked against the schema."""
    meta = frame._meta
    for name in meta.columns:
        kind = _value_type(meta[name])
        if not (is_numeric_dtype(kind) or _is_unknown(meta[name]) or is_object_dtype(kind)):
            raise ValueError(
                f"Could not convert column {str(name)!r} to numbers: it is of type "
                f"{meta[name].dtype}. Encode it or leave it out."
            )
    wanted = pd.DataFrame({name: np.empty(0) for name in meta.columns}, columns=meta.columns)
    numbers = frame.map_partitions(_as_numbers, meta, opening, meta=wanted)
    return numbers.to_dask_array(lengths=lengths)


def _as_numbers(
    part: pd.DataFrame, meta: pd.DataFrame, opening: Opening, partition_info: Any = None
) -> pd.DataFrame:
    """One partition as float64 columns."""
    # As data frames keep their columns.
    table, sums = np.empty((len(meta.columns), len(part))).T, np.zeros(len(part))
    for j, name in enumerate(meta.columns):
        column = _checked(part[name], meta[name], f"column {str(name)!r}")
        try:
            table[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        except (ValueError, TypeError):
            raise ValueError(
                f"Could not convert column {str(name)!r} to numbers. Encode it or leave it out."
            ) from None
        with np.errstate(all="ignore"):
            sums += table[:, j]
    _expect(opening, part.index, sums, "X", partition_info)
    return pd.DataFrame(table, index=part.index, columns=meta.columns, copy=False)


def _plain(
    part: pd.Series, meta: pd.Series, name: str, opening: Opening, partition_info: Any = None
) -> pd.Series:
    """One partition of labels as objects, and of numbers as NumPy has them."""
    column = _checked(part, meta, name)
    if not is_numeric_dtype(_value_type(meta)):
        values = column.astype(object).to_numpy()
    elif column.isna().any():
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = column.to_numpy()
    _expect(opening, part.index, values, name, partition_info)
    return pd.Series(values, index=part.index)


def _checked(part: pd.Series, meta: pd.Series, name: str) -> pd.Series:
    """Return a column of a partition whose type, and whose categories, are those of the schema.

    Categories come as their values.
    """
    expected, got = meta.dtype, part.dtype
    mixed = (
        f"The types of {name} are mixed between partitions: expected {expected}, got {got}. Give "
        "all partitions one type, for instance with `astype`."
    )
    if isinstance(expected, pd.CategoricalDtype):
        if not isinstance(got, pd.CategoricalDtype):
            raise TypeError(mixed)
        if not _is_unknown(meta) and set(expected.categories) != set(got.categories):
            raise ValueError(
                f"The categories of {name} differ between partitions: expected "
                f"{expected.categories.tolist()[:10]}, got {got.categories.tolist()[:10]}. Call "
                "`.cat.as_known()` or `.cat.set_categories(...)` on the column first."
            )
    elif len(part) and is_numeric_dtype(expected) != is_numeric_dtype(got):
        is_number = is_numeric_dtype(expected) and infer_dtype(part) in _NUMBERS
        if not is_number:
            raise TypeError(mixed)
    return part if not hasattr(got, "categories") else part.astype(got.categories.dtype)


# Numbers of Python, as booleans are beside None.
_NUMBERS = ("boolean", "decimal", "integer", "floating", "mixed-integer-float")


def _is_unknown(column: pd.Series) -> bool:
    """Return True for categories that are known once the partitions are read."""
    known = getattr(column.dtype, "categories", None)
    return known is not None and list(known) == ["__UNKNOWN_CATEGORIES__"]


def _value_type(column: pd.Series) -> Any:
    """Type of the values of a column, of its categories where it has some."""
    kind = column.dtype
    return kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind


def _expect(opening: Opening, index: Any, values: Any, name: str, partition_info: Any) -> None:
    """Refuse a partition that is not as it was, or whose labels another part has in other order."""
    if partition_info is None:
        return
    number = partition_info["number"]
    opening.expect(values, name, number)
    labels = pd.util.hash_pandas_object(index, index=False).to_numpy()
    opening.expect(labels, "index", number, int(labels.sum()))


@dataclass(frozen=True)
class LargeRecords:
    """Records outside memory, as Dask arrays in the same chunks of rows."""

    X: Any  # float64, one chunk of columns, (n, d)
    y: Any  # targets as they are given, (n,); None where there are none
    sample_weight: Any  # float64, (n,); None where there are none
    schema: Any  # a table without rows that has the same columns
    names: list[str] | None  # of the columns, where they have some
    labels: Any = None  # of the rows, where they have an index of their own, (n,)


def is_large_source(X: Any) -> bool:
    """Return True for a Dask array or data frame, a Polars lazy frame, or the path of a table."""
    module = sys.modules.get("polars")
    is_lazy = module is not None and isinstance(X, module.LazyFrame)
    return is_large(X) or is_frame(X) or is_lazy or isinstance(X, str | PathLike)


def open_records(
    X: Any, y: Any = None, sample_weight: Any = None, *, names: Array | None = None
) -> LargeRecords:
    """Open records outside memory; values are loaded, and checked, when they are walked through.

    Parameters
    ----------
    X : Dask array, Dask data frame, Polars lazy frame or path
        Records of shape (n, d); a path is that of a Parquet file, or of a folder of them.
    y, sample_weight : Dask array, Dask series, array-like, str or None, default=None
        Targets and weights of shape (n,); or the columns of a table that hold them.
    names : sequence of str, default=None
        Columns of a table that are wanted, in this order; by default all others.
    """
    special = {"y": y, "sample_weight": sample_weight}
    if is_large(X):
        return _aligned(X, special, np.empty((0, *X.shape[1:])))
    held = {name: value for name, value in special.items() if isinstance(value, str)}
    wanted = None if names is None else list(dict.fromkeys([*names, *held.values()]))
    table = Table.of(X, wanted)
    for name, value in held.items():
        check_columns(table.frame, [value], table.name, f"`{name}` names")
        special[name] = table.frame[value]
    others = [c for c in table.frame.columns if c not in held.values()]
    columns = others if names is None else list(names)
    if not columns:
        raise ValueError("The table has no column besides those of `y` and `sample_weight`.")
    own = {name: _series(value, name) for name, value in special.items() if is_frame(value)}
    alone = {name: settled(series) for name, series in own.items() if name not in held}
    counted = [table.frame] * (table.sizes is None) + list(alone.values())
    sizes = lengths_of(*counted) if counted else []
    lengths = sizes.pop(0) if table.sizes is None else table.sizes
    for name, found in zip(alone, sizes, strict=True):
        if found != lengths:
            raise ValueError(
                f"X and {name} are not aligned: the partitions of X have {_shown(lengths)} "
                f"rows, and those of {name} {_shown(found)}. Take both from one frame."
            )
    opening = Opening()
    for name, series in (own | alone).items():
        values = _array_of(series, name, lengths, opening)
        special[name] = _named(values, table.token, held[name]) if name in held else values
    labels = _labels_of(table.frame, lengths) if table.sizes is None else None
    records = _numbers(table.frame[columns], lengths, opening)
    records = _named(records, table.token, columns)
    schema = pd.DataFrame(np.empty((0, len(columns))), columns=columns)
    return _aligned(records, special, schema, labels)


def _named(values: Any, *source: Any) -> Any:
    """Name an array by its columns of a table, whatever else is read with them."""
    name = f"read-{dask_module('dask.base').tokenize(*source)}"
    given = {"name": name, "dtype": values.dtype, "meta": values._meta}
    return dask_module("dask.array").map_blocks(np.asarray, values, **given)


def _series(values: Any, parameter: str) -> Any:
    """Return a Dask frame of one column as a series."""
    if values.ndim == 2 and len(values.columns) != 1:
        raise ValueError(
            f"`{parameter}` must be one-dimensional; got the columns "
            f"{[str(c) for c in values.columns[:10]]}."
        )
    return values[values.columns[0]] if values.ndim == 2 else values


def _own_array(values: Any, X: Any, parameter: str) -> Any:
    """Targets or weights as a Dask array, (n,)."""
    if isinstance(values, str):
        raise ValueError(
            f"`{parameter}={values!r}` names a column, but X is an array, whose columns have no "
            "names. Pass the values as a Dask array in the chunks of X."
        )
    if is_frame(values):
        raise TypeError(
            f"X is a Dask array and `{parameter}` a Dask series: pass both as arrays, as "
            "`to_dask_array(lengths=True)` makes them, or both as frames."
        )
    if is_large(values):
        check_known(values, parameter)
    else:
        values = np.array(values)  # a copy: later edits must not reach it
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != X.shape[:1]:
        raise ValueError(
            f"X and `{parameter}` are not aligned: expected {X.shape[0]} values, one for each "
            f"record; got shape {values.shape}. Pass both of the same records, in the same order."
        )
    return values


def _aligned(X: Any, special: dict[str, Any], schema: Any, labels: Any = None) -> LargeRecords:
    """Check sizes, which are known without a look at the values; cut all into the same chunks."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X must be a table of shape "
            "(n_samples, n_features)."
        )
    if not X.shape[1]:
        raise ValueError("Found array with 0 feature(s) while a minimum of 1 is required.")
    check_known(X, "X")
    given = {name: _own_array(v, X, name) for name, v in special.items() if v is not None}
    X, *rest = aligned_chunks(X, list(given.values()))
    own = dict(zip(given, rest, strict=True))
    if "sample_weight" in own:
        own["sample_weight"] = as_floats(own["sample_weight"], "sample_weight")
    columns = getattr(schema, "columns", None)
    names = None if columns is None else [str(column) for column in columns]
    X = as_floats(X, "X", names)
    return LargeRecords(X, own.get("y"), own.get("sample_weight"), schema, names, labels)


def check_known(values: Any, name: str) -> None:
    """Refuse a Dask array whose chunks are of unknown sizes."""
    if np.isnan(values.shape).any():
        raise ValueError(
            f"{name} has chunks of unknown sizes, so that records have no positions. Call "
            f"`{name}.compute_chunk_sizes()` first, which loads it once."
        )


@dataclass(frozen=True)
class RawRows:
    """Raw records in memory, with their targets and weights."""

    table: Any  # DataFrame, or array where the columns have no names, (n, n_columns)
    y: Array  # (n,)
    sample_weight: FloatArray | None  # (n,)

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any) -> "RawRows":
        """Take a block apart, whose targets and weights may be columns of it."""
        held = [name for name in (y, sample_weight) if isinstance(name, str)]
        y, weight = (X[v] if isinstance(v, str) else v for v in (y, sample_weight))
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64).ravel()
        return cls(X.drop(columns=held) if held else X, np.asarray(y).ravel(), weight)

    def take(self, rows: IntArray) -> "RawRows":
        """Return some of them."""
        table = self.table.iloc[rows] if isinstance(self.table, pd.DataFrame) else self.table[rows]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return RawRows(table, self.y[rows], weight)

    @staticmethod
    def joined(parts: Sequence["RawRows"]) -> "RawRows":
        """Return the records of all parts, one after the other."""
        tables = [part.table for part in parts]
        frames = isinstance(tables[0], pd.DataFrame)
        table = pd.concat(tables) if frames else np.concatenate(tables)
        weights = [part.sample_weight for part in parts if part.sample_weight is not None]
        y = np.concatenate([part.y for part in parts])
        return RawRows(table, y, np.concatenate(weights) if weights else None)


@dataclass(frozen=True)
class RawRecords:
    """Raw records outside memory, as blocks in order."""

    blocks: tuple[Any, ...]  # delayed `RawRows`, which hold no record
    starts: IntArray  # position of the first record of each, and the number of all

    def __len__(self) -> int:
        return int(self.starts[-1])

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any) -> "RawRecords":
        """Find the blocks of a table; `y` and the weights may be columns of it."""
        given = [y, sample_weight]
        for name, value in {"X": X, "y": y, "sample_weight": sample_weight}.items():
            if is_large(value):
                check_known(value, name)
        if is_large(X):
            (X,) = aligned_chunks(X, [])
            held, sizes = X.to_delayed().ravel().tolist(), X.chunks[0]
        else:
            table = Table.of(X)
            names = [value for value in given if isinstance(value, str)]
            check_columns(table.frame, names, table.name, "`y` or the weights name")
            held, sizes = table.frame.to_delayed(), table.lengths
        aligned = [_cut(value, sizes) for value in given]
        rows = dask_module("dask").delayed(RawRows.of)
        blocks = tuple(rows(*parts) for parts in zip(held, *aligned, strict=True))
        return cls(blocks, np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp))

    def each(self, f: Callable[[RawRows], Any]) -> list[Any]:
        """Return what a function finds in each block: one pass."""
        return list(computed(map(dask_module("dask").delayed(f), self.blocks)))

    def at(self, positions: IntArray) -> RawRows:
        """Read the records at some positions, in that order, (m,); only these rows come here."""
        order = np.argsort(positions, kind="stable")
        edges, take = np.searchsorted(positions[order], self.starts), RawRows.take
        some = [
            dask_module("dask").delayed(take)(block, positions[order[low:high]] - start)
            for block, start, low, high in zip(
                self.blocks, self.starts[:-1], edges[:-1], edges[1:], strict=True
            )
            if high > low
        ]
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        return RawRows.joined(computed(some)).take(back)


def _cut(values: Any, sizes: tuple[int, ...]) -> list[Any]:
    """Targets or weights of each block; a name and None are those of all."""
    if values is None or isinstance(values, str):
        return [values] * len(sizes)
    if hasattr(values, "to_delayed"):
        values = values.rechunk((sizes,)) if is_large(values) else settled(values)
        parts: list[Any] = np.ravel(values.to_delayed()).tolist()
        if len(parts) != len(sizes):
            raise ValueError(
                f"Targets or weights have {len(parts)} partitions, and the table {len(sizes)}. "
                "Take them from one frame, or pass the names of its columns."
            )
        return parts
    return np.split(np.asarray(values), np.cumsum(sizes)[:-1])


def codes_of(y: Any, classes: Array) -> Any:
    """Code of each label of a Dask array: 0 and 1 of two classes, else its number; (n,)."""
    array = dask_module("dask.array")
    return array.map_blocks(block_codes, y, classes, dtype=np.float64, meta=np.empty(0))


def block_codes(y: Array, classes: Array) -> FloatArray:
    """Code of each label of a block, (n,); ValueError where one is not among the classes."""
    y = np.asarray(y)
    if len(y) and not is_text(classes) and y.dtype.kind in "OUT" and is_text(y):
        known = np.zeros(len(y), dtype=bool)
    else:
        # As text of any length: cut to that of the classes, another label could be one of them.
        y = np.asarray(y, dtype=str) if is_text(classes) else y
        known = np.isin(y, classes)
    if not np.all(known):
        raise ValueError(
            f"`y` holds labels the model was not fitted on, of {np.sum(~known)} records of one "
            "block. Expected labels among `classes_`."
        )
    if len(classes) == 2:
        return (y == classes[1]).astype(np.float64)
    return np.searchsorted(classes, y).astype(np.float64)


def expect_labels(y: Array) -> None:
    """Refuse what is no label before it is counted: numbers that are not whole, and mixed types."""
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            "Unknown label type: continuous. The target holds numbers that are not whole; pass "
            "classes as integers or text, or fit a regression."
        )
    kind = infer_dtype(y) if y.dtype.kind == "O" else "integer"
    if kind.startswith("mixed") and any(isinstance(label, str) for label in y.tolist()):
        raise TypeError(
            "The types of the target are mixed: some labels are text and others are not. Give "
            "all of them one type."
        )
    if kind == "decimal" or kind not in ("string", "empty", *_NUMBERS):
        raise ValueError(
            f"Unknown label type: {kind}. Pass classes as integers or text, or fit a regression."
        )


def label_array(labels: list[Any], dtype: np.dtype[Any]) -> Array:
    """Return labels as an array, of the declared type of their target where that can hold them."""
    found = np.array(labels)
    if dtype.kind == "O" and not is_text(found):
        return found
    declared = np.array(labels, dtype=dtype) if is_text(found) else found.astype(dtype)
    return declared if np.array_equal(declared, found) else found


def is_text(labels: Array) -> bool:
    """Return True for strings of any type that NumPy or pandas keeps them in."""
    return labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.tolist())


F = TypeVar("F", bound=Callable[..., Any])


def opened(model: Any, X: Any, y: Any = None) -> LargeRecords:
    """Open records outside memory in the columns of a fitted model."""
    table = open_records(X, y, names=getattr(model, "feature_names_in_", None))
    validate_data(model, table.schema, reset=False, skip_check_array=True)
    return table


def refuse_path(X: Any, method: str) -> None:
    """Raise for a path, which only `fit` opens.

    Whoever may ask a model that is served must not choose a file that its machine reads.
    """
    if isinstance(X, str | PathLike):
        raise TypeError(
            f"{method} opens no file, since a model that is served would open those of its machine "
            "for whoever asks; got a path. Pass polars.scan_parquet(path), or a Dask frame."
        )


def lazily(method: F) -> F:
    """Wrap a method that answers about records to answer lazily where these lie outside memory.

    What travels to where the records are is a released model, of which nothing is confidential.
    A path is refused.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any) -> Any:
        kind = getattr(self, "_released", type(self))
        refuse_path(X, method.__name__)
        if not is_large_source(X) or "coef_" not in getattr(kind, "_published", ()):
            return method(self, X)
        check_is_fitted(self)
        table = opened(self, X)
        records = only_finite(table.X, "X", table.names)
        blocks = Blocks.of(records, width=0, keep_sparse=True)
        return blocks.map(_answered, _twin(self, kind), method.__name__)

    return wrapped  # type: ignore[return-value]


def _twin(model: Any, kind: Any) -> Any:
    """Return a released model that answers as this one does about columns by their position."""
    twin = kind.__new__(kind)
    for name in kind._published:
        if hasattr(model, name) and name != "feature_names_in_":
            setattr(twin, name, getattr(model, name))
    return twin


def _answered(X: Data, model: Any, name: str) -> Array:
    """Answer about a block; scikit-learn refuses one of no records."""
    answer: Array = getattr(model, name)(X if X.shape[0] else np.zeros((1, X.shape[1])))
    return answer[: X.shape[0]]


def find_classes(
    y: Array,
    declared: Any,
    records: Any,
    estimator: str,
    counts: dict[Any, tuple[int, str]] | None = None,
    *,
    name: str = "`classes`",
) -> Array:
    """Return the classes of targets in ascending order, (n_classes,).

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets; or distinct labels, of which ``counts`` says how many records have them.
    declared : array-like of shape (n_classes,) or None
        Classes that are public knowledge; None reads them off the labels.
    records : object
        Of which rows are named.
    estimator : str
        Its name, for messages.
    counts : dict, default=None
        Number of records of each label, and the name of one of them.
    name : str, default="`classes`"
        How ``declared`` is called in messages.

    Raises
    ------
    ValueError
        For targets that are no classes, a single class, and labels that were not declared.
    """
    with values_withheld(records, y):
        several = y if counts is None else np.repeat(y, 3)  # distinct labels look continuous
        check_classification_targets(several)
    found: Array = np.unique(y)
    if declared is not None:
        classes = _declared(declared, found, name)
        _check_among(y, classes, records, counts, name)
        return classes
    if len(found) < 2:
        raise ValueError(
            f"{estimator} needs two classes; the target holds only one class. Pass records of both "
            "classes."
        )
    return found


def check_known_labels(y: Array, classes: Array, records: Any) -> None:
    """Refuse labels other than the classes of a fitted model."""
    unknown = np.flatnonzero(~pd.Series(y).isin(classes.tolist()).to_numpy())
    if len(unknown):
        raise ValueError(
            f"`y` holds labels the model was not fitted on, of {len(unknown)} records; the "
            f"first is that of {row_label(records, int(unknown[0]))}. Expected labels among "
            "`classes_`."
        )


def _declared(classes: Any, found: Array, name: str) -> Array:
    """Sort the classes that were declared public, of the same type as the labels found."""
    declared = column_or_1d(np.asarray(classes))
    distinct: Array = np.unique(declared)
    if len(distinct) < 2 or len(distinct) < len(declared):
        raise ValueError(
            f"{name} must list at least two different labels; got {declared.tolist()!r}."
        )
    if is_text(distinct) != is_text(found):
        raise ValueError(
            f"{name} holds {distinct.dtype} and the target {found.dtype}: pass labels of the "
            "same type."
        )
    return distinct


def _check_among(
    y: Array, classes: Array, records: Any, counts: dict[Any, tuple[int, str]] | None, name: str
) -> None:
    unknown = np.flatnonzero(~np.isin(y, classes))
    if not len(unknown):
        return
    n = len(unknown)
    if counts is None:
        first = f"; the first is that of {row_label(records, int(unknown[0]))}"
    else:
        of = [counts[label] for label in y[unknown].tolist()]
        n, first = sum(count for count, _ in of), f"; one is that of {of[0][1]}"
    raise ValueError(
        f"The labels of {n} records are not among {name}{first}. Expected {classes.tolist()!r}."
    )
