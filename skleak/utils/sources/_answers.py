"""Answers of a fitted model about records outside memory, block by block."""

from collections.abc import Callable
from functools import wraps
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skleak.utils._blocks import Blocks
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array, Data
from skleak.utils.sources._columns import only_finite
from skleak.utils.sources._open import LargeRecords, is_large_source, open_records

F = TypeVar("F", bound=Callable[..., Any])


def opened(model: Any, X: Any, y: Any = None) -> LargeRecords:
    """Open records outside memory in the columns of a fitted model."""
    table = open_records(X, y, names=getattr(model, "feature_names_in_", None))
    validate_data(model, table.schema, reset=False, skip_check_array=True)
    return table


def refuse_path(X: Any, method: str) -> None:
    """Raise for a path, which only `fit` opens.

    Whoever may ask a model that is served must not choose a file that its machine reads.
    """
    if isinstance(X, str | PathLike):
        raise TypeError(
            f"{method} opens no file, since a model that is served would open those of its machine "
            "for whoever asks; got a path. Pass polars.scan_parquet(path), or a Dask frame."
        )


def lazily(method: F) -> F:
    """Wrap a method that answers about records to answer lazily where these lie outside memory.

    What travels to where the records are is a released model, of which nothing is confidential.
    A path is refused.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any) -> Any:
        kind = getattr(self, "_released", type(self))
        refuse_path(X, method.__name__)
        if not is_large_source(X) or "coef_" not in getattr(kind, "_published", ()):
            return method(self, X)
        check_is_fitted(self)
        table = opened(self, X)
        records = only_finite(table.X, "X", table.names)
        blocks = Blocks.of(records, width=0, keep_sparse=True)
        return blocks.map(_answered, _twin(self, kind), method.__name__)

    return wrapped  # type: ignore[return-value]


def _twin(model: Any, kind: Any) -> Any:
    """Return a released model that answers as this one does about columns by their position."""
    twin = kind.__new__(kind)
    for name in kind._published:
        if hasattr(model, name) and name != "feature_names_in_":
            setattr(twin, name, getattr(model, name))
    return twin


def _answered(X: Data, model: Any, name: str) -> Array:
    """Answer about a block; scikit-learn refuses one of no records."""
    answer: Array = getattr(model, name)(X if X.shape[0] else np.zeros((1, X.shape[1])))
    return answer[: X.shape[0]]
