"""Correlated against independent pairs of normal variables: rates of the likelihood-ratio test."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise

from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray

_N_NODES = 128
# Below this distance to 1 a leverage is 1 but for rounding.
_ROUND_OFF = 1e-13


def leverages(X: FloatArray) -> FloatArray:
    """``h_j = x_j^T (X^T X)^-1 x_j``, exactly 1 where it is so but for rounding.

    Shapes: ``X`` (n, d); returns (n,).
    """
    n, d = X.shape
    # Columns in units of their length: a rank does not depend on units.
    lengths = np.sqrt(np.einsum("ij,ij->j", X, X))
    scaled = X / np.where(lengths > 0.0, lengths, 1.0)
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    rank = int(np.sum(sizes > max(n, d) * np.finfo(float).eps * sizes[0]))
    if rank < d:
        raise ValueError(
            f"`X` must have full column rank for a unique least-squares fit; got rank {rank} with "
            f"{n} rows and {d} columns. Drop collinear columns, or add rows."
        )
    h = np.einsum("ij,ij->i", left, left)
    return np.where(h > 1.0 - _ROUND_OFF, 1.0, h)


def member_rates(h: FloatArray, threshold: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Probability that the log-likelihood ratio of membership exceeds a threshold.

    Shapes: ``h`` (n,); ``threshold`` (n,); returns ``fresh``, ``trained`` (n,): under no
    membership (independent pairs) and under membership (correlation ``sqrt(h)``).

    Along the axes of the correlation ``rho = sqrt(h)`` the pair is ``(P, Q)``, of unit variances
    for independent pairs and of variances ``1 + rho`` and ``1 - rho`` otherwise. The ratio exceeds
    the threshold t where ``rho P^2 / (1 + rho) - rho Q^2 / (1 - rho) > k = 2 t + log(1 - h)``. With
    half the squared radius exponential and the angle ``psi / 2`` uniform, that has
    probability ``exp(-k / (2 a))`` at an angle of coefficient a, where a is
    ``rho (cos psi - rho) / (1 - h)`` for independent pairs and ``rho cos psi`` for others.
    """
    fresh, trained = np.empty(len(h)), np.empty(len(h))
    threshold = np.broadcast_to(np.asarray(threshold, dtype=np.float64), h.shape)
    for rows in row_blocks(len(h), _N_NODES):
        fresh[rows], trained[rows] = _block_rates(h[rows], threshold[rows])
    return fresh, trained


def member_power(h: FloatArray, rate: FloatArray) -> FloatArray:
    """Largest share of members that any test of a false positive rate finds.

    Shapes: ``h`` (n,); ``rate`` (n,); returns (n,): that of the likelihood-ratio test at the
    threshold of that rate (Neyman and Pearson).

    The coefficient of `member_rates` is largest at ``rho / (1 + rho)`` and least at
    ``-rho / (1 - rho)``, so that the rate of a threshold lies between two exponentials: their
    thresholds enclose the one sought.
    """
    # Without leverage nothing but a coin tells members; with leverage 1 they are all found.
    power = np.where(h < 1.0, rate, 1.0)
    inside = (h > 0.0) & (h < 1.0) & (rate > 0.0) & (rate < 1.0)
    if not inside.any():
        return power
    h, rate = h[inside], rate[inside]
    rho, shift = np.sqrt(h), np.log1p(-h)
    high = -2.0 * rho / (1.0 + rho) * np.log(rate)
    low = 2.0 * rho / (1.0 - rho) * np.log1p(-rate)
    found = elementwise.find_root(
        lambda threshold, h, rate: member_rates(h, threshold)[0] - rate,
        (0.5 * (low - shift), 0.5 * (high - shift)),
        args=(h, rate),
    )
    power[inside] = member_rates(h, found.x)[1]
    return power


def _block_rates(h: FloatArray, threshold: FloatArray) -> tuple[FloatArray, FloatArray]:
    inside = (h > 0.0) & (h < 1.0)
    safe = np.where(inside, h, 0.5)
    rho, left = np.sqrt(safe), 1.0 - safe
    k = 2.0 * threshold + np.log(left)
    # Without leverage the ratio is zero; with leverage 1 it is infinite.
    constant = np.where(h < 1.0, threshold < 0.0, 0.0)
    other = np.where(h < 1.0, threshold < 0.0, 1.0)
    # atan2 keeps the digits of a small angle, which arccos of nearly 1 would lose.
    angle = np.arctan2(np.sqrt(left), rho)
    fresh = _beyond(k, 0.5 * np.abs(k) * left / rho, angle)
    trained = _beyond(k, 0.5 * np.abs(k) / rho, np.full_like(rho, 0.5 * np.pi))
    return np.where(inside, fresh, constant), np.where(inside, trained, other)


def _beyond(k: FloatArray, size: FloatArray, angle: FloatArray) -> FloatArray:
    """Probability that the quadratic form exceeds k; its sign changes at ``psi = angle``.

    The integrand vanishes with all derivatives at that end, and may rise steeply next to it.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    v = 0.5 * (nodes + 1.0)
    negative = k < 0.0
    length = np.where(negative, np.pi - angle, angle)[:, None]
    theta = length * v**4
    side = np.where(negative, 1.0, -1.0)[:, None]
    # |cos(angle + side theta) - cos(angle)|, without cancellation.
    height = 2.0 * np.sin(angle[:, None] + 0.5 * side * theta) * np.sin(0.5 * theta)
    with np.errstate(divide="ignore", under="ignore"):
        values = np.exp(-size[:, None] / height)
    integral = (length * values * (2.0 * v**3)) @ weights / np.pi
    return np.where(negative, 1.0 - integral, integral)
