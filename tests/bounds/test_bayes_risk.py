"""The Bayes risk of a number: against simulation, adaptive quadrature and closed forms."""

import numpy as np
import pytest
from scipy import integrate, stats

from skleak.bounds import bayes_mse, van_trees_mse

CURVES = {
    1: lambda z, b: np.outer(z + b[0] * np.tanh(z), b),
    2: lambda z, b: np.column_stack([z, 0.3 * b[1] * z**2]),
    3: lambda z, b: np.column_stack([z, 0.3 * b[1] * z**2, b[2] * np.sin(z), 0.0 * z]),
    6: lambda z, b: np.column_stack([np.cos(k * z / 3.0 + b[k % 3]) for k in range(1, 7)]),
}
DENSITIES = (
    lambda z, rng: stats.norm(rng.normal(), rng.uniform(0.5, 1.5)).pdf(z),
    lambda z, rng: stats.logistic(0.0, rng.uniform(0.3, 0.6)).pdf(z),
    lambda z, rng: stats.norm.pdf(z, -2.0, 0.5) + rng.uniform(0.2, 2.0) * stats.norm.pdf(z, 1.5, 1),
    lambda z, rng: stats.gamma.pdf(z + 3.0, rng.uniform(3.0, 6.0), scale=0.5),
)


def grid(k, rng, n_values=257):
    """Nodes, probabilities and encodings of a number with a curve of k dimensions."""
    z = np.linspace(-8.0, 8.0, n_values)
    prior = DENSITIES[rng.integers(len(DENSITIES))](z, rng)
    return z, prior / prior.sum(), CURVES[k](z, rng.uniform(0.4, 1.2, size=3))


def by_simulation(encodings, z, prior, noise, rng, n_draws):
    """Squared errors of the posterior mean, written from Bayes' rule alone."""
    errors = []
    for k in rng.choice(len(z), size=n_draws, p=prior):
        release = encodings[k] + noise * rng.normal(size=encodings.shape[1])
        log_posterior = np.log(np.maximum(prior, 1e-300))
        log_posterior = log_posterior - ((release - encodings) ** 2).sum(axis=1) / (2 * noise**2)
        posterior = np.exp(log_posterior - log_posterior.max())
        errors.append((z[k] - posterior @ z / posterior.sum()) ** 2)
    return np.mean(errors), np.std(errors) / np.sqrt(n_draws)


@pytest.mark.parametrize(
    "rounds, n_draws", [(1, 1000), pytest.param(2, 100_000, marks=pytest.mark.slow)]
)
def test_risk_is_that_of_simulated_attacks(rounds, n_draws, rng):
    for _ in range(rounds):
        for k in CURVES:
            z, prior, encodings = grid(k, rng)
            noise = 10.0 ** rng.uniform(-0.7, 1.0)
            risk, error = bayes_mse(encodings, z, prior, noise, random_state=rng)
            expected, spread = by_simulation(encodings, z, prior, noise, rng, n_draws)
            # Six standard errors: one in 5e8, of the few that are compared.
            assert abs(risk - expected) <= error + 6.0 * spread + 1e-12, (k, noise)
            assert error <= 0.3 * risk or noise < 0.3


def test_linear_release_of_a_normal_number(rng):
    z = np.linspace(-16.0, 16.0, 401)
    prior = np.exp(-0.125 * z**2)
    prior /= prior.sum()
    noise = np.array([0.3, 0.5, 1.0, 3.0, 1e4])
    slope = rng.normal(size=7)
    risk, error = bayes_mse(np.outer(z, slope), z, prior, noise)
    information = slope @ slope / noise**2
    np.testing.assert_allclose(risk, 4.0 / (1.0 + 4.0 * information), rtol=1e-9)
    np.testing.assert_allclose(risk, van_trees_mse(information[:, None, None], 0.25), rtol=1e-9)
    assert (error[1:] < 1e-8).all()


def test_quadrature_is_that_of_scipy(rng):
    """On a line, by adaptive quadrature over releases of an adaptive posterior."""
    z, prior, _ = grid(1, rng)
    encodings = z**3 / 20.0 + z
    for noise in (0.3, 2.0):

        def of_release(y, noise=noise):
            joint = prior * stats.norm.pdf(y, encodings, noise)
            return joint @ z**2 - (joint @ z) ** 2 / max(joint.sum(), 1e-300)

        expected, _ = integrate.quad(of_release, -40.0, 40.0, limit=500, epsabs=1e-9)
        risk, error = bayes_mse(encodings[:, None], z, prior, noise)
        assert risk == pytest.approx(expected, rel=1e-6)
        assert error < 1e-3


@pytest.mark.slow
def test_error_covers_the_grid(rng):
    """Of a coarse grid the error holds the risk of a fine one."""
    for k in (1, 2):
        state = rng.bit_generator.state
        fine = grid(k, rng, 4097)
        for n_values in (17, 33, 65, 129, 257):
            rng.bit_generator.state = state
            z, prior, encodings = grid(k, rng, n_values)
            for noise in (0.02, 0.05, 0.2, 1.0):
                risk, error = bayes_mse(encodings, z, prior, noise, random_state=0)
                exact, rest = bayes_mse(fine[2], fine[0], fine[1], noise, random_state=0)
                assert abs(risk - exact) <= error + rest, (k, n_values, noise)


def test_simulation_agrees_with_quadrature(rng, monkeypatch):
    z, prior, encodings = grid(2, rng)
    noise = np.array([0.5, 2.0])
    exact, exact_error = bayes_mse(encodings, z, prior, noise)
    monkeypatch.setattr("skleak.bounds.errors._MOST_TERMS", 0)
    risk, error = bayes_mse(encodings, z, prior, noise, random_state=rng)
    assert (np.abs(risk - exact) <= 1.5 * error + exact_error).all()  # of six standard errors
    assert (error < 0.1 * risk).all()


