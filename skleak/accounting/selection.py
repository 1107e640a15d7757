"""Privacy of the best of a random number of private trials.

K trials are made, each with a setting that is drawn from a public list: it releases a model and a
score, together mu-GDP given the setting. The trial of the best score is released, ties broken at
random. K has a truncated negative binomial law (Papernot and Steinke, ICLR 2022) of shape
``eta >= 0`` and ``gamma`` in (0, 1), whose generating function f has

    f'(q) = E[K] (gamma / (1 - (1 - gamma) q))^(1 + eta),   E[K] = f'(1).

Let p and p' be the densities of one trial on two data sets, and q and q' the chances that another
trial is not better. The winner has the densities ``p f'(q)`` and ``p' f'(q')``. The event behind q
is as private as a trial: ``q' >= Phi(Phi^-1(q) - mu)``, so that ``f'(q) <= C f'(q')`` with

    log C = (1 + eta) sup over u of log[(gamma + (1-gamma) Phi(u+mu)) / (gamma + (1-gamma) Phi(u))]

and ``p f'(q) - exp(e) p' f'(q') <= f'(q) (p - exp(e - log C) p')_+``. The last factor is at most p
and sums up to the profile of a trial, at most ``H = H_mu(e - log C)`` of Gaussian noise, while q is
uniform under p and f' rises: the delta of the winner is at most the integral of f' over the last H
of [0, 1], which is ``1 - f(1 - H)``, and at most ``E[K] H``. It is also at most that of all trials
together with their number, the mean of ``H_(sqrt(K) mu)(e)``, which is less at small e.

Where the supremum is: with r the hazard ``(1-gamma) phi / (gamma + (1-gamma) Phi)``, which rises up
to some v and falls beyond, the derivative ``r(u + mu) - r(u)`` is positive below v - mu, negative
above v, and falls between. It has one root, near which it bounds what the supremum is above.
"""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit, exprel, log_ndtr, ndtr, ndtri_exp

from skleak.accounting.gaussian import covering_mu, gaussian_delta, profile_epsilon
from skleak.utils._arguments import check_scalar
from skleak.utils._typing import FloatArray

# Below this mu the largest hazard times mu is the bound; half the width of a bracket of the root.
_SMALL_MU, _WIDTH = 1e-3, 1e-5
_ROUND_UP, _TOLERANCE = 1.0 + 1e-9, 1e-9
# Standard deviations of the loss of one trial at the end of the search for mu.
_FAR = 35.0
# The largest shape and mean of a law, and the rarest number of trials that is drawn, or summed up.
_MOST_ETA, _MOST_TRIALS, _RAREST, _LEFT_OUT = 100.0, 1000.0, 1e-18, 1e-25
_BUCKETS = 200  # of numbers of trials, each taken for the largest in it


def mean_trials(eta: float, gamma: float) -> float:
    """Mean of a truncated negative binomial law.

    Parameters
    ----------
    eta : float, at least 0
        Its shape; 0 for the logarithmic law, 1 for the geometric one.
    gamma : float in (0, 1)
        Its parameter.

    Returns
    -------
    float

    Examples
    --------
    >>> round(mean_trials(0.0, 0.01), 1), mean_trials(1.0, 0.25)
    (21.5, 4.0)
    """
    log = float(np.log(gamma))
    return float((1.0 - gamma) / gamma / -log / exprel(eta * log))


def trials_gamma(eta: float, expected_trials: float) -> float:
    """Find the parameter at which a truncated negative binomial law has some mean.

    Parameters
    ----------
    eta : float, at least 0
        Its shape.
    expected_trials : float, above 1
        Its mean.

    Returns
    -------
    float
        In (0, 1).

    Examples
    --------
    >>> round(trials_gamma(1.0, 4.0), 9)
    0.25
    """
    eta = check_scalar("eta", eta, high=_MOST_ETA)
    limits: dict[str, Any] = {"low": 1.001, "high": _MOST_TRIALS}
    mean = check_scalar("expected_trials", expected_trials, **limits)
    return float(expit(brentq(lambda odds: mean_trials(eta, expit(odds)) - mean, -20.0, 20.0)))


def _first_chance(eta: float, gamma: float) -> float:
    """Probability of a single trial."""
    log = float(np.log(gamma))
    return float((1.0 - gamma) / -log / exprel(-eta * log))


def draw_trials(eta: float, gamma: float, generator: np.random.Generator) -> int:
    """Draw a number of trials, at least 1, by its law to within 1e-14 in total variation.

    Parameters
    ----------
    eta, gamma : float
        As for :func:`mean_trials`.
    generator : Generator
        Source of randomness.

    Returns
    -------
    int

    Examples
    --------
    >>> draw_trials(0.0, 0.01, np.random.default_rng(0))
    12
    """
    left, number = float(generator.random()), 1
    chance = _first_chance(eta, gamma)
    while left >= chance > _RAREST:
        left -= chance
        chance *= (1.0 - gamma) * (number + eta) / (number + 1.0)
        number += 1
    return number


def _log_ratio(mu: float, eta: float, gamma: float) -> float:
    """Bound log C of the module from above."""
    odds = gamma / (1.0 - gamma)

    def hazard(u: float) -> float:
        return float(np.exp(-0.5 * u * u) / np.sqrt(2.0 * np.pi) / (odds + ndtr(u)))

    # The hazard is largest at v = -hazard(v), where phi(v) + v (odds + Phi(v)), which rises, is 0.
    v = float(brentq(lambda u: hazard(u) + u, -40.0, 0.0, xtol=1e-13))
    largest = mu * (-v + 1e-9)
    if mu >= _SMALL_MU:

        def slope(u: float) -> float:
            return hazard(u + mu) - hazard(u)

        root = float(brentq(slope, v - mu, v, xtol=1e-13))
        low, high = root - _WIDTH, root + _WIDTH
        if slope(low) > 0.0 > slope(high):
            found = np.log1p((ndtr(root + mu) - ndtr(root)) / (odds + ndtr(root)))
            # The derivative falls between the two.
            largest = min(largest, float(found) + 2.0 * _WIDTH * max(slope(low), -slope(high)))
    return (1.0 + eta) * largest * _ROUND_UP


