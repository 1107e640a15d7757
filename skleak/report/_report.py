"""What every report is: numbers that can be written as text, as a page and as JSON."""

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.report._document import Document
from skleak.report._html import to_html
from skleak.report._text import to_text
from skleak.utils._files import write_confidential

_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Finding:
    """Facts about a topic: numbers, names and yes or no. Confidential."""

    topic: str  # Name of the topic
    # By name; shares are between 0 and 1, errors are squared, NaN is not known
    facts: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


class Report(ABC):
    """Confidential numbers, with one document that all readable forms are made from."""

    @abstractmethod
    def _document(self, *, figures: bool) -> Document:
        """Say what the numbers mean; drawing figures takes time, and a terminal shows none."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            Infinite and undefined numbers are None, so that it is valid JSON.
        """

    def to_json(self, path: "str | Path | None" = None) -> str:
        """Write the report as strict JSON.

        Parameters
        ----------
        path : str or Path, default=None
            File to write; None only returns the text.

        Returns
        -------
        str
            ASCII, without NaN and Infinity; one entry of `to_dict` a line.
        """
        entries = (
            f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}"
            for key, value in self.to_dict().items()
        )
        return write("{\n" + ",\n".join(entries) + "\n}\n", path)

    def to_html(self, path: "str | Path | None" = None) -> str:
        """Write the report as one self-contained HTML page.

        Parameters
        ----------
        path : str or Path, default=None
            File to write; None only returns the page.

        Returns
        -------
        str
            Without script and without external resource.
        """
        return write(to_html(self._document(figures=True)), path)

    def to_text(self) -> str:
        """Return the report as text for a terminal.

        Returns
        -------
        str
        """
        return to_text(self._document(figures=False))

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return to_html(self._document(figures=True), embedded=True)


def header(schema: str) -> dict[str, Any]:
    """Return the entries with which the dictionary of every report starts."""
    return {
        "schema": f"skleak.{schema}",
        "schema_version": _SCHEMA_VERSION,
        "skleak": __version__,
        "confidential": True,
    }


def write(text: str, path: "str | Path | None") -> str:
    """Write a confidential text as a UTF-8 file that only its owner may read, and return it."""
    if path is None:
        return text
    target = Path(path).expanduser().resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"Cannot write {str(path)!r}: the folder {str(target.parent)!r} does not exist. "
            "Create it, or give another path."
        )
    if target.is_dir():
        raise IsADirectoryError(
            f"Cannot write {str(path)!r}: it is a folder. Give the path of a file in it."
        )
    write_confidential(target, lambda file: file.write(text.encode()))
    return text


def rows(table: pd.DataFrame, index: str | None = None) -> list[dict[str, Any]]:
    """Return a table as one dictionary per row, with the index under a name."""
    columns = {} if index is None else {index: [plain(label) for label in table.index.tolist()]}
    columns |= {str(name): _values(column) for name, column in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        values = column.to_numpy()
        finite = np.isfinite(values)
        if not finite.all():
            values = np.where(finite, values.astype(object), None)
        return values.tolist()
    return [plain(value) for value in column.tolist()]


def plain(value: Any) -> Any:
    """Return the nearest value that strict JSON has."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return str(value)
