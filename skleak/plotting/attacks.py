"""Attacks over the noise."""

import hashlib
import html
import io
import math
import re
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

import skleak.plotting.labels as palette
from skleak.plotting.labels import INK, ON_DARK, attack_label, number, shorten
from skleak.utils._typing import FloatArray

Style = TypeVar("Style")
BAYES = "Bayes"
_DASHED, _DOTTED, _DASH_DOT = (0, (4.0, 2.0)), (0, (1.0, 1.6)), (0, (6.0, 2.0, 1.0, 2.0))
STROKES = ("-", _DASHED, _DOTTED, _DASH_DOT)
# Bounds: families by color, members by stroke; those without a style of their own share a color.
OTHER_BOUNDS = [(palette.PURPLE, stroke) for stroke in STROKES]
BOUND_STYLES: dict[str, tuple[str, Any]] = {
    BAYES: (palette.INK, "-"),
    "trade-off": (palette.GREEN, "-"),
    "Gaussian differential privacy": (palette.GREEN, _DASHED),
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


def styled(
    names: Iterable[str], known: Mapping[str, Style], spare: Sequence[Style]
) -> dict[str, Style]:
    """Give each name its style; those that have none get the spare ones in turn."""
    others = cycle(spare)
    return {name: known[name] if name in known else next(others) for name in names}


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


class Display:
    """Numbers that are drawn."""

    # Rows and columns of the Axes of `plot`, size of the figure, and further options.
    _layout: Any = (1, 1), (7.0, 4.0), {}

    def _finish(self, ax: Any, title: str | None = None, *, legend: bool = True) -> Self:
        """Put title and legend on the Axes of a display, and keep these."""
        if title is not None:
            ax.set_title(title, fontsize="medium", parse_math=False)
        if legend:
            legend_of_names(ax)
        tidy_axes(ax)
        return self._keep(ax)

    def _keep(self, ax: Any) -> Self:
        self.ax_, self.figure_ = ax, ax.figure
        return self


_NAME_WIDTH = 34


class Mark(NamedTuple):
    """Style of an attack in a figure: bounds have strokes, attacks have markers."""

    color: str
    marker: str


class Scale(NamedTuple):
    """Range of an axis; what lies beyond is drawn at its edge."""

    low: float
    high: float

    def squeeze(self, values: Any) -> FloatArray:
        """Move values into the range, those beyond to its edge; NaN stays NaN."""
        return np.clip(np.asarray(values, dtype=float), self.low, self.high)


_STYLES = {
    "white_box": Mark(palette.RUST, "o"),
    "black_box": Mark(palette.INDIGO, "s"),
    "informed": Mark(palette.FOREST, "D"),
    "posterior_mean": Mark(palette.FOREST, "D"),
    "imputation": Mark(palette.BROWN, "^"),
    "prior": Mark(palette.SLATE, "v"),
    # Not an attack that was played, but what the best one reaches.
    "bayes": Mark(palette.INK, "d"),
    "bayes_mse": Mark(palette.INK, "d"),
    "cramer_rao": Mark(palette.INK, "d"),
}
_SPARE = [Mark(*pair) for pair in zip(palette.SPARE, "PXph", strict=True)]


def attack_styles(names: Iterable[str]) -> dict[str, Mark]:
    """Give each attack its color and marker; a user's own get the spare ones in turn."""
    return styled(names, _STYLES, _SPARE)


def label_of(name: Any) -> str:
    """Name an attack for a legend; matplotlib would leave out one that starts with "_"."""
    label = shorten(attack_label(name), _NAME_WIDTH)
    return f" {label}" if label.startswith("_") else label


def is_logarithmic(levels: FloatArray) -> bool:
    """Return True if positive levels span a decade and crowd at its low end."""
    positive = levels[levels > 0.0]
    if len(positive) < 2 or positive.max() < 9.99 * positive.min():
        return False
    middle = (positive.min() + positive.max()) / 2.0
    return len(positive) == 2 or bool(np.median(positive) < 0.75 * middle)


def noise_axis(ax: Any, levels: FloatArray) -> None:
    """Scale the axis of the noise; noise 0 stands left of a logarithmic axis, which goes on."""
    if is_logarithmic(levels):
        if levels.min() > 0.0:
            ax.set_xscale("log")
        else:
            smallest = float(levels[levels > 0.0].min())
            ax.set_xscale("symlog", linthresh=smallest, linscale=0.6)
        plain_ticks(ax.xaxis)
    else:
        ax.locator_params(axis="x", nbins=5)
    ax.margins(x=0.03)


# The style of matplotlib is one for all threads: a figure of a page is drawn under its own.
_STYLE = threading.Lock()
_COLORS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "skleak"} | dict.fromkeys(_COLORS, INK)
# Size in pixels below which no letter is shown.
_LEGIBLE = 9.0
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def inline_svg(display: Any, title: str, description: str) -> str:
    """Draw a display on a figure of its own, and return it as SVG for the inside of a page.

    No figure stays open and pyplot is not asked. The same numbers give the same bytes.

    Parameters
    ----------
    display : object
        A display of this package.
    title, description : str
        For those who do not see the figure: its name, and what it shows.

    Returns
    -------
    str
        One ``svg`` element, which refers to nothing outside of it.

    Examples
    --------
    >>> from skleak.plotting import LeakageDisplay
    >>> display = LeakageDisplay([0.1, 0.2, 0.2, 0.4])
    >>> inline_svg(display, "Leakage", "Losses of four records.")[:31]
    '<svg role="img" aria-label="Lea'
    """
    from matplotlib import rc_context, style
    from matplotlib.figure import Figure

    shape, size, options = display._layout
    with _STYLE, style.context("default"), rc_context(_SETTINGS), warnings.catch_warnings():
        # The reader's fonts have letters that those here may lack.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Figure(figsize=size, layout="constrained")
        display.plot(figure.subplots(*shape, **options))
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata=_NO_METADATA)
    return _for_a_page(drawn.getvalue(), title, description)


