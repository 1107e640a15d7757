"""What displays share: numbers derived once, axes, styles, and SVG for a page."""

import hashlib
import html
import io
import math
import re
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

import skleak.plotting.labels as palette
from skleak.plotting.labels import INK, ON_DARK, attack_label, number, shorten
from skleak.utils._records import flat_labels
from skleak.utils._summaries import counted_quantiles
from skleak.utils._typing import Array, FloatArray, IntArray

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
# Losses this close are tied: equal in theory, computed in another order.
_SAME = 1e-9
# Where the largest loss is this many times the median, equal bins would hold all in the first.
_HEAVY_TAIL = 30.0
# Decades below the largest loss that a logarithmic axis shows.
_N_DECADES = 6
# Losses closer than this, relative to the largest, are equal for the eye.
_EQUAL = 1e-3


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


class TradeoffDisplay(Display):
    """Plot of test score against largest loss, a line for each way of training.

    The tables are ``curves_``, ``ways_`` and ``groups_`` of a `LeakageTradeoff`.
    """

    def __init__(self, curves: pd.DataFrame, ways: pd.DataFrame, groups: pd.DataFrame) -> None:
        self.curves, self.ways, self.groups = curves, ways, groups
        if len(groups):
            self._layout = (1, 2), (11.0, 4.0), {}

    def plot(self, ax: Any = None) -> Self:
        """Draw the lines and, on a second Axes, the means of groups; one Axes has the lines."""
        (shape, size, options) = self._layout
        axes = panels(new_axes(ax, size, shape, **options), (1, 2), "one Axes or two")
        colors = styled(self.ways.index, {}, _WAYS)
        for name, line in self.curves.groupby("way", sort=False):
            axes[0].plot(line["largest_loss"], line["test_score"], color=colors[name], lw=1.2)
        for name, way in self.ways.iterrows():
            style = {"color": colors[name], "label": label_of(name), "zorder": 3}
            axes[0].plot(way["largest_loss"], way["test_score"], "o", **style)
        axes[0].set(xscale="log", xlabel="largest loss of a person", ylabel="test score")
        plain_ticks(axes[0].xaxis)
        if len(axes) == 2 and len(self.groups):
            means = self.groups["mean_loss"].unstack("way")[list(self.ways.index)]
            for name, column in means.items():
                axes[1].plot(column, np.arange(len(means)), "o", color=colors[name])
            labels = [shorten(label, _NAME_WIDTH) for label in means.index]
            axes[1].set_yticks(np.arange(len(means)), labels=labels, parse_math=False)
            axes[1].set(xlabel="mean loss of a group", xlim=(0.0, None))
            tidy_axes(axes[1])
        legend_of_names(axes[0], beside=False)
        tidy_axes(axes[0])
        return self._keep(axes[0])


_WAYS = (palette.INK, palette.ORANGE, palette.PURPLE, palette.BLUE, palette.GREEN, *palette.SPARE)


def group_axes(ax: Any, table: pd.DataFrame, overall: FloatArray, name: str) -> Any:
    """Draw a column of a table by group with its ends, where it has any, and all as ticks.

    Shapes: ``table`` (n_groups, ...), with ``n_records``; ``overall`` (n_groups,).
    """
    ax = new_axes(ax, (7.0, 1.2 + 0.35 * len(table)))
    places, values = np.arange(len(table)), table[name].to_numpy(dtype=float)
    if f"{name}_low" in table:
        ends = table[[f"{name}_low", f"{name}_high"]].to_numpy(dtype=float).T
        known = np.isfinite(ends).all(axis=0)  # of one record nothing is known
        ax.hlines(places[known], *ends[:, known], color=palette.GRAY)
    ax.plot(values, places, "o", color=palette.DEEP_BLUE, label="group")
    ax.plot(overall, places, "|", color=palette.INK, ms=14, label="all")
    named = zip(flat_labels(table.index.to_numpy()), table["n_records"], strict=True)
    texts = [f"{shorten(str(label), _NAME_WIDTH)} ({n})" for label, n in named]
    ax.set_yticks(places, texts, parse_math=False)
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.set_xlabel(name.replace("_", " "), parse_math=False)
    legend_of_names(ax)
    tidy_axes(ax)
    return ax


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


def counts_success(audit: Any) -> bool:
    """Return True if guesses are right or wrong, rather than numbers off by an error."""
    return audit.kind in ("categorical", "membership")


