"""Write files, tables and JSON."""

import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from skleak.utils._arguments import import_optional
from skleak.utils._blocks import aligned_chunks, computed, is_large, positions_of, row_blocks
from skleak.utils._confidential import CalibratedNoise
from skleak.utils._typing import Array, FloatArray

# The owner alone; the umask may take more away.
_OWNER = 0o600
# Windows would write "\r\n" for "\n".
_BINARY = getattr(os, "O_BINARY", 0)


def write_confidential(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file that is there whole or not at all, and that only its owner may read.

    A file that is there already keeps a stricter mode, and loses a laxer one. Pipes and devices
    are written to as they are.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():  # a pipe or a terminal; a folder raises
        with target.open("wb") as stream:
            fill(stream)
        return
    draft = target.with_name(f".{secrets.token_hex(8)}.skleak")
    try:
        # Made with its mode, so that at no moment anybody else may open it.
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, _OWNER)
        with os.fdopen(handle, "w+b") as file:
            fill(file)
        if target.exists():
            mode = stat.S_IMODE(draft.stat().st_mode) & stat.S_IMODE(target.stat().st_mode)
            draft.chmod(mode)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


_FORMAT = "skleak"
_VERSION = 1
# Booleans, integers, floats, text and objects (of plain values): nothing that runs code.
_DTYPE = re.compile(r"\|b1|[<|][iu][1248]|<f[248]|<U\d{1,6}|\|O")
# An array of text takes the room of its longest one for each: a short document could ask for more
# memory than there is.
_MOST_CHARACTERS = 10_000_000
_TOO_DEEP = "This document is nested deeper than any that is written: it is damaged."


def encode(value: Any) -> Any:
    """Express a plain value, a container of plain values or an array in JSON.

    Doubles are written by their shortest text that reads back as the same double. What JSON does
    not tell apart (arrays, tuples, mappings, infinities) is an object of one key that names it.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, CalibratedNoise):
        return {"calibrated": encode(float(value))}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"mapping": {key: encode(item) for key, item in value.items()}}
    if isinstance(value, np.ndarray):
        kind = value.dtype.newbyteorder("<").str
        if _DTYPE.fullmatch(kind):
            values = [encode(item) for item in value.ravel().tolist()]
            return {"array": {"dtype": kind, "shape": list(value.shape), "values": values}}
        raise TypeError(f"Arrays of {value.dtype} cannot be written to JSON: cast them to text.")
    raise TypeError(
        f"A {type(value).__name__} cannot be written to JSON: got {value!r}. Only None, numbers, "
        "text, and lists, tuples, dictionaries and arrays of them can."
    )


def decode(value: Any) -> Any:
    """Read what `encode` wrote; ValueError for anything else."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError(f"Expected an object of one key; got the keys {sorted(value)[:5]}.")
    ((tag, content),) = value.items()
    if tag == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if tag == "calibrated" and isinstance(number := decode(content), float):
        return CalibratedNoise(number)
    if tag == "tuple" and isinstance(content, list):
        return tuple(decode(item) for item in content)
    if tag == "mapping" and isinstance(content, dict):
        return {key: decode(item) for key, item in content.items()}
    if tag == "array" and isinstance(content, dict):
        return _array(content)
    raise ValueError(f"Expected a number, text, list, tuple, mapping or array; got {tag!r}.")


def _array(content: dict[str, Any]) -> Array:
    if set(content) != {"dtype", "shape", "values"}:
        raise ValueError(f"An array must have dtype, shape and values; got {sorted(content)[:5]}.")
    kind, shape, values = content["dtype"], content["shape"], content["values"]
    if not isinstance(kind, str) or not _DTYPE.fullmatch(kind):
        raise ValueError(f"The dtype of an array must be that of numbers or text; got {kind!r}.")
    sizes: list[Any] = shape if isinstance(shape, list) else [None]
    if not isinstance(values, list) or not all(type(n) is int and n >= 0 for n in sizes):
        raise ValueError("An array must have a list of sizes and a list of values.")
    if math.prod(sizes) != len(values):
        raise ValueError(f"An array of shape {tuple(sizes)} cannot hold {len(values)} values.")
    items = [decode(item) for item in values]
    expected = {"b": bool, "i": int, "u": int, "f": float, "U": str}.get(kind[1], object)
    if not all(type(item) is expected or expected is object for item in items):
        raise ValueError(f"An array of dtype {kind!r} must hold {expected.__name__} values only.")
    if kind[1] == "U" and int(kind[2:]) * len(items) > _MOST_CHARACTERS:
        raise ValueError(
            f"An array of {len(items)} texts of dtype {kind!r} is larger than any that is written."
        )
    array = np.empty(len(items), dtype=kind)
    try:
        array[:] = items
    except (OverflowError, ValueError) as error:
        raise ValueError(f"The values of an array do not fit its dtype {kind!r}.") from error
    return array.reshape(sizes)


