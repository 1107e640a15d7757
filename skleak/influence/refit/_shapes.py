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

from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.influence.noise._covariance import inverse_hessian_root
from skleak.influence.noise._minimax_coordinates import (
    check_no_reweighting,
    influence_weights,
    squared_axes,
)
from skleak.influence.refit._candidates import (
    _check_values,
    _resolve,
    _training_rows,
    candidate_encodings,
)
from skleak.influence.refit._changes import Change
from skleak.influence.refit._hessians import candidate_inverse_hessians
from skleak.influence.state._state import FitState
from skleak.utils._blocks import Blocks, add, dense, row_blocks
from skleak.utils._features import resolve_features
from skleak.utils._linalg import augment
from skleak.utils._typing import Data, FloatArray, IntArray

__all__ = ["candidate_shapes"]

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

    Parameters
    ----------
    estimator_state : FitState or fitted private estimator
        State of the fit; its own noise plays no part.
    X : ndarray or CSR of shape (n, d)
        Training records, all or, as the result is large, some of them.
    y : ndarray of shape (n,)
        Their targets.
    attribute : str, int, slice, mask or list
        Column of the attribute, or the block of its columns (one-hot).
    values : array-like of shape (n_values,), or (n_values, k) for a block of k columns
        Candidate values.
    shape : {"curvature", "minimax"}
        Kind of the shape.
    encodings : ndarray of shape (n, n_values, p), default=None
        What `candidate_encodings` returns for the same arguments, where it is known already.
    rows : ndarray of int of shape (n,), default=None
        Their positions in the training data. By default they are found by value, and of equal
        rows the one of the largest weight is taken.

    Returns
    -------
    ndarray of shape (n, n_values, p, p)
        With trace p. Confidential.

    Raises
    ------
    ValueError
        For records that are not in the training data, values of the wrong shape, a model with
        several predictors, another kind of shape, or a minimax shape that is singular or of a
        reweighted fit.

    Notes
    -----
    Squared loss: O(p^3) per candidate, exact. Other losses: one pass over the data per candidate,
    O(N p^2) for N training records.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> X[:, 0] = X[:, 0] > 0
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=50)
    >>> model = PrivateLinearRegression().fit(X, y)
    >>> candidate_shapes(model, X[:5], y[:5], 0, [0.0, 1.0], "minimax").shape
    (5, 2, 4, 4)
    """
    given = (estimator_state, X, y, attribute, values)
    if shape not in ("curvature", "minimax"):
        raise ValueError(
            f"`shape` must be 'curvature' or 'minimax'; got {shape!r}. Other noise has the same "
            "covariance under every value."
        )
    if encodings is None:
        encodings = candidate_encodings(*given, rows=rows)
    if shape == "curvature":
        result = candidate_inverse_hessians(*given, encodings=encodings, rows=rows)
    else:
        result = _minimax_shapes(*given, encodings, rows)
    p = result.shape[-1]
    return result * (p / np.trace(result, axis1=2, axis2=3))[:, :, None, None]


def _minimax_shapes(
    estimator_state: Any,
    X: Data,
    y: FloatArray,
    attribute: Any,
    values: Any,
    encodings: FloatArray,
    rows: IntArray | None,
) -> FloatArray:
    """``A # A B A`` of every candidate, up to a factor, of shape (n, n_values, p, p)."""
    state, X, y = _resolve(estimator_state, X, y)
    columns = resolve_features(attribute, state.feature_names, state.n_features, "attribute")
    values = _check_values(values, len(columns))
    check_one_predictor(state.factor)
    check_no_reweighting(state.objective)
    training = _training_rows(state, X, y) if rows is None else rows
    change = Change.of(state, dense(X), y, training, columns, values)
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
    return result.reshape(X.shape[0], len(values), p, p)


@dataclass(frozen=True)
class _Whitened:
    """A fit in coordinates in which its Hessian is the identity.

    Parameters
    ----------
    state : FitState
        State of the fit.
    root : ndarray of shape (p, p)
        ``L``, lower triangular.
    features : ndarray of shape (p, p)
        ``P'``.
    """

    state: FitState
    root: FloatArray
    features: FloatArray

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
        """The same for any loss, from the records one by one."""
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
