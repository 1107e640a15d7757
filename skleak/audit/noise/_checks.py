"""Tests of draws of noise against the law that is stated: independent standard normal numbers.

Every p-value is exact or a proven bound, for any number of releases and parameters, so that a
sound mechanism is accused with probability at most `LEVEL` by each check.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import integrate, optimize, stats
from scipy.special import wofz

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray

# Chance of a false alarm of a check.
LEVEL = 1e-6
# Noise below this share of what is stated is none: noise on a grid has a step of 2^-30 of it.
NO_NOISE = 2.0**-29
# Logarithm of a bound on a tail below which the tail is integrated, and what is added to the
# integral, in shares of the bound.
_SMALL, _ROUND_OFF = np.log(0.01), 1e-6


@dataclass(frozen=True)
class NoiseCheck:
    """One comparison of the noise that an estimator adds with the noise that it states."""

    name: str  # of what is compared
    statistic: float
    p_value: float  # at most this probability that noise as stated deviates as far

    @property
    def passed(self) -> bool:
        """True if the noise may be what is stated."""
        return self.p_value > LEVEL


# No draw is as large.
_LARGEST = 1e100


def check_noise(draws: FloatArray, generator: np.random.Generator) -> tuple[NoiseCheck, ...]:
    """Compare draws with independent standard normal ones.

    Shapes: ``draws`` (n_releases, n_parameters); returns ``mean`` (largest, in standard errors),
    ``spread`` (standard deviation farthest from stated, over what is stated), ``missing``
    (parameters without noise), ``replayed`` (pairs of releases with the same noise),
    ``covariance`` (largest correlation of two parameters) and ``shape`` (mean of ``x^2 / 2 -
    sqrt(2) |x|``, -0.63 for normal draws and -0.5 for Laplace's).
    """
    draws = np.clip(draws, -_LARGEST, _LARGEST)  # squares of more overflow
    mean, spread = _mean(draws), _spread(draws)
    checks = [mean, spread, _missing(draws), _replayed(draws)]
    if draws.shape[1] > 1:
        checks.append(_covariance(_with_drawn_moments(draws, 0, generator)))
    # Standardized draws show their shape less well than draws of the scale that is stated.
    as_stated = mean.passed and spread.passed
    standard = draws if as_stated else _with_drawn_moments(draws, None, generator)
    return (*checks, _shape(standard))


def _any_of(*p_values: float) -> float:
    """Bound on the probability that the least of some p-values is as small."""
    return float(min(1.0, len(p_values) * min(p_values)))


def _mean(draws: FloatArray) -> NoiseCheck:
    n, p = draws.shape
    errors = np.sqrt(n) * draws.mean(axis=0)
    largest = float(np.abs(errors).max())
    value = _any_of(2.0 * p * stats.norm.sf(largest), stats.chi2.sf(errors @ errors, p))
    return NoiseCheck("mean", largest, value)


def _spread(draws: FloatArray) -> NoiseCheck:
    n, p = draws.shape
    squares = ((draws - draws.mean(axis=0)) ** 2).sum(axis=0)
    tails = [stats.chi2.cdf(squares, n - 1), stats.chi2.sf(squares, n - 1)]
    total = squares.sum()
    tails_of_all = stats.chi2.cdf(total, p * (n - 1)), stats.chi2.sf(total, p * (n - 1))
    worst = np.sqrt(squares[np.argmin(np.min(tails, axis=0))] / (n - 1))
    value = _any_of(2.0 * p * float(np.min(tails)), 2.0 * min(tails_of_all))
    return NoiseCheck("spread", float(worst), value)


def _missing(draws: FloatArray) -> NoiseCheck:
    n, p = draws.shape
    number = int(np.sum(np.abs(draws).max(axis=0) < NO_NOISE))
    # That any of them has only draws as small.
    chance = p * stats.chi.cdf(NO_NOISE, 1) ** n
    return NoiseCheck("missing", number, float(min(1.0, chance)) if number else 1.0)


def _replayed(draws: FloatArray) -> NoiseCheck:
    n, p = draws.shape
    first, second = np.triu_indices(n, 1)
    near = np.ones(len(first), dtype=bool)
    for column in draws.T:
        near[near] = np.abs(column[first[near]] - column[second[near]]) < NO_NOISE
    chance = len(first) * stats.chi.cdf(NO_NOISE / np.sqrt(2.0), 1) ** p
    value = float(min(1.0, chance)) if near.any() else 1.0
    return NoiseCheck("replayed", int(near.sum()), value)


def _with_drawn_moments(
    draws: FloatArray, axis: "int | None", generator: np.random.Generator
) -> FloatArray:
    """Give draws means and lengths drawn anew, of shape (n_releases, n_parameters).

    Mean, length and direction of a normal sample are independent. Standard normal draws remain
    standard normal draws, and noise of a wrong mean or scale is accused of nothing else. With
    `axis` 0 every parameter has a length of its own, with None all have one.
    """
    n, p = draws.shape
    fresh = generator.normal(size=(n, p))
    level = fresh.mean(axis=0)
    centered, other = draws - draws.mean(axis=0), fresh - level
    spread = np.linalg.norm(centered, axis=0) > np.sqrt(n) * NO_NOISE
    own, length = (
        np.sqrt(np.sum(np.where(spread, each, 0.0) ** 2, axis=axis)) for each in (centered, other)
    )
    ratio = length / np.where(own > 0.0, own, 1.0)
    return np.where(spread, level + centered * ratio, fresh)


def _covariance(draws: FloatArray) -> NoiseCheck:
    """Test correlations of two parameters by Student's law, and the spectrum of all.

    Of a Gaussian matrix of shape (m, p) no singular value lies farther than t outside of
    sqrt(m) - sqrt(p) and sqrt(m) + sqrt(p) with probability above exp(-t^2 / 2) at either end
    (Davidson and Szarek 2001, theorem II.13).
    """
    n, p = draws.shape
    centered = draws - draws.mean(axis=0)
    largest = _largest_correlation(centered / np.linalg.norm(centered, axis=0))
    with np.errstate(divide="ignore"):
        student = largest * np.sqrt((n - 2.0) / np.maximum(1.0 - largest**2, 0.0))
    pairs = float(p * (p - 1.0) * stats.t.sf(student, n - 2.0))
    # The m = n - 1 directions beside the mean.
    values = np.linalg.svd(centered, compute_uv=False)[: min(n - 1, p)]
    low, high = np.abs(np.sqrt(n - 1.0) - np.sqrt(p)), np.sqrt(n - 1.0) + np.sqrt(p)
    outside = np.maximum([values[0] - high, low - values[-1]], 0.0)
    return NoiseCheck("covariance", largest, _any_of(pairs, *np.exp(-0.5 * outside**2)))


def _largest_correlation(directions: FloatArray) -> float:
    """Largest absolute product of two columns of unit length."""
    p, largest = directions.shape[1], 0.0
    for some in row_blocks(p, p, 1 << 22):
        products = np.abs(directions[:, some].T @ directions)
        products[np.arange(products.shape[0]), np.arange(some.start, some.stop)] = 0.0
        largest = max(largest, float(products.max()))
    return min(largest, 1.0)


def _shape(draws: FloatArray) -> NoiseCheck:
    """Test all draws together: likelihood against Laplace's law, largest draw, distribution."""
    sizes = np.sort(np.abs(draws.ravel()))
    n = len(sizes)
    ratio = float(np.sum(0.5 * sizes**2 - np.sqrt(2.0) * sizes))
    heavy, light = (_tail(ratio, n, ends) for ends in ((0.05, 0.9), (-50.0, -0.05)))
    most, least = 2.0 * n * stats.norm.sf(sizes[-1]), stats.chi.cdf(sizes[-1], 1) ** n
    distance = stats.kstest(draws.ravel(), "norm", method="asymp").statistic
    # Massart's bound (1990): it holds for any number of draws.
    distribution = 2.0 * np.exp(-2.0 * n * distance**2)
    # Three quarters of the level look for Laplace's law, which samplers confuse with the normal.
    others = 4.0 * _any_of(light, float(most), float(least), float(distribution))
    return NoiseCheck("shape", ratio / n, min(1.0, heavy / 0.75, others))


def _tail(total: float, n: int, ends: tuple[float, float]) -> float:
    """Bound the probability that ``x^2 / 2 - sqrt(2) |x|`` sums up to as much over normal draws.

    Or to as little, where s in `ends` is negative. The mean of ``exp(s (x^2 / 2 - sqrt(2) |x|))``
    is ``erfcx(z) / sqrt(1 - s)`` with ``z = s / sqrt(1 - s)``. Where Chernoff's bound is small, the
    probability itself takes its place: the integral of the n-th power of that mean along the line
    of complex numbers through the best s, where it hardly oscillates.
    """

    def log_bound(s: Any) -> Any:
        root = np.sqrt(1.0 - s)
        return n * np.log(wofz(1j * s / root) / root) - s * total

    best = optimize.minimize_scalar(lambda s: log_bound(s).real, bounds=ends, method="bounded")
    if best.fun > _SMALL:
        return float(np.exp(min(best.fun, 0.0)))

    def integrand(u: float) -> float:
        s = best.x + 1j * u / np.sqrt(n)
        return float((np.exp(log_bound(s) - best.fun) / s).real)

    # The error is added to be safe; asked for so, it is no warning of its own.
    value, error = integrate.quad(integrand, 0.0, np.inf, full_output=True)[:2]
    share = (abs(value) + error) / (np.pi * np.sqrt(n)) + _ROUND_OFF
    return float(np.exp(best.fun + np.log(min(share, 1.0))))
