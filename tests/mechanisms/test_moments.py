"""Moments with Gaussian noise: the largest distance of two records, and what is released."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from skleak.accounting import gaussian_epsilon
from skleak.accounting.gaussian import mu_from_epsilon_delta
from skleak.mechanisms import EpsilonDelta, GaussianDP, SufficientStatistics
from skleak.mechanisms.moments import MomentsNoise, free_square, moments_mu, moments_split
from skleak.mechanisms.protocol import PublicTable

OPTIMAL = [
    moments_split(3, norm, intercept=intercept)
    for norm in (0.1, 1.0, 3.0)
    for intercept in (False, True)
]
# Weights (a, b, e, f) at which closed forms, or one sign of the second target alone, understate.
OTHERS = [(1.0, 5.0, 0.0, 0.0), (1.0, 0.3, 0.2, 3.0), (0.2, 2.0, 1.0, 0.0), (1.0, 1.0, 4.0, 0.1)]
WEIGHTS = OPTIMAL + [(a, b, free_square(a, b, e, f), e, f) for a, b, e, f in OTHERS]


def _noise(weights, n_features=3, n_records=1):
    return MomentsNoise(*weights, n_features, n_records)


def _calibrated(goal, d, n, norm, bound, **given):
    public = PublicTable(n, d, norm, target_bound=bound, **given)
    return SufficientStatistics().calibrate(goal, public)


def _features(weights, x, y):
    """Map a record to what it adds to the release, in units of the noise."""
    a, b, c, e, f = np.sqrt(weights)
    blocks = [a * np.outer(x, x).ravel(), b * x * y, [c * y * y], e * x, [f * y]]
    return np.concatenate(blocks)


def _farthest(weights, n_starts=24, d=3, seed=0):
    """Search two records, of any norm up to 1, for the largest squared distance."""
    rng = np.random.default_rng(seed)

    def records(free):
        both = free.reshape(2, d + 1)
        x = both[:, :d] / np.maximum(np.linalg.norm(both[:, :d], axis=1), 1.0)[:, None]
        return x, np.clip(both[:, d], -1.0, 1.0)

    def squared(free):
        x, y = records(free)
        return -np.sum((_features(weights, x[0], y[0]) - _features(weights, x[1], y[1])) ** 2)

    # All starts are tried as they are; the best of them climb.
    starts = rng.normal(size=(50 * n_starts, 2 * (d + 1)))
    starts = starts[np.argsort([squared(start) for start in starts])[:n_starts:4]]
    signs = [np.array([1, 0, 0, s, -1, 0.2, 0, t]) for s in (1.0, -1.0) for t in (1, -1)]
    options = {"maxiter": 3000, "maxfev": 3000, "xatol": 1e-7, "fatol": 1e-10}
    climbed = [
        minimize(squared, start, method="Nelder-Mead", options=options).fun
        for start in [*starts, *signs]
    ]
    return -min(climbed)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_kernel_is_the_inner_product_of_what_records_add(weights):
    rng = np.random.default_rng(0)
    X, y = 0.5 * rng.normal(size=(4, 3)), rng.uniform(-1.0, 1.0, 4)
    phi = np.array([_features(weights, *record) for record in zip(X, y, strict=True)])
    assert_allclose(_noise(weights).kernel(X, y, X, y), phi @ phi.T, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_no_two_records_are_farther_apart_than_stated_and_some_are_as_far(weights):
    square = _noise(weights).mu ** 2
    assert 0.9999 * square <= _farthest(weights) <= square * (1.0 + 1e-9)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_short_rows_and_inner_targets_are_no_farther_apart(weights):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    X *= (rng.choice([0.0, 0.5, 0.9, 1.0], 400) / np.linalg.norm(X, axis=1))[:, None]
    y = rng.choice([-1.0, -0.7, 0.0, 0.4, 1.0], 400)
    k = _noise(weights).kernel(X, y, X, y)
    squared = np.diag(k)[:, None] + np.diag(k) - 2.0 * k
    assert squared.max() <= _noise(weights).mu ** 2 * (1.0 + 1e-9)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_more_weight_on_squared_targets_than_is_free_costs(weights):
    a, b, c, e, f = weights
    more = a, b, 1.1 * c, e, f
    assert _farthest(more) > 1.002 * _noise(weights).mu ** 2


def test_closed_forms_where_they_hold():
    for a, b in [(1.0, 1.0), (0.3, 0.6), (2.0, 0.1)]:
        assert moments_mu(a, b) ** 2 == pytest.approx(2.0 * (a + 0.5 * b) ** 2 / a)
        free = free_square(a, b)
        assert (b + b**2 / (2.0 * a)) * (1.0 - 1e-5) <= free <= b + b**2 / (2.0 * a)
    assert moments_mu(1.0, 5.0) ** 2 == pytest.approx(20.0)
    assert free_square(1.0, 5.0) == pytest.approx(13.0, rel=1e-6)


@pytest.mark.parametrize("norm", [0.1, 1.0, 3.0])
def test_split_is_the_best(norm):
    a, b, *_ = moments_split(5, norm, intercept=False)
    assert moments_mu(a, b) == pytest.approx(1.0)
    best = norm**2 / (2.0 * a) + 1.0 / b
    for share in np.geomspace(0.01, 10.0, 200):
        scale = moments_mu(1.0, share) ** -2
        assert best <= (norm**2 / (2.0 * scale) + 1.0 / (scale * share)) * (1.0 + 1e-9)
    a, b, _, e, f = moments_split(5, norm, intercept=True)
    assert moments_mu(a, b, e, f) == pytest.approx(1.0)

    def guide(a, b, e, f):
        rows = 5 * (norm**2 / (2.0 * a) + 1.0 / b)
        return moments_mu(a, b, e, f) ** 2 * (rows + (1.25 + norm**2) / e + 1.0 / f)

    tried = np.exp(np.random.default_rng(0).normal(scale=1.0, size=(2000, 4)))
    assert guide(a, b, e, f) <= min(guide(*weights) for weights in tried)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("goal", [GaussianDP(1.0), GaussianDP(0.01), EpsilonDelta(1.0, 1e-6)])
def test_goal_is_kept_and_nothing_wasted(goal, intercept):
    noise = _calibrated(goal, 20, 1000, 2.0, 3.0, fit_intercept=intercept)
    if isinstance(goal, GaussianDP):
        assert goal.mu * (1.0 - 1e-5) < noise.composed_mu <= goal.mu
    else:
        assert goal.epsilon * (1.0 - 1e-5) < noise.epsilon(goal.delta) <= goal.epsilon
        assert noise.mu == pytest.approx(mu_from_epsilon_delta(1.0, 1e-6), rel=1e-6)
        assert noise.epsilon(1e-3) >= gaussian_epsilon(noise.mu, 1e-3)
    assert_allclose(noise.profile([noise.epsilon(1e-6)]), 1e-6, rtol=1e-6)
    assert noise.c == pytest.approx(free_square(noise.a, noise.b, noise.e, noise.f))


@pytest.mark.parametrize(
    ("goal", "changed", "match"),
    [
        (GaussianDP(0.0), {}, "mu"),
        (GaussianDP(1e-9), {}, "out of reach"),
        (EpsilonDelta(1.0, 0.0), {}, "delta"),
        (GaussianDP(1.0), {"data_norm": 0.0}, "data_norm"),
        (GaussianDP(1.0), {"target_bound": np.inf}, "target_bound"),
        (GaussianDP(1.0), {"expected_norm": 0.0}, "expected_norm"),
    ],
)
def test_numbers_out_of_range_are_refused(goal, changed, match):
    bounds = {"data_norm": 1.0, "target_bound": 1.0, "expected_norm": 1.0} | changed
    public = PublicTable(100, 3, bounds["data_norm"], target_bound=bounds["target_bound"])
    with pytest.raises(ValueError, match=match):
        SufficientStatistics(bounds["expected_norm"]).calibrate(goal, public)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e305])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (1000, 40)])
def test_scaled_records_stay_in_the_ball_and_sum_exactly(n, d, scale):
    rng = np.random.default_rng(0)
    X, y = scale * rng.normal(size=(n, d)), scale * rng.normal(size=n)
    noise = MomentsNoise(1.0, 1.0, 1.0, 1.0, 1.0, d, n, data_norm=0.3, target_bound=0.7)
    rows, targets = noise.scaled(X, y)
    assert (np.abs(targets) <= 1.0).all()
    for row in rows[:50]:
        assert sum(Fraction(value) ** 2 for value in row) <= 1
    inside = 0.3 * X / (scale * np.linalg.norm(X / scale, axis=1)[:, None])
    assert_allclose(noise.scaled(inside, y)[0] * noise.unit, inside, atol=0.3 * noise.step)
    gram = rows.T @ rows
    assert Fraction(gram[0, -1]) == sum(
        Fraction(p) * Fraction(q) for p, q in zip(rows[:, 0], rows[:, -1], strict=True)
    )
    assert_array_equal(gram, rows[::-1].T @ rows[::-1])


@pytest.mark.parametrize("intercept", [False, True])
def test_released_noise_has_the_variances_that_accounting_counts(intercept):
    rng = np.random.default_rng(0)
    X, y = 0.3 * rng.normal(size=(50, 3)), rng.uniform(-1.0, 1.0, 50)
    noise = _calibrated(GaussianDP(1.0), 3, 50, 1.0, 1.0, fit_intercept=intercept)
    rows, targets = noise.scaled(X, y)
    draws = [noise.release(X, y, generator) for generator in [rng] * 600]
    upper = np.triu_indices(3, 1)
    assert all((draw["xx"] == draw["xx"].T).all() for draw in draws)
    found = {
        "diagonal": [np.diag(draw["xx"] - rows.T @ rows) * noise.a**0.5 for draw in draws],
        "others": [(draw["xx"] - rows.T @ rows)[upper] * (2 * noise.a) ** 0.5 for draw in draws],
        "xy": [(draw["xy"] - rows.T @ targets) * noise.b**0.5 for draw in draws],
        "yy": [(draw["yy"] - targets @ targets) * noise.c**0.5 for draw in draws],
    }
    if intercept:
        found["x"] = [(draw["x"] - rows.sum(axis=0)) * noise.e**0.5 for draw in draws]
        found["y"] = [(draw["y"] - targets.sum()) * noise.f**0.5 for draw in draws]
    for values in found.values():
        assert np.mean(values) == pytest.approx(0.0, abs=0.17)
        assert np.std(values) == pytest.approx(1.0, abs=0.12)
    assert set(draws[0]) == ({"xx", "xy", "yy", "x", "y"} if intercept else {"xx", "xy", "yy"})


def test_exact_noise_lies_on_grids():
    noise = _calibrated(GaussianDP(1.0), 2, 4, 1.0, 1.0, fit_intercept=True)
    moments = noise.release(np.eye(4)[:, :2], np.ones(4))
    assert (moments["xx"] % (noise.a**-0.5 * 2.0**-31) != 0).any()
    for name, inverse in {"xy": noise.b, "x": noise.e}.items():
        step = 2.0 ** (np.floor(np.log2(inverse**-0.5)) - 30)
        assert_array_equal(moments[name] % step, 0.0)
    with pytest.raises(ValueError, match="public shape"):
        noise.release(np.eye(3)[:, :2], np.ones(3))
