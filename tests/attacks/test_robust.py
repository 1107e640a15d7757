"""Robust membership inference: the formulas by brute force, and what few reference models find."""

import numpy as np
import pytest
from helpers import mostly_slow
from joblib import parallel_config
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from skleak.adversary.shadow import dominated_shares, interpolation_of, usual_likelihoods
from skleak.attacks import LikelihoodRatioMembership, RobustMembershipInference
from skleak.exceptions import AttackNotApplicableError


def table(rng, n=120, d=4):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + rng.normal(size=n) > 0.0).astype(int)


def robust(model, n=4, **options):
    return RobustMembershipInference(model, n_shadow_models=n, **{"random_state": 0} | options)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 1.5, 2.0])
def test_scores_of_classifiers_by_brute_force(gamma, reference, rng):
    X, y = table(rng)
    labels = np.array(["no", "yes"])[y]
    model = LogisticRegression(C=100.0).fit(X[:30], labels[:30])
    others = (X[80:], labels[80:]) if reference else ()
    records = [5, 70, 3]
    attack = robust(LogisticRegression(C=100.0), gamma=gamma, records=records)
    attack.fit(X[:80], labels[:80], *others)
    asked = np.r_[records, np.arange(80, 120) if reference else np.arange(80)]
    right = model.predict_proba(X)[np.arange(120), y][asked]
    # Each record is in half of the models, so that the mean over all is that in equal parts.
    usual = expit(attack._shadows[0]).mean(axis=0)
    np.testing.assert_allclose(attack.usual_likelihoods_, usual[:3])
    found = attack.decision_function(model)
    for k in range(3):
        own = right[k] / usual[k]
        dominated = [own / (right[z] / usual[z]) >= gamma for z in range(3, len(asked))]
        assert found[k] == pytest.approx(np.mean(dominated), abs=2e-9)
    assert attack.n_population_ == len(asked) - 3
    assert np.all((found >= 0.0) & (found <= 1.0))
    both = attack.decision_function([model, model])
    np.testing.assert_array_equal(both, [found, found])


@pytest.mark.parametrize("offline", [False, True])
def test_likelihoods_of_regressors_are_those_of_residuals(offline, rng):
    X = rng.normal(size=(90, 3))
    y = X @ [1.0, 2.0, 0.5] + rng.normal(size=90)
    model = Ridge().fit(X[:25], y[:25])
    method = "offline" if offline else "online"
    attack = robust(Ridge(), method=method, interpolation=0.3, gamma=2.0)
    attack.fit(X[:50], y[:50], X[50:], y[50:])
    scores, inside = attack._shadows
    assert inside[:, :50].any() != offline
    scale = np.sqrt(np.mean(scores[~inside] ** 2))
    p = np.exp(-0.5 * (scores / scale) ** 2)
    out, within = (
        np.array([p[side[:, i], i].mean() if side[:, i].any() else np.nan for i in range(90)])
        for side in (~inside, inside)
    )
    within = np.where(np.isnan(within), 0.3 * out + 0.7, within)
    own = np.exp(-0.5 * ((y - model.predict(X)) / scale) ** 2) / (0.5 * (out + within))
    expected = (own[:50, None] >= 2.0 * own[None, 50:]).mean(axis=1)
    np.testing.assert_allclose(attack.decision_function(model), expected, atol=2e-9)


def test_the_mean_without_members_is_interpolated():
    likelihood = np.array([[0.2, 0.5, 0.9], [0.4, 0.7, 0.9], [0.6, 0.9, 0.9], [0.8, 0.9, 0.9]])
    inside = np.arange(4)[:, None] >= np.array([4, 2, 0])
    for a in (0.0, 0.4, 1.0):
        found = usual_likelihoods(likelihood, inside, a)
        np.testing.assert_allclose(found, [0.5 * ((1 + a) * 0.5 + 1 - a), 0.75, 0.9])


def test_the_interpolation_is_that_of_the_reference_records(rng):
    out, a = rng.random(200), 0.35
    within = 1.0 - a * (1.0 - out)
    inside = np.array([[False], [True]]) & np.ones(200, dtype=bool)
    assert interpolation_of(np.stack([out, within]), inside) == pytest.approx(a)
    assert interpolation_of(np.stack([within, out]), inside) == 1.0
    assert interpolation_of(np.stack([out, out]), ~inside & inside) == 1.0
    # The model under attack plays no part, be it what it may.
    X, y = table(rng, 100)
    attack = robust(RandomForestClassifier(20), method="offline").fit(
        X[:40], y[:40], X[40:], y[40:]
    )
    before = attack.interpolation_
    assert 0.0 < before < 1.0
    attack.decision_function(RandomForestClassifier(5).fit(X[:20], y[:20]))
    assert attack.interpolation_ == before
    given = clone(attack).set_params(interpolation=0.25)
    assert given.fit(X[:40], y[:40], X[40:], y[40:]).interpolation_ == 0.25


def test_dominated_shares_and_their_ties():
    population = np.array([0.5, 1.0, 1.0, 4.0])
    ratios = np.array([0.0, 0.9, 1.0, 2.0, 7.9, 8.0, 1e300])
    found = dominated_shares(ratios, population, 2.0)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.25, 0.75, 0.75, 1.0, 1.0], atol=2e-9)
    assert np.all(np.diff(found) > 0.0)
    assert found.min() >= 0.0
    assert found.max() <= 1.0


