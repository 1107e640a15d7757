"""The numbers that bound what one changed entry does to all records, by their definitions."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg

from skleak.influence.refit._distances import Reach, _Pairs
from skleak.linear_model import PrivateLinearRegression, PrivateLogisticRegression
from skleak.utils._linalg import augment

N, WATCHED = 40, np.array([0, 2])


@pytest.fixture(params=["linear", "logistic", "target", "shaped"])
def example(request, rng):
    """Fit on records and on changed ones; secret columns and values."""
    kind = request.param
    estimator = PrivateLogisticRegression if kind == "logistic" else PrivateLinearRegression
    X = rng.normal(size=(N, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.logistic(size=N)
    y = (y > 0).astype(float) if kind == "logistic" else y
    weights, root = rng.uniform(0.5, 2.0, size=N), rng.normal(size=(4, 4))
    model = estimator(1.0, alpha=0.1)
    if kind == "shaped":
        model.set_params(noise_covariance=root @ root.T + np.eye(4))

    def fit(i=None, value=None):
        X_new, y_new = X.copy(), y.copy()
        if i is not None and kind == "target":
            y_new[i] = value
        elif i is not None:
            X_new[i, 1] = value
        return model.fit(X_new, y_new, weights)._confidential_state()

    return fit, None if kind == "target" else np.array([1]), np.array([[-2.0], [0.3], [5.0]])


def test_every_number_by_its_definition(example):
    fit, columns, values = example
    state, rows = fit(), np.array([0, 7, 39])
    reach = Reach.of(state, rows, columns, values, WATCHED)
    A, w, root = state.factor.inverse_hessian, state.factor.coefficients, np.eye(4)
    if state.noise.matrix is not None:
        root = np.linalg.cholesky(state.noise.matrix)
    H, half = np.linalg.inv(A), linalg.sqrtm(A).real
    loss, table = state.objective.loss, augment(state.objective.X, True)
    for k, i in enumerate(rows):
        for m, value in enumerate(values[:, 0]):
            moved = fit(i, value)
            x, x_new = table[i], augment(moved.objective.X, True)[i]
            step = moved.factor.coefficients - w
            c, c_new = loss.curvature(np.array([x @ w, x_new @ w]))
            weight = state.objective.weights[i]
            E = weight * (c_new * np.outer(x_new, x_new) - c * np.outer(x, x))
            left = np.eye(4) - np.linalg.inv(H + E) @ H
            residual = loss.residual(np.array([x_new @ w]), moved.objective.y[[i]])[0]
            expected = {
                "least": min(np.linalg.eigvalsh(np.eye(4) + half @ E @ half)[0], 1.0),
                "operator": np.linalg.norm(np.linalg.solve(root, left @ root), 2),
                "predictor": np.abs(np.vstack([table, x_new]) @ step).max(),
                "watched": np.linalg.norm(step[WATCHED]),
                "energy": np.sqrt(step @ H @ step),
                "weight": weight,
                "length": np.linalg.norm(x_new - x),
                "curvature": c_new,
                "curvature_change": abs(c_new - c),
                "residual": abs(residual),
                "leverage": x_new @ A @ x_new,
                "own_leverage": x @ A @ x,
                "change_leverage": (x_new - x) @ A @ (x_new - x),
                "image": np.linalg.norm(np.linalg.solve(root, A @ x_new)),
            }
            assert expected.keys() == {field.name for field in fields(Reach)}
            for name, number in expected.items():
                found = getattr(reach, name)[k, m]
                assert_allclose(found, number, rtol=1e-5, atol=1e-6, err_msg=name)
            # Rounding may only make them say less.
            assert reach.least[k, m] <= expected["least"]
            assert reach.operator[k, m] >= expected["operator"] * (1.0 - 1e-12)


def test_the_number_for_all_values_is_the_worst(example):
    fit, columns, values = example
    reach = Reach.of(fit(), np.arange(5), columns, values, WATCHED)
    largest = reach.largest()
    for field in fields(Reach):
        worst = np.min if field.name == "least" else np.max
        assert_array_equal(getattr(largest, field.name), worst(getattr(reach, field.name), axis=1))


def longest_of(state):
    x = augment(state.objective.X, state.factor.fit_intercept)
    return np.einsum("ij,ij->i", x @ state.factor.inverse_hessian, x).max()


def test_without_a_look_at_others_the_numbers_are_bounds_and_near_for_small_changes(example):
    fit, columns, values = example
    state, rows = fit(), np.arange(N)
    longest = longest_of(state)
    exact = Reach.of(state, rows, columns, values, WATCHED)
    bounds = Reach.of(state, rows, columns, values, WATCHED, longest)
    for name in ("predictor", "energy", "watched"):
        assert np.all(getattr(bounds, name) >= getattr(exact, name) * (1.0 - 1e-9))
    assert np.median(bounds.energy[:, 1] / exact.energy[:, 1]) < 1.1


def test_the_longest_record_of_a_pair_may_be_any(example):
    """Of the table, of the changed ones, and of those that carry another value of an attribute."""
    fit, columns, values = example
    state, rows = fit(), np.arange(N)
    table = longest_of(state)
    near, far = (Reach.of(state, rows, columns, scale * values, WATCHED) for scale in (0.1, 3.0))
    for changed, others in ((near, far), (far, near), (near, near)):
        expected = max(table, changed.leverage.max(), others.leverage.max())
        assert _Pairs.of(state, rows, changed, others).longest == pytest.approx(expected)
