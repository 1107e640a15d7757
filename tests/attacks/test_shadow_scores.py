"""Scores under shadow models and the Gaussian laws fitted to them, against scipy."""

import numpy as np
import pytest
from helpers import Fixed, numbered
from scipy.stats import foldnorm, norm
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skleak.adversary.membership import record_scores, score_limit
from skleak.adversary.shadow import ShadowScores
from skleak.exceptions import AttackNotApplicableError


def test_log_odds_by_hand(rng):
    p = rng.dirichlet(np.ones(3), size=40)
    codes = rng.integers(0, 3, 40)
    own = p[np.arange(40), codes]
    y = np.array(["a", "b", "c"])[codes]
    scores = record_scores(Fixed(p, ["a", "b", "c"]), numbered(40), y, None)
    np.testing.assert_allclose(scores, np.log(own / (1.0 - own)), rtol=1e-12)


def test_log_odds_near_certainty_keep_their_digits():
    p = [[1.0, 1e-20], [1.0, 1e-300], [1e-20, 1.0], [1.0, 0.0], [0.0, 1.0]]
    scores = record_scores(Fixed(p, ["a", "b"]), numbered(5), np.array(["a"] * 5), None)
    np.testing.assert_allclose(scores[:3], [20 * np.log(10), 300 * np.log(10), -20 * np.log(10)])
    assert scores[3] == np.inf
    assert scores[4] == -np.inf


def test_log_odds_of_logistic_regression_are_its_predictor():
    X, y = make_classification(60, random_state=0)
    model = LogisticRegression().fit(X, y)
    expected = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    np.testing.assert_allclose(record_scores(model, X, y, None), expected, rtol=1e-9)


def test_unseen_labels_have_probability_zero():
    model = Fixed([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]], ["a", "b"])
    mixed = record_scores(model, numbered(3), np.array(["z", "a", "b"]), None)
    assert mixed[0] == -np.inf
    assert mixed[1] == pytest.approx(np.log(0.25))
    none_known = np.array(["z", "y"])
    assert np.all(record_scores(model, numbered(2), none_known, None, strict=False) == -np.inf)
    with pytest.raises(ValueError, match="knows none of the labels"):
        record_scores(model, numbered(2), none_known, None)


