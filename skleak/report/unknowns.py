"""Unknown columns of the training records: values, counts and moments of what is asked about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd
from sklearn.preprocessing import scale

from skleak.adversary.knowledge import (
    MAX_VALUES,
    is_quantity,
    spaced_records,
    standardized_spread_left,
)
from skleak.influence.jacobian import Columns
from skleak.influence.refit import Move
from skleak.influence.state import FitState
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import Blocks, dense, is_large
from skleak.utils._records import TARGET, Persons
from skleak.utils._summaries import Merged, Moments, fetched, together
from skleak.utils._typing import Array, Data, FloatArray, IntArray

# Rows that mostly tell that a column has many values.
_LOOK = 512


@dataclass(frozen=True)
class Unknown:
    """A column, a block of columns or the target, as the training records have it. Confidential."""

    name: str
    columns: IntArray | None  # None for the target
    values: FloatArray | None  # its values in ascending order, None where they are many, (m, k)
    counts: FloatArray  # how many records have each, (m,)
    mean: FloatArray  # of each column, (k,)
    sd: FloatArray  # standard deviations, (k,)
    least: float = -np.inf  # no less is possible
    left: float = 1.0  # share of a standard deviation that is left given the other columns

    @property
    def kind(self) -> str:
        """Kind of the column: few "values", a "number", or "numbers", a block of them."""
        if self.values is not None:
            return "values"
        return "number" if len(self.sd) == 1 else "numbers"

    @property
    def block(self) -> Columns:
        """The same, as the leakage of a fit takes it."""
        if self.columns is None:
            return Columns(np.zeros(0, dtype=np.intp), target=True)
        return Columns(self.columns)

    @property
    def step(self) -> FloatArray:
        """Distance of the numbers that a number is held against, below and above, (k,)."""
        return self.sd * self.left

    @property
    def span(self) -> float:
        """Largest distance between two values that are compared, or of a number from its own."""
        if self.values is None:
            return float(np.linalg.norm(self.step))
        if self.columns is None:
            return 1.0  # class numbers are names
        return float(np.linalg.norm(np.ptp(self.values, axis=0)))

    @property
    def moves(self) -> list[Move] | None:
        """Return how an entry of two values, or of numbers, changes; None of other columns."""
        if self.columns is None or len(self.columns) != 1:
            return None
        if self.values is None:
            return [(sign * self.step, 0.0) for sign in (-1.0, 1.0)]
        # Of two values, the one that a record has is the fit.
        return [(self.values.sum(axis=0), -2.0)] if len(self.values) == 2 else None

    def by_person(self, objective: Objective, persons: Persons) -> Self:
        """Return the same, counting the persons that have each value in some row."""
        if self.values is None:
            return self
        own = self.entries(objective.X[persons.rows], objective.y[persons.rows])
        same = np.all(own[:, None, :] == self.values, axis=2)
        has = persons.sums(same.astype(float)) > 0.0
        return replace(self, counts=has.sum(axis=0).astype(float))

    def entries(self, X: Data, y: FloatArray) -> FloatArray:
        """Entries of some records, of shape (n, k)."""
        return y[:, None] if self.columns is None else dense(X[:, self.columns])

    @property
    def n_candidates(self) -> int:
        """Number of values that are held against each other, or against a number's own."""
        return 2 if self.values is None else len(self.values)

    def candidates(self, own: FloatArray) -> FloatArray:
        """Values that are held against each other, (m, k), or those of each record, (n, m, k).

        Of a number, those a step below and above, each of which is held against its own.
        """
        if self.values is not None:
            return self.values
        return np.maximum(np.stack([own - self.step, own + self.step], axis=1), self.least)

    def shares(self, own: FloatArray) -> FloatArray:
        """Share of the training records that have the same value, (n,); NaN for numbers."""
        if self.values is None:
            return np.full(len(own), np.nan)
        shares = self.counts / self.counts.sum()
        if own.shape[1] == 1:
            found, line = np.zeros(len(own)), own[:, 0].copy()
            for value, share in zip(self.values[:, 0], shares, strict=True):
                np.putmask(found, line == value, share)
            return found
        every, codes = np.unique(np.vstack([self.values, own]), axis=0, return_inverse=True)
        known, codes = np.zeros(len(every)), np.ravel(codes)
        known[codes[: len(shares)]] = shares
        return known[codes[len(shares) :]]


