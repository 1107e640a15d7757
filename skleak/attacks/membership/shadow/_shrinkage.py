"""Laws of records shrunk towards those of all records: empirical Bayes, by moments.

Means of the scores of a record without it and with it are a pair. Pairs of different records are
taken for normal around a common one; what their covariance exceeds the mean sampling error by is
the prior's. Variances are taken for inverse gamma, whose mean and spread are found in the same way
(as moderated variances are, Smyth 2004). With many scores a record keeps its own means and
variances, with few it has those that its other scores and all other records suggest.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from skleak.utils._typing import FloatArray

# A prior that is worth more scores than these is a certainty.
_MOST = 1e6
# Least eigenvalue of a covariance, relative to the largest possible one, and in squared units of
# the largest score.
_SINGULAR, _TINY = 1e-9, 1e-18
# Fewer records than these tell nothing of their spread.
_FEWEST_RECORDS = 3


@dataclass(frozen=True)
class Pooling:
    """Parameters that the laws of all records share."""

    shared: bool = True  # True if a record's scores spread alike without it and with it
    softness: float = 0.0  # Of log odds, see `soften`


def soften(scores: FloatArray, limit: float, softness: float) -> FloatArray:
    """Scores that are bounded: cut at a limit, or log odds ``log((p + e) / (1 - p + e))``.

    Shapes: ``scores`` (...); returns (...).
    """
    if softness == 0.0:
        return np.clip(scores, -limit, limit)
    return np.log(expit(scores) + softness) - np.log(expit(-scores) + softness)


def shrink_means(
    means: FloatArray, counts: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Posterior means of the means of every record, and their posterior variances.

    Shapes: ``means``, ``counts``, ``variances`` (..., n_targets, n_sides); returns the same. What
    was never seen (a count of zero) is what the other side lets expect.

    With S the diagonal matrix of sampling variances and T the prior covariance around m, the
    posterior is normal around ``m + T (T + S)^-1 (means - m)`` with covariance
    ``(T^-1 + S^-1)^-1``.
    """
    precision = counts / variances
    seen = np.all(counts > 0.0, axis=-1)[..., None]
    number = seen.sum(axis=-2, keepdims=True)
    total = np.maximum(number, 1)
    center = np.where(seen, means, 0.0).sum(axis=-2, keepdims=True) / total
    apart = np.where(counts > 0.0, means - center, 0.0)
    own = np.where(seen, apart, 0.0)
    spread = np.swapaxes(own, -1, -2) @ own / np.maximum(number - 1, 1)
    error = np.where(seen, 1.0 / np.where(seen, precision, 1.0), 0.0).sum(axis=-2) / total[..., 0]
    prior = _inverse_of_positive_part(spread, error)
    prior = np.where(number < _FEWEST_RECORDS, 0.0, prior)[..., None, :, :]
    sides = np.eye(means.shape[-1])
    known = prior + precision[..., None] * sides
    covariance = np.linalg.inv(known + _TINY * sides)
    moved = np.einsum("...st,...t->...s", covariance, precision * apart)
    # Without a prior, what was never seen stays unknown.
    unknown = (counts == 0.0) & (number < _FEWEST_RECORDS)
    return center + moved, np.where(unknown, np.inf, np.einsum("...ss->...s", covariance))


def _inverse_of_positive_part(spread: FloatArray, error: FloatArray) -> FloatArray:
    """Inverse of a covariance that exceeds sampling errors, (..., n_sides, n_sides)."""
    values, vectors = np.linalg.eigh(spread - error[..., None] * np.eye(error.shape[-1]))
    largest = np.einsum("...ss->...", spread)[..., None]
    values = np.maximum(values, _SINGULAR * largest + _TINY)
    return np.asarray((vectors / values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def shrink_variances(squares: FloatArray, freedom: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared scales and degrees of freedom of Student's laws of further deviations.

    Shapes: ``squares`` (..., n_targets), sums of squared deviations; ``freedom`` (..., n_targets);
    returns the same. Of one or two records each has its own.

    Variances are inverse gamma with d degrees of freedom around a mean v: s^2 of a record has the
    variance ``2 v^2 / (d - 4)`` and besides the sampling variance ``2 s^4 / freedom``, so that d
    follows from the two. A further deviation has ``freedom + d`` degrees of freedom, and the
    squared scale ``(squares + (d - 2) v) / (freedom + d)``.
    """
    known = freedom > 0.0
    number = np.maximum(known.sum(axis=-1, keepdims=True), 1)
    own = np.where(known, squares / np.where(known, freedom, 1.0), 0.0)
    usual = np.where(known, squares, 0.0).sum(-1, keepdims=True) / np.maximum(
        freedom.sum(-1, keepdims=True), 1.0
    )
    mean = own.sum(-1, keepdims=True) / number
    total = np.where(known, (own - mean) ** 2, 0.0).sum(-1, keepdims=True) / np.maximum(
        number - 1, 1
    )
    sampling = np.where(known, 2.0 * own**2 / (freedom + 2.0), 0.0).sum(-1, keepdims=True) / number
    between = np.maximum(total - sampling, 2.0 * usual**2 / _MOST + np.finfo(float).tiny)
    weight = 4.0 + 2.0 * usual**2 / between
    few = number < _FEWEST_RECORDS
    weight, usual = np.where(few, 0.0, weight), np.where(few, 0.0, usual)
    found = np.maximum(freedom + weight, 1.0)
    return (squares + (weight - 2.0) * usual) / found, found
