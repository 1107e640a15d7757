"""Tables on disk as Dask arrays, one slice of rows after the other."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from skleak.utils._optional import dask_module

# Entries of one block of numbers: 32 MB.
BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Slice:
    """Some rows of a piece of a table that is loaded as a whole."""

    piece: int  # which piece
    start: int  # first of its rows
    stop: int


@dataclass(frozen=True)
class StoredTable(ABC):
    """A table of which only the schema is known, until its rows are loaded."""

    columns: tuple[str, ...]

    @property
    @abstractmethod
    def token(self) -> str:
        """Return what tells this table from others, and from itself once it is changed."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The table's name in messages."""

    @abstractmethod
    def slices(self) -> list[Slice]:
        """Rows of each block, in order."""

    @abstractmethod
    def loader(self, piece: int, columns: Sequence[str]) -> Any:
        """Return a function without arguments that loads columns of a piece; it travels."""

    @abstractmethod
    def dtype(self, column: str) -> np.dtype[Any]:
        """Type of the values of a column."""

    @abstractmethod
    def stored_type(self, column: str) -> tuple[Any, bool]:
        """Type under which the table keeps a column, and whether it is one of numbers."""

    def check_column(self, column: str, parameter: str) -> None:
        """Refuse a column that the table does not have."""
        if column not in self.columns:
            what = "X needs" if parameter == "X" else f"`{parameter}` names"
            raise ValueError(
                f"{what} the column {column!r}, which {self.name} does not have. Expected one of "
                f"{list(self.columns[:20])}."
            )

    def numbers(self, columns: Sequence[str]) -> Any:
        """Columns as a lazy Dask array of shape (n, n_columns)."""
        for column in columns:
            kind, is_number = self.stored_type(column)
            if not is_number:
                raise ValueError(
                    f"Could not convert column {column!r} of {self.name} to numbers: it is of type "
                    f"{kind}. Encode it or leave it out."
                )
        slices = self.slices()
        return self._array(slices, columns, _as_numbers, np.dtype(np.float64), (len(columns),))

    def values(self, column: str) -> Any:
        """Return a column as a lazy Dask array of shape (n,)."""
        slices = self.slices()
        return self._array(slices, [column], _as_values, self.dtype(column), ())

    def _array(
        self, slices: list[Slice], columns: Sequence[str], convert: Any, dtype: Any, shape: Any
    ) -> Any:
        """Return a Dask array by hand: one task for each piece, and one for each block of it."""
        dask, array = dask_module("dask"), dask_module("dask.array")
        graphs = dask_module("dask.highlevelgraph").HighLevelGraph
        token = dask.base.tokenize(self.token, list(columns), slices)
        name, pieces = f"table-{token}", f"piece-{token}"
        layer: dict[Any, Any] = {}
        for i, part in enumerate(slices):
            layer[(pieces, part.piece)] = (_load, self.loader(part.piece, columns))
            zeros = (0,) * len(shape)
            layer[(name, i, *zeros)] = (convert, (pieces, part.piece), part.start, part.stop)
        graph = graphs.from_collections(name, layer, dependencies=[])
        chunks = (tuple(part.stop - part.start for part in slices), *((size,) for size in shape))
        meta = np.empty((0,) * (1 + len(shape)), dtype)
        return array.Array(graph, name, chunks=chunks, dtype=dtype, meta=meta)


def refuse_twice(names: Sequence[Any]) -> None:
    """Refuse columns of one name, which cannot be told apart."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"The table has several columns of the name {twice[0]!r}. Rename them.")


def cut(sizes: Sequence[int], n_columns: int) -> list[Slice]:
    """Cut pieces of some sizes into slices that are no larger than a block."""
    step = max(1, BLOCK_ELEMENTS // max(1, n_columns))
    found = []
    for piece, size in enumerate(sizes):
        # Equal slices: a small one at the end would cost as much as any.
        edges = np.linspace(0, size, -(-size // step) + 1).astype(int).tolist()
        found += [Slice(piece, a, b) for a, b in pairwise(edges)]
    return found or [Slice(0, 0, 0)]


def _load(loader: Any) -> Any:
    return loader()


def _as_numbers(piece: list[Any], start: int, stop: int) -> Any:
    """Rows of some columns as a table, (n, n_columns)."""
    table = np.empty((stop - start, len(piece)))
    for j, column in enumerate(piece):
        table[:, j] = column[start:stop]
    return table


def _as_values(piece: list[Any], start: int, stop: int) -> Any:
    return piece[0][start:stop]
