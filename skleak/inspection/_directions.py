"""What a fit leaks about one number that moves several encoded columns of a record at once.

With the encoded record moving along ``t`` per unit of the number, the information about the number
is ``t^T I t`` for the information matrix ``I`` of the whole encoded record: the effects of its
columns on the minimiser can add up or cancel.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skleak.influence.jacobian import Columns, MultinomialFactor
from skleak.influence.leakage import FittedNoise, Reweighted, leakage_model
from skleak.influence.noise import fitted_noise, information_terms
from skleak.influence.reweighting import fitted_derivative, total_jacobian
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import dense
from skleak.utils._typing import FloatArray, IntArray


class Directions(Protocol):
    """A block of training records, prepared for directions."""

    def loss(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        """Fisher information loss of each record per unit of a number, of shape (b,).

        Shapes: ``columns`` (k,) of the encoded record; ``tangents`` (b, k), their derivatives.
        """


def directions(state: FitState, rows: IntArray) -> Directions:
    """Prepare training records, given by position, by what carries their leakage."""
    batch, model = state.training.take(rows), leakage_model(state)
    if not state.converged:
        return _Unknown(len(rows))
    if isinstance(model, Reweighted):
        return _Total.of(state, rows, batch)
    if isinstance(model, FittedNoise):
        return _Informed.of(state, batch)
    if isinstance(state.factor, MultinomialFactor):
        return _ManyPredictors.of(state, state.factor, batch)
    return _OnePredictor.of(state, batch)


@dataclass(frozen=True)
class _Unknown:
    """A fit that did not converge, of which no loss is known."""

    n: int

    def loss(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        return np.full(self.n, np.nan)


@dataclass(frozen=True)
class _OnePredictor:
    """``J t = -s (c (w.t) A x~ + r A E t)``, over noise of a fixed covariance."""

    state: FitState
    images: FloatArray  # A x~, (b, p)
    residual: FloatArray
    curvature: FloatArray
    scale: FloatArray  # s over the noise

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch) -> "_OnePredictor":
        x, r, c, _ = state.factor.derivatives(dense(batch.X), batch.y)
        images = x @ state.factor.inverse_hessian
        return cls(state, images, r, c, _over_noise(batch.factors, state))

    def loss(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        factor = self.state.factor
        slope = self.curvature * (tangents @ factor.weights[columns])
        moved = slope[:, None] * self.images
        moved += self.residual[:, None] * (tangents @ factor.inverse_hessian[columns])
        return _lengths(self.state.noise.whitened(moved), self.scale)


@dataclass(frozen=True)
class _ManyPredictors:
    """``J t = -s A ((C W t) (x) x~ + r (x) E t)``, with a predictor for each class."""

    factor: MultinomialFactor
    x: FloatArray
    residual: FloatArray
    curvature: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls, state: FitState, factor: MultinomialFactor, batch: RecordBatch
    ) -> "_ManyPredictors":
        x, r, c, _ = factor.derivatives(dense(batch.X), batch.y)
        return cls(factor, x, r, c, _over_noise(batch.factors, state))

    def loss(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        factor = self.factor
        slope = np.einsum("bkl,bl->bk", self.curvature, tangents @ factor.weights[:, columns].T)
        gradient = slope[:, :, None] * self.x[:, None, :]
        gradient[:, :, columns] += self.residual[:, :, None] * tangents[:, None, :]
        inverse = factor.inverse_hessian[:, factor.by_class.ravel()]
        return _lengths(gradient.reshape(len(gradient), -1) @ inverse.T, self.scale)


@dataclass(frozen=True)
class _Informed:
    """``t^T I t`` of mean and covariance, where the covariance is a function of the records."""

    information: FloatArray  # (b, d, d)

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch) -> "_Informed":
        mean, covariance = information_terms(batch, Columns(), noise=fitted_noise(state))
        if state.noise_scale == 0.0:
            return cls(np.where(mean != 0.0, np.inf, 0.0))
        return cls(mean / state.noise_scale**2 + covariance)

    def loss(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        own = self.information[:, columns[:, None], columns]
        moves = np.any(tangents != 0.0, axis=1)
        with np.errstate(invalid="ignore"):
            squares = np.einsum("bk,bkl,bl->b", tangents, own, tangents)
        squares = np.where(np.isnan(squares), np.inf, np.maximum(squares, 0.0))
        return np.where(moves, np.sqrt(squares), 0.0)


@dataclass(frozen=True)
class _Total:
    """``J t`` of the whole algorithm, where the weights are functions of the records."""

    jacobians: FloatArray | None  # (b, p, d); None where there are none
    scale: FloatArray

    @classmethod
    def of(cls, state: FitState, rows: IntArray, batch: RecordBatch) -> "_Total":
        scale = _over_noise(batch.present.astype(float), state)
        derivative = fitted_derivative(state)
        if derivative.unbounded:
            return cls(None, np.where(batch.present, np.inf, 0.0))
        jacobians = total_jacobian(state, rows, derivative=derivative)
        return cls(jacobians[:, :, : state.n_features], scale)

    def loss(self, columns: IntArray, tangents: FloatArray) -> FloatArray:
        if self.jacobians is None:
            return np.where(np.any(tangents != 0.0, axis=1), self.scale, 0.0)
        moved = np.einsum("bpk,bk->bp", self.jacobians[:, :, columns], tangents)
        return _lengths(moved, self.scale)


def _over_noise(factors: FloatArray, state: FitState) -> FloatArray:
    """Weights over the noise; infinite without noise."""
    if state.noise_scale > 0.0:
        return factors / state.noise_scale
    return np.where(factors > 0.0, np.inf, 0.0)


def _lengths(moved: FloatArray, scale: FloatArray) -> FloatArray:
    """Lengths of vectors (b, p) times a scale (b,); zero where nothing moves."""
    length = np.linalg.norm(moved, axis=1)
    moves = length > 0.0
    return np.multiply(length, scale, out=np.zeros_like(length), where=moves)


def block_width(state: FitState) -> int:
    """Entries that the prepared form of one record takes."""
    p, d = len(state.factor.coefficients), state.n_features
    if state.balanced is not None:
        return p * (d + 1)
    return d * d if state.noise.reads_data else 4 * p
