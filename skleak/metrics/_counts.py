"""Checks of numbers of successes and trials, and of tables of games."""

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import broadcast, check_numbers
from skleak.utils._typing import FloatArray


def check_counts(successes: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return successes and trials as arrays of equal shape, whole and ``0 <= k <= n``."""
    k = check_numbers("successes", successes, finite=True, empty=False)
    n = check_numbers("trials", trials, finite=True, empty=False)
    for name, array, least in (("successes", k, 0), ("trials", n, 1)):
        if np.any(array < least):
            raise ValueError(f"`{name}` must be at least {least}; got {array.min():g}.")
        if not np.all(array == np.floor(array)):
            raise ValueError(
                f"`{name}` must hold whole numbers; got "
                f"{array[array != np.floor(array)].flat[0]:g}. Pass counts, not rates."
            )
    k, n = broadcast(successes=k, trials=n)
    if np.any(k > n):
        raise ValueError(
            "`successes` must not be larger than `trials`; got "
            f"{k[k > n].flat[0]:g} of {n[k > n].flat[0]:g}."
        )
    return k, n


def check_outcomes(outcomes: npt.ArrayLike) -> FloatArray:
    """Return a table of games, (n_releases, n_records): 0 and 1, NaN where none was played."""
    table = check_numbers("outcomes", outcomes, missing=True, empty=False)
    if table.ndim != 2:
        raise ValueError(
            f"`outcomes` must have shape (n_releases, n_records); got shape {table.shape}."
        )
    wrong = ~np.isnan(table) & (table != 0.0) & (table != 1.0)
    if np.any(wrong):
        raise ValueError(
            f"`outcomes` must hold 0, 1 and NaN only; got {table[wrong].flat[0]:g}. Pass "
            "`guesses == secrets`."
        )
    return table
