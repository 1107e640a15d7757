"""Attacks on refits: values with which no minimizer is reached must never look harmless."""

from functools import partial

import numpy as np
import pytest
from helpers import mostly_slow

from skleak.attacks import WhiteBoxAttributeInference
from skleak.exceptions import AttackNotApplicableError, NoMinimizerWarning
from skleak.influence import candidate_encodings
from skleak.influence.refit import _chord, distance_brackets, target_encodings
from skleak.influence.refit._candidates import encoded
from skleak.influence.refit._changes import Change, changed_columns
from skleak.influence.removal import secret_distances
from skleak.inspection import attribute_leakage
from skleak.linear_model import PrivateLogisticRegression, PrivatePoissonRegressor
from skleak.mechanisms import MaxAdvantage
from skleak.solvers import minimize

X = np.repeat([-1.0, 1.0], 10)[:, None]
Y = (X[:, 0] > 0.0).astype(int)
Y[[0, 10]] = 1, 0  # with the other value of either, one column value has one class only
VALUES = np.array([[-1.0], [1.0]])
NO_PENALTY = partial(PrivateLogisticRegression, alpha=0.0, random_state=0)
unheard = pytest.mark.filterwarnings("ignore::skleak.exceptions.NoMinimizerWarning")


@pytest.fixture(scope="module")
def model():
    return NO_PENALTY(0.1).fit(X, Y)


def test_encodings_without_a_minimizer_are_not_a_number(model):
    state = model._confidential_state()
    objective = state.objective.with_record(0, np.array([1.0]))
    stopped = minimize(objective)
    assert not stopped.converged
    assert np.all(np.isfinite(stopped.coefficients))  # where a search stops is no answer
    with pytest.warns(NoMinimizerWarning, match="^2 of 20 records"):
        found = candidate_encodings(state, X, Y, 0, [-1.0, 1.0])
    lost = np.isnan(found).any(axis=2)
    assert np.argwhere(lost).tolist() == [[0, 1], [10, 0]]
    assert not np.isnan(found[~lost]).any()
    with pytest.warns(NoMinimizerWarning, match="^2 of 20 records"):
        targets = target_encodings(state, np.arange(20), np.array([0.0, 1.0]))
    assert np.argwhere(np.isnan(targets).any(axis=2)).tolist() == [[0, 0], [10, 1]]


@unheard
def test_distances_without_a_minimizer_are_infinite(model):
    state, rows = model._confidential_state(), np.arange(20)
    lost = np.isin(rows, (0, 10))
    for columns, values in ((np.array([0]), VALUES), (None, np.array([[0.0], [1.0]]))):
        np.testing.assert_array_equal(np.isinf(secret_distances(state, columns, values)), lost)
    report = model.leakage_report()
    assert np.all(report.features["distance"] == np.inf)
    assert all("nothing bounds" in note for note in report.features["note"])
    cells = attribute_leakage(model, X, Y, "x0" if hasattr(model, "feature_names_in_") else 0)
    np.testing.assert_array_equal(np.isinf(cells["distance"]), lost)


@unheard
def test_bounds_without_a_minimizer_are_infinite(model):
    state, rows = model._confidential_state(), np.arange(20)
    attribute = np.array([0]), VALUES
    low, high = distance_brackets(state, rows, attribute, attribute, np.ones(20))
    own = np.column_stack([X[:, 0] < 0.0, X[:, 0] > 0.0])
    assert np.all(low <= high)
    assert np.all(high[[0, 10]][~own[[0, 10]]] == np.inf)


@unheard
def test_what_needs_the_encodings_is_withheld(model):
    with pytest.raises(ValueError, match="cannot be found: for 2 of 20 records"):
        NO_PENALTY(MaxAdvantage(0.5, attribute=0, prior="worst")).fit(X, Y)
    for attribute in (0, "(target)"):
        with pytest.raises(AttackNotApplicableError, match="for 2 of 20 records"):
            WhiteBoxAttributeInference(model, attribute).fit(X, Y)


@unheard
@pytest.mark.parametrize("few", [1, 3])
def test_a_search_that_is_cut_short_gives_no_number(few, rng, monkeypatch):
    """Whatever stops the search: where it stopped is nearer than the minimizer."""
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + rng.logistic(size=60) > 0).astype(int)
    fitted = PrivateLogisticRegression(0.1, alpha=1e-4, random_state=0).fit(X, y)
    monkeypatch.setattr(_chord, "minimize", partial(minimize, max_iter=few))
    monkeypatch.setattr(_chord, "_MOST_CORRECTIONS", few)
    monkeypatch.setattr(
        Change, "newton_steps", lambda self, which: np.full((len(which), 3), np.nan)
    )
    found = candidate_encodings(fitted, X, y, 0, [1e3])
    assert np.isnan(found).any()
    near = candidate_encodings(fitted, X[:5], y[:5], 0, [X[0, 0]])
    assert not np.isnan(near[0]).any()


@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
@pytest.mark.parametrize(
    "estimator", mostly_slow([PrivateLogisticRegression, PrivatePoissonRegressor], 1)
)
def test_many_at_once_are_minimized_like_each_alone(estimator, fit_intercept, rng):
    """Also with columns far from zero and of very different units, and records of a weight."""
    X = rng.normal(size=(50, 3)) * [1e-3, 1.0, 1e3] + [0.0, 30.0, 0.0]
    predictor = X @ [1e3, 0.1, 1e-3] - 3.0
    y = (predictor + rng.logistic(size=50) > 0.0).astype(int)
    weight = rng.integers(1, 4, 50).astype(float)
    model = estimator(0.1, alpha=1e-8, fit_intercept=fit_intercept, random_state=0)
    state = model.fit(X, y, sample_weight=weight)._confidential_state()
    rows, far = np.arange(50), X.mean(axis=0) + np.outer([-3.0, 3.0, 8.0], X.std(axis=0))
    objective, labels = state.objective, np.array([[0.0], [1.0]])
    for change in (
        Change.of(state, objective.X, objective.y, rows, np.arange(3), far),
        Change.of(state, objective.X, objective.y, rows, *changed_columns(None, labels)),
    ):
        everything = np.flatnonzero(change.moves)
        found = change.newton_steps(everything)
        known = ~np.isnan(found).any(axis=1)
        assert known.mean() > 0.9
        alone = np.stack([change._refit_one(k) for k in everything[known]])
        scale = np.abs(state.factor.coefficients) + np.abs(alone)
        assert np.all(np.abs(found[known] - alone) <= 1e-9 * scale)
        np.testing.assert_allclose(
            encoded(change)[everything[known]] - state.factor.coefficients,
            alone,
            rtol=1e-7,
            atol=1e-9 * scale.max(),
        )