def test_what_is_integrated_brings_its_error():
    """Nine nodes are a coarse grid, whether more coordinates are drawn or not."""
    z = np.linspace(-8.0, 8.0, 9)
    prior = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    plane = np.column_stack([z, 0.3 * z**2])
    wider = np.column_stack([plane, *(0.2 * np.cos(k * z) for k in range(1, 4))])
    _, least = bayes_mse(plane, z, prior, 4.0)
    _, error = bayes_mse(wider, z, prior, 4.0, n_draws=1000, random_state=0)
    assert error >= 0.9 * least > 1.0


def test_what_the_noise_hides_is_left_out_with_its_error(rng):
    z, prior, encodings = grid(1, rng)
    for size in (1e-9, 1e-5, 1e-4, 1e-2):
        bent = np.column_stack([encodings, size * np.cos(2.0 * z)])
        risk, error = bayes_mse(bent, z, prior, 0.5)
        more, rest = bayes_mse(np.column_stack([encodings, 0.0 * z]), z, prior, 0.5)
        assert risk - error <= more + rest
        assert error < 0.02 * risk


def test_limits(rng):
    z, prior, encodings = grid(2, rng)
    variance = prior @ z**2 - (prior @ z) ** 2
    assert bayes_mse(encodings, z, prior, 1e9)[0] == pytest.approx(variance, rel=1e-6)
    assert bayes_mse(0.0 * encodings, z, prior, 1.0)[0] == pytest.approx(variance)
    assert bayes_mse(0.0 * encodings, z, prior, 0.0)[0] == pytest.approx(variance)
    risk, error = bayes_mse(encodings, z, prior, 0.0)
    # Without noise the nodes are told apart: what is between them is all that is not known.
    assert risk < 1e-9
    assert error == pytest.approx(0.25 * (z[1] - z[0]) ** 2, rel=1e-3)
    risk, error = bayes_mse(encodings, z, np.eye(len(z))[40], 2.0)
    assert risk == 0.0
    assert error < 1e-9
    risks = bayes_mse(encodings, z, prior, np.array([0.2, 0.4, 0.8, 1.6, 3.2]))[0]
    assert (np.diff(risks) > 0.0).all()
    # Even odds of -1 and 1, known to differ by one standard deviation: 1 - E[tanh(Y / 2 ...)^2].
    pair = bayes_mse([[-0.5], [0.5]], [-1.0, 1.0], [0.5, 0.5], 1.0)
    expected = integrate.quad(lambda y: stats.norm.pdf(y, 0.5) * np.tanh(0.5 * y) ** 2, -12, 12)[0]
    assert pair[0] == pytest.approx(1.0 - expected, rel=1e-9)
    assert pair[1] > 0.1  # two nodes are no grid


def test_batches_and_units(rng):
    z, prior, encodings = grid(2, rng, 65)
    stack = np.stack([encodings, 2.0 * encodings, encodings + 5.0])
    risk, error = bayes_mse(stack, z, prior, np.array([1.0, 2.0, 1.0]))
    assert risk.shape == error.shape == (3,)
    np.testing.assert_allclose(risk, risk[0], rtol=1e-9)
    single = bayes_mse(encodings, z, prior, 1.0)
    priors = np.stack([prior, prior[::-1]])
    each = [bayes_mse(encodings, z, p, 1.0)[0] for p in priors]
    np.testing.assert_allclose(bayes_mse(encodings, z, priors, 1.0)[0], each, rtol=1e-12)
    assert isinstance(single[0], float)
    assert single[0] == pytest.approx(risk[0])
    assert bayes_mse(stack[[0, 2]], z, prior, 1.0)[0] == pytest.approx(risk[[0, 2]])
    for unit in (1e-120, 1e120):
        scaled = bayes_mse(unit * encodings, unit * z, prior, unit)
        assert scaled[0] == pytest.approx(unit**2 * risk[0])
    wide = encodings @ rng.normal(size=(2, 200))
    assert bayes_mse(wide.astype(np.float32), z.astype(np.float32), prior, 20.0)[0] > 0.0


def test_bad_input():
    z, prior, points = np.arange(3.0), np.full(3, 1.0 / 3.0), np.arange(3.0)[:, None]
    for wrong, match in (
        ((points[:, 0], z, prior, 1.0), r"\[:, None\]"),
        ((points, z[:2], prior, 1.0), "`values` must have one entry for each of the 3"),
        ((points, z, prior[:2], 1.0), "`prior` must have one entry for each of the 3"),
        ((points, z[::-1], prior, 1.0), "ascend"),
        ((points, z, 2.0 * prior, 1.0), "sum to 1"),
        ((points, z, [-1.0, 1.0, 1.0], 1.0), "`prior` must be at least 0"),
        ((points, z, prior, -1.0), "`noise_scale` must be at least 0"),
        ((points, z, prior, np.inf), "`noise_scale` must be at least 0 and finite"),
        ((points, z, prior, [1.0, np.inf]), "at least 0 and finite"),
        ((np.nan * points, z, prior, 1.0), "`encodings` must not hold NaN"),
        ((np.stack([points] * 3), z, prior, [1.0, 1.0]), "broadcast"),
    ):
        with pytest.raises(ValueError, match=match):
            bayes_mse(*wrong)
    with pytest.raises(ValueError, match="n_draws"):
        bayes_mse(points, z, prior, 1.0, n_draws=1)
