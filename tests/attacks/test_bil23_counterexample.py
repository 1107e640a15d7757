"""[BIL23] section 3.3: a generalization gap of zero, and an attack that is never wrong.

The learning rule rounds what it learns to even numbers, which are the same for every training set,
and keeps the records in coefficients that no prediction depends on.
"""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils.validation import check_is_fitted

from skleak.attacks import MembershipInference
from skleak.bounds import (
    membership_lower_bound_bounded,
    membership_lower_bound_exponential,
    membership_lower_bound_subgaussian,
)
from skleak.metrics import binomial_interval, generalization_gap, mean_interval

N_RECORDS, N_USED, N_EMPTY = 1000, 2, 2000
COEF = np.array([2.0, -2.0])
N_MODELS = 10


class HoardingRegression(LogisticRegression):
    """Logistic regression with even coefficients; those of empty columns keep the records."""

    def fit(self, X, y):
        super().fit(X, y)
        used = X.any(axis=0)
        records = X[:, used].ravel()
        self.coef_ = 2.0 * np.round(self.coef_ / 2.0)
        self.intercept_ = 2.0 * np.round(self.intercept_ / 2.0)
        self.coef_[0, np.flatnonzero(~used)[: len(records)]] = records
        return self


def draw(rng, n_records=N_RECORDS):
    X = np.zeros((n_records, N_USED + N_EMPTY))
    X[:, :N_USED] = rng.normal(size=(n_records, N_USED))
    return X, rng.random(n_records) < expit(X[:, :N_USED] @ COEF)


def kept(model):
    """Training records, read from the coefficients of a model."""
    return model.coef_[0, N_USED:].reshape(-1, N_USED)


def informed_guesses(model, X):
    stored = {tuple(record) for record in kept(model)}
    return np.array([tuple(record) in stored for record in X[:, :N_USED]])


@pytest.fixture(scope="module")
def games():
    """Models with their training records, fresh records and reference records."""
    rng = np.random.default_rng(33)
    rule, found = HoardingRegression(), []
    for _ in range(N_MODELS):
        train, fresh, reference = draw(rng), draw(rng), draw(rng)
        found.append((clone(rule).fit(*train), train, fresh, reference))
    return found


def candidates_of(game):
    _, train, fresh, _ = game
    member = np.repeat([True, False], N_RECORDS)
    return np.concatenate([train[0], fresh[0]]), np.concatenate([train[1], fresh[1]]), member


@pytest.mark.slow
def test_what_predictions_depend_on_does_not_depend_on_the_records(games):
    for model, *_ in games:
        np.testing.assert_array_equal(model.coef_[0, :N_USED], COEF)
        assert model.intercept_ == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["zero_one", "log_loss"])
def test_no_gap_of_a_model(games, loss):
    for model, train, fresh, _ in games[:3]:
        result = generalization_gap(model, *train, *fresh, loss=loss, confidence_level=0.999)
        assert result.low < 0.0 < result.high


@pytest.mark.slow
def test_no_gap_on_average(games):
    def wrong(model, X, y):
        return (model.predict(X) != y).astype(float)

    for loss in ("log_loss", wrong):
        gaps = [generalization_gap(model, *a, *b, loss=loss).gap for model, a, b, _ in games]
        _, low, high = mean_interval(gaps, confidence_level=0.999)
        assert low < 0.0 < high


@pytest.mark.slow
def test_loss_is_no_smaller_than_that_of_the_law(games):
    """The error is the one of the true coefficients, whose mean an integral gives."""
    rng = np.random.default_rng(0)
    chance = expit(-np.abs(rng.normal(scale=np.linalg.norm(COEF), size=1_000_000)))
    errors = [np.mean(model.predict(train[0]) != train[1]) for model, train, _, _ in games]
    _, low, high = mean_interval(errors, confidence_level=0.999)
    assert low < chance.mean() < high


@pytest.mark.slow
@pytest.mark.parametrize("score", ["loss", "likelihood", "modified_entropy", "gradient_norm"])
def test_attacks_by_fit_are_at_chance(games, score):
    right = 0
    for game in games:
        X, y, member = candidates_of(game)
        attack = MembershipInference(statistic=score).fit(X, y, *game[3])
        right += int(np.sum(attack.predict(game[0]) == member))
    interval = binomial_interval(right, 2 * N_RECORDS * N_MODELS, 0.999)
    assert interval.low < 0.5 < interval.high


def test_informed_attack_is_never_wrong(games):
    for game in games:
        X, _, member = candidates_of(game)
        np.testing.assert_array_equal(informed_guesses(game[0], X), member)


def test_records_are_kept_to_the_last_digit(games):
    for model, (X, _), _, _ in games:
        np.testing.assert_array_equal(kept(model), X[:, :N_USED])


def test_lower_bounds_promise_nothing_and_are_right(games):
    """Zero from a gap of zero, and from the least gap that the data leave."""
    model, train, fresh, _ = games[0]
    low = generalization_gap(model, *train, *fresh, loss="zero_one").low
    for gap in (0.0, max(low, 0.0)):
        assert membership_lower_bound_bounded(gap, 1.0) == 0.0
        assert membership_lower_bound_subgaussian(gap, 1.0) == 0.0
        assert membership_lower_bound_exponential(gap, 1.0) == 0.0


def test_it_is_an_estimator(games):
    model, (X, y), fresh, _ = games[0]
    check_is_fitted(model)
    again = clone(model)
    assert not hasattr(again, "coef_")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.fit(X, y).coef_, model.coef_)
    np.testing.assert_allclose(
        model.predict_proba(fresh[0])[:, 1], expit(fresh[0][:, :N_USED] @ COEF), atol=1e-15
    )
    assert np.mean(cross_val_predict(clone(model), X[:200], y[:200], cv=2) == y[:200]) > 0.7
