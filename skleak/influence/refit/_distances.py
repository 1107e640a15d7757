"""Proven bounds on what one changed entry of one record does to distances of encodings.

The encodings of two values of record j, less those had record i another value, are a second
difference: from ``z = w + D_i + D_j`` the changed fit is one step away, whose gradient is

    G = E_i D_j + E_j D_i + sum_k s x (r(a + t_i + t_j) - r(a + t_i) - r(a + t_j) + r(a)) ,

the E at integrated curvatures; record i may have changed in other columns than j, or in its target.
With ``Q = ||G||`` in the norm of the inverse Hessian the minimiser
lies within ``Q / (1 - k)`` of z in the norm of the Hessian, as F is convex.
"""

from dataclasses import dataclass, replace

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.refit._brackets import _ROUNDING, TableMaxima, _largest_variance, is_own
from skleak.influence.refit._candidates import TABLE_ELEMENTS, candidate_encodings, encoded
from skleak.influence.refit._changes import Change, TargetChange
from skleak.influence.refit._reach import Reach
from skleak.influence.state import FitState
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import FloatArray, IntArray

# Columns of what is changed, None for the target, and their values; and those of an attribute.
Block = tuple[IntArray | None, FloatArray]
Attribute = tuple[IntArray | None, FloatArray]


