"""The missing gradient and what is solved for: against sums over the other records, and algebra."""

import numpy as np
import pytest
from helpers import flat
from scipy.optimize import brentq
from scipy.special import expit, lambertw

from skleak.adversary.hypotheses import PublicModel
from skleak.attacks._informed import (
    MissingGradient,
    _likeliest_prediction,
    objective_of,
    reconstruct_roots,
)
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.losses import LogisticLoss, PoissonLoss, SquaredLoss

ESTIMATORS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]
LOSSES = {SquaredLoss: [-1.5, 2.0], LogisticLoss: [0.0, 1.0], PoissonLoss: [0.0, 3.0]}


def make_objective(estimator, fit_intercept, rng, reweighting=None, n=30):
    X = rng.normal(size=(n, 3)) + 0.3
    y = X @ [1.0, -0.5, 0.3]
    if estimator is not PrivateLinearRegression:
        y = rng.poisson(np.exp(y)) if estimator is PrivatePoissonRegressor else (y > 0).astype(int)
    else:
        y = y + rng.normal(size=n)
    options = {"reweighting": reweighting, "reweighting__max_iter": 50}
    model = estimator(0, alpha=0.2, fit_intercept=fit_intercept, **flat(**options))
    return objective_of(PublicModel.of(model, X, y), X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("reweighting", [None, "irfil", "total"])
def test_gradient_and_hessian_of_the_others(estimator, fit_intercept, reweighting, rng):
    objective = make_objective(estimator, fit_intercept, rng, reweighting)
    targets = np.array([4, 0, 29, 4])
    w = 0.5 * rng.normal(size=objective.n_parameters)
    rows = np.column_stack([objective.X, np.ones(30)]) if fit_intercept else objective.X
    penalty = 30 * 0.2 * np.append(np.ones(3), [0.0] * fit_intercept)
    at_once = MissingGradient.of(objective, w, targets)
    alone = MissingGradient.of(objective, np.tile(w, (4, 1)), targets)
    for k, own in enumerate(targets):
        others = np.arange(30) != own
        x, weight = rows[others], objective.weights[others]
        a = x @ w
        gradient = (weight * objective.loss.residual(a, objective.y[others])) @ x + penalty * w
        hessian = (x.T * (weight * objective.loss.curvature(a))) @ x + np.diag(penalty)
        hessian = hessian / objective.weights[own]
        low, high = a.min(), a.max()
        for missing in (at_once, alone):
            np.testing.assert_allclose(
                missing.gradient[k], -gradient / objective.weights[own], rtol=1e-9, atol=1e-9
            )
            np.testing.assert_allclose(missing.low[k], low - 0.5 * (high - low))
            np.testing.assert_allclose(missing.high[k], high + 0.5 * (high - low))
            if fit_intercept:
                images = [np.append(w[:-1], 0.0), np.eye(4)[-1]]
                images = [hessian @ hessian @ v for v in images]
                np.testing.assert_allclose(missing.image_w[k], images[0], rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(missing.image_e[k], images[1], rtol=1e-9, atol=1e-9)


def missing_along(loss, seen, y, low=-2.0, high=2.0):
    """Gradients in one dimension, at w = 1: the gradient is what is seen, the record a."""
    ones = np.ones_like(seen)
    nothing = np.empty((len(seen), 0))
    return MissingGradient(
        loss, ones[:, None], y * ones, seen[:, None], nothing, nothing, low * ones, high * ones
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_true_prediction_is_one_of_the_roots(loss):
    a = np.linspace(-4.0, 4.0, 81)
    for y in LOSSES[loss]:
        residual = loss().residual(a, np.full(81, y))
        some = np.abs(residual) > 1e-6
        roots = reconstruct_roots(missing_along(loss(), (residual * a)[some], y))[:, :, 0]
        # Flat at the turning point: known to the square root of round-off there.
        assert np.abs(roots - a[some]).min(axis=0).max() < 1e-6


def test_roots_in_closed_form():
    seen, y = np.array([-0.3, 0.4, 2.0]), 1.5
    roots = reconstruct_roots(missing_along(SquaredLoss(), seen, y, -9.0, 9.0))[:, :, 0]
    half = np.sqrt(0.25 * y**2 + seen)
    # The prediction of each root: records are g / r, and w is 1.
    expected = seen / (np.array([y / 2 - half, y / 2 + half]) - y)
    np.testing.assert_allclose(roots, expected, rtol=1e-9)
    # Counts of zero: a e^a = s, the two branches of Lambert's function.
    seen = np.array([-0.1, -0.3])
    roots = reconstruct_roots(missing_along(PoissonLoss(), seen, 0.0))[:, :, 0]
    expected = [lambertw(seen, branch).real for branch in (-1, 0)]
    np.testing.assert_allclose(roots, expected, rtol=1e-9)
    expected = brentq(lambda a: a * expit(a) - 1.7, 0.0, 5.0)
    roots = reconstruct_roots(missing_along(LogisticLoss(), np.array([1.7]), 0.0))[:, 0, 0]
    np.testing.assert_allclose(roots[1], expected, rtol=1e-9)


@pytest.mark.parametrize(
    "loss, y, turn",
    [
        (SquaredLoss(), 3.0, 1.5),
        (PoissonLoss(), 0.0, -1.0),
        (PoissonLoss(), 2.0, lambertw(2 * np.e).real - 1.0),
        (LogisticLoss(), 0.0, -1.2784645427610738),
        (LogisticLoss(), 1.0, 1.2784645427610738),
    ],
)
def test_the_closest_prediction_where_there_is_no_root(loss, y, turn):
    seen = np.array([-10.0])
    roots = reconstruct_roots(missing_along(loss, seen, y))[:, 0, 0]
    residual = loss.residual(np.array([turn]), np.array([y]))[0]
    np.testing.assert_allclose(roots, [-10.0 / residual] * 2, rtol=1e-6)


def test_a_root_without_residual_leaves_two_directions():
    """A count of one turns where it is predicted: the record is long, of either sign."""
    roots = reconstruct_roots(missing_along(PoissonLoss(), np.array([-0.5]), 1.0))[:, 0, 0]
    np.testing.assert_allclose(roots, [1e9, -1e9])
    nothing = reconstruct_roots(missing_along(SquaredLoss(), np.zeros(1), 0.0))
    np.testing.assert_array_equal(nothing, np.zeros((2, 1, 1)))


def test_the_model_itself_is_left_alone(rng):
    model = PublicModel(None, PrivateLinearRegression(0), 0.0)
    objective_of(model, rng.normal(size=(9, 2)), rng.normal(size=9))
    assert not hasattr(model.template, "coef_")


def test_the_likeliest_prediction_is_the_least_root_of_a_cubic(rng):
    """Under the squared loss the distance to the curve is a polynomial of degree four."""
    n = 300
    y, w = rng.normal(size=n), rng.normal(size=(n, 1))
    seen, root = rng.normal(size=(n, 2)), rng.normal(size=(n, 2, 2))
    metric = root @ root.transpose(0, 2, 1) + 1e-3 * np.eye(2)
    ends = np.full(n, -3.0), np.full(n, 3.0)
    missing = MissingGradient(SquaredLoss(), w, y, seen, seen, seen, *ends)
    found = _likeliest_prediction(missing, seen, metric)
    right = []
    for i, a in enumerate(found):
        gaps = np.poly1d([y[i], w[i, 0]], True) - seen[i, 0], np.poly1d([1.0, -y[i] - seen[i, 1]])
        distance = sum(gaps[j] * gaps[k] * metric[i, j, k] for j in (0, 1) for k in (0, 1))
        turns = distance.deriv().roots
        least = distance(turns[np.abs(turns.imag) < 1e-9].real).min()
        right.append(distance(a) <= least * (1.0 + 1e-5))
    # Elsewhere two points are about as far, or the closest one is further than anybody's.
    assert np.mean(right) > 0.95
