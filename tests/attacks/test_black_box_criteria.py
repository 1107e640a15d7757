"""Criteria of the black-box attack, against loops over records and candidates."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy.special import expit, log_expit
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skleak.attacks import BlackBoxAttributeInference
from skleak.attacks._black_box import log_likelihoods, ties_by_prior
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.utils._predictions import classifies

CRITERIA = ["performance", "proba", "likelihood", "loss", "accuracy", "gradient"]
PRIOR = np.array([0.5, 0.3, 0.2])
STEP = 1e-6


def make_records(rng, n=60):
    return np.column_stack([rng.integers(0, 3, n), rng.normal(size=(n, 2))]).astype(float)


def make_labels(X, rng, names=("high", "low", "mid")):
    a = np.column_stack([X[:, 0] - X[:, 1], X[:, 2], 0.5 * X[:, 0]]) + rng.gumbel(size=(len(X), 3))
    return np.array(names)[a.argmax(axis=1)]


def swapped(X, i, value):
    row = X[[i]].copy()
    row[0, 0] = value
    return row


def by_hand(scores, prior=PRIOR):
    """Largest score; of equal ones the largest prior, then the first."""
    return min(range(3), key=lambda m: (-scores[m], -prior[m], m))


CLASSIFIERS = [
    LogisticRegression(),
    GaussianNB(),
    KNeighborsClassifier(4),
    RandomForestClassifier(11, random_state=0),
    MLPClassifier((5,), max_iter=40, random_state=0),
    PrivateLogisticRegression(0),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skleak.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "criterion", mostly_slow(["proba", "likelihood", "loss", "accuracy"], 0, 1)
)
def test_classifiers_by_hand(model, criterion, rng):
    X = make_records(rng)
    y = make_labels(X, rng)
    model.fit(X, y)
    attack = BlackBoxAttributeInference(model, 0, criterion=criterion, prior=PRIOR).fit(X, y)
    guesses = attack.predict(model)
    posterior = attack.predict_proba(model) if hasattr(attack, "predict_proba") else None
    for i in range(len(X)):
        rows = [swapped(X, i, m) for m in range(3)]
        label = list(model.classes_).index(y[i])
        p = np.array([model.predict_proba(row)[0, label] for row in rows])
        if criterion == "accuracy":
            expected = by_hand([model.predict(row)[0] == y[i] for row in rows])
        elif criterion == "proba":
            joint = p * PRIOR
            expected = guesses[i] if joint[int(guesses[i])] > 0.999999999 * joint.max() else None
        else:
            expected = by_hand(np.round(p, 14))
        assert guesses[i] == expected
        if posterior is not None and p.sum() > 0:
            joint = p * PRIOR if criterion == "proba" else p
            np.testing.assert_allclose(posterior[i], joint / joint.sum(), rtol=1e-9, atol=1e-300)
    assert (posterior is None) == (criterion in ("loss", "accuracy"))


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["proba", "likelihood", "loss"])
@pytest.mark.parametrize("model", mostly_slow([LinearRegression(), KNeighborsRegressor(3)], 1))
def test_regressors_by_hand(model, criterion, rng):
    X = make_records(rng)
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=60)
    model.fit(X, y)
    attack = BlackBoxAttributeInference(model, 0, criterion=criterion, prior=PRIOR).fit(X, y)
    guesses = attack.predict(model)
    for i in range(len(X)):
        candidates = np.array([model.predict(swapped(X, i, m))[0] for m in range(3)])
        spread = np.sqrt(np.mean(np.delete(y - model.predict(X), i) ** 2))
        p = norm.pdf(y[i], candidates, spread)
        joint = p * PRIOR if criterion == "proba" else p
        scores = -((y[i] - candidates) ** 2) if criterion == "loss" else joint
        assert guesses[i] == by_hand(scores)
        if criterion != "loss":
            np.testing.assert_allclose(
                attack.predict_proba(model)[i], joint / joint.sum(), rtol=1e-8
            )
    assert hasattr(attack, "predict_proba") == (criterion != "loss")


def cross_entropy(parameters, x, y):
    return -log_expit(np.where(y, 1.0, -1.0) * (parameters[:-1] @ x + parameters[-1]))


def half_square(parameters, x, y):
    return 0.5 * (y - parameters[:-1] @ x - parameters[-1]) ** 2


def poisson(parameters, x, y):
    a = parameters[:-1] @ x + parameters[-1]
    return np.exp(a) - y * a


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (LogisticRegression(C=0.1), cross_entropy),
        (PrivateLogisticRegression(0.1, random_state=np.random.default_rng(0)), cross_entropy),
        (LinearRegression(), half_square),
        (PrivatePoissonRegressor(0.1, random_state=np.random.default_rng(0)), poisson),
    ],
    ids=["logistic", "private logistic", "linear", "private Poisson"],
)
def test_gradient_by_finite_differences(model, loss, rng):
    X = make_records(rng, 40)
    y = X @ [1.0, 2.0, -1.0] + rng.normal(size=40)
    if loss is cross_entropy:
        y = y > 1.0
    if loss is poisson:
        y = rng.poisson(np.exp(0.3 * X[:, 1])).astype(float)
    model.fit(X, y)
    parameters = np.append(model.coef_, model.intercept_)
    attack = BlackBoxAttributeInference(model, 0, criterion="gradient", prior=PRIOR).fit(X, y)
    for i, guess in enumerate(attack.predict(model)):
        norms = []
        for m in range(3):
            x = swapped(X, i, m)[0]
            gradient = [
                (loss(parameters + e, x, y[i]) - loss(parameters - e, x, y[i])) / (2 * STEP)
                for e in STEP * np.eye(4)
            ]
            norms.append(np.linalg.norm(gradient))
        assert norms[int(guess)] <= min(norms) * (1.0 + 1e-5) + 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_of_a_network_by_finite_differences(classes, rng):
    X = make_records(rng, 30)
    y = make_labels(X, rng, ("a", "b", "c")[:classes] + ("a",) * (3 - classes))
    network = MLPClassifier((4,), "tanh", max_iter=30, random_state=0).fit(X, y)
    attack = BlackBoxAttributeInference(network, 0, criterion="gradient", records=[0, 7]).fit(X, y)
    guesses = attack.predict(network)
    for i, guess in zip((0, 7), guesses, strict=True):
        label = [list(network.classes_).index(y[i])]
        norms = []
        for m in range(3):
            squares = 0.0
            for array in network.coefs_ + network.intercepts_:
                for place in np.ndindex(array.shape):
                    kept, ends = array[place], []
                    for step in (STEP, -STEP):
                        array[place] = kept + step
                        ends.append(-np.log(network.predict_proba(swapped(X, i, m))[0, label]))
                    array[place] = kept
                    squares += ((ends[0] - ends[1]) / (2 * STEP))[0] ** 2
            norms.append(np.sqrt(squares))
        assert norms[int(guess)] <= min(norms) * (1.0 + 1e-4)


class Table(ClassifierMixin, BaseEstimator):
    """A classifier that is the population itself: its probabilities are exact."""

    def __init__(self, table=None):
        self.table = table

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        X = np.asarray(X).astype(int)
        return self.table[X[:, 0], X[:, 1]]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def test_posterior_is_that_of_bayes_and_no_criterion_beats_it(rng):
    table = rng.dirichlet([0.5, 0.5, 0.5], size=(3, 4))  # Pr(y | t, v)
    X = np.array(list(itertools.product(range(3), range(4), range(3))))
    X, y = X[:, :2], X[:, 2]
    model = Table(table).fit(X, y)
    population = (PRIOR[:, None, None] * table / 4).ravel()  # Pr(t, v, y), v independent of t
    success = {}
    for criterion in ("proba", "likelihood", "loss", "accuracy"):
        attack = BlackBoxAttributeInference(model, 0, criterion=criterion, prior=PRIOR).fit(X, y)
        success[criterion] = population[attack.predict(model) == X[:, 0]].sum()
        if criterion == "proba":
            for (_, v), label, row in zip(X, y, attack.predict_proba(model), strict=True):
                joint = [PRIOR[m] * table[m, v, label] for m in range(3)]
                np.testing.assert_allclose(row, joint / np.sum(joint), rtol=1e-12)
    best = population.reshape(3, 4, 3).max(axis=0).sum()
    assert success["proba"] == pytest.approx(best, rel=1e-12)
    assert max(success.values()) <= best + 1e-12
    assert best > PRIOR.max() + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["proba", "likelihood", "loss", "accuracy"])
@pytest.mark.parametrize(
    "learner",
    [KNeighborsClassifier(1), DecisionTreeClassifier(random_state=0)],
    ids=["neighbors", "tree"],
)
def test_records_learnt_by_heart_are_told(criterion, learner, make_table, make_pipe, rng):
    X, _ = make_table(n=300)
    X["gene"] = rng.choice(["A", "B", "C"], size=300)
    X[["age", "dose"]] = rng.integers(0, 3, size=(300, 2)).astype(float)
    y = rng.choice(list("pqrstu"), size=300)
    X = X.drop_duplicates()
    y = y[X.index]
    pipe = make_pipe(learner).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion, prior="uniform")
    assert attack.fit(X, y).score(pipe, X["gene"]) > 0.6


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_overfitted_network_leaks_by_every_criterion(make_table, make_pipe, rng):
    X, _ = make_table(n=60)
    X["gene"] = np.tile(["A", "B", "C"], 20)
    y = rng.integers(0, 2, size=60)
    network = MLPClassifier(
        (64,), alpha=0.0, learning_rate_init=0.01, max_iter=1500, random_state=0
    )
    pipe = make_pipe(network).fit(X, y)
    assert pipe.score(X, y) == 1.0
    for criterion in ("proba", "likelihood", "loss", "gradient"):
        attack = BlackBoxAttributeInference(pipe, "gene", criterion=criterion, prior="uniform")
        assert attack.fit(X, y).score(pipe, X["gene"]) > 0.48


def test_loss_tells_apart_what_rounds_to_certainty():
    """Both candidates give probability 1.0, and the other label 1e-30 or 1e-40."""

    class Certain(Table):
        def predict_log_proba(self, X):
            other = np.log(np.where(np.asarray(X)[:, 0] > 0, 1e-40, 1e-30))
            return np.column_stack([np.log1p(-np.exp(other)), other])

        def predict_proba(self, X):
            return np.exp(self.predict_log_proba(X))

    X, y = np.array([[0.0, 0], [1.0, 0], [0.0, 1], [0.0, 0]]), np.array([0, 0, 0, 1])
    model = Certain().fit(X, y)
    guesses = {}
    for criterion in ("likelihood", "loss"):
        attack = BlackBoxAttributeInference(model, 0, criterion=criterion, prior=[0.6, 0.4])
        guesses[criterion] = attack.fit(X, y).predict(model)
    np.testing.assert_array_equal(guesses["likelihood"], [0, 0, 0, 0])
    np.testing.assert_array_equal(guesses["loss"], [1, 1, 1, 0])


@pytest.mark.parametrize(
    ("logs", "message"),
    [(np.log([[0.5, 0.6]]), "sum 1 in every row; got sums from 1.1"), ([-1.0], "got shape")],
)
def test_logarithms_that_are_of_no_probabilities(logs, message):
    model = SimpleNamespace(classes_=np.arange(2), predict_log_proba=lambda X: logs)
    with pytest.raises(ValueError, match=message):
        log_likelihoods(model, np.zeros((1, 1)), np.array([0]), precise=True)


def test_log_likelihoods_at_both_ends(rng):
    a = np.array([-900.0, -40.0, -1.0, 0.0, 2.0, 45.0])
    X = a[:, None]
    model = PrivateLogisticRegression(0).fit(rng.normal(size=(20, 1)), np.arange(20) % 2)
    model.coef_, model.intercept_ = np.array([1.0]), 0.0
    ones = np.ones(6, dtype=int)
    np.testing.assert_allclose(
        log_likelihoods(model, X, ones, precise=True), log_expit(a), rtol=1e-12
    )
    rough = log_likelihoods(model, X, ones, precise=False)
    assert np.isneginf(rough[0])
    assert rough[-1] == 0.0
    np.testing.assert_allclose(rough[1:-1], np.log(expit(a[1:-1])))
    # Without logarithms of its own, and for a label never seen.
    forest = RandomForestClassifier(5, random_state=0).fit(X, a > 0)
    delattr_free = KNeighborsClassifier(3).fit(X, a > 0)
    for other in (forest, delattr_free):
        logs = log_likelihoods(other, X, np.array([0, 1, 0, 1, -1, -1]), precise=True)
        p = other.predict_proba(X)[np.arange(4), [0, 1, 0, 1]]
        np.testing.assert_allclose(np.exp(logs[:4]), p)
        assert np.all(np.isneginf(logs[4:]))


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_y_may_be_coded_in_any_way_of_equal_value(criterion, rng):
    X = make_records(rng, 80)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=80) > 1).astype(int)
    codings = [
        y.astype(np.int8),
        y.astype(float),
        y.astype(object),
        y.tolist(),
        y.astype(bool),
        y.astype(bool).tolist(),
        pd.Series(y, dtype="category"),
        pd.Series(y, dtype="Int64"),
        pd.Series(y.astype(bool), index=np.arange(80)[::-1]),
    ]
    for fitted_on in (y, y.astype(bool)):
        model = LogisticRegression().fit(X, fitted_on)
        attack = BlackBoxAttributeInference(model, 0, criterion=criterion)
        expected = attack.fit(X, y).predict(model)
        assert len(np.unique(expected)) > 1
        for coding in codings:
            np.testing.assert_array_equal(attack.fit(X, coding).predict(model), expected)
        names = np.where(y == 1, "yes", "no")
        named = LogisticRegression().fit(X, names)
        for coding in (names, names.astype(object), pd.Series(names, dtype="category"), names[:]):
            np.testing.assert_array_equal(attack.fit(X, coding).predict(named), expected)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_y_of_another_kind_is_refused(criterion, rng):
    X = make_records(rng)
    y = (X[:, 1] > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    attack = BlackBoxAttributeInference(model, 0, criterion=criterion).fit(X, y.astype(str))
    with pytest.raises(ValueError, match="knows none of the labels"):
        attack.predict(model)
    regression = LinearRegression().fit(X, X[:, 1])
    if criterion != "accuracy":
        with pytest.raises(TypeError, match="must be numbers"):
            attack.predict(regression)
    y = y.astype(object)
    y[0] = None
    with pytest.raises(ValueError, match="missing values"):
        attack.fit(X, y)


@pytest.mark.parametrize("criterion", ["performance", "accuracy"])
def test_labels_of_another_kind_without_a_list_of_classes(criterion, rng):
    class OnlyPredict(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.where(np.asarray(X)[:, 0] > 1, "1", "0")

    X = make_records(rng)
    y = (X[:, 0] > 1).astype(int)
    attack = BlackBoxAttributeInference(OnlyPredict(), 0, criterion=criterion)
    with pytest.raises(TypeError, match="no guess could be right"):
        attack.fit(X, y).predict(OnlyPredict())
    guesses = attack.fit(X, y.astype(str).astype(object)).predict(OnlyPredict())
    np.testing.assert_array_equal(guesses > 1, X[:, 0] > 1)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_labels_never_seen_leave_the_prior(criterion, rng):
    X = make_records(rng)
    y = make_labels(X, rng)
    known = y != "mid"
    model = LogisticRegression().fit(X[known], y[known])
    attack = BlackBoxAttributeInference(model, 0, criterion=criterion, prior=PRIOR[::-1])
    guesses = attack.fit(X, y).predict(model)
    assert len(np.unique(guesses[known])) > 1
    if criterion != "performance":
        np.testing.assert_array_equal(guesses[~known], 2)
    if criterion == "proba":
        posterior = attack.predict_proba(model)
        np.testing.assert_allclose(posterior[~known], np.tile(PRIOR[::-1], ((~known).sum(), 1)))
    # A batch of nothing else, and one of a single class, are as good as any.
    for rows in (np.flatnonzero(~known), np.flatnonzero(y == "low")):
        some = BlackBoxAttributeInference(
            model, 0, criterion=criterion, prior=PRIOR[::-1], records=rows
        )
        np.testing.assert_array_equal(some.fit(X, y).predict(model), guesses[rows])


def test_impossible_values_with_impossible_labels(rng):
    X = make_records(rng)
    y = (X[:, 1] > 0).astype(int)
    model = DecisionTreeClassifier(random_state=0).fit(X[:, :2], y)
    attack = BlackBoxAttributeInference(model, 0, criterion="proba", prior=[1.0, 0.0, 0.0])
    posterior = attack.fit(X[:, :2], 1 - y).predict_proba(model)
    np.testing.assert_array_equal(posterior, np.tile([1.0, 0.0, 0.0], (60, 1)))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_ties_go_to_the_prior_and_then_to_the_first(criterion, rng):
    X = make_records(rng)
    X[:, 2] = X[:, 0]
    y = (X[:, 1] > 0).astype(int)
    blind = LogisticRegression().fit(X, y)
    blind.coef_[0, 0] = 0.0
    options = {"criterion": criterion, "gradient_norm": lambda model, X, y: np.ones(len(y))}
    for prior, expected in [([0.2, 0.3, 0.5], 2.0), ([0.4, 0.2, 0.4], 0.0), ("uniform", 0.0)]:
        attack = BlackBoxAttributeInference(blind, 0, prior=prior, **options).fit(X, y)
        np.testing.assert_array_equal(attack.predict(blind), expected)


def test_ties_up_to_round_off():
    prior = np.array([[0.2, 0.3, 0.5]])
    for logarithmic, scores, expected in [
        (False, [0.1 + 0.2, 0.3, 0.0], 1),
        (False, [-1e-20, -1e-21, -1e-22], 2),
        (False, [-1e-22, -1e-21, -1e-20], 0),
        (True, [-1e-16, 0.0, -1e-16], 2),
        (True, [-np.inf, -np.inf, -np.inf], 2),
        (True, [-np.inf, -800.0, -np.inf], 1),
        (False, [0.0, 0.0, 0.0], 2),
    ]:
        assert ties_by_prior(np.array([scores]), prior, logarithmic=logarithmic) == expected


def test_what_has_neither_classes_nor_tags_is_no_classifier():
    assert not classifies(object())


def test_what_a_model_lacks_is_said(rng):
    X = make_records(rng)
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    svm = LinearSVC().fit(X, y)
    for criterion in ("proba", "likelihood", "loss"):
        attack = BlackBoxAttributeInference(svm, 0, criterion=criterion).fit(X, y)
        with pytest.raises(AttackNotApplicableError, match="'performance' or 'accuracy'"):
            attack.predict(svm)
    for criterion in ("performance", "accuracy"):
        attack = BlackBoxAttributeInference(svm, 0, criterion=criterion).fit(X, y)
        assert attack.score(svm, X[:, 0]) > 0.4
    attack = BlackBoxAttributeInference(svm, 0, criterion="gradient").fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="no probabilities"):
        attack.predict(svm)
    regression = LinearRegression().fit(X, y)
    attack = BlackBoxAttributeInference(regression, 0, criterion="accuracy").fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="is a regressor"):
        attack.predict(regression)
    anonymous = Table(np.full((3, 9, 2), 0.5))
    attack = BlackBoxAttributeInference(anonymous, 0, criterion="proba").fit(X, y)
    with pytest.raises(ValueError, match="has no `classes_`"):
        attack.predict(anonymous)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_quantities(criterion, rng):
    X = make_records(rng)
    model = LinearRegression()
    y = X @ [1.0, 2.0, 1.0] + 0.01 * rng.normal(size=60)
    model.fit(X, y)
    attack = BlackBoxAttributeInference(model, 1, criterion=criterion).fit(X, y)
    if criterion == "accuracy":
        with pytest.raises(AttackNotApplicableError, match="is a regressor"):
            attack.predict(model)
    else:
        fitted = X[:, 1] + (y - model.predict(X)) / model.coef_[1]
        inside = (attack.values_[:, 0] < fitted) & (fitted < attack.values_[:, -1])
        # The mean of a posterior this narrow is close to its largest value.
        atol = 1e-3 if criterion in ("performance", "proba", "margin") else 1e-5
        np.testing.assert_allclose(attack.predict(model)[inside], fitted[inside], atol=atol)
    assert not hasattr(attack, "predict_proba")
    labels = y > 0
    classifier = LogisticRegression().fit(X, labels)
    attack.fit(X, labels)
    if criterion in ("performance", "proba", "margin"):
        assert attack.score(classifier, X[:, 1]) > -0.01
    else:
        with pytest.raises(AttackNotApplicableError, match="pass the values to choose from"):
            attack.predict(classifier)


def test_a_criterion_without_probabilities_says_so(rng):
    X = make_records(rng)
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    model = LogisticRegression().fit(X, y)
    for criterion in ("accuracy", "loss", "gradient"):
        attack = BlackBoxAttributeInference(model, 0, criterion=criterion).fit(X, y)
        with pytest.raises(AttributeError) as error:
            attack.predict_proba(model)
        assert "puts the candidate values in an order" in str(error.value.__cause__)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Releasing a model whose noise came from a seed")
@pytest.mark.parametrize("criterion", mostly_slow(CRITERIA, 0, 1))
def test_releases_of_every_kind(criterion, make_table, make_pipe):
    X, y = make_table(PrivateLogisticRegression)
    pipes = [
        make_pipe(PrivateLogisticRegression(0.1, random_state=np.random.default_rng(k))).fit(X, y)
        for k in range(3)
    ]
    attack = BlackBoxAttributeInference(
        pipes[0], "gene", criterion=criterion, records=slice(20)
    ).fit(X, y)
    expected = attack.predict(pipes)
    assert expected.shape == (3, 20)
    array = np.stack([np.append(p[-1].coef_, p[-1].intercept_) for p in pipes])
    np.testing.assert_array_equal(attack.predict(array), expected)
    np.testing.assert_array_equal(attack.predict([p[-1].release() for p in pipes]), expected)
    np.testing.assert_array_equal(attack.predict(pipes[1]), expected[1])
    each = np.repeat(array[:, None], 20, axis=1)
    np.testing.assert_array_equal(attack.predict_each(each), expected)
    regressions = make_table(PrivateLinearRegression)
    model = make_pipe(PrivateLinearRegression(0.1)).fit(*regressions)
    if criterion != "accuracy":
        attack = BlackBoxAttributeInference(model, "gene", criterion=criterion).fit(*regressions)
        parameters = np.append(model[-1].coef_, model[-1].intercept_)
        guesses = attack.predict(model)
        np.testing.assert_array_equal(attack.predict(parameters), guesses)
        each = np.tile(parameters, (1, 60, 1))
        np.testing.assert_array_equal(attack.predict_each(each)[0], guesses)


def test_a_gradient_of_the_users(rng):
    X = make_records(rng)
    y = make_labels(X, rng)
    model = LogisticRegression().fit(X, y)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    closed = BlackBoxAttributeInference(model, 0, criterion="gradient").fit(X, y).predict(model)

    def own(_, X, y):
        p = model.predict_proba(X) - (y[:, None] == model.classes_)
        return np.linalg.norm(p, axis=1) * np.sqrt(1.0 + np.sum(X**2, axis=1))

    attack = BlackBoxAttributeInference(forest, 0, criterion="gradient", gradient_norm=own)
    np.testing.assert_array_equal(attack.fit(X, y).predict(forest), closed)
    for wrong in (lambda model, X, y: -np.ones(len(y)), lambda model, X, y: np.ones(3)):
        attack.set_params(gradient_norm=wrong)
        with pytest.raises(ValueError, match="must return a norm"):
            attack.fit(X, y).predict(forest)
    attack = BlackBoxAttributeInference(forest, 0, criterion="gradient").fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="gradient_norm"):
        attack.predict(forest)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gradient_of_a_network_in_a_pipeline(make_table):
    X, y = make_table()
    X = X[["gene", "city"]]
    pipe = make_pipeline(
        OneHotEncoder(),
        StandardScaler(with_mean=False),
        MLPRegressor(hidden_layer_sizes=(5,), max_iter=30),
    ).fit(X, y)
    attack = BlackBoxAttributeInference(pipe, "gene", criterion="gradient").fit(X, y)
    assert set(attack.predict(pipe)) <= {"A", "B", "C"}


def test_a_regressor_without_residuals_and_one_out_of_bounds(rng):
    X = make_records(rng)
    y = X[:, 0] + X[:, 1]
    neighbor = KNeighborsRegressor(1).fit(X, y)
    for criterion in ("performance", "likelihood", "proba", "loss"):
        attack = BlackBoxAttributeInference(neighbor, 0, criterion=criterion, prior="uniform")
        assert attack.fit(X, y).score(neighbor, X[:, 0]) > 0.9
    linear = LinearRegression().fit(X, y)
    linear.coef_ = np.array([1e200, 0.0, 0.0])
    for criterion in ("performance", "likelihood", "proba", "loss"):
        attack = BlackBoxAttributeInference(linear, 0, criterion=criterion, prior=PRIOR)
        assert set(attack.fit(X, y).predict(linear)) <= {0.0, 1.0, 2.0}
