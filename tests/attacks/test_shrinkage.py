"""Laws of records shrunk over records: the weights of the Bayes rule, and what they gain."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm, t
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from skleak.adversary.shadow import (
    Pooling,
    ShadowScores,
    shrink_means,
    shrink_variances,
    soften,
)
from skleak.attacks import LikelihoodRatioMembership

# What means of records are drawn from: without the record and with it.
CENTER = np.array([1.0, 3.0])
PRIOR = np.array([[1.0, 0.6], [0.6, 0.5]])


def halves(rng, n_models, n_targets):
    return rng.permuted(np.arange(n_models)[:, None] % 2 * np.ones(n_targets), axis=0) > 0


def drawn(rng, n_models, n_targets, spread=1.0):
    """Scores, who was trained on, and the true means (n_targets, 2)."""
    means = rng.multivariate_normal(CENTER, PRIOR, size=n_targets)
    trained_on = halves(rng, n_models, n_targets)
    own = np.where(trained_on, means[:, 1], means[:, 0])
    return own + spread * rng.normal(size=trained_on.shape), trained_on, means


@pytest.mark.parametrize("n_models", [4, 12])
def test_weights_are_those_of_the_bayes_rule(n_models, rng):
    """By conditioning the joint normal law of true and observed means, whose prior is known."""
    n = 20_000
    means = rng.multivariate_normal(CENTER, PRIOR, size=n)
    counts = np.full((n, 2), n_models / 2.0)
    counts[: n // 4, 1] = 1.0
    counts[: n // 8, 1] = 0.0
    variances = rng.choice([0.5, 2.0], size=(n, 2))
    seen = counts > 0.0
    observed = means + rng.normal(size=(n, 2)) * np.sqrt(variances / np.maximum(counts, 1.0))
    found, error = shrink_means(np.where(seen, observed, 7.0), counts, variances)
    for i in (0, n // 5, n // 3, n - 1):
        own = np.flatnonzero(seen[i])
        sampling = np.diag(variances[i, own] / counts[i, own])
        weights = PRIOR[:, own] @ np.linalg.inv(PRIOR[np.ix_(own, own)] + sampling)
        expected = CENTER + weights @ (observed[i, own] - CENTER[own])
        # The prior is known from 15,000 pairs.
        np.testing.assert_allclose(found[i], expected, atol=0.1)
        left = np.diag(PRIOR - weights @ PRIOR[own])
        np.testing.assert_allclose(error[i], left, atol=0.05)
    # The rule that minimizes the error, and knows how large it is.
    assert np.isclose(np.mean((found - means) ** 2), error.mean(), rtol=0.05)
    own = np.mean((observed - means)[seen[:, 1]] ** 2)
    assert np.mean((found - means)[seen[:, 1]] ** 2) < 0.9 * own


def test_variances_are_those_of_the_bayes_rule(rng):
    """Inverse gamma variances of 12 degrees of freedom around 2, seen through five."""
    n, d, mean, freedom = 100_000, 12.0, 2.0, 5.0
    true = (d - 2.0) * mean / rng.chisquare(d, size=n)
    squares = true * rng.chisquare(freedom, size=n)
    scale, nu = shrink_variances(squares, np.full(n, freedom))
    assert np.allclose(nu, freedom + d, rtol=0.15)
    expected = (squares + (d - 2.0) * mean) / (freedom + d)
    np.testing.assert_allclose(scale, expected, rtol=0.1)
    # The law of a further deviation is Student's.
    z = rng.normal(size=n) * np.sqrt(true / scale)
    for level in (0.05, 0.5, 0.999):
        share = np.mean(z < t.ppf(level, nu))
        assert abs(share - level) < 5 * np.sqrt(level * (1 - level) / n) + 0.002


def test_equal_variances_are_pooled_and_others_are_not(rng):
    squares = rng.chisquare(3.0, size=5000)
    scale, nu = shrink_variances(squares, np.full(5000, 3.0))
    np.testing.assert_allclose(scale, 1.0, atol=0.15)
    assert nu.min() > 30.0
    far = squares * np.exp(6.0 * rng.normal(size=5000))
    scale, nu = shrink_variances(far, np.full(5000, 3.0))
    assert nu.max() < 8.0
    # Of one or two records nothing is known but their own.
    scale, nu = shrink_variances(np.array([2.0, 8.0]), np.array([2.0, 4.0]))
    np.testing.assert_allclose(scale, [1.0, 2.0])
    np.testing.assert_allclose(nu, [2.0, 4.0])


def test_with_many_models_each_record_has_its_own_law(rng):
    scores, trained_on, _ = drawn(rng, 4000, 30)
    own = ShadowScores(scores, trained_on, "per_record").laws()
    for shared in (True, False):
        shrunk = ShadowScores(scores, trained_on, pooling=Pooling(shared)).laws()
        np.testing.assert_allclose(shrunk.means, own.means, atol=0.01)
        np.testing.assert_allclose(shrunk.scales, own.scales, rtol=0.06)


def test_few_records_keep_their_means(rng):
    for n in (1, 2):
        scores, trained_on, _ = drawn(rng, 10, n)
        own = ShadowScores(scores, trained_on, "per_record").laws()
        shrunk = ShadowScores(scores, trained_on, pooling=Pooling(shared=False)).laws()
        np.testing.assert_allclose(shrunk.means, own.means, rtol=1e-9)
        # A prediction errs by what the mean errs by, too.
        np.testing.assert_allclose(shrunk.scales, own.scales * np.sqrt(1.2), rtol=1e-9)


@pytest.mark.parametrize("n_models", [4, 8, 64])
def test_scores_by_the_law_are_told_apart_nearly_as_well_as_they_can_be(n_models, rng):
    """Whoever knows the prior and the spread, but not the means, does best."""
    scores, trained_on, means = drawn(rng, n_models, 2000)
    member = rng.random((10, 2000)) < 0.5
    new = np.where(member, means[:, 1], means[:, 0]) + rng.normal(size=member.shape)
    counts = np.full((2000, 2), n_models / 2.0)
    observed = np.stack(
        [np.where(side, scores, 0.0).sum(0) / (n_models / 2) for side in (~trained_on, trained_on)],
        axis=-1,
    )
    weights = PRIOR @ np.linalg.inv(PRIOR + np.eye(2) / counts[0, 0])
    middle = CENTER + (observed - CENTER) @ weights.T
    scale = np.sqrt(1.0 + np.diag(PRIOR - weights @ PRIOR))
    logs = norm.logpdf(new[..., None], middle, scale)
    best = roc_auc_score(member.ravel(), (logs[..., 1] - logs[..., 0]).ravel())
    pooling = ShadowScores(scores, trained_on).choose_pooling(np.arange(n_models)[:, None])
    laws = ShadowScores(scores, trained_on, pooling=pooling).laws()
    found = roc_auc_score(member.ravel(), laws.log_ratio(new).ravel())
    assert found > best - 0.004
    if n_models < 10:
        own = ShadowScores(scores, trained_on, "auto").laws().log_ratio(new)
        assert found > roc_auc_score(member.ravel(), own.ravel()) + 0.01


def test_softened_odds():
    p = np.array([0.0, 0.2, 0.5, 1.0])
    with np.errstate(divide="ignore"):
        odds = logit(p)
    np.testing.assert_allclose(soften(odds, np.inf, 0.1), np.log((p + 0.1) / (1.1 - p)), atol=1e-12)
    np.testing.assert_array_equal(soften(odds, 3.0, 0.0), np.clip(odds, -3.0, 3.0))
    tiny = soften(np.array([-800.0, 800.0]), np.inf, 0.03)
    np.testing.assert_allclose(tiny, [np.log(0.03 / 1.03), np.log(1.03 / 0.03)])


def test_what_is_shared_is_what_makes_held_out_memberships_likely(rng):
    trained_on = halves(rng, 20, 300)
    logits = 3.0 * rng.normal(size=300)
    # Answers of a forest, by votes: odds have no spread of their own near 0 and 1.
    votes = rng.binomial(30, expit(logits + 1.0 * trained_on), size=trained_on.shape) / 30
    with np.errstate(divide="ignore"):
        scores = logit(votes)
    limit = np.abs(scores[np.isfinite(scores)]).max() + np.log(2.0)
    groups = np.arange(20).reshape(10, 2)
    chosen = ShadowScores(scores, trained_on, limit=limit).choose_pooling(groups)
    assert chosen.softness > 0.0
    wide = rng.normal(size=300) + np.where(trained_on, 4.0, 0.2) * rng.normal(size=(20, 300))
    assert ShadowScores(wide, trained_on).choose_pooling(groups) == Pooling(shared=False)
    narrow = rng.normal(size=300) + trained_on + rng.normal(size=(20, 300))
    assert ShadowScores(narrow, trained_on).choose_pooling(groups).shared


@pytest.mark.parametrize("residuals", [False, True])
def test_scores_without_spread_are_no_trouble(residuals, rng):
    trained_on = halves(rng, 8, 6)
    tables = [np.zeros((8, 6)), np.tile(rng.normal(size=6), (8, 1))]
    tables += [np.where(trained_on, 0.0, 1.0), 1e200 * rng.normal(size=(8, 6))]
    tables.append(np.where(np.arange(6) == 2, rng.normal(size=(8, 6)), 1.0))
    for scores in tables:
        groups = np.arange(8).reshape(4, 2)
        known = ShadowScores(scores, trained_on, residuals=residuals)
        evidence = replace(known, pooling=known.choose_pooling(groups)).evidence(groups)
        found = evidence.log_ratio(scores)
        assert np.isfinite(found).all()
        if np.all(scores == scores[0]):
            np.testing.assert_array_equal(found, 0.0)
        if np.ptp(scores) == 1.0:
            assert np.array_equal(found > 0.0, trained_on)


def rates(scores, member, levels=(0.001, 0.01)):
    """True positives at some false positive rates."""
    outside = np.sort(scores[~member])[::-1]
    return [np.mean(scores[member] > outside[int(level * len(outside))]) for level in levels]


def noisy_table(rng, n=600):
    X = rng.normal(size=(n, 8))
    return X, (X[:, 0] + rng.normal(size=n) > 0.0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("n_models", [6, 16])
def test_shrunk_means_find_many_times_as_many_members_of_a_forest(n_models, rng):
    """At one false alarm in a thousand, of some 6,000 non-members."""
    X, y = noisy_table(rng)
    forest = RandomForestClassifier(40)
    member = rng.random((20, len(y))) < 0.5
    models = [
        RandomForestClassifier(40, random_state=k).fit(X[m], y[m]) for k, m in enumerate(member)
    ]
    found = {}
    for shrinkage in (False, True):
        attack = LikelihoodRatioMembership(
            forest, n_shadow_models=n_models, shrinkage=shrinkage, random_state=0
        )
        odds = attack.fit(X, y).decision_function(models)
        found[shrinkage] = rates(odds, member)
    assert found[True][0] > 2.0 * found[False][0] + 0.03
    assert found[True][1] > found[False][1] + 0.03


@pytest.mark.parametrize("n_models", [4, 16])
def test_models_that_answer_alike_tell_nothing(n_models, rng):
    """Each record has its own score, whoever was trained on it."""
    X, y = noisy_table(rng, 40)
    constant = DummyClassifier(strategy="constant", constant=1)
    attack = LikelihoodRatioMembership(constant, n_shadow_models=n_models, random_state=0)
    found = attack.fit(X, y).decision_function(constant.fit(X, y))
    np.testing.assert_array_equal(found, 0.0)
    offline = attack.set_params(method="offline").fit(X, y, *noisy_table(rng, 40))
    found = offline.decision_function(constant)
    np.testing.assert_array_equal(found, found[0])
