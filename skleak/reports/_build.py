"""Compute a leakage report from the state of a fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.reweighting import relative_spread
from skleak.influence.state import FitState, RecordBatch
from skleak.reports._assumptions import assumptions
from skleak.reports._findings import facts
from skleak.reports._guarantee import Promises, output_perturbation_guarantee
from skleak.reports._individual import reported_privacy
from skleak.reports._leakage_report import LeakageReport
from skleak.reports._sentences import findings
from skleak.reports.measures._features import measure_columns
from skleak.reports.measures._losses import column_losses, inverse
from skleak.reports.measures._separation import GOAL, MOST_WORK, Separation, Separator
from skleak.reports.measures._unknown import Unknown, unknowns
from skleak.utils._typing import Array, FloatArray, IntArray

_N_MOST_EXPOSED = 10


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
    report = LeakageReport(
        estimator=estimator,
        records=records,
        features=measured.features,
        groups=group_table,
        dataset=_dataset(model, batch, loss, group_table, people)
        | {"noise_goal": promises.noise_goal, "seeded": promises.seeded}
        | {"n_records_moving_rung": None if rung_moves is None else dict(rung_moves)}
        | {"raw_columns": raw.are_raw, "individual_privacy": individual},
        differential_privacy=output_perturbation_guarantee(state, promises),
        carriers=measured.carriers,
        persons=measured.persons,
    )
    if raw.are_raw:
        report.dataset["n_features"] = len(raw.losses)
    doubts = model.doubts
    if doubts:
        doubts = [" ".join(["The leakage stated here is unreliable.", *doubts])]
    report = replace(report, facts=facts(report))
    return replace(
        report,
        findings=(*doubts, *findings(report)),
        assumptions=(*assumptions(report, batch), *raw.assumptions),
    )


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
    names = ["n_records", "mean_loss", "max_loss", "spread", "joint_loss"]
    if groups is None:
        empty = pd.DataFrame(columns=[*names, "most_exposed_record", "relative_mean"], dtype=float)
        return empty.rename_axis("group")
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
        mean = float(inside.mean())
        rows[label] = {
            "n_records": len(members),
            "mean_loss": mean,
            "max_loss": inside.max(),
            "spread": relative_spread(inside, np.ones(len(inside))),
            "joint_loss": joint[label],
            "most_exposed_record": people[members[inside.argmax()]],
            "relative_mean": mean / overall if 0.0 < overall < np.inf else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")


def _dataset(
    model: LeakageModel,
    batch: RecordBatch,
    loss: FloatArray,
    groups: pd.DataFrame,
    people: pd.Index,
) -> dict[str, Any]:
    state, present = model.state, np.flatnonzero(batch.present)
    inside = loss[present]
    order = present[np.argsort(-inside, kind="stable")[:_N_MOST_EXPOSED]]
    mean, spread = float(inside.mean()), relative_spread(inside, np.ones(len(inside)))
    group_means = groups["mean_loss"].to_numpy(dtype=float)
    given = np.empty(0)
    if model.conditional is not model:
        given = model.conditional.record_loss(batch)[present]
    through_mean = through_covariance = np.empty(0)
    terms = model.terms(batch, [state.whole_record])
    if terms is not None:
        through_mean, through_covariance = terms.mean[present], terms.covariance[present]
    return {
        "converged": state.converged,
        "n_records": len(present),
        "n_features": state.n_features,
        "noise_scale": state.noise_scale,
        "noise_covariance": state.noise.name,
        "alpha": state.objective.alpha,
        "loss": state.objective.loss.name,
        "private_target": state.private_target,
        "reweighting": None if state.balanced is None else state.balanced.name,
        "mean_loss": mean,
        "std_loss": spread * mean if np.isfinite(mean) else np.nan,
        "min_loss": float(inside.min()),
        "median_loss": float(np.median(inside)),
        "max_loss": float(inside.max()),
        "spread": spread if np.isfinite(mean) else np.nan,
        "joint_loss": model.joint_loss(batch),
        **_mean_and_max("conditional", given),
        **_mean_and_max("through_mean", through_mean),
        **_mean_and_max("through_covariance", through_covariance),
        "group_spread": float(np.std(group_means) / np.mean(group_means))
        if len(group_means) and np.all(np.isfinite(group_means)) and np.mean(group_means) > 0.0
        else np.nan,
        "most_exposed_records": people[order].tolist(),
    }


def _mean_and_max(name: str, loss: FloatArray) -> dict[str, float | None]:
    """Mean and largest of losses that only some fits have."""
    some = len(loss) > 0
    return {
        f"{name}_mean_loss": float(loss.mean()) if some else None,
        f"{name}_max_loss": float(loss.max()) if some else None,
    }
