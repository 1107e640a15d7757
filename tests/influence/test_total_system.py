"""Derivatives of the balanced norm, and of the closed system that a reweighted fit solves."""

import warnings

import numpy as np
import pytest
from helpers import every, flat, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from skleak.influence.jacobian import Columns, FitFactor, largest_eigenvalue
from skleak.influence.reweighting._total import total_jacobian
from skleak.influence.reweighting._total_system import (
    Adjoint,
    AdjointSystem,
    Balance,
    _eigenvectors,
    hessian_root,
)
from skleak.influence.state import WeightRule
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.losses import LogisticLoss, PoissonLoss, SquaredLoss
from skleak.solvers import Objective

LOSSES = {"squared": SquaredLoss(), "logistic": LogisticLoss(), "poisson": PoissonLoss()}
MODELS = {
    "squared": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "poisson": PrivatePoissonRegressor,
}
BLOCKS = {
    "record": Columns(target=True),
    "columns": Columns(),
    "one column": Columns(np.array([1])),
    "two columns": Columns(np.array([2, 0])),
    "column and target": Columns(np.array([1]), target=True),
    "target": Columns(np.array([], dtype=np.intp), target=True),
    "tangent": Columns(np.array([0, 1, 2]), constrained=True),
}


def _random_factor(kind, rng, p, fit_intercept):
    square = rng.normal(size=(p, 2 * p))
    return FitFactor(
        rng.normal(size=p) / 2.0,
        np.linalg.inv(square @ square.T),
        LOSSES[kind],
        fit_intercept,
    )


# A rule as that of "total", with the residual damped and weights bounded.
RULES = {"irfil": WeightRule, "total": WeightRule.total}


def _log_kappa(kind, hessian, w, fit_intercept, x, y, rule):
    """Logarithm of the balanced norm of one record, from its definition."""
    d, columns, norm = len(x), rule.columns, rule.norm
    full = np.append(x, 1.0) if fit_intercept else x
    a = full @ w
    r, c = {
        "squared": (a - y, 1.0),
        "logistic": (expit(a) - y, expit(a) * expit(-a)),
        "poisson": (np.exp(a) - y, np.exp(a)),
    }[kind]
    embed = np.eye(len(full))[:, :d] @ columns.basis(d)
    blocks = [c * np.outer(full, embed.T @ w) + rule.residual_factor * r * embed]
    if columns.target:
        blocks.append(-full[:, None])
    jacobian = np.linalg.solve(hessian, np.hstack(blocks))
    value = np.linalg.norm(jacobian, 2 if norm == "spectral" else "fro")
    return np.log(value if norm == "spectral" else value / np.sqrt(jacobian.shape[1]))


def _slope(function, h=1e-5):
    """Derivative at zero, by differences of order four."""
    near, far = function(h) - function(-h), function(2.0 * h) - function(-2.0 * h)
    return (8.0 * near - far) / (12.0 * h)


@pytest.mark.slow
@every("norm", ["spectral", "trace"])
@every("block", BLOCKS)
@every("fit_intercept", [True, False])
@every("kind", LOSSES)
@every("name", RULES)
def test_gradient_of_the_balanced_norm(name, kind, fit_intercept, block, norm, rng):
    d, rule = 3, RULES[name](BLOCKS[block], norm)
    p = d + fit_intercept
    factor = _random_factor(kind, rng, p, fit_intercept)
    X, y = rng.normal(size=(4, d)), rng.integers(0, 2, size=4).astype(float)
    level = 0.7
    balance = Balance.of(factor, rule, level)
    g = balance.gradients(X, y)
    assert_allclose(g.kappa, rule.norms(factor, X, y), rtol=1e-10)
    logs = [
        _slope(lambda h: np.log(rule.weights(g.kappa * np.exp(-h), level))),
        _slope(lambda h: np.log(rule.weights(g.kappa, level * np.exp(h)))),
    ]
    assert_allclose(logs, [g.follows, g.follows], rtol=1e-8)
    hessian, w = np.linalg.inv(factor.inverse_hessian), factor.coefficients
    dx, dy, dw = rng.normal(size=d), 0.7, rng.normal(size=p)
    dh = rng.normal(size=(p, p))
    dh = (dh + dh.T) @ hessian @ (dh + dh.T) / 10.0
    whitened = balance.root.T @ dh @ balance.root
    for i in range(4):

        def log_kappa(h, w=w, x=X[i], y=y[i], by=(0, 0, 0, 0)):
            return _log_kappa(
                kind,
                hessian + h * by[0] * dh,
                w + h * by[1] * dw,
                fit_intercept,
                x + h * by[2] * dx,
                y + h * by[3] * dy,
                rule,
            )

        def slope(k):
            return _slope(lambda h: log_kappa(h, by=np.eye(4)[k]))

        left_right = sum(
            np.outer(left[i % len(left)], right[i % len(right)]) for left, right in g.pairs
        )
        by_hessian = -np.sum(whitened * (left_right + g.common[i] * balance.common))
        by_record = g.predictor[i] * (dx @ w[:d]) + g.direct[i] @ balance.root[:d].T @ dx
        by_fit = g.coefficients[i] @ np.linalg.solve(balance.root, dw)
        expected = [by_hessian, by_fit, by_record, g.target[i] * dy]
        assert_allclose(expected, [slope(k) for k in range(4)], rtol=1e-6, atol=1e-8)


