"""Estimators that do not add the noise they state are found; those that do are not accused."""

import warnings
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers import mostly_slow
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skleak.adversary.hypotheses._encodings import model_parameters
from skleak.audit import LeakageAuditor
from skleak.audit.noise._mechanism import measured_noise
from skleak.exceptions import PrivacyLeakWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.metrics._verdict import EXCEEDED


class Planted(PrivateLinearRegression):
    """Fits without noise, and adds the noise of `spoil` to coefficients and intercept."""

    def fit(self, X, y, sample_weight=None):
        scale = self.noise_scale
        self.set_params(noise_scale=0.0)
        super().fit(X, y, sample_weight)
        self.set_params(noise_scale=scale)
        if scale > 0.0:
            noise = scale * self.spoil(np.random.default_rng(self.random_state))
            self.coef_ = self.coef_ + noise[:-1]
            self.intercept_ = self.intercept_ + noise[-1]
        return self

    def spoil(self, generator):
        return generator.normal(size=len(self.coef_) + 1)


class Half(Planted):
    def spoil(self, generator):
        return 0.5 * super().spoil(generator)


class Twice(Planted):
    def spoil(self, generator):
        return 2.0 * super().spoil(generator)


class NoiselessIntercept(Planted):
    def spoil(self, generator):
        noise = super().spoil(generator)
        noise[-1] = 0.0
        return noise


class Replaying(Planted):
    def spoil(self, generator):
        return super().spoil(np.random.default_rng(7))


class Shared(Planted):
    def spoil(self, generator):
        return np.full(len(self.coef_) + 1, generator.normal())


class Heavy(Planted):
    def spoil(self, generator):
        return generator.laplace(size=len(self.coef_) + 1) / np.sqrt(2.0)


class Stale(Planted):
    """Hands out the release of its first fit, whatever it is fitted on."""

    memory: ClassVar[dict[float, Any]] = {}

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        if self.noise_scale > 0.0:
            first = self.memory.setdefault(self.noise_scale, (self.coef_, self.intercept_))
            self.coef_, self.intercept_ = first
        return self


class Nothing(Planted):
    def spoil(self, generator):
        return np.zeros(len(self.coef_) + 1)


def make_data(rng, n=30):
    X = np.column_stack([rng.integers(0, 2, n), rng.normal(size=(n, 2))])
    return X, X @ [1.0, 1.0, -0.5] + rng.normal(size=n)


def audit(model, X, y, **options):
    options = {
        "noise_scales": 0.02,
        "n_releases": 40,
        "secrets": "drawn",
        "bounds": "bayes",
    } | options
    return LeakageAuditor(model, 0, attacks=["prior", "white_box"], random_state=0, **options).fit(
        X, y
    )


def measure(model, X, y, scale, seed=0):
    exact = type(model)(0.0).fit(X, y)
    noiseless = np.append(exact.coef_, exact.intercept_)
    found = measured_noise(model, X, y, noiseless, scale, np.random.SeedSequence(seed))
    return found.noise, found.as_stated


@pytest.mark.slow
@pytest.mark.parametrize("factor", [("Half", 0.5), ("Twice", 2.0)])
def test_wrong_scale_is_measured(factor, rng):
    name, share = factor
    X, y = make_data(rng)
    noise, as_stated = measure(globals()[name](), X, y, 0.1)
    assert not as_stated
    # Of fifty fits: a relative standard error of a tenth.
    np.testing.assert_allclose(noise, 0.1 * share, rtol=0.5)


