"""Statistics of the Fisher information loss of columns over records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel
from skleak.influence.state import RecordBatch
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.summaries._moments import Moments


def column_losses(
    model: LeakageModel,
    batch: RecordBatch,
    blocks: Sequence[Columns],
    labels: Sequence[str],
) -> pd.DataFrame:
    """Statistics of the n x d table of leakage, of which only one block of rows exists at once."""
    state = model.state
    # A record of weight zero took no part, and has no share in any statistic.
    present = np.flatnonzero(batch.present)
    n, k = len(present), len(blocks)
    statistics = Moments.of(np.empty((0, k)))
    for rows in row_blocks(n, max(k, state.n_features)):
        some = model.feature_loss(batch.take(present[rows]), blocks)
        statistics = statistics.merged(Moments.of(some))
    scale = np.array([_column_std(batch.X, batch.y, block, present) for block in blocks])
    if state.factor.n_target_directions > 1:
        scale[[block.target for block in blocks]] = np.nan  # class numbers have no spread
    return loss_table(statistics, scale, labels, known=state.converged)


def loss_table(
    table: FloatArray | Moments,
    scale: FloatArray,
    labels: Sequence[str],
    *,
    known: bool = True,
) -> pd.DataFrame:
    """Statistics of the Fisher information loss of columns, from the (n, k) table of it.

    Shapes: ``scale`` (k,), standard deviations of the columns.
    """
    statistics = table if isinstance(table, Moments) else Moments.of(table)
    mean = statistics.mean
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(np.isfinite(mean), statistics.std / mean, np.nan)
    frame = pd.DataFrame(
        {
            "max_loss": statistics.largest,
            "mean_loss": mean,
            "min_loss": statistics.smallest,
            "spread": spread,
            "standard_error": inverse(statistics.largest),
            "column_std": scale,
        },
        index=pd.Index(labels, name="feature"),
    )
    if not known:
        frame = frame.assign(**{name: np.nan for name in frame if name != "column_std"})
    return frame


def inverse(loss: FloatArray) -> FloatArray:
    """``1 / loss``, infinite where nothing leaks."""
    with np.errstate(divide="ignore"):
        return 1.0 / loss


def _column_std(X: Any, y: FloatArray, block: Columns, present: IntArray) -> float:
    """Return the standard deviation of a single column over some records; nan for a block."""
    if block.target:
        values = y
    elif block.indices is not None and len(block.indices) == 1:
        values = np.ravel(dense(X[:, block.indices]))
    else:
        return np.nan
    return float(np.std(values[present]))
