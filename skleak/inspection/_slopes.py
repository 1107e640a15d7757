"""Derivatives of encoded records, and of the fit in them.

Derivatives of a function that can only be evaluated, for many records at once.

Difference quotients at steps ``h, h/2, h/4, ...`` are extrapolated to ``h = 0`` (Richardson), and
of the extrapolations of every entry the one is taken that agrees best with its neighbors (Ridders,
Advances in Engineering Software 4, 1982). Quotients to either side are extrapolated likewise from
the same evaluations: where the two sides disagree, the function has a kink there. Where what a step
changes does not vanish with the step, it jumps, or its slope is infinite.

What a fit leaks about numbers that move several encoded columns of a record at once.

With the encoded record moving along ``t`` per unit of the number, the information about the number
is ``t^T I t`` for the information matrix ``I`` of the whole encoded record: the effects of its
columns on the minimizer can add up or cancel. Of several numbers with the tangents ``T`` it is the
matrix ``T^T I T``, the loss is the root of its largest eigenvalue, and the direction of that is the
one about which most is told.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState, RecordBatch
from skleak.inspection._pipeline import over_noise
from skleak.utils._blocks import dense
from skleak.utils._records import Persons
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# First step of difference quotients, in standard deviations of the column.
STEP = 0.05
# A function of the values (b,) of some records, given by position (b,): a table (b, k).
Function = Callable[[FloatArray, IntArray], FloatArray]
_LEVELS = 10  # steps from h to h / 512
_ORDERS = 4
# Each round takes steps that are smaller by this factor, for the records that need them.
_ROUNDS, _FINER = 3, 2.0**-_LEVELS
# Largest relative disagreement of the sides, and error of either, of a differentiable function.
_AGREEMENT = 1e-5
# Third differences of values at h, 2h, 4h, 8h, which leave nothing of a quadratic, and their norm.
_THIRD, _THIRD_NORM = np.array([-8.0, 14.0, -7.0, 1.0]), 310.0**0.5
# Differences that tell the noise of a function, of the finest steps; a jump is so many times it.
_FINEST, _ABOVE_NOISE = 5, 10.0
# Of the size of the values: what scatters by more is no noise, but jumps nearby.
_LARGEST_NOISE = 1e-5
# A step to an eighth or sixteenth changes a differentiable function by about as much.
_VANISHING, _NOTHING = 0.2, 1e-9


@dataclass(frozen=True)
class Slopes:
    """Derivatives of a function with respect to each record's value."""

    # Derivatives to either side; the same where there is one derivative. Zero on a side where the
    # function is not defined, (n, k)
    right: FloatArray
    left: FloatArray
    kinks: BoolArray  # Where the sides differ, (n,)
    jumps: BoolArray  # Where the function jumps, or has an infinite slope, (n,)


def slopes(
    function: Function,
    x: FloatArray,
    step: float,
    rounds: int = _ROUNDS,
    limits: tuple[float, float] = (-np.inf, np.inf),
    *,
    noisy: bool = False,
) -> Slopes:
    """Differentiate a function, which is defined within limits, at each record's value.

    A noisy function is one that ends a search somewhere within its tolerance, such as a refit: how
    far its values scatter is estimated, and no slope or jump below that is found.

    Shapes: ``x`` (n,); ``step`` is the first one, a few hundredths of what varies.
    """
    pending = np.arange(len(x))
    found = _one_round(function, x, pending, step, limits, noisy=noisy)
    right, left, kinks, jumps = found.right, found.left, found.kinks, found.jumps
    for _ in range(rounds - 1):
        pending = np.flatnonzero(kinks | jumps)
        if not len(pending):
            break
        step *= _FINER
        finer = _one_round(function, x, pending, step, limits, noisy=noisy)
        right[pending], left[pending] = finer.right, finer.left
        kinks[pending], jumps[pending] = finer.kinks, finer.jumps
    return Slopes(right, left, kinks, jumps)


