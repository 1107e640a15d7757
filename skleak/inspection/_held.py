"""Leakage of raw columns, with the fitted transformers held fixed.

What scalers and imputers learned from the records, and how one record moves it.

A transformer encodes a number u as ``f(u, theta)`` and has learned ``theta`` from all of them. Let
``M_k`` be the derivative of the final parameters in the encoded record k. Then the derivative in
theta is ``G = sum_k M_k df/dtheta(u_k)``, a sum over all records that is taken once, and what
record i tells through theta is ``G dtheta/du_i``.

`StandardScaler` and `SimpleImputer` learn from each column by itself: from a raw column paths of
them lead to the encoded columns that it reaches. Whatever else learns is refitted with the record
changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

from skleak.adversary.hypotheses import dense_table, plain_table
from skleak.adversary.knowledge import raw_column, take_rows
from skleak.exceptions import AttackNotApplicableError
from skleak.influence.leakage import check_persons
from skleak.inspection._columns import (
    Cells,
    Unknown,
    describe,
    target_cells,
    with_numbers,
    with_value_of,
)
from skleak.inspection._pipeline import Inspected, encodings, other_rows, separations
from skleak.inspection._slopes import STEP, Movements, Slopes, Worst, person_blocks, slopes
from skleak.utils._blocks import row_blocks
from skleak.utils._records import Persons
from skleak.utils._sklearn_compat import input_positions
from skleak.utils._typing import BoolArray, FloatArray, IntArray

KINK = "the preprocessing has a kink at this value: the larger of both slopes is taken"
JUMP = "the preprocessing jumps, or is infinitely steep, at this value"
MISSING = "no number: nothing to differentiate"
OUTSIDE = "one standard deviation away the preprocessing is undefined: the end of the column counts"


@dataclass(frozen=True)
class Tangents:
    """Derivatives of encoded records in m numbers, to both sides, in a unit for each."""

    columns: IntArray  # Encoded columns that some number moves, (k,)
    right: FloatArray  # (b, k, m)
    left: FloatArray
    known: BoolArray  # Records of which all numbers are known, (b,)
    kinks: BoolArray  # Where the sides differ, (b,)
    jumps: BoolArray  # Where the encoding jumps, (b,)


@dataclass(frozen=True)
class HeldBlock:
    """Training records of some persons, encoded by the fitted transformers."""

    data: Inspected  # The pipeline with its training data
    persons: Persons  # whose rows they are: a number moves by as much in all rows of one
    own: FloatArray  # The records as the transformers encode them, (b, d)
    movements: Movements  # The model at these records
    unequal: str  # Why encodings cannot be held against each other; empty where they can

    @classmethod
    def of(cls, data: Inspected, persons: Persons, unequal: str) -> "HeldBlock":
        """Encode some records."""
        if not persons.is_single:
            check_persons(data.state)
        own = data.encode(data.rows(persons.rows))
        return cls(data, persons, own, Movements(data.state, persons), unequal)

    @property
    def rows(self) -> IntArray:
        """Positions of the records, (b,)."""
        return self.persons.rows

    def cells(self, unknown: Unknown) -> Cells:
        """Leakage of a column, a block of columns or the target of these persons."""
        if unknown.is_target:
            return target_cells(self.data.state, unknown, self.persons, self.unequal)
        if unknown.is_number:
            return self._numbers(unknown)
        apart = separations(self.data.state, self.encodings(unknown))
        notes = describe(len(self.persons), (True, unknown.note))
        return Cells(np.full(len(notes), np.nan), *apart, notes)

    def encodings(self, unknown: Unknown) -> FloatArray:
        """Minimizers with each of the values of few, of shape (n_persons, n_values, p)."""
        carriers = unknown.carriers.tolist()
        candidates = [with_value_of(self.data, unknown.parts, self.rows, one) for one in carriers]
        return encodings(self.data.state, self.persons, self.own, candidates)

    def _numbers(self, unknown: Unknown) -> Cells:
        if unknown.columns and not self.persons.is_single:
            raise AttackNotApplicableError(
                "Blocks of numbers are not measured for persons with several rows: name the "
                "columns one by one."
            )
        found = self.tangents(unknown)
        worst = self.movements.worst(found.columns, found.right)
        loss = worst.loss
        if np.any(found.kinks):
            loss = np.fmax(loss, self.movements.worst(found.columns, found.left).loss)
        present = self.data.state.objective.sample_weight[self.rows] > 0.0
        loss = np.where(self._any(found.jumps & present), np.inf, loss)
        missing = self._any(~found.known)
        loss[missing] = np.nan
        pair, from_own, outside = self._one_deviation(unknown, worst, np.flatnonzero(~missing))
        notes = describe(
            len(self.persons),
            (missing, MISSING),
            (self._any(found.kinks & found.known), KINK),
            (self._any(found.jumps & found.known), JUMP),
            (outside, OUTSIDE),
            (True, self.unequal),
        )
        return Cells(loss, pair, from_own, notes)

    def _any(self, mask: BoolArray) -> BoolArray:
        """Mask of the persons with some of the records of a mask (b,), (n_persons,)."""
        return np.asarray(np.logical_or.reduceat(mask, self.persons.starts[:-1]))

    def tangents(self, unknown: Unknown) -> Tangents:
        """Differentiate the encoding of these records: a block of columns per deviation of each."""
        parts, b = unknown.parts, len(self.rows)
        moving = [self._moving(column) for column in parts]
        columns = np.unique(np.concatenate(moving))
        sides = np.zeros((2, b, len(columns), len(parts)))
        kinks, jumps = np.zeros((2, b), dtype=bool)
        for m, column in enumerate(parts):
            x = column.floats[self.rows]
            there = np.flatnonzero(np.isfinite(x))

            def encoded(
                numbers: FloatArray,
                which: IntArray,
                column: Unknown = column,
                rows: IntArray = self.rows[there],
            ) -> FloatArray:
                return with_numbers(self.data, [column], rows[which], [numbers])[:, columns]

            if len(moving[m]):
                found = slopes(encoded, x[there], STEP * column.sd, limits=column.limits)
                unit = column.sd if unknown.columns else 1.0
                sides[..., m][:, there] = unit * np.stack([found.right, found.left])
                kinks[there] |= found.kinks
                jumps[there] |= found.jumps
        known = all_known(parts, self.rows)
        return Tangents(columns, sides[0], sides[1], known, kinks & ~jumps, jumps)

    def _moving(self, column: Unknown) -> IntArray:
        """Return the encoded columns that some number moves, of shape (k,)."""
        there = np.flatnonzero(np.isfinite(column.floats[self.rows]))
        if not len(there):
            return there
        rows, own = self.rows[there], self.own[there]
        steps = STEP * column.sd * np.array([1.0, -1.0, 2.0**-9, -(2.0**-9)])
        numbers = (column.floats[rows] + steps[:, None]).ravel()
        table = with_numbers(self.data, [column], np.tile(rows, len(steps)), [numbers])
        return np.flatnonzero(np.any(table.reshape(len(steps), *own.shape) != own, axis=(0, 1)))

    def _one_deviation(
        self, unknown: Unknown, worst: Worst, there: IntArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Distances to a step off, and where one lies outside, (n_persons,) each.

        Shapes: ``there`` (m,), the persons of whom all numbers are known.
        """
        distances = np.full((2, len(self.persons)), np.nan)
        outside = np.zeros(len(self.persons), dtype=bool)
        if self.unequal or not len(there):
            return distances[0], distances[1], outside
        some, parts = self.persons.take(there), unknown.parts
        rows, own = some.rows, self.own[np.isin(self.persons.codes, there)]
        limited, candidates = np.zeros(len(rows), dtype=bool), []
        for wanted in one_deviation(parts, rows, worst.direction[there][some.codes]):
            encoded = with_numbers(self.data, parts, rows, wanted)
            undefined = ~np.all(np.isfinite(encoded), axis=1)
            limited |= undefined
            if np.any(undefined):
                other = [
                    np.where(undefined, np.clip(x, *column.range), x)
                    for x, column in zip(wanted, parts, strict=True)
                ]
                encoded = with_numbers(self.data, parts, rows, other)
                defined = np.all(np.isfinite(encoded), axis=1, keepdims=True)
                encoded = np.where(defined, encoded, own)
            for x, column in zip(wanted, parts, strict=True):
                limited |= np.clip(x, *column.limits) != x
            candidates.append(encoded)
        points = encodings(self.data.state, some, own, candidates)
        distances[:, there] = separations(self.data.state, points, number=True)
        outside[there] = np.logical_or.reduceat(limited, some.starts[:-1])
        return distances[0], distances[1], outside


