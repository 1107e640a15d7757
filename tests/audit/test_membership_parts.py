"""Parts of an audit of membership, each against brute force."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from helpers import mostly_slow
from scipy import stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.neighbors import KNeighborsClassifier

from skleak.adversary.hypotheses import model_parameters
from skleak.adversary.membership import score_limit
from skleak.adversary.shadow import ShadowScores
from skleak.attacks import LikelihoodRatioMembership
from skleak.audit import MembershipAuditor
from skleak.audit.games.membership._release import normalized_losses, pair_test
from skleak.audit.tables._membership import (
    best_rate,
    learned_guesses,
    likelihood_ratios,
    rates,
    robust_shares,
    surely_reached,
)
from skleak.audit.tables._rates import share_interval
from skleak.bounds import gdp_advantage
from skleak.linear_model import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
)
from skleak.metrics.intervals import Interval
from skleak.report.audit._results import best_rows, failed_rows
from skleak.utils._geometry import pair_success
from skleak.utils._records import Persons

MODELS = [PrivateLinearRegression, PrivateLogisticRegression, PrivatePoissonRegressor]


def full_objective(estimator, X, y):
    return clone(estimator).set_params(noise_scale=0.0).fit(X, y)._confidential_state().objective


def problem(rng, model, n=40, heavy=10.0):
    X = rng.normal(size=(n, 3))
    X[:2] *= heavy
    a = np.clip(X @ [0.6, -0.4, 0.2] + 0.3, -3.0, 3.0)
    if model is PrivateLogisticRegression:
        return X, (a + rng.logistic(size=n) > 0.0).astype(int)
    return X, a + rng.normal(size=n) if model is PrivateLinearRegression else rng.poisson(np.exp(a))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fit_intercept", mostly_slow([True, False], 0))
def test_with_and_without_are_refits(model, fit_intercept, rng):
    X, y = problem(rng, model)
    estimator = model(alpha=0.05, fit_intercept=fit_intercept, noise_scale=0.0)
    rows = np.sort(rng.choice(40, 22, replace=False))
    test = pair_test(full_objective(estimator, X, y), rows, Persons.single(np.arange(40)))
    assert np.array_equal(test.member, np.isin(np.arange(40), rows))

    def refit(rows):
        return model_parameters(clone(estimator).fit(X[rows], y[rows]))

    np.testing.assert_allclose(test.own, refit(rows), atol=1e-8)
    for i in range(40):
        step = refit(np.setdiff1d(rows, [i])) - refit(np.union1d(rows, [i]))
        np.testing.assert_allclose(test.steps[i], step, atol=1e-5 * np.linalg.norm(step) + 1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_a_dominating_record_is_added_right(model, rng):
    X, y = problem(rng, model, heavy=100.0)
    estimator = model(alpha=0.01, noise_scale=0.0)
    test = pair_test(
        full_objective(estimator, X, y), np.arange(2, 40), Persons.single(np.arange(2))
    )
    for i in range(2):
        with_it = np.r_[np.arange(2, 40), i]
        step = test.own - model_parameters(clone(estimator).fit(X[with_it], y[with_it]))
        np.testing.assert_allclose(test.steps[i], step, rtol=1e-4, atol=1e-8)


def test_a_record_without_which_nothing_can_be_trained_gives_itself_away(rng):
    X = rng.normal(size=(12, 2))
    y = np.r_[1, np.zeros(11, dtype=int)]
    test = pair_test(
        full_objective(PrivateLogisticRegression(), X, y),
        np.arange(8),
        Persons.single(np.arange(12)),
    )
    assert np.array_equal(np.isinf(test.distances), np.arange(12) == 0)
    odds = test.log_odds(test.own, 1.0, 0.5)
    assert odds[0] == np.inf
    assert np.isfinite(odds[1:]).all()
    assert pair_success(test.separations(5.0), 0.5)[0] == 1.0
    assert np.array_equal(np.isinf(test.separations(0.0)), np.ones(12, dtype=bool))


def test_log_odds_are_those_of_the_densities(rng):
    X, y = problem(rng, PrivateLogisticRegression)
    rows = np.arange(0, 40, 2)
    test = pair_test(
        full_objective(PrivateLogisticRegression(), X, y), rows, Persons.single(np.arange(40))
    )
    released, noise, prior = test.own + 0.1 * rng.normal(size=4), 0.3, 0.2
    odds = test.log_odds(released, noise, prior)
    for i in range(40):
        inside = test.own if test.member[i] else test.own - test.steps[i]
        outside = test.own + test.steps[i] if test.member[i] else test.own
        logs = [stats.norm.logpdf(released, mean, noise).sum() for mean in (inside, outside)]
        expected = logs[0] - logs[1] + np.log(prior / (1.0 - prior))
        np.testing.assert_allclose(odds[i], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.7])
def test_pair_success_is_that_of_the_attack(prior, rng):
    X, y = problem(rng, PrivateLinearRegression)
    model = PrivateLinearRegression(noise_scale=0.2)
    attack = LikelihoodRatioMembership(model, prior=prior).fit(X, y)
    np.testing.assert_allclose(
        pair_success(attack.distances_ / 0.2, prior), attack.expected_score(0.2), rtol=1e-12
    )


def test_pair_success_is_that_of_the_better_guess(rng):
    for prior, distance in ((0.3, 1.5), (0.8, 0.4)):
        grid = np.linspace(-12.0, 14.0, 200001)
        best = np.maximum(
            prior * stats.norm.pdf(grid, distance), (1.0 - prior) * stats.norm.pdf(grid)
        )
        expected = np.trapezoid(best, grid)
        assert np.isclose(pair_success(np.array(distance), prior), expected, atol=1e-8)
    prior, distance = np.array([0.001, 0.4, 0.5, 0.9]), np.array([[1e-9], [0.3], [5.0]])
    guess = np.maximum(prior, 1.0 - prior)
    stated = (pair_success(distance, prior) - guess) / (1.0 - guess)
    table = np.stack([prior, 1.0 - prior], axis=-1)
    np.testing.assert_allclose(stated, gdp_advantage(distance, table), atol=1e-12)
    ends = pair_success(np.array([0.0, 5e-324, np.inf, np.nan]), 0.2)
    np.testing.assert_array_equal(ends, [0.8, 0.8, 1.0, np.nan])
    np.testing.assert_array_equal(pair_success(np.array([0.0, 1.0]), np.array([0.0, 1.0])), 1.0)


def test_thresholds_are_learned_from_the_other_releases_only(rng):
    member, attacked = rng.random((6, 15)) < 0.4, rng.random((6, 15)) < 0.8
    scores = np.round(rng.normal(1.0 * member), 1)
    guesses, _ = learned_guesses(scores, member, attacked)
    for r in range(6):
        others = attacked & (np.arange(6) != r)[:, None]
        best, threshold = 0, np.inf
        for t in np.unique(scores[others])[::-1]:
            called = others & (scores >= t)
            gain = (called & member).sum() - (called & ~member).sum()
            if gain > best:
                best, threshold = gain, t
        assert np.array_equal(guesses[r], scores[r] >= threshold)
    # What happened in the release itself changes nothing.
    changed = member.copy()
    changed[2] = ~changed[2]
    assert np.array_equal(learned_guesses(scores, changed, attacked)[0][2], guesses[2])


@pytest.mark.parametrize("n", [2, 3, 7, 23])
def test_the_spread_of_learned_guesses_is_that_of_the_jackknife(n, rng):
    """By learning all thresholds anew without each group of releases."""
    member, attacked = rng.random((n, 12)) < 0.5, rng.random((n, 12)) < 0.8
    attacked[:, 0] = True
    scores = np.round(rng.normal(1.0 * member), 1)

    def success(rows):
        guesses, _ = learned_guesses(scores[rows], member[rows], attacked[rows])
        right = np.where(attacked[rows], guesses == member[rows], np.nan)
        return np.nanmean(right, axis=1).mean()

    everyone = np.arange(n)
    groups = min(n, 20)
    without = np.array([success(everyone[everyone % groups != g]) for g in range(groups)])
    _, pseudo = learned_guesses(scores, member, attacked)
    assert np.isclose(pseudo.mean(), success(everyone))
    variance = (groups - 1) / groups * np.sum((without - without.mean()) ** 2)
    assert np.isclose(pseudo.var(ddof=1) / groups, variance)


def test_the_area_and_its_interval(rng):
    """Against counting all pairs, and leaving out each release in turn."""
    n, shape = 40, (40, 15)
    member, attacked = rng.random(shape) < 0.4, rng.random(shape) < 0.8
    scores = np.round(rng.normal(1.0 * member) + 0.5 * rng.normal(size=(n, 1)), 1)

    def area(rows):
        m, a, s = member[rows], attacked[rows], scores[rows]
        own, others = s[m & a][:, None], s[~m & a]
        return np.mean((own > others) + 0.5 * (own == others))

    found = rates(scores, member, attacked, 0.95, 4)
    assert np.isclose(found["auc"], area(slice(None)))
    without = np.array([area(np.arange(n) != r) for r in range(n)])
    error = np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2))
    half = stats.t.isf(0.025, n - 1) * error
    assert np.isclose(found["auc_high"] - found["auc_low"], 2.0 * half, rtol=0.1)
    # One of four lower limits has a fourth of the level.
    least = found["auc"] - stats.t.isf(0.0125, n - 1) * error
    assert np.isclose(found["auc_least"], least, atol=0.1 * half)
    one = rates(scores, member, attacked, 0.95)
    assert one["auc_least"] == one["auc_low"] > found["auc_least"]
    # Without scores the limits are those of guesses, and there is no curve.
    guesses = scores > 0.5
    blind = rates(np.full(shape, np.nan), member, attacked, 0.95, guesses=guesses)
    assert np.isnan(blind["auc"])
    assert blind["auc_least"] == rates(guesses.astype(float), member, attacked, 0.95)["auc_least"]
    assert np.isnan(rates(np.full(shape, np.nan), member, attacked, 0.95)["auc_least"])


def test_where_all_are_right_games_count_less_what_few_releases_do_not_tell():
    for n, games in ((3, 180), (8, 400), (50, 1000)):
        few = (stats.norm.isf(0.025) / stats.t.isf(0.025, n - 1)) ** 2
        estimate, low, high = share_interval(np.ones(n), games, 0.95)
        assert (estimate, high) == (1.0, 1.0)
        assert np.isclose(low, 0.025 ** (1.0 / np.floor(few * games)))
        assert np.isclose(share_interval(np.zeros(n), games, 0.95).high, 1.0 - low)
    # As many as there are releases, at least, and one alone tells nothing of the others.
    assert np.isclose(share_interval(np.ones(2), 10, 0.95).low, 0.025**0.5)
    assert np.isclose(share_interval(np.ones(1), 500, 0.95).low, 0.025)


def test_scores_that_tell_nothing_call_all_or_none(rng):
    member = rng.random((9, 10)) < 0.8
    everyone = np.ones((9, 10), dtype=bool)
    assert learned_guesses(np.zeros((9, 10)), member, everyone)[0].all()
    assert not learned_guesses(np.zeros((9, 10)), ~member, everyone)[0].any()


@pytest.mark.parametrize("scale", mostly_slow([1.0, 1e-3, 1e9], 1))
def test_likelihood_ratios_are_those_of_the_attack_on_shadow_models(scale, rng):
    """Each release is attacked as `LikelihoodRatioMembership` does with the others as shadows."""
    member = np.argsort(rng.random((12, 5)), axis=0) % 2 == 0
    statistic = rng.normal(2.0 * member, [0.5, 1.0, 2.0, 1.0, 1.0])
    statistic[:, 3] = np.where(statistic[:, 3] > 0.5, np.inf, -np.inf)
    statistic[:, 4] = 1.0
    for residuals in (False, True):
        if residuals:
            statistic[:, 3] = np.where(member[:, 3], 0.0, 1.0)
        odds = likelihood_ratios(scale * statistic, member, 0.3, residuals=residuals)
        for r in range(12):
            others = np.arange(12) != r
            known = scale * statistic[others]
            limit = np.inf if residuals else score_limit(known)
            # What counts is learnt from releases of the other parity.
            groups = np.flatnonzero((np.flatnonzero(others) - r) % 2)[:, None]
            options = {"limit": limit, "residuals": residuals}
            # So is what laws share, from nothing but those.
            far = np.arange(12) % 2 != r % 2
            own = {"residuals": residuals}
            own["limit"] = np.inf if residuals else score_limit(scale * statistic[far])
            taught = ShadowScores(scale * statistic[far], member[far], **own)
            options["pooling"] = taught.choose_pooling(np.arange(6)[:, None])
            evidence = ShadowScores(known, member[others], **options).evidence(groups)
            expected = evidence.log_ratio(scale * statistic[r]) + np.log(0.3 / 0.7)
            np.testing.assert_allclose(odds[r], expected, rtol=1e-12)
    assert np.isfinite(likelihood_ratios(1e200 * statistic, member, 0.3)).all()


def test_a_record_without_a_law_of_its_own_is_judged_by_those_of_others(rng):
    """The other releases always have it, or never."""
    member = rng.random((20, 40)) < 0.5
    member[1:, 0], member[1:, 1] = False, True
    statistic = rng.normal(5.0 * member)
    statistic[0, :2] = 5.0, 0.0
    odds = likelihood_ratios(statistic, member, 0.25)
    assert np.isfinite(odds).all()
    assert odds[0, 0] > 2.0
    assert odds[0, 1] < -2.0
    few = likelihood_ratios(statistic[:2], member[:2], 0.25)
    np.testing.assert_allclose(few, np.log(1.0 / 3.0))


@pytest.mark.slow
def test_infinite_odds_hide_no_finite_ones(rng):
    """A fifth of the odds say nothing: whoever sees the others is right of four in five."""
    member = rng.random((40, 60)) < 0.5
    odds = np.where(member, rng.normal(4.0, 0.5, (40, 60)), rng.normal(0.0, 0.5, (40, 60)))
    odds[rng.random((40, 60)) < 0.2] = np.inf
    for table in (odds, np.clip(odds, -37.0, 37.0)):
        found = rates(likelihood_ratios(table, member, 0.5), member, np.ones_like(member), 0.95)
        assert found["auc"] > 0.88


@pytest.mark.parametrize("residuals", [False, True])
def test_likelihood_ratios_do_not_look_at_the_release_under_attack(residuals, rng):
    member = rng.random((10, 6)) < 0.5
    statistic = np.where(member & (rng.random((10, 6)) < 0.5), 0.0, rng.normal(size=(10, 6)))
    odds = likelihood_ratios(statistic, member, 0.5, residuals=residuals)
    changed = member.copy()
    changed[3] = ~changed[3]
    again = likelihood_ratios(statistic, changed, 0.5, residuals=residuals)
    np.testing.assert_array_equal(again[3], odds[3])
    assert np.any(np.delete(again != odds, 3, axis=0))


@pytest.mark.parametrize("value", [0.0, 37.0])
def test_equal_statistics_tell_nothing(value, rng):
    member = rng.random((10, 6)) < 0.5
    odds = likelihood_ratios(np.full((10, 6), value), member, 0.25)
    np.testing.assert_allclose(odds, np.log(1.0 / 3.0))


@pytest.mark.slow
def test_noise_is_no_evidence(rng):
    """Each release is judged by what is chance in others: neither better nor worse than a coin."""
    right, areas, tpr = [], [], []
    everyone = np.ones((40, 100), dtype=bool)
    for _ in range(6):
        member = rng.random((40, 100)) < 0.5
        odds = likelihood_ratios(rng.normal(size=(40, 100)), member, 0.5)
        found = rates(odds, member, everyone, 0.95)
        right.append(np.mean((odds > 0.0) == member))
        areas.append(found["auc"])
        tpr.append(found["tpr_at_1pct_fpr"])
    # Five standard errors of 24,000 guesses, and of six areas of 2,000 members and others each.
    assert abs(np.mean(right) - 0.5) < 5 * 0.5 / np.sqrt(24_000)
    assert abs(np.mean(areas) - 0.5) < 5 * np.sqrt(1.0 / (6.0 * 2_000) / 6.0)
    assert np.mean(tpr) < 0.01 + 5 * np.sqrt(0.01 / 12_000)


def test_rates_are_scikit_learns(rng):
    member, attacked = rng.random((8, 50)) < 0.5, rng.random((8, 50)) < 0.9
    scores = np.round(rng.normal(1.5 * member), 1)
    found = rates(scores, member, attacked, 0.95)
    truth, values = member[attacked], scores[attacked]
    fpr, tpr, _ = roc_curve(truth, values, drop_intermediate=False)
    assert np.isclose(found["tpr_at_1pct_fpr"], tpr[fpr <= 0.01].max())
    assert np.isclose(found["auc"], roc_auc_score(truth, values))
    assert found["tpr_at_1pct_fpr_low"] <= found["tpr_at_1pct_fpr"] <= found["tpr_at_1pct_fpr_high"]


def test_one_false_alarm_in_a_thousand_takes_a_thousand_non_members(rng):
    for n, known in ((999, False), (1000, True), (2500, True)):
        member = np.arange(n + 300) >= n
        scores = np.round(rng.normal(2.0 * member), 1)
        shape = (50, -1) if n == 2500 else (1, -1)
        tables = [a.reshape(shape) for a in (scores, member, np.ones(len(member), dtype=bool))]
        found = rates(*tables, 0.95)
        strict, *ends = (found[f"tpr_at_0.1pct_fpr{end}"] for end in ("", "_low", "_high"))
        assert np.isnan([strict, *ends]).all() != known
        if known:
            fpr, tpr, _ = roc_curve(member, scores, drop_intermediate=False)
            assert np.isclose(strict, tpr[fpr <= 0.001].max())
            assert 0.0 <= ends[0] <= strict <= ends[1] <= 1.0
            assert strict <= found["tpr_at_1pct_fpr"]


def test_rates_of_scores_that_all_tie(rng):
    member = rng.random((20, 200)) < 0.5
    found = rates(np.zeros((20, 200)), member, np.ones_like(member), 0.95)
    names = [f"tpr_at_{rate}_fpr{end}" for rate in ("1pct", "0.1pct") for end in ("", "_low")]
    assert [found[name] for name in names] == [0.0] * 4
    sure = rates(1.0 * member, member, np.ones_like(member), 0.95)
    names = ("tpr_at_1pct_fpr", "tpr_at_1pct_fpr_high", "tpr_at_0.1pct_fpr", "auc")
    assert [sure[name] for name in names] == [1.0] * 4


@pytest.mark.parametrize("rate", mostly_slow([0.001, 0.01, 0.3], 1))
def test_the_best_rate_is_that_of_the_best_test(rate, rng):
    """Against the curve of likelihood ratios of a million draws; alone it is that of one pair."""
    for distance in (1e-3, 0.5, 2.0, 50.0):
        expected = stats.norm.cdf(stats.norm.ppf(rate) + distance)
        assert best_rate(np.full(4, distance), rate) == pytest.approx(expected, abs=1e-9)
    cases = [[0.0, 3.0], [0.0, 0.0, 0.0, 0.2], [1.0, 2.0, 4.0], [0.0, 1.0, np.inf], [3.0, np.inf]]
    for distances in map(np.array, cases):
        own = rng.choice(distances, size=500_000)
        finite = np.where(np.isinf(own), 0.0, own)
        sides = []
        for side in (0.0, 1.0):
            z = rng.normal(size=len(own)) + side * finite
            ratio = finite * z - 0.5 * finite**2
            ratio = np.where(np.isinf(own), np.inf if side else -np.inf, ratio)
            # Those who cannot be told apart are called in a random order.
            sides.append(ratio + 1e-9 * rng.random(len(own)))
        limit = np.quantile(sides[0], 1.0 - rate)
        assert best_rate(distances, rate) == pytest.approx(np.mean(sides[1] > limit), abs=0.008)
    assert best_rate(np.zeros(3), rate) == pytest.approx(rate)
    assert best_rate(np.full(3, np.inf), rate) == 1.0
    assert best_rate(np.full(3, 1e6), rate) == pytest.approx(1.0)
    assert np.isnan(best_rate(np.full(3, np.nan), rate))
    assert np.isnan(best_rate(np.array([]), rate))


def test_rates_without_scores_or_members_are_not_known():
    everyone = np.ones((2, 3), dtype=bool)
    for scores in (np.full((2, 3), np.nan), np.zeros((2, 3))):
        found = rates(scores, everyone, everyone, 0.95)
        assert np.isnan(list(found.values())).all()


@pytest.mark.slow
def test_intervals_of_rates_cover(rng):
    """Releases of which each has its own shift: the interval counts releases, not records."""
    for n, records, spread in ((60, 40, 0.5), (20, 120, 0.0), (100, 100, 0.3)):
        total = np.sqrt(1.0 + spread**2)
        limits = stats.norm.isf([0.01, 0.001], scale=total)
        true = stats.norm.sf(limits, 2.0, total)
        # Two of one release have its shift in common.
        area = stats.norm.cdf(np.sqrt(2.0) / np.array([total, 1.0])) @ [1.0 - 1.0 / n, 1.0 / n]
        true = np.r_[true, area]
        covered, widths = np.zeros(3), np.zeros(3)
        for _ in range(60):
            member = rng.random((n, records)) < 0.5
            scores = rng.normal(2.0 * member) + rng.normal(0.0, spread, size=(n, 1))
            found = rates(scores, member, np.ones(member.shape, dtype=bool), 0.95)
            ends = np.array(
                [
                    (found["tpr_at_1pct_fpr_low"], found["tpr_at_1pct_fpr_high"]),
                    (found["tpr_at_0.1pct_fpr_low"], found["tpr_at_0.1pct_fpr_high"]),
                    (found["auc_low"], found["auc_high"]),
                ]
            )
            covered += (ends[:, 0] <= true) & (true <= ends[:, 1])
            widths += np.diff(ends, axis=1)[:, 0] / 60
        # Of 60 intervals at 95 %, 51 or more but for once in a thousand.
        assert np.all(covered >= 51)
        assert widths[0] < 0.3


@pytest.mark.parametrize(
    ("gap", "prior", "expected"),
    [
        ((0.3, 0.2, 0.4), 0.5, 0.6),
        ((-0.3, -0.4, -0.2), 0.5, 0.6),
        ((0.1, -0.1, 0.3), 0.5, 0.5),
        ((0.0, -np.inf, np.inf), 0.5, 0.5),
        ((0.9, 0.8, 1.0), 0.25, 0.85),
        ((0.3, 0.2, 0.4), 0.25, 0.75),
        ((1.2, 1.1, 1.3), 0.5, 1.0),
    ],
)
def test_what_is_surely_reached(gap, prior, expected):
    assert np.isclose(surely_reached(Interval(*gap), prior), expected)


def test_a_gap_that_is_not_known_promises_nothing():
    assert np.isnan(surely_reached(Interval(np.nan, np.nan, np.nan), 0.5))


def test_losses_of_a_regressor_lie_between_nothing_and_one(rng):
    X = rng.normal(size=(30, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=30)
    model = PrivateLinearRegression(noise_scale=0.0).fit(X[:15], y[:15])
    errors = (model.predict(X) - y) ** 2
    losses = normalized_losses(model, X, y, False, (X[15:], y[15:]))
    np.testing.assert_allclose(losses, np.minimum(errors / np.median(errors[15:]), 1.0))
    exact = normalized_losses(model, X, model.predict(X), False, (X, model.predict(X)))
    assert np.array_equal(exact, np.zeros(30))


@pytest.mark.parametrize("residuals", [False, True])
def test_robust_shares_are_those_of_the_attack(residuals, rng):
    """With the other releases as reference models, and the candidates as the population."""
    member = rng.random((5, 30)) < 0.5
    member[:, 0], member[:, 1] = False, True
    statistic = rng.normal(2.0 * member) if not residuals else rng.normal(size=(5, 30))
    found = robust_shares(statistic, member, residuals=residuals)
    for r in range(5):
        others = np.delete(np.arange(5), r)
        known, inside = statistic[others], member[others]
        scale = np.sqrt(np.mean(known[~inside] ** 2))
        every = expit(statistic) if not residuals else np.exp(-0.5 * (statistic / scale) ** 2)
        means = [
            [every[others][side[:, i], i].mean() if side[:, i].any() else np.nan for i in range(30)]
            for side in (~inside, inside)
        ]
        out, within = np.array(means)
        both = ~np.isnan(out + within)
        a = np.sum((1 - within[both]) * (1 - out[both])) / np.sum((1 - out[both]) ** 2)
        within = np.where(np.isnan(within), min(a, 1.0) * (out - 1.0) + 1.0, within)
        ratio = every[r] / (0.5 * (np.where(np.isnan(out), within, out) + within))
        expected = (ratio[:, None] >= ratio[None] * (1 - 1e-12)).mean(axis=1)
        np.testing.assert_allclose(found[r], expected, atol=2e-9)
    # Its own memberships play no part.
    changed = member.copy()
    changed[2] = ~changed[2]
    assert np.array_equal(robust_shares(statistic, changed, residuals=residuals)[2], found[2])
    assert not robust_shares(statistic[:2], member[:2]).any()


@pytest.mark.slow
def test_the_better_attack_of_few_and_of_many_releases(rng):
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] + rng.normal(size=60) > 0.0).astype(int)
    both = ["loss", "likelihood_ratio", "robust"]
    for n_releases, expected in ((2, ["loss"]), (3, both), (7, both)):
        auditor = MembershipAuditor(KNeighborsClassifier(3), n_releases=n_releases, random_state=0)
        assert auditor.fit(X, y).results_["attack"].tolist() == expected
    auditor.set_params(n_releases=8, attacks="default").fit(X, y)
    assert auditor.results_["attack"].tolist() == ["loss", "likelihood_ratio"]
    auditor.set_params(attacks=["robust", "likelihood_ratio"]).fit(X, y)
    assert auditor.results_["success"].between(0.0, 1.0).all()
    with pytest.raises(ValueError, match=r"'robust' learns from the other.*at least 3; got 2"):
        auditor.set_params(n_releases=2, attacks="robust").fit(X, y)


def ranked(rows):
    """Results of an audit of membership, and what reports derive from them."""
    names = ["noise_scale", "attack", "success", "tpr_at_1pct_fpr_least", "auc_least"]
    table = pd.DataFrame(rows, columns=names)
    half = 0.1 * (table["success"] < 1.0)
    table = table.assign(
        success_low=table["success"] - half, success_high=table["success"] + half, baseline=0.5
    )
    for end in ("", "_low", "_high"):
        table[f"advantage{end}"] = 2.0 * table[f"success{end}"] - 1.0
    return SimpleNamespace(kind="membership", results=table, settings={"secrets": "actual"})


def test_the_best_attack_surely_finds_the_most_members():
    """By members found where that is sure, else by the area; not by the share of right guesses."""
    found = best_rows(
        ranked(
            [
                (0.0, "loss", 0.7, 0.0, 0.7),
                (0.0, "likelihood_ratio", 0.55, 0.03, 0.5),
                (1.0, "loss", 0.7, 0.0, 0.55),
                (1.0, "likelihood_ratio", 0.55, 0.019, 0.6),
                (2.0, "guesses", 0.9, np.nan, np.nan),
                (2.0, "loss", 0.5, 0.0, 0.4),
                # Of equal ones the one that is right more often.
                (3.0, "exact", 0.9, 1.0, 1.0),
                (3.0, "loss", 0.95, 1.0, 1.0),
            ]
        )
    )
    expected = ["likelihood_ratio", "likelihood_ratio", "loss", "loss"]
    assert found["attack"].tolist() == expected


def test_an_attack_that_finds_members_has_not_failed():
    """A bad threshold makes guesses worse than none; its scores may tell members all the same."""
    rows = [(0.0, "loss", 0.3, 0.0, 0.45), (0.0, "robust", 0.3, 0.05, 0.45)]
    audit = ranked([*rows, (0.0, "likelihood_ratio", 0.3, 0.0, 0.55)])
    assert audit.results["attack"][failed_rows(audit)].tolist() == ["loss"]
    best = best_rows(audit).iloc[0]
    assert best["attack"] == "robust"
    assert not best["failed"]
