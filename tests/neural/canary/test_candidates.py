"""Gradients of candidates by their inner products, against the gradients themselves."""

import numpy as np
import pytest
from helpers import mostly_slow
from scipy.integrate import quad
from scipy.stats import norm

from skleak.channels import GaussianChannel
from skleak.neural.canary._results import CandidateGradients, posterior_of_one_step
from skleak.neural.gradients import make_clipping

M, P, D = 6, 40, 3


@pytest.fixture
def explicit(rng):
    """Gradients (M, P) of a random structure, and the structure."""
    units = np.linalg.qr(rng.normal(size=(P, M)))[0].T
    shared = rng.normal(size=(D + 1, P))
    weights, length = rng.normal(size=(M, D)), 1.7
    coefficients = np.column_stack([np.ones(M), -weights])
    gradients = coefficients @ shared - length * units
    structure = CandidateGradients(coefficients, length, shared @ shared.T, shared @ units.T)
    return gradients, structure


def test_norms_and_inner_products(explicit):
    gradients, structure = explicit
    some = np.array([4, 0, 4])
    np.testing.assert_allclose(structure.norms, np.linalg.norm(gradients, axis=1))
    np.testing.assert_allclose(structure.inner_products(some), gradients[some] @ gradients.T)


def test_noise_has_the_covariance_of_its_projections(explicit, rng):
    gradients, structure = explicit
    n = 200_000
    noise = structure.project_noise(n, rng)
    gram = gradients @ gradients.T
    spread = np.sqrt((gram**2 + np.outer(gram.diagonal(), gram.diagonal())) / n)
    assert np.all(np.abs(noise.T @ noise / n - gram) < 7.0 * spread)


@pytest.mark.parametrize("clipping", mostly_slow(["hard", "smooth"]))
def test_the_best_attack_on_one_step_is_that_of_the_gaussian_channel(explicit, clipping, rng):
    gradients, structure = explicit
    clip = make_clipping(clipping, 4.0)  # some norms are below it
    clipped = gradients / clip.divisor(structure.norms)[:, np.newaxis]
    for noise in (0.5, 2.0, 8.0):
        exact = GaussianChannel(clipped, noise).bayes_success()
        value, error = posterior_of_one_step(structure, clip, noise, 4_000, rng)
        assert abs(value - exact) < 6.0 * error + 1e-4


@pytest.mark.slow
def test_orthogonal_gradients_have_the_closed_form(rng):
    """At eps = 6 and 50,257 tokens, where the bounds of the paper are sixty times as large."""
    m, distance = 50257, np.sqrt(3.0)
    none = np.zeros((1, 1))
    gradients = CandidateGradients(np.ones((m, 1)), 5.0, none, np.zeros((1, m)))
    clipping = make_clipping("hard", 1.0)
    value, error = posterior_of_one_step(gradients, clipping, 1.0 / distance, 200, rng)
    exact = quad(lambda t: norm.pdf(t - distance) * norm.cdf(t) ** (m - 1), 0.0, 9.0)[0]
    assert exact == pytest.approx(0.0078, abs=1e-4)
    assert abs(value - exact) < 6.0 * error + 1e-4
