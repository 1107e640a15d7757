"""What every report is: numbers that can be written as text, as a page and as JSON.

Some have an overview to hand on, which names nobody; others are about one person.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.plotting.labels import plural, shorten
from skleak.report.document import (
    Bullets,
    Card,
    Document,
    Section,
    body_of,
    prose,
    to_html,
    to_markdown,
    to_text,
)
from skleak.utils._arguments import import_optional
from skleak.utils._files import write_confidential

_SCHEMA_VERSION = 1
# Means over fewer records are about single people.
FEWEST = 10
_FOOTER = "To publish the model, publish what `release()` returns. This page is about one person."


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

    def to_text(self, full: bool = False) -> str:
        """Return the report as text for a terminal.

        Parameters
        ----------
        full : bool, default=False
            True for all that a terminal can show; False for the answer and what belongs to it.

        Returns
        -------
        str
        """
        return to_text(self._document(figures=False), full)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return to_html(self._document(figures=True), embedded=True)


class SharedReport(Report):
    """A confidential report with an overview that can be shared with fewer worries."""

    @abstractmethod
    def _overview(self) -> Document:
        """Say what the numbers mean, about nobody in particular."""

    @abstractmethod
    def to_metrics(self) -> dict[str, float]:
        """Return the numbers of the overview by name, none of which is about one person.

        Returns
        -------
        dict of str to float
            Three significant digits; upper bounds are rounded up. What is not known is left out.

        Raises
        ------
        ValueError
            Where means would be over fewer than ten records.
        """

    def to_markdown(self, path: "str | Path | None" = None) -> str:
        """Write an overview as Markdown, without rows of persons.

        It holds counts, means and bounds over all records, and no label, no value of a record and
        no largest or smallest record. These are functions of the training records all the same,
        without noise of their own: two overviews of data that differ by one person differ by what
        that person changes.

        Parameters
        ----------
        path : str or Path, default=None
            File to write; None only returns the text.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            Where means would be over fewer than ten records.
        """
        return write(to_markdown(self._overview()), path)

    def to_model_card(self, card: Any = None) -> Any:
        """Add an overview to a model card of skops, without rows of persons.

        The overview is that of `to_markdown`. A card that is public publishes its means and
        bounds, which carry no noise and stand in no ledger: decide whether these may be known.
        Make the card itself of the release (what `release()` returned), never of the fitted
        estimator.

        Parameters
        ----------
        card : skops.card.Card, default=None
            Where to add a section "Privacy"; by default a new card without a model.

        Returns
        -------
        skops.card.Card

        Raises
        ------
        ImportError
            Without skops: ``pip install 'skleak[cards]'``.
        ValueError
            Where means would be over fewer than ten records.
        """
        overview = self._overview()
        if card is None:
            cards = import_optional("skops.card", "cards", "A model card")
            card = cards.Card(None, template=None)
        said = (f"{overview.title}: {overview.made}", overview.summary, overview.warning)
        card.add(Privacy="\n\n".join(prose(text) for text in said if text))
        for section in overview.sections:
            card.add(**{f"Privacy/{section.title}": body_of(section)})
        return card


@dataclass(frozen=True, repr=False)
class PersonalReport(Report):
    """Findings about the records of one label. Confidential."""

    label: Any  # Of the person's records
    estimator: str  # Its name
    findings: tuple[str, ...] = field(default=(), kw_only=True)  # The answer first
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)  # Under which they hold

    _schema: ClassVar[str]
    _main: ClassVar[str]  # Name of the table of what is known, a row for each thing that is

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of what is known.

        Returns
        -------
        DataFrame
        """
        table: pd.DataFrame = getattr(self, self._main)
        return table.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            Infinite and undefined numbers are None, so that it is valid JSON.
        """
        return entries(self, self._schema, [one.name for one in fields(self)])

    def _page(
        self, title: str, subtitle: str, cards: tuple[Card, ...], sections: tuple[Section, ...]
    ) -> Document:
        """Lay out a page: the answer, cards, other findings, sections, and what is assumed."""
        also = (Section("Also", (Bullets(self.findings[1:]),)),) if self.findings[1:] else ()
        assumed = Section("Assumptions", (Bullets(self.assumptions),), folded=True)
        who, answer = shorten(self.label, 48), self.findings[0]
        return Document(title, who, subtitle, answer, cards, (*also, *sections, assumed), _FOOTER)


def header(schema: str) -> dict[str, Any]:
    """Return the entries with which the dictionary of every report starts."""
    return {
        "schema": f"skleak.{schema}",
        "schema_version": _SCHEMA_VERSION,
        "skleak": __version__,
        "confidential": True,
    }


def entries(report: Any, schema: str, names: Iterable[str], **more: Any) -> dict[str, Any]:
    """Return the dictionary of a report: some of what it holds, by name, or what is given."""
    held = {name: more[name] if name in more else getattr(report, name) for name in names}
    return header(schema) | {name: plain(value) for name, value in held.items()}


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
    """Return the nearest value that strict JSON has; of a table its rows, with a named index."""
    if isinstance(value, pd.DataFrame):
        return rows(value, value.index.name)
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


def check_enough(n_records: int) -> None:
    """Refuse an overview of so few records that their means are about single people."""
    if n_records < FEWEST:
        raise ValueError(
            f"An overview names nobody, and this report is about {plural(n_records, 'record')}: "
            f"means over fewer than {FEWEST} are about single people. Audit at least {FEWEST} "
            "records, or read the report itself."
        )


def rounded(value: float, up: bool = False) -> float:
    """Round to three significant digits; a bound up, so that it still holds."""
    if not math.isfinite(value) or value == 0.0:
        return value
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    units = value / step
    # What differs from a step by round-off alone is that step.
    units = math.ceil(units - 1e-6) if up else round(units)
    return float(f"{units * step:.3g}")
