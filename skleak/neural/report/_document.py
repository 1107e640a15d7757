"""What a report of private SGD says, in the order in which it says it."""

from collections.abc import Sequence

import numpy as np

from skleak._version import __version__
from skleak.neural.report._facts import SGDFacts
from skleak.neural.report._findings import VACUOUS
from skleak.plotting import LeakageDisplay
from skleak.plotting.labels import count, number, numbers, percent, percents, plural
from skleak.report import Block, Bullets, Card, Column, Document, Pairs, Paragraph, Section, Table
from skleak.report.measures import loss_histogram

_FOOTER = (
    "To publish the model, publish what `release()` returns: the trained model and public numbers, "
    "and no record and no leakage."
)
_BOUNDS = {
    "most_exposed": "Fisher, most exposed record",
    "median": "Fisher, median record",
    "printed": "printed factor (not proved)",
    "renyi": "Rényi, any record",
    "van_trees": "normal prior, average record",
    "guess": "guessing the mean",
}
_GLOSSARY = (
    (
        "Gained over guessing",
        "How much of what a guess lacks the release adds at most: 0% for a bare guess, 100% for "
        "certainty. It holds for attackers of any kind, whatever they know beforehand.",
    ),
    (
        "Fisher information loss",
        "How sharply the released parameters respond to a small change of a record, in units of "
        "the noise, added up over the steps. 0 means that the record leaves no trace.",
    ),
    (
        "Unbiased attacker",
        "One whose guesses are right on average, whatever the truth.",
    ),
    (
        "Printed factor",
        "What [DRA22] theorem 4 takes from the loss for random batches. It is not proved for "
        "Gaussian noise; all other numbers here have the exact factor.",
    ),
    (
        "Noise multiplier",
        "Standard deviation of the noise on the sum of the gradients of a batch, over the norm to "
        "which each is clipped.",
    ),
    (
        "Differential privacy",
        "A promise that the model would have been drawn with nearly the same probability had one "
        "record been another. Smaller ε and δ promise more.",
    ),
)


def document(
    report: SGDFacts,
    findings: Sequence[str],
    assumptions: Sequence[str],
    display: LeakageDisplay | None,
) -> Document:
    """Put a report in order: the answer, key numbers, tables and conditions."""
    data = report.dataset
    sections = [Section("What the numbers say", (Bullets(tuple(findings[1:])),))]
    if len(report.guesses):
        sections.append(Section("Guesses of any attacker", _guesses(report)))
    if data["noise_multiplier"] > 0.0:
        sections.append(Section("Reconstruction of a whole record", _reconstruction(report)))
    loss = report.records["fisher_information_loss"].dropna().to_numpy()
    if len(loss) and np.isfinite(loss).any():
        figure = loss_histogram(loss, display)
        sections.append(Section("Leakage over the records", (figure,)))
        sections.append(Section("Most exposed records", _worst(report), where="page"))
    return Document(
        "Leakage report of private SGD",
        report.estimator,
        _made(report),
        findings[0],
        tuple(_cards(report)),
        (
            *sections,
            Section("Differential privacy", tuple(_privacy(report)), where="page"),
            Section("Assumptions", (Bullets(tuple(assumptions)),), folded=True),
            Section("Glossary", (Pairs(_GLOSSARY),), folded=True, where="page"),
            Section(
                "How it was made", (Pairs(_settings(report), grid=True),), folded=True, where="page"
            ),
        ),
        _FOOTER,
    )


def _made(report: SGDFacts) -> str:
    data = report.dataset
    drawn = "Poisson sampling" if data["sampling"] == "poisson" else "batches of a fixed size"
    made = [
        plural(data["n_records"], "record"),
        f"entries of each: {count(data['n_entries'])}",
        plural(data["n_steps"], "step"),
        f"{drawn} at rate {number(data['sampling_rate'])}",
        f"noise multiplier {number(data['noise_multiplier'])}",
        f"{data['clipping']} clipping at {number(data['max_grad_norm'])}",
        "private target" if data["private_target"] else "public target",
    ]
    return ", ".join(made)


def _cards(report: SGDFacts) -> list[Card]:
    data, privacy = report.dataset, report.differential_privacy
    cards = []
    if len(report.guesses):
        gain = float(report.guesses["advantage"].iloc[0])
        tone = "bad" if gain > VACUOUS else ""
        note = "at most, between two values at even odds"
        cards.append(Card("Gained over guessing", percent(gain, up=True), note, tone))
        found = report.guesses["true_positives_at_1pct"].iloc[-1]
        note = "at most, that a record was trained on, at 1% false alarms"
        cards.append(Card("Membership found", percent(found, up=True), note))
    table = report.reconstruction
    if "most_exposed" in table.index:
        row = table.loc["most_exposed"]
        note = (
            f"root mean square per entry of record {data['most_exposed_records'][0]}, at least; "
            f"guessing the mean: {number(table.loc['guess', 'root'])}"
        )
        cards.append(Card("Unbiased attacker errs by", number(row["root"]), note))
        note = "of a record, in its worst direction; the larger, the more"
        cards.append(Card("Largest Fisher information loss", number(data["max_loss"]), note))
    noiseless = data["noise_multiplier"] == 0.0
    tone = "bad" if noiseless else ""
    cards.append(
        Card("Noise multiplier", number(data["noise_multiplier"]), "of the clipping norm", tone)
    )
    if privacy["holds"]:
        epsilon, delta = number(privacy["epsilon"]), number(privacy["delta"])
        cards.append(Card("Differential privacy", f"ε = {epsilon}", f"at δ = {delta}", "good"))
    else:
        note = "no guarantee is stated; reasons below"
        cards.append(Card("Differential privacy", "none", note, "bad"))
    return cards


