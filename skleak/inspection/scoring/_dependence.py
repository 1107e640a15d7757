"""Which encoded columns a raw column can move, read off fitted transformers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from skleak.utils._typing import BoolArray

# Each output is a function of the input in its place alone. Not so all that scikit-learn calls
# one-to-one: Normalizer divides by the length of the whole record. Subclasses may do anything.
_COLUMN_BY_COLUMN = (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
)


def dependence(transformer: Any, n_in: int, n_out: int) -> BoolArray:
    """Return which outputs each input can move, of shape (n_in, n_out).

    Where a transformer is not known to keep columns apart, any input may move any output: too
    many columns are then counted, never too few.
    """
    if transformer is None or transformer == "passthrough":
        return np.eye(n_in, dtype=bool)
    if type(transformer) is Pipeline:
        return of_steps([step for _, step in transformer.steps], n_in, n_out)
    if type(transformer) is ColumnTransformer:
        return _of_columns(transformer, n_in, n_out)
    plain = not getattr(transformer, "add_indicator", False)
    if type(transformer) in _COLUMN_BY_COLUMN and n_in == n_out and plain:
        return np.eye(n_in, dtype=bool)
    if type(transformer) is OneHotEncoder:
        return _of_levels(transformer, n_in, n_out)
    return np.ones((n_in, n_out), dtype=bool)


def of_steps(steps: Sequence[Any], n_in: int, n_out: int) -> BoolArray:
    """Return which outputs of transformers, one after the other, each input can move."""
    steps = [step for step in steps if step is not None and step != "passthrough"]
    moved = np.eye(n_in, dtype=bool)
    for step, after in zip(steps, [*steps, None][1:], strict=True):
        width = n_out if after is None else getattr(after, "n_features_in_", None)
        if width is None:
            return np.ones((n_in, n_out), dtype=bool)
        moved = moved @ dependence(step, moved.shape[1], int(width))
    return moved


def _of_columns(transformer: ColumnTransformer, n_in: int, n_out: int) -> BoolArray:
    moved = np.zeros((n_in, n_out), dtype=bool)
    places = transformer.output_indices_
    for name, part, columns in transformer.transformers_:
        outputs = np.arange(n_out)[places[name]]
        if not len(outputs):
            continue
        inputs = _positions(transformer, columns, n_in)
        moved[np.ix_(inputs, outputs)] = dependence(part, len(inputs), len(outputs))
    return moved


def _positions(transformer: ColumnTransformer, columns: Any, n_in: int) -> Any:
    """Positions of columns that a part takes, by name, number, slice or mask, (k,)."""
    if isinstance(columns, str):
        columns = [columns]
    names = list(getattr(transformer, "feature_names_in_", ()))
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        first = 0 if columns.start is None else names.index(columns.start)
        last = n_in if columns.stop is None else names.index(columns.stop) + 1
        return np.arange(n_in)[first : last : columns.step]
    if isinstance(columns, slice):
        return np.arange(n_in)[columns]
    return np.atleast_1d(
        [names.index(one) for one in columns]
        if len(columns) and isinstance(columns[0], str)
        else np.arange(n_in)[np.asarray(columns)]
    )


def _of_levels(encoder: OneHotEncoder, n_in: int, n_out: int) -> BoolArray:
    """Let the outputs of each column follow one another, one for each level that is kept apart."""
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * n_in
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * n_in
    widths = [
        len(levels) - (0 if few is None else len(few) - 1) - (drop is not None)
        for levels, few, drop in zip(encoder.categories_, rare, dropped, strict=True)
    ]
    if len(widths) != n_in or sum(widths) != n_out:
        return np.ones((n_in, n_out), dtype=bool)
    return np.repeat(np.eye(n_in, dtype=bool), widths, axis=1)
