"""What shadow models teach of a score: perfect fits, ratio and rank, and how much each counts."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from skleak.adversary.shadow import (
    ShadowScores,
    _features,
    _fit_weights,
)


def alone(n):
    return np.arange(n)[:, None]


def taught(scores, trained_on, **options):
    return ShadowScores(scores, trained_on, **options).evidence(alone(len(scores)))


def halves(rng, n_models, n_targets):
    return rng.permuted(np.arange(n_models)[:, None] % 2 * np.ones(n_targets), axis=0) > 0


def areas(evidence, draw, rng, n=20):
    """Areas under the curve of fresh models: of the evidence, and of a function of the scores."""
    member = rng.random((n, evidence.laws.means.shape[0])) < 0.5
    scores = draw(member)
    merit = -np.abs(scores) if evidence.residuals else scores
    return [roc_auc_score(member.ravel(), s.ravel()) for s in (evidence.log_ratio(scores), merit)]


# Residuals of zero


@pytest.mark.parametrize("n_models", [4, 20])
@pytest.mark.parametrize("n_targets", [1, 30])
def test_a_perfect_fit_of_members_alone_is_certain(n_models, n_targets, rng):
    trained_on = halves(rng, n_models, n_targets)
    scores = np.where(trained_on, 0.0, rng.normal(size=trained_on.shape))
    laws = ShadowScores(scores, trained_on, "auto", residuals=True).laws()
    evidence = taught(scores, trained_on, residuals=True)
    # However near to zero the others come.
    fresh = np.concatenate([10.0 ** -np.arange(6.0), [0.0, 1e-16]])
    asked = np.tile(fresh[:, None], n_targets)
    for ratio in (laws.log_ratio(asked), evidence.log_ratio(asked)):
        assert np.all(ratio[:-2] < 0.0)
        assert np.all(ratio[-2:] > 0.0)
        assert np.all(np.isfinite(ratio))
    if n_models * n_targets > 500:
        assert np.abs(laws.log_ratio(asked)).min() > 5.0


def test_a_fit_that_is_perfect_at_times_by_hand(rng):
    """A mixture: zero with a probability that is weighed with the usual one, else Gaussian."""
    trained_on = halves(rng, 40, 25)
    scores = rng.normal(np.where(trained_on, 0.5, 2.0), np.where(trained_on, 0.7, 1.0))
    scores[(rng.random(scores.shape) < 0.3) & trained_on] = 0.0
    laws = ShadowScores(scores, trained_on, "per_record", residuals=True).laws()
    new = np.vstack([rng.normal(size=(3, 25)), np.zeros(25)])
    for i in range(25):
        expected = np.zeros(4)
        for side, sign in ((trained_on, 1.0), (~trained_on, -1.0)):
            own = scores[side[:, i], i]
            usual = (np.sum(scores[side] == 0.0) + 0.5) / (side.sum() + 1.0)
            p = (np.sum(own == 0.0) + 4.0 * usual) / (len(own) + 4.0)
            rest = own[own != 0.0]
            density = np.log1p(-p) + norm.logpdf(new[:, i], rest.mean(), rest.std(ddof=1))
            expected += sign * np.where(new[:, i] == 0.0, np.log(p), density)
        np.testing.assert_allclose(laws.log_ratio(new)[:, i], expected, rtol=1e-9, atol=1e-9)


def test_who_is_fitted_perfectly_when_left_out_is_no_member(rng):
    trained_on = halves(rng, 12, 5)
    laws = ShadowScores(-1.0 * trained_on, trained_on, "auto", residuals=True).laws()
    assert np.all(laws.log_ratio(np.zeros(5)) < 0.0)
    assert np.all(laws.log_ratio(-np.ones(5)) > 0.0)
    np.testing.assert_array_equal(laws.means, np.tile([0.0, -1.0], (5, 1)))


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_equal_residuals_tell_nothing(value):
    trained_on = np.arange(12)[:, None] % 2 == np.array([0, 1, 0])
    scores = np.full((12, 3), value)
    for residuals in (False, True):
        evidence = taught(scores, trained_on, residuals=residuals)
        np.testing.assert_allclose(evidence.log_ratio(scores), 0.0, atol=1e-12)


# Laws without some models


@pytest.mark.parametrize("residuals", [False, True])
@pytest.mark.parametrize("variance", ["auto", "per_record", "global"])
@pytest.mark.parametrize("together", [1, 2])
def test_models_are_left_out(together, variance, residuals, rng):
    trained_on = halves(rng, 12, 6)
    scores = rng.normal(1.0 * trained_on, np.arange(1.0, 7.0))
    scores[rng.random(scores.shape) < 0.2] = 0.0
    scores[:, 5] = 3.0
    groups = np.array([[3, 8], [0, 1]])[:, :together]
    options = {"residuals": residuals}
    found = ShadowScores(scores, trained_on, variance, **options).ratios_without(groups)
    assert found.shape == (2, together, 6)
    for k, group in enumerate(groups):
        rest = np.setdiff1d(np.arange(12), group)
        laws = ShadowScores(scores[rest], trained_on[rest], variance, **options).laws()
        np.testing.assert_allclose(found[k], laws.log_ratio(scores[group]), rtol=1e-7, atol=1e-9)


def test_fewer_than_two_scores_have_no_law(rng):
    trained_on = np.arange(8)[:, None] < np.array([1, 2, 7])
    scores = rng.normal(size=(8, 3))
    ratio = ShadowScores(scores, trained_on, "auto").laws().log_ratio(scores)
    np.testing.assert_array_equal((ratio == 0.0).all(axis=0), [True, False, True])


def test_models_trained_on_complements_are_left_out_together(rng):
    """Of half a pair the others tell what it was trained on: noise would speak against members."""
    first = rng.random((3, 4000)) < 0.5
    trained_on = np.stack([first, ~first], axis=1).reshape(6, 4000)
    scores = rng.normal(size=trained_on.shape)
    found = []
    for groups in (np.arange(6).reshape(3, 2), alone(6)):
        ratios = ShadowScores(scores, trained_on, "auto").ratios_without(groups)
        found.append(roc_auc_score(trained_on.ravel(), ratios.ravel()))
    # The standard error of an area of 12,000 members and as many others is 0.0037.
    assert abs(found[0] - 0.5) < 5 * 0.0037
    assert found[1] < 0.5 - 5 * 0.0037


# What counts


def test_weights_are_the_best_ones(rng):
    """Against a general optimizer: logistic regression around (1, 0, ..., 0), none negative."""
    n = 400
    ratio, merit = rng.normal(size=n), np.round(rng.normal(size=n), 1)
    features = _features(ratio, merit, np.sort(merit))
    assert features.shape == (n, 20)
    # One up for who is on a step, one down for who is not.
    up, down = features[:, 2:11], features[:, 11:]
    assert set(np.unique(up)) == {0.0, 1.0}
    np.testing.assert_array_equal(up - down, 1.0)
    center = np.eye(20)[0]
    for strength in (0.0, 0.5, 5.0):
        member = rng.random(n) < expit(strength * (ratio - merit) - 0.7)

        def cost(weights, member=member):
            odds = features @ weights + logit(member.mean())
            loss = np.logaddexp(0.0, np.where(member, -odds, odds)).sum()
            return loss + 0.5 * np.sum((weights - center) ** 2)

        # The second breaks ties.
        bounds = [(0.0, None), (1e-6, None)] + [(0.0, None)] * 18
        best = minimize(cost, center, method="L-BFGS-B", bounds=bounds, tol=1e-14)
        weights = _fit_weights(features, member)
        assert np.all(weights >= 0.0)
        assert cost(weights) <= best.fun + 1e-6
        np.testing.assert_allclose(weights, best.x, atol=1e-2)


def test_few_records_are_judged_by_their_ratio(rng):
    trained_on = halves(rng, 4, 1)
    scores = rng.normal(2.0 * trained_on)
    evidence = taught(scores, trained_on)
    assert evidence.weights[0] > 0.9
    # Of a single class nothing can be learnt.
    member = np.ones(5, dtype=bool)
    found = _fit_weights(np.zeros((5, 3)), member)
    np.testing.assert_allclose(found, [1.0, 0.0, 0.0], atol=1e-5)


def test_equal_steps_are_ordered_by_rank(rng):
    """Where nothing leaks, steps alone would leave ties of hundreds of records."""
    trained_on = rng.random((20, 100)) < 0.5
    evidence = taught(rng.normal(size=trained_on.shape), trained_on)
    merit = np.linspace(-2.0, 2.0, 50)
    found = _features(np.zeros(50), merit, evidence.seen) @ evidence.weights
    assert np.all(np.diff(found) > 0.0)


@pytest.mark.parametrize("residuals", [False, True])
def test_more_speaks_for_membership(residuals, rng):
    """Where the records' own ratios tell nothing, evidence increases with what a score is."""
    trained_on = halves(rng, 20, 40)
    scale = np.where(trained_on, 0.5, 1.0) if residuals else 1.0
    scores = rng.normal(0.0 if residuals else 1.0 * trained_on, scale)
    evidence = taught(scores, trained_on, residuals=residuals)
    merit = np.linspace(evidence.seen[0], evidence.seen[-1], 200)
    found = _features(np.zeros(200), merit, evidence.seen) @ evidence.weights
    assert np.all(np.diff(found) >= 0.0)
    assert found[-1] > 0.0 > found[0]


