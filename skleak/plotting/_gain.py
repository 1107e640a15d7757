"""Success with training records, with control records, and without the model, as intervals."""

from typing import Any, Self

import numpy as np

from skleak.metrics import Interval
from skleak.plotting._curves import new_axes, tidy_axes
from skleak.plotting.labels import number, percent
from skleak.plotting.palette import BROWN, INDIGO, INK, RUST

_TRAINING, _CONTROL, _WITHOUT = RUST, INDIGO, BROWN


class AttributeGainDisplay:
    """Plot of an attribute's success rates: a point and an interval in each of three rows.

    Parameters
    ----------
    gain : AttributeGain
        Of `skleak.audit.attribute_gain`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skleak.attacks import BlackBoxAttributeInference
    >>> from skleak.audit import attribute_gain
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.integers(0, 3, (200, 3)).astype(float), rng.integers(0, 2, 200)
    >>> model = GaussianNB().fit(X[:100], y[:100])
    >>> attack = BlackBoxAttributeInference(model, 0, criterion="proba")
    >>> gain = attribute_gain(attack, model, X[:100], y[:100], X[100:], y[100:])
    >>> [label for label, *_ in AttributeGainDisplay(gain).rows][:2]
    ['training records', 'control records']
    """

    ax_: Any
    figure_: Any

    def __init__(self, gain: Any) -> None:
        self.gain = gain

    @property
    def rows(self) -> list[tuple[str, str, list[Interval]]]:
        """Label, colour and intervals of each row, from the top."""
        gain = self.gain
        rows = [
            ("training records", _TRAINING, [gain.training]),
            ("control records", _CONTROL, [gain.control]),
        ]
        if gain.imputation_training is not None:
            both = [gain.imputation_training, gain.imputation_control]
            rows.append(("imputation\nwithout the model", _WITHOUT, both))
        return rows

    def plot(self, ax: Any = None) -> Self:
        """Draw a row for each rate; the guess from the prior is a vertical line.

        Filled points are of training records, hollow ones of control records.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        AttributeGainDisplay
            This object, with ``ax_`` and ``figure_``.
        """
        rows = self.rows
        ax = new_axes(ax, (7.6, 1.4 + 0.65 * len(rows)))
        for place, (_, color, rates) in enumerate(rows):
            if len(rates) == 1:
                self._draw(ax, rates[0], place, color, "", hollow=place == 1)
            else:
                self._draw(ax, rates[0], place - 0.14, color, " training", hollow=False)
                self._draw(ax, rates[1], place + 0.14, color, " control", hollow=True)
        baseline = self.gain.baseline_training
        ax.axvline(baseline, color=INK, lw=1.0, ls=(0, (4.0, 2.0)), zorder=1)
        ax.annotate(
            "prior guess",
            (baseline, 0.0),
            xycoords=("data", "axes fraction"),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize="small",
            color=INK,
        )
        self._finish(ax, [label for label, *_ in rows])
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(
        self, ax: Any, rate: Interval, place: float, color: str, whose: str, *, hollow: bool
    ) -> None:
        ends = np.array([rate.low, rate.high], dtype=float)
        if np.all(np.isfinite(ends)):
            ax.plot(ends, [place, place], color=color, lw=2.4, solid_capstyle="butt", zorder=2)
        style = {"color": color, "mfc": "white" if hollow else color, "mew": 1.8, "ms": 8.0}
        ax.plot([rate.estimate], [place], "o", zorder=3, **style)
        show = percent if self.gain.kind == "categorical" else number
        below = whose == " control"
        ax.annotate(
            show(rate.estimate) + whose,
            (rate.estimate, place),
            xytext=(0, -7 if below else 7),
            textcoords="offset points",
            ha="center",
            va="top" if below else "bottom",
            fontsize="small",
            color=color,
        )

    def _finish(self, ax: Any, labels: list[str]) -> None:
        gain = self.gain
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        tidy_axes(ax)
        ax.grid(visible=False, axis="y")
        ax.tick_params(axis="y", length=0)
        if gain.kind == "categorical":
            ax.set_xlabel("share guessed right")
            ax.xaxis.set_major_formatter(lambda value, _: percent(value))
        else:
            ax.set_xlabel("1 - squared error / spread")
        ax.set_title(
            f"{gain.attribute}: {gain.verdict.split(':')[0]}",
            fontsize="medium",
            loc="left",
            parse_math=False,
        )
