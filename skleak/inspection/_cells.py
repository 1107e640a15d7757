"""What is found about some records and one of their columns."""

from dataclasses import dataclass

import numpy as np

from skleak.utils._typing import Array, BoolArray, FloatArray

__all__ = ["Cells", "describe"]


@dataclass(frozen=True)
class Cells:
    """Leakage of one column of b records. Confidential.

    Parameters
    ----------
    loss : ndarray of shape (b,)
        Fisher information loss per unit of a number; NaN for one of few values.
    distance, from_own : ndarray of shape (b,)
        Largest distance over the noise of two encodings, and of one from that of the own value.
    notes : ndarray of str of shape (b,)
        What should be known of each.
    """

    loss: FloatArray
    distance: FloatArray
    from_own: FloatArray
    notes: Array


def describe(n: int, *masked: tuple[BoolArray | bool, str]) -> Array:
    """Notes of n records, each said of those that its mask covers, of shape (n,)."""
    notes = np.full(n, "", dtype=object)
    for mask, text in masked:
        more = np.broadcast_to(mask, n) & bool(text)
        notes[more] = [f"{note}; {text}" if note else text for note in notes[more]]
    return notes
