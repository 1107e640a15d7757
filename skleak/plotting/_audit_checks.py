"""Checks of the results that the display of an audit is given."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.plotting.results import KINDS

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
    needed = [*_NEEDED, *(_ERRORS if kind in ("numeric", "record") else ["baseline"]), *bounds]
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
