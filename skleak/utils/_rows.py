"""Whether records are the same, and which."""

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._typing import Array, Data, FloatArray

__all__ = ["row_keys", "same_rows"]


def same_rows(X: Data, other: Data) -> bool:
    """Return True if two tables are the same, row by row; a dense one is no CSR one.

    Parameters
    ----------
    X, other : ndarray or CSR of shape (n, d)
        The tables.

    Returns
    -------
    bool

    Examples
    --------
    >>> same_rows(np.eye(2), np.eye(2)), same_rows(np.eye(2), sparse.csr_array(np.eye(2)))
    (True, False)
    """
    if X is other:
        return True
    if X.shape != other.shape or sparse.issparse(X) != sparse.issparse(other):
        return False
    return (other != X).nnz == 0 if sparse.issparse(X) else np.array_equal(X, other)


def row_keys(X: Data, y: FloatArray) -> Array:
    """A 64-bit key of every record, equal for equal records.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Records.
    y : ndarray of shape (n,)
        Their targets.

    Returns
    -------
    ndarray of uint64 of shape (n,)

    Examples
    --------
    >>> keys = row_keys(np.array([[0.0], [1.0], [-0.0]]), np.ones(3))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    keys = np.empty(X.shape[0], dtype=np.uint64)
    for rows in row_blocks(X.shape[0], X.shape[1]):
        # Adding zero turns -0.0 into 0.0, which is equal but has other bits.
        table = pd.DataFrame(np.column_stack([dense_rows(X, rows), y[rows]]) + 0.0)
        keys[rows] = pd.util.hash_pandas_object(table, index=False).to_numpy()
    return keys
