import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.special import ndtr, ndtri

from skleak.bounds import dp_advantage, gaussian_tradeoff_advantage, gdp_advantage
from skleak.bounds.priors import advantage_to_success, success_to_advantage
from skleak.channels import GaussianChannel


def best_mechanism(epsilon, delta, prior):
    """Largest success over all (epsilon, delta)-DP tables P(guess | secret): a linear program.

    Variables are the table, then one slack ``max(P_m(y) - e^epsilon P_l(y), 0)`` per m, l, y; the
    slacks of a pair sum to at most delta, which is the definition over all events at once.
    """
    size = len(prior)
    pairs = [(m, k) for m in range(size) for k in range(size) if m != k]
    n_table = size * size
    n = n_table + len(pairs) * size
    objective = np.zeros(n)
    rows, limits = [], []
    for m in range(size):
        objective[m * size + m] = -prior[m]
    for i, (m, k) in enumerate(pairs):
        total = np.zeros(n)
        for y in range(size):
            row, slack = np.zeros(n), n_table + i * size + y
            row[m * size + y], row[k * size + y], row[slack] = 1.0, -np.exp(epsilon), -1.0
            total[slack] = 1.0
            rows.append(row)
            limits.append(0.0)
        rows.append(total)
        limits.append(delta)
    sums = np.zeros((size, n))
    for m in range(size):
        sums[m, m * size : (m + 1) * size] = 1.0
    return -linprog(objective, rows, limits, sums, np.ones(size), method="highs").fun


@pytest.mark.parametrize("size", [2, 3, 4])
def test_dp_is_the_best_mechanism_there_is(size, rng):
    for _ in range(12):
        prior = rng.dirichlet(rng.choice([0.5, 3.0]) * np.ones(size))
        epsilon, delta = rng.uniform(0.0, 3.0), rng.choice([0.0, 1e-3, 0.1, 0.7])
        found = advantage_to_success(dp_advantage(epsilon, delta, prior), prior)
        assert found == pytest.approx(best_mechanism(epsilon, delta, prior), abs=1e-8)


def test_dp_is_attained_by_randomized_response():
    for size in (2, 5, 100):
        for epsilon in (0.0, 0.1, 1.0, 6.0):
            success = np.exp(epsilon) / (np.exp(epsilon) + size - 1)
            expected = success_to_advantage(success, size)
            assert dp_advantage(epsilon, 0.0, size) == pytest.approx(expected, abs=1e-14)


def test_dp_integer_prior_equals_the_array(rng):
    epsilon, delta = rng.uniform(0, 3, 20), rng.uniform(0, 0.2, 20)
    np.testing.assert_allclose(
        dp_advantage(epsilon, delta, 6), dp_advantage(epsilon, delta, np.full(6, 1 / 6)), atol=1e-14
    )


def test_dp_landmarks():
    assert dp_advantage(0.0, 0.0, [0.5, 0.3, 0.2]) == 0.0
    assert dp_advantage(0.0, 0.25, [0.5, 0.3, 0.2]) == 0.25
    assert dp_advantage(np.inf, 0.0, [0.5, 0.3, 0.2]) == pytest.approx(1.0)
    assert dp_advantage(1.0, 1.0, 10**10) == 1.0
    assert dp_advantage(1e-9, 0.0, 10**10) == pytest.approx(1e-19, rel=1e-6)
    # Below log(p_1 / p_2) the release cannot move the best guess.
    assert dp_advantage(np.log(0.5 / 0.3) - 1e-9, 0.0, [0.5, 0.3, 0.2]) < 1e-9
    assert dp_advantage(np.log(0.5 / 0.3) + 1e-2, 0.0, [0.5, 0.3, 0.2]) > 1e-3


def test_membership_advantage_is_the_tight_formula(rng):
    epsilon, delta = rng.uniform(0, 5, 50), rng.uniform(0, 1, 50)
    expected = (np.expm1(epsilon) + 2 * delta) / (np.exp(epsilon) + 1)
    np.testing.assert_allclose(dp_advantage(epsilon, delta, 2), expected, atol=1e-14)
    assert dp_advantage(np.inf, 0.0, 2) == 1.0
    assert dp_advantage(0.0, 0.0, 2) == 0.0


def test_gdp_is_exact_for_two_equally_likely_values():
    mu = np.array([0.0, 1e-6, 0.3, 1.0, 4.0, 30.0, np.inf])
    expected = 2.0 * ndtr(0.5 * mu) - 1.0
    np.testing.assert_allclose(gdp_advantage(mu, 2), expected, atol=1e-15, rtol=1e-9)
    np.testing.assert_allclose(gdp_advantage(mu, [0.5, 0.5]), expected, atol=1e-15, rtol=1e-9)
    assert gdp_advantage(1.0, 2) == pytest.approx(0.3829, abs=5e-5)


