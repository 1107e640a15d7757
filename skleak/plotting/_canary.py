"""What is extracted of a secret token, and the bounds on it, over the privacy of the training."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from skleak.bounds.priors import success_to_advantage
from skleak.plotting.displays import (
    BAYES,
    BOUND_STYLES,
    OTHER_BOUNDS,
    Display,
    Scale,
    attack_styles,
    check_some,
    label_of,
    new_axes,
    plain_ticks,
    styled,
)
from skleak.plotting.labels import BOUNDS, WHITE, bound_label

_NEEDED = ("epsilon", "attack", "advantage", "advantage_low", "advantage_high", "baseline")
# Below this share of the smallest bound that is drawn nothing is shown: advantages there are those
# of games that were not won.
_DEPTH = 0.1
_SHIFT = 1.04
# Levels up to this number have a tick of their own.
_MOST_TICKS = 8


class CanaryDisplay(Display):
    """Plot of attacks on a secret token, with intervals, below their bounds, on two log scales.

    Parameters
    ----------
    results : DataFrame
        ``results_`` of a `skleak.neural.CanaryExtraction`, or the rows of several with the same
        candidates.
    name : str, default=None
        What was attacked, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Raises
    ------
    ValueError
        For a table without the columns, without a level of finite epsilon, or of several numbers of
        candidates.

    Notes
    -----
    Levels without noise, where everything is found, are left out. Ends of intervals below a tenth
    of the smallest bound are drawn there.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"epsilon": 6.0, "attack": "posterior", "advantage": 0.007, "advantage_low": 0.005}
    >>> row |= {"advantage_high": 0.009, "baseline": 0.001, "tradeoff": 0.012}
    >>> CanaryDisplay(pd.DataFrame([row])).bounds["trade-off"].round(4).to_dict()
    {6.0: 0.011}
    """

    def __init__(self, results: pd.DataFrame, *, name: str | None = None) -> None:
        missing = [column for column in _NEEDED if column not in results]
        if missing:
            raise ValueError(
                f"`results` must be `results_` of a CanaryExtraction; it has no {missing[0]!r}."
            )
        levels = results["epsilon"].to_numpy(dtype=float)
        self.results = results[np.isfinite(levels) & (levels > 0.0)].sort_values("epsilon")
        n_baselines = self.results["baseline"].nunique()
        if n_baselines != 1:
            raise ValueError(
                "`results` must hold levels with noise, all with the same number of candidates; "
                f"got {n_baselines} of them. Make a display for each."
            )
        self.name = name

    @property
    def bounds(self) -> pd.DataFrame:
        """Advantage of each bound over epsilon, by its name for people."""
        shown = self.results.drop_duplicates("epsilon").set_index("epsilon")
        n_values = round(1.0 / float(shown["baseline"].iloc[0]))
        columns = {
            bound_label(name): success_to_advantage(np.minimum(shown[name], 1.0), n_values)
            for name in BOUNDS
            if name in shown and shown[name].notna().all()
        }
        return pd.DataFrame(columns, index=shown.index)

    def plot(self, ax: Any = None, *, bounds: Sequence[str] | None = None) -> Self:
        """Draw bounds as curves, and attacks as marks with their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        bounds : list of str, default=None
            Names of the bounds to draw; by default all.

        Returns
        -------
        CanaryDisplay
            This object, with ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            For a name that is none of the bounds.
        """
        curves = self.bounds[check_some("bounds", bounds, self.bounds.columns)]
        ax = new_axes(ax, (8.0, 4.4))
        for bound, (color, stroke) in styled(curves, BOUND_STYLES, OTHER_BOUNDS).items():
            width = 3.4 if bound == BAYES else 1.7
            ax.plot(curves[bound], color=color, ls=stroke, lw=width, marker=".", label=bound)
        scale = Scale(_DEPTH * float(curves.min().min()), 1.0)
        marks = attack_styles(self.results["attack"].unique())
        for place, (attack, mark) in enumerate(marks.items()):
            rows = self.results[self.results["attack"] == attack]
            # Side by side, so that intervals do not hide each other.
            epsilon = rows["epsilon"] * _SHIFT ** (place - 0.5 * (len(marks) - 1))
            low, high = (scale.squeeze(rows[f"advantage_{end}"]) for end in ("low", "high"))
            values = rows["advantage"].where(rows["advantage"] >= scale.low).clip(upper=1.0)
            ax.vlines(epsilon, low, high, color=mark.color, lw=1.2, zorder=4.0)
            style = {"color": mark.color, "marker": mark.marker, "mec": WHITE, "ms": 6.0}
            ax.plot(epsilon, values, ls="", label=label_of(attack), zorder=5.0, **style)
        ax.set(xscale="log", yscale="log", ylim=(scale.low, 1.2), ylabel="advantage over guessing")
        plain_ticks(ax.xaxis)
        if len(curves) <= _MOST_TICKS:
            ax.set_xticks(curves.index)
        ax.set_xlabel("epsilon, divergence of two tokens (nats)")
        return self._finish(ax, self.name)
