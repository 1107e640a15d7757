"""The sampler follows the discrete Gaussian, draws anew each time, and leaves OpenDP's flags."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import opendp.measurements
import pytest
from helpers import mostly_slow
from opendp.mod import GLOBAL_FEATURES
from scipy.stats import binomtest, chisquare, kstest, norm

from skleak.mechanisms import grids as _discrete_gaussian
from skleak.mechanisms.grids import discrete_gaussian, dyadic_discrete_gaussian

# So small that no run of the suite fails by chance.
LEVEL = 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 10.0])
def test_probabilities_of_single_integers(scale):
    n = 10_000
    z = np.arange(-int(20 * scale), int(20 * scale) + 1)
    probability = np.exp(-0.5 * (z / scale) ** 2)
    probability /= probability.sum()
    # The two tails, whose members are too rare to count one by one, are a cell each.
    last = z[n * probability >= 10].max()
    drawn = np.clip(discrete_gaussian(scale, n), -last - 1, last + 1)
    counts = np.array([np.sum(drawn == k) for k in range(-last - 1, last + 2)])
    expected = np.array(
        [
            n * probability[np.clip(z, -last - 1, last + 1) == k].sum()
            for k in range(-last - 1, last + 2)
        ]
    )
    assert chisquare(counts, expected).pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [10, 20, 30, 31])
def test_distribution_at_large_scales(exponent, rng):
    scale = 2.0**exponent
    drawn = discrete_gaussian(scale, 10_000)
    # Spread over the cells of the rounded Gaussian, which is 0.0202 / scale^2 away, 2e-8 at most.
    spread = (drawn + rng.uniform(-0.5, 0.5, drawn.size)) / scale
    assert kstest(spread, norm.cdf).pvalue > LEVEL
    assert abs(np.corrcoef(spread[1:], spread[:-1])[0, 1]) < 5.0 / np.sqrt(drawn.size)


@pytest.mark.parametrize("exponent", mostly_slow([20, 30]))
def test_low_bits_are_uniform(exponent):
    low = discrete_gaussian(2.0**exponent, 10_000) % 256
    assert chisquare(np.bincount(low, minlength=256)).pvalue > LEVEL


@pytest.mark.slow
def test_the_scale_need_not_be_a_power_of_two(rng):
    drawn = discrete_gaussian(np.pi * 1e5, 10_000) + rng.uniform(-0.5, 0.5, 10_000)
    assert kstest(drawn / (np.pi * 1e5), norm.cdf).pvalue > LEVEL


def test_no_seed_replays_it():
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        drawn.append(discrete_gaussian(2.0**30, 8))
    assert not np.any(drawn[0] == drawn[1])


def test_types_and_sizes():
    assert discrete_gaussian(1.0, 0).shape == (0,)
    assert discrete_gaussian(3.0, 5).dtype == np.int64


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 2.0**49])
def test_bad_scales(scale):
    with pytest.raises(ValueError, match="`scale` must be positive and at most 2"):
        discrete_gaussian(scale, 3)


class TestFeatureFlags:
    @pytest.fixture(params=[True, False], autouse=True)
    def enabled(self, request):
        before = set(GLOBAL_FEATURES)
        GLOBAL_FEATURES.discard("contrib")
        GLOBAL_FEATURES.update({"contrib", "floating-point"} if request.param else set())
        yield request.param
        GLOBAL_FEATURES.clear()
        GLOBAL_FEATURES.update(before)

    def test_they_are_as_before(self):
        before = set(GLOBAL_FEATURES)
        discrete_gaussian(1.0, 1)
        assert before == GLOBAL_FEATURES

    def test_they_are_as_before_after_an_error(self, monkeypatch):
        def fail(*args, **kwargs):
            assert "contrib" in GLOBAL_FEATURES
            raise RuntimeError("no measurement")

        monkeypatch.setattr(opendp.measurements, "make_gaussian", fail)
        before = set(GLOBAL_FEATURES)
        with pytest.raises(RuntimeError, match="no measurement"):
            discrete_gaussian(1.0 + 2.0**-20, 1)  # a scale that no other test has measured with
        assert before == GLOBAL_FEATURES

    def test_threads_do_not_disturb_each_other(self):
        before = set(GLOBAL_FEATURES)
        with ThreadPoolExecutor(4) as pool:
            drawn = list(pool.map(lambda k: discrete_gaussian(2.0**30 + k, 2), range(40)))
        assert len(np.unique(drawn)) == 80
        assert before == GLOBAL_FEATURES


class TestPowersOfTwo:
    @pytest.mark.parametrize("log2_scale", mostly_slow([1, 2, 4]))
    @pytest.mark.parametrize("undecided", mostly_slow([None, 2.0]))
    def test_probabilities_of_single_integers(self, log2_scale, undecided, monkeypatch):
        """Also where every comparison is settled by further digits."""
        n = 40_000 if undecided is None else 4_000
        if undecided is not None:
            monkeypatch.setattr(_discrete_gaussian, "_UNDECIDED", undecided)
        scale = 2**log2_scale
        z = np.arange(-12 * scale, 12 * scale + 1)
        probability = np.exp(-0.5 * (z / scale) ** 2)
        probability /= probability.sum()
        last = z[n * probability >= 10].max()
        cell = np.clip(z, -last - 1, last + 1)
        drawn = np.clip(dyadic_discrete_gaussian(log2_scale, n), -last - 1, last + 1)
        cells = range(-last - 1, last + 2)
        counts = [np.sum(drawn == k) for k in cells]
        expected = [n * probability[cell == k].sum() for k in cells]
        assert chisquare(counts, expected).pvalue > LEVEL

    @pytest.mark.parametrize("log2_scale", [20, 46, 52])
    def test_distribution_at_large_scales(self, log2_scale):
        drawn = dyadic_discrete_gaussian(log2_scale, 100_000)
        scaled = drawn / 2.0**log2_scale
        assert kstest(scaled, norm.cdf).pvalue > LEVEL
        tail = np.abs(scaled[np.abs(scaled) > 2.0])
        assert kstest(norm.sf(tail) / norm.sf(2.0), "uniform").pvalue > LEVEL
        assert abs(np.corrcoef(scaled[1:], scaled[:-1])[0, 1]) < 6.0 / np.sqrt(drawn.size)
        assert chisquare(np.bincount(drawn % 256, minlength=256)).pvalue > LEVEL
        assert chisquare(np.bincount(np.sign(drawn) + 1)[[0, 2]]).pvalue > LEVEL

    def test_comparisons_in_doubles_are_those_of_exact_numbers(self, rng, monkeypatch):
        words = rng.integers(0, 2**64, 300, dtype=np.uint64)
        blocks = rng.integers(0, 4, 300)
        x = rng.integers(0, 2**46, 300)
        quick = _discrete_gaussian._accepted(words, blocks, x, 46)
        monkeypatch.setattr(_discrete_gaussian, "_UNDECIDED", 2.0)
        np.testing.assert_array_equal(_discrete_gaussian._accepted(words, blocks, x, 46), quick)

    @pytest.mark.slow
    def test_blocks_have_their_probabilities_to_the_last_bit(self):
        """At and beside the words at which one block gives way to the next."""
        weights = [np.longdouble(-k * k / 2) for k in range(20)]
        weights = np.exp(np.array(weights))
        survival = np.cumsum(weights[::-1])[::-1] / weights.sum()
        floors = _discrete_gaussian._survival_floors()
        np.testing.assert_allclose(
            floors[::-1] / 2.0**64, survival[1:11], rtol=1e-14, atol=2.0**-64
        )
        for k, floor in enumerate(floors[::-1], start=1):
            if floor > 0:
                beside = np.array([floor - np.uint64(1), floor + np.uint64(1)])
                assert _discrete_gaussian._blocks(beside).tolist() == [k, k - 1]
            assert set(_discrete_gaussian._blocks(np.full(50, floor))) <= set(range(k - 1, k + 20))

    def test_further_digits_decide_with_their_probability(self):
        """A number that begins with a word is below one just after it as often as it should be."""
        value = (Decimal(12345) + Decimal("0.25")) / 2**64
        below = [_discrete_gaussian._Uniform(12345).is_below(lambda: +value) for _ in range(4000)]
        assert binomtest(sum(below), 4000, 0.25).pvalue > LEVEL
        assert _discrete_gaussian._Uniform(12344).is_below(lambda: +value)
        assert not _discrete_gaussian._Uniform(12346).is_below(lambda: +value)

    def test_no_seed_replays_it(self):
        drawn = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002
            drawn.append(dyadic_discrete_gaussian(30, 8))
        assert not np.any(drawn[0] == drawn[1])
        assert dyadic_discrete_gaussian(30, 0).shape == (0,)

    @pytest.mark.parametrize("log2_scale", [0, 53])
    def test_bad_scales(self, log2_scale):
        with pytest.raises(ValueError, match="`log2_scale` must be an integer from 1 to 52"):
            dyadic_discrete_gaussian(log2_scale, 3)
