"""The Hessian of a fit, a root of its inverse, and what noise of a covariance costs.

Output perturbation with ``C = sigma^2 S``, ``tr S = p``: ``sigma`` is the root mean square of the
noise over the parameters, whatever the shape ``S``.
"""

import numpy as np
from scipy import linalg

from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.influence.state._state import FitState
from skleak.utils._linalg import ScaledCholesky, weighted_gram
from skleak.utils._typing import FloatArray

__all__ = [
    "excess_loss",
    "hessian_matrix",
    "inverse_hessian_root",
]


def hessian_matrix(state: FitState) -> FloatArray:
    """Unnormalised Hessian ``H`` of a fit, by one pass over its records. Confidential.

    Returns (p, p): ``sum s omega c x~ x~^T + N alpha P``.
    """
    objective, w = state.objective, state.factor.coefficients
    weights = objective.weights * objective.loss.curvature(objective.predictor(w))
    d = objective.X.shape[1]
    hessian = np.diag(objective.total * objective.penalty)
    hessian[:d, :d] += weighted_gram(objective.X, weights)
    if objective.fit_intercept:
        hessian[d] = hessian[:, d] = objective.transpose_product(weights)
    return hessian


def excess_loss(state: FitState, covariance: FloatArray) -> float:
    """Expected rise of the training objective by noise, ``tr(H C) / (2 N)``. Confidential.

    Exact for the squared loss, to second order in the noise for others.
    """
    hessian = hessian_matrix(state)
    return float(np.einsum("ij,ij->", hessian, covariance) / (2.0 * state.objective.total))


def inverse_hessian_root(state: FitState) -> FloatArray:
    """Lower triangular ``L`` with ``L L^T = A``, accurate for columns far from zero. Confidential.

    Returns (p, p).
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
