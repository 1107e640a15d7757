"""Joint leakage of many records under noise shaped by the curvature of the fit.

The information about the entries of all records together is ``F F^T``, with a row ``f_a`` for every
entry: the whitened mean ``sqrt(tau) L^-1 dw_a / sigma`` and the whitened covariance
``(delta_a I - W_a) / sqrt(2)`` (see `_covariance_terms`). Its largest eigenvalue is that of
``F^T F``, an operator on p + p (p + 1) / 2 coordinates however many records there are. It is never
built: with ``M`` a symmetric matrix, ``<M, W_a>`` and ``sum t_a W_a`` of all records are matrix
products, O(n p^2) for both and O(p^3) for the tensor.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from skleak.influence._covariance_terms import CurvatureNoise, curvature_losses
from skleak.influence._fisher import Columns, Norm
from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._typing import Data, FloatArray

if TYPE_CHECKING:  # the state of a fit offers these functions as methods
    from skleak.influence._state import FitState, Participation

__all__ = ["curvature_joint_loss"]

# Relative residual at which the iteration stops; the eigenvalue is known to about its square.
_TOLERANCE = 1e-10


def curvature_joint_loss(
    state: "FitState",
    X: Data,
    y: FloatArray,
    part: "Participation",
    columns: Columns,
    norm: Norm = "spectral",
    *,
    noise: CurvatureNoise | None = None,
) -> float:
    """Fisher information loss of all given records together, through mean and covariance.

    Parameters
    ----------
    state : FitState
        State of the fit; its noise scale is ``sigma``.
    X : ndarray or CSR of shape (n, d)
        Records.
    y : ndarray of shape (n,)
        Targets.
    part : Participation
        How they take part in the fit; reweighting factors are held fixed.
    columns : Columns
        What is unknown of each.
    norm : {"spectral", "trace"}, default="spectral"
        Worst direction, or root mean square over all unknowns, records times columns.
    noise : CurvatureNoise, default=None
        Of this state, where it is known already.

    Returns
    -------
    float
        Confidential.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([0.0, 2.0, 2.0, 5.0])
    >>> state = PrivateLinearRegression(0.3, alpha=0.5).fit(X, y)._confidential_state()
    >>> part, whole = state.participation(X, y), Columns(target=True)
    >>> losses = curvature_losses(state, X, y, part, [whole])
    >>> bool(curvature_joint_loss(state, X, y, part, whole) >= losses.total.max())
    True
    """
    noise = CurvatureNoise.of(state) if noise is None else noise
    present = np.flatnonzero(part.copies > 0.0)
    if not len(present):
        return 0.0
    X, y, copies = X[present], y[present], part.copies[present]
    own = type(part)(copies, part.reweights[present])
    diagonal = curvature_losses(state, X, y, own, [columns], "trace", noise=noise)
    squares = float(copies @ diagonal.total[:, 0] ** 2)
    if norm == "trace":
        return float(np.sqrt(squares / copies.sum()))
    if squares == 0.0 or np.isinf(squares):
        return float(np.sqrt(squares))
    joint = _Joint(noise, X, y, copies * own.reweights**2, columns, state.noise_scale)
    p = len(noise.root)
    size = p + p * p
    # Scaled by the trace, so that nothing over- or underflows.
    unit = squares * columns.count(state.n_features)

    def product(vector: FloatArray) -> FloatArray:
        return joint.product(np.ravel(vector)) / unit

    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=size)
    start[p:] = (start[p:].reshape(p, p) + start[p:].reshape(p, p).T).ravel()
    largest = eigsh(operator, 1, which="LA", v0=start, tol=_TOLERANCE, return_eigenvectors=False)[0]
    return float(np.sqrt(unit * max(largest, 0.0)))


@dataclass(frozen=True)
class _Joint:
    """``F^T F`` of records with weights, on a vector of p and a symmetric p x p matrix."""

    noise: CurvatureNoise
    X: Data
    y: FloatArray
    weights: FloatArray
    columns: Columns
    noise_scale: float

    def product(self, vector: FloatArray) -> FloatArray:
        noise, factor, columns = self.noise, self.noise.factor, self.columns
        root, p = noise.root, len(noise.root)
        basis = columns.basis(factor.n_features)
        w, edges = basis.T @ factor.weights, basis.T @ root[: factor.n_features]
        metric = self._symmetric(vector[p:].reshape(p, p))
        if noise.normalised:
            metric = metric - np.trace(metric) / np.trace(noise.metric) * noise.metric
        mean = np.sqrt(noise.scale) / self.noise_scale
        # What moves the minimiser moves the curvature of all records, too.
        pull = mean * vector[:p]
        if noise.tensor is not None:
            pull = pull + np.einsum("kij,ij->k", noise.tensor, metric) / np.sqrt(2.0)
        moved, matrix = np.zeros(p), np.zeros((p, p))
        for rows in row_blocks(self.X.shape[0], 4 * p):
            x, r, c, q = factor.derivatives(dense_rows(self.X, rows), self.y[rows])
            third = factor.loss.third_derivative(x @ factor.coefficients)
            x = x @ root
            image, pulled = x @ metric, x @ pull
            along = third * np.einsum("ij,ij->i", image, x) / np.sqrt(2.0) - c * pulled
            t = (np.sqrt(2.0) * c[:, None] * image - r[:, None] * pull) @ edges.T
            t = (t + along[:, None] * w) * self.weights[rows, None]
            with_w, with_edges = t @ w, t @ edges
            target = -q * pulled * self.weights[rows] if columns.target else np.zeros_like(q)
            moved -= (c * with_w + q * target) @ x + r @ with_edges
            half = x.T @ (0.5 * (third * with_w)[:, None] * x + c[:, None] * with_edges)
            matrix += half + half.T
        if noise.tensor is not None:
            matrix += np.tensordot(moved, noise.tensor, axes=1)
        matrix /= np.sqrt(2.0)
        if noise.normalised:
            share = np.einsum("ij,ij->", noise.metric, matrix) / np.trace(noise.metric)
            matrix -= share * np.eye(p)
        return np.concatenate([mean * moved, matrix.ravel()])

    @staticmethod
    def _symmetric(matrix: FloatArray) -> FloatArray:
        return 0.5 * (matrix + matrix.T)
