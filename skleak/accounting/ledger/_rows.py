"""Rows of a ledger."""

import errno
import hashlib
import json
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from skleak._version import __version__
from skleak.accounting.gaussian import gaussian_delta
from skleak.utils._arguments import check_scalar
from skleak.utils._typing import FloatArray

_RESTORE = "Restore the file from a backup; nothing was recorded, so release nothing."


def never_made(path: str) -> FileNotFoundError:
    """Error for a path at which there is no ledger to open."""
    return FileNotFoundError(
        f"There is no ledger {path}. Opening does not make one, as it would be without ceilings "
        "and without past releases: make it once with LeakageLedger(path, max_leakage=...). "
        "A relative path starts in the current folder."
    )


def lost(path: str, what: str) -> FileNotFoundError:
    """Error for a ledger that was there before."""
    return FileNotFoundError(
        f"The ledger {path} {what}, and with it what was released. Nothing may be released. Put "
        "the file back before fitting again."
    )


def not_a_ledger(path: str, reason: str = "") -> ValueError:
    """Error for a file that LeakageLedger did not make, or that lost its contents."""
    return ValueError(
        f"{path} is not a leakage ledger{reason}. Give `path` a new file, or one that "
        "LeakageLedger made; if it was one, restore it from a backup."
    )


def damaged(what: str, expected: str) -> ValueError:
    """Error for an entry that cannot be trusted, for instance a total that is NaN."""
    return ValueError(f"The ledger is damaged: {what} must be {expected}. {_RESTORE}")


