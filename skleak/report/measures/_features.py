"""The table of columns: what an attacker gains, beside what unbiased attackers cannot get below."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.bounds import van_trees_mse
from skleak.report.measures._gain import LITTLE, RARE
from skleak.report.measures._separation import Separation
from skleak.utils._typing import BoolArray, FloatArray, IntArray
from skleak.utils.geometry._pairs import (
    gained,
    pair_success,
    success_even_odds,
    true_positives,
)

# Entries of the table of records and columns that a report keeps.
_MOST_KEPT = 1 << 21
# A gain that counts as certainty.
_CERTAIN = 1.0 - 1e-5
CARRIERS = ("feature", "record", "share", "distance", "gain", "true_positives_at_1pct")


@dataclass(frozen=True)
class PersonTable:
    """Leakage of each column about each record, of shape (n, n_columns) each. Confidential."""

    features: tuple[str, ...]
    kinds: tuple[str, ...]
    notes: tuple[str, ...]
    distance: FloatArray
    from_own: FloatArray
    share: FloatArray
    exact: BoolArray


@dataclass(frozen=True)
class MeasuredColumns:
    """Leakage of columns, as a report has it."""

    features: pd.DataFrame
    carriers: pd.DataFrame
    gain: FloatArray  # largest of each record over all columns, (n,)
    most_telling: Any  # the column of which, (n,) of objects
    persons: PersonTable | None


def measure_columns(
    separations: Iterable[Separation],
    n_columns: int,
    losses: pd.DataFrame,
    present: BoolArray,
    labels: pd.Index,
) -> MeasuredColumns:
    """Rank columns by what an attacker gains; ``losses`` has a row for each, in their order."""
    keep = len(labels) * n_columns <= _MOST_KEPT
    kept, rows, carriers = [], [], []
    largest, telling = np.full(len(labels), -np.inf), np.full(len(labels), None, dtype=object)
    for one in separations:
        row = _row(one, present, labels)
        rows.append(row)
        if row["gain"] > LITTLE:
            carriers += _carriers(one, present, labels)
        better = np.nan_to_num(one.distance, nan=-np.inf) > largest
        largest[better], telling[better] = one.distance[better], one.name
        if keep:
            kept.append(one)
    table = pd.concat([pd.DataFrame(rows, index=losses.index), losses], axis=1)
    order, found = ranked(table, carriers)
    largest = np.where(np.isfinite(largest) | (largest > 0.0), largest, np.nan)
    return MeasuredColumns(
        table.iloc[order].rename_axis("feature"),
        found,
        gained(largest),
        telling,
        _person_table(kept) if keep else None,
    )


def ranked(
    table: pd.DataFrame, carriers: Sequence[tuple[Any, ...]]
) -> tuple[IntArray, pd.DataFrame]:
    """Order of the rows of a table of columns, and the table of carriers in that order."""
    order = _order(table)
    found = pd.DataFrame(carriers, columns=list(CARRIERS))
    rank = {name: place for place, name in enumerate(table.index[order])}
    found = found.sort_values("feature", key=lambda names: names.map(rank), kind="stable")
    return order, found.reset_index(drop=True)


def _order(table: pd.DataFrame) -> IntArray:
    """Order of the rows: by gain; of certainties columns of few values first, then by distance."""
    distance = table["distance"].fillna(-1.0).to_numpy(dtype=float)
    gain = table["gain"].fillna(-1.0).to_numpy(dtype=float)
    gain = np.where(gain >= _CERTAIN, 1.0, gain)
    return np.lexsort([-distance, (table["kind"] != "values").to_numpy(), -gain])


def _row(one: Separation, present: BoolArray, labels: pd.Index) -> dict[str, Any]:
    """Statistics of a column, those of an attacker at its most exposed record."""
    taking = np.flatnonzero(present)
    known = np.nan_to_num(one.distance[taking], nan=-1.0)
    worst = int(taking[known.argmax()])
    return column_row(one, worst, labels[worst], _median(gained(one.distance[taking])))


def column_row(one: Separation, worst: int, label: Any, median_gain: float) -> dict[str, Any]:
    """Statistics of a column, of which one record is the most exposed."""
    distance, share = one.distance[worst], one.share[worst]
    number = one.kind == "number"
    return {
        "kind": one.kind,
        "gain": float(gained(distance)),
        "distance": float(distance),
        "success_even_odds": float(success_even_odds(distance)),
        "success_prior": float(pair_success(one.from_own[worst], share)),
        "true_positives_at_1pct": float(true_positives(distance)),
        "share_removed": one.share_removed if number else np.nan,
        "van_trees_error": _van_trees_error(one) if number else np.nan,
        "most_exposed_record": label,
        "n_values": one.n_values,
        "share": float(share),
        "median_gain": median_gain,
        "exact": bool(one.exact[worst]),
        "note": one.note,
    }


def _median(values: FloatArray) -> float:
    """Median of those that are known; NaN where none is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


def _van_trees_error(one: Separation) -> float:
    """Root of the least squared error of an attacker with a normal prior, in the column's units."""
    if not one.sd > 0.0 or one.information == np.inf or np.isnan(one.information):
        return np.nan if np.isnan(one.information) else 0.0
    return float(np.sqrt(van_trees_mse(one.information, one.sd**-2)))


def _carriers(one: Separation, present: BoolArray, labels: pd.Index) -> list[tuple[Any, ...]]:
    """Return the records with a rare value of a column, those that it gives away most first."""
    rare = np.flatnonzero(present & (one.share <= RARE))
    rare = rare[np.argsort(-one.from_own[rare], kind="stable")]
    return carrier_rows(one.name, labels[rare], one.share[rare], one.from_own[rare])


def carrier_rows(
    name: str, labels: Iterable[Any], share: FloatArray, from_own: FloatArray
) -> list[tuple[Any, ...]]:
    """List records with a rare value of a column, (m,), as the table of carriers has them."""
    told = share, from_own, gained(from_own), true_positives(from_own)
    return [(name, label, *map(float, row)) for label, *row in zip(labels, *told, strict=True)]


def _person_table(kept: Sequence[Separation]) -> PersonTable:
    def side_by_side(name: str) -> Any:
        return np.stack([getattr(one, name) for one in kept], axis=1) if kept else np.empty((0, 0))

    return PersonTable(
        tuple(one.name for one in kept),
        tuple(one.kind for one in kept),
        tuple(one.note for one in kept),
        *(side_by_side(name) for name in ("distance", "from_own", "share", "exact")),
    )
