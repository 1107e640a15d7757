"""Laws of the scores of each record under models without it and with it, and their ratio."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, log_ndtr

from skleak.adversary.membership import finite
from skleak.attacks.membership.shadow._shrinkage import (
    Pooling,
    shrink_means,
    shrink_variances,
    soften,
)
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
# Difference of two means by round-off, in units of the largest score.
_SAME = 1e-13
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
    # Degrees of freedom of Student's laws, where variances are shrunk, (..., n_targets, 2); else
    # laws are Gaussian.
    freedom: FloatArray | None = None
    softness: float = 0.0  # Of log odds, see `soften`

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        """Log density as a member minus that as a non-member, of the shape of the scores."""
        scores = self._bounded(scores)
        z = (scores[..., None] - self.means) / self.scales
        logs = self._log_density(z) - np.log(self.scales)
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

    def _log_density(self, z: FloatArray) -> FloatArray:
        """Logarithm of the density of standardised scores, but for a constant."""
        if self.freedom is None:
            return -0.5 * z**2
        nu = self.freedom
        scale = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu)
        return np.asarray(scale - 0.5 * (nu + 1.0) * np.log1p(z**2 / nu))

    def _bounded(self, scores: FloatArray) -> FloatArray:
        return soften(scores, self.limit, self.softness)


def fit_laws(
    scores: FloatArray,
    trained_on: BoolArray | None,
    variance: Variance = "auto",
    limit: float = np.inf,
    *,
    residuals: bool = False,
    pooling: Pooling | None = None,
) -> ScoreLaws:
    """Fit the two laws of every target; with `pooling` shrunk towards those of all targets.

    Shapes: ``scores`` (n_models, n_targets); ``trained_on`` (n_models, n_targets).
    """
    laws = _Tally(scores, trained_on, limit, residuals, pooling).laws(variance)
    if trained_on is not None:
        return laws
    # Nothing is known of members.
    means, scales = (
        np.concatenate([table, np.full(table.shape, np.nan)], axis=-1)
        for table in (laws.means, laws.scales)
    )
    return replace(laws, means=means, scales=scales, freedom=None, perfect=None)


def ratios_from_others(
    scores: FloatArray,
    trained_on: BoolArray,
    variance: Variance,
    limit: float = np.inf,
    *,
    residuals: bool = False,
    groups: IntArray,
    pooling: Pooling | None = None,
) -> FloatArray:
    """Log-likelihood ratios of some models by laws that all the others teach.

    Shapes: ``scores`` (n_models, n_targets); ``trained_on`` (n_models, n_targets); ``groups``
    (n_groups, n_together); returns (n_groups, n_together, n_targets): as `fit_laws` without the
    group gives it.
    """
    tally = _Tally(scores, trained_on, limit, residuals, pooling)
    ratios = np.empty((*groups.shape, scores.shape[1]))
    for rows in row_blocks(len(groups), groups.shape[1] * scores.shape[1], _ELEMENTS):
        ratios[rows] = tally.laws(variance, groups[rows]).log_ratio(scores[groups[rows]])
    return ratios


class _Tally:
    """Numbers, sums and sums of squares of the scores of every target on both sides.

    Parameters
    ----------
    scores, trained_on, limit, residuals, pooling
        As of `fit_laws`.
    """

    def __init__(
        self,
        scores: FloatArray,
        trained_on: BoolArray | None,
        limit: float,
        residuals: bool,
        pooling: Pooling | None,
    ) -> None:
        self.limit, self.residuals, self.pooling = limit, residuals, pooling
        self.softness = 0.0 if pooling is None else pooling.softness
        scores = soften(scores, limit, self.softness)
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
        squares = _without_round_off(squares - counts * means**2, counts, self.apart)
        freedom = None
        if self.pooling is None:
            scales = np.sqrt(_variances(counts, squares, variance))
        else:
            means, scales, freedom = self._shrunk(means, counts, squares)
            counts = np.where(np.isfinite(scales), np.maximum(counts, _FEWEST), 0.0)
        scales = np.maximum(np.where(np.isfinite(scales), scales, 0.0), _least(counts, squares))
        means = np.where(counts > 0.0, self.center + self.unit * means, 0.0)
        perfect = _shares(zeros, zeros + sums[1])
        means, scales, counts, perfect = (
            np.moveaxis(table, 0, -1) for table in (means, self.unit * scales, counts, perfect)
        )
        known = perfect if self.residuals else None
        ends = (self.limit, known, self.tolerance)
        return ScoreLaws(means, scales, counts, *ends, freedom, self.softness)

    def _shrunk(
        self, means: FloatArray, counts: FloatArray, squares: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and scales of further scores (n_sides, ..., n_targets), and degrees of freedom.

        Scales are infinite where nothing is known; degrees of freedom have the sides last.
        """
        left = np.maximum(counts - 1.0, 0.0)
        floor = _least(counts, squares)
        if self.pooling is not None and self.pooling.shared:
            squares, left = (
                np.broadcast_to(part.sum(axis=0), part.shape) for part in (squares, left)
            )
        variances, freedom = shrink_variances(squares, left)
        sure = np.maximum(variances, floor**2)
        middle = np.broadcast_to(self.center / self.unit, means.shape)
        parts = (np.moveaxis(part, 0, -1) for part in (means + middle, counts, sure))
        found, error = (np.moveaxis(part, -1, 0) for part in shrink_means(*parts))
        unknown = left.sum(axis=-1, keepdims=True) == 0.0
        scales = np.where(unknown, np.inf, np.sqrt(sure + error))
        found = found - middle
        # A mean without error stays what it is, to the last digit.
        same = (counts > 0.0) & (np.abs(found - means) <= _SAME)
        return np.where(same, means, found), scales, np.moveaxis(freedom, 0, -1)