def _for_a_page(svg: str, title: str, description: str) -> str:
    """Strip what reaches beyond the figure: names of formats, styles, fonts and clashing ids."""
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box is not None
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.S)
    used = sorted(set(re.findall(r'(?:href="|url\()#([^")]+)', body)))
    mark = hashlib.sha256((title + body).encode()).hexdigest()[:10]
    names = {name: f"f{mark}-{k}" for k, name in enumerate(used)}
    # What stands between tags are the words and numbers of the figure, and stays as it is.
    body = re.sub(r"<[^>]+>", lambda tag: _tag_for_a_page(tag[0], names), body)
    title, description = html.escape(title), html.escape(description)
    # The page sets the width, but for a page so narrow that the letters could not be read.
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", body)]
    width = math.ceil(float(box[1].split()[2]) * _LEGIBLE / min(sizes, default=_LEGIBLE))
    return (
        f'<svg role="img" aria-label="{title}" viewBox="{box[1]}" style="min-width:{width}px">'
        f"<title>{title}</title><desc>{description}</desc>{body.strip()}"
    )


def _tag_for_a_page(tag: str, names: dict[str, str]) -> str:
    """Rename what is referred to, and let the page choose fonts and colors."""
    tag = re.sub(r" font-family: [^;\"]*;?", "", tag.replace("xlink:href", "href"))
    tag = re.sub(r"font: [a-z ]*([\d.]+px)[^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r' id="([^"]*)"', lambda m: f' id="{names[m[1]]}"' if m[1] in names else "", tag)
    tag = re.sub(r'((?:href="|url\()#)([^")]+)', lambda m: m[1] + names[m[2]], tag)
    for color in ON_DARK:
        tag = tag.replace(f": {color}", f": var(--c-{color[1:]}, {color})")
    # Coordinates need no more than a hundredth of a point, and no line of their own.
    return " ".join(re.sub(r"(\.\d\d)\d+", r"\1", tag).split())
