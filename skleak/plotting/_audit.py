"""What attacks gain, what bounds allow and what noise costs: the figure to choose noise from."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

from skleak.plotting._attacks import Mark, Scale, attack_styles, label_of, noise_axis
from skleak.plotting._audit_checks import check_results
from skleak.plotting._audit_panels import (
    advantage_scale,
    draw_attack,
    draw_bounds,
    draw_floor,
    draw_rings,
    draw_values,
    error_scale,
    scale_values,
)
from skleak.plotting._curves import (
    ADVANTAGE,
    check_some,
    legend_of_names,
    new_axes,
    panels,
    tidy_axes,
)
from skleak.plotting.labels import bound_label, number, shorten
from skleak.plotting.palette import INK
from skleak.plotting.results import (
    counts_success,
    drawn_bounds,
    floor_advantages,
    levels,
    points,
    relative_bounds,
)
from skleak.utils._typing import FloatArray

Kind = Literal["categorical", "numeric", "record", "membership"]
_NOISE = "noise scale"
_ERROR = "mean squared error / that of the prior guess"
_LEAST_R2 = -1.0
_TITLE_WIDTH = 70


class AuditDisplay:
    """Plot of an audit over the noise: attacks, bounds on any attack, and utility.

    Use `from_auditor` or `from_report` to create one.

    Parameters
    ----------
    results : DataFrame
        A row for each noise scale and attack, with the columns of the ``results`` of an audit
        report: ``noise_scale``, ``attack``, ``advantage``, ``advantage_low``,
        ``advantage_high``; for values and membership ``baseline``; for numbers and records
        ``mse``, ``mse_low`` and ``mse_high``; where known ``utility``, ``verdict`` and, for
        membership, ``lower_bound``; and the columns ``bounds``.
    kind : {"categorical", "numeric", "record", "membership"}, default="categorical"
        What was attacked: values of an attribute or membership, where success counts, or numbers
        and records, where the error does.
    bounds : list of str, default=()
        Columns of ``results`` that hold bounds: upper ones on the success probability, or lower
        ones on the mean squared error. Those of a report are means over records, as its errors.
    name : str, default=None
        What was audited, for the title.
    utility_name : str, default="utility"
        Score in the column ``utility``, for the axis.
    noiseless_utility : float, default=None
        Score of the model without noise, for reference.
    records : DataFrame, default=None
        A row for each noise scale and record, with ``noise_scale`` and ``prior``: the error of the
        prior guess, where the results do not contain it.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where attacks and bounds were drawn.
    axes_ : list of matplotlib Axes
        ``ax_`` and, where it was drawn, the panel of the utility.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Raises
    ------
    TypeError
        Where ``results`` is no DataFrame.
    ValueError
        For an unknown kind, missing columns, negative noise, or two rows for one attack at one
        noise scale.

    Examples
    --------
    >>> import pandas as pd
    >>> results = pd.DataFrame({
    ...     "noise_scale": [0.01, 0.1], "attack": "white_box", "baseline": 0.5,
    ...     "advantage": [0.8, 0.1], "advantage_low": [0.7, 0.0], "advantage_high": [0.9, 0.2],
    ...     "bayes": [0.95, 0.6], "utility": [0.6, 0.3],
    ... })
    >>> display = AuditDisplay(results, bounds=["bayes"], utility_name="R²")
    >>> display.bound_advantages["bayes"].round(3).to_dict()
    {0.01: 0.9, 0.1: 0.2}
    """

    ax_: Any
    axes_: list[Any]
    figure_: Any

    def __init__(
        self,
        results: pd.DataFrame,
        *,
        kind: Kind = "categorical",
        bounds: Sequence[str] = (),
        name: str | None = None,
        utility_name: str = "utility",
        noiseless_utility: float | None = None,
        records: pd.DataFrame | None = None,
    ) -> None:
        self.bounds = tuple(bounds)
        self.results = check_results(results, kind, self.bounds)
        self.kind = kind
        self.name = name
        self.utility_name = utility_name
        self.noiseless_utility = noiseless_utility
        self.records = records

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
        what = "membership" if report.kind == "membership" else "whole records"
        if report.attribute is not None:
            what = report.attribute
        return cls(
            report.results,
            kind=report.kind,
            bounds=drawn_bounds(report),
            name=f"{shorten(what, 30)}: {report.estimator}",
            utility_name=report.settings.get("utility_name", "utility"),
            noiseless_utility=report.settings.get("noiseless_utility"),
            records=getattr(report, "records", None),
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
    def bound_advantages(self) -> pd.DataFrame:
        """Bounds in the units of the first panel, index ``noise_scale``.

        Advantages over guessing or, for numbers and records, errors over that of the prior guess.
        """
        return self._curves(self.bounds)

    @property
    def _layout(self) -> tuple[tuple[int, int], tuple[float, float], dict[str, Any]]:
        """Rows and columns of the Axes of `plot`, size of the figure, and further options."""
        if not self._utility_known:
            return (1, 1), (8.4, 4.6), {}
        if self.results["noise_scale"].nunique() > 1:
            return (2, 1), (8.4, 6.2), {"height_ratios": [3.0, 1.2], "sharex": True}
        return (1, 2), (9.2, 4.6), {"width_ratios": [3.0, 1.0]}

    def plot(
        self,
        ax: Any = None,
        *,
        bounds: Sequence[str] | None = None,
        attacks: Sequence[str] | None = None,
    ) -> Self:
        """Draw attacks and bounds over the noise, and below them what the noise costs.

        Each attack is shown with its confidence intervals; bounds that are equal at every noise
        scale share a curve. A ring marks an attack whose whole interval lies beyond a bound.
        Of membership, what some attack surely reaches by the generalisation gap is shaded.
        Arrows at the edge are values beyond the axis. Of numbers and records the error is drawn,
        relative to that of the prior guess. A single noise scale gives a column for each attack.

        Parameters
        ----------
        ax : matplotlib Axes or pair of them, default=None
            Where to draw: one Axes for attacks and bounds alone, or two, the second for the
            utility. By default a new figure with both where the utility is known.
        bounds : list of str, default=None
            Bounds to draw, columns of ``results``; by default all.
        attacks : list of str, default=None
            Attacks to draw; by default all.

        Returns
        -------
        AuditDisplay
            This object, with ``ax_``, ``axes_`` and ``figure_``.

        Raises
        ------
        ValueError
            For a name that is none of the bounds or attacks, another number of Axes, or where
            nothing can be drawn.
        """
        names = check_some("attacks", attacks, self.results["attack"].unique())
        shown = check_some("bounds", bounds, self.bounds)
        drawn = pd.concat([self.results[["noise_scale", "attack"]], points(self)], axis=1)
        drawn["verdict"] = self.results["verdict"].astype(str) if "verdict" in self.results else ""
        if not drawn["value"].notna().any():
            raise ValueError(
                "Nothing to plot: no attack has a known advantage. A prior that is certain of the "
                "secret leaves nothing to gain."
            )
        drawn = drawn[drawn["attack"].isin(names)]
        curves = self._curves(shown).rename(columns=bound_label)
        axes = self._axes(ax)
        scale = error_scale(drawn, curves) if self._errors else advantage_scale(drawn)
        scale_values(axes[0], scale, self._errors)
        floor = draw_floor(axes[0], floor_advantages(self))
        if self.results["noise_scale"].nunique() > 1:
            handles = self._draw_over_noise(axes, drawn, curves, scale)
        else:
            handles = self._draw_single(axes, drawn, curves, scale)
        axes[0].set_ylabel(_ERROR if self._errors else ADVANTAGE)
        if self.name is not None:
            title = shorten(self.name, _TITLE_WIDTH)
            axes[0].set_title(title, fontsize="medium", loc="left", parse_math=False)
        for each in axes:
            tidy_axes(each)
        # Beside panels that stand next to each other, not between them.
        legend_of_names(max(axes, key=lambda each: each.get_position().x1), [*handles, *floor])
        self.ax_, self.axes_, self.figure_ = axes[0], axes, axes[0].figure
        return self

    @property
    def _marks(self) -> dict[str, Mark]:
        """Of all attacks, so that a choice of them changes no colour."""
        return attack_styles(self.results["attack"].unique())

    @property
    def _never_noisy(self) -> bool:
        """True if membership was audited without noise, so that there is none to speak of."""
        return self.kind == "membership" and not self.results["noise_scale"].any()

    @property
    def _errors(self) -> bool:
        return not counts_success(self)

    @property
    def _utility_known(self) -> bool:
        return "utility" in self.results and bool(self.results["utility"].notna().any())

    def _curves(self, names: Sequence[str]) -> pd.DataFrame:
        """Return bounds in the units of the points, without those that are nowhere known."""
        table = relative_bounds(self, list(names)).dropna(axis=1, how="all")
        # A success probability is at most 1, whatever a vacuous bound says.
        return table if self._errors else table.clip(upper=1.0)

    def _axes(self, ax: Any) -> list[Any]:
        shape, size, options = self._layout
        found = new_axes(ax, size, shape, **options)
        axes = panels(found, (1, 2), "one Axes, or two, the second for the utility")
        if len(axes) == 2 and not self._utility_known:
            raise ValueError(
                "`ax` must be one Axes, for no utility is known of the released models; got 2."
            )
        return axes

    def _draw_over_noise(
        self, axes: list[Any], drawn: pd.DataFrame, curves: pd.DataFrame, scale: Scale
    ) -> list[Any]:
        ax, first = axes[0], levels(self)
        noise = first.index.to_numpy(dtype=float)
        handles = [
            draw_attack(ax, str(name), self._marks[str(name)], part, scale)
            for name, part in drawn.groupby("attack", sort=False)
        ]
        handles += draw_bounds(ax, curves, scale, self._errors)
        handles += draw_rings(ax, drawn["noise_scale"], drawn, scale)
        if len(axes) == 2:
            self._draw_utility(axes[1], noise, first["utility"].to_numpy(dtype=float))
        for each in axes:
            noise_axis(each, noise)
        axes[-1].set_xlabel(_NOISE)
        if len(axes) == 2 and not ax.get_shared_x_axes().joined(*axes):
            ax.set_xlabel(_NOISE)
        return handles

    def _draw_single(
        self, axes: list[Any], drawn: pd.DataFrame, curves: pd.DataFrame, scale: Scale
    ) -> list[Any]:
        ax, places = axes[0], np.arange(len(drawn), dtype=float)
        for place, (name, part) in zip(places, drawn.groupby("attack", sort=False), strict=True):
            part = part.assign(noise_scale=place)
            draw_attack(ax, str(name), self._marks[str(name)], part, scale)
        wide = pd.concat([curves, curves]).set_axis([-0.6, len(drawn) - 0.4])
        handles = draw_bounds(ax, wide, scale, self._errors)
        handles += draw_rings(ax, pd.Series(places, index=drawn.index), drawn, scale)
        labels = [label_of(name).replace(" ", "\n", 1) for name in drawn["attack"]]
        ax.set_xticks(places, labels=labels, fontsize="small", parse_math=False)
        ax.set_xlim(-0.6, len(drawn) - 0.4)
        scale_of_noise = float(self.results["noise_scale"].iloc[0])
        noise = f"at {_NOISE} {number(scale_of_noise)}" if scale_of_noise else "without noise"
        ax.set_xlabel("attack" if self._never_noisy else f"attack {noise}")
        if len(axes) == 2:
            utility = float(self.results["utility"].dropna().iloc[0])
            self._draw_utility(axes[1], np.zeros(1), np.array([utility]))
            axes[1].set_xticks([0.0], labels=["model"], fontsize="small")
            axes[1].set_xlim(-1.0, 1.0)
            axes[1].set_xlabel("" if self._never_noisy else noise.removeprefix("at "))
        return handles

    def _draw_utility(self, ax: Any, places: FloatArray, utility: FloatArray) -> None:
        reference = self.noiseless_utility
        known = utility[np.isfinite(utility)]
        if reference is not None and np.isfinite(reference):
            known = np.append(known, reference)
            ax.axhline(reference, color=INK, ls=(0, (4.0, 2.0)), lw=1.0)
            ax.annotate(
                f"without noise: {number(reference)}",
                (1.0, reference),
                (-2.0, 2.0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize="small",
            )
        # Heavy noise makes R² hugely negative, and all that matters one flat line.
        floor = _LEAST_R2 if self.utility_name == "R²" else -np.inf
        scale = Scale(max(known.min(initial=np.inf), floor), known.max(initial=-np.inf))
        draw_values(ax, places, utility, scale, color=INK, marker="o", lw=1.7, ms=5.0)
        room = max(scale.high - scale.low, 0.05 * max(abs(scale.high), 1e-9))
        ax.set_ylim(scale.low - 0.12 * room, scale.high + 0.28 * room)
        name = shorten(self.utility_name, 30)
        ax.set_ylabel(name, parse_math=False)
