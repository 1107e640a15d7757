"""Privacy of the Gaussian mechanism.

The privacy curve of Gaussian noise, in logarithms.

It is ``delta(epsilon) = Phi(a) - exp(epsilon) Phi(a - mu)`` with ``a = mu/2 - epsilon/mu``. With
the Mills ratio ``M(x) = Phi(-x)/phi(x)`` this equals ``phi(a) [M(-a) - M(mu - a)]``: nothing
overflows, and its logarithm stays accurate where delta itself is 1e-300.

Gaussian noise in the currencies of differential privacy: mu-GDP, Renyi, (epsilon, delta).

Theorems of Dong, Roth and Su (Gaussian Differential Privacy, JRSS B 2022) are numbered as in
arXiv:1905.02383.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.special import erf, erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

from skleak.utils._arguments import as_result, check_real
from skleak.utils._typing import FloatArray

# Below this mu the difference of two Mills ratios cancels; their integral does not.
_SMALL_MU = 0.1
# Above this mu one tail is all of delta, to fewer digits than are kept.
_LARGE_MU = 1e9
# Beyond this many standard deviations everything underflows; its square must not overflow.
_FAR = 1e150
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_MANY = 128  # roots that are found from bounds
# Terms of a series in mu whose error is rounding, and where the moments in it begin to cancel.
_N_TERMS, _CANCELS = 12, 10.0
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def _mills(x: FloatArray) -> FloatArray:
    """Mills ratio ``Phi(-x)/phi(x)``."""
    return np.sqrt(0.5 * np.pi) * erfcx(x / np.sqrt(2.0))


def _mills_drop(x: FloatArray, mu: FloatArray) -> FloatArray:
    """``M(x) - M(x + mu)`` for x > -1 and small mu.

    ``M(x) = int_0^inf exp(-x t - t^2/2) dt``, and the drop is ``sum_k -(-mu)^k / k! I_k`` with
    ``I_k = (k - 1) I_{k-2} - x I_{k-1}`` the moments of the integrand. Far out, where these cancel,
    it is an integral of positive terms: the integrand is cut where it has fallen to exp(-40), which
    leaves an analytic function that 64 Gauss-Legendre nodes resolve.
    """
    drop, near = np.empty_like(x), x <= _CANCELS
    far, step = x[~near], mu[near]
    near_x = x[near]
    last = _mills(near_x)
    moment, term = 1.0 - near_x * last, step
    total = term * moment
    for k in range(2, _N_TERMS):
        last, moment = moment, (k - 1.0) * last - near_x * moment
        term = term * (-step / k)
        total += term * moment
    drop[near] = total
    cut = 80.0 / (far + np.sqrt(far * far + 80.0))
    t = 0.5 * cut[:, None] * (_NODES + 1.0)
    values = np.exp(-t * (far[:, None] + 0.5 * t)) * -np.expm1(-mu[~near, None] * t)
    drop[~near] = 0.5 * cut * (values @ _WEIGHTS)
    return drop


def log_gaussian_delta(mu: FloatArray, epsilon: FloatArray) -> FloatArray:
    """Logarithm of the smallest delta at which mu-GDP implies (epsilon, delta).

    Balle and Wang (2018), theorem 8; relative error of delta below 1e-12.

    Shapes: ``mu`` (n,); ``epsilon`` (n,); returns (n,).
    """
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        ratio = np.minimum(epsilon / mu, _FAR)
        x = np.maximum(ratio - 0.5 * mu, -_FAR)
        log_phi = -0.5 * x * x - _LOG_SQRT_2PI
        small = mu < _SMALL_MU
        tail = ~small & (x > 0.0)
        bulk = ~small & ~tail
        result = np.empty_like(x)
        result[small] = log_phi[small] + np.log(_mills_drop(x[small], mu[small]))
        result[tail] = log_phi[tail] + np.log(_mills(x[tail]) - _mills(x[tail] + mu[tail]))
        upper = _mills(ratio[bulk] + 0.5 * mu[bulk])
        result[bulk] = np.log(ndtr(-x[bulk]) - np.exp(log_phi[bulk]) * upper)
    return np.minimum(result, 0.0)


# Inverses aim at delta * (1 - 1e-9): a returned value keeps its promise through round-off.
_PRIVATE_SIDE = 1e-9
# Cells of epsilon in the search for mu, pieces of each that is refined, rounds, relative gap.
_CELLS, _PIECES, _ROUNDS, _GAP = 256, 16, 4, 1e-6
# Points of an interval in the search for epsilon, and how often its end is doubled at most.
_ZOOM, _DOUBLINGS = 65, 40
# Newton's steps, at most, and how near to the goal, in logarithms, they end.
_STEPS, _NEAR = 30, 1e-11


def rdp(mu: npt.ArrayLike, order: npt.ArrayLike) -> Any:
    """Renyi divergence bound of a mu-GDP Gaussian release, ``order * mu^2 / 2``.

    Mironov (2017), proposition 7. At order 1 it is the Kullback-Leibler divergence. [DRA22] 7.1
    prints the square root of it for output perturbation at order 2, 2/(n alpha sigma).

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity over noise scale.
    order : float or array-like, at least 1
        Order of the divergence.

    Returns
    -------
    float or ndarray
        Divergence in nats, broadcast over the arguments.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For a negative mu, or an order below 1.

    Examples
    --------
    >>> rdp(0.5, [2, 8])
    array([0.25, 1.  ])
    """
    distance = check_real("mu", mu)
    power = check_real("order", order, low=1.0, finite=True)
    return as_result(0.5 * power * distance**2)


def gaussian_delta(mu: npt.ArrayLike, epsilon: npt.ArrayLike) -> Any:
    """Smallest delta at which mu-GDP implies (epsilon, delta)-differential privacy.

    Balle and Wang (2018), theorem 8; Dong, Roth and Su (2022), corollary 2.13. Exact for Gaussian
    noise: an optimal test attains it.

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity over noise scale; infinity stands for no guarantee.
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats.

    Returns
    -------
    float or ndarray
        delta in [0, 1], broadcast over the arguments.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For a negative argument.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    distance, loss = np.broadcast_arrays(check_real("mu", mu), check_real("epsilon", epsilon))
    # At infinite epsilon, or without any leakage, there is nothing left to fail.
    result = np.where(np.isinf(distance) & np.isfinite(loss), 1.0, 0.0)
    regular = (distance > 0.0) & np.isfinite(distance) & np.isfinite(loss)
    result[regular] = np.exp(log_gaussian_delta(distance[regular], loss[regular]))
    return as_result(result)


