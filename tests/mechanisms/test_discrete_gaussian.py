"""The sampler follows the discrete Gaussian, draws anew each time, and leaves OpenDP's flags."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import opendp.measurements
import pytest
from opendp.mod import GLOBAL_FEATURES
from scipy.stats import chisquare, kstest, norm

from skleak.mechanisms import discrete_gaussian

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


@pytest.mark.parametrize("exponent", [20, 30])
def test_low_bits_are_uniform(exponent):
    low = discrete_gaussian(2.0**exponent, 10_000) % 256
    assert chisquare(np.bincount(low, minlength=256)).pvalue > LEVEL


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
            discrete_gaussian(1.0, 1)
        assert before == GLOBAL_FEATURES

    def test_threads_do_not_disturb_each_other(self):
        before = set(GLOBAL_FEATURES)
        with ThreadPoolExecutor(4) as pool:
            drawn = list(pool.map(lambda _: discrete_gaussian(2.0**30, 2), range(40)))
        assert len(np.unique(drawn)) == 80
        assert before == GLOBAL_FEATURES
