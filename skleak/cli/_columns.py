"""What the columns of a table are: numbers, dates, names; and which of them a model can use."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import MAX_CODES
from skleak.plotting.labels import count, plural, printable, shorten

# Levels of a nominal column that are encoded apart; the others share one.
MAX_LEVELS = 30
# Share of the values of a column of text that must be dates, or numbers, for it to be one.
_NEARLY_ALL = 0.95
_ISO_DATE = (
    r"\s*\d{4}-\d{2}-\d{2}"
    r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?\s*"
)
_DAY = pd.Timedelta(days=1)
# What numbers and dates are written with where they are not read as such.
_WRITTEN = re.compile(r"[\d\s.,:/%$€£+-]*\d[\d\s.,:/%$€£+-]*")


@dataclass
class Decisions:
    """Decisions on columns, told once for all columns of one fate."""

    made: dict[str, list[str]] = field(default_factory=dict)  # What was decided on each column

    def add(self, name: str, decision: str) -> None:
        """Note a decision on a column."""
        self.made.setdefault(name, []).append(decision)

    def lines(self) -> tuple[str, ...]:
        """One line for each fate: all decisions on a column, and the columns that share them."""
        fates: dict[str, list[str]] = {}
        for name, decided in self.made.items():
            fates.setdefault("; ".join(decided), []).append(shorten(name, 40))
        return tuple(f"{', '.join(names)}: {fate}" for fate, names in fates.items())


def missing_label(column: "pd.Series[Any]") -> str:
    """Name of the level of missing values, which no level that occurs has."""
    taken = set(column.dropna().astype(str))
    label = "missing"
    while label in taken:
        label = f"({label})"
    return label


def text_of(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Values as printable text, with missing ones left out; whole numbers without a point."""
    present = column.dropna()
    if pd.api.types.is_float_dtype(present) and bool((np.mod(present, 1) == 0).all()):
        present = present.astype(np.int64)
    values = pd.Series([None] * len(column), index=column.index, dtype=object)
    values[present.index] = [printable(str(value).strip()) or None for value in present]
    return values


def typed(frame: pd.DataFrame, nominal: Collection[str], decisions: Decisions) -> pd.DataFrame:
    """Turn every column into numbers (missing: NaN) or text (missing: None).

    Shapes: ``frame`` (n, n_columns); returns (n, n_columns): of float64, int64 and object columns.
    """
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if name in nominal:
            decisions.add(name, "taken as codes, as --nominal says")
            columns[name] = text_of(column)
        else:
            columns[name] = _typed(column, str(name), decisions)
    return pd.DataFrame(columns, index=frame.index, columns=frame.columns)


def _typed(column: "pd.Series[Any]", name: str, decisions: Decisions) -> "pd.Series[Any]":
    kind = pd.api.types
    if kind.is_bool_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return text_of(column)
    if kind.is_datetime64_any_dtype(column):
        return _days(column, name, decisions)
    if kind.is_timedelta64_dtype(column):
        decisions.add(name, "durations, turned into days")
        return column / _DAY
    if kind.is_numeric_dtype(column) and not kind.is_complex_dtype(column):
        return _numbers(column, name, decisions)
    present = column.dropna()
    if len(present) and all(_is_number(value) for value in present):
        return _numbers(column.where(column.notna(), np.nan).astype(np.float64), name, decisions)
    return _from_text(text_of(column), name, decisions)


def _is_number(value: object) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)


def _numbers(column: "pd.Series[Any]", name: str, decisions: Decisions) -> "pd.Series[Any]":
    if column.isna().any() or not pd.api.types.is_integer_dtype(column):
        column = column.astype(np.float64)
        infinite = int(np.isinf(column).sum())
        if infinite:
            decisions.add(name, f"{plural(infinite, 'infinite value')} taken as missing")
            column = column.where(np.isfinite(column))
        return column
    fits = column.between(np.iinfo(np.int64).min, np.iinfo(np.int64).max).all()
    return column.astype(np.int64 if fits else np.float64)


def _from_text(column: "pd.Series[Any]", name: str, decisions: Decisions) -> "pd.Series[Any]":
    present = column.dropna().astype(object)
    if not len(present):
        return column
    text = present.astype(str)
    if text.str.fullmatch(_ISO_DATE).mean() >= _NEARLY_ALL:
        dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
        if dates.notna().mean() >= _NEARLY_ALL:
            return _days(dates.reindex(column.index), name, decisions, len(present))
    numbers = pd.to_numeric(text, errors="coerce")
    if numbers.notna().mean() >= _NEARLY_ALL and numbers.nunique() > MAX_LEVELS:
        other = text[numbers.isna()]
        if len(other):
            decisions.add(
                name,
                f"text, of which nearly all are numbers; {plural(len(other), 'other value')} "
                f"taken as missing (such as {shorten(other.iloc[0], 20)!r})",
            )
        return _numbers(numbers.reindex(column.index), name, decisions)
    return column


