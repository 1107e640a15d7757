"""Geometry of the chart of an audit at one noise scale: a bar for each attack, bounds across."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skleak.audit.report._format import attack_label, percent
from skleak.audit.report._tables import (
    bound_advantages,
    counts_success,
    drawn_bounds,
    floor_advantages,
    levels,
    prior_error,
    relative_errors,
)
from skleak.audit.report.figure._axes import Axis, value_axis
from skleak.audit.report.figure._chart import merged
from skleak.metrics._verdict import EXCEEDED
from skleak.rendering._format import number
from skleak.rendering._svg import Tick
from skleak.utils._typing import FloatArray

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["AttackRow", "BoundMark", "RowsChart", "rows_chart"]

ROW_HEIGHT = 46.0
_FLOOR = -0.5


@dataclass(frozen=True)
class AttackRow:
    """An attack: its bar and its interval in percent along the axis, and its place from the top."""

    name: str
    value: str
    index: int
    top: float
    left: float
    width: float
    low: float | None
    high: float | None
    exceeded: bool


@dataclass(frozen=True)
class BoundMark:
    """A bound: its value, percent along the axis if it is on it, and a style as in `Curve`."""

    name: str
    value: str
    position: float | None
    style: int


@dataclass(frozen=True)
class RowsChart:
    """What a template needs to draw attacks at one noise scale.

    Parameters
    ----------
    title : str
        What the axis measures.
    rows : tuple of AttackRow
        One for each attack.
    marks : tuple of BoundMark
        The bounds, the tightest first; those off the axis are named too.
    ticks : tuple of Tick
        Labels along the axis.
    reference : float
        Percent along the axis where the prior guess stands.
    height : float
        Of the area, in pixels.
    n_omitted : int
        Attacks whose result is infinite or undefined.
    floor : float or None, default=None
        Percent along the axis of what some attack surely reaches.
    """

    title: str
    rows: tuple[AttackRow, ...]
    marks: tuple[BoundMark, ...]
    ticks: tuple[Tick, ...]
    reference: float
    height: float
    n_omitted: int
    floor: float | None = None


def rows_chart(report: "AuditReport") -> RowsChart | None:
    """Place the results of an audit with one noise scale.

    Returns None where nothing is finite.
    """
    categorical = counts_success(report)
    show: Callable[[float], str] = percent if categorical else number
    if categorical:
        names = ["advantage", "advantage_low", "advantage_high"]
        values = report.results[names].to_numpy(dtype=float)
        bounds, start = merged(bound_advantages(report)), 0.0
        title = "Advantage over the prior"
    else:
        values = relative_errors(report).to_numpy()
        table = levels(report)[drawn_bounds(report)].astype(float)
        guess = prior_error(report).where(lambda error: error > 0.0)
        bounds, start = merged(table.div(guess, axis=0), ascending=False), 1.0
        title = "Mean squared error over that of guessing the mean, over all records"
    surely = floor_advantages(report)
    floor = np.nan if surely is None else float(surely.iloc[0])
    limits = bounds.table.to_numpy()[:, :3].ravel()
    shown = np.r_[start, values.ravel(), limits, floor]
    kept = np.clip(shown, _FLOOR, 1.0) if categorical else shown
    scale = value_axis(kept, logarithmic=not categorical, as_percent=categorical)
    if scale is None or not np.isfinite(values[:, 0]).any():
        return None
    rows = _rows(report, values, scale, start, show)
    marks = tuple(
        BoundMark(
            str(name),
            percent(value, up=True) if categorical else number(value),
            _along(value, scale) if 0.0 <= scale.position(value) <= 1.0 else None,
            style,
        )
        for name, value, style in zip(
            bounds.table.columns, bounds.table.to_numpy()[0], bounds.styles, strict=True
        )
    )
    ticks = tuple(Tick(_along(value, scale), label) for value, label in scale.ticks)
    omitted = len(values) - len(rows)
    height = ROW_HEIGHT * len(rows)
    end = None if np.isnan(floor) else _along(floor, scale)
    return RowsChart(title, rows, marks, ticks, _along(start, scale), height, omitted, end)


def _rows(
    report: "AuditReport",
    values: FloatArray,
    scale: Axis,
    start: float,
    show: Callable[[float], str],
) -> tuple[AttackRow, ...]:
    rows: list[AttackRow] = []
    from_prior = _along(start, scale)
    for index, (attack, judged) in enumerate(
        zip(report.results["attack"], report.results["verdict"], strict=True)
    ):
        value, low, high = values[index]
        if not np.isfinite(value):
            continue
        here, known = _along(value, scale), not np.isnan(low + high)
        rows.append(
            AttackRow(
                attack_label(attack),
                show(value) + (f" ({show(low)} to {show(high)})" if known else ""),
                index,
                ROW_HEIGHT * len(rows),
                min(here, from_prior),
                abs(here - from_prior),
                _along(low, scale) if known else None,
                _along(high, scale) if known else None,
                judged == EXCEEDED,
            )
        )
    return tuple(rows)


def _along(value: float, scale: Axis) -> float:
    return 100.0 * float(np.clip(scale.position(value), 0.0, 1.0))
