"""Noise targets are met, and met tightly; brute force agrees."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV

from skleak.accounting import gaussian_delta
from skleak.channels import GaussianChannel
from skleak.influence import candidate_encodings
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import EpsilonDelta, GaussianDP, MaxAdvantage, MaxLeakage
from skleak.mechanisms.calibration import _noise_for_advantage, ladder_rung

X_DIABETES, Y_DIABETES = load_diabetes(return_X_y=True)


def categorical_problem(rng, n=120, n_values=2):
    X = rng.normal(size=(n, 3))
    X[:, 0] = rng.choice(
        n_values, size=n, p=np.arange(1, n_values + 1) / (n_values + 1) / n_values * 2
    )
    y = X @ [0.7, 1.0, -0.5] + rng.normal(size=n)
    return X, y


def refit_distances(X, y, column, **params):
    """Distance between the two refits of every record, without closed forms."""
    fit = PrivateLinearRegression(noise_scale=0, **params).fit
    distances = np.empty(len(y))
    for i in range(len(y)):
        ends = []
        for value in (0.0, 1.0):
            changed = X.copy()
            changed[i, column] = value
            model = fit(changed, y)
            ends.append(np.append(model.coef_, model.intercept_))
        distances[i] = np.linalg.norm(ends[1] - ends[0])
    return distances


class TestMaxLeakage:
    @pytest.mark.parametrize(
        "estimator", [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
    )
    @pytest.mark.parametrize("features", [None, 1, [0, 2]])
    def test_the_largest_loss_equals_the_target(self, estimator, features, rng):
        X = rng.normal(size=(60, 4))
        y = rng.integers(0, 2, size=60)
        model = estimator(1.0).fit(X, y)
        model = estimator(MaxLeakage(0.3, features).noise_scale_of(model)).fit(X, y)
        loss = model.fisher_information_loss(features=features)
        np.testing.assert_allclose(loss.max(), 0.3, rtol=1e-9)

    def test_a_rung_is_published_and_keeps_the_loss_below_the_target(self):
        model = PrivateLinearRegression(MaxLeakage(0.5, features="s5"))
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        loss = model.fit(X, y).fisher_information_loss(features="s5")
        assert 0.5 / np.sqrt(2) < loss.max() <= 0.5
        assert model.noise_scale_ == ladder_rung(model.noise_scale_)
        assert model.release().noise_scale_ == model.noise_scale_

    def test_a_quantile_of_the_records(self):
        goal = MaxLeakage(0.5, quantile=0.9)
        noise = goal.noise_scale_of(PrivateLinearRegression().fit(X_DIABETES, Y_DIABETES))
        model = PrivateLinearRegression(noise).fit(X_DIABETES, Y_DIABETES)
        share = np.mean(model.fisher_information_loss_ <= 0.5 * (1 + 1e-12))
        assert 0.9 <= share < 0.91
        assert model.fisher_information_loss_.max() > 0.5

    def test_records_of_weight_zero_do_not_count(self, rng):
        X, y = categorical_problem(rng)
        X[0] *= 50.0
        weight = np.ones(len(y))
        weight[0] = 0.0
        with_zero = PrivateLinearRegression().fit(X, y, sample_weight=weight)
        without = PrivateLinearRegression().fit(X[1:], y[1:])
        goal = MaxLeakage(0.3)
        np.testing.assert_allclose(
            goal.noise_scale_of(with_zero), goal.noise_scale_of(without), rtol=1e-9
        )


def calibrated(goal, X, y):
    """A fit at the noise that a goal needs, not rounded."""
    noise_scale = goal.noise_scale_of(PrivateLinearRegression().fit(X, y))
    return PrivateLinearRegression(noise_scale).fit(X, y)


class TestMaxAdvantage:
    @pytest.mark.slow
    @pytest.mark.parametrize("target", mostly_slow([0.01, 0.2, 0.7], 1))
    @pytest.mark.parametrize("prior", mostly_slow(["uniform", "marginal"], 1))
    def test_two_values_against_refits_and_the_closed_form(self, target, prior, rng):
        X, y = categorical_problem(rng)
        model = calibrated(MaxAdvantage(target, 0, prior=prior), X, y)
        d = refit_distances(X, y, 0) / model.noise_scale_
        p = 0.5 if prior == "uniform" else X[:, 0].mean()
        shift = np.log(p / (1 - p)) / d
        success = p * norm.cdf(d / 2 + shift) + (1 - p) * norm.cdf(d / 2 - shift)
        best = max(p, 1 - p)
        advantage = (success - best) / (1 - best)
        assert advantage.max() <= target + 1e-9
        np.testing.assert_allclose(advantage.max(), target, atol=1e-6)

    @pytest.mark.parametrize("target", [0.01, 0.2, 0.7])
    def test_the_worst_prior_is_the_default_and_bounds_every_other(self, target, rng):
        X, y = categorical_problem(rng, n_values=3)
        worst = MaxAdvantage(target, 0)
        assert worst.prior == "worst"
        model = calibrated(worst, X, y)
        encodings = candidate_encodings(model, X, y, 0, np.arange(3))
        channel = GaussianChannel(encodings, model.noise_scale_)
        priors = [rng.dirichlet(np.ones(3)) for _ in range(5)]
        assert all(channel.bayes_advantage(p).max() <= target + 1e-6 for p in priors)
        furthest = [channel.bayes_advantage(p).max() for p in 0.5 * (1.0 - np.eye(3))]
        np.testing.assert_allclose(max(furthest), target, atol=1e-6)

    def test_the_marginal_prior_leaves_more_to_who_knows_better(self):
        # Two values, of which 1 % have one: closed form, without any fit.
        marginal = _noise_for_advantage(np.array([[[0.0], [1.0]]]), np.array([0.99, 0.01]), 0.05)
        np.testing.assert_allclose(2 * norm.cdf(0.5 / marginal) - 1, 0.68, atol=0.005)

    @pytest.mark.parametrize("n_values", [3, 5])
    def test_more_values_and_a_tight_record(self, n_values, rng):
        X, y = categorical_problem(rng, n=60, n_values=n_values)
        model = calibrated(MaxAdvantage(0.15, 0, prior="marginal"), X, y)
        encodings = candidate_encodings(model, X, y, 0, np.arange(n_values))
        prior = np.bincount(X[:, 0].astype(int)) / len(X)
        advantage = GaussianChannel(encodings, model.noise_scale_).bayes_advantage(prior)
        assert advantage.max() <= 0.15 + 1e-6
        assert advantage.max() > 0.145

    def test_an_attack_on_the_most_exposed_record_gains_what_is_allowed(self, rng):
        X, y = categorical_problem(rng)
        model = calibrated(MaxAdvantage(0.3, 0), X, y)
        encodings = candidate_encodings(model, X, y, 0, [0.0, 1.0])
        distance = np.linalg.norm(encodings[:, 1] - encodings[:, 0], axis=1)
        worst = encodings[distance.argmax()]
        n = 40_000
        secret = rng.integers(0, 2, size=n)
        releases = worst[secret] + rng.normal(size=(n, 4)) * model.noise_scale_
        squares = ((releases[:, None] - worst) ** 2).sum(axis=2)
        success = np.mean(squares.argmin(axis=1) == secret)
        standard_error = np.sqrt(0.25 / n)
        assert abs(2 * success - 1 - 0.3) < 5 * 2 * standard_error

    def test_one_hot_block(self, rng):
        codes = rng.integers(0, 3, size=90)
        X = np.column_stack([np.eye(3)[codes], rng.normal(size=90)])
        y = codes + rng.normal(size=90)
        model = calibrated(MaxAdvantage(0.1, [0, 1, 2], prior="marginal"), X, y)
        encodings = candidate_encodings(model, X, y, [0, 1, 2], np.eye(3)[::-1])
        prior = (np.bincount(codes) / 90)[::-1]
        advantage = GaussianChannel(encodings, model.noise_scale_).bayes_advantage(prior)
        np.testing.assert_allclose(advantage.max(), 0.1, atol=1e-6)


class TestDifferentialPrivacy:
    params = {  # noqa: RUF012
        "alpha": 0.1,
        "fit_intercept": False,
        "data_norm": 1.0,
        "classes": [False, True],
        "public": ("n_samples",),
        "mechanism": "output",
    }

    @pytest.fixture
    def data(self, rng):
        X = rng.normal(size=(80, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0001
        return X, rng.random(80) > 0.4

    def test_gaussian_dp(self, data):
        model = PrivateLogisticRegression(GaussianDP(0.7), **self.params).fit(*data)
        np.testing.assert_allclose(model.noise_scale_, 2.0 / (80 * 0.1) / 0.7, rtol=1e-6)
        guarantee = model.leakage_report().differential_privacy
        assert guarantee.holds
        np.testing.assert_allclose(guarantee.mu, 0.7, rtol=1e-8)

    def test_epsilon_delta(self, data):
        model = PrivateLogisticRegression(EpsilonDelta(1.0, 1e-5), **self.params).fit(*data)
        mu = model.leakage_report().differential_privacy.mu
        delta = gaussian_delta(mu, 1.0)
        assert delta <= 1e-5
        np.testing.assert_allclose(delta, 1e-5, rtol=1e-6)

    @pytest.mark.slow
    def test_sensitivity_bounds_every_replacement_tried(self, data, rng):
        X, y = data
        exact = PrivateLogisticRegression(0, **self.params).fit(X, y)
        bound = 2.0 / (len(y) * 0.1)
        largest = 0.0
        for _ in range(50):
            i, x = rng.integers(len(y)), rng.normal(size=3)
            other, labels = X.copy(), y.copy()
            other[i], labels[i] = x / np.linalg.norm(x) / 1.0001, rng.random() > 0.5
            moved = PrivateLogisticRegression(0, **self.params).fit(other, labels)
            largest = max(largest, np.linalg.norm(moved.coef_ - exact.coef_))
        assert 0.1 * bound < largest <= bound

    def test_without_a_guarantee_it_says_why(self, data):
        X, y = data
        with pytest.raises(ValueError, match=r"no bound on the norm.*data_norm"):
            PrivateLogisticRegression(GaussianDP(1.0), fit_intercept=False, mechanism="output").fit(
                X, y
            )
        with pytest.raises(ValueError, match="squared loss has no bounded derivative"):
            PrivateLinearRegression(EpsilonDelta(1.0, 1e-6), data_norm=1.0, mechanism="output").fit(
                X, y * 1.0
            )


@pytest.mark.slow
def test_a_target_read_off_the_data_is_told_in_the_report():
    model = PrivateLinearRegression(MaxLeakage(0.5)).fit(X_DIABETES, Y_DIABETES)
    report = model.leakage_report()
    assert any(
        "calibrated to the training records (MaxLeakage(eta=0.5" in a for a in report.assumptions
    )
    assert any("read off the training records" in r for r in report.differential_privacy.reasons)
    assert "MaxLeakage" in model.release().provenance_["noise_goal"]


@pytest.mark.slow
def test_targets_survive_clone_and_grid_search():
    search = GridSearchCV(
        PrivateLinearRegression(),
        {"noise_scale": [MaxLeakage(0.1, "s5"), MaxLeakage(5.0, "s5"), 3.0]},
        cv=3,
    ).fit(*load_diabetes(return_X_y=True, as_frame=True))
    assert clone(search.best_estimator_).noise_scale in ([MaxLeakage(5.0, "s5"), 3.0])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (MaxLeakage(0.0), "`MaxLeakage.eta` must be above 0"),
        (MaxLeakage(1.0, quantile=0.0), r"must lie in \(0, 1\]"),
        (MaxAdvantage(1.0, 0), "strictly between 0 and 1"),
        (MaxAdvantage(0.1, 1), "categorical, with 2 to 64 distinct values"),
        (MaxAdvantage(0.1, 0, prior="flat"), "'marginal', 'uniform' or one probability"),
        (MaxAdvantage(0.1, 0, prior=[0.5, 0.4]), "probabilities that sum to 1"),
        (GaussianDP(-1.0), "`GaussianDP.mu` must be above 0"),
        (EpsilonDelta(0.0, 0.1), "`EpsilonDelta.epsilon` must be above 0"),
        (EpsilonDelta(1.0, 0.0), "strictly between 0 and 1"),
    ],
)
def test_bad_targets(target, message, rng):
    X, y = categorical_problem(rng)
    with pytest.raises(ValueError, match=message):
        PrivateLinearRegression(target).fit(X, y)
