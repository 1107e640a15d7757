"""Distances of refits in 60 digits: few records, weak penalties, far columns, and one outlier."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose

from skleak.influence import candidate_encodings
from skleak.influence.refit._chord import rounding_left
from skleak.influence.removal import (
    addition_steps,
    farthest_without,
    removal_distances,
    removal_steps,
)
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)

ESTIMATORS = {
    "squared": PrivateLinearRegression,
    "poisson": PrivatePoissonRegressor,
    "logistic": PrivateLogisticRegression,
}
# What the library states of the distance of two fits.
RTOL = 1e-5
_exact = np.vectorize(lambda value: Decimal(float(value)), otypes=[object])
_exp = np.vectorize(lambda value: value.exp(), otypes=[object])


def _solve(matrix, right):
    """Gaussian elimination with pivots, in whatever numbers the entries are."""
    matrix, right, n = matrix.copy(), right.copy(), len(right)
    for k in range(n):
        pivot = k + int(np.argmax([abs(value) for value in matrix[k:, k]]))
        matrix[[k, pivot]], right[[k, pivot]] = matrix[[pivot, k]], right[[pivot, k]]
        factor = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :, k:] -= np.outer(factor, matrix[k, k:])
        right[k + 1 :] -= factor * right[k]
    for k in range(n - 1, -1, -1):
        right[k] = (right[k] - matrix[k, k + 1 :] @ right[k + 1 :]) / matrix[k, k]
    return right


def _minimizer(loss, X, y, alpha, fit_intercept, start):
    """Newton's method from a fit in doubles, until nothing moves in 40 digits."""
    X, y, w, one = _exact(X), _exact(y), _exact(start), Decimal(1)
    if fit_intercept:
        X = np.column_stack([X, np.full(len(X), one)])
    penalty = np.full(X.shape[1], len(X) * Decimal(alpha))
    if fit_intercept:
        penalty[-1] = Decimal(0)

    def value(w):
        a = X @ w
        if loss == "squared":
            losses = (a - y) ** 2 / 2
        elif loss == "poisson":
            losses = _exp(a) - y * a
        else:
            losses = np.array([(one + (-abs(v)).exp()).ln() + max(v, 0 * v) for v in a]) - y * a
        return losses.sum() + (penalty * w * w).sum() / 2

    for _ in range(60):
        a = X @ w
        if loss == "squared":
            r, c = a - y, np.full(len(y), one)
        elif loss == "poisson":
            c = _exp(a)
            r = c - y
        else:
            p = one / (one + _exp(-a))
            r, c = p - y, p * (one - p)
        step = -_solve((X.T * c) @ X + np.diag(penalty), X.T @ r + penalty * w)
        moved, t = max(abs(value) for value in X @ step), one
        while moved > Decimal("1e-10") and value(w + t * step) > value(w):
            t /= 2
        w = w + t * step
        if moved < Decimal("1e-25"):
            return w
    raise AssertionError("no minimizer")


def _distance(one, other):
    difference = one - other
    return float((difference @ difference).sqrt())


def _problem(case, loss, seed=0):
    rng, row = np.random.default_rng(seed), np.arange(12)[:, None]
    X = {
        "wide": lambda: rng.poisson(1000, (8, 14)).astype(float),
        "far": lambda: rng.normal(size=(12, 3)) + 1e6,
        "outlier": lambda: rng.normal(size=(12, 3)) * np.where(row == 3, 1e7, 1.0),
        "huge": lambda: rng.normal(size=(12, 3)) * 1e8,
        "tiny": lambda: rng.normal(size=(12, 3)) * 1e-8,
        "units": lambda: rng.normal(size=(12, 3)) * [1e-6, 1.0, 1e6],
    }[case]()
    a = ((X - X.mean(axis=0)) / X.std(axis=0))[:, :3] @ [0.5, -0.3, 0.2]
    y = {
        "squared": lambda: a + rng.normal(size=len(X)),
        "poisson": lambda: rng.poisson(np.exp(a)).astype(float),
        "logistic": lambda: (np.arange(len(X)) % 2).astype(float),
    }[loss]()
    return X, y


# Separable but for one record, and a penalty of 1e-21 in the units of the columns: the minimizer is
# not reached in doubles. A removal is then bounded by strong convexity; encodings err by 2 %.
UNREACHED = ("huge", "logistic", False, 0)
CASES = ["wide", "far", "outlier", "huge", "tiny", "units"]


