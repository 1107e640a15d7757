"""The ledger in one process: totals, ceilings, immutability, pickles and messages."""

import copy
import os
import pickle
import sqlite3
import stat
import threading

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import skleak
from skleak.accounting import LeakageLedger, gaussian_epsilon
from skleak.exceptions import LeakageBudgetError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leakage.sqlite"


@pytest.fixture(params=["file", "memory"])
def ledger(request, path):
    return LeakageLedger(":memory:" if request.param == "memory" else path)


def test_totals_compose_per_record_and_per_data_set(ledger, rng):
    losses, mus = rng.uniform(0, 2, (7, 20)), rng.uniform(0.1, 0.4, 7)
    for loss, mu in zip(losses, mus, strict=True):
        ledger.record("clinic", loss, mu=mu)
    ledger.record("other", [1.0, 2.0, 3.0], mu=1.0)
    total = ledger.total("clinic")
    expected = np.hypot.reduce(losses)
    np.testing.assert_allclose(total.fisher_information_loss, expected, rtol=1e-14)
    assert total.mu == pytest.approx(np.hypot.reduce(mus), rel=1e-14)
    assert total.epsilon == gaussian_epsilon(total.mu, 1e-6)
    assert (total.n_releases, total.delta, total.dataset) == (7, 1e-6, "clinic")
    assert (total.max_leakage, total.max_mu) == (np.inf, np.inf)
    assert ledger.datasets() == ["clinic", "other"]


def test_record_returns_the_totals_with_the_release(ledger):
    ledger.record("a", [3.0, 1.0], mu=0.3)
    total = ledger.record("a", [4.0, 0.0], mu=0.4)
    np.testing.assert_allclose(total.fisher_information_loss, [5.0, 1.0])
    assert (total.n_releases, total.mu) == (2, 0.5)


def test_a_release_without_guarantee_leaves_none(ledger):
    ledger.record("a", [1.0], mu=0.3)
    total = ledger.record("a", [1.0])
    assert (total.mu, total.epsilon) == (np.inf, np.inf)
    assert ledger.record("a", [1.0], mu=0.1).mu == np.inf
    assert ledger.total("a").mu == np.inf


def test_a_release_without_noise_leaks_without_bound(ledger):
    assert ledger.record("a", [np.inf, 1.0]).fisher_information_loss[0] == np.inf
    np.testing.assert_array_equal(ledger.total("a").fisher_information_loss, [np.inf, 1.0])


def test_unaligned_releases_charge_every_record_the_largest_loss(ledger):
    ledger.record("a", [0.1, 2.0], aligned=False)  # a fold of two of the three records
    assert ledger.total("a").fisher_information_loss == pytest.approx([2.0])
    ledger.record("a", [1.0, 0.0, 3.0])
    ledger.record("a", [0.5, 0.2, 0.1, 0.3], aligned=False)
    expected = np.sqrt(np.array([1.0, 0.0, 9.0]) + 4.0 + 0.25)
    np.testing.assert_allclose(ledger.total("a").fisher_information_loss, expected)
    assert ledger.history()["aligned"].tolist() == [False, True, False]


