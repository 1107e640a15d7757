"""Checks of noise: sound noise is not accused, planted faults are, and by their name."""

import itertools

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import integrate, stats
from scipy.special import erfcx

from skleak.audit.noise._checks import (
    _FAR,
    _TOWARDS_LAPLACE,
    LEVEL,
    SHARES,
    _log_ratio,
    _shape,
    _with_drawn_moments,
    check_draws,
)

SHAPES = [(100, 5), (100, 2), (100, 1), (10, 60), (10, 785), (3, 4)]


def standard(rng, n, p):
    return rng.normal(size=(n, p))


def shared(rng, n, p):
    return np.repeat(rng.normal(size=(n, 1)), p, axis=1)


def laplace(rng, n, p):
    return rng.laplace(size=(n, p)) / np.sqrt(2.0)


def uniform(rng, n, p):
    return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size=(n, p))


def forgotten(rng, n, p):
    draws = rng.normal(size=(n, p))
    draws[:, -1] = 0.0
    return draws


def stale(rng, n, p):
    return np.repeat(rng.normal(size=(1, p)), n, axis=0)


def half(rng, n, p):
    return 0.5 * rng.normal(size=(n, p))


def twice(rng, n, p):
    return 2.0 * rng.normal(size=(n, p))


def shifted(rng, n, p):
    """As around the minimizer of other data."""
    return rng.normal(size=(n, p)) + np.linspace(-1.5, 1.5, p)


