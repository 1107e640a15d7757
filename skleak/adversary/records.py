"""Records that an adversary has: candidates, and others of the population."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils import column_or_1d

from skleak.adversary.hypotheses import weights_of_both
from skleak.adversary.knowledge import as_table, take_rows
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import Array, FloatArray, IntArray


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
        return Records(take_rows(self.X, rows), self.y[rows], weights)

    def and_others(self, others: "Records") -> "Records":
        """Return these and others below them; both have weights, or none has."""
        weights = None
        if self.weights is not None and others.weights is not None:
            weights = np.concatenate([self.weights, others.weights])
        return Records(stack_records(self.X, others.X), stack_targets(self.y, others.y), weights)


def known_records(
    X: Any, y: Any, X_reference: Any, y_reference: Any, weights: tuple[Any, Any]
) -> tuple[Records, Records | None]:
    """Candidates and reference records, None where there are none, from what `fit` was given.

    Shapes: ``X``, ``y``, ``X_reference``, ``y_reference`` (n, ...); ``weights`` (n,).
    """
    X = as_records(X, "X")
    y = as_targets(y, X, "y")
    others = as_reference(X, X_reference, y_reference)
    table = None if others is None else others.X
    own, rest = weights_of_both(X, table, weights, "reference_sample_weight")
    return Records(X, _plain_targets(y), own), others and others._replace(weights=rest)


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
            "`X` and `X_reference` must both be DataFrames or both be arrays: attacks learn "
            f"from the two together; got {type(X).__name__} and {type(X_reference).__name__}. "
            "Convert one of them."
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


def _plain_targets(y: Array) -> Array:
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


def check_apart(everyone: Records, own: IntArray, others: IntArray) -> None:
    """Warn where records at some positions, candidates, are among others, too, by value."""
    codes = row_codes(everyone)
    common = np.isin(codes[own], codes[others])
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


def row_codes(records: Records) -> IntArray:
    """Return a number for every record with its target, equal for equal ones, of shape (n,)."""
    X = records.X.to_pandas() if hasattr(records.X, "to_pandas") else records.X
    if sparse.issparse(X):
        table = sparse.csr_array(X, dtype=np.float64, copy=True)
        table.sum_duplicates()
        table.eliminate_zeros()
        table.data[np.isnan(table.data)] = np.nan  # one NaN of all
        cells = (np.split(each, table.indptr[1:-1]) for each in (table.indices, table.data))
        frame = pd.DataFrame([[cell.tobytes() for cell in row] for row in zip(*cells, strict=True)])
    else:
        named = hasattr(X, "columns")
        frame = pd.DataFrame(X if named else np.asarray(X).reshape(len(records.y), -1))
    frame = frame.set_axis(range(frame.shape[1]), axis=1).reset_index(drop=True).assign(y=records.y)
    return frame.groupby(list(frame), dropna=False, observed=True).ngroup().to_numpy()


def as_records(X: Any, name: str) -> Any:
    """Return records as the model is to be asked about them: frames and sparse matrices stay so."""
    if sparse.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "columns"):
        X = np.asarray(X) if not isinstance(X, pd.Series) else X
    if not X.shape or not X.shape[0]:
        raise ValueError(f"`{name}` must hold at least one record; got shape {X.shape}.")
    return X


def as_targets(y: Any, X: Any, name: str) -> Array:
    """Targets or labels of the records, one each, of shape (n,), none of them missing."""
    if y is None:
        raise ValueError(
            f"`{name}` is needed: the adversary knows the targets of the records. Pass the true "
            "targets or labels."
        )
    y = np.array(column_or_1d(np.asarray(y)))
    if len(y) != X.shape[0]:
        raise ValueError(
            f"`{name}` must have one entry for each of the {X.shape[0]} records; got {len(y)}."
        )
    absent = int(np.sum(pd.isna(y)))
    if absent:
        raise ValueError(
            f"`{name}` has {absent} missing values of {len(y)}. Drop those records: nothing can "
            "be compared with what the model says of them."
        )
    return y


def as_reference(candidates: Any, X: Any, y: Any, *, with_targets: bool = True) -> Records | None:
    """Return reference records, with the columns of the candidates, or None."""
    if X is None:
        if y is not None:
            raise ValueError("`y_reference` is given without `X_reference`. Pass both.")
        return None
    X = as_records(X, "X_reference")
    if y is not None and not with_targets:
        raise ValueError("`y_reference` is given without `y`. Pass both.")
    y = _plain_targets(as_targets(y, X, "y_reference")) if with_targets else None
    if X.shape[1:] != candidates.shape[1:]:
        raise ValueError(
            f"`X_reference` must have the columns of `X`, shape {candidates.shape[1:]} a record; "
            f"got {X.shape[1:]}."
        )
    if not (hasattr(candidates, "columns") and hasattr(X, "columns")):
        return Records(X, y)
    names, own = list(candidates.columns), list(X.columns)
    odd = sorted(map(str, set(names) ^ set(own)))
    if odd:
        raise ValueError(
            "`X_reference` must have the columns of `X`, by name; only one of the two has "
            f"{odd[:5]}."
        )
    return Records(X if names == own else X[names], y)


def reference_table(table: Any, X: Any, y: Any, *, with_targets: bool = True) -> Records | None:
    """Return reference records as a table of raw records, or None."""
    X = None if X is None else as_table(X, "X_reference")
    return as_reference(table, X, y, with_targets=with_targets)
