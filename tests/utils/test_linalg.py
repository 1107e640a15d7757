"""Gram matrices in blocks, and a Cholesky factor that does not mind units."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.utils import _linalg
from skleak.utils._blocks import BLOCK_ELEMENTS, dense_rows, row_blocks
from skleak.utils._linalg import (
    ScaledCholesky,
    SingularMatrixError,
    augment,
    centered_gram,
    weighted_gram,
)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_linalg, "BLOCK_ELEMENTS", 8)


@pytest.mark.parametrize("form", [np.array, np.asfortranarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.usefixtures("small_blocks")
def test_gram_matrices(rng, form):
    X = rng.normal(size=(17, 3)) * (rng.random((17, 3)) < 0.7)
    weights = rng.random(17)
    weights[4] = 0.0
    expected = sum(v * np.outer(x, x) for v, x in zip(weights, X, strict=True))
    assert_allclose(weighted_gram(form(X), weights), expected, rtol=1e-13)
    mean = weights @ X / weights.sum()
    expected = sum(v * np.outer(x - mean, x - mean) for v, x in zip(weights, X, strict=True))
    gram, found = centered_gram(form(X), weights)
    assert_allclose(found, mean, rtol=1e-13)
    assert_allclose(gram, expected, rtol=1e-12)
    assert_allclose(gram, gram.T, rtol=1e-14)


def test_centring_keeps_the_digits_of_columns_far_from_zero(rng):
    X = rng.normal(size=(200, 3))
    weights = rng.random(200)
    near, _ = centered_gram(X, weights)
    offset = np.array([2.0**30, 0.0, -(2.0**25)])
    moved = X + offset
    # The move itself rounds X; what is left of it can be computed exactly.
    back = moved - offset
    exact, _ = centered_gram(back, weights)
    far, mean = centered_gram(moved, weights)
    assert_allclose(far, exact, rtol=1e-11)
    assert_allclose(far, near, rtol=1e-4)
    assert_allclose(mean, weights @ X / weights.sum() + offset, rtol=1e-12)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@pytest.mark.parametrize("constant", [3.0, 0.1, 1e9, 1e-9, 0.0])
def test_a_constant_column_has_no_variance_at_all(rng, form, constant):
    X = np.column_stack([rng.normal(size=1001), np.full(1001, constant)])
    gram, mean = centered_gram(form(X), rng.random(1001))
    assert_array_equal(gram[1], 0.0)
    assert_array_equal(gram[:, 1], 0.0)
    assert gram[0, 0] > 0.0
    assert mean[1] == pytest.approx(constant, rel=1e-14)


def test_a_small_variance_is_not_taken_for_rounding(rng):
    X = 1.0 + 1e-9 * rng.normal(size=(500, 1))
    gram, _ = centered_gram(X, np.ones(500))
    assert gram[0, 0] == pytest.approx(500 * np.var(X), rel=1e-6)


def test_no_weight_at_all():
    gram, mean = centered_gram(np.ones((3, 2)), np.zeros(3))
    assert_array_equal(gram, np.zeros((2, 2)))
    assert_array_equal(mean, np.zeros(2))


def test_inputs_are_left_alone(rng):
    X, weights = rng.normal(size=(5, 2)), rng.random(5)
    for array in (X, weights):
        array.setflags(write=False)
    weighted_gram(X, weights)
    centered_gram(X, weights)


def test_augment():
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert_array_equal(augment(X, True), [[1.0, 2.0, 1.0], [3.0, 4.0, 1.0]])
    assert augment(X, False) is X


@pytest.mark.parametrize("p", [1, 2, 6])
def test_cholesky_solves_and_inverts(rng, p):
    root = rng.normal(size=(p, p + 2))
    matrix = root @ root.T
    factor = ScaledCholesky.of(matrix)
    b = rng.normal(size=p)
    assert_allclose(factor.solve(b), np.linalg.solve(matrix, b), rtol=1e-9)
    inverse = factor.inverse()
    assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8)
    assert_array_equal(inverse, inverse.T)


def test_cholesky_does_not_mind_units(rng):
    root = rng.normal(size=(4, 6))
    matrix = root @ root.T
    units = np.array([1e-12, 1.0, 1e9, 1e100])
    scaled = ScaledCholesky.of(matrix * np.outer(units, units)).inverse() * np.outer(units, units)
    assert_allclose(scaled, ScaledCholesky.of(matrix).inverse(), rtol=1e-10)


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((2, 2)),
        np.diag([1.0, 0.0]),
        np.diag([1.0, -1.0]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.ones((3, 3)),
        np.array([[1.0, 1.0 - 1e-16], [1.0 - 1e-16, 1.0]]),
        np.array([[1.0, np.nan], [np.nan, 1.0]]),
        np.diag([1.0, np.inf]),
    ],
    ids=["zero", "semi", "negative", "indefinite", "ones", "nearly", "nan", "inf"],
)
def test_what_is_not_positive_definite(matrix):
    with pytest.raises(SingularMatrixError):
        ScaledCholesky.of(matrix)


def test_nearly_singular_in_every_unit(rng):
    # Two columns equal to within 1e-9: their Gram matrix is singular to working precision.
    X = rng.normal(size=(50, 2))
    X = np.column_stack([X, X[:, 0] + 1e-9 * rng.normal(size=50)])
    for units in (np.ones(3), np.array([1e6, 1.0, 1e-6])):
        with pytest.raises(SingularMatrixError):
            ScaledCholesky.of(weighted_gram(X * units, np.ones(50)))


@pytest.mark.parametrize("n, columns, elements", [(0, 3, 10), (7, 3, 10), (7, 100, 10), (7, 0, 3)])
def test_row_blocks_cover_every_row_once(n, columns, elements):
    blocks = list(row_blocks(n, columns, elements))
    rows = [i for block in blocks for i in range(n)[block]]
    assert rows == list(range(n))
    for block in blocks:
        size = block.stop - block.start
        assert size == 1 or size * columns <= elements


def test_the_default_block_is_bounded():
    blocks = list(row_blocks(10**6, 50))
    assert all((block.stop - block.start) * 50 <= BLOCK_ELEMENTS for block in blocks)


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.csr_matrix])
def test_dense_rows(rng, form):
    X = rng.normal(size=(6, 3))
    found = dense_rows(form(X), slice(2, 5))
    assert type(found) is np.ndarray
    assert_array_equal(found, X[2:5])


@pytest.mark.parametrize("ratio", [1e2, 1e5, 1e7, 1e8])
def test_sparse_columns_far_from_zero_keep_their_digits(ratio, rng):
    X = rng.normal(size=(200, 4))
    X[:, 0] += ratio
    X[:, 1] = ratio * 3.0
    X[:, 2] *= rng.random(200) < 0.3
    weights = rng.uniform(0.1, 2.0, 200)
    gram, mean = centered_gram(sparse.csr_array(X), weights)
    # Exact sums of what the doubles are.
    exact = [[Fraction(value) for value in row] for row in X]
    v = [Fraction(weight) for weight in weights]
    means = [sum(a * row[j] for a, row in zip(v, exact, strict=True)) / sum(v) for j in range(4)]
    for i, j in [(0, 0), (0, 2), (2, 2), (0, 3), (2, 3)]:
        sums = sum(
            a * (row[i] - means[i]) * (row[j] - means[j]) for a, row in zip(v, exact, strict=True)
        )
        size = np.sqrt(gram[i, i] * gram[j, j])
        tolerance = 1e-14 * ratio * size
        assert gram[[i, j], [j, i]] == pytest.approx(float(sums), abs=tolerance)
    np.testing.assert_allclose(mean, np.array(means, dtype=float), rtol=1e-14, atol=1e-14)
    assert not gram[1].any()  # constant: zero, and not noise
