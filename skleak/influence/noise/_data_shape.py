"""Noise whose shape is a function of the training records, and what that shape reveals.

A release ``w + N(0, C)`` with ``C = sigma^2 S`` has the Fisher information about the entries
``z_a`` of a record

    I_ab = dw_a^T C^-1 dw_b + tr(C^-1 dC_a C^-1 dC_b) / 2 .

The second term does not fall with the noise scale. Both shapes are ``S = L diag(z) L^T`` up to
their trace, for a root L of the inverse Hessian A: z = 1 is the curvature of the fit itself, and
``A # M``, the minimax shape with equal weights, has the z of `_minimax_shape`. With
``sym(a, b) = a b^T + b a^T`` and ``x' = L^T x~``, ``l_a = L^T e_a``, ``w' = L^T w`` and
``P' = L^T P L`` (w with a zero for the intercept, P the identity on the features), a record of
unit weight moves the minimizer, whitened, by ``-(c w_a x' + r l_a)`` for its entry a and by
``-q x'`` for its target, and changes H by W and the matrix B of the minimax shape by V:

    W_a = w_a c' x' x'^T + c sym(l_a, x') + T(-(c w_a x' + r l_a)) ,          W_y = T(-q x') ,
    V_a = w_a [alpha' x' x'^T + beta' sym(x', w') + gamma' P'] + alpha sym(l_a, x')
          + beta sym(l_a, w') + D(-(c w_a x' + r l_a)) ,
    V_y = q [c sym(x', w') + 2 r P'] + D(-q x') ,

the record's own terms, and through the minimizer, which moves along v, those of all records,

    T(v) = sum_j s_j omega_j c'_j (x'_j . v) x'_j x'_j^T ,
    D(v) = sum_j s_j { (x'_j . v) [alpha' x' x'^T + beta' (x' w'^T + w' x'^T) + gamma' P']
                       + 2 c^2 (w' . v) x' x'^T + beta (x' v^T P' + P' v x'^T) } ,
    alpha = c^2 |w|^2 + q^2 ,   beta = c r ,   gamma = r^2 ,
    alpha' = 2 c c' |w|^2 ,   beta' = c' r + c^2 ,   gamma' = 2 r c .

T vanishes for the squared loss, D does not. With o elementwise the covariance changes by what is
similar to ``U - <G, U> I``, ``U = E o V - F o W``,

    E_kl = 1 / ((z_k + z_l) sqrt(z_k z_l)) ,   F_kl = (z_k^2 + z_l^2 + z_k z_l) E_kl ,

for the minimax shape (the derivative of ``S H S = A B A``), and ``E = 0``, ``F = 1`` for the
curvature; ``G_kl = (L^T L)_kl sqrt(z_k z_l) / tr(L diag(z) L^T)`` is for the scale. With
``R(v) = E o D(v) - F o T(v)``, ``u = alpha x' + beta w'`` and ``v = c x'``,

    U_a = w_a Q + E o sym(l_a, u) - F o sym(l_a, v) - r R(l_a) ,
    Q   = E o [alpha' x' x'^T + beta' sym(x', w') + gamma' P'] - c' F o x' x'^T - c R(x') ,
    U_y = q (E o [c sym(x', w') + 2 r P'] - R(x')) .

For the least mean shape, whose moments have squares of weights, a record's own terms in V are s_i
times as large and those in D carry ``s_j^2``; alpha is without ``q^2`` where the target is public.

Inner products of the ``U_a`` follow without building them, in O(p^3) for a record by matrix
products with many.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.noise._minimax_shape import Counting, inverse_hessian_root
from skleak.influence.state import FitState, RecordBatch
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import FloatArray

# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21


@dataclass(frozen=True)
class DataShape:
    """A fit in coordinates in which the shape of its noise is a diagonal. Confidential."""

    objective: Objective | None  # training records; None where all is known of them
    factor: FitFactor
    triangle: FloatArray  # lower triangular root of A, (p, p)
    rotation: FloatArray  # Q; ``L`` is the triangle times Q, (p, p)
    axes: FloatArray  # ``z``, (p,)
    through_moments: FloatArray | None  # ``E``, (p, p); None for zero
    through_hessian: FloatArray | float  # ``F``, (p, p), or one number
    counting: Counting  # of records in the moments

    @cached_property
    def tensor(self) -> FloatArray | None:
        """``R(e_k) = E o D(e_k) - F o T(e_k)`` for every coordinate k, (p, p * p); None for zero.

        What a step of the minimizer along k does to all records' moments and curvature.
        """
        p, objective, factor, root = len(self.axes), self.objective, self.factor, self.root
        loss, length = factor.loss, float(factor.weights @ factor.weights)
        kernel, quadratic = self.through_moments, factor.loss.quadratic
        if kernel is None and quadratic:
            return None
        assert objective is not None
        shapes = np.zeros((2, p, p))
        shapes[0], shapes[1] = 0.0 if kernel is None else kernel, self.through_hessian
        both = shapes.reshape(2, p * p)

        def sums(X: FloatArray, y: FloatArray, s: FloatArray) -> tuple[FloatArray, ...]:
            x, r, c, _ = factor.derivatives(X, y)
            third = loss.third_derivative(x @ factor.coefficients)
            x = x @ root
            weighted, more = s[:, None] * x, self.counting.more(s)
            found: tuple[FloatArray, ...] = ()
            if not quadratic:
                pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), p * p)
                pairs *= np.column_stack([2.0 * c * third * length * more, -third]) @ both
                found = (weighted.T @ pairs,)
            if kernel is None:
                return found
            weighted *= more[:, None]
            gram = (weighted * (third * r + c**2)[:, None]).T @ x
            squares = (weighted * c[:, None] ** 2).T @ x
            return gram, squares, (c * r) @ weighted, 2.0 * (r * c) @ weighted, *found

        records = objective.X, objective.y, objective.weights
        width = 1 if quadratic else p * p
        found = Blocks.of(*records, width=width, elements=_ELEMENTS).map_reduce(sums, add)
        if kernel is None:
            return found[0]
        # The part that second moments of the records give.
        (gram, squares, edge, rest), w, features = found[:4], self.along, self.features
        moved = gram[:, :, None] * w + edge[:, None] * features[:, None, :]
        result = moved + moved.transpose(0, 2, 1)
        for k in range(p):
            result[k] += rest[k] * features + 2.0 * w[k] * squares
        result = (result * kernel).reshape(p, p * p)
        return result if quadratic else result + found[4]

    def alone(self) -> Self:
        """Drop the training records, of which what is needed was found."""
        if self.objective is None:
            return self
        alone = replace(self, objective=None)
        vars(alone)["tensor"] = self.tensor  # as `cached_property` keeps it
        return alone

    @cached_property
    def root(self) -> FloatArray:
        """``L``, of shape (p, p), not triangular."""
        return self.triangle @ self.rotation

    @property
    def scale(self) -> float:
        """``tr(L diag(z) L^T) / p``: the noise is ``sigma^2 L diag(z) L^T`` over this."""
        return float(np.sum(self.root**2 @ self.axes) / len(self.axes))

    @cached_property
    def along(self) -> FloatArray:
        """``w'``, of shape (p,)."""
        return self.root[: self.factor.n_features].T @ self.factor.weights

    @cached_property
    def features(self) -> FloatArray:
        """``P'``, of shape (p, p)."""
        features = self.root[: self.factor.n_features]
        return features.T @ features

    @cached_property
    def metric(self) -> FloatArray:
        """``G``, of shape (p, p), with ``tr G = 1``."""
        half = self.root * np.sqrt(self.axes)
        return (half.T @ half) / float(np.sum(half**2))

    @property
    def shape(self) -> FloatArray:
        """``S`` with trace p, of shape (p, p)."""
        half = self.root * np.sqrt(self.axes / self.scale)
        return half @ half.T

    @property
    def noise_root(self) -> FloatArray:
        """Lower triangular root of it, of shape (p, p)."""
        # A product of triangles keeps the digits of columns in units far apart.
        middle = (self.rotation * self.axes) @ self.rotation.T
        return self.triangle @ np.linalg.cholesky(middle) / np.sqrt(self.scale)

    @property
    def mean_factor(self) -> FitFactor:
        """Measure of the first term: leakage through the mean alone."""
        response = np.sqrt(self.scale / self.axes)[:, None] * self.root.T
        return self.factor.with_response(response)

    def frame(self, columns: Columns) -> "Frame":
        """Return a block of columns in these coordinates."""
        basis = columns.basis(self.factor.n_features)
        edges = basis.T @ self.root[: self.factor.n_features]
        return Frame(self, basis.T @ self.factor.weights, edges, columns.target)

    def records(self, X: FloatArray, y: FloatArray, s: FloatArray) -> "ShapedRecords":
        """Prepare a dense block of records of weights s."""
        x, r, c, q = self.factor.derivatives(X, y)
        third = self.factor.loss.third_derivative(x @ self.factor.coefficients)
        return ShapedRecords(self, x @ self.root, r, c, q, third, self.counting.more(s))

    @property
    def width(self) -> int:
        """Entries of the largest table of a record."""
        p = len(self.axes)
        return 4 * p * (p + 1)


