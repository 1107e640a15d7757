"""Records outside memory of every kind, as Dask arrays that are aligned."""

import sys
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from skleak.utils._optional import dask_module
from skleak.utils._typing import Array
from skleak.utils.blocks._dask import aligned_chunks, is_frame, is_large
from skleak.utils.sources._columns import as_floats
from skleak.utils.sources._frames import frame_arrays
from skleak.utils.sources._parquet import ParquetTable
from skleak.utils.sources._polars import PolarsTable


@dataclass(frozen=True)
class LargeRecords:
    """Records outside memory, as Dask arrays in the same chunks of rows."""

    X: Any  # float64, one chunk of columns, (n, d)
    y: Any  # targets as they are given, (n,); None where there are none
    sample_weight: Any  # float64, (n,); None where there are none
    names: list[str] | None  # of the columns
    labels: Any = None  # of the rows, where they have an index of their own, (n,)
    columns: Any = None  # names as they are given, which may be no text

    @property
    def schema(self) -> Any:
        """A table without rows that has the same columns."""
        if self.names is None:
            return np.empty((0, self.X.shape[1]))
        columns = self.names if self.columns is None else self.columns
        return pd.DataFrame(np.empty((0, len(self.names))), columns=columns)


def is_large_source(X: Any) -> bool:
    """Return True for a Dask array or data frame, a Polars lazy frame, or the path of a table."""
    return is_large(X) or is_frame(X) or _is_lazy_polars(X) or isinstance(X, str | PathLike)


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
    if _is_lazy_polars(X) or isinstance(X, str | PathLike):
        table = PolarsTable.of(X) if _is_lazy_polars(X) else ParquetTable.of(X)
        return _aligned(_of_table(table, y, sample_weight, names))
    columns = labels = None
    if is_frame(X):
        (X, y, sample_weight), columns, labels = frame_arrays(X, y, sample_weight)
    aligned = _array_of(y, X, "y"), _array_of(sample_weight, X, "sample_weight")
    own = None if columns is None else [str(column) for column in columns]
    return _aligned(LargeRecords(X, *aligned, own, labels, columns))


def _of_table(table: Any, y: Any, sample_weight: Any, names: Array | None) -> LargeRecords:
    special = {"y": y, "sample_weight": sample_weight}
    for parameter, value in special.items():
        if isinstance(value, str):
            table.check_column(value, parameter)
    held = [value for value in special.values() if isinstance(value, str)]
    columns = [c for c in table.columns if c not in held] if names is None else list(names)
    for name in columns:
        table.check_column(name, "X")
    if not columns:
        raise ValueError("The table has no column besides those of `y` and `sample_weight`.")
    X = table.numbers(columns)
    aligned = {
        parameter: table.values(value) if isinstance(value, str) else _array_of(value, X, parameter)
        for parameter, value in special.items()
    }
    return LargeRecords(X, **aligned, names=columns)


def _array_of(values: Any, X: Any, parameter: str) -> Any:
    """Targets or weights that come on their own, as a Dask array."""
    if values is None or is_large(values):
        return values
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
    values = np.array(values)  # a copy: later edits must not reach it
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.shape[0] != X.shape[0]:
        raise ValueError(
            f"`{parameter}` must hold one number for each record: expected {X.shape[0]}, got "
            f"shape {values.shape}."
        )
    array = dask_module("dask.array")
    return array.from_array(values, chunks=(X.chunks[0],))


def _aligned(records: LargeRecords) -> LargeRecords:
    """Check sizes, which are known without a look at the values; cut all into the same chunks."""
    X = records.X
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X must be a table of shape "
            "(n_samples, n_features)."
        )
    if not X.shape[1]:
        raise ValueError("Found array with 0 feature(s) while a minimum of 1 is required.")
    check_known(X, "X")
    aligned = {"y": records.y, "sample_weight": records.sample_weight}
    for name, values in aligned.items():
        if values is None:
            continue
        check_known(values, name)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(f"`{name}` must be one-dimensional; got shape {values.shape}.")
        if values.shape[0] != X.shape[0]:
            raise ValueError(
                f"X and {name} are not aligned: X has {X.shape[0]} rows, and {name} has "
                f"{values.shape[0]}. Pass both of the same records, in the same order."
            )
        aligned[name] = values
    present = {name: values for name, values in aligned.items() if values is not None}
    X, *rest = aligned_chunks(X, list(present.values()))
    present = dict(zip(present, rest, strict=True))
    weight = present.get("sample_weight")
    weight = None if weight is None else as_floats(weight, "sample_weight")
    return replace(
        records, X=as_floats(X, "X", records.names), y=present.get("y"), sample_weight=weight
    )


def check_known(values: Any, name: str) -> None:
    """Refuse a Dask array whose chunks are of unknown sizes."""
    if np.isnan(values.shape).any():
        raise ValueError(
            f"{name} has chunks of unknown sizes, so that records have no positions. Call "
            f"`{name}.compute_chunk_sizes()` first, which loads it once."
        )


def _is_lazy_polars(X: Any) -> bool:
    module = sys.modules.get("polars")
    return module is not None and isinstance(X, module.LazyFrame)
