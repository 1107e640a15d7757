"""Checks of noise: releases against the noise that is claimed of them.

Every p-value is exact or a proven bound, for any number of releases and parameters, so that all
checks together accuse a sound mechanism with probability at most the level. Every check knows the
smallest fault that it would have found, and `fits_needed` how many releases find one that matters.
"""

from bisect import bisect_left
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from scipy.special import betaln, erfcx, logsumexp, ndtr, ndtri_exp

from skleak.utils._arguments import check_numbers, make_generator
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, RandomState

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
# Laws against which that of all draws is held, from 0, the normal, to 1, Laplace's: the first
# misses fewest of Laplace's where 500 draws are just enough, the second is lighter than the normal.
# And the scale of a rare draw far off.
_TOWARDS_LAPLACE, _FAR = np.array([0.7, -0.45]), 6.0
# Halvings of the distribution of one parameter, and the mixtures that its draws are held against.
_DEPTH = 7
_RATIOS, _MIXED = (SMALL, 0.25), (0.05, 0.1, 0.25, FAULTY_SHARE, 0.75, 0.9, 0.97)
# Entries of draws that are compared at once.
_ELEMENTS = 1 << 20
# A draw this far off is just wrong.
_FAR_OFF = 1e9
# Directions along which the noise is compared, at most.
_MOST_DIRECTIONS = 1000


# A row of a table of checks; see `check_noise`.
NoiseCheck = dict[str, Any]
COLUMNS = ("check", "statistic", "p_value", "passed", "level", "smallest_fault")


def noise_check(
    name: str, statistic: float, p_value: float, level: float, smallest_fault: float = np.nan
) -> NoiseCheck:
    """Compare the noise that an estimator adds with the noise that it states, in one respect.

    Noise as stated deviates as far with probability ``p_value`` at most, and is accused with
    ``level``; the smallest fault of its kind is found with probability `POWER`, NaN where none is.
    """
    p_value = float(min(1.0, p_value))
    row = (name, float(statistic), p_value, p_value > level, level, smallest_fault)
    return dict(zip(COLUMNS, row, strict=True))


