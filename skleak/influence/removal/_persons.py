"""How far the noiseless model of each record is from the one without it."""

import numpy as np

from skleak.influence.refit import TABLE_ELEMENTS, candidate_encodings, target_encodings
from skleak.influence.removal._farthest import farthest_without
from skleak.influence.removal._removals import removal_steps
from skleak.influence.state import FitState, RecordBatch, alone_in_class, partial_state
from skleak.solvers import MultinomialObjective
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.blocks._dask import is_large

# Entries of the tables of one block of removals: 256 MB.
_ELEMENTS = 1 << 25


def removal_distances(state: FitState) -> FloatArray:
    """Distance of the fits with and without each training record, over the noise at scale 1.

    For noise of a fixed covariance and no reweighting: right to 1e-5 of it, or, for a minimizer
    that is not reached, a proven upper bound. Infinite for a record without which there is no
    minimizer, or which a class that was read off the labels needs, and zero for one of weight zero.

    Returns (n,).
    """
    return distances_without(state, np.arange(len(state.objective.y)))


def distances_without(state: FitState, rows: IntArray) -> FloatArray:
    """Do the same for some training records, also outside memory, by their positions (n,)."""
    distances = np.zeros(len(rows))
    for some in _blocks(state, len(rows), 1):
        distances[some] = _lengths(state, _steps(state, rows[some]))
    distances[alone_in_class(state, rows)] = np.inf
    for k in np.flatnonzero(np.isnan(distances)).tolist():
        distances[k] = farthest_without(state, int(rows[k]))
    return distances


def secret_distances(
    state: FitState,
    columns: IntArray | None,
    values: FloatArray,
    rows: IntArray | None = None,
) -> FloatArray:
    """Largest distance from the fit without each record, over all values that it might have.

    The record's own value counts as well. Otherwise as `removal_distances`, of all records or of
    those at some positions.

    Shapes: ``columns`` (k,), or None for the target; ``values`` (n_values, k); ``rows`` (n,);
    returns (n,).
    """
    if rows is None:
        rows = np.arange(len(state.objective.y))
        largest = state.once(removal_distances).copy()
    else:
        largest = distances_without(state, rows)
    here = _fetched(state, rows)
    rest = np.isfinite(largest) & (here.objective.sample_weight > 0.0)
    for block in _blocks(state, len(rows), len(values)):
        some = block[rest[block]]
        if not len(some):
            continue
        if columns is None:
            encodings = target_encodings(here, some, values[:, 0])
        else:
            X, y = here.objective.X[some], here.objective.y[some]
            encodings = candidate_encodings(here, X, y, columns, values, rows=some)
        without = state.factor.coefficients + _steps(state, rows[some])
        # Where one of the two minimizers is not reached, nothing bounds the distance.
        gaps = np.nan_to_num(_lengths(state, encodings - without[:, None]), nan=np.inf)
        largest[some] = np.maximum(largest[some], gaps.max(axis=1))
    return largest


def _fetched(state: FitState, rows: IntArray) -> FitState:
    """Return the fit with some of its records, (n,), in memory, each at its place among these."""
    if len(rows) == len(state.objective.y) and not is_large(state.objective.X):
        return state
    some = state.objective.parts(rows)
    batch = RecordBatch(some.X, some.y, some.sample_weight, some.reweights)
    return partial_state(state, rows, batch)


def _blocks(state: FitState, n: int, n_values: int) -> list[IntArray]:
    """Places of n training records, a block at a time."""
    p = len(state.factor.coefficients)
    width, elements = p * n_values, _ELEMENTS
    if isinstance(state.objective, MultinomialObjective):
        width, elements = width * state.objective.n_classes, TABLE_ELEMENTS
    return [np.arange(n)[some] for some in row_blocks(n, width, elements)]


def _steps(state: FitState, rows: IntArray) -> FloatArray:
    """Find steps of the minimiser without each record, (b, p); NaN where none is reached."""
    return removal_steps(state.objective, state.factor.coefficients, rows)


def _lengths(state: FitState, steps: FloatArray) -> FloatArray:
    """Lengths of steps (..., p) over the noise at scale 1, of shape (...); NaN where unknown."""
    known = np.all(np.isfinite(steps), axis=-1)
    lengths = np.linalg.norm(state.noise.whitened(np.where(known[..., None], steps, 0.0)), axis=-1)
    return np.where(known, lengths, np.nan)
