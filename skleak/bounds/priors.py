"""Priors, and the guesses that are best under them.

Success against a reference Gaussian: maximize over how the reference's mass is split.

For a reference Q = N(c, sigma^2 I) the decision regions A_m partition the space, so their masses
kappa_m = Q(A_m) sum to 1, and by Neyman and Pearson region m catches at most
``Phi(Phi^-1(kappa_m) + d_m)`` of N(e_m, sigma^2 I), ``d_m = |e_m - c| / sigma``. Hence

    success <= max { sum_m p_m Phi(Phi^-1(kappa_m) + d_m) : sum_m kappa_m = 1 }.

Its Lagrange dual is a convex function of one multiplier nu, and *any* nu > 0 gives an upper bound:

    g(nu) = nu + sum_m [ p_m Phi(u_m) - nu Phi(t_m) ],
    t_m = log(p_m / nu) / d_m - d_m / 2,   u_m = t_m + d_m.

So what is returned is always a bound, however well the multiplier is solved for.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from skleak.utils._arguments import (
    SUM_TOLERANCE,
    as_result,
    broadcast_shape,
    check_numbers,
    check_real,
)
from skleak.utils._typing import BoolArray, FloatArray

# What sums of float64 may be off by: information computed as a sum can be -1e-17.
ROUND_OFF = 1e-12
# Beyond this many values 1 / M is no longer a normal float64.
MAX_VALUES = 10**300


@dataclass(frozen=True)
class Prior:
    """Knowledge of an adversary about a secret before a release is seen."""

    n_values: FloatArray  # Number of values with positive probability, at least 2, (...)
    # ``p*``, the success probability of the best guess without a release, in (0, 1), (...)
    largest: FloatArray
    # ``1 - p*``, summed from the other entries so that it keeps its relative precision, (...)
    rest: FloatArray
    # The prior itself; None for the uniform prior given as an integer, (..., M)
    probabilities: FloatArray | None = None

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of priors; ``()`` for a single one."""
        return self.largest.shape


def parse_prior(prior: npt.ArrayLike) -> Prior:
    """Validate a prior given as probabilities or as the number of values of a uniform secret.

    Shapes: ``prior`` (..., M).
    """
    if isinstance(prior, np.ndarray) and prior.ndim == 0:
        prior = prior.item()
    if isinstance(prior, Integral) and not isinstance(prior, bool):
        return _uniform_prior(int(prior))
    if np.ndim(prior) == 0:
        raise TypeError(
            "`prior` must be an integer M >= 2 (uniform on M values) or an array of probabilities; "
            f"got {prior!r}."
        )
    p = check_numbers("prior", prior)
    if p.shape[-1] < 2:
        raise ValueError(
            f"`prior` must hold at least 2 values along its last axis; got shape {p.shape}. "
            "A secret with one value cannot leak."
        )
    if np.any(p < 0.0):
        raise ValueError(f"`prior` must be non-negative; got an entry {p.min():g}.")
    total = p.sum(axis=-1)
    off = np.abs(total - 1.0) > SUM_TOLERANCE
    if np.any(off):
        raise ValueError(
            f"`prior` must sum to 1; got {np.atleast_1d(total)[np.atleast_1d(off)][0]:g}. "
            "Pass counts through `prior / prior.sum()`."
        )
    # Round-off in the sum is no reason to move the entries.
    p = p / np.where(np.abs(total - 1.0) <= ROUND_OFF, 1.0, total)[..., np.newaxis]
    largest = p.max(axis=-1)
    rest = np.where(is_likeliest(p), 0.0, p).sum(-1)
    if np.any(rest == 0.0):
        raise ValueError(
            "`prior` puts all its mass on one value: the secret is already known, so no advantage "
            "is defined. Drop such targets."
        )
    n_values = np.count_nonzero(p, axis=-1).astype(float)
    return Prior(np.asarray(n_values), np.asarray(largest), np.asarray(rest), p)


def _uniform_prior(n_values: int) -> Prior:
    if not 2 <= n_values <= MAX_VALUES:
        raise ValueError(
            f"`prior` given as a number of values must lie in [2, 1e300]; got {n_values}."
        )
    largest = 1.0 / n_values
    return Prior(np.asarray(float(n_values)), np.asarray(largest), np.asarray(1.0 - largest))


def is_likeliest(p: FloatArray) -> BoolArray:
    """Mask of the likeliest value, the first of several, along the last axis, (..., M)."""
    return np.arange(p.shape[-1]) == p.argmax(axis=-1)[..., np.newaxis]