def all_known(parts: Sequence[Unknown], rows: IntArray) -> BoolArray:
    """Mask of the records of which all of some numbers are known, of shape (b,)."""
    return np.all([np.isfinite(column.floats[rows]) for column in parts], axis=0)


def one_deviation(
    parts: Sequence[Unknown], rows: IntArray, direction: FloatArray
) -> list[list[FloatArray]]:
    """Numbers of some records a step below and above, for each column.

    Shapes: ``rows`` (b,); ``direction`` (b, m): of several columns, along it, each in its standard
    deviation.
    """
    own = [column.floats[rows] for column in parts]
    if len(parts) == 1:
        steps = [np.full(len(rows), parts[0].step)]
    else:
        steps = [column.sd * direction[:, m] for m, column in enumerate(parts)]
    return [[x + sign * step for x, step in zip(own, steps, strict=True)] for sign in (-1.0, 1.0)]


def held(
    data: Inspected, unknown: Sequence[Unknown], persons: Persons, unequal: str
) -> list[Cells]:
    """Measure everything that is asked about with the transformers held fixed."""
    most = np.nanmax([2.0, *(one.n_values for one in unknown)])
    cells, order = [], []
    for which in person_blocks(data.state, persons, most):
        block = HeldBlock.of(data, persons.take(which), unequal)
        cells.append([block.cells(one) for one in unknown])
        order.append(which)
    place = np.argsort(np.concatenate(order))
    return [Cells.of_all(parts, place) for parts in zip(*cells, strict=True)]


