import numpy as np
import pytest
from scipy import stats

from skleak.metrics import binomial_interval
from skleak.metrics.verdicts import (
    multiplicity_correction,
    p_value_exceeds,
    simultaneous_confidence_level,
)


def holm_rejections(p, level):
    """The procedure as Holm states it."""
    rejected = np.zeros(len(p), dtype=bool)
    for step, i in enumerate(np.argsort(p)):
        if p[i] > level / (len(p) - step):
            break
        rejected[i] = True
    return rejected


def test_p_value_agrees_with_scipy():
    k, n = np.array([0, 1, 5, 9, 10]), 10
    for bound in (0.0, 0.05, 0.5, 0.93, 1.0):
        expected = [stats.binomtest(int(i), n, bound, "greater").pvalue for i in k]
        np.testing.assert_allclose(p_value_exceeds(k, n, bound), expected, rtol=1e-10, atol=1e-300)


def test_p_value_and_interval_agree():
    # The lower end at 90 percent excludes exactly the bounds with a one-sided p-value below 0.05.
    k = np.arange(1, 31)
    low = binomial_interval(k, 30, 0.9).low
    np.testing.assert_allclose(p_value_exceeds(k, 30, low), 0.05, rtol=1e-9)


def test_p_value_never_rejects_too_often():
    k = np.arange(41)
    for bound in np.linspace(0.01, 0.99, 40):
        p = p_value_exceeds(k, 40, bound)
        assert np.all(np.diff(p) <= 0.0)
        for level in (0.01, 0.05, 0.3):
            assert stats.binom.pmf(k, 40, bound)[p <= level].sum() <= level + 1e-12


def test_p_value_falls_with_success_and_rises_with_the_bound():
    table = p_value_exceeds(np.arange(1, 12)[:, np.newaxis], 20, np.linspace(0.05, 0.6, 9))
    assert table.shape == (11, 9)
    assert np.all(np.diff(table, axis=0) < 0.0)
    assert np.all(np.diff(table, axis=1) > 0.0)
    assert p_value_exceeds(20, 20, 1.7) == 1.0
    assert p_value_exceeds(1, 20, 0.0) == 0.0


def test_bad_bound():
    with pytest.raises(ValueError, match=r"`bound` must be at least 0; got -0\.1"):
        p_value_exceeds(1, 2, -0.1)
    with pytest.raises(ValueError, match="`bound` must not hold NaN"):
        p_value_exceeds(1, 2, np.nan)
    with pytest.raises(ValueError, match="Shapes do not broadcast"):
        p_value_exceeds([1, 2], 2, [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="must not be larger than `trials`"):
        p_value_exceeds(3, 2, 0.5)


@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
def test_holm_rejects_what_the_procedure_rejects(level, rng):
    p = rng.beta(0.3, 2.0, (50, 8))
    p[:, 3] = p[:, 5]
    adjusted = multiplicity_correction(p)
    expected = np.array([holm_rejections(row, level) for row in p])
    np.testing.assert_array_equal(adjusted <= level, expected)
    assert 0 < expected.sum() < expected.size


def test_corrections_are_ordered(rng):
    p = rng.beta(0.3, 2.0, (20, 9))
    holm, bonferroni = multiplicity_correction(p), np.minimum(9 * p, 1.0)
    assert np.all(p <= holm)
    assert np.all(holm <= bonferroni)
    order = np.argsort(p, axis=-1)
    assert np.all(np.diff(np.take_along_axis(holm, order, axis=-1)) >= 0.0)
    false_discovery = stats.false_discovery_control(p, axis=-1)
    assert np.all(false_discovery <= holm + 1e-15)


def test_one_test_needs_no_correction():
    p = np.array([[0.0], [0.04], [1.0]])
    np.testing.assert_allclose(multiplicity_correction(p), p, rtol=1e-14)


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_family_wise_error_under_dependence(shared, rng):
    # True hypotheses only, with a noise common to all: any rejection is a false alarm.
    noise = shared * rng.standard_normal((4000, 1))
    z = noise + np.sqrt(1.0 - shared**2) * rng.standard_normal((4000, 30))
    p = stats.norm.sf(z)
    adjusted = multiplicity_correction(p)
    assert np.mean((adjusted <= 0.1).any(axis=1)) < 0.1 + 4 * np.sqrt(0.09 / 4000)
    if shared == 0.0:
        assert np.mean((p <= 0.1).any(axis=1)) > 0.9


def test_bad_p_values():
    with pytest.raises(ValueError, match=r"`p_values` must lie in \[0, 1\]; got 1.2"):
        multiplicity_correction([0.1, 1.2])
    with pytest.raises(ValueError, match="`p_values` must not hold NaN"):
        multiplicity_correction([0.1, np.nan])
    with pytest.raises(ValueError, match="`p_values` must have an axis of tests"):
        multiplicity_correction(0.1)
    with pytest.raises(ValueError, match="`p_values` is empty"):
        multiplicity_correction([])
    with pytest.raises(TypeError, match="`p_values` must be a number"):
        multiplicity_correction(["low"])


def test_simultaneous_levels():
    assert simultaneous_confidence_level(0.9, 1) == 0.9
    np.testing.assert_allclose(simultaneous_confidence_level(0.9, 20), 0.995)


@pytest.mark.parametrize(
    "level, count, message",
    [
        (1.0, 2, "`confidence_level` must lie in"),
        (0.9, 0, "`n_intervals` must be at least 1"),
        (0.9, 10**17, "needs a level that rounds to 1"),
    ],
)
def test_bad_simultaneous_levels(level, count, message):
    with pytest.raises(ValueError, match=message):
        simultaneous_confidence_level(level, count)
