"""What a report says, as plain data, and its renderings: text, Markdown and HTML.

Texts may hold names of any kind; what stands between backticks is code.
"""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from skleak.plotting import labels
from skleak.plotting.labels import ON_DARK, count, plural, printable, shorten, text_width

# What Markdown or HTML would read as something else than text.
_SPECIAL = re.compile(r"([\\*_{}\[\]<>#|~!&$@])")
_PIPE = re.compile(r"(?<!\\)\|")
_WIDTH = 88
_BAR = 44
# Names are cut at these widths, and all else only where no line would hold it.
_ROOM = {"name": 34, "words": 60, "number": 60, "meter": 60}


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


def to_html(document: Document, embedded: bool = False) -> str:
    """Write a document as HTML that needs nothing else: no script, no font, no request."""
    template = _environment().get_template("document.html.j2")
    return template.render(document=document, embedded=embedded)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["on_dark"] = ON_DARK
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "plural": plural,
        "printable": printable,
        "prose": _prose,
        "shorten": shorten,
        "svg": Markup,
    }
    return environment


def _prose(sentence: str) -> Markup:
    """Escape a sentence and set what stands between backticks as code."""
    parts = [escape(part) for part in printable(sentence).split("`")]
    if len(parts) % 2 == 0:  # a lone backtick, of a name
        return Markup("`").join(parts)
    code = Markup("<code>{}</code>").format
    return Markup("").join(code(part) if k % 2 else part for k, part in enumerate(parts))


def to_text(document: Document, full: bool = False) -> str:
    """Write a document for a terminal: the answer and what is not folded, or all but figures.

    Returns: lines of at most 88 columns where names are short, without control characters.
    """
    shown = [
        part
        for part in document.sections
        if (part.where != "page" if full else part.where == "both" and not part.folded)
    ]
    lines = [*_head(document, full), *(line for part in shown for line in _section(part, full))]
    if not full and (document.cards or len(shown) < len(document.sections)):
        lines += ["", "All of it: to_text(full=True), or the HTML page."]
    return "\n".join(lines)


def _head(document: Document, full: bool) -> Iterator[str]:
    mark = document.mark.upper()
    title = f"{document.title}: {shorten(document.subject, 60)}"
    yield title + mark.rjust(max(_WIDTH - text_width(title), len(mark) + 2))
    yield "═" * _WIDTH
    yield from _wrap(document.made)
    if document.summary:
        yield from ("", *_wrap(document.summary))
    if document.rest:
        yield from ("", *_wrap(document.rest))
    if document.cards and full:
        shown = (f"{card.term}: {card.value}" for card in document.cards)
        yield from ("", *_wrap("; ".join(shown) + "."))


def _section(section: Section, full: bool) -> Iterator[str]:
    yield from ("", section.title, "─" * len(section.title))
    for block in section.blocks:
        if full or not (isinstance(block, Paragraph) and block.soft):
            yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield from _wrap(block.text)
    elif isinstance(block, Bullets):
        for item in block.items:
            yield from _wrap(item, "• ")
    elif isinstance(block, Pairs):
        for term, text in block.rows:
            yield from _wrap(f"{term}: {text}", "• ")
    elif isinstance(block, Table):
        yield from _table(block)
    else:
        yield from _bars(block)


def _wrap(text: str, bullet: str = "") -> list[str]:
    return textwrap.wrap(
        printable(text), _WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet)
    )


def _bars(figure: Figure) -> Iterator[str]:
    width = max((text_width(label) for label, _ in figure.bars), default=0)
    most = max((n for _, n in figure.bars), default=1)
    for label, n in figure.bars:
        bar = "█" * math.ceil(_BAR * n / most)
        yield f"{label:>{width}}  {bar} {count(n)}"
    for note in figure.notes:
        yield from _wrap(note)


def _table(table: Table) -> Iterator[str]:
    shown = table.shown(table.limits[0])
    kept = [column for column in table.columns if column.short is not None]
    left = [column.kind in ("name", "words") for column in kept]
    columns = [
        [
            str(column.short),
            *(shorten(column.in_a_terminal(k), _ROOM[column.kind]) for k, _ in shown),
        ]
        for column in kept
    ]
    for k, (_, span) in enumerate(shown):
        columns[0][k + 1] = columns[0][k + 1] if span else ""
    # A wide table is broken into parts, each with the names of the rows.
    widths, parts = [2 + max(map(text_width, column)) for column in columns], [[0]]
    for k in range(1, len(columns)):
        if sum(widths[j] for j in [*parts[-1], k]) > _WIDTH + 2 and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(k)
    for part in parts:
        header, *rows = zip(*(columns[k] for k in part), strict=True)
        yield from align(header, rows, [left[k] for k in part])
    if n_more := table.n_more(table.limits[0]):
        yield f"… and {plural(n_more, f'more {table.more}')}"


