"""One-hot columns of public categories."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from skleak.preprocessing import PublicOneHotEncoder

MISSING = [None, np.nan, pd.NA, pd.NaT]


def test_values_by_hand():
    X = np.array([["a", 1], ["b", 2], ["z", 3], [None, np.nan]], dtype=object)
    encoder = PublicOneHotEncoder([["b", "a"], [1, 2, 3]])
    expected = [[0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    assert_array_equal(encoder.fit_transform(X), expected)
    names = ["x0_b", "x0_a", "x1_1", "x1_2", "x1_3"]
    assert list(encoder.get_feature_names_out()) == names
    assert encoder.get_feature_names_out(["g", "k"])[0] == "g_b"
    inverse = [["a", 1], ["b", 2], [None, 3], [None, None]]
    assert_array_equal(encoder.inverse_transform(np.array(expected)), inverse)


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_it_equals_scikit_learn_on_a_table_with_all_categories(drop, sparse_output, rng):
    table = pd.DataFrame(
        {
            "gene": rng.choice(["AA", "AB", "BB"], size=80),
            "sex": rng.choice(["f", "m"], size=80),
            "grade": rng.integers(1, 4, size=80),
        }
    )
    theirs = OneHotEncoder(drop=drop, sparse_output=sparse_output).fit(table)
    categories = {"sex": ["f", "m"], "grade": [1, 2, 3], "gene": ["AA", "AB", "BB"]}
    ours = PublicOneHotEncoder(categories, drop=drop, sparse_output=sparse_output).fit(table)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    rows, expected = ours.transform(table), theirs.transform(table)
    assert sparse.issparse(rows) == sparse_output
    if sparse_output:
        rows, expected = rows.toarray(), expected.toarray()
    assert_array_equal(rows, expected)
    assert_array_equal(ours.inverse_transform(rows), theirs.inverse_transform(expected))


@pytest.mark.parametrize("last", MISSING, ids=str)
def test_whatever_is_missing_is_one_category(last):
    table = pd.DataFrame({"a": pd.Series(["u", *MISSING, "other"], dtype=object)})
    encoder = PublicOneHotEncoder({"a": ["u", last]}).fit(table)
    assert_array_equal(encoder.transform(table)[:, 1], [0, 1, 1, 1, 1, 0])
    assert list(encoder.get_feature_names_out()) == ["a_u", "a_nan"]
    for kind in ("string", "category"):
        column = pd.Series(["u", None, "other"], dtype=kind).to_frame("a")
        assert_array_equal(encoder.transform(column), [[1, 0], [0, 1], [0, 0]])


def test_the_type_of_a_column_does_not_matter():
    encoder = PublicOneHotEncoder({"a": [0, 1], "b": [True, False]})
    whole = pd.DataFrame({"a": [0, 1, 1], "b": [True, False, True]})
    rows = encoder.fit_transform(whole)
    names = encoder.get_feature_names_out()
    for kind in ("float64", "Int64", "bool", object, "category"):
        table = whole.astype({"a": kind})
        assert_array_equal(encoder.fit(table).transform(table), rows)
        assert_array_equal(encoder.get_feature_names_out(), names)
    # A missing value makes a column of whole numbers one of fractions.
    table = pd.DataFrame({"a": [0, 1, None], "b": [True, False, None]})
    assert_array_equal(encoder.transform(table), [rows[0], rows[1], np.zeros(4)])


def test_large_numbers_are_told_apart():
    big = 2**53
    table = pd.DataFrame({"a": [big, big + 1], "b": [0.5, 0.5]})
    encoder = PublicOneHotEncoder({"a": [big, big + 1], "b": [0.5]})
    assert_array_equal(encoder.fit_transform(table), [[1, 0, 1], [0, 1, 1]])


def test_one_list_for_all_columns():
    encoder = PublicOneHotEncoder([1, 2, 3]).fit([[1, 3]])
    assert encoder.transform([[1, 3]]).tolist() == [[1, 0, 0, 0, 0, 1]]
    assert PublicOneHotEncoder(["yes", "no"]).fit_transform([["no"], ["yes"]])[0, 1] == 1.0


def test_unknown_categories_can_be_an_error():
    encoder = PublicOneHotEncoder([["a", "b"]], handle_unknown="error").fit([["a"]])
    with pytest.raises(ValueError, match="unknown categories"):
        encoder.transform([["c"]])
    with pytest.raises(ValueError, match="unknown categories"):
        encoder.fit([["a"], ["c"]])
    with pytest.raises(ValueError, match="unknown categories"):
        encoder.fit([["a"], [None]])


def test_categories_of_another_type_are_told():
    with pytest.warns(UserWarning, match=r"No value of column 'a' is among .*\(int\)"):
        PublicOneHotEncoder({"a": ["1", "2"]}).fit(pd.DataFrame({"a": [1, 2]}))


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        ([["a", "b", "a"]], r"must be distinct .*got \['a'\]"),
        ([[1, True]], "must be distinct"),
        ([["a", None, np.nan]], "must be distinct"),
        ([[]], "`categories` of column 0 must be a list of at least one"),
        (["a", ["b"]], "one entry for each|must be a list"),
        ([[None, "a"]], "last element"),
    ],
)
def test_categories_that_are_none(categories, message):
    with pytest.raises(ValueError, match=message):
        PublicOneHotEncoder(categories).fit([["a"]])
