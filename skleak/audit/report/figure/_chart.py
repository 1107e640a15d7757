"""Geometry of the chart in an audit report; a template draws it.

Places along the axis of the noise are percentages of the width and heights are pixels: the chart
then fills any screen while its letters keep their size.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from skleak.audit.report._format import attack_label, bound_label, percent
from skleak.audit.report._tables import (
    bound_advantages,
    counts_success,
    drawn_bounds,
    floor_advantages,
    levels,
    prior_error,
    relative_errors,
)
from skleak.audit.report.figure._axes import Axis, noise_axis, value_axis
from skleak.metrics._verdict import EXCEEDED
from skleak.rendering._format import number
from skleak.rendering._svg import Tick
from skleak.utils._typing import FloatArray

if TYPE_CHECKING:
    from skleak.audit.report._report import AuditReport

__all__ = ["AuditChart", "Bounds", "Curve", "Panel", "Point", "Series", "audit_chart", "merged"]

_HEIGHT = 280.0
_LOW_HEIGHT = 130.0
# Advantages below this are off the chart: an attack that is worse than guessing.
_FLOOR = -0.5
# Bounds drawn so that they can be told apart; the others are thin.
_N_STRONG = 3
# Bounds closer than this share a curve.
_SAME = 1e-7
_FAR = 1e4


@dataclass(frozen=True)
class Point:
    """A result: percent along the noise, pixels from the top for it and its interval's ends."""

    x: float
    y: float
    low: float | None
    high: float | None
    title: str
    exceeded: bool


