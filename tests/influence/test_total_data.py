"""Total leakage on IWPC: what the reweighting of [FIL21] leaks beyond what it equalizes."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import flat, mostly_slow, total_norms
from sklearn.base import clone

from skleak.influence import candidate_encodings
from skleak.influence.reweighting._total import total_derivative, total_jacobian
from skleak.linear_model import PrivateLinearRegression
from skleak.linear_model._measured import solve_reweighted

pytestmark = pytest.mark.data


def fit(iwpc, reweighting, alpha=1e-2):
    """The whole record balanced on a training split of the paper's size."""
    X, y = iwpc
    rows = np.random.default_rng(0).permutation(len(y))[:3855]
    model = PrivateLinearRegression(
        1.0,
        alpha=alpha,
        fit_intercept=False,
        **flat(reweighting=reweighting, reweighting__tol=1e-11, reweighting__max_iter=60),
    )
    return model.fit(X.iloc[rows], np.asarray(y)[rows])


@pytest.fixture(scope="module")
def whole_record(iwpc):
    return fit(iwpc, "irfil")


@pytest.fixture(scope="module")
def evened(iwpc):
    return fit(iwpc, "total")


def ratios_of(model):
    """The state, its derivative, and the total over the conditional leakage of every record."""
    state = model._confidential_state()
    derivative = total_derivative(state)
    X, y = state.objective.X, state.objective.y
    total = total_norms(state, state.batch(X, y), derivative=derivative)
    return state, derivative, total / model.conditional_fisher_information_loss_


@pytest.fixture(scope="module")
def ratios(whole_record):
    return ratios_of(whole_record)


@pytest.fixture(scope="module")
def evened_ratios(evened):
    return ratios_of(evened)


def test_total_over_conditional(ratios):
    _, derivative, ratio = ratios
    assert derivative.doubts == []
    assert derivative.spread <= 1e-11
    assert np.median(ratio) == pytest.approx(1.046, abs=0.002)
    assert ratio.max() == pytest.approx(3.60, abs=0.05)
    # What a record does to its own weight may also cancel part of what it does by itself.
    assert ratio.min() == pytest.approx(0.655, abs=0.005)
    assert np.mean(ratio > 1.0) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("quantile", [0.0, 0.5, 1.0])
