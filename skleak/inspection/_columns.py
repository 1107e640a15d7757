"""What is asked about: columns of the raw records, blocks of them, and the target."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from skleak.adversary.knowledge import (
    MAX_VALUES,
    column_names,
    is_quantity,
    raw_column,
    spread_left,
    take_rows,
    with_attribute,
)
from skleak.influence.jacobian import Columns
from skleak.influence.leakage import leakage_model
from skleak.influence.refit import target_encodings
from skleak.influence.state import FitState
from skleak.inspection._pipeline import Inspected, separations
from skleak.inspection._slopes import STEP, flat_records
from skleak.report.unknowns import ColumnFacts, real_numbers
from skleak.utils._blocks import row_blocks
from skleak.utils._records import (
    TARGET,
    Persons,
    feature_labels,
    is_single_feature,
    is_target,
    resolve_features,
)
from skleak.utils._typing import Array, BoolArray, FloatArray, IntArray

_ELEMENTS = 1 << 22
# Records at which it is tried out which numbers are encoded alike.
_N_TRIED = 8
# Digits to which encoded records are the same; rounding depends on the place of a row.
_DIGITS = 10
# Notes on a column.
ONE_VALUE = "all records have the same value"
BINNED = "the preprocessing bins or rounds it"
DROPPED = "the preprocessing drops it"


def _none() -> IntArray:
    return np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Unknown:
    """A raw column, several of them asked about together, or the target. Confidential."""

    label: Any  # Its name, or its position where it has none
    # "number", which is differentiated; "numbers", a block of them; "values", which are told apart
    kind: str
    # Share of the records that have the value of each; NaN for numbers, (n,)
    shares: FloatArray
    n_values: float = np.nan  # Number of values that are told apart; NaN for numbers
    sd: float = np.nan  # Standard deviation; 1 for a block, whose numbers count in their own
    step: float = np.nan  # How much lower and higher a number is that it is held against
    mean: float = np.nan
    note: str = ""  # What should be known of it
    index: int = -1  # Position of a column; -1 for blocks and the target
    columns: tuple["Unknown", ...] = ()  # of a block
    # Numbers, NaN where one is missing, or labels by their codes, for the target; None for others,
    # (n,)
    numbers: FloatArray | None = None
    codes: IntArray = field(
        default_factory=_none
    )  # Which of the values each record has; empty for numbers, (n,)
    carriers: IntArray = field(default_factory=_none)  # A record with each value, (n_values,)
    # What numbers have to stay within, as the preprocessing refuses others, and the ends of all
    limits: tuple[float, float] = (-np.inf, np.inf)
    range: tuple[float, float] = (-np.inf, np.inf)

    @property
    def is_number(self) -> bool:
        """Return True if it is differentiated; else its values are told apart."""
        return self.kind != "values"

    @property
    def is_target(self) -> bool:
        """Return True for the target."""
        return self.index < 0 and not self.columns

    @property
    def parts(self) -> tuple["Unknown", ...]:
        """Its raw columns; none for the target."""
        return self.columns if self.index < 0 else (self,)

    @property
    def floats(self) -> FloatArray:
        """The numbers of a column that holds some, NaN where they are missing, of shape (n,)."""
        assert self.numbers is not None
        return self.numbers


def read_column(
    data: Inspected, index: int, *, nominal: bool = False, refit: bool = False
) -> Unknown:
    """Decide what a raw column is.

    Under ``nominal`` numbers are codes, too. Numbers that the fitted transformers bin or round are
    one of a few values; under ``refit`` those that are binned alike differ by the bins that they
    make, and those that are dropped may decide on what is.
    """
    names = getattr(data.table, "columns", None)
    label = int(index) if names is None else names[index]
    column = raw_column(data.table, index)
    facts = None if data.facts is None else data.facts.columns[index]
    codes, first = value_codes(column, facts)
    numbers = real_numbers(column)
    if column.dtype == object and np.all(pd.isna(column)):
        numbers = None
    plain = Unknown(label, "number", np.full(len(column), np.nan), index=index, numbers=numbers)
    plain = replace(plain, **_moments(numbers, facts, data.counted))

    def told_apart(codes: IntArray, first: IntArray, note: str = "") -> Unknown:
        counts = np.bincount(codes)
        if facts is not None:
            counts = np.bincount(codes[facts.first], facts.counts)
        shares = counts[codes] / (len(codes) if facts is None else facts.n)
        return replace(
            plain,
            kind="values",
            codes=codes,
            carriers=first,
            n_values=float(len(first)),
            shares=shares,
            note=note,
        )

    if len(first) == 1:
        return told_apart(codes, first, ONE_VALUE)
    many, note = facts is not None and facts.values is None, ""
    if not nominal and numbers is not None and _is_number(numbers, facts):
        number = replace(plain, step=plain.sd * float(data.left[index]))
        for limits in (number.limits, number.range):
            number = replace(number, limits=limits)
            with suppress(ValueError):  # the preprocessing refuses the numbers that it is given
                if not is_flat(data, number):
                    return number
                break
        if many:
            raise _too_many(label, "more")
        merged, carriers = alike(data, number, codes, first)
        if refit and len(carriers) == 1:
            return number
        note = BINNED if len(carriers) > 1 else DROPPED
        if not refit or len(first) > MAX_VALUES:
            codes, first = merged, carriers
    if many or len(first) > MAX_VALUES:
        raise _too_many(label, "more" if many else str(len(first)))
    return told_apart(codes, first, note)


def _moments(
    numbers: FloatArray | None, facts: ColumnFacts | None, counted: BoolArray
) -> dict[str, Any]:
    """Mean, standard deviation and ends of a column that holds numbers."""
    known = None if numbers is None else np.isfinite(numbers)
    if facts is not None and facts.moments is not None:
        found = facts.moments
        ends = float(found.smallest[0]), float(found.largest[0])
        return {"sd": float(found.std[0]), "mean": float(found.mean[0]), "range": ends}
    if facts is not None or numbers is None or known is None or not np.any(known):
        return {}
    sd = float(np.std(numbers, where=known & counted))
    ends = float(numbers[known].min()), float(numbers[known].max())
    return {"sd": sd, "mean": float(np.mean(numbers[known])), "range": ends}


def _too_many(label: Any, n: str) -> ValueError:
    return ValueError(
        f"The column {label!r} has too many values to tell apart one by one: {n}, expected at most "
        f"{MAX_VALUES}. Group rare ones, convert numbers stored as text, or leave it out of "
        "`columns`."
    )


def _is_number(numbers: FloatArray, facts: ColumnFacts | None) -> bool:
    if facts is not None:
        return facts.is_quantity
    return is_quantity(np.unique(numbers[np.isfinite(numbers)]), len(numbers))


def value_codes(column: Array, facts: ColumnFacts | None = None) -> tuple[IntArray, IntArray]:
    """Codes (n,) of the values of a column, missing ones alike, and a carrier of each value.

    Where facts are known of all records, the values are theirs: none, where these are many.
    """
    if facts is not None:
        values = np.zeros(0, dtype=object) if facts.values is None else facts.values
        both = np.concatenate([values, column.astype(object)])
        codes = pd.factorize(both, use_na_sentinel=False)[0][len(values) :]
        return codes.astype(np.intp), facts.first
    codes, _ = pd.factorize(column, use_na_sentinel=False)
    return codes, np.unique(codes, return_index=True)[1]


def with_numbers(
    data: Inspected,
    columns: Sequence[Unknown],
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
    data: Inspected, columns: Sequence[Unknown], rows: IntArray, carriers: IntArray | int
) -> FloatArray:
    """Encode records with the values of other records (b,) in some columns, of shape (b, d)."""
    return data.encode(lent(data, columns, data.rows(rows), carriers))


def lent(data: Inspected, columns: Sequence[Unknown], own: Any, carriers: IntArray | int) -> Any:
    """Raw records with the values of other records (b,) in some columns."""
    others = take_rows(data.table, np.broadcast_to(np.asarray(carriers), len(own)))
    changed = own.copy(deep=False) if isinstance(own, pd.DataFrame) else own.copy()
    for index in (column.index for column in columns):
        if isinstance(own, pd.DataFrame):
            changed.isetitem(index, others.iloc[:, index].set_axis(own.index))
        else:
            changed[:, index] = others[:, index]
    return changed


def is_flat(data: Inspected, column: Unknown) -> bool:
    """Return True if the encoded records do not depend on small changes of a number."""
    rows = np.flatnonzero(np.isfinite(column.floats))
    width = data.state.n_features
    for some in row_blocks(len(rows), width, _ELEMENTS):
        own = rows[some]

        def encoded(numbers: FloatArray, which: IntArray, own: IntArray = own) -> FloatArray:
            return with_numbers(data, [column], own[which], [numbers])

        if not np.all(flat_records(encoded, column.floats[own], STEP * column.sd)):
            return False
    return True


def alike(
    data: Inspected, column: Unknown, codes: IntArray, first: IntArray
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


# Positions of the columns of each row of a record, empty for the target, and their labels.
Items = tuple[tuple[IntArray, Any], ...]


def resolved(columns: Any, data: Inspected) -> Items:
    """Resolve ``columns``: None, a reference, a list of references and lists, or a mapping."""
    names, n_columns = column_names(data.table), data.table.shape[1]
    own = getattr(data.table, "columns", None)
    labels = list(range(n_columns)) if own is None else list(own)

    def positions(reference: Any) -> IntArray:
        return resolve_features(reference, names, n_columns, "columns")

    def singles(reference: Any) -> list[tuple[IntArray, Any]]:
        return [(np.array([j]), labels[j]) for j in positions(reference).tolist()]

    target: tuple[IntArray, Any] = (np.zeros(0, dtype=np.intp), TARGET)
    if columns is None:
        items = singles(slice(None))
        return (*items, target) if data.state.private_target else tuple(items)
    if isinstance(columns, Mapping):
        if not columns:
            raise ValueError("`columns` selects no column. Pass at least one name or index.")
        found = [
            target[0] if is_target(some, names) else positions(some) for some in columns.values()
        ]
        return tuple(zip(found, columns, strict=True))
    listed = _listed(columns)
    if listed is None or not any(
        is_target(x, names) or isinstance(x, list | tuple) for x in listed
    ):
        return tuple(singles(columns))
    items = []
    for item in listed:
        if is_target(item, names):
            items.append(target)
        elif isinstance(item, list | tuple):
            items.append(_joined(positions(item), names))
        else:
            items += singles(item)
    return tuple(items)


def _listed(columns: Any) -> list[Any] | None:
    """Return the items of a list of references; None for one reference, a slice or a mask."""
    if isinstance(columns, str):
        return [columns]
    if is_single_feature(columns) or isinstance(columns, slice):
        return None
    is_list = isinstance(columns, Sequence) or (hasattr(columns, "tolist") and np.ndim(columns) > 0)
    return list(columns) if is_list else None


def _joined(positions: IntArray, names: Any) -> tuple[IntArray, Any]:
    known = feature_labels(names, 1 + int(positions.max()))
    return positions, " + ".join(known[j] for j in positions.tolist())


def read(data: Inspected, items: Items, nominal: IntArray, *, refit: bool = False) -> list[Unknown]:
    """Decide what each of the selected columns and blocks is."""
    codes = set(nominal.tolist())

    def column(j: int) -> Unknown:
        return read_column(data, j, nominal=j in codes, refit=refit)

    found: list[Unknown] = []
    for positions, label in items:
        if not len(positions):
            found.append(_target(data, label))
        elif len(positions) == 1:
            found.append(replace(column(int(positions[0])), label=label))
        else:
            found.append(_block(data, label, tuple(map(column, positions.tolist()))))
    return found


def _target(data: Inspected, label: Any) -> Unknown:
    """Read the target as the model has it: numbers, or codes of the labels."""
    n_classes, y = len(getattr(data.model, "classes_", ())), data.state.objective.y
    of_all = None if data.facts is None else data.facts.target
    if n_classes:
        codes = y.astype(np.intp)
        shares = np.bincount(codes)[codes] / len(codes)
        if of_all is not None:
            shares = of_all.shares(y[:, None])
        return Unknown(label, "values", shares, float(n_classes), numbers=y, codes=codes)
    if of_all is not None:
        sd, mean, left = float(of_all.sd[0]), float(of_all.mean[0]), of_all.left
    else:
        known = take_rows(data.table, np.flatnonzero(data.counted)), y[data.counted]
        sd, mean = float(np.std(y, where=data.counted)), float(np.mean(y))
        left = float(spread_left(*known)[-1])
    none = np.full(len(y), np.nan)
    return Unknown(label, "number", none, sd=sd, step=sd * left, mean=mean, numbers=y)


def _block(data: Inspected, label: Any, columns: tuple[Unknown, ...]) -> Unknown:
    """Numbers together, or joint values."""
    numbers = tuple(column for column in columns if column.is_number)
    values = [column for column in columns if not column.is_number and len(column.carriers) > 1]
    if numbers and not values:
        return Unknown(label, "numbers", numbers[0].shares, sd=1.0, columns=numbers)
    if numbers:
        raise ValueError(
            f"The block {label!r} mixes numbers ({[c.label for c in numbers][:5]}) with columns of "
            f"few values ({[c.label for c in values][:5]}), for which there is no common unit. "
            "Ask for them one by one, or name the numbers in `nominal`."
        )
    if data.facts is not None:  # some records alone are in memory
        raise ValueError(
            f"The block {label!r} has joint values, of which all records of a table outside memory "
            "would have to be searched. Ask for its columns one by one."
        )
    joint = np.column_stack([column.codes for column in columns])
    _, codes = np.unique(joint, axis=0, return_inverse=True)
    codes, first = value_codes(codes.ravel())
    if len(first) > MAX_VALUES:
        raise ValueError(
            f"The columns of the block {label!r} have {len(first)} joint values; expected at most "
            f"{MAX_VALUES}, which can be told apart one by one. Ask for them one by one."
        )
    note = "; ".join(sorted({column.note for column in columns if column.note}))
    found = Unknown(label, "values", np.bincount(codes)[codes] / len(codes), float(len(first)))
    return replace(found, note=note, columns=columns, codes=codes, carriers=first)


@dataclass(frozen=True)
class Cells:
    """Leakage of one column of b records. Confidential."""

    # Fisher information loss per unit of a number; NaN for one of few values, (b,)
    loss: FloatArray
    # Largest distance over the noise of two encodings, and of one from that of the own value, (b,)
    distance: FloatArray
    from_own: FloatArray
    notes: Array  # What should be known of each, (b,)

    def noted(self, *masked: tuple[BoolArray | bool, str]) -> "Cells":
        """Return the same with more notes on those that each mask covers."""
        return replace(self, notes=describe(self.notes, *masked))

    @classmethod
    def of_all(cls, parts: Sequence["Cells"], order: IntArray) -> "Cells":
        """Those of several blocks of records, one after the other, in some order."""
        names = ("loss", "distance", "from_own", "notes")
        every = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(*(one[order] for one in every))


def describe(before: int | Array, *masked: tuple[BoolArray | bool, str]) -> Array:
    """Return notes, after those of n records or none, each of those in its mask, of shape (n,)."""
    notes = np.full(before, "", dtype=object) if isinstance(before, int) else before.copy()
    for mask, text in masked:
        more = np.broadcast_to(mask, len(notes)) & bool(text)
        notes[more] = [f"{note}; {text}" if note else text for note in notes[more]]
    return notes


OUTSIDE = "one standard deviation away is no target: the end of the column counts"
REWEIGHTED = "no distances: under a reweighting, what another target does is known to first order"


def target_cells(state: FitState, target: Unknown, persons: Persons, unequal: str) -> Cells:
    """Leakage of the target of some persons, with all transformers held fixed."""
    n = len(persons)
    unequal = unequal or (REWEIGHTED if state.balanced is not None else "")
    loss, pair, from_own = np.full((3, n), np.nan)
    candidates, outside = candidate_targets(state, target, persons.rows)
    if target.is_number:
        batch = state.training.take(persons.rows)
        batch = batch if persons.is_single else state.by_person(persons)
        loss = leakage_model(state).record_loss(batch, Columns(_none(), target=True))
    if not unequal:
        points = target_encodings(state, persons, candidates)
        pair, from_own = separations(state, points, number=target.is_number)
    beyond = persons.sums(np.broadcast_to(outside, len(persons.rows)).astype(float)) > 0.0
    return Cells(loss, pair, from_own, describe(n, (beyond, OUTSIDE), (True, unequal)))


def candidate_targets(state: FitState, target: Unknown, rows: IntArray) -> tuple[FloatArray, Any]:
    """Targets to tell apart, (b, n_values), and where one deviation off is none, (b,)."""
    if not target.is_number:
        labels = np.arange(target.n_values)
        return np.broadcast_to(labels, (len(rows), len(labels))), False
    y = target.floats[rows]
    wanted = np.column_stack([y - target.step, y + target.step])
    if state.objective.loss.quadratic:
        return wanted, False
    allowed = np.maximum(wanted, 0.0)  # counts
    return allowed, np.any(allowed != wanted, axis=1)
