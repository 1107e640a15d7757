"""Blocks of columns as numbers."""

from typing import Any

import numpy as np
from scipy import sparse

from skleak.utils._optional import dask_module


def as_floats(values: Any, name: str, columns: list[str] | None = None) -> Any:
    """Turn a Dask array into one of float64 numbers, lazily; TypeError where it holds others.

    Shapes: ``values`` (n, ...).
    """
    if values.dtype.kind not in "biufO":
        raise TypeError(
            f"{name} must hold numbers; got dtype {values.dtype}. Encode it, or leave it out."
        )
    array = dask_module("dask.array")
    kind = "numbers" if values.dtype.kind != "O" else "any"
    meta = values._meta if sparse.issparse(values._meta) else np.empty((0,) * values.ndim)
    return array.map_blocks(
        block_as_floats, values, name, kind, columns, dtype=np.float64, meta=meta
    )


def only_finite(values: Any, name: str, columns: list[str] | None = None) -> Any:
    """Refuse NaN and infinity in a Dask array of numbers, as its blocks are walked through."""
    array = dask_module("dask.array")
    meta = values._meta if sparse.issparse(values._meta) else np.empty((0,) * values.ndim)
    return array.map_blocks(_finite_block, values, name, columns, dtype=np.float64, meta=meta)


def _finite_block(block: Any, name: str, columns: list[str] | None, block_info: Any = None) -> Any:
    stored = block.data if sparse.issparse(block) else block
    if not np.isfinite(stored).all():
        held = "NaN" if np.isnan(stored).any() else "infinity"
        where = ""
        if not sparse.issparse(block):
            at = np.argwhere(~np.isfinite(block))[0]
            start = block_info[0]["array-location"][0][0] if block_info else 0
            where = f", first in row {start + int(at[0])}"
            if block.ndim > 1:
                column = columns[at[1]] if columns else f"x{at[1]}"
                where += f" of column {column!r}"
        raise ValueError(
            f"Input {name} contains {held}{where}. Impute such values, or drop the records."
        )
    return block


def block_as_floats(block: Any, name: str, kind: str, columns: list[str] | None) -> Any:
    """Return a block as float64 numbers, be it dense or CSR."""
    if sparse.issparse(block):
        return sparse.csr_array(block, dtype=np.float64)
    block = np.asarray(block)
    if kind == "numbers" and block.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} has blocks of mixed types: it is declared to hold numbers, and one of its "
            f"blocks is of dtype {block.dtype}. Give all partitions one type."
        )
    try:
        return block.astype(np.float64, copy=False)
    except (ValueError, TypeError):
        where = _first_text(block, columns)
        raise ValueError(
            f"Could not convert {name} to numbers: {where} holds none. Encode it or leave it out."
        ) from None


def _first_text(block: Any, columns: list[str] | None) -> str:
    """Name the first column of a block that is no number somewhere."""
    table = block.reshape(len(block), -1)
    for j in range(table.shape[1]):
        try:
            table[:, j].astype(np.float64)
        except (ValueError, TypeError):
            return "it" if block.ndim == 1 else f"column {columns[j] if columns else f'x{j}'!r}"
    return "it"