@pytest.mark.slow
def test_missing_and_replayed_noise_is_measured(rng):
    X, y = make_data(rng)
    noise, as_stated = measure(NoiselessIntercept(), X, y, 0.1)
    assert not as_stated
    assert noise[-1] == 0.0
    np.testing.assert_allclose(noise[:-1], 0.1, rtol=0.5)
    for estimator in (Replaying, Nothing):
        noise, as_stated = measure(estimator(), X, y, 0.1)
        assert not as_stated
        assert (noise == 0.0).all()


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 1.0, 1e6])
@pytest.mark.parametrize(
    "estimator", [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
)
def test_honest_estimators_pass(estimator, scale, rng):
    X, y = make_data(rng)
    if estimator is not PrivateLinearRegression:
        y = (y > 0).astype(int)
    noise, as_stated = measure(estimator(random_state=5), X, y, scale)
    assert as_stated
    np.testing.assert_array_equal(noise, scale)


@pytest.mark.slow
def test_irfil_passes(rng):
    X, y = make_data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(PrivateLinearRegression(reweighting="irfil"), X, y, n_releases=2)


def test_others_are_taken_at_their_word(rng):
    X, y = make_data(rng)
    found = measured_noise(Ridge(), X, y, np.zeros(4), 0.3, np.random.SeedSequence(0))
    assert found.as_stated
    assert not found.checks
    assert (found.noise == 0.3).all()
    noise, as_stated = measure(Half(), X, y, 0.0)
    assert as_stated
    assert (noise == 0.0).all()


@pytest.mark.slow
def test_no_false_alarm_of_many(rng):
    """A chance of 1e-6 each: none of a few hundred, also where the fits are few."""
    X, y = make_data(rng, n=8)
    assert all(measure(PrivateLinearRegression(), X, y, 0.1, seed)[1] for seed in range(200))


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", mostly_slow([Half, NoiselessIntercept, Shared, Replaying, Nothing], 0, 2)
)
@pytest.mark.parametrize("secrets", ["actual", "drawn"])
def test_faults_are_reported_and_exceed_the_bound(estimator, secrets, rng):
    X, y = make_data(rng)
    X[:, 0] -= X[:, 0].mean()
    X[:, 0] = X[:, 0] > 0
    options = {"n_releases": 60, "secrets": secrets, "prior": "uniform"}
    with pytest.warns(PrivacyLeakWarning, match="does not add the noise that it states"):
        auditor = audit(estimator(), X, y, noise_scales=0.03, **options)
    table = auditor.results_.set_index("attack")
    # The bound is for the noise that is stated: what an honest estimator is held to.
    honest = audit(PrivateLinearRegression(), X, y, noise_scales=0.03, **options)
    np.testing.assert_allclose(auditor.results_["bayes"], honest.results_["bayes"], rtol=1e-9)
    judged = honest.results_[~honest.results_["attack"].isin(["prior", "imputation"])]
    assert set(judged["verdict"]) == {"consistent with the bound"}
    if secrets == "drawn":
        assert table.loc["white_box", "verdict"] == EXCEEDED
        if estimator in (Replaying, Nothing):
            assert (auditor.records_["verdict"] == EXCEEDED).any()
    assert table.loc["white_box", "success"] > table.loc["white_box", "bayes"]
    assert table.loc["prior", "verdict"] != EXCEEDED


def test_warning_says_where_and_how_much(rng):
    X, y = make_data(rng)
    with pytest.warns(PrivacyLeakWarning, match=r"measured .* 0\.1\d* .* where 0\.3 was") as caught:
        audit(Half(), X, y, noise_scales=[0.0, 0.3], n_releases=2)
    assert len(caught) == 1
    assert caught[0].filename == __file__ or "sklearn" in caught[0].filename


@pytest.mark.parametrize(
    ("estimator", "name"),
    mostly_slow(
        [
            (Shared, "covariance"),
            (Heavy, "shape"),
            (NoiselessIntercept, "missing"),
            (Stale, "replayed"),
        ],
        0,
    ),
)
def test_planted_faults_are_named_in_the_report(estimator, name, rng):
    """Of five parameters, in a hundred releases."""
    X = np.column_stack([rng.integers(0, 2, 40), rng.normal(size=(40, 3))])
    y = X @ [1.0, 1.0, -0.5, 0.2] + rng.normal(size=40)
    if estimator is Stale:
        estimator.memory.clear()
        estimator(0.3, random_state=1).fit(X[:20], y[:20])
    with pytest.warns(PrivacyLeakWarning, match=f"Checks failed: .*{name}"):
        auditor = audit(estimator(), X, y, noise_scales=0.3, n_releases=2)
    report = auditor.report_
    failed = report.checks[~report.checks["passed"]]
    assert name in set(failed["check"])
    assert set(failed["n_releases"]) == {100}
    assert {"check": name, "passed": False}.items() <= next(
        row for row in report.to_dict()["checks"] if row["check"] == name
    ).items()
    said = "The estimator does not add the noise that it states."
    for text in (report.to_text(), report.to_html(), report.to_json()):
        assert said in " ".join(text.split())


def test_one_sentence_where_all_is_well(rng):
    X, y = make_data(rng)
    report = audit(PrivateLinearRegression(), X, y, noise_scales=[0.3, 3.0], n_releases=2).report_
    assert report.checks["passed"].all()
    assert list(report.checks["check"].unique()) == [
        "mean",
        "spread",
        "missing",
        "replayed",
        "covariance",
        "shape",
        "hypotheses",
    ]
    for text in (report.to_text(), report.to_html(), report.to_json()):
        assert "The estimator adds the noise that it states" in " ".join(text.split())


def test_the_shared_draw_is_played(rng):
    """Marginally it is what is stated; all differences of parameters are without noise."""
    X, y = make_data(rng)
    noise, as_stated = measure(Shared(), X, y, 0.1)
    assert not as_stated
    np.testing.assert_allclose(noise @ noise.T, 0.01 * np.ones((4, 4)), rtol=0.5)
    assert np.linalg.matrix_rank(noise @ noise.T) == 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_another_draw_is_what_a_fit_with_that_seed_gives(intercept, n_classes, rng):
    X, y = make_data(rng)
    model = PrivateLinearRegression(0.3, fit_intercept=intercept)
    if n_classes:
        y = np.arange(30) % n_classes
        model = PrivateLogisticRegression(0.3, fit_intercept=intercept)
    fitted = clone(model).set_params(random_state=1).fit(X, y)
    fitted._redraw(5)
    expected = clone(model).set_params(random_state=5).fit(X, y)
    np.testing.assert_array_equal(model_parameters(fitted), model_parameters(expected))
