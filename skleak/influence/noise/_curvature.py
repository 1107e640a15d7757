"""Leakage under noise shaped by the curvature of the fit itself, whose shape leaks too.

A release ``w + N(0, C)`` with ``C = sigma^2 p A / tr A`` has the Fisher information about the
entries ``z_a`` of a record

    I_ab = dw_a^T C^-1 dw_b + tr(C^-1 dC_a C^-1 dC_b) / 2 .

With ``A = L L^T``, in the whitened coordinates ``x' = L^T x~``, ``l_a = L^T e_a`` and for a record
of unit weight,

    L^-1 dw_a = - omega (c w_a x' + r l_a) ,     L^-1 dw_y = - omega q x' ,
    W_a = L^T dH_a L = omega [w_a Q + c (l_a x'^T + x' l_a^T) - r T(l_a)] ,
    W_y = L^T dH_y L = - omega q T(x') ,
    Q = c' x' x'^T - c T(x') ,     T(v) = sum_j s_j omega_j c'_j (x'_j . v) x'_j x'_j^T :

the record's own terms, and through the minimiser those of all others, which vanish for the squared
loss. The scale ``tr A`` depends on the data as well: ``C^-1 dC_a`` is similar to
``delta_a I - W_a`` with ``delta_a = tr(G W_a) / tr G`` and ``G = L^T L``, and the second term is

    (tr W_a W_b - delta_a tr W_b - delta_b tr W_a + p delta_a delta_b) / 2 .

As T is symmetric in its three indices, all inner products of the ``W_a`` follow from ``T(x')``,
``T(x') x'`` and the p x p matrix ``Psi_kl = tr T_k T_l``: O(p^3) for a record, in products with
many records, and O(n p^3) for the tensor. The second term does not fall with the noise scale.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skleak.influence.jacobian import Columns, FitFactor
from skleak.influence.noise._covariance import inverse_hessian_root
from skleak.influence.noise._terms import Frame, with_found
from skleak.influence.state import FitState, RecordBatch
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray

# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21


@dataclass(frozen=True)
class CurvatureNoise:
    """Noise shaped by the curvature of the fit, and what records tell under it. Confidential."""

    factor: FitFactor
    root: FloatArray  # ``L``, (p, p)
    # whether the noise is scaled by ``tr A`` of this fit, or by a number that is public
    normalized: bool
    objective: Objective | None  # training records; None where all is known of them

    @classmethod
    def of(cls, state: FitState, *, normalized: bool = True) -> "CurvatureNoise":
        """Whiten a fit."""
        return cls(state.factor, inverse_hessian_root(state), normalized, state.objective)

    def alone(self) -> "CurvatureNoise":
        """Drop the training records, of which what is needed was found."""
        return with_found(self, "tensor")

    @cached_property
    def tensor(self) -> FloatArray | None:
        """``T_k`` for every whitened coordinate, (p, p, p); None for zero, of the squared loss."""
        objective, root, fit_intercept = self.objective, self.root, self.factor.fit_intercept
        if self.factor.loss.quadratic:
            return None
        assert objective is not None
        weights, p = objective.third_derivatives(self.factor.coefficients), len(root)

        def sums(X: FloatArray, weights: FloatArray) -> FloatArray:
            x = augment(X, fit_intercept) @ root
            pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), p * p)
            return (x * weights[:, None]).T @ pairs

        blocks = Blocks.of(objective.X, weights, width=p * p, elements=_ELEMENTS)
        return blocks.map_reduce(sums, add).reshape(p, p, p)

    @cached_property
    def psi(self) -> FloatArray:
        """``Psi_kl = tr(T_k T_l)``, of shape (p, p)."""
        if self.tensor is None:
            return np.zeros_like(self.root)
        flat = self.tensor.reshape(len(self.tensor), -1)
        return flat @ flat.T

    @cached_property
    def metric(self) -> FloatArray:
        """``G = L^T L``, of shape (p, p); its trace is ``tr A``."""
        return self.root.T @ self.root

    @property
    def scale(self) -> float:
        """``tr A / p``: the noise is ``sigma^2 A`` over this."""
        return float(np.trace(self.metric) / len(self.root))

    @property
    def shape(self) -> FloatArray:
        """``p A / tr A``, of shape (p, p)."""
        inverse = self.factor.inverse_hessian
        return inverse * (len(inverse) / np.trace(inverse))

    @property
    def noise_root(self) -> FloatArray:
        """Lower triangular root of it, of shape (p, p)."""
        return self.root / np.sqrt(self.scale)

    @property
    def mean_factor(self) -> FitFactor:
        """Measure of the first term: leakage through the mean alone."""
        response = np.sqrt(self.scale) * self.root.T
        return self.factor.with_response(response)

    def frame(self, columns: Columns) -> Frame:
        """Return a block of columns in whitened coordinates."""
        return Frame.of(columns, self.factor, self.root)

    def joint(self, batch: RecordBatch, columns: Columns, noise_scale: float) -> "_Joint":
        """Return the information of many records together."""
        return _Joint(self, batch, self.frame(columns), noise_scale)

    def records(self, X: FloatArray, y: FloatArray) -> "_Records":
        """Prepare a dense block of records."""
        return _Records.of(self, X, y)

    @property
    def width(self) -> int:
        """Entries of the largest table of a record."""
        p = len(self.root)
        return p * (p + 1)


@dataclass(frozen=True)
class _Records:
    """A block of b records in whitened coordinates, of unit weight and at unit noise scale."""

    noise: CurvatureNoise
    x: FloatArray  # x', (b, p)
    r: FloatArray  # derivatives of the loss, (b,)
    c: FloatArray
    q: FloatArray
    third: FloatArray
    own: FloatArray | None  # T(x'), (b, p, p); None where it is zero
    twice: FloatArray  # T(x') x', (b, p)
    psi: FloatArray  # Psi x', (b, p)

    @classmethod
    def of(cls, noise: CurvatureNoise, X: FloatArray, y: FloatArray) -> "_Records":
        """From a dense block."""
        factor = noise.factor
        x, r, c, q = factor.derivatives(X, y)
        third = factor.loss.third_derivative(x @ factor.coefficients)
        x = x @ noise.root
        b, p = x.shape
        if noise.tensor is None:
            zero = np.zeros_like(x)
            return cls(noise, x, r, c, q, third, None, zero, zero)
        own = (x @ noise.tensor.reshape(p, p * p)).reshape(b, p, p)
        twice = np.einsum("bkl,bl->bk", own, x)
        return cls(noise, x, r, c, q, third, own, twice, x @ noise.psi)

    def information(self, frame: Frame) -> tuple[FloatArray, FloatArray]:
        """Both terms of the information over a block of columns, each of shape (b, k, k)."""
        w, edges, target = frame.w, frame.edges, frame.target
        moves = frame.moves(self.x, self.r, self.c, self.q)
        gram = self._gram(w, edges, target)
        if self.noise.normalized:
            p, metric = len(edges.T), self.noise.metric
            trace = self._functional(np.eye(p), w, edges, moves)
            delta = self._functional(metric / np.trace(metric), w, edges, moves)
            cross = delta[:, :, None] * (trace - 0.5 * p * delta)[:, None, :]
            gram -= cross + cross.transpose(0, 2, 1)
        first = moves @ moves.transpose(0, 2, 1)
        return first * self.noise.scale, 0.5 * gram

    def _functional(
        self, metric: FloatArray, w: FloatArray, edges: FloatArray, moves: FloatArray
    ) -> FloatArray:
        """``tr(F W_a)`` for a symmetric matrix F, of shape (b, k)."""
        k = len(w)
        image = self.x @ metric
        size = self.third * np.einsum("bi,bi->b", image, self.x)
        result = np.zeros(moves.shape[:2])
        result[:, :k] = size[:, None] * w + 2.0 * self.c[:, None] * (image @ edges.T)
        if self.noise.tensor is not None:
            result += moves @ np.einsum("kij,ij->k", self.noise.tensor, metric)
        return result

    def _gram(self, w: FloatArray, edges: FloatArray, target: bool) -> FloatArray:
        """``tr(W_a W_b)``, of shape (b, k, k)."""
        k = len(w)
        r, c, q = self.r[:, None], self.c[:, None], self.q[:, None]
        third = self.third[:, None]
        h = np.einsum("bi,bi->b", self.x, self.x)[:, None]
        cubic = np.einsum("bi,bi->b", self.twice, self.x)[:, None]  # tr(T(x') x' x'^T)
        quartic = np.einsum("bi,bi->b", self.psi, self.x)[:, None]  # tr T(x')^2
        u, twice, psi = (table @ edges.T for table in (self.x, self.twice, self.psi))
        q_q = third**2 * h**2 - 2.0 * c * third * cubic + c**2 * quartic
        # tr(Q (W_a - w_a Q)), and half the weight of Q^2.
        q_rest = 2.0 * c * (third * h * u - c * twice) - r * (third * twice - c * psi)
        gram = np.empty((len(h), k + target, k + target))
        cross = w * (q_rest + 0.5 * q_q * w)[:, :, None]
        features = cross + cross.transpose(0, 2, 1)
        features += (
            2.0
            * c[:, :, None] ** 2
            * (h[:, :, None] * (edges @ edges.T) + u[:, :, None] * u[:, None, :])
        )
        if self.own is not None:
            features -= 4.0 * (r * c)[:, :, None] * self._sandwich(edges)
            features += r[:, :, None] ** 2 * (edges @ self.noise.psi @ edges.T)
        gram[:, :k, :k] = features
        if target:
            mixed = (third * cubic - c * quartic) * w + 2.0 * c * twice - r * psi
            gram[:, :k, k] = gram[:, k, :k] = -q * mixed
            gram[:, k, k] = (q**2 * quartic)[:, 0]
        return gram

    def _sandwich(self, edges: FloatArray) -> FloatArray:
        """``l_a^T T(x') l_b``, of shape (b, k, k), by two large products."""
        assert self.own is not None
        b, p = self.x.shape
        half = (self.own.reshape(b * p, p) @ edges.T).reshape(b, p, len(edges))
        turned = np.ascontiguousarray(half.transpose(0, 2, 1)).reshape(b * len(edges), p)
        return (turned @ edges.T).reshape(b, len(edges), len(edges))


@dataclass(frozen=True)
class _Joint:
    """``F^T F`` of records with weights, on a vector of p and a symmetric p x p matrix.

    A row of F is the whitened mean ``sqrt(tau) L^-1 dw_a / sigma`` and the whitened covariance
    ``(delta_a I - W_a) / sqrt(2)`` of one entry.
    """

    noise: CurvatureNoise
    batch: RecordBatch
    frame: Frame
    noise_scale: float

    def product(self, vector: FloatArray) -> FloatArray:
        """See `JointTerms`."""
        noise, factor = self.noise, self.noise.factor
        w, edges, root = self.frame.w, self.frame.edges, noise.root
        p, with_target = len(root), self.frame.target
        metric = vector[p:].reshape(p, p)
        metric = 0.5 * (metric + metric.T)
        if noise.normalized:
            metric = metric - np.trace(metric) / np.trace(noise.metric) * noise.metric
        mean = np.sqrt(noise.scale) / self.noise_scale
        # What moves the minimiser moves the curvature of all records, too.
        pull = mean * vector[:p]
        if noise.tensor is not None:
            pull = pull + np.einsum("kij,ij->k", noise.tensor, metric) / np.sqrt(2.0)

        def sums(
            X: FloatArray, y: FloatArray, weights: FloatArray
        ) -> tuple[FloatArray, FloatArray]:
            x, r, c, q = factor.derivatives(X, y)
            third = factor.loss.third_derivative(x @ factor.coefficients)
            x = x @ root
            image, pulled = x @ metric, x @ pull
            along = third * np.einsum("ij,ij->i", image, x) / np.sqrt(2.0) - c * pulled
            t = (np.sqrt(2.0) * c[:, None] * image - r[:, None] * pull) @ edges.T
            t = (t + along[:, None] * w) * weights[:, None]
            with_w, with_edges = t @ w, t @ edges
            target = -q * pulled * weights if with_target else np.zeros_like(q)
            half = x.T @ (0.5 * (third * with_w)[:, None] * x + c[:, None] * with_edges)
            return -(c * with_w + q * target) @ x - r @ with_edges, half + half.T

        batch = self.batch
        blocks = Blocks.of(batch.X, batch.y, batch.factors**2, width=4 * p)
        moved, matrix = blocks.map_reduce(sums, add)
        if noise.tensor is not None:
            matrix += np.tensordot(moved, noise.tensor, axes=1)
        matrix /= np.sqrt(2.0)
        if noise.normalized:
            share = np.einsum("ij,ij->", noise.metric, matrix) / np.trace(noise.metric)
            matrix -= share * np.eye(p)
        return np.concatenate([mean * moved, matrix.ravel()])
