"""Tables outside memory as Dask data frames: Parquet files, lazy frames of Polars, Dask's own."""

import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_object_dtype

from skleak.utils._arguments import dask_module, import_optional
from skleak.utils._blocks import computed, is_frame, is_large
from skleak.utils._typing import Array

# Entries of one block of numbers: 32 MB.
BLOCK_ELEMENTS = 1 << 22


def _read_groups(
    path: str, known: tuple[int, int, int] | None, groups: list[int], columns: list[str]
) -> pd.DataFrame:
    """Read groups of rows of a Parquet file; categories come as their values."""
    parquet = import_optional("pyarrow.parquet", "parquet", "A Parquet file")
    types = import_optional("pyarrow.types", "parquet", "A Parquet file")
    _check_same(path, known)
    # One thread: blocks are loaded side by side.
    table = parquet.ParquetFile(path).read_row_groups(groups, columns=columns, use_threads=False)
    _check_same(path, known)
    for k, column in enumerate(table.columns):
        if types.is_dictionary(column.type):
            values = column.cast(column.type.value_type)
            table = table.set_column(k, table.column_names[k], values)
    return table.select(columns).to_pandas(ignore_metadata=True)


def _check_same(path: str, known: tuple[int, int, int] | None) -> None:
    if fingerprint(path) != known:
        raise RuntimeError(
            f"The file {path!r} changed under way: it is not the one that was opened, and results "
            "would be of two data sets at once. Open it again, once nobody writes to it."
        )


def fingerprint(path: str) -> tuple[int, int, int] | None:
    """Size, time of change and place of a file, which a changed one has not; None if it is gone."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _collect(frame: Any, n_rows: int, columns: list[str]) -> pd.DataFrame:
    """Collect so many rows of a Polars lazy frame."""
    table = frame.select(columns).collect()
    if table.height != n_rows:
        raise RuntimeError(
            f"What the lazy frame reads changed under way: {table.height} rows where there were "
            f"{n_rows}. Open it again, once nobody writes to it."
        )
    return table.to_pandas()


# What tells a piece of a table from others, its number of rows, and what reads some columns of it.
Piece: TypeAlias = tuple[object, int, Callable[[list[str]], pd.DataFrame]]


def _rows(piece: pd.DataFrame, start: int, stop: int, first: int) -> pd.DataFrame:
    """Return rows of a piece, by their positions in the whole table."""
    rows = piece.iloc[start:stop].set_axis(pd.RangeIndex(first, first + stop - start))
    return _with_nan(rows)


def _with_nan(part: pd.DataFrame) -> pd.DataFrame:
    """Return text as objects, with NaN where it is missing: transformers know no other."""
    part = part.copy(deep=False)
    for name, kind in part.dtypes.items():
        is_object = is_object_dtype(kind)
        if isinstance(kind, pd.StringDtype) or (is_object and infer_dtype(part[name]) == "string"):
            part[name] = part[name].astype(object).where(part[name].notna(), np.nan)
    return part


@dataclass(frozen=True)
class Table:
    """A table outside memory: a Dask data frame whose partitions stay as they are.

    Those of a Parquet file or a lazy frame come in order, and rows go by their positions.
    """

    frame: Any
    name: str  # in messages
    token: str  # what tells it from others, and from itself once it is changed
    sizes: tuple[int, ...] | None = None  # rows of its partitions; None for Dask's own frames

    @classmethod
    def of(cls, X: Any, columns: Sequence[str] | None = None) -> "Table":
        """Open a table, of which some columns are wanted: schema and sizes are read, and no row."""
        if is_frame(X):
            refuse_twice(X.columns)
            token = str(X._name)
            if columns is not None:
                check_columns(X, columns, "the frame")
                X = X[list(columns)]
            frame = settled(X).map_partitions(_with_nan, meta=_with_nan(X._meta))
            return cls(frame, "the frame", token)
        if is_large(X):
            raise TypeError(
                "The columns of a Dask array have no names and one type. Pass a Dask data frame, "
                "or the path of a Parquet file."
            )
        import_optional("dask", "parquet", "A Parquet file")
        open_ = _lazy if hasattr(X, "collect_schema") else _files_of
        name, pieces, meta = open_(X)
        if columns is not None:
            check_columns(meta, columns, name)
            meta = meta[list(columns)]
        wanted, tokenize = list(meta.columns), dask_module("dask.base").tokenize
        whole = tokenize([piece[0] for piece in pieces])
        token, first = tokenize(whole, wanted), 0
        layer, sizes = dict[Any, Any](), list[int]()
        for k, (_, n_rows, read) in enumerate(pieces):
            # A piece is read once, and then cut: a small slice would cost as much as any.
            layer[f"piece-{token}", k] = (partial(read, wanted),)
            for start, stop in _cut(n_rows, len(wanted)):
                piece = f"piece-{token}", k
                layer[f"rows-{token}", len(sizes)] = (_rows, piece, start, stop, first)
                sizes.append(stop - start)
                first += sizes[-1]
        keys = [(f"rows-{token}", k) for k in range(len(sizes))]
        divisions = (None,) * (len(sizes) + 1)
        frames = dask_module("dask.dataframe")
        frame = frames.from_graph(layer, _with_nan(meta), divisions, keys, "table")
        return cls(frame, name, whole, tuple(sizes))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of rows of the partitions; of Dask's own frames one cheap pass counts them."""
        return lengths_of(self.frame)[0] if self.sizes is None else self.sizes


