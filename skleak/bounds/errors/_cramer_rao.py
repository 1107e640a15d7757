"""Lower bounds on the mean squared error of reconstructing a record."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.bounds._prior import broadcast_shape
from skleak.utils._arguments import as_result, check_at_least, check_numbers
from skleak.utils._typing import FloatArray


def cramer_rao_mse(
    fisher_information: npt.ArrayLike,
    bias_jacobian: npt.ArrayLike | None = None,
    squared_bias: npt.ArrayLike = 0.0,
) -> Any:
    """Cramer-Rao bound on the mean squared error per coordinate ([DRA22] theorem 2).

    An estimator of z in R^d with bias b(z) has mean ``mu(z) = z + b(z)``, whose Jacobian is
    ``J = I + db/dz``, and

        E |z^ - z|^2 / d >= tr(J F^-1 J^T) / d + |b|^2 / d

    with F the Fisher information matrix of the release about z.

    Parameters
    ----------
    fisher_information : float or array-like of shape (..., d, d)
        Fisher information; symmetric and positive semi-definite, or one number for a scalar z.
    bias_jacobian : array-like of shape (..., d, d), default=None
        ``db/dz``, the Jacobian of the *bias* (not of the mean): zero, the default, for an unbiased
        estimator, minus the identity for a constant one.
    squared_bias : array-like of shape (...), default=0
        ``|b|^2 / d``, mean squared bias of a coordinate.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of z. Infinite where the information is singular in a direction that the
        estimator's mean moves along: no estimator with that bias has finite variance. A direction
        that it does not move along costs nothing.

    Raises
    ------
    ValueError
        For shapes that do not match, infinite entries, a matrix that is not symmetric or has a
        negative eigenvalue, or a negative `squared_bias`.

    See Also
    --------
    fisher_information_loss_mse : The weaker bound ``1 / eta^2`` from the spectral norm alone.

    Notes
    -----
    Assumptions: the attacker knows all but z; the density of the release is differentiable in z
    (Gaussian noise is enough). Biased attackers, for instance ones with a prior, may err less than
    the unbiased bound. Eigenvalues below ``d`` machine epsilons of the largest count as zero,
    once each coordinate is in units of its own information.

    Examples
    --------
    >>> cramer_rao_mse([[4.0, 0.0], [0.0, 1.0]])
    0.625
    >>> cramer_rao_mse([[4.0, 0.0], [0.0, 0.0]])
    inf
    >>> cramer_rao_mse([[4.0, 0.0], [0.0, 0.0]], bias_jacobian=[[0, 0], [0, -1]])
    0.125
    """
    information = check_information("fisher_information", fisher_information)
    d = information.shape[-1]
    slope = np.eye(d)
    if bias_jacobian is not None:
        jacobian = check_numbers("bias_jacobian", bias_jacobian)
        jacobian = jacobian.reshape(1, 1) if jacobian.ndim == 0 else jacobian
        if jacobian.shape[-2:] != (d, d) or not np.all(np.isfinite(jacobian)):
            raise ValueError(
                f"`bias_jacobian` must be finite and of shape (..., {d}, {d}); got "
                f"{jacobian.shape}."
            )
        slope = slope + jacobian
    bias = check_at_least("squared_bias", squared_bias, 0.0)
    broadcast_shape(
        fisher_information=information.shape[:-2],
        bias_jacobian=slope.shape[:-2],
        squared_bias=bias.shape,
    )
    # In units in which each coordinate has information one: those of the user do not matter.
    diagonal = np.diagonal(information, axis1=-2, axis2=-1)
    units = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(information * units[..., :, None] * units[..., None, :])
    top = np.maximum(values[..., -1:], 0.0)
    if np.any(values < -1e-8 * top) or np.any(values[..., -1] < 0.0):
        raise ValueError(
            "`fisher_information` must be positive semi-definite; got an eigenvalue below zero."
        )
    directions = units[..., :, None] * vectors
    moved = ((slope @ directions) ** 2).sum(axis=-2)
    eps = np.finfo(float).eps
    singular = values <= d * eps * top
    # Motion at the level of round-off is none: the bound must not become infinite by it.
    lengths = (slope**2).sum(axis=(-2, -1))[..., None] * (directions**2).sum(axis=-2)
    terms = np.where(
        singular,
        np.where(moved <= eps * lengths, 0.0, np.inf),
        moved / np.where(singular, 1.0, values),
    )
    return as_result(terms.sum(axis=-1) / d + bias)


def check_information(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return symmetric finite matrices of shape (..., d, d)."""
    information = check_numbers(name, value, finite=True)
    if information.ndim == 0:
        information = information.reshape(1, 1)
    if information.ndim < 2 or information.shape[-1] != information.shape[-2]:
        raise ValueError(
            f"`{name}` must be a number or square matrices of shape (..., d, d); got "
            f"shape {information.shape}. Pass n scalar informations as shape (n, 1, 1)."
        )
    flipped = np.swapaxes(information, -1, -2)
    scale = np.abs(information).max(axis=(-2, -1), keepdims=True)
    if np.any(np.abs(information - flipped) > 1e-8 * scale):
        raise ValueError(f"`{name}` must be symmetric; it differs from its transpose.")
    return 0.5 * (information + flipped)


