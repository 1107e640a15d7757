"""Tables of a report from the summaries of its records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.report.blockwise._passes import ColumnSummary
from skleak.report.blockwise._separator import Asked, Solved
from skleak.report.measures import LITTLE, Separation, Unknown, column_row, loss_table, ranked
from skleak.report.measures._features import carrier_rows
from skleak.report.measures._losses import inverse
from skleak.utils.summaries._largest import Largest
from skleak.utils.summaries._moments import Moments


@dataclass(frozen=True)
class ColumnsTable:
    """Tables of columns."""

    features: pd.DataFrame
    carriers: pd.DataFrame
    counts: dict[str, dict[str, Any]]  # of all that have a rare value, by column


def columns_table(
    asked: Asked,
    solved: Sequence[Solved | None],
    found: Sequence[ColumnSummary],
    losses: Moments,
) -> ColumnsTable:
    """Rank columns by what an attacker gains."""
    rows: list[dict[str, Any]] = []
    carriers: list[tuple[Any, ...]] = []
    counts = {}
    for unknown, exact, part in zip(asked.unknowns, solved, found, strict=True):
        worst = part.worst.columns
        median = float(part.gains.quantile(0.5))
        rows.append(column_row(_worst(asked, unknown, exact, part), 0, worst["label"][0], median))
        if rows[-1]["gain"] > LITTLE:
            rare = part.carriers.columns  # those that it gives away most first
            carriers += carrier_rows(unknown.name, rare["label"], rare["share"], rare["from_own"])
            counts[unknown.name] = _counts(part)
    table = loss_table(losses, asked.scale, asked.names, known=asked.state.converged)
    table = pd.concat([pd.DataFrame(rows, index=table.index), table], axis=1)
    order, listed = ranked(table, carriers)
    return ColumnsTable(table.iloc[order].rename_axis("feature"), listed, counts)


def _worst(
    asked: Asked, unknown: Unknown, solved: Solved | None, part: ColumnSummary
) -> Separation:
    """Return the most exposed record of a column."""
    one, number = part.worst.columns, unknown.kind == "number"
    why = ""
    if solved is not None:
        why = asked.limits.why(unknown, part.n_inexact == 0)
    return Separation(
        unknown.name,
        unknown.kind,
        np.nan if unknown.values is None else float(len(unknown.values)),
        one["distance"],
        one["from_own"],
        one["share"],
        one["exact"],
        "; ".join(filter(None, (why, asked.note))),
        float(unknown.sd[0]) if number else np.nan,
        np.nan if solved is None else solved.information,
    )


def _counts(part: ColumnSummary) -> dict[str, Any]:
    known = part.rare.n > 0
    return {
        "n_carriers": part.rare.n,
        "n_unmeasured": part.n_unknown,
        "n_found": part.n_found,
        "least_true_positives": float(part.rare.smallest[0]) if known else np.nan,
        "most_true_positives": float(part.rare.largest[0]) if known else np.nan,
    }


def people_table(people: Largest) -> pd.DataFrame:
    """Table of the most exposed records, by label."""
    told, loss = people.columns, people.score
    columns = {
        "sample_weight": told["sample_weight"],
        "fisher_information_loss": loss,
        "diagonal_fisher_information_loss": told["diagonal"],
        "standard_error": inverse(loss),
        "gain": told["gain"],
        "most_telling": told["most_telling"],
    }
    if "group" in told:
        columns["group"] = told["group"]
    return pd.DataFrame(columns, index=pd.Index(told["label"], name="record"))
