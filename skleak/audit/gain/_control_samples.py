"""Training and control records as an attack is told of them, and its guesses about both."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skleak.adversary.hypotheses import attack_weights
from skleak.adversary.knowledge import (
    Secret,
    column_names,
    raw_column,
    resolve_records,
    secret_of,
    take_rows,
)
from skleak.metrics import attack_success, squared_errors
from skleak.utils._confidential import without_ledger
from skleak.utils._features import is_single_feature, resolve_features
from skleak.utils._predictions import joined
from skleak.utils._typing import Array, FloatArray


@dataclass(frozen=True)
class Side:
    """Records of one kind, which of them are targets, and their sample weights."""

    X: Any
    y: Array
    targets: Any
    weights: FloatArray | None = None


@dataclass(frozen=True)
class Samples:
    """Training and control records, and what an attack is told of both. Confidential."""

    sides: tuple[Side, Side]
    secret: Secret
    spread: float
    shared: dict[str, Any]

    @property
    def values(self) -> Any:
        """Candidate values of both samples, None for a quantity."""
        return self.secret.values

    def play(self, attack: Any, side: Side, model: Any) -> FloatArray:
        """Success of an unfitted attack with every target, (n_models, n_targets)."""
        if side.targets is not None:
            _set(attack, records=side.targets)
        known = attack_weights(attack, sample_weight=side.weights)
        result = attack.fit(side.X, side.y, **known)
        fitted = attack if result is None else result
        if bool(getattr(fitted, "numeric_", self.secret.numeric)) != self.secret.numeric:
            raise ValueError(
                f"The attribute {attack.attribute!r} is a quantity in both samples together, and "
                "one of few values in one of them. Pass more records, or the values to choose "
                "from in the attack's `values`."
            )
        truth = _column(side, self.secret.index)[getattr(fitted, "records_", slice(None))]
        guesses = np.atleast_2d(np.asarray(fitted.predict(model)))
        if self.secret.numeric:
            guesses = np.clip(guesses, self.secret.column.min(), self.secret.column.max())
            return 1.0 - squared_errors(guesses, truth) / self.spread
        return attack_success(guesses, truth).astype(np.float64)

    def play_exchanged(self, attack: Any, model: Any) -> FloatArray:
        """Success with every control record in the place of a training record, likewise."""
        train, control = self.sides
        table = _one_below_another(train.X, control.X)
        y = joined(train.y, control.y)
        n, weights = len(train.y), None
        if train.weights is not None and control.weights is not None:
            weights = np.concatenate([train.weights, control.weights])
        places = resolve_records(train.targets, n)
        tables = []
        for j in range(len(control.y)):
            place = int(places[j % len(places)])
            rows = np.arange(n)
            rows[place] = n + j
            own = None if weights is None else weights[rows]
            exchanged = Side(take_rows(table, rows), y[rows], [place], own)
            tables.append(self.play(copy_with(attack), exchanged, model))
        return np.concatenate(tables, axis=1)


def samples_of(
    attack: Any,
    train: Any,
    y_train: Array,
    control: Any,
    y_control: Array,
    weights: tuple[FloatArray | None, FloatArray | None] = (None, None),
) -> Samples:
    """Both samples with the candidate values and the preprocessing of both."""
    if not hasattr(attack, "attribute") or not (
        hasattr(attack, "fit") and hasattr(attack, "predict")
    ):
        raise TypeError(
            "`attack` must be an attack on an attribute, with `attribute`, `fit(X, y)` and "
            f"`predict(released)`; got {type(attack).__name__}. Whole records have no control."
        )
    prior = getattr(attack, "prior", "marginal")
    if not isinstance(prior, str) and np.ndim(prior) == 2:
        raise ValueError(
            f"`prior` of the attack has a row for each target, shape {np.shape(prior)}; control "
            "records have none. Pass one of shape (n_values,), or the name of a prior."
        )
    index = _position(attack.attribute, train)
    train, control = _same_categories(train, control)
    targets = getattr(attack, "records", None)
    sides = Side(train, y_train, targets, weights[0]), Side(control, y_control, None, weights[1])
    columns = [_column(side, index) for side in sides]
    n_missing = [int(np.sum(pd.isna(column))) for column in columns]
    if any(n_missing):
        raise ValueError(
            f"The attribute {attack.attribute!r} has {n_missing[0]} missing values in the training "
            f"records and {n_missing[1]} in the control records. Drop those records, or give the "
            "missing value a name of its own, for instance 'unknown'."
        )
    secret = secret_of(joined(*columns), index, attack.attribute, getattr(attack, "values", None))
    shared: dict[str, Any] = {"values": secret.values}
    if getattr(attack, "estimator", None) is not None:
        shared["estimator"] = _with_public_steps(attack.estimator, train, y_train)
    spread = float(np.var(secret.column)) if secret.numeric else 1.0
    return Samples(sides, secret, spread, shared)


def _position(attribute: Any, table: Any) -> int:
    """Position of the attribute, -1 where it is the target of the model."""
    if attribute is None:
        return -1
    if not is_single_feature(attribute):
        raise TypeError(
            "`attribute` of the attack must be the name or the position of one column; got "
            f"{attribute!r}."
        )
    names = column_names(table)
    return int(resolve_features(attribute, names, table.shape[1], "attribute")[0])


def _column(side: Side, index: int) -> Array:
    return side.y if index < 0 else raw_column(side.X, index)


def same_columns(train: Any, control: Any) -> tuple[Any, Any]:
    """Both tables, the columns of the control records in the order of the training records."""
    frames = isinstance(train, pd.DataFrame), isinstance(control, pd.DataFrame)
    if all(frames):
        absent = [name for name in train.columns if name not in control.columns]
        if absent:
            raise ValueError(
                f"The control records lack the columns {absent[:5]}; got "
                f"{list(control.columns)[:10]}. Pass records with the raw columns of training."
            )
        control = control[list(train.columns)]
        same = train.reset_index(drop=True).equals(control.reset_index(drop=True))
    elif any(frames) or train.shape[1] != control.shape[1]:
        raise ValueError(
            "Training and control records must be tables of one kind with equal columns; got "
            f"{type(train).__name__} of shape {train.shape} and {type(control).__name__} of shape "
            f"{control.shape}."
        )
    else:
        same = train.shape == control.shape and bool(np.all(train == control))
    if same:
        raise ValueError(
            "The control records are the training records. Pass records of the same population "
            "that no model was trained on."
        )
    return train, control


def _same_categories(train: Any, control: Any) -> tuple[Any, Any]:
    """Both tables with all categories of either in their columns of pandas categories."""
    if not isinstance(train, pd.DataFrame):
        return train, control
    changed = train.copy(deep=False), control.copy(deep=False)
    for index, kinds in enumerate(zip(train.dtypes, control.dtypes, strict=True)):
        if not all(isinstance(kind, pd.CategoricalDtype) for kind in kinds) or kinds[0] == kinds[1]:
            continue
        more = [value for value in kinds[1].categories if value not in kinds[0].categories]
        both = pd.CategoricalDtype([*kinds[0].categories, *more], ordered=kinds[0].ordered)
        for table in changed:
            table.isetitem(index, table.iloc[:, index].astype(both))
    return changed


def _one_below_another(train: Any, control: Any) -> Any:
    if isinstance(train, pd.DataFrame):
        return pd.concat([train, control], ignore_index=True)
    return joined(train, control)


def _with_public_steps(estimator: Any, X: Any, y: Array) -> Any:
    """Fit the preprocessing of a pipeline on the training records; other models stay."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return estimator
    try:
        check_is_fitted(estimator[:-1])
    except NotFittedError:
        return Pipeline([*without_ledger(estimator[:-1]).fit(X, y).steps, estimator.steps[-1]])
    return estimator


def copy_with(attack: Any, **params: Any) -> Any:
    """Copy unfitted, with other parameters; what these hold, such as fitted steps, stays."""
    if hasattr(attack, "get_params"):
        own = type(attack)(**attack.get_params(deep=False))
    else:
        own = copy.deepcopy(attack)
    _set(own, records=None, **params)
    return own


def _set(attack: Any, **params: Any) -> None:
    """Set those of the parameters that the attack has."""
    if hasattr(attack, "get_params"):
        known = attack.get_params(deep=False)
        attack.set_params(**{name: value for name, value in params.items() if name in known})
        return
    for name, value in params.items():
        if hasattr(attack, name):
            setattr(attack, name, value)
