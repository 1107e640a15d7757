"""The bound on whole records: dense matrices, one record at a time, and simulated attacks."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.attacks import InformedReconstruction
from skleak.audit import LeakageAuditor
from skleak.bounds import cramer_rao_mse
from skleak.influence.noise import noise_covariance
from skleak.influence.records import record_mse
from skleak.linear_model import (
    IRFIL,
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def make_problem(estimator, rng, n=40, d=3):
    X = rng.normal(size=(n, d)) + 0.4
    a = X @ np.linspace(1.0, -0.6, d) + 0.2
    if estimator is PrivateLogisticRegression:
        return X, (a + rng.logistic(size=n) > 0).astype(int)
    if estimator is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(0.5 * a))
    return X, a + rng.normal(size=n)


def dense(state, private_target):
    """One information matrix a record, by its singular values."""
    objective, d = state.objective, state.n_features
    bounds = []
    for i in range(len(objective.y)):
        jacobian = state.factor.jacobian(objective.X[[i]], objective.y[[i]])[0]
        jacobian = jacobian[:, : d + private_target] * objective.weights[i]
        root = state.noise_scale * np.linalg.cholesky(noise_covariance(state))
        # Inverting the information itself would lose twice the digits.
        values = np.linalg.svd(np.linalg.solve(root, jacobian), compute_uv=False)
        bounds.append((values**-2.0).sum() / (d + private_target))
    return np.array(bounds)


@pytest.mark.parametrize("private_target", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("d", mostly_slow([1, 2, 5], 1))
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equals_dense_matrices(estimator, d, fit_intercept, private_target, rng):
    X, y = make_problem(estimator, rng, d=d)
    shapes = [
        "isotropic",
        np.cov(rng.normal(size=(d + fit_intercept, 50))).reshape(-1, d + fit_intercept),
    ]
    for shape in shapes:
        model = estimator(0.3, alpha=0.05, fit_intercept=fit_intercept, noise_covariance=shape)
        weights = rng.uniform(0.5, 2.0, size=len(y))
        state = model.fit(X, y, sample_weight=weights)._confidential_state()
        found = record_mse(state, np.arange(len(y)), private_target=private_target)
        if private_target and not fit_intercept:
            # d coefficients cannot tell d + 1 numbers.
            assert np.all(np.isinf(found))
            continue
        assert_allclose(found, dense(state, private_target), rtol=1e-9)


@pytest.mark.parametrize("private_target", [False, True])
def test_lies_above_the_bound_from_the_trace(private_target, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    state = PrivateLinearRegression(0.3, private_target=private_target).fit(X, y)
    loss = state.fisher_information_loss(norm="trace")
    found = record_mse(state._confidential_state(), np.arange(40), private_target=private_target)
    assert np.all(found >= loss**-2.0 * (1.0 - 1e-9))
    assert np.median(found * loss**2) > 3.0


@pytest.mark.slow
def test_a_record_that_is_fitted_exactly_has_no_bound_but_infinity(rng):
    """Its information has rank one: the release tells of it along one direction only."""
    X, y = make_problem(PrivateLinearRegression, rng)
    for fit_intercept in (False, True):
        model = PrivateLinearRegression(0.3, alpha=0.1, fit_intercept=fit_intercept)
        y = y.copy()
        for _ in range(100):  # its target moves the fit, which moves its target
            fitted = model.set_params(noise_scale=0.0).fit(X, y)
            y[4] = fitted.predict(X[[4]])[0]
        state = model.set_params(noise_scale=0.3).fit(X, y)._confidential_state()
        found = record_mse(state, np.arange(40), private_target=False)
        assert found[4] > 1e15 * np.median(found)
        jacobian = state.factor.jacobian(X[[4]], y[[4]])[0, :, :3]
        assert cramer_rao_mse(jacobian.T @ jacobian) == np.inf


def test_without_slopes_the_records_stay_known_by_their_residuals(rng):
    X, y = make_problem(PrivateLogisticRegression, rng)
    state = PrivateLogisticRegression(0.3, alpha=1e12).fit(X, y)._confidential_state()
    found = record_mse(state, np.arange(40), private_target=False)
    assert_allclose(found, dense(state, False), rtol=1e-6)


def test_sparse_records(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.3)
    whole, few = (
        record_mse(model.fit(table, y)._confidential_state(), rows, private_target=False)
        for table, rows in ((X, np.arange(40)), (sparse.csr_array(X), np.array([7, 3])))
    )
    assert_allclose(few, whole[[7, 3]], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("private_target", [False, True])
@pytest.mark.parametrize("reweighting", [IRFIL(tol=1e-11, max_iter=100), EvenTotal(tol=1e-11)])
def test_weights_that_follow_the_data_are_counted(reweighting, private_target, rng):
    """Against central differences of the whole algorithm."""
    X, y = make_problem(PrivateLinearRegression, rng, n=12, d=2)
    model = PrivateLinearRegression(0.0, alpha=0.05, reweighting=reweighting)
    state = model.fit(X, y)._confidential_state().at_noise(0.3)
    found = record_mse(state, np.array([5]), private_target=private_target)
    columns, step = [], 1e-5
    for j in range(2 + private_target):
        ends = []
        for sign in (1.0, -1.0):
            Z, z = X.copy(), y.copy()
            if j < 2:
                Z[5, j] += sign * step
            else:
                z[5] += sign * step
            fitted = model.fit(Z, z)
            ends.append(np.append(fitted.coef_, fitted.intercept_))
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    jacobian = np.column_stack(columns) / 0.3
    assert_allclose(found[0], cramer_rao_mse(jacobian.T @ jacobian), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("known_target", mostly_slow([True, False], 1))
@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivatePoissonRegressor])
def test_the_best_attack_meets_the_bound(estimator, known_target, rng):
    """It inverts the optimality conditions, and is unbiased where the noise is small."""
    X, y = make_problem(estimator, rng, d=2)
    model = estimator(alpha=0.05)
    auditor = LeakageAuditor(
        model,
        attacks=InformedReconstruction(model, known_target=known_target, bounds=None),
        noise_scales=1e-7,
        n_releases=300,
        random_state=0,
    ).fit(X, y)
    row = auditor.results_.iloc[0]
    assert 0.85 < row["mse_over_bound"] < 1.15
    assert row["verdict"] == "consistent with the bound"
