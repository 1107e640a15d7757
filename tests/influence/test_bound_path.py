"""Weights that are hard to find, by way of bounded ones."""

import warnings

import numpy as np
import pytest
from helpers import flat
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from skleak.influence.reweighting import equalize, follow_bound
from skleak.influence.state import WeightRule
from skleak.linear_model import IRFIL, EvenTotal, PrivateLinearRegression, PrivateLogisticRegression

MODELS = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
# Kind, seed, alpha and options of problems on which all other methods are stuck.
HARD = [
    ("squared", 35, 1e-3, {"reweighting__features": [0]}),
    ("squared", 26, 0.1, {"reweighting__features": [0]}),
    ("logistic", 28, 1e-3, {"reweighting__features": [0]}),
    ("logistic", 18, 0.1, {"reweighting__features": [0]}),
]


def heavy_tailed(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(100, 4))
    a = X @ rng.normal(size=4) / 2.0 + 0.3
    if kind == "squared":
        return X, a + rng.standard_t(3, size=100)
    return X, (rng.random(100) < 1.0 / (1.0 + np.exp(-a))).astype(int)


def model_of(kind, alpha, **options):
    return MODELS[kind](1.0, alpha=alpha, **flat(**{"reweighting": "irfil", **options}))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed", "alpha", "options"), HARD)
def test_solves_what_is_stuck(kind, seed, alpha, options):
    X, y = heavy_tailed(kind, seed)
    with pytest.warns(ConvergenceWarning, match="Raise its `max_iter` or `alpha`"):
        stuck = model_of(kind, alpha, **options).fit(X, y)
    assert min(stuck.reweighting_history_) > 1e-2
    model = model_of(kind, alpha, reweighting__max_iter=150, **options).fit(X, y)
    assert min(model.reweighting_history_) == model.reweighting_history_[-1] <= 1e-6
    assert len(model.reweighting_history_) <= 151
    losses = model.fisher_information_loss(
        features=options.get("reweighting__features"), conditional=True
    )
    assert_allclose(losses / losses.mean(), 1.0, atol=1e-4)


def test_ends_where_there_are_no_such_weights():
    X, y = heavy_tailed("logistic", 15)
    options = {"reweighting__features": [0], "reweighting__max_iter": 150}
    with pytest.warns(ConvergenceWarning, match="There may be no weights under which they do"):
        model = model_of("logistic", 0.1, **options).fit(X, y)
    history = model.reweighting_history_
    assert 31 < len(history) < 151
    # The weights are those of the best of all fits, and the fit is under them.
    losses = model.fisher_information_loss(features=[0], conditional=True)
    assert losses.std() / losses.mean() == pytest.approx(min(history), rel=1e-6)


@pytest.mark.slow
def test_turns_back_from_weights_without_a_minimiser():
    # Hardly a penalty, and weights that leave almost separable records.
    X, y = heavy_tailed("logistic", 17)
    options = {"reweighting__features": [0], "reweighting__max_iter": 150}
    model = model_of("logistic", 1e-5, **options).fit(X, y)
    assert np.any(np.isinf(model.reweighting_history_))
    assert min(model.reweighting_history_) <= 1e-6


def test_the_bound_of_the_rule_is_where_it_ends():
    X, y = heavy_tailed("squared", 35)
    options = {"reweighting": EvenTotal(features=[0], max_iter=150)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of("squared", 1e-3, **options).fit(X, y)
    assert model.sample_reweights_.max() < 4.0


def quadratic(rule, kappa, bounds, fail=()):
    """A solver for fixed kappas that takes note of the bounds, and fails at some of them."""
    copies = np.ones(len(kappa))

    def solve(stage, start, tol, max_fits):
        bounds.append(stage.largest_weight)
        assert max_fits >= 1
        if any(low < stage.largest_weight < high for low, high in fail):
            tol, max_fits = 0.0, 1

        def measure(weights):
            return stage.losses(weights, kappa, copies), None

        return equalize(measure, copies, max_iter=max_fits - 1, tol=tol, start=start, memory=0)

    return solve


@pytest.mark.parametrize(
    "rule", [WeightRule(), WeightRule(largest_weight=7.0), WeightRule(largest_weight=1.2)]
)
def test_the_weights_are_those_of_the_rule(rule, rng):
    kappa, bounds = np.exp(rng.normal(size=50)), []
    found = follow_bound(quadratic(rule, kappa, bounds), rule, np.ones(50), 1e-10, 200)
    assert found is not None
    assert found.spread <= 1e-10
    level = rule.level(np.ones(50), kappa, np.ones(50))
    assert_allclose(found.reweights, rule.weights(kappa, level), rtol=1e-8)
    assert bounds[-1] == rule.largest_weight
    assert bounds == sorted(bounds)


def test_shorter_steps_after_a_failure_and_an_end(rng):
    kappa, bounds = np.exp(rng.normal(size=50)), []
    solve = quadratic(WeightRule(), kappa, bounds, fail=[(2.0, np.inf)])
    assert follow_bound(solve, WeightRule(), np.ones(50), 1e-10, 200) is None
    tried = np.array(bounds)
    assert np.any(tried > 2.0)
    assert tried.max() <= 4.0
    assert tried[tried <= 2.0].max() > 1.9  # up to where it fails


def test_no_fits_left(rng):
    def solve(*args):
        raise AssertionError("a fit too many")

    assert follow_bound(solve, WeightRule(), np.ones(3), 1e-10, 0) is None


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.data
def test_all_of_adult_under_hardly_a_penalty(adult):
    X, y = adult.X_train, adult.y_train
    options = {"reweighting": IRFIL(max_iter=150), "alpha": 1e-5}
    model = PrivateLinearRegression(1.0, **options).fit(X, y)
    assert min(model.reweighting_history_) <= 1e-6
