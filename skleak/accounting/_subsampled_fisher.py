"""Exact factors by which subsampling lowers the Fisher information of a Gaussian step."""

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import as_result, broadcast, check_at_least, check_in_range
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray

# The factors are raised by this much, more than quadrature and round-off are wrong by.
_ROUND_UP = 1e-11
# What lies outside the quadrature, relative to the integral: exp of minus this.
_TAIL = 40.0


def subsampled_fisher_factors(
    sampling_rate: npt.ArrayLike, distance: npt.ArrayLike
) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    """Factors by which random batches lower the Fisher information of a step of private SGD.

    A step of private SGD releases the sum of clipped gradients plus noise N(0, s^2 I). A record
    that takes part with probability q makes it the mixture ``q N(m + D e) + (1 - q) N(m)`` in units
    of s, with D the distance that the record moves the sum and e its direction. Of the two, only
    the first depends on the record. With G the Jacobian of its clipped gradient, its information is

        (q / s^2) G^T [along e e^T + across (I - e e^T)] G,
        across = E[pi(t)],    along = E[t^2 pi(t)],
        pi(t) = q / (q + (1 - q) exp(-t D - D^2 / 2)),    t ~ N(0, 1),

    exactly if all other members are known, and at most that if they are not. It takes the place of
    [DRA22] theorem 4, which needs pure differential privacy and is applied to a mechanism without.

    Parameters
    ----------
    sampling_rate : array-like of shape (...)
        q, the probability of a record to be a member of the batch, in [0, 1].
    distance : array-like of shape (...)
        D, at least 0; infinity is allowed. Under Poisson sampling the norm of the clipped gradient
        over s, under sampling of a fixed size the norm of its difference to that of the record
        that takes its place.

    Returns
    -------
    along, across : float or ndarray of shape (...)
        Factors of the information along e and across it, rounded upward by at most 1e-10 of their
        value. ``across`` lies in [q, 1] and grows with D; so it is with ``along`` up to
        ``q = 2/3``.

    Raises
    ------
    ValueError
        For a rate outside [0, 1], a negative distance, NaN, or shapes that do not broadcast.

    Notes
    -----
    Assumptions: batches are drawn afresh and independently at every step (not by shuffling), the
    noise is Gaussian, and D is that of the step. Both are 1 where the noise vanishes, as D goes to
    infinity, and q where it drowns everything. The trapezoidal rule is exact to 3e-13 here, as the
    integrand is analytic in a strip of half width ``pi / D``.

    Examples
    --------
    One record in a hundred takes part, with a gradient as long as the noise is wide:

    >>> along, across = subsampled_fisher_factors(0.01, 1.0)
    >>> round(along, 4), round(across, 4)
    (0.0472, 0.0257)
    """
    rate = check_in_range("sampling_rate", sampling_rate)
    reach = check_at_least("distance", distance, 0.0)
    rate, reach = broadcast(sampling_rate=rate, distance=reach)
    along, across = np.array(rate), np.array(rate)
    with np.errstate(divide="ignore"):
        odds = np.log(rate) - np.log1p(-rate)
    # Beyond, a member is told from the others at every t that counts: one is an upper bound.
    certain = reach > 10.0 + np.sqrt(100.0 + 2.0 * np.maximum(-odds, 0.0))
    along[certain & (rate > 0.0)] = across[certain & (rate > 0.0)] = 1.0
    odds, reach, certain = odds.ravel(), reach.ravel(), certain.ravel()
    left = np.flatnonzero(~certain & (reach > 0.0) & (rate.ravel() % 1.0 > 0.0))
    # The longest distance of a block sets its step.
    left = left[np.argsort(reach[left])]
    for rows in row_blocks(len(left), 1000):
        found = _integrals(odds[left[rows]], reach[left[rows]])
        for factor, values in zip((along, across), found.T, strict=True):
            factor.reshape(-1)[left[rows]] = np.minimum(values * (1.0 + _ROUND_UP), 1.0)
    return as_result(along), as_result(np.maximum(across, rate))


def _integrals(odds: FloatArray, reach: FloatArray) -> FloatArray:
    """``E[t^2 pi(t)]`` and ``E[pi(t)]`` by the trapezoidal rule.

    Shapes: ``odds`` (n,), log odds of taking part; ``reach`` (n,); returns (n, 2).
    """
    # Both are at least about q, so that what lies beyond the ends must be small against q.
    end = np.sqrt(2.0 * (_TAIL + max(0.0, -odds.min())))
    step = min(0.2, 0.5 / reach.max())
    t = step * np.arange(-np.ceil(end / step), np.ceil(end / step) + 1.0)
    density = step / np.sqrt(2.0 * np.pi) * np.exp(-0.5 * t**2)
    exponent = odds[:, None] + reach[:, None] * (t + 0.5 * reach[:, None])
    # Where this is cut off, the member is certain, or its share far below round-off.
    share = 1.0 / (1.0 + np.exp(-np.clip(exponent, -700.0, 700.0)))
    return share @ np.column_stack([density * t**2, density])
