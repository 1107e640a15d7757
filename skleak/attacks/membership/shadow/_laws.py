"""Laws of the scores of each record under models without it and with it, and their ratio."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr

from skleak.adversary.membership import finite
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

Variance = Literal["auto", "per_record", "global"]

# Weight of what all records have in common beside what one has of its own, in observations: of
# variances, and of how often a fit is perfect. Of linear models, trees and neighbours on 8 to 64
# shadow models, this ranked members about as well as the better of a variance of its own and one
# for all records, each of which was much worse for some.
_WEIGHT = 4.0
# No standard deviation counts as less than this part of the usual one, or of the largest score:
# a few equal scores do not show that there is no spread.
_LEAST_SPREAD = 0.1
_ROUND_OFF = 1e-9
_NO_SPREAD = 1e-14
# Fewer scores than these have no law of their own.
_FEWEST = 2
_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class ScoreLaws:
    """Laws of the scores of every target, left out and trained on. Confidential.

    They are Gaussian. A residual is besides zero with a probability of its own, as that of a
    regressor that fits what it was trained on without error, and Gaussian otherwise.
    """

    # Of scores under models without the record, and under models with it; NaN where no shadow model
    # was trained on it, (..., n_targets, 2)
    means: FloatArray
    scales: FloatArray
    # How many scores these come from; fewer than two tell nothing, (..., n_targets, 2)
    counts: FloatArray
    limit: float = np.inf  # No score counts as larger
    # Probabilities of a residual of zero; None for other scores, (..., n_targets, 2)
    perfect: FloatArray | None = None
    tolerance: float = 0.0  # No residual up to it counts as other than zero

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        """Log density as a member minus that as a non-member, of the shape of the scores."""
        scores = self._bounded(scores)
        z = (scores[..., None] - self.means) / self.scales
        logs = -0.5 * z**2 - np.log(self.scales)
        ratio = np.where((self.counts < _FEWEST).any(axis=-1), 0.0, logs[..., 1] - logs[..., 0])
        if self.perfect is not None:
            zero = (np.abs(scores) <= self.tolerance)[..., None]
            logs = np.where(zero, np.log(self.perfect), np.log1p(-self.perfect))
            ratio = np.where(zero[..., 0], 0.0, ratio) + logs[..., 1] - logs[..., 0]
        return finite(ratio)

    def surprise(self, scores: FloatArray, *, two_ends: bool) -> FloatArray:
        """Minus the log probability that a model without the record speaks as much for it.

        Shapes: ``scores`` (..., n_targets); returns (..., n_targets): in nats, at least 0, finite.
        """
        scores = self._bounded(scores)
        mean, scale = self.means[:, 0], self.scales[:, 0]
        if not two_ends:
            return finite(-log_ndtr((mean - scores) / scale))
        size, mean = np.abs(scores), np.abs(mean)
        high = log_ndtr((size - mean) / scale)
        low = log_ndtr((-size - mean) / scale)
        with np.errstate(divide="ignore"):
            return finite(-high - np.log(-np.expm1(low - high)))

    def _bounded(self, scores: FloatArray) -> FloatArray:
        return np.clip(scores, -self.limit, self.limit)


def fit_laws(
    scores: FloatArray,
    trained_on: BoolArray | None,
    variance: Variance,
    limit: float = np.inf,
    *,
    residuals: bool = False,
) -> ScoreLaws:
    """Fit the two laws of every target.

    Shapes: ``scores`` (n_models, n_targets); ``trained_on`` (n_models, n_targets).
    """
    laws = _Tally(scores, trained_on, limit, residuals).laws(variance)
    if trained_on is not None:
        return laws
    # Nothing is known of members.
    means, scales = (
        np.concatenate([table, np.full(table.shape, np.nan)], axis=-1)
        for table in (laws.means, laws.scales)
    )
    return ScoreLaws(means, scales, laws.counts, limit)


def ratios_from_others(
    scores: FloatArray,
    trained_on: BoolArray,
    variance: Variance,
    limit: float = np.inf,
    *,
    residuals: bool = False,
    groups: IntArray,
) -> FloatArray:
    """Log-likelihood ratios of some models by laws that all the others teach.

    Shapes: ``scores`` (n_models, n_targets); ``trained_on`` (n_models, n_targets); ``groups``
    (n_groups, n_together); returns (n_groups, n_together, n_targets): as `fit_laws` without the
    group gives it.
    """
    tally = _Tally(scores, trained_on, limit, residuals)
    ratios = np.empty((*groups.shape, scores.shape[1]))
    for rows in row_blocks(len(groups), groups.shape[1] * scores.shape[1], _ELEMENTS):
        ratios[rows] = tally.laws(variance, groups[rows]).log_ratio(scores[groups[rows]])
    return ratios


class _Tally:
    """Numbers, sums and sums of squares of the scores of every target on both sides.

    Parameters
    ----------
    scores, trained_on, limit, residuals
        As of `fit_laws`.
    """

    def __init__(
        self, scores: FloatArray, trained_on: BoolArray | None, limit: float, residuals: bool
    ) -> None:
        self.limit, self.residuals = limit, residuals
        scores = np.clip(scores, -limit, limit)
        # In units of the largest score, whose square is finite. Measured from the median, equal
        # scores have that mean exactly.
        self.unit = float(np.abs(scores).max()) or 1.0
        self.center = np.median(scores, axis=0)
        self.tolerance = _ROUND_OFF * self.unit * float(np.mean(np.abs(scores) / self.unit))
        self.zero = np.abs(scores) <= self.tolerance if residuals else np.zeros(scores.shape, bool)
        self.apart = scores / self.unit - self.center / self.unit
        sides = [np.ones(scores.shape, bool)] if trained_on is None else [~trained_on, trained_on]
        self.sides = np.stack(sides)
        self.sums = [part.sum(axis=1, dtype=float) for part in self._parts(slice(None))]

    def _parts(self, models: Any) -> Iterator[Array]:
        """Terms of the sums of some models, each of shape (n_sides, *shape, n_targets)."""
        sides, zero, apart = self.sides[:, models], self.zero[models], self.apart[models]
        yield sides & zero
        for power in (1.0, apart, apart**2):
            yield np.where(sides & ~zero, power, 0.0)

    def laws(self, variance: Variance, without: IntArray | None = None) -> ScoreLaws:
        """Laws from all models, or from all but each group of shape (n_groups, n_together)."""
        sums = self.sums
        if without is not None:
            own = (part.sum(axis=2, keepdims=True) for part in self._parts(without))
            sums = [total[:, None, None] - part for total, part in zip(sums, own, strict=True)]
        zeros, counts, totals, squares = sums
        means = totals / np.maximum(counts, 1.0)
        scales = _scales(counts, squares - counts * means**2, variance, self.apart)
        means = np.where(counts > 0.0, self.center + self.unit * means, 0.0)
        perfect = _shares(zeros, zeros + counts)
        means, scales, counts, perfect = (
            np.moveaxis(table, 0, -1) for table in (means, self.unit * scales, counts, perfect)
        )
        known = perfect if self.residuals else None
        return ScoreLaws(means, scales, counts, self.limit, known, self.tolerance)


def _shares(zeros: FloatArray, counts: FloatArray) -> FloatArray:
    """Probabilities in (0, 1) of what was counted, of shape (n_sides, ..., n_targets)."""
    usual = (zeros.sum(-1, keepdims=True) + 0.5) / (counts.sum(-1, keepdims=True) + 1.0)
    return (zeros + _WEIGHT * usual) / (counts + _WEIGHT)


def _scales(
    counts: FloatArray, squares: FloatArray, variance: Variance, apart: FloatArray
) -> FloatArray:
    """Standard deviations of targets from sums of squares; all of shape (n_sides, ..., n_targets).

    `apart`, of shape (n_models, n_targets), are the scores in units of the largest one.
    """
    left = np.maximum(counts - 1.0, 0.0)
    # What is left of a difference by round-off is no spread.
    least = _NO_SPREAD * np.maximum(left, 1.0) * np.abs(apart).max(axis=0) ** 2
    squares = np.where(squares > least, squares, 0.0)
    own = squares / np.maximum(left, 1.0)
    usual = _usual(own)
    variances = own
    if variance == "auto":
        variances = (squares + _WEIGHT * usual) / (left + _WEIGHT)
    elif variance == "global":
        pooled = squares.sum(-1, keepdims=True) / np.maximum(left.sum(-1, keepdims=True), 1.0)
        variances = np.broadcast_to(pooled, own.shape)
    floor = np.maximum(_LEAST_SPREAD * np.sqrt(usual.mean(axis=0)), _ROUND_OFF)
    return np.maximum(np.sqrt(variances), floor)


def _usual(variances: FloatArray) -> FloatArray:
    """Median over targets of the variances that are not zero: a mean is that of the widest few."""
    order = np.sort(np.where(variances > 0.0, variances, np.inf), axis=-1)
    number = np.sum(variances > 0.0, axis=-1, keepdims=True)
    middle = (np.maximum((number - 1) // 2, 0), number // 2)
    ends = [np.take_along_axis(order, place, -1) for place in middle]
    return np.where(number > 0, 0.5 * (ends[0] + ends[1]), 0.0)
