"""Sentences: the findings of an audit in words, most important first."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from skleak.audit.report._advice import N_NAMED, distribution, group_name, names_of
from skleak.audit.report._facts import AuditFacts
from skleak.audit.report._findings import facts
from skleak.audit.report._summary import at_noise, interval, measured, sentence, summary, where
from skleak.plotting.labels import code, count, number, percent, plural, root
from skleak.plotting.results import SHARE
from skleak.report import Finding

_TARGET = "TransformedTargetRegressor"


def findings(report: AuditFacts) -> tuple[str, ...]:
    """Say what the numbers of an audit mean; the first entry is the summary."""
    return tuple(_SAYS[finding.topic](finding) for finding in facts(report))


def _failed(found: Finding) -> str:
    meaning = "A failed attack shows nothing about the model; only the bounds do."
    if found["unbounded"]:
        meaning = "A failed attack shows nothing about the model."
    if found["closer"]:
        meaning = (
            "A failed attack shows nothing about the records that it missed; to as many as "
            f"{count(found['closer'])} of {plural(found['n_targets'], 'record')} it came closer "
            "than a guess."
        )
    rows = _named(found["rows"], quiet=found["quiet"])
    return f"Failed, being worse than a guess without the model: {rows}. {meaning}"


def _over_imputation(found: Finding) -> str:
    share = measured(found)
    if found["low"] == found["high"] > 0.0:
        meaning = "so of these the model told such an attacker more than the other columns do."
    elif found["low"] == found["high"] == 0.0:
        meaning = "so of these it told such an attacker no more than the other columns do."
    elif found["low"] > 0.0:
        meaning = "so the model tells such an attacker what the other columns do not."
    elif found["high"] < 0.0:
        meaning = "so it knows less than the other columns of the record tell anyone."
    else:
        meaning = "too uncertain to tell whether it knows more than the other columns tell anyone."
    if found["low"] <= 0.0 and found["prior_name"] != "conditional" and found["guesses"]:
        meaning += (
            ' An attacker can use both at once: audit with `prior="conditional"` to see what the '
            "model adds to the other columns."
        )
    elif found["low"] <= 0.0:
        meaning += " An attacker who uses both at once may learn more than either."
    return sentence(
        f"{where(found)}the best attack's advantage over imputation (the other "
        f"columns of the record and no model) is {share(found['value'])} "
        f"({interval(found, share)}), {meaning}"
    )


def _related(found: Finding) -> str:
    secret, parts = code(found["attribute"]), []
    by, follows = (", ".join(map(code, list(found[key])[:N_NAMED])) for key in ("by", "follows"))
    if by or found["together"]:
        n, exact = len(found["by"]), bool(by) and min(found["by"].values()) >= 1.0
        does = ("" if exact else "(nearly) ") + ("determines" if n == 1 else "determine")
        who = f"{by}{' each' if n > 1 else ''}" if by else "the other columns together"
        parts.append(
            f"{sentence(who)} {does} {secret} without any model: to whoever knows that, the model "
            f"adds nothing, and neither noise nor leaving out {secret} hides it."
        )
    if follows:
        follow = "follows" if len(found["follows"]) == 1 else "follow"
        parts.append(
            f"{follows} {follow} from {secret}, and tells part of it: leave both out, or neither."
        )
    return " ".join(parts)


def _imputed(found: Finding) -> str:
    return (
        "On the data as they are, imputation from the other columns, without the model, is right "
        f"for {percent(found['value'])} of the records, against {percent(found['guess'])} by the "
        "prior. No noise hides that, and the prior of the bounds leaves it out: audit "
        'with `prior="conditional"` to see what the model adds.'
    )


def _trained(found: Finding) -> str:
    parts = []
    searches = [name for name in found["wrappers"] if name != _TARGET]
    if searches:
        chosen = ", ".join(f"{name}={value}" for name, value in found["chosen"].items())
        parts.append(
            f"{' and '.join(searches)} ran once, on all records, and chose {code(chosen)}: the "
            "model with these parameters was audited. What the choice itself tells of the records "
            "is not counted."
        )
    if found["transformed"]:
        parts.append(
            "The model inside the target transformer was audited, on transformed targets: that is "
            "what its utility is about."
        )
    if names := found["seeded"]:
        shown = ", ".join(map(code, names[:N_NAMED]))
        shown += f" and {plural(more, 'more')}" if (more := len(names) - N_NAMED) > 0 else ""
        parts.append(f"Left to chance by the estimator: {shown}. {_seeds(found)}")
    return " ".join(parts)


def _seeds(found: Finding) -> str:
    drawn = "got seeds drawn from the auditor's own"
    if found["random"] is None:
        return f"A copy {drawn}, the same in every fit; attackers are taken to know them."
    if found["random"]:
        return f"Each of {plural(found['n_trainings'], 'training')} of a copy {drawn}."
    return (
        f"Trainings of a copy {drawn}. Two with different seeds gave all attacks the same guesses, "
        "so one stands for all."
    )


def _unbounded(found: Finding) -> str:
    seen = "; ".join(f"{code(name)}: {output}" for name, output in found["outputs"].items())
    return sentence(
        f"{found['why']}. Attacks that were not played may learn more: so may whoever reads the "
        "model itself, or trains it with every value of a record and compares."
        + (f" What those played were shown: {seen}." if seen else "")
    )


def _rarely_wrong(found: Finding) -> str:
    share, name = measured(found), code(found["attack"])
    said = (
        f"{where(found)}with one false alarm in a hundred non-members, {name} "
        f"finds {share(found['value'])} of the members ({interval(found, share)}); a score "
        "that tells nothing finds 1%."
    )
    # The lower limit holds for the best of several attacks, too.
    ranked = f"It is the best of the attacks played: surely {percent(found['least'])} or more."
    if found["by"] == "auc":
        area = measured(Finding("auc", {end: found[f"auc_{end}"] for end in ("low", "high")}))
        ranked = (
            f"By no attack played is this surely 2%, and {name} is the best by another measure: it "
            f"scores a member above a non-member in {area(found['auc_value'])} of all pairs, "
            f"surely in {percent(found['auc_least'])} or more; one that tells nothing, in 50%."
        )
    return sentence(f"{said} {ranked}")


def _groups(found: Finding) -> str:
    said = []
    for row in found["rows"][:N_NAMED]:
        label, n = group_name(row["group"]), plural(row["n_records"], "record")
        who = {"class": f"class {label} ({n})", "copies": f"the {n} like {label}"}
        where_ = "" if found["quiet"] else f" {_lower(at_noise(row['noise_scale']))}"
        said.append(
            f"{who.get(row['kind'], f'group {label} ({n})')}, where {code(row['attack'])} is right "
            f"in {count(row['n_right'])} of {plural(row['n_games'], 'game')}{where_}"
        )
    more = len(found["rows"]) - N_NAMED
    rest = f"; and {plural(more, 'more')}" if more > 0 else ""
    return (
        "Told apart more often than chance explains, after correction for looking at "
        f"{plural(found['of'], 'group')}: {'; '.join(said)}{rest}."
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _better_attack(found: Finding) -> str:
    n, others = found["n_scales"], ""
    if n > 1:
        others = f" So it is at {plural(n, 'noise scale')} in all."
    return sentence(
        f"{where(found)}some attack does better than those played: one is right for at least "
        f"{percent(found['floor'])} of the records, and the best one played for at most "
        f"{percent(found['reached'], up=True)}. What they show is less than what leaks.{others}"
    )


def _gap(found: Finding) -> str:
    what = "squared error, cut at a usual one and over it,"
    if found["loss"] == "zero_one":
        what = "share of wrong labels"
    alone = "a model may leak without doing better on what it was trained on."
    if found["gives_away"]:
        meaning = "that difference alone gives members away."
    elif found["floor"] > 0.0:
        meaning = (
            f"that alone gives some attack an advantage of {percent(found['floor'])} over "
            f"guessing, and better ones are not ruled out: {alone}"
        )
    else:
        meaning = f"no attack is certain to follow from it, and none is ruled out: {alone}"
    return (
        f"Generalization gap: the {what} is larger by {number(found['value'])} on non-members "
        f"than on members ({interval(found, number)}); {meaning}"
    )


def _guarantee(found: Finding) -> str:
    exact = ""
    if not np.isnan(found["bayes"]):
        exact = (
            f"; on these records the best attack reaches {percent(found['bayes'])}, since the "
            "guarantee is for any records"
        )
    return (
        f"{at_noise(found['noise'])}, the estimator's own guarantee of differential privacy "
        f"leaves an attack at most {percent(found['limit'], up=True)}{exact}."
    )


def _exceeded(found: Finding) -> str:
    if found["n"]:
        does = "exceeds the bound" if found["n"] == 1 else "exceed the bound"
        return (
            f"{count(found['n'])} of {plural(found['of'], 'comparison')} {does}: "
            f"{_named(found['rows'])}. {_meaning(found)}"
        )
    judged = f"({plural(found['n_bounded'], 'comparison')} with a bound)"
    if found["guesses"] or found["with_prior"]:
        return f"No attack played exceeds the tightest bound by more than chance explains {judged}."
    return (
        "Apart from attacks that were found to be biased, none has an error below the bound by "
        f"more than chance explains {judged}."
    )


def _meaning(found: Finding) -> str:
    """Say what an exceeded bound points to."""
    theorem = "the noise, the encodings or the attack are not what was stated"
    if found["kind"] == "membership":
        return (
            "Members were drawn as the bound supposes, so it is a theorem: the noise is not what "
            "was stated, or the attack was told what it should guess."
        )
    if found["with_prior"]:
        return (
            f"Either an attacker knew more than {_known(found)}, or {theorem}, or the numbers of "
            "these records are not spread as that distribution says."
        )
    if not found["guesses"]:
        return f"An attack that was found to be unbiased cannot do so: {theorem}."
    if found["secrets"] == "drawn":
        return (
            "Secrets were drawn from the stated prior, where the bound is a theorem: " + theorem
        ) + "."
    if found["prior_name"] == "conditional":
        return (
            "Either the conditional prior still understates what the other columns tell of these "
            f'records, or {theorem}: audit with `secrets="drawn"`, where the prior is exact, to '
            "tell which."
        )
    return (
        "The stated prior understates what is known of these records: the other columns tell more, "
        "with or without the model, or the secrets of the few records attacked happen to be easy. "
        'Audit with `prior="conditional"`; if a bound is exceeded with `secrets="drawn"` too, the '
        "noise or the encodings are not what was stated."
    )


def _known(found: Finding) -> str:
    """Say what the prior of the bounds on errors tells."""
    return distribution(found["kind"], found["attribute"])


def _vacuous(found: Finding) -> str:
    return (
        f"{plural(found['n'], 'comparison')} of {count(found['of'])} "
        f"{'is' if found['n'] == 1 else 'are'} vacuous: no bound says anything there, and only the "
        "attacks that were played speak."
    )


def _single_records(found: Finding) -> str:
    labels = found["labels"]
    return (
        f"Judged one by one, the bound is exceeded for {plural(len(labels), 'record')} "
        f"(by {found['named_by']}): {names_of(labels)}."
    )


def _power(found: Finding) -> str:
    if np.isinf(found["excess"]):
        return "The games were too few to find out any attack that exceeds its bound."
    some = " (of other comparisons none, as the games were too few)" if found["some_never"] else ""
    return (
        "The games played find out, in 80% of audits, an attack that is right more often than its "
        f"bound allows by {number(100.0 * found['excess'])} percentage points or more{some}."
    )


def _biased(found: Finding) -> str:
    return (
        f"Below the bound for unbiased attacks: {_named(found['rows'])}. These attacks are biased, "
        "and the bound does not hold for them: their error as measured is what counts (the first "
        f"has a squared bias of {number(found['squared_bias'])} and a variance of "
        f"{number(found['variance'])})."
    )


def _exposed(found: Finding) -> str:
    labels, source = found["labels"], found["source"]
    named = "record is" if len(labels) == 1 else "records are"
    said = f"{where(found)}the most exposed {named} {names_of(labels)} (by {found['named_by']})"
    if source is None:
        said += f": Fisher information loss {number(found['eta'])} for the first."
    elif source == SHARE:
        said += (
            f": from the squared error about the first, attackers who know {_known(found)} remove "
            f"at most {percent(found['share'], up=True)} (the root mean squared error is "
            f"{root(found['value'])} or more, and {root(found['guess'])} when guessing the mean)."
        )
    elif not found["guesses"]:
        by = "the best attack played has a root mean squared error of"
        if source == "cramer_rao":
            by = "no unbiased attack has a root mean squared error below"
        said += (
            f": for the first {by} {root(found['value'])}, against {root(found['guess'])} when "
            "guessing the mean of the others."
        )
    elif source in ("bayes", "tightest_bound"):
        by = "the best possible attack guesses the first right with probability"
        if source == "tightest_bound":
            by = "the bound on the probability that an attack guesses the first right is"
        most = percent(found["value"], up=True)
        said += f": {by} {most}, against {percent(found['guess'])} from its "
        said += "prior alone."
    elif found["kind"] == "membership":
        said += _among_many(found, source.removeprefix("success_"))
    else:
        said += (
            f": the best attack played guesses the first right with frequency "
            f"{percent(found['value'])}, against {percent(found['guess'])} from its prior alone."
        )
    if found["failed"]:
        said += " That supposes the noise which is stated, and does not hold."
    return sentence(said)


def _among_many(found: Finding, attack: str) -> str:
    """Say how many records an attack tells apart, since among many some are by chance."""
    chance = "more often than chance explains, after correction for looking at all of them."
    meaning = f"but with so many records that may be chance: none is told apart {chance}"
    if found["n_releases"] < found["enough_releases"]:
        meaning = (
            "but with so many records that may be chance: "
            f"{plural(found['n_releases'], 'release')} cannot tell for single records, and "
            f"{count(found['enough_releases'])} can."
        )
    if n := found["n_beyond"]:
        meaning = (
            f"one by one, tests tell {count(n)} of {plural(found['n_targets'], 'record')} apart "
            f"{chance}"
        )
    share = percent(found["value"])
    return f": {code(attack)} is right about the first in {share} of the releases; {meaning}"


def _named(rows: Mapping[str, list[float]], *, quiet: bool = False) -> str:
    """Name attacks, each with its noise scales where there is noise to speak of."""
    named = [code(attack) for attack in rows]
    if not quiet:
        named = [
            f"{code(attack)} at noise scale{'s' if len(scales) > 1 else ''} "
            f"{', '.join(map(number, scales))}"
            for attack, scales in rows.items()
        ]
    more = len(named) - N_NAMED
    return "; ".join(named[:N_NAMED]) + (f"; and {plural(more, 'more attack')}" if more > 0 else "")


_SAYS: dict[str, Any] = {
    "empty": lambda found: "No attack was played: the audit says nothing.",
    "summary": summary,
    "failed": _failed,
    "over_imputation": _over_imputation,
    "related": _related,
    "imputed": _imputed,
    "trained": _trained,
    "unbounded": _unbounded,
    "rarely_wrong": _rarely_wrong,
    "groups": _groups,
    "better_attack": _better_attack,
    "gap": _gap,
    "guarantee": _guarantee,
    "exceeded": _exceeded,
    "vacuous": _vacuous,
    "single_records": _single_records,
    "power": _power,
    "biased": _biased,
    "noise": lambda found: found["sentence"],
    "exposed": _exposed,
}
