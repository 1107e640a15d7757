"""The fixed point of IRFIL on real data where the accelerated iteration alone takes long."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from sklearn.base import clone

from skleak.linear_model import IRFIL, EvenTotal, PrivateLinearRegression, PrivateLogisticRegression

pytestmark = pytest.mark.data


def fit(model, X, y, spread=1e-8):
    """By the default method and within the default number of refits; to stop short is an error."""
    model.set_params(reweighting=model.reweighting or IRFIL(), noise_scale=1.0)
    model.set_params(reweighting__tol=spread)
    model.fit(X, np.asarray(y))
    assert len(model.reweighting_history_) <= 31
    return model


def check(model, **options):
    """The spread by a fit of its own under the weights found."""
    state = model._confidential_state()
    plain = clone(model).set_params(reweighting=None)
    targets = model.classes_[state.objective.y.astype(int)] if hasattr(model, "classes_") else None
    targets = state.objective.y if targets is None else targets
    plain.fit(state.objective.X, targets, sample_weight=model.sample_reweights_)
    losses = plain.fisher_information_loss(**options)  # of rows with their whole weight
    assert np.std(losses) / np.mean(losses) <= 2e-8
    assert_allclose(state.factor.coefficients, plain._confidential_state().factor.coefficients)


@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
@pytest.mark.parametrize("gene", mostly_slow([False, True], 1))
def test_iwpc(iwpc, alpha, gene):
    X, y = iwpc
    block = [name for name in X if name.startswith("vkorc1")] if gene else None
    model = fit(PrivateLinearRegression(alpha=alpha, reweighting=IRFIL(features=block)), X, y)
    columns = [list(X).index(name) for name in block] if gene else None
    check(model, features=columns)
    assert len(model.reweighting_history_) <= 18


@pytest.mark.parametrize("alpha", mostly_slow([1e-2, 1e-5], 1))
@pytest.mark.parametrize("gene", mostly_slow([False, True], 1))
def test_iwpc_by_the_rule_that_evens_the_total(iwpc, alpha, gene):
    X, y = iwpc
    block = [name for name in X if name.startswith("vkorc1")] if gene else None
    options = {"reweighting": EvenTotal(features=block, tol=1e-8)}
    model = PrivateLinearRegression(1.0, alpha=alpha, **options).fit(X, np.asarray(y))
    assert len(model.reweighting_history_) <= 18
    # By a fit of its own under the weights found.
    plain = PrivateLinearRegression(1.0, alpha=alpha)
    plain.fit(X, np.asarray(y), sample_weight=model.sample_reweights_)
    rule, factor = model._confidential_state().balanced, plain._confidential_state().factor
    kappa = rule.norms(factor, X.to_numpy(dtype=float), np.asarray(y, dtype=float))
    levels = kappa / np.sqrt(model.sample_reweights_**-2.0 - rule.largest_weight**-2.0)
    assert np.std(levels) <= 1e-6 * np.mean(levels)


@pytest.mark.slow
def test_iwpc_agrees_with_the_acceleration_alone(iwpc):
    X, y = iwpc
    options = {"alpha": 1e-2, "max_iter": 200, "tol": 1e-13}
    tight = PrivateLinearRegression(reweighting=IRFIL(method="newton"), **options)
    newton = fit(tight, X, y, spread=1e-11)
    fast = newton.sample_reweights_
    plain = PrivateLinearRegression(
        alpha=1e-2,
        tol=1e-13,
        noise_scale=1.0,
        reweighting=IRFIL(method="plain", tol=1e-10, max_iter=1000),
    ).fit(X, np.asarray(y))
    assert_allclose(fast, plain.sample_reweights_, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1e-2, 1e-3])
@pytest.mark.parametrize("model", [PrivateLogisticRegression, PrivateLinearRegression])
def test_adult_whole_record(adult, model, alpha):
    model = fit(model(alpha=alpha), adult.X_train, adult.y_train)
    check(model)
    assert len(model.reweighting_history_) <= 16