def _shares(zeros: FloatArray, counts: FloatArray) -> FloatArray:
    """Probabilities in (0, 1) of what was counted, of shape (n_sides, ..., n_targets)."""
    usual = (zeros.sum(-1, keepdims=True) + 0.5) / (counts.sum(-1, keepdims=True) + 1.0)
    return (zeros + _WEIGHT * usual) / (counts + _WEIGHT)


def _without_round_off(squares: FloatArray, counts: FloatArray, apart: FloatArray) -> FloatArray:
    """Return sums of squares (n_sides, ..., n_targets), zero where a difference is round-off.

    `apart`, of shape (n_models, n_targets), are the scores in units of the largest one.
    """
    least = _NO_SPREAD * np.maximum(counts - 1.0, 1.0) * np.abs(apart).max(axis=0) ** 2
    return np.where(squares > least, squares, 0.0)


def _variances(counts: FloatArray, squares: FloatArray, variance: Variance) -> FloatArray:
    """Variances of targets from sums of squares; all of shape (n_sides, ..., n_targets)."""
    left = np.maximum(counts - 1.0, 0.0)
    own = squares / np.maximum(left, 1.0)
    if variance == "auto":
        return (squares + _WEIGHT * _usual(own)) / (left + _WEIGHT)
    if variance == "global":
        pooled = squares.sum(-1, keepdims=True) / np.maximum(left.sum(-1, keepdims=True), 1.0)
        return np.broadcast_to(pooled, own.shape)
    return own


def _least(counts: FloatArray, squares: FloatArray) -> FloatArray:
    """Least standard deviation, of shape (..., 1): a part of the usual one."""
    usual = _usual(squares / np.maximum(counts - 1.0, 1.0))
    return np.maximum(_LEAST_SPREAD * np.sqrt(usual.mean(axis=0)), _ROUND_OFF)


def _usual(variances: FloatArray) -> FloatArray:
    """Median over targets of the variances that are not zero: a mean is that of the widest few."""
    order = np.sort(np.where(variances > 0.0, variances, np.inf), axis=-1)
    number = np.sum(variances > 0.0, axis=-1, keepdims=True)
    middle = (np.maximum((number - 1) // 2, 0), number // 2)
    ends = [np.take_along_axis(order, place, -1) for place in middle]
    return np.where(number > 0, 0.5 * (ends[0] + ends[1]), 0.0)
