"""What the displays of attacks share: a colour and marker for each attack, names, legends."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skleak.audit.report._format import attack_label
from skleak.plotting._curves import INK
from skleak.rendering._format import shorten
from skleak.utils._typing import Array, FloatArray

__all__ = [
    "Mark",
    "Scale",
    "attack_styles",
    "check_some",
    "is_logarithmic",
    "label_of",
    "legend_of_names",
    "noise_axis",
    "panels",
]

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
        """Values within the range, those beyond at its edge; NaN stays NaN."""
        return np.clip(np.asarray(values, dtype=float), self.low, self.high)

    def inside(self, values: Any) -> Array:
        """Return True if each value lies within the range."""
        values = np.asarray(values, dtype=float)
        return (values >= self.low) & (values <= self.high)


_STYLES = {
    "white_box": Mark("#a3260f", "o"),
    "black_box": Mark("#3f4fb0", "s"),
    "informed": Mark("#0b6e4f", "D"),
    "imputation": Mark("#8a5a00", "^"),
    "prior": Mark("#6b7280", "v"),
    # Not an attack that was played, but what the best one reaches.
    "bayes": Mark(INK, "d"),
    "cramer_rao": Mark(INK, "d"),
}
_SPARE = [Mark("#7b2d8e", "P"), Mark("#1f7a8c", "X"), Mark("#b8578f", "p"), Mark("#5b7f1d", "h")]


def attack_styles(names: Iterable[str]) -> dict[str, Mark]:
    """Colour and marker of each attack; a user's own get the spare ones in turn."""
    styles: dict[str, Mark] = {}
    spare = 0
    for name in names:
        if name in _STYLES:
            styles[name] = _STYLES[name]
        else:
            styles[name] = _SPARE[spare % len(_SPARE)]
            spare += 1
    return styles


def check_some(what: str, asked: Sequence[str] | None, names: Iterable[str]) -> list[str]:
    """Those asked for, or all; ``what`` is the name of the argument."""
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


def label_of(name: Any) -> str:
    """Name of an attack for a legend; matplotlib would leave out one that starts with "_"."""
    label = shorten(attack_label(name), _NAME_WIDTH)
    return f" {label}" if label.startswith("_") else label


def legend_of_names(
    ax: Any, handles: Sequence[Any] | None = None, *, beside: bool = True, title: str | None = None
) -> None:
    """Put a legend beside the data, or where it fits; a dollar sign in a name is no formula."""
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    place = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)} if beside else {"loc": "best"}
    legend = ax.legend(handles=handles, title=title, frameon=False, fontsize="small", **place)
    for text in legend.get_texts():
        text.set_parse_math(False)


def panels(ax: Any, allowed: tuple[int, ...], what: str) -> list[Any]:
    """Axes as a list, or say how many are needed."""
    axes = list(np.ravel(np.array(ax, dtype=object)))
    if len(axes) not in allowed:
        raise ValueError(f"`ax` must be {what}; got {len(axes)} Axes.")
    return axes


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
    else:
        ax.locator_params(axis="x", nbins=5)
    ax.margins(x=0.03)
