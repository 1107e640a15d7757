"""Subsampled Gaussian noise: limits, an independent integral, and the Renyi bound."""

import sys

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from skleak.accounting import (
    LeakageLedger,
    gaussian_delta,
    gaussian_epsilon,
    subsampled_gaussian_rdp,
)
from skleak.accounting.subsampled import SubsampledGaussian


def subsampled_gaussian_epsilon(sigma, rate, n_steps, delta, **how):
    return SubsampledGaussian(sigma, rate, n_steps, **how).epsilon(delta)


def subsampled_gaussian_tradeoff(sigma, rate, n_steps, **how):
    return SubsampledGaussian(sigma, rate, n_steps, **how).curve()


def subsampled_gaussian_mu(sigma, rate, n_steps, delta, relation="add-or-remove", **how):
    sampling = how.pop("sampling", "poisson")
    return SubsampledGaussian(sigma, rate, n_steps, relation, sampling).mu(delta, **how)


@pytest.fixture
def dp():
    pytest.importorskip("dp_accounting.pld")
    return pytest.importorskip("dp_accounting")


@pytest.mark.usefixtures("dp")
def test_without_subsampling_it_is_the_composed_gaussian():
    exact = gaussian_epsilon(np.sqrt(10) / 4.0, 1e-6)
    assert subsampled_gaussian_epsilon(4.0, 1.0, 10, 1e-6) == pytest.approx(exact, rel=1e-3)
    # Replacing a record moves the sum twice as far.
    twice = gaussian_epsilon(2 * np.sqrt(10) / 4.0, 1e-6)
    got = subsampled_gaussian_epsilon(4.0, 1.0, 10, 1e-6, relation="replace")
    assert got == pytest.approx(twice, rel=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("dp")
def test_batches_of_a_fixed_size():
    """Full ones are no sample; one step is its bound; many cost less than by Renyi divergences."""
    twice = gaussian_epsilon(2 * np.sqrt(10) / 4.0, 1e-6)
    at = {"relation": "replace", "sampling": "fixed"}
    got = subsampled_gaussian_epsilon(4.0, 1.0, 10, 1e-6, **at)
    assert twice * (1.0 - 1e-9) <= got <= twice * 1.001
    for sigma, rate, delta in ((0.8, 0.2, 1e-4), (2.0, 0.01, 1e-6), (1.0, 0.01, 1e-5)):
        one = subsampled_gaussian_epsilon(sigma, rate, 1, delta, **at)
        # The guarantee of all of Gaussian noise, amplified (Balle, Barthe, Gaboardi 2018).
        whole = gaussian_epsilon(2.0 / sigma, delta / rate)
        assert one == pytest.approx(np.log1p(rate * np.expm1(whole)), rel=1e-3)
        poisson = subsampled_gaussian_epsilon(sigma, rate, 1, delta, relation="replace")
        assert one > poisson
        orders = np.r_[1.1:10:0.1, 10:64]
        renyi = subsampled_gaussian_rdp(sigma, rate, 200, orders, sampling="fixed")
        by_renyi = np.min(renyi + np.log(1.0 / delta) / (orders - 1.0))
        assert subsampled_gaussian_epsilon(sigma, rate, 200, delta, **at) < by_renyi
    curve = subsampled_gaussian_tradeoff(0.8, 0.2, 1, **at)
    # One gradient for its opposite, where the opposite has the place in the batch otherwise.
    cuts = np.linspace(-3.0, 5.0, 100)
    present = 0.8 * norm.sf(cuts, 0.0, 0.8) + 0.2 * norm.sf(cuts, 2.0, 0.8)
    absent = norm.sf(cuts, 0.0, 0.8)
    assert np.all(np.interp(absent, *curve) <= 1.0 - present + 1e-9)
    assert np.all(np.interp(1.0 - present, *curve) <= absent + 1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("dp")
def test_hardly_any_noise():
    """Whoever takes part is known, and nobody else: no more memory is asked for than there is."""
    for sampling in ("poisson", "fixed"):
        at = {"relation": "replace", "sampling": sampling}
        alpha, beta = subsampled_gaussian_tradeoff(1e-3, 0.1, 2, **at)
        power = 1.0 - np.interp(0.0, alpha, beta)
        # In one of two batches with probability 0.19.
        assert 0.19 - 1e-9 <= power <= 0.1901
        assert subsampled_gaussian_epsilon(1e-3, 0.1, 2, 1e-6, **at) > 1e5


def test_a_fixed_size_is_known_under_replacement_alone():
    with pytest.raises(ValueError, match="must be 'replace' where batches have a fixed size"):
        subsampled_gaussian_epsilon(1.0, 0.1, 1, 0.1, sampling="fixed")


@pytest.mark.slow
@pytest.mark.usefixtures("dp")
@pytest.mark.parametrize("relation", mostly_slow(["add-or-remove", "replace"], 1))
def test_one_step_is_never_below_the_integral(relation):
    sigma, rate, delta = 0.8, 0.2, 1e-4
    epsilon = subsampled_gaussian_epsilon(sigma, rate, 1, delta, relation=relation)
    x = np.linspace(-12, 13, 400_001)
    base, moved, away = (norm.pdf(x, m, sigma) for m in (0.0, 1.0, -1.0))
    one = (1 - rate) * base + rate * moved
    other = base if relation == "add-or-remove" else (1 - rate) * base + rate * away

    def shortfall(e):
        gaps = (one - np.exp(e) * other, other - np.exp(e) * one)
        return max(np.maximum(gap, 0.0).sum() * (x[1] - x[0]) for gap in gaps)

    assert shortfall(epsilon) <= delta * (1 + 1e-6)
    assert shortfall(epsilon - 0.01) > delta


@pytest.mark.slow
def test_is_below_the_renyi_bound_and_monotone(dp):
    renyi = pytest.importorskip("dp_accounting.rdp")
    step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    bound = renyi.RdpAccountant().compose(step, 500).get_epsilon(1e-5)
    epsilon = subsampled_gaussian_epsilon(1.0, 0.01, 500, 1e-5)
    assert 0.5 * bound < epsilon < bound
    assert subsampled_gaussian_epsilon(1.0, 0.01, 1000, 1e-5) > epsilon
    assert subsampled_gaussian_epsilon(1.5, 0.01, 500, 1e-5) < epsilon
    assert subsampled_gaussian_epsilon(1.0, 0.02, 500, 1e-5) > epsilon


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0.0, 0.1, 1, 0.1), "`noise_multiplier` must be above 0 and finite; got 0"),
        ((1.0, 0.0, 1, 0.1), r"`sampling_rate` must lie in \(0, 1\]; got 0"),
        ((1.0, 1.1, 1, 0.1), r"`sampling_rate` must lie in \(0, 1\]; got 1.1"),
        ((1.0, 0.1, 0, 0.1), "`n_steps` must be an integer of at least 1; got 0"),
        ((1.0, 0.1, 1.5, 0.1), "`n_steps` must be an integer of at least 1; got 1.5"),
        ((1.0, 0.1, 1, 0.0), r"`delta` must lie in \(0, 1\); got 0"),
        ((1.0, 0.1, 1, 1.0), r"`delta` must lie in \(0, 1\); got 1"),
    ],
)
def test_bad_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        subsampled_gaussian_epsilon(*arguments)


