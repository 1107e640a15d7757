"""What is found about some records and one of their columns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skleak.utils._typing import Array, BoolArray, FloatArray


@dataclass(frozen=True)
class Cells:
    """Leakage of one column of b records. Confidential."""

    # Fisher information loss per unit of a number; NaN for one of few values, (b,)
    loss: FloatArray
    # Largest distance over the noise of two encodings, and of one from that of the own value, (b,)
    distance: FloatArray
    from_own: FloatArray
    notes: Array  # What should be known of each, (b,)

    def noted(self, note: str) -> "Cells":
        """Return the same with one more note on all."""
        notes = [f"{own}; {note}" if own else note for own in self.notes]
        return replace(self, notes=np.array(notes, dtype=object))

    @classmethod
    def of_all(cls, parts: Sequence["Cells"]) -> "Cells":
        """Those of several blocks of records, one after the other."""
        names = ("loss", "distance", "from_own", "notes")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @classmethod
    def of_values(cls, distance: FloatArray, from_own: FloatArray, note: str) -> "Cells":
        """Leakage of a column of few values, one note for all records."""
        n = len(distance)
        return cls(np.full(n, np.nan), distance, from_own, describe(n, (True, note)))


def describe(n: int, *masked: tuple[BoolArray | bool, str]) -> Array:
    """Return the notes of n records, each said of those that its mask covers, of shape (n,)."""
    notes = np.full(n, "", dtype=object)
    for mask, text in masked:
        more = np.broadcast_to(mask, n) & bool(text)
        notes[more] = [f"{note}; {text}" if note else text for note in notes[more]]
    return notes
