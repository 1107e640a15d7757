"""Labels of classes: which there are, and their codes."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skleak.utils._arguments import dask_module
from skleak.utils._records import row_label, values_withheld
from skleak.utils._typing import Array, FloatArray, IntArray

# Numbers of Python as pandas infers them; booleans are there beside None.
NUMBERS = ("boolean", "decimal", "integer", "floating", "mixed-integer-float")
# Classes that a message lists.
_MOST_SHOWN = 10


def label_places(labels: Array, classes: Any) -> IntArray:
    """Place of every label among classes, -1 of what is none of them.

    Labels are equal whatever their type: 1, 1.0 and True are one, and "1" is another.

    Shapes: ``labels`` (n,); ``classes`` (n_classes,); returns (n,).
    """
    known = {label: place for place, label in enumerate(np.asarray(classes).tolist())}
    codes, distinct = pd.factorize(labels.astype(object) if labels.dtype.kind in "UT" else labels)
    places = [known.get(label, -1) for label in np.asarray(distinct).tolist()]
    return np.array([*places, -1], dtype=np.intp)[codes]


def codes_of(y: Any, classes: Array) -> Any:
    """Code of each label of a Dask array: 0 and 1 of two classes, else its number; (n,)."""
    array = dask_module("dask.array")
    return array.map_blocks(encoded, y, classes, dtype=np.float64, meta=np.empty(0))


def encoded(
    y: Array,
    classes: Array,
    records: Any = None,
    counts: dict[Any, tuple[int, str]] | None = None,
    name: str = "`classes_`",
) -> FloatArray:
    """Code of each label, 0 and 1 of two classes, else its number, (n,).

    ValueError where one is not among the classes. What tells of whom: the records that have the
    labels, or how many have each, and the name of one; of a block neither.
    """
    codes = label_places(np.asarray(y), classes)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        n, whose = len(unknown), " of one block"
        if counts is not None:
            of = [counts[label] for label in y[unknown].tolist()]
            n, whose = sum(count for count, _ in of), f"; one is that of {of[0][1]}"
        elif records is not None:
            whose = f"; the first is that of {row_label(records, int(unknown[0]))}"
        raise ValueError(
            f"The labels of {n} records are not among {name}{whose}. Expected "
            f"{classes.tolist()[:_MOST_SHOWN]!r}."
        )
    return codes.astype(np.float64)


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
    with values_withheld(records, y), warnings.catch_warnings():
        if (
            declared is not None
        ):  # that they are many is known, and how many occur is not to be told
            warnings.simplefilter("ignore", UserWarning)
        several = y if counts is None else np.repeat(y, 3)  # distinct labels look continuous
        check_classification_targets(several)
    found: Array = np.unique(y)
    if declared is not None:
        classes = _declared(declared, found, name)
        encoded(y, classes, records, counts, name)
        return classes
    if len(found) < 2:
        raise ValueError(
            f"{estimator} needs two classes; the target holds only one class. Pass records of both "
            "classes."
        )
    return found


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
