"""Released parameters are exact multiples of the stated step, and the rounding is exact."""

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers import every
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from skleak.mechanisms import grids as module
from skleak.mechanisms import release_on_grid
from skleak.mechanisms.grids import Grid

SOURCES = [None, 0]


def multiples(release):
    quotients = [Fraction(value) / Fraction(release.step) for value in release.parameters.tolist()]
    assert all(quotient.denominator == 1 for quotient in quotients)
    return [int(quotient) for quotient in quotients]


class TestGrid:
    @pytest.mark.parametrize("noise_scale", [1.0, 0.1, 3.0, 2.0**-970, 2.0**1000, 1e-200, 1e200])
    def test_the_step_is_2_to_the_minus_30_of_the_noise(self, noise_scale):
        grid = Grid.for_noise(noise_scale)
        ratio = Fraction(noise_scale) / Fraction(grid.step)
        assert 2**30 <= ratio < 2**31
        assert Fraction(grid.step) == Fraction(2) ** grid.exponent

    @pytest.mark.parametrize("exponent", [-500, -3, 0, 7])
    def test_powers_of_two_and_their_neighbors(self, exponent):
        scale = 2.0**exponent
        assert Grid.for_noise(scale).exponent == exponent - 30
        assert Grid.for_noise(np.nextafter(scale, np.inf)).exponent == exponent - 30
        assert Grid.for_noise(np.nextafter(scale, 0.0)).exponent == exponent - 31

    @pytest.mark.parametrize("noise_scale", [2.0**-1000, 2.0**-980])
    def test_the_smallest_step(self, noise_scale):
        assert Grid.for_noise(noise_scale).step == 2.0**-1000

    @pytest.mark.parametrize("noise_scale", [0.0, -1.0, np.nan, np.inf, 5e-324, 1e308])
    def test_noise_out_of_range(self, noise_scale):
        with pytest.raises(ValueError, match=r"`noise_scale` must lie between 2\*\*-1000"):
            Grid.for_noise(noise_scale)

    @pytest.mark.slow
    @given(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=4),
        st.integers(-1000, 970),
    )
    def test_rounding_is_that_of_exact_fractions(self, values, exponent):
        step = Fraction(2) ** exponent
        expected = [round(Fraction(value) / step) for value in values]  # halves to the even one
        assert Grid(exponent).round_to(values).tolist() == expected

    def test_halves_and_shapes(self):
        assert Grid(1).round_to([[1.0, 3.0], [5.0, -1.0]]).tolist() == [[0, 2], [2, 0]]
        assert Grid(0).round_to(2.5).tolist() == 2
        assert Grid(0).round_to([1.0]).dtype == np.int64
        assert Grid(0).round_to([2.0**63]).tolist() == [2**63]
        assert Grid(-1000).round_to(1.5e300).tolist() == int(1.5e300) << 1000


