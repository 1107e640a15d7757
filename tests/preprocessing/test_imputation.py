"""Public values in place of missing ones."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.impute import SimpleImputer

from skleak.preprocessing import PublicImputer


def test_numbers_by_hand():
    X = [[1.0, np.nan], [np.nan, 4.0], [np.inf, -1.0]]
    filled = PublicImputer(values=[7, 8]).fit_transform(X)
    assert_array_equal(filled, [[1, 8], [7, 4], [np.inf, -1]])
    assert filled.dtype == np.float64
    imputer = PublicImputer(values=0, add_indicator=True)
    expected = [[1, 0, 0, 1], [0, 4, 1, 0], [np.inf, -1, 0, 0]]
    assert_array_equal(imputer.fit_transform(X), expected)
    names = ["x0", "x1", "missingindicator_x0", "missingindicator_x1"]
    assert list(imputer.get_feature_names_out()) == names


def test_it_equals_scikit_learn(rng):
    X = rng.normal(size=(50, 3))
    X[rng.random(size=X.shape) < 0.3] = np.nan
    theirs = SimpleImputer(strategy="constant", fill_value=0.5, add_indicator=True)
    ours = PublicImputer(0.5, add_indicator=True).fit(X)
    assert_array_equal(ours.transform(X), theirs.fit_transform(X))
    assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=str)
def test_whatever_is_missing_is_filled(missing):
    table = pd.DataFrame({"a": ["x", missing], "b": [missing, "y"]}, dtype=object)
    filled = PublicImputer({"a": "u", "b": "v"}).fit_transform(table)
    assert filled.tolist() == [["x", "v"], ["u", "y"]]
    numbers = pd.DataFrame({"a": [1, missing], "b": [missing, 2]}, dtype=object)
    filled = PublicImputer({"a": 5, "b": 6.5}).fit_transform(numbers)
    assert filled.tolist() == [[1.0, 6.5], [5.0, 2.0]]
    assert filled.dtype == np.float64


@pytest.mark.parametrize("kind", ["string", "category", "str", object])
def test_types_of_text(kind):
    table = pd.Series(["x", None], dtype=kind).to_frame("a")
    filled = PublicImputer({"a": "u"}).set_output(transform="pandas").fit_transform(table)
    assert list(filled["a"]) == ["x", "u"]


def test_text_and_numbers_together():
    table = pd.DataFrame({"a": ["x", None], "b": [1.5, None]})
    imputer = PublicImputer({"a": "u", "b": 0.25})
    assert imputer.fit_transform(table).tolist() == [["x", 1.5], ["u", 0.25]]
    assert PublicImputer(["u", 0.25]).fit([["x", 1.5]]).transform([[None, 2.5]]).tolist() == [
        ["u", 2.5]
    ]


def test_nothing_missing_and_all_missing():
    imputer = PublicImputer([1, 2], add_indicator=True)
    assert imputer.fit_transform([[5.0, 6.0]]).tolist() == [[5, 6, 0, 0]]
    assert imputer.fit_transform([[None, None]]).tolist() == [[1, 2, 1, 1]]


@pytest.mark.parametrize("value", [np.nan, None, pd.NA, np.inf, -np.inf, [1, 2]], ids=str)
def test_values_that_are_none(value):
    with pytest.raises(ValueError, match=r"`values` of column 1 must be a finite number, a text"):
        PublicImputer([0, value]).fit([[1.0, 2.0]])


def test_text_among_numbers_is_told():
    with pytest.raises(ValueError, match=r"of X; but could not convert column 'a' to numbers"):
        PublicImputer(0).fit(pd.DataFrame({"a": ["x", None]}))
