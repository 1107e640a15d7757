"""The decision of an audit: for whom a limit is kept, whatever an attacker knows.

Each attacked record has one number, its ``exposure``, which no attacker exceeds whatever is known
of the record (for values, numbers and membership 2 Phi(D/2) - 1, D the largest distance between two
releases). The limit is compared with that of everyone, never with a mean unless asked.
"""

import math
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from scipy import stats

from skleak.metrics import mean_interval
from skleak.metrics.verdicts import EXCEEDED, multiplicity_correction, p_value_exceeds
from skleak.plotting.displays import counts_success
from skleak.report.audit._results import BASELINES, AuditFacts, best_rows, guess_success, levels
from skleak.utils._typing import BoolArray, FloatArray

# A limit is kept for all but some where these are no more than this share.
_FEW = 0.05
# Exposures this much above a limit are equal to it but for rounding.
_ROUNDING = 1e-9
# Of what is said about the records that a sample left out.
_CONFIDENCE = 0.95
# What a decision says of the noise scale that it is about.
_CHOSEN = ("verdict", "noise", "n_above", "share_above", "largest", "found_at_1pct")
# Probability with which an audit whose assumptions hold is said to contradict itself, at most.
_CHANCE = 1e-4


class Level(TypedDict):
    """Decision at one noise scale; NaN is not known."""

    noise: float
    verdict: str  # as that of `Decision`
    passes: bool  # whether the limit is kept for whom it was asked
    n_above: float  # attacked records above the limit, or at least so many where attacks count
    share_above: float  # their share; of a sample its upper limit among the others (95 %)
    largest: float  # exposure
    mean: float  # of exposures; of a sample its upper limit (95 %)
    found_at_1pct: float  # most exposed carriers found at one false alarm in a hundred
    exposed_column: str  # of whole records: which column, or "direction", is exposed most
    attack: str  # the best that was played
    attack_success: float
    attack_value: float  # advantage over guessing, with its interval
    attack_low: float
    attack_high: float
    utility: float


class Decision(TypedDict):
    """For whom a limit is kept."""

    verdict: str  # everyone, all_but, average, sample, not_kept, not_known or unseen
    passes: bool  # whether it is kept, at every noise scale audited, for whom it was asked
    noise: float  # that the verdict is about: the smallest that passes, else the largest
    limit: float
    of: str | float
    n_above: float
    n_attacked: int
    n_records: int
    share_above: float
    sampled: bool
    labels: list[Any]  # of whom is above, the most exposed first
    largest: float
    found_at_1pct: float
    levels: list[Level]
    smallest: dict[str, Any]  # noise that keeps the limit for everyone, and what it costs
    failed: bool  # whether the noise is not what the model states
    contradicted: bool  # whether an attack exceeds a bound that is a theorem


def decide(
    report: AuditFacts, limit: float | None = None, of: str | float = "everyone"
) -> Decision:
    """Decide for whom the limit is kept, at every noise scale and at the one to choose."""
    limit = float(report.settings["max_advantage"] if limit is None else limit)
    words = isinstance(of, str) and of in ("everyone", "average")
    if not words and not (isinstance(of, float) and 0.0 < of < 1.0):
        raise ValueError(f'`of` must be "everyone", "average" or a share such as 0.99; got {of!r}.')
    contradicted = _contradicted(report)
    noises = levels(report).index.tolist()
    found = [_level(report, noise, limit, of, contradicted) for noise in noises]
    chosen: Any = next((level for level in found if level["passes"]), found[-1])
    return Decision(
        **{name: chosen[name] for name in _CHOSEN},  # type: ignore[typeddict-item]
        passes=all(level["passes"] for level in found),
        limit=limit,
        of=of,
        n_attacked=int(report.settings["n_targets"]),
        n_records=int(report.settings["n_records"]),
        sampled=_sampled(report.settings),
        labels=above(report, chosen["noise"], limit),
        levels=found,
        smallest=_smallest(report, limit),
        failed=report.mechanism_failed,
        contradicted=contradicted,
    )


def exposures(report: AuditFacts, noise: float) -> pd.DataFrame:
    """Return ``record``, ``label`` and ``exposure`` at a noise scale; NaN if not known."""
    at = report.records[report.records["noise_scale"] == noise]
    table = at.reindex(columns=["record", "label", "exposure", "found_at_1pct", "exposed_column"])
    if report.mechanism_failed:
        table[["exposure", "found_at_1pct"]] = np.nan
    return table


