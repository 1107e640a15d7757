"""Imputation and the model's answers, stacked: better than either, and of nothing told nothing."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from skleak.adversary.shadow import logit_weights
from skleak.attacks import (
    BlackBoxAttributeInference,
    CombinedAttributeInference,
    ImputationAttack,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import PrivateLinearRegression

FOREST = RandomForestRegressor(30, random_state=0)


class Labels:
    """A classifier that answers with labels alone."""

    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(X)


@pytest.fixture
def table(rng):
    """Four columns, of which the first is a secret with three values that others tell of, and y."""
    known = rng.normal(size=(500, 3))
    secret = np.digitize(known[:, 0] + rng.normal(size=500), [-0.7, 0.7]).astype(float)
    return np.column_stack([secret, known]), 0.7 * secret + known[:, 1] + rng.normal(size=500)


def _right(guesses, X):
    return np.mean(guesses == X[:, 0])


def _labels(y):
    return np.where(y > np.median(y), "high", "low")


@pytest.mark.parametrize("labels", mostly_slow([False, True]))
def test_more_is_right_than_of_either_part(table, labels):
    X, y = table
    model, criterion = FOREST, "performance"
    if labels:
        model, y, criterion = RandomForestClassifier(30, random_state=0), _labels(y), "proba"
    model.fit(X, y)
    attack = CombinedAttributeInference(model, 0).fit(X, y)
    parts = [
        ImputationAttack(0),
        BlackBoxAttributeInference(model, 0, criterion=criterion),
        BlackBoxAttributeInference(model, 0, criterion=criterion, prior="conditional"),
    ]
    best = max(_right(part.fit(X, y).predict(model), X) for part in parts)
    assert _right(attack.predict(model), X) > best + 0.015
    assert attack.score(model, X[:, 0]) == _right(attack.predict(model), X)
    np.testing.assert_array_equal(attack.imputed_, parts[0].predict())


def test_what_the_target_tells_counts_once(rng):
    """Probabilities that are far too sure, of a label that imputation knows already."""
    secret = rng.integers(0, 2, 600)
    y = np.where(rng.random(600) < 0.75, secret, 1 - secret)
    X = np.column_stack([secret, np.tile(secret + 2.0 * rng.normal(size=600), (6, 1)).T])
    X[:, 1:] += 0.01 * rng.normal(size=(600, 6))
    model = GaussianNB().fit(X[:, 1:], y)
    model = make_pipeline(FunctionTransformer(lambda Z: Z), GaussianNB()).fit(X, y)
    guesses = {
        name: attack.fit(X, y).predict(model)
        for name, attack in {
            "imputation": ImputationAttack(0),
            "twice": BlackBoxAttributeInference(
                model, 0, criterion="proba", prior=ImputationAttack(0).fit(X, y).prior_
            ),
            "combined": CombinedAttributeInference(model, 0),
        }.items()
    }
    right = {name: _right(guess, X) for name, guess in guesses.items()}
    assert right["combined"] >= right["imputation"] - 0.01
    assert right["combined"] >= right["twice"] - 0.01


def test_a_model_that_never_sees_the_secret_adds_nothing(table):
    X, y = table
    blind = make_pipeline(FunctionTransformer(lambda Z: Z[:, 1:]), DecisionTreeRegressor())
    attack = CombinedAttributeInference(blind, 0).fit(X, y)
    more = (attack.predict(blind.fit(X, y)) == X[:, 0]) - (attack.imputed_ == X[:, 0]).astype(float)
    assert abs(more.mean()) < 0.01


@pytest.mark.slow
def test_secrets_that_nothing_tells_are_not_guessed(rng):
    """Balanced, so that the other records are short of a record's own value."""
    gains = []
    for seed in range(8):
        noise = np.random.default_rng(seed)
        X = np.column_stack(
            [noise.permutation(np.repeat([0.0, 1.0, 2.0], 20)), noise.normal(size=60)]
        )
        y = X[:, 1] + noise.normal(size=60)
        blind = make_pipeline(FunctionTransformer(lambda Z: Z[:, 1:]), DecisionTreeRegressor())
        attack = CombinedAttributeInference(blind, 0).fit(X, y)
        gains.append(_right(attack.predict(blind.fit(X, y)), X) - 1.0 / 3.0)
    assert np.mean(gains) < 3.0 * np.sqrt(2.0 / 9.0 / 480.0)


