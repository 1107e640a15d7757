"""The number of records above a limit is not above the truth, more often than is allowed."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from skleak.audit.tables._membership import ReleasedDesign
from skleak.metrics import records_above
from skleak.metrics.verdicts import group_p_value

N_RECORDS = 400
RELEASES = (5, 7, 10, 30, 100)
SHARES = (0.0, 0.1, 0.5, 1.0)
# Of 50 audits at 95% more than 7 are wrong in 1 of 80 cases, of 200 more than 17 in 1 of 100.
WRONG_OF_50, WRONG_OF_200 = 7, 17


def chances(rng, n_releases, together):
    """Success by release of records about which nothing is known, (n_releases,), of mean 1/2."""
    if together == 0.0:
        return np.full(n_releases, 0.5)
    width = 0.5 * (1.0 - together) / together  # correlation of two records of a release
    return stats.beta.ppf(rng.random(n_releases), width, width)


def audit(rng, n_releases, share, together, held_out=False):
    """Games in which a share of the records is certain, and what is shown of how many these are."""
    chance = np.repeat(chances(rng, n_releases, together)[:, None], N_RECORDS, axis=1)
    n_above = round(share * N_RECORDS)
    chance[:, :n_above] = 1.0
    right = (rng.random(chance.shape) < chance).astype(float)
    if held_out:
        right[rng.random(right.shape).argsort(axis=1) < N_RECORDS // 4] = np.nan
    return records_above(right, 0.05).at_least, n_above


@pytest.mark.slow
@pytest.mark.parametrize("together", [0.0, 0.02, 0.2, 0.7])
@pytest.mark.parametrize("held_out", [False, True])
def test_at_least_is_not_more_than_the_truth(together, held_out):
    rng = np.random.default_rng([int(100 * together), held_out])
    wrong = []
    for share in SHARES:
        found = [
            audit(rng, RELEASES[k % len(RELEASES)], share, together, held_out) for k in range(50)
        ]
        wrong.append(sum(number > truth for number, truth in found))
    assert max(wrong) <= WRONG_OF_50
    assert sum(wrong) <= WRONG_OF_200


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("n_releases", RELEASES)
def test_with_independent_games_most_are_counted(n_releases, held_out):
    rng = np.random.default_rng([n_releases, held_out])
    for share in (0.5, 1.0):
        found = [audit(rng, n_releases, share, 0.0, held_out) for _ in range(20)]
        assert np.mean([number for number, _ in found]) >= 0.6 * share * N_RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("together", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("n_records", [2, 30])
def test_groups_of_whom_nothing_is_known_are_called_chance(together, n_records):
    rng = np.random.default_rng([n_records, int(100 * together)])
    n, level = 600, 0.05
    for n_releases in (5, 24, 100):
        p_values = []
        for _ in range(n):
            chance = chances(rng, n_releases, together)[:, None]
            p_values.append(group_p_value(rng.random((n_releases, n_records)) < chance))
        wrong = int(np.sum(np.array(p_values) <= level))
        assert stats.binom.sf(wrong - 1, n, level) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("n_releases", [8, 24])
def test_thresholds_that_are_learned_from_other_releases_are_allowed_for(n_releases):
    """Scores that tell nothing: releases teach each other, which their own spread does not show."""
    rng = np.random.default_rng(n_releases)
    n, sizes, level = 300, (2, 40, 200), 0.05
    wrong, counted = np.zeros(len(sizes)), 0
    for _ in range(n):
        scores = np.broadcast_to(rng.normal(size=200), (n_releases, 200))
        member, attacked = rng.random((n_releases, 200)) < 0.5, np.ones((n_releases, 200), bool)
        done = {"member": member, "attacked": attacked, "scores": scores[:, None, None]}
        done["guesses"] = np.full((n_releases, 1, 1, 200), -1)
        found = ReleasedDesign._played(
            SimpleNamespace(rules={"loss": "score"}, classifies=True), done, 0
        )["loss"]
        right, extra = found.right, {"extra_variance": found.extra}
        p_values = [group_p_value(right[:, :size], **extra) for size in sizes]
        wrong += np.array(p_values) <= level
        counted += records_above(right, 0.05, **extra).at_least > 0
    assert stats.binom.sf(max(wrong.max(), counted) - 1, n, level) > 1e-4
