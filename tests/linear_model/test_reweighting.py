"""IRFIL through the estimators."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skleak.linear_model import IRFIL, PrivateLinearRegression, PrivateLogisticRegression


def _spread(losses, weights=None):
    mean = np.average(losses, weights=weights)
    return np.sqrt(np.average((losses - mean) ** 2, weights=weights)) / mean


@pytest.mark.parametrize("target", mostly_slow([True, False]))
def test_every_record_leaks_the_same(estimator_class, data, target):
    model = estimator_class(0.1, alpha=0.1, private_target=target, reweighting=IRFIL(max_iter=100))
    plain = estimator_class(0.1, alpha=0.1, private_target=target).fit(data.X, data.y)
    model.fit(data.X, data.y)
    assert _spread(plain.fisher_information_loss_) > 0.1
    balanced = model.conditional_fisher_information_loss_
    assert _spread(balanced) <= 1e-6
    assert_array_equal(model.fisher_information_loss(conditional=True), balanced)
    assert model.sample_reweights_.sum() == pytest.approx(60.0)
    assert model.sample_reweights_.min() > 0.0
    history = model.reweighting_history_
    assert history[0] == pytest.approx(_spread(plain.fisher_information_loss_), rel=1e-9)
    assert history.min() == pytest.approx(_spread(balanced), rel=1e-3)
    assert model.n_reweighting_iter_ == len(history) - 1
    assert balanced.max() < plain.fisher_information_loss_.max()
    # What is leaked in all is not equal, and some of it more than is balanced.
    assert _spread(model.fisher_information_loss_) > 0.01
    assert model.fisher_information_loss_.max() > 1.05 * balanced.max()


@pytest.mark.parametrize(
    "options, per, norm",
    [
        ({"features": ["age", "bp"]}, ["age", "bp"], "spectral"),
        ({"features": "bmi"}, "bmi", "spectral"),
        ({"features": slice(1, 3)}, [1, 2], "spectral"),
        ({"features": [0]}, 0, "spectral"),
        ({"features": [0, 1], "norm": "trace"}, [0, 1], "trace"),
        ({"norm": "trace"}, None, "trace"),
        ({}, None, "spectral"),
    ],
    ids=str,
)
def test_what_is_balanced(numbers, options, per, norm):
    X = pd.DataFrame(numbers.X, columns=["age", "bmi", "bp", "dose"])
    reweighting = IRFIL(max_iter=100, **options)
    model = PrivateLinearRegression(0.1, alpha=0.1, reweighting=reweighting).fit(X, numbers.y)
    balanced = model.fisher_information_loss(features=per, norm=norm, conditional=True)
    assert _spread(balanced) <= 1e-6
    others = {
        "record": model.fisher_information_loss(conditional=True),
        "trace": model.fisher_information_loss(norm="trace", conditional=True),
        "dose": model.fisher_information_loss(features="dose", conditional=True),
    }
    if per is not None:
        assert all(_spread(losses) > 1e-3 for losses in others.values())


@pytest.mark.slow
def test_the_fit_is_that_under_the_weights(estimator_class, data):
    model = estimator_class(0, alpha=0.1, reweighting=IRFIL(max_iter=100))
    model.fit(data.X, data.y, sample_weight=data.weights)
    combined = data.weights * model.sample_reweights_
    plain = estimator_class(0, alpha=0.1).fit(data.X, data.y, sample_weight=combined)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    assert_allclose(model.intercept_, plain.intercept_, rtol=1e-9)
    assert data.weights @ model.sample_reweights_ == pytest.approx(data.weights.sum())
    # Each copy leaks the same: a row its weight times that.
    noisy = model.set_params(noise_scale=0.1).fit(data.X, data.y, sample_weight=data.weights)
    unit = noisy.conditional_fisher_information_loss_ / data.weights
    assert _spread(unit, data.weights) <= 1e-6


@pytest.mark.slow
def test_integer_weights_are_repeated_rows(estimator_class, data):
    options = {"alpha": 0.1, "reweighting": IRFIL(tol=1e-8, max_iter=100)}
    copies = np.repeat(np.arange(60), data.weights.astype(int))
    weighted = estimator_class(0.1, **options)
    weighted.fit(data.X, data.y, sample_weight=data.weights)
    repeated = estimator_class(0.1, **options)
    repeated.fit(data.X[copies], data.y[copies])
    assert_allclose(weighted.sample_reweights_[copies], repeated.sample_reweights_, rtol=1e-6)
    expected = data.weights[copies] * repeated.fisher_information_loss_
    assert_allclose(weighted.fisher_information_loss_[copies], expected, rtol=1e-6)


def test_records_of_weight_zero_change_nothing(estimator_class, data):
    options = {"alpha": 0.1, "reweighting": IRFIL(max_iter=100)}
    weights = np.ones(60)
    weights[[3, 50]] = 0.0
    present = weights > 0.0
    a = estimator_class(0, **options).fit(data.X, data.y, sample_weight=weights)
    b = estimator_class(0, **options).fit(data.X[present], data.y[present])
    assert_allclose(a.coef_, b.coef_, rtol=1e-6)
    assert_allclose(a.sample_reweights_[present], b.sample_reweights_, rtol=1e-5)


@pytest.mark.slow
def test_the_plain_iteration_is_slower_and_ends_in_the_same_place(numbers):
    options = {"alpha": 0.3, "reweighting": IRFIL(tol=1e-8)}
    rule = IRFIL(method="plain", tol=1e-8, max_iter=1000)
    plain = PrivateLinearRegression(0, alpha=0.3, reweighting=rule).fit(numbers.X, numbers.y)
    fast = PrivateLinearRegression(0, **options).fit(numbers.X, numbers.y)
    assert fast.n_reweighting_iter_ < plain.n_reweighting_iter_
    assert_allclose(fast.coef_, plain.coef_, rtol=1e-6)
    # One plain step by hand: weights inversely proportional to the loss.
    with pytest.warns(ConvergenceWarning):
        step = PrivateLinearRegression(
            0.1, alpha=0.3, reweighting=IRFIL(method="plain", max_iter=1)
        ).fit(numbers.X, numbers.y)
    losses = PrivateLinearRegression(0.1, alpha=0.3).fit(numbers.X, numbers.y)
    inverse = 1.0 / losses.fisher_information_loss_
    assert_allclose(step.sample_reweights_, 60.0 * inverse / inverse.sum(), rtol=1e-9)


def test_a_reweighting_that_stops_short_says_what_it_reached(numbers):
    model = PrivateLinearRegression(0.1, reweighting=IRFIL(max_iter=2))
    pattern = r"stopped after 3 fits with a relative spread of (\d\.\de-\d+), above"
    with pytest.warns(ConvergenceWarning, match=pattern) as caught:
        model.fit(numbers.X, numbers.y)
    message = str(caught[0].message)
    assert f"{model.reweighting_history_.min():.1e}" in message
    assert "above tol=1e-06" in message
    assert caught[0].filename == __file__
    assert model.n_reweighting_iter_ == 2
    assert _spread(model.conditional_fisher_information_loss_) == pytest.approx(
        model.reweighting_history_.min(), rel=1e-6
    )


def test_an_unreliable_refit_says_so(classes):
    model = PrivateLogisticRegression(0.1, reweighting=IRFIL(tol=10.0), max_iter=1)
    with pytest.warns(ConvergenceWarning, match="did not converge after 1 steps"):
        model.fit(classes.X, classes.y)


def test_a_record_that_cannot_leak(rng):
    # Without intercept a record of zeros with target zero moves nothing, whatever its weight.
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    X[4], y[4] = 0.0, 0.0
    model = PrivateLinearRegression(0.1, fit_intercept=False, reweighting="irfil")
    with pytest.warns(ConvergenceWarning, match=r"stopped after .* stated as NaN"):
        model.fit(X, y)
    assert model.conditional_fisher_information_loss_[4] == 0.0
    assert np.all(np.isfinite(model.sample_reweights_))
    assert_array_equal(model.fisher_information_loss_, np.full(20, np.nan))


def test_constant_targets(rng):
    X = rng.normal(size=(20, 3))
    # With a public target nothing leaks, and there is nothing to balance.
    model = PrivateLinearRegression(0.1, private_target=False, reweighting="irfil")
    model.fit(X, np.zeros(20))
    assert_array_equal(model.fisher_information_loss_, 0.0)
    assert_array_equal(model.sample_reweights_, 1.0)
    model = PrivateLinearRegression(0.1, reweighting="irfil").fit(X, np.full(20, 3.0))
    assert _spread(model.conditional_fisher_information_loss_) <= 1e-6


@pytest.mark.slow
def test_what_the_paper_forgets(rng):
    """The weights are functions of the data: the loss stated counts what they reveal.

    It is what differences of the whole algorithm, by refits of it, show; the paper's is not.
    """
    X, y = rng.normal(size=(25, 2)), rng.normal(size=25)
    options = {"alpha": 0.1, "reweighting": IRFIL(tol=1e-11, max_iter=300)}

    def fit(i, step):
        changed, target = X.copy(), y.copy()
        changed[i, :] += step[:2]
        target[i] += step[2]
        model = PrivateLinearRegression(0, **options)
        model.fit(changed, target)
        return np.append(model.coef_, model.intercept_)

    stated = PrivateLinearRegression(1.0, **options).fit(X, y)
    h, ratios = 1e-5, []
    for i in range(5):
        steps = h * np.eye(3)
        J = np.column_stack([(fit(i, s) - fit(i, -s)) / (2.0 * h) for s in steps])
        assert stated.fisher_information_loss_[i] == pytest.approx(np.linalg.norm(J, 2), rel=1e-4)
        ratios.append(np.linalg.norm(J, 2) / stated.conditional_fisher_information_loss_[i])
    assert max(ratios) > 1.05
