"""The numbers behind the display of an audit: checks, points of attacks, curves of bounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.audit.report._tables import WORTH_A_WORD

__all__ = [
    "GUESSES",
    "KINDS",
    "bound_curves",
    "check_results",
    "floor_curve",
    "level_rows",
    "points",
]

KINDS = ("categorical", "numeric", "record", "membership")
# Kinds of audit in which guesses are right or wrong; in the others they are off by an error.
GUESSES = ("categorical", "membership")
_NEEDED = ["noise_scale", "attack", "advantage", "advantage_low", "advantage_high"]
_ERRORS = ["mse", "mse_low", "mse_high"]


def check_results(results: Any, kind: str, bounds: Sequence[str]) -> pd.DataFrame:
    """Copy the results of an audit in ascending noise, or say what is wrong with them."""
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    if not isinstance(results, pd.DataFrame):
        raise TypeError(
            "`results` must be a DataFrame, the `results` of an audit report; got "
            f"{type(results).__name__}."
        )
    needed = [*_NEEDED, *(["baseline"] if kind in GUESSES else _ERRORS), *bounds]
    missing = [column for column in needed if column not in results]
    if missing or results.empty:
        raise ValueError(
            "`results` must have a row for each noise scale and attack, with columns "
            f"{', '.join(needed)}; got {len(results)} rows"
            + (f" without {', '.join(map(repr, missing))}." if missing else ".")
        )
    table = results.copy()
    noise = table["noise_scale"] = table["noise_scale"].astype(float)
    if not np.all(np.isfinite(noise) & (noise >= 0.0)):
        raise ValueError(
            "The noise scales of `results` must be finite and not negative; got "
            f"{noise.min():g} to {noise.max():g}."
        )
    table["attack"] = table["attack"].astype(str)
    twice = table.duplicated(["noise_scale", "attack"])
    if twice.any():
        row = table[twice].iloc[0]
        raise ValueError(
            "`results` must have one row for each noise scale and attack; got several of "
            f"{row['attack']!r} at {row['noise_scale']:g}."
        )
    return table.sort_values("noise_scale", kind="stable", ignore_index=True)


def level_rows(results: pd.DataFrame) -> pd.DataFrame:
    """Select what all attacks of a noise scale share, index ``noise_scale``."""
    return results.groupby("noise_scale").first()


def points(results: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the points of each attack.

    Returns ``noise_scale``, ``attack``, ``value``, ``low``, ``high`` and ``verdict``. The value is
    the advantage, or the mean squared error over that of the prior guess.
    """
    table = results[["noise_scale", "attack"]].copy()
    names = ("value", "low", "high")
    if kind in GUESSES:
        for name, column in zip(names, _NEEDED[2:], strict=True):
            table[name] = results[column].astype(float)
    else:
        prior = results["noise_scale"].map(_prior_errors(results))
        for name, column in zip(names, _ERRORS, strict=True):
            table[name] = results[column].astype(float) / prior
    table["verdict"] = results["verdict"].astype(str) if "verdict" in results else ""
    return table


def bound_curves(results: pd.DataFrame, kind: str, bounds: Sequence[str]) -> pd.DataFrame:
    """Bounds on what the points are, a column each, index ``noise_scale``.

    Returns: without bounds that are not known at any noise scale.
    """
    rows = level_rows(results)
    table = rows[list(bounds)].astype(float)
    if kind in GUESSES:
        baseline = rows["baseline"].astype(float)
        rest = (1.0 - baseline).where(baseline < 1.0)
        # A success probability is at most 1, whatever a vacuous bound says.
        table = table.clip(upper=1.0).sub(baseline, axis=0).div(rest, axis=0)
    else:
        table = table.div(_prior_errors(results), axis=0)
    return table.dropna(axis=1, how="all")


def floor_curve(results: pd.DataFrame, kind: str) -> pd.Series | None:
    """Return the advantage that some attack surely reaches, index ``noise_scale``, or None."""
    if kind != "membership" or "lower_bound" not in results:
        return None
    rows = level_rows(results)
    baseline = rows["baseline"].astype(float)
    floor = (rows["lower_bound"].astype(float) - baseline) / (1.0 - baseline)
    return floor if (floor >= WORTH_A_WORD).any() else None


def _prior_errors(results: pd.DataFrame) -> pd.Series:
    """Mean squared error of the prior guess by noise scale; NaN where no row tells it."""
    # The advantage of an error is 1 less the error over that of the prior guess.
    relative = 1.0 - results["advantage"].astype(float)
    error = results["mse"].astype(float)
    known = np.isfinite(relative) & (relative > 0.0) & np.isfinite(error) & (error > 0.0)
    # Of the rows of a noise scale, the one that loses no digits to the difference.
    order = relative[known].sort_values(ascending=False, kind="stable").index
    best = results.loc[order].drop_duplicates("noise_scale")
    implied = (error / relative)[best.index].set_axis(best["noise_scale"])
    levels = np.unique(results["noise_scale"])
    # Where all errors are 0, without noise, the prior guess is as at the other noise scales.
    return implied.reindex(levels).fillna(implied.median() if len(implied) else np.nan)
