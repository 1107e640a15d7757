"""Training objectives that lack one record, or have one more, about a known minimiser."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from skleak.exceptions import AttackNotApplicableError
from skleak.influence.refit import ChangedHessian, rounding_error
from skleak.solvers import Objective, SingularHessianError, minimize
from skleak.utils._blocks import dense
from skleak.utils._linalg import SingularMatrixError, augment
from skleak.utils._typing import FloatArray, IntArray

# What is left of a record's Hessian without it, below which there is no unique minimiser.
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
        """Remove records of one weight."""
        some = objective.parts(rows)
        weight = float(some.sample_weight[0])
        if weight >= objective.total:
            raise _no_minimizer(rows)
        x = augment(dense(some.X), objective.fit_intercept)
        try:
            found = cls._about(objective, w, rows, x, some.y, -weight)
        except SingularMatrixError as error:
            raise _no_minimizer(rows[:1]) from error
        if np.any(found.remaining < SINGULAR):
            raise _no_minimizer(rows[found.remaining < SINGULAR])
        return found

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
        return cls(rest, w, rows, x, y, weight, rest.at(w).hessian.inverse())

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
        records = np.sqrt(np.abs(self.curvature))[:, None] * self.x
        given = self.inverse, records, self.remaining, self._first_gradients
        return rounding_error(*given, steps)

    @cached_property
    def _first_gradients(self) -> FloatArray:
        """Gradients at the minimiser, where on the records of the fit they sum to zero, (b, p)."""
        total = self.rest.total
        penalty = self.rest.penalty * (total / (total + self.weight))
        everywhere = np.broadcast_to(self.w, (len(self.y), len(self.w)))
        own = self.own_gradients(np.arange(len(self.y)), everywhere)
        return np.asarray(self.weight * penalty * self.w + own)

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
        at = self.w + steps
        if self.rows is not None:
            return self.rest.gradients(at, self.rows[which])
        return self.rest.gradients(at) + self.own_gradients(which, at)

    def refit(self, which: IntArray) -> FloatArray:
        """Minimise some of the objectives anew, and return how far the minimisers move, (k, p)."""
        return np.stack([self._refit_one(k) for k in which.tolist()])

    def _refit_one(self, k: int) -> FloatArray:
        """Step of one minimiser, of shape (p,)."""
        total = self.rest.total
        own = replace(self.rest, alpha=self.rest.alpha * total / (total + self.weight))
        if self.rows is not None:
            own = own.without(int(self.rows[k]))
        else:
            own = own.with_more(self.x[k, : own.X.shape[1]], self.y[k], self.weight)
        try:
            # What is added and does not settle may be too far to go on from here.
            minimum = minimize(own, start=None if self.rows is None else self.w)
        except SingularHessianError as error:
            raise _no_minimizer(self.rows, k) from error
        if not minimum.converged:
            raise _no_minimizer(self.rows, k)
        return minimum.coefficients - self.w


def _no_minimizer(
    rows: IntArray | None, k: "int | slice" = slice(None)
) -> AttackNotApplicableError:
    if rows is None:
        return AttackNotApplicableError(
            "With some record more the training objective has no unique minimiser that could be "
            "reached. Pass an estimator with a larger `alpha`."
        )
    rows = np.atleast_1d(rows[k])
    some = ", ".join(map(str, rows[:5].tolist())) + (", ..." if len(rows) > 5 else "")
    return AttackNotApplicableError(
        f"Without some record ({len(rows)} of them: {some}) the training objective has no unique "
        "minimiser: what would have been released then is not defined. Pass an estimator with a "
        "larger `alpha`, or leave these records out of `records`."
    )
