import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr

from skleak.bounds import (
    fano_advantage,
    information_projection_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    renyi_projection_advantage,
)


def projection_by_search(information, prior):
    q = np.max(prior)
    if information >= -np.log(q):
        return 1.0
    s = brentq(lambda s: rel_entr(s, q) + rel_entr(1 - s, 1 - q) - information, q, 1.0)
    return (s - q) / (1 - q)


def test_agrees_with_a_search_over_the_success(rng):
    for prior in ([0.5, 0.5], [0.8, 0.1, 0.1], rng.dirichlet(np.ones(20))):
        for information in (1e-3, 0.05, 0.2, 2.0):
            expected = projection_by_search(information, prior)
            found = information_projection_advantage(information, prior)
            assert found == pytest.approx(expected, abs=1e-8)


def test_equals_fano_for_uniform_priors():
    information = np.linspace(0.0, 3.0, 40)
    for size in (2, 7, 10**10):
        np.testing.assert_allclose(
            information_projection_advantage(information, size),
            fano_advantage(information, size),
            atol=1e-12,
        )


def test_neither_fano_nor_the_projection_dominates_for_uneven_priors():
    prior = np.array([0.5, 0.2, 0.2, 0.1])
    assert information_projection_advantage(0.0, prior) == 0.0 < fano_advantage(0.0, prior)
    # The prior's min-entropy is log 2, its entropy 1.22: Fano excludes certainty until there.
    assert information_projection_advantage(0.9, prior) == 1.0 > fano_advantage(0.9, prior)


def test_renyi_projection_is_the_projection_at_order_one(rng):
    prior = rng.dirichlet(np.ones(5), 30)
    epsilon = rng.uniform(0.0, 1.0, 30)
    np.testing.assert_allclose(
        renyi_projection_advantage(epsilon, 1.0, prior, refine=False),
        information_projection_advantage(epsilon, prior),
    )
    np.testing.assert_allclose(
        renyi_projection_advantage(epsilon, 1.0, prior),
        information_projection_advantage((1 - prior.max(axis=1)) * epsilon, prior),
    )


def test_renyi_projection_equals_renyi_fano_for_uniform_priors():
    epsilon = np.linspace(0.0, 2.0, 20)
    for order in (1.0, 1.5, 2.0, 30.0, np.inf):
        np.testing.assert_allclose(
            renyi_projection_advantage(epsilon, order, 6),
            renyi_fano_advantage(epsilon, order, 6),
            atol=1e-12,
        )


def test_pure_differential_privacy_multiplies_the_prior():
    found = renyi_projection_advantage(0.3, np.inf, [0.4, 0.3, 0.3])
    assert found == pytest.approx((0.4 * np.exp(0.3) - 0.4) / 0.6)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8),
    st.floats(0.0, 3.0),
    st.floats(0.0, 1.0),
    st.floats(1.001, 50.0),
)
def test_ordering_and_monotonicity(weights, epsilon, more, order):
    prior = np.array(weights) / np.sum(weights)
    grid = np.array([epsilon, epsilon + more])
    projection = renyi_projection_advantage(grid, order, prior)
    assert 0.0 <= projection[0] <= projection[1] + 1e-12
    assert np.all(projection <= reconstruction_robustness_advantage(grid, order, prior) + 1e-12)
    information = information_projection_advantage(grid, prior)
    assert 0.0 <= information[0] <= information[1] + 1e-12
    assert information[1] <= 1.0
    assert information_projection_advantage(0.0, prior) == 0.0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: information_projection_advantage(-0.1, 3), "`information` must be at least 0"),
        (
            lambda: information_projection_advantage(np.nan, 3),
            "`information` must be at least 0; got nan",
        ),
        (lambda: information_projection_advantage([1, 2], [[0.5, 0.5]] * 3), "do not broadcast"),
        (lambda: renyi_projection_advantage(0.1, 0.9, 3), "`order` must be at least 1"),
        (lambda: renyi_projection_advantage(-0.1, 2.0, 3), "`epsilon` must be at least 0"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
