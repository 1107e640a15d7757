"""Exact decision cells: against closed forms, other integrals, and in degenerate positions."""

import numpy as np
import pytest
from helpers import every
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal, norm

from skleak.channels.gaussian._cells import (
    equidistant_success,
    interval_success,
)
from skleak.utils._geometry import half_spaces, planar_success, polygon_measure


def turned(points, angle):
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return points @ rotation.T


def two_boundaries(points, prior, secret):
    """Cell of one of three secrets as a bivariate normal orthant, an independent route."""
    rest = [m for m in range(3) if m != secret]
    gaps = points[rest] - points[secret]
    lengths = np.linalg.norm(gaps, axis=1)
    limits = lengths / 2 + np.log(prior[secret] / prior[rest]) / lengths
    correlation = gaps[0] @ gaps[1] / lengths.prod()
    cov = [[1.0, correlation], [correlation, 1.0]]
    return multivariate_normal.cdf(limits, [0.0, 0.0], cov, abseps=1e-12, releps=1e-12)


@pytest.mark.parametrize("p", [0.5, 0.2, 0.999])
@pytest.mark.parametrize("distance", [1e-12, 0.01, 1.0, 5.0, 1e3])
def test_two_secrets_closed_form(p, distance):
    prior = np.array([[p, 1 - p]])
    shift = np.log(p / (1 - p)) / distance
    expected = p * ndtr(distance / 2 + shift) + (1 - p) * ndtr(distance / 2 - shift)
    positions = np.array([[0.3, 0.3 - distance]])
    np.testing.assert_allclose(interval_success(positions, prior), expected, atol=1e-12)


@every("distance", [0.0, 1e-320, 1e-9, 3.0, 1e140])
@every("prior", [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [1e-300, 1.0]])
def test_two_secrets_at_the_limits(prior, distance):
    prior = np.array([prior])
    success = interval_success(np.array([[0.0, distance]]), prior)[0]
    expected = 1.0 if distance > 1e100 else max(prior.max(), prior.max() * ndtr(distance / 2))
    if distance == 3.0 and prior.max() == 0.5:
        expected = ndtr(1.5)
    assert success == pytest.approx(expected, abs=1e-9)


def test_intervals_equal_the_integral_of_the_largest_term(rng):
    for _ in range(20):
        positions = rng.normal(size=5) * 10 ** rng.uniform(-1, 1)
        prior = rng.dirichlet(np.full(5, 0.7))
        line = np.linspace(positions.min() - 10, positions.max() + 10, 100_001)
        largest = (prior[:, None] * norm.pdf(line - positions[:, None])).max(axis=0)
        expected = np.trapezoid(largest, line)
        assert interval_success(positions[None], prior[None])[0] == pytest.approx(
            expected, abs=1e-7
        )


