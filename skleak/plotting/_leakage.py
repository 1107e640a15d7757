"""How leakage is distributed over records, columns and groups."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.plotting.displays import Display, leakage_histogram, new_axes
from skleak.plotting.labels import BLUE, INK, ORANGE, PALE, WHITE, number, percent, shorten
from skleak.utils._summaries import counted_quantiles

Kind = Literal["histogram", "features", "groups"]
_KINDS = ("histogram", "features", "groups")
_LOSS = "Fisher information loss of a record"
_N_ROWS = 30
_NAME_WIDTH = 30
_ABOVE_LEGEND = 30.0  # points
# Title, what draws, and the names of the rows, where there are any.
_Drawing = tuple[str, Callable[[Any], None], Sequence[Any] | None]


class LeakageDisplay(Display):
    """Plot of what a private model leaks.

    Use `from_estimator` or `from_report` to create one.

    Parameters
    ----------
    loss : array-like of shape (n_records,)
        Fisher information loss of each record, not negative. Confidential.
    mean : float, default=None
        Mean loss to mark, where records count with unequal weights; None takes that of ``loss``.
    groups : array-like of shape (n_records,), default=None
        Group label of each record; needed by ``plot(kind="groups")``.
    gain : Series of shape (n_features,), default=None
        For each column, by name, what an attacker who knows everything else gains over guessing
        its values at even odds, in [0, 1]; needed by ``plot(kind="features")``.
    name : str, default=None
        Name of the estimator, for the title.
    counts : array-like of int of shape (n_records,), default=None
        How many records have each loss, where ``loss`` and ``groups`` list bins of records and not
        single ones.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Raises
    ------
    ValueError
        Where ``loss`` is not one-dimensional or ``groups`` has another length.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PrivateLinearRegression(noise_scale=5.0).fit(X, y)
    >>> display = LeakageDisplay.from_report(model.leakage_report())
    >>> len(display.loss), display.name
    (442, 'PrivateLinearRegression')
    """

    def __init__(
        self,
        loss: npt.ArrayLike,
        *,
        mean: float | None = None,
        groups: npt.ArrayLike | None = None,
        gain: pd.Series | None = None,
        name: str | None = None,
        counts: npt.ArrayLike | None = None,
    ) -> None:
        self.loss = np.asarray(loss, dtype=np.float64)
        if self.loss.ndim != 1 or not len(self.loss):
            raise ValueError(
                "`loss` must hold one number per record; got an array of shape "
                f"{self.loss.shape}. Pass the `fisher_information_loss_` of a fitted model."
            )
        self.counts = np.asarray(np.ones(len(self.loss)) if counts is None else counts, np.intp)
        own = np.average(self.loss, weights=self.counts)
        self.mean = float(own if mean is None else mean)
        self.groups = None if groups is None else np.asarray(groups)
        if self.groups is not None and self.groups.shape != self.loss.shape:
            raise ValueError(
                f"`groups` must have one label per record, shape {self.loss.shape}; got shape "
                f"{self.groups.shape}. Pass the labels of the very records of `loss`."
            )
        self.gain, self.name = gain, name

    @classmethod
    def from_report(cls, report: Any) -> Self:
        """Create a display from the numbers of a report; draws nothing yet.

        Parameters
        ----------
        report : LeakageReport
            What ``leakage_report()`` of a fitted estimator returned.

        Returns
        -------
        LeakageDisplay
        """
        told = {"mean": report.dataset["mean_loss"], "gain": report.features["advantage_any_prior"]}
        told["name"] = report.estimator
        if report.losses is not None:
            values, counts, groups = report.losses.bins()
            return cls(values, counts=counts, groups=groups, **told)
        records = report.records[report.records["sample_weight"] > 0.0]
        groups = records["group"].to_numpy() if "group" in records else None
        return cls(records["fisher_information_loss"].to_numpy(), groups=groups, **told)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        features: Any = None,
        groups: Any = None,
        kind: Kind = "histogram",
        ax: Any = None,
    ) -> Self:
        """Measure the leakage of a fitted estimator and plot it.

        Parameters
        ----------
        estimator : estimator
            A fitted private estimator; of a pipeline, its last step.
        X : array-like or sparse matrix of shape (n, n_features), default=None
            Records to measure; by default the training records.
        y : array-like of shape (n,), default=None
            Their targets.
        features : list of str, int or list, default=None
            Columns to measure; a list within the list forms one block.
        groups : array-like of shape (n,), str or int, default=None
            Label of each record's group, or the column that holds it.
        kind : {"histogram", "features", "groups"}, default="histogram"
            What to draw; see `plot`.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.

        Returns
        -------
        LeakageDisplay

        Raises
        ------
        TypeError
            Where the estimator has no ``leakage_report``.
        """
        if not hasattr(estimator, "leakage_report"):
            raise TypeError(
                "`estimator` must be a fitted private estimator with a method `leakage_report`; "
                f"got {type(estimator).__name__}. Of a pipeline, pass the last step, "
                "`pipeline[-1]`; records then have to be transformed by `pipeline[:-1]`."
            )
        report = estimator.leakage_report(X, y, features=features, groups=groups)
        return cls.from_report(report).plot(ax=ax, kind=kind)

    def plot(self, ax: Any = None, *, kind: Kind = "histogram") -> Self:
        """Draw the distribution of leakage.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        kind : {"histogram", "features", "groups"}, default="histogram"
            Histogram over records; what an attacker gains over guessing each column of the most
            exposed record; or range, quartiles, median and mean within each group. Of columns
            and groups the 30 most exposed are shown.

        Returns
        -------
        LeakageDisplay
            This object, with ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            For an unknown ``kind``, one whose numbers are missing, or infinite leakage.
        """
        if kind not in _KINDS:
            raise ValueError(f"`kind` must be one of {', '.join(map(repr, _KINDS))}; got {kind!r}.")
        if not np.any(np.isfinite(self.loss)):
            raise ValueError(
                "Nothing to plot: no record has a finite loss. Fit with `noise_scale > 0`."
            )
        title, draw, rows = getattr(self, f"_{kind}")()
        width, height = self._layout[1]
        height = height if rows is None else max(2.4, 1.4 + 0.3 * len(rows))
        ax = new_axes(ax, (width, height))
        draw(ax)
        if rows is not None:  # a dollar sign in a name is no formula
            labels = [shorten(name, _NAME_WIDTH) for name in rows]
            ax.set_yticks(np.arange(len(labels)), labels=labels, parse_math=False)
            ax.set_ylim(len(labels) - 0.4, -0.6)
        above = ax.get_legend_handles_labels()[0]
        if above:
            ax.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        title = title if self.name is None else f"{title}: {shorten(self.name, _NAME_WIDTH)}"
        pad = _ABOVE_LEGEND if above else None
        ax.set_title(title, fontsize="medium", pad=pad, parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        return self._keep(ax)

    def _histogram(self) -> _Drawing:
        bins = leakage_histogram(self.loss, counts=self.counts)
        largest = float(np.max(self.loss[np.isfinite(self.loss)]))

        def draw(ax: Any) -> None:
            if bins is None:
                return
            style = {"color": BLUE, "edgecolor": WHITE}
            ax.hist(bins.edges[:-1], bins=bins.edges, weights=bins.counts, **style)
            for value, name, stroke in ((self.mean, "mean", "--"), (largest, "max", ":")):
                if np.isfinite(value):
                    ax.axvline(value, color=INK, linestyle=stroke, label=f"{name} {number(value)}")
            if bins.logarithmic:
                ax.set_xscale("log")
            if bins.logarithmic or bins.constant:
                ax.set_xticks(bins.ticks, labels=[number(tick) for tick in bins.ticks])
                ax.minorticks_off()
            ax.set(xlabel=_LOSS, ylabel="records")

        return "Leakage over records", draw, None

    def _features(self) -> _Drawing:
        if self.gain is None:
            raise ValueError(
                '`kind="features"` needs `gain`, which is None. Create the display from a report '
                "or an estimator."
            )
        rows = (
            self.gain.astype(float).dropna().sort_values(ascending=False, kind="stable")[:_N_ROWS]
        )
        if not len(rows):
            raise ValueError(
                "Nothing to plot: of no column it is known what an attacker gains. See the `note` "
                "of each in the table `features` of the report."
            )

        def draw(ax: Any) -> None:
            places = np.arange(len(rows))
            ax.hlines(places, 0.0, rows, color=PALE, linewidth=2.0)
            ax.scatter(rows, places, c=np.where(rows > 0.5, ORANGE, BLUE), s=36, zorder=3)
            ax.set_xlim(-0.02, 1.02)
            ax.set_xticks(np.linspace(0.0, 1.0, 6), labels=[percent(k / 5) for k in range(6)])
            ax.set_xlabel("gained over guessing at even odds, knowing all else")

        return "Most exposed record by column", draw, rows.index

    def _groups(self) -> _Drawing:
        if self.groups is None:
            raise ValueError(
                '`kind="groups"` needs a group for each record, but there are none. Pass `groups` '
                "to `leakage_report` or `from_estimator`."
            )
        there = np.flatnonzero(np.isfinite(self.loss))
        found = []
        for label, own in pd.Series(there).groupby(self.groups[there], sort=True):
            loss, counts = self.loss[own], self.counts[own]
            quantiles = counted_quantiles(loss, counts, np.linspace(0.0, 1.0, 5))
            mean = float(np.average(loss, weights=counts))
            found.append((mean, quantiles, f"{label} (n={counts.sum()})"))
        found = sorted(found, key=lambda row: -row[0])[:_N_ROWS]

        def draw(ax: Any) -> None:
            places, marks = np.arange(len(found)), np.array([row[1] for row in found])
            ax.hlines(places, marks[:, 0], marks[:, 4], color=PALE, linewidth=2.0, label="range")
            middle = {"color": BLUE, "linewidth": 8.0, "label": "middle half"}
            ax.hlines(places, marks[:, 1], marks[:, 3], **middle)
            ax.scatter(marks[:, 2], places, c=WHITE, edgecolors=BLUE, zorder=3, label="median")
            means = [row[0] for row in found]
            ax.scatter(means, places, c=ORANGE, marker="D", s=24, zorder=3, label="mean")
            ax.set_xlabel(_LOSS)

        return "Leakage by group", draw, [row[2] for row in found]
