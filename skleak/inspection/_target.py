"""Leakage of the target: by its derivative for a number, by exact encodings for labels."""

from typing import Any

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import target_encodings
from skleak.influence.state import FitState
from skleak.inspection._cells import Cells, describe
from skleak.inspection._selection import Target
from skleak.inspection._separation import separations
from skleak.utils._typing import FloatArray, IntArray

OUTSIDE = "one standard deviation away is no target: the end of the column counts"
REWEIGHTED = "no distances: under a reweighting, what another target does is known to first order"


def target_cells(state: FitState, target: Target, rows: IntArray, unequal: str) -> Cells:
    """Leakage of the target of some records, with all transformers held fixed."""
    b = len(rows)
    unequal = unequal or (REWEIGHTED if state.balanced is not None else "")
    loss, pair, from_own = np.full((3, b), np.nan)
    candidates, outside = candidate_targets(state, target, rows)
    if target.is_number:
        batch = state.training.take(rows)
        alone = Columns(np.zeros(0, dtype=np.intp), target=True)
        loss = leakage_model(state).record_loss(batch, alone)
    if not unequal:
        pair, from_own = separations(state, target_encodings(state, rows, candidates))
    notes = describe(b, (outside, OUTSIDE), (True, unequal))
    return Cells(loss, pair, from_own, notes)


def candidate_targets(state: FitState, target: Target, rows: IntArray) -> tuple[FloatArray, Any]:
    """Targets to tell apart, (b, n_values), and where one deviation off is none, (b,)."""
    if not target.is_number:
        labels = np.arange(target.classes, dtype=np.float64)
        return np.broadcast_to(labels, (len(rows), len(labels))), False
    y = target.y[rows]
    wanted = np.column_stack([y - target.sd, y + target.sd, np.full_like(y, target.mean)])
    if state.objective.loss.quadratic:
        return wanted, False
    allowed = np.maximum(wanted, 0.0)  # counts
    return allowed, np.any(allowed != wanted, axis=1)
