"""Stored tables: what they share, and that they stay the same."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.utils._arguments import dask_module, import_optional
from skleak.utils._blocks import aligned_chunks, computed, is_large, positions_of, row_blocks
from skleak.utils._files import write_confidential
from skleak.utils._typing import Array, FloatArray

# Numbers of one group of rows, which are in memory at once: 64 MB.
_ELEMENTS = 1 << 23
_LABEL = "record"
# In the footer of every file written here: no other file is replaced by one.
_MARK = b"skleak"


def write_table(path: Any, values: Any, names: Sequence[str], labels: Any = None) -> Path:
    """Write a table, whose file is there whole or not at all, and for its owner alone.

    Shapes: ``values`` (n, k), a Dask array or one in memory; ``labels`` (n,), an index, an array or
    a Dask array; by default the positions of the rows. Returns the path.
    """
    arrow = import_optional("pyarrow", "parquet", "Writing a Parquet file")
    parquet = import_optional("pyarrow.parquet", "parquet", "Writing a Parquet file")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"`out` is the folder {str(target)!r}. Pass the path of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(target.parent)!r} for the file of `out`. Make it first."
        )
    if target.exists() and not _is_own(arrow, parquet, target):
        raise FileExistsError(
            f"`out={str(target)!r}` is a file that was not written here, perhaps the records "
            "themselves. Pass another path, or delete the file first."
        )
    labels = positions_of(values) if labels is None else labels
    name = getattr(labels, "name", None) if isinstance(labels, pd.Index) else None
    name = name if isinstance(name, str) else _LABEL

    def fill(stream: Any) -> None:
        writer = None
        try:
            for numbers, own in _blocks(values, labels):
                frame = pd.DataFrame(numbers, columns=list(names), index=_index(own, name, names))
                schema = None if writer is None else writer.schema
                block = _as_arrow(arrow, frame, schema)
                if writer is None:
                    writer = parquet.ParquetWriter(stream, block.schema)
                writer.write_table(block)
        finally:
            if writer is not None:
                writer.close()

    write_confidential(target, fill)
    return target


def _is_own(arrow: Any, parquet: Any, file: Path) -> bool:
    try:
        return _MARK in (parquet.read_schema(file).metadata or {})
    except arrow.ArrowInvalid:
        return False


def _blocks(values: Any, labels: Any) -> Iterator[tuple[FloatArray, Array]]:
    """Yield groups of rows in memory, with their labels."""
    n, k = values.shape
    if not is_large(values):
        for rows in list(row_blocks(n, k, _ELEMENTS)) or [slice(0, 0)]:
            yield values[rows], labels[rows]
        return
    values, *rest = aligned_chunks(values, [labels] if is_large(labels) else [])
    sizes, start = values.chunks[0], 0
    step = max(1, _ELEMENTS // max(1, k * max(sizes)))
    for first in range(0, len(sizes), step):
        rows = slice(start, start + sum(sizes[first : first + step]))
        numbers, *told = computed([one[rows] for one in (values, *rest)])
        yield numbers, told[0] if told else labels[rows]
        start = rows.stop


def _index(labels: Any, name: str, names: Sequence[str]) -> pd.Index:
    index = labels if isinstance(labels, pd.Index) else pd.Index(labels)
    if index.nlevels > 1:
        index = pd.Index([str(label) for label in index.to_flat_index()])
    return index.rename(None if name in names else name)


def _as_arrow(arrow: Any, frame: pd.DataFrame, schema: Any) -> Any:
    try:
        table = arrow.Table.from_pandas(frame, schema=schema, preserve_index=True)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        raise TypeError(
            "The labels of the records are of mixed types, and a column of a Parquet file has one. "
            "Give the records an index of text, or of whole numbers."
        ) from error
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _MARK: b"leakage"})


def as_floats(values: Any, name: str, columns: list[str] | None = None) -> Any:
    """Turn a Dask array into one of float64 numbers, lazily; TypeError where it holds others.

    Shapes: ``values`` (n, ...).
    """
    if values.dtype.kind not in "biufO":
        raise TypeError(
            f"{name} must hold numbers; got dtype {values.dtype}. Encode it, or leave it out."
        )
    return _block_by_block(_as_floats, values, name, columns, values.dtype.kind != "O")


def only_finite(values: Any, name: str, columns: list[str] | None = None) -> Any:
    """Refuse NaN and infinity in a Dask array of numbers, as its blocks are walked through."""
    return _block_by_block(_finite_block, values, name, columns)


def _block_by_block(f: Callable[..., Any], values: Any, *given: Any) -> Any:
    meta = values._meta if sparse.issparse(values._meta) else np.empty((0,) * values.ndim)
    map_blocks = dask_module("dask.array").map_blocks
    return map_blocks(f, values, *given, dtype=np.float64, meta=meta)


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


def _as_floats(block: Any, name: str, columns: list[str] | None, declared: bool) -> Any:
    """Return a block as float64 numbers, be it dense or CSR."""
    if sparse.issparse(block):
        return sparse.csr_array(block, dtype=np.float64)
    block = np.asarray(block)
    if declared and block.dtype.kind not in "biuf":
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
