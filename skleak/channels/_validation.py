"""Checks of priors, integer-valued arrays and scales, with messages that say what to do."""

from numbers import Integral

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import check_finite
from skleak.utils._typing import Array, FloatArray

__all__ = [
    "advantage_from_success",
    "check_count",
    "check_order",
    "check_prior",
    "is_uniform",
    "likeliest",
]

# How far a prior may sum from 1: the round-off of a float32 table, and no more.
SUM_TOLERANCE = 1e-6


def is_uniform(prior: object) -> bool:
    """Return True if a prior is given as None or as the number of values, hence uniform."""
    return prior is None or (isinstance(prior, Integral) and not isinstance(prior, bool))


def check_count(prior: object, n_values: int) -> int:
    """Validate a uniform prior, None or the number of values, and return that number."""
    if prior is not None and prior != n_values:
        raise ValueError(
            "`prior` as an integer is uniform on that many values and must equal the channel's "
            f"{n_values}; got {prior}. Pass None for the uniform prior."
        )
    return n_values


def check_prior(prior: npt.ArrayLike | None, n_values: int) -> FloatArray:
    """Validate a prior on the secret and normalise its round-off.

    Shapes: ``prior`` (M,) or (n, M); returns (M,) or (n, M).
    """
    if is_uniform(prior):
        return np.full(check_count(prior, n_values), 1.0 / n_values)
    array = check_finite("prior", prior)
    if array.ndim not in (1, 2) or array.shape[-1] != n_values or array.size == 0:
        raise ValueError(
            f"`prior` must have shape ({n_values},) or (n, {n_values}), one probability for each "
            f"value of the secret; got shape {array.shape}."
        )
    if array.min() < 0:
        raise ValueError(f"`prior` must not be negative; got an entry of {array.min():.4g}.")
    total = array.sum(axis=-1, keepdims=True)
    worst = float(total.flat[np.abs(total - 1).argmax()])
    if abs(worst - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"`prior` must sum to 1; got {worst:.6g}. Pass counts through `prior / prior.sum()`."
        )
    return array / total


def check_order(order: npt.ArrayLike) -> FloatArray:
    """Validate the order of a Rényi divergence: positive, a number or a vector, or infinite."""
    array = np.asarray(order, dtype=np.float64)
    if array.ndim > 1:
        raise ValueError(f"`order` must be a number or a vector; got shape {array.shape}.")
    if not (array > 0).all():
        raise ValueError(
            f"`order` must be positive; got {order!r}. Order 1 is the Kullback-Leibler divergence, "
            "order infinity the max divergence."
        )
    return array


def likeliest(prior: npt.ArrayLike | None, n_values: int) -> FloatArray:
    """Largest prior probability p*, shape () or (n,); nothing of size M for a uniform prior."""
    if is_uniform(prior):
        return np.asarray(1.0 / check_count(prior, n_values))
    return check_prior(prior, n_values).max(axis=-1)


def advantage_from_success(success: Array, top: FloatArray) -> FloatArray:
    """Turn a success probability into an advantage over always guessing the likeliest value.

    ``(success - p*) / (1 - p*)`` with ``p* = max(prior)``, [FANO23] eq. 1. A certain prior leaves
    nothing to gain: its advantage is 0.
    """
    gain = np.asarray(success - top)
    left = np.broadcast_to(1 - top, gain.shape)
    return np.divide(gain, left, out=np.zeros_like(gain), where=left > 0)