@pytest.mark.parametrize("random_state", SOURCES)
class TestRelease:
    @every("noise_scale", [1e-200, 1e-6, 0.1, 1.0, 7.0, 1e6, 1e200])
    @every("size", [0.0, 1e-250, 1.0, 1e5, 1e14, 1e290])
    @every("shaped", [False, True])
    def test_multiples_of_the_step(self, noise_scale, size, shaped, random_state, rng):
        parameters = size * rng.normal(size=5)
        root = rng.normal(size=(5, 3)) if shaped else None
        release = release_on_grid(parameters, noise_scale, random_state, root=root)
        largest = max(abs(multiple) for multiple in multiples(release))
        assert largest <= 2**53
        assert release.grid_step == Grid.for_noise(noise_scale).step
        assert release.coarsened == (release.step > release.grid_step)
        # Not coarser than it must be.
        assert not release.coarsened or largest >= 2**52
        assert np.all(np.abs(release.parameters - parameters) <= 60.0 * noise_scale + release.step)

    def test_no_noise_and_no_grid(self, random_state):
        release = release_on_grid([0.1, 1e300], 0.0, random_state)
        np.testing.assert_array_equal(release.parameters, [0.1, 1e300])
        assert (release.step, release.sampler, release.exact) == (0.0, "none", False)
        assert not release.coarsened

    def test_distribution(self, random_state):
        parameters = np.linspace(-3.0, 3.0, 5000)
        release = release_on_grid(parameters, 0.7, random_state)
        assert kstest((release.parameters - parameters) / 0.7, norm.cdf).pvalue > 1e-6

    @pytest.mark.slow
    def test_distribution_of_shaped_noise(self, random_state, rng):
        root = rng.normal(size=(4, 2))
        draws = np.array(
            [
                release_on_grid(np.arange(4.0), 0.5, seed, root=root).parameters - np.arange(4.0)
                for seed in ([None] * 500 if random_state is None else range(500))
            ]
        )
        whitened = draws @ np.linalg.pinv(root).T / 0.5
        np.testing.assert_allclose(whitened @ root.T * 0.5, draws, atol=1e-8)
        assert kstest(whitened.ravel(), norm.cdf).pvalue > 1e-6

    def test_what_it_says(self, random_state):
        release = release_on_grid([1.0], 1.0, random_state)
        assert release.exact == (random_state is None)
        assert ("OpenDP" if random_state is None else "seeded") in release.sampler
        shaped = release_on_grid([1.0], 1.0, random_state, root=np.eye(1))
        assert not shaped.exact
        assert shaped.sampler.startswith(release.sampler)
        assert "0.0" not in repr(release).split("step")[0]

    def test_the_input_is_left_alone(self, random_state):
        parameters = np.array([1.0, 2.0])
        for noise_scale in (0.0, 1.0):
            release = release_on_grid(parameters, noise_scale, random_state)
            release.parameters[:] = 0.0
        np.testing.assert_array_equal(parameters, [1.0, 2.0])

    @pytest.mark.parametrize("bad", [[np.nan], [np.inf], [1.7e308], [[1.0]], 1.0])
    def test_bad_parameters(self, bad, random_state):
        with pytest.raises(ValueError, match="`parameters` must be a vector of finite numbers"):
            release_on_grid(bad, 1.0, random_state)

    def test_bad_roots(self, random_state):
        with pytest.raises(ValueError, match=r"`root` must have shape \(p, q\) with p = 2"):
            release_on_grid([1.0, 2.0], 1.0, random_state, root=np.eye(3))


def test_a_seed_replays_it_and_none_does_not():
    seeded = [release_on_grid(np.zeros(3), 1.0, 5).parameters for _ in range(2)]
    np.testing.assert_array_equal(*seeded)
    fresh = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        fresh.append(release_on_grid(np.zeros(3), 1.0).parameters)
    assert not np.any(fresh[0] == fresh[1])


def test_a_generator_counts_as_a_seed_and_advances():
    generator = np.random.default_rng(1)
    first, second = (release_on_grid(np.zeros(3), 1.0, generator) for _ in range(2))
    assert not first.exact
    assert not np.any(first.parameters == second.parameters)


def test_noise_is_added_to_the_rounded_parameters_in_integers(monkeypatch):
    # Integers at which the addition of doubles would lose the noise, and that of int64 saturate.
    asked = []

    def fixed(scale, size):
        asked.append(scale)
        return np.array([1, -1, 2**40])

    monkeypatch.setattr(module, "discrete_gaussian", fixed)
    step = Grid.for_noise(1.0).step
    release = release_on_grid(step * np.array([0.5, 1.5, 2.0]), 1.0)
    assert multiples(release) == [1, 1, 2**40 + 2]
    assert asked == [2.0**30]
    huge = release_on_grid([2.0**90, 0.0, 0.0], 1.0)
    assert huge.step == 2.0**38  # 2^120 + 1 has 121 bits, of which a double holds 53
    assert huge.parameters.tolist() == [2.0**90, 0.0, 2.0**10 // huge.step * huge.step]


def test_the_coarser_step_is_a_function_of_the_released_integers():
    for integers in ([2**53 - 1, 5], [2**53, 5], [2**60 + 2**7 + 1, -(2**7) - 1, 3]):
        for kind in (np.int64, object):
            coarse, bits = module._in_doubles(np.array(integers, dtype=kind))
            assert bits == max(max(map(abs, integers)).bit_length() - 53, 0)
            assert coarse.tolist() == [round(Fraction(one, 2**bits)) for one in integers]


def test_scale_in_units_of_the_step_is_exact():
    for noise_scale in (0.1, 1e-300, np.pi * 1e200):
        grid = Grid.for_noise(noise_scale)
        scale = math.ldexp(noise_scale, -grid.exponent)
        assert Fraction(scale) * Fraction(grid.step) == Fraction(noise_scale)
