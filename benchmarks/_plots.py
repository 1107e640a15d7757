"""The plots of the benchmarks, as small SVG files on a ground of their own."""

import hashlib
import io
import json

import numpy as np
from matplotlib import rc_context, style
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from skleak.plotting import labels as palette

COLORS = (palette.DEEP_BLUE, palette.VERMILION, palette.GREEN, palette.PURPLE, palette.YELLOW)
COLORS += (palette.SLATE, palette.BROWN, palette.INDIGO)
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "skleak", "font.size": 9.0}
SETTINGS |= {"axes.spines.top": False, "axes.spines.right": False}
# An opaque ground: letters stay readable where a page is dark.
GROUND = "#ffffff"


def digest(numbers) -> str:
    """What a plot says of itself, so that a test can tell whether its numbers are still those."""
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:16]


def _draw(numbers, size, shape, plot) -> str:
    """Draw on a figure of its own; nothing where there are no numbers."""
    if not numbers:
        return ""
    with style.context("default"), rc_context(SETTINGS):
        figure = Figure(figsize=size, layout="constrained", facecolor=GROUND)
        plot(figure.subplots(*shape, squeeze=False).ravel())
        drawn = io.StringIO()
        metadata = {"Date": None, "Creator": None, "Description": digest(numbers)}
        figure.savefig(drawn, format="svg", metadata=metadata)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines()) + "\n"


def draw_bars(bars) -> str:
    """How many times faster, with ranges."""

    def plot(axes):
        axis, places = axes[0], np.arange(len(bars))[::-1]
        for place, (_, low, middle, high) in zip(places, bars, strict=True):
            axis.plot(
                [1.0, middle], [place, place], color=palette.PALE, lw=7, solid_capstyle="butt"
            )
            axis.plot([low, high], [place, place], color=palette.DEEP_BLUE, lw=1.5)
            axis.plot(middle, place, "o", color=palette.DEEP_BLUE, ms=5)
            axis.annotate(
                f"{middle:,.0f}" if middle >= 10.0 else f"{middle:.1f}",
                (max(high, middle), place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
            )
        axis.axvline(1.0, color=palette.INK, lw=0.8)
        axis.set_yticks(places, [name for name, *_ in bars])
        axis.set(xscale="log", xlabel="times faster than the straightforward method")
        axis.set_xlim(0.5, 5.0 * max(high for *_, high in bars))

    return _draw(bars, (7.2, 0.6 + 0.3 * len(bars)), (1, 1), plot)


def draw_growth(curves) -> str:
    """A panel for each group of curves, with fitted slopes."""
    panels: dict[str, list] = {}
    for curve in curves:
        panels.setdefault(curve["panel"], []).append(curve)
    columns = min(2, max(1, len(panels)))
    rows = -(-len(panels) // columns)

    def plot(axes):
        for axis in axes[len(panels) :]:
            axis.set_axis_off()
        for axis, (name, some) in zip(axes, panels.items(), strict=False):
            for color, curve in zip(COLORS, some, strict=False):
                sizes, seconds = np.array(curve["sizes"]), np.array(curve["seconds"])
                slope, start = np.polyfit(np.log(sizes), np.log(seconds), 1)
                axis.plot(sizes, seconds, "o", color=color, ms=4)
                fitted = np.exp(start + slope * np.log(sizes))
                axis.plot(sizes, fitted, color=color, lw=1.2)
                axis.annotate(
                    f"{curve['label']}, slope {slope:.1f}",
                    (sizes[-1], fitted[-1]),
                    xytext=(5, 0),
                    textcoords="offset points",
                    va="center",
                    color=color,
                )
            axis.set(xscale="log", yscale="log", title=name, xlabel=some[0]["over"])
            axis.set_xticks(some[0]["sizes"], [f"{size:,.0f}" for size in some[0]["sizes"]])
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_ylabel("seconds")
            axis.set_xlim(None, axis.get_xlim()[1] * 6.0)

    return _draw(curves, (4.8 * columns, 3.2 * rows), (rows, columns), plot)


def draw_bounds(rows) -> str:
    """Median, 95th percentile and largest ratio of each bound to the best attack."""

    def plot(axes):
        axis, places = axes[0], np.arange(len(rows))[::-1]
        for place, (_, median, most, largest) in zip(places, rows, strict=True):
            axis.plot([median, largest], [place, place], color=palette.PALE, lw=2)
            axis.plot([median, most], [place, place], color=palette.DEEP_BLUE, lw=4)
            axis.plot(median, place, "o", color=palette.DEEP_BLUE, ms=6)
        axis.axvline(1.0, color=palette.INK, lw=0.8)
        axis.set_yticks(places, [name for name, *_ in rows])
        axis.set(xscale="log", xlabel="bound / best attack: median, to 95 %, to the largest")
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())

    return _draw(rows, (7.2, 0.8 + 0.32 * len(rows)), (1, 1), plot)


def draw_peers(panels) -> str:
    """Curves of several libraries over epsilon, a false positive rate, or whatever they share."""

    def plot(axes):
        for axis, panel in zip(axes, panels, strict=True):
            for color, curve in zip(COLORS, panel["curves"], strict=False):
                axis.plot(curve["x"], curve["y"], "o-", color=color, ms=4, label=curve["label"])
                if "low" in curve:
                    axis.fill_between(
                        curve["x"], curve["low"], curve["high"], color=color, alpha=0.15, lw=0
                    )
            axis.set(title=panel["title"], xlabel=panel["x"], ylabel=panel["y"])
            axis.set_xscale(panel.get("scale", "log"))
            axis.legend(frameon=False)

    return _draw(panels, (4.8 * len(panels), 3.2), (1, len(panels)), plot)
