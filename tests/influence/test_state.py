"""Leakage at every grain from the state of a fit."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skleak.influence.jacobian import Columns, Participation, joint_norm, record_norms
from skleak.influence.reweighting import WeightRule
from skleak.influence.state import FitState

NOISE = 0.25


@pytest.fixture
def problem(make_problem):
    return make_problem("logistic", n=20, d=4)


@pytest.fixture
def state(problem):
    return FitState(problem.objective, problem.factor, NOISE, True)


def test_training_records_carry_their_own_weights(state, problem):
    part = state.participation(problem.X, problem.y)
    assert_array_equal(part.sample_weight, problem.s)
    assert_array_equal(part.reweights, problem.omega)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_training_records_are_found_in_any_order_and_form(state, problem, rng, as_sparse):
    order = rng.permutation(20)[:12]
    X = sparse.csr_array(problem.X[order]) if as_sparse else np.asfortranarray(problem.X[order])
    part = state.participation(X, problem.y[order])
    assert_array_equal(part.sample_weight, problem.s[order])
    assert_array_equal(part.reweights, problem.omega[order])
    assert_array_equal(state.training_rows(X, problem.y[order]), order)


def test_other_records_have_a_weight_of_one(state, problem):
    X, y = problem.X.copy(), problem.y.copy()
    X[0, 0] += 1e-12
    y[1] = 1.0 - y[1]
    part = state.participation(X, y)
    assert_array_equal(part.sample_weight[:2], 1.0)
    assert_array_equal(part.reweights[:2], 1.0)
    assert_array_equal(part.sample_weight[2:], problem.s[2:])
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
    part = state.participation(problem.X, problem.y)
    assert part.sample_weight[5] == 0.0
    losses = state.record_loss(problem.X, problem.y, part)
    assert losses[5] == 0.0
    assert np.all(np.delete(losses, 5) > 0.0)
    alone = problem.X[[5]], problem.y[[5]]
    assert_array_equal(state.participation(*alone).sample_weight, 1.0)
    assert state.record_loss(*alone, state.participation(*alone))[0] > 0.0
    # Nor does it take part in the whole, or in its group.
    rest = np.delete(np.arange(20), 5)
    fewer = Participation(part.sample_weight[rest], part.reweights[rest])
    whole = state.joint_loss(problem.X, problem.y, part)
    assert whole == state.joint_loss(problem.X[rest], problem.y[rest], fewer)
    groups = np.where(np.arange(20) == 5, "gone", "here")
    by_group = state.group_loss(problem.X, problem.y, part, groups)
    assert by_group["gone"] == 0.0
    assert by_group["here"] == whole


def test_of_equal_rows_the_one_that_counts_most(problem):
    problem.X[7], problem.y[7] = problem.X[2], problem.y[2]
    problem.s[[2, 7]] = [1.0, 3.0]
    problem.omega[[2, 7]] = 1.0
    state = FitState(problem.objective, problem.factor, NOISE, True)
    part = state.participation(problem.X[[2]], problem.y[[2]])
    assert part.sample_weight[0] == 3.0


def test_new_records_get_the_weight_of_the_fixed_point(problem, rng):
    balanced, level = Columns(np.array([0, 1])), 0.7
    rule = WeightRule(balanced, "trace")
    state = FitState(problem.objective, problem.factor, NOISE, True, rule, level)
    X, y = rng.normal(size=(5, 4)), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    part = state.participation(X, y)
    kappa = record_norms(problem.factor, X, y, balanced, "trace")
    assert_allclose(part.reweights, level / kappa)
    loss = state.record_loss(X, y, part, balanced, "trace", conditional=True)
    assert_allclose(loss, level / NOISE, rtol=1e-12)
    rule = WeightRule.total(balanced, "trace")
    bounded = FitState(problem.objective, problem.factor, NOISE, True, rule, 1e9)
    assert_allclose(bounded.participation(X, y).reweights, rule.most, rtol=1e-12)


def test_a_new_record_that_cannot_leak_has_a_finite_weight(make_problem):
    problem = make_problem("squared", fit_intercept=False)
    state = FitState(problem.objective, problem.factor, NOISE, True, WeightRule(), 0.5)
    X, y = np.zeros((1, 3)), np.zeros(1)
    part = state.participation(X, y)
    assert part.reweights[0] == 1.0
    assert state.record_loss(X, y, part, conditional=True)[0] == 0.0


@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_losses_are_norms_times_weights_over_noise(state, problem, norm):
    X, y = problem.X, problem.y
    part = state.participation(X, y)
    assert_array_equal(part.factors, problem.s * problem.omega)
    whole = Columns(target=True)
    expected = record_norms(problem.factor, X, y, whole, norm) * part.factors / NOISE
    assert_allclose(state.record_loss(X, y, part, norm=norm), expected)
    block = Columns(np.array([1, 3]))
    expected = record_norms(problem.factor, X, y, block, norm) * part.factors / NOISE
    assert_allclose(state.record_loss(X, y, part, block, norm), expected)
    singles = [Columns(np.array([j])) for j in range(4)]
    table = state.feature_loss(X, y, part, [*singles, block], norm)
    assert_allclose(table[:, 4], expected)
    assert_allclose(table[:, 2], state.record_loss(X, y, part, singles[2], norm))


def test_joint_loss_counts_squares_of_weights_and_each_row_once(state, problem):
    X, y = problem.X, problem.y
    part = state.participation(X, y)
    weights = (problem.s * problem.omega) ** 2
    expected = joint_norm(problem.factor, X, y, weights, Columns(target=True)) / NOISE
    assert state.joint_loss(X, y, part) == pytest.approx(expected)
    trace = joint_norm(problem.factor, X, y, weights, Columns(target=True), "trace") / NOISE
    found = state.joint_loss(X, y, part, norm="trace")
    assert found == pytest.approx(trace / np.sqrt(20 * 5))
    # A mean over unknowns: that of all records lies between those of the records.
    diagonal = state.record_loss(X, y, part, norm="trace")
    assert diagonal.min() < found < diagonal.max()


def test_group_losses(state, problem):
    X, y = problem.X, problem.y
    part = state.participation(X, y)
    groups = np.array(["b", "a", "c", "a"] * 5)
    losses = state.group_loss(X, y, part, groups)
    assert isinstance(losses, pd.Series)
    assert list(losses.index) == ["a", "b", "c"]
    assert losses.index.name == "group"
    members = np.flatnonzero(groups == "a")
    inside = Participation(part.sample_weight[members], part.reweights[members])
    assert losses["a"] == state.joint_loss(X[members], y[members], inside)
    # Groups are parts of the whole, and the whole no more than all of them.
    whole = state.joint_loss(X, y, part)
    assert losses.max() <= whole <= np.sqrt(np.sum(losses**2))


def test_no_noise_leaks_infinitely_but_only_where_anything_leaks(problem):
    problem.s[0] = 0.0
    state = FitState(problem.objective, problem.factor, 0.0, True)
    part = state.participation(problem.X, problem.y)
    losses = state.record_loss(problem.X, problem.y, part)
    assert losses[0] == 0.0
    assert np.all(losses[1:] == np.inf)
    assert state.joint_loss(problem.X, problem.y, part) == np.inf


def test_whether_the_target_is_part_of_the_record(problem):
    private, public = (FitState(problem.objective, problem.factor, NOISE, t) for t in (True, False))
    assert private.whole_record == Columns(target=True)
    assert public.whole_record == Columns()
    part = private.participation(problem.X, problem.y)
    assert np.all(
        private.record_loss(problem.X, problem.y, part)
        > public.record_loss(problem.X, problem.y, part)
    )
