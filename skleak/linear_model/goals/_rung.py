"""Refuse a noise scale that would have been another one, had one record another value of few.

The noise scale of a goal that reads the records is a rung of a public ladder, and released. Whoever
knows all but one entry can compute it for every value of that entry: where it differs, the
release tells which values are ruled out. Nothing is done to mend that here: any choice of another
rung would be a function of the records in turn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skleak.linear_model.goals._cases import MOST_NAMED, Cases, Rows
from skleak.linear_model.goals._problem import LinearModelProblem
from skleak.mechanisms import MOST_VALUES, NoiseGoal, Secret
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import BoolArray, FloatArray

# By entry; None where they were not counted.
RungMoves = dict[str, int | None]

# Whole fits that are made to settle what no bound settles, and the work they may take, in entries
# of a table of records times the parameters.
_MOST_FITS = 1000
_MOST_WORK = 3e10
# The same for counts in a report, in pairs of records times parameters.
_MOST_COUNTING = 1e10
# A search for weights refits about this often.
_FITS_OF_A_SEARCH = 10
# Values nearer than this to the edge of a rung, relative to it, are not told from it; more where
# the fit was solved less well.
_EDGE, _EDGE_OVER_TOL, _EDGE_OVER_SEARCH_TOL = 1e-7, 1e3, 1e2


@dataclass(frozen=True)
class RungCheck:
    """The search for records that another value would have moved to another rung."""

    goal: NoiseGoal
    problem: LinearModelProblem
    # noise scale that the goal needs on another objective, by a whole fit
    needed: Callable[[Objective], float]
    # relative spread at which a search for weights stops, where there is one
    search_tol: float = 0.0

    def foresee(self) -> None:
        """Raise a ValueError where `run` will, whatever the rung, before that is found."""
        if self.problem.state.balanced is None:  # of all fits the one whose goals take long
            return
        secrets = [s for s in self.goal.secrets(self.problem) if len(s.values) <= MOST_VALUES]
        self._refuse_undecided(secrets, self._cases([self._open(secret) for secret in secrets]))

    def run(self, rung: float) -> None:
        """Raise a ValueError that names the records that move a rung, if there are any."""
        secrets = self.goal.secrets(self.problem)
        found = self._cases([self._classify(secret, rung) for secret in secrets])
        for secret, moves in zip(secrets, found.moves, strict=True):
            self._refuse(secret, moves, rung)
        self._refuse_undecided(secrets, found)
        for k, secret in enumerate(secrets):
            cases = found.listed[found.listed[:, 1] == k]
            moved = [row for row, _, m in cases.tolist() if self._moves(row, secret, m, rung)]
            self._refuse(secret, Rows.of(np.unique(moved)), rung)

    def _open(self, secret: Secret) -> tuple[Any, Any]:
        """All candidates, of which no bound is known, and none that moves the rung."""
        same = self.problem.own_values(secret)
        return ~same, np.zeros_like(same)

    def _classify(self, secret: Secret, rung: float) -> tuple[Any, Any]:
        """Candidates that no bound settles, and those that move the rung, (n, n_values) each."""
        brackets = self.goal.brackets(self.problem, secret)
        if brackets is None:
            return self._open(secret)
        same = self.problem.own_values(secret)
        inside, outside = within_rung(*brackets, rung, self._edge)
        return ~(inside | outside | same), outside & ~same

    def _cases(self, masks: list[tuple[Any, Any]]) -> Cases:
        """Count where the records lie what the masks of all secrets say of them."""
        flat = [mask for pair in masks for mask in pair]
        rows = Blocks.of(self.problem.positions, *flat, width=1 + sum(m.shape[1] for m in flat))
        return rows.map_reduce(Cases.of, Cases.merged, self._most_fits)

    @property
    def _edge(self) -> float:
        return max(_edge_of(self.problem), _EDGE_OVER_SEARCH_TOL * self.search_tol)

    @property
    def _most_fits(self) -> int:
        """Return the number of whole fits that are worth their work."""
        entries = self.problem.state.objective.n_records * self.problem.n_parameters**2
        searches = 1 if self.problem.state.balanced is None else _FITS_OF_A_SEARCH
        return int(min(_MOST_FITS, _MOST_WORK / entries) / searches)

    def _moves(self, row: int, secret: Secret, m: int, rung: float) -> bool:
        """Return True if a candidate moves the rung, by a whole fit."""
        try:
            changed = self.problem.with_value(row, secret, secret.values[m])
            needed = np.array(self.needed(changed))
        except ValueError:  # no such fit, or the goal is out of its reach: it is told apart
            return True
        inside, _ = within_rung(needed, needed, rung, self._edge)
        return not inside

    def _refuse(self, secret: Secret, moves: Rows, rung: float) -> None:
        if not moves.n:
            return
        raise ValueError(
            f"The noise scale of {self.goal!r} would give records away: another value of "
            f"{secret.label} in {moves} would have made it another rung of the ladder of "
            f"powers of sqrt(2) than {rung:.6g}. {_ADVICE}"
        )

    def _refuse_undecided(self, secrets: list[Secret], found: Cases) -> None:
        """Refuse where there are more candidates to settle by whole fits than these are worth."""
        if sum(found.n_undecided) <= self._most_fits:
            return
        labels = [s.label for s, n in zip(secrets, found.n_undecided, strict=True) if n]
        named = ", ".join(labels[:MOST_NAMED]) + (", ..." if len(labels) > MOST_NAMED else "")
        raise ValueError(
            f"The noise scale of {self.goal!r} may give records away: that another value of "
            f"{named} in {found.undecided} leaves it at its rung of the ladder of powers of "
            "sqrt(2) follows from no bound, and there are too many cases to fit each: the noise "
            "needed lies too near the edge of a rung, or no bounds are known for a goal or a model "
            f"of this kind. {_ADVICE}"
        )


def unchecked_moves(problem: LinearModelProblem, goal: NoiseGoal, rung: float) -> RungMoves:
    """Count the records that may move the rung by another value of an entry that is not checked.

    By entry: numeric ones, and those that the goal is not about. An upper bound, for a numeric
    entry at five values from the least to the largest of the column; None where no bounds are
    known, or all of them would take too much work.
    """
    checked = goal.secrets(problem)
    others = [e for e in problem.entries() if not any(e.is_in(secret) for secret in checked)]
    moves: RungMoves = dict.fromkeys(entry.label for entry in others)
    work = 0.0
    for entry in sorted(others, key=lambda entry: len(entry.values)):
        work += len(entry.values) * problem.n_participants**2 * problem.n_parameters
        found = None if work > _MOST_COUNTING else goal.brackets(problem, entry)
        if found is None:
            break  # and so it is for the rest
        inside, _ = within_rung(*found, rung, _edge_of(problem))
        still = Blocks.of(inside | problem.own_values(entry), width=1)
        moves[entry.label] = still.map_reduce(_count_moving, add)
    return moves


def _count_moving(still: BoolArray) -> int:
    return int(np.sum(~np.all(still, axis=1)))


_ADVICE = (
    "Pass a number as `noise_scale`, for instance `goal.noise_scale_of(model)` of a model that was "
    "fitted on public data; or another value of the goal, which must not be searched for on these "
    "records."
)


def within_rung(
    low: FloatArray, high: FloatArray, rung: float, edge: float
) -> tuple[BoolArray, BoolArray]:
    """Masks of the brackets of noise scales that certainly have a rung, and certainly have not."""
    below = rung / np.sqrt(2.0)
    inside = (low > below * (1.0 + edge)) & (high < rung * (1.0 - edge))
    outside = (high < below * (1.0 - edge)) | (low > rung * (1.0 + edge))
    if rung == 0.0:
        inside = high == 0.0
    return inside, outside


def _edge_of(problem: LinearModelProblem) -> float:
    return max(_EDGE, _EDGE_OVER_TOL * problem.promises.tol)