@functools.lru_cache(maxsize=8)
def _law(eta: float, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Numbers of trials, and bounds on the chances of more than the one before and up to each."""
    number, logs, step = np.ones(1), np.array([np.log(_first_chance(eta, gamma))]), 4096.0
    while True:
        ratio = (1.0 - gamma) * (number[-1] + eta) / (number[-1] + 1.0)
        if ratio < 1.0 and np.exp(logs[-1]) / (1.0 - ratio) < _LEFT_OUT:
            break
        more = number[-1] + np.arange(step)
        ratios = np.log((1.0 - gamma) * (more + eta) / (more + 1.0))
        number = np.append(number, more + 1.0)
        logs = np.append(logs, logs[-1] + np.cumsum(ratios))
    ends = np.unique(np.geomspace(1.0, len(number), _BUCKETS).astype(np.intp))
    chances = np.add.reduceat(np.exp(logs), np.append(0, ends[:-1]))
    return ends.astype(float), chances * _ROUND_UP


def selection_delta(mu: float, epsilon: npt.ArrayLike, eta: float, gamma: float) -> FloatArray:
    """Bound delta of the best of a random number of trials.

    Parameters
    ----------
    mu : float, positive
        Of a trial: its model and its score together.
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats.
    eta, gamma : float
        Law of the number of trials, as for :func:`mean_trials`.

    Returns
    -------
    ndarray
        From above.

    Examples
    --------
    >>> f"{selection_delta(0.237, 1.56, 0.0, 0.01):.1e}"
    '9.8e-07'
    """
    loss, log = np.asarray(epsilon, dtype=np.float64), float(np.log(gamma))
    rest = loss - _log_ratio(mu, eta, gamma)
    below = np.minimum(rest, 0.0)
    one = -np.expm1(below) + np.exp(below) * np.asarray(gaussian_delta(mu, np.abs(rest)))
    grown = np.log1p(one * _ROUND_UP * (1.0 - gamma) / gamma)
    delta = grown / -log * exprel(-eta * grown) / exprel(eta * log)
    number, chances = _law(eta, gamma)
    every = np.asarray(gaussian_delta(mu * np.sqrt(number), loss[..., None])) @ chances
    return np.minimum(np.minimum(delta, every + _LEFT_OUT) * _ROUND_UP, 1.0)


@functools.lru_cache(maxsize=64)
def selection_epsilon(mu: float, delta: float, eta: float, gamma: float) -> float:
    """Bound epsilon of the best of a random number of trials at a delta.

    Parameters
    ----------
    mu, eta, gamma : float
        As for :func:`selection_delta`.
    delta : float in (0, 1)
        Probability that the bound may fail.

    Returns
    -------
    float
        From above.

    Examples
    --------
    >>> round(selection_epsilon(0.237, 1e-6, 0.0, 0.01), 2)
    1.56
    """
    delta = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    return profile_epsilon(lambda e: selection_delta(mu, e, eta, gamma), delta)


@functools.lru_cache(maxsize=64)
def selection_mu(mu: float, eta: float, gamma: float) -> float:
    """Bound the mu of Gaussian differential privacy of the best of a random number of trials.

    Parameters
    ----------
    mu, eta, gamma : float
        As for :func:`selection_delta`.

    Returns
    -------
    float
        From above.

    Notes
    -----
    Far out a loss of the winner is that of a trial, shifted by log C, E[K] times as often. A wider
    normal loss whose tail exceeds such a tail once exceeds it ever after, and so do their profiles.

    Examples
    --------
    >>> round(selection_mu(0.237, 0.0, 0.01), 2)
    0.92
    """
    shift, mean = _log_ratio(mu, eta, gamma), mean_trials(eta, gamma)
    end = shift + mu * (_FAR + 0.5 * mu)
    y = -float(ndtri_exp(min(float(log_ndtr(-_FAR) + np.log(mean)), -1e-300))) * (1.0 - 1e-9)
    least = max(mu, float(np.sqrt(y * y + 2.0 * end)) - y)
    return covering_mu(lambda e: selection_delta(mu, e, eta, gamma), 0.0, end, least)


@functools.lru_cache(maxsize=64)
def trial_mu(
    eta: float,
    gamma: float,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> float:
    """Find the largest mu of a trial at which the search keeps a goal.

    Parameters
    ----------
    eta, gamma : float
        Law of the number of trials, as for :func:`mean_trials`.
    mu : float, positive, optional
        Goal in mu-GDP.
    epsilon, delta : float, optional
        Goal (epsilon, delta). Give these two or mu.

    Returns
    -------
    float
        From below; 0 for a goal that no double meets.

    Examples
    --------
    >>> round(trial_mu(0.0, 0.01, epsilon=1.0, delta=1e-6), 3)
    0.155
    """
    loss = failure = 0.0
    if mu is not None:
        check_scalar("mu", mu, low_open=True, finite=True)
    else:
        loss = check_scalar("epsilon", epsilon, finite=True)
        failure = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)

    def meets(trial: float) -> bool:
        if mu is not None:
            return selection_mu(trial, eta, gamma) <= mu
        return bool(selection_delta(trial, loss, eta, gamma) <= failure)

    low, high = 0.0, 1.0
    while meets(high) and high < 1e6:
        low, high = high, 2.0 * high
    while high - low > max(_TOLERANCE * high, 1e-12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
