"""Inverse Hessians of changed fits against refits, and attacks on noise that they shape."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.channels.gaussian._unequal import UnequalGaussianChannel
from skleak.influence import candidate_encodings
from skleak.influence.refit._candidates import Candidates, inverse_hessians
from skleak.influence.state import FitState
from skleak.solvers import minimize

KINDS = ["squared", "logistic", "poisson"]


def candidate_inverse_hessians(*arguments, encodings=None):
    return inverse_hessians(Candidates.of(*arguments), encodings)


def _state(problem):
    return FitState(problem.objective, problem.factor, 1.0, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("block", [False, True])
def test_against_refits(make_problem, kind, fit_intercept, block):
    problem = make_problem(kind, n=25, d=4, fit_intercept=fit_intercept)
    state = _state(problem)
    columns, values = ([1, 3], [[0.0, 1.0], [1.0, -0.5], [2.0, 0.0]]) if block else (2, [0.0, 1.5])
    some = np.array([3, 0, 17])
    X, y = problem.X[some], problem.y[some]
    found = candidate_inverse_hessians(state, X, y, columns, values)
    given = candidate_encodings(state, X, y, columns, values)
    again = candidate_inverse_hessians(state, X, y, columns, values, encodings=given)
    assert_allclose(again, found, rtol=1e-12)
    for i, row in enumerate(some):
        for m, value in enumerate(values):
            changed = problem.X.copy()
            changed[row, columns] = value
            refit = minimize(replace(problem.objective, X=changed))
            expected = refit.inverse_hessian
            assert_allclose(found[i, m], expected, rtol=1e-7, atol=1e-9 * expected.max())
            assert np.array_equal(found[i, m], found[i, m].T)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_records_and_no_change(make_problem, kind):
    problem = make_problem(kind, n=20, d=3)
    problem = replace(problem, X=np.where(np.abs(problem.X) > 0.5, problem.X, 0.0))
    state = _state(problem)
    X = sparse.csr_array(problem.X)
    sparse_state = replace(state, objective=replace(problem.objective, X=X))
    some = [4, 7]
    expected = candidate_inverse_hessians(state, problem.X[some], problem.y[some], 1, [0.0, 2.0])
    found = candidate_inverse_hessians(sparse_state, X[some], problem.y[some], 1, [0.0, 2.0])
    assert_allclose(found, expected, rtol=1e-10)
    own = problem.X[4, 1]
    found = candidate_inverse_hessians(state, problem.X[[4]], problem.y[[4]], 1, [own])
    assert_allclose(found[0, 0], state.factor.inverse_hessian, rtol=1e-12)


def test_bad_input(make_problem):
    problem = make_problem("squared")
    state = _state(problem)
    with pytest.raises(ValueError, match="not in the training data"):
        candidate_inverse_hessians(state, problem.X[:1] + 1.0, problem.y[:1], 0, [0.0, 1.0])
    with pytest.raises(ValueError, match="values"):
        candidate_inverse_hessians(state, problem.X[:1], problem.y[:1], [0, 1], [0.0, 1.0])


def test_several_classes_are_refused(make_multinomial):
    problem = make_multinomial()
    state = FitState(problem.objective, problem.factor, 1.0, True)
    with pytest.raises(ValueError, match="one predictor"):
        candidate_inverse_hessians(state, problem.X[:1], problem.y[:1], 0, [0.0, 1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_attack_on_noise_shaped_by_the_curvature(make_problem, rng, kind):
    problem = make_problem(kind, n=25, d=3, alpha=5e-2)
    state, values = _state(problem), [0.0, 1.0, 3.0]
    X, y = problem.X[:4], problem.y[:4]
    encodings = candidate_encodings(state, X, y, 0, values)
    inverse = candidate_inverse_hessians(state, X, y, 0, values, encodings=encodings)
    traces = np.trace(inverse, axis1=2, axis2=3)[:, :, None, None]
    channel = UnequalGaussianChannel(encodings, 0.1 * inverse / traces, tolerance=2e-4)
    prior = rng.dirichlet(np.full(3, 3.0), size=4)
    value, error = channel.bayes_success(prior, return_standard_error=True)
    n = 5000
    secrets = np.stack([rng.choice(3, size=n, p=row) for row in prior])
    releases = channel.sample(secrets, random_state=rng)
    # Vectorized over releases and records at once.
    posterior = channel.posterior(releases, prior)
    assert posterior.shape == (4, n, 3)
    right = np.mean(posterior.argmax(axis=2) == secrets, axis=1)
    noise = np.sqrt(value * (1.0 - value) / n)
    assert np.all(np.abs(right - value) <= 4.0 * np.hypot(noise, error))
    # Who forgets that the shape of the noise speaks too does no better.
    likelihood = [
        -0.5 * np.einsum("rnd,rde,rne->rn", gap, np.linalg.inv(channel.covariances[:, 0]), gap)
        for gap in (releases - encodings[:, None, m] for m in range(3))
    ]
    blind = (np.stack(likelihood, axis=2) + np.log(prior)[:, None]).argmax(axis=2)
    assert np.all(np.mean(blind == secrets, axis=1) <= value + 4.0 * noise)
