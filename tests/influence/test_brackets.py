"""Bounds on what one changed entry does to leakage and distances of all records, by refits."""

from dataclasses import fields

import numpy as np
import pytest
from helpers import mostly_slow

from skleak.influence import candidate_encodings
from skleak.influence.jacobian import Columns
from skleak.influence.noise._noise import fixed_losses
from skleak.influence.refit import (
    distance_brackets,
    largest_distances,
    loss_brackets,
    target_encodings,
)
from skleak.influence.refit._distances import Reach, _crossing
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression


@pytest.fixture(params=[PrivateLinearRegression, PrivateLogisticRegression])
def make_fit(request, rng):
    """Factory of states of the fit on ``n`` records, one entry of column 1 changed if told so."""

    def make(n):
        X = rng.normal(size=(n, 3))
        X[:, 0] = X[:, 0] > 0.0
        y = X @ [1.0, -1.0, 0.5] + rng.logistic(size=n)
        y = y if request.param is PrivateLinearRegression else (y > 0).astype(int)
        weights = rng.integers(1, 3, size=n).astype(float)

        def fit(i=None, value=None):
            changed = X.copy()
            if i is not None:
                changed[i, 1] = value
            return request.param(1.0, alpha=0.1).fit(changed, y, weights)._confidential_state()

        return fit

    return make


def check(low, high, values, now, measure):
    """Refits of the records that move most lie within brackets that are narrow at the median."""
    for i in {0, low[:, 1].argmax(), high[:, 1].argmax(), low[:, 0].argmin()}:
        for m, value in enumerate(values[:, 0]):
            assert low[i, m] <= measure(i, value) <= high[i, m]
    middle = np.median(low, axis=0), np.median(high, axis=0)
    np.testing.assert_allclose(middle, now, rtol=0.15)
    assert np.all(middle[0] <= now)
    assert np.all(now <= middle[1])


@pytest.mark.parametrize("quantile", mostly_slow([1.0, 0.5], 0))
def test_losses(make_fit, quantile):
    n, measured, values = 2000, Columns(), np.array([[-0.5], [4.0]])
    fit = make_fit(n)

    def measure(*changed):
        state = fit(*changed)
        losses = fixed_losses(state.at_noise(1.0), state.training, [measured])[:, 0]
        return np.quantile(losses, quantile, method="higher")

    now = measure()
    bounds = loss_brackets(fit(), np.arange(n), np.array([1]), values, measured, quantile)
    check(*bounds, values, now, measure)
    # At the second value a few records leak more than any did before.
    assert quantile < 1.0 or bounds[0][:, 1].max() > now


def test_losses_where_a_target_changes(rng):
    """With a target far off the record itself leaks most."""
    X, rows, values = rng.normal(size=(200, 2)), np.arange(200), np.array([[0.0], [30.0]])
    y = X @ [1.0, -1.0] + rng.normal(size=200)

    def fit(i=0, value=y[0]):
        changed = y.copy()
        changed[i] = value
        return PrivateLinearRegression(1.0, alpha=0.1).fit(X, changed)._confidential_state()

    def measure(state):
        return fixed_losses(state.at_noise(1.0), state.training, [Columns()])[:, 0].max()

    now, (low, high) = measure(fit()), loss_brackets(fit(), rows, None, values, Columns())
    for i in (0, 17, int(high[:, 1].argmax())):
        for m, value in enumerate(values[:, 0]):
            assert low[i, m] <= measure(fit(i, value)) <= high[i, m]
        assert low[i, 1] > 2.0 * now


@pytest.mark.parametrize("ends", [[[0.0], [1.0]], [[0.0], [0.4], [1.0]]])
def test_distances(make_fit, ends):
    n, values, attribute = 400, np.array([[-0.5], [3.0]]), (np.array([0]), np.array(ends))
    fit = make_fit(n)

    def measure(*changed):
        state = fit(*changed)
        rows, (X, y) = np.arange(n), (state.objective.X, state.objective.y)
        return largest_distances(candidate_encodings(state, X, y, *attribute, rows=rows))

    now, secret = measure(), (np.array([1]), values)
    bounds = distance_brackets(fit(), np.arange(n), secret, attribute, now)
    check(*bounds, values, now.max(), lambda *changed: measure(*changed).max())


