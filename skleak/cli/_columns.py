"""Read a table: what its columns are, numbers, dates or names, and which a model can use."""

import io
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import MAX_CODES
from skleak.cli import _reading
from skleak.plotting.labels import count, plural, printable, shorten
from skleak.utils._records import IDENTIFIER

# Levels of a nominal column that are encoded apart; the others share one.
MAX_LEVELS = 30
# Share of the values of a column of text that must be dates, or numbers, for it to be one.
_NEARLY_ALL = 0.95
# How numbers are written: the signs between thousands, and before decimals. pandas' own option for
# thousands takes such signs out wherever they are: 31.01.1950 would be a number.
_STYLES = {
    "plain": ("(?!)", r"\."),
    "commas between thousands": (",", r"\."),
    "decimal commas": (r"[. '’\u00a0\u202f]", ","),
}
_DATE = r"(?:\d{4}([-./])\d{1,2}\1\d{1,2}|\d{1,2}([-./])\d{1,2}\2\d{4})(?:[T ]\d{1,2}:\d{2}.*)?"
_DAY = pd.Timedelta(days=1)
# What numbers and dates are written with where they are not read as such.
_WRITTEN = r"[\d\s.,:/%$€£+-]*\d[\d\s.,:/%$€£+-]*"
_MAX_SHOWN = 5


@dataclass
class Decisions:
    """Decisions on columns, told once for all columns of one fate."""

    made: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)

    def add(self, name: str, decision: str, *, plain: bool = False) -> None:
        """Note a decision on a column; a plain one is what anybody expects."""
        self.made.setdefault(name, []).append((decision, plain))

    def lines(self, full: bool = True) -> tuple[str, ...]:
        """One line for each fate: the decisions on a column, and the columns that share them."""
        fates: dict[str, list[str]] = {}
        for name, decided in self.made.items():
            if told := "; ".join(text for text, plain in decided if full or not plain):
                fates.setdefault(told, []).append(shorten(name, 40))
        return tuple(f"{', '.join(names)}: {fate}" for fate, names in fates.items())