def curvature_noise(state: FitState) -> DataShape:
    """Whiten a fit whose noise is shaped by its curvature, ``p A / tr A``. Confidential."""
    root, p = inverse_hessian_root(state), len(state.factor.coefficients)
    counting = Counting.of("curvature", state)  # nothing
    one = np.eye(p), np.ones(p)
    return DataShape(state.objective, state.factor, root, *one, None, 1.0, counting)


def minimax_noise(state: FitState) -> DataShape:
    """Whiten a fit whose noise has the minimax shape with equal weights, ``A # M``. Confidential.

    Directions are weighed by what moves along them.
    """
    return _mean_noise(state, Counting.of("minimax", state))


def least_mean_noise(state: FitState) -> DataShape:
    """Whiten a fit whose noise has the least mean shape, ``A # N``. Confidential."""
    return _mean_noise(state, Counting.of("least_mean", state))


def _mean_noise(state: FitState, counting: Counting) -> DataShape:
    """Whiten a fit whose noise has the shape ``A # A B A``. Confidential."""
    objective, factor = state.objective, state.factor
    counting.check(objective)
    triangle = inverse_hessian_root(state)
    length = float(factor.weights @ factor.weights)

    def sums(X: FloatArray, y: FloatArray, s: FloatArray) -> tuple[FloatArray, ...]:
        x, r, c, q = factor.derivatives(X, y)
        x = x @ triangle
        alpha, beta, gamma = counting.weights(r, c, q, length)
        s = s * counting.more(s)
        half = x * np.sqrt(s * alpha)[:, None]
        return half.T @ half, (s * beta) @ x, s @ gamma

    records = objective.X, objective.y, objective.sample_weight
    blocks = Blocks.of(*records, width=len(triangle), elements=_ELEMENTS)
    moments, edge, rest = blocks.map_reduce(sums, add)
    features = triangle[: factor.n_features]
    along = np.outer(edge, features.T @ factor.weights)
    moments += along + along.T + rest * (features.T @ features)
    values, vectors = counting.axes(moments)
    z = np.sqrt(values)
    through_moments = 1.0 / (np.add.outer(z, z) * np.sqrt(np.outer(z, z)))
    through_hessian = (np.add.outer(z**2, z**2) + np.outer(z, z)) * through_moments
    through = through_moments, through_hessian
    return DataShape(objective, factor, triangle, vectors, z, *through, counting)


