"""Tables that outgrow memory, as Dask arrays whose blocks are loaded when they are needed."""

import os
import reprlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_numeric_dtype, is_object_dtype
from scipy import sparse

from skleak.utils._arguments import dask_module, import_optional
from skleak.utils._blocks import aligned_chunks, computed, is_frame, is_large
from skleak.utils._labels import NUMBERS
from skleak.utils._records import row_labels
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array, FloatArray

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
    files = []
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if file.suffix.lower() != ".parquet" or any(part[0] in "._" for part in parts):
            continue
        if keys := [part for part in parts[:-1] if "=" in part]:
            raise ValueError(
                f"The folder {str(folder)!r} is partitioned by a column that its files do not "
                f"hold, as {keys[0]!r} says. Pass polars.scan_parquet(folder, "
                "hive_partitioning=True) or dask.dataframe.read_parquet(folder), which read it."
            )
        files.append(file)
    if not files:
        raise FileNotFoundError(f"The folder {str(folder)!r} holds no file *.parquet.")
    return files


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

    def expect(self, index: Any, values: Array, name: str, partition_info: Any) -> None:
        """Refuse a partition that is not as it was, or whose labels another part orders otherwise.

        Shapes: ``index`` and ``values`` (n,).
        """
        if partition_info is None:
            return
        if values.dtype.kind not in "biuf":
            try:
                values = pd.util.hash_array(values.astype(object))
            except TypeError:  # of nested values
                values = pd.util.hash_array(np.array([repr(value) for value in values], object))
        labels = pd.util.hash_pandas_object(index, index=False).to_numpy()
        for place, rows in {(name,): values, ("index", int(labels.sum())): labels}.items():
            checksum = zlib.crc32(np.ascontiguousarray(rows).data.cast("B"))
            seen = _first_seen(self.unique, partition_info["number"], *place)
            if seen.setdefault("rows", checksum) != checksum:
                raise RuntimeError(
                    "The table gave other rows than before, or the same in another order, and "
                    "records and targets are read apart, several times. Merges, groups, samples "
                    "and shuffles keep no order of their own, and functions without a seed no "
                    "values: set their seed or `maintain_order`, or sort; persist a Dask frame by "
                    "`frame.persist()`; or write the table to Parquet and pass the path. Let "
                    "nobody write to its files."
                )


@lru_cache(maxsize=1 << 16)
def _first_seen(*place: object) -> dict[str, int]:
    """Return what holds the checksum of a place as this process first found it."""
    return {}


def index_labels(records: Any) -> Any:
    """Labels of the rows, (n,): of a Dask frame as an array, whose rows one cheap pass counts.

    None where the records have no index of their own.
    """
    if is_frame(records):
        return series_array(records.index.to_series(), "the index")
    return row_labels(records)


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
        label = f"column {str(name)!r}"
        table[:, j] = _floats(_checked(part[name], meta[name], label), label)
        with np.errstate(all="ignore"):
            sums += table[:, j]
    opening.expect(part.index, sums, "X", partition_info)
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
    opening.expect(part.index, values, name, partition_info)
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
        is_number = is_numeric_dtype(expected) and infer_dtype(part) in NUMBERS
        if not is_number:
            raise TypeError(mixed)
    return part if not hasattr(got, "categories") else part.astype(got.categories.dtype)


def _is_unknown(column: pd.Series) -> bool:
    """Return True for categories that are known once the partitions are read."""
    known = getattr(column.dtype, "categories", None)
    return known is not None and list(known) == ["__UNKNOWN_CATEGORIES__"]


def _value_type(column: pd.Series) -> Any:
    """Type of the values of a column, of its categories where it has some."""
    kind = column.dtype
    return kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind


@dataclass(frozen=True)
class LargeRecords:
    """Records outside memory, as Dask arrays in the same chunks of rows."""

    X: Any  # float64, one chunk of columns, (n, d)
    y: Any  # targets as they are given, (n,); None where there are none
    sample_weight: Any  # float64, (n,); None where there are none
    schema: Any  # a table without rows that has the same columns
    names: list[str] | None  # of the columns, where they have some
    labels: Any = None  # of the rows, where they have an index of their own, (n,)


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
                f"X and {name} are not aligned: the partitions of X have {reprlib.repr(lengths)} "
                f"rows, and those of {name} {reprlib.repr(found)}. Take both from one frame."
            )
    opening = Opening()
    for name, series in (own | alone).items():
        values = _array_of(series, name, lengths, opening)
        special[name] = _named(values, table.token, held[name]) if name in held else values
    labels = None
    if table.sizes is None:
        labels = _array_of(table.frame.index.to_series(), "the index", lengths, Opening())
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


def as_floats(values: Any, name: str, columns: list[str] | None = None) -> Any:
    """Turn a Dask array into one of float64 numbers, lazily; TypeError where it holds others.

    Shapes: ``values`` (n, ...).
    """
    if values.dtype.kind not in "biufO":
        raise TypeError(
            f"{name} must hold numbers; got dtype {values.dtype}. Encode it, or leave it out."
        )
    return _block_by_block(_as_floats, values, name, columns, values.dtype.kind != "O")


def only_finite(values: Any, name: str, columns: list[str] | None = None) -> Any:
    """Refuse NaN and infinity in a Dask array of numbers, as its blocks are walked through."""
    return _block_by_block(_finite_block, values, name, columns)


def _block_by_block(f: Callable[..., Any], values: Any, *given: Any) -> Any:
    meta = values._meta if sparse.issparse(values._meta) else np.empty((0,) * values.ndim)
    map_blocks = dask_module("dask.array").map_blocks
    return map_blocks(f, values, *given, dtype=np.float64, meta=meta)


def _finite_block(block: Any, name: str, columns: list[str] | None, block_info: Any = None) -> Any:
    stored = block.data if sparse.issparse(block) else block
    if not np.isfinite(stored).all():
        held = "NaN" if np.isnan(stored).any() else "infinity"
        where = ""
        if not sparse.issparse(block):
            at = np.argwhere(~np.isfinite(block))[0]
            start = block_info[0]["array-location"][0][0] if block_info else 0
            where = f", first in row {start + int(at[0])}"
            if block.ndim > 1:
                column = columns[at[1]] if columns else f"x{at[1]}"
                where += f" of column {column!r}"
        raise ValueError(
            f"Input {name} contains {held}{where}. Impute such values, or drop the records."
        )
    return block


def _as_floats(block: Any, name: str, columns: list[str] | None, declared: bool) -> Any:
    """Return a block as float64 numbers, be it dense or CSR."""
    if sparse.issparse(block):
        block = sparse.csr_array(block, dtype=np.float64)
        if not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        return block
    block = np.asarray(block)
    if block.dtype.kind in "biuf":
        return block.astype(np.float64, copy=False)
    if declared:
        raise TypeError(
            f"{name} has blocks of mixed types: it is declared to hold numbers, and one of its "
            f"blocks is of dtype {block.dtype}. Give all partitions one type."
        )
    if block.ndim == 1:
        return _floats(pd.Series(block), name)
    labels = columns or [f"x{j}" for j in range(block.shape[1])]
    numbers = [_floats(pd.Series(block[:, j]), f"column {k!r}") for j, k in enumerate(labels)]
    return np.stack(numbers, axis=1)


def _floats(column: pd.Series, name: str) -> FloatArray:
    """Return a column as float64 numbers, (n,), NaN where one is missing."""
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError):
        raise ValueError(
            f"Could not convert {name} to numbers. Encode it or leave it out."
        ) from None
