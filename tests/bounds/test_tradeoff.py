import numpy as np
import pytest
from helpers import mostly_slow
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import qmc

from skleak.bounds import (
    fano_advantage,
    gaussian_tradeoff_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    tradeoff_advantage,
)
from skleak.bounds._tradeoff import _best_center
from skleak.channels import GaussianChannel


def bayes_one_hot(size, scale, prior):
    """Exact Bayes advantage on one-hot encodings, a one-dimensional integral per value."""
    t = np.linspace(-10.0, 10.0 + 1 / scale, 4001)
    log_p = np.log(prior)
    success = 0.0
    for m in range(size):
        others = np.delete(log_p, m)
        levels = t[:, None] + 1 / scale + scale * (log_p[m] - others)
        density = np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
        success += prior[m] * (density * ndtr(levels).prod(axis=1)).sum() * (t[1] - t[0])
    return (success - prior.max()) / (1 - prior.max())


def bayes_by_sampling(encodings, prior, rng, n=40_000):
    """Mean of the largest posterior probability over draws of the release; and its error."""
    success = variance = 0.0
    for m, p in enumerate(prior):
        release = encodings[m] + rng.standard_normal((n, encodings.shape[1]))
        square = ((release[:, None] - encodings) ** 2).sum(axis=2)
        log_joint = np.log(prior) - 0.5 * square
        largest = log_joint.max(axis=1, keepdims=True)
        posterior = 1 / np.exp(log_joint - largest).sum(axis=1)
        success += p * posterior.mean()
        variance += p**2 * posterior.var() / n
    rest = 1 - prior.max()
    return (success - prior.max()) / rest, np.sqrt(variance) / rest


def test_published_point_of_ten_one_hot_encodings():
    bayes = bayes_one_hot(10, 1.0, np.full(10, 0.1))
    assert bayes == pytest.approx(0.2677, abs=5e-5)
    center = np.full(10, 0.1)
    plain = tradeoff_advantage(np.eye(10), 1.0, 10, center, refine=False)
    assert plain == pytest.approx(0.29957, abs=1e-5)
    assert bayes <= tradeoff_advantage(np.eye(10), 1.0, 10) <= 1.03 * bayes
    # Mutual information of that channel; the mean of the true coordinate is known to be 1.
    release = ndtri(qmc.Sobol(10, seed=0).random(2**15)) + np.eye(10)[0]
    information = np.log(10) + 1.0 - logsumexp(release, axis=1).mean()
    assert fano_advantage(information, 10) == pytest.approx(0.3988, abs=1e-4)
    orders = np.linspace(1.05, 3.0, 400)
    ladder = [
        bayes,
        plain,
        fano_advantage(information, 10),
        renyi_fano_advantage(orders, orders, 10),
        reconstruction_robustness_advantage(orders, orders, 10),
    ]
    assert ladder == sorted(ladder)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 10, 30])
def test_equidistant_encodings_stay_close_to_bayes(size, rng):
    for prior in (np.full(size, 1 / size), rng.dirichlet(5 * np.ones(size))):
        for scale in (0.4, 1.0, 3.0):
            bayes = bayes_one_hot(size, scale, prior)
            bound = tradeoff_advantage(np.eye(size), scale, prior)
            assert bound >= bayes - 1e-12
            if bayes > 1e-3:
                assert bound <= 1.1 * bayes


@pytest.mark.slow
def test_never_below_simulated_bayes(rng):
    for size, dimension in ((3, 2), (4, 4), (6, 2), (8, 20)):
        encodings = 1.3 * rng.standard_normal((size, dimension))
        prior = rng.dirichlet(3 * np.ones(size))
        bayes, error = bayes_by_sampling(encodings, prior, rng)
        refined = tradeoff_advantage(encodings, 1.0, prior)
        plain = tradeoff_advantage(encodings, 1.0, prior, refine=False)
        assert bayes - 4 * error <= refined <= plain


