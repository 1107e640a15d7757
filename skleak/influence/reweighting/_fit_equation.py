"""Weights as functions of the fit, where records are too many to hold a number for each.

At the fixed point of a reweighting the weight of a record is a function of the record and of p x p
numbers, the minimiser w and its Hessian H. So weights are sought among those of some ``(w, H)``:

    (w, H)  ->  omega = level / kappa(z; w, H)  ->  refit  ->  (w, H)

The plain iteration is that of [FIL21], and the accelerated one and Newton's method are those of
memory, in other coordinates: of ``(w, H)`` relative to the fit without weights. All that they need
of the records are sums. A direction of Newton's method solves ``(I + K J)(dw, dH) = K f``
(`_newton`), each product in one pass over the records, or two where the loss is not quadratic.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from skleak.influence.jacobian import FitFactor
from skleak.influence.reweighting._newton_search import Step
from skleak.influence.reweighting._record_sums import level_of, losses_under
from skleak.influence.reweighting._total_gradient import (
    Balance,
    Gradients,
    hessian_root,
    packed,
    unpacked,
)
from skleak.influence.state import WeightRule
from skleak.solvers import Minimum, Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import Array, FloatArray
from skleak.utils.blocks._dask import is_large
from skleak.utils.blocks._passes import keep

_LARGEST_BASIS = 100
_NOT_HELD = np.zeros(0)  # losses of all records
# Share of the mean below which a loss counts as that share, as in memory.
_LEAST = 1e-6


@dataclass(frozen=True)
class FitWeights:
    """Weights that a rule makes of a fit: ``level / kappa``, and one number where kappa is zero."""

    rule: WeightRule
    factor: FitFactor
    level: float
    rest: float  # weight of records that cannot leak: the geometric mean of all others

    @classmethod
    def of(cls, rule: WeightRule, factor: FitFactor, objective: Objective) -> Self:
        """Weights whose sum is that of the sample weights; one pass, several if bounded."""
        level, rest = level_of(rule, factor, objective)
        return cls(rule, factor, level, rest)

    def __call__(self, X: FloatArray, y: FloatArray, copies: FloatArray) -> FloatArray:
        """Weights of a block of records, (b,), by their sample weights; one for those absent."""
        kappa = self.rule.norms(self.factor, X, y)
        weights = np.where(kappa > 0.0, self.rule.weights(kappa, self.level), self.rest)
        return np.where(copies > 0.0, weights, 1.0)


@dataclass(frozen=True)
class Coordinates:
    """Fits as vectors, ``[F^-1 dw, F^T dH F]``, relative to a fit with ``A = F F^T``."""

    origin: FitFactor
    root: FloatArray  # ``F``, (p, p)

    @classmethod
    def of(cls, origin: FitFactor) -> Self:
        """Relative to a fit."""
        return cls(origin, hessian_root(origin.inverse_hessian))

    @property
    def start(self) -> FloatArray:
        """Vector of the fit to which all are relative, of shape (size,)."""
        p = len(self.root)
        return np.zeros(p + p * (p + 1) // 2)

    def pack(self, factor: FitFactor) -> FloatArray:
        """Vector of a fit, of shape (size,)."""
        gap = factor.coefficients - self.origin.coefficients
        moved = np.asarray(np.linalg.solve(self.root, gap), dtype=np.float64)
        half = np.linalg.solve(self.root, factor.inverse_hessian)
        hessian = np.linalg.inv(np.linalg.solve(self.root, half.T))
        hessian[np.diag_indices_from(hessian)] -= 1.0
        return packed(moved, 0.5 * (hessian + hessian.T))

    def unpack(self, point: FloatArray) -> FitFactor | None:
        """Fit of a vector; None where its Hessian is not positive definite."""
        moved, hessian = unpacked(point, len(self.root))
        hessian[np.diag_indices_from(hessian)] += 1.0
        try:
            half = np.linalg.solve(np.linalg.cholesky(hessian), self.root.T)
        except np.linalg.LinAlgError:
            return None
        coefficients = self.origin.coefficients + self.root @ moved
        return replace(self.origin, coefficients=coefficients, inverse_hessian=half.T @ half)


@dataclass(frozen=True)
class FitOf:
    """A fit with weights, and the level of what a rule balances there."""

    minimum: Minimum
    factor: FitFactor
    level: float
    reweights: Array  # the weights, an array or what stands for one, (n,)


@dataclass(frozen=True)
class FitEquation:
    """The equation of a reweighting in the coordinates of a fit.

    ``refit(reweights, coefficients)`` fits with such factors, an array or what stands for one,
    from such a start; None says that there is no minimiser, or that it was not found.
    """

    objective: Objective
    rule: WeightRule
    coordinates: Coordinates
    refit: Callable[[Array, FloatArray], Minimum | None]
    noted: Callable[[WeightRule, Step[Any]], None]  # told of every fit that there is

    @property
    def copies(self) -> FloatArray:
        """All coordinates count the same."""
        return np.ones(len(self.coordinates.start))

    def at(self, point: FloatArray) -> Step[Any]:
        """Fit with the weights of a fit, (size,)."""
        origin = self.coordinates.unpack(point)
        minimum = None
        if origin is not None:
            weights = FitWeights.of(self.rule, origin, self.objective)
            records = self.objective.X, self.objective.y, self.objective.sample_weight
            reweights = Blocks.of(*records).map(weights)
            reweights = keep(reweights) if is_large(reweights) else reweights
            minimum = self.refit(reweights, origin.coefficients)
        if minimum is None:
            return Step(np.inf, point, np.zeros(len(point)), point, _NOT_HELD, None)
        factor = FitFactor.of(self.objective, minimum)
        losses, level = losses_under(self.rule, factor, self.objective, reweights)
        residual = self.coordinates.pack(factor) - point
        state = FitOf(minimum, factor, level, reweights)
        step = Step(losses.spread, point, residual, point, _NOT_HELD, state)
        self.noted(self.rule, step)
        return step

    def turn(self, step: Step[Any], rtol: float) -> FloatArray:
        """Newton's direction at a fit, of shape (size,)."""
        if step.state is None:
            return np.full(len(step.point), np.nan)
        balance = Balance.of(step.state.factor, self.rule, step.state.level)
        system = FitSystem(
            self.objective.reweighted(step.state.reweights), balance, self.coordinates
        )
        return step.residual + system.solve(rtol)


