"""The first sentences of the report of an audit: which noise, how well attacks did, and bounds."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skleak.audit.report._advice import advice, distribution, names_of
from skleak.plotting.labels import attack_label, code, count, number, percent, plural, root
from skleak.plotting.results import BASELINES
from skleak.report import Finding

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
_WHO["posterior_mean"] = (
    "an attacker who knows all else, and how the number is distributed (`posterior_mean`),"
)
_WHO["scale"] = "an attacker who sees the noise scale alone (`scale`)"
_STATISTICS = ("loss", "likelihood", "modified_entropy", "gradient_norm")
_ALL_FAILED = "every attack on the model that was played failed"
_NO_BOUND = " No bound rules out that some attack is always right."


def summary(found: Finding) -> str:
    """Say which noise to choose, how the best attack does at the smallest, and what bounds it."""
    said = {"categorical": _guessed, "membership": _told_apart}.get(found["kind"], _estimated)
    scale = f"{found['scale']} " if found["scale"] else ""
    return f"{scale}{_of_whom(found)}{advice(found['decision'])} {sentence(said(found))}"


def _of_whom(found: Finding) -> str:
    """Say first that a random sample was attacked, where it was."""
    if not found["sampled"]:
        return ""
    return (
        f"{count(found['n_targets'])} of {plural(found['n_records'], 'record')}, drawn at random, "
        "were attacked: means are estimates for all, and single records are among those drawn. "
    )


def _guessed(found: Finding) -> str:
    games = "records" if found["secrets"] == "actual" else "games"
    known = _imputation(found, percent)
    what, guess, share = code(found["attribute"]), percent(found["guess"]), measured(found)
    said = (
        f"{where(found)}{_who(found['attack'])} guesses {what} right for "
        f"{share(found['value'])} of the {games} ({interval(found, share)}); guessing from the "
        f"prior gives {guess}{known}."
    )
    if found["failed"]:
        said = (
            f"{where(found)}{_ALL_FAILED}: none guesses {what} right as often as the prior, which "
            f"is so for {guess} of the {games}{known}."
        )
    if found["bound"] is None:
        return said + _without_bound(found, "computed")
    limit = share(found["limit"], up=True)
    if limit == "100%":
        return said + _NO_BOUND
    return f"{said} {_limited(found, limit)}"


def _told_apart(found: Finding) -> str:
    guess, share = percent(found["guess"]), measured(found)
    said = (
        f"{where(found)}{_who(found['attack'])} tells members from non-members for "
        f"{share(found['value'])} of the records ({interval(found, share)}); guessing gives "
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
    limit = share(min(float(found["limit"]), 1.0), up=True)
    if found["bound"] is None:
        why = f" ({found['uncounted']})" if found["uncounted"] else ""
        return f"{said} Nothing is known that rules out a better attack{why}."
    if limit == "100%":
        return said + _NO_BOUND
    return f"{said} {_limited(found, limit)}"


def _limited(found: Finding, limit: str) -> str:
    """Say what bounds all attacks, and which of those played are above it, and why."""
    beyond, drawn = ", ".join(map(code, found["beyond"])), found["secrets"] == "drawn"
    whose = (
        "for secrets drawn from the stated prior"
        if found["kind"] == "categorical"
        else "on average"
    )
    if not beyond:
        return f"No attack exceeds {limit}, {whose}."
    are = "is" if len(found["beyond"]) == 1 else "are"
    said = f"The bound is {limit}, {whose}, and {beyond} {are} above it:"
    if found["exceeded"]:
        return f"{said} by more than chance explains, see below."
    if drawn or found["kind"] == "membership":
        return f"{said} by no more than chance explains."
    return (
        f"{said} these secrets are a single draw, and the prior leaves out what the other columns "
        "tell."
    )


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
    if found["with_prior"]:
        return f"{said} {_least(found)}"
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
        f"{said} No unbiased attack has one below {root(found['limit'])}{worst}; a "
        "biased one, which leans on prior knowledge, can."
    )


def _least(found: Finding) -> str:
    """Say which error remains to every attacker with the prior of a number."""
    if found["least"] <= 0.0:
        return "No bound rules out that some attack makes no error."
    whole, one = found["kind"] == "record", names_of([found["label"]])
    most = percent(found["share_of_one"], up=True)
    known = distribution(found["kind"], found["attribute"])
    return (
        f"No attacker who knows {known} has one below {root(found['least'])}, on "
        f"average over what {'they' if whole else 'it'} may be (guessing: "
        f"{root(found['least_guess'])}), or below {root(found['least_of_one'])} for the most "
        f"exposed record ({one}), from whose squared error at most {most} is removed"
        f"{_below_least(found)}."
    )


def _below_least(found: Finding) -> str:
    """Say why an attack that was played errs less than the bound on the mean error."""
    if found["exceeded"]:
        return "; an attack removes more by more than chance explains, see below"
    if found["failed"] or not found["value"] < found["least"]:
        return ""
    if found["uses_more"]:
        return "; the attack errs less with what the other columns tell"
    if found["secrets"] == "drawn":
        return "; the attack errs less by no more than chance explains"
    return "; the attack errs less as these numbers, a single draw, are closer to their means"


def _without_bound(found: Finding, none: str) -> str:
    """Say that nothing is known of other attacks, and why."""
    if why := found["unbounded"] or found["uncounted"]:
        return f" Of other attacks nothing is known ({why})."
    return f" No bound on other attacks {'is' if none == 'known' else 'was'} {none}."


def _imputation(found: Finding, show: Callable[[Any], str]) -> str:
    if np.isnan(found["imputation"]):
        return ""
    data = " on the data as they are" if found["of_data"] else ""
    return f", imputation without the model{data} {show(found['imputation'])}"


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


def measured(found: Finding) -> partial[str]:
    """Return how to write a share, with the digits that its interval supports."""
    return partial(percent, within=0.5 * (found["high"] - found["low"]))


def sentence(text: str) -> str:
    """Start with a capital."""
    return text[:1].upper() + text[1:]
