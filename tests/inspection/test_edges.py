"""Tables, types and pipelines as people have them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from skleak.inspection import attribute_leakage
from skleak.inspection._leakage import CLOSED, REFITTED
from skleak.inspection.refits import SHOWN
from skleak.linear_model import PrivateLinearRegression


def _model():
    return PrivateLinearRegression(0.1, alpha=0.05)


@pytest.fixture
def wards(patients, rng):
    """The patients, with the ward of each."""
    X, y = patients
    return X.astype(float).assign(ward=rng.choice(["a", "b", "c"], size=60)), y


def _encoder(**options):
    return make_column_transformer(
        (OneHotEncoder(), ["ward"]), (StandardScaler(), ["bmi"]), **options
    )


def _both(pipeline, X, y, columns, **options):
    pipeline.fit(X, y)
    return [
        attribute_leakage(
            pipeline, X, y, columns, records=[2, 7], refit_preprocessing=refit, **options
        )
        for refit in (False, True)
    ]


@pytest.mark.slow
def test_tables_of_all_kinds_give_the_same(wards):
    X, y = wards
    columns = ["bmi", "ward", "(target)"]
    expected = _both(make_pipeline(_encoder(), _model()), X, y, columns)
    several = pd.MultiIndex.from_product([range(6), range(10)])
    small = X.astype({"bmi": np.float32})
    others = {
        "sparse": (_encoder(sparse_threshold=1.0), X, 1e-9),
        "repeated labels": (_encoder(), X.set_axis(np.arange(60) // 2), 1e-9),
        "labels of two levels": (_encoder(), X.set_axis(several), 1e-9),
        "single precision": (_encoder(), small, 1e-5),
        "frames in between": (
            make_column_transformer(
                (OneHotEncoder(sparse_output=False), ["ward"]), (StandardScaler(), ["bmi"])
            ).set_output(transform="pandas"),
            X,
            1e-9,
        ),
    }
    for encoder, table, accuracy in others.values():
        for found, own in zip(
            _both(make_pipeline(encoder, _model()), table, y, columns), expected, strict=True
        ):
            for name in ("fisher_information_loss", "distance", "distance_from_own"):
                np.testing.assert_allclose(found[name], own[name], rtol=accuracy)
    assert (
        _both(make_pipeline(_encoder(), _model()), X.set_axis(several), y, columns)[0][
            "record"
        ].tolist()
        == [(0, 2)] * 3 + [(0, 7)] * 3
    )


@pytest.mark.slow
def test_constant_columns_do_not_hide_what_was_learned_of_others(wards):
    X, y = wards
    for scaler in (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()):
        plain = make_pipeline(scaler, _model())
        table = X[["bmi", "bp"]]
        expected = _both(plain, table, y, ["bmi"])[1]
        found = _both(plain, table.assign(one=1.0), y, ["bmi", "one"])[1]
        known, name = found[found["column"] == "bmi"], "fisher_information_loss"
        np.testing.assert_allclose(known["distance"], expected["distance"], rtol=1e-7)
        if isinstance(scaler, StandardScaler):
            assert known["note"].str.contains(CLOSED).all()
            np.testing.assert_allclose(known[name], expected[name], rtol=1e-7)
        else:
            assert known["note"].str.contains(REFITTED).all()
        # Refits of collinear columns scatter: a slope that cannot be told from a jump is one.
        assert (known[name].to_numpy() >= (1.0 - 1e-5) * expected[name].to_numpy()).all()
        assert (found.loc[found["column"] == "one", "gain"] == 0.0).all()
    squares = make_pipeline(PolynomialFeatures(2), StandardScaler(), _model())
    assert _both(squares, table, y, ["bmi"])[1]["note"].str.contains(CLOSED).all()


def test_an_only_carrier_is_shown_by_the_number_of_parameters(wards):
    X, y = wards
    X = X.assign(ward=["z", *["w"] * 59])
    cells = _both(make_pipeline(_encoder(), _model()), X, y, ["ward"], nominal="ward")[1]
    assert np.isfinite(cells["distance"]).all()
    pipeline = make_pipeline(_encoder(), _model()).fit(X, y)
    only = attribute_leakage(pipeline, X, y, ["ward"], records=[0], refit_preprocessing=True)
    assert np.isinf(only["distance"]).all()
    assert (only["gain"] == 1.0).all()
    assert only["note"].str.contains(SHOWN).all()


@pytest.mark.slow
def test_columns_used_twice_passed_and_chosen_by_type(wards, rng):
    X, y = wards
    numbers = X.drop(columns=["ward", "sex"])
    twice = make_column_transformer(
        (StandardScaler(), ["bmi"]),
        (make_pipeline(FunctionTransformer(np.log1p), MinMaxScaler()), ["bmi"]),
        ("drop", ["age"]),
        remainder="passthrough",
    )
    held, learned = _both(make_pipeline(twice, _model()), numbers, y, None)
    assert held["column"].tolist() == [*numbers, "(target)"] * 2
    assert (held.loc[held["column"] == "age", "gain"] == 0.0).all()
    # Nothing learns from what is passed through.
    apart = held["column"].isin(["bp", "s5", "(target)"])
    np.testing.assert_array_equal(learned.loc[apart, "distance"], held.loc[apart, "distance"])
    assert not np.allclose(learned["distance"], held["distance"], rtol=1e-3)
    union = FeatureUnion([("a", PCA(1)), ("b", "passthrough"), ("c", StandardScaler())])
    knots = np.linspace(numbers["bmi"].min() - 1, numbers["bmi"].max() + 1, 5)[:, None]
    given = make_column_transformer((SplineTransformer(knots=knots), ["bmi"]))
    for encoder, how in ((union, REFITTED), (make_pipeline(given, StandardScaler()), CLOSED)):
        cells = _both(make_pipeline(encoder, _model()), numbers, y, ["bmi"])[1]
        assert cells["note"].str.contains(how).all()


def test_more_columns_than_records_and_weights_of_zero(rng):
    X = pd.DataFrame(rng.normal(size=(15, 30))).rename(columns="v{}".format)
    y, weight = rng.normal(size=15), np.ones(15)
    weight[2] = 0.0
    pipeline = make_pipeline(StandardScaler(), _model())
    pipeline.fit(X, y, privatelinearregression__sample_weight=weight)
    held, learned = (
        attribute_leakage(
            pipeline,
            X,
            y,
            ["v3"],
            sample_weight=weight,
            records=[2, 7],
            refit_preprocessing=refit,
        )
        for refit in (False, True)
    )
    assert (held["gain"] > 0.0).tolist() == [False, True]
    # The transformers learned from the record without a weight as from any other.
    assert (learned["gain"] > 0.0).all()
    assert (learned["fisher_information_loss"] > 0.0).all()
    assert learned["note"].str.contains(CLOSED).all()
