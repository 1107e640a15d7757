"""Confidence intervals of shares and means, and the power of tests.

Proven confidence limit of the mean of a bounded variable: betting against a claimed mean.

Whoever believes that the mean of x_1, x_2, ... in [0, 1] is at most m accepts bets that multiply a
capital of 1 by ``1 + b_i (x_i - m)``, with any stake ``0 <= b_i <= 1 / m`` that depends on earlier
observations only. Under the claim the capital is a supermartingale of mean at most 1, whatever the
distribution and the number of observations, so that by Markov's inequality it reaches ``1 / tail``
with probability at most ``tail``. The limit is the smallest m that is not rejected so; the capital
falls in m, as every factor does. The average capital over fixed orders of the observations has a
mean of at most 1 as well, and hardly depends on the order in which they came.

The stakes are the predictable plug-in of Waudby-Smith and Ramdas, ``sqrt(2 log(1 / tail) /
(n v_i))`` with v_i the variance of the observations before, cut off at ``3 / (4 m)``.

Gaffke's upper confidence limit of the mean of a bounded variable, without simulation.

Give the sorted sample and the upper end of the range random weights that are uniform on the
simplex; the limit is a quantile of the weighted mean. With numbers in {0, 1} the weighted mean has
a Beta distribution and the limit is the one of Clopper and Pearson.

Up to a positive factor the weights are independent exponential variables, so the distribution
function is the probability that a combination of exponentials is positive: a contour integral of
its moment generating function, taken through the saddlepoint, where nothing oscillates.

Confidence intervals of success probabilities and of means.

All records of one release share its noise: their outcomes are dependent, and the number of
independent observations is the number of releases, not of records times releases.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import elementwise
from scipy.special import logsumexp

from skleak.utils._arguments import (
    as_result,
    broadcast,
    check_choice,
    check_level,
    check_numbers,
    check_scalar,
    has_missing,
)
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Orders of the observations whose capitals are averaged, the given one among them. They are fixed:
# an order chosen by the data would break the proof.
N_ORDERS = 16
LARGEST_SHARE = 0.75
BISECTIONS = 45


def lower_limit(values: FloatArray, tail: float) -> FloatArray:
    """Lower confidence limit, at level ``1 - tail``, of the mean of variables in [0, 1].

    Shapes: ``values`` (..., n); returns (...): in [0, 1], at most the mean of the values.

    I. Waudby-Smith and A. Ramdas. Estimating means of bounded random variables by betting. Journal
    of the Royal Statistical Society Series B 86, 2024.
    """
    flat = values.reshape(-1, values.shape[-1])
    limits = np.zeros(len(flat))
    for rows in row_blocks(len(flat), N_ORDERS * flat.shape[1]):
        ordered, bets = stakes(flat[rows], tail)
        low, high = np.zeros(len(ordered)), flat[rows].mean(axis=1)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            rejected = log_capital(ordered, bets, middle) >= -np.log(tail)
            low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
        limits[rows] = low
    return limits.reshape(values.shape[:-1])


def stakes(values: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Values in every order, and the stakes before each, of shape (rows, orders, n)."""
    n = values.shape[-1]
    ordered = values[:, _orders(n)]
    counts = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(ordered, axis=-1)) / (counts + 1)
    variances = (0.25 + np.cumsum((ordered - means) ** 2, axis=-1)) / (counts + 1)
    before = np.concatenate([np.full((*ordered.shape[:2], 1), 0.25), variances[..., :-1]], axis=-1)
    return ordered, np.sqrt(-2.0 * np.log(tail) / (n * before))


def log_capital(ordered: FloatArray, bets: FloatArray, mean: FloatArray) -> FloatArray:
    """Logarithm of the capital against means of shape (rows,), averaged over the orders."""
    m = np.maximum(mean, np.finfo(float).tiny)[:, np.newaxis, np.newaxis]
    gains = np.minimum(bets, LARGEST_SHARE / m) * (ordered - m)
    capital = np.log1p(gains).sum(axis=-1)
    return np.asarray(logsumexp(capital, axis=-1) - np.log(N_ORDERS))


@lru_cache(maxsize=8)
def _orders(n: int) -> IntArray:
    """Return the fixed permutations of shape (orders, n), the identity first."""
    generator = np.random.default_rng(0)
    shuffled = [generator.permutation(n) for _ in range(N_ORDERS - 1)]
    return np.stack([np.arange(n), *shuffled])