def check_noise(
    releases: npt.ArrayLike,
    noise_scale: npt.ArrayLike = 1.0,
    *,
    covariance: npt.ArrayLike | None = None,
    center: npt.ArrayLike | None = None,
    directions: npt.ArrayLike | None = None,
    law: Literal["gaussian", "laplace"] = "gaussian",
    level: float = LEVEL,
    random_state: RandomState = 0,
) -> pd.DataFrame:
    """Test whether releases of the same data have the noise that a mechanism claims.

    On each parameter, along each direction and for all of them together. P-values are exact or
    proven bounds for any number of releases. 90 releases are enough to find half of the noise on
    any one of 1,000 parameters, and faults like it (``smallest_fault`` says which).

    Parameters
    ----------
    releases : array-like of shape (n_releases, n_parameters)
        Outputs of the mechanism on the same data, with noise drawn anew in each; at least 4.
    noise_scale : float or array-like of shape (n_parameters,), default=1.0
        Claimed standard deviation of the noise on each parameter.
    covariance : array-like of shape (n_parameters, n_parameters), default=None
        Claimed covariance over ``noise_scale ** 2``; None for independent parameters.
    center : array-like of shape (n_parameters,), default=None
        Parameters without noise. None if unknown: the mean is not tested, and Laplace noise is
        tested by differences of two releases, which takes twice as many.
    directions : array-like of shape (n_directions, n_parameters), default=None
        Directions along which an attacker looks: differences of the parameters without noise under
        two values of a secret. Their lengths do not matter; of more than 1,000 some are tested.
    law : {"gaussian", "laplace"}, default="gaussian"
        Claimed law of the noise.
    level : float, default=0.001
        Probability at most that any of the checks accuses a sound mechanism, in (0, 1).
    random_state : None, int, RandomState or Generator, default=0
        Draws means and lengths that are unknown or were found wrong, so that the other checks stay
        exact.

    Returns
    -------
    DataFrame
        A row per check: ``check``, ``statistic``, ``p_value``, ``passed``, ``level`` (its share)
        and ``smallest_fault``, the smallest statistic of its kind found 99 times in 100 (NaN: none
        known). Statistics are for "mean" the largest in standard errors (fault: a shift in standard
        deviations), "spread" and "directions" the standard deviation farthest from claimed, over
        the claimed one, "missing" the parameters without noise, "replayed" the pairs of releases
        with the same noise, "covariance" the largest correlation, "shape" the mean of ``x^2 / 2 -
        sqrt(2) |x|`` over all parameters, and "shape_by_parameter" the decimal logarithm of the
        odds against the claimed law of one (fault: share of releases with a tenth of the noise).

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For shapes that do not match, noise scales that are not positive, a covariance that is not
        positive definite or given for Laplace noise, too few releases, or an unknown law.

    Notes
    -----
    A coin in place of a Gaussian, noise that is missing in some releases and mixtures of scales are
    found by the odds of a Polya tree and of mixtures, a mean of likelihood ratios that exceeds
    ``1 / a`` with probability a at most.

    References
    ----------
    V. Vovk, R. Wang. E-values: calibration, combination and applications. Annals of Statistics 49,
    2021.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> releases = 3.0 + 0.5 * rng.normal(size=(90, 20))
    >>> bool(check_noise(releases, 0.5)["passed"].all())
    True
    >>> releases[:, 7] = 3.0 + 0.5 * rng.choice([-1.0, 1.0], size=90)
    >>> found = check_noise(releases, 0.5)
    >>> found["check"][~found["passed"]].tolist()
    ['shape', 'shape_by_parameter']
    """
    if law not in ("gaussian", "laplace"):
        raise ValueError(f'`law` must be "gaussian" or "laplace"; got {law!r}.')
    if not 0.0 < (total := float(check_numbers("level", level))) < 1.0:
        raise ValueError(f"`level` must lie strictly between 0 and 1; got {total:g}.")
    x = check_numbers("releases", releases)
    if x.ndim != 2 or len(x) < _FEWEST or not x.shape[1] or not np.isfinite(x).all():
        raise ValueError(
            f"`releases` must be finite and of shape (n_releases, n_parameters) with at least "
            f"{_FEWEST} releases; got shape {x.shape}. Release more often, and drop releases with "
            "NaN."
        )
    p, generator = x.shape[1], make_generator(random_state)
    scale, root = check_numbers("noise_scale", noise_scale), None
    if scale.shape not in ((), (p,)) or not np.all((scale > 0.0) & np.isfinite(scale)):
        raise ValueError(
            f"`noise_scale` must be positive and finite, a number or one for each of the {p} "
            f"parameters; got {scale.tolist()}."
        )
    if covariance is not None:
        matrix = check_numbers("covariance", covariance)
        if law == "laplace" or scale.ndim:
            raise ValueError(
                "`covariance` is that of Gaussian noise, over the square of one `noise_scale`. "
                "Leave one of them out."
            )
        try:
            if matrix.shape != (p, p) or not np.allclose(matrix, matrix.T):
                raise np.linalg.LinAlgError
            root = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"`covariance` must be symmetric and positive definite, of shape {(p, p)}; got "
                f"shape {matrix.shape}. Drop parameters that are functions of others."
            ) from None
    middle = x.mean(axis=0) if center is None else check_numbers("center", center)
    if middle.shape != (p,) or not np.isfinite(middle).all():
        raise ValueError(f"`center` must be finite, of shape {(p,)}; got shape {middle.shape}.")
    with np.errstate(over="ignore"):
        gaps = (x - middle) / scale  # infinite ones are just wrong
    if law == "laplace":
        draws = _normal_scores(gaps, center is None)
    else:
        draws = whitened(gaps, root)
        if center is None:
            # The mean of normal draws is independent of their differences.
            draws = draws + generator.normal(size=p) / np.sqrt(len(draws))
    towards = None
    if directions is not None:
        given = check_numbers("directions", directions)
        if given.ndim != 2 or given.shape[1] != p:
            raise ValueError(f"`directions` must have {p} columns; got shape {given.shape}.")
        towards = unit_directions(whitened(given / scale, root))
    checks = check_draws(draws, generator, towards, total)
    # An unknown center is no claim.
    return pd.DataFrame(checks[int(center is None) :])


