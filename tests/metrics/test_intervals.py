import numpy as np
import pytest
from scipy import stats

from skleak.metrics import binomial_interval, clustered_interval, mean_interval
from skleak.metrics.intervals import Interval, upper_limit

LEVELS = [0.5, 0.9, 0.95, 0.999]


@pytest.mark.parametrize("level", LEVELS)
def test_binomial_interval_agrees_with_scipy(level):
    k, n = np.array([0, 1, 3, 20, 49, 50, 1]), np.array([50, 50, 7, 50, 50, 50, 1])
    found = binomial_interval(k, n, level)
    for i in range(len(k)):
        expected = stats.binomtest(int(k[i]), int(n[i])).proportion_ci(level, method="exact")
        np.testing.assert_allclose([found.low[i], found.high[i]], expected, atol=1e-12)
    np.testing.assert_array_equal(found.estimate, k / n)


@pytest.mark.parametrize("n", [1, 2, 10, 37])
def test_binomial_coverage_by_enumeration(n):
    k = np.arange(n + 1)
    _, low, high = binomial_interval(k, n, 0.9)
    for p in np.linspace(0.0, 1.0, 201):
        weights = stats.binom.pmf(k, n, p)
        # One side at a time: half of the error on each.
        assert weights[low > p].sum() <= 0.05 + 1e-12
        assert weights[high < p].sum() <= 0.05 + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("n_releases", [1, 2, 7, 20, 100, 700])
@pytest.mark.parametrize("level", LEVELS)
def test_records_that_move_together_count_once(n_releases, level):
    k = np.unique(np.linspace(0, n_releases, 9).astype(int))
    outcomes = np.arange(n_releases) < k[:, np.newaxis]
    found = clustered_interval(np.repeat(outcomes[..., np.newaxis], 3, axis=-1), level)
    expected = binomial_interval(k, n_releases, level)
    np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 6, 25])
@pytest.mark.parametrize("tail", [0.3, 0.025])
def test_limit_is_the_quantile_of_simplex_weights(n, tail, rng):
    values = rng.beta(2.0, 0.7, n)
    weighted = rng.dirichlet(np.ones(n + 1), 200_000) @ np.append(values, 1.0)
    above = np.mean(weighted > upper_limit(values, tail))
    assert abs(above - tail) < 5.0 * np.sqrt(tail * (1.0 - tail) / len(weighted))


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("n_releases", [1, 20, 100])
def test_no_spread_is_not_certainty(share, n_releases):
    row = np.arange(4) < 4 * share
    estimate, low, high = clustered_interval(np.tile(row, (n_releases, 1)))
    rest = 1.0 - 0.025 ** (1.0 / n_releases)
    assert estimate == share
    np.testing.assert_allclose(low, share * (1.0 - rest), rtol=1e-10)
    np.testing.assert_allclose(high, share + (1.0 - share) * rest, rtol=1e-10)


def test_many_releases_give_the_normal_interval(rng):
    outcomes = rng.random((5000, 6)) < rng.beta(5.0, 3.0, (5000, 1))
    found = clustered_interval(outcomes)
    student = mean_interval(outcomes.mean(axis=1))
    np.testing.assert_allclose(found.high - found.low, student.high - student.low, rtol=0.05)
    np.testing.assert_allclose(found.low, student.low, atol=2e-3)


def test_clustered_interval_is_symmetric_and_ignores_order(rng):
    outcomes = rng.random((30, 11)) < rng.beta(2.0, 1.0, (30, 1))
    estimate, low, high = clustered_interval(outcomes)
    mirrored = clustered_interval(~outcomes)
    np.testing.assert_allclose(mirrored, [1 - estimate, 1 - high, 1 - low], atol=1e-12)
    shuffled = clustered_interval(rng.permutation(outcomes)[:, rng.permutation(11)])
    np.testing.assert_allclose(shuffled, [estimate, low, high], atol=1e-11)


def test_clustered_interval_is_monotone(rng):
    outcomes = (rng.random((40, 5)) < 0.6).astype(float)
    found = np.array([clustered_interval(outcomes, level) for level in LEVELS])
    assert np.all(np.diff(found[:, 1]) < 0.0)
    assert np.all(np.diff(found[:, 2]) > 0.0)
    better = outcomes.copy()
    better[outcomes.argmin(axis=0), np.arange(5)] = 1.0
    assert np.all(np.array(clustered_interval(better)) > np.array(clustered_interval(outcomes)))
    # The same shares from more releases.
    twice = clustered_interval(np.tile(outcomes, (2, 1)))
    once = clustered_interval(outcomes)
    assert once.low < twice.low < twice.high < once.high


