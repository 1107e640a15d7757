"""Privacy of objective perturbation: logistic regression of two or more classes, pseudo-Huber loss.

The minimizer of ``sum_i s_i l(x_i w, y_i) + lambda/2 |w|^2 + b w`` with ``b ~ N(0, sigma^2 I)`` and
every coordinate penalized (Chaudhuri, Monteleoni and Sarwate, JMLR 2011; Kifer, Smith and Thakurta,
COLT 2012). With rows no longer than R and weights up to s, all depends on two numbers: ``noise``
``= sigma / (R s h)``, h the largest slope of the loss, and ``ridge = lambda / (R^2 s)``. The bounds
hold in any dimension.

``b = -grad`` is a bijection of the minimizer, with the Hessian as its Jacobian. A record of the
logistic loss whose slope is ``t`` in [0, 1] shifts b by t and has the curvature ``t (1 - t)``. With
u ~ N(0, 1), the
privacy loss is at most ``t u/noise + t^2/(2 noise^2)`` if the record is added, where the
determinant only helps, and ``log(1 + t (1 - t)/ridge)`` more if it is removed. The slope is a
function of the release, so that the largest loss over t counts for each u. The first is convex in
t: addition has the profile ``H_{1/noise}`` of Gaussian noise at ``epsilon >= 0``, and removal has
it too from ``1/ridge - 1/(2 noise^2)`` on. Below zero ``f(-t) = 1 - exp(-t) + exp(-t) g(t)`` turns
the profile g of one into the profile f of the other.

Replacing is removing and adding: ``delta(e) <= removal(e1) + exp(e1) addition(e - e1)`` for every
e1. That is ``H_{2/noise}``, the profile of Gaussian noise and its best possible value, at
``e >= 2/ridge`` and at ``e <= 1/noise^2``: everywhere if ``ridge >= 2 noise^2``. Between the two it
is minimized over a list of e1. Numbers are rounded towards less privacy.

The slopes of the pseudo-Huber loss have both signs (``two_sided``): over h, t is in [-1, 1], and
its curvature ``(1 - t^2)^(3/2)`` is at most ``1 - t^2``. For each u the largest loss is that of |u|
and ``t >= 0``, so that addition has the profile of ``|u|/noise + 1/(2 noise^2)``, at most
``2 H_{1/noise}``, and removal has it from ``max(1/ridge, 2/ridge - 1/(2 noise^2))`` on. Replacing
has at most ``2 H_{2/noise}`` at ``e >= max(4/ridge, 2/ridge + 1/noise^2)``; elsewhere the sum is
minimized over e1, also below zero. At small e that is twice Gaussian noise, whatever the ridge is.

With K > 2 classes (``n_classes``, softmax of one predictor per class, all penalized) the slopes are
``p - e_y``, h is ``sqrt(2)``, and a replacement is one step. The determinant of a record is at most
``(1 + 1/(K ridge))^(K - 1)``, kappa its logarithm. The loss is otherwise largest where both
records are sure of a class. The sum over all pairs of classes is one bound, and a maximum of
Gaussians over the classes another (docs/theory/differential_privacy.md).
"""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import erf, erfc, log_ndtr, ndtr

from skleak.accounting.gaussian import (
    covering_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_scale,
    mu_from_epsilon_delta,
    profile_epsilon,
)
from skleak.utils._arguments import as_result, check_real, check_scalar
from skleak.utils._geometry import lower_hull
from skleak.utils._typing import FloatArray