def test_gdp_solves_the_symmetric_equation():
    for size in (3, 10, 1000):
        for mu in (0.1, 1.0, 2.0, 6.0):
            success = advantage_to_success(gdp_advantage(mu, size), size)
            total = success + (size - 1) * ndtr(ndtri(success) - mu)
            assert total == pytest.approx(1.0, abs=1e-12)
    assert advantage_to_success(gdp_advantage(2.0, 10), 10) == pytest.approx(0.612, abs=5e-4)


def test_gdp_of_hardly_any_distance_is_its_slope():
    """To first order mu times the normal density at the quantile of 1 / M."""
    for mu in (1e-14, 1e-10, 1e-7):
        for size in (2, 10, 1000):
            slope = np.exp(-0.5 * ndtri(1.0 / size) ** 2) / np.sqrt(2.0 * np.pi)
            assert gdp_advantage(mu, size) == pytest.approx(slope * mu, rel=1e-5)


def test_gdp_integer_prior_equals_the_array():
    mu = np.array([0.0, 1e-3, 0.3, 1.0, 4.0, 30.0, np.inf])
    for size in (2, 5, 40):
        number, table = gdp_advantage(mu, size), gdp_advantage(mu, np.full(size, 1 / size))
        np.testing.assert_allclose(number, table, atol=1e-10)
        assert np.all(table >= number - 1e-14)


def best_success_by_search(mu, prior, rng):
    """The primal of the program, from several starts: feasible points are below the optimum."""

    def room(s):
        shares = ndtr(ndtri(s) - mu)
        return 1.0 - shares.sum() - (s - shares)

    best = prior.max()
    for start in (np.full(len(prior), 1e-3), rng.uniform(0.01, 0.3, len(prior))):
        found = minimize(
            lambda s: -(prior @ s),
            start,
            bounds=[(1e-12, 1 - 1e-12)] * len(prior),
            constraints=[{"type": "ineq", "fun": room}],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        if room(found.x).min() > -1e-9:
            best = max(best, -found.fun)
    return best


# Said by the search of older SciPy, which stays within the bounds all the same.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
def test_gdp_agrees_with_a_search_for_the_best_success(rng):
    for size in (2, 3, 4, 6):
        for concentration in (0.5, 3.0, 30.0):
            prior, mu = rng.dirichlet(concentration * np.ones(size)), rng.uniform(0.1, 4.0)
            found = advantage_to_success(gdp_advantage(mu, prior), prior)
            assert found == pytest.approx(best_success_by_search(mu, prior, rng), abs=1e-8)


@pytest.mark.slow
def test_no_gaussian_mechanism_beats_gdp(rng):
    for _ in range(40):
        size = rng.integers(2, 6)
        points = rng.standard_normal((size, 2)) * 10.0 ** rng.uniform(-1, 0.7)
        prior = rng.dirichlet(rng.choice([0.5, 5.0]) * np.ones(size))
        mu = np.linalg.norm(points[:, None] - points, axis=2).max()
        bayes = GaussianChannel(points, 1.0).bayes_advantage(prior)
        assert gdp_advantage(mu, prior) >= bayes - 1e-12
        # From the first value, and from the best place for a reference.
        assert gdp_advantage(mu, prior, reference_mu=mu) >= bayes - 1e-12
        radius = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
        assert gdp_advantage(mu, prior, reference_mu=radius) >= bayes - 1e-12


def test_a_reference_that_is_one_of_the_values_adds_nothing(rng):
    mu, prior = rng.uniform(0.0, 5.0, 50), rng.dirichlet(np.ones(4), 50)
    np.testing.assert_array_equal(
        gdp_advantage(mu, prior, reference_mu=mu), gdp_advantage(mu, prior)
    )
    for size in (2, 3, 500):
        np.testing.assert_array_equal(
            gdp_advantage(mu, size, reference_mu=mu), gdp_advantage(mu, size)
        )


def test_a_near_reference_gives_its_trade_off_bound(rng):
    for size in (10, 100, 10**6):
        expected = success_to_advantage(ndtr(ndtri(1 / size) + 0.25), size)
        assert gdp_advantage(2.0, size, reference_mu=0.25) == pytest.approx(expected, abs=1e-13)
    prior = rng.dirichlet(np.ones(5), 8)
    expected = gaussian_tradeoff_advantage(np.full((8, 5), 0.25), prior)
    np.testing.assert_array_equal(gdp_advantage(9.0, prior, reference_mu=0.25), expected)
    # Canary of [FANO23] 6.3: 2 T / sigma^2 = 6; the run without it is half as far as two canaries.
    assert gdp_advantage(np.sqrt(12.0), 50257, np.sqrt(3.0)) == pytest.approx(0.0087, abs=1e-4)


def test_gdp_for_ten_billion_values():
    found = gdp_advantage([0.0, 1e-9, 1.0, 12.0, 60.0, np.inf], 10**10)
    q = ndtri(1e-10)
    assert found[0] == 0.0
    assert found[1] == pytest.approx(1e-9 * np.exp(-0.5 * q * q) / np.sqrt(2 * np.pi), rel=1e-5)
    # The sum of the others' shares being 1 - s, all but one value is nearly a reference.
    assert found[2] == pytest.approx(ndtr(q + 1.0) - 1e-10, rel=1e-3)
    assert 0.99 < found[3] < found[4] == found[5] == 1.0


def test_membership_under_gdp_is_the_best_test_of_two_gaussians(rng):
    mu, prior = rng.uniform(0.01, 5.0, 100), rng.uniform(0.01, 0.99, 100)
    odds = np.log(prior / (1 - prior)) / mu
    bayes = prior * ndtr(mu / 2 + odds) + (1 - prior) * ndtr(mu / 2 - odds)
    table = np.stack([prior, 1 - prior], axis=-1)
    found = gdp_advantage(mu, table)
    np.testing.assert_allclose(advantage_to_success(found, table), bayes, atol=1e-13)
    variation = 2.0 * ndtr(0.5 * mu) - 1.0
    np.testing.assert_allclose(gdp_advantage(mu, 2), variation, rtol=1e-12)
    assert np.all(found <= variation + 1e-14)
    assert gdp_advantage([0.0, np.inf], [0.3, 0.7]).tolist() == [0.0, 1.0]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8),
    st.floats(0.0, 5.0),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_monotone_and_within_bounds(weights, level, more, delta):
    prior = np.array(weights) / np.sum(weights)
    grid = np.array([level, level + more])
    for values in (dp_advantage(grid, delta, prior), gdp_advantage(grid, prior)):
        assert 0.0 <= values[0] <= values[1] + 1e-13
        assert values[1] <= 1.0
    assert dp_advantage(level, delta, prior) >= dp_advantage(level, 0.0, prior) - 1e-13


