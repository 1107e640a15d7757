"""Losses at every noise scale, in memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

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
from skleak.influence.state import FitState
from skleak.mechanisms.goals import MOST_VALUES, PublicProblem, Secret
from skleak.report.guarantee import Promises, guarantee_obstacles, release_sensitivity
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import Blocks, dense
from skleak.utils._records import TARGET, Persons, feature_labels, is_target, resolve_features
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray

# Values within the range of a numeric column at which the noise that a goal needs is bounded.
_GRID = 5


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
                f"{state.failure}, and a noise goal needs what the records leak at the minimiser. "
                f"{state.remedy}"
            )
        return cls(state, promises)

    @property
    def participants(self) -> IntArray:
        """Records that take part in the fit."""
        return np.flatnonzero(self.state.objective.sample_weight > 0.0)

    @cached_property
    def persons(self) -> Persons:
        """Those who take part, with all of their rows: persons, or else records."""
        units, weights = self.state.units, self.state.objective.sample_weight
        return units.take(np.flatnonzero(units.sums(weights[units.rows]) > 0.0))

    @property
    def positions(self) -> IntArray:
        """Positions of the records, or first rows of persons, for which numbers are known, (n,)."""
        return self.persons.first

    @property
    def n_participants(self) -> int:
        """Number of records, or persons, who take part."""
        return len(self.persons)

    def sufficient_noise(self, eta: float, features: Any) -> FloatArray:
        """Noise scale at which the loss of each record or person is eta, of shape (n,)."""
        state, persons = self.state, self.persons
        rows = state.training.take(persons.rows)
        batch = rows if state.persons is None else state.by_person(persons)
        return self._leakage.sufficient_noise(batch, self._measured(features), eta)

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

    def _target(self) -> Secret:
        return Secret(None, self._target_values(self._values), "the target")

    def block(self, features: Any, parameter: str = "features") -> Secret:
        """Find a block of columns at the values that participating records have; the target."""
        state = self.state
        if self._is_target(features):
            return self._target()
        columns = self._columns(features, parameter)
        names = feature_labels(state.feature_names, state.n_features)
        return Secret(columns, self._values(columns), ", ".join(names[j] for j in columns))

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
        state = self.state
        names = feature_labels(state.feature_names, state.n_features)
        columns = [np.array([j]) for j in range(state.n_features)]
        found = [Secret(j, self._single(j), names[j[0]]) for j in columns]
        if state.private_target:
            found.append(Secret(None, self._target_values(self._single), "the target"))
        return found

    def _single(self, columns: IntArray | None) -> FloatArray:
        """Values of one column, or of the target; enough of them to tell whether they are few."""
        return self._values(columns)

    def _has_few(self, secret: Secret) -> bool:
        """Return True for a secret of few values.

        Values that most records have for themselves are those of a numeric column. One that a
        single record has does not count: that record's own value must not settle what is few.
        """
        counts = self._counts(secret)
        n_values = len(counts) - bool(np.any(counts == 1))
        return len(counts) > 1 and n_values <= min(MOST_VALUES, self.n_participants // 2)

    def _counts(self, secret: Secret) -> FloatArray:
        """Return how many participating records have each value of a secret, (n_values,)."""
        counts = np.bincount(self.attribute_codes(secret), minlength=len(secret.values))
        return counts.astype(float)

    def _values(self, columns: IntArray | None) -> FloatArray:
        """Values that participating records have, (n_values, k)."""
        return np.unique(self._entries_of(columns, self.participants), axis=0)

    def _entries_of(self, columns: IntArray | None, rows: IntArray) -> FloatArray:
        """Entries of some rows, of shape (n_rows, k); the target for None."""
        objective = self.state.objective
        return objective.y[rows, None] if columns is None else dense(objective.X[:, columns])[rows]

    def one_hot_rows(self, columns: IntArray, j: int) -> tuple[IntArray, FloatArray]:
        """Columns that may be one-hot together with column j, (k,), and their entries, (n, k)."""
        return columns, self._entries_of(columns, self.participants)

    def _target_values(self, found: Callable[[None], FloatArray]) -> FloatArray:
        """Values that a target may have, (n_values, 1): the classes, or those that are found."""
        objective = self.state.objective
        if isinstance(objective, MultinomialObjective):
            return np.arange(objective.n_classes, dtype=float)[:, None]
        if objective.loss.name == "logistic":
            return np.array([[0.0], [1.0]])
        return found(None)

    def own_values(self, secret: Secret) -> BoolArray:
        """Mask of the value that all rows of each have, which need not be listed, (n, n_values)."""
        own = self._entries_of(secret.columns, self.persons.rows)
        other = np.any(own[:, None, :] != secret.values, axis=2)
        return self.persons.sums(other.astype(float)) == 0.0

    def attribute_codes(self, secret: Secret) -> IntArray:
        """Position of the value of each first row among those of the secret, (n,)."""
        return _codes(secret.values, self._entries_of(secret.columns, self.positions))

    def with_value(self, row: int, secret: Secret, value: FloatArray) -> Objective:
        """Give the record at a position, or whose first row is there, another value of a secret."""
        objective = self.state.objective
        rows = self.persons.take(np.searchsorted(self.positions, [row])).rows
        ones, x, y = np.ones(len(objective.y)), dense(objective.X[rows]).copy(), objective.y[rows]
        if secret.columns is None:
            y = np.full(len(rows), value[0])
        else:
            x[:, secret.columns] = value
        return replace(objective.with_record(rows, x, y), reweights=ones)

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
        return block.values, self._counts(block)

    def encodings(self, attribute: Any, values: Array) -> FloatArray:
        """Encode the values for every record or person, in all rows together, (n, n_values, p).

        In coordinates in which the noise is isotropic.
        """
        state, persons = self.state, self.persons
        equal = self._leakage.has_equal_noise
        if not equal:
            raise ValueError(
                "`MaxAdvantage` needs noise of a covariance that is the same under every value of "
                f"the attribute; got `noise_covariance={state.noise.name!r}`: "
                f"{equal.missing}. Use `MaxLeakage`, a number, or a covariance from public "
                "knowledge."
            )
        if self._is_target(attribute):
            found = target_encodings(state, persons, values[:, 0])
        else:
            records = state.objective.X[persons.rows], state.objective.y[persons.rows]
            found = candidate_encodings(state, *records, attribute, values, rows=persons)
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
        return PublicProblem(self.n_parameters, step, n_samples, sensitivity, tuple(obstacles))


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


# Values that are listed of a block of columns; of all columns together no more of each than show
# that they are not few.
MOST_LISTED = 1000
_MOST_OF_EACH = MOST_VALUES + 2


def _codes(values: FloatArray, entries: FloatArray) -> IntArray:
    """Position of each entry (n, k) among distinct values (n_values, k)."""
    _, codes = np.unique(np.vstack([values, entries]), axis=0, return_inverse=True)
    codes = np.ravel(codes)
    position = np.zeros(len(codes), dtype=np.intp)
    position[codes[: len(values)]] = np.arange(len(values))
    return position[codes[len(values) :]]


@dataclass(frozen=True)
class Distinct:
    """Distinct values of a block of columns: all of them, or one more than may be listed.

    The first and the last are those of all records in any case.
    """

    values: FloatArray  # ascending, (n_values, k)
    counts: FloatArray  # records of each; of no use where there are more than ``most``, (n_values,)
    n: int  # records
    most: int

    @classmethod
    def of(cls, entries: FloatArray, most: int) -> Self:
        """List those of entries (n, k)."""
        values, counts = np.unique(entries, axis=0, return_counts=True)
        return cls(values, counts.astype(float), len(entries), most)._cut()

    def merged(self, other: "Distinct") -> "Distinct":
        """List those of both."""
        both = np.concatenate([self.values, other.values])
        values, codes = np.unique(both, axis=0, return_inverse=True)
        counts = np.bincount(np.ravel(codes), np.concatenate([self.counts, other.counts]))
        return Distinct(values, counts.astype(float), self.n + other.n, self.most)._cut()

    @property
    def is_complete(self) -> bool:
        """True if all values are listed."""
        return len(self.values) <= self.most

    def counts_of(self, values: FloatArray) -> FloatArray:
        """Count records that have each of some values (m, k), which hold all that are listed."""
        codes = _codes(values, self.values)
        return np.bincount(codes, self.counts, len(values)).astype(float)

    def _cut(self) -> Self:
        if self.is_complete:
            return self
        kept = np.append(np.arange(self.most), len(self.values) - 1)
        return type(self)(self.values[kept], self.counts[kept], self.n, self.most)


@dataclass(frozen=True)
class Listed:
    """Values of a block of columns, or of the target, found once a fit."""

    columns: tuple[int, ...] | None

    def __call__(self, state: FitState) -> Distinct:
        """List them in one pass."""
        objective = state.objective
        records = objective.X, objective.y, objective.sample_weight
        return Blocks.of(*records, keep_sparse=True).map_reduce(
            _listed, Distinct.merged, self.columns
        )


def each_listed(state: FitState) -> tuple[Distinct, ...]:
    """List the values of every column, and of the target last, in one pass."""
    objective = state.objective
    records = objective.X, objective.y, objective.sample_weight
    return Blocks.of(*records).map_reduce(_each, _each_merged)


def _listed(X: Data, y: FloatArray, s: FloatArray, columns: tuple[int, ...] | None) -> Distinct:
    entries = y[:, None] if columns is None else dense(X[:, list(columns)])
    return Distinct.of(entries[s > 0.0], MOST_LISTED)


def _each(X: FloatArray, y: FloatArray, s: FloatArray) -> tuple[Distinct, ...]:
    table = np.column_stack([X, y])[s > 0.0]
    return tuple(Distinct.of(column[:, None], _MOST_OF_EACH) for column in table.T)


def _each_merged(one: tuple[Distinct, ...], other: tuple[Distinct, ...]) -> tuple[Distinct, ...]:
    return tuple(mine.merged(theirs) for mine, theirs in zip(one, other, strict=True))