def write_document(kind: str, content: dict[str, Any]) -> str:
    """Write a document of a kind, with the version of the format."""
    document = {"format": _FORMAT, "version": _VERSION, "kind": kind}
    content = {key: encode(value) for key, value in content.items()}
    return json.dumps({**document, "content": content}, allow_nan=False, ensure_ascii=False)


def read_document(text: "str | bytes") -> tuple[str, dict[str, Any]]:
    """Read the kind and the content of a document; ValueError where it is none."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise ValueError(f"This is no JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(
            "This is no document of skleak. Pass what `to_json()` of a release returned."
        )
    if document.get("version") != _VERSION:
        raise ValueError(
            f"This document has version {document.get('version')!r} of the format, and this skleak "
            f"reads version {_VERSION}. Read it with the skleak that wrote it."
        )
    kind, content = document.get("kind"), document.get("content")
    if not isinstance(kind, str) or not isinstance(content, dict):
        raise ValueError("This document has no kind or no content: it is damaged.")
    try:
        return kind, {key: decode(value) for key, value in content.items()}
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


# Numbers of one group of rows, which are in memory at once: 64 MB.
_ELEMENTS = 1 << 23
# In the footer of every file written here: no other file is replaced by one.
_MARK = b"skleak"


def write_table(path: Any, values: Any, names: Sequence[str], labels: Any = None) -> Path:
    """Write a Parquet file, whole or not at all, and for its owner alone; return its path.

    Shapes: ``values`` (n, k), a Dask array or one in memory; ``labels`` (n,), an index, an array or
    a Dask array; by default the positions of the rows.
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
    try:
        is_own = not target.exists() or _MARK in (parquet.read_schema(target).metadata or {})
    except arrow.ArrowInvalid:
        is_own = False
    if not is_own:
        raise FileExistsError(
            f"`out={str(target)!r}` is a file that was not written here, perhaps the records "
            "themselves. Pass another path, or delete the file first."
        )

    def fill(stream: BinaryIO) -> None:
        tables = _arrow_tables(arrow, values, names, labels)
        first = next(tables)
        with parquet.ParquetWriter(stream, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)

    write_confidential(target, fill)
    return target


def _arrow_tables(arrow: Any, values: Any, names: Sequence[str], labels: Any) -> Iterator[Any]:
    """Yield groups of rows as tables of one schema, with their labels as a column."""
    labels = positions_of(values) if labels is None else labels
    name = getattr(labels, "name", None) if isinstance(labels, pd.Index) else None
    name, schema = name if isinstance(name, str) else "record", None
    for numbers, own in _row_groups(values, labels):
        index = own if isinstance(own, pd.Index) else pd.Index(own)
        if index.nlevels > 1:
            index = pd.Index([str(label) for label in index.to_flat_index()])
        index = index.rename(None if name in names else name)
        frame = pd.DataFrame(numbers, columns=list(names), index=index)
        try:
            table = arrow.Table.from_pandas(frame, schema=schema, preserve_index=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise TypeError(
                "The labels of the records are of mixed types, and a column of a Parquet file has "
                "one. Give the records an index of text, or of whole numbers."
            ) from error
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _MARK: b"leakage"})
        schema = table.schema
        yield table


def _row_groups(values: Any, labels: Any) -> Iterator[tuple[FloatArray, Array]]:
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
        numbers, *own = computed([one[rows] for one in (values, *rest)])
        yield numbers, own[0] if own else labels[rows]
        start = rows.stop
