"""Noise goals inside of a fit: what they may ask of it, and what their noise gives away.

Records in memory are one block: values are listed, and candidates counted, where the records lie.
Numbers of records outside memory are Dask arrays, with a row for every record; those that take no
part are NaN, or count as records that no other value would move. A table outside memory that is
small enough is brought together where it lies, and a number comes back.

The noise scale of a goal that reads the records is a rung of a public ladder, and released. Whoever
knows all but one entry can compute it for every value of that entry: where it differs, the
release tells which values are ruled out. Nothing is done to mend that here: any choice of another
rung would be a function of the records in turn. The fit is refused.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from skleak.exceptions import PartialBlockWarning
from skleak.influence import candidate_encodings
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.refit import (
    check_reached,
    distance_brackets,
    largest_distances,
    loss_brackets,
    target_encodings,
)
from skleak.influence.state import FitState, without_records
from skleak.mechanisms import NoiseGoal
from skleak.mechanisms.calibration import ladder_rung
from skleak.mechanisms.goals import MOST_VALUES, PublicProblem, Secret, resolve_goal
from skleak.report.guarantee import Promises, guarantee_obstacles, release_sensitivity
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import Blocks, add, dense, is_large, positions_of, side_by_side
from skleak.utils._records import TARGET, Persons, feature_labels, is_target, resolve_features
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray

# Values within the range of a numeric column at which the noise that a goal needs is bounded.
_GRID = 5
# Values that are listed of a block of columns outside memory; of all columns together no more of
# each than show that they are not few.
_MOST_LISTED = 1000
_MOST_OF_EACH = MOST_VALUES + 2


@dataclass(frozen=True)
class Distinct:
    """Distinct values of a block of columns: all of them, or one more than may be listed.

    The first and the last are those of all records in any case.
    """

    values: FloatArray  # ascending, (n_values, k)
    counts: FloatArray  # records or persons that have each; of no use where some are left out
    n: int  # records or persons
    most: int

    @classmethod
    def of(cls, entries: FloatArray, counted: FloatArray, n: float, most: int) -> Self:
        """List those of entries (m, k), each of which counts as ``counted`` (m,), ``n`` in all."""
        values, codes = np.unique(entries, axis=0, return_inverse=True)
        counts = np.bincount(np.ravel(codes), counted, len(values)).astype(float)
        kept = np.arange(len(values))
        if len(values) > most:
            kept = np.append(kept[:most], kept[-1])
        return cls(values[kept], counts[kept], int(n), most)

    def merged(self, other: "Distinct") -> "Distinct":
        """List those of both."""
        both = np.concatenate([self.values, other.values])
        counts = np.concatenate([self.counts, other.counts])
        return Distinct.of(both, counts, self.n + other.n, self.most)

    @property
    def is_complete(self) -> bool:
        """True if all values are listed."""
        return len(self.values) <= self.most

    def counts_of(self, values: FloatArray) -> FloatArray:
        """Count records that have each of some values (m, k), which hold all that are listed."""
        _, codes = np.unique(np.concatenate([values, self.values]), axis=0, return_inverse=True)
        codes = np.ravel(codes)
        found = np.bincount(codes[len(values) :], self.counts, len(codes))
        return np.asarray(found[codes[: len(values)]])


@dataclass(frozen=True)
class _Listed:
    """Values of a block of columns, or of the target, found once a fit, in one pass."""

    columns: tuple[int, ...] | None

    def __call__(self, state: FitState) -> Distinct:
        """List them."""
        most = _MOST_LISTED if is_large(state.objective.X) else state.objective.n_records
        return _counted(state).map_reduce(_listed, Distinct.merged, self.columns, most)


def _each_listed(state: FitState) -> tuple[Distinct, ...]:
    """List the values of every column, and of the target last, in one pass."""
    return _counted(state).map_reduce(
        _each, lambda one, other: tuple(map(Distinct.merged, one, other))
    )


def _counted(state: FitState) -> Blocks:
    """Return the records as one block, and which of them count one of those who take part."""
    objective, counted = state.objective, state.objective.sample_weight > 0.0
    if state.persons is not None:
        counted = np.zeros(len(counted), dtype=bool)
        counted[participants(state).first] = True
    vectors = objective.y, objective.sample_weight, counted
    return Blocks.of(objective.X, *vectors, width=0, keep_sparse=True)


def _listed(
    X: Data,
    y: FloatArray,
    s: FloatArray,
    counted: BoolArray,
    columns: tuple[int, ...] | None,
    most: int,
) -> Distinct:
    entries = y[:, None] if columns is None else dense(X[:, list(columns)])
    some = (s > 0.0) | counted
    return Distinct.of(entries[some], counted[some].astype(float), counted.sum(), most)


def _each(X: Data, y: FloatArray, s: FloatArray, counted: BoolArray) -> tuple[Distinct, ...]:
    X, columns = sparse.csc_array(X) if sparse.issparse(X) else X, [(j,) for j in range(X.shape[1])]
    return tuple(_listed(X, y, s, counted, j, _MOST_OF_EACH) for j in [*columns, None])


def participants(state: FitState) -> Persons:
    """Those who take part, with all of their rows: persons, or else records in memory."""
    units, weights = state.units, state.objective.sample_weight
    return units.take(np.flatnonzero(units.sums(weights[units.rows]) > 0.0))


@dataclass(frozen=True)
class LinearModelProblem:
    """A `FittedProblem` made from the state of a fit."""

    state: FitState  # state of the fit, at unit noise
    promises: Promises  # what is public knowledge of the fit

    @classmethod
    def of(cls, state: FitState, promises: Promises) -> Self:
        """Make the problem of a fit; ValueError where it did not converge."""
        if not state.converged:
            raise ValueError(
                f"{state.failure}, and a noise goal needs what the records leak at the minimizer. "
                f"{state.remedy}"
            )
        return cls(state, promises)

    @property
    def is_large(self) -> bool:
        """True if the records lie outside memory."""
        return bool(is_large(self.state.objective.X))

    @cached_property
    def persons(self) -> Persons:
        """Those who take part, with all of their rows: persons, or else records in memory."""
        return participants(self.state)

    @property
    def positions(self) -> Any:
        """Positions of the records, or first rows of persons, for which numbers are known, (n,).

        All records outside memory, lazily.
        """
        return positions_of(self.state.objective.X) if self.is_large else self.persons.first

    @property
    def n_participants(self) -> int:
        """Number of records, or persons, who take part."""
        return self.state.once(_each_listed)[-1].n

    def sufficient_noise(self, eta: float, features: Any) -> Any:
        """Noise scale at which the loss of each record or person is eta, of shape (n,)."""
        state = self.state
        batch = state.training if state.persons is None else state.by_person(self.persons)
        batch = batch.participants()
        scales = self._leakage.sufficient_noise(batch, self._measured(features), eta)
        return np.where(batch.present, scales, np.nan) if self.is_large else scales

    def _measured(self, features: Any) -> Columns:
        """Columns over which a loss is measured: a block, or the whole record."""
        if features is None:
            return self.state.whole_record
        return Columns(self._columns(features, "features"))

    def _columns(self, features: Any, parameter: str) -> IntArray:
        """Positions of columns that a goal names, (k,)."""
        state = self.state
        try:
            return resolve_features(features, state.feature_names, state.n_features, parameter)
        except ValueError as error:
            if parameter == "features" and self._is_target(features):
                raise ValueError(
                    "`MaxLeakage.features` names the target, which is not a column of the records "
                    "that the model is given. Inside `fit` use MaxAdvantage(..., "
                    "attribute='(target)') for labels; or find the noise for MaxLeakage(..., "
                    "features='(target)') by skleak.mechanisms.calibrate(pipeline, goal, X, y)."
                ) from error
            raise ValueError(
                f"{error} A goal inside `fit` is about the columns that the model is given, as "
                "transformers before it have made and named them: pass one of these, or the block "
                "of them that a raw column became. The noise for a goal about raw columns is found "
                "by skleak.mechanisms.calibrate(pipeline, goal, X, y)."
            ) from error

    def _is_target(self, reference: Any) -> bool:
        return is_target(reference, self.state.feature_names)

    def block(self, features: Any, parameter: str = "features") -> Secret:
        """Find a block of columns at the values that participating records have; the target."""
        if self._is_target(features):
            return Secret(None, self._target_values(self._listed(None)), "the target")
        columns = self._columns(features, parameter)
        label = ", ".join(self._names[j] for j in columns)
        return Secret(columns, self._listed(columns).values, label)

    def secrets(self, features: Any) -> list[Secret]:
        """List a block of few values, else its columns of few; for None all entries of few."""
        if features is None:
            secrets = self._single_entries()
        else:
            block = self.block(features)
            if self._has_few(block):
                return [block]
            secrets = [secret for secret in self._single_entries() if secret.is_in(block)]
        return [secret for secret in secrets if self._has_few(secret)]

    def entries(self) -> list[Secret]:
        """Each column and a private target, at its values or, if they are many, in their range."""
        found = []
        for secret in self._single_entries():
            if len(secret.values) > 1 and not self._has_few(secret):
                ends = secret.values.min(), secret.values.max()
                secret = replace(secret, values=np.linspace(*ends, _GRID)[:, None])
            found.append(secret)
        return [secret for secret in found if len(secret.values) > 1]

    def _single_entries(self) -> list[Secret]:
        """Each column and a private target, at so many values as show whether they are few."""
        *listed, target = self.state.once(_each_listed)
        pairs = enumerate(zip(listed, self._names, strict=True))
        found = [Secret(np.array([j]), known.values, name) for j, (known, name) in pairs]
        if self.state.private_target:
            found.append(Secret(None, self._target_values(target), "the target"))
        return found

    @property
    def _names(self) -> list[str]:
        return feature_labels(self.state.feature_names, self.state.n_features)

    def _has_few(self, secret: Secret) -> bool:
        """Return True for a secret of few values.

        Values that most records have for themselves are those of a numeric column. One that a
        single record has does not count: that record's own value must not settle what is few.
        """
        if not 1 < len(secret.values) < _MOST_OF_EACH:
            return False
        listed = self._listed(secret.columns)
        counts = listed.counts_of(secret.values)
        return len(counts) - bool(np.any(counts == 1)) <= min(MOST_VALUES, listed.n // 2)

    def _listed(self, columns: IntArray | None) -> Distinct:
        """Values of a block, or of the target, that participating records have."""
        single = columns is None or len(columns) == 1
        if single and (self.is_large or self.state.knows(_each_listed)):
            listed = self.state.once(_each_listed)[-1 if columns is None else int(columns[0])]
            if listed.is_complete:
                return listed
        return self.state.once(_Listed(None if columns is None else tuple(columns.tolist())))

    def _target_values(self, listed: Distinct) -> FloatArray:
        """Values that a target may have, (n_values, 1): the classes, or those that are listed."""
        objective = self.state.objective
        if isinstance(objective, MultinomialObjective):
            return np.arange(objective.n_classes, dtype=float)[:, None]
        return np.array([[0.0], [1.0]]) if objective.loss.name == "logistic" else listed.values

    def own_values(self, secret: Secret) -> Any:
        """Mask of the value that all rows of each have, which need not be listed, (n, n_values).

        Records outside memory that take no part have all.
        """
        own = self._own(secret)
        if self.is_large:
            return own
        return self.persons.sums((~own[self.persons.rows]).astype(float)) == 0.0

    def attribute_codes(self, secret: Secret) -> Any:
        """Position of the value of each first row among those of the secret, (n,)."""
        own = self._own(secret)
        return (own if self.is_large else own[self.positions]).argmax(axis=1)

    def _own(self, secret: Secret) -> Any:
        """Mask of the value that each record has, (n_records, n_values)."""
        objective = self.state.objective
        blocks = Blocks.of(objective.X, objective.y, objective.sample_weight, keep_sparse=True)
        return blocks.map(_own_values, secret.columns, secret.values, self.is_large)

    def with_value(self, row: int, secret: Secret, value: FloatArray) -> Objective:
        """Give the record at a position, or whose first row is there, another value of a secret."""
        rows: Any = row
        if self.state.persons is not None:
            rows = self.persons.take(np.searchsorted(self.positions, [row])).rows
        return self.state.objective.with_entries(rows, secret.columns, value)

    @property
    def _leakage(self) -> LeakageModel:
        return leakage_model(self.state)

    @property
    def _has_brackets(self) -> bool:
        """True if what a changed record does to others is bounded; of persons it never is."""
        return self.state.persons is None and bool(self._leakage.has_brackets)

    def loss_brackets(
        self, secret: Secret, features: Any, quantile: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on a quantile of the losses at unit noise; None if unknown."""
        if not self._has_brackets:
            return None
        given = self.state, self.positions, secret.columns, secret.values
        return loss_brackets(*given, self._measured(features), quantile)

    def distance_brackets(
        self, secret: Secret, attribute: Secret
    ) -> tuple[FloatArray, FloatArray] | None:
        """Bounds on the largest distance of two values of an attribute; None if unknown."""
        if not self._has_brackets or (attribute.columns is None and secret.columns is not None):
            return None
        state, rows = self.state, self.positions
        named = TARGET if attribute.columns is None else attribute.columns
        encodings = self.encodings(named, attribute.values)
        low, high = distance_brackets(
            state,
            rows,
            (secret.columns, secret.values),
            (attribute.columns, attribute.values),
            largest_distances(encodings),
        )
        if secret.is_in(attribute):
            # Without the only record that has a value there are fewer.
            own = self.attribute_codes(secret)
            alone = np.bincount(own, minlength=len(secret.values))[own] == 1
            low = np.where(alone[:, None], 0.0, low)
        return low, high

    def attribute_values(self, attribute: Any) -> tuple[Array, FloatArray]:
        """Distinct values of an attribute, (n_values, k), and how many persons have each.

        Without persons a row is one, whatever its weight.
        """
        block, named = self.block(attribute, "attribute"), self.state.persons is not None
        if named and len(block.values) and not self.own_values(block).any(axis=1).all():
            raise ValueError(
                f"{block.label} differs between the rows of some person, whose secret is then not "
                "one value. Name an attribute that belongs to the person, or leave `persons` out "
                "to count each row by itself."
            )
        return block.values, self._listed(block.columns).counts_of(block.values)

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Encode the values for every record or person, in all rows together, (n, n_values, p).

        In coordinates in which the noise is isotropic.
        """
        state = self.state
        if self.is_large:
            raise ValueError(
                "`MaxAdvantage` measures a pair of models for each record, and "
                f"{state.objective.n_records} records outside memory are too many for the machine "
                "of one block. Use `MaxLeakage`, or find the noise on fewer public records by "
                "`goal.noise_scale_of(model)`."
            )
        equal = self._leakage.has_equal_noise
        if not equal:
            raise ValueError(
                "`MaxAdvantage` needs noise of a covariance that is the same under every value of "
                f"the attribute; got `noise_covariance={state.noise.name!r}`: "
                f"{equal.missing}. Use `MaxLeakage`, a number, or a covariance from public "
                "knowledge."
            )
        if self._is_target(attribute):
            found = target_encodings(state, self.persons, values[:, 0])
        else:
            rows = self.persons.rows
            records = state.objective.X[rows], state.objective.y[rows]
            found = candidate_encodings(state, *records, attribute, values, rows=self.persons)
        check_reached(found, "The noise that `MaxAdvantage` needs")
        return state.noise.whitened(found)

    @property
    def n_parameters(self) -> int:
        """Number of parameters that are released."""
        return self.state.factor.coefficients.size

    @property
    def public(self) -> PublicProblem:
        """Public knowledge of the fit: no number in it is a function of the records."""
        state, promises = self.state, self.promises
        step, sensitivity, n_samples = np.nan, np.nan, None
        if not state.noise.reads_data:
            least = float(np.sqrt(state.noise.smallest_variance))
            step = 2.0**-30 / least
        obstacles = guarantee_obstacles(state, promises)
        if not obstacles:
            sensitivity = release_sensitivity(state, promises) / least
        if "n_samples" in promises.public:
            n_samples = state.objective.n_records
        facts = self.n_parameters, step, n_samples, sensitivity, tuple(obstacles)
        return PublicProblem(*facts, promises.rows_per_person)


def _own_values(
    X: Data,
    y: FloatArray,
    s: FloatArray,
    columns: IntArray | None,
    values: FloatArray,
    absent_have_all: bool,
) -> BoolArray:
    """Mask of the value that each record of a block has, (n, n_values)."""
    entries = y[:, None] if columns is None else dense(X[:, columns])
    own = np.all(entries[:, None, :] == values, axis=2)
    return np.asarray(own | (absent_have_all & (s <= 0.0))[:, None])


# Columns to either side among which the rest of a block is looked for, and nodes of the search.
_REACH, _MOST_NODES = 200, 1000
# Columns, and records, that a message names.
_MOST_COLUMNS, _MOST_NAMED = 8, 5


def _warn_of_partial_blocks(goal: NoiseGoal, problem: LinearModelProblem) -> None:
    """Warn where a goal names columns of a one-hot block, and not all of them."""
    if goal.named_columns is None:
        return
    named = problem.block(goal.named_columns).columns
    if named is None:  # the target
        return
    for j in named.tolist():
        block = _one_hot_block(problem.state, j)
        if len(block) < 2 or np.all(np.isin(block, named)):
            continue
        labels = feature_labels(problem.state.feature_names, problem.state.n_features)
        listed = [labels[k] for k in block[:_MOST_COLUMNS].tolist()]
        more = f" and {len(block) - _MOST_COLUMNS} more" if len(block) > _MOST_COLUMNS else ""
        warnings.warn(
            f"{type(goal).__name__} names {labels[j]!r}, one column of the block {listed}{more}, "
            "of which exactly one is set in every record: it never changes alone. The noise is for "
            "a change that nobody can have, often many times too much. Name the whole block; or "
            "find that for the raw column with skleak.mechanisms.calibrate(pipeline, goal, X, y).",
            PartialBlockWarning,
            stacklevel=outer_stacklevel(),
        )
        return


def _one_hot_block(state: FitState, j: int) -> IntArray:
    """Columns of two values of which exactly one is at its larger value in every record, with j.

    Returns (k,), ascending, the nearest to j; empty where there are none.
    """
    listed, none = state.once(_each_listed), np.zeros(0, dtype=np.intp)
    near = range(max(0, j - _REACH), min(state.n_features, j + _REACH + 1))
    columns = np.array([k for k in near if len(listed[k].values) == 2], dtype=np.intp)
    if j not in columns:
        return none
    high = np.array([listed[k].values[-1, 0] for k in columns])
    records = Blocks.of(state.objective.X, state.objective.sample_weight, keep_sparse=True)
    both = records.map_reduce(_set_together, add, columns, high, int(np.argmax(columns == j)))
    kept = (both == 0.0) | (columns == j)
    columns, high = columns[kept], high[kept]
    rows = state.once(_Listed(tuple(columns.tolist())))
    if not rows.is_complete:
        return none
    # Columns that cover every row once, of the least distance from j in all.
    found = milp(
        np.abs(columns - j),
        constraints=LinearConstraint((rows.values == high).astype(float), 1.0, 1.0),
        integrality=np.ones(len(columns)),
        bounds=Bounds((columns == j).astype(float), 1.0),
        options={"node_limit": _MOST_NODES},
    )
    return columns[found.x > 0.5] if found.success else none


def _set_together(
    X: Data, s: FloatArray, columns: IntArray, high: FloatArray, j: int
) -> FloatArray:
    """Count records of a block with columns at their larger value along with the j-th, (k,)."""
    table = dense(X[:, columns])[s > 0.0] == high
    return np.asarray(table[table[:, j]].sum(axis=0), dtype=float)


# Entries of a table that is one block, 64 MB; and the work on it, in pairs of records times
# parameters.
_MOST_ENTRIES = 1 << 23
_MOST_WORK = 1e10
Found = TypeVar("Found")


def of_problem(f: Callable[..., Found], state: FitState, promises: Promises, *small: Any) -> Found:
    """Return ``f(problem, *small)`` for the problem of a fit, wherever its records lie.

    With all of them in one block where that may be; its warnings are given here.
    """
    objective: Any = state.objective
    n, p = objective.n_records, objective.n_parameters
    one_block = n * p <= _MOST_ENTRIES and float(n) * n * p <= _MOST_WORK
    if not (is_large(objective.X) and one_block):
        return f(LinearModelProblem.of(state, promises), *small)
    bare = without_records(state)  # which travels with the function

    def of_block(objective: Objective) -> tuple[Found, list[tuple[type[Warning], str]]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = f(LinearModelProblem.of(replace(bare, objective=objective), promises), *small)
        return found, [(warning.category, str(warning.message)) for warning in caught]

    found, caught = objective.together(of_block)
    for kind, message in caught:
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
class _Candidates:
    """Some other values of records, over several secrets: how many there are, and the first."""

    n: int  # records that have one
    counts: IntArray  # of each value, (n_values,)
    first: IntArray  # position of the record, and of the value, (m, 2)
    most: int  # that are listed

    @classmethod
    def of(cls, position: IntArray, mask: BoolArray, most: int) -> Self:
        """Of a block, (n, n_values)."""
        i, m = np.nonzero(mask)
        first = np.column_stack([position[i], m])[:most]
        return cls(int(mask.any(axis=1).sum()), mask.sum(axis=0), first, most)

    def merged(self, other: "_Candidates") -> "_Candidates":
        """Of both."""
        first = np.concatenate([self.first, other.first])[: self.most]
        return _Candidates(self.n + other.n, self.counts + other.counts, first, self.most)

    def __str__(self) -> str:
        """Name a few of the records."""
        named = ", ".join(map(str, np.unique(self.first[:, 0])[:_MOST_NAMED].tolist()))
        if self.n == 1:
            return f"the record at position {named}"
        more = f" and {self.n - _MOST_NAMED} more" if self.n > _MOST_NAMED else ""
        return f"any of {self.n} records (at positions {named}{more})"


def _of_block(
    position: IntArray, undecided: BoolArray, moves: BoolArray, most: int
) -> tuple[_Candidates, ...]:
    return tuple(_Candidates.of(position, mask, most) for mask in (undecided, moves))


def safe_rung(
    problem: LinearModelProblem,
    goal: NoiseGoal,
    needed: Callable[[Objective], float],
    search_tol: float,
) -> float:
    """Round the noise of a goal up to a rung that no other value of a record would have moved.

    ``needed`` finds the noise on another objective, by a whole fit; ``search_tol`` is the relative
    spread at which a search for weights stops. A ValueError names the records that move the rung.
    """
    _warn_of_partial_blocks(goal, problem)
    check = _RungCheck(goal, problem, needed, search_tol)
    if problem.state.balanced is not None:  # of all fits the one whose goals take long
        check.foresee()
    rung = ladder_rung(resolve_goal(goal, problem))
    check.run(rung)
    return rung


@dataclass(frozen=True)
class _RungCheck:
    """The search for records that another value would have moved to another rung."""

    goal: NoiseGoal
    problem: LinearModelProblem
    needed: Callable[[Objective], float]
    search_tol: float

    def foresee(self) -> None:
        """Raise a ValueError where `run` will, whatever the rung, before that is found."""
        secrets = [s for s in self.goal.secrets(self.problem) if len(s.values) <= MOST_VALUES]
        if secrets:
            masks = [self._open(secret) for secret in secrets]
            self._refuse_undecided(secrets, self._candidates(*zip(*masks, strict=True))[0])

    def run(self, rung: float) -> None:
        """Raise a ValueError that names the records that move a rung, if there are any."""
        secrets = self.goal.secrets(self.problem)
        if not secrets:
            return
        undecided, moves = zip(*(self._classify(each, rung) for each in secrets), strict=True)
        unknown, moving = self._candidates(undecided, moves)
        owner, value = _values_of(secrets)
        if moving.n:
            k = int(owner[np.argmax(moving.counts > 0)])
            self._refuse(secrets[k], self._candidates([moves[k]], [moves[k]])[1], rung)
        self._refuse_undecided(secrets, unknown)
        for k, secret in enumerate(secrets):
            some = unknown.first[owner[unknown.first[:, 1]] == k]
            moved = [self._moves(row, secret, int(value[m]), rung) for row, m in some.tolist()]
            if any(moved):
                some = some[moved]
                n = len(np.unique(some[:, 0]))
                self._refuse(secret, _Candidates(n, unknown.counts, some, len(some)), rung)

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

    def _candidates(self, undecided: Any, moves: Any) -> tuple[_Candidates, ...]:
        """Count where the records lie what the masks of all secrets say of them."""
        tables = side_by_side(undecided), side_by_side(moves)
        width = 2 * tables[0].shape[1]
        rows = Blocks.of(self.problem.positions, *tables, width=width)
        most = max(self._most_fits, _MOST_NAMED * width)
        return rows.map_reduce(
            _of_block, lambda one, other: tuple(map(_Candidates.merged, one, other)), most
        )

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

    def _refuse(self, secret: Secret, moves: _Candidates, rung: float) -> None:
        raise ValueError(
            f"The noise scale of {self.goal!r} would give records away: another value of "
            f"{secret.label} in {moves} would have made it another rung of the ladder of "
            f"powers of sqrt(2) than {rung:.6g}. {_ADVICE}"
        )

    def _refuse_undecided(self, secrets: list[Secret], undecided: _Candidates) -> None:
        """Refuse where there are more candidates to settle by whole fits than these are worth."""
        if undecided.counts.sum() <= self._most_fits:
            return
        owners = np.unique(_values_of(secrets)[0][undecided.counts > 0])
        labels = [secrets[k].label for k in owners]
        named = ", ".join(labels[:_MOST_NAMED]) + (", ..." if len(labels) > _MOST_NAMED else "")
        raise ValueError(
            f"The noise scale of {self.goal!r} may give records away: that another value of "
            f"{named} in {undecided} leaves it at its rung of the ladder of powers of "
            "sqrt(2) follows from no bound, and there are too many cases to fit each: the noise "
            "needed lies too near the edge of a rung, or no bounds are known for a goal or a model "
            f"of this kind. {_ADVICE}"
        )


def _values_of(secrets: list[Secret]) -> tuple[IntArray, IntArray]:
    """Return the secret of each value of several, and its position in it, (n_values,) each."""
    sizes = [len(secret.values) for secret in secrets]
    return np.repeat(np.arange(len(sizes)), sizes), np.concatenate([*map(np.arange, sizes)])


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
