"""The first sentences of the report of an audit: how well attacks did, and what none can exceed."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skleak.audit.report._findings import SMALL, Finding
from skleak.metrics import BIASED
from skleak.rendering import attack_label, code, number, percent, root, shorten
from skleak.rendering.results import BASELINES

_WHO = {
    "exact": "an attacker who is told all other memberships (`exact`)",
    "likelihood_ratio": "an attacker who has seen models of the same kind (`likelihood_ratio`)",
    "robust": "an attacker who has seen a few models of the same kind (`robust`)",
} | {
    name: f"an attacker who knows all else (`{name}`)"
    for name in ("white_box", "black_box", "informed")
}
_WHO |= {
    "black_box_proba": "an attacker who knows all else and is told probabilities "
    "(`black_box_proba`)",
    "black_box_margin": "an attacker who knows all else and is told margins (`black_box_margin`)",
}
_STATISTICS = ("loss", "likelihood", "modified_entropy", "gradient_norm")
_ALL_FAILED = "every attack on the model that was played failed"
_NO_BOUND = " No bound rules out that some attack is always right."


def summary(found: Finding) -> str:
    """Say how the best attack does at the smallest noise, what bounds it, and what noise costs."""
    said = {"categorical": _guessed, "membership": _told_apart}.get(found["kind"], _estimated)
    parts = [said(found)]
    if found["choice"] is not None:
        parts.append(_noise_choice(found["choice"], found["guesses"]))
    elif found["utility"] is not None:
        parts.append(_utility(found["utility"], found["quiet"]))
    return sentence(" ".join(part for part in parts if part))


def _guessed(found: Finding) -> str:
    games = "records" if found["secrets"] == "actual" else "games"
    known = _imputation(found, percent)
    what, guess = code(found["attribute"]), percent(found["guess"])
    said = (
        f"{where(found)}{_who(found['attack'])} guesses {what} right for "
        f"{percent(found['value'])} of the {games} ({interval(found, percent)}); guessing from the "
        f"prior gives {guess}{known}."
    )
    if found["failed"]:
        said = (
            f"{where(found)}{_ALL_FAILED}: none guesses {what} right as often as the prior, which "
            f"is so for {guess} of the {games}{known}."
        )
    if found["bound"] is None:
        return said + _without_bound(found, "computed")
    limit = percent(found["limit"], up=True)
    if limit == "100%":
        return said + _NO_BOUND
    return (
        f"{said} For secrets drawn from the stated prior, no attack whatsoever can exceed {limit}."
    )


def _told_apart(found: Finding) -> str:
    guess = percent(found["guess"])
    said = (
        f"{where(found)}{_who(found['attack'])} tells members from non-members for "
        f"{percent(found['value'])} of the records ({interval(found, percent)}); guessing gives "
        f"{guess}."
    )
    if found["failed"]:
        said = (
            f"{where(found)}every attack that was played failed: none tells members from "
            f"non-members as often as guessing, which is right for {guess} of the records."
        )
    if not np.isnan(found["floor"]):
        said += (
            " How much better the model does on members than on others means that some attack is "
            f"right for at least {percent(found['floor'])}."
        )
    limit = percent(min(float(found["limit"]), 1.0), up=True)
    if found["bound"] is None:
        return said + " Nothing is known that rules out a better attack."
    if limit == "100%":
        return said + _NO_BOUND
    return f"{said} No attack whatsoever can exceed {limit} on average."


def _estimated(found: Finding) -> str:
    does, per = f"guesses {code(found['attribute'])}", ""
    if found["kind"] == "record":
        does, per = "reconstructs whole records", " per value"
    known, guess = _imputation(found, root), root(found["guess"])
    # The median record, as a few hopeless ones can make up all of a mean.
    half = f", below {root(found['half'])} for half of the records"
    said = (
        f"{where(found)}{_who(found['attack'])} {does} with a root mean squared error{per} of "
        f"{root(found['value'])} ({interval(found, root)}){'' if np.isnan(found['half']) else half}"
        f"; guessing the mean of the others gives {guess}{known}."
    )
    if found["failed"]:
        said = (
            f"{where(found)}{_ALL_FAILED}: none comes as close as guessing the mean of the others, "
            f"with a root mean squared error{per} of {guess}{known}."
        )
    if found["bound"] is None:
        return said + _without_bound(found, "known")
    if found["limit"] <= 0.0:
        return said + " No bound rules out that some attack makes no error."
    if found["limit"] == np.inf:
        return (
            f"{said} For half of the records no unbiased attack has a finite error; biased ones "
            "have."
        )
    worst = ""
    if not np.isnan(found["smallest"]):
        worst = (
            f" for half of the records, or below {root(found['smallest'])} for the most exposed one"
        )
    return (
        f"{said} No unbiased attack whatsoever can have one below {root(found['limit'])}{worst}; a "
        "biased one, which leans on prior knowledge, can."
    )


def _without_bound(found: Finding, none: str) -> str:
    """Say that nothing is known of other attacks, and why."""
    if why := found["unbounded"]:
        return f" Of other attacks nothing is known ({why})."
    return f" No bound on other attacks {'is' if none == 'known' else 'was'} {none}."


def _imputation(found: Finding, show: Callable[[Any], str]) -> str:
    if np.isnan(found["imputation"]):
        return ""
    return f", imputation without the model {show(found['imputation'])}"


def _noise_choice(choice: Mapping[str, Any], guesses: bool) -> str:
    """Say which noise is the smallest with a small advantage, and what it costs."""
    of = "" if guesses else " of unbiased attacks"
    what = f"bound on the advantage{of} over the prior"
    noise, bound = number(choice["noise"]), choice["bound"]
    least = percent(max(bound, 0.0), up=True)
    if choice["small"]:
        said = (
            f"The smallest noise scale audited at which the tightest {what} is below "
            f"{percent(SMALL)} is {noise}: {least} there, and {_played(choice['best'], bound)}."
        )
    else:
        said = (
            f"At none of the {choice['n_scales']} noise scales audited is the tightest {what} "
            f"below {percent(SMALL)}; it is smallest at {noise} ({least})."
        )
    if not np.isnan(choice["largest"]):
        said += (
            " That is an average over records: for the most exposed one the bound is "
            f"{percent(max(choice['largest'], 0.0), up=True)}."
        )
    return f"{said} {_utility(choice['utility'])}".rstrip()


def _played(row: Any, bound: float) -> str:
    """Say what the best attack reaches where the bound is small, and why where that is more."""
    if row["failed"]:
        return "every attack played failed: all do worse than guessing"
    if row["advantage"] < 0.0:
        return f"the best attack played, {code(row['attack'])}, does no better than guessing"
    text = f"the best attack played, {code(row['attack'])}, has {percent(row['advantage'])}"
    if not row["advantage_low"] > max(bound, SMALL):
        return text
    if row["verdict"] == BIASED:
        return text + "; it is biased"
    if "mse" in row:
        return text + ", which no bound for unbiased attacks rules out for biased ones"
    return text + "; see the verdict on it"


def _utility(found: Mapping[str, Any], quiet: bool = False) -> str:
    """Say how useful the model is at a noise scale; nothing where it is not known."""
    name, value = shorten(found["name"], 48), number(found["value"])
    if quiet:
        return f"The model's {name} is {value} on {found['data']}."
    if np.isnan(found["value"]):
        return ""
    compared = ""
    if found["noise"] != 0.0 and not np.isnan(found["noiseless"]):
        compared = f", against {number(found['noiseless'])} without noise"
    where = f"{at_noise(found['noise'])}, the released model's {name}"
    return f"{where} is {value} on {found['data']}{compared}."


def _who(attack: Any) -> str:
    """Name an attack as the subject of a sentence."""
    if attack in BASELINES:
        return f"{attack_label(attack)}, which does not look at the model,"
    if attack in _STATISTICS:
        return (
            f"an attacker who looks at the {attack_label(attack)} of each record ({code(attack)})"
        )
    return _WHO.get(attack, f"the attack {code(attack)}")


def at_noise(noise: float) -> str:
    """Start a sentence about a noise scale."""
    return "Without noise" if noise == 0.0 else f"At noise scale {number(noise)}"


def where(found: Finding) -> str:
    """Start a sentence about the noise scale of a finding; of a model that has none, nothing."""
    return "" if found["quiet"] else f"{at_noise(found['noise'])}, "


def interval(found: Finding, show: Callable[[Any], str]) -> str:
    """Write a confidence interval, for brackets."""
    if found["low"] == found["high"]:
        return "exact for these records"
    return f"{percent(found['level'])} interval {show(found['low'])} to {show(found['high'])}"


def sentence(text: str) -> str:
    """Start with a capital."""
    return text[:1].upper() + text[1:]
