"""A number, and one a standard deviation lower or higher: how well they are told apart."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.adversary.hypotheses import model_parameters, noiseless
from skleak.adversary.knowledge import spread_left
from skleak.audit import LeakageAuditor
from skleak.audit.games._game import Task
from skleak.audit.games.attribute._game import attribute_game
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.noise import noise_covariance
from skleak.linear_model import (
    IRFIL,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxLeakage
from skleak.metrics.verdicts import INCOMPARABLE

NOISE = 0.3
SHAPE = np.array([[2.0, 0.4, 0.0], [0.4, 1.0, 0.1], [0.0, 0.1, 0.5]])


def make_problem(rng, n=40):
    X = rng.normal(size=(n, 2)) @ [[1.0, 0.6], [0.0, 1.0]]
    mean = X @ [1.0, -0.6]
    return X, {
        "squared": mean + rng.normal(size=n),
        "logistic": (mean + rng.logistic(size=n) > 0.0).astype(int),
        "poisson": rng.poisson(np.exp(0.3 * mean)),
    }


def refitted(model, X, y, weights, row, value):
    changed = X.copy()
    changed[row, 1] = value
    return model_parameters(noiseless(model).fit(changed, y, **weights))


CASES = {
    "squared": PrivateLinearRegression(alpha=0.1),
    "shaped": PrivateLinearRegression(alpha=0.1, noise_covariance=SHAPE),
    "logistic": PrivateLogisticRegression(alpha=0.1),
    "poisson": PrivatePoissonRegressor(alpha=0.1),
    "reweighted": PrivateLinearRegression(alpha=0.1, reweighting=IRFIL()),
    "another maker's": Ridge(alpha=3.0),
}


@pytest.mark.parametrize("name", mostly_slow(list(CASES), 2))
def test_distances_are_those_of_refits(name, rng):
    X, targets = make_problem(rng)
    y, model = targets.get(name, targets["squared"]), CASES[name]
    weights = {} if name == "reweighted" else {"sample_weight": rng.uniform(0.5, 2.0, len(y))}
    auditor = LeakageAuditor(
        model, 1, attacks="white_box", noise_scales=[0.0, NOISE], n_releases=2, records=[0, 5, 9]
    )
    records = auditor.fit(X, y, **weights).records_
    quiet, found = (records[records["noise_scale"] == s].reset_index() for s in (0.0, NOISE))
    step = found["step"].to_numpy()
    assert_allclose(step, X[:, 1].std() * spread_left(X)[1])
    shape = SHAPE * 3.0 / np.trace(SHAPE) if name == "shaped" else np.eye(3)
    for k, row in enumerate((0, 5, 9)):
        own, *ends = (
            refitted(model, X, y, weights, row, X[row, 1] + sign * step[k]) for sign in (0, -1, 1)
        )
        gaps = [np.linalg.solve(np.linalg.cholesky(shape), end - own) for end in ends]
        expected = max(map(np.linalg.norm, gaps)) / NOISE
        assert found["distance"][k] == pytest.approx(expected, rel=1e-3)
    distance = found["distance"].to_numpy()
    assert_allclose(found["exposure"], 2.0 * stats.norm.cdf(0.5 * distance) - 1.0)
    assert_allclose(found["advantage_any_prior"], found["exposure"])
    assert_allclose(found["found_at_1pct"], stats.norm.sf(stats.norm.isf(0.01) - distance))
    assert np.isinf(quiet["distance"]).all()
    assert (quiet[["exposure", "found_at_1pct"]] == 1.0).all(axis=None)
    results = auditor.results_.set_index("noise_scale")
    assert results.loc[NOISE, "distance"] == distance.max()
    assert results.loc[NOISE, "n_above"] == np.sum(found["exposure"] > 0.05)


@pytest.mark.parametrize("shape", mostly_slow(["isotropic", "curvature", "minimax"], 2))
def test_power_and_advantage_of_the_best_test_between_both_numbers(shape, rng):
    """Played: releases under the number itself and a step off, and the ratio of their densities."""
    X, targets = make_problem(rng)
    y, n = targets["squared"], 40_000
    model = PrivateLinearRegression(alpha=0.1, noise_covariance=shape)
    game = attribute_game(
        Task(estimator=model, table=X, y=y, attribute=1, records=[3], prior="auto"), [0, 1, 2, 3]
    )
    step = game.step[0]
    values = X[3, 1] + step * np.array([0.0, -1.0, 1.0])
    points = np.stack([refitted(model, X, y, {}, 3, value) for value in values])
    shapes = []
    for value in values:
        changed = X.copy()
        changed[3, 1] = value
        state = clone(model).set_params(noise_scale=1.0).fit(changed, y)._confidential_state()
        shapes.append(noise_covariance(state))
    game.prepare([0, 1, 2, 3])
    assert game.exposures(NOISE).shape == (1,)
    gaps = np.linalg.solve(np.linalg.cholesky(shapes[0]), (points[1:] - points[0]).T)
    largest = np.linalg.norm(gaps, axis=0).max()
    for noise in (0.4 * largest, largest):
        columns = game.any_prior(noise)
        power, advantage = [], []
        for m in (1, 2):
            laws = [stats.multivariate_normal(points[k], noise**2 * shapes[k]) for k in (0, m)]
            ratios = []
            for law in laws:
                drawn = law.rvs(n, random_state=rng)
                ratios.append(laws[1].logpdf(drawn) - laws[0].logpdf(drawn))
            power.append(np.mean(ratios[1] > np.quantile(ratios[0], 0.99)))
            power.append(np.mean(-ratios[0] > np.quantile(-ratios[1], 0.99)))
            advantage.append(np.mean(ratios[1] > 0.0) - np.mean(ratios[0] > 0.0))
        slack = 0.0 if shape == "isotropic" else 0.1
        for played, stated in ((power, "found_at_1pct"), (advantage, "exposure")):
            # Five standard errors; of equal covariances it is reached.
            assert columns[stated][0] >= max(played) - 0.02
            assert columns[stated][0] <= max(played) + 0.02 + slack


@pytest.mark.slow
def test_what_other_columns_tell_is_the_prior_of_numbers_alone(rng):
    """A number that the others determine: whoever knows them learns nothing from the release."""
    X = rng.normal(size=(60, 3))
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=60)
    X[:, 2] = X[:, 2] > 0.0
    y = X @ [1.0, 1.0, 0.5] + rng.normal(size=60)
    model = PrivateLinearRegression(1.0, alpha=0.1)

    def fitted(attribute, **options):
        auditor = LeakageAuditor(model, attribute, n_releases=4, records=range(12), **options)
        return auditor.fit(X, y).report_

    number, marginal, values = fitted(1), fitted(1, prior="marginal"), fitted(2)
    assert [each.settings["prior"] for each in (number, marginal, values)] == [
        "conditional",
        "marginal",
        "marginal",
    ]
    assert number.results["prior_variance"][0] < 0.1 * marginal.results["prior_variance"][0]
    # What is judged does not depend on the prior.
    for name in ("step", "distance", "exposure"):
        assert_allclose(number.records[name], marginal.records[name])
    verdicts = {
        each.settings["prior"]: each.results.set_index("attack")["verdict"] == INCOMPARABLE
        for each in (number, marginal)
    }
    # What stacks answers about others knows more than the prior does.
    assert verdicts["conditional"].index[verdicts["conditional"]].tolist() == ["combined"]
    assert verdicts["marginal"][["prior", "imputation", "black_box"]].all()
    assert not verdicts["marginal"][["white_box", "posterior_mean"]].any()


@pytest.mark.slow
def test_models_that_are_only_asked_have_no_exposure_and_are_played():
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(5, random_state=0)
    report = LeakageAuditor(forest, 2, n_releases=2).fit(X, y).report_
    table = report.results.set_index("attack")
    assert report.settings["prior"] == "conditional"
    assert {"black_box", "black_box_proba", "imputation"} <= set(table.index)
    names = ["distance", "advantage_any_prior", "found_at_1pct", "exposure"]
    assert table[[*names, "n_above"]].isna().all(axis=None)
    assert report.records[names].isna().all(axis=None)


@pytest.mark.slow
def test_persons_of_one_row_each_are_rows_and_of_several_refused(rng):
    X, targets = make_problem(rng)
    y, names = targets["squared"], np.arange(40) + 100
    auditor = LeakageAuditor(PrivateLinearRegression(1.0), 1, n_releases=2, records=[3, 8])
    rows = auditor.fit(X, y).records_
    persons = auditor.fit(X, y, persons=names).records_
    assert persons["label"].tolist() == [103, 108]
    for name in ("step", "distance", "exposure", "share_at_most"):
        assert_allclose(persons[name], rows[name])
    with pytest.raises(AttackNotApplicableError, match="several rows"):
        auditor.fit(X, y, persons=names // 2)


@pytest.mark.slow
def test_what_is_not_known_is_not_stated(rng):
    X, targets = make_problem(rng, n=60)
    auditor = LeakageAuditor(
        PrivateLinearRegression(MaxLeakage(0.5), alpha=0.1), 1, n_releases=2, records=range(3)
    )
    table = auditor.fit(X, targets["squared"]).results_
    assert table[["distance", "exposure", "n_above"]].isna().all(axis=None)


@pytest.mark.slow
def test_numbers_behind_preprocessing_that_is_refitted(rng):
    """And whole ages in a frame beside categories; the target as the secret."""
    n = 30
    frame = pd.DataFrame({"age": rng.integers(20, 80, n), "ward": rng.choice(["a", "b", "c"], n)})
    y = 0.05 * frame["age"].to_numpy() + rng.normal(size=n)
    model = make_pipeline(
        make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["ward"])),
        LinearRegression(),
    )
    options = {"noise_scales": [0.1], "n_releases": 2, "records": [4], "attacks": "white_box"}
    whole = LeakageAuditor(model, "age", refit_preprocessing=True, **options).fit(frame, y)
    found = whole.records_.iloc[0]
    ends = []
    for sign in (0, -1, 1):
        changed = frame.astype({"age": float})
        changed.loc[4, "age"] += sign * found["step"]
        ends.append(model_parameters(clone(model).fit(changed, y)))
    gaps = [np.linalg.norm(end - ends[0]) for end in ends[1:]]
    assert found["distance"] == pytest.approx(max(gaps) / 0.1, rel=1e-9)
    target = LeakageAuditor(PrivateLinearRegression(alpha=0.1), "(target)", **options)
    X = frame[["age"]].to_numpy(float)
    found = target.fit(X, y).records_.iloc[0]
    moved = y.copy()
    moved[4] += found["step"]
    parts = (
        model_parameters(PrivateLinearRegression(0.0, alpha=0.1).fit(X, each))
        for each in (y, moved)
    )
    assert found["distance"] == pytest.approx(np.linalg.norm(np.subtract(*parts)) / 0.1, rel=1e-6)
