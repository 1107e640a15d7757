"""The closed system of a reweighted fit, and its solution had one record been different.

The minimiser w, the Hessian H and the level of a reweighting solve (`_total_system`)

    G1 = sum s omega r x~ + N alpha P w ,   G2 = H - sum s omega c x~ x~^T - N alpha P ,
    G3 = sum s omega - N ,                  omega = level / kappa(z; w, H)

(or what else a `WeightRule` makes of kappa). Unknowns and equations are packed as vectors, in
coordinates where the Hessian of the fit is the identity: ``[F^-1 dw, F^T dH F, d log level]``. The
derivative of the one in the other is the transpose of the matrix of the adjoint system. A record
enters it by a matrix of rank two, so that replacing one changes it by rank four.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import FitFactor
from skleak.influence.reweighting._total_gradient import Balance, Gradients
from skleak.influence.reweighting._total_system import AdjointSystem
from skleak.influence.state import WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Replacement:
    """Records replaced by candidates, one each, and how the linearised system changes."""

    step: FloatArray  # first step: the solution with all other records linearised, (b, size)
    images: FloatArray  # solutions for U, where the matrix changes by ``U reads^T``, (b, size, 4)
    reads: FloatArray
    core: FloatArray  # ``I + reads^T images``, of Woodbury's formula, (b, 4, 4)
    leaks: BoolArray  # whether the candidate's weight follows its leakage, (b,)

    def correct(self, k: int, solution: FloatArray) -> FloatArray:
        """Solution of the system of candidate k from that of the unchanged one."""
        inner = np.linalg.solve(self.core[k], self.reads[k].T @ solution)
        return solution - self.images[k] @ inner


@dataclass(frozen=True)
class ClosedSystem:
    """Residuals of the closed system around a point, and their derivative there."""

    objective: Objective  # training records with the weights of the point
    factor: FitFactor  # minimiser and inverse Hessian of the point
    level: float  # to which leakage is balanced, at unit noise
    rule: WeightRule  # what is balanced, and the weights that follow from it
    # records whose weight follows their leakage; of others, which cannot leak, it is fixed, (n,)
    leaks: BoolArray

    @classmethod
    def of(cls, objective: Objective, factor: FitFactor, level: float, rule: WeightRule) -> Self:
        """Around a fit."""
        kappa = rule.norms(factor, objective.X, objective.y)
        return cls(objective, factor, level, rule, kappa > 0.0)

    @cached_property
    def balance(self) -> Balance:
        """Derivatives of what is balanced, and the coordinates."""
        return Balance.of(self.factor, self.rule, self.level)

    @cached_property
    def system(self) -> AdjointSystem:
        """The adjoint system, whose matrix is the transpose of the derivative."""
        return AdjointSystem(self.objective, self.balance)

    @cached_property
    def _factorized(self) -> tuple[Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", linalg.LinAlgWarning)
            try:
                lu, pivots = linalg.lu_factor(self.system.matrix(), check_finite=False)
            except linalg.LinAlgWarning as error:
                raise np.linalg.LinAlgError("The closed system is singular.") from error
        return lu, pivots

    def solve(self, residual: FloatArray) -> FloatArray:
        """Solve the linearised system for residuals of shape (size,) or (size, k)."""
        return linalg.lu_solve(self._factorized, residual, trans=1, check_finite=False)

    def coefficients(self, v: FloatArray) -> FloatArray:
        """Change of the coefficients, of shape (..., p)."""
        return v[..., : len(self.balance.root)] @ self.balance.root.T

    def at(self, v: FloatArray) -> tuple[FitFactor, float, FloatArray]:
        """Factor, level, and Hessian in coordinates of the point, a step ``v`` away."""
        p = len(self.balance.root)
        entries = v[p:-1] / self.system.packing.upper_scale
        hessian = np.eye(p)
        i, j = self.system.packing.upper
        hessian[i, j] += entries
        hessian[j, i] = hessian[i, j]
        half = np.linalg.solve(np.linalg.cholesky(hessian), self.balance.root.T)
        factor = replace(
            self.factor,
            coefficients=self.factor.coefficients + self.coefficients(v),
            inverse_hessian=half.T @ half,
        )
        return factor, self.level * float(np.exp(v[-1] * self.system.packing.level_scale)), hessian

    def weights(
        self, objective: Objective, leaks: BoolArray, factor: FitFactor, level: float
    ) -> FloatArray:
        """``omega`` of all records at a point."""
        kappa = self.rule.norms(factor, objective.X, objective.y)
        result = objective.reweights.copy()
        result[leaks] = self.rule.weights(kappa[leaks], level)
        return result

    def residual(self, objective: Objective, leaks: BoolArray, v: FloatArray) -> FloatArray:
        """``(G1, G2, G3)`` with other records, a step ``v`` away; one pass over the data."""
        factor, level, hessian = self.at(v)
        t = objective.sample_weight * self.weights(objective, leaks, factor, level)
        root, penalty = self.balance.root, objective.total * objective.penalty

        def sums(X: FloatArray, y: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
            x, r, c, _ = factor.derivatives(X, y)
            x = x @ root
            return (t * r) @ x, (x * (t * c)[:, None]).T @ x

        gradient, curvature = Blocks.of(objective.X, objective.y, t).map_reduce(sums, add)
        first = root.T @ (penalty * factor.coefficients) + gradient
        second = hessian - (root.T * penalty) @ root - curvature
        third = (t.sum() - objective.total) * self.system.packing.level_scale
        i, j = self.system.packing.upper
        return np.concatenate([first, second[i, j] * self.system.packing.upper_scale, [third]])

    def moved(self, v: FloatArray) -> Self:
        """The system around the point a step ``v`` away."""
        factor, level, _ = self.at(v)
        weights = self.weights(self.objective, self.leaks, factor, level)
        return replace(
            self, objective=self.objective.reweighted(weights), factor=factor, level=level
        )

    def replaced(self, row: int, new: FloatArray, leaks: bool) -> tuple[Objective, BoolArray]:
        """The records with one of them replaced; a candidate that cannot leak weighs one."""
        X, mask, weights = self.objective.X.copy(), self.leaks.copy(), self.objective.reweights
        X[row], mask[row] = new, leaks
        if not leaks:
            weights = weights.copy()
            weights[row] = 1.0
        return replace(self.objective, X=X, reweights=weights), mask

    def replacement(self, rows: IntArray, new: FloatArray) -> Replacement:
        """Candidates ``new`` of shape (b, d) in place of training records."""
        objective, balance = self.objective, self.balance
        y, copies = objective.y[rows], objective.sample_weight[rows]
        before, after = (balance.gradients(X, y) for X in (objective.X[rows], new))
        leaks = after.kappa > 0.0
        omega = self.rule.weights(after.kappa, self.level)
        old = self._own(before, objective.weights[rows])
        other = self._own(after, copies * omega)
        writes = np.concatenate([other[0], -old[0]], axis=2)
        reads = np.concatenate([other[1], old[1]], axis=2)
        b, size, k = writes.shape
        images = self.solve(writes.transpose(1, 0, 2).reshape(size, b * k))
        images = images.reshape(size, b, k).transpose(1, 0, 2)
        core = np.eye(k) + reads.transpose(0, 2, 1) @ images
        # What the change of records does to the equations at the point itself.
        step = images[:, :, 1] + images[:, :, 3]
        inner = np.linalg.solve(core, reads.transpose(0, 2, 1) @ step[:, :, None])
        step = step - (images @ inner)[:, :, 0]
        return Replacement(-step, images, reads, core, leaks)

    def _own(self, g: Gradients, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Parts that records write into the equations, and which changes of the unknowns they read.

        The first of either is through the predictor, the second through the logarithm of the
        weight; the latter's write is also the record's own part of the equations.
        """
        p, packing = len(self.balance.root), self.system.packing
        size, scale = packing.size, packing.level_scale
        squares = packing.symmetric(g.x, g.x)
        writes, reads = np.zeros((len(t), size, 2)), np.zeros((len(t), size, 2))
        writes[:, :p, 0] = (t * g.c)[:, None] * g.x
        writes[:, p:-1, 0] = -(t * g.third)[:, None] * squares
        writes[:, :p, 1] = (t * g.r)[:, None] * g.x
        writes[:, p:-1, 1] = -(t * g.c)[:, None] * squares
        writes[:, -1, 1] = t * scale
        reads[:, :p, 0] = g.x
        reads[:, :, 1] = packing.weight_gradients(g)
        return writes, reads
