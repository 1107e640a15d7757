"""Tables of numbers, with a label for each row, into Parquet files, block by block."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from skleak.utils._files import write_confidential
from skleak.utils._optional import import_optional
from skleak.utils._typing import Array, FloatArray
from skleak.utils.blocks._dask import aligned_chunks, is_large, positions_of
from skleak.utils.blocks._passes import rows_computed

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
        step = max(1, _ELEMENTS // max(1, k))
        for start in range(0, max(n, 1), step):
            yield values[start : start + step], labels[start : start + step]
        return
    values, *rest = aligned_chunks(values, [labels] if is_large(labels) else [])
    start = 0
    for stop in _ends(values.chunks[0], max(1, _ELEMENTS // max(1, k))):
        own = [one[start:stop] for one in rest]
        numbers, *told = rows_computed(values[start:stop], *own)
        yield numbers, told[0] if told else labels[start:stop]
        start = stop


def _ends(sizes: Sequence[int], most: int) -> Iterator[int]:
    """Yield where groups of whole blocks end, of at most so many rows or one block."""
    start = stop = 0
    for size in sizes:
        if stop > start and stop + size - start > most:
            yield stop
            start = stop
        stop += size
    yield stop


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
