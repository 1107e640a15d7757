"""Blocks of this process on all of its cores: threads with one thread of BLAS each."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

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
