"""What is kept secret, and its Fisher information loss."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.jacobian import Columns, MultinomialFactor, Norm, norms_of_jacobians
from skleak.influence.moments_noise import (
    moments_distances,
    moments_joint_loss,
    moments_losses,
)
from skleak.influence.noise import (
    LossTerms,
    covariance_joint_loss,
    covariance_losses,
    fitted_noise,
    fixed_group_losses,
    fixed_joint_loss,
    fixed_losses,
    mean_factor,
    measuring_state,
    noise_scales,
    per_noise,
)
from skleak.influence.objective_noise import (
    bounded_distances,
    label_distances,
    longest_lengths,
    noise_draws,
    noisy_joint_loss,
    noisy_losses,
)
from skleak.influence.reweighting import (
    fitted_derivative,
    hand_on_derivative,
    total_feature_norms,
    total_joint_norm,
)
from skleak.influence.state import FitState, NoiseShape, RecordBatch, batches_by_group
from skleak.utils._blocks import dense, is_large
from skleak.utils._records import Persons
from skleak.utils._sklearn_compat import outer_stacklevel
from skleak.utils._typing import Array, FloatArray

# Share of a loss that its standard error may be before somebody is told.
_UNCERTAIN = 0.1
# Entries of the Jacobians of a block of rows: 32 MB.
_ELEMENTS = 1 << 22


def check_persons(state: FitState) -> None:
    """Refuse a fit of which it is not known what several rows tell together."""
    if state.balanced is not None or state.noise.reads_data:
        raise ValueError(
            "What a person with several rows leaks is known of noise of a given shape and without "
            "a reweighting. Drop it, or count rows: leave `persons` out."
        )


def person_losses(
    state: FitState, persons: Persons, blocks: Sequence[Columns], norm: Norm = "spectral"
) -> FloatArray:
    """Fisher information loss of each person over several blocks of columns.

    Over named columns all rows move alike, as of one value that they share: the norm of ``sum J_i``
    of their Jacobians, times their weights. Over the whole record each row moves for itself: the
    norm of ``[J_1 ... J_k]``, those side by side. For k equal rows the first is k times the loss of
    one, and the second its root of k: neither bounds the other.

    Shapes: ``persons`` of positions in the training data; returns (n_persons, n_blocks): zero for a
    person of weight zero.
    """
    check_persons(state)
    if not state.converged:
        return np.full((len(persons), len(blocks)), np.nan)
    factor, d = mean_factor(state), state.n_features
    found = np.zeros((len(persons), len(blocks)))
    for which in persons.blocks(factor.coefficients.size * (d + 1), _ELEMENTS):
        some = persons.take(which)
        batch = state.training.take(some.rows)
        rows = factor.jacobian(dense(batch.X), batch.y) * batch.factors[:, None, None]
        moved = some.sums(rows)
        for k, block in enumerate(blocks):
            if block.indices is not None:
                found[which, k] = norms_of_jacobians(_of_columns(moved, block, d), norm)
                continue
            own = _of_columns(rows, block, d)
            sides = np.split(own, some.starts[1:-1])
            beside = [np.concatenate(list(side), axis=1)[None] for side in sides]
            found[which, k] = np.concatenate([norms_of_jacobians(side, norm) for side in beside])
    return per_noise(found, state.noise_scale)


def _of_columns(jacobians: FloatArray, block: Columns, d: int) -> FloatArray:
    """Differentiate along the directions of a block of columns, (b, p, c)."""
    columns = [jacobians[:, :, :d] @ block.basis(d)]
    columns += [jacobians[:, :, d:] * block.target_unit] if block.target else []
    return np.concatenate(columns, axis=2)


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
        if batch.persons is not None:
            return person_losses(self.state, batch.persons, blocks, norm)
        return self._losses(batch, blocks, norm)

    def joint_loss(
        self, batch: RecordBatch, columns: Columns | None = None, norm: Norm = "spectral"
    ) -> float:
        """Loss of all given records together; the trace norm is over records times columns."""
        if not self.state.converged:
            return float("nan")
        if batch.persons is not None:
            batch = self.state.training.take(batch.persons.rows)
        return self._joint_loss(batch, self._unknown(columns), norm)

    def group_loss(
        self,
        batch: RecordBatch,
        groups: Array,
        columns: Columns | None = None,
        norm: Norm = "spectral",
    ) -> pd.Series:
        """Joint loss of each group of records, by its label; ``groups`` has one per record."""
        if batch.persons is not None:
            groups = groups[batch.persons.codes]
            batch = self.state.training.take(batch.persons.rows)
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

    def plain_loss(self, batch: RecordBatch) -> FloatArray | None:
        """Loss of each record without reweighting and shape, at the same noise scale, (n,).

        NaN where it is not known, and None where the fit has neither.
        """
        state = self.state
        if state.balanced is None and state.noise.is_identity:
            return None
        plain = replace(state, balanced=None, noise=NoiseShape())
        if state.balanced is not None:
            converged = state.plain is not None
            plain = replace(plain, factor=state.plain or state.factor, converged=converged)
        return FixedNoise(plain).record_loss(
            replace(batch, reweights=np.ones_like(batch.reweights))
        )

    def errors(self, batch: RecordBatch) -> FloatArray:
        """Return the standard errors of the losses of records, (n,): zero where these are exact."""
        return np.zeros(len(batch))

    def alone(self) -> "LeakageModel":
        """Return the same without records, for whoever brings records along."""
        return replace(self, state=measuring_state(self.state))

    def apart(self, batch: RecordBatch, columns: Array | None, values: FloatArray) -> FloatArray:
        """Bound how far releases under values of some columns lie apart, in noise units, (2, n).

        Any two of the values, and one of them from the own one. From rows alone, for noise that is
        not on the minimizer. Shapes: ``columns`` (k,), None for the target; ``values`` (m, k) or
        (n, m, k).
        """
        raise NotImplementedError

    def told_exactly(self, columns: Array | None) -> bool:
        """Return True if that is the distance itself, and no bound."""
        return True

    @property
    def described(self) -> dict[str, Any]:
        """Return what a report says of the mechanism."""
        return {}

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


_WEIGHTS_FOLLOW = "the weights of all records change with each"


@dataclass(frozen=True)
class FixedNoise(LeakageModel):
    """Leakage through the minimizer alone: norms of its Jacobians over the noise."""

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
    """Leakage through minimizer and covariance, where that is a function of the records, too."""

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
    """Leakage through minimizer and weights, which are functions of the records, too."""

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

    def alone(self) -> LeakageModel:
        """Return the same without records, but with the derivative of the weights."""
        found = super().alone()
        if self.state.converged:
            hand_on_derivative(self.state, found.state)
        return found

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


@dataclass(frozen=True)
class PerturbedObjective(LeakageModel):
    """Leakage where noise is in the objective: means over fits under noise that is drawn anew.

    Noise on the minimizer only lowers it. A warning says so where the standard error of a number is
    above a tenth of it.
    """

    _no_brackets = _no_equal_noise = _no_shaped_noise = "the noise is in the objective"

    def __post_init__(self) -> None:
        if self.state.noise_elsewhere.n_classes > 2:
            raise AttackNotApplicableError(
                "What records leak through noise in the objective is known of two classes, and of "
                "more for labels alone: two of them lie sqrt(2) times the norm of the row, with "
                "the column of an intercept, times its weight, over `gradient_noise_scale_` apart. "
                'Fit two classes, or with `mechanism="output"`.'
            )

    def _losses(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> FloatArray:
        losses, errors = noisy_losses(self.state, batch, blocks, norm)
        _tell_error(losses, errors)
        return losses

    def _joint_loss(self, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
        loss, error = noisy_joint_loss(self.state, batch, columns, norm)
        _tell_error(np.array([loss]), np.array([error]))
        return loss

    def errors(self, batch: RecordBatch) -> FloatArray:
        """Return the standard errors of the losses of records, (n,)."""
        return noisy_losses(self.state, batch, [self.state.whole_record], "spectral")[1][:, 0]

    def apart(self, batch: RecordBatch, columns: Array | None, values: FloatArray) -> FloatArray:
        """Bound how far releases under values of some columns lie apart, in noise units, (2, n)."""
        if columns is None and self.told_exactly(None):
            return np.tile(label_distances(self.state, batch), (2, 1))
        lengths = longest_lengths(self.state, batch, columns, values)
        return np.tile(bounded_distances(self.state, lengths, batch.factors), (2, 1))

    def told_exactly(self, columns: Array | None) -> bool:
        """Return True for labels: another target is in the curvature, and columns are, too."""
        return columns is None and self.state.noise_elsewhere.width is None

    @property
    def described(self) -> dict[str, Any]:
        """Return what a report says of the mechanism."""
        losses, errors = noisy_losses(
            self.state, self.state.training, [self.state.whole_record], "spectral"
        )
        worst = np.divide(errors, losses, out=np.zeros_like(losses), where=losses > 0.0).max()
        width = self.state.noise_elsewhere.width
        return {
            "mechanism": "objective",
            "loss": self.state.objective.loss.name if width is None else "pseudo-Huber",
            "n_simulated_fits": len(self.state.once(noise_draws).coefficients),
            "simulation_error": float(worst),
        }

    def sufficient_noise(self, batch: RecordBatch, columns: Columns, eta: float) -> FloatArray:
        """Refuse: where the minimizers lie depends on the noise."""
        raise ValueError(f"It is not known which noise has a given leakage: {self._no_brackets}.")


def _tell_error(losses: FloatArray, errors: FloatArray) -> None:
    """Say where few fits leave losses uncertain."""
    share = np.divide(errors, losses, out=np.zeros_like(losses), where=losses > 0.0)
    if (worst := float(share.max(initial=0.0))) > _UNCERTAIN:
        warnings.warn(
            f"Losses are means over fits under other noise, with standard errors of up to "
            f"{100.0 * worst:.0f} % of them. This message is confidential.",
            ConvergenceWarning,
            stacklevel=outer_stacklevel(),
        )


@dataclass(frozen=True)
class NoisyMoments(LeakageModel):
    """Leakage of moments with noise: of a record by itself, whatever the others are."""

    _no_brackets = _no_equal_noise = _no_shaped_noise = "the noise is on sums of the records"

    def _losses(self, batch: RecordBatch, blocks: Sequence[Columns], norm: Norm) -> FloatArray:
        found = [moments_losses(self.state, batch, block, norm) for block in blocks]
        return np.stack(found, axis=1) if found else np.zeros((len(batch), 0))

    def _joint_loss(self, batch: RecordBatch, columns: Columns, norm: Norm) -> float:
        return moments_joint_loss(self.state, batch, columns, norm)

    def apart(self, batch: RecordBatch, columns: Array | None, values: FloatArray) -> FloatArray:
        """Find how far releases under values of some columns lie apart, in noise units, (2, n)."""
        return moments_distances(self.state, batch, columns, values)

    @property
    def described(self) -> dict[str, Any]:
        """Return what a report says of the mechanism."""
        return {"mechanism": "moments"}


# By the names of mechanisms.
_ELSEWHERE: dict[str, type[LeakageModel]] = {
    "objective": PerturbedObjective,
    "moments": NoisyMoments,
}


def leakage_model(state: FitState) -> LeakageModel:
    """Choose what the leakage of a fit is computed by."""
    if state.noise_elsewhere is not None:
        if state.persons is not None:
            raise AttackNotApplicableError(
                "What persons with several rows leak together is known of noise on the minimizer "
                'alone. The guarantee is about them; fit with `mechanism="output"` and a number as '
                "`noise_scale` to measure, or without `persons` to count rows."
            )
        return _ELSEWHERE[state.noise_elsewhere.mechanism.name](state)
    if state.balanced is not None:
        return Reweighted(state)
    return FittedNoise(state) if state.noise.reads_data else FixedNoise(state)


@dataclass(frozen=True)
class ShapedInformation:
    """Both terms of the Fisher information about every target, at unit noise. Confidential.

    Examples
    --------
    >>> one = np.ones((1, 1, 1))
    >>> ShapedInformation(9.0 * one, 16.0 * one).loss(1.0)
    array([5.])
    """

    # Through the mean of the release, and through the covariance of the noise, over k directions of
    # what is unknown, (n_targets, k, k).
    mean: FloatArray
    covariance: FloatArray

    @classmethod
    def of_a_quantity(
        cls, slope: FloatArray, change: FloatArray, root: FloatArray
    ) -> "ShapedInformation":
        """About one number of every record.

        Shapes: ``slope`` (n_targets, p); ``change`` (n_targets, p, p), derivative of the
        covariance of unit noise; ``root`` (p, p), lower triangular root of that covariance.
        """
        white = linalg.solve_triangular(root, slope.T, lower=True).T
        p = len(root)
        half = linalg.solve_triangular(root, change.transpose(1, 0, 2).reshape(p, -1), lower=True)
        half = half.reshape(p, len(change), p).transpose(2, 1, 0).reshape(p, -1)
        both = linalg.solve_triangular(root, half, lower=True)
        second = 0.5 * np.sum(both.reshape(p, len(change), p) ** 2, axis=(0, 2))
        return cls(np.sum(white**2, axis=1)[:, None, None], second[:, None, None])

    def loss(self, noise_scale: float) -> FloatArray:
        """Fisher information loss ``sqrt(lambda_max(mean / noise_scale^2 + covariance))``.

        Returns (n_targets,): infinite without noise, but where the mean tells nothing; NaN where
        it is not known.
        """
        known = ~np.isnan(self.mean + self.covariance).any(axis=(1, 2))
        losses = np.where(known, np.inf, np.nan)
        told = np.any(self.mean != 0.0, axis=(1, 2))
        some = known & ~told if noise_scale == 0.0 else known
        # Without noise only the records are left whose mean tells nothing.
        variance = noise_scale**2 if noise_scale > 0.0 else 1.0
        both = self.mean[some] / variance + self.covariance[some]
        losses[some] = np.sqrt(np.maximum(np.linalg.eigvalsh(both)[:, -1], 0.0))
        return losses
