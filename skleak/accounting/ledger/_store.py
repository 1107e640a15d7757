"""The SQLite file behind a ledger: transactions that are atomic, wait, and know their file."""

import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from skleak.accounting.ledger._rows import (
    create_file,
    create_tables,
    explain,
    has_column,
    lost,
    never_made,
    not_a_ledger,
    read_identity,
)

MEMORY = ":memory:"


class LedgerStore:
    """Transactions on a ledger file, one connection each; nothing is kept open between them.

    So a store survives a fork and a pickle, and threads share it. A ledger in memory keeps its
    one connection, in the process that made it. Once a store has seen its ledger it accepts no
    other under the same path, and no earlier state of it; a pickle still accepts no other.

    The journal is SQLite's rollback journal: after every commit the one file is the whole ledger,
    which copies as a file and reads in a folder that may not be written.

    ``path`` (str): absolute path, or ``":memory:"``.
    ``timeout`` (float): seconds to wait for other writers.
    ``fill`` (callable, optional): makes the ledger if there is no file, with the rows that it
        writes; without it a missing file is an error.

    Examples
    --------
    >>> store = LedgerStore(":memory:", 1.0, lambda connection: None)
    >>> with store.transaction(write=False) as connection:
    ...     connection.execute("SELECT COUNT(*) FROM release").fetchone()
    (0,)
    """

    def __init__(
        self,
        path: str,
        timeout: float,
        fill: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        self.path = path
        self.timeout = timeout
        self._identity: str | None = None
        self._n_rows = 0
        self._memory: sqlite3.Connection | None = None
        if path != MEMORY:
            if fill is not None:
                create_file(path, fill)
            return
        if fill is None:
            raise ValueError(
                "A `:memory:` ledger cannot be opened: it would be a new one each time, and "
                "forget what was released. Pass the LeakageLedger itself, or give it a file."
            )
        self._memory = self._connect(MEMORY)
        self._lock = threading.RLock()
        self._process = os.getpid()
        weakref.finalize(self, self._memory.close)
        create_tables(self._memory)
        fill(self._memory)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("path", "timeout", "_identity")}
        return {**kept, "_n_rows": 0, "_memory": None}

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction that commits as a whole when the block ends, or leaves no trace."""
        seen = self._n_rows  # before the transaction: another thread may raise it meanwhile
        try:
            with self._connection() as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    self._check_same_ledger(connection, seen)
                    yield connection
                    n_rows = _count_rows(connection)
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        with suppress(sqlite3.Error):  # the error that led here says more
                            connection.execute("ROLLBACK")
        # Python cannot decode some messages of SQLite about damaged text.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explain(error, self.path, self.timeout, write) from error
        self._n_rows = max(self._n_rows, n_rows)

    def read(self, f: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of a connection, and of arguments, reads in one transaction."""
        with self.transaction(write=False) as connection:
            return f(connection, *arguments)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            if os.getpid() != self._process:
                raise RuntimeError(
                    "A `:memory:` ledger lives in the process that made it; releases of another "
                    "process would be forgotten. Give the ledger a file."
                )
            with self._lock:
                yield self._memory
            return
        before = self._find_file()
        # `rw` never creates: a ledger that is moved away in this instant is not replaced. Where
        # the file may only be read, SQLite opens it for reading.
        connection = self._connect(f"{Path(self.path).as_uri()}?mode=rw")
        try:
            yield connection
        finally:
            connection.close()
        # What was committed to a file that someone removed meanwhile is lost.
        if self._find_file() != before:
            raise lost(self.path, "was replaced by another file")

    def _connect(self, address: str) -> sqlite3.Connection:
        return sqlite3.connect(
            address,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
            uri=address != MEMORY,
        )

    def _find_file(self) -> tuple[int, int]:
        """Device and number of the file, without opening it: that would drop SQLite's locks."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError) as error:
            if self._identity is None:
                raise never_made(self.path) from error
            raise lost(self.path, "has vanished") from error
        if not stat.S_ISREG(found.st_mode):
            raise not_a_ledger(self.path)
        if not found.st_size:
            raise not_a_ledger(self.path, ": the file is empty")
        return found.st_dev, found.st_ino

    def _check_same_ledger(self, connection: sqlite3.Connection, seen: int) -> None:
        identity = read_identity(connection, self.path)
        if self._identity not in (None, identity):
            raise lost(self.path, "was replaced by another ledger")
        if _count_rows(connection) < seen:
            raise lost(self.path, "was replaced by an earlier copy of itself")
        self._identity = identity


def _count_rows(connection: sqlite3.Connection) -> int:
    """Return the number of entries of all kinds, which never falls."""
    query = "SELECT (SELECT COUNT(*) FROM release) + (SELECT COUNT(*) FROM ceiling)"
    if has_column(connection, "unit", "widths"):
        query += " + (SELECT COUNT(*) FROM unit)"
    return connection.execute(query).fetchone()[0]
