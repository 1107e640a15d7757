"""Excess over a bound that a number of releases can detect."""

import numpy as np
from scipy import stats

from skleak.metrics._betting import log_capital, stakes
from skleak.metrics._counts import check_counts
from skleak.utils._arguments import check_in_range, check_level
from skleak.utils._typing import BoolArray

BISECTIONS = 14


def detectable_excess(
    n_releases: int,
    bound: float,
    confidence_level: float = 0.95,
    *,
    power: float = 0.8,
    standard_deviation: float | None = None,
    method: str = "betting",
) -> float:
    """Smallest excess of the true success over a bound that an audit of this size would find.

    Found means: the lower end of the betting interval (`mean_interval` with ``method="betting"``)
    lies above the bound. Success rates of releases take two values here, of the given standard
    deviation, so that the power is a binomial tail and nothing is simulated. It is good to about
    one part in ten of the excess: rates of another shape are found a little less or more often.

    Parameters
    ----------
    n_releases : int
        Number of independent releases, at least 1; of games where each has a release of its own.
    bound : float
        Upper bound on the success, in [0, 1].
    confidence_level : float, default=0.95
        Level of the interval, in (0, 1); half of the rest on each side.
    power : float, default=0.8
        Probability of finding the excess, in (0, 1).
    standard_deviation : float, default=None
        Of the success rate between releases, at least 0. None takes the largest there is: all
        records of a release are right or wrong together.
    method : {"betting", "binomial"}, default="betting"
        Interval; "binomial" is `binomial_interval`, for one game a release, without a
        `standard_deviation`.

    Returns
    -------
    float
        In [0, 1 - bound]; infinite where not even certain success would be found.

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For arguments outside their ranges, or an unknown method.

    Examples
    --------
    >>> [round(detectable_excess(n, 0.5), 2) for n in (20, 100, 500)]
    [0.41, 0.18, 0.08]
    >>> round(detectable_excess(100, 0.5, standard_deviation=0.05), 2)
    0.03
    """
    n = int(check_counts(0, n_releases)[1])
    limit = float(check_in_range("bound", bound, empty=False))
    target = check_level(power)
    tail = 0.5 * (1.0 - check_level(confidence_level))
    if method not in ("betting", "binomial"):
        raise ValueError(f'`method` must be "betting" or "binomial"; got {method!r}.')
    if method == "binomial":
        return _binomial_excess(n, limit, tail, target)
    spread = np.inf
    if standard_deviation is not None:
        spread = float(
            check_in_range("standard_deviation", standard_deviation, 0.0, np.inf, empty=False)
        )
    low, high = 0.0, 1.0 - limit
    if not _power(n, limit, 1.0, spread, tail) >= target:
        return np.inf
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        found = _power(n, limit, limit + middle, spread, tail) >= target
        low, high = (low, middle) if found else (middle, high)
    return high


def _binomial_excess(n: int, bound: float, tail: float, power: float) -> float:
    """Excess found by the exact test, in closed form."""
    enough = float(stats.binom.isf(tail, n, bound)) + 1.0
    if enough > n:
        return np.inf
    return float(stats.beta.ppf(power, enough, n - enough + 1.0)) - bound


def _power(n: int, bound: float, mean: float, spread: float, tail: float) -> float:
    """Probability that releases of this mean and spread show that the bound is exceeded."""
    low, high, chance = _two_values(mean, spread)
    # Smallest number of high values whose capital suffices; one more than n where none does.
    below, enough = -1, n + 1
    while enough - below > 1:
        middle = (below + enough) // 2
        values = np.where(_spread_out(n, middle), high, low)[np.newaxis]
        capital = log_capital(*stakes(values, tail), np.array([bound]))[0]
        below, enough = (below, middle) if capital >= -np.log(tail) else (middle, enough)
    # The capital of the smallest number just suffices, which the order of the releases decides.
    return float(stats.binom.sf(enough, n, chance) + 0.5 * stats.binom.pmf(enough, n, chance))


def _two_values(mean: float, spread: float) -> tuple[float, float, float]:
    """Two values in [0, 1] of a mean and spread, and the chance of the higher."""
    spread = min(spread, float(np.sqrt(mean * (1.0 - mean))))
    if spread == 0.0:
        return mean, mean, 1.0
    # As even as the ends of the range allow.
    up, down = min(spread, 1.0 - mean), min(spread, mean)
    up, down = (up, spread**2 / up) if up < down else (spread**2 / down, down)
    return mean - down, min(mean + up, 1.0), down / (up + down)


def _spread_out(n: int, count: int) -> BoolArray:
    """Mark `count` of n places, evenly spread."""
    marks = np.floor(np.arange(n + 1) * count / n)
    return np.diff(marks) > 0
