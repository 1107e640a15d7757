"""Tests of draws of noise against the law that is stated: independent standard normal numbers.

Every p-value is exact or a proven bound, for any number of releases and parameters, so that all
checks together accuse a sound mechanism with probability at most the level. Every check knows the
smallest fault that it would have found, and `fits_needed` how many releases find one that matters.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import integrate, optimize, stats
from scipy.special import betaln, logsumexp, ndtr, wofz

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray

# Chance that any of the checks accuses a sound mechanism, and that a fault is found.
LEVEL, POWER = 1e-3, 0.99
# Shares of the level. Noise that is missing or replayed is found at any.
SHARES = {
    "mean": 0.1,
    "spread": 0.25,
    "directions": 0.2,
    "missing": 0.02,
    "replayed": 0.03,
    "covariance": 0.15,
    "shape": 0.1,
    "shape_by_parameter": 0.15,
}
# Faults that `fits_needed` is about: noise of this share of what is stated, on one parameter or
# along one direction, a correlation that leaves as little on a difference of two, and this share of
# the releases with a tenth of the noise.
FAULT, SMALL = 0.5, 0.1
FAULTY_CORRELATION, FAULTY_SHARE = 1.0 - FAULT**2, 0.5
# Draws of the noise, over parameters and releases, among which another shape of all of them shows,
# and the releases that they may take.
_N_DRAWS, _MOST_FOR_SHAPE = 500, 100
_FEWEST, _MOST = 4, 1 << 14
# Noise below this share of what is stated is none: noise on a grid has a step of 2^-30 of it.
NO_NOISE = 2.0**-29
# Logarithm of a bound on a tail below which the tail is integrated, and what is added to the
# integral, in shares of the bound.
_SMALL, _ROUND_OFF = np.log(0.01), 1e-6
# Halvings of the distribution of one parameter, and the mixtures that its draws are held against.
_DEPTH = 7
_RATIOS, _MIXED = (SMALL, 0.25), (0.05, 0.1, 0.25, FAULTY_SHARE, 0.75, 0.9, 0.97)
# Entries of draws that are compared at once.
_ELEMENTS = 1 << 20
# A draw this far off is just wrong.
_FAR_OFF = 1e9


@dataclass(frozen=True)
class NoiseCheck:
    """One comparison of the noise that an estimator adds with the noise that it states."""

    name: str  # of what is compared
    statistic: float
    p_value: float  # at most this probability that noise as stated deviates as far
    level: float  # chance of a false alarm
    # Smallest fault of its kind that is found with probability `POWER`; NaN where none is.
    smallest_fault: float = np.nan

    @property
    def passed(self) -> bool:
        """True if the noise may be what is stated."""
        return self.p_value > self.level


def check_draws(
    draws: FloatArray,
    generator: np.random.Generator,
    directions: FloatArray | None = None,
    level: float = LEVEL,
) -> tuple[NoiseCheck, ...]:
    """Compare draws with independent standard normal ones.

    Shapes: ``draws`` (n_releases, n_parameters); ``directions`` (n_directions, n_parameters), of
    unit length; returns ``mean`` (largest, in standard errors), ``spread`` (standard deviation
    farthest from stated, over what is stated), ``directions`` (likewise, along these), ``missing``
    (parameters without noise), ``replayed`` (pairs of releases with the same noise),
    ``covariance`` (largest correlation of two parameters), ``shape`` (mean of ``x^2 / 2 -
    sqrt(2) |x|`` of all draws, -0.63 for normal ones and -0.5 for Laplace's) and
    ``shape_by_parameter`` (evidence of another shape of one parameter, or along a direction, as
    the decimal logarithm of odds).
    """
    p = draws.shape[1]
    levels = {name: share * level for name, share in SHARES.items()}
    draws = np.clip(np.nan_to_num(draws, nan=_FAR_OFF), -_FAR_OFF, _FAR_OFF)
    directions = np.empty((0, p)) if directions is None else directions
    mean, spread = _mean(draws, levels["mean"]), _spread(draws, levels["spread"])
    checks = [mean, spread]
    own = _with_drawn_moments(draws, 0, generator)
    # Standardized draws show their shape less well than draws of the scale that is stated.
    as_stated = mean.passed and spread.passed
    if len(directions):
        projected = (draws if as_stated else own) @ directions.T
        checks.append(_directions(projected, levels["directions"]))
    checks += [_missing(draws, levels["missing"]), _replayed(draws, levels["replayed"])]
    if p > 1:
        checks.append(_covariance(own, levels["covariance"]))
    standard = draws if as_stated else _with_drawn_moments(draws, None, generator)
    checks.append(_shape(standard, levels["shape"]))
    tables = [draws if as_stated else own]
    if len(directions):
        # Along a direction of another scale the shape is that of noise of its own scale.
        sound = as_stated and checks[2].passed
        tables.append(projected if sound else _with_drawn_moments(projected, 0, generator))
    checks.append(_shape_by_parameter(tables, levels["shape_by_parameter"]))
    return tuple(checks)


@lru_cache(maxsize=256)
def fits_needed(n_parameters: int, n_directions: int = 0, level: float = LEVEL) -> int:
    """Return the number of releases that find half of the noise, and faults like it, by `POWER`.

    On any one parameter, along any direction, on the difference or sum of two parameters, or in
    half of the releases.
    """

    def enough(n: int) -> bool:
        found = smallest_faults(n, n_parameters, n_directions, level)
        largest = (found["covariance"], found["shape_by_parameter"])
        return bool(
            found["spread"] >= FAULT
            and (not n_directions or found["directions"] >= FAULT)
            and (n_parameters == 1 or largest[0] <= FAULTY_CORRELATION)
            and largest[1] <= FAULTY_SHARE
        )

    few, many = _FEWEST - 1, _MOST
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return max(many, min(-(-_N_DRAWS // n_parameters), _MOST_FOR_SHAPE))


def smallest_faults(n: int, p: int, n_directions: int, level: float) -> dict[str, float]:
    """Smallest fault of each kind that n releases of p parameters show with power `POWER`."""
    levels = {name: share * level for name, share in SHARES.items()}
    return {
        "mean": _smallest_shift(n, p, levels["mean"]),
        "spread": _smallest_spread(n, 4 * p, levels["spread"]),
        "directions": _smallest_spread(n, 2 * max(n_directions, 1), levels["directions"]),
        "covariance": _smallest_correlation(n, p, levels["covariance"]),
        "shape_by_parameter": _smallest_share(n, p + n_directions, levels["shape_by_parameter"]),
    }


def _smallest_shift(n: int, p: int, level: float) -> float:
    """Find the shift of one parameter, in standard deviations of its noise."""
    return float((stats.norm.isf(level / (4.0 * p)) + stats.norm.ppf(POWER)) / np.sqrt(n))


def _smallest_spread(n: int, n_tails: int, level: float) -> float:
    """Find the share of the noise on one parameter; n_tails p-values share the level."""
    few, many = stats.chi2.ppf([level / n_tails, POWER], n - 1)
    return float(np.sqrt(few / many))


def _smallest_correlation(n: int, p: int, level: float) -> float:
    """Find the correlation of two parameters, by Fisher's transformation."""
    if p < 2 or n < _FEWEST:
        return np.nan
    t = stats.t.isf(level / (3.0 * p * (p - 1.0)), n - 2.0)
    least = np.arctanh(t / np.hypot(t, np.sqrt(n - 2.0)))
    return float(np.tanh(least + stats.norm.ppf(POWER) / np.sqrt(n - 3.0)))


def _smallest_share(n: int, n_laws: int, level: float) -> float:
    """Find the share of releases with a tenth of the noise, the others having more to make up.

    The evidence is a sum over releases, about normal; NaN where no share would be found.
    """
    enough = np.log(n_laws / level) + np.log(2.0 * len(_mixtures()))
    for share in _MIXED:
        mean, deviation = _evidence_of_share(share)
        if n * mean - stats.norm.ppf(POWER) * np.sqrt(n) * deviation >= enough:
            return share
    return np.nan


@lru_cache(maxsize=len(_MIXED))
def _evidence_of_share(share: float) -> tuple[float, float]:
    """Mean and standard deviation of a draw's evidence for a mixture, under that mixture."""
    z = np.linspace(-9.0, 9.0, 20_001)
    mass = stats.norm.pdf(z) * (z[1] - z[0])
    rest = _making_up(share, SMALL)
    values = [_log_ratio(scale * z, share, SMALL, rest) for scale in (SMALL, rest)]
    first, second = (
        share * mass @ values[0] ** k + (1.0 - share) * mass @ values[1] ** k for k in (1, 2)
    )
    return float(first), float(np.sqrt(second - first**2))


def _any_of(*p_values: float) -> float:
    """Bound on the probability that the least of some p-values is as small."""
    return float(min(1.0, len(p_values) * min(p_values)))


def _mean(draws: FloatArray, level: float) -> NoiseCheck:
    n, p = draws.shape
    errors = np.sqrt(n) * draws.mean(axis=0)
    largest = float(np.abs(errors).max())
    value = _any_of(2.0 * p * stats.norm.sf(largest), stats.chi2.sf(errors @ errors, p))
    return NoiseCheck("mean", largest, value, level, _smallest_shift(n, p, level))


def _spread(draws: FloatArray, level: float) -> NoiseCheck:
    n, p = draws.shape
    squares = ((draws - draws.mean(axis=0)) ** 2).sum(axis=0)
    total = squares.sum()
    tails_of_all = stats.chi2.cdf(total, p * (n - 1)), stats.chi2.sf(total, p * (n - 1))
    worst, tail = _farthest(squares, n)
    value = _any_of(2.0 * p * tail, 2.0 * min(tails_of_all))
    return NoiseCheck("spread", worst, value, level, _smallest_spread(n, 4 * p, level))


def _directions(projected: FloatArray, level: float) -> NoiseCheck:
    """Test the scale along each direction, of shape (n_releases, n_directions)."""
    n, k = projected.shape
    squares = ((projected - projected.mean(axis=0)) ** 2).sum(axis=0)
    worst, tail = _farthest(squares, n)
    value = min(1.0, 2.0 * k * tail)
    return NoiseCheck("directions", worst, value, level, _smallest_spread(n, 2 * k, level))


def _farthest(squares: FloatArray, n: int) -> tuple[float, float]:
    """Return the standard deviation farthest from stated, and its tail of chi-squared."""
    tails = np.minimum(stats.chi2.cdf(squares, n - 1), stats.chi2.sf(squares, n - 1))
    worst = int(np.argmin(tails))
    return float(np.sqrt(squares[worst] / (n - 1))), float(tails[worst])


def _missing(draws: FloatArray, level: float) -> NoiseCheck:
    n, p = draws.shape
    number = int(np.sum(np.abs(draws).max(axis=0) < NO_NOISE))
    # That any of them has only draws as small.
    chance = p * stats.chi.cdf(NO_NOISE, 1) ** n
    value = float(min(1.0, chance)) if number else 1.0
    return NoiseCheck("missing", number, value, level, 1.0 if chance <= level else np.nan)


def _replayed(draws: FloatArray, level: float) -> NoiseCheck:
    n, p = draws.shape
    first, second = np.triu_indices(n, 1)
    near = np.ones(len(first), dtype=bool)
    for column in draws.T:
        near[near] = np.abs(column[first[near]] - column[second[near]]) < NO_NOISE
    chance = len(first) * stats.chi.cdf(NO_NOISE / np.sqrt(2.0), 1) ** p
    value = float(min(1.0, chance)) if near.any() else 1.0
    smallest = 1.0 if chance <= level else np.nan
    return NoiseCheck("replayed", int(near.sum()), value, level, smallest)


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


def _covariance(draws: FloatArray, level: float) -> NoiseCheck:
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
    value = _any_of(pairs, *np.exp(-0.5 * outside**2))
    smallest = _smallest_correlation(n, p, level)
    return NoiseCheck("covariance", largest, value, level, smallest)


def _largest_correlation(directions: FloatArray) -> float:
    """Largest absolute product of two columns of unit length."""
    p, largest = directions.shape[1], 0.0
    for some in row_blocks(p, p, 1 << 22):
        products = np.abs(directions[:, some].T @ directions)
        products[np.arange(products.shape[0]), np.arange(some.start, some.stop)] = 0.0
        largest = max(largest, float(products.max()))
    return min(largest, 1.0)


def _shape(draws: FloatArray, level: float = SHARES["shape"] * LEVEL) -> NoiseCheck:
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
    return NoiseCheck("shape", ratio / n, min(1.0, heavy / 0.75, others), level)


def _shape_by_parameter(tables: "list[FloatArray]", level: float) -> NoiseCheck:
    """Test the shape of every column of tables (n_releases, n_columns) by itself.

    The evidence of a column is the ratio of a likelihood that was chosen beforehand to that of
    normal draws, whose mean under these is 1. So is that of the mean over columns, however these
    depend on each other: by Markov's inequality it is ``1 / a`` or more with probability a at most.
    """
    n, k = len(tables[0]), sum(table.shape[1] for table in tables)
    evidence = np.concatenate([_evidence(table) for table in tables])
    value = float(np.exp(min(0.0, np.log(k) - logsumexp(evidence))))
    odds = float(evidence.max()) / np.log(10.0)
    return NoiseCheck("shape_by_parameter", odds, value, level, _smallest_share(n, k, level))


def _evidence(draws: FloatArray) -> FloatArray:
    """Logarithm of the odds against normal draws, of each column, (n_columns,).

    Half for any law, half for mixtures of normal laws of two scales.
    """
    found = np.empty(draws.shape[1])
    for columns in row_blocks(draws.shape[1], len(draws), _ELEMENTS):
        some = draws[:, columns]
        ratios = [_log_ratio(some, *mixture).sum(axis=0) for mixture in _mixtures()]
        mixed = logsumexp(ratios, axis=0) - np.log(len(ratios))
        found[columns] = np.logaddexp(_log_odds_of_any_law(some), mixed) - np.log(2.0)
    return found


def _mixtures() -> list[tuple[float, float, float]]:
    """Return shares, the scale that these have, and that of the others: as stated, or more."""
    return [
        (share, ratio, rest)
        for ratio in _RATIOS
        for share in _MIXED
        for rest in (1.0, _making_up(share, ratio))
    ]


def _making_up(share: float, ratio: float) -> float:
    """Scale of the others with which the variance is what is stated."""
    return float(np.sqrt((1.0 - share * ratio**2) / (1.0 - share)))


def _log_ratio(x: FloatArray, share: float, ratio: float, rest: float) -> FloatArray:
    """Logarithm of the density of a mixture of two scales over that of a standard normal draw."""
    squares = 0.5 * x**2
    few = np.log(share / ratio) - squares * (ratio**-2 - 1.0)
    many = np.log((1.0 - share) / rest) - squares * (rest**-2 - 1.0)
    return np.asarray(np.logaddexp(few, many))


def _log_odds_of_any_law(draws: FloatArray) -> FloatArray:
    """Logarithm of the likelihood of a Polya tree over that of normal draws, of each column.

    The distribution is halved `_DEPTH` times. At each node it is normal below with probability one
    half; else the share of the left half is drawn from Jeffreys' prior (Hanson 2006; the sum over
    all such trees is the context tree weighting of Willems, Shtarkov and Tjalkens 1995).
    """
    k, n_leaves = draws.shape[1], 2**_DEPTH
    leaves = np.minimum((ndtr(draws) * n_leaves).astype(np.intp), n_leaves - 1)
    leaves += n_leaves * np.arange(k)
    counts = np.bincount(leaves.ravel(), minlength=n_leaves * k).reshape(k, -1).astype(float)
    odds = np.zeros(counts.shape)
    half = np.log(0.5)
    while counts.shape[1] > 1:
        left, right = counts[:, ::2], counts[:, 1::2]
        counts = left + right
        split = betaln(left + 0.5, right + 0.5) - betaln(0.5, 0.5) - half * counts
        odds = np.logaddexp(half, half + split + odds[:, ::2] + odds[:, 1::2])
    return np.asarray(odds[:, 0])


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
