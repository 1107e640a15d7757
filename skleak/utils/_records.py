"""Records of a table: rows, persons, names of columns."""

import dis
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import wraps
from numbers import Integral
from os import PathLike
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
from scipy import sparse

from skleak.utils._blocks import Blocks, is_frame, is_large
from skleak.utils._typing import Array, Data, FloatArray, IntArray

# What a reference to the target is called among references to columns.
TARGET = "(target)"


def is_target(reference: Any, names: Array | None) -> bool:
    """Return True if a reference means the target, and no column of that name."""
    return (
        isinstance(reference, str)
        and reference == TARGET
        and (names is None or TARGET not in names)
    )


def is_single_feature(feature: Any) -> bool:
    """Return True if a reference names one column rather than a block of them."""
    return isinstance(feature, str | Integral) and not isinstance(feature, bool | np.bool_)


def feature_labels(names: Array | None, n_features: int) -> list[str]:
    """Names of the columns, made up as ``x0, x1, ...`` where the data had none."""
    return [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]


def resolve_features(
    features: Any, names: Array | None, n_features: int, parameter: str = "features"
) -> IntArray:
    """Return the indices of the columns that a reference means.

    Returns (k,): in the order of the reference.
    """
    if isinstance(features, slice):
        indices = np.arange(n_features)[features]
    elif is_single_feature(features):
        indices = np.array([_index(features, names, n_features, parameter)])
    else:
        if not isinstance(features, Sequence) and not (
            hasattr(features, "tolist") and np.ndim(features) > 0
        ):
            raise TypeError(
                f"`{parameter}` must be a name, an index, a slice, a boolean mask or a list of "
                f"names or indices; got {type(features).__name__}."
            )
        listed = list(features)
        if listed and all(isinstance(item, bool | np.bool_) for item in listed):
            if len(listed) != n_features:
                raise ValueError(
                    f"`{parameter}` is a boolean mask of length {len(listed)}, but there are "
                    f"{n_features} columns. Pass one entry per column."
                )
            indices = np.flatnonzero(listed)
        else:
            indices = np.array(
                [_index(item, names, n_features, parameter) for item in listed], dtype=np.intp
            )
    if len(indices) == 0:
        raise ValueError(f"`{parameter}` selects no column. Pass at least one name or index.")
    unique, counts = np.unique(indices, return_counts=True)
    if np.any(counts > 1):
        twice = [feature_labels(names, n_features)[j] for j in unique[counts > 1]]
        raise ValueError(f"`{parameter}` names a column twice: {twice}. Name each once.")
    return indices


def _index(feature: Any, names: Array | None, n_features: int, parameter: str) -> int:
    if isinstance(feature, str):
        return _index_of_name(feature, names, parameter)
    if isinstance(feature, Integral) and not isinstance(feature, bool | np.bool_):
        feature = int(feature)
        if not -n_features <= feature < n_features:
            raise ValueError(
                f"`{parameter}` has the index {feature}, but there are {n_features} columns: "
                f"expected {-n_features} to {n_features - 1}."
            )
        return feature % n_features
    raise TypeError(
        f"`{parameter}` must hold column names or indices; got {feature!r} of type "
        f"{type(feature).__name__}."
    )


def _index_of_name(name: str, names: Array | None, parameter: str) -> int:
    if names is None:
        raise ValueError(
            f"`{parameter}` names the column {name!r}, but the model was fitted on data without "
            "column names. Pass indices, or fit on a DataFrame; inside a Pipeline, call "
            '`set_output(transform="pandas")` on it first.'
        )
    matches = np.flatnonzero(np.asarray(names, dtype=object) == name)
    if len(matches) == 0:
        listed = [str(known) for known in names]
        close = get_close_matches(name, listed, n=3, cutoff=0.4) or listed[:10]
        raise ValueError(
            f"`{parameter}` names the unknown column {name!r}. Expected one of the "
            f"{len(listed)} columns the model was fitted on, for instance {close}."
        )
    return int(matches[0])


F = TypeVar("F", bound=Callable[..., Any])
# Largest number whose square, over all records, is still far from overflow.
_LARGEST = 1e140
_ENCODE = "Encode it, for instance by a OneHotEncoder in a pipeline, or leave it out."
# Numbers that are no small counts: with a point or an exponent, or of four digits and more.
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d{4,})")
_CLASSIFY = "Name a target of numbers, encode it, or fit a classifier."


