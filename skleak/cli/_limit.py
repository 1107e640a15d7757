"""Whether the advantage of attackers stays below a limit, at every noise scale."""

import math
from typing import Any

import pandas as pd

from skleak.audit import AuditReport
from skleak.plotting.labels import limit_text, number, percent
from skleak.plotting.results import SHARE, advantage_text, record_advantages


def passing(report: AuditReport, limit: float) -> pd.DataFrame:
    """Return the largest advantages by noise scale, and in ``passes`` which are within a limit."""
    table = report.largest_advantages()
    return table.assign(passes=(table["advantage"] <= limit) & ~table["at_least"])


def judge(report: AuditReport, limit: float) -> tuple[bool, str]:
    """Compare the largest advantages with a limit.

    Of numbers it is the share of the squared error that attackers remove on average; the figure of
    the most exposed record is said beside it, and decides nothing.

    Returns ``passed``: whether it is kept at every noise scale. What is not known does not pass;
    ``line``: which noise scales pass, and which fail.
    """
    table = passing(report, limit).assign(largest=record_advantages(report)["largest"])
    passes = table["passes"]
    parts = [
        _named(part, verb, report, limit)
        for part, verb in ((table[passes], "pass"), (table[~passes], "fail"))
        if len(part)
    ]
    passed = bool(passes.all())
    failed = "EXCEEDED" if (table["advantage"] > limit).any() else "NOT KNOWN"
    advice = ""
    understated = report.kind == "categorical" and report.settings["prior"] != "conditional"
    if understated and ((table["source"] != "bound") & ~passes).any():
        advice = (
            " An attack that exceeds its bound may owe that to the other columns and not to the "
            "model: --prior conditional tells."
        )
    if report.kind == "record" and SHARE in report.results:
        advice += (
            " Bounds on whole records are for attackers who know means and covariances of the "
            "columns, and no more."
        )
    checks = report.checks
    if not checks.empty and not checks["passed"].astype(bool).all():
        advice += " The noise is not what the model states: no bound holds."
    if report.unbounded:
        advice += " Nothing bounds attacks that were not played: they may have more."
    return passed, (
        f"Largest advantage allowed {limit_text(limit)}: {'kept' if passed else failed}. "
        f"{'. '.join(parts)}.{advice}"
    )


def _named(part: pd.DataFrame, verb: str, report: AuditReport, limit: float) -> str:
    found = {
        noise: _advantage(report, noise, row, limit)
        + ("" if row["at_least"] else _most_exposed(row["advantage"], row["largest"]))
        for noise, row in part.iterrows()
    }
    if report.noiseless:
        return f"Found, without noise: {found[0.0]}"
    shown = ", ".join(f"{number(noise)} ({told})" for noise, told in found.items())
    return f"These noise scales {verb}: {shown}"


def _advantage(report: AuditReport, noise: Any, row: Any, limit: float) -> str:
    if math.isnan(row["advantage"]) or (row["at_least"] and row["advantage"] <= 0.0):
        return "not known"
    by = row["source"] if row["source"] == "bound" else f"`{row['source']}`"
    return f"{'at least ' * row['at_least']}{by} {advantage_text(report, noise, row, limit)}"


def _most_exposed(mean: float, largest: float) -> str:
    """Say the bound of the most exposed record, where it is known, and no attack exceeds it."""
    if math.isnan(mean) or math.isnan(largest) or largest < mean:
        return ""
    return f", most exposed record {percent(max(largest, 0.0), up=True)}"
