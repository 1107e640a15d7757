"""What a leakage report says, in the order in which it says it."""

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.plotting import LeakageDisplay
from skleak.plotting.labels import COVARIANCES, count, number, percent, plural, printable, shorten
from skleak.report._document import Block, Bullets, Card, Document, Pairs, Paragraph, Section
from skleak.report.leakage._facts import LeakageFacts
from skleak.report.leakage._glossary import GLOSSARY
from skleak.report.leakage._tables import (
    carriers_table,
    features_table,
    groups_table,
    records_table,
    unbiased_table,
)
from skleak.report.measures._gain import MUCH
from skleak.report.measures._histogram import loss_histogram

_FOOTER = (
    "To publish the model, publish what `release()` returns: noisy coefficients, and no record, no "
    "leakage and no noiseless number."
)


def leakage_document(report: LeakageFacts, *, figures: bool) -> Document:
    """Put a leakage report in order: the answer, key numbers, tables and conditions."""
    lead = _lead(report)
    rest = tuple(line for line in report.findings if line != lead)
    sections = [Section("What the numbers say", (Bullets(rest),))]
    if report.dataset["converged"]:
        sections += [
            Section("Leakage over the records", (_histogram(report, figures),)),
            Section("Exposed columns", features_table(report)),
            *([Section("Rare values", carriers_table(report))] if len(report.carriers) else []),
            *([Section("Groups", groups_table(report))] if len(report.groups) else []),
            Section("Most exposed records", records_table(report), where="page"),
            Section("Unbiased attackers", unbiased_table(report), where="page"),
        ]
    return Document(
        "Leakage report",
        report.estimator,
        _made(report),
        lead,
        tuple(_cards(report)),
        (
            *sections,
            Section("Differential privacy", tuple(_guarantee(report)), where="page"),
            Section("Assumptions", (Bullets(report.assumptions),), folded=True),
            Section("Glossary", (Pairs(GLOSSARY),), folded=True, where="page"),
            Section(
                "How it was made", (Pairs(_settings(report), grid=True),), folded=True, where="page"
            ),
        ),
        _FOOTER,
    )


def _made(report: LeakageFacts) -> str:
    data = report.dataset
    made = [
        plural(data["n_records"], "record"),
        plural(data["n_features"], "column"),
        f"{data['loss']} loss",
        f"alpha {number(data['alpha'])}",
        f"noise scale {number(data['noise_scale'])}",
        "private target" if data["private_target"] else "public target",
    ]
    if data["noise_covariance"] != "isotropic":
        made.append(f"noise of {COVARIANCES[data['noise_covariance']]}")
    if data["noise_goal"] is not None:
        made.append(f"noise calibrated to the training records ({printable(data['noise_goal'])})")
    if data["reweighting"] is not None:
        made.append("reweighted, and what the weights reveal is counted")
    return ", ".join(made)


def _lead(report: LeakageFacts) -> str:
    """Say what the strongest reader of the model could learn; the first finding, as a rule."""
    data = report.dataset
    if not data["converged"]:
        return (
            "The fit did not converge: what it leaks is not known, and nothing bounds the error of "
            "an attacker. Raise the number of steps or the penalty, or scale the columns, and fit "
            "again before anything leaves your hands."
        )
    if data["max_loss"] == np.inf:
        return (
            "This model carries no noise. Its coefficients are an exact function of the training "
            "records: whoever holds the model and enough side knowledge can work out what is "
            "missing, and nothing bounds the error of such an attacker. Fit it with a noise scale "
            "above zero before it leaves your hands."
        )
    return next(iter(report.findings), "")


