"""Upper bounds on what an attacker gains, and what the best attack reaches, over the noise."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.channels import Channel, GaussianChannel
from skleak.plotting._curves import (
    ADVANTAGE,
    BAYES,
    check_some,
    check_table,
    curve_styles,
    finish,
    new_axes,
    scale_axes,
)
from skleak.plotting.palette import INK
from skleak.plotting.results import equal_columns


class BoundLadderDisplay:
    """Plot of every upper bound on the advantage, and of the Bayes value below them, over noise.

    Use `from_encodings` or `from_channels` to create one.

    Parameters
    ----------
    advantages : DataFrame of shape (n_levels, n_bounds)
        Advantage in [0, 1] by bound, over noise levels in the index. The column "Bayes", where
        there is one, is what the best attack reaches.
    noise_name : str, default="noise scale"
        What the noise levels are, for the axis.
    name : str, default=None
        What is released, for the title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of ``ax_``.

    Raises
    ------
    ValueError
        For an empty table, negative noise, or advantages outside [0, 1].

    Examples
    --------
    >>> display = BoundLadderDisplay.from_encodings(np.eye(10), [0.5, 1.0, 2.0])
    >>> display.advantages["Bayes"].round(4).to_dict()
    {0.5: 0.6374, 1.0: 0.2677, 2.0: 0.1102}
    """

    ax_: Any
    figure_: Any

    def __init__(
        self,
        advantages: pd.DataFrame,
        *,
        noise_name: str = "noise scale",
        name: str | None = None,
    ) -> None:
        self.advantages = check_table(advantages, "noise level")
        self.noise_name = noise_name
        self.name = name

    @classmethod
    def from_encodings(
        cls,
        encodings: npt.ArrayLike,
        noise_scales: npt.ArrayLike,
        prior: npt.ArrayLike | None = None,
        *,
        name: str | None = None,
    ) -> Self:
        """Compute the bounds of a Gaussian channel at every noise scale; draws nothing yet.

        Parameters
        ----------
        encodings : array-like of shape (n_values, d)
            Encodings of one record: what would be released without noise under each value of the
            secret, as `skleak.influence.candidate_encodings` gives them.
        noise_scales : array-like of shape (n_levels,)
            Standard deviations of the noise, positive, in units of the encodings.
        prior : array-like of shape (n_values,), int or None, default=None
            Prior of the secret; None is uniform.
        name : str, default=None
            What is released, for the title.

        Returns
        -------
        BoundLadderDisplay

        Raises
        ------
        ValueError
            For encodings of several records, or noise scales that are no list.

        Examples
        --------
        >>> display = BoundLadderDisplay.from_encodings([[0.0], [1.0], [3.0]], [1.0, 2.0])
        >>> display.advantages[["Bayes", "Fano, exact information"]].round(3).to_numpy()
        array([[0.533, 0.692],
               [0.29 , 0.42 ]])
        """
        scales = np.asarray(noise_scales, dtype=float)
        if scales.ndim != 1 or not len(scales):
            raise ValueError(
                "`noise_scales` must be a list of noise scales; got shape "
                f"{scales.shape}. Pass for instance `np.geomspace(0.1, 10.0, 30)`."
            )
        if np.ndim(encodings) != 2:
            raise ValueError(
                "`encodings` must be those of one record, of shape (n_values, d); got shape "
                f"{np.shape(encodings)}. Pass `encodings[i]` for record i."
            )
        table = GaussianChannel(encodings, scales).advantage_bounds(prior)
        advantages = table.pivot_table(
            "advantage", index="record", columns="bound", sort=False
        ).set_axis(scales)
        return cls(advantages, name=name)

    @classmethod
    def from_channels(
        cls,
        channels: Iterable[Channel],
        noise: npt.ArrayLike,
        prior: npt.ArrayLike | None = None,
        *,
        noise_name: str = "noise scale",
        name: str | None = None,
    ) -> Self:
        """Compute the bounds of channels of one kind at several noise levels; draws nothing yet.

        Parameters
        ----------
        channels : list of Channel
            A channel for each noise level, such as `skleak.channels.RandomizedResponse`.
        noise : array-like of shape (n_levels,)
            Their noise levels, not negative.
        prior : array-like of shape (n_values,), int or None, default=None
            Prior of the secret; None is uniform.
        noise_name : str, default="noise scale"
            What the noise levels are, for the axis.
        name : str, default=None
            What is released, for the title.

        Returns
        -------
        BoundLadderDisplay

        Raises
        ------
        ValueError
            Where there is not one level for each channel, for channels of several records, or of
            kinds to which different bounds apply.

        Examples
        --------
        >>> from skleak.channels import RandomizedResponse
        >>> flips = [0.2, 0.5, 0.8]
        >>> display = BoundLadderDisplay.from_channels(
        ...     [RandomizedResponse(flip, 10) for flip in flips], flips
        ... )
        >>> display.advantages["Bayes"].round(6).tolist()
        [0.8, 0.5, 0.2]
        """
        channels, levels = list(channels), np.asarray(noise, dtype=float)
        if levels.shape != (len(channels),) or not channels:
            raise ValueError(
                f"`noise` must have one level for each of the {len(channels)} channels; got shape "
                f"{levels.shape}."
            )
        tables = [channel.advantage_bounds(prior) for channel in channels]
        if any("record" in table for table in tables):
            raise ValueError(
                "`channels` and `prior` must be those of one record each; got several records in "
                "one channel. Pass one channel for each noise level."
            )
        columns = [table.set_index("bound")["advantage"] for table in tables]
        if any(set(column.index) != set(columns[0].index) for column in columns):
            raise ValueError(
                "`channels` must be of one kind; different bounds apply to those given. Make a "
                "display for each kind."
            )
        advantages = pd.concat(columns, axis=1).T.set_axis(levels)
        return cls(advantages, noise_name=noise_name, name=name)

    def plot(self, ax: Any = None, *, bounds: Sequence[str] | None = None) -> Self:
        """Draw the advantage of each bound over the noise, the highest first in the legend.

        Bounds that are equal at every noise level share a curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        bounds : list of str, default=None
            Names of the bounds to draw; by default all.

        Returns
        -------
        BoundLadderDisplay
            This object, with ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            For a name that is none of the bounds.
        """
        names = check_some("bounds", bounds, self.advantages.columns)
        shown = self.advantages[names].sort_index()
        ax = new_axes(ax, (8.0, 4.4))
        noise, curves = shown.index.to_numpy(), equal_columns(shown)
        order = shown[list(curves)].mean().sort_values(ascending=False, kind="stable").index
        for bound, (color, stroke) in curve_styles(order).items():
            # The Bayes value is a broad line below: a bound that touches it stays visible.
            width, layer = (3.4, 2.5) if bound == BAYES else (1.7, 3.0)
            style = {"color": color, "ls": stroke, "lw": width, "zorder": layer}
            ax.plot(noise, shown[bound], label="\n= ".join(curves[bound]), **style)
        if BAYES in shown:
            ax.fill_between(noise, 0.0, shown[BAYES], color=INK, alpha=0.07, lw=0.0)
        scale_axes(ax, noise)
        ax.set(xlabel=self.noise_name, ylabel=ADVANTAGE)
        finish(self, ax, self.name)
        return self
