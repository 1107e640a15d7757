"""What a model predicts: numbers, classes or counts, and which model that takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from skleak.cli._columns import Decisions, text_of, typed
from skleak.plotting.labels import count, shorten
from skleak.utils._typing import Array

_CALLED = {"linear": "linear regression", "logistic": "logistic regression"}
_CALLED |= {"poisson": "Poisson regression"}
# More classes than this are more likely names or numbers than classes.
_MOST_CLASSES = 32


@dataclass(frozen=True)
class Target:
    """Target of a prediction. Confidential."""

    model: str  # {"linear", "logistic", "poisson"}: Which model
    values: Array  # Numbers, or class labels, (n,)
    note: str  # What was decided

    @property
    def classes(self) -> bool:
        """True if classes are predicted."""
        return self.model == "logistic"

    def check(self, values: Array, name: str) -> None:
        """Refuse what is left of the target, (n,), where the model cannot be trained on it."""
        if len(values) < 2:
            raise ValueError(
                f"{len(values)} records are left that hold all that is needed; expected at least 2"
            )
        if len(np.unique(values)) < 2:
            raise ValueError(
                f"--target: {name!r} has a single value in all "
                "records: there is nothing to predict. Name another column"
            )


def read_target(
    column: "pd.Series[Any]", name: str, model: str, own: str | None = None
) -> tuple[Target, Array]:
    """Choose a model, and read the target as it takes it; `own` names one of the user's.

    Shapes: ``column`` (n,); returns ``target``; ``kept`` (n,): records that have one.
    """
    # A date has days, a text of numbers is numbers: as for any other column.
    decisions = Decisions()
    column = typed(column.to_frame(name), (), decisions)[name]
    kept = column.notna().to_numpy()
    column = column[kept]
    distinct = column.nunique()
    why = ""
    if model == "auto":
        if distinct < 2:
            raise ValueError(f"--target: {name!r} has fewer than two values. Name another column")
        if distinct == 2:
            model, why = "logistic", ", as it has two values"
        elif column.dtype == object:
            model, why = "logistic", ", as it holds text"
        else:
            model, why = "linear", ", as it has more than two values"
    what = own or _CALLED[model]
    if model == "logistic":
        values = _labels(column, name, what, as_read=own is not None)
    else:
        values = _numbers(column, name, model, what)
    shown = ""
    if model == "logistic":
        labels = [shorten(value, 20) for value in np.unique(values)]
        first, last = labels[:-1], labels[-1]
        shown = f" ({', '.join(first[:4])}{', …' if len(first) > 4 else ''} and {last})"
    note = f"Target: `{shorten(name, 40)}`{shown}; {what}{why}."
    if read := decisions.made.get(name):
        note += f" It holds {'; '.join(read)}."
    return Target(model, values, note), kept


def _labels(column: "pd.Series[Any]", name: str, what: str, *, as_read: bool) -> Array:
    distinct = column.nunique()
    if not 2 <= distinct <= _MOST_CLASSES:
        raise ValueError(
            f"--target: {what} takes a target of 2 to {_MOST_CLASSES} values; {name!r} has "
            f"{count(distinct)}. Take --model linear for numbers, or group them"
        )
    if as_read and column.dtype != object:
        return column.to_numpy()
    labels = text_of(column)
    return np.array(labels, dtype=object)


def _numbers(column: "pd.Series[Any]", name: str, model: str, what: str) -> Array:
    if column.dtype == object:
        mapped = column.map({"False": 0.0, "True": 1.0})
        if mapped.isna().any():
            raise ValueError(
                f"--target: {what} takes a target of numbers; {name!r} holds text. "
                "Name a numeric column; text takes --model logistic"
            )
        column = mapped
    values: Array = column.to_numpy(dtype=np.float64)
    if model == "poisson" and np.any(values < 0.0):
        raise ValueError(
            f"--target: Poisson regression takes counts, zero or more; {name!r} holds "
            f"{count(int(np.sum(values < 0.0)))} below zero. Take --model linear"
        )
    return values
