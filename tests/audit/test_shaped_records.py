"""Reconstruction of whole records under noise of a given covariance, and audits of it."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skleak.attacks import InformedReconstruction
from skleak.audit import LeakageAuditor
from skleak.exceptions import AttackNotApplicableError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def make_problem(estimator, rng, n=60):
    X = rng.normal(size=(n, 2))
    a = X @ [1.0, -0.5] + 0.2
    if estimator is PrivateLogisticRegression:
        return X, (a + rng.logistic(size=n) > 0).astype(int)
    if estimator is PrivatePoissonRegressor:
        return X, rng.poisson(np.exp(a))
    return X, a + rng.normal(size=n)


@pytest.fixture
def shape(rng):
    root = np.array([[1.0, 0.0, 0.0], [2.0, 0.3, 0.0], [-1.0, 0.5, 2.0]])
    return root @ root.T * (3.0 / np.trace(root @ root.T))


def noiseless(estimator, X, y):
    fitted = estimator(0.0, alpha=0.01).fit(X, y)
    return fitted, np.append(fitted.coef_, fitted.intercept_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_is_the_likeliest_record(estimator, shape, rng):
    X, y = make_problem(estimator, rng)
    fitted, w = noiseless(estimator, X, y)
    released = w + 1e-3 * np.linalg.cholesky(shape) @ rng.normal(size=3)
    targets, options = [0, 3, 11], {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 5000}
    model = estimator(alpha=0.01, noise_covariance=7.0 * shape)
    found = InformedReconstruction(model, records=targets).fit(X, y).predict(released)
    objective = fitted._confidential_state().objective
    loss, labels = objective.loss, objective.y
    for i, record in zip(targets, found, strict=True):
        others = np.column_stack([np.delete(X, i, axis=0), np.ones(len(y) - 1)])
        a, rest = others @ released, np.delete(labels, i)
        penalty = len(y) * 0.01 * np.array([1.0, 1.0, 0.0])
        left = others.T @ loss.residual(a, rest) + penalty * released
        hessian = others.T @ (loss.curvature(a)[:, None] * others) + np.diag(penalty)
        metric = np.linalg.inv(hessian @ shape @ hessian)

        def misfit(x, label=labels[i], left=left, metric=metric):
            row = np.append(x, 1.0)
            gap = left + loss.residual(released @ row, label) * row
            return gap @ metric @ gap

        # From the truth, near which there may be another minimum, and from what was found.
        for start in (X[i], record):
            best = minimize(misfit, start, method="Nelder-Mead", options=options)
            assert misfit(record) <= best.fun * (1.0 + 1e-6) + 1e-15
        assert_allclose(record, best.x, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_reaches_the_bound_of_the_covariance(estimator, shape, rng):
    X, y = make_problem(estimator, rng)
    fitted, w = noiseless(estimator, X, y)
    scale, n_releases = 1e-7, 400
    released = w + scale * rng.normal(size=(n_releases, 3)) @ np.linalg.cholesky(shape).T
    model = estimator(alpha=0.01, noise_covariance=shape)
    some = np.arange(10)
    own, other = (
        InformedReconstruction(each, records=some).fit(X, y)
        for each in (model, estimator(alpha=0.01))
    )
    errors, plain = (attack.predict(released) - X[some] for attack in (own, other))
    jacobian = fitted._confidential_state().factor.jacobian(X[some], y[some])[:, :, :2]
    precision = np.linalg.inv(shape)
    information = np.swapaxes(jacobian, 1, 2) @ precision @ jacobian / scale**2
    bound = np.diagonal(np.linalg.inv(information), axis1=1, axis2=2)
    ratio = (errors**2).mean(axis=0) / bound
    # Records share the noise, so that their mean is hardly better known than one of them.
    assert ratio.min() > 0.65
    assert ratio.max() < 1.45
    # One that takes the noise to be isotropic does worse.
    assert (plain**2).mean() > 1.05 * (errors**2).mean()


def test_multiples_of_the_identity_are_isotropic(rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    released = np.array([0.9, -0.4, 0.3])
    found = [
        InformedReconstruction(PrivateLinearRegression(noise_covariance=each))
        .fit(X, y)
        .predict(released)
        for each in ("isotropic", 3.0 * np.eye(3), np.eye(3) + 1e-9 * np.diag([0.0, 1.0, 0.0]))
    ]
    assert_allclose(found[1], found[0])
    assert_allclose(found[2], found[0], rtol=1e-5)


@pytest.mark.parametrize("shape_name", ["curvature", "minimax"])
def test_noise_that_follows_the_data_is_refused(shape_name, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(noise_covariance=shape_name)
    with pytest.raises(AttackNotApplicableError, match=f"'{shape_name}'"):
        InformedReconstruction(model).fit(X, y)


def test_releases_of_other_noise_are_refused(shape, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.1, noise_covariance=shape).fit(X, y)
    attack = InformedReconstruction(model).fit(X, y)
    assert attack.predict(model).shape == X.shape
    with pytest.raises(AttackNotApplicableError, match="covariance"):
        attack.predict(PrivateLinearRegression(0.1).fit(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("known_target", mostly_slow([True, False], 1))
def test_audit_of_whole_records(known_target, shape, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.1, alpha=0.01, noise_covariance=shape)
    auditor = LeakageAuditor(
        model,
        attacks={"a": InformedReconstruction(model, known_target=known_target)},
        noise_scales=[1e-6, 0.1],
        n_releases=200,
        random_state=0,
    ).fit(X, y)
    for scale in (1e-6, 0.1):
        fitted = model.set_params(noise_scale=scale).fit(X, y)
        own = auditor.records_[auditor.records_["noise_scale"] == scale]
        assert_allclose(own["eta"], fitted.fisher_information_loss(), rtol=1e-7)
        state = fitted._confidential_state()
        jacobian = state.factor.jacobian(X, y)[:, :, : 3 if not known_target else 2]
        information = np.swapaxes(jacobian, 1, 2) @ np.linalg.inv(shape) @ jacobian / scale**2
        # Errors in variances of the columns.
        units = np.column_stack([X, y]).var(axis=0)[: jacobian.shape[2]]
        bound = (np.linalg.inv(information).diagonal(axis1=1, axis2=2) / units).mean(axis=1)
        assert_allclose(own["cramer_rao"], bound, rtol=1e-7)
    # The attack meets the bound, and does not pass below it.
    first = auditor.results_.iloc[0]
    assert first["verdict"] == "consistent with the bound"
    assert 0.8 < first["mse_over_bound"] < 1.25
    assert auditor.report_.settings["noise_covariance"] == "given"


def test_attacks_suppose_the_covariance_of_the_audit(shape, rng):
    X, y = make_problem(PrivateLinearRegression, rng)
    model = PrivateLinearRegression(0.1, noise_covariance=shape)
    plain = InformedReconstruction(PrivateLinearRegression(0.1))
    with pytest.raises(AttackNotApplicableError, match="another covariance"):
        LeakageAuditor(model, attacks=plain, n_releases=2).fit(X, y)
