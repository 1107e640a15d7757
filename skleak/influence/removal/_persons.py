"""How far the noiseless model of each record is from the one without it."""

import numpy as np

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.refit import TABLE_ELEMENTS, candidate_encodings, target_encodings
from skleak.influence.removal._removals import removal_steps
from skleak.influence.state import FitState
from skleak.solvers import MultinomialObjective
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Entries of the tables of one block of removals: 256 MB.
_ELEMENTS = 1 << 25


def removal_distances(state: FitState) -> FloatArray:
    """Distance of the fits with and without each training record, over the noise at scale 1.

    For noise of a fixed covariance and no reweighting. Infinite for a record without which there
    is no minimiser, and zero for one of weight zero.

    Returns (n,).
    """
    distances = np.zeros(len(state.objective.y))
    for rows in _blocks(state, 1):
        steps = _steps(state, rows)
        distances[rows] = _lengths(state, steps)
    return distances


def secret_distances(state: FitState, columns: IntArray | None, values: FloatArray) -> FloatArray:
    """Largest distance from the fit without each record, over all values that it might have.

    The record's own value counts as well. Otherwise as `removal_distances`.

    Shapes: ``columns`` (k,), or None for the target; ``values`` (n_values, k); returns (n,).
    """
    X, y = state.objective.X, state.objective.y
    largest = state.once(removal_distances).copy()
    rest = np.isfinite(largest) & (state.objective.sample_weight > 0.0)
    for block in _blocks(state, len(values)):
        rows = block[rest[block]]
        if not len(rows):
            continue
        if columns is None:
            encodings = target_encodings(state, rows, values[:, 0])
        else:
            encodings = candidate_encodings(state, X[rows], y[rows], columns, values, rows=rows)
        without = state.factor.coefficients + _steps(state, rows)
        gaps = _lengths(state, encodings - without[:, None])
        largest[rows] = np.maximum(largest[rows], gaps.max(axis=1))
    return largest


def _blocks(state: FitState, n_values: int) -> list[IntArray]:
    """Positions of the training records, a block at a time."""
    n, p = len(state.objective.y), len(state.factor.coefficients)
    width, elements = p * n_values, _ELEMENTS
    if isinstance(state.objective, MultinomialObjective):
        width, elements = width * state.objective.n_classes, TABLE_ELEMENTS
    return [np.arange(n)[some] for some in row_blocks(n, width, elements)]


def _steps(state: FitState, rows: IntArray) -> FloatArray:
    """Steps of the minimiser without each of some records, (b, p); infinite where it has none."""
    try:
        return removal_steps(state.objective, state.factor.coefficients, rows)
    except AttackNotApplicableError:
        if len(rows) == 1:
            return np.full((1, len(state.factor.coefficients)), np.inf)
    return np.vstack([_steps(state, half) for half in np.array_split(rows, 2)])


def _lengths(state: FitState, steps: FloatArray) -> FloatArray:
    """Lengths of steps of shape (..., p) over the noise at scale 1, of shape (...)."""
    known = np.all(np.isfinite(steps), axis=-1)
    lengths = np.linalg.norm(state.noise.whitened(np.where(known[..., None], steps, 0.0)), axis=-1)
    return np.where(known, lengths, np.inf)
