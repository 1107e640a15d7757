"""A document for a terminal."""

import math
import textwrap
from collections.abc import Iterator, Sequence

from skleak.plotting.labels import count, plural, printable, shorten, text_width
from skleak.report._document import (
    Block,
    Bullets,
    Document,
    Figure,
    Pairs,
    Paragraph,
    Section,
    Table,
)

_WIDTH = 88
_BAR = 44
# Names are cut at these widths, and all else only where no line would hold it.
_ROOM = {"name": 34, "words": 60, "number": 60, "meter": 60}


def to_text(document: Document) -> str:
    """Write a document for a terminal.

    Returns: lines of at most 88 columns where names are short, without control characters.
    """
    return "\n".join(
        [*_head(document), *(line for part in document.sections for line in _section(part))]
    )


def _head(document: Document) -> Iterator[str]:
    mark = document.mark.upper()
    title = f"{document.title}: {shorten(document.subject, 60)}"
    yield title + mark.rjust(max(_WIDTH - text_width(title), len(mark) + 2))
    yield "═" * _WIDTH
    yield from _wrap(document.made)
    if document.summary:
        yield from ("", *_wrap(document.summary))
    if document.cards:
        shown = (f"{card.term}: {card.value}" for card in document.cards)
        yield from ("", *_wrap("; ".join(shown) + "."))


def _section(section: Section) -> Iterator[str]:
    if section.where == "page":
        return
    yield from ("", section.title, "─" * len(section.title))
    for block in section.blocks:
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
