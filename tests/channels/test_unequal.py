"""The Gaussian channel with unequal covariances: exact values, simulated attacks, limits."""

import numpy as np
import pytest
from helpers import mostly_slow
from numpy.testing import assert_allclose
from scipy import integrate, stats

from skleak.channels import GaussianChannel
from skleak.channels.gaussian._integrals import (
    Hypotheses,
)
from skleak.channels.gaussian._integrals import (
    unequal_interval_success as interval_success,
)
from skleak.channels.gaussian._unequal import UnequalGaussianChannel


def _covariance(rng, d, size=1.0):
    root = rng.normal(size=(d, d))
    return size * (root @ root.T + 0.3 * np.eye(d))


def _random(rng, n_values, d, gap=1.0):
    covariances = np.array([_covariance(rng, d) for _ in range(n_values)])
    return UnequalGaussianChannel(gap * rng.normal(size=(n_values, d)), covariances)


def _low_rank(rng, n_values, d, normalized):
    """As with the squared loss: ``C_m`` the inverse of ``H + x_m x_m^T``, perhaps normalized."""
    X = rng.normal(size=(3 * d, d))
    rest, records = X.T @ X, 1.5 * rng.normal(size=(n_values, d))
    hessians = rest + records[:, :, None] * records[:, None, :]
    A = np.linalg.inv(hessians)
    means = np.einsum("mij,mj->mi", A, records) * rng.normal(size=(n_values, 1)) * 2.0
    if normalized:
        A = A * (np.trace(A[0]) / np.trace(A, axis1=1, axis2=2))[:, None, None]
    return UnequalGaussianChannel(means, A)


def _simulated(channel, prior, rng, n=40_000):
    """Share of right guesses of the MAP attack, by scipy's densities; and its standard error."""
    secret = rng.choice(channel.n_values, size=n, p=prior)
    releases = np.empty((n, channel.means.shape[1]))
    for m in range(channel.n_values):
        chosen = secret == m
        root = np.linalg.cholesky(channel.covariances[m])
        noise = rng.normal(size=(chosen.sum(), len(root)))
        releases[chosen] = channel.means[m] + noise @ root.T
    likelihood = np.column_stack(
        [
            stats.multivariate_normal(mean, covariance).logpdf(releases)
            for mean, covariance in zip(channel.means, channel.covariances, strict=True)
        ]
    )
    assert_allclose(channel.log_likelihood(releases), likelihood, rtol=1e-9, atol=1e-8)
    guess = (likelihood + np.log(prior)).argmax(axis=1)
    right = np.mean(guess == secret)
    assert np.mean(channel.bayes_decision(releases, prior) == secret) == pytest.approx(right)
    return right, np.sqrt(right * (1.0 - right) / n)


@pytest.mark.slow
@pytest.mark.parametrize("n_values, d", [(2, 1), (2, 4), (3, 2), (5, 6), (10, 3)])
def test_the_bayes_value_is_that_of_simulated_attacks(rng, n_values, d):
    channel = _random(rng, n_values, d)
    prior = rng.dirichlet(np.full(n_values, 3.0))
    value, error = channel.bayes_success(prior, return_standard_error=True)
    right, noise = _simulated(channel, prior, rng)
    assert error <= 1e-3
    assert abs(right - value) <= 4.0 * np.hypot(noise, error)


@pytest.mark.slow
@pytest.mark.parametrize("normalized", mostly_slow([False, True], 1))
@pytest.mark.parametrize("n_values, d", mostly_slow([(2, 12), (3, 30), (2, 100)], 1))
def test_low_rank_differences_are_reduced_exactly(rng, n_values, d, normalized):
    channel = _low_rank(rng, n_values, d, normalized)
    hypotheses = channel._hypotheses[0]
    assert hypotheses.means.shape[1] == n_values
    assert hypotheses.n_rest == (d - n_values if normalized else 0)
    # Divergences in few dimensions are those in all.
    for x in range(n_values):
        for other in range(n_values):
            P, Q = channel.covariances[x], channel.covariances[other]
            gap = channel.means[x] - channel.means[other]
            expected = 0.5 * (
                np.trace(np.linalg.solve(Q, P))
                - d
                + gap @ np.linalg.solve(Q, gap)
                + np.linalg.slogdet(Q)[1]
                - np.linalg.slogdet(P)[1]
            )
            found = channel.renyi_divergence(1.0, pairwise=True)[x, other]
            assert found == pytest.approx(expected, rel=1e-7, abs=1e-9)
    prior = rng.dirichlet(np.full(n_values, 3.0))
    value, error = channel.bayes_success(prior, return_standard_error=True)
    right, noise = _simulated(channel, prior, rng)
    assert error <= 1e-3
    assert abs(right - value) <= 4.0 * np.hypot(noise, error)


