"""A leakage report without persons: means over all records, joint numbers and the guarantee."""

import math

import numpy as np

from skleak.plotting.labels import count, number, numbers, percent, plural, shorten
from skleak.report._document import (
    NAMES_NOBODY,
    Block,
    Bullets,
    Column,
    Document,
    Pairs,
    Paragraph,
    Section,
    Table,
)
from skleak.report._shared import check_enough, rounded
from skleak.report.leakage._facts import LeakageFacts
from skleak.utils._typing import FloatArray

# What is gained over guessing at even odds is much from here.
_MUCH = 0.5


def leakage_overview(report: LeakageFacts) -> Document:
    """Put a leakage report in order without its records."""
    _check(report)
    data = report.dataset
    made = [
        plural(data["n_records"], "record"),
        plural(data["n_features"], "column"),
        f"noise scale {number(data['noise_scale'])}",
        "private target" if data["private_target"] else "public target",
    ]
    sections = (
        Section("Means over all records", (_columns(report),)),
        Section("Differential privacy", _guarantee(report)),
        Section("Assumptions", (Bullets(report.assumptions),)),
    )
    return Document(
        "Leakage report, overview",
        report.estimator,
        ", ".join(made),
        _answer(report),
        (),
        sections,
        NAMES_NOBODY,
        warning=NAMES_NOBODY,
        mark="Overview",
    )


def leakage_metrics(report: LeakageFacts) -> dict[str, float]:
    """Return the numbers of an overview by name."""
    _check(report)
    data, guarantee, gain = report.dataset, report.differential_privacy, _gain(report)
    numbers = {
        "noise_scale": float(data["noise_scale"]),
        "mean_fisher_information_loss": rounded(float(data["mean_loss"]), up=True),
        "joint_fisher_information_loss": rounded(float(data["joint_loss"]), up=True),
        "mean_gain": rounded(float(np.mean(gain)), up=True) if len(gain) else math.nan,
        "epsilon": rounded(float(guarantee.epsilon), up=True),
        "delta": float(guarantee.delta) if guarantee.holds else math.nan,
    }
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _check(report: LeakageFacts) -> None:
    if not report.dataset["converged"]:
        raise ValueError(
            "The fit did not converge: what it leaks is not known, and that it failed may be due "
            "to the records. Raise the number of steps or the penalty, and fit again before "
            "anything is handed on."
        )
    check_enough(int((report.records["sample_weight"] > 0.0).sum()))


def _gain(report: LeakageFacts) -> FloatArray:
    """Gain about each record that was trained on and of which it is known, of shape (k,)."""
    trained = report.records[report.records["sample_weight"] > 0.0]
    gain: FloatArray = trained["gain"].dropna().to_numpy(dtype=float)
    return gain


def _answer(report: LeakageFacts) -> str:
    gain, noise = _gain(report), report.dataset["noise_scale"]
    if noise == 0.0:
        return (
            "This model carries no noise: its coefficients are an exact function of the training "
            "records, and nothing bounds what an attacker works out from them."
        )
    if len(gain) < len(report.records) or not len(gain):
        return f"At noise scale {number(noise)}, what attackers gain is not known of all records."
    n_much = int((gain > _MUCH).sum())
    return (
        f"At noise scale {number(noise)}, an attacker who knows all else and asks about the column "
        f"that tells most gains {percent(float(gain.mean()), up=True)} over guessing at even odds, "
        f"on average over {plural(len(gain), 'record')}; for {count(n_much)} of them more than "
        f"{percent(_MUCH)}."
    )


def _columns(report: LeakageFacts) -> Table:
    features = report.features
    columns = (
        Column("Column", tuple(shorten(name, 48) for name in features.index), short="column",
               kind="name"),
        Column("Kind", tuple(map(str, features["kind"])), short="kind", kind="words"),
        Column(
            "Fisher information loss, mean over records",
            numbers(features["mean_loss"]),
            short="mean loss",
        ),
    )  # fmt: skip
    return Table("Means over all records", columns, more="column")


def _guarantee(report: LeakageFacts) -> tuple[Block, ...]:
    guarantee = report.differential_privacy
    if not guarantee.holds:
        said = "No guarantee of differential privacy holds for this model, because"
        return (Paragraph(said), Bullets(guarantee.reasons))
    said = (
        "A guarantee holds when one row of the table that this model received is replaced by any "
        "other within the promised bounds. It says nothing of a person with many rows, nor of what "
        "preprocessing learned from the records before."
    )
    numbers = (("ε (epsilon)", number(guarantee.epsilon)), ("δ (delta)", number(guarantee.delta)))
    return (Paragraph(said), Pairs(numbers, grid=True))
