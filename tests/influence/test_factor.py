"""Influence Jacobians against central differences of the re-solved problem."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose

from skleak.influence.jacobian import Columns, FitFactor, feature_norms
from skleak.losses import SquaredLoss

KINDS = ["squared", "logistic", "poisson"]


def _relative_error(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def _check(problem, records=(0, 3), copies=1.0, step=1e-3, rtol=1e-6):
    jacobian = problem.factor.jacobian(problem.X, problem.y)
    for i in records:
        expected = problem.central_jacobian(i, copies, step)
        # The move of several copies, or of a fraction of one, is that many times the move of one.
        found = copies * problem.omega[i] * jacobian[i]
        assert _relative_error(found, expected) < rtol
        assert _relative_error(found[:, -1], expected[:, -1]) < rtol
        assert_allclose(found, expected, rtol=1e-4, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize("weighted", mostly_slow([True, False], 0))
def test_jacobian_is_the_derivative_of_the_minimizer(make_problem, kind, fit_intercept, weighted):
    _check(make_problem(kind, fit_intercept=fit_intercept, weighted=weighted))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, d", mostly_slow([(4, 7), (2, 3), (8, 1), (3, 1)], 1, 2))
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
def test_few_records_and_one_column(make_problem, kind, n, d, fit_intercept):
    problem = make_problem(kind, n=n, d=d, fit_intercept=fit_intercept, alpha=0.1)
    _check(problem, records=(0, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_all_copies_of_a_record_move_together(make_problem, kind):
    problem = make_problem(kind)
    i = int(problem.s.argmax())
    assert problem.s[i] > 1.0
    _check(problem, records=(i,), copies=problem.s[i])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", mostly_slow([1e-2, 1e-12, 0.0], 1))
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "scale", mostly_slow([[1e6, 1.0, 1e-6], [1e-6] * 3, [1e6] * 3], 0), ids=str
)
def test_columns_in_any_units(make_problem, kind, alpha, fit_intercept, scale):
    # Enough records for classes that overlap without a penalty.
    problem = make_problem(
        kind, n=40, alpha=alpha, fit_intercept=fit_intercept, scale=np.array(scale)
    )
    found = problem.factor.jacobian(problem.X, problem.y)[3] * problem.omega[3]
    # In units of each column: otherwise one column and one parameter are all that is compared.
    expected = problem.central_jacobian(3)
    spread = np.append(np.std(problem.X, axis=0), 1.0)
    lengths = np.sqrt(np.diag(problem.factor.inverse_hessian))
    units = spread / lengths[:, None]
    size = np.abs(expected * units).max()
    assert_allclose(found * units, expected * units, rtol=1e-5, atol=1e-6 * size)
    assert _relative_error(found, expected) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", mostly_slow([1e3, 1e5], 1))
def test_columns_far_from_zero(make_problem, kind, offset):
    # A year or a timestamp: the plain Hessian loses (offset / deviation)^2 of its digits.
    _check(make_problem(kind, offset=np.array([offset, 0.0, -offset])))


@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
def test_saturated_classes(make_problem, rng, fit_intercept):
    X = 30.0 * rng.normal(size=(14, 2))
    y = (X[:, 0] > 0.0).astype(float)
    problem = make_problem("logistic", X=X, y=y, alpha=1e-3, fit_intercept=fit_intercept)
    curvature = problem.factor.derivatives(problem.X, problem.y)[2]
    assert curvature.min() < 1e-7
    certain = np.argsort(curvature)[[0, 1, -1]]
    _check(problem, records=certain)


@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_residuals_near_zero(make_problem, rng, alpha):
    X = rng.normal(size=(10, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 + 1e-9 * rng.normal(size=10)
    _check(make_problem("squared", X=X, y=y, alpha=alpha))


def test_residual_of_exactly_zero(make_problem):
    problem = make_problem("squared", y=np.full(12, 4.0))
    assert np.abs(problem.factor.weights).max() < 1e-12
    _check(problem)


@pytest.mark.parametrize("counts", ["huge", "one"])
def test_extreme_counts(make_problem, rng, counts):
    X = 0.3 * rng.normal(size=(12, 2))
    y = np.floor(1e7 * np.exp(X[:, 0])) if counts == "huge" else np.eye(12)[0]
    _check(make_problem("poisson", X=X, y=y))


def test_one_hot_columns(make_problem, rng):
    X = np.column_stack([np.eye(3)[rng.integers(3, size=15)], rng.normal(size=15)])
    _check(make_problem("logistic", X=X))


def test_degenerate_spectrum(make_problem, rng):
    X = np.linalg.qr(rng.normal(size=(12, 4)))[0] * np.sqrt(12)
    problem = make_problem("squared", X=X, fit_intercept=False, weighted=False)
    assert_allclose(np.linalg.eigvalsh(problem.factor.inverse_hessian), 1 / 12.12)
    _check(problem)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_jacobian_equals_its_definition(make_problem, kind, fit_intercept):
    problem = make_problem(kind, fit_intercept=fit_intercept)
    found = problem.factor.jacobian(problem.X, problem.y)
    assert_allclose(found, problem.dense_jacobian(), rtol=1e-10, atol=1e-13)


def test_the_factor_knows_its_parts():
    factor = FitFactor(np.array([1.0, 2.0, 3.0]), np.eye(3), SquaredLoss(), True)
    assert factor.n_features == 2
    assert_allclose(factor.weights, [1.0, 2.0])
    x, r, c, q = factor.derivatives(np.array([[1.0, 1.0]]), np.array([4.0]))
    assert_allclose(x, [[1.0, 1.0, 1.0]])
    assert (r[0], c[0], q[0]) == (2.0, 1.0, -1.0)


def test_a_column_that_cancels_keeps_its_digits_under_noise_of_a_shape():
    K = np.array([[1.0, 2.0], [5.0, 1.0]])  # its rows are no columns of it
    plain = FitFactor(np.array([0.5, -1.0]), np.eye(2), SquaredLoss(), False)
    factor = plain.with_response(K)
    # r K_0 + w_0 K x with x along the column: all but one ten-millionth cancels.
    X, y = np.array([[2.0, 0.0]]), np.array([2.0 + 1e-7])
    assert plain.response is plain.inverse_hessian
    found = feature_norms(factor, X, y, [Columns(np.array([0]))])[0, 0]
    expected = abs((0.5 * 2.0 - y[0]) + 0.5 * 2.0) * np.linalg.norm(K[:, 0])
    assert found == pytest.approx(expected, rel=1e-9)
    assert found == pytest.approx(np.linalg.norm(factor.jacobian(X, y)[0, :, 0]), rel=1e-9)


def test_several_predictors_have_isotropic_noise_only(make_multinomial):
    factor = make_multinomial().factor
    with pytest.raises(ValueError, match="one predictor"):
        factor.under_noise(np.eye(len(factor.coefficients)))
