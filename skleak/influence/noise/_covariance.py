"""Noise with a covariance of its own: its shape, its cost, and leakage through the mean.

Output perturbation with ``C = sigma^2 S``, ``tr S = p``: ``sigma`` is the root mean square of the
noise over the parameters, whatever the shape ``S``. If C does not depend on the data, the
information of a record is ``J^T C^-1 J``: that of isotropic noise with ``K`` in the place of the
inverse Hessian ``A``, where ``K^T K = A S^-1 A``. Any such K serves. Triangular ones keep the
digits of columns in units far apart, as a symmetric root would not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import linalg

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._multinomial_factor import MultinomialFactor
from skleak.influence.jacobian._norms import (
    Columns,
    Norm,
    _Parts,
    feature_norms,
    joint_norm,
    record_norms,
)
from skleak.influence.jacobian._secular import largest_eigenvalue
from skleak.utils._blocks import dense_rows, row_blocks
from skleak.utils._linalg import ScaledCholesky, SingularMatrixError, weighted_gram
from skleak.utils._typing import Data, FloatArray

if TYPE_CHECKING:  # the state of a fit may offer these functions as methods
    from skleak.influence.state._state import FitState

__all__ = [
    "ShapedFactor",
    "check_one_predictor",
    "excess_loss",
    "given_shape",
    "hessian_matrix",
    "inverse_hessian_root",
]

# Largest relative difference of a matrix from its transpose that is taken for round-off.
_ASYMMETRY = 1e-8


def check_one_predictor(factor: FitFactor) -> None:
    """Refuse a fit with one predictor for each class.

    Parameters
    ----------
    factor : FitFactor
        State of the fit.

    Raises
    ------
    ValueError
        For a fit with several predictors.
    """
    if isinstance(factor, MultinomialFactor):
        raise ValueError(
            "Noise of a shape of its own is for models with one predictor; got one with a "
            f"predictor for each of {factor.n_classes} classes. Use isotropic noise."
        )


def given_shape(shape: npt.ArrayLike, p: int) -> FloatArray:
    """A covariance from public knowledge, scaled to a trace of p.

    Parameters
    ----------
    shape : array-like of shape (p, p)
        Symmetric positive definite, known up to a factor.
    p : int
        Number of parameters.

    Returns
    -------
    ndarray of shape (p, p)
        Exactly symmetric.

    Raises
    ------
    ValueError
        For another shape, or a matrix that is not symmetric positive definite.
    TypeError
        For a matrix that does not hold real numbers.

    Examples
    --------
    >>> given_shape([[2, 0], [0, 2]], 2)
    array([[1., 0.],
           [0., 1.]])
    """
    matrix = _check_symmetric(np.asarray(shape), p)
    try:
        ScaledCholesky.of(matrix)
    except SingularMatrixError as error:
        raise ValueError(
            "The shape of the noise must be a positive definite matrix: a direction without "
            f"noise shows the training data; got one that is not ({error}). Add a small "
            "multiple of the identity."
        ) from error
    return matrix * (p / np.trace(matrix))


def _check_symmetric(matrix: FloatArray, p: int) -> FloatArray:
    """Validate a matrix and return it exactly symmetric."""
    if matrix.dtype.kind not in "buif":
        raise TypeError(f"The shape of the noise must hold real numbers; got {matrix.dtype}.")
    if matrix.shape != (p, p):
        raise ValueError(
            f"The shape of the noise must be a matrix of shape ({p}, {p}), one row for each "
            f"parameter, the intercept last; got shape {matrix.shape}."
        )
    matrix = matrix.astype(float)
    if not np.all(np.isfinite(matrix)):
        raise ValueError("The shape of the noise must be finite; got NaN or infinity.")
    # Relative to the diagonal, so that the units of the columns do not matter.
    sizes = np.sqrt(np.abs(np.outer(np.diag(matrix), np.diag(matrix))))
    if np.any(np.abs(matrix - matrix.T) > _ASYMMETRY * np.maximum(sizes, np.abs(matrix))):
        raise ValueError(
            "The shape of the noise must be a symmetric matrix; got one that is not. Pass "
            "`(matrix + matrix.T) / 2` if it is a covariance."
        )
    return 0.5 * (matrix + matrix.T)


def hessian_matrix(state: "FitState") -> FloatArray:
    """Unnormalised Hessian ``H`` of a fit, by one pass over its records.

    Parameters
    ----------
    state : FitState
        State of the fit.

    Returns
    -------
    ndarray of shape (p, p)
        ``sum s omega c x~ x~^T + N alpha P``. Confidential.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> model = PrivateLinearRegression(1.0, alpha=0.5).fit([[1.0], [3.0]], [0.0, 1.0])
    >>> hessian_matrix(model._confidential_state())
    array([[11.,  4.],
           [ 4.,  2.]])
    """
    objective, w = state.objective, state.factor.coefficients
    weights = objective.weights * objective.loss.curvature(objective.predictor(w))
    d = objective.X.shape[1]
    hessian = np.diag(objective.total * objective.penalty)
    hessian[:d, :d] += weighted_gram(objective.X, weights)
    if objective.fit_intercept:
        hessian[d] = hessian[:, d] = objective.transpose_product(weights)
    return hessian


def excess_loss(state: "FitState", covariance: FloatArray) -> float:
    """Expected rise of the training objective by noise, ``tr(H C) / (2 N)``.

    Parameters
    ----------
    state : FitState
        State of the fit.
    covariance : ndarray of shape (p, p)
        ``C``.

    Returns
    -------
    float
        In units of the objective. Exact for the squared loss, to second order in the noise for
        others. Confidential.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> model = PrivateLinearRegression(1.0, alpha=0.5).fit([[1.0], [3.0]], [0.0, 1.0])
    >>> excess_loss(model._confidential_state(), 0.1 * np.eye(2))
    0.325
    """
    hessian = hessian_matrix(state)
    return float(np.einsum("ij,ij->", hessian, covariance) / (2.0 * state.objective.total))


def inverse_hessian_root(state: "FitState") -> FloatArray:
    """Lower triangular ``L`` with ``L L^T = A``, accurate for columns far from zero.

    Parameters
    ----------
    state : FitState
        State of the fit.

    Returns
    -------
    ndarray of shape (p, p)
        Confidential.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.linear_model import PrivateLinearRegression
    >>> model = PrivateLinearRegression(1.0, alpha=0.5).fit([[1.0], [3.0]], [0.0, 1.0])
    >>> state = model._confidential_state()
    >>> root = inverse_hessian_root(state)
    >>> np.allclose(root @ root.T, state.factor.inverse_hessian)
    True
    """
    factor, d = state.factor, state.factor.n_features
    check_one_predictor(factor)
    inverse = factor.inverse_hessian
    root = np.zeros_like(inverse)
    columns = ScaledCholesky.of(inverse[:d, :d])
    root[:d, :d] = columns.factor * columns.scale[:, None]
    if factor.fit_intercept:
        # The corner is that of the Hessian, which nothing penalises: no difference is taken.
        objective = state.objective
        curvature = objective.loss.curvature(objective.predictor(factor.coefficients))
        root[d, :d] = linalg.solve_triangular(root[:d, :d], inverse[:d, d], lower=True)
        root[d, d] = 1.0 / np.sqrt(objective.weights @ curvature)
    return root


@dataclass(frozen=True)
class ShapedFactor(FitFactor):
    """State of a fit whose release carries noise of a shape that does not depend on the data.

    `record_norms`, `feature_norms` and `joint_norm` measure ``C^(-1/2) J`` of it, at unit noise
    scale. Where the shape does depend on the data this is the first of two terms: leakage
    through the mean alone. Confidential.

    Parameters
    ----------
    coefficients, inverse_hessian, loss, fit_intercept
        As in `FitFactor`.
    response : ndarray of shape (p, p)
        ``K`` with ``K^T K = A S^-1 A``.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.losses import SquaredLoss
    >>> factor = FitFactor(np.array([2.0]), np.array([[0.2]]), SquaredLoss(), False)
    >>> shaped = ShapedFactor.of(factor, np.array([[1.0]]))
    >>> record_norms(shaped, np.array([[1.0]]), np.array([2.0]), Columns(target=True)).round(4)
    array([0.4472])
    """

    response: FloatArray

    @classmethod
    def of(cls, factor: FitFactor, shape: FloatArray) -> "ShapedFactor":
        """From a shape ``S`` of shape (p, p), symmetric positive definite with trace p."""
        cholesky = ScaledCholesky.of(shape)
        root = cholesky.factor * cholesky.scale[:, None]
        return cls.with_response(
            factor, linalg.solve_triangular(root, factor.inverse_hessian, lower=True)
        )

    @classmethod
    def with_response(cls, factor: FitFactor, response: FloatArray) -> "ShapedFactor":
        """From ``K`` itself, of shape (p, p)."""
        check_one_predictor(factor)
        return cls(
            factor.coefficients,
            factor.inverse_hessian,
            factor.loss,
            factor.fit_intercept,
            response,
        )

    def jacobian(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Dense ``S^(-1/2) J`` of a few records, up to a rotation, of shape (n, p, d + 1)."""
        x, r, c, q = self.derivatives(X, y)
        u = x @ self.response.T
        d = self.n_features
        jacobian = np.empty((len(x), len(self.response), d + 1))
        jacobian[:, :, :d] = -(c[:, None] * u)[:, :, None] * self.weights
        jacobian[:, :, :d] -= r[:, None, None] * self.response[:, :d]
        jacobian[:, :, d] = -q[:, None] * u
        return jacobian

    def parts(self, columns: Columns) -> _Parts:
        """The information of records over a block of columns as a sum of squares."""
        # Only columns of A, and its products with records, enter: K stands in for A.
        stand_in = FitFactor(self.coefficients, self.response, self.loss, self.fit_intercept)
        return _Parts.of(stand_in, columns)


