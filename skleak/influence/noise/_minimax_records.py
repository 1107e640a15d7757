"""What single records, and many together, tell under the minimax shape with equal weights.

In the coordinates of `_minimax_coordinates`, and with ``sym(a, b) = a b^T + b a^T``, a record of
unit weight moves the minimiser, whitened, by ``-(c w_a x' + r l_a)`` for its entry a and by
``-q x'`` for its target, and changes H and B by

    W_a = w_a c' x' x'^T + c sym(l_a, x') + T(-(c w_a x' + r l_a)) ,          W_y = T(-q x') ,
    V_a = w_a [alpha' x' x'^T + beta' sym(x', w') + gamma' P'] + alpha sym(l_a, x')
          + beta sym(l_a, w') + D(-(c w_a x' + r l_a)) ,
    V_y = q [c sym(x', w') + 2 r P'] + D(-q x') .

With ``R(v) = E o D(v) - F o T(v)``, ``u = alpha x' + beta w'`` and ``v = c x'`` the covariance
changes by what is similar to ``U - <G, U> I``,

    U_a = w_a Q + E o sym(l_a, u) - F o sym(l_a, v) - r R(l_a) ,
    Q   = E o [alpha' x' x'^T + beta' sym(x', w') + gamma' P'] - c' F o x' x'^T - c R(x') ,
    U_y = q (E o [c sym(x', w') + 2 r P'] - R(x')) .

Inner products of the ``U_a`` follow without building them, in O(p^3) for a record by matrix
products with many.
"""

from dataclasses import dataclass, replace

import numpy as np

from skleak.influence.jacobian import Columns
from skleak.influence.noise._minimax_coordinates import MinimaxCoordinates
from skleak.influence.noise._terms import Frame
from skleak.influence.state import RecordBatch
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class MinimaxFrame(Frame):
    """A block of columns, with what all records share."""

    gram: FloatArray  # ``<R(l_a), R(l_b)>``, (k, k)
    # ``(E o R(l_b)) l_a`` and ``(F o R(l_b)) l_a``, (k, k, p)
    tables: tuple[FloatArray, FloatArray]

    @classmethod
    def within(cls, noise: MinimaxCoordinates, columns: Columns) -> "MinimaxFrame":
        """Of a block of columns."""
        frame = Frame.of(columns, noise.factor, noise.root)
        w, edges = frame.w, frame.edges
        k, p = edges.shape
        moved = (edges @ noise.tensor).reshape(k, p, p)
        flat = moved.reshape(k, p * p)
        tables = np.empty((2, k, k, p))
        for b in range(k):
            for table, kernel in zip(
                tables, (noise.through_moments, noise.through_hessian), strict=True
            ):
                table[:, b] = edges @ (kernel * moved[b])
        return cls(w, edges, frame.target, flat @ flat.T, (tables[0], tables[1]))


