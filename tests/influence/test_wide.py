"""Fits to sparse columns whose Hessian is only multiplied with, against the dense inverse."""

from functools import partial

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.influence.jacobian import Columns, FitFactor, WideFactor, record_norms
from skleak.influence.jacobian._wide import _TIGHT, _norms, _Records, _spaces
from skleak.losses import LogisticLoss, PoissonLoss, SquaredLoss
from skleak.solvers import ImplicitHessian, Objective, least_eigenvalue, minimize

KINDS = {"squared": SquaredLoss(), "logistic": LogisticLoss(), "poisson": PoissonLoss()}
CASES = [
    (kind, shape, intercept)
    for shape in ((120, 40, 1e-2), (40, 90, 1e-4))
    for intercept in (True, False)
    for kind in KINDS
]


def _problem(kind, shape, intercept, rng):
    """Weighted records with an empty, a constant and two equal columns, and targets far off."""
    (n, d, alpha), loss = shape, KINDS[kind]
    X = np.where(rng.random((n, d)) < 0.1, rng.normal(size=(n, d)), 0.0)
    X[:, 3], X[:, 5], X[:, 6], X[:, 7] = 0.0, X[:, 4], 30.0 * X[:, 6], 1.0
    a = X[:, 8:] @ rng.normal(scale=0.5, size=d - 8)
    y = {
        "squared": a + np.where(rng.random(n) < 0.1, 20.0, 1.0) * rng.normal(size=n),
        "logistic": (a + rng.logistic(size=n) > 0.0).astype(float),
        "poisson": rng.poisson(np.exp(np.clip(a, -2.0, 2.0))).astype(float),
    }[kind]
    s = rng.choice([0.0, 1.0, 2.5], size=n)
    one = Objective(sparse.csr_array(X), y, loss, alpha, intercept, s, np.ones(n))
    minimum = minimize(one)
    w, dense = minimum.coefficients, FitFactor.of(one, minimum)
    given = one.curvatures(w), one.total * alpha, intercept
    hessian = ImplicitHessian(one.X, *given, partial(getattr, one.at(w), "hessian"))
    return one, dense, WideFactor(w, hessian.inverse(), loss, intercept)


def _assert_upper(found, exact, rtol=1e-7):
    assert np.all(found >= exact)
    assert_allclose(found, exact, rtol=rtol, atol=0.0)


@pytest.mark.parametrize(("kind", "shape", "intercept"), mostly_slow(CASES, 0, 1, 2, 6, 10))
@pytest.mark.parametrize("target", [True, False])
def test_whole_records_are_never_below(kind, shape, intercept, target, rng):
    one, dense, wide = _problem(kind, shape, intercept, rng)
    columns = Columns(target=target)
    exact = record_norms(dense, one.X, one.y, columns)
    # What is further off goes to the dense matrix.
    _assert_upper(_norms(wide, one.X, one.y, columns, "spectral", False), exact, 1.1 * _TIGHT)


@pytest.mark.parametrize(("kind", "shape", "intercept"), mostly_slow(CASES, 0, 10))
@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_few_columns_are_never_below(kind, shape, intercept, norm, rng):
    one, dense, wide = _problem(kind, shape, intercept, rng)
    units = np.linspace(0.5, 2.0, one.X.shape[1])
    for columns in (
        Columns(np.array([4])),
        Columns(np.array([0, 2, 9]), constrained=True),
        Columns(np.array([1, 6]), target=True, units=units, target_unit=3.0),
        Columns(np.array([], dtype=np.intp), target=True),
    ):
        exact = record_norms(dense, one.X, one.y, columns, norm)
        _assert_upper(_norms(wide, one.X, one.y, columns, norm, False), exact)


@pytest.mark.parametrize("kind", KINDS)
def test_certificate_refuses_what_is_below(kind, rng):
    one, dense, wide = _problem(kind, (120, 40, 1e-2), True, rng)
    some = _Records(wide, one.X, one.y, Columns(target=True))
    exact = record_norms(dense, one.X, one.y, Columns(target=True))
    mean = wide.implicit.mean
    start = np.column_stack([wide.weights, mean, (some.x - mean).T])
    *_, (Q, T, _) = _spaces(wide.implicit, start)
    values, turned = np.linalg.eigh(T)
    every = np.flatnonzero(exact > 0.0)
    for factor, expected in ((1.0 - 1e-6, False), (1.0 + 1e-6, True), (3.0, True)):
        held = some._holds(every, (factor * exact[every]) ** 2, values, Q @ turned)
        assert np.all(held == expected)
    # Of a space that knows little it holds less, and never more.
    poor = some._holds(every, (0.999 * exact[every]) ** 2, values[:5], (Q @ turned)[:, :5])
    assert not np.any(poor)


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(1.0, 2.0, 60),
        np.append(1.0, np.linspace(1.5, 9.0, 59)),
        np.append(np.full(20, 0.1), np.geomspace(0.2, 1e4, 40)),
        np.append(0.1 + 1e-6, np.linspace(0.1, 100.0, 59)),
    ],
)
def test_least_eigenvalue_is_never_above(values, rng):
    vectors = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    matrix = (vectors * values) @ vectors.T
    found = least_eigenvalue(lambda v: matrix @ v, rng.normal(size=60), 0.05)
    assert values.min() * (1.0 - 1e-7) <= found <= values.min() * (1.0 + 1e-12)


def test_least_eigenvalue_that_few_steps_do_not_find(rng):
    # In steps that cannot resolve the spectrum the bound is below it, and at least the floor.
    d = 1200
    values = np.append(np.linspace(1.0, 1.001, d // 2), np.geomspace(1.001, 1e9, d // 2))
    found = least_eigenvalue(lambda v: values * v, rng.normal(size=d), 0.5)
    assert 0.5 <= found <= 1.0


@pytest.mark.parametrize("intercept", [True, False])
def test_solutions_are_those_of_the_factor(intercept, rng):
    _, dense, wide = _problem("logistic", (120, 40, 1e-2), intercept, rng)
    p = len(wide.coefficients)
    B = rng.normal(size=(p, 3))
    Z, errors = wide.implicit.times_inverse(B)
    exact = dense.inverse_hessian @ B
    assert np.all(np.linalg.norm(Z - exact, axis=0) <= errors + 1e-12 * np.linalg.norm(exact))
    assert np.all(errors <= 1e-9 * np.linalg.norm(exact, axis=0))
    assert_allclose(wide.implicit.solve(B[:, 0]), exact[:, 0], rtol=1e-9, atol=1e-14)
    inverse = wide.inverse_hessian
    assert inverse.shape == (p, p)
    assert len(inverse) == p
    assert_allclose(B.T @ inverse, exact.T, rtol=1e-9, atol=1e-12)
    assert_allclose(inverse @ B, exact, rtol=1e-9, atol=1e-12)
    assert_allclose(np.diag(inverse), np.diag(dense.inverse_hessian), rtol=1e-9)
    assert_allclose(inverse[:, 2], dense.inverse_hessian[:, 2], rtol=1e-9, atol=1e-12)