@pytest.mark.slow
def test_equal_covariances_are_a_gaussian_channel(rng):
    covariance = _covariance(rng, 4)
    root = np.linalg.cholesky(covariance)
    for n_values in (2, 3, 5):
        means = rng.normal(size=(n_values, 4))
        prior = rng.dirichlet(np.full(n_values, 3.0))
        channel = UnequalGaussianChannel(means, np.array([covariance] * n_values))
        plain = GaussianChannel(np.linalg.solve(root, means.T).T, 1.0)
        assert channel.bayes_success(prior) == pytest.approx(plain.bayes_success(prior), abs=2e-5)
        found = channel.advantage_bounds(prior).set_index("bound")["advantage"]
        expected = plain.advantage_bounds(prior).set_index("bound")["advantage"]
        assert set(found.index) == set(expected.index)
        assert_allclose(found, expected[found.index], atol=1e-4)
        releases = rng.normal(size=(7, 4))
        whitened = np.linalg.solve(root, releases.T).T
        assert_allclose(channel.posterior(releases, prior), plain.posterior(whitened, prior))


def test_nearly_equal_covariances(rng):
    covariance = _covariance(rng, 3)
    means = rng.normal(size=(3, 3))
    values = []
    for change in (0.0, 1e-7):
        covariances = np.array([(1.0 + change * m) * covariance for m in range(3)])
        channel = UnequalGaussianChannel(means, covariances)
        values.append(channel.bayes_success(return_standard_error=True))
    assert abs(values[0][0] - values[1][0]) <= 4.0 * values[1][1] + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("n_values", [2, 3, 5])
def test_the_difference_to_equal_covariances_is_the_same_value(rng, n_values, monkeypatch):
    channels = []
    for _ in range(2):
        state = np.random.default_rng(n_values)
        means = state.normal(size=(n_values, 4))
        covariances = np.array([np.eye(4) + 0.02 * _covariance(state, 4) for _ in range(n_values)])
        channels.append(UnequalGaussianChannel(means, covariances))
    assert channels[0]._hypotheses[0].nearly_equal
    prior = rng.dirichlet(np.full(n_values, 3.0))
    values = []
    for channel in channels:
        values.append(
            [
                channel.bayes_success(prior, return_standard_error=True),
                channel.mutual_information(prior, return_standard_error=True),
            ]
        )
        monkeypatch.setattr("skleak.channels.gaussian._integrals.NEARLY", -1.0)
    for (fast, error), (plain, plain_error) in zip(*values, strict=True):
        assert abs(fast - plain) <= 4.0 * np.hypot(error, plain_error) + 1e-9
        assert error <= 5e-4


def _numerically(means, scales, prior):
    grid = np.linspace((means - 12 * scales).min(), (means + 12 * scales).max(), 400_001)
    values = np.max(prior * stats.norm.pdf(grid[:, None], means, scales), axis=1)
    return integrate.simpson(values, x=grid)


@pytest.mark.slow
@pytest.mark.parametrize("n_values", [2, 3, 7])
def test_on_a_line(rng, n_values):
    for spread in (0.1, 1.0, 4.0):
        means = spread * rng.normal(size=n_values)
        scales = np.exp(rng.normal(size=n_values))
        prior = rng.dirichlet(np.ones(n_values))
        expected = _numerically(means, scales, prior)
        assert interval_success(means, scales, prior) == pytest.approx(expected, abs=1e-6)
        channel = UnequalGaussianChannel(means[:, None], scales[:, None, None] ** 2)
        value, error = channel.bayes_success(prior, return_standard_error=True)
        assert (value, error) == (pytest.approx(expected, abs=1e-6), 0.0)

        grid = np.linspace((means - 12 * scales).min(), (means + 12 * scales).max(), 400_001)
        each = prior * stats.norm.pdf(grid[:, None], means, scales)
        mixture = np.maximum(each.sum(axis=1), 1e-300)
        entropies = stats.norm(means, scales).entropy()
        information = integrate.simpson(-mixture * np.log(mixture), x=grid) - prior @ entropies
        assert channel.mutual_information(prior) == pytest.approx(information, abs=1e-6)


