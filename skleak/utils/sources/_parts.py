"""Raw records outside memory as blocks that anyone can read who is told which."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.utils._optional import dask_module
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.blocks._dask import aligned_chunks, is_frame, is_large
from skleak.utils.blocks._passes import computed
from skleak.utils.sources._open import check_known
from skleak.utils.sources._raw import check_columns, lengths_of, raw_frame, settled, stored_parts


@dataclass(frozen=True)
class RawRows:
    """Raw records in memory, with their targets and weights."""

    table: Any  # DataFrame, or array where the columns have no names, (n, n_columns)
    y: Array  # (n,)
    sample_weight: FloatArray | None  # (n,)

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
class RawBlock:
    """Way to read a block of raw records, with targets and weights. It holds no record.

    Each of them is what reads a table, a delayed value of Dask, or an array of this process.
    """

    X: Any
    y: Any  # or the name of a column
    sample_weight: Any  # likewise; None where there are none

    def __call__(self) -> RawRows:
        """Read the block."""
        given = [self.X, self.y, self.sample_weight]
        lazy = [value for value in given if _is_delayed(value)]
        found = iter(computed(lazy) if lazy else ())
        X, y, weight = (next(found) if _is_delayed(v) else v() if callable(v) else v for v in given)
        held = [name for name in (y, weight) if isinstance(name, str)]
        y, weight = (X[v] if isinstance(v, str) else v for v in (y, weight))
        table = X.drop(columns=held) if held else X
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64).ravel()
        return RawRows(table, np.asarray(y).ravel(), weight)


@dataclass(frozen=True)
class RawRecords:
    """Raw records outside memory, as blocks in order."""

    blocks: tuple[RawBlock, ...]
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
            lazy = [value for value in given if value is not None]
            first, *rest = aligned_chunks(X, lazy)
            parts = [array.to_delayed().ravel().tolist() for array in (first, *rest)]
            found = iter(parts[1:])
            aligned = [None if value is None else next(found) for value in given]
            return cls._of(parts[0], aligned, first.chunks[0])
        held: list[Any]
        names = [value for value in given if isinstance(value, str)]
        if is_frame(X):
            frame = raw_frame(X)
            check_columns(frame, names)
            held, sizes = list(frame.to_delayed()), lengths_of(frame)
        else:
            stored = stored_parts(X)
            check_columns(stored[0].loader, names)
            held, sizes = list(stored), tuple(part.stop - part.start for part in stored)
        return cls._of(held, [_cut(value, sizes) for value in given], sizes)

    @classmethod
    def _of(cls, held: list[Any], aligned: list[Any], sizes: tuple[int, ...]) -> "RawRecords":
        columns = [v if isinstance(v, list) else [v] * len(held) for v in aligned]
        blocks = tuple(RawBlock(*row) for row in zip(held, *columns, strict=True))
        return cls(blocks, np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp))

    def each(self, f: Callable[[RawRows], Any]) -> list[Any]:
        """Return what a function finds in each block: one pass."""
        delayed = dask_module("dask").delayed
        return list(computed(delayed(_applied)(f, *_parts(block)) for block in self.blocks))

    def at(self, positions: IntArray) -> "SomeRows":
        """Tell how records at some positions are read, in that order, (m,)."""
        block = np.searchsorted(self.starts, positions, side="right") - 1
        order = np.argsort(block, kind="stable")
        edges = np.flatnonzero(np.diff(block[order])) + 1
        groups = np.split(order, edges) if len(order) else []
        reads = tuple(
            (self.blocks[block[own[0]]], positions[own] - self.starts[block[own[0]]])
            for own in groups
        )
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        return SomeRows(reads, back)


@dataclass(frozen=True)
class SomeRows:
    """Way to read some records: of which blocks, and which rows of each."""

    reads: tuple[tuple[RawBlock, IntArray], ...]
    order: IntArray  # place of each record among those read, (m,)

    def __call__(self) -> RawRows:
        """Read them; one block is in memory at a time."""
        return RawRows.joined([block().take(rows) for block, rows in self.reads]).take(self.order)

    def together(self) -> RawRows:
        """Read them where they lie, all blocks in one pass: only these rows come here."""
        delayed = dask_module("dask").delayed
        parts = [delayed(_taken)(rows, *_parts(block)) for block, rows in self.reads]
        return RawRows.joined(list(computed(parts))).take(self.order)


def _applied(f: Callable[[RawRows], Any], X: Any, y: Any, sample_weight: Any) -> Any:
    return f(RawBlock(X, y, sample_weight)())


def _taken(rows: IntArray, X: Any, y: Any, sample_weight: Any) -> RawRows:
    return RawBlock(X, y, sample_weight)().take(rows)


def _parts(block: RawBlock) -> tuple[Any, Any, Any]:
    return block.X, block.y, block.sample_weight


def _is_delayed(value: Any) -> bool:
    return hasattr(value, "__dask_graph__")


def _cut(values: Any, sizes: tuple[int, ...]) -> Any:
    """Targets or weights of each block, as a list; a name and None are those of all."""
    if values is None or isinstance(values, str):
        return values
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
