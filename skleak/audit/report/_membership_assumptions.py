"""Sentences: under which conditions the findings of an audit of membership hold."""

from typing import TYPE_CHECKING

from skleak.audit.report._assumptions import PREPROCESSING
from skleak.audit.report._format import percent
from skleak.rendering._format import count, plural, shorten

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["membership_assumptions"]


def membership_assumptions(report: "AuditReport") -> tuple[str, ...]:
    """Under which conditions the findings hold."""
    settings = report.settings
    return (
        *(_drawn(report) if settings["secrets"] == "drawn" else _actual(report)),
        *_bounds(report),
        PREPROCESSING.get(
            settings["preprocessing"], f"Preprocessing: {shorten(settings['preprocessing'], 80)}."
        ),
        "One release is counted. Every further release from the same records tells more.",
        *_noise(report),
        *_intervals(report),
        *_utility(report),
    )


def _actual(report: "AuditReport") -> list[str]:
    settings = report.settings
    prior, n = percent(settings["membership_prior"]), settings["n_targets"]
    always = ""
    if settings["n_always"]:
        always = f" {plural(settings['n_always'], 'more record')} had a place in every training."
    share = (
        f"{plural(settings['n_reference'], 'candidate')}, others in each release, were held out "
        "and not attacked there"
        if settings["reference"] == "held out"
        else f"{plural(settings['n_reference'], 'test record')}, taken to be of the same "
        "population, were never trained on"
    )
    return [
        f"In each of {plural(settings['n_releases'], 'release')}, every one of {count(n)} "
        f"candidates was trained on with probability {prior}, independently of the others.{always} "
        "These models see fewer records than one trained on all of them, which each of its records "
        "moves less.",
        f"{share[:1].upper()}{share[1:]}. They calibrate attacks and measure utility.",
        "The attackers know the records and targets of all candidates, and how the model is "
        "trained. Those that learn a threshold or a law from the other releases know who was "
        "trained on there; the exact test is told all memberships but the one it guesses. Whoever "
        "knows less learns less.",
        "The attacks that were played say what is possible at least; only the bounds speak about "
        "attacks that were not.",
    ]


def _drawn(report: "AuditReport") -> list[str]:
    settings = report.settings
    prior = percent(settings["membership_prior"])
    lines = [
        f"One record at a time was trained on with probability {prior}; all others always were. "
        "The attacker knows the others, the record itself, the algorithm with its parameters, and "
        "the noise scale. Whoever knows less learns less.",
        "The attacks that were played say what is possible at least; only the bounds speak about "
        "attacks that were not.",
    ]
    if settings["n_targets"] < settings["n_records"]:
        lines.append(
            f"{count(settings['n_targets'])} of {plural(settings['n_records'], 'record')} were "
            "attacked. Shares and means are over those; a record that was not attacked may be more "
            "exposed."
        )
    return lines


def _bounds(report: "AuditReport") -> list[str]:
    settings = report.settings
    lines = [
        "What some attack surely reaches follows from the generalisation gap ([BIL23] theorem 2), "
        "with the confidence of its interval; it does not say which attack. A gap of zero excludes "
        "no attack.",
    ]
    if settings["exact_test"]:
        lines.append(
            f"No exact bound is known: {shorten(settings['exact_test'], 160)}."
            + ("" if "dp" in _known(report) else " Better attacks than those played may exist.")
        )
    elif settings["secrets"] == "actual":
        lines.append(
            "The exact bound (Bayes) is the success of the best attacker who is told all other "
            "memberships, computed for the members of every release; an attacker who is told less "
            "cannot exceed it on average."
        )
    if "dp" in _known(report):
        lines.append(
            "The bound from differential privacy is the estimator's own guarantee for its "
            "`data_norm`, at the number of records that each model was trained on."
        )
    return lines


def _known(report: "AuditReport") -> list[str]:
    bounds = report.settings["bounds"]
    return [name for name in bounds if report.results[name].notna().any()]


def _noise(report: "AuditReport") -> list[str]:
    settings = report.settings
    if not settings["has_noise"] and not (report.results["noise_scale"] > 0.0).any():
        return []
    lines = [
        "The noise is assumed to be secret, independent of everything else, and never drawn again."
    ]
    if not settings["has_noise"]:
        lines.append("The noise was added to the parameters by the audit, not by the estimator.")
    if settings["noise_covariance"] == "given":
        lines.append(
            "The noise has a covariance that was given, and counts as public: what it reveals, had "
            "it been computed from these records, is not counted."
        )
    return lines


def _intervals(report: "AuditReport") -> list[str]:
    settings = report.settings
    level = percent(settings["confidence_level"])
    if settings["secrets"] == "drawn":
        made = f"Intervals of the success ({level}) are exact binomial ones over independent games."
    else:
        made = (
            f"Intervals ({level}) are over {plural(settings['n_releases'], 'release')} and "
            "clustered by release, since all records share its model. Those of the gap are "
            "Student's, those of the true positive rate by bootstrap over releases. They say what "
            "other members and other noise would change, not what other candidates would."
        )
    return [
        made,
        "Behind every verdict stands an interval of its own, at level "
        f"{percent(settings['verdict_level'])}: widened so that all verdicts of this report hold "
        f"together with {level} confidence.",
    ]


def _utility(report: "AuditReport") -> list[str]:
    if report.settings["utility_data"] != "training records":
        return []
    return [
        "Utility is measured on the training records and is optimistic: on new records it is lower."
    ]
