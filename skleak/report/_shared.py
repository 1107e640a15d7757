"""Reports with an overview to hand on: it names nobody, and no number is of one person."""

import math
from abc import abstractmethod
from pathlib import Path
from typing import Any

from skleak.plotting.labels import plural
from skleak.report._document import Document
from skleak.report._markdown import body_of, prose, to_markdown
from skleak.report._report import Report, write
from skleak.utils._optional import import_optional

# Means over fewer records are about single people.
FEWEST = 10


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
