"""Bounds on extraction, against the paper's and at their limits."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from skleak.bounds import curve_advantage
from skleak.bounds.priors import advantage_to_success
from skleak.neural.canary._results import BOUNDS, divergence, success_bounds
from skleak.neural.gradients import make_clipping

HARD, SMOOTH = (make_clipping(name, 3.0) for name in ("hard", "smooth"))


def test_at_the_point_of_the_paper_the_new_bound_is_fifty_times_below():
    sigma = np.sqrt(1.0 / 3.0)
    assert divergence(HARD, 1, sigma) == pytest.approx(6.0)
    bounds = success_bounds(HARD, 1, sigma, 50257)
    assert bounds["fano_order_1"] == pytest.approx(0.616, abs=1e-3)
    assert bounds["generalized_fano"] == pytest.approx(0.482, abs=1e-3)
    assert bounds["tradeoff"] == pytest.approx(0.0087, abs=5e-5)
    assert bounds["generalized_fano"] > 50.0 * bounds["tradeoff"]


def test_smooth_clipping_counts_its_sensitivity():
    assert divergence(SMOOTH, 5, 2.0) == pytest.approx(1.11524**2 * divergence(HARD, 5, 2.0))
    smooth, hard = (success_bounds(each, 1, 1.0, 100) for each in (SMOOTH, HARD))
    assert all(smooth[name] > hard[name] for name in BOUNDS)


def test_only_steps_over_squared_noise_matter():
    one, many = success_bounds(HARD, 1, 0.7, 1000), success_bounds(HARD, 9, 2.1, 1000)
    np.testing.assert_allclose([*one.values()], [*many.values()])


def test_the_trade_off_bound_is_that_of_gaussian_curves():
    alpha = ndtr(np.linspace(-8.0, 8.0, 2001))
    for sigma, n_steps in ((1.0, 1), (3.0, 4)):
        mu = np.sqrt(n_steps) / sigma
        pairs, reference = ((alpha, ndtr(-ndtri(alpha) - m)) for m in (2.0 * mu, mu))
        curve = curve_advantage(*pairs, 50, reference=reference)
        found = success_bounds(HARD, n_steps, sigma, 50)["tradeoff"]
        assert found == pytest.approx(advantage_to_success(curve, 50), rel=1e-3)


def test_limits():
    assert set(success_bounds(HARD, 2, 0.0, 10).values()) == {1.0}
    assert divergence(HARD, 2, 0.0) == np.inf
    faint = success_bounds(HARD, 1, 1e6, 10)
    assert all(0.1 <= value < 0.1001 for value in faint.values())
