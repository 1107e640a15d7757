"""Leakage at every grain, whatever carries it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns, MultinomialFactor, Norm
from skleak.influence.noise import LossTerms
from skleak.influence.state import FitState, RecordBatch, batches_by_group
from skleak.utils._typing import Array, FloatArray

_SEVERAL = "the model has a predictor for each of several classes"


@dataclass(frozen=True)
class Capability:
    """Something that can be computed of a fit, true unless a reason says why it cannot."""

    missing: str = ""  # why it cannot be computed

    def __bool__(self) -> bool:
        return not self.missing


@dataclass(frozen=True)
class LeakageModel(ABC):
    """Fisher information losses of the records of a fit, and what else can be said of it.

    Choose the class with `leakage_model`. A row is one person: its leakage is that of its whole
    sample weight. Where the fit did not converge no loss is known, and all are NaN.

    Losses are measured over ``columns``, by default the whole record, or over several ``blocks`` of
    them; ``norm="spectral"`` is that in the worst direction, and ``"trace"`` the root mean square
    over all unknowns.
    """

    state: FitState  # state of the fit. Confidential

    # Why a kind lacks a capability; empty where it has it.
    _no_brackets: ClassVar[str] = ""
    _no_equal_noise: ClassVar[str] = ""
    _no_shaped_noise: ClassVar[str] = ""

    @abstractmethod
    def _losses(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> FloatArray:
        """Losses of each record over each block, of shape (n, n_blocks)."""

    @abstractmethod
    def _joint_loss(self, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
        """Loss of all records together."""

    def record_loss(
        self, batch: RecordBatch, columns: Columns | None = None, norm: Norm = "spectral"
    ) -> FloatArray:
        """Loss of each record over a block of columns, of shape (n,)."""
        return self.feature_loss(batch, [self._unknown(columns)], norm)[:, 0]

    def feature_loss(
        self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm = "spectral"
    ) -> FloatArray:
        """Loss of each record over several blocks of columns, of shape (n, n_blocks)."""
        if not self.state.converged:
            return np.full((len(batch), len(blocks)), np.nan)
        return self._losses(batch, blocks, norm)

    def joint_loss(
        self, batch: RecordBatch, columns: Columns | None = None, norm: Norm = "spectral"
    ) -> float:
        """Loss of all given records together; the trace norm is over records times columns."""
        if not self.state.converged:
            return float("nan")
        return self._joint_loss(batch, self._unknown(columns), norm)

    def group_loss(
        self,
        batch: RecordBatch,
        groups: Array,
        columns: Columns | None = None,
        norm: Norm = "spectral",
    ) -> pd.Series:
        """Joint loss of each group of records, by its label; ``groups`` has one per record."""
        losses = self._group_losses(batch, groups, self._unknown(columns), norm)
        return pd.Series(losses, name="fisher_information_loss", dtype=float).rename_axis("group")

    def _group_losses(
        self, batch: RecordBatch, groups: Any, columns: Columns, norm: Norm
    ) -> dict[Any, float]:
        """Joint loss of each group of records, by label."""
        parts = batches_by_group(batch, groups)
        return {label: self.joint_loss(part, columns, norm) for label, part in parts}

    def sufficient_noise(self, batch: RecordBatch, columns: Columns, eta: float) -> FloatArray:
        """Noise scale at which the loss of each record is eta, of shape (n,).

        The noise scale of the fit plays no part. Infinite where no noise lowers the loss to eta.
        """
        return replace(self, state=self.state.at_noise(1.0)).record_loss(batch, columns) / eta

    def terms(
        self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm = "spectral"
    ) -> LossTerms | None:
        """Loss of each record by what carries it; None where there is one carrier, or no loss."""
        return None

    @property
    def conditional(self) -> "LeakageModel":
        """Leakage with the weights of a reweighting held fixed; the model itself without one."""
        return self

    @property
    def doubts(self) -> list[str]:
        """Why losses that are known should not be trusted; empty where they can be."""
        return []

    @property
    def has_brackets(self) -> Capability:
        """True if it is bounded what one changed record does to the leakage of all others."""
        return Capability(self._no_brackets or self._several)

    @property
    def has_equal_noise(self) -> Capability:
        """True if the covariance of the noise is the same under every value of a record."""
        return Capability(self._no_equal_noise)

    @property
    def takes_shaped_noise(self) -> Capability:
        """True if it is known what such a fit leaks under noise of a covariance of its own."""
        return Capability(self._no_shaped_noise or self._several)

    @property
    def _several(self) -> str:
        return _SEVERAL if isinstance(self.state.factor, MultinomialFactor) else ""

    def _unknown(self, columns: Columns | None) -> Columns:
        return self.state.whole_record if columns is None else columns