def replayed(rng, n, p):
    """Every other seed is used twice."""
    return np.repeat(rng.normal(size=(n // 2, p)), 2, axis=0)


def a_pair(rng, n, p):
    """One parameter gets the noise of another."""
    draws = rng.normal(size=(n, p))
    draws[:, -1] = -draws[:, 0]
    return draws


def a_subspace(rng, n, p):
    """Noise of the trace that is stated, in fewer dimensions."""
    k = (p + 1) // 2
    axes = np.linalg.qr(rng.normal(size=(p, p)))[0][:k]
    return np.sqrt(p / k) * rng.normal(size=(n, k)) @ axes


def failed(rng, draws, directions=None, level=LEVEL):
    checks = check_draws(draws, rng, directions, level)
    return {check["check"] for check in checks if not check["passed"]}


@pytest.mark.parametrize("shape", mostly_slow(map(list, SHAPES)))
def test_sound_noise_passes(shape, rng):
    for _ in range(20):
        assert not failed(rng, standard(rng, *shape), level=1e-8)


def test_noise_on_a_grid_passes(rng):
    for _ in range(20):
        draws = standard(rng, 100, 5)
        assert not failed(rng, np.rint(draws * 2.0**30) / 2.0**30, level=1e-8)


@pytest.mark.slow
def test_few_of_many_sound_mechanisms_are_accused(rng):
    """No more than the level explains, along directions too, at any size."""
    for n, p in SHAPES:
        directions = np.linalg.qr(rng.normal(size=(p, p)))[0]
        accused = sum(bool(failed(rng, standard(rng, n, p), directions)) for _ in range(1000))
        assert accused <= stats.binom.isf(1e-6, 1000, LEVEL)


@pytest.mark.parametrize(
    "fault, name",
    mostly_slow(
        [
            (shared, "covariance"),
            (laplace, "shape"),
            (forgotten, "missing"),
            (stale, "replayed"),
            (half, "spread"),
            (twice, "spread"),
            (shifted, "mean"),
            (replayed, "replayed"),
            (a_pair, "covariance"),
        ]
    ),
)
@pytest.mark.parametrize("shape", mostly_slow([[100, 5], [100, 12], [10, 60], [10, 785]], 0, 3))
def test_faults_are_found_by_name(fault, name, shape, rng):
    for _ in range(5):
        assert name in failed(rng, fault(rng, *shape))


def test_noise_in_a_subspace_is_found_where_releases_span_more(rng):
    for shape in ((100, 5), (100, 12)):
        assert "covariance" in failed(rng, a_subspace(rng, *shape))


@pytest.mark.parametrize(
    "fault, names",
    [
        (laplace, {"shape", "shape_by_parameter"}),
        (uniform, {"shape"}),
        (forgotten, {"missing", "spread"}),
        (half, {"spread"}),
        (shifted, {"mean"}),
        (a_pair, {"covariance"}),
    ],
)
def test_a_fault_is_not_taken_for_another(fault, names, rng):
    for _ in range(5):
        found = failed(rng, fault(rng, 100, 6))
        # Of one parameter alone another shape shows in some of the times.
        assert names - {"shape_by_parameter"} <= found <= names


@pytest.mark.slow
def test_p_values_are_no_smaller_than_uniform_ones(rng):
    """Where a p-value is a bound, small ones are rarer than their size says."""
    found = [
        [check["p_value"] for check in check_draws(standard(rng, 12, 3), rng)] for _ in range(2000)
    ]
    for level in (0.5, 0.1, 0.02):
        share = np.mean(np.array(found) <= level, axis=0)
        assert (share <= level + 4.0 * np.sqrt(level / 2000)).all()


@pytest.mark.slow
def test_other_means_and_lengths_leave_normal_draws_normal(rng):
    for axis in (0, None):
        draws = [_with_drawn_moments(standard(rng, 4, 2), axis, rng) for _ in range(5000)]
        values = np.reshape(draws, (-1, 8))
        assert stats.kstest(values.ravel(), "norm").pvalue > 1e-4
        np.testing.assert_allclose(np.cov(values.T), np.eye(8), atol=0.1)
        # What they were scaled and moved by is forgotten, what they were is not.
        one = standard(rng, 6, 3)
        first, second = (
            _with_drawn_moments(draws, axis, np.random.default_rng(0))
            for draws in (one, 5.0 + 0.1 * one)
        )
        np.testing.assert_allclose(first, second)


def test_the_odds_of_all_draws_are_likelihood_ratios():
    """Their mean under normal draws is one, by quadrature instead of the closed form."""
    ends = [-60.0, 0.0, 60.0]

    def mean(log_ratio):
        parts = [
            integrate.quad(lambda x: np.exp(log_ratio(x) + stats.norm.logpdf(x)), low, high)[0]
            for low, high in itertools.pairwise(ends)
        ]
        return sum(parts)

    for s in _TOWARDS_LAPLACE:
        tilted = mean(lambda x, s=s: s * (0.5 * x**2 - np.sqrt(2.0) * abs(x)))
        root = np.sqrt(1.0 - s)
        assert erfcx(s / root) / root == pytest.approx(tilted, rel=1e-9)
    for n in (4, 500):
        far = mean(lambda x, n=n: float(_log_ratio(np.array(x), 1.0 - 1.0 / n, 1.0, _FAR)))
        assert far == pytest.approx(1.0, abs=1e-6)


@pytest.mark.slow
def test_all_draws_are_accused_as_rarely_as_stated(rng):
    """A p-value of at most a has probability a at most: Markov's inequality is far above it."""
    found = np.array([_shape(standard(rng, 4, 2))[1] for _ in range(20_000)])
    for level in (0.5, 0.1, 0.02, 0.002):
        assert np.mean(found <= level) <= level + 5.0 * np.sqrt(level / len(found))


def test_a_single_draw_far_off_is_found(rng):
    """Eight standard deviations: one in five hundred has it with probability 1e-12."""
    for n, p in ((100, 5), (10, 785)):
        draws = standard(rng, n, p)
        draws[3, 1] = 8.0
        assert "shape" in failed(rng, draws)


@pytest.mark.slow
def test_laplace_noise_is_found_as_often_as_by_the_most_powerful_test(rng):
    """The likelihood ratio misses six in ten thousand, of a hundred by five, at this level."""
    level = SHARES["shape"] * LEVEL
    missed = [_shape(laplace(rng, 100, 5))[1] > level for _ in range(1000)]
    # If one in a thousand is missed, more are with probability one in a million.
    assert np.sum(missed) <= stats.binom.isf(1e-6, 1000, 1e-3)
