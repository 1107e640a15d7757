"""What every bound on guessing a secret shares: the prior, and checks of numeric arguments."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import SUM_TOLERANCE, as_result, check_in_range, check_numbers
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


def broadcast_shape(**shapes: Iterable[int]) -> tuple[int, ...]:
    """Shape that the named arguments broadcast to, or an error that lists their shapes."""
    try:
        return np.broadcast_shapes(*(tuple(shape) for shape in shapes.values()))
    except ValueError as error:
        listed = ", ".join(f"`{name}` {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(
            f"Shapes do not broadcast: {listed}. A batch of priors has shape (..., M), and its "
            "leading axes must match the other arguments."
        ) from error


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
    success = check_in_range("success", success, 0.0, 1.0)
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