def _cards(report: LeakageFacts) -> list[Card]:
    data, guarantee = report.dataset, report.differential_privacy
    cards, noiseless = [], data["max_loss"] == np.inf
    if data["converged"]:
        worst = data["most_exposed_records"][0] if data["most_exposed_records"] else "?"
        whose = f"Fisher information loss of record {shorten(worst, 40)}"
        cards = [
            *_gain_card(report.features),
            Card("Most exposed record", number(data["max_loss"]), f"{whose}; the larger, the more"),
            Card(
                "Typical record",
                number(data["median_loss"]),
                f"median loss; the mean is {number(data['mean_loss'])}",
            ),
            Card(
                "Fairness over records",
                number(data["spread"]),
                "spread: standard deviation over mean; 0 if all leak the same",
            ),
        ]
        if len(report.groups):
            note = f"spread of mean leakage over {plural(len(report.groups), 'group')}"
            cards.append(Card("Fairness over groups", number(data["group_spread"]), note))
        note = "loss of all records together"
        cards.append(Card("Whole data set", number(data["joint_loss"]), note))
    of = "standard deviation of the noise on each coefficient"
    if data["noise_covariance"] != "isotropic":
        of = "root mean square of the noise over the coefficients"
    cards.append(Card("Noise scale", number(data["noise_scale"]), of, "bad" if noiseless else ""))
    if guarantee.holds:
        epsilon, delta = number(guarantee.epsilon), number(guarantee.delta)
        return [*cards, Card("Differential privacy", f"ε = {epsilon}", f"at δ = {delta}", "good")]
    return [
        *cards,
        Card("Differential privacy", "none", "no guarantee holds; reasons below", "bad"),
    ]


def _histogram(report: LeakageFacts, figures: bool) -> Block:
    display = LeakageDisplay.from_report(report)
    return loss_histogram(display.loss, display if figures else None, display.counts)


def _gain_card(features: pd.DataFrame) -> list[Card]:
    """Return the column of which most is gained."""
    known = features[features["gain"].notna()]
    if not len(known):
        return []
    gain, name = known["gain"].iloc[0], shorten(known.index[0], 40)
    note = f"gained over guessing at even odds, from {name}"
    tone = "bad" if gain > MUCH else ""
    return [Card("Most exposed column", percent(gain, up=True), note, tone)]


def _guarantee(report: LeakageFacts) -> list[Block]:
    guarantee = report.differential_privacy
    if guarantee.holds:
        promised = (
            "A guarantee holds when one row of the table that this model received is replaced by "
            "any other within the promised bounds, for attackers of any kind and any knowledge. It "
            "says nothing of a person with many rows, nor of what preprocessing learned from the "
            "records before."
        )
        moved = "how far one row can move the coefficients, rounding counted"
        numbers = (
            ("ε (epsilon)", f"{number(guarantee.epsilon)}; the smaller, the stronger"),
            ("δ (delta)", number(guarantee.delta)),
            ("ρ (zero-concentrated)", number(guarantee.rho)),
            ("Sensitivity", f"{number(guarantee.sensitivity)}: {moved}"),
        )
        return [Paragraph(promised), Pairs(numbers, grid=True)]
    blocks: list[Block] = [
        Paragraph("No guarantee of differential privacy holds for this model, because"),
        Bullets(guarantee.reasons),
    ]
    if report.dataset["converged"]:
        apart = (
            "The Fisher information loss does not depend on such a guarantee: it measures this "
            "model on these data, while differential privacy is a promise for all data."
        )
        blocks.append(Paragraph(apart, soft=True))
    return blocks


def _settings(report: LeakageFacts) -> tuple[tuple[str, str], ...]:
    data = report.dataset
    goal, covariance = data["noise_goal"], data["noise_covariance"]
    noise = number(data["noise_scale"])
    noise += f", calibrated to the training records ({goal})" if goal is not None else ""
    shape = COVARIANCES[covariance]
    if data["through_mean_max_loss"] is not None:
        through = (
            f"through the {name}: {number(data[f'through_{name}_mean_loss'])} on average, "
            f"{number(data[f'through_{name}_max_loss'])} at most"
            for name in ("mean", "covariance")
        )
        shape += f". Loss {'; '.join(through)}"
    weights = "none"
    if data["reweighting"] is not None:
        weights = f"{data['reweighting']}; what the weights reveal is counted"
        if data["conditional_max_loss"] is not None and np.isfinite(data["max_loss"]):
            weights += (
                ". With the weights held fixed the largest loss would be "
                f"{number(data['conditional_max_loss'])} and the mean "
                f"{number(data['conditional_mean_loss'])}"
            )
    known = "private: an attacker is after it too" if data["private_target"] else None
    return (
        ("Model", report.estimator),
        ("Loss function", data["loss"]),
        ("Penalty (alpha)", number(data["alpha"])),
        ("Noise scale", noise),
        ("Noise covariance", shape),
        ("Target", known or "public: an attacker knows it"),
        ("Reweighting", weights),
        ("Records, columns", f"{count(data['n_records'])}, {count(data['n_features'])}"),
        ("Software", f"skleak {__version__}"),
    )