def test_refits_of_the_whole_algorithm_on_real_records(whole_record, ratios, quantile):
    state, derivative, ratio = ratios
    i = int(np.argsort(ratio)[round(quantile * (len(ratio) - 1))])
    old, step = state.objective.reweighted(np.ones(len(ratio))), 3e-4

    def refit(j, h):
        X, y = old.X.copy(), old.y.copy()
        if j < X.shape[1]:
            X[i, j] += h
        else:
            y[i] += h
        moved = replace(old, X=X, y=y)
        result = solve_reweighted(whole_record, moved, state.balanced, whole_record.reweighting)
        return result[0].factor.coefficients

    columns = range(state.n_features + 1)
    expected = np.column_stack([(refit(j, step) - refit(j, -step)) / (2 * step) for j in columns])
    found = total_jacobian(state, np.array([i]), derivative=derivative)[0]
    assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)
    conditional = whole_record.conditional_fisher_information_loss_[i]
    assert np.linalg.norm(expected, 2) / conditional == pytest.approx(ratio[i], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("quantile", mostly_slow([0.0, 0.5, 1.0], 2))
def test_refits_of_the_other_rule_on_real_records(evened, evened_ratios, quantile, rng):
    """In the direction of largest leakage, which is that of the loss, and in another."""
    state, derivative, ratio = evened_ratios
    assert derivative.doubts == []
    i = int(np.argsort(ratio)[round(quantile * (len(ratio) - 1))])
    old = state.objective.reweighted(np.ones(len(ratio)))
    J = total_jacobian(state, np.array([i]), derivative=derivative)[0]

    def refit(change):
        X, y = old.X.copy(), old.y.copy()
        X[i] += change[:-1]
        y[i] += change[-1]
        result = solve_reweighted(
            evened, replace(old, X=X, y=y), state.balanced, evened.reweighting
        )
        return result[0].factor.coefficients

    def slope(direction, step=3e-4):
        return (refit(step * direction) - refit(-step * direction)) / (2.0 * step)

    top, other = np.linalg.svd(J)[2][0], rng.normal(size=J.shape[1]) / np.sqrt(J.shape[1])
    slopes = [slope(direction) for direction in (top, other)]
    for direction, expected in zip((top, other), slopes, strict=True):
        assert np.linalg.norm(J @ direction - expected) <= 1e-4 * np.linalg.norm(expected)
    conditional = evened.conditional_fisher_information_loss_[i]
    assert np.linalg.norm(slopes[0]) / conditional == pytest.approx(ratio[i], rel=1e-4)


def test_the_error_is_a_few_times_the_deviation(whole_record, ratios):
    state, derivative, _ = ratios
    X, y = state.objective.X, state.objective.y
    exact = total_norms(state, state.batch(X, y), derivative=derivative)
    start = state.objective.reweighted(np.ones(len(y)))
    loose = clone(whole_record).set_params(reweighting__tol=1e-4)
    rough = solve_reweighted(loose, start, state.balanced, loose.reweighting)[0]
    deviation = total_derivative(rough).deviation
    error = np.abs(total_norms(rough, rough.batch(X, y)) / exact - 1.0)
    assert 1e-6 < deviation <= 1.5e-3
    assert error.max() <= 10.0 * deviation


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whole_record", "evened"])
def test_encodings_are_refits_of_the_whole_algorithm(name, iwpc, request):
    """A gene of two patients, one of them among those whom it would move most."""
    model = request.getfixturevalue(name)
    state = model._confidential_state()
    X, y = state.objective.X, state.objective.y
    columns = [list(iwpc[0].columns).index(name) for name in ("vkorc1_CT", "vkorc1_TT")]
    values = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    encodings = candidate_encodings(state, X[:40], y[:40], columns, values)
    old = state.objective.reweighted(np.ones(len(y)))
    distances = np.linalg.norm(encodings - state.factor.coefficients, axis=2)
    for i, m in (np.unravel_index(distances.argmax(), distances.shape), (3, 1), (3, 2)):
        moved = X.copy()
        moved[i, columns] = values[m]
        result = solve_reweighted(model, replace(old, X=moved), state.balanced, model.reweighting)
        error = np.linalg.norm(encodings[i, m] - result[0].factor.coefficients)
        assert error <= 1e-6 * distances.max()


@pytest.mark.slow
@pytest.mark.parametrize("alpha, spread, largest", [(1e-2, 0.126, 0.0151), (1e-4, 0.170, 0.455)])
def test_the_other_rule_evens_the_total(iwpc, alpha, spread, largest):
    plain, irfil, total = (
        fit(iwpc, name, alpha).fisher_information_loss() for name in (None, "irfil", "total")
    )
    spreads = [np.std(losses) / np.mean(losses) for losses in (plain, irfil, total)]
    assert spreads[2] == pytest.approx(spread, abs=0.001)
    assert total.max() == pytest.approx(largest, rel=0.01)
    # Both reweightings lower the spread, but the largest loss of [FIL21]'s may grow.
    assert spreads[2] < 0.6 * spreads[1] < 0.6 * spreads[0]
    assert total.max() < min(plain.max(), 0.6 * irfil.max())
    assert (irfil.max() > plain.max()) == (alpha == 1e-4)


def test_weights_are_bounded_where_those_of_irfil_are_not(iwpc):
    irfil, total = (fit(iwpc, name, 1e-4).sample_reweights_ for name in ("irfil", "total"))
    assert irfil.max() > 10.0
    assert 3.0 < total.max() < 4.0
    assert total.sum() == pytest.approx(3855.0)