def distance_brackets(
    state: FitState,
    rows: IntArray,
    secret: Block,
    attribute: Attribute,
    distances: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Bound the largest distance between two values of an attribute, had one record another entry.

    For one predictor, noise of a fixed covariance and no reweighting. The ``secret`` is what is
    changed in one of the training ``rows``: the attribute itself or something else. ``distances``
    are the largest ones between the encodings of two values of the attribute of each record, over
    the noise at scale 1. Where the attribute is the target, of columns None, so is the secret.

    Shapes: ``rows``, ``distances`` (n,); returns (n, n_values) twice, at unit noise: entry
    ``[i, m]`` is for the data in which record i carries the m-th value of the secret.

    The distances of record i itself do not depend on its own attribute; had it another entry, they
    are computed.
    """
    (columns, values), (ends, end_values) = secret, attribute
    n, n_values = len(rows), len(values)
    watched = np.zeros(0, dtype=np.intp) if ends is None else ends
    reach = Reach.of(state, rows, columns, values, watched)
    own = np.repeat(distances[:, None], n_values, axis=1)
    if ends is None and columns is not None:
        raise ValueError("Distances of targets are bounded for changes of targets alone.")
    if ends is None or (columns is not None and np.array_equal(columns, ends)):
        others = reach
    else:
        others, steps = state.once(_Steps.of(rows, attribute))
        if columns is not None:
            others = replace(others, watched=np.linalg.norm(steps[:, :, columns], axis=2))
        _measure_own(state, rows, secret, attribute, own)
    pairs = _Pairs.of(state, rows, reach, others)
    # Of two values one is the actual one; of more, both ends of a distance may move.
    moving = 1.0 if len(end_values) == 2 else 2.0
    # Records whose distance stays below that of another one are never the largest.
    farthest = moving * pairs.cross_differences(reach.largest().take(np.s_[None]).largest())[0]
    near = np.flatnonzero(distances + farthest >= np.sort(distances)[-2:][0])
    pairs = replace(pairs, others=pairs.others.take(near))
    low, high = own.copy(), own.copy()
    for m in range(n_values):
        for block in row_blocks(n, len(near)):
            moved = moving * pairs.cross_differences(reach.take((block, m)))
            itself = near == np.arange(n)[block, None]
            for bounds, sign in ((low, -1.0), (high, 1.0)):
                rest = np.where(itself, -np.inf, distances[near] + sign * moved)
                bounds[block, m] = np.maximum(bounds[block, m], rest.max(axis=1))
    same, actual = is_own(state.training.take(rows), columns, values), float(distances.max())
    # Where a minimiser is not reached, the distance may be any.
    low = np.maximum(np.nan_to_num(low, nan=0.0, posinf=np.inf), 0.0) * (1.0 - _ROUNDING)
    high = np.nan_to_num(high, nan=np.inf, posinf=np.inf) * (1.0 + _ROUNDING)
    return np.where(same, actual, low), np.where(same, actual, high)


def largest_distances(encodings: FloatArray) -> FloatArray:
    """Largest distance between two values of each record, of encodings (n, n_values, p).

    Shapes: ``encodings`` (n, n_values, p); returns (n,).
    """
    result = np.zeros(len(encodings))
    for m in range(encodings.shape[1] - 1):
        gaps = encodings[:, m + 1 :] - encodings[:, m, None]
        result = np.maximum(result, np.linalg.norm(gaps, axis=2).max(axis=1))
    return result


@dataclass(frozen=True)
class _Steps:
    """Steps of the fit at every value of an attribute in some records, found once a fit."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, rows: IntArray, attribute: Attribute) -> "_Steps":
        columns, values = attribute
        assert columns is not None
        return cls(tuple(rows.tolist()), tuple(columns.tolist()), tuple(map(tuple, values)))

    def __call__(self, state: FitState) -> tuple[Reach, FloatArray]:
        """Reach with no column watched, (n, n_values), and steps, (n, n_values, p)."""
        rows, columns, values = map(np.array, (self.rows, self.columns, self.values))
        X, y = state.objective.X[rows], state.objective.y[rows]
        encodings = candidate_encodings(state, X, y, columns, values, rows=rows)
        reach = Reach.of(state, rows, columns, values, np.zeros(0, dtype=np.intp))
        return reach, encodings - state.factor.coefficients


def _measure_own(
    state: FitState, rows: IntArray, secret: Block, attribute: Attribute, distances: FloatArray
) -> None:
    """Put in the largest distance of each record itself at other values, (n, n_values)."""
    (columns, values), (ends, end_values) = secret, attribute
    assert ends is not None
    objective, n_ends = state.objective, len(end_values)
    same = is_own(state.training.take(rows), columns, values)
    for m, value in enumerate(np.repeat(values[:, None], n_ends, axis=1)):
        changed = np.flatnonzero(~same[:, m])
        for block in row_blocks(len(changed), n_ends * Change.width(state), TABLE_ELEMENTS):
            some = rows[changed[block]]
            X, y = dense(objective.X[some]), objective.y[some]
            if columns is None:
                change: Change = TargetChange.to(state, X, y, some, value[:, 0], ends, end_values)
            else:
                both = np.append(columns, ends), np.hstack([value, end_values])
                change = Change.of(state, X, y, some, *both)
            encodings = state.noise.whitened(encoded(change))
            encodings = encodings.reshape(len(some), n_ends, -1)
            distances[changed[block], m] = largest_distances(encodings)


@dataclass(frozen=True)
class _Pairs:
    """Bounds on second differences of the minimiser, over a changed record and all others."""

    others: Reach  # of every record over all its values, of shape (n,)
    quadratic: bool
    longest: float  # largest leverage of a record, changed or not
    variance: float  # largest eigenvalue of A, in coordinates in which the noise is isotropic

    @classmethod
    def of(cls, state: FitState, rows: IntArray, changed: Reach, others: Reach) -> "_Pairs":
        longest = TableMaxima.of(state, rows, Columns()).leverage
        return cls(
            others.largest(),
            state.objective.loss.quadratic,
            max(longest, float(changed.leverage.max()), float(others.leverage.max())),
            _largest_variance(state),
        )

    def cross_differences(self, changed: Reach) -> FloatArray:
        """Norm of ``(w_ij - w_i) - (w_j - w)`` over the noise, (b, n) for changes of shape (b,)."""
        i = changed.take(np.s_[:, None])
        j = self.others
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            least = i.least + j.least - 1.0
            inverse = np.where(least > 0.0, 1.0 / least, np.inf)
            far = i.predictor + j.predictor + i.length * j.watched + j.length * i.watched
            growth = 1.0 if self.quadratic else np.exp(far)
            gradient = _crossing(i, j, growth) + _crossing(j, i, growth)
            if not self.quadratic:
                gradient += growth * np.minimum(i.predictor * j.energy, j.predictor * i.energy)
            gradient *= np.sqrt(inverse)
            if not self.quadratic:
                reached = far + 2.0 * gradient * np.sqrt(inverse * self.longest)
                change = np.expm1(reached)
                gradient = np.where(change <= 0.5, gradient / (1.0 - change), np.inf)
            result = gradient * np.sqrt(inverse * self.variance)
        return np.nan_to_num(result, nan=np.inf, posinf=np.inf)


def _crossing(i: Reach, j: Reach, growth: FloatArray | float) -> FloatArray:
    """Bound ``E_i D_j`` in the norm of A, of shape (b, n)."""
    along = i.length * j.watched  # of D_j along the change of x_i
    own = np.sqrt(i.own_leverage)
    curvature = i.curvature * growth
    uneven = i.curvature_change + (growth - 1.0) * (2.0 * i.curvature + i.curvature_change)
    return i.weight * (
        curvature * np.sqrt(i.change_leverage) * (j.predictor + along)
        + curvature * own * along
        + uneven * own * j.predictor
    )
