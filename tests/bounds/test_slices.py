import numpy as np
import pytest
from helpers import bayes_on_a_line
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from skleak.bounds import _tradeoff as _slices
from skleak.bounds import tradeoff_advantage
from skleak.bounds._tradeoff import flattened, planar_advantage, slice_advantage


def bayes_in_a_plane(positions, prior):
    """Exact in one direction, trapezoidal in the other."""
    x = np.linspace(positions[:, 0].min() - 9, positions[:, 0].max() + 9, 2001)
    weights = prior * np.exp(-0.5 * (x[:, None] - positions[:, 0]) ** 2) / np.sqrt(2 * np.pi)
    lines = np.broadcast_to(positions[:, 1], weights.shape)
    return bayes_on_a_line(lines, np.maximum(weights, 1e-280)).sum() * (x[1] - x[0])


def advantage(success, prior):
    return (success - prior.max(-1)) / (1 - prior.max(-1))


def test_two_values_are_exact(rng):
    points = rng.standard_normal((50, 2, 3)) * 10.0 ** rng.uniform(-1, 0.7, (50, 1, 1))
    prior = rng.dirichlet(2 * np.ones(2), 50)
    gap = np.linalg.norm(points[:, 0] - points[:, 1], axis=1)
    line = np.stack([np.zeros(50), gap], axis=1)
    bayes = advantage(bayes_on_a_line(line, prior), prior)
    found = slice_advantage(points, prior, points.mean(axis=1))
    assert np.all(found >= bayes)
    np.testing.assert_allclose(found, bayes, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("size", [3, 4, 8])
def test_values_on_a_line_are_nearly_exact(size, rng):
    line = rng.standard_normal((80, size)) * 10.0 ** rng.uniform(-0.5, 0.8, (80, 1))
    prior = rng.dirichlet(5 * np.ones(size), 80)
    bayes = advantage(bayes_on_a_line(line, prior), prior)
    points = line[..., None] * np.array([0.6, 0.8])
    found = slice_advantage(points, prior, np.einsum("nm,nmr->nr", prior, points))
    assert np.all(found >= bayes)
    assert np.median(found[bayes > 0.01] / bayes[bayes > 0.01]) < 1.01


def test_three_values_in_a_plane_are_nearly_exact(rng):
    for _ in range(15):
        points, prior = rng.standard_normal((3, 2)), rng.dirichlet(5 * np.ones(3))
        bayes = advantage(bayes_in_a_plane(points, prior), prior)
        found = slice_advantage(points[None], prior[None], (prior @ points)[None])[0]
        assert bayes <= found
        assert found <= 1.06 * bayes + 1e-4


def bayes_on_a_grid(points, prior, n=1201):
    """``int max_m p_m phi(y - e_m) dy`` by plain sums: corners of the integrand cost step^3."""
    reach = np.abs(points).max() + 8.0
    grid = np.linspace(-reach, reach, n)
    best = np.full((n, n), -np.inf)
    for point, log_p in zip(points, np.log(prior), strict=True):
        first, second = (-0.5 * (grid - c) ** 2 for c in point)
        np.maximum(best, first[:, None] + second + log_p, out=best)
    return np.exp(best).sum() * (grid[1] - grid[0]) ** 2 / (2 * np.pi)


def circle(size):
    angles = 0.1 + np.arange(size) * 2 * np.pi / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 10, 50])
def test_values_in_a_plane_are_exact(size, rng):
    clouds = [scale * rng.standard_normal((size, 2)) for scale in (0.3, 1.0, 3.0)]
    for points in (*clouds, 5.0 * circle(size)):
        prior = rng.dirichlet(20 * np.ones(size))
        bayes = advantage(bayes_on_a_grid(points, prior), prior)
        turned = points @ np.linalg.qr(rng.standard_normal((6, 6)))[0][:2]
        found = tradeoff_advantage(turned, 1.0, prior)
        assert found == pytest.approx(bayes, rel=1e-5, abs=1e-6)
        # Any center, as the bound does not depend on it any more.
        assert tradeoff_advantage(turned, 1.0, prior, turned[0]) == pytest.approx(found, abs=1e-8)


@pytest.mark.slow
def test_slices_of_many_values_in_a_plane_lose_what_polygons_do_not(rng):
    points, prior = rng.standard_normal((1, 50, 2)), np.full((1, 50), 0.02)
    bayes = advantage(bayes_on_a_grid(points[0], prior[0]), prior[0])
    assert slice_advantage(points, prior, points.mean(axis=1))[0] > 1.4 * bayes
    assert planar_advantage(points, prior, np.zeros(1))[0] == pytest.approx(bayes, rel=1e-5)


