"""Factor of the Hessian of a linear model's risk, with the columns centred."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from skleak.utils._linalg import (
    ScaledCholesky,
    SingularMatrixError,
    centered_gram,
    clear_constants,
    weighted_gram,
)
from skleak.utils._typing import Data, FloatArray


class FactorizedHessian(Protocol):
    """Factorized Hessian, for Newton steps."""

    def solve(self, b: FloatArray) -> FloatArray:
        """Solve ``H x = b`` for one right-hand side of shape (p,)."""

    def inverse(self) -> FloatArray:
        """Inverse matrix ``A``, exactly symmetric, of shape (p, p)."""


class HessianSums(Protocol):
    """Sums over records of which a Hessian is made."""

    def plus(self, other: Any) -> Self:
        """Return those of these records and others."""

    def factor(self, ridge: float) -> FactorizedHessian:
        """Factorise the Hessian, whose penalty is ``ridge``."""


@dataclass(frozen=True)
class CurvatureSums:
    """Sums over records of which a Hessian is made: ``sum_i v_i (x_i - m)(x_i - m)^T``."""

    gram: FloatArray  # of the (centred) columns, (d, d)
    mean: FloatArray | None  # ``m`` under the weights ``v``; None without an intercept, (d,)
    total: float  # sum of the weights ``v``

    @classmethod
    def of(cls, X: Data, weights: FloatArray, fit_intercept: bool) -> "CurvatureSums":
        """Of some records.

        Shapes: ``X`` (n, d); ``weights`` (n,).
        """
        total = float(weights.sum())
        if fit_intercept:
            return cls(*centered_gram(X, weights), total)
        return cls(weighted_gram(X, weights), None, total)

    def plus(self, other: "CurvatureSums") -> "CurvatureSums":
        """Of these records and others (Chan, Golub, LeVeque, Technical Report 222, Yale 1983)."""
        total = self.total + other.total
        gram = self.gram + other.gram
        if self.mean is None or other.mean is None:
            return CurvatureSums(gram, None, total)
        if not total > 0.0:
            return self
        share, apart = other.total / total, other.mean - self.mean
        mean = self.mean + share * apart
        gram += self.total * share * np.outer(apart, apart)
        clear_constants(gram, mean, total)
        return CurvatureSums(gram, mean, total)

    def factor(self, ridge: float) -> "HessianFactor":
        """Factorise the Hessian, whose penalty is ``ridge``."""
        if self.mean is not None and not self.total > 0.0:
            raise SingularMatrixError("no record has curvature")
        gram = self.gram.copy()
        gram[np.diag_indices_from(gram)] += ridge
        return HessianFactor(ScaledCholesky.of(gram), self.mean, self.total)


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
        return CurvatureSums.of(X, weights, fit_intercept).factor(ridge)

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