def test_residuals_keep_their_sign(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    model = LinearRegression().fit(X, y)
    np.testing.assert_allclose(record_scores(model, X, y, None), y - model.predict(X))


def test_scores_by_function(rng):
    X, y = make_classification(60, random_state=0)
    svm = LinearSVC().fit(X, y)
    with pytest.raises(AttackNotApplicableError, match="without `predict_proba`"):
        record_scores(svm, X, y, None)

    def margin(model, X, y):
        return (2 * y - 1) * model.decision_function(X)

    np.testing.assert_allclose(record_scores(svm, X, y, margin), margin(svm, X, y))
    for wrong in (lambda m, X, y: np.ones(3), lambda m, X, y: np.full(60, np.inf)):
        with pytest.raises(ValueError, match="a finite number, for each of the 60"):
            record_scores(svm, X, y, wrong)


def drawn(rng, n_models=80, n_targets=30):
    """Scores that are Gaussian given the record, and membership in exactly half of the models."""
    trained_on = rng.permuted(np.arange(n_models)[:, None] % 2 * np.ones(n_targets), axis=0) > 0
    means = rng.normal(size=(n_targets, 2)) + np.array([0.0, 1.5])
    scales = rng.uniform(0.5, 2.0, size=(n_targets, 2))
    pick = trained_on.astype(int)
    rows = np.arange(n_targets)
    scores = means[rows, pick] + scales[rows, pick] * rng.normal(size=(n_models, n_targets))
    return scores, trained_on


def test_the_ratio_is_that_of_fitted_densities(rng):
    scores, trained_on = drawn(rng)
    laws = ShadowScores(scores, trained_on, "per_record").laws()
    new = 2.0 * rng.normal(size=(5, 30))
    ratio = laws.log_ratio(new)
    for i in range(30):
        left, own = scores[~trained_on[:, i], i], scores[trained_on[:, i], i]
        expected = norm.logpdf(new[:, i], own.mean(), own.std(ddof=1)) - norm.logpdf(
            new[:, i], left.mean(), left.std(ddof=1)
        )
        np.testing.assert_allclose(ratio[:, i], expected, rtol=1e-9, atol=1e-9)


def test_the_global_variance_is_pooled_within_records(rng):
    scores, trained_on = drawn(rng)
    laws = ShadowScores(scores, trained_on, "global").laws()
    for side, column in ((~trained_on, 0), (trained_on, 1)):
        pooled = np.mean([scores[side[:, i], i].var(ddof=1) for i in range(30)])
        np.testing.assert_allclose(laws.scales[:, column], np.sqrt(pooled))


@pytest.mark.parametrize("n", [24, 80])
@pytest.mark.parametrize("offline", [False, True])
def test_variances_are_weighed(n, offline, rng):
    scores, trained_on = drawn(rng, n)
    truth = None if offline else trained_on
    own, weighed, pooled = (
        ShadowScores(scores, truth, kind).laws().scales ** 2
        for kind in ("per_record", "auto", "global")
    )
    left = (n if offline else n // 2) - 1
    expected = (left * own + 4.0 * np.median(own, axis=0)) / (left + 4.0)
    np.testing.assert_allclose(weighed, expected)
    assert np.isnan(weighed[:, 1]).all() == offline
    assert np.ptp(pooled[:, 0]) == 0.0


def test_a_record_of_wide_scores_blinds_no_other(rng):
    scores, trained_on = drawn(rng, 16)
    before = ShadowScores(scores, trained_on, "auto").laws().log_ratio(scores)[:, 1:]
    scores[:, 0] *= 1e6
    after = ShadowScores(scores, trained_on, "auto").laws().log_ratio(scores)[:, 1:]
    np.testing.assert_allclose(after, before, rtol=0.2, atol=0.2)


def test_known_laws_are_told_apart_as_well_as_they_can_be(rng):
    """With many models the ratio is the true one: the success is Phi(D / 2)."""
    n, gap = 4000, 1.2
    trained_on = np.arange(n)[:, None] % 2 == np.array([0, 1])
    scores = gap * trained_on + rng.normal(size=(n, 2))
    laws = ShadowScores(scores, trained_on, "per_record").laws()
    member = rng.random((40_000, 2)) < 0.5
    ratio = laws.log_ratio(gap * member + rng.normal(size=member.shape))
    right = np.mean((ratio > 0.0) == member)
    assert abs(right - norm.cdf(gap / 2)) < 5 * 0.5 / np.sqrt(member.size) + 1e-3


def test_tails_are_those_of_scipy(rng):
    scores, _ = drawn(rng)
    laws = ShadowScores(scores, None, "per_record").laws()
    mean, scale = scores.mean(axis=0), scores.std(axis=0, ddof=1)
    new = 3.0 * rng.normal(size=(4, 30))
    upper = laws.surprise(new, two_ends=False)
    np.testing.assert_allclose(upper, -norm.logsf(new, mean, scale), rtol=1e-9)
    near = laws.surprise(new, two_ends=True)
    folded = foldnorm(np.abs(mean) / scale, scale=scale)
    np.testing.assert_allclose(near, -np.log(folded.cdf(np.abs(new))), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(laws.surprise(-new, two_ends=True), near)


def test_small_residuals_far_from_the_mean_keep_their_digits():
    laws = [
        ShadowScores(np.array([[m - 1.0], [m], [m + 1.0]]), None, "per_record").laws()
        for m in (60.0, -60.0)
    ]
    # The density at zero times the width.
    expected = -norm.logpdf(60.0) - np.log(2e-6)
    for law in laws:
        found = law.surprise(np.array([[1e-6]]), two_ends=True)[0, 0]
        assert found == pytest.approx(expected, rel=1e-9)


def test_p_values_are_uniform_for_non_members(rng):
    scores, _ = drawn(rng, n_models=3000, n_targets=1)
    laws = ShadowScores(scores[:, :1] + 0.3, None, "per_record").laws()
    fresh = laws.means[0, 0] + laws.scales[0, 0] * rng.normal(size=(20_000, 1))
    for two_ends in (False, True):
        p = np.exp(-laws.surprise(fresh, two_ends=two_ends))
        for level in (0.01, 0.2, 0.7):
            share = np.mean(p <= level)
            assert abs(share - level) < 5 * np.sqrt(level * (1 - level) / 20_000)


def test_far_tails_stay_finite():
    laws = ShadowScores(np.array([[0.0], [1.0], [2.0]]), None, "per_record").laws()
    far = laws.surprise(np.array([[1e3], [-1e3]]), two_ends=False)[:, 0]
    np.testing.assert_allclose(far, [-norm.logsf(999.0), 0.0], rtol=1e-9)
    near = laws.surprise(np.array([[0.0], [1e3]]), two_ends=True)[:, 0]
    assert np.isfinite(near).all()
    assert near[0] > 700.0
    assert near[1] == pytest.approx(0.0)


def test_infinite_odds_count_as_half_of_the_least():
    scores = np.array([[np.inf, np.log(0.99 / 0.01)], [-np.inf, 0.0], [2.0, 1.0], [1.0, 1.0]])
    limit = score_limit(scores)
    assert np.exp(-limit) == pytest.approx(0.5 * 0.01 / 0.99)
    laws = ShadowScores(scores, None, "per_record", limit).laws()
    assert np.all(np.isfinite(laws.means[:, 0]))
    assert laws.means[0, 0] == pytest.approx(0.75)
    found = laws.surprise(np.array([[np.inf, -np.inf]]), two_ends=False)
    np.testing.assert_allclose(
        found, laws.surprise(np.array([[limit, -limit]]), two_ends=False), rtol=1e-12
    )


def test_infinite_odds_are_no_small_odds():
    """Where all finite scores are small, or none is finite, a sure answer counts as 2e to one."""
    for finite in (np.inf, 0.9, -0.3, 0.0):
        limit = score_limit(np.array([[np.inf, finite], [-np.inf, 0.1]]))
        assert np.exp(limit) == pytest.approx(2.0 * np.e)
    assert score_limit(np.array([[-3.0, np.inf]])) == pytest.approx(3.0 + np.log(2.0))


def test_scores_at_the_ends_only():
    """A full tree answers 0 or 1: the ratio is finite and of the right sign."""
    scores = np.where(np.arange(16)[:, None] % 4 == 0, -np.inf, np.inf)
    trained_on = np.arange(16)[:, None] % 2 == 1
    laws = ShadowScores(scores, trained_on, "auto", score_limit(scores)).laws()
    ratio = laws.log_ratio(np.array([[np.inf], [-np.inf]]))[:, 0]
    assert np.all(np.isfinite(ratio))
    assert ratio[0] > 0.0 > ratio[1]


@pytest.mark.parametrize("value", [0.0, 3.7, -1e-9])
@pytest.mark.parametrize("variance", ["per_record", "global"])
def test_equal_scores_tell_nothing(value, variance):
    scores = np.full((12, 3), value)
    trained_on = np.arange(12)[:, None] % 2 == np.array([0, 1, 0])
    laws = ShadowScores(scores, trained_on, variance).laws()
    np.testing.assert_array_equal(laws.log_ratio(scores[:1]), 0.0)
    other = laws.log_ratio(scores[:1] + 1.0)
    np.testing.assert_array_equal(other, 0.0)
    offline = ShadowScores(scores, None, variance).laws()
    p = offline.surprise(scores[:1], two_ends=False)
    np.testing.assert_allclose(p, np.log(2.0), rtol=1e-15)


def test_a_few_equal_scores_are_no_certainty(rng):
    scores, trained_on = drawn(rng)
    scores[trained_on[:, 4], 4] = 1.0
    laws = ShadowScores(scores, trained_on, "per_record").laws()
    assert laws.scales[4, 1] > 0.05 * np.median(laws.scales)


def test_units_do_not_matter(rng):
    scores, trained_on = drawn(rng)
    for scale in (1e-12, 1e9):
        one, other = (
            ShadowScores(s, trained_on, "per_record").laws() for s in (scores, scale * scores)
        )
        np.testing.assert_allclose(one.log_ratio(scores), other.log_ratio(scale * scores))


def test_a_tree_has_infinite_odds():
    X, y = make_classification(60, random_state=0)
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    assert np.all(record_scores(model, X, y, None) == np.inf)
