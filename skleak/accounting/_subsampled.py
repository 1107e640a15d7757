"""Subsampled Gaussian noise, by the privacy loss distributions of dp-accounting.

Under Poisson sampling the worst neighbours are known. Given what else is in a batch, the releases
of two data sets that differ in one record are, in units of the noise, with g and g' its gradients,

    P = (1 - q) N(0) + q N(g),    Q = (1 - q) N(0) + q N(g'),    |g|, |g'| <= D.

For ``gamma >= 1`` their hockey-stick divergence is ``E (q X - gamma q Y - (1 - q)(gamma - 1))_+``
with log-normal X and Y of mean 1: it grows with the variance of either, as the positive part is
convex, and as their covariance falls (it is the price of a spread option). It is largest at
``g = -g'`` of length D, for all gamma at once.
"""

import functools
from numbers import Integral
from typing import Any

import numpy as np

from skleak.accounting._discrete import discretized_profile
from skleak.accounting._gaussian import mu_from_epsilon_delta
from skleak.accounting._subsampled_fixed import fixed_size_pld, loss_grid
from skleak.accounting._tradeoff_curve import ROUND_UP, tradeoff_curve
from skleak.utils._arguments import check_choice, check_scalar
from skleak.utils._optional import import_optional
from skleak.utils._typing import FloatArray

