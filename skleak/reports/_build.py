"""Compute a leakage report from the state of a fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence import Columns, FitState, Participation, relative_spread
from skleak.reports._findings import assumptions, findings
from skleak.reports._guarantee import output_perturbation_guarantee
from skleak.reports._leakage_report import LeakageReport
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, FloatArray

__all__ = ["TARGET", "build_leakage_report"]

TARGET = "(target)"
_N_MOST_EXPOSED = 10


def build_leakage_report(
    state: FitState,
    X: Any,
    y: FloatArray,
    *,
    blocks: Sequence[Columns],
    labels: Sequence[str],
    groups: Array | None = None,
    estimator: str = "",
    data_norm: float | None = None,
    tol: float = 0.0,
    seeded: bool = False,
    noise_target: str | None = None,
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
    estimator : str, default=""
        Name of the estimator.
    data_norm : float, default=None
        Promised bound on the norm of a record.
    tol : float, default=0.0
        Gradient norm to which the fit was solved.
    seeded : bool, default=False
        Whether the noise came from an integer seed.
    noise_target : str, default=None
        The target to which the noise scale was calibrated on the training records, if it was.

    Returns
    -------
    LeakageReport
    """
    part = state.participation(X, y)
    records = _records(state, X, y, part, groups)
    loss = records["fisher_information_loss"].to_numpy()
    group_table = _groups(state, X, y, part, groups, loss)
    report = LeakageReport(
        estimator=estimator,
        records=records,
        features=_features(state, X, y, part, blocks, labels),
        groups=group_table,
        dataset=_dataset(state, X, y, part, loss, group_table) | {"noise_target": noise_target},
        differential_privacy=output_perturbation_guarantee(
            state,
            data_norm,
            tol=tol,
            seeded=seeded,
            data_dependent_noise=noise_target is not None,
        ),
    )
    doubts = [] if state.balanced is None else state.derivative.doubts
    if doubts:
        doubts = [" ".join(["The leakage stated here is unreliable.", *doubts])]
    object.__setattr__(report, "findings", (*doubts, *findings(report)))
    object.__setattr__(report, "assumptions", assumptions(report, part))
    return report


def _records(
    state: FitState, X: Any, y: FloatArray, part: Participation, groups: Array | None
) -> pd.DataFrame:
    loss = state.record_loss(X, y, part)
    table = pd.DataFrame(
        {
            "copies": part.copies,
            "fisher_information_loss": loss,
            "diagonal_fisher_information_loss": state.record_loss(X, y, part, norm="trace"),
            "standard_error": _inverse(loss),
        },
        index=pd.RangeIndex(len(y), name="record"),
    )
    if groups is not None:
        table["group"] = groups
    return table


def _features(
    state: FitState,
    X: Any,
    y: FloatArray,
    part: Participation,
    blocks: Sequence[Columns],
    labels: Sequence[str],
) -> pd.DataFrame:
    """Statistics of the n x d table of leakage, of which only one block of rows exists at once."""
    blocks, labels = list(blocks), list(labels)
    if state.private_target:
        blocks.append(Columns(np.array([], dtype=np.intp), target=True))
        labels.append(TARGET)
    n, k = X.shape[0], len(blocks)
    largest, smallest = np.full(k, -np.inf), np.full(k, np.inf)
    where = np.zeros(k, dtype=np.intp)
    total, squares = np.zeros(k), np.zeros(k)
    # Deviations from the first record's loss: sums of squares then lose no digits to the mean.
    shift: FloatArray | None = None
    for rows in row_blocks(n, max(k, state.n_features)):
        some = Participation(part.copies[rows], part.reweights[rows])
        table = state.feature_loss(X[rows], y[rows], some, blocks)
        top = table.argmax(axis=0)
        better = table[top, np.arange(k)] > largest
        where[better] = rows.start + top[better]
        largest = np.maximum(largest, table.max(axis=0))
        smallest = np.minimum(smallest, table.min(axis=0))
        if np.all(np.isfinite(table)):
            shift = table[0].copy() if shift is None else shift
            total += some.copies @ (table - shift)
            squares += some.copies @ (table - shift) ** 2
        else:
            total += np.inf
    count = part.copies.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = total / count
        mean = deviation + (0.0 if shift is None else shift)
        std = np.sqrt(np.maximum(squares / count - deviation**2, 0.0))
        spread = np.where(np.isfinite(mean), std / mean, np.nan)
    bound = _inverse(largest)
    scale = np.array([_column_std(X, y, block, part.copies) for block in blocks])
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
    return frame.sort_values("relative_standard_error", kind="stable", na_position="last")


