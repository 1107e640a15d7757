"""A document as Markdown, for job summaries and model cards."""

import re
from collections.abc import Iterator

from skleak.plotting.labels import plural, printable, shorten
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

# What Markdown or HTML would read as something else than text.
_SPECIAL = re.compile(r"([\\*_{}\[\]<>#|~!&$@])")
_BAR = re.compile(r"(?<!\\)\|")


def to_markdown(document: Document, level: int = 1) -> str:
    """Write a document as Markdown, headings from a level on; figures are left out."""
    lines = [f"{'#' * level} {escaped(document.title)}", ""]
    lines += [f"{escaped(shorten(document.subject, 80))}: {prose(document.made)}", ""]
    lines += [f"**{prose(document.summary)}**", ""] if document.summary else []
    for card in document.cards:
        lines.append(f"- {escaped(card.term)}: **{escaped(card.value)}** ({escaped(card.note)})")
    lines += [""] if document.cards else []
    for section in document.sections:
        lines += _section(section, level + 1)
    lines += [prose(document.footer), ""] if document.footer else []
    return "\n".join(lines)


def body_of(section: Section) -> str:
    """Write what stands under the heading of a section."""
    return "\n".join(line for block in section.blocks for line in _block(block)).strip()


def escaped(text: str) -> str:
    """Write a text so that every letter of it is shown, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(text)).replace("`", r"\`")


def prose(sentence: str) -> str:
    """Write a sentence; what stands between backticks stays code."""
    parts = printable(sentence).split("`")
    if len(parts) % 2 == 0:  # a lone backtick, of a name
        return escaped(sentence)
    return "".join(f"`{part}`" if k % 2 else escaped(part) for k, part in enumerate(parts))


def _section(section: Section, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {escaped(section.title)}", "")
    yield from (body_of(section), "")


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield from (prose(block.text), "")
    elif isinstance(block, Bullets):
        yield from (f"- {prose(item)}" for item in block.items)
        yield ""
    elif isinstance(block, Pairs):
        yield from (f"- **{escaped(term)}**: {prose(text)}" for term, text in block.rows)
        yield ""
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Figure):
        yield from (prose(block.caption), "")


def _table(table: Table) -> Iterator[str]:
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
    shown = cells if plain else [_BAR.sub(r"\|", prose(cell)) for cell in cells]
    return f"| {' | '.join(shown)} |"
