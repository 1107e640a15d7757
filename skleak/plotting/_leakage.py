"""How leakage is distributed over records, columns and groups."""

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.plotting._curves import new_axes
from skleak.plotting.labels import number, percent, shorten
from skleak.plotting.palette import BLUE, INK, ORANGE, PALE, WHITE
from skleak.plotting.results import counted_quantiles, leakage_histogram

Kind = Literal["histogram", "features", "groups"]
_KINDS = ("histogram", "features", "groups")
_LOSS = "Fisher information loss of a record"
_N_ROWS = 30
_NAME_WIDTH = 30
_ABOVE_LEGEND = 30.0  # points
_WIDTH, _HEIGHT = 7.0, 4.0


class LeakageDisplay:
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

    ax_: Any
    figure_: Any

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
        ones = np.ones(len(self.loss), dtype=np.intp)
        self.counts = ones if counts is None else np.asarray(counts, dtype=np.intp)
        self.mean = float(np.average(self.loss, weights=self.counts))
        if mean is not None:
            self.mean = float(mean)
        self.groups = None if groups is None else np.asarray(groups)
        if self.groups is not None and self.groups.shape != self.loss.shape:
            raise ValueError(
                f"`groups` must have one label per record, shape {self.loss.shape}; got shape "
                f"{self.groups.shape}. Pass the labels of the very records of `loss`."
            )
        self.gain = gain
        self.name = name

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
        told = {"mean": report.dataset["mean_loss"], "gain": report.features["gain"]}
        told["name"] = report.estimator
        if report.losses is not None:
            values, counts, groups = report.losses.bins()
            return cls(values, counts=counts, groups=groups, **told)
        records = report.records[report.records["sample_weight"] > 0.0]
        return cls(
            records["fisher_information_loss"].to_numpy(),
            groups=records["group"].to_numpy() if "group" in records else None,
            **told,
        )

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
        draw = getattr(self, f"_plot_{kind}")
        rows = self._rows(kind)
        height = _HEIGHT if rows is None else max(2.4, 1.4 + 0.3 * len(rows))
        ax = new_axes(ax, (_WIDTH, height))
        draw(ax, rows)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @property
    def _layout(self) -> tuple[tuple[int, int], tuple[float, float], dict[str, Any]]:
        """Rows and columns of the Axes of `plot`, size of the figure, and further options."""
        return (1, 1), (_WIDTH, _HEIGHT), {}

    def _rows(self, kind: Kind) -> "pd.Series | dict[Any, tuple[np.ndarray, np.ndarray]] | None":
        """Return the rows of the figure: one, the columns by name, or the groups by label."""
        if kind == "histogram":
            return None
        if kind == "features":
            if self.gain is None:
                raise ValueError(
                    '`kind="features"` needs `gain`, which is None. Create the display from a '
                    "report or an estimator."
                )
            shown = self.gain.astype(float).dropna().sort_values(ascending=False, kind="stable")
            if not len(shown):
                raise ValueError(
                    "Nothing to plot: of no column it is known what an attacker gains. See the "
                    "`note` of each in the table `features` of the report."
                )
            return shown.iloc[:_N_ROWS]
        if self.groups is None:
            raise ValueError(
                '`kind="groups"` needs a group for each record, but there are none. Pass '
                "`groups` to `leakage_report` or `from_estimator`."
            )
        there = np.flatnonzero(np.isfinite(self.loss))
        rows = pd.Series(there).groupby(self.groups[there], sort=True)
        members = {
            label: (self.loss[part], self.counts[part])
            for label, part in ((label, own.to_numpy()) for label, own in rows)
        }
        order = sorted(members, key=lambda label: -_mean(*members[label]))
        return {label: members[label] for label in order[:_N_ROWS]}

    def _plot_histogram(self, ax: Any, _: None) -> None:
        bins = leakage_histogram(self.loss, counts=self.counts)
        if bins is None:
            return
        ax.hist(bins.edges[:-1], bins=bins.edges, weights=bins.counts, color=BLUE, edgecolor=WHITE)
        largest = float(np.max(self.loss[np.isfinite(self.loss)]))
        for value, name, style in ((self.mean, "mean", "--"), (largest, "max", ":")):
            if np.isfinite(value):
                ax.axvline(value, color=INK, linestyle=style, label=f"{name} {number(value)}")
        if bins.logarithmic:
            ax.set_xscale("log")
        if bins.logarithmic or bins.constant:
            _number_ticks(ax, bins.ticks)
        _legend_above(ax)
        ax.set(xlabel=_LOSS, ylabel="records")
        self._title(ax, "Leakage over records", pad=_ABOVE_LEGEND)
        _tidy(ax)

    def _plot_features(self, ax: Any, rows: pd.Series) -> None:
        places = np.arange(len(rows))
        colors = np.where(rows > 0.5, ORANGE, BLUE)
        ax.hlines(places, 0.0, rows, color=PALE, linewidth=2.0)
        ax.scatter(rows, places, c=colors, s=36, zorder=3)
        ax.set_xlim(-0.02, 1.02)
        ax.set_xticks(np.linspace(0.0, 1.0, 6), labels=[percent(k / 5) for k in range(6)])
        _name_rows(ax, rows.index)
        ax.set_xlabel("gained over guessing at even odds, knowing all else")
        self._title(ax, "Most exposed record by column")
        _tidy(ax)

    def _plot_groups(self, ax: Any, rows: dict[Any, tuple[np.ndarray, np.ndarray]]) -> None:
        places, levels = np.arange(len(rows)), np.linspace(0.0, 1.0, 5)
        marks = np.array([counted_quantiles(*part, levels) for part in rows.values()])
        ax.hlines(places, marks[:, 0], marks[:, 4], color=PALE, linewidth=2.0, label="range")
        ax.hlines(places, marks[:, 1], marks[:, 3], color=BLUE, linewidth=8.0, label="middle half")
        ax.scatter(marks[:, 2], places, c=WHITE, edgecolors=BLUE, zorder=3, label="median")
        means = [_mean(*part) for part in rows.values()]
        ax.scatter(means, places, c=ORANGE, marker="D", s=24, zorder=3, label="mean")
        _legend_above(ax)
        _name_rows(ax, (f"{label} (n={part[1].sum()})" for label, part in rows.items()))
        ax.set_xlabel(_LOSS)
        self._title(ax, "Leakage by group", pad=_ABOVE_LEGEND)
        _tidy(ax)

    def _title(self, ax: Any, what: str, pad: float | None = None) -> None:
        title = what if self.name is None else f"{what}: {shorten(self.name, _NAME_WIDTH)}"
        ax.set_title(title, fontsize="medium", pad=pad, parse_math=False)


def _mean(loss: np.ndarray, counts: np.ndarray) -> float:
    return float(np.average(loss, weights=counts))


def _name_rows(ax: Any, names: Any) -> None:
    # A dollar sign in a name is no formula.
    labels = [shorten(name, _NAME_WIDTH) for name in names]
    ax.set_yticks(np.arange(len(labels)), labels=labels, parse_math=False)
    ax.set_ylim(len(labels) - 0.4, -0.6)


def _legend_above(ax: Any) -> None:
    ax.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _number_ticks(ax: Any, ticks: np.ndarray) -> None:
    ax.set_xticks(ticks, labels=[number(tick) for tick in ticks])
    ax.minorticks_off()


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
