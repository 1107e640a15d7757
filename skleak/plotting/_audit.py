"""Who is above the limit, what attacks gain, what noise costs: the figure to choose noise from."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

from skleak.plotting.displays import (
    Display,
    label_of,
    legend_of_names,
    new_axes,
    noise_axis,
    panels,
    tidy_axes,
)
from skleak.plotting.labels import BLUE, CRIMSON, INK, PALE, RUST, number, percent, shorten

_LEAST_R2 = -1.0
# Attacks shown of a single noise scale.
_MOST = 5
_NEEDED = ("noise", "attack", "attack_value", "attack_low", "attack_high", "utility")


@dataclass(eq=False, repr=False)
class AuditDisplay(Display):
    """Plot of an audit over the noise: people above the limit, the best attack, and utility.

    Use `from_auditor` or `from_report` to create one.

    Parameters
    ----------
    levels : DataFrame
        A row for each noise scale, as the ``levels`` of the decision of a report: ``noise``,
        ``n_above``, ``largest``, ``attack``, ``attack_value``, ``attack_low``, ``attack_high``
        and ``utility``.
    curve : mapping of str to list of float, default=None
        What is known at every noise: ``noise``, ``above`` (share of the people judged who are above
        the limit) and ``largest`` (gain); None where no bound is known.
    limit : float, default=0.05
        Gain that is tolerated.
    chosen : float, default=nan
        Noise scale to mark.
    attacks : DataFrame, default=None
        ``attack``, ``value``, ``low`` and ``high`` of every attack, drawn where there is a single
        noise scale.
    utility_name : str, default="utility"
        Score in the column ``utility``, for the axis.
    noiseless_utility, constant_utility : float, default=nan
        Score of the model without noise, and of one that always says the same, for reference.
    name : str, default=None
        What was audited, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where people and attacks were drawn.
    axes_ : list of matplotlib Axes
        ``ax_`` and, where it was drawn, the panel of the utility.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Raises
    ------
    ValueError
        For missing columns, or without a row.

    Examples
    --------
    >>> import pandas as pd
    >>> levels = pd.DataFrame({
    ...     "noise": [0.1, 1.0], "n_above": [40, 0], "largest": [0.9, 0.04], "attack": "white_box",
    ...     "attack_value": [0.5, 0.01], "attack_low": [0.4, -0.01], "attack_high": [0.6, 0.03],
    ...     "utility": [0.6, 0.3],
    ... })
    >>> curve = {"noise": [0.1, 0.3, 1.0], "above": [1.0, 0.4, 0.0], "largest": [0.9, 0.3, 0.04]}
    >>> AuditDisplay(levels, curve, chosen=1.0, utility_name="R²").draws
    True
    """

    title = "Gain of attackers by noise scale"

    levels: pd.DataFrame
    curve: Any = None
    _: KW_ONLY
    limit: float = 0.05
    chosen: float = math.nan
    attacks: pd.DataFrame | None = None
    utility_name: str = "utility"
    noiseless_utility: float = math.nan
    constant_utility: float = math.nan
    name: str | None = None

    def __post_init__(self) -> None:
        levels, curve = self.levels, self.curve
        missing = [column for column in _NEEDED if column not in levels]
        if missing or not len(levels):
            raise ValueError(
                f"`levels` must have a row for each noise scale, with columns {list(_NEEDED)}; got "
                f"{len(levels)} rows without {missing}. Pass `report.decision()['levels']` as a "
                "DataFrame."
            )
        self.levels = levels.sort_values("noise", kind="stable", ignore_index=True)
        self.curve = None if curve is None else pd.DataFrame(dict(curve))

    @classmethod
    def from_report(cls, report: Any) -> Self:
        """Create a display from the numbers of a report; draws nothing yet.

        Parameters
        ----------
        report : AuditReport
            What an audit found.

        Returns
        -------
        AuditDisplay
        """
        found, settings = report.decision(), report.settings
        what = report.attribute or {"membership": "membership"}.get(report.kind, "whole records")
        results = report.results[report.results["noise_scale"] == found["noise"]]
        ends = ("", "_low", "_high")
        names = [f"share_removed{end}" for end in ends]
        if not set(names) <= set(results) or results[names[0]].isna().all():
            names = [f"advantage{end}" for end in ends]
        table = results[["attack", *names]].set_axis(["attack", "value", "low", "high"], axis=1)
        return cls(
            pd.DataFrame(found["levels"]),
            None if found["failed"] else settings.get("curve") or None,
            limit=found["limit"],
            chosen=found["noise"],
            attacks=table,
            utility_name=settings.get("utility_name", "utility"),
            noiseless_utility=found["smallest"]["noiseless_utility"],
            constant_utility=found["smallest"]["constant_utility"],
            name=f"{shorten(what, 30)}: {report.estimator}",
        )

    @classmethod
    def from_auditor(cls, auditor: Any) -> Self:
        """Create a display from an audit that was run; draws nothing yet.

        Parameters
        ----------
        auditor : LeakageAuditor or MembershipAuditor
            A fitted auditor.

        Returns
        -------
        AuditDisplay

        Raises
        ------
        NotFittedError
            Where the audit was not run.
        """
        if not hasattr(auditor, "report_"):
            raise NotFittedError(
                "`auditor` must be a fitted auditor, with an attribute `report_`; got "
                f"{type(auditor).__name__} without one. Call `fit` first."
            )
        return cls.from_report(auditor.report_)

    @property
    def draws(self) -> bool:
        """True if there is anything to draw."""
        return self.curve is not None or bool(self.levels["attack_value"].notna().any())

    @property
    def over_noise(self) -> bool:
        """True if the noise is an axis: else a single noise scale has a row for each attack."""
        return self.curve is not None or len(self.levels) > 1

    @property
    def caption(self) -> str:
        """The figure in a sentence or two."""
        if not self.over_noise:
            return "Gain over guessing of every attack tried, with its interval."
        known = "the share of people above the limit and the largest gain; "
        drawn = "" if self.curve is None else known
        return (
            f"Above: {drawn}the best attack tried, with its interval. Below: the score of released "
            "models. The upright line is the noise of the first sentence."
        )

    @property
    def description(self) -> str:
        """The numbers of the figure, for those who do not see it."""
        return " ".join(
            f"Noise {number(row['noise'])}: {label_of(row['attack']).strip()} gains "
            f"{percent(row['attack_value'])}, {self.utility_name} {number(row['utility'])}."
            for _, row in self.levels.iterrows()
        )

    @property
    def _layout(self) -> tuple[tuple[int, int], tuple[float, float], dict[str, Any]]:
        """Rows and columns of the Axes of `plot`, size of the figure, and further options."""
        if not self.over_noise:
            n_rows = 1 if self.attacks is None else min(len(self.attacks), _MOST)
            return (1, 1), (5.6, 1.2 + 0.4 * n_rows), {}
        if self.levels["utility"].notna().any():
            return (2, 1), (5.6, 4.8), {"height_ratios": [2.4, 1.0], "sharex": True}
        return (1, 1), (5.6, 3.8), {}

    def plot(self, ax: Any = None) -> Self:
        """Draw who is above the limit, the best attack and, below, the score of released models.

        Parameters
        ----------
        ax : matplotlib Axes or pair of them, default=None
            Where to draw; one Axes leaves the score out. By default a new figure.

        Returns
        -------
        AuditDisplay
            This object, with ``ax_``, ``axes_`` and ``figure_``.

        Raises
        ------
        ValueError
            For another number of Axes, or where nothing can be drawn.
        """
        if not self.draws:
            raise ValueError("Nothing to plot: no attack has a known gain, and no bound is known.")
        shape, size, options = self._layout
        found = new_axes(ax, size, shape, **options)
        axes = panels(found, (1, 2), "one Axes, or two, the second for the score")
        if self.over_noise:
            self._draw_over_noise(axes)
        else:
            self._draw_attacks(axes[0])
        if self.name is not None:
            axes[0].set_title(
                shorten(self.name, 60), fontsize="medium", loc="left", parse_math=False
            )
        for each in axes:
            tidy_axes(each)
        self.axes_ = axes
        return self._keep(axes[0])

    def _draw_over_noise(self, axes: list[Any]) -> None:
        ax, levels = axes[0], self.levels
        noise = levels["noise"].to_numpy(dtype=float)
        places = noise
        if self.curve is not None:
            curve = self.curve
            places = np.concatenate([noise, curve["noise"].to_numpy(dtype=float)])
            ax.fill_between(curve["noise"], 0.0, curve["above"], color=PALE, alpha=0.35, lw=0.0)
            ax.plot(curve["noise"], curve["above"], color=BLUE, lw=2.2, label="people above limit")
            ax.plot(curve["noise"], curve["largest"], color=INK, lw=1.4, label="largest gain")
        value = levels["attack_value"].clip(-0.05, 1.0)
        low = (value - levels["attack_low"].clip(-0.05, 1.0)).clip(lower=0.0).fillna(0.0)
        high = (levels["attack_high"].clip(-0.05, 1.0) - value).clip(lower=0.0).fillna(0.0)
        ax.errorbar(
            noise, value, yerr=np.array([low, high]), color=RUST, marker="o", ms=5.0, lw=1.2,
            capsize=3.0, label="best attack tried",
        )  # fmt: skip
        ax.axhline(self.limit, color=CRIMSON, ls=(0, (4.0, 2.0)), lw=1.0, label="limit")
        ax.set_ylim(-0.06, 1.04)
        ax.yaxis.set_major_formatter(lambda share, _: percent(share))
        ax.set_ylabel("share, and gain over a coin")
        if len(axes) == 2:
            self._draw_utility(axes[1], noise)
        for each in axes:
            noise_axis(each, places)
            if self.chosen > 0.0:
                each.axvline(self.chosen, color=INK, ls=(0, (1.0, 1.6)), lw=1.2)
        axes[-1].set_xlabel("noise scale")
        legend_of_names(ax, beside=False)

    def _draw_utility(self, ax: Any, noise: Any) -> None:
        utility = self.levels["utility"].to_numpy(dtype=float)
        # Heavy noise makes R² hugely negative, and all that matters one flat line.
        floor = _LEAST_R2 if self.utility_name in ("R²", "D²") else -np.inf
        ax.plot(noise, np.maximum(utility, floor), color=INK, marker="o", ms=5.0, lw=1.7)
        for value, label in (
            (self.noiseless_utility, "without noise"),
            (self.constant_utility, "always the same"),
        ):
            if math.isfinite(value) and value > floor:
                ax.axhline(value, color=INK, ls=(0, (4.0, 2.0)), lw=0.9, alpha=0.7)
                ax.annotate(
                    f"{label}: {number(value)}", (1.0, value), (-2.0, 2.0), ha="right",
                    xycoords=("axes fraction", "data"), textcoords="offset points",
                    fontsize="small",
                )  # fmt: skip
        ax.margins(y=0.25)
        ax.set_ylabel(shorten(self.utility_name, 20), parse_math=False)

    def _draw_attacks(self, ax: Any) -> None:
        table = self.attacks
        if table is None:
            table = self.levels.set_axis(
                [name.replace("attack_", "") for name in self.levels], axis=1
            )
        table = table[table["value"].notna()].sort_values("value").tail(_MOST)
        value = table["value"].clip(-1.0, 1.0)
        low, high = (value - table["low"]).clip(0.0, 2.0), (table["high"] - value).clip(0.0, 2.0)
        places, errors = np.arange(len(table)), np.array([low.fillna(0.0), high.fillna(0.0)])
        ax.errorbar(
            value, places, xerr=errors, color=RUST, marker="o", ms=6.0, lw=0.0,
            elinewidth=1.4, capsize=3.0,
        )  # fmt: skip
        names = [label_of(name) for name in table["attack"]]
        ax.set_yticks(places, labels=names, fontsize="small", parse_math=False)
        ax.axvline(self.limit, color=CRIMSON, ls=(0, (4.0, 2.0)), lw=1.0)
        ax.axvline(0.0, color=INK, lw=0.8)
        ax.set_xlim(min(-0.05, float((value - low).min()) - 0.02), 1.02)
        ax.set_ylim(-0.6, len(table) - 0.4)
        ax.xaxis.set_major_formatter(lambda share, _: percent(share))
        ax.set_xlabel(f"gain over guessing; the limit is {percent(self.limit)}")
