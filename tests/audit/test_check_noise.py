"""The check of any mechanism's claim: planted faults are found, and honest claims are kept."""

from pathlib import Path

import numpy as np
import pytest
from helpers import mostly_slow
from scipy import integrate, stats

from skleak.audit import check_noise
from skleak.audit.noise._checks import (
    LEVEL,
    POWER,
    SHARES,
    _evidence_of_share,
    _log_odds_of_any_law,
    _log_ratio,
    _mixtures,
    fits_needed,
    smallest_faults,
)

SIZES = [6, 20, 61, 200]
CENTER = 2.0


def some_with_a_tenth(rng, n):
    """Of the variance that is claimed."""
    return np.where(rng.random(n) < 0.5, 0.1, np.sqrt(1.99)) * rng.normal(size=n)


def most_with_a_tenth(rng, n):
    return np.where(rng.random(n) < 0.9, 0.1, np.sqrt(9.91)) * rng.normal(size=n)


# What is planted on one parameter of many.
FAULTS = {
    "half": lambda rng, n: 0.5 * rng.normal(size=n),
    "a fifth": lambda rng, n: 0.2 * rng.normal(size=n),
    "a tenth": lambda rng, n: 0.1 * rng.normal(size=n),
    "twice": lambda rng, n: 2.0 * rng.normal(size=n),
    "a coin": lambda rng, n: rng.choice([-1.0, 1.0], size=n),
    "three values": lambda rng, n: (
        np.sqrt(3.0) * rng.choice([-1.0, 0.0, 1.0], size=n, p=[1 / 6, 2 / 3, 1 / 6])
    ),
    "none in half": lambda rng, n: (
        np.where(rng.random(n) < 0.5, 0.0, np.sqrt(2.0)) * rng.normal(size=n)
    ),
    "a tenth in half": some_with_a_tenth,
    "a tenth in most": most_with_a_tenth,
}


def releases(rng, n, p, fault=None):
    noise = rng.normal(size=(n, p))
    if fault == "a pair":
        noise[:, 1] = noise[:, 2]
    elif fault == "a pair, half":
        # The difference of the two has half of the noise.
        noise[:, 1] = 0.75 * noise[:, 2] + np.sqrt(1.0 - 0.75**2) * noise[:, 1]
    elif fault is not None:
        noise[:, 1] = FAULTS[fault](rng, n)
    return CENTER + 0.3 * noise


@pytest.mark.parametrize("p", mostly_slow(SIZES, 1))
@pytest.mark.parametrize("fault", mostly_slow([*FAULTS, "a pair", "a pair, half"]))
def test_planted_faults_are_found(fault, p, rng):
    """Each 37 times of 40: at the power that is stated fewer are found six times in 10,000."""
    center = np.full(p, CENTER)
    found = 0
    for _ in range(40):
        checks = check_noise(releases(rng, fits_needed(p), p, fault), 0.3, center=center)
        found += not checks["passed"].all()
    assert found >= 37


@pytest.mark.slow
@pytest.mark.parametrize("p", SIZES)
def test_half_of_the_noise_along_a_direction_is_found(p, rng):
    """Where it is all of the noise on no parameter, or on any two."""
    directions = rng.normal(size=(50, p))
    unit = directions[7] / np.linalg.norm(directions[7])
    found = 0
    for _ in range(40):
        noise = rng.normal(size=(fits_needed(p, 50), p))
        noise -= 0.5 * np.outer(noise @ unit, unit)
        checks = check_noise(0.3 * noise, 0.3, center=np.zeros(p), directions=directions)
        found += not checks["passed"].all()
    assert found >= 37


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_honest_mechanisms_are_accused_as_rarely_as_stated(law, known, rng):
    """At most two of two hundred, at every size, and no more than a level of a tenth explains."""
    for p in (1, *SIZES):
        accused = alarms = 0
        n = 2 * fits_needed(p) if law == "laplace" else fits_needed(p)
        center = np.full(p, CENTER) if known else None
        for _ in range(200):
            x = releases(rng, n, p)
            if law == "laplace":
                x = CENTER + 0.3 * rng.laplace(size=(n, p)) / np.sqrt(2.0)
            checks = check_noise(x, 0.3, center=center, law=law, random_state=rng)
            accused += not checks["passed"].all()
            alarms += (checks["p_value"] < 100.0 * checks["level"]).any()
        assert accused <= 2
        assert alarms <= stats.binom.isf(1e-6, 200, 100.0 * LEVEL)


