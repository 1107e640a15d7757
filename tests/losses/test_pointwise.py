"""Values and derivatives of the losses: tables, differences, high precision, extremes."""

from decimal import Decimal, getcontext
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.testing import assert_allclose
from scipy import optimize

from skleak.losses import LogisticLoss, PointwiseLoss, PoissonLoss, SoftmaxLoss, SquaredLoss

LOSSES = [SquaredLoss(), LogisticLoss(), PoissonLoss()]
TARGETS = {"squared": [-2.0, 0.0, 3.5], "logistic": [0.0, 1.0, 0.3], "poisson": [0.0, 1.0, 7.0]}
PREDICTORS = np.array([-6.0, -1.5, -1e-3, 0.0, 0.4, 2.0, 5.0])


def _grid(loss):
    a, y = np.meshgrid(PREDICTORS, TARGETS[loss.name])
    return a.ravel(), y.ravel()


def _difference(f, x, h=1e-3):
    """Central difference extrapolated twice, of error h^6."""
    estimates = [(f(x + h / k) - f(x - h / k)) / (2.0 * h / k) for k in (1, 2, 4)]
    first = [(4.0 * b - a) / 3.0 for a, b in pairwise(estimates)]
    return (16.0 * first[1] - first[0]) / 15.0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_each_derivative_is_that_of_the_one_before(loss):
    a, y = _grid(loss)
    pairs = [
        (lambda t: loss.value(t, y), loss.residual(a, y)),
        (lambda t: loss.residual(t, y), loss.curvature(a)),
        (lambda t: loss.curvature(t), loss.third_derivative(a)),
    ]
    for function, derivative in pairs:
        assert_allclose(derivative, _difference(function, a), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_mixed_derivative(loss):
    y = np.full_like(PREDICTORS, 0.4)
    found = _difference(lambda t: loss.residual(PREDICTORS, t), y)
    assert_allclose(loss.cross(PREDICTORS), found, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_convex_and_the_residual_vanishes_at_the_inverse_link(loss):
    a, y = _grid(loss)
    assert np.all(loss.curvature(a) > 0.0)
    assert_allclose(loss.residual(a, loss.inverse_link(a)), 0.0, atol=1e-12)
    assert_allclose(loss.residual(a, y), loss.inverse_link(a) - y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "loss, a, y, value, residual, curvature, third",
    [
        (SquaredLoss(), 3.0, 1.0, 2.0, 2.0, 1.0, 0.0),
        (LogisticLoss(), 0.0, 1.0, np.log(2.0), -0.5, 0.25, 0.0),
        (LogisticLoss(), np.log(3.0), 0.0, np.log(4.0), 0.75, 3 / 16, -3 / 32),
        (PoissonLoss(), np.log(2.0), 3.0, 3 * np.log(1.5) - 1.0, -1.0, 2.0, 2.0),
        (PoissonLoss(), 0.0, 0.0, 1.0, 1.0, 1.0, 1.0),
    ],
)
def test_table_of_values(loss, a, y, value, residual, curvature, third):
    a, y = np.array([a]), np.array([y])
    assert_allclose(loss.value(a, y), value, rtol=1e-14)
    assert_allclose(loss.residual(a, y), residual, rtol=1e-14)
    assert_allclose(loss.curvature(a), curvature, rtol=1e-14)
    assert_allclose(loss.third_derivative(a), third, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("a", [-700.0, -300.5, -40.0, -1e-9, 0.0, 1e-9, 37.0, 500.25, 700.0])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_logistic_keeps_its_digits_in_both_tails(a, y):
    getcontext().prec = 700
    exact = 1 / (1 + (-Decimal(a)).exp())
    loss, x, target = LogisticLoss(), np.array([a]), np.array([y])
    assert_allclose(loss.residual(x, target), float(exact - Decimal(y)), rtol=1e-13)
    assert_allclose(loss.curvature(x), float(exact * (1 - exact)), rtol=1e-13)
    third = exact * (1 - exact) * (1 - 2 * exact)
    assert_allclose(loss.third_derivative(x), float(third), rtol=1e-9, atol=1e-300)
    value = (1 + Decimal(a).exp()).ln() - Decimal(y) * Decimal(a)
    assert_allclose(loss.value(x, target), float(value), rtol=1e-13, atol=1e-16 * abs(a))


def test_the_logistic_slope_is_bounded_and_the_others_are_not():
    a = np.linspace(-800.0, 800.0, 5001)
    for y in (0.0, 1.0):
        slope = np.abs(LogisticLoss().residual(a, np.full_like(a, y)))
        assert slope.max() <= LogisticLoss().lipschitz == 1.0
        assert slope.max() > 1.0 - 1e-12
    assert SquaredLoss().lipschitz == PoissonLoss().lipschitz == np.inf


def test_poisson_overflows_to_infinity_without_a_word():
    a = np.array([800.0, -800.0])
    loss = PoissonLoss()
    assert_allclose(loss.inverse_link(a), [np.inf, 0.0])
    assert_allclose(loss.value(a, np.array([1.0, 0.0])), [np.inf, 0.0])
    assert np.isfinite(loss.value(np.array([20.0]), np.array([1e9])))


@pytest.mark.parametrize("step", [1e-9, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_changes_of_probabilities_at_any_scale(rng, scale, step):
    a, t = scale * rng.normal(size=(9, 4)), step * rng.normal(size=(9, 4))
    found = SoftmaxLoss().mean_change(a, t)
    with mp.workdps(1000):
        for i in range(9):
            before = [mp.exp(mpf(u)) for u in a[i]]
            after = [mp.exp(mpf(u) + mpf(v)) for u, v in zip(a[i], t[i], strict=True)]
            pairs = zip(after, before, strict=True)
            expected = [float(q / sum(after) - p / sum(before)) for q, p in pairs]
            assert_allclose(found[i], expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_changes_of_a_probability_keep_all_digits():
    a = np.array([-700.0, -40.0, -3.0, -1e-3, 0.0, 2.0, 30.0])[:, None]
    t = np.array([-50.0, -1.01, -1.0, -0.3, -1e-9, 1e-300, 1e-4, 0.99, 1.0, 3.0, 60.0])
    found = LogisticLoss().mean_change(a, t)
    with mp.workdps(700):
        for i, k in np.ndindex(found.shape):
            ends = mpf(a[i, 0]) + mpf(t[k]), mpf(a[i, 0])
            one, other = (1 / (1 + mp.exp(-end)) for end in ends)
            assert_allclose(found[i, k], float(one - other), rtol=1e-14)


def test_a_perfect_fit_costs_nothing():
    y = np.array([0.5, 1.0, 40.0])
    assert_allclose(PoissonLoss().value(np.log(y), y), 0.0, atol=1e-13)
    assert_allclose(SquaredLoss().value(y, y), 0.0)
    assert np.all(PoissonLoss().value(PREDICTORS, np.full_like(PREDICTORS, 3.0)) > 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_lone_intercept_starts_at_its_minimum(loss):
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    found = optimize.minimize_scalar(lambda b: loss.value(np.full(5, b), y).mean(), tol=1e-12)
    assert loss.initial_intercept(0.6) == pytest.approx(found.x, abs=1e-6)
    a = np.full(5, loss.initial_intercept(0.6))
    assert loss.residual(a, y).sum() == pytest.approx(0.0, abs=1e-14)


def test_names_and_equality():
    assert [loss.name for loss in LOSSES] == ["squared", "logistic", "poisson"]
    assert [loss.quadratic for loss in LOSSES] == [True, False, False]
    assert SquaredLoss() == SquaredLoss()
    assert all(isinstance(loss, PointwiseLoss) for loss in LOSSES)
    with pytest.raises(TypeError, match="abstract"):
        PointwiseLoss("mine", 1.0)