def _guesses(report: SGDFacts) -> tuple[Block, ...]:
    table = report.guesses
    prior, success, gain, found = (
        percents(table[name], up=True)
        for name in ("success_prior", "success", "advantage", "true_positives_at_1pct")
    )
    explained = (
        "Upper bounds for attackers of any kind who know everything else, about any record, from "
        "the trade-off curve of this training. Values are equally likely."
    )
    columns = (
        Column("What is guessed", tuple(table["secret"]), short="secret", kind="words"),
        Column("Right without the release", prior, short="prior"),
        Column("Right at most", success, short="right at most"),
        Column("Gained over guessing", gain, short="gain at most"),
        Column("Found at 1% false alarms", found, short="found"),
    )
    return Paragraph(explained, soft=True), Table("Guesses of any attacker", columns)


def _reconstruction(report: SGDFacts) -> tuple[Block, ...]:
    table = report.reconstruction
    explained = (
        "By how much a reconstruction of all entries of a record errs at least, per entry. All but "
        "the last rows, with a prior and guessing the mean, bound unbiased attackers. Where one "
        "exceeds the error of guessing every entry by its mean, they do worse than that guess. The "
        "printed factor is for comparison with published figures."
    )
    names = tuple(_BOUNDS[name] for name in table.index)
    columns = (
        Column("Bound", names, short="bound", kind="words"),
        Column("Root mean squared error", numbers(table["root"]), short="root mse"),
        Column("Mean squared error", numbers(table["mse"]), short="mse"),
        Column("Over guessing the mean", numbers(table["over_guess"]), short="mse/guess"),
    )
    return Paragraph(explained, soft=True), Table("Reconstruction of a whole record", columns)


def _worst(report: SGDFacts) -> tuple[Block, ...]:
    table = report.records.loc[report.dataset["most_exposed_records"]]
    loss, error = (
        table[name] for name in ("fisher_information_loss", "fisher_information_loss_error")
    )
    columns = (
        Column("Record", tuple(map(str, table.index)), kind="name"),
        Column("Fisher information loss", numbers(loss)),
        Column("Standard error", numbers(error)),
        Column("Diagonal loss", numbers(table["diagonal_fisher_information_loss"])),
        Column("Mean squared error at least", numbers(table["unbiased_mse"])),
    )
    explained = "By position in the training data, counted from 0. The records are not in here."
    return Paragraph(explained, soft=True), Table("Most exposed records", columns)


def _privacy(report: SGDFacts) -> list[Block]:
    privacy = report.differential_privacy
    blocks: list[Block] = []
    if privacy["holds"]:
        promised = (
            f"Holds for {privacy['about']}, for attackers of any kind"
            + ("" if report.dataset["arithmetic"] == "exact" else ", in real numbers")
            + ". It says nothing of a person with many rows."
        )
        blocks.append(Paragraph(promised))
    else:
        blocks += [
            Paragraph("No guarantee of differential privacy is stated, because"),
            Bullets(privacy["reasons"]),
        ]
    if np.isfinite(privacy["renyi"]):
        numbers = [
            ("ε (epsilon)", number(privacy["epsilon"])),
            ("δ (delta)", number(privacy["delta"])),
            ("Rényi divergence of order 2", number(privacy["renyi"])),
            ("Relation", "replacement of one record"),
            (
                "Noise over the largest clipped gradient",
                f"{number(privacy['noise_multiplier'])}; norms are at most "
                f"{number(report.dataset['sensitivity'])}",
            ),
        ]
        blocks.append(Pairs(tuple(numbers), grid=True))
    return blocks


def _settings(report: SGDFacts) -> tuple[tuple[str, str], ...]:
    data = report.dataset
    size = "Poisson" if data["sampling"] == "poisson" else "fixed size"
    scope = data["scope"] or f"not known: {data['missing']}"
    if data["exact"] is False:
        scope += ", estimated"
    known = "private: an attacker is after it too" if data["private_target"] else None
    return (
        ("Model", report.estimator),
        ("Noise multiplier", number(data["noise_multiplier"])),
        ("Clipping", f"{data['clipping']}, at {number(data['max_grad_norm'])}"),
        ("Sampling", f"{size}, rate {number(data['sampling_rate'])}"),
        ("Steps", count(data["n_steps"])),
        ("Fisher information", scope),
        ("Records followed", f"{count(data['n_followed'])} of {count(data['n_records'])}"),
        ("Target", known or "public: an attacker knows it"),
        ("Software", f"skleak {__version__}"),
    )
