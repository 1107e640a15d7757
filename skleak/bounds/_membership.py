"""Bounds on membership inference, and on the generalization gap that it implies."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.special import bernoulli, factorial, lambertw, ndtr

from skleak.bounds._fano import log_remainder, root_above
from skleak.utils._arguments import as_result, broadcast, broadcast_shape, check_numbers, check_real
from skleak.utils._typing import FloatArray

# Beyond this many scales a Gaussian tail is zero in float64.
FARTHEST_CLIP = 40.0


def membership_lower_bound_bounded(
    gap: npt.ArrayLike, loss_range: npt.ArrayLike, prior: npt.ArrayLike = 0.5
) -> Any:
    """Advantage that some membership attack reaches on a model with bounded loss ([BIL23] thm 2).

    The laws of (record, model) for members and non-members give the loss means that differ by the
    generalization gap, so their total variation ``tau`` is at least ``|gap| / loss_range``.

    Parameters
    ----------
    gap : array-like of shape (...)
        Expected generalization gap: mean loss on fresh records minus on members. Its sign is
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
    loss_range = check_real("loss_range", loss_range, low_open=True, finite=True)
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

    The bound is maximized over ``R_max >= |gap| / 2``; any such R_max gives a valid one.

    Parameters
    ----------
    gap : array-like of shape (...)
        Expected generalization gap: mean loss on fresh records minus on members. Its sign is
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
    scale = check_real("scale", scale, low_open=True, finite=True)
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
        Expected generalization gap: mean loss on fresh records minus on members. Its sign is
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
    scale = check_real("scale", scale, low_open=True, finite=True)
    factor = check_real("factor", factor, low_open=True, finite=True)
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
    hint = "It is the probability of membership."
    odds = check_real("prior", prior, low_open=True, high=1.0, high_open=True, hint=hint)
    return np.abs(check_numbers("gap", gap, finite=True)), odds


def _advantage_from_variation(variation: FloatArray, prior: FloatArray) -> Any:
    """Advantage that total variation alone guarantees at the given odds of membership."""
    larger = np.maximum(prior, 1.0 - prior)
    advantage = (1.0 - 2.0 * larger + larger * variation) / (1.0 - larger)
    return as_result(np.clip(advantage, 0.0, 1.0))


# Below this, power series replace differences of nearly equal numbers.
SERIES_RADIUS = 0.5
# Beyond this information in nats, 1 - exp(-information) is 1 in float64.
CERTAIN = 40.0
# x coth x = 1 + sum over k of these times x^(2 k), for |x| < pi.
_EVEN = 2.0 * np.arange(1, 17)
COTH_SERIES = 2.0**_EVEN * bernoulli(32)[2::2] / factorial(_EVEN)
_CUT = "Cut an unbounded loss, and measure the gap of the cut one."


def generalization_gap_bound(
    information: npt.ArrayLike, loss_range: npt.ArrayLike, train_loss: npt.ArrayLike | None = None
) -> Any:
    """Upper bound on the generalization gap from mutual information ([BIL23] eq. 26).

    A model that holds little information about a training record does about as well on fresh ones:

        |gap| <= loss_range * max { |q - p| : KL(Bern(p) || Bern(q)) <= information }.

    Proof: let P be the law of (training record, model) and Q that of (fresh record, model). The
    information is KL(P || Q). Toss a coin that shows heads with the loss, cut to [0, 1], as its
    probability: heads have probability p under P and q under Q, and their divergence is no larger
    (data processing). So p and q, the mean losses over the range, are among those maximized over.

    Parameters
    ----------
    information : array-like of shape (...)
        Mutual information in nats between the model and one of its training records, drawn at
        random, or an upper bound on it; at least 0, infinity is allowed. The information about all
        n records over n is one where the records are independent.
    loss_range : array-like of shape (...)
        Largest minus smallest possible loss, positive and finite.
    train_loss : array-like of shape (...), default=None
        Expected loss on training records, less the smallest possible loss, in ``[0, loss_range]``;
        it sharpens the bound: ``p`` is then known. None maximizes over it.

    Returns
    -------
    float or ndarray of shape (...)
        The expected loss on fresh records and that on training records differ by at most this, in
        ``[0, loss_range]``, in units of the loss.

    Raises
    ------
    ValueError
        For negative information, a range that is not positive, a training loss outside of it, or
        shapes that do not match.

    See Also
    --------
    membership_lower_bound_bounded : What such a gap lets some membership attack reach. Both
        together: no less information than this can be in a model with a gap.
    skleak.metrics.generalization_gap : Measures the gap.

    Notes
    -----
    Assumptions: a fresh record has the law of a training record and is independent of the model;
    gap and information are those of the way of training, averaged over training sets and its
    noise, and not of one model.

    Without `train_loss` the maximum is the largest total variation that the information allows
    (Vajda's tight lower bound in the form of Fedotov, Harremoes and Topsoe, 2003). It lies below
    the root of half the information (Pinsker's inequality; the bound of Xu and Raginsky, 2017, for
    one record) and, at all sizes, below 1. A model without training error has a gap of at most
    ``1 - exp(-information)`` of the range, with small information much less.

    [BIL23] relates the gap to the information that the model holds; its wording was not at hand,
    and this is the strongest statement from those two numbers: two values of a record reach it.

    Of mu-Gaussian differential privacy the information is at most ``mu^2 / 2``, but the total
    variation ``2 Phi(mu / 2) - 1`` bounds the gap more sharply.

    Examples
    --------
    >>> round(generalization_gap_bound(0.02, 1.0), 4)
    0.0999
    >>> round(generalization_gap_bound(0.02, 1.0, train_loss=0.0), 4)
    0.0198
    """
    information = check_real("information", information)
    loss_range = check_real("loss_range", loss_range, low_open=True, finite=True, hint=_CUT)
    if train_loss is None:
        information, loss_range = broadcast(information=information, loss_range=loss_range)
        return as_result(loss_range * _largest_variation(information))
    train = check_real("train_loss", train_loss)
    information, loss_range, train = broadcast(
        information=information, loss_range=loss_range, train_loss=train
    )
    if np.any(train > loss_range * (1.0 + 1e-12)):
        raise ValueError(
            "`train_loss` cannot exceed `loss_range`: pass the loss less the smallest possible one."
        )
    share = np.minimum(train / loss_range, 1.0)
    further = np.maximum(_rise(information, share), _rise(information, 1.0 - share))
    return as_result(loss_range * further)


