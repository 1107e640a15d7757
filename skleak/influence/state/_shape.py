"""Which covariance the noise of a fit has, up to its scale."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import linalg

from skleak.utils._linalg import ScaledCholesky, SingularMatrixError
from skleak.utils._typing import FloatArray

# Largest relative difference of a matrix from its transpose that is taken for round-off.
_ASYMMETRY = 1e-8


@dataclass(frozen=True)
class NoiseShape:
    """Covariance of the noise over its variance, ``S`` with ``tr S = p``."""

    # the identity; a matrix that does not depend on the data; or one that does: ``p A / tr A`` of
    # the fit itself, or the minimax shape with equal weights (see `skleak.influence.noise`)
    name: Literal["isotropic", "given", "curvature", "minimax"] = "isotropic"
    # ``S`` where it is given, symmetric positive definite of trace p, (p, p)
    matrix: FloatArray | None = None
    # Orthonormal directions, in coordinates in which the noise is isotropic, to which an attacker's
    # view of the release is confined; None where all of it is seen, (p, r)
    seen: FloatArray | None = None

    @classmethod
    def of(cls, value: Any, n_parameters: int) -> "NoiseShape":
        """From the parameter of an estimator.

        Shapes: ``value`` (p, p) where it is a matrix; a `NoiseKind` makes one.
        """
        # A kind of noise is the rule for its matrix.
        rule = getattr(value, "covariance", None)
        if callable(rule) and not isinstance(value, type):
            return cls("given", given_shape(rule(n_parameters), n_parameters))
        if not isinstance(value, str):
            return cls("given", given_shape(value, n_parameters))
        if value in ("isotropic", "curvature", "minimax"):
            return cls(value)  # type: ignore[arg-type]
        raise ValueError(
            "The shape of the noise must be 'isotropic', 'curvature', 'minimax' or a matrix of "
            f"shape ({n_parameters}, {n_parameters}); got {value!r}."
        )

    @property
    def reads_data(self) -> bool:
        """True if the covariance is a function of the training records."""
        return self.name in ("curvature", "minimax")

    @property
    def is_identity(self) -> bool:
        """True if the noise is isotropic, by name or by number."""
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

    @cached_property
    def matrix_root(self) -> FloatArray:
        """Lower triangular ``L`` with ``L L^T = S`` where it is given, of shape (p, p)."""
        if self.matrix is None:
            raise ValueError(f"Noise that is {self.name!r} has no matrix that was given.")
        cholesky = ScaledCholesky.of(self.matrix)
        root: FloatArray = cholesky.factor * cholesky.scale[:, None]
        return root

    def whitened_dual(self, x: FloatArray) -> FloatArray:
        """Gradients and records, of shape (..., p), in the coordinates of `whitened`."""
        return x if self.matrix is None or self.is_identity else x @ self.matrix_root

    def whitened(self, points: FloatArray) -> FloatArray:
        """Parameters of shape (..., p) in coordinates in which given noise is isotropic.

        Where only some directions are seen, the coordinates are those along them, (..., r).
        """
        if self.seen is not None:
            return np.asarray(replace(self, seen=None).whitened(points) @ self.seen)
        if self.matrix is None or self.is_identity:
            return points
        root = self.matrix_root
        flat = points.reshape(-1, len(root)).T
        flat = linalg.solve_triangular(root, flat, lower=True, check_finite=False)
        return np.asarray(flat.T.reshape(points.shape))


ISOTROPIC = NoiseShape()


def given_shape(shape: npt.ArrayLike, p: int) -> FloatArray:
    """Return a covariance from public knowledge, scaled to a trace of p.

    Shapes: ``shape`` (p, p); returns (p, p): exactly symmetric.
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
