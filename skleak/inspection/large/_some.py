"""Some records of a table outside memory, with what is known of the columns of all."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import MAX_VALUES, resolve_records
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import operations_each
from skleak.influence.state import FitState, RecordBatch, partial_state
from skleak.inspection._columns import BINNED, DROPPED, ONE_VALUE, RawColumn, alike, is_flat
from skleak.inspection._pipeline import Inspected, taken_apart
from skleak.inspection._selection import Target
from skleak.inspection.large._facts import ColumnFacts, table_facts
from skleak.report.measures import Unknown, classes_of, target_unknown
from skleak.utils._blocks import Blocks, positions_of
from skleak.utils._optional import dask_module
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.blocks._dask import is_frame, is_large
from skleak.utils.blocks._passes import computed
from skleak.utils.sources import series_array
from skleak.utils.sources._raw import check_columns, lengths_of, raw_frame, settled
from skleak.utils.summaries._largest import Largest
from skleak.utils.summaries._rows import fetched

# Multiplications and additions that a call takes unasked, and records that are in memory at once.
_MOST_WORK, _MOST_RECORDS, _LEAST_RECORDS = 2e11, 5_000, 100


@dataclass(frozen=True)
class _Sampled:
    """Values of some records, of which the statistics of all records are known."""

    facts: ColumnFacts = field(kw_only=True)

    @property
    def sd(self) -> float:
        """Standard deviation over all records; NaN for what is no number."""
        return float("nan") if self.facts.moments is None else float(self.facts.moments.std[0])

    @property
    def mean(self) -> float:
        """Mean over all records."""
        assert self.facts.moments is not None
        return float(self.facts.moments.mean[0])


@dataclass(frozen=True)
class SampledColumn(_Sampled, RawColumn):
    """A column of some records."""

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest number of all records."""
        assert self.facts.moments is not None
        return float(self.facts.moments.smallest[0]), float(self.facts.moments.largest[0])

    @property
    def shares(self) -> FloatArray:
        """Share of all records that have the value of each, of shape (m,); NaN for a number."""
        if self.is_number:
            return np.full(len(self.codes_of_all), np.nan)
        counts = np.bincount(self.codes[self.carriers_of_all], self.facts.counts)
        return np.asarray(counts[self.codes] / self.facts.n)

    codes_of_all: IntArray = field(kw_only=True)  # which value each of the records has, (m,)
    carriers_of_all: IntArray = field(kw_only=True)  # one of the records for each value


@dataclass(frozen=True)
class SampledTarget(_Sampled, Target):
    """The target of some records."""

    @property
    def sd(self) -> float:
        """Standard deviation over all records; NaN for labels."""
        return super().sd if self.is_number else float("nan")

    @property
    def shares(self) -> FloatArray:
        """Share of all records that have the label of each, of shape (m,); NaN for a number."""
        if self.is_number:
            return np.full(len(self.y), np.nan)
        values = np.asarray(self.facts.values, dtype=np.float64).astype(np.intp)
        counts = np.bincount(values, self.facts.counts, minlength=self.classes)
        return np.asarray(counts[self.y.astype(np.intp)] / self.facts.n)


@dataclass(frozen=True)
class TableFacts:
    """Facts of the columns and the target of all records, for those in memory."""

    columns: list[ColumnFacts]
    target: ColumnFacts  # as the model has it
    positions: IntArray  # of the records in memory, among all, ascending, (m,)

    def column(self, data: Inspected, index: int, nominal: bool) -> RawColumn:
        """Decide what a column is, as `read_column` does of records in memory."""
        facts, label = self.columns[index], data.table.columns[index]
        column = data.table.iloc[:, index]
        codes, carriers = self._codes(column, facts)
        numbers = None
        if facts.moments is not None:
            numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        known: dict[str, Any] = {"codes_of_all": codes, "carriers_of_all": carriers}
        known["facts"] = facts
        values = SampledColumn(index, label, numbers, False, codes, carriers, "", **known)
        if facts.values is not None and len(facts.values) == 1:
            return replace(values, note=ONE_VALUE)
        if not nominal and facts.is_quantity:
            number = replace(values, is_number=True, codes=codes[:0], carriers=codes[:0])
            if not is_flat(data, number):
                return number
            if facts.values is not None:
                codes, carriers = alike(data, number, codes, carriers)
                note = BINNED if len(carriers) > 1 else DROPPED
                return replace(values, codes=codes, carriers=carriers, note=note)
        if facts.values is None:
            raise ValueError(
                f"The column {label!r} has too many values to tell apart one by one: expected at "
                f"most {MAX_VALUES} in a table outside memory, before the preprocessing bins them. "
                "Group rare ones, or leave it out of `columns`."
            )
        return values

    def of_target(self, data: Inspected, label: Any) -> Target:
        """Return the target of the records in memory."""
        classes = getattr(data.model, "classes_", ())
        return SampledTarget(data.state.objective.y, len(classes), label, facts=self.target)

    def encoded_target(self, data: Inspected) -> Unknown:
        """Return the target of all records, as the model received it."""
        objective, facts = data.state.objective, self.target
        n_classes = classes_of(objective)
        if n_classes:
            values = np.asarray(facts.values, dtype=np.float64).astype(np.intp)
            counts = np.bincount(values, facts.counts, minlength=n_classes).astype(float)
            return target_unknown(objective, counts, np.zeros(1), np.zeros(1))
        assert facts.moments is not None
        return target_unknown(objective, np.zeros(0), facts.moments.mean, facts.moments.std)

    def own(self, groups: Any) -> Any:
        """Labels of the records in memory, where there is one for each of all records."""
        if isinstance(groups, str | int):
            return groups
        if hasattr(groups, "to_dask_array"):
            groups = series_array(groups, "groups")
        if is_large(groups):
            return np.asarray(computed([groups[self.positions]])[0])
        return np.asarray(groups)[self.positions]

    def _codes(self, column: pd.Series, facts: ColumnFacts) -> tuple[IntArray, IntArray]:
        """Find which of the values each of the records has, (m,), and one of them that has each."""
        if facts.values is None:
            none = np.zeros(len(column), dtype=np.intp)
            return none, none[:0]
        own = column.to_numpy(dtype=object)
        both = np.concatenate([facts.values, own])
        codes = pd.factorize(both, use_na_sentinel=False)[0][len(facts.values) :]
        return codes.astype(np.intp), np.searchsorted(self.positions, facts.first)


