"""Both terms of the information under curvature-shaped noise, against refits and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import assert_losses_over_blocks, column_blocks, mostly_slow
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.influence.jacobian import Columns, feature_norms
from skleak.influence.noise._data_shape import curvature_noise
from skleak.influence.noise._terms import covariance_losses, information_terms
from skleak.influence.state import FitState
from skleak.linear_model import PrivateLinearRegression

KINDS = ["squared", "logistic", "poisson"]


def _state(problem, noise_scale=1.0):
    return FitState(problem.objective, problem.factor, noise_scale, True)


def _matrices(state, X, y, columns):
    noise = curvature_noise(state)
    frame = noise.frame(columns)
    return noise.records(X, y, np.ones(len(y))).information(frame)


def _second_before_normalization(state, X, y, columns):
    """The second term, were the noise not scaled by the trace of its covariance."""
    noise = curvature_noise(state)
    records, frame = noise.records(X, y, np.ones(len(y))), noise.frame(columns)
    return 0.5 * records.gram(frame, records.own(frame))


def curvature_losses(state, *arguments):
    return covariance_losses(state, *arguments, noise=curvature_noise(state))


def _fitted(problem, start, normalized):
    """Minimizer and covariance, from the definitions alone."""
    w = problem.resolve(start)
    x = np.column_stack([problem.X, np.ones(len(problem.y))])
    x = x if problem.fit_intercept else problem.X
    c = problem.s * problem.omega * problem.derivatives(x @ w)[1]
    ridge = np.full(len(w), problem.s.sum() * problem.alpha)
    if problem.fit_intercept:
        ridge[-1] = 0.0
    A = np.linalg.inv((x.T * c) @ x + np.diag(ridge))
    return w, A * len(w) / np.trace(A) if normalized else A


def _moved(problem, start, i, j, change, normalized):
    """The same after one copy of record i moved by ``change`` in column j (the last: y)."""
    X, y = np.vstack([problem.X, problem.X[i]]), np.append(problem.y, problem.y[i])
    s, omega = np.append(problem.s, 1.0), np.append(problem.omega, problem.omega[i])
    s[i] -= 1.0
    if j == problem.X.shape[1]:
        y[-1] += change
    else:
        X[-1, j] += change
    return _fitted(replace(problem, X=X, y=y, s=s, omega=omega), start, normalized)


def _differences(problem, i, normalized=True, h=2e-3):
    """Minimizer, covariance and their derivatives, by extrapolated central differences."""
    start = problem.start
    w, C = _fitted(problem, start, normalized)
    dw, dC = [], []
    for j in range(problem.X.shape[1] + 1):
        slopes = []
        for step in (h, 0.5 * h):
            up, down = (_moved(problem, start, i, j, t, normalized) for t in (step, -step))
            slopes.append([(a - b) / (2.0 * step) for a, b in zip(up, down, strict=True)])
        dw.append((4.0 * slopes[1][0] - slopes[0][0]) / 3.0)
        dC.append((4.0 * slopes[1][1] - slopes[0][1]) / 3.0)
    return w, C, np.array(dw), np.array(dC)


def _information(C, dw, dC):
    P = np.linalg.inv(C)
    first = dw @ P @ dw.T
    second = 0.5 * np.einsum("ij,ajk,kl,bli->ab", P, dC, P, dC)
    return first, second


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("normalized", mostly_slow([True, False], 0))
def test_both_terms_are_those_of_refits(make_problem, kind, fit_intercept, weighted, normalized):
    problem = make_problem(
        kind, n=15, d=3, fit_intercept=fit_intercept, weighted=weighted, alpha=2e-2
    )
    state = _state(problem)
    first, second = _matrices(state, problem.X, problem.y, Columns(target=True))
    if not normalized:  # C = A here, and sigma^2 p A / tr A there
        first *= len(problem.start) / np.trace(state.factor.inverse_hessian)
        second = _second_before_normalization(state, problem.X, problem.y, Columns(target=True))
    for i in (0, 4, 9):
        _, C, dw, dC = _differences(problem, i, normalized)
        factor = problem.omega[i] ** 2
        for found, wanted in zip((first[i], second[i]), _information(C, dw, dC), strict=True):
            assert_allclose(factor * found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, d", [(5, 8), (4, 1), (3, 2)])
def test_few_records_and_one_column(make_problem, kind, n, d):
    for fit_intercept in (True, False):
        problem = make_problem(kind, n=n, d=d, fit_intercept=fit_intercept, alpha=0.1)
        first, second = _matrices(_state(problem), problem.X, problem.y, Columns(target=True))
        _, C, dw, dC = _differences(problem, 1)
        for found, wanted in zip((first[1], second[1]), _information(C, dw, dC), strict=True):
            found = problem.omega[1] ** 2 * found
            # A covariance of one parameter is its scale: it does not depend on the data.
            assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * np.abs(wanted).max() + 1e-12)


def test_one_parameter_tells_nothing_through_its_covariance(make_problem):
    problem = make_problem("poisson", n=6, d=1, fit_intercept=False)
    state = _state(problem)
    batch = state.batch(problem.X, problem.y)
    losses = curvature_losses(state, batch, [Columns(target=True)])
    # A square that cancels leaves a root of half the digits.
    assert np.all(losses.covariance <= 1e-7 * losses.mean)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise_scale", [0.02, 0.5])
def test_the_information_is_the_variance_of_the_score(make_problem, rng, kind, noise_scale):
    problem = make_problem(kind, n=12, d=2, alpha=5e-2)
    state = _state(problem)
    first, second = _matrices(state, problem.X, problem.y, Columns(target=True))
    i, h, start = 3, 1e-4, problem.start
    expected = problem.omega[i] ** 2 * (first[i] / noise_scale**2 + second[i])
    w, C = _fitted(problem, start, True)
    root = noise_scale * np.linalg.cholesky(C)
    releases = w + rng.normal(size=(400_000, len(w))) @ root.T

    def log_density(w, C):
        gap = releases - w
        C = noise_scale**2 * C
        quadratic = np.einsum("ij,ij->i", gap, np.linalg.solve(C, gap.T).T)
        return -0.5 * (quadratic + np.linalg.slogdet(C)[1])

    scores = np.column_stack(
        [
            (
                log_density(*_moved(problem, start, i, j, h, True))
                - log_density(*_moved(problem, start, i, j, -h, True))
            )
            / (2.0 * h)
            for j in range(3)
        ]
    )
    products = scores[:, :, None] * scores[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(releases))
    assert np.all(np.abs(products.mean(axis=0) - expected) <= 3.0 * error + 1e-6 * expected.max())
    # Each term matters to the test, at the smaller or at the larger scale.
    term = first[i] / noise_scale**2 if noise_scale < 0.1 else second[i]
    assert np.trace(term) * problem.omega[i] ** 2 > 10.0 * error.max()


def test_closed_form_of_the_squared_loss_before_normalization(make_problem):
    problem = make_problem("squared", n=20, d=4)
    state = _state(problem)
    second = _second_before_normalization(state, problem.X, problem.y, Columns())
    A = state.factor.inverse_hessian
    x = np.column_stack([problem.X, np.ones(20)])
    u = x @ A
    leverage = np.einsum("ij,ij->i", u, x)
    expected = u[:, :4, None] * u[:, None, :4] + leverage[:, None, None] * A[:4, :4]
    assert_allclose(second, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_losses_over_blocks_of_columns(make_problem, kind, fit_intercept, norm):
    d, sigma = 4, 0.3
    problem = make_problem(kind, n=14, d=d, fit_intercept=fit_intercept)
    state = _state(problem, sigma)
    X, y = problem.X, problem.y
    batch = state.batch(X, y)
    found = curvature_losses(state, batch, column_blocks(d), norm)
    first, second = _matrices(state, X, y, Columns(target=True))
    scale = (problem.s * problem.omega)[:, None, None] ** 2
    first, second = first * scale / sigma**2, second * scale
    assert_losses_over_blocks(found, first, second, norm, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_term_is_that_of_a_public_shape(make_problem, kind):
    problem = make_problem(kind, n=30, d=5)
    state = _state(problem, 0.7)
    batch = state.batch(problem.X, problem.y)
    blocks = [Columns(target=True), Columns(np.array([1, 3])), Columns(np.array([2]))]
    losses = curvature_losses(state, batch, blocks)
    noise = curvature_noise(state)
    A = state.factor.inverse_hessian
    assert_allclose(noise.shape, A * len(A) / np.trace(A))
    assert_allclose(noise.noise_root @ noise.noise_root.T, noise.shape, rtol=1e-9, atol=1e-12)
    for shaped in (noise.mean_factor, state.factor.under_noise(noise.shape)):
        norms = feature_norms(shaped, problem.X, problem.y, blocks)
        assert_allclose(losses.mean, norms * batch.factors[:, None] / 0.7, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_the_columns(make_problem, rng, kind):
    X = rng.normal(size=(40, 3))
    scale = np.array([1e5, 1.0, 1e-4])
    y = make_problem(kind, X=X, alpha=0.0).y
    problem, scaled = (make_problem(kind, X=X, y=y, alpha=0.0, weighted=False) for _ in "ab")
    scaled = replace(scaled, X=X * scale)
    columns = Columns(target=True)
    units = np.append(scale, 1.0)
    expected, found = (
        _second_before_normalization(_state(each), each.X, each.y, columns)
        for each in (problem, scaled)
    )
    # What does not depend on the scale of the noise does not depend on units either.
    found = found * np.outer(units, units)
    sizes = np.sqrt(np.einsum("ijj->ij", expected))
    assert np.all(np.abs(found - expected) <= 1e-8 * sizes[:, :, None] * sizes[:, None, :])


@pytest.mark.parametrize("kind", KINDS)
def test_columns_far_from_zero(make_problem, rng, kind):
    X = rng.normal(size=(40, 3))
    y = make_problem(kind, X=X, alpha=1e-3).y
    problem = make_problem(kind, X=X, y=y, alpha=1e-3, weighted=False)
    moved = replace(problem, X=X + np.array([1e4, 0.0, -1e3]))
    columns = Columns(target=True)
    found, expected = (
        _second_before_normalization(_state(each), each.X, each.y, columns)
        for each in (moved, problem)
    )
    # Without the normalization an intercept takes up any shift of the columns.
    assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_and_sparse_records(make_problem, kind, monkeypatch):
    problem = make_problem(kind, n=25, d=3, X=None)
    problem = replace(problem, X=np.where(np.abs(problem.X) > 0.6, problem.X, 0.0))
    state = _state(problem)
    batch = state.batch(problem.X, problem.y)
    blocks = [Columns(target=True), Columns(np.array([0]))]
    expected = curvature_losses(state, batch, blocks).total
    for module in ("_data_shape", "_terms"):
        monkeypatch.setattr(f"skleak.influence.noise.{module}._ELEMENTS", 100)
    X = sparse.csr_array(problem.X)
    sparse_state = replace(state, objective=replace(problem.objective, X=X))
    found = curvature_losses(sparse_state, replace(batch, X=X), blocks).total
    assert_allclose(found, expected, rtol=1e-10)


def test_without_noise_and_without_weight(make_problem):
    problem = make_problem("squared")
    state = _state(problem, 0.0)
    copies = problem.s.copy()
    copies[2] = 0.0
    batch = replace(state.training, sample_weight=copies)
    losses = curvature_losses(state, batch, [Columns(), Columns(np.array([1]))])
    others = np.arange(len(copies)) != 2
    assert np.all(np.isinf(losses.total[others]))
    assert np.all(np.isinf(losses.mean[others]))
    assert np.all(np.isfinite(losses.covariance))
    assert np.all(losses.total[2] == 0.0)


def test_both_terms_of_the_information_grow_with_the_square_of_a_weight(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    model = PrivateLinearRegression(1.0, alpha=0.1, noise_covariance="curvature").fit(X, y)
    batch = model._confidential_state().training
    noise = curvature_noise(model._confidential_state())
    twice = replace(batch, sample_weight=2.0 * batch.sample_weight)
    terms = (information_terms(which, Columns(), noise=noise) for which in (batch, twice))
    for once, more in zip(*terms, strict=True):
        assert_allclose(more, 4.0 * once, rtol=1e-12)
