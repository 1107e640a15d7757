"""The first sentence of the report of an audit: how well attacks did, and what none can exceed."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skleak.audit.report._format import attack_label, code, percent
from skleak.audit.report._tables import (
    BASELINES,
    best_rows,
    counts_success,
    imputation_error,
    levels,
    median,
    prior_error,
    record_advantages,
    tightest,
)
from skleak.audit.tables._verdicts import BIASED
from skleak.rendering._format import number, shorten

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = [
    "at_noise",
    "interval",
    "noise_choice",
    "root",
    "summary",
    "utility_sentence",
    "who",
]

# An advantage below this share is small, as the summary counts it.
_SMALL = 0.05
_ALL_FAILED = "every attack on the model that was played failed"


def summary(report: "AuditReport") -> str:
    """How the best attack does at the smallest noise, what bounds it, and what noise costs."""
    best = best_rows(report)
    noise, row = float(best.index[0]), best.iloc[0]
    told = _error_summary if not counts_success(report) else _success_summary
    parts = [told(report, noise, row)]
    if len(best) > 1:
        parts.append(noise_choice(report, best))
    else:
        parts.append(utility_sentence(report, noise))
    return " ".join(part for part in parts if part)


def _success_summary(report: "AuditReport", noise: float, row: pd.Series) -> str:
    low, high = percent(row["success_low"]), percent(row["success_high"])
    games = "records" if report.settings["secrets"] == "actual" else "games"
    known = (
        ""
        if _no_imputation(row)
        else (f", imputation without the model {percent(row['imputation'])}")
    )
    guess = percent(row["baseline"])
    sentence = (
        f"{at_noise(noise)}, {who(row['attack'])} guesses {code(report.attribute)} right for "
        f"{percent(row['success'])} of the {games} ({interval(report, low, high)}); guessing from "
        f"the prior gives {guess}{known}."
    )
    if row["failed"]:
        sentence = (
            f"{at_noise(noise)}, {_ALL_FAILED}: none guesses {code(report.attribute)} right as "
            f"often as the prior, which is so for {guess} of the {games}{known}."
        )
    bound: Any = tightest(report).loc[noise]
    if bound["bound"] is None:
        return sentence + " No bound on other attacks was computed."
    limit = percent(bound["value"], up=True)
    if limit == "100%":
        return sentence + " No bound rules out that some attack is always right."
    return (
        f"{sentence} For secrets drawn from the stated prior, no attack whatsoever can exceed "
        f"{limit}."
    )


def _error_summary(report: "AuditReport", noise: float, row: pd.Series) -> str:
    low, high = number(root(row["mse_low"])), number(root(row["mse_high"]))
    does, per = (
        ("reconstructs whole records", " per value")
        if report.kind == "record"
        else (f"guesses {code(report.attribute)}", "")
    )
    guess: Any = prior_error(report).loc[noise]
    known = ""
    if not _no_imputation(row):
        error = imputation_error(report).loc[noise]
        known = f", imputation without the model {number(root(error))}"
    sentence = (
        f"{at_noise(noise)}, {who(row['attack'])} {does} with a root mean squared error{per} of "
        f"{number(root(row['mse']))} ({interval(report, low, high)}){_half(report, noise, row)}; "
        f"guessing the mean of the others gives {number(root(guess))}{known}."
    )
    if row["failed"]:
        sentence = (
            f"{at_noise(noise)}, {_ALL_FAILED}: none comes as close as guessing the mean of the "
            f"others, with a root mean squared error{per} of {number(root(guess))}{known}."
        )
    bound: Any = tightest(report).loc[noise]
    if bound["bound"] is None:
        return sentence + " No bound on other attacks is known."
    if bound["value"] <= 0.0:
        return sentence + " No bound rules out that some attack makes no error."
    if bound["value"] == np.inf:
        return (
            f"{sentence} For half of the records no unbiased attack has a finite error; biased "
            "ones have."
        )
    at = report.records[report.records["noise_scale"] == noise]
    smallest = at["cramer_rao"].astype(float).min() if "cramer_rao" in at else np.nan
    worst = (
        ""
        if np.isnan(smallest)
        else (
            f" for half of the records, or below {number(root(smallest))} for the most exposed one"
        )
    )
    return (
        f"{sentence} No unbiased attack whatsoever can have one below "
        f"{number(root(bound['value']))}{worst}; a biased one, which leans on prior knowledge, "
        "can."
    )


def _half(report: "AuditReport", noise: float, row: pd.Series) -> str:
    """The median record, as a few hopeless ones can make up all of a mean."""
    at = report.records[report.records["noise_scale"] == noise]
    column = f"mse_{row['attack']}"
    half = median(at[column].astype(float)) if column in at else np.nan
    return "" if np.isnan(half) else f", below {number(root(half))} for half of the records"


def noise_choice(report: "AuditReport", best: pd.DataFrame) -> str:
    """The smallest noise with a small advantage, and what it costs."""
    advantages = record_advantages(report)
    scales, bound = advantages.index.to_numpy(dtype=float), advantages["mean"].to_numpy()
    what = "bound on the advantage over the prior"
    if not counts_success(report):
        what = "bound on the advantage of unbiased attacks over the prior"
    if np.isnan(bound).all():
        return ""
    small = np.flatnonzero(bound < _SMALL)
    k = int(small[0]) if len(small) else int(np.nanargmin(bound))
    noise, least = float(scales[k]), percent(max(bound[k], 0.0), up=True)
    if len(small):
        sentence = (
            f"The smallest noise scale audited at which the tightest {what} is below "
            f"{percent(_SMALL)} is {number(noise)}: {least} there, and "
            f"{_played(best.loc[noise], float(bound[k]))}."
        )
    else:
        sentence = (
            f"At none of the {len(bound)} noise scales audited is the tightest {what} below "
            f"{percent(_SMALL)}; it is smallest at {number(noise)} ({least})."
        )
    worst = float(advantages["largest"].iloc[k])
    if not np.isnan(worst):
        sentence += (
            " That is an average over records: for the most exposed one the bound is "
            f"{percent(max(worst, 0.0), up=True)}."
        )
    return f"{sentence} {utility_sentence(report, noise)}".rstrip()


def _played(row: Any, bound: float) -> str:
    """What the best attack reaches where the bound is small, and a word where that is more."""
    if row["failed"]:
        return "every attack played failed: all do worse than guessing"
    if row["advantage"] < 0.0:
        return f"the best attack played, {code(row['attack'])}, does no better than guessing"
    text = f"the best attack played, {code(row['attack'])}, has {percent(row['advantage'])}"
    if not row["advantage_low"] > max(bound, _SMALL):
        return text
    if row["verdict"] == BIASED:
        return text + "; it is biased"
    if "mse" in row:
        return text + ", which no bound for unbiased attacks rules out for biased ones"
    return text + "; see the verdict on it"


def utility_sentence(report: "AuditReport", noise: float) -> str:
    """Utility of the model at a noise scale; empty where it is not known."""
    settings, first = report.settings, levels(report)
    utility = float(first["utility"].to_numpy(dtype=float)[first.index == noise][0])
    if np.isnan(utility):
        return ""
    against = settings["noiseless_utility"]
    what = f"the released model's {shorten(settings['utility_name'], 48)}"
    compared = (
        "" if np.isnan(against) or noise == 0.0 else f", against {number(against)} without noise"
    )
    where = settings["utility_data"]
    return f"{at_noise(noise)}, {what} is {number(utility)} on {where}{compared}."


def who(attack: Any) -> str:
    """The subject of a sentence about an attack."""
    if attack in BASELINES:
        return f"{attack_label(attack)}, which does not look at the model,"
    if attack in ("white_box", "black_box", "informed"):
        return f"an attacker who knows all else (`{attack}`)"
    return f"the attack {code(attack)}"


def at_noise(noise: float) -> str:
    """Start of a sentence about a noise scale."""
    return "Without noise" if noise == 0.0 else f"At noise scale {number(noise)}"


def interval(report: "AuditReport", low: str, high: str) -> str:
    """A confidence interval in brackets."""
    return f"{percent(report.settings['confidence_level'])} interval {low} to {high}"


def _no_imputation(row: pd.Series) -> bool:
    return bool(np.isnan(row["imputation"])) or row["attack"] == "imputation"


def root(error: Any) -> float:
    """Root of a mean squared error, which rounding may leave below zero."""
    return float(np.sqrt(np.maximum(error, 0.0)))
