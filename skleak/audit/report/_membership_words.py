"""Sentences: what the numbers of an audit of membership mean."""

from typing import TYPE_CHECKING, Any

import numpy as np

from skleak.audit.report._exposure import middle_noise, most_exposed
from skleak.audit.report._findings import name_rows
from skleak.audit.report._format import attack_label, code, percent
from skleak.audit.report._noise import noise_findings
from skleak.audit.report._power import power_findings
from skleak.audit.report._summary import at_noise, interval, noise_choice, utility_sentence
from skleak.audit.report._tables import WORTH_A_WORD, best_rows, levels, tightest
from skleak.metrics import multiplicity_correction, p_value_exceeds
from skleak.metrics._verdict import EXCEEDED, VACUOUS
from skleak.rendering._format import count, number, plural, shorten

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["membership_findings"]

_WHO = {
    "exact": "an attacker who is told all other memberships (`exact`)",
    "likelihood_ratio": "an attacker who has seen models of the same kind (`likelihood_ratio`)",
}


def membership_findings(report: "AuditReport") -> tuple[str, ...]:
    """What the numbers of an audit of membership say; the first entry is the summary."""
    if report.results.empty:
        return ("No attack was played: the audit says nothing.",)
    return (
        _summary(report),
        *_rarely_wrong(report),
        *_better_attack(report),
        *_gap(report),
        *_guarantee(report),
        *_verdicts(report),
        *power_findings(report),
        *noise_findings(report),
        *_exposed(report),
    )


def _summary(report: "AuditReport") -> str:
    best = best_rows(report)
    noise, row = float(best.index[0]), best.iloc[0]
    ends = interval(report, percent(row["success_low"]), percent(row["success_high"]))
    parts = [
        f"{_where(report, noise)}{_who(row['attack'])} tells members from non-members for "
        f"{percent(row['success'])} of the records ({ends}); guessing gives "
        f"{percent(row['baseline'])}."
        if not row["failed"]
        else f"{_where(report, noise)}every attack that was played failed: none tells members from "
        f"non-members as often as guessing, which is right for {percent(row['baseline'])} of the "
        "records."
    ]
    if _gives_away(row):
        parts.append(
            "How much better the model does on members than on others means that some attack is "
            f"right for at least {percent(row['lower_bound'])}."
        )
    bound: Any = tightest(report).loc[noise]
    limit = percent(min(float(bound["value"]), 1.0), up=True)
    if bound["bound"] is None:
        parts.append("Nothing is known that rules out a better attack.")
    elif limit == "100%":
        parts.append("No bound rules out that some attack is always right.")
    else:
        parts.append(f"No attack whatsoever can exceed {limit} on average.")
    parts.append(noise_choice(report, best) if len(best) > 1 else _model_utility(report, noise))
    return _sentence(" ".join(part for part in parts if part))


def _rarely_wrong(report: "AuditReport") -> list[str]:
    """The few members found beyond doubt, whom a mean over all records hides."""
    noise = float(levels(report).index[0])
    at = report.results[report.results["noise_scale"] == noise]
    known = at[at["tpr_at_1pct_fpr"].notna()]
    if known.empty:
        return []
    row: Any = known.sort_values("tpr_at_1pct_fpr", ascending=False, kind="stable").iloc[0]
    ends = (percent(row["tpr_at_1pct_fpr_low"]), percent(row["tpr_at_1pct_fpr_high"]))
    return [
        _sentence(
            f"{_where(report, noise)}with one false alarm in a hundred non-members, "
            f"{code(row['attack'])} finds {percent(row['tpr_at_1pct_fpr'])} of the members "
            f"({interval(report, *ends)}); a score that tells nothing finds 1%."
        )
    ]


def _better_attack(report: "AuditReport") -> list[str]:
    """Where the gap promises more than any attack played has reached."""
    found = []
    for noise, part in report.results.groupby("noise_scale"):
        floor, reached = float(part["lower_bound"].iloc[0]), float(part["success_high"].max())
        if floor > reached:
            found.append((float(str(noise)), floor, reached))
    if not found:
        return []
    noise, floor, reached = found[0]
    others = "" if len(found) == 1 else f" So it is at {plural(len(found), 'noise scale')} in all."
    return [
        _sentence(
            f"{_where(report, noise)}some attack does better than those played: one is right for "
            f"at least {percent(floor)} of the records, and the best one played for at most "
            f"{percent(reached, up=True)}. What they show is less than what leaks.{others}"
        )
    ]


def _gap(report: "AuditReport") -> list[str]:
    row = levels(report).iloc[0]
    if np.isnan(row["gap"]):
        return []
    wrong = report.settings["gap_loss"] == "zero_one"
    what = "share of wrong labels" if wrong else "squared error, cut at a usual one and over it,"
    ends = interval(report, *(number(row[f"gap_{end}"]) for end in ("low", "high")))
    if _gives_away(row):
        meaning = "that difference alone gives members away."
    elif row["lower_bound"] > row["baseline"]:
        meaning = (
            f"that alone gives some attack an advantage of {percent(_sure_advantage(row))} over "
            "guessing, and better ones are not ruled out: a model may leak without doing better "
            "on what it was trained on."
        )
    else:
        meaning = (
            "no attack is certain to follow from it, and none is ruled out: a model may leak "
            "without doing better on what it was trained on."
        )
    return [
        f"Generalisation gap: the {what} is larger by {number(row['gap'])} on non-members than on "
        f"members ({ends}); {meaning}"
    ]


