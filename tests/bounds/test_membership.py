import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import expon, norm

from skleak.bounds import (
    membership_lower_bound_bounded,
    membership_lower_bound_exponential,
    membership_lower_bound_subgaussian,
)
from skleak.bounds.priors import success_to_advantage


def best_advantage(members, others, prior):
    """Advantage of the optimal test between two tables of probabilities at given odds."""
    odds = np.stack([prior, 1 - prior], axis=-1)
    joint = odds[..., np.newaxis] * np.stack([members, others], axis=-2)
    return success_to_advantage(np.minimum(joint.max(axis=-2).sum(axis=-1), 1.0), odds)


def test_bounded_loss_never_exceeds_the_best_attack(rng):
    n = 500
    losses = rng.uniform(2.0, 5.0, (n, 6))
    members, others = rng.dirichlet(np.ones(6), n), rng.dirichlet(np.ones(6), n)
    prior = rng.uniform(0.05, 0.95, n)
    gap = (losses * (others - members)).sum(axis=1)
    spread = losses.max(axis=1) - losses.min(axis=1)
    bound = membership_lower_bound_bounded(gap, spread, prior)
    assert np.all(bound <= best_advantage(members, others, prior) + 1e-12)
    assert np.any(bound > 0.1)


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.7])
def test_bounded_loss_is_attained(prior):
    # Two laws that differ in one atom: on it only members (or only others) are found.
    for tau in (0.3, 0.9):
        shared, atom = np.array([1 - tau, tau]), np.array([1.0, 0.0])
        members, others = (shared, atom) if prior >= 0.5 else (atom, shared)
        loss = np.array([1.0, 0.0])
        gap = loss @ (others - members)
        bound = membership_lower_bound_bounded(gap, 1.0, prior)
        assert bound == pytest.approx(best_advantage(members, others, np.array(prior)))


def test_bounded_loss_at_even_odds_is_the_ratio():
    assert membership_lower_bound_bounded(0.3, 2.0) == pytest.approx(0.15)
    assert membership_lower_bound_bounded(-0.3, 2.0) == pytest.approx(0.15)
    assert membership_lower_bound_bounded(2.0, 2.0, 0.9) == pytest.approx(1.0)
    assert membership_lower_bound_bounded(0.0, 2.0, 0.9) == 0.0


def test_a_gap_of_zero_says_nothing_though_the_attacker_may_be_perfect():
    # The counterexample of [BIL23] 3.3: same mean loss, disjoint laws.
    members, others, loss = np.array([0.5, 0, 0.5]), np.array([0, 1.0, 0]), np.array([0, 1.0, 2.0])
    assert loss @ members == loss @ others
    assert best_advantage(members, others, np.array(0.5)) == 1.0
    assert membership_lower_bound_bounded(0.0, 2.0) == 0.0


def test_subgaussian_is_the_best_over_the_clipping_point():
    for gap in (0.05, 1.0, 6.0):
        for scale in (0.5, 2.0):
            clip = gap / 2 + np.linspace(0, 9 * scale, 200_001)[1:]
            tails = 2 * scale * np.sqrt(2 * np.pi) * ndtr(-(clip - gap / 2) / scale)
            best = ((gap - tails) / (2 * clip)).max()
            found = membership_lower_bound_subgaussian(gap, scale)
            assert found == pytest.approx(best, abs=1e-8)


def test_subgaussian_never_exceeds_the_best_attack(rng):
    gap, scale = rng.uniform(0.0, 8.0, 300), rng.uniform(0.2, 3.0, 300)
    prior = rng.uniform(0.1, 0.9, 300)
    # Gaussian losses of that scale, a fine table of both laws.
    x = np.linspace(-12, 20, 4001)
    members = norm.pdf(x, 0.0, scale[:, None])
    others = norm.pdf(x, gap[:, None], scale[:, None])
    table = [law / law.sum(axis=1, keepdims=True) for law in (members, others)]
    bound = membership_lower_bound_subgaussian(gap, scale, prior)
    assert np.all(bound <= best_advantage(*table, prior) + 1e-9)
    # Bounded losses are sub-Gaussian with half their range (Hoeffding).
    loss = rng.uniform(0, 1, (300, 5))
    members, others = rng.dirichlet(np.ones(5), 300), rng.dirichlet(np.ones(5), 300)
    gap = (loss * (others - members)).sum(axis=1)
    bound = membership_lower_bound_subgaussian(gap, 0.5, prior)
    assert np.all(bound <= best_advantage(members, others, prior) + 1e-12)


