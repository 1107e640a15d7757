"""Tables of a leakage report."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from skleak.plotting.labels import count, number, numbers, percents
from skleak.report._document import Block, Column, Paragraph, Table
from skleak.report.leakage._facts import LeakageFacts
from skleak.report.measures._gain import MUCH


def features_table(report: LeakageFacts) -> tuple[Block, ...]:
    """Tabulate columns by what an attacker gains, with the bounds of unbiased attackers beside."""
    table = report.features
    sharp = tuple((table["gain"] > MUCH).tolist())
    explained = (
        "For an attacker who knows everything but one entry, whatever that is, and the most "
        "exposed record of each column. Gained: how far the release lifts a guess between two "
        "values at even odds, from 0% (a bare guess) to 100% (certainty); bars of more than 50% "
        "stand out. A number is held against itself one standard deviation lower and higher. The "
        "squared error removed is that of who expects a normal law, at most."
    )
    apart = numbers(table["distance"])
    columns = (
        Column("Column", _names(table), short="column", kind="name"),
        Column("Gain", meter(table["gain"].fillna(0.0)), kind="meter", sharp=sharp),
        Column("Gained over guessing", percents(table["gain"], up=True), short="gain", sharp=sharp),
        Column("Noise units apart", _estimates(apart, table["exact"]), short="apart"),
        Column("Right at even odds", percents(table["success_even_odds"])),
        Column(
            "Found at 1% false alarms",
            percents(table["true_positives_at_1pct"]),
            short="found",
        ),
        Column("Squared error removed", percents(table["share_removed"], up=True), short="removed"),
        Column("Record", tuple(map(str, table["most_exposed_record"])), short="record"),
    )
    blocks = [*_explained(explained, "Columns", columns, (8, 30), "column", "features")]
    if not table["exact"].all():
        blocks.append(Paragraph("A distance with ≈ is an estimate; see `features['note']`.", True))
    return tuple(blocks)


def unbiased_table(report: LeakageFacts) -> tuple[Block, ...]:
    """Tabulate what bounds unbiased attackers, who are no measure of harm."""
    table = report.features
    explained = (
        "An attacker whose guesses are right on average, whatever the truth, has a standard error "
        "of at least this (Cramér–Rao). It is a local bound, and no measure of how well the values "
        "of a column are told apart: for that see above."
    )
    columns = (
        Column("Column", _names(table), kind="name"),
        Column("Standard error at least", numbers(table["standard_error"])),
        Column("With a normal prior", numbers(table["van_trees_error"])),
        Column("Column's std. dev.", numbers(table["column_std"])),
        Column("Largest loss", numbers(table["max_loss"])),
        Column("Mean loss", numbers(table["mean_loss"])),
    )
    return _explained(explained, "Unbiased attackers", columns, (8, 30), "column", "features")


def carriers_table(report: LeakageFacts) -> tuple[Block, ...]:
    """Tabulate who has a rare value, and how surely that is found."""
    table = report.carriers
    explained = (
        "Records with a value that 5% of the records or fewer have, in columns of which more than "
        "2% is gained, and how surely a test at 1% false alarms finds that they have it."
    )
    columns = (
        Column("Record", tuple(map(str, table["record"])), short="record", kind="name"),
        Column("Column", tuple(map(str, table["feature"])), short="column", kind="words"),
        Column("Have the same value", percents(table["share"]), short="share"),
        Column("Noise units apart", numbers(table["distance"]), short="apart"),
        Column(
            "Found at 1% false alarms",
            percents(table["true_positives_at_1pct"]),
            short="found",
            sharp=tuple((table["true_positives_at_1pct"].astype(float) > 0.5).tolist()),
        ),
    )
    return _explained(explained, "Rare values", columns, (8, 40), "record", "carriers")


def groups_table(report: LeakageFacts) -> tuple[Block, ...]:
    mean = report.groups["mean_loss"].to_numpy(dtype=float)
    table = report.groups.iloc[np.argsort(-mean, kind="stable")]
    explained = (
        "Does one group pay more than another? Mean leakage of a record by group; the spread over "
        f"groups is {number(report.dataset['group_spread'])} (0 if equal)."
    )
    columns = (
        Column("Group", _names(table), short="group", kind="name"),
        Column("Share", _shares(table["mean_loss"]), kind="meter"),
        Column("Mean loss", numbers(table["mean_loss"]), short="mean loss"),
        Column("Over overall mean", numbers(table["relative_mean"]), short="mean/overall"),
        Column("Largest loss", numbers(table["max_loss"]), short="max loss"),
        Column("Spread within", numbers(table["spread"]), short="spread"),
        Column("Joint loss", numbers(table["joint_loss"]), short="joint loss"),
        Column("Records", tuple(map(count, table["n_records"])), short="records"),
        Column("Most exposed", tuple(map(str, table["most_exposed_record"]))),
    )
    return _explained(explained, "Groups", columns, (8, 30), "group", "groups")


def records_table(report: LeakageFacts) -> tuple[Block, ...]:
    mean, n_worst = report.dataset["mean_loss"], len(report.dataset["most_exposed_records"])
    records = report.records[report.records["sample_weight"] > 0.0]
    loss = records["fisher_information_loss"].to_numpy()
    worst = records.iloc[np.argsort(-loss, kind="stable")[:n_worst]]
    loss = worst["fisher_information_loss"].to_numpy()
    ratio = loss / mean if 0.0 < mean < np.inf else np.full(len(loss), np.nan)
    columns = [
        Column("Record", _names(worst), kind="name"),
        Column("Fisher information loss", numbers(loss)),
        Column("Over the mean", numbers(ratio)),
    ]
    if "gain" in worst:
        columns += [
            Column("Most telling column", tuple(map(str, worst["most_telling"])), kind="words"),
            Column("Gained over guessing", percents(worst["gain"], up=True)),
            Column("With and without, noise units", numbers(worst["mu"])),
        ]
    explained = (
        "By label, or by position in the data, counted from 0, where there are none. The records "
        "themselves are not in here. `report.person(label)` tells more about one."
    )
    return Paragraph(explained, soft=True), Table("Most exposed records", tuple(columns))


def _names(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(map(str, table.index))


def meter(shares: Iterable[float]) -> tuple[str, ...]:
    """Write the lengths of bars, in percent."""
    return tuple(f"{100.0 * share:.4g}" for share in shares)


def _estimates(numbers: tuple[str, ...], exact: pd.Series) -> tuple[str, ...]:
    """Mark what is not exact."""
    return tuple(told if sure else f"≈ {told}" for told, sure in zip(numbers, exact, strict=True))


def _shares(values: pd.Series) -> tuple[str, ...]:
    """Lengths of bars, in percent of the largest."""
    sizes = values.to_numpy(dtype=float)
    finite = sizes[np.isfinite(sizes)]
    largest = finite.max(initial=0.0) or 1.0
    return meter(np.nan_to_num(np.clip(sizes / largest, 0.0, 1.0)))


def _explained(
    said: str, title: str, columns: tuple[Column, ...], limits: tuple[int, int], more: str, of: str
) -> tuple[Block, ...]:
    """Set a table below what it means; what is too long for a page is in a table of the report."""
    where = f"are in the table `{of}` of the report and in its JSON."
    table = Table(title, columns, limits=limits, more=more, where=where)
    return Paragraph(said, soft=True), table
