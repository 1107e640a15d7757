"""Exact tests of "no better than the bound", one record or many at once."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

from skleak.metrics._counts import check_counts, check_outcomes
from skleak.metrics._intervals import effective_number
from skleak.utils._arguments import as_result, broadcast, check_in_range, check_level, check_numbers


def p_value_exceeds(successes: npt.ArrayLike, trials: npt.ArrayLike, bound: npt.ArrayLike) -> Any:
    """Exact one-sided binomial p-value of the claim that success is at most the bound.

    Parameters
    ----------
    successes : array-like of shape (...)
        Number of right guesses, whole, between 0 and `trials`.
    trials : array-like of shape (...)
        Number of independent trials, at least 1.
    bound : array-like of shape (...)
        Upper bound on the success probability, at least 0. One of 1 or more claims nothing: its
        p-value is 1.

    Returns
    -------
    float or ndarray of shape (...)
        ``P(Bin(trials, bound) >= successes)``: small where the attack did better than the bound
        allows. Correct it by `multiplicity_correction` where many records are looked at.

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For impossible counts, a negative or NaN bound, or shapes that do not match.

    Notes
    -----
    Assumptions: independent trials of one record; not the records of one release.

    Examples
    --------
    >>> import numpy as np
    >>> np.round(p_value_exceeds([50, 60, 70], 100, 0.5), 4)
    array([0.5398, 0.0284, 0.    ])
    """
    k, n = check_counts(successes, trials)
    limit = check_numbers("bound", bound, empty=False)
    if np.any(limit < 0.0):
        raise ValueError(f"`bound` must be at least 0; got {limit.min():g}.")
    k, n, limit = broadcast(successes=k, trials=n, bound=np.minimum(limit, 1.0))
    return as_result(stats.binom.sf(k - 1.0, n, limit))


# Tails between which the p-value of a group is looked for.
LEAST, MOST = 1e-100, 0.4


def group_p_value(
    outcomes: npt.ArrayLike, chance: float = 0.5, *, extra_variance: float = 0.0
) -> float:
    """One-sided p-value of the claim that a group of records is guessed right by chance.

    Parameters
    ----------
    outcomes : array-like of shape (n_releases, n_records)
        1 or True where the guess about a record was right, 0 or False where it was wrong, NaN where
        the record was not attacked.
    chance : float, default=0.5
        Success of guessing, in (0, 1).
    extra_variance : float, default=0.0
        Variance of the share of right guesses beyond what the spread among releases tells, as of
        guesses that were learned from the other releases.

    Returns
    -------
    float
        In [0, 1]; 1 where no record was attacked. Correct it by `multiplicity_correction` where
        several groups are looked at.

    Raises
    ------
    TypeError
        For outcomes that are not numbers.
    ValueError
        For outcomes other than 0, 1 and NaN, a table with another number of axes, or a chance out
        of range.

    See Also
    --------
    p_value_exceeds : The same of one record, exact.

    Notes
    -----
    Records of one release share a model. The binomial distribution is that of as many games as are
    independent by the spread among releases, at the level of the p-value itself (Korn and Graubard
    1998); and of all games where no release has more than one, which is exact.

    Examples
    --------
    Two records in 24 releases, right in 46 of 48 games:

    >>> import numpy as np
    >>> outcomes = np.ones((24, 2))
    >>> outcomes[[3, 7], 0] = 0.0
    >>> group_p_value(outcomes) < 1e-6
    True
    """
    table = check_outcomes(outcomes)
    odds = check_numbers("chance", chance)
    if odds.ndim or not 0.0 < float(odds) < 1.0:
        raise ValueError(f"`chance` must be one number in (0, 1), ends excluded; got {chance!r}.")
    known = ~np.isnan(table)
    games, right = known.sum(axis=1), np.nansum(table, axis=1)
    total, hits = float(games.sum()), float(right.sum())
    if hits == 0.0:
        return 1.0
    extra = float(check_in_range("extra_variance", extra_variance, 0.0, np.inf))
    if games.max() == 1 and extra == 0.0:
        return float(stats.binom.sf(hits - 1.0, total, float(odds)))
    shares = right[games > 0] / games[games > 0]

    def excess(log_tail: float) -> float:
        """Test at a level, less that level: few releases have fewer games at smaller ones."""
        tail = np.exp(log_tail)
        number = min(total, float(effective_number(shares, tail, extra)))
        k = number * hits / total
        return float(stats.beta.logcdf(float(odds), k, number - k + 1.0)) - log_tail

    ends = float(np.log(LEAST)), float(np.log(MOST))
    if excess(ends[1]) >= 0.0:
        return 1.0
    return float(np.exp(brentq(excess, *ends))) if excess(ends[0]) > 0.0 else LEAST


def multiplicity_correction(p_values: npt.ArrayLike, method: str = "holm") -> Any:
    """Adjust p-values so that the chance of any false alarm among them stays below the level.

    Reject where the adjusted value is at most the level: family-wise error control, unlike
    `scipy.stats.false_discovery_control`, which allows a share of false alarms.

    Parameters
    ----------
    p_values : array-like of shape (..., n_tests)
        In [0, 1]; the family is the last axis.
    method : {"holm", "bonferroni", "sidak"}, default="holm"
        "holm" (step-down) and "bonferroni" hold under any dependence, and "holm" rejects at least
        as much. "sidak", ``1 - (1 - p)^n``, needs independent tests.

    Returns
    -------
    ndarray of shape (..., n_tests)
        In [0, 1], in the order given, each at least the p-value itself.

    Raises
    ------
    TypeError
        For p-values that are not numbers.
    ValueError
        For p-values outside [0, 1], a number instead of an array, or an unknown method.

    Notes
    -----
    Records of one release share its noise, so their tests are dependent: prefer "holm".

    References
    ----------
    S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of
    Statistics 6, 1979.

    Examples
    --------
    >>> multiplicity_correction([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    >>> multiplicity_correction([0.01, 0.04, 0.03], method="bonferroni")
    array([0.03, 0.12, 0.09])
    """
    p = check_in_range("p_values", p_values, empty=False)
    if p.ndim == 0:
        raise ValueError("`p_values` must have an axis of tests; got one number. Pass a list.")
    n_tests = p.shape[-1]
    if method == "bonferroni":
        return np.minimum(n_tests * p, 1.0)
    if method == "sidak":
        with np.errstate(divide="ignore"):
            return -np.expm1(n_tests * np.log1p(-p))
    if method != "holm":
        raise ValueError(f'`method` must be "holm", "bonferroni" or "sidak"; got {method!r}.')
    order = np.argsort(p, axis=-1)
    steps = np.take_along_axis(p, order, axis=-1) * np.arange(n_tests, 0, -1)
    adjusted = np.empty_like(p)
    # A test is rejected only where all with smaller p-values are.
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, axis=-1), axis=-1)
    return np.minimum(adjusted, 1.0)


def simultaneous_confidence_level(
    confidence_level: float, n_intervals: int, method: str = "bonferroni"
) -> float:
    """Level of each interval so that all of them hold at once with `confidence_level`.

    Parameters
    ----------
    confidence_level : float
        Probability that every interval holds its truth, in (0, 1).
    n_intervals : int
        Number of intervals, at least 1.
    method : {"bonferroni", "sidak"}, default="bonferroni"
        "bonferroni" holds under any dependence; "sidak" needs independent intervals. Holm's
        step-down method corrects tests, not intervals.

    Returns
    -------
    float
        In (0, 1), at least `confidence_level`. Pass it to the functions that make intervals.

    Raises
    ------
    ValueError
        For a level outside (0, 1), fewer than one interval, so many intervals that the level
        rounds to 1, or an unknown method.

    Examples
    --------
    >>> round(simultaneous_confidence_level(0.95, 10), 6)
    0.995
    """
    level = check_level(confidence_level)
    count = check_numbers("n_intervals", n_intervals, empty=False)
    if count.ndim != 0 or not 1.0 <= count < np.inf or count != np.floor(count):
        raise ValueError(f"`n_intervals` must be a whole number, at least 1; got {n_intervals!r}.")
    if method not in ("bonferroni", "sidak"):
        raise ValueError(f'`method` must be "bonferroni" or "sidak"; got {method!r}.')
    n = float(count)
    each = 1.0 - (1.0 - level) / n if method == "bonferroni" else level ** (1.0 / n)
    if each >= 1.0:
        raise ValueError(
            f"`n_intervals` = {n:g} needs a level that rounds to 1. Take fewer intervals, or "
            "correct p-values by `multiplicity_correction`."
        )
    return each
