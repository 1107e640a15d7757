"""Sentences: what the numbers of an audit mean. What they rest on is in `_assumptions`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skleak.audit.report._assumptions import assumptions
from skleak.audit.report._format import attack_label, code, percent
from skleak.audit.report._noise import noise_findings
from skleak.audit.report._power import power_findings
from skleak.audit.report._tables import (
    BASELINES,
    best_rows,
    counts_success,
    imputation_error,
    levels,
    middle_noise,
    most_exposed,
    prior_error,
    record_advantages,
    tightest,
)
from skleak.audit.tables._verdicts import BIASED
from skleak.metrics._verdict import EXCEEDED, VACUOUS
from skleak.rendering._format import count, number, plural, shorten

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["assumptions", "failed_rows", "findings"]

# An advantage below this share is small, as the summary counts it.
_SMALL = 0.05
# Comparisons named one by one; more are counted.
_N_NAMED = 5


def findings(report: "AuditReport") -> tuple[str, ...]:
    """What the numbers of an audit say; the first entry is the summary.

    Parameters
    ----------
    report : AuditReport
        A report whose numbers are complete.

    Returns
    -------
    tuple of str
    """
    if report.results.empty:
        return ("No attack was played: the audit says nothing.",)
    return (
        _summary(report),
        *_failed(report),
        *_over_imputation(report),
        *_verdicts(report),
        *power_findings(report),
        *_biased(report),
        *noise_findings(report),
        *_exposed(report),
    )


def _summary(report: "AuditReport") -> str:
    best = best_rows(report)
    noise, row = float(best.index[0]), best.iloc[0]
    told = _error_summary if not counts_success(report) else _success_summary
    parts = [told(report, noise, row)]
    if len(best) > 1:
        parts.append(_noise_choice(report, best))
    else:
        parts.append(_utility(report, noise))
    return " ".join(part for part in parts if part)


def _success_summary(report: "AuditReport", noise: float, row: pd.Series) -> str:
    low, high = percent(row["success_low"]), percent(row["success_high"])
    games = "records" if report.settings["secrets"] == "actual" else "games"
    known = (
        ""
        if _no_imputation(row)
        else (f", imputation without the model {percent(row['imputation'])}")
    )
    sentence = (
        f"{_at(noise)}, {_who(row['attack'])} guesses {code(report.attribute)} right for "
        f"{percent(row['success'])} of the {games} ({_interval(report, low, high)}); guessing from "
        f"the prior gives {percent(row['baseline'])}{known}."
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
    low, high = number(_root(row["mse_low"])), number(_root(row["mse_high"]))
    does, per = (
        ("reconstructs whole records", " per value")
        if report.kind == "record"
        else (f"guesses {code(report.attribute)}", "")
    )
    guess: Any = prior_error(report).loc[noise]
    known = ""
    if not _no_imputation(row):
        error = imputation_error(report).loc[noise]
        known = f", imputation without the model {number(_root(error))}"
    sentence = (
        f"{_at(noise)}, {_who(row['attack'])} {does} with a root mean squared error{per} of "
        f"{number(_root(row['mse']))} ({_interval(report, low, high)}){_half(report, noise, row)}; "
        f"guessing the mean of the others gives {number(_root(guess))}{known}."
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
            f" for half of the records, or below {number(_root(smallest))} for the most exposed one"
        )
    )
    return (
        f"{sentence} No unbiased attack whatsoever can have one below "
        f"{number(_root(bound['value']))}{worst}; a biased one, which leans on prior knowledge, "
        "can."
    )


def _half(report: "AuditReport", noise: float, row: pd.Series) -> str:
    """The median record, as a few hopeless ones can make up all of a mean."""
    at = report.records[report.records["noise_scale"] == noise]
    column = f"mse_{row['attack']}"
    median = at[column].astype(float).median() if column in at else np.nan
    return "" if np.isnan(median) else f", below {number(_root(median))} for half of the records"


def _noise_choice(report: "AuditReport", best: pd.DataFrame) -> str:
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
    return f"{sentence} {_utility(report, noise)}".rstrip()


def _played(row: Any, bound: float) -> str:
    """What the best attack reaches where the bound is small, and a word where that is more."""
    if row["advantage_high"] < 0.0:
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


def _utility(report: "AuditReport", noise: float) -> str:
    settings, first = report.settings, levels(report)
    utility = float(first["utility"].to_numpy(dtype=float)[first.index == noise][0])
    if np.isnan(utility):
        return ""
    against = settings["noiseless_utility"]
    what = f"the released model's {shorten(settings['utility_name'], 48)}"
    compared = (
        "" if np.isnan(against) or noise == 0.0 else f", against {number(against)} without noise"
    )
    return f"{_at(noise)}, {what} is {number(utility)} on {settings['utility_data']}{compared}."


def failed_rows(report: "AuditReport") -> pd.DataFrame:
    """Rows of attacks on the model that do worse than guessing, beyond what chance explains."""
    results = report.results
    worse = results["advantage_high"].astype(float) < 0.0
    return results[worse & ~results["attack"].isin(BASELINES)]


def _failed(report: "AuditReport") -> list[str]:
    rows = failed_rows(report)
    if rows.empty:
        return []
    return [
        f"Failed, being worse than a guess without the model: {_rows(rows)}. A failed attack "
        "shows nothing about the model; only the bounds do."
    ]


def _over_imputation(report: "AuditReport") -> list[str]:
    """What the model adds to what is known of the population."""
    row = best_rows(report).iloc[0]
    if row["advantage_high"] < 0.0:
        return []
    gain, low, high = (row[f"advantage_over_imputation{end}"] for end in ("", "_low", "_high"))
    if np.isnan(gain) or row["attack"] in BASELINES:
        return []
    stated = f"{percent(gain)} ({_interval(report, percent(low), percent(high))})"
    at = _at(float(best_rows(report).index[0]))
    if low > 0.0:
        meaning = "so the model tells such an attacker what the other columns do not."
    elif high < 0.0:
        meaning = "so it knows less than the other columns of the record tell anyone."
    else:
        meaning = "too uncertain to tell whether it knows more than the other columns tell anyone."
    if low <= 0.0 and report.settings["prior"] != "conditional" and counts_success(report):
        meaning += (
            ' An attacker can use both at once: audit with `prior="conditional"` to see what the '
            "model adds to the other columns."
        )
    elif low <= 0.0:
        meaning += " An attacker who uses both at once may learn more than either."
    return [
        f"{at}, the best attack's advantage over imputation (the other columns of the record and "
        f"no model) is {stated}, {meaning}"
    ]


def _verdicts(report: "AuditReport") -> list[str]:
    judged = report.results["verdict"]
    exceeded, vacuous = report.results[judged == EXCEEDED], int((judged == VACUOUS).sum())
    lines = []
    if len(exceeded):
        does = "exceeds the bound" if len(exceeded) == 1 else "exceed the bound"
        lines.append(
            f"{count(len(exceeded))} of {plural(len(judged), 'comparison')} {does}: "
            f"{_rows(exceeded)}. {_meaning(report)}"
        )
    elif vacuous < len(judged):
        n = len(judged) - vacuous
        n_judged = f"({plural(n, 'comparison')} with a bound)"
        lines.append(
            f"No attack played exceeds the tightest bound by more than chance explains {n_judged}."
            if counts_success(report)
            else "Apart from attacks that were found to be biased, none has an error below the "
            f"bound by more than chance explains {n_judged}."
        )
    if vacuous:
        lines.append(
            f"{plural(vacuous, 'comparison')} of {count(len(judged))} "
            f"{'is' if vacuous == 1 else 'are'} vacuous: no bound says anything there, and only "
            "the attacks that were played speak."
        )
    if "verdict" in report.records:
        found = report.records[report.records["verdict"] == EXCEEDED]
        names = ", ".join(map(str, sorted(set(found["record"].tolist()))[:_N_NAMED]))
        if len(found):
            lines.append(
                "Judged one by one, the bound is exceeded for "
                f"{plural(found['record'].nunique(), 'record')} (positions in the data, from 0): "
                f"{names}{', …' if found['record'].nunique() > _N_NAMED else ''}."
            )
    return lines


def _meaning(report: "AuditReport") -> str:
    """What an exceeded bound points to."""
    if not counts_success(report):
        return (
            "An attack that was found to be unbiased cannot do so: the noise, the encodings or the "
            "attack are not what was stated."
        )
    if report.settings["secrets"] == "drawn":
        return (
            "Secrets were drawn from the stated prior, where the bound is a theorem: the noise, "
            "the encodings or the attack are not what was stated."
        )
    if report.settings["prior"] == "conditional":
        return (
            "Either the conditional prior still understates what the other columns tell of these "
            "records, or the noise, the encodings or the attack are not what was stated: audit "
            'with `secrets="drawn"`, where the prior is exact, to tell which.'
        )
    return (
        "The stated prior understates what is known of these records: the other columns tell more, "
        "with or without the model, or the secrets of the few records attacked happen to be easy. "
        'Audit with `prior="conditional"`; if a bound is exceeded with `secrets="drawn"` too, the '
        "noise or the encodings are not what was stated."
    )


def _biased(report: "AuditReport") -> list[str]:
    rows = report.results[report.results["verdict"] == BIASED]
    if rows.empty:
        return []
    row = rows.iloc[0]
    return [
        f"Below the bound for unbiased attacks: {_rows(rows)}. These attacks are biased, and the "
        "bound does not hold for them: their error as measured is what counts (the first has a "
        f"squared bias of {number(row['squared_bias'])} and a variance of "
        f"{number(row['variance'])})."
    ]


def _exposed(report: "AuditReport") -> list[str]:
    top = most_exposed(report, 5)
    if top.empty:
        return []
    noise, source, first = middle_noise(report), top.attrs["source"], top.iloc[0]
    named = "record is" if len(top) == 1 else "records are"
    sentence = (
        f"{_at(noise)}, the most exposed {named} {', '.join(map(str, top['record']))} (positions "
        "in the data, from 0)"
    )
    if source is None or np.isnan(first["exposure"]):
        return [f"{sentence}: Fisher information loss {number(first['eta'])} for the first."]
    if counts_success(report):
        by = "the best possible attack guesses the first right with probability"
        if source != "bayes":
            by = (
                "the bound on the probability that an attack guesses the first right is"
                if source == "tightest_bound"
                else "the best attack played guesses the first right with frequency"
            )
        return [
            f"{sentence}: {by} {percent(first['value'])}, against {percent(first['prior'])} from "
            "its prior alone."
        ]
    by = (
        "no unbiased attack has a root mean squared error below"
        if source == "cramer_rao"
        else "the best attack played has a root mean squared error of"
    )
    return [
        f"{sentence}: for the first {by} {number(_root(first['value']))}, against "
        f"{number(_root(first['prior']))} when guessing the mean of the others."
    ]


def _rows(rows: pd.DataFrame) -> str:
    """Name attacks, each with its noise scales."""
    named = [
        f"{code(attack)} at noise scale{'s' if len(part) > 1 else ''} "
        f"{', '.join(map(number, part['noise_scale']))}"
        for attack, part in rows.groupby("attack", sort=False)
    ]
    more = len(named) - _N_NAMED
    return "; ".join(named[:_N_NAMED]) + (
        f"; and {plural(more, 'more attack')}" if more > 0 else ""
    )


def _who(attack: Any) -> str:
    if attack in BASELINES:
        return f"{attack_label(attack)}, which does not look at the model,"
    if attack in ("white_box", "black_box", "informed"):
        return f"an attacker who knows all else (`{attack}`)"
    return f"the attack {code(attack)}"


def _at(noise: float) -> str:
    return "Without noise" if noise == 0.0 else f"At noise scale {number(noise)}"


def _interval(report: "AuditReport", low: str, high: str) -> str:
    return f"{percent(report.settings['confidence_level'])} interval {low} to {high}"


def _no_imputation(row: pd.Series) -> bool:
    return bool(np.isnan(row["imputation"])) or row["attack"] == "imputation"


def _root(error: Any) -> float:
    return float(np.sqrt(np.maximum(error, 0.0)))
