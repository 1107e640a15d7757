"""Persons with several rows: what changes, or leaves, together, against refits of all rows."""

from functools import partial

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from skleak.influence import candidate_encodings
from skleak.influence.refit import _candidates, target_encodings
from skleak.influence.removal import (
    addition_steps,
    distances_without,
    removal_steps,
    secret_distances,
)
from skleak.linear_model import (
    IRFIL,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.utils._records import Persons

MODELS = {
    "squared": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "multinomial": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}
every = pytest.mark.parametrize


def parameters(model):
    intercept = np.ravel(model.intercept_) if model.fit_intercept else []
    return np.concatenate([np.ravel(model.coef_), intercept])


@pytest.fixture(params=mostly_slow(MODELS, 3))
def fitted(request, rng):
    """A fit with weights to 60 rows of 12 persons, one of whom has half of them."""
    n = 60
    X = rng.normal(size=(n, 3)) * [1.0, 1.0, 1e3]
    X[:, 0] = rng.integers(0, 3, n)
    a = X @ [0.5, 1.0, -1e-3]
    y = {
        "squared": a + rng.normal(size=n),
        "logistic": (a + rng.logistic(size=n) > 0.0).astype(int),
        "multinomial": rng.integers(0, 3, n),
        "poisson": rng.poisson(np.exp(0.3 * a)),
    }[request.param]
    who, weights = rng.integers(0, 11, n), rng.uniform(0.3, 3.0, n)
    who[rng.permutation(n)[:30]] = 11
    weights[np.flatnonzero(who == 3)[:1]] = 0.0
    model = MODELS[request.param](0.0, alpha=0.05, tol=1e-13)
    return model.fit(X, y, sample_weight=weights), X, y, weights, Persons.of(who, n)


def refitted(model, X, y, weights):
    return parameters(clone(model).fit(X, y, sample_weight=weights))


def members(persons):
    return [persons.take(np.array([i])).rows for i in range(len(persons))]


def test_persons_are_read_in_the_order_of_their_first_rows():
    persons = Persons.of(["b", "a", "b", "c", "a", "b"], 6)
    assert persons.labels.tolist() == ["b", "a", "c"]
    assert [rows.tolist() for rows in members(persons)] == [[0, 2, 5], [1, 4], [3]]
    assert_array_equal(persons.first, [0, 1, 3])
    some = persons.among(np.array([5, 3, 0]))
    assert some.labels.tolist() == ["b", "c"]
    assert [rows.tolist() for rows in members(some)] == [[2, 0], [1]]
    blocks = list(persons.blocks(1, 6))
    assert np.sort(np.concatenate(blocks)).tolist() == [0, 1, 2]


@every("sparsely", [False, True])
def test_all_rows_of_a_person_take_a_value_together(fitted, sparsely):
    model, X, y, weights, persons = fitted
    if sparsely:
        model = clone(model).fit(sparse.csr_array(X), y, sample_weight=weights)
    state, values = model._confidential_state(), np.arange(3.0)
    records = state.objective.X[persons.rows], state.objective.y[persons.rows]
    found = candidate_encodings(state, *records, 0, values, rows=persons)
    for i, rows in enumerate(members(persons)):
        for m, value in enumerate(values):
            changed = X.copy()
            changed[rows, 0] = value
            expected = refitted(model, changed, y, weights)
            assert_allclose(found[i, m], expected, atol=1e-9, rtol=1e-8)


def test_numbers_of_its_own_for_each_row(fitted, rng):
    model, X, y, weights, persons = fitted
    values = rng.normal(size=(60, 2, 2)) * [1.0, 1e3]
    state = model._confidential_state()
    records = X[persons.rows], state.objective.y[persons.rows]
    found = candidate_encodings(state, *records, [1, 2], values[persons.rows], rows=persons)
    for i, rows in enumerate(members(persons)):
        changed = X.copy()
        changed[rows, 1:] = values[rows, 1]
        assert_allclose(found[i, 1], refitted(model, changed, y, weights), atol=1e-8, rtol=1e-7)


def test_one_row_each_is_what_it_was(fitted):
    model, X, *_ = fitted
    state, rows = model._confidential_state(), np.arange(60)
    encode = partial(candidate_encodings, state, X, state.objective.y, 0, [0.0, 2.0])
    one_by_one = encode(rows=Persons.single(rows))
    assert_allclose(one_by_one, encode(rows=rows), rtol=1e-12, atol=1e-13)


def test_targets_of_all_rows(fitted):
    model, X, y, weights, persons = fitted
    values = np.unique(y)[:3].astype(float)
    found = target_encodings(model._confidential_state(), persons, values)
    for i, rows in enumerate(members(persons)):
        for m, value in enumerate(values):
            changed = np.array(y)
            changed[rows] = value
            assert_allclose(found[i, m], refitted(model, X, changed, weights), atol=1e-9, rtol=1e-7)


def test_a_person_leaves_with_all_rows_and_joins_again(fitted):
    model, X, y, weights, persons = fitted
    state, own = model._confidential_state(), parameters(model)
    steps = removal_steps(state.objective, state.factor.coefficients, persons)
    assert_allclose(np.linalg.norm(steps, axis=1), distances_without(state, persons), rtol=1e-6)
    for i, rows in enumerate(members(persons)):
        rest = np.delete(np.arange(60), rows)
        without = clone(model).fit(X[rest], y[rest], sample_weight=weights[rest])
        expected = parameters(without) - own
        assert np.linalg.norm(steps[i] - expected) <= 1e-5 * np.linalg.norm(expected) + 1e-12
        left = without._confidential_state()
        together = Persons.of(np.zeros(len(rows)), len(rows))
        given = X[rows], state.objective.y[rows], weights[rows], together
        again = addition_steps(left.objective, left.factor.coefficients, *given)[0]
        assert np.linalg.norm(again + expected) <= 1e-5 * np.linalg.norm(expected) + 1e-12


def test_the_farthest_of_all_values_from_the_fit_without(fitted):
    model, *_, persons = fitted
    state, values = model._confidential_state(), np.arange(3.0)[:, None]
    found = secret_distances(state, np.array([0]), values, persons)
    records = state.objective.X[persons.rows], state.objective.y[persons.rows]
    points = candidate_encodings(state, *records, 0, values, rows=persons)
    steps = removal_steps(state.objective, state.factor.coefficients, persons)
    gaps = points - (state.factor.coefficients + steps)[:, None]
    farthest = np.maximum(np.linalg.norm(gaps, axis=2).max(axis=1), np.linalg.norm(steps, axis=1))
    assert_allclose(found, farthest, rtol=1e-5)


def test_few_at_a_time(fitted, monkeypatch):
    model, X, *_, persons = fitted
    state = model._confidential_state()
    records = X[persons.rows], state.objective.y[persons.rows]
    found = candidate_encodings(state, *records, 0, [0.0, 1.0], rows=persons)
    monkeypatch.setattr(_candidates, "TABLE_ELEMENTS", 1)
    again = candidate_encodings(state, *records, 0, [0.0, 1.0], rows=persons)
    assert_allclose(again, found, rtol=1e-9, atol=1e-10)


def test_whoever_has_all_rows_of_a_class_is_told_by_the_classes(rng):
    X, y, who = rng.normal(size=(40, 2)), np.repeat([0, 1, 2], [20, 16, 4]), np.arange(40)
    who[36:] = 36
    state = PrivateLogisticRegression(0.1, random_state=0).fit(X, y)._confidential_state()
    persons = Persons.of(who, 40)
    distances = distances_without(state, persons)
    assert_array_equal(np.isinf(distances), np.arange(37) == 36)
    with pytest.warns(UserWarning, match="1 of 37 records"):
        found = target_encodings(state, persons, np.arange(3.0))
    assert_array_equal(np.isnan(found).any(axis=2)[36], [True, True, False])
    declared = PrivateLogisticRegression(
        0.1, classes=[0, 1, 2], fit_intercept=False, random_state=0
    ).fit(X, y)
    assert np.isfinite(distances_without(declared._confidential_state(), persons)).all()


@pytest.mark.slow
def test_the_whole_algorithm_of_a_reweighting_anew(rng):
    X, who = rng.normal(size=(40, 2)), np.repeat(np.arange(10), 4)
    X[:, 0] = X[:, 0] > 0
    y = X @ [1.0, 2.0] + rng.normal(size=40)
    model = PrivateLinearRegression(0.0, reweighting=IRFIL(tol=1e-12, max_iter=200)).fit(X, y)
    persons = Persons.of(who, 40)
    found = candidate_encodings(model, X, y, 0, [0.0, 1.0], rows=persons)
    for i in range(3):
        changed = X.copy()
        changed[who == i, 0] = 1.0
        assert_allclose(found[i, 1], parameters(clone(model).fit(changed, y)), atol=1e-7)
