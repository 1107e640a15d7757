"""A root of the inverse Hessian of a fit."""

import numpy as np
from scipy import linalg

from skleak.influence.jacobian import check_one_predictor
from skleak.influence.state import FitState
from skleak.utils._blocks import Blocks, add
from skleak.utils._linalg import ScaledCholesky
from skleak.utils._typing import FloatArray


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
        root[d, :d] = linalg.solve_triangular(root[:d, :d], inverse[:d, d], lower=True)
        curvatures = Blocks.of(state.objective.curvatures(factor.coefficients), width=1)
        root[d, d] = 1.0 / np.sqrt(curvatures.map_reduce(_sum, add))
    return root


def _sum(values: FloatArray) -> float:
    return float(values.sum())
