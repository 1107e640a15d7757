"""How much a score speaks for membership: beside the record's own scores, and beside all scores.

The likelihood ratio of a record rests on the few scores that it has as a member and as a
non-member, and its rank among the scores of all records on very many. How much each of the
two counts is learnt from the shadow models: they are attacked in turn by what the others teach.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from skleak.attacks.membership.shadow._laws import (
    ScoreLaws,
    Variance,
    fit_laws,
    ratios_from_others,
)
from skleak.attacks.membership.shadow._shrinkage import Pooling
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# Nats beyond which a ratio of fitted Gaussian densities hardly grows: their far tails are
# extrapolated.
_FARTHEST = 10.0
# Where the rank of a score makes steps: shares of all scores that are below.
_STEPS = np.array([0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98])
# Pairs of model and target that weights are learnt from, about.
_PAIRS = 20_000
# Least weight of the rank: it orders what the steps leave tied.
_TIE_BREAKER = 1e-6
_MAX_ITER = 100
_TOLERANCE = 1e-9
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


def fit_evidence(
    scores: FloatArray,
    trained_on: BoolArray,
    variance: Variance = "auto",
    limit: float = np.inf,
    *,
    residuals: bool = False,
    groups: IntArray,
    pooling: Pooling | None = None,
) -> Evidence:
    """Learn what scores tell, from models whose members are known.

    Without `pooling` every record has laws of its own.

    Shapes: ``scores`` (n_models, n_targets); ``trained_on`` (n_models, n_targets); ``groups``
    (n_groups, n_together).

    Logistic regression of membership on the log-likelihood ratio of each record's own laws, bounded
    smoothly at ten nats, and on a monotone function of the rank of the score among all scores:
    a normal quantile, whose weight is positive to break ties, and steps. Weights are not negative,
    and have a normal prior of variance 1 around one for the ratio and zero for the rest. So a few
    records are judged by the ratio alone, and many hardly worse than by the best single threshold.
    The best rank never speaks against membership, nor the worst for it.
    """
    known = scores, trained_on, variance, limit
    options: dict[str, Any] = {"residuals": residuals, "pooling": pooling}
    laws = fit_laws(*known, **options)
    merit = _merit(scores, limit, residuals)
    seen = np.sort(merit, axis=None)
    groups = _enough(groups, scores.shape[1])
    ratios = ratios_from_others(*known, groups=groups, **options)
    features = _features(ratios, merit[groups], seen)
    weights = np.zeros(features.shape[-1])
    # Models that answer alike whoever they were trained on tell nothing, be it good or bad.
    if np.all(scores == scores[0]):
        pass
    elif pooling is not None and not np.any(ratios):
        # Too few models to hold any out: the laws of all records are what there is.
        weights[:2] = 1.0, _TIE_BREAKER
    else:
        flat = features.reshape(-1, len(weights))
        weights = _fit_weights(flat, trained_on[groups].ravel())
    return Evidence(laws, residuals, seen, weights)


def choose_pooling(
    scores: FloatArray,
    trained_on: BoolArray,
    limit: float = np.inf,
    *,
    residuals: bool = False,
    groups: IntArray,
) -> Pooling:
    """Learn what the laws should share: that by which held-out memberships are likeliest.

    Shapes: as of `fit_evidence`. Scores are log odds if, and only if, their limit is finite.
    """
    groups = _enough(groups, scores.shape[1])
    best, largest = Pooling(), -np.inf
    for pooling in _POOLINGS:
        if pooling.softness and np.isinf(limit):
            continue
        options: dict[str, Any] = {"residuals": residuals, "groups": groups, "pooling": pooling}
        ratios = ratios_from_others(scores, trained_on, "auto", limit, **options)
        likelihood = -np.logaddexp(0.0, np.where(trained_on[groups], -ratios, ratios)).mean()
        if likelihood > largest:
            best, largest = pooling, likelihood
    return best


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
    """Weights of a logistic regression around (1, 0, ..., 0), none of them negative.

    Newton's method on those weights that are not held at their bound (Bertsekas 1982).
    """
    # Without members, or without others, nothing is to be learnt.
    share = float(np.nan_to_num(logit(member.mean()), posinf=0.0, neginf=0.0))
    center = np.zeros(features.shape[1])
    center[0] = 1.0
    least = np.zeros(len(center))
    least[1] = _TIE_BREAKER

    def cost(weights: FloatArray) -> float:
        odds = features @ weights + share
        return float(np.logaddexp(0.0, np.where(member, -odds, odds)).sum()) + 0.5 * float(
            np.sum((weights - center) ** 2)
        )

    weights = np.maximum(center, least)
    value = cost(weights)
    for _ in range(_MAX_ITER):
        p = expit(features @ weights + share)
        slope = features.T @ (p - member) + weights - center
        free = (weights > least) | (slope < -_TOLERANCE * len(member))
        if np.all(np.abs(slope[free]) <= _TOLERANCE * len(member)):
            break
        own = features[:, free]
        step = np.zeros(len(weights))
        curvature = (own * (p * (1.0 - p))[:, None]).T @ own + np.eye(own.shape[1])
        step[free] = np.linalg.solve(curvature, slope[free])
        size, found = 1.0, np.inf
        while found > value and size > _TOLERANCE:
            trial = np.maximum(weights - size * step, least)
            found, size = cost(trial), 0.5 * size
        if found > value:
            break
        weights, value = trial, found
    return weights
