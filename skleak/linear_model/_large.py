"""Records outside memory as an objective: one pass checks them, and finds their moments."""

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from skleak.influence.state import same_table
from skleak.losses import SoftmaxLoss
from skleak.report.guarantee import Promises
from skleak.solvers import LargeSums, Moments, MultinomialObjective, Objective, block_sums
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, aligned_chunks, is_large, positions_of
from skleak.utils._labels import codes_of, expect_labels, find_classes, label_array
from skleak.utils._linalg import shares_of_bounds
from skleak.utils._records import check_sizes, feature_labels, is_single_feature, resolve_features
from skleak.utils._records import label_array as plain_labels
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array, FloatArray
from skleak.utils.sources import as_floats, only_finite, open_records, opened, series_array

# Distinct targets beyond which they are no classes.
_MOST_CLASSES = 10_000


def large_objective(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Objective, Any]:
    """Open and check records outside memory, and return the objective of an estimator on them.

    The labels of the rows come second, as a Dask array (n,); None where they have none.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None. Pass a "
            "Dask array or series, or the name of the column of a table."
        )
    records = open_records(X, y, sample_weight)
    validate_data(estimator, records.schema, reset=True, skip_check_array=True)
    if not records.X.shape[0]:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={records.X.shape}) while a minimum of 1 is "
            "required by X. Pass at least one record."
        )
    array = dask_module("dask.array")
    ones = array.ones(records.X.shape[0], chunks=(records.X.chunks[0],))
    s = ones if records.sample_weight is None else records.sample_weight
    if estimator._numeric_targets:
        estimator._check_size(records.X.shape[1] + estimator.fit_intercept)
    d, none = records.X.shape[1], np.zeros(0)
    loss, alpha = estimator._loss, float(estimator.alpha)
    bare = None
    if loss.quadratic:  # whose sums at one place are all that its fit asks for
        table = np.zeros((0, d))
        bare = Objective(table, none, loss, alpha, estimator.fit_intercept, none, none)
    blocks = Blocks.of(records.X, records.y, s, positions_of(records.X))
    small = estimator._numeric_targets, estimator._norm_bounds(d), bare
    looked = blocks.map_reduce(_looked, _Looked.plus, *small)
    _check(estimator, looked)
    y, masses = _targets(estimator, records.y, looked)
    moments = replace(looked.moments, target_sums=masses[1:] if len(masses) == 2 else masses)
    estimator._check_size(d + estimator.fit_intercept)
    names = getattr(estimator, "feature_names_in_", None)
    check_sizes(moments.total, moments.largest, looked.largest_target, names)
    estimator._check_targets(masses)
    rest = alpha, estimator.fit_intercept, s, ones
    if len(masses) <= 2:
        start = None if looked.start is None else ((records.X, y, s, ones), looked.start)
        one = Objective(records.X, y, loss, *rest, moments=moments, start=start)
        return one, records.labels
    given = records.X, y, SoftmaxLoss(), *rest, len(masses)
    return MultinomialObjective(*given, moments=moments), records.labels


def large_records(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Open records outside memory to measure with a fitted model, and their targets, lazily.

    The training records, opened again, are those of the fit; of others the values are checked as
    they are walked through.
    """
    table = opened(model, X, y)
    numeric = model._numeric_targets
    targets = as_floats(table.y, "y") if numeric else codes_of(table.y, model.classes_)
    objective = model._confidential_state().objective
    if same_table(table.X, targets, objective):
        return objective.X, objective.y
    return only_finite(table.X, "X", table.names), only_finite(targets, "y")


# Some records: position of the first, column of its first entry that matters, number and weight.
_Rows: TypeAlias = tuple[int, int, int, float]


def _joined(mine: dict[Any, _Rows], theirs: dict[Any, _Rows]) -> dict[Any, _Rows]:
    """Join records of each name and others."""
    both = {}
    for name in mine.keys() & theirs.keys():
        one, other = mine[name], theirs[name]
        both[name] = (*min(one, other)[:2], one[2] + other[2], one[3] + other[3])
    return mine | theirs | both


@dataclass(frozen=True)
class _Looked:
    """Findings of one look at some records."""

    moments: Moments
    largest_target: float
    labels: dict[Any, _Rows]
    problems: dict[str, _Rows]  # by what is wrong
    start: LargeSums | None  # at parameters of zero, where that is asked for

    def plus(self, other: "_Looked") -> "_Looked":
        """Join these records and others."""
        with np.errstate(over="ignore", invalid="ignore"):  # as those of a block
            moments = self.moments.plus(other.moments)
            start = None
            if self.start is not None and other.start is not None:
                start = self.start.plus(other.start)
        labels = _joined(self.labels, other.labels)
        _check_few(labels)
        problems = _joined(self.problems, other.problems)
        largest = max(self.largest_target, other.largest_target)
        return _Looked(moments, largest, labels, problems, start)


