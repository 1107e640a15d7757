"""Facts: which noise keeps the advantage within the limit, what it costs, and for whom not."""

import math
from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.report._facts import AuditFacts
from skleak.metrics import EXCEEDED, INCOMPARABLE, multiplicity_correction, p_value_exceeds
from skleak.plotting.results import (
    BASELINES,
    SHARE,
    best_rows,
    counts_success,
    derived,
    gained,
    guess_success,
    half_width,
    levels,
    made_at_once,
    own_advantages,
    record_advantages,
    tightest,
)
from skleak.utils._typing import BoolArray

# A limit is kept, passed, or nothing tells whether it is.
KEPT, EXCEEDS, UNKNOWN, INVALID = "kept", "exceeds", "unknown", "invalid"


@derived
@made_at_once
def decision(report: AuditFacts) -> dict[str, Any]:
    """Find the smallest noise scale that keeps the advantage within the limit.

    Returns ``status``: "kept" at ``noise``, "exceeds" at all noise scales, "unknown" where no bound
    says that it is kept, "invalid" where the mechanism is not what the bounds suppose; and of
    ``noise``, else of the largest noise scale, the ``advantage`` of attackers, its ``source``, the
    ``utility``, and the records whose own figure is above the limit: ``n_above`` (NaN if not
    known; by attacks as many at least, see `skleak.metrics.RecordsAbove`), the ``labels`` of the
    most exposed, and the ``largest`` figure. Empty without results.
    """
    if report.results.empty:
        return {}
    limit, table = limit_of(report), largest_advantages(report)
    failed = mechanism_failed(report)
    at_most = _shares(report) * (math.nan if failed else 1.0)
    bounded = (table["source"] == "bound") | at_most.notna()
    states = [_state(*row, limit) for row in zip(table["advantage"], bounded, strict=True)]
    status = next((s for s in (KEPT, UNKNOWN) if s in states), EXCEEDS)
    k = states.index(KEPT) if status == KEPT else len(states) - 1
    unseen = bool(report.settings.get("unseen", False))
    if failed:
        status = INVALID
    if unseen:
        status = KEPT
    noise = float(table.index[k])
    best: Any = best_rows(report).loc[noise]
    return {
        "status": status,
        "limit": limit,
        "n_scales": len(table),
        "noise": noise,
        "advantage": float(table["advantage"].iloc[k]),
        "source": table["source"].iloc[k],
        # Of what an attack gained: half of its interval, by which it is written.
        "half_width": half_width(report, noise, str(table["source"].iloc[k])),
        "kind": report.kind,
        "attribute": report.attribute,
        "secrets": report.settings["secrets"],
        # Of a number: the share of the squared error that any attacker with its prior removes.
        "at_most": float(at_most.iloc[k]),
        # Whether the bound is about unbiased attacks alone.
        "unbiased": bool((tightest(report)["bound"] == "cramer_rao").any()),
        "has_noise": report.settings.get("has_noise", True) or bool(table.index.max() > 0.0),
        "best": {
            "attack": best["attack"],
            "advantage": best["gained"],
            "half_width": half_width(report, noise, str(best["attack"])),
            "failed": best["failed"],
            "exceeded": best["verdict"] == EXCEEDED,
            **({"uses_more": True} if best["verdict"] == INCOMPARABLE else {}),
        },
        "utility": utility(report, noise),
        "named_by": report.settings["labels"],
        "n_targets": report.settings["n_targets"],
        "partial": _leaves_out(report.settings),
        # By the kind of preprocessing: one that counts as public may have learned from the column.
        **({"unseen": report.settings["preprocessing"]} if unseen else {}),
        **(_above(report, noise, limit) | ({"n_above": math.nan} if failed else {})),
    }


