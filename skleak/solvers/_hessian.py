"""Factor of the Hessian of a linear model's risk, with the columns centred."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skleak.utils._linalg import ScaledCholesky, SingularMatrixError, centered_gram, weighted_gram
from skleak.utils._typing import Data, FloatArray


class FactorizedHessian(Protocol):
    """Factorized Hessian, for Newton steps."""

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""

    def inverse(self) -> FloatArray:
        """Inverse matrix ``A``, exactly symmetric, of shape (p, p)."""


@dataclass(frozen=True)
class HessianFactor:
    """Factor of ``H = sum_i v_i x~_i x~_i^T + ridge P``, where P leaves out the intercept.

    With an intercept, centring the columns at their mean ``m`` under the weights ``v`` makes
    ``H`` block-diagonal: the centred matrix and the sum of the weights.
    """

    columns: ScaledCholesky  # factor of the (centred) matrix of the columns, of shape (d, d)
    mean: FloatArray | None  # ``m``; None without an intercept, (d,)
    total: float  # sum of the weights ``v``

    @classmethod
    def of(cls, X: Data, weights: FloatArray, ridge: float, fit_intercept: bool) -> "HessianFactor":
        """Factorise.

        Shapes: ``X`` (n, d); ``weights`` (n,).
        """
        total = float(weights.sum())
        mean = None
        if fit_intercept:
            gram, mean = centered_gram(X, weights)
            if not total > 0.0:
                raise SingularMatrixError("no record has curvature")
        else:
            gram = weighted_gram(X, weights)
        gram[np.diag_indices_from(gram)] += ridge
        return cls(ScaledCholesky.of(gram), mean, total)

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""
        if self.mean is None:
            return self.columns.solve(b)
        columns = self.columns.solve(b[:-1] - self.mean * b[-1])
        return np.append(columns, b[-1] / self.total - self.mean @ columns)

    def inverse(self) -> FloatArray:
        """Inverse matrix ``A``, exactly symmetric, of shape (p, p)."""
        columns = self.columns.inverse()
        if self.mean is None:
            return columns
        edge = -columns @ self.mean
        corner = 1.0 / self.total - self.mean @ edge
        return np.block([[columns, edge[:, None]], [edge[None, :], np.array([[corner]])]])
