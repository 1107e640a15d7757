"""What a frame of groups is made of: measures, labels of groups, and the records of reports."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from skleak.plotting.results import (
    best_rows,
    counts_success,
    guess_success,
    middle_noise,
    own_advantages,
)
from skleak.utils._arguments import check_numbers
from skleak.utils._records import checked_labels, named, row_labels
from skleak.utils._typing import FloatArray, IntArray

# Advantages that may lie a rounding outside of [0, 1].
_ROUNDING = 1e-9


def checked(measures: Mapping[str, npt.ArrayLike]) -> dict[str, FloatArray]:
    """Read the measures; each has a number for every record, (n,)."""
    if not isinstance(measures, Mapping) or not measures:
        raise TypeError(
            "`measures` must be a mapping from names to one number per record; got "
            f"{type(measures).__name__}. Pass `{{'loss': loss}}`."
        )
    values = {
        str(name): check_numbers(f"measures[{name!r}]", value, empty=False)
        for name, value in measures.items()
    }
    shapes = {value.shape for value in values.values()}
    if len(shapes) > 1 or any(value.ndim != 1 for value in values.values()):
        raise ValueError(
            f"`measures` must hold one number per record each; got shapes {sorted(shapes)}."
        )
    for name, value in values.items():
        if n_other := int((~np.isfinite(value)).sum()):
            raise ValueError(
                f"`measures[{name!r}]` is infinite for {n_other} of {len(value)} "
                "records: no mean is known. Without noise leakage is infinite: fit with a noise "
                "scale above zero, or leave the measure out."
            )
    return values


def labels_of(measures: Mapping[str, npt.ArrayLike]) -> pd.Index | None:
    """Return the labels of the records that measures are of; None where they have none."""
    found = [index for index in map(row_labels, measures.values()) if index is not None]
    if any(not index.equals(found[0]) for index in found):
        raise ValueError(
            "`measures` hold Series of different indexes: which record is meant is not clear. Pass "
            "arrays in one order."
        )
    return found[0] if found else None


def group_labels(
    groups: Any, n: int, index: pd.Index | None = None, rows: IntArray | None = None
) -> "pd.Series":
    """Label of each record's group, (n,), by position or by the labels of the records.

    Of several columns a label of each combination; with ``rows`` of the records at these.
    """
    if isinstance(groups, Mapping | pd.DataFrame):
        parts = {str(name): group_labels(groups[name], n, index, rows) for name in groups}
        table = pd.DataFrame(parts)
        name = "\n".join(map(str, table.columns))
        labels = pd.Series(list(zip(*(table[one] for one in table), strict=True)), name=name)
        return labels
    name = str(getattr(groups, "name", None) or "group")
    return pd.Series(checked_labels(groups, n, named(index), rows), name=name)


def of_audit(report: Any, noise_scale: float | None) -> pd.DataFrame:
    """Leakage of every attacked record at a noise scale: ``label`` and advantages."""
    scales = sorted(set(report.records["noise_scale"].tolist()))
    noise = middle_noise(report) if noise_scale is None else float(noise_scale)
    if noise not in scales:
        raise ValueError(
            f"`noise_scale` must be one that was audited, of {scales}; got {noise_scale!r}."
        )
    at = report.records[report.records["noise_scale"] == noise]
    bound = own_advantages(report, noise)["advantage"].to_numpy(dtype=float)
    # The bound on a record may be a rounding off what its prior allows.
    near = np.where(
        (bound > -_ROUNDING) & (bound < 1.0 + _ROUNDING), np.clip(bound, 0.0, 1.0), bound
    )
    table = pd.DataFrame({"record": at["record"].to_numpy(), "label": at["label"].to_numpy()})
    table["bound_advantage"] = near
    attack = best_rows(report).loc[noise, "attack"]
    start = "success_" if counts_success(report) else "mse_"
    if f"{start}{attack}" in at:
        value, prior = at[f"{start}{attack}"].astype(float), guess_success(report, at)
        gain = (value - prior) / (1.0 - prior).where(prior < 1.0)
        if not counts_success(report):
            prior = at["prior"].astype(float)
            gain = 1.0 - value / prior.where(prior > 0.0)
        table["attack_advantage"] = gain.to_numpy(dtype=float)
    return table


def groups_of(report: Any, table: pd.DataFrame, groups: Any) -> Any:
    """Return the groups of the records of a report, (n,): by their labels, or their positions."""
    if groups is None:
        if "group" not in table:
            raise ValueError(
                "`groups` is needed: this report was made without. Pass one label per record, or a "
                "Series by the labels of the records."
            )
        return table["group"]
    labels = pd.Index(table["label"])
    if hasattr(report, "kind"):
        n, rows = int(report.settings["n_records"]), table["record"].to_numpy(dtype=np.intp)
        own = named(labels) is not None and bool(np.any(labels.to_numpy() != rows))
    else:
        n, own = int(report.dataset["n_rows"]), report.dataset["labels"] == "index"
        # Some rows that are called by an index of their own stand nobody knows where.
        n, rows = (len(table), np.arange(len(table))) if own else (n, labels.to_numpy(np.intp))
    return group_labels(groups, n, labels if own else None, rows)
