"""Pipelines and their raw columns as the measures see them.

Of raw tables outside memory the records that are asked about, and facts of all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from skleak._release import chain, of_several, received_targets
from skleak.adversary.hypotheses import dense_table, plain_table
from skleak.adversary.knowledge import (
    as_column,
    as_table,
    column_names,
    raw_column,
    resolve_records,
    spaced_records,
    spread_left,
    take_rows,
)
from skleak.exceptions import AttackNotApplicableError
from skleak.influence import candidate_encodings
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import operations_each
from skleak.influence.state import FitState, RecordBatch, partial_state
from skleak.report.unknowns import ColumnFacts
from skleak.report.unknowns import Unknown as Encoded
from skleak.report.unknowns import target as encoded_target
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import (
    Blocks,
    computed,
    dense,
    dense_rows,
    is_frame,
    is_large,
    positions_of,
    row_blocks,
)
from skleak.utils._confidential import without_ledger
from skleak.utils._records import (
    Persons,
    checked_labels,
    is_single_feature,
    named,
    resolve_features,
    row_label,
    values_withheld,
)
from skleak.utils._sklearn_compat import (
    BaseSearchCV,
    check_sample_weight,
    input_positions,
    one_hot_widths,
    training_fold,
)
from skleak.utils._summaries import Largest, fetched
from skleak.utils._typing import Array, BoolArray, Data, FloatArray, IntArray
from skleak.utils.sources import Table, check_columns, series_array, settled

# Each output is a function of the input in its place alone. Not so all that scikit-learn calls
# one-to-one: Normalizer divides by the length of the whole record. Subclasses may do anything.
_COLUMN_BY_COLUMN = (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
)
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

    def own_labels(self, groups: Any) -> Any:
        """Labels of the records in memory, where there is one for each of all records."""
        if isinstance(groups, str | int):
            return groups
        if hasattr(groups, "to_dask_array"):
            groups = series_array(groups, "groups")
        return _series_at(groups, np.zeros(0, dtype=np.intp), (), self.positions)


@dataclass(frozen=True)
class Inspected:
    """A fitted pipeline with its training data. Confidential."""

    preprocessing: Pipeline | None  # Fitted transformers, all before the model, or None
    name: str  # Name of the model's step
    model: Any  # The private estimator
    table: Any  # Raw training records, (n, n_columns)
    y: Array  # Their targets as the model received them, (n,)
    targets: tuple[Any, ...] = ()  # Fitted transformers of the targets
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

    def is_trained_on(self, table: Any) -> bool:
        """Tell whether the fitted transformers make of a table what the model was trained on."""
        X = self.state.objective.X
        if table.shape[0] != X.shape[0]:
            return False
        try:
            rows = plain_table(self._transformed(table))
        except (ValueError, TypeError, LookupError):  # of other columns
            return False
        return not len(other_rows(rows, X))

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
    preprocessing, name, model, targets = taken_apart(pipeline)
    table = as_table(X)
    y = received_targets(targets, as_column(y, table))
    taken = Inspected(preprocessing, name, model, table, y, targets)
    taken._check_number()
    _check_weights(taken.state, sample_weight, table)
    return taken


def taken_apart(pipeline: Any) -> tuple[Pipeline | None, str, Any, tuple[Any, ...]]:
    """Fitted transformers of records, name of the model's step, the model, and those of targets."""
    (*steps, (name, model)), targets = chain(pipeline)
    model = getattr(model, "_limited", model)
    why = of_several(*(step for _, step in steps), model)
    if hasattr(model, "provenance_"):
        why = "A released model knows nothing of its training: pass what was fitted."
    elif isinstance(model, BaseSearchCV):
        why = "It holds no fitted model: fit it, with `refit` not False."
    elif not hasattr(model, "_confidential_state"):
        why = why or "Put a private estimator there."
    if why:
        raise TypeError(
            "Leakage is measured of private linear estimators of skleak, alone or at the end of a "
            "Pipeline, TransformedTargetRegressor, FrozenEstimator or fitted search; got "
            f"{type(model).__name__}. {why}"
        )
    model._confidential_state()  # raises where it is not fitted
    return Pipeline(numbered(steps)) if steps else None, name, model, tuple(targets)