def test_a_records_own_secret_teaches_nothing_about_it(table):
    X, y = table
    model = FOREST.fit(X, y)
    settings = {"classifier": DummyClassifier(strategy="uniform"), "records": [3, 40]}
    before = CombinedAttributeInference(model, 0, **settings).fit(X, y).predict_proba(model)
    other = X.copy()
    other[3, 0] = (X[3, 0] + 1.0) % 3.0
    after = CombinedAttributeInference(model, 0, **settings).fit(other, y).predict_proba(model)
    np.testing.assert_array_equal(after[0], before[0])
    assert np.any(after[1] != before[1])


@pytest.mark.parametrize("labels", [False, True])
def test_of_reference_records_alone_are_secrets_known(table, labels):
    X, y = table
    model = FOREST
    if labels:
        model, y = RidgeClassifier(), _labels(y)
    model.fit(X[:300], y[:300])
    attack = CombinedAttributeInference(model, 0)
    guesses = attack.fit(X[:300], y[:300], X[300:], y[300:]).predict(model)
    unknown = X[:300].copy()
    unknown[:, 0] = unknown[::-1, 0]
    attack.fit(unknown, y[:300], X[300:], y[300:])
    np.testing.assert_array_equal(attack.predict(model), guesses)
    assert _right(guesses, X[:300]) > 0.45


@pytest.mark.parametrize("settings", mostly_slow([{}, {"records": [5, 9, 9]}]))
def test_every_target_may_have_releases_of_its_own(table, settings):
    X, y = table
    X, y = X[:40], y[:40]
    model = PrivateLinearRegression(noise_scale=0.01, random_state=0).fit(X, y)
    attack = CombinedAttributeInference(model, 0, **settings).fit(X, y)
    n_targets = len(attack.records_)
    released = np.random.default_rng(0).normal(size=(2, n_targets, 5))
    one_by_one = [[attack.predict(own)[i] for i, own in enumerate(each)] for each in released]
    np.testing.assert_array_equal(attack.predict_each(released), one_by_one)
    np.testing.assert_array_equal(attack.predict(released[:, 0])[1], attack.predict(released[1, 0]))


def test_probabilities_are_those_of_the_guesses(table):
    X, y = table
    model = KNeighborsClassifier(3).fit(X, _labels(y))
    attack = CombinedAttributeInference(model, 0, records=slice(50)).fit(X, _labels(y))
    p = attack.predict_proba([model, model])
    assert p.shape == (2, 50, 3)
    np.testing.assert_allclose(p.sum(axis=2), 1.0)
    np.testing.assert_array_equal(attack.values_[p[0].argmax(axis=1)], attack.predict(model))


@pytest.mark.parametrize("wrap", [Labels, lambda model: model])
def test_labels_and_margins_are_enough(table, wrap):
    X, y = table
    model = RidgeClassifier().fit(X, _labels(y))
    attack = CombinedAttributeInference(model, 0).fit(X, _labels(y))
    assert attack.score(wrap(model), X[:, 0]) >= _right(attack.imputed_, X) - 0.01


def test_few_records_and_values_of_one_carrier(rng):
    X = pd.DataFrame({"gene": list("AAAAABBBBC"), "age": rng.normal(size=10)})
    y = rng.normal(size=10)
    encode = FunctionTransformer(lambda Z: Z[["age"]].assign(a=Z["gene"] == "A"))
    model = make_pipeline(encode, LinearRegression()).fit(X, y)
    attack = CombinedAttributeInference(model, "gene").fit(X, y)
    assert np.isfinite(attack.predict_proba(model)).all()
    alone = X[["gene"]]
    encode = FunctionTransformer(lambda Z: Z.assign(gene=Z["gene"] == "A"))
    model = make_pipeline(encode, LinearRegression()).fit(alone, y)
    attack = CombinedAttributeInference(model, "gene").fit(alone, y)
    assert set(attack.predict(model)) <= set("ABC")


