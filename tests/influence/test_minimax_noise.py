"""The minimax shape with equal weights: optimality, both terms against refits, and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import assert_losses_over_blocks, column_blocks, hessian_matrix
from numpy.testing import assert_allclose
from scipy import linalg, optimize, sparse

from skleak.influence.jacobian import Columns, feature_norms
from skleak.influence.noise._data_shape import ShapedJoint, curvature_noise, minimax_noise
from skleak.influence.noise._noise import covariance_joint_loss
from skleak.influence.noise._terms import covariance_losses, noise_scales
from skleak.influence.state import FitState

KINDS = ["squared", "logistic", "poisson"]
WHOLE = Columns(target=True)


@pytest.fixture
def make(make_problem):
    """Factory of problems without a reweighting; records count unequally often."""

    def problem(*arguments, **options):
        found = make_problem(*arguments, **options)
        return replace(found, omega=np.ones_like(found.s))

    return problem


def _state(problem, noise_scale=1.0):
    return FitState(problem.objective, problem.factor, noise_scale, True)


def _matrices(state, X, y, columns):
    noise = minimax_noise(state)
    frame = noise.frame(columns)
    return noise.records(X, y, np.ones(len(y))).information(frame)


def _shape(hessian, moments):
    """The positive solution of ``S H S = M`` with trace p, by square roots of matrices."""
    half = linalg.sqrtm(hessian).real
    back = np.linalg.inv(half)
    shape = back @ linalg.sqrtm(half @ moments @ half).real @ back
    return shape * len(shape) / np.trace(shape)


def _fitted(problem, start):
    """Minimizer and shape, from the definitions alone."""
    w = problem.resolve(start)
    d = problem.X.shape[1]
    x = np.column_stack([problem.X, np.ones(len(problem.y))])
    x = x if problem.fit_intercept else problem.X
    r, c = problem.derivatives(x @ w)
    ridge = np.full(len(w), problem.s.sum() * problem.alpha)
    if problem.fit_intercept:
        ridge[-1] = 0.0
    H = (x.T * (problem.s * c)) @ x + np.diag(ridge)
    A, moments = np.linalg.inv(H), np.zeros_like(H)
    for k in range(len(r)):
        mixed = c[k] * np.outer(x[k], w[:d]) + r[k] * np.eye(len(w))[:, :d]
        J = A @ np.column_stack([mixed, -x[k]])
        moments += problem.s[k] * J @ J.T
    return w, _shape(H, moments)


def _moved(problem, start, i, j, change):
    """The same after one copy of record i moved by ``change`` in column j (the last: y)."""
    X, y = np.vstack([problem.X, problem.X[i]]), np.append(problem.y, problem.y[i])
    s = np.append(problem.s, 1.0)
    s[i] -= 1.0
    if j == problem.X.shape[1]:
        y[-1] += change
    else:
        X[-1, j] += change
    return _fitted(replace(problem, X=X, y=y, s=s, omega=np.ones_like(s)), start)


def _information_of_refits(problem, i, h=2e-3):
    """Both terms by extrapolated central differences of the whole refit, shape included."""
    start = problem.start
    _, S = _fitted(problem, start)
    dw, dS = [], []
    for j in range(problem.X.shape[1] + 1):
        slopes = []
        for step in (h, 0.5 * h):
            up, down = (_moved(problem, start, i, j, t) for t in (step, -step))
            slopes.append([(a - b) / (2.0 * step) for a, b in zip(up, down, strict=True)])
        dw.append((4.0 * slopes[1][0] - slopes[0][0]) / 3.0)
        dS.append((4.0 * slopes[1][1] - slopes[0][1]) / 3.0)
    dw, dS, P = np.array(dw), np.array(dS), np.linalg.inv(S)
    return dw @ P @ dw.T, 0.5 * np.einsum("ij,ajk,kl,bli->ab", P, dS, P, dS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n, d", [(15, 3), (5, 8), (4, 1)])
def test_shape_from_the_definition(make, kind, fit_intercept, n, d):
    problem = make(kind, n=n, d=d, fit_intercept=fit_intercept, alpha=0.1)
    noise = minimax_noise(_state(problem))
    _, expected = _fitted(problem, problem.start)
    assert_allclose(noise.shape, expected, rtol=1e-7, atol=1e-9 * expected.max())
    root = noise.noise_root
    assert np.all(np.triu(root, 1) == 0.0)
    assert_allclose(root @ root.T, noise.shape, rtol=1e-9, atol=1e-12 * expected.max())
    assert np.trace(noise.shape) == pytest.approx(d + fit_intercept)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_shape_leaks_less_on_average(make, rng, kind, fit_intercept):
    # Brute force: the sum of squared trace losses through the mean, at an equal rise.
    problem = make(kind, n=10, d=2, fit_intercept=fit_intercept, alpha=5e-2)
    state = _state(problem)
    hessian, J = hessian_matrix(state), problem.dense_jacobian()
    p = len(hessian)
    lower = np.tril_indices(p)

    def cost(shape):
        leak = np.einsum("n,nia,ij,nja->", problem.s, J, np.linalg.inv(shape), J)
        return leak * np.trace(hessian @ shape)  # at the scale at which the rise is one

    def of_root(entries):
        root = np.zeros((p, p))
        root[lower] = entries
        return np.log(cost(root @ root.T))

    found = minimax_noise(state).shape
    start = np.linalg.cholesky(np.linalg.inv(hessian))[lower]
    best = optimize.minimize(of_root, start / start.max(), method="BFGS", tol=1e-12)
    assert np.log(cost(found)) == pytest.approx(best.fun, abs=1e-9)
    root = np.zeros((p, p))
    root[lower] = best.x
    assert_allclose(root @ root.T * p / np.sum(root**2), found, rtol=1e-3, atol=1e-3)
    values, vectors = np.linalg.eigh(found)
    half = (vectors * np.sqrt(values)) @ vectors.T
    for size in np.geomspace(1e-3, 1.0, 50):
        step = size * rng.normal(size=(p, p))
        assert cost(half @ linalg.expm(step + step.T) @ half) >= cost(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_both_terms_are_those_of_refits(make, kind, fit_intercept, weighted):
    problem = make(kind, n=15, d=3, fit_intercept=fit_intercept, weighted=weighted, alpha=2e-2)
    pair = _matrices(_state(problem), problem.X, problem.y, WHOLE)
    for i in (0, 4, 9):
        for found, wanted in zip(pair, _information_of_refits(problem, i), strict=True):
            assert_allclose(found[i], wanted, rtol=1e-5, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, d", [(5, 8), (4, 1), (3, 2)])
def test_few_records_and_one_column(make, kind, n, d):
    for fit_intercept in (True, False):
        problem = make(kind, n=n, d=d, fit_intercept=fit_intercept, alpha=0.1)
        pair = _matrices(_state(problem), problem.X, problem.y, WHOLE)
        wanted = _information_of_refits(problem, 1, h=1e-3)
        for found, each in zip(pair, wanted, strict=True):
            # A covariance of one parameter is its scale: it does not depend on the data.
            assert_allclose(found[1], each, rtol=1e-4, atol=1e-6 * np.abs(each).max() + 1e-12)


def test_one_parameter_tells_nothing_through_its_covariance(make):
    problem = make("poisson", n=6, d=1, fit_intercept=False)
    state = _state(problem)
    batch, noise = state.batch(problem.X, problem.y), minimax_noise(state)
    losses = covariance_losses(state, batch, [WHOLE], noise=noise)
    assert np.all(losses.covariance <= 1e-6 * losses.mean)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise_scale", [0.02, 0.5])
def test_the_information_is_the_variance_of_the_score(make, rng, kind, noise_scale):
    problem = make(kind, n=12, d=2, alpha=5e-2)
    first, second = _matrices(_state(problem), problem.X, problem.y, WHOLE)
    i, h, start = 3, 1e-4, problem.start
    expected = first[i] / noise_scale**2 + second[i]
    w, S = _fitted(problem, start)
    releases = w + noise_scale * rng.normal(size=(400_000, len(w))) @ np.linalg.cholesky(S).T

    def log_density(w, S):
        gap, C = releases - w, noise_scale**2 * S
        quadratic = np.einsum("ij,ij->i", gap, np.linalg.solve(C, gap.T).T)
        return -0.5 * (quadratic + np.linalg.slogdet(C)[1])

    ends = [[_moved(problem, start, i, j, t) for t in (h, -h)] for j in range(3)]
    scores = np.column_stack(
        [(log_density(*up) - log_density(*down)) / (2.0 * h) for up, down in ends]
    )
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(releases))
    assert np.all(np.abs(products.mean(axis=0) - expected) <= 3.0 * error + 1e-6 * expected.max())
    # Each term matters to the test, at the smaller or at the larger scale.
    term = first[i] / noise_scale**2 if noise_scale < 0.1 else second[i]
    assert np.trace(term) > 10.0 * error.max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_losses_over_blocks_of_columns(make, kind, fit_intercept, norm):
    d, sigma = 4, 0.3
    problem = make(kind, n=14, d=d, fit_intercept=fit_intercept)
    state = _state(problem, sigma)
    X, y, noise = problem.X, problem.y, minimax_noise(_state(problem))
    found = covariance_losses(state, state.batch(X, y), column_blocks(d), norm, noise=noise)
    first, second = _matrices(state, X, y, WHOLE)
    scale = problem.s[:, None, None] ** 2
    first, second = first * scale / sigma**2, second * scale
    assert_losses_over_blocks(found, first, second, norm, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_term_is_that_of_a_public_shape(make, kind):
    problem = make(kind, n=30, d=5)
    state = _state(problem, 0.7)
    noise, batch = minimax_noise(state), state.batch(problem.X, problem.y)
    blocks = [WHOLE, Columns(np.array([1, 3])), Columns(np.array([2]))]
    losses = covariance_losses(state, batch, blocks, noise=noise)
    shaped = state.factor.under_noise(noise.shape)
    norms = feature_norms(shaped, problem.X, problem.y, blocks)
    assert_allclose(losses.mean, norms * problem.s[:, None] / 0.7, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [WHOLE, Columns(), Columns(np.array([2, 0]), target=True)])
def test_joint_loss_of_dense_rows(make, kind, columns):
    problem = make(kind, n=9, d=3)
    sigma, noise = 0.6, minimax_noise(_state(problem))
    state = _state(problem, sigma)
    p, (X, y) = len(noise.axes), (problem.X, problem.y)
    batch = state.batch(X, y)
    operator = ShapedJoint(noise.frame(columns), sigma)
    # On vectors and symmetric matrices alone, as an orthonormal basis of them.
    basis = np.zeros((p + p * (p + 1) // 2, p + p * p))
    basis[:p, :p] = np.eye(p)
    for row, (k, m) in zip(basis[p:], zip(*np.triu_indices(p), strict=True), strict=True):
        matrix = np.zeros((p, p))
        matrix[k, m] = matrix[m, k] = 1.0 if k == m else np.sqrt(0.5)
        row[p:] = matrix.ravel()
    dense = basis @ np.array([operator.product(row, batch) for row in basis]).T
    assert_allclose(dense, dense.T, atol=1e-9 * np.abs(dense).max())
    largest = np.sqrt(np.linalg.eigvalsh(dense)[-1])
    found = covariance_joint_loss(state, batch, columns, noise=noise)
    assert found == pytest.approx(largest, rel=1e-8)
    # The trace is that of the records one by one.
    diagonal = covariance_losses(state, batch, [columns], "trace", noise=noise).total[:, 0]
    expected = np.sum(diagonal**2) * columns.count(3)
    assert np.trace(dense) == pytest.approx(expected, rel=1e-9)
    spectral = covariance_losses(state, batch, [columns], noise=noise).total[:, 0]
    for i in (0, 5):
        one = batch.take([i])
        rows = basis @ np.array([operator.product(row, one) for row in basis]).T
        assert np.sqrt(np.linalg.eigvalsh(rows)[-1]) == pytest.approx(spectral[i], rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_scale_for_a_loss(make, kind):
    problem = make(kind, n=20, d=3)
    state = _state(problem)
    X, y, noise = problem.X, problem.y, minimax_noise(state)
    batch = state.batch(X, y)
    through = covariance_losses(state, batch, [WHOLE], noise=noise).covariance[:, 0]
    eta = float(np.median(through)) * 1.5
    scales = noise_scales(batch, WHOLE, eta, noise=noise)
    assert np.array_equal(np.isinf(scales), through >= eta)
    for i in np.flatnonzero(np.isfinite(scales)):
        at = state.at_noise(scales[i])
        losses = covariance_losses(at, batch, [WHOLE], noise=noise).total
        assert losses[i, 0] == pytest.approx(eta, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_the_columns(make, rng, kind):
    X = rng.normal(size=(40, 3))
    y = make(kind, X=X, alpha=0.0).y
    for scale in (np.ones(3), np.array([1e5, 1.0, 1e-4])):
        problem = make(kind, X=X * scale, y=y, alpha=0.0, weighted=False)
        state = _state(problem)
        S, H = minimax_noise(state).shape, hessian_matrix(state)
        J = problem.factor.jacobian(problem.X, problem.y)
        M = np.einsum("nia,nja->ij", J, J)
        product = S @ H @ S
        product *= np.trace(M @ H) / np.trace(product @ H)
        sizes = np.sqrt(np.outer(np.diag(M), np.diag(M)))
        assert np.all(np.abs(product - M) <= 1e-7 * sizes)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_far_from_zero(make, rng, kind):
    X = rng.normal(size=(40, 3))
    y = make(kind, X=X, alpha=1e-3).y
    problem = make(kind, X=X, y=y, alpha=1e-3, weighted=False)
    moved = replace(problem, X=X + np.array([1e4, 0.0, -1e3]))
    # An intercept takes up any shift of the columns; but for the trace, so does the shape.
    pair = []
    for each in (moved, problem):
        noise = minimax_noise(_state(each))
        frame = noise.frame(Columns())
        records = noise.records(each.X, each.y, each.s)
        pair.append((noise.axes, records.gram(frame, records.own(frame))))
    for found, expected in zip(*pair, strict=True):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_sparse_records(make, kind, monkeypatch):
    problem = make(kind, n=25, d=3)
    problem = replace(problem, X=np.where(np.abs(problem.X) > 0.6, problem.X, 0.0))
    state = _state(problem)
    batch = state.batch(problem.X, problem.y)
    blocks = [WHOLE, Columns(np.array([0]))]
    expected = covariance_losses(state, batch, blocks, noise=minimax_noise(state))
    for module in ("_data_shape", "_terms"):
        monkeypatch.setattr(f"skleak.influence.noise.{module}._ELEMENTS", 100)
    X = sparse.csr_array(problem.X)
    thin = replace(state, objective=replace(problem.objective, X=X))
    found = covariance_losses(thin, replace(batch, X=X), blocks, noise=minimax_noise(thin))
    assert_allclose(found.total, expected.total, rtol=1e-9)
    assert_allclose(found.covariance, expected.covariance, rtol=1e-7)


def test_new_records_and_none(make):
    problem = make("logistic", n=20, d=3)
    state, noise = _state(problem), minimax_noise(_state(problem))
    X, y = problem.X[:4] + 0.1, problem.y[:4]
    batch = state.batch(X, y)
    losses = covariance_losses(state, batch, [WHOLE], noise=noise)
    assert np.all(losses.total > losses.mean)
    none = replace(batch, sample_weight=np.zeros(4))
    assert np.all(covariance_losses(state, none, [WHOLE], noise=noise).total == 0.0)
    assert covariance_joint_loss(state, none, WHOLE, noise=noise) == 0.0


def test_curvature_is_what_is_left_without_the_moments(make):
    # Where B is proportional to H, the shape is that of the curvature.
    problem = make("squared", n=30, d=3, fit_intercept=False, alpha=1e-9, weighted=False)
    X, _ = np.linalg.qr(problem.X)
    problem = replace(problem, X=X)
    state = _state(problem)
    shapes = [each(state).shape for each in (minimax_noise, curvature_noise)]
    # B = (|w|^2 + 1) X^T X + sum r (x w^T + w x^T) + sum r^2 I, and X^T X = I, X^T r = 0.
    assert_allclose(*shapes, atol=1e-7)


def test_what_is_refused(make_problem, make):
    reweighted = make_problem("squared")
    with pytest.raises(ValueError, match="without a reweighting"):
        minimax_noise(_state(reweighted))
    problem = make("squared", n=3, d=6, alpha=0.1)
    constant = replace(problem, y=np.full(3, 2.0))
    with pytest.raises(ValueError, match="no record moves the model"):
        minimax_noise(_state(constant))
