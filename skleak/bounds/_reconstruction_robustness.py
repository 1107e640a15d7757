"""Reconstruction robustness from Renyi differential privacy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.bounds._fano import minimum_over_orders
from skleak.bounds._prior import Prior
from skleak.bounds._reference import reference_divergence
from skleak.utils._typing import FloatArray


def reconstruction_robustness_advantage(
    epsilon: npt.ArrayLike,
    order: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    refine: bool = True,
) -> Any:
    """Upper bound on the advantage from Renyi DP by reconstruction robustness ([BCH22]).

    Under (order, epsilon)-RDP the success probability of guessing the secret exactly is at most
    ``(exp(epsilon) p*)^((order - 1) / order)`` with ``p* = max(prior)`` ([BCH22]; a proof is in
    `renyi_projection_advantage`). Several orders give the minimum of their bounds. With
    ``refine=True``, ``log(p* + (1 - p*) exp((order - 1) epsilon)) / (order - 1)`` takes the place
    of epsilon: the reference of the proof is then the release under the likeliest value.

    Parameters
    ----------
    epsilon : array-like of shape (...) or (..., n_orders)
        Renyi divergence in nats between releases under any two values of the secret; at least 0.
        Where `order` is an array, the last axis of `epsilon` runs over the orders.
    order : float or array-like of shape (n_orders,)
        Orders above 1; infinity stands for pure differential privacy.
    prior : int or array-like of shape (..., M)
        Probabilities of the secret's values, or M for uniform on M values.
    refine : bool, default=True
        Place the reference on the likeliest value; False takes the formula as published.

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1]; the axis of the orders is gone.

    Raises
    ------
    ValueError
        For negative `epsilon`, an order of 1 or less, an invalid prior, or shapes that do not
        match.

    Notes
    -----
    Assumptions: replacement adjacency; the informed adversary may know every other record. At a
    finite order the bound does not reach 0 as `epsilon` vanishes.

    Examples
    --------
    >>> import numpy as np
    >>> orders = np.linspace(1.1, 4.0, 2901)
    >>> round(reconstruction_robustness_advantage(orders, orders, 10, refine=False), 4)
    0.739
    >>> round(reconstruction_robustness_advantage(orders, orders, 10), 4)
    0.7078
    """
    if np.any(np.asarray(order) == 1.0):
        raise ValueError(
            "`order` must exceed 1 for this bound, which is vacuous at order 1; got 1. "
            "Use `renyi_fano_advantage` there."
        )
    tighter = reference_divergence if refine else None
    return minimum_over_orders(_robustness, tighter, epsilon, order, prior)


def _robustness(epsilon: FloatArray, prior: Prior, order: FloatArray) -> FloatArray:
    # log(success / p*) = ((order - 1) epsilon + log(1 / p*)) / order, split for infinite orders.
    excess = (1.0 - 1.0 / order) * epsilon - np.log(prior.largest) / order
    with np.errstate(over="ignore"):
        return np.minimum(prior.largest * np.expm1(excess) / prior.rest, 1.0)
