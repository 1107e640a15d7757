"""Units of a ledger: a ceiling on leakage needs them, and they never change."""

import sqlite3

import numpy as np
import pytest

from skleak.accounting import LeakageLedger
from skleak.accounting.ledger._rows import _CEILING, _digest
from skleak.exceptions import LeakageBudgetError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "leakage.sqlite"


def _as_before_units(path, max_leakage=None):
    """Make the file one of the version that knew no units, with a ceiling if there is one."""
    connection = sqlite3.connect(path, isolation_level=None)
    for trigger in ("no_update", "no_delete", "no_replace"):
        connection.execute(f"DROP TRIGGER unit_{trigger}")
    connection.execute("DROP TABLE unit")
    connection.execute("PRAGMA user_version = 2")
    if max_leakage is not None:
        values = ("2026-01-01T00:00:00+00:00", max_leakage, np.inf, 1e-6, np.inf)
        connection.execute(
            f"INSERT INTO ceiling ({_CEILING}) VALUES (?, ?, ?, ?, ?, ?)",
            (*values, _digest(values)),
        )
    connection.close()


@pytest.mark.parametrize("name", ["file", ":memory:"])
def test_a_ceiling_on_leakage_without_units_is_refused_and_makes_no_file(name, path):
    where = path if name == "file" else name
    with pytest.raises(ValueError, match=r"a ceiling on leakage and no units.*units=") as refusal:
        LeakageLedger(where, max_leakage=3.0)
    assert "(target)" in str(refusal.value)
    assert not path.exists()
    LeakageLedger(where, max_epsilon=3.0)


def test_units_are_kept_and_no_width_changes(path):
    LeakageLedger(path, max_leakage=3.0, units={"age": 120, "(target)": 10.0})
    kept = {"age": 120.0, "(target)": 10.0}
    for ledger in (
        LeakageLedger.open(path),
        LeakageLedger(path),
        LeakageLedger(path, max_leakage=2.0),
        LeakageLedger(path, units={"age": 120.0}),
    ):
        assert ledger.units == kept
    for units in ({"age": 1200.0}, {"age": 12.0, "bmi": 1.0}, 120.0 * 2, {"(target)": 1.0}):
        with pytest.raises(ValueError, match="cannot change") as refusal:
            LeakageLedger(path, units={**units} if isinstance(units, dict) else {"age": units})
        assert "make a new ledger" in str(refusal.value)
    assert LeakageLedger.open(path).units == kept
    LeakageLedger(path, units={"bmi": 60.0, "age": 120.0})
    assert LeakageLedger.open(path).units == kept | {"bmi": 60.0}
    LeakageLedger(path, units="data_norm")
    with pytest.raises(ValueError, match=r"'data_norm'; got 5\.0"):
        LeakageLedger(path, units={"(columns)": 5.0})


@pytest.mark.parametrize(
    "units, kind, message",
    [
        ({}, ValueError, "got none"),
        ("norm", ValueError, "got 'norm'"),
        ({"age": "data_norm"}, ValueError, "got 'data_norm' for 'age'"),
        ({"age": 0.0}, ValueError, r"`units\['age'\]` must be above 0 and finite"),
        ({"age": np.inf}, ValueError, r"`units\['age'\]` must be above 0 and finite"),
        ({"age": np.nan}, ValueError, r"`units\['age'\]`"),
        ({3: 1.0}, TypeError, "got a name of type int"),
        (-1.0, ValueError, r"must be above 0 and finite"),
    ],
)
def test_units_that_are_none(units, kind, message, path):
    with pytest.raises(kind, match=message):
        LeakageLedger(path, units=units)
    assert not path.exists()