@pytest.mark.slow
def test_any_centre_is_valid_and_the_optimized_one_is_best(rng):
    encodings, prior = rng.standard_normal((5, 3)), rng.dirichlet(3 * np.ones(5))
    bayes, error = bayes_by_sampling(encodings, prior, rng)
    best = tradeoff_advantage(encodings, 1.0, prior, refine=False)
    for center in rng.standard_normal((20, 3)):
        refined = tradeoff_advantage(encodings, 1.0, prior, center)
        plain = tradeoff_advantage(encodings, 1.0, prior, center, refine=False)
        assert bayes - 4 * error <= refined <= plain
        assert plain >= best
    center = _best_center(encodings[None], prior[None])[0]
    distances = np.linalg.norm(encodings - center, axis=1)
    again = tradeoff_advantage(encodings, 1.0, prior, center, refine=False)
    assert again == pytest.approx(gaussian_tradeoff_advantage(distances, prior), abs=1e-12)
    assert again == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
def test_only_the_geometry_counts(rng):
    encodings, prior = rng.standard_normal((4, 3)), rng.dirichlet(np.ones(4))
    reference = tradeoff_advantage(encodings, 0.5, prior)
    rotation = np.linalg.qr(rng.standard_normal((200, 3)))[0]
    moved = 10.0 * encodings @ rotation.T + rng.standard_normal(200)
    assert tradeoff_advantage(moved, 5.0, prior) == pytest.approx(reference, rel=1e-4)
    order = rng.permutation(4)
    assert tradeoff_advantage(encodings[order], 0.5, prior[order]) == pytest.approx(
        reference, rel=1e-3
    )


@pytest.mark.slow
def test_monotone_in_the_noise():
    scale = np.geomspace(0.1, 20.0, 60)
    for encodings in (np.eye(4), np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 2.0]])):
        for refine in (False, True):
            bound = tradeoff_advantage(encodings, scale, len(encodings), refine=refine)
            assert np.all(np.diff(bound) <= 1e-12)
            assert bound[0] == pytest.approx(1.0, abs=1e-3)


def test_no_difference_no_advantage_and_no_noise_full_advantage():
    assert tradeoff_advantage(np.ones((3, 4)), 1.0, [0.5, 0.3, 0.2]) == 0.0
    assert tradeoff_advantage(np.eye(3), 1e-4, 3) == 1.0
    assert tradeoff_advantage(1e-9 * np.eye(3), 1.0, 3) < 1e-8
    # Two of three encodings coincide: the best guess is then the likelier of the two.
    encodings = np.array([[0.0], [1.0], [1.0]])
    bound = tradeoff_advantage(encodings, 1e-3, [0.4, 0.35, 0.25])
    assert bound == pytest.approx((0.4 + 0.35 - 0.4) / 0.6, rel=1e-4)


@pytest.mark.slow
def test_batches_of_channels_equal_single_ones(rng):
    encodings = rng.standard_normal((7, 4, 9))
    prior, scale = rng.dirichlet(np.ones(4), 7), rng.uniform(0.3, 2.0, 7)
    together = tradeoff_advantage(encodings, scale, prior)
    assert together.shape == (7,)
    for i in range(7):
        alone = tradeoff_advantage(encodings[i], scale[i], prior[i])
        assert isinstance(alone, float)
        assert together[i] == pytest.approx(alone, abs=1e-9)
    assert tradeoff_advantage(encodings[0], scale, 4).shape == (7,)
    assert tradeoff_advantage(encodings[0], 1.0, prior).shape == (7,)
    scales = scale[:, None, None]
    centers = scale[:, None] * _best_center(encodings / scales, prior)
    again = tradeoff_advantage(encodings, scale, prior, centers)
    np.testing.assert_allclose(again, together, rtol=1e-5)


