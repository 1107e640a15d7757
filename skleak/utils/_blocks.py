"""Walk through records in blocks of bounded memory."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from tqdm import tqdm

from skleak.utils._typing import Data, FloatArray

__all__ = ["BLOCK_ELEMENTS", "dense_rows", "row_blocks", "with_progress"]

# Number of float64 values in one block of an (n, d) table: 2 MB, so that the handful of tables
# a block needs at once stays in the processor's cache.
BLOCK_ELEMENTS = 1 << 18


def row_blocks(n_rows: int, n_columns: int, elements: int = BLOCK_ELEMENTS) -> Iterator[slice]:
    """Yield slices that cover ``range(n_rows)``, each of at most ``elements`` table entries."""
    step = max(1, elements // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def with_progress(blocks: Iterator[slice], total: int, task: str, *, show: bool) -> Iterator[slice]:
    """Yield blocks of rows, and show a progress bar where it is wanted."""
    with tqdm(total=total, desc=task, unit="record", leave=False, disable=not show) as bar:
        for rows in blocks:
            yield rows
            bar.update(rows.stop - rows.start)


def dense_rows(X: Data, rows: slice) -> FloatArray:
    """Return some rows of a dense or CSR matrix as a dense array.

    Shapes: ``X`` (n, d); returns (n_rows, d).
    """
    block = X[rows]
    return block.toarray() if sparse.issparse(block) else np.asarray(block)
