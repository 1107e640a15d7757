"""Compute a leakage report from the state of a fit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel, leakage_model
from skleak.influence.reweighting import relative_spread
from skleak.influence.state import FitState, RecordBatch
from skleak.reports._findings import assumptions, findings
from skleak.reports._guarantee import Promises, output_perturbation_guarantee
from skleak.reports._individual import reported_privacy
from skleak.reports._leakage_report import LeakageReport
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray, IntArray

TARGET = "(target)"
_N_MOST_EXPOSED = 10


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

    Returns
    -------
    LeakageReport
    """
    model, batch = leakage_model(state), state.batch(X, y)
    privacy, individual = reported_privacy(state, promises, state.training_rows(X, y))
    records = _records(model, batch, privacy, groups)
    loss = records["fisher_information_loss"].to_numpy()
    group_table = _groups(model, batch, groups, loss)
    report = LeakageReport(
        estimator=estimator,
        records=records,
        features=_features(model, batch, blocks, labels),
        groups=group_table,
        dataset=_dataset(model, batch, loss, group_table)
        | {"noise_goal": promises.noise_goal, "seeded": promises.seeded}
        | {"individual_privacy": individual}
        | {"n_records_moving_rung": None if rung_moves is None else dict(rung_moves)},
        differential_privacy=output_perturbation_guarantee(state, promises),
    )
    doubts = model.doubts
    if doubts:
        doubts = [" ".join(["The leakage stated here is unreliable.", *doubts])]
    return replace(
        report,
        findings=(*doubts, *findings(report)),
        assumptions=assumptions(report, batch),
    )


def _records(
    model: LeakageModel, batch: RecordBatch, privacy: pd.DataFrame, groups: Array | None
) -> pd.DataFrame:
    loss = model.record_loss(batch)
    table = pd.DataFrame(
        {
            "sample_weight": batch.sample_weight,
            "fisher_information_loss": loss,
            "diagonal_fisher_information_loss": model.record_loss(batch, norm="trace"),
            "standard_error": _inverse(loss),
            **{name: privacy[name].to_numpy() for name in privacy},
        },
        index=pd.RangeIndex(len(batch), name="record"),
    )
    if groups is not None:
        table["group"] = groups
    return table


def _features(
    model: LeakageModel,
    batch: RecordBatch,
    blocks: Sequence[Columns],
    labels: Sequence[str],
) -> pd.DataFrame:
    """Statistics of the n x d table of leakage, of which only one block of rows exists at once."""
    state, blocks, labels = model.state, list(blocks), list(labels)
    if state.private_target:
        blocks.append(Columns(np.array([], dtype=np.intp), target=True))
        labels.append(TARGET)
    # A record of weight zero took no part, and has no share in any statistic.
    present = np.flatnonzero(batch.present)
    n, k = len(present), len(blocks)
    largest, smallest = np.full(k, -np.inf), np.full(k, np.inf)
    where = np.zeros(k, dtype=np.intp)
    total, squares = np.zeros(k), np.zeros(k)
    # Deviations from the first record's loss: sums of squares then lose no digits to the mean.
    shift: FloatArray | None = None
    for rows in row_blocks(n, max(k, state.n_features)):
        chosen = present[rows]
        table = model.feature_loss(batch.take(chosen), blocks)
        top = table.argmax(axis=0)
        better = table[top, np.arange(k)] > largest
        where[better] = chosen[top[better]]
        largest = np.maximum(largest, table.max(axis=0))
        smallest = np.minimum(smallest, table.min(axis=0))
        if np.all(np.isfinite(table)):
            shift = table[0].copy() if shift is None else shift
            total += np.sum(table - shift, axis=0)
            squares += np.sum((table - shift) ** 2, axis=0)
        else:
            total += np.inf
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = total / n
        mean = deviation + (0.0 if shift is None else shift)
        std = np.sqrt(np.maximum(squares / n - deviation**2, 0.0))
        spread = np.where(np.isfinite(mean), std / mean, np.nan)
    bound = _inverse(largest)
    scale = np.array([_column_std(batch.X, batch.y, block, present) for block in blocks])
    if state.factor.n_target_directions > 1:
        scale[[block.target for block in blocks]] = np.nan  # class numbers have no spread
    frame = pd.DataFrame(
        {
            "max_loss": largest,
            "mean_loss": mean,
            "min_loss": smallest,
            "spread": spread,
            "most_exposed_record": where,
            "standard_error": bound,
            "column_std": scale,
            "relative_standard_error": np.divide(
                bound, scale, out=np.full(k, np.nan), where=scale > 0.0
            ),
        },
        index=pd.Index(labels, name="feature"),
    )
    if not state.converged:
        frame = frame.assign(**{name: np.nan for name in frame if name != "column_std"})
    return frame.sort_values("relative_standard_error", kind="stable", na_position="last")


def _groups(
    model: LeakageModel,
    batch: RecordBatch,
    groups: Array | None,
    loss: FloatArray,
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
            "most_exposed_record": int(members[inside.argmax()]),
            "relative_mean": mean / overall if 0.0 < overall < np.inf else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")


def _dataset(
    model: LeakageModel,
    batch: RecordBatch,
    loss: FloatArray,
    groups: pd.DataFrame,
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
        "most_exposed_records": order.tolist(),
    }


def _mean_and_max(name: str, loss: FloatArray) -> dict[str, float | None]:
    """Mean and largest of losses that only some fits have."""
    some = len(loss) > 0
    return {
        f"{name}_mean_loss": float(loss.mean()) if some else None,
        f"{name}_max_loss": float(loss.max()) if some else None,
    }


def _inverse(loss: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return 1.0 / loss


def _column_std(X: Any, y: FloatArray, block: Columns, present: IntArray) -> float:
    """Standard deviation of a single column over some records; nan for a block."""
    if block.target:
        values = y
    elif block.indices is not None and len(block.indices) == 1:
        column = X[:, block.indices]
        values = np.ravel(column.toarray() if hasattr(column, "toarray") else column)
    else:
        return np.nan
    return float(np.std(values[present]))