def test_batches_equal_one_table_at_a_time(rng):
    outcomes = rng.random((2, 3, 25, 4)) < rng.random((2, 3, 1, 1))
    batch = clustered_interval(outcomes, 0.9)
    assert batch.low.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        alone = clustered_interval(outcomes[i, j], 0.9)
        assert isinstance(alone.low, float)
        np.testing.assert_allclose(alone, [part[i, j] for part in batch], atol=1e-11)


def test_naive_binomial_interval_is_ten_times_too_short(rng):
    # Accuracy with a standard deviation of 0.08 between releases, thousands of records.
    outcomes = rng.random((100, 4000)) < np.clip(rng.normal(0.53, 0.08, (100, 1)), 0.0, 1.0)
    clustered = clustered_interval(outcomes)
    naive = binomial_interval(outcomes.sum(), outcomes.size)
    assert clustered.high - clustered.low > 10.0 * (naive.high - naive.low)


def test_mean_interval_agrees_with_scipy(rng):
    values = rng.gamma(2.0, size=(12, 3))
    found = mean_interval(values, confidence_level=0.9)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-12)


def test_mean_interval_of_clusters_is_that_of_their_means(rng):
    releases = np.array(["b", "a", "c", "a", "a", "b", "d"])
    values = rng.normal(size=(7, 2))
    means = np.array([values[releases == name].mean(axis=0) for name in "abcd"])
    found = mean_interval(values, releases)
    np.testing.assert_allclose(found, mean_interval(means), rtol=1e-12)
    np.testing.assert_allclose(found.estimate, means.mean(axis=0))


def test_mean_interval_with_a_range_is_the_clustered_one_rescaled(rng):
    outcomes = rng.random((15, 8)) < rng.random((15, 1))
    values, releases = 3.0 * outcomes.ravel() - 1.0, np.repeat(np.arange(15), 8)
    found = mean_interval(values, releases, value_range=(-1.0, 2.0))
    np.testing.assert_allclose(found, 3.0 * np.array(clustered_interval(outcomes)) - 1.0, rtol=1e-9)


def test_mean_interval_without_spread_claims_nothing():
    for values, clusters in (([0.1] * 9, None), ([0.3, 0.4], [0, 0]), ([5.0], None)):
        found = mean_interval(values, clusters)
        np.testing.assert_allclose(found.estimate, np.mean(values))
        assert (found.low, found.high) == (-np.inf, np.inf)
    ranged = mean_interval([0.1] * 9, value_range=(0.0, 1.0))
    assert 0.0 < ranged.low < 0.1 < ranged.high < 0.5


def test_interval_unpacks():
    estimate, low, high = binomial_interval(1, 2)
    assert Interval(estimate, low, high) == binomial_interval(1, 2)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95, np.nan])
def test_level_outside_the_unit_interval(level):
    message = r"`confidence_level` must lie in \(0, 1\)"
    with pytest.raises(ValueError, match=message):
        clustered_interval([[0, 1]], level)
    with pytest.raises(ValueError, match=message):
        binomial_interval(1, 2, level)
    with pytest.raises(ValueError, match=message):
        mean_interval([1.0, 2.0], None, level)


@pytest.mark.parametrize("level", ["0.95", [0.9, 0.95], None])
def test_level_of_another_type(level):
    with pytest.raises(TypeError, match=r"`confidence_level` must be a (single )?number"):
        binomial_interval(1, 2, level)


@pytest.mark.parametrize(
    "outcomes, message",
    [
        ([[0, 2]], "must hold 0 and 1 only; got 2"),
        ([[0.5, 1]], "must hold 0 and 1 only; got 0.5"),
        ([[0, np.nan]], "`outcomes` must not hold NaN"),
        ([0, 1], r"must have shape \(n_releases, n_records\); got shape \(2,\)"),
        (np.zeros((0, 3)), "`outcomes` is empty"),
        (np.zeros((3, 0)), "`outcomes` is empty"),
    ],
)
def test_bad_outcomes(outcomes, message):
    with pytest.raises(ValueError, match=message):
        clustered_interval(outcomes)


def test_outcomes_of_another_type():
    with pytest.raises(TypeError, match="`outcomes` must be a number or an array of numbers"):
        clustered_interval([["right", "wrong"]])


