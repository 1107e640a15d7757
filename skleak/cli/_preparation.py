"""From a table as it was read to a model, its training records and what is secret in them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skleak.adversary.knowledge import find_secret
from skleak.cli._columns import MAX_LEVELS, Decisions, row_counters, text_of, typed, usable
from skleak.cli._models import own_columns, predicts
from skleak.cli._options import Audit
from skleak.plotting.labels import plural
from skleak.utils._typing import Array

_CALLED = {"linear": "linear regression", "logistic": "logistic regression"}
_CALLED |= {"poisson": "Poisson regression"}
# More classes than this are more likely names or numbers than classes.
_MOST_CLASSES = 32


@dataclass(frozen=True)
class Prepared:
    """Model, table and target of an audit. Confidential."""

    # Training records and their targets, (n, n_columns) and (n,), and those held out, if any; the
    # index is what records are called by.
    X: pd.DataFrame
    y: Array
    X_test: "pd.DataFrame | None"
    y_test: "Array | None"
    # Unfitted; None where the model of the user takes the columns as they are
    preprocessing: "ColumnTransformer | None"
    model: str  # {"linear", "logistic", "poisson"}: which model predicts such a target
    # Positions of the training records under attack; None where all are
    attacked: "Array | None"
    facts: dict[str, Any]  # What the columns are taken for


def prepare(frame: pd.DataFrame, options: Audit, own: Any, decisions: Decisions) -> Prepared:
    """Choose a model, turn columns into what it can use, and hold out records.

    Shapes: ``frame`` (n, n_columns). A model of the user's, `own`, gets columns as they are read
    where it takes them by name or prepares them itself.
    """
    target, sensitive, person = options.target, options.sensitive, options.person
    frame = _named_records(frame, options.id)
    persons = None if person is None else _filled(frame.pop(person), "--person")
    for name in (left_out := list(dict.fromkeys(options.drop))):
        decisions.add(name, "left out, as --drop says", plain=True)
    frame = frame.drop(columns=left_out)
    kind = options.model if own is None else predicts(own)
    model, values, rows, facts = read_target(frame.pop(target), kind, own)
    values, whole = values[rows], sensitive is None and not options.membership
    if whole and model == "logistic" and len(pd.unique(values)) > 2:
        raise ValueError(
            "--sensitive: name a column. Whole records are reconstructed from models of numbers or "
            f"of two classes, and {target!r} has more than two"
        )
    codes = set(options.nominal) & set(frame.columns)
    raw = None if own is None else own_columns(own, frame, sensitive)
    if raw is not None and codes:
        raise ValueError("--nominal: leave it out, as the model prepares its own columns")
    table = typed(frame, codes, decisions) if raw is None else frame[raw]
    counters, table = row_counters(table), table[rows]
    left = {target: int(np.sum(~rows))}
    if sensitive is not None and (raw is not None or table[sensitive].dtype != object):
        # Missing names are a value, missing numbers are not.
        kept = table[sensitive].notna().to_numpy()
        left[sensitive] = int(np.sum(~kept))
        table, values = table[kept], values[kept]
    if len(values) < 2 or len(pd.unique(values)) < 2:
        raise ValueError(
            f"--target: {target!r} has a single value in all {len(values)} records that hold all "
            "that is needed. Name another column"
        )
    transformers = None
    if raw is None:
        numeric, nominal = usable(table, sensitive, counters, decisions)
        if not numeric + nominal:
            raise ValueError(f"no column is left for the model: {'; '.join(decisions.lines())}")
        table = table[numeric + nominal]
        table = table.assign(**{name: table[name].fillna("missing") for name in nominal})
        transformers = _transformers(numeric, nominal)
    for name in raw or ():
        decisions.add(name, "as it was read, for the model to prepare", plain=True)
    if persons is not None:
        table = table.assign(**{str(person): persons[table.index]})
    train, test = _split(table, values, model, options)
    X = table.iloc[train]
    X_test, y_test = (table.iloc[test], values[test]) if len(test) else (None, None)
    facts |= {"left_out": {name: n for name, n in left.items() if n}, "n": len(X)}
    facts |= {"n_test": len(test), "sensitive": sensitive, "person": person}
    if sensitive is not None:
        facts |= _secret_facts(X, sensitive)
    whose = X.index if person is None else X[person]
    if person is not None:
        facts |= {"n_persons": whose.nunique(), "most": whose.value_counts().max()}
    attacked = _sample(np.asarray(whose), options)
    y = values[train]
    return Prepared(X, y, X_test, y_test, transformers, model, attacked, facts)


def _secret_facts(X: pd.DataFrame, sensitive: str) -> dict[str, Any]:
    """Return the values of the sensitive column; their range if they are many."""
    column = X[sensitive]
    if column.nunique() < 2:
        raise ValueError(
            f"--sensitive: {sensitive!r} has a single value in the training records: there is "
            "nothing to infer. Name another column, or hold out fewer with --test-size"
        )
    values = find_secret(X, sensitive).values
    ends = {"low": column.min(), "high": column.max()} if values is None else {}
    return {"values": values} | ends


def _named_records(frame: pd.DataFrame, identity: str | None) -> pd.DataFrame:
    """Put what records are called by into the index: a column, or their number in the file."""
    if identity is None:
        numbers = pd.RangeIndex(1, len(frame) + 1, name="number in the file, the first is 1")
        return frame.set_axis(numbers, axis=0)
    labels = _filled(frame[identity], "--id")
    if labels.duplicated().any():
        raise ValueError(
            f"--id: {identity!r} has {labels.nunique()} different values for {len(frame)} records. "
            "Name a column that tells all records apart; what names persons is for --person"
        )
    return frame.drop(columns=identity).set_axis(pd.Index(labels, name=identity), axis=0)


def _filled(column: "pd.Series[Any]", option: str) -> "pd.Series[Any]":
    """Text of a column that names all records."""
    labels = text_of(column)
    if missing := int(labels.isna().sum()):
        raise ValueError(
            f"{option}: {column.name!r} is empty for {plural(missing, 'record')}. Fill it, or name "
            "another column"
        )
    return labels


def read_target(
    column: "pd.Series[Any]", model: str, own: Any = None
) -> tuple[str, Array, Array, dict[str, Any]]:
    """Choose a model, and read the target as it takes it; `own` is one of the user's.

    Shapes: ``column`` (n,); returns the name of the model, ``values`` (n,), ``kept`` (n,): records
    that have one; and what was decided.
    """
    # A date has days, a text of numbers is numbers: as for any other column.
    name, decisions = str(column.name), Decisions()
    column = typed(column.to_frame(name), (), decisions)[name]
    kept = column.notna().to_numpy()
    text, distinct = column.dtype == object, column.nunique()
    facts: dict[str, Any] = {"target": name, "why": "", "labels": [], "held": decisions.lines()}
    if model == "auto":
        if distinct < 2:
            raise ValueError(f"--target: {name!r} has fewer than two values. Name another column")
        model = "logistic" if text or distinct == 2 else "linear"
        facts["why"] = "text" if text else f"{'two' if distinct == 2 else 'more than two'} values"
    facts["what"] = what = _CALLED[model] if own is None else type(own).__name__
    if model == "logistic":
        if not 2 <= distinct <= _MOST_CLASSES:
            raise ValueError(
                f"--target: {what} takes a target of 2 to {_MOST_CLASSES} values; {name!r} has "
                f"{distinct}. Take --model linear for numbers, or group them"
            )
        values = (text_of(column) if own is None else column).to_numpy()
        facts["labels"] = np.unique(values[kept]).tolist()
        return model, values, kept, facts
    if text:
        column = column.map({"False": 0.0, "True": 1.0})
        if column.notna().sum() < kept.sum():
            raise ValueError(
                f"--target: {what} takes a target of numbers; {name!r} holds text. Name a numeric "
                "column; text takes --model logistic"
            )
    return model, column.to_numpy(dtype=np.float64), kept, facts


def _sample(whose: Array, options: Audit) -> "Array | None":
    """Draw the records, or the persons, that are attacked: positions of their rows."""
    names = pd.unique(whose)
    if options.max_records is None or options.max_records >= len(names):
        return None
    drawn = np.random.default_rng(options.seed).choice(names, options.max_records, replace=False)
    return np.flatnonzero(np.isin(whose, drawn))


def _split(table: pd.DataFrame, values: Array, model: str, options: Audit) -> tuple[Array, Array]:
    """Rows to train on, and rows held out; those of a person stay together."""
    rows, seed = np.arange(len(table)), options.seed
    n_test = round(options.test_size * len(table))
    if n_test < 2:
        return rows, rows[:0]
    if options.person is not None:
        halves = GroupShuffleSplit(1, test_size=options.test_size, random_state=seed)
        return next(halves.split(table, groups=table[options.person]))
    counts = np.unique(values, return_counts=True)[1] if model == "logistic" else np.zeros(1)
    stratify = values if counts.min() >= 2 and n_test >= len(counts) else None
    train, test = train_test_split(rows, test_size=n_test, random_state=seed, stratify=stratify)
    return np.sort(train), np.sort(test)


def _transformers(numeric: list[str], nominal: list[str]) -> ColumnTransformer:
    scale: Any = make_pipeline(
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
