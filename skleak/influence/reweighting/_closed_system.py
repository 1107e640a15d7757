"""The closed system of a reweighted fit, and its solution had one record been different.

The minimizer w, the Hessian H and the level of a reweighting solve (`_total_system`)

    G1 = sum s omega r x~ + N alpha P w ,   G2 = H - sum s omega c x~ x~^T - N alpha P ,
    G3 = sum s omega - N ,                  omega = level / kappa(z; w, H)

(or what else a `WeightRule` makes of kappa). Unknowns and equations are packed as vectors, in
coordinates where the Hessian of the fit is the identity: ``[F^-1 dw, F^T dH F, d log level]``. The
derivative of the one in the other is the transpose of the matrix of the adjoint system. A record
enters it by a matrix of rank two, so that replacing one changes it by rank four.
"""

import warnings
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import FitFactor, norms_of_fits
from skleak.influence.reweighting._total_system import Adjoint, AdjointSystem, Balance, Gradients
from skleak.influence.state import WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import each_or_nan
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Entries of the tables of all records at the points that are taken together: 2 MB.
_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Replacement:
    """Records replaced by candidates, one each, and how the linearized system changes."""

    rows: IntArray  # of the training records that are replaced, (b,)
    new: FloatArray  # the candidates, (b, d)
    leaks: BoolArray  # whether the candidate's weight follows its leakage, (b,)
    step: FloatArray  # first step: the solution with all other records linearized, (b, size)
    images: FloatArray  # solutions for U, where the matrix changes by ``U reads^T``, (b, size, 4)
    reads: FloatArray
    core: FloatArray  # ``I + reads^T images``, of Woodbury's formula, (b, 4, 4)

    def take(self, which: "IntArray | slice") -> "Replacement":
        """Those of some candidates."""
        return Replacement(*(getattr(self, field.name)[which] for field in fields(self)))

    def correct(self, solutions: FloatArray) -> FloatArray:
        """Solutions of the systems with a candidate from those of the unchanged one, (b, size).

        NaN where the system with a candidate is singular.
        """
        right = np.einsum("bsk,bs->bk", self.reads, solutions)[:, :, None]
        inner = each_or_nan(np.linalg.solve, self.core, right)
        return solutions - (self.images @ inner)[:, :, 0]


class _Point(NamedTuple):
    """A point around that of a system."""

    factor: FitFactor
    level: float
    hessian: FloatArray  # in coordinates of the system, (p, p)


@dataclass(frozen=True)
class ClosedSystem:
    """Residuals of the closed system around a point, and their derivative there."""

    objective: Objective  # training records with the weights of the point
    factor: FitFactor  # minimizer and inverse Hessian of the point
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
        """Solve the linearized system for residuals of shape (size,) or (size, k)."""
        return linalg.lu_solve(self._factorized, residual, trans=1, check_finite=False)

    def coefficients(self, v: FloatArray) -> FloatArray:
        """Change of the coefficients, of shape (..., p)."""
        return v[..., : len(self.balance.root)] @ self.balance.root.T

    def _at(self, v: FloatArray) -> "_Point":
        """Return where a step ``v`` (size,) leads; raise if its Hessian is not positive."""
        step = self.system.packing.unpack(v[None])
        hessian = step.second[0] + np.eye(len(self.balance.root))
        half = np.linalg.solve(np.linalg.cholesky(hessian), self.balance.root.T)
        w = self.factor.coefficients + self.balance.root @ step.first[0]
        factor = replace(self.factor, coefficients=w, inverse_hessian=half.T @ half)
        return _Point(factor, float(self.level * np.exp(step.third[0])), hessian)

    def residual(self, v: FloatArray, change: Replacement | None = None) -> FloatArray:
        """``(G1, G2, G3)`` at steps ``v``, each with a record replaced of its own where ``change``.

        A pass over the data for each. Shapes: ``v`` (b, size); returns the same: NaN where there is
        no such point.
        """
        result = np.full_like(v, np.nan)
        step = max(1, _ELEMENTS // (len(self.objective.y) * len(self.balance.root)))
        for start in range(0, len(v), step):
            points = {}
            for k in range(start, min(start + step, len(v))):
                try:
                    points[k] = self._changed(change, k), self._at(v[k])
                except np.linalg.LinAlgError:
                    continue
            fits = [(self.rule.damped(at.factor), o.X, o.y) for o, at in points.values()]
            norms = norms_of_fits(fits, self.rule.columns, self.rule.norm) if fits else []
            for (k, point), kappa in zip(points.items(), norms, strict=True):
                result[k] = self._residual(*point, kappa)
        return result

    def _changed(self, change: Replacement | None, k: int) -> Objective:
        """Return the objective of a candidate; factors of NaN are those of records that leak."""
        reweights, leaks = self.objective.reweights.copy(), self.leaks
        reweights[leaks] = np.nan
        if change is None:
            return self.objective.reweighted(reweights)
        row = change.rows[k]
        reweights[row] = np.nan if change.leaks[k] else 1.0
        return self.objective.with_record(row, change.new[k]).reweighted(reweights)

    def _residual(self, objective: Objective, at: "_Point", kappa: FloatArray) -> FloatArray:
        root, rule, penalty = self.balance.root, self.rule, objective.total * objective.penalty

        def sums(
            X: FloatArray, y: FloatArray, s: FloatArray, omega: FloatArray, kappa: FloatArray
        ) -> tuple[FloatArray, FloatArray, float]:
            x, r, c, _ = at.factor.derivatives(X, y)
            x = x @ root
            t = s * np.where(np.isnan(omega), rule.weights(kappa, at.level), omega)
            return (t * r) @ x, (x * (t * c)[:, None]).T @ x, float(t.sum())

        aligned = objective.y, objective.sample_weight, objective.reweights, kappa
        blocks = Blocks.of(objective.X, *aligned, width=4 * len(root))
        gradient, curvature, total = blocks.map_reduce(sums, add)
        first = (at.factor.coefficients * penalty) @ root + gradient
        second = at.hessian - (root.T * penalty) @ root - curvature
        left = Adjoint(first[None], second[None], np.array([total - objective.total]))
        return self.system.packing.pack(left)[0]

    def moved(self, v: FloatArray) -> Self:
        """Return the system around the point a step ``v`` of shape (size,) away."""
        factor, level, _ = self._at(v)
        objective = self.objective
        kappa = self.rule.norms(factor, objective.X, objective.y)
        weights = np.where(self.leaks, self.rule.weights(kappa, level), objective.reweights)
        return replace(self, objective=objective.reweighted(weights), factor=factor, level=level)

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
        change = Replacement(rows, new, leaks, step, images, reads, core)
        return replace(change, step=-change.correct(step))

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