@dataclass(frozen=True)
class MinimaxRecords:
    """A block of b records, at omega = 1 and unit noise scale."""

    noise: MinimaxCoordinates  # what they have in common
    x: FloatArray  # ``x'``, (b, p)
    r: FloatArray  # derivatives of the loss: r, c, q and c', (b,)
    c: FloatArray
    q: FloatArray
    third: FloatArray

    @classmethod
    def of(cls, noise: MinimaxCoordinates, X: FloatArray, y: FloatArray) -> "MinimaxRecords":
        """From a dense block."""
        factor = noise.factor
        x, r, c, q = factor.derivatives(X, y)
        third = factor.loss.third_derivative(x @ factor.coefficients)
        return cls(noise, x @ noise.root, r, c, q, third)

    def partners(self) -> tuple[FloatArray, FloatArray]:
        """``u`` and ``v`` of shape (b, p), with which the edges ``l_a`` are paired in ``U_a``."""
        weights = self.noise.factor.weights
        alpha = self.c**2 * (weights @ weights) + self.q**2
        u = alpha[:, None] * self.x + (self.c * self.r)[:, None] * self.noise.along
        return u, self.c[:, None] * self.x

    def own_weights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``alpha'``, ``beta'`` and ``gamma'``, each of shape (b,)."""
        weights = self.noise.factor.weights
        alpha = 2.0 * self.c * self.third * (weights @ weights)
        return alpha, self.third * self.r + self.c**2, 2.0 * self.r * self.c

    def information(self, frame: MinimaxFrame) -> tuple[FloatArray, FloatArray]:
        """Both terms of the information over a block of columns, each of shape (b, k, k)."""
        noise, k = self.noise, len(frame.w)
        own, target = self._own(frame.target)
        u, v = self.partners()
        gram = np.empty((len(self.x), k + frame.target, k + frame.target))
        gram[:, :k, :k] = self._between(frame, own, u, v)
        if target is not None:
            mixed = self._with(target, u, v) @ frame.edges.T
            mixed += np.einsum("bij,bij->b", own, target)[:, None] * frame.w
            gram[:, :k, k] = gram[:, k, :k] = mixed
            gram[:, k, k] = np.einsum("bij,bij->b", target, target)
        # The scale of the noise, which depends on the record as well.
        trace, delta = (
            self._functional(matrix, frame, own, target, u, v)
            for matrix in (np.eye(len(noise.axes)), noise.metric)
        )
        cross = delta[:, :, None] * (trace - 0.5 * len(noise.axes) * delta)[:, None, :]
        gram -= cross + cross.transpose(0, 2, 1)
        moves = frame.moves(self.x, self.r, self.c, self.q) / np.sqrt(noise.axes)
        return noise.scale * (moves @ moves.transpose(0, 2, 1)), 0.5 * gram

    def _own(self, with_target: bool) -> tuple[FloatArray, FloatArray | None]:
        """``Q``, and ``U_y`` where it is wanted, each of shape (b, p, p)."""
        noise, x = self.noise, self.x
        b, p = x.shape
        alpha, beta, gamma = (weight[:, None, None] for weight in self.own_weights())
        c, q, r, third = (
            derivative[:, None, None] for derivative in (self.c, self.q, self.r, self.third)
        )
        E, F = noise.through_moments, noise.through_hessian
        moved = (x @ noise.tensor).reshape(b, p, p)
        square = x[:, :, None] * x[:, None, :]
        pair = x[:, :, None] * noise.along
        pair = pair + pair.transpose(0, 2, 1)
        own = E * (alpha * square + beta * pair + gamma * noise.features)
        own -= third * (F * square) + c * moved
        if not with_target:
            return own, None
        return own, q * (E * (c * pair + 2.0 * r * noise.features) - moved)

    def _with(self, matrix: FloatArray, u: FloatArray, v: FloatArray) -> FloatArray:
        """Return t (b, p) with ``<M, U_a - w_a Q> = l_a . t``; M of (p, p) or (b, p, p)."""
        noise, p = self.noise, self.x.shape[1]
        through = noise.tensor @ matrix.reshape(-1, p * p).T  # (p, 1) or (p, b)
        left, right = noise.through_moments * matrix, noise.through_hessian * matrix
        if matrix.ndim == 2:
            images = u @ left - v @ right
        else:
            images = np.matmul(u[:, None], left)[:, 0] - np.matmul(v[:, None], right)[:, 0]
        return 2.0 * images - self.r[:, None] * through.T

    def _functional(
        self,
        matrix: FloatArray,
        frame: MinimaxFrame,
        own: FloatArray,
        target: FloatArray | None,
        u: FloatArray,
        v: FloatArray,
    ) -> FloatArray:
        """``<M, U_a>`` for a symmetric matrix M, of shape (b, k)."""
        result = self._with(matrix, u, v) @ frame.edges.T
        result += np.einsum("bij,ij->b", own, matrix)[:, None] * frame.w
        if target is None:
            return result
        return np.column_stack([result, np.einsum("bij,ij->b", target, matrix)])

    def _between(
        self, frame: MinimaxFrame, own: FloatArray, u: FloatArray, v: FloatArray
    ) -> FloatArray:
        """``<U_a, U_b>`` of the columns, of shape (b, k, k).

        With ``U_a = w_a Q + S_a - r R(l_a)`` and ``S_a = E o sym(l_a, u) - F o sym(l_a, v)``.
        """
        noise, w, edges = self.noise, frame.w, frame.edges
        E, F = noise.through_moments, noise.through_hessian
        b, k, p = len(u), *edges.shape
        # w_a <Q, U_b>, half of the part with w_a w_b <Q, Q>, so that the transpose has the rest.
        own_rest = self._with(own, u, v) @ edges.T
        own_rest += 0.5 * np.einsum("bij,bij->b", own, own)[:, None] * w
        half = own_rest[:, :, None] * w
        # - r <S_a, R(l_b)>: what R does to the edges is the same for all records.
        tables = (u @ frame.tables[0].reshape(k * k, p).T).reshape(b, k, k)
        tables -= (v @ frame.tables[1].reshape(k * k, p).T).reshape(b, k, k)
        half -= 2.0 * self.r[:, None, None] * tables
        gram = half + half.transpose(0, 2, 1)
        gram += self.r[:, None, None] ** 2 * frame.gram
        # <S_a, S_b> / 2: E and F act elementwise, so that a product of two symmetric pairs is a sum
        # over squares of their entries, with both edges on one side or one on either.
        diagonal = (u**2) @ E**2 - 2.0 * (u * v) @ (E * F) + (v**2) @ F**2
        left, right = edges * u[:, None], edges * v[:, None]
        crossed = (left @ E**2 - right @ (E * F)) @ left.transpose(0, 2, 1)
        crossed += (right @ F**2 - left @ (E * F)) @ right.transpose(0, 2, 1)
        crossed += (edges * diagonal[:, None]) @ edges.T
        return np.asarray(gram + 2.0 * crossed)


