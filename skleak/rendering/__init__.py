"""Numbers, names and figures as reports show them."""

from skleak.rendering._document import (
    Block,
    Bullets,
    Card,
    Column,
    Document,
    Figure,
    Pairs,
    Paragraph,
    Section,
    Table,
)
from skleak.rendering._format import (
    BOUNDS,
    COVARIANCES,
    attack_label,
    bound_label,
    code,
    count,
    number,
    percent,
    plural,
    printable,
    root,
    shorten,
)
from skleak.rendering._person import PersonalReport
from skleak.rendering._report import Finding, Report, header, plain, rows
from skleak.rendering._text import align

__all__ = [
    "BOUNDS",
    "COVARIANCES",
    "Block",
    "Bullets",
    "Card",
    "Column",
    "Document",
    "Figure",
    "Finding",
    "Pairs",
    "Paragraph",
    "PersonalReport",
    "Report",
    "Section",
    "Table",
    "align",
    "attack_label",
    "bound_label",
    "code",
    "count",
    "header",
    "number",
    "percent",
    "plain",
    "plural",
    "printable",
    "root",
    "rows",
    "shorten",
]
