"""The report of an audit for a terminal."""

import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skleak.audit.report._exposure import middle_noise, most_exposed
from skleak.audit.report._format import attack_label, percent
from skleak.audit.report._tables import counts_success, levels, prior_error
from skleak.audit.report.figure._chart import merged
from skleak.audit.tables._verdicts import BIASED
from skleak.metrics._verdict import CONSISTENT, EXCEEDED, VACUOUS
from skleak.rendering._format import MISSING, number, plural, shorten, text_width
from skleak.reports._text import _WIDTH, _bullets, _section, _table

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["to_text"]

_NAME = 18
_N_ROWS = 60
_N_BOUNDS = 3
_VERDICTS = {
    CONSISTENT: "consistent",
    EXCEEDED: "EXCEEDED",
    VACUOUS: "vacuous",
    BIASED: "below, biased",
}


def to_text(report: "AuditReport") -> str:
    """Write the report of an audit for a terminal.

    Returns: without control characters; lines of at most 88 columns where names are short.
    """
    return "\n".join(
        [
            *_head(report),
            *_section("What the numbers say", _bullets(report.findings)),
            *_section(_results_title(report), _results(report)),
            *_section(_bounds_title(report), _bounds(report)),
            *_section("Most exposed records", _records(report)),
            *_section("Assumptions", _bullets(report.assumptions)),
        ]
    )


def _head(report: "AuditReport") -> Iterator[str]:
    settings = report.settings
    title, mark = f"Leakage audit: {shorten(report.estimator, 60)}", "CONFIDENTIAL"
    yield title + mark.rjust(max(_WIDTH - text_width(title), len(mark) + 2))
    yield "═" * _WIDTH
    secret = "membership" if report.kind == "membership" else "whole records"
    if report.attribute is not None:
        secret = f"attribute {shorten(report.attribute, 40)}"
    made = [
        secret,
        plural(settings["n_records"], "record"),
        plural(settings["n_columns"], "column"),
        f"{plural(settings['n_targets'], 'record')} attacked",
        f"{plural(settings['n_releases'], 'release')}",
        *_drawing(report),
        f"preprocessing {shorten(settings['preprocessing'], 20)}",
    ]
    if settings["reweighting"] is not None:
        made.append(f"reweighted ({shorten(settings['reweighting'], 20)})")
    yield from textwrap.wrap(", ".join(made), _WIDTH)


def _drawing(report: "AuditReport") -> Iterator[str]:
    """How secrets came about, and what is known of them."""
    secret, prior = (shorten(report.settings[name], 20) for name in ("secrets", "prior"))
    if report.kind == "membership":
        drawn = "one record at a time" if secret == "drawn" else "drawn anew in each"
        yield f"members {drawn} with probability {prior}"
        return
    yield f"secrets {secret}"
    if counts_success(report):
        yield f"prior {prior}"


def _results_title(report: "AuditReport") -> str:
    if report.kind == "membership":
        return "Attacks: share of right guesses, and members found at 1% false alarms"
    if counts_success(report):
        return "Attacks: share of right guesses, and advantage over the prior"
    return "Attacks: root mean squared error, and mean squared error over that of guessing the mean"


def _results(report: "AuditReport") -> Iterator[str]:
    shown = report.results.head(_N_ROWS)
    scales = [number(noise) for noise in shown["noise_scale"]]
    width = max(map(len, ["noise", *scales]))
    rows, measured = [], _success if counts_success(report) else _error
    if report.kind == "membership":
        measured = _membership
    for k, (_, row) in enumerate(shown.iterrows()):
        noise = scales[k] if k == 0 or scales[k] != scales[k - 1] else ""
        rows.append(
            (
                f"{noise:<{width}}  {shorten(attack_label(row['attack']), _NAME)}",
                *measured(row),
                number(row["utility"]),
                _VERDICTS.get(row["verdict"], shorten(row["verdict"], _NAME)),
            )
        )
    measure = (
        ("right", "interval", "advantage")
        if counts_success(report)
        else ("error", "interval", "relative")
    )
    if report.kind == "membership":
        measure = ("right", "interval", "found")
    yield from _table((f"{'noise':<{width}}  attack", *measure, "utility", "verdict"), rows)
    if len(report.results) > _N_ROWS:
        yield f"… and {plural(len(report.results) - _N_ROWS, 'more row')}"


