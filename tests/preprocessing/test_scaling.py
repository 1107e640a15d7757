"""Clip to public bounds and scale."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import MinMaxScaler

from skleak.preprocessing import PublicScaler, PublicTargetScaler


def test_values_by_hand():
    X = [[0.0, -5.0], [10.0, 0.0], [2.5, 20.0], [-1.0, 7.5], [np.nan, np.inf], [-np.inf, np.nan]]
    scaled = PublicScaler(bounds=[(0, 10), (0, 10)]).fit_transform(X)
    expected = [[-1, -1], [1, -1], [-0.5, 1], [-1, 0.5], [np.nan, 1], [-1, np.nan]]
    assert_array_equal(scaled, expected)
    unit = PublicScaler(bounds=(0, 10), feature_range=(0, 1)).fit_transform(X)
    assert_allclose(unit, (np.array(expected) + 1.0) / 2.0, rtol=1e-15)


def test_it_equals_a_min_max_scaler_where_the_records_reach_the_bounds(rng):
    X = np.clip(rng.normal(size=(200, 3)), -1.5, 1.5)
    assert_array_equal(X.min(axis=0), -1.5)
    assert_array_equal(X.max(axis=0), 1.5)
    for feature_range in ((-1, 1), (0, 1), (2.0, 5.0)):
        ours = PublicScaler(bounds=(-1.5, 1.5), feature_range=feature_range).fit(X)
        theirs = MinMaxScaler(feature_range, clip=True).fit(X)
        assert_array_equal(ours.transform(X), theirs.transform(X))
        new = 3.0 * rng.normal(size=(50, 3))
        assert_array_equal(ours.transform(new), theirs.transform(new))


@pytest.mark.parametrize("bounds", [(0, 1), (-1e300, 1e300), (1e9, 1e9 + 1), (1e-12, 3e-12)])
def test_nothing_leaves_the_range(rng, bounds):
    X = np.concatenate([rng.uniform(*bounds, size=1000), [1e308, -1e308, 5e-324, *bounds]])[:, None]
    for low, high in ((-1.0, 1.0), (0.1, 0.7)):
        scaled = PublicScaler(bounds, feature_range=(low, high)).fit_transform(X)
        assert scaled.min() >= low
        assert scaled.max() <= high


def test_inverse(rng):
    scaler = PublicScaler({"age": (18, 100), "dose": (0, 4)})
    X = pd.DataFrame({"age": rng.uniform(18, 100, 50), "dose": rng.uniform(0, 4, 50)})
    assert_allclose(scaler.inverse_transform(scaler.fit_transform(X)), X, rtol=1e-12)
    beyond = pd.DataFrame({"age": [0.0, 200.0], "dose": [np.nan, 5.0]})
    assert_allclose(scaler.inverse_transform(scaler.transform(beyond)), [[18, np.nan], [100, 4]])


def test_the_type_of_the_table_does_not_matter(rng):
    X = rng.integers(0, 100, size=(20, 2))
    scaler = PublicScaler((0, 130)).fit(X)
    expected = scaler.transform(X)
    assert expected.dtype == np.float64
    for kind in ("float32", "int8", object, "Int64"):
        table = pd.DataFrame(X).astype(kind)
        assert_array_equal(scaler.transform(table), expected)
        assert scaler.transform(table).dtype == np.float64
    table = pd.DataFrame(X).astype("Int64")
    table.iloc[0, 0] = pd.NA
    assert np.isnan(scaler.transform(table)[0, 0])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 1), "ascending order, low < high; got"),
        ((2, 1), "ascending"),
        ((0, np.inf), "must be finite"),
        ((np.nan, 1), "must be finite"),
        ((-1.5e308, 1.5e308), "must be finite"),
        ((0, 1e-16), "another unit"),
        ((0, 1, 2), "must be a pair of numbers"),
        ([(0, 1), (3, 2)], "`bounds` of column 1 must be"),
        ([(0, 1), 5], "inhomogeneous|must be a pair|array-like"),
        ([("a", 1), (0, 1)], "must be a pair of numbers"),
    ],
)
def test_bounds_that_are_none(bounds, message):
    with pytest.raises(ValueError, match=message):
        PublicScaler(bounds).fit(np.zeros((3, 2)))


def test_bounds_are_named_in_messages():
    table = pd.DataFrame({"age": [1.0]})
    with pytest.raises(ValueError, match=r"`bounds` of column 'age' must be finite and in asc"):
        PublicScaler({"age": (5, 5)}).fit(table)
    with pytest.raises(ValueError, match=r"`feature_range` must be finite and in ascending"):
        PublicScaler({"age": (5, 6)}, feature_range=(1, 0)).fit(table)


def test_the_target_of_a_regression(rng):
    X, y = rng.normal(size=(40, 2)), rng.uniform(-50, 150, size=40)
    model = TransformedTargetRegressor(
        LinearRegression(), transformer=PublicTargetScaler((0, 100)), check_inverse=False
    )
    predicted = model.fit(X, y).predict(X)
    direct = LinearRegression().fit(X, np.clip(y, 0, 100)).predict(X)
    assert_allclose(predicted, direct, rtol=1e-10)
    # Scikit-learn's check of the inverse finds the clipping, and is content without it.
    with pytest.warns(UserWarning, match="not strictly inverse"):
        model.set_params(check_inverse=True).fit(X, y)
    model.fit(X, np.clip(y, 0, 100))


def test_a_target_is_known_and_has_one_pair_of_bounds():
    with pytest.raises(ValueError, match="contains NaN"):
        PublicTargetScaler((0, 1)).fit([[np.nan]])
    with pytest.raises(ValueError, match=r"`bounds` of the target must be a pair"):
        PublicTargetScaler([(0, 1), (0, 2)]).fit(np.zeros((3, 2)))
