"""Encodings of candidate values equal brute-force refits."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import sparse

from skleak.influence import candidate_encodings
from skleak.influence.refit import OneStep, largest_leverage, target_encodings, way_left
from skleak.influence.refit._changes import Change
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def make_problem(estimator, rng, n=40, d=5):
    X = rng.normal(size=(n, d))
    X[:, 0] = rng.random(n) > 0.4
    a = X @ rng.normal(size=d) * 0.5
    if estimator is PrivateLogisticRegression:
        y = (a + rng.logistic(size=n) > 0).astype(int)
        y[:2] = [0, 1]
    elif estimator is PrivatePoissonRegressor:
        y = rng.poisson(np.exp(0.5 * a + 1.0))
    else:
        y = a + rng.normal(size=n)
    return X, y


def parameters(model):
    coef = np.ravel(model.coef_)
    return np.append(coef, model.intercept_) if model.fit_intercept else coef


def refit(estimator, X, y, weight, row, columns, value, **params):
    changed = X.copy()
    changed[row, columns] = value
    return parameters(
        estimator(noise_scale=0, tol=1e-13, **params).fit(changed, y, sample_weight=weight)
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", mostly_slow([1e-3, 1.0], 0))
@pytest.mark.parametrize("make", mostly_slow([np.asarray, sparse.csr_array], 1))
def test_equal_brute_force_refits(estimator, fit_intercept, alpha, make, rng):
    X, y = make_problem(estimator, rng)
    weight = rng.integers(1, 4, size=len(y)).astype(float)
    params = {"alpha": alpha, "fit_intercept": fit_intercept}
    model = estimator(**params).fit(make(X), y, sample_weight=weight)
    values = [0.0, 1.0, 7.0]
    encodings = candidate_encodings(model, make(X), y, 0, values)
    assert encodings.shape == (len(y), 3, 5 + fit_intercept)
    for row in (0, 7, 23):
        for m, value in enumerate(values):
            expected = refit(estimator, X, y, weight, row, 0, value, **params)
            np.testing.assert_allclose(encodings[row, m], expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_candidates_near_by_settle_without_a_refit(estimator, rng, monkeypatch):
    """With weights that are nearly even, so that steps without them would settle elsewhere."""
    X, y = make_problem(estimator, rng, n=400)
    weight = rng.uniform(0.9, 1.1, size=len(y))
    model = estimator(alpha=0.01, tol=1e-13).fit(X, y, sample_weight=weight)
    expected = refit(estimator, X, y, weight, 5, [0, 1], [0.5, 1.5], alpha=0.01)
    monkeypatch.setattr(Change, "refit", lambda *_: pytest.fail("refitted"))
    found = candidate_encodings(model, X[:9], y[:9], [0, 1], [[0.5, 1.5], [0.0, 0.0]])
    np.testing.assert_allclose(found[5, 0], expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_block_of_columns(estimator, rng):
    X, y = make_problem(estimator, rng)
    model = estimator().fit(X, y)
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    encodings = candidate_encodings(model, X[:9], y[:9], [0, 3], values)
    for row in (0, 8):
        for m in range(3):
            expected = refit(estimator, X, y, None, row, [0, 3], values[m])
            np.testing.assert_allclose(encodings[row, m], expected, atol=1e-8, rtol=0)


def test_records_with_values_of_their_own(rng, monkeypatch):
    X, y = make_problem(PrivateLogisticRegression, rng)
    monkeypatch.setattr("skleak.influence.refit._candidates.TABLE_ELEMENTS", 300)  # many blocks
    reweighted = PrivateLogisticRegression(reweighting="irfil")
    for model in (PrivateLogisticRegression(), reweighted):
        model.fit(X, y)
        values = rng.normal(size=(9, 3, 2))
        together = candidate_encodings(model, X[:9], y[:9], [0, 3], values)
        for row in range(9):
            own = slice(row, row + 1)
            alone = candidate_encodings(model, X[own], y[own], [0, 3], values[row])
            np.testing.assert_allclose(together[own], alone, atol=1e-10, rtol=0)


def test_far_candidates_are_refitted(rng):
    X, y = make_problem(PrivatePoissonRegressor, rng)
    X *= 0.2
    model = PrivatePoissonRegressor(alpha=0.1).fit(X, y)
    for make in (np.asarray, sparse.csr_array):
        if make is sparse.csr_array:
            model.fit(make(X), y)
        encodings = candidate_encodings(model, make(X[:2]), y[:2], 1, [40.0, -60.0])
        for row in (0, 1):
            for m, value in enumerate([40.0, -60.0]):
                expected = refit(PrivatePoissonRegressor, X, y, None, row, 1, value, alpha=0.1)
                np.testing.assert_allclose(encodings[row, m], expected, atol=1e-8, rtol=0)


def test_the_information_of_an_entry_is_the_squared_speed_of_the_minimizer(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    state = PrivateLinearRegression(1.0, alpha=0.1).fit(X, y)._confidential_state()
    nodes, weights, step = np.array([-1.0, 0.0, 2.0]), np.array([0.2, 0.5, 0.3]), 1e-3
    found = OneStep.of(state, state.training).information(2, nodes, weights, step)
    below, above = (candidate_encodings(state, X, y, 2, nodes + d) for d in (-step, step))
    speed = (((above - below) / (2.0 * step)) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, speed @ weights, rtol=1e-6)


@pytest.mark.parametrize("estimator", [PrivateLogisticRegression, PrivatePoissonRegressor])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n, spread", [(30, 0.0), (30, 1.0), (300, 0.0), (300, 0.7)])
def test_what_one_newton_step_errs_by_is_bounded(estimator, fit_intercept, n, spread, rng):
    X, y = make_problem(estimator, rng, n)
    X[:, 1:] *= 0.5 * np.exp(spread * rng.normal(size=(n, 1)))
    X[:, 3] = rng.integers(0, 4, n)
    weight = rng.integers(0, 4, n).astype(float)
    model = estimator(1.0, alpha=1e-2, fit_intercept=fit_intercept, tol=1e-12)
    state = model.fit(X, y, sample_weight=weight)._confidential_state()
    one = OneStep.of(state, state.training, largest_leverage(state))

    def gaps(columns, values):
        """Exact distances of two values, and of one from the fit."""
        if columns is None:
            points = target_encodings(state, np.arange(n), np.asarray(values))
        else:
            points = candidate_encodings(state, X, y, columns, values)
        own = np.linalg.norm(points - state.factor.coefficients, axis=2).max(axis=1)
        pairs = np.linalg.norm(points[:, :, None] - points[:, None], axis=3)
        return pairs.max(axis=(1, 2)), own

    (flipped,), (error,) = one.moved(np.array([0]), [(np.array([1.0]), -2.0)])
    exact = gaps(0, [0.0, 1.0])[0]
    assert np.all(np.abs(flipped - exact) <= error * (1.0 + 1e-7) + 1e-12)
    moves = [(np.array([sign]), 0.0) for sign in (-0.8, 0.8)]
    (apart,), (far,) = one.moved(np.array([1]), moves)
    exact = gaps(1, X[:, [1], None] + np.array([[-0.8], [0.8]]))[1]
    assert np.all(np.abs(apart - exact) <= far * (1.0 + 1e-7) + 1e-12)
    *found, most = one.column(3, np.arange(4.0))
    for distance, exact in zip(found, gaps(3, np.arange(4.0)), strict=True):
        assert np.all(np.abs(distance - exact) <= most * (1.0 + 1e-7) + 1e-12)
    _, apart, most = one.targets(np.array([0.0, 1.0]))
    exact = gaps(None, [0.0, 1.0])[1]
    assert np.all(np.abs(apart - exact) <= most * (1.0 + 1e-7) + 1e-12)
    # Bounds that say something, where no record is far from the others.
    if n == 300 and not spread:
        assert np.median(error[weight > 0.0] / flipped[weight > 0.0]) < 0.2
    assert OneStep.of(state, state.training).column(3, np.arange(4.0))[2].max() == np.inf


def test_the_way_left_of_a_step_on_the_steepest_function():
    """Of ``exp(v) - g v``, whose third derivative is its curvature everywhere, from v = 0."""
    goals = np.exp(np.linspace(-0.5, 0.3, 81))
    steps = goals - 1.0
    bound = way_left(np.abs(steps), 1.0)
    left = np.abs(np.log(goals) - steps)
    assert np.all(bound >= left)
    near = np.abs(steps) < 0.1
    assert np.all(bound[near] <= 1.5 * left[near] + 1e-15)
    # In another unit, and with records that are longer: what counts is the move of predictors.
    np.testing.assert_allclose(way_left(1e-3 * np.abs(steps), 1e3), 1e-3 * bound)
    np.testing.assert_array_equal(way_left(np.array([0.0, 1.0]), np.inf), [0.0, np.inf])


def test_a_step_in_a_table_with_a_column_far_from_zero(rng):
    X, y = make_problem(PrivateLogisticRegression, rng, 300)
    X[:, 2] += 1e8  # on which the errors by rounding of squares are as large as the others' entries
    state = PrivateLogisticRegression(1.0, alpha=1e-2, tol=1e-12).fit(X, y)._confidential_state()
    one = OneStep.of(state, state.training, largest_leverage(state))
    (flipped,), (error,) = one.moved(np.array([0]), [(np.array([1.0]), -2.0)])
    points = candidate_encodings(state, X, y, 0, [0.0, 1.0])
    exact = np.linalg.norm(points - state.factor.coefficients, axis=2).max(axis=1)
    assert np.all(np.abs(flipped - exact) <= error + 1e-6 * exact)
    assert np.median(error / flipped) < 0.5


def test_what_a_step_errs_by_is_not_known_where_weights_move(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    for reweighting, expected in ((None, 0.0), ("irfil", np.inf), ("total", np.inf)):
        model = PrivateLinearRegression(1.0, alpha=0.1, reweighting=reweighting).fit(X, y)
        state = model._confidential_state()
        one = OneStep.of(state, state.training, largest_leverage(state))
        assert np.all(one.moved(np.array([0]), [(np.array([1.0]), -2.0)])[1] == expected)
        assert np.all(one.column(0, np.array([0.0, 1.0]))[2] == expected)
        assert np.all(one.targets(np.array([0.0, 1.0]))[2] == expected)


def test_own_value_and_absent_records_are_the_fit_itself(rng):
    X, y = make_problem(PrivateLogisticRegression, rng)
    weight = np.ones(len(y))
    weight[3] = 0.0
    model = PrivateLogisticRegression(noise_scale=0).fit(X, y, sample_weight=weight)
    encodings = candidate_encodings(model, X, y, 0, [0.0, 1.0])
    np.testing.assert_allclose(encodings[3], np.tile(parameters(model), (2, 1)), atol=1e-12)
    own = encodings[np.arange(len(y)), X[:, 0].astype(int)]
    np.testing.assert_allclose(own, np.tile(parameters(model), (len(y), 1)), atol=1e-12)


def test_bad_input(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression().fit(X, y)
    with pytest.raises(ValueError, match=r"1 of 3 records are not in the training data"):
        candidate_encodings(model, np.vstack([X[:2], X[:1] + 1.0]), y[:3], 0, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"shape \(n_values, 2\)"):
        candidate_encodings(model, X, y, [0, 1], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"got \(2, 3, 1\)"):
        candidate_encodings(model, X, y, 0, np.zeros((2, 3, 1)))
    with pytest.raises(ValueError, match="must be finite"):
        candidate_encodings(model, X, y, 0, [0.0, np.nan])
    with pytest.raises(ValueError, match="index 9"):
        candidate_encodings(model, X, y, 9, [0.0, 1.0])


def test_a_record_that_outweighs_all_others_far_from_the_fit(rng):
    """Its loss at a far candidate is left out of the gradient: subtracted, it would take it all."""
    X, y = make_problem(PrivatePoissonRegressor, rng, n=60, d=3)
    X[0], y[0] = [1.0, 2.0, 60.0], 40
    params = {"alpha": 1e-3, "fit_intercept": False}
    model = PrivatePoissonRegressor(**params).fit(X, y)
    ends = [-2.0, -0.5, 0.0, 0.5, 2.0]
    for column in (1, 2):
        (found,) = candidate_encodings(model, X[:1], y[:1], column, ends)
        for encoding, value in zip(found, ends, strict=True):
            expected = refit(PrivatePoissonRegressor, X, y, None, 0, column, value, **params)
            np.testing.assert_allclose(encoding, expected, atol=1e-8)
