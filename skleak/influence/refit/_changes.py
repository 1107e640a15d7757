"""Training objectives in which one record has been changed."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy import sparse

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.state._state import FitState
from skleak.solvers import Objective, minimize
from skleak.utils._linalg import augment
from skleak.utils._typing import BoolArray, FloatArray, IntArray

__all__ = ["Change", "ChangedHessian", "TargetChange"]


@dataclass(frozen=True)
class ChangedHessian:
    """``H' = H + U D U^T`` of every candidate, with U of low rank, inverted by Woodbury.

    Parameters
    ----------
    inverse : ndarray of shape (p, p)
        ``A``, the inverse of H.
    basis : ndarray of shape (b, p, r)
        ``A U``.
    core : ndarray of shape (b, r, r)
        ``(I + D U^T A U)^-1 D``.
    """

    inverse: FloatArray
    basis: FloatArray
    core: FloatArray

    def take(self, which: IntArray) -> "ChangedHessian":
        """Those of some candidates."""
        return ChangedHessian(self.inverse, self.basis[which], self.core[which])

    def solve(self, gradient: FloatArray) -> FloatArray:
        """Solve ``H' x = gradient`` for every candidate, of shape (b, p)."""
        inner = np.einsum("bpk,bp->bk", self.basis, gradient)
        correction = np.einsum("bkl,bl->bk", self.core, inner)
        return gradient @ self.inverse - np.einsum("bpk,bk->bp", self.basis, correction)


