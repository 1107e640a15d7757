"""Records outside memory as an objective: one pass checks them, and finds their moments."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.influence.state import same_table
from skleak.losses import SoftmaxLoss
from skleak.report.guarantee import Promises
from skleak.solvers import (
    LargeMultinomialObjective,
    LargeObjective,
    LargeSums,
    Moments,
    Objective,
    Template,
    block_sums,
)
from skleak.utils._arguments import dask_module
from skleak.utils._blocks import Blocks, positions_of
from skleak.utils._linalg import clear_constants, largest_entries
from skleak.utils._records import check_sizes, feature_labels
from skleak.utils._sklearn_compat import validate_data
from skleak.utils._typing import Array, FloatArray
from skleak.utils.sources import only_finite, open_records, opened
from skleak.utils.sources._open import (
    codes_of,
    expect_labels,
    find_classes,
    float_targets,
    label_array,
)

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
    template = None
    if estimator._loss.quadratic:  # whose sums at one place are all that its fit asks for
        template = Template(estimator._loss, estimator.alpha, estimator.fit_intercept, None, 2)
    blocks = Blocks.of(records.X, records.y, s, positions_of(records.X))
    small = estimator._numeric_targets, estimator.data_norm, template
    looked = blocks.map_reduce(_looked, _Looked.plus, *small)
    _check(estimator, looked)
    y, masses = _targets(estimator, records.y, looked)
    estimator._check_size(records.X.shape[1] + estimator.fit_intercept)
    check_sizes(looked.total, looked.largest, looked.largest_target, _names(estimator))
    estimator._check_targets(masses)
    moments = looked.moments(masses[1:] if len(masses) == 2 else masses)
    given = records.X, y, estimator._loss, float(estimator.alpha), estimator.fit_intercept, s, ones
    if len(masses) <= 2:
        start = None if looked.start is None else ((records.X, y, s, ones), looked.start)
        return LargeObjective(*given, moments=moments, start=start), records.labels
    given = *given[:2], SoftmaxLoss(), *given[3:]
    return LargeMultinomialObjective(*given, len(masses), moments=moments), records.labels


def large_records(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Open records outside memory to measure with a fitted model, and their targets, lazily.

    The training records, opened again, are those of the fit; of others the values are checked as
    they are walked through.
    """
    table = opened(model, X, y)
    numeric = model._numeric_targets
    targets = float_targets(table.y) if numeric else codes_of(table.y, model.classes_)
    objective = model._confidential_state().objective
    if same_table(table.X, targets, objective):
        return objective.X, objective.y
    return only_finite(table.X, "X", table.names), only_finite(targets, "y")


@dataclass(frozen=True)
class _Problem:
    """Records that are not valid for one reason."""

    count: int
    first: int  # position of the first of them
    column: int = 0  # of its first entry that is not

    def plus(self, other: "_Problem") -> "_Problem":
        first = self if self.first < other.first else other
        return replace(first, count=self.count + other.count)


@dataclass(frozen=True)
class _Looked:
    """Findings of one look at some records."""

    n: int
    total: float  # sum of the weights
    smallest_weight: float
    largest_weight: float
    largest: FloatArray  # largest absolute entry of every column, (d,)
    mean: FloatArray  # weighted, (d,)
    spread: FloatArray  # weighted sum of the squares around it, (d,)
    largest_target: float
    target_sum: float
    labels: dict[Any, tuple[float, _Problem]]  # weight and records of every label
    problems: dict[str, _Problem]  # by what is wrong
    start: LargeSums | None = None  # at parameters of zero, where that is asked for

    def plus(self, other: "_Looked") -> "_Looked":
        """Join these records and others."""
        total = self.total + other.total
        share = other.total / total if total > 0.0 else 0.0
        apart = other.mean - self.mean
        with np.errstate(over="ignore", invalid="ignore"):  # as those of a block
            spread = self.spread + other.spread + self.total * share * apart**2
            start = self.start if other.start is None else other.start
            if self.start is not None and other.start is not None:
                start = self.start.plus(other.start)
        labels = dict(self.labels)
        for label, (weight, those) in other.labels.items():
            mine = labels.get(label)
            labels[label] = (
                (weight, those) if mine is None else (mine[0] + weight, mine[1].plus(those))
            )
        _check_few(labels)
        problems = dict(self.problems)
        for name, those in other.problems.items():
            problems[name] = problems[name].plus(those) if name in problems else those
        return _Looked(
            self.n + other.n,
            total,
            min(self.smallest_weight, other.smallest_weight),
            max(self.largest_weight, other.largest_weight),
            np.maximum(self.largest, other.largest),
            self.mean + share * apart,
            spread,
            max(self.largest_target, other.largest_target),
            self.target_sum + other.target_sum,
            labels,
            problems,
            start,
        )

    def moments(self, target_sums: FloatArray) -> Moments:
        """Return what the solver wants to know."""
        spread = np.diag(self.spread)
        clear_constants(spread, self.mean, self.total)
        constant = np.diag(spread) == 0.0
        weights = self.total, self.smallest_weight, self.largest_weight
        return Moments(self.n, *weights, self.largest, self.mean, constant, target_sums)