def align(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool] = ()
) -> Iterator[str]:
    """Names to the left, numbers to the right; by width on screen, not by length."""
    widths = [max(map(text_width, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        line = []
        for k, (cell, width) in enumerate(zip(row, widths, strict=True)):
            room = " " * (width - text_width(cell))
            line.append(cell + room if k == 0 or (left and left[k]) else room + cell)
        yield "  ".join(line).rstrip()


def to_markdown(document: Document, level: int = 1) -> str:
    """Write a document as Markdown, headings from a level on; figures are left out."""
    lines = [f"{'#' * level} {escaped(document.title)}", ""]
    lines += [f"{escaped(shorten(document.subject, 80))}: {prose(document.made)}", ""]
    lines += [f"**{prose(document.summary)}**", ""] if document.summary else []
    lines += [prose(document.rest), ""] if document.rest else []
    for card in document.cards:
        lines.append(f"- {escaped(card.term)}: **{escaped(card.value)}** ({escaped(card.note)})")
    lines += [""] if document.cards else []
    for section in document.sections:
        lines += [f"{'#' * (level + 1)} {escaped(section.title)}", "", body_of(section), ""]
    lines += [prose(document.footer), ""] if document.footer else []
    return "\n".join(lines)


def body_of(section: Section) -> str:
    """Write what stands under the heading of a section."""
    return "\n".join(line for block in section.blocks for line in _block_as_markdown(block)).strip()


def escaped(text: str) -> str:
    """Write a text so that every letter of it is shown, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(text)).replace("`", r"\`")


def prose(sentence: str) -> str:
    """Write a sentence; what stands between backticks stays code."""
    parts = printable(sentence).split("`")
    if len(parts) % 2 == 0:  # a lone backtick, of a name
        return escaped(sentence)
    return "".join(f"`{part}`" if k % 2 else escaped(part) for k, part in enumerate(parts))


def _block_as_markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield from (prose(block.text), "")
    elif isinstance(block, Bullets):
        yield from (f"- {prose(item)}" for item in block.items)
        yield ""
    elif isinstance(block, Pairs):
        yield from (f"- **{escaped(term)}**: {prose(text)}" for term, text in block.rows)
        yield ""
    elif isinstance(block, Table):
        yield from _table_as_markdown(block)
    elif isinstance(block, Figure):
        yield from (prose(block.caption), "")


def _table_as_markdown(table: Table) -> Iterator[str]:
    columns, limit = table.columns, table.limits[1]
    yield _row([column.head for column in columns])
    words = ("name", "words")
    yield _row(["---" if column.kind in words else "---:" for column in columns], plain=True)
    for row, _ in table.shown(limit):
        yield _row([column.in_a_terminal(row) for column in columns])
    if n_more := table.n_more(limit):
        yield from ("", f"… and {plural(n_more, f'more {table.more}')}")
    yield ""


def _row(cells: list[str], plain: bool = False) -> str:
    # A bar would end a cell, inside of code too.
    shown = cells if plain else [_PIPE.sub(r"\|", prose(cell)) for cell in cells]
    return f"| {' | '.join(shown)} |"


def _chance(gain: float) -> str:
    """Write how often who gains so much over a coin is right, rounded up."""
    right = math.ceil(500.0 * (1.0 + gain) - 1e-9) / 10.0
    return f">{99.9}%" if right >= 100.0 and gain < 1.0 - 1e-9 else f"{min(right, 100.0):g}%"


_FILTERS = {
    "at_most": partial(labels.percent, up=True),
    "capitalized": lambda text: text[:1].upper() + text[1:],
    "chance": _chance,
    "share": lambda value, half: labels.percent(value, within=half),
    "attack": labels.attack_label,
    "bound": labels.bound_label,
} | {
    name: getattr(labels, name)
    for name in ("code", "count", "limit_text", "number", "percent", "plural", "root", "shorten")
}


def sentences(template: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Say facts in the words of a template: a paragraph of it, by blank lines, is one entry.

    Parameters
    ----------
    template : str
        ``file_block`` of ``templates/sentences``, such as "leakage_lead", or a whole file.
    facts : mapping
        Names of the template. One that is missing is an error, never an empty word.

    Returns
    -------
    tuple of str
        Without those that are empty; white space, also that of line breaks, is one blank.
    """
    name, _, block = template.partition("_")
    document = _words().get_template(f"{name}.j2")
    root = document.blocks[block] if block else document.root_render_func
    said = "".join(root(document.new_context(dict(facts))))
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", said) if part.strip())
    return tuple(re.sub(r" (?=[;,.)])", "", part) for part in parts)


def terms(template: str, facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Say facts in the words of a template whose paragraphs are ``term: what is said of it``."""
    pairs = (one.partition(": ") for one in sentences(template, facts))
    return tuple((term, text) for term, _, text in pairs)


@cache
def _words() -> Environment:
    loader = PackageLoader("skleak.report", "templates/sentences")
    # Texts, which the renderers escape.
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=False)
    environment.filters |= _FILTERS
    environment.globals["infinity"] = math.inf
    return environment