def test_the_same_mean_and_two_scales():
    # Guess the wider one beyond +-t, with t^2 = 2 log(2) / (1 - 1/4).
    t = np.sqrt(2.0 * np.log(2.0) / 0.75)
    expected = 0.5 * (1.0 - 2.0 * stats.norm.sf(t)) + stats.norm.sf(t / 2.0)
    channel = UnequalGaussianChannel(np.zeros((2, 1)), [[[1.0]], [[4.0]]])
    assert channel.bayes_success() == pytest.approx(expected, abs=1e-12)
    # In d dimensions with the same scale in each, the length alone tells: chi-squared.
    channel = UnequalGaussianChannel(np.zeros((2, 6)), [np.eye(6), 4.0 * np.eye(6)])
    assert (channel._hypotheses[0].dimension, channel._hypotheses[0].n_rest) == (1, 6)
    t = 6.0 * np.log(4.0) / 0.75
    expected = 0.5 * (stats.chi2.cdf(t, 6) + stats.chi2.sf(t / 4.0, 6))
    value, error = channel.bayes_success(return_standard_error=True)
    assert abs(value - expected) <= 4.0 * error + 1e-9


@pytest.mark.parametrize("mean", [-0.5, 0.5])
def test_the_narrower_of_two_scales_wins_between_two_crossings(mean):
    channel, prior = UnequalGaussianChannel([[0.0], [mean]], [[[1.0]], [[4.0]]]), [0.99, 0.01]
    expected = _numerically(np.array([0.0, mean]), np.array([1.0, 2.0]), prior)
    assert channel.bayes_success(prior) == pytest.approx(expected, abs=1e-7)


def test_two_of_the_same_scale_cross_once_where_the_third_has_no_prior():
    channel = UnequalGaussianChannel([[0.0], [1.5], [9.0]], [[[1.0]], [[1.0]], [[4.0]]])
    success = channel.bayes_success([0.5, 0.5, 0.0])
    assert success == pytest.approx(stats.norm.cdf(0.75), abs=1e-12)


def test_log_likelihoods_are_those_of_scipy(rng):
    channel = _random(rng, 3, 4)
    releases = rng.normal(size=(5, 4))
    laws = zip(channel.means, channel.covariances, strict=True)
    expected = [stats.multivariate_normal(*law).logpdf(releases) for law in laws]
    assert_allclose(channel.log_likelihood(releases), np.transpose(expected), rtol=1e-10)


def test_an_advantage_is_as_exact_as_asked_for_where_the_prior_is_nearly_certain(rng):
    """Success is 0.9 or more whatever the release says: its error must be far below."""
    known = _random(rng, 3, 3)
    channel = UnequalGaussianChannel(known.means, known.covariances, tolerance=3e-4)
    _, error = channel.bayes_advantage([0.9, 0.06, 0.04], return_standard_error=True)
    assert error <= 3.0 * channel.tolerance


@pytest.mark.parametrize("order", [0.5, 1.0, 1.3, 2.0, 8.0, np.inf])
def test_divergences(rng, order):
    means, scales = np.array([0.3, -0.4]), np.array([0.8, 1.1])
    channel = UnequalGaussianChannel(means[:, None], scales[:, None, None] ** 2)
    found = channel.renyi_divergence(order, pairwise=True)
    grid = np.linspace(-25.0, 25.0, 400_001)
    logs = [stats.norm.logpdf(grid, mean, scale) for mean, scale in zip(means, scales, strict=True)]
    # Of the narrower from the wider one; the other way is infinite at high orders.
    if np.isinf(order):
        expected = np.max(logs[0] - logs[1])
    elif order == 1.0:
        expected = integrate.simpson(np.exp(logs[0]) * (logs[0] - logs[1]), x=grid)
    else:
        mixed = np.exp(order * logs[0] + (1.0 - order) * logs[1])
        expected = np.log(integrate.simpson(mixed, x=grid)) / (order - 1.0)
    assert found[0, 1] == pytest.approx(expected, abs=1e-6)
    assert_allclose(np.diag(found), 0.0, atol=1e-12)
    if order >= 8.0:
        assert np.isinf(found[1, 0])


