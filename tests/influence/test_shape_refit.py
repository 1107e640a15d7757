"""Shapes of the noise of changed fits against refits, and attacks on noise that they shape."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.channels.gaussian._unequal import UnequalGaussianChannel
from skleak.influence import candidate_encodings
from skleak.influence.jacobian import FitFactor
from skleak.influence.noise import noise_covariance
from skleak.influence.refit import candidate_shapes
from skleak.influence.state import FitState
from skleak.influence.state._state import NoiseShape
from skleak.solvers import minimize

KINDS = ["squared", "logistic", "poisson"]
SHAPES = ["curvature", "minimax", "least_mean"]


@pytest.fixture
def make(make_problem):
    """Factory of problems without a reweighting; records count unequally often."""

    def problem(*arguments, **options):
        found = make_problem(*arguments, **options)
        return replace(found, omega=np.ones_like(found.s))

    return problem


def _state(problem):
    return FitState(problem.objective, problem.factor, 1.0, True)


def _refitted(objective, shape):
    fit = minimize(objective)
    factor = FitFactor(
        fit.coefficients, fit.inverse_hessian, objective.loss, objective.fit_intercept
    )
    noise = NoiseShape.of(shape, len(fit.coefficients))
    return noise_covariance(FitState(objective, factor, 1.0, True, noise=noise))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_against_refits(make, kind, fit_intercept, block, shape, monkeypatch):
    problem = make(kind, n=25, d=4, fit_intercept=fit_intercept)
    state = _state(problem)
    columns, values = ([1, 3], [[0.0, 1.0], [1.0, -0.5], [2.0, 0.0]]) if block else (2, [0.0, 1.5])
    some = np.array([3, 0, 17])
    X, y = problem.X[some], problem.y[some]
    found = candidate_shapes(state, X, y, columns, values, shape)
    given = candidate_encodings(state, X, y, columns, values)
    monkeypatch.setattr("skleak.influence.refit._distances._ELEMENTS", 100)  # many blocks
    again = candidate_shapes(state, X, y, columns, values, shape, encodings=given)
    assert_allclose(again, found, rtol=1e-9)
    for i, row in enumerate(some):
        for m, value in enumerate(values):
            changed = problem.X.copy()
            changed[row, columns] = value
            expected = _refitted(replace(problem.objective, X=changed), shape)
            assert_allclose(found[i, m], expected, rtol=1e-7, atol=1e-8 * expected.max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sparse_records_weight_zero_and_no_change(make, kind, shape):
    problem = make(kind, n=20, d=3)
    s = problem.s.copy()
    s[7] = 0.0
    problem = replace(problem, X=np.where(np.abs(problem.X) > 0.5, problem.X, 0.0), s=s)
    state = _state(problem)
    X = sparse.csr_array(problem.X)
    thin = replace(state, objective=replace(problem.objective, X=X))
    some = [4, 8]
    expected = candidate_shapes(state, problem.X[some], problem.y[some], 1, [0.0, 2.0], shape)
    found = candidate_shapes(thin, X[some], problem.y[some], 1, [0.0, 2.0], shape)
    assert_allclose(found, expected, rtol=1e-9)
    own = candidate_shapes(state, problem.X[[4]], problem.y[[4]], 1, [problem.X[4, 1]], shape)
    shaped = replace(state, noise=NoiseShape.of(shape, 4))
    assert_allclose(own[0, 0], noise_covariance(shaped), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_far_from_the_fit_and_columns_far_from_zero(make, rng, kind):
    X = rng.normal(size=(40, 3))
    y = make(kind, X=X, alpha=1e-2).y
    shift = np.array([1e3, 0.0, -1e2])
    for moved in (0.0, shift):
        problem = make(kind, X=X + moved, y=y, alpha=1e-2, weighted=False)
        state = _state(problem)
        value = problem.X[5, 0] + 4.0
        found = candidate_shapes(state, problem.X[[5]], y[[5]], 0, [value], "minimax")[0, 0]
        changed = problem.X.copy()
        changed[5, 0] = value
        expected = _refitted(replace(problem.objective, X=changed), "minimax")
        assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * expected.max())


def test_bad_input(make, make_problem, make_multinomial):
    state = _state(make("squared"))
    X, y = state.objective.X, state.objective.y
    with pytest.raises(ValueError, match="'curvature', 'minimax' or 'least_mean'"):
        candidate_shapes(state, X[:1], y[:1], 0, [0.0, 1.0], "isotropic")
    reweighted = _state(make_problem("squared"))
    with pytest.raises(ValueError, match="without a reweighting"):
        candidate_shapes(
            reweighted, reweighted.objective.X[:1], reweighted.objective.y[:1], 0, [0.0], "minimax"
        )
    several = make_multinomial(weighted=False)
    state = FitState(several.objective, several.factor, 1.0, True)
    for shape in SHAPES:
        with pytest.raises(ValueError, match="one predictor"):
            candidate_shapes(state, several.X[:1], several.y[:1], 0, [0.0, 1.0], shape)


@pytest.mark.parametrize("kind", KINDS)
def test_attack_on_minimax_noise(make, rng, kind):
    problem = make(kind, n=25, d=3, alpha=5e-2)
    state, values = _state(problem), [0.0, 1.0, 3.0]
    X, y = problem.X[:4], problem.y[:4]
    encodings = candidate_encodings(state, X, y, 0, values)
    shapes = candidate_shapes(state, X, y, 0, values, "minimax", encodings=encodings)
    channel = UnequalGaussianChannel(encodings, 0.03 * shapes, tolerance=2e-4)
    prior = rng.dirichlet(np.full(3, 3.0), size=4)
    value, error = channel.bayes_success(prior, return_standard_error=True)
    n = 5000
    secrets = np.stack([rng.choice(3, size=n, p=row) for row in prior])
    posterior = channel.posterior(channel.sample(secrets, random_state=rng), prior)
    right = np.mean(posterior.argmax(axis=2) == secrets, axis=1)
    noise = np.sqrt(value * (1.0 - value) / n)
    assert np.all(np.abs(right - value) <= 4.0 * np.hypot(noise, error))
