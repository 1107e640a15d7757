"""The shape of the noise had a record been different, where it is a function of the records.

A candidate changes one record, so the fit, so the shape. Under the minimax shape with equal weights
(`_minimax_coordinates`) everything is taken in the whitened coordinates of the fit itself, in which
the changed Hessian is close to the identity and nothing depends on the units of the columns. For
the squared loss a few moments of the records give every changed fit exactly: with the residuals r
of the fit and a step delta of the minimiser, the new residuals are ``r + x'.delta``, so that

    sum s r'^2 = sum s r^2 + 2 delta^T sum s r x' + delta^T (sum s x' x'^T) delta .
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from skleak.influence.noise import (
    check_no_reweighting,
    influence_weights,
    inverse_hessian_root,
    squared_axes,
)
from skleak.influence.refit._candidates import Candidates
from skleak.influence.refit._changes import Change
from skleak.influence.refit._chord import check_reached
from skleak.influence.refit._hessians import inverse_hessians
from skleak.influence.state import FitState
from skleak.utils._blocks import Blocks, add, row_blocks
from skleak.utils._linalg import augment
from skleak.utils._typing import Data, FloatArray, IntArray

# Entries of the matrices of one block of candidates: 32 MB.
_ELEMENTS = 1 << 22


def candidate_shapes(
    estimator_state: Any,
    X: Data,
    y: FloatArray,
    attribute: Any,
    values: Any,
    shape: str,
    *,
    encodings: FloatArray | None = None,
    rows: IntArray | None = None,
) -> FloatArray:
    """Shapes of the noise of the fits with one record's attribute set to each value.

    Matrix ``[i, m]`` is the ``S`` that the noise would have had with record i carrying
    ``values[m]``: together with the encodings it makes the hypotheses of an attacker on noise
    whose covariance depends on the data. All copies of a weighted record change together.

    Shapes: ``X`` (n, d); ``y``, ``rows`` (n,); ``values`` (n_values,); ``encodings`` (n, n_values,
    p); returns (n, n_values, p, p): with trace p.

    Squared loss: O(p^3) per candidate, exact. Other losses: one pass over the data per candidate,
    O(N p^2) for N training records.
    """
    if shape not in ("curvature", "minimax"):
        raise ValueError(
            f"`shape` must be 'curvature' or 'minimax'; got {shape!r}. Other noise has the same "
            "covariance under every value."
        )
    candidates = Candidates.of(estimator_state, X, y, attribute, values, rows)
    if encodings is None:
        encodings = candidates.encodings()
    check_reached(encodings, "The shape of the noise")
    found = inverse_hessians if shape == "curvature" else _minimax_shapes
    result = found(candidates, encodings)
    p = result.shape[-1]
    return result * (p / np.trace(result, axis1=2, axis2=3))[:, :, None, None]


def _minimax_shapes(candidates: Candidates, encodings: FloatArray) -> FloatArray:
    """Return ``A # A B A`` of every candidate, up to a factor, of shape (n, n_values, p, p)."""
    state, change = candidates.state, candidates.changes()
    check_no_reweighting(state.objective)
    points = np.asarray(encodings).reshape(len(change.y), -1)
    p = points.shape[1]
    whitened = _Whitened.of(state)
    result = np.empty((len(change.y), p, p))
    for part in row_blocks(len(result), p * p, _ELEMENTS):
        some = change.take(np.arange(len(result))[part])
        pair = (whitened.exact if state.objective.loss.quadratic else whitened.by_a_pass)(
            some, points[part]
        )
        result[part] = whitened.shapes(*pair)
    return result.reshape(*candidates.shape, p, p)


