"""From tables to a finished leakage report, wherever the records were measured."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.leakage import LeakageModel
from skleak.report.guarantee._output_perturbation import Promises
from skleak.report.leakage._assumptions import assumptions
from skleak.report.leakage._findings import facts
from skleak.report.leakage._leakage_report import LeakageReport
from skleak.report.leakage._sentences import findings
from skleak.utils._records import named
from skleak.utils._typing import FloatArray

N_MOST_EXPOSED = 10
# Quantiles of the loss that a report states.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True)
class LossTotals:
    """Losses of whole records, over those that take part."""

    n: int
    mean: float
    spread: float  # standard deviation over mean
    smallest: float
    median: float
    largest: float
    quantiles: FloatArray  # at `LEVELS`
    quantile_error: float  # of these and the median, relative to their size
    joint: float  # loss of all records together
    most_exposed: list[Any]  # labels
    more: Mapping[str, tuple[float, float]]  # mean and largest of losses that only some fits have


def dataset_facts(
    model: LeakageModel, promises: Promises, totals: LossTotals, groups: pd.DataFrame, **more: Any
) -> dict[str, Any]:
    """Put together the settings of a fit, the losses of all records, and what else is given."""
    state, mean = model.state, totals.mean
    known = bool(np.isfinite(mean))
    group_means = groups["mean_loss"].to_numpy(dtype=float)
    some: dict[str, float | None] = {}
    for name in ("conditional", "through_mean", "through_covariance"):
        ends = totals.more.get(name, (None, None))
        some |= {f"{name}_mean_loss": ends[0], f"{name}_max_loss": ends[1]}
    return {
        "converged": state.converged,
        "n_records": totals.n,
        "n_features": state.n_features,
        "noise_scale": state.noise_scale,
        "noise_covariance": state.noise.name,
        "alpha": state.objective.alpha,
        "loss": state.objective.loss.name,
        "private_target": state.private_target,
        "reweighting": None if state.balanced is None else state.balanced.name,
        "mean_loss": mean,
        "std_loss": totals.spread * mean if known else np.nan,
        "min_loss": totals.smallest,
        "median_loss": totals.median,
        "max_loss": totals.largest,
        "loss_quantiles": {
            f"{level:g}": float(value)
            for level, value in zip(LEVELS, totals.quantiles, strict=True)
        },
        "quantile_error": totals.quantile_error,
        "spread": totals.spread if known else np.nan,
        "joint_loss": totals.joint,
        **some,
        "group_spread": float(np.std(group_means) / np.mean(group_means))
        if len(group_means) and np.all(np.isfinite(group_means)) and np.mean(group_means) > 0.0
        else np.nan,
        "most_exposed_records": totals.most_exposed,
        "noise_goal": promises.noise_goal,
        **({"noise_calibrated": True} if promises.calibrated else {}),
        "seeded": promises.seeded,
        **more,
    }


def label_facts(index: Any, n_rows: int) -> dict[str, Any]:
    """Say whether records are called by the index of their table, of so many rows."""
    if isinstance(index, np.ndarray):
        index = pd.Index(index)
    own = named(index) if index is None or isinstance(index, pd.Index) else index
    return {"labels": "position" if own is None else "index", "n_rows": n_rows}


def finished(
    model: LeakageModel,
    report: LeakageReport,
    is_weighted: bool,
    more: tuple[str, ...],
    shows_most: tuple[Hashable, float] | None,
) -> LeakageReport:
    """Add the facts, the findings and the conditions; ``more`` are conditions of its own.

    ``is_weighted`` says whether some sample weight is not one; ``shows_most`` is the record whose
    absence would show most, where it is known, and how much.
    """
    doubts = model.doubts
    if doubts:
        doubts = [" ".join(["The leakage stated here is unreliable.", *doubts])]
    report = replace(report, facts=facts(report, shows_most))
    return replace(
        report,
        findings=(*doubts, *findings(report)),
        assumptions=(*assumptions(report, is_weighted), *more),
    )


def group_row(
    losses: tuple[int, float, float, float], joint: float, worst: Any, overall: float
) -> dict[str, Any]:
    """Statistics of a group: number, mean, largest and spread of its losses, and what else."""
    row = dict(zip(("n_records", "mean_loss", "max_loss", "spread"), losses, strict=True))
    return {
        **row,
        "joint_loss": joint,
        "most_exposed_record": worst,
        "relative_mean": row["mean_loss"] / overall if 0.0 < overall < np.inf else np.nan,
    }


def groups_frame(rows: Mapping[Any, dict[str, Any]]) -> pd.DataFrame:
    """Table of groups by label."""
    if not rows:
        names = ["n_records", "mean_loss", "max_loss", "spread", "joint_loss"]
        empty = pd.DataFrame(columns=[*names, "most_exposed_record", "relative_mean"], dtype=float)
        return empty.rename_axis("group")
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("group")
