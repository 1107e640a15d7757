"""Order statistics of numbers in blocks are those of the sorted numbers."""

import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_array_equal

from skleak.utils import _summaries as _selection
from skleak.utils._summaries import around_quantile


def neighbors(values, q, reach):
    """By sorting all of them."""
    known = sorted(v for v in values if v == v)
    rank = int(np.ceil(q * (len(known) - 1)))
    padded = [-np.inf] * reach + known + [np.inf] * reach
    return padded[rank : rank + 2 * reach + 1]


@pytest.mark.parametrize("bins", mostly_slow([3000, 1 << 12], 0))
@pytest.mark.parametrize("q", [1.0, 0.999, 0.9, 0.5, 1e-9])
def test_numbers_of_blocks_are_those_of_all(q, bins, rng, monkeypatch):
    monkeypatch.setattr(_selection, "_BINS", bins)
    near = 1.0 + 1e-13 * rng.integers(0, 50, 3000)
    tables = [
        rng.normal(size=20_000) * 10.0 ** rng.integers(-300, 300, 20_000),
        np.r_[near, rng.normal(size=9000), np.full(100, np.nan)],
        np.r_[np.zeros(5), -0.0, np.inf, np.nan],
        np.ones(1),
    ]
    for values in tables:
        values = rng.permutation(values)
        expected = neighbors(values, q, 1)
        if not np.isnan(values).any():
            assert expected[1] == np.quantile(values, q, method="higher")
        for chunks in (7001, len(values)):
            large = da.from_array(values, chunks=chunks)
            assert_array_equal(around_quantile(large, q, 1), expected)
        assert_array_equal(around_quantile(values, q, 1), expected)
