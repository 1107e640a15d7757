"""Parquet files, and folders of them, loaded by pyarrow in groups of rows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from skleak.utils._optional import import_optional
from skleak.utils.sources._tables import BLOCK_ELEMENTS, Slice, StoredTable, cut, refuse_twice


@dataclass(frozen=True)
class Piece:
    """Groups of rows of one file, which are loaded together."""

    path: str
    print: tuple[int, int, int]  # of the file as it was when it was opened
    groups: tuple[int, ...]
    n_rows: int


@dataclass(frozen=True)
class ParquetTable(StoredTable):
    """A Parquet file, or a folder of them in the order of their names."""

    path: str
    pieces: tuple[Piece, ...]
    schema: Any  # of the first file

    @classmethod
    def of(cls, path: Any) -> "ParquetTable":
        """Open a table: its schema and the sizes of its row groups are read."""
        import_optional("dask", "parquet", "A Parquet file")
        parquet = import_optional("pyarrow.parquet", "parquet", "A Parquet file")
        given, path = str(path), Path(path)
        if not given or not path.exists():  # an empty path would be the working folder
            raise FileNotFoundError(
                f"There is no file or folder {given!r}. Records are passed as an array, a "
                "frame, or the path of a Parquet file or of a folder of them."
            )
        files = _files(path) if path.is_dir() else [path]
        schema, pieces = None, []
        for file in files:
            footer = _footer(parquet, file)
            own = footer.schema_arrow
            schema = own if schema is None else schema
            _check_same(schema, own, file, files[0])
            pieces += _pieces(str(file), footer.metadata, len(own.names))
        assert schema is not None
        return cls(_columns(schema), str(path), tuple(pieces), schema)

    @property
    def name(self) -> str:
        """The table's name in messages."""
        return repr(self.path)

    @cached_property
    def token(self) -> str:
        """Return what tells this table from others, and from itself once it is changed."""
        return repr([(piece.path, piece.print, piece.groups) for piece in self.pieces])

    def slices(self) -> list[Slice]:
        """Rows of each block, in order."""
        return cut([piece.n_rows for piece in self.pieces], len(self.columns))

    def loader(self, piece: int, columns: Sequence[str]) -> "Loader":
        """Return what loads columns of a piece."""
        return Loader(self.pieces[piece], tuple(columns))

    def dtype(self, column: str) -> np.dtype[Any]:
        """Type of the values of a column."""
        found = _value_type(self.schema.field(column).type)
        if import_optional("pyarrow.types", "parquet", "A Parquet file").is_decimal(found):
            return np.dtype(np.float64)
        return np.dtype(found.to_pandas_dtype()) if _is_number(found) else np.dtype(object)

    def stored_type(self, column: str) -> tuple[Any, bool]:
        """Type of a column, and whether it is one of numbers."""
        found = self.schema.field(column).type
        return found, _is_number(found)


@dataclass(frozen=True)
class Loader:
    """Loads columns of a piece; it refuses a file that is not the one that was opened."""

    piece: Piece
    columns: tuple[str, ...]

    def __call__(self) -> list[Any]:
        """Return one array for each column."""
        table = self.table()
        return [_array(table.column(name)) for name in self.columns]

    def to_frame(self) -> Any:
        """Return a pandas data frame of the columns; categories as their values."""
        types = import_optional("pyarrow.types", "parquet", "A Parquet file")
        table = self.table()
        for k, column in enumerate(table.columns):
            if types.is_dictionary(column.type):
                table = table.set_column(k, self.columns[k], column.cast(column.type.value_type))
        return table.select(list(self.columns)).to_pandas(ignore_metadata=True)

    def table(self) -> Any:
        """Read the columns of the piece."""
        parquet = import_optional("pyarrow.parquet", "parquet", "A Parquet file")
        piece = self.piece
        _check_print(piece)
        # One thread: blocks are loaded side by side.
        table = parquet.ParquetFile(piece.path).read_row_groups(
            list(piece.groups), columns=list(self.columns), use_threads=False
        )
        _check_print(piece)
        if table.num_rows != piece.n_rows:
            raise _changed(piece.path)
        return table.select(list(self.columns))


def _files(folder: Path) -> list[Path]:
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


def _footer(parquet: Any, file: Path) -> Any:
    try:
        return parquet.ParquetFile(file)
    except OSError:
        raise
    except ValueError as error:  # of pyarrow, which does not name the file
        raise ValueError(f"{str(file)!r} is no Parquet file that can be read: {error}") from None


def _columns(schema: Any) -> tuple[str, ...]:
    """Names of the columns, without the index that pandas or Dask wrote beside them."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = tuple(name for name in schema.names if name not in index)
    refuse_twice(names)
    return names


def _pieces(path: str, footer: Any, n_columns: int) -> list[Piece]:
    """Cut a file into pieces: as many of its small row groups as one block holds."""
    print_, most = fingerprint(path), max(1, BLOCK_ELEMENTS // max(1, n_columns))
    found: list[Piece] = []
    groups: list[int] = []
    n_rows = 0
    for group in range(footer.num_row_groups):
        size = footer.row_group(group).num_rows
        if groups and n_rows + size > most:
            found.append(Piece(path, print_, tuple(groups), n_rows))
            groups, n_rows = [], 0
        groups.append(group)
        n_rows += size
    return [*found, Piece(path, print_, tuple(groups), n_rows)]


def fingerprint(path: str) -> tuple[int, int, int]:
    """Size, time of change and place of a file: a changed one has another fingerprint."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino


def _check_print(piece: Piece) -> None:
    try:
        same = fingerprint(piece.path) == piece.print
    except FileNotFoundError:
        same = False
    if not same:
        raise _changed(piece.path)


def _changed(path: str) -> RuntimeError:
    return RuntimeError(
        f"The file {path!r} changed under way: it is not the one that was opened, and results "
        "would be of two data sets at once. Open it again, once nobody writes to it."
    )


def _check_same(schema: Any, own: Any, file: Path, first: Path) -> None:
    """Refuse files of other columns, or whose columns are of other kinds, than the first."""
    names = _columns(schema)
    if set(_columns(own)) != set(names):
        apart = sorted(set(_columns(own)) ^ set(names))[:5]
        raise ValueError(
            f"The files of the table have different columns: {str(file)!r} and {str(first)!r} "
            f"differ by {apart}. Write all files with one schema."
        )
    for name in names:
        a, b = schema.field(name).type, own.field(name).type
        if _is_number(a) != _is_number(b):
            raise TypeError(
                f"The types of column {name!r} are mixed: {a} in {str(first)!r}, {b} in "
                f"{str(file)!r}. Write all files with one schema."
            )


def _value_type(kind: Any) -> Any:
    """Type of the values behind the codes of categories; others as they are."""
    types = import_optional("pyarrow.types", "parquet", "A Parquet file")
    return kind.value_type if types.is_dictionary(kind) else kind


def _is_number(kind: Any) -> bool:
    types = import_optional("pyarrow.types", "parquet", "A Parquet file")
    kind = _value_type(kind)
    checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(check(kind) for check in checks)


def _array(column: Any) -> Any:
    """Return a column as an array; a number that is missing is NaN, and a label None."""
    types = import_optional("pyarrow.types", "parquet", "A Parquet file")
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        column = column.cast("uint8")
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return column.to_numpy()
