"""What the displays of bounds share: one colour and stroke for each bound, checks, axes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.utils._typing import FloatArray

__all__ = [
    "ADVANTAGE",
    "BAYES",
    "INK",
    "STROKES",
    "STYLES",
    "check_names",
    "check_table",
    "curve_styles",
    "distinct_curves",
    "legend_beside",
    "scale_axes",
    "tidy_axes",
]

BAYES = "Bayes"

# Families by colour (Okabe and Ito: told apart by colour-blind readers), members by stroke.
INK, _GRAY, _PURPLE = "#1b2430", "#8a8f98", "#b8578f"
_GREEN, _BLUE, _SKY, _ORANGE, _RED = "#009e73", "#0072b2", "#56b4e9", "#e69f00", "#d55e00"
_DASHED, _DOTTED, _DASH_DOT = (0, (4.0, 2.0)), (0, (1.0, 1.6)), (0, (6.0, 2.0, 1.0, 2.0))
STROKES = ("-", _DASHED, _DOTTED, _DASH_DOT)
STYLES: dict[str, tuple[str, Any]] = {
    BAYES: (INK, "-"),
    "trade-off": (_GREEN, "-"),
    "Gaussian differential privacy": (_GREEN, _DASHED),
    "differential privacy": (_GREEN, _DASHED),
    "Fano": (_BLUE, "-"),
    "Fano, exact information": (_BLUE, "-"),
    "information projection": (_SKY, "-"),
    "closed-form Fano": (_GRAY, _DASHED),
    "Fano, pairwise information bound": (_BLUE, _DASHED),
    "Fano, information bound": (_SKY, _DASH_DOT),
    "Fano, order 1": (_ORANGE, "-"),
    "generalized Fano": (_ORANGE, _DASHED),
    "Rényi projection": (_ORANGE, _DOTTED),
    "reconstruction robustness": (_RED, "-"),
}
ADVANTAGE = "advantage over guessing"
# Curves this close are one: equal in theory, computed by different roots.
_SAME = 1e-7


def check_table(advantages: pd.DataFrame, what: str) -> pd.DataFrame:
    """Copy a table of advantages over levels, or say what is wrong with it."""
    table = pd.DataFrame(advantages, dtype=float, copy=True)
    if table.empty:
        raise ValueError("`advantages` must hold at least one level and one bound; got none.")
    levels = np.asarray(table.index, dtype=float)
    if not np.all((levels >= 0.0) & np.isfinite(levels)):
        raise ValueError(
            f"The index of `advantages`, the {what}, must be finite and not negative; got "
            f"{levels.min():g} to {levels.max():g}."
        )
    values = table.to_numpy()
    if not np.all((values >= -1e-9) & (values <= 1.0 + 1e-9)):
        raise ValueError(
            f"`advantages` must lie in [0, 1]; got {values.min():g} to {values.max():g}. Pass "
            "success probabilities through `skleak.bounds.success_to_advantage`."
        )
    return table.set_axis(levels)


def check_names(asked: Sequence[str] | None, names: Iterable[str]) -> list[str]:
    """Names of the bounds to draw: those asked for, or all."""
    known = list(names)
    if asked is None:
        return known
    unknown = [name for name in asked if name not in known]
    if unknown or not len(asked):
        raise ValueError(
            f"`bounds` must name some of {', '.join(map(repr, known))}; got {list(asked)!r}."
        )
    return list(asked)


def distinct_curves(tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Labels of the bounds that differ somewhere; equal ones are named in the label of one."""
    groups: dict[str, list[str]] = {}
    names = next(iter(tables.values())).columns
    for name in sorted(names, key=lambda name: name != BAYES):  # whatever equals Bayes is Bayes
        for leader in groups:
            gaps = [np.abs(table[name] - table[leader]).max() for table in tables.values()]
            if max(gaps) <= _SAME:
                groups[leader].append(name)
                break
        else:
            groups[name] = [name]
    return {leader: "\n= ".join(members) for leader, members in groups.items()}


def curve_styles(bounds: Iterable[str]) -> dict[str, tuple[str, Any]]:
    """Colour and stroke of each bound; those without a style of their own share a colour."""
    styles: dict[str, tuple[str, Any]] = {}
    spare = 0
    for bound in bounds:
        if bound in STYLES:
            styles[bound] = STYLES[bound]
        else:
            styles[bound] = (_PURPLE, STROKES[spare % len(STROKES)])
            spare += 1
    return styles


def scale_axes(ax: Any, levels: FloatArray) -> None:
    """Scale the axes: logarithmic where levels crowd at the low end, advantages from 0 to 1."""
    if levels.min() > 0.0 and np.median(levels) < (levels.min() + levels.max()) / 4.0:
        ax.set_xscale("log")
    ax.margins(x=0.0)
    ax.set_ylim(0.0, 1.02)


def legend_beside(ax: Any) -> None:
    """Put the legend to the right of the data."""
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize="small")


def tidy_axes(ax: Any) -> None:
    """Leave out what shows nothing; a pale grid behind the curves."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=_GRAY, alpha=0.2, lw=0.6)
