"""Pipelines and their raw columns as the measures see them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skleak.adversary.hypotheses import dense_table, plain_table
from skleak.adversary.knowledge import as_column, as_table, spread_left, take_rows
from skleak.influence import candidate_encodings
from skleak.influence.state import FitState
from skleak.report.measures import ColumnFacts
from skleak.report.measures import Unknown as Encoded
from skleak.utils._blocks import dense, dense_rows, row_blocks
from skleak.utils._confidential import without_ledger
from skleak.utils._records import Persons, row_label, values_withheld
from skleak.utils._sklearn_compat import check_sample_weight
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray

# Relative to the largest entry of a column, encoded records that differ by less are the same:
# `fit_transform` and `transform` of a decomposition differ by rounding.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class TableFacts:
    """Facts of the columns and the target of all records, for those in memory."""

    columns: list[ColumnFacts]  # ``first`` are positions of records in memory
    target: Encoded  # as the model has it
    positions: IntArray  # of the records in memory, among all, ascending, (m,)
    left: FloatArray  # share of the spread of each that is left given the others, (n_columns,)


@dataclass(frozen=True)
class Inspected:
    """A fitted pipeline with its training data. Confidential."""

    preprocessing: Pipeline | None  # Fitted transformers, all before the model, or None
    name: str  # Name of the model's step
    model: Any  # The private estimator
    table: Any  # Raw training records, (n, n_columns)
    y: Array  # Their targets, (n,)
    # Of some records of a table outside memory, what is known of the columns of all
    facts: "TableFacts | None" = None

    @property
    def state(self) -> FitState:
        """Return what the model keeps of its fit."""
        state: FitState = self.model._confidential_state()
        return state

    @cached_property
    def left(self) -> FloatArray:
        """Share of the spread of each column that is left given the others, (n_columns,)."""
        if self.facts is not None:
            return self.facts.left
        return spread_left(take_rows(self.table, np.flatnonzero(self.counted)))

    @cached_property
    def counted(self) -> BoolArray:
        """Mask of the records with a weight: others are in no statistic, (n,)."""
        return np.asarray(self.state.objective.weights > 0.0)

    def with_state(self, state: FitState) -> "Inspected":
        """Return the same pipeline as if the model had kept another state of its fit."""
        twin = object.__new__(type(self.model))
        twin.__dict__.update(self.model.__dict__, _state=state)
        return replace(self, model=twin)

    @property
    def whole(self) -> Any:
        """An estimator of raw records in one pipeline, without pipelines at its end."""
        if self.preprocessing is None:
            return self.model
        return Pipeline([*self.preprocessing.steps, (self.name, self.model)])

    def encode(self, table: Any) -> FloatArray:
        """Return the records as the model sees them, of shape (len(table), d)."""
        return dense_table(plain_table(self._transformed(table)))

    def rows(self, rows: IntArray | slice) -> Any:
        """Return some of the raw records."""
        return take_rows(self.table, np.arange(len(self.y))[rows])

    def _transformed(self, table: Any) -> Any:
        return table if self.preprocessing is None else self.preprocessing.transform(table)

    def check_records(self) -> None:
        """Raise unless these are the training records, as the fitted transformers give them."""
        X = self.state.objective.X
        self._check_number()
        with values_withheld(self.table, None):
            encoded = self._transformed(self.table)
        other = other_rows(plain_table(encoded), X)
        if len(other):
            raise ValueError(self._why_other(other))
        self._check_targets(encoded)
        half = np.arange(max(1, len(self.y) // 2))
        own = plain_table(self._transformed(take_rows(self.table, half)))
        if len(other_rows(own, X[half])):
            raise ValueError(
                "The preprocessing encodes a record in another way where other records are "
                "transformed with it: what one column of one record does is then not defined. Let "
                "`fit` learn what is about all records."
            )

    def _check_number(self) -> None:
        n = self.state.objective.X.shape[0]
        if len(self.y) != n:
            raise ValueError(
                f"`X` and `y` must be the training data of the pipeline, {n} records; got "
                f"{len(self.y)}."
            )

    def _why_other(self, other: IntArray) -> str:
        """Tell transformers that see the target from records that are not the training records."""
        if self.preprocessing is not None and self._encodes_by_target():
            return (
                "A transformer of the pipeline encodes training records otherwise in "
                "`fit_transform` than in `transform` (as TargetEncoder does, which looks at the "
                "targets): held fixed, it is not what the model was trained with. Pass "
                "`refit_preprocessing=True`."
            )
        return (
            f"`X` and `y` must be the training data of the pipeline; {len(other)} of "
            f"{len(self.y)} records are others, the first of them "
            f"{row_label(self.table, int(other[0]))}. Pass what the pipeline was fitted on, in "
            "the same order."
        )

    def _encodes_by_target(self) -> bool:
        """Tell whether `fit_transform` differs from `transform` on these records."""
        copy = without_ledger(self.preprocessing)
        try:
            fitted = plain_table(copy.fit_transform(self.table, self.y))
            return len(other_rows(fitted, plain_table(copy.transform(self.table)))) > 0
        except (ValueError, TypeError):
            return False

    def looks_at_targets(self) -> bool:
        """Tell whether training records are encoded otherwise with the targets of others."""
        if self.preprocessing is None:
            return False
        copy = without_ledger(self.preprocessing)
        try:
            other = plain_table(copy.fit_transform(self.table, self.y[::-1]))
        except (ValueError, TypeError):
            return True
        return len(other_rows(other, self.state.objective.X)) > 0

    def _check_targets(self, encoded: Any) -> None:
        _, y = self.model._records(encoded, self.y)
        other = np.flatnonzero(y != self.state.objective.y)
        if len(other):
            raise ValueError(
                f"`y` must be the targets that the pipeline was fitted on; {len(other)} are "
                f"others, the first of them in {row_label(self.table, int(other[0]))}."
            )


def inspected(pipeline: Any, X: Any, y: Any, sample_weight: Any) -> Inspected:
    """Take a fitted pipeline apart and validate the records.

    Shapes: ``X`` (n, n_columns); ``y``, ``sample_weight`` (n,).
    """
    preprocessing, name, model = taken_apart(pipeline)
    table = as_table(X)
    y = as_column(y, table)
    taken = Inspected(preprocessing, name, model, table, y)
    taken._check_number()
    _check_weights(taken.state, sample_weight, table)
    return taken


def taken_apart(pipeline: Any) -> tuple[Pipeline | None, str, Any]:
    """Fitted transformers of a pipeline, the name of the step of its model, and the model."""
    *steps, (name, model) = flat_steps(pipeline)
    if hasattr(model, "provenance_"):
        raise TypeError(
            "`pipeline` ends in a released model, which knows nothing of its training. Pass the "
            "pipeline that was fitted, with the private estimator."
        )
    if not hasattr(model, "_confidential_state"):
        raise TypeError(
            "`pipeline` must end in a private estimator of skleak; got "
            f"{type(model).__name__}. Of a search, pass `best_estimator_`."
        )
    model._confidential_state()  # raises where it is not fitted
    return Pipeline(numbered(steps)) if steps else None, name, model


def flat_steps(pipeline: Any) -> list[tuple[str, Any]]:
    """Return all steps of a pipeline that may end in another; a model alone is its only one."""
    steps: list[tuple[str, Any]] = [("model", pipeline)]
    while isinstance(steps[-1][1], Pipeline):
        steps = [*steps[:-1], *steps[-1][1].steps]
    return steps


def numbered(steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Give steps names of their own: one may occur twice in pipelines within pipelines."""
    return [(f"{position}-{name}", step) for position, (name, step) in enumerate(steps)]


