"""Rows of a ledger: running totals of a data set, ceilings, and how both are stored and checked."""

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from skleak._version import __version__
from skleak.accounting._gaussian import gaussian_delta
from skleak.accounting.ledger._errors import damaged
from skleak.accounting.ledger._schema import has_mu_delta, has_units, upgrade
from skleak.accounting.ledger._units import Units, added_units, units_too_late
from skleak.utils._typing import FloatArray

# A total that meets its ceiling exactly may pass it by round-off, and by no more.
_ROUND_OFF = 1.0 + 1e-9

# Part of the delta of a ceiling on epsilon that is kept for guarantees up to a `mu_delta`.
RESERVED = 0.1

_RELEASE = (
    "dataset, number, time, version, description, n_records, aligned, mu, total_mu, "
    "total_unaligned, total_records, squared_loss, total_squared_loss, mu_delta, total_mu_delta, "
    "digest"
)
_UNIT = "time, widths, after, digest"
_CEILING = "time, max_leakage, max_epsilon, delta, max_mu, digest"

HISTORY_TYPES: dict[str, type | str] = {
    "dataset": object,
    "number": np.int64,
    "time": object,
    "n_records": np.int64,
    "aligned": bool,
    "max_fisher_information_loss": np.float64,
    "mu": np.float64,
    "mu_delta": np.float64,
    "composed_max_fisher_information_loss": np.float64,
    "composed_mu": np.float64,
    "composed_mu_delta": np.float64,
    "description": object,
    "version": object,
}


@dataclass(frozen=True)
class Totals:
    """Running totals of a data set after its latest release."""

    number: int = 0  # Number of releases
    # Sum of the squared losses of each record over aligned releases; None without any, (n_records,)
    squared: FloatArray | None = None
    # Sum of the largest squared losses of unaligned releases, charged to every record
    unaligned: float = 0.0
    mu: float = 0.0  # Composed mu; infinite once a release had no guarantee
    mu_delta: float = 0.0  # Sum of the deltas up to which the releases are mu-GDP

    def plus(
        self, squared: FloatArray, mu: float, aligned: bool, mu_delta: float = 0.0
    ) -> "Totals":
        """Totals with one more release."""
        mu, mu_delta = float(np.hypot(self.mu, mu)), self.mu_delta + mu_delta
        grown = replace(self, number=self.number + 1, mu=mu, mu_delta=mu_delta)
        if not aligned:
            return replace(grown, unaligned=self.unaligned + float(squared.max()))
        return replace(grown, squared=squared if self.squared is None else self.squared + squared)

    @property
    def losses(self) -> FloatArray:
        """Composed loss of each record, or one for all where no release was aligned."""
        aligned = np.zeros(1) if self.squared is None else self.squared
        return np.sqrt(aligned + self.unaligned)


@dataclass(frozen=True)
class Ceilings:
    """Ceilings of a ledger, which hold for each of its data sets; infinite where there is none.

    The ceiling on epsilon is compared as the mu it allows, since two of them may speak of
    different delta, and the sum of `mu_delta` beside it. Each is a ceiling by itself: to pay for
    the one with what is left of the other, in view of releases, keeps no epsilon.
    """

    max_leakage: float = np.inf
    max_mu: float = np.inf
    max_epsilon: float = np.inf
    delta: float = np.nan
    max_mu_delta: float = np.inf

    @classmethod
    def of(cls, max_leakage: float, max_mu: float, max_epsilon: float, delta: float) -> "Ceilings":
        """Ceilings with what the one on mu leaves of the delta at epsilon."""
        left = np.inf
        if max_mu < np.inf:
            left = max(delta - float(gaussian_delta(max_mu, max_epsilon)), 0.0)
        return cls(max_leakage, max_mu, max_epsilon, delta, left)

    @property
    def exist(self) -> bool:
        """True if there is a ceiling at all."""
        return min(self.max_leakage, self.max_mu) < np.inf

    def is_stricter_than(self, other: "Ceilings") -> bool:
        """Return True if these ceilings refuse something that the others accept."""
        return (
            self.max_leakage < other.max_leakage
            or self.max_mu < other.max_mu
            or self.max_mu_delta < other.max_mu_delta
        )

    def refusal(self, dataset: str, before: Totals, after: Totals) -> str | None:
        """Why the release that leads from one total to the other is refused, or None."""
        old, new = before.losses.max(), after.losses.max()
        if self.exist and not new < np.inf:
            return (
                f"Data set {dataset!r}: this or an earlier release leaks without bound (its "
                "Fisher information loss is infinite: no noise, noise that can be drawn again from "
                "a seed, or a release before the ledger had units), which no ceiling allows. "
                "Nothing is recorded, so release nothing. Add noise, with random_state=None."
            )
        if not new <= self.max_leakage * _ROUND_OFF:
            return (
                f"Data set {dataset!r}: the largest composed Fisher information loss must stay "
                f"at most {self.max_leakage:g}; this release would raise it from {old:.6g} to "
                f"{new:.6g}. Nothing is recorded, so release nothing. Use more noise, or ask who "
                "set the ceiling."
            )
        if self.max_mu == np.inf:
            return None
        within = after.mu_delta <= self.max_mu_delta * _ROUND_OFF
        if within and after.mu <= self.max_mu * _ROUND_OFF:
            return None
        allowed = f"epsilon {self.max_epsilon:g} at delta {self.delta:g} (mu {self.max_mu:.6g})"
        if np.isinf(after.mu):
            return (
                f"Data set {dataset!r}: every release must have a guarantee of differential "
                f"privacy, with at most {allowed} in all; this or an earlier one has none (mu is "
                "None). Nothing is recorded, so release nothing. Fit a model that has a guarantee."
            )
        if not within:
            return (
                f"Data set {dataset!r}: the `mu_delta` of all releases together must stay at most "
                f"{self.max_mu_delta:.6g}, which is kept for it of the delta of {allowed}; this "
                f"one would raise it from {before.mu_delta:.6g} to {after.mu_delta:.6g}. Nothing "
                "is recorded, so release nothing. State mu with a smaller `mu_delta`."
            )
        return (
            f"Data set {dataset!r}: all releases together may spend at most {allowed}; this one "
            f"would raise mu from {before.mu:.6g} to {after.mu:.6g}. Nothing is recorded, so "
            "release nothing. Use more noise, or ask who set the ceiling."
        )


