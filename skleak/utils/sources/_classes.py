"""Classes of a classifier: declared public, or read off the labels. Messages quote no label."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skleak.utils._records import row_label, values_withheld
from skleak.utils._typing import Array
from skleak.utils.sources._targets import is_text


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
        type_of_target(several, input_name="y", raise_unknown=True)
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
