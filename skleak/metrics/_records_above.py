"""How many records an attack is right about more often than a limit, from games about all of them.

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

from skleak.metrics._counts import check_outcomes
from skleak.metrics._intervals import effective_number, exact_ends
from skleak.utils._arguments import check_in_range, check_level, check_numbers
from skleak.utils._typing import FloatArray

# Releases below which nothing is told, and from which on records bet by themselves as well.
FEWEST, MANY = 5, 10
# Prior of an attack that is always right, in the bets on a record; the rest is uniform.
CERTAIN = 2.0 / 3.0
# Nodes of that uniform prior, which is a valid bet whatever their number.
NODES = 33
# Points of the grid of success probabilities on either side of the limit, and of the distribution.
GRID, MOST_POINTS = 33, 80
ROUND_OFF = 1e-9


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
        """Whether a number above 0 is known, or releases are enough to take 0 for few."""
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
        attacks is taken, pass `simultaneous_confidence_level` of their number.
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
    p_value_exceeds : Test of one record.
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
    as many records as are independent: a linear programme. Where none does, records are dependent,
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
        enough = max(MANY, int(np.ceil(needed - ROUND_OFF)))
    extra = float(check_in_range("extra_variance", extra_variance, 0.0, np.inf))
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
    for name, value, closed in (("max_advantage", max_advantage, True), ("chance", chance, False)):
        number = check_numbers(name, value)
        inside = number.ndim == 0 and 0.0 <= float(number) <= 1.0
        if not inside or (not closed and float(number) in (0.0, 1.0)):
            raise ValueError(
                f"`{name}` must be one number between 0 and 1{'' if closed else ', ends excluded'}"
                f"; got {value!r}."
            )
    limit = float(chance) + float(max_advantage) * (1.0 - float(chance))
    played = table[known.any(axis=1)][:, known.any(axis=0)]
    return played, limit, 1.0 - check_level(confidence_level)


def _split(alpha: float, sure: float) -> tuple[float, float, float]:
    """Parts of the error for tests, mean and distribution, by what is known before any game.

    With few releases tests need more of it, or none of them can tell anything.
    """
    tests = alpha / 3.0
    if tests < sure <= 0.8 * alpha:
        tests = sure * (1.0 + ROUND_OFF)
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
    observed = np.searchsorted(shares, points + ROUND_OFF, side="right") / n
    sizes, counts = np.unique(games, return_counts=True)
    grid = np.r_[np.linspace(0.0, limit, GRID), np.linspace(limit, 1.0, GRID)[1:]]
    cost = np.tile((np.arange(len(grid)) >= GRID).astype(float), len(sizes))
    most = np.floor(points[:, None] * sizes + ROUND_OFF)
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
