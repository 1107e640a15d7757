import numpy as np
import pytest
from scipy.optimize import minimize

from skleak.bounds import gaussian_tradeoff_advantage
from skleak.bounds._tradeoff import (
    _best_center,
    affine_coordinates,
    ball_weights,
    descend,
    distances_to,
    water_filling,
)


def pairwise(points):
    return np.linalg.norm(points[..., :, None, :] - points[..., None, :, :], axis=-1)


@pytest.mark.parametrize("dimension", [1, 3, 4, 5, 300])
def test_rotation_keeps_distances(dimension, rng):
    encodings = rng.standard_normal((6, 4, dimension)) + 100.0
    points = affine_coordinates(encodings)
    assert points.shape == (6, 4, min(dimension, 4))
    np.testing.assert_allclose(pairwise(points), pairwise(encodings), atol=1e-11)
    np.testing.assert_allclose(points.mean(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("size, dimension", [(2, 1), (3, 2), (5, 2), (8, 5), (20, 3)])
def test_smallest_ball_agrees_with_a_quadratic_programme(size, dimension, rng):
    points = rng.standard_normal((5, size, dimension))
    points -= points.mean(axis=1, keepdims=True)
    weights = ball_weights(points)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert np.all(weights >= 0.0)
    centers = np.einsum("nm,nmr->nr", weights, points)
    radius = distances_to(points, centers).max(axis=1)
    for i in range(5):
        exact = minimize(
            lambda z: z[-1],
            np.append(np.zeros(dimension), 10.0),
            constraints={
                "type": "ineq",
                "fun": lambda z, p=points[i]: z[-1] - ((p - z[:-1]) ** 2).sum(1),
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert radius[i] == pytest.approx(np.sqrt(exact.fun), rel=1e-5)


def test_smallest_ball_of_equal_points():
    assert np.all(np.isfinite(ball_weights(np.zeros((2, 3, 2)))))


@pytest.mark.parametrize("size, scale", [(3, 0.6), (4, 0.2), (6, 1.0)])
def test_centre_is_close_to_the_best_of_a_grid(size, scale, rng):
    encodings, prior = rng.standard_normal((size, 2)), rng.dirichlet(3 * np.ones(size))
    axes = [np.linspace(x.min(), x.max(), 80) for x in encodings.T]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 1, 2)

    def bounds(centers):
        return gaussian_tradeoff_advantage(
            np.linalg.norm(encodings - centers, axis=-1) / scale, prior
        )

    found = bounds(scale * _best_center(encodings[None] / scale, prior[None])[0])
    assert found <= bounds(grid).min() * (1 + 1e-5)
    assert found <= bounds(encodings[:, None]).min() + 1e-12
    assert found <= bounds((prior @ encodings)[None, None]).min() + 1e-12


def test_a_descent_ends_where_no_move_lowers_the_bound(rng):
    points = 1.5 * rng.standard_normal((3, 4, 2))
    prior = rng.dirichlet(2.0 * np.ones(4), 3)
    centers = descend(points, prior, np.einsum("nm,nmr->nr", prior, points))
    for own, p, center in zip(points, prior, centers, strict=True):

        def bound(x, own=own[None], p=p[None]):
            return water_filling(distances_to(own, x[None]), p)[0][0]

        assert bound(center) <= minimize(bound, center, method="Nelder-Mead").fun * (1.0 + 1e-4)


def test_centre_moves_with_the_encodings(rng):
    encodings = rng.standard_normal((5, 4, 30))
    prior = rng.dirichlet(np.ones(4), 5)
    center = _best_center(encodings, prior)
    assert center.shape == (5, 30)
    shifted = _best_center(encodings + 7.0, prior)
    np.testing.assert_allclose(shifted, center + 7.0, atol=1e-4)


def test_identical_encodings_are_their_own_centre():
    uniform = np.full((1, 3), 1 / 3)
    np.testing.assert_allclose(_best_center(np.ones((1, 3, 5)), uniform), np.ones((1, 5)))
