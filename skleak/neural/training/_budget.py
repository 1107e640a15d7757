"""Noise for a goal, and steps for a budget: functions of public numbers alone."""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize
from scipy.special import ndtr, ndtri

from skleak.accounting import subsampled_gaussian_epsilon, subsampled_gaussian_tradeoff
from skleak.mechanisms import EpsilonDelta, GaussianDP, NoiseGoal
from skleak.neural.information import Sampling
from skleak.utils._arguments import check_scalar

# Noise multipliers are searched for in this range, to this precision, and rounded upward.
_SMALLEST, _LARGEST, _PRECISION = 1e-2, 1e6, 1e-3


def resolve_noise(
    goal: NoiseGoal, n_steps: int, rate: float, sampling: Sampling, delta: float
) -> float:
    """Smallest noise over the sensitivity that reaches a goal under replacement of one record.

    `EpsilonDelta` is met at its own delta. `GaussianDP` cannot be met exactly with the help of
    sampling: a record that happens to be in all batches is told by more than mu. It is met up to
    ``delta``: no test has a power above that of mu-GDP by more.
    """
    excess: Callable[[float], float]
    if isinstance(goal, EpsilonDelta):
        epsilon = check_scalar("EpsilonDelta.epsilon", goal.epsilon, low_open=True, finite=True)
        failure = goal.delta

        def excess(sigma: float) -> float:
            spent = epsilon_of(sigma, rate, n_steps, failure, sampling)
            return float(np.log(max(spent, 1e-9)) - np.log(epsilon))

    elif isinstance(goal, GaussianDP):
        mu = check_scalar("GaussianDP.mu", goal.mu, low_open=True, finite=True)

        def excess(sigma: float) -> float:
            alpha, beta = subsampled_gaussian_tradeoff(
                sigma, rate, n_steps, relation="replace", sampling=sampling
            )
            # Straight between its corners, above a convex curve if it is there.
            return float(np.max(ndtr(-ndtri(alpha) - mu) - beta)) - delta

    else:
        raise ValueError(
            f"`noise_multiplier` must be a number, EpsilonDelta or GaussianDP; got {goal!r}. Other "
            "goals need what is only known once a model is trained."
        )
    return _smallest(excess, repr(goal))


def affordable_steps(
    budget: float, n_steps: int, sigma: float, rate: float, sampling: Sampling, delta: float
) -> int:
    """Count the steps that keep epsilon at or below a budget: a public rule, 0 for none.

    ``sigma`` is the noise over the sensitivity.
    """
    # Small noise makes long distributions: never compose many more steps than are paid for.
    if _one_step_delta(sigma, rate, budget) > delta:
        return 0
    low, high = 0, 1
    while epsilon_of(sigma, rate, high, delta, sampling) <= budget:
        if high == n_steps:
            return n_steps
        low, high = high, min(2 * high, n_steps)
    while high - low > 1:
        middle = (low + high) // 2
        if epsilon_of(sigma, rate, middle, delta, sampling) <= budget:
            low = middle
        else:
            high = middle
    return low


def _one_step_delta(sigma: float, rate: float, epsilon: float) -> float:
    """Delta of one step between opposite gradients, from below: by thresholds of their sum."""
    t = np.linspace(-10.0, 10.0 + 2.0 / sigma, 4001)
    shared = (1.0 - rate) * ndtr(-t)
    own, other = (shared + rate * ndtr(sign / sigma - t) for sign in (1.0, -1.0))
    # Below delta = exp(-700) nothing is decided here.
    return float(np.max(own - np.exp(min(epsilon, 700.0)) * other))


def epsilon_of(sigma: float, rate: float, n_steps: int, delta: float, sampling: Sampling) -> float:
    """Epsilon of so many steps under replacement of one record."""
    return subsampled_gaussian_epsilon(
        sigma, rate, n_steps, delta, relation="replace", sampling=sampling
    )


def _smallest(excess: Callable[[float], float], goal: str) -> float:
    """Smallest number whose excess over a goal, which falls, is none; rounded upward."""

    @cache
    def at(log_sigma: float) -> float:
        return excess(float(np.exp(log_sigma)))

    high = 0.0
    while at(high) > 0.0:
        high += np.log(2.0)
        if high > np.log(_LARGEST):
            raise ValueError(
                f"No `noise_multiplier` up to {_LARGEST:g} reaches {goal}. Ask for less, or take "
                "fewer steps or a smaller sampling rate."
            )
    low = high - np.log(2.0)
    while at(low) <= 0.0:
        low, high = low - np.log(2.0), low
        if low < np.log(_SMALLEST):
            return float(np.exp(high))
    found = optimize.brentq(at, low, high, xtol=_PRECISION)
    while at(found) > 0.0:
        found += _PRECISION
    return float(np.exp(found))
