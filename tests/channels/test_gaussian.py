"""The Gaussian channel as users see it: shapes, posteriors, invariances, limits, messages."""

import numpy as np
import pandas as pd
import pytest
from helpers import every, mostly_slow
from scipy.integrate import dblquad, quad
from scipy.special import entr, ndtr
from scipy.stats import multivariate_normal, norm

from skleak.channels import GaussianChannel
from skleak.utils._arguments import make_generator


def play(channel, prior, n, rng):
    """Right guesses of the maximum a posteriori attack in n games."""
    secret = rng.choice(len(prior), size=n, p=prior)
    releases = channel.sample(secret, random_state=rng)
    return np.count_nonzero(channel.bayes_decision(releases, prior) == secret)


def test_likelihood_is_the_normal_density(rng):
    encodings, y = rng.normal(size=(3, 4)), rng.normal(size=(2, 5, 4))
    channel = GaussianChannel(encodings, 0.7)
    expected = np.stack(
        [multivariate_normal(e, 0.49 * np.eye(4)).logpdf(y) for e in encodings], axis=-1
    )
    np.testing.assert_allclose(channel.log_likelihood(y), expected, rtol=1e-12)
    assert channel.log_likelihood(y[0, 0]).shape == (3,)


def test_posterior_is_bayes_rule(rng):
    encodings, prior = rng.normal(size=(3, 4)), np.array([0.2, 0.0, 0.8])
    channel = GaussianChannel(encodings, 0.7)
    y = channel.sample([0, 2, 2, 1], n_releases=6, random_state=rng)
    posterior = channel.posterior(y, prior)
    joint = prior * np.exp(channel.log_likelihood(y))
    np.testing.assert_allclose(posterior, joint / joint.sum(axis=-1, keepdims=True), rtol=1e-10)
    np.testing.assert_allclose(posterior.sum(axis=-1), 1.0, rtol=1e-14)
    assert np.all(posterior[..., 1] == 0)
    np.testing.assert_array_equal(channel.bayes_decision(y, prior), posterior.argmax(axis=-1))


def test_posterior_of_far_releases_does_not_underflow():
    channel = GaussianChannel([[0.0, 0.0], [1.0, 0.0]], 1.0)
    posterior = channel.posterior([[400.0, 1e5], [0.5, -1e5]])
    np.testing.assert_allclose(posterior, [[0.0, 1.0], [0.5, 0.5]], atol=1e-5)


def test_decision_on_one_release_is_an_int():
    channel = GaussianChannel([[0.0], [1.0]], 1.0)
    assert channel.bayes_decision([0.9]) == 1
    assert isinstance(channel.bayes_decision([0.9]), int)


def test_per_record_priors_and_releases(rng):
    encodings, scale = rng.normal(size=(5, 3, 2)), rng.uniform(0.5, 2, size=5)
    prior = rng.dirichlet(np.ones(3), size=5)
    channel = GaussianChannel(encodings, scale)
    y = channel.sample(1, n_releases=7, random_state=rng)
    assert y.shape == (5, 7, 2)
    posterior = channel.posterior(y, prior)
    shared = channel.posterior(y[:, 0], prior[0])
    for i in range(5):
        alone = GaussianChannel(encodings[i], scale[i])
        np.testing.assert_allclose(posterior[i], alone.posterior(y[i], prior[i]), rtol=1e-10)
        np.testing.assert_allclose(shared[i], alone.posterior(y[i, 0], prior[0]), rtol=1e-10)
        np.testing.assert_allclose(channel.log_likelihood(y)[i], alone.log_likelihood(y[i]))