@derived
def largest_advantages(report: AuditFacts) -> pd.DataFrame:
    """Return the largest advantage over the prior that an attacker may have, by noise scale.

    For one of a few values, or membership, it is that of the tightest bound, which no attack
    exceeds for secrets drawn from the prior; and that of an attack which was found to exceed it on
    the actual secrets, and knows more than imputation does without the model.
    Where there is no bound it is that of the best attack played. For a number, or whole records, it
    is the share of the squared error that attackers with the prior remove on average, or that of an
    attack which was found to exceed it. An attack that uses the other columns as well exceeds no
    bound, but counts where it surely knows more. Where no such bound is known, or the noise was
    found not to be what bounds suppose, others may have more. Attacks that do not look at the model
    do not count.

    Returns: index ``noise_scale``; ``advantage`` (NaN where nothing is known), ``source``
    (``bound`` or the name of an attack), and ``at_least``: whether other attackers may have more.
    """
    bounds = record_advantages(report)["mean"] + _allowance(report)
    played = report.results.assign(gained=gained(report)["value"], low=gained(report)["low"])
    played = played[~played["attack"].isin(BASELINES)]
    rows = []
    # A bound for unbiased attacks says nothing of others, and what was played only what is reached.
    unbiased = "cramer_rao" in report.bounds and SHARE not in report.records
    if unbiased or mechanism_failed(report):
        bounds = bounds * math.nan
    for noise, bound in bounds.items():
        at = played[played["noise_scale"] == noise]
        if not math.isnan(bound) and (counts_success(report) or SHARE in report.records):
            # Whoever uses the other columns as well contradicts no bound, and may know more.
            more = (at["verdict"] == INCOMPARABLE) & (at["low"] > bound)
            at = at[(at["verdict"] == EXCEEDED) | more]
            if report.kind == "categorical":
                at = at[~(at["advantage_over_imputation"] <= 0.0)]
        known = at.loc[at["gained"].notna(), ["gained", "attack"]]
        found = [(float(advantage), str(name)) for advantage, name in known.to_numpy().tolist()]
        if not math.isnan(bound):
            found.insert(0, (float(bound), "bound"))
        largest = max(found, key=lambda each: each[0], default=(math.nan, "nothing"))
        rows.append((*largest, math.isnan(bound)))
    return pd.DataFrame(rows, columns=["advantage", "source", "at_least"], index=bounds.index)


def _allowance(report: AuditFacts) -> pd.Series:
    """Return how much more the bound may be, as an advantage, where it is that of a sample."""
    first = levels(report)
    if "bound_limit" not in first:
        return pd.Series(0.0, index=first.index)
    rest = (1.0 - first["baseline"].astype(float)).where(lambda share: share > 0.0)
    more = first["bound_limit"].astype(float) - tightest(report)["value"].astype(float)
    return (more / rest).fillna(0.0)


def nothing_holds(report: AuditFacts) -> bool:
    """Return True if no bound on the attacks that were not played holds at any noise scale."""
    return bool(largest_advantages(report)["at_least"].all())


def limit_of(report: AuditFacts) -> float:
    """Return the advantage that is tolerated."""
    return float(report.settings["max_advantage"])


def utility(report: AuditFacts, noise: float) -> dict[str, Any]:
    """Return the score of released models at a noise scale, and of the model without noise."""
    settings, first = report.settings, levels(report)
    return {
        "noise": noise,
        "value": float(first["utility"].to_numpy(dtype=float)[first.index == noise][0]),
        "name": settings["utility_name"],
        "data": settings["utility_data"],
        "noiseless": settings["noiseless_utility"],
    }


def _state(advantage: float, bounded: bool, limit: float) -> str:
    if advantage > limit:
        return EXCEEDS
    return KEPT if bounded else UNKNOWN


def _leaves_out(settings: dict[str, Any]) -> bool:
    """Return True if records were not attacked of which those that were are no sample."""
    return bool(settings["n_targets"] < settings["n_records"]) and not settings.get("sampled")


def _shares(report: AuditFacts) -> pd.Series:
    """Return the share that attackers with the prior of a number remove on average, or NaN."""
    first = levels(report)
    if SHARE not in first:
        return pd.Series(math.nan, index=first.index)
    return first[SHARE].astype(float)


