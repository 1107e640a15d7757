"""Discrete Gaussian noise on a grid, with the rounding of the parameters counted.

Parameters are rounded to multiples of a step h and get independent noise z h, with integers z of
probability proportional to exp(-(z h)^2 / (2 sigma^2)) (Canonne, Kamath and Steinke, The Discrete
Gaussian for Differential Privacy, NeurIPS 2020, "CKS"). With r = h / sigma and p parameters, two
vectors at distance mu sigma lie at most mu' sigma apart once rounded, mu' = mu + sqrt(p) r. The
release is mu'^2/2 zero-concentrated (CKS, theorem 4), but no longer mu-GDP. For (epsilon, delta)
compare it, point by point, with a Gaussian release rounded to the grid, which keeps the privacy of
the Gaussian at mu'. Let d and g be the probabilities of z under the two, U uniform on [-1/2, 1/2]:

    g / d = c E[cosh(r^2 z U) exp(-(r U)^2 / 2)],    c = sum over all k of exp(-(2 pi k / r)^2 / 2),

by Poisson summation, so that (Jensen; sinh(x) <= x exp(x^2 / 6))

    exp(-r^2 / 24) <= g / d <= c exp(r^2 (r z)^2 / 24).

Count what lies further than T sigma from the center as lost. With N standard normal in p
dimensions and S = sqrt(p) (1 + r / 2) + mu'

    delta(epsilon) <= exp(p r^2 / 24) [delta_Gauss(epsilon - slack) + P(|N| > sqrt(p) + T - S)],
    slack = (p + T^2) r^2 / 24 + p log c,    P(|N| > sqrt(p) + s) <= exp(-s^2 / 2).

The slack is about 1e-15 at r = 2^-30. Of T steps with batches at random, each in view of those
before, the same holds of the whole record of them, which has densities g and d given the batches:
the density d is at most exp(T p r^2 / 24) times g, and g at most exp(T (p log c + R^2 r^2 / 24))
times d but for a probability of T exp(-s^2 / 2) that the noise of a step is longer than
R = sqrt(p) (1 + r / 2) + s. Distances add up over independent or adaptive releases as
those of Gaussian noise do: sqrt(sum (mu_i + sqrt(p_i) r_i)^2) <= mu + sqrt(p) r with
mu^2 = sum mu_i^2, p = sum p_i, and r the largest, so the functions take totals as well.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.accounting.gaussian import gaussian_delta, gaussian_epsilon, mu_from_epsilon_delta
from skleak.utils._arguments import as_result, check_real, check_scalar
from skleak.utils._typing import FloatArray

# The largest step over noise scale of a grid whose step is the power of two below sigma / 2^30.
_RELATIVE_STEP = 2.0**-30
# Standard deviations beyond sqrt(p) that count as lost, and the probability that they occur.
_REACH = 37.0
_LOST = float(np.exp(-0.5 * _REACH**2))


def rounded_sensitivity(
    sensitivity: npt.ArrayLike, n_parameters: npt.ArrayLike, step: npt.ArrayLike
) -> Any:
    """Largest L2 distance of two vectors after rounding each to a grid, from that before.

    Rounding moves each coordinate of each vector by at most half a step: ``sensitivity +
    sqrt(n_parameters) step``. It holds for the distance of any two hypotheses as well.

    Parameters
    ----------
    sensitivity : float or array-like, at least 0
        L2 distance before rounding.
    n_parameters : int or array-like, at least 1
        Number of coordinates.
    step : float or array-like, at least 0
        Step of the grid, in the same unit.

    Returns
    -------
    float or ndarray
        In the unit of the sensitivity.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> rounded_sensitivity(1.0, n_parameters=16, step=0.125)
    1.5
    """
    distance = check_real("sensitivity", sensitivity)
    width = check_real("step", step, finite=True)
    return as_result(distance + np.sqrt(_count(n_parameters)) * width)


def discrete_gaussian_rho(
    mu: npt.ArrayLike, *, n_parameters: npt.ArrayLike, relative_step: npt.ArrayLike = _RELATIVE_STEP
) -> Any:
    """Zero-concentrated differential privacy of discrete Gaussian noise on a grid, exactly.

    ``(mu + sqrt(n_parameters) relative_step)^2 / 2``: the Renyi divergence of every order a is at
    most a times that. Canonne, Kamath and Steinke (2020), theorem 4, after rounding.

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity before rounding, over the noise scale.
    n_parameters : int or array-like, at least 1
        Number of released parameters.
    relative_step : float or array-like, in (0, 1], default=2**-30
        Step of the grid over the noise scale.

    Returns
    -------
    float or ndarray
        rho in nats.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> round(discrete_gaussian_rho(0.5, n_parameters=10), 6)
    0.125
    """
    count, ratio = _count(n_parameters), _ratio(relative_step)
    return as_result(0.5 * (check_real("mu", mu) + np.sqrt(count) * ratio) ** 2)


def discrete_gaussian_delta(
    mu: npt.ArrayLike,
    epsilon: npt.ArrayLike,
    *,
    n_parameters: npt.ArrayLike,
    relative_step: npt.ArrayLike = _RELATIVE_STEP,
) -> Any:
    """Bound on the delta of discrete Gaussian noise on a grid at a given epsilon.

    That of Gaussian noise but for the rounding, about 1e-9 sqrt(n_parameters) in mu at the default
    step, and a slack of about 1e-15 in epsilon.

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity before rounding, over the noise scale; of several releases the root of the sum
        of squares.
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats; finite.
    n_parameters : int or array-like, at least 1
        Number of released parameters, over all releases.
    relative_step : float or array-like, in (0, 1], default=2**-30
        Step of the grid over the noise scale; the largest of several.

    Returns
    -------
    float or ndarray
        An upper bound on delta, in [0, 1].

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    See Also
    --------
    gaussian_delta : Gaussian noise in exact arithmetic.

    Examples
    --------
    >>> round(discrete_gaussian_delta(1.0, 1.0, n_parameters=785), 6)
    0.126937
    """
    count, ratio = _count(n_parameters), _ratio(relative_step)
    distance = check_real("mu", mu) + np.sqrt(count) * ratio
    loss = check_real("epsilon", epsilon, finite=True) - _slack(distance, count, ratio)
    # Below zero the curve rises by at most the shortfall.
    regular = gaussian_delta(distance, np.maximum(loss, 0.0)) + np.maximum(-loss, 0.0)
    return as_result(np.minimum(np.exp(_log_ratio(count, ratio)) * (regular + _LOST), 1.0))


def discrete_gaussian_epsilon(
    mu: npt.ArrayLike,
    delta: npt.ArrayLike,
    *,
    n_parameters: npt.ArrayLike,
    relative_step: npt.ArrayLike = _RELATIVE_STEP,
) -> Any:
    """Bound on the epsilon of discrete Gaussian noise on a grid at a given delta.

    The inverse of :func:`discrete_gaussian_delta` in epsilon.

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity before rounding, over the noise scale; of several releases the root of the sum
        of squares.
    delta : float or array-like, in [0, 1]
        Probability that the bound may fail.
    n_parameters : int or array-like, at least 1
        Number of released parameters, over all releases.
    relative_step : float or array-like, in (0, 1], default=2**-30
        Step of the grid over the noise scale; the largest of several.

    Returns
    -------
    float or ndarray
        An upper bound on epsilon, in nats; infinite for a delta below 1e-297.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> round(discrete_gaussian_epsilon(1.0, 1e-5, n_parameters=785), 4)
    4.3772
    """
    count, ratio = _count(n_parameters), _ratio(relative_step)
    distance = check_real("mu", mu) + np.sqrt(count) * ratio
    failure = check_real("delta", delta, high=1.0) * np.exp(-_log_ratio(count, ratio)) - _LOST
    slack = _slack(distance, count, ratio)
    return as_result(gaussian_epsilon(distance, np.maximum(failure, 0.0)) + slack)


def discretized_epsilon(
    gaussian: Callable[[float], float],
    delta: float,
    *,
    n_parameters: int,
    n_steps: int = 1,
    relative_step: float = _RELATIVE_STEP,
) -> float:
    """Bound on epsilon with discrete Gaussian noise, from that with Gaussian noise.

    For any number of adaptive steps, with batches at random or not, that add noise to vectors of
    integers: the accounting of Gaussian noise holds, but for a slack.

    Parameters
    ----------
    gaussian : callable
        Epsilon of all steps as a function of delta, were the noise Gaussian and the sums the same.
    delta : float, strictly between 0 and 1
        Probability that the bound may fail.
    n_parameters : int, at least 1
        Numbers of one step.
    n_steps : int, default=1
        Number of steps.
    relative_step : float, in (0, 1], default=2**-30
        One unit of the integers over the noise scale.

    Returns
    -------
    float
        An upper bound on epsilon, in nats.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    See Also
    --------
    SubsampledGaussian : Steps on random batches.

    Examples
    --------
    >>> coarse = discretized_epsilon(
    ...     lambda delta: float(gaussian_epsilon(1.0, delta)),
    ...     1e-5,
    ...     n_parameters=10,
    ...     relative_step=0.01,
    ... )
    >>> round(float(gaussian_epsilon(1.0, 1e-5)), 3), round(coarse, 3)
    (4.377, 4.384)
    """
    failure = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    steps = check_scalar("n_steps", n_steps, low=1.0, finite=True)
    count, ratio = float(_count(n_parameters)), float(_ratio(relative_step))
    # What is lost to long noise stays below exp(-700).
    failure = failure * float(np.exp(-steps * _log_ratio(count, ratio))) - float(np.exp(-700.0))
    epsilon = gaussian(failure) if failure > 0.0 else np.inf
    if not np.isfinite(epsilon):
        return float("inf")
    return float(epsilon + _steps_slack(np.asarray(epsilon), steps, count, ratio))


def discretized_delta(
    gaussian: Callable[[FloatArray], FloatArray],
    epsilon: npt.ArrayLike,
    *,
    n_parameters: int,
    n_steps: int = 1,
    relative_step: float = _RELATIVE_STEP,
) -> Any:
    """Bound on delta with discrete Gaussian noise, from that with Gaussian noise.

    The inverse of :func:`discretized_epsilon`.

    Parameters
    ----------
    gaussian : callable
        Delta of all steps as a function of epsilon, were the noise Gaussian and the sums the same.
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats; finite.
    n_parameters, n_steps, relative_step : int, int, float
        As for :func:`discretized_epsilon`.

    Returns
    -------
    float or ndarray
        An upper bound on delta, in [0, 1].

    Examples
    --------
    >>> fine = discretized_delta(lambda loss: gaussian_delta(1.0, loss), 1.0, n_parameters=10)
    >>> round(float(gaussian_delta(1.0, 1.0)), 6), round(fine, 6)
    (0.126937, 0.126937)
    """
    count, ratio = _count(n_parameters), _ratio(relative_step)
    given = check_real("epsilon", epsilon, finite=True)
    loss = given - _steps_slack(given, n_steps, count, ratio)
    # Below zero the curve rises by at most the shortfall.
    regular = gaussian(np.maximum(loss, 0.0)) + np.maximum(-loss, 0.0) + np.exp(-700.0)
    return as_result(np.minimum(np.exp(n_steps * _log_ratio(count, ratio)) * regular, 1.0))


def discretized_profile(
    epsilon: FloatArray, delta: FloatArray, n_parameters: int, n_steps: int, relative_step: float
) -> tuple[FloatArray, FloatArray]:
    """Points (n,) of the privacy curve of many steps of discrete noise, from those of Gaussian."""
    count, ratio = _count(n_parameters), _ratio(relative_step)
    grown = (delta + np.exp(-700.0)) * np.exp(n_steps * _log_ratio(count, ratio))
    return epsilon + _steps_slack(epsilon, n_steps, count, ratio), grown


def _steps_slack(epsilon: FloatArray, steps: float, count: Any, ratio: Any) -> FloatArray:
    """Loss in epsilon of many steps, where all of them lose so much with Gaussian noise."""
    reach = np.sqrt(count) * (1.0 + 0.5 * ratio) + np.sqrt(2.0 * (epsilon + np.log(steps) + 700.0))
    single = count * _log_normalizer(ratio) + (reach * ratio) ** 2 / 24.0
    return steps * (_log_ratio(count, ratio) + single)


def discrete_gaussian_mu(
    epsilon: npt.ArrayLike,
    delta: npt.ArrayLike,
    *,
    n_parameters: npt.ArrayLike,
    relative_step: npt.ArrayLike = _RELATIVE_STEP,
) -> Any:
    """Sensitivity over noise scale at which noise on a grid is (epsilon, delta)-private.

    The inverse of :func:`discrete_gaussian_delta` in mu, up to the slack: ``sensitivity / mu`` is
    the noise scale to use.

    Parameters
    ----------
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats; finite.
    delta : float or array-like, in [0, 1)
        Probability that the bound may fail.
    n_parameters : int or array-like, at least 1
        Number of released parameters.
    relative_step : float or array-like, in (0, 1], default=2**-30
        Largest step of the grid over the noise scale.

    Returns
    -------
    float or ndarray
        mu before rounding; 0 where no noise meets the target on such a grid.

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> round(discrete_gaussian_mu(1.0, 1e-5, n_parameters=785), 6)
    0.268051
    """
    count, ratio = _count(n_parameters), _ratio(relative_step)
    loss = check_real("epsilon", epsilon, finite=True)
    failure = check_real("delta", delta, high=1.0, high_open=True)
    # The slack grows with mu, which without the grid could only be larger.
    loss = loss - _slack(mu_from_epsilon_delta(loss, failure), count, ratio)
    failure = failure * np.exp(-_log_ratio(count, ratio)) - _LOST - np.maximum(-loss, 0.0)
    distance = mu_from_epsilon_delta(np.maximum(loss, 0.0), np.maximum(failure, 0.0))
    return as_result(np.maximum(distance - np.sqrt(count) * ratio, 0.0))


def discrete_gaussian_cover(
    mu: npt.ArrayLike, *, n_parameters: npt.ArrayLike, relative_step: npt.ArrayLike = _RELATIVE_STEP
) -> Any:
    """Return a mu at which exact Gaussian noise is no more private than noise on a grid.

    What a ledger may compose as mu-GDP. Its (epsilon, delta) curve lies above that of
    :func:`discrete_gaussian_delta` wherever the latter is between 1e-280 and 1/2.

    Parameters
    ----------
    mu : float or array-like, at least 0
        Sensitivity before rounding, over the noise scale.
    n_parameters : int or array-like, from 1 to 10^8
        Number of released parameters.
    relative_step : float or array-like, in (0, 2**-20], default=2**-30
        Step of the grid over the noise scale.

    Returns
    -------
    float or ndarray

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> round(discrete_gaussian_cover(1.0, n_parameters=785), 7)
    1.0
    """
    count = check_real("n_parameters", n_parameters, low=1.0, high=1e8)
    ratio = check_real("relative_step", relative_step, low_open=True, high=2.0**-20)
    distance = check_real("mu", mu) + np.sqrt(count) * ratio
    # Along the curve, d delta / d mu = phi(a) and -d delta / d epsilon = phi(a) R(b), with R
    # Mills' ratio, at most 1.26, a = mu/2 - epsilon/mu and b = mu/2 + epsilon/mu: a slack in
    # epsilon costs at most 1.26 times as much in mu, and the factor on delta costs less, as delta
    # is at most 1.26 phi(a) below 1/2. The factor 2 covers the curvature over so short a way.
    lost = 2.0 * 1.26 * (_slack(distance, count, ratio) + _log_ratio(count, ratio))
    return as_result(distance * (1.0 + 1e-12) + lost)


def discrete_gaussian_total_variation(
    n_parameters: npt.ArrayLike, relative_step: npt.ArrayLike = _RELATIVE_STEP
) -> Any:
    """Bound on the total variation between discrete Gaussian noise and a rounded Gaussian.

    The success of any attack on the release differs by at most that from its success on Gaussian
    noise in exact arithmetic around the rounded parameters, rounded thereafter. With r the
    relative step it is ``n_parameters r^2 (0.0202 + 0.0146 r^2)``; 0.0202 stands for
    ``exp(-1/2) / (12 sqrt(2 pi))``, the mean of ``max(1 - x^2, 0) / 24`` under a normal x.

    Parameters
    ----------
    n_parameters : int or array-like, at least 1
        Number of released parameters.
    relative_step : float or array-like, in (0, 1], default=2**-30
        Step of the grid over the noise scale.

    Returns
    -------
    float or ndarray
        In [0, 1].

    Raises
    ------
    TypeError
        For an argument that is not numeric.
    ValueError
        For an argument out of range.

    Examples
    --------
    >>> discrete_gaussian_total_variation(10) < 2e-19
    True
    """
    # g / d >= 1 - (r^2 / 24)(1 - x^2) - r^4 x^2 / 320 at x = r z; summing the first term in place
    # of integrating it adds at most r^2 / 8 times the total variation of its slope, 2.21.
    count, square = _count(n_parameters), _ratio(relative_step) ** 2
    return as_result(np.minimum(count * square * (0.0202 + 0.0146 * square), 1.0))


def _slack(distance: FloatArray, count: FloatArray, ratio: FloatArray) -> FloatArray:
    """Loss in epsilon against a Gaussian release whose rounded means lie ``distance`` apart."""
    # T of the module's docstring.
    reach = distance + np.sqrt(count) * (1.0 + 0.5 * ratio) + _REACH
    return _log_ratio(count, ratio) + (reach * ratio) ** 2 / 24.0 + count * _log_normalizer(ratio)


def _log_normalizer(ratio: Any) -> Any:
    """Bound log c: the sum over k >= 1 of x^(k^2) is at most x / (1 - x^3)."""
    x = np.exp(-2.0 * (np.pi / ratio) ** 2)
    return np.log1p(2.0 * x / (1.0 - x**3))


def _log_ratio(count: Any, ratio: Any) -> Any:
    """Largest log-ratio of the discrete to the rounded Gaussian of ``count`` parameters."""
    return count * ratio**2 / 24.0


def _count(n_parameters: npt.ArrayLike) -> FloatArray:
    return check_real("n_parameters", n_parameters, low=1.0, finite=True)


def _ratio(relative_step: npt.ArrayLike) -> FloatArray:
    return check_real("relative_step", relative_step, low_open=True, high=1.0)