def row_label(records: Any, position: int) -> str:
    """Name a row for a message: by its label, where the records have an index of their own."""
    index = row_labels(records)
    label = int(position) if index is None else index[position]
    return f"row {label!r}" if isinstance(label, str) else f"row {label}"


def row_labels(records: Any) -> pd.Index | None:
    """Labels of the rows; None where the records have no index of their own."""
    index = getattr(records, "index", None)
    return index if isinstance(index, pd.Index) else None


def label_array(groups: Any) -> Array:
    """Return labels as an array; NumPy alone makes the text "nan" of a label missing in a list."""
    labels = np.asarray(groups.to_numpy() if hasattr(groups, "to_numpy") else groups)
    if labels.dtype.kind == "U" and not hasattr(groups, "dtype"):
        own = np.array(groups, dtype=object)
        return own if pd.isna(own).any() else labels
    return labels


def flat_labels(labels: Array) -> Array:
    """Return labels, (n,), those of several levels joined."""
    if len(labels) and isinstance(labels[0], tuple):
        return np.array([", ".join(map(str, label)) for label in labels], dtype=object)
    return labels


def named(index: pd.Index | None) -> pd.Index | None:
    """Return the labels of rows, or None where they are their positions and name nobody."""
    positions = index is None or index.equals(pd.RangeIndex(len(index)))
    return None if positions else index


def checked_labels(
    groups: Any,
    n: int,
    index: pd.Index | None = None,
    rows: IntArray | None = None,
    name: str = "groups",
) -> Array:
    """Return a group label for each of n records, or for those at some rows; none is missing.

    Labels are taken by position; those of a Series by the index of the records, (n,) or that of
    the rows, None where it holds their positions. Any other Series is refused: a label made up for
    one record may be that of another.
    """
    own, labels = row_labels(groups), label_array(groups)
    if labels.ndim != 1 or (own is None and len(labels) != n):
        raise ValueError(
            f"`{name}` must hold one label per record: expected {n}, or the name of a column; got "
            f"shape {labels.shape}."
        )
    place = _places(own, n, index, rows, name)
    missing = int(pd.isna(labels[place]).sum())
    if missing:
        whose = "each a label of its own" if name == "persons" else "a label, such as 'unknown'"
        raise ValueError(f"`{name}` has {missing} missing labels. Give those records {whose}.")
    return np.asarray(labels[place])


def _places(
    own: pd.Index | None, n: int, index: pd.Index | None, rows: IntArray | None, name: str
) -> IntArray:
    """Return where in a Series with labels ``own`` the label of each record stands."""
    positions = np.arange(n) if rows is None else rows
    if own is None:
        return positions
    own, in_order = own.to_flat_index(), own.equals(pd.RangeIndex(n))
    array = f"Pass an array (`{name}.to_numpy()`) if it is in the order of the records."
    if index is None:
        if in_order:
            return positions
        raise ValueError(
            f"`{name}` is a Series of {len(own)} labels whose index is not that of the records: "
            f"these are known by their positions, 0 to {n - 1}, alone, as their table had no index "
            f"of its own, or a step of a pipeline returned an array. {array}"
        )
    index = index.to_flat_index()
    if rows is None and own.equals(index):
        return positions
    if in_order and not index.isin(own).any():
        return positions
    if not own.is_unique:
        raise ValueError(
            f"`{name}` is a Series whose index holds a label more than once: whose is meant "
            f"is not clear. {array}"
        )
    absent = int((~index.isin(own)).sum())
    if absent:
        raise ValueError(
            f"`{name}` has no label for {absent} of {len(index)} records. Its index must hold the "
            f"labels of the records. {array}"
        )
    return np.asarray(own.get_indexer(index))


def same_numbers(X: Any, Z: Any) -> bool:
    """Return True for two tables of the same numbers, dense, sparse or outside memory, (n, d)."""
    if X is Z or X.shape != Z.shape:
        return X is Z
    if is_large(X) or is_large(Z):
        return not bool((X != Z).any().compute())
    if sparse.issparse(X) or sparse.issparse(Z):
        return bool((sparse.csr_array(X) - sparse.csr_array(Z)).count_nonzero() == 0)
    return np.array_equal(X, Z)