# Standard normal values at which the losses are tabulated; beyond the last, tails underflow.
_NORMAL = np.linspace(-12.0, 37.0, 1601)
# Ends of the cells of slopes, denser where the curvature changes fastest.
_SLOPES = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, 401)) ** 2
_ROUND_UP = 1.0 + 1e-9
_LARGEST = 700.0  # exponentials of larger losses overflow
# Shares of the least loss below zero that is tabulated, with zero as the last.
_BELOW = np.linspace(1.0, 0.0, 601) ** 2
_CHORDS = 256  # points between zero and the first loss
_EDGES = 1025  # of the cells of epsilon in the search for the mu of a removal
_TOLERANCE, _DOUBLINGS = 1e-6, 40
# Normal values between which the loss of a Gaussian release beside it is at most that of the right.
_BESIDE = np.linspace(-9.0, 9.0, 181)
# Normal values where a profile of many classes is taken for its chords; cells of their maximum.
_LATER = np.linspace(-3.0, 6.0, 37)
_TABLE = np.linspace(0.0, 12.0, 1201)
# Share of epsilon, or of the total variation at mu, that the determinant may cost many classes.
_DETERMINANT = 0.1
# Ridge of persons over the least: with noise on the parameters beside it, a little less of epsilon
# is left, where their profile is not that of Gaussian noise.
_ROOM = 1.03


def _addition(noise: float, epsilon: FloatArray, two_sided: bool) -> FloatArray:
    """Bound the profile of an addition at epsilon from zero on."""
    delta = np.asarray(gaussian_delta(1.0 / noise, epsilon))
    if not two_sided:
        return delta
    # Below the least loss, 1/(2 noise^2), it is 1 - 2 exp(epsilon) Q(1/noise).
    x, least = np.sqrt(0.5) / noise, 0.5 / noise**2
    small = (erf(x) - np.expm1(np.minimum(epsilon, min(least, _LARGEST))) * erfc(x)) * _ROUND_UP
    return np.minimum(np.where(epsilon < least, small, 2.0 * delta), 1.0)


def _removal_is_addition(noise: float, ridge: float, two_sided: bool) -> float:
    """Epsilon from which on removal has the profile of addition."""
    shift = 0.5 / noise**2
    return max(1.0 / ridge, 2.0 / ridge - shift) if two_sided else 1.0 / ridge - shift


