"""Bounds on whole records for attackers who know means and covariances of the columns."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, stats
from scipy.spatial.distance import pdist
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skleak.attacks import InformedReconstruction
from skleak.audit import LeakageAuditor
from skleak.audit.games._game import Task
from skleak.audit.games._secret import RecordsGame
from skleak.exceptions import NoMinimizerWarning
from skleak.influence.records import NormalPrior, RecordBounds, _root
from skleak.linear_model import (
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

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
    monkeypatch.setattr("skleak.influence.records.DRAWS", 8)
    X, y = make_problem(estimator, rng)
    for options in ({"fit_intercept": True}, {"fit_intercept": False}):
        state, weights = fitted(estimator, X, y, **options)
        prior = NormalPrior.of("marginal", X, y.astype(float), np.array([3]))
        others = np.delete(X, 3, axis=0)
        assert_allclose(prior.mean[0], others.mean(axis=0))
        assert_allclose(prior.covariance[0], np.cov(others.T, ddof=0))
        assert_allclose(prior.variance(), others.var(axis=0).mean())
        known = RecordBounds(state, np.array([3]), prior, SEED)
        root = _root(prior.covariance[0])
        assert_allclose(root @ root.T, prior.covariance[0])
        draws = np.random.default_rng(SEED).normal(size=(8, 2)) @ root.T
        information = np.zeros((2, 2))
        for z in prior.mean[0] + draws:
            jacobian = by_refits(estimator, X, y, weights, 3, z, options)
            information += jacobian.T @ jacobian / 8
        for noise in (0.01, 0.1, 1.0):
            before = prior.covariance[0]
            after = np.linalg.inv(information / noise**2 + np.linalg.inv(before))
            removed = known._removed(noise)[0, 0]
            error = (known.variances[0, 0] * (1.0 - removed)).sum()
            assert error == pytest.approx(np.trace(after) / 2.0, rel=2e-3)
            columns = 1.0 - np.diag(after) / np.diag(before)
            assert_allclose(known.shares[0] @ removed, columns, rtol=2e-3)
            # Of all combinations of columns, by brute force.
            angles = np.linspace(0.0, np.pi, 20_001)
            u = np.stack([np.cos(angles), np.sin(angles)]) / np.sqrt(np.diag(before))[:, None]
            each = 1.0 - np.sum(u * (after @ u), axis=0) / np.sum(u * (before @ u), axis=0)
            assert removed[-1] == pytest.approx(each.max(), rel=2e-3)
            assert removed[-1] <= known.exposures(noise)[0] <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_attacker_with_the_prior_beats_it(estimator, rng):
    """The posterior mean over draws from the prior, each refitted: the best there is."""
    X, y = make_problem(estimator, rng)
    state, weights = fitted(estimator, X, y)
    rows = np.array([0, 7])
    prior = NormalPrior.of("marginal", X, y.astype(float), rows)
    known = RecordBounds(state, rows, prior, SEED)
    for i, row in enumerate(rows):
        root = np.linalg.cholesky(prior.covariance[i])
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
            bound = known.outcome(noise)["van_trees"][i]
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
        known = RecordBounds(state, rows, normal, SEED)
        name = prior if isinstance(prior, str) else "given"
        variances[name] = normal.variance()
        assert_allclose(known.outcome(1e6)["van_trees"], normal.variance(), rtol=1e-6)
        quiet = known.outcome(0.0)["van_trees"]
        assert (quiet <= normal.variance() * 1e-9 + 1e-12).all()
        levels = [known.outcome(noise)["estimate"] for noise in (0.01, 0.1, 1.0, 10.0)]
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
def test_of_many_records_some_are_attacked(rng, monkeypatch):
    X, y = make_problem(PrivateLinearRegression, rng, n=60)
    module = "skleak.audit.games._secret"
    options = {"noise_scales": [0.05], "n_releases": 3}
    model = PrivateLinearRegression(alpha=0.1)
    whole = LeakageAuditor(model, **options).fit(X, y).records_.set_index("record")
    for name, value in (("_MOST_WORK", 0.0), ("_FEWEST", 20)):
        monkeypatch.setattr(f"{module}.{name}", value)
    report = LeakageAuditor(model, **options).fit(X, y).report_
    assert report.settings["sampled"]
    assert report.settings["n_targets"] == 20
    some = report.records.set_index("record")
    assert np.diff(some.index).max() > 1
    # As among all of them, but for the draws.
    assert_allclose(some["exposure"], whole.loc[some.index, "exposure"], atol=0.2)
    assert report.decision()["verdict"] == "not_kept"
    assert report.decision(limit=0.99999)["verdict"] == "sample"
    assert report.to_html()
    # Those that are named are attacked.
    named = LeakageAuditor(model, records=range(30), **options).fit(X, y).report_
    assert not named.settings["sampled"]
    assert named.settings["n_targets"] == 30


class Linear:
    """Fits whose release is linear in the record: one information whatever the record is."""

    def __init__(self, jacobian):
        self.information = jacobian.T @ jacobian

    def informations(self, row, z, root):
        return np.repeat((root.T @ self.information @ root)[None], 8, axis=0)


@pytest.mark.parametrize("d", [2, 4])
def test_the_bayes_attacker_on_a_linear_release_reaches_it(d, rng, monkeypatch):
    """Played: release and record are jointly normal, and the best guess is a regression."""
    jacobian, n = rng.normal(size=(d - 1, d)), 200_000
    root = rng.normal(size=(d, d)) * np.logspace(0.0, 3.0, d)[:, None]
    covariance = root @ root.T  # in very different units
    prior = NormalPrior(np.zeros((1, d)), covariance[None])
    fits = Linear(jacobian)
    monkeypatch.setattr(f"{RecordBounds.__module__}._Fits", lambda state: fits)
    known = RecordBounds(None, np.array([0]), prior, SEED)
    z = rng.normal(size=(n, d)) @ root.T
    for noise in (1.0, 300.0, 1e5):
        release = z @ jacobian.T + noise * rng.normal(size=(n, d - 1))
        seen = jacobian @ covariance @ jacobian.T + noise**2 * np.eye(d - 1)
        guess = release @ np.linalg.solve(seen, jacobian @ covariance)
        played = 1.0 - np.mean((z - guess) ** 2, axis=0) / z.var(axis=0)
        removed = known._removed(noise)[0, 0]
        assert_allclose(known.shares[0] @ removed, played, atol=0.02)
        # The combination of columns that is told best, found on one half and played on the other.
        half = n // 2
        after = np.cov((z - guess)[:half].T)
        u = linalg.eigh(after, np.cov(z[:half].T), subset_by_index=[0, 0])[1][:, 0]
        best = 1.0 - np.var(((z - guess) @ u)[half:]) / np.var((z @ u)[half:])
        assert known.exposures(noise)[0] == pytest.approx(best, abs=0.02)
        assert known.exposures(noise)[0] >= played.max() - 0.02


@pytest.mark.slow
def test_units_change_nothing(rng):
    """With noise that is the same in the new units, and no penalty."""
    X, y = make_problem(PrivateLinearRegression, rng, n=50)
    units = np.array([1000.0, 1e-3])
    change = np.append(1.0 / units, 1.0)
    found = []
    for table, shape in ((X, np.eye(3)), (X * units, np.diag(change**2))):
        model = PrivateLinearRegression(alpha=0.0, noise_covariance=shape)
        scale = 0.2 * np.sqrt(np.trace(shape) / 3.0)
        auditor = LeakageAuditor(model, noise_scales=scale, n_releases=2, records=range(8))
        found.append(auditor.fit(table, y).records_)
    for name in ("exposure", "share_at_most", "van_trees", "cramer_rao", "prior_variance"):
        assert_allclose(found[0][name], found[1][name], rtol=1e-5)
    assert (found[0]["exposed_column"] == found[1]["exposed_column"]).all()


@pytest.mark.slow
def test_a_column_read_with_certainty_is_not_hidden_by_one_of_large_spread(rng):
    n = 80
    X = np.column_stack([1000.0 * rng.normal(size=n), rng.random(n) < 0.3])
    y = X @ [1e-3, 2.0] + 0.5 * rng.normal(size=n)
    model, noise = PrivateLinearRegression(alpha=1e-3), 0.002
    report = LeakageAuditor(model, noise_scales=noise, n_releases=3).fit(X, y).report_
    at = report.records
    assert (at["exposure"] > 0.99).mean() > 0.9
    assert report.results["exposure"][0] > 0.99
    assert report.results["n_above"][0] == n
    # Played: who compares the release with the fits of both values.
    row = 7
    fits = []
    for value in (0.0, 1.0):
        changed = X.copy()
        changed[row, 1] = value
        fit = PrivateLinearRegression(0.0, alpha=1e-3).fit(changed, y)
        fits.append(np.append(fit.coef_, fit.intercept_))
    distance = np.linalg.norm(np.subtract(*fits)) / noise
    assert at["exposure"][row] + 1e-6 >= 2.0 * ndtr(0.5 * distance) - 1.0 > 0.99


@pytest.mark.slow
def test_whoever_knows_that_a_column_is_0_or_1_stays_below(rng):
    """The posterior mean of the column, and its likeliest value, under any prevalence."""
    n = 60
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.3])
    y = X @ [1.0, 1.0] + rng.normal(size=n)
    model = PrivateLinearRegression(alpha=1e-3)
    game = RecordsGame(Task(estimator=model, table=X, y=y, records=range(6)), [0, 1, 2, 3])
    game.prepare([0, 1, 2, 3])
    beaten = 0
    for noise in (0.02, 0.05, 0.1, 0.3):
        stated, together = game.exposures(noise), game._bounds.exposures(noise)
        for row in range(6):
            fits = []
            for value in (0.0, 1.0):
                changed = X.copy()
                changed[row, 1] = value
                fit = PrivateLinearRegression(0.0, alpha=1e-3).fit(changed, y)
                fits.append(np.append(fit.coef_, fit.intercept_))
            distance = np.linalg.norm(np.subtract(*fits)) / noise
            t = np.linspace(-8.0, distance + 8.0, 4001)
            for prevalence in (0.01, 0.3, 0.5, 0.9):
                ones = prevalence * stats.norm.pdf(t, distance)
                zeros = (1.0 - prevalence) * stats.norm.pdf(t)
                left = np.trapezoid(ones * zeros / (ones + zeros), t)
                removed = 1.0 - left / (prevalence * (1.0 - prevalence))
                right = np.trapezoid(np.maximum(ones, zeros), t)
                most = max(prevalence, 1.0 - prevalence)
                assert removed <= stated[row] + 1e-6
                assert (right - most) / (1.0 - most) <= stated[row] + 1e-6
                columns = game._bounds.shares[row] @ game._bounds._removed(noise)[row, 0]
                beaten += removed > columns[1]
        assert (stated >= together).all()
    assert beaten  # by which a normal prior alone would be refuted


@pytest.mark.slow
def test_distances_of_values_of_whole_records_are_those_of_refits(rng):
    """Strings behind one-hot columns, 0/1 columns that are one, a flag, a count, and a number."""
    n, noise = 40, 0.1
    level = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "ward": rng.choice(["a", "b", "c", "d"], n),
            "low": (level == 0).astype(int),
            "high": (level == 1).astype(int),
            "age": rng.normal(50.0, 10.0, n),
            "children": rng.integers(0, 3, n),
            "smoker": rng.random(n) < 0.5,
            "name": [f"n{i}" for i in range(n)],
        }
    )
    y = 0.05 * frame["age"].to_numpy() + (level == 1) + rng.normal(size=n)
    encode = make_column_transformer(
        (OneHotEncoder(), ["ward"]),
        ("drop", ["name"]),
        remainder="passthrough",
    )
    for model in (PrivateLinearRegression, PrivateLogisticRegression):
        labels = y if model is PrivateLinearRegression else (y > np.median(y)).astype(int)
        pipeline = make_pipeline(encode, model(noise, alpha=0.1))
        task = Task(estimator=pipeline, table=frame, y=labels, records=[0, 3])
        game = RecordsGame(task, [0, 1, 2, 3])
        game.prepare([0, 1, 2, 3])
        found = game._distances
        assert list(found) == ["ward", "low to high", "children", "smoker", "name"]
        assert_array_equal(found["name"], 0.0)
        blocks = {"ward": ["ward"], "low to high": ["low", "high"], "children": ["children"]}
        for name, columns in blocks.items():
            values = frame[columns].drop_duplicates().to_numpy()
            for k, row in enumerate((0, 3)):
                fits = []
                for value in values:
                    changed = frame.copy()
                    changed.loc[row, columns] = value
                    public = clone(encode).fit(frame)
                    fit = model(0.0, alpha=0.1).fit(public.transform(changed), labels)
                    fits.append(np.append(fit.coef_, fit.intercept_))
                expected = pdist(np.array(fits)).max()
                assert found[name][k] == pytest.approx(expected, rel=1e-4)
        columns = game.any_prior(noise)
        largest = np.max([2.0 * ndtr(0.5 * d / noise) - 1.0 for d in found.values()], axis=0)
        assert (columns["exposure"] >= largest).all()
        assert set(columns["exposed_column"]) <= {*found, *game._names(), "direction"}


@pytest.mark.slow
def test_a_value_without_a_minimizer_is_told_for_sure(rng):
    X = np.column_stack([rng.normal(size=30), np.arange(30) == 4])
    y = rng.normal(size=30)
    model = PrivateLinearRegression(1.0, alpha=0.0)
    with pytest.warns(NoMinimizerWarning):
        auditor = LeakageAuditor(model, n_releases=2, records=[4, 5]).fit(X, y)
    assert auditor.records_["exposure"].tolist()[0] == 1.0
    assert auditor.records_["exposed_column"].tolist()[0] == "x1"


@pytest.mark.slow
def test_reports_judge_whole_records(rng):
    X, y = make_problem(PrivateLinearRegression, rng, n=60)
    model = PrivateLinearRegression(alpha=0.1)
    both = {
        "known": InformedReconstruction(model),
        "target too": InformedReconstruction(model, known_target=False),
    }
    auditor = LeakageAuditor(model, attacks=both, noise_scales=[1e-6, 10.0], n_releases=5)
    report = auditor.fit(X, y).report_
    found = report.decision()
    assert [level["verdict"] for level in found["levels"]] == ["not_kept", "everyone"]
    assert found["levels"][0]["largest"] > 0.9
    assert found["noise"] == 10.0
    assert not found["passes"]
    smallest = found["smallest"]["noise"]
    assert 1e-6 < smallest < 10.0
    judged = LeakageAuditor(model, attacks=both, noise_scales=smallest, n_releases=2).fit(X, y)
    assert judged.report_.decision()["passes"]
    rows = report.results.set_index(["attack", "noise_scale"])
    assert rows.loc[("known", 1e-6), "share_removed"] > 0.9
    # Of an attack that guesses the target as well no share of the columns is known.
    assert np.isnan(rows.loc[("target too", 1e-6), "share_removed"])
    assert rows["share_at_most"].notna().all()
    assert not (report.results["verdict"] == "bound exceeded").any()
    person = report.person(4)
    assert person.table["exposure"].is_monotonic_decreasing
    # What weights that follow the data tell is not bounded.
    even = PrivateLinearRegression(alpha=0.1, reweighting=EvenTotal())
    unknown = LeakageAuditor(even, noise_scales=[10.0], n_releases=2, records=range(3)).fit(X, y)
    assert unknown.report_.decision()["verdict"] == "not_known"