# Transformers that learn nothing, the last one with given knots.
_ROWWISE = (FunctionTransformer, Normalizer, PolynomialFeatures, SplineTransformer)
# Entries of the largest table of derivatives: 32 MB.
_ELEMENTS = 1 << 22
# A column that spreads by less than this share of its largest entry is constant.
_CONSTANT = 1e-9
# Relative difference of encoded records, and of both sides of a slope, taken for rounding.
_ROUNDING, _SAME = 1e-9, 1e-6
# Raw records to what a transformer is given.
Encoder = Callable[[Any], Any]


class NotKnown(ValueError):
    """Raised where it is not known in closed form what a transformer learned."""


@dataclass(frozen=True)
class Step:
    """A transformer of one column by k statistics of it, at the training records. Confidential."""

    slope: FloatArray  # df/du, (n,)
    sensitivity: FloatArray  # df/dtheta, (k, n)
    # dtheta/du as an entry grows, as it falls, and as entries that are tied move together, (k, n)
    up: FloatArray
    down: FloatArray
    together: FloatArray

    @classmethod
    def of(cls, transformer: Any, place: int, table: Any) -> "Step":
        """Differentiate what a transformer does to a column of what it is given."""
        if type(transformer) not in (StandardScaler, SimpleImputer):
            raise NotKnown(type(transformer).__name__)
        try:
            column = table.iloc[:, [place]] if hasattr(table, "iloc") else table[:, [place]]
            u = dense_table(plain_table(column))[:, 0]
        except (TypeError, ValueError) as error:
            raise NotKnown("columns that are no numbers") from error
        if np.all(np.isnan(u)):
            raise NotKnown("a column without a number")
        made = _scaled if isinstance(transformer, StandardScaler) else _imputed
        slope, statistics = made(transformer, place, u)
        found = np.zeros((4, len(statistics), len(u)))
        for k, (learned, expected, *parts) in enumerate(statistics):
            # In the precision of what was learned.
            allowed = 1e-9 if np.asarray(learned).dtype == np.float64 else 1e-5
            if not abs(learned - expected) <= allowed * max(abs(expected), np.nanmax(np.abs(u))):
                raise NotKnown(f"{type(transformer).__name__}, fitted on other records")
            found[:, k] = np.nan_to_num(parts, posinf=np.inf)
        return cls(slope, *found)

    def along(self, G: FloatArray, rows: IntArray, tangents: FloatArray, side: float) -> FloatArray:
        """``G dtheta`` as each record moves along a tangent (b,) of its number, (b, p).

        ``side`` is 1.0 where the number grows, and -1.0 where it falls.
        """
        rates = np.where(side * tangents > 0.0, self.up[:, rows], self.down[:, rows])
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(tangents == 0.0, 0.0, rates * tangents).T @ G)


