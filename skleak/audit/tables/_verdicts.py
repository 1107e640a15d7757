"""What the intervals of an audit say about its bounds."""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from skleak.metrics import (
    BIASED,
    CONSISTENT,
    EXCEEDED,
    VACUOUS,
    detectable_excess,
    multiplicity_correction,
    p_value_exceeds,
    verdict,
)
from skleak.utils._typing import Array, FloatArray


def success_verdict(low: float, high: float, limit: float, n_secrets: int, level: float) -> str:
    """Judge a success probability against its tightest bound, or the most that this may be.

    The bound is an average over secrets drawn from the prior. Where the actual ones are attacked,
    they are a single draw, by chance easier or harder than the average: with ``low`` the true
    success on them, chance alone explains it with probability at most
    ``exp(-n_secrets KL(low || limit))`` (Hoeffding 1963), and the verdict allows for that.
    """
    if np.isnan(limit):
        return VACUOUS
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
    limit: float,
    n_secrets: int,
    level: float,
) -> float:
    """Excess of the success over the limit that `success_verdict` would find in 80% of audits.

    Shapes: ``shares`` (n_releases,); returns: NaN where there is no bound to exceed, infinite
    where no success would be found.
    """
    if np.isnan(limit) or limit >= 1.0:
        return np.nan
    least = _chance_limit(limit, n_secrets, level) if n_secrets > 0 else limit
    if shares is None and games == 0:
        excess = 0.0 if least < 1.0 else np.inf
    elif shares is None:
        excess = detectable_excess(games, least, level, method="binomial")
    else:
        spread = float(np.std(shares, ddof=1)) if len(shares) > 1 else None
        excess = detectable_excess(len(shares), least, level, standard_deviation=spread)
    return least - limit + excess


def error_verdict(low: float, high: float, biased: bool) -> str:
    """Judge a mean squared error, relative to its lower bound for unbiased attacks."""
    if np.isnan(low) or np.isnan(high):
        return VACUOUS
    judged = str(verdict(low, high, 1.0, side="lower"))
    return BIASED if judged == EXCEEDED and biased else judged


def record_verdicts(counts: FloatArray, trials: int, bounds: FloatArray, level: float) -> Array:
    """Judge every record by itself, in games of its own.

    Shapes: ``counts`` (n_attacks, n_records); ``bounds`` (n_records,); returns (n_records,): the
    worst over the attacks. Exact binomial tests, corrected by Holm's method over all records and
    attacks.
    """
    p_values = p_value_exceeds(counts, trials, np.minimum(bounds, 1.0))
    adjusted: Any = multiplicity_correction(np.ravel(p_values)).reshape(counts.shape)
    exceeded = (adjusted <= 1.0 - level).any(axis=0)
    return np.select([exceeded, bounds >= 1.0], [EXCEEDED, VACUOUS], CONSISTENT)
