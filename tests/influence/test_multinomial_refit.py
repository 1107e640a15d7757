"""Encodings of candidate values under several classes equal brute-force refits."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.influence import candidate_encodings
from skleak.influence.state import FitState
from skleak.linear_model import PrivateLogisticRegression
from skleak.solvers import minimize


def _state(problem, X=None):
    objective = problem.objective if X is None else replace(problem.objective, X=X)
    return FitState(objective, problem.factor, 1.0, True)


def _refit(problem, row, columns, value):
    X = problem.X.copy()
    X[row, columns] = value
    minimum = minimize(replace(problem.objective, X=X))
    assert minimum.converged
    return minimum.coefficients


@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("n_classes", mostly_slow([3, 7], 0))
@pytest.mark.parametrize("alpha", mostly_slow([1e-3, 1.0], 1))
@pytest.mark.parametrize("make", mostly_slow([np.asarray, sparse.csr_array], 1))
def test_equal_brute_force_refits(make_multinomial, fit_intercept, n_classes, alpha, make):
    problem = make_multinomial(50, 4, n_classes, alpha=alpha, fit_intercept=fit_intercept)
    values = [0.0, 1.0, 7.0]
    X = make(problem.X)
    encodings = candidate_encodings(_state(problem, X), X, problem.y, 1, values)
    assert encodings.shape == (50, 3, n_classes * (4 + fit_intercept))
    for row in (0, 7, 23):
        for m, value in enumerate(values):
            expected = _refit(problem, row, 1, value)
            assert_allclose(encodings[row, m], expected, atol=1e-9, rtol=0)


def test_block_of_columns(make_multinomial):
    problem = make_multinomial(50, 4, 3)
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    state = _state(problem)
    encodings = candidate_encodings(state, problem.X[:9], problem.y[:9], [0, 3], values)
    for row in (0, 8):
        for m in range(3):
            expected = _refit(problem, row, [0, 3], values[m])
            assert_allclose(encodings[row, m], expected, atol=1e-9, rtol=0)


def test_without_a_penalty(make_multinomial):
    problem = make_multinomial(200, 2, 3, alpha=0.0)
    encodings = candidate_encodings(_state(problem), problem.X, problem.y, 0, [0.5])
    for row in (3, 150):
        assert_allclose(encodings[row, 0], _refit(problem, row, 0, 0.5), atol=1e-9, rtol=0)


@pytest.mark.slow
def test_far_candidates_are_refitted(make_multinomial):
    problem = make_multinomial(40, 3, 4, alpha=0.1)
    encodings = candidate_encodings(_state(problem), problem.X, problem.y, 1, [1e3, -1e4])
    for row in (0, 1):
        for m, value in enumerate([1e3, -1e4]):
            expected = _refit(problem, row, 1, value)
            assert_allclose(encodings[row, m], expected, atol=1e-8, rtol=0)


def test_own_value_and_absent_records_are_the_fit_itself(make_multinomial):
    problem = make_multinomial(40, 3, 4)
    X, s = problem.X.copy(), problem.s.copy()
    X[:, 0], s[9] = (X[:, 0] > 0.0), 0.0
    problem = replace(problem, X=X, s=s)
    w = problem.factor.coefficients
    encodings = candidate_encodings(_state(problem), X, problem.y, 0, [0.0, 1.0])
    assert_allclose(encodings[9], np.tile(w, (2, 1)), atol=1e-12)
    own = encodings[np.arange(40), X[:, 0].astype(int)]
    assert_allclose(own, np.tile(w, (40, 1)), atol=1e-12)


@pytest.mark.slow
def test_blocks_of_candidates_do_not_show(make_multinomial, monkeypatch):
    problem = make_multinomial(30, 3, 4)
    args = _state(problem), problem.X, problem.y, 0, [0.0, 2.0]
    whole = candidate_encodings(*args)
    monkeypatch.setattr("skleak.influence.refit._candidates.TABLE_ELEMENTS", 1)
    assert_allclose(candidate_encodings(*args), whole, atol=1e-11)


def test_of_an_estimator_with_named_labels_and_weights(rng):
    X = rng.normal(size=(60, 3))
    y = np.array(["ash", "elm", "oak"])[np.argmax(X + rng.gumbel(size=(60, 3)), axis=1)]
    weight = rng.integers(1, 4, size=60).astype(float)
    model = PrivateLogisticRegression(0.1).fit(X, y, sample_weight=weight)
    encodings = candidate_encodings(model, X, y, 2, [0.0, 1.0])
    changed = X.copy()
    changed[11, 2] = 1.0
    again = PrivateLogisticRegression(0.0).fit(changed, y, sample_weight=weight)
    expected = np.concatenate([again.coef_.ravel(), again.intercept_])
    assert_allclose(encodings[11, 1], expected, atol=1e-9)


def test_the_slope_of_the_encodings_is_the_jacobian(make_multinomial):
    problem = make_multinomial(40, 3, 5)
    state, h = _state(problem), 1e-4
    jacobian = problem.factor.jacobian(problem.X, problem.y)
    for i in (0, 12):
        x = problem.X[i, 2]
        ends = candidate_encodings(state, problem.X[[i]], problem.y[[i]], 2, [x - h, x + h])[0]
        slope = (ends[1] - ends[0]) / (2.0 * h)
        # All copies of the record change together.
        expected = problem.s[i] * problem.omega[i] * jacobian[i, :, 2]
        assert_allclose(slope, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())
