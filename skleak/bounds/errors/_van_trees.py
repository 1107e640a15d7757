"""Lower bound on the mean squared error of any attacker who has a prior."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.bounds._prior import broadcast_shape
from skleak.bounds.errors._cramer_rao import check_information
from skleak.utils._arguments import as_result
from skleak.utils._typing import FloatArray


def van_trees_mse(fisher_information: npt.ArrayLike, prior_information: npt.ArrayLike) -> Any:
    """Lower bound on the mean squared error per coordinate for any attacker (van Trees 1968).

    An attacker with a prior of density f on z in R^d errs, on average over z and the release, by

        E |z^ - z|^2 / d >= tr((E_f[F(z)] + J(f))^-1) / d,    J(f) = E_f[grad log f grad log f^T],

    whatever the bias (for this setting: Maeng, Guo, Kariyappa, Suh, NeurIPS 2023).

    Parameters
    ----------
    fisher_information : float or array-like of shape (..., d, d)
        ``E_f[F(z)]``, the Fisher information of the release **averaged over the prior**, not that
        at the actual value; symmetric and positive semi-definite, or one number for a scalar z.
    prior_information : float or array-like of shape (..., d, d)
        ``J(f)``, the Fisher information of the prior about its location: for a normal prior the
        inverse of its covariance, ``1 / s^2`` for a number with standard deviation s.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of z; infinite where neither the release nor the prior says anything about
        a coordinate.

    Raises
    ------
    ValueError
        For shapes that do not match, NaN or infinite entries, or a matrix that is not symmetric or
        has a negative eigenvalue.

    See Also
    --------
    bayes_mse : The least error itself, where the encodings of all values are known.
    cramer_rao_mse : The bound for unbiased attackers, who have no prior.

    Notes
    -----
    Assumptions: f is differentiable and falls to zero at the ends of its support, and the density
    of the release is differentiable in z. Priors with a jump or an edge, such as the uniform one,
    have infinite information: their bound is 0. The bound is reached where prior and release are
    normal, and the mean of the release linear in z.

    Examples
    --------
    A number with standard deviation 2, and a release with a standard error of 1: Cramer-Rao allows
    unbiased attackers an error of 1, and whoever knows the prior 0.8.

    >>> round(van_trees_mse(1.0, 0.25), 4)
    0.8
    >>> van_trees_mse([[4.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    0.6
    """
    information = check_information("fisher_information", fisher_information)
    prior = check_information("prior_information", prior_information)
    if information.shape[-1] != prior.shape[-1]:
        raise ValueError(
            "`fisher_information` and `prior_information` must be about the same d numbers; got "
            f"d = {information.shape[-1]} and {prior.shape[-1]}."
        )
    broadcast_shape(fisher_information=information.shape[:-2], prior_information=prior.shape[:-2])
    _scaled("fisher_information", information)
    _scaled("prior_information", prior)
    return as_result(_inverse_trace(information + prior) / information.shape[-1])


def _scaled(name: str, information: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale matrices to a diagonal of ones, so that the units of the coordinates do not matter.

    Shapes: ``information`` (..., d, d); returns (..., d, d) and the scales (..., d), infinite for a
    coordinate without information.
    """
    diagonal = np.diagonal(information, axis1=-2, axis2=-1)
    with np.errstate(divide="ignore"):
        scales = 1.0 / np.sqrt(np.maximum(diagonal, 0.0))
    finite = np.where(np.isfinite(scales), scales, 0.0)
    matrix = information * finite[..., :, None] * finite[..., None, :]
    lowest = np.linalg.eigvalsh(matrix)[..., 0]
    # A coordinate without variance has no covariance either.
    stray = np.isinf(scales)[..., None] & (information != 0.0)
    if np.any(lowest < -1e-8) or np.any(stray):
        raise ValueError(
            f"`{name}` must be positive semi-definite; got a matrix with a negative eigenvalue."
        )
    return matrix, scales


def _inverse_trace(information: FloatArray) -> FloatArray:
    """Trace of the inverse, rounded downward where a matrix is singular up to round-off.

    Shapes: ``information`` (..., d, d); returns (...).
    """
    matrix, scales = _scaled("fisher_information", information)
    values, vectors = np.linalg.eigh(matrix)
    # An eigenvalue that drowns in round-off may be as large as this: infinity would promise more.
    values = np.maximum(values, values.shape[-1] * np.finfo(float).eps)
    variances = (vectors**2 / values[..., None, :]).sum(axis=-1)
    with np.errstate(over="ignore"):  # beyond the largest double: infinite
        return np.asarray((variances * scales**2).sum(axis=-1))