def insert_release(
    connection: sqlite3.Connection,
    dataset: str,
    totals: Totals,
    squared: FloatArray,
    mu: float,
    aligned: bool,
    description: str,
    mu_delta: float = 0.0,
) -> None:
    """Append the release that led to these totals."""
    upgrade(connection)
    composed = np.empty(0) if totals.squared is None else totals.squared
    _insert(
        connection,
        "release",
        _RELEASE,
        (
            dataset,
            totals.number,
            _now(),
            __version__,
            description,
            squared.size,
            int(aligned),
            # Without the sign of a zero, which SQLite does not keep.
            float(mu) + 0.0,
            float(totals.mu) + 0.0,
            float(totals.unaligned) + 0.0,
            composed.size,
            _encode(squared),
            _encode(composed),
            float(mu_delta) + 0.0,
            float(totals.mu_delta) + 0.0,
        ),
    )


def insert_ceilings(connection: sqlite3.Connection, ceilings: Ceilings) -> None:
    """Append ceilings; the strictest of all bind."""
    values = ceilings.max_leakage, ceilings.max_epsilon + 0.0, ceilings.delta
    _insert(connection, "ceiling", _CEILING, (_now(), *values, ceilings.max_mu + 0.0))


def insert_units(connection: sqlite3.Connection, units: Units) -> None:
    """Append widths of columns; ValueError where others are kept, or releases without any."""
    kept = read_units(connection)
    added = added_units(kept, units)
    if added:
        upgrade(connection)
        after = connection.execute("SELECT COUNT(*) FROM release").fetchone()[0]
        # Files of earlier versions have ceilings without units, and must be able to get some.
        if kept is None and after and read_ceilings(connection).max_leakage == np.inf:
            raise units_too_late()
        _insert(connection, "unit", _UNIT, (_now(), json.dumps(added), after))


def read_units(connection: sqlite3.Connection) -> Units | None:
    """Widths of columns; None where none are kept."""
    return _kept_units(connection)[0]


def _kept_units(connection: sqlite3.Connection) -> tuple[Units | None, int]:
    """Widths of columns, and the last release before there were any."""
    kept: Units = {}
    before = []
    if has_units(connection):
        for row in connection.execute(f"SELECT {_UNIT} FROM unit ORDER BY id"):
            _check_digest(row, f"the units of {row[0]}")
            kept |= json.loads(row[1])
            before.append(row[2])
        if len(before) != _count(connection, "unit"):
            raise damaged("its units", "as they were kept; one is missing")
    return (kept, before[0]) if kept else (None, 0)


def read_totals(connection: sqlite3.Connection, dataset: str) -> Totals:
    """Totals of a data set: what its latest row carries.

    In the units of the ledger, so that they are infinite where a release is from before it had any.
    """
    number = _count(connection, "release", "WHERE dataset = ?", dataset)
    if not number:
        return Totals()
    row = connection.execute(
        f"{_select_releases(connection)} WHERE dataset = ? AND number = ?", (dataset, number)
    ).fetchone()
    totals = None if row is None else _read_release(row)[1]
    if totals is None or totals.number != number:
        raise damaged(f"data set {dataset!r}", f"{number} releases without a gap")
    older = "SELECT COUNT(*) FROM release WHERE dataset = ? AND id <= ?"
    if connection.execute(older, (dataset, _kept_units(connection)[1])).fetchone()[0]:
        return replace(totals, unaligned=np.inf)
    return totals


