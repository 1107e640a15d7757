"""Predictions and class probabilities of any fitted model, checked, and what is read off them."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score

from skleak.utils._arguments import check_numbers
from skleak.utils._labels import label_places
from skleak.utils._typing import Array, FloatArray, IntArray

# Stands in for a probability of zero: the largest loss is -log of it, 708.4, and finite.
SMALLEST = np.finfo(np.float64).tiny
# Probabilities in single precision sum to one no better than this.
SUM_TOLERANCE = 1e-3
_CALIBRATE = ", for instance through CalibratedClassifierCV"


def select_columns(model: Any, X: Any) -> Any:
    """Columns of a DataFrame by the names that the model was fitted on; other data unchanged."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return X
    present = list(X.columns)
    absent = [name for name in names if name not in present]
    if absent:
        raise ValueError(
            f"The records lack columns that {type(model).__name__} was fitted on: {absent[:5]}; "
            f"got {present[:10]}. Pass the raw columns, under the names of the training data."
        )
    return X if present == list(names) else X[list(names)]


def classifies(model: Any, y: Array | None = None) -> bool:
    """Return True if a model answers with labels, and not with numbers.

    Of one that does not say so, the targets (n,) that it was trained on tell: text is a label.
    """
    if hasattr(model, "predict_proba") or hasattr(model, "classes_"):
        return True
    if hasattr(model, "__sklearn_tags__") and (is_classifier(model) or is_regressor(model)):
        return bool(is_classifier(model))
    return y is not None and not _is_numeric(y)


def joined(*arrays: Array) -> Array:
    """Put arrays one after the other; text and numbers stay different, which NumPy would mix."""
    kinds = {"b" if a.dtype.kind in "biuf" else a.dtype.kind for a in arrays}
    return np.concatenate(arrays if len(kinds) == 1 else [a.astype(object) for a in arrays])


def _is_numeric(y: Array) -> bool:
    if y.dtype.kind == "O":
        return not any(isinstance(value, str | bytes | bool | np.bool_) for value in y)
    return y.dtype.kind in "iuf"


def label_positions(labels: Array, classes: Any) -> IntArray:
    """Position of every label among the classes of a model, -1 where it has none of the kind.

    Shapes: ``labels`` (n,); ``classes`` (n_classes,); returns (n,).
    """
    positions = label_places(labels, classes)
    if np.all(positions < 0):
        raise ValueError(
            "The model knows none of the labels; expected some of its classes. "
            "Pass labels in the coding of the training data."
        )
    return positions


def _answer(model: Any, X: Any, method: str, what: str, how: str = "") -> Any:
    """Return what a method of a model says of records, by the columns that it was fitted on."""
    if not hasattr(model, method):
        raise ValueError(
            f"This needs {what}, and {type(model).__name__} has no `{method}`. Pass a fitted model "
            f"that has{how}."
        )
    return getattr(model, method)(select_columns(model, X))


def class_probabilities(model: Any, X: Any) -> FloatArray:
    """Probabilities of the classes for every record, checked, of shape (n, n_classes)."""
    answer = _answer(model, X, "predict_proba", "class probabilities", _CALIBRATE)
    p = check_numbers("predict_proba(X)", answer)
    # Asked for only now: what is not fitted has said so.
    if not hasattr(model, "classes_"):
        raise ValueError(
            f"{type(model).__name__} has no `classes_`, without which nobody knows whose "
            "probabilities these are. Set it to the labels in the order of the columns."
        )
    if p.ndim != 2 or p.shape[1] != len(model.classes_):
        raise ValueError(
            "`predict_proba` must return shape (n_records, n_classes) with one column for each "
            f"of `classes_`; got shape {p.shape}. Models of several targets have to be taken one "
            "target at a time."
        )
    total = p.sum(axis=1, keepdims=True)
    if np.any(p < 0.0) or np.any(np.abs(total - 1.0) > SUM_TOLERANCE):
        raise ValueError(
            "`predict_proba` must return probabilities, not negative and with sum 1 in every "
            f"row; got entries from {p.min():g} and sums from {total.min():g} to {total.max():g}."
        )
    return p / total


def margins(model: Any, X: Any) -> FloatArray:
    """Margins of every record, checked, of shape (n, n_margins): one, or some for the classes."""
    answer = _answer(model, X, "decision_function", "margins")
    values = check_numbers("decision_function(X)", answer, finite=True)
    return values.reshape(len(values), -1)


def with_unseen(p: FloatArray, positions: IntArray) -> FloatArray:
    """Append a class of probability zero where there are unseen labels: position -1 is its own."""
    return np.column_stack([p, np.zeros(len(p))]) if np.any(positions < 0) else p


def complements(p: FloatArray) -> FloatArray:
    """``1 - p``, for the largest entry of a row without cancellation as the sum of the others."""
    q = 1.0 - p
    largest = p.argmax(axis=1)[:, None]
    others = p.copy()
    np.put_along_axis(others, largest, 0.0, axis=1)
    np.put_along_axis(q, largest, others.sum(axis=1, keepdims=True), axis=1)
    return q


def log_probabilities(p: FloatArray, q: FloatArray) -> FloatArray:
    """``log(p)`` from ``p`` and ``q = 1 - p``, accurate at both ends and never below -708.4."""
    near_one = np.log1p(-np.minimum(q, 0.5))
    return np.where(q < 0.5, near_one, np.log(np.maximum(p, SMALLEST)))


def predictions(model: Any, X: Any) -> Array:
    """Predict, in the form that the losses take, of shape (n,)."""
    predicted = np.asarray(_answer(model, X, "predict", "predictions"))
    if predicted.ndim == 2 and predicted.shape[1] == 1:
        predicted = predicted[:, 0]
    if predicted.ndim != 1:
        raise ValueError(
            f"`predict` must return one value for each record; got shape {predicted.shape}. "
            "Models of several targets have to be taken one target at a time."
        )
    return predicted


def residuals(model: Any, X: Any, y: Array) -> FloatArray:
    """Target minus prediction of every record, of shape (n,); numbers are needed of both."""
    predicted = predictions(model, X)
    if np.asarray(predicted).dtype.kind not in "biuf" or y.dtype.kind in "USm":
        raise TypeError(
            "A squared error needs numbers; got predictions of dtype "
            f"{predicted.dtype} and targets of dtype {y.dtype}. Use the log loss for classifiers, "
            "or convert the targets."
        )
    true = check_numbers("y", y, finite=True, empty=False)
    check_rows(predicted, true)
    return true - check_numbers("predict(X)", predicted, empty=False)


def utility_of(model: Any, X: Any, y: Array) -> float:
    """Score of a model: its own, or the share of right labels, or the share of variance."""
    if hasattr(model, "score"):
        return float(model.score(X, y))
    score = accuracy_score if classifies(model, y) else r2_score
    return float(score(y, predictions(model, X)))


def check_rows(values: Array, y: Array) -> None:
    """Refuse values whose shape is not that of the targets, one for each record."""
    if values.shape != y.shape:
        raise ValueError(
            f"There must be one target for each record; got {len(y)} targets, and values of "
            f"shape {values.shape} for the records."
        )
