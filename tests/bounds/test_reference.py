"""The reference of Renyi bounds on the likeliest value, against divergences computed in full."""

import numpy as np
import pytest

from skleak.bounds import (
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    renyi_projection_advantage,
)
from skleak.bounds._fano import arimoto_information, reference_divergence
from skleak.bounds.priors import parse_prior


def random_channel(rng):
    size, outcomes = rng.integers(2, 6, 2)
    table = rng.dirichlet(10.0 ** rng.uniform(-1, 1) * np.ones(outcomes), size) + 1e-9
    prior = rng.dirichlet(10.0 ** rng.uniform(-0.5, 1) * np.ones(size)) + 1e-6
    return table / table.sum(axis=1, keepdims=True), prior / prior.sum()


def largest_divergence(table, order):
    powers = (table[:, None] ** order * table[None] ** (1 - order)).sum(axis=2)
    return np.log(powers).max() / (order - 1)


def full_arimoto(table, prior, order):
    """H_order(X) - H_order(X | Y) as Arimoto defined them."""
    unconditional = np.log((prior**order).sum()) / (1 - order)
    norms = ((prior[:, None] * table) ** order).sum(axis=0) ** (1 / order)
    return unconditional - order / (1 - order) * np.log(norms.sum())


@pytest.mark.parametrize("rest", [0.4, 1e-3, 1e-13])
def test_far_divergences_follow_the_same_formula(rest):
    """On both sides of where the exponential is no longer taken, and for hardly any uncertainty."""
    prior = parse_prior([1.0 - rest, 0.75 * rest, 0.25 * rest])
    for order in (1.5, 4.0):
        for exponent in (1.0, 29.9, 30.1, 45.0):
            epsilon = np.asarray(exponent / (order - 1.0))
            share = np.array([0.75 * rest, 0.25 * rest]) / prior.largest
            odds = (share**order).sum()
            for found, part in (
                (reference_divergence(epsilon, prior, order), prior.rest),
                (arimoto_information(epsilon, prior, order), odds / (1.0 + odds)),
            ):
                expected = np.log1p(part * np.expm1(exponent)) / (order - 1.0)
                assert found == pytest.approx(min(expected, epsilon), rel=1e-12)


def test_bounds_the_divergence_from_the_likeliest_release(rng):
    for _ in range(200):
        table, prior = random_channel(rng)
        order = 1.0 + 10.0 ** rng.uniform(-2, 1)
        epsilon = largest_divergence(table, order)
        reference = table[prior.argmax()]
        power = (prior[:, None] * table**order * reference ** (1 - order)).sum()
        found = reference_divergence(np.array(epsilon), parse_prior(prior), np.array(order))
        assert np.log(power) / (order - 1) - 1e-12 <= found <= epsilon


def test_bounds_arimoto_information(rng):
    for _ in range(200):
        table, prior = random_channel(rng)
        order = 1.0 + 10.0 ** rng.uniform(-2, 1)
        epsilon = largest_divergence(table, order)
        found = arimoto_information(np.array(epsilon), parse_prior(prior), np.array(order))
        assert full_arimoto(table, prior, order) - 1e-12 <= found <= epsilon


def test_reached_by_a_value_apart_from_equals():
    # All values but the likeliest share one release: the divergence is the bound itself.
    prior = np.array([0.5, 0.3, 0.2])
    table = np.array([[0.9, 0.1], [0.2, 0.8], [0.2, 0.8]])
    for order in (1.5, 2.0, 7.0):
        moment = (table[1] ** order * table[0] ** (1 - order)).sum()
        epsilon = np.array(np.log(moment) / (order - 1))
        power = (prior[:, None] * table**order * table[0] ** (1 - order)).sum()
        found = reference_divergence(epsilon, parse_prior(prior), np.array(order))
        assert found == pytest.approx(np.log(power) / (order - 1), rel=1e-12)


@pytest.mark.parametrize("function", [reference_divergence, arimoto_information])
@pytest.mark.parametrize("prior", [7, [0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.9, 0.1, 0.0]])
def test_limits_in_the_order_are_continuous(function, prior):
    parsed = parse_prior(prior)
    for epsilon in (0.0, 1e-12, 0.3, 5.0):
        one, near = (function(np.array(epsilon), parsed, np.array(a)) for a in (1.0, 1.0 + 1e-9))
        assert near == pytest.approx(one, rel=1e-7, abs=1e-20)
        far, last = (function(np.array(epsilon), parsed, np.array(a)) for a in (1e9, np.inf))
        assert far == pytest.approx(last, abs=1e-7)
    assert function(np.array(np.inf), parsed, np.array(2.0)) == np.inf
    # Large exponents do not overflow, and no prior underflows to a bound of 0.
    assert 40.0 < function(np.array(50.0), parsed, np.array(1000.0)) <= 50.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "bound",
    [renyi_fano_advantage, renyi_projection_advantage, reconstruction_robustness_advantage],
)
def test_never_looser_than_published(bound, rng):
    for _ in range(50):
        prior = rng.dirichlet(np.ones(rng.integers(2, 9)))
        epsilon, order = 10.0 ** rng.uniform(-3, 1, 20), 1.0 + 10.0 ** rng.uniform(-2, 2)
        refined, published = (bound(epsilon, order, prior, refine=r) for r in (True, False))
        assert np.all(refined <= published + 1e-12)


def test_pure_differential_privacy_moves_no_sure_guess():
    # Below log(p_1 / p_2) the best guess stays the likeliest: Arimoto's information is nil.
    found = arimoto_information(np.array(0.4), parse_prior([0.6, 0.4]), np.array(np.inf))
    assert found == 0.0
    assert np.log(0.6 / 0.4) > 0.4
