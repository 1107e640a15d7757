"""How many fits the reweighting needs on the data of the papers."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression

pytestmark = pytest.mark.data


def _fits_to(model, spread):
    """Number of fits until the relative spread is first at most ``spread``."""
    return int(np.argmax(model.reweighting_history_ <= spread)) + 1


def _fit(model, X, y, spread=1e-8, fits=40):
    model.set_params(reweighting=model.reweighting or IRFIL(), noise_scale=1.0)
    model.set_params(reweighting__tol=spread, reweighting__max_iter=fits - 1)
    return model.fit(X, np.asarray(y))  # a fit that stops short warns, and warnings are errors


def _spread(losses):
    return np.std(losses) / np.mean(losses)


@pytest.fixture
def vkorc1(iwpc):
    return [name for name in iwpc[0] if name.startswith("vkorc1")]


@pytest.mark.slow
@pytest.mark.parametrize("split", [None, 0, 1, 2])
def test_iwpc_gene_in_fifteen_fits(iwpc, vkorc1, split):
    X, y = iwpc
    if split is not None:  # the random training splits of the papers
        rows = np.random.default_rng(split).permutation(len(y))[:3855]
        X, y = X.iloc[rows], y.iloc[rows]
    model = PrivateLinearRegression(reweighting=IRFIL(features=vkorc1), alpha=1e-2)
    _fit(model, X, y, spread=1e-6, fits=15)
    assert len(model.reweighting_history_) <= 15
    assert _spread(model.fisher_information_loss(features=vkorc1, conditional=True)) <= 1e-6


@pytest.mark.parametrize("alpha", [1e-2, 1e-5])
def test_iwpc_gene(iwpc, vkorc1, alpha):
    model = _fit(PrivateLinearRegression(reweighting=IRFIL(features=vkorc1), alpha=alpha), *iwpc)
    assert _spread(model.fisher_information_loss(features=vkorc1, conditional=True)) <= 1e-8
    assert _fits_to(model, 1e-6) <= 30


@pytest.mark.parametrize("target", [True, False])
def test_iwpc_record(iwpc, target):
    model = _fit(PrivateLinearRegression(alpha=1e-2, private_target=target), *iwpc)
    assert _spread(model.conditional_fisher_information_loss_) <= 1e-8


@pytest.mark.slow
def test_mnist(mnist01):
    linear = PrivateLinearRegression(alpha=0.0, fit_intercept=False)
    _fit(linear, mnist01.X_train, 2.0 * mnist01.y_train - 1.0)
    logistic = PrivateLogisticRegression(alpha=8e-4, fit_intercept=False)
    _fit(logistic, mnist01.X_train, mnist01.y_train)
    for model in (linear, logistic):
        assert _spread(model.conditional_fisher_information_loss_) <= 1e-8


@pytest.mark.slow
def test_adult_married(adult):
    model = PrivateLinearRegression(alpha=1e-3, reweighting=IRFIL(features=["married"]))
    _fit(model, adult.X_train, adult.y_train)
    assert _spread(model.fisher_information_loss(features="married", conditional=True)) <= 1e-8


def test_the_plain_iteration_is_far_slower(iwpc, vkorc1):
    model = PrivateLinearRegression(
        1.0,
        alpha=1e-2,
        reweighting=IRFIL(features=vkorc1, method="plain", max_iter=14),
    )
    with pytest.warns(ConvergenceWarning, match="stopped after 15 fits with a relative spread of"):
        model.fit(*iwpc)
    assert model.reweighting_history_.min() > 1e-5


def test_a_fit_that_stops_short_says_how_far_it_got(iwpc, vkorc1):
    model = PrivateLinearRegression(
        1.0,
        alpha=1e-5,
        reweighting=IRFIL(features=vkorc1, max_iter=5),
    )
    with pytest.warns(ConvergenceWarning, match="stopped after 6 fits") as caught:
        model.fit(*iwpc)
    reached = _spread(model.fisher_information_loss(features=vkorc1, conditional=True))
    assert f"a relative spread of {reached:.1e}" in str(caught[0].message)
