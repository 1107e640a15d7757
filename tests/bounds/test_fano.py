import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import entr

from skleak.bounds import (
    closed_form_fano_advantage,
    fano_advantage,
    information_projection_advantage,
    renyi_fano_advantage,
)


def fano_by_search(information, prior):
    """[FANO23] algorithm 1 as printed: the smallest error allowed by Fano's inequality."""
    prior = np.asarray(prior)
    size = len(prior)
    left = entr(prior).sum() - information

    def slack(e):
        return entr(e) + entr(1 - e) + e * np.log(size - 1) - left

    error = 0.0 if left <= 0.0 else brentq(slack, 0.0, 1 - 1 / size, xtol=1e-15)
    return np.clip((1 - error - prior.max()) / (1 - prior.max()), 0.0, 1.0)


def renyi_by_search(epsilon, order, prior):
    """[FANO23] algorithm 2 as printed."""
    prior = np.asarray(prior)
    size = len(prior)
    left = np.log((prior**order).sum()) / (1 - order) - epsilon

    def slack(e):
        power = (1 - e) ** order + (size - 1) ** (1 - order) * e**order
        return np.log(power) / (1 - order) - left

    error = 0.0 if left <= 0.0 else brentq(slack, 0.0, 1 - 1 / size, xtol=1e-15)
    return np.clip((1 - error - prior.max()) / (1 - prior.max()), 0.0, 1.0)


def test_fano_agrees_with_a_search_over_the_error(rng):
    for size in (2, 3, 10):
        for prior in (np.full(size, 1 / size), rng.dirichlet(np.ones(size))):
            for information in (1e-3, 0.05, 0.3, 1.0):
                expected = fano_by_search(information, prior)
                assert fano_advantage(information, prior) == pytest.approx(expected, abs=1e-8)


def test_renyi_fano_agrees_with_a_search_over_the_error(rng):
    for size in (2, 5, 12):
        for prior in (np.full(size, 1 / size), rng.dirichlet(np.ones(size))):
            for order in (1.5, 2.0, 8.0):
                for epsilon in (0.01, 0.2, 1.0):
                    expected = renyi_by_search(epsilon, order, prior)
                    found = renyi_fano_advantage(epsilon, order, prior, refine=False)
                    assert found == pytest.approx(expected, abs=1e-8)


def test_published_values_for_ten_values():
    # One-hot encodings, Gaussian noise 1: KL and Renyi divergences are the order itself.
    assert renyi_fano_advantage(1.0, 1.0, 10, refine=False) == pytest.approx(0.6547, abs=1e-4)
    # Against the release of one of the ten values, nine tenths of the divergence are left.
    expected = fano_advantage(0.9, 10)
    assert renyi_fano_advantage(1.0, 1.0, 10) == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(0.6166, abs=1e-4)


def randomized_response(size, flip):
    return np.where(np.eye(size, dtype=bool), 1 - flip + flip / size, flip / size)


@pytest.mark.parametrize("size", [2, 3, 10, 100])
def test_fano_is_attained_by_randomized_response(size):
    for flip in (0.05, 0.5, 0.99):
        table = randomized_response(size, flip)
        information = (table[0] * np.log(table[0] * size)).sum()
        success = table.max(axis=0).sum() / size
        advantage = (success - 1 / size) / (1 - 1 / size)
        assert fano_advantage(information, size) == pytest.approx(advantage, abs=1e-9)


def test_the_integer_prior_equals_the_array():
    information = np.array([0.0, 1e-8, 0.1, 1.0, 2.0, 5.0])
    uniform = np.full(8, 1 / 8)
    for bound in (fano_advantage, closed_form_fano_advantage, information_projection_advantage):
        np.testing.assert_allclose(bound(information, 8), bound(information, uniform), atol=1e-12)
    np.testing.assert_allclose(
        renyi_fano_advantage(information, 2.0, 8),
        renyi_fano_advantage(information, 2.0, uniform),
        atol=1e-12,
    )


def test_ten_billion_values():
    found = fano_advantage([0.0, 1e-6, 1.0, np.log(1e10), np.inf], 10**10)
    assert found[0] == 0.0
    assert found[-1] == found[-2] == 1.0
    # With p = 1e-10 the advantage a solves a log(a / p) - a + p = information.
    residual = found[2] * np.log(found[2] * 1e10) + (1 - found[2]) * np.log1p(-found[2])
    assert residual == pytest.approx(1.0, rel=1e-8)
    assert 0.0 < found[1] < 1e-6


