"""Noise for a goal, and steps for a budget: functions of public numbers alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skleak.accounting import subsampled_gaussian_epsilon, subsampled_gaussian_tradeoff
from skleak.mechanisms import EpsilonDelta, GaussianDP, NoiseGoal
from skleak.neural.information import Sampling
from skleak.utils._arguments import check_scalar

# Noise multipliers are searched for in this range, to this precision, and rounded upward.
_SMALLEST, _LARGEST, _PRECISION = 1e-2, 1e6, 1e-4


def resolve_noise(
    goal: NoiseGoal, n_steps: int, rate: float, sampling: Sampling, delta: float
) -> float:
    """Smallest noise over the sensitivity that reaches a goal under replacement of one record.

    `EpsilonDelta` is met at its own delta. `GaussianDP` cannot be met exactly with the help of
    sampling: a record that happens to be in all batches is told by more than mu. It is met up to
    ``delta``: no test has a power above that of mu-GDP by more.
    """
    reaches: Callable[[float], bool]
    if isinstance(goal, EpsilonDelta):
        epsilon = check_scalar("EpsilonDelta.epsilon", goal.epsilon, low_open=True, finite=True)
        failure = goal.delta

        def reaches(sigma: float) -> bool:
            return epsilon_of(sigma, rate, n_steps, failure, sampling) <= epsilon

    elif isinstance(goal, GaussianDP):
        mu = check_scalar("GaussianDP.mu", goal.mu, low_open=True, finite=True)

        def reaches(sigma: float) -> bool:
            alpha, beta = subsampled_gaussian_tradeoff(sigma, rate, n_steps, **_relation(sampling))
            # Straight between its corners, above a convex curve if it is there.
            return bool(np.all(beta >= ndtr(-ndtri(alpha) - mu) - delta))

    else:
        raise ValueError(
            f"`noise_multiplier` must be a number, EpsilonDelta or GaussianDP; got {goal!r}. Other "
            "goals need what is only known once a model is trained."
        )
    return _smallest(reaches, repr(goal))


def affordable_steps(
    budget: float, n_steps: int, sigma: float, rate: float, sampling: Sampling, delta: float
) -> int:
    """How many of the steps keep epsilon at or below a budget: a public rule, 0 for none.

    ``sigma`` is the noise over the sensitivity.
    """
    if epsilon_of(sigma, rate, n_steps, delta, sampling) <= budget:
        return n_steps
    low, high = 0, n_steps
    while high - low > 1:
        middle = (low + high) // 2
        if epsilon_of(sigma, rate, middle, delta, sampling) <= budget:
            low = middle
        else:
            high = middle
    return low


def epsilon_of(sigma: float, rate: float, n_steps: int, delta: float, sampling: Sampling) -> float:
    """Epsilon of so many steps under replacement of one record."""
    return subsampled_gaussian_epsilon(sigma, rate, n_steps, delta, **_relation(sampling))


def _relation(sampling: Sampling) -> dict[str, Any]:
    """Replacement, under which batches of both kinds are accounted for."""
    return {"relation": "replace"} | ({"sampling": sampling} if sampling == "fixed" else {})


def _smallest(reaches: Callable[[float], bool], goal: str) -> float:
    """Smallest number that reaches a goal, by bisection of its logarithm, rounded upward."""
    high = 1.0
    while not reaches(high):
        high *= 2.0
        if high > _LARGEST:
            raise ValueError(
                f"No `noise_multiplier` up to {_LARGEST:g} reaches {goal}. Ask for less, or take "
                "fewer steps or a smaller sampling rate."
            )
    low = 0.5 * high
    while low > _SMALLEST and reaches(low):
        low, high = 0.5 * low, low
    while high / low > 1.0 + _PRECISION:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high
