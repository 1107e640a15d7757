"""Shapes of noise, their cost, and leakage under a shape that is public."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import excess_loss, hessian_matrix, mostly_slow
from numpy.testing import assert_allclose

from skleak.influence.jacobian import Columns, feature_norms, joint_norm, record_norms
from skleak.influence.noise import noise_covariance
from skleak.influence.noise._data_shape import curvature_noise
from skleak.influence.noise._minimax_shape import inverse_hessian_root
from skleak.influence.state import FitState
from skleak.influence.state._state import NoiseShape, given_shape

KINDS = ["squared", "logistic", "poisson"]


def _random_shape(rng, p):
    root = rng.normal(size=(p, p)) * np.geomspace(1.0, 10.0, p)
    return root @ root.T + 0.1 * np.eye(p)


def _blocks(d):
    return [
        Columns(target=True),
        Columns(),
        Columns(np.array([], dtype=int), target=True),
        Columns(np.array([d - 1])),
        Columns(np.array([1, 0]), target=True),
        Columns(np.arange(d), constrained=True),
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n, d", [(30, 5), (4, 7)])
def test_norms_are_those_of_whitened_jacobians(make_problem, rng, kind, fit_intercept, n, d):
    problem = make_problem(kind, n=n, d=d, fit_intercept=fit_intercept)
    p = d + fit_intercept
    shape = given_shape(_random_shape(rng, p), p)
    values, vectors = np.linalg.eigh(shape)
    whiten = (vectors / np.sqrt(values)) @ vectors.T
    shaped = problem.factor.under_noise(shape)
    dense = whiten @ problem.dense_jacobian()
    products = dense.transpose(0, 2, 1) @ dense
    own = shaped.jacobian(problem.X, problem.y)
    assert_allclose(own.transpose(0, 2, 1) @ own, products, rtol=1e-8, atol=1e-9 * products.max())
    weights = problem.s * problem.omega**2
    for columns in _blocks(d):
        block = dense[:, :, :d] @ columns.basis(d)
        if columns.target:
            block = np.concatenate([block, dense[:, :, d:]], axis=2)
        joined = np.concatenate(list(block * np.sqrt(weights)[:, None, None]), axis=1)
        for norm, order in (("spectral", 2), ("trace", "fro")):
            expected = np.linalg.norm(block, order, axis=(1, 2))
            if norm == "trace":
                expected /= np.sqrt(block.shape[2])
            found = record_norms(shaped, problem.X, problem.y, columns, norm)
            assert_allclose(found, expected, rtol=1e-9)
            table = feature_norms(shaped, problem.X, problem.y, [columns, columns], norm)
            assert_allclose(table, np.column_stack([expected, expected]), rtol=1e-9)
            joint = joint_norm(shaped, problem.X, problem.y, weights, columns, norm)
            assert_allclose(joint, np.linalg.norm(joined, order), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_isotropic_is_the_identity(make_problem, kind):
    problem = make_problem(kind, n=30, d=4)
    state = FitState(problem.objective, problem.factor, 1.0, True)
    shape = noise_covariance(state)
    assert_allclose(shape, np.eye(5))
    shaped = problem.factor.under_noise(shape)
    for columns in _blocks(4):
        found = record_norms(shaped, problem.X, problem.y, columns)
        expected = record_norms(problem.factor, problem.X, problem.y, columns)
        assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False]))
def test_root_hessian_and_cost(make_problem, rng, kind, fit_intercept):
    problem = make_problem(kind, n=30, d=4, fit_intercept=fit_intercept)
    state = FitState(problem.objective, problem.factor, 1.0, True)
    A = problem.factor.inverse_hessian
    p = len(A)
    root = inverse_hessian_root(state)
    assert_allclose(root @ root.T, A, rtol=1e-10, atol=1e-12 * A.max())
    assert np.all(np.triu(root, 1) == 0.0)
    H = hessian_matrix(state)
    assert_allclose(H @ A, np.eye(p), atol=1e-8)
    # Noise of covariance A raises the objective by p / (2 N), at least to second order.
    assert excess_loss(state, A) == pytest.approx(p / (2.0 * problem.s.sum()), rel=1e-10)
    if kind == "squared":
        objective, w = problem.objective, problem.factor.coefficients
        C = _random_shape(rng, p) * 1e-2
        release = w + rng.normal(size=(20_000, p)) @ np.linalg.cholesky(C).T
        base = objective.at(w).value
        rises = np.array([objective.at(v).value - base for v in release])
        error = rises.std() / np.sqrt(len(rises))
        assert abs(rises.mean() - excess_loss(state, C)) <= 4.0 * error


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_have_trace_p_in_any_units(make_problem, rng, kind):
    problem = make_problem(kind, n=40, d=3, scale=np.array([1e4, 1.0, 1e-4]))
    problem = replace(problem, omega=np.ones_like(problem.s))
    state, matrix = FitState(problem.objective, problem.factor, 1.0, True), _random_shape(rng, 4)
    for shape in (
        "isotropic",
        "curvature",
        "minimax",
        "least_mean",
        matrix,
        1e-9 * matrix,
        np.diag([1, 2, 3, 4]),
    ):
        found = noise_covariance(replace(state, noise=NoiseShape.of(shape, 4)))
        assert np.trace(found) == pytest.approx(4.0)
        assert_allclose(found, found.T, rtol=1e-14)
    assert_allclose(given_shape(1e-9 * matrix, 4), matrix * 4 / np.trace(matrix))


@pytest.mark.parametrize("kind", KINDS)
def test_curvature_and_units_far_apart(make_problem, rng, kind):
    X = rng.normal(size=(40, 3))
    scale = np.array([1e6, 1.0, 1e-5])
    y = make_problem(kind, X=X, alpha=0.0).y
    table = []
    for factors in (np.ones(3), scale):
        problem = make_problem(kind, X=X * factors, y=y, alpha=0.0, weighted=False)
        state = FitState(problem.objective, problem.factor, 1.0, True)
        # Noise of covariance A: what it leaves of a column is free of units.
        A = problem.factor.inverse_hessian
        unit = np.sqrt(len(A) / np.trace(A))
        shaped = curvature_noise(state).mean_factor
        norms = [record_norms(shaped, problem.X, y, Columns(np.array([j]))) for j in range(3)]
        table.append(np.column_stack(norms) * unit * factors)
    assert_allclose(table[1], table[0], rtol=1e-7)


@pytest.mark.parametrize(
    "shape, error, message",
    [
        ("round", ValueError, "'isotropic', 'curvature'"),
        (np.eye(3), ValueError, r"shape \(4, 4\)"),
        (np.ones(4), ValueError, r"shape \(4, 4\)"),
        (np.ones((4, 4)), ValueError, "positive definite"),
        (np.diag([1.0, 1.0, 0.0, 1.0]), ValueError, "positive definite"),
        (-np.eye(4), ValueError, "positive definite"),
        (np.triu(np.ones((4, 4))), ValueError, "symmetric"),
        (np.full((4, 4), np.nan), ValueError, "finite"),
        (np.eye(4, dtype=complex), TypeError, "real numbers"),
        (np.eye(4).astype(str), TypeError, "real numbers"),
    ],
)
def test_bad_shapes(shape, error, message):
    with pytest.raises(error, match=message):
        NoiseShape.of(shape, 4)


def test_smallest_variance_of_every_shape(rng):
    root = rng.normal(size=(4, 4))
    given = root @ root.T + 0.1 * np.eye(4)
    values = np.linalg.eigvalsh(given) * 4.0 / np.trace(given)
    least = NoiseShape.of(given, 4).smallest_variance
    assert least <= values[0]
    assert least == pytest.approx(values[0], rel=1e-9)
    for shape in ("isotropic", "curvature", "minimax", 3.0 * np.eye(4)):
        assert NoiseShape.of(shape, 4).smallest_variance == 1.0


@pytest.mark.parametrize("p", [20, 50, 90, 130])
def test_smallest_variance_is_below_the_exact_one(p):
    # Second differences squared: LAPACK's own smallest value is off by rounding, either way.
    second = 2.0 * np.eye(p) - np.eye(p, k=1) - np.eye(p, k=-1)
    given = second @ second  # of integers: exact
    exact = 16.0 * np.sin(0.5 * np.pi / (p + 1.0)) ** 4 * p / (6.0 * p - 2.0)
    assert NoiseShape.of(given, p).smallest_variance <= exact
