"""Bounds on what a changed record does to the leakage of all others, far from these."""

import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from large_tables import MODELS, records
from numpy.testing import assert_allclose

from skleak.influence.jacobian import Columns
from skleak.influence.refit import loss_brackets

KINDS = ["squared", "logistic", "poisson"]


@pytest.mark.parametrize("quantile", mostly_slow([1.0, 0.8], 1))
@pytest.mark.parametrize("kind", mostly_slow(KINDS))
def test_brackets_hold_those_of_memory(kind, quantile, rng):
    X, y, weight = records(kind, rng, 300)
    X[:, 2] += 5.0
    shape = np.diag([1.0, 2.0, 0.5, 0.5])
    options = {"alpha": 0.1, "noise_covariance": shape}
    large = [da.from_array(v, chunks=((1, 199, 100), -1)[: v.ndim]) for v in (X, y, weight)]
    inside, found = (MODELS[kind](**options).fit(*given) for given in ((X, y, weight), large))
    inside, found = inside._confidential_state(), found._confidential_state()
    rows = np.flatnonzero(weight > 0.0)
    targets = np.array([[0.0], [1.0]])
    for columns, values, measured in (
        (np.array([0]), np.array([[0.0], [1.0]]), Columns(target=True)),
        (np.array([1, 0]), np.array([[0.0, 1.0], [2.0, 0.0]]), Columns(np.array([0, 1]))),
        (None, targets, Columns(np.array([2]))),
    ):
        asked = columns, values, measured, quantile
        low, high = loss_brackets(inside, rows, *asked)
        wide_low, wide_high = (b.compute()[rows] for b in loss_brackets(found, None, *asked))
        assert np.all(wide_low <= low * (1 + 1e-9))
        assert np.all(wide_high >= high * (1 - 1e-9))
        # The largest predictor is bounded by the largest leverage: some times as wide, no more.
        assert np.median(wide_high - wide_low) < 6.0 * np.median(high - low)
        if kind == "squared":
            assert_allclose(wide_high[high == low], high[high == low], rtol=1e-9)
