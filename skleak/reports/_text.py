"""A leakage report for a terminal."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from skleak.rendering._format import (
    COVARIANCES,
    count,
    number,
    plural,
    printable,
    shorten,
    text_width,
)
from skleak.rendering._histogram import leakage_histogram
from skleak.rendering._tables import shown_features, shown_groups

if TYPE_CHECKING:
    from skleak.reports._leakage_report import LeakageReport

__all__ = ["to_text"]

_WIDTH = 88
_BAR = 44
_NAME = 28
_N_FEATURES = 8
_N_GROUPS = 8


def to_text(report: "LeakageReport") -> str:
    """Write a report for a terminal.

    Returns: lines of at most 88 columns, without control characters.
    """
    lines = [*_head(report), *_section("What the numbers say", _bullets(report.findings))]
    if report.dataset["converged"]:
        lines += _section("Leakage over records (Fisher information loss)", _histogram(report))
        lines += _section("Most exposed columns", _features(report))
        if len(report.groups):
            lines += _section("Groups, most exposed first", _groups(report))
    return "\n".join([*lines, *_section("Assumptions", _bullets(report.assumptions))])


def _head(report: "LeakageReport") -> Iterator[str]:
    data = report.dataset
    title, mark = f"Leakage report: {printable(report.estimator)}", "CONFIDENTIAL"
    yield title + mark.rjust(max(_WIDTH - text_width(title), len(mark) + 2))
    yield "═" * _WIDTH
    made = [
        plural(data["n_records"], "record"),
        plural(data["n_features"], "column"),
        f"{data['loss']} loss",
        f"alpha {number(data['alpha'])}",
        f"noise scale {number(data['noise_scale'])}",
        "private target" if data["private_target"] else "public target",
    ]
    if data["noise_covariance"] != "isotropic":
        made.append(f"noise of {COVARIANCES[data['noise_covariance']]}")
    if data["noise_goal"] is not None:
        made.append(f"noise calibrated to the training records ({printable(data['noise_goal'])})")
    if data["reweighting"] is not None:
        made.append("reweighted, and what the weights reveal is counted")
    yield from textwrap.wrap(", ".join(made), _WIDTH)
    if not data["converged"]:
        return
    yield from textwrap.wrap(
        f"Fisher information loss: mean {number(data['mean_loss'])}, "
        f"median {number(data['median_loss'])}, max {number(data['max_loss'])}; "
        f"all records together {number(data['joint_loss'])}",
        _WIDTH,
    )
    if data["through_mean_max_loss"] is not None:
        yield from textwrap.wrap(
            f"Through the mean: mean {number(data['through_mean_mean_loss'])}, "
            f"max {number(data['through_mean_max_loss'])}; through the covariance: "
            f"mean {number(data['through_covariance_mean_loss'])}, "
            f"max {number(data['through_covariance_max_loss'])}",
            _WIDTH,
        )


def _section(title: str, lines: "Iterator[str] | Sequence[str]") -> Iterator[str]:
    yield ""
    yield title
    yield "─" * len(title)
    yield from lines


def _bullets(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(
            printable(sentence), _WIDTH, initial_indent="• ", subsequent_indent="  "
        )


def _histogram(report: "LeakageReport") -> Iterator[str]:
    records = report.records
    loss = records["fisher_information_loss"].to_numpy()[records["sample_weight"].to_numpy() > 0.0]
    bins = leakage_histogram(loss, max_bins=14)
    if bins is None:
        yield "Leakage is infinite for every record."
        return
    if bins.constant:
        yield f"All records leak the same: {number(bins.ticks[0])}."
    else:
        edges = [number(edge) for edge in bins.edges]
        width = max(map(len, edges))
        for low, high, n in zip(edges[:-1], edges[1:], bins.counts, strict=True):
            bar = "█" * int(np.ceil(_BAR * n / bins.counts.max()))
            yield f"{low:>{width}} to {high:>{width}}  {bar} {count(n)}"
    if bins.n_below:
        yield f"The first bin also holds {plural(bins.n_below, 'record')} of smaller leakage."
    if bins.n_omitted:
        yield f"Not drawn: {plural(bins.n_omitted, 'record')} of infinite or undefined leakage."


def _features(report: "LeakageReport") -> Iterator[str]:
    shown = shown_features(report.features, _N_FEATURES)
    rows = [
        (
            shorten(name, _NAME),
            number(row["standard_error"]),
            number(row["column_std"]),
            number(row["relative_standard_error"]),
            str(int(row["most_exposed_record"])),
            number(row["mean_loss"]),
        )
        for name, row in shown.iterrows()
    ]
    header = ("column", "error at least", "column's sd", "error/sd", "record", "mean loss")
    yield from _table(header, rows)
    yield from _more(len(report.features) - len(shown), "column")
    yield from textwrap.wrap(
        "“Error at least”: no unbiased attacker who knows everything else gets a smaller standard "
        "error for this column of its most exposed record; in units of the column. Below 1 in "
        "“error/sd”, the model may tell more than the spread of the column does.",
        _WIDTH,
    )


def _groups(report: "LeakageReport") -> Iterator[str]:
    shown = shown_groups(report.groups, _N_GROUPS)
    rows = [
        (
            shorten(label, _NAME),
            count(row["n_records"]),
            number(row["mean_loss"]),
            number(row["relative_mean"]),
            number(row["max_loss"]),
            number(row["spread"]),
            number(row["joint_loss"]),
        )
        for label, row in shown.iterrows()
    ]
    header = ("group", "records", "mean loss", "mean/overall", "max loss", "spread", "joint loss")
    yield from _table(header, rows)
    yield from _more(len(report.groups) - len(shown), "group")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Names to the left, numbers to the right; by width on screen, not by length."""
    columns = zip(header, *rows, strict=True)
    widths = [max(map(text_width, column)) for column in columns]
    for row in (header, *rows):
        first = row[0] + " " * (widths[0] - text_width(row[0]))
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((first, *rest))


def _more(n: int, what: str) -> Iterator[str]:
    if n > 0:
        yield f"… and {plural(n, f'more {what}')}"