def _largest_losses(noise: float, ridge: float, two_sided: bool) -> FloatArray:
    """Bound the loss of a removal at each of ``_NORMAL``, (n_values,).

    With slopes from a to 1 the curvature is at most ``(slope - a) (1 - slope)``.

    The logarithm of the determinant is concave in the slope. In each cell of slopes its tangent at
    the end away from 1/2 is above it, and what is added to it is convex: the largest sum is at an
    end of the cell.
    """
    half = _SLOPES[: len(_SLOPES) // 2 + 1]
    left, right = half[:-1], half[1:]
    slopes, ridge = (2.0 * _SLOPES - 1.0, ridge / 4.0) if two_sided else (_SLOPES, ridge)
    curvature = left * (1.0 - left) / ridge
    tangent = np.log1p(curvature) + (1.0 - 2.0 * left) * (right - left) / ridge / (1.0 + curvature)
    determinant = np.concatenate([[0.0], tangent, tangent[-2::-1], [0.0]])
    offset = 0.5 * (slopes / noise) ** 2 + determinant
    return np.asarray(np.max(np.outer(_NORMAL, slopes / noise) + offset, axis=1))


def _tabulated_removal(
    noise: float, ridge: float, two_sided: bool
) -> tuple[FloatArray, FloatArray]:
    """Bound the removal profile at a grid of losses from zero on, both (n_losses,).

    It is the integral of ``exp(e - l) P(loss > l)`` over l above e. The normal value at which the
    largest loss passes l is concave in l, thus above its chords, and its tail probability is
    convex where it is positive: there the trapezoids are above the integral. Elsewhere the left
    end of a cell is.
    """
    losses = np.maximum(_largest_losses(noise, ridge, two_sided), 0.0)
    normal, tails = _NORMAL, ndtr(-_NORMAL)
    if two_sided:  # a function of the absolute value, increasing in it
        losses, normal, tails = (a[_NORMAL >= 0.0] for a in (losses, normal, 2.0 * tails))
        tails[0] = 1.0
    step = np.diff(losses)
    passed = -np.expm1(-step)
    # Weight of what the tail drops in a cell, rounded down: its series alternates.
    far = np.maximum(step, 0.01)
    weight = (1.0 - np.exp(-far) * (1.0 + far)) / far * (1.0 - 1e-10)
    weight = np.where(step > 0.01, weight, step * (0.5 - step / 3.0))
    drop = np.where(normal[:-1] >= 0.0, tails[:-1] - tails[1:], 0.0)
    area, kept = tails[:-1] * passed - drop * weight, np.exp(-step)
    exact = losses >= _removal_is_addition(noise, ridge, two_sided)
    profile = np.where(exact, _addition(noise, losses, two_sided), 1.0)
    profile[-1] = min(profile[-1], tails[-1])
    for i in range(len(area) - 1, -1, -1):
        profile[i] = min(profile[i], kept[i] * profile[i + 1] + area[i])
    return losses, profile


def _lower_hull(x: FloatArray, y: FloatArray) -> FloatArray:
    """Lower convex hull of points of increasing x, at these x, as far as it descends."""
    corners, heights = lower_hull(x, y)
    if len(corners) < 2:
        return y
    b = np.clip(np.searchsorted(corners, x, side="right"), 1, len(corners) - 1)
    left, right, low, high = corners[b - 1], corners[b], heights[b - 1], heights[b]
    chord = (low * (right - x) + high * (x - left)) / (right - left)
    return np.where(x <= corners[-1], np.minimum(y, chord * _ROUND_UP), y)


@functools.lru_cache(maxsize=64)
def _removal(noise: float, ridge: float, two_sided: bool) -> tuple[FloatArray, FloatArray]:
    """Losses, increasing, and a convex bound on the removal profile there.

    They begin at zero, or below it where that is of use. At zero the bound is that of addition,
    the total variation. The profile of a pair of data sets is convex in ``exp(epsilon)``: it is
    below every chord of a bound.
    """
    losses, profile = _tabulated_removal(noise, ridge, two_sided)
    first = np.append(np.diff(losses) > 0.0, True) & (losses > 0.0) & (losses < _LARGEST)
    below = -(0.5 / noise**2 + 6.0 / noise) * _BELOW if two_sided else np.zeros(1)
    dual = -np.expm1(below) + np.exp(below) * _addition(noise, -below, two_sided)
    # Between zero and the first loss, which may be far, the chord is all there is.
    between = np.linspace(0.0, losses[first].min(initial=_LARGEST), _CHORDS)[1:-1]
    grid = np.concatenate([below, between, losses[first]])
    bound = np.concatenate([dual * _ROUND_UP, np.ones(len(between)), profile[first]])
    gamma, kept = np.unique(np.exp(grid), return_index=True)
    return grid[kept], _lower_hull(gamma, bound[kept])


def _chain(noise: float, ridge: float, epsilon: FloatArray, two_sided: bool) -> FloatArray:
    """Bound delta of a replacement by the best removal and addition of the list, (n,).

    The sum is convex in the exponential of the first loss: the search by halving finds its minimum,
    and wherever it ends, the sum is a bound. Beyond ``1/noise^2`` the first loss is not negative.
    """
    grid, removal = _removal(noise, ridge, two_sided)

    def total(index: npt.NDArray[np.intp]) -> FloatArray:
        rest = epsilon - grid[index]
        added = np.where(rest >= 0.0, _addition(noise, np.maximum(rest, 0.0), two_sided), 1.0)
        return removal[index] + np.exp(grid[index]) * added

    low, high = np.zeros(epsilon.shape, np.intp), np.full(epsilon.shape, len(grid) - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        falls = total(np.minimum(middle + 1, len(grid) - 1)) <= total(middle)
        low, high = np.where(falls & (low < high), middle + 1, low), np.where(falls, high, middle)
    return np.minimum(total(low) * _ROUND_UP, 1.0)


def removal_delta(
    noise: float, ridge: float, epsilon: npt.ArrayLike, *, two_sided: bool = False
) -> Any:
    """Bound delta where one record is removed.

    Adding it is 1/noise-GDP at epsilon from zero on; with ``two_sided``, twice that at most.

    Parameters
    ----------
    noise, ridge : float, positive
        ``sigma / (R s h)`` and ``lambda / (R^2 s)``.
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats.
    two_sided : bool, default=False
        As for :func:`objective_delta`.

    Returns
    -------
    float or ndarray
        Upper bound on delta.
    """
    loss = check_real("epsilon", epsilon)
    grid, removal = _removal(noise, ridge, two_sided)
    # A profile falls: the value at the last loss of the grid not above epsilon is a bound.
    bound = removal[np.searchsorted(grid, loss, side="right") - 1]
    exact = loss >= _removal_is_addition(noise, ridge, two_sided)
    return as_result(np.where(exact, _addition(noise, loss, two_sided), bound))


def objective_delta(
    noise: float,
    ridge: float,
    epsilon: npt.ArrayLike,
    *,
    output_mu: float = 0.0,
    two_sided: bool = False,
    n_classes: int = 2,
    rows: int = 1,
) -> Any:
    """Bound delta of objective perturbation where one record is replaced.

    Parameters
    ----------
    noise : float, positive
        ``sigma / (R s h)``: standard deviation of the noise in the objective over the largest
        norm and weight of a record, and the largest slope of the loss.
    ridge : float, positive
        ``lambda / (R^2 s)``: penalty of the summed objective, in the same units.
    epsilon : float or array-like, at least 0
        Bound on the log-likelihood ratio, in nats.
    output_mu : float, default=0.0
        The mu of Gaussian noise on the parameters, with which the two are composed.
    two_sided : bool, default=False
        The slope of a record has both signs and its curvature is at most 1, as that of the
        pseudo-Huber loss; else the loss is the logistic one.
    n_classes : int, default=2
        More than two for softmax regression, whose largest slope h is ``sqrt(2)``.
    rows : int, default=1
        Number of records that are replaced together.

    Returns
    -------
    float or ndarray
        Upper bound on delta; without noise on the parameters that of ``2/noise``-GDP, or twice
        that, wherever this is proved.

    Examples
    --------
    >>> f"{objective_delta(8.0, 2.0, 1.0):.2e}"
    '2.92e-06'
    >>> objective_delta(8.0, 1.0, 1.0) > objective_delta(8.0, 2.0, 1.0)
    True
    """
    noise = check_scalar("noise", noise, low_open=True)
    ridge = check_scalar("ridge", ridge, low_open=True)
    loss = check_real("epsilon", epsilon)
    if output_mu == 0.0:
        return as_result(_replacement(noise, ridge, loss, two_sided, n_classes, rows))
    # The mean over the loss of the other release of delta at what is left of epsilon.
    rest = loss[..., None] - output_mu * (_BESIDE[1:] + 0.5 * output_mu)
    found = _replacement(noise, ridge, rest, two_sided, n_classes, rows) @ np.diff(ndtr(_BESIDE))
    return as_result(np.minimum((found + 2.0 * ndtr(_BESIDE[0])) * _ROUND_UP, 1.0))


def _largest_determinant(ridge: float, n_classes: int) -> float:
    """Logarithm of the largest determinant of a record of K > 2 classes, kappa."""
    return (n_classes - 1) * float(np.log1p(1.0 / (n_classes * ridge))) * _ROUND_UP


@functools.lru_cache(maxsize=16)
def _tails_of_classes(n_classes: int) -> FloatArray:
    """Bound the tail at ``_TABLE`` of the largest difference to one of K normal numbers, (n,).

    Over ``sqrt(2)``. At the left end of each cell of that one number the others are most likely
    to pass it.
    """
    left, weight = _NORMAL[:-1], np.diff(ndtr(_NORMAL))
    others = (n_classes - 1) * log_ndtr(np.sqrt(2.0) * _TABLE[:, None] + left)
    found = -np.expm1(others) @ weight + ndtr(left[0])
    return np.minimum(found * _ROUND_UP, (n_classes - 1) * ndtr(-_TABLE))


def _many_classes(noise: float, ridge: float, epsilon: FloatArray, n_classes: int) -> FloatArray:
    """Bound delta of a replacement of K > 2 classes at epsilon from zero on.

    The least of three: the sum over pairs of classes; the maximum over the classes E with its tail
    below ``K - 1`` normal ones, in closed form; and with its own tail, in cells.
    """
    mu, kappa = 2.0 / noise, _largest_determinant(ridge, n_classes)
    half = (n_classes - 1) * float(np.log1p(1.0 / (2.0 * n_classes * ridge + 1.0)))
    rest, result = epsilon - kappa, np.ones(epsilon.shape)
    known, others = rest >= 0.0, n_classes - 1
    # Of two records, or of one, that are sure of a class that is not theirs.
    pairs = (others, 1.0), (others * (n_classes - 2), np.sqrt(0.75)), (2 * others, 0.5)
    united = sum(n * gaussian_delta(mu * share, rest[known]) for n, share in pairs)
    factor = np.exp(min(half + mu**2 / 8.0, _LARGEST)) * _ROUND_UP
    closed = factor * others * gaussian_delta(mu, rest[known])
    result[known] = np.minimum(np.minimum(united * _ROUND_UP, closed), 1.0)
    # (exp(mu E / 2) - exp(rest - mu E / 2))_+ grows in E: in a cell its tail is that at the left.
    tails, end, step = _tails_of_classes(n_classes), float(_TABLE[-1]), 0.5 * mu * _TABLE[1]
    usable = (rest < min(mu * end, _LARGEST)) & (mu * end < _LARGEST)
    rest = np.where(usable, rest, 0.0)
    up = np.exp(np.minimum(0.5 * mu * _TABLE, _LARGEST))
    with np.errstate(over="ignore"):  # where it is not usable
        rises = up[:-1] * np.expm1(min(step, _LARGEST)), -np.expm1(-step) / up[:-1]
    sums = [np.append(np.cumsum((tails[:-1] * rise)[::-1])[::-1], 0.0) for rise in rises]
    # The first cell holds the point where it is zero.
    cell = np.maximum(np.searchsorted(_TABLE, rest / mu, side="right"), 1)
    inside = np.maximum(-up[cell] * np.expm1(rest - mu * _TABLE[cell]), 0.0)
    at_zero = -np.expm1(np.minimum(rest, 0.0))
    found = at_zero + tails[cell - 1] * (inside - at_zero)
    found += sums[0][cell] + np.exp(rest) * sums[1][cell]
    beyond = 2.0 * others * factor * ndtr(0.5 * mu - end)
    return np.where(usable, np.minimum(result, (found * np.exp(half) + beyond) * _ROUND_UP), result)


def _replacement(
    noise: float, ridge: float, epsilon: FloatArray, two_sided: bool, n_classes: int, rows: int
) -> FloatArray:
    """Bound delta of a replacement of some records at any epsilon, also below zero."""
    loss, below, mu = np.abs(epsilon), np.minimum(epsilon, 0.0), 2.0 / noise
    result = np.array(gaussian_delta(mu, loss), dtype=np.float64)
    exact = (loss >= 2.0 / ridge) | (loss <= 1.0 / noise**2)
    if rows > 1:
        result = _of_persons(noise, ridge, loss, two_sided, n_classes, rows)
    elif n_classes > 2:
        # 1 - delta is concave in exp(epsilon), and zero where that is.
        later = np.maximum(_largest_determinant(ridge, n_classes) + mu * (_LATER + 0.5 * mu), 0.0)
        known = _many_classes(noise, ridge, later, n_classes)
        chord = np.exp(-np.maximum(later - loss[..., None], 0.0)) * (1.0 - known)
        direct = _many_classes(noise, ridge, loss, n_classes)
        result = np.minimum(direct, (1.0 - chord.max(axis=-1)) * _ROUND_UP)
    elif two_sided:
        exact = loss >= max(4.0 / ridge, 2.0 / ridge + 0.25 * mu**2)
        # At small epsilon other sums are less.
        chain = _chain(noise, ridge, loss, two_sided)
        result = np.where(exact, np.minimum(2.0 * result, chain), chain)
    elif not exact.all():
        result[~exact] = _chain(noise, ridge, loss[~exact], two_sided)
    return np.where(epsilon < 0.0, -np.expm1(below) + np.exp(below) * result, result)


def _of_persons(
    noise: float, ridge: float, epsilon: FloatArray, two_sided: bool, n_classes: int, rows: int
) -> FloatArray:
    """Bound delta where several records are replaced, at epsilon from zero on.

    Of mu-GDP once, ``rows mu``-GDP; and the sum of single additions and then removals, whose
    Gaussian profiles make one of them all, wherever each of them is proved.
    """
    once = objective_mu(noise, ridge, two_sided=two_sided, n_classes=n_classes)
    result = np.asarray(gaussian_delta(min(rows * once, _LARGEST), epsilon))
    if n_classes > 2:
        return result
    mu, sides = 2.0 * rows / noise, 1.0 + two_sided
    proved = epsilon >= max(2.0 * sides * rows / ridge, 0.5 * mu**2)
    return np.where(proved, np.minimum(result, sides * gaussian_delta(mu, epsilon)), result)


@functools.lru_cache(maxsize=64)
def objective_epsilon(
    noise: float,
    ridge: float,
    delta: float,
    *,
    output_mu: float = 0.0,
    two_sided: bool = False,
    n_classes: int = 2,
    rows: int = 1,
) -> float:
    """Bound epsilon of objective perturbation at a delta, where one record is replaced.

    Parameters
    ----------
    noise, ridge, output_mu : float
        As for :func:`objective_delta`.
    delta : float in (0, 1)
        Probability that the bound may fail.
    two_sided, n_classes, rows : bool, int, int
        As for :func:`objective_delta`.

    Returns
    -------
    float
        epsilon in nats, from above; infinite for a delta that no number stands for.

    Examples
    --------
    >>> round(objective_epsilon(8.0, 2.0, 3e-6), 3)
    0.999
    """
    delta = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    given: dict[str, Any] = {"two_sided": two_sided, "n_classes": n_classes, "rows": rows}
    given["output_mu"] = output_mu
    least = float(gaussian_epsilon(float(np.hypot(2.0 * rows / noise, output_mu)), delta))

    def profile(loss: Any) -> Any:
        return objective_delta(noise, ridge, loss, **given)

    return least if profile(least) <= delta else profile_epsilon(profile, delta, least)


@functools.lru_cache(maxsize=64)
def objective_mu(
    noise: float, ridge: float, *, two_sided: bool = False, n_classes: int = 2
) -> float:
    """Bound the mu of Gaussian differential privacy of objective perturbation.

    Parameters
    ----------
    noise, ridge : float, positive
        As for :func:`objective_delta`.
    two_sided, n_classes : bool, int
        As for :func:`objective_delta`. With either it is well above ``2/noise``, for the sake of a
        small epsilon.

    Returns
    -------
    float
        mu from above, where one record is replaced; ``2/noise`` exactly if
        ``ridge >= 2 noise^2``, for the logistic loss of two classes.

    Notes
    -----
    The largest mu whose delta is that of the release at some epsilon: `covering_mu`. Far out, where
    delta underflows, it is below that of ``2/noise``-GDP shifted by the largest log-determinant,
    times the exponential of that and twice that with ``two_sided``, or times ``K^2 - 1`` of K
    classes: a normal loss whose tail exceeds such a tail once exceeds it ever after.

    Examples
    --------
    >>> objective_mu(8.0, 128.0)
    0.25
    >>> round(objective_mu(8.0, 4.0), 2)
    0.26
    """
    kind: dict[str, Any] = {"two_sided": two_sided, "n_classes": n_classes}
    best = 2.0 / check_scalar("noise", noise, low_open=True)
    gaussian = not two_sided and n_classes == 2
    if check_scalar("ridge", ridge, low_open=True) >= 2.0 * noise**2 and gaussian:
        return best
    shift = float(np.log1p((1.0 if two_sided else 0.25) / ridge))
    start, top = (1.0 / noise**2, 2.0 / ridge) if gaussian else (0.0, np.inf)
    factor = shift + (np.log(2.0) if two_sided else 0.0)
    if n_classes > 2:
        shift = _largest_determinant(ridge, n_classes)
        factor = float(np.log(n_classes**2 - 1.0))
    x = 35.0  # standard deviations at the end
    end = shift + best * (x + 0.5 * best)
    if end < top:
        # The tail at y < x is exp(y (x - y)) times that at x, or more.
        if 4.0 * factor > x * x:
            return float("inf")
        y = 0.5 * (x + float(np.sqrt(x * x - 4.0 * factor)))
        best = max(best, float(np.sqrt(y * y + 2.0 * end) - y))
    profile = functools.partial(objective_delta, noise, ridge, **kind)
    return covering_mu(profile, start, min(end, top), best)


@functools.lru_cache(maxsize=256)
def objective_removal_mu(noise: float, ridge: float) -> float:
    """Bound the mu of Gaussian differential privacy where one record leaves, or joins.

    Parameters
    ----------
    noise, ridge : float, positive
        As for :func:`objective_delta`, by the norm and the weight of this record alone; the loss is
        the logistic one.

    Returns
    -------
    float
        mu from above, ``1/noise`` or more.

    Notes
    -----
    Joining is 1/noise-GDP. In a cell of epsilon, the delta of its left end at its right end is a
    bound for leaving; beyond the last cell that is 1/noise-GDP, too.

    Examples
    --------
    >>> round(objective_removal_mu(8.0, 1.0), 3), objective_removal_mu(8.0, 128.0)
    (0.214, 0.125)
    """
    top = _removal_is_addition(noise, ridge, False)
    if top <= 0.0:
        return 1.0 / noise
    edges = np.linspace(0.0, top, _EDGES)
    delta = np.asarray(removal_delta(noise, ridge, edges[:-1])) * (1.0 + 1e-8)
    if not delta.min() > 1e-290:
        return objective_mu(noise, ridge)
    found = np.asarray(mu_from_epsilon_delta(edges[1:], np.minimum(delta, 1.0)))
    return max(1.0 / noise, float(found.max()))


@functools.lru_cache(maxsize=64)
def objective_noise_scale(
    ridge: float,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: Any = None,
    output_share: float = 0.0,
    two_sided: bool = False,
    n_classes: int = 2,
    rows: int = 1,
) -> float:
    """Smallest noise of objective perturbation that meets a target at a given ridge.

    Parameters
    ----------
    ridge : float, positive
        As for :func:`objective_delta`.
    mu : float, positive, optional
        Target in mu-GDP.
    epsilon, delta : float, optional
        Target (epsilon, delta). Give these two or mu.
    output_share : float, default=0.0
        The mu of noise on the parameters, composed with it, over ``2 rows / noise``.
    two_sided, n_classes, rows : bool, int, int
        As for :func:`objective_delta`.

    Returns
    -------
    float
        ``sigma / (R s h)``, on the side of more noise; infinite if the ridge is so small
        that no noise is enough.

    Examples
    --------
    >>> objective_noise_scale(8.0, mu=1.0)
    2.0
    >>> round(objective_noise_scale(2.0, epsilon=1.0, delta=1e-6), 3)
    8.449
    """
    ridge = check_scalar("ridge", ridge, low_open=True)
    kind: dict[str, Any] = {"two_sided": two_sided, "n_classes": n_classes}
    both = 2.0 * rows * float(np.hypot(1.0, output_share))
    least = float(gaussian_noise_scale(both, mu=mu, epsilon=epsilon, delta=delta))
    least *= 1.0 + 1e-12 * (output_share > 0.0)  # the sum of squares is rounded

    def excess(noise: float) -> float:
        beside = 2.0 * rows * output_share / noise
        if mu is not None:
            total = np.hypot(rows * objective_mu(noise, ridge, **kind), beside)
            return float(np.log(min(total, _LARGEST) / mu))
        given = {"output_mu": beside, "rows": rows, **kind}
        reached = objective_delta(noise, ridge, epsilon or 0.0, **given)
        return float(np.log(reached) - np.log(delta))

    low, high = least, least
    for _ in range(_DOUBLINGS):
        if excess(high) <= 0.0:
            break
        low, high = high, 2.0 * high
    else:
        return float("inf")
    if high > low:
        high = float(brentq(excess, low, high, rtol=_TOLERANCE))
        while excess(high) > 0.0:
            high *= 1.0 + _TOLERANCE
    return high


def objective_ridge(
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    two_sided: bool = False,
    n_classes: int = 2,
    rows: int = 1,
) -> float:
    """Smallest ridge at which a target costs the noise of the Gaussian mechanism, a public rule.

    Parameters
    ----------
    mu : float, positive, optional
        Target in mu-GDP.
    epsilon : float, positive, optional
        Epsilon of a target (epsilon, delta). Give one of the two.
    two_sided : bool, default=False
        As for :func:`objective_delta`. The noise is that of half of delta then, and for mu that of
        any larger ridge but for a few thousandths up to ``mu=2``.
    n_classes : int, default=2
        As for :func:`objective_delta`. Of K > 2 classes no ridge takes the determinant off: at the
        rule kappa is at most a tenth of epsilon, or of ``mu / sqrt(2 pi)``.
    rows : int, default=1
        As for :func:`objective_delta`.

    Returns
    -------
    float
        ``lambda / (R^2 s)``: ``2 / epsilon``, with ``two_sided`` twice that, or ``8 / mu^2``; times
        ``1.03 rows`` and ``rows^2`` for more rows; of many classes ``10 (1 - 1/K) / epsilon`` or
        ``10 sqrt(2 pi) (1 - 1/K) / mu``, times ``12 rows`` and ``rows``; rounded up.

    Examples
    --------
    >>> round(objective_ridge(epsilon=1.0), 6), round(objective_ridge(mu=1.0), 6)
    (2.0, 8.0)
    """
    if (mu is None) == (epsilon is None):
        raise ValueError(f"The target must be `mu` or `epsilon`; got mu={mu}, epsilon={epsilon}.")
    if mu is not None:
        mu = check_scalar("mu", mu, low_open=True) / rows
    elif n_classes > 2 and epsilon is not None:
        epsilon = epsilon / (rows if rows == 1 else 12.0 * rows)  # then mu counts, about eps / 5
    if n_classes > 2:
        kept = epsilon if mu is None else mu / np.sqrt(2.0 * np.pi)
        kept = _DETERMINANT * check_scalar("epsilon", kept, low_open=True)
        return float((1.0 - 1.0 / n_classes) / kept * _ROUND_UP)
    if epsilon is not None:
        curvature = 2.0 if two_sided else 1.0
        least = 2.0 * curvature / check_scalar("epsilon", epsilon, low_open=True)
        return least * (1.0 if rows == 1 else _ROOM * rows) * _ROUND_UP
    assert mu is not None
    return 8.0 / mu**2 * _ROUND_UP
