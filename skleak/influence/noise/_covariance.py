"""Noise with a covariance of its own: its shape, and its cost.

Output perturbation with ``C = sigma^2 S``, ``tr S = p``: ``sigma`` is the root mean square of the
noise over the parameters, whatever the shape ``S``.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import linalg

from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.utils._linalg import ScaledCholesky, SingularMatrixError, weighted_gram
from skleak.utils._typing import FloatArray

if TYPE_CHECKING:  # the state of a fit may offer these functions as methods
    from skleak.influence.state._state import FitState

__all__ = [
    "excess_loss",
    "given_shape",
    "hessian_matrix",
    "inverse_hessian_root",
]

# Largest relative difference of a matrix from its transpose that is taken for round-off.
_ASYMMETRY = 1e-8


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