def check_sizes(total: float, largest: FloatArray, largest_target: float, names: Any) -> None:
    """Refuse numbers whose sums of squares overflow, by the sum of the weights and the sizes.

    Shapes: ``largest`` (d,).
    """
    if not total <= _LARGEST:
        raise ValueError(
            f"The sum of the sample weights must be at most {_LARGEST:g}, or sums over the records "
            "overflow. Divide the weights by their mean."
        )
    limit = _LARGEST / np.sqrt(max(1.0, total))
    sizes = np.append(largest, largest_target)
    if np.any(sizes > limit):
        columns = [f"Column {label!r}" for label in feature_labels(names, len(largest))]
        raise ValueError(
            f"{[*columns, 'The target'][int(np.argmax(sizes))]} holds numbers whose squares "
            f"overflow in sums over the records. Expected sizes of at most {limit:.1g}. Scale it, "
            "or drop rows that hold placeholders."
        )


def check_table(table: Any) -> None:
    """Refuse numeric raw columns whose sums of squares overflow; gaps and strings are let through.

    Shapes: ``table`` (n, n_columns).
    """
    frame = pd.DataFrame(table).select_dtypes("number")
    columns = (
        frame.iloc[:, j].to_numpy(np.float64, na_value=np.nan) for j in range(frame.shape[1])
    )
    largest = [np.max(np.abs(column[np.isfinite(column)]), initial=0.0) for column in columns]
    names = frame.columns if isinstance(table, pd.DataFrame) else None
    check_sizes(1.0, np.array(largest), 0.0, names)


@contextmanager
def values_withheld(X: Any, y: Any, name: str = "the target") -> Iterator[None]:
    """Say where records are not valid in place of what they hold, which scikit-learn prints.

    An error that prints it does not stay as the context of the one that is raised: logs print both.
    """
    try:
        yield
    except (OSError, MemoryError):  # of files, and of room
        raise
    except Exception as error:
        quoting = [one for one in _origins(error) if _quotes(one, X, y)]
        repeated = any(str(one).partition("\n")[0] in str(error) for one in quoting)
        # Messages of this library hold no values but those of an error that they repeat.
        is_safe = _is_own(error) and not repeated
        safe = error if is_safe else _without_values(error, X, y, name)
        if safe is error and not quoting:
            raise
        try:
            raise safe from None
        finally:
            safe.__context__ = None


def withholding(method: F) -> F:
    """Wrap a method of ``X`` and ``y``, its first two, to withhold values from what it raises."""

    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        X, y = (
            kwargs.get(name, args[place] if len(args) > place else None)
            for place, name in ((1, "X"), (2, "y"))
        )
        with values_withheld(X, y):
            return method(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


def _without_values(error: Exception, X: Any, y: Any, name: str) -> Exception:
    """Return the error itself where its message holds no value."""
    text = str(error)
    if "could not convert" in text.lower() or "invalid literal for int" in text:
        if where := _first_text(X):
            return ValueError(f"Could not convert {where}. {_ENCODE}")
        where = _first_text(y, name) or "the data to numbers"
        what_to_do = _CLASSIFY if name == "the target" else "Encode it."
        return ValueError(f"Could not convert {where}. {what_to_do}")
    for end in ("\narray=", "\n["):  # the values stand on lines of their own
        start = text.find(end)
        if start >= 0:
            advice = text.find("Reshape your data", start)
            rest = "" if advice < 0 else f" {text[advice:]}"
            return type(error)(f"{text[:start].rstrip(' .:')}.{rest}")
    if "Unknown label type for" in text:
        return type(error)("Unknown label type of the target. Pass classes as integers or text.")
    unknown = re.compile(r"unknown categories .* in column (\S+ during \w+)\.?", re.DOTALL)
    said = unknown.sub(r"unknown categories in column \1; they are withheld.", text)
    if said != text:
        error = type(error)(said)
    if not _quotes(error, X, y):
        return error
    kind = type(error) if type(error) in (ValueError, TypeError, KeyError) else ValueError
    return kind(
        f"The records or {name} are not valid. The message of this {type(error).__name__} is "
        "withheld, as it quotes their values: look for text, dates and nested values among "
        "numbers, and for categories that are not known."
    )


def _origins(error: BaseException) -> list[BaseException]:
    """Return the causes and contexts of an error, and theirs."""
    found: list[BaseException] = []
    left = [error.__cause__, error.__context__]
    while left:
        one = left.pop()
        if one is not None and all(one is not other for other in found):
            found.append(one)
            left += [one.__cause__, one.__context__]
    return found


def _is_own(error: BaseException) -> bool:
    """Return True for an error that this library has raised, and not what it calls.

    Errors of scikit-learn about parameters count as well: they name these and no records.
    """
    said = str(error)
    if type(error).__name__ == "InvalidParameterError":
        return re.match(r"The '(y_true|y_pred|sample_weight|X|y)' parameter", said) is None
    if "user provided categories" in said:
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    module = str(last.tb_frame.f_globals.get("__name__"))
    # What compiled code raises has no frame of its own: then this library has called, not raised.
    opcode = last.tb_frame.f_code.co_code[last.tb_lasti]
    return module.partition(".")[0] == "skleak" and dis.opname[opcode] == "RAISE_VARARGS"


def _quotes(error: BaseException, X: Any, y: Any) -> bool:
    """Return True if what an error says may hold a value of the records.

    Whole numbers of up to three digits are left out: they count rows and columns.
    """
    said = str(error)
    numbers = [float(word) for word in _NUMBER.findall(said)]
    # The path of a table, and the name of a column in it, are no records.
    tables = [table for table in (X, y) if not isinstance(table, str | PathLike)]
    return any(_is_quoted(value, said, numbers) for table in tables for value in _values(table))


def _is_quoted(value: Any, said: str, numbers: Sequence[float]) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, int | float | complex | np.number):
        size = np.abs(value)
        return any(abs(abs(number) - size) <= 1e-3 * size for number in numbers)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    quoted = f"'{text}'" in said or f'"{text}"' in said
    return quoted or (len(text) > 2 and text in said)


