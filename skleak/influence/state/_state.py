"""The confidential state of a fit: data, from which its leakage is computed elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.state._batch import RecordBatch, TrainingLookup
from skleak.influence.state._outside import (
    balanced_weights,
    parts_outside,
    rows_outside,
    same_table,
)
from skleak.influence.state._rule import WeightRule
from skleak.influence.state._shape import ISOTROPIC, NoiseShape
from skleak.solvers import Objective
from skleak.utils._typing import Array, Data, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large

Found = TypeVar("Found")


@dataclass(frozen=True)
class FitState:
    """Everything about a fit that must not leave: training records, minimiser, inverse Hessian.

    What it leaks is for `skleak.influence.leakage` to say.
    """

    objective: Objective  # training records with their weights, loss and penalty
    factor: FitFactor  # minimiser and inverse Hessian
    # standard deviation of the noise on each parameter; their root mean square where they differ
    noise_scale: float
    private_target: bool  # whether an attacker is after the target too
    balanced: WeightRule | None = None  # what the reweighting balances and how, if there is one
    balanced_level: float = np.nan  # the leakage to which it is balanced, at unit noise
    feature_names: Array | None = None  # column names, where the training data had them
    # whether the minimiser is one and, under a reweighting, that of its fixed point
    converged: bool = True
    verbose: bool = False  # whether to show the progress of what takes long
    # shape of the noise; another one only without a reweighting and for one predictor
    noise: NoiseShape = ISOTROPIC
    row_labels: pd.Index | None = None  # labels of the records, where the training data had them
    reads_classes: bool = False  # whether the classes are the labels that occur, and none declared
    at_fixed_point: bool = True  # False where only a reweighting did not converge
    _found: dict[Callable[..., Any], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def at_noise(self, noise_scale: float) -> "FitState":
        """Return the same fit with noise of another scale; the two share what is costly to find."""
        other = replace(self, noise_scale=noise_scale)
        object.__setattr__(other, "_found", self._found)
        return other

    @property
    def failure(self) -> str:
        """What did not converge, as the start of a message."""
        if self.at_fixed_point:
            return "The fit did not converge"
        return "The reweighting did not reach its fixed point"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.at_fixed_point:
            return "Raise `max_iter` or `alpha`, or scale the columns."
        return "Raise `alpha` or the reweighting's `max_iter`, or lower its `tol`."

    def once(self, find: Callable[["FitState"], Found]) -> Found:
        """Return what a function finds of this fit, which is called once at all noise scales.

        It may read anything of the state but its noise scale.
        """
        if find not in self._found:
            self._found[find] = find(self)
        found: Found = self._found[find]
        return found

    def knows(self, find: Callable[["FitState"], Any]) -> bool:
        """Return True if `once` has found this already."""
        return find in self._found

    def remember(self, find: Callable[["FitState"], Found], found: Found) -> None:
        """Take what a function found of this fit where its records are, as `once` would."""
        self._found[find] = found

    @property
    def n_features(self) -> int:
        """Number of columns of a record."""
        return self.factor.n_features

    @property
    def whole_record(self) -> Columns:
        """All columns an attacker is after."""
        return Columns(target=self.private_target)

    @property
    def training(self) -> RecordBatch:
        """All training records, with their weights."""
        objective = self.objective
        return RecordBatch(objective.X, objective.y, objective.sample_weight, objective.reweights)

    def batch(self, X: Data, y: FloatArray) -> RecordBatch:
        """Return records with the part that they take, or would take, in this fit.

        Records of the training data carry their own weights. Others have a weight of one; under a
        reweighting their factor is the one its fixed point would give them,
        a function of what it would leak (`WeightRule`).
        """
        objective = self.objective
        if is_large(X) or is_large(objective.X):
            return self._batch_outside(X, y)
        rows = self.training_rows(X, y)
        found = rows >= 0
        sample_weight = np.where(found, objective.sample_weight[rows], 1.0)
        reweights = np.where(found, objective.reweights[rows], 1.0)
        if self.balanced is not None and not np.all(found):
            new = np.flatnonzero(~found)
            kappa = self.balanced.norms(self.factor, X[new], y[new])
            reweights[new] = self.balanced.weights(kappa, self.balanced_level)
        return RecordBatch(X, y, sample_weight, reweights)

    def _batch_outside(self, X: Data, y: FloatArray) -> RecordBatch:
        """Return the same where records, or those of the fit, lie outside memory."""
        objective = self.objective
        if same_table(X, y, objective):
            return self.training
        weighted = self.balanced is not None or objective.weight_range != (1.0, 1.0)
        s, omega = parts_outside(objective, X, y, weighted=weighted)
        if not weighted:
            return RecordBatch(X, y, s, omega)
        new: Any = 1.0
        if self.balanced is not None:
            given = self.balanced, self.factor, self.balanced_level
            new = balanced_weights(*given, X, y)
        found = s > 0.0
        return RecordBatch(X, y, np.where(found, s, 1.0), np.where(found, omega, new))

    def training_rows(self, X: Data, y: FloatArray) -> IntArray:
        """Position of each record in the training data, -1 where it is not there.

        The training data as a whole are themselves, row by row. Other records are found by
        value; a training row of weight zero took no part, so that one like it is new.

        Returns (n,).
        """
        if is_large(self.objective.X) and not is_large(X):
            return rows_outside(self.objective, X, y)
        return self.once(_lookup).rows(X, y)


def _lookup(state: FitState) -> TrainingLookup:
    return TrainingLookup(state.objective)
