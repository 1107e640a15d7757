"""The system of equations of weights that even the total loss.

How the leakage that a reweighting balances changes with the record and with the fit.

The balanced norm of a record is ``kappa = ||A Q||`` with ``Q = [c x~ w_S^T + f r E_S, q x~]`` (the
last column only where the target is balanced, and f the factor of `WeightRule`). Its logarithm
changes by

    d log kappa = - <S, dH> + h . dw + o . dx + o_y dy ,

with ``S`` symmetric: for the spectral norm, whose singular vectors are u and v, ``S`` is the
symmetric part of ``(A u) u^T``; for the trace norm that of ``Q Q^T`` framed by ``A``.

All is done in coordinates that make the Hessian the identity, ``A = F F^T``: records become
``F^T x~``, and the units of the columns drop out.

The adjoint of the closed system that a reweighted fit solves.

With the weights ``omega = level / kappa``, or those of another `WeightRule`, minimizer w, Hessian H
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
out and to factorize it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from skleak.influence.jacobian import FitFactor, JacobianParts, largest_eigenvalue
from skleak.influence.state import WeightRule
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import Array, FloatArray, IntArray

# Relative residual above which an eigenvector is computed anew by a dense method.
_EIGENVECTOR_RESIDUAL = 1e-11
# x, r, c, third and q of `Gradients`.
_Losses = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Gradients:
    """Derivatives of ``log kappa`` for a block of records, in coordinates where ``H = I``."""

    x: FloatArray  # ``F^T x~``, (b, p)
    r: FloatArray  # derivatives of the loss: r, c, c' and q, (b,)
    c: FloatArray
    third: FloatArray
    q: FloatArray
    # The norm itself, (b,). Where it is zero, all derivatives are zero: the weight of a record that
    # cannot leak is not determined by its leakage.
    kappa: FloatArray
    # By how much the logarithm of the weight follows minus that of kappa, between 0 and 1, (b,).
    follows: FloatArray
    predictor: FloatArray  # derivative through the predictor ``a``, all of it, (b,)
    # ``F direct`` is the derivative with respect to x other than through the predictor, (b, p)
    direct: FloatArray
    target: FloatArray  # derivative with respect to y, ``o_y``, (b,)
    coefficients: FloatArray  # ``F^T h``, (b, p)
    # ``S`` is the symmetric part of the sum of ``left right^T``, plus ``common`` times the matrix
    # `Balance.common`. Each factor has shape (b, p), or (1, p) if all records share it.
    pairs: list[tuple[FloatArray, FloatArray]]
    common: FloatArray  # (b,)

    def effect(self, dw: FloatArray, dh: FloatArray, by_common: float) -> FloatArray:
        """Change of minus the log weights with the minimizer and the Hessian, at one level, (b,).

        ``by_common`` is the inner product of ``dh`` with the matrix `Balance.common`.
        """
        change = self.coefficients @ dw - self.common * by_common
        for left, right in self.pairs:
            if len(left) == 1:  # shared by all records
                change -= right @ (dh @ left[0])
            else:
                change -= np.einsum("ij,ij->i", left @ dh, right)
        # Weights move against it.
        return np.asarray(change * self.follows)


@dataclass(frozen=True)
class Balance:
    """Norm that a reweighting balances, with the matrices that all records share."""

    factor: FitFactor
    rule: WeightRule  # what is balanced, and the weights that follow from it
    # To which it is balanced, at unit noise. Plays no part where weights are unbounded.
    level: float
    root: FloatArray  # ``F`` with ``A = F F^T``, (p, p)
    gram: FloatArray  # ``F^T F``, (p, p)
    block: FloatArray  # ``F^T E_S E_S^T F``, (p, p)
    weights: FloatArray  # ``F^T E_S w_S``, (p,)
    length: float  # ``|w_S|``
    common: FloatArray  # symmetric part of ``block gram``, (p, p)

    @classmethod
    def of(cls, factor: FitFactor, rule: WeightRule, level: float = 1.0) -> "Balance":
        """Prepare the shared matrices."""
        columns = rule.columns
        root = hessian_root(factor.inverse_hessian)
        basis = columns.basis(factor.n_features)
        w = basis.T @ factor.weights
        half = root[: factor.n_features].T @ basis
        gram, block = root.T @ root, half @ half.T
        common = block @ gram
        return cls(
            factor,
            rule,
            level,
            root,
            gram,
            block,
            half @ w,
            float(np.linalg.norm(w)),
            0.5 * (common + common.T),
        )

    def gradients(self, X: FloatArray, y: FloatArray) -> Gradients:
        """Differentiate for a dense block of records, X of shape (b, d) and y of shape (b,)."""
        x, r, c, q = self.factor.derivatives(X, y)
        third = self.factor.loss.third_derivative(x @ self.factor.coefficients)
        losses = (x @ self.root, r, c, third, q)
        if self.rule.norm == "spectral":
            kappa, vectors = self._top_vectors(X, y)
            return self._spectral(losses, kappa, vectors @ self.root)
        return self._trace(losses)

    def _spectral(self, losses: _Losses, kappa: FloatArray, g: FloatArray) -> Gradients:
        """From ``u`` as ``g = F^T u``: then ``A u = F g``."""
        x, r, c, third, q = losses
        f = self.rule.residual_factor
        damped = f * r
        inverse = _reciprocal(kappa)
        qt = q * self.rule.columns.target
        gx = np.einsum("ij,ij->i", g, x)
        g_block = g @ self.block
        # v = Q^T A u / kappa, in its three parts: along w_S, all of v_S embedded, and v_y.
        v_w = (c * self.length**2 * gx + damped * (g @ self.weights)) * inverse
        v_s = ((c * gx)[:, None] * self.weights + damped[:, None] * g_block) * inverse[:, None]
        v_y = qt * gx * inverse
        g_v = np.einsum("ij,ij->i", g, v_s)
        predictor = (third * gx * v_w + f * c * g_v) * inverse
        direct = (c * v_w + qt * v_y) * inverse
        u = direct[:, None] * x + (damped * inverse)[:, None] * v_s  # F^-1 u = F^T Q v / kappa
        return Gradients(
            *losses,
            kappa=kappa,
            follows=self.rule.follows(kappa, self.level),
            predictor=predictor,
            direct=direct[:, None] * g,
            target=f * q * g_v * inverse,
            coefficients=predictor[:, None] * x + (c * gx * inverse)[:, None] * v_s,
            pairs=[(g, u)],
            common=np.zeros(len(x)),
        )

    def _trace(self, losses: _Losses) -> Gradients:
        x, r, c, third, q = losses
        f = self.rule.residual_factor
        damped = f * r
        columns = self.rule.columns
        count = columns.count(self.factor.n_features)
        gram_x = x @ self.gram
        xx, xw = np.einsum("ij,ij->i", x, gram_x), gram_x @ self.weights
        size = (c * self.length) ** 2 + (q * columns.target) ** 2
        trace = float(np.trace(self.common))
        squares = damped**2 * trace + 2.0 * damped * c * xw + size * xx
        norms = np.sqrt(np.maximum(squares, 0.0) / count)
        inverse = _reciprocal(norms) ** 2 / count
        by_c = (c * self.length**2 * xx + damped * xw) * inverse
        by_r = f * (c * xw + damped * trace) * inverse
        predictor = third * by_c + c * by_r
        gram_w = self.gram @ self.weights
        direct = (size * inverse)[:, None] * gram_x + (damped * c * inverse)[:, None] * gram_w
        coefficients = (
            predictor[:, None] * x
            + (c**2 * xx * inverse)[:, None] * self.weights
            + (c * damped * inverse)[:, None] * (gram_x @ self.block)
        )
        return Gradients(
            *losses,
            kappa=norms,
            follows=self.rule.follows(norms, self.level),
            predictor=predictor,
            direct=direct,
            target=q * by_r,
            coefficients=coefficients,
            pairs=[(x, direct), (self.weights[None, :], (damped * c * inverse)[:, None] * gram_x)],
            common=damped**2 * inverse,
        )

    @cached_property
    def _axes(self) -> tuple[JacobianParts, FloatArray, FloatArray]:
        """Coordinates, and the diagonal, of the part of ``A Q Q^T A`` that records share."""
        parts = JacobianParts.of(self.rule.damped(self.factor), self.rule.columns)
        return parts, *parts.axes()

    def _top_vectors(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Largest singular value of ``A Q`` and its left vector, of shapes (b,) and (b, p)."""
        parts, axes, diagonal = self._axes
        along = parts.along @ axes
        r, p, h = parts.of_records(X, y, self.factor.inverse_hessian @ axes, along)
        rho = r**2
        z = largest_eigenvalue(diagonal, rho, p, h, along)
        leaks = z > 0.0
        vectors = _eigenvectors(diagonal, rho, p, h, along, z)
        vectors[~leaks] = 0.0
        image = rho[:, None] * diagonal * vectors
        image += np.einsum("ij,ij->i", p, vectors)[:, None] * p
        image += (h * (vectors @ along))[:, None] * along
        residual = np.linalg.norm(image - z[:, None] * vectors, axis=1)
        for i in np.flatnonzero(leaks & ~(residual <= _EIGENVECTOR_RESIDUAL * z)):
            dense = np.diag(rho[i] * diagonal)
            dense += np.outer(p[i], p[i]) + h[i] * np.outer(along, along)
            vectors[i] = np.linalg.eigh(dense)[1][:, -1]
        return np.sqrt(z), vectors @ axes.T