def _one_round(
    function: Function,
    x: FloatArray,
    rows: IntArray,
    step: float,
    limits: tuple[float, float],
    *,
    noisy: bool,
) -> Slopes:
    """Slopes of some records from one ladder of steps."""
    x = x[rows]
    steps = step * 0.5 ** np.arange(_LEVELS)
    points = np.clip(x + np.concatenate([[0.0], steps, -steps])[:, None], *limits)
    with np.errstate(all="ignore"):
        table = function(points.ravel(), np.tile(rows, len(points)))
        table = table.reshape(*points.shape, -1)
        own, values = table[0], table[1:]
        gaps = (points[1:] - x)[:, :, None]  # as the numbers are, not as they should be
        right, left = values[:_LEVELS] - own, values[_LEVELS:] - own
        ups, downs = gaps[:_LEVELS], gaps[_LEVELS:]
        size = np.nanmax(np.abs(values), axis=0, initial=0.0).max(axis=0, initial=0.0)
        scatter = np.zeros_like(own)
        if noisy:
            scatter = np.fmax(_scatter(values[:_LEVELS]), _scatter(values[_LEVELS:]))
            scatter = np.where(scatter <= _LARGEST_NOISE * size, scatter, 0.0)
        floor = 4.0 * np.finfo(float).eps * np.abs(own) + scatter
        noise = floor / steps[:, None, None]
        both, error = _extrapolated((right - left) / (ups - downs), noise, 4.0)
        up, up_error = _extrapolated(right / ups, noise, 2.0)
        down, down_error = _extrapolated(left / downs, noise, 2.0)
    up_exists, down_exists = np.all(np.isfinite(up), axis=1), np.all(np.isfinite(down), axis=1)
    up, down = np.nan_to_num(up), np.nan_to_num(down)
    # Each encoded column by itself: they may be in units far apart.
    slope = np.maximum(np.abs(up), np.abs(down))
    allowed = _AGREEMENT * np.maximum(slope, slope.mean(axis=0))
    with np.errstate(all="ignore"):
        # Rounding noise is no kink.
        agree = np.abs(up - down) <= allowed + 2.0 * np.maximum(up_error, down_error)
        smooth = np.all(agree & (error <= allowed + noise[-1]), axis=1)
    smooth &= up_exists & down_exists
    result = np.where(smooth[:, None], np.nan_to_num(both), up)
    other = np.where(smooth[:, None], result, down)
    least = np.fmax(_NOTHING * size, _ABOVE_NOISE * scatter)
    jumps = _jump(right, least) | _jump(left, least)
    return Slopes(result, other, ~smooth, jumps | ~(up_exists | down_exists))


def _extrapolated(
    quotients: FloatArray, noise: FloatArray, ratio: float
) -> tuple[FloatArray, FloatArray]:
    """Best extrapolation to a step of zero of every entry, and its error, of shape (b, k).

    Shapes: ``quotients`` (levels, b, k), with errors in powers of the step squared (``ratio`` 4) or
    of the step (2); ``noise`` (levels, b, k), rounding error of each.
    """
    best, least = quotients[0], np.full(quotients.shape[1:], np.inf)
    before: list[FloatArray] = []
    for level, quotient in enumerate(quotients):
        row = [quotient]
        for order in range(1, min(level, _ORDERS) + 1):
            last, coarser = row[-1], before[order - 1]
            row.append(last + (last - coarser) / (ratio**order - 1.0))
            error = np.maximum(np.abs(row[-1] - last), np.abs(row[-1] - coarser)) + noise[level]
            better = error < least
            best, least = np.where(better, row[-1], best), np.where(better, error, least)
        before = row
    return np.where(np.isfinite(least), best, np.nan), least


def _scatter(values: FloatArray) -> FloatArray:
    """Noise (b, k) of values (levels, b, k) to one side, where a function that jumps is smooth."""
    differences = [
        np.tensordot(_THIRD, values[[k, k - 1, k - 2, k - 3]], axes=1)
        for k in range(len(values) - _FINEST, len(values))
    ]
    return np.asarray(np.max(np.abs(differences), axis=0) / _THIRD_NORM)


def _jump(changes: FloatArray, least: FloatArray) -> BoolArray:
    """Mask of the records where changes (levels, b, k) above the least do not vanish, (b,)."""
    last, larger = np.abs(changes[-1]), np.abs(changes[-5:-3]).max(axis=0)
    with np.errstate(invalid="ignore"):
        left = (last > _VANISHING * larger) & (last > least)
    return np.any(left, axis=1)


def flat_records(function: Function, x: FloatArray, step: float) -> BoolArray:
    """Mask of the records near which a function is constant, but for a jump, of shape (n,).

    A value at which the function jumps, as the edge of a bin, is one near which it is constant on
    the other side.
    """
    rows = np.arange(len(x))
    steps = step * _FINER * np.array([16.0, 1.0])
    flat = np.ones(len(x), dtype=bool)
    with np.errstate(all="ignore"):
        own = function(x, rows)
        rounding = 8.0 * np.finfo(float).eps * np.abs(own).max(axis=0, initial=0.0)
        for side in (1.0, -1.0):
            far, near = (np.abs(function(x + side * h, rows) - own) for h in steps)
            still = near <= rounding
            flat &= np.all(still | (near > 0.5 * far), axis=1)
    return flat


@dataclass(frozen=True)
class Worst:
    """The loss about some numbers of each record, and the direction in which it is largest."""

    loss: FloatArray  # Fisher information loss per unit of the numbers, (b,)
    direction: FloatArray  # of unit length, (b, m)


