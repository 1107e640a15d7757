"""Advantages over priors that are nearly certain, which are no difference of successes."""

import numpy as np
import pytest
from helpers import mostly_slow
from mpmath import mp, mpf, ncdf

from skleak.bounds import tradeoff_advantage
from skleak.channels import GaussianChannel, UnequalGaussianChannel

RESTS = [1e-4, 1e-8, 1e-9, 1e-11, 1e-14, 1e-16, 1e-30]


def two(distance, rest):
    """Of two values, in high precision."""
    with mp.workdps(80):
        d, q = mpf(distance), mpf(rest)
        odds = mp.log((1 - q) / q)
        return float(ncdf(d / 2 - odds / d) - (1 - q) / q * ncdf(-d / 2 - odds / d))


@pytest.mark.parametrize("rest", RESTS)
@pytest.mark.parametrize("distance", [3.0, 6.0, 9.0, 14.0])
def test_two_values(distance, rest):
    expected = two(distance, rest)
    prior = np.array([1.0 - rest, rest])
    for points in ([[0.0], [distance]], [[0.0, 0.0], [0.6 * distance, 0.8 * distance]]):
        for order in (slice(None), slice(None, None, -1)):
            found = GaussianChannel(points[order], 1.0).bayes_advantage(prior[order])
            # The sum of the prior rounds.
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-300)


@pytest.mark.parametrize("rest", mostly_slow(RESTS))
@pytest.mark.parametrize("dimension", mostly_slow([2, 3, 5]))
def test_more_values_by_the_largest_of_them(dimension, rest, rng):
    """Far apart from each other, the others are found each as if it were the only one."""
    signs = np.eye(dimension + 1)[:, :dimension] * 40.0
    signs[-1] = -40.0 / np.sqrt(dimension)
    near = np.zeros((1, dimension))
    for size in (8.0, 11.0):
        points = np.concatenate([near, size * signs / np.linalg.norm(signs, axis=1)[:, None]])
        m = len(points) - 1
        prior = np.r_[1.0 - rest, np.full(m, rest / m)]
        value, error = GaussianChannel(points, 1.0).bayes_advantage(
            prior, return_standard_error=True
        )
        # Draws from the others: the gain of a guess by the exact posterior.
        draws = points[rng.integers(1, m + 1, 200_000)] + rng.normal(size=(200_000, dimension))
        logs = np.log(prior) - 0.5 * ((draws[:, None] - points) ** 2).sum(axis=2)
        best = logs[:, 1:].max(axis=1)
        total = np.exp(logs[:, 1:] - best[:, None]).sum(axis=1)
        gain = np.maximum(-np.expm1(np.minimum(logs[:, 0] - best, 0.0)), 0.0) / total
        off = 5.0 * (np.std(gain) / np.sqrt(len(gain)) + error) + 1e-4
        assert value == pytest.approx(gain.mean(), abs=off)
        bound = tradeoff_advantage(points, 1.0, prior, refine=False)
        assert value <= bound + 5.0 * error + 1e-6


def test_the_two_ways_agree_where_they_meet():
    points = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.0], [-4.0, 5.0]])
    found = [
        GaussianChannel(points, 1.0).bayes_advantage([1.0 - q, q / 2, q / 4, q / 4])
        for q in (1.01e-8, 0.99e-8)
    ]
    assert found[0] == pytest.approx(found[1], rel=5e-3)


@pytest.mark.parametrize("top", [0.5, 0.99, 0.9999])
def test_unequal_covariances_aim_at_the_advantage(top):
    means = np.array([[0.0, 0.0, 0.0], [4.0, 1.0, 0.0], [1.0, 4.0, 2.0]])
    shapes = [np.eye(3), np.diag([2.0, 1.0, 0.5]), np.diag([0.5, 3.0, 1.0])]
    prior = [top, 0.5 * (1.0 - top), 0.5 * (1.0 - top)]
    channel = UnequalGaussianChannel(means, shapes, tolerance=1e-3)
    value, error = channel.bayes_advantage(prior, return_standard_error=True)
    assert error <= 4e-3
    fine = UnequalGaussianChannel(means, shapes, tolerance=1e-5).bayes_advantage(prior)
    assert value == pytest.approx(fine, abs=6.0 * error + 1e-4)
    assert 0.0 < value < 1.0
