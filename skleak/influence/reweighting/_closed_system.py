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
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import FitFactor, StackedParts
from skleak.influence.reweighting._total_gradient import Balance, Gradients
from skleak.influence.reweighting._total_system import AdjointSystem
from skleak.influence.state import WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import augment, each_or_nan
from skleak.utils._typing import BoolArray, FloatArray, IntArray

# Entries of the tables of a block of records at all points, 1 MB, and the fewest points at which
# these are taken together: the outer products of the records then serve all of them.
_ELEMENTS, _FEWEST = 1 << 17, 16


@dataclass(frozen=True)
class Replacement:
    """Records replaced by candidates, one each, and how the linearised system changes."""

    rows: IntArray  # of the training records that are replaced, (b,)
    new: FloatArray  # the candidates, (b, d)
    leaks: BoolArray  # whether the candidate's weight follows its leakage, (b,)
    step: FloatArray  # first step: the solution with all other records linearised, (b, size)
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


@dataclass(frozen=True)
class _Points:
    """Points around that of a system; NaN where there is none, as where no Hessian is positive."""

    coefficients: FloatArray  # (b, p)
    inverse_hessian: FloatArray  # (b, p, p)
    level: FloatArray  # (b,)
    hessian: FloatArray  # in coordinates of the system, (b, p, p)

    def take(self, which: IntArray) -> "_Points":
        """Return some of them."""
        return _Points(*(getattr(self, field.name)[which] for field in fields(self)))


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

    def _at(self, v: FloatArray) -> _Points:
        """Return the points that steps ``v`` of shape (b, size) lead to."""
        p = len(self.balance.root)
        i, j = self.system.packing.upper
        hessian = np.tile(np.eye(p), (len(v), 1, 1))
        hessian[:, i, j] += v[:, p:-1] / self.system.packing.upper_scale
        hessian[:, j, i] = hessian[:, i, j]
        cholesky = each_or_nan(np.linalg.cholesky, hessian)
        half = np.linalg.solve(cholesky, self.balance.root.T[None])
        return _Points(
            self.factor.coefficients + self.coefficients(v),
            half.transpose(0, 2, 1) @ half,
            self.level * np.exp(v[:, -1] * self.system.packing.level_scale),
            hessian,
        )

    def residual(self, v: FloatArray, change: Replacement | None = None) -> FloatArray:
        """``(G1, G2, G3)`` at steps ``v``, each with a record replaced of its own where ``change``.

        Passes over the data, each for many steps. Shapes: ``v`` (b, size); returns the same.
        """
        result, p = np.empty_like(v), len(self.balance.root)
        step = max(_FEWEST, _ELEMENTS // (len(self.objective.y) * p))
        for start in range(0, len(v), step):
            some = slice(start, start + step)
            points = self._at(v[some])
            finite = (np.isfinite(points.inverse_hessian), np.isfinite(points.coefficients))
            known = np.flatnonzero(finite[0].all(axis=(1, 2)) & finite[1].all(axis=1))
            which = start + known
            result[some] = np.nan
            if len(which):
                changed = None if change is None else change.take(which)
                result[which] = self._residual(points.take(known), changed)
        return result

    def _residual(self, points: _Points, change: Replacement | None) -> FloatArray:
        objective, packing = self.objective, self.system.packing
        root, penalty = self.balance.root, objective.total * objective.penalty
        terms, (i, j) = _Terms.of(self, points), packing.upper
        rows = np.arange(0) if change is None else change.rows

        def sums(
            X: FloatArray, position: IntArray, *aligned: Any
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            x = augment(X, objective.fit_intercept)
            t, r, c = terms.of_records(x, *(values[:, None] for values in aligned))
            inside = np.flatnonzero((rows >= position[0]) & (rows <= position[-1]))
            t[rows[inside] - position[0], inside] = 0.0
            white = x @ root
            return (t * r).T @ white, (t * c).T @ (white[:, i] * white[:, j]), t.sum(axis=0)

        aligned = objective.y, objective.sample_weight, objective.reweights, self.leaks
        width, position = max(points.coefficients.size, len(i)), np.arange(len(objective.y))
        blocks = Blocks.of(objective.X, position, *aligned, width=width, elements=_ELEMENTS)
        gradient, curvature, total = blocks.map_reduce(sums, add)
        if change is not None:
            x = augment(change.new, objective.fit_intercept)
            own = objective.y[rows], objective.sample_weight[rows], np.ones(len(rows)), change.leaks
            t, r, c = (table[0] for table in terms.of_records(x[None], *own))
            white = x @ root
            gradient += (t * r)[:, None] * white
            curvature += (t * c)[:, None] * (white[:, i] * white[:, j])
            total += t
        first = (points.coefficients * penalty) @ root + gradient
        second = (points.hessian - (root.T * penalty) @ root)[:, i, j] - curvature
        third = (total - objective.total) * packing.level_scale
        return np.column_stack([first, second * packing.upper_scale, third])

    def moved(self, v: FloatArray) -> Self:
        """Return the system around the point a step ``v`` of shape (size,) away."""
        points = self._at(v[None])
        factor = replace(
            self.factor,
            coefficients=points.coefficients[0],
            inverse_hessian=points.inverse_hessian[0],
        )
        level, objective = float(points.level[0]), self.objective
        kappa = self.rule.norms(factor, objective.X, objective.y)
        weights = objective.reweights.copy()
        weights[self.leaks] = self.rule.weights(kappa[self.leaks], level)
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


@dataclass(frozen=True)
class _Terms:
    """Terms with which records enter the equations, at b points; holds no records."""

    rule: WeightRule
    factor: FitFactor
    coefficients: FloatArray  # (b, p)
    level: FloatArray  # (b,)
    parts: StackedParts

    @classmethod
    def of(cls, system: ClosedSystem, points: _Points) -> Self:
        solution, rule = (points.coefficients, points.inverse_hessian), system.rule
        parts = StackedParts.of(*solution, rule.columns, system.factor.n_features)
        return cls(rule, system.factor, points.coefficients, points.level, parts)

    def of_records(
        self,
        x: FloatArray,
        y: FloatArray,
        copies: FloatArray,
        reweights: FloatArray,
        leaks: BoolArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights ``s omega``, r and c of records ``x~`` at every point, (n, b) each.

        Shapes: ``x`` (n, p), or (n, b, p) where each point has records of its own; all others
        (n, 1) or (n, b).
        """
        a = (
            x @ self.coefficients.T
            if x.ndim == 2
            else np.einsum("nbp,bp->nb", x, self.coefficients)
        )
        loss = self.factor.loss
        r, c, q = loss.residual(a, y), loss.curvature(a), loss.cross(a)
        damped = self.rule.residual_factor * r
        kappa = self.parts.norms(x, damped, c, q, self.rule.norm)
        omega = np.where(leaks, self.rule.weights(kappa, self.level), reweights)
        return copies * omega, r, c
