"""Sentences: what the facts of a leakage report mean, most important first."""

from typing import Any

import numpy as np

from skleak.plotting.labels import count, number, percent, plural, shorten
from skleak.report._report import Finding
from skleak.report.leakage._assumptions import FITTED_SHAPES, listed
from skleak.report.leakage._facts import LeakageFacts
from skleak.report.measures._gain import LITTLE

_WIDTH = 48


def findings(report: LeakageFacts) -> tuple[str, ...]:
    """Put the report's facts into sentences; the first is the answer."""
    first, *told = (_TOPICS[finding.topic](finding) for finding in report.facts)
    return (
        f"{first}{_published_scale(report)}",
        *told,
        *_records(report),
        *_fairness(report),
        *_reweighting(report),
        *_covariance(report),
        _differential_privacy(report),
    )


def _published_scale(report: LeakageFacts) -> str:
    """Say in the first paragraph that a noise scale that follows the records is published."""
    data = report.dataset
    if data["noise_goal"] is None and not data.get("noise_calibrated"):
        return ""
    how = "was read off records" if data["noise_goal"] is None else "follows the records"
    return (
        f" The noise scale {how}, and is published: what it tells is not in these numbers, which "
        "hold for attackers who learn nothing from it."
    )


def _answer(found: Finding) -> str:
    """Name the column that tells most, what is gained, and of whom.

    Columns without names may be those that a pipeline made, of which nobody knows what they are.
    """
    if found["unnamed"]:
        return (
            "The columns that the model received have no names: if a pipeline made them, "
            "`skleak.inspection.leakage_report` says what is told of those that a person has. "
            f"{_most_telling(found)}"
        )
    return _most_telling(found)


def _most_telling(found: Finding) -> str:
    name, gain = shorten(found["feature"], _WIDTH), percent(found["gain"], up=True)
    whom = f"record {_name(found['record'])}"
    apart = _apart(found)
    if found["gain"] <= LITTLE:
        return (
            f"No column tells much: an attacker who knows everything else gains at most {gain} "
            f"over guessing, which is from {name}, about {whom} ({apart})."
        )
    what = {
        "values": "its values",
        "number": "whether it is a standard deviation lower or higher",
        "numbers": "whether its columns are a standard deviation lower or higher",
    }[found["kind"]]
    said = (
        f"Most exposed column, {name}: an attacker who knows everything else gains {gain} over "
        f"guessing {what} at even odds, and is right {percent(found['success_even_odds'])} of the "
        f"time, about {whom} ({apart})"
    )
    if found["n_carriers"]:
        said += f"; {_carried(found)}"
    return said + "."


def _carriers(found: Finding) -> str:
    return f"Column {shorten(found['feature'], _WIDTH)}: {_carried(found)}."


def _carried(found: Finding) -> str:
    """Name the people with a rare value, and say how surely they are found."""
    n, labels = found["n_carriers"], found["carriers"]
    named = ", ".join(map(_name, labels))
    more = f" and {count(n - len(labels))} more" if n > len(labels) else ""
    measured = ""
    if found["n_unmeasured"]:
        measured = "measured "
        more += f" ({count(found['n_unmeasured'])} others were not measured)"
    low, high = (percent(found[f"{end}_true_positives"]) for end in ("least", "most"))
    surely = high if low == high else f"{low} to {high}"
    if n == 1:
        return (
            f"the one {measured}record with a rare value of it, {named}{more}, is found with "
            f"probability {surely} at 1% false alarms"
        )
    who = f"the {count(n)} {measured}records with a rare value of it"
    if not found["n_found"]:
        return (
            f"none of {who} is found with a probability above one half at 1% false alarms "
            f"({surely}): {named}{more}"
        )
    return (
        f"of {who} {count(found['n_found'])} are found with a probability above one half at 1% "
        f"false alarms ({surely}): {named}{more}"
    )


def _apart(found: Finding) -> str:
    distance = f"{number(found['distance'])} noise units apart"
    return distance if found["exact"] else f"about {distance}"


def _telling(found: Finding) -> str:
    """Say how many columns tell something, and name those that tell little with their figures."""
    n, telling = found["n_columns"], found["n_telling"]
    said = (
        f"In {count(telling)} of {plural(n, 'column')} an attacker gains more than "
        f"{percent(LITTLE)}."
    )
    if not found["little"]:
        return said
    each = [
        f"{shorten(name, _WIDTH)} ({percent(gain, up=True)})"
        for name, gain in zip(found["little"], found["little_gains"], strict=True)
    ]
    return f"{said} In the rest at most {percent(LITTLE)}: {listed(each)}."


def _undecided(found: Finding) -> str:
    names = listed([shorten(name, _WIDTH) for name in found["features"]])
    return f"How well the values can be told apart is not known for {names}: {found['note']}."


def _number(found: Finding) -> str:
    """Say what is left to know of a number, for who has a prior."""
    removed, sd = percent(found["share_removed"], up=True), number(found["sd"])
    return (
        f"Of the numbers {shorten(found['feature'], _WIDTH)} is known best: from an attacker who "
        f"expects a normal law of the column's spread ({sd}), the release removes at most "
        f"{removed} of the squared error, which leaves an error of at least "
        f"{number(found['van_trees_error'])}; an unbiased attacker errs by at least "
        f"{number(found['standard_error'])} (Cramér–Rao)."
    )


def _membership(found: Finding) -> str:
    return (
        f"That a record was trained on shows most for {_name(found['record'])}: the models with "
        f"and without it are {number(found['distance'])} noise units apart, and a test at 1% "
        f"false alarms finds it with probability {percent(found['true_positives'])}."
    )


