"""What a fit leaks about numbers that move several encoded columns of a record at once.

With the encoded record moving along ``t`` per unit of the number, the information about the number
is ``t^T I t`` for the information matrix ``I`` of the whole encoded record: the effects of its
columns on the minimiser can add up or cancel. Of several numbers with the tangents ``T`` it is the
matrix ``T^T I T``, the loss is the root of its largest eigenvalue, and the direction of that is the
one about which most is told.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skleak.influence.jacobian import Columns, MultinomialFactor
from skleak.influence.leakage import FittedNoise, Reweighted, leakage_model
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState, RecordBatch
from skleak.inspection._separation import over_noise
from skleak.utils._blocks import dense, row_blocks
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Entries of the largest table of one block of records: 64 MB.
_ELEMENTS = 1 << 23
# Encoded tables that differentiation holds at once.
_TABLES = 24


@dataclass(frozen=True)
class Worst:
    """The loss about some numbers of each record, and the direction in which it is largest."""

    loss: FloatArray  # Fisher information loss per unit of the numbers, (b,)
    direction: FloatArray  # of unit length, (b, m)


class Directions(ABC):
    """A block of training records, prepared for directions."""

    @abstractmethod
    def worst(self, columns: IntArray, tangents: FloatArray) -> Worst:
        """Loss of each record about m numbers together.

        Shapes: ``columns`` (k,) of the encoded record; ``tangents`` (b, k, m), their derivatives.
        """


def directions(state: FitState, rows: IntArray) -> Directions:
    """Prepare training records, given by position, by what carries their leakage."""
    if not state.converged:
        return _Unknown()
    if isinstance(leakage_model(state), FittedNoise):
        return _Informed.of(state, state.training.take(rows))
    return movements(state, rows)


def movements(state: FitState, rows: IntArray) -> "Movements":
    """Prepare training records of a fit whose noise does not depend on them."""
    batch, model = state.training.take(rows), leakage_model(state)
    if isinstance(model, Reweighted):
        return _Total.of(state, rows, batch)
    if isinstance(state.factor, MultinomialFactor):
        return _ManyPredictors.of(state, state.factor, batch)
    return _OnePredictor.of(state, batch)


@dataclass(frozen=True)
class _Unknown(Directions):
    """A fit that did not converge, of which no loss is known."""

    def worst(self, columns: IntArray, tangents: FloatArray) -> Worst:
        b, _, m = tangents.shape
        return Worst(np.full(b, np.nan), np.full((b, m), m**-0.5))


@dataclass(frozen=True)
class Movements(Directions):
    """Records of which it is known how the minimiser moves with them, over noise that is fixed."""

    state: FitState

    @abstractmethod
    def moved(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        """``J T``: derivatives of the minimiser, of shape (b, p, m); shapes as in `worst`.

        ``T`` may be the same for all records, (1, k, m).
        """

    def jacobian(self, columns: IntArray) -> FloatArray:
        """``J`` of some encoded columns, of shape (b, p, k)."""
        return self.moved(columns, np.eye(len(columns))[None])

    def worst(self, columns: IntArray, tangents: FloatArray) -> Worst:
        return worst_of(self.state, self.moved(columns, tangents))


@dataclass(frozen=True)
class _OnePredictor(Movements):
    """``J t = -s (c (w.t) A x~ + r A E t)``."""

    images: FloatArray  # A x~, (b, p)
    residual: FloatArray  # s r
    curvature: FloatArray  # s c

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch) -> "_OnePredictor":
        x, r, c, _ = state.factor.derivatives(dense(batch.X), batch.y)
        images = x @ state.factor.inverse_hessian
        return cls(state, images, batch.factors * r, batch.factors * c)

    def moved(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        factor = self.state.factor
        slope = self.curvature[:, None] * np.einsum("bkm,k->bm", tangents, factor.weights[columns])
        moved = self.images[:, :, None] * slope[:, None]
        moved += self.residual[:, None, None] * (factor.inverse_hessian[:, columns] @ tangents)
        return -moved

    def jacobian(self, columns: IntArray) -> FloatArray:
        factor = self.state.factor
        slope = self.curvature[:, None] * factor.weights[columns]
        own = self.residual[:, None, None] * factor.inverse_hessian[:, columns]
        return -(self.images[:, :, None] * slope[:, None] + own)


@dataclass(frozen=True)
class _ManyPredictors(Movements):
    """``J t = -s A ((C W t) (x) x~ + r (x) E t)``, with a predictor for each class."""

    factor: MultinomialFactor
    x: FloatArray
    residual: FloatArray  # s r
    curvature: FloatArray  # s C

    @classmethod
    def of(
        cls, state: FitState, factor: MultinomialFactor, batch: RecordBatch
    ) -> "_ManyPredictors":
        x, r, c, _ = factor.derivatives(dense(batch.X), batch.y)
        own = batch.factors[:, None]
        return cls(state, factor, x, own * r, own[:, None] * c)

    def moved(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        factor = self.factor
        slope = self.curvature @ (factor.weights[:, columns] @ tangents)
        gradient = slope[:, :, None] * self.x[:, None, :, None]
        gradient[:, :, columns] += self.residual[:, :, None, None] * tangents[:, None]
        inverse = factor.inverse_hessian[:, factor.by_class.ravel()]
        return -(inverse @ gradient.reshape(len(gradient), inverse.shape[1], tangents.shape[2]))


@dataclass(frozen=True)
class _Total(Movements):
    """``J t`` of the whole algorithm, where the weights are functions of the records."""

    present: BoolArray  # Records that take part, (b,)
    jacobians: FloatArray | None  # (b, p, d); None where there are none

    @classmethod
    def of(cls, state: FitState, rows: IntArray, batch: RecordBatch) -> "_Total":
        derivative = fitted_derivative(state)
        if derivative.unbounded:
            return cls(state, batch.present, None)
        jacobians = total_jacobian(state, rows, derivative=derivative)
        return cls(state, batch.present, jacobians[:, :, : state.n_features])

    def moved(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        if self.jacobians is None:
            moves = self.present[:, None] & np.any(tangents != 0.0, axis=1)
            ends = np.where(moves, np.inf, 0.0)[:, None]
            return np.repeat(ends, len(self.state.factor.coefficients), axis=1)
        return np.where(self.present[:, None, None], self.jacobians[:, :, columns], 0.0) @ tangents


@dataclass(frozen=True)
class _Informed(Directions):
    """``T^T I T`` of mean and covariance, where the covariance is a function of the records."""

    information: FloatArray  # (b, d, d)

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch) -> "_Informed":
        mean, covariance = information_terms(batch, Columns(), noise=fitted_noise(state))
        if state.noise_scale == 0.0:
            return cls(np.where(mean != 0.0, np.inf, 0.0))
        return cls(mean / state.noise_scale**2 + covariance)

    def worst(self, columns: IntArray, tangents: FloatArray) -> Worst:
        own = self.information[:, columns[:, None], columns]
        moves = np.any(tangents != 0.0, axis=(1, 2))
        with np.errstate(invalid="ignore"):
            gram = np.einsum("bkm,bkl,bln->bmn", tangents, own, tangents)
        endless = ~np.all(np.isfinite(gram), axis=(1, 2))
        values, vectors = np.linalg.eigh(np.where(endless[:, None, None], 0.0, gram))
        squares = np.where(endless, np.inf, np.maximum(values[:, -1], 0.0))
        return Worst(np.where(moves, np.sqrt(squares), 0.0), vectors[:, :, -1])


def worst_of(state: FitState, moved: FloatArray) -> Worst:
    """Loss of records along which the minimiser moves by ``moved``, of shape (b, p, m)."""
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


def record_blocks(state: FitState, n_records: int, n_values: float) -> Iterator[slice]:
    """Cut records into blocks, of which so many values, or a number (NaN), are looked at."""
    p, d = len(state.factor.coefficients), state.n_features
    prepared = d * d if state.noise.reads_data else 4 * p
    if state.balanced is not None:
        prepared = p * (d + 1)
    encoded = max(_TABLES, int(np.nan_to_num(n_values))) * max(d, p)
    return row_blocks(n_records, max(prepared, encoded), _ELEMENTS)
