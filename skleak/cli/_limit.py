"""Whether the advantage of attackers stays below a limit, at every noise scale."""

import math
from typing import TYPE_CHECKING

import pandas as pd

from skleak.metrics import EXCEEDED
from skleak.rendering import number, percent
from skleak.rendering.results import BASELINES, counts_success, tightest

if TYPE_CHECKING:
    from skleak.audit import AuditReport


def largest_advantages(report: "AuditReport") -> pd.DataFrame:
    """The largest advantage over the prior that an attacker may have, at every noise scale.

    For one of a few values, or membership, it is that of the tightest bound, which no attack
    exceeds for secrets drawn from the prior; and that of an attack which was found to exceed it on
    the actual secrets, and knows more than imputation does without the model.
    Where there is no bound it is that of the best attack played. A number or a whole record has a
    bound for unbiased attacks only: there it is the larger of the two. Attacks that do not look at
    the model do not count.

    Returns: index ``noise_scale``; ``advantage`` (NaN where nothing is known) and ``source``
    (``bound`` or the name of an attack).
    """
    bounds = tightest(report)["advantage"].astype(float)
    played = report.results[~report.results["attack"].isin(BASELINES)]
    rows = []
    for noise, bound in bounds.items():
        at = played[played["noise_scale"] == noise]
        if counts_success(report) and not math.isnan(bound):
            at = at[at["verdict"] == EXCEEDED]
            if report.kind == "categorical":
                at = at[~(at["advantage_over_imputation"] <= 0.0)]
        known = at.loc[at["advantage"].notna(), ["advantage", "attack"]]
        found = [(float(advantage), str(name)) for advantage, name in known.to_numpy().tolist()]
        if not math.isnan(bound):
            found.insert(0, (float(bound), "bound"))
        rows.append(max(found, key=lambda each: each[0], default=(math.nan, "nothing")))
    return pd.DataFrame(rows, columns=["advantage", "source"], index=bounds.index)


def judge(report: "AuditReport", limit: float) -> tuple[bool, str]:
    """Compare the largest advantages with a limit.

    Returns ``passed``: whether it is kept at every noise scale. What is not known does not pass;
    ``line``: which noise scales pass, and which fail.
    """
    table = largest_advantages(report)
    passes = table["advantage"] <= limit
    parts = [
        _named(part, verb, report.kind)
        for part, verb in ((table[passes], "pass"), (table[~passes], "fail"))
        if len(part)
    ]
    passed = bool(passes.all())
    advice = ""
    understated = report.kind == "categorical" and report.settings["prior"] != "conditional"
    if understated and ((table["source"] != "bound") & ~passes).any():
        advice = (
            " An attack that exceeds its bound may owe that to the other columns and not to the "
            "model: --prior conditional tells."
        )
    return passed, (
        f"Largest advantage allowed {percent(limit)}: {'kept' if passed else 'EXCEEDED'}. "
        f"{'. '.join(parts)}.{advice}"
    )


def _named(part: pd.DataFrame, verb: str, kind: str) -> str:
    shown = ", ".join(
        f"{number(noise)} ({_advantage(row['advantage'], row['source'], kind)})"
        for noise, row in part.iterrows()
    )
    return f"These noise scales {verb}: {shown}"


def _advantage(value: float, source: str, kind: str) -> str:
    if math.isnan(value):
        return "not known"
    # An upper bound is rounded up; below zero it leaves no advantage.
    guesses = kind in ("categorical", "membership")
    bound = "bound" if guesses else "bound for unbiased attacks"
    by = bound if source == "bound" else f"`{source}`"
    return f"{by} {percent(max(value, 0.0), up=True)}"
