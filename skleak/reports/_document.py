"""What a leakage report says, in the order in which it says it."""

from typing import Any

import numpy as np
import pandas as pd

from skleak._version import __version__
from skleak.plotting import LeakageDisplay, inline_svg
from skleak.rendering import (
    COVARIANCES,
    Block,
    Bullets,
    Card,
    Column,
    Document,
    Figure,
    Pairs,
    Paragraph,
    Section,
    Table,
    count,
    number,
    plural,
    printable,
)
from skleak.rendering.results import Histogram, leakage_histogram
from skleak.reports._facts import LeakageFacts
from skleak.reports._glossary import GLOSSARY

_FOOTER = (
    "To publish the model, publish what `release()` returns: noisy coefficients, and no record, no "
    "leakage and no noiseless number."
)


def leakage_document(report: LeakageFacts, *, figures: bool) -> Document:
    """Put a leakage report in order: the answer, key numbers, tables and conditions."""
    sections = [Section("What the numbers say", (Bullets(report.findings),))]
    if report.dataset["converged"]:
        sections += [
            Section("Leakage over the records", (_histogram(report, figures),)),
            Section("Exposed columns", _features(report)),
            *([Section("Groups", _groups(report))] if len(report.groups) else []),
            Section("Most exposed records", _records(report), where="page"),
        ]
    return Document(
        "Leakage report",
        report.estimator,
        _made(report),
        _lead(report),
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
    """Say what the strongest reader of the model could learn."""
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
    ratios = report.features["relative_standard_error"].astype(float)
    n_sharper, n_compared = int((ratios < 1.0).sum()), int(ratios.notna().sum())
    said = (
        "Whoever receives this model receives coefficients that were computed from people's data "
        "and blurred by random noise. The strongest reader is one who knows everything except what "
        "is asked."
    )
    if n_sharper:
        said += (
            f" In {count(n_sharper)} of {plural(n_compared, 'column')}, such a reader's unbiased "
            "guess about the most exposed record may be off by less than the column's own standard "
            "deviation: there the model may tell more than the spread of the column tells anyone."
        )
    elif n_compared:
        which = "the one column" if n_compared == 1 else f"each of the {n_compared} columns"
        said += (
            f" In {which} compared, such a reader's unbiased guess is off by at least the column's "
            "own standard deviation, even for the most exposed record: about any one column, the "
            "model adds little to what its spread tells anyone."
        )
    return said


def _cards(report: LeakageFacts) -> list[Card]:
    data, guarantee = report.dataset, report.differential_privacy
    cards, noiseless = [], data["max_loss"] == np.inf
    if data["converged"]:
        worst = data["most_exposed_records"][0] if data["most_exposed_records"] else "?"
        loss = f"Fisher information loss of record {worst}; the larger, the more it leaks"
        cards = [
            Card("Most exposed record", number(data["max_loss"]), loss),
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
    records = report.records[report.records["sample_weight"] > 0.0]
    loss = records["fisher_information_loss"].to_numpy()
    bins, coarse = leakage_histogram(loss), leakage_histogram(loss, max_bins=14)
    if bins is None or coarse is None:
        n = report.dataset["n_records"]
        which = "the record" if n == 1 else f"all {plural(n, 'record')}"
        return Paragraph(f"Not drawn: the leakage of {which} is infinite.")
    notes = []
    if bins.constant:
        notes.append(f"All records leak the same: {number(bins.ticks[0])}.")
    if bins.n_below:
        notes.append(f"The first bar also holds {plural(bins.n_below, 'record')} of smaller loss.")
    if bins.n_omitted:
        left_out = plural(bins.n_omitted, "record")
        notes.append(f"Not drawn: {left_out} of infinite or undefined loss.")
    caption = (
        "How many records have which Fisher information loss. One tall bar would mean that all "
        "records leak the same; a long tail to the right is a few people who pay for all."
    )
    caption += " The axis is logarithmic." if bins.logarithmic else ""
    svg = ""
    if figures:
        bins_told = zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True)
        told = (
            f"From {number(low)} to {number(high)}: {plural(n, 'record')}."
            for low, high, n in bins_told
            if n
        )
        title = f"Histogram of Fisher information loss over {plural(sum(bins.counts), 'record')}"
        svg = inline_svg(LeakageDisplay.from_report(report), title, " ".join(told))
    bars = () if bins.constant else _bars(coarse)
    return Figure(svg, caption, bars, tuple(notes))


def _bars(bins: Histogram) -> tuple[tuple[str, int], ...]:
    edges = [number(edge) for edge in bins.edges]
    width = max(map(len, edges))
    return tuple(
        (f"{low} to {high:>{width}}", n)
        for low, high, n in zip(edges[:-1], edges[1:], bins.counts.tolist(), strict=True)
    )


def _features(report: LeakageFacts) -> tuple[Block, ...]:
    """Tabulate columns, of which blocks have no standard deviation to be ranked by and come last.

    Up to a third of the rows is kept for them, so that a long table hides none of the worst.
    """
    table = report.features
    ratio = table["relative_standard_error"].astype(float)
    with np.errstate(divide="ignore"):
        # How many times sharper than the column's own spread an attacker might get.
        exposure = 1.0 / ratio
    explained = (
        "For the most exposed record of each column: the standard error that no unbiased attacker "
        "who knows everything else can get below, in units of the column and over its standard "
        "deviation. Below 1, the model may tell more than the spread of the column does. A dash: "
        "not defined, as for a block of columns or a column of one value."
    )
    columns = (
        Column("Column", _names(table), short="column", kind="name"),
        Column("Exposure", _shares(exposure), kind="meter", sharp=tuple(ratio < 1.0)),
        Column(
            "Error over column's std. dev.",
            _numbers(ratio),
            short="error/sd",
            sharp=tuple(ratio < 1.0),
        ),
        Column(
            "Error at least (column's units)",
            _numbers(table["standard_error"]),
            short="error at least",
        ),
        Column("Column's std. dev.", _numbers(table["column_std"]), short="column's sd"),
        Column("Mean loss", _numbers(table["mean_loss"]), short="mean loss"),
        Column(
            "Record", tuple(str(int(row)) for row in table["most_exposed_record"]), short="record"
        ),
    )
    return Paragraph(explained, soft=True), Table(
        "Exposed columns",
        columns,
        limits=(8, 30),
        more="column",
        where="are in the table `features` of the report and in its JSON.",
        priority=_priority(table),
    )


def _priority(features: pd.DataFrame) -> tuple[int, ...]:
    """Order the rows by how much they must be shown: two columns, then the most exposed block."""
    positions = np.arange(len(features))
    block = features["column_std"].isna().to_numpy()
    loss = features["max_loss"].to_numpy(dtype=float)
    blocks = positions[block][np.argsort(-loss[block], kind="stable")]
    places = np.r_[np.arange(np.sum(~block)) * 1.5, 3.0 * np.arange(len(blocks)) + 2.0]
    order = np.argsort(places, kind="stable")
    return tuple(np.r_[positions[~block], blocks][order].tolist())


def _groups(report: LeakageFacts) -> tuple[Block, ...]:
    mean = report.groups["mean_loss"].to_numpy(dtype=float)
    table = report.groups.iloc[np.argsort(-mean, kind="stable")]
    explained = (
        "Does one group pay more than another? Mean leakage of a record by group; the spread over "
        f"groups is {number(report.dataset['group_spread'])} (0 if equal)."
    )
    columns = (
        Column("Group", _names(table), short="group", kind="name"),
        Column("Share", _shares(table["mean_loss"]), kind="meter"),
        Column("Mean loss", _numbers(table["mean_loss"]), short="mean loss"),
        Column("Over overall mean", _numbers(table["relative_mean"]), short="mean/overall"),
        Column("Largest loss", _numbers(table["max_loss"]), short="max loss"),
        Column("Spread within", _numbers(table["spread"]), short="spread"),
        Column("Joint loss", _numbers(table["joint_loss"]), short="joint loss"),
        Column("Records", tuple(map(count, table["n_records"])), short="records"),
        Column("Most exposed", tuple(str(int(row)) for row in table["most_exposed_record"])),
    )
    return Paragraph(explained, soft=True), Table(
        "Groups",
        columns,
        limits=(8, 30),
        more="group",
        where="are in the table `groups` of the report and in its JSON.",
    )


def _records(report: LeakageFacts) -> tuple[Block, ...]:
    positions, mean = report.dataset["most_exposed_records"], report.dataset["mean_loss"]
    loss = report.records["fisher_information_loss"].to_numpy()[positions]
    ratio = loss / mean if 0.0 < mean < np.inf else np.full(len(loss), np.nan)
    columns = (
        Column("Record", tuple(map(str, positions))),
        Column("Fisher information loss", _numbers(loss)),
        Column("Over the mean", _numbers(ratio)),
    )
    explained = "By position in the data, counted from 0. The records themselves are not in here."
    return Paragraph(explained, soft=True), Table("Most exposed records", columns)


def _names(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(map(str, table.index))


def _numbers(values: Any) -> tuple[str, ...]:
    return tuple(map(number, values))


def _shares(values: pd.Series) -> tuple[str, ...]:
    """Lengths of bars, in percent of the largest."""
    sizes = values.to_numpy(dtype=float)
    finite = sizes[np.isfinite(sizes)]
    largest = finite.max(initial=0.0) or 1.0
    shares = np.nan_to_num(np.clip(sizes / largest, 0.0, 1.0))
    return tuple(f"{100.0 * share:.4g}" for share in shares)


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
