"""Numbers, followed through the fitted transformers to the parameters of the model."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skleak.adversary.knowledge import spread_left
from skleak.inspection import attribute_leakage
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

SQUARES = PolynomialFeatures(2, include_bias=False)
# "bmi" enters through two branches, one of which has two of its own.
BRANCHES = make_column_transformer(
    (StandardScaler(), ["bmi", "bp"]),
    (make_union(SplineTransformer(n_knots=4), FunctionTransformer(np.log)), ["bmi"]),
    (OneHotEncoder(), ["sex"]),
)
ENCODERS = {
    "squares": make_pipeline(StandardScaler(), SQUARES),
    "splines": SplineTransformer(n_knots=4),
    "components": make_pipeline(StandardScaler(), PCA(3), PolynomialFeatures(2)),
    "branches": BRANCHES,
}
NUMBERS = ["bmi", "bp", "s5"]


def _cells(leakage, name):
    return leakage.pivot(index="record", columns="column", values=name)


def _check(brute, pipeline, columns, rows):
    """Hold losses and distances against the model trained anew."""
    X, sigma = brute.X, pipeline[-1].noise_scale_
    leakage = attribute_leakage(pipeline, X, brute.y, columns, sample_weight=brute.weight)
    losses, pairs, from_own = (
        _cells(leakage, name)
        for name in ("fisher_information_loss", "distance", "distance_from_own")
    )
    for row in rows:
        own = brute.parameters(row, columns[0], X[columns[0]].iloc[row])
        settled = 1e-10 * np.linalg.norm(own) / sigma  # to which encodings are iterated
        for column in columns:
            sd = X[column].std(ddof=0)
            expected = np.linalg.norm(brute.slope(row, column, 0.01 * sd)) / sigma
            # Beyond the ends of a column a spline is constant: there it has a kink.
            if X[column].min() < X[column].iloc[row] < X[column].max():
                found = losses.loc[X.index[row], column]
                assert found == pytest.approx(expected, rel=1e-5, abs=1e-9)
            x, step = X[column].iloc[row], sd * spread_left(X)[X.columns.get_loc(column)]
            points = np.stack([brute.parameters(row, column, v) for v in (x - step, x + step)])
            away = np.linalg.norm(points - own, axis=1).max() / sigma
            near = {"rel": 1e-7, "abs": settled}
            assert pairs.loc[X.index[row], column] == pytest.approx(away, **near)
            assert from_own.loc[X.index[row], column] == pytest.approx(away, **near)


@pytest.mark.parametrize("encoder", mostly_slow(ENCODERS, 0))
def test_losses_are_those_of_refits(encoder, patients, rng, trained_anew):
    X, y = patients
    columns = ["bmi", "bp"] if encoder == "branches" else NUMBERS
    weight = rng.uniform(0.5, 2.0, size=len(y))
    # Every loss meets an encoder with which it is not linear in the number.
    model, target, weight = {
        "squares": (PrivateLinearRegression(0.1), y, weight),
        "splines": (PrivatePoissonRegressor(0.1, alpha=0.1), np.round(np.exp(0.5 * y)), None),
        "components": (PrivateLogisticRegression(0.1), (y > 0).astype(int), None),
        "branches": (PrivateLogisticRegression(0.1), (y > 0).astype(int), weight),
    }[encoder]
    pipeline = make_pipeline(ENCODERS[encoder], model)
    pipeline.fit(X, target, **{f"{pipeline.steps[-1][0]}__sample_weight": weight})
    _check(trained_anew(pipeline, X, target, weight), pipeline, columns, [0, 31])


def test_a_number_moves_all_of_its_encoded_columns_at_once(patients):
    X, y = patients
    pipeline = make_pipeline(ENCODERS["squares"], PrivateLinearRegression(0.1)).fit(X, y)
    leakage = attribute_leakage(pipeline, X, y, ["bmi"])
    encoded = pipeline[-1].fisher_information_loss(per="feature")
    names = pipeline[:-1].get_feature_names_out()
    alone = encoded[:, list(names).index("bmi")] / X["bmi"].std(ddof=0)
    ratio = leakage["fisher_information_loss"].to_numpy() / alone
    # Held for one of the encoded columns, the loss is off either way.
    assert ratio.min() < 0.8
    assert ratio.max() > 1.25


@pytest.mark.slow
def test_columns_that_are_not_encoded_leak_what_their_model_says(patients, rng):
    X, y = patients
    X = (X - X.mean()) / X.std()
    given = np.diag([1.0, 2.0, 3.0, 4.0])
    kinds = [
        {},
        {"noise_covariance": given},
        {"noise_covariance": "curvature"},
        {"noise_covariance": "minimax"},
        {"reweighting": "irfil"},
        {"noise_scale": 0.0},
        {"fit_intercept": False},
    ]
    for kind in kinds:
        model = PrivateLogisticRegression(**{"noise_scale": 0.1} | kind)
        model.fit(X[NUMBERS], (y > 0).astype(int))
        leakage = attribute_leakage(model, X[NUMBERS], (y > 0).astype(int), records=slice(5))
        losses = _cells(leakage, "fisher_information_loss").loc[X.index[:5]]
        expected = model.fisher_information_loss(per="feature")[:5]
        np.testing.assert_allclose(losses[NUMBERS], expected, rtol=1e-9)


@pytest.mark.slow
def test_several_classes_leak_as_their_columns_do(rng):
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X[:90] @ rng.normal(size=(64, 5)) / 20.0
    pipeline = make_pipeline(PCA(5), PrivateLogisticRegression(0.1)).fit(X, y[:90])
    axes = pipeline[0].components_
    leakage = attribute_leakage(pipeline, X, y[:90], [3, 1])
    jacobian = (
        pipeline[-1]
        ._confidential_state()
        .factor.jacobian(pipeline[0].transform(X), y[:90].astype(float))
    )
    for column in (1, 3):
        moved = jacobian[:, :, :5] @ axes[:, column]
        losses = leakage.loc[leakage["column"] == column, "fisher_information_loss"]
        np.testing.assert_allclose(losses, np.linalg.norm(moved, axis=1) / 0.1, rtol=1e-8)


@pytest.mark.slow
def test_noise_shaped_by_the_records_tells_of_numbers_too(patients, trained_anew):
    X, y = patients
    X = X[["bmi", "bp"]]
    for shape in ("curvature", "minimax"):
        model = PrivateLogisticRegression(0.5, alpha=0.1, noise_covariance=shape)
        pipeline = make_pipeline(StandardScaler(), SQUARES, model).fit(X, y > 0)
        leakage = attribute_leakage(pipeline, X, y > 0)
        assert leakage["distance"].isna().all()
        assert leakage["note"].str.contains("no distances").all()
        losses, brute = _cells(leakage, "fisher_information_loss"), trained_anew(pipeline, X, y > 0)
        for column in X:
            expected = brute.information(7, column, 0.01 * X[column].std(), 0.5)
            assert losses.loc["patient 7", column] == pytest.approx(expected, rel=1e-5)


def test_kinks_and_jumps_are_told(patients):
    X, y = patients
    edge = np.median(X["bmi"][:59])  # the value of a patient, as they are odd in number
    at = X["bmi"].to_numpy() == edge
    bent = FunctionTransformer(lambda t: np.column_stack([np.abs(t[:, 0] - edge), t[:, 1] ** 3]))
    torn = FunctionTransformer(lambda t: t + 5.0 * (t > edge))
    values = X[["bmi", "bp"]].to_numpy()
    pipeline = make_pipeline(bent, StandardScaler(), PrivateLinearRegression(0.1)).fit(values, y)
    leakage = attribute_leakage(pipeline, values, y, 0)
    np.testing.assert_array_equal(leakage["note"].str.contains("kink"), at)
    assert at.any()
    # The slopes to both sides are of one size: 1.
    model = pipeline[-1]
    slope = model.fisher_information_loss(per="feature")[:, 0] / pipeline[1].scale_[0]
    np.testing.assert_allclose(leakage["fisher_information_loss"], slope, rtol=1e-7)
    pipeline = make_pipeline(torn, PrivateLinearRegression(0.1)).fit(values, y)
    leakage = attribute_leakage(pipeline, values, y, 0)
    np.testing.assert_array_equal(np.isinf(leakage["fisher_information_loss"]), at)
    np.testing.assert_array_equal(leakage["note"].str.contains("jumps"), at)
    # What a jump nearby does shows in the distance.
    assert (leakage["distance"] > 0.0).all()


def test_clipped_numbers_have_no_slope_and_a_distance(patients):
    X, y = patients
    low, high = np.quantile(X["bmi"], [0.2, 0.8])
    clip = FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})
    table = X[["bmi"]].to_numpy()
    pipeline = make_pipeline(clip, PrivateLinearRegression(0.1)).fit(table, y)
    leakage = attribute_leakage(pipeline, table, y, 0)
    outside = (table[:, 0] < low) | (table[:, 0] > high)
    np.testing.assert_array_equal(leakage["fisher_information_loss"] == 0.0, outside)
    assert np.isinf(leakage.loc[outside, "standard_error"]).all()
    # A step from far outside ends outside, too.
    assert (leakage.loc[~outside, "distance"] > 0.0).all()
    assert (leakage.loc[outside, "distance"] == 0.0).any()


@pytest.mark.slow
def test_nested_pipelines_labels_and_zero_weights(patients):
    X, y = patients
    flat = make_pipeline(StandardScaler(), SQUARES, PrivateLinearRegression(0.1)).fit(X, y)
    inner = make_pipeline(SQUARES, PrivateLinearRegression(0.1))
    nested = Pipeline([("a", make_pipeline(StandardScaler())), ("b", inner)]).fit(X, y)
    columns = ["s5", "bp"]
    first, second = (attribute_leakage(p, X, y, columns, records=[5, 3]) for p in (flat, nested))
    pd.testing.assert_frame_equal(first, second)
    assert first["record"].tolist() == ["patient 5"] * 2 + ["patient 3"] * 2
    assert first["column"].tolist() == columns * 2
    by_position = make_pipeline(StandardScaler(), SQUARES, PrivateLinearRegression(0.1))
    by_position.fit(X.to_numpy(), y)
    third = attribute_leakage(by_position, X.to_numpy(), y, [4, 3], records=[5, 3])
    assert third["column"].tolist() == [4, 3] * 2
    assert third["record"].tolist() == [5, 5, 3, 3]
    np.testing.assert_allclose(
        third["fisher_information_loss"], first["fisher_information_loss"], rtol=1e-9
    )
    weight = np.ones(len(y))
    weight[3] = 0.0
    flat.fit(X, y, privatelinearregression__sample_weight=weight)
    absent = attribute_leakage(flat, X, y, columns, sample_weight=weight, records=[3])
    assert (absent[["fisher_information_loss", "distance", "gain"]] == 0.0).all(axis=None)


@pytest.mark.slow
def test_losses_of_all_columns_are_those_of_refits(trained_anew):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, rows = X.iloc[:, :8], np.arange(0, 569, 50)
    for encoder in (make_pipeline(StandardScaler(), PCA(4), SQUARES), SplineTransformer(6)):
        pipeline = make_pipeline(encoder, PrivateLogisticRegression(0.1)).fit(X, y)
        _check(trained_anew(pipeline, X, y), pipeline, list(X), rows)
