"""Columns that the tables of all games have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.tables._design import Design, Outcome, cell_key
from skleak.audit.tables._verdicts import found_excess, record_verdicts, success_verdict
from skleak.metrics import Interval, binomial_interval, mean_interval
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class Played:
    """Success of one attack at one level: intervals to show and to judge by, and the games.

    `shares` is the success by release, None where every game has a release of its own. A `fact` is
    the success of an attack that ignores the releases.
    """

    shown: Interval
    judged: Interval
    n_games: int
    shares: FloatArray | None = None
    fact: bool = False

    @classmethod
    def of(cls, design: Design, outcome: Outcome) -> "Played":
        """Intervals of the outcome of a cell."""
        levels = (design.confidence_level, "gaffke"), (design.verdict_level, "betting")
        # Of a sample, verdicts compare its records with their own bounds; what is shown is of all.
        of_all = {"shares": outcome["by_record"]} if "by_record" in outcome else {}
        shown, judged = (
            _interval(found, level, method)
            for found, (level, method) in zip((outcome | of_all, outcome), levels, strict=True)
        )
        fact = bool(outcome.get("exact", False))
        return cls(shown, judged, int(outcome["games"]), outcome.get("shares"), fact)


def _interval(outcome: Outcome, level: float, method: str) -> Interval:
    """Clustered by release where records share one; else exact, as all games are independent.

    Games about different records differ in their chance of success. The sum of such trials
    spreads no more than a binomial of the mean chance (Hoeffding 1956).
    """
    if outcome.get("exact", False):
        fact = float(outcome["hits"] / outcome["games"])
        return Interval(fact, fact, fact)
    if "shares" in outcome:
        return mean_interval(
            outcome["shares"], confidence_level=level, value_range=(0.0, 1.0), method=method
        )
    return binomial_interval(float(outcome["hits"]), float(outcome["games"]), level)


def gains(name: str, success: Interval, baseline: float) -> dict[str, float]:
    """Advantage over a baseline, with its interval; NaN over one that cannot be beaten."""
    names = (name, f"{name}_low", f"{name}_high")
    if np.isnan(baseline) or baseline >= 1.0:
        return dict.fromkeys(names, np.nan)
    gain = ((float(value) - baseline) / (1.0 - baseline) for value in success)
    return dict(zip(names, gain, strict=True))


def success_columns(success: Interval, baseline: float) -> dict[str, Any]:
    """Success and advantage with their intervals."""
    names = ("success", "success_low", "success_high")
    shown = dict(zip(names, map(float, success), strict=True))
    return {**shown, "baseline": baseline, **gains("advantage", success, baseline)}


def judged_columns(
    design: Design,
    played: Played,
    bounds: Mapping[str, float],
    limits: Mapping[str, float],
    utility: float,
    n_secrets: int = 0,
) -> dict[str, Any]:
    """Verdict by the tightest bound, the games behind it, and the bounds.

    `limits` are what bounds may be that are estimates; `n_secrets` counts those not drawn.
    """
    known = {name: value for name, value in bounds.items() if not np.isnan(value)}
    name = min(known, key=lambda bound: known[bound], default=None)
    tightest = np.nan if name is None else known[name]
    limit = tightest if name is None else limits.get(name, tightest)
    rest = (limit, n_secrets, design.verdict_level)
    # A fact is found without error.
    shares, n_games = (None, 0) if played.fact else (played.shares, played.n_games)
    return {
        "verdict": success_verdict(played.judged.low, played.judged.high, *rest),
        "utility": utility,
        "n_games": played.n_games,
        "detectable_excess": found_excess(shares, n_games, *rest) + (limit - tightest),
        **bounds,
    }


def over_noise(values: FloatArray, noise: float) -> FloatArray:
    """Distances or losses at unit noise over the noise, infinite without any; NaN stays."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0.0, values / noise, values)


def record_table(
    design: Design, columns: Callable[[int], Mapping[str, Any]], prior: Any
) -> pd.DataFrame:
    """One row for each noise level and target, of the columns at each level.

    Drawn secrets have verdicts by records: each in the games of its own, all of them and all
    levels corrected together.
    """
    parts = []
    for k, noise in enumerate(design.noise_scales):
        scales = np.full(len(design.targets), noise)
        start = {"noise_scale": scales, "record": design.targets, "prior": prior}
        parts.append(pd.DataFrame({**start, **columns(k)}))
    table = pd.concat(parts, ignore_index=True)
    if design.drawn and "bayes" in table:
        names = [f"success_{name}" for name in design.attacks]
        played = [name for name in names if table[name].notna().all()]
        counts = np.zeros((1, len(table)))
        if played:
            counts = np.rint(table[played].to_numpy().T * design.games_each)
        bound = table["bayes"].fillna(1.0).to_numpy()
        level = design.confidence_level
        table["verdict"] = record_verdicts(counts, design.games_each, bound, level)
    return table


def bounded_columns(
    design: Design, cells: Mapping[str, Outcome], noise: float, others: Sequence[str]
) -> dict[str, FloatArray]:
    """Bounds of every record, the smallest of the others, and the success of the attacks.

    Where bounds are computed for a sample, ``computed`` tells for which, and a cheaper bound that
    is known of every record stands for both of the others.
    """
    nothing = np.full(len(design.targets), np.nan)
    bounds = cells.get(cell_key(noise, "bounds"), {"bayes": nothing})
    columns = {
        "bayes": bounds["bayes"],
        "tightest_bound": np.min([bounds[name] for name in others], axis=0) if others else nothing,
    }
    if "computed" in bounds:
        known = bounds["computed"]
        columns = {name: np.where(known, v, bounds["upper"]) for name, v in columns.items()}
        columns["computed"] = known
    for name in design.attacks:
        counts = cells[cell_key(noise, name)].get("counts", nothing)
        columns[f"success_{name}"] = counts / design.games_each
    return columns
