"""Checks of numeric arguments, so that every message has the same form."""

from numbers import Real

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import broadcast, check_numbers
from skleak.utils._typing import Array, FloatArray

__all__ = [
    "check_counts",
    "check_level",
    "missing",
]


def check_level(confidence_level: float) -> float:
    """Return a confidence level as a float strictly between 0 and 1."""
    if not isinstance(confidence_level, Real):
        raise TypeError(
            f"`confidence_level` must be one number in (0, 1); got {confidence_level!r}."
        )
    level = float(confidence_level)
    if not 0.0 < level < 1.0:
        raise ValueError(
            f"`confidence_level` must lie strictly between 0 and 1; got {level:g}. "
            "Pass 0.95 for 95 percent."
        )
    return level


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


def missing(array: Array) -> bool:
    """Return True if an array of any type holds NaN, NaT, None or pandas.NA."""
    try:
        absent = array != array
        if array.dtype.kind == "O":
            absent = absent | (array == np.array(None))
        return bool(np.any(absent))
    except TypeError:  # pandas.NA has no truth value
        return True
