"""From a table as it was read to a model, its training records and what is secret in them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.adversary.knowledge import MAX_VALUES, find_secret
from skleak.cli._columns import (
    MAX_LEVELS,
    Decisions,
    choose,
    missing_label,
    row_counters,
    text_of,
    typed,
)
from skleak.cli._models import own_columns, predicts_classes
from skleak.cli._reading import resolve_column
from skleak.cli._targets import Target, read_target
from skleak.plotting.labels import count, number, plural, shorten
from skleak.utils._typing import Array

# More values than this are counted, not listed.
_N_LISTED = 8


@dataclass(frozen=True)
class Prepared:
    """Model, table and target of an audit. Confidential."""

    X: pd.DataFrame  # Training records and their targets, (n, n_columns)
    y: Array
    X_test: "pd.DataFrame | None"  # Records held out; None where there are none
    y_test: "Array | None"
    # Unfitted; None where the model of the user takes the columns as they are
    preprocessing: "ColumnTransformer | None"
    sensitive: str | None  # Column that attackers are after, or None
    n_values: int  # Candidate values of it; 0 for a quantity or whole records
    target: Target  # What is predicted
    notes: tuple[str, ...]  # What the columns are taken for, a line each
    decisions: tuple[str, ...]  # What was decided on them, a line each


def prepare(
    frame: pd.DataFrame,
    *,
    target: str,
    sensitive: str | None,
    drop: Sequence[str],
    nominal: Sequence[str],
    model: str,
    test_size: float,
    seed: int,
    membership: bool = False,
    identity: str | None = None,
    own: Any = None,
) -> Prepared:
    """Choose a model, turn columns into what it can use, and hold out records.

    Shapes: ``frame`` (n, n_columns). Tables keep in their index what records are called by. A model
    of the user's, `own`, gets columns as they are read where it takes them by name or prepares them
    itself.
    """
    frame = _named_records(frame, identity, target, sensitive)
    target, sensitive, left_out, codes = _resolve(frame, target, sensitive, drop, nominal)
    frame = frame.drop(columns=left_out)
    decisions, notes = Decisions(), []
    for name in left_out:
        decisions.add(name, "left out, as --drop says")
    answer, rows = _target(frame.pop(target), target, model, own)
    whole = sensitive is None and not membership
    if whole and answer.classes and len(np.unique(answer.values)) > 2:
        raise ValueError(
            f"--sensitive: name a column. Whole records are reconstructed from models of numbers "
            f"or of two classes, and {target!r} has more than two"
        )
    notes += [answer.note, *_dropped(len(frame), rows, target)]
    raw = None if own is None else own_columns(own, frame, sensitive)
    if raw is not None and codes:
        raise ValueError(
            "--nominal is of columns that are prepared here; the model prepares its own. Leave it "
            "out"
        )
    table = typed(frame, codes, decisions) if raw is None else frame[raw]
    counters = row_counters(table)
    table, values = table[rows], answer.values
    if sensitive is not None:
        kept = _kept(table[sensitive]) if raw is None else table[sensitive].notna().to_numpy()
        notes += _dropped(len(table), kept, sensitive)
        table, values = table[kept], values[kept]
    answer.check(values, target)
    transformers = None
    if raw is None:
        table, transformers = _usable(table, sensitive, counters, decisions)
    else:
        for name in raw:
            decisions.add(name, "as it was read, for the model to prepare")
    X, y, X_test, y_test = _split(table, values, answer.classes, test_size, seed)
    n_values = 0
    if sensitive is not None:
        _check_varies(table[sensitive], X[sensitive])
        n_values, note = _study(X, sensitive)
        notes.append(note)
    notes.append(_split_note(X, X_test))
    messages = (tuple(notes), decisions.lines())
    return Prepared(X, y, X_test, y_test, transformers, sensitive, n_values, answer, *messages)


def _named_records(
    frame: pd.DataFrame, identity: str | None, target: str, sensitive: str | None
) -> pd.DataFrame:
    """Put what records are called by into the index: a column, or their number in the file."""
    if identity is None:
        numbers = pd.RangeIndex(1, len(frame) + 1, name="number in the file, the first is 1")
        return frame.set_axis(numbers, axis=0)
    name = resolve_column(frame, identity, "--id")
    for option, other in (("--target", target), ("--sensitive", sensitive)):
        if other is not None and resolve_column(frame, other, option) == name:
            raise ValueError(f"--id and {option} name the same column, {name!r}. Take two columns")
    labels = text_of(frame[name])
    if missing := int(labels.isna().sum()):
        raise ValueError(
            f"--id: {name!r} is empty for {plural(missing, 'record')}. Name a column that tells "
            "all records apart"
        )
    if labels.duplicated().any():
        raise ValueError(
            f"--id: {name!r} has {count(labels.nunique())} different values for "
            f"{plural(len(frame), 'record')}. Name a column that tells all records apart"
        )
    return frame.drop(columns=name).set_axis(pd.Index(labels, name=name), axis=0)


def _target(column: "pd.Series[Any]", name: str, model: str, own: Any) -> tuple[Target, Array]:
    """Read the target as a model of ours or of the user's takes it."""
    if own is None:
        return read_target(column, name, model)
    kinds = {True: "logistic", False: "linear", None: "auto"}
    return read_target(column, name, kinds[predicts_classes(own)], type(own).__name__)


