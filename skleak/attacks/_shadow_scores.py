"""Scores of records under shadow models, the Gaussian laws they follow, and their ratio."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr

from skleak.attacks._membership_records import check_coding
from skleak.attacks._membership_scores import finite, is_probabilistic
from skleak.metrics._record_losses import (
    class_probabilities,
    complements,
    label_positions,
    residuals,
    select_columns,
    with_unseen,
)
from skleak.utils._typing import Array, BoolArray, FloatArray

__all__ = ["Score", "ScoreLaws", "Variance", "fit_laws", "record_scores", "score_limit"]

Score = Callable[[Any, Any, Any], Any]
Variance = Literal["auto", "per_record", "global"]

# Weight of the usual variance beside that of one record, in observations. Of linear models, trees
# and neighbours on 8 to 64 shadow models, this ranked members about as well as the better of a
# variance of its own and one for all records, each of which was much worse for some.
_WEIGHT = 4.0
# No standard deviation counts as less than this part of the usual one, or of the largest score:
# a few equal scores do not show that there is no spread.
_LEAST_SPREAD = 0.1
_ROUND_OFF = 1e-9


def record_scores(
    model: Any, X: Any, y: Array, score: Score | None, *, strict: bool = True
) -> FloatArray:
    """Scores of some records under one model.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y : records of shape (n, ...), ndarray of shape (n,)
        Records and their true targets or labels.
    score : callable or None
        None takes the log odds ``log(p_y / (1 - p_y))`` of a classifier, infinite where a
        probability is 0 or 1, and ``y`` minus the prediction of a regressor.
    strict : bool, default=True
        Whether labels of which the model knows none raise, or have probability 0.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        For answers that are NaN, or not one for each record.
    """
    if score is not None:
        scores = np.asarray(score(model, select_columns(model, X), y), dtype=np.float64)
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
    """What infinite log odds count as: beyond all finite ones, by a factor of two in the odds.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_targets)
        Scores under shadow models.

    Returns
    -------
    float

    Notes
    -----
    A forest of 100 trees answers 0 or 1 where the next answer is 0.01 or 0.99: that is about
    half of it, and no certainty.

    Examples
    --------
    >>> round(float(np.exp(-score_limit(np.array([[np.inf, 1.0, np.log(0.01 / 0.99)]])))), 4)
    0.0051
    """
    inside = np.abs(scores[np.isfinite(scores)])
    return float(inside.max(initial=1.0) + np.log(2.0))


@dataclass(frozen=True)
class ScoreLaws:
    """Gaussian laws of the scores of every target, left out and trained on. Confidential.

    Parameters
    ----------
    means, scales : ndarray of shape (n_targets, 2)
        Of scores under models without the record, and under models with it; NaN where no shadow
        model was trained on it.
    limit : float
        No score counts as larger.
    """

    means: FloatArray
    scales: FloatArray
    limit: float

    def log_ratio(self, scores: FloatArray) -> FloatArray:
        """Log density as a member minus that as a non-member, of the shape of the scores."""
        z = (self._bounded(scores)[..., None] - self.means) / self.scales
        logs = -0.5 * z**2 - np.log(self.scales)
        return finite(logs[..., 1] - logs[..., 0])

    def surprise(self, scores: FloatArray, *, two_ends: bool) -> FloatArray:
        """Minus the log probability that a model without the record speaks as much for it.

        Parameters
        ----------
        scores : ndarray of shape (..., n_targets)
            Scores under the models attacked.
        two_ends : bool
            Whether membership shows in scores near zero (residuals) rather than in large ones.

        Returns
        -------
        ndarray of shape (..., n_targets)
            In nats, at least 0, finite.
        """
        scores = self._bounded(scores)
        mean, scale = self.means[:, 0], self.scales[:, 0]
        if not two_ends:
            return finite(-log_ndtr((mean - scores) / scale))
        size, mean = np.abs(scores), np.abs(mean)
        high = log_ndtr((size - mean) / scale)
        low = log_ndtr((-size - mean) / scale)
        with np.errstate(divide="ignore"):
            return finite(-high - np.log(-np.expm1(low - high)))

    def _bounded(self, scores: FloatArray) -> FloatArray:
        return np.clip(scores, -self.limit, self.limit)


def fit_laws(
    scores: FloatArray, trained_on: BoolArray | None, variance: Variance, limit: float = np.inf
) -> ScoreLaws:
    """Fit the two Gaussian laws of every target.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_targets)
        Scores under shadow models.
    trained_on : ndarray of bool of shape (n_models, n_targets) or None
        Whether the model was trained on the target; None where none was.
    variance : {"auto", "per_record", "global"}
        See `LikelihoodRatioMembership`.
    limit : float, default=inf
        What infinite scores count as; see `score_limit`.

    Returns
    -------
    ScoreLaws

    Examples
    --------
    >>> scores = np.array([[0.0, 5.0], [2.0, 9.0], [1.0, 7.0]])
    >>> laws = fit_laws(scores, None, "per_record")
    >>> laws.means[:, 0], laws.scales[:, 0]
    (array([1., 7.]), array([1., 2.]))
    """
    scores = np.clip(scores, -limit, limit)
    sides = [np.ones(scores.shape, dtype=bool) if trained_on is None else ~trained_on]
    sides += [] if trained_on is None else [trained_on]
    means, squares, counts = [], [], []
    # Measured from one of them, equal scores have that mean exactly.
    apart = scores - scores[0]
    for side in sides:
        counts.append(side.sum(axis=0))
        means.append(scores[0] + np.where(side, apart, 0.0).sum(axis=0) / counts[-1])
        squares.append(np.where(side, (scores - means[-1]) ** 2, 0.0).sum(axis=0))
    left = np.array(counts) - 1.0
    own = np.array(squares) / left
    variances, usual = own, np.array([_usual(some) for some in own])
    if variance == "auto":
        variances = (left * own + _WEIGHT * usual[:, None]) / (left + _WEIGHT)
    elif variance == "global":
        pooled = np.sum(squares, axis=1) / left.sum(axis=1)
        variances = np.broadcast_to(pooled[:, None], own.shape)
    size = float(np.abs(scores).max()) or 1.0
    floor = max(_LEAST_SPREAD * float(np.sqrt(usual.mean())), _ROUND_OFF * size)
    shape = (scores.shape[1], 2)
    both, scales = np.full(shape, np.nan), np.full(shape, np.nan)
    both[:, : len(sides)] = np.transpose(means)
    scales[:, : len(sides)] = np.maximum(np.sqrt(np.transpose(variances)), floor)
    return ScoreLaws(both, scales, limit)


def _usual(variances: FloatArray) -> float:
    """Median of the variances that are not zero: a mean is that of the few widest records."""
    spread = variances[variances > 0.0]
    return float(np.median(spread)) if spread.size else 0.0
