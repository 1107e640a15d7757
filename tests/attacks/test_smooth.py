"""Maxima between Chebyshev nodes."""

import numpy as np
from scipy.optimize import minimize_scalar

from skleak.adversary.numbers import N_NODES, chebyshev_nodes, interpolation_matrix, maximize


def test_interpolation_is_spectrally_accurate(rng):
    nodes = chebyshev_nodes(np.array([-1.0]), np.array([1.0]))[:, 0]
    points = rng.uniform(-1, 1, 50)
    matrix = interpolation_matrix(points)
    assert matrix.shape == (50, N_NODES)
    np.testing.assert_allclose(matrix @ np.exp(nodes), np.exp(points), atol=1e-12)
    far_pole = 1.0 / (9.0 + nodes**2)
    np.testing.assert_allclose(matrix @ far_pole, 1.0 / (9.0 + points**2), atol=1e-9)


def test_maxima_agree_with_a_scalar_minimizer(rng):
    nodes = chebyshev_nodes(np.array([-1.0]), np.array([1.0]))[:, 0]
    bend, where = rng.uniform(0.5, 3.0, 20), rng.uniform(-0.8, 0.8, 20)

    def function(t, k):
        return -bend[k] * (t - where[k]) ** 2 + 0.2 * np.sin(2 * t)

    values = np.stack([1e-7 * function(nodes, k) + 3.0 for k in range(20)])
    best = maximize(values)
    for k in range(20):
        at = minimize_scalar(
            lambda t, k=k: -function(t, k),
            bounds=(-1, 1),
            method="bounded",
            options={"xatol": 1e-9},
        ).x
        assert abs(best[k] - at) < 1e-6


def test_ends_are_reached():
    nodes = chebyshev_nodes(np.array([-1.0]), np.array([1.0]))[:, 0]
    np.testing.assert_allclose(maximize(np.stack([nodes, -nodes, nodes**2 - nodes])), [1, -1, -1])
