"""The black-box attack of [F14]: predictions, performance statistics, nothing else."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import RandomForestClassifier

from skleak.attacks import BlackBoxAttributeInference
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)


class OnlyPredictRegressor(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        X = np.asarray(X)
        return 2.0 * X[:, 0] + np.sin(X[:, 1])


class OnlyPredictClassifier(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        X = np.asarray(X)
        return np.where(X[:, 0] + X[:, 1] > 0.5, "high", np.where(X[:, 1] > -1, "mid", "low"))


def make_records(rng, n=50):
    return np.column_stack([rng.integers(0, 3, n), rng.normal(size=n)]).astype(float)


def test_regression_by_hand(rng):
    X, prior = make_records(rng), np.array([0.5, 0.3, 0.2])
    model = OnlyPredictRegressor()
    y = model.predict(X) + rng.normal(size=50)
    attack = BlackBoxAttributeInference(model, 0, prior=prior).fit(X, y)
    posterior = attack.predict_proba(model)
    for i in (0, 13, 49):
        residuals = np.delete(y - model.predict(X), i)
        spread = np.sqrt(np.mean(residuals**2))
        candidates = 2.0 * np.arange(3) + np.sin(X[i, 1])
        joint = prior * norm.pdf(y[i], candidates, spread)
        np.testing.assert_allclose(posterior[i], joint / joint.sum(), rtol=1e-9)
    np.testing.assert_array_equal(attack.predict(model), posterior.argmax(axis=1))
    assert attack.score(model, X[:, 0]) > 0.6


def test_classification_by_hand(rng):
    X, prior = make_records(rng, 80), np.array([0.5, 0.3, 0.2])
    model = OnlyPredictClassifier()
    flip = rng.random(80) < 0.3
    y = np.where(flip, rng.choice(["high", "mid", "low"], 80), model.predict(X))
    posterior = BlackBoxAttributeInference(model, 0, prior=prior).fit(X, y).predict_proba(model)
    predicted = model.predict(X)
    for i in (0, 13, 79):
        joint = []
        for m in range(3):
            guess = model.predict(np.array([[m, X[i, 1]]]))[0]
            among = np.delete(predicted == guess, i)
            hits = np.sum(among & np.delete(y == y[i], i))
            joint.append(prior[m] * (hits + 1 / 3) / (among.sum() + 1))
        np.testing.assert_allclose(posterior[i], np.array(joint) / sum(joint), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("model", [OnlyPredictRegressor(), OnlyPredictClassifier()])
@pytest.mark.parametrize("prior", ["marginal", "conditional"])
def test_own_value_never_enters(model, prior, rng):
    X = make_records(rng)
    y = model.predict(X)[rng.permutation(50)]
    for row in (0, 20):
        attack = BlackBoxAttributeInference(model, 0, prior=prior, records=[row])
        changed = X.copy()
        changed[row, 0] = (X[row, 0] + 1) % 3
        first, second = attack.fit(X, y), clone(attack).fit(changed, y)
        np.testing.assert_allclose(
            first.predict_proba(model), second.predict_proba(model), rtol=1e-9
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Releasing a model whose noise came from a seed")
@pytest.mark.parametrize(
    "estimator", [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
)
def test_arrays_predict_like_the_models_they_are_of(estimator, make_table, make_pipe):
    X, y = make_table(estimator)
    pipes = [
        make_pipe(estimator(0.1, random_state=np.random.default_rng(k))).fit(X, y) for k in range(3)
    ]
    attack = BlackBoxAttributeInference(pipes[0], "gene", records=slice(20)).fit(X, y)
    array = np.stack([np.append(p[-1].coef_, p[-1].intercept_) for p in pipes])
    expected = attack.predict(pipes)
    assert expected.shape == (3, 20)
    np.testing.assert_array_equal(attack.predict(array), expected)
    np.testing.assert_array_equal(attack.predict([p[-1].release() for p in pipes]), expected)
    np.testing.assert_array_equal(attack.predict(array[1]), expected[1])
    assert len({tuple(row) for row in attack.predict_proba(array)[..., 0]}) == 3


def test_any_model_that_predicts(rng):
    X = make_records(rng, 200)
    y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0.9, "b", "a")
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    attack = BlackBoxAttributeInference(forest, 0).fit(X, y)
    assert attack.score(forest, X[:, 0]) > 0.5
    with pytest.raises(AttackNotApplicableError, match="no `coef_`"):
        attack.predict(np.zeros((2, 3)))


def test_quantities(rng):
    X = make_records(rng)
    model = PrivateLinearRegression(0)
    y = X @ [1.0, 2.0] + 0.01 * rng.normal(size=50)
    model.fit(X, y)
    attack = BlackBoxAttributeInference(model, 1, criterion="likelihood").fit(X, y)
    fitted = (y - model.intercept_ - model.coef_[0] * X[:, 0]) / model.coef_[1]
    inside = (attack.values_[:, 0] < fitted) & (fitted < attack.values_[:, -1])
    np.testing.assert_allclose(attack.predict(model)[inside], fitted[inside], atol=1e-6)
    # With a prior, of errors this small, the mean of the posterior is next to it.
    attack = BlackBoxAttributeInference(model, 1).fit(X, y)
    np.testing.assert_allclose(attack.predict(model)[inside], fitted[inside], atol=1e-3)
    labels = (y > 0).astype(int)
    classifier = PrivateLogisticRegression(0).fit(X, labels)
    attack = BlackBoxAttributeInference(classifier, 1, criterion="likelihood").fit(X, labels)
    with pytest.raises(AttackNotApplicableError, match="Use criterion='performance', 'proba'"):
        attack.predict(classifier)


def test_the_own_value_of_a_quantity_tells_no_density_of_it(rng):
    """But for what the residuals of others owe to a regression that has seen it."""
    X = make_records(rng)
    y = X @ [1.0, 2.0] + rng.normal(size=50)
    model = PrivateLinearRegression(0).fit(X, y)
    guesses = []
    for value in (-0.6, 0.0, 0.6):
        X[3, 1] = value
        attack = BlackBoxAttributeInference(model, 1, prior="conditional", records=[3]).fit(X, y)
        guesses.append(attack.predict(model)[0])
    assert np.ptp(guesses) < 0.01


def test_a_quantity_is_guessed_by_its_posterior_mean(rng):
    """By Bayes' rule on a grid, and so no worse than the mean where predictions tell little."""
    X = rng.normal(size=(300, 2))
    y = X @ [0.3, 1.0] + 2.0 * rng.normal(size=300)
    model = PrivateLinearRegression(0).fit(X, y)
    prior = stats.norm(0.1, 1.2)
    attack = BlackBoxAttributeInference(model, 0, prior=prior, records=range(4)).fit(X, y)
    grid = np.linspace(-5.0, 5.0, 4001)
    residuals = (y - model.predict(X)) ** 2
    for i, guess in enumerate(attack.predict(model)):
        rows = np.column_stack([grid, np.full(len(grid), X[i, 1])])
        variance = np.delete(residuals, i).mean()
        weights = prior.pdf(grid) * np.exp(-0.5 * (y[i] - model.predict(rows)) ** 2 / variance)
        # But for the ends of the range, where the density of the attack falls to zero.
        assert guess == pytest.approx(weights @ grid / weights.sum(), abs=0.02)
    errors = {}
    for criterion in ("performance", "likelihood"):
        attack = BlackBoxAttributeInference(model, 0, criterion=criterion).fit(X, y)
        errors[criterion] = np.mean((attack.predict(model) - X[:, 0]) ** 2)
    assert errors["performance"] < np.var(X[:, 0]) < errors["likelihood"]
    released = np.append(model.coef_, model.intercept_)
    some = attack.set_params(criterion="performance").fit(X, y)
    np.testing.assert_allclose(
        some.predict_some(np.stack([released] * 2), np.array([5, 3])),
        some.predict(model)[[5, 3]],
    )


def test_contract(make_table, make_pipe):
    X, y = make_table()
    pipe = make_pipe(PrivateLinearRegression()).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene")
    assert clone(attack).get_params(deep=False)["criterion"] == "performance"
    kept = X.copy()
    attack.fit(X, y)
    assert X.equals(kept)
    assert attack.feature_names_in_.tolist() == list(X)
    with pytest.raises(ValueError, match="'criterion' parameter"):
        BlackBoxAttributeInference(pipe, "gene", criterion="luck").fit(X, y)
    with pytest.raises(ValueError, match="unknown column"):
        BlackBoxAttributeInference(pipe, "gone").fit(X, y)
    for released in (np.zeros((2, 3)), []):
        with pytest.raises(ValueError, match="8 parameters a release"):
            attack.predict(released)
