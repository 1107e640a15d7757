"""Noise whose shape depends on the data, on IWPC, at the same rise of the training objective."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import excess_loss, hessian_matrix, mostly_slow
from scipy import linalg

from skleak.influence.jacobian import Columns, record_norms
from skleak.influence.noise import noise_covariance
from skleak.influence.noise._data_shape import curvature_noise, minimax_noise
from skleak.influence.noise._minimax_shape import minimax_shape
from skleak.influence.noise._terms import covariance_losses
from skleak.influence.state._state import NoiseShape
from skleak.linear_model import PrivateLinearRegression
from skleak.solvers import minimize

pytestmark = pytest.mark.data

WHOLE = Columns(target=True)
RISE = 1e-2  # of the training objective, 0.29 and 0.27 without noise


def _fit(iwpc, alpha, public=False):
    X, y = iwpc
    order = np.random.default_rng(0).permutation(len(y))
    rows = order[3855:] if public else order[:3855]
    model = PrivateLinearRegression(1.0, alpha=alpha, fit_intercept=False)
    return model.fit(X.iloc[rows], np.asarray(y)[rows])._confidential_state()


def _shape_of(state, shape):
    noise = NoiseShape.of(shape, len(state.factor.coefficients))
    return noise_covariance(replace(state, noise=noise))


def _at_rise(state, shape):
    """The state with the noise scale at which a shape costs the rise."""
    return replace(state, noise_scale=np.sqrt(RISE / excess_loss(state, shape)))


def _losses(state, shape):
    """Through the mean alone."""
    objective = state.objective
    shaped = state.factor.under_noise(shape)
    norms = record_norms(shaped, objective.X, objective.y, WHOLE)
    return norms / _at_rise(state, shape).noise_scale


@pytest.mark.parametrize("alpha, largest, mean", [(1e-2, 5.098, 3.563), (1e-4, 9.885, 6.973)])
def test_curvature_with_both_terms(iwpc, alpha, largest, mean):
    state = _fit(iwpc, alpha)
    X, y = state.objective.X, state.objective.y
    isotropic = _losses(state, _shape_of(state, "isotropic"))
    shaped = _at_rise(state, _shape_of(state, "curvature"))
    batch, noise = shaped.batch(X, y), curvature_noise(shaped)
    losses = covariance_losses(shaped, batch, [WHOLE], noise=noise)
    assert isotropic.max() / losses.total.max() == pytest.approx(largest, rel=1e-3)
    assert isotropic.mean() / losses.total.mean() == pytest.approx(mean, rel=1e-3)
    # The covariance tells little beside the mean, here.
    assert losses.total.max() <= 1.001 * losses.mean.max()
    assert 0.0 < losses.covariance.max() < 0.2


@pytest.mark.parametrize("alpha, to_curvature", [(1e-2, 1.911), (1e-4, 2.485)])
def test_minimax_through_the_mean(iwpc, alpha, to_curvature):
    state = _fit(iwpc, alpha)
    found = minimax_shape(state, tol=1e-3)
    assert found.converged
    curvature = _losses(state, _shape_of(state, "curvature"))
    losses = _losses(state, found.shape)
    assert curvature.max() / losses.max() == pytest.approx(to_curvature, rel=2e-3)
    # It lowers the largest loss, and raises that of others.
    assert losses.mean() > 2.0 * curvature.mean()


@pytest.mark.slow
def test_a_minimax_shape_leaks_by_itself(iwpc):
    state, h, j = _fit(iwpc, 1e-2), 2e-2, 10
    objective = state.objective
    shape = minimax_shape(state, tol=1e-7).shape
    losses = _losses(state, shape)
    i = 3122  # the record that most determines it

    def moved(change):
        X = objective.X.copy()
        X[i, j] += change
        changed = replace(objective, X=X)
        fit = minimize(changed)
        factor = replace(
            state.factor, coefficients=fit.coefficients, inverse_hessian=fit.inverse_hessian
        )
        return minimax_shape(replace(state, objective=changed, factor=factor), tol=1e-7).shape

    slope = np.linalg.solve(shape, moved(h) - moved(-h)) / (2.0 * h)
    through_shape = np.sqrt(0.5 * np.trace(slope @ slope))
    assert through_shape == pytest.approx(0.30, abs=0.01)
    # One entry alone tells more through the shape than any record does through the mean.
    assert through_shape > losses.max()


def test_shapes_from_other_records(iwpc):
    state, public = _fit(iwpc, 1e-2), _fit(iwpc, 1e-2, public=True)
    isotropic = _losses(state, _shape_of(state, "isotropic")).max()
    curvature = _losses(state, _shape_of(public, "curvature")).max()
    minimax = _losses(state, minimax_shape(public, tol=1e-3).shape).max()
    assert isotropic / curvature > 5.0
    assert isotropic / minimax > 6.0


def test_refits_of_a_real_record(iwpc):
    state = _fit(iwpc, 1e-2)
    objective, h = state.objective, 1e-3
    X, y = objective.X, objective.y
    i = int(record_norms(state.factor, X, y, WHOLE).argmax())

    def fitted(j, change):
        moved, target = X.copy(), y.copy()
        if j < X.shape[1]:
            moved[i, j] += change
        else:
            target[i] += change
        fit = minimize(replace(objective, X=moved, y=target))
        return fit.coefficients, fit.inverse_hessian / np.trace(fit.inverse_hessian)

    pairs = [(fitted(j, h), fitted(j, -h)) for j in range(X.shape[1] + 1)]
    dw, dC = (np.array([(up[k] - down[k]) / (2 * h) for up, down in pairs]) for k in (0, 1))
    p = X.shape[1]
    precision = np.linalg.inv(state.factor.inverse_hessian)
    precision *= np.trace(state.factor.inverse_hessian)
    first = dw @ precision @ dw.T / p
    second = 0.5 * np.einsum("ij,ajk,kl,bli->ab", precision, dC, precision, dC)
    noise = curvature_noise(state)
    records = noise.records(X[i : i + 1], y[i : i + 1], np.ones(1))
    for found, expected in zip(
        records.information(noise.frame(WHOLE)), (first, second), strict=True
    ):
        np.testing.assert_allclose(found[0], expected, atol=1e-6 * np.abs(expected).max())


def test_equal_rise(iwpc):
    state = _fit(iwpc, 1e-2)
    for shape in ("isotropic", "curvature"):
        matrix = _shape_of(state, shape)
        sigma = _at_rise(state, matrix).noise_scale
        rise = np.trace(hessian_matrix(state) @ matrix) * sigma**2 / (2.0 * 3855)
        assert rise == pytest.approx(RISE)


def _of_refits(state, i, h=1e-3):
    """Both terms of a record under the minimax shape, by differences of everything."""
    objective = state.objective
    X, y = objective.X, objective.y

    def fitted(j, change):
        moved, target = X.copy(), y.copy()
        if j < X.shape[1]:
            moved[i, j] += change
        else:
            target[i] += change
        fit = minimize(replace(objective, X=moved, y=target))
        factor = replace(
            state.factor, coefficients=fit.coefficients, inverse_hessian=fit.inverse_hessian
        )
        J = factor.jacobian(moved, target)
        M = J.transpose(1, 0, 2).reshape(len(fit.coefficients), -1)
        half = linalg.sqrtm(fit.inverse_hessian).real
        back = np.linalg.inv(half)
        shape = half @ linalg.sqrtm(back @ M @ M.T @ back).real @ half
        return fit.coefficients, shape / np.trace(shape) * len(shape)

    pairs = [(fitted(j, h), fitted(j, -h)) for j in range(X.shape[1] + 1)]
    dw, dS = (np.array([(up[k] - down[k]) / (2 * h) for up, down in pairs]) for k in (0, 1))
    precision = np.linalg.inv(fitted(0, 0.0)[1])
    first = dw @ precision @ dw.T
    return first, 0.5 * np.einsum("ij,ajk,kl,bli->ab", precision, dS, precision, dS)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", mostly_slow([1e-2, 1e-4], 0))
def test_refits_of_the_record_that_moves_the_minimax_shape_most(iwpc, alpha):
    state = _fit(iwpc, alpha)
    X, y = state.objective.X, state.objective.y
    noise, batch = minimax_noise(state), state.batch(X, y)
    losses = covariance_losses(state, batch, [WHOLE], noise=noise)
    i = int(losses.covariance.argmax())
    records = noise.records(X[i : i + 1], y[i : i + 1], np.ones(1))
    pair = records.information(noise.frame(WHOLE))
    for found, expected in zip(pair, _of_refits(state, i), strict=True):
        np.testing.assert_allclose(found[0], expected, atol=1e-5 * np.abs(expected).max())
    # The shape of the curvature tells half as much; that of two records, ten times as much.
    assert losses.covariance.max() == pytest.approx(0.0606 if alpha == 1e-2 else 0.332, rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "alpha, first, rises, factor",
    [(1e-2, 1.3706, [1e-4, 1e-3, 1e-2, 1e-1, 3e-1], 5.5), (1e-4, 1.5762, [1e-4, 1e-2, 3e-2], 13.0)],
)
def test_minimax_with_both_terms(iwpc, alpha, first, rises, factor):
    state = _fit(iwpc, alpha)
    X, y = state.objective.X, state.objective.y
    batch = state.batch(X, y)
    noises = [minimax_noise(state), curvature_noise(state)]
    bound = minimax_shape(state, tol=1e-3).lower_bound
    p, n = len(state.factor.coefficients), len(y)
    for rise in rises:
        losses = []
        for noise in noises:
            scale = np.sqrt(rise / excess_loss(state, noise.shape))
            at = state.at_noise(scale)
            losses.append(covariance_losses(at, batch, [WHOLE], noise=noise))
        isotropic = record_norms(state.factor, X, y, WHOLE).max()
        isotropic /= np.sqrt(rise / excess_loss(state, np.eye(p)))
        assert losses[0].total.max() < losses[1].total.max()
        assert isotropic / losses[0].total.max() > factor
        # In between the curvature and the best that any shape can do.
        ratio = losses[1].mean.max() / losses[0].mean.max()
        assert ratio == pytest.approx(first, rel=1e-3)
        assert losses[0].mean.max() > 1.35 * bound * np.sqrt(p / (2.0 * n * rise))


def test_where_the_curvature_leaks_less(iwpc):
    # No noise lowers the second term: of a weak penalty and much noise nothing else is left.
    state = _fit(iwpc, 1e-4)
    X, y = state.objective.X, state.objective.y
    batch, largest = state.batch(X, y), {}
    for kind in (minimax_noise, curvature_noise):
        noise = kind(state)
        at = state.at_noise(np.sqrt(0.3 / excess_loss(state, noise.shape)))
        largest[kind] = covariance_losses(at, batch, [WHOLE], noise=noise).total.max()
    assert largest[minimax_noise] > 1.5 * largest[curvature_noise]
