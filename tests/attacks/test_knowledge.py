"""What is read off the raw data, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skleak.adversary.knowledge import as_table, find_secret, resolve_records, with_attribute


@pytest.mark.parametrize(
    "column",
    [
        ["b", "a", "b", "c"],
        [2, 1, 2, 3],
        [2.0, 1.0, 2.0, 3.0],
        pd.Categorical(["b", "a", "b", "c"], categories=["c", "a", "b", "unused"]),
        pd.array(["b", "a", "b", "c"], dtype="string"),
    ],
)
def test_values_are_those_that_occur_in_ascending_order(column):
    table = pd.DataFrame({"u": [1, 2, 3, 4], "s": column})
    secret = find_secret(table, "s")
    assert secret.index == 1
    assert not secret.numeric
    assert len(secret.values) == 3
    np.testing.assert_array_equal(secret.codes, [1, 0, 1, 2])


def test_numbers_that_hardly_repeat_are_a_quantity(rng):
    table = np.column_stack([rng.normal(size=50), rng.integers(0, 9, 50), np.arange(50) % 7 / 10])
    assert find_secret(table, 0).numeric
    assert not find_secret(table, 1).numeric
    assert not find_secret(table, 2).numeric
    assert find_secret(np.arange(200.0)[:, None], 0).numeric
    assert not find_secret(table[:, :1], 0, values=table[:, 0]).numeric


def test_whole_numbers_are_codes_only_where_they_are_few():
    for n_values, quantity in ((2, False), (10, False), (11, True), (50, True)):
        column = np.arange(2000) % n_values
        for told in (column, column.astype(float)):
            assert find_secret(told[:, None], 0).numeric is quantity
            assert not find_secret(told[:, None], 0, values=np.unique(told)).numeric
        assert not find_secret(column.astype(str)[:, None], 0).numeric


def test_given_values_may_hold_more_than_occur():
    secret = find_secret(np.array([["a"], ["b"]]), 0, values=["z", "b", "a"])
    assert secret.values.tolist() == ["a", "b", "z"]
    np.testing.assert_array_equal(secret.codes, [0, 1])


@pytest.mark.parametrize(
    "attribute, values, error, message",
    [
        ("gone", None, ValueError, "unknown column 'gone'"),
        (7, None, ValueError, "index 7"),
        (["one", "two"], None, TypeError, "name or the position of one column"),
        ("one", None, ValueError, "single value"),
        ("holes", None, ValueError, "1 missing values of 100"),
        ("text", None, ValueError, "too many values: expected at most 64 categories, got 100"),
        ("mixed", None, TypeError, "mixes types"),
        ("two", [1], ValueError, "at least 2 distinct values"),
        ("two", [1, 3], ValueError, "does not contain .* row"),
    ],
)
def test_errors(attribute, values, error, message):
    n = 100
    table = pd.DataFrame(
        {
            "one": ["a"] * n,
            "two": [1, 2] * (n // 2),
            "holes": [None] + ["a", "b", "c"] * (n // 3),
            "text": [f"t{i}" for i in range(n)],
            "mixed": ["a", 1] * (n // 2),
        }
    )
    with pytest.raises(error, match=message):
        find_secret(table, attribute, values)


def test_tables(rng):
    with pytest.raises(TypeError, match="got a sparse matrix"):
        as_table(sparse.csr_array(np.eye(3)))
    with pytest.raises(ValueError, match="two dimensions"):
        as_table([1, 2, 3])
    with pytest.raises(ValueError, match="at least 2 records"):
        as_table([[1, 2, 3]])
    polars = pytest.importorskip("polars")
    assert as_table(polars.DataFrame({"a": [1, 2]})).columns.tolist() == ["a"]


@pytest.mark.parametrize(
    "targets, expected",
    [
        (None, [0, 1, 2, 3]),
        ([2, -4], [2, 0]),
        (slice(1, 3), [1, 2]),
        ([True, False, False, True], [0, 3]),
        (np.array(1), [1]),
    ],
)
def test_targets(targets, expected):
    np.testing.assert_array_equal(resolve_records(targets, 4), expected)


@pytest.mark.parametrize(
    "targets, error, message",
    [
        ([4], ValueError, "lie in -4, ..., 3.*index 4"),
        ([True], ValueError, "one entry for each of the 4 records: boolean"),
        ([], ValueError, "selects no record"),
        (["a"], TypeError, "positions of records"),
    ],
)
def test_wrong_targets(targets, error, message):
    with pytest.raises(error, match=message):
        resolve_records(targets, 4)


def test_a_column_is_replaced_in_a_copy():
    table = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", "y"]), "c": [0.5, 1.5]})
    kept = table.copy()
    changed = with_attribute(table, 1, "x")
    assert changed["b"].tolist() == ["x", "x"]
    assert changed["b"].dtype == table["b"].dtype
    assert with_attribute(table, 0, 2)["a"].dtype == table["a"].dtype
    assert with_attribute(table, 0, np.array([0.5, 2.5]))["a"].tolist() == [0.5, 2.5]
    pd.testing.assert_frame_equal(table, kept)
    array = np.array([[1, 2], [3, 4]])
    assert with_attribute(array, 0, 0.5)[:, 0].tolist() == [0.5, 0.5]
    assert array[:, 0].tolist() == [1, 3]
    assert with_attribute(np.array([["a"], ["b"]]), 0, "long")[:, 0].tolist() == ["long"] * 2