def test_plane_equals_bivariate_normal_orthants(rng):
    for _ in range(40):
        points = rng.normal(size=(3, 2)) * 10 ** rng.uniform(-0.5, 0.7)
        prior = rng.dirichlet(np.ones(3))
        expected = sum(prior[m] * two_boundaries(points, prior, m) for m in range(3))
        assert planar_success(points[None], prior[None])[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("step", [0.01, 1.0, 4.0, 60.0])
def test_a_grid_decides_each_coordinate_alone(step, rng):
    # Nine encodings, four cells meeting in every corner: the hardest case for clipping edges.
    line = step * np.arange(3.0)
    rows, columns = rng.dirichlet(np.ones(3)), rng.dirichlet(np.full(3, 4.0))
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(9, 2)
    expected = (
        interval_success(line[None], rows[None]) * interval_success(line[None], columns[None])
    )[0]
    for angle in rng.uniform(0, 2 * np.pi, size=10):
        value = planar_success(turned(grid, angle)[None], np.outer(rows, columns).reshape(1, 9))[0]
        assert value == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("noise", [0.0, 1e-17, 1e-16, 1e-14, 1e-12, 1e-10, 1e-8])
def test_plane_of_nearly_collinear_and_repeated_encodings(noise, rng):
    for _ in range(50):
        positions = rng.normal(size=(20, 5)) * 10 ** rng.uniform(-2, 1.3, size=(20, 1))
        positions[:, 3:] = positions[:, :1]
        prior = rng.dirichlet(np.full(5, 0.7), size=20)
        points = np.stack([positions, np.zeros_like(positions)], axis=2)
        points = turned(points + noise * rng.normal(size=points.shape), rng.uniform(0, 7))
        value = planar_success(points, prior)
        np.testing.assert_allclose(
            value, interval_success(positions, prior), atol=1e-12 + 5 * noise
        )


@pytest.mark.parametrize("noise", [0.0, 1e-16, 1e-13, 1e-10])
def test_repeated_encodings_count_as_their_likeliest(noise, rng):
    index = np.array([0, 1, 2, 0, 0, 1, 0])
    for _ in range(50):
        points = rng.normal(size=(20, 3, 2)) * 10 ** rng.uniform(-2, 1.3, size=(20, 1, 1))
        prior = rng.dirichlet(np.full(7, 0.7), size=20)
        merged = np.stack([prior[:, index == m].max(axis=1) for m in range(3)], axis=1)
        total = merged.sum(axis=1)
        expected = total * planar_success(points, merged / total[:, None])
        repeated = points[:, index] + noise * rng.normal(size=(20, 7, 2))
        np.testing.assert_allclose(
            planar_success(repeated, prior), expected, atol=1e-12 + 5 * noise
        )


def test_boundaries_that_coincide(rng):
    # On a line with p_k = exp(k^2 s^2 / 2 - c k s) all boundaries of a secret are one line.
    for _ in range(200):
        step, slope, count = rng.uniform(0.2, 2), rng.uniform(-1, 1), rng.integers(3, 7)
        k = step * np.arange(count)
        points = np.concatenate([np.stack([k, 0 * k], axis=1), rng.normal(size=(2, 2))])
        logs = np.concatenate([k**2 / 2 - slope * k, rng.uniform(-2, 0, size=2)])
        prior = np.exp(logs - logs.max())
        prior /= prior.sum()
        near = prior * np.exp(1e-7 * rng.normal(size=len(prior)))
        both = np.stack([prior, near / near.sum()])
        exact, generic = planar_success(np.stack([turned(points, rng.uniform(0, 7))] * 2), both)
        assert exact == pytest.approx(generic, abs=5e-7)


def test_a_boundary_through_the_encoding_itself():
    # log(p_2 / p_1) = D^2 / 2 puts both boundaries of the first secret, and their corner, on it.
    for distance in (0.5, 1.0, 2.0):
        weight = np.exp(distance**2 / 2)
        prior = np.array([[1.0, weight, weight]]) / (1 + 2 * weight)
        triangle = distance * np.array([[[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]]])
        assert planar_success(triangle, prior) == pytest.approx(
            equidistant_success(np.array([distance]), prior), abs=1e-12
        )


@pytest.mark.slow
def test_polygon_measures_of_simple_shapes():
    strip = polygon_measure(np.array([[[1.0, 0.0], [-1.0, 0.0]]]), np.array([[1.0, 2.0]]))
    assert strip[0] == pytest.approx(ndtr(1.0) - ndtr(-2.0), abs=1e-14)
    empty = polygon_measure(np.array([[[1.0, 0.0], [-1.0, 0.0]]]), np.array([[1.0, -2.0]]))
    assert empty[0] == 0.0
    angles = 2 * np.pi * np.arange(2000) / 2000
    circle = polygon_measure(
        np.stack([np.cos(angles), np.sin(angles)], axis=1)[None], np.full((1, 2000), 1.3)
    )
    assert circle[0] == pytest.approx(-np.expm1(-(1.3**2) / 2), abs=1e-5)


@every("distance", [1e-3, 0.5, np.sqrt(2), 6.0, 50.0])
@every("n_values", [2, 3, 10, 200])
def test_equidistant_uniform_integral(n_values, distance):
    corner = distance / np.sqrt(2)

    def integrand(t):
        return norm.pdf(t - corner) * np.exp((n_values - 1) * log_ndtr(t))

    expected = quad(integrand, corner - 10, corner + 10, epsabs=1e-13, limit=400)[0]
    prior = np.full((1, n_values), 1 / n_values)
    value = equidistant_success(np.array([distance]), prior)[0]
    assert value == pytest.approx(expected, abs=1e-10)


def test_equidistant_equals_plane_for_any_prior(rng):
    triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    distance = 10 ** rng.uniform(-2, 1, size=200)
    prior = rng.dirichlet(np.full(3, 0.5), size=200)
    prior[:20, 0] = 0.0
    prior /= prior.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        equidistant_success(distance, prior),
        planar_success(distance[:, None, None] * triangle, prior),
        atol=1e-12,
    )


def test_half_spaces_hold_where_the_posterior_says_so(rng):
    points, prior = rng.normal(size=(1, 4, 3)), rng.dirichlet(np.ones(4))
    normals, distances = half_spaces(points, np.log(prior)[None], 2)
    z = rng.normal(size=(2000, 3))
    score = np.log(prior) - 0.5 * ((points[0, 2] + z)[:, None] - points[0]) ** 2 @ np.ones(3)
    inside = (z @ normals[0].T <= distances[0]).all(axis=1)
    np.testing.assert_array_equal(inside, score.argmax(axis=1) == 2)
