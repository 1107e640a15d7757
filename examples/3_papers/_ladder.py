"""The figures of [FANO23]: bounds over the noise, and Fano's bound over the information."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skleak.bounds import (
    closed_form_fano_advantage,
    fano_advantage,
    information_projection_advantage,
    renyi_fano_advantage,
)

INK, GRAY, GREEN, BLUE, SKY = "#1b2430", "#8a8f98", "#009e73", "#0072b2", "#56b4e9"
YELLOW, VERMILION, PURPLE = "#e69f00", "#d55e00", "#b8578f"
DASHED, DOTTED, DASH_DOT = (0, (4.0, 2.0)), (0, (1.0, 1.6)), (0, (6.0, 2.0, 1.0, 2.0))
STROKES = ("-", DASHED, DOTTED, DASH_DOT)
# Families by color, members by stroke (Okabe and Ito: told apart by color-blind readers).
STYLES = {
    "Bayes": (INK, "-"),
    "trade-off": (GREEN, "-"),
    "Fano": (BLUE, "-"),
    "Fano, exact information": (BLUE, "-"),
    "information projection": (SKY, "-"),
    "closed-form Fano": (GRAY, DASHED),
    "Fano, information bound": (SKY, DASH_DOT),
    "Fano, order 1": (YELLOW, "-"),
    "generalized Fano": (YELLOW, DASHED),
    "reconstruction robustness": (VERMILION, "-"),
}


def fano_curves(sizes, orders=(2.0, 8.0)):
    """Advantage that Fano's bound and its relatives allow, over the information in nats.

    Returns a DataFrame with a column for each number of values and bound.
    """
    levels = np.geomspace(0.01, 1.5 * np.log(float(max(sizes))), 240)
    curves = {}
    for size in sizes:
        exponent = round(np.log10(float(size)))
        name = f"$M = 10^{{{exponent}}}$" if exponent > 4 else f"M = {size}"
        curves[name, "Fano"] = fano_advantage(levels, size)
        curves[name, "information projection"] = information_projection_advantage(levels, size)
        curves[name, "closed-form Fano"] = closed_form_fano_advantage(levels, size)
        for order in orders:
            bound = renyi_fano_advantage(levels, order, size, refine=False)
            curves[name, f"Rényi-Fano, order {order:g}"] = bound
    return pd.DataFrame(curves, index=levels)


def equal_curves(tables):
    """Group the columns that are equal in all tables, under the first of each."""
    groups = {}
    for name in sorted(tables[0], key=lambda name: name != "Bayes"):
        for leader in groups:
            if all(np.allclose(t[name], t[leader], rtol=0.0, atol=1e-3) for t in tables):
                groups[leader].append(name)
                break
        else:
            groups[name] = [name]
    return groups


def finish(ax, levels, legend=True):
    """Scale the axes, and put the legend beside the data."""
    if levels.min() > 0.0 and np.median(levels) < (levels.min() + levels.max()) / 4.0:
        ax.set_xscale("log")
    ax.margins(x=0.0)
    ax.set_ylim(0.0, 1.02)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=GRAY, alpha=0.2, lw=0.6)
    if legend:
        ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.02, 0.5))


def plot_ladder(ax, table, title, noise="noise scale", legend=True):
    """Draw the advantage of each bound over the noise, the highest first in the legend."""
    groups = equal_curves([table])
    spare = iter([(PURPLE, stroke) for stroke in STROKES])
    order = table[list(groups)].mean().sort_values(ascending=False).index
    for bound in order:
        color, stroke = STYLES[bound] if bound in STYLES else next(spare)
        # The attacker is a broad line below: a bound that touches it stays visible.
        width, layer = (3.4, 2.5) if bound == "Bayes" else (1.7, 3.0)
        label = "\n= ".join(groups[bound])
        ax.plot(table[bound], color=color, ls=stroke, lw=width, zorder=layer, label=label)
    ax.fill_between(table.index, 0.0, table["Bayes"], color=INK, alpha=0.07, lw=0.0)
    ax.set_xlabel(noise)
    ax.set_ylabel("advantage over guessing")
    ax.set_title(title, fontsize="medium")
    finish(ax, table.index.to_numpy(), legend)


def plot_fano_panels(curves):
    """Draw a panel for each number of values."""
    sizes = curves.columns.unique(0)
    width = 2.0 + 2.6 * len(sizes)
    _, axes = plt.subplots(1, len(sizes), figsize=(width, 3.4), sharey=True, layout="constrained")
    spare = iter([(PURPLE, stroke) for stroke in STROKES])
    for bound, members in equal_curves([curves[size] for size in sizes]).items():
        color, stroke = STYLES[bound] if bound in STYLES else next(spare)
        for ax, size in zip(axes, sizes, strict=True):
            label = "\n= ".join(members)
            ax.plot(curves[size][bound], color=color, ls=stroke, lw=1.7, label=label)
    for ax, size in zip(axes, sizes, strict=True):
        ax.set(xlabel="information (nats)", title=size)
        finish(ax, curves.index.to_numpy(), legend=ax is axes[-1])
    axes[0].set_ylabel("advantage over guessing")


def plot_fano_together(ax, curves, bounds):
    """Draw all numbers of values in one panel: a color for each, a stroke for each bound."""
    sizes = curves.columns.unique(0)
    for size, place in zip(sizes, np.linspace(0.0, 0.82, len(sizes)), strict=True):
        color = plt.colormaps["viridis"](place)
        ax.plot([], [], color=color, lw=4.0, label=size)
        for bound, stroke in zip(bounds, STROKES, strict=False):
            ax.plot(curves[size][bound], color=color, ls=stroke, lw=1.7)
    for bound, stroke in zip(bounds, STROKES, strict=False):
        ax.plot([], [], color=INK, ls=stroke, lw=1.7, label=bound)
    ax.set(xlabel="information (nats)", ylabel="advantage over guessing")
    finish(ax, curves.index.to_numpy())
