"""A ceiling on leakage holds in public units: attacks that change the units of the data."""

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import sparse
from sklearn.base import clone

from skleak.accounting import LeakageLedger
from skleak.exceptions import LeakageBudgetError
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.neural import PrivateSGDClassifier

pytestmark = pytest.mark.filterwarnings(
    "ignore:.reweighting='total'. evens:skleak.exceptions.UnevenLeakageWarning"
)
WIDTHS = np.array([8.0, 4.0, 1.0])
NAMES = {"x0": 8.0, "x1": 4.0, "x2": 1.0}
MODELS = {
    "squared": (PrivateLinearRegression, 30.0),
    "logistic": (PrivateLogisticRegression, 1.0),
    "poisson": (PrivatePoissonRegressor, 25.0),
}
WAYS = {
    "isotropic": {},
    "given": {"noise_covariance": np.diag([1.0, 2.0, 3.0])},
    "curvature": {"noise_covariance": "curvature"},
    "minimax": {"noise_covariance": "minimax"},
    "irfil": {"reweighting": "irfil"},
    "total": {"reweighting": "total"},
}


def _data(rng, loss="squared", n=24):
    X = rng.uniform(-0.5, 0.5, size=(n, 3)) * WIDTHS
    score = X @ [0.2, -0.5, 2.0] + rng.normal(size=n)
    if loss == "squared":
        return X, 3.0 * score
    if loss == "logistic":
        return X, (score > 0.0).astype(int)
    return X, rng.poisson(np.exp(np.clip(score, -2.0, 2.0))).astype(float)


def _charged(model, X, y, units, **parameters):
    ledger = LeakageLedger(":memory:", units=units)
    model = clone(model).set_params(ledger=ledger, **parameters).fit(X, y)
    return ledger.total("default").fisher_information_loss.max(), model


def test_the_same_model_on_larger_numbers_is_refused_as_often(rng):
    """The attack: X and y times 1e5 leave model and noise as they are, and all releases pass."""
    X, y = _data(rng)
    model = PrivateLinearRegression(0.5, alpha=0.0, fit_intercept=False)
    units = NAMES | {"(target)": 1.2 * float(np.ptp(y))}
    once, fitted = _charged(model, X, y, units)
    ledger = LeakageLedger(":memory:", max_leakage=1.5 * once, units=units)
    model.set_params(ledger=ledger)
    for _ in range(2):
        clone(model).fit(X, y)
    with pytest.raises(LeakageBudgetError):
        clone(model).fit(X, y)
    # Per unit of the data it would be 1e5 times as private, and the coefficients are the same.
    large = clone(model).set_params(ledger=None).fit(1e5 * X, 1e5 * y)
    assert large.fisher_information_loss_.max() == pytest.approx(
        1e-5 * fitted.fisher_information_loss_.max()
    )
    np.testing.assert_allclose(
        large._state.factor.coefficients, fitted._state.factor.coefficients, rtol=1e-9
    )
    for scaled in ((1e5 * X, 1e5 * y), (X * [1.0, 1.0, 1.5], y), (X, 2.0 * y)):
        with pytest.raises(ValueError, match="span more than their width"):
            clone(model).fit(*scaled)
    # A ledger in the larger units charges the same.
    larger = {name: 1e5 * width for name, width in units.items()}
    again, _ = _charged(model, 1e5 * X, 1e5 * y, larger)
    assert again == pytest.approx(once, rel=1e-9)
    # In smaller numbers than the width allows more is charged, never less.
    assert _charged(model, 1e-3 * X, 1e-3 * y, units)[0] > once


@pytest.mark.parametrize("way", mostly_slow(WAYS))
@pytest.mark.parametrize("loss", mostly_slow(MODELS))
def test_the_charge_is_that_of_the_same_model_in_other_units(loss, way, rng):
    """Two ways to measure in widths: by the ledger, and by data that are divided by them."""
    kind, span = MODELS[loss]
    X, y = _data(rng, loss)
    units = NAMES if loss == "logistic" else NAMES | {"(target)": span}
    model = kind(0.5, alpha=0.05, fit_intercept=False, tol=1e-12, **WAYS[way])
    found, fitted = _charged(model, X, y, units)
    state = fitted._state
    if way in ("isotropic", "given", "irfil", "total"):
        # By central differences of whole fits in all unknowns, times their widths.
        lengths = np.append(WIDTHS, 1.0 if loss == "logistic" else span)
        jacobians = _differences(clone(model).set_params(ledger=None), X, y, state)
        if way == "given":
            root = np.linalg.cholesky(state.noise.matrix)
            jacobians = np.linalg.solve(root, jacobians)
        expected = np.linalg.norm(jacobians * lengths, 2, axis=(1, 2)).max() / 0.5
        assert found == pytest.approx(expected, rel=2e-3 if "reweighting" in WAYS[way] else 1e-4)
        return
    # The information of a row is a matrix: that of the unknowns one by one and together.
    from skleak.influence.jacobian import Columns
    from skleak.influence.noise import fitted_noise, information_terms

    first, second = information_terms(
        state.training, Columns(target=True), noise=fitted_noise(state)
    )
    lengths = np.append(WIDTHS, 1.0 if loss == "logistic" else span)
    information = (first / 0.25 + second) * lengths * lengths[:, None]
    assert found == pytest.approx(np.sqrt(np.linalg.eigvalsh(information)[:, -1].max()))


