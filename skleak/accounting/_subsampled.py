"""Subsampled Gaussian noise, by the privacy loss distributions of dp-accounting."""

from numbers import Integral
from typing import Any

import numpy as np

from skleak.utils._arguments import check_scalar
from skleak.utils._optional import import_optional
from skleak.utils._typing import FloatArray

_RELATIONS = {"add-or-remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}
# Epsilons at which the curve is supported: finely where most tests lie, out to exp(-40).
_EPSILONS = np.r_[np.arange(0.0, 10.0, 0.01), np.arange(10.0, 40.5, 0.5)]


def subsampled_gaussian_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    *,
    relation: str = "add-or-remove",
) -> float:
    """The epsilon of many steps of Gaussian noise on Poisson-sampled batches.

    The accounting of private stochastic gradient descent: in each step every record enters the
    batch with probability ``sampling_rate``, its contribution is clipped to norm C, and noise of
    standard deviation ``noise_multiplier * C`` is added to the sum. The privacy loss distribution
    is discretised pessimistically: the result is never below the truth. Needs the extra
    ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch.
    n_steps : int, at least 1
        Number of batches.
    delta : float, strictly between 0 and 1
        Probability that the bound may fail; below about 1e-20 the discretisation gives infinity.
    relation : {"add-or-remove", "replace"}, default="add-or-remove"
        What neighbouring data sets are. Replacing a record moves the sum by up to 2 C, and is
        the relation of every other function here.

    Returns
    -------
    float
        epsilon in nats.

    Raises
    ------
    ImportError
        Where dp-accounting is not installed.
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range or an unknown relation.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> round(subsampled_gaussian_epsilon(1.0, 0.01, 1000, 1e-5), 2)
    1.83
    """
    failure = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    accountant = _accountant(noise_multiplier, sampling_rate, n_steps, relation)
    return float(accountant.get_epsilon(failure))


def subsampled_gaussian_tradeoff(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    *,
    relation: str = "add-or-remove",
) -> tuple[FloatArray, FloatArray]:
    """Bound the trade-off curve of many steps of Gaussian noise on Poisson-sampled batches.

    The privacy profile supports the curve f by the lines ``1 - delta - exp(epsilon) alpha`` and
    their mirror images ``exp(-epsilon) (1 - delta - alpha)`` (Dong, Roth, Su 2022, proposition 6).
    What is returned are the corners of the polygon that the lines bound: it is nowhere above f, as
    the profile is discretised pessimistically. Needs the extra ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch.
    n_steps : int, at least 1
        Number of batches.
    relation : {"add-or-remove", "replace"}, default="add-or-remove"
        What neighbouring data sets are; "replace" is that of two values of a secret.

    Returns
    -------
    alpha : ndarray of shape (n_corners,)
        False-positive rates, ascending from 0 to 1 at most.
    beta : ndarray of shape (n_corners,)
        Least false-negative rates, descending to 0. Straight lines between the corners hold:
        `bounds.curve_advantage(alpha, beta, prior, between="linear")`.

    Raises
    ------
    ImportError
        Where dp-accounting is not installed.
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range or an unknown relation.

    Examples
    --------
    >>> import numpy as np
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> alpha, beta = subsampled_gaussian_tradeoff(1.0, 0.01, 1000)
    >>> round(1.0 - float(np.interp(0.01, alpha, beta)), 2)  # power at 1 % false positives
    0.03
    """
    accountant = _accountant(noise_multiplier, sampling_rate, n_steps, relation)
    delta = np.asarray(accountant.get_delta(_EPSILONS))
    slopes = np.exp(np.r_[-_EPSILONS, _EPSILONS[1:]])
    heights = (1.0 - np.r_[delta, delta[1:]]) * np.r_[np.exp(-_EPSILONS), np.ones(len(delta) - 1)]
    order = np.lexsort((heights, slopes))
    return _corners(slopes[order], heights[order])


def _corners(slopes: FloatArray, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Corners of ``max(0, max_k heights_k - slopes_k alpha)``, slopes (n,) ascending, in [0, 1]."""
    lines: list[tuple[float, float]] = [(0.0, 0.0)]
    for slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
        while lines and (
            (lines[-1][0] == slope and lines[-1][1] <= height)
            or (len(lines) > 1 and _is_hidden(lines[-2], lines[-1], (slope, height)))
        ):
            lines.pop()
        if height > lines[-1][1]:  # steeper and lower is hidden wherever alpha is positive
            lines.append((slope, height))
    m, h = np.array(lines).T
    alpha = np.diff(h) / np.diff(m)  # descending: steep lines are the highest on the left
    beta = h[1:] - m[1:] * alpha
    return np.r_[0.0, alpha[::-1]], np.maximum(np.r_[h[-1], beta[::-1]], 0.0)


def _is_hidden(
    flat: tuple[float, float], middle: tuple[float, float], steep: tuple[float, float]
) -> bool:
    """Tell whether the middle line lies below the highest of a flatter and a steeper one."""
    left = (steep[1] - middle[1]) * (middle[0] - flat[0])
    return left >= (middle[1] - flat[1]) * (steep[0] - middle[0])


def _accountant(noise_multiplier: float, sampling_rate: float, n_steps: int, relation: str) -> Any:
    """Accountant of dp-accounting that has composed all steps."""
    sigma = check_scalar("noise_multiplier", noise_multiplier, low_open=True, finite=True)
    rate = check_scalar("sampling_rate", sampling_rate, low_open=True, high=1.0)
    if not isinstance(n_steps, Integral) or isinstance(n_steps, bool) or n_steps < 1:
        raise ValueError(f"`n_steps` must be an integer of at least 1; got {n_steps!r}.")
    if relation not in _RELATIONS:
        raise ValueError(
            f"`relation` must be one of {', '.join(map(repr, _RELATIONS))}; got {relation!r}."
        )
    dp = import_optional("dp_accounting", "accounting", "Accounting for subsampled noise")
    pld = import_optional("dp_accounting.pld", "accounting", "Accounting for subsampled noise")
    accountant = pld.PLDAccountant(dp.NeighboringRelation[_RELATIONS[relation]])
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
    return accountant.compose(step, int(n_steps))