def test_folds_added_up_by_position_would_claim_too_little():
    # Folds (1, 2, 3) and (0, 1, 2) of four records; record 1 leaks 2 in both, sqrt(8) in all.
    folds = [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    ledger = LeakageLedger(":memory:")
    for loss in folds:
        ledger.record("by position", loss)
        ledger.record("unaligned", loss, aligned=False)
    assert ledger.total("by position").fisher_information_loss.max() == pytest.approx(2.0)
    assert ledger.total("unaligned").fisher_information_loss == pytest.approx([np.sqrt(8)])


def test_unaligned_totals_bound_every_record(rng):
    for _ in range(50):
        ledger, truth = LeakageLedger(":memory:"), np.zeros(12)
        for _ in range(4):
            loss, kept = rng.exponential(size=8), rng.choice(12, 8, replace=False)
            truth[kept] += loss**2
            ledger.record("a", loss, aligned=False)
        assert ledger.total("a").fisher_information_loss.max() >= np.sqrt(truth.max())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE release SET mu = 0",
        "DELETE FROM release",
        "UPDATE ceiling SET max_leakage = 100",
        "DELETE FROM ceiling",
        "INSERT OR REPLACE INTO release SELECT * FROM release",
        "INSERT OR REPLACE INTO ceiling SELECT id, time, 9, 9, delta, 9, digest FROM ceiling",
        "UPDATE identity SET token = 'another'",
        "DELETE FROM identity",
        # a row out of order, which would restart the totals
        "INSERT OR REPLACE INTO release SELECT NULL, dataset, 1, time, version, description, "
        "n_records, aligned, mu, total_mu, total_unaligned, total_records, squared_loss, "
        "total_squared_loss, digest, mu_delta, total_mu_delta FROM release",
        # half a row
        "INSERT INTO release SELECT NULL, dataset, 2, time, version, description, n_records, "
        "aligned, mu, total_mu, total_unaligned, total_records, x'00', total_squared_loss, "
        "digest, mu_delta, total_mu_delta FROM release",
        # a total that is not known
        "INSERT INTO release SELECT NULL, dataset, 2, time, version, description, n_records, "
        "aligned, mu, NULL, total_unaligned, total_records, squared_loss, total_squared_loss, "
        "digest, mu_delta, total_mu_delta FROM release",
    ],
)
def test_rows_can_be_neither_changed_nor_deleted(path, statement):
    ledger = LeakageLedger(path, max_leakage=3.0, units=1.0)
    ledger.record("a", [1.0, 2.0], mu=0.5)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|constraint failed"):
        connection.execute(statement)
    connection.close()
    np.testing.assert_array_equal(ledger.total("a").fisher_information_loss, [1.0, 2.0])
    assert ledger.total("a").max_leakage == 3.0


def test_history_tells_what_was_released(ledger):
    assert ledger.history().empty
    about = {"model": "ridge", "alpha": np.float64(0.1), "n": np.int64(40)}
    ledger.record("a", [3.0, 1.0], mu=0.3, description=about)
    ledger.record("b", [1.0])
    ledger.record("a", [4.0, 0.0], mu=0.4, description="again")
    frame = ledger.history()
    assert frame["dataset"].tolist() == ["a", "b", "a"]
    assert frame["number"].tolist() == [1, 1, 2]
    assert frame["n_records"].tolist() == [2, 1, 2]
    np.testing.assert_allclose(frame["max_fisher_information_loss"], [3.0, 1.0, 4.0])
    np.testing.assert_allclose(frame["composed_max_fisher_information_loss"], [3.0, 1.0, 5.0])
    np.testing.assert_allclose(frame["mu"], [0.3, np.inf, 0.4])
    np.testing.assert_allclose(frame["composed_mu"], [0.3, np.inf, 0.5])
    assert frame["description"].tolist() == [about, None, "again"]
    assert frame["time"].is_monotonic_increasing
    assert frame["time"].dt.tz is not None
    assert (frame["version"] == skleak.__version__).all()
    assert ledger.history("a")["number"].tolist() == [1, 2]


