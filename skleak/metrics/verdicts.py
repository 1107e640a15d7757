"""Which of many scores exceed a bound, and how many records do.

How many records an attack is right about more often than a limit, from games about all of them.

Rejected tests are no count of records: with few releases no test of a single record can reject,
however many are told apart. Three lower confidence limits of the number are taken, at levels that
are fixed beforehand and add up, and the largest counts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, stats
from scipy.special import logsumexp

from skleak.metrics.intervals import check_counts, check_outcomes, effective_number, exact_ends
from skleak.utils._arguments import (
    as_result,
    broadcast,
    check_choice,
    check_level,
    check_numbers,
    check_real,
    check_scalar,
)
from skleak.utils._typing import FloatArray

CONSISTENT = "consistent with the bound"
EXCEEDED = "bound exceeded"
VACUOUS = "bound vacuous"
# The bound of Cramer and Rao for unbiased attacks says nothing against a biased one.
BIASED = "below the unbiased bound"
# The attack uses what the prior of the bound leaves out.
INCOMPARABLE = "not comparable"
# Two computations of one number may differ by this much (relative to 1 or to the bound).
ROUND_OFF = 1e-12


def verdict(
    low: npt.ArrayLike, high: npt.ArrayLike, bound: npt.ArrayLike, side: str = "upper"
) -> Any:
    """Judge a measured interval against a bound.

    Parameters
    ----------
    low, high : array-like of shape (...)
        Ends of the confidence interval of what was measured, ``low <= high``; may be infinite. For
        a success, those of an interval whose coverage is proven: `binomial_interval`, or
        ``method="betting"`` where records share the noise of a release.
    bound : array-like of shape (...)
        The bound, in the same units; may be infinite.
    side : {"upper", "lower"}, default="upper"
        "upper" for an upper bound on success or advantage; "lower" for a lower bound on an error
        (Cramer-Rao), which is exceeded where the attack errs *less* than the bound allows.

    Returns
    -------
    str or ndarray of str of shape (...)
        "bound exceeded" only where the whole interval lies on the forbidden side;
        "bound vacuous" where the bound excludes nothing, an upper one of at least 1 or a lower one
        of at most 0; "consistent with the bound" otherwise. Consistent is not safe: another
        attack may do better, and a wide interval is consistent with much.

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For NaN, ``low > high``, shapes that do not match, or an unknown side.

    Notes
    -----
    Assumptions: the bound and the interval speak of the same prior and the same game. Where many
    verdicts are read at once, divide what their levels are short of 1 by their number (Bonferroni).
    Differences of 1e-12 count as round-off.

    Examples
    --------
    >>> verdict(0.41, 0.47, 0.40)
    'bound exceeded'
    >>> verdict([0.3, 0.9], [0.5, 1.0], [0.4, 1.0]).tolist()
    ['consistent with the bound', 'bound vacuous']
    >>> verdict(0.5, 0.8, 1.0, side="lower")
    'bound exceeded'
    """
    low, high, bound = broadcast(
        low=check_numbers("low", low, empty=False),
        high=check_numbers("high", high, empty=False),
        bound=check_numbers("bound", bound, empty=False),
    )
    if np.any(low > high):
        first = np.flatnonzero(low.ravel() > high.ravel())[0]
        raise ValueError(
            f"`low` must not be above `high`; got {low.flat[first]:g} and {high.flat[first]:g}."
        )
    check_choice("side", side, ("upper", "lower"))
    if side == "upper":
        vacuous = bound >= 1.0
        exceeded = low > bound + ROUND_OFF * np.maximum(np.abs(bound), 1.0)
    else:
        vacuous = bound <= 0.0
        exceeded = high < bound * (1.0 - ROUND_OFF)
    result = np.select([vacuous, exceeded], [VACUOUS, EXCEEDED], CONSISTENT)
    return str(result) if result.ndim == 0 else result


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
    limit = check_real("bound", check_numbers("bound", bound, empty=False))
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
    odds = check_scalar("chance", chance, low_open=True, high=1.0, high_open=True)
    known = ~np.isnan(table)
    games, right = known.sum(axis=1), np.nansum(table, axis=1)
    total, hits = float(games.sum()), float(right.sum())
    if hits == 0.0:
        return 1.0
    extra = float(check_real("extra_variance", extra_variance))
    if games.max() == 1 and extra == 0.0:
        return float(stats.binom.sf(hits - 1.0, total, odds))
    shares = right[games > 0] / games[games > 0]

    def excess(log_tail: float) -> float:
        """Test at a level, less that level: few releases have fewer games at smaller ones."""
        tail = np.exp(log_tail)
        number = min(total, float(effective_number(shares, tail, extra)))
        k = number * hits / total
        return float(stats.beta.logcdf(odds, k, number - k + 1.0)) - log_tail

    ends = float(np.log(LEAST)), float(np.log(MOST))
    if excess(ends[1]) >= 0.0:
        return 1.0
    return float(np.exp(optimize.brentq(excess, *ends))) if excess(ends[0]) > 0.0 else LEAST


def multiplicity_correction(p_values: npt.ArrayLike) -> Any:
    """Adjust p-values by Holm's step-down method, against any false alarm among them.

    Reject where the adjusted value is at most the level: family-wise error control, unlike
    `scipy.stats.false_discovery_control`, which allows a share of false alarms. It holds under any
    dependence, and the records of one release share its noise.

    Parameters
    ----------
    p_values : array-like of shape (..., n_tests)
        In [0, 1]; the family is the last axis.

    Returns
    -------
    ndarray of shape (..., n_tests)
        In [0, 1], in the order given, each at least the p-value itself.

    Raises
    ------
    TypeError
        For p-values that are not numbers.
    ValueError
        For p-values outside [0, 1], or a number instead of an array.

    References
    ----------
    S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of
    Statistics 6, 1979.

    Examples
    --------
    >>> multiplicity_correction([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = check_real("p_values", check_numbers("p_values", p_values, empty=False), high=1.0)
    if p.ndim == 0:
        raise ValueError("`p_values` must have an axis of tests; got one number. Pass a list.")
    order = np.argsort(p, axis=-1)
    steps = np.take_along_axis(p, order, axis=-1) * np.arange(p.shape[-1], 0, -1)
    adjusted = np.empty_like(p)
    # A test is rejected only where all with smaller p-values are.
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, axis=-1), axis=-1)
    return np.minimum(adjusted, 1.0)


