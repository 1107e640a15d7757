"""The attack on floating-point noise: it wins against doubles, and not against a grid.

NumPy's ziggurat returns x = k w_i, with an integer k of 52 bits and one of 256 factors w_i, and the
release was the double nearest to c + (the double nearest to sigma x). An attacker with two
candidates for c lists, for each, the x that lead to exactly the released double. (Mironov, On
Significance of the Least Significant Bits for Differential Privacy, CCS 2012.)
"""

from functools import cache

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.stats import binom, norm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from skleak.mechanisms import release_on_grid
from skleak.mechanisms.grids import Grid

N_LAYERS = 256
# Neighbors of y - c, and of t / sigma, that are tried.
REACH_SUM, REACH_PRODUCT = 4, 2
LEVEL = 1e-6
NOISE_SCALES = [0.01, 0.1, 1.0, 10.0, 100.0]


def nominal_factors():
    """The factors by the recurrence of Marsaglia and Tsang (2000), up to some hundred roundings."""
    r, area = 3.6541528853610088, 0.004928673233974655
    edges = [r]
    for _ in range(N_LAYERS - 2):
        x = edges[-1]
        edges.append(np.sqrt(-2.0 * np.log(area / x + np.exp(-0.5 * x * x))))
    return np.array([area / np.exp(-0.5 * r * r), *reversed(edges)]) / 2.0**52


@cache
def exact_factors(n_draws=60_000):
    """The factors to the last bit, from what an attacker's own copy of NumPy draws.

    A draw takes 8 bits for the layer, one for the sign and 52 for the integer out of 64; one in
    100 takes more, so the draws are matched to the bits by their values.
    """
    nominal = nominal_factors()
    bits = np.random.PCG64(3).random_raw(n_draws)
    drawn = np.abs(np.random.Generator(np.random.PCG64(3)).standard_normal(n_draws))
    layers = (bits & np.uint64(0xFF)).astype(int)
    integers = (bits >> np.uint64(9) & np.uint64(2**52 - 1)).astype(float)
    expected = integers * nominal[layers]
    order = np.argsort(expected)
    above = np.clip(np.searchsorted(expected[order], drawn), 1, n_draws - 1)
    below_is_nearer = drawn - expected[order[above - 1]] < expected[order[above]] - drawn
    match = order[above - below_is_nearer]
    matched = np.abs(expected[match] - drawn) < 1e-11 * drawn
    layers, integers, drawn = layers[match[matched]], integers[match[matched]], drawn[matched]
    factors = np.empty(N_LAYERS)
    for layer in range(N_LAYERS):
        mine = layers == layer
        center = np.median(drawn[mine] / integers[mine])
        near = center + np.arange(-8, 9) * np.spacing(center)
        right = np.all(integers[mine, None] * near == drawn[mine, None], axis=0)
        assert mine.sum() > 50
        assert right.sum() == 1
        factors[layer] = near[right][0]
    return factors


def ways(x):
    """In how many layers the ziggurat can return each of some doubles, (n,)."""
    size = np.abs(x)[:, None]
    multiples = np.rint(size / exact_factors())
    return np.sum((multiples * exact_factors() == size) & (multiples < 2**52), axis=1)


def evidence(released, candidate, noise_scale):
    """Log-likelihood of a candidate from what the doubles alone say, (n_releases,).

    Coordinates of `released`, (n_releases, p), whose noise many doubles explain say nothing.
    """
    difference = released - candidate
    steps = np.arange(-REACH_SUM, REACH_SUM + 1)
    scaled = difference[..., None] + steps * np.spacing(np.abs(difference))[..., None]
    possible = candidate[:, None] + scaled == released[..., None]
    telling = ~(possible[..., 0] | possible[..., -1])
    counts = np.zeros(released.shape)
    where = np.nonzero(possible & telling[..., None])
    t = scaled[where]
    x = t / noise_scale
    for _ in range(REACH_PRODUCT):
        x = np.nextafter(x, -np.inf)
    for _ in range(2 * REACH_PRODUCT + 1):
        fits = noise_scale * x == t
        np.add.at(counts, tuple(axis[fits] for axis in where[:2]), ways(x[fits]))
        x = np.nextafter(x, np.inf)
    # Draws from the tail, one in 4,000, are no multiples: nothing is excluded for good.
    return np.where(telling, np.log(np.maximum(counts, 0.01)), np.nan)


