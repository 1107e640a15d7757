"""Leakage of records that were handed over anew: known by value, or not trained on at all."""

import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose

from skleak.linear_model import IRFIL, PrivateLinearRegression

CASES = [(None, False), (IRFIL(), True), (None, True), (IRFIL(), False)]


@pytest.mark.parametrize("reweighting, weighted", mostly_slow(CASES, 0, 1))
def test_they_leak_as_in_memory(reweighting, weighted, rng):
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=60)
    X[7], y[7], X[50], y[50] = X[3], y[3], X[3], y[3]
    weight = rng.integers(1, 4, size=60).astype(float) if weighted else np.ones(60)
    weight[[3, 7, 50]] = [2.0, 5.0, 1.0] if weighted else 1.0
    options = {"noise_scale": 0.5, "alpha": 0.1, "reweighting": reweighting}
    memory = PrivateLinearRegression(**options).fit(X, y, sample_weight=weight)
    apart = [da.from_array(each, chunks=(20, 2)[: each.ndim]) for each in (X, y, weight)]
    large = PrivateLinearRegression(**options).fit(*apart)
    # Three times the same record, others that were trained on, and new ones.
    some = np.vstack([X[[3, 11, 40]], X[:4] + 0.3]), np.r_[y[[3, 11, 40]], y[:4]]
    own, new = memory.fisher_information_loss_, memory.fisher_information_loss(*some)
    # Of equal records the one that counts most is meant.
    assert_allclose(new[:3], own[[7, 11, 40]], rtol=1e-9)
    lazy = [da.from_array(each, chunks=(3, 2)[: each.ndim]) for each in some]
    for model, records in ((memory, lazy), (large, some), (large, lazy)):
        found = np.asarray(model.fisher_information_loss(*records))
        assert_allclose(found, new, rtol=1e-5)
