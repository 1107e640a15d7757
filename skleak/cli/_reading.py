"""Read a table from a file as people have them: any separator, decimal commas, old encodings."""

import bz2
import csv
import gzip
import io
import lzma
import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skleak.cli._arguments import data_file
from skleak.plotting.labels import count, plural, shorten

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_PARQUET = (".parquet", ".pq")
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SAMPLE = 50
# Digits with a decimal comma, and dots between thousands if at all.
_DECIMAL_COMMA = r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][+-]?\d+)?\s*"
_MAX_SHOWN = 12


@dataclass(frozen=True)
class Reading:
    """A table as it was read, and how. Confidential."""

    frame: pd.DataFrame  # Columns have names that are strings and differ, (n, n_columns)
    notes: tuple[str, ...]  # What was read, and what had to be assumed


def read_table(path: str) -> Reading:
    """Read a CSV file, compressed or not, or a Parquet file."""
    file = data_file(path)
    try:
        if file.suffix.lower() in _PARQUET:
            frame, notes = _read_parquet(file), ["Parquet"]
        else:
            frame, notes = _read_csv(file)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read {path!r}: {why}") from error
    if len(frame) < 2 or not len(frame.columns):
        raise ValueError(
            f"{path!r} holds {plural(len(frame), 'record')} of "
            f"{plural(len(frame.columns), 'column')}; expected a line of names and at least 2 "
            "records"
        )
    frame = _named(frame).reset_index(drop=True)
    size = f"{plural(len(frame), 'record')}, {plural(len(frame.columns), 'column')}"
    return Reading(frame, (f"Read {file.name}: {size} ({', '.join(notes[:1])}).", *notes[1:]))


def resolve_column(frame: pd.DataFrame, name: str, option: str) -> str:
    """Find a column by the name that the user typed."""
    columns = list(frame.columns)
    if name in columns:
        return name
    folded = {column.strip().casefold(): column for column in reversed(columns)}
    near = [folded[found] for found in get_close_matches(name.strip().casefold(), folded, 3, 0.5)]
    if near:
        advice = f"Did you mean {' or '.join(repr(shorten(found, 40)) for found in near)}?"
    else:
        shown = ", ".join(repr(shorten(column, 40)) for column in columns[:_MAX_SHOWN])
        advice = f"The columns are {shown}{', …' if len(columns) > _MAX_SHOWN else ''}"
    raise ValueError(f"{option}: there is no column {name!r}. {advice}")


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(file, engine="pyarrow")
    except ImportError as error:
        raise ImportError(
            "reading Parquet needs pyarrow, which is not installed. Install it with `pip install "
            "pyarrow`, or save the table as CSV"
        ) from error
    named = any(name is not None for name in frame.index.names)
    return frame.reset_index() if named else frame


def _read_csv(file: Path) -> tuple[pd.DataFrame, list[str]]:
    text, encoding = _text(file)
    if not text.strip():
        raise ValueError("the file is empty")
    separator = _separator(text)
    _check_names(text, separator)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                io.StringIO(text),
                sep=separator,
                skipinitialspace=True,
                na_values=["?"],
                # Else the first column would be an index where lines are too long by one.
                index_col=False,
                low_memory=False,
            )
        except pd.errors.ParserWarning as error:
            raise ValueError(
                "lines hold more cells than the first, which must name every column"
            ) from error
        except pd.errors.ParserError as error:
            why = str(error).rpartition("C error: ")[2].strip()
            raise ValueError(
                f"{why}. Expected a table whose lines have the same number of cells; put cells "
                "that hold the separator in quotes"
            ) from error
    how = f"separated by {_SEPARATORS[separator]}"
    notes = [how if encoding == "utf-8-sig" else f"{how}, encoded as {encoding}"]
    if separator != ",":
        converted = [name for name in frame.columns if _convert_decimal_comma(frame, name)]
        if converted:
            shown = ", ".join(shorten(name, 40) for name in converted[:_MAX_SHOWN])
            more = len(converted) - _MAX_SHOWN
            shown += f" and {count(more)} more" if more > 0 else ""
            notes.append(f"Numbers with a decimal comma: {shown}.")
    return frame, notes


def _check_names(text: str, separator: str) -> None:
    """Refuse a name that two columns have: the reader would rename the second."""
    rows = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    try:
        _check_differ([name.strip() for name in next(filter(None, rows), [])])
    except csv.Error:
        return  # pandas tells


def _check_differ(names: list[str]) -> None:
    """Tell places and no name: of a file without a head it is a value of somebody."""
    for k, name in enumerate(names):
        if name and name in names[:k]:
            raise ValueError(
                f"columns {names.index(name) + 1} and {k + 1} have the same name. Expected a first "
                "line of names; give every column one of its own"
            )


def _text(file: Path) -> tuple[str, str]:
    """Content of a file, decompressed and decoded."""
    with _OPENERS.get(file.suffix.lower(), open)(file, "rb") as stream:
        content: bytes = stream.read()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16"), "utf-16"
    if b"\0" in content:
        raise ValueError("it is not text. Save the table as CSV or Parquet")
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), "latin-1"


def _separator(text: str) -> str:
    """Return the separator that gives all lines the same number of cells, and most of them."""
    lines = text[: 1 << 20].splitlines()[: _SAMPLE + 1]
    best, cells = ",", (False, 1)
    for separator in _SEPARATORS:
        try:
            rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
        except csv.Error:
            continue
        widths = [len(row) for row in rows if row]
        found = (len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0)
        if found > cells:
            best, cells = separator, found
    return best


def _convert_decimal_comma(frame: pd.DataFrame, name: Any) -> bool:
    column = frame[name]
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    present = column.dropna().astype(str)
    if not len(present) or not present.str.fullmatch(_DECIMAL_COMMA).all():
        return False
    if not present.str.contains(",", regex=False).any():
        return False
    plain = present.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    numbers = pd.Series(np.nan, index=frame.index)
    numbers[plain.index] = plain.astype(np.float64)
    frame[name] = numbers
    return True


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Names are strings without spaces around them, as long as they differ."""
    names = ["" if name is None else str(name) for name in frame.columns]
    stripped = [name.strip() for name in names]
    if len(set(stripped)) == len(names):
        names = stripped
    _check_differ(names)
    frame.columns = pd.Index(names, dtype=object)
    return frame