def test_units_cannot_be_taken_out_of_the_file(path):
    LeakageLedger(path, max_leakage=3.0, units=1.0)
    connection = sqlite3.connect(path)
    for statement in (
        "DELETE FROM unit",
        "UPDATE unit SET widths = '{}'",
        "INSERT OR REPLACE INTO unit SELECT * FROM unit",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.execute("DROP TRIGGER unit_no_update")
    connection.execute("UPDATE unit SET widths = replace(widths, '1.0', '9.0')")
    connection.commit()
    connection.close()
    with pytest.raises(ValueError, match="damaged: the units of"):
        LeakageLedger.open(path)


def test_an_earlier_file_with_a_ceiling_on_leakage_is_refused_with_the_remedy(path):
    """Earlier releases are of unknown loss: the ceiling does not take them for small ones."""
    LeakageLedger(path).record("old", [0.5, 0.1], mu=0.2)
    _as_before_units(path, max_leakage=3.0)
    for call in (
        lambda: LeakageLedger.open(path),
        lambda: LeakageLedger(path),
        lambda: LeakageLedger(path, max_leakage=1.0),
    ):
        with pytest.raises(ValueError, match=r"Open it once as LeakageLedger\(path, units=...\)"):
            call()
    ledger = LeakageLedger(path, units={"(columns)": 2.0, "(target)": 1.0})
    assert ledger.max_leakage == 3.0
    total = LeakageLedger.open(path).total("old")
    assert np.isinf(total.fisher_information_loss).all()
    assert total.mu == pytest.approx(0.2)
    assert ledger.history("old")["max_fisher_information_loss"].tolist() == [0.5]
    with pytest.raises(LeakageBudgetError, match="a release before the ledger had units"):
        ledger.record("old", [0.0, 0.0])
    assert ledger.record("new", [1.0]).fisher_information_loss.tolist() == [1.0]


def test_an_earlier_file_without_a_ceiling_on_leakage_is_read_and_written_as_before(path):
    LeakageLedger(path, max_epsilon=3.0).record("clinic", [0.5, 0.1], mu=0.2)
    _as_before_units(path)
    ledger = LeakageLedger.open(path)
    assert ledger.units is None
    assert ledger.widths(["age"], [1e9, 1e9]) is None
    total = ledger.record("clinic", [0.5, 0.1], mu=0.2)
    np.testing.assert_allclose(total.fisher_information_loss, np.sqrt(2.0) * np.array([0.5, 0.1]))
    with pytest.raises(ValueError, match="no units"):
        LeakageLedger(path, max_leakage=5.0)
    # What came before is of unknown loss in any units.
    for ceiling in (None, 5.0):
        with pytest.raises(ValueError, match=r"charged without units.*in a new ledger"):
            LeakageLedger(path, max_leakage=ceiling, units=1.0)
    assert LeakageLedger.open(path).max_leakage is None
    assert ledger.record("clinic", [0.5, 0.1], mu=0.2).n_releases == 3


def test_losses_in_units_that_have_changed_meanwhile_are_refused(path):
    ledger = LeakageLedger(path)
    measured = ledger.units or {}
    LeakageLedger(path, max_leakage=3.0, units={"age": 100.0, "(target)": 1.0})
    with pytest.raises(ValueError, match="units of the ledger have changed"):
        ledger.record("clinic", [1e-3], units=measured)
    assert ledger.datasets() == []
    ledger.record("clinic", [1.0], units=ledger.units)


def test_widths_hold_the_values_of_a_fit(path):
    ledger = LeakageLedger(path, units={"age": 120.0, "(columns)": "data_norm", "(target)": 10.0})
    columns = ["age", "bmi"]
    found = ledger.widths(columns, [120.0, 4.0, 10.0 * (1.0 + 1e-12)], data_norm=2.0)
    assert found.tolist() == [120.0, 4.0, 10.0]
    assert ledger.widths(columns, [1.0, 1.0, 1.0], data_norm=2.0, classifies=True)[-1] == 1.0
    with pytest.raises(ValueError, match=r"1 of 3 columns and target span more.*'age'") as refusal:
        ledger.widths(columns, [120.5, 4.0, 10.0], data_norm=2.0)
    assert "120.5" not in str(refusal.value)
    with pytest.raises(ValueError, match="from `data_norm`, and the model has none"):
        ledger.widths(columns, [1.0, 1.0, 1.0])
