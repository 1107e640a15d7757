"""Fast norms of influence Jacobians against dense singular values, over hard problems."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import column_blocks, mostly_slow, peak_memory
from numpy.testing import assert_allclose
from scipy import sparse

from skleak.influence.jacobian import (
    Columns,
    FitFactor,
    feature_norms,
    joint_norm,
    norms_of_fits,
    record_norms,
)
from skleak.losses import LogisticLoss, SquaredLoss

KINDS = ["squared", "logistic", "poisson"]
RTOL = 1e-9


def _simplex_tangent(k):
    """Orthonormal directions whose entries sum to zero (Helmert)."""
    basis = np.zeros((k, k - 1))
    for j in range(1, k):
        basis[:j, j - 1] = 1.0
        basis[j, j - 1] = -j
        basis[:, j - 1] /= np.sqrt(j * (j + 1))
    return basis


def _block(jacobian, columns):
    """The part of dense Jacobians that a block of columns stands for."""
    x = jacobian[:, :, :-1]
    if columns.indices is not None:
        x = x[:, :, columns.indices]
    if columns.constrained:
        x = x @ _simplex_tangent(x.shape[2])
    return np.concatenate([x, jacobian[:, :, -1:]], axis=2) if columns.target else x


def _dense(jacobian, columns, norm):
    block = _block(jacobian, columns)
    if norm == "spectral":
        return np.linalg.norm(block, 2, axis=(1, 2))
    return np.sqrt(np.sum(block**2, axis=(1, 2)) / block.shape[2])


def _check(problem, rtol=RTOL):
    factor, jacobian = problem.factor, problem.dense_jacobian()
    X, y, d = problem.X, problem.y, problem.X.shape[1]
    weights = problem.s * problem.omega**2
    for columns in column_blocks(d):
        for norm in ("spectral", "trace"):
            expected = _dense(jacobian, columns, norm)
            assert_allclose(record_norms(factor, X, y, columns, norm), expected, rtol=rtol)
        copies = _block(jacobian, columns) * np.sqrt(weights)[:, None, None]
        joined = np.concatenate(list(copies), axis=1)
        for norm, order in (("spectral", 2), ("trace", "fro")):
            expected = np.linalg.norm(joined, order)
            assert_allclose(joint_norm(factor, X, y, weights, columns, norm), expected, rtol=rtol)
    singles = [Columns(np.array([j])) for j in range(d)][::-1]
    expected = np.linalg.norm(jacobian[:, :, :-1], axis=1)[:, ::-1]
    assert_allclose(feature_norms(factor, X, y, singles), expected, rtol=rtol)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("n, d", [(30, 6), (5, 9), (8, 1), (3, 2)])
def test_random_problems(make_problem, kind, fit_intercept, n, d):
    for alpha in (1e-4, 1e-1):
        _check(make_problem(kind, n=n, d=d, fit_intercept=fit_intercept, alpha=alpha))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_very_many_random_problems(make_problem, rng, kind):
    for _ in range(100):
        n, d = int(rng.integers(3, 40)), int(rng.integers(1, 13))
        intercept = bool(rng.integers(2))
        scale = 10.0 ** rng.uniform(-3, 3, size=d) if kind != "poisson" else 0.3
        alpha = 10.0 ** rng.integers(-3, 2)
        _check(make_problem(kind, n=n, d=d, fit_intercept=intercept, alpha=alpha, scale=scale))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_far_apart(make_problem, kind, fit_intercept):
    scale = np.array([1e6, 1.0, 1e-6, 1e3])
    _check(make_problem(kind, n=20, d=4, fit_intercept=fit_intercept, scale=scale))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_far_from_zero(make_problem, kind):
    _check(make_problem(kind, offset=np.array([1e5, 0.0, -1e4])), rtol=1e-8)


def test_records_of_all_sizes_of_residual(make_problem, rng):
    X = rng.normal(size=(40, 4))
    residual = np.sign(rng.normal(size=40)) * 10.0 ** rng.uniform(-14, 3, size=40)
    _check(make_problem("squared", X=X, y=X @ [3.0, -1.0, 0.5, 2.0] + residual, alpha=1e-6))


@pytest.mark.parametrize("alpha", [1e-2, 0.0])
def test_perfect_fit(make_problem, rng, alpha):
    X = rng.normal(size=(12, 3))
    problem = make_problem("squared", X=X, y=X @ [1.0, 2.0, 3.0] + 1.0, alpha=alpha)
    _check(problem)


def test_residuals_of_exactly_zero(rng):
    # Without a residual only a rank-one matrix is left, and nothing may divide by it.
    inverse = np.diag([1.0, 2.0, 3.0, 4.0])
    factor = FitFactor(np.array([1.0, -1.0, 2.0, 0.5]), inverse, SquaredLoss(), True)
    X = rng.normal(size=(6, 3))
    y = np.column_stack([X, np.ones(6)]) @ factor.coefficients
    jacobian = factor.jacobian(X, y)
    assert np.abs(factor.derivatives(X, y)[1]).max() == 0.0
    for columns in column_blocks(3):
        for norm in ("spectral", "trace"):
            found = record_norms(factor, X, y, columns, norm)
            assert_allclose(found, _dense(jacobian, columns, norm), rtol=RTOL)


def test_coefficients_of_exactly_zero(rng):
    factor = FitFactor(np.zeros(3), np.diag([1.0, 2.0, 3.0]), SquaredLoss(), False)
    X, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    assert_allclose(record_norms(factor, X, y, Columns()), 3.0 * np.abs(y), rtol=RTOL)
    assert_allclose(
        record_norms(factor, X, y, Columns(), "trace"), np.abs(y) * np.sqrt(14 / 3), rtol=RTOL
    )


def test_saturated_classes(make_problem, rng):
    X = 30.0 * rng.normal(size=(20, 3))
    y = (X @ [1.0, 1.0, 0.0] > 0.0).astype(float)
    problem = make_problem("logistic", X=X, y=y, alpha=1e-3)
    assert problem.factor.derivatives(X, y)[2].min() < 1e-8
    _check(problem)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_degenerate_spectra(make_problem, rng, d, fit_intercept):
    Q = np.linalg.qr(rng.normal(size=(24, d + 1)))[0]
    X = (Q - Q.mean(axis=0))[:, :d] if fit_intercept else Q[:, :d]
    _check(make_problem("squared", X=X, fit_intercept=fit_intercept, weighted=False))


@pytest.mark.parametrize("kind", KINDS)
def test_one_hot_blocks(make_problem, rng, kind):
    levels = np.eye(4)[np.append(np.arange(4), rng.integers(4, size=26))]
    X = np.column_stack([levels, rng.normal(size=30)])
    problem = make_problem(kind, X=X, alpha=1e-3)
    _check(problem)
    block = Columns(np.arange(4), constrained=True)
    free = Columns(np.arange(4))
    args = problem.factor, problem.X, problem.y
    # A tangent is a part of the block.
    assert np.all(record_norms(*args, block) <= record_norms(*args, free) * (1.0 + 1e-12))
    assert block.count(5) == 3


def test_a_pair_of_columns_on_the_simplex_is_one_direction(make_problem):
    problem = make_problem("squared")
    jacobian = problem.dense_jacobian()
    expected = np.linalg.norm(jacobian[:, :, 2] - jacobian[:, :, 0], axis=1) / np.sqrt(2)
    block = Columns(np.array([0, 2]), constrained=True)
    for norm in ("spectral", "trace"):
        found = record_norms(problem.factor, problem.X, problem.y, block, norm)
        assert_allclose(found, expected, rtol=RTOL)


def test_a_single_column_on_the_simplex_cannot_move(make_problem):
    problem = make_problem("squared")
    blocks = [Columns(np.array([1]), constrained=True), Columns(np.array([1]))]
    assert [block.is_single for block in blocks] == [False, True]
    found = feature_norms(problem.factor, problem.X, problem.y, blocks)
    assert_allclose(found[:, 0], 0.0)
    assert np.all(found[:, 1] > 0.0)


def test_records_whose_leakage_cancels(rng):
    # r A E + c u w^T with one column: the two terms may cancel to any degree, the sum may not.
    for distance in (0.0, 1e-14, 1e-9, 1e-4):
        factor = FitFactor(np.array([2.0]), np.array([[0.5]]), SquaredLoss(), False)
        x = np.array([[1.5]])
        # J = -A (x w + r) with r = x w - y vanishes at y = 2 x w.
        y = np.array([2 * 1.5 * 2.0 * (1.0 + distance)])
        expected = 0.5 * abs(x[0, 0] * 2.0 + (x[0, 0] * 2.0 - y[0]))
        assert_allclose(record_norms(factor, x, y, Columns()), [expected], rtol=RTOL)
        singles = feature_norms(factor, x, y, [Columns(np.array([0]))])
        assert_allclose(singles, [[expected]], rtol=RTOL)


def test_blocks_whose_leakage_nearly_cancels(rng):
    d = 4
    for distance in 10.0 ** rng.uniform(-12, 0, size=30):
        A = np.linalg.inv(_random_spd(rng, d))
        w = rng.normal(size=d)
        x = -w / (w @ w) * (1.0 + distance)  # with r = 1 and c = 1: A (E + x w^T) w is small
        factor = FitFactor(w, A, SquaredLoss(), False)
        y = np.array([x @ w - 1.0])
        jacobian = factor.jacobian(x[None], y)
        for columns in column_blocks(d):
            expected = _dense(jacobian, columns, "spectral")
            assert_allclose(record_norms(factor, x[None], y, columns), expected, rtol=RTOL)
            joint = joint_norm(factor, x[None], y, np.ones(1), columns)
            assert_allclose(joint, expected[0], rtol=RTOL)
        singles = [Columns(np.array([j])) for j in range(d)]
        expected = np.linalg.norm(jacobian[:, :, :-1], axis=1)
        assert_allclose(feature_norms(factor, x[None], y, singles), expected, rtol=RTOL)


def _random_spd(rng, d):
    root = rng.normal(size=(d, d))
    return root @ root.T + 0.1 * np.eye(d)


def test_sparse_records_equal_dense_ones(make_problem, rng):
    X = rng.normal(size=(25, 6)) * (rng.random((25, 6)) < 0.3)
    problem = make_problem("logistic", X=X)
    factor, y, weights = problem.factor, problem.y, problem.s
    csr = sparse.csr_array(X)
    blocks = [Columns(np.array([j])) for j in range(6)] + [Columns(np.array([1, 4]))]
    for columns in (Columns(target=True), Columns(np.array([0, 3]))):
        assert_allclose(
            record_norms(factor, csr, y, columns), record_norms(factor, X, y, columns), rtol=1e-12
        )
        dense = joint_norm(factor, X, y, weights, columns)
        assert_allclose(joint_norm(factor, csr, y, weights, columns), dense, rtol=1e-12)
    assert_allclose(
        feature_norms(factor, csr, y, blocks), feature_norms(factor, X, y, blocks), rtol=1e-12
    )


def test_blocks_of_rows_do_not_show(make_problem, monkeypatch):
    problem = make_problem("logistic", n=23, d=4)
    args = problem.factor, problem.X, problem.y
    whole = record_norms(*args, Columns(target=True))
    joint = joint_norm(*args, problem.s, Columns(target=True))
    monkeypatch.setattr(
        "skleak.utils._blocks.row_blocks",
        lambda n, *_: (slice(i, min(i + 3, n)) for i in range(0, n, 3)),
    )
    assert_allclose(record_norms(*args, Columns(target=True)), whole, rtol=1e-13)
    assert_allclose(joint_norm(*args, problem.s, Columns(target=True)), joint, rtol=1e-13)


def test_one_group_of_one_record_is_that_record(make_problem):
    problem = make_problem("poisson")
    factor, X, y = problem.factor, problem.X, problem.y
    for columns in column_blocks(3):
        alone = [joint_norm(factor, X[[i]], y[[i]], np.ones(1), columns) for i in range(5)]
        assert_allclose(alone, record_norms(factor, X[:5], y[:5], columns), rtol=RTOL)


def test_a_group_leaks_at_least_as_much_as_its_records_and_no_more_than_their_sum(make_problem):
    problem = make_problem("logistic", n=30)
    args = problem.factor, problem.X, problem.y
    records = record_norms(*args, Columns(target=True))
    joint = joint_norm(*args, np.ones(30), Columns(target=True))
    assert records.max() <= joint <= np.sqrt(np.sum(records**2))
    trace = joint_norm(*args, np.ones(30), Columns(target=True), "trace")
    diagonal = record_norms(*args, Columns(target=True), "trace")
    assert_allclose(trace, np.sqrt(4 * np.sum(diagonal**2)), rtol=RTOL)


def test_memory_is_bounded(rng):
    n, d = 20_000, 50
    X, y = rng.normal(size=(n, d)), (rng.random(n) < 0.5).astype(float)
    factor = FitFactor(0.1 * rng.normal(size=d + 1), np.eye(d + 1) / n, LogisticLoss(), True)
    block = [Columns(np.arange(10))]
    weights = np.ones(n)
    calls = [
        lambda: record_norms(factor, X, y, Columns(target=True)),
        lambda: record_norms(factor, X, y, Columns(np.arange(10))),
        lambda: feature_norms(factor, X, y, block),
        lambda: joint_norm(factor, X, y, weights, Columns(target=True)),
    ]
    for call in calls:
        assert peak_memory(call) < 40e6


def test_perfect_fits_need_no_dense_matrices(rng, monkeypatch):
    n, d = 4_000, 30
    X = rng.normal(size=(n, d))
    factor = FitFactor(rng.normal(size=d), np.eye(d) / n, SquaredLoss(), False)
    y = X @ factor.coefficients
    monkeypatch.setattr(FitFactor, "jacobian", None)  # dense matrices, one by one, take forever
    expected = np.linalg.norm(X, axis=1) / n * np.sqrt(factor.weights @ factor.weights + 1.0)
    assert_allclose(record_norms(factor, X, y, Columns(target=True)), expected, rtol=RTOL)


@pytest.mark.parametrize(
    "columns, count",
    [
        (Columns(), 5),
        (Columns(target=True), 6),
        (Columns(np.array([1, 2])), 2),
        (Columns(np.array([1, 2]), target=True), 3),
        (Columns(np.array([0, 1, 2]), constrained=True), 2),
        (Columns(np.array([], dtype=int), target=True), 1),
    ],
)
def test_directions_of_a_block(columns, count):
    assert columns.count(5) == count
    basis = columns.basis(5)
    assert basis.shape == (5, count - columns.target)
    assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-15)
    if columns.constrained:
        assert_allclose(basis.sum(axis=0), 0.0, atol=1e-15)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
@pytest.mark.parametrize(
    "columns",
    [Columns(), Columns(target=True), Columns(np.array([0, 2]), constrained=True)],
    ids=["record", "with target", "one-hot"],
)
def test_many_fits_at_once(make_problem, columns, norm, rng):
    problem = make_problem("poisson")
    factor, X, y = problem.factor, problem.X, problem.y
    p = len(factor.coefficients)
    w = factor.coefficients + rng.normal(size=(3, p))
    w[1] = 0.0  # nothing but its residual tells of a record
    roots = rng.normal(size=(3, p, p))
    inverse = factor.inverse_hessian + roots @ roots.transpose(0, 2, 1)
    # Records of each fit's own.
    fits = [
        (replace(factor, coefficients=w[k], inverse_hessian=inverse[k]), X + k, np.roll(y, k))
        for k in range(3)
    ]
    expected = [record_norms(*fit, columns, norm) for fit in fits]
    assert_allclose(norms_of_fits(fits, columns, norm), expected, rtol=1e-12)
    assert_allclose(norms_of_fits(fits[2:], columns, norm)[0], expected[2])
