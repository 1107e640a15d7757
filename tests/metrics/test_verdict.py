import numpy as np
import pytest

from skleak.metrics import binomial_interval, verdict

CONSISTENT, EXCEEDED, VACUOUS = "consistent with the bound", "bound exceeded", "bound vacuous"


@pytest.mark.parametrize(
    "low, high, bound, expected",
    [
        (0.2, 0.3, 0.4, CONSISTENT),
        (0.3, 0.5, 0.4, CONSISTENT),  # only the estimate may be above
        (0.4, 0.5, 0.4, CONSISTENT),
        (0.41, 0.5, 0.4, EXCEEDED),
        (0.1 + 0.2, 0.5, 0.3, CONSISTENT),  # round-off
        (-0.3, -0.2, 0.0, CONSISTENT),
        (1e-9, 0.2, 0.0, EXCEEDED),
        (0.99, 1.0, 1.0, VACUOUS),
        (0.2, 0.3, 1.5, VACUOUS),
        (0.2, 0.3, np.inf, VACUOUS),
        (-np.inf, np.inf, 0.2, CONSISTENT),
    ],
)
def test_upper_bounds(low, high, bound, expected):
    found = verdict(low, high, bound)
    assert type(found) is str
    assert found == expected


@pytest.mark.parametrize(
    "low, high, bound, expected",
    [
        (2.0, 3.0, 1.0, CONSISTENT),
        (0.5, 1.5, 1.0, CONSISTENT),
        (0.5, 0.9, 1.0, EXCEEDED),
        (1e-30, 2e-30, 3e-30, EXCEEDED),  # units are the user's
        (0.5, 0.9, np.inf, EXCEEDED),
        (0.5, 0.9, 0.0, VACUOUS),
        (0.5, np.inf, 1.0, CONSISTENT),
    ],
)
def test_lower_bounds(low, high, bound, expected):
    assert verdict(low, high, bound, side="lower") == expected


def test_verdicts_broadcast():
    found = verdict([[0.1], [0.5]], [[0.2], [0.6]], [0.05, 0.55, 1.0])
    assert found.tolist() == [[EXCEEDED, CONSISTENT, VACUOUS], [EXCEEDED, CONSISTENT, VACUOUS]]
    assert all("safe" not in word for word in found.ravel())


def test_an_attack_at_the_bound_is_rarely_accused(rng):
    successes = rng.binomial(200, 0.6, 5000)
    _, low, high = binomial_interval(successes, 200)
    accused = np.mean(verdict(low, high, 0.6) == EXCEEDED)
    assert accused < 0.025 + 4 * np.sqrt(0.025 / 5000)
    assert np.mean(verdict(low, high, 0.4) == EXCEEDED) > 0.99


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0.5, 0.4, 0.3), "`low` must not be above `high`; got 0.5 and 0.4"),
        ((np.nan, 0.4, 0.3), "`low` must not hold NaN"),
        ((0.1, np.nan, 0.3), "`high` must not hold NaN"),
        ((0.1, 0.2, np.nan), "`bound` must not hold NaN"),
        (([], [], 0.1), "`low` is empty"),
        (([0.1, 0.2], [0.3, 0.4], [1, 2, 3]), "Shapes do not broadcast"),
        ((0.1, 0.2, 0.3, "both"), "`side` must be one of 'upper', 'lower'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        verdict(*arguments)


def test_bound_of_another_type():
    with pytest.raises(TypeError, match="`bound` must be a number"):
        verdict(0.1, 0.2, "high")