def sex_flipped():
    """Coefficients and intercept of two ridge fits that differ in one patient's sex, (2, 11)."""
    X, y = load_diabetes(return_X_y=True)
    other = X.copy()
    other[0, 1] = X[X[:, 1] != X[0, 1], 1][0]
    fits = [Ridge(alpha=float(len(y))).fit(data, y) for data in (X, other)]
    return np.array([np.append(fit.coef_, fit.intercept_) for fit in fits])


def allowed(candidates, noise_scale):
    """Success of the best attack on Gaussian noise in exact arithmetic."""
    return norm.cdf(np.linalg.norm(candidates[1] - candidates[0]) / (2.0 * noise_scale))


def successes(release, candidates, noise_scale, n_releases, rng):
    """Secrets that likelihood and floating-point evidence together name rightly, a number."""
    secrets = rng.integers(0, 2, size=n_releases)
    released = release(candidates[secrets], noise_scale)
    said = [evidence(released, candidate, noise_scale) for candidate in candidates]
    middle, difference = candidates.mean(axis=0), candidates[1] - candidates[0]
    log_ratio = (released - middle) @ difference / noise_scale**2
    log_ratio += np.nan_to_num(said[1] - said[0]).sum(axis=1)
    return int(np.sum((log_ratio > 0.0) == secrets))


def in_doubles(values, noise_scale, rng):
    return values + rng.normal(0.0, 1.0, values.shape) * noise_scale


def on_grid(values, noise_scale):
    # The coordinates get independent noise: many releases are as good as one long one.
    release = release_on_grid(values.ravel(), noise_scale)
    assert release.exact
    return release.parameters.reshape(values.shape)


class TestTheAttackIsHonest:
    @pytest.mark.slow
    def test_it_knows_what_the_sampler_returns(self, rng):
        assert np.mean(ways(rng.standard_normal(10_000)) > 0) > 0.99

    def test_other_doubles_of_the_same_size_are_not_returned(self, rng):
        # Close to 0, where doubles are denser than the multiples of all layers together.
        draws = rng.standard_normal(1_000_000)
        draws = draws[np.abs(draws) < 1e-4]
        assert np.mean(ways(draws) > 0) > 0.95
        assert np.mean(ways(np.pi * draws) > 0) < 0.2

    @pytest.mark.parametrize(
        ("noise_scale", "won"), [(1.0, 0.6), (3.0, 0.88), (10.0, 0.88), (100.0, 0.88)]
    )
    def test_it_wins_against_doubles(self, noise_scale, won, rng):
        candidates = sex_flipped()
        count = successes(
            lambda values, scale: in_doubles(values, scale, rng), candidates, noise_scale, 400, rng
        )
        assert allowed(candidates, noise_scale) < 0.501
        assert count > 400 * won


def check_grid(noise_scale, n_batches, rng):
    """The attacker takes the fits as they are, or as they are rounded."""
    fits, grid = sex_flipped(), Grid.for_noise(noise_scale)
    rounded = grid.round_to(fits) * grid.step
    limit = binom.isf(LEVEL, 500 * n_batches, allowed(rounded, noise_scale))
    for candidates in (fits, rounded):
        named = [successes(on_grid, candidates, noise_scale, 500, rng) for _ in range(n_batches)]
        assert sum(named) <= limit


@pytest.mark.parametrize("noise_scale", mostly_slow(NOISE_SCALES, 0, -1))
def test_on_the_grid_it_gains_what_the_channel_allows(noise_scale, rng):
    check_grid(noise_scale, 1, rng)


@pytest.mark.slow
@pytest.mark.parametrize("noise_scale", [*NOISE_SCALES, 3.0])
def test_on_the_grid_it_gains_what_the_channel_allows_in_many_releases(noise_scale, rng):
    check_grid(noise_scale, 10, rng)