@pytest.mark.parametrize("model", mostly_slow([FOREST, RidgeClassifier()]))
def test_numbers_are_closer_than_by_either_part(table, model):
    X, y = table
    y = _labels(y) if model is not FOREST else y
    model.fit(X, y)
    attack = CombinedAttributeInference(model, 1).fit(X, y)
    box = BlackBoxAttributeInference(model, 1, prior="conditional").fit(X, y)
    errors = [np.mean((a.predict(model) - X[:, 1]) ** 2) for a in (attack, box)]
    assert errors[0] <= 1.001 * min(errors[1], np.mean((attack.imputed_ - X[:, 1]) ** 2))
    assert attack.score(model, X[:, 1]) == pytest.approx(1.0 - errors[0] / X[:, 1].var())


def test_weights_are_those_of_another_solver(rng):
    features, codes = rng.normal(size=(80, 3, 4)), rng.integers(0, 3, 80)
    features[np.arange(80), codes, 1] += 0.5
    features[np.arange(80), codes, 2] -= 0.5
    start = np.eye(4)[0]

    def loss(weights):
        logs = log_softmax(features @ weights, axis=1)
        return 0.5 * np.sum((weights - start) ** 2) - logs[np.arange(80), codes].sum()

    other = minimize(loss, start, method="SLSQP", bounds=[(0.0, None)] * 4).x
    found = logit_weights(features, codes)
    np.testing.assert_allclose(found, other, atol=1e-3)
    assert found[2] == 0.0 < found[1]
    np.testing.assert_array_equal(logit_weights(features[:0], codes[:0]), start)


def test_what_is_refused(table):
    X, y = table
    attack = CombinedAttributeInference(FOREST, 0)
    with pytest.raises(ValueError, match="y_reference"):
        attack.fit(X, y, X)
    with pytest.raises(AttackNotApplicableError, match="X_reference"):
        CombinedAttributeInference(FOREST, 1).fit(X, y, X, y)
    with pytest.raises(ValueError, match="needs `y`"):
        attack.fit(X, None)


def test_answers_and_frequencies_guess_where_imputation_knows_nothing(rng):
    shares, values = np.array([0.6, 0.2, 0.2]), np.arange(3)
    secret = rng.choice(3, 500, p=shares).astype(float)
    y, X = secret + 1.2 * rng.normal(size=500), np.column_stack([secret, rng.normal(size=500)])
    model = LinearRegression().fit(X, y)
    model.coef_, model.intercept_ = np.array([1.0, 0.0]), 0.0
    attack = CombinedAttributeInference(model, 0, classifier=DummyClassifier(strategy="uniform"))
    bayes = np.argmax(np.log(shares) - 0.5 * ((y[:, None] - values) / 1.2) ** 2, axis=1)
    assert np.mean(attack.fit(X, y).predict(model) == bayes) > 0.9


def test_likelihoods_of_labels_and_frequencies_guess_where_imputation_knows_nothing(rng):
    shares = np.array([0.6, 0.2, 0.2])
    likelihood = np.array([[0.6, 0.35, 0.05], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]])

    class Known(ClassifierMixin, BaseEstimator):
        classes_ = np.arange(3)

        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            return likelihood[np.asarray(X)[:, 0].astype(int)]

        def predict(self, X):
            return self.predict_proba(X).argmax(axis=1)

    secret = rng.choice(3, 500, p=shares)
    y = np.array([rng.choice(3, p=likelihood[value]) for value in secret])
    X = np.column_stack([secret, rng.normal(size=500)])
    attack = CombinedAttributeInference(Known(), 0, classifier=DummyClassifier(strategy="uniform"))
    bayes = np.argmax(np.log(shares) + np.log(likelihood[:, y]).T, axis=1)
    assert np.mean(attack.fit(X, y).predict(Known()) == bayes) > 0.9