def simultaneous_confidence_level(confidence_level: float, n_intervals: int) -> float:
    """Level of each interval so that all of them hold at once with `confidence_level`.

    That of Bonferroni, which holds under any dependence.

    Parameters
    ----------
    confidence_level : float
        Probability that every interval holds its truth, in (0, 1).
    n_intervals : int
        Number of intervals, at least 1.

    Returns
    -------
    float
        In (0, 1), at least `confidence_level`. Pass it to the functions that make intervals.

    Raises
    ------
    ValueError
        For a level outside (0, 1), fewer than one interval, or so many intervals that the level
        rounds to 1.

    Examples
    --------
    >>> round(simultaneous_confidence_level(0.95, 10), 6)
    0.995
    """
    rest = 1.0 - check_level(confidence_level)
    each = 1.0 - rest / check_scalar("n_intervals", n_intervals, low=1.0, finite=True)
    if each >= 1.0:
        raise ValueError(
            f"`n_intervals` = {n_intervals} needs a level that rounds to 1. Take fewer intervals, "
            "or correct p-values by `multiplicity_correction`."
        )
    return each


# Releases below which nothing is told, and from which on records bet by themselves as well.
FEWEST, MANY = 5, 10
# Prior of an attack that is always right, in the bets on a record; the rest is uniform.
CERTAIN = 2.0 / 3.0
# Nodes of that uniform prior, which is a valid bet whatever their number.
NODES = 33
# Points of the grid of success probabilities on either side of the limit, and of the distribution.
GRID, MOST_POINTS = 33, 80
SOLVER_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class RecordsAbove:
    """Lower confidence limit of the number of records above a limit.

    Parameters
    ----------
    at_least : int
        As many records are above the limit, at least; 0 where none is shown to be.
    n_records : int
        Number of records that were attacked.
    n_releases : int
        Number of releases.
    method : {"tests", "mean", "distribution", ""}
        What the number follows from: "tests", which suppose nothing of how records depend on each
        other; the "mean" over records, or the "distribution" of right guesses among them, which
        suppose that releases differ as those played do. Empty where it is 0.
    n_effective : float
        Number of independent games with the spread that is seen among releases.
    design_effect : float
        Number of games over the effective number, at least 1.
    n_enough : int
        Releases with which a single record can be told apart about which every guess is right.

    Examples
    --------
    >>> import numpy as np
    >>> found = records_above(np.ones((10, 50)), 0.05)
    >>> found.at_least, found.method, found.n_enough
    (50, 'tests', 15)
    """

    at_least: int
    n_records: int
    n_releases: int
    method: str
    n_effective: float
    design_effect: float
    n_enough: int

    @property
    def tells(self) -> bool:
        """True if a number above 0 is known, or releases are enough to take 0 for few."""
        return self.at_least > 0 or self.n_releases >= self.n_enough


