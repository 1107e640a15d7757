"""`reweighting="total"` through the estimators: weights, leakage, and what is said of it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import flat, mostly_slow
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skleak.accounting import LeakageLedger
from skleak.exceptions import PrivacyLeakWarning, UnevenLeakageWarning
from skleak.influence.leakage import leakage_model
from skleak.influence.reweighting import _total as _total_derivative
from skleak.influence.reweighting import total_jacobian
from skleak.linear_model import (
    EvenTotal,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.mechanisms import MaxAdvantage, MaxLeakage

UNEVEN = "`reweighting='total'` evens what records leak"
OPTIONS = {
    "alpha": 0.1,
    "tol": 1e-13,
    "reweighting": "total",
    "reweighting__tol": 1e-9,
    "reweighting__max_iter": 100,
}
BALANCES = {
    "record": {},
    "public target": {"private_target": False},
    "features": {"reweighting__features": [2, 0]},
    "trace": {"reweighting__norm": "trace"},
    "trace of features": {"reweighting__features": [1], "reweighting__norm": "trace"},
}


def fit(estimator, X, y, sample_weight=None, noise_scale=0.1, **options):
    """A fit near its fixed point: to stop short is an error."""
    model = estimator(noise_scale, **flat(**{**OPTIONS, **options}))
    return model.fit(X, y, sample_weight=sample_weight)


def total(model, **options):
    return model.fisher_information_loss(**options)


def relative_std(losses, weights=None):
    mean = np.average(losses, weights=weights)
    return np.sqrt(np.average((losses - mean) ** 2, weights=weights)) / mean


def derivatives(model, a, y):
    """r and c of every record, by formulas of their own."""
    if isinstance(model, PrivateLinearRegression):
        return a - y, np.ones_like(a)
    if isinstance(model, PrivatePoissonRegressor):
        return np.exp(a) - y, np.exp(a)
    return expit(a) - y, expit(a) * expit(-a)


# The closed system.


@pytest.mark.parametrize("balance", mostly_slow(BALANCES))
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False]))
def test_weights_level_and_minimizer_solve_the_closed_system(
    estimator_class, data, balance, fit_intercept
):
    options = BALANCES[balance]
    X, y, s = data
    model = fit(estimator_class, X, y, s, fit_intercept=fit_intercept, **options)
    omega, w = model.sample_reweights_, model._confidential_state().factor.coefficients
    n, d = X.shape
    x = np.column_stack([X, np.ones(n)])[:, : len(w)]
    penalty = np.append(np.full(d, 0.1), 0.0)[: len(w)] * s.sum()
    r, c = derivatives(model, x @ w, y)
    assert_allclose(x.T @ (s * omega * r) + penalty * w, 0.0, atol=1e-8 * s.sum())
    hessian = (x.T * (s * omega * c)) @ x + np.diag(penalty)
    # What is balanced: the Jacobian of every record at weight one, its residual times 0.8.
    chosen = options.get("reweighting__features", range(d))
    E = np.eye(len(w))[:, list(chosen)]
    with_target = options.get("private_target", True) and "reweighting__features" not in options
    kappa = []
    for xi, ri, ci in zip(x, r, c, strict=True):
        inner = ci * np.outer(xi, w @ E) + 0.8 * ri * E
        inner = np.column_stack([inner, -xi]) if with_target else inner
        J = np.linalg.solve(hessian, inner)
        trace = "reweighting__norm" in options
        kappa.append(np.sqrt(np.mean(np.sum(J**2, axis=0))) if trace else np.linalg.norm(J, 2))
    # Every record says which level it is balanced to, and all say the same.
    levels = np.array(kappa) / np.sqrt(omega**-2.0 - 4.0**-2)
    assert_allclose(levels, levels.mean(), rtol=1e-7)
    assert model._confidential_state().balanced_level == pytest.approx(levels.mean(), rel=1e-7)
    assert s @ omega == pytest.approx(s.sum(), rel=1e-12)
    assert 0.0 < omega.min() < 0.9
    assert 1.1 < omega.max() < 4.0
    assert model.reweighting_history_.min() <= 1e-9


def test_the_fit_is_that_under_the_weights(estimator_class, data):
    model = fit(estimator_class, data.X, data.y, data.weights, noise_scale=0)
    combined = data.weights * model.sample_reweights_
    plain = estimator_class(0, alpha=0.1).fit(data.X, data.y, sample_weight=combined)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-8)
    assert_allclose(model.intercept_, plain.intercept_, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["accelerated", "newton", "plain"])
def test_all_methods_end_in_the_same_place(estimator_class, data, method):
    reference = fit(estimator_class, data.X, data.y, noise_scale=0)
    options = {"reweighting__method": method, "reweighting__max_iter": 1000}
    model = fit(estimator_class, data.X, data.y, noise_scale=0, **options)
    assert_allclose(model.sample_reweights_, reference.sample_reweights_, rtol=1e-7)
    assert_allclose(model.coef_, reference.coef_, rtol=1e-7, atol=1e-9)


def test_one_plain_step_by_hand(numbers):
    with pytest.warns(ConvergenceWarning, match="stopped after 2 fits"):
        step = fit(
            *(PrivateLinearRegression, numbers.X, numbers.y),
            fit_intercept=False,
            reweighting__method="plain",
            reweighting__max_iter=1,
        )
    X, y, n = numbers.X, numbers.y, 60
    A = np.linalg.inv(X.T @ X + 0.1 * n * np.eye(4))
    w = A @ X.T @ y
    blocks = [
        np.column_stack([np.outer(x, w) + 0.8 * (x @ w - t) * np.eye(4), -x])
        for x, t in zip(X, y, strict=True)
    ]
    kappa = np.linalg.norm(A @ np.array(blocks), 2, axis=(1, 2))

    def floor(level):
        return np.hypot(kappa, level / 4.0)

    low, high = kappa.min() / 10.0, 10.0 * kappa.max()
    for _ in range(200):
        level = np.sqrt(low * high)
        low, high = (level, high) if np.mean(level / floor(level)) < 1.0 else (low, level)
    inverse = 1.0 / floor(level)
    assert_allclose(step.sample_reweights_, n * inverse / inverse.sum(), rtol=1e-9)


# What does not matter, and what only scales.


@pytest.mark.slow
def test_a_weight_of_two_is_the_record_twice(estimator_class, data):
    copies = np.repeat(np.arange(60), data.weights.astype(int))
    weighted = fit(estimator_class, data.X, data.y, data.weights)
    repeated = fit(estimator_class, data.X[copies], data.y[copies])
    assert_allclose(weighted.sample_reweights_[copies], repeated.sample_reweights_, rtol=1e-7)
    # One person stands behind all of them, and moves them together.
    given = data.weights[copies] * repeated.conditional_fisher_information_loss_
    assert_allclose(weighted.conditional_fisher_information_loss_[copies], given, rtol=1e-7)
    for norm in ("spectral", "trace"):
        expected = data.weights[copies] * total(repeated, norm=norm)
        assert_allclose(total(weighted, norm=norm)[copies], expected, rtol=1e-6)
    first = np.unique(copies, return_index=True)[1]
    jacobians = total_jacobian(repeated._confidential_state(), first)
    joint = np.linalg.norm(np.hstack(list(data.weights[:, None, None] * jacobians)), 2) / 0.1
    assert total(weighted, per="dataset") == pytest.approx(joint, rel=1e-6)


@pytest.mark.slow
def test_records_of_weight_zero_change_nothing(estimator_class, data):
    weights = data.weights.copy()
    weights[[0, 7, 30]] = 0.0
    present = weights > 0.0
    a = fit(estimator_class, data.X, data.y, weights, noise_scale=0)
    b = fit(estimator_class, data.X[present], data.y[present], weights[present], noise_scale=0)
    assert_allclose(a.coef_, b.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(a.sample_reweights_[present], b.sample_reweights_, rtol=1e-7)
    a, b = (model._confidential_state().at_noise(0.1) for model in (a, b))
    a, b = (leakage_model(each).record_loss(each.training) for each in (a, b))
    assert_allclose(a[present], b, rtol=1e-6)
    assert_array_equal(a[~present], 0.0)


@pytest.mark.slow
def test_neither_order_nor_rotation_matters(estimator_class, data, rng):
    expected = fit(estimator_class, data.X, data.y, data.weights)
    order, turn = rng.permutation(60), ortho_group.rvs(4, random_state=rng)
    shuffled = fit(estimator_class, data.X[order], data.y[order], data.weights[order])
    turned = fit(estimator_class, data.X @ turn, data.y, data.weights)
    for norm in ("spectral", "trace"):
        losses = total(expected, norm=norm)
        assert_allclose(total(shuffled, norm=norm), losses[order], rtol=1e-6)
        assert_allclose(total(turned, norm=norm), losses, rtol=1e-6)
    assert_allclose(turned.sample_reweights_, expected.sample_reweights_, rtol=1e-7)


@pytest.mark.slow
def test_a_rotation_within_the_balanced_block_does_not_matter(data, estimator_class, rng):
    block = {"reweighting__features": [0, 3]}
    expected = fit(estimator_class, data.X, data.y, **block)
    X = data.X.copy()
    X[:, [0, 3]] = X[:, [0, 3]] @ ortho_group.rvs(2, random_state=rng)
    turned = fit(estimator_class, X, data.y, **block)
    found = total(turned, features=[0, 3])
    assert_allclose(found, total(expected, features=[0, 3]), rtol=1e-6)


@pytest.mark.slow
def test_noise_only_scales(estimator_class, data):
    small = fit(estimator_class, data.X, data.y, noise_scale=1e-3)
    large = fit(estimator_class, data.X, data.y, noise_scale=10.0)
    assert_array_equal(small.sample_reweights_, large.sample_reweights_)
    assert_allclose(total(small), 1e4 * total(large), rtol=1e-12)


@pytest.mark.parametrize("unit", mostly_slow([1e-6, 1e6]))
def test_units_only_scale(numbers, unit):
    # Records and targets in other units: the same coefficients, of which a unit moves less.
    options = {"fit_intercept": False}
    expected = fit(PrivateLinearRegression, numbers.X, numbers.y, **options)
    options["alpha"] = unit**2 * OPTIONS["alpha"]
    found = fit(PrivateLinearRegression, unit * numbers.X, unit * numbers.y, **options)
    assert_allclose(found.sample_reweights_, expected.sample_reweights_, rtol=1e-7)
    assert_allclose(unit * total(found), total(expected), rtol=1e-6)


@pytest.mark.slow
def test_the_unit_of_weights(estimator_class, data):
    a = fit(estimator_class, data.X, data.y, data.weights)
    b = fit(estimator_class, data.X, data.y, 10.0 * data.weights)
    assert_allclose(a.sample_reweights_, b.sample_reweights_, rtol=1e-7)
    assert_allclose(total(a), total(b), rtol=1e-6)


@pytest.mark.slow
def test_swapping_the_classes_changes_nothing(classes):
    a = fit(PrivateLogisticRegression, classes.X, classes.y)
    b = fit(PrivateLogisticRegression, classes.X, 1 - classes.y)
    assert_allclose(total(a), total(b), rtol=1e-6)


# Data of all kinds. What is stated is checked against refits of the whole algorithm.


def spoil(data, case, rng):
    X, y = data.X, data.y
    extra = {
        "constant": np.ones((60, 1)),
        "zero": np.zeros((60, 1)),
        "collinear": X[:, [0]] - 2.0 * X[:, [1]],
        "one-hot": np.eye(3)[rng.integers(0, 3, 60)],
        "none": np.zeros((60, 0)),
    }
    X = np.hstack([X, extra.get(case, extra["none"])])
    if case == "wide":
        X, y = np.hstack([X, rng.normal(size=(60, 20))])[:20], y[:20]
    if case == "outlier":
        X[5] *= 20.0
    if case == "copies":
        X, y = np.repeat(X[:6], 10, axis=0), np.repeat(y[:6], 10)
    if case == "units":
        X = X * [1e3, 1.0, 1e-3, 1.0]
    return X, y


def whole_algorithm(estimator, X, y):
    model = estimator(
        0, **flat(**OPTIONS | {"reweighting__tol": 1e-12, "reweighting__max_iter": 200})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding noise may be larger
        model.fit(X, y)
    assert model.reweighting_history_.min() <= 1e-9
    return model._confidential_state().factor.coefficients


CASES = ["constant", "zero", "collinear", "one-hot", "wide", "outlier", "copies", "units"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_data_of_all_kinds(estimator_class, data, case, rng):
    X, y = spoil(data, case, rng)
    model = fit(estimator_class, X, y, noise_scale=1.0)
    losses = total(model)
    assert losses.min() > 0.0
    assert np.all(np.isfinite(losses))
    assert model.sample_reweights_.max() <= 4.0
    i, j = 5, X.shape[1] - 1  # one column of one record: by differences of the whole algorithm
    h = 3e-6 * max(np.std(X[:, j]), np.abs(X[i, j]), 1e-2)
    ends = []
    for step in (h, -h):
        moved = X.copy()
        moved[i, j] += step
        ends.append(whole_algorithm(estimator_class, moved, y))
    slope = np.linalg.norm(ends[0] - ends[1]) / (2.0 * h)
    assert total(model, features=j)[i] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("n", mostly_slow([2, 3, 5]))
def test_tiny_data(estimator_class, make_data, rng, n):
    X, y, _ = make_data(estimator_class, rng, n=60)
    model = fit(estimator_class, X[:n], y[:n])
    assert model.sample_reweights_.sum() == pytest.approx(n)
    assert np.all(total(model) > 0.0)


def test_a_single_record_has_nothing_to_be_even_with():
    model = fit(PrivateLinearRegression, [[1.0, 2.0]], [3.0])
    plain = PrivateLinearRegression(0.1, alpha=0.1).fit([[1.0, 2.0]], [3.0])
    assert_array_equal(model.sample_reweights_, 1.0)
    # Its weight cannot move, and no warning tells a spread.
    assert_allclose(model.fisher_information_loss_, plain.fisher_information_loss_, rtol=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-5])
def test_separable_classes(classes, alpha):
    y = np.where(classes.X[:, 3] > 0.0, "ill", "well")
    model = fit(PrivateLogisticRegression, classes.X, y, alpha=alpha, reweighting__tol=1e-6)
    plain = PrivateLogisticRegression(0.1, alpha=alpha).fit(classes.X, y)
    assert relative_std(total(model)) < relative_std(plain.fisher_information_loss_)
    assert model.score(classes.X, y) > 0.5


def test_where_nothing_leaks_nothing_is_weighed(rng):
    X = rng.normal(size=(20, 3))
    model = PrivateLinearRegression(0.1, private_target=False, reweighting="total")
    model.fit(X, np.zeros(20))
    assert_array_equal(model.sample_reweights_, 1.0)
    assert_array_equal(model.fisher_information_loss_, 0.0)


@pytest.mark.slow
def test_a_record_that_cannot_leak(rng):
    # Without intercept a record of zeros with target zero moves nothing, whatever its weight.
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    X[4], y[4] = 0.0, 0.0
    model = PrivateLinearRegression(0.1, fit_intercept=False, reweighting="total")
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        model.fit(X, y)
    assert np.all(np.isfinite(model.sample_reweights_))
    assert model.conditional_fisher_information_loss_[4] == 0.0
    assert np.all(np.isnan(total(model)))


@pytest.mark.slow
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, pd.DataFrame])
def test_columns_in_any_container(estimator_class, data, form):
    # Without an intercept: weights of about 1 / |r| cannot make residuals of two classes cancel.
    block = {"reweighting__features": [0, 2], "fit_intercept": False}
    expected = fit(estimator_class, data.X, data.y, data.weights, **block)
    X = form(data.X)
    if form is pd.DataFrame:
        X.columns = ["age", "bmi", "bp", "dose"]
        block["reweighting__features"] = ["age", "bp"]
    model = fit(estimator_class, X, data.y, data.weights, **block)
    assert_allclose(model.sample_reweights_, expected.sample_reweights_, rtol=1e-7)
    assert_allclose(total(model), total(expected), rtol=1e-6)


@pytest.mark.slow
def test_single_precision_is_measured_in_double(estimator_class, data):
    X = data.X.astype(np.float32)
    model, expected = (fit(estimator_class, A, data.y) for A in (X, X.astype(float)))
    assert_array_equal(total(model), total(expected))
    assert model.sample_reweights_.dtype == np.float64


def test_two_classes_at_most(rng):
    model = PrivateLogisticRegression(reweighting="total")
    with pytest.raises(ValueError, match=r"binary classification .* Got 3 classes"):
        model.fit(rng.normal(size=(30, 2)), np.arange(30) % 3)


# What evens what.


@pytest.mark.slow
def test_it_is_more_even_than_irfil_where_weights_rule(make_data, rng):
    # A column that few records have, hardly any penalty: those get huge weights under IRFIL.
    X, y, _ = make_data(PrivateLinearRegression, rng, n=400)
    X[:, 0] = np.arange(400) < 4
    options = {"alpha": 1e-4, "reweighting__tol": 1e-7}
    losses = {}
    for reweighting in ("irfil", "total"):
        model = fit(PrivateLinearRegression, X, y, reweighting=reweighting, **options)
        losses[reweighting] = total(model)
        assert (model.sample_reweights_.max() > 4.0) == (reweighting == "irfil")
    plain = PrivateLinearRegression(0.1, alpha=1e-4).fit(X, y).fisher_information_loss_
    others = losses["irfil"], plain
    assert relative_std(losses["total"]) < 0.8 * min(relative_std(each) for each in others)
    assert losses["total"].max() < min(losses["irfil"].max(), plain.max())


def test_it_evens_what_is_stated_and_not_what_fixed_weights_leak(estimator_class, data):
    model = fit(estimator_class, data.X, data.y, data.weights)
    plain = estimator_class(0.1, alpha=0.1).fit(data.X, data.y, sample_weight=data.weights)
    # Per unit of sample weight: a row leaks its weight times that.
    before = relative_std(plain.fisher_information_loss_ / data.weights, data.weights)
    assert relative_std(total(model) / data.weights, data.weights) < 0.7 * before
    # Fixed weights are not what is balanced here.
    given = model.conditional_fisher_information_loss_ / data.weights
    assert relative_std(given, data.weights) > 1e-2


# What is said.


def spread_told(caught):
    (message,) = [str(each.message) for each in caught]
    assert message.startswith(UNEVEN)
    return message


@pytest.mark.parametrize("reweights", mostly_slow([True, False], 0))
def test_the_spread_is_told_once(estimator_class, make_data, rng, reweights):
    data = make_data(estimator_class, rng, n=14, d=2)
    weights = data.weights if reweights else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "With .* somebody leaks more", UnevenLeakageWarning)
        model = fit(estimator_class, data.X, data.y, weights)
        model.fisher_information_loss()
        _ = model.conditional_fisher_information_loss_, model.diagonal_fisher_information_loss_
        model.leakage_report()
    with pytest.warns(UnevenLeakageWarning, match="is not equal") as caught:
        losses = model.fisher_information_loss_
    message = spread_told(caught)
    unit = losses if weights is None else losses / weights
    assert f"(standard deviation over mean) is {relative_std(unit, weights):.2g}. " in message
    assert caught[0].filename == __file__
    assert_array_equal(losses, total(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fisher_information_loss_ is losses
    # Another fit is another spread.
    model.set_params(alpha=1.0).fit(data.X, data.y, sample_weight=weights)
    with pytest.warns(UnevenLeakageWarning, match=UNEVEN):
        _ = model.fisher_information_loss_


@pytest.mark.slow
def test_the_fixed_point_is_differentiated_once(numbers, monkeypatch):
    calls, solve = [], _total_derivative.total_derivative
    monkeypatch.setattr(
        _total_derivative, "total_derivative", lambda state: calls.append(1) or solve(state)
    )
    model = fit(PrivateLinearRegression, numbers.X, numbers.y, reweighting__norm="trace")
    assert calls == [1]
    with pytest.warns(UnevenLeakageWarning, match=UNEVEN):
        _ = model.fisher_information_loss_
    model.leakage_report()
    _ = model.diagonal_fisher_information_loss_
    assert calls == [1]


@pytest.mark.parametrize(
    "options, per",
    [
        ({"reweighting__features": [1]}, {"features": 1}),
        ({"reweighting__features": [0, 2]}, {"features": [0, 2]}),
        ({"reweighting__norm": "trace"}, {"norm": "trace"}),
        ({"private_target": False}, {}),
        ({"reweighting__features": 3, "private_target": False}, {"features": 3}),
    ],
    ids=str,
)
def test_the_spread_told_is_that_of_what_is_balanced(numbers, options, per):
    X, y, weights = numbers
    model = fit(PrivateLinearRegression, X, y, weights, **options)
    with pytest.warns(UnevenLeakageWarning, match=UNEVEN) as caught:
        whole = model.fisher_information_loss_
    spread = relative_std(total(model, **per) / weights, weights)
    assert f"is {spread:.2g}. " in spread_told(caught)
    assert_array_equal(whole, total(model))


def test_without_noise_there_is_no_spread_to_tell(estimator_class, data):
    model = fit(estimator_class, data.X, data.y, noise_scale=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(model.fisher_information_loss_, np.inf)


@pytest.mark.parametrize("reweighting", [None, "irfil"])
def test_who_did_not_ask_for_an_even_leakage_is_told_nothing(numbers, reweighting):
    model = fit(PrivateLinearRegression, numbers.X, numbers.y, reweighting=reweighting)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert relative_std(model.fisher_information_loss_) > 1e-3


def test_a_reweighting_that_stops_short_says_so_too(numbers):
    with pytest.warns(ConvergenceWarning, match="stopped after 2 fits"):
        model = fit(PrivateLinearRegression, numbers.X, numbers.y, reweighting__max_iter=1)
    assert np.all(np.isnan(model.fisher_information_loss_))


# Around a fit: calibration, ledger, release, parameters.


def test_noise_is_calibrated_to_the_leakage_in_all(estimator_class, data):
    unit = fit(estimator_class, data.X, data.y, noise_scale=1.0)
    noise = MaxLeakage(0.2).noise_scale_of(unit)
    model = fit(estimator_class, data.X, data.y, noise_scale=noise)
    assert total(model).max() == pytest.approx(0.2, rel=1e-12)
    assert model.conditional_fisher_information_loss_.max() != pytest.approx(0.2, rel=1e-3)
    noise = MaxLeakage(0.2, features=[1]).noise_scale_of(unit)
    model = fit(estimator_class, data.X, data.y, noise_scale=noise)
    assert total(model, features=1).max() == pytest.approx(0.2, rel=1e-12)


@pytest.mark.slow
def test_an_advantage_is_bounded_as_for_any_reweighting(numbers):
    X = numbers.X.copy()
    X[:, 0] = X[:, 0] > 0.0
    target = MaxAdvantage(0.2, 0)
    scales = [
        target.noise_scale_of(fit(PrivateLinearRegression, X, numbers.y, **options))
        for options in ({}, {"reweighting": "irfil"}, {"reweighting": None})
    ]
    assert np.all(np.isfinite(scales))
    assert len(set(scales)) == 3


def test_the_ledger_is_charged_all_of_it(numbers, tmp_path):
    ledger = LeakageLedger(tmp_path / "ledger.csv")
    with pytest.warns(UnevenLeakageWarning, match=UNEVEN):  # the ledger asks for the leakage
        model = fit(PrivateLinearRegression, numbers.X, numbers.y, ledger=ledger)
    charged = ledger.total("default").fisher_information_loss
    assert_allclose(charged, total(model).max(), rtol=1e-12)
    assert charged.max() > 1.001 * model.conditional_fisher_information_loss_.max()
    assert ledger.history()["description"].str.contains('"reweighting": "total"').all()
    with pytest.warns(UnevenLeakageWarning, match=UNEVEN):
        fit(PrivateLinearRegression, numbers.X, numbers.y, ledger=ledger)
    twice = ledger.total("default").fisher_information_loss
    assert_allclose(twice, np.sqrt(2.0) * charged, rtol=1e-9)


def test_a_release_tells_how_it_was_made(estimator_class, data):
    model = fit(estimator_class, data.X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = pickle.loads(pickle.dumps(model.release()))
    assert released.provenance_["reweighting"] == "total"
    assert_array_equal(released.predict(data.X), model.predict(data.X))


def test_what_a_pickle_holds(numbers):
    model = fit(PrivateLinearRegression, numbers.X, numbers.y)
    with pytest.warns(PrivacyLeakWarning):
        early = pickle.loads(pickle.dumps(model))
    assert not hasattr(early, "fisher_information_loss_")
    with pytest.warns(UnevenLeakageWarning, match=UNEVEN):
        losses = model.fisher_information_loss_
    with pytest.warns(PrivacyLeakWarning):
        late = pickle.loads(pickle.dumps(model))
    assert_array_equal(late.fisher_information_loss_, losses)


def test_parameters(estimator_class, data):
    model = estimator_class(reweighting=EvenTotal(features=[0, 1]))
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again.reweighting is not model.reweighting
    assert again.reweighting == EvenTotal(features=[0, 1])
    with pytest.raises(ValueError, match=r"'reweighting' parameter .*'total'"):
        estimator_class(reweighting="totals").fit(data.X, data.y)
    for wrong in ({"norm": "record"}, {"method": "fast"}, {"max_iter": 0}, {"tol": 0.0}):
        name = next(iter(wrong))
        with pytest.raises(ValueError, match=f"The '{name}' parameter of EvenTotal must be"):
            estimator_class(reweighting=EvenTotal(**wrong)).fit(data.X, data.y)
    with pytest.raises(ValueError, match="reweighting"):
        estimator_class(reweighting="total", noise_covariance="curvature").fit(data.X, data.y)


def test_a_refit_without_it_forgets_it(numbers):
    model = fit(PrivateLinearRegression, numbers.X, numbers.y)
    model.set_params(reweighting=None).fit(numbers.X, numbers.y)
    assert not hasattr(model, "sample_reweights_")
    plain = PrivateLinearRegression(0.1, alpha=0.1).fit(numbers.X, numbers.y)
    assert_allclose(model.fisher_information_loss_, plain.fisher_information_loss_, rtol=1e-9)


def test_records_that_come_later_get_the_weight_of_the_rule(estimator_class, data, make_data, rng):
    model = fit(estimator_class, data.X, data.y, data.weights, noise_scale=1.0)
    state = model._confidential_state()
    X, y, _ = make_data(estimator_class, rng, n=3)
    later = state.batch(X, np.asarray(y, dtype=float))
    assert_array_equal(later.sample_weight, 1.0)
    fixed = model.fisher_information_loss(X, y, conditional=True)
    # Without the damping of residuals the norm is that of the rule times its weight.
    kappa = state.balanced.norms(state.factor, X, np.asarray(y, dtype=float))
    level = state.balanced_level
    expected = 1.0 / np.sqrt((kappa / level) ** 2 + 1.0 / 16.0)
    assert_allclose(later.reweights, expected, rtol=1e-9)
    plain = fixed / later.reweights
    assert np.all(plain >= 0.8 * kappa)
    # One that is all but a training record leaks what that does.
    near = model.fisher_information_loss(data.X + 1e-9, data.y)
    assert_allclose(data.weights * near, total(model), rtol=1e-6)
    # Training records by value are those of the fit.
    some = [3, 40]
    found = state.batch(data.X[some], np.asarray(data.y, dtype=float)[some])
    assert_array_equal(found.reweights, model.sample_reweights_[some])
