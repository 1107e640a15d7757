"""Attacks, bounds and verdicts on the panels of an audit."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.metrics import BIASED, EXCEEDED
from skleak.plotting._attacks import Mark, Scale, label_of
from skleak.plotting._curves import BAYES, curve_styles, plain_ticks
from skleak.plotting.labels import bound_label
from skleak.plotting.palette import CRIMSON, INK, VERMILION, WHITE, YELLOW
from skleak.plotting.results import equal_columns, tightest_first

# Verdicts to mark, with the colour of the ring.
_RINGS = {EXCEEDED: CRIMSON, BIASED: YELLOW}
# Advantages below this are drawn at the edge: a baseline near 1 makes them arbitrarily negative.
_LEAST_ADVANTAGE = -0.5
_ERROR_RANGE = (1e-8, 1e8)


def advantage_scale(drawn: pd.DataFrame) -> Scale:
    """Range of advantages, from 0 or the lowest to 1."""
    lowest = np.nanmin(np.r_[0.0, drawn["value"], drawn["low"]])
    return Scale(max(float(lowest), _LEAST_ADVANTAGE), 1.0)


def error_scale(drawn: pd.DataFrame, curves: pd.DataFrame) -> Scale:
    """Decades that hold all errors and bounds, within reason, and the prior guess."""
    if (drawn["noise_scale"] > 0.0).any():
        # Without noise the error of a good attack is round-off: it stands at the edge.
        drawn, curves = drawn[drawn["noise_scale"] > 0.0], curves[curves.index > 0.0]
    values = np.concatenate([drawn["value"], curves.to_numpy(dtype=float).ravel(), [0.5, 2.0]])
    values = values[np.isfinite(values) & (values > 0.0)]
    low, high = np.clip([values.min(), values.max()], *_ERROR_RANGE)
    return Scale(10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high)))


def scale_values(ax: Any, scale: Scale, errors: bool) -> None:
    """Set the axis of the values, with a line for the prior guess."""
    from matplotlib.ticker import PercentFormatter

    if errors:
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
        ax.set_ylim(*scale)
        ax.axhline(1.0, color=INK, ls=(0, (1.0, 1.6)), lw=1.0)
    else:
        ax.set_ylim(scale.low - 0.03 * (scale.low < 0.0), 1.02)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.axhline(0.0, color=INK, lw=0.8)


def draw_values(ax: Any, places: Any, values: Any, scale: Scale, **style: Any) -> Any:
    """Draw a line with markers; values beyond the axis are arrows at its edge."""
    values = np.asarray(values, dtype=float)
    inside = scale.inside(values)
    edge = {"mec": WHITE, "mew": 0.6, "zorder": 4.0}
    (line,) = ax.plot(places, scale.squeeze(values), markevery=inside, **edge, **style)
    for beyond, end, arrow in (
        (values < scale.low, scale.low, "$\\downarrow$"),
        (values > scale.high, scale.high, "$\\uparrow$"),
    ):
        if beyond.any():
            at = np.asarray(places)[beyond]
            ax.scatter(
                at, np.full(len(at), end), marker=arrow, c=line.get_color(), s=90, zorder=5.0
            ).set_clip_on(False)
    return line


def draw_attack(ax: Any, name: str, mark: Mark, part: pd.DataFrame, scale: Scale) -> Any:
    """One attack over the noise with its confidence intervals; its handle for the legend."""
    places = part["noise_scale"].to_numpy()
    known = part["value"].notna() & part["low"].notna() & part["high"].notna()
    low, high = (scale.squeeze(part[end][known]) for end in ("low", "high"))
    ax.vlines(places[known], low, high, color=mark.color, lw=3.2, alpha=0.35, zorder=3.5)
    style = {"color": mark.color, "marker": mark.marker, "lw": 1.7, "ms": 6.5}
    return draw_values(ax, places, part["value"], scale, label=label_of(name), **style)


def draw_bounds(ax: Any, curves: pd.DataFrame, scale: Scale, errors: bool) -> list[Any]:
    """Bounds as thin lines without markers, the strongest claim in the legend first."""
    if curves.empty:
        return []
    groups = equal_columns(curves)
    # The loosest claim first: the legend ends with what holds most.
    order = tightest_first(curves[list(groups)], success=errors)
    noise, handles = curves.index.to_numpy(), []
    unbiased = bound_label("cramer_rao")
    # Beside bounds for all attacks, that for unbiased ones rules nothing out.
    of_all = [bound for bound in groups if set(groups[bound]) != {unbiased}] or list(groups)
    for bound, (color, stroke) in curve_styles(order).items():
        # What the best attack reaches is a broad line below those that touch it.
        broad = bound in of_all if errors else bound == BAYES
        color, width, layer = (INK, 3.4, 2.2) if broad else (color, 1.2, 2.5)
        values = scale.squeeze(curves[bound])
        style = {"color": color, "ls": stroke, "lw": width, "alpha": 0.85, "zorder": layer}
        handles += ax.plot(noise, values, label="\n= ".join(groups[bound]), **style)
        if broad and not errors:
            ax.fill_between(noise, 0.0, values, color=INK, alpha=0.07, lw=0.0)
    if errors:
        # What no attack reaches: below the largest of the bounds.
        tightest = scale.squeeze(curves[of_all].max(axis=1))
        ax.fill_between(noise, scale.low, tightest, color=INK, alpha=0.07, lw=0.0)
    return handles


def draw_floor(ax: Any, floor: "pd.Series | None") -> list[Any]:
    """Shade what some attack surely reaches, over the noise or, at one noise scale, over all."""
    if floor is None:
        return []
    style = {"color": VERMILION, "alpha": 0.16, "lw": 0.0, "zorder": 1.5, "label": "surely reached"}
    if len(floor) == 1:
        return [ax.axhspan(0.0, float(floor.iloc[0]), **style)]
    return [ax.fill_between(floor.index.to_numpy(dtype=float), 0.0, floor.fillna(0.0), **style)]


def draw_rings(ax: Any, places: pd.Series, drawn: pd.DataFrame, scale: Scale) -> list[Any]:
    """Rings around the attacks whose verdict says that they passed a bound."""
    handles = []
    for verdict, color in _RINGS.items():
        found = drawn[(drawn["verdict"] == verdict) & drawn["value"].notna()]
        if len(found):
            ring = ax.scatter(
                places[found.index],
                scale.squeeze(found["value"]),
                s=170,
                facecolors="none",
                edgecolors=color,
                linewidths=2.0,
                zorder=6.0,
                label=verdict,
            )
            ring.set_clip_on(False)
            handles.append(ring)
    return handles