@dataclass(frozen=True)
class SomeRecords:
    """Records of a table outside memory that are in memory, and which of them are asked about."""

    data: Inspected
    rows: IntArray  # of those in memory, (b,)
    n: int  # all records


def some_records(
    pipeline: Any, X: Any, y: Any, sample_weight: Any, records: Any, refit: bool
) -> SomeRecords:
    """Load the records that are asked about, and one for each value of a column.

    Without ``records`` those of largest loss and others, evenly spaced, as many as are measured in
    a few minutes.
    """
    if refit:
        raise AttackNotApplicableError(
            "`refit_preprocessing=True` trains the pipeline anew for each record, which takes all "
            "of them in memory. Pass False, with transformers that were fitted before."
        )
    preprocessing, name, model = taken_apart(pipeline)
    state = model._confidential_state()
    _check_fit(state)
    frame, target = _raw(X, y, sample_weight)
    lengths = lengths_of(frame)
    n = state.objective.n_records
    if sum(lengths) != n:
        raise ValueError(
            f"`X` must be the training data of the pipeline, {n} records; got {sum(lengths)}."
        )
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)
    columns = table_facts(frame, starts)
    encoded = Blocks.of(state.objective.y, positions_of(state.objective.X), width=1)
    own: ColumnFacts = encoded.map_reduce(_target_facts, ColumnFacts.merged)
    few = [one.first for one in columns if one.values is not None]
    asked = _affordable(state, columns, n) if records is None else resolve_records(records, n)
    positions = np.unique(np.concatenate([asked, *few])).astype(np.intp)
    objective = state.objective
    rows = (objective.X, objective.y, objective.sample_weight, objective.reweights)
    part = partial_state(state, positions, RecordBatch(*fetched(positions, *rows)))
    table = _rows_at(frame, starts, lengths, positions)
    if isinstance(target, str):
        raw = _rows_at(raw_frame(X)[[target]], starts, lengths, positions).iloc[:, 0].to_numpy()
    else:
        raw = _series_at(target, starts, lengths, positions)
    data = Inspected(preprocessing, name, model, table, raw)
    data = replace(data, facts=TableFacts(columns, own, positions)).with_state(part)
    return SomeRecords(data, np.searchsorted(positions, asked), n)


def _check_fit(state: FitState) -> None:
    if not is_large(state.objective.X):
        raise ValueError(
            "The pipeline was fitted on records in memory, and `X` lies outside. Pass the raw "
            "records in memory, too."
        )


def _raw(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return the raw columns as a Dask data frame, and the target or the name of its column."""
    frame = raw_frame(X)
    names = [one for one in (y, sample_weight) if isinstance(one, str)]
    check_columns(frame, names)
    return frame[[name for name in frame.columns if name not in names]], y


def _target_facts(y: FloatArray, position: IntArray) -> ColumnFacts:
    return ColumnFacts.of(pd.Series(y), int(position[0]) if len(position) else 0)


def _affordable(state: FitState, columns: list[ColumnFacts], n: int) -> IntArray:
    """Positions of the records to measure where none are named, ascending."""
    values = sum(3 if c.values is None or c.is_quantity else len(c.values) for c in columns) + 3
    work = operations_each(state, n * values) * max(values, 1)
    most = int(np.clip(_MOST_WORK / work, _LEAST_RECORDS, _MOST_RECORDS))
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
    delayed, parts = dask_module("dask").delayed, frame.to_delayed()
    some = []
    for part, start, length in zip(parts, starts.tolist(), lengths, strict=True):
        inside = positions[(positions >= start) & (positions < start + length)] - start
        if len(inside):
            some.append(delayed(_take)(part, inside))
    return pd.concat(computed(some))


def _take(part: pd.DataFrame, rows: IntArray) -> pd.DataFrame:
    return part.iloc[rows]


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
