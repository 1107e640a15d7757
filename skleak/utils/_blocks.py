"""Records in blocks: of memory, of Dask, and passes over them."""

import copy
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, partial, reduce
from os import PathLike
from typing import Any, Protocol, TypeGuard, TypeVar
from uuid import uuid4

import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController, threadpool_limits
from tqdm import tqdm

from skleak.utils._arguments import dask_module
from skleak.utils._typing import Array, Data, FloatArray, IntArray

Block = TypeVar("Block")
Result = TypeVar("Result")
# Fewer are left to the threads of BLAS.
_FEWEST_BLOCKS = 8
# Results that wait for those before them, for each thread.
_AHEAD = 2


def in_order(f: Callable[[Block], Result], blocks: Sequence[Block]) -> Iterator[Result]:
    """Yield ``f(block)`` of all blocks, in their order, whichever is finished first.

    There are as many threads as BLAS may use here, so that limits of it, of joblib's workers and of
    Dask's hold for these too; inside a thread BLAS has one, so that cores are not asked for twice.
    """
    n_threads = min(_blas_threads(), len(blocks) // 2) if len(blocks) >= _FEWEST_BLOCKS else 1
    if n_threads < 2:
        yield from map(f, blocks)
        return
    waiting: deque[Future[Result]] = deque()
    with _blas().limit(limits=1), ThreadPoolExecutor(n_threads) as pool:
        try:
            for block in blocks:
                # What is set for this thread only, as NumPy's handling of errors, holds there, too.
                waiting.append(pool.submit(copy_context().run, f, block))
                if len(waiting) >= _AHEAD * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


def _blas_threads() -> int:
    """Return how many threads BLAS may use now."""
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


# Number of float64 values in one block of an (n, d) table: 2 MB, so that the handful of tables
# a block needs at once stays in the processor's cache.
BLOCK_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Blocks:
    """Records, with what is aligned with them, as the blocks that functions are applied to.

    Whoever computes says what is done to a block; only the kinds of blocks know where the records
    lie: in an array, a memory map or a CSR matrix, or in Dask arrays. Functions must not hold
    records of their own, as they travel to where the records are. No rows are one empty block, so
    that results have their shapes all the same.
    """

    X: Data  # (n, d)
    aligned: tuple[Array, ...]  # (n, ...) each
    width: int
    elements: int
    keep_sparse: bool
    rows: IntArray | None = None
    task: str = ""
    part: str = ""

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
            Name of a progress bar; no bar if empty.
        part : str, default=""
            Name under which a watcher knows what is mapped; nothing is watched if empty.
        """
        width = X.shape[1] if width is None else width
        if not is_large(X):
            return Blocks(X, aligned, width, elements, keep_sparse, rows, task, part)
        X, *together = aligned_chunks(X, aligned)
        if rows is not None:
            X, *together = (values[np.asarray(rows)] for values in (X, *together))
        return DaskBlocks(X, tuple(together), width, elements, keep_sparse, task=task)

    def __len__(self) -> int:
        return int(self.X.shape[0]) if self.rows is None else len(self.rows)

    def map(self, f: Callable[..., Array], *small: Any) -> Array:
        """Stack ``f(X, *aligned, *small)`` of all blocks, which has a row for each record.

        Lazily, as a Dask array, where the records are Dask arrays.
        """
        n, compute = len(self), self._call(f, small)
        return stacked(self.part, n, self._parts, compute, task=self.task)

    def map_reduce(
        self, f: Callable[..., Result], combine: Callable[[Result, Result], Result], *small: Any
    ) -> Result:
        """Combine ``f(X, *aligned, *small)`` of all blocks; `add` sums them.

        One pass over all records. ``combine`` is associative, and may change its first argument.
        """
        parts = self._parts
        if len(parts) == 1 and not self.task:
            return self._call(f, small)(parts[0])
        return reduce(combine, _shown(in_order(self._call(f, small), parts), parts, self.task))

    @property
    def _parts(self) -> list[slice]:
        return list(row_blocks(len(self), self.width, self.elements)) or [slice(0, 0)]

    def _call(self, f: Callable[..., Result], small: tuple[Any, ...]) -> Callable[[slice], Result]:
        def call(part: slice) -> Result:
            which = part if self.rows is None else self.rows[part]
            whole = self.rows is None and part.stop - part.start == len(self)
            records = self.X if whole else self.X[which]  # a slice of CSR is a copy
            if not self.keep_sparse:
                records = dense(records)
            return f(records, *(values[which] for values in self.aligned), *small)

        return call


def _shown(results: Iterable[Result], parts: Sequence[slice], task: str) -> Iterable[Result]:
    """Show a bar while the results of blocks come, where it has a name."""
    if not task:
        # A bar that shows nothing costs as much as a small block.
        yield from results
        return
    with tqdm(total=parts[-1].stop, desc=task, unit="record", leave=False) as bar:
        for part, result in zip(parts, results, strict=True):
            yield result
            bar.update(part.stop - part.start)


class Watcher(Protocol):
    """Sees the parts of long computations as they come, and may know some of them already."""

    def begin(self, name: str, n: int) -> Array | None:
        """Return the first rows of n, (k, ...), as an earlier run computed them."""

    def done(self, name: str, rows: Array, n: int) -> None:
        """Take notice of the first rows of n, (k, ...); more of the same array come later."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher | None) -> Iterator[None]:
    """Let somebody watch what is computed in parts, or nobody."""
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
    task: str = "",
) -> Array:
    """Stack what is computed of the rows of each block, (n, ...), for a watcher to see and to keep.

    Blocks follow one another, and are the same in each run. Estimators of anybody are fitted with
    ``threads=False``: one block after the other, in this thread. Nobody watches without a name.
    """
    watcher = _WATCHER.get() if name and n else None
    known = watcher.begin(name, n) if watcher is not None else None
    # Parts of a part are computed again with it: a watcher that kept them would mix them up.
    alone = watched_by(None)(compute) if name else compute
    result: Array | None = None

    def part_of(block: slice) -> Array:
        return known[block] if known is not None and len(known) >= block.stop else alone(block)

    parts = list(blocks)
    found = _shown(in_order(part_of, parts) if threads else map(part_of, parts), parts, task)
    for block, part in zip(parts, found, strict=True):
        if result is None:
            result = part if len(parts) == 1 else np.empty((n, *part.shape[1:]), part.dtype)
        if len(parts) > 1:
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


