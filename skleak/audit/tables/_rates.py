"""Rates of guesses of membership over many releases, with intervals that count releases."""

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from skleak.metrics import binomial_interval
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
    """

    tpr: float
    tpr_low: float
    tpr_high: float
    auc: float
    strict: float = np.nan
    strict_low: float = np.nan
    strict_high: float = np.nan

    def columns(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the entries by the names of columns: of one in a hundred, and of one in 1,000."""
        usual, strict = ([f"{name}{end}" for end in ("", "_low", "_high")] for name in TPR)
        first = dict(zip([*usual, "auc"], self[:4], strict=True))
        return first, dict(zip(strict, self[4:], strict=True))


def rates(scores: FloatArray, member: Array, attacked: Array, level: float) -> Rates:
    """Rates of one threshold for all releases and records.

    Shapes: ``scores`` (n_releases, n_targets); ``member``, ``attacked`` (n_releases, n_targets);
    returns: NaN where there are no scores, no members or no others.

    The intervals are of the bootstrap over releases, each with all its records, with Student's
    quantile for their number, and never shorter than those of as many independent scores.
    """
    release, record = np.nonzero(attacked)
    values, truth = scores[release, record], member[release, record]
    if np.isnan(values).any() or not 0 < truth.sum() < len(truth):
        return Rates(np.nan, np.nan, np.nan, np.nan)
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
    tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    # Few releases: Student's quantile in place of the normal one, and the spread of n - 1.
    few = n / max(n - 1, 1)
    factor = np.sqrt(few) * stats.t.isf(tails[0], max(n - 1, 1)) / stats.norm.isf(tails[0])
    between = found + factor * (np.nanquantile(resampled, tails, axis=0) - found)
    within = np.array([_independent(truth, ends, rate, tails[0]) for rate in levels]).T
    low = np.clip(np.minimum(between[0], within[0]), 0.0, 1.0)
    high = np.clip(np.maximum(between[1], within[1]), 0.0, 1.0)
    parts = np.full((len(TPR), 3), np.nan)
    parts[: len(levels)] = np.column_stack([found, low, high])
    return Rates._make([*parts[0], _area(ones, truth, ends), *parts[1]])


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


def _area(weights: FloatArray, truth: Array, ends: Array) -> float:
    false = np.r_[0.0, np.cumsum(np.where(truth, 0.0, weights))[ends]]
    true = np.r_[0.0, np.cumsum(np.where(truth, weights, 0.0))[ends]]
    return float(np.trapezoid(true / true[-1], false / false[-1]))


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