def _success(row: pd.Series) -> tuple[str, ...]:
    interval = f"{percent(row['success_low'])} to {percent(row['success_high'])}"
    return percent(row["success"]), interval, percent(row["advantage"])


def _membership(row: pd.Series) -> tuple[str, ...]:
    return *_success(row)[:2], percent(row["tpr_at_1pct_fpr"])


def _error(row: pd.Series) -> tuple[str, ...]:
    low, root, high = (_root(row[name]) for name in ("mse_low", "mse", "mse_high"))
    return root, f"{low} to {high}", number(np.maximum(1.0 - row["advantage"], 0.0))


def _bounds_title(report: "AuditReport") -> str:
    if counts_success(report):
        return "No attack exceeds (share of right guesses, tightest bounds first)"
    return "No unbiased attack has a smaller root mean squared error, on the median record, than"


def _bounds(report: "AuditReport") -> Iterator[str]:
    first = levels(report)
    names = list(report.settings["bounds"])
    if not names:
        yield "No bound was computed."
        return
    categorical = counts_success(report)
    bounds = merged(first[names].astype(float), ascending=categorical).table
    if bounds.columns.empty:
        yield "No bound is known."
        if report.kind == "membership":
            yield from _floors(first)
        return
    names = [str(name).split(" = ")[0] for name in bounds.columns[:_N_BOUNDS]]
    for noise, values in zip(bounds.index.tolist(), bounds.to_numpy(), strict=True):
        shown = [
            f"{name} " + (percent(value, up=True) if categorical else _root(value))
            for name, value in zip(names, values, strict=False)
            if not np.isnan(value)
        ]
        yield from textwrap.wrap(
            f"noise scale {number(noise)}: {'; '.join(shown) or MISSING}",
            _WIDTH,
            subsequent_indent="  ",
        )
    if categorical:
        guess = first["baseline"]
        if report.kind == "membership":
            yield from _floors(first)
        yield f"Guessing from the prior: {percent(guess.min())}" + (
            "" if np.isclose(guess.min(), guess.max()) else f" to {percent(guess.max())}"
        )
    else:
        yield f"Guessing the mean of the others: {_root(prior_error(report).iloc[0])}"
    if len(bounds.columns) > _N_BOUNDS:
        yield f"… and {plural(len(bounds.columns) - _N_BOUNDS, 'looser bound')}"


def _floors(first: pd.DataFrame) -> Iterator[str]:
    """What some attack surely reaches, at every noise scale."""
    floors = "; ".join(
        f"{percent(value)} at noise scale {number(noise)}" if len(first) > 1 else percent(value)
        for noise, value in first["lower_bound"].astype(float).items()
    )
    yield from textwrap.wrap(f"Some attack reaches at least: {floors}", _WIDTH)


def _records(report: "AuditReport") -> Iterator[str]:
    top = most_exposed(report)
    if top.empty:
        yield "Exposure of single records is not known."
        return
    yield f"At noise scale {number(middle_noise(report))}; positions in the data, from 0."
    categorical = counts_success(report)
    value, prior = ("success", "prior") if categorical else ("error", "guessing the mean")
    source = str(top.attrs["source"])
    if source in ("bayes", "tightest_bound", "cramer_rao"):
        value = "success at most" if categorical else "unbiased error at least"
    show: Callable[[float], str] = percent if categorical else _root
    rows = [
        (str(row["record"]), number(row["eta"]), show(row["prior"]), show(row["value"]))
        for row in top.to_dict("records")
    ]
    measured = "distance" if report.kind == "membership" else "information loss"
    yield from _table(("record", measured, prior, value), rows)


def _root(error: float) -> str:
    return number(np.sqrt(np.maximum(error, 0.0)))
