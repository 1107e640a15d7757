import numpy as np
import pandas as pd
import pytest

from skleak.metrics import error_decomposition
from skleak.metrics.scores import (
    attack_success,
    squared_errors,
)

ENCODINGS = {
    "numbers": [1, 2],
    "floats": [0.5, -1.0],
    "booleans": [False, True],
    "strings": ["no", "yes"],
    "objects": np.array(["no", "yes"], dtype=object),
    "mixed": np.array(["no", 1], dtype=object),
    "dates": np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"),
}


@pytest.mark.parametrize("values", ENCODINGS.values(), ids=ENCODINGS)
def test_outcomes_do_not_depend_on_the_encoding(values, rng):
    guesses, secrets = rng.integers(0, 2, (5, 7)), rng.integers(0, 2, 7)
    values = np.asarray(values)
    found = attack_success(values[guesses], values[secrets])
    assert found.dtype == bool
    np.testing.assert_array_equal(found, guesses == secrets)


def test_outcomes_of_pandas_columns():
    secrets = pd.Series(["a", "b", "a"], dtype="category")
    guesses = pd.Series(["a", "a", "a"], index=[7, 8, 9])
    assert attack_success(guesses, secrets).tolist() == [[True, False, True]]


def test_secrets_may_be_redrawn():
    guesses = [[0, 1], [1, 1], [0, 0]]
    found = attack_success(guesses, [[0, 0], [1, 0], [1, 0]])
    assert found.tolist() == [[True, False], [True, False], [False, True]]


@pytest.mark.parametrize(
    "guesses, secrets, message",
    [
        ([[0, 1]], [0, 1, 1], r"`secrets` must have shape \(2,\) or \(1, 2\)"),
        (np.zeros((2, 2, 2)), np.zeros(2), r"`guesses` must have shape .* got shape \(2, 2, 2\)"),
        ([], [], "`guesses` must .* not be empty"),
        ([0.0, np.nan], [0.0, 1.0], "`guesses` must not hold missing values"),
        (["a", "b"], np.array(["a", None], dtype=object), "`secrets` must not hold missing"),
        (["a", "b"], pd.Series(["a", pd.NA], dtype=object), "`secrets` must not hold missing"),
        (["a", "b"], pd.Series(["a", None], dtype="category"), "`secrets` must not hold missing"),
    ],
)
def test_bad_guesses(guesses, secrets, message):
    with pytest.raises(ValueError, match=message):
        attack_success(guesses, secrets)


@pytest.mark.parametrize("secrets", [["0", "1"], np.array(["0", "1"], dtype=object)])
def test_guesses_of_another_kind(secrets):
    with pytest.raises(TypeError, match="`guesses` hold numbers and `secrets` hold strings"):
        attack_success([0, 1], secrets)


def test_objects_are_compared_by_equality():
    days = pd.to_datetime(["2020-01-01", "2021-01-01"])
    found = attack_success(np.array(days), np.array(list(days), dtype=object))
    assert found.tolist() == [[True, True]]


def test_squared_errors(rng):
    estimates, targets = rng.normal(size=(3, 4, 5)), rng.normal(size=(4, 5))
    found = squared_errors(estimates, targets)
    for r, i in np.ndindex(3, 4):
        difference = estimates[r, i] - targets[i]
        np.testing.assert_allclose(found[r, i], difference @ difference / 5)
    redrawn = squared_errors(estimates, np.tile(targets, (3, 1, 1)))
    np.testing.assert_array_equal(redrawn, found)
    np.testing.assert_allclose(squared_errors(estimates[..., 0], targets[:, 0]).shape, (3, 4))


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3)])
def test_decomposition_is_exact(shape, rng):
    estimates, targets = 2.0 + rng.normal(size=shape), rng.normal(size=shape[1:])
    found = error_decomposition(estimates, targets)
    errors = estimates - targets
    np.testing.assert_allclose(found.mse, squared_errors(estimates, targets).mean(axis=0))
    np.testing.assert_allclose(
        found.variance, errors.var(axis=0, ddof=1).reshape(4, -1).mean(axis=1)
    )
    np.testing.assert_allclose(found.mse, found.variance + found.squared_bias)
    np.testing.assert_allclose(found.bias, errors.mean(axis=0))
    np.testing.assert_allclose(found.bias_se, errors.std(axis=0, ddof=1) / np.sqrt(6))
    assert found.mse.shape == (4,)


@pytest.mark.parametrize("shape", [(7, 2), (7, 2, 3)])
def test_standard_errors_are_the_jackknife(shape, rng):
    estimates, targets = rng.gamma(2.0, size=shape), np.zeros(shape[1:])
    found = error_decomposition(estimates, targets)
    for name in ("mse", "variance", "squared_bias"):
        left = np.array(
            [
                getattr(error_decomposition(np.delete(estimates, r, axis=0), targets), name)
                for r in range(7)
            ]
        )
        expected = np.sqrt(6 / 7 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
        np.testing.assert_allclose(getattr(found, name + "_se"), expected, rtol=1e-10)
    scores = squared_errors(estimates, targets)
    np.testing.assert_allclose(found.mse_se, scores.std(axis=0, ddof=1) / np.sqrt(7))


@pytest.mark.parametrize("offset", [0.0, 0.8])
def test_decomposition_and_its_standard_errors_by_simulation(offset, rng):
    # Many records are as many repetitions of one experiment with 25 releases, 2 coordinates.
    repetitions, n, scale = 20_000, 25, np.array([1.0, 0.5])
    errors = np.array([offset, 0.0]) + scale * rng.standard_normal((n, repetitions, 2))
    found = error_decomposition(errors, np.zeros((repetitions, 2)))
    truth = {"variance": 0.625, "squared_bias": offset**2 / 2}
    truth["mse"] = sum(truth.values())
    for name, value in truth.items():
        draws, claimed = getattr(found, name), getattr(found, name + "_se")
        actual = draws.std()
        assert abs(draws.mean() - value) < 5 * actual / np.sqrt(repetitions)
        ratio = np.sqrt(np.mean(claimed**2)) / actual
        assert 0.98 < ratio < 1.45
        if name != "squared_bias" or offset:
            assert ratio < 1.06


@pytest.mark.parametrize(
    "estimates, targets, message",
    [
        (np.zeros(3), 0.0, r"`estimates` must have shape \(n_releases, n_records\)"),
        (np.zeros((3, 2)), np.zeros(3), r"`targets` must have shape \(2,\) or \(3, 2\)"),
        (np.zeros((3, 0)), np.zeros(0), "`estimates` is empty"),
        ([[np.nan]], [0.0], "`estimates` must not hold NaN"),
        ([[0.0]], [np.inf], "`targets` must be finite"),
    ],
)
def test_bad_estimates(estimates, targets, message):
    with pytest.raises(ValueError, match=message):
        squared_errors(estimates, targets)
    with pytest.raises(ValueError, match=message):
        error_decomposition(estimates, targets)


def test_too_few_releases():
    with pytest.raises(ValueError, match="at least 3 releases for standard errors; got 2"):
        error_decomposition(np.zeros((2, 4)), np.zeros(4))
