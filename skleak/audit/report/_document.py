"""What the report of an audit says, in the order in which it says it."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.audit.report._decision import mechanism_failed
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._findings import judged_rows
from skleak.audit.report._glossary import glossary
from skleak.audit.report._tables import (
    bounds_table,
    exposed_table,
    group_table,
    parts_table,
    results_table,
)
from skleak.metrics import BIASED, EXCEEDED, VACUOUS
from skleak.plotting import AuditDisplay, inline_svg
from skleak.plotting.labels import (
    attack_label,
    bound_label,
    count,
    number,
    percent,
    plural,
    shorten,
)
from skleak.plotting.results import (
    SHARE,
    best_rows,
    counts_success,
    floor_advantages,
    floor_of,
    levels,
    made_at_once,
    merged_bounds,
    points,
    record_advantages,
    tightest,
)
from skleak.report import Block, Bullets, Card, Document, Figure, Pairs, Paragraph, Section

_FOOTER = "To publish the model, publish what `release()` returns, and nothing of this report."


@made_at_once
def audit_document(report: AuditFacts, *, figures: bool) -> Document:
    """Put the report of an audit in order: the answer, key numbers, tables and conditions."""
    guesses = counts_success(report)
    shown = "What attackers get, and what bounds allow" if guesses else "How close attackers get"
    sections = [Section(shown, (_figure(report, figures),), where="page")]
    if len(report.findings) > 1:
        sections.append(Section("What the numbers say", (Bullets(report.findings[1:]),)))
    sections.append(Section("Results", results_table(report)))
    tables = (
        ("Bounds and baselines", bounds_table(report), "both"),
        ("Who is exposed", group_table(report), "page"),
        ("By class, group and copies", parts_table(report), "both"),
        ("Most exposed records", exposed_table(report), "both"),
    )
    sections += [Section(title, blocks, where=where) for title, blocks, where in tables if blocks]
    made = Pairs(_reproducibility(report), grid=True)
    return Document(
        "Leakage audit",
        report.estimator,
        _made(report),
        "".join(report.findings[:1]),
        tuple(_cards(report)) if len(report.results) else (),
        (
            *sections,
            Section("Assumptions", (Bullets(report.assumptions),), folded=True),
            Section("What the words mean", (Pairs(glossary(report)),), folded=True),
            Section("Reproducibility", (made,), folded=True, where="page"),
        ),
        _FOOTER,
    )


def _made(report: AuditFacts) -> str:
    settings = report.settings
    what = "membership" if report.kind == "membership" else "whole records"
    if report.attribute is not None:
        what = f"attribute {shorten(report.attribute, 40)}"
    made = [
        what,
        plural(settings["n_records"], "record"),
        plural(settings["n_columns"], "column"),
        f"{plural(settings['n_targets'], 'record')} attacked"
        + (" (drawn at random)" if settings.get("sampled", False) else ""),
        plural(settings["n_releases"], "training" if report.unbounded else "release"),
        *_drawing(report),
        f"preprocessing {shorten(settings['preprocessing'], 20)}",
    ]
    if settings["reweighting"] is not None:
        made.append(f"reweighted ({shorten(settings['reweighting'], 20)})")
    return ", ".join(made)


def _drawing(report: AuditFacts) -> list[str]:
    """Say how secrets came about, and what is known of them."""
    secrets, prior = (shorten(report.settings[name], 20) for name in ("secrets", "prior"))
    if report.kind == "membership":
        drawn = "one record at a time" if secrets == "drawn" else "drawn anew in each"
        return [f"members {drawn} with probability {prior}"]
    return [f"secrets {secrets}", *([f"prior {prior}"] if counts_success(report) else [])]


def _cards(report: AuditFacts) -> list[Card]:
    best, bound, first = best_rows(report), tightest(report), levels(report)
    scales = [best.index[0]] if len(best) == 1 else [best.index[0], best.index[-1]]
    at = [f" at noise {number(noise)}" for noise in scales]
    if report.noiseless:
        at = [""] * len(at)
    cards = [
        _attack_card(report, f"Best attack's advantage{where}", best.loc[noise])
        for where, noise in zip(at, scales, strict=True)
    ]
    cards.append(_bound_card(report, f"Bound on the advantage{at[0]}", bound))
    if report.kind == "membership":
        cards.append(_floor_card(f"Surely leaks{at[0]}", first.iloc[0]))
    noiseless, last = report.settings["noiseless_utility"], first["utility"].iloc[-1]
    notes = [str(report.settings["utility_name"])]
    notes += [f"{number(last)} at the largest"] if len(first) > 1 else []
    notes += [] if np.isnan(noiseless) else [f"{number(noiseless)} without noise"]
    utility = number(first["utility"].iloc[0])
    cards.append(Card(f"Utility{at[0]}", utility, "; ".join(notes)))
    compared = (judged_rows(report)["verdict"] != VACUOUS).any()
    return [*cards, _verdict_card(report)] if compared else cards


def _attack_card(report: AuditFacts, term: str, row: Any) -> Card:
    if row["failed"]:
        note = "every attack on the model that was played does worse than guessing"
        return Card(term, "none", note)
    share = partial(percent, within=0.5 * (row["gained_high"] - row["gained_low"]))
    ends = f"{share(row['gained_low'])} to {share(row['gained_high'])}"
    over = "the prior" if counts_success(report) else "guessing the mean"
    note = f"advantage of {attack_label(row['attack'])} over {over} ({ends})"
    return Card(term, share(row["gained"]), note)


def _bound_card(report: AuditFacts, term: str, bound: pd.DataFrame) -> Card:
    name, advantages = bound["bound"].iloc[0], record_advantages(report)["mean"].to_numpy()
    if mechanism_failed(report):
        return Card(term, "none", "the noise is not what the model states", "bad")
    if name is None:
        membership = report.kind == "membership"
        if report.unbounded:
            return Card(term, "none", report.unbounded)
        return Card(term, "none", f"no bound {'is known' if membership else 'was computed'}")
    value, last = (percent(np.maximum(advantages[k], 0.0), up=True) for k in (0, -1))
    note = f"largest mean advantage by {bound_label(name)}"
    note += f"; {last} at {number(bound.index[-1])}" if len(bound) > 1 else ""
    return Card(term, value, note)


def _floor_card(term: str, row: Any) -> Card:
    ends = f"{number(row['gap_low'])} to {number(row['gap_high'])}"
    gap = f"{number(row['gap'])} ({ends})"
    return Card(
        term,
        percent(floor_of(row)),
        f"advantage of some attack, from a generalisation gap of {gap}",
    )


def _verdict_card(report: AuditFacts) -> Card:
    judged = judged_rows(report)["verdict"]
    n, n_biased, n_vacuous = (int((judged == kind).sum()) for kind in (EXCEEDED, BIASED, VACUOUS))
    notes = ["comparison exceeds the bound" if n == 1 else "comparisons exceed the bound"]
    notes += [f"{n_biased} below the unbiased bound"] if n_biased else []
    notes += [f"{n_vacuous} vacuous"] if n_vacuous else []
    return Card(
        "Attacks surely above their bound",
        f"{n} of {len(judged)}",
        "; ".join(notes),
        "bad" if n else "",
    )


def _figure(report: AuditFacts, figures: bool) -> Block:
    drawn = points(report)
    if report.results.empty or not drawn["value"].notna().any():
        return Paragraph("Not drawn: no result is finite.")
    guesses, floor = counts_success(report), floor_advantages(report)
    noise = report.results["noise_scale"]
    caption = [] if noise.nunique() > 1 or report.noiseless else [_at(float(noise.iloc[0]))]
    if guesses:
        caption.append(
            "Advantage: 0% is no better than guessing, 100% is always right; below 0% is worse "
            "than guessing."
        )
    else:
        caption.append(
            "1 is no better than guessing the mean of the others; the smaller, the closer."
        )
        unbiased = (
            "The bound is for unbiased attacks, a mean in which every record counts with no more "
            "than the error of guessing it: an attack that leans on prior knowledge may lie below."
        )
        with_prior = (
            "The Bayes risk and van Trees are for every attacker who knows how the number is "
            "distributed, on average over what it may be; Cramér–Rao is for unbiased attacks, and "
            "others may lie below."
        )
        if report.kind == "record":
            with_prior = (
                "Van Trees is for every attacker who knows means and covariances of the columns, "
                "on average over what the records may be; Cramér–Rao is for unbiased attacks, and "
                "others may lie below."
            )
        caption.append(with_prior if SHARE in report.results else unbiased)
    if floor is not None:
        caption.append(
            "The shaded area is what some attack surely reaches, by the generalisation gap."
        )
    if guesses and merged_bounds(report).empty:
        caption.append("No bound on other attacks is known.")
    elif mechanism_failed(report):
        caption.append("The bounds are for the noise stated, and do not hold.")
    elif guesses:
        prior = report.kind == "categorical"
        when = " when secrets are drawn from the stated prior" if prior else ""
        caption.append(f"Bounds hold for every attack{when}.")
    if (drawn["high"] > drawn["low"]).any():
        level = percent(report.settings["confidence_level"])
        caption.append(f"Upright bars are {level} intervals.")
    if n_omitted := int((~np.isfinite(drawn["value"])).sum()):
        is_are = "it is" if n_omitted == 1 else "they are"
        which = f"{plural(n_omitted, 'result')}, infinite or undefined"
        caption.append(f"At the edge or not drawn: {which}; {is_are} in the table.")
    svg = ""
    if figures:
        what = "Advantage over the prior" if guesses else "Squared error over that of guessing"
        svg = inline_svg(
            AuditDisplay.from_report(report),
            what if report.noiseless else f"{what} by noise scale",
            _description(report, drawn),
        )
    return Figure(svg, " ".join(caption))


def _at(noise: float) -> str:
    return f"At noise scale {number(noise)}."


def _description(report: AuditFacts, drawn: pd.DataFrame) -> str:
    show = percent if counts_success(report) else number
    rows = report.results[["attack", "noise_scale"]].join(drawn).to_dict("records")

    def at(noise: float) -> str:
        return "" if report.noiseless else f", noise scale {number(noise)}"

    return " ".join(
        f"{shorten(attack_label(row['attack']), 48)}{at(row['noise_scale'])}: "
        f"{show(row['value'])} ({show(row['low'])} to {show(row['high'])})."
        for row in rows
    )


def _reproducibility(report: AuditFacts) -> tuple[tuple[str, str], ...]:
    settings = report.settings
    rows = [(str(name), str(value)) for name, value in report.reproducibility.items()]
    if report.kind == "membership":
        drawn = settings["secrets"] == "drawn"
        how = "one record at a time, drawn in or out" if drawn else "drawn anew in every release"
        n = settings["n_reference"]
        rows += [
            ("Members", f"{how}, with probability {percent(settings['membership_prior'])}"),
            ("Reference", str(settings["reference"]) + (f", {plural(n, 'record')}" if n else "")),
        ]
    else:
        actual = settings["secrets"] == "actual"
        rows.append(("Secrets", "those of the data" if actual else str(settings["secrets"])))
    if report.kind == "categorical":
        values = [shorten(value, 48) for value in settings["values"][:20]]
        more = len(settings["values"]) - len(values)
        listed = ", ".join(values) + (f" and {count(more)} more" if more else "")
        rows += [("Prior", str(settings["prior"])), ("Candidate values", listed)]
    rows += [
        ("Preprocessing", str(settings["preprocessing"])),
        ("Reweighting", str(settings["reweighting"] or "none")),
    ]
    if report.kind != "membership":
        counts = "private" if settings["target_counts"] else "public"
        rows.append(("Target", f"counts as {counts} in the Fisher information loss"))
    return (*rows, ("Report made by", f"skleak {__version__}"))
