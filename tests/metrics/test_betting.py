"""The limit that a verdict rests on: a theorem, checked by enumeration and by simulation."""

from itertools import product

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import stats

from skleak.metrics import binomial_interval, clustered_interval, mean_interval, verdict
from skleak.metrics.intervals import (
    N_ORDERS,
    detectable_excess,
    log_capital,
    lower_limit,
    stakes,
)

TAIL = 0.05
SHARES = {
    "coins": (lambda rng, shape: rng.random(shape) < 0.5, 0.5),
    "rarely right": (lambda rng, shape: rng.random(shape) < 0.05, 0.05),
    "rarely wrong": (lambda rng, shape: rng.random(shape) < 0.95, 0.95),
    "even": (lambda rng, shape: rng.beta(20.0, 20.0, shape), 0.5),
    "skewed": (lambda rng, shape: rng.beta(1.8, 0.2, shape), 0.9),
    "rare jump": (lambda rng, shape: np.where(rng.random(shape) < 0.02, 1.0, 0.6), 0.608),
}


def all_outcomes(n):
    return np.array(list(product((0.0, 1.0), repeat=n)))


@pytest.mark.parametrize("chance", [0.02, 0.3, 0.5, 0.9])
def test_expected_capital_is_one_under_the_claim(chance):
    # The theorem itself: over all outcomes of ten coins, on average nothing is won.
    outcomes = all_outcomes(10)
    weight = (chance**outcomes * (1 - chance) ** (1 - outcomes)).prod(axis=1)
    capital = np.exp(log_capital(*stakes(outcomes, TAIL), np.full(len(outcomes), chance)))
    assert weight @ capital == pytest.approx(1.0, abs=1e-12)
    harder = np.exp(log_capital(*stakes(outcomes, TAIL), np.full(len(outcomes), chance + 0.05)))
    assert weight @ harder < 1.0
    assert np.all(harder <= capital + 1e-12)


@pytest.mark.slow
def test_level_by_enumeration():
    outcomes = all_outcomes(11)
    limits = lower_limit(outcomes, TAIL)
    for chance in np.linspace(0.01, 0.99, 50):
        weight = (chance**outcomes * (1 - chance) ** (1 - outcomes)).prod(axis=1)
        assert weight[limits > chance].sum() <= TAIL


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 20, 200])
@pytest.mark.parametrize("name", SHARES)
def test_level_by_simulation(name, n, rng):
    draw, mean = SHARES[name]
    values = np.asarray(draw(rng, (800 if n < 200 else 200, n)), dtype=float)
    low, high = (
        limit(values, TAIL) for limit in (lower_limit, lambda x, t: 1 - lower_limit(1 - x, t))
    )
    allowed = TAIL + 4 * np.sqrt(TAIL * (1 - TAIL) / len(values))
    assert np.mean(low > mean) <= allowed
    assert np.mean(high < mean) <= allowed
    assert np.all((low <= values.mean(axis=1)) & (values.mean(axis=1) <= high))


@pytest.mark.parametrize("n", mostly_slow([20, 100], 0))
@pytest.mark.parametrize("name", mostly_slow(["coins", "even", "skewed"]))
def test_width_between_gaffke_and_hoeffding(name, n, rng):
    draw, _ = SHARES[name]
    values = np.asarray(draw(rng, (n, 40)), dtype=float)
    gaffke, betting = (
        mean_interval(values, value_range=(0.0, 1.0), method=m) for m in ("gaffke", "betting")
    )
    below = np.mean(betting.estimate - betting.low) / np.mean(gaffke.estimate - gaffke.low)
    assert 1.1 < below < 1.5
    hoeffding = np.sqrt(np.log(1 / 0.025) / (2 * n))
    if name != "coins":
        assert np.mean(betting.estimate - betting.low) < 0.75 * hoeffding
    assert np.all(betting.low <= gaffke.low + 1e-9)
    assert np.all(gaffke.high <= betting.high + 1e-9)


def test_order_hardly_matters(rng):
    values = rng.beta(2.0, 2.0, 100)
    limits = [float(lower_limit(rng.permutation(values), 0.025)) for _ in range(20)]
    spread = values.mean() - np.mean(limits)
    assert np.std(limits) < 0.1 * spread
    assert lower_limit(values, 0.025) == lower_limit(values, 0.025)
    assert stakes(values[np.newaxis], 0.025)[0].shape == (1, N_ORDERS, 100)


def test_stakes_see_earlier_observations_only(rng):
    values = rng.random((1, 30))
    changed = values.copy()
    changed[0, 17:] = 1 - changed[0, 17:]
    first, second = (stakes(v, TAIL)[1][0, 0] for v in (values, changed))
    np.testing.assert_array_equal(first[:18], second[:18])
    assert np.all(first[18:] != second[18:])


