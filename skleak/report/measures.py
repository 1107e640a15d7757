"""How far apart releases are under other values of one column, for every record of a fit.

A few records of a column are solved for: those whose estimates by one Newton step are largest, and
those of rare values. Where records lie plays no part: of a block of them the few are found first
(`Leads`), solved for where they are in memory (`solve`), and put among the estimates of all.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skleak.exceptions import NoMinimizerWarning
from skleak.influence.jacobian import MultinomialFactor
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import (
    OneStep,
    candidate_encodings,
    largest_distances,
    largest_leverage,
    target_encodings,
    whitened,
)
from skleak.influence.state import FitState, RecordBatch
from skleak.report.tables import Separation
from skleak.report.unknowns import Unknown
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._linalg import warn_if_costly
from skleak.utils._summaries import Largest, Merged
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray

# Gain that is tolerated where nobody states a limit, as in audits.
LIMIT = 0.05
# From here on the answer is right three times in four, at even odds, or more often.
MUCH = 0.5
# Values that fewer records have than this share give away who has them.
RARE = 0.05

# Multiplications and additions that exact encodings of a report may take.
MOST_WORK = 1e10
_RATE = 1e9  # of these, a second
_ROUNDS = 3
# What estimates may
# err by rounding; and their bounds from which on records of a rare value are solved for; relative.
_SLACK, _SHARP = 1e-7, 1e-2
_PASSES, _REWEIGHTED_PASSES = 3.0, 30.0
_SYSTEM = 3e8  # as much as a system of its own takes for each value, however small it is
_MOST_PARAMETERS = 100  # of a fit whose reweighting is solved for
# Relative to the parameters, distances at unit noise below this are rounding.
_ROUND_OFF = 1e-13
# Nodes of the normal law of a number, and the step between its values, in standard deviations.
_N_NODES, _STEP = 7, 0.01
# Records whose numbers are looked at to find those that are known best.
_MOST_EXPOSED = 128
# Entries of the table of changed records of columns that are solved for together: 8 MB.
_TOGETHER = 1 << 20

ESTIMATED = "by one Newton step: there are too many records to solve for each"
OTHERS = "of all but the most exposed record by one Newton step"
FIRST_ORDER = "to first order: a change of this kind has no exact answer under a reweighting"
SHAPE = "the covariance of the noise is a function of the records: what it tells comes on top"
GOAL = "the noise scale is a function of the records: what it tells comes on top"
UNREACHED = "another value has no minimizer that could be reached: nothing bounds what it tells"
TOGETHER = "a block of numbers, all of them moved together"
BOUND = "by the guarantee for a record of this length: how much of it is gained is not known"
ONE_VALUE = "all records have the same value"


def longest_record(state: FitState) -> float:
    """Largest leverage of a record of a fit, where estimates are bounded by it."""
    one = not isinstance(state.factor, MultinomialFactor) and state.balanced is None
    if not one or state.persons is not None or state.objective.loss.quadratic:
        return np.inf
    return state.once(largest_leverage)


# A column, places of some records (b,), and values of it, (m, k) or (b, m, k).
Request = tuple[Unknown, IntArray, FloatArray]


@dataclass(frozen=True)
class Separator:
    """Some records of a fit, and how far apart their values are."""

    state: FitState
    batch: RecordBatch
    rows: IntArray  # positions in the training data, -1 for records that were not trained on, (n,)
    work: float = MOST_WORK  # for each column
    note: str = ""  # what holds for all columns
    n_training: int = 0  # records of the fit, where the state has none; 0 for those it has
    outside: bool = False  # whether the records of the fit lie outside memory
    fewest: int = 8  # records of a column that are solved for, whatever the work
    exact: bool = False  # whether all are solved for that can be
    longest: float | None = None  # see `OneStep`; None for that of the fit
    # Distances, (n,), and shares of them that they may err by, of single precision.
    _moved: dict[int, tuple[FloatArray, Array]] = field(default_factory=dict, repr=False)
    _targets: dict[int, tuple[FloatArray, ...]] = field(default_factory=dict, repr=False)
    # Held, as what is kept of each goes by its identity.
    _looked: list[Unknown] = field(default_factory=list, repr=False)

    @cached_property
    def one_step(self) -> OneStep | None:
        """All records, prepared for one Newton step; None where there is no such answer."""
        if isinstance(self.state.factor, MultinomialFactor) or self.batch.persons is not None:
            return None
        longest = self.longest
        if longest is None:
            longest = longest_record(self.state)
        return OneStep.of(self.state, self.batch, longest)

    def measure(self, unknown: Unknown) -> Separation:
        """Distances between the values of a column of every record, of which few are solved for."""
        position, solved = np.arange(len(self.rows)), None
        if self.state.converged:
            solved = solve(self, [unknown], [Leads.of(self, unknown, position)], position)[0]
        return self.put(unknown, solved, position)

    def put(self, unknown: Unknown, solved: "Solved | None", position: IntArray) -> Separation:
        """Distances of all records, those solved for among the estimates of the others.

        Shapes: ``position`` (n,), as those of what was solved count.
        """
        own, present = unknown.entries(self.batch.X, self.batch.y), self.batch.present
        distances, exact = np.full((2, len(own)), np.nan), np.zeros(len(own), dtype=bool)
        note = ""
        if solved is not None:
            distances, _, exact = self.estimated(unknown, own)
            distances = distances.copy()
            here = np.searchsorted(position, solved.position)  # where they are of this block
            inside = np.flatnonzero(np.append(position, -1)[here] == solved.position)
            here = here[inside]
            distances[:, here], exact[here] = solved.distances[:, inside], solved.exact[inside]
            lost = ~np.isfinite(distances[0])
            told, some_lost = bool(np.all(exact | lost | ~present)), bool(np.any(lost & present))
            distances[:, ~present] = 0.0
            distances = self.over_noise(distances)
            note = self.why(unknown, told, some_lost, solved.settled)
        number, few = unknown.kind == "number", unknown.values is not None
        return Separation(
            unknown.name,
            unknown.kind,
            float(len(unknown.values)) if unknown.values is not None else np.nan,
            distances[0],
            distances[1],
            unknown.shares(own),
            exact,
            "; ".join(filter(None, (note, self.note))),
            float(unknown.sd[0]) if number else np.nan,
            float(unknown.step[0]) if number else np.nan,
            solved.information if solved is not None else np.nan,
            float(unknown.counts[unknown.counts > 0.0].min(initial=np.inf)) if few else np.nan,
            float(unknown.sd[0]) if len(unknown.sd) == 1 else np.nan,
        )

    def estimate(self, unknown: Unknown) -> float:
        """Largest distance between the values of a column, without solving for any record."""
        distances = self._estimated(unknown)[0][0]
        return float(self.over_noise(distances[self.batch.present].max()))

    def most_solved(self, n_values: int) -> int:
        """Return the records of a column to solve for in a round, at so many values each."""
        if self.exact:
            return len(self.rows)
        return max(self.fewest, int(self.work / self._cost(n_values)))

    def estimated(
        self, unknown: Unknown, own: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Distances at unit noise for all records without solving for any, (2, n).

        With bounds on what they err by, and where they are exact, (n,) each.
        """
        n, one = len(own), self.one_step
        sharp = self.state.objective.loss.quadratic and self._differentiable
        if one is not None and own.shape[1] == 1:
            moves = unknown.moves
            done = sharp and (moves is not None or one.compares_all(unknown.n_candidates))
            exact = np.full(n, done) & (self.rows >= 0)
            if unknown.columns is None and self.state.balanced is None:
                if id(unknown) not in self._targets:
                    self._looked.append(unknown)
                    self._targets[id(unknown)] = one.targets(unknown.candidates(own)[..., 0])
                between, apart, error = self._targets[id(unknown)]
                between = apart if unknown.values is None else between
                return np.stack([between, apart]), error, exact
            if moves is not None:
                if id(unknown) not in self._moved:
                    self.look([unknown])
                distance, held = self._moved[id(unknown)]
                share = (held.astype(np.uint32) << 16).view(np.float32)
                error = np.zeros(n)
                if share.any():
                    with np.errstate(invalid="ignore"):
                        error = np.where(share > 0.0, share * distance, 0.0)
                return np.broadcast_to(distance, (2, n)), error, exact
            if unknown.columns is not None:
                values = unknown.candidates(own)[:, 0]
                *pair, error = one.column(int(unknown.columns[0]), values)
                return np.stack(pair), error, exact
        loss = self._unit_losses(unknown, np.s_[:])
        unbounded = np.full(n, np.inf)
        return np.tile(loss * unknown.span, (2, 1)), unbounded, np.zeros(n, dtype=bool)

    def look(self, unknowns: Sequence[Unknown]) -> None:
        """Estimate distances of all columns of one entry together, which is cheaper."""
        self._looked.extend(unknowns)
        one, groups = self.one_step, dict[float, list[Unknown]]()
        for each in unknowns:
            if one is not None and each.moves is not None:
                groups.setdefault(each.moves[0][1], []).append(each)
        width = 16 if self.state.objective.loss.quadratic else 8  # as bounds take room, too
        parts = [g[part] for g in groups.values() for part in row_blocks(len(g), 1, width)]
        for some in parts:
            assert one is not None
            self._moved.update(zip(map(id, some), self._look_at(one, some), strict=True))

    @staticmethod
    def _look_at(one: OneStep, some: Sequence[Unknown]) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Distances of some columns, and what share of them they may err by."""
        columns = np.concatenate([each.columns for each in some])
        pairs = zip(*(each.moves for each in some), strict=True)
        moves = [(np.concatenate([start for start, _ in m]), m[0][1]) for m in pairs]
        distances, errors = one.moved(columns, moves)
        held = np.broadcast_to(np.zeros(1, dtype=np.uint16), errors.shape)
        if errors.any():
            share = np.zeros(errors.shape, dtype=np.float32)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                np.divide(errors, distances, out=share, where=errors > 0.0, casting="same_kind")
                share *= 1.0 + 1e-6
            # The upper half of each, rounded up.
            held = ((share.view(np.uint32) + 0xFFFF) >> 16).astype(np.uint16)
        return zip(distances.copy(), held, strict=True)

    def _unit_losses(self, unknown: Unknown, which: IntArray | slice) -> FloatArray:
        """Fisher information loss of some records about a column, at unit noise, (b,)."""
        unit = leakage_model(self.state.at_noise(1.0))
        return unit.feature_loss(self.batch.take(which), [unknown.block])[:, 0]

    def solvable(self, unknown: Unknown) -> bool:
        """Return True if distances of a column have an exact answer."""
        if self.state.balanced is None:
            return True
        few = len(self.state.factor.coefficients) <= _MOST_PARAMETERS
        return not self.outside and unknown.columns is not None and few

    def _cost(self, n_values: int) -> float:
        """Work of one record."""
        n = self.n_training or self.state.objective.n_records
        p = self.state.factor.coefficients.size
        if self.state.balanced is not None:
            return n_values * (_SYSTEM + _REWEIGHTED_PASSES * n * p)
        passes = 0.0 if self.state.objective.loss.quadratic else _PASSES * n * p
        return p * p + n_values * (passes + p)

    def announce(self, unknowns: Sequence[Unknown]) -> None:
        """Warn where solving for all of these records takes long."""
        values = (one.n_candidates for one in unknowns)
        seconds = len(self.rows) * sum(map(self._cost, values)) / _RATE
        instead = "Leave `exact=False`, or ask for few records, or for few columns by `features`."
        warn_if_costly(f"Solving for {len(self.rows)} records exactly", seconds, 0.0, instead)

    def solved(self, requests: Sequence[Request]) -> list[FloatArray]:
        """Exact distances of some records at unit noise, (2, b) each; infinite where not known."""
        found = []
        for (unknown, which, _), points in zip(requests, self._points(requests), strict=True):
            fit = self.state.factor.coefficients
            fit = np.broadcast_to(fit, (len(which), 1, len(fit)))
            white = whitened(self.state, np.concatenate([fit, points], axis=1))
            own = np.linalg.norm(white[:, 1:] - white[:, :1], axis=2).max(axis=1)
            pair = own if unknown.values is None else largest_distances(white)
            distances = np.stack([pair, own])
            found.append(np.where(np.isnan(distances), np.inf, distances))
        return found

    def _points(self, requests: Sequence[Request]) -> list[FloatArray]:
        """Minimizers of some records at other values, (b, m, p) each.

        Columns are solved for together, as each search over all records has a price of its own.
        """
        state, d = self.state, self.state.n_features
        apart = self.batch.persons is not None or state.balanced is not None
        groups: dict[Any, list[int]] = {}
        filled, found = Counter[int](), dict[int, FloatArray]()
        for k, (unknown, which, values) in enumerate(requests):
            n_values = values.shape[-2]
            entries = len(which) * n_values * d
            alone = apart or unknown.columns is None or entries > _TOGETHER
            group = k if alone else (n_values, filled[n_values] // _TOGETHER)
            groups.setdefault(group, []).append(k)
            filled[n_values] += 0 if alone else entries
        for members in groups.values():
            some = [requests[k] for k in members]
            if len(some) == 1:
                found[members[0]] = self._points_of(*some[0])
                continue
            rows = self.rows[np.concatenate([which for _, which, _ in some])]
            X, ends = dense(state.objective.X[rows]), np.cumsum([len(one[1]) for one in some])
            table = np.repeat(X[:, None], some[0][2].shape[-2], axis=1)
            for part, (unknown, _, values) in zip(np.split(table, ends[:-1]), some, strict=True):
                part[:, :, unknown.columns] = values
            points = self._encoded(X, rows, np.arange(d), table, rows)
            found |= zip(members, np.split(points, ends[:-1]), strict=True)
        return [found[k] for k in range(len(requests))]

    def _points_of(self, unknown: Unknown, which: IntArray, values: FloatArray) -> FloatArray:
        """Minimizers of some records at other values of one column, (b, m, p)."""
        state, rows = self.state, self.rows[which]
        moved: Any = rows
        if self.batch.persons is not None:
            moved = self.batch.persons.take(which)
            rows = moved.rows
            if values.ndim == 3:  # a number moves alike in all rows
                own = unknown.entries(state.objective.X[rows], state.objective.y[rows])
                values = unknown.candidates(own)
        if unknown.columns is None:
            return target_encodings(state, moved, values[..., 0])
        return self._encoded(state.objective.X[rows], rows, unknown.columns, values, moved)

    def _encoded(
        self, X: Data, rows: IntArray, columns: IntArray, values: FloatArray, moved: Any
    ) -> FloatArray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the report says it
            y = self.state.objective.y[rows]
            return candidate_encodings(self.state, X, y, columns, values, rows=moved)

    def information(self, asked: Sequence[tuple[Unknown, IntArray | None]]) -> list[float]:
        """Largest information about numbers, averaged over normal laws of their mean and spread.

        Beside each are the records to look at, (b,); None takes those that may be known best.
        """
        noise, squares = self.state.noise_scale, [np.zeros(1) for _ in asked]
        averaged: dict[int, tuple[Unknown, IntArray]] = {}
        self.look([one for one, _ in asked])
        for k, (unknown, exposed) in enumerate(asked):
            if not unknown.sd[0] > 0.0:
                continue
            if exposed is None:
                which, told = self.exposure(unknown)
                exposed = which[np.argsort(-told, kind="stable")[: self.n_exposed]]
            known = exposed[self.rows[exposed] >= 0]
            if self._differentiable and len(known) and self._sharp(unknown, known):
                squares[k] = self._speeds(known, unknown)
            elif self._differentiable and len(known):
                averaged[k] = unknown, known
            else:
                squares[k] = self._unit_losses(unknown, exposed) ** 2
        for k, found in zip(averaged, self._averaged(list(averaged.values())), strict=True):
            squares[k] = found
        if noise == 0.0:
            return [np.inf if np.any(one > 0.0) else 0.0 for one in squares]
        # Its square may overflow.
        return [float(np.max(one, initial=0.0)) / noise / noise for one in squares]

    @property
    def _differentiable(self) -> bool:
        """True if encodings tell all, and are sharp enough to be differentiated."""
        return not self.state.noise.reads_data and self.state.balanced is None

    def exposure(
        self, unknown: Unknown, distances: FloatArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Estimate how well a number of some records may be known: which, and how well, (m,) each.

        Of many records those of which a step tells most, by its estimated ``distances`` (n,).
        """
        one = self.one_step if self._differentiable else None
        if one is None or unknown.columns is None:
            squares = self._unit_losses(unknown, np.s_[:]) ** 2 if one is None else one.of_target
            return np.arange(len(squares)), np.where(self.batch.present, squares, 0.0)
        some = np.flatnonzero(self.batch.present)
        if len(some) > 2 * _MOST_EXPOSED:
            far = self._estimated(unknown)[0][0] if distances is None else distances
            some = np.sort(some[np.argpartition(far[some], -_MOST_EXPOSED)[-_MOST_EXPOSED:]])
        return some, self._speeds(some, unknown)

    def _speeds(self, some: IntArray, number: Unknown) -> FloatArray:
        """Information about a number in some records, by one Newton step, (b,)."""
        assert self.one_step is not None
        assert number.columns is not None
        mean, sd = float(number.mean[0]), float(number.sd[0])
        given = int(number.columns[0]), *_normal(mean, sd), _STEP * sd
        return self.one_step.take(some).information(*given)

    def _sharp(self, unknown: Unknown, some: IntArray) -> bool:
        """Return True if one Newton step is as good as exact for a number of some records."""
        if self.one_step is None or unknown.columns is None:
            return False
        distances, error, _ = self._estimated(unknown)
        return bool(np.all(error[some] <= _SHARP * distances[0, some]))

    def _estimated(self, unknown: Unknown) -> tuple[FloatArray, FloatArray, BoolArray]:
        own = unknown.entries(self.batch.X, self.batch.y)
        return self.estimated(unknown, own)

    @property
    def n_exposed(self) -> int:
        """Return how many records are looked at to find what is known best."""
        return int(np.clip(self.work / self._cost(2 * _N_NODES), 1, 3))

    def _averaged(self, asked: Sequence[tuple[Unknown, IntArray]]) -> list[FloatArray]:
        """Information of some records averaged over the prior, at unit noise, (b,) each.

        Infinite where the prior reaches values without a minimizer, such as counts below zero that
        outweigh all others: on the way to them it moves without bound.
        """
        requests = [
            (one, which, prior_ends(float(one.mean[0]), float(one.sd[0]))[:, None])
            for one, which in asked
        ]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoMinimizerWarning)  # that is what infinity says
                points = self._points(requests)
        except FloatingPointError:
            if len(asked) == 1:
                return [np.full(len(asked[0][1]), np.inf)]
            return [self._averaged([one])[0] for one in asked]
        return [
            averaged_information(whitened(self.state, each), float(one.sd[0]))
            for (one, _), each in zip(asked, points, strict=True)
        ]

    def over_noise(self, distances: FloatArray) -> FloatArray:
        """Distances at unit noise in units of the noise; those that are rounding are zero."""
        size = max(1.0, float(np.linalg.norm(self.state.factor.coefficients)))
        moved = np.where(distances > _ROUND_OFF * size, distances, 0.0)
        if self.state.noise_scale > 0.0:
            moved /= self.state.noise_scale
            return np.asarray(moved)
        return np.where(moved > 0.0, np.inf, 0.0)

    def why(self, unknown: Unknown, exact: bool, lost: bool, settled: bool) -> str:
        """Say what should be known of the distances of a column."""
        if unknown.values is not None and len(unknown.values) == 1:
            return ONE_VALUE
        told = [TOGETHER if unknown.kind == "numbers" else "", UNREACHED if lost else ""]
        if self.state.noise.reads_data:
            told.append(SHAPE)
        elif not exact:
            estimated = OTHERS if settled else ESTIMATED
            told.append(estimated if self.solvable(unknown) else FIRST_ORDER)
        return "; ".join(filter(None, told))


