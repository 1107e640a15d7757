"""The kinds of leakage: through the minimiser, the covariance of the noise, or the weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skleak.influence.jacobian import Columns, Norm
from skleak.influence.leakage._model import LeakageModel
from skleak.influence.noise import (
    LossTerms,
    covariance_joint_loss,
    covariance_losses,
    fitted_noise,
    fixed_group_losses,
    fixed_joint_loss,
    fixed_losses,
    noise_scales,
)
from skleak.influence.reweighting import fitted_derivative, total_feature_norms, total_joint_norm
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._typing import FloatArray
from skleak.utils.blocks._dask import is_large

_WEIGHTS_FOLLOW = "the weights of all records change with each"


@dataclass(frozen=True)
class FixedNoise(LeakageModel):
    """Leakage through the minimiser alone: norms of its Jacobians over the noise."""

    def _losses(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> FloatArray:
        return fixed_losses(self.state, batch, blocks, norm)

    def _joint_loss(self, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
        return fixed_joint_loss(self.state, batch, columns, norm)

    def _group_losses(
        self, batch: RecordBatch, groups: Any, columns: Columns, norm: Norm
    ) -> dict[Any, float]:
        if not (self.state.converged and is_large(batch.X)):
            return super()._group_losses(batch, groups, columns, norm)
        return fixed_group_losses(self.state, batch, groups, columns, norm)


@dataclass(frozen=True)
class FittedNoise(LeakageModel):
    """Leakage through minimiser and covariance, where that is a function of the records, too."""

    _no_brackets = _no_equal_noise = "the covariance of the noise depends on the records"

    def _losses(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> FloatArray:
        return self._terms(batch, blocks, norm).total

    def _joint_loss(self, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
        noise = fitted_noise(self.state)
        return covariance_joint_loss(self.state, batch, columns, norm, noise=noise)

    def _terms(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> LossTerms:
        return covariance_losses(self.state, batch, blocks, norm, noise=fitted_noise(self.state))

    def terms(
        self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm = "spectral"
    ) -> LossTerms | None:
        """Loss through the mean, through the covariance, and in total."""
        return self._terms(batch, blocks, norm) if self.state.converged else None

    def sufficient_noise(self, batch: RecordBatch, columns: Columns, eta: float) -> FloatArray:
        """Noise scale at which the loss of each record is eta: no scale lowers the second term."""
        if not self.state.converged:
            return np.full(len(batch), np.nan)
        return noise_scales(batch, columns, eta, noise=fitted_noise(self.state))


@dataclass(frozen=True)
class Reweighted(LeakageModel):
    """Leakage through minimiser and weights, which are functions of the records, too."""

    _no_brackets = _no_shaped_noise = _WEIGHTS_FOLLOW

    def __post_init__(self) -> None:
        if not self.state.noise.is_identity:
            raise ValueError(
                "What a reweighted fit leaks in total is known for isotropic noise only; got "
                f"noise that is {self.state.noise.name!r}. Drop one of the two."
            )

    def _losses(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> FloatArray:
        derivative = fitted_derivative(self.state)
        return total_feature_norms(self.state, batch, blocks, norm, derivative=derivative)

    def _joint_loss(self, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
        derivative = fitted_derivative(self.state)
        return total_joint_norm(self.state, batch, columns, norm, derivative=derivative)

    @property
    def conditional(self) -> LeakageModel:
        """Leakage of [FIL21] eq. 29, which may be too small: the weights are held fixed."""
        # Weights that are held fixed need not be those of the fixed point.
        held = self.state.converged or not self.state.at_fixed_point
        return _HeldWeights(replace(self.state, converged=held))

    @property
    def doubts(self) -> list[str]:
        """Why the derivative of the weights should not be trusted; empty where it can be."""
        return fitted_derivative(self.state).doubts if self.state.converged else []


@dataclass(frozen=True)
class _HeldWeights(FixedNoise):
    """Leakage of a reweighted fit with its weights held fixed."""

    _no_brackets = _no_shaped_noise = _WEIGHTS_FOLLOW


def leakage_model(state: FitState) -> LeakageModel:
    """Choose what the leakage of a fit is computed by."""
    if state.balanced is not None:
        return Reweighted(state)
    return FittedNoise(state) if state.noise.reads_data else FixedNoise(state)