def explain(error: Exception, path: str, timeout: float, write: bool) -> Exception:
    """Error to raise in place of one of SQLite, by its primary code."""
    code = (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return TimeoutError(
                f"The ledger {path} stayed locked by another process for more than {timeout:g} s. "
                "Nothing was recorded. Try again, or raise `timeout`."
            )
        case sqlite3.SQLITE_NOTADB:
            return not_a_ledger(path)
        case sqlite3.SQLITE_FULL:
            return OSError(
                errno.ENOSPC,
                f"The disk of the ledger {path} is full. Nothing was recorded, so release "
                "nothing. Make room, and fit again.",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return _no_access(path, write)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return OSError(
                f"The ledger {path} could not be {'written' if write else 'read'} ({error}). "
                "Nothing may be released. Check the disk, and fit again."
            )
        case _:
            return ValueError(f"The ledger {path} is damaged ({error}). {_RESTORE}")


def _no_access(path: str, write: bool) -> PermissionError:
    if not write and os.path.exists(f"{path}-journal"):
        return PermissionError(
            f"A process was stopped while it wrote to the ledger {path}, and `{path}-journal` is "
            "needed to undo its half of an entry. Read the ledger once as a user who may write "
            "both the file and its folder."
        )
    done = "written: its file or folder is read-only" if write else "read: the file is protected"
    return PermissionError(
        f"The ledger {path} cannot be {done} for this user. Nothing was recorded, so release "
        "nothing. Run as the owner of the file, in a folder that may be written."
    )


_APPLICATION_ID = 0x534B4C4B  # "SKLK"
_SCHEMA_VERSION = 4
# Versions that are read as well: before there were units (2), and guarantees up to a delta (3).
_OLDER_VERSIONS = (2, 3)
# Losses are squared, float64, little-endian, one per record. A row carries the totals up to and
# including it, so that a check reads one row however many releases came before. No column may be
# NULL, which is how SQLite stores NaN: no guarantee, and no ceiling, are infinite.
_TABLES = """
CREATE TABLE identity (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    token TEXT NOT NULL
);
CREATE TABLE release (
    id INTEGER PRIMARY KEY,
    dataset TEXT NOT NULL,
    number INTEGER NOT NULL,
    time TEXT NOT NULL,
    version TEXT NOT NULL,
    description TEXT NOT NULL,
    n_records INTEGER NOT NULL CHECK (n_records > 0),
    aligned INTEGER NOT NULL CHECK (aligned IN (0, 1)),
    mu REAL NOT NULL CHECK (mu >= 0),
    total_mu REAL NOT NULL CHECK (total_mu >= 0),
    total_unaligned REAL NOT NULL CHECK (total_unaligned >= 0),
    total_records INTEGER NOT NULL CHECK (total_records >= 0),
    squared_loss BLOB NOT NULL CHECK (length(squared_loss) = 8 * n_records),
    total_squared_loss BLOB NOT NULL CHECK (length(total_squared_loss) = 8 * total_records),
    digest BLOB NOT NULL,
    UNIQUE (dataset, number)
);
CREATE TABLE ceiling (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    max_leakage REAL NOT NULL CHECK (max_leakage > 0),
    max_epsilon REAL NOT NULL CHECK (max_epsilon >= 0),
    delta REAL NOT NULL CHECK (delta > 0 AND delta < 1),
    max_mu REAL NOT NULL CHECK (max_mu >= 0),
    digest BLOB NOT NULL UNIQUE
);
"""
# Widths of columns as JSON, and the last release before the first of them.
_UNIT = """
CREATE TABLE unit (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    widths TEXT NOT NULL,
    after INTEGER NOT NULL CHECK (after >= 0),
    digest BLOB NOT NULL UNIQUE
);
"""
_MU_DELTA = """
ALTER TABLE release ADD COLUMN mu_delta REAL NOT NULL DEFAULT 0 CHECK (mu_delta >= 0);
ALTER TABLE release ADD COLUMN total_mu_delta REAL NOT NULL DEFAULT 0 CHECK (total_mu_delta >= 0);
"""
_NO_CHANGE = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""
_IN_ORDER = """
CREATE TRIGGER release_in_order BEFORE INSERT ON release
WHEN NEW.number <> 1 + COALESCE(
    (SELECT MAX(number) FROM release WHERE dataset = NEW.dataset), 0)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


def create_file(path: str, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a ledger with the rows that `fill` writes, unless there is a file already.

    It is made under another name and linked to its own: whoever sees the file, at whatever moment
    its maker is killed, sees its ceilings. Of several makers one wins. Only the owner may read it.
    """
    if os.path.lexists(path):
        return
    draft = None
    try:
        handle, draft = tempfile.mkstemp(prefix=".ledger-", dir=os.path.dirname(path))
        os.close(handle)
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            create_tables(connection)
            fill(connection)
            connection.execute("COMMIT")
        with suppress(FileExistsError):
            os.link(draft, path)
    except sqlite3.Error as error:
        raise explain(error, path, 0.0, write=True) from error
    except OSError as error:
        raise ValueError(
            f"`path` must be a file in an existing folder that may be written, on a file system "
            f"with hard links; got {path!r} ({error.strerror}). Make the folder first."
        ) from error
    finally:
        for name in (draft, f"{draft}-journal") if draft else ():
            with suppress(FileNotFoundError):
                os.unlink(name)


def create_tables(connection: sqlite3.Connection) -> None:
    """Write the tables, the triggers that let them only grow, and what tells this ledger apart."""
    tables = ("identity", "release", "ceiling")
    script = _TABLES + "".join(_NO_CHANGE.format(table=table) for table in tables) + _IN_ORDER
    _execute(connection, script)
    connection.execute("INSERT INTO identity VALUES (1, ?)", (secrets.token_hex(16),))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    upgrade(connection)


def upgrade(connection: sqlite3.Connection) -> None:
    """Add what files of earlier versions lack: the table of units, and columns for `mu_delta`."""
    if not has_column(connection, "unit", "widths"):
        _execute(connection, _UNIT + _NO_CHANGE.format(table="unit"))
    if not has_column(connection, "release", "total_mu_delta"):
        _execute(connection, _MU_DELTA)
        connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    """Return True if a ledger has that column, which those of earlier versions may lack."""
    query = "SELECT COUNT(*) FROM pragma_table_info(?) WHERE name = ?"
    return bool(connection.execute(query, (table, column)).fetchone()[0])


def _execute(connection: sqlite3.Connection, script: str) -> None:
    """Execute the statements of a script one by one, all in the transaction that is open."""
    statement = ""
    for line in script.strip().splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def read_identity(connection: sqlite3.Connection, path: str) -> str:
    """Random name of this ledger, after a check that the file is a ledger of this version."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != _APPLICATION_ID:
        raise not_a_ledger(path)
    if version not in (_SCHEMA_VERSION, *_OLDER_VERSIONS):
        raise ValueError(
            f"The ledger {path} has schema version {version}; this version of skleak "
            f"reads {_SCHEMA_VERSION}. Use the version of skleak that wrote it."
        )
    row = connection.execute("SELECT token FROM identity").fetchone()
    if row is None:
        raise damaged("its identity", "one row; it is missing")
    return str(row[0])


TARGET, REST, DATA_NORM = "(target)", "(columns)", "data_norm"
Units = dict[str, float | str]  # by column; of `REST` it may be `DATA_NORM`
# Share by which values may pass a width, as they are rounded.
_WIDTH_ROUND_OFF = 1.0 + 1e-9
_HOW = (
    "`units` are public widths, such as 120 for an age in years: a number for each column by its "
    f"name, {TARGET!r} for the target, and {REST!r} for all other columns; or 'data_norm' "
    "instead, for columns whose rows are promised to be no longer than the `data_norm` of the model"
)


def check_units(units: Any) -> Units | None:
    """Return widths by column; one number is that of all columns and of the target."""
    if units is None:
        return None
    if isinstance(units, str):
        units = {REST: units}
    elif not isinstance(units, Mapping):
        units = {REST: units, TARGET: units}
    checked: Units = {}
    for name, width in units.items():
        if not isinstance(name, str):
            raise TypeError(f"{_HOW}; got a name of type {type(name).__name__}.")
        if name == REST and width == DATA_NORM:
            checked[name] = DATA_NORM
            continue
        if isinstance(width, str):
            raise ValueError(f"{_HOW}; got {width!r} for {name!r}.")
        checked[name] = check_scalar(f"units[{name!r}]", width, low_open=True, finite=True)
    if not checked:
        raise ValueError(f"{_HOW}; got none.")
    return checked


def added_units(kept: Units | None, units: Units) -> Units:
    """Return the widths that a ledger does not hold yet; ValueError where it holds others."""
    kept = kept or {}
    for name, width in units.items():
        if name in kept and kept[name] != width:
            raise ValueError(
                f"The ledger measures {name!r} in units of {kept[name]!r}; got {width!r}. What was "
                "released is charged in these units, which cannot change: leave `units` out, or "
                "make a new ledger, which knows nothing of earlier releases."
            )
    return {name: width for name, width in units.items() if name not in kept}


def no_units(path: str) -> ValueError:
    """Error for a ceiling on leakage that says nothing: it holds in whatever units data come."""
    return ValueError(
        f"The ledger {path} has a ceiling on leakage and no units: the Fisher information loss is "
        "measured per unit of the columns, so that any release passes on data in larger numbers. "
        f"Open it once as LeakageLedger(path, units=...). {_HOW}. What was released before is then "
        "of unknown loss, and the ceiling refuses every further release of these data sets: give "
        "those another name, or make a new ledger."
    )


def widths_of(
    units: Units,
    columns: Sequence[str],
    spans: FloatArray,
    *,
    data_norm: float | None,
    classifies: bool,
) -> FloatArray:
    """Return the width of each column and of the target last, (d + 1,), no less than the spans."""
    by_norm = np.nan if data_norm is None else 2.0 * data_norm
    rest = units.get(REST)
    rest = by_norm if rest == DATA_NORM else rest
    found = [units.get(name, rest) for name in columns]
    # A label is one of some classes, coded with 0 and 1.
    found.append(1.0 if classifies else units.get(TARGET))
    names = [*columns, TARGET]
    missing = [name for name, width in zip(names, found, strict=True) if width is None]
    if missing:
        raise ValueError(
            f"The ledger has a unit for some columns, and none for {len(missing)} of this fit, the "
            f"first of them {missing[0]!r}. Add them by LeakageLedger(path, units=...). {_HOW}."
        )
    widths = np.array(found, dtype=float)
    if np.any(np.isnan(widths)):
        raise ValueError(
            "The ledger takes the width of columns from `data_norm`, and the model has none. Pass "
            "a public bound on the Euclidean norm of a row as `data_norm`."
        )
    wider = np.flatnonzero((spans > widths * _WIDTH_ROUND_OFF)[: len(columns) + (not classifies)])
    if len(wider):
        name = names[wider[0]]
        raise ValueError(
            f"{len(wider)} of {len(names)} columns and target span more than their width in the "
            f"units of the ledger, the first of them {name!r} ({widths[wider[0]]:g}): its leakage "
            "would be charged in too small a unit. Pass data in the units of the ledger; or, if "
            "the width is wrong, make a new ledger with one that does not come from the data."
        )
    return widths


# A total that meets its ceiling exactly may pass it by round-off, and by no more.
_ROUND_OFF = 1.0 + 1e-9
# Part of the delta of a ceiling on epsilon that is kept for guarantees up to a `mu_delta`.
RESERVED = 0.1
_RELEASE = (
    "dataset, number, time, version, description, n_records, aligned, mu, total_mu, "
    "total_unaligned, total_records, squared_loss, total_squared_loss, mu_delta, total_mu_delta, "
    "digest"
)
_UNIT_COLUMNS = "time, widths, after, digest"
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

    def refusal(
        self, dataset: str, before: Totals, after: Totals, unbounded: bool = False
    ) -> str | None:
        """Why the release that leads from one total to the other is refused, or None.

        ``unbounded`` is one whose loss was said to be infinite, and not just unknown.
        """
        old, new = before.losses.max(), after.losses.max()
        # Losses that are not known are no matter to a ceiling on epsilon alone.
        guaranteed = self.max_leakage == np.inf and after.mu < np.inf and not unbounded
        if self.exist and not (new < np.inf or guaranteed):
            return (
                f"Data set {dataset!r}: this or an earlier release leaks without bound (its "
                "Fisher information loss is infinite: no noise, noise that can be drawn again from "
                "a seed, or a release before the ledger had units; or not known, as with noise in "
                "the objective), which no ceiling allows, but for one on epsilon alone where all "
                "releases have a guarantee. Nothing is recorded, so release nothing. Add noise, "
                "with random_state=None."
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
    about = (dataset, totals.number, _now(), __version__, description, squared.size, int(aligned))
    # Without the sign of a zero, which SQLite does not keep.
    amounts = [float(x) + 0.0 for x in (mu, totals.mu, totals.unaligned, mu_delta, totals.mu_delta)]
    arrays = (composed.size, _encode(squared), _encode(composed))
    _insert(connection, "release", _RELEASE, (*about, *amounts[:3], *arrays, *amounts[3:]))


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
            raise ValueError(
                "The ledger holds releases that were charged without units: their loss in `units` "
                "is not known. Set `units` before the first release, in a new ledger."
            )
        _insert(connection, "unit", _UNIT_COLUMNS, (_now(), json.dumps(added), after))


def read_units(connection: sqlite3.Connection) -> Units | None:
    """Widths of columns; None where none are kept."""
    return _kept_units(connection)[0]


def _kept_units(connection: sqlite3.Connection) -> tuple[Units | None, int]:
    """Widths of columns, and the last release before there were any."""
    kept: Units = {}
    before = []
    if has_column(connection, "unit", "widths"):
        for row in connection.execute(f"SELECT {_UNIT_COLUMNS} FROM unit ORDER BY id"):
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
    if not has_column(connection, "release", "total_mu_delta"):
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
