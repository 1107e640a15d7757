"""Losses at every noise scale, outside memory.

What a noise goal may ask of a fit whose records lie outside memory.

Numbers of records are Dask arrays, with a row for every record; those that take no part are NaN, or
count as records that no other value would move.

Noise goals that read records which lie outside memory.

A table that is small enough is one block: what is done of records in memory is done where it lies,
and a number comes back.

Refuse a noise scale that would have been another one, had one record another value of few.

The noise scale of a goal that reads the records is a rung of a public ladder, and released. Whoever
knows all but one entry can compute it for every value of that entry: where it differs, the
release tells which values are ruled out. Nothing is done to mend that here: any choice of another
rung would be a function of the records in turn.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from skleak.exceptions import PartialBlockWarning
from skleak.influence.state import FitState, without_records
from skleak.linear_model.goals._problem import (
    MOST_NAMED,
    Cases,
    Distinct,
    LinearModelProblem,
    Listed,
    Rows,
    each_listed,
)
from skleak.mechanisms import NoiseGoal
from skleak.mechanisms.goals import MOST_VALUES, Secret
from skleak.report.guarantee import Promises
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add, dense, is_large, positions_of
from skleak.utils._records import feature_labels
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray


def problem_of(state: FitState, promises: Promises) -> LinearModelProblem:
    """Make the problem of a fit, wherever its records lie; ValueError where it did not converge."""
    kind = LargeProblem if is_large(state.objective.X) else LinearModelProblem
    return kind.of(state, promises)


class LargeProblem(LinearModelProblem):
    """A `LinearModelProblem` of records outside memory."""

    @property
    def positions(self) -> Any:
        """Positions of all records, (n,), lazily."""
        return positions_of(self.state.objective.X)

    @property
    def n_participants(self) -> int:
        """Number of records that take part."""
        return self.state.once(each_listed)[-1].n

    def sufficient_noise(self, eta: float, features: Any) -> Any:
        """Noise scale at which the loss of each record is eta, of shape (n,), lazily."""
        batch = self.state.training
        scales = self._leakage.sufficient_noise(batch, self._measured(features), eta)
        return np.where(batch.present, scales, np.nan)

    def own_values(self, secret: Secret) -> Any:
        """Mask of the value that each record has, (n, n_values), lazily."""
        objective = self.state.objective
        blocks = Blocks.of(objective.X, objective.y, objective.sample_weight, keep_sparse=True)
        return blocks.map(_own_values, secret.columns, secret.values)

    def attribute_codes(self, secret: Secret) -> Any:
        """Position of each record's own value among those of the secret, (n,), lazily."""
        return self.own_values(secret).argmax(axis=1)

    def _counts(self, secret: Secret) -> FloatArray:
        found = self._listed(secret.columns)
        return found.counts_of(secret.values) if found.is_complete else np.ones(len(secret.values))

    def _listed(self, columns: IntArray | None) -> Distinct:
        """Values of a block; of one column no more than show whether they are few."""
        if columns is None or len(columns) == 1:
            return self.state.once(each_listed)[-1 if columns is None else int(columns[0])]
        return self.state.once(Listed(tuple(columns.tolist())))

    def _values(self, columns: IntArray | None) -> FloatArray:
        found = self._listed(columns)
        if not found.is_complete:
            named = None if columns is None else tuple(columns.tolist())
            found = self.state.once(Listed(named))
        return found.values

    def _single(self, columns: IntArray | None) -> FloatArray:
        return self._listed(columns).values

    def one_hot_rows(self, columns: IntArray, j: int) -> tuple[IntArray, FloatArray]:
        """Columns of two values that are never set where column j is, and their distinct rows.

        None of them where these are too many for a one-hot block.
        """
        listed = self.state.once(each_listed)
        columns = np.array([k for k in columns if len(listed[k].values) == 2], dtype=np.intp)
        if j not in columns:
            return columns[:0], np.empty((1, 0))
        high = np.array([listed[k].values[-1, 0] for k in columns])
        records = self.state.objective.X, self.state.objective.sample_weight
        both = Blocks.of(*records, keep_sparse=True).map_reduce(
            _set_together, np.add, columns, high, int(np.flatnonzero(columns == j)[0])
        )
        columns = columns[(both == 0.0) | (columns == j)]
        found = self._listed(columns)
        return (columns, found.values) if found.is_complete else (columns[:0], np.empty((1, 0)))

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Refuse to bring together what has a vector of parameters for each record."""
        n = self.state.objective.n_records
        raise ValueError(
            f"`MaxAdvantage` measures a pair of models for each record, and {n} records outside "
            "memory are too many for the machine of one block. Use `MaxLeakage`, or find the noise "
            "on fewer public records by `goal.noise_scale_of(model)`."
        )

    def with_value(self, row: int, secret: Secret, value: FloatArray) -> Objective:
        """Give a record, which stays where it is, another value of a secret."""
        objective: Any = self.state.objective
        return objective.with_entries(row, secret.columns, value)


def _own_values(
    X: Data, y: FloatArray, s: FloatArray, columns: IntArray | None, values: FloatArray
) -> BoolArray:
    """Mask of the value that each record of a block has; all of them where it takes no part."""
    entries = y[:, None] if columns is None else dense(X[:, columns])
    own = np.all(entries[:, None, :] == values, axis=2)
    return np.asarray(own | (s <= 0.0)[:, None])


def _set_together(
    X: Data, s: FloatArray, columns: IntArray, high: FloatArray, j: int
) -> FloatArray:
    """Count records of a block with columns at their larger value along with the j-th, (k,)."""
    table = dense(X[:, columns])[s > 0.0] == high
    return np.asarray(table[table[:, j]].sum(axis=0), dtype=float)


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


# Entries of a table that is one block, 64 MB; and the work on it, in pairs of records times
# parameters.
_MOST_ENTRIES = 1 << 23
_MOST_WORK = 1e10
Found = TypeVar("Found")


def is_one_block(objective: Any) -> bool:
    """Return True for records that may be brought together on the machine of one block."""
    n, p = objective.n_records, objective.n_parameters
    return bool(n * p <= _MOST_ENTRIES and float(n) * n * p <= _MOST_WORK)


def calibrated_together(estimator: Any, state: FitState) -> FitState:
    """Resolve the goal of an estimator, and check its rung, with all records in one block."""
    twin = object.__new__(type(estimator))  # neither an earlier fit nor a ledger travels
    twin.__dict__.update(estimator.get_params(deep=False), ledger=None, verbose=0)
    for name in ("n_features_in_", "feature_names_in_", "classes_", "_weighted"):
        if name in vars(estimator):
            setattr(twin, name, getattr(estimator, name))
    twin.random_state = None if estimator.random_state is None else 0
    return state.at_noise(_together(state, lambda one: float(twin._calibrated(one).noise_scale)))


def asked(f: Callable[..., Found], state: FitState, promises: Promises, *small: Any) -> Found:
    """Return ``f(problem, *small)`` for the problem of a fit, wherever its records lie."""
    if is_large(state.objective.X) and is_one_block(state.objective):
        return _together(state, lambda one: f(LinearModelProblem.of(one, promises), *small))
    return f(problem_of(state, promises), *small)


def _together(state: FitState, f: Callable[[FitState], Found]) -> Found:
    """Call a function with all records in one block, and give the warnings of it."""
    bare = without_records(state)  # which travels with the function

    def told(objective: Objective) -> tuple[Found, list[tuple[type[Warning], str]]]:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = f(replace(bare, objective=objective))
        return found, [(one.category, str(one.message)) for one in warned]

    objective: Any = state.objective
    found, warned = objective.together(told)
    for kind, message in warned:
        warnings.warn(message, kind, stacklevel=outer_stacklevel())
    result: Found = found
    return result


# By entry; None where they were not counted.
RungMoves = dict[str, int | None]
# Whole fits that are made to settle what no bound settles, and the work they may take, in entries
# of a table of records times the parameters.
_MOST_FITS = 1000
_MOST_RUNG_WORK = 3e10
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
        return int(min(_MOST_FITS, _MOST_RUNG_WORK / entries) / searches)

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
