"""Weights that are hard to find, by way of bounded ones.

Under a bound close to one all weights are nearly one, and easily found. As the bound rises they
turn into those that are wanted, and each solution is a start for the next. The steps adapt: longer
where few fits were needed, shorter where a solution was not found. Where even short steps fail, the
solutions end there, or have a kink: there may be no fixed point at all.
"""

from collections.abc import Callable
from dataclasses import replace

from skleak.influence.reweighting._acceleration import Equalized, State
from skleak.influence.state import WeightRule
from skleak.utils._typing import FloatArray

# Solves for the weights of a rule from a start: rule, start, spread to reach, most refits.
Solver = Callable[[WeightRule, FloatArray, float, int], Equalized[State]]

_FIRST_STEP, _SMALLEST_STEP, _LARGEST_BOUND = 1.5, 1.03, 100.0
_LONGER, _SHORTER = 1.6, 0.4  # powers of the factor by which the bound rises
_FEW_FITS, _MOST_FITS = 4, 10
_ROUGH = 1e-2  # spread of a solution that is good enough to go on from


def follow_bound(
    solve: "Solver[State]", rule: WeightRule, start: FloatArray, tol: float, max_fits: int
) -> Equalized[State] | None:
    """Raise the bound of the weights up to that of a rule.

    Parameters
    ----------
    solve : callable
        ``solve(rule, start, tol, max_fits)`` returns the best weights that it found.
    rule : WeightRule
        Whose weights are wanted.
    start : ndarray of shape (n,)
        Factors of one.
    tol : float
        Relative spread to reach.
    max_fits : int
        Largest number of fits in all.

    Returns
    -------
    Equalized or None
        The last result for the rule itself; None if it never came to it.

    Examples
    --------
    >>> import numpy as np
    >>> from skleak.influence.reweighting import equalize
    >>> kappa, copies, rule = np.array([1.0, 3.0]), np.ones(2), WeightRule()
    >>> def solve(rule, start, tol, max_fits):
    ...     def measure(w):
    ...         return rule.losses(w, kappa, copies), None
    ...
    ...     return equalize(measure, copies, max_iter=max_fits, tol=tol, start=start)
    >>> follow_bound(solve, rule, copies, 1e-9, 100).reweights.round(6)
    array([1.5, 0.5])
    """
    bound, step, fits = 1.0, _FIRST_STEP, 0
    while fits < max_fits and step >= _SMALLEST_STEP:
        higher = bound * step
        if higher >= min(rule.largest_weight, _LARGEST_BOUND):
            result = solve(rule, start, tol, min(2 * _MOST_FITS, max_fits - fits))
            if result.spread <= max(tol, _ROUGH) or rule.largest_weight <= bound * _SMALLEST_STEP:
                return result
        else:
            rough = replace(rule, largest_weight=higher)
            result = solve(rough, start, _ROUGH, min(_MOST_FITS, max_fits - fits))
        fits += len(result.history)
        if result.spread <= _ROUGH:
            start, bound = result.reweights, higher
            step = step**_LONGER if len(result.history) <= _FEW_FITS else step
        else:
            step = step**_SHORTER
    return None
