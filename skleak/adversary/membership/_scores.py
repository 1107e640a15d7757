"""How much a model's answer about a record speaks for membership: larger is more likely."""

from typing import Any, Literal

import numpy as np

from skleak.adversary.membership._records import check_coding
from skleak.exceptions import AttackNotApplicableError
from skleak.utils._predictions import (
    class_probabilities,
    complements,
    label_positions,
    log_probabilities,
    residuals,
    with_unseen,
)
from skleak.utils._typing import Array, FloatArray

Statistic = Literal["loss", "likelihood", "modified_entropy", "gradient_norm"]
_LARGEST = np.finfo(np.float64).max
# Keeps `prior * (n_reference + 1)` from falling below a whole number by round-off.
_ROUND_OFF = 1e-12


def is_probabilistic(model: Any) -> bool:
    """Return True if a model gives probabilities of classes; else it is a regressor."""
    if hasattr(model, "predict_proba"):
        return True
    if hasattr(model, "classes_"):
        raise AttackNotApplicableError(
            f"{type(model).__name__} is a classifier without `predict_proba`, which this statistic "
            "needs. Attack a model that answers with probabilities, for instance one wrapped in "
            "CalibratedClassifierCV."
        )
    return False


def classification_scores(model: Any, X: Any, y: Array, statistic: Statistic) -> FloatArray:
    """Scores of records under a classifier.

    Shapes: ``X`` (n, ...); ``y`` (n,); returns (n,).

    An unseen label has probability 0. A logarithm of 0 counts as -708.4, that of the smallest
    normal float, so that all scores are finite.
    """
    p = class_probabilities(model, X)
    positions = label_positions(y, model.classes_)
    check_coding(y, model.classes_)
    p = with_unseen(p, positions)
    rows = np.arange(len(p))
    if statistic == "likelihood":
        return p[rows, positions]
    q = complements(p)
    own = log_probabilities(p[rows, positions], q[rows, positions])
    if statistic == "loss":
        return own
    others = p * log_probabilities(q, p)
    others[rows, positions] = 0.0
    return q[rows, positions] * own + others.sum(axis=1)


def regression_scores(
    model: Any, X: Any, y: Array, statistic: Statistic, scale: float | None = None
) -> FloatArray:
    """Scores of records under a regressor.

    Shapes: ``X`` (n, ...); ``y`` (n,); returns (n,).
    """
    if statistic == "modified_entropy":
        raise AttackNotApplicableError(
            f"The modified entropy needs class probabilities; {type(model).__name__} is a "
            "regressor. Use statistic='loss', 'likelihood' or 'gradient_norm'."
        )
    errors = residuals(model, X, y)
    with np.errstate(over="ignore"):
        squares = errors**2
        if statistic == "loss":
            return -squares
        scale = float(np.sqrt(squares.mean())) if scale is None else scale
        scale = min(max(scale, np.sqrt(np.finfo(float).tiny)), np.sqrt(_LARGEST))
        return np.exp(-0.5 * (errors / scale) ** 2) / (scale * np.sqrt(2.0 * np.pi))


def finite(scores: FloatArray) -> FloatArray:
    """Infinite scores as the largest floats, so that they can be ranked and plotted."""
    return np.clip(scores, -_LARGEST, _LARGEST)


def reference_rank(prior: float, n_reference: int) -> int:
    """Return the rank, from the largest, of the reference score that a member must exceed."""
    rank = int(np.floor(prior * (n_reference + 1) * (1.0 + _ROUND_OFF)))
    if rank < 1:
        raise ValueError(
            f"A threshold calibrated to `prior={prior:g}` needs at least "
            f"{int(np.ceil(1.0 / prior * (1.0 - _ROUND_OFF))) - 1} reference records; got "
            f"{n_reference}. Pass more, or a float as `threshold`."
        )
    return min(rank, n_reference)


def calibrated_threshold(scores: FloatArray, prior: float) -> float:
    """Least float above the reference score of `reference_rank`: ties with it are no members."""
    place = len(scores) - reference_rank(prior, len(scores))
    return float(np.nextafter(np.partition(scores, place)[place], np.inf))
