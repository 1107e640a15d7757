"""Renyi divergence of subsampled Gaussian noise: integrals, other programs, brute force."""

import numpy as np
import pytest
from scipy.stats import norm

from skleak.accounting import rdp, subsampled_gaussian_rdp
from skleak.accounting.subsampled import fixed_size_profile

CASES = [(1.0, 0.01, 2.0), (2.0, 0.01, 2.0), (0.5, 0.3, 2.0), (0.7, 0.05, 8.0), (3.0, 0.5, 1.5)]


def plain_sum(own, other, rate, order):
    """The definition, on a fine grid."""
    x, step = np.linspace(-40.0, 40.0, 160_001, retstep=True)
    p, q = (
        np.logaddexp(np.log1p(-rate) + norm.logpdf(x), np.log(rate) + norm.logpdf(x, mean))
        for mean in (own, other)
    )
    return float(np.log(np.exp(order * p + (1.0 - order) * q).sum() * step) / (order - 1.0))


def test_it_is_the_divergence_of_the_worst_pair():
    for sigma, rate, order in CASES:
        d = 1.0 / sigma
        for relation, pairs in (
            ("replace", [(d, -d)]),
            ("add-or-remove", [(d, 0.0), (0.0, d)]),
        ):
            exact = max(plain_sum(*pair, rate, order) for pair in pairs)
            found = subsampled_gaussian_rdp(sigma, rate, 3, order, relation=relation)
            assert found == pytest.approx(3.0 * exact, rel=1e-6)


def test_small_rates_keep_their_digits():
    """Of second order in the rate: q^2 E[(exp(t - 1/2) - exp(-t - 1/2))^2]."""
    for rate in (1e-4, 1e-6, 1e-8):
        chi = rate**2 * 2.0 * (np.e - 1.0 / np.e)
        found = subsampled_gaussian_rdp(1.0, rate, 1)
        assert found == pytest.approx(chi, rel=10.0 * rate + 1e-6)


def test_a_fixed_size_counts_ratios_above_one_both_ways():
    """By the curvatures of both powers under one profile: E[L^a + L^(1 - a) - L - 1; L >= 1]."""
    x, step = np.linspace(-20.0, 40.0, 240_001, retstep=True)
    for sigma, rate, order in CASES:
        d = 2.0 / sigma
        log_ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + d * (x - 0.5 * d))
        total = sum(
            sign * np.exp(power * log_ratio + norm.logpdf(x))[log_ratio >= 0.0].sum() * step
            for sign, power in ((1, order), (1, 1.0 - order), (-1, 1.0), (-1, 0.0))
        )
        found = subsampled_gaussian_rdp(sigma, rate, 2, order, sampling="fixed")
        assert found == pytest.approx(2.0 * np.log1p(total) / (order - 1.0), rel=1e-6)


def test_limits():
    for sampling in ("poisson", "fixed"):
        at = {"sampling": sampling}
        assert subsampled_gaussian_rdp(2.0, 1.0, 5, 3.0, **at) == pytest.approx(5 * rdp(1.0, 3.0))
        # Without noise to speak of sampling is no help that could be counted.
        assert subsampled_gaussian_rdp(1e-3, 0.1, 1, **at) == pytest.approx(rdp(2e3, 2.0))
        orders = np.array([[1.5, 2.0], [4.0, 16.0]])
        found = subsampled_gaussian_rdp(1.0, 0.1, 10, orders, **at)
        assert found.shape == (2, 2)
        assert np.all(np.diff(found.ravel()) > 0.0)
        assert np.all(found < 10 * rdp(2.0, orders))
    near_one = subsampled_gaussian_rdp(1.0, 0.1, 1, 1.0 + 1e-6)
    x, step = np.linspace(-12.0, 12.0, 100_001, retstep=True)
    p, q = (0.9 * norm.pdf(x) + 0.1 * norm.pdf(x, mean) for mean in (1.0, -1.0))
    assert near_one == pytest.approx(np.sum(p * np.log(p / q)) * step, rel=1e-4)


def test_dp_accounting_agrees():
    dp = pytest.importorskip("dp_accounting")
    other = pytest.importorskip("dp_accounting.rdp")
    for sigma, rate, order in [(1.0, 0.01, 2), (0.7, 0.05, 8), (2.0, 0.01, 4)]:
        step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
        theirs = float(other.RdpAccountant([order]).compose(step, 500)._rdp[0])
        ours = subsampled_gaussian_rdp(sigma, rate, 500, order, relation="add-or-remove")
        assert ours == pytest.approx(theirs, rel=1e-6)
        # Its multiplier for batches of a fixed size is relative to two gradients.
        step = dp.SampledWithoutReplacementDpEvent(
            1000, int(1000 * rate), dp.GaussianDpEvent(sigma / 2.0)
        )
        accountant = other.RdpAccountant([order], dp.NeighboringRelation.REPLACE_ONE)
        theirs = float(accountant.compose(step, 500)._rdp[0])
        ours = subsampled_gaussian_rdp(sigma, rate, 500, order, sampling="fixed")
        assert ours <= theirs


