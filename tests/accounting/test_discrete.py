"""Discrete Gaussian noise: bounds against sums over the integers, and against OpenDP's own map."""

import numpy as np
import pytest
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import GLOBAL_FEATURES
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

from skleak.accounting import discrete_gaussian_epsilon, gaussian_delta, gaussian_epsilon
from skleak.accounting.discrete import (
    discrete_gaussian_cover,
    discrete_gaussian_delta,
    discrete_gaussian_mu,
    discrete_gaussian_rho,
    discrete_gaussian_total_variation,
    discretized_epsilon,
    rounded_sensitivity,
)

EPSILONS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0])


def integers(ratio):
    return np.arange(-int(45 / ratio), int(45 / ratio) + 1)


def discrete(ratio, center=0):
    """Probabilities of the integers at step over noise `ratio`."""
    weights = np.exp(-0.5 * (ratio * (integers(ratio) - center)) ** 2)
    return weights / np.exp(-0.5 * (ratio * integers(ratio)) ** 2).sum()


def rounded(ratio):
    """Probabilities of the integers under a rounded Gaussian."""
    z = np.abs(integers(ratio))
    return norm.sf(ratio * (z - 0.5)) - norm.sf(ratio * (z + 0.5))


@pytest.fixture
def contributed():
    before = set(GLOBAL_FEATURES)
    GLOBAL_FEATURES.add("contrib")
    yield
    GLOBAL_FEATURES.clear()
    GLOBAL_FEATURES.update(before)


class TestRounding:
    def test_no_pair_moves_further_apart(self, rng):
        for n_parameters in (1, 7, 200):
            for step in (1e-3, 0.5, 4.0):
                a = rng.normal(size=(50, n_parameters))
                b = a + rng.normal(size=(50, n_parameters)) * rng.exponential(size=(50, 1))
                moved = step * np.linalg.norm(np.rint(a / step) - np.rint(b / step), axis=1)
                bound = rounded_sensitivity(np.linalg.norm(a - b, axis=1), n_parameters, step)
                assert np.all(moved <= bound * (1 + 1e-12))

    def test_it_is_attained(self):
        a, b = np.full(9, 0.5 - 1e-9), np.full(9, 0.5 + 1e-9)
        moved = np.linalg.norm(np.rint(b + 1.0) - np.rint(a))
        np.testing.assert_allclose(
            moved, rounded_sensitivity(np.linalg.norm(b + 1.0 - a), 9, 1.0), rtol=1e-8
        )

    def test_the_published_size(self):
        # A grid of 2^-20 of the noise adds 2.7e-5 to mu at 785 parameters.
        added = rounded_sensitivity(1.0, 785, 2.0**-20) - 1.0
        np.testing.assert_allclose(added, 2.7e-5, rtol=0.02)


class TestRho:
    @pytest.mark.parametrize("mu", [0.01, 1.0, 20.0])
    @pytest.mark.parametrize("n_parameters", [1, 785])
    def test_it_is_that_of_opendp_in_units_of_the_step(self, mu, n_parameters, contributed):
        scale = 2.0**30
        space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
        measurement = make_gaussian(*space, scale=scale)
        distance = rounded_sensitivity(mu * scale, n_parameters, 1.0)
        rho = discrete_gaussian_rho(mu, n_parameters=n_parameters)
        np.testing.assert_allclose(rho, measurement.map(distance), rtol=1e-12)
        assert not rho < 0.5 * mu**2

    @pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0])
    @pytest.mark.parametrize("shift", [1, 4])
    @pytest.mark.parametrize("order", [1.5, 2.0, 10.0])
    def test_renyi_divergence_of_two_integers(self, ratio, shift, order):
        z = integers(ratio)
        log_ratio = 0.5 * ratio**2 * ((z - shift) ** 2 - z**2)
        normalizer = np.exp(-0.5 * (ratio * z) ** 2).sum()
        exponents = -0.5 * (ratio * z) ** 2 - order * log_ratio
        divergence = (logsumexp(exponents) - np.log(normalizer)) / (order - 1.0)
        rho = discrete_gaussian_rho(
            (shift - 1) * ratio, n_parameters=1, relative_step=ratio
        )  # the step that rounding may add
        assert divergence <= order * rho * (1 + 1e-9)


