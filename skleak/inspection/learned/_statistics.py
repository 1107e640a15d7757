"""Transformers that shift and scale each column by statistics of it, or impute them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from skleak.inspection.learned._leaf import (
    LearnedLeaf,
    NothingLearned,
    quantile_weights,
    rates_of_order,
    rounding,
)
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# A column that spans less than this share of its largest entry is constant.
_CONSTANT = 1e-9


# Derivatives of a statistic as an entry grows, falls, and moves with those tied to it, (n, w) each.
Rates = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class ByColumn(LearnedLeaf):
    """Each column by k statistics of itself. Confidential."""

    slope: FloatArray  # df/du, (n, w)
    sensitivity: FloatArray  # df/dtheta, (k, n, w)
    up: FloatArray  # dtheta/du as an entry grows, (k, n, w)
    down: FloatArray  # as it falls
    together: FloatArray  # as tied entries move together

    def pull(self, outer: FloatArray, rows: IntArray) -> FloatArray:
        n_out = self.slope.shape[1]  # an imputer may add indicators of what is missing
        return outer[:, :, :n_out] * self.slope[rows][:, None]

    def gather(self, outer: FloatArray, rows: IntArray) -> FloatArray:
        n_out = self.slope.shape[1]
        found = np.einsum("bpw,kbw->kpw", outer[:, :, :n_out], self.sensitivity[:, rows])
        return np.asarray(found)

    def settle(self, gathered: Any) -> Any:
        return gathered

    def spread(self, G: FloatArray, rows: IntArray) -> FloatArray:
        return np.asarray(np.einsum("kpw,kbw->bpw", G, self.together[:, rows]))

    def along(self, G: FloatArray, rows: IntArray, tangents: FloatArray, side: float) -> FloatArray:
        rates = np.where(side * tangents > 0.0, self.up[:, rows], self.down[:, rows])
        with np.errstate(invalid="ignore"):
            changes = np.where(tangents == 0.0, 0.0, rates * tangents)
            return np.asarray(np.einsum("kpw,kbw->bp", G, changes))


@dataclass(frozen=True)
class Statistic:
    """A statistic of every column, and how it enters what is encoded."""

    learned: FloatArray  # What the transformer holds, (w,)
    expected: FloatArray  # The statistic of these records, (w,)
    sensitivity: FloatArray  # df/dtheta, (n, w)
    rates: Rates  # up, down and together, (n, w) each


def by_column(transformer: Any, records: FloatArray) -> ByColumn:
    """Differentiate a fitted scaler or imputer at its training records, (n, w)."""
    if type(transformer) not in STATISTICS:
        raise NothingLearned(type(transformer).__name__)
    slope, statistics = STATISTICS[type(transformer)](transformer, records)
    for statistic in statistics:
        size = np.maximum(np.abs(statistic.expected), np.nanmax(np.abs(records), axis=0))
        error = np.abs(statistic.learned - statistic.expected)
        if not np.all(error <= rounding(statistic.learned) * size):
            raise NothingLearned(f"{type(transformer).__name__}, fitted on other records")
    n, w = records.shape
    table = np.zeros((4, len(statistics), n, w))
    for k, statistic in enumerate(statistics):
        table[0, k] = np.nan_to_num(statistic.sensitivity)
        table[1:, k] = statistic.rates
    return ByColumn(np.broadcast_to(slope, (n, w)), *table)


Made = tuple[FloatArray, list[Statistic]]


def _standard(transformer: StandardScaler, records: FloatArray) -> Made:
    present = np.where(np.isnan(records), 0.0, 1.0)
    n, mean = present.sum(axis=0), np.nanmean(records, axis=0)
    centered = records - mean
    w = records.shape[1]
    scale = np.ones(w) if transformer.scale_ is None else transformer.scale_
    statistics = []
    if transformer.with_mean:
        rate = present / n
        statistics.append(Statistic(transformer.mean_, mean, -present / scale, (rate, rate, rate)))
    if transformer.with_std:
        sd, constant = _span(np.sqrt(np.nanmean(centered**2, axis=0)), records)
        shifted = centered if transformer.with_mean else records
        rate = np.nan_to_num(centered) / (n * sd)
        rates = _torn((rate, rate, rate), constant)
        statistics.append(Statistic(scale, sd, -shifted / scale**2, rates))
    return 1.0 / scale, statistics


def _min_max(transformer: MinMaxScaler, records: FloatArray) -> Made:
    if transformer.clip:
        raise NothingLearned("MinMaxScaler that clips")
    low, high = np.nanmin(records, axis=0), np.nanmax(records, axis=0)
    span, constant = _span(high - low, records)
    n = (~np.isnan(records)).sum(axis=0)
    unit = transformer.scale_
    ends = [
        (transformer.data_min_, low, unit * (records - high) / span, [{0: 1.0}] * len(n)),
        (transformer.data_max_, high, -unit * (records - low) / span, [{m - 1: 1.0} for m in n]),
    ]
    return unit, [Statistic(*end[:3], _torn(_order(records, end[3]), constant)) for end in ends]


def _max_abs(transformer: MaxAbsScaler, records: FloatArray) -> Made:
    if getattr(transformer, "clip", False):
        raise NothingLearned("MaxAbsScaler that clips")
    sizes = np.abs(records)
    largest = np.nanmax(sizes, axis=0)
    last = [{m - 1: 1.0} for m in (~np.isnan(records)).sum(axis=0)]
    up, down, together = _order(sizes, last)
    sign = np.nan_to_num(np.sign(records))
    # A negative entry that grows makes its size fall.
    rates = np.where(sign > 0, up, -down), np.where(sign > 0, down, -up), sign * together
    rates = _torn(rates, largest == 0.0)
    unit = 1.0 / transformer.scale_
    return unit, [Statistic(transformer.max_abs_, largest, -records * unit**2, rates)]


def _robust(transformer: RobustScaler, records: FloatArray) -> Made:
    n = (~np.isnan(records)).sum(axis=0)
    w = records.shape[1]
    scale = np.ones(w) if transformer.scale_ is None else transformer.scale_
    center = np.zeros(w) if transformer.center_ is None else transformer.center_
    statistics = []
    if transformer.with_centering:
        rates = _order(records, [quantile_weights(0.5, m) for m in n])
        median = np.nanmedian(records, axis=0)
        ones = np.ones_like(records)
        statistics.append(Statistic(center, median, -ones / scale, rates))
    if transformer.with_scaling:
        low, high = np.array(transformer.quantile_range) / 100.0
        ends = np.nanquantile(records, [low, high], axis=0)
        span, constant = _span(ends[1] - ends[0], records)
        unit = scale / span  # of `unit_variance`
        sensitivity = -(records - center) * unit / scale**2
        for q, end, sign in ((low, ends[0], -1.0), (high, ends[1], 1.0)):
            rates = _torn(_order(records, [quantile_weights(q, m) for m in n]), constant)
            statistics.append(Statistic(end, end, sign * sensitivity, rates))
    return 1.0 / scale, statistics


def _imputer(transformer: SimpleImputer, records: FloatArray) -> Made:
    missing = np.isnan(records)
    names_nan = isinstance(transformer.missing_values, float) and np.isnan(
        transformer.missing_values
    )
    learned = np.asarray(transformer.statistics_, dtype=object)
    if not names_nan or np.any(np.all(missing, axis=0)):
        raise NothingLearned("SimpleImputer of other than missing values, or of nothing else")
    slope = 1.0 - missing
    n = (~missing).sum(axis=0)
    if transformer.strategy == "constant":
        return slope, []
    learned = learned.astype(np.float64)
    if transformer.strategy == "mean":
        rate = slope / n
        mean = np.nanmean(records, axis=0)
        return slope, [Statistic(learned, mean, missing.astype(float), (rate, rate, rate))]
    if transformer.strategy == "median":
        rates = _order(records, [quantile_weights(0.5, m) for m in n])
        median = np.nanmedian(records, axis=0)
        return slope, [Statistic(learned, median, missing.astype(float), rates)]
    raise NothingLearned(f"SimpleImputer by {transformer.strategy!r}")


def _order(records: FloatArray, weights: list[dict[int, float]]) -> Rates:
    """Rates of a weighted sum of order statistics of each column, three tables (n, w)."""
    rates = [rates_of_order(column, own) for column, own in zip(records.T, weights, strict=True)]
    up, down, together = (np.stack(some, axis=1) for some in zip(*rates, strict=True))
    return up, down, together


def _span(span: FloatArray, records: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the scale of each column for scalers, one for constant ones, and which these are."""
    constant = span <= _CONSTANT * np.nanmax(np.abs(records), axis=0)
    return np.where(constant, 1.0, span), constant


def _torn(rates: Rates, constant: BoolArray) -> Rates:
    """Rates of a scale that jumps as soon as an entry of a constant column moves by itself."""
    up, down, together = rates
    up, down = np.where(constant, np.inf, up), np.where(constant, np.inf, down)
    return up, down, np.where(constant, 0.0, together)


# Transformers by statistics, and what differentiates them.
STATISTICS: dict[type, Callable[[Any, FloatArray], Made]] = {
    StandardScaler: _standard,
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
    RobustScaler: _robust,
    SimpleImputer: _imputer,
}
