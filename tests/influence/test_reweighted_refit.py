"""Encodings of reweighted fits against refits of the whole algorithm."""

import warnings

import numpy as np
import pytest
from helpers import flat, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skleak.influence import candidate_encodings
from skleak.influence.refit import _candidates as _reweighted_refit
from skleak.influence.reweighting import _closed_system as closed_system
from skleak.influence.reweighting._closed_system import ClosedSystem
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
RULES = ["irfil", "total"]
BALANCED = {
    "record": {},
    "features": {"reweighting__features": [0, 1]},
    "trace": {"reweighting__norm": "trace"},
}
BALANCED |= {f"total, {name}": {"reweighting": "total", **BALANCED[name]} for name in BALANCED}
VALUES = np.array([[0.0, 0.3], [1.0, -2.0]])
OPTIONS = {"alpha": 0.5, "reweighting": "irfil", "reweighting__max_iter": 300, "tol": 1e-14}


def make_data(estimator, rng, n=50):
    """A binary and two numeric columns, targets of the loss, and integer weights."""
    X = rng.normal(size=(n, 3))
    X[:, 0] = X[:, 0] > 0.0
    a = X @ [1.0, 0.5, -0.5]
    if estimator is PrivateLinearRegression:
        y = a + rng.normal(size=n)
    elif estimator is PrivateLogisticRegression:
        y = (a + rng.logistic(size=n) > 0.0).astype(float)
    else:
        y = rng.poisson(np.exp(a)).astype(float)
    return X, y, rng.integers(1, 4, n).astype(float)


