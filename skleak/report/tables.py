"""Tables of a report from those of its numbers, a line for each column, and its histogram."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skleak.plotting import LeakageDisplay
from skleak.plotting.displays import Histogram, inline_svg, leakage_histogram
from skleak.plotting.labels import attack_label, count, number, percent, plural, root, shorten
from skleak.report.document import Block, Column, Figure, Paragraph, Table, sentences
from skleak.utils._geometry import gained, pair_success, success_even_odds, true_positives
from skleak.utils._typing import BoolArray, FloatArray

_SHOWN: dict[str, Callable[[Any], str]] = {
    "at_most": partial(percent, up=True),
    "attack": attack_label,
    "count": count,
    "label": partial(shorten, width=40),
    "meter": lambda share: f"{100.0 * max(share, 0.0):.4g}" if share == share else "0",
    "name": str,
    "number": number,
    "percent": percent,
    "root": root,
    "text": str,
    "words": str,
}
_KINDS = {"attack": "name", "label": "name", "meter": "meter", "name": "name", "words": "words"}
# Shares from here on stand out in a column that is marked by "!".
_MUCH = 0.5


def columns_of(frame: pd.DataFrame, lines: str) -> tuple[Column, ...]:
    """Show columns of a table of numbers.

    Lines are parted by semicolons: ``heading | column | how it is shown | heading in a terminal``;
    "index" is the index, an empty last part leaves the column out in a terminal. What is shown with
    "!" stands out where it is more than a half, with "~" has its interval below, and with "?" is
    left out where nothing of it is known. A column ``<name>_below`` is small print of a page.
    """
    found = []
    for line in lines.split(";"):
        head, name, how, short = (part.strip() for part in line.split("|"))
        how, flags = how.rstrip("!~?"), how[len(how.rstrip("!~?")) :]
        if "?" in flags and (name not in frame or frame[name].isna().all()):
            continue
        values = list(frame.index if name == "index" else frame[name])
        cells, below = tuple(map(_SHOWN[how], values)), tuple(frame.get(f"{name}_below", ()))
        terse = cells if below else ()
        if "~" in flags:
            cells, below = _with_ends(frame, name, how)
        sharp = tuple(bool(value > _MUCH) for value in values) if "!" in flags else ()
        found.append(
            Column(head, cells, below, short or None, terse, _KINDS.get(how, "number"), sharp)
        )
    return tuple(found)


def _with_ends(frame: pd.DataFrame, name: str, how: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write numbers and their intervals; shares have the digits that these support."""
    cells, ends = [], []
    parts = frame.reindex(columns=[name, f"{name}_low", f"{name}_high"])
    for value, low, high in parts.astype(float).to_numpy():
        show = partial(percent, within=0.5 * (high - low)) if how == "percent" else _SHOWN[how]
        cells.append(show(value))
        plain = value != value or low != low or show(low) == show(high) == cells[-1]
        ends.append("" if plain else f"{show(low)} to {show(high)}")
    return tuple(cells), tuple(ends)


def explained(
    title: str,
    columns: tuple[Column, ...],
    said: str,
    limits: tuple[int, int] = (60, 200),
    more: str = "row",
    of: str = "",
) -> tuple[Block, ...]:
    """Set a table above what it means; what is too long for a page is in a table of the report."""
    where = f"are in the table `{of}` of the report and in its JSON." if of else ""
    return Table(title, columns, limits, more, where), Paragraph(said, soft=True)


def loss_histogram(loss: FloatArray, display: LeakageDisplay | None, counts: Any = None) -> Block:
    """Return the histogram of Fisher information losses, or say why there is none.

    Parameters
    ----------
    loss : ndarray of shape (n,)
        Losses of the records; infinite and undefined ones are counted and not drawn.
    display : LeakageDisplay or None
        Draws them; None for a terminal, which shows bars.
    counts : ndarray of int of shape (n,), default=None
        How many records have each loss, where that is not one.

    Returns
    -------
    Block
    """
    bins, coarse = (leakage_histogram(loss, most, counts) for most in (None, 14))
    n = len(loss) if counts is None else int(counts.sum())
    caption, *notes = sentences("leakage_histogram", {"bins": bins, "n": n})
    if bins is None or coarse is None:
        return Paragraph(caption)
    svg = ""
    if display is not None:
        bars = (bar for bar in _bars(bins) if bar[2])
        told = (f"From {low} to {high}: {plural(n, 'record')}." for low, high, n in bars)
        title = f"Histogram of Fisher information loss over {plural(sum(bins.counts), 'record')}"
        svg = inline_svg(display, title, " ".join(told))
    shown = [] if bins.constant else _bars(coarse)
    rows = tuple((f"{low} to {high}", n) for low, high, n in shown)
    return Figure(svg, caption, rows, tuple(notes))


def _bars(bins: Histogram) -> list[tuple[str, str, int]]:
    """List ends of bins, the upper ones as wide as each other, and the records in them."""
    edges = [number(edge) for edge in bins.edges]
    width = max(map(len, edges))
    ends = zip(edges[:-1], (edge.rjust(width) for edge in edges[1:]), strict=True)
    return [(*pair, n) for pair, n in zip(ends, bins.counts.tolist(), strict=True)]


@dataclass(frozen=True)
class Separation:
    """Distances over the noise between values of one column of n records. Confidential."""

    name: str
    kind: str  # "values", "number", or "numbers", a block of them
    n_values: float  # how many values are told apart; NaN for numbers
    distance: FloatArray  # largest of two values, or of a number from its own value, (n,)
    from_own: FloatArray  # largest from the record's own value, (n,)
    share: FloatArray  # share of the records with the same value; NaN for numbers, (n,)
    exact: BoolArray  # whether the distances are exact, (n,)
    note: str = ""
    sd: float = np.nan  # of a number
    step: float = np.nan  # how much lower and higher a number is that it is held against
    information: float = np.nan  # about a number, averaged over its prior, for the most exposed
    fewest: float = np.nan  # records that have its rarest value; NaN for numbers
    column_std: float = np.nan  # of a column whose entries are numbers; NaN for blocks

    def without_records(self) -> "Separation":
        """Return what is not about single records."""
        none = np.empty(0)
        exact = np.zeros(0, dtype=bool)
        return replace(self, distance=none, from_own=none, share=none, exact=exact)

    @property
    def share_removed(self) -> float:
        """Share of the squared error of an attacker with a normal prior that is removed at most."""
        if self.information == np.inf:
            return 1.0 if self.sd > 0.0 else 0.0
        ratio = self.information * self.sd**2
        return ratio / (1.0 + ratio)


def attacker(distance: Any, from_own: Any, share: Any) -> dict[str, Any]:
    """Return what an attacker gains and finds at some distances, (n,) or a number."""
    return {
        "advantage_any_prior": gained(distance),
        "distance": distance,
        "success_even_odds": success_even_odds(distance),
        "success_prior": pair_success(from_own, share),
        "found_at_1pct": true_positives(distance),
    }
