"""The largest eigenvalue of a small diagonal matrix plus one rank, for many at once."""

import numpy as np

from skleak.utils._typing import FloatArray

_MAX_STEPS = 60


def largest_root(poles: FloatArray, squares: FloatArray) -> FloatArray:
    """Largest eigenvalue of ``diag(poles) + z z^T`` with ``squares = z^2``, never below it.

    With t the distance to the largest pole and ``d_k`` the gaps below it, t solves

        t = sum_k z_k^2 t / (t + d_k),

    the right side being concave. Newton's method from ``t = |z|^2`` comes down on the root and
    never passes it, so that stopping early errs upward.

    Shapes: ``poles`` (k, n); ``squares`` (k, n); returns (n,).
    """
    top = poles.max(axis=0)
    gaps = top - poles
    total = squares.sum(axis=0)
    t = total.copy()
    for _ in range(_MAX_STEPS):
        below = t + gaps
        # At the pole itself the quotient is one, whatever the distance to it.
        share = np.divide(t, below, out=np.ones_like(below), where=gaps > 0.0)
        value = t - np.sum(squares * share, axis=0)
        change = np.divide(gaps, below**2, out=np.zeros_like(below), where=gaps > 0.0)
        slope = 1.0 - np.sum(squares * change, axis=0)
        step = np.divide(value, slope, out=np.zeros_like(t), where=slope > 0.0)
        step = np.clip(step, 0.0, t)
        t = t - step
        if np.all(step <= 4.0 * np.finfo(float).eps * (t + top)):
            break
    return np.asarray((top + t) * (1.0 + 1e-15))
