"""Reports: frozen numbers, sentences about them, and renderers that compute nothing."""

from skleak.report._document import (
    NAMES_NOBODY,
    NAMES_RECORDS,
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
from skleak.report._person import PersonalReport
from skleak.report._report import Finding, Report, header, plain, rows
from skleak.report._shared import SharedReport, check_enough, rounded
from skleak.report._text import align
from skleak.report.guarantee import DifferentialPrivacy, Promises
from skleak.report.leakage._leakage_report import LeakageReport
from skleak.report.leakage._person import PersonReport

__all__ = [
    "NAMES_NOBODY",
    "NAMES_RECORDS",
    "Block",
    "Bullets",
    "Card",
    "Column",
    "DifferentialPrivacy",
    "Document",
    "Figure",
    "Finding",
    "LeakageReport",
    "Pairs",
    "Paragraph",
    "PersonReport",
    "PersonalReport",
    "Promises",
    "Report",
    "Section",
    "SharedReport",
    "Table",
    "align",
    "check_enough",
    "header",
    "plain",
    "rounded",
    "rows",
]
