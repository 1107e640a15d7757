"""How far apart the releases of a model are under different values of one column."""

from collections.abc import Sequence

import numpy as np

from skleak.influence import candidate_encodings
from skleak.influence.state import FitState
from skleak.utils._blocks import dense
from skleak.utils._typing import FloatArray, IntArray


def encodings(
    state: FitState, rows: IntArray, own: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """Minimisers with training records encoded as each of the candidates, (b, n_values, p).

    Shapes: ``own`` (b, d), the records by the fitted transformers; ``candidates`` (b, d) likewise.
    """
    moved = [np.any(each != own, axis=0) for each in candidates]
    columns = np.flatnonzero(np.any(moved, axis=0))
    if not len(columns):
        return np.tile(state.factor.coefficients, (len(rows), len(candidates), 1))
    X, y = state.objective.X[rows], state.objective.y[rows]
    # What the model was fitted on differs from what `transform` gives by rounding.
    gap = dense(X)[:, columns] - own[:, columns]
    values = np.stack([each[:, columns] + gap for each in candidates], axis=1)
    return candidate_encodings(state, X, y, columns, values, rows=rows)


def separations(state: FitState, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Largest distance over the noise of two encodings, and of one from the fit itself.

    Shapes: ``points`` (b, n_values, p), NaN where no minimiser is reached, and the distance
    infinite; returns (b,) each.
    """
    own = np.broadcast_to(state.factor.coefficients, (len(points), 1, points.shape[2]))
    white = state.noise.whitened(np.concatenate([own, points], axis=1))
    largest = [_furthest(white[:, m + 1 :], white[:, [m]]) for m in range(white.shape[1] - 1)]
    pair, from_own = np.max(largest, axis=0), largest[0]
    return over_noise(state, pair), over_noise(state, from_own)


def over_noise(state: FitState, lengths: FloatArray) -> FloatArray:
    """Lengths (b,) in units of the noise; NaN where the fit did not converge."""
    if not state.converged:
        return np.full_like(lengths, np.nan)
    if state.noise_scale > 0.0:
        return lengths / state.noise_scale
    return np.where(lengths > 0.0, np.inf, 0.0)


def _furthest(points: FloatArray, other: FloatArray) -> FloatArray:
    distances = np.linalg.norm(points - other, axis=2)
    distances = np.where(np.isnan(distances), np.inf, distances)
    return np.asarray(distances.max(axis=1))
