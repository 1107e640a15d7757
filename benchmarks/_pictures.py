"""The two pictures of the README, for light and for dark pages, from what a benchmark kept."""

import hashlib
import io
import json

import numpy as np
from matplotlib import rc_context, style
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from skleak.plotting import labels as palette

SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "skleak", "font.size": 10.0}
SETTINGS |= {"axes.spines.top": False, "axes.spines.right": False}
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
COLORS = (palette.RUST, palette.INK, palette.GREEN, palette.DEEP_BLUE, palette.VERMILION)
COLORS += (palette.SLATE,)


def draw_pictures(pictures: dict) -> dict[str, str]:
    """SVG by the name of the file."""
    drawn = {"audit": (_audit, (7.4, 4.6), (2, 1)), "people": (_people, (7.4, 2.9), (1, 1))}
    return {
        f"{name}-{ground}.svg": _draw(pictures[name], dark, *how)
        for name, how in drawn.items()
        if name in pictures
        for ground, dark in (("light", False), ("dark", True))
    }


def _draw(numbers, dark, plot, size, shape) -> str:
    def color(name):
        return palette.ON_DARK.get(name, name) if dark else name

    inked = dict.fromkeys(INKED, color(palette.INK))
    with style.context("default"), rc_context(SETTINGS | inked):
        figure = Figure(figsize=size, layout="constrained")
        ratios = {"height_ratios": [3, 1]} if shape[0] == 2 else {}
        plot(figure.subplots(*shape, squeeze=False, **ratios).ravel(), numbers, color)
        drawn = io.StringIO()
        digest = hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:16]
        metadata = {"Date": None, "Creator": None, "Description": digest}
        figure.savefig(drawn, format="svg", transparent=True, metadata=metadata)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines()) + "\n"


def _audit(axes, numbers, color):
    """Success of attack, optimum and bounds over the noise, above what the noise costs."""
    above, below, noise = *axes, np.array(numbers["x"])
    for curve, name in zip(numbers["curves"], COLORS, strict=True):
        if curve.get("kind") == "attack":
            low, success = np.array(curve["low"]), np.array(curve["y"])
            spread = [success - low, np.array(curve["high"]) - success]
            above.errorbar(
                noise, success, spread, fmt="o", ms=6, color=color(name), label=curve["label"]
            )
            continue
        drawn = {"ls": "--"} if curve["label"].startswith("guess") else {}
        if curve["label"].startswith("trade-off"):  # it lies on the best attack: wider, beneath
            drawn = {"alpha": 0.45, "zorder": 1.5}
        wide = 5.0 if "alpha" in drawn else 1.6
        above.plot(noise, curve["y"], color=color(name), lw=wide, label=curve["label"], **drawn)
    above.set(xscale="log", xticklabels=[], ylim=(0.0, 1.05))
    above.set_ylabel("patients whose\ngene is named")
    above.yaxis.set_major_formatter(PercentFormatter(1.0))
    above.legend(frameon=False, loc="upper right", fontsize=9)
    below.plot(noise, numbers["utility"][0]["y"], "o-", color=color(palette.DEEP_BLUE), ms=4)
    below.set(xscale="log", ylim=(0.0, None), ylabel="R²")
    below.set_xlabel("noise on the coefficients (standard deviation)")


def _people(axes, numbers, color):
    """Histograms of what every patient loses, and the patient who loses most."""
    axis = axes[0]
    names = (palette.VERMILION, palette.SLATE, palette.DEEP_BLUE)
    top = max(max(curve["counts"]) for curve in numbers["curves"])
    for k, (curve, name) in enumerate(zip(numbers["curves"], names, strict=True)):
        edges, counts = np.array(curve["edges"]), np.array(curve["counts"])
        axis.stairs(counts, edges, fill=True, color=color(name), alpha=0.35)
        axis.stairs(counts, edges, color=color(name), lw=1.2, label=curve["label"])
        height = top * (0.36 + 0.13 * k)
        axis.plot([curve["largest"]] * 2, [0.0, height], color=color(name), lw=1.2)
        axis.annotate(
            f"most exposed: {curve['largest']:.3g}",
            (curve["largest"], height),
            xytext=(4, -3),
            textcoords="offset points",
            color=color(name),
            fontsize=9,
        )
    axis.set(xscale="log", xlabel="Fisher information loss of a patient", ylabel="patients")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlim(None, 2.5 * max(curve["largest"] for curve in numbers["curves"]))
    axis.legend(title="noise", frameon=False, loc="upper right", fontsize=9)