def test_the_best_rank_never_speaks_against_membership(rng):
    """Whatever was learnt: of a tree all members have it, and many others."""
    for share in (0.0, 0.5, 0.99):
        trained_on = rng.random((20, 60)) < 0.5
        scores = np.where(trained_on | (rng.random((20, 60)) < share), 1.0, -1.0)
        evidence = taught(scores, trained_on)
        found = _features(np.zeros(2), np.array([-1.0, 1.0]), evidence.seen) @ evidence.weights
        assert found[0] <= 0.0 <= found[1]


def test_never_much_worse_than_the_better_of_both(rng):
    """All alike: the ratio is noise, and the threshold best. Each their own: the ratio is best."""
    alike = np.zeros(100), np.zeros(100)
    # Of half of the records a large score speaks against membership: no threshold sees that.
    apart = 5.0 * rng.normal(size=100), np.where(np.arange(100) % 2, 3.0, -3.0)
    for base, gap in (alike, apart):

        def draw(member, base=base, gap=gap):
            return rng.normal(base + (0.7 + gap) * member)

        trained_on = halves(rng, 20, 100)
        evidence = taught(draw(trained_on), trained_on)
        found, threshold = areas(evidence, draw, rng, 100)
        # Two areas of 10,000 pairs: standard errors of at most 0.006 each.
        if gap.any():
            assert found > 0.95
            assert threshold < 0.6
        else:
            assert abs(threshold - norm.cdf(0.7 / np.sqrt(2.0))) < 0.03
            assert found > threshold - 0.015


def test_posteriors_are_worth_more_than_the_prior(rng):
    """Ratios from six scores of heavy tails are so overconfident that a coin loses less."""
    trained_on = rng.random((12, 400)) < 0.5
    mean = 3.0 * rng.normal(size=400)

    def draw(member):
        return mean + rng.standard_t(3, size=member.shape) + member

    evidence = taught(draw(trained_on), trained_on)
    member = rng.random((40, 400)) < 0.5
    new = draw(member)
    found, raw = (
        np.logaddexp(0.0, np.where(member, -odds, odds)).mean() / np.log(2.0)
        for odds in (evidence.log_ratio(new), evidence.laws.log_ratio(new))
    )
    assert found < 1.0 < raw


def test_units_of_residuals_do_not_matter(rng):
    trained_on = halves(rng, 16, 20)
    scores = np.where(trained_on & (rng.random((16, 20)) < 0.5), 0.0, rng.normal(size=(16, 20)))
    one = taught(scores, trained_on, residuals=True)
    for scale in (1e-12, 1e9):
        other = taught(scale * scores, trained_on, residuals=True)
        found = other.log_ratio(scale * scores)
        np.testing.assert_allclose(found, one.log_ratio(scores), rtol=1e-5, atol=1e-5)