def test_eigenvectors_are_those_of_the_matrices(rng):
    """Without them every record would take an eigendecomposition of its own."""
    n, k = 50, 6
    diagonal, g = np.sort(rng.random(k)), rng.normal(size=k)
    p, rho, h = rng.normal(size=(n, k)), rng.random(n), rng.random(n)
    dense = rho[:, None, None] * np.diag(diagonal) + p[:, :, None] * p[:, None, :]
    dense += h[:, None, None] * np.outer(g, g)
    z = largest_eigenvalue(diagonal, rho, p, h, g)
    vectors = _eigenvectors(diagonal, rho, p, h, g, z)
    assert_allclose(np.einsum("npq,nq->np", dense, vectors), z[:, None] * vectors, atol=1e-9)


def test_eigenvectors_where_the_secular_equation_has_no_root(rng):
    # The record moves nothing but the last coefficient, which is not that of largest leakage.
    factor = FitFactor(
        np.array([0.0, 0.0, 0.5]), np.diag([3.0, 2.0, 0.1]), SquaredLoss(), fit_intercept=False
    )
    X, y = np.array([[0.0, 0.0, 0.1], [0.4, 0.3, 0.2]]), np.array([2.0, 1.0])
    kappa, vectors = Balance.of(factor, WeightRule())._top_vectors(X, y)
    jacobians = factor.jacobian(X, y)[:, :, :-1]
    assert_allclose(kappa, np.linalg.norm(jacobians, 2, axis=(1, 2)), rtol=1e-13)
    assert_allclose(np.abs(vectors[0]), [1.0, 0.0, 0.0], atol=1e-12)
    dense = np.linalg.svd(jacobians[1])[0][:, 0]
    assert abs(dense @ vectors[1]) == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
def test_records_that_do_not_leak_have_no_gradient(norm, rng):
    factor = _random_factor("squared", rng, 3, fit_intercept=False)
    X, y = np.vstack([np.zeros(3), rng.normal(size=3)]), np.array([0.0, 1.0])
    balance = Balance.of(factor, WeightRule(Columns(target=True), norm))
    g = balance.gradients(X, y)
    assert g.kappa[0] == 0.0
    assert g.kappa[1] > 0.0
    for part in (g.predictor, g.direct, g.target, g.coefficients, g.common):
        assert_array_equal(part[0], 0.0)
    adjoint = Adjoint(np.eye(3), np.zeros((3, 3, 3)), np.ones(3))
    by_weight = adjoint.products(g)[3]
    assert_array_equal(by_weight[0], 0.0)
    assert np.all(by_weight[1] != 0.0)


def test_root_of_columns_in_unlike_units(rng):
    square = rng.normal(size=(4, 9)) * np.array([[1e-6], [1.0], [1e3], [1e7]])
    matrix = square @ square.T
    root = hessian_root(matrix)
    assert_allclose(root @ root.T, matrix, rtol=1e-12)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("name", RULES)
