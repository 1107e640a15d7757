"""Verdicts: rare where bounds hold, sure where they do not."""

import numpy as np
import pytest

from skleak.audit.tables._rates import error_verdict, record_verdicts, success_verdict
from skleak.metrics import binomial_interval
from skleak.metrics.verdicts import BIASED, CONSISTENT, EXCEEDED, VACUOUS


@pytest.mark.parametrize(
    "low, high, limit, expected",
    [
        (0.5, 0.6, 0.55, CONSISTENT),
        (0.5, 0.6, 0.49, EXCEEDED),
        (0.5, 0.6, 0.53, CONSISTENT),
        (0.9, 1.0, 1.0, VACUOUS),
        (0.9, 1.0, np.nan, VACUOUS),
        (0.1, 0.2, 0.5, CONSISTENT),
    ],
)
def test_success(low, high, limit, expected):
    assert success_verdict(low, high, limit, 0, 0.95) == expected


def test_actual_secrets_may_be_easy_by_chance():
    for n, expected in ((1, CONSISTENT), (100, CONSISTENT), (1000, EXCEEDED)):
        assert success_verdict(0.58, 0.65, 0.5, n, 0.95) == expected
    assert success_verdict(1.0, 1.0, 0.5, 3, 0.95) == CONSISTENT
    assert success_verdict(1.0, 1.0, 0.5, 6, 0.95) == EXCEEDED


@pytest.mark.slow
@pytest.mark.parametrize("n, p", [(5, 0.5), (50, 0.5), (50, 0.9), (500, 0.37)])
def test_few_false_alarms_for_actual_secrets(n, p, rng):
    """The success on actual secrets is known without error, and they are one draw."""
    shares = rng.binomial(n, p, size=4000) / n
    alarms = [success_verdict(s, s, p, n, 0.95) == EXCEEDED for s in shares]
    assert np.mean(alarms) <= 0.05


def test_errors():
    assert error_verdict(0.9, 1.2, biased=False) == CONSISTENT
    assert error_verdict(0.2, 0.4, biased=False) == EXCEEDED
    assert error_verdict(0.2, 0.4, biased=True) == BIASED
    assert error_verdict(1.2, 1.4, biased=True) == CONSISTENT
    assert error_verdict(np.nan, np.nan, biased=True) == VACUOUS


def test_records_take_their_worst_attack():
    counts = np.array([[50, 99, 0, 100], [99, 50, 0, 100]])
    verdicts = record_verdicts(counts, 100, np.array([0.5, 0.5, 0.5, 1.0]), 0.95)
    assert verdicts.tolist() == [EXCEEDED, EXCEEDED, CONSISTENT, VACUOUS]


@pytest.mark.parametrize("n_records", [1, 20, 300])
def test_few_false_alarms_over_all_records(n_records, rng):
    bounds = rng.uniform(0.3, 0.95, n_records)
    alarms = 0
    for _ in range(300):
        counts = rng.binomial(50, bounds, size=(2, n_records))
        alarms += (record_verdicts(counts, 50, bounds, 0.95) == EXCEEDED).any()
    # At most 5 % of 300, and 4.5 standard deviations.
    assert alarms <= 15 + 17


def test_an_exposed_record_is_found_among_many(rng):
    bounds = np.full(500, 0.5)
    counts = rng.binomial(100, 0.5, size=(1, 500))
    counts[0, 77] = 85
    verdicts = record_verdicts(counts, 100, bounds, 0.95)
    assert np.flatnonzero(verdicts == EXCEEDED).tolist() == [77]


@pytest.mark.slow
def test_the_interval_of_heterogeneous_games_covers(rng):
    """Hoeffding: the sum of games with different chances spreads no more than a binomial."""
    chances = rng.uniform(0.0, 1.0, 40)
    missed = 0
    for _ in range(2000):
        hits = rng.binomial(10, chances).sum()
        low, high = binomial_interval(float(hits), 400.0, 0.95)[1:]
        missed += not low <= chances.mean() <= high
    assert missed <= 100
