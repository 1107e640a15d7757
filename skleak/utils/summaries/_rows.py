"""Rows of tables wherever they are: their positions, and a few of them in memory."""

from typing import Any

import numpy as np

from skleak.utils._blocks import dense
from skleak.utils._optional import dask_module
from skleak.utils._typing import IntArray


def is_lazy(values: Any) -> bool:
    """Return True for a Dask collection, whose rows are not in this process."""
    return hasattr(values, "__dask_graph__")


def positions_of(X: Any) -> Any:
    """Positions of the rows of a table, (n,), in the same blocks."""
    if not is_lazy(X):
        return np.arange(X.shape[0])
    return dask_module("dask.array").arange(X.shape[0], chunks=(X.chunks[0],))


def as_one_block(values: Any) -> Any:
    """Return an array in memory as a Dask array of one block."""
    return values if is_lazy(values) else dask_module("dask.array").from_array(values, chunks=-1)


def fetched(rows: IntArray, *arrays: Any) -> list[Any]:
    """Some rows of arrays, in memory; of a sparse matrix as a dense one."""
    parts = [values[rows] for values in arrays]
    if any(map(is_lazy, parts)):
        parts = list(dask_module("dask").compute(*parts))
    return [dense(values) for values in parts]