class TestTotalVariation:
    @pytest.mark.parametrize("ratio", [1e-3, 0.01, 0.05, 0.1, 0.3, 0.6, 0.8, 1.0])
    def test_bound_over_the_whole_range(self, ratio):
        exact = 0.5 * np.abs(discrete(ratio) - rounded(ratio)).sum()
        assert exact <= discrete_gaussian_total_variation(1, ratio)
        assert exact >= 0.47 * discrete_gaussian_total_variation(1, ratio)
        if ratio <= 0.05:
            assert exact <= 0.0202 * ratio**2
            np.testing.assert_allclose(exact, 0.02016 * ratio**2, rtol=1e-3)

    def test_two_parameters(self):
        ratio = 0.3
        exact = 0.5 * np.abs(
            np.outer(discrete(ratio), discrete(ratio)) - np.outer(rounded(ratio), rounded(ratio))
        )
        assert exact.sum() <= discrete_gaussian_total_variation(2, ratio)

    def test_at_the_step_in_use_it_is_nothing(self):
        assert discrete_gaussian_total_variation(7850) < 1.5e-16
        assert discrete_gaussian_total_variation(1e9, 1.0) == 1.0


@pytest.mark.parametrize("ratio", [0.003, 0.01, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("shift", [1, 3, 10])
def test_pointwise_comparison(ratio, shift):
    """exp(-r^2/24) <= g/d <= c exp(r^2 x^2 / 24): the whole proof rests on it."""
    z = integers(ratio)
    near = np.abs(ratio * z) < 30.0
    d, g = discrete(ratio)[near], rounded(ratio)[near]
    x = ratio * z[near]
    c = 1.0 + 2.0 * np.exp(-2.0 * (np.pi / ratio) ** 2 * np.arange(1, 4) ** 2).sum()
    slack = 1e-9  # of the normal tail
    assert np.all(g >= d * np.exp(-(ratio**2) / 24) * (1 - slack))
    assert np.all(g <= d * c * np.exp((ratio * x) ** 2 / 24) * (1 + slack))


class TestEpsilonDelta:
    @pytest.mark.parametrize("ratio", [0.003, 0.01, 0.05, 0.2, 1.0])
    @pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
    def test_one_parameter(self, ratio, mu):
        # Two values that far apart land this many steps apart, in the worst place.
        shift = int(np.ceil(mu / ratio))
        p, q = discrete(ratio, shift), discrete(ratio)
        exact = np.maximum(p - np.exp(EPSILONS)[:, None] * q, 0.0).sum(axis=1)
        bound = discrete_gaussian_delta(mu, EPSILONS, n_parameters=1, relative_step=ratio)
        assert np.all(exact <= bound)
        if ratio == 0.003:
            np.testing.assert_allclose(bound[exact > 1e-3], exact[exact > 1e-3], rtol=0.08)

    @pytest.mark.parametrize("shifts", [(1, 1), (3, 1), (2, 0)])
    def test_two_parameters(self, shifts):
        ratio = 0.1
        p = np.outer(*[discrete(ratio, shift) for shift in shifts])
        q = np.outer(discrete(ratio), discrete(ratio))
        mu = ratio * max(np.hypot(*shifts) - np.sqrt(2), 0.0)
        for epsilon in EPSILONS[:5]:
            exact = np.maximum(p - np.exp(epsilon) * q, 0.0).sum()
            assert exact <= discrete_gaussian_delta(
                mu, epsilon, n_parameters=2, relative_step=ratio
            )

    def test_delta_is_that_of_the_proof(self):
        """On coarse grids too, where the slack counts: the formula of the module's docstring."""
        mu, epsilon, reach = 1.0, 3.0, 37.0
        for ratio, p in ((0.01, 400), (0.3, 2), (1.0, 1)):
            distance = mu + np.sqrt(p) * ratio
            c = 1.0 + 2.0 * np.exp(-2.0 * (np.pi / ratio) ** 2 * np.arange(1, 4) ** 2).sum()
            total = np.sqrt(p) * (1.0 + ratio / 2.0) + distance + reach
            slack = (p + total**2) * ratio**2 / 24.0 + p * np.log(c)
            # Left of zero the curve rises by no more than the argument falls.
            near = gaussian_delta(distance, max(epsilon - slack, 0.0)) + max(slack - epsilon, 0.0)
            bound = np.exp(p * ratio**2 / 24.0) * (near + np.exp(-0.5 * reach**2))
            found = discrete_gaussian_delta(mu, epsilon, n_parameters=p, relative_step=ratio)
            assert found == pytest.approx(min(bound, 1.0), rel=1e-9)

    def test_the_gaussian_itself_would_be_too_small(self):
        # Why mu-GDP is not claimed: at the same distance the discrete Gaussian can be worse.
        ratio = 0.05
        exact = np.maximum(discrete(ratio, 20) - np.exp(8.0) * discrete(ratio, 0), 0.0).sum()
        near = np.maximum(discrete(ratio, 1) - np.exp(0.1) * discrete(ratio), 0.0).sum()
        assert near > gaussian_delta(ratio, 0.1)
        assert exact < discrete_gaussian_delta(1.0, 8.0, n_parameters=1, relative_step=ratio)

    @pytest.mark.parametrize("n_parameters", [1, 785, 7850])
    @pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
    def test_on_the_grid_in_use_it_is_gaussian_to_six_digits(self, n_parameters, mu):
        delta = discrete_gaussian_delta(mu, EPSILONS, n_parameters=n_parameters)
        gaussian = gaussian_delta(mu + np.sqrt(n_parameters) * 2.0**-30, EPSILONS)
        assert np.all(delta >= gaussian * (1 - 1e-12))
        np.testing.assert_allclose(delta, gaussian, rtol=1e-6, atol=1e-14)
        # The bound by total variation, which fails at large epsilon.
        crude = 0.0202 * 2.0**-60 * n_parameters * (1 + np.exp(EPSILONS))
        assert np.all(delta <= gaussian * (1 + 1e-9) + crude + 1e-14)
        epsilon = discrete_gaussian_epsilon(mu, 1e-6, n_parameters=n_parameters)
        np.testing.assert_allclose(epsilon, gaussian_epsilon(mu, 1e-6), atol=1e-5)

    @pytest.mark.parametrize("relative_step", [2.0**-30, 1e-4])
    def test_inverses(self, relative_step):
        options = {"n_parameters": 100, "relative_step": relative_step}
        for mu in (0.3, 2.0, 40.0):
            for delta in (1e-12, 1e-5, 0.3):
                epsilon = discrete_gaussian_epsilon(mu, delta, **options)
                back = discrete_gaussian_delta(mu, epsilon, **options)
                assert back <= delta * (1 + 1e-9)
                if epsilon > 1e-5:  # else even epsilon = 0 leaves delta to spare
                    np.testing.assert_allclose(back, delta, rtol=1e-6)
        for epsilon in (0.0, 0.5, 3.0, 20.0):
            for delta in (1e-3, 0.2):
                mu = discrete_gaussian_mu(epsilon, delta, **options)
                assert mu > 0.0
                back = discrete_gaussian_delta(mu, epsilon, **options)
                assert back <= delta
                np.testing.assert_allclose(back, delta, rtol=1e-3)

    def test_several_releases_are_one(self):
        # mu and parameters of two releases add up to no less than their sum as rounded.
        steps = np.array([2.0**-30, 2.0**-31])
        mu, count = np.array([0.5, 1.2]), np.array([3, 500])
        each = mu + np.sqrt(count) * steps
        total = np.linalg.norm(mu) + np.sqrt(count.sum()) * steps.max()
        assert np.linalg.norm(each) <= total

    def test_limits(self):
        options = {"n_parameters": 3}
        assert discrete_gaussian_delta(np.inf, 1.0, **options) == 1.0
        assert np.isinf(discrete_gaussian_epsilon(np.inf, 1e-3, **options))
        assert np.isinf(discrete_gaussian_epsilon(1.0, 0.0, **options))
        assert discrete_gaussian_mu(1.0, 0.0, **options) == 0.0
        assert discrete_gaussian_mu(0.0, 1e-12, **options) == 0.0
        assert discrete_gaussian_delta([0.1, 1.0], 1.0, n_parameters=[5, 6]).shape == (2,)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (discrete_gaussian_delta, (1.0, np.inf), "`epsilon` must be at least 0 and finite"),
        (discrete_gaussian_epsilon, (1.0, 1.5), r"`delta` must lie in \[0, 1\]"),
        (discrete_gaussian_mu, (1.0, 1.0), r"`delta` must lie in \[0, 1\)"),
        (discrete_gaussian_rho, (-1.0,), "`mu` must be at least 0"),
    ],
)
def test_bad_arguments(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments, n_parameters=3)
    good = (0.5,) * len(arguments)
    with pytest.raises(ValueError, match="`n_parameters` must be at least 1"):
        function(*good, n_parameters=0)
    for relative_step in (0.0, 1.5):
        with pytest.raises(ValueError, match=r"`relative_step` must lie in \(0, 1\]"):
            function(*good, n_parameters=3, relative_step=relative_step)