@dataclass(frozen=True)
class _Whitened:
    """A fit in coordinates in which its Hessian is the identity."""

    state: FitState
    root: FloatArray  # ``L``, lower triangular, (p, p)
    features: FloatArray  # ``P'``, (p, p)

    @classmethod
    def of(cls, state: FitState) -> "_Whitened":
        root = inverse_hessian_root(state)
        features = root[: state.n_features]
        return cls(state, root, features.T @ features)

    def shapes(self, hessians: FloatArray, moments: FloatArray) -> FloatArray:
        """``L (A # A B A) L^T`` from whitened H and B, of shape (b, p, p)."""
        inverse = np.linalg.inv(np.linalg.cholesky(hessians))  # C^-1, and A = C^-T C^-1
        axes, vectors = squared_axes(inverse @ moments @ inverse.transpose(0, 2, 1))
        half = self.root @ inverse.transpose(0, 2, 1) @ vectors * axes[:, None, :] ** 0.25
        return np.asarray(half @ half.transpose(0, 2, 1))

    def assembled(
        self, gram: FloatArray, edge: FloatArray, rest: FloatArray, points: FloatArray
    ) -> FloatArray:
        """B from ``sum s alpha x' x'^T``, ``sum s beta x'`` and ``sum s gamma``."""
        d = self.state.n_features
        along = points[:, :d] @ self.root[:d]
        pair = edge[:, :, None] * along[:, None, :]
        return gram + pair + pair.transpose(0, 2, 1) + rest[:, None, None] * self.features

    def exact(self, change: Change, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whitened H and B of candidates under the squared loss, each of shape (b, p, p)."""
        objective, w = self.state.objective, self.state.factor.coefficients
        gram, edge, rest = self._moments
        step = linalg.solve_triangular(self.root, (points - w).T, lower=True).T
        old, new, s = change.old @ self.root, change.new @ self.root, change.weight
        left = change.old @ w - change.y + np.einsum("bi,bi->b", old, step)
        put = np.einsum("bi,bi->b", change.new, points) - change.y
        own = s[:, None, None] * (new[:, :, None] * new[:, None, :])
        own -= s[:, None, None] * (old[:, :, None] * old[:, None, :])
        image = step @ gram
        edges = edge + image + (s * put)[:, None] * new - (s * left)[:, None] * old
        rests = rest + step @ (2.0 * edge) + np.einsum("bi,bi->b", image, step)
        rests += s * (put**2 - left**2)
        d = objective.X.shape[1]
        alpha = 1.0 + np.sum(points[:, :d] ** 2, axis=1)
        moments = self.assembled(alpha[:, None, None] * (gram + own), edges, rests, points)
        return np.eye(len(self.root)) + own, moments

    @property
    def _moments(self) -> tuple[FloatArray, FloatArray, float]:
        """``sum s x' x'^T``, ``sum s r x'`` and ``sum s r^2`` of the fit."""
        objective, factor = self.state.objective, self.state.factor

        def sums(
            X: FloatArray, y: FloatArray, s: FloatArray
        ) -> tuple[FloatArray, FloatArray, float]:
            x, r, _, _ = factor.derivatives(X, y)
            x = x @ self.root
            return (s[:, None] * x).T @ x, (s * r) @ x, float(s @ r**2)

        records = objective.X, objective.y, objective.weights
        blocks = Blocks.of(*records, width=len(self.root), elements=_ELEMENTS)
        return blocks.map_reduce(sums, add)

    def by_a_pass(self, change: Change, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same for any loss, from the records one by one."""
        objective = self.state.objective
        length = np.sum(points[:, : self.state.n_features] ** 2, axis=1)

        def sums(
            X: FloatArray, y: FloatArray, weights: FloatArray, position: IntArray
        ) -> tuple[FloatArray, ...]:
            x = augment(X, objective.fit_intercept)
            s = np.repeat(weights[:, None], len(points), axis=1)
            inside = np.flatnonzero(np.isin(change.row, position))
            s[np.searchsorted(position, change.row[inside]), inside] = 0.0  # replaced below
            c, alpha, beta, gamma = self._weights(x @ points.T, y[:, None], s, length)
            white = x @ self.root
            hessians = np.stack([(own[:, None] * white).T @ white for own in c.T])
            moments = np.stack([(own[:, None] * white).T @ white for own in alpha.T])
            return hessians, moments, beta.T @ white, gamma.sum(axis=0)

        records = objective.X, objective.y, objective.weights, np.arange(len(objective.y))
        blocks = Blocks.of(*records, width=max(points.shape), elements=_ELEMENTS)
        hessians, moments, edges, rests = blocks.map_reduce(sums, add)
        white = change.new @ self.root
        own = np.einsum("bi,bi->b", change.new, points)
        c, alpha, beta, gamma = self._weights(own, change.y, change.weight, length)
        squares = white[:, :, None] * white[:, None, :]
        hessians += c[:, None, None] * squares
        hessians += objective.total * objective.alpha * self.features
        moments += alpha[:, None, None] * squares
        edges += beta[:, None] * white
        return hessians, self.assembled(moments, edges, rests + gamma, points)

    def _weights(
        self, a: FloatArray, y: FloatArray, s: FloatArray, length: FloatArray
    ) -> tuple[FloatArray, ...]:
        """``s c``, ``s alpha``, ``s beta`` and ``s gamma`` of records."""
        loss = self.state.objective.loss
        r, c, q = loss.residual(a, y), loss.curvature(a), loss.cross(a)
        return s * c, *(s * weight for weight in influence_weights(r, c, q, length))
