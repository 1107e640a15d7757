"""Rows of bounded Euclidean norm."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers import every
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import Normalizer

from skleak.preprocessing import RowNormClipper

KINDS = [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix]


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_by_hand(kind):
    X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [0.0, -5.0], [1.0, 0.0]])
    clipped = RowNormClipper(1.0).fit_transform(kind(X))
    assert sparse.issparse(clipped) == (kind is not np.asarray)
    expected = [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0], [0.0, -1.0], [1.0, 0.0]]
    assert_allclose(_dense(clipped), expected, rtol=1e-14)
    # Rows that are no longer are not touched in their last bit.
    for row in (1, 2, 4):
        assert_array_equal(_dense(clipped)[row], X[row])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.__name__)
@every("scale", [1e-320, 1e-200, 1.0, 1e200, 1.7e308])
@every("d", [1, 3, 300])
def test_norms_hold_without_round_off(kind, scale, d, rng):
    """In exact arithmetic: neither overflow nor rounding takes a row beyond the norm."""
    norm = 0.7 * scale if scale < 1.0 else 0.7
    X = rng.uniform(-1.0, 1.0, size=(12, d)) * scale
    X[0, 0], X[1] = scale, scale
    clipped = _dense(RowNormClipper(norm).fit_transform(kind(X)))
    assert np.all(np.isfinite(clipped))
    margin = Fraction(0) if scale > 1e-300 else Fraction(1, 10)  # subnormal: a grid of few steps
    for before, after in zip(X, clipped, strict=True):
        square = sum(Fraction(float(v)) ** 2 for v in after)
        assert square <= Fraction(norm) ** 2 * (1 + margin)
        if sum(Fraction(float(v)) ** 2 for v in before) > Fraction(norm) ** 2:
            assert square >= Fraction(norm) ** 2 * (1 - Fraction(1, 10**9) - margin)
            largest = np.abs(before).argmax()
            assert_allclose(after / after[largest], before / before[largest], atol=2e-2)


@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.__name__)
def test_clipping_again_changes_nothing(kind, rng):
    for d in (1, 2, 7, 50):
        X = kind(rng.normal(size=(500, d)) * rng.lognormal(sigma=3.0, size=(500, 1)))
        clipper = RowNormClipper(1.3)
        once = clipper.fit_transform(X)
        assert_array_equal(_dense(clipper.transform(once)), _dense(once))


def test_short_rows_keep_their_length_which_a_normalizer_takes(rng):
    X = rng.normal(size=(20, 3))
    X *= rng.uniform(0.1, 0.9, size=(20, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    assert_array_equal(RowNormClipper(1.0).fit_transform(X), X)
    assert np.all(np.linalg.norm(Normalizer().fit_transform(X), axis=1) > 0.99)


def test_single_precision_is_not_clipped_in_single_precision(rng):
    X = rng.normal(size=(1000, 30)).astype(np.float32)
    clipped = RowNormClipper(1.0).fit_transform(X)
    assert clipped.dtype == np.float64
    assert np.linalg.norm(clipped, axis=1).max() <= 1.0 + 1e-15
    assert np.linalg.norm(Normalizer().fit_transform(X).astype(float), axis=1).max() > 1.0 + 1e-12


def test_input_is_left_alone(rng):
    X = rng.normal(size=(5, 3)) * 10.0
    S, frame = sparse.csr_array(X), pd.DataFrame(X, columns=list("abc"))
    copies = X.copy(), S.copy(), frame.copy()
    for table in (X, S, frame):
        RowNormClipper(1.0).fit_transform(table)
    assert_array_equal(X, copies[0])
    assert_array_equal(S.toarray(), copies[1].toarray())
    assert frame.equals(copies[2])


def test_entries_that_a_sparse_matrix_holds_twice():
    X = sparse.csr_array(([3.0, 3.0, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    clipped = RowNormClipper(1.0).fit_transform(X)
    assert_allclose(clipped.toarray(), [[1.0, 0.0], [0.0, 1.0]], rtol=1e-14)


@pytest.mark.parametrize("norm", [0.0, -1.0, np.inf, np.nan, None, "1"])
def test_norms_that_are_none(norm):
    with pytest.raises(ValueError, match="norm"):
        RowNormClipper(norm).fit([[1.0]])


def test_values_that_are_no_numbers_are_told():
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            RowNormClipper(1.0).fit([[1.0]]).transform([[value]])
