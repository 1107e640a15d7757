"""Records block by block: the same numbers wherever they lie, and in bounded memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.utils._blocks import Blocks, add


def _records(kind, X, path):
    if kind == "memory map":
        mapped = np.memmap(path / "records", dtype=float, mode="w+", shape=X.shape)
        mapped[:] = X
        return mapped
    return {"dense": np.asarray, "sparse": sparse.csr_array}[kind](X)


@pytest.mark.parametrize("kind", ["dense", "sparse", "memory map"])
@pytest.mark.parametrize("keep_sparse", [False, True])
def test_map_and_reduce_are_those_of_the_whole(kind, keep_sparse, rng, tmp_path):
    X = rng.normal(size=(11, 3)) * (rng.random((11, 3)) < 0.6)
    y, some = rng.normal(size=11), np.array([7, 2, 2, 9])
    records = _records(kind, X, tmp_path)
    for elements in (1, 7, 12, 1000):
        for rows in (None, some):
            options = {"elements": elements, "rows": rows, "keep_sparse": keep_sparse}
            blocks, which = Blocks.of(records, y, **options), slice(None) if rows is None else rows
            found = blocks.map(lambda X, y, w: X @ w + y, np.arange(3.0))
            assert_allclose(found, (X @ np.arange(3.0) + y)[which], rtol=1e-13)
            sums = blocks.map_reduce(lambda X, y: (X.T @ y, float(y.sum())), add)
            assert_allclose(sums[0], X[which].T @ y[which], rtol=1e-12, atol=1e-14)
            assert_allclose(sums[1], y[which].sum())


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_blocks_are_bounded_and_dense_unless_sparse_ones_are_wanted(kind, rng, tmp_path):
    records = _records(kind, rng.normal(size=(20, 4)), tmp_path)
    sizes = []

    def note(X, keep_sparse):
        sizes.append(X.shape[0])
        assert sparse.issparse(X) == (keep_sparse and kind == "sparse")
        return np.zeros(X.shape[0])

    Blocks.of(records, elements=12).map(note, False)
    Blocks.of(records, width=6, elements=12, keep_sparse=True).map(note, True)
    Blocks.of(records, width=0, elements=12, keep_sparse=True).map(note, True)
    assert sizes == [3] * 6 + [2] + [2] * 10 + [20]


def test_no_records_are_one_empty_block():
    blocks = Blocks.of(np.zeros((0, 3)), np.zeros(0))
    assert blocks.map(lambda X, y: X).shape == (0, 3)
    assert_array_equal(blocks.map_reduce(lambda X, y: X.T @ y, add), np.zeros(3))
    assert Blocks.of(np.ones((2, 3)), rows=np.zeros(0, dtype=int)).map(np.asarray).shape == (0, 3)


def test_other_ways_to_combine_than_sums(rng):
    X = rng.normal(size=(30, 2))
    found = Blocks.of(X, elements=8).map_reduce(lambda X: X.max(axis=0), np.maximum)
    assert_array_equal(found, X.max(axis=0))
