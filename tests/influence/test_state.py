"""Leakage at every grain from the state of a fit."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.influence.jacobian import Columns, joint_norm, record_norms
from skleak.influence.leakage import leakage_model
from skleak.influence.state import FitState, WeightRule

NOISE = 0.25


@pytest.fixture
def problem(make_problem):
    return make_problem("logistic", n=20, d=4)


@pytest.fixture
def state(problem):
    return FitState(problem.objective, problem.factor, NOISE, True)


def test_training_records_carry_their_own_weights(state, problem):
    batch = state.batch(problem.X, problem.y)
    assert_array_equal(batch.sample_weight, problem.s)
    assert_array_equal(batch.reweights, problem.omega)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_training_records_are_found_in_any_order_and_form(state, problem, rng, as_sparse):
    order = rng.permutation(20)[:12]
    X = sparse.csr_array(problem.X[order]) if as_sparse else np.asfortranarray(problem.X[order])
    batch = state.batch(X, problem.y[order])
    assert_array_equal(batch.sample_weight, problem.s[order])
    assert_array_equal(batch.reweights, problem.omega[order])
    assert_array_equal(state.training_rows(X, problem.y[order]), order)


def test_other_records_have_a_weight_of_one(state, problem):
    X, y = problem.X.copy(), problem.y.copy()
    X[0, 0] += 1e-12
    y[1] = 1.0 - y[1]
    batch = state.batch(X, y)
    assert_array_equal(batch.sample_weight[:2], 1.0)
    assert_array_equal(batch.reweights[:2], 1.0)
    assert_array_equal(batch.sample_weight[2:], problem.s[2:])
    assert_array_equal(state.training_rows(X, y)[:3], [-1, -1, 2])


def test_minus_zero_is_zero(make_problem, rng):
    X = rng.normal(size=(10, 2))
    X[3, 0] = 0.0
    problem = make_problem("squared", X=X)
    state = FitState(problem.objective, problem.factor, NOISE, True)
    other = X[[3]].copy()
    other[0, 0] = -0.0
    assert state.training_rows(other, problem.y[[3]])[0] == 3


def test_a_training_record_of_weight_zero_leaks_nothing_and_one_like_it_is_new(problem):
    problem.s[5] = 0.0
    state = FitState(problem.objective, problem.factor, NOISE, True)
    batch = state.batch(problem.X, problem.y)
    assert batch.sample_weight[5] == 0.0
    losses = leakage_model(state).record_loss(batch)
    assert losses[5] == 0.0
    assert np.all(np.delete(losses, 5) > 0.0)
    alone = problem.X[[5]], problem.y[[5]]
    assert_array_equal(state.batch(*alone).sample_weight, 1.0)
    assert leakage_model(state).record_loss(state.batch(*alone))[0] > 0.0
    # Nor does it take part in the whole, or in its group.
    rest = np.delete(np.arange(20), 5)
    fewer = batch.take(rest)
    whole = leakage_model(state).joint_loss(batch)
    assert whole == leakage_model(state).joint_loss(fewer)
    groups = np.where(np.arange(20) == 5, "gone", "here")
    by_group = leakage_model(state).group_loss(batch, groups)
    assert by_group["gone"] == 0.0
    assert by_group["here"] == whole


def test_of_equal_rows_the_one_that_counts_most(problem):
    problem.X[7], problem.y[7] = problem.X[2], problem.y[2]
    problem.s[[2, 7]] = [1.0, 3.0]
    problem.omega[[2, 7]] = 1.0
    state = FitState(problem.objective, problem.factor, NOISE, True)
    batch = state.batch(problem.X[[2]], problem.y[[2]])
    assert batch.sample_weight[0] == 3.0


def test_new_records_get_the_weight_of_the_fixed_point(problem, rng):
    balanced, level = Columns(np.array([0, 1])), 0.7
    rule = WeightRule(balanced, "trace")
    state = FitState(problem.objective, problem.factor, NOISE, True, rule, level)
    X, y = rng.normal(size=(5, 4)), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    batch = state.batch(X, y)
    kappa = record_norms(problem.factor, X, y, balanced, "trace")
    assert_allclose(batch.reweights, level / kappa)
    loss = leakage_model(state).conditional.record_loss(batch, balanced, "trace")
    assert_allclose(loss, level / NOISE, rtol=1e-12)
    rule = WeightRule.total(balanced, "trace")
    bounded = FitState(problem.objective, problem.factor, NOISE, True, rule, 1e9)
    assert_allclose(bounded.batch(X, y).reweights, rule.largest_weight, rtol=1e-12)


def test_a_new_record_that_cannot_leak_has_a_finite_weight(make_problem):
    problem = make_problem("squared", fit_intercept=False)
    state = FitState(problem.objective, problem.factor, NOISE, True, WeightRule(), 0.5)
    X, y = np.zeros((1, 3)), np.zeros(1)
    batch = state.batch(X, y)
    assert batch.reweights[0] == 1.0
    assert leakage_model(state).conditional.record_loss(batch)[0] == 0.0


@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_losses_are_norms_times_weights_over_noise(state, problem, norm):
    X, y = problem.X, problem.y
    batch = state.batch(X, y)
    assert_array_equal(batch.factors, problem.s * problem.omega)
    whole = Columns(target=True)
    expected = record_norms(problem.factor, X, y, whole, norm) * batch.factors / NOISE
    assert_allclose(leakage_model(state).record_loss(batch, norm=norm), expected)
    block = Columns(np.array([1, 3]))
    expected = record_norms(problem.factor, X, y, block, norm) * batch.factors / NOISE
    assert_allclose(leakage_model(state).record_loss(batch, block, norm), expected)
    singles = [Columns(np.array([j])) for j in range(4)]
    table = leakage_model(state).feature_loss(batch, [*singles, block], norm)
    assert_allclose(table[:, 4], expected)
    assert_allclose(table[:, 2], leakage_model(state).record_loss(batch, singles[2], norm))


def test_joint_loss_counts_squares_of_weights_and_each_row_once(state, problem):
    X, y = problem.X, problem.y
    batch = state.batch(X, y)
    weights = (problem.s * problem.omega) ** 2
    expected = joint_norm(problem.factor, X, y, weights, Columns(target=True)) / NOISE
    assert leakage_model(state).joint_loss(batch) == pytest.approx(expected)
    trace = joint_norm(problem.factor, X, y, weights, Columns(target=True), "trace") / NOISE
    found = leakage_model(state).joint_loss(batch, norm="trace")
    assert found == pytest.approx(trace / np.sqrt(20 * 5))
    # A mean over unknowns: that of all records lies between those of the records.
    diagonal = leakage_model(state).record_loss(batch, norm="trace")
    assert diagonal.min() < found < diagonal.max()


def test_group_losses(state, problem):
    X, y = problem.X, problem.y
    batch = state.batch(X, y)
    groups = np.array(["b", "a", "c", "a"] * 5)
    losses = leakage_model(state).group_loss(batch, groups)
    assert isinstance(losses, pd.Series)
    assert list(losses.index) == ["a", "b", "c"]
    assert losses.index.name == "group"
    members = np.flatnonzero(groups == "a")
    inside = batch.take(members)
    assert losses["a"] == leakage_model(state).joint_loss(inside)
    # Groups are parts of the whole, and the whole no more than all of them.
    whole = leakage_model(state).joint_loss(batch)
    assert losses.max() <= whole <= np.sqrt(np.sum(losses**2))


def test_no_noise_leaks_infinitely_but_only_where_anything_leaks(problem):
    problem.s[0] = 0.0
    state = FitState(problem.objective, problem.factor, 0.0, True)
    batch = state.batch(problem.X, problem.y)
    losses = leakage_model(state).record_loss(batch)
    assert losses[0] == 0.0
    assert np.all(losses[1:] == np.inf)
    assert leakage_model(state).joint_loss(batch) == np.inf


def test_whether_the_target_is_part_of_the_record(problem):
    private, public = (FitState(problem.objective, problem.factor, NOISE, t) for t in (True, False))
    assert private.whole_record == Columns(target=True)
    assert public.whole_record == Columns()
    batch = private.batch(problem.X, problem.y)
    assert np.all(
        leakage_model(private).record_loss(batch) > leakage_model(public).record_loss(batch)
    )
