"""Render documents."""

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from skleak.plotting import labels
from skleak.plotting.labels import ON_DARK, count, plural, printable, shorten, text_width
from skleak.report.document import (
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
_PIPE = re.compile(r"(?<!\\)\|")
_WIDTH = 88
_BAR = 44
# Names are cut at these widths, and all else only where no line would hold it.
_ROOM = {"name": 34, "words": 60, "number": 60, "meter": 60}


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
    said = "".join(root(document.new_context(facts)))
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
