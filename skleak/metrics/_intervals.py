"""Confidence intervals of success probabilities and of means.

All records of one release share its noise: their outcomes are dependent, and the number of
independent observations is the number of releases, not of records times releases.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from skleak.metrics._betting import lower_limit
from skleak.metrics._bounded_mean import upper_limit
from skleak.metrics._counts import check_counts
from skleak.utils._arguments import as_result, check_level, check_numbers, has_missing
from skleak.utils._typing import FloatArray

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
    mean_interval : Any real values, with labelled clusters.

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
    table = check_numbers("outcomes", outcomes, empty=False)
    if table.ndim < 2:
        raise ValueError(
            "`outcomes` must have shape (n_releases, n_records); got shape "
            f"{table.shape}. Pass `outcomes[:, None]` for a single record."
        )
    wrong = (table != 0.0) & (table != 1.0)
    if np.any(wrong):
        raise ValueError(
            f"`outcomes` must hold 0 and 1 only; got {table[wrong].flat[0]:g}. "
            "Pass `guesses == secrets`."
        )
    return _bounded_interval(table.mean(axis=-1), level, method)


def _bounded_interval(values: FloatArray, level: float, method: str) -> Interval:
    """Interval of the mean of independent values in [0, 1], along the last axis."""
    tail = 0.5 * (1.0 - level)
    estimate = np.clip(values.mean(axis=-1), 0.0, 1.0)
    if method == "gaffke":
        low, high = 1.0 - upper_limit(1.0 - values, tail), upper_limit(values, tail)
    elif method == "betting":
        low, high = lower_limit(values, tail), 1.0 - lower_limit(1.0 - values, tail)
    elif method == "korn_graubard":
        low, high = _effective_interval(values, estimate, tail)
    else:
        raise ValueError(
            f'`method` must be "gaffke", "betting" or "korn_graubard"; got {method!r}.'
        )
    # The limits enclose the estimate but for round-off.
    low, high = np.minimum(low, estimate), np.maximum(high, estimate)
    return Interval(as_result(estimate), as_result(low), as_result(high))


def _effective_interval(
    values: FloatArray, estimate: FloatArray, tail: float
) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's ends with an effective number of outcomes, of shape (...)."""
    number = effective_number(values, tail)
    return exact_ends(number * estimate, number, tail)


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
