"""Published values, closed forms and plain simulation against the channels."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.integrate import quad
from scipy.stats import norm

from skleak.bounds import fano_advantage, renyi_fano_advantage, tradeoff_advantage
from skleak.channels import DiscreteChannel, GaussianChannel, RandomizedResponse


def simulated_success(channel, prior, rng, n=40_000):
    """Success of the maximum a posteriori attack, by playing it, and its standard error."""
    secret = rng.choice(len(prior), size=n, p=prior)
    releases = channel.sample(secret, random_state=rng)
    success = np.mean(channel.bayes_decision(releases, prior) == secret)
    return success, np.sqrt(0.25 / n)


def test_published_point_of_one_hot_encodings():
    channel = GaussianChannel(np.eye(10), 1.0)
    equation = quad(lambda t: norm.pdf(t - 1.0) * norm.cdf(t) ** 9, -8, 9)[0]
    assert channel.bayes_success() == pytest.approx(equation, abs=1e-9)
    assert channel.bayes_advantage() == pytest.approx(0.2677, abs=5e-4)
    assert fano_advantage(channel.mutual_information(), 10) == pytest.approx(0.3988, abs=5e-4)
    assert tradeoff_advantage(np.eye(10), 1.0, 10, refine=False) <= 0.2997 + 5e-4
    epsilon = channel.renyi_divergence(1.0)
    assert renyi_fano_advantage(epsilon, 1.0, 10, refine=False) == pytest.approx(0.6547, abs=5e-4)


@pytest.mark.parametrize("p", [0.5, 0.8, 0.999])
@pytest.mark.parametrize("distance", [1e-8, 0.3, 2.0, 50.0])
def test_two_values_closed_form(p, distance):
    channel = GaussianChannel([[0.0, 0.0], [0.6 * distance, 0.8 * distance]], 1.0)
    shift = np.log(p / (1 - p)) / distance
    expected = p * norm.cdf(distance / 2 + shift) + (1 - p) * norm.cdf(distance / 2 - shift)
    assert channel.bayes_success([p, 1 - p]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_values", mostly_slow([2, 3, 4, 6]))
@pytest.mark.parametrize("dimension", mostly_slow([1, 2, 7]))
def test_bayes_equals_its_simulation(n_values, dimension, rng):
    encodings = rng.normal(size=(n_values, dimension))
    prior = rng.dirichlet(np.full(n_values, 2.0))
    channel = GaussianChannel(encodings, 0.8)
    value, error = channel.bayes_success(prior, return_standard_error=True)
    simulated, noise = simulated_success(channel, prior, rng)
    assert abs(value - simulated) < 5 * np.hypot(noise, error)
    assert error < 1e-3


def test_many_records_equal_single_channels(rng):
    encodings = rng.normal(size=(5, 3, 4))
    prior = rng.dirichlet([1.0, 2.0, 3.0], size=5)
    scale = rng.uniform(0.5, 2.0, size=5)
    together = GaussianChannel(encodings, scale)
    for i in range(5):
        alone = GaussianChannel(encodings[i], scale[i])
        assert together.bayes_success(prior)[i] == pytest.approx(alone.bayes_success(prior[i]))
        assert together.mutual_information(prior)[i] == pytest.approx(
            alone.mutual_information(prior[i]), abs=1e-6
        )


def test_rotation_translation_and_permutation_change_nothing(rng):
    encodings = rng.normal(size=(4, 6))
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    moved = GaussianChannel((encodings @ rotation + 3.0)[::-1], 1.0)
    value, error = GaussianChannel(encodings, 1.0).bayes_success(prior, return_standard_error=True)
    other, other_error = moved.bayes_success(prior[::-1], return_standard_error=True)
    assert value == pytest.approx(other, abs=4 * (error + other_error) + 1e-6)


def test_mutual_information_of_two_values_against_quadrature():
    p, d = 0.3, 1.7

    def entropy_of_mixture(t):
        density = p * norm.pdf(t) + (1 - p) * norm.pdf(t - d)
        return -density * np.log(density)

    expected = quad(entropy_of_mixture, -12, 14, limit=200)[0] - 0.5 * np.log(2 * np.pi * np.e)
    channel = GaussianChannel([[0.0], [d]], 1.0)
    assert channel.mutual_information([p, 1 - p]) == pytest.approx(expected, abs=1e-8)
    assert channel.mutual_information_bound([p, 1 - p]) >= expected


@pytest.mark.parametrize("flip", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("n_values", [2, 5, 30])
def test_fano_is_tight_for_randomized_response(flip, n_values):
    channel = RandomizedResponse(flip, n_values)
    bound = fano_advantage(channel.mutual_information(), n_values)
    assert bound == pytest.approx(channel.bayes_advantage(), abs=1e-9)
    assert channel.bayes_advantage() == pytest.approx(1 - flip, abs=1e-12)


def test_discrete_channel_by_hand():
    table = np.array([[0.9, 0.1, 0.0], [0.3, 0.3, 0.4]])
    prior = np.array([0.25, 0.75])
    channel = DiscreteChannel(table)
    joint = prior[:, None] * table
    assert channel.bayes_success(prior) == pytest.approx(joint.max(axis=0).sum())
    positive = joint > 0
    ratio = joint[positive] / (prior[:, None] * joint.sum(axis=0))[positive]
    assert channel.mutual_information(prior) == pytest.approx(joint[positive] @ np.log(ratio))
    np.testing.assert_allclose(channel.posterior([2], prior), [[0.0, 1.0]], atol=1e-15)


@pytest.mark.slow
def test_no_bound_falls_below_bayes(rng):
    for n_values in (2, 3, 4, 5, 6) * 2:
        channel = GaussianChannel(rng.normal(size=(n_values, 3)) * 10 ** rng.uniform(-1, 0.7), 1.0)
        prior = rng.dirichlet(np.full(n_values, 10 ** rng.uniform(-0.5, 1)))
        table = channel.advantage_bounds(prior).set_index("bound")
        bayes = table.loc["Bayes", "advantage"]
        assert (table["advantage"] >= bayes - 1e-4).all(), table


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianChannel([[0.0]], 1.0), "2"),
        (lambda: GaussianChannel([[0.0], [1.0]], 0.0), "noise_scale"),
        (lambda: GaussianChannel([[0.0], [1.0]], -1.0), "noise_scale"),
        (lambda: GaussianChannel([[0.0], [np.nan]], 1.0), "must not hold NaN"),
        (lambda: GaussianChannel([[0.0], [1.0]], 1.0).bayes_success([0.5, 0.4]), "sum to 1"),
        (lambda: GaussianChannel([[0.0], [1.0]], 1.0).bayes_success([1.5, -0.5]), "at least 0"),
        (lambda: GaussianChannel([[0.0], [1.0]], 1.0).bayes_success([0.2, 0.3, 0.5]), "prior"),
        (lambda: GaussianChannel([[0.0], [1.0]], 1.0).log_likelihood([[0.0, 1.0]]), "shape"),
        (lambda: GaussianChannel([[0.0], [1.0]], 1.0).renyi_divergence(-1.0), "order"),
        (lambda: RandomizedResponse(1.2, 3), "flip_probability"),
        (lambda: RandomizedResponse(0.1, 1), "n_values"),
        (lambda: DiscreteChannel([[0.5, 0.4], [0.5, 0.5]]), "sum to 1"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
