"""The minimizer for several classes against SciPy's and scikit-learn's, and where there is none."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from skleak.losses import LogisticLoss, SoftmaxLoss
from skleak.solvers import (
    MultinomialObjective,
    Objective,
    SingularHessianError,
    by_class,
    minimize,
)


def _objective(
    rng, n=60, d=3, n_classes=4, *, alpha=1e-2, fit_intercept=True, weighted=True, X=None, slope=1.0
):
    X = rng.normal(size=(n, d)) if X is None else X
    n, d = X.shape
    noise = rng.gumbel(size=(n, n_classes))
    y = np.argmax(slope * X @ rng.normal(size=(d, n_classes)) + noise, axis=1).astype(float)
    y[:n_classes] = np.arange(n_classes)
    s = rng.integers(0, 4, size=n).astype(float) if weighted else np.ones(n)
    s[:n_classes] = 1.0
    omega = 0.5 + rng.random(n) if weighted else np.ones(n)
    omega *= s.sum() / (s @ omega)
    return MultinomialObjective(X, y, SoftmaxLoss(), alpha, fit_intercept, s, omega, n_classes)


def _value(objective):
    """The objective as one would write it down."""
    d, n_classes = objective.X.shape[1], objective.n_classes
    own = np.eye(n_classes)[objective.y.astype(int)]
    weights = objective.sample_weight * objective.reweights / objective.sample_weight.sum()

    def value(w):
        a = objective.X @ w[: n_classes * d].reshape(n_classes, d).T
        if objective.fit_intercept:
            a = a + w[n_classes * d :]
        data = weights @ (logsumexp(a, axis=1) - np.sum(own * a, axis=1))
        return data + objective.alpha / 2 * np.sum(w[: n_classes * d] ** 2)

    return value


def _gradient_norm(objective, w):
    return np.linalg.norm(objective.at(w).gradient)


def _identified(n_classes, d, fit_intercept):
    """Projection of flat parameters on those that sum to zero over the classes."""
    positions = by_class(n_classes, d, fit_intercept)
    projection = np.zeros((positions.size, positions.size))
    for column in positions.T:
        projection[np.ix_(column, column)] = np.eye(n_classes) - 1.0 / n_classes
    return projection


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_value_gradient_and_hessian(rng, fit_intercept, n_classes):
    objective = _objective(rng, n_classes=n_classes, fit_intercept=fit_intercept)
    w = 0.3 * rng.normal(size=objective.n_parameters)
    value = _value(objective)
    assert objective.at(w).value == pytest.approx(value(w), rel=1e-12)
    found = objective.at(w).gradient
    assert_allclose(found, optimize.approx_fprime(w, value, 1e-7), atol=1e-6)

    def gradient(v):
        return objective.at(v).gradient

    steps = 1e-6 * np.eye(len(w))
    hessian = np.array([(gradient(w + h) - gradient(w - h)) / 2e-6 for h in steps])
    projection = _identified(n_classes, 3, fit_intercept)
    expected = np.linalg.pinv(projection @ hessian @ projection, rcond=1e-6) / objective.total
    factor = objective.at(w).hessian
    assert_allclose(factor.inverse(), expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    b = projection @ rng.normal(size=len(w))
    assert_allclose(factor.solve(b), factor.inverse() @ b, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_minimum_equals_that_of_scipy(rng, fit_intercept, alpha):
    objective = _objective(rng, alpha=alpha, fit_intercept=fit_intercept)
    minimum = minimize(objective)
    start = np.zeros(objective.n_parameters)
    expected = optimize.minimize(_value(objective), start, method="BFGS", options={"gtol": 1e-7})
    assert minimum.converged
    assert_allclose(minimum.coefficients, expected.x, atol=1e-4)
    # Round-off is all that is left of the gradient.
    assert _gradient_norm(objective, minimum.coefficients) < 1e-14


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("weighted", [True, False])
def test_minimum_equals_that_of_scikit_learn(rng, fit_intercept, n_classes, weighted):
    objective = _objective(rng, 200, 5, n_classes, fit_intercept=fit_intercept, weighted=weighted)
    strength = 1.0 / (objective.total * objective.alpha)
    model = LogisticRegression(
        C=strength, fit_intercept=fit_intercept, tol=1e-12, max_iter=1000, solver="newton-cg"
    )
    model.fit(objective.X, objective.y, sample_weight=objective.weights)
    found = minimize(objective).coefficients
    coef, intercept = found[: 5 * n_classes], found[5 * n_classes :]
    assert_allclose(coef, model.coef_.ravel(), atol=1e-6)
    if fit_intercept:
        expected = model.intercept_ - model.intercept_.mean()
        assert_allclose(intercept, expected, atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-2])
def test_parameters_sum_to_zero_over_the_classes(rng, fit_intercept, alpha):
    objective = _objective(rng, 400, alpha=alpha, fit_intercept=fit_intercept)
    minimum = minimize(objective)
    assert minimum.converged
    w = minimum.coefficients[by_class(4, 3, fit_intercept)]
    assert np.abs(w.sum(axis=0)).max() < 1e-13
    assert _gradient_norm(objective, minimum.coefficients) < 1e-14
    assert_allclose(minimum.inverse_hessian, minimum.inverse_hessian.T, rtol=0, atol=0)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_classes_are_the_binary_model_at_half_the_penalty(rng, fit_intercept):
    objective = _objective(rng, n_classes=2, alpha=2e-2, fit_intercept=fit_intercept)
    binary = Objective(
        objective.X,
        objective.y,
        LogisticLoss(),
        1e-2,
        fit_intercept,
        objective.sample_weight,
        objective.reweights,
    )
    expected = minimize(binary)
    found = minimize(objective)
    first, second = by_class(2, 3, fit_intercept)
    w = found.coefficients
    assert_allclose(w[second] - w[first], expected.coefficients, rtol=1e-11)
    A = found.inverse_hessian
    difference = A[second] - A[first]
    assert_allclose(
        difference[:, second] - difference[:, first], expected.inverse_hessian, rtol=1e-10
    )


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_records(rng, form):
    X = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.4)
    dense = _objective(rng, X=X)
    a, b = minimize(dense), minimize(replace(dense, X=form(X)))
    assert_allclose(b.coefficients, a.coefficients, rtol=1e-9)
    assert_allclose(b.inverse_hessian, a.inverse_hessian, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_columns_in_any_units(rng, scale, alpha):
    # Without a penalty the units of the columns are those of the coefficients, and no more.
    X = rng.normal(size=(300, 3))
    objective = _objective(rng, X=X, alpha=0.0)
    scaled = replace(objective, X=X * scale, alpha=alpha)
    minimum = minimize(scaled)
    assert minimum.converged
    if alpha == 0.0:
        expected = minimize(objective).coefficients.copy()
        expected[:12] /= scale
        assert_allclose(minimum.coefficients, expected, rtol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_many_columns_are_summed_in_another_way(rng, monkeypatch, fit_intercept):
    objective = _objective(rng, 80, 6, fit_intercept=fit_intercept)
    expected = minimize(objective)
    monkeypatch.setattr("skleak.solvers._multinomial._WIDE", 2)
    for form in (np.asarray, sparse.csr_array):
        found = minimize(replace(objective, X=form(objective.X)))
        assert_allclose(found.coefficients, expected.coefficients, rtol=1e-10)
        assert_allclose(found.inverse_hessian, expected.inverse_hessian, rtol=1e-8, atol=1e-12)


def test_columns_far_from_zero(rng):
    X = rng.normal(size=(300, 3))
    objective = _objective(rng, X=X)
    expected = minimize(objective)
    offset = np.array([1e5, 0.0, -1e4])
    found = minimize(replace(objective, X=X + offset))
    assert found.converged
    W, b = expected.coefficients[:12].reshape(4, 3), expected.coefficients[12:]
    assert_allclose(found.coefficients[:12], W.ravel(), rtol=1e-7)
    assert_allclose(found.coefficients[12:], b - W @ offset, rtol=1e-7)
    assert_allclose(found.inverse_hessian[:12, :12], expected.inverse_hessian[:12, :12], rtol=1e-6)


def test_a_constant_column_is_not_noise(rng):
    X = rng.normal(size=(80, 3))
    X[:, 1] = 0.1
    minimum = minimize(_objective(rng, X=X))
    assert minimum.converged
    assert_allclose(minimum.coefficients[[1, 4, 7, 10]], 0.0, atol=1e-13)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_unique_minimizer(rng, fit_intercept):
    X = rng.normal(size=(80, 3))
    X[:, 2] = X[:, 0] - X[:, 1]
    with pytest.raises(SingularHessianError, match=r"singular at alpha=0 .*larger `alpha`"):
        minimize(_objective(rng, X=X, alpha=0.0, fit_intercept=fit_intercept))


def test_separable_classes_without_a_penalty_have_no_minimizer(rng):
    X = np.repeat(10.0 * np.eye(3), 10, axis=0) + 0.1 * rng.normal(size=(30, 3))
    one, y = np.ones(30), np.repeat([0.0, 1.0, 2.0], 10)
    objective = MultinomialObjective(X, y, SoftmaxLoss(), 0.0, True, one, one, 3)
    with suppress(SingularHessianError):
        assert not minimize(objective, max_iter=20).converged


def test_far_from_the_minimum_it_gets_there(rng):
    objective = _objective(rng, 200, alpha=1e-8, slope=20.0)
    minimum = minimize(objective)
    assert minimum.converged
    assert _gradient_norm(objective, minimum.coefficients) < 1e-12


def test_a_class_of_one_record(rng):
    objective = _objective(rng, 200, n_classes=3)
    y = np.where(objective.y == 2.0, 1.0, objective.y)
    y[7] = 2.0
    objective = replace(objective, y=y, sample_weight=np.ones(200), reweights=np.ones(200))
    minimum = minimize(objective)
    assert minimum.converged
    p = objective.loss.inverse_link(objective.predictor(minimum.coefficients))
    # The intercepts are free: every class is as probable, on average, as it is frequent.
    assert_allclose(p.mean(axis=0), np.bincount(y.astype(int)) / 200, rtol=1e-10)
