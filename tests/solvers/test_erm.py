"""The solver against SciPy's and scikit-learn's, and on problems that have no solution."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from helpers import every
from numpy.testing import assert_allclose
from scipy import optimize, sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from skleak.losses import LogisticLoss, PoissonLoss, SoftmaxLoss, SquaredLoss
from skleak.solvers import MultinomialObjective, Objective, SingularHessianError, minimize
from skleak.solvers._objective import CurvatureSums

LOSSES = {"squared": SquaredLoss(), "logistic": LogisticLoss(), "poisson": PoissonLoss()}
KINDS = list(LOSSES)


def _objective(rng, kind, n=40, d=3, *, alpha=1e-2, fit_intercept=True, weighted=True, X=None):
    X = rng.normal(size=(n, d)) if X is None else X
    n, d = X.shape
    predictor = X @ np.linspace(0.5, -0.5, d) + 0.2
    if kind == "squared":
        y = predictor + rng.normal(size=n)
    elif kind == "poisson":
        y = rng.poisson(np.exp(predictor)).astype(float)
    else:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-predictor))).astype(float)
    s = rng.integers(0, 4, size=n).astype(float) if weighted else np.ones(n)
    omega = 0.5 + rng.random(n) if weighted else np.ones(n)
    omega *= s.sum() / (s @ omega)
    return Objective(X, y, LOSSES[kind], alpha, fit_intercept, s, omega)


def _value(objective):
    """The objective as one would write it down."""
    d = objective.X.shape[1]
    loss = {
        "squared": lambda a, y: (a - y) ** 2 / 2,
        "logistic": lambda a, y: np.log1p(np.exp(a)) - y * a,
        "poisson": lambda a, y: np.exp(a) - y * a - y + y * np.log(np.maximum(y, 1.0)),
    }[objective.loss.name]

    def value(w):
        a = objective.X @ w[:d] + (w[d] if objective.fit_intercept else 0.0)
        weights = objective.sample_weight * objective.reweights
        mean = np.sum(weights * loss(a, objective.y)) / objective.sample_weight.sum()
        return mean + objective.alpha / 2 * np.sum(w[:d] ** 2)

    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_value_gradient_and_hessian(rng, kind, fit_intercept):
    objective = _objective(rng, kind, fit_intercept=fit_intercept)
    w = 0.3 * rng.normal(size=objective.n_parameters)
    value = _value(objective)
    assert objective.at(w).value == pytest.approx(value(w), rel=1e-12)
    found = objective.at(w).gradient
    assert_allclose(found, optimize.approx_fprime(w, value, 1e-7), atol=1e-6)

    def gradient(v):
        return objective.at(v).gradient

    rows = [optimize.approx_fprime(w, lambda v, j=j: gradient(v)[j], 1e-7) for j in range(len(w))]
    hessian = np.linalg.inv(objective.at(w).hessian.inverse())
    assert_allclose(hessian / objective.total, rows, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_minimum_equals_that_of_scipy(rng, kind, fit_intercept, alpha):
    objective = _objective(rng, kind, alpha=alpha, fit_intercept=fit_intercept)
    minimum = minimize(objective)
    start = np.zeros(objective.n_parameters)
    expected = optimize.minimize(_value(objective), start, method="BFGS", options={"gtol": 1e-7})
    assert minimum.converged
    assert minimum.gradient_norm <= 1e-10
    assert_allclose(minimum.coefficients, expected.x, atol=1e-5)
    # Round-off is all that is left of the gradient.
    there = objective.at(minimum.coefficients)
    assert np.linalg.norm(there.gradient) < 1e-14
    inverse = there.hessian.inverse()
    assert_allclose(minimum.inverse_hessian, inverse, rtol=1e-9, atol=1e-12 * inverse.max())


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_minimum_equals_that_of_scikit_learn(rng, kind, fit_intercept):
    objective = _objective(rng, kind, fit_intercept=fit_intercept)
    weights, total, alpha = objective.weights, objective.total, objective.alpha
    if kind == "squared":
        model = Ridge(total * alpha, fit_intercept=fit_intercept, solver="cholesky")
    elif kind == "logistic":
        model = LogisticRegression(
            C=1.0 / (total * alpha), fit_intercept=fit_intercept, tol=1e-12, solver="newton-cg"
        )
    else:
        model = PoissonRegressor(
            alpha=alpha, fit_intercept=fit_intercept, tol=1e-12, solver="newton-cholesky"
        )
    model.fit(objective.X, objective.y, sample_weight=weights)
    found = minimize(objective).coefficients
    assert_allclose(found[:3], np.ravel(model.coef_), rtol=1e-6)
    if fit_intercept:
        assert found[3] == pytest.approx(np.ravel(model.intercept_)[0], rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_records(rng, kind, form):
    X = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.4)
    dense = _objective(rng, kind, X=X)
    a, b = minimize(dense), minimize(replace(dense, X=form(X)))
    assert_allclose(b.coefficients, a.coefficients, rtol=1e-9)
    assert_allclose(b.inverse_hessian, a.inverse_hessian, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_where_it_starts_does_not_matter(rng, kind):
    objective = _objective(rng, kind)
    expected = minimize(objective)
    for start in (np.zeros(4), 5.0 * rng.normal(size=4), expected.coefficients):
        before = start.copy()
        found = minimize(objective, start=start)
        assert found.converged
        assert_allclose(found.coefficients, expected.coefficients, rtol=1e-9)
        assert_allclose(start, before)


def test_one_step_for_the_squared_loss(rng):
    assert minimize(_objective(rng, "squared")).n_iter == 1


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_limit_on_steps(rng, kind):
    objective = _objective(rng, kind)
    short = minimize(objective, max_iter=1)
    assert (short.n_iter, short.converged) == (1, False)
    assert short.gradient_norm > 1e-10
    assert minimize(objective, max_iter=30).converged


@pytest.mark.parametrize("kind", KINDS)
@every("size", [1e-8, 1e-4, 1e4, 1e8])
@every("fit_intercept", [True, False])
def test_units_of_the_columns_do_not_matter(rng, kind, size, fit_intercept):
    # Without a penalty the predictor is the same in every unit, and so is the work. A tiny column
    # has a tiny gradient, which must not pass for convergence.
    X = rng.normal(size=(60, 3))
    objective = _objective(rng, kind, X=X, alpha=0.0, fit_intercept=fit_intercept)
    a, b = minimize(objective), minimize(replace(objective, X=X * size))
    assert b.converged
    units = np.append(np.full(3, size), 1.0)[: objective.n_parameters]
    assert_allclose(b.coefficients * units, a.coefficients, rtol=1e-9)
    inverse = b.inverse_hessian * np.outer(units, units)
    assert_allclose(inverse, a.inverse_hessian, rtol=1e-7, atol=1e-9 * a.inverse_hessian.max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_columns_far_from_zero(rng, kind, offset):
    X = rng.normal(size=(50, 3))
    objective = _objective(rng, kind, X=X)
    moved = replace(objective, X=X + np.array([offset, 0.0, -offset]))
    a, b = minimize(objective), minimize(moved)
    assert b.converged
    assert b.n_iter <= a.n_iter + 4
    assert_allclose(b.coefficients[:3], a.coefficients[:3], rtol=1e-13 * offset)
    corner = slice(0, 3)
    assert_allclose(
        b.inverse_hessian[corner, corner],
        a.inverse_hessian[corner, corner],
        atol=1e-14 * offset * a.inverse_hessian.max(),
    )


@pytest.mark.parametrize("size", [1e-12, 1e8, 1e12])
def test_units_of_the_target(rng, size):
    objective = _objective(rng, "squared")
    found = minimize(replace(objective, y=objective.y * size))
    assert found.converged
    assert found.n_iter <= 3
    assert_allclose(found.coefficients / size, minimize(objective).coefficients, rtol=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9, 1e15])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_huge_counts(rng, size, fit_intercept):
    X = 0.3 * rng.normal(size=(30, 3))
    y = np.floor(size * np.exp(X[:, 0] + 1.0)) + 1.0
    one = np.ones(30)
    objective = Objective(X, y, PoissonLoss(), 1e-2, fit_intercept, one, one)
    minimum = minimize(objective)
    assert minimum.converged
    assert minimum.n_iter < 60
    step = minimum.inverse_hessian @ objective.at(minimum.coefficients).gradient * 30
    assert np.abs(objective.predictor(step)).max() < 1e-9


def test_counts_of_zero_without_an_intercept(rng):
    X, one = rng.normal(size=(20, 2)), np.ones(20)
    objective = Objective(X, np.zeros(20), PoissonLoss(), 1e-2, False, one, one)
    assert minimize(objective).converged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["collinear", "constant", "zero", "few"])
def test_a_singular_hessian_names_the_remedy_and_a_penalty_is_one(rng, kind, fault):
    X = rng.normal(size=(20, 3))
    if fault == "collinear":
        X[:, 2] = 2.0 * X[:, 0] - X[:, 1]
    elif fault == "few":
        X = rng.normal(size=(20, 25))
    else:
        X[:, 2] = 0.0 if fault == "zero" else 3.0
    for form in (np.array, sparse.csr_array):
        objective = replace(_objective(rng, kind, X=X, alpha=0.0, weighted=False), X=form(X))
        with pytest.raises(SingularHessianError, match="singular at alpha=0") as caught:
            minimize(objective)
        assert "pass a larger `alpha`, or drop constant and collinear columns" in str(caught.value)
        assert isinstance(caught.value, ValueError)
        assert minimize(replace(objective, alpha=1e-2)).converged


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_separable_classes_without_a_penalty_do_not_converge(rng, fit_intercept):
    X = rng.normal(size=(30, 2))
    X[:, 0] += np.sign(X[:, 0])
    one = np.ones(30)
    y = (X[:, 0] > 0.0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            minimum = minimize(Objective(X, y, LogisticLoss(), 0.0, fit_intercept, one, one))
        except SingularHessianError:
            return  # saturation may make it singular first: that is an answer too
    assert not minimum.converged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_records(rng, kind, n):
    X, one = rng.normal(size=(n, 3)), np.ones(n)
    y = np.array([1.0, 0.0])[:n]
    if kind == "logistic" and n == 1:
        y = np.array([0.4])
    objective = Objective(X, y, LOSSES[kind], 0.1, True, one, one)
    assert minimize(objective).converged


def test_inputs_are_left_alone(rng):
    objective = _objective(rng, "logistic")
    for array in (objective.X, objective.y, objective.sample_weight, objective.reweights):
        array.setflags(write=False)
    minimize(objective)


def test_reweighted_changes_nothing_but_the_factors(rng):
    objective = _objective(rng, "squared")
    other = objective.reweighted(np.full(40, 2.0))
    assert other.X is objective.X
    assert_allclose(other.weights, 2.0 * objective.sample_weight)
    assert objective.reweights is not other.reweights


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_factor_of_a_hessian(rng, fit_intercept):
    X, weights = rng.normal(size=(15, 3)) + 2.0, rng.random(15)
    factor = CurvatureSums.of(X, weights, fit_intercept).factor(0.7)
    x = np.column_stack([X, np.ones(15)]) if fit_intercept else X
    matrix = (x.T * weights) @ x + np.diag([0.7, 0.7, 0.7, 0.0][: x.shape[1]])
    b = rng.normal(size=x.shape[1])
    assert_allclose(factor.solve(b), np.linalg.solve(matrix, b), rtol=1e-11)
    assert_allclose(factor.inverse(), np.linalg.inv(matrix), rtol=1e-11)
    assert_allclose(factor.inverse(), factor.inverse().T, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_changes_of_gradients_over_many_steps(n_classes, rng, monkeypatch):
    X, y = rng.normal(size=(9, 2)), np.append([0.0, 1.0, n_classes - 1.0], rng.integers(2, size=6))
    weights = rng.uniform(0.5, 2.0, size=(2, 9))
    objective = Objective(X, y, LogisticLoss(), 0.3, True, *weights)
    if n_classes > 2:
        objective = MultinomialObjective(X, y, SoftmaxLoss(), 0.3, True, *weights, n_classes)
    at = rng.normal(size=(4, objective.n_parameters))
    rows = np.array([8, 0, 3, 3])
    monkeypatch.setattr("skleak.solvers._objective._TABLE_ELEMENTS", 20)  # many blocks
    for form in (np.asarray, sparse.csr_array):
        moved = replace(objective, X=form(X))
        start = at[0]
        before = objective.total * objective.at(start).gradient
        found = moved.gradient_changes(start, at - start)
        without = moved.gradient_changes(start, at - start, rows)
        for k, (w, row) in enumerate(zip(at, rows, strict=True)):
            whole = objective.total * objective.at(w).gradient
            assert_allclose(found[k], whole - before, rtol=1e-12, atol=1e-13)
            own = replace(objective.take([row]), alpha=0.0)
            own = own.total * (own.at(w).gradient - own.at(start).gradient)
            assert_allclose(without[k], whole - before - own, rtol=1e-9, atol=1e-12)