def above(report: AuditFacts, noise: float, limit: float) -> list[Any]:
    """Label the records above a limit, the most exposed first; where attacks tell, some of them."""
    table = exposures(report, noise)
    if table["exposure"].notna().any():
        over = table[~(table["exposure"] <= limit * (1.0 + _ROUNDING))]
        order = over["exposure"].fillna(np.inf).sort_values(ascending=False, kind="stable").index
        return over.loc[order, "label"].tolist()
    counted = _counted(report, noise)
    own = _played(report, noise, limit)
    named = 0 if math.isnan(counted) else int(counted)
    first = own[own["surely"]].sort_values("advantage", ascending=False, kind="stable")
    # No more are named than counted: both hold with the confidence of the audit.
    return first["label"].tolist()[:named]


def _level(
    report: AuditFacts, noise: float, limit: float, of: str | float, contradicted: bool
) -> Level:
    table, settings = exposures(report, noise), report.settings
    best, first = best_rows(report).loc[noise], levels(report).loc[noise]
    value = table["exposure"].to_numpy(dtype=float)
    sampled, n = _sampled(settings), len(value)
    level: Any = dict.fromkeys(Level.__annotations__, math.nan)
    level |= {"noise": noise, "verdict": "not_known", "passes": False, "exposed_column": ""}
    level |= {"attack": str(best["attack"]), "utility": float(first["utility"])}
    level["attack_success"] = float(best.get("success", math.nan))
    for name, end in (("value", ""), ("low", "_low"), ("high", "_high")):
        level[f"attack_{name}"] = float(best[f"gained{end}"])
    if settings.get("unseen"):
        value = np.zeros(n)
    known = ~np.isnan(value)
    if not known.any():
        level["n_above"] = _counted(report, noise)
        if level["n_above"] > 0.0 or _refutes(report, best, limit):
            level["verdict"] = "not_kept"
        return level
    # What is not known of a record is not kept for it.
    filled = np.where(known, value, 1.0)
    k, mean = int((~(value <= limit * (1.0 + _ROUNDING))).sum()), float(filled.mean())
    share = k / n
    if sampled:
        share = 1.0 if k == n else float(stats.beta.ppf(_CONFIDENCE, k + 1, n - k))
        if n > 1:
            mean = mean_interval(filled, confidence_level=0.9, value_range=(0.0, 1.0)).high
    largest = float(value.max()) if known.all() else 1.0
    level |= {"n_above": float(k), "share_above": share, "mean": mean, "largest": largest}
    if table["found_at_1pct"].notna().any():
        level["found_at_1pct"] = float(table["found_at_1pct"].max())
    if table["exposed_column"].notna().any():
        level["exposed_column"] = str(table.loc[table["exposure"].idxmax(), "exposed_column"])
    if contradicted:
        return level
    level["verdict"] = "unseen" if settings.get("unseen") else _verdict(k, n, mean, limit, sampled)
    if of == "everyone":
        level["passes"] = k == 0 and not sampled
    elif of == "average":
        level["passes"] = mean <= limit and bool(known.all())
    else:
        level["passes"] = share <= 1.0 - float(of) + _ROUNDING
    return level


def _verdict(k: int, n: int, mean: float, limit: float, sampled: bool) -> str:
    if k == 0:
        return "sample" if sampled else "everyone"
    if k <= _FEW * n:
        return "sample" if sampled else "all_but"
    return "average" if mean <= limit else "not_kept"


def _sampled(settings: dict[str, Any]) -> bool:
    return bool(settings.get("sampled")) and settings["n_targets"] < settings["n_records"]


def _smallest(report: AuditFacts, limit: float) -> dict[str, Any]:
    """Return the smallest noise that keeps the limit for everyone attacked, and its score there."""
    settings = report.settings
    names = ("smallest_noise", "smallest_noise_utility", "constant_utility", "noiseless_utility")
    found = [float(settings.get(name, math.nan)) for name in names]
    # It was found for the limit of the audit.
    if report.mechanism_failed or limit != settings["max_advantage"]:
        found[:2] = math.nan, math.nan
    smallest = dict(zip(("noise", "utility", *names[2:]), found, strict=True))
    return smallest | {"worse_than_constant": smallest["utility"] < smallest["constant_utility"]}


