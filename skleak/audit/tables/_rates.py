"""Rates of guesses of membership over many releases, with intervals that count releases."""

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from skleak.metrics import Interval, binomial_interval, mean_interval
from skleak.utils._typing import Array, FloatArray

# Columns of true positive rates, and the false positive rates that they are at.
TPR = {"tpr_at_1pct_fpr": 0.01, "tpr_at_0.1pct_fpr": 0.001}
_ROUND_OFF = 1e-12
_N_RESAMPLES = 400
# Pairs of release and record above which fewer resamples have to do.
_MANY = 1 << 19
_FEW_RESAMPLES = 100
# Log-likelihood ratios beyond which nothing is looked for, and distances that are none.
_FARTHEST, _SAME = 700.0, 1e-9


class Rates(NamedTuple):
    """True positive rates at one false positive in a hundred and in a thousand, and the area.

    Each with its interval; that at one in a thousand is NaN with fewer than a thousand non-members.
    ``least`` are lower limits, of all attacks together.
    """

    tpr: float = np.nan
    tpr_low: float = np.nan
    tpr_high: float = np.nan
    auc: float = np.nan
    auc_low: float = np.nan
    auc_high: float = np.nan
    strict: float = np.nan
    strict_low: float = np.nan
    strict_high: float = np.nan
    tpr_least: float = np.nan
    auc_least: float = np.nan

    def columns(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the entries by the names of columns: those of all audits first, and the rest."""
        usual, strict = ([f"{name}{end}" for end in ("", "_low", "_high")] for name in TPR)
        names = [*usual, "auc", "auc_low", "auc_high", *strict, f"{usual[0]}_least", "auc_least"]
        found = dict(zip(names, self, strict=True))
        first = {name: found.pop(name) for name in (*usual, "auc")}
        return first, {name: found[name] for name in (*strict, *found)}


def rates(
    scores: FloatArray,
    member: Array,
    attacked: Array,
    level: float,
    n_attacks: int = 1,
    *,
    guesses: Array | None = None,
) -> Rates:
    """Rates of one threshold for all releases and records.

    Shapes: ``scores`` (n_releases, n_targets); ``member``, ``attacked`` and ``guesses``
    (n_releases, n_targets); returns: NaN where there are no members or no others; without scores
    all but ``least``, which are of the guesses then.

    The intervals of true positive rates are of the bootstrap over releases, each with all its
    records, with Student's quantile for their number, and never shorter than those of as many
    independent scores. That of the area is of its linear expansion in the releases. Lower limits
    of `n_attacks` hold together: each has its part of the level.
    """
    release, record = np.nonzero(attacked)
    values, truth = scores[release, record], member[release, record]
    if np.isnan(values).any() and guesses is not None:
        blind = rates(guesses.astype(float), member, attacked, level, n_attacks)
        return Rates(tpr_least=blind.tpr_least, auc_least=blind.auc_least)
    if np.isnan(values).any() or not 0 < truth.sum() < len(truth):
        return Rates()
    order = np.argsort(-values, kind="stable")
    values, truth, release = values[order], truth[order], release[order]
    ends = np.flatnonzero(np.r_[values[1:] != values[:-1], True])
    ones = np.ones(len(values))
    others = float(np.sum(~truth))
    usual, strict = TPR.values()
    levels = [usual, strict] if strict * others >= 1.0 - _ROUND_OFF else [usual]
    generator = np.random.default_rng(0)
    n = len(scores)
    resampled = []
    for _ in range(_FEW_RESAMPLES if len(values) > _MANY else _N_RESAMPLES):
        counts = np.bincount(generator.integers(n, size=n), minlength=n).astype(float)
        resampled.append(_found(counts[release], truth, ends, levels))
    found = np.array(_found(ones, truth, ends, levels))

    def limits(tail: float) -> FloatArray:
        within = [_independent(truth, ends, rate, tail) for rate in levels]
        return np.clip(_widened(found, np.array(resampled), n, np.array(within).T, tail), 0.0, 1.0)

    tail, split = 0.5 * (1.0 - level), (1.0 - level) / max(n_attacks, 2)
    parts = np.full((len(TPR), 3), np.nan)
    parts[: len(levels)] = np.column_stack([found, *limits(tail)])
    area, least = (_area(truth, ends, release, n, each) for each in (tail, split))
    first, rest = (part.tolist() for part in parts)
    return Rates._make([*first, *area, *rest, float(limits(split)[0, 0]), least.low])


def _widened(
    found: FloatArray, resampled: FloatArray, n: int, within: FloatArray, tail: float
) -> FloatArray:
    """Return ends of intervals of the bootstrap over n releases, no shorter than others.

    Shapes: ``found`` (n_rates,); ``resampled`` (n_resamples, n_rates); ``within`` (2, n_rates);
    returns (2, n_rates).
    """
    # Few releases: Student's quantile in place of the normal one, and the spread of n - 1.
    few = n / max(n - 1, 1)
    factor = np.sqrt(few) * stats.t.isf(tail, max(n - 1, 1)) / stats.norm.isf(tail)
    ends = found + factor * (np.nanquantile(resampled, [tail, 1.0 - tail], axis=0) - found)
    return np.stack([np.minimum(ends[0], within[0]), np.maximum(ends[1], within[1])])


def _found(weights: FloatArray, truth: Array, ends: Array, levels: list[float]) -> list[float]:
    """Find true positive rates at the best thresholds with few false positives, by level."""
    false = np.cumsum(np.where(truth, 0.0, weights))[ends]
    true = np.cumsum(np.where(truth, weights, 0.0))[ends]
    if false[-1] == 0.0 or true[-1] == 0.0:
        return [np.nan] * len(levels)
    allowed = [
        np.searchsorted(false, rate * false[-1] * (1.0 + _ROUND_OFF), "right") for rate in levels
    ]
    return [float(true[k - 1] / true[-1]) if k else 0.0 for k in allowed]


def _area(truth: Array, ends: Array, release: Array, n: int, tail: float) -> Interval:
    """Area under the curve, with its interval over n releases.

    Each record counts by the share of the others that it is ordered rightly with; the spread of
    the sums over releases is that of the area (Obuchowski, Biometrics 1997), and its interval is
    that of a share of as many independent outcomes.
    """
    false, true = (np.r_[0.0, np.cumsum(side)[ends]] for side in (~truth, truth))
    # Halves of ties count: of non-members above a member, and of members above a non-member.
    step = np.searchsorted(ends, np.arange(len(truth)))
    above = 0.5 * (np.where(truth, (false[1:] + false[:-1])[step], (true[1:] + true[:-1])[step]))
    right = np.where(truth, 1.0 - above / false[-1], above / true[-1])
    area = float(right[truth].mean())
    share = (right - area) / np.where(truth, true[-1], false[-1])
    own = n * np.bincount(release, weights=share, minlength=n)
    return share_interval(area + own.astype(np.float64), min(true[-1], false[-1]), 1.0 - 2.0 * tail)


def share_interval(values: FloatArray, n_outcomes: float, level: float) -> Interval:
    """Interval of a share of right outcomes by its values in releases, or pseudo-values.

    It is Clopper and Pearson's with the effective number of outcomes that the spread over releases
    tells (see `clustered_interval`). Where all are right, or all wrong, no spread tells of any
    dependence: the number is that of outcomes, less what the few releases do not tell of it.

    Shapes: ``values`` (n,).
    """
    n, share = len(values), float(np.mean(values))
    if n > 1 and (np.all(values == 1.0) or np.all(values == 0.0)):
        tail = 0.5 * (1.0 - level)
        few = (stats.norm.isf(tail) / stats.t.isf(tail, n - 1)) ** 2
        number = max(float(np.floor(few * n_outcomes)), float(n))
        return binomial_interval(share * number, number, level)
    return mean_interval(
        values, confidence_level=level, value_range=(0.0, 1.0), method="korn_graubard"
    )


def _independent(truth: Array, ends: Array, rate: float, tail: float) -> tuple[float, float]:
    """Interval of a true positive rate if all scores were independent.

    The number of non-members above the threshold sought is binomial, and so is that of members
    above it; the two errors are independent, and their squares add.
    """
    false, true = np.cumsum(~truth)[ends], np.cumsum(truth)[ends]
    others, members = false[-1], float(true[-1])

    def share(allowed: float) -> float:
        """Members above the last threshold with as many non-members, at most."""
        k = np.searchsorted(false, allowed, "right")
        return float(true[k - 1] / members) if k else 0.0

    found = share(np.floor(rate * others * (1.0 + _ROUND_OFF)))
    fewest, most = stats.binom.ppf([tail, 1.0 - tail], others, rate)
    _, low, high = binomial_interval(np.rint(found * members), members, 1.0 - 2.0 * tail)
    # With `fewest` above it the threshold lies below that many non-members; with none it may lie
    # above all scores.
    below, above = found - (share(fewest - 1.0) if fewest else 0.0), share(most) - found
    return found - float(np.hypot(below, found - low)), found + float(np.hypot(above, high - found))


def best_rate(distances: FloatArray, rate: float) -> float:
    """Find the true positive rate of the best pooled test at a false positive rate, or NaN.

    Shapes: ``distances`` (...), each between N(0, 1) and N(distance, 1); infinite ones are told
    apart for sure, and NaN are left out.

    By Neyman and Pearson it thresholds the likelihood ratio of all pairs alike: at log ratio t a
    pair has ``Phi(-D / 2 - t / D)`` false positives and ``Phi(D / 2 - t / D)`` true ones. Pairs
    that cannot be told apart are called at random, at t = 0.
    """
    known = distances[~np.isnan(distances)]
    if not known.size:
        return float("nan")
    sure, none = float(np.mean(np.isinf(known))), float(np.mean(known <= _SAME))
    apart = known[(known > _SAME) & np.isfinite(known)]

    def called(t: float, sign: float) -> float:
        return float(ndtr(sign * 0.5 * apart - t / apart).sum()) / known.size

    def excess(t: float) -> float:
        return called(t, -1.0) - rate + (none if t < 0.0 else 0.0)

    short = rate - called(0.0, -1.0)
    if not len(apart) or 0.0 <= short <= none:
        # As many at random as are allowed, of those of whom nothing is known.
        return sure + called(0.0, 1.0) + min(short, none)
    if short > 0.0 and excess(-_FARTHEST) <= 0.0:
        return 1.0
    t = float(brentq(excess, *sorted((0.0, -_FARTHEST if short > 0.0 else _FARTHEST))))
    return sure + called(t, 1.0) + (none if t < 0.0 else 0.0)
