"""Raw tables outside memory: the records that are asked about, and facts of all."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import resolve_records, spaced_records, spread_left
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import operations_each
from skleak.influence.state import FitState, RecordBatch, partial_state
from skleak.inspection._pipeline import Inspected, TableFacts, taken_apart
from skleak.report.measures import ColumnFacts
from skleak.report.measures import target as encoded_target
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, computed, is_frame, is_large, positions_of
from skleak.utils._summaries import Largest, fetched
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.sources import series_array
from skleak.utils.sources._stored import Table, check_columns, settled

# Multiplications and additions that a call takes unasked, and records that are in memory at once.
_MOST_WORK, _MOST_RECORDS, _LEAST_RECORDS = 2e11, 5_000, 100
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
    preprocessing, name, model = taken_apart(pipeline)
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
    data = Inspected(preprocessing, name, model, table, raw)
    own = [replace(one, first=np.searchsorted(positions, one.first)) for one in columns]
    # As of a table in memory, steps are those that the raw columns leave.
    known = _rows_at(frame, starts, lengths, spaced_records(n))
    left = spread_left(known, fetched(spaced_records(n), objective.y)[0])[-1]
    of_all = replace(encoded_target(state), left=float(left))
    facts = TableFacts(own, of_all, positions, spread_left(known))
    data = replace(data, facts=facts).with_state(part)
    return data, np.searchsorted(positions, asked), n


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


def own_labels(groups: Any, positions: IntArray) -> Any:
    """Labels of the records in memory, where there is one for each of all records."""
    if isinstance(groups, str | int):
        return groups
    if hasattr(groups, "to_dask_array"):
        groups = series_array(groups, "groups")
    return _series_at(groups, np.zeros(0, dtype=np.intp), (), positions)
