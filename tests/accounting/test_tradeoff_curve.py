"""Trade-off curves from profiles, and from the objects of other libraries."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from skleak.accounting import gaussian_delta, tradeoff_curve
from skleak.accounting.subsampled import SubsampledGaussian
from skleak.bounds import curve_advantage, dp_advantage, gdp_advantage

RATES = np.array([1e-6, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9])


@pytest.mark.slow
def test_a_profile_gives_the_curve_from_below():
    for mu in (1e-3, 0.05, 1.0, 4.0):
        alpha, beta = tradeoff_curve(lambda epsilon, mu=mu: gaussian_delta(mu, epsilon))
        exact = ndtr(ndtri(1.0 - RATES) - mu)
        found = np.interp(RATES, alpha, beta)
        assert np.all(found <= exact)
        assert np.all(found >= exact - 3e-5)
        # What little such a release tells is not lost among the corners.
        exact = gdp_advantage(mu, 2)
        bound = curve_advantage(alpha, beta, 2, between="linear")
        assert exact <= bound <= exact * 1.0001 + 1e-10


def test_a_polygon_is_its_own_curve():
    epsilon, delta = 1.2, 0.01

    def profile(loss):
        rest = 1.0 - (1.0 - delta) * (1.0 + math.exp(loss)) / (1.0 + math.exp(epsilon))
        return max(delta, rest)

    curve = tradeoff_curve(profile)
    for prior in (2, 5, [0.7, 0.2, 0.1]):
        found = curve_advantage(*curve, prior, between="linear")
        assert found == pytest.approx(dp_advantage(epsilon, delta, prior), abs=1e-4)
        assert found >= dp_advantage(epsilon, delta, prior) - 1e-9


@pytest.mark.slow
def test_objects_of_other_libraries():
    dp = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld")
    renyi = pytest.importorskip("dp_accounting.rdp")
    distribution = pld.privacy_loss_distribution.from_gaussian_mechanism(2.0)

    class OfRiskcal:
        """As its `CTDAccountant` is asked."""

        def get_pld(self, grid_step=1e-4, use_connect_dots=True):
            return distribution

    event = dp.GaussianDpEvent(2.0)
    accountants = [pld.PLDAccountant().compose(event), renyi.RdpAccountant().compose(event)]
    exact = ndtr(ndtri(1.0 - RATES) - 0.5)
    for guarantee, loss in zip(
        (distribution, OfRiskcal(), *accountants), (1e-5, 1e-5, 1e-5, 0.2), strict=True
    ):
        found = np.interp(RATES, *tradeoff_curve(guarantee))
        assert np.all(found <= exact)
        assert np.all(found >= exact - loss)


def test_two_laws_give_a_curve_for_both_orders():
    pld = pytest.importorskip("dp_accounting.pld").privacy_loss_distribution
    lower, upper = {0: 0.9, 1: 0.1}, {0: 0.5, 1: 0.5}
    logs = [{key: math.log(value) for key, value in law.items()} for law in (lower, upper)]
    made = pld.from_two_probability_mass_functions(*logs, symmetric=False)
    alpha, beta = tradeoff_curve(made)
    # Rejecting outcome 1 or outcome 0, of either law against the other.
    for rate, miss in ((0.1, 0.5), (0.5, 0.1)):
        assert np.interp(rate, alpha, beta) <= miss + 1e-9
    assert np.interp(0.1, alpha, beta) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.slow
def test_riskcal_agrees():
    pytest.importorskip("dp_accounting")
    accountants = pytest.importorskip("riskcal.accountants")
    accountant = accountants.CTDAccountant()
    for _ in range(10):
        accountant.step(noise_multiplier=0.8, sample_rate=0.2)
    alpha, beta = tradeoff_curve(accountant)
    theirs = accountant.get_beta(alpha=RATES)
    own = SubsampledGaussian(0.8, 0.2, 10).curve()
    for curve in ((alpha, beta), own):
        found = np.interp(RATES, *curve)
        np.testing.assert_allclose(found[RATES >= 1e-3], theirs[RATES >= 1e-3], atol=2e-5)
        # Its own curve pairs the laws of adding and of removing, and is above the truth far out.
        assert np.all(found <= theirs)


@pytest.mark.slow
def test_the_far_end_of_a_curve_is_not_too_high():
    """One step, in closed form: a record that is found once in a million false alarms."""
    pytest.importorskip("dp_accounting")
    curve = SubsampledGaussian(0.8, 0.2, 1).curve()
    rates = np.array([1e-9, 1e-7, 1e-5, 1e-3])
    exact = 0.8 * rates + 0.2 * ndtr(1.25 - ndtri(1.0 - rates))
    found = 1.0 - np.interp(rates, *curve)
    assert np.all(found >= exact)
    np.testing.assert_allclose(found, exact, rtol=1e-3)


def test_other_objects_are_refused():
    for guarantee in (1.0, "pld", object(), float):
        with pytest.raises(TypeError, match="`guarantee` must be a privacy loss distribution"):
            tradeoff_curve(guarantee)
    for value in (-0.1, np.nan):
        with pytest.raises(ValueError, match="must give a delta of at least 0 at every"):
            tradeoff_curve(lambda epsilon, value=value: value)
