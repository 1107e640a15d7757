"""Simulated attacks stay at the Bayes value, and bounds above it, over thousands of channels."""

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import binom

from skleak.channels import DiscreteChannel, GaussianChannel, RandomizedResponse
from skleak.channels.gaussian._cells import Sampling, sampled_integral
from skleak.channels.gaussian._integrals import cell_success, spatial_success, unseen_failures

pytestmark = pytest.mark.slow


def random_priors(n, n_values, rng):
    """From uniform to nearly certain, some with a value that is impossible."""
    concentration = 10.0 ** rng.uniform(-1, 1.5, size=(n, 1))
    prior = rng.gamma(np.broadcast_to(concentration, (n, n_values))) + 1e-9
    prior[: n // 4] = 1.0
    if n_values > 2:
        prior[n // 4 : n // 3, 0] = 0.0
    return prior / prior.sum(axis=1, keepdims=True)


def random_channel(n, n_values, dimension, rng, **options):
    """Separations from a hundredth to a dozen of standard deviations."""
    scale = 10.0 ** rng.uniform(-1, 2, size=n)
    return GaussianChannel(rng.normal(size=(n, n_values, dimension)), scale, **options)


@pytest.mark.parametrize(
    ("n_values", "dimension", "n"),
    [(2, 5, 5000), (3, 4, 4000), (5, 2, 1000), (4, 3, 600), (5, 9, 150)],
)
def test_no_bound_below_bayes(n_values, dimension, n, rng):
    channel, prior = random_channel(n, n_values, dimension, rng), random_priors(n, n_values, rng)
    success, error = channel.bayes_success(prior, return_standard_error=True)
    table = channel.advantage_bounds(prior)
    rows = len(table) // n
    bound = table["success"].to_numpy().reshape(n, rows)
    own = table["standard_error"].to_numpy().reshape(n, rows)
    slack = bound - success[:, None] + 6 * (error[:, None] + own)
    assert slack.min() >= -1e-12
    assert table["advantage"].between(0, 1).all()


def test_no_bound_below_bayes_for_tables(rng):
    for _ in range(1500):
        n_values, n_outcomes = rng.integers(2, 8, size=2)
        table = rng.dirichlet(np.full(n_outcomes, 10 ** rng.uniform(-1, 1)), size=n_values)
        channel, prior = DiscreteChannel(table), random_priors(1, n_values, rng)[0]
        bounds = channel.advantage_bounds(prior)
        assert bounds["success"].min() >= channel.bayes_success(prior) - 1e-12


def assert_within(hits, n, success, error=0.0):
    """Two-sided binomial intervals, all of them at once."""
    level = 1e-4 / len(hits)
    low = binom.ppf(level, n, np.clip(success - 8 * error, 0, 1))
    high = binom.isf(level, n, np.clip(success + 8 * error, 0, 1))
    assert np.all(hits >= low)
    assert np.all(hits <= high)


@pytest.mark.parametrize(
    ("n_values", "dimension", "n"),
    [(2, 3, 1500), (3, 5, 1500), (6, 1, 500), (8, 2, 300), (4, 6, 500), (6, 5, 100)],
)
def test_simulated_attacks_reach_bayes_and_no_more(n_values, dimension, n, rng):
    channel, prior = random_channel(n, n_values, dimension, rng), random_priors(n, n_values, rng)
    n_games = 3000
    cumulative = prior.cumsum(axis=1)
    draws = rng.random((n, n_games, 1))
    secret = (draws > cumulative[:, None, :-1]).sum(axis=2)
    releases = channel.sample(secret, random_state=rng)
    hits = (channel.bayes_decision(releases, prior) == secret).sum(axis=1)
    assert_within(hits, n_games, *channel.bayes_success(prior, return_standard_error=True))


def test_simulated_attacks_on_discrete_channels(rng):
    hits, success = [], []
    for _ in range(1000):
        n_values = rng.integers(2, 7)
        prior = random_priors(1, n_values, rng)[0]
        channel = RandomizedResponse(rng.random(), n_values)
        if rng.random() < 0.5:
            channel = DiscreteChannel(rng.dirichlet(np.full(5, 0.5), size=n_values))
        secret = rng.choice(n_values, size=3000, p=prior)
        guess = channel.bayes_decision(channel.sample(secret, random_state=rng), prior)
        hits.append(np.count_nonzero(guess == secret))
        success.append(channel.bayes_success(prior))
    assert_within(np.array(hits), 3000, np.array(success))


def test_any_other_rule_does_worse(rng):
    """Rules that are right about the channel but not about the prior, or the scale."""
    channel = GaussianChannel(rng.normal(size=(4, 6)), 1.0)
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    n = 400_000
    secret = rng.choice(4, size=n, p=prior)
    releases = channel.sample(secret, random_state=rng)
    best = channel.bayes_success(prior)
    noise = GaussianChannel(channel.encodings, 3.0)
    for guess in (
        channel.bayes_decision(releases),
        noise.bayes_decision(releases, prior),
        channel.bayes_decision(releases * 1.1, prior),
    ):
        assert np.mean(guess == secret) < best + 4.5 * np.sqrt(0.25 / n)


@pytest.mark.exhaustive
def test_stated_standard_errors_are_honest(rng):
    points = rng.normal(size=(300, 4, 3)) * 10 ** rng.uniform(-1.5, 0.8, size=(300, 1, 1))
    prior = random_priors(300, 4, rng)
    exact, bound = spatial_success(points, prior)
    ratios = []
    for seed in range(10):
        value, error = sampled_integral(
            cell_success, 2, points, prior, Sampling(1e-4, 2**16, seed), unseen_failures
        )
        ratios.append((value - exact) / (error + bound))
    # Beyond the 99 % interval of 16 scramblings: allowed are three times as many as expected.
    limit = stdtrit(15, 0.995)
    assert np.mean(np.abs(ratios) > limit) < 0.03
    assert np.sqrt(np.mean(np.square(ratios))) < 1.5


def test_information_by_simulation(rng):
    for n_values, dimension in ((2, 3), (3, 4), (5, 7)):
        channel = GaussianChannel(rng.normal(size=(n_values, dimension)), 1.2)
        prior = rng.dirichlet(np.full(n_values, 3.0))
        secret = rng.choice(n_values, size=200_000, p=prior)
        posterior = channel.posterior(channel.sample(secret, random_state=rng), prior)
        terms = np.log(posterior[np.arange(len(secret)), secret] / prior[secret])
        value, error = channel.mutual_information(prior, return_standard_error=True)
        deviation = np.hypot(terms.std() / np.sqrt(len(terms)), error)
        assert abs(terms.mean() - value) < 4.5 * deviation
