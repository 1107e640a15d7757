"""The d x d state of a fit, from which all leakage is computed."""

from dataclasses import dataclass

import numpy as np

from skleak.losses import PointwiseLoss
from skleak.utils._linalg import augment
from skleak.utils._typing import FloatArray

__all__ = ["FitFactor"]


@dataclass(frozen=True)
class FitFactor:
    """What a fit leaves behind: the minimiser and the inverse Hessian. Confidential.

    With ``x~ = [x, 1]`` (or ``x`` without intercept), ``u = A x~`` and the derivatives r, c, q of
    the loss in predictor space, the influence of one copy of a record on the minimiser is
    ([FIL21] eq. 18 and 29)

        J = -omega [c u w^T + r A E,  q u] ,      shape (p, d + 1), the last column for the target.

    The reweighting factor omega and the noise scale are applied by the caller.

    Parameters
    ----------
    coefficients : ndarray of shape (p,)
        Noiseless minimiser, the intercept last where there is one.
    inverse_hessian : ndarray of shape (p, p)
        ``A``, the inverse of the unnormalised Hessian ``N F''``.
    loss : PointwiseLoss
        The loss that was minimised.
    fit_intercept : bool
        Whether the last parameter is an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.losses import SquaredLoss
    >>> factor = FitFactor(np.array([2.0]), np.array([[0.2]]), SquaredLoss(), False)
    >>> factor.jacobian(np.array([[1.0]]), np.array([2.0]))[0]
    array([[-0.4,  0.2]])
    """

    coefficients: FloatArray
    inverse_hessian: FloatArray
    loss: PointwiseLoss
    fit_intercept: bool

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

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Records.
        y : ndarray of shape (n,)
            Targets.

        Returns
        -------
        ndarray of shape (n, p, d + 1)
            Derivative of the minimiser with respect to ``[x, y]``, at omega = 1.
        """
        x, r, c, q = self.derivatives(X, y)
        u = x @ self.inverse_hessian
        jacobian = np.empty((len(x), len(self.coefficients), self.n_features + 1))
        jacobian[:, :, :-1] = -(
            (c[:, None] * u)[:, :, None] * self.weights
            + r[:, None, None] * self.inverse_hessian[:, : self.n_features]
        )
        jacobian[:, :, -1] = -q[:, None] * u
        return jacobian