def _check_weights(state: FitState, sample_weight: Any, table: Any) -> None:
    """Raise unless the weights are those of the fit; None where these were equal to one."""
    weights = check_sample_weight(
        sample_weight, table, dtype=np.float64, ensure_non_negative=True, copy=False
    )
    other = np.flatnonzero(weights != state.objective.sample_weight)
    if len(other):
        raise ValueError(
            "`sample_weight` must be what the model was fitted with (None for no weights); "
            f"{len(other)} weights are others, the first of them in "
            f"{row_label(table, int(other[0]))}."
        )


def other_rows(rows: Data, X: Data) -> IntArray:
    """Positions at which two encoded tables differ by more than rounding."""
    if rows.shape != X.shape:
        return np.arange(max(rows.shape[0], 1))
    size = np.ravel(dense_table(abs(X).max(axis=0)))
    other = np.zeros(X.shape[0], dtype=bool)
    for some in row_blocks(*X.shape):
        gap = np.abs(dense_rows(rows, some) - dense_rows(X, some))
        other[some] = ~np.all(gap <= _ROUNDING * size, axis=1)
    return np.flatnonzero(other)


def encodings(
    state: FitState, persons: Persons, own: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """Minimizers with the rows of persons encoded as each of the candidates.

    Shapes: ``own`` (b, d), the rows by the fitted transformers; ``candidates`` (b, d) likewise;
    returns (n_persons, n_values, p).
    """
    moved = [np.any(each != own, axis=0) for each in candidates]
    columns = np.flatnonzero(np.any(moved, axis=0))
    if not len(columns):
        return np.tile(state.factor.coefficients, (len(persons), len(candidates), 1))
    X, y = state.objective.X[persons.rows], state.objective.y[persons.rows]
    # What the model was fitted on differs from what `transform` gives by rounding.
    gap = dense(X)[:, columns] - own[:, columns]
    values = np.stack([each[:, columns] + gap for each in candidates], axis=1)
    return candidate_encodings(state, X, y, columns, values, rows=persons)


def separations(
    state: FitState, points: FloatArray, *, number: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Largest distance over the noise of two encodings, and of one from the fit itself.

    A number is held against its own: both are the same.

    Shapes: ``points`` (b, n_values, p), NaN where no minimiser is reached, and the distance
    infinite; returns (b,) each.
    """
    own = np.broadcast_to(state.factor.coefficients, (len(points), 1, points.shape[2]))
    white = state.noise.whitened(np.concatenate([own, points], axis=1))
    largest = [_furthest(white[:, m + 1 :], white[:, [m]]) for m in range(white.shape[1] - 1)]
    from_own = largest[0]
    pair = from_own if number else np.max(largest, axis=0)
    return over_noise(state, pair), over_noise(state, from_own)


def over_noise(state: FitState, lengths: FloatArray) -> FloatArray:
    """Lengths (b,) in units of the noise; NaN where the fit did not converge."""
    if not state.converged:
        return np.full_like(lengths, np.nan)
    if state.noise_scale > 0.0:
        return lengths / state.noise_scale
    return np.where(lengths > 0.0, np.inf, 0.0)


def _furthest(points: FloatArray, other: FloatArray) -> FloatArray:
    distances = np.linalg.norm(points - other, axis=2)
    distances = np.where(np.isnan(distances), np.inf, distances)
    return np.asarray(distances.max(axis=1))