def _groups(
    state: FitState,
    X: Any,
    y: FloatArray,
    part: Participation,
    groups: Array | None,
    loss: FloatArray,
) -> pd.DataFrame:
    names = ["n_records", "mean_loss", "max_loss", "spread", "joint_loss"]
    if groups is None:
        empty = pd.DataFrame(columns=[*names, "most_exposed_record", "relative_mean"], dtype=float)
        return empty.rename_axis("group")
    joint = state.group_loss(X, y, part, groups)
    overall = _mean(loss, part.copies)
    rows = {}
    for label, members in pd.Series(np.arange(len(y))).groupby(groups, sort=True).indices.items():
        members = members[part.copies[members] > 0.0]
        if not len(members):
            continue
        inside, copies = loss[members], part.copies[members]
        rows[label] = {
            "n_records": len(members),
            "mean_loss": _mean(inside, copies),
            "max_loss": inside.max(),
            "spread": relative_spread(inside, copies),
            "joint_loss": joint[label],
            "most_exposed_record": int(members[inside.argmax()]),
            "relative_mean": _mean(inside, copies) / overall if 0.0 < overall < np.inf else np.nan,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")


def _dataset(
    state: FitState,
    X: Any,
    y: FloatArray,
    part: Participation,
    loss: FloatArray,
    groups: pd.DataFrame,
) -> dict[str, Any]:
    present = np.flatnonzero(part.copies > 0.0)
    inside = loss[present]
    order = present[np.argsort(-inside, kind="stable")[:_N_MOST_EXPOSED]]
    mean = _mean(loss, part.copies)
    spread = relative_spread(loss, part.copies)
    group_means = groups["mean_loss"].to_numpy(dtype=float)
    given = np.empty(0)
    if state.balanced is not None:
        given = state.record_loss(X, y, part, conditional=True)
    terms = None
    if state.noise.reads_data:
        terms = state.loss_terms(X, y, part, [state.whole_record])
    return {
        "n_records": len(present),
        "n_features": state.n_features,
        "noise_scale": state.noise_scale,
        "noise_covariance": state.noise.name,
        "alpha": state.objective.alpha,
        "loss": state.objective.loss.name,
        "target": "private" if state.private_target else "public",
        "reweighting": None if state.balanced is None else state.balanced.name,
        "mean_loss": mean,
        "std_loss": spread * mean if np.isfinite(mean) else np.nan,
        "min_loss": float(inside.min()),
        "median_loss": _median(inside, part.copies[present]),
        "max_loss": float(inside.max()),
        "spread": spread if np.isfinite(mean) else np.nan,
        "joint_loss": state.joint_loss(X, y, part),
        "conditional_mean_loss": _mean(given, part.copies) if len(given) else None,
        "conditional_max_loss": float(given[present].max()) if len(given) else None,
        "through_mean_mean_loss": _mean(terms.mean[:, 0], part.copies) if terms else None,
        "through_mean_max_loss": float(terms.mean[present].max()) if terms else None,
        "through_covariance_mean_loss": _mean(terms.covariance[:, 0], part.copies)
        if terms
        else None,
        "through_covariance_max_loss": float(terms.covariance[present].max()) if terms else None,
        "group_spread": float(np.std(group_means) / np.mean(group_means))
        if len(group_means) and np.all(np.isfinite(group_means)) and np.mean(group_means) > 0.0
        else np.nan,
        "most_exposed_records": order.tolist(),
    }


def _inverse(loss: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return 1.0 / loss


def _median(loss: FloatArray, copies: FloatArray) -> float:
    """Median with every record counted as often as it occurs."""
    order = np.argsort(loss, kind="stable")
    share = np.cumsum(copies[order]) / copies.sum()
    # The lowest and the highest value with at least half of the copies on either side.
    ends = np.searchsorted(share, [0.5 - 1e-12, 0.5 + 1e-12])
    return float(loss[order[np.minimum(ends, len(loss) - 1)]].mean())


def _mean(loss: FloatArray, copies: FloatArray) -> float:
    present = copies > 0.0
    return float(np.average(loss[present], weights=copies[present]))


def _column_std(X: Any, y: FloatArray, block: Columns, copies: FloatArray) -> float:
    """Standard deviation of a single column over the records; nan for a block."""
    if block.target:
        values = y
    elif block.indices is not None and len(block.indices) == 1:
        column = X[:, block.indices]
        values = np.ravel(column.toarray() if hasattr(column, "toarray") else column)
    else:
        return np.nan
    mean = np.average(values, weights=copies)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=copies)))
