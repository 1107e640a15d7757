"""Compute a leakage report from the state of a fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.reweighting import relative_spread
from skleak.influence.state import FitState, RecordBatch
from skleak.report.guarantee._individual import reported_privacy
from skleak.report.guarantee._output_perturbation import Promises, output_perturbation_guarantee
from skleak.report.leakage._finish import (
    LEVELS,
    N_MOST_EXPOSED,
    LossTotals,
    dataset_facts,
    finished,
    group_row,
    groups_frame,
    label_facts,
)
from skleak.report.leakage._leakage_report import LeakageReport
from skleak.report.measures._features import measure_columns
from skleak.report.measures._losses import column_losses, inverse
from skleak.report.measures._separation import GOAL, MOST_WORK, Separation, Separator
from skleak.report.measures._unknown import Unknown, unknowns
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils.summaries._quantiles import CAPACITY, Quantiles


@dataclass(frozen=True)
class MeasuredTable:
    """Measured columns, those that a person has before they are encoded; aligned with the records.

    Parameters
    ----------
    separations : iterable of Separation
        How far the values of each column are apart.
    losses : DataFrame
        Statistics of the Fisher information loss of each, in the same order; see `loss_table`.
    assumptions : tuple of str
        Conditions under which these hold.
    are_raw : bool, default=True
        False for columns as the model received them.
    """

    separations: Iterable[Separation]
    losses: pd.DataFrame
    assumptions: tuple[str, ...] = field(default=())
    are_raw: bool = field(default=True)


def build_leakage_report(
    state: FitState,
    X: Any,
    y: FloatArray,
    *,
    blocks: Sequence[Columns],
    labels: Sequence[str],
    promises: Promises,
    groups: Array | None = None,
    estimator: str = "",
    rung_moves: Mapping[str, int | None] | None = None,
    index: pd.Index | None = None,
    rows: IntArray | None = None,
    table_index: pd.Index | None = None,
    raw: MeasuredTable | None = None,
) -> LeakageReport:
    """Measure records, columns, groups and the whole data set, and say what it means.

    Parameters
    ----------
    state : FitState
        State of the fit.
    X : ndarray or CSR of shape (n, d)
        Records to report on.
    y : ndarray of shape (n,)
        Their targets, encoded.
    blocks : sequence of Columns
        Columns, or blocks of columns, to report on.
    labels : sequence of str
        Their names.
    groups : ndarray of shape (n,), default=None
        Group label of each record.
    promises : Promises
        What is public knowledge of the fit, and where its noise came from.
    estimator : str, default=""
        Name of the estimator.
    rung_moves : mapping of str to int or None, default=None
        Under a goal that reads the records, how many of them may move the rung of the noise by
        another value of each entry that was not checked; None where they were not counted.
    index : Index of length n, default=None
        Labels of the records; their positions by default.
    rows : ndarray of int of shape (n,), default=None
        Their positions in the training data, -1 for records that are not in it. By default they
        are found by value.
    table_index : Index, default=None
        Labels of all rows of the table that the records are of; by default those of the records.
    raw : MeasuredTable, default=None
        Columns before they were encoded, to report on in place of the blocks.

    Returns
    -------
    LeakageReport
    """
    model = leakage_model(state)
    batch = state.batch(X, y) if rows is None else state.training.take(rows)
    rows = state.training_rows(X, y) if rows is None else rows
    names = pd.RangeIndex(len(batch)) if index is None else index
    people = names.to_flat_index().rename("record")
    if raw is None:
        raw = _encoded_columns(state, batch, rows, unknowns(state, blocks, labels), promises)
    measured = measure_columns(raw.separations, len(raw.losses), raw.losses, batch.present, people)
    loss = model.record_loss(batch)
    privacy, individual = reported_privacy(state, promises, rows)
    records = _records(model, batch, loss, people).assign(
        **{name: privacy[name].to_numpy() for name in privacy},
        gain=measured.gain,
        most_telling=measured.most_telling,
    )
    if groups is not None:
        records["group"] = groups
    group_table = _groups(model, batch, groups, loss, people)
    dataset = dataset_facts(
        model,
        promises,
        _totals(model, batch, loss, people),
        group_table,
        n_records_moving_rung=None if rung_moves is None else dict(rung_moves),
        raw_columns=raw.are_raw,
        individual_privacy=individual,
        unequal_weights=len(np.unique(batch.sample_weight)) > 1,
        carriers=None,
    )
    whole = names if table_index is None else table_index
    dataset |= label_facts(whole, len(whole))
    if raw.are_raw:
        dataset["n_features"] = len(raw.losses)
    report = LeakageReport(
        estimator=estimator,
        records=records,
        features=measured.features,
        groups=group_table,
        dataset=dataset,
        differential_privacy=output_perturbation_guarantee(model.state, promises),
        carriers=measured.carriers,
        persons=measured.persons,
    )
    mu, shows_most = records["mu"], None
    if mu.notna().any():
        place = int(np.argmax(mu.fillna(-1.0)))
        shows_most = records.index[place], float(mu.iloc[place])
    is_weighted = not np.all(batch.sample_weight == 1.0)
    return finished(model, report, is_weighted, raw.assumptions, shows_most)


def _encoded_columns(
    state: FitState,
    batch: RecordBatch,
    rows: IntArray,
    encoded: list[Unknown],
    promises: Promises,
) -> MeasuredTable:
    """Columns as the model received them; measured one by one, as they are asked for."""
    note = GOAL if promises.noise_goal is not None else ""
    separator = Separator(state, batch, rows, MOST_WORK / max(1, len(encoded)), note)
    blocks, labels = [one.block for one in encoded], [one.name for one in encoded]
    losses = column_losses(leakage_model(state), batch, blocks, labels)
    return MeasuredTable(map(separator.measure, encoded), losses, are_raw=False)


def _records(
    model: LeakageModel, batch: RecordBatch, loss: FloatArray, people: pd.Index
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sample_weight": batch.sample_weight,
            "fisher_information_loss": loss,
            "diagonal_fisher_information_loss": model.record_loss(batch, norm="trace"),
            "standard_error": inverse(loss),
        },
        index=people,
    )


def _groups(
    model: LeakageModel,
    batch: RecordBatch,
    groups: Array | None,
    loss: FloatArray,
    people: pd.Index,
) -> pd.DataFrame:
    if groups is None:
        return groups_frame({})
    joint = model.group_loss(batch, groups)
    overall = float(loss[batch.present].mean())
    rows = {}
    for label, members in (
        pd.Series(np.arange(len(batch))).groupby(groups, sort=True).indices.items()
    ):
        members = members[batch.present[members]]
        if not len(members):
            continue
        inside = loss[members]
        spread = relative_spread(inside, np.ones(len(inside)))
        losses = len(members), float(inside.mean()), float(inside.max()), spread
        worst = people[members[inside.argmax()]]
        rows[label] = group_row(losses, joint[label], worst, overall)
    return groups_frame(rows)


def _totals(
    model: LeakageModel, batch: RecordBatch, loss: FloatArray, people: pd.Index
) -> LossTotals:
    present = np.flatnonzero(batch.present)
    inside = loss[present]
    order = present[np.argsort(-inside, kind="stable")[:N_MOST_EXPOSED]]
    more = {}
    if model.conditional is not model:
        more["conditional"] = model.conditional.record_loss(batch)[present]
    terms = model.terms(batch, [model.state.whole_record])
    if terms is not None:
        more["through_mean"] = terms.mean[present]
        more["through_covariance"] = terms.covariance[present]
    sketch = Quantiles.of(inside, max(CAPACITY, len(inside)))  # of all losses, exact
    return LossTotals(
        n=len(present),
        mean=float(inside.mean()),
        spread=relative_spread(inside, np.ones(len(inside))),
        smallest=float(inside.min()),
        median=float(np.median(inside)),
        largest=float(inside.max()),
        quantiles=np.asarray(sketch.quantile(LEVELS)),
        quantile_error=0.0,
        joint=model.joint_loss(batch),
        most_exposed=people[order].tolist(),
        more={name: (float(some.mean()), float(some.max())) for name, some in more.items()},
    )