def numbered(steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Give steps names of their own: one may occur twice in pipelines within pipelines."""
    return [(f"{position}-{name}", step) for position, (name, step) in enumerate(steps)]


def dependence(transformer: Any, n_in: int, n_out: int) -> BoolArray:
    """Return which outputs each input can move, of shape (n_in, n_out).

    Where a transformer is not known to keep columns apart, any input may move any output: too
    many columns are then counted, never too few.
    """
    if transformer is None or transformer == "passthrough":
        return np.eye(n_in, dtype=bool)
    if type(transformer) is Pipeline:
        return of_steps([step for _, step in transformer.steps], n_in, n_out)
    if type(transformer) is ColumnTransformer:
        return _of_columns(transformer, n_in, n_out)
    plain = not getattr(transformer, "add_indicator", False)
    if type(transformer) in _COLUMN_BY_COLUMN and n_in == n_out and plain:
        return np.eye(n_in, dtype=bool)
    if type(transformer) is OneHotEncoder:
        # The outputs of each column follow one another, one for each level that is kept apart.
        widths = one_hot_widths(transformer)
        if len(widths) == n_in and sum(widths) == n_out:
            return np.repeat(np.eye(n_in, dtype=bool), widths, axis=1)
    return np.ones((n_in, n_out), dtype=bool)


def of_steps(steps: Sequence[Any], n_in: int, n_out: int) -> BoolArray:
    """Return which outputs of transformers, one after the other, each input can move."""
    steps = [step for step in steps if step is not None and step != "passthrough"]
    moved = np.eye(n_in, dtype=bool)
    for step, after in zip(steps, [*steps, None][1:], strict=True):
        width = n_out if after is None else getattr(after, "n_features_in_", None)
        if width is None:
            return np.ones((n_in, n_out), dtype=bool)
        moved = moved @ dependence(step, moved.shape[1], int(width))
    return moved


def _of_columns(transformer: ColumnTransformer, n_in: int, n_out: int) -> BoolArray:
    moved = np.zeros((n_in, n_out), dtype=bool)
    for name, part, _ in transformer.transformers_:
        outputs = np.arange(n_out)[transformer.output_indices_[name]]
        if len(outputs):
            inputs = input_positions(transformer, name)
            moved[np.ix_(inputs, outputs)] = dependence(part, len(inputs), len(outputs))
    return moved


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

    Shapes: ``points`` (b, n_values, p), NaN where no minimizer is reached, and the distance
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


# Multiplications and additions that a call takes unasked: a few minutes.
_MOST_WORK = 2e11
# Records that are in memory at once at most, and that are measured whatever they take.
_MOST_RECORDS, _LEAST_RECORDS = 5_000, 100
# Blocks whose facts are merged at once.
_SPLIT_EVERY = 8


def some_records(
    pipeline: Any, X: Any, y: Any, sample_weight: Any, records: Any, refit: bool
) -> tuple[Inspected, IntArray, int]:
    """Load the records that are asked about, and one for each value of a column.

    Returns the pipeline with these, the places of those asked about, and the number of all records.

    Without ``records`` those of largest loss and others, evenly spaced, as many as are measured in
    a few minutes.
    """
    if refit:
        raise AttackNotApplicableError(
            "`refit_preprocessing=True` trains the pipeline anew for each record, which takes all "
            "of them in memory. Pass False, with transformers that were fitted before."
        )
    preprocessing, name, model, targets = taken_apart(pipeline)
    state = model._confidential_state()
    if not is_large(state.objective.X):
        raise ValueError(
            "The pipeline was fitted on records in memory, and `X` lies outside. Pass the raw "
            "records in memory, too."
        )
    whole = Table.of(X)
    names = [one for one in (y, sample_weight) if isinstance(one, str)]
    check_columns(whole.frame, names, whole.name, "`y` or the weights name")
    frame = whole.frame[[name for name in whole.frame.columns if name not in names]]
    lengths = whole.lengths
    n = state.objective.n_records
    if sum(lengths) != n:
        raise ValueError(
            f"`X` must be the training data of the pipeline, {n} records; got {sum(lengths)}."
        )
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)
    columns = table_facts(frame, starts)
    few = [one.first for one in columns if one.values is not None]
    asked = _affordable(state, columns, n) if records is None else resolve_records(records, n)
    positions = np.unique(np.concatenate([asked, *few])).astype(np.intp)
    objective = state.objective
    rows = (objective.X, objective.y, objective.sample_weight, objective.reweights)
    part = partial_state(state, positions, RecordBatch(*fetched(positions, *rows)))
    table = _rows_at(frame, starts, lengths, positions)
    if isinstance(y, str):
        raw = _rows_at(whole.frame[[y]], starts, lengths, positions).iloc[:, 0].to_numpy()
    else:
        raw = _series_at(y, starts, lengths, positions)
    raw = received_targets(targets, raw)
    data = Inspected(preprocessing, name, model, table, raw, targets)
    own = [replace(one, first=np.searchsorted(positions, one.first)) for one in columns]
    # As of a table in memory, steps are those that the raw columns leave.
    known = _rows_at(frame, starts, lengths, spaced_records(n))
    left = spread_left(known, fetched(spaced_records(n), objective.y)[0])[-1]
    of_all = replace(encoded_target(state), left=float(left))
    facts = TableFacts(own, of_all, positions, spread_left(known))
    data = replace(data, facts=facts).with_state(part)
    return data, np.searchsorted(positions, asked), n


def most_records(state: FitState, n: int, values: int) -> int:
    """Count the records of n that are measured unasked, each with so many values."""
    work = operations_each(state, n * values) * max(values, 1)
    return max(_LEAST_RECORDS, int(_MOST_WORK / work))


def _affordable(state: FitState, columns: list[ColumnFacts], n: int) -> IntArray:
    """Positions of the records to measure where none are named, ascending."""
    values = sum(3 if c.values is None or c.is_quantity else len(c.values) for c in columns) + 3
    most = min(most_records(state, n, values), _MOST_RECORDS)
    if n <= most:
        return np.arange(n)
    loss = leakage_model(state).record_loss(state.training)
    blocks = Blocks.of(loss, positions_of(loss), width=1)
    exposed = blocks.map_reduce(_largest, Largest.merged, most // 2).position
    spaced = np.linspace(0, n - 1, most - len(exposed)).astype(np.intp)
    return np.union1d(exposed, spaced)


def _largest(loss: FloatArray, position: IntArray, k: int) -> Largest:
    return Largest.of(k, np.nan_to_num(loss, posinf=np.inf), position, {})


def _rows_at(
    frame: Any, starts: IntArray, lengths: tuple[int, ...], positions: IntArray
) -> pd.DataFrame:
    """Return some rows of a Dask data frame, of ascending positions, in memory."""
    some = []
    for part, start, length in zip(frame.to_delayed(), starts.tolist(), lengths, strict=True):
        inside = positions[(positions >= start) & (positions < start + length)] - start
        if len(inside):
            some.append(part.iloc[inside])
    return pd.concat(computed(some))


def _series_at(
    target: Any, starts: IntArray, lengths: tuple[int, ...], positions: IntArray
) -> Array:
    """Return some targets that come on their own, in memory."""
    if is_frame(target):
        table = _rows_at(settled(target).to_frame(), starts, lengths, positions)
        return table.iloc[:, 0].to_numpy()
    if is_large(target):
        return np.asarray(computed([target[positions]])[0])
    return np.asarray(target)[positions]


def table_facts(frame: Any, starts: IntArray) -> list[ColumnFacts]:
    """Facts of every column of a Dask data frame, whose partitions start at some positions."""
    delayed = dask_module("dask").delayed
    parts = [
        delayed(_of_block)(part, int(start))
        for part, start in zip(frame.to_delayed(), starts, strict=True)
    ]
    while len(parts) > 1:
        groups = [parts[k : k + _SPLIT_EVERY] for k in range(0, len(parts), _SPLIT_EVERY)]
        parts = [delayed(_merged)(group) for group in groups]
    found: list[ColumnFacts] = computed(parts)[0]
    return found


def _of_block(part: pd.DataFrame, start: int) -> list[ColumnFacts]:
    return [ColumnFacts.of_series(part.iloc[:, j], start) for j in range(part.shape[1])]


def _merged(blocks: list[list[ColumnFacts]]) -> list[ColumnFacts]:
    found = blocks[0]
    for block in blocks[1:]:
        found = [one.merged(other) for one, other in zip(found, block, strict=True)]
    return found


def group_labels(
    groups: Any, n: int, index: Any = None, rows: Any = None, name: str = "groups"
) -> "pd.Series":
    """Label of each record's group, (n,), by position or by the labels of the records.

    Of several columns a label of each combination; with ``rows`` of the records at these.
    """
    if isinstance(groups, Mapping | pd.DataFrame):
        parts = [group_labels(groups[one], n, index, rows, name).rename(str(one)) for one in groups]
        return combined_labels(parts)
    if is_single_feature(groups):
        raise ValueError(
            f"`{name}` names the column {groups!r}, and the rows with it are not at hand. "
            f"Pass its values, `X[{groups!r}]`, in the order of the records."
        )
    own = str(getattr(groups, "name", None) or name.removesuffix("s"))
    return pd.Series(checked_labels(groups, n, named(index), rows, name), name=own)


def label_parts(label: Any) -> tuple[Any, ...]:
    """Return the labels that a label of several columns is made of."""
    return label if isinstance(label, tuple) else (label,)


def combined_labels(columns: Sequence["pd.Series"]) -> "pd.Series":
    """Return a label of each combination of several columns, (n,), whose name is that of all."""
    each = [sum(map(label_parts, row), ()) for row in zip(*columns, strict=True)]
    return pd.Series(each, name="\n".join(str(column.name) for column in columns), dtype=object)


def training_losses(
    estimator: Any, columns: Any = None
) -> tuple[FloatArray, BoolArray, pd.Index | None]:
    """Return the loss of each training record of a fit, which count in it, and their labels, (n,).

    Labels are those of the table that the model itself received, if any.
    """
    preprocessing, _, model, _ = taken_apart(estimator)
    state = model._confidential_state()
    features = None
    if columns is not None:
        steps = [] if preprocessing is None else [step for _, step in preprocessing.steps]
        features = _moved(estimator, [*steps, model], state.n_features, columns).tolist()
    loss: FloatArray = np.asarray(model.fisher_information_loss(features=features))
    return loss, state.objective.sample_weight > 0.0, state.row_labels


def training_groups(
    fitted: Any, groups: Any, trained: BoolArray, index: Any, X: Any = None, name: str = "groups"
) -> "pd.Series":
    """Label of the group of each record that counts in a fit, (n_trained,).

    A column counts by its name: of the table that a search has just fitted the estimator on, of
    ``X`` where these are the training records, or of the table that the model itself received.
    Shapes: ``trained`` (n,), with their labels ``index``.
    """
    if is_single_feature(groups):
        groups = _trained_column(fitted, groups, X, name)
    labels = group_labels(groups, len(trained), index, name=name)
    return labels[trained].reset_index(drop=True)


def _trained_column(estimator: Any, column: Any, X: Any, name: str) -> Any:
    """Return a column of the training records, (n,), or its name where it is not at hand."""
    preprocessing, step, model, _ = taken_apart(estimator)
    state, table = model._confidential_state(), None
    names = getattr(model, "feature_names_in_", None)
    if preprocessing is not None:
        whole = Inspected(preprocessing, step, model, X, state.objective.y)
        some = (as_table(one) for one in (training_fold(estimator), X) if one is not None)
        table = next((one for one in some if whole.is_trained_on(one)), None)
    if table is not None:
        place = int(resolve_features(column, column_names(table), table.shape[1], name)[0])
        values = raw_column(table, place)
    elif preprocessing is not None and names is None:
        return column
    else:
        place = int(resolve_features(column, names, state.n_features, name)[0])
        values = np.ravel(dense(state.objective.X[:, [place]]))
    return pd.Series(values, index=state.row_labels, name=column)


def _moved(estimator: Any, steps: list[Any], n_out: int, columns: Any) -> IntArray:
    """Positions of the encoded columns that some raw columns can move, (k,).

    ``steps`` are those of the estimator, the last of them the model.
    """
    first = steps[0]
    names = getattr(first, "feature_names_in_", getattr(estimator, "feature_names_in_", None))
    n_in = int(getattr(first, "n_features_in_", n_out))
    raw = resolve_features(columns, names, n_in, "columns")
    moved = of_steps(steps[:-1], n_in, n_out)
    found: IntArray = np.flatnonzero(moved[raw].any(axis=0))
    if not len(found):
        raise ValueError(
            f"The preprocessing drops {columns!r}: no encoded column depends on it. Name another "
            "column, or none."
        )
    return found