def test_the_file_holds_squares_of_losses_and_nothing_else_per_record(path):
    LeakageLedger(path).record("a", [0.5, 3.0], description={"alpha": 1})
    connection = sqlite3.connect(path)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(release)")]
    blobs = connection.execute("SELECT squared_loss, total_squared_loss FROM release").fetchone()
    connection.close()
    assert [name for name in columns if "loss" in name] == ["squared_loss", "total_squared_loss"]
    for blob in blobs:
        np.testing.assert_array_equal(np.frombuffer(blob, "<f8"), [0.25, 9.0])


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_only_the_owner_reads_the_file(path):
    LeakageLedger(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_reopening_continues(path):
    LeakageLedger(path).record("a", [3.0])
    assert LeakageLedger(str(path)).record("a", [4.0]).fisher_information_loss == [5.0]


def test_a_pickle_opens_the_same_file_from_another_folder(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ledger = LeakageLedger(path.name, max_leakage=4.0, units=1.0, delta=1e-4)
    other = pickle.loads(pickle.dumps(ledger))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    other.record("a", [3.0])
    assert not list((tmp_path / "elsewhere").iterdir())
    assert ledger.total("a").n_releases == 1
    assert (other.max_leakage, other.delta) == (4.0, 1e-4)
    with pytest.raises(LeakageBudgetError):
        other.record("a", [3.0])


def test_a_ledger_in_memory_refuses_to_be_pickled():
    with pytest.raises(pickle.PicklingError, match="`:memory:` ledger cannot be pickled: the copy"):
        pickle.dumps(LeakageLedger(":memory:"))


def test_clones_of_an_estimator_spend_from_one_account(ledger):
    class Model(BaseEstimator):
        def __init__(self, ledger=None):
            self.ledger = ledger

    model = Model(ledger)
    for _ in range(3):
        clone(model).ledger.record("a", [1.0])
    copy.copy(ledger).record("a", [1.0])
    copy.deepcopy({"ledger": ledger})["ledger"].record("a", [1.0])
    assert ledger.total("a").n_releases == 5


def test_a_forked_process_may_not_write_to_memory(monkeypatch):
    ledger = LeakageLedger(":memory:")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="lives in the process that made it"):
        ledger.record("a", [1.0])


def test_threads_share_a_ledger(ledger):
    def work():
        for _ in range(10):
            ledger.record("a", [1.0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.total("a").fisher_information_loss == pytest.approx([np.sqrt(40)], rel=1e-14)


def test_an_interrupted_transaction_leaves_nothing(ledger, monkeypatch):
    ledger.record("a", [1.0])

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "_present", interrupt)  # the last step, after the insert
    with pytest.raises(KeyboardInterrupt):
        ledger.record("a", [1.0])
    monkeypatch.undo()
    assert ledger.record("a", [1.0]).n_releases == 2


def test_a_locked_ledger_is_reported(path):
    LeakageLedger(path).record("a", [1.0])
    ledger = LeakageLedger(path, timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(
        TimeoutError, match=r"stayed locked by another process for more than 0.05 s"
    ):
        ledger.record("a", [1.0])
    # Who only reads waits for no writer.
    assert ledger.total("a").n_releases == len(ledger.history("a")) == 1
    assert ledger.datasets() == ["a"]
    other.execute("ROLLBACK")
    other.close()
    assert ledger.record("a", [1.0]).n_releases == 2


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"max_leakage": 0.0}, ValueError, "`max_leakage` must be above 0 and finite; got 0"),
        ({"max_leakage": np.inf}, ValueError, "`max_leakage` must be above 0 and finite; got inf"),
        ({"max_epsilon": -1.0}, ValueError, "`max_epsilon` must be at least 0 and finite; got -1"),
        ({"delta": 0.0}, ValueError, r"`delta` must lie in \(0, 1\); got 0"),
        ({"timeout": -1}, ValueError, "`timeout` must be at least 0 and finite; got -1"),
        ({"max_leakage": [1, 2]}, TypeError, "`max_leakage` must be a single number"),
        ({"path": 3}, TypeError, "`path` must be a string or a path; got int"),
        ({"path": "/nowhere/at/all.sqlite"}, ValueError, "`path` must be a file in an existing"),
    ],
)
def test_bad_constructor_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        LeakageLedger(**{"path": ":memory:", **arguments})


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (("a", [1.0, 2.0, 3.0]), ValueError, "Data set 'a' has 2 records; got 3. Use another name"),
        (("a", [1.0, -2.0]), ValueError, "`fisher_information_loss` must be at least 0; got -2"),
        (("a", [1.0, np.nan]), ValueError, "`fisher_information_loss` must be at least 0; got nan"),
        (("a", [[1.0, 2.0]]), ValueError, r"must have shape \(n_records,\); got \(1, 2\)"),
        (("a", []), ValueError, r"must have shape \(n_records,\); got \(0,\)"),
        (("a", ["x", "y"]), TypeError, "`fisher_information_loss` must be a number or"),
        (("a", [1.0, 2.0], -1.0), ValueError, "`mu` must be at least 0; got -1"),
        (("a", [1.0, 2.0], [1, 2]), TypeError, "`mu` must be a single number; got an array"),
        (("", [1.0]), ValueError, "`dataset` must not be empty"),
        ((" \t", [1.0]), ValueError, "`dataset` must not be empty"),
        (("\ud800", [1.0]), ValueError, "`dataset` must be Unicode text"),
        (("a", [1.0, np.nan]), ValueError, "NaN is a loss that is not known, as after a fit that"),
        (("a", [1.0, 2.0], np.nan), ValueError, "got nan. Pass None where no guarantee holds"),
        ((None, [1.0]), TypeError, "`dataset` must be a string; got NoneType"),
        (
            ("a", [1.0, 2.0], None, {"X": np.ones(2)}),
            TypeError,
            "`description` must be made of JSON values; got a ndarray",
        ),
    ],
)
def test_refused_releases_are_explained_and_change_nothing(ledger, arguments, error, message):
    ledger.record("a", [1.0, 2.0], mu=0.5)
    dataset, loss, *rest = arguments
    with pytest.raises(error, match=message):
        ledger.record(dataset, loss, **dict(zip(["mu", "description"], rest, strict=False)))
    assert len(ledger.history()) == 1


