"""What a release of private SGD guarantees: published values, and attacks that know everything."""

import sys

import numpy as np
import pytest

from skleak.accounting import subsampled_gaussian_rdp
from skleak.bounds.priors import advantage_to_success
from skleak.neural.guarantee import SGDGuarantee


def test_theorem_1_is_fed_with_replacement():
    guarantee = SGDGuarantee(1.0 / 1.11522, 0.01, 500)
    # Raw MNIST: pixels from 0 to 1.
    assert guarantee.reconstruction_mse(np.ones(784)) == pytest.approx(0.70, abs=0.01)
    twice = SGDGuarantee(2.0 / 1.11522, 0.01, 500).reconstruction_mse(np.ones(784))
    assert twice == pytest.approx(3.8, abs=0.1)
    wrong = subsampled_gaussian_rdp(1.0 / 1.11522, 0.01, 500, relation="add-or-remove")
    assert guarantee.renyi > 2.0 * wrong


def test_no_unbiased_attack_on_one_number_is_below_theorem_1(rng):
    """The sum of noisy gradients, where the gradient is the number itself, between -1 and 1."""
    sigma, rate, n_steps = 1.5, 0.4, 3
    bound = SGDGuarantee(sigma, rate, n_steps).reconstruction_mse([2.0])
    taken = rng.random((40_000, n_steps)) < rate
    for z in (-1.0, 0.2, 1.0):
        seen = taken * z + sigma * rng.normal(size=taken.shape)
        estimate = seen.mean(axis=1) / rate
        error = (estimate - z) ** 2
        assert error.mean() >= bound - 4.0 * error.std() / np.sqrt(len(error))


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_no_attack_who_knows_all_else_exceeds_the_bounds(rng, sampling):
    """Exact posterior of a gradient among two, and of membership, over some steps."""
    pytest.importorskip("dp_accounting")
    sigma, rate, n_steps, games = 1.2, 0.25, 4, 100_000
    guarantee = SGDGuarantee(sigma, rate, n_steps, sampling)
    # In a batch of a fixed size another record has the place otherwise: here the worst one.
    rest = 0.0 if sampling == "poisson" else -1.0
    for own, other, bound in (
        (1.0, -1.0, guarantee.advantage(2)),
        (1.0, rest, guarantee.membership_advantage()),
    ):
        truth = rng.random(games) < 0.5
        taken = rng.random((games, n_steps)) < rate
        place = np.where(truth[:, None], own, other)
        seen = np.where(taken, place, rest) + sigma * rng.normal(size=taken.shape)

        def log_likelihood(value, seen=seen):
            parts = (np.exp(-0.5 * ((seen - m) / sigma) ** 2) for m in (value, rest))
            present, absent = parts
            return np.log(rate * present + (1.0 - rate) * absent).sum(axis=1)

        right = np.mean((log_likelihood(own) > log_likelihood(other)) == truth)
        allowed = advantage_to_success(bound, 2)
        assert right <= allowed + 4.0 * np.sqrt(0.25 / games)
        assert right > 0.5 + 0.3 * (allowed - 0.5)  # and they are near
    alarms = guarantee.true_positives([0.0, 0.01, 1.0])
    assert alarms[0] < 1e-3
    assert 0.01 < alarms[1] < 0.5
    assert alarms[2] == 1.0
    assert guarantee.true_positives(0.01, membership=True) <= alarms[1] + 1e-12


@pytest.mark.slow
def test_more_noise_and_fewer_steps_guarantee_more():
    pytest.importorskip("dp_accounting")
    usual = SGDGuarantee(1.0, 0.02, 100)
    for better in (
        SGDGuarantee(1.5, 0.02, 100),
        SGDGuarantee(1.0, 0.01, 100),
        SGDGuarantee(1.0, 0.02, 50),
    ):
        assert better.epsilon < usual.epsilon
        assert better.renyi < usual.renyi
        assert better.advantage([0.6, 0.3, 0.1]) <= usual.advantage([0.6, 0.3, 0.1])
        assert better.advantage(10) < usual.advantage(10)
        assert better.membership_advantage(0.5) < usual.membership_advantage(0.5)
    # The training without the record lies between two values.
    assert usual.membership_advantage(0.5) < usual.advantage(2)
    fixed = SGDGuarantee(1.0, 0.02, 100, "fixed")
    assert fixed.epsilon > usual.epsilon
    assert fixed.renyi > usual.renyi


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    guarantee = SGDGuarantee(1.0, 0.02, 100)
    assert guarantee.renyi > 0.0
    for ask in (lambda: guarantee.epsilon, lambda: guarantee.advantage(2)):
        with pytest.raises(ImportError, match=r"pip install 'skleak\[accounting\]'"):
            ask()
