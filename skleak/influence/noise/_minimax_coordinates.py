"""The minimax shape of the noise with equal weights, which no record determines.

Noise of covariance C raises the training objective by ``tr(H C) / (2 N)``. At an equal rise the
largest loss through the mean, over records i with Jacobians ``J_i``, is smallest under
``S = A # M``, ``M = sum_i J_i Y_i J_i^T``, the geometric mean with the inverse Hessian A, for least
favourable weights ``Y_i`` that a few records share (see `_minimax_shape`): a shape that those
few determine, and that gives them away. With equal weights instead, for sample weights ``s_i``,

    S H S = M ,   M = sum_i s_i J_i J_i^T = A B A ,
    S = A # M = L (L^T B L)^(1/2) L^T ,   A = L L^T ,

minimises the *mean* squared loss (the trace, over all entries of all records) at an equal rise,
and every record has its share of it. The shape is part of the fit, in which a weight of 2 is the
record twice; what a row leaks under it is that of its whole weight. It is not the exact minimax
shape: the ``lower_bound`` of `skleak.influence.minimax_shape` certifies how much is left. On IWPC
(whole record, 3,855 patients, a rise of 0.01, alpha = 1e-2) the largest loss is 2.51 under
isotropic noise, 0.492 under the curvature, 0.360 here, both terms counted, and through the mean
alone 0.257 at least under any shape; for alpha = 1e-4 these are 9.47, 0.958, 0.636 and 0.385. The
second term is at most 0.061 and 0.33, about twice that of the curvature: with so much noise that
nothing else is left, the curvature leaks less.

Always of the whole record, target included: with ``J = A Jhat`` and
``Jhat = -[c x~ w^T + r E, q x~]``,

    B = sum_i s_i [alpha x~ x~^T + beta (x~ w^T + w x~^T) + gamma P] ,
    alpha = c^2 |w|^2 + q^2 ,   beta = c r ,   gamma = r^2 ,

w with a zero for the intercept and P the identity on the features. L is rotated such that
``L^T B L = diag(z^2)``; then ``S = L diag(z) L^T`` up to its trace. In these coordinates,
``x' = L^T x~``, ``l_a = L^T e_a``, ``w' = L^T w`` and ``P' = L^T P L``, a change of a record that
changes H by W and B by V changes the covariance by what is similar to ``U - delta I``,

    U = E o V - F o W ,
    E_kl = 1 / ((z_k + z_l) sqrt(z_k z_l)) ,   F_kl = (z_k^2 + z_l^2 + z_k z_l) E_kl ,

with o elementwise and ``delta = <G, U>``, ``G_kl = (L^T L)_kl sqrt(z_k z_l) / tr(L diag(z) L^T)``:
the derivative of ``S H S = A B A``, and of the scale. Through the minimiser, which moves along v,

    V = D(v) ,  W = T(v) ,  T(v) = sum_j s_j c'_j (x'_j . v) x'_j x'_j^T ,
    D(v) = sum_j s_j { (x'_j . v) [alpha' x' x'^T + beta' (x' w'^T + w' x'^T) + gamma' P']
                       + 2 c^2 (w' . v) x' x'^T + beta (x' v^T P' + P' v x'^T) } ,
    alpha' = 2 c c' |w|^2 ,   beta' = c' r + c^2 ,   gamma' = 2 r c .

D does not vanish for the squared loss. What a record does by itself is in `_minimax_records`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from skleak.influence.jacobian import FitFactor
from skleak.influence.noise._covariance import inverse_hessian_root
from skleak.influence.noise._terms import with_found
from skleak.influence.state import FitState
from skleak.solvers import Objective
from skleak.utils._blocks import Blocks, add
from skleak.utils._typing import FloatArray

# Entries of the largest table of one block of records: 16 MB.
_ELEMENTS = 1 << 21
# Ratio of eigenvalues of L^T B L below which five digits of the smallest may be lost.
_SINGULAR = 1e-11


def check_no_reweighting(objective: Objective) -> None:
    """Refuse an objective with reweighting factors, whose dependence on the data is not counted."""
    factors = Blocks.of(objective.reweights, objective.sample_weight, width=1)
    if factors.map_reduce(_any_factor, add):
        raise ValueError(
            "The minimax shape is for fits without a reweighting; got factors other than 1. Use "
            "isotropic noise, or drop the reweighting."
        )


def _any_factor(reweights: FloatArray, s: FloatArray) -> int:
    """Count the records of a block that take part and have a factor other than 1."""
    return int(np.sum(reweights[s > 0.0] != 1.0))


def influence_weights(
    r: FloatArray, c: FloatArray, q: FloatArray, length: FloatArray | float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``alpha``, ``beta`` and ``gamma`` of records in the formula of B."""
    return c**2 * length + q**2, c * r, r**2


