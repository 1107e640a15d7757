"""Compute with records block by block, in bounded memory, wherever they lie."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from skleak.utils._typing import Array, Data, IntArray
from skleak.utils.blocks._dask import DaskBlocks, is_large
from skleak.utils.blocks._dask import positions_of as positions_of
from skleak.utils.blocks._dask import side_by_side as side_by_side
from skleak.utils.blocks._memory import BLOCK_ELEMENTS as BLOCK_ELEMENTS
from skleak.utils.blocks._memory import MemoryBlocks
from skleak.utils.blocks._memory import Watcher as Watcher
from skleak.utils.blocks._memory import add as add
from skleak.utils.blocks._memory import dense as dense
from skleak.utils.blocks._memory import dense_rows as dense_rows
from skleak.utils.blocks._memory import row_blocks as row_blocks
from skleak.utils.blocks._memory import stacked as stacked
from skleak.utils.blocks._memory import watched_by as watched_by

Result = TypeVar("Result")


class Blocks(Protocol):
    """Records, with what is aligned with them, as the blocks that functions are applied to.

    Whoever computes says what is done to a block; only the kinds of blocks know where the records
    lie: in an array, a memory map or a CSR matrix, or in Dask arrays. Functions must not hold
    records of their own, as they travel to where the records are. No rows are one empty block, so
    that results have their shapes all the same.
    """

    def __len__(self) -> int: ...

    def map(self, f: Callable[..., Array], *small: Any) -> Array:
        """Stack ``f(X, *aligned, *small)`` of all blocks, which has a row for each record.

        Lazily, as a Dask array, where the records are Dask arrays.
        """
        ...

    def map_reduce(
        self, f: Callable[..., Result], combine: Callable[[Result, Result], Result], *small: Any
    ) -> Result:
        """Combine ``f(X, *aligned, *small)`` of all blocks; `add` sums them.

        One pass over all records. ``combine`` is associative, and may change its first argument.
        """
        ...

    @staticmethod
    def of(
        X: Data,
        *aligned: Array,
        width: int | None = None,
        elements: int = BLOCK_ELEMENTS,
        rows: IntArray | None = None,
        keep_sparse: bool = False,
        task: str = "",
        part: str = "",
    ) -> "Blocks":
        """Cut records, and what is aligned with them, into blocks.

        Parameters
        ----------
        X : ndarray, memory map, CSR matrix or Dask array of shape (n, d)
            Records.
        *aligned : ndarray or Dask array of shape (n, ...)
            What has a row for each record.
        width : int, default=None
            Entries of the largest table that is made of one record; 0 for no table.
        elements : int, default=2**18
            Entries of the largest table of a block.
        rows : ndarray of int, default=None
            Those to walk through; None for all.
        keep_sparse : bool, default=False
            CSR records come as they are, for products with them.
        task : str, default=""
            Of a progress bar; none where empty.
        part : str, default=""
            As which a watcher knows what is mapped; empty where there is nothing to watch.
        """
        width = X.shape[1] if width is None else width
        if is_large(X):
            large: Any = DaskBlocks.of(X, aligned, rows, width, elements, keep_sparse, task)
            return large
        blocks: Any = MemoryBlocks(X, aligned, width, elements, rows, keep_sparse, task, part)
        return blocks
