"""The generalization gap: losses by hand, intervals, coverage."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, mean_squared_error, zero_one_loss
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skleak.metrics import mean_interval
from skleak.metrics.scores import GeneralizationGap, generalization_gap, record_losses
from skleak.utils._predictions import complements, log_probabilities


def records(rng, n=200, d=4):
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, "yes", "no")


def test_losses_are_those_of_scikit_learn(rng):
    X, y = records(rng)
    model = LogisticRegression().fit(X[:50], y[:50])
    parts = X[:50], y[:50], X[50:], y[50:]
    log = generalization_gap(model, *parts)
    assert log.train_loss == pytest.approx(log_loss(y[:50], model.predict_proba(X[:50])))
    assert log.test_loss == pytest.approx(log_loss(y[50:], model.predict_proba(X[50:])))
    wrong = generalization_gap(model, *parts, loss="zero_one")
    assert wrong.test_loss == pytest.approx(zero_one_loss(y[50:], model.predict(X[50:])))
    numbers = X @ [1.0, 2.0, 0.0, 0.0] + rng.normal(size=200)
    line = LinearRegression().fit(X[:50], numbers[:50])
    square = generalization_gap(line, X[:50], numbers[:50], X[50:], numbers[50:], "squared")
    assert square.test_loss == pytest.approx(mean_squared_error(numbers[50:], line.predict(X[50:])))
    for result in (log, wrong, square):
        assert isinstance(result, GeneralizationGap)
        assert result.gap == result.test_loss - result.train_loss
        assert result.low < result.gap < result.high


def test_intervals_by_hand(rng):
    X, y = records(rng)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[:80], y[:80])
    parts = X[:80], y[:80], X[80:], y[80:]
    losses = [record_losses(model, *part, "zero_one") for part in (parts[:2], parts[2:])]
    found = generalization_gap(model, *parts, "zero_one", 0.9)
    train, test = (mean_interval(one, None, 0.95, value_range=(0.0, 1.0)) for one in losses)
    assert found.low == pytest.approx(test.low - train.high)
    assert found.high == pytest.approx(test.high - train.low)
    model = LogisticRegression().fit(X[:80], y[:80])
    losses = [record_losses(model, *part, "log_loss") for part in (parts[:2], parts[2:])]
    found = generalization_gap(model, *parts)
    welch = stats.ttest_ind(losses[1], losses[0], equal_var=False).confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], [welch.low, welch.high])


def test_a_known_range_needs_no_other_assumption(rng):
    X, y = records(rng)
    model = LogisticRegression().fit(X[:50], y[:50])
    parts = X[:50], y[:50], X[50:], y[50:]

    def brier(model, X, y):
        return (model.predict_proba(X)[:, 1] - (np.asarray(y) == "yes")) ** 2

    free = generalization_gap(model, *parts, loss=brier, loss_range=(0.0, 1.0))
    normal = generalization_gap(model, *parts, loss=brier)
    assert free.gap == normal.gap
    assert free.low < normal.low
    assert normal.high < free.high
    doubled = generalization_gap(
        model, *parts, loss=lambda *args: 2.0 * brier(*args) - 1.0, loss_range=(-1.0, 1.0)
    )
    np.testing.assert_allclose([doubled.low, doubled.high], [2 * free.low, 2 * free.high])
    with pytest.raises(ValueError, match="value_range"):
        generalization_gap(model, *parts, loss=brier, loss_range=(0.0, 0.01))


@pytest.mark.slow
@pytest.mark.parametrize("n_test", [10, 40])
@pytest.mark.parametrize("risk", [0.05, 0.3])
def test_coverage_of_the_gap_of_one_model_is_exact(n_test, risk):
    # A class that is always missed: the risk of the model is known, and so is the law of the count.
    model = DummyClassifier(strategy="constant", constant=False).fit([[0]] * 2, [False, True])
    train = np.arange(30) < 1
    X_train, X_test = np.zeros((30, 1)), np.zeros((n_test, 1))
    coverage = 0.0
    for count in range(n_test + 1):
        test = np.arange(n_test) < count
        found = generalization_gap(model, X_train, train, X_test, test, "zero_one")
        covered = found.low <= risk - 1 / 30 <= found.high
        coverage += covered * stats.binom.pmf(count, n_test, risk)
    assert coverage >= 0.95


def test_an_exact_fit_and_data_that_say_nothing(rng):
    X = rng.normal(size=(30, 3))
    y = rng.normal(size=30)
    model = LinearRegression().fit(X[:4], y[:4])
    found = generalization_gap(model, X[:4], y[:4], X[4:], y[4:], "squared")
    assert found.train_loss < 1e-20
    assert np.isfinite([found.low, found.high]).all()
    one = generalization_gap(model, X[:4], y[:4], X[4:5], y[4:5], "squared")
    assert (one.low, one.high) == (-np.inf, np.inf)
    constant = generalization_gap(
        model, X[:4], y[:4], X[4:], y[4:], loss=lambda model, X, y: np.ones(len(y))
    )
    assert (constant.gap, constant.low, constant.high) == (0.0, -np.inf, np.inf)


@pytest.mark.parametrize("loss", ["log_loss", "zero_one"])
@pytest.mark.parametrize(
    "code",
    [
        lambda y: y == "yes",
        lambda y: 1 + (y == "yes"),
        lambda y: pd.Series(pd.Categorical(y)),
        lambda y: y.astype(object),
    ],
)
def test_codings_of_labels_give_the_same_gap(loss, code, rng):
    X, y = records(rng)
    coded = code(y)
    expected, found = (
        generalization_gap(
            LogisticRegression().fit(X[:50], z[:50]), X[:50], z[:50], X[50:], z[50:], loss
        )
        for z in (y, coded)
    )
    assert found.gap == pytest.approx(expected.gap)
    assert found.low == pytest.approx(expected.low)


def test_labels_that_were_never_seen(rng):
    X, y = records(rng)
    model = LogisticRegression().fit(X[:50], y[:50])
    unseen = np.where(np.arange(200) == 150, "maybe", y)
    found = generalization_gap(model, X[:50], y[:50], X[50:], unseen[50:])
    assert np.isfinite(found.test_loss)
    assert record_losses(model, X, unseen, "log_loss").argmax() == 150
    assert record_losses(model, X, unseen, "zero_one")[150] == 1.0
    with pytest.raises(ValueError, match="knows none of the labels"):
        generalization_gap(model, X[:50], y[:50], X, np.arange(200))
    with pytest.raises(TypeError, match="no guess could be right"):
        generalization_gap(model, X[:50], y[:50], X, np.arange(200), "zero_one")


def test_data_frames_sparse_records_and_one_class(rng):
    X, y = records(rng)
    table = pd.DataFrame(X, columns=list("abcd"))
    model = LogisticRegression().fit(table[:50], y[:50])
    expected = generalization_gap(model, table[:50], y[:50], table[50:], y[50:])
    shuffled = table[list("dbca")]
    assert generalization_gap(model, shuffled[:50], y[:50], shuffled[50:], y[50:]) == expected
    with pytest.raises(ValueError, match=r"lack columns.*'d'"):
        generalization_gap(model, table[["a", "b", "c"]], y, table, y)
    model = LogisticRegression().fit(X[:50], y[:50])
    S = sparse.csr_array(X)
    found = generalization_gap(model, S[:50], y[:50], S[50:], y[50:])
    assert found.gap == pytest.approx(expected.gap)
    one = DummyClassifier().fit(X[:5], ["a"] * 5)
    found = generalization_gap(one, X[:5], ["a"] * 5, X[5:9], ["a", "a", "a", "b"])
    assert found.train_loss == 0.0
    assert found.test_loss == pytest.approx(-np.log(np.finfo(float).tiny) / 4)


def test_errors(rng):
    X, y = records(rng, 20)
    model = LogisticRegression().fit(X, y)
    for wrong, error, message in [
        ({"loss": "hinge"}, ValueError, "`loss` must be"),
        ({"loss": "squared"}, TypeError, "needs numbers"),
        ({"loss": lambda m, X, y: np.ones(3)}, ValueError, "one target for each record"),
        ({"loss": lambda m, X, y: np.full(20, np.inf)}, ValueError, "finite"),
        ({"confidence_level": 1.0}, ValueError, "confidence_level"),
    ]:
        with pytest.raises(error, match=message):
            generalization_gap(model, X, y, X, y, **wrong)
    with pytest.raises(ValueError, match="one target for each record"):
        generalization_gap(model, X, y[:19], X, y)
    with pytest.raises(ValueError, match="missing"):
        generalization_gap(model, X, np.where(y == "no", None, y), X, y)
    with pytest.raises(ValueError, match="no `predict_proba`"):
        generalization_gap(LinearSVC().fit(X, y), X, y, X, y)
    with pytest.raises(ValueError, match="shape"):
        generalization_gap(model, X, y[:, None], X, y)


def test_probabilities_keep_their_digits():
    p = np.array([[1.0, 1e-30], [1e-30, 1.0], [0.4, 0.6], [0.0, 1.0]])
    expected = [
        [-1e-30, -69.0775527898],
        [-69.0775527898, -1e-30],
        np.log([0.4, 0.6]),
        [-708.396, 0],
    ]
    np.testing.assert_allclose(log_probabilities(p, complements(p)), expected, rtol=1e-5)
