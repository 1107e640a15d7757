"""The tables of the report of an audit, as a reader sees them."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.report._advice import group_name
from skleak.audit.report._decision import decision, mechanism_failed
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._findings import independent
from skleak.metrics import BIASED, CONSISTENT, EXCEEDED, INCOMPARABLE, VACUOUS
from skleak.plotting.labels import attack_label, count, number, percent, plural, root, shorten
from skleak.plotting.results import (
    SHARE,
    counts_success,
    imputation_error,
    levels,
    mean_prior_error,
    merged_bounds,
    middle_noise,
    most_exposed,
    points,
    tightest,
    vulnerability,
)
from skleak.report import Block, Column, Paragraph, Table

Show = Callable[[Any], str]
_rounded_up: Show = partial(percent, up=True)
_SHORT = {
    CONSISTENT: "consistent",
    EXCEEDED: "EXCEEDED",
    BIASED: "below, biased",
    VACUOUS: "vacuous",
    INCOMPARABLE: "–",
}
# Groups that a table shows, and how their kinds are called.
_MOST_GROUPS = 20
_PARTS = {"class": "class", "group": "group", "copies": "copies of"}
_SOURCES = {
    "bayes": "Best possible attack",
    "tightest_bound": "Tightest bound",
    "cramer_rao": "Unbiased error at least",
    SHARE: "Error at least",
}


def results_table(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate every attack at every noise scale, with its intervals."""
    results = report.results
    measured = _guesses(report) if counts_success(report) else _errors(report)
    columns = [
        _column("Noise scale", results["noise_scale"], _noise(report), "noise"),
        _column("Attack", results["attack"], attack_label, "attack", kind="name"),
        *measured,
        *([] if report.unbounded else [_verdicts(results)]),
        _column("Utility", results["utility"], number, "utility"),
    ]
    if report.kind != "membership":
        columns.append(_column("Guesses", results["n_games"], count))
    settings = report.settings
    level = percent(settings["confidence_level"])
    wider = (
        f" Behind each verdict stands a wider one, at level {percent(settings['verdict_level'])}."
    )
    caption = (
        f"With a number: its {level} interval, where it reads otherwise."
        f"{'' if report.unbounded else wider} "
        f"Utility: {settings['utility_name']} on {settings['utility_data']}. "
        f"A dash: not computed or not defined.{_drawn_imputation(report)}"
    )
    where = "in the table `results` of the report and in its JSON."
    return Table("Results", tuple(columns), where=where), Paragraph(caption, soft=True)


def _drawn_imputation(report: AuditFacts) -> str:
    """Say why imputation does worse in games than on the data."""
    if not independent(report) or "imputation" not in set(report.results["attack"]):
        return ""
    return (
        " Imputation: of secrets that were drawn, of which the other columns tell nothing; on the "
        "data as they are it is right more often where they do."
    )


def _noise(report: AuditFacts) -> Show:
    """Show noise scales; a model that has no noise has none."""
    return (lambda _: "none") if report.noiseless else number


def _at_middle(report: AuditFacts) -> str:
    """Say at which noise scale single records are looked at."""
    return "" if report.noiseless else f", at noise scale {number(middle_noise(report))}"


def _verdicts(results: pd.DataFrame) -> Column:
    verdicts = tuple(map(str, results["verdict"]))
    return Column(
        "Verdict",
        verdicts,
        short="verdict",
        terse=tuple(_SHORT.get(verdict, verdict) for verdict in verdicts),
        kind="words",
        sharp=tuple(verdict in (EXCEEDED, BIASED) for verdict in verdicts),
    )


def _guesses(report: AuditFacts) -> list[Column]:
    results = report.results
    limit = results["noise_scale"].map(tightest(report)["value"])
    membership = report.kind == "membership"
    over = "advantage" if not membership else None
    columns = [
        _measured("Right guesses", results, "success", percent, "right"),
        _measured("Advantage over prior", results, "advantage", percent, over, terse=True),
    ]
    if membership:
        found = "Members found at 1% false alarms"
        columns += [
            _measured(found, results, "tpr_at_1pct_fpr", percent, "found", terse=True),
            _measured("Area under curve", results, "auc", number, None),
            _column("Some attack reaches", results["lower_bound"], percent),
        ]
    else:
        name = "advantage_over_imputation"
        if not independent(report):
            columns.append(_measured("Advantage over imputation", results, name, percent, None))
    # Of no attack that uses more than the prior of the bound.
    limit = limit.where(results["verdict"] != INCOMPARABLE)
    return [*columns, _column("Tightest bound", limit, _rounded_up)]