@dataclass(frozen=True)
class Frame:
    """A block of columns in the coordinates of a fit, the same for all records."""

    noise: DataShape
    w: FloatArray  # coefficients of the directions of the block, (k,)
    edges: FloatArray  # ``l_a = L^T e_a`` in rows, (k, p)
    target: bool  # whether the target belongs to the block

    def moves(self, records: "ShapedRecords") -> FloatArray:
        """``L^-1 dw_a`` of records in rows, of shape (b, k, p)."""
        x, r, c, q = records.x, records.r, records.c, records.q
        moves = -(c[:, None] * x)[:, None, :] * self.w[:, None] - r[:, None, None] * self.edges
        if not self.target:
            return moves
        return np.concatenate([moves, -(q[:, None] * x)[:, None]], axis=1)

    @cached_property
    def moved(self) -> FloatArray:
        """``R(l_a)``, of shape (k, p, p)."""
        k, p = self.edges.shape
        assert self.noise.tensor is not None
        return (self.edges @ self.noise.tensor).reshape(k, p, p)

    @cached_property
    def gram(self) -> FloatArray:
        """``<R(l_a), R(l_b)>``, of shape (k, k)."""
        flat = self.moved.reshape(len(self.w), self.edges.shape[1] ** 2)
        return flat @ flat.T

    @cached_property
    def tables(self) -> list[FloatArray]:
        """``(K o R(l_b)) l_a`` for the kernels F and E, each of shape (k * k, p)."""
        kernels = self.noise.through_hessian, self.noise.through_moments
        rows, columns = (self.edges[:, None], self.moved[None])
        return [
            (rows[:, :, None] @ (kernel * columns))[:, :, 0].reshape(-1, self.edges.shape[1])
            for kernel in kernels
            if kernel is not None
        ]


