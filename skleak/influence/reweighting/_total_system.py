"""The adjoint of the closed system that a reweighted fit solves.

With the weights ``omega = level / kappa``, or those of another `WeightRule`, minimiser w, Hessian H
and level solve

    G1: sum s omega r x~ + N alpha P w = 0
    G2: H - sum s omega c x~ x~^T - N alpha P = 0
    G3: sum s omega = N .

The derivative of coefficient k with respect to whatever enters these equations is minus the inner
product of its derivative of (G1, G2, G3) with the adjoint ``(first, second, third)``, a vector, a
symmetric matrix and a number, of which there is one for every k:

    H first - sum s omega c' (x~^T second x~) x~ - sum t h = e_k ,
    second + sum t S = 0 ,
    sum t = 0 ,         t = phi s omega (r x~ . first - c x~^T second x~ + third) ,

with ``phi`` for `WeightRule.follows` (1 for IRFIL), and ``h`` and ``S`` of the gradient of
``log kappa``. In coordinates where the Hessian is the identity the system is the identity plus the
effect of the weights, so that a Krylov method needs a few dozen products, each of them one pass
over the data for all k at once. Up to about a hundred parameters it is cheaper to write the system
out and to factorise it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from skleak.influence.reweighting._total_gradient import Balance, Gradients
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import FloatArray, IntArray
from skleak.utils.blocks._dask import is_large

# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21
# Entries of the basis that the Krylov method keeps: 1 GB.
_KRYLOV_ELEMENTS = 1 << 27
_KRYLOV_TOL, _KRYLOV_PRODUCTS = 1e-10, 300


@dataclass(frozen=True)
class Adjoint:
    """One adjoint for each of K quantities, in coordinates where ``H = I``."""

    first: FloatArray  # multiplies the first equation, (K, p)
    second: FloatArray  # multiplies the second, symmetric, (K, p, p)
    third: FloatArray  # multiplies the third, (K,)

    def products(self, g: Gradients) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Contract with a block of records.

        Returns ``along`` (b, K): ``first . x``; ``second_x`` (b, K, p): ``second x``; ``quadratic``
        (b, K): ``x . second x``; ``by_weight`` (b, K): effect of minus the logarithm of the
        record's kappa through its weight, per copy and at omega = 1; zero where the weight does not
        follow kappa.
        """
        b, (k, p) = len(g.x), self.first.shape
        along = g.x @ self.first.T
        second_x = (g.x @ self.second.reshape(k * p, p).T).reshape(b, k, p)
        quadratic = (second_x @ g.x[:, :, None])[:, :, 0]
        by_weight = g.r[:, None] * along - g.c[:, None] * quadratic + self.third
        by_weight *= g.follows[:, None]
        return along, second_x, quadratic, by_weight


