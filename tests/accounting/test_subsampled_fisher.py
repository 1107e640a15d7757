import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from skleak.accounting.subsampled import subsampled_fisher_factors

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
TIMES = (np.linspace(-20.0, 20.0, 801)[:-1, None] + 0.025 * (NODES + 1.0)).ravel()
MASSES = np.tile(0.025 * WEIGHTS, 800) * stats.norm.pdf(TIMES)


def integrals(q, distance):
    """Both expectations by Gauss and Legendre's rule on many short pieces."""
    share = expit(np.log(q) - np.log1p(-q) + distance * (TIMES + 0.5 * distance))
    return MASSES @ (TIMES**2 * share), MASSES @ share


def assert_above(q, distance):
    for found, exact in zip(
        subsampled_fisher_factors(q, distance), integrals(q, distance), strict=True
    ):
        assert exact * (1.0 - 1e-12) <= found <= exact * (1.0 + 1e-10), (q, distance)


def random_cases(rng, n):
    rates = np.where(rng.random(n) < 0.5, rng.random(n), 10.0 ** rng.uniform(-12, 0, n))
    return zip(rates, 10.0 ** rng.uniform(-3, 1.2, n), strict=True)


def test_never_below_the_integral_and_hardly_above(rng):
    for q, distance in random_cases(rng, 60):
        assert_above(q, distance)


@pytest.mark.slow
def test_never_below_the_integral_in_many_cases(rng):
    for q, distance in random_cases(rng, 10_000):
        assert_above(q, distance)


def test_a_table_is_what_its_entries_are(rng):
    q, distance = (
        np.reshape(values, (20, 150)) for values in zip(*random_cases(rng, 3000), strict=True)
    )
    found = np.array(subsampled_fisher_factors(q, distance))
    alone = subsampled_fisher_factors(q[3, 7], distance[3, 7])
    np.testing.assert_allclose(found[:, 3, 7], alone, rtol=1e-12)
    assert np.all((found >= 0.0) & (found <= 1.0) & (found[1] >= q))


@pytest.mark.parametrize("q", [0.02, 0.5, 0.9])
def test_information_of_the_mixture(q):
    """Fisher information of ``q N(g(z), I) + (1 - q) N(0, I)`` in the plane, by definition."""
    for distance in (0.4, 1.0, 2.5):
        grid = np.arange(-9.0, 12.0, 0.05)
        x, y = np.meshgrid(grid, grid, indexing="ij")
        moved = q * stats.norm.pdf(x - distance) * stats.norm.pdf(y)
        density = moved + (1.0 - q) * stats.norm.pdf(x) * stats.norm.pdf(y)
        along, across = subsampled_fisher_factors(q, distance)
        for slope, factor in ((x - distance, along), (y, across)):
            information = np.sum((moved * slope) ** 2 / density) * 0.05**2
            assert q * factor == pytest.approx(information, rel=1e-9)


def test_limits_and_order():
    rates = np.array([1e-9, 0.01, 0.3, 2 / 3, 1.0])[:, None]
    distance = np.array([0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 1e3, np.inf])
    along, across = subsampled_fisher_factors(rates, distance)
    assert along.shape == across.shape == (5, 10)
    for factor in (along, across):
        np.testing.assert_array_equal(factor[:, 0], rates[:, 0])
        np.testing.assert_array_equal(factor[:, -1], 1.0)
        assert np.all(np.diff(factor, axis=1) >= -1e-10)
        assert np.all((factor >= rates) & (factor <= 1.0))
    # Above two thirds the factor along the gradient may fall below the rate.
    assert subsampled_fisher_factors(0.9, 0.3)[0] < 0.9
    np.testing.assert_array_equal(subsampled_fisher_factors(0.0, [0.0, 1.0, np.inf]), 0.0)
    np.testing.assert_array_equal(subsampled_fisher_factors(1.0, [0.0, 1.0, np.inf]), 1.0)


def test_known_values():
    """Gradients at the clipping norm, a sampling rate of 1 %."""
    along, across = subsampled_fisher_factors(0.01, 1.0 / np.array([0.5, 1.0, 2.0, 5.0]))
    np.testing.assert_allclose(across, [0.16, 0.026, 0.0128, 0.0104], rtol=0.03)
    np.testing.assert_allclose(along, [0.30, 0.047, 0.0158, 0.0108], rtol=0.03)


def test_types_and_bad_input():
    assert all(isinstance(factor, float) for factor in subsampled_fisher_factors(0.1, 1.0))
    for q, distance, message in (
        (1.1, 1.0, "`sampling_rate` must lie in"),
        (-0.1, 1.0, "`sampling_rate` must lie in"),
        (np.nan, 1.0, r"`sampling_rate` must lie in \[0, 1\]; got nan"),
        (0.1, -1.0, "`distance` must be at least 0"),
        (0.1, np.nan, "`distance` must be at least 0; got nan"),
        ([0.1, 0.2], [1.0, 2.0, 3.0], "do not broadcast"),
    ):
        with pytest.raises(ValueError, match=message):
            subsampled_fisher_factors(q, distance)
