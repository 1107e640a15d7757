"""Counts, means, spreads and extremes of the columns of a table that comes in blocks of rows."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from skleak.utils._typing import Array, FloatArray


@dataclass(frozen=True)
class Moments:
    """Statistics of k columns, each by itself; of no row the mean is NaN.

    Two summaries are combined by Chan, Golub and LeVeque's update, which loses no digits to the
    mean. In another order or grouping of the blocks the mean is the same to rounding.
    """

    n: int
    mean: FloatArray  # infinite where a number is, (k,)
    deviation: FloatArray  # roots of the sums of squared deviations from the mean, (k,)
    smallest: FloatArray  # (k,)
    largest: FloatArray  # (k,)

    @classmethod
    def of(cls, table: Array) -> Self:
        """Summarize a table of shape (n, k)."""
        n, k = table.shape
        if not n:
            none = np.full(k, np.nan)
            return cls(0, none, np.zeros(k), np.full(k, np.inf), np.full(k, -np.inf))
        with np.errstate(invalid="ignore"):
            mean = table.mean(axis=0)
            gaps = table - mean
            unit = np.abs(gaps).max(axis=0)  # squares of large numbers overflow
            gaps = gaps / np.where(unit > 0.0, unit, 1.0)
            # What rounding left in the mean.
            squares = np.sum(gaps**2, axis=0) - np.sum(gaps, axis=0) ** 2 / n
            deviation = unit * np.sqrt(np.maximum(squares, 0.0))
        return cls(n, mean, deviation, table.min(axis=0), table.max(axis=0))

    def merged(self, other: "Moments") -> "Moments":
        """Summarize the rows of both."""
        if not (self.n and other.n):
            return self if self.n else other
        n = self.n + other.n
        with np.errstate(invalid="ignore"):
            gap = other.mean - self.mean
            mean = self.mean + gap * (other.n / n)
            mean = np.where(np.isinf(self.mean), self.mean, mean)
            apart = np.abs(gap) * np.sqrt(self.n * (other.n / n))
            deviation = np.hypot(np.hypot(self.deviation, other.deviation), apart)
        smallest = np.minimum(self.smallest, other.smallest)
        return Moments(n, mean, deviation, smallest, np.maximum(self.largest, other.largest))

    @property
    def std(self) -> FloatArray:
        """Standard deviations, (k,); NaN where a number is infinite."""
        if not self.n:
            return np.full(len(self.mean), np.nan)
        return np.asarray(self.deviation / np.sqrt(self.n))

    @property
    def spread(self) -> FloatArray:
        """Standard deviations over means, (k,); 0 where all is zero, infinite with a number."""
        std = self.std
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.where(self.mean == 0.0, 0.0, std / self.mean)
        return np.where(np.isinf(self.mean), np.inf, spread)