def _errors(report: AuditFacts) -> list[Column]:
    results, relative = report.results, points(report)
    limit = results["noise_scale"].map(tightest(report)["value"])
    name, ratio = "mse_over_bound", []
    if SHARE not in results or results[name].notna().any():
        ratio = [_measured("Squared error over bound, median", results, name, number, None)]
    last = [_column("Unbiased error at least, median", limit, root)]
    if SHARE in results:
        # What no attacker with the prior of the number is beyond, in the units of the decision.
        last = [
            _column(
                "Squared error removed at most",
                results[SHARE],
                _rounded_up,
            )
        ]
    over = Column(
        "Squared error over guessing",
        _texts(relative["value"], number),
        _ends(relative["low"], relative["high"], number),
        short="relative",
        terse=_texts(relative["value"], number),
    )
    if SHARE in results:
        # On the scale of the bound in the last column.
        over = _measured(
            "Squared error removed", results, "share_removed", percent, "removed", terse=True
        )
    return [
        _measured("Root mean squared error", results, "mse", root, "error"),
        over,
        *ratio,
        Column(
            "Variance, squared bias",
            _texts(_variance(results), number),
            _texts(results["squared_bias"], number),
        ),
        _measured("Advantage over imputation", results, "advantage_over_imputation", percent, None),
        *last,
    ]


