"""Numbers asked of any model: no interpolation through steps, and never worse than guessing."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from skleak.adversary.numbers import HELD_OUT, chebyshev_nodes, is_smooth
from skleak.attacks import BlackBoxAttributeInference, PriorAttack
from skleak.audit import LeakageAuditor

REGRESSORS = [
    DecisionTreeRegressor(random_state=0),
    DecisionTreeRegressor(max_depth=4, random_state=0),
    ExtraTreesRegressor(20, random_state=0),
    KNeighborsRegressor(1),
    make_pipeline(StandardScaler(), KNeighborsRegressor(3)),
    RandomForestRegressor(20, random_state=0),
    GradientBoostingRegressor(random_state=0),
    make_pipeline(KBinsDiscretizer(6, quantile_method="averaged_inverted_cdf"), Ridge()),
    make_pipeline(StandardScaler(), SVR(C=100.0)),
    make_pipeline(StandardScaler(), MLPRegressor(max_iter=50, random_state=0)),
]
CLASSIFIERS = [
    DecisionTreeClassifier(random_state=0),
    DecisionTreeClassifier(max_depth=3, random_state=0),
    ExtraTreesClassifier(20, random_state=0),
    KNeighborsClassifier(1),
    KNeighborsClassifier(5),
    RandomForestClassifier(20, random_state=0),
    HistGradientBoostingClassifier(random_state=0),
    make_pipeline(StandardScaler(), LogisticRegression(C=100.0)),
    GaussianNB(),
    make_pipeline(StandardScaler(), SVC(C=10.0)),
]


def name_of(model):
    return type(model[-1] if hasattr(model, "steps") else model).__name__


def tables(task):
    rng = np.random.default_rng(0)
    if task == "regression":
        data = load_diabetes(as_frame=True, scaled=False)
        yield data.data, data.target, ["s6", "bmi"]
        heavy = pd.DataFrame(rng.lognormal(sigma=1.5, size=(300, 3)), columns=list("abc"))
        yield heavy, 3.0 * np.log(heavy["a"]) + rng.normal(size=300), ["a", "b"]
        noise = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
        yield noise, pd.Series(rng.normal(size=60)), ["a"]
    else:
        for load in (load_iris, load_wine, load_breast_cancer):
            data = load(as_frame=True)
            few = np.arange(0, len(data.target), 1 + len(data.target) // 200)
            yield data.data.iloc[few], data.target.iloc[few], list(data.data.columns[[0, 2]])


def errors(model, X, y, column, criterion, prior):
    """Squared errors of the attack and of guessing, which does not know the target either."""
    truth, nothing = X[column].to_numpy(), np.zeros(len(y))
    attack = BlackBoxAttributeInference(model, column, criterion=criterion, prior=prior)
    guess = PriorAttack(column, prior=prior).fit(X, nothing).predict()
    return (attack.fit(X, y).predict(model) - truth) ** 2, (guess - truth) ** 2


def check_not_worse(model, X, y, column, criterion):
    for prior in ("marginal", "conditional"):
        own, guessing = errors(model, X, y, column, criterion, prior)
        # Each record's choice is made on the others: alike but for what one record counts.
        share = guessing.max() / guessing.sum()
        assert own.sum() <= guessing.sum() * (1.0 + share), (column, criterion, prior)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Bins whose width are too small")
@pytest.mark.slow
@pytest.mark.parametrize("model", REGRESSORS, ids=name_of)
def test_no_regressor_makes_the_attack_worse_than_guessing(model):
    for X, y, columns in tables("regression"):
        model.fit(X, y)
        for column in columns:
            check_not_worse(model, X, y, column, "performance")


@pytest.mark.slow
@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_no_classifier_makes_the_attack_worse_than_guessing(model):
    for X, y, columns in tables("classification"):
        model.fit(X, y)
        criteria = ["performance"]
        criteria += ["proba"] if hasattr(model, "predict_proba") else ["margin"]
        for column in columns:
            for criterion in criteria:
                check_not_worse(model, X, y, column, criterion)


@pytest.mark.parametrize("model", mostly_slow([REGRESSORS[k] for k in (0, 2, 3)]), ids=name_of)
def test_steps_are_found_as_well_as_by_a_fine_grid_search(model):
    """The values whose answer is the target itself: no interpolation leads there."""
    data = load_diabetes(as_frame=True, scaled=False)
    X, y = data.data, data.target
    model.fit(X, y)
    rows, truth = np.arange(0, 442, 17), X["s6"].to_numpy()
    attack = BlackBoxAttributeInference(model, "s6", records=rows).fit(X, y)
    guesses = attack.predict(model)
    found = []
    for row, prior in zip(rows, PriorAttack("s6", records=rows).fit(X, y).predict(), strict=True):
        grid = np.linspace(truth.min(), truth.max(), 2000)
        asked = X.iloc[np.repeat(row, len(grid))].assign(s6=grid)
        exact = np.abs(model.predict(asked) - y[row]) < 1e-9
        found.append(grid[exact].mean() if exact.any() else prior)
    search = np.mean((np.array(found) - truth[rows]) ** 2)
    guessing = np.mean((truth.mean() - truth[rows]) ** 2)
    assert np.mean((guesses - truth[rows]) ** 2) < 1.1 * search + 0.1 * guessing


def test_a_classifier_is_guessed_from_by_the_posterior_mean():
    """By Bayes' rule on a grid of our own."""
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(10, min_samples_leaf=5, random_state=0).fit(X, y)
    attack = BlackBoxAttributeInference(
        model, 2, criterion="proba", prior="uniform", records=[0, 60, 120]
    ).fit(X, y)
    for row, guess in zip((0, 60, 120), attack.predict(model), strict=True):
        others = np.delete(X[:, 2], row)
        width = np.ptp(others)
        # But for the ends, where the density of the attack falls to zero.
        grid = np.linspace(others.min() - 0.5 * width, others.max() + 0.5 * width, 4001)
        asked = np.repeat(X[[row]], len(grid), axis=0)
        asked[:, 2] = grid
        weights = model.predict_proba(asked)[:, y[row]]
        weights *= np.minimum(1.0, np.minimum(grid - grid[0], grid[-1] - grid) * 8.0 / np.ptp(grid))
        assert guess == pytest.approx(weights @ grid / weights.sum(), abs=0.25)


