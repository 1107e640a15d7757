"""Statistics of the Fisher information loss of columns over records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns
from skleak.influence.leakage import LeakageModel
from skleak.influence.state import RecordBatch
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray


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
    statistics = _Statistics(k)
    for rows in row_blocks(n, max(k, state.n_features)):
        statistics.add(model.feature_loss(batch.take(present[rows]), blocks))
    scale = np.array([_column_std(batch.X, batch.y, block, present) for block in blocks])
    if state.factor.n_target_directions > 1:
        scale[[block.target for block in blocks]] = np.nan  # class numbers have no spread
    return loss_table(statistics, scale, labels, known=state.converged)


class _Statistics:
    """Largest, smallest, mean and spread of the columns of a table that comes in blocks of rows."""

    def __init__(self, k: int) -> None:
        self.n = 0
        self.largest, self.smallest = np.full(k, -np.inf), np.full(k, np.inf)
        self._total, self._squares = np.zeros(k), np.zeros(k)
        # Deviations from the first row: sums of squares then lose no digits to the mean.
        self._shift: FloatArray | None = None

    def add(self, table: FloatArray) -> None:
        """Count some rows, (n, k)."""
        self.n += len(table)
        self.largest = np.maximum(self.largest, table.max(axis=0))
        self.smallest = np.minimum(self.smallest, table.min(axis=0))
        if np.all(np.isfinite(table)):
            self._shift = table[0].copy() if self._shift is None else self._shift
            self._total += np.sum(table - self._shift, axis=0)
            self._squares += np.sum((table - self._shift) ** 2, axis=0)
        else:
            self._total += np.inf

    def mean_and_spread(self) -> tuple[FloatArray, FloatArray]:
        """Mean, and standard deviation over it, (k,) each."""
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = self._total / self.n
            mean = deviation + (0.0 if self._shift is None else self._shift)
            std = np.sqrt(np.maximum(self._squares / self.n - deviation**2, 0.0))
            return mean, np.where(np.isfinite(mean), std / mean, np.nan)


def loss_table(
    table: "FloatArray | _Statistics",
    scale: FloatArray,
    labels: Sequence[str],
    *,
    known: bool = True,
) -> pd.DataFrame:
    """Statistics of the Fisher information loss of columns, from the (n, k) table of it.

    Shapes: ``scale`` (k,), standard deviations of the columns.
    """
    if isinstance(table, _Statistics):
        statistics = table
    else:
        statistics = _Statistics(len(labels))
        statistics.add(table)
    mean, spread = statistics.mean_and_spread()
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
    """Standard deviation of a single column over some records; nan for a block."""
    if block.target:
        values = y
    elif block.indices is not None and len(block.indices) == 1:
        column = X[:, block.indices]
        values = np.ravel(column.toarray() if hasattr(column, "toarray") else column)
    else:
        return np.nan
    return float(np.std(values[present]))
