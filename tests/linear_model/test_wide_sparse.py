"""Private estimators on more sparse columns than a dense Hessian pays for."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.exceptions import CostWarning, PrivacyLeakWarning, UnprotectedValueWarning
from skleak.influence.jacobian import WideFactor
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.utils import _linalg

N, D = 400, 1100


def _records(rng, n=N):
    X = sparse.random_array((n, D), density=2e-3, format="csr", rng=rng, dtype=np.float64)
    return X, X @ rng.normal(size=D)


def _target(kind, a, rng):
    return {
        PrivateLinearRegression: lambda: a + rng.normal(size=len(a)),
        PrivateLogisticRegression: lambda: np.where(a + rng.logistic(size=len(a)) > 0.0, "b", "a"),
        PrivatePoissonRegressor: lambda: rng.poisson(np.exp(np.clip(a, -2.0, 2.0))),
    }[kind]()


@pytest.mark.parametrize(
    "kind", [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
)
def test_same_as_with_dense_columns(kind, rng):
    X, a = _records(rng)
    y, s = _target(kind, a, rng), rng.choice([1.0, 2.0], size=N)
    options = {"noise_scale": 1e-3, "alpha": 1e-3, "random_state": 0}
    wide, dense = kind(**options), kind(**options)
    wide.fit(X.astype(np.float32), y, s)
    dense.fit(X.astype(np.float32).toarray(), y, s)
    assert isinstance(wide._state.factor, WideFactor)
    assert not isinstance(dense._state.factor, WideFactor)
    assert_allclose(
        wide._state.factor.coefficients, dense._state.factor.coefficients, rtol=1e-9, atol=1e-12
    )
    assert_allclose(wide.coef_, dense.coef_, atol=1e-11)
    some = np.array([0, 7, 33])
    for options in ({}, {"features": [3]}, {"features": [1, 4], "norm": "trace"}):
        found = wide.fisher_information_loss(X[some], y[some], **options)
        exact = dense.fisher_information_loss(X[some].toarray(), y[some], **options)
        assert np.all(found >= exact)
        assert_allclose(found, exact, rtol=1e-7)
    table = wide.fisher_information_loss(X[some], y[some], per="feature", features=[0, 2, [1, 5]])
    exact = dense.fisher_information_loss(
        X[some].toarray(), y[some], per="feature", features=[0, 2, [1, 5]]
    )
    assert_allclose(table, exact, rtol=1e-7, atol=1e-12)
    # The inverse was not needed, and comes where all of it is asked for.
    hessian = wide._state.factor.hessian
    assert "matrix" not in vars(hessian)
    joint = wide.fisher_information_loss(X[some], y[some], per="dataset")
    assert_allclose(joint, dense.fisher_information_loss(X[some], y[some], per="dataset"), 1e-8)
    assert "matrix" in vars(hessian)


def test_tolerance_is_that_of_the_parameters(rng):
    X, a = _records(rng)
    model = PrivateLogisticRegression(noise_scale=1.0, alpha=1e-4)
    model.fit(X, _target(type(model), a, rng))
    objective, w = model._state.objective, model._state.factor.coefficients
    assert model._state.converged
    assert np.linalg.norm(objective.at(w).gradient) <= model.tol


def test_no_penalty_is_not_fitted_without_a_factor(rng):
    # Without a penalty nothing bounds the least eigenvalue: the dense factor says it is singular.
    X, a = _records(rng)
    with pytest.raises(ValueError, match="singular"):
        PrivateLinearRegression(noise_scale=1.0, alpha=0.0).fit(X, a)


@pytest.fixture
def impatient(monkeypatch):
    """Take everything that takes any time for long."""
    monkeypatch.setattr(_linalg, "_MOST_SECONDS", 1e-3)


def test_costs_are_announced(rng, impatient):
    X, a = _records(rng)
    y = _target(PrivateLinearRegression, a, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CostWarning)
        model = PrivateLinearRegression(noise_scale=1.0).fit(X, y)
    with pytest.warns(CostWarning, match=r"loss of 2 records by products .* minutes of one core"):
        model.fisher_information_loss(X[:2], y[:2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = model.diagonal_fisher_information_loss_
    said = " ".join(str(warning.message) for warning in caught)
    assert "dense inverse of a Hessian of 1101 parameters" in said
    assert "loss of 400 records under 1101 parameters" in said
    with pytest.warns(CostWarning, match="fit of 1101 parameters by a dense Hessian"):
        PrivateLinearRegression(noise_scale=1.0).fit(X.toarray(), y)


def test_neither_a_release_nor_a_copy_computes_for_long(rng, impatient):
    X, a = _records(rng)
    model = PrivateLinearRegression(noise_scale=1.0).fit(
        X, _target(PrivateLinearRegression, a, rng)
    )
    with pytest.warns(UnprotectedValueWarning, match="columns are too many"):
        released = model.release()
    with (
        pytest.warns(PrivacyLeakWarning, match="Pickling"),
        pytest.warns(CostWarning, match="left out of the copy"),
    ):
        copied = pickle.loads(pickle.dumps(model))
    assert "matrix" not in vars(model._state.factor.hessian)
    assert_allclose(copied.predict(X), released.predict(X))
    assert not hasattr(copied, "_state")


def test_columns_of_any_scale_leak_what_they_leak_densely(rng):
    X = sparse.random_array((60, 1000), density=0.02, format="csr", rng=rng)
    X = X @ sparse.diags_array(10.0 ** rng.uniform(-2.0, 2.0, size=1000))
    y = rng.normal(size=60)
    wide, dense = (PrivateLinearRegression(noise_scale=1.0, alpha=1e-3) for _ in range(2))
    wide.fit(sparse.csr_array(X), y)
    dense.fit(X.toarray(), y)
    assert isinstance(wide._state.factor, WideFactor)
    found = wide.fisher_information_loss(sparse.csr_array(X)[:5], y[:5])
    exact = dense.fisher_information_loss(X.toarray()[:5], y[:5])
    assert_allclose(found, exact, rtol=3e-6)
    assert np.all(found >= exact * (1.0 - 1e-9))