def test_sample_shapes_means_and_scales():
    encodings = np.array([[[0.0, 5.0], [10.0, -5.0]], [[1.0, 1.0], [2.0, 2.0]]])
    channel = GaussianChannel(encodings, [0.5, 3.0])
    y = channel.sample([1, 0], n_releases=20_000, random_state=0)
    assert y.shape == (2, 20_000, 2)
    np.testing.assert_allclose(y.mean(axis=1), [[10.0, -5.0], [1.0, 1.0]], atol=0.1)
    np.testing.assert_allclose(y.std(axis=1), [[0.5, 0.5], [3.0, 3.0]], rtol=0.03)
    per_release = channel.sample(np.array([[0, 1, 1], [1, 0, 0]]), random_state=0)
    assert per_release.shape == (2, 3, 2)
    single = GaussianChannel(encodings[0], 0.5)
    assert single.sample(1, random_state=0).shape == (2,)
    assert single.sample(1, 4, random_state=0).shape == (4, 2)
    assert single.sample([0, 1, 1], random_state=0).shape == (3, 2)


def test_seeds_of_sample():
    channel = GaussianChannel(np.eye(2), 1.0)
    np.testing.assert_array_equal(channel.sample(0, 3, 5), channel.sample(0, 3, 5))
    assert np.any(channel.sample(0, 3) != channel.sample(0, 3))
    generator = make_generator(5)
    assert np.any(channel.sample(0, 3, generator) != channel.sample(0, 3, generator))


@pytest.mark.parametrize("n_values", [2, 3, 4, 6])
def test_bayes_success_is_what_the_attack_reaches(n_values, rng):
    prior = rng.dirichlet(np.full(n_values, 3.0))
    channel = GaussianChannel(rng.normal(size=(n_values, 6)), 1.3)
    value, error = channel.bayes_success(prior, return_standard_error=True)
    n = 60_000
    deviation = np.hypot(np.sqrt(value * (1 - value) / n), error)
    assert abs(play(channel, prior, n, rng) / n - value) < 4.5 * deviation


@pytest.mark.parametrize("n_values", mostly_slow([2, 3, 4, 6], 0, 1, 2))
def test_rotation_translation_permutation_and_units(n_values, rng):
    encodings, prior = rng.normal(size=(n_values, 7)), rng.dirichlet(np.ones(n_values))
    turn = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    order = rng.permutation(n_values)
    reference = GaussianChannel(encodings, 0.9)
    moved = GaussianChannel(3.0 * (encodings @ turn + 10.0)[order], 2.7)
    for name, tolerance in (("bayes_success", 2e-5), ("mutual_information", 1e-3)):
        value, error = getattr(reference, name)(prior, return_standard_error=True)
        other, other_error = getattr(moved, name)(prior[order], return_standard_error=True)
        assert error < tolerance
        assert abs(value - other) < 5 * np.hypot(error, other_error) + 1e-12
    for order_ in (1.0, 2.5):
        assert reference.renyi_divergence(order_) == pytest.approx(moved.renyi_divergence(order_))