@record_norms.register
def _record_norms(
    factor: ShapedFactor,
    X: Data,
    y: FloatArray,
    columns: Columns,
    norm: Norm = "spectral",
) -> FloatArray:
    parts = factor.parts(columns)
    vectors, values, _ = np.linalg.svd(parts.rest, full_matrices=True)
    diagonal = np.zeros(len(vectors))
    diagonal[len(vectors) - len(values) :] = values[::-1] ** 2
    vectors = vectors[:, ::-1]
    turned, along = factor.response.T @ vectors, parts.along @ vectors
    result = np.empty(X.shape[0])
    for rows in row_blocks(X.shape[0], len(diagonal)):
        r, p, h = parts.of_records(dense_rows(X, rows), y[rows], turned, along)
        if norm == "spectral":
            squares = largest_eigenvalue(diagonal, r**2, p, h, along)
        else:
            squares = r**2 * diagonal.sum() + np.einsum("ij,ij->i", p, p) + h * (along @ along)
            squares /= columns.count(factor.n_features)
        result[rows] = np.sqrt(squares)
    return result


@feature_norms.register
def _feature_norms(
    factor: ShapedFactor,
    X: Data,
    y: FloatArray,
    blocks: Sequence[Columns],
    norm: Norm = "spectral",
) -> FloatArray:
    table = np.empty((X.shape[0], len(blocks)))
    for k, block in enumerate(blocks):
        table[:, k] = _record_norms(factor, X, y, block, norm)
    return table


@joint_norm.register
def _joint_norm(
    factor: ShapedFactor,
    X: Data,
    y: FloatArray,
    weights: FloatArray,
    columns: Columns,
    norm: Norm = "spectral",
) -> float:
    parts = factor.parts(columns)
    p = len(factor.response)
    joint, rr, hh = np.zeros((p, p)), 0.0, 0.0
    for rows in row_blocks(X.shape[0], p):
        records, root = dense_rows(X, rows), np.sqrt(weights[rows])
        r, own, h = parts.of_records(records, y[rows], factor.response.T, parts.along, root)
        joint += own.T @ own
        rr += float(r @ r)
        hh += float(h.sum())
    joint += rr * (parts.rest @ parts.rest.T) + hh * np.outer(parts.along, parts.along)
    if norm == "trace":
        return float(np.sqrt(np.trace(joint)))
    largest = linalg.eigvalsh(joint, subset_by_index=[p - 1, p - 1])[0]
    return float(np.sqrt(max(largest, 0.0)))
