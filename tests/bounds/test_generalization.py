"""The gap that information allows: two derivations, limits, and models that it must bound."""

import itertools

import numpy as np
import pytest
from scipy.special import rel_entr, xlogy

from skleak.attacks import GaussianLinearMembership
from skleak.bounds import generalization_gap_bound, membership_lower_bound_bounded

INFORMATION = np.array([1e-4, 0.01, 0.1, 0.7, 2.0, 6.0])


def coin_divergence(p, q):
    return xlogy(p, p / q) + xlogy(1.0 - p, (1.0 - p) / (1.0 - q))


def test_it_is_the_largest_difference_of_two_coins():
    p = np.linspace(0.0, 1.0, 2001)
    q = p[1:-1]
    divergence, difference = coin_divergence(p[:, None], q), np.abs(p[:, None] - q)
    for information in INFORMATION:
        best = difference[divergence <= information].max()
        found = generalization_gap_bound(information, 1.0)
        assert best <= found <= best + 1.1e-3


@pytest.mark.slow
def test_it_is_the_largest_with_a_known_training_loss():
    q = np.linspace(0.0, 1.0, 100_001)[1:-1]
    for share, information in itertools.product([0.0, 0.02, 0.4, 0.5, 0.9, 1.0], INFORMATION):
        near = np.abs(q - share)[coin_divergence(share, q) <= information]
        found = generalization_gap_bound(information, 3.0, 3.0 * share) / 3.0
        assert near.max(initial=0.0) - 1e-12 <= found <= near.max(initial=0.0) + 1.1e-5


@pytest.mark.slow
def test_the_unknown_training_loss_is_the_worst_of_the_known():
    shares = np.linspace(0.0, 1.0, 4001)
    for information in INFORMATION:
        known = generalization_gap_bound(information, 1.0, shares)
        assert known.max() == pytest.approx(generalization_gap_bound(information, 1.0), rel=1e-5)
        assert known.max() <= generalization_gap_bound(information, 1.0) * (1.0 + 1e-12)


def test_it_stays_below_the_classical_inequalities():
    information = np.geomspace(1e-30, 50.0, 400)
    found = generalization_gap_bound(information, 1.0)
    assert np.all(found <= np.sqrt(0.5 * information) * (1.0 + 1e-12))  # Pinsker
    assert np.all(found <= np.sqrt(-np.expm1(-information)) + 1e-12)  # Bretagnolle and Huber
    assert np.all(found >= -np.expm1(-information) * (1.0 - 1e-12))  # no training loss
    assert np.all(np.diff(found) >= 0.0)
    assert np.all(np.diff(found[information < 20.0]) > 0.0)
    # Concave, so that a mean over records lies below the bound of their mean information.
    even = generalization_gap_bound(np.linspace(0.0, 8.0, 300), 1.0)
    assert np.all(np.diff(even, 2) <= 1e-12)


def test_its_ends():
    assert generalization_gap_bound(0.0, 5.0) == 0.0
    assert generalization_gap_bound(np.inf, 5.0) == 5.0
    assert generalization_gap_bound(0.0, 5.0, 2.0) == 0.0
    assert generalization_gap_bound(np.inf, 5.0, 2.0) == 3.0
    assert generalization_gap_bound(np.inf, 5.0, 5.0) == 5.0
    assert generalization_gap_bound(0.3, 2.0, 0.0) == pytest.approx(-2.0 * np.expm1(-0.3))
    assert generalization_gap_bound([0.1, 0.2], [[1.0], [2.0]], 0.5).shape == (2, 2)
    assert generalization_gap_bound([0.1, 0.2], [[1.0], [2.0]]).shape == (2, 2)


def test_no_pair_of_laws_and_no_loss_exceeds_it(rng):
    p, q = rng.dirichlet(np.ones(5), 500), rng.dirichlet(np.full(5, 0.5), 500)
    loss = rng.uniform(-1.0, 2.0, (500, 5))
    spread = np.ptp(loss, axis=1)
    train, test = (p * loss).sum(axis=1), (q * loss).sum(axis=1)
    information = rel_entr(p, q).sum(axis=1)
    allowed = generalization_gap_bound(information, spread)
    known = generalization_gap_bound(information, spread, train - loss.min(axis=1))
    assert np.all(np.abs(test - train) <= known * (1.0 + 1e-9))
    assert np.all(known <= allowed * (1.0 + 1e-9))
    # Two values of the loss reach it.
    p, q = np.array([0.1, 0.9]), np.array([0.4, 0.6])
    exact = generalization_gap_bound(rel_entr(p, q).sum(), 1.0, p[0])
    assert exact == pytest.approx(0.3, rel=1e-9)


@pytest.mark.parametrize("candor", [0.0, 0.3, 1.0])
def test_it_bounds_a_model_that_publishes_a_record(rng, candor):
    """Enumerated: two records of three values; one of them is published, or a fresh one."""
    prior = np.array([0.5, 0.3, 0.2])
    # Law of (training record, published value): the record itself with half the candor.
    kept = 0.5 * candor
    joint = kept * np.diag(prior) + (1.0 - kept) * np.outer(prior, prior)
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    information = rel_entr(joint, apart).sum()
    # An attacker who calls a published record a member gains what the zero-one gap says.
    for loss in (1.0 - np.eye(3), *rng.uniform(0.0, 1.0, (20, 3, 3))):
        gap = ((apart - joint) * loss).sum()
        bound = generalization_gap_bound(information, 1.0, (joint * loss).sum())
        assert abs(gap) <= bound * (1.0 + 1e-12)
        assert membership_lower_bound_bounded(gap, 1.0) <= bound * (1.0 + 1e-12)


@pytest.mark.slow
def test_it_bounds_trained_least_squares(rng):
    """Simulated: models are fitted, their cut losses measured, the information known exactly."""
    for size in (8, 20, 100):
        X, coef = rng.normal(size=(size, 5)), rng.normal(size=5)
        attack = GaussianLinearMembership(sigma=1.0, coef=coef).fit(X)
        information = 2.0 * attack.mutual_information()  # given membership, at even odds
        y = X @ coef + rng.normal(size=(20_000, size))
        fresh = X @ coef + rng.normal(size=(20_000, size))
        fitted = y @ np.linalg.pinv(X).T @ X.T
        for cut in (0.3, 1.0, 4.0):
            train, test = (np.minimum((z - fitted) ** 2, cut) for z in (y, fresh))
            gaps = (test - train).mean(axis=1)
            error = gaps.std() / np.sqrt(len(gaps))
            bound = generalization_gap_bound(information, cut, train.mean())
            assert bound <= generalization_gap_bound(information, cut)
            assert gaps.mean() - 4.0 * error <= bound
            assert gaps.mean() > 0.1 * bound


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((-0.1, 1.0), "`information` must be at least 0"),
        ((0.1, 0.0), "`loss_range` must be above 0"),
        ((0.1, np.inf), "Cut an unbounded loss"),
        ((0.1, 1.0, 1.5), "`train_loss` cannot exceed"),
        ((0.1, 1.0, -0.5), "`train_loss` must be at least 0"),
        (([0.1, 0.2], [1.0, 2.0, 3.0]), "Shapes do not broadcast"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        generalization_gap_bound(*arguments)
