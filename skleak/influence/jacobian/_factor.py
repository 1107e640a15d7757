"""The d x d state of a fit, from which all leakage is computed."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy import linalg

from skleak.losses import PointwiseLoss
from skleak.solvers import Minimum, Objective
from skleak.utils._linalg import ScaledCholesky, augment
from skleak.utils._typing import FloatArray


@dataclass(frozen=True)
class FitFactor:
    """Minimiser and inverse Hessian, all that a fit leaves behind. Confidential.

    With ``x~ = [x, 1]`` (or ``x`` without intercept), ``u = A x~`` and the derivatives r, c, q of
    the loss in predictor space, the influence of one copy of a record on the minimiser is
    ([FIL21] eq. 18 and 29)

        J = -omega [c u w^T + r A E,  q u] ,      shape (p, d + 1), the last column for the target.

    The reweighting factor omega and the noise scale are applied by the caller.

    Noise of a covariance ``sigma^2 S`` that does not depend on the data leaves a record the
    information ``J^T S^-1 J``: that of isotropic noise with ``K`` in the place of ``A``, where
    ``K^T K = A S^-1 A``. Any such K serves, and is the ``response`` that norms of Jacobians are
    computed from. Triangular ones keep the digits of columns in units far apart, as a symmetric
    root would not.
    """

    coefficients: FloatArray  # noiseless minimiser, the intercept last where there is one, (p,)
    inverse_hessian: FloatArray  # ``A``, the inverse of the unnormalised Hessian ``N F''``, (p, p)
    loss: PointwiseLoss
    fit_intercept: bool  # whether the last parameter is an intercept
    # ``K`` under noise of a shape of its own; None for isotropic noise, where it is ``A``, (p, p)
    shaped: FloatArray | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, objective: Objective, minimum: Minimum) -> "FitFactor":
        """Of a minimisation."""
        solution = minimum.coefficients, minimum.inverse_hessian
        return cls(*solution, objective.loss, objective.fit_intercept)

    @property
    def response(self) -> FloatArray:
        """``K`` with ``K^T K = A S^-1 A`` for noise of the shape S, of shape (p, p)."""
        return self.inverse_hessian if self.shaped is None else self.shaped

    def with_response(self, response: FloatArray) -> Self:
        """Return the same fit under noise for which ``K`` is known, of shape (p, p)."""
        return replace(self, shaped=response)

    def confined(self, directions: FloatArray) -> Self:
        """Return the same fit seen only along directions of the noise, orthonormal, (p, r)."""
        return replace(self, shaped=directions @ (directions.T @ self.response))

    def under_noise(self, shape: FloatArray) -> Self:
        """Return the same fit under noise of a shape ``S``, positive definite with trace p.

        Where S, of shape (p, p), depends on the training data, what the factor measures is the
        first of two terms: leakage through the mean of the release alone.
        """
        cholesky = ScaledCholesky.of(shape)
        root = cholesky.factor * cholesky.scale[:, None]
        return self.with_response(linalg.solve_triangular(root, self.inverse_hessian, lower=True))

    @property
    def n_features(self) -> int:
        """Number of columns of a record, ``d``."""
        return len(self.coefficients) - self.fit_intercept

    @property
    def weights(self) -> FloatArray:
        """Coefficients without the intercept, ``w``, of shape (d,)."""
        return self.coefficients[: self.n_features]

    @property
    def n_target_directions(self) -> int:
        """Directions in which a target can move: one, as it is a number."""
        return 1

    def derivatives(
        self, X: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return ``x~`` of shape (n, p), and r, c and q of shape (n,), for a dense block."""
        x = augment(X, self.fit_intercept)
        a = x @ self.coefficients
        return x, self.loss.residual(a, y), self.loss.curvature(a), self.loss.cross(a)

    def jacobian(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Dense Jacobians of a few records, for checks and for ill-conditioned ones.

        Returns (n, p, d + 1): derivative of the minimiser with respect to ``[x, y]``, at omega = 1;
        over the noise, up to a rotation, where it has a shape of its own.
        """
        x, r, c, q = self.derivatives(X, y)
        u = x @ self.response.T
        jacobian = np.empty((len(x), len(self.coefficients), self.n_features + 1))
        jacobian[:, :, :-1] = -(
            (c[:, None] * u)[:, :, None] * self.weights
            + r[:, None, None] * self.response[:, : self.n_features]
        )
        jacobian[:, :, -1] = -q[:, None] * u
        return jacobian
