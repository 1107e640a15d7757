"""The exact membership attack on linear regression: densities, success, bounds, figure 3."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import every
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skleak.attacks._gaussian import GaussianLinearMembership, leverages, member_rates
from skleak.metrics import binomial_interval

# The lower bound of [BIL23] figure 3, d = 20 and sigma = 1, before the maximum with the prior.
FIGURE_3 = {21: 0.540, 40: 0.517, 60: 0.509, 80: 0.504, 100: 0.502, 120: 0.500, 140: 0.499}


def make_attack(rng, n=12, d=4, sigma=0.7, prior=0.5):
    X, coef = rng.normal(size=(n, d)), rng.normal(size=d)
    return X, coef, GaussianLinearMembership(sigma=sigma, coef=coef, prior=prior).fit(X)


@pytest.mark.parametrize("prior", [0.5, 0.3, 0.8])
def test_odds_are_those_of_the_full_densities(prior, rng):
    X, coef, attack = make_attack(rng, prior=prior)
    theta, rows, s, _ = attack.sample(30, rng)
    Q = np.linalg.inv(X.T @ X)
    for t, j, value, odds in zip(
        theta, rows, s, attack.decision_function(theta, rows, s), strict=True
    ):
        image = Q @ X[j]
        without = multivariate_normal(coef, 0.49 * Q)
        mean = coef + image * (value - X[j] @ coef)
        given = multivariate_normal(mean, 0.49 * (Q - np.outer(image, image)))
        expected = given.logpdf(t) - without.logpdf(t) + np.log(prior / (1.0 - prior))
        np.testing.assert_allclose(odds, expected, rtol=1e-8, atol=1e-8)


def test_the_laws_of_the_model_are_those_of_the_game(rng):
    """Regressing theta on the training response gives the mean and covariance under T = 1."""
    X, coef, attack = make_attack(rng, n=8, d=3)
    theta, rows, s, member = attack.sample(60_000, rng)
    own = member & (rows == 2)
    Q = np.linalg.inv(X.T @ X)
    image = Q @ X[2]
    rest = theta[own] - coef - np.outer(s[own] - X[2] @ coef, image)
    count = own.sum()
    np.testing.assert_allclose(rest.mean(axis=0), 0.0, atol=5 * rest.std() / np.sqrt(count))
    law = 0.49 * (Q - np.outer(image, image))
    np.testing.assert_allclose(np.cov(rest.T), law, atol=6 * np.abs(law).max() * count**-0.5)


def rates_by_one_coordinate(h, threshold):
    """The same rates as an integral over one axis of the correlation."""
    rho, k = np.sqrt(h), 2.0 * threshold + np.log1p(-h)
    rates = []
    for p_scale, q_scale in ((1.0, 1.0), (np.sqrt(1 + rho), np.sqrt(1 - rho))):

        def density(p, p_scale=p_scale, q_scale=q_scale):
            square = (1 - rho) / rho * (rho / (1 + rho) * (p_scale * p) ** 2 - k)
            inside = 2.0 * ndtr(np.sqrt(max(square, 0.0)) / q_scale) - 1.0
            return 2.0 * inside * norm.pdf(p)

        start = np.sqrt(max(0.0, k * (1 + rho) / rho)) / p_scale
        ends = start + np.array([0.0, 1e-4, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0, 10.0])
        rates.append(sum(quad(density, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends)))
    return rates


@pytest.mark.slow
@every("threshold", [0.0, 0.4, -0.4, 2.5, -2.5])
@every("h", [1e-8, 1e-3, 0.2, 0.6, 0.99, 1 - 1e-7])
def test_rates_are_those_of_another_integral(h, threshold):
    found = np.concatenate(member_rates(np.array([h]), threshold))
    np.testing.assert_allclose(found, rates_by_one_coordinate(h, threshold), atol=1e-10)


@pytest.mark.parametrize("prior", [0.5, 0.3, 0.9])
@pytest.mark.parametrize("n", [5, 12, 40])
def test_exact_success_is_that_of_the_simulation(n, prior, rng):
    _, _, attack = make_attack(rng, n=n, prior=prior)
    theta, rows, s, member = attack.sample(10_000, rng)
    right = attack.predict(theta, rows, s) == member
    interval = binomial_interval(int(right.sum()), len(right), 0.9999)
    assert interval.low <= attack.expected_score().mean() <= interval.high


def test_error_rates_of_every_row(rng):
    _, _, attack = make_attack(rng, n=5, prior=0.4)
    assert attack.classes_.tolist() == [0, 1]
    theta, rows, s, member = attack.sample(30_000, rng)
    guess = attack.predict(theta, rows, s)
    for row, (fresh, missed) in enumerate(zip(*attack.error_rates(), strict=True)):
        for truth, rate in ((0, fresh), (1, 1.0 - missed)):
            some = guess[(rows == row) & (member == truth)]
            interval = binomial_interval(int(some.sum()), len(some), 0.9999)
            assert interval.low <= rate <= interval.high


def test_the_bayes_decision_is_the_best_threshold(rng):
    h = rng.uniform(0.05, 0.95, size=6)
    success = [np.subtract(*member_rates(h, t)[::-1]) for t in (-0.1, 0.0, 0.1)]
    assert np.all(success[1] >= success[0])
    assert np.all(success[1] >= success[2])


@pytest.mark.slow
@pytest.mark.parametrize("n", list(FIGURE_3))
def test_figure_3(n, rng):
    X = rng.normal(size=(n, 20))
    attack = GaussianLinearMembership(sigma=1.0, coef=rng.normal(size=20)).fit(X)
    lower, upper = attack.expected_score_bounds()
    assert lower <= attack.expected_score().mean() <= upper
    theta, rows, s, member = attack.sample(10_000, rng)
    right = attack.predict(theta, rows, s) == member
    interval = binomial_interval(int(right.sum()), len(right), 0.9999)
    assert interval.low <= attack.expected_score().mean() <= interval.high
    # What reproduces the printed digits: a loss of either sign, clipped at R_max = 10, with the
    # tail 2 exp(-R / 2) under both laws.
    gap, clip = attack.generalization_gap(), 10.0
    printed = 0.5 + (gap - 4.0 * (clip + 2.0) * np.exp(-clip / 2.0)) / (4.0 * clip)
    assert round(printed, 3) == FIGURE_3[n]
    assert printed < lower


def test_gap_and_information(rng):
    X, coef, attack = make_attack(rng, n=9, d=4, prior=0.3)
    Q = np.linalg.inv(X.T @ X)
    covariances = [Q - np.outer(Q @ x, Q @ x) for x in X]
    ratios = [np.log(np.linalg.det(Q) / np.linalg.det(c)) for c in covariances]
    np.testing.assert_allclose(attack.mutual_information(), 0.3 * np.sum(ratios) / (2 * 9))
    y = X @ coef + 0.7 * rng.normal(size=(100_000, 9))
    theta = y @ X @ Q
    trained = (y - theta @ X.T) ** 2
    fresh = (X @ coef + 0.7 * rng.normal(size=y.shape) - theta @ X.T) ** 2
    measured = (fresh - trained).mean(axis=1)
    error = 5.0 * measured.std() / np.sqrt(len(y))
    assert abs(measured.mean() - attack.generalization_gap()) < error


def test_the_lower_bound_takes_the_tail_of_the_widest_error(rng):
    """[BIL23] theorem 4 on a grid: the error of a fresh record is N(0, sigma^2 (1 + h))."""
    X, _, attack = make_attack(rng)
    h = np.diag(X @ np.linalg.inv(X.T @ X) @ X.T)
    gap, scale = 2.0 * 0.7**2 * h.mean(), 2.0 * 0.7**2 * (1.0 + h.max())
    cut = np.linspace(1e-2, 30.0, 300_001)
    variation = ((gap - scale * np.exp(-cut / scale)) / cut).max()
    assert attack.expected_score_bounds()[0] == pytest.approx(0.5 + 0.5 * variation, abs=1e-7)


@pytest.mark.parametrize("prior", [0.5, 0.2])
def test_the_upper_bound_is_the_success_that_so_much_information_allows(prior, rng):
    """[BIL23] theorem 5: that of a coin whose divergence from the prior is the information."""
    _, _, attack = make_attack(rng, n=60, prior=prior)
    known, upper = max(prior, 1.0 - prior), attack.expected_score_bounds()[1]
    divergence = upper * np.log(upper / known)
    divergence += (1.0 - upper) * np.log((1.0 - upper) / (1.0 - known))
    assert divergence == pytest.approx(attack.mutual_information(), rel=1e-6)


def test_leverage_one_is_perfect(rng):
    X = np.vstack([np.eye(3), [[0.0, 0.0, 2.0]]])
    attack = GaussianLinearMembership(sigma=1e-3, coef=[1.0, 1e3, -2.0]).fit(X)
    assert list(attack.leverages_ == 1.0) == [True, True, False, False]
    theta, rows, s, member = attack.sample(4_000, rng)
    sure = rows < 2
    odds = attack.decision_function(theta, rows, s)
    assert np.all(np.isinf(odds[sure]))
    np.testing.assert_array_equal((odds > 0.0)[sure], member[sure])
    false_positive, false_negative = attack.error_rates()
    assert np.all(false_positive[:2] + false_negative[:2] == 0.0)
    assert attack.mutual_information() == np.inf
    assert attack.expected_score_bounds()[1] == 1.0
    probabilities = attack.predict_proba(theta, rows, s)
    np.testing.assert_array_equal(probabilities[sure, 1], member[sure].astype(float))


def test_a_square_design_hides_no_member(rng):
    attack = GaussianLinearMembership(sigma=1.0, coef=np.zeros(4)).fit(rng.normal(size=(4, 4)))
    assert attack.expected_score().mean() == 1.0
    theta, rows, s, member = attack.sample(500, rng)
    np.testing.assert_array_equal(attack.predict(theta, rows, s), member)


@pytest.mark.parametrize("prior", [0.5, 0.2, 0.8])
def test_a_row_of_zeros_tells_nothing(prior):
    X = np.array([[1.0], [1.0], [0.0]])
    attack = GaussianLinearMembership(sigma=1.0, coef=[0.0], prior=prior).fit(X)
    assert attack.leverages_[2] == 0.0
    odds = attack.decision_function([3.0], 2, 1.7)
    np.testing.assert_allclose(odds, np.log(prior / (1 - prior)), atol=1e-12)
    wrong = prior * attack.error_rates()[1][2] + (1 - prior) * attack.error_rates()[0][2]
    assert wrong == pytest.approx(min(prior, 1 - prior))


def test_success_falls_with_the_rows(rng):
    X = rng.normal(size=(400, 3))
    sizes = [
        GaussianLinearMembership(sigma=2.0, coef=np.zeros(3)).fit(X[:n]).expected_score().mean()
        for n in (4, 10, 40, 400)
    ]
    assert np.all(np.diff(sizes) < 0.0)
    assert sizes[-1] > 0.5


def test_units_do_not_matter(rng):
    X, coef, attack = make_attack(rng)
    scale = np.array([1e-6, 1.0, 1e5, 1e3])
    other = GaussianLinearMembership(sigma=0.7, coef=coef / scale).fit(X * scale)
    np.testing.assert_allclose(other.leverages_, attack.leverages_, atol=1e-10)
    theta, rows, s, _ = attack.sample(20, rng)
    np.testing.assert_allclose(
        other.decision_function(theta / scale, rows, s),
        attack.decision_function(theta, rows, s),
        atol=1e-8,
    )


def test_shapes(rng):
    _, _, attack = make_attack(rng)
    theta, rows, s, member = attack.sample(6, random_state=0)
    assert theta.shape == (6, 4)
    assert member.dtype == bool
    one = attack.decision_function(theta[0], rows[0], s[0])
    np.testing.assert_allclose(one, attack.decision_function(theta, rows, s)[:1])
    assert attack.predict(theta[0], rows, s).shape == (6,)
    assert attack.predict(theta[0], rows, 0.0).shape == (6,)
    np.testing.assert_allclose(attack.predict_proba(theta, rows, s).sum(axis=1), 1.0)
    again = attack.sample(6, random_state=0)
    np.testing.assert_array_equal(again[2], s)


@pytest.mark.parametrize(
    ("theta", "rows", "s", "match"),
    [
        ([0.0, 1.0], 0, 0.0, "`released`"),
        ([0.0, 1.0, 2.0, np.nan], 0, 0.0, "`released`"),
        (np.zeros(4), 12, 0.0, "`rows`"),
        (np.zeros(4), -1, 0.0, "`rows`"),
        (np.zeros(4), 0.5, 0.0, "`rows`"),
        (np.zeros(4), True, 0.0, "`rows`"),
        (np.zeros(4), 0, np.inf, "`s`"),
        (np.zeros(4), [0, 1], [0.0, 1.0, 2.0], "one entry for each test"),
    ],
)
def test_bad_tests(theta, rows, s, match, rng):
    _, _, attack = make_attack(rng)
    with pytest.raises(ValueError, match=match):
        attack.predict(theta, rows, s)


@pytest.mark.parametrize(
    "parameters", [{"sigma": 0.0}, {"sigma": "1"}, {"prior": 1.0}, {"prior": 0}, {"coef": [1.0]}]
)
def test_bad_parameters(parameters, rng):
    attack = GaussianLinearMembership(**{"sigma": 1.0, "coef": np.zeros(2), **parameters})
    with pytest.raises(ValueError, match=next(iter(parameters))):
        attack.fit(rng.normal(size=(9, 2)))


@pytest.mark.parametrize("X", [np.ones((5, 2)), np.zeros((5, 2)), np.ones((1, 2))])
def test_a_design_without_full_rank(X):
    with pytest.raises(ValueError, match="full column rank"):
        GaussianLinearMembership(sigma=1.0, coef=np.zeros(2)).fit(X)


def test_leverages_are_the_diagonal_of_the_hat_matrix(rng):
    X = rng.normal(size=(30, 5))
    np.testing.assert_allclose(leverages(X), np.diag(X @ np.linalg.pinv(X)), atol=1e-12)


def test_it_is_an_estimator(rng):
    attack = clone(GaussianLinearMembership(sigma=1.0, coef=[1.0, 2.0], prior=0.4))
    assert attack.get_params()["prior"] == 0.4
    with pytest.raises(NotFittedError):
        attack.expected_score()
    with pytest.raises(NotFittedError):
        attack.expected_true_positive_rate(0.1)


def test_no_test_of_a_false_positive_rate_finds_more_than_expected(rng):
    """The power on a row, against the empirical quantiles of its log-likelihood ratio."""
    X = rng.normal(size=(12, 3)) * np.append(np.ones(11), 6.0)[:, None]
    attack = GaussianLinearMembership(sigma=0.8, coef=[1.0, -2.0, 0.5]).fit(X)
    rates = np.array([0.01, 0.1, 0.5, 0.9])
    power = attack.expected_true_positive_rate(rates)
    assert power.shape == (12, 4)
    theta, rows, s, member = attack.sample(200_000, random_state=1)
    odds = attack.decision_function(theta, rows, s)
    for row in (0, 11):
        fresh, own = odds[(rows == row) & ~member], odds[(rows == row) & member]
        for k, rate in enumerate(rates):
            found = np.mean(own > np.quantile(fresh, 1.0 - rate))
            # Both the quantile and the share are from some eight thousand games.
            assert abs(found - power[row, k]) < 5.0 * np.sqrt((1.0 + 10.0 * rate) / len(own)) / 2.0


@pytest.mark.slow
def test_power_and_score_agree():
    """At even odds the score is half of one plus the largest gap between the two rates."""
    X = np.random.default_rng(0).normal(size=(8, 3))
    attack = GaussianLinearMembership(sigma=2.0, coef=np.zeros(3)).fit(X)
    rates = np.linspace(0.0, 1.0, 2001)
    power = attack.expected_true_positive_rate(rates)
    assert np.all(np.diff(power, axis=1) >= 0.0)
    np.testing.assert_array_equal(power[:, [0, -1]], np.tile([0.0, 1.0], (8, 1)))
    best = (power - rates).max(axis=1)
    np.testing.assert_allclose(0.5 + 0.5 * best, attack.expected_score(), atol=1e-6)
    fresh, missed = attack.error_rates()
    for row in range(8):
        at = attack.expected_true_positive_rate(fresh[row])[row]
        assert at == pytest.approx(1.0 - missed[row], abs=1e-9)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan, [[0.1]]])
def test_rates_outside_the_unit_interval_are_refused(rate):
    attack = GaussianLinearMembership(sigma=1.0, coef=[0.0]).fit([[1.0], [2.0]])
    with pytest.raises(ValueError, match="false_positive_rate"):
        attack.expected_true_positive_rate(rate)


def test_rows_without_and_of_full_leverage():
    attack = GaussianLinearMembership(sigma=1.0, coef=[0.0, 0.0]).fit(
        [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    )
    np.testing.assert_array_equal(attack.expected_true_positive_rate(0.2)[[0, 3]], [0.2, 1.0])
    np.testing.assert_array_equal(attack.expected_score()[[0, 3]], [0.5, 1.0])