def _days(
    column: "pd.Series[Any]", name: str, decisions: Decisions, n_present: int | None = None
) -> "pd.Series[Any]":
    earliest = column.min()
    days = ((column - earliest) / _DAY).astype(np.float64)
    unread = 0 if n_present is None else n_present - int(column.notna().sum())
    more = f"; {plural(unread, 'other value')} taken as missing" if unread else ""
    since = "" if pd.isna(earliest) else f" since {earliest.date().isoformat()}"
    decisions.add(name, f"dates, turned into days{since}{more}")
    return days


def row_counters(frame: pd.DataFrame) -> set[str]:
    """Columns that count the records up or down by one, as an index that was saved does."""
    found = set()
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_integer_dtype(column) and len(column) > 2:
            steps = set(np.diff(column.to_numpy()).tolist())
            if steps in ({1}, {-1}):
                found.add(name)
    return found


def choose(
    frame: pd.DataFrame, sensitive: str | None, counters: Collection[str], decisions: Decisions
) -> tuple[list[str], list[str]]:
    """Columns that a model can use: numeric, and nominal.

    Shapes: ``frame`` (n, n_columns); returns ``numeric``, ``nominal``.
    """
    numeric, nominal = [], []
    for name in frame.columns:
        column = frame[name]
        if column.dtype != object:
            if name != sensitive and name in counters:
                decisions.add(name, "dropped, as it counts the records")
            elif name == sensitive or not _is_single(column, name, decisions):
                numeric.append(name)
                decisions.add(name, _numeric_fate(column))
        elif name == sensitive or not _names_records(column, name, decisions):
            nominal.append(name)
            decisions.add(name, _nominal_fate(column))
    return numeric, nominal


def _is_single(column: "pd.Series[Any]", name: str, decisions: Decisions) -> bool:
    values = column.dropna()
    if values.nunique() < 2:
        decisions.add(name, _single(values))
        return True
    return False


def _names_records(column: "pd.Series[Any]", name: str, decisions: Decisions) -> bool:
    present = column.dropna()
    n_levels = present.nunique()
    if n_levels + (len(present) < len(column)) < 2:
        decisions.add(name, _single(present))
        return True
    if n_levels == len(present) and n_levels > 2:
        named = "dropped, as it differs in every record and names it" + _measured(present)
        if len(present) == len(column):
            named += "; to find records again by it, pass it to --id"
        decisions.add(name, named)
        return True
    if n_levels > MAX_LEVELS and n_levels > 0.5 * len(present):
        decisions.add(
            name,
            f"dropped, as it names the record: {count(n_levels)} different values of "
            f"{count(len(present))}{_measured(present)}",
        )
        return True
    return False


def _measured(values: "pd.Series[Any]") -> str:
    """Say how numbers and dates are written, where values (n,) look like some."""
    if not all(_WRITTEN.fullmatch(str(value)) for value in values):
        return ""
    return "; if these are numbers or dates, write them as 1234.5 and 2024-03-31"


def _single(values: "pd.Series[Any]") -> str:
    if not len(values):
        return "dropped, as all values are missing"
    return f"dropped, as every record has {shorten(values.iloc[0], 20)!r}"


def _numeric_fate(column: "pd.Series[Any]") -> str:
    missing, values = int(column.isna().sum()), column.dropna()
    fate = "numbers, standardised"
    if missing:
        fate += f"; {plural(missing, 'missing value')} replaced by the median"
    distinct, whole = values.nunique(), bool((np.mod(values, 1) == 0).all())
    if whole and 2 < distinct <= MAX_CODES:
        fate += f"; {distinct} whole values: if they are codes, pass them to --nominal"
    if whole and distinct == len(values):
        fate += "; all differ: if they identify records, pass them to --drop"
    return fate


def _nominal_fate(column: "pd.Series[Any]") -> str:
    levels = column.nunique() + bool(column.isna().any())
    missing = int(column.isna().sum())
    fate = f"{plural(levels, 'level')}, one-hot, the first dropped"
    if levels > MAX_LEVELS:
        fate += f"; all but the {MAX_LEVELS - 1} most frequent merged"
    return fate + (f"; {count(missing)} missing are a level of their own" if missing else "")
