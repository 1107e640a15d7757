"""The best of a random number of private fits: one price, and nothing of what did not win."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skleak
import skleak.linear_model.search as module
from skleak._released import ReleasedLinearRegression
from skleak.accounting import LeakageLedger, gaussian_delta
from skleak.exceptions import LeakageBudgetError, NoGuaranteeError, PrivacyLeakWarning
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
    PrivateSearchCV,
)
from skleak.mechanisms import EpsilonDelta, GaussianDP, ObjectivePerturbation, split_goal
from skleak.preprocessing import PrivateScaler, RowNormClipper

GOAL = EpsilonDelta(2.0, 1e-6)
LINEAR = {"data_norm": 1.0, "fit_intercept": False, "public": ("n_samples",)}
LOGISTIC = {**LINEAR, "classes": [0, 1]}
MODELS = {
    "output": (PrivateLogisticRegression(mechanism="output", **LOGISTIC), [0.1, 1.0]),
    "classes": (
        PrivateLogisticRegression(mechanism="output", **{**LOGISTIC, "classes": [0, 1, 2]}),
        [0.1, 1.0],
    ),
    "objective": (PrivateLogisticRegression(mechanism="objective", **LOGISTIC), [0.1, 1.0]),
    "robust": (
        PrivateLinearRegression(mechanism=ObjectivePerturbation(0.1), target_bound=2.0, **LINEAR),
        [1.0, 3.0],
    ),
}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 2))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    return X, (X[:, 0] > 0.0).astype(int)


def _search(name="objective", goal=GOAL, **changed):
    model, alphas = MODELS[name]
    return PrivateSearchCV(model, {"alpha": alphas}, goal, **{"expected_trials": 3.0, **changed})


@pytest.mark.parametrize("name", MODELS)
def test_every_trial_keeps_its_share_and_the_winner_states_the_whole(name, table, monkeypatch):
    shares, trial = [], module.PrivateSearchCV._trial

    def watched(self, setting, mu, train, held, source):
        score, released = trial(self, setting, mu, train, held, source)
        shares.append((released.provenance_["differential_privacy"]["composed_mu"], mu))
        assert (len(train[1]), len(held[1])) == (48, 12)
        return score, released

    monkeypatch.setattr(module.PrivateSearchCV, "_trial", watched)
    search = _search(name)
    cost = search.cost_
    search.fit(*table)
    assert all(0.99 * mu < own <= mu for own, mu in shares)
    released = search.release(require_guarantee=True)
    stated = released.provenance_["differential_privacy"]
    assert 2.0 * (1.0 - 1e-6) < stated["epsilon"] <= 2.0
    assert (stated["delta"], stated["composed_mu"]) == (1e-6, cost["composed_mu"])
    assert stated["mechanism"] == "selection among trials"
    assert search.cost_ == cost == released.provenance_["search"]
    assert search.best_params_["alpha"] in MODELS[name][1]
    again = skleak.from_json(released.to_json())
    np.testing.assert_array_equal(again.predict(table[0]), search.predict(table[0]))
    assert again.profile(2.0) == released.profile(2.0) <= 1e-6
    assert search.score(*table) == released.score(*table)
    assert hasattr(search, "predict_proba") == hasattr(released, "predict_proba")


def test_sums_alone(table):
    X, y = table
    model = PrivateMoments(GOAL, data_norm=1.0, target_bound=1.0)
    search = PrivateSearchCV(model, {"expected_norm": [0.5, 2.0]}, GaussianDP(1.0)).fit(X, y)
    released = search.release(require_guarantee=True)
    assert released.differential_privacy.composed_mu <= 1.0
    assert released.profile(0.5) <= gaussian_delta(1.0, 0.5)
    again = type(released).from_json(released.to_json())
    np.testing.assert_array_equal(again.profile([0.0, 1.0]), released.profile([0.0, 1.0]))
    np.testing.assert_array_equal(search.predict(X), released.regress().predict(X))
    assert search.cost_["epsilon"] < search.release().differential_privacy.epsilon + 1e-9


@pytest.mark.parametrize("wrap", [pd.DataFrame, sparse.csr_array, np.asarray])
def test_kinds_of_tables(wrap, table):
    X, y = table
    X = wrap(X) if wrap is not pd.DataFrame else pd.DataFrame(X, columns=["a", "b"])
    search = _search("output").fit(X, pd.Series(y, index=range(100, 160)))
    assert search.n_features_in_ == 2
    assert hasattr(search, "feature_names_in_") == (wrap is pd.DataFrame)
    assert search.predict(X).shape == (60,)
    assert search.predict_proba(X).shape == (60, 2)
    assert search.decision_function(X).shape == (60,)


@pytest.mark.parametrize("name", ["output", "robust"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_a_column_of_targets_is_no_table_of_pairs(name, table, monkeypatch):
    """Each row counts once, whatever the shape of the targets."""
    counted, count = [], module.PrivateSearchCV._counted

    def watched(self, predicted, y):
        counted.append(count(self, predicted, y))
        return counted[-1]

    monkeypatch.setattr(module.PrivateSearchCV, "_counted", watched)
    X, y = table
    column = {"output": pd.DataFrame({"y": y}), "robust": y[:, None]}[name]
    _search(name, expected_trials=1.01).fit(X, column)
    assert {each.shape for each in counted} == {(12,)}


def test_nothing_of_the_trials_is_kept(table):
    search = _search().fit(*table)
    parameters = search.get_params(deep=False)
    assert {*vars(search)} - {*parameters} == {
        "best_score_",
        "best_params_",
        "best_estimator_",
        "_guarantee",
        "_predictor",
        "n_features_in_",
        "classes_",
    }
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(table[0]), search.predict(table[0]))
    assert not hasattr(clone(search), "best_estimator_")


def test_the_ledger_has_one_row_before_any_trial(table, tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    ledger = LeakageLedger(path, max_epsilon=20.0)
    search = _search(ledger=path, ledger_dataset="clinic").fit(*table)
    total = ledger.total("clinic")
    assert (total.n_releases, total.mu) == (1, search.cost_["composed_mu"])
    assert ledger.history("clinic")["description"][0]["of"] == "PrivateLogisticRegression"

    def trial(*_):
        raise AssertionError("a trial was made")

    monkeypatch.setattr(module.PrivateSearchCV, "_trial", trial)
    with pytest.raises(AssertionError, match="a trial was made"):
        clone(search).fit(*table)
    assert ledger.total("clinic").n_releases == 2  # it counts all the same
    strict = LeakageLedger(":memory:", max_epsilon=0.5)
    for changed in ({}, {"random_state": 0}):
        with pytest.raises(LeakageBudgetError):
            _search(ledger=strict, **changed).fit(*table)
    assert strict.datasets() == []


def test_a_seed_voids_the_guarantee(table):
    search = _search(random_state=3).fit(*table)
    same = _search(random_state=3).fit(*table)
    np.testing.assert_array_equal(search.best_estimator_.coef_, same.best_estimator_.coef_)
    assert search.best_score_ == same.best_score_
    with pytest.raises(NoGuaranteeError, match="drawn again"):
        search.release(require_guarantee=True)
    with pytest.warns(PrivacyLeakWarning, match="came from a seed"):
        released = search.release()
    assert released.provenance_["differential_privacy"] is None
    for call in (lambda: released.profile(1.0), lambda: released.dp_event):
        with pytest.raises(NoGuaranteeError):
            call()


def test_release_of_a_pipeline(table):
    X, y = table
    pipeline = make_pipeline(RowNormClipper(1.0), _search()).fit(3.0 * X, y)
    released = skleak.release(pipeline, require_guarantee=True)
    assert released[-1].provenance_["differential_privacy"]["epsilon"] <= 2.0
    np.testing.assert_array_equal(released.predict(3.0 * X), pipeline.predict(3.0 * X))


def test_preprocessing_in_the_same_budget(table):
    X, y = table
    first, second = split_goal(GOAL, [0.2, 0.8])
    scaler = PrivateScaler(first, bounds=(-1.0, 1.0), public=("n_samples",))
    pipeline = make_pipeline(scaler, RowNormClipper(1.0), _search(goal=second)).fit(X, y)
    stated = skleak.release(pipeline, require_guarantee=True)[-1].provenance_
    parts = scaler.composed_mu_, pipeline[-1].cost_["composed_mu"]
    assert stated["differential_privacy"]["composed_mu"] >= np.hypot(*parts)
    assert stated["differential_privacy"]["epsilon"] <= 2.0


@pytest.mark.parametrize("name", ["output", "robust"])
def test_a_row_adds_at_most_one_to_the_score(name, table, rng):
    search = _search(name)
    predicted = np.array([0.0, 1.0, np.nan, 1e300, -1e300, 0.3])
    for target in (0.0, 1.0, -7.0):
        counted = search._counted(predicted, np.full(6, target))
        assert counted.dtype == np.int64
        assert counted.min() >= 0
        assert counted.max() <= 2**20
    right = search._counted(np.array([1.0, 0.0]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(right, [2**20, 0])


def test_the_best_score_wins_and_ties_are_broken_at_random(table, monkeypatch):
    winners = set()
    for scores in ([1.0, 3.0, 2.0], [1.0, 1.0, 1.0]):
        for seed in range(20):
            left = iter(zip(scores, "abc", strict=True))
            monkeypatch.setattr(module, "draw_trials", lambda *_: 3)
            monkeypatch.setattr(
                module.PrivateSearchCV, "_trial", lambda *_, left=left: _named(*next(left))
            )
            search = _search(random_state=seed).fit(*table)
            winners.add((scores[1], search.best_estimator_.provenance_["name"]))
    assert winners == {(3.0, "b"), (1.0, "a"), (1.0, "b"), (1.0, "c")}


def _named(score, name):
    released = ReleasedLinearRegression()
    released.provenance_ = {"name": name}
    return score, released


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"grid": {"noise_scale": [GOAL]}}, "`noise_scale` must not be in the grid"),
        ({"grid": [{"alpha": [1.0]}, {"random_state": [0]}]}, "`random_state` must not be"),
        (
            {"estimator": clone(MODELS["robust"][0]).set_params(random_state=0)},
            "`random_state` of the",
        ),
        ({"estimator": PrivateLogisticRegression(ledger="x")}, "`ledger` of the estimator"),
        ({"estimator": PrivateLinearRegression(mechanism="output")}, "`largest_error` must be"),
        ({"estimator": PrivateLogisticRegression()}, "`data_norm` must be promised"),
        ({"validation": 0.001}, "leaves no rows"),
        ({"expected_trials": 0.5}, "`expected_trials`"),
        ({"eta": -0.5}, "`eta`"),
        ({"goal": EpsilonDelta(-1.0, 1e-6)}, "`EpsilonDelta.epsilon` must"),
        ({"goal": EpsilonDelta(1.0, 0.0)}, "`EpsilonDelta.delta` must"),
        ({"goal": 1.0}, "'goal' parameter"),
    ],
)
def test_bad_parameters(changed, message, table):
    search = clone(_search()).set_params(**changed)
    with pytest.raises(ValueError, match=message):
        search.fit(*table)
    assert not hasattr(search, "best_estimator_")


def test_other_estimators_are_refused(table):
    neural = pytest.importorskip("skleak.neural")
    for model in (PrivatePoissonRegressor(), neural.PrivateSGDClassifier()):
        with pytest.raises(TypeError, match="`estimator` must be a PrivateLogisticRegression"):
            PrivateSearchCV(model, {"alpha": [1.0]}, GOAL).fit(*table)


@pytest.mark.slow
def test_whoever_sees_winners_of_neighboring_tables_stays_below(rng):
    """The tables differ in a row of two, and settings in how much of it they show."""
    one = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), np.array([1, 1, 1, 0])
    two = np.array([[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), np.array([1, 1, 1, 0])
    goal, n = EpsilonDelta(0.5, 0.2), 400
    seen = []
    for X, y in (one, two):
        draws = [_search("objective", goal, validation=0.5).fit(X, y) for _ in range(n)]
        seen.append([(d.best_estimator_.coef_[0, 0], d.best_score_) for d in draws])
    one, two = (np.array(each) for each in seen)
    bound, error = float(_search("objective", goal)._noise.profile(0.5)), 4.0 / np.sqrt(n)
    for direction in ([1.0, 0.0], [0.0, 1.0], [1.0, 0.3]):
        for a, b in ((one, two), (two, one)):
            cuts = np.quantile(a @ direction, np.linspace(0.05, 0.95, 19))
            for sign in (1.0, -1.0):
                power = np.mean(sign * (a @ direction)[:, None] > sign * cuts, axis=0)
                alarms = np.mean(sign * (b @ direction)[:, None] > sign * cuts, axis=0)
                assert np.all(power - np.exp(0.5) * alarms <= bound + error)


def test_a_simulated_adversary_stays_below_the_stated_profile(rng):
    """Who sees the winning score of 21.5 trials on average, each with a mu of (1, 1e-6)."""
    noise = _search(goal=EpsilonDelta(1.6, 1e-6), expected_trials=21.5)._noise
    assert noise.trial_mu > 0.2367  # the mu of (1, 1e-6)
    n = 40_000
    trials = [module.draw_trials(noise.eta, noise.gamma, rng) for _ in range(2 * n)]
    # The best of k normal scores, by its distribution function.
    best = ndtri(rng.random(2 * n) ** (1.0 / np.array(trials)))
    one, two = best[:n] + noise.trial_mu, best[n:]
    cuts = np.linspace(0.0, 4.0, 30)
    for epsilon in (0.1, 0.3, 0.6):
        power = np.mean(one[:, None] > cuts, axis=0)
        alarms = np.mean(two[:, None] > cuts, axis=0)
        bound = float(noise.profile(epsilon))
        assert np.all(power - np.exp(epsilon) * alarms <= bound + 4.0 / np.sqrt(n))
