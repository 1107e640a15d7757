"""Numbers at the edge of doubles: an error that names the column, or the right answer."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from helpers import every
from scipy import sparse

from skleak.attacks import InformedReconstruction, WhiteBoxAttributeInference
from skleak.audit import LeakageAuditor
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

TARGETS = {
    "linear": (PrivateLinearRegression, lambda a: a),
    "binary": (PrivateLogisticRegression, lambda a: np.where(a > 0.0, "yes", "no")),
    "multinomial": (PrivateLogisticRegression, lambda a: np.digitize(a, [-1.0, 1.0])),
    "poisson": (PrivatePoissonRegressor, lambda a: np.round(np.exp(a / 4.0))),
}
MODELS = pytest.mark.parametrize("kind", TARGETS)


@pytest.fixture
def columns(rng):
    X = rng.normal(size=(60, 3))
    return X, X @ [1.0, 2.0, -1.0] + rng.normal(size=60)


@MODELS
@every("entry", [1e154, 1e160, -1e160, 1e300, np.finfo(float).max])
@every("kept", [np.asarray, sparse.csr_array, "frame"])
def test_entries_whose_squares_overflow_are_refused_by_column(kind, entry, kept, columns):
    (X, a), (model, target) = columns, TARGETS[kind]
    X[3, 1] = entry
    X = pd.DataFrame(X, columns=["age", "income", "debt"]) if kept == "frame" else kept(X)
    name = "income" if isinstance(X, pd.DataFrame) else "x1"
    with pytest.raises(ValueError, match=f"Column '{name}' holds numbers whose squares overflow"):
        model(0.1).fit(X, target(a))


@pytest.mark.parametrize("kind", ["linear", "poisson"])
def test_targets_whose_squares_overflow_are_refused(kind, columns):
    (X, a), (model, target) = columns, TARGETS[kind]
    y = target(a)
    y[1] = 1e160
    with pytest.raises(ValueError, match="The target holds numbers whose squares overflow"):
        model(0.1).fit(X, y)


@MODELS
@pytest.mark.parametrize("weight", [1e160, np.finfo(float).max])
def test_weights_that_overflow_are_refused(kind, weight, columns):
    (X, a), (model, target) = columns, TARGETS[kind]
    weights = np.full(60, weight)
    with pytest.raises(ValueError, match="sum of the sample weights must be at most"):
        model(0.1).fit(X, target(a), weights)


def test_an_overflow_that_no_column_has_alone_is_an_error_too(columns):
    X, a = columns
    X[0, 0], a[0] = 9e139, 9e139
    first = PrivateLinearRegression(0.1)
    try:
        first.fit(X, a)
    except ValueError as error:
        assert "overflow" in str(error)  # noqa: PT017
        assert not hasattr(first, "coef_")
    else:
        assert np.all(np.isfinite(first.coef_))
        assert np.all(np.isfinite(first.fisher_information_loss_))


@MODELS
def test_single_precision_may_be_as_large_as_it_gets(kind, columns):
    (X, a), (model, target) = columns, TARGETS[kind]
    X = X.astype(np.float32)
    X[:, 1] *= 0.99 * np.finfo(np.float32).max / np.abs(X[:, 1]).max()
    fitted = model(0.1, alpha=1.0).fit(X, target(a))
    assert np.all(np.isfinite(fitted.coef_))
    assert not np.any(np.isnan(fitted.fisher_information_loss_))


@pytest.mark.parametrize(
    "attack",
    [
        WhiteBoxAttributeInference(PrivateLinearRegression(0.1), "smokes"),
        InformedReconstruction(PrivateLinearRegression(0.1)),
        LeakageAuditor(PrivateLinearRegression(0.1), "smokes", n_releases=2),
    ],
    ids=lambda attack: type(attack).__name__,
)
def test_attacks_and_audits_refuse_them_by_column(attack, columns, rng):
    X, a = columns
    table = pd.DataFrame(X, columns=["age", "income", "debt"])
    table["smokes"] = rng.integers(0, 2, 60)
    table.loc[3, "income"] = 1e160
    with pytest.raises(ValueError, match="Column 'income' holds numbers whose squares overflow"):
        attack.fit(table, a)


@MODELS
@pytest.mark.parametrize("ratio", [1e3, 1e5, 1e7])
def test_sparse_columns_far_from_zero_are_fitted_as_dense_ones(kind, ratio, columns, rng):
    (X, a), (model, target) = columns, TARGETS[kind]
    X[:, 0] += ratio
    X[:, 2] *= rng.random(60) < 0.3
    dense, thin = (model(1.0, random_state=0).fit(x, target(a)) for x in (X, sparse.csr_array(X)))
    weights = dense._state.factor.weights
    np.testing.assert_allclose(
        thin._state.factor.weights, weights, atol=1e-8 * np.abs(weights).max()
    )
    for name in ("fisher_information_loss_", "diagonal_fisher_information_loss_"):
        np.testing.assert_allclose(getattr(thin, name), getattr(dense, name), rtol=1e-6)


@pytest.mark.parametrize(
    "model, n_classes, d, size",
    [
        (PrivateLogisticRegression(0.1), 2001, 9, "2001 x 10 = 20010"),
        (PrivateLogisticRegression(0.1, fit_intercept=False), 2001, 10, "2001 x 10 = 20010"),
        (PrivateLogisticRegression(0.1), 2, 20_000, "1 x 20001 = 20001"),
        (PrivateLinearRegression(0.1), 4, 20_000, "1 x 20001 = 20001"),
    ],
)
def test_problems_beyond_the_stated_size_are_refused_before_they_are_allocated(
    model, n_classes, d, size, rng
):
    X, y = sparse.random_array((4002, d), density=1e-3, rng=rng), np.arange(4002) % n_classes
    X = sparse.csr_array(X)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"at most 20000 parameters.*got {size}"):
            model.fit(X, y)
        assert tracemalloc.get_traced_memory()[1] < 1e8  # the Hessian would take 3.2 GB
    finally:
        tracemalloc.stop()
    assert "20,000 parameters, classes times columns" in type(model).fit.__doc__