RELATIONS = {"add-or-remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}
SAMPLINGS = ("poisson", "fixed")
# Points of epsilon at which the curve is compared with that of mu-GDP.
_GRID = 5001
# Beyond it their exponential overflows, and no guarantee is worth to be stated.
_LARGEST = 500.0
PURPOSE = "Accounting for subsampled noise"


def subsampled_gaussian_epsilon(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    *,
    relation: str = "add-or-remove",
    sampling: str = "poisson",
) -> float:
    """Return the epsilon of many steps of Gaussian noise on random batches.

    The accounting of private stochastic gradient descent: in each step every record enters the
    batch with probability ``sampling_rate``, its contribution is clipped to norm C, and noise of
    standard deviation ``noise_multiplier * C`` is added to the sum. The privacy loss distribution
    is discretised pessimistically: the result is never below the truth. For batches of a fixed
    size it is that of the bound ``delta'(gamma) = q delta(1 + (gamma - 1) / q)`` (Balle, Barthe,
    Gaboardi 2018), composed as Zhu, Dong, Wang (2022) do. Needs the extra ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch; of batches of a fixed size, that over the number
        of records.
    n_steps : int, at least 1
        Number of batches.
    delta : float, strictly between 0 and 1
        Probability that the bound may fail; below about 1e-20 the discretisation gives infinity.
    relation : {"add-or-remove", "replace"}, default="add-or-remove"
        What neighbouring data sets are. Replacing a record moves the sum by up to 2 C, and is
        the relation of every other function here.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn, afresh in each step: every record by itself, or a fixed number of
        them without replacement. The second is known under replacement alone: the number of
        records, and with it the rate, changes with a record.

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
        For an argument out of range, an unknown relation or sampling, or batches of a fixed size
        when a record is added or removed.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> round(subsampled_gaussian_epsilon(1.0, 0.01, 1000, 1e-5), 2)
    1.83
    """
    failure = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    loss = _loss_distribution(noise_multiplier, sampling_rate, n_steps, relation, sampling)
    return float(loss.get_epsilon_for_delta(failure))


def subsampled_gaussian_tradeoff(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    *,
    relation: str = "add-or-remove",
    sampling: str = "poisson",
) -> tuple[FloatArray, FloatArray]:
    """Bound the trade-off curve of many steps of Gaussian noise on random batches.

    It is the `tradeoff_curve` of their privacy loss distribution, which is discretised
    pessimistically: nowhere above the truth. Needs the extra ``accounting``.

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
        What neighbouring data sets are; "replace" is that of two values of a secret.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn; as in `subsampled_gaussian_epsilon`.

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
        For an argument out of range, an unknown relation or sampling, or batches of a fixed size
        when a record is added or removed.

    Examples
    --------
    >>> import numpy as np
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> alpha, beta = subsampled_gaussian_tradeoff(1.0, 0.01, 1000)
    >>> round(1.0 - float(np.interp(0.01, alpha, beta)), 2)  # power at 1 % false positives
    0.03
    """
    loss = _loss_distribution(noise_multiplier, sampling_rate, n_steps, relation, sampling)
    return tradeoff_curve(loss)


def subsampled_gaussian_mu(
    noise_multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    *,
    relation: str = "add-or-remove",
    sampling: str = "poisson",
    n_parameters: int = 1,
    relative_step: float | None = None,
) -> float:
    """Bound the mu for which many steps on random batches are mu-GDP up to a delta.

    Far out in the tail a record may have been in all batches, so that no mu below
    ``sqrt(n_steps) / noise_multiplier`` holds everywhere. Up to ``delta`` a much smaller one does:
    at every epsilon the privacy curve is at most ``delta + (1 - delta) * H``, with H that of
    mu-GDP. Such guarantees compose: mu in quadrature, deltas as a sum at most. The curve is
    that of the privacy loss distribution, discretised pessimistically and raised by 1e-11 for
    round-off (by 1e-16 a step beyond 1e5 of them); between points of a grid of epsilon it is
    replaced by its value at the lower one, and mu-GDP by that at the upper one. Needs the extra
    ``accounting``.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise over the clipping norm C.
    sampling_rate : float in (0, 1]
        Probability of a record to enter a batch; of batches of a fixed size, that over the number
        of records.
    n_steps : int, at least 1
        Number of batches.
    delta : float, strictly between 0 and 1
        Probability that the guarantee may fail.
    relation : {"add-or-remove", "replace"}, default="add-or-remove"
        What neighbouring data sets are; as in `subsampled_gaussian_epsilon`.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn; as in `subsampled_gaussian_epsilon`.
    n_parameters : int, default=1
        Numbers of one step; matters for noise on a grid alone.
    relative_step : float, in (0, 1], optional
        One unit over the noise scale, for discrete Gaussian noise on integers. Without it noise is
        Gaussian.

    Returns
    -------
    float
        mu; infinite for a delta of at most 1e-11, where round-off hides the curve, and where
        epsilon at delta passes 500.

    Raises
    ------
    ImportError
        Where dp-accounting is not installed.
    TypeError
        For an argument that is not a number.
    ValueError
        For an argument out of range, an unknown relation or sampling, or batches of a fixed size
        when a record is added or removed.

    See Also
    --------
    LeakageLedger.record : Composes such guarantees.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("dp_accounting")
    >>> round(subsampled_gaussian_mu(1.0, 0.01, 1000, 1e-9, relation="replace"), 2)
    0.69
    """
    failure = check_scalar("delta", delta, low_open=True, high=1.0, high_open=True)
    loss = _loss_distribution(noise_multiplier, sampling_rate, n_steps, relation, sampling)
    rounding = ROUND_UP * max(1.0, n_steps / 1e5)
    end = loss.get_epsilon_for_delta(0.5 * (failure - rounding)) if failure > rounding else np.inf
    if end > _LARGEST:
        return float("inf")
    epsilon = np.linspace(0.0, end, _GRID)
    curve = np.asarray(loss.get_delta_for_epsilon(epsilon)) + rounding
    if relative_step is not None:
        shifted, curve = discretized_profile(epsilon, curve, n_parameters, n_steps, relative_step)
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


def check_steps(
    noise_multiplier: float, sampling_rate: float, n_steps: int, relation: str, sampling: str
) -> tuple[float, float, int]:
    """Check the arguments that describe many steps on random batches."""
    sigma = check_scalar("noise_multiplier", noise_multiplier, low_open=True, finite=True)
    rate = check_scalar("sampling_rate", sampling_rate, low_open=True, high=1.0)
    if not isinstance(n_steps, Integral) or isinstance(n_steps, bool) or n_steps < 1:
        raise ValueError(f"`n_steps` must be an integer of at least 1; got {n_steps!r}.")
    check_choice("relation", relation, RELATIONS)
    check_choice("sampling", sampling, SAMPLINGS)
    if sampling == "fixed" and relation != "replace":
        raise ValueError(
            f"`relation` must be 'replace' where batches have a fixed size; got {relation!r}. With "
            "a record more or less their share of the records is another one."
        )
    return sigma, rate, int(n_steps)


def _loss_distribution(
    noise_multiplier: float, sampling_rate: float, n_steps: int, relation: str, sampling: str
) -> Any:
    """Privacy loss distribution of all steps, of dp-accounting."""
    steps = (noise_multiplier, sampling_rate, n_steps, relation, sampling)
    sigma, rate, number = check_steps(*steps)
    for module in ("dp_accounting", "dp_accounting.pld"):
        import_optional(module, "accounting", PURPOSE)
    return _composed(sigma, rate, number, relation, sampling)


@functools.lru_cache(maxsize=4)
def _composed(sigma: float, rate: float, number: int, relation: str, sampling: str) -> Any:
    """As `_loss_distribution`, which is asked for epsilon and for the curve of the same steps."""
    dp = import_optional("dp_accounting", "accounting", PURPOSE)
    pld = import_optional("dp_accounting.pld", "accounting", PURPOSE)
    if sampling == "fixed":
        return fixed_size_pld(pld, 2.0 / sigma, rate).self_compose(number)
    step, _ = loss_grid((2.0 if relation == "replace" else 1.0) / sigma)
    return pld.privacy_loss_distribution.from_gaussian_mechanism(
        sigma,
        value_discretization_interval=step,
        sampling_prob=rate,
        neighboring_relation=dp.NeighboringRelation[RELATIONS[relation]],
    ).self_compose(number)
