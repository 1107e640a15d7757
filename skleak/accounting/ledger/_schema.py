"""Tables of a ledger, and a new file that appears with all of them or not at all."""

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress

from skleak.accounting.ledger._errors import damaged, explain, not_a_ledger

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
    if not has_units(connection):
        _execute(connection, _UNIT + _NO_CHANGE.format(table="unit"))
    if not has_mu_delta(connection):
        _execute(connection, _MU_DELTA)
        connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def has_units(connection: sqlite3.Connection) -> bool:
    """Return True if a ledger has the table of units."""
    query = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'unit'"
    return bool(connection.execute(query).fetchone()[0])


def has_mu_delta(connection: sqlite3.Connection) -> bool:
    """Return True if a ledger has columns for the delta up to which mu-GDP holds."""
    query = "SELECT COUNT(*) FROM pragma_table_info('release') WHERE name = 'total_mu_delta'"
    return bool(connection.execute(query).fetchone()[0])


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
