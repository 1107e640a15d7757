"""The ledger under several processes, some of which are killed."""

import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from joblib import Parallel, delayed

from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError

# Waits for a line, so that all start together; then records releases of loss 1, 2, 3, ... and
# tells each one that went in.
WRITER = """
import sys
from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError
path, count, step = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
ceiling = float(sys.argv[4]) if len(sys.argv) > 4 else None
ledger = LeakageLedger(path, max_leakage=ceiling, units=1.0)
print("ready", flush=True)
sys.stdin.readline()
for i in range(1, count + 1):
    eta = 1.0 + step * i
    try:
        ledger.record("a", [eta, 0.5 * eta], mu=eta, description=eta)
    except LeakageBudgetError:
        print("refused", flush=True)
    else:
        print(eta, flush=True)
"""
# Writes a row and stops before the commit.
HANGS = """
import sys, time
import numpy as np
from skleak.accounting.ledger._rows import Totals, insert_release
from skleak.accounting.ledger._store import LedgerStore
one = np.ones(2)
with LedgerStore(sys.argv[1], 60.0).transaction(write=True) as connection:
    insert_release(connection, "a", Totals(2, one, 0.0, 1.0), one, 1.0, True, "null")
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leakage.sqlite"


@pytest.fixture
def start():
    processes = []

    def launch(script, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield launch
    for process in processes:
        process.kill()
        process.communicate()


def _go(processes):
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def _check_exact(ledger):
    """The totals are those of the rows, which are numbered without a gap."""
    history, total = ledger.history("a"), ledger.total("a")
    losses = history["max_fisher_information_loss"].to_numpy()
    assert history["number"].tolist() == list(range(1, len(history) + 1))
    np.testing.assert_allclose(total.fisher_information_loss[0], np.linalg.norm(losses), rtol=1e-13)
    assert total.mu == pytest.approx(np.linalg.norm(history["mu"]), rel=1e-13)
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("n_writers", [3, 10])
def test_concurrent_writers_lose_nothing(path, start, n_writers):
    # The file does not exist yet: they also race to make it.
    writers = [start(WRITER, path, 25, 1.0) for _ in range(n_writers)]
    _go(writers)
    for writer in writers:
        out, _ = writer.communicate(timeout=300)
        assert writer.returncode == 0
        assert out.split() == [str(1.0 + i) for i in range(1, 26)]
    losses = _check_exact(LeakageLedger.open(path))
    np.testing.assert_allclose(np.sort(losses), np.repeat(np.arange(2.0, 27.0), n_writers))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.slow
@pytest.mark.parametrize("n_writers", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_race_never_passes_the_ceiling(path, start, n_writers):
    # One of them sets the ceiling that binds, as they race to make the file; 17 releases of loss
    # 1 are paid for.
    ceilings = [np.sqrt(17), 1e9, *[50.0] * (n_writers - 2)]
    writers = [start(WRITER, path, 8, 0.0, ceiling) for ceiling in ceilings]
    _go(writers)
    answers = [writer.communicate(timeout=300)[0].split() for writer in writers]
    assert sum(answer.count("1.0") for answer in answers) == 17
    assert sum(answer.count("refused") for answer in answers) == n_writers * 8 - 17
    assert len(_check_exact(LeakageLedger.open(path))) == 17


# Dies at the moment before or after the new file gets its name.
DIES = """
import os, signal, sys
from skleak.accounting import LeakageLedger
link = os.link
def die(*arguments):
    if sys.argv[2] == "after":
        link(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
os.link = die
LeakageLedger(sys.argv[1], max_leakage=2.0, units=1.0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_maker_that_is_killed_leaves_no_ledger_or_one_with_its_ceiling(path, start, moment):
    maker = start(DIES, path, moment)
    assert maker.wait(120) == -signal.SIGKILL
    if moment == "before":
        with pytest.raises(FileNotFoundError):
            LeakageLedger.open(path)
        LeakageLedger(path, max_leakage=2.0, units=1.0)
    with pytest.raises(LeakageBudgetError, match="must stay at most 2"):
        LeakageLedger.open(path).record("a", [3.0])


MAKES = """
import sys, time
from skleak.accounting import LeakageLedger
print("ready", flush=True)
sys.stdin.readline()
for i in range(10_000):
    LeakageLedger(f"{sys.argv[1]}{i}", max_leakage=2.0, units=1.0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_makers_killed_at_random_moments_leave_no_ledger_without_its_ceiling(path, start, rng):
    for _ in range(8):
        makers = [start(MAKES, path) for _ in range(2)]
        _go(makers)
        time.sleep(rng.uniform(0.0, 0.2))
        for maker in makers:
            maker.kill()
            maker.wait()
        ledgers = list(path.parent.glob(f"{path.name}*"))
        for file in ledgers:
            assert LeakageLedger.open(file).max_leakage == 2.0
            file.unlink()


@pytest.mark.slow
def test_a_process_killed_inside_its_transaction_leaves_no_row_and_no_lock(path, start):
    ledger = LeakageLedger(path)
    ledger.record("a", [2.0, 1.0], mu=2.0)
    hung = start(HANGS, path)
    assert hung.stdout.readline() == "ready\n"
    assert ledger.total("a").n_releases == 1  # readers see the state before
    waiting = threading.Thread(target=ledger.record, args=("a", [3.0, 1.0]), kwargs={"mu": 3.0})
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()  # it waits for the write lock
    hung.kill()
    hung.wait()
    waiting.join(30)
    assert not waiting.is_alive()
    np.testing.assert_array_equal(_check_exact(ledger), [2.0, 3.0])


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_writers_lose_no_acknowledged_row(path, start):
    writers = [start(WRITER, path, 10_000, step) for step in (1.0, 0.001, 0.0001)]
    _go(writers)
    acknowledged = []
    for writer, after in zip(writers, (20, 35, 50), strict=True):
        acknowledged += [float(writer.stdout.readline()) for _ in range(after)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [float(line) for line in writer.stdout]
    losses = _check_exact(LeakageLedger.open(path)).tolist()
    for loss in acknowledged:
        losses.remove(pytest.approx(loss, rel=1e-13))
    # A process may die between its commit and its word: one row each at most.
    assert len(losses) <= 3
    LeakageLedger(path).record("a", [1.0, 1.0])


@pytest.mark.slow
def test_parallel_workers_spend_from_one_account(path):
    ledger = LeakageLedger(path, max_leakage=np.sqrt(5), units=1.0)

    def attempt():
        try:
            return ledger.record("a", [1.0]).n_releases
        except LeakageBudgetError:
            return 0

    outcomes = Parallel(n_jobs=2)(delayed(attempt)() for _ in range(8))
    assert sorted(outcomes) == [0, 0, 0, 1, 2, 3, 4, 5]


@pytest.mark.slow
def test_many_kills_at_random_moments(path, start, rng):
    acknowledged = 0
    for _ in range(25):
        writers = [start(WRITER, path, 10_000, 0.0) for _ in range(2)]
        _go(writers)
        time.sleep(rng.uniform(0.0, 0.4))
        for writer in writers:
            writer.kill()
            acknowledged += writer.communicate()[0].count("1.0")
    assert acknowledged <= len(_check_exact(LeakageLedger.open(path))) <= acknowledged + 50