def read_ceilings(connection: sqlite3.Connection) -> Ceilings:
    """Read the strictest ceilings ever kept: on leakage, and on epsilon by the mu it allows."""
    kept = []
    for row in connection.execute(f"SELECT {_CEILING} FROM ceiling"):
        what = f"the ceiling of {row[0]}"
        _check_digest(row, what)
        _, leakage, epsilon, delta, mu, _ = row
        for value in (leakage, epsilon, mu):
            _check_amount(value, what)
        kept.append(Ceilings.of(leakage, mu, epsilon, delta))
    if not kept or len(kept) != _count(connection, "ceiling"):
        raise damaged("its ceilings", "as they were kept; one is missing")
    strictest = min(kept, key=lambda ceilings: ceilings.max_mu)
    return replace(
        strictest,
        max_leakage=min(ceilings.max_leakage for ceilings in kept),
        max_mu_delta=min(ceilings.max_mu_delta for ceilings in kept),
    )


def read_history(connection: sqlite3.Connection, dataset: str | None) -> list[tuple[Any, ...]]:
    """Rows of the table of releases, in the order of ``HISTORY_TYPES``; the JSON still as text."""
    rows = connection.execute(
        f"{_select_releases(connection)} WHERE :dataset IS NULL OR dataset = :dataset ORDER BY id",
        {"dataset": dataset},
    )
    history = []
    for row in rows:
        squared, totals = _read_release(row)
        name, number, time, version, description, n_records, aligned, mu = row[:8]
        head = name, number, time, n_records, aligned, np.sqrt(squared.max()), mu, row[-3]
        composed = totals.losses.max(), totals.mu, totals.mu_delta
        history.append((*head, *composed, description, version))
    return history


def _select_releases(connection: sqlite3.Connection) -> str:
    columns = _RELEASE
    if not has_mu_delta(connection):
        columns = columns.replace("mu_delta, total_mu_delta", "0.0, 0.0")
    return f"SELECT {columns} FROM release"


def _insert(
    connection: sqlite3.Connection, table: str, columns: str, values: tuple[Any, ...]
) -> None:
    marks = ", ".join("?" * (len(values) + 1))
    row = (*values, _digest(values))
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row)


def _count(connection: sqlite3.Connection, table: str, condition: str = "", *values: str) -> int:
    """Count the rows, by the table and by its index: damage to one of them would lose rows."""
    by_table, by_index = (
        connection.execute(f"SELECT COUNT(*) FROM {table} {way} {condition}", values).fetchone()[0]
        for way in ("NOT INDEXED", f"INDEXED BY sqlite_autoindex_{table}_1")
    )
    if by_table != by_index:
        raise damaged(f"the table of each {table}", f"{by_index} rows; got {by_table}")
    return by_table


def _digest(values: Sequence[Any]) -> bytes:
    """Checksum of a row, as SQLite returns it: SQLite itself sees no damage inside of a blob."""
    if tuple(values[-2:]) == (0.0, 0.0):  # no `mu_delta`: as in files of earlier versions
        values = values[:-2]
    summary = hashlib.blake2b(digest_size=16)
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode()
        summary.update(len(content).to_bytes(8, "little") + content)
    return summary.digest()


def _check_digest(row: Sequence[Any], what: str) -> None:
    if _digest(row[:-1]) != row[-1]:
        raise damaged(what, "as it was written; its checksum differs")


def _check_amount(value: Any, what: str) -> None:
    if not (isinstance(value, float) and value >= 0.0):
        raise damaged(what, f"at least 0; got {value}")


def _read_release(row: Sequence[Any]) -> tuple[FloatArray, Totals]:
    """Squared losses of a release, and the totals with it; each is checked."""
    name, number, _, _, _, n_records, _, mu, total_mu, unaligned, total_records, *rest, _ = row
    what = f"release {number} of data set {name!r}"
    _check_digest(row, what)
    squared = _decode(rest[0], n_records, what)
    composed = _decode(rest[1], total_records, f"the total of {what}")
    for value in (mu, total_mu, unaligned, *rest[2:]):
        _check_amount(value, f"the total of {what}")
    kept = composed if composed.size else None
    return squared, Totals(number, kept, unaligned, total_mu, rest[3])


def _encode(array: FloatArray) -> bytes:
    return array.astype("<f8").tobytes()


def _decode(blob: Any, size: int, what: str) -> FloatArray:
    if not isinstance(blob, bytes) or len(blob) != 8 * size:
        raise damaged(what, f"{size} numbers of 8 bytes")
    array = np.frombuffer(blob, dtype="<f8").astype(np.float64)
    if not (array >= 0.0).all():
        raise damaged(what, f"at least 0; got {array[~(array >= 0.0)][0]:g}")
    return array


def _now() -> str:
    return datetime.now(UTC).isoformat()