def gaussian_epsilon(mu: npt.ArrayLike, delta: npt.ArrayLike) -> Any:
    """Smallest epsilon at which mu-GDP implies (epsilon, delta)-differential privacy.

    The inverse of :func:`gaussian_delta` in epsilon. Round-off errs on the private side: delta at
    the result is at most the one asked for, and below it by about 1e-9 of itself.

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity over noise scale; infinity stands for no guarantee.
    delta : float or array-like, in [0, 1]
        Probability that the bound may fail.

    Returns
    -------
    float or ndarray
        epsilon in nats, broadcast over the arguments; 0 where delta alone covers the release,
        infinite where mu is, or where delta is 0.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    distance, failure = np.broadcast_arrays(
        check_real("mu", mu), check_real("delta", delta, high=1.0)
    )
    vacuous = (distance > 0.0) & (failure == 0.0) | np.isinf(distance) & (failure < 1.0)
    result = np.where(vacuous, np.inf, 0.0)
    # At epsilon = 0 the curve is the total variation distance, erf(mu / sqrt(8)).
    uncovered = erf(distance / np.sqrt(8.0)) > failure
    regular = uncovered & np.isfinite(distance) & (failure > 0.0)
    if regular.any():
        m, goal = distance[regular], np.log(failure[regular]) - _PRIVATE_SIDE
        # delta <= Phi(mu/2 - epsilon/mu) brackets the root from above, and is it where mu is large.
        with np.errstate(over="ignore"):
            found = m * (0.5 * m - ndtri_exp(goal))
        near = m < _LARGE_MU
        found[near] = _root_below(m[near], goal[near], found[near])
        result[regular] = found
    return as_result(result)


def _root_below(mu: FloatArray, goal: FloatArray, above: FloatArray) -> FloatArray:
    """Epsilon at which the logarithm of delta reaches a goal, from bounds above it, (n,).

    The logarithm is concave in epsilon, so that Newton's steps from above pass no root, and those
    from below lead above it.
    """
    epsilon, pending = above.copy(), np.arange(len(mu))
    if len(mu) > _MANY:  # most begin near those of some others
        some = np.argsort(mu)[np.linspace(0, len(mu) - 1, _MANY).astype(np.intp)]
        share = _root_below(mu[some], goal[some], above[some]) / above[some]
        epsilon *= np.interp(mu, mu[some], share)
    for _ in range(_STEPS):
        m, e = mu[pending], epsilon[pending]
        reached = log_gaussian_delta(m, e)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            step = (goal[pending] - reached) / np.exp(e + log_ndtr(-e / m - 0.5 * m) - reached)
        near = np.abs(goal[pending] - reached) <= _NEAR
        epsilon[pending] = np.where(near, e, e - step)
        pending = pending[~near & ~(np.abs(step) <= 1e-13 * e)]
        if not len(pending):
            return epsilon
    found = elementwise.find_root(
        lambda e, m, goal: log_gaussian_delta(m, e) - goal,
        (np.zeros(len(pending)), above[pending]),
        args=(mu[pending], goal[pending]),
    )
    epsilon[pending] = found.x
    return epsilon


def mu_from_epsilon_delta(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> Any:
    """Largest mu whose Gaussian noise is (epsilon, delta)-differentially private.

    The inverse of :func:`gaussian_delta` in mu (the calibration of Balle and Wang 2018, algorithm
    1). Round-off errs on the private side: delta at the result is at most the one asked for, and
    below it by about 1e-9 of itself.

    Parameters
    ----------
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats.
    delta : float or array-like, in [0, 1]
        Probability that the bound may fail.

    Returns
    -------
    float or ndarray
        mu, broadcast over the arguments; 0 where delta is 0 and epsilon finite, infinite where
        the guarantee asks for nothing.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> round(mu_from_epsilon_delta(1.0, 1e-5), 6)
    0.268051
    """
    loss, failure = np.broadcast_arrays(
        check_real("epsilon", epsilon), check_real("delta", delta, high=1.0)
    )
    result = np.where(np.isinf(loss) | (failure == 1.0), np.inf, 0.0)
    regular = np.isfinite(loss) & (failure > np.finfo(float).tiny) & (failure < 1.0)
    if regular.any():
        e, goal = loss[regular], np.log(failure[regular]) - _PRIVATE_SIDE
        # delta <= Phi(mu/2 - epsilon/mu) and delta <= delta(epsilon=0): two mu that are safe.
        z = ndtri_exp(goal)
        radius = np.hypot(z, np.sqrt(2.0 * e))
        first = np.where(z > 0.0, z + radius, 2.0 * e / (radius + np.abs(z)))
        below = np.maximum(first, np.sqrt(8.0) * erfinv(np.exp(goal)))

        def excess(m: FloatArray, e: FloatArray, goal: FloatArray) -> FloatArray:
            return log_gaussian_delta(m, e) - goal

        bracket = elementwise.bracket_root(
            excess, below, 2.0 * below, xmin=0.5 * below, args=(e, goal)
        )
        result[regular] = elementwise.find_root(excess, bracket.bracket, args=(e, goal)).x
    return as_result(result)


def profile_epsilon(profile: Callable[[Any], Any], delta: float, low: float = 0.0) -> float:
    """Find the least epsilon at which a profile that falls meets a delta.

    Parameters
    ----------
    profile : callable
        Delta of each epsilon of an array (n,), or of one.
    delta : float in (0, 1)
        What it is to meet.
    low : float, default=0.0
        Epsilon at which it does not.

    Returns
    -------
    float
        Epsilon that meets it, in nats, at most a part in 10^9 above the least; infinite where it
        is not found.

    Examples
    --------
    >>> round(profile_epsilon(lambda epsilon: gaussian_delta(1.0, epsilon), 1e-5), 4)
    4.3772
    """
    high = 2.0 * low + float(low == 0.0)
    for _ in range(_DOUBLINGS):
        if profile(high) <= delta:
            break
        low, high = high, 2.0 * high
    else:
        return float("inf")
    while high - low > _PRIVATE_SIDE * high:
        epsilon = np.linspace(low, high, _ZOOM)
        # The last is known to meet it.
        meets = int(np.argmax(np.append(profile(epsilon[1:-1]), 0.0) <= delta))
        low, high = float(epsilon[meets]), float(epsilon[meets + 1])
    return high


def covering_mu(
    profile: Callable[[FloatArray], Any], start: float, end: float, least: float
) -> float:
    """Bound the mu of Gaussian noise that is no more private than a profile.

    Parameters
    ----------
    profile : callable
        Delta, or a bound on it that does not rise, at an array of epsilon.
    start, end : float
        Range of epsilon; elsewhere `least` is known to cover it.
    least : float
        The smallest mu that is returned.

    Returns
    -------
    float
        From above: in a cell of epsilon, the delta of its left end at its right end is a bound, and
        cells that may hold the largest mu are refined.

    Examples
    --------
    >>> round(covering_mu(lambda epsilon: gaussian_delta(0.5, epsilon), 0.0, 3.0, 0.1), 5)
    0.5
    """
    best, settled, result = least, least, least
    edges = np.linspace(start, end, _CELLS + 1)
    left, right = edges[:-1], edges[1:]
    for _ in range(_ROUNDS):
        delta = np.minimum(np.asarray(profile(left)) * (1.0 + 1e-8), 1.0)
        point, bound = np.asarray(mu_from_epsilon_delta(np.stack([left, right]), delta))
        best = max(best, float(point.max()))
        result = max(best, settled, float(bound.max()))
        wide = bound > best * (1.0 + _GAP)
        settled = max(settled, float(bound[~wide].max(initial=0.0)))
        if not wide.any() or not np.isfinite(result):
            break
        edges = np.linspace(left[wide], right[wide], _PIECES + 1)
        left, right = edges[:-1].ravel(), edges[1:].ravel()
    return result


def gaussian_noise_scale(
    sensitivity: npt.ArrayLike,
    *,
    mu: Any = None,
    epsilon: Any = None,
    delta: Any = None,
) -> Any:
    """Smallest standard deviation of Gaussian noise that meets a target.

    Parameters
    ----------
    sensitivity : float or array-like, at least 0
        Global L2 sensitivity of what is released.
    mu : float or array-like, positive, optional
        Target in mu-GDP.
    epsilon, delta : float or array-like, optional
        Target (epsilon, delta), epsilon at least 0 and delta strictly between 0 and 1. Give these
        two or mu.

    Returns
    -------
    float or ndarray
        Noise scale in the unit of the sensitivity. Round-off errs on the side of more noise.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        Unless the target is mu alone, or epsilon and delta; or for values out of range.

    Examples
    --------
    >>> gaussian_noise_scale(0.2, mu=0.5)
    0.4
    >>> round(gaussian_noise_scale(1.0, epsilon=1.0, delta=1e-5), 4)
    3.7306
    """
    given = (mu is not None, epsilon is not None, delta is not None)
    if given not in {(True, False, False), (False, True, True)}:
        raise ValueError(
            "The target must be `mu` alone, or `epsilon` and `delta` together; got "
            f"mu={mu}, epsilon={epsilon}, delta={delta}."
        )
    distance = check_real("sensitivity", sensitivity, finite=True)
    if mu is None:
        loss = check_real("epsilon", epsilon, finite=True)
        failure = check_real("delta", delta, low_open=True, high=1.0, high_open=True)
        target = np.asarray(mu_from_epsilon_delta(loss, failure))
    else:
        target = check_real(
            "mu", mu, low_open=True, finite=True, hint="No finite noise leaks nothing."
        )
    scale = distance / target
    with np.errstate(invalid="ignore"):
        too_small = distance / scale > target
    return as_result(np.where(too_small, np.nextafter(scale, np.inf), scale))