@dataclass(frozen=True)
class Change:
    """Candidates of a block of records, flattened: record i becomes its m-th variant.

    Parameters
    ----------
    state : FitState
        State of the fit.
    old, new : ndarray of shape (b, d~)
        ``x~`` and its variant.
    y : ndarray of shape (b,)
        Target.
    row : ndarray of int of shape (b,)
        Position in the training data.
    weight : ndarray of shape (b,)
        ``s omega``.
    a_old, a_new : ndarray of shape (b, p), or (b, p K) for K predictors
        ``A x~`` of either.
    """

    state: FitState
    old: FloatArray
    new: FloatArray
    y: FloatArray
    row: IntArray
    weight: FloatArray
    a_old: FloatArray
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

        Parameters
        ----------
        state : FitState
            State of the fit.
        X : ndarray of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Their targets.
        training_rows : ndarray of int of shape (n,)
            Their positions in the training data.
        columns : ndarray of int of shape (k,)
            Columns that change.
        values : ndarray of shape (n_values, k)
            Candidates.
        """
        inverse = cls.images(state.factor)
        old = augment(X, state.factor.fit_intercept)
        shift = values[None, :, :] - X[:, None, columns]
        m = len(values)
        new = np.repeat(old, m, axis=0)
        new[:, columns] = np.tile(values, (len(X), 1))
        a_old = np.repeat(old @ inverse, m, axis=0)
        a_new = a_old + shift.reshape(len(a_old), len(columns)) @ inverse[columns]
        row = np.repeat(training_rows, m)
        weight = state.objective.weights[row]
        y = np.repeat(y, m)
        return cls(state, np.repeat(old, m, axis=0), new, y, row, weight, a_old, a_new)

    @classmethod
    def images(cls, factor: FitFactor) -> FloatArray:
        """What takes ``x~`` to ``A x~``: one row for each of its entries."""
        return factor.inverse_hessian

    @classmethod
    def width(cls, state: FitState) -> int:
        """Entries of the largest table that a candidate needs."""
        return max(len(state.factor.coefficients), state.objective.X.shape[0])

    def take(self, which: IntArray) -> Self:
        """Some of the candidates."""
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
        loss = self.state.objective.loss
        r_old = loss.residual(np.einsum("ij,ij->i", self.old, at), self.y)
        r_new = loss.residual(np.einsum("ij,ij->i", self.new, at), self.new_target)
        new = (self.weight * r_new)[:, None] * self.new
        return new - (self.weight * r_old)[:, None] * self.old

    def gradient(self, at: FloatArray) -> FloatArray:
        """Unnormalised gradient of each changed objective at its parameters, of shape (b, p)."""
        objective = self.state.objective
        d = objective.X.shape[1]
        table = objective.X @ at[:, :d].T
        if objective.fit_intercept:
            table += at[:, d]
        table = objective.loss.inverse_link(table)
        table -= objective.y[:, None]
        table *= objective.weights[:, None]
        # Left out, not subtracted: far from the fit it may be larger than all else by far.
        table[self.row, np.arange(len(at))] = 0.0
        gradient = objective.total * objective.penalty * at
        gradient[:, :d] += (objective.X.T @ table).T
        if objective.fit_intercept:
            gradient[:, d] += table.sum(axis=0)
        r = objective.loss.residual(np.einsum("ij,ij->i", self.new, at), self.new_target)
        return gradient + (self.weight * r)[:, None] * self.new

    def hessian(self) -> ChangedHessian:
        """``H' = H - k c x~ x~^T + k c' x~' x~'^T`` of every candidate."""
        loss, w = self.state.objective.loss, self.state.factor.coefficients
        c = np.stack(
            [
                -self.weight * loss.curvature(self.old @ w),
                self.weight * loss.curvature(self.new @ w),
            ],
            axis=1,
        )
        basis = np.stack([self.a_old, self.a_new], axis=2)
        pair = np.stack([self.old, self.new], axis=2)
        gram = np.einsum("bpk,bpl->bkl", pair, basis)
        system = np.eye(2) + c[:, :, None] * gram
        core = np.linalg.solve(system, c[:, :, None] * np.eye(2))
        return ChangedHessian(self.state.factor.inverse_hessian, basis, core)

    def refit(self, k: int) -> FloatArray:
        """Minimise anew with a candidate in place of the record."""
        objective, d = self.state.objective, self.state.n_features
        row = self.row[k]
        others = np.delete(np.arange(len(objective.y)), row)
        rest, new = objective.X[others], self.new[k : k + 1, :d]
        if sparse.issparse(rest):
            X = sparse.vstack([rest, sparse.csr_array(new)], format="csr")
        else:
            X = np.vstack([rest, new])
        modified: Objective = replace(
            objective,
            X=X,
            y=np.append(objective.y[others], self.new_target[k]),
            sample_weight=np.append(objective.sample_weight[others], objective.sample_weight[row]),
            reweights=np.append(objective.reweights[others], objective.reweights[row]),
        )
        return minimize(modified).coefficients


@dataclass(frozen=True)
class TargetChange(Change):
    """Candidates in which the target of a record changes, alone or with some columns.

    Parameters
    ----------
    target : ndarray of shape (b,)
        The new target.
    """

    target: FloatArray = field(default_factory=lambda: np.empty(0))

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

        Parameters
        ----------
        state : FitState
            State of the fit.
        X : ndarray of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Their targets.
        training_rows : ndarray of int of shape (n,)
            Their positions in the training data.
        targets : ndarray of shape (n_values,)
            Candidates.
        columns : ndarray of int of shape (k,), default=None
            Columns that change with the target.
        values : ndarray of shape (n_values, k), default=None
            What they become with each target.
        """
        if columns is None or values is None:
            columns, values = np.zeros(0, dtype=np.intp), np.zeros((len(targets), 0))
        change = cls.of(state, X, y, training_rows, columns, values)
        return replace(change, target=np.tile(targets, len(X)))

    @property
    def new_target(self) -> FloatArray:
        """Target of the variant, of shape (b,)."""
        return self.target

    @property
    def moves(self) -> BoolArray:
        """Mask of the candidates that differ from the record, of shape (b,)."""
        return super().moves | (self.target != self.y)

    def take(self, which: IntArray) -> Self:
        """Some of the candidates."""
        return replace(super().take(which), target=self.target[which])
