"""Whether records are the same, and which."""

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.utils._blocks import Blocks
from skleak.utils._typing import Array, Data, FloatArray


def same_rows(X: Data, other: Data) -> bool:
    """Return True if two tables are the same, row by row; a dense one is no CSR one.

    Shapes: ``X``, ``other`` (n, d).
    """
    if X is other:
        return True
    if X.shape != other.shape or sparse.issparse(X) != sparse.issparse(other):
        return False
    return (other != X).nnz == 0 if sparse.issparse(X) else np.array_equal(X, other)


def row_keys(X: Data, y: FloatArray) -> Array:
    """Return a 64-bit key of every record, equal for equal records.

    Shapes: ``X`` (n, d); ``y`` (n,); returns (n,).
    """

    def hashed(X: FloatArray, y: FloatArray) -> Array:
        # Adding zero turns -0.0 into 0.0, which is equal but has other bits.
        table = pd.DataFrame(np.column_stack([X, y]) + 0.0)
        return pd.util.hash_pandas_object(table, index=False).to_numpy()

    return Blocks.of(X, y).map(hashed)
