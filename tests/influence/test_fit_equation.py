"""Weights as functions of a fit: the same fixed points as with a number for each record."""

from functools import partial

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.reweighting import FitSearch, equalize, newton_direction, relative_spread
from skleak.influence.reweighting._search import Coordinates
from skleak.influence.reweighting._total_system import Moments, level_of, losses_under
from skleak.influence.state import WeightRule
from skleak.losses import LogisticLoss, SquaredLoss
from skleak.solvers import Objective, SingularHessianError, minimize

RULES = {"irfil": WeightRule, "total": WeightRule.total}
LOSSES = {"squared": SquaredLoss(), "logistic": LogisticLoss()}
ENOUGH = 1e-11  # gradient norm of fits


def make_objective(rng, loss, n=120, d=3, alpha=0.1):
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 1.0
    y = X @ rng.normal(size=d) + rng.standard_t(4, size=n)
    y = (y > np.median(y)).astype(float) if loss == "logistic" else y
    weights = rng.integers(0, 3, size=n).astype(float)
    return Objective(X, y, LOSSES[loss], alpha, True, weights, np.ones(n))


def solve_by_fit(objective, rule, tol=1e-9, plain=False, max_iter=60):
    search = FitSearch(objective, rule, plain, max_iter, tol, partial(minimize, tol=ENOUGH))
    search.run()
    return search


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("norm", mostly_slow(["spectral", "trace"], 0))
@pytest.mark.parametrize("name", RULES)
def test_the_fixed_point_is_that_of_the_search_record_by_record(name, norm, loss, rng):
    objective = make_objective(rng, loss)
    rule = RULES[name](Columns(np.array([0, 2])), norm)
    copies, X, y = objective.sample_weight, objective.X, objective.y

    def measure(reweights):
        minimum = minimize(objective.reweighted(reweights), tol=ENOUGH)
        kappa = rule.norms(FitFactor.of(objective, minimum), X, y)
        return rule.losses(reweights, kappa, copies), minimum

    expected = equalize(measure, copies, max_iter=300, tol=1e-9)
    for plain in (False, True):
        fit = solve_by_fit(objective, rule, plain=plain, max_iter=300).best
        assert fit.spread <= 1e-9
        present = copies > 0.0
        assert_allclose(fit.reweights[present], expected.reweights[present], rtol=1e-7)
        assert_allclose(fit.minimum.coefficients, expected.state.coefficients, rtol=1e-7)
        assert_allclose(fit.level, expected.losses[present].mean(), rtol=1e-8)
        # And they are what they say: the weights of the point make all losses equal.
        losses = rule.losses(fit.reweights, rule.norms(fit.factor, X, y), copies)
        assert relative_spread(losses, copies) <= 2e-9


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", RULES)
def test_newton_turns_as_it_does_record_by_record(name, loss, rng):
    objective = make_objective(rng, loss)
    rule, copies = RULES[name](Columns(), "spectral"), objective.sample_weight
    search = solve_by_fit(objective, rule, max_iter=2, plain=True)
    step = search.at(search.coordinates.pack(search.best.factor))
    fit = step.state
    kappa = rule.norms(fit.factor, objective.X, objective.y)
    losses = np.log(rule.losses(fit.reweights, kappa, copies))
    residual = np.average(losses, weights=copies) - losses
    weighted = objective.reweighted(fit.reweights)
    change = newton_direction(weighted, fit.factor, rule, residual, rtol=1e-10).change
    there = search.turn(step, 1e-10)
    # The fit to which a small step of the weights leads is that along the direction.
    small = 1e-4
    moved = minimize(weighted.reweighted(fit.reweights * np.exp(small * change)), tol=ENOUGH)
    led = search.coordinates.pack(FitFactor.of(objective, moved))
    along = (led - step.point - step.residual) / small
    assert_allclose(along, there - step.residual, atol=2e-3 * np.max(np.abs(along)))


def test_where_there_is_no_fit_the_search_goes_back(rng):
    objective, rule = make_objective(rng, "logistic"), WeightRule(Columns(), "spectral")
    search = solve_by_fit(objective, rule, max_iter=3)
    astray = search.coordinates.start
    astray[len(search.coordinates.root) :] = -5.0
    start, n_fits = search.coordinates.start, search.n_fits

    def fail(objective, start=None):
        raise SingularHessianError("no minimum")

    for point in (astray, start):
        step = search.at(point)
        assert step.spread == np.inf
        assert step.state is None
        assert_array_equal(step.residual, 0.0)
        search.minimize = fail
    assert search.n_fits == n_fits + 1
    search.plain = True
    with pytest.raises(SingularHessianError):
        search.at(start)


@pytest.mark.parametrize("intercept", [True, False])
def test_coordinates_keep_a_fit(intercept, rng):
    objective = make_objective(rng, "logistic")
    objective = Objective(*list(vars(objective).values())[:4], intercept, *[np.ones(120)] * 2)
    one = FitFactor.of(objective, minimize(objective))
    weights = objective.reweighted(rng.random(120))
    other = FitFactor.of(objective, minimize(weights))
    coordinates = Coordinates.of(one)
    assert_allclose(coordinates.pack(one), coordinates.start, atol=1e-12)
    back = coordinates.unpack(coordinates.pack(other))
    assert_allclose(back.coefficients, other.coefficients, rtol=1e-11)
    assert_allclose(back.inverse_hessian, other.inverse_hessian, rtol=1e-10)
    astray = coordinates.start
    astray[len(coordinates.root) :] = -5.0
    assert coordinates.unpack(astray) is None


def test_moments_are_those_of_all_records_together(rng):
    values, copies = rng.random(50), rng.integers(0, 3, size=50).astype(float)
    parts = [slice(0, 1), slice(1, 20), slice(20, 20), slice(20, 50)]
    found = Moments.of(np.zeros(0), np.zeros(0))
    for part in parts:
        found = found.combined(Moments.of(values[part], copies[part]))
    assert_allclose(found.spread, relative_spread(values, copies), rtol=1e-12)
    mean = np.average(values, weights=copies)
    expected = np.abs(values[copies > 0.0] / mean - 1.0).max()
    assert_allclose(found.deviation, expected, rtol=1e-12)


def test_records_that_cannot_leak_weigh_the_geometric_mean(rng):
    X = rng.normal(size=(30, 2))
    X[:4] = 0.0  # without an intercept and with a target of zero such a record leaks nothing
    y = X @ [1.0, -2.0] + np.where(X[:, 0] == 0.0, 0.0, rng.normal(size=30))
    objective = Objective(X, y, SquaredLoss(), 0.1, False, np.ones(30), np.ones(30))
    factor = FitFactor.of(objective, minimize(objective))
    for make in RULES.values():
        rule = make(Columns(), "spectral")
        level, rest = level_of(rule, factor, objective)
        kappa = rule.norms(factor, X, y)
        weights = np.where(kappa > 0.0, rule.weights(kappa, level), rest)
        assert (kappa == 0.0).sum() == 4
        assert_allclose(weights.sum(), 30.0, rtol=1e-12)
        assert_allclose(np.log(rest), np.log(weights[4:]).mean(), rtol=1e-10, atol=1e-12)
    nothing = partial(losses_under, rule, factor, objective.take(np.arange(4)))
    assert nothing(np.ones(4))[1] == 0.0
