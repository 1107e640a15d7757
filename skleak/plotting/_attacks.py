"""What the displays of attacks share: a colour and marker for each attack, names, noise."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import skleak.plotting.palette as palette
from skleak.plotting._curves import plain_ticks, styled
from skleak.plotting.labels import attack_label, shorten
from skleak.utils._typing import Array, FloatArray

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

    def inside(self, values: Any) -> Array:
        """Return True if each value lies within the range."""
        values = np.asarray(values, dtype=float)
        return (values >= self.low) & (values <= self.high)


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
    """Give each attack its colour and marker; a user's own get the spare ones in turn."""
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