def squared_axes(moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues ``z^2`` and eigenvectors of ``L^T B L``, of one fit or of many.

    Returns ``values`` (..., p): ascending, all positive; ``vectors`` (..., p, p).
    """
    values, vectors = np.linalg.eigh(moments)
    if not np.all(values[..., 0] > _SINGULAR * values[..., -1]):
        raise ValueError(
            "The minimax shape of the noise is singular: there are directions in which no record "
            "moves the model, as with one sample, or with a target that is constant or fitted "
            "without an error. How much noise they get would then hang on single records. Use "
            "`noise_covariance='curvature'` or 'isotropic'."
        )
    return values, vectors


@dataclass(frozen=True)
class MinimaxCoordinates:
    """Coordinates of a fit in which the shape ``A # M`` is a diagonal. Confidential."""

    objective: Objective | None  # training records; None where all is known of them
    factor: FitFactor
    triangle: FloatArray  # lower triangular root of A, (p, p)
    rotation: FloatArray  # Q; ``L`` is the triangle times Q, (p, p)
    axes: FloatArray  # ``z``, (p,)

    @classmethod
    def of(cls, state: FitState) -> Self:
        """Whiten a fit, and weigh the directions by what moves along them."""
        objective, factor = state.objective, state.factor
        check_no_reweighting(objective)
        triangle = inverse_hessian_root(state)
        length = float(factor.weights @ factor.weights)

        def sums(
            X: FloatArray, y: FloatArray, s: FloatArray
        ) -> tuple[FloatArray, FloatArray, float]:
            x, r, c, q = factor.derivatives(X, y)
            x = x @ triangle
            alpha, beta, gamma = influence_weights(r, c, q, length)
            half = x * np.sqrt(s * alpha)[:, None]
            return half.T @ half, (s * beta) @ x, float(s @ gamma)

        records = objective.X, objective.y, objective.sample_weight
        blocks = Blocks.of(*records, width=len(triangle), elements=_ELEMENTS)
        moments, edge, rest = blocks.map_reduce(sums, add)
        features = triangle[: factor.n_features]
        along = np.outer(edge, features.T @ factor.weights)
        moments += along + along.T + rest * (features.T @ features)
        values, vectors = squared_axes(moments)
        return cls(objective, factor, triangle, vectors, np.sqrt(values))

    def alone(self) -> Self:
        """Drop the training records, of which what is needed was found."""
        found: Self = with_found(self, "tensor")
        return found

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
    def through_moments(self) -> FloatArray:
        """``E``, of shape (p, p)."""
        z = self.axes
        return 1.0 / (np.add.outer(z, z) * np.sqrt(np.outer(z, z)))

    @cached_property
    def through_hessian(self) -> FloatArray:
        """``F``, of shape (p, p)."""
        squares, z = self.axes**2, self.axes
        return (np.add.outer(squares, squares) + np.outer(z, z)) * self.through_moments

    @cached_property
    def metric(self) -> FloatArray:
        """``G``, of shape (p, p), with ``tr G = 1``."""
        half = self.root * np.sqrt(self.axes)
        return (half.T @ half) / float(np.sum(half**2))

    @cached_property
    def tensor(self) -> FloatArray:
        """``E o D(e_k) - F o T(e_k)`` for every coordinate k, of shape (p, p * p).

        What a step of the minimiser along k does to all records' moments and curvature.
        """
        p, objective, factor, root = len(self.axes), self.objective, self.factor, self.root
        assert objective is not None
        loss, length = factor.loss, float(factor.weights @ factor.weights)
        both = np.stack([self.through_moments.ravel(), self.through_hessian.ravel()])

        def sums(X: FloatArray, y: FloatArray, s: FloatArray) -> tuple[FloatArray, ...]:
            x, r, c, _ = factor.derivatives(X, y)
            third = loss.third_derivative(x @ factor.coefficients)
            x = x @ root
            weighted = s[:, None] * x
            gram = (weighted * (third * r + c**2)[:, None]).T @ x
            squares = (weighted * c[:, None] ** 2).T @ x
            moments = gram, squares, (c * r) @ weighted, 2.0 * (r * c) @ weighted
            if loss.quadratic:
                return moments
            pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), p * p)
            pairs *= np.column_stack([2.0 * c * third * length, -third]) @ both
            return *moments, weighted.T @ pairs

        records = objective.X, objective.y, objective.sample_weight
        width = 1 if loss.quadratic else p * p
        found = Blocks.of(*records, width=width, elements=_ELEMENTS).map_reduce(sums, add)
        tensor = self._through_minimizer(*found[:4])
        return tensor if loss.quadratic else tensor + found[4]

    def _through_minimizer(
        self, gram: FloatArray, squares: FloatArray, edge: FloatArray, rest: FloatArray
    ) -> FloatArray:
        """Return the part of the tensor that second moments of the records give."""
        p, w, features = len(edge), self.along, self.features
        moved = gram[:, :, None] * w + edge[:, None] * features[:, None, :]
        result = moved + moved.transpose(0, 2, 1)
        for k in range(p):
            result[k] += rest[k] * features + 2.0 * w[k] * squares
        result *= self.through_moments
        return result.reshape(p, p * p)
