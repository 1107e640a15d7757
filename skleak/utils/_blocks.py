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
    """Yield slices that cover ``range(n_rows)``, each of at most ``elements`` table entries.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the table.
    elements : int, default=BLOCK_ELEMENTS
        Bound on the number of entries of a block; a block has at least one row.

    Yields
    ------
    slice

    Examples
    --------
    >>> list(row_blocks(5, 10, elements=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, elements // max(1, n_columns))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def with_progress(blocks: Iterator[slice], total: int, task: str, *, show: bool) -> Iterator[slice]:
    """Yield blocks of rows, and show a progress bar where it is wanted.

    Parameters
    ----------
    blocks : iterator of slice
        See `row_blocks`.
    total : int
        Number of rows in all.
    task : str
        What is done.
    show : bool
        Whether to show the bar.

    Yields
    ------
    slice

    Examples
    --------
    >>> list(with_progress(row_blocks(3, 1, elements=2), 3, "work", show=False))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    with tqdm(total=total, desc=task, unit="record", leave=False, disable=not show) as bar:
        for rows in blocks:
            yield rows
            bar.update(rows.stop - rows.start)


def dense_rows(X: Data, rows: slice) -> FloatArray:
    """Return some rows of a dense or CSR matrix as a dense array.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        The table.
    rows : slice
        Which rows.

    Returns
    -------
    ndarray of shape (n_rows, d)

    Examples
    --------
    >>> import numpy as np
    >>> dense_rows(np.eye(3), slice(1, 2))
    array([[0., 1., 0.]])
    """
    block = X[rows]
    return block.toarray() if sparse.issparse(block) else np.asarray(block)
