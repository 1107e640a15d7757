"""The ledger's file when it is lost, replaced, emptied, damaged or protected."""

import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leakage.sqlite"


def _use_in_all_ways(ledger):
    return [
        lambda: ledger.record("a", [1.0]),
        lambda: ledger.total("a"),
        ledger.history,
        ledger.datasets,
        lambda: ledger.max_leakage,
    ]


def test_opening_a_path_never_makes_a_ledger(path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"There is no ledger .*make it once with Leakage"):
        LeakageLedger.open(path)
    LeakageLedger(path, max_leakage=2.0, units=1.0)
    (path.parent / "elsewhere").mkdir()
    monkeypatch.chdir(path.parent / "elsewhere")
    with pytest.raises(FileNotFoundError, match="A relative path starts in the current folder"):
        LeakageLedger.open(path.name)
    assert not list(Path().iterdir())
    assert LeakageLedger.open(Path("..") / path.name).max_leakage == 2.0


def test_reading_waits_for_no_writer(path):
    writer = LeakageLedger(path, max_epsilon=2.0, delta=1e-6, timeout=0.0)
    writer.record("a", [1.0], mu=0.1)
    reader = LeakageLedger.open(path, timeout=0.0)
    calls = [
        lambda: reader.total("a").n_releases,
        lambda: reader.mu_delta_left("a"),
        lambda: len(reader.history("a")),
        reader.datasets,
        lambda: (reader.max_leakage, reader.max_epsilon, reader.units),
    ]
    before = [call() for call in calls]
    with writer._store.transaction(write=True):
        assert [call() for call in calls] == before
        with pytest.raises(TimeoutError):
            reader.record("a", [1.0], mu=0.1)


def test_opening_memory_would_forget():
    with pytest.raises(ValueError, match="`:memory:` ledger cannot be opened: it would be a new"):
        LeakageLedger.open(":memory:")


def test_a_vanished_file_is_not_replaced(path):
    ledger = LeakageLedger(path)
    ledger.record("a", [1.0])
    copy = pickle.loads(pickle.dumps(ledger))
    path.unlink()
    for call in _use_in_all_ways(ledger) + _use_in_all_ways(copy):
        with pytest.raises(FileNotFoundError, match="has vanished, and with it what was released"):
            call()
    assert not list(path.parent.iterdir())


def test_a_file_made_anew_is_not_taken_for_the_one_that_was_lost(path):
    ledger = LeakageLedger(path, max_leakage=2.0, units=1.0)
    ledger.record("a", [1.9])
    copy = pickle.loads(pickle.dumps(ledger))
    path.unlink()
    LeakageLedger(path)
    for call in _use_in_all_ways(ledger) + _use_in_all_ways(copy):
        with pytest.raises(FileNotFoundError, match="was replaced by another ledger"):
            call()
    assert LeakageLedger.open(path).datasets() == []


def test_an_earlier_copy_is_not_taken_for_the_ledger(path):
    ledger = LeakageLedger(path, max_leakage=2.0, units=1.0)
    shutil.copy(path, path.with_name("backup"))
    ledger.record("a", [1.9])
    path.with_name("backup").replace(path)
    for call in _use_in_all_ways(ledger):
        with pytest.raises(FileNotFoundError, match="was replaced by an earlier copy of itself"):
            call()


def test_a_file_removed_while_it_is_written_is_noticed(path, monkeypatch):
    ledger = LeakageLedger(path)
    present = ledger._present

    def remove(*arguments):
        path.unlink()
        return present(*arguments)

    monkeypatch.setattr(ledger, "_present", remove)
    with pytest.raises((FileNotFoundError, PermissionError)):
        ledger.record("a", [1.0])
    assert not path.exists()


def test_a_copy_of_the_one_file_is_the_whole_ledger(path):
    ledger = LeakageLedger(path, max_leakage=6.0, units=1.0)
    for _ in range(3):
        ledger.record("a", [3.0])
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    shutil.copy(path, path.with_name("copy"))
    total = LeakageLedger.open(path.with_name("copy")).total("a")
    assert (total.n_releases, total.max_leakage) == (3, 6.0)


@pytest.mark.parametrize("make", [LeakageLedger, LeakageLedger.open])
def test_an_emptied_file_is_no_new_ledger(path, make):
    LeakageLedger(path, max_leakage=1.0, units=1.0).record("a", [0.9])
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"is not a leakage ledger: the file is empty\..*backup"):
        make(path)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("make", [LeakageLedger, LeakageLedger.open])
