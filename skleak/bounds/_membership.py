"""Membership inference: an exact ceiling from differential privacy, floors from overfitting."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.special import lambertw, ndtr

from skleak.bounds._prior import broadcast_shape
from skleak.bounds.neighbors import dp_advantage, gdp_advantage
from skleak.utils._arguments import as_result, check_numbers, check_positive
from skleak.utils._typing import FloatArray

# Beyond this many scales a Gaussian tail is zero in float64.
FARTHEST_CLIP = 40.0


def membership_advantage_dp(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> Any:
    """Largest membership advantage under (epsilon, delta)-differential privacy: exact.

    ``(exp(epsilon) - 1 + 2 delta) / (exp(epsilon) + 1)``, the true minus the false positive rate of
    the best test between two releases, attained by randomised response. It is `dp_advantage` for
    two equally likely values, and smaller than the ``exp(epsilon) - 1`` of Yeom et al. 2018.

    Parameters
    ----------
    epsilon : array-like of shape (...)
        At least 0; infinity is allowed.
    delta : array-like of shape (...)
        In [0, 1].

    Returns
    -------
    float or ndarray of shape (...)
        Advantage in [0, 1] at equal odds of membership.

    Raises
    ------
    ValueError
        For negative `epsilon`, `delta` outside [0, 1], or shapes that do not broadcast.

    Notes
    -----
    Assumptions: the data sets with and without the record are neighbours (add or remove adjacency,
    or replacement by a fixed record).

    Examples
    --------
    >>> round(membership_advantage_dp(1.0, 0.0), 4)
    0.4621
    """
    return dp_advantage(epsilon, delta, 2)


def membership_advantage_gdp(mu: npt.ArrayLike, prior: npt.ArrayLike = 0.5) -> Any:
    """Largest membership advantage under mu-Gaussian differential privacy: exact.

    With ``l = log(prior / (1 - prior))`` the best test (Neyman and Pearson) between N(0, 1) and
    N(mu, 1) is right with probability ``prior Phi(mu / 2 + l / mu) + (1 - prior) Phi(mu / 2 -
    l / mu)``. At even odds the advantage is the total variation ``2 Phi(mu / 2) - 1``, and no
    other odds give a larger one.

    Parameters
    ----------
    mu : array-like of shape (...)
        Parameter of Gaussian differential privacy, at least 0; infinity is allowed.
    prior : array-like of shape (...), default=0.5
        Probability of being a member, in (0, 1).

    Returns
    -------
    float or ndarray of shape (...)
        Advantage over ``max(prior, 1 - prior)``, in [0, 1].

    Raises
    ------
    ValueError
        For negative `mu`, a prior outside (0, 1), or shapes that do not broadcast.

    Notes
    -----
    Assumptions: the data sets with and without the record are neighbors (add or remove adjacency,
    or replacement by a fixed record). The Gaussian mechanism of that sensitivity attains it.

    Examples
    --------
    >>> round(membership_advantage_gdp(1.0), 4)
    0.3829
    >>> round(membership_advantage_gdp(1.0, prior=0.1), 4)
    0.0134
    """
    odds = _check_odds(prior)
    return gdp_advantage(mu, np.stack([odds, 1.0 - odds], axis=-1))


def membership_lower_bound_bounded(
    gap: npt.ArrayLike, loss_range: npt.ArrayLike, prior: npt.ArrayLike = 0.5
) -> Any:
    """Advantage that some membership attack reaches on a model with bounded loss ([BIL23] thm 2).

    The laws of (record, model) for members and non-members give the loss means that differ by the
    generalisation gap, so their total variation ``tau`` is at least ``|gap| / loss_range``.

    Parameters
    ----------
    gap : array-like of shape (...)
        Expected generalisation gap: mean loss on fresh records minus on members. Its sign is
        ignored.
    loss_range : array-like of shape (...)
        Largest minus smallest possible loss, positive. A loss with ``|loss| <= R_max`` has range
        ``2 R_max``, one in ``[0, R_max]`` only ``R_max``.
    prior : array-like of shape (...), default=0.5
        Probability of being a member, in (0, 1).

    Returns
    -------
    float or ndarray of shape (...)
        Advantage over ``max(prior, 1 - prior)`` of the best attack, at least; in [0, 1]. At even
        odds it is ``|gap| / loss_range``.

    Raises
    ------
    ValueError
        For a `loss_range` that is not positive, a gap beyond it, or a prior outside (0, 1).

    Notes
    -----
    Assumptions: the attacker sees record and model and knows both laws. With prior odds pi >= 1/2
    the best success is at least ``1 - pi + pi tau``: for the region A where members are
    over-represented, ``pi P_1(A) + (1 - pi) (1 - P_0(A))`` with ``P_1(A) = P_0(A) + tau`` is least
    at ``P_0(A) = 0``. It is attained by two laws that differ only there, so the step is tight. A
    gap of zero excludes no attack: a model may leak without overfitting ([BIL23] 3.3).

    Examples
    --------
    >>> membership_lower_bound_bounded(0.1, 1.0)
    0.1
    """
    gap, prior = _check_gap(gap, prior)
    loss_range = check_positive("loss_range", loss_range)
    broadcast_shape(gap=gap.shape, loss_range=loss_range.shape, prior=prior.shape)
    if np.any(gap > loss_range):
        raise ValueError(
            "`gap` cannot exceed `loss_range`: the mean losses lie within the range. Check the "
            "units of both."
        )
    return _advantage_from_variation(gap / loss_range, prior)


def membership_lower_bound_subgaussian(
    gap: npt.ArrayLike, scale: npt.ArrayLike, prior: npt.ArrayLike = 0.5
) -> Any:
    """Advantage that some membership attack reaches on a sub-Gaussian loss ([BIL23] theorem 3).

    Clip the loss to distance R around the middle of the two means. The clipped means differ by at
    most ``2 R tau``, and what is clipped adds at most two Gaussian tails, so that for every R_max

        tau >= (|gap| - 2 scale sqrt(2 pi) Phi(-(R_max - |gap| / 2) / scale)) / (2 R_max).

    The bound is maximised over ``R_max >= |gap| / 2``; any such R_max gives a valid one.

    Parameters
    ----------
    gap : array-like of shape (...)
        Expected generalisation gap: mean loss on fresh records minus on members. Its sign is
        ignored.
    scale : array-like of shape (...)
        ``s > 0`` such that the loss exceeds its mean by t with probability at most
        ``exp(-t^2 / (2 s^2))``, and falls short of it likewise, for members and for non-members;
        a Gaussian loss has its standard deviation.
    prior : array-like of shape (...), default=0.5
        Probability of being a member, in (0, 1).

    Returns
    -------
    float or ndarray of shape (...)
        Advantage over ``max(prior, 1 - prior)`` of the best attack, at least; in [0, 1].

    Raises
    ------
    ValueError
        For a `scale` that is not positive or a prior outside (0, 1).

    Notes
    -----
    Assumptions are those of `membership_lower_bound_bounded` with the tail in place of the range.

    Examples
    --------
    >>> round(membership_lower_bound_subgaussian(1.0, 1.0), 4)
    0.1785
    """
    gap, prior = _check_gap(gap, prior)
    scale = check_positive("scale", scale)
    broadcast_shape(gap=gap.shape, scale=scale.shape, prior=prior.shape)
    ratio = np.asarray(gap / scale)

    found = elementwise.find_root(
        _clipping_balance,
        (np.zeros_like(ratio), np.full_like(ratio, FARTHEST_CLIP)),
        args=(np.where(ratio > 0.0, ratio, 1.0),),
    )
    variation = _subgaussian_variation(found.x, ratio)
    return _advantage_from_variation(np.where(ratio > 0.0, variation, 0.0), prior)


def _clipping_balance(excess: FloatArray, gap: FloatArray) -> FloatArray:
    """Differentiate `_subgaussian_variation` by ``excess``, up to a positive factor and its sign.

    It increases in ``excess``, so that its root is the one maximum.
    """
    tails = 2.0 * np.sqrt(2.0 * np.pi) * ndtr(-excess)
    return gap - tails - np.exp(-0.5 * excess**2) * (2.0 * excess + gap)


def _subgaussian_variation(excess: FloatArray, gap: FloatArray) -> FloatArray:
    """Bound on the total variation with ``R_max = gap / 2 + excess``, in units of the scale."""
    tails = 2.0 * np.sqrt(2.0 * np.pi) * ndtr(-excess)
    return (gap - tails) / (gap + 2.0 * excess)


def membership_lower_bound_exponential(
    gap: npt.ArrayLike,
    scale: npt.ArrayLike,
    factor: npt.ArrayLike = 1.0,
    prior: npt.ArrayLike = 0.5,
) -> Any:
    """Advantage that some membership attack reaches on an exponential tail ([BIL23] theorem 4).

    For a non-negative loss, ``|gap| <= R_max tau + E(loss - R_max)_+``, hence

        tau >= max over R_max of (|gap| - factor scale exp(-R_max / scale)) / R_max.

    The maximum is in closed form: it is the ``tau = factor exp(-R_max / scale)`` at which
    ``scale tau (1 + log(factor / tau)) = |gap|``, Lambert's function.

    Parameters
    ----------
    gap : array-like of shape (...)
        Expected generalisation gap: mean loss on fresh records minus on members. Its sign is
        ignored.
    scale : array-like of shape (...)
        ``b > 0`` of the tail ``P(loss > t) <= factor exp(-t / b)`` for t >= 0, for members and for
        non-members. The squared error of a residual N(0, v) has ``b = 2 v``.
    factor : array-like of shape (...), default=1
        Factor of the tail, positive.
    prior : array-like of shape (...), default=0.5
        Probability of being a member, in (0, 1).

    Returns
    -------
    float or ndarray of shape (...)
        Advantage over ``max(prior, 1 - prior)`` of the best attack, at least; in [0, 1].

    Raises
    ------
    ValueError
        For a `scale` or `factor` that is not positive, a gap larger than any loss with that tail
        has on average, or a prior outside (0, 1).

    Notes
    -----
    Assumptions are those of `membership_lower_bound_bounded`, and a non-negative loss (shift one
    that is bounded below). [BIL23] treats losses of either sign, with a smaller bound.

    Examples
    --------
    Ordinary least squares with 20 features on 40 records of unit noise overfits by 1:

    >>> round(membership_lower_bound_exponential(1.0, 3.0), 4)
    0.1013
    """
    gap, prior = _check_gap(gap, prior)
    scale = check_positive("scale", scale)
    factor = check_positive("factor", factor)
    broadcast_shape(gap=gap.shape, scale=scale.shape, factor=factor.shape, prior=prior.shape)
    ratio = gap / scale
    largest_mean = np.where(factor >= 1.0, 1.0 + np.log(factor), factor)
    if np.any(ratio > largest_mean * (1.0 + 1e-12)):
        raise ValueError(
            "`gap` exceeds the mean of any non-negative loss with the tail given by `scale` and "
            "`factor`. Check the units, or widen the tail."
        )
    argument = ratio / (np.e * factor)
    # The gap is u (-log u) in units of e factor scale; log u is Lambert's lower branch, which ends
    # at argument 1 / e.
    inside = (argument > 0.0) & (argument < (1.0 - 1e-15) / np.e)
    log_u = np.where(argument > 0.0, -1.0, -np.inf)
    log_u = np.where(inside, lambertw(np.where(inside, -argument, -0.1), k=-1).real, log_u)
    variation = np.e * factor * np.exp(log_u)
    return _advantage_from_variation(np.clip(variation, 0.0, 1.0), prior)


def _check_gap(gap: npt.ArrayLike, prior: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the size of the gap and the odds of membership."""
    size = np.abs(check_numbers("gap", gap))
    if not np.all(np.isfinite(size)):
        raise ValueError("`gap` must be finite; got an infinite one.")
    return size, _check_odds(prior)


def _check_odds(prior: npt.ArrayLike) -> FloatArray:
    odds = check_numbers("prior", prior)
    if np.any((odds <= 0.0) | (odds >= 1.0)):
        raise ValueError(
            "`prior` is the probability of membership and must lie in (0, 1), ends excluded; got "
            f"{odds.min():g} to {odds.max():g}."
        )
    return odds


def _advantage_from_variation(variation: FloatArray, prior: FloatArray) -> Any:
    """Advantage that total variation alone guarantees at the given odds of membership."""
    larger = np.maximum(prior, 1.0 - prior)
    advantage = (1.0 - 2.0 * larger + larger * variation) / (1.0 - larger)
    return as_result(np.clip(advantage, 0.0, 1.0))
