"""Scores of records under shadow models, the Gaussian laws they follow, and their ratio."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr

from skleak.adversary._membership_records import check_coding
from skleak.adversary._membership_scores import finite, is_probabilistic
from skleak.metrics._record_losses import (
    class_probabilities,
    complements,
    label_positions,
    residuals,
    select_columns,
    with_unseen,
)
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import Array, BoolArray, FloatArray

__all__ = [
    "ScoreLaws",
    "Statistic",
    "Variance",
    "fit_laws",
    "ratios_from_others",
    "record_scores",
    "score_limit",
]

Statistic = Callable[[Any, Any, Any], Any]
Variance = Literal["auto", "per_record", "global"]

# Weight of the usual variance beside that of one record, in observations. Of linear models, trees
# and neighbours on 8 to 64 shadow models, this ranked members about as well as the better of a
# variance of its own and one for all records, each of which was much worse for some.
_WEIGHT = 4.0
# No standard deviation counts as less than this part of the usual one, or of the largest score:
# a few equal scores do not show that there is no spread.
_LEAST_SPREAD = 0.1
_ROUND_OFF = 1e-9
_NO_SPREAD = 1e-14
_ELEMENTS = 1 << 20


def record_scores(
    model: Any, X: Any, y: Array, statistic: Statistic | None, *, strict: bool = True
) -> FloatArray:
    """Scores of some records under one model.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y : records of shape (n, ...), ndarray of shape (n,)
        Records and their true targets or labels.
    statistic : callable or None
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
    means, scales : ndarray of shape (..., n_targets, 2)
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
    sizes = float(np.abs(scores).max()), np.abs(apart).max(axis=0)
    scales = _scales(np.array(counts), np.array(squares), variance, *sizes)
    both = np.full((2, 2, scores.shape[1]), np.nan)
    both[:, : len(sides)] = means, scales
    return ScoreLaws(both[0].T, both[1].T, limit)


def ratios_from_others(scores: FloatArray, trained_on: BoolArray, limit: float) -> FloatArray:
    """Log-likelihood ratio of every model by laws that all the other models teach.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_targets)
        Scores under models each of which is under attack in turn.
    trained_on : ndarray of bool of shape (n_models, n_targets)
        Whether the model was trained on the target. Its own row tells nothing about a model.
    limit : float
        What infinite scores count as; see `score_limit`.

    Returns
    -------
    ndarray of shape (n_models, n_targets)
        As `fit_laws` without the model gives it with ``variance="auto"``; 0 where fewer than two
        other models were trained on the target, or fewer than two were not.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> trained_on = rng.random((40, 5)) < 0.5
    >>> ratios = ratios_from_others(rng.normal(3.0 * trained_on), trained_on, np.inf)
    >>> bool(np.mean((ratios > 0.0) == trained_on) > 0.85)
    True
    """
    scores = np.clip(scores, -limit, limit)
    # In units of the largest score, whose square is finite.
    apart = (scores - scores[0]) / (float(np.abs(scores).max()) or 1.0)
    sides = np.stack([~trained_on, trained_on])
    sums = [np.where(sides, each, 0.0).sum(axis=1) for each in (1.0, apart, apart**2)]
    ratios = np.empty(scores.shape)
    for rows in row_blocks(len(scores), scores.shape[1], _ELEMENTS):
        own = apart[rows]
        counts, totals, squares = (
            total[:, None] - np.where(sides[:, rows], each, 0.0)
            for total, each in zip(sums, (1.0, own, own**2), strict=True)
        )
        means = totals / np.maximum(counts, 1.0)
        squares = squares - counts * means**2
        scales = _scales(counts, squares, "auto", 1.0, np.abs(apart).max(axis=0))
        laws = ScoreLaws(np.moveaxis(means, 0, -1), np.moveaxis(scales, 0, -1), np.inf)
        ratios[rows] = np.where((counts >= 2.0).all(axis=0), laws.log_ratio(own), 0.0)
    return ratios


def _scales(
    counts: Array, squares: FloatArray, variance: Variance, size: float, ranges: FloatArray
) -> FloatArray:
    """Standard deviations of targets from sums of squares; all of shape (n_sides, ..., n_targets).

    `size` is the largest absolute score, `ranges` of shape (n_targets,) how far scores of a target
    lie apart.
    """
    left = np.maximum(counts - 1.0, 0.0)
    # What is left of a difference by round-off is no spread.
    squares = np.where(squares > _NO_SPREAD * np.maximum(left, 1.0) * ranges**2, squares, 0.0)
    own = squares / np.maximum(left, 1.0)
    usual = _usual(own)
    variances = own
    if variance == "auto":
        variances = (squares + _WEIGHT * usual) / (left + _WEIGHT)
    elif variance == "global":
        pooled = squares.sum(axis=-1, keepdims=True) / left.sum(axis=-1, keepdims=True)
        variances = np.broadcast_to(pooled, own.shape)
    floor = np.maximum(_LEAST_SPREAD * np.sqrt(usual.mean(axis=0)), _ROUND_OFF * (size or 1.0))
    return np.maximum(np.sqrt(variances), floor)


def _usual(variances: FloatArray) -> FloatArray:
    """Median over targets of the variances that are not zero: a mean is that of the widest few."""
    order = np.sort(np.where(variances > 0.0, variances, np.inf), axis=-1)
    number = np.sum(variances > 0.0, axis=-1, keepdims=True)
    middle = (np.maximum((number - 1) // 2, 0), number // 2)
    ends = [np.take_along_axis(order, place, -1) for place in middle]
    return np.where(number > 0, 0.5 * (ends[0] + ends[1]), 0.0)
