"""What a report says, as plain data: the renderers for a terminal and for a page walk it.

Texts may hold names of any kind; what stands between backticks is code.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Paragraph:
    """Sentences; soft ones explain what stands beside them."""

    text: str
    soft: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Terms and what is said of each; in a grid where they are short."""

    rows: tuple[tuple[str, str], ...]
    grid: bool = False


@dataclass(frozen=True)
class Card:
    """A number that stands out, with what it is and a note; ``tone`` is "", "good" or "bad"."""

    term: str
    value: str
    note: str
    tone: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    head: str  # Its heading
    cells: tuple[str, ...]  # What stands in each row
    below: tuple[str, ...] = ()  # Small print under each cell, such as an interval; "" for none
    short: str | None = None  # The heading in a terminal; None leaves the column out there
    # What stands in a terminal instead of the cells and their small print
    terse: tuple[str, ...] = ()
    # {"number", "name", "words", "meter"}: Names are cut where they are long; the cells of a meter
    # are percentages, drawn as bars
    kind: str = "number"
    sharp: tuple[bool, ...] = ()  # Which cells stand out

    def in_a_terminal(self, row: int) -> str:
        """Return a cell with its small print in brackets, or what stands in its place."""
        if self.terse:
            return self.terse[row]
        below = self.below[row] if self.below else ""
        return self.cells[row] + (f" ({below})" if below else "")

    def stands_out(self, row: int) -> bool:
        """Return True if a cell stands out."""
        return bool(self.sharp) and self.sharp[row]


@dataclass(frozen=True)
class Table:
    """Rows of named cells."""

    name: str  # For those who hear the page
    # The first heads the rows; where its cells repeat, they span their rows
    columns: tuple[Column, ...]
    limits: tuple[int, int] = (60, 200)  # Rows shown in a terminal and on a page
    more: str = "row"  # What the rows that are not shown are called
    where: str = ""  # Where these are, in a sentence

    def shown(self, limit: int) -> list[tuple[int, int]]:
        """List the rows that are shown, and how many of them the cell of the first column spans.

        A span of 0 means that a cell above spans the row.
        """
        cells = self.columns[0].cells
        spans, start = [0] * len(cells[:limit]), 0
        for row in range(len(spans)):
            start = row if cells[row] != cells[start] else start
            spans[start] += 1
        return list(enumerate(spans))

    def n_more(self, limit: int) -> int:
        """Count the rows that are not shown."""
        return max(len(self.columns[0].cells) - limit, 0)


@dataclass(frozen=True)
class Figure:
    """A figure as SVG text, what it shows in words, and bars for a terminal: label, count."""

    svg: str
    caption: str
    bars: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()


Block = Paragraph | Bullets | Pairs | Table | Figure


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; folded ones are closed at first on a page, not in print.

    ``where`` is "both"; "full" for what a terminal shows only when all is asked for, as it does
    with all that is folded; or "page" for what no terminal shows.
    """

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
    where: str = "both"


NAMES_RECORDS = (
    "This report names the most exposed records. It is for those who answer for the data, and must "
    "not be published with the model."
)
NAMES_NOBODY = (
    "No record is named here, and no number is about one person. But means and bounds are "
    "functions of the training records, without noise of their own: share them only with those who "
    "may know such means."
)


@dataclass(frozen=True)
class Document:
    """A report: what it is about, the answer, key numbers and sections."""

    title: str  # What kind of report it is
    subject: str  # What it is about
    made: str  # How the numbers came about, in one line
    summary: str = ""  # The answer, first
    cards: tuple[Card, ...] = ()  # Key numbers
    sections: tuple[Section, ...] = field(default=())  # All else
    footer: str = ""  # Last words, on a page
    warning: str = NAMES_RECORDS  # Who may read it
    mark: str = "Confidential"  # The same in a word
    rest: str = ""  # What has to be said beside the answer


def overview(title: str, subject: str, made: str, summary: str, *sections: Section) -> Document:
    """Put in order what names nobody."""
    shared: Any = {"footer": NAMES_NOBODY, "warning": NAMES_NOBODY, "mark": "Overview"}
    title = f"{title}, overview"
    return Document(title, subject, made, summary, sections=sections, **shared)
