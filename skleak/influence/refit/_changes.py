"""Training objectives in which one record has been changed."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from skleak.influence.jacobian import FitFactor
from skleak.influence.refit._chord import (
    ChangedHessian,
    factor_rounding,
    refitted_step,
    rounding_error,
    rounding_left,
)
from skleak.influence.refit._newton_batch import NewtonBatch
from skleak.influence.state import FitState
from skleak.utils._linalg import augment
from skleak.utils._typing import BoolArray, FloatArray, IntArray
from skleak.utils.blocks._dask import is_large

# Relative error by rounding of a Hessian, from which on Newton's steps are taken one by one.
_ROUNDED = 1e-6


def records_here(state: FitState) -> int:
    """Count the training records in memory, as the predictors of a candidate do."""
    X = state.objective.X
    return 0 if is_large(X) else int(X.shape[0])


@dataclass(frozen=True)
class Change:
    """Candidates of a block of records, flattened: record i becomes its m-th variant."""

    state: FitState
    old: FloatArray  # ``x~``, (b, d~)
    new: FloatArray  # and its variant
    y: FloatArray  # target, (b,)
    row: IntArray  # position in the training data, (b,)
    weight: FloatArray  # ``s omega``, (b,)
    a_old: FloatArray  # ``A x~`` of either, (b, p), or (b, p K) for K predictors
    a_new: FloatArray

    @classmethod
    def of(
        cls,
        state: FitState,
        X: FloatArray,
        y: FloatArray,
        training_rows: IntArray,
        columns: IntArray,
        values: FloatArray,
    ) -> Self:
        """Every record of a block with every value in its columns.

        Shapes: ``X`` (n, d); ``y``, ``training_rows`` (n,); ``columns`` (k,); ``values`` (n_values,
        k), or (n, n_values, k) for values of each record's own.
        """
        inverse = cls.images(state.factor)
        old = augment(X, state.factor.fit_intercept)
        shift, m = values - X[:, None, columns], values.shape[-2]
        new = np.repeat(old, m, axis=0)
        new[:, columns] = np.broadcast_to(values, shift.shape).reshape(len(new), len(columns))
        a_old = np.repeat(old @ inverse, m, axis=0)
        a_new = a_old + shift.reshape(len(a_old), len(columns)) @ inverse[columns]
        row = np.repeat(training_rows, m)
        weight = np.repeat(state.objective.parts(training_rows).weights, m)
        y = np.repeat(y, m)
        return cls(state, np.repeat(old, m, axis=0), new, y, row, weight, a_old, a_new)

    @classmethod
    def images(cls, factor: FitFactor) -> FloatArray:
        """Matrix that takes ``x~`` to ``A x~``: one row for each of its entries."""
        return factor.inverse_hessian

    @classmethod
    def width(cls, state: FitState) -> int:
        """Entries of the largest table that a candidate needs."""
        return max(len(state.factor.coefficients), records_here(state))

    def take(self, which: IntArray) -> Self:
        """Return some of the candidates."""
        return replace(
            self,
            old=self.old[which],
            new=self.new[which],
            y=self.y[which],
            row=self.row[which],
            weight=self.weight[which],
            a_old=self.a_old[which],
            a_new=self.a_new[which],
        )

    @property
    def new_target(self) -> FloatArray:
        """Target of the variant, of shape (b,)."""
        return self.y

    @property
    def moves(self) -> BoolArray:
        """Mask of the candidates that differ from the record, of shape (b,)."""
        return np.any(self.old != self.new, axis=1)

    def own_gradient(self, at: FloatArray) -> FloatArray:
        """Gradient of the new record's loss minus the old one's, at each candidate's parameters."""
        return self.new_gradient(at) - self._gradient(self.old, self.y, at)

    def gradient(self, which: IntArray, steps: FloatArray) -> FloatArray:
        """Unnormalised gradients of some candidates at the fit plus their steps, (k, p)."""
        w, some = self.state.factor.coefficients, self.take(which)
        changes = self.state.objective.gradient_changes(w, steps, some.row)
        old = some._gradient(some.old, some.y, np.broadcast_to(w, steps.shape))
        return np.asarray(changes + some.new_gradient(w + steps) - old)

    def new_gradient(self, at: FloatArray) -> FloatArray:
        """Gradient of the loss of each variant, of shape (b, p)."""
        return self._gradient(self.new, self.new_target, at)

    def _gradient(self, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
        r = self.state.objective.loss.residual(np.einsum("ij,ij->i", x, at), y)
        return (self.weight * r)[:, None] * x

    @cached_property
    def curvatures(self) -> FloatArray:
        """Change of the curvature along the record and along its variant, (b, 2)."""
        loss, w = self.state.objective.loss, self.state.factor.coefficients
        both = -loss.curvature(self.old @ w), loss.curvature(self.new @ w)
        return self.weight[:, None] * np.stack(both, axis=1)

    @cached_property
    def _system(self) -> FloatArray:
        """``I + D U^T A U`` with ``U = [x~, x~']``, (b, 2, 2)."""
        pair, basis = (self.old, self.new), (self.a_old, self.a_new)
        gram = np.array([[np.einsum("bp,bp->b", x, a) for a in basis] for x in pair])
        return np.eye(2) + self.curvatures[:, :, None] * np.moveaxis(gram, 2, 0)

    def hessian(self) -> ChangedHessian:
        """``H' = H - k c x~ x~^T + k c' x~' x~'^T`` of every candidate."""
        basis = np.stack([self.a_old, self.a_new], axis=2)
        core = np.linalg.solve(self._system, self.curvatures[:, :, None] * np.eye(2))
        return ChangedHessian(self.state.factor.inverse_hessian, basis, np.asarray(core))

    def rounding_error(self, gradient: FloatArray, steps: FloatArray) -> FloatArray:
        """Estimate the relative error by rounding of the steps ``-H'^-1 gradient``, (b,)."""
        given = self.state.factor.inverse_hessian, *self._left(), gradient, steps
        return rounding_error(*given, self.state.once(_factor_rounding))

    def _left(self) -> tuple[FloatArray, FloatArray]:
        """Return records times the root of their curvature, (b, p), and what is left, (b,)."""
        c = np.sqrt(np.abs(self.curvatures))
        records = np.maximum(c[:, :1] * np.abs(self.old), c[:, 1:] * np.abs(self.new))
        system = self._system
        # Of the inverse of two by two: what its entries are divided by.
        return records, np.linalg.det(system) / np.maximum(1.0, np.abs(system).max(axis=(1, 2)))

    def refit(self, which: IntArray) -> FloatArray:
        """Find anew the steps to the minimisers with some candidates in place of their records.

        Returns (k, p): NaN where no minimiser is reached, for which no other number may stand.
        """
        steps = self.newton_steps(which)
        for k in np.flatnonzero(np.isnan(steps).any(axis=1)).tolist():
            steps[k] = self._refit_one(int(which[k]))
        return steps

    def newton_steps(self, which: IntArray) -> FloatArray:
        """Step to some candidates, all at once, (k, p); NaN where that does not lead there."""
        some, steps = self.take(which), np.full((len(which), self.old.shape[1]), np.nan)
        # Its coordinates have the errors by rounding of Woodbury's formula.
        still = np.zeros_like(steps)
        sound = np.flatnonzero(some.rounding_error(still, still) <= _ROUNDED)
        if len(sound):
            some = some.take(sound)
            batch = NewtonBatch(self.state, some.row, some.new, some.weight, some.gradient)
            steps[sound] = batch.steps()
        return steps

    def _refit_one(self, k: int) -> FloatArray:
        """Step to one minimiser, of shape (p,); NaN where it is not reached."""
        record = self.new[k, : self.state.n_features]
        changed = self.state.objective.with_record(int(self.row[k]), record, self.new_target[k])
        fitted = self.state.factor.coefficients
        return refitted_step(changed, fitted) - self.state.once(_rounding_left)


def _rounding_left(state: FitState) -> FloatArray:
    return rounding_left(state.objective, state.factor.coefficients)


def _factor_rounding(state: FitState) -> float:
    factor = state.factor
    return factor_rounding(state.objective, factor.coefficients, factor.inverse_hessian)


@dataclass(frozen=True)
class TargetChange(Change):
    """Candidates in which the target of a record changes, alone or with some columns."""

    target: FloatArray = field(default_factory=lambda: np.empty(0))  # the new target, (b,)

    @classmethod
    def to(
        cls,
        state: FitState,
        X: FloatArray,
        y: FloatArray,
        training_rows: IntArray,
        targets: FloatArray,
        columns: IntArray | None = None,
        values: FloatArray | None = None,
    ) -> Self:
        """Every record of a block with every target.

        Shapes: ``X`` (n, d); ``y``, ``training_rows`` (n,); ``targets`` (n_values,), or (n,
        n_values) for targets of each record's own; ``columns`` (k,); ``values`` (n_values, k).
        """
        n_values = np.shape(targets)[-1]
        if columns is None or values is None:
            columns, values = np.zeros(0, dtype=np.intp), np.zeros((n_values, 0))
        change = cls.of(state, X, y, training_rows, columns, values)
        return replace(change, target=np.broadcast_to(targets, (len(X), n_values)).ravel())

    @property
    def new_target(self) -> FloatArray:
        """Target of the variant, of shape (b,)."""
        return self.target

    @property
    def moves(self) -> BoolArray:
        """Mask of the candidates that differ from the record, of shape (b,)."""
        return super().moves | (self.target != self.y)

    def take(self, which: IntArray) -> Self:
        """Return some of the candidates."""
        return replace(super().take(which), target=self.target[which])
