"""Gaussian mechanisms on random subsets of the records.

Gaussian noise on batches of a fixed size, drawn without replacement, when a record is replaced.

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

Subsampled Gaussian noise, by the privacy loss distributions of dp-accounting.

Under Poisson sampling the worst neighbors are known. Given what else is in a batch, the releases
of two data sets that differ in one record are, in units of the noise, with g and g' its gradients,

    P = (1 - q) N(0) + q N(g),    Q = (1 - q) N(0) + q N(g'),    |g|, |g'| <= D.

For ``gamma >= 1`` their hockey-stick divergence is ``E (q X - gamma q Y - (1 - q)(gamma - 1))_+``
with log-normal X and Y of mean 1: it grows with the variance of either, as the positive part is
convex, and as their covariance falls (it is the price of a spread option). It is largest at
``g = -g'`` of length D, for all gamma at once.

Renyi divergence of subsampled Gaussian noise, by quadrature.

With L the likelihood ratio of a pair (P, Q), ``exp((order - 1) D) - 1`` is the mean under Q of
``L^order - 1 - order (L - 1)``, which is not negative. Of batches of a fixed size only the profile
``h(gamma)`` is known: the divergence is at most the integral of ``order (order - 1)
(gamma^(order - 2) + gamma^(-order - 1)) h(gamma)`` over ``gamma >= 1``. With Q = N(0) and
``L = 1 - q + q exp(t D - D^2/2)`` that is the mean of ``L^order + L^(1 - order) - L - 1`` where
``L >= 1``.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from skleak.accounting._composition import ROUND_UP, tradeoff_curve
from skleak.accounting.discrete import discretized_profile
from skleak.accounting.gaussian import gaussian_delta, mu_from_epsilon_delta
from skleak.utils._arguments import (
    as_result,
    broadcast,
    check_choice,
    check_real,
    check_scalar,
    import_optional,
)
from skleak.utils._blocks import row_blocks
from skleak.utils._typing import FloatArray

# Losses are multiples of this, or wider where there would be more than so many on either side.
_STEP, _MOST = 1e-4, 200_000
# Standard deviations beyond which all is counted as infinite loss.
_CURVE_TAIL = 10.0


def loss_grid(distance: float) -> tuple[float, float]:
    """Step of a grid of losses of a Gaussian step, and the largest of them."""
    farthest = distance * (0.5 * distance + _CURVE_TAIL)
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
    """Privacy loss distribution of one step, discretized pessimistically.

    ``pld`` is the package of dp-accounting; ``distance`` is that of two gradients over the noise.
    """
    step, farthest = loss_grid(distance)
    end = np.logaddexp(np.log1p(-rate), np.log(rate) + farthest) if rate < 1.0 else farthest
    n = int(np.ceil(end / step))
    delta = fixed_size_profile(step * np.arange(-n, n + 1.0), distance, rate)
    delta = np.clip(np.minimum.accumulate(delta), 0.0, 1.0)
    pmf = pld.pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -n, n, delta)
    return pld.privacy_loss_distribution.PrivacyLossDistribution(pmf)


RELATIONS = {"add-or-remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}
# Points of epsilon at which the curve is compared with that of mu-GDP.
_GRID = 5001
# Beyond it their exponential overflows, and no guarantee is worth to be stated.
_LARGEST = 500.0
PURPOSE = "Accounting for subsampled noise"


@dataclass(frozen=True)
class SubsampledGaussian:
    """Many steps of Gaussian noise on sums of clipped contributions of random batches.

    The accounting of private stochastic gradient descent: in each step every record enters the
    batch with probability ``sampling_rate``, its contribution is clipped to norm C, and noise of
    standard deviation ``noise_multiplier * C`` is added to the sum. The privacy loss distribution
    is discretized pessimistically: no number is below the truth. For batches of a fixed size it is
    that of the bound ``delta'(gamma) = q delta(1 + (gamma - 1) / q)`` (Balle, Barthe, Gaboardi
    2018), composed as Zhu, Dong, Wang (2022) do. Needs the extra ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch; of batches of a fixed size, that over the number
        of records.
    n_steps : int, at least 1
        Number of batches.
    relation : {"add-or-remove", "replace"}, default="add-or-remove"
        What neighboring data sets are. Replacing a record, as two values of a secret do, moves the
        sum by up to 2 C.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn, afresh in each step: every record by itself, or a fixed number of
        them without replacement. The second is known under replacement alone: the number of
        records, and with it the rate, changes with a record.

    Raises
    ------
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range, an unknown relation or sampling, or batches of a fixed size
        when a record is added or removed.

    Examples
    --------
    >>> import numpy as np
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> steps = SubsampledGaussian(1.0, 0.01, 1000)
    >>> round(steps.epsilon(1e-5), 2)
    1.83
    >>> round(1.0 - float(np.interp(0.01, *steps.curve())), 2)  # power at 1 % false positives
    0.03
    >>> round(SubsampledGaussian(1.0, 0.01, 1000, "replace").mu(1e-9), 2)
    0.69
    """

    noise_multiplier: float
    sampling_rate: float
    n_steps: int
    relation: str = "add-or-remove"
    sampling: str = "poisson"

    def __post_init__(self) -> None:
        """Check all of it, and make plain numbers of it."""
        n_steps = self.n_steps
        sigma = check_scalar("noise_multiplier", self.noise_multiplier, low_open=True, finite=True)
        rate = check_scalar("sampling_rate", self.sampling_rate, low_open=True, high=1.0)
        if not isinstance(n_steps, Integral) or isinstance(n_steps, bool) or n_steps < 1:
            raise ValueError(f"`n_steps` must be an integer of at least 1; got {n_steps!r}.")
        self.__dict__.update(noise_multiplier=sigma, sampling_rate=rate, n_steps=int(n_steps))
        check_choice("relation", self.relation, RELATIONS)
        check_choice("sampling", self.sampling, ("poisson", "fixed"))
        if self.sampling == "fixed" and self.relation != "replace":
            raise ValueError(
                "`relation` must be 'replace' where batches have a fixed size; got "
                f"{self.relation!r}. With a record more or less their share of the records is "
                "another one."
            )

    def epsilon(self, delta: float) -> float:
        """Return epsilon in nats; below a delta of about 1e-20 discretization makes it infinite."""
        return float(_composed(self).get_epsilon_for_delta(_open_share("delta", delta)))

    def curve(self) -> tuple[FloatArray, FloatArray]:
        """Bound the trade-off curve from below, as corners ``(alpha, beta)``.

        Straight lines between them hold: ``bounds.curve_advantage(..., between="linear")``.
        """
        return tradeoff_curve(_composed(self))

    def mu(
        self, delta: float, *, n_parameters: int = 1, relative_step: float | None = None
    ) -> float:
        """Bound the mu for which these steps are mu-GDP up to a delta.

        Far out in the tail a record may have been in all batches, so that no mu below
        ``sqrt(n_steps) / noise_multiplier`` holds everywhere. Up to ``delta`` a much smaller one
        does: at every epsilon the privacy curve is at most ``delta + (1 - delta) * H``, with H that
        of mu-GDP. Such guarantees compose: mu in quadrature, deltas as a sum at most. The curve is
        raised by 1e-11 for round-off (by 1e-16 a step beyond 1e5 of them); between points of a grid
        of epsilon it is replaced by its value at the lower one, and mu-GDP by that at the upper
        one.

        Parameters
        ----------
        delta : float, strictly between 0 and 1
            Probability that the guarantee may fail.
        n_parameters : int, default=1
            Numbers of one step; matters for noise on a grid alone.
        relative_step : float, in (0, 1], optional
            One unit over the noise scale, for discrete Gaussian noise on integers. Without it noise
            is Gaussian.

        Returns
        -------
        float
            Infinite for a delta of at most 1e-11, where round-off hides the curve, and where
            epsilon at delta passes 500.
        """
        failure, loss, n_steps = _open_share("delta", delta), _composed(self), self.n_steps
        rounding, end = ROUND_UP * max(1.0, n_steps / 1e5), np.inf
        if failure > rounding:
            end = loss.get_epsilon_for_delta(0.5 * (failure - rounding))
        if end > _LARGEST:
            return float("inf")
        epsilon = np.linspace(0.0, end, _GRID)
        curve = np.asarray(loss.get_delta_for_epsilon(epsilon)) + rounding
        if relative_step is not None:
            grid = n_parameters, n_steps, relative_step
            shifted, curve = discretized_profile(epsilon, curve, *grid)
            # Below the first point: delta falls by expm1(epsilon) at most.
            epsilon = np.r_[0.0, shifted]
            curve = np.r_[curve[0] + np.expm1(shifted[0]), curve]
        if curve[-1] > failure:
            return float("inf")
        # Both directions are in the curve, so that it holds below zero if it does above.
        excess = np.clip((curve[:-1] - failure) / (1.0 - failure), 0.0, 1.0)
        # `mu_from_epsilon_delta` is rounded down, by 1e-9 of delta.
        mu = mu_from_epsilon_delta(epsilon[1:], np.minimum(excess * (1.0 + 1e-8), 1.0))
        return float(np.max(mu) * (1.0 + 1e-9))


def _open_share(name: str, value: float) -> float:
    return check_scalar(name, value, low_open=True, high=1.0, high_open=True)


def _composed(steps: SubsampledGaussian) -> Any:
    """Privacy loss distribution of all steps, of dp-accounting."""
    modules = ("dp_accounting", "dp_accounting.pld")
    return _loss_distribution(steps, *(import_optional(m, "accounting", PURPOSE) for m in modules))


@functools.lru_cache(maxsize=4)  # which is asked for epsilon and for the curve of the same steps
def _loss_distribution(steps: SubsampledGaussian, dp: Any, pld: Any) -> Any:
    sigma, rate = steps.noise_multiplier, steps.sampling_rate
    if steps.sampling == "fixed":
        return fixed_size_pld(pld, 2.0 / sigma, rate).self_compose(steps.n_steps)
    step, _ = loss_grid((2.0 if steps.relation == "replace" else 1.0) / sigma)
    return pld.privacy_loss_distribution.from_gaussian_mechanism(
        sigma,
        value_discretization_interval=step,
        sampling_prob=rate,
        neighboring_relation=dp.NeighboringRelation[RELATIONS[steps.relation]],
    ).self_compose(steps.n_steps)


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
    rate = check_real("sampling_rate", sampling_rate, high=1.0)
    reach = check_real("distance", distance)
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


# The divergence is raised by this much, more than quadrature and round-off are wrong by.
_RENYI_ROUND_UP = 1e-9
# Standard deviations beyond which integrands have vanished.
_RENYI_TAIL = 13.0
# Divergence of a step, in nats, from which on sampling is not counted: it hardly lowers it.
_LARGE = 500.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_N_TERMS = 12


def subsampled_gaussian_rdp(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    order: npt.ArrayLike = 2.0,
    *,
    relation: str = "replace",
    sampling: str = "poisson",
) -> Any:
    """Renyi differential privacy of many steps of Gaussian noise on random batches.

    Order 2 is what [DRA22] theorem 1 takes (`bounds.hammersley_chapman_robbins_mse`). Under Poisson
    sampling this is the divergence of the worst pair of data sets: one step is the mixture of N(0)
    and N(1) against that of N(0) and N(-1) under replacement, against N(0) or from it where a
    record is added or removed. For batches of a fixed size it is an upper bound, from the privacy
    profile of `subsampled_gaussian_epsilon`.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch; of batches of a fixed size, that over the number
        of records.
    n_steps : int, at least 1
        Number of batches, each drawn afresh.
    order : array-like of shape (...), default=2
        Orders of the divergence, above 1.
    relation : {"replace", "add-or-remove"}, default="replace"
        What neighboring data sets are. [DRA22] theorem 1 compares two values of a record, which is
        replacement, and is fed that of adding and removing there.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn; "fixed" is known under replacement alone.

    Returns
    -------
    float or ndarray of shape (...)
        Divergence in nats, rounded upward by a billionth of itself.

    Raises
    ------
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range, an unknown relation or sampling, or batches of a fixed size
        when a record is added or removed.

    See Also
    --------
    rdp : Without sampling.

    Examples
    --------
    >>> round(subsampled_gaussian_rdp(1.0, 0.01, 500), 4)
    0.2288
    >>> round(subsampled_gaussian_rdp(1.0, 0.01, 500, relation="add-or-remove"), 4)
    0.0859
    """
    steps = SubsampledGaussian(noise_multiplier, sampling_rate, n_steps, relation, sampling)
    orders = check_real("order", order, low=1.0, low_open=True, finite=True)
    reach, kind = 1.0 / steps.noise_multiplier, relation if sampling == "poisson" else "fixed"
    found = [_one_step(reach, steps.sampling_rate, each, kind) for each in orders.ravel().tolist()]
    total = steps.n_steps * np.array(found).reshape(orders.shape) * (1.0 + _RENYI_ROUND_UP)
    return as_result(total)


def _one_step(reach: float, rate: float, order: float, kind: str) -> float:
    """Divergence of one step, of gradients that are ``reach`` long in units of the noise."""
    whole = 0.5 * order * (reach if kind == "add-or-remove" else 2.0 * reach) ** 2
    if whole * max(1.0, order - 1.0) > _LARGE or rate == 1.0:
        return whole
    if kind == "fixed":
        found = [_fixed(2.0 * reach, rate, order)]
    elif kind == "replace":
        found = [_divergence(reach, -reach, rate, order)]
    else:
        found = [_divergence(reach, 0.0, rate, order), _divergence(0.0, reach, rate, order)]
    return float(min(np.logaddexp(0.0, max(found)) / (order - 1.0), whole))


def _divergence(own: float, other: float, rate: float, order: float) -> float:
    """Logarithm of ``E_Q [L^order - 1 - order (L - 1)]`` for means of the two mixtures."""
    reach = max(abs(own), abs(other))
    end = 2.0 * order * reach + _RENYI_TAIL
    t, log_weight = _panels(-end, end, reach)
    log_p, log_q = (_log_mixture(t, mean, rate) for mean in (own, other))
    log_phi = -0.5 * t**2 - _HALF_LOG_2PI
    terms = _log_excess(log_p - log_q, (1.0, -order), (order, 1.0))
    return float(logsumexp(log_weight + log_phi + log_q + terms))


def _fixed(distance: float, rate: float, order: float) -> float:
    """Logarithm of ``E_N(0) [L^order + L^(1 - order) - L - 1; L >= 1]``."""
    start = 0.5 * distance
    t, log_weight = _panels(start, start + order * distance + 2.0 * _RENYI_TAIL, distance)
    log_ratio = _log_mixture(t, distance, rate)
    log_phi = -0.5 * t**2 - _HALF_LOG_2PI
    terms = _log_excess(log_ratio, (1.0, 1.0, -1.0), (order, 1.0 - order, 1.0))
    return float(logsumexp(log_weight + log_phi + terms))


def _panels(low: float, high: float, reach: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and logarithms of weights of Gauss and Legendre's rule on many panels."""
    n = int(np.ceil((high - low) * max(2.0, 2.0 * reach)))
    edges = np.linspace(low, high, n + 1)
    half = 0.5 * (high - low) / n
    t = (edges[:-1, None] + half * (_NODES + 1.0)).ravel()
    return t, np.tile(np.log(half * _WEIGHTS), n)