@dataclass(frozen=True)
class BoundedSeparator(Separator):
    """The same where the noise is not on the minimizer: distances or bounds from rows alone."""

    @cached_property
    def one_step(self) -> None:
        """Newton steps tell nothing of such releases."""
        return None

    def estimated(
        self, unknown: Unknown, own: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Distances in units of the noise, (2, n), none of which is an estimate."""
        n = len(own)
        if unknown.values is not None and len(unknown.values) == 1:
            return np.zeros((2, n)), np.zeros(n), np.ones(n, dtype=bool)
        values = unknown.candidates(own)
        distances = leakage_model(self.state).apart(self.batch, unknown.columns, values)
        if unknown.values is None:  # a number is held against its own
            distances[0] = distances[1]
        return distances, np.zeros(n), np.ones(n, dtype=bool)

    def solvable(self, unknown: Unknown) -> bool:
        """No record has to be solved for."""
        return False

    def exposure(
        self, unknown: Unknown, distances: FloatArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Look at no record: information averaged over a prior is not known."""
        return np.zeros(0, dtype=np.intp), np.zeros(0)

    def information(self, asked: Sequence[tuple[Unknown, IntArray | None]]) -> list[float]:
        """Information averaged over a prior is not known."""
        return [np.nan] * len(asked)

    def over_noise(self, distances: FloatArray) -> FloatArray:
        """Distances are in units of the noise."""
        return distances

    def why(self, unknown: Unknown, exact: bool, lost: bool, settled: bool) -> str:
        """Say what should be known of the distances of a column."""
        if unknown.values is not None and len(unknown.values) == 1:
            return ONE_VALUE
        return "" if leakage_model(self.state).told_exactly(unknown.columns) else BOUND


@dataclass(frozen=True)
class Leads(Merged):
    """Records of which a column may be told best, to be solved for.

    Records go by what their distance is at most. Where what is known of that is no bound, or one
    of more than twice the distance, they go by the latter, and are counted.
    """

    far: Largest  # ``distances`` (m, 2) of two values, and from the own one
    n_open: int  # records that may be solved for
    n_unbounded: int  # records of which what is known is no bound
    rare: Largest  # the first ones of a rare value whose estimates are not sharp
    exposed: Largest  # by how well a number may be known

    @classmethod
    def of(cls, separator: Separator, unknown: Unknown, position: IntArray) -> Self:
        """Find them in a block of records."""
        batch = separator.batch
        own = unknown.entries(batch.X, batch.y)
        distances, error, exact = separator.estimated(unknown, own)
        which, known = np.zeros(0, dtype=np.intp), np.zeros(0)
        if unknown.kind == "number" and float(unknown.sd[0]) > 0.0:
            which, known = separator.exposure(unknown, distances[0])
        there = batch.present[which]
        exposed = Largest.of(separator.n_exposed, known, position[which], {}, there)
        asked = batch.present & ~exact
        open_ = np.flatnonzero(separator.solvable(unknown) & (separator.rows >= 0) & asked)
        most, lost = separator.most_solved(unknown.n_candidates), int(asked.sum()) - len(open_)
        distances, error, position = distances[:, open_], error[open_], position[open_]
        unbounded = ~(error <= distances[0])
        highest = distances[0] * (1.0 + _SLACK) + np.where(unbounded, 0.0, error)
        told = {"distances": distances.T, "highest": highest, "unbounded": unbounded}
        far = Largest.of(_ROUNDS * most + 1, highest, position, told)
        blurred = (unknown.shares(own[open_]) <= RARE) & ~(error <= _SHARP * distances[0])
        rare = Largest.of(most, np.zeros(len(open_)), position, told, blurred)
        return cls(far, len(open_), lost + int(unbounded.sum()), rare, exposed)


@dataclass(frozen=True)
class Solved:
    """Exact distances of some records at unit noise."""

    position: IntArray  # ascending, (m,)
    distances: FloatArray  # of two values, and from the own one, (2, m)
    exact: BoolArray  # (m,)
    settled: bool  # whether no other record may be told better
    information: float  # about a number, averaged over its prior; NaN for values


@dataclass
class _Search:
    """Search for the records of a column whose values lie furthest apart."""

    unknown: Unknown
    position: IntArray  # of the records that may be solved for, ascending, (m,)
    where: IntArray  # their places in the separator, (m,)
    candidates: FloatArray
    distances: FloatArray  # estimates, and then what was solved, (2, m)
    highest: FloatArray  # what the first of them is at most, see `Leads`, (m,)
    unbounded: BoolArray  # where that is no bound, (m,)
    n_unbounded: int  # of all records, whether they may be solved for or not
    others: float  # what those of other records are at most, but where that is no bound
    rare: IntArray  # places of those with a rare value, which are all solved for
    first: int  # records of the first round
    most: int  # records of a round
    exact: BoolArray  # (m,)
    solved: BoolArray  # (m,)

    @classmethod
    def of(cls, separator: Separator, unknown: Unknown, leads: Leads, positions: IntArray) -> Self:
        """Start from the estimates."""
        some = np.union1d(leads.far.position, leads.rare.position).astype(np.intp)
        where, batch = np.searchsorted(positions, some), separator.batch
        candidates = unknown.candidates(unknown.entries(batch.X[where], batch.y[where]))
        distances, none = np.empty((2, len(some))), np.zeros((3, len(some)), dtype=bool)
        highest, (unbounded, *more) = np.empty(len(some)), none
        for found in (leads.far, leads.rare):
            place, told = np.searchsorted(some, found.position), found.columns
            distances[:, place], highest[place] = told["distances"].T, told["highest"]
            unbounded[place] = told["unbounded"]
        rare = np.searchsorted(some, leads.rare.position)
        most = separator.most_solved(unknown.n_candidates)
        # All, where there is time for all, or nothing tells which are enough.
        first = most if leads.n_open <= most or unbounded.any() else 1
        others = leads.far.score[-1] if leads.n_open > len(leads.far) else -np.inf
        estimates = distances, highest, unbounded, leads.n_unbounded, float(others)
        return cls(unknown, some, where, candidates, *estimates, rare, first, most, *more)

    @property
    def best(self) -> float:
        """Largest distance of those that were solved for."""
        return float(self.distances[0].max(where=self.solved, initial=-np.inf))

    @property
    def settled(self) -> bool:
        """True if no record that was not solved for lies further apart."""
        n_unbounded = self.n_unbounded - int(np.sum(self.unbounded & self.solved))
        rest = self.highest.max(where=~self.solved, initial=self.others)
        return n_unbounded == 0 and bool(rest <= max(self.best, 0.0))

    def next(self) -> IntArray:
        """Choose records to solve for, (b,); none where no other may lie further apart."""
        farther = ~self.solved & (self.highest > self.best)
        # What is an estimate may be too low: so may be that of the next ones.
        open_ = np.flatnonzero(~self.solved & (farther | (farther.any() & self.unbounded)))
        order = open_[np.argsort(-self.highest[open_], kind="stable")]
        most = self.most if self.solved.any() else self.first
        return np.union1d(order[:most], self.rare[~self.solved[self.rare]])

    def request(self, which: IntArray) -> Request:
        """Ask for the distances of some records."""
        values = self.candidates if self.candidates.ndim == 2 else self.candidates[which]
        return self.unknown, self.where[which], values


def solve(
    separator: Separator, unknowns: Sequence[Unknown], leads: Sequence[Leads], positions: IntArray
) -> list[Solved]:
    """Solve for the records whose estimates are largest, until none of the others may be larger.

    Shapes: ``positions`` (m,), ascending, of the records of the separator.
    """
    pairs = zip(unknowns, leads, strict=True)
    searches = [_Search.of(separator, *pair, positions) for pair in pairs]
    for _ in range(_ROUNDS):
        some = [(one, which) for one in searches if len(which := one.next())]
        found = separator.solved([one.request(which) for one, which in some])
        for (one, which), distances in zip(some, found, strict=True):
            one.distances[:, which], one.solved[which] = distances, True
            one.exact[which] = np.isfinite(distances[0]) & (not separator.state.noise.reads_data)
    numbers = [k for k, one in enumerate(unknowns) if one.kind == "number"]
    asked = list[tuple[Unknown, IntArray | None]]()
    for k in numbers:
        asked.append((unknowns[k], np.searchsorted(positions, leads[k].exposed.position)))
    known = dict(zip(numbers, separator.information(asked), strict=True))
    return [
        Solved(
            one.position[one.solved],
            one.distances[:, one.solved],
            one.exact[one.solved],
            one.settled,
            known.get(k, np.nan),
        )
        for k, one in enumerate(searches)
    ]


def prior_ends(mean: float, sd: float) -> FloatArray:
    """Values of a number around the nodes of its prior, (2 m,): below all, then above all."""
    nodes = _normal(mean, sd)[0]
    return np.concatenate([nodes - _STEP * sd, nodes + _STEP * sd])


def averaged_information(points: FloatArray, sd: float) -> FloatArray:
    """Squared speed of the minimizer, averaged over a prior, at its `prior_ends`.

    Shapes: ``points`` (b, 2 m, p), whitened; returns (b,).
    """
    below, above = np.split(points, 2, axis=1)
    speeds = np.linalg.norm(above - below, axis=2) / (2.0 * _STEP * sd)
    information = speeds**2 @ _normal(0.0, sd)[1]
    return np.asarray(np.where(np.isnan(information), np.inf, information))


_gauss_hermite = cache(np.polynomial.hermite_e.hermegauss)


def _normal(mean: float, sd: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of an expectation over a normal law, (m,) each."""
    nodes, weights = _gauss_hermite(_N_NODES)
    return mean + sd * nodes, weights / weights.sum()
