"""How far one changed entry of a record moves the minimizer, by one Newton step, for all records.

With ``x' = x + t e_j`` the change of the gradient, ``k (r' x' - r x)``, and that of the Hessian,
``k (c' x' x'^T - c x x^T)``, lie in the span of ``V = [x~, e_j]``, so that the step is

    delta = -A V q,    q = (I + M V^T A V)^-1 g ,
    g = k [r' - r, r' t],    M = k [[c' - c, c' t], [c' t, c' t^2]] ,

and all distances follow from the 2 x 2 products of ``A x~`` and ``A e_j``. Exact for the squared
loss; for others it says which records to solve for. What it errs by is bounded: with ``E`` the
length of the step in the norm of H', the Hessian with the change, and ``rho`` the largest length
of a record in that of its inverse, no predictor moves by more than ``T = rho E``. The third
derivative of a loss is at most its curvature, which changes by at most ``exp(|t|)`` over a move t.
So the gradient after the step is at most ``T exp(T) E / 2``, the Hessian at a distance r from there
at least ``exp(-T - rho r) H'``, and the minimizer, by integration along the way to it, within

    r <= -log(1 - q) / rho <= q E / (T (1 - q)) ,      q = T^2 exp(2 T) / 2 .
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
from scipy import linalg

from skleak.influence.noise import mean_factor
from skleak.influence.state import FitState, RecordBatch
from skleak.utils._blocks import Blocks
from skleak.utils._linalg import augment
from skleak.utils._typing import Data, FloatArray, IntArray

# Pairs of values, over all records, that are compared.
_MOST_PAIRS = 2e7
# Entries of the tables of a block of records and columns: 64 KB, of which there are many.
_COLUMNS = 1 << 13
# What rounding may take from an energy, and from what is left of a Hessian.
_LOST = 1e-7
# How the entries x of k columns change, by ``start + slope x``: start (k,), and slope.
Move = tuple[FloatArray, float]


def largest_leverage(state: FitState) -> float:
    """Largest ``x~^T A x~`` of the records that take part in a fit with one predictor."""
    objective, factor = state.objective, state.factor
    fit_intercept, inverse = objective.fit_intercept, factor.inverse_hessian

    def largest(X: FloatArray, weights: FloatArray) -> FloatArray:
        x = augment(X[weights > 0.0], fit_intercept)
        return np.einsum("ij,ij->i", x @ inverse, x).max(initial=0.0, keepdims=True)

    blocks = Blocks.of(objective.X, objective.weights, width=len(inverse))
    return float(blocks.map_reduce(largest, np.maximum)[0])


@dataclass(frozen=True)
class OneStep:
    """Records of a fit with one predictor, prepared for changes of single entries. Confidential.

    Lengths are those over the noise at scale 1.
    """

    state: FitState
    X: Data
    y: FloatArray
    weight: FloatArray  # ``k``, (n,)
    predictor: FloatArray  # ``x~ . w``, (n,)
    leverage: FloatArray  # ``x~^T A x~``, (n,)
    length: FloatArray  # ``|A x~|^2``, (n,)
    response: FloatArray  # ``A S^-1 A``, (p, p)
    longest: float  # largest leverage of a record of the fit; infinite where it is not known

    @classmethod
    def of(cls, state: FitState, batch: RecordBatch, longest: float = np.inf) -> Self:
        """Prepare records, with the part that they take in the fit."""
        factor = state.factor
        factor.check_one_predictor()
        shaped = mean_factor(state).response
        response = shaped.T @ shaped

        def measured(X: FloatArray, y: FloatArray) -> FloatArray:
            x = factor.derivatives(X, y)[0]
            leverage = np.einsum("ij,ij->i", x @ factor.inverse_hessian, x)
            length = np.einsum("ij,ij->i", x @ response, x)
            return np.stack([x @ factor.coefficients, leverage, length], axis=1)

        found = Blocks.of(batch.X, batch.y).map(measured)
        predictor, leverage, length = found.T
        given = state, batch.X, batch.y, batch.factors, predictor, leverage, length, response
        return cls(*given, longest)

    @cached_property
    def _variance(self) -> float:
        """Largest ``|A^1/2 v|^2`` over the noise, of a v of length 1."""
        inverse = self.state.factor.inverse_hessian
        try:  # |v|^2 over the noise is v^T H (A S^-1 A) H v
            root = linalg.cholesky(inverse, lower=True)
            left = linalg.solve_triangular(root, self.response, lower=True)
            square = linalg.solve_triangular(root, left.T, lower=True)
        except linalg.LinAlgError:
            return np.inf
        return float(np.linalg.norm(square, 2))

    def targets(self, targets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Largest distance of two targets, and of one from the record's own, (n,) each.

        With bounds on what either errs by, (n,). Shapes: ``targets`` (n_values,), or (n, n_values)
        for those of each record's own.
        """
        loss, a = self.state.objective.loss, self.predictor[:, None]
        own = loss.residual(self.predictor, self.y)[:, None]
        moved = loss.residual(a, np.broadcast_to(targets, (len(self.y), targets.shape[-1]))) - own
        size = self.weight * np.sqrt(self.length)
        both = np.concatenate([moved, np.zeros_like(own)], axis=1)
        most = np.abs(moved).max(axis=1)
        # A target changes no curvature, so that H' is H.
        error = self._error(self.weight * most * np.sqrt(self.leverage), self.longest, 1.0)
        return size * np.ptp(both, axis=1), size * most, 2.0 * error

    def column(self, j: int, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Largest distance of two values of a column, and of one from the record's own, (n,) each.

        With bounds on what either errs by, (n,), infinite where not all values are compared.
        Shapes: ``values`` (n_values,).
        """
        compares_all, last = self.compares_all(len(values)), len(values) - 1

        def furthest(x: FloatArray, some: _Columns) -> FloatArray:
            steps = [some.step(value - x) for value in values]
            q = [step.q for step in steps]
            own = largest = np.max([some.squares(*each) for each in q], axis=0)
            for one in range(last) if compares_all else (0, last):
                for other in range(one + 1, len(q)):
                    gap = (there - here for there, here in zip(q[other], q[one], strict=True))
                    largest = np.maximum(largest, some.squares(*gap))
            error = np.full_like(own, np.inf)
            if compares_all:
                error = np.max([self._errors(some, step) for step in steps], axis=0)
            return np.concatenate([np.sqrt(largest), np.sqrt(own), 2.0 * error], axis=1)

        largest, own, error = self._by_block(np.array([j]), furthest)
        return largest, own, error

    def compares_all(self, n_values: int) -> bool:
        """Return True if all pairs of values are compared, not just those with first and last."""
        return n_values**2 * len(self.y) <= 2.0 * _MOST_PAIRS

    def moved(self, columns: IntArray, moves: Sequence[Move]) -> FloatArray:
        """Largest distance of an entry from those it is moved to, (k, n) for k columns.

        And bounds on what it errs by, in one array of shape (2, k, n).
        """

        def furthest(x: FloatArray, some: _Columns) -> FloatArray:
            steps = [some.step(start + slope * x) for start, slope in moves]
            squares = reduce(np.maximum, (some.squares(*step.q) for step in steps))
            error = reduce(np.maximum, (self._errors(some, step) for step in steps))
            return np.concatenate([np.sqrt(squares), error], axis=1)

        return self._by_block(columns, furthest).reshape(2, len(columns), -1)

    def _errors(self, some: "_Columns", step: "_Step") -> FloatArray:
        """Bound what the steps of some entries err by, of shape (b, k)."""
        if self._flat is not None:
            return np.full_like(step.t, self._flat)
        return self._error(*some.reach(step, self.longest))

    @cached_property
    def _flat(self) -> float | None:
        """Return what all steps err by; None where they differ."""
        if self.state.balanced is not None:  # the weights move as well
            return np.inf
        return 0.0 if self.state.objective.loss.quadratic else None

    def _error(
        self, energy: FloatArray, longest: "FloatArray | float", least: "FloatArray | float"
    ) -> FloatArray:
        """Bound the lengths, over the noise, of the ways from the steps to the minimizers.

        Shapes: ``energy``, E, any; ``longest``, ``rho^2``; ``least``, how little is left of H.
        """
        if self._flat is not None:
            return np.full_like(energy, self._flat)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            t = np.sqrt(longest) * energy
            ratio = 0.5 * t * t * np.exp(2.0 * t)
            error = ratio * energy / (t * (1.0 - ratio)) * np.sqrt(self._variance / least)
        # Where the step is zero, the record says nothing, however long the others are.
        return np.where(energy > 0.0, np.where(ratio < 1.0, error, np.inf), 0.0)

    def information(
        self, column: int, nodes: FloatArray, weights: FloatArray, step: float
    ) -> FloatArray:
        """Squared speed of the minimizer in a column, averaged over nodes of it, (n,).

        By central differences; each node counts for all records. Shapes: ``nodes`` and ``weights``
        (n_nodes,).
        """

        def speeds(x: FloatArray, some: _Columns) -> FloatArray:
            below, above = (some.step(nodes + sign * step - x).q for sign in (-1.0, 1.0))
            gap = (there - here for there, here in zip(above, below, strict=True))
            return some.squares(*gap) / (4.0 * step**2)

        return weights @ self._by_block(np.repeat(column, len(nodes)), speeds)

    def take(self, which: IntArray) -> Self:
        """Return some of the records."""
        own = ("X", "y", "weight", "predictor", "leverage", "length")
        return replace(self, **{name: getattr(self, name)[which] for name in own})

    def _by_block(
        self, columns: IntArray, f: "Callable[[FloatArray, _Columns], FloatArray]"
    ) -> FloatArray:
        """Rows of what a function finds of entries (b, k), whatever it finds of each, (m, n)."""
        factor, loss = self.state.factor, self.state.objective.loss
        images = np.hstack([factor.inverse_hessian[:, columns], self.response[:, columns]])
        at = columns, columns
        own = factor.coefficients[columns], factor.inverse_hessian[at], self.response[at]

        def found(X: FloatArray, *vectors: FloatArray) -> FloatArray:
            y, weight, predictor, leverage, length = (values[:, None] for values in vectors)
            both = np.split(augment(X, factor.fit_intercept) @ images, 2, axis=1)
            before = loss.residual(predictor, y), loss.curvature(predictor)
            given = (weight, predictor, leverage, length, *before, *both, *own)
            return f(X[:, columns], _Columns(loss, *given))

        vectors = self.y, self.weight, self.predictor, self.leverage, self.length
        blocks = Blocks.of(self.X, *vectors, width=len(columns), elements=_COLUMNS)
        return blocks.map(found).T


@dataclass(frozen=True)
class _Columns:
    """Entries of a block of b records in k columns, prepared for changes of each."""

    loss: Any
    weight: FloatArray  # ``k``, (b, 1)
    predictor: FloatArray  # (b, 1)
    leverage: FloatArray  # (b, 1)
    length: FloatArray  # (b, 1)
    residual: FloatArray  # (b, 1)
    curvature: FloatArray  # (b, 1)
    along: FloatArray  # ``x~^T A e_j``, (b, k)
    cross: FloatArray  # ``x~^T A S^-1 A e_j``, (b, k)
    w: FloatArray  # (k,)
    inverse: FloatArray  # ``A_jj``, (k,)
    response: FloatArray  # ``(A S^-1 A)_jj``, (k,)

    def reach(self, step: "_Step", longest: float) -> tuple[FloatArray, ...]:
        """Energies of steps, the largest length of a record and how little H' may be.

        Of shape (b, k) each: E, ``rho^2``, and the least eigenvalue of H' relative to H.
        """
        h, u, inverse, t = self.leverage, self.along, self.inverse, step.t
        (g0, g1), (q0, q1) = step.g, step.q
        energy = q0 * (h * g0 + u * g1) + q1 * (u * g0 + inverse * g1)
        one, other = np.sqrt(np.maximum(h, 0.0)), np.sqrt(inverse)
        terms = np.abs(g0) * one + np.abs(g1) * other
        terms *= np.abs(q0) * one + np.abs(q1) * other
        mean, determinant = step.mean, step.determinant
        least = mean - np.sqrt(np.maximum(mean * mean - determinant, 0.0))
        least = np.maximum(np.minimum(least, 1.0) - _LOST, 0.0)
        with np.errstate(divide="ignore"):
            farthest = np.maximum(longest, h + t * (2.0 * u + t * inverse)) / least
        return np.sqrt(np.maximum(energy, 0.0) + _LOST**2 * terms), farthest, least

    def step(self, t: FloatArray) -> "_Step":
        """Solve for entries that change by ``t`` (b, k)."""
        k, h, u, inverse = self.weight, self.leverage, self.along, self.inverse
        change = self.loss.mean_change(self.predictor, t * self.w)
        g0, g1 = k * change, k * (self.residual + change) * t
        if self.loss.quadratic:
            m01 = k * t
            b00, b01 = 1.0 + m01 * u, m01 * inverse
            b10, b11 = m01 * (h + t * u), 1.0 + m01 * (u + t * inverse)
        else:
            curvature = self.loss.curvature(self.predictor + t * self.w)
            m00, m01 = k * (curvature - self.curvature), k * curvature * t
            b00, b01 = 1.0 + m00 * h + m01 * u, m00 * u + m01 * inverse
            b10, b11 = m01 * (h + t * u), 1.0 + m01 * (u + t * inverse)
        determinant = b00 * b11 - b01 * b10
        q = (b11 * g0 - b01 * g1) / determinant, (b00 * g1 - b10 * g0) / determinant
        return _Step(t, (g0, g1), q, 0.5 * (b00 + b11), determinant)

    def squares(self, q0: FloatArray, q1: FloatArray) -> FloatArray:
        """Return ``|A V q|^2``, of shape (b, k)."""
        squares = q0 * (q0 * self.length + 2.0 * q1 * self.cross) + q1 * q1 * self.response
        return np.maximum(squares, 0.0)


@dataclass(frozen=True)
class _Step:
    """One Newton step for every entry of a block, each number of shape (b, k)."""

    t: FloatArray  # how far the entry moves
    g: tuple[FloatArray, FloatArray]
    q: tuple[FloatArray, FloatArray]
    mean: FloatArray  # of the eigenvalues of ``I + M V^T A V``
    determinant: FloatArray