def _unknown(found: Finding) -> str:
    what, also = "fit", ""
    if found["reweighting"] is not None:
        what, also = "fit, or its reweighting,", " (of either)"
    return (
        f"The {what} did not converge: what it leaks is not known, and no bound on an attacker's "
        f"error holds. Raise `max_iter`{also} or `alpha`, or scale the columns, and fit again."
    )


def _no_noise(_: Finding) -> str:
    return (
        "No noise was added: the coefficients are an exact function of the training records, "
        "leakage is infinite, and no lower bound on an attacker's error holds."
    )


def _nothing(_: Finding) -> str:
    return "No column of any record tells anything: the coefficients do not depend on the records."


_TOPICS: dict[str, Any] = {
    "answer": _answer,
    "carriers": _carriers,
    "telling": _telling,
    "undecided": _undecided,
    "number": _number,
    "membership": _membership,
    "unknown": _unknown,
    "no_noise": _no_noise,
    "nothing": _nothing,
}


def _name(label: Any) -> str:
    """Return a record's label in a sentence."""
    return shorten(label, _WIDTH)


def _records(report: LeakageFacts) -> list[str]:
    """Name the records of the largest loss."""
    data = report.dataset
    if not data["converged"] or data["max_loss"] == np.inf:
        return []
    worst = data["most_exposed_records"]
    named = "record is" if len(worst) == 1 else "records are"
    return [
        f"By Fisher information the most exposed {named} {', '.join(map(_name, worst[:5]))}: a "
        f"loss of {data['max_loss']:.3g} for the first, against a median of "
        f"{data['median_loss']:.3g}. In its worst direction an unbiased attacker has a standard "
        f"error of at least {_bound(data['max_loss'])}."
    ]


def _fairness(report: LeakageFacts) -> list[str]:
    data, groups = report.dataset, report.groups
    if not np.isfinite(data["spread"]):
        return []
    if data["mean_loss"] == 0.0:
        return ["No record leaks anything: the coefficients do not depend on the records."]
    ratio = data["max_loss"] / data["mean_loss"]
    lines = [
        f"Over records, leakage has a mean of {data['mean_loss']:.3g} and a relative spread "
        f"(standard deviation over mean) of {data['spread']:.3g}; the most exposed record leaks "
        f"{ratio:.3g} times the mean."
    ]
    if len(groups) and np.isfinite(data["group_spread"]):
        high, low = groups["mean_loss"].idxmax(), groups["mean_loss"].idxmin()
        lines.append(
            f"Over groups, mean leakage has a relative spread of {data['group_spread']:.3g}: it is "
            f"largest for {high} ({groups.loc[high, 'mean_loss']:.3g}) and smallest for {low} "
            f"({groups.loc[low, 'mean_loss']:.3g})."
        )
    return lines


def _reweighting(report: LeakageFacts) -> list[str]:
    data = report.dataset
    if data["reweighting"] is None or not np.isfinite(data["mean_loss"]):
        return []
    weighted = ""
    if data["unequal_weights"]:
        weighted = (
            " What is balanced is leakage per unit of sample weight: a record leaks its weight "
            "times that."
        )
    if data["reweighting"] == "total":
        return [
            "The reweighting evens what records leak with its weights counted, but no weights are "
            "known under which that is equal. For whole records its relative spread is "
            f"{data['spread']:.3g}, the mean is {data['mean_loss']:.3g} and the largest loss "
            f"{data['max_loss']:.3g}. With the weights held fixed ([FIL21] eq. 29) they would be "
            f"{data['conditional_mean_loss']:.3g} and {data['conditional_max_loss']:.3g}."
            + weighted
        ]
    return [
        "The reweighting balances leakage with its weights held fixed: by that measure ([FIL21] "
        f"eq. 29) the mean is {data['conditional_mean_loss']:.3g} and the largest loss "
        f"{data['conditional_max_loss']:.3g}. The weights depend on the data, too: with what they "
        f"reveal, as everywhere in this report, the mean is {data['mean_loss']:.3g} and the "
        f"largest loss {data['max_loss']:.3g}." + weighted
    ]


def _covariance(report: LeakageFacts) -> list[str]:
    data = report.dataset
    if data["noise_covariance"] == "isotropic":
        return []
    if data["noise_covariance"] == "given":
        return [
            "The noise has the covariance that was given, of a root mean square of "
            f"{data['noise_scale']:.3g} over the coefficients."
        ]
    if not np.isfinite(data["mean_loss"]):
        return []
    return [
        f"The noise has {FITTED_SHAPES[data['noise_covariance']]}, which depends on the records. "
        "Through the mean of the release they leak "
        f"{data['through_mean_mean_loss']:.3g} on average and {data['through_mean_max_loss']:.3g} "
        "at most; through its covariance, which no noise scale lowers, "
        f"{data['through_covariance_mean_loss']:.3g} and "
        f"{data['through_covariance_max_loss']:.3g}. Both are counted everywhere in this report: "
        f"together {data['mean_loss']:.3g} on average and {data['max_loss']:.3g} at most."
    ]


def _differential_privacy(report: LeakageFacts) -> str:
    guarantee = report.differential_privacy
    if not guarantee.holds:
        return "No differential-privacy guarantee holds: " + "; ".join(guarantee.reasons) + "."
    exact = "" if guarantee.exact else " (in exact arithmetic, as the noise has a shape)"
    return (
        "Differential privacy holds under replacement of one row of the table that this model "
        f"received: ({guarantee.epsilon:.4g}, {guarantee.delta:g})-differential privacy, and "
        f"{guarantee.rho:.4g}-zero-concentrated{exact}."
    )


def _bound(loss: float) -> str:
    return f"{1.0 / loss:.3g}" if loss > 0.0 else "infinity"