def test_files_of_others_are_refused_and_kept(path, make):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.commit()
    connection.close()
    text = path.with_name("text")
    text.write_text("no database at all, but long enough to have a header " * 20)
    for other in (path, text, path.parent):
        with pytest.raises(ValueError, match=r"is not a leakage ledger\. Give `path` a new file"):
            make(other)
    assert text.read_text().startswith("no database")


def test_a_ledger_of_another_version_is_refused(path):
    LeakageLedger(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match="has schema version 99; this version of skleak reads 4"):
        LeakageLedger.open(path)


def _without_guards(path):
    """A connection that may write what the ledger itself would never write."""
    connection = sqlite3.connect(path, isolation_level=None)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    return connection


_NAN, _NEGATIVE = (np.array([value, 0.0]).tobytes() for value in (np.nan, -9.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change, value",
    [
        ("total_squared_loss = ?", np.zeros(2).tobytes()),
        ("total_squared_loss = ?", _NAN),
        ("total_squared_loss = ?", _NEGATIVE),
        ("total_squared_loss = ?", b""),
        ("total_squared_loss = ?", b"short"),
        ("total_squared_loss = ?", "text"),
        ("total_squared_loss = ?, total_records = 0", b""),
        ("total_unaligned = ?", -9.0),
        ("total_unaligned = ?", b"\x00"),
        ("total_mu = ?", 0.0),
        ("total_mu = ?", -1.0),
        ("total_mu = ?", "nan"),
        ("total_mu_delta = ?", 0.0),
        ("total_mu_delta = ?", -1e-9),
        ("mu_delta = 0.0, total_mu_delta = ?", 0.0),
        ("number = ?", 7),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damaged_totals_refuse(path, change, value):
    ledger = LeakageLedger(path, max_leakage=4.0, units=1.0, max_epsilon=9.0)
    ledger.record("a", [3.0, 1.0], mu=0.5, mu_delta=1e-8)
    connection = _without_guards(path)
    connection.execute(f"UPDATE release SET {change}", [value])
    connection.close()
    for call in (
        lambda: ledger.record("a", [3.5, 1.0], mu=0.1),
        lambda: ledger.record("a", [0.1, 0.1], mu=0.1),
        lambda: ledger.total("a"),
    ):
        with pytest.raises(ValueError, match="damaged"):
            call()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM release").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("column", ["mu", "total_mu", "total_unaligned"])
@pytest.mark.parametrize("amount", [-1.0, "much"])
def test_amounts_that_are_none_refuse_although_their_checksum_is_right(
    path, column, amount, monkeypatch
):
    ledger = LeakageLedger(path)
    ledger.record("a", [3.0, 1.0], mu=0.5)
    monkeypatch.setattr("skleak.accounting.ledger._rows._check_digest", lambda *_: None)
    connection = _without_guards(path)
    connection.execute(f"UPDATE release SET {column} = ?", [amount])
    connection.close()
    for call in (lambda: ledger.record("a", [0.1, 0.1]), lambda: ledger.total("a")):
        with pytest.raises(ValueError, match=r"damaged: the total of release 1 of data set 'a'"):
            call()


@pytest.mark.parametrize("total", [_NAN, _NEGATIVE, b"short"])
def test_totals_that_are_no_numbers_refuse_although_their_checksum_is_right(
    path, total, monkeypatch
):
    ledger = LeakageLedger(path)
    ledger.record("a", [3.0, 1.0])
    monkeypatch.setattr("skleak.accounting.ledger._rows._check_digest", lambda *_: None)
    connection = _without_guards(path)
    connection.execute("UPDATE release SET total_squared_loss = ?", [total])
    connection.close()
    for call in (lambda: ledger.record("a", [0.1, 0.1]), lambda: ledger.total("a")):
        with pytest.raises(ValueError, match=r"damaged: the total of release 1 of data set 'a'"):
            call()


def test_the_file_says_what_it_is(path):
    """By the application id of SQLite, at byte 68: other versions know a ledger by it."""
    LeakageLedger(path)
    assert path.read_bytes()[68:72] == b"SKLK"


def test_a_damaged_ceiling_is_told_by_when_it_was_set(path):
    LeakageLedger(path, max_leakage=4.0, units=1.0)
    connection = _without_guards(path)
    (when,) = connection.execute("SELECT time FROM ceiling").fetchone()
    connection.execute("UPDATE ceiling SET max_leakage = 100")
    connection.close()
    with pytest.raises(ValueError, match=re.escape(f"damaged: the ceiling of {when}")):
        LeakageLedger.open(path).total("a")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ceiling SET max_leakage = 100",
        "UPDATE ceiling SET max_leakage = 'nan'",
        "DELETE FROM ceiling",
        "DROP TABLE ceiling",
    ],
)
def test_damaged_ceilings_refuse(path, statement):
    ledger = LeakageLedger(path, max_leakage=4.0, units=1.0)
    connection = _without_guards(path)
    connection.execute(statement)
    connection.close()
    for use in (ledger, None):
        with pytest.raises((ValueError, FileNotFoundError), match=r"damaged|an earlier copy"):
            (use or LeakageLedger.open(path)).record("a", [3.0])


def _attack(path, content):
    """What a damaged file says and lets pass; every error is one of the ledger."""
    for file in path.parent.iterdir():
        file.unlink()
    path.write_bytes(content)
    with suppress(ValueError, OSError):
        total = LeakageLedger.open(path, timeout=0.1).total("clinic")
        truth = [np.hypot(3.0, 3.9), np.hypot(1.0, 0.5)]
        # Without the units that they were charged in, releases count as infinite.
        if not np.isposinf(total.fisher_information_loss).all():
            np.testing.assert_allclose(total.fisher_information_loss, truth)
        assert (total.mu, total.max_leakage) == (np.inf, 5.0)
    with pytest.raises((ValueError, OSError)):
        LeakageLedger.open(path, timeout=0.1).record("clinic", [2.0, 2.0])


def _damaged(content, rng, kind):
    """A bit, a byte, a stretch or the end of a file is lost."""
    damaged = bytearray(content)
    start = rng.choice(np.flatnonzero(np.frombuffer(content, "u1")))
    if kind == "bit":
        damaged[start] ^= 1 << int(rng.integers(8))
    elif kind == "byte":
        damaged[start] = rng.integers(256)
    elif kind == "stretch":
        end = min(start + int(rng.integers(1, 600)), len(damaged))
        damaged[start:end] = bytes(end - start)
    else:
        del damaged[start:]
    return bytes(damaged)


@pytest.mark.parametrize("kind", ["bit", "byte", "stretch", "end"])
@pytest.mark.parametrize("n_trials", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_file_damaged_anywhere_lets_nothing_pass(path, rng, kind, n_trials):
    LeakageLedger(path)
    ledger = LeakageLedger(path, max_leakage=5.0, units=1.0)
    ledger.record("clinic", [3.0, 1.0])
    ledger.record("clinic", [3.9, 0.5], mu=0.1)
    ledger.record("other", [0.5, 0.5, 0.5])
    content = path.read_bytes()
    for _ in range(n_trials):
        _attack(path, _damaged(content, rng, kind))


def test_zeroed_losses_are_noticed(path):
    LeakageLedger(path, max_leakage=5.0, units=1.0).record("clinic", [3.0, 1.0])
    content = path.read_bytes().replace(np.float64(9.0).tobytes(), bytes(8))
    path.write_bytes(content)
    with pytest.raises(ValueError, match="its checksum differs"):
        LeakageLedger.open(path).record("clinic", [4.5, 0.0])
    with pytest.raises(ValueError, match="its checksum differs"):
        LeakageLedger.open(path).history()


@pytest.mark.parametrize(
    "code, error, message",
    [
        ("SQLITE_FULL", OSError, "The disk of the ledger .* is full"),
        ("SQLITE_IOERR_WRITE", OSError, "could not be written .*Check the disk"),
        ("SQLITE_CORRUPT", ValueError, "is damaged .*Restore the file from a backup"),
        ("SQLITE_READONLY_DBMOVED", PermissionError, "cannot be written"),
        ("SQLITE_LOCKED", TimeoutError, "stayed locked by another process"),
        ("SQLITE_CONSTRAINT_TRIGGER", ValueError, "is damaged"),
    ],
)
def test_errors_of_sqlite_are_translated(path, monkeypatch, code, error, message):
    ledger = LeakageLedger(path)

    def fail(*_):
        raw = sqlite3.OperationalError("raw")
        raw.sqlite_errorcode = getattr(sqlite3, code)
        raise raw

    monkeypatch.setattr("skleak.accounting.ledger._ledger.insert_release", fail)
    with pytest.raises(error, match=message):
        ledger.record("a", [1.0])
    monkeypatch.undo()
    assert ledger.datasets() == []


def test_a_full_disk_loses_nothing(path):
    """SQLite's own limit on pages stands for the end of the disk."""
    ledger = LeakageLedger(path)
    ledger.record("a", [1.0])
    connect = ledger._store._connect

    def small(address):
        connection = connect(address)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    ledger._store._connect = small
    with pytest.raises(OSError, match=r"is full\. Nothing was recorded"):
        ledger.record("a", np.ones(10_000), aligned=False)
    del ledger._store._connect
    assert ledger.record("a", [1.0]).n_releases == 2


@pytest.fixture
def guarded():
    """A folder that another user can be led into, with a ledger that this user owns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "leakage.sqlite"
        ledger = LeakageLedger(path, max_leakage=5.0, units=1.0)
        ledger.record("a", [3.0, 1.0])
        ledger.record("a", [1.0, 1.0])
        yield path
        os.chmod(folder, 0o700)


def _as_plain_user(script, path, *, file_mode=0o400, folder_mode=0o500):
    """Run a script as the file's owner, who is not root, since permissions do not bind root."""
    plain = 65534 if os.getuid() == 0 else os.getuid()
    for name, mode in [(file, file_mode) for file in path.parent.iterdir()] + [
        (path.parent, folder_mode)
    ]:
        os.chown(name, plain, -1)
        os.chmod(name, mode)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom skleak.accounting import LeakageLedger\n"
        "path = Path(sys.argv[1])\n"
        f"if os.getuid() == 0: os.setgroups([]); os.setgid({plain}); os.setuid({plain})\n"
        "try: path.parent.joinpath('probe').touch()\n"
        "except OSError: print('protected')\n" + script
    )
    return subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=120, check=False
    )


