import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri, softmax

from skleak.bounds import gaussian_tradeoff_advantage
from skleak.bounds.priors import advantage_to_success, water_filling


def primal(distances, prior):
    """The same maximum by a general optimizer over the regions' masses."""

    def loss(logits):
        kappa = softmax(logits)
        return -(prior * ndtr(ndtri(np.clip(kappa, 1e-300, 1 - 1e-16)) + distances)).sum()

    starts = [np.log(prior), np.zeros(len(prior)), 5.0 * np.eye(len(prior))[prior.argmax()]]
    return max(-minimize(loss, s, method="BFGS", options={"gtol": 1e-9}).fun for s in starts)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 6])
def test_agrees_with_a_general_optimizer(size, rng):
    for _ in range(15):
        prior = rng.dirichlet(2.0 * np.ones(size))
        distances = rng.gamma(2.0, 0.7, size)
        found = advantage_to_success(gaussian_tradeoff_advantage(distances, prior), prior)
        expected = primal(distances, prior)
        assert found == pytest.approx(expected, abs=1e-6)
        assert found >= expected - 1e-12


def test_two_values_are_exact_from_any_point_between_them(rng):
    prior = rng.dirichlet(np.ones(2), 300)
    gap = 10.0 ** rng.uniform(-3, 1, 300)
    part = rng.uniform(0.0, 1.0, 300)
    distances = np.stack([part * gap, (1 - part) * gap], axis=1)
    shift = np.log(prior[:, 1] / prior[:, 0]) / gap
    bayes = prior[:, 0] * ndtr(0.5 * gap - shift) + prior[:, 1] * ndtr(0.5 * gap + shift)
    found = advantage_to_success(gaussian_tradeoff_advantage(distances, prior), prior)
    np.testing.assert_allclose(found, bayes, atol=1e-14)


def test_uniform_and_equal_distances_have_a_closed_form():
    for size in (2, 10, 1000):
        for distance in (1e-3, 0.5, 3.0, 20.0):
            success = ndtr(ndtri(1 / size) + distance)
            found = gaussian_tradeoff_advantage(np.full(size, distance), size)
            assert found == pytest.approx((success - 1 / size) / (1 - 1 / size), abs=1e-13)


def test_published_value_for_ten_one_hot_encodings():
    assert gaussian_tradeoff_advantage(np.full(10, 0.9**0.5), 10) == pytest.approx(0.2996, abs=1e-4)
    # With the sharper information of the reference, above the Bayes advantage 0.2677.
    assert gaussian_tradeoff_advantage(np.full(10, 0.9**0.5), 10) > 0.2677


def test_no_distance_gives_no_advantage(rng):
    for prior in ([0.5, 0.5], [0.7, 0.2, 0.1], np.full(10, 0.1), rng.dirichlet(np.ones(1000))):
        assert gaussian_tradeoff_advantage(np.zeros(len(prior)), prior) == 0.0
        assert gaussian_tradeoff_advantage(np.full(len(prior), 1e-12), prior) <= 1e-11


def test_far_encodings_give_full_advantage():
    for distance in (50.0, 1e3, 1e12, np.inf):
        assert gaussian_tradeoff_advantage(np.full(5, distance), 5) == pytest.approx(1.0)
    mixed = gaussian_tradeoff_advantage([0.0, np.inf, np.inf], [0.2, 0.4, 0.4])
    assert mixed == pytest.approx(1.0)


def test_one_distance_of_zero(rng):
    # Reference at the first encoding: kappa_0 + sum of the others is one.
    prior, distances = np.array([0.3, 0.3, 0.4]), np.array([0.0, 1.0, 2.0])
    found = advantage_to_success(gaussian_tradeoff_advantage(distances, prior), prior)
    grid = np.linspace(1e-6, 1 - 2e-6, 400)
    first, second = np.meshgrid(grid, grid)
    last = 1 - first - second
    ok = last > 0
    value = 0.3 * first[ok] + 0.3 * ndtr(ndtri(second[ok]) + 1) + 0.4 * ndtr(ndtri(last[ok]) + 2)
    assert value.max() <= found <= value.max() + 1e-4


