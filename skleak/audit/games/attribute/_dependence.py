"""Which other columns determine a secret one, or follow from it."""

from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import Secret, column_names, raw_column
from skleak.utils._typing import Array, FloatArray, IntArray

# Share of what a guess gets wrong that a column must get right to (nearly) determine another.
_NEARLY = 0.95
_TARGET = "(target)"


def related_columns(table: Any, y: Array, secret: Secret) -> dict[str, dict[str, float]]:
    """Find the columns that determine a secret by themselves, and those that it determines.

    Every record is predicted from the others, by one column at a time: by those of the same value
    where there are any, else by its neighbors along a column of numbers.

    Shapes: ``table`` (n, n_columns); ``y`` (n,), the target, counts as a column; returns by
    "determined_by" and "determines" the share of what a guess gets wrong that is got right.
    """
    names = column_names(table)
    others = {
        str(j if names is None else names[j]): raw_column(table, j)
        for j in range(table.shape[1])
        if j != secret.index
    }
    if not secret.is_target:
        others[_TARGET] = np.asarray(y)
    found: dict[str, dict[str, float]] = {"determined_by": {}, "determines": {}}
    for name, column in others.items():
        for key, (known, wanted) in {
            "determined_by": (column, secret.column),
            "determines": (secret.column, column),
        }.items():
            score = predicted_share(
                known, wanted, labels=key == "determined_by" and not secret.numeric
            )
            if score >= _NEARLY:
                found[key][name] = score
    return found


def predicted_share(known: Array, wanted: Array, *, labels: bool = False) -> float:
    """Share of what a guess gets wrong of a column that another gets right, each record left out.

    Shapes: ``known``, ``wanted`` (n,); ``labels`` takes numbers for names; returns: a gain over the
    commonest value, or a coefficient of determination; NaN for a column of one value.
    """
    codes, numbers = _codes(known), _numbers(known)
    values = None if labels else _numbers(wanted)
    if values is None or len(np.unique(values)) <= 2:
        classes = _codes(wanted)
        baseline = np.bincount(classes).max() / len(classes)
        if baseline >= 1.0:
            return float("nan")
        right = _label_of_others(codes, numbers, classes) == classes
        return float((right.mean() - baseline) / (1.0 - baseline))
    if not np.ptp(values) > 0.0:
        return float("nan")
    errors = (_mean_of_others(codes, numbers, values) - values) ** 2
    return float(1.0 - errors.sum() / np.sum((values - values.mean()) ** 2))


def _codes(column: Array) -> IntArray:
    codes, _ = pd.factorize(pd.Series(column), use_na_sentinel=False)
    return np.asarray(codes, dtype=np.intp)


def _numbers(column: Array) -> FloatArray | None:
    """Return the column as numbers without gaps; None where it has names."""
    series = pd.Series(column).infer_objects()
    if not pd.api.types.is_numeric_dtype(series) or pd.api.types.is_bool_dtype(series):
        return None
    values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return values if np.isfinite(values).all() else None


def _label_of_others(codes: IntArray, numbers: FloatArray | None, classes: IntArray) -> IntArray:
    """Commonest class of the others with the same value; alone, that of the nearest number."""
    counts = np.asarray(pd.crosstab(codes, classes).to_numpy(), dtype=np.int64)[codes]
    counts[np.arange(len(classes)), classes] -= 1
    guess = counts.argmax(axis=1)
    alone = counts.sum(axis=1) == 0
    guess[alone] = -1 if numbers is None else classes[_nearest(numbers)][alone]
    return guess


def _mean_of_others(codes: IntArray, numbers: FloatArray | None, values: FloatArray) -> FloatArray:
    """Mean of the others with the same value; alone, on the line between its two neighbors."""
    sums, sizes = np.bincount(codes, values)[codes], np.bincount(codes)[codes]
    overall = (values.sum() - values) / (len(values) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (sums - values) / (sizes - 1)
    between = overall if numbers is None else _between(numbers, values)
    return np.where(sizes > 1, mean, between)


def _nearest(numbers: FloatArray) -> IntArray:
    """Position of the other record with the nearest number, (n,)."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    gaps = np.r_[np.inf, np.diff(ordered), np.inf]
    step = np.where(gaps[:-1] <= gaps[1:], -1, 1)
    nearest = np.empty_like(order)
    nearest[order] = order[np.arange(len(order)) + step]
    return nearest


def _between(numbers: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate the value of every record between those next to it; at an end, the next one."""
    order = np.argsort(numbers, kind="stable")
    x, v = numbers[order], values[order]
    guess = np.empty(len(v))
    guess[0], guess[-1] = v[1], v[-2]
    width = x[2:] - x[:-2]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(width > 0.0, (x[1:-1] - x[:-2]) / width, 0.5)
    guess[1:-1] = (1.0 - share) * v[:-2] + share * v[2:]
    result = np.empty(len(v))
    result[order] = guess
    return result
