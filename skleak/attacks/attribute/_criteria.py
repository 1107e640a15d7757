"""What tells candidate values apart in a model's answers: larger scores speak for a value."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skleak.adversary.knowledge import folds
from skleak.exceptions import AttackNotApplicableError
from skleak.metrics import attack_success
from skleak.utils._arguments import check_numbers
from skleak.utils._predictions import (
    SUM_TOLERANCE,
    class_probabilities,
    classifies,
    complements,
    joined,
    log_probabilities,
    select_columns,
    with_unseen,
)
from skleak.utils._typing import Array, FloatArray, IntArray

Criterion = Literal["performance", "proba", "margin", "likelihood", "loss", "accuracy", "gradient"]
# Criteria that weigh what a model answers with a prior.
WITH_PRIOR = ("performance", "proba", "margin")
# Scores that are equal but for the order of a sum, such as that over the trees of a forest.
_ROUND_OFF = 1e-14
_LOG_HALF = np.log(0.5)


def check_applicable(criterion: Criterion, model: Any, y: Array, numeric: bool) -> None:
    """Check that a model trained on those targets has what the criterion compares."""
    name = type(model).__name__
    labels = classifies(model, y)
    if criterion == "margin" and not (labels and hasattr(model, "decision_function")):
        raise AttackNotApplicableError(
            f"{name} is no classifier with a `decision_function`, whose margins criterion='margin' "
            "compares. Use criterion='proba' for a model with `predict_proba`, or 'performance', "
            "for which predictions are enough."
        )
    if not labels:
        if criterion == "accuracy":
            raise AttackNotApplicableError(
                f"{name} is a regressor, whose predictions are close to a target rather than "
                "right or wrong. Use criterion='loss', 'likelihood', 'proba', 'performance' or "
                "'gradient'."
            )
        return
    if numeric and criterion not in WITH_PRIOR:
        raise AttackNotApplicableError(
            f"criterion={criterion!r} guesses a number by the value of the largest score, and of a "
            f"classifier such as {name} no single value has it: labels are constant over ranges, "
            "and probabilities rise up to the end of the range. Use criterion='performance', "
            "'proba' or 'margin', which weigh all values by a prior; or pass the values to choose "
            "from in `values`."
        )
    if criterion in ("proba", "likelihood", "loss") and not hasattr(model, "predict_proba"):
        raise AttackNotApplicableError(
            f"{name} is a classifier without `predict_proba`, which criterion={criterion!r} "
            "needs. Use criterion='performance' or 'accuracy', for which labels are enough, "
            "'gradient' with a function `gradient_norm`, or a model wrapped in "
            "CalibratedClassifierCV. Margins are compared by criterion='margin'."
        )
    if criterion in ("proba", "likelihood", "loss") and not hasattr(model, "classes_"):
        raise ValueError(
            f"{name} has no `classes_`, without which nobody knows whose probabilities these are. "
            "Set it to the labels in the order of the columns."
        )


def log_likelihoods(model: Any, X: Any, codes: IntArray, *, precise: bool) -> FloatArray:
    """Logarithm of the probability that a classifier gives to the true label of every record.

    Shapes: ``X`` (n, ...); ``codes`` (n,); returns (n,): in nats, at most 0; minus infinity for
    probability 0 and labels never seen.
    """
    rows = np.arange(len(codes))
    if precise and hasattr(model, "predict_log_proba"):
        logs = _log_class_probabilities(model, X)
        logs = np.column_stack([logs, np.full(len(logs), -np.inf)])
        own = logs[rows, codes]
        logs[rows, codes] = -np.inf
        # Near 1 the others tell more of it than the number itself, which rounds to 1.
        others = np.minimum(np.exp(logs).sum(axis=1), 0.5)
        return np.asarray(np.where(own > _LOG_HALF, np.log1p(-others), own))
    p = with_unseen(class_probabilities(model, X), codes)
    own = p[rows, codes]
    if precise:
        q = complements(p)[rows, codes]
        return np.where(own > 0.0, log_probabilities(own, q), -np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(own))


def _log_class_probabilities(model: Any, X: Any) -> FloatArray:
    """Check and return ``predict_log_proba``, of shape (n, n_classes)."""
    with np.errstate(divide="ignore"):
        answer = model.predict_log_proba(select_columns(model, X))
    logs = check_numbers("predict_log_proba(X)", answer)
    if logs.ndim != 2 or logs.shape[1] != len(model.classes_):
        raise ValueError(
            "`predict_log_proba` must return shape (n_records, n_classes) with one column for "
            f"each of `classes_`; got shape {logs.shape}. Models of several targets have to be "
            "taken one target at a time."
        )
    total = np.exp(np.minimum(logs, 1.0)).sum(axis=1)
    if np.any(np.abs(total - 1.0) > SUM_TOLERANCE):
        raise ValueError(
            "`predict_log_proba` must return logarithms of probabilities with sum 1 in every "
            f"row; got sums from {total.min():g} to {total.max():g}."
        )
    return logs


def accuracy_scores(y: Array, own: Array, targets: IntArray) -> FloatArray:
    """1 where a candidate prediction is the target's label and 0 elsewhere.

    Shapes: ``y`` (n,); ``own`` (n_targets, n_values); ``targets`` (n_targets,); returns
    (n_targets, n_values).
    """
    return np.asarray(attack_success(own.T, y[targets]).T, dtype=np.float64)


def confusion_scores(y: Array, known: Array, own: Array, targets: IntArray) -> FloatArray:
    """Log-probability of each target's label given each candidate prediction.

    Read off the confusion matrix of the other records; one imagined record for each predicted
    label is spread evenly over the true ones, so that nothing is impossible.

    Shapes: ``y``, ``known`` (n,); ``own`` (n_targets, n_values); ``targets`` (n_targets,); returns
    (n_targets, n_values).
    """
    attack_success(known[:1], y[:1])
    # By hashing, not sorting: labels may be strings, and there are many at every release.
    codes, classes = pd.factorize(joined(y, known, own.ravel()))
    k, n = len(classes), len(y)
    true, predicted = codes[:n], codes[n : 2 * n]
    candidate = codes[2 * n :].reshape(own.shape)
    confusion = np.bincount(true * k + predicted, minlength=k * k).reshape(k, k)
    label = true[targets, None]
    itself = (candidate == predicted[targets, None]).astype(np.float64)
    hits = confusion[label, candidate] - itself
    all_ = confusion.sum(axis=0)[candidate] - itself
    return np.log((hits + 1.0 / k) / (all_ + 1.0))


def margin_scores(
    codes: IntArray, known: FloatArray, own: FloatArray, targets: IntArray
) -> FloatArray:
    """Log-probability of each target's label given the margins of each candidate.

    A multinomial logistic regression turns margins into probabilities (Platt, of several classes).
    It learns from the records of other folds, so that no target tells what its own value is.

    Shapes: ``codes`` (n,), labels from 0; ``known`` (n, n_margins); ``own`` (n_targets, n_values,
    n_margins); ``targets`` (n_targets,); returns (n_targets, n_values).
    """
    scores = np.zeros(own.shape[:2])
    for train, test in folds(len(codes)).split(codes):
        some = np.flatnonzero(np.isin(targets, test))
        present = np.unique(codes[train])
        if not len(some) or len(present) < 2:
            continue
        curve = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        curve.fit(known[train], codes[train])
        margins = own[some].reshape(-1, own.shape[2])
        logs = _log_curve(curve, margins).reshape(len(some), own.shape[1], -1)
        # A label that only the target's own fold has is as likely under every candidate.
        place = np.searchsorted(present, codes[targets[some]])
        place = np.minimum(place, len(present) - 1)
        seen = present[place] == codes[targets[some]]
        chosen = np.take_along_axis(logs, place[:, None, None], axis=2)[:, :, 0]
        scores[some] = np.where(seen[:, None], chosen, 0.0)
    return scores


def _log_curve(curve: Any, margins: FloatArray) -> FloatArray:
    """Log-probabilities of the labels that a curve has learned, exact where one is certain."""
    decisions = curve.decision_function(margins)
    if decisions.ndim == 1:
        decisions = np.column_stack([np.zeros(len(decisions)), decisions])
    return np.asarray(log_softmax(decisions, axis=1))


def numbers_of(y: Array) -> FloatArray:
    """Targets of a regression as floats; strings of digits are none."""
    strings = y.dtype.kind in "USmM" or (
        y.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in y)
    )
    if strings:
        raise TypeError(
            f"The targets of a regression must be numbers; got dtype {y.dtype}. "
            "Convert them, or attack a classifier."
        )
    return check_numbers("y", y, finite=True)


def gaussian_scores(y: FloatArray, known: Array, own: Array, targets: Array) -> FloatArray:
    """Log-density of each target's `y` around its candidate predictions, but for a constant.

    The variance is the mean square of the residuals of the other records.
    """
    known, own = check_numbers("predict(X)", known), check_numbers("predict(X)", own)
    # A model that fits all others exactly is still known to round-off only.
    least = (np.finfo(float).eps * np.abs(y).max()) ** 2
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (y - known) ** 2
        variance = (squares.sum() - squares[targets]) / (len(y) - 1)
        variance = np.maximum(variance, max(least, np.finfo(float).tiny))
        scores = -0.5 * (y[targets, None] - own) ** 2 / variance[:, None]
    # Predictions beyond all bounds, as of counts under much noise, tell nothing.
    return np.where(np.isnan(scores), -np.inf, scores)


def squared_scores(y: FloatArray, own: Array, targets: Array) -> FloatArray:
    """Minus the squared error of each candidate prediction, in squared units of the target."""
    with np.errstate(over="ignore"):
        return np.asarray(-((y[targets, None] - check_numbers("predict(X)", own)) ** 2))


def ties_by_prior(scores: FloatArray, prior: FloatArray, *, logarithmic: bool) -> IntArray:
    """Position of the largest score; of several the one of largest prior, then the first.

    Shapes: ``scores`` (..., n_targets, n_values); ``prior`` (n_targets, n_values); returns (...,
    n_targets).
    """
    best = scores.max(axis=-1, keepdims=True)
    size = np.abs(np.where(np.isfinite(best), best, 0.0))
    slack = _ROUND_OFF * (np.maximum(size, 1.0) if logarithmic else size)
    return np.asarray(np.where(scores >= best - slack, prior, -1.0).argmax(axis=-1))
