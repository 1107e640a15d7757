"""Refits of a nearly singular squared loss: what rounding leaves of Woodbury's formula."""

from fractions import Fraction

import numpy as np
import pytest

from skleak.influence import candidate_encodings
from skleak.linear_model import PrivateLinearRegression

ALPHA = 2.0**-16


def _exact_fit(X, y, weights):
    """Minimizer in rational numbers, without an intercept."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    y, s = ([Fraction(float(v)) for v in values] for values in (y, weights))
    d, penalty = X.shape[1], sum(s) * Fraction(ALPHA)
    system = [
        [sum(w * r[j] * r[k] for w, r in zip(s, rows, strict=True)) for k in range(d)]
        + [sum(w * r[j] * t for w, r, t in zip(s, rows, y, strict=True))]
        for j in range(d)
    ]
    for j in range(d):
        system[j][j] += penalty
    for j in range(d):
        system[j] = [v / system[j][j] for v in system[j]]
        for k in range(d):
            if k != j:
                factor = system[k][j]
                system[k] = [a - factor * b for a, b in zip(system[k], system[j], strict=True)]
    return np.array([float(row[d]) for row in system])


def _problem(case):
    """Fewer records than columns in large units, or one record that outweighs all others."""
    rng = np.random.default_rng(3)
    if case == "wide":
        X = 200.0 * rng.normal(size=(4, 7))
    else:
        X = rng.normal(size=(9, 3))
        X[1] *= 2e4
    y = rng.normal(size=len(X))
    weights = np.ones(len(X))
    weights[1] = 3.0
    fit = PrivateLinearRegression(1.0, alpha=ALPHA, fit_intercept=False)
    return X, y, weights, fit.fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("case", ["wide", "outweighing"])
def test_distances_without_a_record_are_not_too_small(case):
    X, y, weights, fit = _problem(case)
    fitted = _exact_fit(X, y, weights)
    mu, known = fit.individual_privacy_["mu"], np.zeros(len(X), dtype=bool)
    da = pytest.importorskip("dask.array")
    outside = PrivateLinearRegression(1.0, alpha=ALPHA, fit_intercept=False)
    outside.fit(*(da.from_array(part, chunks=2) for part in (X, y, weights)))
    bounds = outside.individual_privacy()["mu"].compute()
    for i in range(4):
        rest = np.where(np.arange(len(X)) == i, 0.0, weights)
        exact = np.linalg.norm(_exact_fit(X, y, rest) - fitted)
        known[i] = np.isfinite(mu[i])
        assert not known[i] or mu[i] == pytest.approx(exact, rel=1e-4)
        assert bounds[i] >= exact * (1.0 - 1e-4)
    assert known.any()


def test_the_margin_for_rounding_is_as_wide_as_rounding_may_be(rng):
    """Exact but for a margin of a thousandth, where one record outweighs all others by 1e6."""
    X, y, weights = rng.normal(size=(9, 3)), rng.normal(size=9), np.ones(9)
    X[1] *= 2e6
    da = pytest.importorskip("dask.array")
    fit = PrivateLinearRegression(1.0, alpha=ALPHA, fit_intercept=False)
    fit.fit(*(da.from_array(part, chunks=4) for part in (X, y)))
    bounds, fitted = fit.individual_privacy()["mu"].compute(), _exact_fit(X, y, weights)
    for i in (0, 2, 8):
        rest = np.where(np.arange(9) == i, 0.0, weights)
        exact = np.linalg.norm(_exact_fit(X, y, rest) - fitted)
        assert exact * (1.0 - 1e-3) <= bounds[i] <= exact * (1.0 + 1e-2)


@pytest.mark.parametrize("case", ["wide", "outweighing"])
def test_encodings_are_those_of_refits(case):
    X, y, weights, fit = _problem(case)
    values = [0.0, 150.0]
    found = candidate_encodings(fit, X, y, 2, values, rows=np.arange(len(X)))
    for i in range(3):
        exact = []
        for value in values:
            changed = X.copy()
            changed[i, 2] = value
            exact.append(_exact_fit(changed, y, weights))
        distance = np.linalg.norm(exact[0] - exact[1])
        assert np.linalg.norm(found[i, 0] - found[i, 1]) == pytest.approx(distance, rel=1e-3)
