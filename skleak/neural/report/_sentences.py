"""Sentences: what the facts of a report of private SGD mean, and when they hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skleak.neural.report._facts import SGDFacts
from skleak.neural.report._findings import VACUOUS
from skleak.plotting.labels import count, number, percent
from skleak.report import Finding


def findings(report: SGDFacts, found: Sequence[Finding]) -> tuple[str, ...]:
    """Put facts into sentences; the first is the answer."""
    told = [_TOPICS[one.topic](one) for one in found]
    privacy = report.differential_privacy
    if privacy["holds"]:
        told.append(
            f"Differential privacy holds for {privacy['about']}: ("
            f"{number(privacy['epsilon'])}, {privacy['delta']:g})-differential privacy, "
            + ("to the last bit." if _is_exact(report) else "in real numbers, not of last bits.")
        )
    else:
        reasons = "; ".join(privacy["reasons"])
        told.append(f"No guarantee of differential privacy is stated: {reasons}.")
    return tuple(told)


def _is_exact(report: SGDFacts) -> bool:
    return bool(report.dataset["arithmetic"] == "exact")


def _no_noise(_: Finding) -> str:
    return (
        "No noise was added: the parameters are an exact function of the training records and of "
        "the batches, leakage is infinite, and no bound on an attacker holds."
    )


def _seeded(_: Finding) -> str:
    return (
        "The noise came from a seed or a generator: whoever has or guesses it draws the noise "
        "again, subtracts it, and learns everything. What follows holds for others alone."
    )


def _guess(found: Finding) -> str:
    privacy = f"epsilon {number(found['epsilon'])} at delta {found['delta']:g}"
    if found["gain"] > VACUOUS:
        return (
            f"Differential privacy excludes next to nothing ({privacy}): an attacker who knows all "
            "else may be certain which of two values a record has."
        )
    return (
        "An attacker who knows everything but one entry, or one whole record, gains at most "
        f"{percent(found['gain'], up=True)} over guessing between two values at even odds, about "
        f"any record: right at most {percent(found['success'], up=True)} of the time ({privacy}). "
        "Whether a record was trained on is found with probability at most "
        f"{percent(found['membership_true_positives'], up=True)} at 1% false alarms."
    )


def _reconstruction(found: Finding) -> str:
    if found["loss"] == 0.0:
        return "By Fisher information no record that was followed leaves a trace."
    whom = f"record {found['record']}"
    if found["n_followed"] < found["n_records"]:
        whom += f", of the {count(found['n_followed'])} that were followed"
    said = (
        f"Most exposed by Fisher information is {whom}: an unbiased attacker who knows all else "
        f"errs by {number(found['root'])} per entry at least (root mean square), "
        f"{number(np.sqrt(found['over_guess']))} times what guessing every entry by its mean errs "
        "by"
    )
    if not found["exact"] or found["loss_error"] > 0.0:
        said += f"; estimated, with a standard error of {percent(2.0 * found['relative_error'])}"
        said += " of the squared error"
    return said + f" ({found['scope']}; the promise is about the mean over runs)."


def _renyi(found: Finding) -> str:
    said = (
        "For any record within the ranges of the columns, by Rényi differential privacy (order 2: "
        f"{number(found['renyi'])}), an attacker who is unbiased all over these ranges errs by "
        f"{number(found['root'])} per entry at least"
    )
    own = found["most_exposed_mse"]
    if np.isfinite(own) and found["mse"] > 0.0:
        said += f"; the Fisher information of the most exposed record allows {_times(own, found)}"
    return said + "."


def _times(own: float, found: Finding) -> str:
    ratio = own / found["mse"]
    return f"{number(ratio)} times that squared error" if ratio >= 1.0 else "less"


def _prior(found: Finding) -> str:
    return (
        "From an attacker who expects every entry to follow a normal law with the mean and the "
        "spread of its column, the release removes at most "
        f"{percent(found['share_removed'], up=True)} of the squared error, on average over records "
        "(van Trees, with the average Fisher information of the records there are)."
    )


def _unknown(found: Finding) -> str:
    return f"The Fisher information of this training is not known: {found['why']}."


def _not_computed(found: Finding) -> str:
    return f"Bounds on guesses were not computed: {'; '.join(found['reasons'])}."


_TOPICS: dict[str, Any] = {
    "no_noise": _no_noise,
    "seeded": _seeded,
    "guess": _guess,
    "reconstruction": _reconstruction,
    "renyi": _renyi,
    "prior": _prior,
    "unknown": _unknown,
    "not_computed": _not_computed,
}


def assumptions(report: SGDFacts) -> tuple[str, ...]:
    """Under which conditions the findings hold."""
    data = report.dataset
    lines = [
        "Attackers know all other records, how the model is trained, the number of records and the "
        "class labels, and see the parameters after every step. Whoever knows less learns less.",
        "Noise and sums of clipped gradients are integers, and differential privacy counts them to "
        "the last bit; the other numbers count them as real numbers."
        if _is_exact(report)
        else "The accounting assumes real numbers: noise and sums are in floating point.",
        "Batches are drawn afresh and independently in each step, and kept secret; noisy sums are "
        "divided by the expected size of a batch, a public number.",
        "What differential privacy allows holds for attackers of any kind, with any knowledge "
        "beforehand, and for every record, also one that is not here. It is about one row, not one "
        "person with many.",
    ]
    if data["scope"] is not None:
        lines += [
            "Fisher information bounds unbiased attackers alone: one who leans on what is known "
            "anyway is biased, and may err less without the model's help. It is a local measure.",
            "Errors are per entry of a record"
            + (", its target among them," if data["private_target"] else "")
            + " and in the units of the columns, which count alike: scale them first.",
        ]
    if data["scope"] == "this run only":
        lines.append(
            "The Fisher information is that along this run only. What is promised is its mean over "
            "runs: `n_runs` above 1 estimates it, with standard errors."
        )
    if data["exact"] is False:
        lines.append(
            "The Fisher information is estimated, from the members of batches, from some steps or "
            "by random probes: unbiased, and no upper bound. Standard errors stand beside it."
        )
    if not data["private_target"]:
        lines.append("The target of every record counts as public.")
    if data["seeded"]:
        lines.append(
            "The noise came from a seed or a generator. What is stated here holds for those alone "
            "who neither have it nor guess it."
        )
    lines.append(
        "Nothing is counted that was learned from the records before the training, by "
        "preprocessing or by a choice of parameters."
    )
    return tuple(lines)