def test_unknown_relation_is_named():
    with pytest.raises(ValueError, match="must be one of 'add-or-remove', 'replace'; got 'swap'"):
        subsampled_gaussian_epsilon(1.0, 0.1, 1, 0.1, relation="swap")


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"pip install 'skleak\[accounting\]'"):
        subsampled_gaussian_epsilon(1.0, 0.1, 1, 0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("dp")
def test_curve_without_subsampling_is_that_of_the_gaussian_from_below():
    rates = np.array([1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9])
    for relation, mu in (("add-or-remove", np.sqrt(10) / 4.0), ("replace", np.sqrt(10) / 2.0)):
        found = np.interp(rates, *subsampled_gaussian_tradeoff(4.0, 1.0, 10, relation=relation))
        exact = ndtr(ndtri(1.0 - rates) - mu)
        assert np.all(found <= exact + 1e-12)
        assert np.all(found >= exact - 1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("dp")
def test_curve_of_one_step_is_below_every_test():
    sigma, rate = 0.8, 0.2
    alpha, beta = subsampled_gaussian_tradeoff(sigma, rate, 1)
    assert np.all(np.diff(alpha) > 0.0)
    assert np.all(np.diff(beta) <= 0.0)
    cuts = np.linspace(-3.0, 4.0, 200)
    present = (1 - rate) * norm.sf(cuts, 0.0, sigma) + rate * norm.sf(cuts, 1.0, sigma)
    absent = norm.sf(cuts, 0.0, sigma)
    # Added: reject above the cut; removed: reject below it.
    assert np.all(np.interp(absent, alpha, beta) <= 1.0 - present + 1e-12)
    assert np.all(np.interp(1.0 - present, alpha, beta) <= absent + 1e-12)


class TestMuUpToADelta:
    """The best tests are played: none has more than mu-GDP allows up to delta."""

    EPSILONS = np.linspace(-8.0, 12.0, 401)

    @staticmethod
    def laws(rate, distance, n_steps):
        """Probabilities of fine cells of all steps under opposite gradients; their sums lose."""
        edges = np.linspace(-12.0, 12.0, 24001 if n_steps == 1 else 1201)
        found = []
        for sign in (1.0, -1.0):
            mass = np.diff((1.0 - rate) * ndtr(edges) + rate * ndtr(edges - sign * distance))
            found.append(mass if n_steps == 1 else np.outer(mass, mass).ravel())
        return found

    def curve(self, laws):
        """Sums over the cells in which p is more than exp(epsilon) q, from the right."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(laws[0] > 0.0, np.log(laws[0]) - np.log(laws[1]), -np.inf)
        order = np.argsort(-ratio)
        sums = [np.append(0.0, np.cumsum(law[order], dtype=np.longdouble)) for law in laws]
        p, q = (own[np.searchsorted(-ratio[order], -self.EPSILONS)] for own in sums)
        return (p - np.exp(self.EPSILONS) * q).astype(float)

    def allowed(self, mu, delta):
        e = self.EPSILONS
        above = gaussian_delta(mu, np.abs(e))
        return delta + (1.0 - delta) * np.where(e < 0.0, -np.expm1(e) + np.exp(e) * above, above)

    @pytest.mark.usefixtures("dp")
    @pytest.mark.parametrize("n_steps", mostly_slow([1, 2]))
    @pytest.mark.parametrize(
        "rate, distance, delta",
        mostly_slow(
            [
                (0.01, 1.0, 1e-6),
                (0.2, 1.0, 1e-3),
                (0.5, 2.0, 1e-8),
                (0.9, 1.0, 1e-5),
                (1.0, 0.5, 1e-6),
            ]
        ),
    )
    def test_no_test_has_more(self, rate, distance, delta, n_steps):
        mu = subsampled_gaussian_mu(1.0 / distance, rate, n_steps, delta, relation="replace")
        for laws in (self.laws(rate, distance, n_steps), self.laws(rate, distance, n_steps)[::-1]):
            curve = self.curve(laws)
            assert np.all(curve <= self.allowed(mu, delta) + 1e-13)
        # It is not much too large either: a smaller one is refuted.
        assert np.any(curve > self.allowed(0.97 * mu, delta))
        assert mu <= 2.0 * distance * np.sqrt(n_steps) * 1.001

    @pytest.mark.slow
    @pytest.mark.usefixtures("dp")
    def test_batches_of_a_fixed_size_and_the_other_relation(self):
        by_size = subsampled_gaussian_mu(2.0, 0.1, 2, 1e-6, relation="replace", sampling="fixed")
        poisson = subsampled_gaussian_mu(2.0, 0.1, 2, 1e-6, relation="replace")
        added = subsampled_gaussian_mu(2.0, 0.1, 2, 1e-6)
        assert added < poisson < by_size
        edges = np.linspace(-12.0, 12.0, 24001)
        p, q = np.diff(0.9 * ndtr(edges) + 0.1 * ndtr(edges - 0.5)), np.diff(ndtr(edges))
        mu = subsampled_gaussian_mu(2.0, 0.1, 1, 1e-6)
        for laws in ((p, q), (q, p)):
            assert np.all(self.curve(laws) <= self.allowed(mu, 1e-6) + 1e-13)

    @pytest.mark.usefixtures("dp")
    @pytest.mark.parametrize("ratio", mostly_slow([0.02, 0.1]))
    def test_noise_on_a_grid(self, ratio):
        """Every number that discrete noise can give, with gradients of whole steps."""
        k, shift, delta = np.arange(-int(30 / ratio), int(30 / ratio) + 1), int(1.0 / ratio), 1e-6
        at = {c: np.exp(-0.5 * (ratio * (k - c)) ** 2) for c in (0, shift, -shift)}
        p, q = (0.9 * at[0] + 0.1 * at[c] for c in (shift, -shift))
        laws = p / at[0].sum(), q / at[0].sum()
        grid = {"n_parameters": 1, "relative_step": ratio}
        mu = subsampled_gaussian_mu(1.0, 0.1, 1, delta, relation="replace", **grid)
        assert np.all(self.curve(laws) <= self.allowed(mu, delta) + 1e-13)
        plain = subsampled_gaussian_mu(1.0, 0.1, 1, delta, relation="replace")
        assert plain <= mu
        fine = {"n_parameters": 100, "relative_step": 2.0**-30}
        fine_mu = subsampled_gaussian_mu(1.0, 0.1, 1, delta, relation="replace", **fine)
        assert fine_mu == pytest.approx(plain, rel=1e-6)

    @pytest.mark.slow
    def test_a_ledger_of_two_trainings_states_no_less_than_their_composition(self, dp):
        import dp_accounting.pld as pld

        runs = {(1.0, 0.01, 1000): 3.2142, (2.0, 0.05, 200): 3.3178, (0.7, 0.01, 500): 4.9844}
        curves = {}
        for (sigma, rate, n), epsilon in runs.items():
            curves[sigma] = pld.privacy_loss_distribution.from_gaussian_mechanism(
                sigma,
                value_discretization_interval=2e-4,
                sampling_prob=rate,
                neighboring_relation=dp.NeighboringRelation.REPLACE_ONE,
            ).self_compose(n)
            assert curves[sigma].get_epsilon_for_delta(1e-6) == pytest.approx(epsilon, rel=0.01)
        ledger = LeakageLedger(":memory:", delta=1e-6)

        def train(name, run):
            mu = subsampled_gaussian_mu(*run, 1e-9, relation="replace")
            return ledger.record(name, [1.0], mu=mu, mu_delta=1e-9).epsilon

        for run, epsilon in runs.items():
            assert epsilon <= train(f"{run}", run) <= 1.2 * epsilon
        for first, second in ((0, 1), (1, 2), (0, 2)):
            pair = list(runs)[first], list(runs)[second]
            spent = [train(f"{first} {second}", run) for run in pair][-1]
            both = curves[pair[0][0]].compose(curves[pair[1][0]]).get_epsilon_for_delta(1e-6)
            # The curves here are coarser, and err upward by about 0.001.
            assert both * 0.998 <= spent <= 1.25 * both

    @pytest.mark.slow
    @pytest.mark.usefixtures("dp")
    def test_where_round_off_hides_the_curve_there_is_none(self):
        assert subsampled_gaussian_mu(1e-2, 0.2, 2, 1e-6) == np.inf
        assert subsampled_gaussian_mu(1.0, 0.1, 10, 1e-11) == np.inf
        assert subsampled_gaussian_mu(1.0, 0.1, 10, 2e-11) < np.inf
        for delta in (0.0, 1.0):
            with pytest.raises(ValueError, match="`delta` must lie in"):
                subsampled_gaussian_mu(1.0, 0.1, 10, delta)
