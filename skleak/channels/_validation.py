"""Checks of orders, and success against the prior."""

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import check_count, check_prior, is_uniform
from skleak.utils._typing import Array, FloatArray


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


def record_priors(
    prior: npt.ArrayLike | None, n_values: int, n_records: int | None
) -> tuple[FloatArray, int]:
    """Validate the prior of a channel of n records, or of one; return it and n.

    Shapes: ``prior`` (M,) or (n, M); returns (M,) or (n, M), and n.
    """
    p = check_prior(prior, n_values)
    n = len(np.atleast_2d(p)) if n_records is None else n_records
    if p.ndim == 2 and len(p) != n:
        raise ValueError(
            f"`prior` must have one row for each of the {n} records, or be shared; got "
            f"shape {p.shape}."
        )
    return p, n
