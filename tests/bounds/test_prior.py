import numpy as np
import pytest

from skleak.bounds import fano_advantage
from skleak.bounds.priors import advantage_to_success, parse_prior, success_to_advantage


def test_conversions_invert_each_other(rng):
    prior = rng.dirichlet(np.ones(4), 50)
    success = rng.uniform(0.0, 1.0, 50)
    advantage = success_to_advantage(success, prior)
    np.testing.assert_allclose(advantage_to_success(advantage, prior), success, atol=1e-12)
    np.testing.assert_allclose(advantage, (success - prior.max(1)) / (1 - prior.max(1)))


def test_landmarks_and_return_types():
    prior = [0.6, 0.3, 0.1]
    assert success_to_advantage(0.6, prior) == 0.0
    assert success_to_advantage(1.0, prior) == pytest.approx(1.0)
    assert isinstance(success_to_advantage(1.0, prior), float)
    assert success_to_advantage([0.2, 1.0], 5).shape == (2,)


def test_the_rest_keeps_its_digits():
    parsed = parse_prior([1e-18, 1.0, 2e-18])
    assert float(parsed.rest) == pytest.approx(3e-18, rel=1e-12)


def test_an_integer_is_the_uniform_prior():
    table, number = parse_prior(np.full(7, 1 / 7)), parse_prior(np.int64(7))
    assert float(table.largest) == pytest.approx(float(number.largest))
    assert float(table.rest) == pytest.approx(float(number.rest))
    assert float(parse_prior(np.array(7)).n_values) == 7.0
    assert float(parse_prior(10**10).largest) == 1e-10


def test_single_precision_priors_are_accepted():
    prior = np.array([0.1] * 10, dtype=np.float32)
    assert fano_advantage(0.5, prior) == pytest.approx(fano_advantage(0.5, 10), abs=1e-6)


def test_inputs_are_not_modified():
    prior = np.array([0.5, 0.25, 0.25])
    kept = prior.copy()
    fano_advantage(np.array([0.1]), prior)
    np.testing.assert_array_equal(prior, kept)


@pytest.mark.parametrize(
    "prior, error, message",
    [
        ([0.5, 0.4], ValueError, r"must sum to 1; got 0.9.*prior / prior.sum\(\)"),
        ([3, 5], ValueError, r"must sum to 1; got 8"),
        ([[0.5, 0.5], [0.2, 0.2]], ValueError, r"must sum to 1; got 0.4"),
        ([1.2, -0.2], ValueError, "must be non-negative; got an entry -0.2"),
        ([0.5, np.nan], ValueError, "must not hold NaN"),
        ([1.0], ValueError, "at least 2 values along its last axis"),
        ([1.0, 0.0], ValueError, "all its mass on one value"),
        (1, ValueError, r"must lie in \[2, 1e300\]; got 1"),
        (-3, ValueError, r"must lie in \[2, 1e300\]; got -3"),
        (10**301, ValueError, r"must lie in \[2, 1e300\]"),
        (2.5, TypeError, "an integer M >= 2"),
        (True, TypeError, "an integer M >= 2"),
        (None, TypeError, "an integer M >= 2"),
        ("uniform", TypeError, "an integer M >= 2"),
        (["a", "b"], TypeError, "must be a number or an array of numbers; got list"),
    ],
)
def test_invalid_priors_say_what_is_wrong(prior, error, message):
    with pytest.raises(error, match=message):
        fano_advantage(0.1, prior)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: success_to_advantage(1.1, 2), r"`success` must lie in \[0, 1\]; got 1.1"),
        (lambda: success_to_advantage("x", 2), "`success` must be a number"),
        (lambda: advantage_to_success(1.5, 2), "`advantage` must lie in"),
        (lambda: advantage_to_success(-1.5, 2), "`advantage` must lie in"),
        (lambda: success_to_advantage([0.1] * 3, [[0.5, 0.5]] * 2), "Shapes do not broadcast"),
    ],
)
def test_invalid_conversions_say_what_is_wrong(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
