import numpy as np
import pytest
from scipy import integrate, stats

from skleak.bounds import cramer_rao_mse, van_trees_mse


def spd(rng, d):
    root = rng.normal(size=(d, d + 2))
    return root @ root.T


def test_normal_prior_and_linear_release_attain_it(rng):
    """The posterior covariance of Bayes' rule is the bound itself."""
    for d in (1, 2, 5):
        design, noise, cov = rng.normal(size=(7, d)), 0.3, spd(rng, d)
        joint = design @ cov @ design.T + noise**2 * np.eye(7)
        posterior = cov - cov @ design.T @ np.linalg.solve(joint, design @ cov)
        bound = van_trees_mse(design.T @ design / noise**2, np.linalg.inv(cov))
        assert bound == pytest.approx(np.trace(posterior) / d, rel=1e-9)


@pytest.mark.slow
def test_no_attacker_beats_it_under_a_prior_that_is_not_normal():
    """The Bayes risk, by quadrature, of ``z^3 / 3 + z + noise`` under a logistic prior."""
    noise, prior = 0.7, stats.logistic()
    z = np.linspace(-25.0, 25.0, 4001)
    weights = prior.pdf(z) * (z[1] - z[0])
    mean = z**3 / 3.0 + z

    def parts(release):
        posterior = weights * stats.norm.pdf(release, mean, noise)
        total = posterior.sum()
        first, second = posterior @ z, posterior @ z**2
        return second - first**2 / total if total > 0.0 else 0.0

    risk = 0.0
    for low, high in ((-200.0, -10.0), (-10.0, 10.0), (10.0, 200.0)):
        releases = np.linspace(low, high, 3001)
        risk += integrate.simpson([parts(release) for release in releases], x=releases)
    information = weights @ ((z**2 + 1.0) / noise) ** 2
    bound = van_trees_mse(information, 1.0 / 3.0)  # of the logistic density
    assert 0.0 < bound <= risk
    # Unbiased attackers at the most likely value err more than the attacker with the prior.
    assert cramer_rao_mse((1.0 / noise) ** 2) > risk > bound


def test_prior_never_raises_it_and_units_do_not_matter(rng):
    for _ in range(20):
        information, prior = spd(rng, 3), spd(rng, 3)
        bound = van_trees_mse(information, prior)
        assert bound <= min(cramer_rao_mse(information), cramer_rao_mse(prior))
        assert van_trees_mse(information, 1e-9 * prior) == pytest.approx(
            cramer_rao_mse(information), rel=1e-6
        )
        units = 10.0 ** rng.integers(-150, 150, 3)
        scaled = van_trees_mse(information * np.outer(units, units), prior * np.outer(units, units))
        alone = np.diag(np.linalg.inv(information + prior)) / units**2
        assert scaled == pytest.approx(alone.mean(), rel=1e-6)


def test_singular_informations(rng):
    direction = rng.normal(size=3)
    information = np.outer(direction, direction)
    # Sherman and Morrison.
    expected = (3.0 - direction @ direction / (1.0 + direction @ direction)) / 3.0
    assert van_trees_mse(information, np.eye(3)) == pytest.approx(expected)
    assert van_trees_mse(np.diag([1.0, 0.0]), np.zeros((2, 2))) == np.inf
    assert van_trees_mse(0.0, 4.0) == 0.25
    assert van_trees_mse(1e-320, 0.0) == np.inf
    # What drowns in round-off is not promised to be hidden.
    assert van_trees_mse(np.ones((2, 2)), np.zeros((2, 2))) >= 1e14


def test_batches(rng):
    stack = np.stack([spd(rng, 2) for _ in range(4)])
    found = van_trees_mse(stack, np.eye(2))
    assert found.shape == (4,)
    assert found[1] == pytest.approx(van_trees_mse(stack[1], np.eye(2)))
    assert isinstance(van_trees_mse(1.0, 1.0), float)


def test_bad_input():
    for wrong in (-1.0, [[1.0, 2.0], [2.0, 1.0]], [[0.0, 1e-300], [1e-300, 1.0]]):
        other = np.eye(len(wrong)) if np.ndim(wrong) else 2.0
        with pytest.raises(ValueError, match=r"`fisher_information` must be positive semi"):
            van_trees_mse(wrong, other)
        with pytest.raises(ValueError, match=r"`prior_information` must be positive semi"):
            van_trees_mse(other, wrong)
    for wrong in ([1.0, 2.0], [[1.0, 2.0]], np.nan, np.inf, [[1.0, 2.0], [3.0, 1.0]]):
        with pytest.raises(ValueError, match="`prior_information`"):
            van_trees_mse(1.0, wrong)
    with pytest.raises(ValueError, match="the same d numbers"):
        van_trees_mse(1.0, np.eye(2))
    with pytest.raises(ValueError, match="broadcast"):
        van_trees_mse(np.ones((2, 1, 1)), np.ones((3, 1, 1)))
