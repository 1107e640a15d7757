"""Tables and randomized response: by hand, against each other, and at the limits."""

import numpy as np
import pytest
from helpers import every

from skleak.bounds import fano_advantage
from skleak.channels import DiscreteChannel, RandomizedResponse
from skleak.channels._base import relative_entropy, renyi_divergence

ORDERS = (0.3, 0.999999, 1.0, 1.000001, 2.0, 30.0, 1e4, np.inf)


def random_table(rng, n_values=4, n_outcomes=6, zeros=True):
    table = rng.dirichlet(np.full(n_outcomes, 0.5), size=n_values)
    if zeros:
        table[0, 1] = table[2, 3] = 0.0
    return table / table.sum(axis=1, keepdims=True)


def test_success_is_that_of_the_best_of_all_rules(rng):
    table, prior = random_table(rng, 3, 4), rng.dirichlet(np.ones(3))
    rules = np.stack(np.meshgrid(*[range(3)] * 4), axis=-1).reshape(-1, 4)
    success = [sum(prior[x] * table[x, y] for y, x in enumerate(rule)) for rule in rules]
    channel = DiscreteChannel(table)
    assert channel.bayes_success(prior) == pytest.approx(max(success), abs=1e-15)
    decided = channel.bayes_decision(np.arange(4), prior)
    assert success[np.flatnonzero((rules == decided).all(axis=1))[0]] == pytest.approx(max(success))


def test_information_by_its_definition(rng):
    table, prior = random_table(rng), np.array([0.1, 0.0, 0.6, 0.3])
    joint = prior[:, None] * table
    marginal = joint.sum(axis=0)
    expected = sum(
        joint[x, y] * np.log(table[x, y] / marginal[y])
        for x in range(4)
        for y in range(6)
        if joint[x, y] > 0
    )
    assert DiscreteChannel(table).mutual_information(prior) == pytest.approx(expected, rel=1e-12)


