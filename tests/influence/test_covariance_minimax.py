"""The shape that minimizes the largest leakage: certificates, dense values, brute force."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import hessian_matrix, mostly_slow
from numpy.testing import assert_allclose
from scipy import optimize, sparse

from skleak.influence.jacobian import Columns
from skleak.influence.noise import noise_covariance
from skleak.influence.noise._minimax_shape import enclosing_design, minimax_shape
from skleak.influence.state import FitState
from skleak.influence.state._state import NoiseShape

KINDS = ["squared", "logistic", "poisson"]


def _state(problem):
    return FitState(problem.objective, problem.factor, 1.0, True)


def _shape_of(state, shape):
    noise = NoiseShape.of(shape, len(state.factor.coefficients))
    return noise_covariance(replace(state, noise=noise))


def _worst(problem, state, columns, shape):
    """Largest loss under a shape scaled to ``tr(H S) = p``, from dense Jacobians."""
    d = problem.X.shape[1]
    jacobian = problem.dense_jacobian() * (problem.s * problem.omega)[:, None, None]
    block = jacobian[:, :, :d] @ columns.basis(d)
    if columns.target:
        block = np.concatenate([block, jacobian[:, :, d:]], axis=2)
    shape = shape * len(shape) / np.trace(hessian_matrix(state) @ shape)
    products = block.transpose(0, 2, 1) @ np.linalg.solve(shape, block)
    return float(np.sqrt(np.linalg.eigvalsh(products)[:, -1].max()))


@pytest.mark.parametrize("kind", mostly_slow(KINDS, 1))
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 1))
@pytest.mark.parametrize(
    "columns",
    mostly_slow(
        [Columns(target=True), Columns(), Columns(np.array([1])), Columns(np.array([0, 2]))], 0
    ),
    ids=["whole", "columns", "one", "two"],
)
def test_certificate(make_problem, rng, kind, fit_intercept, columns):
    problem = make_problem(kind, n=40, d=4, fit_intercept=fit_intercept)
    state = _state(problem)
    found = minimax_shape(state, columns)
    assert found.converged
    assert 0.0 <= found.gap <= 1e-4
    assert np.trace(found.shape) == pytest.approx(len(found.shape))
    # What it claims to reach is reached, and is better than both other shapes.
    assert _worst(problem, state, columns, found.shape) == pytest.approx(found.largest, rel=1e-7)
    for shape in ("isotropic", "curvature"):
        other = _worst(problem, state, columns, _shape_of(state, shape))
        assert found.largest <= (1.0 + 1e-4) * other
    # Nothing beats the lower bound, near the solution or far from it.
    p = len(found.shape)
    root = np.linalg.cholesky(found.shape)
    for size in np.geomspace(1e-4, 1.0, 200):
        step = np.eye(p) + size * rng.normal(size=(p, p))
        trial = root @ step @ step.T @ root.T
        assert _worst(problem, state, columns, trial) >= found.lower_bound * (1.0 - 1e-9)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, 0))
def test_brute_force(make_problem, kind):
    problem = make_problem(kind, n=12, d=2, fit_intercept=False)
    state, columns = _state(problem), Columns(target=True)
    root = np.linalg.cholesky(state.factor.inverse_hessian)

    def worst(v):
        lower = root @ np.array([[np.exp(v[0]), 0.0], [v[1], np.exp(-v[0])]])
        return _worst(problem, state, columns, lower @ lower.T)

    options = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 2000}
    starts = [np.zeros(2), np.array([0.5, 0.5]), np.array([-0.5, -0.5])]
    best = min(
        optimize.minimize(worst, start, method="Nelder-Mead", options=options).fun
        for start in starts
    )
    assert minimax_shape(state, columns, tol=1e-6).largest == pytest.approx(best, rel=1e-5)


def test_tighter_tolerance_and_too_few_passes(make_problem):
    problem = make_problem("logistic", n=60, d=5)
    state = _state(problem)
    tight, loose = minimax_shape(state, tol=1e-6), minimax_shape(state, tol=1e-2)
    assert tight.converged
    assert tight.gap <= 1e-6
    assert tight.lower_bound <= loose.largest * (1.0 + 1e-9)
    assert loose.lower_bound <= tight.largest * (1.0 + 1e-9)
    cut = minimax_shape(state, tol=1e-6, max_iter=1)
    assert not cut.converged
    assert cut.n_iter == 1
    assert cut.lower_bound <= tight.largest <= cut.largest
    assert set(tight.support) <= set(range(60))


def test_one_record_of_weight_decides_nothing_without_it(make_problem):
    problem = make_problem("squared", n=20, d=3, weighted=False)
    outlier = replace(problem, y=problem.y + np.where(np.arange(20) == 5, 50.0, 0.0))
    state = _state(outlier)
    support = minimax_shape(state).support
    assert 5 in support
    assert len(support) <= 3
    s = np.where(np.arange(20) == 5, 0.0, 1.0)
    assert 5 not in minimax_shape(_state(replace(outlier, s=s))).support


@pytest.mark.parametrize("n, d", [(2, 5), (3, 1), (1, 2)])
def test_fewer_records_than_parameters(make_problem, rng, n, d):
    problem = make_problem(
        "squared", X=rng.normal(size=(n, d)), alpha=0.3, fit_intercept=False, weighted=False
    )
    state = _state(problem)
    for columns in (Columns(target=True), Columns(np.array([], dtype=int), target=True)):
        found = minimax_shape(state, columns, tol=1e-3)
        assert np.linalg.eigvalsh(found.shape)[0] > 0.0
        assert found.converged
        assert _worst(problem, state, columns, found.shape) == pytest.approx(
            found.largest, rel=1e-5
        )


def test_where_nothing_leaks(make_problem, rng):
    problem = make_problem(
        "squared", X=rng.normal(size=(10, 3)), y=np.zeros(10), fit_intercept=False
    )
    found = minimax_shape(_state(problem), Columns())
    assert found.converged
    assert found.largest == found.lower_bound == found.gap == 0.0
    assert_allclose(found.shape, _shape_of(_state(problem), "curvature"))


def test_units_and_sparse_records(make_problem, rng):
    X = rng.normal(size=(40, 3))
    y = make_problem("squared", X=X).y
    scale = np.array([1e4, 1.0, 1e-3])
    values = []
    for records in (X, X * scale, sparse.csr_array(X)):
        problem = make_problem("squared", X=X, y=y, alpha=0.0, weighted=False)
        dense = records.toarray() if sparse.issparse(records) else records
        problem = replace(problem, X=dense)
        state = _state(problem)
        state = replace(state, objective=replace(state.objective, X=records))
        # The target has the same unit in all of them.
        values.append(minimax_shape(state, Columns(np.array([], dtype=int), target=True)).largest)
    assert_allclose(values, values[0], rtol=2e-4)


def test_enclosing_ellipsoids(rng):
    # Orthogonal points: each is the end of a half axis.
    lengths = np.array([0.1, 1.0, 5.0])
    weights = enclosing_design(np.diag(lengths), np.ones(3))
    half = np.sqrt(weights) * lengths
    assert_allclose(2.0 * half, lengths**2, rtol=1e-5)
    # Points on a sphere around all of it, and some inside.
    points = rng.normal(size=(300, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    corners = np.concatenate([np.eye(3), points * 0.5])
    weights = enclosing_design(corners, np.ones(len(corners)))
    values, vectors = np.linalg.eigh((corners.T * weights) @ corners)
    z = 2.0 * (vectors * np.sqrt(values)) @ vectors.T
    touch = np.einsum("ki,ij,kj->k", corners, np.linalg.inv(z), corners)
    assert touch.max() <= 1.0 + 1e-8
    assert touch[:3].min() >= 1.0 - 1e-5
    assert np.trace(z) == pytest.approx(3.0, rel=1e-6)
    # More points than they have dimensions to span, and repeated ones.
    flat = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 4))
    weights = enclosing_design(np.concatenate([flat, flat]), np.ones(100))
    assert np.all(np.isfinite(weights))
    assert np.all(weights > 0.0)
