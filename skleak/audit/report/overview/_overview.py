"""An audit without persons: the decision, a row for each noise scale, and the conditions."""

import math
from functools import partial
from typing import Any

from skleak.audit.report._advice import advice
from skleak.audit.report._decision import (
    KEPT,
    decision,
    largest_advantages,
    limit_of,
)
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._findings import judged_rows
from skleak.metrics import EXCEEDED, VACUOUS
from skleak.plotting.labels import (
    attack_label,
    code,
    count,
    limit_text,
    number,
    numbers,
    percent,
    plural,
    shorten,
)
from skleak.plotting.results import advantage_text, best_rows, levels, made_at_once
from skleak.report import (
    NAMES_NOBODY,
    Bullets,
    Column,
    Document,
    Section,
    Table,
    check_enough,
    rounded,
)

_ATTACKED = {"membership": "membership", "record": "whole records"}


@made_at_once
def audit_overview(report: AuditFacts) -> Document:
    """Put an audit in order without its records."""
    check_enough(int(report.settings["n_targets"]))
    found = decision(report)
    sections = []
    if found:
        shown = noise_table(report)
        sections = [
            Section("Noise by noise", (shown,)),
            Section("Checks", (Bullets(tuple(checks(report))),)),
        ]
    return Document(
        "Leakage audit, overview",
        report.estimator,
        about(report),
        advice(found, names=False) if found else "",
        (),
        (*sections, Section("Assumptions", (Bullets(report.assumptions),))),
        NAMES_NOBODY,
        warning=NAMES_NOBODY,
        mark="Overview",
    )


def what(report: AuditFacts) -> str:
    """Name what attackers are after."""
    return _ATTACKED.get(report.kind) or f"the column {code(report.attribute)}"


def about(report: AuditFacts) -> str:
    """Say what was attacked, and how often."""
    settings = report.settings
    return ", ".join(
        [
            what(report).removeprefix("the "),
            plural(settings["n_records"], "record"),
            f"{count(settings['n_targets'])} attacked",
            plural(settings["n_releases"], "training" if report.unbounded else "release"),
        ]
    )


def noise_table(report: AuditFacts) -> Table:
    """List what attackers may gain and do gain at every noise scale."""
    largest, best, first = largest_advantages(report), best_rows(report), levels(report)
    limit = limit_of(report)
    played, named = [], []
    for _, row in best.iterrows():
        ends = row["gained"], row["gained_low"], row["gained_high"]
        played.append("none" if row["failed"] else with_interval(*ends))
        named.append(attack_label(row["attack"]))
    kept = [_state(row, limit) for _, row in largest.iterrows()]
    columns = (
        Column("Noise scale", tuple(_noise(scale) for scale in largest.index), short="noise"),
        Column(
            "Largest advantage of attackers",
            tuple(allowed(report, noise, row) for noise, row in largest.iterrows()),
            short="largest",
            kind="words",
        ),
        Column(f"Limit {limit_text(limit)}", tuple(kept), short="limit", kind="words"),
        Column("Best attack played", tuple(named), short="attack", kind="words"),
        Column("Its advantage", tuple(played), short="gains", kind="words"),
        Column(
            shorten(report.settings["utility_name"], 24),
            numbers(first["utility"]),
            short="score",
        ),
    )
    return Table("Noise by noise", columns)


def with_interval(value: float, low: float, high: float) -> str:
    """Write a share and its interval, with the digits that this supports."""
    share = partial(percent, within=0.5 * (high - low))
    return f"{share(value)} ({share(low)} to {share(high)})"


def _state(row: Any, limit: float) -> str:
    if row["advantage"] > limit:
        return "above"
    return "not known" if row["at_least"] or math.isnan(row["advantage"]) else "within"


def allowed(report: AuditFacts, noise: Any, row: Any) -> str:
    """Say how large an advantage may be, and by what it is known."""
    if math.isnan(row["advantage"]) or (row["at_least"] and row["advantage"] <= 0.0):
        return "not known"
    by = "bound" if row["source"] == "bound" else attack_label(row["source"])
    least = "at least " if row["at_least"] else ""
    return f"{least}{advantage_text(report, noise, row, limit_of(report))} ({by})"


def checks(report: AuditFacts) -> list[str]:
    """Say whether attacks exceeded bounds, and whether the mechanism is what it states."""
    judged = judged_rows(report)["verdict"]
    said = []
    if report.unbounded:
        said.append(f"Nothing bounds attacks that were not played: {report.unbounded}.")
    elif len(judged) and (judged == VACUOUS).all():
        said.append("No attack was compared with a bound: none says anything.")
    elif len(judged):
        n = int((judged == EXCEEDED).sum())
        said.append(
            f"{count(n)} of {plural(len(judged), 'comparison')} of an attack with its bound exceed "
            "it by more than chance explains."
        )
    if not report.checks.empty:
        passed = report.checks["passed"].astype(bool)
        said.append(
            f"{count(int(passed.sum()))} of {plural(len(passed), 'check')} of the noise were "
            "passed."
        )
    return said or ["None was made."]


@made_at_once
def audit_metrics(report: AuditFacts) -> dict[str, float]:
    """Return the numbers of an overview by name."""
    check_enough(int(report.settings["n_targets"]))
    if not (found := decision(report)):
        return {}
    largest, best, first = largest_advantages(report), best_rows(report), levels(report)
    numbers = {
        "max_advantage": limit_of(report),
        "within_max_advantage": float(found["status"] == KEPT),
        "n_exceeded_bounds": float((judged_rows(report)["verdict"] == EXCEEDED).sum()),
    }
    shown = [f"{noise:g}" for noise in largest.index]
    if len(set(shown)) < len(shown):  # noise scales that agree in six digits
        shown = [str(float(noise)) for noise in largest.index]
    for noise, text in zip(largest.index, shown, strict=True):
        at = f"noise_scale_{text}"
        row: Any = largest.loc[noise]
        name = "least_advantage" if row["at_least"] else "largest_advantage"
        numbers |= {
            f"{at}/{name}": rounded(float(row["advantage"]), up=not row["at_least"]),
            f"{at}/best_attack_advantage": rounded(float(best.loc[noise, "gained"])),
            f"{at}/utility": rounded(float(first.loc[noise, "utility"])),
        }
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _noise(scale: float) -> str:
    return number(scale) if scale else "none"
