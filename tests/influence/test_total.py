"""Total leakage of reweighted fits, against differences of the whole algorithm."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from helpers import exhaustive, fit_quietly, flat, mostly_slow, total_norms
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.reweighting._total import (
    total_derivative,
    total_feature_norms,
    total_jacobian,
    total_joint_norm,
)
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.linear_model._measured import solve_reweighted

TIGHT = {
    "alpha": 0.3,
    "tol": 1e-13,
    "reweighting": "irfil",
    "reweighting__tol": 1e-12,
    "reweighting__max_iter": 200,
}
MODELS = {
    "squared": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}
BALANCES = {
    "record": {},
    "features": {"reweighting__features": [0, 2]},
    "trace": {"reweighting__norm": "trace"},
    "trace of features": {"reweighting__features": [0, 1], "reweighting__norm": "trace"},
    "total": {"reweighting": "total"},
    "total of a column": {"reweighting": "total", "reweighting__features": [1]},
    "total, trace": {"reweighting": "total", "reweighting__norm": "trace"},
}
BOTH = mostly_slow([(True, True), (False, False)], 0)


def _records(kind, rng, n=25, d=3):
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, 2.0, d) + 0.3
    a = X @ np.linspace(0.6, -0.4, d) / 2.0 + 0.4
    if kind == "squared":
        y = a + 0.5 * rng.normal(size=n)
    elif kind == "poisson":
        y = rng.poisson(np.exp(a)) + 1.0  # room for a step below the target
    else:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-a))).astype(int)
        y[:2] = [0, 1]
    return X, y


def _refit(model, state, row, column, step, copies):
    """Minimizer of the whole algorithm after some copies of one record moved."""
    old = state.objective
    X, y = np.vstack([old.X, old.X[row]]), np.append(old.y, old.y[row])
    weights = np.append(old.sample_weight, copies)
    weights[row] -= copies
    if column < X.shape[1]:
        X[-1, column] += step
    else:
        y[-1] += step
    moved = replace(old, X=X, y=y, sample_weight=weights, reweights=np.ones(len(y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result, _, history = solve_reweighted(model, moved, state.balanced, model.reweighting)
    assert min(history) <= 1e-10
    return result.factor.coefficients


def _differences(model, state, row, copies=1.0, step=1e-4):
    """Central differences of the whole algorithm with respect to one record and its target."""
    columns = []
    for j in range(state.n_features + 1):
        up, down = (_refit(model, state, row, j, h, copies) for h in (step, -step))
        columns.append((up - down) / (2.0 * step))
    # The whole row moves as far as all of its weight: s / copies times what some copies do.
    return np.column_stack(columns) * (state.objective.sample_weight[row] / copies)


def _converged_problem(kind, rng, **options):
    """A model, its state and its derivative; records drawn until the weights exist."""
    for _ in range(20):
        X, y = _records(kind, rng)
        weights = rng.integers(1, 4, size=len(y)).astype(float)
        weights[3] = 0.0
        model = MODELS[kind](1.0, **flat(**{**TIGHT, **options}))
        state = fit_quietly(model, X, y, weights)
        if min(model.reweighting_history_) <= 1e-11:
            return model, state, total_derivative(state)
    raise AssertionError("no data with a fixed point")


@pytest.mark.parametrize("balance", mostly_slow(BALANCES, 0, 1, 5))
@pytest.mark.parametrize("fit_intercept, target", BOTH + exhaustive([(True, False), (False, True)]))
@pytest.mark.parametrize("kind", mostly_slow(MODELS, 1))
def test_against_refits_of_the_whole_algorithm(kind, fit_intercept, balance, target, rng):
    options = {"fit_intercept": fit_intercept, "private_target": target, **BALANCES[balance]}
    model, state, derivative = _converged_problem(kind, rng, **options)
    assert derivative.doubts == []
    rows = np.array([5, 7] if balance == "record" else [7])
    jacobians = total_jacobian(state, rows, derivative=derivative)
    for row, jacobian in zip(rows, jacobians, strict=True):
        expected = _differences(model, state, row, copies=state.objective.sample_weight[row])
        assert np.linalg.norm(jacobian - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("target", mostly_slow([True, False], 0))
@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize("kind", mostly_slow(MODELS, 2))
def test_the_two_solvers_agree(kind, balance, target, rng):
    _, state, dense = _converged_problem(kind, rng, private_target=target, **BALANCES[balance])
    krylov = total_derivative(state, solver="krylov")
    assert max(dense.residual, krylov.residual) <= 1e-9
    rows = np.arange(len(state.objective.y))
    expected = total_jacobian(state, rows, derivative=dense)
    found = total_jacobian(state, rows, derivative=krylov)
    assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_any_number_of_copies_and_columns_far_from_zero(rng):
    X, y = _records("squared", rng)
    X[:, 1] += 50.0
    weights = rng.uniform(0.5, 2.5, size=len(y))
    model = PrivateLinearRegression(1.0, **flat(**TIGHT))
    state = fit_quietly(model, X, y, weights)
    jacobian = total_jacobian(state, np.array([4]))[0]
    expected = _differences(model, state, 4, copies=0.4 * weights[4])
    assert np.linalg.norm(jacobian - expected) <= 1e-5 * np.linalg.norm(expected)


def test_one_column(rng):
    X, y = _records("squared", rng, d=1)
    model = PrivateLinearRegression(1.0, fit_intercept=False, **flat(**TIGHT))
    state = fit_quietly(model, X, y)
    for row in (0, 1):
        expected = _differences(model, state, row)
        assert_allclose(total_jacobian(state, np.array([row]))[0], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_norms_are_those_of_the_jacobians(kind, rng):
    _, state, derivative = _converged_problem(kind, rng)
    X, y = state.objective.X, state.objective.y
    batch = state.batch(X, y)
    jacobians = total_jacobian(state, np.arange(len(y)), derivative=derivative)
    tangent = np.array([[1.0, -1.0, 0.0]]).T / np.sqrt(2.0)
    blocks = [
        (Columns(target=True), jacobians),
        (Columns(), jacobians[:, :, :3]),
        (Columns(np.array([2])), jacobians[:, :, [2]]),
        (Columns(np.array([2, 0]), target=True), jacobians[:, :, [2, 0, 3]]),
        (Columns(np.array([], dtype=np.intp), target=True), jacobians[:, :, [3]]),
        (Columns(np.array([0, 1]), constrained=True), jacobians[:, :, :3] @ tangent),
    ]
    for norm, order in (("spectral", 2), ("trace", "fro")):
        table = total_feature_norms(
            replace(state, noise_scale=0.5),
            batch,
            [columns for columns, _ in blocks],
            norm,
            derivative=derivative,
        )
        for k, (columns, restricted) in enumerate(blocks):
            expected = np.linalg.norm(restricted, order, axis=(1, 2)) / 0.5
            if norm == "trace":
                expected /= np.sqrt(restricted.shape[2])
            assert_allclose(table[:, k], expected, rtol=1e-9)
            one = total_norms(state, batch, columns, norm, derivative=derivative)
            assert_allclose(one, 0.5 * expected, rtol=1e-9)
            side_by_side = restricted.transpose(1, 0, 2).reshape(restricted.shape[1], -1)
            together = np.linalg.norm(side_by_side, order)
            if norm == "trace":
                together /= np.sqrt(np.sum(batch.present) * restricted.shape[2])
            joint = total_joint_norm(state, batch, columns, norm, derivative=derivative)
            assert joint == pytest.approx(together, rel=1e-9)
    assert_array_equal(table[3], 0.0)  # of weight zero: not in the fit


def test_without_reweighting_it_is_the_conditional_leakage(rng):
    X, y = _records("logistic", rng)
    weights = rng.integers(0, 3, size=len(y)).astype(float)
    model = PrivateLogisticRegression(0.1, alpha=0.1).fit(X, y, weights)
    state = model._confidential_state()
    X, y = state.objective.X, state.objective.y
    batch = state.batch(X, y)
    assert total_derivative(state).doubts == []
    assert_array_equal(total_norms(state, batch), model.fisher_information_loss_)
    assert total_joint_norm(state, batch) == leakage_model(state).joint_loss(batch)
    norms = np.linalg.norm(total_jacobian(state, np.arange(len(y))), 2, axis=(1, 2))
    assert_allclose(norms / 0.1, model.fisher_information_loss_, rtol=1e-9)


def test_weights_that_do_not_follow_the_leakage_leave_the_conditional_jacobian(rng):
    _, state, derivative = _converged_problem("poisson", rng)
    root, adjoint = derivative.balance.root, derivative.adjoint
    fixed = replace(
        adjoint,
        first=root,
        second=np.zeros_like(adjoint.second),
        third=np.zeros_like(adjoint.third),
    )
    rows = np.array([0, 1, 6])
    X, y = state.objective.X[rows], state.objective.y[rows]
    conditional = state.factor.jacobian(X, y) * state.objective.weights[rows, None, None]
    found = total_jacobian(state, rows, derivative=replace(derivative, adjoint=fixed))
    own = found - conditional  # only what the record's own weight does is left
    direction = -conditional[:, :, -1] / state.factor.loss.cross(y)[:, None]
    assert_allclose(np.linalg.matrix_rank(own, tol=1e-12), 1)
    for k in range(len(rows)):
        left = np.linalg.svd(own[k])[0][:, 0]
        cosine = left @ direction[k] / np.linalg.norm(direction[k])
        assert abs(cosine) == pytest.approx(1.0, abs=1e-9)


def test_a_row_moves_all_of_its_copies(rng):
    X, y = _records("squared", rng)
    weights = rng.integers(1, 4, size=len(y)).astype(float)
    copies = np.repeat(np.arange(len(y)), weights.astype(int))
    a = fit_quietly(PrivateLinearRegression(1.0, **flat(**TIGHT)), X, y, weights)
    b = fit_quietly(PrivateLinearRegression(1.0, **flat(**TIGHT)), X[copies], y[copies])
    once = total_norms(a, a.batch(X, y))
    repeated = total_norms(b, b.batch(X[copies], y[copies]))
    assert_allclose(once[copies], weights[copies] * repeated, rtol=1e-8)


def test_records_of_weight_zero_change_nothing(rng):
    X, y = _records("logistic", rng)
    weights = np.ones(len(y))
    weights[[3, 20]] = 0.0
    present = weights > 0.0
    a = fit_quietly(PrivateLogisticRegression(1.0, **flat(**TIGHT)), X, y, weights)
    b = fit_quietly(PrivateLogisticRegression(1.0, **flat(**TIGHT)), X[present], y[present])
    rows = np.flatnonzero(present)
    assert_allclose(total_jacobian(a, rows), total_jacobian(b, np.arange(23)), rtol=1e-6)
    assert_array_equal(total_jacobian(a, np.array([3, 20])), 0.0)


def test_rotated_columns_leak_the_same(rng):
    X, y = _records("squared", rng)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    options = {"fit_intercept": False, **TIGHT}
    a = fit_quietly(PrivateLinearRegression(1.0, **flat(**options)), X, y)
    b = fit_quietly(PrivateLinearRegression(1.0, **flat(**options)), X @ turn, y)
    norms = total_norms(a, a.batch(X, y))
    turned = total_norms(b, b.batch(X @ turn, y))
    assert_allclose(norms, turned, rtol=1e-8)


def test_sparse_records_and_small_blocks(rng, monkeypatch):
    X, y = _records("logistic", rng)
    X[np.abs(X) < 0.7] = 0.0
    a = fit_quietly(PrivateLogisticRegression(1.0, **flat(**TIGHT)), X, y)
    b = fit_quietly(PrivateLogisticRegression(1.0, **flat(**TIGHT)), sparse.csr_array(X), y)
    expected = total_norms(a, a.batch(X, a.objective.y))
    monkeypatch.setattr("skleak.influence.reweighting._total._ELEMENTS", 50)
    monkeypatch.setattr("skleak.influence.reweighting._total_system._ELEMENTS", 50)
    X, y = b.objective.X, b.objective.y
    assert_allclose(total_norms(b, b.batch(X, y)), expected, rtol=1e-8)
    derivative = total_derivative(b, solver="krylov")
    found = total_norms(b, b.batch(X, y), derivative=derivative)
    assert_allclose(found, expected, rtol=1e-8)


def test_a_new_record_like_a_training_record_leaks_like_it(rng):
    _, state, derivative = _converged_problem("poisson", rng)
    X, y, s = state.objective.X[:3], state.objective.y[:3], state.objective.sample_weight[:3]
    batch = state.batch(X + 1e-9, y)
    assert_array_equal(state.training_rows(X + 1e-9, y), -1)
    new = total_norms(state, batch, derivative=derivative)
    old = total_norms(state, state.batch(X, y), derivative=derivative)
    assert_allclose(s * new, old, rtol=1e-4)  # a record of large weight is that sensitive


def test_no_records_and_no_noise(rng):
    _, state, derivative = _converged_problem("squared", rng)
    state = replace(state, noise_scale=0.0)
    X, y = state.objective.X, state.objective.y
    norms = total_norms(state, state.batch(X, y), derivative=derivative)
    assert_array_equal(norms, np.where(state.objective.sample_weight > 0.0, np.inf, 0.0))
    none = state.batch(X[:0], y[:0])
    assert total_norms(state, none, derivative=derivative).shape == (0,)
    unknown = replace(derivative, residual=np.nan)
    for each in (derivative, unknown):
        assert total_joint_norm(state, none, derivative=each) == 0.0
    absent = replace(state.batch(X, y), sample_weight=np.zeros(len(y)))
    assert total_joint_norm(state, absent, derivative=unknown) == 0.0
    finite = replace(state, noise_scale=1.0)
    assert total_joint_norm(finite, state.batch(X, y), derivative=unknown) == np.inf
    assert total_jacobian(state, np.array([], dtype=np.intp)).shape == (0, 4, 4)


def test_doubts(rng):
    X, y = _records("logistic", rng)
    options = {**TIGHT, "reweighting__max_iter": 1, "max_iter": 1, "tol": 1e-13}
    state = fit_quietly(PrivateLogisticRegression(1.0, **flat(**options)), X, y)
    derivative = total_derivative(state)
    assert len(derivative.doubts) == 2
    assert "did not converge" in derivative.doubts[0]
    assert f"up to {derivative.deviation:.1e}" in derivative.doubts[1]
    assert "was not found" in replace(derivative, residual=np.nan).doubts[-1]


def test_a_singular_system_says_so(rng, monkeypatch):
    _, state, _ = _converged_problem("squared", rng)
    monkeypatch.setattr(
        "skleak.influence.reweighting._total_system.AdjointSystem.matrix",
        lambda system: np.zeros((system.packing.size, system.packing.size)),
    )
    with pytest.raises(np.linalg.LinAlgError, match=r"no derivative.*Raise `alpha`"):
        total_derivative(state)


def test_error_falls_with_the_deviation(rng):
    X, y = _records("squared", rng)
    exact = fit_quietly(PrivateLinearRegression(1.0, **flat(**TIGHT)), X, y)
    norms = total_norms(exact, exact.batch(X, y))
    for tol in (1e-3, 1e-5):
        state = fit_quietly(
            PrivateLinearRegression(1.0, **flat(**{**TIGHT, "reweighting__tol": tol})), X, y
        )
        derivative = total_derivative(state)
        error = np.abs(total_norms(state, state.batch(X, y)) / norms - 1.0)
        assert error.max() <= 20.0 * derivative.deviation
