"""What records leak through noisy moments: against differences, dense matrices and the kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.leakage import leakage_model
from skleak.influence.removal import removal_distances, secret_distances
from skleak.influence.state import FitState
from skleak.losses import SquaredLoss
from skleak.mechanisms import GaussianDP, SufficientStatistics
from skleak.mechanisms.protocol import PublicTable
from skleak.solvers import Objective

N, D = 7, 3


def _features(noise, x, y):
    """Return what a record adds, whose inner products are the kernel."""
    x, y = x / noise.unit, y / noise.target_bound
    parts = [np.outer(x, x).ravel() * noise.a**0.5, x * y * noise.b**0.5, [y**2 * noise.c**0.5]]
    return np.concatenate([*parts, x * noise.e**0.5, [y * noise.f**0.5]])


def _state(intercept):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D))
    X *= 1.9 / np.maximum(np.linalg.norm(X, axis=1), 1.9)[:, None]
    y = rng.uniform(-4.0, 4.0, N)
    public = PublicTable(N, D, 2.0, target_bound=5.0, fit_intercept=intercept)
    noise = SufficientStatistics().calibrate(GaussianDP(1.0), public)
    objective = Objective(X, y, SquaredLoss(), 1.0, intercept, np.ones(N), np.ones(N))
    factor = FitFactor(np.full(D + intercept, np.nan), np.empty((0, 0)), SquaredLoss(), intercept)
    return FitState(objective, factor, 1.0, True, noise_elsewhere=noise)


def _jacobian(noise, x, y, h=1e-5):
    ends = [
        [_features(noise, x + k * v[:-1], y + k * v[-1]) for k in (h, -h)] for v in np.eye(D + 1)
    ]
    return np.stack([(up - down) / (2.0 * h) for up, down in ends], axis=1)


@pytest.mark.parametrize("intercept", [False, True])
def test_losses_are_those_of_the_features_by_differences(intercept):
    state = _state(intercept)
    noise, batch, model = state.noise_elsewhere, state.training, leakage_model(state)
    moves = [_jacobian(noise, *pair) for pair in zip(batch.X, batch.y, strict=True)]
    blocks = [
        (Columns(target=True), np.eye(D + 1)),
        (Columns(), np.eye(D + 1)[:, :D]),
        (Columns(np.array([0, 2]), target=True), np.eye(D + 1)[:, [0, 2, 3]]),
        (Columns(np.zeros(0, dtype=int), target=True), np.eye(D + 1)[:, [3]]),
        (Columns(np.array([0, 1]), constrained=True), np.array([[1.0, -1.0, 0.0, 0.0]]).T / 2**0.5),
    ]
    for block, basis in blocks:
        values = [np.linalg.svd(move @ basis, compute_uv=False) for move in moves]
        assert_allclose(model.record_loss(batch, block), [v[0] for v in values], rtol=1e-6)
        roots = [np.sqrt(np.sum(v**2) / basis.shape[1]) for v in values]
        assert_allclose(model.record_loss(batch, block, "trace"), roots, rtol=1e-6)
        together = np.linalg.norm(np.hstack([move @ basis for move in moves]), 2)
        assert model.joint_loss(batch, block) == pytest.approx(together, rel=1e-6)
    assert_allclose(model.record_loss(batch), noise.losses(*noise.scaled(batch.X, batch.y)))
    assert model.record_loss(batch).max() <= noise.largest_loss


@pytest.mark.parametrize("intercept", [False, True])
def test_distances_are_those_of_the_kernel(intercept):
    state = _state(intercept)
    noise, batch, model = state.noise_elsewhere, state.training, leakage_model(state)
    values = np.array([[-0.1], [0.05], [0.1]])
    pairs, own = model.apart(batch, np.array([1]), values)
    left = removal_distances(state)
    secret = secret_distances(state, np.array([1]), values)
    for i, (x, y) in enumerate(zip(batch.X, batch.y, strict=True)):
        others = np.stack([x] * 3)
        others[:, 1] = values[:, 0]
        found = [[noise.distance((p, y), (q, y)) for p in others] for q in others]
        assert pairs[i] == pytest.approx(np.max(found), rel=1e-6)
        assert own[i] == pytest.approx(
            max(noise.distance((x, y), (p, y)) for p in others), rel=1e-6
        )
        sizes = [np.linalg.norm(_features(noise, p, y)) for p in [x, *others]]
        assert left[i] == pytest.approx(sizes[0], rel=1e-6)
        assert secret[i] == pytest.approx(max(sizes), rel=1e-6)
    targets = model.apart(batch, None, np.array([[-5.0], [5.0]]))[0]
    assert_allclose(targets[0], noise.distance((batch.X[0], -5.0), (batch.X[0], 5.0)), rtol=1e-6)
    assert targets.max() <= noise.mu
