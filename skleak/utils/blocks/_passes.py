"""Passes over all records: run, counted, shown, and their errors explained."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from skleak.utils._optional import dask_module

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
    passes = _PASSES.get() or Passes()
    passes.n += 1
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