READ = """
for ledger in (LeakageLedger.open(path), LeakageLedger(path, max_leakage=5.0, units=1.0)):
    total = ledger.total("a")
    print(total.n_releases, total.max_leakage, len(ledger.history()), ledger.datasets())
strict = lambda: LeakageLedger(path, max_leakage=1.0, units=1.0)
for call in (lambda: ledger.record("a", [0.1, 0.1]), strict):
    try:
        call()
    except PermissionError as error:
        print(error)
print(ledger.total("a").n_releases, sorted(os.listdir(path.parent)))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
@pytest.mark.parametrize("file_mode", [0o400, 0o600])
def test_reading_works_in_a_read_only_folder_and_writing_is_refused(guarded, file_mode):
    done = _as_plain_user(READ, guarded, file_mode=file_mode)
    assert done.returncode == 0, done.stderr
    seen, *lines = done.stdout.splitlines()
    if seen != "protected":
        pytest.skip("nothing can be protected here")
    assert lines[:2] == ["2 5.0 2 ['a']"] * 2
    for line in lines[2:4]:
        assert "cannot be written: its file or folder is read-only" in line
        assert "Nothing was recorded" in line
    assert lines[4] == "2 ['leakage.sqlite']"


# Ends inside of a transaction, half of which is in the file already.
HALF_AN_ENTRY = """
import os, sys
import numpy as np
from skleak.accounting.ledger._rows import Totals, insert_release
from skleak.accounting.ledger._store import LedgerStore
many = np.ones(100_000)
with LedgerStore(sys.argv[1], 60.0).transaction(write=True) as connection:
    connection.execute("PRAGMA cache_size = 1")
    insert_release(connection, "a", Totals(3, many, 0.0, 1.0), many, 1.0, True, "null")
    os._exit(0)
"""


def _leave_half_an_entry(path):
    subprocess.run([sys.executable, "-c", HALF_AN_ENTRY, path], check=True, timeout=120)
    assert path.with_name(f"{path.name}-journal").stat().st_size


@pytest.mark.slow
def test_half_an_entry_is_undone(guarded):
    size = guarded.stat().st_size
    _leave_half_an_entry(guarded)
    assert guarded.stat().st_size > size
    ledger = LeakageLedger.open(guarded)
    np.testing.assert_allclose(ledger.total("a").fisher_information_loss, np.sqrt([10.0, 2.0]))
    assert [file.name for file in guarded.parent.iterdir()] == [guarded.name]
    with pytest.raises(LeakageBudgetError):
        ledger.record("a", [4.0, 4.0])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_half_an_entry_in_a_read_only_folder_is_reported_and_not_read(guarded):
    _leave_half_an_entry(guarded)
    done = _as_plain_user("print(LeakageLedger.open(path).total('a'))", guarded)
    if not done.stdout.startswith("protected"):
        pytest.skip("nothing can be protected here")
    assert "LeakageTotal" not in done.stdout
    assert "-journal` is needed to undo its half of an entry" in done.stderr
