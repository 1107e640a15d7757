"""Sentences: under which conditions the findings of an audit hold."""

from typing import TYPE_CHECKING

from skleak.audit.report._format import percent
from skleak.rendering._format import count, plural, shorten

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["PREPROCESSING", "assumptions"]

_PRIORS = {
    "marginal": (
        "The prior is marginal: how often each value occurs among the records. What the other "
        "columns of a record tell of the secret is not in it."
    ),
    "uniform": "The prior is uniform: every value counts as equally likely beforehand.",
    "conditional": (
        "The prior is conditional: the probabilities of a classifier that was fitted on the other "
        "columns of other records. It knows what this classifier finds, and no more."
    ),
    "given": "The prior was given by whoever ran the audit; it was not checked against the data.",
}
PREPROCESSING = {
    "none": "There is no preprocessing: the model is fitted on the columns as they are.",
    "public": (
        "The preprocessing was fitted once and counts as public: what its categories, means or "
        "scales reveal of the records is not counted."
    ),
    "refitted": (
        "The preprocessing was fitted anew with the model: what a record changes in it is counted "
        "as far as it changes the coefficients."
    ),
}


def assumptions(report: "AuditReport") -> tuple[str, ...]:
    """Under which conditions the findings hold."""
    settings = report.settings
    lines = [
        *_adversary(report),
        *(_prior(report) if report.kind == "categorical" else _unbiased(report)),
        PREPROCESSING.get(
            settings["preprocessing"], f"Preprocessing: {shorten(settings['preprocessing'], 80)}."
        ),
        "One release is counted. Every further release from the same records tells more.",
        "The noise is assumed to be secret, independent of everything else, and never drawn again.",
        *_intervals(report),
    ]
    if settings["reweighting"] is not None:
        lines.append(
            f"The records were reweighted ({shorten(settings['reweighting'], 80)}), and the "
            "weights depend on the data. What a record reveals through the weights is counted, in "
            "the Fisher information loss and by attacks on an attribute; attacks on whole records "
            "take the weights as known."
        )
    if settings.get("noise_covariance") == "given":
        lines.append(
            "The noise has a covariance that was given, and counts as public: what it reveals, had "
            "it been computed from these records, is not counted. The noise scale is its root mean "
            "square over the parameters."
        )
    elif settings.get("noise_covariance", "isotropic") != "isotropic":
        lines.append(
            f"The covariance of the noise follows the data (`{settings['noise_covariance']}`), so "
            "every value of a secret has a covariance of its own. What a release reveals through "
            "it is counted, by the attacks that read parameters, the bounds and the Fisher "
            "information loss. The noise scale is its root mean square over the parameters."
        )
    if settings["utility_data"] == "training records":
        lines.append(
            "Utility is measured on the training records and is optimistic: on new records it is "
            "lower."
        )
    lines.append(
        "The Fisher information loss treats every column as continuous and is a local measure. "
        + (
            "For labels it orders the records and bounds nothing."
            if report.kind == "categorical"
            else "It bounds unbiased attackers only."
        )
    )
    return tuple(lines)


def _adversary(report: "AuditReport") -> list[str]:
    settings = report.settings
    secret = "this one record" if report.kind == "record" else "the secret of this one record"
    also = "" if report.kind == "record" else "the other columns of the record, "
    target = "" if report.kind == "record" and settings["target_counts"] else "its target, "
    lines = [
        f"The informed attacker is assumed to know everything but {secret}: all other records, "
        f"{also}{target}the algorithm with its parameters, and the noise scale. Whoever knows "
        "less learns less.",
        "The attacks that were played say what is possible at least; only the bounds speak about "
        "attacks that were not.",
    ]
    if settings["n_targets"] < settings["n_records"]:
        lines.append(
            f"{count(settings['n_targets'])} of {plural(settings['n_records'], 'record')} were "
            "attacked. Shares and means are over those; a record that was not attacked may be more "
            "exposed."
        )
    if report.kind == "record":
        lines.append(
            "The target counts as part of the record."
            if settings["target_counts"]
            else "The target counts as public and is not reconstructed."
        )
    return lines


def _prior(report: "AuditReport") -> list[str]:
    stated = report.settings["prior"]
    drawn = report.settings["secrets"] == "drawn"
    return [
        _PRIORS.get(stated, f"Prior: {shorten(stated, 80)}."),
        "The bounds hold for secrets drawn from that prior. "
        + (
            "Here they were: in every game a secret was drawn and the model made with it."
            if drawn
            else "Here the secrets are those of the data, so a bound holds on average over draws "
            "of the secrets and not for these records in particular."
        ),
    ]


def _unbiased(report: "AuditReport") -> list[str]:
    lines = [
        "The bound of Cramér and Rao is for unbiased attackers. Those who lean on prior knowledge "
        "are biased and may have a smaller error; a verdict says so where their bias is beyond "
        "doubt.",
        "Errors are means over the attacked records: single records can have a much smaller one. "
        "The bound is that of the median record, and so is the error over the bound; figures show "
        "the mean of the bounds, in which a record counts with no more than the error of guessing.",
    ]
    if report.kind == "record":
        lines.append(
            "The bound takes every number of a record to be free. An attacker who knows that some "
            "belong together, as the columns of one category do, may have a smaller error."
        )
    return lines


def _intervals(report: "AuditReport") -> list[str]:
    settings = report.settings
    level = percent(settings["confidence_level"])
    if settings["secrets"] == "drawn":
        made = f"Intervals ({level}) are exact binomial ones over independent games."
    else:
        made = (
            f"Intervals ({level}) are over {plural(settings['n_releases'], 'release')} and "
            "clustered by release, since all records share the noise of one."
        )
    return [
        made + " They say what other noise would change, not what other data would.",
        "Behind every verdict stands an interval of its own, at level "
        f"{percent(settings['verdict_level'])}: widened so that all verdicts of this report hold "
        f"together with {level} confidence.",
    ]
