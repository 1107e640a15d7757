from fractions import Fraction

import numpy as np
import pytest
from scipy.special import rel_entr

from skleak.bounds._fano import (
    bernoulli_divergence,
    divergence_from_uniform,
    largest_advantage,
)

ORDERS = np.array([1.0, 1.0 + 1e-9, 1.01, 1.5, 2.0, 5.0, 60.0, 2000.0, np.inf])


def naive_divergence(s, q, order):
    if order == 1.0:
        return rel_entr(s, q) + rel_entr(1 - s, 1 - q)
    if np.isinf(order):
        return np.log(s / q)
    return np.log(s**order * q ** (1 - order) + (1 - s) ** order * (1 - q) ** (1 - order)) / (
        order - 1
    )


@pytest.mark.parametrize("order", [1.0, 1.2, 2.0, 7.0, np.inf])
def test_divergence_agrees_with_its_definition(order, rng):
    q = rng.uniform(0.05, 0.9, 200)
    a = rng.uniform(0.05, 0.99, 200)
    expected = naive_divergence(q + a * (1 - q), q, order)
    found = bernoulli_divergence(a, q, 1 - q, np.array(order))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("a", [Fraction(1, 10**9), Fraction(3, 10**5), Fraction(1, 30)])
def test_order_two_keeps_its_digits_near_zero(a):
    # exp(D_2) - 1 = a^2 (1 - q) / q, an exact rational.
    q = Fraction(1, 7)
    exact = float(a * a * (1 - q) / q)
    found = bernoulli_divergence(
        np.array(float(a)), np.array(float(q)), np.array(float(1 - q)), np.array(2.0)
    )
    np.testing.assert_allclose(np.expm1(found), exact, rtol=1e-12)


def test_all_orders_have_the_same_curvature_at_zero():
    a, q = np.full(ORDERS[:-1].shape, 1e-7), np.full(ORDERS[:-1].shape, 0.2)
    found = bernoulli_divergence(a, q, 1 - q, ORDERS[:-1])
    np.testing.assert_allclose(found, 0.5 * ORDERS[:-1] * a**2 * 0.8 / 0.2, rtol=1e-3)


def test_divergence_is_increasing_and_ends_at_the_surprise_of_the_guess():
    a = np.linspace(0.0, 1.0, 401)[:, np.newaxis]
    q = np.full_like(a, 1e-10)
    table = bernoulli_divergence(a, q, 1 - q, ORDERS)
    assert np.all(np.diff(table, axis=0) > 0.0)
    np.testing.assert_allclose(table[0], 0.0)
    np.testing.assert_allclose(table[-1], np.log(1e10), rtol=1e-9)
    assert np.all(np.diff(table, axis=1) >= -1e-9)


@pytest.mark.parametrize("q", [0.9, 0.5, 0.1, 1e-10])
def test_inversion_returns_to_the_budget_and_errs_upwards(q, rng):
    order = np.repeat(ORDERS, 60)
    budget = rng.uniform(0.0, -np.log(q), order.size) * 10.0 ** rng.uniform(-8, 0, order.size)
    a = largest_advantage(budget, np.array(q), np.array(1 - q), order)
    again = bernoulli_divergence(a, np.array(q), np.array(1 - q), order)
    np.testing.assert_allclose(again, budget, rtol=1e-8)
    assert np.all(again >= budget)


def test_inversion_at_the_ends():
    budget = np.array([0.0, np.log(10.0), 50.0, np.inf])
    found = largest_advantage(budget, np.array(0.1), np.array(0.9), np.array(1.0))
    np.testing.assert_array_equal(found, [0.0, 1.0, 1.0, 1.0])


def test_small_budget_follows_the_square_root():
    budget = np.array(1e-16)
    found = largest_advantage(budget, np.array(0.25), np.array(0.75), np.array(1.0))
    # KL ~ a^2 (1 - q) / (2 q)
    np.testing.assert_allclose(found, np.sqrt(2e-16 / 3.0), rtol=1e-6)


@pytest.mark.parametrize("order", [1.0, 1.3, 2.0, 9.0, 3000.0, np.inf])
def test_divergence_from_uniform_is_the_missing_entropy(order, rng):
    p = rng.dirichlet(np.ones(6), 20)
    if order == 1.0:
        entropy = -(p * np.log(p)).sum(1)
    elif np.isinf(order):
        entropy = -np.log(p.max(1))
    else:
        top = p.max(1)
        ratio = (p / top[:, None]) ** order
        entropy = (order * np.log(top) + np.log(ratio.sum(1))) / (1 - order)
    found = divergence_from_uniform(p, np.full(20, order))
    np.testing.assert_allclose(found, np.log(6) - entropy, rtol=1e-8, atol=1e-12)


def test_zero_entries_do_not_count():
    p = np.array([[0.5, 0.3, 0.2, 0.0, 0.0]])
    for order in (1.0, 2.0, np.inf):
        found = divergence_from_uniform(p, np.array([order]))
        np.testing.assert_allclose(found, divergence_from_uniform(p[:, :3], np.array([order])))