# The integrand decays at least like exp(-u).
LARGEST_U = 40.0
NEGLIGIBLE = 1e-15
FIRST_STEP = 0.25
MAX_HALVINGS = 8
ACCURACY = 1e-9
# Of the saddlepoint, whose place hardly matters.
NEAR = 1e-6
MOST_STEPS = 60
# Points of the contour that are looked at together, and what they may hold in memory.
MOST_AT_ONCE = 8
ELEMENTS = 2**15
# Brackets are exact; this keeps round-off at their ends from hiding the change of sign.
MARGIN = 1e-9


def upper_limit(values: FloatArray, tail: float) -> FloatArray:
    """Upper confidence limit, at level ``1 - tail``, of the mean of variables in [0, 1].

    Shapes: ``values`` (..., n); returns (...): in [0, 1].

    N. Gaffke. Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable. Mathematical Methods of Statistics 14, 2005.
    """
    n = values.shape[-1]
    deficits = 1.0 - values.reshape(-1, n)
    largest = deficits.max(axis=-1)
    # In units of the largest deficit the limit depends on the shape of the sample only.
    open_rows = np.flatnonzero(largest > 0.0)
    shapes = deficits[open_rows] / largest[open_rows, np.newaxis]

    def excess(y: FloatArray, row: IntArray) -> FloatArray:
        return _log_distribution(y, shapes[row]) - np.log(tail)

    limit = np.ones(len(deficits))
    if len(open_rows):
        # The two extreme shapes: a single deficit, and equal deficits.
        least = -np.expm1(np.log1p(-tail) / n) * (1.0 - MARGIN)
        most = tail ** (1.0 / n) * (1.0 + MARGIN)
        ends = np.full(len(open_rows), least), np.full(len(open_rows), most)
        root = elementwise.find_root(
            excess, ends, args=(np.arange(len(open_rows)),), tolerances={"xrtol": 1e-12}
        )
        # Should a root not be found, the lower end of its bracket is valid, only wider.
        limit[open_rows] -= largest[open_rows] * np.where(root.success, root.x, least)
    return limit.reshape(values.shape[:-1])


def _log_distribution(y: FloatArray, deficits: FloatArray) -> FloatArray:
    """Log-probability that the weighted mean of the deficits and one zero is at most ``y``.

    ``y`` has shape (m,), `deficits` has shape (m, n) and row maxima 1. With independent
    exponential ``E`` it is the event ``E_0 + sum_i (1 - deficits_i / y) E_i >= 0``.
    """
    slopes = np.concatenate([np.ones((len(y), 1)), 1.0 - deficits / y[:, np.newaxis]], axis=1)
    s = _saddlepoint(slopes)
    room = 1.0 - slopes * s[:, np.newaxis]
    ratios = slopes / room
    width = 1.0 / np.sqrt((ratios**2).sum(axis=-1) + s**-2.0)
    area = _contour_integral(ratios * width[:, np.newaxis], width / s)
    return -np.log(room).sum(axis=-1) - np.log(s) + np.log(width * area / np.pi)


def _saddlepoint(slopes: FloatArray) -> FloatArray:
    """Zero s of ``sum_j slopes_j / (1 - slopes_j s) - 1 / s`` in (0, 1), per row.

    Any other s in (0, 1) would give the same integral, with more oscillation. What is increasing
    has one zero: Newton's steps, and halves of the bracket where one leaves it.

    Shapes: ``slopes`` (m, n + 1), the first column 1 and none above; returns (m,).
    """
    n = slopes.shape[1] - 1
    low, high = np.full(len(slopes), 1.0 / (n + 2.0)), np.full(len(slopes), (n + 1.0) / (n + 2.0))
    s = 0.5 * (low + high)
    for _ in range(MOST_STEPS):
        ratios = slopes / (1.0 - slopes * s[:, np.newaxis])
        value = ratios.sum(axis=1) - 1.0 / s
        low, high = np.where(value <= 0.0, s, low), np.where(value >= 0.0, s, high)
        # Times s (1 - s), as the poles at both ends would shorten the steps.
        weight = s * (1.0 - s)
        slope = weight * ((ratios**2).sum(axis=1) + s**-2.0) + (1.0 - 2.0 * s) * value
        with np.errstate(divide="ignore", invalid="ignore"):
            step = weight * value / slope
        inside = (s - step > low) & (s - step < high)
        previous, s = s, np.where(inside, s - step, 0.5 * (low + high))
        if np.all(np.abs(s - previous) <= NEAR * weight):
            break
    return s


