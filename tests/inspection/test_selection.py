"""The target, blocks of columns, and which numbers are codes."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from skleak.adversary.knowledge import spread_left
from skleak.exceptions import AttackNotApplicableError
from skleak.inspection import attribute_leakage
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

SQUARES = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False))


def _parameters(pipeline, X, y, row, target, weight=None):
    """Parameters of the model trained anew with another target of one record."""
    changed = np.asarray(y, dtype=np.result_type(np.asarray(y).dtype, type(target))).copy()
    changed[row] = target
    model = clone(pipeline[-1]).set_params(noise_scale=0.0, tol=1e-13, max_iter=1000)
    model.fit(pipeline[:-1].transform(X), changed, sample_weight=weight)
    return model._confidential_state().factor.coefficients


@pytest.mark.slow
def test_targets_of_regressors_are_numbers(patients, rng):
    X, y = patients
    weight = rng.uniform(0.5, 2.0, size=len(y))
    counts = rng.poisson(2.0 * np.exp(0.3 * y)).astype(float)
    for model, target in (
        (PrivateLinearRegression(0.1), y),
        (PrivatePoissonRegressor(0.1, alpha=0.1), counts),
    ):
        pipeline = make_pipeline(SQUARES, model)
        pipeline.fit(X, target, **{f"{pipeline.steps[-1][0]}__sample_weight": weight})
        leakage = attribute_leakage(
            pipeline, X, target, ["(target)", "bmi"], sample_weight=weight, records=[3, 8]
        )
        assert leakage["column"].tolist() == ["(target)", "bmi"] * 2
        step = np.std(target) * spread_left(X, target)[-1]
        for row, cell in zip((3, 8), leakage.iloc[::2].itertuples(), strict=True):
            assert cell.kind == "number"
            gaps = [
                _parameters(pipeline, X, target, row, target[row] + h, weight)
                - _parameters(pipeline, X, target, row, target[row] - h, weight)
                for h in (1e-3, 2e-3)
            ]
            slope = np.linalg.norm(8.0 * gaps[0] - gaps[1]) / 12e-3
            assert cell.fisher_information_loss == pytest.approx(slope / 0.1, rel=1e-6)
            ends = [target[row] - step, target[row] + step]
            # Counts are not negative.
            ends = np.maximum(ends, 0.0 if target is counts else -np.inf)
            points = [_parameters(pipeline, X, target, row, each, weight) for each in ends]
            own = _parameters(pipeline, X, target, row, target[row], weight)
            away = cdist([own], points).max() / 0.1
            assert cell.distance == pytest.approx(away, rel=1e-8)
            assert cell.distance_from_own == pytest.approx(away, rel=1e-8)


@pytest.mark.slow
def test_labels_are_told_apart(patients):
    X, y = patients
    flowers, species = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[species]
    for table, target in ((X, np.where(y > 0, "high", "low")), (flowers, names)):
        pipeline = make_pipeline(SQUARES, PrivateLogisticRegression(0.1, alpha=0.01))
        pipeline.fit(table, target)
        leakage = attribute_leakage(pipeline, table, target, records=[2, 55])
        assert leakage["column"].tolist() == [*table, "(target)"] * 2
        cells = leakage[leakage["column"] == "(target)"]
        labels = np.unique(target)
        for row, cell in zip((2, 55), cells.itertuples(), strict=True):
            points = [_parameters(pipeline, table, target, row, each) for each in labels]
            own = _parameters(pipeline, table, target, row, target[row])
            assert cell.distance == pytest.approx(pdist(points).max() / 0.1, rel=1e-9)
            expected = cdist([own], points).max() / 0.1
            assert cell.distance_from_own == pytest.approx(expected, rel=1e-9)
            assert (cell.kind, cell.n_values) == ("values", len(labels))
            assert cell.share == np.mean(target == target[row])


@pytest.mark.slow
def test_the_target_is_there_where_it_is_private(patients):
    X, y = patients
    X = X[["bmi", "bp"]]
    known = make_pipeline(SQUARES, PrivateLinearRegression(0.1, private_target=False)).fit(X, y)
    assert attribute_leakage(known, X, y)["column"].unique().tolist() == ["bmi", "bp"]
    assert set(attribute_leakage(known, X, y, "(target)")["column"]) == {"(target)"}
    assert set(attribute_leakage(known, X, y, {"label": "(target)"})["column"]) == {"label"}
    # Where distances have no exact answer, they are missing, and the loss is that of the model.
    standard = (X - X.mean()) / X.std()
    for kind in ({"reweighting": "irfil"}, {"noise_covariance": "curvature"}):
        model = PrivateLinearRegression(0.1, **kind).fit(standard, y)
        leakage = attribute_leakage(model, standard, y, ["bmi", "(target)"])
        cells = leakage[leakage["column"] == "(target)"]
        assert cells["gain"].isna().all()
        assert cells["note"].str.contains("no distances").all()
        assert (cells["fisher_information_loss"] > 0.0).all()
    # Without a transformer that looks at the targets, refits find the same.
    held, refitted = (
        attribute_leakage(
            known, X, y, "(target)", records=[4, 9], refit_preprocessing=refit
        ).select_dtypes("number")
        for refit in (False, True)
    )
    np.testing.assert_allclose(refitted, held, rtol=1e-7)


@pytest.mark.slow
def test_numbers_of_a_block_leak_together(patients, trained_anew):
    X, y = patients
    pipeline = make_pipeline(SQUARES, PrivateLogisticRegression(0.1, alpha=0.1)).fit(X, y > 0)
    brute, names = trained_anew(pipeline, X, y > 0), ["bmi", "bp", "s5"]
    leakage = attribute_leakage(pipeline, X, y > 0, {"body": names, "age": "age"}, records=[6, 7])
    assert leakage["column"].tolist() == ["body", "age"] * 2
    sd = X.std(ddof=0)
    for row, cell in zip((6, 7), leakage.iloc[::2].itertuples(), strict=True):
        slopes = [sd[c] * brute.slope(row, c, 0.01 * sd[c]) for c in names]
        expected = np.linalg.norm(np.column_stack(slopes), ord=2) / 0.1
        assert cell.fisher_information_loss == pytest.approx(expected, rel=1e-6)
        assert (cell.kind, cell.sd) == ("numbers", 1.0)
        axis = np.linalg.svd(np.column_stack(slopes))[2][0]
        own = X[names].iloc[row]
        points = []
        for end in (own, own - axis * sd[names], own + axis * sd[names]):
            one = X.iloc[[row]].assign(**end.to_dict())
            encoded = brute.encoded.copy()
            encoded[row] = brute.encode(one)[0]
            model = clone(pipeline[-1]).set_params(noise_scale=0.0, tol=1e-13)
            points.append(model.fit(encoded, y > 0)._confidential_state().factor.coefficients)
        expected = max(pdist(points)[:2]) / 0.1
        assert cell.distance == pytest.approx(expected, rel=1e-5)
    listed = attribute_leakage(pipeline, X, y > 0, [names, "age"], records=[6, 7])
    assert listed["column"].tolist() == ["bmi + bp + s5", "age"] * 2
    np.testing.assert_array_equal(listed["gain"], leakage["gain"])
    for kind in ({"noise_covariance": "curvature"}, {"reweighting": "irfil"}):
        model = PrivateLogisticRegression(0.1, **kind).fit((X - X.mean()) / sd, y > 0)
        block = attribute_leakage(
            model, (X - X.mean()) / sd, y > 0, {"body": names}, records=slice(4)
        )
        expected = model.fisher_information_loss(per="feature", features=[names])[:4, 0]
        np.testing.assert_allclose(block["fisher_information_loss"], expected, rtol=1e-8)


def test_values_of_a_block_are_told_apart_together(patients, rng, trained_anew):
    X, y = patients
    X = X.assign(ward=rng.choice(["a", "b", "c"], size=60), flag=rng.integers(2, size=60))
    encoder = make_column_transformer(
        (OneHotEncoder(), ["ward", "flag"]), (StandardScaler(), ["bmi"])
    )
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    leakage = attribute_leakage(pipeline, X, y, {"where": ["ward", "flag"]})
    joint = X[["ward", "flag"]].drop_duplicates()
    assert (leakage["n_values"] == len(joint)).all()
    brute = trained_anew(pipeline, X, y)
    points = []
    for ward, flag in joint.itertuples(index=False):
        encoded = brute.encoded.copy()
        encoded[5] = brute.encode(X.iloc[[5]].assign(ward=ward, flag=flag))[0]
        model = clone(pipeline[-1]).set_params(noise_scale=0.0)
        points.append(model.fit(encoded, y)._confidential_state().factor.coefficients)
    assert leakage["distance"].iloc[5] == pytest.approx(pdist(points).max() / 0.1, rel=1e-9)
    with pytest.raises(ValueError, match="mixes numbers"):
        attribute_leakage(pipeline, X, y, {"all": ["ward", "bmi"]})
    model = PrivateLinearRegression(0.1, noise_covariance="curvature")
    shaped = make_pipeline(encoder, model).fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="'where'"):
        attribute_leakage(shaped, X, y, {"where": ["ward", "flag"]})


@pytest.mark.slow
def test_more_than_ten_whole_numbers_are_a_quantity_unless_told_otherwise(rng):
    n = 300
    X = pd.DataFrame(
        {
            "children": rng.integers(0, 4, size=n),
            "years": np.arange(n) % 50 + 18,
            "site": np.arange(n) % 12,
            "half": rng.choice([0.0, 0.5, 1.0], size=n),
        }
    )
    y = rng.normal(size=n)
    pipeline = make_pipeline(StandardScaler(), PrivateLinearRegression(0.1)).fit(X, y)

    def kinds(**options):
        found = attribute_leakage(pipeline, X, y, list(X), records=[0], **options)
        return dict(zip(found["column"], found["kind"], strict=True))

    numbers = {"children": "values", "years": "number", "site": "number", "half": "values"}
    assert kinds() == numbers
    assert kinds(nominal="site") == numbers | {"site": "values"}
    assert kinds(nominal=["site", "years"], refit_preprocessing=True)["years"] == "values"
    # Codes that are encoded one by one are values, whatever they look like.
    encoder = make_column_transformer((OneHotEncoder(), ["site"]), (StandardScaler(), ["years"]))
    pipeline = make_pipeline(encoder, PrivateLinearRegression(0.1)).fit(X, y)
    assert kinds()["site"] == "values"
    with pytest.raises(ValueError, match="`nominal` names the unknown column 'sites'"):
        kinds(nominal=["sites"])
