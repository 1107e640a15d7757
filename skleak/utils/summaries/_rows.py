"""Rows of tables wherever they are: a few of them in memory."""

from typing import Any

from skleak.utils._blocks import dense
from skleak.utils._optional import dask_module
from skleak.utils._typing import IntArray
from skleak.utils.blocks._dask import is_large


def as_one_block(values: Any) -> Any:
    """Return an array in memory as a Dask array of one block."""
    return values if is_large(values) else dask_module("dask.array").from_array(values, chunks=-1)


def fetched(rows: IntArray, *arrays: Any) -> list[Any]:
    """Return some rows of arrays, in memory; of a sparse matrix as a dense one."""
    parts = [values[rows] for values in arrays]
    if any(map(is_large, parts)):
        parts = list(dask_module("dask").compute(*parts))
    return [dense(values) for values in parts]