# Bytes of a vector of all records that this process keeps.
_MOST_KEPT = 1 << 28


@dataclass
class Passes:
    """Number of walks through all records."""

    n: int = 0
    verbose: bool = False  # whether each has a progress bar


_PASSES: ContextVar[Passes | None] = ContextVar("passes", default=None)


@contextmanager
def counted_passes(verbose: bool = False) -> Iterator[Passes]:
    """Count the passes over records outside memory."""
    passes = Passes(0, verbose)
    token = _PASSES.set(passes)
    try:
        yield passes
    finally:
        _PASSES.reset(token)


def run_pass(result: Any, first: Sequence[Any], n_blocks: int, task: str = "") -> Any:
    """Compute a delayed value; the first combinations tell a cluster's progress."""
    with _running() as (client, passes):
        label = task or f"pass {passes.n}"
        if not (task or passes.verbose):
            return result.compute()
        if client is None:
            from tqdm.dask import TqdmCallback

            with TqdmCallback(desc=label, unit="task", leave=False):
                return result.compute()
        futures = client.compute([*first, result], optimize_graph=False)
        with tqdm(total=n_blocks, desc=label, unit="block", leave=False) as bar:
            for _ in dask_module("distributed").as_completed(futures[:-1]):
                bar.update(n_blocks / len(first))
        return futures[-1].result()


def keep(values: Any) -> Any:
    """Compute a Dask array where it lies, and keep it there; one pass.

    On a cluster, whose workers move to disk what does not fit; in this process up to 256 MB, and
    beyond that it is computed anew whenever it is needed.
    """
    if _client_of(dask_module("dask.base").get_scheduler()) is None and values.nbytes > _MOST_KEPT:
        return values
    with _running():
        return values.persist()


def computed(collections: Iterable[Any]) -> tuple[Any, ...]:
    """Compute small results of Dask collections together: one pass."""
    with _running():
        found: tuple[Any, ...] = dask_module("dask").compute(*collections)
    return found


@contextmanager
def _running() -> Iterator[tuple[Any, Passes]]:
    """Count a pass, and yield the client of the cluster that computes with all counted so far.

    None for schedulers of this machine, each of whose threads has one of BLAS. A task of a cluster
    that asks it for more leaves its thread first: were all threads to wait, nobody would compute.
    """
    passes = _PASSES.get() or Passes()
    passes.n += 1
    module = sys.modules.get("distributed.worker")
    if module is not None and hasattr(module.thread_state, "execution_state"):
        with dask_module("distributed").worker_client() as client, explained(client):
            yield client, passes
        return
    client = _client_of(dask_module("dask.base").get_scheduler())
    with explained(client), threadpool_limits(None if client else 1, user_api="blas"):
        yield client, passes


def _client_of(get: Any) -> Any:
    """Return the client of a cluster whose method ``get`` is; None for other schedulers."""
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


@contextmanager
def explained(client: Any) -> Iterator[None]:
    """Say that the scheduler is gone where that is why a computation failed."""
    where = getattr(getattr(client, "scheduler", None), "address", "its address")
    try:
        yield
    except Exception as error:
        if not _is_gone(client, error):
            raise
        raise ConnectionError(
            f"The Dask scheduler at {where} is gone ({type(error).__name__}): the records can no "
            "longer be reached, and nothing was released. Start a cluster, connect a new "
            "`distributed.Client`, and fit again."
        ) from error


def _is_gone(client: Any, error: Exception) -> bool:
    if client is None:
        # Records that were left on a cluster, to which nobody is connected any more.
        lost = str(error).startswith("Missing dependency")
        return lost or type(error).__module__.partition(".")[0] == "distributed"
    closed = dask_module("distributed.comm.core").CommClosedError
    # Results of a cluster that is there may be canceled, too: that is another error.
    return client.status != "running" or isinstance(error, closed | TimeoutError)


