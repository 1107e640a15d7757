"""Total leakage of reweighted fits at the extremes: nothing leaks, or a record that cannot."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import fit_quietly, total_norms
from numpy.testing import assert_allclose, assert_array_equal

from skleak.influence.jacobian import norms_of_jacobians
from skleak.influence.reweighting._total import total_derivative
from skleak.linear_model import IRFIL, PrivateLinearRegression


def test_where_nothing_leaks(rng):
    X = rng.normal(size=(20, 3))
    model = PrivateLinearRegression(0.1, private_target=False, reweighting="irfil")
    state = fit_quietly(model, X, np.zeros(20))
    derivative = total_derivative(state)
    assert derivative.doubts == []
    assert_array_equal(total_norms(state, state.batch(X, np.zeros(20))), 0)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_record_that_cannot_leak_leaves_no_fixed_point(steps, rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    X[4], y[4] = 0.0, 0.0
    model = PrivateLinearRegression(0.1, fit_intercept=False, reweighting=IRFIL(max_iter=steps))
    state = fit_quietly(model, X, y)
    derivative = total_derivative(state)
    assert derivative.deviation >= 1.0
    assert "not at its fixed point" in derivative.doubts[0]
    norms = total_norms(state, state.batch(X, y), derivative=derivative)
    assert norms[4] == 0.0
    assert np.all(np.isfinite(norms))


def test_weights_that_all_went_to_a_record_that_cannot_leak(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    X[4], y[4] = 0.0, 0.0
    model = PrivateLinearRegression(0.1, fit_intercept=False, reweighting=IRFIL(max_iter=1))
    state = fit_quietly(model, X, y)
    weights = np.zeros(20)
    weights[4] = 20.0
    gone = replace(state, objective=state.objective.reweighted(weights))
    derivative = total_derivative(gone)
    assert derivative.deviation == np.inf
    assert derivative.adjoint is None


def test_weights_of_one_only_because_nothing_balanced_leaks(rng):
    X = rng.normal(size=(20, 3))
    model = PrivateLinearRegression(0.1, reweighting=IRFIL(features=[0]))
    state = fit_quietly(model, X, np.zeros(20))
    assert_array_equal(state.objective.reweights, 1.0)
    assert len(total_derivative(state).doubts) == 1  # the smallest change of a target changes them


@pytest.mark.parametrize("p", [3, 17, 40])
def test_norms_of_jacobians(p, rng):
    jacobians = rng.normal(size=(60, p, p + 1))
    jacobians[:20] += 9.0 * rng.normal(size=(20, p, 1))  # one large singular value
    jacobians[3] = 0.0
    jacobians[4] = np.eye(p, p + 1)  # all equal
    jacobians[5, 1:] = 0.0  # rank one
    jacobians[6] *= 1e-60
    for some in (jacobians, jacobians.transpose(0, 2, 1)):
        expected = np.linalg.norm(some, 2, axis=(1, 2))
        assert_allclose(norms_of_jacobians(some, "spectral"), expected, rtol=1e-12)
    jacobians[0, 0, 0] = np.nan
    found = norms_of_jacobians(jacobians, "spectral")
    assert_array_equal(np.isnan(found), np.arange(60) == 0)