def whitened(gaps: FloatArray, root: FloatArray | None) -> FloatArray:
    """Return rows (..., p) in units of noise of that root, (p, p); None is the identity."""
    return gaps if root is None else np.asarray(np.linalg.solve(root, gaps.T).T)


def unit_directions(differences: FloatArray) -> FloatArray | None:
    """Directions of unit length, (n_directions, p): evenly spaced ones of many; None of none."""
    lengths = np.linalg.norm(differences, axis=1)
    apart = np.flatnonzero((lengths > 0.0) & np.isfinite(lengths))
    if not len(apart):
        return None
    if len(apart) > _MOST_DIRECTIONS:
        apart = apart[np.linspace(0, len(apart) - 1, _MOST_DIRECTIONS).astype(np.intp)]
    return np.asarray(differences[apart] / lengths[apart, None])


def _normal_scores(gaps: FloatArray, differences: bool) -> FloatArray:
    """Turn Laplace noise of variance 1 into standard normal draws, or differences of two of them.

    With b the scale and t = |x| / b, tails are ``exp(-t) / 2``, and ``exp(-t) (1 + t / 2) / 2`` for
    the difference of two.
    """
    if differences:
        half = len(gaps) // 2
        gaps = gaps[:half] - gaps[half : 2 * half]
    t = np.sqrt(2.0) * np.abs(gaps)
    log_tail = np.log(0.5) - t + (np.log1p(0.5 * t) if differences else 0.0)
    return np.asarray(-np.sign(gaps) * ndtri_exp(log_tail))


def check_draws(
    draws: FloatArray,
    generator: np.random.Generator,
    directions: FloatArray | None = None,
    level: float = LEVEL,
) -> list[NoiseCheck]:
    """Compare draws with independent standard normal ones.

    Shapes: ``draws`` (n_releases, n_parameters); ``directions`` (n_directions, n_parameters), of
    unit length; returns the checks of `check_noise`, ``mean`` first, ``directions`` only where
    there are some and ``covariance`` only of several parameters.
    """
    n, p = draws.shape
    n_directions = 0 if directions is None else len(directions)
    draws = np.clip(np.nan_to_num(draws, nan=_FAR_OFF), -_FAR_OFF, _FAR_OFF)
    faults = smallest_faults(n, p, n_directions, level)
    checks: list[NoiseCheck] = []

    def passes(name: str, statistic: float, p_value: float) -> bool:
        fault = faults.get(name, np.nan)
        checks.append(noise_check(name, statistic, p_value, SHARES[name] * level, fault))
        return bool(checks[-1]["passed"])

    errors = np.sqrt(n) * draws.mean(axis=0)
    largest = np.abs(errors).max()
    tails = 2.0 * p * stats.norm.sf(largest), stats.chi2.sf(errors @ errors, p)
    as_stated = passes("mean", largest, _any_of(*tails))
    spread, each, together = _spread(draws)
    as_stated &= passes("spread", spread, _any_of(each, together))
    own = _with_drawn_moments(draws, 0, generator)
    # Standardized draws show their shape less well than draws of the scale that is stated.
    tables, sound = [draws if as_stated else own], as_stated
    if directions is not None and n_directions:
        tables.append(tables[0] @ directions.T)
        sound &= passes("directions", *_spread(tables[1])[:2])
    chances = _chances_of_none(n, p)
    missing = np.sum(np.abs(draws).max(axis=0) < NO_NOISE)
    passes("missing", missing, chances["missing"] if missing else 1.0)
    # Pairs of releases with the same noise.
    first, second = np.triu_indices(n, 1)
    for column in draws.T:
        near = np.abs(column[first] - column[second]) < NO_NOISE
        first, second = first[near], second[near]
    passes("replayed", len(first), chances["replayed"] if len(first) else 1.0)
    if p > 1:
        passes("covariance", *_covariance(own))
    passes("shape", *_shape(draws if as_stated else _with_drawn_moments(draws, None, generator)))
    if not sound:
        # Along a direction of another scale the shape is that of noise of its own scale.
        tables[1:] = [_with_drawn_moments(table, 0, generator) for table in tables[1:]]
    # The mean of the odds over columns has mean 1 at most under normal draws, however these depend
    # on each other: by Markov's inequality it is 1 / a or more with probability a at most.
    odds = np.concatenate([_evidence(table) for table in tables])
    value = np.exp(min(0.0, np.log(len(odds)) - logsumexp(odds)))
    passes("shape_by_parameter", odds.max() / np.log(10.0), value)
    return checks