def test_subgaussian_limits():
    assert membership_lower_bound_subgaussian(0.0, 1.0) == 0.0
    assert membership_lower_bound_subgaussian(1e4, 1.0) == pytest.approx(1.0, abs=1e-3)
    grid = membership_lower_bound_subgaussian(np.linspace(0, 20, 200), 1.0)
    assert np.all(np.diff(grid) > 0)
    scaled = membership_lower_bound_subgaussian(3.0 * np.linspace(0, 20, 200), 3.0)
    np.testing.assert_allclose(grid, scaled)


def test_exponential_is_the_best_over_the_clipping_point():
    for gap in (0.01, 0.5, 0.99):
        for scale, factor in ((1.0, 1.0), (2.0, 3.0), (1.5, 0.8)):
            gap_here = gap * scale * min(factor, 1.0)
            clip = np.linspace(0, 60 * scale, 600_001)[1:]
            best = ((gap_here - factor * scale * np.exp(-clip / scale)) / clip).max()
            found = membership_lower_bound_exponential(gap_here, scale, factor)
            assert found == pytest.approx(best, abs=1e-6)


@pytest.mark.slow
def test_exponential_never_exceeds_the_best_attack(rng):
    means = np.sort(rng.uniform(0.05, 2.0, (300, 2)), axis=1)
    prior = rng.uniform(0.1, 0.9, 300)
    x = np.linspace(0, 40, 8001) + 2.5e-3
    laws = [expon.pdf(x, scale=means[:, [k]]) for k in (0, 1)]
    table = [law / law.sum(axis=1, keepdims=True) for law in laws]
    gap = means[:, 1] - means[:, 0]
    bound = membership_lower_bound_exponential(gap, means[:, 1], 1.0, prior)
    assert np.all(bound <= best_advantage(*table, prior) + 1e-6)
    assert np.any(bound > 0.2)


def test_exponential_ends():
    assert membership_lower_bound_exponential(0.0, 1.0) == 0.0
    assert membership_lower_bound_exponential(1.0, 1.0) == pytest.approx(1.0, abs=1e-6)
    assert membership_lower_bound_exponential(1.0 + np.log(3.0), 1.0, 3.0) == pytest.approx(1.0)
    grid = membership_lower_bound_exponential(np.linspace(0, 1, 100), 1.0)
    assert np.all(np.diff(grid) > 0)


def test_least_squares_is_attacked_more_than_the_bound_says(rng):
    # Fixed design: residuals of members N(0, 1 - h), of fresh targets N(0, 1 + h), h = d / n.
    for leverage in (0.2, 0.5, 0.95):
        x = np.linspace(-12, 12, 20_001)
        laws = [norm.pdf(x, scale=np.sqrt(v)) for v in (1 - leverage, 1 + leverage)]
        variation = 0.5 * np.abs(laws[0] - laws[1]).sum() * (x[1] - x[0])
        bound = membership_lower_bound_exponential(2 * leverage, 2 * (1 + leverage))
        assert 0.0 < bound <= variation


def test_batches_broadcast():
    assert membership_lower_bound_bounded([0.1, 0.2], 1.0).shape == (2,)
    assert membership_lower_bound_subgaussian([[0.1], [0.2]], [1.0, 2.0, 3.0]).shape == (2, 3)
    assert membership_lower_bound_exponential([0.1, 0.2], 1.0, 2.0, 0.4).shape == (2,)
    assert isinstance(membership_lower_bound_subgaussian(0.1, 1.0), float)
    assert isinstance(membership_lower_bound_exponential(0.1, 1.0), float)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: membership_lower_bound_bounded(0.1, 0.0), "`loss_range` must be above 0"),
        (lambda: membership_lower_bound_bounded(0.1, -1.0), "`loss_range` must be above 0"),
        (lambda: membership_lower_bound_bounded(2.0, 1.0), "cannot exceed `loss_range`"),
        (lambda: membership_lower_bound_bounded(0.1, 1.0, 1.0), r"must lie in \(0, 1\)"),
        (lambda: membership_lower_bound_bounded(0.1, 1.0, 0.0), r"must lie in \(0, 1\)"),
        (lambda: membership_lower_bound_bounded(np.nan, 1.0), "`gap` must not hold NaN"),
        (lambda: membership_lower_bound_bounded(np.inf, 1.0), "`gap` must be finite"),
        (lambda: membership_lower_bound_bounded([0.1] * 2, [1.0] * 3), "do not broadcast"),
        (lambda: membership_lower_bound_bounded([0.1] * 2, 1.0, [0.5] * 3), "do not broadcast"),
        (lambda: membership_lower_bound_subgaussian(0.1, 0.0), "`scale` must be above 0"),
        (lambda: membership_lower_bound_exponential(0.1, np.inf), "`scale` must be above 0"),
        (lambda: membership_lower_bound_exponential(0.1, 1.0, 0.0), "`factor` must be above 0"),
        (lambda: membership_lower_bound_exponential(2.0, 1.0), "exceeds the mean of any"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