@dataclass(frozen=True)
class ColumnFacts:
    """Values of a column, or of a block, if they are few, and its moments, if it holds numbers."""

    n: int  # records
    values: Array | None  # distinct ones, a missing one among them, (m,) or (m, k); None for many
    counts: IntArray  # how many records have each, (m,)
    first: IntArray  # position of the first record with each, (m,)
    moments: Moments | None  # of numbers that are known; None for other things

    @classmethod
    def of(cls, entries: Array, position: IntArray, numbers: FloatArray | None) -> Self:
        """Look at a block of records: their entries, (n,) or (n, k), of which some are numbers."""
        few = np.max(_codes(entries[:_LOOK]), initial=-1) < MAX_VALUES
        moments, ones = None if numbers is None else Moments.of(numbers), np.ones(len(entries))
        return cls._counted(len(entries), entries if few else None, ones, position, moments)

    @classmethod
    def _counted(
        cls, n: int, entries: Array | None, counts: Array, first: IntArray, moments: Moments | None
    ) -> Self:
        """Count entries, each of so many records, in the order of the first of these."""
        codes = np.zeros(0, dtype=np.intp) if entries is None else _codes(entries)
        if entries is None or np.max(codes, initial=-1) >= MAX_VALUES:
            none = np.zeros(0, dtype=np.intp)
            return cls(n, None, none, none, moments)
        total = np.bincount(codes, counts).astype(np.intp)
        start = np.zeros(len(total), dtype=np.intp)
        start[codes[::-1]] = np.arange(len(codes))[::-1]  # the first of each is the last one put
        return cls(n, entries[start], total, first[start], moments)

    @classmethod
    def of_series(cls, column: pd.Series, start: int) -> Self:
        """Look at a raw column of a block, whose first record has the position ``start``."""
        entries = column.to_numpy(dtype=None if column.dtype.kind in "iufb" else object)
        numbers = real_numbers(entries)
        known = None if numbers is None else numbers[np.isfinite(numbers), None]
        return cls.of(entries, start + np.arange(len(entries)), known)

    def merged(self, other: Self) -> Self:
        """Look at the records of both."""
        first = np.concatenate([self.first, other.first])
        order, values = np.argsort(first, kind="stable"), None
        if self.values is not None and other.values is not None:
            values = np.concatenate([self.values, other.values])[order]
        counts = np.concatenate([self.counts, other.counts])[order]
        moments = together(self.moments, other.moments)
        return self._counted(self.n + other.n, values, counts, first[order], moments)

    @property
    def is_quantity(self) -> bool:
        """True for a quantity, as opposed to one of a few values."""
        if self.moments is None or not self.moments.n:
            return False
        if self.values is None:
            return True
        known = np.array([v for v in self.values if not pd.isna(v)], dtype=np.float64)
        return is_quantity(known[np.isfinite(known)], self.n)

    def unknown(self, name: str, columns: IntArray) -> Unknown:
        """Decide what encoded columns are."""
        assert self.moments is not None
        mean, sd = self.moments.mean, self.moments.std
        several = len(columns) > 1
        if self.values is None or (2 * len(self.values) > self.n if several else self.is_quantity):
            return Unknown(name, columns, None, np.zeros(0), mean, sd)
        rows = self.values if several else self.values[:, None]
        values, order = np.unique(rows, axis=0, return_index=True)
        return Unknown(name, columns, values, self.counts[order].astype(float), mean, sd)


def real_numbers(column: Array) -> FloatArray | None:
    """Return a column of real numbers as floats; None for others, truth values among them."""
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    if column.dtype != object:
        return None
    missing = pd.isna(column)
    real = (int, float, np.integer, np.floating)
    if not all(isinstance(v, real) and not isinstance(v, bool) for v in column[~missing]):
        return None
    numbers = np.full(len(column), np.nan)
    numbers[~missing] = column[~missing].astype(np.float64)
    return numbers


