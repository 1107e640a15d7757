import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from skleak.cli._columns import Decisions, row_counters, text_of, typed, usable


def one(values, nominal=(), name="c"):
    decisions = Decisions()
    return typed(pd.DataFrame({name: values}), nominal, decisions)[name], decisions.lines()


@pytest.mark.parametrize(
    "values, expected",
    [
        ([1, 2, 3], [1, 2, 3]),
        (pd.array([1, None, 3], dtype="Int64"), [1.0, np.nan, 3.0]),
        (pd.array([0.5, None], dtype="Float64"), [0.5, np.nan]),
        (pd.Series([Decimal("1.5"), None], dtype=object), [1.5, np.nan]),
        (np.array([1, 2**63], dtype=np.uint64), [1.0, 2.0**63]),
        (pd.to_timedelta([12, 36], "h"), [0.5, 1.5]),
    ],
)
def test_numbers(values, expected):
    column, _ = one(values)
    assert column.dtype in (np.int64, np.float64)
    np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize(
    "values, expected",
    [
        ([True, False], ["True", "False"]),
        (pd.array([True, None], dtype="boolean"), ["True", None]),
        (pd.Series([True, None], dtype=object), ["True", None]),
        (pd.Categorical([2, 1, None]), ["2", "1", None]),
        (["a ", " ", None], ["a", None, None]),
        (pd.Series([[1], {2: 3}], dtype=object), ["[1]", "{2: 3}"]),
        (["12", "x"], ["12", "x"]),
        (["2020-13-45", "2020-99-01"], ["2020-13-45", "2020-99-01"]),
    ],
)
def test_names(values, expected):
    column, _ = one(values)
    assert column.dtype == object
    assert [None if pd.isna(value) else value for value in column] == expected


@pytest.mark.parametrize(
    "values",
    [
        ["2020-01-01", "2020-01-03", None],
        ["2020-01-01 00:00", "2020-01-03T00:00:00", None],
        [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3), None],
        pd.to_datetime(["2020-01-01", "2020-01-03", None]),
        pd.to_datetime(["2020-01-01", "2020-01-03", None], utc=True),
    ],
)
def test_dates_become_days(values):
    column, lines = one(values)
    np.testing.assert_array_equal(column, [0.0, 2.0, np.nan])
    assert lines == ("c: dates, turned into days since 2020-01-01",)


def test_a_column_has_one_line_whatever_was_decided_on_it():
    decisions = Decisions()
    frame = pd.DataFrame(
        {
            "born": ["2020-01-01", "2020-01-03", None, "2021-05-06"],
            "seen": ["2020-01-01", "2020-01-03", None, "2021-05-06"],
            "id": ["a", "b", "c", "d"],
            "gap": ["a", "b", "c", None],
        }
    )
    usable(typed(frame, (), decisions), None, set(), decisions)
    days, named, unnamed = decisions.lines()
    assert days.startswith("born, seen: dates")
    assert "1 missing value" in days
    assert "codes" not in days
    assert named.startswith("id: dropped, as it differs in every record")
    assert named.endswith("pass it to --id")
    # A column with gaps cannot name every record.
    assert unnamed == "gap: dropped, as it differs in every record and names it"


def test_names_that_are_cut_short_alike_stay_apart():
    decisions = Decisions()
    for end in ("first", "second"):
        decisions.add("x" * 50 + end, end)
    assert [line.rpartition(": ")[2] for line in decisions.lines()] == ["first", "second"]


def test_nearly_all_dates_are_enough_and_said():
    dates = [f"2020-01-{day:02d}" for day in range(1, 31)]
    column, lines = one([*dates, "unknown"])
    assert column.isna().to_numpy().nonzero()[0].tolist() == [30]
    assert "(row 31)" in lines[0]
    assert "unknown" not in lines[0]
    column, _ = one([*dates[:5], "unknown"])
    assert column.dtype == object


