"""Records and their other values that a noise goal must look at, counted block by block."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from skleak.utils._typing import IntArray

MOST_NAMED = 5


@dataclass(frozen=True)
class Rows:
    """Number of some records, and the positions of the first of them."""

    n: int
    first: tuple[int, ...]  # ascending, at most `MOST_NAMED`

    @classmethod
    def of(cls, rows: IntArray) -> Self:
        """Of ascending positions."""
        return cls(len(rows), tuple(map(int, rows[:MOST_NAMED])))

    def merged(self, other: "Rows") -> "Rows":
        """Of both."""
        return Rows(self.n + other.n, tuple(sorted(self.first + other.first)[:MOST_NAMED]))

    def __str__(self) -> str:
        """Name a few of them."""
        named = ", ".join(map(str, self.first))
        if self.n == 1:
            return f"the record at position {named}"
        more = f" and {self.n - MOST_NAMED} more" if self.n > MOST_NAMED else ""
        return f"any of {self.n} records (at positions {named}{more})"


@dataclass(frozen=True)
class Cases:
    """Candidates: a record, a secret, and another value of it."""

    moves: tuple[Rows, ...]  # records that move the rung, by secret
    n_undecided: tuple[int, ...]  # candidates that no bound settles, by secret
    undecided: Rows  # records that have one
    listed: IntArray  # the first candidates that no bound settles: position, secret, value, (m, 3)
    most: int  # that are listed

    @classmethod
    def of(cls, position: IntArray, *masks: Any) -> Self:
        """Of a block: masks (n, n_values) of the undecided ones and of those that move, in turn."""
        *given, most = masks
        undecided, moves = given[::2], given[1::2]
        rows = np.zeros(len(position), dtype=bool)
        listed = [np.zeros((0, 3), dtype=np.intp)]
        for k, mask in enumerate(undecided):
            rows |= np.any(mask, axis=1)
            i, m = np.nonzero(mask)
            listed.append(np.column_stack([position[i], np.full(len(i), k), m])[:most])
        return cls(
            tuple(Rows.of(position[np.any(mask, axis=1)]) for mask in moves),
            tuple(int(np.sum(mask)) for mask in undecided),
            Rows.of(position[rows]),
            np.concatenate(listed)[:most],
            int(most),
        )

    def merged(self, other: "Cases") -> "Cases":
        """Of both."""
        pairs = zip(self.moves, other.moves, strict=True)
        counts = zip(self.n_undecided, other.n_undecided, strict=True)
        return Cases(
            tuple(one.merged(more) for one, more in pairs),
            tuple(one + more for one, more in counts),
            self.undecided.merged(other.undecided),
            np.concatenate([self.listed, other.listed])[: self.most],
            self.most,
        )