def _differences(model, X, y, state):
    """Jacobians of all records by central differences, (n, p, d + 1)."""
    from skleak.solvers import minimize

    if model.reweighting is not None:
        from skleak.influence.reweighting import total_jacobian

        return total_jacobian(state, np.arange(len(y)))
    objective, step, found = state.objective, 1e-5, []
    for i in range(len(y)):
        columns = []
        for j in range(X.shape[1] + 1):
            ends = []
            for sign in (1.0, -1.0):
                X_, y_ = objective.X.copy(), objective.y.copy()
                if j < X.shape[1]:
                    X_[i, j] += sign * step
                else:
                    y_[i] += sign * step
                changed = type(objective)(
                    X_,
                    y_,
                    objective.loss,
                    objective.alpha,
                    objective.fit_intercept,
                    objective.sample_weight,
                    objective.reweights,
                )
                ends.append(minimize(changed, tol=1e-13).coefficients)
            columns.append((ends[0] - ends[1]) / (2.0 * step))
        found.append(np.column_stack(columns))
    return np.array(found)


@pytest.mark.parametrize("loss", MODELS)
def test_a_target_that_counts_as_public_is_charged_all_the_same(loss, rng):
    """The attack: `private_target=False` leaves the target out, and more releases pass."""
    kind, span = MODELS[loss]
    X, y = _data(rng, loss)
    for units in (None, NAMES | {"(target)": span}):
        model = kind(0.5, alpha=0.05)
        with_target, _ = _charged(model, X, y, units, private_target=True)
        without, fitted = _charged(model, X, y, units, private_target=False)
        assert without == pytest.approx(with_target, rel=1e-12)
        # Rows keep it: the model still says what it says of the columns alone.
        alone = kind(0.5, alpha=0.05, private_target=False).fit(X, y)
        np.testing.assert_allclose(
            fitted.fisher_information_loss_, alone.fisher_information_loss_, rtol=1e-12
        )
        if units is None:
            assert with_target > fitted.fisher_information_loss_.max()


def test_units_come_from_data_norm(rng):
    X, y = _data(rng, "logistic")
    X = X / (1.001 * np.linalg.norm(X, axis=1).max())
    units = {"(columns)": 0.5, "x2": 0.25}
    model = PrivateLogisticRegression(0.5, alpha=0.1, fit_intercept=False)
    with pytest.raises(ValueError, match="takes the width of columns from `data_norm`, and the"):
        _charged(model, X, y, "data_norm")
    by_norm, _ = _charged(model, X, y, "data_norm", data_norm=1.0)
    assert by_norm == _charged(model, X, y, {"(columns)": 2.0})[0]
    # Rows in other numbers break the promise, or come with another one, and the charge is the same.
    large = {"noise_scale": 0.5e-5, "alpha": 0.1e10, "tol": 1e-4}
    with pytest.raises(ValueError, match="`data_norm` promises rows"):
        _charged(model, 1e5 * X, y, "data_norm", data_norm=1.0, **large)
    again, _ = _charged(model, 1e5 * X, y, "data_norm", data_norm=1e5, **large)
    assert again == pytest.approx(by_norm, rel=1e-6)
    with pytest.raises(ValueError, match="span more than their width"):
        _charged(model, X, y, units, data_norm=1.0)
    with pytest.raises(ValueError, match=r"none for 1 of this fit, the first of them '\(target\)'"):
        _charged(PrivateLinearRegression(), X, y, "data_norm", data_norm=1.0)


@pytest.mark.slow
def test_columns_go_by_their_names_wherever_records_lie(rng):
    da = pytest.importorskip("dask.array")
    X, y = _data(rng)
    model = PrivateLinearRegression(0.5, alpha=0.05)
    expected, _ = _charged(model, X, y, NAMES | {"(target)": 30.0})
    frame = pd.DataFrame(X, columns=["age", "dose", "sex"])
    named = {"age": 8.0, "sex": 1.0, "(columns)": 4.0, "(target)": 30.0}
    assert _charged(model, frame, y, named)[0] == pytest.approx(expected)
    for table in (sparse.csr_array(X), da.from_array(X, chunks=(9, -1))):
        target = y if sparse.issparse(table) else da.from_array(y, chunks=9)
        found, _ = _charged(model, table, target, NAMES | {"(target)": 30.0})
        assert found == pytest.approx(expected)
    with pytest.raises(ValueError, match="none for 2 of this fit, the first of them 'dose'"):
        _charged(model, frame, y, {"age": 8.0, "sex": 1.0})
    # A row without weight takes no part, and may have any value.
    weights = np.append(np.ones(len(y)), 0.0)
    ledger = LeakageLedger(":memory:", units=NAMES | {"(target)": 30.0})
    clone(model).set_params(ledger=ledger).fit(
        np.vstack([X, 1e6 * X[:1]]), np.append(y, 1e6), sample_weight=weights
    )
    charged = ledger.total("default").fisher_information_loss.max()
    assert charged == pytest.approx(expected)


def test_private_sgd_is_charged_no_less_than_in_the_units(rng):
    X, y = _data(rng, "logistic", n=40)
    model = PrivateSGDClassifier(noise_multiplier=2.0, max_steps=3)
    charged, fitted = _charged(model, X, y, NAMES)
    assert charged >= 8.0 * fitted.fisher_information_loss_.max() * (1.0 - 1e-12)
    with pytest.raises(ValueError, match="span more than their width"):
        _charged(model, 2.0 * X, y, NAMES)
    with pytest.raises(ValueError, match="charges the target as well"):
        _charged(model, X, y, NAMES, private_target=False)