def _spread(n, n_tails):
    """Smallest fault of the scale where so many tails share one in a thousand."""
    level = 1e-3 * 4 * (n_tails // 4) / n_tails / SHARES["spread"]
    return smallest_faults(n, n_tails // 4, 0, level)["spread"]


def test_the_number_of_fits_is_the_smallest_of_that_power(rng):
    """Half of the noise on one parameter alone: exact, and by brute force."""
    for p, n in zip(SIZES, (45, 50, 54, 59), strict=True):
        # Two sides of each parameter share one in a thousand, of n draws about a known center.
        assert _spread(n + 1, 2 * p) >= 0.5 > _spread(n, 2 * p)
    n, tails = 30, 52
    share = _spread(n, tails)
    spreads = share * rng.normal(size=(20_000, n)).std(axis=1, ddof=1)
    found = stats.chi2.cdf((n - 1) * spreads**2, n - 1) <= 1e-3 / tails
    assert abs(found.mean() - POWER) < 6.0 * np.sqrt(POWER * (1.0 - POWER) / 20_000)


@pytest.mark.parametrize("p", [1, 2, 20, 300])
@pytest.mark.parametrize("n_directions", [0, 40])
def test_one_fit_less_is_not_enough(p, n_directions):
    n = fits_needed(p, n_directions)
    found = smallest_faults(n, p, n_directions, LEVEL)
    assert found["spread"] >= 0.5
    assert found["directions"] >= 0.5 or not n_directions
    assert found["shape_by_parameter"] <= 0.5
    assert p == 1 or found["covariance"] <= 0.75
    less = smallest_faults(n - 1, p, n_directions, LEVEL)
    short = less["spread"] < 0.5 or not less["shape_by_parameter"] <= 0.5
    short |= n_directions > 0 and less["directions"] < 0.5
    short |= p > 1 and less["covariance"] > 0.75
    # Or as many as show the shape of all parameters together.
    assert short or n == min(-(-500 // p), 100)


@pytest.mark.slow
def test_correlations_of_the_size_stated_are_found_as_often_as_stated(rng):
    n, p, level = 60, 20, 1e-4
    size = smallest_faults(n, p, 0, level / SHARES["covariance"])["covariance"]
    first, second = rng.normal(size=(2, 20_000, n))
    second = size * first + np.sqrt(1.0 - size**2) * second
    first, second = (x - x.mean(axis=1, keepdims=True) for x in (first, second))
    r = (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    t = r * np.sqrt((n - 2) / (1.0 - r**2))
    found = p * (p - 1) * stats.t.sf(t, n - 2) * 3.0 <= level
    # Fisher's transformation is good to a part in a hundred.
    assert abs(found.mean() - POWER) < 0.01


@pytest.mark.slow
def test_the_odds_are_a_likelihood_over_that_of_normal_draws(rng):
    """They have mean 1 under normal draws, whatever is seen before: summed and integrated."""
    for mixture in _mixtures():
        mean = sum(
            integrate.quad(
                lambda x, m=mixture: np.exp(_log_ratio(np.array(x), *m) + stats.norm.logpdf(x)),
                *ends,
            )[0]
            for ends in ((-60.0, -1.0), (-1.0, 0.0), (0.0, 1.0), (1.0, 60.0))
        )
        assert mean == pytest.approx(1.0, abs=1e-6)
    # One draw in the middle of each of the cells, after others.
    cells = stats.norm.ppf((np.arange(128) + 0.5) / 128.0)
    for before in (0, 1, 5):
        earlier = np.repeat(rng.normal(size=(before, 1)), 128, axis=1)
        whole = np.exp(_log_odds_of_any_law(np.vstack([earlier, cells])))
        start = np.exp(_log_odds_of_any_law(earlier))[0] if before else 1.0
        assert whole.mean() == pytest.approx(start, rel=1e-9)


def test_the_odds_of_a_tree_by_brute_force(rng):
    """Of two halvings, by the sum over all trees of beta integrals."""

    def of_any_law(counts):
        """Odds of counts in 2^k cells, recursively, by quadrature."""
        if len(counts) == 1:
            return 1.0
        half = len(counts) // 2
        left, right = counts[:half], counts[half:]
        a, b = sum(left), sum(right)
        split = integrate.quad(
            lambda s: (2.0 * s) ** a * (2.0 - 2.0 * s) ** b / np.pi,
            0.0, 1.0, weight="alg", wvar=(-0.5, -0.5),
        )[0]  # fmt: skip
        return 0.5 + 0.5 * split * of_any_law(left) * of_any_law(right)

    draws = stats.norm.ppf(rng.random((9, 1)) * 0.5)  # all below zero
    leaves = np.floor(stats.norm.cdf(draws[:, 0]) * 128).astype(int)
    counts = np.bincount(leaves, minlength=128).tolist()
    assert np.exp(_log_odds_of_any_law(draws))[0] == pytest.approx(of_any_law(counts), rel=1e-6)


@pytest.mark.slow
def test_the_evidence_of_a_mixture_is_what_its_draws_give(rng):
    for share in (0.25, 0.5, 0.9):
        rest = np.sqrt((1.0 - share * 0.01) / (1.0 - share))
        scales = np.where(rng.random(200_000) < share, 0.1, rest)
        values = _log_ratio(scales * rng.normal(size=200_000), share, 0.1, rest)
        mean, deviation = _evidence_of_share(share)
        assert abs(values.mean() - mean) < 6.0 * deviation / np.sqrt(200_000)
        assert values.std() == pytest.approx(deviation, rel=0.1)


def test_covariances_and_scales_that_are_claimed(rng):
    root = rng.normal(size=(4, 4)) + 2.0 * np.eye(4)
    x = 5.0 + 0.1 * rng.normal(size=(120, 4)) @ root.T
    claim = {"covariance": root @ root.T, "level": 1e-6, "directions": np.eye(4)}
    assert check_noise(x, 0.1, **claim)["passed"].all()
    assert check_noise(x, 0.1, center=np.full(4, 5.0), **claim)["passed"].all()
    assert not check_noise(x, 0.1, center=np.full(4, 5.3), **claim)["passed"].all()
    assert not check_noise(x, 0.2, **claim)["passed"].all()
    assert not check_noise(x, 0.1, level=1e-6)["passed"].all()
    scales = np.array([1.0, 2.0, 4.0])
    own = scales * rng.normal(size=(120, 3))
    assert check_noise(own, scales, level=1e-6)["passed"].all()
    assert not check_noise(own, scales[::-1], level=1e-6)["passed"].all()


def test_laws_are_told_apart(rng):
    n, p = 200, 20
    laplace = rng.laplace(size=(n, p)) / np.sqrt(2.0)
    normal = rng.normal(size=(n, p))
    for center in (None, np.zeros(p)):
        claim = {"center": center, "level": 1e-6}
        assert check_noise(laplace, law="laplace", **claim)["passed"].all()
        assert check_noise(normal, law="gaussian", **claim)["passed"].all()
        assert not check_noise(laplace, law="gaussian", **claim)["passed"].all()
        assert not check_noise(normal, law="laplace", **claim)["passed"].all()


def test_releases_far_off_are_wrong_and_no_error():
    x = np.full((20, 2), 1e300)
    x[::2] = -1e300
    assert not check_noise(x, 1e-300, center=np.zeros(2))["passed"].all()
    assert not check_noise(np.zeros((20, 2)))["passed"].all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"releases": np.zeros((3, 2))}, ValueError, "at least 4 releases"),
        ({"releases": np.zeros(9)}, ValueError, "n_releases, n_parameters"),
        ({"releases": [["a"]]}, TypeError, "`releases` must be a number"),
        ({"noise_scale": 0.0}, ValueError, "positive and finite"),
        ({"noise_scale": [1.0, 2.0, 3.0]}, ValueError, "one for each of the 2"),
        ({"center": [0.0]}, ValueError, "`center` must be finite"),
        ({"directions": np.eye(3)}, ValueError, "`directions` must have 2 columns"),
        ({"covariance": -np.eye(2)}, ValueError, "positive definite"),
        ({"covariance": np.eye(2), "law": "laplace"}, ValueError, "Leave one of them out"),
        ({"law": "cauchy"}, ValueError, "'cauchy'"),
        ({"level": 0.0}, ValueError, "strictly between"),
    ],
)
def test_claims_that_cannot_be_tested(arguments, error, message, rng):
    with pytest.raises(error, match=message):
        check_noise(**({"releases": rng.normal(size=(9, 2))} | arguments))


def test_the_guide_states_the_number_of_fits():
    page = (Path(__file__).parents[2] / "docs/theory/audits.md").read_text()
    numbers = " | ".join(str(fits_needed(p)) for p in SIZES)
    assert f"| fits at each noise scale | {numbers} |" in page