def _scaled(scaler: StandardScaler, place: int, u: FloatArray) -> tuple[FloatArray, list[Any]]:
    known, mean = 1.0 - np.isnan(u), float(np.nanmean(u))
    n, centered = known.sum(), u - mean
    scale = 1.0 if scaler.scale_ is None else scaler.scale_[place]
    statistics: list[Any] = []
    if scaler.with_mean:
        statistics.append((scaler.mean_[place], mean, -known / scale, *[known / n] * 3))
    if scaler.with_std:
        sd = float(np.sqrt(np.nanmean(centered**2)))
        constant = sd <= _CONSTANT * np.nanmax(np.abs(u))
        sd = 1.0 if constant else sd
        sensitivity = -(centered if scaler.with_mean else u) / scale**2
        # The scale of a constant column jumps as soon as one of its entries moves by itself.
        rate = np.full(len(u), np.inf) if constant else centered / (n * sd)
        together = np.zeros(len(u)) if constant else rate
        statistics.append((scale, sd, sensitivity, rate, rate, together))
    return np.full(len(u), 1.0 / scale), statistics


def _imputed(imputer: SimpleImputer, place: int, u: FloatArray) -> tuple[FloatArray, list[Any]]:
    known, learned = 1.0 - np.isnan(u), np.asarray(imputer.statistics_)
    if not pd.isna(imputer.missing_values) or np.any(pd.isna(learned)):
        raise NotKnown("SimpleImputer of other than missing values, or of nothing else")
    if imputer.strategy == "constant":
        return known, []
    if imputer.strategy == "mean":
        rates, expected = [known / known.sum()] * 3, np.nanmean(u)
    elif imputer.strategy == "median":
        rates, expected = _median_rates(u), np.nanmedian(u)
    else:
        raise NotKnown(f"SimpleImputer by {imputer.strategy!r}")
    learned = learned.astype(np.float64)
    return known, [(learned[place], expected, 1.0 - known, *rates)]