def _contour_integral(ratios: FloatArray, pole: FloatArray) -> FloatArray:
    """Integrate ``Re prod_j 1 / (1 - i r_j t) / (1 + i pole t)`` over t > 0, per row.

    Trapezoidal rule after ``t = sinh(u)``, with steps halved until nothing changes: all
    singularities lie at ``|Im u| >= pi / 2``, so the number of right digits doubles each time.
    """
    step = FIRST_STEP
    area = step * (0.5 + _sum_along_contour(ratios, pole, step, step))
    for _ in range(MAX_HALVINGS):
        previous = area
        area = 0.5 * (area + step * _sum_along_contour(ratios, pole, 0.5 * step, step))
        if np.all(np.abs(area - previous) <= ACCURACY * area):
            break
        step *= 0.5
    return area


def _sum_along_contour(
    ratios: FloatArray, pole: FloatArray, start: float, step: float
) -> FloatArray:
    total = np.zeros(len(pole))
    points = np.arange(start, LARGEST_U, step)
    at_once = int(np.clip(ELEMENTS // ratios.size, 1, MOST_AT_ONCE))
    for u in np.split(points, range(at_once, len(points), at_once)):
        t = np.sinh(u)
        scaled = ratios[:, np.newaxis] * t[:, np.newaxis]  # (m, len(u), n + 1)
        turned = pole[:, np.newaxis] * t
        log_size = -0.5 * (np.log1p(scaled**2).sum(axis=-1) + np.log1p(turned**2))
        size = np.exp(log_size) * np.cosh(u)
        total += (size * np.cos(np.arctan(scaled).sum(axis=-1) - np.arctan(turned))).sum(axis=1)
        if np.all(size[:, -1] < NEGLIGIBLE):
            break
    return total


def check_counts(successes: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return successes and trials as arrays of equal shape, whole and ``0 <= k <= n``."""
    k = check_numbers("successes", successes, finite=True, empty=False)
    n = check_numbers("trials", trials, finite=True, empty=False)
    for name, array, least in (("successes", k, 0), ("trials", n, 1)):
        if np.any(array < least):
            raise ValueError(f"`{name}` must be at least {least}; got {array.min():g}.")
        if not np.all(array == np.floor(array)):
            raise ValueError(
                f"`{name}` must hold whole numbers; got "
                f"{array[array != np.floor(array)].flat[0]:g}. Pass counts, not rates."
            )
    k, n = broadcast(successes=k, trials=n)
    if np.any(k > n):
        raise ValueError(
            "`successes` must not be larger than `trials`; got "
            f"{k[k > n].flat[0]:g} of {n[k > n].flat[0]:g}."
        )
    return k, n


def check_outcomes(outcomes: npt.ArrayLike, *, missing: bool = True) -> FloatArray:
    """Return a table of games, (n_releases, n_records): 0 and 1, NaN where none was played.

    Without missing ones there may be several tables, (..., n_releases, n_records).
    """
    table = check_numbers("outcomes", outcomes, missing=missing, empty=False)
    if table.ndim < 2 or (missing and table.ndim > 2):
        raise ValueError(
            f"`outcomes` must have shape (n_releases, n_records); got shape {table.shape}. Pass "
            "`outcomes[:, None]` for a single record."
        )
    wrong = ~np.isnan(table) & (table != 0.0) & (table != 1.0)
    if np.any(wrong):
        raise ValueError(
            f"`outcomes` must hold {'0, 1 and NaN' if missing else '0 and 1'} only; got "
            f"{table[wrong].flat[0]:g}. Pass `guesses == secrets`."
        )
    return table


# A spread below this multiple of the largest value is round-off.
ROUND_OFF = 1e-14


class Interval(NamedTuple):
    """An estimate with its confidence interval; unpacks as ``estimate, low, high``.

    Parameters
    ----------
    estimate : float or ndarray of shape (...)
        Point estimate.
    low, high : float or ndarray of shape (...)
        Ends of the interval, ``low <= estimate <= high``.

    Examples
    --------
    >>> from skleak.metrics import binomial_interval
    >>> interval = binomial_interval(9, 10)
    >>> estimate, low, high = interval
    >>> round(estimate, 2), round(low, 2), round(interval.high, 2)
    (0.9, 0.55, 1.0)
    """

    estimate: Any
    low: Any
    high: Any


def clustered_interval(
    outcomes: npt.ArrayLike, confidence_level: float = 0.95, *, method: str = "gaffke"
) -> Interval:
    """Success probability from a table of outcomes whose records share the noise of a release.

    The cluster is the release: the estimate is the mean over releases of the share of records
    guessed right, and only the releases count as independent observations. The interval is the
    one of Gaffke (2005) for the mean of a variable in [0, 1]: each limit is a quantile of the
    weighted mean of the shares and the end of the range, with weights uniform on the simplex.

    Parameters
    ----------
    outcomes : array-like of shape (..., n_releases, n_records)
        1 or True where the guess is right, 0 or False where it is wrong.
    confidence_level : float, default=0.95
        Probability that the interval holds the mean, in (0, 1); half of the rest on each side.
    method : {"gaffke", "betting", "korn_graubard"}, default="gaffke"
        "betting" takes the interval of Waudby-Smith and Ramdas (2024) instead, which is wider by
        1.2 to 1.5 and whose coverage is a theorem for all distributions: what a verdict rests on.
        "korn_graubard" is up to nine times as narrow, and describes what was seen: it does not
        allow for a rare release of another kind that was not.

    Returns
    -------
    Interval
        Estimate, lower and upper end, each of shape (...), in [0, 1].

    Raises
    ------
    TypeError
        For outcomes that are not numbers.
    ValueError
        For outcomes other than 0 and 1, an empty table, one without the axis of releases, an
        unknown `method`, or a confidence level outside (0, 1).

    See Also
    --------
    binomial_interval : One record (or independent trials): exact.
    mean_interval : Any real values, with labeled clusters.

    Notes
    -----
    Assumptions: the noise of the releases is independent and identically distributed, given the
    records. Nothing is assumed of the dependence within a release or the shape of the distribution
    of shares, so that a rare event no release has shown is allowed for: with shares that are all 1
    the lower end is ``(alpha / 2)^(1 / n_releases)``, as of Clopper and Pearson, and never 1. With
    one record, or records that are all right or all wrong together, the interval is theirs, and
    its coverage a theorem. For other distributions the coverage of "gaffke" is a conjecture
    (Learned-Miller and Thomas 2019) to which no counterexample is known. See the user guide,
    docs/theory/audits.md, "Intervals", for its width.

    "korn_graubard" is Clopper and Pearson's with as many independent outcomes as would have the
    variance that is seen among releases, ``p (1 - p) / se^2``, times the squared ratio of the
    normal and Student's quantile (Korn and Graubard 1998); where none is seen, with one outcome a
    release. Its coverage is nominal for shares near normal, binomial or beta-binomial.

    References
    ----------
    N. Gaffke. Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable. Mathematical Methods of Statistics 14, 2005.

    E. Learned-Miller and P. Thomas. A new confidence interval for the mean of a bounded random
    variable. arXiv:1905.06208, 2019.

    I. Waudby-Smith and A. Ramdas. Estimating means of bounded random variables by betting. Journal
    of the Royal Statistical Society Series B 86, 2024.

    E. Korn and B. Graubard. Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data. Survey Methodology 24, 1998.

    Examples
    --------
    Ten releases, four records; the noise of a release decides about all of them at once:

    >>> import numpy as np
    >>> outcomes = np.repeat([[1], [1], [0], [1], [1], [1], [0], [1], [1], [1]], 4, axis=1)
    >>> estimate, low, high = clustered_interval(outcomes)
    >>> estimate, round(low, 3), round(high, 3)
    (0.8, 0.444, 0.975)
    """
    level = check_level(confidence_level)
    table = check_outcomes(outcomes, missing=False)
    return _bounded_interval(table.mean(axis=-1), level, method)


def _bounded_interval(values: FloatArray, level: float, method: str) -> Interval:
    """Interval of the mean of independent values in [0, 1], along the last axis."""
    check_choice("method", method, ("gaffke", "betting", "korn_graubard"))
    tail = 0.5 * (1.0 - level)
    estimate = np.clip(values.mean(axis=-1), 0.0, 1.0)
    if method == "gaffke":
        low, high = 1.0 - upper_limit(1.0 - values, tail), upper_limit(values, tail)
    elif method == "betting":
        low, high = lower_limit(values, tail), 1.0 - lower_limit(1.0 - values, tail)
    else:
        # Clopper and Pearson's ends with an effective number of outcomes.
        number = effective_number(values, tail)
        low, high = exact_ends(number * estimate, number, tail)
    # The limits enclose the estimate but for round-off.
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    return Interval(as_result(estimate), as_result(low), as_result(high))


def effective_number(values: FloatArray, tail: float, extra_variance: float = 0.0) -> FloatArray:
    """Return the number of independent outcomes with the spread of shares (..., n_releases).

    Times the squared ratio of the normal and Student's quantile; where no spread is seen, the
    number of releases (Korn and Graubard 1998). The variance of the mean may have another part.
    """
    n, estimate = values.shape[-1], values.mean(axis=-1)
    number = np.full(estimate.shape, float(n))
    if n > 1:
        spread = values.std(axis=-1, ddof=1)
        few = float((stats.norm.isf(tail) / stats.t.isf(tail, n - 1)) ** 2)
        seen = (spread > ROUND_OFF) | (extra_variance > 0.0)
        seen &= (estimate > 0.0) & (estimate < 1.0)
        variance = np.where(seen, spread**2 / n + extra_variance, 1.0)
        number = np.where(seen, few * estimate * (1.0 - estimate) / variance, number)
    return number


def exact_ends(k: FloatArray, n: FloatArray, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Clopper and Pearson's interval for k of n, which need not be whole."""
    # Where an end is 0 or 1 its Beta distribution is improper: any proper stand-in will do.
    low = stats.beta.ppf(tail, np.where(k > 0.0, k, 1.0), n - k + 1.0)
    high = stats.beta.isf(tail, k + 1.0, np.where(k < n, n - k, 1.0))
    return np.where(k > 0.0, low, 0.0), np.where(k < n, high, 1.0)


def binomial_interval(
    successes: npt.ArrayLike, trials: npt.ArrayLike, confidence_level: float = 0.95
) -> Interval:
    """Exact interval of a success probability from independent trials (Clopper and Pearson).

    For one record over releases, or games with fresh noise each. Not for many records of one
    release: see `clustered_interval`.

    Parameters
    ----------
    successes : array-like of shape (...)
        Number of right guesses, whole, between 0 and `trials`.
    trials : array-like of shape (...)
        Number of independent trials, at least 1.
    confidence_level : float, default=0.95
        Least probability that the interval holds the truth, in (0, 1).

    Returns
    -------
    Interval
        ``successes / trials`` and the two ends, in [0, 1].

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For counts that are negative, not whole or NaN, more successes than trials, no trial, or a
        confidence level outside (0, 1).

    Notes
    -----
    Assumptions: independent trials with one success probability. The coverage is at least the
    level for every probability. `scipy.stats.binomtest` gives the same numbers one at a time.

    Examples
    --------
    >>> import numpy as np
    >>> result = binomial_interval([0, 9, 10], 10)
    >>> np.round(result.low, 3), np.round(result.high, 3)
    (array([0.   , 0.555, 0.692]), array([0.308, 0.997, 1.   ]))
    """
    tail = 0.5 * (1.0 - check_level(confidence_level))
    k, n = check_counts(successes, trials)
    low, high = exact_ends(k, n, tail)
    return Interval(as_result(k / n), as_result(low), as_result(high))


def mean_interval(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    confidence_level: float = 0.95,
    *,
    value_range: tuple[float, float] | None = None,
    method: str = "gaffke",
) -> Interval:
    """Mean of real values, such as squared errors, that may be dependent within clusters.

    Every cluster counts once: the estimate is the mean of the clusters' means. The interval is
    Student's, or where the range of the values is known the one of `clustered_interval`.

    Parameters
    ----------
    values : array-like of shape (n_values, ...)
        Finite numbers; the trailing axes are separate quantities.
    clusters : array-like of shape (n_values,), default=None
        Label of the cluster of each value, for instance the number of its release; None where all
        are independent.
    confidence_level : float, default=0.95
        Probability that the interval holds the mean, in (0, 1).
    value_range : tuple (low, high), default=None
        Least and largest possible value, where they are known and finite; with "korn_graubard" of
        the mean: single values may lie outside, as pseudo-values of a jackknife do.
    method : {"gaffke", "betting", "korn_graubard"}, default="gaffke"
        Interval where the range is known, as in `clustered_interval`; "betting" is the one that is
        proven, and needs `value_range`.

    Returns
    -------
    Interval
        Each of shape (...), in the units of the values. Without `value_range` the ends are
        infinite where no spread between clusters is seen (a single cluster, or equal means): the
        data then say nothing of their own error.

    Raises
    ------
    TypeError
        For values that are not numbers.
    ValueError
        For an empty, scalar, NaN or infinite `values`, labels that are missing or of another
        length, values outside `value_range`, an unknown `method` or one without its range, or a
        confidence level outside (0, 1).

    Notes
    -----
    Assumptions: clusters are independent and identically distributed. Student's interval also
    needs means of clusters that are near normal, or many clusters; with `value_range` nothing.

    Examples
    --------
    >>> import numpy as np
    >>> values, releases = [1.0, 1.2, 3.0, 3.2, 2.0, 2.2], [0, 0, 1, 1, 2, 2]
    >>> estimate, low, high = mean_interval(values, releases)
    >>> round(estimate, 3), round(low, 3), round(high, 3)
    (2.1, -0.384, 4.584)

    Six independent values would have looked far more certain:

    >>> np.round(mean_interval(values), 3)
    array([2.1  , 1.154, 3.046])
    """
    level = check_level(confidence_level)
    array = check_numbers("values", values, finite=True, empty=False)
    means = _cluster_means(array, clusters)
    if value_range is not None:
        effective = method == "korn_graubard"
        low, high = _check_range(means.mean(axis=0) if effective else array, value_range, effective)
        unit = (np.moveaxis(means, 0, -1) - low) / (high - low)
        if not effective:
            unit = np.clip(unit, 0.0, 1.0)
        parts = _bounded_interval(unit, level, method)
        return Interval(*(as_result(low + (high - low) * np.asarray(part)) for part in parts))
    if method != "gaffke":
        raise ValueError(
            f"`method={method!r}` needs `value_range`: without a range no interval is proven."
        )
    n_clusters = len(means)
    estimate = means.mean(axis=0)
    half = np.full(estimate.shape, np.inf)
    if n_clusters > 1:
        spread = means.std(axis=0, ddof=1)
        seen = spread > ROUND_OFF * np.abs(means).max(axis=0)
        quantile = stats.t.isf(0.5 * (1.0 - level), n_clusters - 1)
        half = np.where(seen, quantile * spread / np.sqrt(n_clusters), np.inf)
    return Interval(as_result(estimate), as_result(estimate - half), as_result(estimate + half))


def _cluster_means(values: FloatArray, clusters: npt.ArrayLike | None) -> FloatArray:
    """Mean of every cluster, of shape (n_clusters, ...)."""
    if values.ndim == 0:
        raise ValueError(f"`values` must have an axis of observations; got the number {values:g}.")
    if clusters is None:
        return values
    labels = np.asarray(clusters)
    if labels.shape != values.shape[:1]:
        raise ValueError(
            f"`clusters` must have one label per value, shape ({len(values)},); got shape "
            f"{labels.shape}."
        )
    if has_missing(labels):
        raise ValueError("`clusters` must not hold missing labels; drop those values first.")
    found, member, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(found), *values.shape[1:]))
    np.add.at(sums, member, values)
    return sums / sizes.reshape(-1, *[1] * (values.ndim - 1))


def _check_range(
    values: FloatArray, value_range: tuple[float, float], rounded: bool
) -> tuple[float, float]:
    ends = check_numbers("value_range", value_range, finite=True, empty=False)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(
            f"`value_range` must be a pair (low, high) with low < high; got {value_range!r}."
        )
    slack = 1e-12 * (ends[1] - ends[0]) if rounded else 0.0
    if np.any((values < ends[0] - slack) | (values > ends[1] + slack)):
        raise ValueError(
            f"`values` must lie in `value_range` [{ends[0]:g}, {ends[1]:g}]; got "
            f"{values.min():g} to {values.max():g}."
        )
    return float(ends[0]), float(ends[1])


POWER_BISECTIONS = 14


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
    limit = check_scalar("bound", bound, high=1.0)
    target = check_level(power)
    tail = 0.5 * (1.0 - check_level(confidence_level))
    check_choice("method", method, ("betting", "binomial"))
    if method == "binomial":
        return _binomial_excess(n, limit, tail, target)
    spread = np.inf
    if standard_deviation is not None:
        spread = check_scalar("standard_deviation", standard_deviation)
    low, high = 0.0, 1.0 - limit
    if not _power(n, limit, 1.0, spread, tail) >= target:
        return np.inf
    for _ in range(POWER_BISECTIONS):
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