@pytest.mark.parametrize("n_values", [2, 3, 4, 6])
def test_limits_of_the_noise(n_values, rng):
    encodings, prior = rng.normal(size=(n_values, 7)), rng.dirichlet(np.ones(n_values))
    channel = GaussianChannel(encodings, [1e-9, 1e12])
    np.testing.assert_allclose(channel.bayes_advantage(prior), [1.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(
        channel.mutual_information(prior), [entr(prior).sum(), 0.0], atol=1e-9
    )
    same = GaussianChannel(np.ones((n_values, 7)), 1.0)
    assert same.bayes_success(prior) == pytest.approx(prior.max(), abs=1e-15)
    assert same.mutual_information(prior) == same.mutual_information_bound(prior) == 0
    assert same.renyi_divergence(np.inf) == 0


def test_leakage_falls_with_the_noise(rng):
    channel = GaussianChannel(rng.normal(size=(3, 4)), np.geomspace(0.05, 20, 30))
    prior = np.array([0.2, 0.3, 0.5])
    assert np.all(np.diff(channel.bayes_advantage(prior)) <= 1e-15)
    assert np.all(np.diff(channel.mutual_information(prior)) <= 1e-12)


def test_a_certain_prior_leaves_nothing_to_gain():
    channel = GaussianChannel(np.eye(3), 0.5)
    assert channel.bayes_success([0.0, 1.0, 0.0]) == 1.0
    assert channel.bayes_advantage([0.0, 1.0, 0.0]) == 0.0
    assert channel.mutual_information([0.0, 1.0, 0.0]) == 0.0
    with pytest.raises(ValueError, match="all its mass"):
        channel.advantage_bounds([0.0, 1.0, 0.0])
    line = GaussianChannel([[0.0], [1.0], [3.0]], 0.5)
    np.testing.assert_array_equal(
        line.bayes_advantage([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), [0.0, 0.0]
    )


def test_priors_of_zero_leave_a_smaller_channel(rng):
    encodings = rng.normal(size=(4, 3))
    whole = GaussianChannel(encodings, 0.8)
    part = GaussianChannel(encodings[[0, 3]], 0.8)
    value, error = whole.bayes_success([0.3, 0.0, 0.0, 0.7], return_standard_error=True)
    assert value == pytest.approx(part.bayes_success([0.3, 0.7]), abs=error + 1e-9)
    value, error = whole.mutual_information([0.3, 0.0, 0.0, 0.7], return_standard_error=True)
    assert value == pytest.approx(part.mutual_information([0.3, 0.7]), abs=5 * error)


def test_rows_of_a_prior_on_one_channel(rng):
    channel = GaussianChannel(rng.normal(size=(3, 4)), 1.0)
    prior = rng.dirichlet(np.ones(3), size=6)
    for name in (
        "bayes_success",
        "bayes_advantage",
        "mutual_information",
        "mutual_information_bound",
    ):
        method = getattr(channel, name)
        np.testing.assert_allclose(method(prior), [method(p) for p in prior], rtol=1e-12)
        assert isinstance(method(prior[0]), float)
        assert method() == method(3) == method(np.full(3, 1 / 3))


@pytest.mark.parametrize("distance", [1e-6, 0.1, 2.0, 8.0, 40.0])
@pytest.mark.parametrize("p", [0.5, 0.01, 1e-9])
def test_information_of_two_values_by_adaptive_quadrature(distance, p):
    # In the form sum_x p_x KL(P_x || P_Y), whose integrands are precise however small.
    def divergence(share, sign):
        def integrand(z):
            ratio = sign * distance * z - distance**2 / 2
            return -norm.pdf(z) * np.log1p((1 - share) * np.expm1(ratio))

        points = np.clip([distance / 2, -distance / 2], -11, 11)
        return quad(integrand, -12, 12, points=points, limit=500, epsabs=1e-12)[0]

    expected = p * divergence(p, 1) + (1 - p) * divergence(1 - p, -1)
    channel = GaussianChannel([[0.0], [distance]], 1.0)
    assert channel.mutual_information([p, 1 - p]) == pytest.approx(expected, abs=1e-11, rel=1e-6)


@pytest.mark.parametrize("scale", [0.3, 1.5, 4.0])
def test_information_in_the_plane_by_adaptive_quadrature(scale):
    points = scale * np.array([[0.0, 0.0], [1.0, 0.2], [-0.4, 0.9]])
    prior = np.array([0.2, 0.5, 0.3])

    def entropy_density(x, y):
        density = prior @ np.exp(-((points - [x, y]) ** 2).sum(axis=1) / 2) / (2 * np.pi)
        return -density * np.log(density)

    low, high = points.min() - 9, points.max() + 9
    entropy = dblquad(entropy_density, low, high, low, high, epsabs=1e-8)[0]
    channel = GaussianChannel(points, 1.0)
    expected = entropy - np.log(2 * np.pi * np.e)
    assert channel.mutual_information(prior) == pytest.approx(expected, abs=2e-8)


@pytest.mark.slow
def test_information_bounds_and_their_order(rng):
    for n_values, dimension in ((2, 3), (3, 3), (5, 2), (5, 8)):
        channel = GaussianChannel(
            rng.normal(size=(40, n_values, dimension)), np.geomspace(0.1, 9, 40)
        )
        prior = rng.dirichlet(np.ones(n_values), size=40)
        exact, error = channel.mutual_information(prior, return_standard_error=True)
        pairwise = channel.mutual_information_bound(prior)
        worst = channel.mutual_information_bound(prior, pairwise=False)
        assert np.all(exact <= pairwise + 4 * error + 1e-9)
        assert np.all(pairwise <= worst + 1e-12)


def test_information_bound_is_theorem_2():
    channel = GaussianChannel([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], 0.8)
    p = np.array([0.2, 0.3, 0.5])
    largest = np.exp(-5.0 / (2 * 0.64))
    expected = -np.sum(p * np.log(p + (1 - p) * largest))
    assert channel.mutual_information_bound(p, pairwise=False) == pytest.approx(expected)
    squared = np.array([[0.0, 1, 4], [1, 0, 5], [4, 5, 0]])
    pairwise = -p @ np.log(np.exp(-squared / (2 * 0.64)) @ p)
    assert channel.mutual_information_bound(p) == pytest.approx(pairwise)


def test_renyi_divergence_is_that_of_gaussians():
    channel = GaussianChannel([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], 2.0)
    matrix = channel.renyi_divergence(3.0, pairwise=True)
    squared = np.array([[0.0, 25, 1], [25, 0, 18], [1, 18, 0]]) / 4
    np.testing.assert_allclose(matrix, 3 * squared / 2, atol=1e-14)
    np.testing.assert_allclose(channel.renyi_divergence([1.0, 2.0]), [25 / 8, 25 / 4])
    assert channel.renyi_divergence(np.inf) == np.inf
    log_ratio = norm(0, 2).logpdf, norm(5, 2).logpdf
    numeric = quad(lambda t: np.exp(3 * log_ratio[0](t) - 2 * log_ratio[1](t)), -60, 60)[0]
    assert channel.renyi_divergence(3.0) == pytest.approx(np.log(numeric) / 2, rel=1e-6)
    batch = GaussianChannel(np.stack([np.eye(3), 2 * np.eye(3)]), 1.0)
    assert batch.renyi_divergence([1.0, 2.0]).shape == (2, 2)
    assert batch.renyi_divergence([1.0, 2.0], pairwise=True).shape == (2, 2, 3, 3)


def test_inputs_are_copied_and_kept():
    encodings = np.eye(3)
    channel = GaussianChannel(encodings, 1.0)
    before = channel.bayes_success()
    encodings[0, 0] = 100.0
    assert channel.bayes_success() == before
    with pytest.raises(ValueError, match="read-only"):
        channel.encodings[0, 0] = 1.0
    frame = pd.DataFrame(np.eye(3, dtype=int))
    assert GaussianChannel(frame, 1).bayes_success() == before


def test_global_random_state_is_untouched(rng):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    channel = GaussianChannel(rng.normal(size=(5, 4)), 1.0, tolerance=1e-3)
    channel.sample(0)
    channel.bayes_success()
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_thousands_of_records(rng):
    encodings = 0.2 * rng.normal(size=(5000, 2, 40))
    prior = rng.dirichlet(np.ones(2), size=5000)
    distance = np.linalg.norm(encodings[:, 0] - encodings[:, 1], axis=1)
    shift = np.log(prior[:, 1] / prior[:, 0]) / distance
    expected = prior[:, 0] * ndtr(distance / 2 - shift) + prior[:, 1] * ndtr(distance / 2 + shift)
    channel = GaussianChannel(encodings, 1.0)
    np.testing.assert_allclose(channel.bayes_success(prior), expected, atol=1e-12)
    assert "5000" in repr(channel)


CHANNEL = GaussianChannel(np.eye(3), 1.0)
RECORDS = GaussianChannel(np.ones((4, 3, 2)) * np.arange(3.0)[:, None], 1.0)


@every(
    "call, error, message",
    [
        (lambda: GaussianChannel([[1.0, 2.0]], 1.0), ValueError, "M >= 2; got shape"),
        (lambda: GaussianChannel(np.empty((2, 0)), 1.0), ValueError, "M >= 2; got shape"),
        (lambda: GaussianChannel([0.0, 1.0], 1.0), ValueError, "`encodings` must have shape"),
        (lambda: GaussianChannel([[0.0], [np.inf]], 1.0), ValueError, "`encodings` must be finite"),
        (lambda: GaussianChannel([["a"], ["b"]], 1.0), TypeError, "an array of numbers"),
        (
            lambda: GaussianChannel(np.eye(2), 0.0),
            ValueError,
            "`noise_scale` must be above 0 and finite; got 0",
        ),
        (lambda: GaussianChannel(np.eye(2), [1.0, -2.0]), ValueError, "above 0 and finite; got -2"),
        (lambda: GaussianChannel(np.eye(2), []), ValueError, "`noise_scale` is empty"),
        (lambda: GaussianChannel(np.eye(2), np.inf), ValueError, "and finite; got inf"),
        (lambda: GaussianChannel(np.ones((3, 2, 2)), [1.0, 2.0]), ValueError, "one entry for each"),
        (lambda: GaussianChannel(np.eye(2), 1e-300), ValueError, "within 1e150 noise scales"),
        (lambda: GaussianChannel(np.eye(2), 1.0, tolerance=0.0), ValueError, "`tolerance`"),
        (lambda: CHANNEL.bayes_success([0.5, 0.43, 0.0]), ValueError, r"sum to 1; got 0\.93"),
        (lambda: CHANNEL.bayes_success([1.1, -0.1, 0.0]), ValueError, "`prior` must be at least 0"),
        (lambda: CHANNEL.bayes_success([0.5, 0.5]), ValueError, r"shape \(3,\) or \(n, 3\)"),
        (lambda: CHANNEL.bayes_success(np.ones((2, 2, 3)) / 3), ValueError, r"or \(n, 3\)"),
        (lambda: CHANNEL.bayes_success([np.nan, 1.0, 0.0]), ValueError, "and finite; got nan"),
        (lambda: CHANNEL.bayes_success(4), ValueError, "must equal the channel's 3; got 4"),
        (lambda: CHANNEL.bayes_success(["a", "b", "c"]), TypeError, "`prior` must be a number"),
        (
            lambda: RECORDS.bayes_success(np.full((2, 3), 1 / 3)),
            ValueError,
            "each of the 4 records",
        ),
        (lambda: CHANNEL.log_likelihood([1.0, 2.0]), ValueError, "dimension of the encodings"),
        (lambda: RECORDS.log_likelihood([[1.0, 2.0]]), ValueError, "first axis of length 4"),
        (
            lambda: GaussianChannel(np.ones((2, 3, 2)), 1.0).log_likelihood([1.0, 2.0]),
            ValueError,
            "first axis of length 2",
        ),
        (lambda: GaussianChannel([[0.0], [1e300]], 1e-300), ValueError, "within 1e150 .* got inf"),
        (lambda: RECORDS.sample([0, 1]), ValueError, "`secret` must have a first axis"),
        (lambda: CHANNEL.sample(3), ValueError, r"`secret` must lie in 0, \.\.\., 2; got 3"),
        (lambda: CHANNEL.sample(0.5), TypeError, "`secret` must hold integers"),
        (lambda: CHANNEL.sample(0, n_releases=-1), ValueError, "`n_releases` must not be negative"),
        (lambda: CHANNEL.renyi_divergence(0.0), ValueError, "`order` must be positive"),
        (lambda: CHANNEL.renyi_divergence(np.ones((2, 2))), ValueError, "number or a vector"),
        (
            lambda: CHANNEL.posterior(np.zeros((2, 3)), np.full((4, 3), 1 / 3)),
            ValueError,
            "`prior` has 4 rows",
        ),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()