def test_distances_where_two_records_hold_the_fit(rng):
    """Without one the other is nearly all there is: what the two do together is no small term."""
    rows, values = np.arange(5), np.array([[0.0], [2.0]])
    attribute = np.array([0]), values
    for _ in range(6):
        X, y = rng.normal(size=(5, 2)) / 2.0, 2.0 * rng.normal(size=5)
        X[:2] = [[2.0, 0.3], [2.0, -0.3]]

        def fit(i=0, value=2.0, X=X, y=y):
            changed = X.copy()
            changed[i, 0] = value
            return PrivateLinearRegression(1.0, alpha=0.05).fit(changed, y)._confidential_state()

        def measure(state):
            X, y = state.objective.X, state.objective.y
            return largest_distances(candidate_encodings(state, X, y, *attribute, rows=rows))

        state = fit()
        low, high = distance_brackets(state, rows, attribute, attribute, measure(state))
        refits = [[measure(fit(i, value)).max() for value in values[:, 0]] for i in rows]
        assert np.all(low <= np.multiply(refits, 1.0 + 1e-9))
        assert np.all(refits <= high * (1.0 + 1e-9))


@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
def test_units_do_not_matter(estimator, rng):
    """Neither those of the features, but for the leakage being per unit, nor those of weights."""
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.logistic(size=300)
    y = y if estimator is PrivateLinearRegression else (y > 0).astype(int)
    weights, rows = rng.uniform(0.5, 2.0, size=300), np.arange(300)
    secret, ends = np.array([1]), np.array([0])

    def bounds(unit, weight):
        model = estimator(1.0, alpha=0.1 * unit**2, fit_intercept=False, tol=1e-13)
        state = model.fit(unit * X, y, weight * weights)._confidential_state()
        values, attribute = unit * np.array([[0.3], [1.5]]), (ends, unit * np.array([[0.0], [1.0]]))
        encodings = candidate_encodings(state, unit * X, state.objective.y, *attribute, rows=rows)
        apart = largest_distances(encodings)
        losses = loss_brackets(state, rows, secret, values, Columns())
        distances = distance_brackets(state, rows, (secret, values), attribute, apart)
        return np.stack(losses) * unit**2, np.stack(distances) * unit

    expected = bounds(1.0, 1.0)
    assert all(np.all(np.isfinite(each)) for each in expected)
    for unit, weight in ((8.0, 1.0), (1.0, 0.01), (1.0, 100.0)):
        for found, number in zip(bounds(unit, weight), expected, strict=True):
            np.testing.assert_allclose(found, number, rtol=1e-5)


def test_uneven_curvature_is_bounded_tightly():
    """What two curvatures, each up or down by some factor, may differ by: to first order in it."""
    zero = {field.name: np.zeros(1) for field in fields(Reach)}
    one = dict.fromkeys(("weight", "own_leverage", "predictor"), np.ones(1))
    for curvature, change in ((0.2, 0.0), (0.2, 0.1)):
        numbers = {"curvature": np.array([curvature]), "curvature_change": np.array([change])}
        record = Reach(**zero | one | numbers)
        for growth in (1.0, 1.001, 1.1, 2.0):
            worst = growth * (curvature + change) - curvature / growth
            found = _crossing(record, record, growth)
            assert found >= worst * (1.0 - 1e-12)
            assert found <= worst + curvature * (growth - 1.0) ** 2


def test_distances_of_labels(rng):
    """The secret of every record is its label; that of one of them changes."""
    n = 300
    X = rng.normal(size=(n, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=n) > 0).astype(float)
    labels, rows = np.array([[0.0], [1.0]]), np.arange(n)

    def distances(targets):
        model = PrivateLogisticRegression(1.0, alpha=0.1, classes=[0.0, 1.0]).fit(X, targets)
        state = model._confidential_state()
        return state, largest_distances(target_encodings(state, rows, labels[:, 0]))

    state, now = distances(y)
    low, high = distance_brackets(state, rows, (None, labels), (None, labels), now)
    for i in {0, 17, int(high.max(axis=1).argmax()), int(now.argmax())}:
        for m in (0, 1):
            changed = y.copy()
            changed[i] = m
            assert low[i, m] <= distances(changed)[1].max() <= high[i, m]
    assert np.median(high / low) < 1.15