def _eigenvectors(
    diagonal: FloatArray,
    rho: FloatArray,
    p: FloatArray,
    h: FloatArray,
    g: FloatArray,
    z: FloatArray,
) -> FloatArray:
    """Eigenvectors of ``rho diag(D) + p p^T + h g g^T`` to its eigenvalues z, of shape (b, p).

    ``(z - rho D)^-1 (y_1 p + y_2 sqrt(h) g)``, where y is the null vector of a 2 x 2 matrix. Where
    z is too close to ``rho max(D)`` for that, what is returned is not an eigenvector.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        resolvent = 1.0 / (z[:, None] - rho[:, None] * diagonal)
        root = np.sqrt(h)
        a = np.einsum("ij,ij,ij->i", p, p, resolvent)
        b = root * np.einsum("ij,j,ij->i", p, g, resolvent)
        c = h * (resolvent @ g**2)
        angle = 0.5 * np.arctan2(2.0 * b, a - c)  # of the larger eigenvalue's vector
        vectors = np.cos(angle)[:, None] * p + (np.sin(angle) * root)[:, None] * g
        vectors *= resolvent
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def packed(vector: FloatArray, symmetric: FloatArray) -> FloatArray:
    """Pack a vector, (p,), and a symmetric matrix, (p, p), so that inner products stay."""
    i, j = np.triu_indices(len(vector))
    return np.append(vector, symmetric[i, j] * np.where(i == j, 1.0, np.sqrt(2.0)))


def unpacked(values: FloatArray, p: int) -> tuple[FloatArray, FloatArray]:
    """Return the vector, (p,), and the symmetric matrix, (p, p), that were packed."""
    i, j = np.triu_indices(p)
    symmetric = np.zeros((p, p))
    symmetric[i, j] = symmetric[j, i] = values[p:] / np.where(i == j, 1.0, np.sqrt(2.0))
    return values[:p], symmetric


def hessian_root(matrix: FloatArray) -> FloatArray:
    """``F`` with ``F F^T`` equal to a positive definite matrix, whatever the units of its rows."""
    scale = np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    values = np.maximum(values, np.finfo(float).eps * values[-1])
    return scale[:, None] * vectors * np.sqrt(values)


def _reciprocal(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0.0)


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
        """Write the system out and factorize it: time O(n p^4 + p^6), memory O(p^4)."""
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
        """Return the records, with their targets and weights ``s omega``."""
        objective = self.objective  # a record that does not take part adds zero
        return Blocks.of(
            objective.X,
            objective.y,
            objective.weights,
            width=width,
            elements=_ELEMENTS,
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


_ACCURACY, _MOST_PASSES = 1e-14, 60


@dataclass(frozen=True)
class Moments:
    """Mean and spread of what all records lose, combined block by block."""

    count: float  # sum of the sample weights
    mean: float
    squares: float  # sum of the weighted squared deviations from the mean
    smallest: float
    largest: float

    @classmethod
    def of(cls, values: FloatArray, copies: FloatArray) -> Self:
        """Moments of a block; records of weight zero do not count."""
        values, copies = values[copies > 0.0], copies[copies > 0.0]
        if not len(values):
            return cls(0.0, 0.0, 0.0, np.inf, -np.inf)
        mean = float(np.average(values, weights=copies))
        squares = float(copies @ (values - mean) ** 2)
        return cls(float(copies.sum()), mean, squares, float(values.min()), float(values.max()))

    @property
    def spread(self) -> float:
        """Standard deviation over mean."""
        if not np.isfinite(self.mean) or self.mean == 0.0:
            return 0.0 if self.mean == 0.0 else np.inf
        return float(np.sqrt(self.squares / self.count) / self.mean)

    @property
    def deviation(self) -> float:
        """Largest relative deviation from the mean."""
        return max(self.largest - self.mean, self.mean - self.smallest) / self.mean

    def combined(self, other: "Moments") -> "Moments":
        """Moments of both."""
        if not self.count or not other.count:
            return self if self.count else other
        count, gap = self.count + other.count, other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * other.count / count,
            self.squares + other.squares + gap**2 * self.count * other.count / count,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
        )


def losses_under(
    rule: WeightRule, factor: FitFactor, objective: Objective, reweights: Array
) -> tuple[Moments, float]:
    """Moments of the losses that a rule makes equal, at such factors, and its level at the fit.

    Shapes: ``reweights`` (n,). One pass more than the level.
    """
    level, _ = level_of(rule, factor, objective)
    floor = level / rule.largest_weight

    def moments(X: FloatArray, y: FloatArray, copies: FloatArray, omega: FloatArray) -> Moments:
        kappa = rule.norms(factor, X, y)
        return Moments.of(np.where(kappa > 0.0, omega * np.hypot(kappa, floor), 0.0), copies)

    blocks = Blocks.of(objective.X, objective.y, objective.sample_weight, reweights)
    return blocks.map_reduce(moments, Moments.combined), level


def level_of(rule: WeightRule, factor: FitFactor, objective: Objective) -> tuple[float, float]:
    """Level at which the weights of a rule at a fit have the sum of the sample weights.

    Returns it with the weight of records that cannot leak, the geometric mean of all others. Both
    are those to which the search in memory converges. One pass; a few more where weights have a
    bound.
    """

    def sums(X: FloatArray, y: FloatArray, copies: FloatArray) -> FloatArray:
        kappa = rule.norms(factor, X, y)
        leaks = kappa > 0.0
        s, k = copies[leaks], kappa[leaks]
        return np.array([copies.sum(), s.sum(), s @ (1.0 / k), s @ np.log(k)])

    blocks = Blocks.of(objective.X, objective.y, objective.sample_weight)
    total, leaking, inverse, logs = blocks.map_reduce(sums, add)
    if not leaking > 0.0:
        return 0.0, 1.0
    typical = np.exp(-logs / leaking)
    level = float(total / (inverse + (total - leaking) * typical))
    if not np.isfinite(rule.largest_weight):
        return level, level * typical
    return _bounded_level(rule, factor, blocks, level, total - leaking)


def _bounded_level(
    rule: WeightRule, factor: FitFactor, blocks: Blocks, start: float, others: float
) -> tuple[float, float]:
    """By Newton's method in the logarithms, kept between bounds that are known."""

    def sums(X: FloatArray, y: FloatArray, copies: FloatArray, level: float) -> FloatArray:
        kappa = rule.norms(factor, X, y)
        leaks = kappa > 0.0
        s, k = copies[leaks], kappa[leaks]
        w, f = rule.weights(k, level), rule.follows(k, level)
        return np.array([copies.sum(), s.sum(), s @ w, s @ np.log(w), s @ (w * f), s @ f])

    log_level, low, high = np.log(start), np.log(start) - 1.0, np.inf
    rest = 1.0
    for _ in range(_MOST_PASSES):
        total, leaking, weights, logs, slopes, follows = blocks.map_reduce(
            sums, add, float(np.exp(log_level))
        )
        rest = float(np.exp(logs / leaking))
        reached = weights + others * rest
        # No weight can be above the bound, and so neither can their mean.
        error = np.log(reached / min(total, 0.9 * rule.largest_weight * total))
        low, high = (low, log_level) if error > 0.0 else (log_level, high)
        slope = (slopes + others * rest * follows / leaking) / reached
        following = log_level - error / slope if slope > 0.0 else np.inf
        if not low <= following <= high:
            following = 0.5 * (low + high) if np.isfinite(high) else log_level + 1.0
        moved, log_level = abs(following - log_level), following
        if moved <= _ACCURACY * max(1.0, abs(log_level)):
            break
    return float(np.exp(log_level)), rest
