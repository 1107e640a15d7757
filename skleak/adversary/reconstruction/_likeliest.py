"""Records from the gradients that are missing at a release."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skleak.adversary.reconstruction._missing import MissingGradient
from skleak.utils._typing import FloatArray

_GRID = 64
_NEWTON_STEPS = 20
# From a few widths of a range down to round-off.
_BISECTIONS = 60
# A residual below this, relative to the gradient, would be of a record longer than any.
_SHORTEST = 1e-9


def reconstruct_unknown(missing: MissingGradient) -> FloatArray:
    """Record and target where neither is known: as many equations as unknowns.

    Returns (n_targets, d + 1): the target last.
    """
    r = missing.gradient[:, -1:]
    x = missing.gradient[:, :-1] / r
    a = _along(x, missing.w[:, :-1]) + missing.w[:, -1]
    y = missing.loss.inverse_link(a) - r[:, 0]
    return np.column_stack([x, y])


def reconstruct_known(missing: MissingGradient) -> FloatArray:
    """Likeliest record given the target; see the notes of `InformedReconstruction`.

    Returns (n_targets, d).
    """
    w_pen = missing.w[:, :-1]
    seen = np.column_stack([_along(missing.gradient[:, :-1], w_pen), missing.gradient[:, -1]])
    cross = missing.image_w[:, -1]
    metric = np.stack(
        [
            np.stack([_along(missing.image_w[:, :-1], w_pen), cross], axis=1),
            np.stack([cross, missing.image_e[:, -1]], axis=1),
        ],
        axis=1,
    )
    metric = _inverse_2x2(metric)
    a = _likeliest_prediction(missing, seen, metric)
    gap = np.einsum("nij,nj->ni", metric, seen - _on_curve(missing, a)[0])
    gradient = missing.gradient - gap[:, :1] * missing.image_w - gap[:, 1:] * missing.image_e
    r = missing.loss.residual(a, missing.y)
    return gradient[:, :-1] / r[:, None]


def reconstruct_roots(missing: MissingGradient) -> FloatArray:
    """Return the records that a gradient without an intercept allows, given the target.

    Returns (2, n_targets, d): one for each solution ``a`` of ``r(a) a = g.w``; equal where there
    is but one.

    The gradient ``g = r x`` has the direction of the record, and ``g.w = r(a) a`` tells the
    prediction ``a = x.w``. The left side falls and then rises in ``a``, for each of the losses,
    so that each arm holds at most one solution. Where noise leaves an arm without one,
    its end is closest: the turning point, or the widened range of the predictions of the others.
    """
    loss, y = missing.loss, missing.y
    seen = _along(missing.gradient, missing.w)
    width = 2.0 * (missing.high - missing.low)
    low, high = missing.low - width, missing.high + width

    def product(a: FloatArray) -> FloatArray:
        return loss.residual(a, y) * a

    turn = _crossing(lambda a: loss.residual(a, y) + loss.curvature(a) * a, low, high)
    left = _crossing(lambda a: seen - product(a), low, turn)
    right = _crossing(lambda a: product(a) - seen, turn, high)
    # The turning point of a count of one has no residual: the record is then as long as can be,
    # in either direction. The residual rises, so that the left arm is the negative side.
    floor = np.maximum(_SHORTEST * np.linalg.norm(missing.gradient, axis=1), np.finfo(float).tiny)
    residuals = np.stack([loss.residual(left, y), loss.residual(right, y)])
    ends = np.stack([-floor, floor])
    residuals = np.where(np.abs(residuals) < floor, ends, residuals)
    return np.asarray(missing.gradient / residuals[:, :, None])


def _crossing(
    function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Find where increasing functions cross zero; an end where they do not.

    Bisection needs no sign change, nor finite values.
    """
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        above = function(middle) > 0.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))


def _along(vectors: FloatArray, w: FloatArray) -> FloatArray:
    """Products of rows, of shape (n,)."""
    return np.asarray(np.einsum("ij,ij->i", vectors, w))


def _inverse_2x2(matrices: FloatArray) -> FloatArray:
    """Inverse of symmetric positive matrices, kept finite where one is singular (w = 0)."""
    floor = 1e-13 * np.trace(matrices, axis1=1, axis2=2)
    return np.linalg.inv(matrices + np.maximum(floor, 1e-300)[:, None, None] * np.eye(2))


def _on_curve(missing: MissingGradient, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points ``r(a) (a - b, 1)`` that the target allows, and their derivative, (n, 2) each."""
    r, c = missing.loss.residual(a, missing.y), missing.loss.curvature(a)
    height = a - missing.w[:, -1]
    return np.stack([r * height, r], axis=-1), np.stack([c * height + r, c], axis=-1)


def _likeliest_prediction(
    missing: MissingGradient, seen: FloatArray, metric: FloatArray
) -> FloatArray:
    """Prediction whose point on the curve is closest to what was seen, of shape (n,)."""

    def distance(a: FloatArray) -> FloatArray:
        gap = _on_curve(missing, a)[0] - seen
        return np.nan_to_num(np.einsum("ni,nij,nj->n", gap, metric, gap), nan=np.inf)

    # Without noise the quotient of the two entries is the answer.
    best = seen[:, 0] / seen[:, 1] + missing.w[:, -1]
    value = distance(best)
    for share in np.linspace(0.0, 1.0, _GRID):
        start = missing.low + share * (missing.high - missing.low)
        best, value = _better(best, value, start, distance)
    step_size = np.ones(len(best))
    # Wide enough to leave the guess unbiased; beyond, the residual underflows.
    width = 2.0 * (missing.high - missing.low)
    for _ in range(_NEWTON_STEPS):
        point, slope = _on_curve(missing, best)
        toward = np.einsum("ni,nij->nj", slope, metric)
        curvature = np.einsum("nj,nj->n", toward, slope)
        step = np.einsum("nj,nj->n", toward, seen - point) / np.maximum(curvature, 1e-300)
        before = value
        trial = np.clip(best + step_size * step, missing.low - width, missing.high + width)
        best, value = _better(best, value, trial, distance)
        step_size = np.where(value < before, np.minimum(1.0, 2 * step_size), 0.25 * step_size)
    return best


def _better(
    best: FloatArray, value: FloatArray, trial: FloatArray, distance: Any
) -> tuple[FloatArray, FloatArray]:
    there = distance(trial)
    closer = there < value
    return np.where(closer, trial, best), np.where(closer, there, value)