@dataclass(frozen=True)
class ShapedRecords:
    """A block of b records, at omega = 1 and unit noise scale."""

    noise: DataShape  # what they have in common
    x: FloatArray  # ``x'``, (b, p)
    r: FloatArray  # derivatives of the loss: r, c, q and c', (b,)
    c: FloatArray
    q: FloatArray
    third: FloatArray
    more: FloatArray  # weight in the moments over that in the fit

    @cached_property
    def partners(self) -> list[tuple[FloatArray | float, FloatArray]]:
        """Kernels K (p, p) and partners t (b, p): ``U_a`` has ``sum K o sym(l_a, t)``."""
        noise, weights = self.noise, self.noise.factor.weights
        pairs = [(noise.through_hessian, -self.c[:, None] * self.x)]
        if noise.through_moments is not None:
            lengths = weights @ weights
            alpha, beta, _ = noise.counting.weights(self.r, self.c, self.q, lengths)
            own = alpha[:, None] * self.x + beta[:, None] * noise.along
            pairs.append((noise.through_moments, self.more[:, None] * own))
        return pairs

    def own_weights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``alpha'``, ``beta'`` and ``gamma'``, each of shape (b,)."""
        weights, more = self.noise.factor.weights, self.more
        alpha = 2.0 * self.c * self.third * (weights @ weights)
        beta, gamma = self.third * self.r + self.c**2, 2.0 * self.r * self.c
        return more * alpha, more * beta, more * gamma

    def target_weights(self) -> tuple[FloatArray, FloatArray]:
        """Weights of ``sym(x', w')`` and ``P'`` in what the target does, over q; (b,) each."""
        return self.more * self.c, 2.0 * self.more * self.r

    def information(self, frame: Frame) -> tuple[FloatArray, FloatArray]:
        """Both terms of the information over a block of columns, each of shape (b, k, k)."""
        noise, own = self.noise, self.own(frame)
        gram = self.gram(frame, own)
        # The scale of the noise, which depends on the record as well.
        trace, delta = (
            self._functional(matrix, frame, own)
            for matrix in (np.eye(len(noise.axes)), noise.metric)
        )
        cross = delta[:, :, None] * (trace - 0.5 * len(noise.axes) * delta)[:, None, :]
        gram -= cross + cross.transpose(0, 2, 1)
        moves = frame.moves(self) / np.sqrt(noise.axes)
        return noise.scale * (moves @ moves.transpose(0, 2, 1)), 0.5 * gram

    def gram(self, frame: Frame, own: list[FloatArray]) -> FloatArray:
        """``<U_a, U_b>``, of shape (b, k, k), or larger by the target's."""
        k, target = len(frame.w), own[1:]
        gram = np.zeros((len(self.x), k + frame.target, k + frame.target))
        gram[:, :k, :k] = self._between(frame, own)
        for matrix in target:
            gram[:, :, k] = gram[:, k] = self._functional(matrix, frame, own)
        return gram

    def own(self, frame: Frame) -> list[FloatArray]:
        """``Q``, and ``U_y`` where it is wanted, (b, p, p) each; empty for zeros."""
        noise, x = self.noise, self.x
        if noise.tensor is None:
            return []
        b, p = x.shape
        c, q, third = (each[:, None, None] for each in (self.c, self.q, self.third))
        moved = (x @ noise.tensor).reshape(b, p, p)
        square = x[:, :, None] * x[:, None, :]
        own, target = -third * (noise.through_hessian * square) - c * moved, -moved
        if noise.through_moments is not None:
            alpha, beta, gamma = (weight[:, None, None] for weight in self.own_weights())
            pair = x[:, :, None] * noise.along
            pair = pair + pair.transpose(0, 2, 1)
            moments = alpha * square + beta * pair + gamma * noise.features
            own += noise.through_moments * moments
            on_pair, on_features = (weight[:, None, None] for weight in self.target_weights())
            moments = on_pair * pair + on_features * noise.features
            target = target + noise.through_moments * moments
        return [own, q * target] if frame.target else [own]

    def _with(self, matrix: FloatArray) -> FloatArray:
        """Return t (b, p) with ``<M, U_a - w_a Q> = l_a . t``; M of (p, p) or (b, p, p)."""
        tensor, images = self.noise.tensor, np.zeros_like(self.x)
        if tensor is not None:
            flat = matrix.reshape(-1, tensor.shape[1])
            images -= self.r[:, None] * (tensor @ flat.T).T  # (1, p) or (b, p)
        for kernel, partner in self.partners:
            if matrix.ndim == 2:
                images += 2.0 * partner @ (kernel * matrix)
            else:
                images += 2.0 * np.matmul(partner[:, None], kernel * matrix)[:, 0]
        return images

    def _functional(self, matrix: FloatArray, frame: Frame, own: list[FloatArray]) -> FloatArray:
        """``<M, U_a>`` for symmetric matrices M, (p, p) or (b, p, p), of shape (b, k)."""
        (b, p), k = self.x.shape, len(frame.w)
        result = np.zeros((b, k + frame.target))
        result[:, :k] = self._with(matrix) @ frame.edges.T
        matrix = np.broadcast_to(matrix, (b, p, p))
        for part, columns in zip(own, (slice(k), slice(k, None)), strict=False):
            size = np.einsum("bij,bij->b", part, matrix)[:, None]
            result[:, columns] += size * (frame.w if columns.start is None else 1.0)
        return result

    def _between(self, frame: Frame, own: list[FloatArray]) -> FloatArray:
        """``<U_a, U_b>`` of the columns, of shape (b, k, k).

        With ``U_a = w_a Q + S_a - r R(l_a)`` and ``S_a`` the sum of symmetric pairs.
        """
        w, edges, b, k = frame.w, frame.edges, len(self.x), len(frame.w)
        gram = np.zeros((b, k, k))
        for matrix in own[:1]:
            # w_a <Q, U_b>, half of the part with w_a w_b <Q, Q>: the transpose has the rest.
            own_rest = self._with(matrix) @ edges.T
            own_rest += 0.5 * np.einsum("bij,bij->b", matrix, matrix)[:, None] * w
            half = own_rest[:, :, None] * w
            # - r <S_a, R(l_b)>: what R does to the edges is the same for all records.
            for (_, partner), table in zip(self.partners, frame.tables, strict=True):
                half -= 2.0 * self.r[:, None, None] * (partner @ table.T).reshape(b, k, k)
            gram += half + half.transpose(0, 2, 1) + self.r[:, None, None] ** 2 * frame.gram
        # <S_a, S_b> / 2: kernels act elementwise, so that a product of two symmetric pairs is a sum
        # over squares of their entries, with both edges on one side or one on either.
        for kernel, partner in self.partners:
            if isinstance(kernel, float):  # alone, and 1: both sums are products
                inner, length = partner @ edges.T, np.einsum("bp,bp->b", partner, partner)
                crossed = inner[:, :, None] * inner[:, None, :]
                return gram + 2.0 * (crossed + length[:, None, None] * (edges @ edges.T))
            side = (edges * partner[:, None]).transpose(0, 2, 1)
            for other, paired in self.partners:
                diagonal = (partner * paired) @ (kernel * other)
                crossed = ((edges * paired[:, None]) @ (kernel * other)) @ side
                gram += 2.0 * (crossed + (edges * diagonal[:, None]) @ edges.T)
        return gram