def _looked(
    X: FloatArray,
    y: Array,
    s: FloatArray,
    position: Array,
    numeric: bool,
    data_norm: Any,
    bare: Objective | None,
) -> _Looked:
    """Look at one block."""
    problems: dict[str, _Rows] = {}

    def note(name: str, bad: Array) -> None:
        if np.any(bad):
            at = np.argwhere(bad)[0]
            rows = bad if bad.ndim == 1 else bad.any(axis=1)
            problems[name] = (int(position[at[0]]), int(at[-1]), int(rows.sum()), 0.0)

    for name, values in (("X", X), ("sample_weight", s)):
        note(f"NaN in {name}", np.isnan(values))
        note(f"infinity in {name}", np.isinf(values))
    note("negative weight", s < 0.0)
    labels, target = _looked_targets(y, s, position, numeric, note)
    if data_norm is not None and not any(" in " in name for name in problems):
        note("norm", shares_of_bounds(X, data_norm) > 1.0 + Promises.norm_rounding)
    # Sums that overflow are told apart by what is found here.
    with np.errstate(over="ignore", invalid="ignore"):
        moments, start = Moments.of(X, target, s), None
        if bare is not None:
            zero = np.zeros(bare.n_parameters)
            start = block_sums(X, target, s, np.ones(len(s)), bare, zero, None, True)
    return _Looked(moments, float(np.abs(target).max()), labels, problems, start)


def _looked_targets(
    y: Array, s: FloatArray, position: Array, numeric: bool, note: Any
) -> tuple[dict[Any, _Rows], FloatArray]:
    """Labels of a block, or its targets as numbers."""
    if numeric:
        try:
            target = np.asarray(y).astype(np.float64).reshape(len(s))  # of a struct: two numbers
        except (ValueError, TypeError):
            raise ValueError(
                "Could not convert the target to numbers. Encode it, or fit a classifier."
            ) from None
        note("NaN in y", np.isnan(target))
        note("infinity in y", np.isinf(target))
        note("negative target", target < 0.0)
        return {}, target
    n, missing = len(y), np.asarray(pd.isna(y))
    note("NaN in y", missing)
    y, s, position = y[~missing], s[~missing], position[~missing]
    expect_labels(y)
    found, first, codes, counts = np.unique(
        y, return_index=True, return_inverse=True, return_counts=True
    )
    weights = np.bincount(np.ravel(codes), s, len(found))
    rows = zip(position[first].tolist(), counts.tolist(), weights.tolist(), strict=True)
    each = ((at, 0, count, weight) for at, count, weight in rows)
    labels = dict(zip(found.tolist(), each, strict=True))
    _check_few(labels)
    return labels, np.zeros(n)


def _check_few(labels: dict[Any, Any]) -> None:
    """Refuse labels that are no classes, where they lie: they may be those of all records."""
    if len(labels) > _MOST_CLASSES:
        raise ValueError(
            f"Unknown label type: the target has more than {_MOST_CLASSES} distinct values. "
            "Pass classes, or fit a regression."
        )


def _targets(estimator: Any, y: Any, looked: _Looked) -> tuple[Any, FloatArray]:
    """Encode targets lazily, and return the weighted sum of numbers, (1,), or of classes, (K,)."""
    if estimator._numeric_targets:
        problem = looked.problems.get("negative target")
        if problem is not None:
            estimator._refuse_negative(problem[2], f"row {problem[0]}")
        return as_floats(y, "y"), looked.moments.target_sums
    expect_labels(np.array([*looked.labels], dtype=object))
    labels = label_array([*looked.labels], y.dtype)
    counts = {label: (n, f"row {at}") for label, (at, _, n, _) in looked.labels.items()}
    estimator.classes_ = find_classes(
        np.sort(labels), estimator.classes, None, type(estimator).__name__, counts
    )
    none = 0, 0, 0, 0.0
    masses = [looked.labels.get(label, none)[3] for label in estimator.classes_.tolist()]
    return codes_of(y, estimator.classes_), np.array(masses)


def _check(estimator: Any, looked: _Looked) -> None:
    """Raise for records that are not valid, by position."""
    kind, moments = type(estimator).__name__, looked.moments
    labels = feature_labels(getattr(estimator, "feature_names_in_", None), moments.mean.size)
    for name, (row, column, n, _) in looked.problems.items():
        what, _, where = name.partition(" in ")
        if where:
            whose = f" of column {labels[column]!r}" if where == "X" else ""
            held = "NaN" if what == "NaN" else "infinity or a value too large for dtype('float64')"
            more = f"; {n} records have one" if n > 1 else ""
            raise ValueError(
                f"Input {where} contains {held}, first in row {row}{whose}{more}. {kind} does not "
                "accept such values: impute them, or drop the records."
            )
    if "negative weight" in looked.problems:
        raise ValueError(
            "Negative values in data passed to `sample_weight`, first in row "
            f"{looked.problems['negative weight'][0]}. A weight says how often a record counts."
        )
    estimator._check_any_weight(moments.largest_weight > 0.0)
    if estimator.target_bound is not None and looked.largest_target > estimator.target_bound:
        estimator._refuse_large("some are larger")
    if "norm" in looked.problems:
        row, _, n, _ = looked.problems["norm"]
        estimator._refuse_long(n, moments.n, f"row {row}")


def large_labels(groups: Any, X: Any, names: Array | None) -> Any:
    """Group label of each record outside memory, (n,), in the chunks of these."""
    if is_single_feature(groups):
        return X[:, int(resolve_features(groups, names, X.shape[1], "groups")[0])]
    if not is_large(groups) and not hasattr(groups, "to_dask_array"):
        groups = plain_labels(groups)
    elif not is_large(groups):
        groups = series_array(groups, "groups")
    if groups.ndim != 1 or groups.shape[0] != X.shape[0]:
        raise ValueError(
            f"`groups` must hold one label per record: expected {X.shape[0]}, got shape "
            f"{groups.shape}. Call `groups.compute_chunk_sizes()` where sizes are not known."
        )
    return aligned_chunks(X, [groups])[1]