def test_round_off_is_no_infinite_divergence(rng):
    """Along axes in which both have the same noise a variance may come out above 1."""
    for _ in range(20):
        axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        narrow, wide = ((axes * sizes) @ axes.T for sizes in ([0.5, 1, 1, 1], [1, 1, 1, 1]))
        third = (axes * [1, 3, 1, 1]) @ axes.T
        channel = UnequalGaussianChannel(np.zeros((3, 4)), [narrow, wide, third])
        found = channel.renyi_divergence(np.inf, pairwise=True)
        finite = 0.5 * np.log([[1.0, 2.0, 6.0], [np.inf, 1.0, 3.0], [np.inf, np.inf, 1.0]])
        assert_allclose(found, finite, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n_values, d", [(2, 1), (2, 3), (4, 3)])
def test_bounds_lie_above_the_bayes_value(rng, n_values, d):
    for gap in (0.1, 1.0, 3.0):
        channel = _random(rng, n_values, d, gap)
        prior = rng.dirichlet(np.full(n_values, 3.0))
        table = channel.advantage_bounds(prior)
        bayes = table[table["bound"] == "Bayes"].iloc[0]
        slack = 4.0 * (table["standard_error"] + bayes["standard_error"]) + 1e-9
        assert np.all(table["advantage"] >= bayes["advantage"] - slack)
        # Distances bound nothing where covariances differ.
        assert not {"trade-off", "Gaussian differential privacy"} & set(table["bound"])
        information, error = channel.mutual_information(prior, return_standard_error=True)
        assert information <= channel.mutual_information_bound(prior) + 4.0 * error


@pytest.mark.exhaustive
@pytest.mark.slow
def test_records_at_once(rng):
    singles = [_random(rng, 3, 4), _low_rank(rng, 3, 4, True), _low_rank(rng, 3, 4, False)]
    together = UnequalGaussianChannel(
        np.stack([each.means for each in singles]), np.stack([each.covariances for each in singles])
    )
    priors = rng.dirichlet(np.full(3, 3.0), size=3)
    expected = [each.bayes_success(row) for each, row in zip(singles, priors, strict=True)]
    assert_allclose(together.bayes_success(priors), expected)
    expected = [each.mutual_information(row) for each, row in zip(singles, priors, strict=True)]
    assert_allclose(together.mutual_information(priors), expected)
    expected = np.stack([each.renyi_divergence([1.0, 2.0]) for each in singles])
    assert_allclose(together.renyi_divergence([1.0, 2.0]), expected)
    assert together.advantage_bounds(priors).groupby("record").size().nunique() == 1
    releases = together.sample(1, n_releases=5, random_state=0)
    assert releases.shape == (3, 5, 4)
    posterior = together.posterior(releases, priors)
    for i, each in enumerate(singles):
        assert_allclose(posterior[i], each.posterior(releases[i], priors[i]))
    # One record under several priors.
    assert_allclose(
        singles[0].bayes_success(priors), [singles[0].bayes_success(row) for row in priors]
    )


@pytest.mark.slow
def test_equal_records_at_once(rng):
    means = rng.normal(size=(2, 3, 2))
    channel = UnequalGaussianChannel(means, np.broadcast_to(np.eye(2), (2, 3, 2, 2)))
    plain = GaussianChannel(means, 1.0)
    for prior in (None, rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), size=2)):
        found, expected = channel.advantage_bounds(prior), plain.advantage_bounds(prior)
        assert found["bound"].tolist() == expected["bound"].tolist()
        assert_allclose(found["advantage"], expected["advantage"], atol=1e-4)