@dataclass(frozen=True)
class MinimaxJoint:
    """``F^T F`` of records with weights, on a vector of p and a symmetric p x p matrix.

    A row of F is the whitened change of the mean over sigma, and ``(U_a - <G, U_a> I) / sqrt(2)``.
    """

    noise: MinimaxCoordinates  # what the records have in common
    batch: RecordBatch | None  # records, each times its own weight; None where they are
    frame: Frame  # what is unknown of each
    noise_scale: float  # ``sigma``

    @classmethod
    def of(
        cls, noise: MinimaxCoordinates, batch: RecordBatch, columns: Columns, noise_scale: float
    ) -> "MinimaxJoint":
        """From a block of columns."""
        return cls(noise, batch, Frame.of(columns, noise.factor, noise.root), noise_scale)

    def product(self, vector: FloatArray) -> FloatArray:
        """See `JointTerms`."""
        noise, p = self.noise, len(self.noise.axes)
        metric = vector[p:].reshape(p, p)
        metric = 0.5 * (metric + metric.T) / np.sqrt(2.0)
        metric = metric - np.trace(metric) * noise.metric
        mean = np.sqrt(noise.scale / noise.axes) / self.noise_scale
        # A step of the minimiser tells by itself, and by what it does to all records.
        pull = mean * vector[:p] + noise.tensor @ metric.ravel()
        left, right = noise.through_moments * metric, noise.through_hessian * metric
        batch, alone = self.batch, replace(self, batch=None)

        def sums(X: FloatArray, y: FloatArray, factors: FloatArray) -> tuple[FloatArray, ...]:
            records = MinimaxRecords.of(noise, X, y)
            t, target = alone._products(records, pull, left, right)
            return alone._gather(records, factors[:, None] ** 2, t, target)

        assert batch is not None
        blocks = Blocks.of(batch.X, batch.y, batch.factors, width=4 * p)
        moved, *through = blocks.map_reduce(sums, add)
        matrix = through[0] * noise.through_moments - through[1] * noise.through_hessian
        matrix += (moved @ noise.tensor).reshape(p, p)
        matrix -= np.einsum("ij,ij->", noise.metric, matrix) * np.eye(p)
        return np.concatenate([mean * moved, matrix.ravel() / np.sqrt(2.0)])

    def _products(
        self, records: MinimaxRecords, pull: FloatArray, left: FloatArray, right: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Product of the rows of F, of shape (b, k), and of the target's, (b,), with a vector."""
        noise, x, c, r = self.noise, records.x, records.c, records.r
        alpha, beta, gamma = records.own_weights()
        u, v = records.partners()
        image = x @ left
        square, pair = np.einsum("bi,bi->b", image, x), image @ noise.along
        flat, pulled = float(np.sum(left * noise.features)), x @ pull
        along = alpha * square + 2.0 * beta * pair + gamma * flat - c * pulled
        along -= records.third * np.einsum("bi,bi->b", x @ right, x)
        t = (2.0 * (u @ left - v @ right) - r[:, None] * pull) @ self.frame.edges.T
        t += along[:, None] * self.frame.w
        if not self.frame.target:
            return t, np.zeros_like(c)
        return t, records.q * (2.0 * c * pair + 2.0 * r * flat - pulled)

    def _gather(
        self,
        records: MinimaxRecords,
        weights: FloatArray,
        t: FloatArray,
        target: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sum of the rows of F by these factors: the step, and what E and F are multiplied by."""
        noise, x, c, r = self.noise, records.x, records.c, records.r
        t, target = weights * t, weights[:, 0] * target * records.q
        with_w, with_edges = t @ self.frame.w, t @ self.frame.edges
        alpha, beta, gamma = records.own_weights()
        u, v = records.partners()
        moments = x.T @ (0.5 * (alpha * with_w)[:, None] * x) + u.T @ with_edges
        moments += np.outer((beta * with_w + c * target) @ x, noise.along)
        hessian = x.T @ (0.5 * (records.third * with_w)[:, None] * x) + v.T @ with_edges
        flat = (gamma @ with_w + 2.0 * r @ target) * noise.features
        moved = -((c * with_w + target) @ x + r @ with_edges)
        return np.asarray(moved), moments + moments.T + flat, hessian + hessian.T