def test_gaussian_noise_that_covers_the_grid_is_no_more_private():
    epsilon = np.linspace(0.0, 40.0, 400)
    for mu in (1e-7, 1e-3, 0.3, 1.0, 7.0):
        for count in (1, 785, 10**6):
            for ratio in (2.0**-30, 2.0**-24):
                sizes = {"n_parameters": count, "relative_step": ratio}
                cover = discrete_gaussian_cover(mu, **sizes)
                assert mu < cover < mu + 2.0 * np.sqrt(count) * ratio + 1e-12
                curve = discrete_gaussian_delta(mu, epsilon, **sizes)
                inside = (curve > 1e-280) & (curve < 0.5)
                above = gaussian_delta(cover, epsilon)
                assert np.all(above[inside] * (1.0 + 1e-9) >= curve[inside])


class TestDiscretized:
    """Steps on random batches: the whole record of them, number by number."""

    @staticmethod
    def laws(law, ratio, rate, shift, n_steps):
        """Probabilities of all records of one or two steps under either neighbor."""
        found = []
        for center in (shift, -shift):
            step = (1.0 - rate) * law(ratio, 0) + rate * law(ratio, center)
            found.append(step if n_steps == 1 else np.outer(step, step).ravel())
        return found

    @staticmethod
    def epsilon(laws, delta):
        p, q = laws

        def excess(epsilon):
            return np.maximum(p - np.exp(epsilon) * q, 0.0).sum() - delta

        return 0.0 if excess(0.0) <= 0.0 else float(brentq(excess, 0.0, 100.0))

    @pytest.mark.parametrize("n_steps", [1, 2])
    @pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
    @pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
    def test_it_bounds_the_truth(self, n_steps, ratio, rate):
        def gaussian(ratio, center):
            return np.roll(rounded(ratio), center)

        shift = int(1.0 / ratio)
        exact, assumed = (
            self.laws(law, ratio, rate, shift, n_steps) for law in (discrete, gaussian)
        )
        for delta in (1e-1, 1e-3, 1e-6):
            bound = discretized_epsilon(
                lambda failure: self.epsilon(assumed, failure),
                delta,
                n_parameters=1,
                n_steps=n_steps,
                relative_step=ratio,
            )
            assert self.epsilon(exact, delta) <= bound

    def test_the_slack_is_that_of_the_proof(self):
        p, steps, ratio, delta, plain = 7, 5, 0.25, 1e-4, 2.0
        seen = []

        def gaussian(failure):
            seen.append(failure)
            return plain

        bound = discretized_epsilon(
            gaussian, delta, n_parameters=p, n_steps=steps, relative_step=ratio
        )
        below = steps * p * ratio**2 / 24.0
        assert seen == [pytest.approx(delta * np.exp(-below))]
        reach = np.sqrt(p) * (1.0 + ratio / 2.0) + np.sqrt(2.0 * (plain + np.log(steps) + 700.0))
        c = 1.0 + 2.0 * np.exp(-2.0 * (np.pi / ratio) ** 2 * np.arange(1, 4) ** 2).sum()
        above = steps * (p * np.log(c) + (reach * ratio) ** 2 / 24.0)
        assert bound == pytest.approx(plain + below + above, rel=1e-12)
        fine = discretized_epsilon(
            gaussian, delta, n_parameters=785, n_steps=10**4, relative_step=2.0**-46
        )
        assert fine == plain
        assert discretized_epsilon(lambda _: np.inf, delta, n_parameters=1) == np.inf
        assert discretized_epsilon(gaussian, 1e-310, n_parameters=1) == np.inf
        with pytest.raises(ValueError, match="`n_steps` must be at least 1 and finite"):
            discretized_epsilon(gaussian, delta, n_parameters=1, n_steps=np.inf)
