"""Checks of numeric arguments, so that every message has the same form."""

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._typing import Array, FloatArray

__all__ = [
    "as_result",
    "broadcast",
    "check_counts",
    "check_in_range",
    "check_level",
    "check_numbers",
    "missing",
]


def check_numbers(name: str, value: npt.ArrayLike, *, finite: bool = False) -> FloatArray:
    """Return an argument as a float array without NaN, or say why it is not one."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be a number or an array of numbers; got {type(value).__name__}."
        ) from error
    if array.size == 0:
        raise ValueError(f"`{name}` is empty: expected at least one entry; got {array.shape}.")
    if np.any(np.isnan(array)):
        raise ValueError(f"`{name}` must not hold NaN; drop or repair those entries first.")
    if finite and not np.all(np.isfinite(array)):
        raise ValueError(f"`{name}` must be finite; got infinite entries.")
    return array


def check_in_range(
    name: str, value: npt.ArrayLike, low: float = 0.0, high: float = 1.0
) -> FloatArray:
    """Return an argument as a float array whose entries lie in ``[low, high]``."""
    array = check_numbers(name, value)
    wrong = (array < low) | (array > high)
    if np.any(wrong):
        raise ValueError(f"`{name}` must lie in [{low:g}, {high:g}]; got {array[wrong].flat[0]:g}.")
    return array


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
    k = check_numbers("successes", successes, finite=True)
    n = check_numbers("trials", trials, finite=True)
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


def broadcast(**arrays: Array) -> tuple[Array, ...]:
    """Broadcast the named arrays against each other, or list their shapes."""
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError as error:
        listed = ", ".join(f"`{name}` {array.shape}" for name, array in arrays.items())
        raise ValueError(f"Shapes do not broadcast: {listed}. Pass matching shapes.") from error


def missing(array: Array) -> bool:
    """Return True if an array of any type holds NaN, NaT, None or pandas.NA."""
    try:
        absent = array != array
        if array.dtype.kind == "O":
            absent = absent | (array == np.array(None))
        return bool(np.any(absent))
    except TypeError:  # pandas.NA has no truth value
        return True


def as_result(array: npt.ArrayLike) -> Any:
    """Return a Python float for a zero-dimensional result, else the array."""
    array = np.asarray(array, dtype=float)
    return float(array) if array.ndim == 0 else array
