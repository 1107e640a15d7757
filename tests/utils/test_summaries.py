"""Summaries of blocks combine in any order, and tell what the numbers themselves do."""

from functools import reduce

import numpy as np
import pytest

from skleak.utils._summaries import Groups, Largest, Moments, Quantiles

LEVELS = np.linspace(0.0, 1.0, 101)


def _in_blocks(summarize, n, generator):
    """Combine the summaries of blocks of chance sizes in an order and a grouping of chance."""
    ends = np.sort(generator.integers(0, n + 1, size=6))
    parts = [summarize(rows) for rows in np.split(np.arange(n), ends)]
    while len(parts) > 1:
        first, second = generator.choice(len(parts), size=2, replace=False)
        both = parts[first].merged(parts[second])
        parts = [part for k, part in enumerate(parts) if k not in (first, second)] + [both]
    return parts[0]


@pytest.fixture
def generator():
    return np.random.default_rng(7)


@pytest.mark.parametrize("law", ["normal", "lognormal", "few", "huge", "constant"])
def test_few_numbers_have_the_quantiles_of_numpy(law, generator):
    values = {
        "normal": generator.normal(size=999),
        "lognormal": generator.lognormal(sigma=3.0, size=1000),
        "few": generator.integers(-3, 4, size=500).astype(float),
        "huge": np.append(10.0 ** generator.uniform(-300, 300, size=200), [0.0, -0.0]),
        "constant": np.full(17, 0.3),
    }[law]
    found = _in_blocks(lambda rows: Quantiles.of(values[rows]), len(values), generator)
    exact = np.quantile(values, LEVELS)
    assert found.relative_error == 0.0
    np.testing.assert_allclose(found.quantile(LEVELS), exact, rtol=1e-15)


@pytest.mark.parametrize("capacity", [4096, 1 << 15])
def test_many_numbers_have_quantiles_within_the_stated_error(capacity, generator):
    values = generator.lognormal(sigma=2.0, size=100_000)
    found = _in_blocks(lambda rows: Quantiles.of(values[rows], capacity), len(values), generator)
    exact = np.quantile(values, LEVELS)
    error = np.abs(found.quantile(LEVELS) - exact) / exact
    assert len(found.bins) <= capacity
    assert 0.0 < found.relative_error < 4.0 / capacity * np.log2(values.max() / values.min())
    assert error.max() <= found.relative_error
    # The error that is stated is no guess: some number is nearly that far off.
    middles = found.values[np.searchsorted(found.values, values).clip(max=len(found.bins) - 1)]
    nearest = np.abs(middles - values) / values
    assert nearest.max() > 0.5 * found.relative_error


def test_the_summary_does_not_depend_on_order_or_grouping(generator):
    values = generator.normal(size=20_000) * 10.0 ** generator.integers(-5, 5, size=20_000)
    whole = Quantiles.of(values, 4096)
    for _ in range(20):
        found = _in_blocks(lambda rows: Quantiles.of(values[rows], 4096), len(values), generator)
        assert found.dropped == whole.dropped > 0
        np.testing.assert_array_equal(found.bins, whole.bins)
        np.testing.assert_array_equal(found.counts, whole.counts)


def test_the_worst_numbers_fit_all_the_same(generator):
    """Attack: numbers of all sizes and signs at once, which need the most bins."""
    values = np.concatenate([s * 10.0 ** generator.uniform(-307, 308, 200_000) for s in (-1, 1)])
    found = Quantiles.of(values, 4096)
    exact = np.quantile(values, [0.1, 0.9])
    assert len(found.bins) <= 4096
    error = np.abs(found.quantile([0.1, 0.9]) / exact - 1.0)
    assert error.max() <= found.relative_error <= 0.5


def test_missing_numbers_are_counted_and_infinite_ones_are_the_largest():
    values = np.array([np.nan, 1.0, np.inf, 2.0, np.nan])
    found = Quantiles.of(values)
    assert (found.n, found.n_missing) == (3, 2)
    np.testing.assert_array_equal(found.quantile([0.0, 0.5, 0.7, 1.0]), [1.0, 2.0, np.inf, np.inf])
    assert np.isnan(Quantiles.of(values[:1]).quantile(0.5))
    many = Quantiles.of(np.append(np.linspace(1.0, 2.0, 5000), [np.inf, -np.inf]), 4096)
    np.testing.assert_array_equal(many.quantile([0.0, 1.0]), [-np.inf, np.inf])


def test_moments_are_those_of_the_table(generator):
    table = generator.normal(size=(1000, 3)) * [1.0, 1e-7, 1e3] + [5.0, 1.0, -1e6]
    for _ in range(5):
        found = _in_blocks(lambda rows: Moments.of(table[rows]), len(table), generator)
        assert found.n == 1000
        np.testing.assert_allclose(found.mean, table.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(found.std, table.std(axis=0), rtol=1e-9)
        np.testing.assert_array_equal(found.smallest, table.min(axis=0))
        np.testing.assert_array_equal(found.largest, table.max(axis=0))


def test_moments_of_infinite_numbers_and_of_none():
    table = np.array([[1.0, 0.0], [np.inf, 0.0], [np.inf, 0.0]])
    parts = [Moments.of(table[k : k + 1]) for k in (0, 1, 2)]
    found = reduce(Moments.merged, [Moments.of(table[:0]), *parts, Moments.of(table[:0])])
    np.testing.assert_array_equal(found.mean, [np.inf, 0.0])
    np.testing.assert_array_equal(found.spread, [np.inf, 0.0])
    assert np.all(np.isnan(Moments.of(table[:0]).mean))


def test_the_largest_are_the_first_of_a_stable_sort(generator):
    score = generator.integers(0, 50, size=2000).astype(float)
    score[::7] = np.nan
    names = np.array([f"person {k}" for k in range(2000)], dtype=object)
    expected = np.argsort(-score, kind="stable")
    for k in (0, 1, 10, 1999, 5000):
        found = _in_blocks(
            lambda rows, k=k: Largest.of(k, score[rows], rows, {"label": names[rows]}),
            len(score),
            generator,
        )
        np.testing.assert_array_equal(found.position, expected[:k])
        assert found.columns["label"].tolist() == names[expected[:k]].tolist()


def test_numbers_of_one_block_stay_numbers_beside_text_of_another():
    labels = np.array([7, 3]), np.array(["7", "a"])
    blocks = [
        Largest.of(3, np.array([2.0, 1.0]) + k, np.arange(2) + 2 * k, {"label": own})
        for k, own in enumerate(labels)
    ]
    assert blocks[0].merged(blocks[1]).columns["label"].tolist() == ["7", 7, "a"]


def test_groups_are_summarized_each_by_itself(generator):
    values, labels = generator.normal(size=300), generator.choice(["a", "b", "rare"], size=300)

    def summarize(rows):
        return Groups.of(labels[rows], lambda inside: Quantiles.of(values[rows][inside]))

    found = _in_blocks(summarize, 300, generator)
    for label, part in found.parts.items():
        assert part.quantile(0.5) == pytest.approx(np.median(values[labels == label]), rel=1e-15)


def test_labels_of_records_are_no_groups():
    with pytest.raises(ValueError, match="few groups"):
        Groups.of(np.arange(20_000), Moments.of)
