"""The first sentence of an audit: which noise to choose, what it costs, and for whom not."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skleak.audit.report._decision import EXCEEDS, INVALID, KEPT
from skleak.plotting.labels import (
    attack_label,
    beside_limit,
    code,
    count,
    limit_text,
    number,
    percent,
    plural,
    shorten,
)

# Records named one by one; more are counted.
N_NAMED = 5


def advice(found: Mapping[str, Any], *, names: bool = True) -> str:
    """Say whether the limit is kept, at which noise scale, at what cost, and for whom not.

    Without ``names`` records are counted, and no number is that of one of them.
    """
    if found.get("unseen"):
        which = "a record attacked" if found["partial"] else "a record"
        condition, rest = "", ", so that no attacker learns it from the model"
        if found["unseen"] == "public":  # it may have learned from the column: a selection does
            condition = ", with the preprocessing as it was fitted"
            rest = (
                "; what the preprocessing itself learned from that column is not counted "
                "(`refit_preprocessing=True` counts it)"
            )
        return (
            f"Nothing of {code(found['attribute'])} is in the model{condition}: it is the same, "
            f"bit for bit, whatever the value of that column is in {which}{rest}"
            f"{_cost(found['utility'])}."
        )
    if found["status"] == INVALID:
        return (
            "No noise scale can be recommended: the mechanism failed its checks (see below), so no "
            f"bound here holds, and whether any keeps {_limit(found)} is not known."
        )
    said = {KEPT: _kept, EXCEEDS: _exceeds}.get(found["status"], _unknown)(found)
    return f"{said}{_cost(found['utility'])}{_for_whom(found, names)}."


def _kept(found: Mapping[str, Any]) -> str:
    at = beside_limit(max(found["advantage"], 0.0), found["limit"], up=True)
    name = _name(found)
    if not np.isnan(found["at_most"]):
        return f"{name[:1].upper()}{name[1:]} keeps {_limit(found)}: {_removed(found)}"
    return f"{name[:1].upper()}{name[1:]} keeps {_limit(found)}: it is at most {at} {_mean(found)}"


def _exceeds(found: Mapping[str, Any]) -> str:
    name, up = _name(found), percent(found["advantage"], up=True)
    start = f"{name[:1].upper()}{name[1:]} does not keep {_limit(found)}: "
    if found["n_scales"] > 1:
        start = (
            f"None of the {found['n_scales']} noise scales audited keeps {_limit(found)}, and a "
            f"larger one is needed: at {number(found['noise'])} "
        )
    if not np.isnan(found["at_most"]):
        return f"{start}{_removed(found)}"
    if found["source"] == "bound":
        return f"{start}it may be up to {up} {_mean(found)}"
    share = beside_limit(found["advantage"], found["limit"], within=found["half_width"])
    return f"{start}{code(found['source'])} has one of {share}"


def _removed(found: Mapping[str, Any]) -> str:
    """Say which share of the squared error attackers with the prior of a number remove."""
    best, most = found["best"], beside_limit(found["at_most"], found["limit"], up=True)
    share = percent(best["advantage"], within=best["half_width"])
    name = attack_label(best["attack"])
    known = distribution(found["kind"], found["attribute"])
    said = f"attackers who know {known} remove at most {most} of the squared error {_mean(found)}"
    if best["exceeded"] and best["advantage"] > found["at_most"]:
        return f"{said} by the bound, which the {name} exceeds with {share} (see below)"
    if best["failed"] or not best["advantage"] > 0.0:
        return f"{said} (those played, none)"
    if best.get("uses_more"):
        return f"{said} (the {name}, which also uses what the other columns tell, {share})"
    if best["advantage"] >= found["at_most"]:
        return f"{said} (the best played, the {name}, as much as far as chance lets tell)"
    return f"{said} (the best played, the {name}, {share})"


def distribution(kind: str, attribute: Any) -> str:
    """Say what attackers with the prior of a number, or of whole records, know."""
    if kind == "record":
        return "means and covariances of the columns"
    return f"how {code(attribute)} is distributed"


def _unknown(found: Mapping[str, Any]) -> str:
    best = found["best"]
    which = "any noise scale audited" if found["n_scales"] > 1 else _name(found)
    played = "no attack played does better than guessing"
    if not best["failed"] and best["advantage"] > 0.0:
        share = beside_limit(best["advantage"], found["limit"], within=best["half_width"])
        played = f"the best attack played, {code(best['attack'])}, has one of {share}"
    if found["n_scales"] > 1:
        played = f"at noise scale {number(found['noise'])} {played}"
    return (
        f"Whether {which} keeps {_limit(found)} is not known: nothing bounds the attacks that were "
        f"not played, and {played}"
    )


def _mean(found: Mapping[str, Any]) -> str:
    """Say what the mean is over, where records were left out."""
    if not found["partial"]:
        return "on average"
    return f"on average over the {plural(found['n_targets'], 'record')} attacked"


def _name(found: Mapping[str, Any]) -> str:
    if not found["has_noise"]:
        return "the model as it is"
    if found["noise"] == 0.0:
        return "a release without noise"
    return f"noise scale {number(found['noise'])}"


def _limit(found: Mapping[str, Any]) -> str:
    over = "the prior" if found["kind"] == "categorical" else "guessing"
    whose = "unbiased attacks, and of those played," if found["unbiased"] else "attackers"
    return f"the advantage of {whose} over {over} within {limit_text(found['limit'])}"


def _cost(found: Mapping[str, Any]) -> str:
    """Say how useful the model is there, against the model without noise."""
    if np.isnan(found["value"]):
        return ""
    name, value = shorten(found["name"], 48), number(found["value"])
    against = ""
    if found["noise"] != 0.0 and not np.isnan(found["noiseless"]):
        against = f", against {number(found['noiseless'])} without noise"
    which = "model" if found["noise"] == 0.0 else "released model"
    return f"; the {which}'s {name} is {value} on {found['data']}{against}"


def _for_whom(found: Mapping[str, Any], names: bool) -> str:
    """Say for how many records the limit is passed, and for whom by most."""
    n = found["n_above"]
    if found["by"] == "attack" and "enough_releases" in found:
        return f"; {for_how_many(found)}{_among_them(found, names)}"
    if np.isnan(n):
        return ""
    limit, own = limit_text(found["limit"]), "their own bound"
    if n == 0:
        who = "none of the records attacked" if found["partial"] else "no record"
        return f"; for {who} is its own bound above {limit}"
    largest = percent(found["largest"], up=True)
    but = "but " if found["status"] == KEPT else ""
    most = ", that is" if n == 1 else ", most for"
    counted = f"; {but}for {count(n)} of {plural(found['n_targets'], 'record')} {own} is above "
    if not names:
        return f"{counted}{limit}"
    return (
        f"{counted}{limit}{most} {names_of(found['labels'])} (named by "
        f"{shorten(found['named_by'], 60)}; the largest is {largest})"
    )


def for_how_many(found: Mapping[str, Any]) -> str:
    """Say of how many people attacks show that they are above the limit, and on which terms."""
    n, of = found["n_above"], plural(found["n_targets"], "person", "people")
    limit, releases = limit_text(found["limit"]), plural(found["n_releases"], "release")
    if np.isnan(n):
        return f"{releases} cannot tell for single records; {count(found['enough_releases'])} can"
    if n == 0:
        return f"nobody of {of} is shown to be above {limit} by more than chance explains"
    terms = "however records depend on each other"
    if found["counted_by"] != "tests":
        effect = number(found["design_effect"])
        terms = f"if other releases are like those played, with a design effect of {effect}"
    return (
        f"at least {count(n)} of {of} {'is' if n == 1 else 'are'} above {limit} "
        f"({percent(found['level'])} confidence, {terms})"
    )


def _among_them(found: Mapping[str, Any], names: bool) -> str:
    """Name some of those above the limit, or say that nobody knows who they are."""
    if not found["n_above"] > 0.0:
        return ""
    if found["labels"]:
        whom = f"{names_of(found['labels'])} (named by {shorten(found['named_by'], 60)})"
        return f", among them {whom}" if names else ""
    needed = count(found["enough_releases"])
    return f"; {plural(found['n_releases'], 'release')} cannot tell who they are, and {needed} can"


def group_name(label: Any) -> str:
    """Write the label of a group."""
    return number(label) if isinstance(label, float) else shorten(label, 40)


def names_of(labels: Sequence[Any]) -> str:
    """Name the first of some records by their labels."""
    named = [shorten(label, 24) for label in labels[:N_NAMED]]
    return ", ".join(named) + (", …" if len(labels) > N_NAMED else "")
