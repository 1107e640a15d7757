"""Gaussian noise on batches of a fixed size, drawn without replacement, when a record is replaced.

Pair a batch with the record with the batch that has another record in its place. Relative to the
sum of the second, in units of the noise, the releases of the two data sets are

    P = (1 - q) N(0) + q N(u),    Q = (1 - q) N(0) + q N(v),

where u, v and u - v are differences of two gradients, each at most the distance D. Then
``P - gamma Q = q [N(u) - a R]`` with ``a = 1 + (gamma - 1) / q`` and R a mixture of N(0) and N(v),
so that by convexity, for ``gamma >= 1`` and in either order,

    H_gamma(P, Q) <= q H_a(N(D), N(0))

(Balle, Barthe, Gaboardi 2018). Below 1 it follows from ``H_gamma(P, Q) = 1 - gamma + gamma
H_1/gamma(Q, P)``. No pair of data sets is worst at every gamma, but there is a pair of laws with
this profile: it is convex, and its steps compose (Zhu, Dong, Wang 2022, theorems 10 and 11).
"""

from typing import Any

import numpy as np

from skleak.accounting._gaussian import gaussian_delta
from skleak.utils._typing import FloatArray

# Losses are multiples of this, or wider where there would be more than so many on either side.
_STEP, _MOST = 1e-4, 200_000
# Standard deviations beyond which all is counted as infinite loss.
_TAIL = 10.0


def loss_grid(distance: float) -> tuple[float, float]:
    """Step of a grid of losses of a Gaussian step, and the largest of them."""
    farthest = distance * (0.5 * distance + _TAIL)
    return max(_STEP, farthest / _MOST), farthest


def fixed_size_profile(loss: FloatArray, distance: float, rate: float) -> FloatArray:
    """Bound the delta of one step at any epsilon (n,), also below zero."""
    size, below = np.abs(loss), np.minimum(loss, 0.0)
    # log(1 + (gamma - 1) / q), without cancellation and without overflow.
    near = np.log1p(np.expm1(np.minimum(size, 1.0)) / rate)
    far = size - np.log(rate) + np.log1p(-(1.0 - rate) * np.exp(-np.maximum(size, 1.0)))
    above = rate * np.asarray(gaussian_delta(distance, np.where(size < 1.0, near, far)))
    return np.where(loss >= 0.0, above, -np.expm1(below) + np.exp(below) * above)


def fixed_size_pld(pld: Any, distance: float, rate: float) -> Any:
    """Privacy loss distribution of one step, discretised pessimistically.

    ``pld`` is the package of dp-accounting; ``distance`` is that of two gradients over the noise.
    """
    step, farthest = loss_grid(distance)
    end = np.logaddexp(np.log1p(-rate), np.log(rate) + farthest) if rate < 1.0 else farthest
    n = int(np.ceil(end / step))
    delta = fixed_size_profile(step * np.arange(-n, n + 1.0), distance, rate)
    delta = np.clip(np.minimum.accumulate(delta), 0.0, 1.0)
    pmf = pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -n, n, delta)
    return pld.privacy_loss_distribution.PrivacyLossDistribution(pmf)