def test_an_unknown_data_set_is_named(ledger):
    with pytest.raises(ValueError, match="no release on a data set 'b'; it knows none"):
        ledger.total("b")
    ledger.record("a", [1.0])
    with pytest.raises(ValueError, match="no release on a data set 'b'; it knows 'a'"):
        ledger.total("b")


def test_its_text_tells_where(ledger):
    assert repr(ledger) == f"LeakageLedger({ledger.path!r}, delta=1e-06)"


@pytest.mark.parametrize("other", ["  a", "a\n", "\u2003a\u00a0"])
def test_spaces_around_a_name_do_not_open_a_new_account(ledger, other):
    ledger.record("a", [3.0])
    assert ledger.record(other, [4.0]).fisher_information_loss == [5.0]
    assert ledger.total(other).dataset == "a"
    assert len(ledger.history(other)) == 2
    assert ledger.datasets() == ["a"]


def test_forms_of_unicode_do_not_open_a_new_account(ledger):
    ledger.record("clinique d'\u00e9t\u00e9", [3.0])
    total = ledger.record("clinique d'e\u0301te\u0301", [4.0])
    assert total.fisher_information_loss == [5.0]
    assert ledger.datasets() == ["clinique d'\u00e9t\u00e9"]


def test_a_negative_zero_is_no_damage(path):
    ledger = LeakageLedger(path, max_leakage=1.0, units=1.0, max_epsilon=-0.0)
    ledger.record("a", [-0.0, 0.0], mu=-0.0)
    total = LeakageLedger.open(path).record("a", [-0.0, 0.0], mu=np.float64(-0.0))
    assert total.n_releases == 2


def test_names_and_numbers_of_numpy_are_no_damage(path):
    ledger = LeakageLedger(
        path, max_leakage=np.float32(9.0), units=1.0, max_epsilon=np.float64(3.0)
    )
    ledger.record(np.str_("a"), np.float32([1.0, 0.1]), mu=np.float64(0.1), aligned=np.True_)
    assert LeakageLedger.open(path).record("a", [1.0, 1.0], mu=0.1).n_releases == 2


def test_totals_are_told_apart_by_what_they_are_not_by_what_they_say():
    ledger = LeakageLedger(":memory:")
    totals = [ledger.record("a", [1.0, 2.0]), ledger.total("a")]
    assert totals[0] == totals[0]
    assert len({*totals}) == 2
