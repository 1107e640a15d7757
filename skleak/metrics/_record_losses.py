"""Losses of single records under a fitted model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.metrics._scores import attack_success
from skleak.utils._arguments import check_numbers, has_missing
from skleak.utils._predictions import (
    check_rows,
    class_probabilities,
    complements,
    label_positions,
    log_probabilities,
    predictions,
    residuals,
    with_unseen,
)
from skleak.utils._typing import Array, FloatArray

Loss = Callable[[Any, Any, Any], npt.ArrayLike]


def record_losses(model: Any, X: Any, y: Any, loss: str | Loss) -> FloatArray:
    """Losses of single records under a fitted model.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (n, n_columns)
        Records, as the model takes them.
    y : array-like of shape (n,)
        Their targets, in the coding of the training data.
    loss : {"log_loss", "zero_one", "squared"} or callable
        Name, or a function of model, X and y that returns the losses.

    Returns
    -------
    ndarray of shape (n,)
        A label that the model does not know has a log loss of 708.4, and none is larger.

    Raises
    ------
    ValueError
        For an unknown loss, missing targets, labels of which the model knows none, or a model
        without the method that the loss needs.
    TypeError
        For a squared loss of what is not numbers.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> record_losses(model, [[0.0], [1.0]], [1.0, 2.0], "squared").round(3)
    array([1., 0.])
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            "Targets must have shape (n_records,) with at least one record; got shape "
            f"{labels.shape}. Use `y.ravel()` for a single column."
        )
    if has_missing(labels):
        raise ValueError("Targets must not hold missing values; drop those records first.")
    if loss == "log_loss":
        return _log_losses(model, X, labels)
    if loss == "zero_one":
        predicted = predictions(model, X)
        check_rows(predicted, labels)
        return 1.0 - attack_success(predicted, labels)[0]
    if loss == "squared":
        return residuals(model, X, labels) ** 2
    if not callable(loss):
        raise ValueError(
            "`loss` must be 'log_loss', 'zero_one', 'squared' or a function of model, X and y; "
            f"got {loss!r}."
        )
    losses = check_numbers("loss(model, X, y)", loss(model, X, y), finite=True, empty=False)
    check_rows(losses, labels)
    return losses


def _log_losses(model: Any, X: Any, labels: Array) -> FloatArray:
    p = class_probabilities(model, X)
    check_rows(p[:, 0], labels)
    positions = label_positions(labels, model.classes_)
    p = with_unseen(p, positions)
    rows = np.arange(len(p))
    return -log_probabilities(p[rows, positions], complements(p)[rows, positions])
