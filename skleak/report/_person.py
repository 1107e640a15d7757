"""What every report about one person is: the answer first, then what is known, column by column."""

from abc import abstractmethod
from typing import Any

import pandas as pd

from skleak.plotting.labels import shorten
from skleak.report._document import Bullets, Card, Document, Section
from skleak.report._report import Report, header, plain

_FOOTER = "To publish the model, publish what `release()` returns. This page is about one person."


class PersonalReport(Report):
    """Findings about the records of one label. Confidential."""

    label: Any  # Of the person's records
    estimator: str  # Its name
    findings: tuple[str, ...]  # What the numbers say, the answer first
    assumptions: tuple[str, ...]  # Conditions under which they hold

    _schema: str

    @property
    @abstractmethod
    def _main(self) -> pd.DataFrame:
        """Table of what is known, a row for each thing that is."""

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Say what was asked, as plain entries."""

    @abstractmethod
    def _tables(self) -> dict[str, Any]:
        """Write the tables as plain rows, by name."""

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the table of what is known.

        Returns
        -------
        DataFrame
        """
        return self._main.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain dictionaries, lists, strings and numbers.

        Returns
        -------
        dict
            Infinite and undefined numbers are None, so that it is valid JSON.
        """
        said = {"findings": list(self.findings), "assumptions": list(self.assumptions)}
        who = {"label": plain(self.label), "estimator": self.estimator}
        return header(self._schema) | who | self._settings() | said | self._tables()

    def _page(
        self, title: str, subtitle: str, cards: tuple[Card, ...], sections: tuple[Section, ...]
    ) -> Document:
        """Lay out a page: the answer, cards, other findings, sections, and what is assumed."""
        also = (Section("Also", (Bullets(self.findings[1:]),)),) if self.findings[1:] else ()
        assumed = Section("Assumptions", (Bullets(self.assumptions),), folded=True)
        who, answer = shorten(self.label, 48), self.findings[0]
        return Document(title, who, subtitle, answer, cards, (*also, *sections, assumed), _FOOTER)