def mechanism_failed(report: AuditFacts) -> bool:
    """Return True if the noise was found not to be what bounds suppose: none of them holds."""
    checks = report.checks
    return not checks.empty and not bool(checks["passed"].astype(bool).all())


def _above(report: AuditFacts, noise: float, limit: float) -> dict[str, Any]:
    """Find the records whose own figure is above the limit, the most exposed first."""
    own = own_advantages(report, noise)
    if own["advantage"].notna().any():
        above = own[own["advantage"] > limit * (1.0 + 1e-9)]
        first = above.sort_values("advantage", ascending=False, kind="stable")
        return {
            "n_above": len(above),
            "labels": first["label"].tolist(),
            "largest": float((first if len(first) else own)["advantage"].max()),
            "by": "bound",
        }
    return _counted(report, noise, limit)


def _counted(report: AuditFacts, noise: float, limit: float) -> dict[str, Any]:
    """Find how many records attacks show to be above the limit, at least, and some of them.

    Of one of a few values as it is nobody knows: who always guesses the same is always right about
    some.
    """
    found: dict[str, Any] = {"n_above": math.nan, "labels": [], "largest": math.nan, "by": "attack"}
    at = report.results[report.results["noise_scale"] == noise]
    if "records_above" not in at:
        return found
    most = at.loc[at["records_above"].astype(float).fillna(-1.0).idxmax()]
    own = _played(report, noise, limit, len(at))
    first = own[own["surely"]].sort_values("advantage", ascending=False, kind="stable")
    n_above = float(most["records_above"])
    named = 0 if math.isnan(n_above) else int(n_above)
    return {
        "n_above": n_above,
        # No more are named than counted: both hold with the confidence of the audit.
        "labels": first["label"].tolist()[:named],
        "largest": float(own["advantage"].max()),
        "by": "attack",
        "counted_by": str(most["records_above_by"]),
        "design_effect": float(most["design_effect"]),
        "n_releases": int(report.settings["n_releases"]),
        "enough_releases": int(most["enough_releases"]),
        "level": float(report.settings["confidence_level"]),
    }


def _played(report: AuditFacts, noise: float, limit: float, n_attacks: int) -> pd.DataFrame:
    """Advantage of the best attack on every record, and whether it is surely above the limit."""
    at = report.records[report.records["noise_scale"] == noise]
    prior, name = guess_success(report, at), f"success_{best_rows(report).loc[noise, 'attack']}"
    table = at[["record", "label"]].assign(advantage=np.nan, surely=False)
    if not counts_success(report) or name not in at or "n_games" not in at:
        return table
    success = at[name].astype(float)
    games, rest = at["n_games"].astype(float), (1.0 - prior).where(prior < 1.0)
    table["advantage"] = (success - prior) / rest
    known = success.where(table["advantage"].notna())
    surely = surely_above(report, known, games, prior + limit * rest, n_attacks)
    return table.assign(surely=surely)


def surely_above(
    report: AuditFacts, success: Any, games: Any, limit: Any, n_attacks: int = 1
) -> BoolArray:
    """Tell of whom an attack, the best of so many, is right more often than a limit, (n,).

    Among many records some are right by chance: exact binomial tests, by Holm's method over all
    whose success (n,) is known in games (n,).
    """
    success, games, limit = (np.asarray(each, dtype=float) for each in (success, games, limit))
    known = ~np.isnan(success) & (games > 0.0)
    above = np.zeros(len(success), dtype=bool)
    if known.any():
        hits = np.rint((success * games)[known])
        p_values = np.atleast_1d(p_value_exceeds(hits, games[known], limit[known]))
        adjusted: Any = multiplicity_correction(np.minimum(p_values * n_attacks, 1.0))
        above[known] = adjusted <= 1.0 - report.settings["confidence_level"]
    return above
