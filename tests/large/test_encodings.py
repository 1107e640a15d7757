"""Fits with one record changed or missing, where the others lie outside memory."""

import dask.array as da
import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose

from skleak.influence import candidate_encodings
from skleak.influence.removal import addition_steps, removal_steps
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

KINDS = {
    "squared": (PrivateLinearRegression, lambda a: a),
    "logistic": (PrivateLogisticRegression, lambda a: (a > 0.0).astype(int)),
    "softmax": (PrivateLogisticRegression, lambda a: np.digitize(a, [-1.0, 1.0])),
    "poisson": (PrivatePoissonRegressor, lambda a: np.round(np.exp(0.4 * a))),
}


@pytest.fixture(params=mostly_slow(KINDS, 0, 2))
def fitted(request, rng):
    """Records, and a model of them in memory and one of the same records outside."""
    kind, target = KINDS[request.param]
    X = rng.normal(size=(70, 3))
    X[:, 0] = X[:, 0] > 0.0
    y = target(X @ [1.0, -1.0, 0.5] + rng.normal(size=70))
    weight = rng.integers(1, 4, size=70).astype(float)
    model = kind(0.1, alpha=0.05).fit(X, y, sample_weight=weight)
    arrays = [da.from_array(values, chunks=(13, 3)[: values.ndim]) for values in (X, y, weight)]
    return X, y, model, kind(0.1, alpha=0.05).fit(*arrays)


@pytest.mark.parametrize("values", [[0.0, 1.0], pytest.param([0.0, 40.0], marks=pytest.mark.slow)])
def test_encodings_are_those_of_memory(values, fitted):
    X, y, memory, large = fitted
    some = slice(20, 29)
    expected = candidate_encodings(memory, X[some], y[some], 0, values)
    found = candidate_encodings(large, X[some], y[some], 0, values)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_a_record_that_is_not_there_is_told(fitted):
    X, y, _, large = fitted
    with pytest.raises(ValueError, match="1 of 2 records are not in the training data"):
        candidate_encodings(large, np.vstack([X[0], X[1] + 1.0]), y[:2], 0, [0.0, 1.0])


@pytest.mark.slow
def test_removals_and_additions_are_those_of_memory(fitted):
    *_, memory, large = fitted
    rows = np.array([3, 50, 8])
    both = [m._confidential_state() for m in (memory, large)]
    w = both[0].factor.coefficients
    expected, found = (removal_steps(state.objective, w, rows) for state in both)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-10)
    part = both[0].objective.take(rows)
    expected, found = (
        addition_steps(state.objective, w, 2.0 * part.X, part.y, part.sample_weight)
        for state in both
    )
    assert_allclose(found, expected, rtol=1e-6, atol=1e-10)


def test_objectives_with_records_exchanged(fitted):
    *_, memory, large = fitted
    one, other = (m._confidential_state().objective for m in (memory, large))
    w = memory._confidential_state().factor.coefficients + 0.1
    record, y = np.array([1.0, 2.0, -1.0]), float(one.y[5])
    for change in (
        lambda o: o.with_record(5, record, y),
        lambda o: o.without(5),
        lambda o: o.with_more(record, y, 3.0),
    ):
        here, there = change(one).at(w), change(other).at(w)
        assert_allclose(there.value, here.value, rtol=1e-12)
        assert_allclose(there.gradient, here.gradient, rtol=1e-10, atol=1e-13)
        assert_allclose(change(other).total, change(one).total, rtol=1e-14)