def fisher_information_loss_mse(eta: npt.ArrayLike) -> Any:
    """Lower bound ``1 / eta^2`` on the mean squared error per coordinate ([FIL21], [DRA22]).

    The Fisher information loss ``eta`` is the root of the largest eigenvalue of the Fisher
    information matrix, so that ``tr(F^-1) / d >= 1 / eta^2`` ([DRA22] theorem 2).

    Parameters
    ----------
    eta : array-like of shape (...)
        Fisher information loss, in reciprocal units of the attacked quantity; at least 0, infinite
        without noise. The diagonal loss ``sqrt(tr(F) / d)`` is also allowed, and gives the tighter
        bound ``d / tr(F)``.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of the attacked quantity; infinite at ``eta = 0``, 0 at infinity.

    Raises
    ------
    ValueError
        For negative `eta`.

    Notes
    -----
    Assumptions: an unbiased attacker who knows everything else. (The line below [FIL21] eq. 12
    misprints the reciprocal.)

    Examples
    --------
    >>> fisher_information_loss_mse([0.0, 0.5, 2.0])
    array([ inf, 4.  , 0.25])
    """
    eta = check_at_least("eta", eta, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return as_result((1.0 / eta) ** 2)


def hammersley_chapman_robbins_mse(
    epsilon: npt.ArrayLike,
    diameters: npt.ArrayLike,
    contraction: npt.ArrayLike = 1.0,
    squared_bias: npt.ArrayLike = 0.0,
) -> Any:
    """Lower bound on the mean squared error from Renyi DP of order 2 ([DRA22] theorem 1).

    By the inequality of Hammersley, Chapman and Robbins, for an estimator of bias b at z,

        E |z^ - z|^2 / d >= sum_i gamma_i^2 diam_i^2 / (4 d (exp(epsilon) - 1)) + |b|^2 / d.

    Parameters
    ----------
    epsilon : array-like of shape (...)
        (2, epsilon)-RDP of the release under replacement of the record, at least 0. For output
        perturbation it is ``(2 L R / (n alpha sigma))^2``: the square, which [DRA22] 7.1 omits.
    diameters : array-like of shape (..., d)
        Width of the domain in each coordinate with the others fixed; at least 0, finite.
    contraction : array-like of shape (..., d), default=1
        ``gamma_i``, smallest absolute derivative of the estimator's i-th mean in z_i over the
        domain; 1 where it is unbiased, 0 where it is constant.
    squared_bias : array-like of shape (...), default=0
        ``|b|^2 / d``, mean squared bias of a coordinate at z.

    Returns
    -------
    float or ndarray of shape (...)
        In squared units of the attacked quantity. Infinite at ``epsilon = 0``, unless the
        estimator's mean is constant: that costs the squared bias and nothing else.

    Raises
    ------
    ValueError
        For negative arguments, infinite `diameters` or `contraction`, a scalar `diameters`, shapes
        that do not match, or a bound of zero: all-zero widths without bias.

    Notes
    -----
    Assumptions: the attacker knows every other record; the domain is a box with these widths. The
    bound holds at every z of it, since one end is at least half a diameter away.

    Examples
    --------
    >>> round(hammersley_chapman_robbins_mse(2.0, [1.0, 1.0]), 4)
    0.0391

    Half the way from a guess of 0.5 to an unbiased estimate, at z = (1, 1): bias 0.25.

    >>> round(hammersley_chapman_robbins_mse(2.0, [1.0, 1.0], 0.5, 0.25**2), 4)
    0.0723
    """
    epsilon = check_at_least("epsilon", epsilon, 0.0)
    diameters = check_at_least("diameters", diameters, 0.0)
    contraction = check_at_least("contraction", contraction, 0.0)
    bias = check_at_least("squared_bias", squared_bias, 0.0)
    if diameters.ndim == 0 or diameters.shape[-1] == 0:
        raise ValueError(
            "`diameters` must have the coordinates along its last axis; got shape "
            f"{diameters.shape}. Pass `[diameter]` for a scalar secret."
        )
    if not (np.all(np.isfinite(diameters)) and np.all(np.isfinite(contraction))):
        raise ValueError("`diameters` and `contraction` must be finite; got infinite entries.")
    shape = broadcast_shape(diameters=diameters.shape, contraction=contraction.shape)
    broadcast_shape(epsilon=epsilon.shape, diameters=shape[:-1], squared_bias=bias.shape)
    reach = np.broadcast_to((contraction * diameters) ** 2, shape).sum(axis=-1)
    if np.any((reach == 0.0) & (bias == 0.0)):
        raise ValueError(
            "`contraction * diameters` is zero in every coordinate, and so is `squared_bias`: the "
            "bound is vacuous. Give the domain a width."
        )
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        variance = reach / (4.0 * shape[-1] * np.expm1(epsilon))
    return as_result(np.where(reach > 0.0, variance, 0.0) + bias)
