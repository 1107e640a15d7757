"""Weights that are hard to find, and those that do not exist."""

import warnings

import numpy as np
import pytest
from helpers import flat
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from skleak.exceptions import UnevenLeakageWarning
from skleak.linear_model import IRFIL, EvenTotal, PrivateLinearRegression, PrivateLogisticRegression

MODELS = {"squared": PrivateLinearRegression, "logistic": PrivateLogisticRegression}
# Kind, seed, alpha and options of problems on which an accelerated iteration is stuck.
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


@pytest.mark.parametrize(("kind", "seed", "alpha", "options"), HARD)
def test_solves_hard_problems_within_the_default_limit(kind, seed, alpha, options):
    X, y = heavy_tailed(kind, seed)
    model = model_of(kind, alpha, **options).fit(X, y)
    assert min(model.reweighting_history_) == model.reweighting_history_[-1] <= 1e-6
    assert len(model.reweighting_history_) <= 31
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


def test_turns_back_from_weights_without_a_minimizer():
    # Hardly a penalty, and weights that leave almost separable records.
    X, y = heavy_tailed("logistic", 17)
    model = model_of("logistic", 1e-5, reweighting__features=[0]).fit(X, y)
    assert min(model.reweighting_history_) <= 1e-6


def test_the_bound_of_the_rule_is_where_it_ends():
    X, y = heavy_tailed("squared", 35)
    options = {"reweighting": EvenTotal(features=[0], max_iter=150)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UnevenLeakageWarning)
        model = model_of("squared", 1e-3, **options).fit(X, y)
    assert model.sample_reweights_.max() < 4.0


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.data
def test_all_of_adult_under_hardly_a_penalty(adult):
    X, y = adult.X_train, adult.y_train
    options = {"reweighting": IRFIL(max_iter=150), "alpha": 1e-5}
    model = PrivateLinearRegression(1.0, **options).fit(X, y)
    assert min(model.reweighting_history_) <= 1e-6