def _largest_variation(information: FloatArray) -> FloatArray:
    """Largest total variation of two laws with that divergence; errs upwards."""
    inside = (information > 0.0) & (information < CERTAIN)
    budget = np.where(inside, information, 1.0)
    bracket = np.zeros_like(budget), 2.0 + np.exp(budget)
    above = root_above(lambda t, b: _vajda_divergence(t) - b, *bracket, budget)
    # Pinsker's inequality: round-off must not exceed it.
    ceiling = np.minimum(np.sqrt(0.5 * budget), 1.0)
    return np.where(inside, np.minimum(_vajda_variation(above), ceiling), information > 0.0)


def _vajda_divergence(t: FloatArray) -> FloatArray:
    """``log(t / sinh t) + t coth t - (t / sinh t)^2``: the least divergence at a variation."""
    small = t < SERIES_RADIUS
    series = _powers(np.where(small, t, 0.0)) @ (COTH_SERIES * (_EVEN - 1.0 / _EVEN))
    x = np.where(small, 1.0, t)
    decay = np.exp(-2.0 * x)
    ratio = 2.0 * x * np.exp(-x) / -np.expm1(-2.0 * x)
    exact = np.log(2.0 * x) - np.log1p(-decay) + 2.0 * x * decay / -np.expm1(-2.0 * x) - ratio**2
    return np.where(small, series, exact)


def _vajda_variation(t: FloatArray) -> FloatArray:
    """``t (1 - (coth t - 1 / t)^2) / 2``: total variation, in [0, 1), that goes with it."""
    small = t < SERIES_RADIUS
    y = np.where(small, t, 0.0)
    near = _powers(y) @ COTH_SERIES / np.where(y > 0.0, y, 1.0)
    x = np.where(small, 1.0, t)
    # One minus the Langevin function, so that nothing cancels where that is near 1.
    rest = np.where(small, 1.0 - near, 1.0 / x - 2.0 * np.exp(-2.0 * x) / -np.expm1(-2.0 * x))
    return 0.5 * t * rest * (2.0 - rest)


def _powers(t: FloatArray) -> FloatArray:
    """Even powers of ``t``, along a new last axis, from the square on."""
    return np.asarray(t)[..., np.newaxis] ** _EVEN


def _rise(information: FloatArray, p: FloatArray) -> FloatArray:
    """Largest ``q - p`` with ``KL(Bern(p) || Bern(q)) <= information``; errs upwards.

    The unknown is ``u = -log((1 - q) / (1 - p))``, which has a finite bracket.
    """
    inside = (information > 0.0) & (information < np.inf) & (p < 1.0)
    budget, p_in = np.where(inside, information, 1.0), np.where(inside, p, 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(p_in > 0.0, -p_in * np.log(p_in), 0.0)
    bracket = np.zeros_like(budget), (budget + entropy) / (1.0 - p_in) * (1.0 + 1e-12)
    fall = root_above(lambda u, b, share: _coin_divergence(u, share) - b, *bracket, budget, p_in)
    rise = -(1.0 - p_in) * np.expm1(-fall)
    return np.where(inside, rise, np.where(information > 0.0, 1.0 - p, 0.0))


def _coin_divergence(u: FloatArray, p: FloatArray) -> FloatArray:
    """``KL(Bern(p) || Bern(q))`` with ``1 - q = (1 - p) exp(-u)``, to full relative precision."""
    fall = np.expm1(-u)
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(p > 0.0, p * log_remainder(-(1.0 - p) * fall / p), 0.0)
    # The terms of first order cancel between heads and tails but for p = 0, where heads are none.
    first = np.where(p > 0.0, 0.0, -fall)
    return heads + (1.0 - p) * log_remainder(fall) + first