@pytest.mark.parametrize("prior", mostly_slow([0.1, 0.5], 0))
def test_guesses_are_calibrated_on_the_population(prior, rng):
    """Of candidates like the population, none of whom is a member, at most that share is called."""
    called = []
    for seed in range(8):
        X, y = table(rng, 240)
        model = RandomForestClassifier(15, random_state=seed).fit(X[200:], y[200:])
        attack = robust(RandomForestClassifier(15), 2, prior=prior, random_state=seed)
        called.append(attack.fit(X[:100], y[:100], X[100:200], y[100:200]).predict(model).mean())
    # 800 candidates, and 100 records of the population each.
    assert np.mean(called) < prior + 5 * np.sqrt(prior * (1 - prior) * (1 / 800 + 1 / 800))
    assert np.mean(called) > 0.3 * prior


@pytest.mark.parametrize("method", mostly_slow(["online", "offline"], 1))
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_two_models_tell_members_of_a_forest(task, method, rng):
    X, y = table(rng, 200)
    forest = RandomForestClassifier(20)
    if task == "numbers":
        y, forest = X[:, 0] + rng.normal(size=200), RandomForestRegressor(20)
    member = rng.random((6, 100)) < 0.5
    parts = [np.flatnonzero(m) for m in member]
    models = [clone(forest).set_params(random_state=k).fit(X[m], y[m]) for k, m in enumerate(parts)]
    attack = robust(forest, 2, method=method).fit(X[:100], y[:100], X[100:], y[100:])
    scores = attack.decision_function(models)
    # Of 600 guesses, 300 of them members: both errors are below 0.03 where nothing leaks.
    assert roc_auc_score(member.ravel(), scores.ravel()) > 0.65
    assert attack.score(models, member) > 0.6


def test_models_that_do_not_leak_give_nothing_away(rng):
    X, y = table(rng, 160)
    model = LinearRegression().fit(X[80:], y[80:])
    attack = robust(LinearRegression(), 2).fit(X[:80], y[:80])
    found = attack.decision_function([model])
    assert np.isfinite(found).all()
    zero = DecisionTreeRegressor().fit(X, np.zeros(160))
    attack = robust(DecisionTreeRegressor(), 2).fit(X, np.zeros(160))
    # All are equal: each dominates all others, and none stands out.
    np.testing.assert_allclose(attack.decision_function(zero), 1.0, atol=1e-8)
    assert np.ptp(attack.decision_function(zero)) == 0.0


def test_weights_jobs_and_labels(rng):
    X, y = table(rng, 60)
    model = LogisticRegression()
    weights = rng.integers(1, 4, size=60)
    fitted = clone(model).fit(X[:30], y[:30])
    one = robust(model, 2).fit(X, y).decision_function(fitted)
    other = robust(model, 2).fit(X, y, sample_weight=weights).decision_function(fitted)
    assert np.any(one != other)
    with parallel_config("threading"):
        again = robust(model, 2, n_jobs=2).fit(X, y).decision_function(fitted)
    np.testing.assert_array_equal(one, again)
    with pytest.raises(AttackNotApplicableError, match="without `predict_proba`"):
        robust(LinearSVC(), 2).fit(X, y)


def test_errors(rng):
    X, y = table(rng, 30)
    model = LogisticRegression()
    for options, message in [
        ({"n": 1}, "'n_shadow_models' parameter"),
        ({"gamma": 0.5}, "'gamma' parameter"),
        ({"interpolation": 1.5}, "'interpolation' parameter"),
        ({"method": "offline"}, "trained on reference records alone"),
        ({"prior": 0.01}, "at least 99 reference records"),
    ]:
        with pytest.raises(ValueError, match=message):
            robust(model, **options).fit(X, y)


@pytest.mark.slow
def test_two_models_do_what_laws_of_their_own_do_with_sixty_four(rng):
    """Of a forest, at one false alarm in a thousand, of some 8,000 non-members."""
    X = rng.normal(size=(800, 8))
    y = (X[:, 0] + rng.normal(size=800) > 0.0).astype(int)
    forest = RandomForestClassifier(40)
    member = rng.random((20, 800)) < 0.5
    models = [
        clone(forest).set_params(random_state=k).fit(X[m], y[m]) for k, m in enumerate(member)
    ]
    rates = []
    for attack in (
        robust(forest, 2),
        LikelihoodRatioMembership(forest, shrinkage=False, n_shadow_models=64, random_state=0),
        LikelihoodRatioMembership(forest, shrinkage=False, n_shadow_models=8, random_state=0),
    ):
        rates.append(attack.fit(X, y).true_positive_rate(models, member, 0.001))
    assert rates[0] > 0.8 * rates[1]
    assert rates[0] > 2.0 * rates[2]


@pytest.mark.slow
def test_models_compare_better_where_a_ratio_need_not_be_twice_another(rng):
    """Two reference models of forests on digits, and several models under attack, pooled."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    member = rng.random((6, 300)) < 0.5
    forest = RandomForestClassifier(30, random_state=0)
    models = [clone(forest).fit(X[row], y[row]) for row in member]
    usual, strict = (
        roc_auc_score(
            member.ravel(), robust(forest, 2, **options).fit(X, y).decision_function(models).ravel()
        )
        for options in ({}, {"gamma": 2.0})
    )
    # Areas of 900 members and others each are known to 0.01 or better.
    assert usual > strict + 0.01
