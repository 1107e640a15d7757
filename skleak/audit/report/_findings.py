"""Sentences: what the numbers of an audit mean. What they rest on is in `_assumptions`."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skleak.audit.report._assumptions import assumptions
from skleak.audit.report._exposure import middle_noise, most_exposed
from skleak.audit.report._format import code, percent
from skleak.audit.report._noise import noise_findings
from skleak.audit.report._power import power_findings
from skleak.audit.report._summary import at_noise, interval, root, summary
from skleak.audit.report._tables import BASELINES, best_rows, counts_success, failed_rows
from skleak.audit.tables._verdicts import BIASED
from skleak.metrics._verdict import EXCEEDED, VACUOUS
from skleak.rendering._format import count, number, plural

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["assumptions", "findings", "name_rows"]

# Comparisons named one by one; more are counted.
_N_NAMED = 5


def findings(report: "AuditReport") -> tuple[str, ...]:
    """What the numbers of an audit say; the first entry is the summary."""
    if report.results.empty:
        return ("No attack was played: the audit says nothing.",)
    return (
        summary(report),
        *_failed(report),
        *_over_imputation(report),
        *_verdicts(report),
        *power_findings(report),
        *_biased(report),
        *noise_findings(report),
        *_exposed(report),
    )


def _failed(report: "AuditReport") -> list[str]:
    rows = failed_rows(report)
    if rows.empty:
        return []
    closer = max((_n_closer(report, row) for _, row in rows.iterrows()), default=0)
    meaning = "A failed attack shows nothing about the model; only the bounds do."
    if closer:
        meaning = (
            "A failed attack shows nothing about the records that it missed; to as many as "
            f"{count(closer)} of {plural(report.settings['n_targets'], 'record')} it came closer "
            "than a guess."
        )
    return [f"Failed, being worse than a guess without the model: {name_rows(rows)}. {meaning}"]


def _n_closer(report: "AuditReport", row: pd.Series) -> int:
    """Records whose error is smaller than that of the prior guess; 0 where guesses count."""
    column = f"mse_{row['attack']}"
    if column not in report.records:
        return 0
    at = report.records[report.records["noise_scale"] == row["noise_scale"]]
    return int((at[column].astype(float) < at["prior"].astype(float)).sum())


def _over_imputation(report: "AuditReport") -> list[str]:
    """What the model adds to what is known of the population."""
    row = best_rows(report).iloc[0]
    if row["failed"]:
        return []
    gain, low, high = (row[f"advantage_over_imputation{end}"] for end in ("", "_low", "_high"))
    if np.isnan(gain) or row["attack"] in BASELINES:
        return []
    stated = f"{percent(gain)} ({interval(report, percent(low), percent(high))})"
    at = at_noise(float(best_rows(report).index[0]))
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
            f"{name_rows(exceeded)}. {_meaning(report)}"
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
        f"Below the bound for unbiased attacks: {name_rows(rows)}. These attacks are biased, and "
        "the bound does not hold for them: their error as measured is what counts (the first has a "
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
        f"{at_noise(noise)}, the most exposed {named} {', '.join(map(str, top['record']))} "
        "(positions in the data, from 0)"
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
        f"{sentence}: for the first {by} {number(root(first['value']))}, against "
        f"{number(root(first['prior']))} when guessing the mean of the others."
    ]


def name_rows(rows: pd.DataFrame) -> str:
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