@dataclass(frozen=True)
class Series:
    """An attack: its points, and the lines between them as lists of coordinates."""

    name: str
    index: int
    points: tuple[Point, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """A bound: its lines, and a style from 1 (the tightest) to 3, or 0 for a thin one."""

    name: str
    style: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Panel:
    """One area of the chart with what is drawn in it; `reference` is a level with a label.

    `floor` is the outline of what some attack surely reaches, or empty.
    """

    title: str
    height: float
    ticks: tuple[Tick, ...]
    series: tuple[Series, ...]
    curves: tuple[Curve, ...]
    reference: Tick | None
    logarithmic: bool
    floor: str = ""


@dataclass(frozen=True)
class AuditChart:
    """What a template needs to draw the results of an audit over its noise scales.

    Parameters
    ----------
    panels : tuple of Panel
        One above the other, on the same noise axis.
    x_ticks : tuple of Tick
        Labels along the noise.
    logarithmic : bool
        Whether the noise axis is logarithmic.
    n_omitted : int
        Results that are not drawn: infinite, undefined or far off the axis.
    """

    panels: tuple[Panel, ...]
    x_ticks: tuple[Tick, ...]
    logarithmic: bool
    n_omitted: int


@dataclass(frozen=True)
class Bounds:
    """Bounds over the noise, those that are equal in one column, the tightest first."""

    table: pd.DataFrame
    styles: tuple[int, ...]


def merged(table: pd.DataFrame, ascending: bool = True) -> Bounds:
    """Sort bounds by their mean, and put those that are equal everywhere into one.

    Shapes: ``table`` (n_scales, n_bounds); returns: columns named for people.
    """
    kept: dict[str, tuple[list[str], FloatArray]] = {}
    for name in table.columns:
        values = table[name].to_numpy(dtype=float)
        if np.isnan(values).all():
            continue
        for names, other in kept.values():
            if np.allclose(values, other, rtol=0.0, atol=_SAME, equal_nan=True):
                names.append(bound_label(name))
                break
        else:
            kept[name] = ([bound_label(name)], values)
    columns = {" = ".join(names): values for names, values in kept.values()}
    result = pd.DataFrame(columns, index=table.index, dtype=float)
    # An infinite bound on an error is the tightest there is: it must not make means undefined.
    mean = result.clip(-1e9, 1e9).mean().sort_values(ascending=ascending, kind="stable")
    styles = tuple(k + 1 if k < _N_STRONG else 0 for k in range(len(mean)))
    return Bounds(result[list(mean.index)], styles)


def audit_chart(report: "AuditReport") -> AuditChart | None:
    """Place the results of an audit with several noise scales.

    Returns None where there are fewer than two noise scales: `rows_chart` draws that.
    """
    first = levels(report)
    noise = first.index.to_numpy(dtype=float)
    if len(noise) < 2:
        return None
    axis = noise_axis(noise)
    made = _success(report, axis) if counts_success(report) else _errors(report, axis)
    if made[0] is None:
        return None
    utility = _utility(report, axis, first["utility"].to_numpy(dtype=float))
    panels = tuple(panel for panel in (*made, utility) if panel is not None)
    # A result counts as drawn where the first panel has its point.
    drawn = sum(len(series.points) for series in panels[0].series)
    ticks = tuple(Tick(100.0 * float(axis.position(value)), label) for value, label in axis.ticks)
    return AuditChart(panels, ticks, axis.logarithmic, len(report.results) - drawn)


def _success(report: "AuditReport", axis: Axis) -> list[Panel | None]:
    values = report.results[["advantage", "advantage_low", "advantage_high"]].astype(float)
    bounds = merged(bound_advantages(report))
    strong = bounds.table.to_numpy()[:, : min(_N_STRONG, len(bounds.styles))]
    shown = np.r_[0.0, values.to_numpy().ravel(), strong.ravel()]
    scale = value_axis(np.clip(shown, _FLOOR, 1.0), False, as_percent=True)
    title = "Advantage over the prior"
    panel = _panel(title, _HEIGHT, report, axis, scale, values, bounds, 0.0)
    floor = floor_advantages(report)
    if panel is None or scale is None or floor is None:
        return [panel]
    x = axis.position(floor.index.to_numpy(dtype=float))
    ends = np.r_[x, x[::-1]], np.r_[floor.fillna(0.0).to_numpy(), np.zeros(len(x))]
    return [replace(panel, floor=_lines(ends[0], _down(ends[1], scale, _HEIGHT))[0])]


def _errors(report: "AuditReport", axis: Axis) -> list[Panel | None]:
    relative = relative_errors(report)
    guess = prior_error(report).where(lambda error: error > 0.0)
    table = levels(report)[drawn_bounds(report)].astype(float).div(guess, axis=0)
    bounds = merged(table, ascending=False)
    to_guess = _panel(
        "Mean squared error over that of guessing the mean, over all records",
        _HEIGHT,
        report,
        axis,
        value_axis(np.r_[1.0, relative.to_numpy().ravel(), table.to_numpy().ravel()], True),
        relative,
        bounds,
        1.0,
    )
    names = ["mse_over_bound", "mse_over_bound_low", "mse_over_bound_high"]
    over = report.results[names].astype(float)
    if not np.isfinite(over["mse_over_bound"]).any():
        return [to_guess]
    none = Bounds(table.iloc[:, :0], ())
    scale = value_axis(np.r_[1.0, over.to_numpy().ravel()], True)
    title = "Squared error over its bound for unbiased attacks, on the median record"
    return [to_guess, _panel(title, 180.0, report, axis, scale, over, none, 1.0)]


def _panel(
    title: str,
    height: float,
    report: "AuditReport",
    axis: Axis,
    scale: Axis | None,
    values: pd.DataFrame,
    bounds: Bounds,
    reference: float,
) -> Panel | None:
    if scale is None:
        return None
    series = []
    for index, attack in enumerate(report.results["attack"].unique()):
        mine = (report.results["attack"] == attack).to_numpy()
        series.append(_series(report, attack, index, axis, scale, values[mine], height))
    x = axis.position(bounds.table.index.to_numpy(dtype=float))
    curves = tuple(
        Curve(name, style, _lines(x, _down(bounds.table[name].to_numpy(), scale, height)))
        for name, style in zip(bounds.table.columns, bounds.styles, strict=True)
    )
    line = Tick(float(_down(reference, scale, height)), number(reference))
    return Panel(
        title, height, _ticks(scale, height), tuple(series), curves, line, scale.logarithmic
    )


def _series(
    report: "AuditReport",
    attack: str,
    index: int,
    axis: Axis,
    scale: Axis,
    values: pd.DataFrame,
    height: float,
) -> Series:
    rows = report.results.loc[values.index]
    noise = rows["noise_scale"].to_numpy(dtype=float)
    judged = (rows["verdict"] == EXCEEDED).to_numpy()
    x = 100.0 * axis.position(noise)
    found = values.to_numpy(dtype=float)
    y, low, high = (_down(column, scale, height) for column in found.T)
    show = percent if counts_success(report) else number
    points = tuple(
        Point(
            float(x[k]),
            float(y[k]),
            *_ends(low[k], high[k], height),
            f"{attack_label(attack)}, noise scale {number(noise[k])}: "
            f"{show(found[k, 0])} ({show(found[k, 1])} to {show(found[k, 2])})",
            bool(judged[k]),
        )
        for k in range(len(rows))
        if -0.5 <= y[k] <= height + 0.5
    )
    return Series(attack_label(attack), index, points, _lines(x / 100.0, y))


def _utility(report: "AuditReport", axis: Axis, utility: FloatArray) -> Panel | None:
    noiseless = float(report.settings["noiseless_utility"])
    finite = utility[np.isfinite(utility)]
    if not len(finite):
        return None
    top = max(np.nanmax([noiseless, finite.max()]), finite.max())
    # A score without a lower end, such as R^2, falls without end as noise grows.
    floor = -abs(top) if finite.min() < 0.0 and top - finite.min() > 5.0 * abs(top) else -np.inf
    scale = value_axis(np.r_[np.maximum(finite, floor), noiseless], False)
    if scale is None:
        return None
    noise = levels(report).index.to_numpy(dtype=float)
    y, x = _down(utility, scale, _LOW_HEIGHT), axis.position(noise)
    points = tuple(
        Point(100.0 * x[k], y[k], None, None, f"noise scale {number(noise[k])}: {number(u)}", False)
        for k, u in enumerate(utility)
        if -0.5 <= y[k] <= _LOW_HEIGHT + 0.5
    )
    line = None
    if np.isfinite(noiseless):
        place = float(_down(noiseless, scale, _LOW_HEIGHT))
        line = Tick(place, f"without noise {number(noiseless)}")
    series = Series("utility", -1, points, _lines(x, y))
    title = f"Utility: {report.settings['utility_name']} on {report.settings['utility_data']}"
    return Panel(title, _LOW_HEIGHT, _ticks(scale, _LOW_HEIGHT), (series,), (), line, False)


def _down(value: "float | FloatArray", scale: Axis, height: float) -> FloatArray:
    """Pixels from the top; far beyond the area where a value is infinite."""
    place = height * (1.0 - scale.position(value))
    return np.clip(place, -_FAR, _FAR)


def _ends(low: float, high: float, height: float) -> tuple[float | None, float | None]:
    if np.isnan(low) or np.isnan(high):
        return None, None
    return float(np.clip(low, 0.0, height)), float(np.clip(high, 0.0, height))


def _ticks(scale: Axis, height: float) -> tuple[Tick, ...]:
    return tuple(Tick(float(_down(value, scale, height)), label) for value, label in scale.ticks)


def _lines(x: FloatArray, y: FloatArray) -> tuple[str, ...]:
    """Coordinates of the lines through neighbours that are both known."""
    runs: list[list[str]] = [[]]
    for across, down in zip(100.0 * np.asarray(x), np.asarray(y), strict=True):
        if np.isnan(down):
            runs.append([])
        else:
            runs[-1].append(f"{across:.3f},{down:.2f}")
    return tuple(" ".join(run) for run in runs if len(run) > 1)
