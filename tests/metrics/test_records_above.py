"""How many records are above a limit, at least: special cases, and what each part rests on."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from skleak.metrics import binomial_interval, records_above
from skleak.metrics.verdicts import (
    _by_tests,
    _own_capital,
    _shared_capital,
    _split,
    group_p_value,
)

LIMIT = 0.525  # success at an advantage of 0.05 over a coin


def played(rng, n_releases, n_records, share, success=1.0):
    """Games about records of which a share is guessed right with a probability, others by coin."""
    n_above = round(share * n_records)
    chances = np.where(np.arange(n_records) < n_above, success, 0.5)
    return (rng.random((n_releases, n_records)) < chances).astype(float)


@pytest.mark.parametrize("n_releases", [5, 7, 10, 30])
def test_all_right_is_everybody(n_releases):
    """Whatever records have in common: one that is not above is so often right in 1 of 25 cases."""
    found = records_above(np.ones((n_releases, 442)), 0.05)
    assert (found.at_least, found.method) == (442, "tests")
    assert LIMIT**5 < 0.05


def test_below_five_releases_nothing_is_told():
    for n_releases in range(1, 5):
        found = records_above(np.ones((n_releases, 442)), 0.05)
        assert (found.at_least, found.method, found.tells) == (0, "", False)
        assert found.n_enough > 5


def test_all_wrong_and_coins_are_nobody(rng):
    for n_releases in (5, 30):
        found = records_above(np.zeros((n_releases, 100)), 0.05)
        assert found.at_least == 0
    assert records_above(np.zeros((30, 100)), 0.05).tells
    # Half of the games right, whatever the order of chances: no claim.
    half = np.indices((10, 100)).sum(axis=0) % 2
    assert records_above(half, 0.05).at_least == 0


def test_few_releases_count_whom_no_test_rejects(rng):
    """Half are certain: rejected tests are none of them in ten releases, and most are counted."""
    right = played(rng, 10, 400, 0.5)
    p_values = stats.binom.sf(right.sum(axis=0) - 1.0, 10, LIMIT)
    assert p_values.min() > 0.05 / 400
    counts = [records_above(played(rng, 10, 400, 0.5), 0.05).at_least for _ in range(10)]
    assert 120 < np.mean(counts) <= 200


def test_moderate_advantages_are_counted_by_their_distribution(rng):
    """All are right in three of four games: no single record shows it, nor does the mean."""
    found = records_above(played(rng, 30, 400, 1.0, 0.75), 0.05)
    assert found.method == "distribution"
    # By the mean alone it is at most (0.5 - 0.05) / 0.95 of them.
    assert found.at_least > 0.6 * 400


def test_records_that_move_together_count_as_few(rng):
    """Right or wrong by release, all together: ten coins, not four thousand."""
    together = np.repeat(rng.permutation([1.0] * 7 + [0.0] * 3)[:, None], 400, axis=1)
    found = records_above(together, 0.05)
    assert found.at_least == 0
    assert found.design_effect > 300.0
    apart = records_above(played(rng, 10, 400, 0.5), 0.05)
    assert apart.design_effect < 20.0


def test_the_limit_and_chance_are_those_of_the_prior(rng):
    right = rng.random((30, 400)) < 0.7
    assert records_above(right, 0.05, 0.7).at_least == 0
    assert records_above(right, 0.05, 0.5).at_least > 100
    assert records_above(np.ones((10, 20)), 1.0).at_least == 0
    assert records_above(right, 0.3).at_least <= records_above(right, 0.05).at_least


def test_held_out_games_are_no_games(rng):
    right = played(rng, 20, 200, 0.5)
    right[rng.random(right.shape) < 0.25] = np.nan
    found = records_above(right, 0.05)
    assert 60 < found.at_least <= 100
    # Records and releases without a game are neither right nor wrong.
    padded = np.full((22, 210), np.nan)
    padded[:20, :200] = right
    assert records_above(padded, 0.05).at_least == found.at_least
    assert records_above(padded, 0.05).n_records == 200


def test_capitals_are_fair_bets():
    """The mean of a capital over all games is at most 1 at the limit, and less below it."""
    games = np.array([12.0])
    for success in (0.3, 0.5, LIMIT):
        total = sum(
            stats.binom.pmf(k, 12, success)
            * np.exp(_own_capital(np.array([float(k)]), games, LIMIT)[0])
            for k in range(13)
        )
        assert total == pytest.approx(1.0) if success == LIMIT else total < 1.0


@pytest.mark.slow
def test_tests_are_closed_over_all_sets_of_records(rng):
    """Brute force: every set of records whose mean capital is large is rejected, and no other."""
    for seed in range(20):
        own = np.random.default_rng(seed)
        table = (own.random((10, 7)) < own.choice([0.5, 1.0], 7)).astype(float)
        table[own.random(table.shape) < 0.1] = np.nan
        known = ~np.isnan(table)
        hits, games = np.nansum(table, axis=0), known.sum(axis=0).astype(float)
        capital, shared = np.exp(_own_capital(hits, games, LIMIT)), _shared_capital(table, LIMIT)
        for tail in (0.2, 0.02):
            kept = 0
            for m in range(1, 8):
                for some in map(list, combinations(range(7), m)):
                    part, seen = table[:, some], known[:, some]
                    gains = [
                        row[there].mean() / LIMIT if there.any() else 1.0
                        for row, there in zip(part, seen, strict=True)
                    ]
                    # What all sets of a size share at least is no more than what this one has.
                    assert np.exp(shared[m - 1]) <= np.prod(gains) * (1.0 + 1e-9)
                    worth = 0.5 * (capital[some].mean() + np.exp(shared[m - 1]))
                    kept = max(kept, m if worth < 1.0 / tail else 0)
            assert _by_tests(table, hits, games, LIMIT, tail) == 7 - kept


def test_the_error_is_split_and_no_more_than_allowed():
    for alpha in (0.2, 0.05, 0.01):
        for n_releases in (5, 6, 7, 30):
            parts = _split(alpha, LIMIT**n_releases)
            assert min(parts) > 0.0
            assert sum(parts) == pytest.approx(alpha)


def test_a_group_is_tested_by_what_its_games_are_worth(rng):
    outcomes = np.ones((24, 2))
    outcomes[[3, 7], 0] = 0.0
    assert group_p_value(outcomes) < 1e-5
    # One record: the exact test.
    one = np.r_[np.ones(20), np.zeros(4)][:, None]
    assert group_p_value(one) == pytest.approx(stats.binom.sf(19, 24, 0.5))
    # Games that are right or wrong together are as many as there are releases.
    together = np.repeat(np.r_[np.ones(7), np.zeros(3)][:, None], 50, axis=1)
    assert group_p_value(together) > 0.05
    assert group_p_value(np.zeros((5, 3))) == group_p_value(np.full((5, 3), np.nan)) == 1.0
    # It is where the lower end of an interval meets chance.
    spread = 1.0 - np.eye(10)
    spread[0, 0], spread[1, 0] = 1.0, 0.0
    p = group_p_value(spread, 0.75)
    assert group_p_value(spread, binomial_interval(90, 100, 1.0 - 2.0 * p).low) >= p * 0.999
    assert stats.binom.sf(89, 100, 0.75) <= p < 0.05


def test_variance_that_releases_do_not_show_widens_both(rng):
    right = played(rng, 7, 400, 0.5)
    counts = [records_above(right, 0.05, extra_variance=v).at_least for v in (0.0, 1e-3, 0.1)]
    assert counts[0] > counts[1] > counts[2] == 0
    p_values = [group_p_value(right[:, 190:230], extra_variance=v) for v in (0.0, 1e-3, 1e-2)]
    assert p_values[0] < p_values[1] < p_values[2]
    with pytest.raises(ValueError, match="`extra_variance` must be at least 0"):
        records_above(right, 0.05, extra_variance=-1.0)


def test_bad_input_is_told():
    good = np.ones((5, 3))
    with pytest.raises(ValueError, match=r"shape \(n_releases, n_records\); got shape \(3,\)"):
        records_above(np.ones(3), 0.05)
    with pytest.raises(ValueError, match=r"0, 1 and NaN only; got 0\.5"):
        records_above(0.5 * good, 0.05)
    with pytest.raises(ValueError, match="at least one game"):
        records_above(np.nan * good, 0.05)
    with pytest.raises(ValueError, match=r"`max_advantage` must lie in \[0, 1\]; got 1.5"):
        records_above(good, 1.5)
    with pytest.raises(ValueError, match=r"`chance` must lie in \(0, 1\)"):
        records_above(good, 0.05, 1.0)
    with pytest.raises(ValueError, match=r"`chance` must lie in \(0, 1\)"):
        group_p_value(good, 0.0)
    with pytest.raises(TypeError, match="`outcomes` must be a number"):
        records_above([["a"]], 0.05)
