"""Bounds from a trade-off curve, against closed forms, other programs, and simulated attacks."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from skleak.accounting.subsampled import SubsampledGaussian
from skleak.bounds import curve_advantage, dp_advantage, gdp_advantage
from skleak.bounds.priors import advantage_to_success

PRIORS = (2, 10, [0.7, 0.2, 0.1], [0.4, 0.3, 0.3], [0.5, 0.5, 0.0])


def gaussian_curve(mu, n_points=1001):
    alpha = np.linspace(0.0, 1.0, n_points)
    return alpha, ndtr(ndtri(1.0 - alpha) - mu)


def corners(epsilon, delta):
    """The curve of (epsilon, delta)-differential privacy, a polygon."""
    rate = (1.0 - delta) / (1.0 + np.exp(epsilon))
    return [0.0, rate, 1.0 - delta], [1.0 - delta, rate, 0.0]


def test_the_polygon_of_differential_privacy_gives_its_closed_form(rng):
    for _ in range(40):
        prior = rng.dirichlet(np.ones(rng.integers(2, 7)))
        epsilon, delta = rng.uniform(0.0, 4.0), rng.choice([0.0, 1e-3, 0.2])
        for p in (prior, len(prior)):
            found = curve_advantage(*corners(epsilon, delta), p, between="linear")
            assert found == pytest.approx(dp_advantage(epsilon, delta, p), abs=1e-12)


@pytest.mark.slow
def test_points_of_a_gaussian_curve_close_in_on_its_bound_from_above():
    for mu in (0.1, 1.0, 3.0):
        for prior in PRIORS:
            exact = gdp_advantage(mu, prior)
            coarse, fine = (curve_advantage(*gaussian_curve(mu, n), prior) for n in (21, 2001))
            assert exact - 1e-12 <= fine <= coarse
            assert fine == pytest.approx(exact, abs=1e-4)
            both = {"reference": gaussian_curve(mu / 2, 2001)}
            exact = gdp_advantage(mu, prior, reference_mu=mu / 2)
            found = curve_advantage(*gaussian_curve(mu, 2001), prior, **both)
            assert exact - 1e-12 <= found <= exact + 1e-4


def test_straight_lines_between_points_of_a_smooth_curve_are_too_optimistic():
    """What the default is for."""
    line = curve_advantage(*gaussian_curve(1.0, 11), 10, between="linear")
    assert line < gdp_advantage(1.0, 10) < curve_advantage(*gaussian_curve(1.0, 11), 10)


def test_limits():
    nothing, all_of_it = ([0.0, 0.5, 1.0], [1.0, 0.5, 0.0]), ([0.0, 0.5, 1.0], [0.0, 0.0, 0.0])
    for prior in PRIORS:
        assert curve_advantage(*nothing, prior, between="linear") == pytest.approx(0.0, abs=1e-12)
        assert curve_advantage(*all_of_it, prior) == pytest.approx(1.0, abs=1e-12)
        # Two points say nothing of what a convex curve does between them.
        found = curve_advantage([0.0, 1.0], [1.0, 0.0], prior)
        assert found == pytest.approx(1.0, abs=1e-12)
    # As many values as a vocabulary has.
    exact, z = gdp_advantage(2.0, 50_257), np.linspace(-8.0, 8.0, 2001)
    assert exact <= curve_advantage(ndtr(z), ndtr(-z - 2.0), 50_257) < 1.01 * exact


def test_two_values_need_no_program(rng, monkeypatch):
    """Of a curve that is its own inverse the best corner decides."""
    from skleak.bounds import _neighbors as _curve

    for mu in (0.2, 1.0, 3.0):
        curve = gaussian_curve(mu, 301)
        both = np.r_[curve[0], curve[1]], np.r_[curve[1], curve[0]]
        priors = rng.dirichlet(np.ones(2), size=5)
        found = curve_advantage(*both, priors, between="linear")
        with monkeypatch.context() as patch:
            patch.setattr(_curve._Curve, "_symmetric", False)
            slow = curve_advantage(*both, priors, between="linear")
        np.testing.assert_allclose(found, slow, atol=1e-8)
        np.testing.assert_allclose(found, gdp_advantage(mu, priors), atol=1e-3)


def test_two_values_of_a_curve_that_is_not_its_own_inverse(rng):
    """By enumeration: of a false-negative rate, the least other one on both sides of the curve."""
    alpha, beta = [0.0, 0.7 / 3.7, 1.0], [1.0, 0.9 / 3.7, 0.0]  # max(1 - 4 a, 0.3 (1 - a))
    one = np.append(np.linspace(0.0, 1.0, 20_001), [alpha, beta])
    other = np.maximum(np.interp(one, alpha, beta), np.interp(one, beta[::-1], alpha[::-1]))
    for p in rng.dirichlet(np.ones(2), size=5):
        found = advantage_to_success(curve_advantage(alpha, beta, p, between="linear"), p)
        expected = 1.0 - (p[0] * one + p[1] * other).min()
        assert expected - 1e-9 <= found <= expected + 1e-4


def test_it_is_the_primal_program(rng):
    """The same maximum over s, by a program written from the definition."""
    for _ in range(10):
        m = int(rng.integers(2, 5))
        prior, epsilon = rng.dirichlet(np.ones(m)), rng.uniform(0.1, 3.0, size=3)
        # The highest of three lines and their mirror images, as h(s).
        h = [(np.exp(-e), -np.exp(-e) * 1e-2) for e in epsilon]
        h += [(np.exp(e), 1.0 - 1e-2 - np.exp(e)) for e in epsilon]
        rows, limits = [], []
        for k in range(m):
            fill = np.zeros(2 * m)
            fill[m:], fill[k], fill[m + k] = 1.0, 1.0, 0.0
            rows.append(fill)
            limits.append(1.0)
            for slope, offset in h:
                line = np.zeros(2 * m)
                line[k], line[m + k] = slope, -1.0
                rows.append(line)
                limits.append(-offset)
        primal = linprog(np.r_[-prior, np.zeros(m)], rows, limits, bounds=(0.0, 1.0))
        alpha = np.linspace(0.0, 1.0, 4001)
        lines = np.array([(1.0 - 1e-2) - np.exp(e) * alpha for e in epsilon])
        mirrors = np.array([np.exp(-e) * (1.0 - 1e-2 - alpha) for e in epsilon])
        beta = np.maximum(np.r_[lines, mirrors].max(axis=0), 0.0)
        found = advantage_to_success(curve_advantage(alpha, beta, prior), prior)
        assert -primal.fun - 1e-9 <= found <= -primal.fun + 2e-3


@pytest.mark.slow
def test_no_attack_on_a_subsampled_run_exceeds_the_curve_of_its_accountant(rng):
    """One step on one of three gradients, guessed by its exact posterior."""
    pytest.importorskip("dp_accounting.pld")
    sigma, rate, prior = 0.7, 0.3, np.array([0.5, 0.3, 0.2])
    means = np.array([[1.0, 0.0], [-0.5, np.sqrt(0.75)], [-0.5, -np.sqrt(0.75)]])
    secrets = rng.choice(3, size=40_000, p=prior)
    taken = rng.random(len(secrets)) < rate
    seen = taken[:, None] * means[secrets] + sigma * rng.normal(size=(len(secrets), 2))

    def density(center):
        return np.exp(-0.5 * ((seen - center) ** 2).sum(axis=1) / sigma**2)

    scores = [
        p * (rate * density(m) + (1 - rate) * density(0.0))
        for p, m in zip(prior, means, strict=True)
    ]
    success = np.mean(np.argmax(scores, axis=0) == secrets)
    curve = SubsampledGaussian(sigma, rate, 1, relation="replace").curve()
    reference = SubsampledGaussian(sigma, rate, 1).curve()
    bound = curve_advantage(*curve, prior, reference=reference, between="linear")
    assert success <= advantage_to_success(bound, prior) + 4.0 * np.sqrt(0.25 / len(secrets))
    assert bound < 0.25


def test_points_that_are_no_curve():
    for alpha, beta in (([0.5], [0.5]), ([0.1, 0.5], [0.95, 0.2]), ([0.1, 0.5], [0.2, 0.4])):
        with pytest.raises(ValueError, match="points of a"):
            curve_advantage(alpha, beta, 2)
    with pytest.raises(ValueError, match="`alpha` must"):
        curve_advantage([0.0, 1.5], [1.0, 0.0], 2)
    with pytest.raises(ValueError, match="beta of `reference`"):
        curve_advantage([0.0, 1.0], [1.0, 0.0], 2, reference=([0.0, 1.0], [2.0, 0.0]))
    with pytest.raises(ValueError, match="between"):
        curve_advantage([0.0, 1.0], [1.0, 0.0], 2, between="spline")


def test_the_smallest_of_several_curves_is_no_convex_one(rng):
    """Points of one curve are never below the truth; of a minimum of curves they are refused."""
    grid = np.unique(np.r_[0.0, np.logspace(-6, 0, 150), 1.0 - np.logspace(-6, 0, 150)])
    kept = 0
    for _ in range(30):
        shifts = rng.uniform(0.2, 3.0, size=rng.integers(1, 3))
        slopes, deltas = rng.uniform(0.1, 3.0, size=2), rng.uniform(0.0, 0.1, size=2)

        def curve(alpha, shifts=shifts, slopes=slopes, deltas=deltas):
            values = [ndtr(ndtri(1.0 - alpha) - shift) for shift in shifts]
            if len(shifts) > 1:
                for e, d in zip(slopes, deltas, strict=True):
                    values.append(
                        np.maximum(1.0 - d - np.exp(e) * alpha, np.exp(-e) * (1 - d - alpha))
                    )
            return np.maximum(np.min(values, axis=0), 0.0)

        alpha, prior = np.linspace(0.0, 1.0, rng.integers(5, 60)), rng.dirichlet(np.ones(3))
        beta = curve(alpha)
        chords = np.diff(beta) / np.diff(alpha)
        if np.any(np.diff(chords) < -1e-6):
            with pytest.raises(ValueError, match="one convex curve"):
                curve_advantage(alpha, beta, prior)
            continue
        kept += len(shifts) == 1
        if len(shifts) == 1:
            truth = curve_advantage(grid, curve(grid), prior, between="linear")
            assert curve_advantage(alpha, beta, prior) >= truth - 1e-7
    assert kept > 5
