"""Tables outside memory through transformers of rows, block by block."""

import copy
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from skleak.utils._predictions import select_columns
from skleak.utils._sklearn_compat import output_container
from skleak.utils._typing import Array
from skleak.utils.blocks._dask import is_large
from skleak.utils.sources import is_large_source, refuse_path
from skleak.utils.sources._raw import check_columns, head_of, raw_frame


def takes_large(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let `fit` or `transform` of a public transformer take tables outside memory."""

    @wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_large_source(X):
            return method(self, X, *args, **kwargs)
        if method.__name__ == "transform":
            refuse_path(X, "transform")
            check_is_fitted(self)
            return transform_large(self, X)
        y = args[0] if args else kwargs.get("y")
        fitted = method(self, first_rows(X, named(y)), None)
        if not is_large(X) and output_container(self) is None:
            # Columns of tables outside memory keep their names, and so do others from then on.
            self.set_output(transform="pandas")
        return fitted

    return wrapped


def keeps_target(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let `fit_transform` hand on the column of the target of a table outside memory."""

    @wraps(method)
    def wrapped(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
        if is_large_source(X) and not is_large(X):
            return transform_large(self.fit(X, y), X, named(y))
        return method(self, X, y, **fit_params)

    return wrapped


def transform_large(transformer: Any, X: Any, keep: Sequence[str] = ()) -> Any:
    """Transform a table outside memory, lazily; columns to keep follow as they are."""
    transformer = copy.deepcopy(transformer)  # what is changed later does not change these rows
    if is_large(X):
        return _transformed_array(transformer, X)
    frame = raw_frame(X)
    rows = head_of(frame, 2)
    meta = _transformed(rows, transformer, tuple(keep)).iloc[:0]
    return frame.map_partitions(_transformed, transformer, tuple(keep), meta=meta)


def _transformed_array(transformer: Any, X: Any) -> Any:
    X = X.rechunk({1: -1})
    own = dense_of(transformer.transform(X[:2].compute()))
    chunks = (X.chunks[0], (own.shape[1],))
    return X.map_blocks(
        _transformed_block, transformer, own.shape[1], chunks=chunks, dtype=own.dtype, meta=own[:0]
    )


def _transformed_block(block: Any, transformer: Any, width: int) -> Array:
    return dense_of(transformer.transform(block)) if len(block) else np.empty((0, width))


def _transformed(part: pd.DataFrame, transformer: Any, keep: tuple[str, ...]) -> pd.DataFrame:
    """Encode the rows of a partition, and append columns to keep."""
    if not len(part):
        # Few transformers take no rows.
        width = len(transformer.get_feature_names_out())
        encoded: Any = np.empty((0, width))
    else:
        encoded = transformer.transform(select_columns(transformer, part.drop(columns=list(keep))))
    names = [str(name) for name in transformer.get_feature_names_out()]
    clashing = [name for name in names if name in keep]
    if clashing:
        raise ValueError(
            f"The transformer makes columns of the names {clashing}, which columns that are handed "
            "on have, too. Rename the columns of the target or the weights."
        )
    found = pd.DataFrame(dense_of(encoded), columns=names, index=part.index)
    return found.assign(**{name: part[name] for name in keep})


def first_rows(X: Any, without: Sequence[str]) -> Any:
    """Return a few rows in memory, without some columns."""
    if is_large(X):
        return X[:64].compute()
    if not is_large_source(X):
        return X
    rows = head_of(raw_frame(X))
    check_columns(rows, without)
    return rows.drop(columns=list(without))


def named(y: Any) -> list[str]:
    """Return the name of the target's column, in a list; none where the target comes on its own."""
    return [y] if isinstance(y, str) else []


def dense_of(encoded: Any) -> Array:
    """Return the encoded rows as an array."""
    if sparse.issparse(encoded):
        return np.asarray(encoded.toarray())
    return encoded.to_numpy() if hasattr(encoded, "to_numpy") else np.asarray(encoded)
