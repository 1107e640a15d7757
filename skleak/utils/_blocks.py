"""Records in blocks: of memory, of Dask, and passes over them."""

import copy
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache, reduce
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
    with _blas().limit(limits=1), ThreadPoolExecutor(n_threads) as pool:
        yield from _window(pool, f, blocks, _AHEAD * n_threads)


def _window(
    pool: ThreadPoolExecutor, f: Callable[[Block], Result], blocks: Iterable[Block], most: int
) -> Iterator[Result]:
    """Yield results with at most so many blocks under way."""
    waiting: deque[Future[Result]] = deque()
    try:
        for block in blocks:
            # What is set for this thread only, as NumPy's handling of errors, holds there as well.
            waiting.append(pool.submit(copy_context().run, f, block))
            if len(waiting) >= most:
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
) -> Array:
    """Stack what is computed of the rows of each block, (n, ...), for a watcher to see and to keep.

    Blocks follow one another, and are the same in each run. Estimators of anybody are fitted with
    ``threads=False``: one block after the other, in this thread.
    """
    watcher = _WATCHER.get()
    known = watcher.begin(name, n) if watcher is not None else None
    # Parts of a part are computed again with it: a watcher that kept them would mix them up.
    alone = watched_by(None)(compute)
    result: Array | None = None

    def part_of(block: slice) -> Array:
        return known[block] if known is not None and len(known) >= block.stop else alone(block)

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


def run_pass(
    graph: Any, layer: str, blocks: tuple[str, int], keys: Sequence[Any], task: str = ""
) -> Any:
    """Compute the last of the keys of a layer of a graph, whose blocks have a name and a number.

    The other keys are those of the first level of the tree, by which a cluster tells its progress.
    """
    delayed = dask_module("dask.delayed")
    passes = _PASSES.get() or Passes()
    passes.n += 1
    result = delayed.Delayed(keys[-1], graph, layer=layer)
    shown = passes.verbose or bool(task)
    label = task or f"pass {passes.n}"
    bar = tqdm(total=blocks[1], desc=label, unit="block", leave=False) if shown else nullcontext()
    with _scheduler() as client, bar as progress, explained(client):
        if client is None:
            return _run_here(result, blocks[0], progress)
        if progress is not None:
            first = [delayed.Delayed(key, graph, layer=layer) for key in keys[:-1]]
            return _follow(client, first, result, progress)
        return result.compute()


def keep(values: Any) -> Any:
    """Compute a Dask array where it lies, and keep it there; one pass.

    On a cluster, whose workers move to disk what does not fit; in this process up to 256 MB, and
    beyond that it is computed anew whenever it is needed.
    """
    client = _client_of(dask_module("dask.base").get_scheduler())
    if client is None and values.nbytes > _MOST_KEPT:
        return values
    (_PASSES.get() or Passes()).n += 1
    with explained(client), threadpool_limits(1, user_api="blas"):
        return values.persist()


def computed(collections: Iterable[Any]) -> tuple[Any, ...]:
    """Compute small results of Dask collections together: one pass."""
    (_PASSES.get() or Passes()).n += 1
    with _scheduler() as client, explained(client):
        found: tuple[Any, ...] = dask_module("dask").compute(*collections)
    return found


def _run_here(result: Any, name: str, progress: Any) -> Any:
    """Compute by the threads or processes of this machine, each with one thread of BLAS."""

    def finished(key: Any, *_: Any) -> None:
        if progress is not None and isinstance(key, tuple) and key[0] == name:
            progress.update()

    with (
        threadpool_limits(1, user_api="blas"),
        dask_module("dask.callbacks").Callback(posttask=finished),
    ):
        return result.compute()


def rows_computed(*arrays: Any) -> tuple[Any, ...]:
    """Blocks of lazy arrays in memory, computed together as a pass is."""
    from dask import base

    client = _client_of(base.get_scheduler())
    with explained(client), threadpool_limits(1 if client is None else None, user_api="blas"):
        return tuple(base.compute(*arrays))


def _follow(client: Any, first: Sequence[Any], result: Any, progress: Any) -> Any:
    """Compute, and show how many of the first combinations a cluster has finished."""
    futures = client.compute([*first, result], optimize_graph=False)
    share = progress.total / max(1, len(first))
    for _ in dask_module("distributed").as_completed(futures[:-1]):
        progress.update(share)
    return futures[-1].result()


@contextmanager
def _scheduler() -> Iterator[Any]:
    """Return the client of the cluster that computes; None for schedulers of this machine.

    A task of a cluster that asks it for more leaves its thread first: were all threads to wait,
    nobody would compute.
    """
    module = sys.modules.get("distributed.worker")
    if module is not None and hasattr(module.thread_state, "execution_state"):
        with dask_module("distributed").worker_client() as client:
            yield client
        return
    yield _client_of(dask_module("dask.base").get_scheduler())


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
    # Results of a cluster that is there may be cancelled, too: that is another error.
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
