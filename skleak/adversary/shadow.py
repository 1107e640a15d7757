"""What the scores of models with known members tell of membership under another model.

Laws of the scores of every record, how much a score speaks for membership beside the record's own
scores and beside all scores, and ratios to the usual likelihood.

Laws of records are shrunk towards those of all records: empirical Bayes, by moments. Means of the
scores of a record without it and with it are a pair. Pairs of different records are taken for
normal around a common one; what their covariance exceeds the mean sampling error by is the
prior's. Variances are taken for inverse gamma, whose mean and spread are found in the same way (as
moderated variances are, Smyth 2004). With many scores a record keeps its own means and variances,
with few it has those that its other scores and all other records suggest.

The likelihood ratio of a record rests on the few scores that it has as a member and as a
non-member, and its rank among the scores of all records on very many. How much each of the
two counts is learned from the shadow models: they are attacked in turn by what the others teach.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import expit, gammaln, log_ndtr, log_softmax, logit, ndtri

from skleak.adversary.membership import finite
from skleak.utils._blocks import row_blocks
from skleak.utils._predictions import SMALLEST
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

Variance = Literal["auto", "per_record", "global"]
# Weight of what all records have in common beside what one has of its own, in observations: of
# variances, and of how often a fit is perfect. Of linear models, trees and neighbors on 8 to 64
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
class Pooling:
    """Parameters that the laws of all records share."""

    shared: bool = True  # True if a record's scores spread alike without it and with it
    softness: float = 0.0  # Of log odds, see `soften`


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
        """Logarithm of the density of standardized scores, but for a constant."""
        if self.freedom is None:
            return -0.5 * z**2
        nu = self.freedom
        scale = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu)
        return np.asarray(scale - 0.5 * (nu + 1.0) * np.log1p(z**2 / nu))

    def _bounded(self, scores: FloatArray) -> FloatArray:
        return soften(scores, self.limit, self.softness)


@dataclass
class ShadowScores:
    """Scores of targets under models whose members are known, and what they teach. Confidential."""

    scores: FloatArray  # (n_models, n_targets)
    # Whether a model was trained on a target, (n_models, n_targets); None where none was on any.
    trained_on: BoolArray | None
    variance: Variance = "auto"  # as of `LikelihoodRatioMembership`; pooled laws do not use it
    limit: float = np.inf  # no score counts as larger: finite for log odds, and for them alone
    residuals: bool = False  # whether membership shows in scores near zero, not in large ones
    pooling: Pooling | None = None  # what laws share; None gives every record laws of its own

    def __post_init__(self) -> None:
        self.softness = 0.0 if self.pooling is None else self.pooling.softness
        trained_on = self.trained_on
        scores = soften(self.scores, self.limit, self.softness)
        # In units of the largest score, whose square is finite. Measured from the median, equal
        # scores have that mean exactly.
        self.unit = float(np.abs(scores).max()) or 1.0
        self.center = np.median(scores, axis=0)
        self.tolerance = _ROUND_OFF * self.unit * float(np.mean(np.abs(scores) / self.unit))
        self.zero = (np.abs(scores) <= self.tolerance) & self.residuals
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

    def laws(self, without: IntArray | None = None) -> ScoreLaws:
        """Laws from all models, or from all but each group of shape (n_groups, n_together)."""
        sums = self.sums
        if without is not None:
            own = (part.sum(axis=2, keepdims=True) for part in self._parts(without))
            sums = [total[:, None, None] - part for total, part in zip(sums, own, strict=True)]
        zeros, counts, totals, squares = sums
        means = totals / np.maximum(counts, 1.0)
        # Zero where a difference is round-off.
        squares = squares - counts * means**2
        least = _NO_SPREAD * np.maximum(counts - 1.0, 1.0) * np.abs(self.apart).max(axis=0) ** 2
        squares = np.where(squares > least, squares, 0.0)
        freedom = None
        if self.pooling is None:
            scales = np.sqrt(_variances(counts, squares, self.variance))
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
        if self.trained_on is None:  # nothing is known of members
            unknown = np.full(means.shape, np.nan)
            means, scales = (np.concatenate([each, unknown], axis=-1) for each in (means, scales))
            freedom = known = None
        ends = (self.limit, known, self.tolerance)
        return ScoreLaws(means, scales, counts, *ends, freedom, self.softness)

    def ratios_without(self, groups: IntArray) -> FloatArray:
        """Log-likelihood ratios of groups of models by laws that all the others teach.

        Shapes: ``groups`` (n_groups, n_together); returns (n_groups, n_together, n_targets).
        """
        ratios = np.empty((*groups.shape, self.scores.shape[1]))
        for rows in row_blocks(len(groups), groups.shape[1] * self.scores.shape[1], _ELEMENTS):
            ratios[rows] = self.laws(groups[rows]).log_ratio(self.scores[groups[rows]])
        return ratios

    def choose_pooling(self, groups: IntArray) -> Pooling:
        """Learn what laws should share: that by which held-out memberships are likeliest.

        Shapes: ``groups`` (n_groups, n_together), models that are held out together.
        """
        assert self.trained_on is not None
        groups = _enough(groups, self.scores.shape[1])
        member = self.trained_on[groups]
        best, largest = Pooling(), -np.inf
        for pooling in _POOLINGS:
            if pooling.softness and np.isinf(self.limit):
                continue
            ratios = replace(self, pooling=pooling).ratios_without(groups)
            likelihood = -np.logaddexp(0.0, np.where(member, -ratios, ratios)).mean()
            if likelihood > largest:
                best, largest = pooling, likelihood
        return best

    def evidence(self, groups: IntArray) -> "Evidence":
        """Learn what scores tell, by models that are held out.

        Shapes: ``groups`` (n_groups, n_together), models that are held out together.

        Logistic regression of membership on the log-likelihood ratio of each record's own laws,
        bounded smoothly at ten nats, and on a monotone function of the rank of the score among all
        scores: a normal quantile, whose weight is positive to break ties, and steps. Weights are
        not negative, and have a normal prior of variance 1 around one for the ratio and zero for
        the rest. So a few records are judged by the ratio alone, and many hardly worse than by the
        best single threshold. The best rank never speaks against membership, nor the worst for it.
        """
        assert self.trained_on is not None
        merit = _merit(self.scores, self.limit, self.residuals)
        seen = np.sort(merit, axis=None)
        groups = _enough(groups, self.scores.shape[1])
        ratios = self.ratios_without(groups)
        features = _features(ratios, merit[groups], seen)
        weights = np.zeros(features.shape[-1])
        # Models that answer alike whoever they were trained on tell nothing, be it good or bad.
        if np.all(self.scores == self.scores[0]):
            pass
        elif self.pooling is not None and not np.any(ratios):
            # Too few models to hold any out: the laws of all records are what there is.
            weights[:2] = 1.0, _TIE_BREAKER
        else:
            flat = features.reshape(-1, len(weights))
            weights = _fit_weights(flat, self.trained_on[groups].ravel())
        return Evidence(self.laws(), self.residuals, seen, weights)

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


# Nats beyond which a ratio of fitted Gaussian densities hardly grows: their far tails are
# extrapolated.
_FARTHEST = 10.0
# Where the rank of a score makes steps: shares of all scores that are below.
_STEPS = np.array([0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98])
# Pairs of model and target that weights are learned from, about.
_PAIRS = 20_000
# Least weight of the rank: it orders what the steps leave tied.
_TIE_BREAKER = 1e-6
_TOLERANCE = 1e-11
# What laws may share. The first holds where models are too few to be held out.
_POOLINGS = tuple(
    Pooling(shared, softness) for softness in (0.03, 0.0, 0.1) for shared in (True, False)
)


@dataclass(frozen=True)
class Evidence:
    """Log-likelihood ratio of membership that a score gives. Confidential."""

    laws: ScoreLaws  # Of the scores of every target
    residuals: bool  # True if membership shows in scores near zero rather than in large ones
    seen: FloatArray  # How good scores of all targets were, ascending, (n_models * n_targets,)
    # Of the ratio, the rank, its steps up and its steps down; none is negative, (2 * n_steps + 2,)
    weights: FloatArray

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        """Log-likelihood ratio of scores, of their shape (..., n_targets)."""
        merit = _merit(scores, self.laws.limit, self.residuals)
        return _features(self.laws.log_ratio(scores), merit, self.seen) @ self.weights


def _enough(groups: IntArray, n_targets: int) -> IntArray:
    """As many groups as are enough to learn from, spread evenly."""
    enough = int(np.clip(-(-_PAIRS // (groups.shape[1] * n_targets)), 1, len(groups)))
    return groups[np.linspace(0, len(groups) - 1, enough).round().astype(np.intp)]


def _merit(scores: FloatArray, limit: float, residuals: bool) -> FloatArray:
    """Orient scores: larger for members, whatever the record."""
    return -np.abs(scores) if residuals else np.clip(scores, -limit, limit)


def _features(ratio: FloatArray, merit: FloatArray, seen: FloatArray) -> FloatArray:
    """Terms of the evidence for membership, of shape (..., n_targets, 2 * n_steps + 2)."""
    below, up_to = (np.searchsorted(seen, merit, side=side) for side in ("left", "right"))
    share = np.clip(below + up_to, 1, 2 * len(seen) - 1) / (2 * len(seen))
    edges = seen[(_STEPS * len(seen)).astype(np.intp)]
    above = merit[..., None] >= edges
    # Up for who is on a step, and down for the others; a step that all are on is none.
    steps = [above & (edges > seen[0]), np.where(above, 0.0, -1.0)]
    near = ratio / np.hypot(1.0, ratio / _FARTHEST)
    columns = [near[..., None], ndtri(share)[..., None], *steps]
    return np.concatenate(columns, axis=-1)


def _fit_weights(features: FloatArray, member: Array) -> FloatArray:
    """Weights of a logistic regression around (1, 0, ..., 0), none of them negative."""
    # Without members, or without others, nothing is to be learned.
    share = float(np.nan_to_num(logit(member.mean()), posinf=0.0, neginf=0.0))
    least = _TIE_BREAKER * np.eye(features.shape[1])[1]
    pairs = np.stack([np.zeros_like(features), features], axis=1)
    precise = {"gtol": _TOLERANCE * len(member), "ftol": np.finfo(float).eps}
    chosen, offset = member.astype(np.intp), np.array([0.0, share])
    return logit_weights(pairs, chosen, offset, least, options=precise)


def logit_weights(
    features: FloatArray,
    chosen: IntArray,
    offset: Any = 0.0,
    least: Any = 0.0,
    *,
    options: Any = None,
) -> FloatArray:
    """Weights of a conditional logit, none below the least, a priori normal about (1, 0, ..., 0).

    Shapes: ``features`` (n, n_values, k); ``chosen`` (n,), positions of values; ``offset``
    (n_values,); ``least`` (k,); returns (k,). The options are those of scipy's L-BFGS-B.
    """
    rows, center = np.arange(len(chosen)), np.eye(features.shape[2])[0]
    own = features[rows, chosen].sum(axis=0)

    def cost(weights: FloatArray) -> tuple[float, FloatArray]:
        logs = log_softmax(features @ weights + offset, axis=1)
        away = weights - center
        slope = np.tensordot(np.exp(logs), features, 2) - own + away
        return float(0.5 * away @ away - logs[rows, chosen].sum()), slope

    start, bounds = np.maximum(center, least), Bounds(np.broadcast_to(least, center.shape))
    found = minimize(cost, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    return np.asarray(found.x)


# A prior that is worth more scores than these is a certainty.
_MOST = 1e6
# Least eigenvalue of a covariance, relative to the largest possible one, and in squared units of
# the largest score.
_SINGULAR, _TINY = 1e-9, 1e-18
# Fewer records than these tell nothing of their spread.
_FEWEST_RECORDS = 3


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


# Share of a rank that the ratio itself adds, to order records that dominate equally many others.
_RANK_SHARE = 1e-9


def interpolation_of(likelihood: FloatArray, trained_on: BoolArray) -> float:
    """Slope a of ``p_in - 1 = a (p_out - 1)`` over records that have both, by least squares.

    Shapes: ``likelihood`` (n_models, n); ``trained_on`` (n_models, n); returns: in [0, 1], and 1
    where there are none: models fit what they were trained on no worse.
    """
    means = _means(likelihood, trained_on)
    lost = 1.0 - means[:, ~np.isnan(means).any(axis=0)]
    total = float(np.sum(lost[0] ** 2))
    return float(np.clip(np.sum(lost[0] * lost[1]) / total, 0.0, 1.0)) if total > 0.0 else 1.0


def usual_likelihoods(
    likelihood: FloatArray, trained_on: BoolArray, interpolation: float
) -> FloatArray:
    """Mean likelihood over models with and without each record in equal parts, of shape (n,).

    Shapes: ``likelihood`` (n_models, n); ``trained_on`` (n_models, n). Of what no model was trained
    on it is ``((1 + a) p_out + 1 - a) / 2``, a being the interpolation.
    """
    out, inside = _means(likelihood, trained_on)
    expected = interpolation * out + 1.0 - interpolation
    inside = np.where(np.isnan(inside), expected, inside)
    return np.maximum(0.5 * (np.where(np.isnan(out), inside, out) + inside), SMALLEST)


def _means(likelihood: FloatArray, trained_on: BoolArray) -> FloatArray:
    """Mean under models without each record, and with it, (2, n); NaN where there is none."""
    sides = np.stack([~trained_on, trained_on])
    number = sides.sum(axis=1)
    total = np.where(sides, likelihood, 0.0).sum(axis=1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


class LikelihoodRatios:
    """Likelihoods of records under a model over those that are usual of them. Confidential.

    They are learned from the scores (n_models, n) of reference models that were trained on some of
    the records; without an interpolation, see `usual_likelihoods`, that is learned, too.
    """

    def __init__(
        self,
        scores: FloatArray,
        trained_on: BoolArray,
        probabilistic: bool,
        interpolation: float | None = None,
    ) -> None:
        self.probabilistic, self.scale = probabilistic, 1.0
        if not probabilistic:
            # Root mean square of the residuals of records under models without them.
            apart = np.abs(scores[~trained_on] if not trained_on.all() else scores)
            unit = float(apart.max()) or 1.0
            self.scale = max(unit * float(np.sqrt(np.mean((apart / unit) ** 2))), float(SMALLEST))
        likelihood = self._likelihoods(scores)
        if interpolation is None:
            interpolation = interpolation_of(likelihood, trained_on)
        self.interpolation = interpolation
        self.usual = usual_likelihoods(likelihood, trained_on, interpolation)

    def _likelihoods(self, scores: FloatArray) -> FloatArray:
        """Probability of the label, or density of the residual over that of a perfect fit.

        Returns the shape of the scores: in (0, 1].
        """
        if self.probabilistic:
            return np.maximum(expit(scores), SMALLEST)
        with np.errstate(over="ignore", under="ignore"):
            return np.maximum(np.exp(-0.5 * (scores / self.scale) ** 2), SMALLEST)

    def under(self, scores: FloatArray) -> FloatArray:
        """Ratios under models of which the scores (..., n) are given, likewise."""
        return self._likelihoods(scores) / self.usual


def dominated_shares(ratios: FloatArray, population: FloatArray, gamma: float) -> FloatArray:
    """Share of the population that each record's ratio exceeds by a factor, in [0, 1].

    Shapes: ``ratios`` (n_targets,); ``population`` (n_population,); returns (n_targets,). Equal
    shares are ordered by the ratio.
    """
    order = np.sort(population)
    # With a little room, as equal numbers come about by different roundings.
    number = np.searchsorted(order, ratios / gamma * (1.0 + 1e-12), side="right")
    return (number / len(order) + _RANK_SHARE * ratios / (1.0 + ratios)) / (1.0 + _RANK_SHARE)
