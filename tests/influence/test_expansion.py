"""Encodings by third derivatives: the same minimizers, with fewer passes over the data."""

import numpy as np
import pytest

from skleak.influence.refit import _candidates, candidate_encodings
from skleak.influence.refit._changes import Change, Expansion
from skleak.linear_model import PrivateLogisticRegression, PrivatePoissonRegressor


@pytest.mark.parametrize("estimator", [PrivateLogisticRegression, PrivatePoissonRegressor])
def test_same_minimizers_in_fewer_passes(estimator, rng, monkeypatch):
    n, rows = 1500, np.arange(30)
    X = rng.normal(size=(n, 4))
    X[:, 0] = rng.integers(0, 3, n)
    X[:5] *= 20.0  # far off: their candidates are passed over as before
    mean = 0.3 * X[:, 0] + 0.2 * X[:, 1]
    counts = rng.poisson(np.exp(np.clip(mean, -3.0, 1.0)))
    y = counts if estimator is PrivatePoissonRegressor else (mean + rng.logistic(size=n) > 0.3)
    weights = rng.integers(0, 4, n).astype(float)
    model = estimator(alpha=0.01).fit(X, y, sample_weight=weights)
    state, gradient, found = model._confidential_state(), Change.gradient, {}
    given = (state, X[rows], state.objective.y[rows], 0, np.arange(3.0))
    with monkeypatch.context() as patch:
        patch.setattr(_candidates, "_TOLERANCE", 1e-16)
        patch.setattr(_candidates, "expansion_pays", lambda *_: False)
        exact = candidate_encodings(*given, rows=rows)

    for pays in (False, True):
        passes = []

        def spy(self, which, steps, passes=passes):
            passes.append(len(which))
            return gradient(self, which, steps)

        monkeypatch.setattr(_candidates, "expansion_pays", lambda *_, pays=pays: pays)
        monkeypatch.setattr(Change, "gradient", spy)
        found[pays] = candidate_encodings(*given, rows=rows), sum(passes)
    w = state.factor.coefficients
    assert np.abs(found[True][0] - w).max() > 1e-4
    limit = 5e-11 * max(1.0, np.linalg.norm(w))
    np.testing.assert_allclose(found[True][0], exact, atol=limit, rtol=0)
    assert found[True][1] < found[False][1]


@pytest.mark.parametrize("weight", [0.01, 1.0, 20.0])
def test_what_is_left_bounds_the_error(weight, rng):
    """Of light records and of heavy ones, whose own third derivatives count."""
    X, rows = rng.normal(size=(200, 3)), np.arange(20)
    y, weights = (X[:, 0] + rng.logistic(size=200) > 0).astype(int), np.ones(200)
    weights[rows] = weight
    model = PrivateLogisticRegression(alpha=0.01, tol=1e-14).fit(X, y, sample_weight=weights)
    state, values = model._confidential_state(), np.array([-1.0, 1.0])
    w, given = state.factor.coefficients, (state, X[rows], state.objective.y[rows])
    change = Change.of(*given, rows, np.array([1]), values[:, None])
    first = change.first_steps()
    expansion = Expansion.of(state)
    steps, moved, left = expansion.improved(change, first)
    # Every record, the changed ones on top, adds ``c (x.D)^2 x^T A x`` to the square of the rate.
    leverage = np.einsum("bmp,pq,bmq->bm", change.x, state.factor.inverse_hessian, change.x)
    own = np.maximum(change.curvature, 0.0) * change.along(first)[..., 0] ** 2 * leverage
    squares = np.einsum("bp,pq,bq->b", first, expansion.form, first) + own.sum(axis=1)
    size = np.linalg.norm(first, axis=1)
    rate = np.maximum(np.sqrt(squares), moved / size)
    np.testing.assert_allclose(left, np.where(rate < 0.5, rate * (moved + rate * size / 4), size))
    exact = candidate_encodings(*given, 1, values, rows=rows).reshape(40, -1) - w
    errors = [np.linalg.norm(each - exact, axis=1) for each in (steps, first)]
    assert np.all(errors[0] <= left + 1e-11)
    assert np.median(errors[0] / errors[1]) < 0.1


def test_it_pays_where_records_are_many_and_columns_few(rng):
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    objective = PrivateLogisticRegression().fit(X, y)._confidential_state().objective
    assert _candidates.expansion_pays(objective, 600)
    assert not _candidates.expansion_pays(objective, 0)
    wide = PrivateLogisticRegression().fit(rng.normal(size=(60, 50)), y[:60])
    assert not _candidates.expansion_pays(wide._confidential_state().objective, 120)
