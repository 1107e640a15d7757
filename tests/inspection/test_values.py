"""Columns of few values, told apart by exact encodings; and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
    TargetEncoder,
)

from skleak.exceptions import AttackNotApplicableError
from skleak.inspection import attribute_leakage
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage

BINS = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")


def _cell(leakage, record, column):
    (position,) = np.flatnonzero((leakage["record"] == record) & (leakage["column"] == column))
    return leakage.iloc[position]


def _with_ward(X, rng):
    return X.assign(ward=rng.choice(["north", "south", "west"], size=len(X)))


def test_values_are_as_far_apart_as_refits(patients, rng, trained_anew):
    X, y = _with_ward(patients[0], rng), patients[1]
    encoder = make_column_transformer(
        (OneHotEncoder(), ["ward"]),
        (make_pipeline(StandardScaler(), PolynomialFeatures(2)), ["sex", "bmi"]),
    )
    weight = rng.uniform(0.5, 2.0, size=len(y))
    models = [
        (PrivateLinearRegression(0.1), y),
        (PrivateLogisticRegression(0.1, noise_covariance=np.diag([1.0, 2.0] * 5)), y > 0),
        (PrivatePoissonRegressor(0.1, alpha=0.1), np.round(np.exp(0.5 * y))),
    ]
    for model, target in models:
        pipeline = make_pipeline(encoder, model)
        pipeline.fit(X, target, **{f"{pipeline.steps[-1][0]}__sample_weight": weight})
        brute = trained_anew(pipeline, X, target, weight)
        leakage = attribute_leakage(pipeline, X, target, ["ward", "sex"], sample_weight=weight)
        root = pipeline[-1]._confidential_state().noise
        for row, column in ((0, "ward"), (17, "sex")):
            values = np.unique(X[column])
            points = np.stack([brute.parameters(row, column, value) for value in values])
            white = root.whitened(points) / 0.1
            own = white[values == X[column].iloc[row]]
            cell = _cell(leakage, X.index[row], column)
            assert cell["kind"] == "values"
            assert cell["n_values"] == len(values)
            assert cell["share"] == np.mean(X[column] == X[column].iloc[row])
            assert np.isnan(cell["fisher_information_loss"])
            assert cell["distance"] == pytest.approx(pdist(white).max(), rel=1e-9)
            assert cell["distance_from_own"] == pytest.approx(cdist(own, white).max(), rel=1e-9)


def test_the_common_scale_is_what_an_attacker_gains(patients):
    X, y = patients
    model = make_pipeline(StandardScaler(), PrivateLinearRegression(0.02)).fit(X, y)
    leakage = attribute_leakage(model, X, y, ["sex", "bmi"])
    distance = leakage["distance"]
    np.testing.assert_allclose(leakage["success_even_odds"], norm.cdf(distance / 2))
    np.testing.assert_allclose(leakage["gain"], 2 * norm.cdf(distance / 2) - 1, atol=1e-15)
    expected = norm.cdf(norm.ppf(0.01) + distance)
    np.testing.assert_allclose(leakage["true_positives_at_1pct"], expected)
    # As exact for a number as for a value: under the squared loss and a linear encoding a number
    # that moves by a little is as far off as its derivative says.
    tiny = X.assign(bmi=X["bmi"].mean() + 1e-6 * (X["bmi"] - X["bmi"].mean()))
    model = make_pipeline(FunctionTransformer(), PrivateLinearRegression(0.02)).fit(tiny, y)
    leakage = attribute_leakage(model, tiny, y, ["bmi"])
    first_order = leakage["fisher_information_loss"] * leakage["step"]
    np.testing.assert_array_less(0.999 * first_order, leakage["distance_from_own"])


@pytest.mark.slow
def test_binned_and_rounded_numbers_are_one_of_few_values(patients, trained_anew):
    X, y = patients
    edges = np.quantile(X["bmi"], [0.0, 0.25, 0.5, 0.75, 1.0])
    for encoder in (
        make_column_transformer((BINS, ["bmi"]), (StandardScaler(), ["bp"])),
        make_pipeline(
            FunctionTransformer(lambda t: t[["bmi", "bp"]].assign(bmi=np.round(t["bmi"] / 8.0))),
            StandardScaler(),
        ),
    ):
        pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
        leakage = attribute_leakage(pipeline, X, y, ["bmi", "bp"], records=[0, 9])
        cell = _cell(leakage, "patient 9", "bmi")
        assert cell["kind"] == "values"
        assert "bins or rounds" in cell["note"]
        assert _cell(leakage, "patient 9", "bp")["kind"] == "number"
        brute = trained_anew(pipeline, X, y)
        points = np.stack([brute.parameters(9, "bmi", v) for v in np.unique(X["bmi"])])
        assert cell["distance"] == pytest.approx(pdist(points).max() / 0.1, rel=1e-9)
        assert cell["n_values"] == len(np.unique(points.round(9), axis=0)) < 10
    assert len(edges) == 5


def test_a_number_that_is_binned_and_kept_is_a_number(patients):
    X, y = patients
    encoder = make_column_transformer((BINS, ["bmi"]), (StandardScaler(), ["bmi"]))
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    leakage = attribute_leakage(pipeline, X, y, "bmi")
    assert (leakage["kind"] == "number").all()
    edges = pipeline[0].named_transformers_["kbinsdiscretizer"].bin_edges_[0][1:-1]
    at = np.isin(X["bmi"].to_numpy(), edges)
    np.testing.assert_array_equal(np.isinf(leakage["fisher_information_loss"]), at)


def test_missing_constant_and_dropped_columns(patients, rng):
    X, y = _with_ward(patients[0], rng), patients[1]
    X = X.assign(one=1.0, flag=X["bp"] > 90.0, many=rng.normal(size=60))
    X.loc["patient 4", "bmi"] = np.nan
    X.loc["patient 5", "ward"] = None
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["bmi", "one", "flag"]),
        (OneHotEncoder(), ["ward"]),
    )
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    columns = ["bmi", "one", "flag", "ward", "many", "sex"]
    leakage = attribute_leakage(pipeline, X, y, columns)
    missing = _cell(leakage, "patient 4", "bmi")
    assert np.isnan(missing["fisher_information_loss"])
    assert np.isnan(missing["gain"])
    assert "no number" in missing["note"]
    assert leakage.loc[leakage["record"] != "patient 4", "gain"].notna().all()
    gain = leakage.pivot(index="record", columns="column", values="gain")
    assert (gain[["one", "many", "sex"]] == 0.0).all(axis=None)
    assert (gain[["flag", "ward"]] > 0.0).all(axis=None)
    n_values = leakage.groupby("column")["n_values"].first()
    assert n_values[["one", "flag", "ward", "sex"]].tolist() == [1, 2, 4, 2]
    assert _cell(leakage, "patient 0", "one")["note"] == "all records have the same value"
    assert _cell(leakage, "patient 0", "many")["note"] == "the preprocessing drops it"


def test_polars_and_categories_are_as_pandas(patients, rng):
    polars = pytest.importorskip("polars")
    X, y = _with_ward(patients[0], rng).reset_index(drop=True), patients[1]
    encoder = make_column_transformer((OneHotEncoder(), ["ward"]), (StandardScaler(), ["bmi"]))
    expected = None
    for table in (X, X.astype({"ward": "category"}), polars.from_pandas(X)):
        pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(table, y)
        found = attribute_leakage(pipeline, table, y, ["ward", "bmi"])
        expected = found if expected is None else expected
        pd.testing.assert_frame_equal(found, expected, rtol=1e-9)


def test_what_is_refused(patients, rng):
    X, y = _with_ward(patients[0], rng), patients[1]
    encoder = make_column_transformer((OneHotEncoder(), ["ward"]), (StandardScaler(), ["bmi"]))
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    with pytest.raises(ValueError, match="training data of the pipeline, 60 records; got 59"):
        attribute_leakage(pipeline, X[1:], y[1:])
    with pytest.raises(ValueError, match=r"1 of 60 records are others, the first .* 'patient 3'"):
        attribute_leakage(pipeline, X.assign(bmi=X["bmi"] + (X.index == "patient 3")), y)
    with pytest.raises(ValueError, match=r"`y` must be the targets .* row 'patient 2'"):
        attribute_leakage(pipeline, X, y + (np.arange(60) == 2))
    with pytest.raises(ValueError, match="`sample_weight` must be what the model was fitted with"):
        attribute_leakage(pipeline, X, y, sample_weight=np.full(60, 2.0))
    with pytest.raises(ValueError, match="unknown column 'bmj'"):
        attribute_leakage(pipeline, X, y, ["bmj"])
    with pytest.raises(TypeError, match="released model"):
        attribute_leakage(make_pipeline(encoder, pipeline[-1].release()), X, y)
    with pytest.raises(TypeError, match="got StandardScaler"):
        attribute_leakage(make_pipeline(encoder, StandardScaler()), X, y)
    centered = make_pipeline(FunctionTransformer(lambda t: t - t.mean(axis=0)), pipeline[-1])
    centered.fit(X[["bmi", "bp"]], y)
    with pytest.raises(ValueError, match="where other records are transformed with it"):
        attribute_leakage(centered, X[["bmi", "bp"]], y)


def test_target_encoders_are_refused(patients, rng):
    X, y = _with_ward(patients[0], rng), patients[1]
    encoder = make_column_transformer((TargetEncoder(), ["ward"]), (BINS, ["bmi"]))
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    with pytest.raises(ValueError, match=r"otherwise in `fit_transform` than in `transform`"):
        attribute_leakage(pipeline, X, y)


def test_values_need_noise_that_does_not_follow_the_records(patients):
    X, y = patients
    X = (X - X.mean()) / X.std()
    shaped = PrivateLinearRegression(0.1, noise_covariance="curvature").fit(X[["sex", "bmi"]], y)
    with pytest.raises(AttackNotApplicableError, match="Name other columns in `columns`"):
        attribute_leakage(shaped, X[["sex", "bmi"]], y)
    assert attribute_leakage(shaped, X[["sex", "bmi"]], y, "bmi")["gain"].isna().all()
    unseen = make_pipeline(make_column_transformer(("passthrough", ["bmi"])), shaped).fit(X, y)
    assert (attribute_leakage(unseen, X, y, "bp")["gain"] == 0.0).all()
    goal = PrivateLinearRegression(MaxLeakage(5.0)).fit(X[["bmi", "bp"]], y)
    leakage = attribute_leakage(goal, X[["bmi", "bp"]], y)
    assert leakage["gain"].isna().all()
    losses = leakage.pivot(index="record", columns="column", values="fisher_information_loss")
    expected = goal.fisher_information_loss(per="feature")
    np.testing.assert_allclose(losses.loc[X.index, ["bmi", "bp"]], expected, rtol=1e-9)


def test_too_many_values_are_refused(rng):
    X = pd.DataFrame({"name": [f"n{i:03}" for i in range(80)], "x": rng.normal(size=80)})
    encoder = make_column_transformer((OneHotEncoder(), ["name"]), (StandardScaler(), ["x"]))
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, X["x"])
    with pytest.raises(ValueError, match="too many values"):
        attribute_leakage(pipeline, X, X["x"])
    rounded = FunctionTransformer(lambda t: np.round(100.0 * t[["x"]]))
    pipeline = make_pipeline(rounded, PrivateLinearRegression(0.1)).fit(X, X["x"])
    with pytest.raises(ValueError, match=r"different values of the column 'x'"):
        attribute_leakage(pipeline, X, X["x"], "x")
