"""Raw columns: numbers that can be differentiated, or one of a few values."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import (
    MAX_VALUES,
    is_quantity,
    raw_column,
    take_rows,
    with_attribute,
)
from skleak.inspection._derivatives import flat_records
from skleak.inspection._pipeline import Inspected
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

# First step of difference quotients, in standard deviations of the column.
STEP = 0.05
_ELEMENTS = 1 << 22
# Records at which it is tried out which numbers are encoded alike.
_N_TRIED = 8
# Digits to which encoded records are the same; rounding depends on the place of a row.
_DIGITS = 10
# Notes on a column.
ONE_VALUE = "all records have the same value"
BINNED = "the preprocessing bins or rounds it"
DROPPED = "the preprocessing drops it"


@dataclass(frozen=True)
class RawColumn:
    """A column of the raw records. Confidential."""

    index: int  # Its position
    label: Any  # Its name, or its position where it has none
    # The column as floats, NaN where a value is missing; None where it does not hold numbers, (n,)
    numbers: FloatArray | None
    is_number: bool  # Whether it is differentiated; else its values are told apart
    codes: IntArray  # Which of the values each record has; empty for a number, (n,)
    carriers: IntArray  # For each value a record that has it; empty for a number, (n_values,)
    note: str = ""  # What should be known of the column
    # What numbers have to stay within, as the preprocessing refuses others
    limits: tuple[float, float] = (-np.inf, np.inf)

    @property
    def floats(self) -> FloatArray:
        """The numbers of a column that holds some, NaN where they are missing, of shape (n,)."""
        assert self.numbers is not None
        return self.numbers

    @property
    def range(self) -> tuple[float, float]:
        """Least and largest number of the column."""
        known = self.floats[self.present]
        return float(known.min()), float(known.max())

    @property
    def present(self) -> BoolArray:
        """Mask of the records of which the number is known, of shape (n,)."""
        return np.isfinite(self.floats)

    @property
    def kind(self) -> str:
        """Name of the kind in the table."""
        return "number" if self.is_number else "values"

    @property
    def parts(self) -> tuple["RawColumn", ...]:
        """The columns of which it is one of several, or itself."""
        return (self,)

    @property
    def n_values(self) -> float:
        """Number of values that are told apart; NaN for a number."""
        return float("nan") if self.is_number else float(len(self.carriers))

    @property
    def sd(self) -> float:
        """Standard deviation of the column; NaN where it does not hold numbers."""
        if self.numbers is None or not np.any(self.present):
            return float("nan")
        return float(np.std(self.numbers[self.present]))

    @property
    def mean(self) -> float:
        """Mean of a column of numbers."""
        return float(np.mean(self.floats[self.present]))

    @property
    def shares(self) -> FloatArray:
        """Share of the records that have the value of each, of shape (n,); NaN for a number."""
        if self.numbers is not None and self.is_number:
            return np.full(len(self.numbers), np.nan)
        return np.asarray(np.bincount(self.codes)[self.codes] / len(self.codes))


def read_column(
    data: Inspected, index: int, *, nominal: bool = False, refit: bool = False
) -> RawColumn:
    """Decide what a raw column is.

    Under ``nominal`` numbers are codes, too. Numbers that the fitted transformers bin or round are
    one of a few values; under ``refit`` those that are binned alike differ by the bins that they
    make, and those that are dropped may decide on what is.
    """
    if data.facts is not None:
        found: RawColumn = data.facts.column(data, index, nominal)
        return found
    names = getattr(data.table, "columns", None)
    label = int(index) if names is None else names[index]
    column = raw_column(data.table, index)
    codes, first = value_codes(column)
    numbers = real_numbers(column)
    if column.dtype == object and np.all(pd.isna(column)):
        numbers = None
    note = ""
    if len(first) == 1:
        return RawColumn(index, label, numbers, False, codes, first, ONE_VALUE)
    if not nominal and numbers is not None and _is_number(numbers):
        number = RawColumn(index, label, numbers, True, codes[:0], first[:0])
        for limits in (number.limits, number.range):
            number = replace(number, limits=limits)
            with suppress(ValueError):  # the preprocessing refuses the numbers that it is given
                if not is_flat(data, number):
                    return number
                break
        merged, carriers = alike(data, number, codes, first)
        if refit and len(carriers) == 1:
            return number
        note = BINNED if len(carriers) > 1 else DROPPED
        if not refit or len(first) > MAX_VALUES:
            codes, first = merged, carriers
    if len(first) > MAX_VALUES:
        raise ValueError(
            f"The column {label!r} has too many values to tell apart one by one: {len(first)}, "
            f"expected at most {MAX_VALUES}. Group rare ones, convert numbers stored as text, or "
            "leave it out of `columns`."
        )
    return RawColumn(index, label, numbers, False, codes, first, note)


def _is_number(numbers: FloatArray) -> bool:
    return is_quantity(np.unique(numbers[np.isfinite(numbers)]), len(numbers))


def value_codes(column: Array) -> tuple[IntArray, IntArray]:
    """Codes (n,) of the values of a column, missing ones alike, and a carrier of each value."""
    codes, _ = pd.factorize(column, use_na_sentinel=False)
    return codes, np.unique(codes, return_index=True)[1]


def real_numbers(column: Array) -> FloatArray | None:
    """Return a column of real numbers as floats; None for others, truth values among them."""
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    if column.dtype != object:
        return None
    missing = pd.isna(column)
    real = (int, float, np.integer, np.floating)
    if not all(isinstance(v, real) and not isinstance(v, bool) for v in column[~missing]):
        return None
    numbers = np.full(len(column), np.nan)
    numbers[~missing] = column[~missing].astype(np.float64)
    return numbers


def with_numbers(
    data: Inspected,
    columns: Sequence[RawColumn],
    rows: IntArray,
    numbers: Sequence[FloatArray],
    encode: Callable[[Any], FloatArray] | None = None,
) -> FloatArray:
    """Return the encoded records with other numbers, (b,) of each of some columns, of shape (b, d).

    Numbers are kept within the limits of their column; ``encode`` may be a part of the pipeline.
    """
    changed = data.rows(rows)
    for column, own in zip(columns, numbers, strict=True):
        changed = with_attribute(changed, column.index, np.clip(own, *column.limits))
    with warnings.catch_warnings():
        # Numbers that nobody has may be unknown to an encoder, or have no logarithm.
        warnings.simplefilter("ignore")
        return data.encode(changed) if encode is None else encode(changed)


def with_value_of(
    data: Inspected, columns: Sequence[RawColumn], rows: IntArray, carriers: IntArray | int
) -> FloatArray:
    """Encode records with the values of other records (b,) in some columns, of shape (b, d)."""
    return data.encode(lent(data, columns, data.rows(rows), carriers))


def lent(data: Inspected, columns: Sequence[RawColumn], own: Any, carriers: IntArray | int) -> Any:
    """Raw records with the values of other records (b,) in some columns."""
    others = take_rows(data.table, np.broadcast_to(np.asarray(carriers), len(own)))
    changed = own.copy(deep=False) if isinstance(own, pd.DataFrame) else own.copy()
    for index in (column.index for column in columns):
        if isinstance(own, pd.DataFrame):
            changed.isetitem(index, others.iloc[:, index].set_axis(own.index))
        else:
            changed[:, index] = others[:, index]
    return changed


def is_flat(data: Inspected, column: RawColumn) -> bool:
    """Return True if the encoded records do not depend on small changes of a number."""
    rows = np.flatnonzero(column.present)
    width = data.state.n_features
    for some in row_blocks(len(rows), width, _ELEMENTS):
        own = rows[some]

        def encoded(numbers: FloatArray, which: IntArray, own: IntArray = own) -> FloatArray:
            return with_numbers(data, [column], own[which], [numbers])

        if not np.all(flat_records(encoded, column.floats[own], STEP * column.sd)):
            return False
    return True


def alike(
    data: Inspected, column: RawColumn, codes: IntArray, first: IntArray
) -> tuple[IntArray, IntArray]:
    """Return codes and carriers of values that are encoded differently, at most ``MAX_VALUES``."""
    n = len(codes)
    classes = np.zeros(len(first), dtype=np.intp)
    for row in np.unique(np.linspace(0, n - 1, min(n, _N_TRIED)).astype(int)):
        encoded = [
            with_value_of(data, [column], np.full(len(first[some]), row), first[some])
            for some in row_blocks(len(first), data.state.n_features, _ELEMENTS)
        ]
        table = np.concatenate(encoded)
        size = np.abs(table).max(axis=0)
        table = np.round(table / np.where(size > 0.0, size, 1.0), _DIGITS)
        both = np.column_stack([classes, table])
        classes = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    codes, carriers = classes[codes], first[np.unique(classes, return_index=True)[1]]
    if len(carriers) > MAX_VALUES:
        raise ValueError(
            f"The preprocessing makes {len(carriers)} different values of the column "
            f"{column.label!r}, and takes none between them; expected at most {MAX_VALUES}, which "
            "can be told apart one by one. Bin it more coarsely, or leave it out of `columns`."
        )
    rows = np.arange(n)
    for some in row_blocks(n, data.state.n_features, _ELEMENTS):
        same = with_value_of(data, [column], rows[some], carriers[codes[some]])
        own = data.encode(data.rows(some))
        if np.any(np.abs(same - own) > 10.0**-_DIGITS * (1.0 + np.abs(own))):
            raise ValueError(
                f"The preprocessing bins or rounds the column {column.label!r} together with "
                "others: which of its values are encoded alike depends on the record, and they "
                "cannot be told apart one by one. Leave it out of `columns`."
            )
    return codes, carriers
