"""Compute with records of this process block by block, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import sparse
from tqdm import tqdm

from skleak.utils._typing import Array, Data, FloatArray, IntArray
from skleak.utils.blocks._threads import in_order

Result = TypeVar("Result")

# Number of float64 values in one block of an (n, d) table: 2 MB, so that the handful of tables
# a block needs at once stays in the processor's cache.
BLOCK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class MemoryBlocks:
    """Records in an array, a memory map or a CSR matrix, as blocks; see `Blocks`."""

    X: Data  # (n, d)
    aligned: tuple[Array, ...]  # (n, ...) each
    width: int  # entries of the largest table that is made of one record; 0 for no table
    elements: int  # entries of the largest table of a block
    rows: IntArray | None  # those to walk through; None for all
    keep_sparse: bool  # CSR records come as they are, for products with them
    task: str  # of a progress bar; none where empty
    part: str  # as which a watcher knows what is mapped; empty where there is nothing to watch

    def __len__(self) -> int:
        return int(self.X.shape[0]) if self.rows is None else len(self.rows)

    def map(self, f: Callable[..., Array], *small: Any) -> Array:
        """Stack ``f(X, *aligned, *small)`` of all blocks, which has a row for each record."""
        if self.part and len(self):
            blocks = row_blocks(len(self), self.width, self.elements)
            return stacked(self.part, len(self), blocks, lambda b: f(*self._block(b), *small))
        result, start = None, 0
        for part in self._each(f, small):
            if len(part) == len(self):
                return part
            if result is None:
                result = np.empty((len(self), *part.shape[1:]), part.dtype)
            result[start : start + len(part)] = part
            start += len(part)
        assert result is not None
        return result

    def map_reduce(
        self, f: Callable[..., Result], combine: Callable[[Result, Result], Result], *small: Any
    ) -> Result:
        """Combine ``f(X, *aligned, *small)`` of all blocks; `add` sums them."""
        return reduce(combine, self._each(f, small))

    def _each(self, f: Callable[..., Result], small: tuple[Any, ...]) -> Iterator[Result]:
        n = len(self)
        parts = list(row_blocks(n, self.width, self.elements)) if n else [slice(0, 0)]
        results = in_order(lambda part: f(*self._block(part), *small), parts)
        if not self.task:
            # A bar that shows nothing costs as much as a small block.
            yield from results
            return
        with tqdm(total=n, desc=self.task, unit="record", leave=False) as bar:
            for part, result in zip(parts, results, strict=True):
                yield result
                bar.update(part.stop - part.start)

    def _block(self, part: slice) -> tuple[Data, ...]:
        which = part if self.rows is None else self.rows[part]
        whole = self.rows is None and part.stop - part.start == len(self)
        records = self.X if whole else self.X[which]  # a slice of CSR is a copy
        if not self.keep_sparse:
            records = dense(records)
        return (records, *(values[which] for values in self.aligned))


class Watcher(Protocol):
    """Sees the parts of long computations as they come, and may know some of them already."""

    def begin(self, name: str, n: int) -> Array | None:
        """Return the first rows of n, (k, ...), as an earlier run computed them."""

    def done(self, name: str, rows: Array, n: int) -> None:
        """Take notice of the first rows of n, (k, ...); more of the same array come later."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let somebody watch what is computed in parts."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def stacked(
    name: str,
    n: int,
    blocks: Iterable[slice],
    compute: Callable[[slice], Array],
    *,
    threads: bool = True,
) -> Array:
    """Stack what is computed of the rows of each block, (n, ...), for a watcher to see and to keep.

    Blocks follow one another, and are the same in each run. Estimators of anybody are fitted with
    ``threads=False``: one block after the other, in this thread.
    """
    watcher = _WATCHER.get()
    known = watcher.begin(name, n) if watcher is not None else None
    result: Array | None = None

    def part_of(block: slice) -> Array:
        return known[block] if known is not None and len(known) >= block.stop else compute(block)

    parts = list(blocks)
    found = in_order(part_of, parts) if threads else map(part_of, parts)
    for block, part in zip(parts, found, strict=True):
        if result is None:
            result = np.empty((n, *part.shape[1:]), part.dtype)
        result[block] = part
        if watcher is not None:
            watcher.done(name, result[: block.stop], n)
    assert result is not None
    return result


def add(total: Any, part: Any) -> Any:
    """Add the result of a block to those before: a number, an array (in place), or a tuple."""
    if isinstance(total, tuple):
        return tuple(map(add, total, part))
    total += part
    return total


def row_blocks(n_rows: int, n_columns: int, elements: int = BLOCK_ELEMENTS) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)``, each of at most ``elements`` table entries."""
    step = max(1, elements // n_columns if n_columns else n_rows)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def dense_rows(X: Data, rows: "slice | IntArray") -> FloatArray:
    """Return some rows of a dense or CSR matrix as a dense array.

    Shapes: ``X`` (n, d); returns (n_rows, d).
    """
    return dense(X[rows])


def dense(X: Data) -> FloatArray:
    """Return a dense or CSR matrix as a dense array."""
    return X.toarray() if sparse.issparse(X) else np.asarray(X)