@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False]))
@pytest.mark.parametrize("loss", mostly_slow(ESTIMATORS))
@pytest.mark.parametrize("case", mostly_slow(CASES))
def test_distances_without_and_with_a_record_and_between_values(case, loss, fit_intercept):
    alpha, (X, y) = 1e-3 if case == "wide" else 2.0**-20, _problem(case, loss)
    model = ESTIMATORS[loss](1.0, alpha=alpha, fit_intercept=fit_intercept).fit(X, y)
    state = model._confidential_state()
    start, objective = state.factor.coefficients, state.objective
    distances = removal_distances(state)
    assert np.all(np.isfinite(distances))
    new = X[0] + 0.25 * (X[0] - X.mean(axis=0))
    more = addition_steps(objective, start, new[None], y[:1], np.ones(1))[0]
    values = X[[1, 2], 1]
    encodings = candidate_encodings(state, X[:1], y[:1], 1, values, rows=np.array([0]))[0]
    with localcontext() as context:
        context.prec = 60

        def fit(X, y):
            return _minimizer(loss, X, y, alpha, fit_intercept, start)

        own = fit(X, y)
        for i in (0, 3):
            rest = np.arange(len(X)) != i
            exact = _distance(fit(X[rest], y[rest]), own)
            if (case, loss, fit_intercept, i) == UNREACHED:
                assert exact < distances[i] < np.inf
            else:
                assert distances[i] == pytest.approx(exact, rel=RTOL)
        exact = _distance(fit(np.vstack([X, new[None]]), np.append(y, y[0])), own)
        assert np.linalg.norm(more) == pytest.approx(exact, rel=RTOL)
        ends = []
        for value in values:
            changed = X.copy()
            changed[0, 1] = value
            ends.append(fit(changed, y))
        found = np.linalg.norm(encodings[0] - encodings[1])
        rtol = 0.02 if (case, loss, fit_intercept, 0) == UNREACHED else RTOL
        assert found == pytest.approx(_distance(*ends), rel=rtol)


@pytest.mark.parametrize("shift", [2.0**10, 2.0**20])
def test_several_classes_far_from_zero(shift, rng):
    """Subtracting a number from a column changes the intercepts alone."""
    X = rng.integers(-512, 512, size=(30, 2)) / 256.0
    y = rng.integers(3, size=30)
    found = []
    for moved in (X, X + shift):
        state = PrivateLogisticRegression(1.0, alpha=1e-2).fit(moved, y)._confidential_state()
        w, layout = state.factor.coefficients, state.objective.layout
        steps = removal_steps(state.objective, w, np.arange(5))[:, layout]
        values = np.array([moved[0, 0], moved[1, 0]])
        encodings = candidate_encodings(state, moved[:3], state.objective.y[:3], 0, values)
        found.append((steps[:, :2], (encodings[:, 1] - encodings[:, 0])[:, layout[:2]]))
    for plain, far in zip(*found, strict=True):
        assert_allclose(far, plain, rtol=1e-5, atol=1e-6 * np.abs(plain).max())


def test_nobody_is_told_apart_with_certainty_by_rounding():
    """Thirty records of two hundred counts: with a penalty there always is a minimizer."""
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1000, (30, 200)).astype(float), rng.normal(size=30)
    mu = PrivateLinearRegression(1.0, alpha=1e-3).fit(X, y).individual_privacy_["mu"]
    assert np.all(np.isfinite(mu))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_rounding_left_leads_to_the_minimizer(kind, rng):
    X, y = rng.normal(size=(20, 3)), rng.integers(0, 2, size=20).astype(float)
    model = ESTIMATORS[kind](1.0, alpha=0.1, tol=1e-12).fit(X, y)
    state = model._confidential_state()
    w = state.factor.coefficients
    short = 1e-5 * rng.normal(size=len(w))
    assert_allclose(rounding_left(state.objective, w - short), short, rtol=1e-3, atol=1e-9)


def test_the_bound_by_convexity_is_near_where_the_penalty_is_all_of_the_curvature(rng):
    """Of records a thousandth long: the intercept is what moves, and little of that by the rest."""
    X, y = 1e-3 * rng.normal(size=(20, 3)), rng.normal(size=20)

    def fit(rows):
        model = PrivateLinearRegression(1.0, alpha=1.0).fit(X[rows], y[rows])
        return model._confidential_state()

    state, rest = fit(np.arange(20)), fit(np.arange(2, 20))
    exact = np.linalg.norm(rest.factor.coefficients - state.factor.coefficients)
    bound = farthest_without(state, np.array([0, 1]))
    assert exact <= bound <= exact * (1.0 + 1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_bound_by_convexity_holds_however_far_the_minimizer_moves(kind, fit_intercept, rng):
    X, rows = 0.3 * rng.normal(size=(24, 2)), np.arange(24)
    y = rng.integers(1, 4, size=24).astype(float)
    y[:12] = 1000.0
    if kind == "logistic":
        y = np.isin(rows, [*range(12), 20]).astype(float)

    def fit(rows, alpha=0.1):
        model = ESTIMATORS[kind](1.0, alpha=alpha, fit_intercept=fit_intercept, tol=1e-12)
        return model.fit(X[rows], y[rows])._confidential_state()

    state, rest = fit(rows), fit(rows[12:])
    exact = np.linalg.norm(rest.factor.coefficients - state.factor.coefficients)
    if fit_intercept:
        assert exact > 1.5
    bound = farthest_without(state, rows[:12])
    assert exact <= bound < 30.0 * exact
    assert farthest_without(fit(rows, alpha=0.0), rows[:12]) == np.inf
    assert farthest_without(state, rows) == np.inf
    if kind == "logistic" and fit_intercept:
        assert farthest_without(state, np.flatnonzero(y)) == np.inf
