"""Labels of classes: which there are, and their codes."""

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skleak.utils._arguments import dask_module
from skleak.utils._records import row_label, values_withheld
from skleak.utils._typing import Array, FloatArray

# Numbers of Python as pandas infers them; booleans are there beside None.
NUMBERS = ("boolean", "decimal", "integer", "floating", "mixed-integer-float")


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
        # As text of any length: cut to that of the classes, another label could be one of them.
        y = np.asarray(y, dtype=str) if is_text(classes) else y
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
    kind = infer_dtype(y) if y.dtype.kind == "O" else "integer"
    if kind.startswith("mixed") and any(isinstance(label, str) for label in y.tolist()):
        raise TypeError(
            "The types of the target are mixed: some labels are text and others are not. Give "
            "all of them one type."
        )
    if kind == "decimal" or kind not in ("string", "empty", *NUMBERS):
        raise ValueError(
            f"Unknown label type: {kind}. Pass classes as integers or text, or fit a regression."
        )


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


def find_classes(
    y: Array,
    declared: Any,
    records: Any,
    estimator: str,
    counts: dict[Any, tuple[int, str]] | None = None,
    *,
    name: str = "`classes`",
) -> Array:
    """Return the classes of targets in ascending order, (n_classes,).

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets; or distinct labels, of which ``counts`` says how many records have them.
    declared : array-like of shape (n_classes,) or None
        Classes that are public knowledge; None reads them off the labels.
    records : object
        Of which rows are named.
    estimator : str
        Its name, for messages.
    counts : dict, default=None
        Number of records of each label, and the name of one of them.
    name : str, default="`classes`"
        How ``declared`` is called in messages.

    Raises
    ------
    ValueError
        For targets that are no classes, a single class, and labels that were not declared.
    """
    with values_withheld(records, y):
        several = y if counts is None else np.repeat(y, 3)  # distinct labels look continuous
        check_classification_targets(several)
    found: Array = np.unique(y)
    if declared is not None:
        classes = _declared(declared, found, name)
        _check_among(y, classes, records, counts, name)
        return classes
    if len(found) < 2:
        raise ValueError(
            f"{estimator} needs two classes; the target holds only one class. Pass records of both "
            "classes."
        )
    return found


def check_known_labels(y: Array, classes: Array, records: Any) -> None:
    """Refuse labels other than the classes of a fitted model."""
    unknown = np.flatnonzero(~pd.Series(y).isin(classes.tolist()).to_numpy())
    if len(unknown):
        raise ValueError(
            f"`y` holds labels the model was not fitted on, of {len(unknown)} records; the "
            f"first is that of {row_label(records, int(unknown[0]))}. Expected labels among "
            "`classes_`."
        )


def _declared(classes: Any, found: Array, name: str) -> Array:
    """Sort the classes that were declared public, of the same type as the labels found."""
    declared = column_or_1d(np.asarray(classes))
    distinct: Array = np.unique(declared)
    if len(distinct) < 2 or len(distinct) < len(declared):
        raise ValueError(
            f"{name} must list at least two different labels; got {declared.tolist()!r}."
        )
    if is_text(distinct) != is_text(found):
        raise ValueError(
            f"{name} holds {distinct.dtype} and the target {found.dtype}: pass labels of the "
            "same type."
        )
    return distinct


def _check_among(
    y: Array, classes: Array, records: Any, counts: dict[Any, tuple[int, str]] | None, name: str
) -> None:
    unknown = np.flatnonzero(~np.isin(y, classes))
    if not len(unknown):
        return
    n = len(unknown)
    if counts is None:
        first = f"; the first is that of {row_label(records, int(unknown[0]))}"
    else:
        of = [counts[label] for label in y[unknown].tolist()]
        n, first = sum(count for count, _ in of), f"; one is that of {of[0][1]}"
    raise ValueError(
        f"The labels of {n} records are not among {name}{first}. Expected {classes.tolist()!r}."
    )