def test_the_written_out_system_is_the_product(name, kind, norm, rng):
    n, d = 15, 3
    X, y = rng.normal(size=(n, d)), rng.integers(0, 2, size=n).astype(float)
    weights = rng.integers(0, 3, size=n).astype(float)
    objective = Objective(X, y, LOSSES[kind], 0.1, True, weights, rng.random(n))
    factor = _random_factor(kind, rng, d + 1, fit_intercept=True)
    balance = Balance.of(factor, RULES[name](Columns(np.array([0, 2]), target=True), norm), 0.5)
    system = AdjointSystem(objective, balance)
    vectors = rng.normal(size=(5, system.packing.size))
    adjoint = system.packing.unpack(vectors)
    assert_allclose(system.packing.pack(adjoint)[:, :-1], vectors[:, :-1], rtol=1e-12)
    assert_array_equal(adjoint.second, adjoint.second.transpose(0, 2, 1))
    product = system.packing.pack(system._apply(adjoint))
    assert_allclose(product, vectors @ system.matrix().T, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", ["spectral", "trace"])
@pytest.mark.parametrize("name", RULES)
def test_weights_answer_alike_in_blocks_of_any_size(name, norm, rng):
    X, y = rng.normal(size=(6, 3)), rng.integers(0, 2, size=6).astype(float)
    factor = _random_factor("logistic", rng, 4, fit_intercept=True)
    balance = Balance.of(factor, RULES[name](Columns(np.array([0, 2]), target=True), norm), 0.5)
    root = rng.normal(size=(4, 4))
    change = rng.normal(size=4), root + root.T, rng.normal()
    together = balance.gradients(X, y).effect(*change)
    for rows in (slice(0, 1), slice(1, 3), slice(3, 6)):
        alone = balance.gradients(X[rows], y[rows]).effect(*change)
        assert_allclose(alone, together[rows], rtol=1e-10, atol=1e-12)


class ClosedSystem:
    """``G(state, record) = 0`` written down from its definition, for differences."""

    def __init__(self, kind, state):
        self.kind, self.state = kind, state
        self.objective, self.p = state.objective, len(state.factor.coefficients)
        self.upper = np.triu_indices(self.p)
        hessian = np.linalg.inv(state.factor.inverse_hessian)
        level = np.log(state.balanced_level)
        self.solution = np.concatenate([state.factor.coefficients, hessian[self.upper], [level]])

    def __call__(self, unknowns, row=0, change=None):
        o, p, s = self.objective, self.p, self.state
        X, y = o.X, o.y
        copies = o.sample_weight
        if change is not None:  # one copy of a record
            X, y = np.vstack([X, X[row] + change[:-1]]), np.append(y, y[row] + change[-1])
            copies = np.append(copies, 1.0)
            copies[row] -= 1.0
        w, level = unknowns[:p], np.exp(unknowns[-1])
        hessian = np.zeros((p, p))
        hessian[self.upper] = unknowns[p:-1]
        hessian += np.triu(hessian, 1).T
        ridge = np.diag(o.penalty) * o.total
        first, second, third = ridge @ w, hessian - ridge, -o.total
        for x, target, count in zip(X, y, copies, strict=True):
            args = (self.kind, hessian, w, o.fit_intercept, x, target)
            kappa = np.exp(_log_kappa(*args, s.balanced))
            weight = count / np.hypot(kappa / level, 1.0 / s.balanced.largest_weight)
            full = np.append(x, 1.0) if o.fit_intercept else x
            a = full @ w
            r = (expit(a) if self.kind == "logistic" else np.exp(a)) - target
            c = expit(a) * expit(-a) if self.kind == "logistic" else np.exp(a)
            if self.kind == "squared":
                r, c = a - target, 1.0
            first = first + weight * r * full
            second = second - weight * c * np.outer(full, full)
            third += weight
        return np.concatenate([first, second[self.upper], [third]])

    def jacobian(self, row):
        """``-(dG/dstate)^-1 dG/drecord``, the rows of the coefficients."""
        d = self.objective.X.shape[1]
        sizes = np.maximum(np.abs(self.solution), 1e-2)
        by_state = [_slope(lambda h, e=e: self(self.solution + h * e)) for e in np.diag(sizes)]
        by_record = [_slope(lambda h, e=e: self(self.solution, row, h * e)) for e in np.eye(d + 1)]
        scaled = np.linalg.solve(np.column_stack(by_state), np.column_stack(by_record))
        return -(sizes[:, None] * scaled)[: self.p]


@pytest.mark.parametrize(
    "balance", mostly_slow([{}, {"reweighting__norm": "trace"}], 0), ids=["record", "trace"]
)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("kind", mostly_slow(MODELS, 1))
@pytest.mark.parametrize("reweighting", RULES)
def test_against_implicit_differentiation_by_hand(reweighting, kind, fit_intercept, balance, rng):
    X = rng.normal(size=(25, 2)) + 0.3
    a = X @ np.array([0.5, -0.4]) + 0.2
    y = {
        "squared": a + 0.5 * rng.normal(size=25),
        "logistic": (rng.random(25) < expit(a)).astype(int),
        "poisson": rng.poisson(np.exp(a)).astype(float),
    }[kind]
    weights = rng.integers(1, 4, size=25).astype(float)
    options = {"alpha": 0.3, "fit_intercept": fit_intercept, "tol": 1e-13, **balance}
    model = MODELS[kind](
        1.0,
        **flat(
            reweighting=reweighting,
            reweighting__tol=1e-12,
            reweighting__max_iter=200,
            **options,
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weights)
    assert min(model.reweighting_history_) <= 1e-11
    state = model._confidential_state()
    system = ClosedSystem(kind, state)
    assert np.abs(system(system.solution)).max() <= 1e-8 * system.objective.total
    for row in (0, 9):
        expected = weights[row] * system.jacobian(row)  # of the whole row
        found = total_jacobian(state, np.array([row]))[0]
        assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)
