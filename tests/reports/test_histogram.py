import numpy as np
import pytest
from helpers import every

from skleak.plotting.displays import leakage_histogram, log_ticks, round_ticks


@every("n", [2, 7, 100, 5000])
@every("scale", [1e-9, 1.0, 3e7])
@every("draw", ["exponential", "normal", "cauchy", "lognormal"])
@every("max_bins", [None, 5, 14])
def test_every_finite_record_is_in_one_bin(rng, n, scale, draw, max_bins):
    draws = {
        "exponential": rng.exponential(size=n),
        "normal": 10.0 + rng.normal(size=n),
        "cauchy": np.abs(rng.standard_cauchy(size=n)),
        "lognormal": np.exp(4.0 * rng.normal(size=n)),
    }
    loss = scale * draws[draw]
    bins = leakage_histogram(loss, max_bins)
    assert bins.counts.sum() == n
    assert len(bins.counts) == len(bins.edges) - 1 <= (max_bins or 30) + 2
    assert np.all(np.diff(bins.edges) > 0.0)
    assert bins.edges[-1] >= loss.max() * (1 - 1e-9)
    assert bins.counts[-1] > 0
    # Brute force over bins that are closed below, and above for the last.
    inside = (np.maximum(loss, bins.edges[0])[:, None] >= bins.edges[:-1]).sum(axis=1) - 1
    np.testing.assert_array_equal(np.bincount(inside, minlength=len(bins.counts)), bins.counts)


def test_linear_bins_have_round_edges_from_zero():
    bins = leakage_histogram(np.array([0.3, 1.0, 1.1, 4.0]), max_bins=4)
    np.testing.assert_array_equal(bins.edges, [0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(bins.counts, [1, 2, 0, 1])
    assert not bins.logarithmic
    assert not np.signbit(bins.ticks[0])


def test_close_losses_do_not_start_at_zero():
    bins = leakage_histogram(np.linspace(9.0, 10.0, 50))
    assert bins.edges[0] == pytest.approx(9.0)


def test_a_heavy_tail_gets_a_logarithmic_axis():
    loss = np.r_[np.zeros(3), np.full(50, 1.0), 1e-9, 1e3]
    bins = leakage_histogram(loss)
    assert bins.logarithmic
    assert bins.edges[0] == pytest.approx(1e-3)
    assert bins.n_below == 4
    assert bins.counts[0] == 4
    assert bins.edges[-1] == pytest.approx(1e3)


@pytest.mark.parametrize("value", [0.0, 1e-300, 0.37, 5e20])
def test_equal_losses_are_one_bar(value):
    bins = leakage_histogram(np.full(9, value))
    assert bins.constant
    assert sorted(bins.counts)[-2:] == [0, 9]
    assert bins.edges[0] >= 0.0
    np.testing.assert_array_equal(bins.ticks, [value])


def test_what_is_not_finite_is_left_out_and_counted():
    bins = leakage_histogram(np.array([np.inf, np.nan, 1.0, 2.0]))
    assert (bins.n_omitted, bins.counts.sum()) == (2, 2)
    assert leakage_histogram(np.array([np.inf, np.nan])) is None


@pytest.mark.parametrize("low, high", [(0.0, 26.0), (0.41, 0.52), (1e-8, 3e-7), (0.0, 1.0)])
def test_round_ticks_are_few_and_inside(low, high):
    ticks = round_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] >= low - 1e-12
    assert ticks[-1] <= high * (1 + 1e-12)
    np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0])


def test_log_ticks():
    np.testing.assert_allclose(log_ticks(0.015, 2.5), [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(log_ticks(1e-3, 1e3), 10.0 ** np.arange(-3, 4))