def _values(table: Any) -> Iterator[Any]:
    """Yield the different values of records of any kind in memory; nested ones, too."""
    if isinstance(table, pd.DataFrame):
        for j in range(table.shape[1]):
            yield from _values(table.iloc[:, j])
    elif isinstance(table, pd.Series | pd.Index):
        yield from _values(table.to_numpy())
    elif isinstance(table, np.ndarray):
        yield from _values(table.tolist()) if table.dtype == object else np.unique(table).tolist()
    elif sparse.issparse(table):
        yield from np.unique(table.tocoo().data).tolist()
    elif isinstance(table, dict):
        yield from _values([*table.keys(), *table.values()])
    elif isinstance(table, list | tuple | set | frozenset):
        for value in table:
            yield from _values(value)
    elif hasattr(table, "to_numpy") and not is_frame(table):  # of another library, in memory
        yield from _values(table.to_numpy())
    elif isinstance(table, str | bytes | int | float | complex | np.generic | datetime):
        yield table


def _first_text(table: Any, name: str | None = None) -> str | None:
    """Name the first column of a table that is no number somewhere, and the first such row."""
    if table is None or sparse.issparse(table):
        return None
    try:
        frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.array(table, object))
    except ValueError:  # of more than two dimensions
        return None
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        try:
            bad = np.flatnonzero(pd.to_numeric(column, errors="coerce").isna() & ~column.isna())
        except TypeError:  # nested values
            continue
        if len(bad):
            label = frame.columns[j] if isinstance(table, pd.DataFrame) else f"x{j}"
            which = name or f"column {str(label)!r}"
            return (
                f"{which} to numbers: {row_label(table, int(bad[0]))} holds text, the first of "
                f"{len(bad):,} such in {len(frame):,}"
            )
    return None


def row_keys(X: Data, y: FloatArray) -> Array:
    """Return a 64-bit key of every record, equal for equal records.

    Shapes: ``X`` (n, d); ``y`` (n,); returns (n,).
    """

    def hashed(X: FloatArray, y: FloatArray) -> Array:
        # Adding zero turns -0.0 into 0.0, which is equal but has other bits.
        table = pd.DataFrame(np.column_stack([X, y]) + 0.0)
        return pd.util.hash_pandas_object(table, index=False).to_numpy()

    return Blocks.of(X, y).map(hashed)


# Labels that a column must have, and one more, to name persons, and no groups.
_MOST_GROUPS = 10


