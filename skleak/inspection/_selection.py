"""What is asked about: raw columns, blocks of them by name, and the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skleak.adversary.knowledge import MAX_VALUES, column_names
from skleak.inspection._columns import RawColumn, read_column, value_codes
from skleak.inspection._pipeline import Inspected
from skleak.utils._features import (
    TARGET,
    feature_labels,
    is_single_feature,
    is_target,
    resolve_features,
)
from skleak.utils._typing import FloatArray, IntArray


@dataclass(frozen=True)
class RawBlock:
    """Several raw columns, asked about together. Confidential."""

    label: Any  # Its name
    columns: tuple[RawColumn, ...]
    is_number: bool  # Whether all of them are numbers; else their joint values are told apart
    codes: IntArray  # Which of the joint values each record has; empty for numbers, (n,)
    carriers: IntArray  # A record with each joint value; empty for numbers, (n_values,)
    note: str = ""

    @property
    def kind(self) -> str:
        """Name of the kind in the table."""
        return "numbers" if self.is_number else "values"

    @property
    def parts(self) -> tuple[RawColumn, ...]:
        """Its columns; of numbers, those that the model may see."""
        return self.columns

    @property
    def n_values(self) -> float:
        """Number of joint values that are told apart; NaN for numbers."""
        return float("nan") if self.is_number else float(len(self.carriers))

    @property
    def sd(self) -> float:
        """Unit of numbers: each counts in its standard deviation."""
        return 1.0 if self.is_number else float("nan")

    @property
    def shares(self) -> FloatArray:
        """Share of the records that have the joint value of each; NaN for numbers, (n,)."""
        if self.is_number:
            return np.full(len(self.columns[0].shares), np.nan)
        return np.asarray(np.bincount(self.codes)[self.codes] / len(self.codes))


@dataclass(frozen=True)
class Target:
    """The target of the model. Confidential."""

    y: FloatArray  # As the model has it: numbers, or codes of the labels, (n,)
    classes: int  # Number of labels; 0 for a number
    label: Any
    note: str = ""
    parts: tuple[RawColumn, ...] = ()

    @property
    def is_number(self) -> bool:
        """True for the target of a regressor."""
        return self.classes == 0

    @property
    def kind(self) -> str:
        """Name of the kind in the table."""
        return "number" if self.is_number else "values"

    @property
    def n_values(self) -> float:
        """Number of labels; NaN for a number."""
        return float("nan") if self.is_number else float(self.classes)

    @property
    def sd(self) -> float:
        """Standard deviation of a number."""
        return float(np.std(self.y)) if self.is_number else float("nan")

    @property
    def mean(self) -> float:
        """Mean of a number."""
        return float(np.mean(self.y))

    @property
    def shares(self) -> FloatArray:
        """Share of the records that have the label of each, of shape (n,); NaN for a number."""
        if self.is_number:
            return np.full(len(self.y), np.nan)
        codes = self.y.astype(np.intp)
        return np.asarray(np.bincount(codes)[codes] / len(codes))


# What a row of the table is about.
Unknown = RawColumn | RawBlock | Target

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

    def column(j: int) -> RawColumn:
        return read_column(data, j, nominal=j in codes, refit=refit)

    found: list[Unknown] = []
    for positions, label in items:
        if not len(positions):
            found.append(_target(data, label))
        elif len(positions) == 1:
            found.append(replace(column(int(positions[0])), label=label))
        else:
            found.append(_block(label, tuple(map(column, positions.tolist()))))
    return found


def _target(data: Inspected, label: Any) -> Target:
    if data.facts is not None:
        found: Target = data.facts.of_target(data, label)
        return found
    classes = getattr(data.model, "classes_", ())
    return Target(data.state.objective.y, len(classes), label)


def _block(label: Any, columns: tuple[RawColumn, ...]) -> RawBlock:
    """Numbers together, or joint values."""
    numbers = tuple(column for column in columns if column.is_number)
    values = [column for column in columns if not column.is_number and len(column.carriers) > 1]
    none = np.zeros(0, dtype=np.intp)
    if numbers and not values:
        return RawBlock(label, numbers, True, none, none)
    if numbers:
        raise ValueError(
            f"The block {label!r} mixes numbers ({[c.label for c in numbers][:5]}) with columns of "
            f"few values ({[c.label for c in values][:5]}), for which there is no common unit. "
            "Ask for them one by one, or name the numbers in `nominal`."
        )
    if any(hasattr(column, "facts") for column in columns):  # some records alone are in memory
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
    notes = {column.note for column in columns if column.note}
    return RawBlock(label, columns, False, codes, first, "; ".join(sorted(notes)))