def _median_rates(u: FloatArray) -> list[FloatArray]:
    """Differentiate the median by each entry, as it grows, falls, and moves with those tied to it.

    The entry that grows out of tied ones becomes the last of them, and one that falls the first.
    Zero for missing entries.
    """
    known = np.flatnonzero(~np.isnan(u))
    order = np.sort(u[known])
    first = np.searchsorted(order, u[known], side="left")
    last = np.searchsorted(order, u[known], side="right") - 1
    rates = np.zeros((3, len(u)))
    for position in ((len(known) - 1) // 2, len(known) // 2):
        tied = (first <= position) & (position <= last)
        shares = tied / (last - first + 1)
        rates[:, known] += 0.5 * np.stack([last == position, first == position, shares])
    return list(rates)


@dataclass(frozen=True)
class Path:
    """The way of a raw column to one encoded column. Confidential."""

    inputs: Encoder  # raw records to what the first step is given
    column: int  # there
    place: int  # of the encoded column
    steps: tuple[Step, ...] = ()
    sums: tuple[FloatArray, ...] = ()  # ``G`` of the last steps, (k, p) each

    def outer(self, moved: FloatArray, rows: IntArray) -> FloatArray:
        """Return the derivatives in what the last step without a sum returns, (b, p).

        Shapes: ``moved`` (b, p), the derivatives in the encoded column.
        """
        known = self.steps[len(self.steps) - len(self.sums) :]
        for step, G in zip(known[::-1], self.sums[::-1], strict=True):
            moved = moved * step.slope[rows, None] + step.together[:, rows].T @ G
        return moved

    def along(self, rows: IntArray, tangents: FloatArray, side: float) -> FloatArray:
        """Return what some records tell through all steps, moving along tangents (b,), (b, p)."""
        total = np.zeros((len(rows), self.sums[0].shape[1]))
        for step, G in zip(self.steps, self.sums, strict=True):
            total += step.along(G, rows, tangents, side)
            tangents = step.slope[rows] * tangents
        return total


def _follow(
    step: Any, before: Encoder, paths: Sequence[Path], raw: Any, *, values: bool
) -> list[Path]:
    """Follow columns of the raw records through a fitted transformer, or raise `NotKnown`.

    Only what they go through has to be known. ``values`` says that they are columns of few values,
    of which an encoder may learn nothing.
    """
    if not paths or step is None or (isinstance(step, str) and step == "passthrough"):
        return list(paths)
    if isinstance(step, Pipeline):
        for _, one in step.steps:
            paths = _follow(one, before, paths, raw, values=values)
            before = _then(before, one)
        return list(paths)
    if isinstance(step, ColumnTransformer):
        return _side_by_side(step, before, paths, raw, values=values)
    table = before(raw)
    if type(step) in _ROWWISE or (values and _keeps_values(step, table)):
        if any(path.steps for path in paths):
            raise NotKnown(f"{type(step).__name__} of what was learned")
        width = _rowwise_width(step, table)
        return [Path(_then(before, step), j, j) for j in range(width)]
    found = []
    for path in paths:
        made = Step.of(step, path.place, table)
        start = path if path.steps else Path(before, path.place, path.place)
        found.append(replace(start, steps=(*path.steps, made)))
    return found


def _then(before: Encoder, step: Any) -> Encoder:
    if step is None or isinstance(step, str):
        return before
    return lambda raw: step.transform(before(raw))


def _side_by_side(
    transformer: ColumnTransformer,
    before: Encoder,
    paths: Sequence[Path],
    raw: Any,
    *,
    values: bool,
) -> list[Path]:
    """Follow columns through those transformers of some columns that they reach."""
    if transformer.transformer_weights:
        raise NotKnown("ColumnTransformer with weights")
    found = []
    for name, step, columns in transformer.transformers_:
        inputs = input_positions(transformer, name)
        own = [replace(p, place=inputs.index(p.place)) for p in paths if p.place in inputs]
        if not own or (isinstance(step, str) and step == "drop"):
            continue
        if isinstance(columns, str) or (np.ndim(columns) == 0 and not isinstance(columns, slice)):
            raise NotKnown("ColumnTransformer that passes a column as a vector")

        def part(raw: Any, inputs: list[int] = inputs) -> Any:
            table = before(raw)
            return table.iloc[:, inputs] if hasattr(table, "iloc") else table[:, inputs]

        start = transformer.output_indices_[name].start
        for path in _follow(step, part, own, raw, values=values):
            found.append(replace(path, place=start + path.place))
    return found


def _rowwise_width(transformer: Any, table: Any) -> int:
    """Return how many columns a transformer makes that encodes each record by itself.

    Raises `NotKnown` where records depend on each other.
    """
    name = type(transformer).__name__
    if type(transformer) not in _ROWWISE:
        return int(transformer.transform(take_rows(table, np.arange(1))).shape[1])
    if isinstance(getattr(transformer, "knots", None), str) or sparse.issparse(table):
        raise NotKnown(f"{name} of learned knots, or of sparse records")
    whole, half = _encoded(transformer.transform, table), np.arange(max(1, table.shape[0] // 2))
    part = _encoded(transformer.transform, take_rows(table, half))
    size = np.abs(whole).max(axis=0, initial=0.0)
    if part.shape[1] != whole.shape[1] or np.any(np.abs(part - whole[half]) > _ROUNDING * size):
        raise NotKnown(f"{name} of all records together")
    return int(whole.shape[1])


def _encoded(transform: Encoder, table: Any) -> FloatArray:
    """Transform records, as a dense table."""
    return dense_table(plain_table(transform(table)))


def _keeps_values(transformer: Any, table: Any) -> bool:
    """Tell that no value of one record, of those of the others, changes what was learned."""
    if type(transformer) not in (OneHotEncoder, OrdinalEncoder):
        return False
    if isinstance(getattr(transformer, "drop", None), str):
        return False
    if transformer.min_frequency is not None or transformer.max_categories is not None:
        return False
    if not isinstance(transformer.categories, str):
        return True
    columns = (pd.Series(raw_column(table, j)) for j in range(table.shape[1]))
    return all(int(column.value_counts(dropna=False).min()) > 1 for column in columns)


def _paths(data: Inspected, column: Unknown) -> list[Path] | None:
    """Return the paths of a raw column to all encoded ones that it reaches; None if not known."""
    start = Path(lambda raw: raw, column.index, column.index)
    try:
        values = not column.is_number
        paths = _follow(data.preprocessing, start.inputs, [start], data.table, values=values)
    except NotKnown:
        return None
    table, places = plain_table(data._transformed(data.table)), [path.place for path in paths]
    # An encoder that looks at the targets makes others of the training records.
    other = other_rows(table[:, places], data.state.objective.X[:, places])
    return None if len(other) else paths


def learns_nothing_of(data: Inspected, unknown: Unknown) -> bool:
    """Tell that no transformer learns from what a record has in some columns, or as its target."""
    if unknown.is_target:
        return not data.looks_at_targets()
    every = [_paths(data, column) for column in unknown.parts]
    return all(paths is not None and not any(one.steps for one in paths) for paths in every)


@dataclass(frozen=True)
class Learned:
    """Statistics that transformers learned of raw columns of numbers, as far as they are known."""

    data: Inspected
    columns: frozenset[int]  # Positions of those for which all of it is known
    paths: list[tuple[int, Path]]  # Position of a column, and a path of it with steps

    @classmethod
    def of(cls, data: Inspected, columns: Sequence[Unknown]) -> "Learned":
        """Differentiate the preprocessing for those columns for which it is possible."""
        every = {column.index: _paths(data, column) for column in columns}
        known = {index: some for index, some in every.items() if some is not None}
        paths = [(index, path) for index, some in known.items() for path in some if path.steps]
        n, p = data.state.objective.X.shape[0], len(data.state.factor.coefficients)
        for level in range(max((len(path.steps) for _, path in paths), default=0)):
            pending = [k for k, (_, path) in enumerate(paths) if len(path.steps) > level]
            places = np.array([paths[k][1].place for k in pending])
            sums = [np.zeros(())] * len(paths)
            for some in row_blocks(n, p * len(places), _ELEMENTS):
                rows = np.arange(n)[some]
                moved = Movements(data.state, Persons.single(rows)).jacobian(places)
                for j, k in enumerate(pending):
                    path = paths[k][1]
                    sensitivity = path.steps[-1 - level].sensitivity[:, rows]
                    sums[k] = sums[k] + sensitivity @ path.outer(moved[:, :, j], rows)
            for k in pending:
                index, path = paths[k]
                paths[k] = index, replace(path, sums=(sums[k], *path.sums))
        return cls(data, frozenset(known), paths)

    def covers(self, unknown: Unknown) -> bool:
        """Return True for numbers of which all that was learned is known in closed form."""
        numbers = unknown.is_number and not unknown.is_target
        return numbers and self.columns.issuperset(part.index for part in unknown.parts)

    def slopes(self, column: Unknown, held: HeldBlock) -> Slopes:
        """Return the derivatives of the final parameters in a number of some records, (b, p) each.

        The number is known of all of them.
        """
        direct = held.tangents(column)
        right, left = (
            held.movements.moved(direct.columns, side)[:, :, 0]
            for side in (direct.right, direct.left)
        )
        own = [path for index, path in self.paths if index == column.index]
        for inputs in dict.fromkeys(path.inputs for path in own):
            some = [path for path in own if path.inputs == inputs]
            given = self._given(column, held.rows, some)
            for total, side, tangents in ((right, 1.0, given.right), (left, -1.0, given.left)):
                for path, each in zip(some, tangents.T, strict=True):
                    total += path.along(held.rows, each, side)
        gap = np.linalg.norm(right - left, axis=1)
        size = np.maximum(np.linalg.norm(right, axis=1), np.linalg.norm(left, axis=1))
        kinks = (direct.kinks | (gap > _SAME * size)) & ~direct.jumps
        return Slopes(right, left, kinks, direct.jumps)

    def _given(self, column: Unknown, rows: IntArray, paths: Sequence[Path]) -> Slopes:
        """Return the derivatives of what the first steps of paths are given, (b, n_paths) each."""

        def inputs(raw: Any) -> FloatArray:
            # What is missing elsewhere does not move.
            table = _encoded(paths[0].inputs, raw)
            return np.nan_to_num(table[:, [path.column for path in paths]])

        def changed(numbers: FloatArray, which: IntArray) -> FloatArray:
            return with_numbers(self.data, [column], rows[which], [numbers], inputs)

        return slopes(changed, column.floats[rows], STEP * column.sd, limits=column.limits)
