"""Precision at a recall, against every threshold, scikit-learn's curve and normal scores."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.special import ndtr, ndtri
from sklearn.metrics import precision_recall_curve

from skleak.metrics import precision_at_recall

RECALLS = np.array([0.05, 0.1, 0.3, 0.5, 0.8, 1.0])


def by_hand(scores, member, recall, prior):
    """Try every threshold, and count."""
    best = 0.0
    for threshold in scores:
        called = scores >= threshold
        true = np.mean(called[member])
        false = np.mean(called[~member])
        if true >= recall:
            best = max(best, prior * true / (prior * true + (1.0 - prior) * false))
    return best


@pytest.mark.parametrize("ties", mostly_slow([False, True]))
def test_it_is_the_best_of_all_thresholds(rng, ties):
    for _ in range(30):
        member = rng.random(int(rng.integers(5, 40))) < 0.4
        member[:2] = True, False
        scores = rng.normal(size=len(member)) + member
        scores = np.round(scores) if ties else scores
        for prior in (None, 0.1):
            share = member.mean() if prior is None else prior
            found = precision_at_recall(scores, member, RECALLS, prior=prior)
            expected = [by_hand(scores, member, recall, share) for recall in RECALLS]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_it_agrees_with_the_curve_of_scikit_learn(rng):
    member = rng.random(300) < 0.3
    scores = np.round(rng.normal(size=300) + member, 1)
    precision, recall, _ = precision_recall_curve(member, scores)
    expected = [precision[:-1][recall[:-1] >= wanted].max() for wanted in RECALLS]
    np.testing.assert_allclose(precision_at_recall(scores, member, RECALLS), expected)


def test_many_normal_scores_reach_the_precision_of_their_laws():
    # Quantiles in place of draws: members N(1, 1), others N(0, 1).
    quantiles = ndtri((np.arange(20_000) + 0.5) / 20_000)
    scores = np.concatenate([quantiles + 1.0, quantiles])
    member = np.arange(40_000) < 20_000
    # Recall t is reached at threshold 1 - ndtri(t); a larger one is more precise.
    for prior in (0.5, 0.01):
        false = ndtr(ndtri(RECALLS[:-1]) - 1.0)
        true = RECALLS[:-1]
        expected = prior * true / (prior * true + (1.0 - prior) * false)
        found = precision_at_recall(scores, member, true, prior=prior)
        np.testing.assert_allclose(found, expected, rtol=0.01)


def test_what_it_must_be():
    member = np.array([True, True, False, False])
    assert precision_at_recall([4, 3, 2, 1], member, 1.0) == 1.0
    # Scores that say nothing, and those that say the opposite: everybody is called.
    assert precision_at_recall([1, 1, 1, 1], member, 0.1) == 0.5
    assert precision_at_recall([1, 2, 3, 4], member, 0.1) == 0.5
    assert precision_at_recall([1, 1, 1, 1], member, 0.1, prior=0.01) == pytest.approx(0.01)
    assert precision_at_recall([np.inf, 0, -np.inf, -np.inf], member, 1.0) == 1.0
    # One in three members is enough, though 1 / 3 of 3 is not 1 in floating point.
    assert precision_at_recall([3, 1, 0, 2], [1, 1, 1, 0], 1 / 3) == 1.0
    assert precision_at_recall([3, 1, 0, 2], [1, 1, 1, 0], [[0.4, 1.0]]).shape == (1, 2)


def test_it_falls_with_the_recall_and_is_the_prior_at_least(rng):
    member = np.arange(500) < 50
    grid = np.linspace(0.01, 1.0, 200)
    found = precision_at_recall(rng.normal(size=500) + member, member, grid, prior=0.2)
    assert np.all(np.diff(found) <= 0.0)
    assert found.min() >= 0.2
    assert isinstance(precision_at_recall([1, 0], [1, 0]), float)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (([1.0, 2.0], [1]), "one entry for each candidate"),
        (([[1.0, 2.0]], [[1, 0]]), "one entry for each candidate"),
        (([1.0, np.nan], [1, 0]), "`scores` must not hold NaN"),
        (([], []), "`scores` is empty"),
        (([1.0, 2.0], [1, 2]), "True and False"),
        (([1.0, 2.0], [1, 1]), "members only"),
        (([1.0, 2.0], [0, 0]), "others only"),
        (([1.0, 2.0], [1, 0], 0.0), "`recall` must lie in"),
        (([1.0, 2.0], [1, 0], 1.1), "`recall` must lie in"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        precision_at_recall(*arguments)


@pytest.mark.parametrize("prior", [0.0, 1.0, -1.0, [0.5, 0.5]])
def test_a_prior_is_a_probability(prior):
    with pytest.raises((ValueError, TypeError), match=r"`prior` must (lie in|be a single number)"):
        precision_at_recall([1.0, 2.0], [1, 0], prior=prior)