def _usable(
    table: pd.DataFrame, sensitive: str | None, counters: Collection[str], decisions: Decisions
) -> tuple[pd.DataFrame, ColumnTransformer]:
    """Columns that a model can use, and what turns them into numbers."""
    numeric, categories = choose(table, sensitive, counters, decisions)
    if not numeric + categories:
        why = "; ".join(decisions.lines())
        raise ValueError(f"no column is left for the model to use ({why}). Add columns that vary")
    chosen = _named_missing(table[numeric + categories], categories)
    return chosen, _transformers(numeric, categories)


def _resolve(
    frame: pd.DataFrame,
    target: str,
    sensitive: str | None,
    drop: Sequence[str],
    nominal: Sequence[str],
) -> tuple[str, str | None, list[str], set[str]]:
    target = resolve_column(frame, target, "--target")
    if sensitive is not None:
        sensitive = resolve_column(frame, sensitive, "--sensitive")
    left_out = list(dict.fromkeys(resolve_column(frame, name, "--drop") for name in drop))
    codes = {resolve_column(frame, name, "--nominal") for name in nominal}
    if target == sensitive:
        raise ValueError(
            f"--sensitive is the target itself, {target!r}. An attacker is taken to know the "
            "target: name another column"
        )
    for option, name in (("--target", target), ("--sensitive", sensitive)):
        if name in left_out:
            raise ValueError(f"--drop would leave out {name!r}, which {option} names")
    return target, sensitive, left_out, codes - {target, *left_out}


def _dropped(n: int, kept: Array, name: str) -> list[str]:
    missing = n - int(np.sum(kept))
    if not missing:
        return []
    return [f"Left out: {plural(missing, 'record')} without `{shorten(name, 40)}`."]


def _kept(column: "pd.Series[Any]") -> Array:
    """Choose records by a sensitive column: missing names are a value, missing numbers are not."""
    every = np.ones(len(column), dtype=bool)
    return every if column.dtype == object else column.notna().to_numpy()


def _named_missing(table: pd.DataFrame, nominal: Sequence[str]) -> pd.DataFrame:
    table = table.copy()
    for name in nominal:
        column = table[name]
        table[name] = column.where(column.notna(), missing_label(column)).astype(object)
    return table


def _split(
    table: pd.DataFrame, values: Array, classes: bool, test_size: float, seed: int
) -> tuple[pd.DataFrame, Array, "pd.DataFrame | None", "Array | None"]:
    n_test = round(test_size * len(table))
    if n_test < 2:
        return table, values, None, None
    counts = np.unique(values, return_counts=True)[1] if classes else np.zeros(1)
    stratify = values if counts.min() >= 2 and n_test >= len(counts) else None
    train, test = train_test_split(
        np.arange(len(table)), test_size=n_test, random_state=seed, stratify=stratify
    )
    train, test = np.sort(train), np.sort(test)
    return table.iloc[train], values[train], table.iloc[test], values[test]


def _split_note(X: pd.DataFrame, X_test: "pd.DataFrame | None") -> str:
    if X_test is None:
        return f"Trained and audited on all {plural(len(X), 'record')}, and scored on them."
    return (
        f"Trained and audited on {plural(len(X), 'record')}; scored on "
        f"{count(len(X_test))} held out at random."
    )


def _check_varies(column: "pd.Series[Any]", trained_on: "pd.Series[Any]") -> None:
    """Refuse a sensitive column of one value, and say where it has but one."""
    if trained_on.nunique() >= 2:
        return
    shown = f"--sensitive: {column.name!r} has a single value"
    if column.nunique() < 2:
        raise ValueError(f"{shown}: there is nothing to infer. Name another column")
    raise ValueError(
        f"{shown}, in the {count(len(trained_on))} training records, and others only in those held "
        "out. Hold out fewer with --test-size, or another share with --seed"
    )


def _study(X: pd.DataFrame, sensitive: str) -> tuple[int, str]:
    """Return the number of candidate values, and what the column is taken for."""
    column, name = X[sensitive], shorten(sensitive, 40)
    distinct = column.nunique()
    if column.dtype == object and distinct > MAX_VALUES:
        raise ValueError(
            f"--sensitive: {sensitive!r} has {count(distinct)} different values; expected at most "
            f"{MAX_VALUES}. Group rare ones in the file, or name another column"
        )
    values = find_secret(X, sensitive).values
    if values is None:
        low, high = (number(end) for end in (column.min(), column.max()))
        return 0, f"Sensitive: `{name}`, a quantity from {low} to {high}."
    shown = ", ".join(shorten(value, 20) for value in values[:_N_LISTED])
    more = len(values) - _N_LISTED
    shown += f" and {more} more" if more > 0 else ""
    return len(values), f"Sensitive: `{name}`, {len(values)} values ({shown})."


def _transformers(numeric: list[str], nominal: list[str]) -> ColumnTransformer:
    scale: Pipeline = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    encode = OneHotEncoder(
        drop="first",
        max_categories=MAX_LEVELS,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
    parts = [("numbers", scale, numeric), ("names", encode, nominal)]
    return ColumnTransformer([part for part in parts if part[2]])