def _codes(entries: Array) -> IntArray:
    """Return numbers from 0 of the distinct entries, or of rows of them, (n,)."""
    if entries.ndim == 1:
        if len(entries) and entries.dtype.kind in "iuf":  # most columns have two values
            low, high = entries.min(), entries.max()
            above = entries == high
            if np.all(above | (entries == low)):
                return (above != above[0]).astype(np.intp)
        return np.asarray(pd.factorize(entries, use_na_sentinel=False)[0])
    return np.ravel(np.unique(entries, axis=0, return_inverse=True)[1])


@dataclass(frozen=True)
class TableFacts(Merged):
    """Facts of the columns and the target of the records that take part in a fit."""

    columns: tuple[ColumnFacts, ...]
    y: Moments
    labels: IntArray  # how many records have each label; empty for a number

    @classmethod
    def of(
        cls, X: Data, y: FloatArray, weights: FloatArray, blocks: Sequence[IntArray], n_classes: int
    ) -> Self:
        """Look at a block of records."""
        X, present = X.tocsc() if hasattr(X, "tocsc") else X, np.flatnonzero(weights > 0.0)
        entries = (dense(X[:, columns])[present] for columns in blocks)
        found = tuple(
            ColumnFacts.of(np.squeeze(e, 1) if e.shape[1] == 1 else e, present, e) for e in entries
        )
        y = y[present]
        labels = np.bincount(y.astype(np.intp) if n_classes else [], minlength=n_classes)
        return cls(found, Moments.of(y[:, None]), labels)


def unknowns(state: FitState, blocks: Sequence[IntArray], names: Sequence[str]) -> list[Unknown]:
    """Columns and blocks of columns of the training records, and a private target."""
    objective, n_classes = state.objective, classes_of(state.objective)
    rows = objective.X, objective.y, objective.sample_weight
    if is_large(objective.X):
        walk, more = Blocks.of(*rows), (blocks, n_classes)
        facts = walk.map_reduce(TableFacts.of, TableFacts.merged, *more)
    else:
        facts = TableFacts.of(*rows, blocks, n_classes)
    each = zip(facts.columns, names, blocks, strict=True)
    found = [one.unknown(name, block) for one, name, block in each]
    mean, sd = facts.y.mean, facts.y.std
    if state.private_target and not n_classes:
        least = -np.inf if objective.loss.quadratic else 0.0  # counts
        found.append(Unknown(TARGET, None, None, np.zeros(0), mean, sd, least))
    elif state.private_target:
        if isinstance(objective, MultinomialObjective):
            mean = sd = np.full(1, np.nan)  # class numbers have no spread
        values = np.arange(float(n_classes))[:, None]
        found.append(Unknown(TARGET, None, values, facts.labels.astype(float), mean, sd))
    return found


def with_steps(state: FitState, found: Sequence[Unknown]) -> list[Unknown]:
    """Return the same, with what the other columns leave of the spread of single numbers."""
    if all(one.kind != "number" for one in found):
        return list(found)
    objective, rows = state.objective, spaced_records(state.objective.n_records)
    X, y, weight = fetched(rows, objective.X, objective.y, objective.sample_weight)
    table = scale(np.column_stack([X, y])[weight > 0.0])
    left = standardized_spread_left(table[:, :-1])
    left = np.append(left, standardized_spread_left(table)[-1] if state.private_target else 1.0)
    place = [-1 if one.columns is None else one.columns[0] for one in found]
    return [
        replace(one, left=float(left[j])) if one.kind == "number" else one
        for one, j in zip(found, place, strict=True)
    ]


def target(state: FitState) -> Unknown:
    """Return the target of the training records."""
    state = replace(state, private_target=True)
    return with_steps(state, unknowns(state, (), ()))[0]


def classes_of(objective: Objective) -> int:
    """Return the number of labels that a target may have; 0 for a number."""
    if isinstance(objective, MultinomialObjective):
        return objective.n_classes
    return 2 if objective.loss.name == "logistic" else 0
