"""Noise for goals about raw columns: enough, not too much, and honest about where it came from."""

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from skleak.channels import GaussianChannel
from skleak.exceptions import PartialBlockWarning, PrivacyLeakWarning
from skleak.inspection import attribute_leakage
from skleak.inspection.refits import RawProblem
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxAdvantage, MaxLeakage, calibrate
from skleak.mechanisms.calibration import ladder_rung
from skleak.utils._confidential import CalibratedNoise

N = 80

pytestmark = pytest.mark.filterwarnings(
    "ignore:The noise scale was read off:skleak.exceptions.PrivacyLeakWarning"
)


@pytest.fixture
def table(rng):
    index = pd.Index([f"p{i}" for i in range(N)])
    return pd.DataFrame(
        {
            "age": rng.uniform(20.0, 80.0, size=N),
            "bmi": rng.normal(25.0, 4.0, size=N),
            "sex": rng.choice(["f", "m"], size=N),
            "ward": rng.choice(["A", "B", "C"], size=N),
            "smokes": rng.integers(2, size=N),
        },
        index=index,
    )


def _pipeline(model):
    encoder = make_column_transformer(
        (make_pipeline(PolynomialFeatures(2), StandardScaler()), ["age", "bmi"]),
        (OneHotEncoder(), ["sex", "ward"]),
        remainder="passthrough",
    )
    return make_pipeline(encoder, model)


def _target(model, table, rng):
    score = 0.04 * table["age"] + (table["sex"] == "m") + rng.normal(size=N)
    if isinstance(model, PrivateLogisticRegression):
        return np.digitize(score, np.quantile(score, [0.3, 0.7]))
    return score.to_numpy()


def _refitted(pipeline, noise, X, y, weights=None):
    again = clone(pipeline).set_params(**{f"{pipeline.steps[-1][0]}__noise_scale": noise})
    given = {} if weights is None else {f"{pipeline.steps[-1][0]}__sample_weight": weights}
    return again.fit(X, y, **given)


GOALS = {
    "number": (MaxLeakage(0.05, features="age"), "age", "fisher_information_loss", 0.05),
    "by position": (MaxLeakage(0.05, features=[1]), [1], "fisher_information_loss", 0.05),
    "values": (MaxLeakage(0.5, features="ward"), "ward", "distance", 0.5),
    "advantage": (MaxAdvantage(0.1, attribute="sex"), "sex", "gain", 0.1),
    "joint values": (MaxAdvantage(0.2, ["sex", "smokes"]), [["sex", "smokes"]], "gain", 0.2),
    "label": (MaxAdvantage(0.2, "(target)"), "(target)", "gain", 0.2),
}


