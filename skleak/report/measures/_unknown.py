"""What an attacker may be after in a table of numbers: values of few, or a number of many."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skleak.adversary.knowledge import MAX_VALUES, is_quantity
from skleak.influence.jacobian import Columns
from skleak.influence.state import FitState
from skleak.solvers import MultinomialObjective, Objective
from skleak.utils._blocks import dense
from skleak.utils._typing import Data, FloatArray, IntArray

TARGET = "(target)"
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
    def span(self) -> float:
        """Largest distance between two of the values that are compared."""
        if self.values is None:
            return 2.0 * float(np.linalg.norm(self.sd))
        if self.columns is None:
            return 1.0  # class numbers are names
        return float(np.linalg.norm(np.ptp(self.values, axis=0)))

    def entries(self, X: Data, y: FloatArray) -> FloatArray:
        """Entries of some records, of shape (n, k)."""
        return y[:, None] if self.columns is None else dense(X[:, self.columns])

    def candidates(self, own: FloatArray) -> FloatArray:
        """Values that are held against each other, (m, k), or those of each record, (n, m, k).

        Of a number, one standard deviation below and above, and the mean.
        """
        if self.values is not None:
            return self.values
        mean = np.broadcast_to(self.mean, own.shape)
        return np.maximum(np.stack([own - self.sd, own + self.sd, mean], axis=1), self.least)

    def shares(self, own: FloatArray) -> FloatArray:
        """Share of the training records that have the same value, (n,); NaN for numbers."""
        if self.values is None:
            return np.full(len(own), np.nan)
        shares = self.counts / self.counts.sum()
        if own.shape[1] == 1:
            line = self.values[:, 0]
            place = np.minimum(np.searchsorted(line, own[:, 0]), len(line) - 1)
            return np.where(line[place] == own[:, 0], shares[place], 0.0)
        every, codes = np.unique(np.vstack([self.values, own]), axis=0, return_inverse=True)
        known, codes = np.zeros(len(every)), np.ravel(codes)
        known[codes[: len(shares)]] = shares
        return known[codes[len(shares) :]]


def unknowns(state: FitState, blocks: Sequence[Columns], names: Sequence[str]) -> list[Unknown]:
    """Columns and blocks of columns of the training records, and a private target."""
    X = state.objective.X
    X = X.tocsc() if hasattr(X, "tocsc") else X
    present = np.flatnonzero(state.objective.sample_weight > 0.0)
    found = []
    for block, name in zip(blocks, names, strict=True):
        columns = np.arange(state.n_features) if block.indices is None else block.indices
        entries = dense(X[:, columns])
        found.append(_read(name, columns, entries[present]))
    return [*found, target(state)] if state.private_target else found


def target(state: FitState) -> Unknown:
    """Return the target of the training records."""
    objective = state.objective
    y = objective.y[objective.sample_weight > 0.0][:, None]
    n_classes = classes_of(objective)
    counts = np.bincount(y[:, 0].astype(int), minlength=n_classes) if n_classes else np.zeros(0)
    return target_unknown(objective, counts.astype(float), y.mean(axis=0), y.std(axis=0))


def classes_of(objective: Objective) -> int:
    """Return the number of labels that a target may have; 0 for a number."""
    if isinstance(objective, MultinomialObjective):
        return objective.n_classes
    return 2 if objective.loss.name == "logistic" else 0


def target_unknown(
    objective: Objective, counts: FloatArray, mean: FloatArray, sd: FloatArray
) -> Unknown:
    """Return the target of records, of which so many have each label, or of such mean and spread.

    Shapes: ``counts`` (n_classes,).
    """
    n_classes = classes_of(objective)
    if not n_classes:
        least = -np.inf if objective.loss.quadratic else 0.0  # counts
        return Unknown(TARGET, None, None, np.zeros(0), mean, sd, least)
    nothing = np.full(1, np.nan)
    return Unknown(TARGET, None, np.arange(float(n_classes))[:, None], counts, nothing, nothing)


def _read(name: str, columns: IntArray, entries: FloatArray) -> Unknown:
    """Read a column, or a block of them, off the records that take part, (n, k)."""
    found = distinct(entries)
    return column_unknown(
        name, columns, found, len(entries), entries.mean(axis=0), entries.std(axis=0)
    )


def column_unknown(
    name: str,
    columns: IntArray,
    found: tuple[FloatArray, IntArray] | None,
    n: int,
    mean: FloatArray,
    sd: FloatArray,
) -> Unknown:
    """Decide what a column is, or a block of them, of n records.

    Shapes: ``found`` are its values (m, k) and how many records have each, (m,), None where they
    are too many; ``mean``, ``sd`` (k,).
    """
    many = Unknown(name, columns, None, np.zeros(0), mean, sd)
    if found is None:
        return many
    values, counts = found
    if len(columns) > 1 and 2 * len(values) > n:
        return many  # most records have a combination of their own
    if len(columns) == 1 and is_quantity(values[:, 0], n):
        return many
    return Unknown(name, columns, values, counts.astype(float), mean, sd)


def distinct(entries: FloatArray) -> tuple[FloatArray, IntArray] | None:
    """Distinct rows of (n, k) in ascending order, and their counts; None for too many to tell."""
    if len(np.unique(entries[:_LOOK], axis=0)) > MAX_VALUES:
        return None
    values, counts = _distinct(entries)
    return None if len(values) > MAX_VALUES else (values, counts)


def _distinct(entries: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct rows in ascending order, and how many records have each."""
    if entries.shape[1] == 1:
        values, counts = np.unique(entries[:, 0], return_counts=True)
        return values[:, None], counts
    values, counts = np.unique(entries, axis=0, return_counts=True)
    return values, counts
