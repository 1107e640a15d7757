"""How far training and fresh records can differ in loss, from the information in the model."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.special import bernoulli, factorial

from skleak.utils._arguments import as_result, broadcast, check_at_least, check_positive
from skleak.utils._typing import FloatArray

# Below this, power series replace differences of nearly equal numbers.
SERIES_RADIUS = 0.5
# With so many terms they are exact in float64: the first left out is 0.5^50 / 50 and less.
SERIES_TERMS = 48
# Beyond this information in nats, 1 - exp(-information) is 1 in float64.
CERTAIN = 40.0
# x coth x = 1 + sum over k of these times x^(2 k), for |x| < pi.
_EVEN = 2.0 * np.arange(1, 17)
COTH_SERIES = 2.0**_EVEN * bernoulli(32)[2::2] / factorial(_EVEN)
# Limits of a root that is as exact as its brackets allow.
EXACT = {"xatol": 0.0, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0}

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
    information = check_at_least("information", information, 0.0)
    loss_range = check_positive("loss_range", loss_range, _CUT)
    if train_loss is None:
        information, loss_range = broadcast(information=information, loss_range=loss_range)
        return as_result(loss_range * _largest_variation(information))
    train = check_at_least("train_loss", train_loss, 0.0)
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
    found = elementwise.find_root(
        lambda t, b: _vajda_divergence(t) - b,
        (np.zeros_like(budget), 2.0 + np.exp(budget)),
        args=(budget,),
        tolerances=EXACT,
        maxiter=2000,
    )
    # Pinsker's inequality: round-off must not exceed it.
    ceiling = np.minimum(np.sqrt(0.5 * budget), 1.0)
    above = np.where(found.f_x >= 0.0, found.x, found.bracket[1])
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
    near = np.where(y > 0.0, _powers(y) @ COTH_SERIES, 0.0) / np.where(y > 0.0, y, 1.0)
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
    found = elementwise.find_root(
        lambda u, b, share: _coin_divergence(u, share) - b,
        (np.zeros_like(budget), (budget + entropy) / (1.0 - p_in) * (1.0 + 1e-12)),
        args=(budget, p_in),
        tolerances=EXACT,
        maxiter=2000,
    )
    # A bracket stays wide where its other end is a root of the rounded function.
    rise = -(1.0 - p_in) * np.expm1(-np.where(found.f_x >= 0.0, found.x, found.bracket[1]))
    return np.where(inside, rise, np.where(information > 0.0, 1.0 - p, 0.0))


def _coin_divergence(u: FloatArray, p: FloatArray) -> FloatArray:
    """``KL(Bern(p) || Bern(q))`` with ``1 - q = (1 - p) exp(-u)``, to full relative precision."""
    fall = np.expm1(-u)
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = np.where(p > 0.0, p * _log_remainder(-(1.0 - p) * fall / p), 0.0)
    # The terms of first order cancel between heads and tails but for p = 0, where heads are none.
    first = np.where(p > 0.0, 0.0, -fall)
    return heads + (1.0 - p) * _log_remainder(fall) + first


def _log_remainder(x: FloatArray) -> FloatArray:
    """``x - log(1 + x)`` for ``x > -1``: non-negative, to full relative precision."""
    small = np.abs(x) < SERIES_RADIUS
    y = np.where(small, x, 0.0)
    series = np.zeros_like(y)
    for k in range(SERIES_TERMS, 1, -1):
        series = series * -y + 1.0 / k
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(small, 0.0, x) - np.log1p(np.where(small, 0.0, x))
    return np.where(small, series * y * y, exact)
