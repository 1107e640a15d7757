"""Likelihood of a record relative to its mean under reference models, and to that of others."""

import numpy as np
from scipy.special import expit

from skleak.utils._predictions import SMALLEST
from skleak.utils._typing import BoolArray, FloatArray

# Share of a rank that the ratio itself adds, to order records that dominate equally many others.
_TIE_BREAKER = 1e-9


def likelihoods(scores: FloatArray, probabilistic: bool, scale: float) -> FloatArray:
    """Likelihood of targets, of the shape of the scores, in (0, 1].

    The probability of the label; of a regressor the Gaussian density of the residual over that of
    a perfect fit.
    """
    if probabilistic:
        return np.maximum(expit(scores), SMALLEST)
    with np.errstate(over="ignore", under="ignore"):
        return np.maximum(np.exp(-0.5 * (scores / scale) ** 2), SMALLEST)


def residual_scale(residuals: FloatArray, trained_on: BoolArray) -> float:
    """Root mean square of the residuals of records under models without them.

    Shapes: ``residuals`` (n_models, n); ``trained_on`` (n_models, n).
    """
    apart = np.abs(residuals[~trained_on]) if not trained_on.all() else np.abs(residuals).ravel()
    unit = float(apart.max()) or 1.0
    return max(unit * float(np.sqrt(np.mean((apart / unit) ** 2))), float(SMALLEST))


def interpolation_of(likelihood: FloatArray, trained_on: BoolArray) -> float:
    """Slope a of ``p_in - 1 = a (p_out - 1)`` over records that have both, by least squares.

    Shapes: ``likelihood`` (n_models, n); ``trained_on`` (n_models, n); returns: in [0, 1], and 1
    where there are none: models fit what they were trained on no worse.
    """
    means = _means(likelihood, trained_on)
    lost = 1.0 - means[:, ~np.isnan(means).any(axis=0)]
    total = float(np.sum(lost[0] ** 2))
    return float(np.clip(np.sum(lost[0] * lost[1]) / total, 0.0, 1.0)) if total > 0.0 else 1.0


def usual_likelihoods(
    likelihood: FloatArray, trained_on: BoolArray, interpolation: float
) -> FloatArray:
    """Mean likelihood over models with and without each record in equal parts, of shape (n,).

    Shapes: ``likelihood`` (n_models, n); ``trained_on`` (n_models, n). Of what no model was trained
    on it is ``((1 + a) p_out + 1 - a) / 2``, a being the interpolation.
    """
    out, inside = _means(likelihood, trained_on)
    expected = interpolation * out + 1.0 - interpolation
    inside = np.where(np.isnan(inside), expected, inside)
    return np.maximum(0.5 * (np.where(np.isnan(out), inside, out) + inside), SMALLEST)


def _means(likelihood: FloatArray, trained_on: BoolArray) -> FloatArray:
    """Mean under models without each record, and with it, (2, n); NaN where there is none."""
    sides = np.stack([~trained_on, trained_on])
    number = sides.sum(axis=1)
    total = np.where(sides, likelihood, 0.0).sum(axis=1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def dominated_shares(ratios: FloatArray, population: FloatArray, gamma: float) -> FloatArray:
    """Share of the population that each record's ratio exceeds by a factor, in [0, 1].

    Shapes: ``ratios`` (n_targets,); ``population`` (n_population,); returns (n_targets,). Equal
    shares are ordered by the ratio.
    """
    order = np.sort(population)
    # With a little room, as equal numbers come about by different roundings.
    number = np.searchsorted(order, ratios / gamma * (1.0 + 1e-12), side="right")
    return (number / len(order) + _TIE_BREAKER * ratios / (1.0 + ratios)) / (1.0 + _TIE_BREAKER)