def _log_mixture(t: FloatArray, mean: float, rate: float) -> FloatArray:
    """Logarithm of ``(1 - q) N(0) + q N(mean)`` over N(0) at t (n,)."""
    exponent = t * mean - 0.5 * mean**2
    # Near zero without cancellation; elsewhere without overflow.
    small = np.log1p(rate * np.expm1(np.minimum(exponent, 1.0)))
    large = np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    return np.where(exponent < 1.0, small, large)


def _log_excess(u: FloatArray, shares: Sequence[float], powers: Sequence[float]) -> FloatArray:
    """Logarithm of ``sum_j shares_j expm1(powers_j u)``, not negative, flat at u = 0; u (n,)."""
    c, p = np.array(shares), np.array(powers)
    largest = np.abs(p).max()
    near = np.abs(u) * largest < 0.05
    log_value = np.full(len(u), -np.inf)
    if near.any():
        factor, total = np.ones(int(near.sum())), np.zeros(int(near.sum()))
        for k in range(1, _N_TERMS):
            factor = factor * u[near] / k
            # The first moment is zero, but for rounding.
            total += factor * (0.0 if k == 1 else float(c @ p**k))
        with np.errstate(divide="ignore"):
            log_value[near] = np.log(np.maximum(total, 0.0))
    far = u[~near]
    exponents = p[:, None] * far
    top = np.maximum(exponents.max(axis=0), 0.0)
    scaled = c @ np.exp(exponents - top) - c.sum() * np.exp(-top)
    moderate = top < 30.0
    scaled[moderate] = (c @ np.expm1(exponents[:, moderate])) * np.exp(-top[moderate])
    with np.errstate(divide="ignore"):
        log_value[~near] = np.log(np.maximum(scaled, 0.0)) + top
    return log_value
