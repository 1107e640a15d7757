"""The largest value of a smooth function that is known at Chebyshev nodes."""

import numpy as np
from numpy.polynomial import chebyshev

from skleak.utils._typing import BoolArray, FloatArray

# Encodings are analytic in a quantity, with poles about the square root of the number of records
# standard deviations off: of 60 records this many nodes locate it to 1e-5, of more to round-off.
N_NODES = 33
_GRID = 65
_NEWTON_STEPS = 4
# Number of the last terms of a series that tell how much those beyond them may be.
_LAST = 8
# Share of the largest term from which the last ones are small.
_RESOLVED = 1e-3
_ROUND_OFF = 1e-10
# Places between the nodes at which an interpolation is held against what it interpolates.
HELD_OUT = np.array([-0.97, -0.83, -0.41, -0.13, 0.07, 0.29, 0.52, 0.91])
# Most that a smooth log-likelihood may be missed by: in nats, and as a share of its range.
_MISS, _SHARE = 1e-2, 1e-6


def chebyshev_nodes(low: FloatArray, high: FloatArray) -> FloatArray:
    """Chebyshev points with both ends of an interval.

    Shapes: ``low``, ``high`` (n,); returns (N_NODES, n): ascending.
    """
    nodes = np.asarray(chebyshev.chebpts2(N_NODES))
    return np.asarray(low + (high - low) * (0.5 * (nodes[:, None] + 1.0)), dtype=np.float64)


def chebyshev_coefficients() -> FloatArray:
    """Matrix from values at the nodes to Chebyshev coefficients, of shape (N_NODES, N_NODES)."""
    vandermonde = chebyshev.chebvander(chebyshev.chebpts2(N_NODES), N_NODES - 1)
    return np.asarray(np.linalg.inv(vandermonde), dtype=np.float64)


def interpolation_matrix(points: FloatArray) -> FloatArray:
    """Matrix from values at the nodes to values at points of [-1, 1].

    Shapes: ``points`` (k,); returns (k, N_NODES).
    """
    terms = chebyshev.chebvander(points, N_NODES - 1)
    return np.asarray(terms @ chebyshev_coefficients(), dtype=np.float64)


def truncation_error(sizes: FloatArray) -> FloatArray:
    """Bound what is beyond the last of the terms (n_targets, N_NODES) of a series.

    Those of an analytic function end up falling at a constant rate: where the last few are half of
    those before, and small, all that follow are no more than them. These count twice: they are left
    out, and taken for terms of lower degree.
    """
    last, before = sizes[:, -_LAST:].sum(axis=1), sizes[:, -2 * _LAST : -_LAST].sum(axis=1)
    largest = sizes.max(axis=1)
    falling = (last <= 0.5 * before) & (last <= _RESOLVED * largest)
    return np.where(falling | (last <= _ROUND_OFF * largest), 2.0 * last, np.inf)


def is_smooth(at_nodes: FloatArray, between: FloatArray) -> BoolArray:
    """Tell whether polynomials through log-likelihoods at the nodes meet those in between.

    Shapes: ``at_nodes`` (..., N_NODES); ``between`` (..., k), at the places `HELD_OUT`; returns
    (...). Of trees and nearest neighbors, whose answers are steps, they miss them by a good part of
    their range.
    """
    finite = np.isfinite(at_nodes).all(axis=-1) & np.isfinite(between).all(axis=-1)
    known = np.expand_dims(finite, -1)
    nodes, true = (np.where(known, values, 0.0) for values in (at_nodes, between))
    spread = np.ptp(nodes, axis=-1, keepdims=True)
    # What is constant but for round-off is smooth.
    floor = _ROUND_OFF * np.abs(nodes).max(axis=-1, keepdims=True)
    missed = np.abs(nodes @ interpolation_matrix(HELD_OUT).T - true)
    allowed = _MISS * np.minimum(spread, 1.0) + _SHARE * spread + floor
    return np.asarray(finite & np.all(missed <= allowed, axis=-1))


def maximize(values: FloatArray) -> FloatArray:
    """Find the maxima on [-1, 1] of the polynomials through values at the nodes.

    Shapes: ``values`` (k, N_NODES); returns (k,): the best point of a grid, refined by Newton
    steps that stay within one grid cell of it.
    """
    # Only differences matter, and they may be tiny beside the values.
    values = values - values.max(axis=1, keepdims=True)
    grid = np.linspace(-1.0, 1.0, _GRID)
    best = grid[np.argmax(values @ interpolation_matrix(grid).T, axis=1)]
    width = grid[1] - grid[0]
    low, high = np.maximum(best - width, -1.0), np.minimum(best + width, 1.0)
    series = chebyshev_coefficients() @ values.T
    slope = chebyshev.chebder(series)
    bend = chebyshev.chebder(slope)
    for _ in range(_NEWTON_STEPS):
        gradient = chebyshev.chebval(best, slope, tensor=False)
        curvature = chebyshev.chebval(best, bend, tensor=False)
        # Where the function is not concave, climb to the end of the cell instead.
        step = np.where(
            curvature < 0.0,
            -gradient / np.where(curvature < 0.0, curvature, 1.0),
            np.sign(gradient) * width,
        )
        best = np.clip(best + step, low, high)
    return best