@dataclass(frozen=True)
class Movements:
    """Movements of a fit with training records, and what they tell of these."""

    state: FitState
    persons: Persons  # whose rows they are: in all of one person's a number moves by as much

    @cached_property
    def _batch(self) -> RecordBatch:
        return self.state.training.take(self.persons.rows)

    @cached_property
    def _total(self) -> FloatArray | None:
        """Derivatives of the whole algorithm under a reweighting, (b, p, d); None for infinite."""
        derivative, present = fitted_derivative(self.state), self._batch.present
        if derivative.unbounded:
            return None
        found = total_jacobian(self.state, self.persons.rows, derivative=derivative)
        return np.where(present[:, None, None], found[:, :, : self.state.n_features], 0.0)

    @cached_property
    def _information(self) -> FloatArray:
        """Information through mean and covariance, a function of the records, (b, d, d)."""
        noise, scale = fitted_noise(self.state), self.state.noise_scale
        mean, covariance = information_terms(self._batch, Columns(), noise=noise)
        return np.where(mean != 0.0, np.inf, 0.0) if scale == 0.0 else mean / scale**2 + covariance

    def jacobian(self, columns: IntArray) -> FloatArray:
        """Differentiate the minimizer in some encoded columns, with fixed weights, (b, p, k)."""
        batch = self._batch
        found: FloatArray = self.state.factor.jacobian(dense(batch.X), batch.y, columns)
        return found * batch.factors[:, None, None]

    def moved(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        """Differentiate the minimizer along m numbers, (n_persons, p, m).

        Shapes: ``columns`` (k,) of the encoded record; ``tangents`` (b, k, m), their derivatives.
        """
        if self.state.balanced is None:
            moved = self.jacobian(columns) @ tangents
        elif self._total is not None:
            moved = self._total[:, :, columns] @ tangents
        else:
            moves = self._batch.present[:, None] & np.any(tangents != 0.0, axis=1)
            ends = np.where(moves, np.inf, 0.0)[:, None]
            moved = np.repeat(ends, len(self.state.factor.coefficients), axis=1)
        return self.persons.sums(moved)

    def worst(self, columns: IntArray, tangents: FloatArray) -> Worst:
        """Loss of each person about m numbers together; shapes as in `moved`."""
        if not self.state.converged:
            n, m = len(self.persons), tangents.shape[2]
            return Worst(np.full(n, np.nan), np.full((n, m), m**-0.5))
        if not self.state.noise.reads_data:
            return worst_of(self.state, self.moved(columns, tangents))
        own = self._information[:, columns[:, None], columns]
        moves = np.any(tangents != 0.0, axis=(1, 2))
        with np.errstate(invalid="ignore"):
            gram = np.einsum("bkm,bkl,bln->bmn", tangents, own, tangents)
        endless = ~np.all(np.isfinite(gram), axis=(1, 2))
        values, vectors = np.linalg.eigh(np.where(endless[:, None, None], 0.0, gram))
        squares = np.where(endless, np.inf, np.maximum(values[:, -1], 0.0))
        return Worst(np.where(moves, np.sqrt(squares), 0.0), vectors[:, :, -1])


def worst_of(state: FitState, moved: FloatArray) -> Worst:
    """Loss of records along which the minimizer moves by ``moved``, of shape (b, p, m)."""
    b, _, m = moved.shape
    endless = ~np.all(np.isfinite(moved), axis=(1, 2))
    known = np.where(endless[:, None, None], 0.0, moved)
    white = state.noise.whitened(known.swapaxes(1, 2)).swapaxes(1, 2)
    if m == 1:
        length, direction = np.linalg.norm(white[:, :, 0], axis=1), np.ones((b, 1))
    else:
        _, lengths, axes = np.linalg.svd(white, full_matrices=False)
        length, direction = lengths[:, 0], axes[:, 0]
    return Worst(over_noise(state, np.where(endless, np.inf, length)), direction)


# Entries of the largest table of one block of records: 64 MB.
_BLOCK_ELEMENTS = 1 << 23
# Encoded tables that differentiation holds at once.
_TABLES = 24


def person_blocks(state: FitState, persons: Persons, n_values: float) -> Iterator[IntArray]:
    """Yield some persons at a time, of whom so many values, or a number (NaN), are looked at."""
    p, d = len(state.factor.coefficients), state.n_features
    prepared = d * d if state.noise.reads_data else 4 * p
    if state.balanced is not None:
        prepared = p * (d + 1)
    encoded = max(_TABLES, int(np.nan_to_num(n_values))) * max(d, p)
    return persons.blocks(max(prepared, encoded), 2 * _BLOCK_ELEMENTS)
