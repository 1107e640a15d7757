"""Rates of guesses of membership over many releases, with intervals that count releases."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from skleak.metrics import binomial_interval
from skleak.utils._typing import Array, FloatArray

FALSE_POSITIVE_RATE = 0.01
_ROUND_OFF = 1e-12
_N_RESAMPLES = 400
# Pairs of release and record above which fewer resamples have to do.
_MANY = 1 << 19
_FEW_RESAMPLES = 100


class Rates(NamedTuple):
    """True positive rate at one false positive in a hundred, its interval, and the area."""

    tpr: float
    tpr_low: float
    tpr_high: float
    auc: float


def rates(scores: FloatArray, member: Array, attacked: Array, level: float) -> Rates:
    """Rates of one threshold for all releases and records.

    Shapes: ``scores`` (n_releases, n_targets); ``member``, ``attacked`` (n_releases, n_targets);
    returns: NaN where there are no scores, no members or no others.

    The interval is of the bootstrap over releases, each with all its records, and never shorter
    than the exact one of as many independent members.
    """
    release, record = np.nonzero(attacked)
    values, truth = scores[release, record], member[release, record]
    if np.isnan(values).any() or not 0 < truth.sum() < len(truth):
        return Rates(np.nan, np.nan, np.nan, np.nan)
    order = np.argsort(-values, kind="stable")
    values, truth, release = values[order], truth[order], release[order]
    ends = np.flatnonzero(np.r_[values[1:] != values[:-1], True])
    ones = np.ones(len(values))
    found = _rate(ones, truth, ends)
    generator = np.random.default_rng(0)
    n, few = len(scores), len(values) > _MANY
    resampled = []
    for _ in range(_FEW_RESAMPLES if few else _N_RESAMPLES):
        counts = np.bincount(generator.integers(n, size=n), minlength=n).astype(float)
        resampled.append(_rate(counts[release], truth, ends))
    tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    low, high = np.nanquantile(resampled, tails)
    members = float(truth.sum())
    _, exact_low, exact_high = binomial_interval(np.rint(found * members), members, level)
    return Rates(found, min(low, exact_low), max(high, exact_high), _area(ones, truth, ends))


def _rate(weights: FloatArray, truth: Array, ends: Array) -> float:
    """True positive rate at the best threshold with few false positives."""
    false = np.cumsum(np.where(truth, 0.0, weights))[ends]
    true = np.cumsum(np.where(truth, weights, 0.0))[ends]
    if false[-1] == 0.0 or true[-1] == 0.0:
        return np.nan
    allowed = false <= FALSE_POSITIVE_RATE * false[-1] * (1.0 + _ROUND_OFF)
    return float(np.max(np.where(allowed, true, 0.0)) / true[-1])


def _area(weights: FloatArray, truth: Array, ends: Array) -> float:
    false = np.r_[0.0, np.cumsum(np.where(truth, 0.0, weights))[ends]]
    true = np.r_[0.0, np.cumsum(np.where(truth, weights, 0.0))[ends]]
    return float(np.trapezoid(true / true[-1], false / false[-1]))


def pair_success(distance: FloatArray, prior: float) -> FloatArray:
    """Success of the best test between N(0, 1) and N(distance, 1).

    Shapes: ``distance`` (...); returns (...): ``q Phi(D / 2 + l / D) + (1 - q) Phi(D / 2 - l /
    D)`` with l the log odds of q.
    """
    odds = np.log(prior) - np.log1p(-prior)
    moved = np.where(distance > 0.0, distance, 1.0)
    shift = odds / moved
    right = prior * ndtr(0.5 * moved + shift) + (1.0 - prior) * ndtr(0.5 * moved - shift)
    return np.where(distance > 0.0, right, max(prior, 1.0 - prior))