def test_extremes():
    assert lower_limit(np.zeros(50), TAIL) == 0.0
    assert 0.9 < lower_limit(np.ones(50), TAIL) < 1.0
    assert 0.0 <= lower_limit(np.ones(1), TAIL) < TAIL
    assert lower_limit(np.full((2, 3, 4), 0.5), TAIL).shape == (2, 3)


def test_intervals_take_the_method(rng):
    outcomes = rng.random((30, 40)) < 0.6
    clustered = clustered_interval(outcomes, method="betting")
    means = mean_interval(outcomes.mean(axis=1), value_range=(0.0, 1.0), method="betting")
    np.testing.assert_allclose(clustered, means, atol=1e-12)
    both = mean_interval(
        np.stack([10 * outcomes.mean(axis=1) - 5] * 2, axis=1),
        value_range=(-5.0, 5.0),
        method="betting",
    )
    np.testing.assert_allclose(both.low, 10 * clustered.low - 5, atol=1e-9)
    with pytest.raises(ValueError, match=r"`method` must be .*; got 'other'"):
        clustered_interval(outcomes, method="other")
    with pytest.raises(ValueError, match="needs `value_range`"):
        mean_interval([1.0, 2.0], method="betting")


@pytest.mark.slow
@pytest.mark.parametrize("spread", [None, 0.2, 0.05])
@pytest.mark.parametrize("bound", [0.1, 0.5])
def test_detectable_excess_is_found_as_often_as_promised(bound, spread, rng):
    n, power = 60, 0.8
    mean = bound + detectable_excess(n, bound, standard_deviation=spread)
    if spread is None:
        shares = (rng.random((500, n)) < mean).astype(float)
    else:
        down = min(spread, mean)
        up = spread**2 / down
        shares = np.where(rng.random((500, n)) < down / (up + down), mean + up, mean - down)
        assert shares.std() == pytest.approx(spread, rel=0.05)
    found = np.mean(lower_limit(shares, 0.025) > bound)
    assert found == pytest.approx(power, abs=0.08)


@pytest.mark.parametrize("spread", mostly_slow([0.2, 0.05]))
def test_detectable_excess_is_about_right_for_other_shapes(spread, rng):
    mean = 0.5 + detectable_excess(60, 0.5, standard_deviation=spread)
    scale = mean * (1 - mean) / spread**2 - 1
    shares = rng.beta(mean * scale, (1 - mean) * scale, (500, 60))
    assert np.mean(lower_limit(shares, 0.025) > 0.5) == pytest.approx(0.8, abs=0.15)


@pytest.mark.slow
def test_detectable_excess_falls_with_releases_and_grows_with_spread():
    excess = [detectable_excess(n, 0.3) for n in (10, 30, 100, 300)]
    assert np.all(np.diff(excess) < 0)
    spreads = [detectable_excess(50, 0.3, standard_deviation=s) for s in (0.0, 0.1, 0.3, 9.0)]
    assert np.all(np.diff(spreads) > 0)
    assert spreads[-1] == detectable_excess(50, 0.3)
    assert detectable_excess(50, 0.3, power=0.5) < detectable_excess(50, 0.3, power=0.95)
    assert detectable_excess(50, 0.3, 0.9) < detectable_excess(50, 0.3, 0.99)
    # Two releases that are right prove nothing beyond a half, and no bound of 1 is exceeded.
    assert detectable_excess(2, 0.5) == detectable_excess(100, 1.0) == np.inf


@pytest.mark.parametrize("n, bound", [(20, 0.5), (300, 0.1), (300, 0.9)])
def test_detectable_excess_of_independent_games(n, bound):
    chance = bound + detectable_excess(n, bound, 0.9, power=0.7, method="binomial")
    hits = np.arange(n + 1)
    found = binomial_interval(hits, n, 0.9).low > bound
    assert stats.binom.pmf(hits[found], n, chance).sum() == pytest.approx(0.7, abs=1e-9)
    assert chance - bound < detectable_excess(n, bound, 0.9, power=0.7)
    assert detectable_excess(2, 0.5, method="binomial") == np.inf


def test_an_excess_far_beyond_the_detectable_is_a_verdict(rng):
    excess = detectable_excess(100, 0.5)
    outcomes = rng.random((100, 1)) < 0.5 + 2 * excess
    _, low, high = clustered_interval(outcomes, method="betting")
    assert verdict(low, high, 0.5) == "bound exceeded"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: detectable_excess(0, 0.5), "`trials`"),
        (lambda: detectable_excess(10, 1.5), r"`bound` must lie in \[0, 1\]; got 1.5"),
        (lambda: detectable_excess(10, 0.5, power=1.0), r"must lie in \(0, 1\)"),
        (lambda: detectable_excess(10, 0.5, 95), r"must lie in \(0, 1\)"),
        (lambda: detectable_excess(10, 0.5, standard_deviation=-1.0), "`standard_deviation` must"),
        (lambda: detectable_excess(10, 0.5, method="other"), "one of 'betting', 'binomial'"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