@lru_cache(maxsize=256)
def fits_needed(n_parameters: int, n_directions: int = 0, level: float = LEVEL) -> int:
    """Return the number of releases that find half of the noise, and faults like it, by `POWER`.

    On any one parameter, along any direction, on the difference or sum of two parameters, or in
    half of the releases.
    """

    def enough(n: int) -> bool:
        found = smallest_faults(n, n_parameters, n_directions, level)
        scale = min(found["spread"], found["directions"] if n_directions else 1.0)
        related = found["covariance"] if n_parameters > 1 else 0.0
        alike = related <= FAULTY_CORRELATION and found["shape_by_parameter"] <= FAULTY_SHARE
        return scale >= FAULT and alike

    n = bisect_left(range(_MOST), True, lo=_FEWEST, key=enough)
    return max(n, min(-(-_N_DRAWS // n_parameters), _MOST_FOR_SHAPE))


def smallest_faults(n: int, p: int, n_directions: int, level: float) -> dict[str, float]:
    """Smallest fault of each kind that n releases of p parameters show with power `POWER`."""
    levels = {name: share * level for name, share in SHARES.items()}
    shift = stats.norm.isf(levels["mean"] / (4.0 * p)) + stats.norm.ppf(POWER)
    none = {name: chance <= levels[name] for name, chance in _chances_of_none(n, p).items()}

    def spread(n_tails: int, level: float) -> float:
        """Find the share of the noise on one parameter; n_tails p-values share the level."""
        few, many = stats.chi2.ppf([level / n_tails, POWER], n - 1)
        return float(np.sqrt(few / many))

    related = np.nan
    if p > 1 and n >= _FEWEST:  # the correlation of two parameters, by Fisher's transformation
        t = stats.t.isf(levels["covariance"] / (3.0 * p * (p - 1.0)), n - 2.0)
        least = np.arctanh(t / np.hypot(t, np.sqrt(n - 2.0)))
        related = float(np.tanh(least + stats.norm.ppf(POWER) / np.sqrt(n - 3.0)))
    return {
        "mean": float(shift / np.sqrt(n)),  # of one parameter, in standard deviations of its noise
        "spread": spread(4 * p, levels["spread"]),
        "directions": spread(2 * max(n_directions, 1), levels["directions"]),
        "covariance": related,
        "shape_by_parameter": _smallest_share(n, p + n_directions, levels["shape_by_parameter"]),
        **{name: 1.0 if found else np.nan for name, found in none.items()},
    }


def _chances_of_none(n: int, p: int) -> dict[str, float]:
    """Bound the chance that any parameter has only draws below `NO_NOISE`, or any two releases."""
    pairs = 0.5 * n * (n - 1.0) * stats.chi.cdf(NO_NOISE / np.sqrt(2.0), 1) ** p
    return {"missing": p * stats.chi.cdf(NO_NOISE, 1) ** n, "replayed": pairs}


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
    values = _log_ratio(np.concatenate([SMALL * z, rest * z]), share, SMALL, rest)
    weights = np.concatenate([share * mass, (1.0 - share) * mass])
    mean, square = (float(weights @ values**k) for k in (1, 2))
    return mean, np.sqrt(square - mean**2)


def _any_of(*p_values: float) -> float:
    """Bound on the probability that the least of some p-values is as small."""
    return float(min(1.0, len(p_values) * min(p_values)))


def _spread(draws: FloatArray) -> tuple[float, float, float]:
    """Return the scale farthest from stated, its p-value, and that of all scales together."""
    n, p = draws.shape
    squares = ((draws - draws.mean(axis=0)) ** 2).sum(axis=0)
    tails = np.minimum(stats.chi2.cdf(squares, n - 1), stats.chi2.sf(squares, n - 1))
    worst, total = int(np.argmin(tails)), squares.sum()
    together = min(stats.chi2.cdf(total, p * (n - 1)), stats.chi2.sf(total, p * (n - 1)))
    return float(np.sqrt(squares[worst] / (n - 1))), 2.0 * p * tails[worst], 2.0 * together


def _with_drawn_moments(
    draws: FloatArray, axis: int | None, generator: np.random.Generator
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


def _covariance(draws: FloatArray) -> tuple[float, float]:
    """Test correlations of two parameters by Student's law, and the spectrum of all.

    Of a Gaussian matrix of shape (m, p) no singular value lies farther than t outside of
    sqrt(m) - sqrt(p) and sqrt(m) + sqrt(p) with probability above exp(-t^2 / 2) at either end
    (Davidson and Szarek 2001, theorem II.13).
    """
    n, p = draws.shape
    centered = draws - draws.mean(axis=0)
    unit, largest = centered / np.linalg.norm(centered, axis=0), 0.0
    for some in row_blocks(p, p, 1 << 22):
        products = np.abs(unit[:, some].T @ unit)
        products[np.arange(products.shape[0]), np.arange(some.start, some.stop)] = 0.0
        largest = min(max(largest, float(products.max())), 1.0)
    with np.errstate(divide="ignore"):
        student = largest * np.sqrt((n - 2.0) / np.maximum(1.0 - largest**2, 0.0))
    pairs = float(p * (p - 1.0) * stats.t.sf(student, n - 2.0))
    # The m = n - 1 directions beside the mean.
    values = np.linalg.svd(centered, compute_uv=False)[: min(n - 1, p)]
    low, high = np.abs(np.sqrt(n - 1.0) - np.sqrt(p)), np.sqrt(n - 1.0) + np.sqrt(p)
    outside = np.maximum([values[0] - high, low - values[-1]], 0.0)
    return largest, _any_of(pairs, *np.exp(-0.5 * outside**2))


def _shape(draws: FloatArray) -> tuple[float, float]:
    """Test all draws together, by odds of laws to and from Laplace's, of a far draw, of any law.

    Of a law with density proportional to that of the normal law to the power 1 - s and Laplace's to
    the power s, the odds are ``exp(s u)`` with ``u = x^2 / 2 - sqrt(2) |x|`` over their mean under
    normal draws, ``erfcx(z) / sqrt(1 - s)`` with ``z = s / sqrt(1 - s)``.
    """
    n, root = draws.size, np.sqrt(1.0 - _TOWARDS_LAPLACE)
    total = float(np.sum(0.5 * draws**2 - np.sqrt(2.0) * np.abs(draws)))
    laplace = _TOWARDS_LAPLACE * total - n * np.log(erfcx(_TOWARDS_LAPLACE / root) / root)
    column = draws.reshape(-1, 1)
    far = _log_ratio(column, 1.0 - 1.0 / n, 1.0, _FAR).sum()
    # Half of the level looks for Laplace's law, which samplers confuse with the normal.
    odds = logsumexp([*laplace, far, _evidence(column)[0]], b=[0.5, 0.2, 0.1, 0.2])
    return total / n, float(np.exp(min(0.0, -odds)))


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
