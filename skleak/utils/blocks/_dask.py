"""Compute with records that are Dask arrays: block by block on the workers, in trees."""

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeGuard, TypeVar
from uuid import uuid4

import numpy as np
from scipy import sparse

from skleak.utils._optional import dask_module
from skleak.utils._typing import Array, Data, IntArray
from skleak.utils.blocks._memory import MemoryBlocks
from skleak.utils.blocks._passes import run_pass

Result = TypeVar("Result")

# Results of blocks that are combined at once.
_SPLIT_EVERY = 8


def is_large(X: Any) -> TypeGuard[Any]:
    """Return True for a Dask array."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def is_frame(values: Any) -> bool:
    """Return True for a Dask data frame, or a series of one."""
    return type(values).__module__.startswith("dask.dataframe")


@dataclass(frozen=True)
class DaskBlocks:
    """Records in Dask arrays, one chunk after the other; see `Blocks`.

    Inside of a chunk the records are cut again, as those of an array in memory are.
    """

    X: Any  # Dask array of shape (n, d), one chunk of columns
    aligned: tuple[Any, ...]  # Dask arrays of shape (n, ...) in the same chunks of rows
    width: int
    elements: int
    keep_sparse: bool
    task: str

    @classmethod
    def of(
        cls,
        X: Any,
        aligned: Sequence[Any],
        rows: IntArray | None,
        width: int,
        elements: int,
        keep_sparse: bool,
        task: str,
    ) -> "DaskBlocks":
        """Cut what is aligned with the records as these are."""
        together = aligned_chunks(X, aligned)
        if rows is not None:
            together = [values[np.asarray(rows)] for values in together]
        return cls(together[0], tuple(together[1:]), width, elements, keep_sparse, task)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def map(self, f: Callable[..., Array], *small: Any) -> Any:
        """Stack ``f(X, *aligned, *small)`` of all blocks, lazily, as a Dask array."""
        empty = self._kernel(f, small, _mapped)([_no_rows(self.X)], *map(_no_rows, self.aligned))
        meta = np.empty((0,) * empty.ndim, empty.dtype)
        axes = {k + 2: size for k, size in enumerate(empty.shape[1:])}
        index = (0, *axes)
        return self._blockwise(
            _mapped, f, small, index, new_axes=axes, dtype=empty.dtype, meta=meta
        )

    def map_reduce(
        self, f: Callable[..., Result], combine: Callable[[Result, Result], Result], *small: Any
    ) -> Result:
        """Combine ``f(X, *aligned, *small)`` of all blocks, on the workers, as a tree."""
        dask = dask_module("dask")
        meta = np.empty(0, dtype=object)
        fold = _Fold(f, combine)
        parts = self._blockwise(_reduced, fold, small, (0,), dtype=object, meta=meta)
        (parts,) = dask.optimize(parts)
        name: str = parts.name
        layer: dict[Any, Any] = {}
        keys: list[Any] = [(name, i) for i in range(parts.numblocks[0])]
        combined = _several(combine)
        level = 0
        while len(keys) > 1 or level == 0:
            groups = [keys[i : i + _SPLIT_EVERY] for i in range(0, len(keys), _SPLIT_EVERY)]
            keys = [(f"{name}-combined", level, i) for i in range(len(groups))]
            layer |= {key: (combined, group) for key, group in zip(keys, groups, strict=True)}
            level += 1
        graphs = dask_module("dask.highlevelgraph").HighLevelGraph
        graph = graphs.from_collections(f"{name}-combined", layer, dependencies=[parts])
        shown = [*(key for key in layer if key[1] == 0), keys[0]]
        size = name, parts.numblocks[0]
        found: Any = run_pass(graph, f"{name}-combined", size, shown, self.task)
        if found is None:  # there is no record in any block
            none = MemoryBlocks(_no_rows(self.X), tuple(map(_no_rows, self.aligned)), *self._limits)
            return none.map_reduce(f, combine, *small)
        result: Result = found
        return result

    def _kernel(self, f: Any, small: tuple[Any, ...], run: Callable[..., Any]) -> "_Kernel":
        return _Kernel(run, f, small, self._limits, dict(np.geterr()))

    @property
    def _limits(self) -> tuple[Any, ...]:
        return self.width, self.elements, None, self.keep_sparse, "", ""

    def _blockwise(
        self, run: Callable[..., Any], f: Any, small: tuple[Any, ...], index: Any, **options: Any
    ) -> Any:
        """Apply a kernel to every block, as a lazy Dask array of blocks of what it returns."""
        array, dask = dask_module("dask.array"), dask_module("dask")
        token = uuid4().hex
        # The kernel is a task of its own, and goes to a worker once and not with each block.
        kernel = self._kernel(f, small, run)
        shared = dask.delayed(kernel, name=f"kernel-{token}", pure=False, traverse=False)
        operands: list[Any] = []
        for k, values in enumerate((self.X, *self.aligned), start=1):
            operands += [values, (0, *(100 * k + j for j in range(1, values.ndim)))]
        options |= {"concatenate": None, "align_arrays": False}
        return array.blockwise(
            _call, index, shared, None, *operands, name=f"records-{token}", **options
        )


def positions_of(X: Any) -> Any:
    """Positions of records, (n,), where these lie."""
    if not is_large(X):
        return np.arange(X.shape[0])
    return dask_module("dask.array").arange(X.shape[0], chunks=(X.chunks[0],))


def aligned_chunks(X: Any, aligned: Sequence[Any]) -> list[Any]:
    """Return Dask arrays in the row chunks of the first, each of one chunk of columns."""
    array = dask_module("dask.array")
    if X.ndim > 1 and any(size > 1 for size in X.numblocks[1:]):
        X = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    result = [X]
    for values in aligned:
        if not is_large(values):
            values = array.from_array(values, chunks=(X.chunks[0], *values.shape[1:]))
        chunks = {0: X.chunks[0], **dict.fromkeys(range(1, values.ndim), -1)}
        wanted = (X.chunks[0], *((size,) for size in values.shape[1:]))
        result.append(values if values.chunks == wanted else values.rechunk(chunks))
    return result


def side_by_side(columns: Sequence[Any]) -> Any:
    """Stack columns (n,) or tables (n, k) to one table, also of Dask arrays, lazily."""
    if not any(is_large(column) for column in columns):
        return np.column_stack(columns)
    return DaskBlocks.of(columns[0], columns[1:], None, 0, 1, False, "").map(_beside)


def _beside(*columns: Array) -> Array:
    return np.column_stack(columns)


@dataclass(frozen=True)
class _Kernel:
    """Call on a block, as it travels to where the block is."""

    run: Callable[..., Any]
    f: Any
    small: tuple[Any, ...]
    limits: tuple[Any, ...]  # of the blocks inside of this one
    errors: dict[str, Any]  # how the caller takes errors of floating point

    def __call__(self, X: Any, *aligned: Any) -> Any:
        arrays = tuple(map(_whole, (X, *aligned)))
        for values in arrays[1:]:
            if values.shape[0] != arrays[0].shape[0]:
                raise ValueError(
                    f"A block of X has {arrays[0].shape[0]} rows, and that of what is aligned "
                    f"with it {values.shape[0]}. Cut both into the same chunks of rows."
                )
        with np.errstate(**self.errors):
            blocks = MemoryBlocks(arrays[0], arrays[1:], *self.limits)
            return self.run(blocks, self.f, self.small)


@dataclass(frozen=True)
class _Fold:
    """A function of a block, and how its results are combined."""

    f: Callable[..., Any]
    combine: Callable[[Any, Any], Any]


def _call(kernel: _Kernel, X: Any, *aligned: Any) -> Any:
    return kernel(X, *aligned)


def _mapped(blocks: MemoryBlocks, f: Callable[..., Array], small: tuple[Any, ...]) -> Array:
    return blocks.map(f, *small)


def _reduced(blocks: MemoryBlocks, fold: _Fold, small: tuple[Any, ...]) -> Any:
    """Reduce a block; None where it is empty, as partitions are after a filter."""
    return blocks.map_reduce(fold.f, fold.combine, *small) if len(blocks) else None


def _several(combine: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    """Combine many results; the first is copied, as a task must not change what it is given."""

    def combined(parts: list[Any]) -> Any:
        parts = [part for part in parts if part is not None]
        if len(parts) < 2:
            return parts[0] if parts else None
        return reduce(combine, parts[1:], copy.deepcopy(parts[0]))

    return combined


def _whole(block: Any) -> Any:
    """Return the block itself: an axis that is not in the result comes as a list of one, nested."""
    while isinstance(block, list):
        (block,) = block
    return block


def _no_rows(values: Any) -> Data:
    """Return an array of no rows, of the kind of a Dask array's blocks."""
    shape = (0, *values.shape[1:])
    if sparse.issparse(values._meta):
        return sparse.csr_array(shape, dtype=values.dtype)
    return np.empty(shape, values.dtype)