def test_an_outcome_that_only_an_impossible_secret_produces():
    channel = DiscreteChannel([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    assert channel.mutual_information([1.0, 0.0]) == 0.0
    assert channel.bayes_success([1.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="cannot come from this channel"):
        channel.posterior(2, [1.0, 0.0])


def test_posterior_and_samples(rng):
    table, prior = random_table(rng), rng.dirichlet(np.ones(4))
    channel = DiscreteChannel(table)
    posterior = channel.posterior(np.arange(6), prior)
    joint = (prior[:, None] * table).T
    np.testing.assert_allclose(posterior, joint / joint.sum(axis=1, keepdims=True), rtol=1e-12)
    releases = channel.sample(np.arange(4), n_releases=50_000, random_state=rng)
    assert releases.shape == (4, 50_000)
    frequencies = np.stack([np.bincount(row, minlength=6) for row in releases]) / 50_000
    assert np.all(np.abs(frequencies - table) <= 5 * np.sqrt(table / 50_000))
    assert channel.sample(2, random_state=0).shape == ()
    assert channel.sample([2, 0], n_releases=0, random_state=0).shape == (2, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_renyi_divergence_by_its_definition(order, rng):
    table = random_table(rng, zeros=False)
    channel = DiscreteChannel(table)
    p, q = table[:, None], table[None]
    if order == np.inf:
        expected = np.log((p / q).max(axis=-1))
    elif abs(order - 1) < 1e-3:
        expected = (p * np.log(p / q)).sum(axis=-1)
    else:
        largest = np.log((p / q).max(axis=-1, keepdims=True))
        terms = p * np.exp((order - 1) * (np.log(p / q) - largest))
        expected = np.log(terms.sum(axis=-1)) / (order - 1) + largest[..., 0]
    matrix = channel.renyi_divergence(order, pairwise=True)
    np.testing.assert_allclose(matrix, expected, rtol=1e-4 if order != 1 else 1e-10, atol=1e-12)
    assert channel.renyi_divergence(order) == matrix.max()


def test_renyi_divergence_with_zeros():
    p, q = np.array([0.5, 0.5, 0.0]), np.array([1.0, 0.0, 0.0])
    assert renyi_divergence(q, p, 2.0) == pytest.approx(np.log(2))
    assert renyi_divergence(q, p, np.inf) == pytest.approx(np.log(2))
    for order in (1.0, 2.0, 1e3, np.inf):
        assert renyi_divergence(p, q, order) == np.inf
    assert renyi_divergence(p, q, 0.5) == pytest.approx(np.log(2))
    disjoint = np.array([0.0, 0.0, 1.0])
    assert renyi_divergence(p, disjoint, 0.5) == np.inf


def test_relative_entropy_vanishes_with_the_square(rng):
    q = rng.dirichlet(np.ones(5))
    step = rng.normal(size=5)
    step -= step.mean()
    for size in (1e-3, 1e-6, 1e-9):
        value = relative_entropy(size * step, q).sum()
        # The next term is of relative size `size`, and round-off of eps / size.
        assert value == pytest.approx(size**2 * (step**2 / q).sum() / 2, rel=100 * size + 1e-6)
    assert relative_entropy(0 * step, q).sum() == 0


def test_information_bound_holds_for_any_table(rng):
    for _ in range(300):
        table = random_table(rng, rng.integers(2, 6), 6, zeros=False)
        channel, prior = DiscreteChannel(table), rng.dirichlet(np.ones(len(table)))
        exact = channel.mutual_information(prior)
        pairwise = channel.mutual_information_bound(prior)
        assert exact <= pairwise + 1e-14
        assert pairwise <= channel.mutual_information_bound(prior, pairwise=False) + 1e-14


def test_useless_and_revealing_tables():
    prior = np.array([0.2, 0.3, 0.5])
    useless = DiscreteChannel(np.tile([0.25, 0.75], (3, 1)))
    assert useless.bayes_advantage(prior) == pytest.approx(0.0, abs=1e-15)
    assert useless.mutual_information(prior) < 1e-30
    revealing = DiscreteChannel(np.eye(3))
    assert revealing.bayes_advantage(prior) == 1.0
    assert revealing.mutual_information(prior) == pytest.approx(-prior @ np.log(prior))
    assert revealing.mutual_information_bound(prior) == pytest.approx(-prior @ np.log(prior))


@pytest.mark.parametrize("flip", [0.0, 1e-9, 0.3, 0.9, 1 - 1e-7, 1.0])
@pytest.mark.parametrize("n_values", [2, 3, 7])
def test_randomized_response_equals_its_table(flip, n_values, rng):
    response = RandomizedResponse(flip, n_values)
    table = DiscreteChannel(response.table)
    for prior in (None, rng.dirichlet(np.ones(n_values)), rng.dirichlet(np.ones(n_values), size=3)):
        for name in ("bayes_success", "bayes_advantage", "mutual_information"):
            np.testing.assert_allclose(
                getattr(response, name)(prior), getattr(table, name)(prior), atol=1e-14
            )
        np.testing.assert_allclose(
            response.mutual_information_bound(prior),
            table.mutual_information_bound(prior),
            atol=1e-9,
        )
    for order in ORDERS:
        np.testing.assert_allclose(
            response.renyi_divergence(order, pairwise=True),
            table.renyi_divergence(order, pairwise=True),
            rtol=1e-7,
            atol=1e-14,
        )
    if flip < 1:
        np.testing.assert_array_equal(
            response.bayes_decision(np.arange(n_values)), np.arange(n_values)
        )


def test_randomized_response_with_priors_of_zero():
    response, prior = RandomizedResponse(0.0, 3), [0.0, 0.4, 0.6]
    assert response.mutual_information(prior) == pytest.approx(
        -0.4 * np.log(0.4) - 0.6 * np.log(0.6)
    )
    assert response.bayes_success(prior) == pytest.approx(1.0)
    assert response.mutual_information_bound(prior) == pytest.approx(
        response.mutual_information(prior)
    )


@every("flip", [0.0, 1e-6, 0.2, 0.5, 0.99, 1 - 1e-8, 1.0])
@every("n_values", [2, 3, 10, 1000, 10**10])
def test_fano_is_met_by_randomized_response(flip, n_values):
    response = RandomizedResponse(flip, n_values)
    advantage = response.bayes_advantage()
    assert advantage == pytest.approx(1 - flip, abs=1e-12)
    bound = fano_advantage(response.mutual_information(), n_values)
    assert bound == pytest.approx(advantage, abs=1e-9)


def test_samples_of_randomized_response(rng):
    response = RandomizedResponse(0.4, 5)
    releases = response.sample(np.full(100_000, 3), random_state=rng)
    expected = np.full(5, 0.08)
    expected[3] = 0.68
    frequencies = np.bincount(releases, minlength=5) / 100_000
    assert np.all(np.abs(frequencies - expected) < 5 * np.sqrt(expected / 100_000))
    np.testing.assert_array_equal(response.sample([1, 2], 3, 0), response.sample([1, 2], 3, 0))
    np.testing.assert_allclose(np.exp(response.log_likelihood(3)), expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: DiscreteChannel([[0.5, 0.5]]), ValueError, "M >= 2 values"),
        (lambda: DiscreteChannel([0.5, 0.5]), ValueError, r"shape \(M, K\)"),
        (lambda: DiscreteChannel([[1.5, -0.5], [0.5, 0.5]]), ValueError, "`table` must not be neg"),
        (lambda: DiscreteChannel([[0.5, 0.5], [0.5, 0.4]]), ValueError, "row 1 sums to 0.9"),
        (
            lambda: DiscreteChannel([[np.nan, 0.5], [0.5, 0.5]]),
            ValueError,
            "`table` must not hold NaN",
        ),
        (
            lambda: DiscreteChannel(np.eye(2)).log_likelihood(2),
            ValueError,
            "`releases` must lie in",
        ),
        (lambda: DiscreteChannel(np.eye(2)).log_likelihood(0.0), TypeError, "`releases` must hold"),
        (lambda: DiscreteChannel(np.eye(2)).bayes_success([0.5, 0.6]), ValueError, "sum to 1"),
        (lambda: RandomizedResponse(-0.1, 3), ValueError, r"lie in \[0, 1\]; got -0.1"),
        (lambda: RandomizedResponse(np.nan, 3), ValueError, r"lie in \[0, 1\]; got nan"),
        (lambda: RandomizedResponse(0.1, 1), ValueError, "`n_values` must be at least 2; got 1"),
        (lambda: RandomizedResponse(0.1, 2.0), TypeError, "`n_values` must be an integer"),
        (
            lambda: RandomizedResponse(0.1, 3).bayes_success(4),
            ValueError,
            "must equal the channel's 3",
        ),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_bounds_of_a_table_are_exact():
    for channel in (DiscreteChannel([[0.9, 0.1], [0.3, 0.7]]), RandomizedResponse(0.5, 3)):
        table = channel.advantage_bounds()
        assert "differential privacy" in set(table["bound"])
        assert (table["standard_error"] == 0.0).all()


def test_values_are_plain_numbers_and_names_are_told():
    channel = DiscreteChannel([[0.9, 0.1], [0.3, 0.7]])
    assert isinstance(channel.bayes_success(), float)
    assert channel.bayes_advantage(return_standard_error=True)[1] == 0.0
    assert repr(channel) == "DiscreteChannel(table of shape (2, 2))"
    assert repr(RandomizedResponse(0.5, 3)) == "RandomizedResponse(0.5, 3)"