@dataclass(frozen=True)
class ShapedJoint:
    """``F^T F`` of records with weights, on a vector of p and a symmetric p x p matrix.

    A row of F is the whitened change of the mean over sigma, and ``(U_a - <G, U_a> I) / sqrt(2)``.
    It is never built: with ``M`` a symmetric matrix, ``<M, U_a>`` and ``sum t_a U_a`` of all
    records are matrix products, O(n p^2) for both and O(p^3) for the tensor.
    """

    frame: Frame  # what is unknown of each
    noise_scale: float  # ``sigma``

    def product(self, vector: FloatArray, batch: RecordBatch) -> FloatArray:
        """Multiply with a vector of p and a symmetric p x p matrix, flattened."""
        noise, p = self.frame.noise, len(self.frame.noise.axes)
        metric = vector[p:].reshape(p, p)
        metric = 0.5 * (metric + metric.T) / np.sqrt(2.0)
        metric = metric - np.trace(metric) * noise.metric
        mean = np.sqrt(noise.scale / noise.axes) / self.noise_scale
        # A step of the minimizer tells by itself, and by what it does to all records.
        tensor = np.zeros((p, p * p)) if noise.tensor is None else noise.tensor
        pull = mean * vector[:p] + tensor @ metric.ravel()

        def sums(X: FloatArray, y: FloatArray, factors: FloatArray) -> tuple[FloatArray, ...]:
            records = noise.records(X, y, factors)
            t, target = self._products(records, pull, metric)
            weights = factors[:, None] ** 2
            return self._gather(records, weights * t, weights[:, 0] * target)

        blocks = Blocks.of(batch.X, batch.y, batch.factors, width=4 * p)
        moved, *through = blocks.map_reduce(sums, add)
        kernels = noise.through_hessian, noise.through_moments
        matrix = sum(k * part for k, part in zip(kernels, through, strict=False))
        matrix = matrix + (moved @ tensor).reshape(p, p)
        matrix -= np.einsum("ij,ij->", noise.metric, matrix) * np.eye(p)
        return np.concatenate([mean * moved, matrix.ravel() / np.sqrt(2.0)])

    def _products(
        self, records: ShapedRecords, pull: FloatArray, metric: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Product of the rows of F, of shape (b, k), and of the target's, (b,), with a vector."""
        noise, x, c, r = self.frame.noise, records.x, records.c, records.r
        pulled, kernel = x @ pull, noise.through_moments
        square = np.einsum("bi,bi->b", x @ (noise.through_hessian * metric), x)
        along, target = -c * pulled - records.third * square, -pulled
        if kernel is not None:
            image, flat = x @ (kernel * metric), float(np.sum(kernel * metric * noise.features))
            alpha, beta, gamma = records.own_weights()
            square, pair = np.einsum("bi,bi->b", image, x), image @ noise.along
            along += alpha * square + 2.0 * beta * pair + gamma * flat
            on_pair, on_features = records.target_weights()
            target = target + 2.0 * on_pair * pair + on_features * flat
        t = -r[:, None] * pull
        for through, partner in records.partners:
            t = t + 2.0 * partner @ (through * metric)
        t = t @ self.frame.edges.T + along[:, None] * self.frame.w
        return t, target * records.q * self.frame.target

    def _gather(
        self, records: ShapedRecords, t: FloatArray, target: FloatArray
    ) -> tuple[FloatArray, ...]:
        """Sum of the rows of F by these factors: the step, and what F and E are multiplied by."""
        noise, x, c, r = self.frame.noise, records.x, records.c, records.r
        target = target * records.q
        with_w, with_edges = t @ self.frame.w, t @ self.frame.edges
        parts = [-((c * with_w + target) @ x + r @ with_edges)]
        alpha, beta, gamma = records.own_weights()
        for own, (_, partner) in zip((-records.third, alpha), records.partners, strict=False):
            half = x.T @ (0.5 * (own * with_w)[:, None] * x) + partner.T @ with_edges
            parts.append(half + half.T)
        if noise.through_moments is not None:
            on_pair, on_features = records.target_weights()
            edge = np.outer((beta * with_w + on_pair * target) @ x, noise.along)
            flat = (gamma @ with_w + on_features @ target) * noise.features
            parts[2] = parts[2] + edge + edge.T + flat
        return tuple(parts)
