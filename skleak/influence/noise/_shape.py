"""Which covariance the noise of a fit has, up to its scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import linalg

from skleak.influence.jacobian._factor import FitFactor
from skleak.influence.jacobian._multinomial_factor import check_one_predictor
from skleak.influence.noise._covariance import given_shape
from skleak.influence.noise._curvature import CurvatureNoise
from skleak.influence.noise._minimax import MinimaxNoise
from skleak.influence.noise._terms import FittedNoise
from skleak.utils._linalg import ScaledCholesky
from skleak.utils._typing import FloatArray

if TYPE_CHECKING:  # the state of a fit offers these functions as methods
    from skleak.influence.state._state import FitState

__all__ = ["ISOTROPIC", "NoiseShape"]


@dataclass(frozen=True)
class NoiseShape:
    """Covariance of the noise over its variance, ``S`` with ``tr S = p``.

    Parameters
    ----------
    name : {"isotropic", "given", "curvature", "minimax"}, default="isotropic"
        The identity; a matrix that does not depend on the data; or one that does: ``p A / tr A``
        of the fit itself, or the minimax shape with equal weights (see `_minimax_noise`).
    matrix : ndarray of shape (p, p) or None, default=None
        ``S`` where it is given, symmetric positive definite of trace p.

    Examples
    --------
    >>> NoiseShape.of([[2.0, 0.0], [0.0, 6.0]], 2).matrix
    array([[0.5, 0. ],
           [0. , 1.5]])
    >>> NoiseShape.of("curvature", 2).name
    'curvature'
    """

    name: Literal["isotropic", "given", "curvature", "minimax"] = "isotropic"
    matrix: FloatArray | None = None

    @classmethod
    def of(cls, value: Any, n_parameters: int) -> "NoiseShape":
        """From the parameter of an estimator.

        Parameters
        ----------
        value : {"isotropic", "curvature", "minimax"} or array-like of shape (p, p)
            Name, or a matrix known up to a factor.
        n_parameters : int
            p.

        Raises
        ------
        ValueError
            For another name, another shape, or a matrix that is not symmetric positive definite.
        TypeError
            For a matrix that does not hold real numbers.
        """
        if not isinstance(value, str):
            return cls("given", given_shape(value, n_parameters))
        if value == "isotropic":
            return cls()
        if value == "curvature":
            return cls("curvature")
        if value == "minimax":
            return cls("minimax")
        raise ValueError(
            "The shape of the noise must be 'isotropic', 'curvature', 'minimax' or a matrix of "
            f"shape ({n_parameters}, {n_parameters}); got {value!r}."
        )

    @property
    def reads_data(self) -> bool:
        """Whether the covariance is a function of the training records."""
        return self.name in _FITTED

    @property
    def is_identity(self) -> bool:
        """Whether the noise is isotropic, by name or by number."""
        if self.matrix is None:
            return self.name == "isotropic"
        return np.array_equal(self.matrix, self.matrix[0, 0] * np.eye(len(self.matrix)))

    @property
    def smallest_variance(self) -> float:
        """A lower bound on the smallest eigenvalue of S; that of a given shape, or 1."""
        if self.matrix is None or self.is_identity:
            return 1.0
        values = np.linalg.eigvalsh(self.matrix)
        # Less what rounding may have added to it.
        return float(max(values[0] - 1e-14 * len(values) * values[-1], 0.0))

    @property
    def matrix_root(self) -> FloatArray:
        """Lower triangular ``L`` with ``L L^T = S`` where it is given, of shape (p, p)."""
        if self.matrix is None:
            raise ValueError(f"Noise that is {self.name!r} has no matrix that was given.")
        cholesky = ScaledCholesky.of(self.matrix)
        root: FloatArray = cholesky.factor * cholesky.scale[:, None]
        return root

    def whitened(self, points: FloatArray) -> FloatArray:
        """Points of shape (..., p) in coordinates in which noise of a given shape is isotropic."""
        if self.matrix is None or self.is_identity:
            return points
        root = self.matrix_root
        flat = linalg.solve_triangular(root, points.reshape(-1, len(root)).T, lower=True)
        return np.asarray(flat.T.reshape(points.shape))

    def root(self, state: "FitState") -> FloatArray:
        """Lower triangular ``L`` with ``L L^T = S``, of shape (p, p). Confidential."""
        if self.reads_data:
            return self.of_fit(state).noise_root
        if self.matrix is None or self.is_identity:
            return np.eye(len(state.factor.coefficients))
        return self.matrix_root

    def covariance(self, state: "FitState") -> FloatArray:
        """``S``, of shape (p, p). Confidential where it depends on the data."""
        if self.reads_data:
            return self.of_fit(state).shape
        return np.eye(len(state.factor.coefficients)) if self.matrix is None else self.matrix

    def factor(self, state: "FitState") -> FitFactor:
        """What measures the leakage through the mean of the release. Confidential."""
        if self.reads_data:
            return self.of_fit(state).mean_factor
        if self.matrix is None or self.is_identity:
            return state.factor
        return state.factor.under_noise(self.matrix)

    def of_fit(self, state: "FitState") -> FittedNoise:
        """What measures the leakage through mean and covariance, where that depends on the data."""
        if not self.reads_data:
            raise ValueError(f"Noise that is {self.name!r} is no function of the data.")
        check_one_predictor(state.factor)
        return _FITTED[self.name](state)


_FITTED: dict[str, Callable[["FitState"], FittedNoise]] = {
    "curvature": CurvatureNoise.of,
    "minimax": MinimaxNoise.of,
}
ISOTROPIC = NoiseShape()
