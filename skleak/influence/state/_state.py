"""The confidential state of a fit, and leakage at every grain computed from it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._norms import Columns, Norm, feature_norms, joint_norm, record_norms
from skleak.influence.jacobian._participation import Participation, TrainingLookup
from skleak.influence.noise._joint import covariance_joint_loss
from skleak.influence.noise._shape import ISOTROPIC, NoiseShape
from skleak.influence.noise._terms import (
    FittedNoise,
    LossTerms,
    covariance_losses,
    noise_scales,
)
from skleak.influence.reweighting._rule import WeightRule
from skleak.influence.reweighting._total import total_feature_norms, total_joint_norm
from skleak.influence.reweighting._total_derivative import TotalDerivative, total_derivative
from skleak.solvers import Objective
from skleak.utils._typing import Array, Data, FloatArray, IntArray
from skleak.utils._warnings import outer_stacklevel

__all__ = ["FitState"]


@dataclass(frozen=True)
class FitState:
    """Everything about a fit that must not leave: training records, minimiser, inverse Hessian.

    Leakage of a reweighted fit is the total one: the weights, too, are functions of the data
    (see `skleak.influence.reweighting._total`). With ``conditional=True`` it is that of [FIL21]
    eq. 29, which holds them fixed. Without a reweighting they are the same. Noise of a shape that
    depends on the data leaks through its covariance as well as through its mean, and both are
    counted. A row is one person: its leakage is that of its whole sample weight.

    Parameters
    ----------
    objective : Objective
        Training records with their weights, loss and penalty.
    factor : FitFactor
        Minimiser and inverse Hessian.
    noise_scale : float
        Standard deviation of the noise on each parameter; their root mean square where they
        differ.
    private_target : bool
        Whether an attacker is after the target too.
    balanced : WeightRule or None, default=None
        What the reweighting balances and how, if there is one.
    balanced_level : float, default=nan
        The leakage to which it is balanced, at unit noise.
    feature_names : ndarray of str or None, default=None
        Column names, where the training data had them.
    converged : bool, default=True
        Whether the minimiser is one.
    verbose : bool, default=False
        Whether to show the progress of what takes long.
    noise : NoiseShape, default=ISOTROPIC
        Shape of the noise; another one only without a reweighting and for
        one predictor.

    Examples
    --------
    >>> from skleak.losses import SquaredLoss
    >>> from skleak.solvers import minimize
    >>> X, y, one = np.array([[1.0], [2.0]]), np.array([2.0, 4.0]), np.ones(2)
    >>> objective = Objective(X, y, SquaredLoss(), 0.0, False, one, one)
    >>> minimum = minimize(objective)
    >>> factor = FitFactor(minimum.coefficients, minimum.inverse_hessian, SquaredLoss(), False)
    >>> state = FitState(objective, factor, noise_scale=0.1, private_target=False)
    >>> state.record_loss(X, y, state.participation(X, y))
    array([4., 8.])
    """

    objective: Objective
    factor: FitFactor
    noise_scale: float
    private_target: bool
    balanced: WeightRule | None = None
    balanced_level: float = np.nan
    feature_names: Array | None = None
    converged: bool = True
    verbose: bool = False
    noise: NoiseShape = ISOTROPIC
    # What a fit is asked for once, whatever the noise scale.
    _shared: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def at_noise(self, noise_scale: float) -> "FitState":
        """The same fit with noise of another scale; the two share what is costly to find.

        Parameters
        ----------
        noise_scale : float
            Standard deviation of the noise on each parameter.

        Returns
        -------
        FitState
        """
        other = replace(self, noise_scale=noise_scale)
        object.__setattr__(other, "_shared", self._shared)
        return other

    @property
    def derivative(self) -> TotalDerivative:
        """How the weights of the reweighting depend on the data, found when first asked for.

        Where the fixed point is singular, any change of the data may move them without bound:
        then the total leakage is infinite. Whatever makes it unreliable is a warning, once.
        """
        if "derivative" not in self._shared:
            try:
                found = total_derivative(self)
            except np.linalg.LinAlgError:
                found = TotalDerivative(None, None, 0.0, 0.0, np.inf, self.converged)
            if found.doubts:
                warnings.warn(
                    "The leakage of this reweighted fit is unreliable"
                    + (", and stated as infinite. " if found.unbounded else ". ")
                    + " ".join(found.doubts),
                    ConvergenceWarning,
                    stacklevel=outer_stacklevel(),
                )
            self._shared["derivative"] = found
        derivative: TotalDerivative = self._shared["derivative"]
        return derivative

    @property
    def _mean_factor(self) -> FitFactor:
        """What measures the leakage through the mean of the release."""
        if "mean" not in self._shared:
            self._shared["mean"] = self.noise.factor(self)
        factor: FitFactor = self._shared["mean"]
        return factor

    @property
    def fitted_noise(self) -> FittedNoise:
        """What measures the leakage through a covariance that depends on the data."""
        if "noise" not in self._shared:
            self._shared["noise"] = self.noise.of_fit(self)
        noise: FittedNoise = self._shared["noise"]
        return noise

    @property
    def n_features(self) -> int:
        """Number of columns of a record."""
        return self.factor.n_features

    @property
    def whole_record(self) -> Columns:
        """All columns an attacker is after."""
        return Columns(target=self.private_target)

    def participation(self, X: Data, y: FloatArray) -> Participation:
        """How the given records take part, or would take part, in this fit.

        Records of the training data carry their own weights. Others have a weight of one; under a
        reweighting their factor is the one its fixed point would give them,
        a function of what it would leak (`WeightRule`).

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.

        Returns
        -------
        Participation
        """
        objective = self.objective
        rows = self.training_rows(X, y)
        found = rows >= 0
        sample_weight = np.where(found, objective.sample_weight[rows], 1.0)
        reweights = np.where(found, objective.reweights[rows], 1.0)
        if self.balanced is not None and not np.all(found):
            new = np.flatnonzero(~found)
            kappa = self.balanced.norms(self.factor, X[new], y[new])
            reweights[new] = self.balanced.weights(kappa, self.balanced_level)
        return Participation(sample_weight, reweights)

    def training_rows(self, X: Data, y: FloatArray) -> IntArray:
        """Position of each record in the training data, -1 where it is not there.

        The training data as a whole are themselves, row by row. Other records are found by
        value; a training row of weight zero took no part, so that one like it is new.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.

        Returns
        -------
        ndarray of int of shape (n,)
        """
        return self._lookup.rows(X, y)

    @cached_property
    def _lookup(self) -> TrainingLookup:
        return TrainingLookup(self.objective)

    def record_loss(
        self,
        X: Data,
        y: FloatArray,
        part: Participation,
        columns: Columns | None = None,
        norm: Norm = "spectral",
        *,
        conditional: bool = False,
    ) -> FloatArray:
        """Fisher information loss of each record over a block of columns.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.
        part : Participation
            How they take part in the fit.
        columns : Columns, default=None
            What is unknown; by default the whole record.
        norm : {"spectral", "trace"}, default="spectral"
            Worst direction, or root mean square over the unknowns.
        conditional : bool, default=False
            Whether to hold the weights of a reweighting fixed.

        Returns
        -------
        ndarray of shape (n,)
            NaN, as at every grain, where the fit did not converge: it is not known.
        """
        columns = self.whole_record if columns is None else columns
        if not self.converged:
            return np.full(X.shape[0], np.nan)
        if self.balanced is not None and not conditional:
            return self.feature_loss(X, y, part, [columns], norm)[:, 0]
        if self.noise.reads_data:
            return self.loss_terms(X, y, part, [columns], norm).total[:, 0]
        return self._scaled(record_norms(self._mean_factor, X, y, columns, norm), part)

    def loss_terms(
        self,
        X: Data,
        y: FloatArray,
        part: Participation,
        blocks: Sequence[Columns],
        norm: Norm = "spectral",
    ) -> LossTerms:
        """Loss of each record under noise whose covariance depends on it, by what carries it.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.
        part : Participation
            How they take part in the fit.
        blocks : sequence of Columns
            What is unknown, one column of each table.
        norm : {"spectral", "trace"}, default="spectral"
            Worst direction, or root mean square over the unknowns.

        Returns
        -------
        LossTerms
        """
        return covariance_losses(self, X, y, part, blocks, norm, noise=self.fitted_noise)

    def sufficient_noise(
        self, X: Data, y: FloatArray, part: Participation, columns: Columns, eta: float
    ) -> FloatArray:
        """Noise scale at which the loss of each record is eta; its own noise scale plays no part.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.
        part : Participation
            How they take part in the fit.
        columns : Columns
            What is unknown.
        eta : float, positive
            The loss.

        Returns
        -------
        ndarray of shape (n,)
            Infinite where no noise lowers the loss to eta.
        """
        if self.noise.reads_data:
            return noise_scales(self, X, y, part, columns, eta, noise=self.fitted_noise)
        return self.at_noise(1.0).record_loss(X, y, part, columns) / eta

    def feature_loss(
        self,
        X: Data,
        y: FloatArray,
        part: Participation,
        blocks: Sequence[Columns],
        norm: Norm = "spectral",
        *,
        conditional: bool = False,
    ) -> FloatArray:
        """Fisher information loss of each record over several blocks of columns.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.
        part : Participation
            How they take part in the fit.
        blocks : sequence of Columns
            What is unknown, one column of the table each.
        norm : {"spectral", "trace"}, default="spectral"
            Worst direction, or root mean square over the unknowns.
        conditional : bool, default=False
            Whether to hold the weights of a reweighting fixed.

        Returns
        -------
        ndarray of shape (n, n_blocks)
        """
        if not self.converged:
            return np.full((X.shape[0], len(blocks)), np.nan)
        if self.balanced is not None and not conditional:
            return total_feature_norms(self, X, y, part, blocks, norm, derivative=self.derivative)
        if self.noise.reads_data:
            return self.loss_terms(X, y, part, blocks, norm).total
        return self._scaled(feature_norms(self._mean_factor, X, y, blocks, norm), part)

    def joint_loss(
        self,
        X: Data,
        y: FloatArray,
        part: Participation,
        columns: Columns | None = None,
        norm: Norm = "spectral",
        *,
        conditional: bool = False,
    ) -> float:
        """Fisher information loss of all given records together.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.
        part : Participation
            How they take part in the fit.
        columns : Columns, default=None
            What is unknown; by default the whole record.
        norm : {"spectral", "trace"}, default="spectral"
            Worst direction, or root mean square over all unknowns, records times columns.
        conditional : bool, default=False
            Whether to hold the weights of a reweighting fixed.

        Returns
        -------
        float
        """
        columns = self.whole_record if columns is None else columns
        if not self.converged:
            return float("nan")
        if self.balanced is not None and not conditional:
            return total_joint_norm(self, X, y, part, columns, norm, derivative=self.derivative)
        if self.noise.reads_data:
            noise = self.fitted_noise
            return covariance_joint_loss(self, X, y, part, columns, norm, noise=noise)
        present = np.flatnonzero(part.present)
        if not len(present):
            return 0.0
        squares = part.factors[present] ** 2
        value = joint_norm(self._mean_factor, X[present], y[present], squares, columns, norm)
        if norm == "trace":
            value /= np.sqrt(len(present) * self._n_directions(columns))
        return float(_divide(np.array(value), self.noise_scale))

    def group_loss(
        self,
        X: Data,
        y: FloatArray,
        part: Participation,
        groups: Array,
        columns: Columns | None = None,
        norm: Norm = "spectral",
        *,
        conditional: bool = False,
    ) -> pd.Series:
        """Joint loss of each group of records.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.
        part : Participation
            How they take part in the fit.
        groups : ndarray of shape (n,)
            Label of each record's group.
        columns : Columns, default=None
            What is unknown; by default the whole record.
        norm : {"spectral", "trace"}, default="spectral"
            Worst direction, or root mean square over the unknowns.
        conditional : bool, default=False
            Whether to hold the weights of a reweighting fixed.

        Returns
        -------
        Series
            Indexed by the label.
        """
        rows = pd.Series(np.arange(len(y))).groupby(groups, sort=True).indices
        losses = {
            label: self.joint_loss(
                X[members],
                y[members],
                part.take(members),
                columns,
                norm,
                conditional=conditional,
            )
            for label, members in rows.items()
        }
        return pd.Series(losses, name="fisher_information_loss", dtype=float).rename_axis("group")

    def _n_directions(self, columns: Columns) -> int:
        return columns.count(self.n_features, self.factor.n_target_directions)

    def _scaled(self, norms: FloatArray, part: Participation) -> FloatArray:
        """Apply both weights and noise; a record of weight zero is not in the fit at all."""
        return _divide((norms.T * part.factors).T, self.noise_scale)


def _divide(norms: FloatArray, noise_scale: float) -> FloatArray:
    """Norm over noise: infinite without noise, but zero where nothing depends on the record."""
    if noise_scale == 0.0:
        return np.where(norms > 0.0, np.inf, 0.0)
    return norms / noise_scale
