"""Releases of real fits, which games are played with where the noise is not drawn by us."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.adversary.hypotheses import PublicModel
from skleak.adversary.knowledge import TARGET_INDEX, raw_column, with_attribute
from skleak.utils._typing import Array, FloatArray, IntArray

# Games of a level in which a secret is drawn, at least where each target has as many.
_FITTED_GAMES = 1000


def games_each(n_targets: int, n_releases: int) -> int:
    """Games about each target, where each takes a fit: together at least a thousand, if asked."""
    return min(n_releases, -(-_FITTED_GAMES // n_targets))


@dataclass(frozen=True)
class FittedReleases:
    """What real fits released at one noise level, one for each game. Confidential."""

    parameters: FloatArray  # (n_games, p)
    # Whose secret was drawn in each game, and what: the position of a value, or a number. Of shape
    # (n_games,) each; empty with the records as they are.
    targets: IntArray
    secrets: Array


@dataclass(frozen=True)
class ChangedRecords:
    """Training records in each game: one value of one record is another. Confidential."""

    table: Any  # raw records, (n, n_columns)
    y: Array  # (n,)
    index: int  # of the secret column, or that of the target
    rows: IntArray  # (n_games,)
    values: Array  # (n_games,)
    public: PublicModel | None  # with the preprocessing that counts as public, if any

    def __call__(self, game: int) -> tuple[Any, Array]:
        """Return the records as the estimator takes them, and their targets."""
        row, value = self.rows[game], self.values[game]
        old = self.y if self.index == TARGET_INDEX else raw_column(self.table, self.index)
        column = old.astype(np.result_type(old.dtype, np.asarray(value).dtype))
        column[row] = value
        table, y = self.table, self.y
        if self.index == TARGET_INDEX:
            y = column
        else:
            table = with_attribute(table, self.index, column)
        return (table if self.public is None else self.public.transform(table)), y
