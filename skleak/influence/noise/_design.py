"""The smallest ellipsoid, by the sum of its squared half axes, that holds given points.

    minimise  tr Z   subject to   a_k^T Z^-1 a_k <= 1  for all k .

Its dual is an optimal design: with weights ``mu_k >= 0`` and ``M = sum mu_k a_k a_k^T``, the
minimum is the largest value of ``(tr M^(1/2))^2 / sum mu``, where ``Z = 2 M^(1/2)``. Any weights
give a lower bound on ``tr Z``.
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg

from skleak.utils._typing import FloatArray

# Share of the longest half axis below which no half axis counts as shorter.
_FLOOR = 1e-8
_NEWTON_STEPS = 100
# Added to a unit diagonal: atoms may be many times as many as their span has dimensions.
_JITTER = 1e-13


def enclosing_design(points: FloatArray, weights: FloatArray, *, tol: float = 1e-9) -> FloatArray:
    """Weights of the points that the smallest ellipsoid touches.

    Minimises ``sum mu - tr M(mu)^(1/2)`` over ``mu >= 0``, which is the design up to a factor, by
    a primal-dual interior point method with the exact Hessian.

    Shapes: ``points`` (m, p); ``weights`` (m,); returns (m,): ``mu``, positive; ``2 M(mu)^(1/2)``
    is the ellipsoid.
    """
    size = float(np.sqrt(np.mean(np.sum(points**2, axis=1))))
    points = points / size
    mu = np.maximum(weights, 1e-3 * weights.mean())
    # Along its ray the objective is least where sum mu = tr M^(1/2) / 2.
    mu = mu * (_half_trace(points, mu) / mu.sum()) ** 2
    slack = np.maximum(1.0 - _touch(points, mu)[0], 1e-2)
    for _ in range(_NEWTON_STEPS):
        touch, hessian = _touch(points, mu)
        gap, outside = float(mu @ slack), float(touch.max()) - 1.0
        if gap <= tol * mu.sum() and outside <= tol:
            break
        target = 0.1 * gap / len(mu)
        system = hessian() + np.diag(slack / mu)
        step = _solve(system, touch - 1.0 + target / mu)
        slack_step = target / mu - slack - slack / mu * step
        length = min(1.0, _to_boundary(mu, step), _to_boundary(slack, slack_step))
        mu, slack = mu + length * step, slack + length * slack_step
    return mu * size**2


def _solve(system: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a positive definite system, scaled to a unit diagonal and kept off singularity."""
    scale = np.sqrt(np.diag(system))
    scaled = system / np.outer(scale, scale)
    scaled[np.diag_indices_from(scaled)] += _JITTER
    return linalg.cho_solve(linalg.cho_factor(scaled), right / scale) / scale


def _half_trace(points: FloatArray, mu: FloatArray) -> float:
    values = np.linalg.eigvalsh((points.T * mu) @ points)
    return 0.5 * float(np.sqrt(np.maximum(values, 0.0)).sum())


def _touch(points: FloatArray, mu: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
    """``a_k^T M^(-1/2) a_k / 2`` of every point, and the Hessian on demand."""
    values, vectors = np.linalg.eigh((points.T * mu) @ points)
    roots = np.sqrt(np.maximum(values, _FLOOR**2 * values[-1]))
    turned = points @ vectors

    def hessian() -> FloatArray:
        theta = 0.5 / (np.outer(roots, roots) * np.add.outer(roots, roots))
        pairs = turned[:, :, None] * turned[:, None, :] * np.sqrt(theta)
        upper = np.triu_indices(len(roots), 1)
        flat = np.concatenate(
            [np.einsum("kii->ki", pairs), np.sqrt(2.0) * pairs[:, upper[0], upper[1]]], axis=1
        )
        return flat @ flat.T

    return 0.5 * (turned**2) @ (1.0 / roots), hessian


def _to_boundary(values: FloatArray, step: FloatArray) -> float:
    """Longest step, a little shortened, that keeps positive values positive."""
    falling = step < 0.0
    return 0.99 * float(np.min(-values[falling] / step[falling])) if np.any(falling) else 1.0
