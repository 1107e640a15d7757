"""Raw tables outside memory, of columns of any type, as Dask data frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from skleak.utils._optional import dask_module
from skleak.utils.blocks._dask import is_frame, is_large
from skleak.utils.blocks._passes import computed
from skleak.utils.sources._parquet import ParquetTable
from skleak.utils.sources._polars import PolarsTable
from skleak.utils.sources._tables import StoredTable, refuse_twice


def raw_frame(X: Any) -> Any:
    """Return a table outside memory as a lazy Dask data frame, whose rows keep their order.

    Of a Parquet file or a Polars lazy frame, rows go by their positions.
    """
    if is_frame(X):
        refuse_twice(X.columns)
        return settled(X).map_partitions(_with_nan, meta=_with_nan(X._meta))
    if is_large(X):
        raise TypeError(
            "The columns of a Dask array have no names and one type. Pass a Dask data frame, or "
            "the path of a Parquet file."
        )
    frames = dask_module("dask.dataframe")
    parts = stored_parts(X)
    meta = parts[0]().iloc[:0]
    # Dask would make text of all objects: of dates, decimals, and booleans with missing ones.
    with dask_module("dask").config.set({"dataframe.convert-string": False}):
        return frames.from_map(_part, parts, meta=meta, enforce_metadata=False)


def _with_nan(part: pd.DataFrame) -> pd.DataFrame:
    """Return text as objects, with NaN where it is missing: transformers know no other."""
    part = part.copy(deep=False)
    for name in part.columns:
        if isinstance(part[name].dtype, pd.StringDtype):
            part[name] = part[name].astype(object).where(part[name].notna(), np.nan)
    return part


def stored_parts(X: Any) -> "list[StoredPart]":
    """Blocks of a Parquet file or a Polars lazy frame, in order."""
    lazy = type(X).__module__.startswith("polars")
    table: StoredTable = PolarsTable.of(X) if lazy else ParquetTable.of(X)
    parts, first = [], 0
    for part in table.slices():
        loader = table.loader(part.piece, table.columns)
        parts.append(StoredPart(loader, part.start, part.stop, first))
        first += part.stop - part.start
    return parts


@dataclass(frozen=True)
class StoredPart:
    """Some rows of a piece of a table: how they are read."""

    loader: Any
    start: int  # first row, in the piece
    stop: int
    first: int  # its position in the whole table

    def __call__(self) -> pd.DataFrame:
        """Read the rows; they go by their positions in the whole table."""
        frame = self.loader.to_frame().iloc[self.start : self.stop].copy(deep=False)
        for name in frame.columns:
            if frame[name].dtype == object and infer_dtype(frame[name]) == "string":
                # Before pandas 3 missing text is None.
                frame[name] = frame[name].where(frame[name].notna(), np.nan)
        return frame.set_axis(pd.RangeIndex(self.first, self.first + self.stop - self.start))


def _part(given: StoredPart) -> pd.DataFrame:
    return given()


def head_of(frame: Any, n: int = 64) -> pd.DataFrame:
    """Return the first rows of a Dask data frame, of the first partition that has some."""
    for part in frame.partitions:
        rows = part.head(n, npartitions=1)
        if len(rows):
            return rows
    raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def check_columns(frame: Any, names: Sequence[str]) -> None:
    """Refuse names that a table, or what loads one, does not have."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(
            f"The table has no column {missing[0]!r}; expected one of {list(frame.columns)[:20]}."
        )


def lengths_of(frame: Any) -> tuple[int, ...]:
    """Numbers of rows of the partitions; a cheap pass."""
    (sizes,) = computed([frame.map_partitions(len)])
    return tuple(map(int, sizes))


def settled(frame: Any) -> Any:
    """Return a Dask frame or series whose partitions stay as many as it says.

    Of few columns of Parquet files Dask would read several files as one partition, after others
    have counted them.
    """
    frames, simple = dask_module("dask.dataframe"), frame.simplify()
    graph, keys = dict(simple.dask), simple.__dask_keys__()
    return frames.from_graph(graph, frame._meta, frame.divisions, keys, "settled")
