"""The attack on the last bits of private SGD: it wins against sums in doubles, not on the grid.

One step over all records, with noise that hides a label from everybody who looks at sizes. Noise by
inversion returns a sparse set of the small doubles: near zero, one normal number for each multiple
of 2^-54 of the tail. Whoever has two candidates for the sum of gradients takes each from what was
released, and asks which leaves numbers that the sampler can return.
"""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom, norm

from skleak.losses import LogisticLoss
from skleak.neural import PrivateSGDClassifier
from skleak.neural.gradients import LinearGradients, make_clipping
from skleak.neural.training import SecretSource

N, D, NOISE, LEVEL = 64, 784, 30.0, 1e-6
# Tails that are tried on either side of the nearest one.
REACH = 12
COMMON = {"noise_multiplier": NOISE, "sampling_rate": 1.0, "max_steps": 1, "learning_rate": 1.0}


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(5)
    X = 0.01 * rng.normal(size=(N, D))
    return X, np.arange(N) % 2


def with_label(y, label):
    """Labels with the secret, that of the first record."""
    return np.r_[label, y[1:]]


def sums(X, y):
    """Sums of the clipped gradients of the first step under either label, (2, p)."""
    gradients = LinearGradients(LogisticLoss(), make_clipping("smooth", 1.0), D)
    return np.stack([gradients.clipped_sum(X, with_label(y, label))[0] for label in (0, 1)])


def in_units(X, y, grid):
    """As `sums`, as the grid rounds them."""
    gradients = LinearGradients(LogisticLoss(), make_clipping("smooth", 1.0), D)
    found = [gradients.clipped_sum(X, with_label(y, label), grid)[0] for label in (0, 1)]
    return np.stack(found) * grid.unit


def evidence(noisy, candidate):
    """How many numbers of a noisy sum (p,) a candidate explains in excess of chance."""
    near = np.abs(noisy) < 0.5
    r, c = noisy[near], candidate[near]
    tails = ndtr(-np.abs(r - c) / NOISE)[:, None] + np.arange(-REACH, REACH + 1) * 2.0**-54
    draws = np.where(r > c, -1.0, 1.0)[:, None] * ndtri(tails)
    return np.sum(np.any(c[:, None] + NOISE * draws == r[:, None], axis=1))


def named_rightly(releases, secrets, candidates):
    """Count the secrets named rightly by last bits, or by sizes where those say nothing."""
    right = 0
    for noisy, secret in zip(releases, secrets, strict=True):
        said = [evidence(noisy, candidate) for candidate in candidates]
        gap = np.sum((noisy - candidates[0]) ** 2) - np.sum((noisy - candidates[1]) ** 2)
        right += int(said[1] > said[0] if said[0] != said[1] else gap > 0.0) == secret
    return right


def allowed(candidates):
    """Success of the best attack on Gaussian noise in exact arithmetic."""
    return norm.cdf(np.linalg.norm(candidates[1] - candidates[0]) / (2.0 * NOISE))


def test_it_wins_against_sums_in_doubles(records, rng):
    candidates = sums(*records)
    assert allowed(candidates) < 0.52
    secrets = rng.integers(0, 2, 60)
    releases = [candidates[s] + NOISE * SecretSource().normal(D + 1) for s in secrets]
    assert named_rightly(releases, secrets, candidates) > 50


@pytest.mark.slow
def test_on_the_grid_it_has_what_the_channel_allows(records, rng):
    """It sees the coefficients and the intercept of the release, and public parameters."""
    X, y = records
    secrets = rng.integers(0, 2, 200)
    releases = []
    for secret in secrets:
        model = PrivateSGDClassifier(**COMMON, accounting=None).fit(X, with_label(y, secret))
        released = model.release()
        assert released.provenance_["noise_sampler"] == "discrete Gaussian, exact"
        # Nothing is lost: the learning rate is 1, and the number of records a power of two.
        releases.append(-N * np.r_[released.coef_.ravel(), released.intercept_])
    grid = model._plan.grid
    steps = np.array(releases) / grid.unit  # integers of at most 53 bits, but for rounding
    assert np.all(np.abs(steps - np.rint(steps)) <= np.spacing(np.abs(steps)))
    for candidates in (sums(X, y), in_units(X, y, grid)):
        limit = binom.isf(LEVEL, 200, allowed(candidates))
        assert named_rightly(releases, secrets, candidates) <= limit