@pytest.mark.parametrize("dimension", mostly_slow([2, 4], 0))
def test_a_value_far_out_hides_none_of_the_others(dimension, rng):
    """Between near values the attack is as good, whether another is 1e3 or 1e18 noises away."""
    encodings, prior = rng.normal(size=(5, dimension)), rng.dirichlet(np.full(5, 5.0))
    near = GaussianChannel(encodings[1:], 1.0).bayes_success(prior[1:] / prior[1:].sum())
    exact = prior[0] + (1.0 - prior[0]) * near
    exact = (exact - prior.max()) / (1.0 - prior.max())
    for center in (None, encodings[2]):
        encodings[0, 0] = 1e3
        expected = tradeoff_advantage(encodings, 1.0, prior, center)
        assert expected >= exact - 1e-6
        for far in (1e7, 1e9, 1e12, 1e18):
            encodings[0, :2] = far, -far
            found = tradeoff_advantage(encodings, 1.0, prior, center)
            assert found >= exact - 1e-6
            assert found == pytest.approx(expected, abs=1e-4)
            success = GaussianChannel(encodings, 1.0).bayes_success(prior)
            assert success == pytest.approx(prior[0] + (1.0 - prior[0]) * near, abs=1e-4)


def test_inputs_are_not_modified(rng):
    encodings, prior = rng.standard_normal((2, 3, 4)), rng.dirichlet(np.ones(3), 2)
    kept = encodings.copy(), prior.copy()
    tradeoff_advantage(encodings, 1.0, prior)
    np.testing.assert_array_equal(encodings, kept[0])
    np.testing.assert_array_equal(prior, kept[1])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_two_values_equal_bayes(data):
    first = data.draw(st.floats(0.02, 0.98))
    gap = data.draw(st.floats(1e-3, 20.0))
    prior = np.array([first, 1 - first])
    shift = np.log(prior[1] / prior[0]) / gap
    success = prior[0] * ndtr(gap / 2 - shift) + prior[1] * ndtr(gap / 2 + shift)
    bayes = (success - prior.max()) / prior.min()
    bound = tradeoff_advantage([[0.0, 1.0], [0.0, 1.0 + gap]], 1.0, prior)
    assert bound == pytest.approx(bayes, abs=1e-11)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tradeoff_advantage(np.eye(3), 0.0, 3), "`noise_scale` must be above 0"),
        (lambda: tradeoff_advantage(np.eye(3), -1.0, 3), "`noise_scale` must be above 0"),
        (lambda: tradeoff_advantage(np.eye(3), np.inf, 3), "`noise_scale` must be above 0"),
        (lambda: tradeoff_advantage(np.eye(3), np.nan, 3), "`noise_scale` must be above 0"),
        (lambda: tradeoff_advantage(np.ones(3), 1.0, 3), "`encodings` must have shape"),
        (lambda: tradeoff_advantage(np.ones((1, 3)), 1.0, 3), "`encodings` must have shape"),
        (lambda: tradeoff_advantage([[np.inf], [0]], 1.0, 2), "`encodings` must be finite"),
        (lambda: tradeoff_advantage([[np.nan], [0]], 1.0, 2), "`encodings` must not hold NaN"),
        (lambda: tradeoff_advantage(np.eye(3), 1.0, 4), "`prior` has 4 values but `encodings`"),
        (lambda: tradeoff_advantage(np.eye(3), 1.0, [0.5, 0.5]), "has 2 values but"),
        (lambda: tradeoff_advantage(np.ones((2, 3, 4)), [1.0] * 3, 3), "do not broadcast"),
        (lambda: tradeoff_advantage(np.eye(3), np.ones((2, 2)), 3), "One batch axis is allowed"),
        (lambda: tradeoff_advantage(np.eye(3), 1.0, 3, [0.0, 1.0]), "`center` must have shape"),
        (lambda: tradeoff_advantage(np.eye(2), 1.0, 2, [0, np.inf]), "`center` must be finite"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