def test_steps_without_a_prior_are_guessed_in_the_middle_of_the_best():
    """Of the smallest squared error that any value between those of the others has."""
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150, [2, 8]], y[:150]
    model, rows = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y), [0, 40, 90]
    attack = BlackBoxAttributeInference(model, 1, criterion="loss", records=rows).fit(X, y)
    for row, guess in zip(rows, attack.predict(model), strict=True):
        others = np.delete(X[:, 1], row)
        grid = np.linspace(others.min(), others.max(), 5001)
        asked = np.column_stack([np.full(5001, X[row, 0]), grid])
        loss = (model.predict(asked) - y[row]) ** 2
        assert guess == pytest.approx(grid[loss == loss.min()].mean(), abs=np.ptp(grid) / 100.0)


def test_where_answers_mislead_the_prior_is_guessed(rng):
    """A model that answers the reverse of what the column does to its target."""

    class Reversed(Ridge):
        def predict(self, X):
            return -super().predict(X)

    X = rng.normal(size=(200, 2))
    y = X @ [1.0, 1.0] + 0.1 * rng.normal(size=200)
    model = Reversed().fit(X, y)
    attack = BlackBoxAttributeInference(model, 0, records=range(50)).fit(X, y)
    guess = PriorAttack(0, records=range(50)).fit(X, y).predict()
    np.testing.assert_allclose(attack.predict(model), guess, atol=1e-3)


def test_smoothness_is_told_by_values_that_are_held_out():
    nodes = chebyshev_nodes(-np.ones(1), np.ones(1))[:, 0]
    for smooth in (np.exp, np.sin, np.square, np.zeros_like, lambda x: 1e9 + x):
        assert is_smooth(smooth(nodes), smooth(HELD_OUT))
    for place in np.linspace(-0.9, 0.9, 37):

        def step(x, place=place):
            return (x > place).astype(float)

        for size in (1e-6, 1.0, 1e6):
            assert not is_smooth(size * step(nodes), size * step(HELD_OUT))
    assert not is_smooth(np.where(nodes > 0.5, -np.inf, 0.0), np.zeros(len(HELD_OUT)))


@pytest.mark.slow
def test_an_audit_of_a_number_in_a_classifier_needs_no_values():
    """Neither attack sends its reader to the other."""
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(10, random_state=0)
    auditor = LeakageAuditor(model, 2, n_releases=2, prior="marginal").fit(X, y)
    table = auditor.results_.set_index("attack")
    assert {"black_box", "black_box_proba"} <= set(table.index)
    assert table.loc["black_box_proba", "mse"] < 0.8 * table.loc["prior", "mse"]
    assert (table["mse"] <= 1.01 * table.loc["prior", "mse"]).all()