def test_batches_broadcast(rng):
    prior = rng.dirichlet(np.ones(3), 5)
    assert dp_advantage(np.full((4, 1), 0.5), 1e-5, prior).shape == (4, 5)
    assert gdp_advantage(np.full((4, 1), 0.5), prior).shape == (4, 5)
    assert gdp_advantage(np.full((4, 1), 0.5), prior, np.ones(5)).shape == (4, 5)
    assert isinstance(dp_advantage(0.5, 0.0, prior[0]), float)
    assert isinstance(gdp_advantage(0.5, prior[0]), float)
    one = dp_advantage(0.5, 1e-5, prior[2])
    assert dp_advantage(np.full((4, 1), 0.5), 1e-5, prior)[1, 2] == one


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: dp_advantage(-1.0, 0.0, 2), "`epsilon` must be at least 0; got -1"),
        (lambda: dp_advantage(1.0, 1.5, 2), r"`delta` must lie in \[0, 1\]; got 1.5"),
        (lambda: dp_advantage(1.0, -0.1, 2), r"`delta` must lie in \[0, 1\]; got -0.1"),
        (lambda: dp_advantage(np.nan, 0.0, 2), "`epsilon` must be at least 0; got nan"),
        (lambda: dp_advantage([1.0] * 3, 0.0, [[0.5, 0.5]] * 2), "Shapes do not broadcast"),
        (lambda: dp_advantage(1.0, 2.0, 2), r"`delta` must lie in \[0, 1\]"),
        (lambda: gdp_advantage(-1.0, 2), "`mu` must be at least 0; got -1"),
        (lambda: gdp_advantage([1.0] * 3, [[0.5, 0.5]] * 2), "Shapes do not broadcast"),
        (lambda: gdp_advantage(1.0, 2, -1.0), "`reference_mu` must be at least 0; got -1"),
        (lambda: gdp_advantage([1.0] * 3, 2, [1.0] * 2), "Shapes do not broadcast"),
    ],
)
def test_input_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