@dataclass(frozen=True)
class Persons:
    """Rows of a table, person by person: each has at least one."""

    rows: IntArray  # positions, those of one person after those of another, (n_rows,)
    starts: IntArray  # where the rows of each begin, and where the last end, (n_persons + 1,)
    labels: Array | None = None  # (n_persons,)

    @classmethod
    def of(cls, persons: Any, n: int, index: pd.Index | None = None) -> Self:
        """Read the person of each of n rows, in the order of their first rows.

        A Series is read by the labels of the rows, ``index``; anything else by position.
        """
        if isinstance(persons, cls):
            return persons
        codes, labels = pd.factorize(checked_labels(persons, n, index, name="persons"))
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(labels)))])
        return cls(np.argsort(codes, kind="stable"), starts, np.asarray(labels))

    @classmethod
    def single(cls, rows: IntArray) -> Self:
        """Take each row for a person of its own."""
        return cls(rows, np.arange(len(rows) + 1))

    @classmethod
    def attacked(cls, persons: "Persons | None", rows: IntArray) -> "Persons":
        """Return whoever has some of the rows, with all of theirs; without persons the rows."""
        return cls.single(rows) if persons is None else persons.take(persons.having(rows))

    @property
    def is_single(self) -> bool:
        """True if each has one row."""
        return len(self.rows) == len(self)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> IntArray:
        """Number of rows of each, (n_persons,)."""
        return np.diff(self.starts)

    @property
    def first(self) -> IntArray:
        """First row of each, (n_persons,)."""
        return self.rows[self.starts[:-1]]

    @property
    def codes(self) -> IntArray:
        """Position of the person of each of `rows`, (n_rows,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def places(self, which: IntArray) -> IntArray:
        """Return where in `rows` those of some stand, (b, k), -1 where one has fewer."""
        sizes = self.sizes[which][:, None]
        steps = np.arange(sizes.max(initial=0))
        return np.where(steps < sizes, self.starts[which][:, None] + steps, -1)

    def take(self, which: IntArray) -> Self:
        """Return some of them, by position."""
        places = self.places(which)
        starts = np.concatenate([[0], np.cumsum(self.sizes[which])])
        labels = None if self.labels is None else self.labels[which]
        return replace(self, rows=self.rows[places[places >= 0]], starts=starts, labels=labels)

    def having(self, rows: IntArray) -> IntArray:
        """Return the positions of those who have some of the rows, ascending."""
        return np.unique(self.codes[np.isin(self.rows, rows)])

    def among(self, rows: IntArray) -> Self:
        """Return those that have some of the rows, with these, by their positions in ``rows``."""
        place = np.full(max(self.rows.max(initial=-1), rows.max(initial=-1)) + 1, -1)
        place[rows] = np.arange(len(rows))
        inside = place[self.rows] >= 0
        kept = np.unique(self.codes[inside])
        sizes = np.bincount(self.codes[inside], minlength=len(self))[kept]
        labels = None if self.labels is None else self.labels[kept]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return replace(self, rows=place[self.rows[inside]], starts=starts, labels=labels)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum over the rows of each what is given of `rows`, (n_rows, ...); (n_persons, ...)."""
        return np.add.reduceat(values, self.starts[:-1], axis=0)

    def blocks(self, width: int, elements: int) -> Iterator[IntArray]:
        """Yield some at a time, of like sizes, with tables of at most so many entries.

        ``width`` are the entries for each row. Whoever has more is alone.
        """
        order = np.argsort(self.sizes, kind="stable")
        sizes, start = self.sizes[order], 0
        while start < len(order):
            stop = int(np.searchsorted(sizes, 2 * sizes[start], side="right"))
            stop = min(stop, start + max(1, elements // max(1, 2 * int(sizes[start]) * width)))
            yield np.sort(order[start:stop])
            start = stop


# How a column is called whose values name persons, or cases of theirs.
IDENTIFIER = r"(?i:(?:^|.*[\W_])(?:id|identifier|person|patient|subject|customer|user))|.*[a-z]ID"


def repeated_rows(table: Any, y: Any) -> dict[str, Any]:
    """Count rows that may be of persons with several: of one identifier, or equal ones.

    An identifier is a column that is called one, or the index, if it has many different labels.

    Shapes: ``table`` (n, n_columns); ``y`` (n,); returns ``rows``, how many occur more than once,
    ``by`` a column, "index" or "equal rows"; empty where there are none.
    """
    frame = pd.DataFrame(table)
    names = [name for name in frame.columns if re.fullmatch(IDENTIFIER, str(name))]
    labels = [(str(name), frame[name].dropna()) for name in names]
    labels.append((str(frame.index.name or "index"), pd.Series(frame.index.to_flat_index())))
    for name, own in labels:
        rows = int(own.duplicated(keep=False).sum())
        if rows and own.nunique() > _MOST_GROUPS:
            return {"rows": rows, "by": name}
    frame = frame.set_axis(range(frame.shape[1]), axis=1).reset_index(drop=True)
    frame[frame.shape[1]] = np.asarray(y)
    try:
        rows = int(frame.duplicated(keep=False).sum())
    except TypeError:  # values that cannot be compared
        return {}
    return {"rows": rows, "by": "equal rows"} if rows else {}