def text_of(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Values as printable text, with missing ones left out; whole numbers without a point."""
    present = column.dropna()
    if pd.api.types.is_float_dtype(present) and bool((np.mod(present, 1) == 0).all()):
        present = present.astype(np.int64)
    values = pd.Series([None] * len(column), index=column.index, dtype=object)
    values[present.index] = [printable(str(value).strip()) or None for value in present]
    return values


def read_table(
    file: Path, as_text: Sequence[str], decisions: Decisions
) -> tuple[pd.DataFrame, str]:
    """Read a CSV file, compressed or not, or a Parquet file.

    Columns that are named in ``as_text`` are codes, and no numbers; how others were written that
    are is noted.

    Returns ``frame``, (n, n_columns); and how it was read.
    """
    text, separator, how = "", "", "Parquet"
    with _reading.read_errors(file):
        if file.suffix.lower() in _reading.PARQUET:
            frame = pd.read_parquet(file, engine="pyarrow")
            frame = frame.reset_index(drop=all(name is None for name in frame.index.names))
            frame.columns = pd.Index(_reading.checked(list(frame.columns)), dtype=object)
        else:
            text, encoding = _reading.read_text(file)
            separator = _reading.separator_of(text)
            how = f"separated by {_reading.SEPARATORS[separator]}"
            how += "" if encoding.startswith("utf-8") else f", encoded as {encoding}"
            frame = _parsed(text, separator, dict.fromkeys(as_text, str))
    if len(frame) < 2 or not len(frame.columns):
        what = f"{plural(len(frame), 'record')} of {plural(len(frame.columns), 'column')}"
        raise ValueError(f"{file.name!r} holds {what}; expected names, and at least 2 records")
    # What may be written either way is so as the separator lets expect.
    thousands, decimals = sorted(_STYLES)[:2]
    order = ["plain", *((thousands, decimals) if separator in "," else (decimals, thousands))]
    floats = frame.select_dtypes(float).columns
    for name in frame.select_dtypes(["object", "string"]).columns.difference(as_text, sort=False):
        frame[name] = as_numbers(frame[name], name, order, _NEARLY_ALL, decisions)
    if separator not in "," and any("decimal commas" in line for line in decisions.lines()):
        # Where commas are before decimals, points are between thousands: 1.234 was no fraction.
        written = _parsed(text, separator, str)
        for name in floats:
            found = as_numbers(written[name], name, ["decimal commas"], 1.0, decisions)
            frame[name] = found if found.dtype == np.float64 else frame[name]
    return frame, how


def _parsed(text: str, separator: str, dtype: Any) -> pd.DataFrame:
    if not text.strip():
        raise ValueError("the file is empty")
    names = _reading.first_line(text, separator)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame = pd.read_csv(
                io.StringIO(text),
                sep=separator,
                header=0,
                names=names,
                dtype=dtype,
                skipinitialspace=True,
                na_values=["?"],
                # Else the first column would be an index where lines are too long by one.
                index_col=False,
                low_memory=False,
            )
        except pd.errors.ParserWarning as error:
            raise ValueError("lines hold more cells than the first, of names") from error
    return frame.set_axis(pd.Index(names, dtype=object), axis=1)


def as_numbers(
    column: "pd.Series[Any]", name: str, order: Sequence[str], least: float, decisions: Decisions
) -> "pd.Series[Any]":
    """Read text as numbers where so much of it is, in the first of the styles that fits best."""
    text = column.astype(object).where(column.notna()).astype("string").str.strip()
    counts = text.value_counts()
    read = {style: _numbers(counts.index, style) for style in order}
    fits = {style: counts[numbers.notna().to_numpy()].sum() for style, numbers in read.items()}
    style = max(order, key=lambda style: fits[style])
    numbers = read[style].dropna()
    codes = style == "plain" and numbers.nunique() <= MAX_CODES and (numbers % 1 == 0).all()
    if numbers.empty or codes or fits[style] < least * counts.sum():
        return column
    found = text.map(numbers).astype(np.float64)
    if style != "plain" and counts.index.str.contains(r"\D").any():
        decisions.add(name, f"numbers with {style}")
    _note_odd(name, "number", column.notna() & found.isna(), decisions)
    return found


def _numbers(text: "pd.Index[Any]", style: str) -> "pd.Series[Any]":
    """Values of a style by their text, NaN of other text."""
    thousands, decimal = _STYLES[style]
    whole = rf"(?:\d*|[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+)"
    written = rf"(?=[+-]?(?:{decimal})?\d)[+-]?{whole}(?:{decimal}\d*)?(?:[eE][+-]?\d+)?"
    values = text.to_series()
    values = values.where(values.str.fullmatch(written))
    values = values.str.replace(thousands, "", regex=True).str.replace(decimal, ".", regex=True)
    return pd.to_numeric(values).astype(np.float64)


def _as_dates(column: "pd.Series[Any]", name: str, decisions: Decisions) -> "pd.Series[Any]":
    """Turn text into days where nearly all of it is dates, in the order that fits best."""
    counts = column.value_counts()
    dates = counts[counts.index.to_series().astype(str).str.fullmatch(_DATE).to_numpy()]
    if dates.empty or dates.sum() < _NEARLY_ALL * counts.sum():
        return column
    # Of dates as people write them the days count, not the time.
    text = dates.index.to_series(index=range(len(dates))).str.replace(r"[T ].*", "", regex=True)
    sign = re.sub(r"\d", "", text[0])[:1]
    orders = [f"%{a}{sign}%{b}{sign}%{c}" for a, b, c in ("Ymd", "mdY", "dmY")]
    if sign == ".":
        orders.reverse()
    read = {"ISO8601": pd.to_datetime(dates.index, format="ISO8601", errors="coerce", utc=True)}
    read |= {form: pd.to_datetime(text, format=form, errors="coerce", utc=True) for form in orders}
    fits = {form: dates[np.asarray(days.notna())].sum() for form, days in read.items()}
    form = max(read, key=lambda form: fits[form])
    if fits[form] < _NEARLY_ALL * counts.sum():
        return column
    order = {"%d": ", the day first", "%m": ", the month first"}.get(form[:2], "")
    if order and sum(fit == fits[form] for fit in fits.values()) > 1:
        order += " (both orders fit)"
    found = column.map(dict(zip(dates.index, read[form], strict=True)))
    found = _days(pd.to_datetime(found, utc=True), name, order, decisions)
    _note_odd(name, "date", column.notna() & found.isna(), decisions)
    return found


def _note_odd(name: str, what: str, odd: "pd.Series[Any]", decisions: Decisions) -> None:
    rows = [count(int(k) + 1) for k in np.flatnonzero(odd)]
    if rows:
        shown = ", ".join(rows[:_MAX_SHOWN]) + (", …" if len(rows) > _MAX_SHOWN else "")
        values = plural(len(rows), f"value that is no {what}", f"values that are no {what}s")
        where = "row" if len(rows) == 1 else "rows"
        decisions.add(name, f"{values} read as missing ({where} {shown})")


def _days(
    column: "pd.Series[Any]", name: str, order: str, decisions: Decisions
) -> "pd.Series[Any]":
    earliest = column.min()
    since = "" if pd.isna(earliest) else f" since {earliest.date().isoformat()}"
    decisions.add(name, f"dates{order}, turned into days{since}")
    return ((column - earliest) / _DAY).astype(np.float64)


def typed(frame: pd.DataFrame, nominal: Collection[str], decisions: Decisions) -> pd.DataFrame:
    """Turn every column into numbers (missing: NaN) or text (missing: None).

    Shapes: ``frame`` (n, n_columns); returns (n, n_columns): of float64, int64 and object columns.
    """
    columns = {}
    for name in frame.columns:
        if name in nominal:
            decisions.add(name, "taken as codes, as --nominal says", plain=True)
            columns[name] = text_of(frame[name])
        else:
            columns[name] = _typed(frame[name], name, decisions)
    return pd.DataFrame(columns, index=frame.index, columns=frame.columns)


def _typed(column: "pd.Series[Any]", name: str, decisions: Decisions) -> "pd.Series[Any]":
    kind = pd.api.types
    if kind.is_bool_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype):
        return text_of(column)
    if kind.is_datetime64_any_dtype(column):
        return _days(column, name, "", decisions)
    if kind.is_timedelta64_dtype(column):
        decisions.add(name, "durations, turned into days")
        return column / _DAY
    mixed = ("decimal", "integer", "floating", "mixed-integer-float")
    numeric = kind.is_numeric_dtype(column) and not kind.is_complex_dtype(column)
    if not numeric and kind.infer_dtype(column, skipna=True) not in mixed:
        return _as_dates(text_of(column), name, decisions)
    values = column.where(column.notna(), np.nan).astype(np.float64)
    if infinite := int(np.isinf(values).sum()):
        decisions.add(name, f"{plural(infinite, 'infinite value')} read as missing")
    values = values.where(np.isfinite(values))
    exact = kind.is_integer_dtype(column) and bool((values.abs() < 2.0**53).all())
    return values.astype(np.int64) if exact else values


def row_counters(frame: pd.DataFrame) -> set[str]:
    """Columns that count the records up or down by one, as an index that was saved does."""
    whole = frame.select_dtypes("int64").diff().dropna()
    return {name for name in whole if len(whole) > 1 and set(whole[name]) in ({1.0}, {-1.0})}


def usable(
    frame: pd.DataFrame, sensitive: str | None, counters: Collection[str], decisions: Decisions
) -> tuple[list[str], list[str]]:
    """Columns that a model can use: numeric, and nominal. The sensitive one always is.

    Shapes: ``frame`` (n, n_columns), as `typed` returns it.
    """
    chosen: dict[bool, list[str]] = {True: [], False: []}
    for name in frame.columns:
        column = frame[name]
        numeric = column.dtype != object
        why = "it counts the records" if name in counters else _useless(column, numeric)
        why = "" if name == sensitive else why
        if why:
            decisions.add(name, f"dropped, as {why}")
            continue
        chosen[numeric].append(name)
        (_note_numbers if numeric else _note_names)(column, name, decisions)
        if re.fullmatch(IDENTIFIER, name) and MAX_CODES < column.nunique() < column.count():
            decisions.add(name, "repeats: if it names persons, pass it to --person")
    return chosen[True], chosen[False]


def _useless(column: "pd.Series[Any]", numeric: bool) -> str:
    """Reason why no model can use a column; empty if one can."""
    present = column.dropna()
    distinct, n = present.nunique(), len(present)
    if distinct + (not numeric and n < len(column)) < 2:
        one = f"every record has {shorten(present.iloc[0], 20)!r}" if n else ""
        return one or "all values are missing"
    if numeric:
        return ""
    written = present.astype(str).str.fullmatch(_WRITTEN).all()
    more = "; if these are numbers or dates, write them as 1234.5 and 2024-03-31" * bool(written)
    if distinct == n and n > 2:
        named = "; to find records again by it, pass it to --id" * (n == len(column))
        return f"it differs in every record and names it{more}{named}"
    if distinct > MAX_LEVELS and distinct > 0.5 * n:
        return (
            f"it names the record: {count(distinct)} different values of {count(n)}{more}; if some "
            "records are of one person, pass it to --person"
        )
    return ""


def _note_numbers(column: "pd.Series[Any]", name: str, decisions: Decisions) -> None:
    missing, values = int(column.isna().sum()), column.dropna()
    # Days and the like are no codes.
    whole = name not in decisions.made and bool((np.mod(values, 1) == 0).all())
    decisions.add(name, "numbers, standardized", plain=True)
    if missing:
        decisions.add(name, f"{plural(missing, 'missing value')} replaced by the median")
    distinct = values.nunique()
    if whole and 2 < distinct <= MAX_CODES:
        decisions.add(name, "few whole numbers: if they are codes, pass them to --nominal")
    if whole and distinct == len(values):
        decisions.add(name, "all differ: if they identify records, pass them to --drop")


def _note_names(column: "pd.Series[Any]", name: str, decisions: Decisions) -> None:
    missing = int(column.isna().sum())
    levels = column.nunique() + (missing > 0)
    decisions.add(name, f"{plural(levels, 'level')}, one-hot, the first dropped", plain=True)
    if levels > MAX_LEVELS:
        decisions.add(name, f"all but the {MAX_LEVELS - 1} most frequent of {levels} levels merged")
    if missing:
        decisions.add(name, f"{count(missing)} missing are a level of their own")
