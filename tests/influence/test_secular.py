"""The largest eigenvalue of a diagonal plus rank two, against dense eigenvalues."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skleak.influence.jacobian import largest_eigenvalue

# What records are made of when the numbers conspire: zeros, ties, far-apart sizes.
SPECIAL = [0.0, 1.0, -1.0, 2.0, 1e-8, -1e-8, 1e8, 1e-16, 1e-60, 1e30]


def _number(*, extreme=True):
    ordinary = st.floats(-10.0, 10.0).map(lambda x: x if abs(x) > 1e-30 else 0.0)
    return st.one_of(ordinary, st.sampled_from(SPECIAL if extreme else SPECIAL[:6]))


@st.composite
def matrices(draw):
    """The parts of ``rho diag(D) + p p^T + h g g^T``."""
    k = draw(st.integers(1, 6))
    vector = st.lists(_number(extreme=False), min_size=k, max_size=k).map(np.array)
    diagonal = np.abs(draw(vector))
    if draw(st.booleans()):  # a cluster, of entries equal to within some digits
        gap = draw(st.sampled_from([0.0, 1e-16, 1e-14, 3e-13, 1e-9, 1e-6]))
        diagonal = diagonal[0] * (1.0 + gap * np.arange(k))
    p, g = draw(vector), draw(vector)
    if draw(st.booleans()):
        p = g * draw(_number())
    return np.sort(diagonal), abs(draw(_number())), p, abs(draw(_number())), g


def _check(diagonal, rho, p, h, g):
    rho, h = np.array([rho]), np.array([h])
    fast = largest_eigenvalue(diagonal, rho, p[None], h, g)[0]
    parts = [np.sqrt(rho * diagonal) * np.eye(len(g)), p[:, None], np.sqrt(h) * g[:, None]]
    dense = np.linalg.norm(np.column_stack(parts), 2) ** 2
    assert abs(fast - dense) <= 1e-13 * dense


@settings(derandomize=True, deadline=None, max_examples=100)
@given(matrices())
def test_it_equals_the_dense_one(matrix):
    _check(*matrix)


@pytest.mark.exhaustive
@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=5_000)
@given(matrices())
def test_it_equals_the_dense_one_over_very_many(matrix):
    _check(*matrix)


def test_many_records_at_once(rng):
    n, k = 500, 7
    diagonal, g = np.sort(rng.random(k)), rng.normal(size=k)
    p, rho, h = rng.normal(size=(n, k)), 10.0 ** rng.uniform(-12, 4, size=n), rng.random(n)
    h[:50] = rho[100:150] = 0.0
    p[200:250] *= 1e-9
    fast = largest_eigenvalue(diagonal, rho, p, h, g)
    dense = rho[:, None, None] * np.diag(diagonal) + p[:, :, None] * p[:, None, :]
    dense += h[:, None, None] * np.outer(g, g)
    assert_allclose(fast, np.linalg.eigvalsh(dense)[:, -1], rtol=1e-13)


def test_records_with_diagonals_of_their_own(rng):
    n, k = 200, 5
    diagonal, g = np.sort(rng.random((n, k)), axis=1), rng.normal(size=(n, k))
    diagonal[:, :2] = 0.0
    p, rho, h = rng.normal(size=(n, k)), rng.random(n), rng.random(n)
    found = largest_eigenvalue(diagonal, rho, p, h, g)
    each = [
        largest_eigenvalue(diagonal[i], rho[[i]], p[[i]], h[[i]], g[i]).item() for i in range(n)
    ]
    assert_allclose(found, each, rtol=1e-13)


def test_nearly_equal_entries_of_the_diagonal():
    # The squares lie along the second of three entries that differ in the thirteenth digit.
    diagonal = 1.0 + 3e-13 * np.arange(3)
    p = np.array([[0.0, 1e-3, 0.0]])
    found = largest_eigenvalue(diagonal, np.ones(1), p, np.zeros(1), np.ones(3))
    assert found[0] == pytest.approx(1.0 + 1e-6, rel=1e-12)


def test_it_may_be_that_of_the_diagonal_itself():
    # The squares lie in the first two coordinates, and never reach the third entry.
    diagonal, p, g = np.array([1.0, 2.0, 9.0]), np.array([[1.0, 1.0, 0.0]]), np.array([1.0, 0, 0])
    one = np.ones(1)
    assert largest_eigenvalue(diagonal, one, p, one, g)[0] == pytest.approx(9.0, rel=1e-15)
    # In larger units they do.
    assert largest_eigenvalue(diagonal, one, 3.0 * p, one, g)[0] > 9.0


@pytest.mark.parametrize("k", [1, 2, 5])
def test_without_a_diagonal_two_squares_are_left(rng, k):
    p, g = rng.normal(size=(1, k)), rng.normal(size=k)
    zero, one = np.zeros(1), np.ones(1)
    alone = largest_eigenvalue(np.arange(1.0, k + 1.0), zero, p, zero, g)
    assert_allclose(alone, np.sum(p**2, axis=1), rtol=1e-14)
    both = np.linalg.norm(np.column_stack([p[0], np.sqrt(2.0) * g]), 2) ** 2
    assert_allclose(largest_eigenvalue(np.zeros(k), one, p, 2.0 * one, g), [both], rtol=1e-13)


def test_without_squares_the_diagonal_is_left():
    rho = np.array([0.0, 1.0, 1e-20, 1e20])
    zero = np.zeros(4)
    found = largest_eigenvalue(np.array([1.0, 2.0, 5.0]), rho, np.zeros((4, 3)), zero, np.ones(3))
    assert_allclose(found, 5.0 * rho, rtol=1e-15)


def test_far_into_a_tail_nothing_vanishes():
    tiny = 1e-87  # a residual whose fourth power is no number any more
    diagonal, g = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    h = np.array([tiny**2])
    found = largest_eigenvalue(diagonal, h, tiny * np.array([[1.0, -1.0]]), h, g)
    assert_allclose(found / tiny**2, [4.0], rtol=1e-13)


def test_no_records():
    empty = np.zeros(0)
    found = largest_eigenvalue(np.ones(2), empty, np.zeros((0, 2)), empty, np.ones(2))
    assert found.shape == (0,)
