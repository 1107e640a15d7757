"""Columns by name, by index, by mask, by slice."""

from collections.abc import Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np

from skleak.utils._typing import Array, IntArray

# What a reference to the target is called among references to columns.
TARGET = "(target)"


def is_target(reference: Any, names: Array | None) -> bool:
    """Return True if a reference means the target, and no column of that name."""
    return (
        isinstance(reference, str)
        and reference == TARGET
        and (names is None or TARGET not in names)
    )


def is_single_feature(feature: Any) -> bool:
    """Return True if a reference names one column rather than a block of them."""
    return isinstance(feature, str | Integral) and not isinstance(feature, bool | np.bool_)


def feature_labels(names: Array | None, n_features: int) -> list[str]:
    """Names of the columns, made up as ``x0, x1, ...`` where the data had none."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]


def resolve_features(
    features: Any, names: Array | None, n_features: int, parameter: str = "features"
) -> IntArray:
    """Return the indices of the columns that a reference means.

    Returns (k,): in the order of the reference.
    """
    if isinstance(features, slice):
        indices = np.arange(n_features)[features]
    elif is_single_feature(features):
        indices = np.array([_index(features, names, n_features, parameter)])
    else:
        listed = _as_list(features, parameter)
        if listed and all(isinstance(item, bool | np.bool_) for item in listed):
            indices = _from_mask(listed, n_features, parameter)
        else:
            indices = np.array(
                [_index(item, names, n_features, parameter) for item in listed], dtype=np.intp
            )
    if len(indices) == 0:
        raise ValueError(f"`{parameter}` selects no column. Pass at least one name or index.")
    unique, counts = np.unique(indices, return_counts=True)
    if np.any(counts > 1):
        twice = [feature_labels(names, n_features)[j] for j in unique[counts > 1]]
        raise ValueError(f"`{parameter}` names a column twice: {twice}. Name each once.")
    return indices


def _as_list(features: Any, parameter: str) -> list[Any]:
    if isinstance(features, Sequence) or (hasattr(features, "tolist") and np.ndim(features) > 0):
        return list(features)
    raise TypeError(
        f"`{parameter}` must be a name, an index, a slice, a boolean mask or a list of names or "
        f"indices; got {type(features).__name__}."
    )


def _from_mask(mask: list[Any], n_features: int, parameter: str) -> IntArray:
    if len(mask) != n_features:
        raise ValueError(
            f"`{parameter}` is a boolean mask of length {len(mask)}, but there are {n_features} "
            "columns. Pass one entry per column."
        )
    return np.flatnonzero(mask)


def _index(feature: Any, names: Array | None, n_features: int, parameter: str) -> int:
    if isinstance(feature, str):
        return _index_of_name(feature, names, parameter)
    if isinstance(feature, Integral) and not isinstance(feature, bool | np.bool_):
        feature = int(feature)
        if not -n_features <= feature < n_features:
            raise ValueError(
                f"`{parameter}` has the index {feature}, but there are {n_features} columns: "
                f"expected {-n_features} to {n_features - 1}."
            )
        return feature % n_features
    raise TypeError(
        f"`{parameter}` must hold column names or indices; got {feature!r} of type "
        f"{type(feature).__name__}."
    )


def _index_of_name(name: str, names: Array | None, parameter: str) -> int:
    if names is None:
        raise ValueError(
            f"`{parameter}` names the column {name!r}, but the model was fitted on data without "
            "column names. Pass indices, or fit on a DataFrame; inside a Pipeline, call "
            '`set_output(transform="pandas")` on it first.'
        )
    matches = np.flatnonzero(np.asarray(names, dtype=object) == name)
    if len(matches) == 0:
        listed = [str(known) for known in names]
        close = get_close_matches(name, listed, n=3, cutoff=0.4) or listed[:10]
        raise ValueError(
            f"`{parameter}` names the unknown column {name!r}. Expected one of the "
            f"{len(listed)} columns the model was fitted on, for instance {close}."
        )
    return int(matches[0])