def test_values_of_probability_zero_do_not_count():
    padded = [0.5, 0.3, 0.2, 0.0]
    assert fano_advantage(0.2, padded) == fano_advantage(0.2, padded[:3])
    assert renyi_fano_advantage(0.2, 3.0, padded) == renyi_fano_advantage(0.2, 3.0, padded[:3])
    assert closed_form_fano_advantage(0.2, padded) == closed_form_fano_advantage(0.2, padded[:3])


def test_uniform_prior_reaches_zero_and_uneven_prior_does_not():
    assert fano_advantage(0.0, 5) == 0.0
    assert fano_advantage(0.0, np.full(5, 0.2)) == pytest.approx(0.0, abs=1e-12)
    assert renyi_fano_advantage(0.0, 2.0, 5) == 0.0
    assert fano_advantage(0.0, [0.6, 0.3, 0.1]) > 0.01


def test_arrays_of_orders_give_the_minimum_over_the_last_axis(rng):
    orders = np.array([1.0, 1.5, 2.0, 10.0, np.inf])
    epsilon = rng.uniform(0.0, 1.5, (4, 5))
    prior = rng.dirichlet(np.ones(3), 4)
    found = renyi_fano_advantage(epsilon, orders, prior)
    assert found.shape == (4,)
    for i in range(4):
        single = [renyi_fano_advantage(epsilon[i, k], orders[k], prior[i]) for k in range(5)]
        assert found[i] == pytest.approx(min(single), abs=1e-12)


def test_round_off_below_zero_counts_as_zero():
    assert fano_advantage(-4e-18, 5) == 0.0


def test_batches_broadcast(rng):
    prior = rng.dirichlet(np.ones(4), 6)
    assert fano_advantage(0.1, prior).shape == (6,)
    assert fano_advantage(np.full((5, 1), 0.1), prior).shape == (5, 6)
    assert fano_advantage(np.full(7, 0.1), prior[0]).shape == (7,)
    assert renyi_fano_advantage(np.full((6, 2), 0.1), [2.0, 3.0], prior).shape == (6,)
    assert isinstance(fano_advantage(0.1, 4), float)
    assert isinstance(renyi_fano_advantage([0.1, 0.2], [2.0, 3.0], 4), float)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8),
    st.floats(0.0, 3.0),
    st.floats(0.0, 1.0),
    st.floats(1.0, 50.0),
)
def test_monotone_in_the_information_and_at_most_one(weights, information, more, order):
    prior = np.array(weights) / np.sum(weights)
    grid = np.array([information, information + more])
    for values in (
        fano_advantage(grid, prior),
        closed_form_fano_advantage(grid, prior),
        renyi_fano_advantage(grid, order, prior),
    ):
        assert 0.0 <= values[0] <= values[1] + 1e-12
        assert values[1] <= 1.0
    assert np.all(closed_form_fano_advantage(grid, prior) >= fano_advantage(grid, prior) - 1e-12)


def test_closed_form_is_the_textbook_formula():
    prior = np.array([0.5, 0.3, 0.1, 0.1])
    error = (entr(prior).sum() - 0.05 - np.log(2)) / np.log(4)
    expected = 1 - error / 0.5
    assert closed_form_fano_advantage(0.05, prior) == pytest.approx(expected)
    assert closed_form_fano_advantage(0.0, 2) == 1.0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: fano_advantage(-0.1, 3), "`information` must be at least 0; got -0.1"),
        (lambda: fano_advantage([0.1, np.nan], 3), "`information` must be at least 0; got nan"),
        (lambda: fano_advantage("much", 3), "`information` must be a number"),
        (lambda: fano_advantage([0.1] * 3, [[0.5, 0.5]] * 2), "Shapes do not broadcast"),
        (lambda: closed_form_fano_advantage(-1.0, 3), "`information` must be at least 0"),
        (lambda: renyi_fano_advantage(-1.0, 2.0, 3), "`epsilon` must be at least 0; got -1"),
        (lambda: renyi_fano_advantage(1.0, 0.5, 3), "`order` must be at least 1; got 0.5"),
        (lambda: renyi_fano_advantage(1.0, np.nan, 3), "`order` must be at least 1; got nan"),
        (lambda: renyi_fano_advantage(1.0, [], 3), "at least one order"),
        (lambda: renyi_fano_advantage([1.0] * 3, [2.0, 3.0], 3), "Shapes do not broadcast"),
        (
            lambda: renyi_fano_advantage(np.ones((3, 2)), [2.0, 3.0], [[0.5, 0.5]] * 2),
            "Shapes do not broadcast",
        ),
    ],
)
def test_input_errors(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
