"""One check of a numeric argument, so that every message has the same form."""

from typing import Any

import numpy as np

from skleak.utils._typing import FloatArray

__all__ = ["as_result", "check_real", "check_scalar"]


def check_real(
    value: Any,
    name: str,
    *,
    low: float = 0.0,
    high: float = np.inf,
    low_open: bool = False,
    high_open: bool = False,
    finite: bool = False,
    hint: str = "",
) -> FloatArray:
    """Return a number or array of numbers as float64, or say which entry is out of range."""
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "biuf":
            raise TypeError
        array = raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` must be a real number or an array of real numbers; "
            f"got {type(value).__name__}."
        ) from error
    good = (array > low) if low_open else (array >= low)
    good &= (array < high) if high_open else (array <= high)
    if finite:
        good &= np.isfinite(array)
    if not good.all():
        wanted = f"{'above' if low_open else 'at least'} {low:g}"
        if np.isneginf(low):
            wanted = "a number"
        elif np.isfinite(high):
            wanted += f" and {'below' if high_open else 'at most'} {high:g}"
        elif finite:
            wanted += " and finite"
        first = float(array[~good][0])
        raise ValueError(f"`{name}` must be {wanted}; got {first:g}. {hint}".rstrip())
    return array


def check_scalar(value: Any, name: str, **limits: Any) -> float:
    """Return one number as a float, or say what is wrong with it."""
    array = check_real(value, name, **limits)
    if array.ndim:
        raise TypeError(f"`{name}` must be a single number; got an array of shape {array.shape}.")
    return float(array)


def as_result(array: FloatArray) -> Any:
    """Return a float for an array without axes, else the array itself."""
    return float(array) if array.ndim == 0 else array