@dataclass(frozen=True)
class AdjointSystem:
    """The system, for the records and weights of a fit."""

    objective: Objective  # training records with the weights of the fixed point
    balance: Balance  # what the reweighting balances
    verbose: bool = False  # whether to show the progress of a pass over the data

    @cached_property
    def packing(self) -> "Packing":
        """Return how unknowns and equations are packed."""
        return Packing(self.balance, float(1.0 / np.sqrt(self.objective.total)))

    def solve_dense(self) -> Adjoint:
        """Write the system out and factorise it: time O(n p^4 + p^6), memory O(p^4)."""
        size, p = self.packing.size, self.packing.n_parameters
        right = np.zeros((size, p))
        right[:p] = self.balance.root.T
        try:
            solution = np.asarray(np.linalg.solve(self.matrix(), right), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(
                "The weights of the reweighting have no derivative: at its fixed point the system "
                "that they solve is singular. Raise `alpha`, or balance other columns."
            ) from error
        return self.packing.unpack(solution.T)

    def solve_krylov(self) -> Adjoint:
        """By GMRES: time O(n p^3) a product, memory O(p^3) times the length of its basis.

        All adjoints share one Krylov space; `residual` tells how well they were found.
        """
        p, size = self.packing.n_parameters, self.packing.size
        right = np.zeros((p, size))
        right[:, :p] = self.balance.root

        def product(v: FloatArray) -> FloatArray:
            return self.packing.pack(self._apply(self.packing.unpack(v.reshape(p, size)))).ravel()

        operator = LinearOperator((p * size, p * size), matvec=product, dtype=np.float64)
        restart = int(np.clip(_KRYLOV_ELEMENTS // (p * size), 5, 60))
        solution, _ = gmres(
            operator,
            right.ravel(),
            x0=right.ravel(),
            rtol=_KRYLOV_TOL,
            restart=restart,
            maxiter=max(1, _KRYLOV_PRODUCTS // restart),
        )
        return self.packing.unpack(solution.reshape(p, size))

    def residual(self, adjoint: Adjoint) -> float:
        """Norm of what an adjoint leaves of the system, relative to the right-hand side."""
        left = self.packing.pack(self._apply(adjoint))
        left[:, : self.packing.n_parameters] -= self.balance.root
        return float(np.linalg.norm(left) / np.linalg.norm(self.balance.root))

    def _apply(self, adjoint: Adjoint) -> Adjoint:
        """Left-hand side of the system, one pass over the data."""
        k, p = adjoint.first.shape
        balance = self.balance  # and not the system, which holds all records

        def sums(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, ...]:
            g = balance.gradients(X, y)
            _, _, quadratic, t = adjoint.products(g)
            t *= weights[:, None]
            first = -((weights * g.third)[:, None] * quadratic).T @ g.x - t.T @ g.coefficients
            second = (g.common @ t)[:, None, None] * balance.common
            for left, right in g.pairs:
                outer = (t[:, :, None] * left[:, None, :]).reshape(len(t), k * p)
                term = (outer.T @ right).reshape(k, p, p)
                second += 0.5 * (term + term.transpose(0, 2, 1))
            return first, second, t.sum(axis=0)

        first, second, third = self._blocks(k * p).map_reduce(sums, add)
        return Adjoint(first + adjoint.first, second + adjoint.second, third)

    def matrix(self) -> FloatArray:
        """Return the system written out, from what `Packing.unpack` takes to what `pack` gives."""
        packing = self.packing
        p, size = packing.n_parameters, packing.size

        def sums(X: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
            g = packing.balance.gradients(X, y)
            squares = packing.symmetric(g.x, g.x)
            reads = np.empty((len(weights), size))
            reads[:, :p] = (weights * g.r)[:, None] * g.x
            reads[:, p:-1] = -(weights * g.c)[:, None] * squares
            reads[:, -1] = weights * packing.level_scale
            matrix = packing.weight_gradients(g).T @ reads
            matrix[:p, p:-1] -= (g.x * (weights * g.third)[:, None]).T @ squares
            return matrix

        matrix = self._blocks(2 * size).map_reduce(sums, add)
        matrix[np.diag_indices(size - 1)] += 1.0
        return matrix

    def _blocks(self, width: int) -> Blocks:
        """Return the records that take part, with their targets and weights ``s omega``."""
        objective, rows = self.objective, None
        if not is_large(objective.X):  # elsewhere a record that does not take part adds zero
            rows = np.flatnonzero(objective.sample_weight > 0.0)
        return Blocks.of(
            objective.X,
            objective.y,
            objective.weights,
            width=width,
            elements=_ELEMENTS,
            rows=rows,
            task="differentiating the reweighting" if self.verbose else "",
        )


@dataclass(frozen=True)
class Packing:
    """Unknowns and equations of the system as vectors; holds no records."""

    balance: Balance
    level_scale: float  # makes the third equation and its unknown as large as the others

    @property
    def n_parameters(self) -> int:
        """Number of coefficients, ``p``."""
        return len(self.balance.root)

    @property
    def size(self) -> int:
        """Number of unknowns of one adjoint, ``p + p (p + 1) / 2 + 1``."""
        p = self.n_parameters
        return p + p * (p + 1) // 2 + 1

    def pack(self, adjoint: Adjoint) -> FloatArray:
        """Left-hand sides as vectors, of shape (K, size)."""
        entries = adjoint.second[:, *self.upper] * self.upper_scale
        third = adjoint.third[:, None] * self.level_scale
        return np.concatenate([adjoint.first, entries, third], axis=1)

    def unpack(self, vectors: FloatArray) -> Adjoint:
        """Unknowns from vectors of shape (K, size)."""
        p = self.n_parameters
        second = np.zeros((len(vectors), p, p))
        i, j = self.upper
        second[:, i, j] = second[:, j, i] = vectors[:, p:-1] / self.upper_scale
        return Adjoint(vectors[:, :p], second, vectors[:, -1] * self.level_scale)

    def symmetric(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Entries of the symmetric parts of ``left right^T``, as `pack` has them."""
        i, j = self.upper
        if left is right:
            return left[:, i] * left[:, j] * self.upper_scale
        return (left[:, i] * right[:, j] + right[:, i] * left[:, j]) * (0.5 * self.upper_scale)

    @cached_property
    def upper(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the packed entries of a symmetric matrix."""
        i, j = np.triu_indices(self.n_parameters)
        return i, j

    @cached_property
    def upper_scale(self) -> FloatArray:
        """Factors under which packing keeps inner products."""
        i, j = self.upper
        return np.where(i == j, 1.0, np.sqrt(2.0))

    def weight_gradients(self, g: Gradients) -> FloatArray:
        """Differentiate the logarithm of each weight by the packed unknowns, (b, size)."""
        p = self.n_parameters
        result = np.empty((len(g.x), self.size))
        result[:, :p] = -g.coefficients
        result[:, p:-1] = self.symmetric(*g.pairs[0])
        for left, right in g.pairs[1:]:
            result[:, p:-1] += self.symmetric(left, right)
        if np.any(g.common):
            entries = self.balance.common[self.upper] * self.upper_scale
            result[:, p:-1] += np.outer(g.common, entries)
        result[:, -1] = self.level_scale
        result *= g.follows[:, None]
        return result
