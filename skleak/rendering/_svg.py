"""Geometry of the histogram in an HTML report; a template draws it.

Places along the axis are percentages of the width and heights are pixels: the chart then fills
any screen while its letters keep their size.
"""

from dataclasses import dataclass

import numpy as np

from skleak.rendering._format import count, number
from skleak.rendering._histogram import Histogram, round_ticks

__all__ = ["HEIGHT", "Bar", "HistogramChart", "Mark", "Tick", "histogram_chart"]

HEIGHT = 200.0


@dataclass(frozen=True)
class Bar:
    """A bin: left end and width in percent, height in pixels, and what it holds."""

    left: float
    width: float
    height: float
    low: float
    high: float
    n_records: int


@dataclass(frozen=True)
class Tick:
    """A label at a place: percent along the axis, or pixels from its top."""

    position: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A line across the chart, whose label stands to its right or to its left."""

    position: float
    label: str
    anchor: str


@dataclass(frozen=True)
class HistogramChart:
    """Geometry of a histogram of leakage, for a template.

    Parameters
    ----------
    bars : tuple of Bar
        The bins that hold records.
    x_ticks, y_ticks : tuple of Tick
        Labels along the axis of the loss and that of the records.
    marks : tuple of Mark
        Mean and maximum.
    height : float
        Height of the area of the bars in pixels.
    bins : Histogram
        The numbers that are drawn.
    """

    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    height: float
    bins: Histogram


def histogram_chart(bins: Histogram, mean: float, largest: float) -> HistogramChart:
    """Place the bars, ticks and marks of a histogram."""
    top = bins.counts.max()
    ends = 100.0 * bins.position(bins.edges)
    bars = tuple(
        Bar(
            ends[k],
            ends[k + 1] - ends[k],
            max(HEIGHT * n / top, 1.5),
            bins.edges[k],
            bins.edges[k + 1],
            n,
        )
        for k, n in enumerate(bins.counts.tolist())
        if n
    )
    # Whole records only: for few of them half-steps would come out.
    records = round_ticks(0.0, float(top), 5)
    records = records[records == np.round(records)]
    y_ticks = tuple(Tick(HEIGHT * (1.0 - n / top), count(n)) for n in records)
    x_ticks = tuple(Tick(100.0 * float(bins.position(t)), number(t)) for t in bins.ticks)
    marks = tuple(
        _mark(100.0 * float(bins.position(value)), f"{name} {number(value)}")
        for name, value in (("mean", mean), ("max", largest))
        if np.isfinite(value)
    )
    return HistogramChart(bars, x_ticks, y_ticks, marks, HEIGHT, bins)


def _mark(position: float, label: str) -> Mark:
    return Mark(position, label, "start" if position < 60.0 else "end")
