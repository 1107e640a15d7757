"""What the displays share: a colour and stroke for each bound, checks, axes."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, TypeVar

import numpy as np
import pandas as pd

import skleak.plotting.palette as palette
from skleak.plotting.labels import number
from skleak.plotting.palette import INK
from skleak.utils._typing import FloatArray

Style = TypeVar("Style")

BAYES = "Bayes"
_DASHED, _DOTTED, _DASH_DOT = (0, (4.0, 2.0)), (0, (1.0, 1.6)), (0, (6.0, 2.0, 1.0, 2.0))
STROKES = ("-", _DASHED, _DOTTED, _DASH_DOT)
# Families by colour, members by stroke.
STYLES: dict[str, tuple[str, Any]] = {
    BAYES: (INK, "-"),
    "trade-off": (palette.GREEN, "-"),
    "Gaussian differential privacy": (palette.GREEN, _DASHED),
    "differential privacy": (palette.GREEN, _DASHED),
    "Fano": (palette.DEEP_BLUE, "-"),
    "Fano, exact information": (palette.DEEP_BLUE, "-"),
    "information projection": (palette.SKY, "-"),
    "closed-form Fano": (palette.GRAY, _DASHED),
    "Fano, pairwise information bound": (palette.DEEP_BLUE, _DASHED),
    "Fano, information bound": (palette.SKY, _DASH_DOT),
    "Fano, order 1": (palette.YELLOW, "-"),
    "generalized Fano": (palette.YELLOW, _DASHED),
    "Rényi projection": (palette.YELLOW, _DOTTED),
    "reconstruction robustness": (palette.VERMILION, "-"),
}
ADVANTAGE = "advantage over guessing"


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


def check_some(what: str, asked: Sequence[str] | None, names: Iterable[str]) -> list[str]:
    """Return those asked for, or all; ``what`` is the name of the argument."""
    known = list(names)
    if asked is None:
        return known
    asked = [asked] if isinstance(asked, str) else list(asked)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise ValueError(
            f"`{what}` must name some of {', '.join(map(repr, known)) or 'none'}; got {asked!r}."
        )
    return list(dict.fromkeys(asked))


def new_axes(
    ax: Any, size: tuple[float, float], shape: tuple[int, int] = (1, 1), **options: Any
) -> Any:
    """Return the Axes that were given, or those of a new figure of pyplot."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(*shape, figsize=size, layout="constrained", **options)[1]


def panels(ax: Any, allowed: tuple[int, ...], what: str) -> list[Any]:
    """Return Axes as a list, or say how many are needed."""
    axes = list(np.ravel(np.array(ax, dtype=object)))
    if len(axes) not in allowed:
        raise ValueError(f"`ax` must be {what}; got {len(axes)} Axes.")
    return axes


def curve_styles(bounds: Iterable[str]) -> dict[str, tuple[str, Any]]:
    """Give each bound its colour and stroke; those without a style of their own share a colour."""
    return styled(bounds, STYLES, [(palette.PURPLE, stroke) for stroke in STROKES])


def styled(
    names: Iterable[str], known: Mapping[str, Style], spare: Sequence[Style]
) -> dict[str, Style]:
    """Give each name its style; those that have none get the spare ones in turn."""
    others = cycle(spare)
    return {name: known[name] if name in known else next(others) for name in names}


def scale_axes(ax: Any, levels: FloatArray) -> None:
    """Scale the axes: logarithmic where levels crowd at the low end, advantages from 0 to 1."""
    if levels.min() > 0.0 and np.median(levels) < (levels.min() + levels.max()) / 4.0:
        ax.set_xscale("log")
    ax.margins(x=0.0)
    ax.set_ylim(0.0, 1.02)


def plain_ticks(axis: Any) -> None:
    """Write the powers of ten of a logarithmic axis as numbers, and nothing between them."""
    axis.set_major_formatter(lambda value, _: number(value))
    axis.set_ticks([], minor=True)


def legend_of_names(
    ax: Any, handles: Sequence[Any] | None = None, *, beside: bool = True, math: bool = False
) -> None:
    """Put a legend beside the data, or where it fits; a dollar sign in a name is no formula."""
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    place = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)} if beside else {"loc": "best"}
    legend = ax.legend(handles=handles, frameon=False, fontsize="small", **place)
    for text in legend.get_texts():
        text.set_parse_math(math)


def tidy_axes(ax: Any) -> None:
    """Leave out what shows nothing; a pale grid behind the curves."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=palette.GRAY, alpha=0.2, lw=0.6)
    ax.set_axisbelow(True)


def finish(display: Any, ax: Any, title: str | None = None) -> None:
    """Put title and legend on the only Axes of a display, and keep these."""
    if title is not None:
        ax.set_title(title, fontsize="medium", parse_math=False)
    legend_of_names(ax)
    tidy_axes(ax)
    display.ax_, display.figure_ = ax, ax.figure