def bounds_table(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate every bound at every noise scale, the tightest first, and the baselines below."""
    first, guesses = levels(report), counts_success(report)
    if first.empty:
        return ()
    membership = report.kind == "membership"
    bounds = merged_bounds(report)
    if guesses:
        drawn = "" if membership else ", for secrets drawn from the stated prior"
        caption = f"Largest share of right guesses of any attack{drawn}; tightest first."
        guess = first["baseline"].astype(float)
        known = first["lower_bound" if membership else "imputation"].astype(float)
        if independent(report):
            known = known * 0.0 + float(report.settings.get("imputed", np.nan))
    else:
        caption = "Smallest root mean squared error of an unbiased attack, on the median record."
        if SHARE in first:
            caption = (
                "Smallest root mean squared error: by the Bayes risk and van Trees of every "
                "attacker who knows how the number is distributed, a mean over what it may be; by "
                "Cramér–Rao of an unbiased attack, on the median record."
            )
            if report.kind == "record":
                caption = (
                    "Smallest root mean squared error per value: by van Trees of every attacker "
                    "who knows means and covariances of the columns, a mean over what the records "
                    "may be; by Cramér–Rao of an unbiased attack, on the median record."
                )
        guess, known = mean_prior_error(report), imputation_error(report)
    if bounds.empty:
        caption = "No bound is known." if report.bounds else "No bound was computed."
        caption = f"{report.unbounded.capitalize()}." if report.unbounded else caption
    if mechanism_failed(report):
        caption += " All are for the noise stated, which is not what was found: none holds."
    up: Show = _rounded_up if guesses else root
    show: Show = percent if guesses else root
    rows = [(str(name), _texts(bounds[name], up)) for name in bounds.columns]
    rows.append(
        ("Guessing from the prior" if guesses else "Guessing the mean", _texts(guess, show))
    )
    if known.notna().any():
        name = "Some attack reaches at least" if membership else "Imputation, without the model"
        name += " (data as they are)" if independent(report) else ""
        rows.append((name, _texts(known, show)))
    names, cells = zip(*rows, strict=True)
    show_noise = _noise(report)
    columns = [Column("Noise scale", names, short="noise scale", kind="words")]
    columns += [
        Column(show_noise(noise), tuple(row[k] for row in cells), short=show_noise(noise))
        for k, noise in enumerate(first.index)
    ]
    return Paragraph(caption, soft=True), Table("Bounds and baselines", tuple(columns))


def group_table(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate groups of records of rising exposure, and how attacks do on each."""
    table = vulnerability(report)
    if table is None:
        return ()
    guesses, membership = counts_success(report), report.kind == "membership"
    by = "Fisher information loss"
    if membership:
        by = "distance between models with and without them (over the noise)"
    caption = "mean share of right guesses in each."
    if not guesses:
        caption = "median squared error in each, over that of guessing the mean about the record."
    if np.isclose(table["eta_low"].min(), table["eta_high"].max(), rtol=1e-6):
        caption += (
            f" All {'distances' if membership else 'losses'} are equal, so the order of the groups "
            "has no meaning."
        )
    caption = (
        f"Records in {plural(len(table), 'group')} of rising {by}{_at_middle(report)}: {caption}"
    )
    names = {"prior": "Prior", "bayes": "Bayes", "cramer_rao": "Unbiased bound"}
    names[SHARE] = "Removed at most"
    about, start = ("n_records", "eta", "eta_low", "eta_high"), "success_" if guesses else "mse_"
    columns = [
        _column("Group", table.index, str),
        _column("Records", table["n_records"], count),
        Column(
            "Distance" if membership else "Information loss",
            _ends(table["eta_low"], table["eta_high"], number),
        ),
    ]
    columns += [
        _column(
            names.get(name) or attack_label(name.removeprefix(start)),
            table[name],
            _rounded_up if name in ("bayes", SHARE) else percent if guesses else number,
        )
        for name in table.columns
        if name not in about
    ]
    return Paragraph(caption, soft=True), Table("Who is exposed", tuple(columns))


def parts_table(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate the attack that shows most about every class, group and set of copies."""
    table = report.groups
    if table.empty:
        return ()
    table = table.sort_values(["p_value", "success"], ascending=[True, False], kind="stable")
    table = table.drop_duplicates(["kind", "group"])
    shown = table.head(_MOST_GROUPS)
    names = [f"{kind} {group_name(each)}" for kind, each in zip(
        shown["kind"].map(_PARTS), shown["group"], strict=True)]  # fmt: skip
    columns = [
        Column("Records", tuple(names), short="who", kind="name"),
        _column("Number", shown["n_records"], count),
        _column("Attack", shown["attack"], attack_label, "attack", kind="name"),
        _column("Games", shown["n_games"], count),
        _measured("Right guesses", shown, "success", percent, "right"),
        _column("p-value", shown["p_value"], number, "p"),
    ]
    if not report.noiseless:
        columns.insert(2, _column("Noise scale", shown["noise_scale"], number, "noise"))
    left = len(table) - len(shown)
    more = f" {plural(left, 'group')} of larger p-values are left out." if left else ""
    caption = (
        "Of each group the attack that shows most; p-values of guessing, corrected for all groups, "
        f"attacks and noise scales.{more}"
    )
    return Paragraph(caption, soft=True), Table("By group", tuple(columns))


def exposed_table(report: AuditFacts) -> tuple[Block, ...]:
    """Tabulate the records about which the model tells most."""
    top = most_exposed(report)
    if top.empty:
        return ()
    guesses, membership = counts_success(report), report.kind == "membership"
    show: Show = percent if guesses else root
    distance = ("Distance with and without", "distance")
    if not membership:
        distance = ("Fisher information loss", "information loss")
    prior, best = "Prior" if guesses else "Guessing the mean", "Best attack played"
    best = _SOURCES.get(str(top.attrs["source"]), best)
    source = str(top.attrs["source"])
    value: Show = _rounded_up if source in ("bayes", "tightest_bound") else show
    labels = tuple(shorten(label, 40) for label in top["label"])
    columns = [Column("Record", labels, short="record", kind="name")]
    if top["eta"].notna().any():
        columns.append(_column(distance[0], top["eta"], number, distance[1]))
    columns += [
        _column(prior, top["prior"], show, prior.lower()),
        _column(best, top["value"], value, best.lower()),
    ]
    if top.attrs["source"] == SHARE:
        columns.append(_column("Removed at most", top["exposure"], _rounded_up, "removed at most"))
    caption = (
        f"Named by {shorten(report.settings['labels'], 60)}{_at_middle(report)}. The records "
        f"themselves are not in this report.{_decided_elsewhere(report)}"
    )
    return Paragraph(caption, soft=True), Table("Most exposed records", tuple(columns))


def _decided_elsewhere(report: AuditFacts) -> str:
    """Say that the decision names records at another noise scale than the table."""
    found = decision(report)
    if not found.get("labels") or found["noise"] == middle_noise(report):
        return ""
    return (
        f" The first sentence names records at noise scale {number(found['noise'])}, where others "
        "may be exposed most."
    )


def _column(
    head: str, values: Iterable[Any], show: Show, short: str | None = None, kind: str = "number"
) -> Column:
    return Column(head, _texts(values, show), short=short, kind=kind)


def _measured(
    head: str, results: pd.DataFrame, name: str, show: Show, short: str | None, terse: bool = False
) -> Column:
    """Make a column of numbers with their intervals; shares have the digits that these support."""
    values, lows, highs = (results[f"{name}{end}"].astype(float) for end in ("", "_low", "_high"))
    shows = [show] * len(values)
    if show is percent:
        shows = [partial(percent, within=0.5 * width) for width in highs - lows]
    cells = tuple(own(value) for own, value in zip(shows, values, strict=True))
    rows = zip(shows, cells, lows.where(values.notna()), highs.where(values.notna()), strict=True)
    ends = tuple(_interval(own(a), own(b), cell) for own, cell, a, b in rows)
    return Column(head, cells, ends, short=short, terse=cells if terse else ())


def _texts(values: Iterable[Any], show: Show) -> tuple[str, ...]:
    return tuple(show(value) for value in values)


def _variance(results: pd.DataFrame) -> pd.Series:
    """Variances of attacks; those of rounding, where none looks at the release, as 0."""
    rounding = results["variance"] < 1e-12 * results["squared_bias"].abs()
    return results["variance"].mask(rounding, 0.0)


def _interval(low: str, high: str, cell: str) -> str:
    """Write an interval; "" where it says no more than the number itself."""
    return "" if low == high == cell else f"{low} to {high}"


def _ends(low: Iterable[Any], high: Iterable[Any], show: Show) -> tuple[str, ...]:
    return tuple(f"{show(a)} to {show(b)}" for a, b in zip(low, high, strict=True))
