"""What an interval says about a bound."""

from typing import Any

import numpy as np
import numpy.typing as npt

from skleak.utils._arguments import broadcast, check_numbers

CONSISTENT = "consistent with the bound"
EXCEEDED = "bound exceeded"
VACUOUS = "bound vacuous"
# The bound of Cramer and Rao for unbiased attacks says nothing against a biased one.
BIASED = "below the unbiased bound"
# The attack uses what the prior of the bound leaves out.
INCOMPARABLE = "not comparable"
# Two computations of one number may differ by this much (relative to 1 or to the bound).
ROUND_OFF = 1e-12


def verdict(
    low: npt.ArrayLike, high: npt.ArrayLike, bound: npt.ArrayLike, side: str = "upper"
) -> Any:
    """Judge a measured interval against a bound.

    Parameters
    ----------
    low, high : array-like of shape (...)
        Ends of the confidence interval of what was measured, ``low <= high``; may be infinite. For
        a success, those of an interval whose coverage is proven: `binomial_interval`, or
        ``method="betting"`` where records share the noise of a release.
    bound : array-like of shape (...)
        The bound, in the same units; may be infinite.
    side : {"upper", "lower"}, default="upper"
        "upper" for an upper bound on success or advantage; "lower" for a lower bound on an error
        (Cramer-Rao), which is exceeded where the attack errs *less* than the bound allows.

    Returns
    -------
    str or ndarray of str of shape (...)
        "bound exceeded" only where the whole interval lies on the forbidden side;
        "bound vacuous" where the bound excludes nothing, an upper one of at least 1 or a lower one
        of at most 0; "consistent with the bound" otherwise. Consistent is not safe: another
        attack may do better, and a wide interval is consistent with much.

    Raises
    ------
    TypeError
        For arguments that are not numbers.
    ValueError
        For NaN, ``low > high``, shapes that do not match, or an unknown side.

    Notes
    -----
    Assumptions: the bound and the interval speak of the same prior and the same game. Where many
    verdicts are read at once, take intervals at `simultaneous_confidence_level`. Differences of
    1e-12 count as round-off.

    Examples
    --------
    >>> verdict(0.41, 0.47, 0.40)
    'bound exceeded'
    >>> verdict([0.3, 0.9], [0.5, 1.0], [0.4, 1.0]).tolist()
    ['consistent with the bound', 'bound vacuous']
    >>> verdict(0.5, 0.8, 1.0, side="lower")
    'bound exceeded'
    """
    low, high, bound = broadcast(
        low=check_numbers("low", low, empty=False),
        high=check_numbers("high", high, empty=False),
        bound=check_numbers("bound", bound, empty=False),
    )
    if np.any(low > high):
        first = np.flatnonzero(low.ravel() > high.ravel())[0]
        raise ValueError(
            f"`low` must not be above `high`; got {low.flat[first]:g} and {high.flat[first]:g}."
        )
    if side == "upper":
        vacuous = bound >= 1.0
        exceeded = low > bound + ROUND_OFF * np.maximum(np.abs(bound), 1.0)
    elif side == "lower":
        vacuous = bound <= 0.0
        exceeded = high < bound * (1.0 - ROUND_OFF)
    else:
        raise ValueError(f'`side` must be "upper" or "lower"; got {side!r}.')
    result = np.select([vacuous, exceeded], [VACUOUS, EXCEEDED], CONSISTENT)
    return str(result) if result.ndim == 0 else result