def _contradicted(report: AuditFacts) -> bool:
    """Return True if an attack exceeds a bound that is a theorem: its assumptions are not so.

    Where secrets are drawn from the prior of the bound, each in a game of its own, the chance of so
    many right guesses is exact; chance alone shall not take a sound bound away.
    """
    drawn = report.results[report.results["verdict"] == EXCEEDED]
    if report.settings["secrets"] != "drawn" or drawn.empty or not counts_success(report):
        return False
    bounds = drawn[list(report.bounds)].astype(float).min(axis=1).to_numpy()
    if "bound_limit" in drawn:  # of a sample: its own error is allowed for
        bounds = np.fmax(bounds, drawn["bound_limit"].to_numpy(dtype=float))
    games = drawn["n_games"].to_numpy(dtype=float)
    hits = np.rint(drawn["success"].to_numpy(dtype=float) * games)
    chance = p_value_exceeds(hits, games, np.minimum(bounds, 1.0))
    return bool(np.min(chance) * len(report.results) <= _CHANCE)


def _refutes(report: AuditFacts, best: Any, limit: float) -> bool:
    """Return True if an attack gains more than the limit, and more than without the model.

    On a column both have to show among people, too: of a few of them an attack is right by chance
    about some more than a guess is, also where the model knows nothing.
    """
    if report.kind == "membership" or not best["gained_low"] > limit:
        return bool(best["gained_low"] > limit)
    if not best.get("advantage_over_imputation_low", math.nan) > limit:
        return False
    at = report.records[report.records["noise_scale"] == best.name]
    most, start = (1.0, "success_") if counts_success(report) else (0.0, "mse_")
    names = [start + name for name in (best["attack"], *BASELINES) if start + name in at]
    own, *guesses = (np.abs(most - at[name].to_numpy(dtype=float)) for name in names)
    level = report.settings["confidence_level"]
    gains = [mean_interval(wrong - own, confidence_level=level) for wrong in guesses]
    lows = [e.low if math.isfinite(e.low) else e.estimate - 3.0 / len(at) for e in gains]
    return all(low > limit * wrong.mean() for low, wrong in zip(lows, guesses, strict=True))


def _counted(report: AuditFacts, noise: float) -> float:
    """Return how many records attacks show to be above the limit, at least; NaN if not known."""
    at = report.results[report.results["noise_scale"] == noise]
    if "records_above" not in at or at["records_above"].isna().all():
        return math.nan
    return float(at["records_above"].astype(float).max())


def _played(report: AuditFacts, noise: float, limit: float) -> pd.DataFrame:
    """Advantage of the best attack on every record, and whether it is surely above the limit."""
    at = report.records[report.records["noise_scale"] == noise]
    name = f"success_{best_rows(report).loc[noise, 'attack']}"
    table = at[["record", "label"]].assign(advantage=np.nan, surely=False)
    if not counts_success(report) or name not in at or "n_games" not in at:
        return table
    prior, success = guess_success(report, at), at[name].astype(float)
    rest = (1.0 - prior).where(prior < 1.0)
    table["advantage"] = (success - prior) / rest
    known = success.where(table["advantage"].notna())
    n_attacks = int((report.results["noise_scale"] == noise).sum())
    surely = surely_above(
        report, known.to_numpy(), at["n_games"].to_numpy(float), prior + limit * rest, n_attacks
    )
    return table.assign(surely=surely)


def surely_above(
    report: AuditFacts, success: Any, games: FloatArray, limit: Any, n_attacks: int = 1
) -> BoolArray:
    """Tell of whom an attack, the best of so many, is right more often than a limit, (n,).

    Among many records some are right by chance: exact binomial tests, by Holm's method over all
    whose success (n,) is known in games (n,).
    """
    success, games, limit = (np.asarray(each, dtype=float) for each in (success, games, limit))
    known = ~np.isnan(success) & (games > 0.0)
    surely = np.zeros(len(success), dtype=bool)
    if known.any():
        hits = np.rint((success * games)[known])
        p_values = np.atleast_1d(p_value_exceeds(hits, games[known], limit[known]))
        adjusted: Any = multiplicity_correction(np.minimum(p_values * n_attacks, 1.0))
        surely[known] = adjusted <= 1.0 - report.settings["confidence_level"]
    return surely