def records_above(
    outcomes: npt.ArrayLike,
    max_advantage: float,
    chance: float = 0.5,
    confidence_level: float = 0.95,
    *,
    extra_variance: float = 0.0,
) -> RecordsAbove:
    """Lower confidence limit of the number of records whose own advantage is above a limit.

    Parameters
    ----------
    outcomes : array-like of shape (n_releases, n_records)
        1 or True where the guess about a record was right, 0 or False where it was wrong, NaN where
        the record was not attacked.
    max_advantage : float
        The limit, in [0, 1]; advantage is ``(success - chance) / (1 - chance)``.
    chance : float, default=0.5
        Success of guessing without the model, in (0, 1).
    confidence_level : float, default=0.95
        Probability that the number is not above the truth, in (0, 1). Where the best of several
        attacks is taken, divide what it is short of 1 by their number (Bonferroni).
    extra_variance : float, default=0.0
        Variance of the mean share of right guesses beyond what the spread among releases tells, as
        of guesses that were learned from the other releases.

    Returns
    -------
    RecordsAbove

    Raises
    ------
    TypeError
        For outcomes that are not numbers.
    ValueError
        For outcomes other than 0, 1 and NaN, a table without any or with another number of axes,
        and for arguments outside their ranges.

    See Also
    --------
    clustered_interval : Interval of the mean success over records.

    Notes
    -----
    Assumptions: releases are independent and identically distributed. Below 5 releases the number
    is 0. Else it is the largest of three, each at a part of the error:

    *Tests.* Against the claim that its advantage is within the limit, every record has a capital of
    1 to bet with (a likelihood ratio, its alternative always right with weight 2/3, else uniform).
    Its mean is at most 1 while the claim is true, so that the mean capital of m records within the
    limit is above ``1 / alpha`` with probability alpha at most, however they depend on each other.
    The number is n less the largest m of whom this may be so, with the smallest capitals (Vovk and
    Wang 2021). Half of the capital, below 10 releases all, m records bet together in each release:
    that all of them are right.

    *Mean.* No advantage exceeds 1, so that with a mean advantage A of n records at least
    ``n (A - limit) / (1 - limit)`` are above the limit. A is the lower end of Clopper and Pearson's
    interval with as many games as are independent (Korn and Graubard 1998).

    *Distribution.* The least share above the limit over all mixtures of success probabilities whose
    distribution of right guesses lies in a band around the one observed (Bretagnolle 1980), with
    as many records as are independent: a linear program. Where none does, records are dependent,
    and nothing follows.

    The latter two suppose that records are independent but for the spread that is seen among the
    releases played: of releases of another kind that are one in fourteen, ten show none with
    probability one half.

    References
    ----------
    V. Vovk and R. Wang. E-values: calibration, combination and applications. Annals of Statistics
    49, 2021.

    E. Korn and B. Graubard. Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data. Survey Methodology 24, 1998.

    J. Bretagnolle. Statistique de Kolmogorov-Smirnov pour un echantillon non equireparti.
    Colloques internationaux du CNRS 307, 1980.

    Examples
    --------
    Of 400 records half are always guessed right. In ten games no test of a single record can tell:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> right = rng.random((10, 400)) < np.where(np.arange(400) < 200, 1.0, 0.5)
    >>> found = records_above(right, 0.05)
    >>> 150 < found.at_least <= 200, found.tells, found.n_enough
    (True, True, 18)
    """
    table, limit, alpha = _checked(outcomes, max_advantage, chance, confidence_level)
    n_releases, n = table.shape
    known = ~np.isnan(table)
    games, hits = known.sum(axis=0).astype(float), np.nansum(table, axis=0)
    shares, total = np.nansum(table, axis=1) / known.sum(axis=1), float(games.sum())
    levels = _split(alpha, limit**n_releases)
    enough = FEWEST
    if limit < 1.0:
        needed = np.log(2.0 * n / (CERTAIN * alpha / 3.0)) / -np.log(limit)
        needed *= table.size / total  # of those held out of some releases more
        enough = max(MANY, int(np.ceil(needed - SOLVER_ROUND_OFF)))
    extra = float(check_real("extra_variance", extra_variance))
    effective = min(float(effective_number(shares, levels[1], extra)), total)
    found = {"tests": 0, "mean": 0, "distribution": 0}
    if n_releases >= FEWEST and limit < 1.0:
        found["tests"] = _by_tests(table, hits, games, limit, levels[0])
        right = np.asarray(effective * shares.mean())
        low, _ = exact_ends(right, np.asarray(effective), levels[1])
        found["mean"] = _whole(n * (low - limit) / (1.0 - limit))
        found["distribution"] = _by_distribution(hits, games, limit, effective * n / total, levels)
    method = max(found, key=lambda name: found[name])
    number = found[method]
    rest = (effective, total / effective, enough)
    return RecordsAbove(number, n, n_releases, method if number else "", *rest)


