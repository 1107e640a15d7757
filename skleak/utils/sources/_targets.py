"""Targets of records outside memory, as the losses take them."""

from typing import Any

import numpy as np

from skleak.utils._optional import dask_module
from skleak.utils._typing import Array, FloatArray
from skleak.utils.sources._columns import as_floats


def float_targets(y: Any) -> Any:
    """Return a Dask array of numbers as float64, lazily, of shape (n,)."""
    return as_floats(y, "y")


def codes_of(y: Any, classes: Array) -> Any:
    """Code of each label of a Dask array: 0 and 1 of two classes, else its number; (n,)."""
    array = dask_module("dask.array")
    return array.map_blocks(block_codes, y, classes, dtype=np.float64, meta=np.empty(0))


def block_codes(y: Array, classes: Array) -> FloatArray:
    """Code of each label of a block, (n,); ValueError where one is not among the classes."""
    y = np.asarray(y)
    if len(y) and not is_text(classes) and y.dtype.kind in "OUT" and is_text(y):
        known = np.zeros(len(y), dtype=bool)
    else:
        y = np.asarray(y, dtype=classes.dtype) if is_text(classes) else y
        known = np.isin(y, classes)
    if not np.all(known):
        raise ValueError(
            f"`y` holds labels the model was not fitted on, of {np.sum(~known)} records of one "
            "block. Expected labels among `classes_`."
        )
    if len(classes) == 2:
        return (y == classes[1]).astype(np.float64)
    return np.searchsorted(classes, y).astype(np.float64)


def expect_labels(y: Array) -> None:
    """Refuse what is no label before it is counted: numbers that are not whole, and mixed types."""
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            "Unknown label type: continuous. The target holds numbers that are not whole; pass "
            "classes as integers or text, or fit a regression."
        )
    if y.dtype.kind == "O":
        kinds = {_kind(label) for label in y.tolist()}
        if len(kinds) > 1 and "text" in kinds:
            raise TypeError(
                "The types of the target are mixed: some labels are text and others are not. Give "
                "all of them one type."
            )
        if other := kinds - {"text", "number"}:
            raise ValueError(
                f"Unknown label type: {min(other)}. Pass classes as integers or text, or fit a "
                "regression."
            )


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    is_number = isinstance(label, bool | int | float | np.number | np.bool_)
    return "number" if is_number else type(label).__name__


def label_array(labels: list[Any], dtype: np.dtype[Any]) -> Array:
    """Return labels as an array, of the declared type of their target where that can hold them."""
    found = np.array(labels)
    if dtype.kind == "O" and not is_text(found):
        return found
    declared = np.array(labels, dtype=dtype) if is_text(found) else found.astype(dtype)
    return declared if np.array_equal(declared, found) else found


def is_text(labels: Array) -> bool:
    """Return True for strings of any type that NumPy or pandas keeps them in."""
    return labels.dtype.kind in "UT" or all(isinstance(label, str) for label in labels.tolist())
