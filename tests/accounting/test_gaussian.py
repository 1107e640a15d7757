"""Gaussian noise: against quadrature, brute force, published values and other accountants."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from skleak.accounting import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_scale,
    output_perturbation_sensitivity,
    rdp,
)
from skleak.accounting.gaussian import mu_from_epsilon_delta

# (mu, epsilon, delta): Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), evaluated
# in arithmetic of 400 digits.
EXACT = [
    (1e-08, 3e-08, 3.821543227800388e-12),
    (0.0001, 0.0, 3.989422802352067e-5),
    (0.0001, 0.001, 7.478298460019564e-29),
    (0.05, 0.4, 4.60955570000931e-18),
    (0.0999, 1.2, 2.294198587339264e-35),
    (0.1001, 1.2, 3.07806068957844e-35),
    (0.5, 1.0, 0.006829594983114575),
    (0.5, 5.9, 1.510722626600043e-32),
    (1.0, 1.0, 0.1269367375066439),
    (1.0, 11.5, 1.569915606929525e-29),
    (1.0, 37.0, 1.476469534442528e-293),
    (3.0, 4.5, 0.3784860516444378),
    (3.0, 0.01, 0.8657163433763724),
    (10.0, 150.0, 3.782100708505003e-24),
    (100.0, 4900.0, 0.8389008466372182),
    (100.0, 6100.0, 1.719790445918449e-28),
    (1000.0, 500100.0, 0.4597752502636119),
]
GRID = [(mu, x) for mu in (0.003, 0.09, 0.11, 0.7, 2.0, 9.0) for x in (-2.0, 0.0, 1.0, 3.0, 6.0)]


def _by_quadrature(mu, epsilon):
    """Expected shortfall of the privacy loss, which is N(mu^2/2, mu^2) under one data set."""

    def integrand(z):
        return -math.expm1(epsilon - (0.5 * mu**2 + mu * z)) * norm.pdf(z)

    start = epsilon / mu - 0.5 * mu
    points = [start, *np.arange(max(math.ceil(start + 1e-9), -12), 14), max(start, 0.0) + 14.0]
    pieces = itertools.pairwise(points)
    return sum(quad(integrand, a, b, epsabs=0.0, epsrel=1e-11)[0] for a, b in pieces if b > a)


@pytest.mark.parametrize("mu, epsilon, delta", EXACT)
def test_delta_agrees_with_exact_arithmetic(mu, epsilon, delta):
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-11)


@pytest.mark.parametrize("mu, x", GRID)
def test_delta_agrees_with_the_integral_of_the_privacy_loss(mu, x):
    epsilon = mu * (0.5 * mu + x)
    if epsilon < 0.0:
        epsilon = 0.0
    assert gaussian_delta(mu, epsilon) == pytest.approx(_by_quadrature(mu, epsilon), rel=1e-9)


def test_no_event_beats_delta_and_the_best_threshold_attains_it():
    # The adversary's best event is a half-line; try a dense grid of all of them.
    mu, epsilon = 1.3, 0.8
    thresholds = np.linspace(-6.0, 8.0, 200_001)
    gains = norm.sf(thresholds - mu) - np.exp(epsilon) * norm.sf(thresholds)
    delta = gaussian_delta(mu, epsilon)
    assert gains.max() <= delta * (1 + 1e-12)
    assert gains.max() == pytest.approx(delta, rel=1e-8)


def test_limits_of_delta():
    np.testing.assert_array_equal(
        gaussian_delta([0.0, np.inf, 1.0, 0.0], [1, 1, np.inf, 0]), [0, 1, 0, 0]
    )
    assert gaussian_delta(1e-12, 0.0) == pytest.approx(1e-12 * norm.pdf(0.0), rel=1e-9)
    assert gaussian_delta(60.0, 0.0) == 1.0
    assert gaussian_delta(1e300, 5.0) == 1.0
    assert gaussian_delta(1e-300, 1e300) == 0.0
    large = np.array([1e8, 1e9, 1e10, 1e100, 1e300])
    with np.errstate(over="raise", invalid="raise"):
        assert np.all(gaussian_epsilon(large, 1e-6) >= 0.5 * large * np.minimum(large, 1e5))
    # total variation distance at epsilon = 0
    mu = np.array([0.01, 0.5, 3.0])
    np.testing.assert_allclose(gaussian_delta(mu, 0.0), 2 * norm.cdf(mu / 2) - 1, rtol=1e-12)


def test_delta_is_monotone_also_across_the_branches():
    mu = np.linspace(0.05, 4.0, 4000)
    assert (np.diff(gaussian_delta(mu, 0.3)) > 0).all()
    epsilon = np.linspace(0.0, 5.0, 4000)
    for value in (0.0999999, 0.1000001, 2.0):
        curve = gaussian_delta(value, epsilon[epsilon < 38 * value])
        assert (np.diff(curve) < 0).all()
    near = gaussian_delta(np.array([0.1 - 1e-13, 0.1]), 0.2)
    assert near[0] == pytest.approx(near[1], rel=1e-11)


def test_epsilon_inverts_delta_on_the_private_side(rng):
    mu = 10 ** rng.uniform(-5, 3, 1000)
    delta = 10 ** rng.uniform(-30, -0.01, 1000)
    epsilon = gaussian_epsilon(mu, delta)
    reached = gaussian_delta(mu, epsilon)
    assert (reached <= delta).all()
    covered = epsilon == 0.0
    assert (reached[~covered] >= delta[~covered] * (1 - 1e-6)).all()
    np.testing.assert_array_equal(covered, gaussian_delta(mu, 0.0) <= delta)
    assert 0 < covered.sum() < 900


def test_mu_inverts_delta_on_the_private_side(rng):
    epsilon = 10 ** rng.uniform(-5, 4, 1000)
    epsilon[::10] = 0.0
    delta = 10 ** rng.uniform(-30, -0.01, 1000)
    reached = gaussian_delta(mu_from_epsilon_delta(epsilon, delta), epsilon)
    assert (reached <= delta).all()
    assert (reached >= delta * (1 - 1e-6)).all()


def test_round_trips():
    mu = np.array([0.01, 0.3, 1.0, 5.0, 40.0])
    for delta in (1e-30, 1e-6, 1e-3):
        np.testing.assert_allclose(
            mu_from_epsilon_delta(gaussian_epsilon(mu, delta), delta), mu, rtol=1e-8
        )
    np.testing.assert_allclose(
        gaussian_epsilon(1.7, gaussian_delta(1.7, [0.5, 3.0, 20.0])), [0.5, 3.0, 20.0], rtol=1e-8
    )


def test_limits_of_the_inverses():
    np.testing.assert_array_equal(
        gaussian_epsilon([0.0, 0.0, 1.0, np.inf, 1.0, np.inf], [0.0, 0.1, 0.0, 0.5, 1.0, 1.0]),
        [0.0, 0.0, np.inf, np.inf, 0.0, 0.0],
    )
    np.testing.assert_array_equal(
        mu_from_epsilon_delta([1.0, np.inf, 1.0, np.inf], [0.0, 0.0, 1.0, 0.5]),
        [0.0, np.inf, np.inf, np.inf],
    )
    assert mu_from_epsilon_delta(0.0, 0.5) == pytest.approx(2 * norm.ppf(0.75), rel=1e-8)


def test_inverses_are_monotone():
    mu = np.linspace(0.01, 5.0, 500)
    epsilon = gaussian_epsilon(mu, 1e-5)
    assert (np.diff(epsilon) > 0).all()
    delta = np.logspace(-12, -0.5, 500)
    assert (np.diff(gaussian_epsilon(1.0, delta)) <= 0).all()
    assert (np.diff(mu_from_epsilon_delta(1.0, delta)) > 0).all()
    assert (np.diff(mu_from_epsilon_delta(np.linspace(0, 5, 500), 1e-5)) > 0).all()


@pytest.mark.parametrize("epsilon, delta", [(0.1, 1e-6), (1.0, 1e-5), (4.0, 1e-2), (30.0, 1e-9)])
def test_calibrated_noise_meets_its_target_by_brute_force(epsilon, delta):
    sensitivity = 0.37
    sigma = gaussian_noise_scale(sensitivity, epsilon=epsilon, delta=delta)
    # Two neighboring releases, and every half-line an adversary could bet on.
    best = sensitivity / 2 + sigma**2 * epsilon / sensitivity
    t = best + sigma * np.linspace(-0.5, 0.5, 20_001)
    log_p, log_q = norm.logsf(t, sensitivity, sigma), norm.logsf(t, 0.0, sigma)
    reached = np.max(np.exp(log_p) * -np.expm1(epsilon + log_q - log_p))
    assert reached == pytest.approx(delta, rel=1e-6)
    assert reached <= delta
    # Not by chance: noise smaller by a millionth breaks the promise.
    assert gaussian_delta(sensitivity / (sigma * (1 - 1e-6)), epsilon) > delta


@pytest.mark.slow
def test_calibrated_noise_meets_its_target_in_simulation(rng):
    epsilon, delta, n = 0.5, 0.05, 4_000_000
    mu = 1.0 / gaussian_noise_scale(1.0, epsilon=epsilon, delta=delta)
    loss = 0.5 * mu**2 + mu * rng.standard_normal(n)
    shortfall = np.where(loss > epsilon, -np.expm1(epsilon - loss), 0.0)
    assert shortfall.mean() == pytest.approx(delta, abs=4 * shortfall.std() / math.sqrt(n))


def test_noise_for_a_target_in_mu_is_never_too_small(rng):
    sensitivity, mu = rng.uniform(0.01, 3, 5000), rng.uniform(0.01, 3, 5000)
    scale = gaussian_noise_scale(sensitivity, mu=mu)
    assert (sensitivity / scale <= mu).all()
    np.testing.assert_allclose(scale, sensitivity / mu, rtol=1e-15)
    assert gaussian_noise_scale(0.0, mu=1.0) == 0.0


def test_known_calibrations():
    # Bisection of Balle and Wang's equation in arithmetic of 60 digits.
    known = {
        (1.0, 1e-5): 3.7306316348159,
        (0.1, 1e-6): 36.304690426196,
        (8.0, 1e-9): 0.79223704980409,
    }
    for (epsilon, delta), sigma in known.items():
        got = gaussian_noise_scale(1.0, epsilon=epsilon, delta=delta)
        assert got == pytest.approx(sigma, rel=1e-9)
    # The classical noise sqrt(2 log(1.25/delta))/epsilon is sufficient below epsilon 1.
    for epsilon in (0.1, 0.5, 0.99):
        classical = math.sqrt(2 * math.log(1.25 / 1e-6)) / epsilon
        assert gaussian_noise_scale(1.0, epsilon=epsilon, delta=1e-6) < classical


def test_order_two_divergence_of_output_perturbation_on_mnist():
    # [DRA22] 7.1 prints its square root, 1.58.
    sensitivity = output_perturbation_sensitivity(1.0, 1.0, 12_665, 0.01)
    assert rdp(sensitivity / 0.01, 2) == pytest.approx(2.49, abs=5e-3)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 7.0])
def test_renyi_divergence_agrees_with_its_integral(order):
    mu = 0.6
    if order == 1.0:
        value = quad(lambda z: norm.pdf(z, mu) * (mu * z - mu**2 / 2), -20, 20)[0]
    else:
        integral = quad(
            lambda z: math.exp(order * norm.logpdf(z, mu) + (1 - order) * norm.logpdf(z)), -20, 20
        )[0]
        value = math.log(integral) / (order - 1)
    assert rdp(mu, order) == pytest.approx(value, rel=1e-8)


def test_renyi_divergence_broadcasts():
    np.testing.assert_array_equal(rdp([[1.0], [2.0]], [1, 2, 4]), [[0.5, 1, 2], [2, 4, 8]])
    assert rdp(0.0, 5) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("multiplier", [0.4, 1.0, 3.0, 20.0])
def test_agrees_with_both_accountants_of_dp_accounting(multiplier):
    dp = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    renyi = pytest.importorskip("dp_accounting.rdp")
    mu, event = 1.0 / multiplier, dp.GaussianDpEvent(multiplier)
    exact = pld.PLDAccountant().compose(event)
    bound = renyi.RdpAccountant(orders=[2.0, 8.0, 64.0]).compose(event)
    np.testing.assert_allclose(rdp(mu, [2, 8, 64]), bound.rdp, rtol=1e-12)
    for delta in (1e-3, 1e-6, 1e-10):
        epsilon = gaussian_epsilon(mu, delta)
        assert exact.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3, abs=2e-4)
        assert epsilon <= bound.get_epsilon(delta) + 1e-9
    for epsilon in (0.0, 0.5, 2.0):
        assert exact.get_delta(epsilon) == pytest.approx(gaussian_delta(mu, epsilon), rel=1e-3)


def test_shapes_are_kept_and_inputs_untouched():
    mu = np.array([[0.5, 1.0], [2.0, 0.0]])
    kept = mu.copy()
    assert gaussian_delta(mu, 1).shape == gaussian_epsilon(mu, 1e-5).shape == (2, 2)
    assert mu_from_epsilon_delta(mu, 1e-5).shape == (2, 2)
    assert gaussian_delta(np.empty(0), 1).shape == (0,)
    np.testing.assert_array_equal(mu, kept)
    assert isinstance(gaussian_epsilon(1, 0.1), float)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rdp(-1.0, 2), "`mu` must be at least 0; got -1"),
        (lambda: rdp(1.0, 0.5), "`order` must be at least 1 and finite; got 0.5"),
        (lambda: gaussian_delta(np.nan, 1), "`mu` must be at least 0; got nan"),
        (lambda: gaussian_delta(1.0, [1, -1]), "`epsilon` must be at least 0; got -1"),
        (lambda: gaussian_epsilon(1.0, 1.5), r"`delta` must lie in \[0, 1\]; got 1.5"),
        (lambda: mu_from_epsilon_delta(1.0, -0.1), r"`delta` must lie in \[0, 1\]"),
        (lambda: mu_from_epsilon_delta(-1.0, 0.1), "`epsilon` must be at least 0; got -1"),
        (lambda: gaussian_noise_scale(1.0), "`mu` alone, or `epsilon` and `delta` together"),
        (lambda: gaussian_noise_scale(1.0, epsilon=1.0), "got mu=None, epsilon=1.0, delta=None"),
        (lambda: gaussian_noise_scale(1.0, mu=1, delta=0.1), "got mu=1, epsilon=None, delta=0.1"),
        (lambda: gaussian_noise_scale(1.0, mu=0.0), "`mu` must be above 0 and finite; got 0. No"),
        (
            lambda: gaussian_noise_scale(1.0, epsilon=1.0, delta=0.0),
            r"`delta` must lie in \(0, 1\); got 0",
        ),
        (
            lambda: gaussian_noise_scale(1.0, epsilon=np.inf, delta=0.1),
            "`epsilon` must be at least 0 and finite; got inf",
        ),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_not_a_number_is_a_type_error():
    with pytest.raises(TypeError, match="`mu` must be a number or an array of numbers"):
        gaussian_delta("large", 1.0)
