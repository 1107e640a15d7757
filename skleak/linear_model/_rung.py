"""Refuse a noise scale that would have been another one, had one record another value of few.

The noise scale of a goal that reads the records is a rung of a public ladder, and released. Whoever
knows all but one entry can compute it for every value of that entry: where it differs, the
release tells which values are ruled out. Nothing is done to mend that here: any choice of another
rung would be a function of the records in turn.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skleak.linear_model._calibration import LinearModelProblem
from skleak.mechanisms import MOST_VALUES, NoiseGoal, Secret
from skleak.solvers import Objective
from skleak.utils._typing import BoolArray, FloatArray, IntArray

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
_MOST_NAMED = 5


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
        self._refuse_undecided(secrets, [~self._own(secret) for secret in secrets])

    def run(self, rung: float) -> None:
        """Raise a ValueError that names the records that move a rung, if there are any."""
        secrets = self.goal.secrets(self.problem)
        found = [self._classify(secret, rung) for secret in secrets]
        for secret, (_, moves) in zip(secrets, found, strict=True):
            self._refuse(secret, np.any(moves, axis=1), rung)
        self._refuse_undecided(secrets, [undecided for undecided, _ in found])
        for secret, (undecided, _) in zip(secrets, found, strict=True):
            self._refuse(secret, np.any(self._refitted(secret, undecided, rung), axis=1), rung)

    def _own(self, secret: Secret) -> BoolArray:
        """Mask of the value that each record has, (n, n_values)."""
        own = self.problem.attribute_codes(secret)
        return np.asarray(own[:, None] == np.arange(len(secret.values)))

    def _classify(self, secret: Secret, rung: float) -> tuple[BoolArray, BoolArray]:
        """Candidates that no bound settles, and those that move the rung, (n, n_values) each."""
        same, brackets = self._own(secret), self.goal.brackets(self.problem, secret)
        if brackets is None:
            return ~same, np.zeros_like(same)
        inside, outside = within_rung(*brackets, rung, self._edge)
        return ~(inside | outside | same), outside & ~same

    @property
    def _edge(self) -> float:
        return max(_edge_of(self.problem), _EDGE_OVER_SEARCH_TOL * self.search_tol)

    @property
    def _most_fits(self) -> int:
        """Return the number of whole fits that are worth their work."""
        objective = self.problem.state.objective
        entries = len(objective.y) * self.problem.n_parameters**2
        searches = 1 if self.problem.state.balanced is None else _FITS_OF_A_SEARCH
        return int(min(_MOST_FITS, _MOST_WORK / entries) / searches)

    def _refitted(self, secret: Secret, undecided: BoolArray, rung: float) -> BoolArray:
        """Candidates that move the rung by a whole fit, of those that are undecided."""
        moves = np.zeros_like(undecided)
        for i, m in np.argwhere(undecided):
            try:
                changed = self.problem.with_value(int(i), secret, secret.values[m])
                needed = np.array(self.needed(changed))
            except ValueError:  # no such fit, or the goal is out of its reach: it is told apart
                moves[i, m] = True
                continue
            inside, _ = within_rung(needed, needed, rung, self._edge)
            moves[i, m] = not inside
        return moves

    def _refuse(self, secret: Secret, moves: BoolArray, rung: float) -> None:
        rows = self.problem.participants[moves]
        if not len(rows):
            return
        raise ValueError(
            f"The noise scale of {self.goal!r} would give records away: another value of "
            f"{secret.label} in {_records(rows)} would have made it another rung of the ladder of "
            f"powers of sqrt(2) than {rung:.6g}. {_ADVICE}"
        )

    def _refuse_undecided(self, secrets: list[Secret], undecided: list[BoolArray]) -> None:
        """Refuse where there are more candidates to settle by whole fits than these are worth."""
        if sum(int(cases.sum()) for cases in undecided) <= self._most_fits:
            return
        rows = self.problem.participants[np.any([np.any(u, axis=1) for u in undecided], axis=0)]
        labels = [s.label for s, u in zip(secrets, undecided, strict=True) if u.any()]
        named = ", ".join(labels[:_MOST_NAMED]) + (", ..." if len(labels) > _MOST_NAMED else "")
        raise ValueError(
            f"The noise scale of {self.goal!r} may give records away: that another value of "
            f"{named} in {_records(rows)} leaves it at its rung of the ladder of powers of sqrt(2) "
            "follows from no bound, and there are too many cases to fit each: the noise needed "
            "lies too near the edge of a rung, or no bounds are known for a goal or a model of "
            f"this kind. {_ADVICE}"
        )


def unchecked_moves(goal: NoiseGoal, problem: LinearModelProblem, rung: float) -> RungMoves:
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
        work += len(entry.values) * len(problem.participants) ** 2 * problem.n_parameters
        found = None if work > _MOST_COUNTING else goal.brackets(problem, entry)
        if found is None:
            break  # and so it is for the rest
        inside, _ = within_rung(*found, rung, _edge_of(problem))
        moves[entry.label] = int(np.sum(~np.all(inside, axis=1)))
    return moves


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


def _records(rows: IntArray) -> str:
    """Name a few records."""
    named = ", ".join(map(str, rows[:_MOST_NAMED].tolist()))
    if len(rows) == 1:
        return f"the record at position {named}"
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    return f"any of {len(rows)} records (at positions {named}{more})"
