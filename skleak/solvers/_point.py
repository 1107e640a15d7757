"""What is known of an objective at one vector of parameters, and at its minimiser."""

from dataclasses import dataclass
from typing import Protocol

from skleak.solvers._hessian import FactorizedHessian
from skleak.utils._typing import FloatArray


class Point(Protocol):
    """An objective at one vector of parameters, computed where its records lie."""

    @property
    def w(self) -> FloatArray:
        """The parameters, of shape (p,)."""

    @property
    def value(self) -> float:
        """Objective; infinite where the loss overflows."""

    @property
    def gradient(self) -> FloatArray:
        """Gradient, of shape (p,)."""

    @property
    def hessian(self) -> FactorizedHessian:
        """Factor of the unnormalised Hessian."""

    @property
    def size(self) -> float:
        """Largest absolute predictor."""

    @property
    def move(self) -> float:
        """Largest absolute change of a predictor by the step that led here."""

    @property
    def value_round_off(self) -> float:
        """Difference of objectives below which it is only rounding noise."""

    @property
    def gradient_round_off(self) -> float:
        """Norm below which a computed gradient is only rounding noise."""


@dataclass(frozen=True)
class Minimum:
    """Result of a minimisation.

    Parameters
    ----------
    coefficients : ndarray of shape (p,)
        The minimiser, the intercept last.
    inverse_hessian : ndarray of shape (p, p)
        ``A = H^-1`` of the unnormalised Hessian there.
    gradient_norm : float
        Norm of the gradient of the normalised objective.
    n_iter : int
        Newton steps taken.
    converged : bool
        Whether the gradient norm passed the tolerance (or rounding noise) at a finite minimiser.

    Examples
    --------
    >>> import numpy as np
    >>> Minimum(np.array([2.0]), np.eye(1), 0.0, 1, True).converged
    True
    """

    coefficients: FloatArray
    inverse_hessian: FloatArray
    gradient_norm: float
    n_iter: int
    converged: bool
