"""Influence with several classes, against re-solved fits, dense matrices and the binary model."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import column_blocks, mostly_slow, peak_memory
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import softmax

from skleak.influence.jacobian import (
    Columns,
    FitFactor,
    MultinomialFactor,
    _multinomial,
    feature_norms,
    joint_norm,
    record_norms,
)
from skleak.influence.jacobian._multinomial import label_directions
from skleak.losses import LogisticLoss, SoftmaxLoss
from skleak.solvers import MultinomialObjective, Objective, by_class, minimize
from skleak.utils._linalg import SingularMatrixError

RTOL = 1e-8


def _check_derivative(problem, records=(0, 9), copies=1.0, rtol=1e-6):
    jacobian = problem.factor.jacobian(problem.X, problem.y)
    for i in records:
        expected = problem.central_jacobian(i, copies)
        found = copies * problem.omega[i] * jacobian[i]
        d = problem.X.shape[1]
        for part in (slice(0, d), slice(d, None)):
            error = np.linalg.norm(found[:, part] - expected[:, part])
            assert error < rtol * np.linalg.norm(expected[:, part])


@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("weighted", mostly_slow([True, False], 0))
@pytest.mark.parametrize("n_classes", mostly_slow([2, 3, 5], 1))
def test_jacobian_is_the_derivative_of_the_minimizer(
    make_multinomial, fit_intercept, weighted, n_classes
):
    _check_derivative(
        make_multinomial(n_classes=n_classes, fit_intercept=fit_intercept, weighted=weighted)
    )


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1e-10])
def test_jacobian_without_a_penalty(make_multinomial, fit_intercept, alpha):
    _check_derivative(make_multinomial(150, 2, 3, alpha=alpha, fit_intercept=fit_intercept))


@pytest.mark.parametrize("n, d", mostly_slow([(5, 7), (6, 1)], 1))
def test_few_records_and_one_column(make_multinomial, n, d):
    _check_derivative(make_multinomial(n, d, 3, alpha=0.1), records=(0, 4))


@pytest.mark.slow
def test_all_copies_of_a_record_move_together(make_multinomial):
    problem = make_multinomial()
    i = int(problem.s.argmax())
    assert problem.s[i] > 1.0
    _check_derivative(problem, records=(i,), copies=problem.s[i])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_classes_are_the_binary_model(make_multinomial, fit_intercept):
    problem = make_multinomial(n_classes=2, alpha=2e-2, fit_intercept=fit_intercept)
    binary = Objective(
        problem.X, problem.y, LogisticLoss(), 1e-2, fit_intercept, problem.s, problem.omega
    )
    minimum = minimize(binary)
    expected = FitFactor(
        minimum.coefficients, minimum.inverse_hessian, LogisticLoss(), fit_intercept
    )
    first, second = problem.positions
    jacobian = problem.factor.jacobian(problem.X, problem.y)
    difference = jacobian[:, second] - jacobian[:, first]
    dense = expected.jacobian(problem.X, problem.y)
    assert_allclose(difference[:, :, :3], dense[:, :, :3], rtol=1e-9, atol=1e-14)
    # Labels lie sqrt(2) apart along the one direction of the simplex.
    across = label_directions(2)[1, 0] * 2.0
    assert_allclose(across * difference[:, :, 3], dense[:, :, 3], rtol=1e-9, atol=1e-14)
    # The parameters of either class are half of the difference: their norm is its over sqrt(2).
    for columns in (Columns(), Columns(np.array([1])), Columns(np.array([0, 2]))):
        for norm in ("spectral", "trace"):
            found = record_norms(problem.factor, problem.X, problem.y, columns, norm)
            other = record_norms(expected, problem.X, problem.y, columns, norm)
            assert_allclose(found * np.sqrt(2.0), other, rtol=1e-9)
    label = Columns(np.array([], dtype=int), target=True)
    found = record_norms(problem.factor, problem.X, problem.y, label)
    assert_allclose(2.0 * found, record_norms(expected, problem.X, problem.y, label), rtol=1e-9)


def _block(jacobian, columns, d):
    """The part of dense Jacobians that a block of columns stands for."""
    x = jacobian[:, :, :d]
    if columns.indices is not None:
        x = x[:, :, columns.indices]
    if columns.constrained:
        x = x @ label_directions(x.shape[2])
    return np.concatenate([x, jacobian[:, :, d:]], axis=2) if columns.target else x


def _check_norms(problem, rtol=RTOL):
    factor, jacobian = problem.factor, problem.dense_jacobian()
    X, y, d = problem.X, problem.y, problem.X.shape[1]
    weights = problem.s * problem.omega**2
    few = np.arange(2)  # of which the Jacobians are put side by side
    for columns in column_blocks(d):
        block = _block(jacobian, columns, d)
        spectral = np.linalg.norm(block, 2, axis=(1, 2))
        trace = np.sqrt(np.sum(block**2, axis=(1, 2)) / block.shape[2])
        assert_allclose(record_norms(factor, X, y, columns), spectral, rtol=rtol)
        assert_allclose(record_norms(factor, X, y, columns, "trace"), trace, rtol=rtol)
        for rows in (np.arange(len(y)), few):
            copies = block[rows] * np.sqrt(weights[rows])[:, None, None]
            joined = np.concatenate(list(copies), axis=1)
            for norm, order in (("spectral", 2), ("trace", "fro")):
                expected = np.linalg.norm(joined, order)
                found = joint_norm(factor, X[rows], y[rows], weights[rows], columns, norm)
                assert_allclose(found, expected, rtol=rtol)
    singles = [Columns(np.array([j])) for j in range(d)][::-1]
    expected = np.linalg.norm(jacobian[:, :, :d], axis=1)[:, ::-1]
    assert_allclose(feature_norms(factor, X, y, singles), expected, rtol=rtol)
    table = feature_norms(factor, X, y, column_blocks(d))
    expected = np.column_stack([record_norms(factor, X, y, block) for block in column_blocks(d)])
    assert_allclose(table, expected, rtol=rtol)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n, d, n_classes", [(40, 6, 10), (30, 4, 3), (20, 1, 4), (7, 9, 3)])
@pytest.mark.parametrize("alpha", mostly_slow([1e-4, 1e-1], 0))
def test_norms_equal_those_of_dense_matrices(
    make_multinomial, fit_intercept, n, d, n_classes, alpha
):
    _check_norms(make_multinomial(n, d, n_classes, fit_intercept=fit_intercept, alpha=alpha))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_norms_without_a_penalty(make_multinomial, fit_intercept):
    _check_norms(make_multinomial(300, 3, 4, alpha=0.0, fit_intercept=fit_intercept))


def test_ten_saturated_classes(make_multinomial):
    problem = make_multinomial(60, 4, 10, slope=1e3, alpha=1e-8)
    p = softmax(problem.objective.predictor(problem.factor.coefficients), axis=1)
    assert p.max() > 1.0 - 1e-4
    assert p.min() < 1e-20
    _check_norms(problem, rtol=1e-7)


def test_units_far_apart(make_multinomial, rng):
    X = rng.normal(size=(40, 4)) * [1e3, 1.0, 1e-3, 10.0]
    _check_norms(make_multinomial(X=X, n_classes=5, slope=1e-3), rtol=1e-7)


def test_a_rare_class(make_multinomial):
    problem = make_multinomial(60, 3, 4)
    Y = problem.Y.copy()
    Y[4:, 3] = 0.0
    Y[Y.sum(axis=1) == 0.0, 0] = 1.0
    _check_norms(replace(problem, Y=Y))


@pytest.mark.parametrize("own", [0, 2])
def test_one_hot_blocks(make_multinomial, rng, own):
    levels = np.eye(4)[np.append(np.arange(4), rng.integers(4, size=36))]
    X = np.column_stack([rng.normal(size=(40, own)), levels])
    problem = make_multinomial(X=X, n_classes=5, alpha=1e-3)
    _check_norms(problem)


def test_sparse_records_equal_dense_ones(make_multinomial, rng):
    X = rng.normal(size=(60, 6)) * (rng.random((60, 6)) < 0.3)
    problem = make_multinomial(X=X)
    factor, y, weights = problem.factor, problem.y, problem.s
    csr = sparse.csr_array(X)
    blocks = [Columns(np.array([j])) for j in range(6)] + [Columns(np.array([1, 4]))]
    for columns in (Columns(target=True), Columns(np.array([0, 3]))):
        for norm in ("spectral", "trace"):
            dense = record_norms(factor, X, y, columns, norm)
            assert_allclose(record_norms(factor, csr, y, columns, norm), dense, rtol=1e-12)
            dense = joint_norm(factor, X, y, weights, columns, norm)
            assert_allclose(joint_norm(factor, csr, y, weights, columns, norm), dense, rtol=1e-12)
            few = joint_norm(factor, csr[:1], y[:1], weights[:1], columns, norm)
            dense = joint_norm(factor, X[:1], y[:1], weights[:1], columns, norm)
            assert_allclose(few, dense, rtol=1e-12)
    assert_allclose(
        feature_norms(factor, csr, y, blocks), feature_norms(factor, X, y, blocks), rtol=1e-12
    )


def test_blocks_of_rows_do_not_show(make_multinomial, monkeypatch):
    problem = make_multinomial(23, 4)
    args = problem.factor, problem.X, problem.y
    block = Columns(target=True)
    single = [Columns(np.array([1]))]

    def measure():
        return (
            record_norms(*args, block),
            feature_norms(*args, single),
            joint_norm(*args, problem.s, block),
            joint_norm(*args, problem.s, block, "trace"),
        )

    whole = measure()
    monkeypatch.setattr(
        "skleak.utils._blocks.row_blocks",
        lambda n, *_: (slice(i, min(i + 3, n)) for i in range(0, n, 3)),
    )
    for found, expected in zip(measure(), whole, strict=True):
        assert_allclose(found, expected, rtol=1e-12)


def test_a_record_whose_leakage_cancels():
    # One column: the two terms of the Jacobian cancel where the prediction is at a turning point.
    factor = MultinomialFactor(
        np.array([-1.0, 0.0, 1.0]), np.eye(3) - 1.0 / 3.0, SoftmaxLoss(), False, 3
    )
    for x in np.linspace(-2.0, 2.0, 81):
        records, y = np.array([[x]]), np.array([1.0])
        expected = np.linalg.norm(factor.jacobian(records, y)[0, :, :1])
        for found in (
            record_norms(factor, records, y, Columns())[0],
            feature_norms(factor, records, y, [Columns(np.array([0]))])[0, 0],
            joint_norm(factor, records, y, np.ones(1), Columns()),
        ):
            assert_allclose(found, expected, rtol=RTOL, atol=1e-12)


def test_a_group_leaks_at_least_as_much_as_its_records_and_no_more_than_their_sum(make_multinomial):
    problem = make_multinomial(80, 3, 3)
    args = problem.factor, problem.X, problem.y
    records = record_norms(*args, Columns(target=True))
    joint = joint_norm(*args, np.ones(80), Columns(target=True))
    assert records.max() <= joint <= np.sqrt(np.sum(records**2))
    trace = joint_norm(*args, np.ones(80), Columns(target=True), "trace")
    diagonal = record_norms(*args, Columns(target=True), "trace")
    assert_allclose(trace, np.sqrt(5 * np.sum(diagonal**2)), rtol=1e-9)


def test_memory_is_bounded(rng):
    n, d, n_classes = 6_000, 15, 10
    X, y = rng.normal(size=(n, d)), rng.integers(n_classes, size=n).astype(float)
    p = n_classes * (d + 1)
    share = np.kron(np.eye(n_classes) - 1.0 / n_classes, np.eye(d + 1))
    inverse = np.empty((p, p))
    positions = by_class(n_classes, d, True).ravel()
    inverse[np.ix_(positions, positions)] = share / n
    w = share @ rng.normal(size=p)
    coefficients = np.empty(p)
    coefficients[positions] = 0.1 * w
    factor = MultinomialFactor(coefficients, inverse, SoftmaxLoss(), True, n_classes)
    weights = np.ones(n)
    calls = [
        lambda: record_norms(factor, X, y, Columns(target=True)),
        lambda: record_norms(factor, X, y, Columns(np.arange(10)), "trace"),
        lambda: feature_norms(factor, X, y, [Columns(np.array([3])), Columns(np.arange(4))]),
        lambda: joint_norm(factor, X, y, weights, Columns(target=True)),
    ]
    for call in calls:
        # All dense Jacobians would take 184 MB.
        assert peak_memory(call) < 90e6


def test_directions_of_a_label():
    for n_classes in (2, 3, 10):
        T = label_directions(n_classes)
        assert_allclose(T.T @ T, np.eye(n_classes - 1), atol=1e-14)
        assert_allclose(T.sum(axis=0), 0.0, atol=1e-14)
    assert Columns(target=True).count(3, 9) == 12


@pytest.mark.parametrize("n_classes, scale", [(3, 1.0), (5, 1.0), (4, 30.0), (3, 0.01)])
def test_upper_ends_are_never_below_dense_norms_and_tight(
    make_multinomial, monkeypatch, n_classes, scale
):
    problem = make_multinomial(90, 24, n_classes, alpha=1e-2)
    X, y = scale * problem.X, problem.y
    one = np.ones(len(y))
    objective = MultinomialObjective(X, y, SoftmaxLoss(), 1e-2, True, one, one, n_classes)
    factor = MultinomialFactor.of(objective, minimize(objective))
    columns = Columns(target=True)
    dense = np.linalg.norm(factor.jacobian(X, y), 2, axis=(1, 2))
    block = _multinomial._Parts.of(factor, columns).of_records(X, y)
    ends, excess = block._upper_ends()
    assert np.all(np.sqrt(ends[excess < np.inf]) >= dense[excess < np.inf] * (1.0 - 1e-12))
    tight = excess <= _multinomial._EXCESS
    assert_allclose(np.sqrt(ends[tight]), dense[tight], rtol=1e-9)
    found = record_norms(factor, X, y, columns)
    assert_allclose(found, dense, rtol=1e-9)
    assert np.all(found >= dense * (1.0 - 1e-12))
    if scale == 1.0:
        assert np.mean(tight) > 0.5  # and no dense eigenvalues for these


@pytest.mark.parametrize("kind", ["random", "zero", "last"])
def test_upper_ends_hold_on_whatever_vectors_and_basis(make_multinomial, monkeypatch, rng, kind):
    problem = make_multinomial(90, 24, 5, alpha=1e-2)
    X, y, one = problem.X, problem.y.copy(), np.ones(90)
    y[y == 4.0] = 0.0
    y[:2] = 4.0  # a rare class
    objective = MultinomialObjective(X, y, SoftmaxLoss(), 1e-2, True, one, one, 5)
    factor = MultinomialFactor.of(objective, minimize(objective))

    def vectors(matrices, squarings):
        if kind == "last":  # far below the first
            return np.linalg.eigh(matrices)[1][:, :, 0]
        found = rng.normal(size=matrices.shape[:2])
        return found / np.linalg.norm(found, axis=1, keepdims=True) * (kind == "random")

    def refuse(matrix):
        raise SingularMatrixError

    monkeypatch.setattr(_multinomial, "_near_top", vectors)
    monkeypatch.setattr(_multinomial.ScaledCholesky, "of", refuse)
    dense = np.linalg.norm(factor.jacobian(X, y), 2, axis=(1, 2))
    block = _multinomial._Parts.of(factor, Columns(target=True)).of_records(X, y)
    for effort in _multinomial._EFFORTS:
        ends, excess = block._upper_ends(effort)
        known = excess < np.inf
        assert np.all(np.sqrt(ends[known]) >= dense[known] * (1.0 - 1e-12))
        tight = excess <= _multinomial._EXCESS
        assert_allclose(np.sqrt(ends[tight]), dense[tight], rtol=1e-9)
    assert_allclose(record_norms(factor, X, y, Columns(target=True)), dense, rtol=1e-9)


def test_the_bound_of_the_residuals_part(make_multinomial, rng):
    factor = make_multinomial(60, 8, 4).factor
    parts = _multinomial._Parts.of(factor, Columns(target=True))
    for r in rng.normal(size=(20, 3)):
        part = np.tensordot(r, parts.root[:, :, :8], axes=(0, 1))
        pairs = (r[parts.first] * r[parts.second])[None]
        assert np.linalg.norm(part, 2) ** 2 <= parts.most(pairs)[0] * (1.0 + 1e-12)


@pytest.mark.parametrize("scale", [1e-50, 1e50])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_of_any_size_do_not_overflow(make_multinomial, scale, fit_intercept):
    problem = make_multinomial(90, 24, 4, alpha=1e-2, fit_intercept=fit_intercept)
    X, y, one = scale * problem.X, problem.y, np.ones(90)
    alpha = 1e-2 * scale**2  # so that the predictors are the same
    objective = MultinomialObjective(X, y, SoftmaxLoss(), alpha, fit_intercept, one, one, 4)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        factor = MultinomialFactor.of(objective, minimize(objective))
        found = record_norms(factor, X, y, Columns(target=True))
    dense = np.linalg.norm(factor.jacobian(X, y), 2, axis=(1, 2))
    assert_allclose(found, dense, rtol=1e-9)
    assert np.all(found >= dense * (1.0 - 1e-12))
