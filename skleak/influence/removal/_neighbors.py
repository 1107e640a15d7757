"""Training objectives that lack one record, or have one more, about a known minimiser."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from skleak.influence.refit import (
    ChangedHessian,
    factor_rounding,
    refitted_step,
    rounding_error,
    rounding_left,
)
from skleak.solvers import Objective
from skleak.utils._blocks import dense
from skleak.utils._linalg import SingularMatrixError, augment
from skleak.utils._typing import FloatArray, IntArray

# What is left of a record's Hessian without it, below which it is only rounding.
SINGULAR = 1e-11


@dataclass(frozen=True)
class Neighbors:
    """Objectives with b records removed, or added, one each and all of one weight."""

    rest: Objective  # on the records of the fit, with the penalty of one less or one more
    w: FloatArray  # minimiser on the records of the fit, (p,)
    rows: IntArray | None  # positions of the records removed, (b,); None where they are added
    x: FloatArray  # the records, with the constant of an intercept, (b, p)
    y: FloatArray  # their targets, (b,)
    weight: float  # s; negative where they are removed
    inverse: FloatArray  # A, of the unnormalised Hessian of `rest`, (p, p)

    @classmethod
    def without(cls, objective: Objective, w: FloatArray, rows: IntArray) -> Self:
        """Remove records of one weight, which is not that of all."""
        some = objective.parts(rows)
        x = augment(dense(some.X), objective.fit_intercept)
        return cls._about(objective, w, rows, x, some.y, -float(some.sample_weight[0]))

    @classmethod
    def with_more(
        cls, objective: Objective, w: FloatArray, x: FloatArray, y: FloatArray, weight: float
    ) -> Self:
        """Add records of one weight."""
        return cls._about(objective, w, None, x, y, weight)

    @classmethod
    def _about(
        cls,
        objective: Objective,
        w: FloatArray,
        rows: IntArray | None,
        x: FloatArray,
        y: FloatArray,
        weight: float,
    ) -> Self:
        # The penalty is per unit of weight: with less of it, it weighs less beside the same losses.
        alpha = objective.alpha * (objective.total + weight) / objective.total
        rest = replace(objective, alpha=alpha)
        try:
            inverse = rest.at(w).hessian.inverse()
        except SingularMatrixError:  # every record is left to a refit
            inverse = np.full((len(w), len(w)), np.nan)
        return cls(rest, w, rows, x, y, weight, inverse)

    @cached_property
    def images(self) -> FloatArray:
        """``A x``, of shape (b, p)."""
        return self.x @ self.inverse

    @cached_property
    def curvature(self) -> FloatArray:
        """``s c`` of every record at the minimiser, of shape (b,)."""
        return self.weight * self.rest.loss.curvature(self.x @ self.w)

    @cached_property
    def remaining(self) -> FloatArray:
        """``1 + s c x.A x``: the Hessian with the change, relative to that of `rest`, (b,)."""
        return 1.0 + self.curvature * np.einsum("ij,ij->i", self.x, self.images)

    @cached_property
    def hessian(self) -> ChangedHessian:
        """Hessians with the changes, which are of rank one."""
        core = (self.curvature / self.remaining)[:, None, None]
        return ChangedHessian(self.inverse, self.images[:, :, None], core)

    def first_steps(self) -> FloatArray:
        """One Newton step each, of shape (b, p): exact for the squared loss."""
        return -self.hessian.solve(self._first_gradients)

    def rounding_error(self, steps: FloatArray) -> FloatArray:
        """Estimate the relative error of the first steps by rounding, (b,)."""
        given = self.inverse, self._spans, self.remaining, self._first_gradients
        error = rounding_error(*given, steps, self._factor_rounding)
        return np.where(self.remaining > SINGULAR, error, np.inf)

    @property
    def _spans(self) -> FloatArray:
        """Records times the root of their curvature, (b, p)."""
        return np.asarray(np.sqrt(np.abs(self.curvature))[:, None] * self.x)

    @cached_property
    def _first_gradients(self) -> FloatArray:
        """Gradients at the minimiser, where on the records of the fit they sum to zero, (b, p)."""
        return self._gradients_at(np.arange(len(self.y)), np.zeros((len(self.y), len(self.w))))

    def _gradients_at(self, which: IntArray, steps: FloatArray) -> FloatArray:
        """Gradients of what is removed or added, and of its part of the penalty, (k, p).

        Each at the minimiser plus a step, but for the penalty, which is that of the minimiser.
        """
        total = self.rest.total
        penalty = self.rest.penalty * (total / (total + self.weight))
        return np.asarray(
            self.weight * penalty * self.w + self.own_gradients(which, self.w + steps)
        )

    def own_gradients(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Gradients of the losses of some of the records, times their weight, (k, p)."""
        x = self.x[which]
        residual = self.rest.loss.residual(np.einsum("ij,ij->i", x, at), self.y[which])
        return (self.weight * residual)[:, None] * x

    def energy(self, steps: FloatArray) -> FloatArray:
        """``step.H step`` with the Hessian of each, of shape (b,)."""
        energy = np.einsum("ij,ij->i", steps @ np.linalg.inv(self.inverse), steps)
        along = np.einsum("ij,ij->i", self.x, steps)
        return np.maximum(energy + self.curvature * along**2, 0.0)

    def gradient(self, which: IntArray, steps: FloatArray) -> FloatArray:
        """Unnormalised gradients of some at the minimiser plus their steps, of shape (k, p)."""
        if self.rows is not None:
            changes = self.rest.gradient_changes(self.w, steps, self.rows[which])
            return changes + self._first_gradients[which]
        changes = self.rest.gradient_changes(self.w, steps)
        return np.asarray(changes + self._gradients_at(which, steps))

    def refit(self, which: IntArray) -> FloatArray:
        """Minimise some of the objectives anew, and return how far the minimisers move, (k, p).

        NaN where none is reached.
        """
        return np.stack([self._refit_one(k) for k in which.tolist()])

    def _refit_one(self, k: int) -> FloatArray:
        """Step of one minimiser, of shape (p,)."""
        total = self.rest.total
        own = replace(self.rest, alpha=self.rest.alpha * total / (total + self.weight))
        if self.rows is not None:
            own = own.without(int(self.rows[k]))
        else:
            own = own.with_more(self.x[k, : own.X.shape[1]], self.y[k], self.weight)
        return refitted_step(own, self.w) - self._rounding_left

    @cached_property
    def _rounding_left(self) -> FloatArray:
        """Step from the fit to its minimizer, (p,)."""
        total = self.rest.total
        fit = replace(self.rest, alpha=self.rest.alpha * total / (total + self.weight))
        return rounding_left(fit, self.w)

    @cached_property
    def _factor_rounding(self) -> float:
        """Relative error of the inverse Hessian by rounding."""
        if not self.rest.n_records:  # they are elsewhere
            return 0.0
        return factor_rounding(self.rest, self.w, self.inverse)
