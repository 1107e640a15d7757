"""The sensitivity bound: its value, its errors, and re-solved problems that stay under it."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from skleak.accounting import output_perturbation_sensitivity


def _fit_logistic(X, y, alpha):
    def objective(w):
        a = X @ w
        value = np.mean(np.logaddexp(0.0, a) - y * a) + 0.5 * alpha * w @ w
        return value, X.T @ (expit(a) - y) / len(y) + alpha * w

    return minimize(objective, np.zeros(X.shape[1]), jac=True, tol=1e-12).x


def test_value_is_that_of_the_formula_and_broadcasts():
    got = output_perturbation_sensitivity(2.0, [1.0, 3.0], [[10], [100]], 0.5)
    np.testing.assert_allclose(got, [[0.8, 2.4], [0.08, 0.24]], rtol=1e-15)
    assert isinstance(output_perturbation_sensitivity(1, 1, 10, 1), float)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.02, 0.3, 5.0])
def test_replacing_one_record_never_moves_the_minimizer_further(rng, alpha):
    n, d, radius = 6, 3, 2.0
    bound = output_perturbation_sensitivity(1.0, radius, n, alpha)
    moves = []
    for _ in range(25):
        X = rng.standard_normal((n + 1, d))
        X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.integers(0, 2, n + 1).astype(float)
        X[n], y[n] = -X[0], y[0]  # the replacement that pulls hardest the other way
        kept = np.arange(1, n)
        one = _fit_logistic(X[[0, *kept]], y[[0, *kept]], alpha)
        other = _fit_logistic(X[[n, *kept]], y[[n, *kept]], alpha)
        moves.append(np.linalg.norm(one - other))
    assert max(moves) <= bound
    if alpha == 5.0:  # then every derivative is near 1/2, and half of the bound is reached
        assert max(moves) > 0.45 * bound


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((1.0, 1.0, 10, 0.0), "No global sensitivity exists: `alpha` must be positive; got 0"),
        ((np.inf, 1.0, 10, 1.0), "No global sensitivity exists: `lipschitz` must be finite"),
        ((1.0, 1.0, 10, -1.0), "`alpha` must be at least 0 and finite; got -1"),
        ((0.0, 1.0, 10, 1.0), "`lipschitz` must be above 0; got 0"),
        ((1.0, np.inf, 10, 1.0), "`data_norm` must be above 0 and finite; got inf"),
        ((1.0, 0.0, 10, 1.0), "`data_norm` must be above 0 and finite; got 0"),
        ((1.0, 1.0, 0, 1.0), "`n_samples` must be at least 1 and finite; got 0"),
        ((1.0, 1.0, [10, 0], 1.0), "`n_samples` must be at least 1 and finite; got 0"),
        ((1.0, np.nan, 10, 1.0), "`data_norm` must be above 0 and finite; got nan"),
    ],
)
def test_bad_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        output_perturbation_sensitivity(*arguments)


@pytest.mark.parametrize("bad", ["1", None, 1j, [object()]])
def test_what_is_not_a_number_is_a_type_error(bad):
    with pytest.raises(TypeError, match="`data_norm` must be a number or an array of"):
        output_perturbation_sensitivity(1.0, bad, 10, 1.0)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("n", [2, 5, 20])
def test_no_replaced_record_moves_least_squares_further(n, alpha):
    """Hill climbs over tables of bounded rows and targets, and over their largest weight."""
    rng, norm, bound = np.random.default_rng(n), 2.0, 3.0
    weights = np.ones(n) if n == 5 else np.r_[2.0, np.ones(n - 1)]
    effective, tables = weights.sum() / weights[0], 60
    slope = bound * (0.5 * norm / np.sqrt(alpha) + 1.0)
    stated = output_perturbation_sensitivity(slope, norm, effective, alpha)
    stated = min(stated, bound / np.sqrt(alpha))

    def made(raw):
        X = raw[..., :2] / np.maximum(np.linalg.norm(raw[..., :2], axis=-1, keepdims=True), 1.0)
        return norm * X, bound * np.clip(raw[..., 2], -1.0, 1.0)

    def moved(raw):
        """The last record replaces the first."""
        X, y = made(raw)
        both = []
        for rows in ([*range(n)], [n, *range(1, n)]):
            A, s = X[:, rows], weights / weights.sum()
            gram = np.einsum("tni,n,tnj->tij", A, s, A) + alpha * np.eye(2)
            both.append(
                np.linalg.solve(gram, np.einsum("tni,n,tn->ti", A, s, y[:, rows])[..., None])
            )
        return np.linalg.norm(both[0] - both[1], axis=(-1, -2))

    raw = rng.normal(size=(tables, n + 1, 3)) * 2.0
    best, step = moved(raw), 1.0
    for _ in range(400):
        step = 0.99 * step + 0.002
        tried = raw + step * rng.normal(size=raw.shape) * (rng.random((tables, n + 1, 1)) < 0.4)
        found = moved(tried)
        better = found > best
        raw[better], best[better] = tried[better], found[better]
    assert 0.3 * stated < best.max() < stated
