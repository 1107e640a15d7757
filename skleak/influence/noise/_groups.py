"""Joint leakage of groups of records outside memory: sums of all groups in one pass."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns, JointParts, Norm, joint_parts, norm_of_joint
from skleak.influence.noise._fitted import mean_factor
from skleak.influence.noise._fixed import per_noise
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import Array, FloatArray

# Entries of the sums of all groups of one pass: 256 MB.
_ELEMENTS = 1 << 25

Sums = dict[Any, tuple[int, Any]]  # by label: number of records, and sums of their Jacobians


def fixed_group_losses(
    state: FitState, batch: RecordBatch, groups: Any, columns: Columns, norm: Norm = "spectral"
) -> dict[Any, float]:
    """Fisher information loss of each group of records, weights held fixed, by label.

    One pass finds the labels; the next one, or several where the sums of all groups would be
    large, add up the Jacobians. ``groups`` (n,) is aligned with the records.
    """
    parts = joint_parts(mean_factor(state), columns)
    labels = group_names(groups)
    count = max(1, _ELEMENTS // len(state.factor.coefficients) ** 2)
    width = max(1, parts.joint_width)
    aligned = batch.y, batch.sample_weight, batch.factors**2, groups
    blocks = Blocks.of(batch.X, *aligned, width=width)
    directions = columns.count(state.n_features, state.factor.n_target_directions)
    losses = {}
    for start in range(0, len(labels), count):
        chosen = frozenset(labels[start : start + count])
        found = blocks.map_reduce(_group_sums, _merged, parts, chosen)
        for label in labels[start : start + count]:
            n, sums = found.get(label, (0, None))
            value = 0.0
            if n:
                value = norm_of_joint(parts.joint(sums), norm)
            if n and norm == "trace":
                value /= np.sqrt(n * directions)
            losses[label] = float(per_noise(np.array(value), state.noise_scale))
    return losses


def group_names(groups: Any) -> list[Any]:
    """Distinct labels, ascending; one pass over labels (n,) outside memory."""
    found: set[Any] = Blocks.of(groups, width=1).map_reduce(_distinct, set.union)
    return sorted(found)


def _distinct(labels: Array) -> set[Any]:
    missing = int(pd.isna(labels).sum())
    if missing:
        raise ValueError(
            f"`groups` has missing labels, {missing} of them in one block. Give those records a "
            "label of their own, for instance 'unknown'."
        )
    return set(pd.unique(labels).tolist())


def _group_sums(
    X: FloatArray,
    y: FloatArray,
    s: FloatArray,
    weights: FloatArray,
    groups: Array,
    parts: JointParts,
    chosen: frozenset[Any],
) -> Sums:
    """Return the sums of the groups of a block that are among the chosen ones."""
    found: Sums = {}
    for label, rows in pd.Series(np.arange(len(y))).groupby(groups).indices.items():
        some = rows[s[rows] > 0.0]
        if len(some) and label in chosen:
            found[label] = len(some), parts.joint_sums(X[some], y[some], weights[some])
    return found


def _merged(total: Sums, part: Sums) -> Sums:
    for label, (n, sums) in part.items():
        if label in total:
            before, mine = total[label]
            total[label] = before + n, add(mine, sums)
        else:
            total[label] = n, sums
    return total
