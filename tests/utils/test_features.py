"""References to columns, and what is said of wrong ones."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from skleak.utils._records import feature_labels, is_single_feature, resolve_features

NAMES = np.array(["age", "bmi", "sex", "dose"], dtype=object)


@pytest.mark.parametrize(
    "features, expected",
    [
        ("bmi", [1]),
        (np.str_("dose"), [3]),
        (2, [2]),
        (-1, [3]),
        (np.int8(1), [1]),
        (["dose", "age"], [3, 0]),
        (("age", 2, -3), [0, 2, 1]),
        (np.array(["sex", "bmi"]), [2, 1]),
        (np.array([3, 1]), [3, 1]),
        (pd.Index(["bmi", "age"]), [1, 0]),
        (pd.Series([2, 0], index=[7, 7]), [2, 0]),
        (range(1, 3), [1, 2]),
        (slice(1, None), [1, 2, 3]),
        (slice(None, None, -2), [3, 1]),
        ([True, False, False, True], [0, 3]),
        (np.array([False, True, True, False]), [1, 2]),
        (pd.Series([True, False, True, False]), [0, 2]),
        ([np.True_, False, False, np.False_], [0]),
    ],
    ids=str,
)
def test_references(features, expected):
    found = resolve_features(features, NAMES, 4)
    assert_array_equal(found, expected)
    assert np.issubdtype(found.dtype, np.integer)


def test_a_polars_series_of_names():
    assert_array_equal(resolve_features(pl.Series(["dose", "bmi"]).to_list(), NAMES, 4), [3, 1])


def test_references_without_names():
    assert_array_equal(resolve_features([0, -1], None, 4), [0, 3])
    assert_array_equal(resolve_features(slice(2), None, 4), [0, 1])


@pytest.mark.parametrize(
    "features, error, message",
    [
        ("weight", ValueError, "names the unknown column 'weight'. Expected one of the 4 columns"),
        ("bmj", ValueError, "for instance ['bmi']"),
        (["age", "dos"], ValueError, "unknown column 'dos'"),
        (4, ValueError, "index 4, but there are 4 columns: expected -4 to 3"),
        (-5, ValueError, "index -5"),
        ([], ValueError, "selects no column. Pass at least one name or index"),
        (slice(4, None), ValueError, "selects no column"),
        ([False] * 4, ValueError, "selects no column"),
        (["age", 0], ValueError, "names a column twice: ['age']. Name each once"),
        ([1, -3, 2], ValueError, "twice: ['bmi']"),
        ([True, False], ValueError, "boolean mask of length 2, but there are 4 columns"),
        (1.0, TypeError, "a boolean mask or a list of names or indices; got float"),
        (None, TypeError, "got NoneType"),
        (True, TypeError, "got bool"),
        (np.array(3.5), TypeError, "got ndarray"),
        ({"age": 1}, TypeError, "got dict"),
        ([1.5], TypeError, "must hold column names or indices; got 1.5 of type float"),
        ([True, 1], TypeError, "got True of type bool"),
        ([["age"]], TypeError, "got ['age'] of type list"),
    ],
    ids=str,
)
def test_wrong_references(features, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        resolve_features(features, NAMES, 4)
    assert str(caught.value).startswith("`features`")


def test_names_where_there_are_none():
    with pytest.raises(ValueError, match=r"without column names. Pass indices, or fit on a Data"):
        resolve_features("age", None, 4)


def test_messages_name_the_parameter():
    with pytest.raises(ValueError, match="`groups` names the unknown column"):
        resolve_features("weight", NAMES, 4, "groups")


def test_close_names_come_first_and_else_the_first_ten():
    names = np.array([f"pixel_{j:03d}" for j in range(50)], dtype=object)
    with pytest.raises(ValueError, match="unknown") as caught:
        resolve_features("pixel_4", names, 50)
    assert "pixel_04" in str(caught.value)
    with pytest.raises(ValueError, match="unknown") as caught:
        resolve_features("§§§", names, 50)
    assert "'pixel_009']" in str(caught.value)


@pytest.mark.parametrize(
    "feature, single",
    [
        ("a", True),
        (3, True),
        (np.int64(3), True),
        (True, False),
        (np.True_, False),
        (["a"], False),
        (slice(2), False),
        (1.0, False),
        (None, False),
    ],
    ids=str,
)
def test_what_is_one_column(feature, single):
    assert is_single_feature(feature) is single


def test_labels():
    assert feature_labels(NAMES, 4) == ["age", "bmi", "sex", "dose"]
    assert feature_labels(None, 3) == ["x0", "x1", "x2"]