@pytest.mark.slow
def test_records_of_all_kinds_at_once(rng):
    """Equal covariances, on a line, and in the plane: each as by itself."""
    means = np.array([[[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    plane, wide, uneven = np.eye(2), np.diag([4.0, 1.0]), np.diag([4.0, 0.5])
    covariances = [[plane, plane], [plane, wide], [plane, uneven]]
    priors = rng.dirichlet(np.full(2, 3.0), size=3)
    for order in ([2, 0, 1], [0, 1, 2]):
        together = UnequalGaussianChannel(means[order], np.array(covariances)[order])
        alone = [UnequalGaussianChannel(means[i], np.array(covariances[i])) for i in order]
        expected = [one.bayes_success(p) for one, p in zip(alone, priors, strict=True)]
        assert_allclose(together.bayes_success(priors), expected, rtol=1e-12)
    for p in (None, priors[0]):
        found, plain = alone[order.index(0)], GaussianChannel(means[0], 1.0)
        names = plain.advantage_bounds(p)["bound"].tolist()
        assert found.advantage_bounds(p)["bound"].tolist() == names


def test_distances_bound_nothing_where_covariances_of_one_record_differ():
    means = np.array([[[0.0, 0.0], [1.0, 2.0]], [[0.0, 0.0], [1.0, 0.0]]])
    covariances = np.array([[np.eye(2), np.eye(2)], [np.eye(2), np.diag([4.0, 1.0])]])
    for order in ([0, 1], [1, 0]):
        table = UnequalGaussianChannel(means[order], covariances[order]).advantage_bounds()
        assert not {"trade-off", "Gaussian differential privacy"} & set(table["bound"])


def test_samples_have_the_moments_asked_for(rng):
    channel = _random(rng, 3, 2)
    for secret in range(3):
        draws = channel.sample(secret, n_releases=100_000, random_state=rng)
        assert_allclose(draws.mean(axis=0), channel.means[secret], atol=0.03)
        assert_allclose(np.cov(draws.T), channel.covariances[secret], atol=0.12)
    mixed = channel.sample([0, 2, 1], random_state=0)
    assert mixed.shape == (3, 2)


def test_hypotheses_that_are_all_the_same(rng):
    covariance = _covariance(rng, 3)
    channel = UnequalGaussianChannel(np.ones((2, 3)), np.array([covariance, covariance]))
    assert channel.bayes_success([0.3, 0.7]) == pytest.approx(0.7)
    assert channel.mutual_information([0.3, 0.7]) == pytest.approx(0.0, abs=1e-12)
    assert Hypotheses.of(channel.means, channel.covariances).dimension == 0


def test_a_value_without_prior(rng):
    channel = _random(rng, 3, 2)
    pair = UnequalGaussianChannel(channel.means[:2], channel.covariances[:2])
    value, error = channel.bayes_success([0.4, 0.6, 0.0], return_standard_error=True)
    other, other_error = pair.bayes_success([0.4, 0.6], return_standard_error=True)
    assert abs(value - other) <= 4.0 * (error + other_error) + 1e-9


@pytest.mark.parametrize(
    "means, covariances, message",
    [
        (np.zeros((1, 2)), np.ones((1, 2, 2)), "M >= 2"),
        (np.zeros(3), np.eye(3), "M >= 2"),
        (np.zeros((2, 3)), np.eye(3), r"shape \(2, 3, 3\)"),
        (np.zeros((2, 2)), np.zeros((2, 2, 2)), "positive definite"),
        (np.zeros((2, 2)), np.array([np.eye(2), -np.eye(2)]), "positive definite"),
        (np.zeros((2, 2)), np.array([np.eye(2), [[1.0, 0.5], [0.0, 1.0]]]), "symmetric"),
        (np.full((2, 2), np.nan), np.array([np.eye(2)] * 2), "must not hold NaN"),
        (np.zeros((2, 2)), np.full((2, 2, 2), np.inf), "finite"),
    ],
)
def test_bad_input(means, covariances, message):
    with pytest.raises(ValueError, match=message):
        UnequalGaussianChannel(means, covariances)


def test_bad_calls():
    channel = UnequalGaussianChannel(np.zeros((2, 2)), [np.eye(2), 2.0 * np.eye(2)])
    with pytest.raises(TypeError, match="an array of numbers"):
        UnequalGaussianChannel([["a"], ["b"]], np.ones((2, 1, 1)))
    with pytest.raises(ValueError, match="tolerance"):
        UnequalGaussianChannel(np.zeros((2, 1)), np.ones((2, 1, 1)), tolerance=0)
    with pytest.raises(ValueError, match=r"\(\.\.\., 2\)"):
        channel.log_likelihood([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="prior"):
        channel.bayes_success([0.5, 0.6])
    with pytest.raises(ValueError, match="secret"):
        channel.sample(2)
    many = UnequalGaussianChannel(np.zeros((3, 2, 1)), np.ones((3, 2, 1, 1)))
    with pytest.raises(ValueError, match="first axis of length 3"):
        many.log_likelihood([[0.0]])
    with pytest.raises(ValueError, match="one row for each of the 3"):
        many.bayes_success([[0.5, 0.5]] * 2)
    assert "shape (3, 2, 1)" in repr(many)
