"""What shadow models are trained on: candidates and population records in one table."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.adversary.hypotheses import weights_of_both
from skleak.adversary.membership import as_records, as_reference, as_targets
from skleak.utils._typing import Array, FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

# Odd, to mix the keys of columns modulo 2^64.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Records(NamedTuple):
    """Records, their targets, and what each weighs in a fit.

    ``X`` (records of shape (n, ...)): as of `as_records`.
    ``y`` (n,): targets or labels.
    ``weights`` ((n,) or None, default=None): sample weights; None where all count alike. A record
        is one person whatever it weighs.
    """

    X: Any
    y: Array
    weights: FloatArray | None = None

    def at(self, rows: IntArray) -> "Records":
        """Return some of them, by position."""
        weights = None if self.weights is None else self.weights[rows]
        return Records(pick(self.X, rows), self.y[rows], weights)

    def and_others(self, others: "Records") -> "Records":
        """Return these and others below them; both have weights, or none has."""
        weights = None
        if self.weights is not None and others.weights is not None:
            weights = np.concatenate([self.weights, others.weights])
        return Records(stack_records(self.X, others.X), stack_targets(self.y, others.y), weights)


def known_records(
    X: Any,
    y: Any,
    X_reference: Any,
    y_reference: Any,
    weights: tuple[Any, Any],
    *,
    offline: bool,
) -> tuple[Records, Records | None]:
    """Candidates and reference records, None where there are none, from what `fit` was given.

    Shapes: ``X``, ``y``, ``X_reference``, ``y_reference`` (n, ...); ``weights`` (n,); returns
    ``candidates``; ``reference``.
    """
    X = as_records(X, "X")
    y = as_targets(y, X, "y")
    others = as_reference(X, X_reference, y_reference, "X")
    table = None if others is None else others[0]
    own, rest = weights_of_both(X, table, weights, "reference_sample_weight")
    if offline and others is None:
        raise ValueError(
            "Offline shadow models are trained on reference records alone. Pass "
            "`fit(X, y, X_reference, y_reference)`, or use method='online'."
        )
    candidates = Records(X, plain_targets(y), own)
    if others is None:
        return candidates, None
    return candidates, Records(others[0], plain_targets(others[1]), rest)


def pick(X: Any, rows: IntArray) -> Any:
    """Return some records by position, of tables, arrays, series and sparse matrices."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def stack_records(X: Any, X_reference: Any) -> Any:
    """Candidates and reference records below one another.

    Shapes: ``X`` (n, ...); ``X_reference`` (m, ...); returns (n + m, ...): columns of pandas
    categories have the categories of both.
    """
    if sparse.issparse(X) or sparse.issparse(X_reference):
        return sparse.vstack([sparse.csr_array(X), sparse.csr_array(X_reference)], format="csr")
    named = [hasattr(part, "columns") for part in (X, X_reference)]
    if named[0] != named[1]:
        raise TypeError(
            "`X` and `X_reference` must both be DataFrames or both be arrays: shadow models are "
            f"trained on the two together; got {type(X).__name__} and "
            f"{type(X_reference).__name__}. Convert one of them."
        )
    if not named[0]:
        return np.concatenate([np.asarray(X), np.asarray(X_reference)])
    if hasattr(X, "vstack") and hasattr(X_reference, "vstack"):
        return X.vstack(X_reference)
    parts = [part.to_pandas() if hasattr(part, "to_pandas") else part for part in (X, X_reference)]
    return pd.concat(_with_shared_categories(*parts), ignore_index=True)


def _with_shared_categories(one: Any, other: Any) -> list[Any]:
    """Return the same tables, with equal categories in columns that are categories in both."""
    shared = {
        name: pd.api.types.union_categoricals([one[name], other[name]], ignore_order=True).dtype
        for name in one.columns
        if one[name].dtype != other[name].dtype
        and all(isinstance(part[name].dtype, pd.CategoricalDtype) for part in (one, other))
    }
    return [part.astype(shared) if shared else part for part in (one, other)]


def plain_targets(y: Array) -> Array:
    """Return numbers and booleans that came as objects as what they are, to train models on."""
    return np.asarray(pd.Series(y).infer_objects()) if y.dtype.kind == "O" else y


def stack_targets(y: Array, y_reference: Array) -> Array:
    """Targets of candidates and of reference records, shape (n + m,)."""
    numbers = [part.dtype.kind in "biufc" for part in (y, y_reference)]
    if numbers[0] != numbers[1]:
        raise ValueError(
            "`y` and `y_reference` must be coded alike; got dtypes "
            f"{y.dtype} and {y_reference.dtype}. Convert the labels of one of them."
        )
    return np.concatenate([y, y_reference])


def check_labels(y: Array, y_reference: Array) -> None:
    """Check that candidates and reference records have labels in common."""
    if set(y.tolist()).isdisjoint(y_reference.tolist()):
        raise ValueError(
            "`y` and `y_reference` have no label in common. Pass labels in one coding, and "
            "reference records of the classes of the candidates."
        )


def check_apart(X: Any, y: Array, X_reference: Any, y_reference: Array) -> None:
    """Warn where candidates are among the reference records too, by value."""
    keys, others = _record_keys(X, y), _record_keys(X_reference, y_reference)
    # By a table of the integers, NumPy's own choice, keys beyond 2^63 overflow in NumPy 2.0.
    common = np.isin(keys, others, kind="sort")
    if 2 * common.sum() > len(common):
        raise ValueError(
            f"{common.sum()} of {len(common)} candidates are among the reference records. Shadow "
            "models would be trained on candidates that count as left out, and the attack would "
            "be blind. Pass other records of the population as `X_reference`."
        )
    if common.any():
        warnings.warn(
            f"{common.sum()} of {len(common)} candidates equal a reference record. Where they are "
            "the same persons, shadow models were trained on candidates that count as left out, "
            "and the attack is weaker than it could be: leave them out of `X_reference`.",
            UserWarning,
            stacklevel=outer_stacklevel(),
        )


def _record_keys(X: Any, y: Array) -> Array:
    """Return a number for every record and its target, equal for equal ones, of shape (n,)."""
    if sparse.issparse(X):
        keys, columns = _sparse_keys(X), []
    else:
        table = X if hasattr(X, "columns") else np.asarray(X).reshape(len(X), -1)
        by_place = getattr(table, "iloc", table)
        keys = np.zeros(len(X), dtype=np.uint64)
        columns = [by_place[:, j] for j in range(table.shape[1])]
    for column in [*columns, y]:
        values = np.asarray(column)
        numbers = values.dtype.kind in "biuf"
        hashable = _plain_numbers(values) if numbers else values.astype(object)
        keys = keys * _MULTIPLIER + pd.util.hash_array(hashable)
    return keys


def _plain_numbers(values: Array) -> FloatArray:
    """Numbers by value, whatever their type: one zero, and one NaN."""
    numbers = values.astype(np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers


def _sparse_keys(X: Any) -> Array:
    table = sparse.csr_array(X, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    places = np.split(table.indices.astype(np.int64), table.indptr[1:-1])
    values = np.split(_plain_numbers(table.data), table.indptr[1:-1])
    rows = zip(places, values, strict=True)
    keys = [hash((place.tobytes(), value.tobytes())) for place, value in rows]
    return np.array(keys, dtype=np.int64).view(np.uint64)