def _cut(n_rows: int, n_columns: int) -> list[tuple[int, int]]:
    """Cut rows into equal slices no larger than a block."""
    step = max(1, BLOCK_ELEMENTS // max(1, n_columns))
    edges = np.linspace(0, n_rows, max(1, -(-n_rows // step)) + 1).astype(int).tolist()
    return list(pairwise(edges))


def _lazy(frame: Any) -> tuple[str, list[Piece], pd.DataFrame]:
    """Open a lazy frame: its schema is resolved, and its rows are counted."""
    polars = import_optional("polars", "parquet", "A Polars lazy frame")
    schema = frame.collect_schema()
    n_rows = int(frame.select(polars.len()).collect().item())
    try:
        token = dask_module("dask.base").tokenize(frame.serialize(), n_rows)
    except Exception:  # a plan of functions that cannot be written down is one of its own
        token = uuid4().hex
    # Each slice is a piece of its own: a lazy frame loads what it is asked for.
    pieces: list[Piece] = [
        (f"{token}-{start}", stop - start, partial(_collect, rows, stop - start))
        for start, stop in _cut(n_rows, len(schema))
        for rows in [frame.slice(start, stop - start)]
    ]
    return "the lazy frame", pieces, polars.DataFrame(schema=schema).to_pandas()


def _files_of(path: Any) -> tuple[str, list[Piece], pd.DataFrame]:
    """Open a Parquet file, or a folder of them in the order of their names."""
    parquet = import_optional("pyarrow.parquet", "parquet", "A Parquet file")
    given, path = str(path), Path(path)
    if not given or not path.exists():  # an empty path would be the working folder
        raise FileNotFoundError(
            f"There is no file or folder {given!r}. Records are passed as an array, a "
            "frame, or the path of a Parquet file or of a folder of them."
        )
    files = _inside(path) if path.is_dir() else [path]
    columns: list[str] = []
    pieces: list[Piece] = []
    for file in files:
        try:
            footer = parquet.ParquetFile(file)
        except OSError:
            raise
        except ValueError as error:  # of pyarrow, which does not name the file
            text = f"{str(file)!r} is no Parquet file that can be read: {error}"
            raise ValueError(text) from None
        schema = footer.schema_arrow
        # Without the index that pandas or Dask wrote beside the columns.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        own = [name for name in schema.names if name not in index]
        refuse_twice(own)
        if not pieces:
            columns, first = own, schema
        elif apart := sorted(set(own) ^ set(columns))[:5]:
            raise ValueError(
                f"The files of the table have different columns: {str(file)!r} and "
                f"{str(files[0])!r} differ by {apart}. Write all files with one schema."
            )
        pieces += _pieces(str(file), footer.metadata, len(columns))
    meta = first.empty_table().to_pandas(ignore_metadata=True)[columns]
    decoded = {n: k.categories.dtype for n, k in meta.dtypes.items() if hasattr(k, "categories")}
    return repr(str(path)), pieces, meta.astype(decoded)


def _inside(folder: Path) -> list[Path]:
    """Files of a table in the order of their names; hidden ones are none of it."""
    inside = [(file, file.relative_to(folder).parts) for file in sorted(folder.rglob("*"))]
    files = [
        (file, parts)
        for file, parts in inside
        if file.suffix.lower() == ".parquet" and not any(p.startswith((".", "_")) for p in parts)
    ]
    if not files:
        raise FileNotFoundError(f"The folder {str(folder)!r} holds no file *.parquet.")
    for _, parts in files:
        keys = [part for part in parts[:-1] if "=" in part]
        if keys:
            raise ValueError(
                f"The folder {str(folder)!r} is partitioned by a column that its files do not "
                f"hold, as {keys[0]!r} says. Pass polars.scan_parquet(folder, "
                "hive_partitioning=True) or dask.dataframe.read_parquet(folder), which read it."
            )
    return [file for file, _ in files]


def _pieces(path: str, footer: Any, n_columns: int) -> Iterator[Piece]:
    """Cut a file into pieces: as many of its small row groups as one block holds."""
    known, groups, size = fingerprint(path), list[int](), 0
    for group in range(footer.num_row_groups):
        more = footer.row_group(group).num_rows
        if groups and (size + more) * n_columns > BLOCK_ELEMENTS:
            yield (path, known, groups), size, partial(_read_groups, path, known, groups)
            groups, size = [], 0
        groups, size = [*groups, group], size + more
    yield (path, known, groups), size, partial(_read_groups, path, known, groups)


def refuse_twice(names: Sequence[Any]) -> None:
    """Refuse columns of one name, which cannot be told apart."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"The table has several columns of the name {twice[0]!r}. Rename them.")


def check_columns(
    frame: Any, names: Sequence[str], table: str = "the table", what: str = "X needs"
) -> None:
    """Refuse names that a table does not have."""
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{what} the column {missing[0]!r}, which {table} does not have. Expected one of "
            f"{[str(name) for name in frame.columns[:20]]}."
        )


def lengths_of(*frames: Any) -> list[tuple[int, ...]]:
    """Numbers of rows of the partitions of each; one cheap pass."""
    counted = computed(frame.map_partitions(len) for frame in frames)
    return [tuple(map(int, sizes)) for sizes in counted]


def settled(frame: Any) -> Any:
    """Return a Dask frame or series whose partitions stay as many as it says.

    Of few columns of Parquet files Dask would read several files as one partition, after others
    have counted them.
    """
    frames, simple = dask_module("dask.dataframe"), frame.simplify()
    graph, keys = dict(simple.dask), simple.__dask_keys__()
    return frames.from_graph(graph, frame._meta, frame.divisions, keys, "settled")


def head_of(X: Any, n: int = 64) -> pd.DataFrame:
    """Return the first rows of a table outside memory, of the first partition that has some."""
    for part in Table.of(X).frame.to_delayed():
        rows = part.compute().iloc[:n]
        if len(rows):
            return rows
    raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


@dataclass(frozen=True)
class Opening:
    """One opening of a table, which another one of the same table does not know."""

    unique: str = field(default_factory=lambda: uuid4().hex)

    def __dask_tokenize__(self) -> str:
        """Return the same for all: what is computed does not depend on it."""
        return "opening"

    def expect(self, values: Array, *place: object) -> None:
        """Refuse other values of a place, (n,), or in another order, than were found at first."""
        if values.dtype.kind not in "biuf":
            try:
                values = pd.util.hash_array(values.astype(object))
            except TypeError:  # of nested values
                values = pd.util.hash_array(np.array([repr(value) for value in values], object))
        found = zlib.crc32(np.ascontiguousarray(values).data.cast("B"))
        if _first_seen(self.unique, *place).setdefault("rows", found) != found:
            raise RuntimeError(
                "The table gave other rows than before, or the same in another order, and records "
                "and targets are read apart, several times. Merges, groups, samples and shuffles "
                "keep no order of their own, and functions without a seed no values: set their "
                "seed or `maintain_order`, or sort; persist a Dask frame by `frame.persist()`; or "
                "write the table to Parquet and pass the path. Let nobody write to its files."
            )


@lru_cache(maxsize=1 << 16)
def _first_seen(*place: object) -> dict[str, int]:
    """Return what holds the checksum of a place as this process first found it."""
    return {}