# Results of blocks that are combined at once.
_SPLIT_EVERY = 8


def is_large(X: Any) -> TypeGuard[Any]:
    """Return True for a Dask array."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def is_frame(values: Any) -> bool:
    """Return True for a Dask data frame, or a series of one."""
    return type(values).__module__.startswith("dask.dataframe")


def is_large_source(X: Any) -> bool:
    """Return True for a Dask array or data frame, a Polars lazy frame, or the path of a table."""
    module = sys.modules.get("polars")
    is_lazy = module is not None and isinstance(X, module.LazyFrame)
    return is_large(X) or is_frame(X) or is_lazy or isinstance(X, str | PathLike)


class DaskBlocks(Blocks):
    """Records in Dask arrays, one chunk after the other.

    Inside a chunk the records are cut again, as those of an array in memory are.
    """

    def map(self, f: Callable[..., Array], *small: Any) -> Any:
        """Stack ``f(X, *aligned, *small)`` of all blocks, lazily, as a Dask array."""
        kernel = self._kernel(f, None, small)
        empty = kernel(*map(_no_rows, (self.X, *self.aligned)))
        axes = {k + 2: size for k, size in enumerate(empty.shape[1:])}
        meta = np.empty((0,) * empty.ndim, empty.dtype)
        return self._blockwise(kernel, (0, *axes), meta, new_axes=axes)

    def map_reduce(
        self, f: Callable[..., Result], combine: Callable[[Result, Result], Result], *small: Any
    ) -> Result:
        """Combine ``f(X, *aligned, *small)`` of all blocks, on the workers, as a tree."""
        kernel = self._kernel(f, combine, small)
        together = dask_module("dask").delayed(_combined, pure=False)
        parts = self._blockwise(kernel, (0,), np.empty(0, dtype=object)).to_delayed().tolist()
        n_blocks, first = len(parts), None
        while first is None or len(parts) > 1:
            groups = [parts[i : i + _SPLIT_EVERY] for i in range(0, len(parts), _SPLIT_EVERY)]
            parts = [together(combine, group) for group in groups]
            first = first or parts
        found: Any = run_pass(parts[0], first, n_blocks, self.task)
        if found is None:  # there is no record in any block
            X, *aligned = (_no_rows(values) for values in (self.X, *self.aligned))
            none = Blocks(X, tuple(aligned), self.width, self.elements, self.keep_sparse)
            found = none.map_reduce(f, combine, *small)
        result: Result = found
        return result

    def _kernel(self, f: Any, combine: Any, small: tuple[Any, ...]) -> Callable[..., Any]:
        cut = partial(
            Blocks, width=self.width, elements=self.elements, keep_sparse=self.keep_sparse
        )
        return partial(_on_block, f, combine, small, cut, np.geterr())

    def _blockwise(self, kernel: Any, index: Any, meta: Array, **options: Any) -> Any:
        """Apply a kernel to every block, as a lazy Dask array of blocks of what it returns."""
        token = uuid4().hex
        # The kernel is a task of its own, and goes to a worker once and not with each block.
        shared = dask_module("dask").delayed(
            kernel, name=f"kernel-{token}", pure=False, traverse=False
        )
        operands: list[Any] = []
        for k, values in enumerate((self.X, *self.aligned), start=1):
            operands += [values, (0, *(100 * k + j for j in range(1, values.ndim)))]
        options |= {"concatenate": None, "align_arrays": False, "dtype": meta.dtype, "meta": meta}
        return dask_module("dask.array").blockwise(
            operator.call, index, shared, None, *operands, name=f"records-{token}", **options
        )


def _on_block(
    f: Callable[..., Any],
    combine: Callable[[Any, Any], Any] | None,
    small: tuple[Any, ...],
    cut: Callable[..., Blocks],
    errors: Any,
    *arrays: Any,
) -> Any:
    """Map a block; or reduce it, to None if it is empty as partitions are after a filter.

    ``errors`` is how the caller handles errors of floating point.
    """
    X, *aligned = map(_whole, arrays)
    for values in aligned:
        if values.shape[0] != X.shape[0]:
            raise ValueError(
                f"A block of X has {X.shape[0]} rows, and that of what is aligned with it "
                f"{values.shape[0]}. Cut both into the same chunks of rows."
            )
    blocks = cut(X, tuple(aligned))
    with np.errstate(**errors):
        if combine is None:
            return blocks.map(f, *small)
        return blocks.map_reduce(f, combine, *small) if len(blocks) else None


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
    return Blocks.of(*columns, width=0).map(lambda *some: np.column_stack(some))


def _combined(combine: Callable[[Any, Any], Any], parts: list[Any]) -> Any:
    """Combine many results; the first is copied, as a task must not change what it is given."""
    parts = [part for part in parts if part is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return reduce(combine, parts[1:], copy.deepcopy(parts[0]))


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