@pytest.fixture(scope="module")
def plane():
    axis = np.linspace(-9.0, 9.0, 181)
    return np.stack(np.meshgrid(axis, axis), axis=-1), (axis[1] - axis[0]) ** 2


def mixtures(plane, rate, *means):
    points, cell = plane
    density = [np.exp(-0.5 * ((points - m) ** 2).sum(axis=-1)) / (2 * np.pi) for m in means]
    rest = np.exp(-0.5 * (points**2).sum(axis=-1)) / (2 * np.pi)
    return [((1.0 - rate) * rest + rate * each) * cell for each in density]


def in_disc(rng):
    angle, radius = rng.uniform(0.0, 2.0 * np.pi), np.sqrt(rng.uniform())
    radius = rng.choice([1.0, radius])  # the worst are on the edge
    return radius * np.array([np.cos(angle), np.sin(angle)])


def test_the_profile_of_a_fixed_size_is_that_of_one_gradient_against_none():
    """By integration, and by the closed form of both tails of the likelihood ratio."""
    x, step = np.linspace(-12.0, 20.0, 320_001, retstep=True)
    for distance, rate in ((0.5, 0.1), (2.0, 0.3), (3.0, 1.0)):
        losses = np.array([0.0, 0.2, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0])
        found = fixed_size_profile(losses, distance, rate)
        none = norm.pdf(x)
        mixed = (1.0 - rate) * none + rate * norm.pdf(x, distance)
        for loss, delta in zip(losses, found, strict=True):
            gamma = np.exp(loss)
            summed = np.maximum(mixed - gamma * none, 0.0).sum() * step
            assert delta == pytest.approx(summed, abs=1e-8)
            above = np.log((gamma - 1.0 + rate) / rate) / distance + 0.5 * distance
            tails = (1.0 - rate - gamma) * norm.sf(above) + rate * norm.sf(above - distance)
            assert delta == pytest.approx(tails, abs=1e-12)


def test_no_two_gradients_are_worse_than_the_pair_that_is_accounted_for(plane, rng):
    """Brute force in the plane, at every gamma: Poisson sampling, and batches of a fixed size."""
    gamma = np.exp(np.r_[0.0, np.geomspace(0.01, 3.0, 8)])
    gamma = np.r_[gamma, 1.0 / gamma[1:]]
    for _ in range(12):
        rate, reach = rng.uniform(0.02, 0.9), rng.choice([0.4, 1.0])
        g, other, third = (reach * in_disc(rng) for _ in range(3))
        line = np.array([reach, 0.0])
        worst = mixtures(plane, rate, line, -line)
        own = mixtures(plane, rate, g, other)
        # The record that takes the place of the one replaced has the third gradient.
        fixed = mixtures(plane, rate, g - third, other - third)
        bound = fixed_size_profile(np.log(gamma), 2.0 * reach, rate)
        for each, at_most in zip(gamma, bound, strict=True):
            for p, q in (own, own[::-1]):
                assert np.maximum(p - each * q, 0.0).sum() <= (
                    np.maximum(worst[0] - each * worst[1], 0.0).sum() + 2e-4
                )
            for p, q in (fixed, fixed[::-1]):
                assert np.maximum(p - each * q, 0.0).sum() <= at_most + 2e-4
        chi = sum((p**2 / q).sum() for p, q in [fixed])
        limit = subsampled_gaussian_rdp(1.0 / reach, rate, 1, sampling="fixed")
        assert np.log(chi) <= limit + 1e-6


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"order": 1.0}, "`order` must be above 1 and finite; got 1"),
        ({"relation": "swap"}, "`relation` must be"),
        ({"sampling": "shuffled"}, "`sampling` must be"),
        ({"sampling": "fixed", "relation": "add-or-remove"}, "must be 'replace' where batches"),
        ({"noise_multiplier": 0.0}, "`noise_multiplier` must be above 0"),
        ({"n_steps": 0}, "`n_steps` must be an integer"),
    ],
)
def test_bad_values_are_named(arguments, message):
    usual = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "n_steps": 1}
    with pytest.raises(ValueError, match=message):
        subsampled_gaussian_rdp(**usual | arguments)
