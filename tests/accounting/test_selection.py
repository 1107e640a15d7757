"""The best of a random number of trials, against exact games and sums by hand."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from skleak.accounting.gaussian import gaussian_delta, gaussian_epsilon, mu_from_epsilon_delta
from skleak.accounting.selection import (
    _law,
    _log_ratio,
    draw_trials,
    mean_trials,
    selection_delta,
    selection_mu,
    trial_mu,
    trials_gamma,
)

LAWS = [(eta, trials_gamma(eta, mean)) for eta in (0.0, 1.0, 3.0) for mean in (2.0, 21.5)]
MUS, LOSSES = (0.03, 0.155, 0.5, 1.5), (0.0, 0.1, 0.4, 1.0, 2.5)


def _masses(eta, gamma, most=20_000):
    """Probabilities of 1, 2, ... trials, by the ratio of neighbors."""
    k = np.arange(1, most)
    masses = np.cumprod(np.append(1.0, (1.0 - gamma) * (k + eta) / (k + 1.0)))
    return masses / masses.sum()


def _better(eta, gamma, tail):
    """Chance that the best of all is in a tail of the scores that one trial has this chance of."""
    if eta == 0.0:
        return np.log1p(tail * (1.0 - gamma) / gamma) / -np.log(gamma)
    z = gamma + (1.0 - gamma) * tail
    return (gamma**-eta - z**-eta) / (gamma**-eta - 1.0)


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_law_of_the_number_of_trials(eta, gamma, rng):
    masses = _masses(eta, gamma)
    k = np.arange(1, len(masses) + 1)
    assert mean_trials(eta, gamma) == pytest.approx(masses @ k, rel=1e-9)
    tail = np.array([1e-4, 0.03, 0.5, 1.0])
    direct = 1.0 - ((1.0 - tail[:, None]) ** k) @ masses
    np.testing.assert_allclose(_better(eta, gamma, tail), direct, rtol=1e-9)
    number, chances = _law(eta, gamma)
    above = 1.0 - np.cumsum(masses)[number.astype(int)[:-1] - 1]
    np.testing.assert_allclose(np.cumsum(chances[::-1])[::-1][1:], above, rtol=1e-6, atol=1e-9)
    drawn = np.array([draw_trials(eta, gamma, rng) for _ in range(4000)])
    for most in (1, 3, 30):
        share, sd = masses[:most].sum(), 0.5 / np.sqrt(4000)
        assert abs(np.mean(drawn <= most) - share) < 5.0 * sd


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_largest_ratio_is_bounded_closely(eta, gamma):
    for mu in (1e-7, 1e-3, 0.2, 1.0, 6.0):
        u = np.linspace(-14.0 - mu, 10.0, 400_001)
        drop = ndtr(u + mu) - ndtr(u)
        largest = (1.0 + eta) * np.log1p(drop / (gamma / (1.0 - gamma) + ndtr(u))).max()
        bound = _log_ratio(mu, eta, gamma)
        assert largest * (1.0 - 1e-6) <= bound <= largest * (1.0 + 1e-5) + 1e-12


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_no_exact_game_passes_the_bound(eta, gamma):
    """The score is the output (120 settings), or one coordinate of it; or it is one bit."""
    x = np.linspace(-9.0, 11.0, 4001)
    winner = -np.diff(_better(eta, gamma, ndtr(-x)))
    tops = ndtr(np.linspace(-6.0, 3.0, 200))
    for mu, epsilon in itertools.product(MUS, LOSSES):
        bound = float(selection_delta(mu, epsilon, eta, gamma))
        for share in (1.0, -1.0):  # a higher score speaks for the one data set, or the other
            other = -np.diff(_better(eta, gamma, ndtr(-(x - share * mu))))
            game = np.maximum(winner - np.exp(epsilon) * other, 0.0).sum()
            assert game <= bound + 1e-12
        for share in (0.8, 0.3, -0.3, -0.8):
            # Given the score, the other coordinate is Gaussian and independent of it.
            other = -np.diff(_better(eta, gamma, ndtr(-(x - share * mu))))
            with np.errstate(divide="ignore", invalid="ignore"):
                rest = epsilon + np.log(other / winner)
            seen = (winner > 1e-13) & (other > 1e-13)
            low, beside = np.minimum(rest[seen], 0.0), mu * np.sqrt(1.0 - share**2)
            delta = np.asarray(gaussian_delta(beside, np.abs(rest[seen])))
            game = winner[seen] @ (-np.expm1(low) + np.exp(low) * delta)
            assert game <= bound * (1.0 + 1e-3) + 1e-11
        moved = ndtr(np.linspace(-6.0, 3.0, 200) - mu)  # as private as Gaussian noise is
        for one, two in ((tops, moved), (1.0 - moved, 1.0 - tops)):
            one, two = _better(eta, gamma, one), _better(eta, gamma, two)
            assert np.all(one - np.exp(epsilon) * two <= bound + 1e-12)
            assert np.all(1.0 - two - np.exp(epsilon) * (1.0 - one) <= bound + 1e-12)


def test_stated_figures():
    gamma = trials_gamma(0.0, 21.5)
    base = float(mu_from_epsilon_delta(1.0, 1e-6))
    assert selection_delta(base, 1.6, 0.0, gamma) <= 1e-6 < selection_delta(base, 1.55, 0.0, gamma)
    assert trial_mu(0.0, gamma, epsilon=1.0, delta=1e-6) == pytest.approx(0.1548, abs=1e-4)
    assert gaussian_epsilon(0.1548, 1e-6) == pytest.approx(0.63, abs=0.005)


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_bound_falls_and_vanishes(eta, gamma):
    losses = np.linspace(0.0, 6.0, 50)
    before = np.ones(50)
    for mu in (2.0, 0.5, 0.1, 1e-3, 1e-6):
        found = selection_delta(mu, losses, eta, gamma)
        assert np.all(np.diff(found) <= 1e-15)
        assert np.all(found <= before)
        before = found
    assert before[0] < 1e-5
    assert before[1] == 0.0


@pytest.mark.parametrize(("eta", "gamma"), LAWS[1::2])
def test_mu_of_a_search_covers_its_profile(eta, gamma):
    for mu in (0.01, 0.2, 1.0):
        covers = selection_mu(mu, eta, gamma)
        losses = np.linspace(0.0, mu * (34.0 + 0.5 * mu), 3000)
        found = selection_delta(mu, losses, eta, gamma)
        own = np.asarray(gaussian_delta(covers, losses))
        assert np.all(found <= own * (1.0 + 1e-7))
        assert covers >= mu
        assert np.any(found > np.asarray(gaussian_delta(0.999 * covers, losses)))


@pytest.mark.parametrize("target", [{"mu": 0.5}, {"epsilon": 1.0, "delta": 1e-6}])
def test_share_of_a_trial_meets_the_goal_and_no_more_does(target):
    eta, gamma = LAWS[1]
    share = trial_mu(eta, gamma, **target)

    def passes(mu):
        if "mu" in target:
            return selection_mu(mu, eta, gamma) > target["mu"]
        return selection_delta(mu, target["epsilon"], eta, gamma) > target["delta"]

    assert not passes(share)
    assert passes(1.0001 * share)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: trials_gamma(-0.5, 20.0), "eta"),
        (lambda: trials_gamma(0.0, 1.0), "expected_trials"),
        (lambda: trials_gamma(0.0, 1e6), "expected_trials"),
        (lambda: trial_mu(0.0, 0.01, mu=0.0), "mu"),
        (lambda: trial_mu(0.0, 0.01, epsilon=-1.0, delta=1e-6), "epsilon"),
        (lambda: trial_mu(0.0, 0.01, epsilon=1.0, delta=1.0), "delta"),
    ],
)
def test_bad_numbers(call, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        call()