def whole_algorithm(estimator, X, y, weights=None, **options):
    """Coefficients at a tightly solved fixed point."""
    model = estimator(0.0, **flat(**{**OPTIONS, "reweighting__tol": 1e-12, **options}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding noise may be larger
        model.fit(X, y, sample_weight=weights)
    return model._confidential_state().factor.coefficients


def worst_error(model, X, y, weights, encodings, rows, columns, values, **options):
    """Largest error of the differences to the fit, relative to each."""
    fit = model._confidential_state().factor.coefficients
    start = whole_algorithm(type(model), X, y, weights, **options)
    worst = 0.0
    for i, row in enumerate(rows):
        for m, value in enumerate(values):
            moved = X.copy()
            moved[row, columns] = value
            expected = whole_algorithm(type(model), moved, y, weights, **options) - start
            error = np.linalg.norm(encodings[i, m] - fit - expected)
            worst = max(worst, error / np.linalg.norm(expected))
    return worst


def loose(estimator, X, y, weights=None, **options):
    """A fit as users have it: away from the fixed point by the tolerance."""
    model = estimator(0.0, **flat(**{**OPTIONS, "reweighting__tol": 1e-6, **options}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, sample_weight=weights)


@pytest.mark.slow
@pytest.mark.parametrize("options", BALANCED.values(), ids=BALANCED)
@pytest.mark.parametrize("estimator", mostly_slow(ESTIMATORS, 1))
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
def test_refits_of_the_whole_algorithm(estimator, options, fit_intercept, rng):
    X, y, weights = make_data(estimator, rng)
    if estimator is PrivateLogisticRegression and "reweighting__features" in options:
        # These weights are about 1 / |r|, so that the gradient in the intercept cannot vanish
        # unless there are as many records of either class: there is no fixed point.
        fit_intercept = False
    options = {"fit_intercept": fit_intercept, **options}
    model = loose(estimator, X, y, weights, **options)
    rows = np.array([1, 8, 30])
    encodings = candidate_encodings(model, X[rows], y[rows], [0, 1], VALUES)
    error = worst_error(model, X, y, weights, encodings, rows, [0, 1], VALUES, **options)
    assert error <= 1e-6


@pytest.mark.parametrize("target", mostly_slow([True, False], 1))
@pytest.mark.parametrize("reweighting", RULES)
def test_public_targets_and_csr(target, reweighting, rng):
    X, y, weights = make_data(PrivateLogisticRegression, rng)
    options = {"private_target": target, "fit_intercept": False, "reweighting": reweighting}
    model = loose(PrivateLogisticRegression, X, y, weights, **options)
    rows = np.array([4, 5])
    encodings = candidate_encodings(model, X[rows], y[rows], [1], [[1.5]])
    error = worst_error(model, X, y, weights, encodings, rows, [1], [[1.5]], **options)
    assert error <= 1e-6
    other = loose(PrivateLogisticRegression, sparse.csr_array(X), y, weights, **options)
    found = candidate_encodings(other, sparse.csr_array(X)[rows], y[rows], [1], [[1.5]])
    assert_allclose(found, encodings, rtol=0, atol=1e-9)


@pytest.mark.parametrize("reason", ["steps", "size", "singular"])
@pytest.mark.parametrize("reweighting", RULES)
def test_what_does_not_settle_is_refitted(reason, reweighting, rng, monkeypatch):
    X, y, weights = make_data(PrivateLinearRegression, rng)
    model = loose(PrivateLinearRegression, X, y, weights, reweighting=reweighting)
    rows = np.array([2])
    expected = candidate_encodings(model, X[rows], y[rows], [1], [[9.0]])
    model._confidential_state()._found.clear()
    if reason == "steps":
        monkeypatch.setattr(_reweighted_refit, "_settle", lambda *_: None)
    elif reason == "size":  # too large to be written out
        monkeypatch.setattr(_reweighted_refit, "_LARGEST_DENSE", 1)
    else:
        monkeypatch.setattr(
            "skleak.influence.reweighting._total_system.AdjointSystem.matrix",
            lambda system: np.zeros((system.packing.size, system.packing.size)),
        )
    found = candidate_encodings(model, X[rows], y[rows], [1], [[9.0]])
    distance = np.linalg.norm(expected - model._confidential_state().factor.coefficients)
    assert np.linalg.norm(found - expected) <= 1e-6 * distance


@pytest.mark.parametrize("reweighting", RULES)
def test_far_candidates(reweighting, rng):
    X, y, weights = make_data(PrivateLinearRegression, rng, n=20)
    options = {"reweighting": reweighting}
    model = loose(PrivateLinearRegression, X, y, weights, **options)
    values = [[6.0], [-15.0]]
    encodings = candidate_encodings(model, X[:1], y[:1], [1], values)
    assert worst_error(model, X, y, weights, encodings, [0], [1], values, **options) <= 1e-6


@pytest.mark.parametrize("reweighting", RULES)
def test_own_value_and_absent_records_are_the_fit_itself(reweighting, rng):
    X, y, weights = make_data(PrivateLinearRegression, rng)
    weights[3] = 0.0
    model = loose(PrivateLinearRegression, X, y, weights, reweighting=reweighting)
    w = model._confidential_state().factor.coefficients
    encodings = candidate_encodings(model, X, y, 0, [0.0, 1.0])[:5]
    assert_array_equal(encodings[3], np.tile(w, (2, 1)))
    own = encodings[np.arange(5), X[:5, 0].astype(int)]
    assert_array_equal(own, np.tile(w, (5, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("reweighting", RULES)
def test_few_passes_in_large_data(reweighting, rng, monkeypatch):
    X, y, _ = make_data(PrivateLinearRegression, rng, n=2000)
    model = loose(PrivateLinearRegression, X, y, reweighting=reweighting)
    steps, residual = [], ClosedSystem.residual
    monkeypatch.setattr(
        ClosedSystem, "residual", lambda *args: steps.append(len(args[1])) or residual(*args)
    )
    candidate_encodings(model, X[:40], y[:40], 0, [0.0, 1.0])
    assert sum(steps) <= 3 * 40


@pytest.mark.parametrize("balanced", mostly_slow(BALANCED.values(), 1, 5), ids=BALANCED)
def test_candidates_at_once_are_those_of_one_at_a_time(balanced, rng, monkeypatch):
    X, y, weights = make_data(PrivatePoissonRegressor, rng, n=20)
    model = loose(PrivatePoissonRegressor, X, y, weights, **balanced)
    # Several blocks of candidates; one of the values is too far for chord steps.
    monkeypatch.setattr(closed_system, "_ELEMENTS", 2 * X.size)
    values = np.array([[0.0, 0.3], [1.0, -2.0], [1.0, 4.0]])
    found = candidate_encodings(model, X[:2], y[:2], [0, 1], values)
    for i in range(2):
        for m in range(3):
            alone = candidate_encodings(model, X[[i]], y[[i]], [0, 1], values[[m]])[0, 0]
            distance = np.linalg.norm(alone - model._confidential_state().factor.coefficients)
            assert np.linalg.norm(found[i, m] - alone) <= 1e-7 * distance


@pytest.mark.parametrize("reweighting", RULES)
def test_a_candidate_that_cannot_leak_weighs_one(reweighting, rng):
    # Without intercept a record of zeros with target zero moves nothing, whatever its weight.
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    y[4] = 0.0
    options = {"fit_intercept": False, "reweighting": reweighting}
    model = loose(PrivateLinearRegression, X, y, **options)
    state = model._confidential_state()
    found = candidate_encodings(model, X[[4]], y[[4]], [0, 1], [[0.0, 0.0]])[0, 0]
    # The plain iteration on the other records, whose weights then sum to one less.
    others, omega = np.delete(np.arange(20), 4), np.ones(19)
    rest = X[others], y[others]
    for _ in range(300):
        gram = (rest[0].T * omega) @ rest[0] + 20 * 0.5 * np.eye(2)
        w = np.linalg.solve(gram, rest[0].T @ (omega * rest[1]))
        factor = type(state.factor)(w, np.linalg.inv(gram), state.factor.loss, False)
        kappa = state.balanced.norms(factor, *rest)
        level = state.balanced.level(np.ones(19), kappa, np.ones(19))
        omega = state.balanced.weights(kappa, level)
    fit, start = state.factor.coefficients, whole_algorithm(type(model), X, y, **options)
    assert np.linalg.norm(found - fit - (w - start)) <= 1e-6 * np.linalg.norm(w - start)


@pytest.mark.parametrize("reweighting", mostly_slow(RULES))
def test_without_a_fixed_point_they_are_said_to_be_unreliable(reweighting, rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    X[4], y[4] = 0.0, 0.0
    model = PrivateLinearRegression(0.1, fit_intercept=False, reweighting=reweighting)
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        model.fit(X, y)
    with pytest.warns(ConvergenceWarning, match="encodings of this reweighted fit") as caught:
        candidate_encodings(model, X[:1], y[:1], 0, [1.0])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("reweighting", RULES)
def test_where_nothing_leaks_nothing_moves(reweighting, rng):
    X = rng.normal(size=(20, 3))
    model = PrivateLinearRegression(0.1, private_target=False, reweighting=reweighting)
    model.fit(X, np.zeros(20))
    assert_array_equal(candidate_encodings(model, X[:2], np.zeros(2), 0, [0.0, 2.0]), 0.0)


@pytest.mark.parametrize("reweighting", RULES)
def test_the_linearized_system(reweighting, rng):
    """Its matrix against differences of its residuals, with and without a record replaced."""
    X, y, weights = make_data(PrivatePoissonRegressor, rng, n=30)
    model = loose(PrivatePoissonRegressor, X, y, weights, reweighting=reweighting)
    state = model._confidential_state()
    system = _reweighted_refit._fixed_point(state)
    size, step = system.system.packing.size, 1e-6
    rows, new = np.array([7, 2]), np.array([[1.0, 2.0, -1.0], [0.0, 0.5, 3.0]])
    change = system.replacement(rows, new)
    each = step * np.eye(size)
    ends = [system.residual(end) for end in (each, -each)]
    expected = (ends[0] - ends[1]).T / (2.0 * step)
    assert_allclose(system.system.matrix().T, expected, atol=1e-7 * np.abs(expected).max())
    for k in range(2):
        some = change.take(np.full(size, k))
        ends = [system.residual(end, some) for end in (each, -each)]
        expected = (ends[0] - ends[1]).T / (2.0 * step)
        right = rng.normal(size=(1, size))
        one = change.take(np.array([k]))
        found = one.correct(system.solve(right.T).T)[0]
        assert_allclose(found, np.linalg.solve(expected, right[0]), rtol=1e-6, atol=1e-6)
        at_start = system.residual(np.zeros((1, size)), one)[0]
        assert_allclose(change.step[k], -np.linalg.solve(expected, at_start), atol=1e-7)


@pytest.mark.slow
def test_long_work_is_announced(rng, monkeypatch, capfd):
    X, y, _ = make_data(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.0, **flat(**OPTIONS)).fit(X, y)
    quick = candidate_encodings(model, X, y, 0, [0.0, 1.0])
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(_reweighted_refit, "_LONG", 1e3)
    with pytest.warns(UserWarning, match=r"each of the 50 candidates .* Attack fewer records"):
        slow = candidate_encodings(model, X, y, 0, [0.0, 1.0])
    assert "encodings" in capfd.readouterr().err
    assert_array_equal(slow, quick)
