"""Bounds on whole records for attackers who know means and covariances of the columns."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose

from skleak.attacks import InformedReconstruction
from skleak.audit import LeakageAuditor
from skleak.audit.games.records._prior import NormalPrior, RecordBounds, record_bounds
from skleak.bounds import van_trees_mse
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import EvenTotal

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
SEED = np.random.SeedSequence(0)


def make_problem(estimator, rng, n=30, d=2):
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    a = X @ np.linspace(1.0, -0.6, d) + 0.2
    if estimator is PrivateLogisticRegression:
        return X, (a + rng.logistic(size=n) > 0).astype(int)
    if estimator is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(0.3 * a))
    return X, a + rng.normal(size=n)


def fitted(estimator, X, y, **options):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y))
    model = estimator(0.0, alpha=0.1, **options).fit(X, y, sample_weight=weights)
    return model._confidential_state().at_noise(1.0), weights


def by_refits(estimator, X, y, weights, row, z, options, step=1e-4):
    """Jacobian at a record that is another, by differences of fits, (p, d)."""
    columns = []
    for j in range(X.shape[1]):
        ends = []
        for sign in (1.0, -1.0):
            changed = X.copy()
            changed[row] = z
            changed[row, j] += sign * step
            fit = estimator(0.0, alpha=0.1, **options).fit(changed, y, sample_weight=weights)
            ends.append(np.append(fit.coef_, [fit.intercept_] if fit.fit_intercept else []))
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    return np.column_stack(columns)


@pytest.mark.parametrize("estimator", mostly_slow(ESTIMATORS))
def test_is_van_trees_by_refits(estimator, rng, monkeypatch):
    """Every draw refitted, the information of the mean of all, inverted with that of the prior."""
    monkeypatch.setattr("skleak.audit.games.records._prior._DRAWS", 8)
    X, y = make_problem(estimator, rng)
    for options in ({"fit_intercept": True}, {"fit_intercept": False}):
        state, weights = fitted(estimator, X, y, **options)
        prior = NormalPrior.of("marginal", X, y.astype(float), np.array([3]))
        others = np.delete(X, 3, axis=0)
        assert_allclose(prior.mean[0], others.mean(axis=0))
        assert_allclose(prior.covariance(0), np.cov(others.T, ddof=0))
        assert_allclose(prior.variance(), others.var(axis=0).mean())
        known = RecordBounds.of(state, np.array([3]), prior, SEED)
        sizes, axes = np.linalg.eigh(prior.covariance(0))
        draws = np.random.default_rng(SEED).normal(size=(8, 2)) @ (axes * np.sqrt(sizes)).T
        information = np.zeros((2, 2))
        for z in prior.mean[0] + draws:
            jacobian = by_refits(estimator, X, y, weights, 3, z, options)
            information += jacobian.T @ jacobian / 8
        for noise in (0.01, 0.1, 1.0):
            expected = van_trees_mse(information / noise**2, np.linalg.inv(prior.covariance(0)))
            ratio = known.values[0, 0] / noise**2
            found = (known.shares[0, 0] / (1.0 + ratio)).mean()
            assert found == pytest.approx(expected, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_attacker_with_the_prior_beats_it(estimator, rng):
    """The posterior mean over draws from the prior, each refitted: the best there is."""
    X, y = make_problem(estimator, rng)
    state, weights = fitted(estimator, X, y)
    rows = np.array([0, 7])
    prior = NormalPrior.of("marginal", X, y.astype(float), rows)
    known = RecordBounds.of(state, rows, prior, SEED)
    for i, row in enumerate(rows):
        root = np.linalg.cholesky(prior.covariance(i))
        z = prior.mean[i] + rng.normal(size=(500, 2)) @ root.T
        points = []
        for each in z:
            changed = X.copy()
            changed[row] = each
            fit = estimator(0.0, alpha=0.1).fit(changed, y, sample_weight=weights)
            points.append(np.append(fit.coef_, fit.intercept_))
        points = np.array(points)
        step = np.linalg.norm(points.std(axis=0))
        for noise in (0.3 * step, step, 5.0 * step):
            releases = points[:200] + noise * rng.normal(size=(200, 3))
            gaps = ((releases[:, None] - points[200:]) ** 2).sum(axis=2)
            odds = np.exp(-0.5 * (gaps - gaps.min(axis=1, keepdims=True)) / noise**2)
            guesses = odds @ z[200:] / odds.sum(axis=1, keepdims=True)
            errors = ((guesses - z[:200]) ** 2).mean(axis=1)
            bound = record_bounds(known, noise)["van_trees"][i]
            mean, spread = errors.mean(), errors.std() / np.sqrt(200.0)
            assert mean + 5.0 * spread >= bound
            # And where the noise is large it is not far off.
            assert noise < 3.0 * step or bound > 0.7 * mean


def test_limits_and_priors(rng):
    X, y = make_problem(PrivateLinearRegression, rng, d=3)
    X = np.column_stack([X[:, :1], X[:, 1] > 0.0, X[:, 1] <= 0.0, np.ones(30)])  # singular
    state, _ = fitted(PrivateLinearRegression, X, y)
    rows = np.arange(4)
    variances = {}
    for prior in ("marginal", "conditional", np.diag([2.0, 0.0, 1.0, 0.0])):
        normal = NormalPrior.of(prior, X, y, rows)
        known = RecordBounds.of(state, rows, normal, SEED)
        name = prior if isinstance(prior, str) else "given"
        variances[name] = normal.variance()
        assert_allclose(record_bounds(known, 1e6)["van_trees"], normal.variance(), rtol=1e-6)
        quiet = record_bounds(known, 0.0)["van_trees"]
        assert (quiet <= normal.variance() * 1e-9 + 1e-12).all()
        levels = [record_bounds(known, noise)["estimate"] for noise in (0.01, 0.1, 1.0, 10.0)]
        assert (np.diff(levels, axis=0) >= 0.0).all()
    assert_allclose(variances["given"], 0.75)
    assert (variances["conditional"] < variances["marginal"]).all()
    assert NormalPrior.of("uniform", X, y, rows) is None
    for wrong, match in (
        (np.eye(3), "shape"),
        (np.diag([1.0, 1.0, 1.0, -1.0]), "negative eigenvalue"),
        (np.triu(np.ones((4, 4))), "symmetric"),
    ):
        with pytest.raises(ValueError, match=match):
            NormalPrior.of(wrong, X, y, rows)


@pytest.mark.slow
def test_a_sample_of_the_records_stands_for_all(rng, monkeypatch):
    X, y = make_problem(PrivateLinearRegression, rng, n=60)
    module = "skleak.audit.games.records._prior"
    step = 0.05
    run = LeakageAuditor(PrivateLinearRegression(alpha=0.1), noise_scales=[step], n_releases=3)
    exact = run.fit(X, y).results_["share_at_most"][0]
    for name, value in (("_MOST_WORK", 0.0), ("_FEWEST", 20)):
        monkeypatch.setattr(f"{module}.{name}", value)
    report = run.fit(X, y).report_
    assert report.results["n_computed"][0] == 20
    assert report.records["share_at_most"].notna().sum() == 20
    assert exact <= report.results["share_at_most"][0] <= 1.0
    assert any("20 of the 60 records" in line for line in report.assumptions)
    assert report.to_html()


def test_reports_judge_whole_records(rng):
    X, y = make_problem(PrivateLinearRegression, rng, n=60)
    model = PrivateLinearRegression(alpha=0.1)
    both = {
        "known": InformedReconstruction(model),
        "target too": InformedReconstruction(model, known_target=False),
    }
    auditor = LeakageAuditor(model, attacks=both, noise_scales=[1e-6, 10.0], n_releases=5)
    report = auditor.fit(X, y).report_
    table = report.largest_advantages()
    assert not table["at_least"].any()
    assert table["advantage"].iloc[0] > 0.9
    assert table["advantage"].iloc[1] < 0.01
    assert report.to_dict()["decision"]["status"] == "kept"
    rows = report.results.set_index(["attack", "noise_scale"])
    assert rows.loc[("known", 1e-6), "share_removed"] > 0.9
    # Of an attack that guesses the target as well no share of the columns is known.
    assert np.isnan(rows.loc[("target too", 1e-6), "share_removed"])
    assert rows["share_at_most"].notna().all()
    assert not (report.results["verdict"] == "bound exceeded").any()
    person = report.person(4)
    assert person.table["bound_name"].tolist() == ["van_trees", "van_trees"]
    assert "whole record" in person.findings[0]
    # What weights that follow the data tell is not bounded.
    even = PrivateLinearRegression(alpha=0.1, reweighting=EvenTotal())
    unknown = LeakageAuditor(even, noise_scales=[10.0], n_releases=2, records=range(3)).fit(X, y)
    assert unknown.report_.largest_advantages()["at_least"].all()