def middle_noise(audit: Any) -> float:
    """Return the noise scale in the middle of those with records, preferring noise above zero.

    Returns: NaN where there are no records.
    """
    scales = np.unique(audit.records["noise_scale"].to_numpy(dtype=float))
    if np.any(scales > 0.0):
        scales = scales[scales > 0.0]
    return float(scales[(len(scales) - 1) // 2]) if len(scales) else np.nan


def grouped(audit: Any, noise: float, risk: str, n_groups: int) -> pd.DataFrame:
    """Return records in groups of rising risk, a column of the records ([FIL21] figure 7).

    Returns: as of `group_records`: means of ``bayes`` and every ``success_<attack>``, or medians of
    ``cramer_rao`` and every ``mse_<attack>`` over the error of the prior guess about the same
    record; of a number over the variance of its prior. Without columns that are known of no record.
    """
    at = audit.records[audit.records["noise_scale"] == noise]
    known, guesses = at.dropna(axis=1, how="all"), counts_success(audit)
    start, best = ("success_", "bayes") if guesses else ("mse_", "cramer_rao")
    names = [name for name in known if name == best or str(name).startswith(start)]
    values = known[names].astype(float)
    if not guesses:
        prior = at["prior_variance" if "share_at_most" in known else "prior"].astype(float)
        values = values.div(prior.where(prior > 0.0), axis=0)
    return group_records(at[risk], values, n_groups, "mean" if guesses else "median")


def group_records(
    eta: npt.ArrayLike,
    values: Mapping[str, npt.ArrayLike] | pd.DataFrame,
    n_groups: int,
    statistic: Literal["mean", "median"] = "mean",
) -> pd.DataFrame:
    """Means or medians of groups of equal size by the rank of a loss.

    Shapes: ``eta`` (n_records,); ``values`` (n_records,); returns (n_groups, 2 + n_values): index
    ``group`` from 1, the least exposed first: ``n_records``, ``eta`` (mean) and the values, NaN
    where they are known of no record of a group.

    Groups differ in size by one record at most. Tied records are shared out equally among the
    groups they span, so that the order of the records never shows.
    """
    loss = np.asarray(eta, dtype=float)
    if loss.ndim != 1:
        raise ValueError(f"`eta` must hold one number per record; got shape {loss.shape}.")
    known = ~np.isnan(loss)
    if isinstance(n_groups, bool) or int(n_groups) != n_groups or not 1 <= n_groups <= known.sum():
        raise ValueError(
            f"`n_groups` must be a whole number from 1 to the {known.sum()} records whose Fisher "
            f"information loss is known; got {n_groups!r}."
        )
    if np.any(loss[known] < 0.0):
        raise ValueError(f"`eta` must not be negative; got {loss[known].min():g}.")
    order = np.flatnonzero(known)[np.argsort(loss[known], kind="stable")]
    ordered = loss[order]
    groups = np.array_split(np.arange(len(order)), int(n_groups))
    shares = _shares(ordered, groups)
    columns: dict[str, Any] = {
        "n_records": [len(group) for group in groups],
        "eta": [np.mean(ordered[group]) for group in groups],
    }
    typical = _median if statistic == "median" else _mean
    for name, each in values.items():
        value = np.asarray(each, dtype=float)
        if value.shape != loss.shape:
            raise ValueError(
                f"The values of {name!r} must have one number per record, shape {loss.shape}; got "
                f"shape {value.shape}."
            )
        columns[str(name)] = [typical(value[order], share) for share in shares]
    return pd.DataFrame(columns, index=pd.RangeIndex(1, int(n_groups) + 1, name="group"))


def _shares(ordered: FloatArray, groups: Sequence[Array]) -> FloatArray:
    """Share of each record in each group over random orders of ties, (n_groups, n_records)."""
    with np.errstate(invalid="ignore"):
        apart = np.diff(ordered) > _SAME * ordered[1:]
    # An infinite loss is apart from a finite one, and tied with an infinite one.
    apart = np.where(np.isinf(ordered[1:]), np.isfinite(ordered[:-1]), apart)
    ties = np.concatenate([[0], np.cumsum(apart)])
    sizes = np.bincount(ties)
    inside = [np.bincount(ties[group], minlength=len(sizes)) / sizes for group in groups]
    return np.stack(inside)[:, ties]


def _mean(values: FloatArray, shares: FloatArray) -> float:
    used = (shares > 0.0) & ~np.isnan(values)
    return float(np.average(values[used], weights=shares[used])) if used.any() else np.nan


def _median(values: FloatArray, shares: FloatArray) -> float:
    """Value with half of the weight on either side: the middle of all that have."""
    used = (shares > 0.0) & ~np.isnan(values)
    if not used.any():
        return np.nan
    order = np.argsort(values[used])
    ordered, weights = values[used][order], shares[used][order]
    below = np.cumsum(weights) / weights.sum()
    lower, upper = (ordered[np.argmax(below >= 0.5 + end)] for end in (-_SAME, _SAME))
    return float(upper if lower == upper else 0.5 * (lower + upper))


@dataclass(frozen=True)
class Histogram:
    """Counts of records in bins of leakage.

    Examples
    --------
    >>> leakage_histogram(np.array([0.0, 1.0, 1.5, 4.0]), max_bins=4).counts
    array([1, 2, 0, 1])
    """

    edges: FloatArray  # Edges of the bins, in units of the loss, increasing, (n_bins + 1,)
    counts: IntArray  # Records in each bin, (n_bins,)
    ticks: FloatArray  # Round values along the axis, within the edges, (n_ticks,)
    logarithmic: bool  # True if the axis is logarithmic
    constant: bool  # True if all losses are (nearly) the same, in one bin
    # Records in the first bin whose loss lies below it: on a logarithmic axis zeros, and losses
    # more than six decades below the largest
    n_below: int
    n_omitted: int  # Records of infinite or undefined loss, which are in no bin


def leakage_histogram(
    loss: FloatArray, max_bins: int | None = None, counts: IntArray | None = None
) -> Histogram | None:
    """Count records in bins with round edges.

    Shapes: ``loss`` (n,); ``counts`` (n,), records of each loss where that is not one; returns None
    where no loss is finite.
    """
    loss = np.asarray(loss, dtype=np.float64)
    each = np.ones(len(loss), dtype=np.intp) if counts is None else counts
    there = np.isfinite(loss)
    finite, each, n_omitted = loss[there], each[there], int(each[~there].sum())
    n = int(each.sum())
    if not n:
        return None
    if max_bins is None:
        max_bins = int(np.clip(2.0 * np.cbrt(n), 6, 30))
    low, high = float(finite.min()), float(finite.max())
    constant = bool(high - low <= max(_EQUAL * high, np.finfo(np.float64).tiny))
    heavy = not constant and high > _HEAVY_TAIL * float(counted_quantiles(finite, each, 0.5))
    n_below = 0
    if constant:
        finite, each, ticks = np.array([high]), np.array([n]), np.array([high])
        edges = high + (0.1 * high if high > 0.0 else 1.0) * np.arange(-5.5, 6.0)
        edges = edges - min(edges[0], 0.0)
    elif heavy:
        floor = np.log10(high) - _N_DECADES
        low = max(np.log10(low), floor) if low > 0.0 else floor
        edges = 10.0 ** _round_edges(low, np.log10(high), max_bins)
        ticks = log_ticks(edges[0], edges[-1])
        n_below = int(each[finite < edges[0] * (1.0 - 1e-9)].sum())
    else:
        edges = _round_edges(0.0 if low < high / 2.0 else low, high, max_bins)
        ticks = round_ticks(edges[0], edges[-1])
    # Rounding may leave an extreme an ulp outside, and small losses lie below a logarithmic axis.
    inside = np.clip(finite, edges[0], edges[-1])
    heights = np.histogram(inside, bins=edges, weights=each)[0].astype(np.intp)
    return Histogram(edges, heights, ticks, heavy, constant, n_below, n_omitted)


def round_ticks(low: float, high: float) -> FloatArray:
    """Return about seven multiples of 1, 2 or 5 times a power of ten between two numbers."""
    step = _round_up((high - low) / 6.0)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return np.arange(first, last + 1.0) * step + 0.0  # no minus zero


def log_ticks(low: float, high: float) -> FloatArray:
    """Round values on a logarithmic axis.

    Returns: powers of ten, and twice and five times them where there would be few.
    """
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1.0)
    digits = [1.0, 2.0, 5.0] if high < 300.0 * low else [1.0]
    ticks = np.outer(powers, digits).ravel()
    return ticks[(ticks >= low * (1.0 - 1e-9)) & (ticks <= high * (1.0 + 1e-9))]


def _round_edges(low: float, high: float, max_bins: int) -> FloatArray:
    step = _round_up((high - low) / max_bins)
    return np.arange(np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9) + 1.0) * step + 0.0


def _round_up(step: float) -> float:
    """Return the smallest of 1, 2, 5, 10 times a power of ten that is not below ``step``."""
    power = 10.0 ** np.floor(np.log10(step))
    return next(float(m * power) for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * (1 - 1e-12))
