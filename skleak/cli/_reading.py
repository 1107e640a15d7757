"""Files as people have them, any separator and encoding; and the names of their columns.

Nothing heavy is imported: a misspelled name is told at once.
"""

import bz2
import codecs
import csv
import gzip
import io
import lzma
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from skleak.cli._options import Audit

PARQUET = (".parquet", ".pq")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_WINDOW = 1 << 20
_SAMPLE = 50
_MAX_SHOWN = 12


def check_file(path: str) -> Path:
    """Find a file of data, or say that there is none."""
    file = Path(path).expanduser()
    if not file.exists():
        raise FileNotFoundError(f"there is no file {path!r}. Check its name and folder")
    if not file.is_file():
        raise ValueError(f"{path!r} is a folder. Name a CSV or Parquet file in it")
    return file


def check_columns(columns: Sequence[str], options: Audit) -> None:
    """Refuse columns that are not there, or that are asked to be two things at once."""
    asked: dict[str, Sequence[str]] = {"--drop": options.drop, "--nominal": options.nominal}
    for name in ("target", "sensitive", "id", "person"):
        if (column := getattr(options, name)) is not None:
            asked[f"--{name}"] = [column]
    for option, names in asked.items():
        for name in names:
            if name not in columns:
                # Of a file without a head its names are values of somebody.
                advice = "" if options.brief else f". {_near(name, columns)}"
                raise ValueError(f"{option}: there is no column {name!r}{advice}")
    if options.target == options.sensitive:
        raise ValueError(f"--sensitive is the target itself, {options.target!r}. Name another")
    for option in ("--target", "--sensitive"):
        for other in ("--drop", "--id", "--person"):
            if both := set(asked.get(option, ())) & set(asked.get(other, ())):
                raise ValueError(f"{other} would leave out {both.pop()!r}, which {option} names")


def _near(name: str, columns: Sequence[str]) -> str:
    folded = {column.casefold(): column for column in reversed(columns)}
    near = [folded[found] for found in get_close_matches(name.strip().casefold(), folded, 3, 0.5)]
    if near:
        return f"Did you mean {' or '.join(map(_shown, near))}?"
    more = ", …" if len(columns) > _MAX_SHOWN else ""
    return f"The columns are {', '.join(map(_shown, columns[:_MAX_SHOWN]))}{more}"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:39]}…")


def read_names(file: Path) -> list[str]:
    """Return the names of the columns, from the beginning of a file."""
    with read_errors(file):
        if file.suffix.lower() in PARQUET:
            from pyarrow import parquet

            return checked(parquet.read_schema(file).names)
        text, _ = read_text(file, _WINDOW)
        return first_line(text, separator_of(text))


def first_line(text: str, separator: str) -> list[str]:
    """Return the names of the columns, from the first line that is not empty."""
    rows = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    return checked(next(filter(None, rows), []))


def checked(names: Sequence[Any]) -> list[str]:
    """Refuse names that are the same, by their places: they may be values of somebody."""
    stripped = [str(name).strip() or f"Unnamed: {k}" for k, name in enumerate(names)]
    for k, name in enumerate(stripped):
        if (first := stripped.index(name)) < k:
            raise ValueError(f"columns {first + 1} and {k + 1} have the same name. Rename one")
    return stripped


def read_text(file: Path, size: int = -1) -> tuple[str, str]:
    """Content of a file, decompressed and decoded, or so many bytes of it."""
    with _OPENERS.get(file.suffix.lower(), open)(file, "rb") as stream:
        content: bytes = stream.read(size)
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in content and not wide:
        raise ValueError("it is not text. Save the table as CSV or Parquet")
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        try:
            # A letter may be cut at the end of a part.
            return codecs.getincrementaldecoder(encoding)().decode(content, size < 0), encoding
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1"), "latin-1"


def separator_of(text: str) -> str:
    """Return the separator that gives all lines the same number of cells, and most of them."""
    lines = text[:_WINDOW].splitlines()[: _SAMPLE + 1]
    best, cells = ",", (False, 1)
    for separator in SEPARATORS:
        try:
            rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
        except csv.Error:
            continue
        widths = [len(row) for row in rows if row]
        found = (len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0)
        if found > cells:
            best, cells = separator, found
    return best


@contextmanager
def read_errors(file: Path) -> Iterator[None]:
    """Say of which file it is that something cannot be read."""
    try:
        yield
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: `pip install pyarrow`") from error
    except (OSError, EOFError, ValueError, csv.Error, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot read {str(file)!r}: {why}") from error
