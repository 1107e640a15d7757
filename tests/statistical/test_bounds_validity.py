"""No bound falls below the Bayes attack, on ten thousand random channels and priors."""

import numpy as np
import pytest
from helpers import bayes_on_a_line
from scipy.special import logsumexp, ndtr, xlogy

from skleak.bounds import (
    closed_form_fano_advantage,
    dp_advantage,
    fano_advantage,
    gaussian_tradeoff_advantage,
    gdp_advantage,
    information_projection_advantage,
    reconstruction_robustness_advantage,
    renyi_fano_advantage,
    renyi_projection_advantage,
    tradeoff_advantage,
)
from skleak.bounds.priors import advantage_to_success

pytestmark = pytest.mark.slow

ORDERS = np.array([1.001, 1.1, 1.5, 2.0, 4.0, 16.0, 128.0])
ROUND_OFF = 1e-12


def random_priors(n, size, rng):
    """Priors from uniform to nearly certain, and some exactly uniform."""
    concentration = 10.0 ** rng.uniform(-1, 1.5, (n, 1))
    draws = rng.gamma(np.broadcast_to(concentration, (n, size))) + 1e-9
    prior = draws / draws.sum(axis=1, keepdims=True)
    prior[: n // 4] = 1 / size
    return prior


def tables(n, size, n_outputs, rng):
    """Random channels P(y | x) between useless and revealing, all entries positive."""
    sharpness = 10.0 ** rng.uniform(-1, 1, (n, 1, 1))
    logits = sharpness * rng.standard_normal((n, size, n_outputs))
    table = np.exp(logits - logits.max(axis=2, keepdims=True)) + 1e-6
    return table / table.sum(axis=2, keepdims=True)


def assert_none_below(bounds, success, prior, error=ROUND_OFF):
    """Compare as success probabilities, which do not cancel where the prior is nearly certain."""
    for name, bound in bounds.items():
        assert np.all(bound <= 1.0), name
        excess = advantage_to_success(bound, prior) - success
        assert np.all(excess >= -error), (name, excess.min())


@pytest.mark.parametrize("size, n_outputs", [(2, 2), (2, 6), (3, 3), (4, 6), (7, 5), (10, 12)])
def test_discrete_channels(size, n_outputs, rng):
    n = 1000
    prior, table = random_priors(n, size, rng), tables(n, size, n_outputs, rng)
    joint = prior[:, :, None] * table
    marginal = joint.sum(axis=1)
    information = (xlogy(joint, table) - xlogy(joint, marginal[:, None])).sum(axis=(1, 2))
    logs = np.log(table)
    difference = logs[:, :, None] - logs[:, None]
    renyi = np.stack(
        [
            logsumexp(logs[:, :, None] + (a - 1) * difference, axis=3).max((1, 2)) / (a - 1)
            for a in ORDERS
        ],
        axis=1,
    )
    renyi = np.maximum(renyi, 0.0)
    kl = np.maximum((table[:, :, None] * difference).sum(3).max((1, 2)), 0.0)
    largest = difference.max(axis=(1, 2, 3))
    part = rng.uniform(0, 1, n) * largest
    slack = np.maximum(table[:, :, None] - np.exp(part)[:, None, None, None] * table[:, None], 0)
    delta = np.minimum(slack.sum(axis=3).max(axis=(1, 2)) + 1e-15, 1.0)
    assert_none_below(
        {
            "fano": fano_advantage(information, prior),
            "projection": information_projection_advantage(information, prior),
            "closed form": closed_form_fano_advantage(information, prior),
            "renyi fano": renyi_fano_advantage(renyi, ORDERS, prior),
            "renyi fano, order one": renyi_fano_advantage(kl, 1.0, prior),
            "renyi projection": renyi_projection_advantage(renyi, ORDERS, prior),
            "renyi projection, infinite order": renyi_projection_advantage(largest, np.inf, prior),
            "robustness": reconstruction_robustness_advantage(renyi, ORDERS, prior),
            "pure dp": dp_advantage(largest, 0.0, prior),
            "dp": dp_advantage(part, delta, prior),
        },
        joint.max(axis=1).sum(axis=1),
        prior,
    )


def gaussian_bounds(encodings, prior):
    """Every bound on Gaussian channels of unit noise, from quantities known in closed form."""
    square = ((encodings[:, :, None] - encodings[:, None]) ** 2).sum(axis=3)
    widest = square.max(axis=(1, 2))
    # The pairwise form of [FANO23] theorem 2 bounds the mutual information.
    affinity = (prior[:, None] * np.exp(-0.5 * square)).sum(axis=2)
    information = np.maximum(-(prior * np.log(affinity)).sum(axis=1), 0.0)
    renyi = 0.5 * ORDERS * widest[:, None]
    center = np.einsum("nm,nmd->nd", prior, encodings)
    distances = np.linalg.norm(encodings - center[:, None], axis=2)
    return {
        "refined trade-off": tradeoff_advantage(encodings, 1.0, prior),
        "refined trade-off, any center": tradeoff_advantage(encodings, 1.0, prior, center),
        "trade-off": tradeoff_advantage(encodings, 1.0, prior, refine=False),
        "trade-off, any center": gaussian_tradeoff_advantage(distances, prior),
        "gdp": gdp_advantage(np.sqrt(widest), prior),
        "fano": fano_advantage(information, prior),
        "projection": information_projection_advantage(information, prior),
        "renyi fano": renyi_fano_advantage(renyi, ORDERS, prior),
        "renyi projection": renyi_projection_advantage(renyi, ORDERS, prior),
        "robustness": reconstruction_robustness_advantage(renyi, ORDERS, prior),
    }


@pytest.mark.parametrize("size, n", [(2, 1500), (3, 1000), (5, 500), (9, 250)])
def test_gaussian_channels_on_a_line(size, n, rng):
    line = rng.standard_normal((n, size)) * 10.0 ** rng.uniform(-2, 1.3, (n, 1))
    prior = random_priors(n, size, rng)
    direction = rng.standard_normal(4)
    encodings = line[..., None] * (direction / np.linalg.norm(direction))
    bounds = gaussian_bounds(encodings, prior)
    assert_none_below(bounds, bayes_on_a_line(line, prior), prior)
    assert np.all(bounds["refined trade-off"] <= bounds["trade-off"] + ROUND_OFF)
    # On a line it is the attack itself, which the pairs alone reach where there is one pair.
    assert np.all(bounds["refined trade-off"] <= bounds["gdp"] + (1e-6 if size == 2 else ROUND_OFF))


def bayes_in_a_plane(positions, prior):
    """Exact in one direction, trapezoidal in the other."""
    x = np.linspace(positions[:, 0].min() - 9, positions[:, 0].max() + 9, 3001)
    weights = prior * np.exp(-0.5 * (x[:, None] - positions[:, 0]) ** 2) / np.sqrt(2 * np.pi)
    lines = np.broadcast_to(positions[:, 1], weights.shape)
    return bayes_on_a_line(lines, np.maximum(weights, 1e-290)).sum() * (x[1] - x[0])


@pytest.mark.parametrize("size, n", [(3, 400), (4, 200), (7, 100)])
def test_gaussian_channels_in_a_plane(size, n, rng):
    encodings = rng.standard_normal((n, size, 2)) * 10.0 ** rng.uniform(-1, 0.7, (n, 1, 1))
    prior = random_priors(n, size, rng)
    success = np.array([bayes_in_a_plane(e, p) for e, p in zip(encodings, prior, strict=True)])
    # The trapezoidal rule meets kinks: its error is a few 1e-7 of a probability.
    assert_none_below(gaussian_bounds(encodings, prior), success, prior, error=1e-6)


def bayes_one_hot(scale, prior):
    """Exact Bayes success on one-hot encodings, a one-dimensional integral per value."""
    t = np.linspace(-10.0, 10.0, 2001)
    log_p, density = np.log(prior), np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
    success = 0.0
    for m in range(len(prior)):
        levels = t[:, None] + 1 / scale + scale * (log_p[m] - np.delete(log_p, m))
        success += prior[m] * (density * ndtr(levels).prod(axis=1)).sum() * (t[1] - t[0])
    return success


@pytest.mark.parametrize("size, n", [(3, 300), (5, 200), (10, 100), (50, 10)])
def test_equidistant_encodings(size, n, rng):
    scale, prior = 10.0 ** rng.uniform(-0.8, 1.0, n), random_priors(n, size, rng)
    success = np.array([bayes_one_hot(s, p) for s, p in zip(scale, prior, strict=True)])
    encodings = np.eye(size) / scale[:, None, None]
    assert_none_below(gaussian_bounds(encodings, prior), success, prior)


def bayes_by_sampling(encodings, prior, rng, n):
    """Mean of the largest posterior probability over draws of the release; and its error."""
    centered = encodings - encodings.mean(axis=0)
    _, s, axes = np.linalg.svd(centered, full_matrices=False)
    points = centered @ axes[s > 1e-12 * s[0]].T
    success = variance = 0.0
    for m, p in enumerate(prior):
        release = points[m] + rng.standard_normal((n, points.shape[1]))
        log_joint = np.log(prior) + release @ points.T - 0.5 * (points**2).sum(axis=1)
        posterior = 1 / np.exp(log_joint - log_joint.max(axis=1, keepdims=True)).sum(axis=1)
        success += p * posterior.mean()
        variance += p**2 * posterior.var() / n
    return success, np.sqrt(variance)


@pytest.mark.parametrize("size, dimension, n", [(4, 3, 80), (6, 30, 60), (12, 5, 40)])
def test_gaussian_channels_in_space(size, dimension, n, rng):
    encodings = rng.standard_normal((n, size, dimension)) / np.sqrt(dimension)
    encodings *= 10.0 ** rng.uniform(-0.7, 0.9, (n, 1, 1))
    prior = random_priors(n, size, rng)
    success, error = np.transpose(
        [bayes_by_sampling(e, p, rng, 20_000) for e, p in zip(encodings, prior, strict=True)]
    )
    # Posterior maxima near one have errors that the sample itself understates.
    assert_none_below(gaussian_bounds(encodings, prior), success, prior, 4.5 * error + 1e-4)


def test_tightness_of_the_trade_off_bound(rng):
    """Median ratio to Bayes over sizes, noise, priors and random encodings; worst equidistant."""
    ratios, equidistant = [], []
    for size in (2, 3, 5, 10, 50):
        for scale in (0.3, 0.6, 1.0, 2.0):
            for prior in (np.full(size, 1 / size), rng.dirichlet(4 * np.ones(size))):
                for dimension in (3, 20):
                    encodings = rng.standard_normal((size, dimension)) / np.sqrt(dimension) / scale
                    success, error = bayes_by_sampling(encodings, prior, rng, 200_000 // size)
                    bayes = (success - prior.max()) / (1 - prior.max())
                    if success - prior.max() > 100 * error:
                        ratios.append(tradeoff_advantage(encodings, 1.0, prior) / bayes)
                success = bayes_one_hot(scale, prior)
                bayes = (success - prior.max()) / (1 - prior.max())
                if bayes > 1e-3:
                    bound = tradeoff_advantage(np.eye(size), scale, prior)
                    equidistant.append(bound / bayes)
    assert len(ratios) > 50
    assert np.median(ratios) < 1.03
    assert np.max(equidistant) < 1.12
    assert np.min(equidistant) > 1 - 1e-9


def test_the_plain_bound_on_equidistant_encodings_and_uniform_priors():
    t = np.linspace(-10.0, 10.0, 2001)
    density = np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi) * (t[1] - t[0])
    for size in (2, 3, 5, 10, 50, 200, 1000):
        for scale in np.geomspace(0.15, 10.0, 25):
            success = (density * ndtr(t + 1 / scale) ** (size - 1)).sum()
            bayes = (success - 1 / size) / (1 - 1 / size)
            distance = np.full(size, np.sqrt(1 - 1 / size) / scale)
            ratio = gaussian_tradeoff_advantage(distance, size) / bayes
            assert 1 - 1e-9 <= ratio <= 1.15