def _checked(
    outcomes: npt.ArrayLike, max_advantage: float, chance: float, confidence_level: float
) -> tuple[FloatArray, float, float]:
    """Return outcomes of what was attacked, the success at the limit, and the error allowed."""
    table = check_outcomes(outcomes)
    known = ~np.isnan(table)
    if not known.any():
        raise ValueError("`outcomes` must hold at least one game; all of it is missing.")
    most = check_scalar("max_advantage", max_advantage, high=1.0)
    odds = check_scalar("chance", chance, low_open=True, high=1.0, high_open=True)
    limit = odds + most * (1.0 - odds)
    played = table[known.any(axis=1)][:, known.any(axis=0)]
    return played, limit, 1.0 - check_level(confidence_level)


def _split(alpha: float, sure: float) -> tuple[float, float, float]:
    """Parts of the error for tests, mean and distribution, by what is known before any game.

    With few releases tests need more of it, or none of them can tell anything.
    """
    tests = alpha / 3.0
    if tests < sure <= 0.8 * alpha:
        tests = sure * (1.0 + SOLVER_ROUND_OFF)
    return tests, 0.5 * (alpha - tests), 0.5 * (alpha - tests)


def _whole(number: Any) -> int:
    """Least whole number that is not below, but for round-off, and not negative."""
    return max(0, int(np.ceil(float(number) - 1e-6)))


def _by_tests(
    table: FloatArray, hits: FloatArray, games: FloatArray, limit: float, tail: float
) -> int:
    """Count by capitals; shapes ``table`` (n_releases, n); ``hits``, ``games`` (n,)."""
    capital = _shared_capital(table, limit)
    if len(table) >= MANY:
        own = np.logaddexp.accumulate(np.sort(_own_capital(hits, games, limit)))
        own -= np.log(np.arange(1, len(own) + 1))
        capital = np.logaddexp(capital, own) - np.log(2.0)
    held = np.flatnonzero(capital < -np.log(tail)) + 1
    return len(capital) - int(held.max(initial=0))


def _own_capital(hits: FloatArray, games: FloatArray, limit: float) -> FloatArray:
    """Logarithm of the capital of every record by itself, (n,)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    success = limit + 0.5 * (1.0 - limit) * (1.0 + nodes)
    gains = hits[:, None] * np.log(success / limit)
    gains += (games - hits)[:, None] * np.log((1.0 - success) / (1.0 - limit))
    certain = np.where(hits == games, -games * np.log(limit), -np.inf)
    other = logsumexp(gains, b=0.5 * weights, axis=1)
    return np.logaddexp(certain + np.log(CERTAIN), other + np.log1p(-CERTAIN))


def _shared_capital(table: FloatArray, limit: float) -> FloatArray:
    """Logarithm of the least capital that 1 to n records share, (n,); ``table`` (n_releases, n)."""
    absent, wrong = np.isnan(table).sum(axis=1), np.nansum(1.0 - table, axis=1)
    # As many of them are attacked in each release, and no more of these guessed wrong.
    attacked = np.arange(1, table.shape[1] + 1)[:, None] - absent
    right = np.maximum(1.0 - wrong / np.maximum(attacked, 1), 0.0)
    gains = np.where(attacked > 0, right / limit, (wrong == 0.0).astype(float))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(gains).sum(axis=1))


def _by_distribution(
    hits: FloatArray,
    games: FloatArray,
    limit: float,
    n_effective: float,
    levels: tuple[float, float, float],
) -> int:
    """Count by the distribution of right guesses; shapes ``hits``, ``games`` (n,)."""
    n, n_effective = len(hits), min(n_effective, float(len(hits)))
    band = float(np.sqrt((1.0 + np.log(2.0 / levels[2])) / (2.0 * n_effective)))
    if band >= 0.5:
        return 0
    shares = np.sort(hits / games)
    points = np.unique(shares)
    if len(points) > MOST_POINTS:
        quantiles = np.linspace(0.0, 1.0, MOST_POINTS)
        points = np.unique(np.quantile(shares, quantiles, method="nearest"))
    observed = np.searchsorted(shares, points + SOLVER_ROUND_OFF, side="right") / n
    sizes, counts = np.unique(games, return_counts=True)
    grid = np.r_[np.linspace(0.0, limit, GRID), np.linspace(limit, 1.0, GRID)[1:]]
    cost = np.tile((np.arange(len(grid)) >= GRID).astype(float), len(sizes))
    most = np.floor(points[:, None] * sizes + SOLVER_ROUND_OFF)
    expected = stats.binom.cdf(most[:, :, None], sizes[:, None], grid)
    expected = expected.reshape(len(points), -1)
    found = optimize.linprog(
        cost,
        A_ub=np.vstack([expected, -expected]),
        b_ub=np.r_[observed + band, band - observed],
        A_eq=sparse.kron(sparse.eye(len(sizes)), np.ones((1, len(grid)))),
        b_eq=counts / n,
        method="highs",
    )
    return _whole(n * found.fun) if found.status == 0 else 0