@pytest.mark.parametrize(
    "kind",
    [PrivateLinearRegression, pytest.param(PrivateLogisticRegression, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", mostly_slow(GOALS, 0, 2, 3, 5))
def test_the_goal_is_met_and_with_less_noise_it_is_not(name, kind, table, rng):
    goal, columns, column, limit = GOALS[name]
    pipeline = _pipeline(kind(alpha=0.05))
    y = _target(pipeline[-1], table, rng)
    if name == "label" and kind is PrivateLinearRegression:
        with pytest.raises(ValueError, match="must be categorical"):
            calibrate(pipeline, goal, table, y)
        return
    weights = rng.uniform(0.5, 3.0, size=N)
    weights[3] = 0.0
    noise = calibrate(pipeline, goal, table, y, sample_weight=weights)
    assert isinstance(noise, float)
    assert not hasattr(pipeline, "feature_names_in_")  # the user's object is not fitted
    fitted = _refitted(pipeline, noise, table, y, weights)
    assert fitted[-1].noise_scale_ == noise == ladder_rung(noise)
    largest = attribute_leakage(fitted, table, y, columns, sample_weight=weights)[column].max()
    assert largest <= limit * (1.0 + 1e-9)
    # One rung less would not do.
    lower = _refitted(pipeline, noise / 2**0.501, table, y, weights)
    found = attribute_leakage(lower, table, y, columns, sample_weight=weights)[column].max()
    assert found > limit
    # A fitted pipeline is taken as it is, whatever its noise.
    assert calibrate(fitted, goal, table, y, sample_weight=weights) == noise


@pytest.mark.slow
def test_priors_and_quantiles(table, rng):
    pipeline = _pipeline(PrivateLinearRegression(alpha=0.05))
    y = _target(pipeline[-1], table, rng)
    noise = calibrate(pipeline, MaxAdvantage(0.1, "ward", prior=[0.7, 0.2, 0.1]), table, y)
    fitted = _refitted(pipeline, noise, table, y)
    # By brute force: the ward of every record in turn.
    points = []
    for i in range(0, N, 8):
        own = []
        for ward in ("A", "B", "C"):
            changed = table.copy()
            changed.iloc[i, 3] = ward
            X = fitted[:-1].transform(changed)
            model = PrivateLinearRegression(0.0, alpha=0.05).fit(X, y)
            own.append([*model.coef_, model.intercept_])
        points.append(own)
    advantage = GaussianChannel(np.array(points), noise).bayes_advantage([0.7, 0.2, 0.1])
    assert np.max(advantage) <= 0.1 + 1e-6
    all_records = calibrate(pipeline, MaxLeakage(0.05, "age"), table, y)
    most = calibrate(pipeline, MaxLeakage(0.05, "age", quantile=0.2), table, y)
    assert most < all_records
    # A block of numbers is measured in their own units: no less than each of them.
    both = calibrate(pipeline, MaxLeakage(0.05, ["age", "bmi"]), table, y)
    assert both >= max(all_records, calibrate(pipeline, MaxLeakage(0.05, "bmi"), table, y))


def test_without_transformers_it_is_what_fit_finds(rng):
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    y = X.sum(axis=1) + rng.normal(size=N)
    for goal in (MaxLeakage(0.1, "a"), MaxLeakage(0.1, ["a", "b"])):
        model = PrivateLinearRegression(goal, alpha=0.1)
        expected = clone(model).fit(X, y).noise_scale_
        assert calibrate(model, goal, X, y) == expected
        nested = Pipeline([("inner", make_pipeline("passthrough", model))])
        assert calibrate(nested, goal, X, y) == expected


def test_goals_that_name_no_column(rng):
    X, y = rng.normal(size=(N, 3)), rng.integers(2, size=N)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    promises = {"classes": [0, 1], "public": ("n_samples",), "fit_intercept": False}
    model = PrivateLogisticRegression(alpha=0.1, data_norm=1.0, **promises)
    for goal in (GaussianDP(1.0), EpsilonDelta(1.0, 1e-6)):
        noise = calibrate(make_pipeline("passthrough", model), goal, X, y)
        told = clone(model).set_params(noise_scale=goal, mechanism="output")
        assert noise == told.fit(X, y).noise_scale_
        assert type(noise) is float
    with pytest.raises(ValueError, match="must name raw columns"):
        calibrate(model, MaxLeakage(0.5), X, y)


def test_a_number_read_off_the_records_carries_no_guarantee(rng):
    X, y = rng.normal(size=(N, 3)), rng.integers(2, size=N)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    promises = {"classes": [0, 1], "public": ("n_samples",), "fit_intercept": False}
    model = PrivateLogisticRegression(alpha=0.1, data_norm=1.0, **promises)
    noise = calibrate(model, MaxLeakage(0.5, [0]), X, y)
    assert isinstance(noise, CalibratedNoise)
    read = clone(clone(model).set_params(noise_scale=noise)).fit(X, y)
    guarantee = read.leakage_report().differential_privacy
    assert not guarantee.holds
    assert any("read off" in reason for reason in guarantee.reasons)
    plain = clone(model).set_params(noise_scale=float(noise)).fit(X, y)
    assert plain.leakage_report().differential_privacy.holds


def test_noise_that_tells_a_value_is_warned_of(table, rng):
    y = (rng.random(N) < 0.5).astype(int)
    X, pipeline = table[["age", "smokes"]], make_pipeline(PrivateLogisticRegression(alpha=0.05))
    other = X.copy()
    other.loc["p0", "smokes"] = 1 - other.loc["p0", "smokes"]

    def needed(X):
        return MaxLeakage(1.0, "smokes").resolve(RawProblem.of(pipeline, X, y))

    # Between the two: the edge of the rung 1.
    goal = MaxLeakage(np.sqrt(needed(X) * needed(other)), "smokes")
    with pytest.warns(PrivacyLeakWarning, match="value of 'smokes'"):
        both = calibrate(pipeline, goal, X, y), calibrate(pipeline, goal, other, y)
    assert both[0] != both[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrate(pipeline, MaxLeakage(0.1, "age"), X, y)


def test_inside_fit_no_loss_is_about_the_target(table, rng):
    y = (rng.random(N) < 0.5).astype(int)
    for model in (PrivateLogisticRegression(), PrivateLinearRegression()):
        model.set_params(noise_scale=MaxLeakage(1.0, features="(target)"))
        with pytest.raises(ValueError, match=r"names the target.*calibrate"):
            model.fit(table[["age", "bmi"]], y)


@pytest.mark.slow
def test_what_cannot_be_calibrated(table, rng):
    pipeline = _pipeline(PrivateLinearRegression(alpha=0.05))
    y = _target(pipeline[-1], table, rng)
    goal = MaxLeakage(0.05, "age")
    with pytest.raises(TypeError, match="must be a noise goal"):
        calibrate(pipeline, 0.5, table, y)
    with pytest.raises(TypeError, match="private estimator"):
        calibrate(make_pipeline(LogisticRegression()), goal, table, y)
    with pytest.raises(ValueError, match="unknown column 'size'"):
        calibrate(pipeline, MaxLeakage(0.05, "size"), table, y)
    with pytest.raises(ValueError, match="must be categorical"):
        calibrate(pipeline, MaxAdvantage(0.1, "age"), table, y)
    shaped = _pipeline(PrivateLinearRegression(alpha=0.05, noise_covariance="curvature"))
    with pytest.raises(ValueError, match="covariance"):
        calibrate(shaped, goal, table, y)
    fitted = clone(pipeline).fit(table, y)
    with pytest.raises(ValueError, match="training data"):
        calibrate(fitted, goal, table.iloc[::-1], y)
    assert fitted[-1].noise_scale == 0.01  # as it was


def test_inside_fit_goals_name_what_the_model_sees(table, rng):
    y = _target(PrivateLinearRegression(), table, rng)
    wards = make_column_transformer((OneHotEncoder(sparse_output=False), ["ward", "sex"]))
    wards.set_output(transform="pandas")
    for goal in (MaxLeakage(0.1, features="ward"), MaxAdvantage(0.1, attribute="ward")):
        pipeline = make_pipeline(wards, PrivateLinearRegression(goal))
        with pytest.raises(ValueError, match="calibrate"):
            pipeline.fit(table, y)
    with pytest.raises(ValueError, match="calibrate"):  # arrays have no names at all
        _pipeline(PrivateLinearRegression(MaxLeakage(0.1, "age"))).fit(table, y)


@pytest.mark.slow
@pytest.mark.parametrize("order", mostly_slow([[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]], 1))
@pytest.mark.parametrize("scaled", mostly_slow([False, True], 1))
def test_one_column_of_a_block_warns(order, scaled, rng):
    codes = np.arange(N) % 3
    X = np.column_stack([np.eye(3)[codes], rng.normal(size=N), rng.integers(2, size=N)])
    X = (X - X.mean(axis=0)) / X.std(axis=0) if scaled else X
    names = np.array(["w=A", "w=B", "w=C", "age", "smokes"])
    X = pd.DataFrame(X[:, order], columns=names[order])
    y = X["age"] + codes + 0.1 * rng.normal(size=N)
    for goal in (MaxLeakage(1.0, features="w=B"), MaxAdvantage(0.1, attribute=["w=A", "w=B"])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                PrivateLinearRegression(goal).fit(X, y)
            except ValueError as error:  # a rung may move; the warning comes before
                assert "rung" in str(error)  # noqa: PT017
        found = [each for each in caught if each.category is PartialBlockWarning]
        assert len(found) == 1
        assert all(name in str(found[0].message) for name in ("w=A", "w=B", "w=C"))
        assert "smokes" not in str(found[0].message)
    whole = ["w=A", "w=B", "w=C"]
    for features in (whole, "age", "smokes", None):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                PrivateLinearRegression(MaxLeakage(1.0, features=features)).fit(X, y)
            except ValueError as error:
                assert "rung" in str(error)  # noqa: PT017


@pytest.mark.slow
@pytest.mark.parametrize("labels", [2, 3])
def test_inside_fit_a_goal_may_be_about_the_label(labels, rng):
    X, y = rng.normal(size=(N, 2)), np.arange(N) % labels
    found = 0
    for advantage in (0.2, 0.23, 0.26):  # of one of these no label is near the edge of a rung
        goal = MaxAdvantage(advantage, "(target)")
        model = PrivateLogisticRegression(goal, alpha=0.1)
        try:
            model.fit(X, y)
        except ValueError as error:
            assert "rung" in str(error)  # noqa: PT017
            continue
        assert model.noise_scale_ == calibrate(clone(model), goal, X, y)
        fixed = clone(model).set_params(noise_scale=model.noise_scale_).fit(X, y)
        gain = attribute_leakage(fixed, X, y, "(target)")["gain"].max()
        assert gain <= advantage
        moves = model.leakage_report().dataset["n_records_moving_rung"]
        assert set(moves) == {"x0", "x1"}
        found += 1
    assert found
    with pytest.raises(ValueError, match="must be categorical"):
        PrivateLinearRegression(MaxAdvantage(0.1, "(target)")).fit(X, X[:, 0])