@pytest.mark.parametrize(
    "successes, trials, message",
    [
        (-1, 5, "`successes` must be at least 0; got -1"),
        (0, 0, "`trials` must be at least 1; got 0"),
        (0, -3, "`trials` must be at least 1; got -3"),
        ([1, 6], 5, "`successes` must not be larger than `trials`; got 6 of 5"),
        (0.5, 5, "`successes` must hold whole numbers; got 0.5"),
        (1, np.inf, "`trials` must be finite"),
        (np.nan, 5, "`successes` must not hold NaN"),
        ([], 5, "`successes` is empty"),
        ([1, 2], [3, 4, 5], "Shapes do not broadcast"),
    ],
)
def test_bad_counts(successes, trials, message):
    with pytest.raises(ValueError, match=message):
        binomial_interval(successes, trials)


@pytest.mark.parametrize(
    "values, options, message",
    [
        (3.0, {}, "`values` must have an axis of observations"),
        ([], {}, "`values` is empty"),
        ([1.0, np.nan], {}, "`values` must not hold NaN"),
        ([1.0, np.inf], {}, "`values` must be finite"),
        ([1.0, 2.0], {"clusters": [0]}, "`clusters` must have one label per value"),
        ([1.0, 2.0], {"clusters": [0, np.nan]}, "`clusters` must not hold missing labels"),
        ([1.0, 2.0], {"clusters": ["a", None]}, "`clusters` must not hold missing labels"),
        ([1.0, 2.0], {"value_range": (1.0, 1.0)}, "`value_range` must be a pair"),
        ([1.0, 2.0], {"value_range": (0.0, 1.0, 2.0)}, "`value_range` must be a pair"),
        (
            [0.0, 2.0],
            {"clusters": [0, 0], "value_range": (0.0, 1.0)},
            "`values` must lie in `value_range`",
        ),
    ],
)
def test_bad_values(values, options, message):
    with pytest.raises(ValueError, match=message):
        mean_interval(values, **options)


# What was seen, described as narrowly as the releases allow


@pytest.mark.parametrize("n_releases", [5, 20, 100])
def test_described_intervals_cover_shares_of_many_kinds(n_releases, rng):
    """Normal, binomial near 1, beta-binomial, and all records right or wrong together."""
    size = (2000, n_releases)
    drawn = {
        "even": (np.clip(0.6 + 0.02 * rng.normal(size=size), 0.0, 1.0), 0.6),
        "half": (rng.binomial(200, 0.5, size) / 200, 0.5),
        "high": (rng.binomial(50, 0.99, size) / 50, 0.99),
        "clustered": (rng.binomial(100, rng.beta(18.0, 2.0, size)) / 100, 0.9),
        "together": (rng.binomial(1, 0.9, size) / 1.0, 0.9),
    }
    for shares, true in drawn.values():
        found = mean_interval(shares.T, value_range=(0.0, 1.0), method="korn_graubard")
        missed = np.mean((found.low > true) | (found.high < true))
        # Three standard errors of 2,000 intervals are 0.015.
        assert missed <= 0.05 + 0.015
        assert np.all((found.low >= 0.0) & (found.high <= 1.0))
        assert np.all((found.low <= found.estimate) & (found.estimate <= found.high))


def test_described_intervals_are_as_narrow_as_the_releases_allow(rng):
    """Of even shares Student's; of independent outcomes Clopper and Pearson's."""
    shares = 0.6 + 0.02 * rng.normal(size=20)
    student = mean_interval(shares)
    described, gaffke = (
        mean_interval(shares, value_range=(0.0, 1.0), method=method)
        for method in ("korn_graubard", "gaffke")
    )
    assert np.allclose(described, student, atol=2e-4)
    assert gaffke.high - gaffke.low > 7.0 * (described.high - described.low)
    outcomes = rng.random((4000, 10)) < 0.3
    found = clustered_interval(outcomes, method="korn_graubard")
    exact = binomial_interval(outcomes.sum(), outcomes.size)
    assert np.isclose(found.high - found.low, exact.high - exact.low, rtol=0.08)


def test_described_intervals_without_spread_count_releases():
    for right, ends in ((1.0, (0.025**0.1, 1.0)), (0.0, (0.0, 1.0 - 0.025**0.1))):
        found = clustered_interval(np.full((10, 50), right), method="korn_graubard")
        assert np.allclose(found, (right, *ends))
    half = mean_interval(np.full(10, 0.5), value_range=(0.0, 1.0), method="korn_graubard")
    assert np.allclose(half[1:], binomial_interval(5, 10)[1:])
    single = mean_interval([0.5], value_range=(0.0, 1.0), method="korn_graubard")
    assert single.high - single.low > 0.9
    with pytest.raises(ValueError, match="needs `value_range`"):
        mean_interval([0.5, 0.6], method="korn_graubard")
