"""Goals that name some columns of a one-hot block, none of which changes alone."""

import warnings
from dataclasses import dataclass, field

import numpy as np

from skleak.exceptions import PartialBlockWarning
from skleak.linear_model.goals._problem import LinearModelProblem
from skleak.mechanisms import NoiseGoal
from skleak.utils._features import feature_labels
from skleak.utils._typing import BoolArray, IntArray
from skleak.utils._warnings import outer_stacklevel

# Columns to either side among which the rest of a block is looked for, and the steps of the search.
_REACH, _MOST_STEPS = 200, 1000
_MOST_NAMED = 8


def warn_of_partial_blocks(goal: NoiseGoal, problem: LinearModelProblem) -> None:
    """Warn where a goal names columns of a one-hot block, and not all of them."""
    if goal.named_columns is None:
        return
    named = problem.block(goal.named_columns).columns
    if named is None:  # the target
        return
    for j in named.tolist():
        block = one_hot_block(problem, j)
        if len(block) < 2 or np.all(np.isin(block, named)):
            continue
        state = problem.state
        labels = feature_labels(state.feature_names, state.n_features)
        listed = [labels[k] for k in block[:_MOST_NAMED].tolist()]
        more = f" and {len(block) - _MOST_NAMED} more" if len(block) > _MOST_NAMED else ""
        warnings.warn(
            f"{type(goal).__name__} names {labels[j]!r}, one column of the block {listed}{more}, "
            "of which exactly one is set in every record: it never changes alone. The noise is for "
            "a change that nobody can have, often many times too much. Name the whole block; or "
            "find that for the raw column with skleak.mechanisms.calibrate(pipeline, goal, X, y).",
            PartialBlockWarning,
            stacklevel=outer_stacklevel(),
        )
        return


def one_hot_block(problem: LinearModelProblem, j: int) -> IntArray:
    """Columns of two values of which exactly one is at its larger value in every record, with j.

    Returns (k,), ascending; empty where there are none.
    """
    last = problem.state.n_features
    columns = np.arange(max(0, j - _REACH), min(last, j + _REACH + 1))
    columns, table = problem.one_hot_rows(columns, j)
    low, high = table.min(axis=0), table.max(axis=0)
    two = (low < high) & np.all((table == low) | (table == high), axis=0)
    if not two[columns == j].any():
        return columns[:0]
    nearest = np.argsort(np.abs(columns - j), kind="stable")
    order = nearest[two[nearest]]  # j first
    found = _Cover((table == high)[:, order]).search()
    return np.sort(columns[order[found]])


@dataclass
class _Cover:
    """Search for columns that are set once in every row, the first of them included."""

    table: BoolArray  # Which columns are set, (n, k)
    steps: int = field(default=0, init=False)

    def search(self) -> list[int]:
        """Positions of such columns; empty where there are none, or they were not found."""
        free = np.flatnonzero(~np.any(self.table & self.table[:, :1], axis=0))
        return self._extended([0], self.table[:, 0], free)

    def _extended(self, chosen: list[int], covered: BoolArray, free: IntArray) -> list[int]:
        """Add columns from those that are never set where one of the chosen is."""
        if np.all(covered):
            return chosen
        open_row = int(np.argmin(covered))
        for k in free[self.table[open_row, free]].tolist():
            self.steps += 1
            if self.steps > _MOST_STEPS:
                break
            own = self.table[:, k]
            rest = free[~np.any(self.table[:, free] & own[:, None], axis=0)]
            if found := self._extended([*chosen, k], covered | own, rest):
                return found
        return []