def test_values_of_probability_zero_do_not_count(rng):
    distances = rng.gamma(2.0, 1.0, (4, 3))
    prior = rng.dirichlet(np.ones(3), 4)
    wide = np.concatenate([distances, rng.gamma(2.0, 3.0, (4, 2))], axis=1)
    padded = np.concatenate([prior, np.zeros((4, 2))], axis=1)
    np.testing.assert_allclose(
        gaussian_tradeoff_advantage(wide, padded),
        gaussian_tradeoff_advantage(distances, prior),
        atol=1e-14,
    )


def test_a_nearly_certain_prior_keeps_its_digits():
    # Relative to the rest: e = 1e-12 is distinguished from the sure value at distance D.
    prior, gap = np.array([1 - 1e-12, 1e-12]), 8.0
    shift = np.log(prior[1] / prior[0]) / gap
    expected = (prior[1] * ndtr(gap / 2 + shift) - prior[0] * ndtr(-(gap / 2 - shift))) / 1e-12
    found = gaussian_tradeoff_advantage([gap / 2, gap / 2], prior)
    assert found == pytest.approx(expected, rel=1e-3)


def test_monotone_in_every_distance(rng):
    prior = rng.dirichlet(np.ones(5), 500)
    distances = rng.gamma(1.0, 1.0, (500, 5))
    more = distances + rng.gamma(0.5, 0.5, (500, 5)) * (rng.random((500, 5)) < 0.3)
    low = gaussian_tradeoff_advantage(distances, prior)
    high = gaussian_tradeoff_advantage(more, prior)
    assert np.all(low <= high + 1e-13)
    assert np.all((low >= 0.0) & (high <= 1.0))


def test_sensitivity_is_the_derivative(rng):
    prior, distances = rng.dirichlet(3 * np.ones(4), 1), rng.gamma(3.0, 0.5, (1, 4))
    sensitivity = water_filling(distances, prior).sensitivity[0]
    for m in range(4):
        step = 1e-6 * np.eye(4)[[m]]
        up, down = (water_filling(distances + s, prior).advantage[0] for s in (step, -step))
        slope = (up - down) / 2e-6 * (1 - prior.max())
        assert sensitivity[m] == pytest.approx(slope, abs=1e-8)


def test_thousands_of_channels_at_once(rng):
    distances, prior = rng.gamma(1.0, 1.0, (5000, 4)), rng.dirichlet(np.ones(4), 5000)
    whole = gaussian_tradeoff_advantage(distances, prior)
    assert whole.shape == (5000,)
    alone = [gaussian_tradeoff_advantage(distances[i], prior[i]) for i in range(20)]
    np.testing.assert_allclose(whole[:20], alone, atol=1e-14)
    assert gaussian_tradeoff_advantage(distances[:6].reshape(2, 3, 4), 4).shape == (2, 3)
    assert isinstance(gaussian_tradeoff_advantage(distances[0], 4), float)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: gaussian_tradeoff_advantage([1.0, -1.0], 2), "`distances` must be at least 0"),
        (
            lambda: gaussian_tradeoff_advantage([1.0, np.nan], 2),
            "`distances` must be at least 0; got nan",
        ),
        (lambda: gaussian_tradeoff_advantage(1.0, 2), "along its last axis; got a number"),
        (lambda: gaussian_tradeoff_advantage([1.0] * 3, 2), "`prior` has 2 values but `distances`"),
        (lambda: gaussian_tradeoff_advantage([1.0] * 3, [0.5, 0.5]), "has 2 values but"),
        (
            lambda: gaussian_tradeoff_advantage(np.ones((3, 2)), [[0.5, 0.5]] * 2),
            "Shapes do not broadcast",
        ),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
