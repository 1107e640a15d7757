"""Fano's bound and its relatives over the information, for secrets of several sizes."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.bounds import (
    closed_form_fano_advantage,
    fano_advantage,
    information_projection_advantage,
    renyi_fano_advantage,
)
from skleak.plotting._curves import (
    ADVANTAGE,
    STROKES,
    check_some,
    check_table,
    curve_styles,
    legend_of_names,
    new_axes,
    panels,
    scale_axes,
    tidy_axes,
)
from skleak.plotting.palette import INK
from skleak.plotting.results import equal_columns
from skleak.utils._typing import Array, FloatArray


class FanoCurvesDisplay:
    """Plot of Fano's bound and its relatives over the information, for several priors.

    Use `from_sizes` to create one.

    Parameters
    ----------
    advantages : DataFrame of shape (n_levels, n_priors * n_bounds)
        Advantage in [0, 1] over levels of information, in nats, in the index; the columns have
        two levels, the prior and the bound.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Their figure.

    Raises
    ------
    ValueError
        For an empty table, negative information, or advantages outside [0, 1].

    Examples
    --------
    >>> display = FanoCurvesDisplay.from_sizes([2, 10**10], information=[0.1, 1.0, 10.0])
    >>> display.advantages["M = 10^10", "Fano"].round(4).tolist()
    [0.0059, 0.0523, 0.4643]
    """

    axes_: Array
    figure_: Any

    def __init__(self, advantages: pd.DataFrame) -> None:
        self.advantages = check_table(advantages, "information")
        if self.advantages.columns.nlevels != 2:
            raise ValueError(
                "`advantages` must have two levels of columns, the prior and the bound; got "
                f"{self.advantages.columns.nlevels}. Use `FanoCurvesDisplay.from_sizes`."
            )

    @classmethod
    def from_sizes(
        cls,
        sizes: Iterable[int] = (2, 10, 100, 10**10),
        information: npt.ArrayLike | None = None,
        *,
        orders: Sequence[float] = (2.0, 8.0),
    ) -> Self:
        """Compute the bounds for secrets that are uniform on M values; draws nothing yet.

        Parameters
        ----------
        sizes : list of int, default=(2, 10, 100, 10**10)
            Numbers of values M. Nothing of that size is built.
        information : array-like of shape (n_levels,), default=None
            Levels of information in nats, not negative. None goes up to ``1.5 log(max(sizes))``.
        orders : list of float, default=(2.0, 8.0)
            Orders above 1 of the generalised inequality, which reads the level as a bound on the
            Rényi divergence of that order ([FANO23] algorithm 2).

        Returns
        -------
        FanoCurvesDisplay

        Raises
        ------
        ValueError
            For fewer than two values, negative information, or an order below 1.

        Examples
        --------
        >>> display = FanoCurvesDisplay.from_sizes([10], information=[0.5], orders=[])
        >>> display.advantages["M = 10"].iloc[0].round(4).to_dict()
        {'Fano': 0.4389, 'information projection': 0.4389, 'closed-form Fano': 0.4646}
        """
        sizes = list(sizes)
        if not sizes:
            raise ValueError("`sizes` must hold at least one number of values; got none.")
        for size in sizes:
            fano_advantage(0.0, size)  # refuses what is no number of values
        if information is None:
            information = np.geomspace(0.01, 1.5 * np.log(float(max(sizes))), 240)
        levels = np.asarray(information, dtype=float)
        if levels.ndim != 1:
            raise ValueError(f"`information` must be a list of levels; got shape {levels.shape}.")
        curves = {
            (_size_name(size), bound): values
            for size in sizes
            for bound, values in _fano_curves(levels, size, orders).items()
        }
        return cls(pd.DataFrame(curves, index=levels))

    def plot(self, ax: Any = None, *, bounds: Sequence[str] | None = None) -> Self:
        """Draw a panel for each prior, or all priors in one.

        Bounds that are equal everywhere share a curve.

        Parameters
        ----------
        ax : matplotlib Axes or list of Axes, default=None
            Where to draw: as many axes as there are priors, each for one of them with a colour
            for each bound; or a single one for all, with a colour for each prior and a stroke for
            each bound. By default a new figure with a row of panels.
        bounds : list of str, default=None
            Names of the bounds to draw; by default all.

        Returns
        -------
        FanoCurvesDisplay
            This object, with ``axes_`` and ``figure_``.

        Raises
        ------
        ValueError
            For a name that is none of the bounds, or another number of axes.
        """
        priors, names = (self.advantages.columns.unique(level) for level in (0, 1))
        shown = check_some("bounds", bounds, names)
        size = (2.0 + 2.6 * len(priors), 3.4)
        ax = new_axes(ax, size, (1, len(priors)), sharey=True, squeeze=False)
        what = f"one Axes, or one for each of the {len(priors)} priors"
        axes = np.array(panels(ax, (1, len(priors)), what), dtype=object)
        curves = self.advantages.sort_index()
        groups = equal_columns({prior: curves[prior][shown] for prior in priors})
        distinct = {leader: "\n= ".join(members) for leader, members in groups.items()}
        if len(axes) < len(priors):
            _plot_together(axes[0], curves, priors, distinct)
        else:
            _plot_panels(axes, curves, priors, distinct)
        for each in axes:
            scale_axes(each, curves.index.to_numpy())
            each.set_xlabel("information (nats)")
            tidy_axes(each)
        axes[0].set_ylabel(ADVANTAGE)
        legend_of_names(axes[-1], math=True)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _plot_panels(
    axes: Array, curves: pd.DataFrame, priors: Sequence[str], bounds: dict[str, str]
) -> None:
    for ax, prior in zip(axes, priors, strict=True):
        for bound, (color, stroke) in curve_styles(bounds).items():
            ax.plot(curves[prior, bound], color=color, ls=stroke, lw=1.7, label=bounds[bound])
        ax.set_title(_power(prior), fontsize="medium")


def _plot_together(
    ax: Any, curves: pd.DataFrame, priors: Sequence[str], bounds: dict[str, str]
) -> None:
    strokes = {bound: STROKES[k % len(STROKES)] for k, bound in enumerate(bounds)}
    for prior, color in zip(priors, _sequence(len(priors)), strict=True):
        ax.plot([], [], color=color, lw=4.0, label=_power(prior))
        for bound, stroke in strokes.items():
            ax.plot(curves[prior, bound], color=color, ls=stroke, lw=1.7)
    for bound, stroke in strokes.items():
        ax.plot([], [], color=INK, ls=stroke, lw=1.7, label=bounds[bound])


def _fano_curves(
    information: FloatArray, size: int, orders: Iterable[float]
) -> dict[str, FloatArray]:
    curves = {
        "Fano": fano_advantage(information, size),
        "information projection": information_projection_advantage(information, size),
        "closed-form Fano": closed_form_fano_advantage(information, size),
    }
    for order in orders:
        curves[f"Rényi-Fano, order {order:g}"] = renyi_fano_advantage(
            information, order, size, refine=False
        )
    return curves


def _size_name(size: int) -> str:
    exponent = round(np.log10(float(size)))
    return f"M = 10^{exponent}" if exponent > 4 and size == 10**exponent else f"M = {size}"


def _power(name: str) -> str:
    """Typeset a power of ten."""
    return name.replace("10^", "$10^{") + "}$" if "10^" in name else name


def _sequence(n: int) -> list[Any]:
    """Colours from dark to light that keep their order in grey."""
    from matplotlib import colormaps

    return [colormaps["viridis"](place) for place in np.linspace(0.0, 0.82, n)]
