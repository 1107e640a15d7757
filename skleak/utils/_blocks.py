"""Compute with records block by block, in bounded memory, wherever they lie."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from tqdm import tqdm

from skleak.utils._typing import Array, Data, FloatArray, IntArray

Result = TypeVar("Result")

# Number of float64 values in one block of an (n, d) table: 2 MB, so that the handful of tables
# a block needs at once stays in the processor's cache.
BLOCK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Blocks:
    """Records, with what is aligned with them, as the blocks that functions are applied to.

    Whoever computes says what is done to a block; only this class knows where the records lie: in
    an array, a memory map or a CSR matrix. Records that lie elsewhere are a class with the same two
    methods. No rows are one empty block, so that results have their shapes all the same.
    """

    X: Data  # (n, d)
    aligned: tuple[Array, ...]  # (n, ...) each
    width: int  # entries of the largest table that is made of one record; 0 for no table
    elements: int  # entries of the largest table of a block
    rows: IntArray | None  # those to walk through; None for all
    keep_sparse: bool  # CSR records come as they are, for products with them
    task: str  # of a progress bar; none where empty

    @classmethod
    def of(
        cls,
        X: Data,
        *aligned: Array,
        width: int | None = None,
        elements: int = BLOCK_ELEMENTS,
        rows: IntArray | None = None,
        keep_sparse: bool = False,
        task: str = "",
    ) -> "Blocks":
        """Cut records, and what is aligned with them, into blocks."""
        width = X.shape[1] if width is None else width
        return cls(X, aligned, width, elements, rows, keep_sparse, task)

    def __len__(self) -> int:
        return int(self.X.shape[0]) if self.rows is None else len(self.rows)

    def map(self, f: Callable[..., Array], *small: Any) -> Array:
        """Stack ``f(X, *aligned, *small)`` of all blocks, which has a row for each record."""
        result, start = None, 0
        for block in self._each():
            part = f(*block, *small)
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
        return reduce(combine, (f(*block, *small) for block in self._each()))

    def _each(self) -> Iterator[tuple[Data, ...]]:
        n = len(self)
        parts = row_blocks(n, self.width, self.elements) if n else iter([slice(0, 0)])
        if not self.task:
            # A bar that shows nothing costs as much as a small block.
            yield from map(self._block, parts)
            return
        with tqdm(total=n, desc=self.task, unit="record", leave=False) as bar:
            for part in parts:
                yield self._block(part)
                bar.update(part.stop - part.start)

    def _block(self, part: slice) -> tuple[Data, ...]:
        which = part if self.rows is None else self.rows[part]
        whole = self.rows is None and part.stop - part.start == len(self)
        records = self.X if whole else self.X[which]  # a slice of CSR is a copy
        if not self.keep_sparse:
            records = dense(records)
        return (records, *(values[which] for values in self.aligned))


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