def _guarantee(report: "AuditReport") -> list[str]:
    """What differential privacy promises, beside what is so for these records."""
    first = levels(report)
    if "dp" not in first or first["dp"].isna().all():
        return []
    noise = float(first.index[int(np.argmin(first["dp"].to_numpy(dtype=float)))])
    row: Any = first.loc[noise]
    exact = ""
    if "bayes" in first and not np.isnan(row["bayes"]):
        exact = (
            f"; on these records the best attack reaches {percent(row['bayes'])}, since the "
            "guarantee is for any records"
        )
    return [
        f"{at_noise(noise)}, the estimator's own guarantee of differential privacy leaves an "
        f"attack at most {percent(row['dp'], up=True)}{exact}."
    ]


def _verdicts(report: "AuditReport") -> list[str]:
    judged = report.results["verdict"]
    exceeded, vacuous = report.results[judged == EXCEEDED], int((judged == VACUOUS).sum())
    lines = []
    if len(exceeded):
        does = "exceeds the bound" if len(exceeded) == 1 else "exceed the bound"
        lines.append(
            f"{count(len(exceeded))} of {plural(len(judged), 'comparison')} {does}: "
            f"{name_rows(exceeded)}. Members were drawn as the bound supposes, so it is a theorem: "
            "the noise is not what was stated, or the attack was told what it should guess."
        )
    elif vacuous < len(judged):
        lines.append(
            "No attack played exceeds the tightest bound by more than chance explains "
            f"({plural(len(judged) - vacuous, 'comparison')} with a bound)."
        )
    if vacuous:
        lines.append(
            f"{plural(vacuous, 'comparison')} of {count(len(judged))} "
            f"{'is' if vacuous == 1 else 'are'} vacuous: no bound says anything there, and only "
            "the attacks that were played speak."
        )
    if "verdict" in report.records:
        found = report.records[report.records["verdict"] == EXCEEDED]["record"]
        if len(found):
            names = ", ".join(map(str, sorted(set(found.tolist()))[:5]))
            lines.append(
                f"Judged one by one, the bound is exceeded for {plural(found.nunique(), 'record')} "
                f"(positions in the data, from 0): {names}{', …' if found.nunique() > 5 else ''}."
            )
    return lines


def _exposed(report: "AuditReport") -> list[str]:
    top = most_exposed(report, 5)
    if top.empty or top.attrs["source"] is None:
        return []
    noise, source, first = middle_noise(report), str(top.attrs["source"]), top.iloc[0]
    named = "record is" if len(top) == 1 else "records are"
    sentence = (
        f"{_where(report, noise)}the most exposed {named} {', '.join(map(str, top['record']))} "
        "(positions in the data, from 0): "
    )
    if source in ("bayes", "tightest_bound"):
        does = (
            "the best possible attack is right about the first"
            if source == "bayes"
            else "no attack is right about the first more often than"
        )
        return [
            _sentence(
                f"{sentence}{does} {'with probability ' if source == 'bayes' else ''}"
                f"{percent(first['value'])}, against {percent(first['prior'])} by guessing."
            )
        ]
    n_beyond = _beyond_chance(report, source)
    told = (
        f"{plural(n_beyond, 'record')} of {count(report.settings['n_targets'])} "
        f"{'is' if n_beyond == 1 else 'are'} told apart more often than chance explains, after "
        "correction for looking at all of them."
        if n_beyond
        else "but with so many records that may be chance: none is told apart more often than "
        "chance explains, after correction for looking at all of them."
    )
    return [
        _sentence(
            f"{sentence}{code(source.removeprefix('success_'))} is right about the first in "
            f"{percent(first['value'])} of the releases; {told}"
        )
    ]


def _beyond_chance(report: "AuditReport", source: str) -> int:
    """Records about which an attack is right more often than guessing, by Holm's method."""
    at = report.records[report.records["noise_scale"] == middle_noise(report)]
    games = at["n_games"].to_numpy(dtype=float)
    known = (games > 0.0) & at[source].notna().to_numpy()
    if not known.any():
        return 0
    hits = np.rint(at[source].to_numpy(dtype=float)[known] * games[known])
    p_values = p_value_exceeds(hits, games[known], at["prior"].to_numpy(dtype=float)[known])
    adjusted: Any = multiplicity_correction(np.atleast_1d(p_values))
    return int(np.sum(adjusted <= 1.0 - report.settings["confidence_level"]))


def _gives_away(row: Any) -> bool:
    """Return True if the gap alone gives an attack more than a word's worth."""
    return _sure_advantage(row) >= WORTH_A_WORD


def _sure_advantage(row: Any) -> float:
    """Advantage over the prior that some attack reaches."""
    return float((row["lower_bound"] - row["baseline"]) / (1.0 - row["baseline"]))


def _model_utility(report: "AuditReport", noise: float) -> str:
    if _where(report, noise):
        return utility_sentence(report, noise)
    settings, value = report.settings, float(levels(report)["utility"].iloc[0])
    name = shorten(settings["utility_name"], 48)
    return f"The model's {name} is {number(value)} on {settings['utility_data']}."


def _where(report: "AuditReport", noise: float) -> str:
    """Start of a sentence about a noise scale; nothing for a model that has none."""
    if noise == 0.0 and not report.settings["has_noise"] and len(levels(report)) == 1:
        return ""
    return f"{at_noise(noise)}, "


def _who(attack: Any) -> str:
    if attack in _WHO:
        return _WHO[attack]
    if attack in ("loss", "likelihood", "modified_entropy", "gradient_norm"):
        return (
            f"an attacker who looks at the {attack_label(attack)} of each record ({code(attack)})"
        )
    return f"the attack {code(attack)}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
