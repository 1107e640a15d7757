"""What the intervals of an audit say about its bounds."""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from skleak.metrics import detectable_excess, multiplicity_correction, p_value_exceeds, verdict
from skleak.metrics._verdict import CONSISTENT, EXCEEDED, VACUOUS
from skleak.utils._typing import Array, FloatArray

__all__ = ["BIASED", "error_verdict", "found_excess", "record_verdicts", "success_verdict"]

# The bound of Cramer and Rao for unbiased attacks says nothing against a biased one.
BIASED = "below the unbiased bound"


def success_verdict(
    low: float, high: float, bound: float, standard_error: float, n_secrets: int, level: float
) -> str:
    """Judge a success probability against the tightest of its bounds.

    Parameters
    ----------
    low, high : float
        Confidence interval of the success, in [0, 1], whose coverage is proven.
    bound : float
        Tightest upper bound on it; NaN where no bound was asked for.
    standard_error : float
        Of the bound, where it was integrated by quasi Monte Carlo.
    n_secrets : int
        Number of secrets that were not drawn anew for each game; 0 where all were.
    level : float
        Confidence level.

    Returns
    -------
    str

    Notes
    -----
    The bound is an average over secrets drawn from the prior. Where the actual ones are attacked,
    they are a single draw, by chance easier or harder than the average: with ``low`` the true
    success on them, chance alone explains it with probability at most
    ``exp(-n_secrets KL(low || bound))`` (Hoeffding 1963), and the verdict allows for that.

    Examples
    --------
    >>> success_verdict(0.61, 0.7, 0.6, 0.0, 0, 0.95)
    'bound exceeded'
    >>> success_verdict(0.61, 0.7, 0.6, 0.0, 100, 0.95)
    'consistent with the bound'
    """
    if np.isnan(bound):
        return VACUOUS
    limit = bound + 4.0 * standard_error
    judged = str(verdict(low, high, limit))
    if judged == EXCEEDED and n_secrets > 0 and low <= _chance_limit(limit, n_secrets, level):
        return CONSISTENT
    return judged


def _chance_limit(bound: float, n_secrets: int, level: float) -> float:
    """Success on secrets that were not drawn anew up to which chance alone explains it."""

    def surplus(success: float) -> float:
        divergence = rel_entr(success, bound) + rel_entr(1.0 - success, 1.0 - bound)
        return float(n_secrets * divergence + np.log1p(-level))

    if bound <= 0.0:
        return 0.0
    return 1.0 if surplus(1.0) <= 0.0 else float(brentq(surplus, bound, 1.0))


def found_excess(
    shares: FloatArray | None,
    games: int,
    bound: float,
    standard_error: float,
    n_secrets: int,
    level: float,
) -> float:
    """Excess of the success over its bound that `success_verdict` would find in 80% of audits.

    Parameters
    ----------
    shares : ndarray of shape (n_releases,) or None
        Success with the records of each release, which gives the spread between releases; None
        where every game has a release of its own.
    games : int
        Number of games; 0 where the success is known without error.
    bound, standard_error, n_secrets, level
        As there.

    Returns
    -------
    float
        NaN where there is no bound to exceed, infinite where no success would be found.

    Examples
    --------
    >>> round(found_excess(None, 1000, 0.5, 0.0, 0, 0.95), 3)
    0.045
    """
    limit = bound + 4.0 * standard_error
    if np.isnan(bound) or limit >= 1.0:
        return np.nan
    least = _chance_limit(limit, n_secrets, level) if n_secrets > 0 else limit
    if shares is None and games == 0:
        excess = 0.0 if least < 1.0 else np.inf
    elif shares is None:
        excess = detectable_excess(games, least, level, method="binomial")
    else:
        spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else None
        excess = detectable_excess(len(shares), least, level, standard_deviation=spread)
    return least - bound + excess


def error_verdict(low: float, high: float, biased: bool) -> str:
    """Judge a mean squared error, relative to its lower bound for unbiased attacks.

    Parameters
    ----------
    low, high : float
        Confidence interval of the error over the bound; NaN where no bound is finite.
    biased : bool
        Whether the attack is biased beyond doubt.

    Returns
    -------
    str

    Examples
    --------
    >>> error_verdict(0.2, 0.4, biased=True)
    'below the unbiased bound'
    """
    if np.isnan(low) or np.isnan(high):
        return VACUOUS
    judged = str(verdict(low, high, 1.0, side="lower"))
    return BIASED if judged == EXCEEDED and biased else judged


def record_verdicts(counts: FloatArray, trials: int, bounds: FloatArray, level: float) -> Array:
    """Judge every record by itself, in games of its own.

    Parameters
    ----------
    counts : ndarray of shape (n_attacks, n_records)
        Right guesses.
    trials : int
        Games of each record against each attack.
    bounds : ndarray of shape (n_records,)
        Tightest upper bound on the success of each record.
    level : float
        Confidence level of all verdicts together.

    Returns
    -------
    ndarray of str of shape (n_records,)
        The worst over the attacks. Exact binomial tests, corrected by Holm's method over all
        records and attacks.

    Examples
    --------
    >>> record_verdicts(np.array([[50, 99]]), 100, np.array([0.5, 0.5]), 0.95).tolist()
    ['consistent with the bound', 'bound exceeded']
    """
    p_values = p_value_exceeds(counts, trials, np.minimum(bounds, 1.0))
    adjusted: Any = multiplicity_correction(np.ravel(p_values)).reshape(counts.shape)
    exceeded = (adjusted <= 1.0 - level).any(axis=0)
    return np.select([exceeded, bounds >= 1.0], [EXCEEDED, VACUOUS], CONSISTENT)