def _looked(
    X: FloatArray,
    y: Array,
    s: FloatArray,
    position: Array,
    numeric: bool,
    data_norm: float | None,
    template: Template | None,
) -> _Looked:
    """Look at one block."""
    n, d = X.shape
    problems: dict[str, _Problem] = {}

    def note(name: str, bad: Array) -> None:
        if np.any(bad):
            at = np.argwhere(bad)[0]
            rows = bad if bad.ndim == 1 else bad.any(axis=1)
            column = int(at[1]) if bad.ndim > 1 else 0
            problems[name] = _Problem(int(rows.sum()), int(position[at[0]]), column)

    for name, values in (("X", X), ("sample_weight", s)):
        note(f"NaN in {name}", np.isnan(values))
        note(f"infinity in {name}", np.isinf(values))
    note("negative weight", s < 0.0)
    labels, target = _looked_targets(y, s, position, numeric, note)
    zeros = np.zeros(d)
    found = _Looked(n, 0.0, np.inf, -np.inf, zeros, zeros, zeros, 0.0, 0.0, labels, problems)
    if not n or any(" in " in name for name in problems):
        return found
    if data_norm is not None:
        shares = np.sqrt(np.einsum("ij,ij->i", X / data_norm, X / data_norm))
        note("norm", shares > 1.0 + Promises.norm_rounding)
    # Sums that overflow are told apart by what is found here.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(s.sum())
        mean = s @ X / total if total > 0.0 else zeros
        spread = s @ (X - mean) ** 2
        start = None
        if template is not None:
            zero = np.zeros(d + template.fit_intercept)
            start = block_sums(X, target, s, np.ones(n), template, zero, None, True)
    return replace(
        found,
        total=total,
        smallest_weight=float(s.min()),
        largest_weight=float(s.max()),
        largest=largest_entries(X),
        mean=mean,
        spread=spread,
        largest_target=float(np.abs(target).max()),
        target_sum=float(s @ target),
        start=start,
    )


def _looked_targets(
    y: Array, s: FloatArray, position: Array, numeric: bool, note: Any
) -> tuple[dict[Any, tuple[float, _Problem]], FloatArray]:
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
    rows = zip(found.tolist(), weights, counts, position[first], strict=True)
    labels = {k: (float(w), _Problem(int(count), int(at))) for k, w, count, at in rows}
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
            estimator._refuse_negative(problem.count, f"row {problem.first}")
        return float_targets(y), np.array([looked.target_sum])
    labels = label_array(list(looked.labels), y.dtype)
    counts = {
        label: (those.count, f"row {those.first}") for label, (_, those) in looked.labels.items()
    }
    estimator.classes_ = find_classes(
        np.sort(labels), estimator.classes, None, type(estimator).__name__, counts
    )
    weights = {label: weight for label, (weight, _) in looked.labels.items()}
    masses = np.array([weights.get(label, 0.0) for label in estimator.classes_.tolist()])
    return codes_of(y, estimator.classes_), masses


def _check(estimator: Any, looked: _Looked) -> None:
    """Raise for records that are not valid, by position."""
    names, kind = _names(estimator), type(estimator).__name__
    for name, problem in looked.problems.items():
        what, _, where = name.partition(" in ")
        if not where:
            continue
        column = ""
        if where == "X":
            column = f" of column {feature_labels(names, looked.mean.size)[problem.column]!r}"
        held = "NaN" if what == "NaN" else "infinity or a value too large for dtype('float64')"
        more = f"; {problem.count} records have one" if problem.count > 1 else ""
        raise ValueError(
            f"Input {where} contains {held}, first in row {problem.first}{column}{more}. {kind} "
            "does not accept such values: impute them, or drop the records."
        )
    if "negative weight" in looked.problems:
        raise ValueError(
            "Negative values in data passed to `sample_weight`, first in row "
            f"{looked.problems['negative weight'].first}. A weight says how often a record counts."
        )
    estimator._check_any_weight(looked.largest_weight > 0.0)
    if "norm" in looked.problems:
        problem = looked.problems["norm"]
        estimator._refuse_long(problem.count, looked.n, f"row {problem.first}")


def _names(estimator: Any) -> Array | None:
    return getattr(estimator, "feature_names_in_", None)
