"""Scores of records under a model: what shadow models, and models under attack, are asked."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skleak.adversary.membership import check_coding, is_probabilistic
from skleak.utils._predictions import (
    class_probabilities,
    complements,
    label_positions,
    residuals,
    select_columns,
    with_unseen,
)
from skleak.utils._typing import Array, FloatArray

Statistic = Callable[[Any, Any, Any], Any]


def record_scores(
    model: Any, X: Any, y: Array, statistic: Statistic | None, *, strict: bool = True
) -> FloatArray:
    """Scores of some records under one model.

    Shapes: ``X``, ``y`` (n, ...); returns (n,).
    """
    if statistic is not None:
        scores = np.asarray(statistic(model, select_columns(model, X), y), dtype=np.float64)
        scores = np.where(np.isfinite(scores), scores, np.nan)
    elif is_probabilistic(model):
        scores = _log_odds(model, X, y, strict)
    else:
        scores = residuals(model, X, y)
    if scores.shape != y.shape or np.any(np.isnan(scores)):
        raise ValueError(
            f"There must be one score, a finite number, for each of the {len(y)} records under "
            f"{type(model).__name__}; got shape {scores.shape}, {np.sum(np.isnan(scores))} of "
            "them not finite."
        )
    return scores


def _log_odds(model: Any, X: Any, y: Array, strict: bool) -> FloatArray:
    p = class_probabilities(model, X)
    if not strict and set(np.asarray(model.classes_).tolist()).isdisjoint(y.tolist()):
        return np.full(len(p), -np.inf)
    positions = label_positions(y, model.classes_)
    if strict:
        check_coding(y, model.classes_)
    if len(positions) != len(p):
        return p[:, 0]  # of another shape than y, which the caller tells
    p = with_unseen(p, positions)
    rows = np.arange(len(p))
    with np.errstate(divide="ignore"):
        return np.log(p[rows, positions]) - np.log(complements(p)[rows, positions])


def score_limit(scores: FloatArray) -> float:
    """Return the score that stands for infinite log odds: above all finite ones by log 2.

    Shapes: ``scores`` (n_models, n_targets).

    A forest of 100 trees answers 0 or 1 where the next answer is 0.01 or 0.99: that is about
    half of it, and no certainty.
    """
    inside = np.abs(scores[np.isfinite(scores)])
    return float(inside.max(initial=1.0) + np.log(2.0))
