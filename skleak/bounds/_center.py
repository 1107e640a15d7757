"""Where to put the reference of the trade-off bound: smallest ball, then descent.

Everything works on a batch of ``n`` channels at once. Any centre gives a valid bound, so none of
this needs to converge for the bound to hold.
"""

import numpy as np

from skleak.bounds._water_filling import water_filling
from skleak.utils._typing import FloatArray

BALL_ITERATIONS = 300
BALL_TOLERANCE = 1e-12
DESCENT_ITERATIONS = 40
DESCENT_TOLERANCE = 1e-6


def affine_coordinates(encodings: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Rotate M points of a high dimension into the space they span around their mean.

    Shapes: ``encodings`` (n, M, d); returns ``coordinates`` (n, M, r): same pairwise distances,
    ``r = min(d, M)``; ``origin`` (n, 1, d): mean of the points; ``basis`` (n, d, r): ``encodings =
    origin + coordinates @ basis^T``; None for the identity.
    """
    origin = encodings.mean(axis=1, keepdims=True)
    centered = encodings - origin
    if encodings.shape[2] <= encodings.shape[1]:
        return centered, origin, None
    basis, triangle = np.linalg.qr(np.swapaxes(centered, 1, 2))
    return np.swapaxes(triangle, 1, 2), origin, basis


def distances_to(points: FloatArray, center: FloatArray) -> FloatArray:
    """Euclidean distances of shape (n, M) from (n, M, r) points to an (n, r) centre."""
    return np.linalg.norm(points - center[:, np.newaxis, :], axis=2)


def ball_weights(points: FloatArray) -> FloatArray:
    """Convex weights of the centre of the smallest ball around each set of points.

    Frank-Wolfe with away steps and exact line search on the dual, ``max sum_m w_m |x_m|^2 -
    |sum_m w_m x_m|^2`` over the simplex; it converges linearly.

    Shapes: ``points`` (n, M, r); returns (n, M): rows sum to 1; the centre is ``weights @
    points``.
    """
    n, n_values, _ = points.shape
    rows = np.arange(n)
    weights = np.full((n, n_values), 1.0 / n_values)
    for _ in range(BALL_ITERATIONS):
        center = (weights[:, np.newaxis, :] @ points)[:, 0, :]
        square = ((points - center[:, np.newaxis, :]) ** 2).sum(axis=2)
        average = (weights * square).sum(axis=1)
        far = square.argmax(axis=1)
        near = np.where(weights > 0.0, square, np.inf).argmin(axis=1)
        gain_far = square[rows, far] - average
        gain_near = average - square[rows, near]
        if np.all(np.maximum(gain_far, gain_near) <= BALL_TOLERANCE * average):
            break
        toward = gain_far >= gain_near
        pick = np.where(toward, far, near)
        own = weights[rows, pick]
        # Best step towards (or away from) one point, kept inside the simplex.
        size = square[rows, pick]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = 0.5 * np.where(toward, gain_far, -gain_near) / size
            lowest = np.where(own < 1.0, -own / (1.0 - own), 0.0)
        step = np.where(size > 0.0, np.clip(np.nan_to_num(step), lowest, 1.0), lowest)
        weights = weights * (1.0 - step)[:, np.newaxis]
        weights[rows, pick] += step
        weights[rows, pick] = np.where(step <= lowest, 0.0, weights[rows, pick])
    return weights


def descend(
    points: FloatArray, prior: FloatArray, center: FloatArray, max_iter: int = DESCENT_ITERATIONS
) -> FloatArray:
    """Move the centres downhill on the trade-off bound.

    By the envelope theorem the bound changes by ``p_m phi(u_m)`` per unit of ``d_m``. Setting the
    gradient in the centre to zero makes it the mean of the encodings with weights
    ``p_m phi(u_m) / d_m``; that fixed point is iterated, with shorter steps where one fails.

    Shapes: ``points`` (n, M, r), encodings in units of the noise; ``prior`` (n, M), rows sum to 1;
    ``center`` (n, r); returns (n, r): centres whose bound is no larger than at the start.
    """
    center = np.array(center, dtype=float)
    distances = distances_to(points, center)
    value, pull = water_filling(distances, prior)
    step = np.ones(len(points))
    active = np.arange(len(points))
    for _ in range(max_iter):
        here, near = points[active], np.maximum(distances[active], 1e-9)
        with np.errstate(over="ignore"):
            weights = np.minimum(pull[active] / near, 1e9)
        total = weights.sum(axis=1, keepdims=True)
        target = np.einsum("nm,nmr->nr", weights, here) / np.where(total > 0.0, total, 1.0)
        start = center[active]
        move = np.where(total > 0.0, target - start, 0.0)
        trial = start + step[active, np.newaxis] * move
        trial_distances = distances_to(here, trial)
        trial_value, trial_pull = water_filling(trial_distances, prior[active])
        drop = value[active] - trial_value
        better = drop > 0.0
        won = active[better]
        center[won], distances[won] = trial[better], trial_distances[better]
        value[won], pull[won] = trial_value[better], trial_pull[better]
        step[active] *= np.where(better, 1.5, 0.3)
        step = np.minimum(step, 4.0)
        go_on = np.where(better, drop > DESCENT_TOLERANCE * trial_value, step[active] > 1e-2)
        active = active[go_on & (total[:, 0] > 0.0)]
        if active.size == 0:
            break
    return center