@dataclass(frozen=True)
class FitSystem:
    """The linearised equation at a fit with weights: sums over the records alone."""

    objective: Objective  # with the weights of the fit
    balance: Balance  # of the fit itself
    coordinates: Coordinates

    def solve(self, rtol: float) -> FloatArray:
        """Change of the fit, in the coordinates of the search, under which all losses are equal."""
        right = self._response(self._sums(None))

        def product(v: FloatArray) -> FloatArray:
            return v + self._response(self._sums(v))

        operator = LinearOperator((len(right), len(right)), matvec=product, dtype=np.float64)
        solution, _ = gmres(
            operator, right, rtol=rtol, restart=min(_LARGEST_BASIS, len(right)), maxiter=1
        )
        # From the coordinates of this fit to those of the search.
        moved, hessian = unpacked(solution, self._p)
        turn = np.linalg.solve(self.balance.root, self.coordinates.root)
        step = self.balance.root @ moved
        change = np.asarray(np.linalg.solve(self.coordinates.root, step), dtype=np.float64)
        return packed(change, turn.T @ hessian @ turn)

    def _response(self, sums: tuple[FloatArray, FloatArray]) -> FloatArray:
        """Change of the fit with sums over changed weights: that through its third derivative."""
        dw, dh = sums
        if not self.objective.loss.quadratic:
            dh = dh + self._by_third(dw)
        return packed(dw, dh)

    def _sums(self, change: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """``K`` of the change of the weights, without what the Hessian changes by the minimiser."""
        parts = None if change is None else unpacked(change, self._p)
        objective, copies = self.objective, self.objective.sample_weight
        blocks = Blocks.of(objective.X, objective.y, copies, objective.weights, width=4 * self._p)
        first, second, plain, by_rule = blocks.map_reduce(
            _WeightChange(self.balance, parts).sums, add
        )
        mix = np.array([1.0, 0.0, 0.0])
        if parts is not None and by_rule[1] > 0.0:
            mix[1] = -by_rule[0] / by_rule[1]  # the level follows the changes
        mix[2] = -(plain @ mix) / plain[2]  # the sum of the weights stays, to first order
        return mix @ first, np.tensordot(mix, second, axes=1)

    def _by_third(self, dw: FloatArray) -> FloatArray:
        """Change of the Hessian with the minimiser, (p, p)."""
        factor, root = self.balance.factor, self.balance.root  # all that travels to the records

        def sums(X: FloatArray, y: FloatArray, t: FloatArray) -> FloatArray:
            x = factor.derivatives(X, y)[0]
            third = t * factor.loss.third_derivative(x @ factor.coefficients)
            x = x @ root
            return np.asarray((x * (third * (x @ dw))[:, None]).T @ x)

        objective = self.objective
        found = Blocks.of(objective.X, objective.y, objective.weights, width=2 * self._p)
        result: FloatArray = found.map_reduce(sums, add)
        return result

    @cached_property
    def _p(self) -> int:
        return len(self.balance.root)


@dataclass(frozen=True)
class _WeightChange:
    """A change of the log weights of a block of records, and what it does to the fit.

    It is that which follows from a change of the fit, ``J v``; where there is none, what the
    logarithms of the losses lack to a common constant.
    """

    balance: Balance
    parts: tuple[FloatArray, FloatArray] | None  # change of minimiser and Hessian

    def sums(self, X: FloatArray, y: FloatArray, s: FloatArray, t: FloatArray) -> "_Sums":
        """Return the sums for the change, for that of the common level, and for a constant one.

        Shapes: ``X`` (b, d); sample weights ``s`` and weights ``t`` (b,). Returns changes of the
        minimiser (3, p) and of the Hessian (3, p, p), and sums over the weights and over those of
        the rule, (3,).
        """
        g = self.balance.gradients(X, y)
        omega = np.divide(t, s, out=np.zeros_like(t), where=s > 0.0)
        if self.parts is None:
            change = self._lack(g, omega)
        else:
            change = g.effect(*self.parts, float(np.sum(self.balance.common * self.parts[1])))
        weights = s * self.balance.rule.weights(g.kappa, self.balance.level)
        columns = np.stack([change, g.follows, np.ones(len(t))], axis=1)
        first = -(g.x.T @ (columns * (t * g.r)[:, None])).T
        second = np.stack([(g.x * (t * g.c * column)[:, None]).T @ g.x for column in columns.T])
        return first, second, t @ columns, weights @ columns

    def _lack(self, g: Gradients, omega: FloatArray) -> FloatArray:
        """Return what the logarithms of the losses lack to a common constant, (b,)."""
        rule, level = self.balance.rule, self.balance.level
        losses = omega * np.hypot(g.kappa, level / rule.largest_weight)
        leaks = (g.kappa > 0.0) & (omega > 0.0)
        return -np.log(np.maximum(losses / level, _LEAST), out=np.zeros_like(losses), where=leaks)


_Sums = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
