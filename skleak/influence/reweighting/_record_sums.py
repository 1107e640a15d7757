"""Sums over all records that a search for weights needs: the level, and the spread of losses."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.influence.jacobian import FitFactor
from skleak.influence.state import WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import Array, FloatArray

_ACCURACY, _MOST_PASSES = 1e-14, 60


@dataclass(frozen=True)
class Moments:
    """Mean and spread of what all records lose, combined block by block."""

    count: float  # sum of the sample weights
    mean: float
    squares: float  # sum of the weighted squared deviations from the mean
    smallest: float
    largest: float

    @classmethod
    def of(cls, values: FloatArray, copies: FloatArray) -> Self:
        """Moments of a block; records of weight zero do not count."""
        values, copies = values[copies > 0.0], copies[copies > 0.0]
        if not len(values):
            return cls(0.0, 0.0, 0.0, np.inf, -np.inf)
        mean = float(np.average(values, weights=copies))
        squares = float(copies @ (values - mean) ** 2)
        return cls(float(copies.sum()), mean, squares, float(values.min()), float(values.max()))

    @property
    def spread(self) -> float:
        """Standard deviation over mean."""
        if not np.isfinite(self.mean) or self.mean == 0.0:
            return 0.0 if self.mean == 0.0 else np.inf
        return float(np.sqrt(self.squares / self.count) / self.mean)

    @property
    def deviation(self) -> float:
        """Largest relative deviation from the mean."""
        return max(self.largest - self.mean, self.mean - self.smallest) / self.mean

    def combined(self, other: "Moments") -> "Moments":
        """Moments of both."""
        if not self.count or not other.count:
            return self if self.count else other
        count, gap = self.count + other.count, other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * other.count / count,
            self.squares + other.squares + gap**2 * self.count * other.count / count,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
        )


def losses_under(
    rule: WeightRule, factor: FitFactor, objective: Objective, reweights: Array
) -> tuple[Moments, float]:
    """Moments of the losses that a rule makes equal, at such factors, and its level at the fit.

    Shapes: ``reweights`` (n,). One pass more than the level.
    """
    level, _ = level_of(rule, factor, objective)
    floor = level / rule.largest_weight

    def moments(X: FloatArray, y: FloatArray, copies: FloatArray, omega: FloatArray) -> Moments:
        kappa = rule.norms(factor, X, y)
        return Moments.of(np.where(kappa > 0.0, omega * np.hypot(kappa, floor), 0.0), copies)

    blocks = Blocks.of(objective.X, objective.y, objective.sample_weight, reweights)
    return blocks.map_reduce(moments, Moments.combined), level


def level_of(rule: WeightRule, factor: FitFactor, objective: Objective) -> tuple[float, float]:
    """Level at which the weights of a rule at a fit have the sum of the sample weights.

    Returns it with the weight of records that cannot leak, the geometric mean of all others. Both
    are those to which the search in memory converges. One pass; a few more where weights have a
    bound.
    """

    def sums(X: FloatArray, y: FloatArray, copies: FloatArray) -> FloatArray:
        kappa = rule.norms(factor, X, y)
        leaks = kappa > 0.0
        s, k = copies[leaks], kappa[leaks]
        return np.array([copies.sum(), s.sum(), s @ (1.0 / k), s @ np.log(k)])

    blocks = Blocks.of(objective.X, objective.y, objective.sample_weight)
    total, leaking, inverse, logs = blocks.map_reduce(sums, add)
    if not leaking > 0.0:
        return 0.0, 1.0
    typical = np.exp(-logs / leaking)
    level = float(total / (inverse + (total - leaking) * typical))
    if not np.isfinite(rule.largest_weight):
        return level, level * typical
    return _bounded_level(rule, factor, blocks, level, total - leaking)


def _bounded_level(
    rule: WeightRule, factor: FitFactor, blocks: Blocks, start: float, others: float
) -> tuple[float, float]:
    """By Newton's method in the logarithms, kept between bounds that are known."""

    def sums(X: FloatArray, y: FloatArray, copies: FloatArray, level: float) -> FloatArray:
        kappa = rule.norms(factor, X, y)
        leaks = kappa > 0.0
        s, k = copies[leaks], kappa[leaks]
        w, f = rule.weights(k, level), rule.follows(k, level)
        return np.array([copies.sum(), s.sum(), s @ w, s @ np.log(w), s @ (w * f), s @ f])

    log_level, low, high = np.log(start), np.log(start) - 1.0, np.inf
    rest = 1.0
    for _ in range(_MOST_PASSES):
        total, leaking, weights, logs, slopes, follows = blocks.map_reduce(
            sums, add, float(np.exp(log_level))
        )
        rest = float(np.exp(logs / leaking))
        reached = weights + others * rest
        # No weight can be above the bound, and so neither can their mean.
        error = np.log(reached / min(total, 0.9 * rule.largest_weight * total))
        low, high = (low, log_level) if error > 0.0 else (log_level, high)
        slope = (slopes + others * rest * follows / leaking) / reached
        following = log_level - error / slope if slope > 0.0 else np.inf
        if not low <= following <= high:
            following = 0.5 * (low + high) if np.isfinite(high) else log_level + 1.0
        moved, log_level = abs(following - log_level), following
        if moved <= _ACCURACY * max(1.0, abs(log_level)):
            break
    return float(np.exp(log_level)), rest