def test_flattening_pays_for_what_it_moves(rng):
    points = rng.standard_normal((40, 5, 4)) * np.array([1.0, 1.0, 1e-4, 1e-4])
    plane, error = flattened(points)
    moved = np.linalg.norm(points - points.mean(axis=1, keepdims=True), axis=2) ** 2
    moved = np.sqrt(np.maximum(moved - (plane**2).sum(axis=2), 0.0)).max(axis=1)
    np.testing.assert_allclose(error, 2 * ndtr(moved / 2) - 1, rtol=1e-4)
    # Three points one above the other in the third direction, seen from the side: no longer flat.
    stack = np.array([[0.0, 0, 0], [0, 0, 1e-5], [0, 1, 0], [1, 0, 0]])
    prior = np.full(4, 0.25)
    flat = tradeoff_advantage(stack * np.array([1, 1, 0]), 1.0, prior)
    assert flat < tradeoff_advantage(stack * np.array([1, 1, 1e-2]), 1.0, prior) < flat + 1e-6


@pytest.mark.slow
def test_share_bounds_the_probability_of_the_slice(rng):
    """Slepian's lemma on the thresholds themselves, against the multivariate normal law."""
    points, prior = 1.5 * rng.standard_normal((1, 5, 5)), rng.dirichlet(5 * np.ones(5), 1)
    center = points.mean(axis=1)
    log_prior = np.log(prior)
    for m in (0, 3):
        part = _slices._slices(points, log_prior, center, m)
        own = points[0, m] - center[0]
        axis = own / np.linalg.norm(own)
        others = np.delete(points[0], m, axis=0) - center[0]
        side = others - np.outer(others @ axis, axis)
        log_odds = np.delete(log_prior[0], m) - log_prior[0, m]
        for t in (0.2, 1.5):
            # m beats l if (a_m - a_l).y exceeds half the difference of squares plus the log odds.
            room = t * (own @ axis - others @ axis)
            room -= 0.5 * (own @ own - (others**2).sum(1)) + log_odds
            law = multivariate_normal(cov=side @ side.T, allow_singular=True, seed=0)
            exact = law.cdf(room)
            found = _slices._share(part, np.array([[t]]), 25)[0, 0]
            assert found >= exact - 1e-4


@pytest.mark.slow
def test_quadrature_is_finer_than_what_is_added_for_it(rng, monkeypatch):
    monkeypatch.setattr(_slices, "QUADRATURE_ERROR", 0.0)
    for size, dimension in ((3, 2), (5, 3), (6, 6), (6, 1)):
        points = rng.standard_normal((40, size, dimension))
        points *= 10.0 ** rng.uniform(-1.0, 1.0, (40, 1, 1))
        points[::4, :, 1:] *= 10.0 ** rng.uniform(-4, -0.5)
        prior = rng.dirichlet(np.ones(size), 40)
        center = np.einsum("nm,nmr->nr", prior, points)
        monkeypatch.setattr(_slices, "FINE", (80, 16))
        coarse = slice_advantage(points, prior, center)
        monkeypatch.setattr(_slices, "FINE", (256, 40))
        fine = slice_advantage(points, prior, center)
        scale = np.maximum(np.abs(fine), 1e-2)
        np.testing.assert_array_less(np.abs(coarse - fine) / scale, 1e-6)


def test_degenerate_geometry_stays_finite_and_valid():
    prior = np.array([[0.4, 0.3, 0.3]])
    twins = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])
    merged = bayes_on_a_line(np.array([[0.0, 1.0]]), np.array([[0.4, 0.3]]))[0]
    for center in ([0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.3, 2.0]):
        found = slice_advantage(twins, prior, np.array([center]))[0]
        assert np.isfinite(found)
        assert found >= (merged - 0.4) / 0.6
    assert slice_advantage(np.zeros((1, 3, 2)), prior, np.zeros((1, 2)))[0] >= 0.0


def test_no_channel_is_measured_by_the_size_of_another(rng):
    points, prior = rng.normal(size=(2, 5, 4)), rng.dirichlet(np.ones(5), 2)
    points[1, 0] *= 1e9
    together = slice_advantage(points, prior, points[:, 1])
    assert together[0] == slice_advantage(points[:1], prior[:1], points[:1, 1])[0]


def test_a_value_of_probability_zero_changes_little(rng):
    points = rng.standard_normal((1, 3, 2))
    prior = np.array([[0.6, 0.4, 0.0]])
    center = np.einsum("nm,nmr->nr", prior, points)
    gap = np.linalg.norm(points[0, 0] - points[0, 1])
    bayes = bayes_on_a_line(np.array([[0.0, gap]]), prior[:, :2])[0]
    found = slice_advantage(points, prior, center)[0]
    assert found >= (bayes - 0.6) / 0.4
    assert found == pytest.approx((bayes - 0.6) / 0.4, rel=1e-3)