@pytest.mark.parametrize(
    "values, days, both",
    [
        (["31.01.1950", "01.02.1950"], [0, 1], False),
        (["1.2.1950", "2.2.1950"], [0, 1], True),
        (["01/31/1950", "02/01/1950"], [0, 1], False),
        (["31/01/1950", "01/02/1950"], [0, 1], False),
        (["31-01-1950", "01-02-1950"], [0, 1], False),
        (["1950/01/31", "1950/02/01"], [0, 1], False),
        (["31.01.1950 10:30", "01.02.1950 09:00"], [0, 1], False),
        (["1950-01-31T12:00", "1950-02-01 00:00"], [0, 0.5], False),
        # Both orders fit: as it is usual with such a sign, and said.
        (["01/02/1950", "02/02/1950"], [0, 31], True),
        (["01.02.1950", "01.03.1950"], [0, 28], True),
    ],
)
def test_dates_as_people_write_them(values, days, both):
    column, lines = one([*values, None])
    np.testing.assert_array_equal(column, [*days, np.nan])
    assert len(lines) == 1
    assert ("both orders" in lines[0]) == both


@pytest.mark.parametrize("values", [["31.02.1950", "30.02.1950"], ["3/5/24", "4/5/24"]])
def test_no_dates(values):
    assert one(values)[0].dtype == object


def test_infinite_numbers_are_missing_and_said():
    column, lines = one([1.0, np.inf, -np.inf])
    assert column.isna().sum() == 2
    assert lines == ("c: 2 infinite values read as missing",)


def test_codes_stay_names():
    column, lines = one([11.0, 12.0, np.nan], nominal={"c"})
    assert column.tolist() == ["11", "12", None]
    assert lines == ("c: taken as codes, as --nominal says",)


def test_names_cannot_steer_a_terminal():
    assert "\x1b" not in text_of(pd.Series(["a\x1b[31m"]))[0]
    _, lines = one(["x", "y"], name="evil\x1b[2J")
    decisions = Decisions()
    decisions.add("evil\x1b[2J", "numbers")
    assert "\x1b" not in decisions.lines()[0]
    assert lines == ()


def test_what_is_dropped_and_what_is_kept():
    n = 80
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "row": np.arange(n),
            "id": [f"P{k}" for k in range(n)],
            "almost": [f"P{max(k, 5)}" for k in range(n)],
            "one": "x",
            "gap": ["x", None] * (n // 2),
            "empty": [None] * n,
            "flat": 1.5,
            "nan": np.nan,
            "zip": rng.permutation([f"Z{k}" for k in range(40)] * 2),
            "number": rng.permutation(n),
            "few": rng.integers(0, 3, n),
        }
    )
    decisions = Decisions()
    table = typed(frame, (), decisions)
    numeric, nominal = usable(table, None, row_counters(table), decisions)
    assert numeric == ["number", "few"]
    assert nominal == ["gap", "zip"]
    told = dict(line.split(": ", 1) for line in decisions.lines())
    dropped = {name for name, fate in told.items() if fate.startswith("dropped")}
    assert dropped == {"row", "id", "almost", "one", "flat", "empty, nan"}
    assert "--person" in told["almost"]
    assert "--id" in told["id"]
    assert "--drop" in told["number"]
    assert "--nominal" in told["few"]
    assert "40 missing" in told["gap"]
    assert "merged" in told["zip"]
    # What anybody expects is told only where all is asked for.
    few = dict(line.split(": ", 1) for line in decisions.lines(full=False))
    assert "numbers, standardized" in told["number"]
    assert "numbers, standardized" not in few["number"]


@pytest.mark.parametrize("name", ["id", "Patient ID", "patient_id", "patientID", "person", "User"])
def test_an_identifier_that_repeats_is_noticed(name):
    decisions = Decisions()
    frame = pd.DataFrame({name: np.arange(60) // 3, "bid": np.arange(60) // 3})
    usable(frame, None, set(), decisions)
    told = dict(line.split(": ", 1) for line in decisions.lines(full=False))
    assert "--person" in told[name]
    assert "bid" not in told


@pytest.mark.parametrize("name", ["row", "id", "one"])
def test_the_sensitive_column_is_never_dropped(name):
    frame = pd.DataFrame({"row": range(5), "id": list("abcde"), "one": ["x"] * 5})
    table = typed(frame, (), Decisions())
    numeric, nominal = usable(table, name, row_counters(table), Decisions())
    assert name in numeric + nominal


@pytest.mark.parametrize("form", ["{} %", "$ {}.50", "3/{}/24"])
def test_numbers_and_dates_that_are_not_read_are_told(form):
    names = [f"P{k:03d}" for k in range(80)]
    frame = pd.DataFrame({"odd": [form.format(k) for k in range(80)], "name": names})
    decisions = Decisions()
    usable(typed(frame, (), decisions), None, (), decisions)
    odd, name = decisions.lines()
    assert "write them as 1234.5 and 2024-03-31" in odd
    assert "write them" not in name