def success_to_advantage(success: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Advantage of an attack over the best guess from the prior alone.

    ``(success - p*) / (1 - p*)`` with ``p* = max(prior)``: 0 for guessing the likeliest value, 1
    for certainty, negative for an attack that does worse than the prior ([FANO23] eq. 1).

    Parameters
    ----------
    success : array-like of shape (...)
        Probability that the guess is right, in [0, 1].
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)

    Raises
    ------
    ValueError
        For probabilities outside [0, 1], or an invalid prior.

    Examples
    --------
    >>> success_to_advantage([0.5, 0.75, 1.0], [0.5, 0.25, 0.25])
    array([0. , 0.5, 1. ])
    """
    success = check_real("success", success, high=1.0)
    parsed = parse_prior(prior)
    broadcast_shape(success=success.shape, prior=parsed.batch_shape)
    return as_result((success - parsed.largest) / parsed.rest)


def advantage_to_success(advantage: npt.ArrayLike, prior: npt.ArrayLike) -> Any:
    """Success probability of an attack from its advantage; inverts `success_to_advantage`.

    Parameters
    ----------
    advantage : array-like of shape (...)
        Advantage over the prior, at most 1.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.

    Returns
    -------
    float or ndarray of shape (...)

    Raises
    ------
    ValueError
        For an advantage that no success probability has, or an invalid prior.

    Examples
    --------
    >>> advantage_to_success(0.5, [0.5, 0.25, 0.25])
    0.75
    """
    advantage = check_numbers("advantage", advantage)
    parsed = parse_prior(prior)
    broadcast_shape(advantage=advantage.shape, prior=parsed.batch_shape)
    success = parsed.largest + advantage * parsed.rest
    if np.any((success < -1e-12) | (success > 1.0 + 1e-12)):
        raise ValueError(
            "`advantage` must lie in [-p* / (1 - p*), 1] with p* = max(prior); got "
            f"{advantage.min():g} to {advantage.max():g}."
        )
    return as_result(np.clip(success, 0.0, 1.0))


# Beyond this distance a normal tail is zero in float64, whatever mass the region has.
MAX_DISTANCE = 1e3
# Stands for a distance of zero where one divides by it.
TINY = np.finfo(float).tiny
MAX_ITERATIONS = 200
MASS_TOLERANCE = 1e-13


class WaterFilling(NamedTuple):
    """The bound for a batch of channels, and what its gradient needs.

    ``advantage`` (n,): upper bound on the advantage, in [0, 1].
    ``sensitivity`` (n, M): ``p_m phi(u_m)``, the derivative of the bound on the success with
        respect to ``d_m``.
    """

    advantage: FloatArray
    sensitivity: FloatArray


def water_filling(distances: FloatArray, prior: FloatArray) -> WaterFilling:
    """Bound the advantage of guessing from distances to a reference.

    Shapes: ``distances`` (n, M); ``prior`` (n, M), rows sum to 1, at least two entries of each are
    positive.
    """
    d = np.clip(distances, TINY, MAX_DISTANCE)
    # Everything is relative to the likeliest value, so that ties are exact.
    weights = prior / prior.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    level = _solve_level(d, weights, log_weights)
    gain, error, sensitivity = _dual(d, weights, log_weights, level)
    # At nu = p* the bound is exact where the prior decides alone.
    flat_gain, flat_error, flat_sensitivity = _dual(d, weights, log_weights, np.zeros_like(level))
    flat = flat_gain <= gain
    gain, error = np.where(flat, flat_gain, gain), np.where(flat, flat_error, error)
    sensitivity = np.where(flat[:, np.newaxis], flat_sensitivity, sensitivity)
    rest = np.where(is_likeliest(weights), 0.0, weights).sum(axis=1)
    # Both forms are the same number; each keeps its digits on its own side of 1/2.
    advantage = np.where(gain < 0.5 * rest, gain / rest, 1.0 - error / rest)
    return WaterFilling(
        np.clip(advantage, 0.0, 1.0), sensitivity * prior.max(axis=1, keepdims=True)
    )


def _thresholds(d: FloatArray, log_weights: FloatArray, level: FloatArray) -> FloatArray:
    """``t_m`` of the regions at the multiplier ``exp(level)``."""
    with np.errstate(over="ignore"):
        return (log_weights - level[:, np.newaxis]) / d - 0.5 * d


def _dual(
    d: FloatArray, weights: FloatArray, log_weights: FloatArray, level: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Dual function minus 1, 1 + rest minus it, and its derivative in ``d``, over ``p*``."""
    t = _thresholds(d, log_weights, level)
    u = t + d
    nu = np.exp(level)[:, np.newaxis]
    star = is_likeliest(weights)
    others = np.where(star, 0.0, weights * ndtr(u) - nu * ndtr(t)).sum(axis=1)
    own = np.where(star, nu * ndtr(-t) - weights * ndtr(-u), 0.0).sum(axis=1)
    spare = np.where(star, ndtr(-t), -ndtr(t)).sum(axis=1)
    error = (weights * ndtr(-u)).sum(axis=1) - nu[:, 0] * spare
    with np.errstate(over="ignore"):
        density = np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi)
    return others + own, error, weights * density


def _solve_level(d: FloatArray, weights: FloatArray, log_weights: FloatArray) -> FloatArray:
    """``log nu`` at which the regions' masses sum to one: Newton's method inside a bracket."""
    positive = weights > 0.0
    share = ndtri(1.0 / np.count_nonzero(positive, axis=1))[:, np.newaxis]
    # Where every region has mass 1 / M or less (or more), so does their sum.
    even = log_weights - d * (share + 0.5 * d)
    high = np.where(positive, even, -np.inf).max(axis=1)
    low = np.where(positive, even, np.inf).min(axis=1)
    level = 0.5 * (low + high)
    active = np.arange(len(level))
    for _ in range(MAX_ITERATIONS):
        here, below, above = level[active], low[active], high[active]
        t = _thresholds(d[active], log_weights[active], here)
        mass = ndtr(t).sum(axis=1)
        below, above = np.where(mass >= 1.0, here, below), np.where(mass <= 1.0, here, above)
        with np.errstate(all="ignore"):
            slope = (np.exp(-0.5 * t * t) / d[active]).sum(axis=1) / np.sqrt(2.0 * np.pi)
            newton = here + np.log(mass) * mass / slope
        inside = (newton > below) & (newton < above)
        done = (np.abs(mass - 1.0) <= MASS_TOLERANCE) | (above - below <= 1e-15 * (1.0 - below))
        level[active] = np.where(done, here, np.where(inside, newton, 0.5 * (below + above)))
        low[active], high[active] = below, above
        active = active[~done]
        if active.size == 0:
            break
    return level
