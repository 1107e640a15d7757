"""A numeric secret at its true value: what it encodes to, and how that changes with it."""

from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from skleak.adversary.hypotheses import (
    N_NODES,
    PublicModel,
    candidate_rows,
    chebyshev_coefficients,
    dense_table,
    truncation_error,
)
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Half the step of central differences of the preprocessing, in standard deviations of the column.
_STEP = 1e-4
# Number of the last terms of a series, in which solvers leave noise.
_LAST = 8
# Share of a derivative that may be in doubt; of one in more doubt nothing is known.
_DOUBT = 0.1
_ROUND_OFF = 1e-10


def at_truth(
    nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Interpolate what is known at the nodes of a quantity, at its true value.

    Shapes: ``nodes`` (n_targets, N_NODES, p); ``low``, ``high``, ``truth`` (n_targets,); returns
    ``values`` (n_targets, p); ``errors`` (n_targets,): how far off they may be, from the last
    terms of their series. Infinite for a value outside of its interval, and where the terms do not
    fall off.
    """
    series, place, inside = _series(nodes, low, high, truth)
    terms = chebyshev.chebvander(place, N_NODES - 1)
    errors = np.where(inside, truncation_error(np.linalg.norm(series, axis=2)), np.inf)
    return np.einsum("tm,tmp->tp", terms, series), errors


def slope_at_truth(
    nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray
) -> FloatArray:
    """Differentiate by a quantity, at its true value, what is known at its nodes.

    Shapes: ``nodes`` (n_targets, N_NODES, ...); ``low``, ``high``, ``truth`` (n_targets,); returns
    (n_targets, ...): NaN where the nodes do not tell: outside of the interval, and where a
    polynomial through them follows what they are of too loosely.
    """
    flat = nodes.reshape(*nodes.shape[:2], -1)
    series, place, inside = _series(flat, low, high, truth)
    degrees = np.arange(N_NODES)
    # T_k'(x) = k sin(k t) / sin(t) with x = cos(t): k^2 up to its sign at both ends, and no more.
    angle = np.arccos(place)[:, None]
    sine = np.sin(angle)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = degrees * np.sin(degrees * angle) / sine
    ends = degrees**2 * np.sign(place)[:, None] ** (degrees + 1)
    terms = np.where(sine > _ROUND_OFF, terms, ends)
    slope = np.einsum("tm,tmp->tp", terms, series)
    sizes = np.linalg.norm(series, axis=2)
    steep = np.minimum(degrees**2, degrees / np.maximum(sine, _ROUND_OFF))
    # Solvers leave noise in all terms, which need not fall off.
    doubt = 2.0 * (steep * sizes)[:, -_LAST:].sum(axis=1)
    limit = _DOUBT * np.linalg.norm(slope, axis=1) + _ROUND_OFF * sizes.max(axis=1)
    slope = np.where((inside & (doubt <= limit))[:, None], slope, np.nan)
    return np.asarray(slope / (0.5 * (high - low))[:, None]).reshape(len(nodes), *nodes.shape[2:])


def _series(
    nodes: FloatArray, low: FloatArray, high: FloatArray, truth: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Chebyshev series (n_targets, N_NODES, p), places of the truth in [-1, 1], whether inside."""
    place = (truth - low) / (0.5 * (high - low)) - 1.0
    series = np.einsum("km,tmp->tkp", chebyshev_coefficients(), nodes)
    return series, np.clip(place, -1.0, 1.0), np.abs(place) <= 1.0


def exact_slope(
    state: FitState,
    model: PublicModel,
    table: Any,
    targets: IntArray,
    index: int,
    column: FloatArray,
) -> FloatArray | None:
    """Differentiate a fit in closed form by a quantity, whatever its value is.

    Shapes: ``table`` (n, n_columns); ``targets`` (n_targets,); ``column`` (n,); returns
    (n_targets, p): None for a reweighting whose weights have no derivative.
    """
    derivative = fitted_derivative(state)
    if derivative.unbounded:
        return None
    half = _STEP * float(np.std(column))
    ends = np.stack([column[targets] + half, column[targets] - half])
    above, below = (
        dense_table(each) for each in candidate_rows(model, table, targets, index, ends)
    )
    tangent = (above - below) / (2.0 * half)
    slope = np.full((len(targets), len(state.factor.coefficients)), np.nan)
    if not state.converged:
        return slope
    for some in row_blocks(len(targets), slope.shape[1] * (state.n_features + 1)):
        jacobians = total_jacobian(state, targets[some], derivative=derivative)
        of_columns = jacobians[:, :, : tangent.shape[1]]
        slope[some] = np.einsum("ijk,ik->ij", of_columns, tangent[some])
    return slope
